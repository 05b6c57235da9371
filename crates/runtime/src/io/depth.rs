//! How many bytes a shard may have under way at a device.
//!
//! Whose turn it is matters only while requests wait in our queue: a device serves what it was given as it likes. So it is
//! given no more bytes than it has lately been seen to move in [`IO_QUEUE_TIME`], by all shards together, and each shard that
//! uses it an equal part of that. A device that is not busy moves what it was given in less time, and is given more.
//!
//! A device whose requests take longer than that however few they are would never be seen to do what it can. So while
//! requests wait the bound is raised now and then, and stays raised if the device then does more. It is lowered as often, and
//! stays lower if the device then does as much: a raise that other work made look good is taken back.

use crate::limits::{
    IO_BYTES_IN_FLIGHT, IO_BYTES_IN_FLIGHT_MIN, IO_PROBE_EVERY, IO_QUEUE_TIME, IO_SHARD_BYTES_MIN, IO_WINDOW,
};
use std::sync::{Mutex, PoisonError};

/// Windows of which the best rate counts.
const WINDOWS: usize = 8;
/// What a probe raises the bound by, or lowers it.
const PROBE: f64 = 1.5;
/// A raised bound stays when the rate grows by as much at least, a lower one when it does not fall by as much.
const WORTH: f64 = 1.15;

/// What the shards of a node do with a device.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<Vec<User>>);

#[derive(Debug)]
struct User {
    shard: u16,
    rate: u64,
    seen_at: u64,
}

impl Users {
    /// Notes the rate of one shard; the rate of all that used the device in the last second, and how many they are.
    fn note(&self, shard: u16, rate: u64, now: u64) -> (u64, u64) {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|user| user.shard != shard && now.saturating_sub(user.seen_at) < 1_000_000_000);
        users.push(User { shard, rate, seen_at: now });
        (users.iter().map(|user| user.rate).sum(), users.len() as u64)
    }
}

/// The bound of one shard at one device.
#[derive(Debug)]
pub(crate) struct Depth {
    /// Since when what has ended is counted, nanoseconds, and what has.
    since: u64,
    bytes: u64,
    /// Did requests wait for others to end in this window?
    was_full: bool,
    /// Bytes per second of the last windows.
    rates: [u64; WINDOWS],
    next: usize,
    /// What is given of what the device does in the queue time.
    gain: f64,
    /// The rate before the bound was changed, while it is being tried.
    probing: Option<u64>,
    /// Is the next try, or the one under way, to give less?
    downwards: bool,
    /// Windows until the next try.
    rest: u32,
}

impl Depth {
    pub(crate) fn new() -> Depth {
        let (rates, rest) = ([0; WINDOWS], 0);
        Depth {
            since: 0,
            bytes: 0,
            was_full: false,
            rates,
            next: 0,
            gain: 1.0,
            probing: None,
            downwards: false,
            rest,
        }
    }

    /// So many bytes have ended; `full`: others waited for that. The new bound when a window ended with them. `now`:
    /// nanoseconds of a clock that all shards see.
    pub(crate) fn ended(
        &mut self,
        bytes: u64,
        full: bool,
        now: u64,
        users: &Users,
        shard: u16,
    ) -> Option<u64> {
        self.bytes += bytes;
        self.was_full |= full;
        let passed = now.saturating_sub(self.since);
        if passed < IO_WINDOW.as_nanos() as u64 {
            return None;
        }
        let rate = (u128::from(self.bytes) * 1_000_000_000 / u128::from(passed)) as u64;
        (self.since, self.bytes) = (now, 0);
        let was_full = std::mem::take(&mut self.was_full);
        if passed < 4 * IO_WINDOW.as_nanos() as u64 {
            self.rates[self.next] = rate;
            self.next = (self.next + 1) % WINDOWS;
            self.probe(rate, was_full);
        } else {
            // After a rest nobody knows.
            *self = Depth { since: now, ..Depth::new() };
        }
        let best = self.rates.iter().copied().max().unwrap_or(0);
        let (of_all, shards) = users.note(shard, best, now);
        let of_device = (of_all as f64 * IO_QUEUE_TIME.as_secs_f64()) as u64;
        let bytes_max = (of_device.max(IO_BYTES_IN_FLIGHT_MIN) / shards) as f64 * self.gain;
        Some((bytes_max as u64).clamp(IO_SHARD_BYTES_MIN, IO_BYTES_IN_FLIGHT))
    }

    fn probe(&mut self, rate: u64, was_full: bool) {
        let step = |downwards: bool| if downwards { 1.0 / PROBE } else { PROBE };
        if let Some(before) = self.probing.take() {
            let (rate, before) = (rate as f64, before as f64);
            let stays = if self.downwards { rate * WORTH > before } else { rate >= before * WORTH };
            if stays {
                self.rest = 0;
            } else {
                self.gain = (self.gain / step(self.downwards)).max(1.0);
                self.rest = IO_PROBE_EVERY;
                self.downwards = !self.downwards;
            }
        }
        // Less than the queue time is never tried.
        if self.downwards && self.gain <= 1.0 {
            self.downwards = false;
            self.rest = IO_PROBE_EVERY;
        }
        match self.rest {
            0 if was_full && rate > 0 => {
                self.probing = Some(rate);
                self.gain = (self.gain * step(self.downwards)).max(1.0);
            }
            0 => {}
            _ => self.rest -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// A device that does `rate` bytes a second and takes `latency_ms` for each request, used by some shards that always have
    /// more; their bounds after some seconds.
    fn settle(rate: u64, latency_ms: u64, shards: u16, full: bool) -> Vec<u64> {
        let users = Users::default();
        let mut all: Vec<(Depth, u64)> =
            (0..shards).map(|_| (Depth::new(), IO_BYTES_IN_FLIGHT_MIN)).collect();
        let mut now = 5_000_000_000;
        for _ in 0..8_000 {
            now += 1_000_000;
            let wanted: u64 = all.iter().map(|(_, bound)| bound / latency_ms).sum();
            for (number, (depth, bound)) in all.iter_mut().enumerate() {
                let own = *bound / latency_ms;
                let done = if wanted > rate / 1000 { own * (rate / 1000) / wanted } else { own };
                if let Some(new) = depth.ended(done, full, now, &users, number as u16) {
                    *bound = new;
                }
            }
        }
        all.into_iter().map(|(_, bound)| bound).collect()
    }

    #[test]
    fn a_device_gets_what_it_does_in_the_queue_time() {
        let bound = settle(1_000 * MB, 1, 1, true)[0];
        let exact = 1_000 * MB / 1000 * IO_QUEUE_TIME.as_millis() as u64;
        // A try may be under way.
        assert!((exact - exact / 10..=exact * 8 / 5).contains(&bound), "{bound}");
        let slow = settle(20 * MB, 1, 1, true)[0];
        assert!((IO_BYTES_IN_FLIGHT_MIN..=IO_BYTES_IN_FLIGHT_MIN * 8 / 5).contains(&slow), "{slow}");
        assert_eq!(settle(100_000 * MB, 1, 1, true)[0], IO_BYTES_IN_FLIGHT);
        assert_eq!(
            settle(20 * MB, 1, 1, false)[0],
            IO_BYTES_IN_FLIGHT_MIN,
            "nobody waited, nothing is tried"
        );
    }

    #[test]
    fn a_device_of_long_latency_is_seen_to_do_more_when_it_is_given_more() {
        let bound = settle(400 * MB, 20, 1, true)[0];
        // What keeps it busy: its rate for as long as a request takes.
        assert!(bound >= 400 * MB / 1000 * 20 * 8 / 10, "{bound}");
    }

    /// Large writes end in some windows and not in others, so some tries look good that are not.
    #[test]
    fn a_rate_that_swings_raises_nothing_for_long() {
        let (mut depth, users) = (Depth::new(), Users::default());
        let (mut now, mut above, mut windows) = (5_000_000_000, 0, 0);
        let mut chance = base::Prng::new(3);
        for _ in 0..4_000 {
            now += IO_WINDOW.as_nanos() as u64;
            let moved = 50 * MB / 20 * (60 + chance.below(81)) / 100;
            let bound = depth.ended(moved, true, now, &users, 0).expect("a window has ended");
            // The best window moved two fifths more than the mean, and a try may be under way.
            above += u64::from(bound > 50 * MB / 100 * 7 / 5 * 8 / 5);
            windows += 1;
        }
        assert!(above * 5 < windows, "{above} of {windows} windows");
    }

    #[test]
    fn shards_get_equal_parts() {
        let bounds = settle(1_000 * MB, 1, 8, false);
        let exact = 1_000 * MB / 1000 * IO_QUEUE_TIME.as_millis() as u64 / 8;
        assert!(bounds.iter().all(|bound| bound.abs_diff(exact) < exact / 5), "{bounds:?}");
        let mut users = Users::default();
        users.note(0, 10 * MB, 0);
        assert_eq!(users.note(1, 20 * MB, 500_000_000), (30 * MB, 2));
        assert_eq!(users.note(1, 5 * MB, 1_600_000_000), (5 * MB, 1), "the other has had a rest");
        users = Users::default();
        assert_eq!(users.note(7, 1, 0), (1, 1));
    }

    #[test]
    fn after_a_rest_nothing_is_known() {
        let (mut depth, users) = (Depth::new(), Users::default());
        let mut now = 1_000_000_000;
        let mut bound = None;
        for _ in 0..200 {
            now += 1_000_000;
            bound = depth.ended(MB, true, now, &users, 0).or(bound);
        }
        assert!(bound.expect("told") > IO_BYTES_IN_FLIGHT_MIN);
        assert_eq!(depth.ended(1, false, now + 60_000_000_000, &users, 0), Some(IO_BYTES_IN_FLIGHT_MIN));
    }
}
