//! Text of dates, times and timestamps, as Cassandra accepts and prints them. Text without a zone is UTC.

use crate::error::TypeError;
use base::calendar::{civil, days_of};

/// The day number of 1970-01-01 in a `date` value.
pub const EPOCH_DAY: u32 = 1 << 31;
const MS_PER_DAY: i64 = 86_400_000;
const NS_PER_SECOND: i64 = 1_000_000_000;

fn digits(text: &str, range: std::ops::RangeInclusive<usize>) -> Option<u64> {
    let ok = range.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if ok { text.parse().ok() } else { None }
}

/// Days since the epoch of `yyyy-mm-dd`; the year may have a sign and up to seven digits.
fn parse_day(text: &str) -> Option<i64> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = body.split('-');
    let year = sign * digits(parts.next()?, 1..=7)? as i64;
    let month = digits(parts.next()?, 1..=2)? as u32;
    let day = digits(parts.next()?, 1..=2)? as u32;
    if parts.next().is_some() || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let days = days_of(year, month, day);
    // A day past the month's end comes back as another date.
    (civil(days) == (year, month, day)).then_some(days)
}

/// A `date` value from `yyyy-mm-dd` or the day number itself.
pub fn parse_date(text: &str) -> Result<u32, TypeError> {
    let bad = || TypeError::Literal(format!("Unable to coerce '{text}' to a formatted date (long)"));
    if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return text.parse().map_err(|_| bad());
    }
    let days = parse_day(text).ok_or_else(bad)?;
    u32::try_from(days + i64::from(EPOCH_DAY)).map_err(|_| bad())
}

/// The text of a `date` value.
pub fn format_date(date: u32) -> String {
    let (year, month, day) = civil(i64::from(date) - i64::from(EPOCH_DAY));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Nanoseconds of a fraction of one to nine digits.
fn fraction_ns(text: &str) -> Option<i64> {
    let n = digits(text, 1..=9)?;
    Some(n as i64 * 10i64.pow(9 - text.len() as u32))
}

/// Nanoseconds since midnight of `hh:mm[:ss[.fffffffff]]`.
fn parse_clock(text: &str, seconds_required: bool) -> Option<i64> {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, fraction_ns(fraction)?),
        None => (text, 0),
    };
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 1..=2)?;
    let minute = digits(parts.next()?, 1..=2)?;
    let second = match parts.next() {
        Some(s) => digits(s, 1..=2)?,
        None if seconds_required || text.contains('.') => return None,
        None => 0,
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(((hour * 60 + minute) * 60 + second) as i64 * NS_PER_SECOND + fraction)
}

/// A `time` value from `hh:mm:ss[.fffffffff]` or its nanoseconds.
pub fn parse_time(text: &str) -> Result<i64, TypeError> {
    let bad = || TypeError::Literal(format!("Unable to coerce '{text}' to a formatted time (long)"));
    let nanos = if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        text.parse::<i64>().map_err(|_| bad())?
    } else {
        parse_clock(text, true).ok_or_else(bad)?
    };
    if nanos < 86_400 * NS_PER_SECOND { Ok(nanos) } else { Err(bad()) }
}

/// The text of a `time` value, always with nine digits of fraction.
pub fn format_time(nanos: i64) -> String {
    let seconds = nanos.div_euclid(NS_PER_SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:09}", nanos.rem_euclid(NS_PER_SECOND))
}

/// Splits the zone off and gives its offset in minutes: `Z`, `UTC`, `GMT`, `+hh`, `+hhmm`, `+hh:mm`.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    for name in ["Z", "z", "UTC", "GMT"] {
        if let Some(clock) = text.strip_suffix(name) {
            return Some((clock.trim_end(), 0));
        }
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, 0));
    };
    let (clock, zone) = text.split_at(at);
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let zone = &zone[1..];
    let (hours, minutes) = match (zone.split_once(':'), zone.len()) {
        (Some((h, m)), _) => (digits(h, 2..=2)?, digits(m, 2..=2)?),
        (None, 2) => (digits(zone, 2..=2)?, 0),
        (None, 4) => {
            let both = digits(zone, 4..=4)?;
            (both / 100, both % 100)
        }
        _ => return None,
    };
    if hours > 18 || minutes > 59 {
        return None;
    }
    Some((clock.trim_end(), sign * (hours * 60 + minutes) as i64))
}

fn parse_instant(text: &str) -> Option<i64> {
    // The first T, space or zone sign after the date ends the date.
    let body_start = text.len() - text.trim_start_matches(['+', '-']).len();
    let date_end = text[body_start..].find(['T', 't', ' ', '+']).map_or(text.len(), |at| at + body_start);
    let (date, rest) = text.split_at(date_end);
    let clock = rest.strip_prefix(['T', 't', ' ']).unwrap_or(rest).trim_start();
    let (clock, zone_minutes) = split_zone(clock)?;
    let nanos = if clock.is_empty() { 0 } else { parse_clock(clock, false)? };
    parse_day(date)?.checked_mul(MS_PER_DAY)?.checked_add(nanos / 1_000_000 - zone_minutes * 60_000)
}

/// A `timestamp` value from `yyyy-mm-dd[(T| )hh:mm[:ss[.fff]]][zone]` or its milliseconds.
pub fn parse_timestamp(text: &str) -> Result<i64, TypeError> {
    let bad = || TypeError::Literal(format!("Unable to parse a date/time from '{text}'"));
    let number = text.strip_prefix('-').unwrap_or(text);
    if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| bad());
    }
    parse_instant(text).ok_or_else(bad)
}

/// The text of a `timestamp` value: `yyyy-mm-ddThh:mm:ss.fffZ`.
pub fn format_timestamp(ms: i64) -> String {
    let (year, month, day) = civil(ms.div_euclid(MS_PER_DAY));
    let of_day = ms.rem_euclid(MS_PER_DAY);
    let seconds = of_day / 1000;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
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
            "2011-01-01T24:00",
            "2011-01-01 00:00 PST",
            "2011-01-01T0:0:0.",
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
        assert_eq!(parse_date("5881580-07-11"), Ok(u32::MAX));
        assert!(parse_date("5881580-07-12").is_err());
        assert_eq!(format_date(EPOCH_DAY - 1), "1969-12-31");
        assert_eq!(parse_time("08:12:54.123456789"), Ok(29_574_123_456_789));
        assert_eq!(format_time(29_574_123_456_789), "08:12:54.123456789");
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
