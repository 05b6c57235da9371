//! R8: a row cache that evicts all the time, and what LRU and CLOCK would have kept.
//!
//! The engine's cache (S3-FIFO) is measured as it is: misses read sstables whose blocks are all in memory, so that no
//! disk is in the numbers. LRU and CLOCK are simulated over the numbers of the keys, with as many places as the engine's
//! cache had rows in the end: only their hits are compared, for neither has the work or the memory of a real cache.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{apply, insert, key, kv, open, read, select, told};
use crate::meter::Meter;
use crate::zipf::Zipf;
use base::Prng;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use storage::{Settings, Store};

/// The cases of this module.
pub const CASES: &[Case] = &[Case {
    name: "R8",
    what: "skewed reads, eviction running: S3-FIFO beside LRU and CLOCK",
    run: |bench| boxed(r8(bench)),
}];

const VALUE: [u8; 100] = [7; 100];
/// What a row takes in the cache, about.
const ROW_BYTES: u64 = 250;
const NOWHERE: u32 = u32::MAX;

async fn r8(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(1_000_000);
    // Of the flat one the best that any cache of a hundredth can do is one hit in ten.
    for (exponent, part) in [(0.99, 10), (0.5, 100)] {
        let table = kv();
        // Below that there is no cache; what it holds is counted, so that little data is compared as fairly.
        let row_cache_bytes = (partitions * ROW_BYTES / part).max(storage::limits::CACHE_BYTES_MIN as u64);
        let settings = Settings { row_cache_bytes, block_cache_bytes: 1 << 30, ..bench.settings() };
        let store = open(settings, std::slice::from_ref(&table)).await?;
        for number in 0..partitions {
            apply(&store, insert(&table, &key(number), 1, &VALUE)).await?;
        }
        store.flush(None).await.map_err(told)?;
        let zipf = Zipf::new(partitions, exponent);
        let mut random = Prng::new(7);
        let count = bench.options.operations(400_000) as usize;
        let trace: Vec<u32> = (0..2 * count).map(|_| zipf.draw(&mut random) as u32).collect();
        let what = format!("zipf {exponent}");
        let (hits, rows) = engine(&bench, &store, &table, &trace, &what).await?;
        let best = zipf.share_of(rows) * 100.0;
        let lru = simulated(&trace, Lru::new(rows as usize, partitions as usize));
        let clock = simulated(&trace, Clock::new(rows as usize, partitions as usize));
        bench.fact(
            &format!("{what}, {rows} of {partitions} rows fit: hits"),
            &format!("S3-FIFO {hits:.1} %, LRU {lru:.1} %, CLOCK {clock:.1} %, the hottest rows {best:.1} %"),
        );
        bench.bar(&format!("hits for one of LRU, {what}"), hits / lru.max(0.01), Bar::AtLeast(1.0));
        bench.end(store).await?;
    }
    Ok(())
}

/// Reads the whole trace, of which the second half is measured; hits of that in percent, and cached rows.
async fn engine(
    bench: &Bench,
    store: &Rc<Store>,
    table: &Arc<schema::Table>,
    trace: &[u32],
    what: &str,
) -> Result<(f64, u64), String> {
    let (warm, measured) = trace.split_at(trace.len() / 2);
    for number in warm {
        read(store, &select(table, &key(u64::from(*number)))).await?;
    }
    let before = store.cache_stats();
    let meter = Meter::start();
    for number in measured {
        read(store, &select(table, &key(u64::from(*number)))).await?;
    }
    bench.cost(&format!("read, {what}, misses included"), meter.stop(measured.len() as u64));
    let after = store.cache_stats();
    let (hits, requests) = (after.hits - before.hits, after.requests - before.requests);
    let evictions = after.evictions - before.evictions;
    bench.fact(
        &format!("{what}: evictions, bytes of the cache"),
        &format!("{evictions} in {requests} reads; {} of {} B", after.bytes, after.capacity),
    );
    apart(bench, store, table, measured, what).await?;
    Ok((hits as f64 * 100.0 / requests.max(1) as f64, after.rows))
}

/// Reads once more, hits and misses apart, by the clock: each read is looked at, which takes a little itself.
async fn apart(
    bench: &Bench,
    store: &Rc<Store>,
    table: &Arc<schema::Table>,
    trace: &[u32],
    what: &str,
) -> Result<(), String> {
    let (mut counts, mut took) = ([0u64; 2], [0u64; 2]);
    for number in trace {
        let (command, before) = (select(table, &key(u64::from(*number))), store.cache_stats().hits);
        let since = Instant::now();
        read(store, &command).await?;
        let ns = since.elapsed().as_nanos() as u64;
        let is_hit = usize::from(store.cache_stats().hits > before);
        counts[is_hit] += 1;
        took[is_hit] += ns;
    }
    let each = |is_hit: usize| took[is_hit] as f64 / counts[is_hit].max(1) as f64;
    bench.fact(
        &format!("{what}: a hit, and a miss that evicts"),
        &format!("{:.0} ns and {:.0} ns on the clock", each(1), each(0)),
    );
    Ok(())
}

/// What is compared: whether a key is there, and that it is afterwards.
trait Policy {
    fn hit(&mut self, key: u32) -> bool;
}

/// Hits of the second half of the trace, in percent.
fn simulated(trace: &[u32], mut policy: impl Policy) -> f64 {
    let (warm, measured) = trace.split_at(trace.len() / 2);
    warm.iter().for_each(|key| {
        policy.hit(*key);
    });
    let hits = measured.iter().filter(|key| policy.hit(**key)).count();
    hits as f64 * 100.0 / measured.len().max(1) as f64
}

/// The one that was used longest ago goes. Keys are numbers, and the list is made of them: the last place is its end.
struct Lru {
    /// Newer and older neighbour of each key.
    around: Vec<(u32, u32)>,
    end: u32,
    left: usize,
}

impl Lru {
    fn new(places: usize, keys: usize) -> Lru {
        let end = keys as u32;
        let mut around = vec![(NOWHERE, NOWHERE); keys + 1];
        around[keys] = (end, end);
        Lru { around, end, left: places }
    }

    fn unlink(&mut self, key: u32) {
        let (newer, older) = self.around[key as usize];
        self.around[newer as usize].1 = older;
        self.around[older as usize].0 = newer;
        self.around[key as usize] = (NOWHERE, NOWHERE);
    }
}

impl Policy for Lru {
    fn hit(&mut self, key: u32) -> bool {
        let is_there = self.around[key as usize].0 != NOWHERE;
        if is_there {
            self.unlink(key);
        } else if self.left > 0 {
            self.left -= 1;
        } else {
            let oldest = self.around[self.end as usize].0;
            self.unlink(oldest);
        }
        let newest = self.around[self.end as usize].1;
        self.around[key as usize] = (self.end, newest);
        self.around[newest as usize].0 = key;
        self.around[self.end as usize].1 = key;
        is_there
    }
}

/// A hand goes round: what was used since it last came stays, the first that was not goes.
struct Clock {
    /// Keys, and whether they were used.
    places: Vec<(u32, bool)>,
    place_of: Vec<u32>,
    hand: usize,
}

impl Clock {
    fn new(places: usize, keys: usize) -> Clock {
        Clock { places: vec![(NOWHERE, false); places.max(1)], place_of: vec![NOWHERE; keys], hand: 0 }
    }
}

impl Policy for Clock {
    fn hit(&mut self, key: u32) -> bool {
        if let Some((_, used)) = self.places.get_mut(self.place_of[key as usize] as usize) {
            *used = true;
            return true;
        }
        while std::mem::take(&mut self.places[self.hand].1) {
            self.hand = (self.hand + 1) % self.places.len();
        }
        let gone = std::mem::replace(&mut self.places[self.hand], (key, false)).0;
        if let Some(place) = self.place_of.get_mut(gone as usize) {
            *place = NOWHERE;
        }
        self.place_of[key as usize] = self.hand as u32;
        self.hand = (self.hand + 1) % self.places.len();
        false
    }
}

#[cfg(test)]
mod tests {
    //! Both keep what they should of a short trace.
    use super::*;

    fn hits(mut policy: impl Policy, trace: &[u32]) -> Vec<bool> {
        trace.iter().map(|key| policy.hit(*key)).collect()
    }

    #[test]
    fn the_one_used_longest_ago_goes() {
        let seen = hits(Lru::new(2, 4), &[0, 1, 0, 2, 0, 1, 2]);
        assert_eq!(seen, [false, false, true, false, true, false, false]);
    }

    #[test]
    fn the_hand_passes_over_what_was_used() {
        let seen = hits(Clock::new(2, 4), &[0, 1, 0, 2, 0, 1, 2]);
        assert_eq!(seen, [false, false, true, false, true, false, false]);
        assert_eq!(hits(Clock::new(1, 3), &[0, 0, 1, 0]), [false, true, false, false]);
    }
}
