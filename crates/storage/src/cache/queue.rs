//! Which cached unit goes first: S3-FIFO over rows and partition heads.
//!
//! ```text
//! new ─► small (a tenth of the bytes) ─ hit meanwhile ─► main ─► tail: hit meanwhile? to the head again, one hit fewer
//!               └ not hit ─► gone, remembered as a ghost          └ not hit ─► gone
//! remembered as a ghost, and back ─► main
//! ```
//! A hit writes one byte of the unit and moves nothing. Units are doubly linked by number, so one that is dropped leaves
//! its queue at once. Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023.

use crate::memory::slab::Slab;
use base::prefetch;
use std::cell::Cell;

/// No unit.
pub(crate) const NO_UNIT: u32 = u32::MAX;
/// Share of all bytes that new units may take before the oldest of them must prove themselves, in percent.
const SMALL_PERCENT: usize = 10;
/// Most hits a unit is credited with.
const HITS_MAX: u8 = 3;
/// Units given another round in one step at most; the next one goes whatever its hits.
const ROUNDS_MAX: usize = 32;
/// Fingerprints of one bucket of ghosts: they leave it in the order in which they came.
const GHOSTS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Free,
    Small,
    Main,
}

/// What a unit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A partition whose rows are units of their own.
    Head,
    Row,
    /// A partition and the one row it may have.
    Single,
}

/// Something that is evicted alone.
#[derive(Debug)]
pub(crate) struct Unit {
    previous: u32,
    next: u32,
    /// Its partition; the table of a single.
    pub(crate) partition: u32,
    /// Its block.
    pub(crate) block: u32,
    /// Bytes it stands for.
    bytes: u32,
    hits: Cell<u8>,
    queue: Queue,
    pub(crate) kind: Kind,
}

const _: () = assert!(size_of::<Unit>() <= 24);

#[derive(Debug)]
struct List {
    /// Newest.
    head: u32,
    /// Oldest.
    tail: u32,
    bytes: usize,
}

impl List {
    const EMPTY: List = List { head: NO_UNIT, tail: NO_UNIT, bytes: 0 };
}

/// All units of a cache.
pub(crate) struct Units {
    units: Slab<Unit, 1024>,
    free: Vec<u32>,
    small: List,
    main: List,
    ghosts: Vec<[u32; GHOSTS]>,
    count: usize,
}

impl Units {
    /// None; remembers about so many evicted ones.
    pub(crate) fn new(ghosts: usize) -> Units {
        let buckets = (ghosts / GHOSTS).max(16).next_power_of_two();
        Units {
            units: Slab::default(),
            free: Vec::new(),
            small: List::EMPTY,
            main: List::EMPTY,
            ghosts: vec![[0; GHOSTS]; buckets],
            count: 0,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of memory of units and ghosts.
    pub(crate) fn bytes(&self) -> usize {
        self.units.bytes() + self.free.capacity() * 4 + self.ghosts.len() * GHOSTS * 4
    }

    /// Has a unit come into the processor's caches.
    #[inline]
    pub(crate) fn prefetch(&self, unit: u32) {
        prefetch(self.units.get(unit), size_of::<Unit>());
    }

    #[inline]
    pub(crate) fn get(&self, unit: u32) -> &Unit {
        self.units.get(unit)
    }

    /// A number for a unit that is about to be added.
    pub(crate) fn reserve(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let (previous, next) = (NO_UNIT, NO_UNIT);
            let (partition, block, bytes) = (NO_UNIT, 0, 0);
            let (hits, queue, kind) = (Cell::new(0), Queue::Free, Kind::Row);
            self.units.push(Unit { previous, next, partition, block, bytes, hits, queue, kind })
        })
    }

    /// Puts a reserved unit into a queue. `hash` tells whether it was here a while ago.
    pub(crate) fn add(&mut self, unit: u32, partition: u32, block: u32, bytes: usize, kind: Kind, hash: u64) {
        let (bucket, fingerprint) = self.ghost_of(hash);
        let was_here = self.ghosts[bucket].contains(&fingerprint);
        let queue = if was_here { Queue::Main } else { Queue::Small };
        let entry = self.units.get_mut(unit);
        assert!(entry.queue == Queue::Free, "a unit is added once");
        entry.partition = partition;
        entry.block = block;
        entry.bytes = bytes as u32;
        entry.kind = kind;
        entry.hits.set(0);
        self.push(unit, queue);
        self.count += 1;
    }

    /// A unit was used. One byte is written.
    #[inline]
    pub(crate) fn hit(&self, unit: u32) {
        let hits = &self.units.get(unit).hits;
        hits.set((hits.get() + 1).min(HITS_MAX));
    }

    /// A block was moved.
    pub(crate) fn set_block(&mut self, unit: u32, block: u32) {
        self.units.get_mut(unit).block = block;
    }

    /// A unit stands for another number of bytes now.
    pub(crate) fn set_bytes(&mut self, unit: u32, bytes: usize) {
        let entry = self.units.get_mut(unit);
        let old = std::mem::replace(&mut entry.bytes, bytes as u32) as usize;
        let list = match entry.queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
            Queue::Free => unreachable!("units without a queue have no bytes"),
        };
        list.bytes = list.bytes - old + bytes;
    }

    /// Takes a unit out for good.
    pub(crate) fn remove(&mut self, unit: u32) {
        self.unlink(unit);
        self.units.get_mut(unit).queue = Queue::Free;
        self.free.push(unit);
        self.count -= 1;
    }

    /// The unit to evict next, still in its queue; `None` when there is none. O(1): a bounded number is given another round.
    pub(crate) fn victim(&mut self) -> Option<u32> {
        for round in 0.. {
            let all = self.small.bytes + self.main.bytes;
            let from_small = self.main.tail == NO_UNIT || self.small.bytes > all * SMALL_PERCENT / 100;
            let unit =
                if from_small && self.small.tail != NO_UNIT { self.small.tail } else { self.main.tail };
            if unit == NO_UNIT {
                return None;
            }
            let entry = self.units.get(unit);
            let (hits, queue) = (entry.hits.get(), entry.queue);
            if hits == 0 || round >= ROUNDS_MAX {
                return Some(unit);
            }
            entry.hits.set(if queue == Queue::Small { 0 } else { hits - 1 });
            self.unlink(unit);
            self.push(unit, Queue::Main);
        }
        None
    }

    /// Gives a unit that [`Units::victim`] named another round.
    pub(crate) fn spare(&mut self, unit: u32) {
        self.unlink(unit);
        self.push(unit, Queue::Main);
    }

    /// Remembers that something was evicted.
    pub(crate) fn remember(&mut self, hash: u64) {
        let (bucket, fingerprint) = self.ghost_of(hash);
        let bucket = &mut self.ghosts[bucket];
        bucket.rotate_right(1);
        bucket[0] = fingerprint;
    }

    /// The units that stand for something, in any order.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Unit)> {
        let numbered = self.units.iter().enumerate();
        numbered.filter(|(_, unit)| unit.queue != Queue::Free).map(|(at, unit)| (at as u32, unit))
    }

    fn ghost_of(&self, hash: u64) -> (usize, u32) {
        // 0 is an empty place.
        (hash as usize & (self.ghosts.len() - 1), (hash >> 32) as u32 | 1)
    }

    fn list(&mut self, queue: Queue) -> &mut List {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
            Queue::Free => unreachable!("free units are in no list"),
        }
    }

    fn push(&mut self, unit: u32, queue: Queue) {
        let list = self.list(queue);
        let second = std::mem::replace(&mut list.head, unit);
        if second == NO_UNIT {
            list.tail = unit;
        }
        let entry = self.units.get_mut(unit);
        (entry.previous, entry.next, entry.queue) = (NO_UNIT, second, queue);
        let bytes = entry.bytes as usize;
        self.list(queue).bytes += bytes;
        if second != NO_UNIT {
            self.units.get_mut(second).previous = unit;
        }
    }

    fn unlink(&mut self, unit: u32) {
        let Unit { previous, next, bytes, queue, .. } = *self.units.get(unit);
        if previous != NO_UNIT {
            self.units.get_mut(previous).next = next;
        }
        if next != NO_UNIT {
            self.units.get_mut(next).previous = previous;
        }
        let list = self.list(queue);
        list.bytes -= bytes as usize;
        if list.head == unit {
            list.head = next;
        }
        if list.tail == unit {
            list.tail = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{HashMap, Prng};

    fn add(units: &mut Units, hash: u64) -> u32 {
        let unit = units.reserve();
        units.add(unit, 0, 0, 100, Kind::Row, hash);
        unit
    }

    #[test]
    fn what_is_hit_stays_and_what_comes_back_stays_longer() {
        let mut units = Units::new(1000);
        let all: Vec<u32> = (0..100).map(|i| add(&mut units, i << 33)).collect();
        units.hit(all[0]);
        assert_eq!(units.victim(), Some(all[1]), "the oldest was hit and is in the main queue now");
        units.remember(1 << 33);
        units.remove(all[1]);
        let again = add(&mut units, 1 << 33);
        assert_eq!(units.units.get(again).queue, Queue::Main, "it was here a while ago");
        assert_eq!(units.len(), 100);
        for unit in [all[7], all[0], all[99]] {
            units.remove(unit);
        }
        let mut left = 0;
        while let Some(victim) = units.victim() {
            units.remove(victim);
            left += 1;
        }
        assert_eq!((left, units.len(), units.small.bytes, units.main.bytes), (97, 0, 0, 0));
    }

    /// Against least-recently-used on the same room: keys drawn with a skew, and long scans between them.
    #[test]
    fn keeps_more_of_what_is_asked_for_than_lru_when_scans_pass() {
        const ROOM: usize = 1000;
        let (mut fifo_hits, mut lru_hits) = (0, 0);
        let mut prng = Prng::new(7);
        let mut units = Units::new(ROOM);
        let mut keys: HashMap<u64, u32> = HashMap::default();
        let mut names: HashMap<u32, u64> = HashMap::default();
        let mut used: HashMap<u64, u64> = HashMap::default();
        let mut scan = 1_000_000;
        for time in 0..60_000u64 {
            let key = if time % 10_000 < 2_000 {
                scan += 1;
                scan
            } else {
                (prng.unit().powi(4) * 10_000.0) as u64
            };
            let hash = base::murmur3(&key.to_le_bytes()).0 as u64;
            match keys.get(&key) {
                Some(unit) => {
                    fifo_hits += 1;
                    units.hit(*unit);
                }
                None => {
                    if units.len() == ROOM {
                        let victim = units.victim().expect("it is full");
                        let name = names.remove(&victim).expect("it has a name");
                        keys.remove(&name);
                        units.remember(base::murmur3(&name.to_le_bytes()).0 as u64);
                        units.remove(victim);
                    }
                    let unit = add(&mut units, hash);
                    keys.insert(key, unit);
                    names.insert(unit, key);
                }
            }
            lru_hits += u32::from(used.contains_key(&key));
            used.insert(key, time);
            if used.len() > ROOM {
                let oldest =
                    used.iter().min_by_key(|(_, time)| **time).map(|(key, _)| *key).expect("not empty");
                used.remove(&oldest);
            }
        }
        assert!(fifo_hits > lru_hits, "{fifo_hits} hits, {lru_hits} with least recently used");
    }
}
