//! What is known of every partition that a run wrote: what was acknowledged, what may be there, what nobody wrote.
//!
//! ```text
//!  a try ends     well                       without an answer, or in doubt     refused for certain
//!  the ledger     acknowledged at its time   may be there since its time        nothing
//!
//!  values of a row, by their time    ── older: stale ──┤ acknowledged … newest ├── newer: phantom ──
//! ```
//! A time is the timestamp that the client gave a write, in microseconds since 1970. Values follow from the number of a partition, so a row
//! that was written twice holds the same bytes: only its times tell which of the two writes is there.
//!
//! Memory: 4 bytes for each partition of a long sequence, which keeps its times to the millisecond, for it cannot come round within one;
//! else up to 60 bytes for each partition that was written.

use crate::error::Error;
use crate::limits::{LEDGER_DRAWN_MAX, LEDGER_EXACT_MAX, LEDGER_EXAMPLES_MAX, LEDGER_SEQUENCE_MAX};
use crate::settings::{Population, Visited};
use base::HashMap;

/// Microseconds of a time that is kept to the millisecond.
const TICK: i64 = 1_000;
/// Partitions of a block, whose memory is taken when the first of them is written.
const BLOCK: u64 = 1 << 16;
/// Set in what is kept of a partition that may have been written later than it was acknowledged, if it was.
const DOUBT: u32 = 1 << 31;

/// What is known of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// A row is there, none of whose values is older.
    pub since: Option<i64>,
    /// None of its values is newer; nothing where nobody wrote.
    pub newest: Option<i64>,
}

/// What was read of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No row.
    Nothing,
    /// A row.
    Row {
        /// Time of its oldest value; the least where one is missing.
        oldest: i64,
        /// Time of its newest value.
        newest: i64,
        /// Its values are those that follow from the partition's number.
        is_right: bool,
    },
}

/// What is wrong with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Acknowledged, and not there.
    Lost,
    /// An older value than the acknowledged one.
    Stale,
    /// There although nobody wrote it.
    Phantom,
}

/// Compares what is known with what was read. Rows from before `start` are nobody's business unless they stand where newer ones should.
pub fn judge(known: Known, found: Found, start: i64) -> Option<(Finding, String)> {
    let (oldest, newest, is_right) = match (found, known.since) {
        (Found::Nothing, None) => return None,
        (Found::Nothing, Some(since)) => {
            return Some((Finding::Lost, format!("acknowledged at {since}, not there")));
        }
        (Found::Row { oldest, newest, is_right }, _) => (oldest, newest, is_right),
    };
    if let Some(since) = known.since.filter(|since| oldest < *since) {
        let told =
            if oldest == i64::MIN { "a value is missing".into() } else { format!("a value of {oldest}") };
        return Some((Finding::Stale, format!("acknowledged at {since}, {told}")));
    }
    if newest < start {
        return None;
    }
    match known.newest {
        None => Some((Finding::Phantom, format!("written at {newest}, by nobody"))),
        Some(last) if last < newest => {
            Some((Finding::Phantom, format!("last written at {last}, a value of {newest}")))
        }
        Some(_) if !is_right => {
            Some((Finding::Phantom, format!("other values than were written, of {newest}")))
        }
        Some(_) => None,
    }
}

/// What was found wrong: numbers, and the first few of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Acknowledged, and not there.
    pub lost: u64,
    /// Older than acknowledged.
    pub stale: u64,
    /// Written by nobody.
    pub phantom: u64,
    /// Lines of some of them.
    pub examples: Vec<String>,
}

impl Findings {
    /// Counts one of a partition, which `name` names.
    pub fn add(&mut self, finding: Finding, text: &str, name: impl FnOnce() -> String) {
        let (count, label) = match finding {
            Finding::Lost => (&mut self.lost, "lost"),
            Finding::Stale => (&mut self.stale, "stale"),
            Finding::Phantom => (&mut self.phantom, "phantom"),
        };
        *count += 1;
        if *count <= LEDGER_EXAMPLES_MAX {
            self.examples.push(format!("{label}: {}: {text}", name()));
        }
    }

    /// Nothing is wrong.
    pub fn is_clean(&self) -> bool {
        (self.lost, self.stale, self.phantom) == (0, 0, 0)
    }

    fn join(&mut self, other: Findings) {
        self.lost += other.lost;
        self.stale += other.stale;
        self.phantom += other.phantom;
        self.examples.extend(other.examples);
    }
}

/// Times of one partition; the least where there is none.
#[derive(Clone, Copy, Debug)]
struct Times {
    acknowledged: i64,
    newest: i64,
}

impl Times {
    const NONE: Times = Times { acknowledged: i64::MIN, newest: i64::MIN };

    fn known(self) -> Known {
        let some = |time: i64| (time != i64::MIN).then_some(time);
        Known { since: some(self.acknowledged), newest: some(self.newest) }
    }
}

/// A long sequence from its first partition on: of each the milliseconds from the start to its acknowledged write, and one more; and a bit.
#[derive(Debug)]
struct Coarse {
    first: i64,
    blocks: Vec<Vec<u32>>,
}

#[derive(Debug)]
enum Kept {
    Exact(HashMap<i64, Times>),
    Coarse(Coarse),
}

/// The ledger of one loader, or of several together.
#[derive(Debug)]
pub struct Ledger {
    /// Before the first write.
    start: i64,
    /// The newest time of any write that may be there.
    newest: i64,
    kept: Kept,
    /// What reads found wrong while it was written.
    pub early: Findings,
}

/// Errors: the ledger of a population would take too much memory.
pub fn fits(population: &Population) -> Result<(), Error> {
    let (name, count, most, bytes) = match &population.visited {
        Visited::Sequence { first, last, .. } => {
            ("sequence", last.saturating_sub(*first), LEDGER_SEQUENCE_MAX, 12)
        }
        Visited::Drawn(drawn) => {
            ("distribution", drawn.max().saturating_sub(drawn.min()), LEDGER_DRAWN_MAX, 68)
        }
    };
    let count = u64::try_from(count).unwrap_or(0).saturating_add(1);
    if count <= most {
        return Ok(());
    }
    Err(Error::usage(format!(
        "--verify keeps up to {bytes} bytes of memory for each partition of a {name}: {count} are more than {most}; give a smaller -pop"
    )))
}

impl Ledger {
    /// Nothing written yet of a population that [fits]; every write will have a later timestamp than `start`.
    pub fn new(population: &Population, start: i64) -> Ledger {
        let kept = match &population.visited {
            Visited::Sequence { first, last, .. } if LEDGER_EXACT_MAX < (last - first + 1) as u64 => {
                let blocks = ((last - first + 1) as u64).div_ceil(BLOCK);
                Kept::Coarse(Coarse { first: *first, blocks: vec![Vec::new(); blocks as usize] })
            }
            Visited::Sequence { .. } | Visited::Drawn(_) => Kept::Exact(HashMap::default()),
        };
        Ledger { start, newest: start, kept, early: Findings::default() }
    }

    /// Before the first write.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// A write was acknowledged.
    pub fn acknowledged(&mut self, partition: i64, timestamp: i64) {
        self.newest = self.newest.max(timestamp);
        match &mut self.kept {
            Kept::Exact(all) => {
                let times = all.entry(partition).or_insert(Times::NONE);
                times.acknowledged = times.acknowledged.max(timestamp);
                times.newest = times.newest.max(timestamp);
            }
            Kept::Coarse(coarse) => {
                let ticks = ticks(timestamp - self.start);
                if let Some(entry) = coarse.entry(partition) {
                    *entry = (*entry & DOUBT) | (*entry & !DOUBT).max(ticks);
                }
            }
        }
    }

    /// A write ended so that it may be there or not.
    pub fn doubtful(&mut self, partition: i64, timestamp: i64) {
        self.newest = self.newest.max(timestamp);
        match &mut self.kept {
            Kept::Exact(all) => {
                let times = all.entry(partition).or_insert(Times::NONE);
                times.newest = times.newest.max(timestamp);
            }
            Kept::Coarse(coarse) => {
                if let Some(entry) = coarse.entry(partition) {
                    *entry |= DOUBT;
                }
            }
        }
    }

    /// How a try of a write ended.
    pub fn wrote<T>(&mut self, partition: i64, timestamp: i64, outcome: &Result<T, client::Error>) {
        match outcome {
            Ok(_) => self.acknowledged(partition, timestamp),
            Err(error) if error.is_unknown() => self.doubtful(partition, timestamp),
            Err(_) => {}
        }
    }

    /// What is known of a partition.
    pub fn known(&self, partition: i64) -> Known {
        match &self.kept {
            Kept::Exact(all) => all.get(&partition).copied().unwrap_or(Times::NONE).known(),
            Kept::Coarse(coarse) => self.known_of(coarse.get(partition)),
        }
    }

    fn known_of(&self, entry: u32) -> Known {
        known_of((self.start, self.newest), entry)
    }

    /// The tables were emptied: what was acknowledged is not there, what is doubtful may still come.
    pub fn emptied(&mut self) {
        match &mut self.kept {
            Kept::Exact(all) => all.values_mut().for_each(|times| times.acknowledged = i64::MIN),
            Kept::Coarse(coarse) => {
                // What was acknowledged and what was not are one from now on: both may be there.
                let written = coarse.blocks.iter_mut().flatten().filter(|entry| **entry != 0);
                written.for_each(|entry| *entry = DOUBT);
            }
        }
    }

    /// Gives everything away and goes on with nothing.
    pub fn take(&mut self) -> Ledger {
        Ledger {
            start: self.start,
            newest: self.newest,
            kept: std::mem::replace(&mut self.kept, Kept::Exact(HashMap::default())),
            early: std::mem::take(&mut self.early),
        }
    }

    /// Adds another loader's, of the same population.
    pub fn join(&mut self, mut other: Ledger) {
        let start = self.start.min(other.start);
        self.move_start(start);
        other.move_start(start);
        self.newest = self.newest.max(other.newest);
        self.early.join(other.early);
        match (&mut self.kept, other.kept) {
            (Kept::Exact(all), Kept::Exact(more)) => {
                for (partition, more) in more {
                    let times = all.entry(partition).or_insert(Times::NONE);
                    times.acknowledged = times.acknowledged.max(more.acknowledged);
                    times.newest = times.newest.max(more.newest);
                }
            }
            (Kept::Coarse(coarse), Kept::Coarse(more)) => coarse.join(more),
            // One of them has been given away: what is left is nothing.
            (Kept::Exact(_), kept @ Kept::Coarse(_)) => self.kept = kept,
            (Kept::Coarse(_), Kept::Exact(_)) => {}
        }
    }

    /// Counts milliseconds from an earlier instant: none of them gets later than it was.
    fn move_start(&mut self, start: i64) {
        let by = u32::try_from((self.start - start) / TICK).unwrap_or(0);
        self.start = start;
        if let (Kept::Coarse(coarse), true) = (&mut self.kept, by > 0) {
            let acknowledged = coarse.blocks.iter_mut().flatten().filter(|entry| **entry & !DOUBT != 0);
            acknowledged.for_each(|entry| {
                *entry = (*entry & DOUBT) | (*entry & !DOUBT).saturating_add(by).min(DOUBT - 1);
            });
        }
    }

    /// Every partition that was written or may be, with what is known of it.
    pub fn into_known(self) -> Box<dyn Iterator<Item = (i64, Known)>> {
        let bounds = (self.start, self.newest);
        match self.kept {
            Kept::Exact(all) => {
                Box::new(all.into_iter().map(|(partition, times)| (partition, times.known())))
            }
            Kept::Coarse(Coarse { first, blocks }) => {
                let blocks = (first..).step_by(BLOCK as usize).zip(blocks);
                let entries = blocks.flat_map(|(from, block)| (from..).zip(block));
                Box::new(
                    entries
                        .filter(|(_, entry)| *entry != 0)
                        .map(move |(partition, entry)| (partition, known_of(bounds, entry))),
                )
            }
        }
    }
}

/// Milliseconds, counted from 1: nothing is acknowledged at 0.
fn ticks(micros: i64) -> u32 {
    u32::try_from(micros.max(0) / TICK + 1).unwrap_or(DOUBT - 1).min(DOUBT - 1)
}

fn known_of((start, newest): (i64, i64), entry: u32) -> Known {
    let ticks = entry & !DOUBT;
    Known {
        since: (ticks > 0).then(|| start + i64::from(ticks - 1) * TICK),
        newest: (entry != 0).then_some(newest),
    }
}

impl Coarse {
    fn place(&self, partition: i64) -> Option<(usize, usize)> {
        let at = u64::try_from(partition.checked_sub(self.first)?).ok()?;
        Some(((at / BLOCK) as usize, (at % BLOCK) as usize))
    }

    fn get(&self, partition: i64) -> u32 {
        let entry = self.place(partition).and_then(|(block, at)| self.blocks.get(block)?.get(at));
        entry.copied().unwrap_or(0)
    }

    fn entry(&mut self, partition: i64) -> Option<&mut u32> {
        let (block, at) = self.place(partition)?;
        let block = self.blocks.get_mut(block)?;
        if block.is_empty() {
            block.resize(BLOCK as usize, 0);
        }
        block.get_mut(at)
    }

    fn join(&mut self, other: Coarse) {
        for (block, more) in self.blocks.iter_mut().zip(other.blocks) {
            if block.is_empty() {
                *block = more;
                continue;
            }
            for (entry, more) in block.iter_mut().zip(more) {
                *entry = ((*entry | more) & DOUBT) | (*entry & !DOUBT).max(more & !DOUBT);
            }
        }
    }
}

#[cfg(test)]
mod tests;
