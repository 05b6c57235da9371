//! How many bytes a shard may have under way at a device, how many of the background, and how large a piece of it is.
//!
//! Whose turn it is matters only while requests wait in our queue: a device serves what it was given as it likes. So it is
//! given no more bytes than it has lately been seen to move in [`IO_QUEUE_TIME`], by all shards together, and each shard that
//! uses it an equal part of that. A device that is not busy moves what it was given in less time, and is given more.
//!
//! A device whose requests take longer than that however few they are would never be seen to do what it can. So while
//! requests wait the bound is raised now and then, and stays raised if the device then does more. It is lowered as often, and
//! stays lower if the device then does as much: a raise that other work made look good is taken back.
//!
//! The background, where somebody else is about, gets what the device does in [`IO_BACKGROUND_TIME`], in pieces. There the
//! device is taken for as fast as it was lately seen: what it moved in a window, or what one request was moved at, whichever is
//! more. A fast disk that has little to do is known by the latter, one that does many things at a time by the former.

use super::DeviceLimits;
use crate::limits::{
    IO_BACKGROUND_PIECES, IO_BACKGROUND_TIME, IO_BYTES_IN_FLIGHT, IO_BYTES_IN_FLIGHT_MIN, IO_PIECE_MIN,
    IO_PROBE_EVERY, IO_QUEUE_TIME, IO_SHARD_BYTES_MIN, IO_WINDOW,
};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Windows of which the best rate counts.
const WINDOWS: usize = 8;
/// What a probe raises the bound by, or lowers it.
const PROBE: f64 = 1.5;
/// A raised bound stays when the rate grows by as much at least, a lower one when it does not fall by as much.
const WORTH: f64 = 1.15;

/// What a shard may have under way, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Of all groups.
    pub(crate) all: u64,
    /// Of the background while others are about.
    pub(crate) background: u64,
    /// What is larger, of those whose requests can be cut, goes in pieces of this then.
    pub(crate) piece: u64,
}

impl Bounds {
    /// Of a device that was not seen to do anything.
    pub(crate) const UNKNOWN: Bounds =
        Bounds { all: IO_BYTES_IN_FLIGHT, background: IO_BYTES_IN_FLIGHT, piece: u64::MAX };
}

/// A request that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) bytes: u64,
    /// Nanoseconds since it was given to the device, if the device moved the bytes.
    pub(crate) took: Option<u64>,
    /// Did others wait for that?
    pub(crate) full: bool,
    /// Nanoseconds of a clock that all shards see.
    pub(crate) now: u64,
}

/// What the shards of a node do with a device.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<Vec<User>>);

#[derive(Debug)]
struct User {
    shard: u16,
    rate: u64,
    /// Of its fastest request.
    fastest: u64,
    seen_at: u64,
}

/// What all shards that used a device in the last second did with it.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    shards: u64,
    rate: u64,
    fastest: u64,
}

impl Users {
    /// Notes the rates of one shard.
    fn note(&self, shard: u16, rate: u64, fastest: u64, now: u64) -> Usage {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|user| user.shard != shard && now.saturating_sub(user.seen_at) < 1_000_000_000);
        users.push(User { shard, rate, fastest, seen_at: now });
        Usage {
            shards: users.len() as u64,
            rate: users.iter().map(|user| user.rate).sum(),
            fastest: users.iter().map(|user| user.fastest).max().unwrap_or(0),
        }
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
    /// Of the fastest request in each; that of this one at `next`.
    fastest: [u64; WINDOWS],
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
        Depth {
            since: 0,
            bytes: 0,
            was_full: false,
            rates: [0; WINDOWS],
            fastest: [0; WINDOWS],
            next: 0,
            gain: 1.0,
            probing: None,
            downwards: false,
            rest: 0,
        }
    }

    /// A request of a shard has ended. The new bounds when a window ended with it.
    pub(crate) fn ended(
        &mut self,
        Ended { bytes, took, full, now }: Ended,
        users: &Users,
        shard: u16,
        limits: DeviceLimits,
    ) -> Option<Bounds> {
        self.bytes += bytes;
        self.was_full |= full;
        let speed = took.map_or(0, |took| per_second(bytes, took));
        self.fastest[self.next] = self.fastest[self.next].max(speed);
        let passed = now.saturating_sub(self.since);
        if passed < IO_WINDOW.as_nanos() as u64 {
            return None;
        }
        let rate = per_second(self.bytes, passed);
        (self.since, self.bytes) = (now, 0);
        let was_full = std::mem::take(&mut self.was_full);
        if passed < 4 * IO_WINDOW.as_nanos() as u64 {
            self.rates[self.next] = rate;
            self.next = (self.next + 1) % WINDOWS;
            self.probe(rate, was_full);
        } else {
            // After a rest nobody knows what it does, but how fast one request was.
            let (fastest, next) = (self.fastest, (self.next + 1) % WINDOWS);
            *self = Depth { since: now, fastest, next, ..Depth::new() };
        }
        let best = |of: [u64; WINDOWS]| of.into_iter().max().unwrap_or(0);
        let usage = users.note(shard, best(self.rates), best(self.fastest), now);
        self.fastest[self.next] = 0;
        Some(self.bounds(&usage, limits))
    }

    fn bounds(&self, usage: &Usage, limits: DeviceLimits) -> Bounds {
        let of_device = bytes_in(IO_QUEUE_TIME, usage.rate).max(IO_BYTES_IN_FLIGHT_MIN);
        let raised = |bytes: u64| (bytes as f64 * self.gain) as u64;
        let all = raised(of_device / usage.shards).clamp(IO_SHARD_BYTES_MIN, IO_BYTES_IN_FLIGHT);
        // What page caches do tells nothing.
        let seen = if usage.fastest == 0 { u64::MAX } else { usage.rate.max(usage.fastest) };
        let limit = Some(limits.bytes_per_second).filter(|limit| *limit > 0);
        let speed = seen.min(limit.unwrap_or(u64::MAX));
        if speed == u64::MAX {
            return Bounds { all, ..Bounds::UNKNOWN };
        }
        // A request that costs as much whatever its size is not cut below what passes in its time.
        let of_request = speed.checked_div(limits.requests_per_second).unwrap_or(0);
        let background = bytes_in(IO_BACKGROUND_TIME, speed) / usage.shards;
        let piece = (background / IO_BACKGROUND_PIECES).max(of_request).max(IO_PIECE_MIN);
        let background = raised(background.max(IO_BACKGROUND_PIECES * piece));
        Bounds { all, background, piece }
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

fn per_second(bytes: u64, nanos: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(nanos.max(1))) as u64
}

fn bytes_in(time: Duration, rate: u64) -> u64 {
    (rate as f64 * time.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;
    const FREE: DeviceLimits = DeviceLimits { bytes_per_second: 0, requests_per_second: 0 };

    /// Some bytes that were under way for a millisecond.
    fn ended(bytes: u64, full: bool, now: u64) -> Ended {
        Ended { bytes, took: Some(1_000_000), full, now }
    }

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
                if let Some(new) = depth.ended(ended(done, full, now), &users, number as u16, FREE) {
                    *bound = new.all;
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
            let bound =
                depth.ended(ended(moved, true, now), &users, 0, FREE).expect("a window has ended").all;
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
        let usage = |shards, rate, fastest| Usage { shards, rate, fastest };
        users.note(0, 10 * MB, 40 * MB, 0);
        assert_eq!(users.note(1, 20 * MB, 30 * MB, 500_000_000), usage(2, 30 * MB, 40 * MB));
        assert_eq!(users.note(1, 5 * MB, 7, 1_600_000_000), usage(1, 5 * MB, 7), "the other has had a rest");
        users = Users::default();
        assert_eq!(users.note(7, 1, 2, 0), usage(1, 1, 2));
    }

    /// The bounds of a shard whose only request in a window was so large and took so long.
    fn seen(bytes: u64, took_us: u64, shards: u16, limits: DeviceLimits) -> Bounds {
        let users = Users::default();
        for other in 0..shards {
            users.note(other, 0, 0, 5_000_000_000);
        }
        let took = Some(took_us * 1_000);
        let request = Ended { bytes, took, full: false, now: 5_000_000_000 };
        Depth::new().ended(request, &users, 0, limits).expect("a window has ended")
    }

    #[test]
    fn the_background_is_cut_on_a_slow_device_and_not_on_a_fast_one() {
        let slow = seen(500_000, 10_000, 1, FREE);
        assert_eq!((slow.background, slow.piece), (2 * IO_PIECE_MIN, IO_PIECE_MIN));
        let middling = seen(2_000_000, 10_000, 1, FREE);
        assert_eq!((middling.background, middling.piece), (200_000, 100_000));
        let fast = seen(128 << 10, 131, 1, FREE);
        assert!(fast.piece > 490_000 && fast.background > 990_000, "{fast:?}");
        let shared = seen(500_000, 10_000, 4, FREE);
        assert_eq!((shared.background, shared.piece), (2 * IO_PIECE_MIN, IO_PIECE_MIN));
        let limits = DeviceLimits { bytes_per_second: 50_000_000, requests_per_second: 0 };
        assert_eq!(seen(128 << 10, 131, 1, limits).piece, IO_PIECE_MIN, "a limit makes it slow");
        let limits = DeviceLimits { requests_per_second: 500, ..limits };
        assert_eq!(seen(128 << 10, 131, 1, limits).piece, 100_000, "as long as any request");
        assert_eq!(seen(0, 500, 1, FREE).piece, u64::MAX, "a sync tells nothing");
    }

    #[test]
    fn one_fast_request_is_known_for_as_long_as_windows_count() {
        let (mut depth, users) = (Depth::new(), Users::default());
        let mut now = 5_000_000_000;
        let mut piece = |bytes: u64| {
            now += 10 * IO_WINDOW.as_nanos() as u64;
            depth.ended(ended(bytes, false, now), &users, 0, FREE).expect("a window has ended").piece
        };
        assert_eq!(piece(MB), MB / 2, "a gigabyte a second");
        for _ in 1..WINDOWS {
            assert_eq!(piece(100_000), MB / 2);
        }
        assert_eq!(piece(100_000), 50_000);
    }

    #[test]
    fn after_a_rest_nothing_is_known() {
        let (mut depth, users) = (Depth::new(), Users::default());
        let mut now = 1_000_000_000;
        let mut bound = None;
        for _ in 0..200 {
            now += 1_000_000;
            bound = depth.ended(ended(MB, true, now), &users, 0, FREE).or(bound);
        }
        assert!(bound.expect("told").all > IO_BYTES_IN_FLIGHT_MIN);
        let bound = depth.ended(ended(1, false, now + 60_000_000_000), &users, 0, FREE).expect("told");
        assert_eq!(bound.all, IO_BYTES_IN_FLIGHT_MIN);
    }
}
