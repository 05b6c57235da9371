//! Levels by density: bytes of an sstable by the share of the shard's tokens that it spans. One parameter per level says how
//! many overlapping sstables of a level are merged, and how much denser the next level is.
//!
//! ```text
//! parameter   fan-out   merged when   which is
//! T4          4         4 overlap     tiers: fewest bytes written
//! N           2         2 overlap     the middle
//! L10         10        2 overlap     levels: fewest sstables per read
//! ```
//! Results are cut where equal parts of the shard's tokens meet, in more parts where they are denser, in powers of two: where a
//! level is cut, every denser one is cut as well. So inputs of a compaction end at common tokens and can be released there.
//! Source: Cassandra's CEP-26 and the description of its options.

use super::options::{Map, bytes, number, share};
use super::{Scene, Shape, Split, Task, width};
use base::Token;
use mutation::TokenRange;

const MIB: u64 = 1 << 20;
/// Share of the tokens below which an sstable counts as spanning all of them: a partition or two have no density.
const SPAN_MIN: f64 = 1.0 / (1u64 << 48) as f64;
/// Most parts a result is cut into.
const PARTS_MAX: u32 = 1 << 16;
/// Levels that are looked at: each holds at least twice the one before.
const LEVELS_MAX: usize = 64;

/// Which sets of overlapping sstables are merged along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inclusion {
    None,
    Single,
    Transitive,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unified {
    /// By level, the last one for all further levels: above 0 tiers, below 0 levels.
    scaling: Vec<i32>,
    target_bytes: u64,
    min_bytes: u64,
    base_parts: u32,
    growth: f64,
    flush_bytes: u64,
    /// Overlapping sstables that are merged at once; never fewer than the fan-out of their level.
    most: usize,
    inclusion: Inclusion,
}

impl Unified {
    pub(super) fn of(map: &Map) -> Unified {
        let text = map.get("scaling_parameters").map_or("T4", String::as_str);
        let mut scaling: Vec<i32> = text.split(',').filter_map(parse_scaling).collect();
        if scaling.is_empty() {
            scaling.push(2);
        }
        let target_bytes = bytes(map, "target_sstable_size", 1 << 30).max(MIB);
        Unified {
            scaling,
            target_bytes,
            min_bytes: bytes(map, "min_sstable_size", 100 * MIB).min(target_bytes),
            base_parts: number(map, "base_shard_count", 4).clamp(1, PARTS_MAX),
            growth: share(map, "sstable_growth", 0.333),
            flush_bytes: bytes(map, "flush_size_override", 0),
            most: match number(map, "max_sstables_to_compact", 0i64) {
                ..=0 => usize::MAX,
                most => most as usize,
            },
            inclusion: match map.get("overlap_inclusion_method").map(|m| m.to_ascii_uppercase()).as_deref() {
                Some("NONE") => Inclusion::None,
                Some("SINGLE") => Inclusion::Single,
                _ => Inclusion::Transitive,
            },
        }
    }

    /// The name that ScyllaDB's scripts use: tiers whose results are runs of sstables of `sstable_size_in_mb`.
    pub(super) fn incremental(map: &Map) -> Unified {
        let threshold = number(map, "min_threshold", 4i32).clamp(2, 1 << 16);
        let most = number(map, "max_threshold", 32usize);
        Unified {
            scaling: vec![threshold - 2],
            target_bytes: number(map, "sstable_size_in_mb", 1000u64).clamp(1, 1 << 20) * MIB,
            growth: 0.0,
            most: most.max(threshold as usize),
            ..Unified::of(&Map::new())
        }
    }

    pub(super) fn next(&self, scene: Scene<'_>) -> Option<Task> {
        let mut order: Vec<(f64, usize)> = (0..scene.sstables.len())
            .filter(|index| !scene.sstables[*index].busy)
            .map(|index| (density(scene, &[index]), index))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut order = order.into_iter().peekable();
        let mut limit = self.base_bytes(scene) * self.fanout(0) as f64;
        // Of the buckets of all levels the one with most overlaps; the sparsest level of equals.
        let mut best: Option<(usize, Vec<usize>)> = None;
        for level in 0..LEVELS_MAX {
            let mut members = Vec::new();
            let last = level + 1 == LEVELS_MAX;
            while let Some((_, index)) = order.next_if(|(density, _)| last || *density < limit) {
                members.push(index);
            }
            if let Some((overlap, inputs)) = self.bucket(scene, members, level)
                && best.as_ref().is_none_or(|(most, _)| *most < overlap)
            {
                best = Some((overlap, inputs));
            }
            if order.peek().is_none() {
                break;
            }
            limit *= self.fanout(level + 1) as f64;
        }
        let (_, inputs) = best?;
        let shape = self.shape_of(scene, &inputs);
        Some(Task::merge(inputs, shape))
    }

    /// How the merge of these sstables is cut.
    pub(super) fn shape_of(&self, scene: Scene<'_>, inputs: &[usize]) -> Shape {
        Shape { level: 0, split: Split::Parts(self.parts(density(scene, inputs))) }
    }

    fn scaling(&self, level: usize) -> i32 {
        self.scaling[level.min(self.scaling.len() - 1)]
    }

    fn fanout(&self, level: usize) -> u32 {
        self.scaling(level).unsigned_abs().saturating_add(2)
    }

    fn threshold(&self, level: usize) -> usize {
        self.scaling(level).max(0) as usize + 2
    }

    /// How many overlapping sstables of a level are merged at once where `overlap` of them lie over a token. With more than two
    /// levels' worth of them the result should be what merges in time would have made of as many, or it ends up among results that
    /// are smaller: so as many as fill whole levels, the largest such number.
    fn inputs_max(&self, level: usize, overlap: usize) -> usize {
        let fanout = |level| self.fanout(level) as usize;
        let most = self.most.max(fanout(level));
        if most == fanout(level) || overlap <= fanout(level).saturating_mul(fanout(level + 1)) {
            return most;
        }
        let most = most.min(overlap);
        let mut full = fanout(level);
        for above in level + 1.. {
            match full.saturating_mul(fanout(above)) {
                next if next <= most => full = next,
                _ => break,
            }
        }
        // Levels take results of any size from below.
        if self.scaling(level) < 0 { full * (most / full) } else { full }
    }

    /// Bytes of the smallest sstable that counts: a bit below those of a flush, so that a level is reached by as many flushes as
    /// its fan-out says even when some are smaller.
    fn base_bytes(&self, scene: Scene<'_>) -> f64 {
        let flush = if self.flush_bytes > 0 { self.flush_bytes } else { scene.flush_bytes };
        flush.max(MIB) as f64 * (1.0 - 0.9 / f64::from(self.fanout(0)))
    }

    /// The parts that a result of some density is cut into: powers of two times the base, fewer for small results.
    fn parts(&self, density: f64) -> u32 {
        let base = f64::from(self.base_parts);
        if self.min_bytes > 0 && density / (self.min_bytes as f64) < base {
            let count = (density / self.min_bytes as f64) as u32 | 1;
            let power = 1 << (31 - count.leading_zeros());
            // The largest power of two that divides the base: where this is cut, the base is cut as well.
            return power.min(self.base_parts & self.base_parts.wrapping_neg());
        }
        let wanted = density / (self.target_bytes as f64 * std::f64::consts::FRAC_1_SQRT_2 * base);
        let power = (wanted.max(1.0).log2() * (1.0 - self.growth)).floor().min(16.0);
        self.base_parts.saturating_mul(1 << power as u32).min(PARTS_MAX)
    }

    /// Of the members of a level those to be merged together, and how many of them overlap at most; `None` when nowhere enough
    /// do.
    fn bucket(&self, scene: Scene<'_>, members: Vec<usize>, level: usize) -> Option<(usize, Vec<usize>)> {
        let threshold = self.threshold(level);
        if members.len() < threshold {
            return None;
        }
        let sets = overlap_sets(scene, members);
        let mut best: Option<(usize, Vec<usize>)> = None;
        let mut taken_to = 0;
        let mut at = 0;
        while at < sets.len() {
            if sets[at].len() < threshold {
                at += 1;
                continue;
            }
            let (from, to) = self.grow(&sets, taken_to, at);
            let overlap = sets[from..to].iter().map(Vec::len).max().unwrap_or(0);
            if best.as_ref().is_none_or(|(most, _)| *most < overlap) {
                best = Some((overlap, limited(scene, &sets[from..to], self.inputs_max(level, overlap))));
            }
            taken_to = to;
            at = to;
        }
        best
    }

    /// The neighbours of a set that are merged along with it.
    fn grow(&self, sets: &[Vec<usize>], lowest: usize, at: usize) -> (usize, usize) {
        let (mut from, mut to) = (at, at + 1);
        if self.inclusion == Inclusion::None {
            return (from, to);
        }
        let shares = |a: &[usize], b: &[usize]| a.iter().any(|index| b.contains(index));
        // Sets are in the order of tokens, so what shares with any of those taken shares with the last one taken.
        let near = |taken: usize| if self.inclusion == Inclusion::Single { at } else { taken };
        while from > lowest && shares(&sets[from - 1], &sets[near(from)]) {
            from -= 1;
        }
        while to < sets.len() && shares(&sets[to], &sets[near(to - 1)]) {
            to += 1;
        }
        (from, to)
    }
}

/// The sstables of some sets with the oldest data, not more than `most` of them overlapping anywhere: the first that would be one too many ends them,
/// so that none stays behind that is older than one that is merged.
fn limited(scene: Scene<'_>, sets: &[Vec<usize>], most: usize) -> Vec<usize> {
    let mut all: Vec<usize> = sets.iter().flatten().copied().collect();
    // By what they hold: what was written last, by a merge or an import, can be the oldest.
    let age =
        |index: &usize| (scene.sstables[*index].max_timestamp, scene.sstables[*index].generation, *index);
    all.sort_by_key(age);
    all.dedup();
    if sets.iter().all(|set| set.len() <= most) {
        return all;
    }
    let mut counts = vec![0usize; sets.len()];
    let mut is_too_many = |index: usize| {
        for (count, _) in counts.iter_mut().zip(sets).filter(|(_, set)| set.contains(&index)) {
            *count += 1;
        }
        counts.iter().any(|count| most < *count)
    };
    let end = all.iter().position(|index| is_too_many(*index));
    all.truncate(end.unwrap_or(all.len()));
    all
}

/// `T4` is 2, `L4` is -2, `N` is 0, and a number is itself.
fn parse_scaling(text: &str) -> Option<i32> {
    let text = text.trim();
    let count = |digits: &str| digits.parse::<i32>().ok().filter(|n| (2..=1 << 16).contains(n));
    match text.split_at_checked(1) {
        Some(("N", "")) => Some(0),
        Some(("T", digits)) => count(digits).map(|fanout| fanout - 2),
        Some(("L", digits)) => count(digits).map(|fanout| 2 - fanout),
        _ => text.parse::<i32>().ok().filter(|n| n.unsigned_abs() <= 1 << 16),
    }
}

/// Bytes of some sstables by the share of the shard's tokens that they span.
fn density(scene: Scene<'_>, of: &[usize]) -> f64 {
    let sstables = of.iter().map(|index| &scene.sstables[*index]);
    let first = sstables.clone().map(|sstable| sstable.first).min().unwrap_or(Token::MIN);
    let last = sstables.clone().map(|sstable| sstable.last).max().unwrap_or(Token::MIN);
    let bytes: u64 = sstables.map(|sstable| sstable.bytes).sum();
    let span = match scene.interval.intersect(TokenRange::new(first, last)) {
        Some(inside) => width(inside) / width(scene.interval).max(1.0),
        None => 0.0,
    };
    bytes as f64 / if span < SPAN_MIN { 1.0 } else { span }
}

/// All largest sets of sstables that share a token, in the order of tokens.
fn overlap_sets(scene: Scene<'_>, mut members: Vec<usize>) -> Vec<Vec<usize>> {
    let sstables = scene.sstables;
    members.sort_by_key(|index| (sstables[*index].first, *index));
    let mut sets = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut grown = false;
    for index in members {
        let start = sstables[index].first;
        if open.iter().any(|other| sstables[*other].last < start) {
            if grown {
                sets.push(open.clone());
            }
            open.retain(|other| start <= sstables[*other].last);
        }
        open.push(index);
        grown = true;
    }
    if grown {
        sets.push(open);
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_ranges, of_sizes, scene};
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Unified {
        Unified::of(&pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }

    #[test]
    fn parameters_are_cassandras() {
        let unified = of(&[("scaling_parameters", "T4, N,L10, -3")]);
        assert_eq!(unified.scaling, [2, 0, -8, -3]);
        assert_eq!((0..5).map(|level| unified.fanout(level)).collect::<Vec<_>>(), [4, 2, 10, 5, 5]);
        assert_eq!((0..5).map(|level| unified.threshold(level)).collect::<Vec<_>>(), [4, 2, 2, 2, 2]);
        assert_eq!(of(&[]).scaling, [2]);
    }

    #[test]
    fn results_are_cut_finer_where_they_are_denser() {
        let unified = of(&[]);
        let gib = (1u64 << 30) as f64;
        let mut before = 0;
        for power in -6..16 {
            let parts = unified.parts(gib * f64::powi(2.0, power));
            assert!(before <= parts && parts.is_power_of_two(), "2^{power} GiB: {parts}");
            before = parts;
        }
        assert_eq!(unified.parts(gib / 8.0), 1, "not below a hundred megabytes");
        assert_eq!(unified.parts(gib), 4);
        let fixed = of(&[("sstable_growth", "0"), ("target_sstable_size", "1GiB")]);
        assert_eq!(fixed.parts(64.0 * gib), 64);
        let quarter = of(&[("sstable_growth", "25%"), ("target_sstable_size", "1024 MiB")]);
        assert_eq!(quarter, of(&[("sstable_growth", "0.25")]));
        let none = of(&[("sstable_growth", "100%")]);
        assert_eq!(none.parts(64.0 * gib), 4);
    }

    #[test]
    fn the_lowest_level_is_as_high_as_flushes_are_large() {
        const MIB: u64 = 1 << 20;
        // One of them is no larger than four large flushes would be, and much larger than four small ones.
        let sstables = of_sizes(&[MIB, MIB, MIB, 20 * MIB]);
        for (flush_bytes, options, want) in [
            (0, &[][..], false),
            (16 * MIB, &[], true),
            (0, &[("flush_size_override", "16MiB")], true),
            (16 * MIB, &[("flush_size_override", "1MiB")], false),
        ] {
            let task = of(options).next(Scene { flush_bytes, ..scene(&sstables) });
            assert_eq!(task.is_some(), want, "{flush_bytes} {options:?}");
        }
    }

    #[test]
    fn sets_are_those_that_share_a_token() {
        let sstables = of_ranges(&[(0, 10), (5, 20), (8, 9), (15, 30), (40, 50)]);
        let mut sets = overlap_sets(scene(&sstables), vec![0, 1, 2, 3, 4]);
        sets.iter_mut().for_each(|set| set.sort_unstable());
        assert_eq!(sets, [vec![0, 1, 2], vec![1, 3], vec![4]]);
    }

    #[test]
    fn so_many_are_merged_at_once() {
        // Scaling parameters, limit, how many overlap, how many are merged.
        for (scaling, limit, overlap, want) in [
            ("T4", None, 4, 4),
            ("T4", None, 16, 16),
            ("T4", None, 17, 16),
            ("T4", None, 40, 16),
            ("T4", None, 70, 64),
            ("T40", None, 100, 100),
            ("T4,T10", None, 41, 40),
            ("L4", None, 40, 32),
            ("L10", None, 35, 35),
            // As in Cassandra: 0 and less is no limit, and the fan-out stands above a smaller one.
            ("T4", Some("0"), 16, 16),
            ("T4", Some("-1"), 70, 64),
            ("T4", Some("3"), 16, 4),
            ("T40", Some("32"), 100, 40),
            ("T4", Some("10"), 16, 10),
            ("T4", Some("10"), 17, 4),
            ("T4", Some("32"), 70, 16),
            ("L4", Some("30"), 70, 16),
            ("L4", Some("48"), 70, 48),
        ] {
            let mut options = vec![("scaling_parameters", scaling)];
            options.extend(limit.map(|limit| ("max_sstables_to_compact", limit)));
            let sstables = of_sizes(&vec![1 << 20; overlap]);
            let members = (0..overlap).collect();
            let (found, inputs) = of(&options).bucket(scene(&sstables), members, 0).expect("enough overlap");
            assert_eq!((found, inputs.len()), (overlap, want), "{scaling}, {limit:?}");
            assert_eq!(inputs, (0..want).collect::<Vec<_>>(), "the oldest");
        }
    }

    #[test]
    fn what_is_merged_late_is_the_oldest_without_a_gap() {
        let sstables = of_ranges(&[(0, 10), (0, 10), (0, 10), (5, 20), (15, 30), (15, 30)]);
        let sets = overlap_sets(scene(&sstables), (0..6).collect());
        assert_eq!(sets.iter().map(Vec::len).collect::<Vec<_>>(), [4, 3]);
        for (most, want) in [(2, 2), (3, 3), (4, 6)] {
            assert_eq!(limited(scene(&sstables), &sets, most), (0..want).collect::<Vec<_>>(), "{most}");
        }
        // What a merge has written last is as old as what it holds.
        let mut sstables = of_ranges(&[(0, 10); 5]);
        for (sstable, max) in sstables.iter_mut().zip([40, 30, 50, 20, 10]) {
            sstable.max_timestamp = max;
        }
        let sets = overlap_sets(scene(&sstables), (0..5).collect());
        assert_eq!(limited(scene(&sstables), &sets, 3), [4, 3, 1]);
    }

    #[test]
    fn neighbours_come_along_as_the_option_says() {
        let sstables = of_ranges(&[(0, 10), (0, 11), (0, 12), (0, 20), (15, 30), (25, 40), (50, 60)]);
        for (method, want) in [
            ("none", vec![0, 1, 2, 3]),
            ("SINGLE", vec![0, 1, 2, 3, 4]),
            ("transitive", vec![0, 1, 2, 3, 4, 5]),
        ] {
            let unified = of(&[("overlap_inclusion_method", method)]);
            let (overlap, inputs) =
                unified.bucket(scene(&sstables), (0..7).collect(), 0).expect("four overlap");
            assert_eq!((overlap, inputs), (4, want), "{method}");
        }
    }
}
