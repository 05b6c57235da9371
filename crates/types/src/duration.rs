//! Durations: months, days and nanoseconds, which no one number can hold because months and days vary.

use crate::error::TypeError;
use base::{ByteReader, put_svint};
use std::fmt;

const NS_PER_HOUR: i64 = 3_600_000_000_000;
const NS_PER_MINUTE: i64 = 60_000_000_000;
const NS_PER_SECOND: i64 = 1_000_000_000;

/// A duration; its parts are all positive or zero, or all negative or zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Duration {
    /// Months, years being twelve.
    pub months: i32,
    /// Days, weeks being seven.
    pub days: i32,
    /// Nanoseconds, for hours and everything smaller.
    pub nanos: i64,
}

impl Duration {
    /// Reads the wire bytes: three zig-zag variable-length integers.
    pub fn decode(wire: &[u8]) -> Result<Duration, TypeError> {
        let bad = |text: &str| TypeError::Bytes(text.to_owned());
        if wire.len() < 3 {
            return Err(TypeError::Bytes(format!(
                "Expected at least 3 bytes for a duration ({})",
                wire.len()
            )));
        }
        let mut reader = ByteReader::new(wire);
        let (months, days, nanos) = (reader.svint()?, reader.svint()?, reader.svint()?);
        // Bytes behind them are passed over, as Cassandra does: its files may have such values.
        let months =
            i32::try_from(months).map_err(|_| bad("The duration months must be a 32 bits integer"))?;
        let days = i32::try_from(days).map_err(|_| bad("The duration days must be a 32 bits integer"))?;
        let duration = Duration { months, days, nanos };
        if duration.signs_agree() {
            Ok(duration)
        } else {
            Err(TypeError::Bytes(format!(
                "The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanos})"
            )))
        }
    }

    /// The wire bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8);
        put_svint(&mut out, i64::from(self.months));
        put_svint(&mut out, i64::from(self.days));
        put_svint(&mut out, self.nanos);
        out
    }

    fn signs_agree(&self) -> bool {
        let parts = [i64::from(self.months), i64::from(self.days), self.nanos];
        parts.iter().all(|p| *p >= 0) || parts.iter().all(|p| *p <= 0)
    }

    /// Parses `1y2mo3w4d5h6m7s8ms9us10ns`, ISO 8601 `P1Y2M3DT4H5M6S` or `P3W`, or `P0001-02-03T04:05:06`; a minus sign may come first.
    pub fn parse(text: &str) -> Result<Duration, TypeError> {
        let bad = || TypeError::Literal(format!("Unable to convert '{text}' to a duration"));
        let (negative, body) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let parts = if let Some(iso) = body.strip_prefix('P') {
            if iso.contains('-') { parse_iso_alternative(iso) } else { parse_iso(iso) }
        } else {
            parse_units(body)
        };
        let [months, days, nanos] = parts.ok_or_else(bad)?;
        let sign = if negative { -1 } else { 1 };
        Ok(Duration {
            months: i32::try_from(sign * months).map_err(|_| bad())?,
            days: i32::try_from(sign * days).map_err(|_| bad())?,
            nanos: i64::try_from(sign * nanos).map_err(|_| bad())?,
        })
    }
}

/// Unit names in their order with the part they add to and their size.
const UNITS: [(&str, usize, i128); 11] = [
    ("y", 0, 12),
    ("mo", 0, 1),
    ("w", 1, 7),
    ("d", 1, 1),
    ("h", 2, NS_PER_HOUR as i128),
    ("m", 2, NS_PER_MINUTE as i128),
    ("s", 2, NS_PER_SECOND as i128),
    ("ms", 2, 1_000_000),
    ("us", 2, 1_000),
    ("µs", 2, 1_000),
    ("ns", 2, 1),
];

fn number_and_unit(text: &str) -> Option<(i128, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let n = text[..digits].parse::<i64>().ok()?;
    Some((i128::from(n), &text[digits..]))
}

fn parse_units(mut rest: &str) -> Option<[i128; 3]> {
    let mut parts = [0i128; 3];
    let mut next_unit = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (n, tail) = number_and_unit(rest)?;
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let unit = tail[..end].to_lowercase().replace('μ', "µ");
        let at = UNITS.iter().position(|(name, ..)| *name == unit)?;
        if at < next_unit {
            return None;
        }
        // Micro and "us" are one unit: having had either rules out both.
        next_unit = if at == 8 { 10 } else { at + 1 };
        parts[UNITS[at].1] += n * UNITS[at].2;
        rest = &tail[end..];
    }
    Some(parts)
}

fn parse_iso(text: &str) -> Option<[i128; 3]> {
    let mut parts = [0i128; 3];
    let (date, time) = match text.split_once('T') {
        Some(("", "")) => return None,
        Some((date, time)) => (date, time),
        None => (text, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    // Weeks stand alone.
    if date.contains('W')
        && (date.find('W') != Some(date.len() - 1) || date.contains(['Y', 'M', 'D']) || text.contains('T'))
    {
        return None;
    }
    let date_units = [("Y", 0, 12), ("M", 0, 1), ("W", 1, 7), ("D", 1, 1)];
    let time_units = [
        ("H", 2, i128::from(NS_PER_HOUR)),
        ("M", 2, i128::from(NS_PER_MINUTE)),
        ("S", 2, i128::from(NS_PER_SECOND)),
    ];
    for (mut rest, units) in [(date, &date_units[..]), (time, &time_units[..])] {
        let mut next_unit = 0;
        while !rest.is_empty() {
            let (n, tail) = number_and_unit(rest)?;
            let unit = tail.get(..1)?;
            let at = units.iter().position(|(name, ..)| *name == unit)?;
            if at < next_unit {
                return None;
            }
            next_unit = at + 1;
            parts[units[at].1] += n * units[at].2;
            rest = &tail[1..];
        }
    }
    Some(parts)
}

/// `YYYY-MM-DDThh:mm:ss`.
fn parse_iso_alternative(text: &str) -> Option<[i128; 3]> {
    let (date, time) = text.split_once('T')?;
    if date.len() != "YYYY-MM-DD".len() || time.len() != "hh:mm:ss".len() || date.find('-') != Some(4) {
        return None;
    }
    let numbers = |part: &str, separator: char| -> Option<[i128; 3]> {
        let mut out = [0; 3];
        let mut pieces = part.split(separator);
        for slot in &mut out {
            let piece = pieces.next()?;
            if !piece.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            *slot = i128::from(piece.parse::<u32>().ok()?);
        }
        pieces.next().is_none().then_some(out)
    };
    let [years, months, days] = numbers(date, '-')?;
    let [hours, minutes, seconds] = numbers(time, ':')?;
    let nanos = ((hours * 60 + minutes) * 60 + seconds) * i128::from(NS_PER_SECOND);
    Some([years * 12 + months, days, nanos])
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.months < 0 || self.days < 0 || self.nanos < 0 {
            f.write_str("-")?;
        }
        let months = self.months.unsigned_abs();
        let nanos = self.nanos.unsigned_abs();
        let in_unit = |size: i64, of: i64| nanos % of as u64 / size as u64;
        let pieces = [
            (u64::from(months / 12), "y"),
            (u64::from(months % 12), "mo"),
            (u64::from(self.days.unsigned_abs()), "d"),
            (nanos / NS_PER_HOUR as u64, "h"),
            (in_unit(NS_PER_MINUTE, NS_PER_HOUR), "m"),
            (in_unit(NS_PER_SECOND, NS_PER_MINUTE), "s"),
            (in_unit(1_000_000, NS_PER_SECOND), "ms"),
            (in_unit(1_000, 1_000_000), "us"),
            (in_unit(1, 1_000), "ns"),
        ];
        let mut wrote = false;
        for (n, unit) in pieces {
            if n > 0 {
                write!(f, "{n}{unit}")?;
                wrote = true;
            }
        }
        if wrote { Ok(()) } else { f.write_str("0ns") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_parses() {
        let d = |months, days, nanos| Duration { months, days, nanos };
        let hms = (4 * 3600 + 5 * 60 + 6) * NS_PER_SECOND;
        for (text, want) in [
            ("1y2mo3d4h5m6s", d(14, 3, hms)),
            ("P1Y2M3DT4H5M6S", d(14, 3, hms)),
            ("P0001-02-03T04:05:06", d(14, 3, hms)),
            ("-1y2mo3d4h5m6s", d(-14, -3, -hms)),
            ("P2W", d(0, 14, 0)),
            ("2w1d", d(0, 15, 0)),
            ("1ms2us3ns", d(0, 0, 1_002_003)),
            ("2µs", d(0, 0, 2_000)),
            ("PT0S", d(0, 0, 0)),
            ("P1DT", d(0, 1, 0)),
        ] {
            let parsed = Duration::parse(text).expect(text);
            assert_eq!(parsed, want, "{text}");
            assert_eq!(Duration::parse(&parsed.to_string()), Ok(want), "{parsed}");
            assert_eq!(Duration::decode(&parsed.encode()), Ok(want));
        }
        for bad in [
            "",
            "-",
            "P",
            "PT",
            "1",
            "1x",
            "1d1y",
            "1us1µs",
            "P1S",
            "P1-2T",
            "P1-02-03T04:05:06",
            "P1W1D",
            "P1Y1W",
            "P1WT1H",
            "99999999999y",
        ] {
            assert!(Duration::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mixed_signs_are_refused() {
        assert!(Duration::decode(&[1, 2, 0]).is_err());
        assert!(Duration::decode(&[0, 0]).is_err());
        let one_day = Duration { months: 0, days: 1, nanos: 0 };
        assert_eq!(Duration::decode(&[0, 2, 0, 9, 9]), Ok(one_day), "what is behind it is passed over");
    }
}
