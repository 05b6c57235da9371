//! How fast writes are let in while the disk takes less than they bring.
//!
//! ```text
//! used = bytes of memtables - bytes of them that a running flush has on disk + bytes of writes that wait for their sync
//!
//!  0 ──────────── 30 % ── 35 % ═══════════════ 50 % of the budget ─────────────── 100 %
//!    memory only    flushes    p = 0      p = 1: nothing is let in         bytes of memtables, never more
//!
//!    rate of admission = rate of flushes * (1 - p) / p
//! ```
//! At p = ½ as much comes in as goes out: that is where a load above the disk's settles, from both sides, in about the time
//! in which flushes write a tenth of the budget. Below 35 % nothing is delayed and the law costs one comparison. Counting
//! what a flush has already written as gone is what makes it smooth: memory itself is given back only when a whole memtable
//! is in the manifest. A flush is as far as its time: index, syncs and manifest come when all data is written, and by what they
//! took lately they are counted as part of it, or nothing would be let in meanwhile. What is written and not given back is about as much as what is used, so memtables take 85 % of the
//! budget under such a load; from 88 % on p follows them, too, and is 1 when the budget is full.
//!
//! Memory of tables that cannot be flushed is taken out of both, the bytes and the budget: it does not become free by
//! waiting, and other tables go on with what is left.
//!
//! Writes wait in one queue, first come first served; the first of it sleeps until its bytes fit the rate. One shard.

use crate::limits::{ADMISSION_BURST, ADMISSION_LOOK, DRAIN_BYTES_START, DRAIN_WINDOW, FLUSH_LOOK};
use base::Instant;
use runtime::Group;
use runtime::sync::Lock;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

/// Share of the budget, in percent, above which a flush starts.
const FLUSH_PERCENT: usize = 30;
/// Share of the budget, in percent, above which writes are paced.
const PACE_PERCENT: usize = 35;
/// Share of the budget, in percent, at which none is let in.
const STOP_PERCENT: usize = 50;
/// Share of the budget, in percent, that memtables themselves may take before writes are paced for that.
const MEMORY_PERCENT: usize = 88;
/// How often somebody looks while memtables grow from nothing to the budget.
const LOOKS: usize = 100;
/// Share of the budget, in percent, that is kept from others for what memtables take next.
const AHEAD_PERCENT: usize = 9;
/// Shares of the processor that flushes have at rest and when nothing more is let in.
const SHARES: (u32, u32) = (200, 1200);
/// Weight of the newest window in the rate of flushes.
const NEWEST: f64 = 0.3;
/// Below so many partitions the bytes of data tell how far a flush is.
const FEW_PARTITIONS: u64 = 64;
/// As much of a flush as may be told by its bytes alone: the memtable before may have been of another kind.
const MOST_BY_BYTES: f64 = 0.9;
/// Share of the budget, in percent, below which a flush tells nothing about how long others take.
const LEARN_PERCENT: usize = 1;
/// So many times what was known, at most, is learned from one flush.
const OUTLIER: f64 = 4.0;
/// As much of a flush's time as may be counted for what comes after its data.
const MOST_AFTER_DATA: f64 = 0.8;

const _: () = assert!(AHEAD_PERCENT > 2 * 100 / LOOKS, "what is taken back is taken before it is needed");
const _: () = assert!(FLUSH_PERCENT < PACE_PERCENT && PACE_PERCENT < STOP_PERCENT);
const _: () =
    assert!(PACE_PERCENT + STOP_PERCENT < MEMORY_PERCENT, "a load above the disk's settles below this");

/// The memory of one shard's memtables and who waits for it.
pub(crate) struct Pressure {
    budget: usize,
    /// Bytes of all memtables that no sstable replaces yet.
    memory: Cell<usize>,
    /// Bytes of memtables that running flushes have on disk.
    written: Cell<usize>,
    /// Bytes of memtables whose flush failed and will be tried again.
    stuck: Cell<usize>,
    /// Bytes of writes that are logged and not yet in a memtable.
    reserved: Cell<usize>,
    /// Bytes of memtables at which writes begin to be paced: follows `written` and `reserved`.
    pace_at: Cell<usize>,
    /// Bytes of memtables at which somebody looks whether a flush is due, or whether caches must give memory back.
    look_at: Cell<usize>,
    /// Bytes of memtables when somebody looked last.
    seen: Cell<usize>,
    drain: Drain,
    /// Bytes of a data file per byte of memtable, lately; 0 when none was flushed yet.
    data_ratio: Cell<f64>,
    /// Seconds that flushes take once their data is written, lately.
    after_data: Cell<f64>,
    /// Bytes of memtables and seconds in which their data was written: sums in which the latest count most.
    data: Cell<(f64, f64)>,
    /// Bytes that may be let in at once; negative after a large write.
    bucket: Cell<f64>,
    filled_at: Cell<Instant>,
    queue: Lock<()>,
}

/// How fast flushes free memory: bytes of memtables per second of flushing.
struct Drain {
    rate: Cell<f64>,
    running: Cell<u32>,
    window_start: Cell<Instant>,
    window_bytes: Cell<usize>,
}

/// What the first in the queue is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It may go on.
    Admitted,
    /// Look again then.
    Wait(Duration),
    /// Nothing is let in before a flush makes progress.
    Stopped,
}

impl Pressure {
    pub(crate) fn new(budget: u64) -> Rc<Pressure> {
        let pressure = Pressure {
            budget: (budget as usize).max(1),
            memory: Cell::new(0),
            written: Cell::new(0),
            stuck: Cell::new(0),
            reserved: Cell::new(0),
            pace_at: Cell::new(0),
            look_at: Cell::new(0),
            seen: Cell::new(0),
            drain: Drain {
                rate: Cell::new(DRAIN_BYTES_START as f64),
                running: Cell::new(0),
                window_start: Cell::new(Instant(0)),
                window_bytes: Cell::new(0),
            },
            data_ratio: Cell::new(0.0),
            after_data: Cell::new(0.0),
            data: Cell::new((0.0, 0.0)),
            bucket: Cell::new(0.0),
            filled_at: Cell::new(Instant(0)),
            queue: Lock::new(()),
        };
        pressure.place_marks();
        Rc::new(pressure)
    }

    /// So much of what memtables that can be flushed may take.
    fn percent(&self, percent: usize) -> usize {
        share(self.budget.saturating_sub(self.stuck.get()), percent)
    }

    fn place_marks(&self) {
        let gone = self.written.get() + self.stuck.get();
        let mark = |percent| (self.percent(percent) + gone).saturating_sub(self.reserved.get());
        let memory = share(self.budget, MEMORY_PERCENT).saturating_sub(self.reserved.get());
        self.pace_at.set(mark(PACE_PERCENT).min(memory));
        self.look_at.set(mark(FLUSH_PERCENT).min(self.seen.get() + self.budget / LOOKS));
    }

    /// Bytes of all memtables.
    pub(crate) fn memory(&self) -> usize {
        self.memory.get()
    }

    /// Bytes of memtables that are not on disk yet, and those about to come.
    pub(crate) fn used(&self) -> usize {
        let gone = self.written.get() + self.stuck.get();
        (self.memory.get() + self.reserved.get()).saturating_sub(gone)
    }

    /// So many bytes of memtables wait for a flush that failed.
    pub(crate) fn set_stuck(&self, bytes: usize) {
        self.stuck.set(bytes);
        self.place_marks();
    }

    /// Whether a write has to ask [`Pressure::admit`]. One comparison.
    pub(crate) fn is_on(&self) -> bool {
        self.memory.get() >= self.pace_at.get()
    }

    /// A memtable has grown, or given memory back. True when somebody should look whether a flush is due, and whether caches
    /// have to give memory back.
    pub(crate) fn grew(&self, bytes: isize) -> bool {
        let memory = self.memory.get().saturating_add_signed(bytes);
        self.memory.set(memory);
        if memory < self.look_at.get() {
            return false;
        }
        // The one who looks finds everything up to now.
        self.seen.set(memory);
        self.look_at.set(memory + self.budget / LOOKS + 1);
        true
    }

    /// Bytes that memtables leave to others for now: what they do not have, but for what they take before others have given it
    /// back.
    pub(crate) fn spare(&self) -> usize {
        let taken = self.memory.get() + self.reserved.get() + share(self.budget, AHEAD_PERCENT);
        self.budget.saturating_sub(taken)
    }

    /// Memtables are gone.
    pub(crate) fn freed(&self, bytes: usize) {
        self.memory.set(self.memory.get().saturating_sub(bytes));
        self.seen.set(self.memory.get());
        self.place_marks();
    }

    /// Whether so much is in memory that a flush is due.
    pub(crate) fn wants_flush(&self) -> bool {
        self.used() >= self.percent(FLUSH_PERCENT)
    }

    /// Whether the disk takes less than comes in: then a second flush may run.
    pub(crate) fn is_behind(&self) -> bool {
        self.used() >= self.percent(PACE_PERCENT)
    }

    /// From 0, writes go as they come, to 1, none is let in.
    pub(crate) fn level(&self) -> f64 {
        // With a budget of a few bytes both are the same.
        let between =
            |bytes: usize, low: usize, high: usize| (bytes as f64 - low as f64) / (high - low).max(1) as f64;
        let unwritten = between(self.used(), self.percent(PACE_PERCENT), self.percent(STOP_PERCENT));
        let memory = self.memory.get() + self.reserved.get();
        let memory = between(memory, share(self.budget, MEMORY_PERCENT), self.budget);
        unwritten.max(memory).clamp(0.0, 1.0)
    }

    /// Bytes of memtables that flushes free in a second while they run.
    pub(crate) fn drain_rate(&self) -> f64 {
        self.drain.rate.get()
    }

    /// The turn of the first in the queue.
    pub(crate) fn queue(&self) -> &Lock<()> {
        &self.queue
    }

    /// Whether a write of so many bytes may go on now; asked by the first in the queue.
    pub(crate) fn admit(&self, bytes: usize, now: Instant) -> Verdict {
        let level = self.level();
        if level <= 0.0 {
            self.filled_at.set(now);
            self.bucket.set(0.0);
            return Verdict::Admitted;
        }
        // A write that is larger than the budget is let in alone.
        let full = self.memory.get() > 0 && self.memory.get() + self.reserved.get() + bytes > self.budget;
        if level >= 1.0 || full {
            self.filled_at.set(now);
            return Verdict::Stopped;
        }
        let rate = (self.drain.rate_at(now) * (1.0 - level) / level).max(1.0);
        let passed = now.saturating_duration_since(self.filled_at.replace(now)).as_secs_f64();
        let most = rate * ADMISSION_BURST.as_secs_f64();
        let bucket = (self.bucket.get() + passed * rate).min(most);
        if bucket < 0.0 {
            self.bucket.set(bucket);
            let wait = Duration::from_secs_f64((-bucket / rate).min(1.0));
            return Verdict::Wait(wait.clamp(ADMISSION_BURST / 2, ADMISSION_LOOK));
        }
        self.bucket.set(bucket - bytes as f64);
        Verdict::Admitted
    }

    /// Keeps room for a write that is logged and will be in a memtable later.
    pub(crate) fn reserve(self: &Rc<Self>, bytes: usize) -> Reserved {
        self.reserved.set(self.reserved.get() + bytes);
        self.place_marks();
        Reserved { pressure: self.clone(), bytes }
    }

    /// A flush of a memtable of so many bytes begins.
    pub(crate) fn flush(self: &Rc<Self>, bytes: usize) -> Progress {
        let began = runtime::now();
        self.drain.begin(began);
        Progress {
            pressure: self.clone(),
            bytes,
            written: Cell::new(0),
            began,
            data_ended: Cell::new(None),
            after_data_share: self.after_data_share(bytes),
        }
    }

    /// The share of its time that a flush of so many bytes will take when its data is written.
    fn after_data_share(&self, bytes: usize) -> f64 {
        let (after, (known, seconds)) = (self.after_data.get(), self.data.get());
        if known <= 0.0 || after <= 0.0 {
            return 0.0;
        }
        (after / (after + bytes as f64 * seconds / known)).min(MOST_AFTER_DATA)
    }

    fn credit(&self, bytes: usize) {
        self.written.set(self.written.get() + bytes);
        self.place_marks();
        let now = runtime::now();
        if self.drain.took(bytes, now) {
            let (rest, full) = SHARES;
            let share = self.used() as f64 / self.percent(STOP_PERCENT).max(1) as f64;
            let shares = f64::from(rest) + f64::from(full - rest) * share.clamp(0.0, 1.0);
            runtime::set_shares(Group::FLUSH, shares as u32);
        }
    }
}

fn share(bytes: usize, percent: usize) -> usize {
    bytes / 100 * percent + bytes % 100 * percent / 100
}

impl Drain {
    fn begin(&self, now: Instant) {
        if self.running.replace(self.running.get() + 1) == 0 {
            self.window_start.set(now);
            self.window_bytes.set(0);
        }
    }

    fn end(&self) {
        self.running.set(self.running.get() - 1);
    }

    /// Counts bytes that were written; true when a window has ended with them.
    fn took(&self, bytes: usize, now: Instant) -> bool {
        self.window_bytes.set(self.window_bytes.get() + bytes);
        let passed = now.saturating_duration_since(self.window_start.get());
        if passed < DRAIN_WINDOW {
            return false;
        }
        let newest = self.window_bytes.replace(0) as f64 / passed.as_secs_f64();
        self.rate.set(self.rate.get() * (1.0 - NEWEST) + newest * NEWEST);
        self.window_start.set(now);
        true
    }

    /// The rate, lower while a window lasts so long that it cannot be kept: the disk stands still.
    fn rate_at(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.window_start.get());
        if self.running.get() == 0 || passed < 4 * DRAIN_WINDOW {
            return self.rate.get();
        }
        // Half a window's worth, so that it is slow and never nothing.
        let least = self.rate.get() * DRAIN_WINDOW.as_secs_f64() / 2.0;
        let seen = (self.window_bytes.get() as f64).max(least) / passed.as_secs_f64();
        self.rate.get().min(seen)
    }
}

/// Room kept for a write; given back on drop.
pub(crate) struct Reserved {
    pressure: Rc<Pressure>,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let pressure = &self.pressure;
        pressure.reserved.set(pressure.reserved.get().saturating_sub(self.bytes));
        pressure.place_marks();
    }
}

/// A flush that runs. What it has written counts as gone until it ends, well or not; in the same step the memtable is
/// either [`freed`](Pressure::freed) or counts whole again.
pub(crate) struct Progress {
    pressure: Rc<Pressure>,
    bytes: usize,
    written: Cell<usize>,
    began: Instant,
    data_ended: Cell<Option<Instant>>,
    /// What is not counted before the data has ended.
    after_data_share: f64,
}

impl Progress {
    /// Does what is left of the flush, and counts its time as progress.
    pub(crate) async fn through<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            match runtime::timeout(FLUSH_LOOK, work.as_mut()).await {
                Ok(done) => return done,
                Err(_) => self.look(runtime::now()),
            }
        }
    }

    /// Counts the time since the data has ended.
    fn look(&self, now: Instant) {
        let Some(ended) = self.data_ended.get() else { return };
        let expected = self.pressure.after_data.get();
        let passed = now.saturating_duration_since(ended).as_secs_f64();
        let part = if expected > 0.0 { (passed / expected).min(1.0) } else { 1.0 };
        self.reached(1.0 - self.after_data_share * (1.0 - part));
    }

    /// The flush is done: the next ones will take about as long.
    pub(crate) fn finished(&self) {
        self.reached(1.0);
        let Some(ended) = self.data_ended.get() else { return };
        let pressure = &self.pressure;
        // What is small tells nothing about what is large.
        if self.bytes < share(pressure.budget, LEARN_PERCENT) {
            return;
        }
        let seconds = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
        let (known, newest) = (pressure.after_data.get(), seconds(ended, runtime::now()));
        pressure.after_data.set(match known > 0.0 {
            // One that stood still is no rule.
            true => known * (1.0 - NEWEST) + newest.min(known * OUTLIER) * NEWEST,
            false => newest,
        });
        let (bytes, time) = pressure.data.get();
        let fade = 1.0 - NEWEST;
        pressure.data.set((bytes * fade + self.bytes as f64, time * fade + seconds(self.began, ended)));
    }

    /// So many of the partitions and bytes of data are on disk.
    pub(crate) fn wrote(&self, partitions: u64, of: u64, data_bytes: u64) {
        let by_keys = partitions as f64 / of.max(1) as f64;
        let expected = self.bytes as f64 * self.pressure.data_ratio.get();
        // Few partitions are large ones: there only their bytes tell how far it is.
        let by_bytes = if of < FEW_PARTITIONS && expected > 0.0 { data_bytes as f64 / expected } else { 0.0 };
        self.reached(by_keys.max(by_bytes.min(MOST_BY_BYTES)) * (1.0 - self.after_data_share));
    }

    /// All of it is written, in so many bytes of data.
    pub(crate) fn ended(&self, data_bytes: u64) {
        let (ratio, newest) = (&self.pressure.data_ratio, data_bytes as f64 / self.bytes.max(1) as f64);
        let known = if ratio.get() > 0.0 { ratio.get() } else { newest };
        ratio.set(known * (1.0 - NEWEST) + newest * NEWEST);
        self.data_ended.set(Some(runtime::now()));
        self.reached(1.0 - self.after_data_share);
    }

    fn reached(&self, part: f64) {
        let written = (self.bytes as f64 * part.clamp(0.0, 1.0)) as usize;
        let before = self.written.replace(written.max(self.written.get()));
        self.pressure.credit(self.written.get() - before);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let pressure = &self.pressure;
        pressure.written.set(pressure.written.get() - self.written.get());
        pressure.drain.end();
        pressure.place_marks();
    }
}

#[cfg(test)]
mod tests {
    //! The law alone, against a disk of a given rate: where it settles, how smoothly, and that it stops in time.
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn at(us: u64) -> Instant {
        Instant(us * 1000)
    }

    /// A disk that frees `rate` bytes a second, against a client that always has something to write; bytes let in per
    /// tenth of a second.
    fn admitted(pressure: &Rc<Pressure>, rate: impl Fn(u64) -> f64, tenths: u64) -> Vec<usize> {
        let mut let_in = vec![0; tenths as usize];
        pressure.drain.begin(at(0));
        let mut owed = 0.0;
        for us in (0..tenths * 100_000).step_by(500) {
            // A flush that never ends: what it writes is gone at once.
            owed += rate(us) * 0.0005;
            if owed >= 65536.0 && pressure.used() > 65536 {
                owed -= 65536.0;
                pressure.memory.set(pressure.memory.get() - 65536);
                pressure.place_marks();
                pressure.drain.took(65536, at(us));
            }
            for _ in 0..1000 {
                let now = at(us + 1);
                if pressure.is_on() && pressure.admit(1000, now) != Verdict::Admitted {
                    break;
                }
                pressure.grew(1000);
                let_in[(us / 100_000) as usize] += 1000;
            }
            assert!(pressure.used() <= pressure.percent(STOP_PERCENT) + 1000, "never beyond where it stops");
        }
        let_in
    }

    #[test]
    fn a_load_without_end_is_let_in_as_fast_as_the_disk_writes() {
        for rate in [5.0 * MIB as f64, 40.0 * MIB as f64] {
            let pressure = Pressure::new(64 * MIB as u64);
            let let_in = admitted(&pressure, |_| rate, 100);
            let later = &let_in[50..];
            for bytes in later {
                let share = *bytes as f64 / (rate / 10.0);
                assert!((0.9..1.1).contains(&share), "{share} of {rate}");
            }
            assert!((0.4..0.6).contains(&pressure.level()), "{}", pressure.level());
        }
    }

    #[test]
    fn a_disk_that_slows_down_slows_writes_down_and_one_that_stands_still_stops_them() {
        let pressure = Pressure::new(64 * MIB as u64);
        let fast = 40.0 * MIB as f64;
        let let_in = admitted(&pressure, |us| if us < 5_000_000 { fast } else { fast / 8.0 }, 150);
        let share = let_in[120..].iter().sum::<usize>() as f64 / (fast / 8.0 * 3.0);
        assert!((0.9..1.1).contains(&share), "{share}");
        let stopped = admitted(&Pressure::new(64 * MIB as u64), |_| 0.0, 100);
        assert!(stopped[90..].iter().sum::<usize>() < MIB / 10, "{:?}", &stopped[90..]);
    }

    #[test]
    fn below_the_mark_nothing_is_delayed_and_what_is_written_makes_room() {
        let pressure = Pressure::new(100 * MIB as u64);
        assert!(!pressure.grew(MIB as isize - 1) && pressure.grew(2), "caches may have to give way");
        assert!(pressure.grew((19 * MIB) as isize) && !pressure.wants_flush() && !pressure.is_on());
        assert!(pressure.grew((11 * MIB) as isize), "a flush is due");
        assert!(!pressure.grew((MIB / 2) as isize), "it was said already");
        assert!(pressure.wants_flush() && !pressure.is_on());
        pressure.grew((8 * MIB) as isize);
        assert!(pressure.is_on() && pressure.level() > 0.0);
        pressure.written.set(10 * MIB);
        pressure.place_marks();
        assert!(!pressure.is_on());
        let reserved = pressure.reserve(10 * MIB);
        assert!(pressure.is_on());
        drop(reserved);
        assert!(pressure.grew((MIB / 2 + 2) as isize), "a write that waited for its sync delays no look");
        assert!(!pressure.is_on());
        pressure.grew((55 * MIB) as isize);
        assert_eq!(pressure.admit(1, at(1)), Verdict::Stopped);
        pressure.freed(pressure.memory());
        pressure.written.set(0);
        pressure.place_marks();
        assert!(!pressure.is_on());
    }

    #[test]
    fn what_is_larger_than_the_budget_is_let_in_alone() {
        let pressure = Pressure::new(MIB as u64);
        assert!(!pressure.is_on());
        pressure.grew((3 * MIB) as isize);
        assert_eq!(pressure.admit(10, at(5)), Verdict::Stopped);
        pressure.freed(3 * MIB);
        assert!(!pressure.is_on());
    }
}
