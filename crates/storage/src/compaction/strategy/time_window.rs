//! Windows of time: sstables whose newest data is of one window are merged with each other and with no others.
//!
//! In the newest window there are size tiers; every other becomes one sstable, which is dropped whole when all of it has
//! expired.

use super::options::{Map, number};
use super::size_tiered::SizeTiers;
use super::{Scene, Shape, Task};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeWindow {
    window_micros: i128,
    /// Nanoseconds of one unit of the timestamps that clients write.
    unit_nanos: i128,
    tiers: SizeTiers,
}

impl TimeWindow {
    pub(super) fn of(map: &Map) -> TimeWindow {
        let seconds = match map.get("compaction_window_unit").map(String::as_str) {
            Some("MINUTES") => 60,
            Some("HOURS") => 3_600,
            _ => 86_400,
        };
        let count: i128 = i128::from(number(map, "compaction_window_size", 1i64).max(1));
        let unit_nanos = match map.get("timestamp_resolution").map(String::as_str) {
            Some("NANOSECONDS") => 1,
            Some("MILLISECONDS") => 1_000_000,
            Some("SECONDS") => 1_000_000_000,
            Some("MINUTES") => 60_000_000_000,
            Some("HOURS") => 3_600_000_000_000,
            Some("DAYS") => 86_400_000_000_000,
            _ => 1_000,
        };
        TimeWindow { window_micros: count * seconds * 1_000_000, unit_nanos, tiers: SizeTiers::of(map) }
    }

    /// Number of the window of a timestamp.
    fn window(&self, timestamp: i64) -> i128 {
        (i128::from(timestamp) * self.unit_nanos).div_euclid(self.window_micros * 1_000)
    }

    pub(super) fn next(&self, scene: Scene<'_>) -> Option<Task> {
        let window = |index: usize| self.window(scene.sstables[index].max_timestamp);
        let newest = (0..scene.sstables.len()).map(window).max()?;
        let mut windows: BTreeMap<i128, Vec<usize>> = BTreeMap::new();
        for index in (0..scene.sstables.len()).filter(|index| !scene.sstables[*index].busy) {
            windows.entry(window(index)).or_default().push(index);
        }
        for (number, mut members) in windows.into_iter().rev() {
            let picked = if number == newest {
                self.tiers.pick(scene, members)
            } else {
                members.sort_by_key(|index| (scene.sstables[*index].bytes, *index));
                members.truncate(self.tiers.max);
                members
            };
            if picked.len() >= 2 {
                return Some(Task::merge(picked, Shape::ONE));
            }
        }
        None
    }

    /// One sstable of each window.
    pub(super) fn whole(&self, scene: Scene<'_>) -> Vec<Task> {
        let mut windows: BTreeMap<i128, Vec<usize>> = BTreeMap::new();
        for (index, sstable) in scene.sstables.iter().enumerate() {
            windows.entry(self.window(sstable.max_timestamp)).or_default().push(index);
        }
        windows.into_values().map(|members| Task::merge(members, Shape::ONE)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_sizes, scene};
    use super::*;

    #[test]
    fn timestamps_are_in_the_unit_that_the_table_says() {
        let day_nanos = 86_400_000_000_000i64;
        for (resolution, unit_nanos) in [
            ("NANOSECONDS", 1),
            ("MICROSECONDS", 1_000),
            ("MILLISECONDS", 1_000_000),
            ("SECONDS", 1_000_000_000),
            ("MINUTES", 60_000_000_000),
            ("HOURS", 3_600_000_000_000),
            ("DAYS", day_nanos),
        ] {
            let options = [
                ("compaction_window_unit", "DAYS"),
                ("compaction_window_size", "2"),
                ("timestamp_resolution", resolution),
            ];
            let map: Map = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            let window = 2 * day_nanos / unit_nanos;
            // Two in an old window, at its begin and its end, and two in the newest, which are too few to be merged.
            let mut sstables = of_sizes(&[100; 4]);
            let times = [10 * window, 11 * window - 1, 11 * window, 12 * window - 1];
            sstables.iter_mut().zip(times).for_each(|(sstable, time)| sstable.max_timestamp = time);
            let task =
                TimeWindow::of(&map).next(scene(&sstables)).expect("the old window is to be one sstable");
            assert_eq!(task.inputs, [0, 1], "{resolution}");
        }
    }
}
