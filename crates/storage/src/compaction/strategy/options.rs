//! What a table's options say about its compaction, with Cassandra's defaults.

use schema::TableOptions;
use std::collections::BTreeMap;

pub(super) type Map = BTreeMap<String, String>;

/// What every strategy takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Common {
    /// Whether the table is compacted without being told to.
    pub(crate) enabled: bool,
    /// Share of droppable tombstones, from 0, above which an sstable is compacted alone; `None`: never.
    pub(crate) tombstone_threshold: Option<f64>,
    /// Seconds an sstable must be old for that.
    pub(crate) tombstone_interval_s: u64,
    /// Whether that is tried without a look at what overlaps it.
    pub(crate) unchecked: bool,
    /// Whether tombstones of what no repair has seen are kept.
    pub(crate) only_repaired: bool,
    /// Whether the log tells of each compaction.
    pub(crate) log_all: bool,
}

impl Common {
    pub(crate) fn of(options: &TableOptions) -> Common {
        let map = &options.compaction;
        // As in Cassandra: windows of time drop whole sstables, and only who asks for more gets it.
        let windows = map.get("class").is_some_and(|class| class.ends_with("TimeWindowCompactionStrategy"));
        let asked = ["tombstone_threshold", "tombstone_compaction_interval"];
        let alone = !windows || asked.iter().any(|key| map.contains_key(*key));
        Common {
            enabled: flag(map, "enabled", true),
            tombstone_threshold: alone.then(|| number(map, "tombstone_threshold", 0.2)),
            tombstone_interval_s: number(map, "tombstone_compaction_interval", 86_400),
            unchecked: flag(map, "unchecked_tombstone_compaction", false),
            only_repaired: flag(map, "only_purge_repaired_tombstones", false),
            log_all: flag(map, "log_all", false),
        }
    }
}

pub(super) fn flag(map: &Map, key: &str, default: bool) -> bool {
    match map.get(key).map(|value| value.to_ascii_lowercase()).as_deref() {
        Some("true") => true,
        Some("false") => false,
        Some(_) | None => default,
    }
}

pub(super) fn number<T: std::str::FromStr>(map: &Map, key: &str, default: T) -> T {
    map.get(key).and_then(|value| value.trim().parse().ok()).unwrap_or(default)
}

/// A share from 0 to 1 such as `0.333` or `33.3%`.
pub(super) fn share(map: &Map, key: &str, default: f64) -> f64 {
    let text = map.get(key).map_or("", |text| text.trim());
    let given = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    given.ok().filter(|share| (0.0..=1.0).contains(share)).unwrap_or(default)
}

/// A ratio above 0.
pub(super) fn ratio(map: &Map, key: &str, default: f64) -> f64 {
    let given: f64 = number(map, key, default);
    if given.is_finite() && given > 0.0 { given } else { default }
}

/// Bytes such as `1GiB`, `100 MiB` or `8B`.
pub(super) fn bytes(map: &Map, key: &str, default: u64) -> u64 {
    map.get(key).and_then(|text| parse_bytes(text)).unwrap_or(default)
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Ok(plain) = text.parse() {
        return Some(plain);
    }
    let number = text.strip_suffix('B')?.trim_end();
    let (number, base) = match number.strip_suffix('i') {
        Some(number) => (number, 1024f64),
        None => (number, 1000f64),
    };
    let power = number.chars().next_back().and_then(|unit| "kmgtpe".find(unit.to_ascii_lowercase()));
    let (digits, factor) = match power {
        Some(power) => (&number[..number.len() - 1], base.powi(power as i32 + 1)),
        None => (number, 1.0),
    };
    let size = digits.trim().parse::<f64>().ok()? * factor;
    (size.is_finite() && size >= 0.0).then_some(size as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let cases = [
            ("1GiB", Some(1 << 30)),
            ("100 MiB", Some(100 << 20)),
            ("8B", Some(8)),
            ("2kB", Some(2000)),
            ("0.5KiB", Some(512)),
            ("77", Some(77)),
            ("GiB", None),
            ("-1B", None),
            ("", None),
        ];
        for (text, want) in cases {
            assert_eq!(parse_bytes(text), want, "{text}");
        }
    }

    #[test]
    fn shares_are_read() {
        for (text, want) in [
            ("0.25", 0.25),
            ("25%", 0.25),
            (" 25 % ", 0.25),
            ("0", 0.0),
            ("101%", 0.5),
            ("nan", 0.5),
            ("", 0.5),
        ] {
            let map = Map::from([("k".to_string(), text.to_string())]);
            assert_eq!(share(&map, "k", 0.5), want, "{text}");
        }
    }

    #[test]
    fn windows_are_not_compacted_alone_unless_asked() {
        let mut options = TableOptions::cassandra();
        assert_eq!(Common::of(&options).tombstone_threshold, Some(0.2));
        let mut set = |key: &str, value: &str| options.compaction.insert(key.into(), value.into());
        set("class", "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy");
        set("enabled", "FALSE");
        assert_eq!((Common::of(&options).tombstone_threshold, Common::of(&options).enabled), (None, false));
        options.compaction.insert("tombstone_threshold".into(), "0.5".into());
        assert_eq!(Common::of(&options).tombstone_threshold, Some(0.5));
    }
}
