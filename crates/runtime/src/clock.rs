//! The clocks of the operating system, and a cheap tick counter for quotas.
//!
//! Ticks come from the processor's time stamp counter once its rate is known (a few milliseconds after start, without
//! waiting for it), from `clock_gettime` before that and where the counter is not steady.

use base::Instant;
use std::cell::Cell;

fn clock(id: libc::clockid_t) -> (i64, i64) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call.
    let result = unsafe { libc::clock_gettime(id, &mut time) };
    assert!(result == 0, "clock_gettime knows this clock");
    (time.tv_sec, time.tv_nsec)
}

/// The monotonic clock.
pub(crate) fn monotonic() -> Instant {
    let (seconds, nanos) = clock(libc::CLOCK_MONOTONIC);
    Instant(seconds as u64 * 1_000_000_000 + nanos as u64)
}

/// Microseconds since the Unix epoch.
pub(crate) fn unix_micros() -> i64 {
    let (seconds, nanos) = clock(libc::CLOCK_REALTIME);
    seconds * 1_000_000 + nanos / 1000
}

/// A steady count of nanoseconds, cheap enough to read after every task.
pub(crate) struct Ticks {
    start_clock: u64,
    start_counter: u64,
    /// Nanoseconds per count times 2^32; 0 while unknown.
    scale: Cell<u64>,
    /// Nanoseconds at the moment the scale was fixed, and the counter then: the count goes on from here.
    base: Cell<(u64, u64)>,
    steady: bool,
}

/// The rate is measured over at least this many nanoseconds.
const CALIBRATE_NS: u64 = 10_000_000;

impl Ticks {
    pub(crate) fn new() -> Ticks {
        Ticks {
            start_clock: monotonic().0,
            start_counter: counter(),
            scale: Cell::new(0),
            base: Cell::new((0, 0)),
            steady: counter_is_steady(),
        }
    }

    /// Nanoseconds from an arbitrary start.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        let scale = self.scale.get();
        if scale == 0 {
            return self.calibrate();
        }
        let (base_ns, base_counter) = self.base.get();
        let counts = counter().wrapping_sub(base_counter);
        base_ns + ((u128::from(counts) * u128::from(scale)) >> 32) as u64
    }

    #[cold]
    fn calibrate(&self) -> u64 {
        let now = monotonic().0;
        let elapsed = now - self.start_clock;
        if self.steady && elapsed >= CALIBRATE_NS {
            let current = counter();
            let counts = current.wrapping_sub(self.start_counter).max(1);
            self.base.set((now, current));
            self.scale.set(((u128::from(elapsed) << 32) / u128::from(counts)) as u64);
        }
        now
    }
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor and has no precondition.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

#[cfg(target_arch = "x86_64")]
fn counter_is_steady() -> bool {
    // Leaf 0x8000_0007, EDX bit 8: the counter runs at one rate in all power states.
    let highest = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    highest >= 0x8000_0007 && core::arch::x86_64::__cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_steady() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_agree_with_the_clock() {
        let ticks = Ticks::new();
        let start = (ticks.now(), monotonic().0);
        let mut last = start.0;
        while monotonic().0 - start.1 < 40_000_000 {
            let now = ticks.now();
            assert!(now + 1_000_000 >= last, "ticks go forward");
            last = now;
        }
        let (ticked, real) = (ticks.now() - start.0, monotonic().0 - start.1);
        assert!(ticked.abs_diff(real) < real / 4, "{ticked} {real}");
    }
}
