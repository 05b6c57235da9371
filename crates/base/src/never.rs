//! Expectations whose failure must not stop every replica in turn.
//!
//! `assert!` guards the node; [`never!`](crate::never) guards one request: it panics where assertions are on (tests, the simulator)
//! and in a release build counts the event, tells the hook and lets the caller answer with an error.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static SEEN: AtomicU64 = AtomicU64::new(0);
static HOOK: OnceLock<fn(&'static str)> = OnceLock::new();

/// Names the function told about each broken expectation (the node logs it). Only the first call counts.
pub fn set_hook(hook: fn(&'static str)) {
    // A second node in the same process keeps the first hook: both would log the same text.
    let _already_set = HOOK.set(hook);
}

/// How many expectations were broken since the process started.
pub fn count() -> u64 {
    SEEN.load(Ordering::Relaxed)
}

/// The body of [`never!`](crate::never): returns `broken` unchanged.
#[track_caller]
pub fn check(broken: bool, text: &'static str) -> bool {
    if broken {
        SEEN.fetch_add(1, Ordering::Relaxed);
        if let Some(hook) = HOOK.get() {
            hook(text);
        }
        if cfg!(debug_assertions) {
            panic!("never: {text}");
        }
    }
    broken
}

/// `if never!(condition, "text") { return Err(..) }`: the condition must be false.
/// Panics in tests and simulation; true in production when the impossible has happened.
#[macro_export]
macro_rules! never {
    ($cond:expr, $text:expr) => {
        $crate::never::check($cond, $text)
    };
    ($cond:expr) => {
        $crate::never::check($cond, stringify!($cond))
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn false_passes_through() {
        assert!(!never!(1 > 2, "one is not more than two"));
    }

    #[test]
    #[should_panic(expected = "never: broken")]
    fn true_panics_with_assertions_on() {
        never!(true, "broken");
    }
}
