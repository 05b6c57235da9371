//! Times as Java prints them.

use base::calendar::civil;

const SECONDS_PER_DAY: i64 = 86_400;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// What a stored time is counted in.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// Seconds since the Unix epoch.
    Seconds,
    /// Microseconds since the Unix epoch.
    Micros,
}

/// A time as sstabledump prints it: an instant in UTC with as many groups of three decimals as are needed.
/// Source: Cassandra 5.0 takes seconds and nanoseconds apart as here: before 1970 seconds are cut towards it, and
/// nanoseconds saturate in the year 2262. What it prints there is kept.
pub(crate) fn instant(time: i64, unit: Unit) -> String {
    let (seconds, nanos) = match unit {
        Unit::Seconds => (time, time.saturating_mul(NANOS_PER_SECOND)),
        Unit::Micros => (time / 1_000_000, time.saturating_mul(1000)),
    };
    let nanos = nanos.rem_euclid(NANOS_PER_SECOND);
    let mut text = format!("{}T{}", day(seconds.div_euclid(SECONDS_PER_DAY)), clock(seconds));
    if nanos != 0 {
        let digits = format!("{nanos:09}");
        let shown = match digits {
            _ if nanos % 1_000_000 == 0 => 3,
            _ if nanos % 1000 == 0 => 6,
            _ => 9,
        };
        text.push('.');
        text.push_str(&digits[..shown]);
    }
    text.push('Z');
    text
}

/// `hh:mm:ss` of a second since the Unix epoch.
fn clock(seconds: i64) -> String {
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
    format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// A year of four digits at least; signed where it has more, or is before the year 0.
fn year_text(year: i64) -> String {
    match year {
        10_000.. => format!("+{year}"),
        0.. => format!("{year:04}"),
        _ => format!("-{:04}", -year),
    }
}

/// `yyyy-mm-dd` of a day since the Unix epoch, as `java.time` prints it.
pub(crate) fn day(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{}-{month:02}-{day:02}", year_text(year))
}

/// A `timestamp` value: milliseconds since the Unix epoch, with this between date and time. Years before our era come
/// without a sign, as Cassandra prints them.
pub(crate) fn timestamp(millis: i64, between: char) -> String {
    let seconds = millis.div_euclid(1000);
    let (year, month, day) = civil(seconds.div_euclid(SECONDS_PER_DAY));
    let year = year_text(if year > 0 { year } else { 1 - year });
    format!("{year}-{month:02}-{day:02}{between}{}.{:03}Z", clock(seconds), millis.rem_euclid(1000))
}

/// `MM/dd/yyyy hh:mm:ss` in UTC, as sstablemetadata prints times.
pub(crate) fn date(seconds: i64) -> String {
    let (year, month, day) = civil(seconds.div_euclid(SECONDS_PER_DAY));
    let year = if year > 0 { year } else { 1 - year };
    format!("{month:02}/{day:02}/{year:04} {}", clock(seconds))
}

/// A length of time in words: `2314 days 19 hours 33 minutes 20 seconds`, without what is 0 at both ends.
pub(crate) fn in_words(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, "day"),
        (seconds / 3600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let last = parts.iter().rposition(|(count, _)| *count > 0).unwrap_or(3);
    let word = |(count, unit): &(u64, &str)| format!("{count} {unit}{}", if *count == 1 { "" } else { "s" });
    parts[first..=last].iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_have_the_decimals_they_need() {
        let micros = |time| instant(time, Unit::Micros);
        assert_eq!(micros(1_700_000_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(micros(1_700_000_000_001_000), "2023-11-14T22:13:20.001Z");
        assert_eq!(micros(1_699_999_999_999_999), "2023-11-14T22:13:19.999999Z");
        assert_eq!(micros(i64::MAX), "+294247-01-10T04:00:54.854775807Z");
        assert_eq!(instant(4_294_967_293, Unit::Seconds), "2106-02-07T06:28:13Z");
    }

    #[test]
    fn words_and_dates() {
        assert_eq!(in_words(200_000_000), "2314 days 19 hours 33 minutes 20 seconds");
        assert_eq!(
            (in_words(3600), in_words(86_401)),
            ("1 hour".into(), "1 day 0 hours 0 minutes 1 second".into())
        );
        assert_eq!(date(1_795_281_331), "11/21/2026 17:15:31");
    }
}
