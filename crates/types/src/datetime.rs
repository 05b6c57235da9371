//! Text of dates, times and timestamps, as Cassandra accepts and prints them. Text without a zone is UTC.

use crate::error::TypeError;
use crate::zone;
use base::calendar::{civil, days_of};

/// The day number of 1970-01-01 in a `date` value.
pub const EPOCH_DAY: u32 = 1 << 31;
const MS_PER_DAY: i64 = 86_400_000;
const NS_PER_SECOND: i64 = 1_000_000_000;

fn digits(text: &str, range: std::ops::RangeInclusive<usize>) -> Option<u64> {
    let ok = range.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if ok { text.parse().ok() } else { None }
}

/// Year, month, day.
type Parts = (i64, u32, u32);

/// The parts of a date at the beginning of a text, and what follows them. `widths`: digits of month and day.
fn date_parts(text: &str, widths: std::ops::RangeInclusive<usize>) -> Option<(&str, Parts, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (year, rest) = unsigned.split_once('-')?;
    let (month, rest) = rest.split_once('-')?;
    let (day, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    let year_text = &text[..text.len() - unsigned.len() + year.len()];
    let number = digits(year, 1..=10)? as i64;
    let year = if text.starts_with('-') { -number } else { number };
    Some((year_text, (year, digits(month, widths.clone())? as u32, digits(day, widths)? as u32), rest))
}

/// Whether a year is written as ISO 8601 has it: four digits, more of them behind a sign.
fn is_iso_year(text: &str) -> bool {
    match text.as_bytes() {
        [b'+', digits @ ..] => digits.len() > 4,
        [b'-', digits @ ..] => digits.len() >= 4 && digits.iter().any(|digit| *digit != b'0'),
        digits => digits.len() == 4,
    }
}

/// Days since the epoch; `None` for what the calendar has not.
fn days((year, month, day): Parts) -> Option<i64> {
    if !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let days = days_of(year, month, day);
    // A day past the month's end comes back as another date.
    (civil(days) == (year, month, day)).then_some(days)
}

/// A year as ISO 8601 writes it: four digits at least, a sign before the year 0 and beyond 9999.
fn format_year(year: i64) -> String {
    let sign = match year {
        ..0 => "-",
        0..10_000 => "",
        _ => "+",
    };
    format!("{sign}{:04}", year.unsigned_abs())
}

/// The text of days since the epoch.
fn format_days(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{}-{month:02}-{day:02}", format_year(year))
}

/// A `date` value from `yyyy-mm-dd` or the day number itself. Years beyond 9999 have a sign.
pub fn parse_date(text: &str) -> Result<u32, TypeError> {
    let bad = || TypeError::Literal(format!("Unable to coerce '{text}' to a formatted date (long)"));
    if is_number(text) {
        let bad = || TypeError::Literal(format!("Unable to make unsigned int (for date) from: '{text}'"));
        return text.parse::<i64>().ok().and_then(|day| u32::try_from(day).ok()).ok_or_else(bad);
    }
    let (year, parts, rest) = date_parts(text, 2..=2).ok_or_else(bad)?;
    if !is_iso_year(year) || !rest.is_empty() {
        return Err(bad());
    }
    let days = days(parts).ok_or_else(bad)?;
    date_of_days(days).ok_or_else(bad)
}

fn is_number(text: &str) -> bool {
    let number = text.strip_prefix('-').unwrap_or(text);
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// The `date` value of days since the epoch; `None` where no date is.
pub fn date_of_days(days: i64) -> Option<u32> {
    u32::try_from(days.checked_add(i64::from(EPOCH_DAY))?).ok()
}

/// The text of a `date` value.
pub fn format_date(date: u32) -> String {
    format_days(i64::from(date) - i64::from(EPOCH_DAY))
}

/// Nanoseconds of a fraction of one to nine digits.
fn fraction_ns(text: &str) -> Option<i64> {
    let n = digits(text, 1..=9)?;
    Some(n as i64 * 10i64.pow(9 - text.len() as u32))
}

/// An `int` as Java reads it: a sign and any number of digits.
fn java_int(text: &str) -> Option<i64> {
    text.parse::<i32>().ok().map(i64::from)
}

/// A number of a clock, below its limit.
fn clock_part(text: &str, limit: i64) -> Option<i64> {
    java_int(text).filter(|part| (0..limit).contains(part))
}

/// Nanoseconds since midnight of `hh:mm:ss[.fffffffff]`, with blanks around it.
fn parse_clock(text: &str) -> Option<i64> {
    let (hour, rest) = text.trim().split_once(':')?;
    let (minute, rest) = rest.split_once(':')?;
    let (second, fraction) = match rest.split_once('.') {
        Some((second, fraction)) => (second, fraction_ns(fraction)?),
        None => (rest, 0),
    };
    let minutes = clock_part(hour, 24)? * 60 + clock_part(minute, 60)?;
    Some((minutes * 60 + clock_part(second, 60)?) * NS_PER_SECOND + fraction)
}

/// A `time` value from `hh:mm:ss[.fffffffff]` or its nanoseconds.
pub fn parse_time(text: &str) -> Result<i64, TypeError> {
    if is_number(text) {
        let bad = || TypeError::Literal(format!("Unable to make long (for time) from: '{text}'"));
        let nanos = text.parse::<i64>().ok();
        return nanos.filter(|nanos| (0..86_400 * NS_PER_SECOND).contains(nanos)).ok_or_else(bad);
    }
    parse_clock(text).ok_or_else(|| {
        TypeError::Literal(format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)"))
    })
}

/// The text of a `time` value, always with nine digits of fraction.
pub fn format_time(nanos: i64) -> String {
    let seconds = nanos.div_euclid(NS_PER_SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:09}", nanos.rem_euclid(NS_PER_SECOND))
}

/// A text that a timestamp is written as, in local time.
struct Local<'t> {
    days: i64,
    /// Milliseconds of the day; 24:00 is the end of it.
    millis: i64,
    has_clock: bool,
    zone: &'t str,
}

/// Milliseconds of a day of `h:m[:s[.fraction]]`, and what follows. 24:00 is the only time beyond a day.
fn local_clock(text: &str) -> Option<(i64, &str)> {
    let number = |text: &'_ str| -> Option<(i64, usize)> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        Some((digits(&text[..end], 1..=9)? as i64, end))
    };
    let (hour, end) = number(text)?;
    let rest = text[end..].strip_prefix(':')?;
    let (minute, end) = number(rest)?;
    let mut rest = &rest[end..];
    let (mut second, mut millis) = (0, 0);
    if let Some(seconds) = rest.strip_prefix(':') {
        let end;
        (second, end) = number(seconds)?;
        rest = &seconds[end..];
        if let Some(fraction) = rest.strip_prefix('.') {
            let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
            millis = if end == 0 { 0 } else { fraction_ns(&fraction[..end])? / 1_000_000 };
            rest = &fraction[end..];
        }
    }
    let all = ((hour * 60 + minute) * 60 + second) * 1000 + millis;
    let within = hour < 24 && minute < 60 && second < 60;
    (within || (hour == 24 && all == MS_PER_DAY)).then_some((all, rest))
}

fn parse_local(text: &str) -> Option<Local<'_>> {
    let (_, parts, rest) = date_parts(text, 1..=9)?;
    if let Some((millis, zone)) = rest.strip_prefix(['T', ' ']).and_then(local_clock) {
        return Some(Local { days: days(parts)?, millis, has_clock: true, zone });
    }
    let (year, parts, zone) = date_parts(text, 2..=2)?;
    is_iso_year(year).then_some(())?;
    Some(Local { days: days(parts)?, millis: 0, has_clock: false, zone })
}

/// Seconds of `±hh`, `±hhmm`, `±hh:mm`, or `±hh:mm:ss` where that is allowed; at most 18 hours.
fn offset_s(text: &str, with_seconds: bool) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let text = &text[1..];
    let parts: Vec<&str> = match (text.len(), text.contains(':')) {
        (2, false) => vec![text],
        (4, false) => vec![text.get(..2)?, text.get(2..)?],
        (5, true) | (8, true) => text.split(':').collect(),
        _ => return None,
    };
    if parts.len() > 3 || (parts.len() == 3 && !with_seconds) {
        return None;
    }
    let mut seconds = 0;
    for (part, (unit, limit)) in parts.iter().zip([(3600, 18), (60, 59), (1, 59)]) {
        let number = digits(part, 2..=2)?;
        if number > limit {
            return None;
        }
        seconds += number as i64 * unit;
    }
    (seconds <= 18 * 3600).then_some(sign * seconds)
}

/// Seconds that the time of a text is ahead of UTC; none written is UTC.
fn zone_s(local: &Local<'_>) -> Option<i64> {
    let zone = match local.zone {
        "" | "Z" | " Z" => return Some(0),
        "z" if !local.has_clock => return Some(0),
        zone => zone,
    };
    let Some(named) = zone.strip_prefix(' ') else { return offset_s(zone, !local.has_clock) };
    if let Some(seconds) = offset_s(named, true) {
        return Some(seconds);
    }
    for prefix in ["UTC", "GMT", "UT"] {
        match named.strip_prefix(prefix) {
            Some("") => return Some(0),
            Some(offset) if offset.contains(':') && offset.starts_with(['+', '-']) => {
                return offset_s(offset, true);
            }
            _ => {}
        }
    }
    zone::offset_at(named, local.days.checked_mul(86_400)?.checked_add(local.millis / 1000)?)
}

fn parse_instant(text: &str) -> Option<i64> {
    let local = parse_local(text)?;
    let zone_ms = zone_s(&local)? * 1000;
    let millis = i128::from(local.days) * i128::from(MS_PER_DAY) + i128::from(local.millis - zone_ms);
    i64::try_from(millis).ok()
}

/// A `timestamp` value from its milliseconds, or `yyyy-mm-dd[(T| )hh:mm[:ss[.fff]]][zone]`; the zone is an offset, or behind
/// a blank the name or abbreviation of one (`Europe/Berlin`, `PST`). Years may have more digits or a sign.
pub fn parse_timestamp(text: &str) -> Result<i64, TypeError> {
    if is_number(text) {
        let bad = || TypeError::Literal(format!("Unable to make long (for date) from: '{text}'"));
        return text.parse().map_err(|_| bad());
    }
    parse_instant(text)
        .ok_or_else(|| TypeError::Literal(format!("Unable to parse a date/time from '{text}'")))
}

/// The text of a `timestamp` value: `yyyy-mm-ddThh:mm:ss.fffZ`.
pub fn format_timestamp(ms: i64) -> String {
    format_timestamp_with(ms, 'T')
}

/// The same with another sign between day and time: in JSON it is a blank.
pub fn format_timestamp_with(ms: i64, separator: char) -> String {
    let of_day = ms.rem_euclid(MS_PER_DAY);
    let seconds = of_day / 1000;
    format!(
        "{}{separator}{:02}:{:02}:{:02}.{:03}Z",
        format_days(ms.div_euclid(MS_PER_DAY)),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        of_day % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timestamps_cassandra_accepts() {
        let base = 1_293_840_000_000; // 2011-01-01T00:00:00Z
        for (text, ms) in [
            ("2011-01-01", base),
            ("2011-01-01T00:00", base),
            ("2011-01-01 00:00:01", base + 1000),
            ("2011-01-01T00:00:00.5", base + 500),
            ("2011-01-01 00:00:00.123456789", base + 123),
            ("2011-01-01T00:00:00Z", base),
            ("2011-01-01 00:00:00 UTC", base),
            ("2011-01-01 02:00+0200", base),
            ("2011-01-01 02:00:00.000+02:00", base),
            ("2011-01-01T00:00-02", base + 7_200_000),
            ("2011-01-01+0000", base),
            ("2011-01-01-00:00", base),
            ("2011-01-01Z", base),
            ("2011-01-01z", base),
            ("2011-01-01 00:00 Europe/Berlin", base - 3_600_000),
            ("2011-01-01 CET", base - 3_600_000),
            ("2011-01-01 00:00:00.000 Pacific Standard Time", base + 8 * 3_600_000),
            ("2011-01-01 00:00 PST", base + 8 * 3_600_000),
            ("2011-01-01 00:00 GMT+01:00", base - 3_600_000),
            ("2010-12-31 24:00", base),
            ("2011-1-1 0:0:0.", base),
            ("+10000-01-01", days_of(10_000, 1, 1) * MS_PER_DAY),
            ("-0001-12-31 00:00:00.000Z", days_of(-1, 12, 31) * MS_PER_DAY),
            ("292278994-08-17 07:12:55.807+0000", i64::MAX),
            ("1293840000000", base),
            ("-1", -1),
            ("0000-01-01", days_of(0, 1, 1) * MS_PER_DAY),
        ] {
            assert_eq!(parse_timestamp(text), Ok(ms), "{text}");
        }
        for bad in [
            "",
            "x",
            "2011-02-30",
            "2011-13-01",
            "2011-01-01 00:00 XST",
            "2011-01-01 00:00PST",
            "2011-01-01 00:00z",
            "2011-01-01  00:00",
            "2011-01-01 ",
            "2011-01-01T",
            "2011-01-01t00:00",
            "2011-1-1",
            "11-01-01",
            "10000-01-01",
            "2011-01-01 00:00.5",
            "2011-01-01 24:00:01",
            "2011-01-01 00:00+18:01",
            "292278994-08-17 07:12:55.808+0000",
            "9999999-01-01T00:00:00+99",
        ] {
            assert!(parse_timestamp(bad).is_err(), "{bad}");
        }
        assert_eq!(format_timestamp(base + 1), "2011-01-01T00:00:00.001Z");
        assert_eq!(format_timestamp(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn dates_and_times() {
        assert_eq!(parse_date("1970-01-01"), Ok(EPOCH_DAY));
        assert_eq!(parse_date("2147483648"), Ok(EPOCH_DAY));
        assert_eq!(parse_date("-5877641-06-23"), Ok(0));
        assert_eq!(parse_date("+5881580-07-11"), Ok(u32::MAX));
        assert_eq!(parse_date("+0001970-01-02"), Ok(EPOCH_DAY + 1));
        assert_eq!(parse_date("-0"), Ok(0));
        for bad in ["+5881580-07-12", "10000-01-01", "+9999-01-01", "-0000-01-01", "1970-1-1", "4294967296"] {
            assert!(parse_date(bad).is_err(), "{bad}");
        }
        assert_eq!(format_date(u32::MAX), "+5881580-07-11");
        assert_eq!(format_timestamp_with(days_of(-1, 12, 31) * MS_PER_DAY, ' '), "-0001-12-31 00:00:00.000Z");
        assert_eq!(format_date(EPOCH_DAY - 1), "1969-12-31");
        assert_eq!(parse_time("08:12:54.123456789"), Ok(29_574_123_456_789));
        assert_eq!(format_time(29_574_123_456_789), "08:12:54.123456789");
        assert_eq!(parse_time(" +8:012:54.5 "), Ok(29_574_500_000_000));
        assert!(parse_time("08:12").is_err());
        assert!(parse_time("24:00:00").is_err());
        assert!(parse_time("86400000000000").is_err());
    }

    proptest! {
        #[test]
        fn round_trips(date in any::<u32>(), ms in -1i64 << 50..1i64 << 50) {
            prop_assert_eq!(parse_date(&format_date(date)), Ok(date));
            prop_assert_eq!(parse_timestamp(&format_timestamp(ms)), Ok(ms));
        }

        #[test]
        fn any_text_parses_or_fails(text in "\\PC{0,30}", shaped in "[-+0-9TZ:. ]{0,40}") {
            for text in [text, shaped] {
                let _ = (parse_timestamp(&text), parse_date(&text), parse_time(&text));
                let _ = crate::duration::Duration::parse(&text);
            }
        }
    }
}
