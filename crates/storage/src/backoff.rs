//! When work that failed is tried again: a while later, and later each time, so that work that can be done comes first.

use crate::Error;
use crate::limits::{FAILURE_LOG_EVERY, FULL_DISK_RETRY_MS_MAX};
use base::Instant;
use runtime::log::Sparse;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// How one kind of work on one table fares.
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: Cell<u32>,
    not_before: Cell<Instant>,
    /// Failures that are worth a line in the log.
    told: Sparse,
    /// Why it failed last; `None`: it did not.
    error: RefCell<Option<Error>>,
}

impl Backoff {
    /// Work that has not failed. After a failure it rests for `first`, twice as long after each further one, at most `longest`;
    /// shorter when the disk was full.
    pub(crate) fn new(first: Duration, longest: Duration) -> Backoff {
        assert!(Duration::ZERO < first && first <= longest, "a rest is a time");
        Backoff {
            first,
            longest,
            failures: Cell::new(0),
            not_before: Cell::new(Instant(0)),
            told: Sparse::new(FAILURE_LOG_EVERY),
            error: RefCell::new(None),
        }
    }

    /// How often it has failed since it last went well.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.get()
    }

    /// Whether the work may be tried.
    pub(crate) fn is_due(&self) -> bool {
        self.failures.get() == 0 || self.not_before.get() <= runtime::now()
    }

    /// When it may be tried again; `None`: now.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        (!self.is_due()).then(|| self.not_before.get())
    }

    /// Why it rests.
    pub(crate) fn error(&self) -> Option<Error> {
        self.error.borrow().clone()
    }

    /// Begins a rest. True when the failure is worth a line in the log: the first one, and now and then one while they last.
    pub(crate) fn failed(&self, error: Error) -> bool {
        let full = Duration::from_millis(FULL_DISK_RETRY_MS_MAX);
        let longest = if error.is_shortage() { self.longest.min(full) } else { self.longest };
        let rest = self.first.saturating_mul(1 << self.failures.get().min(16)).min(longest);
        self.failures.set(self.failures.get() + 1);
        self.not_before.set(runtime::now() + rest);
        *self.error.borrow_mut() = Some(error);
        self.told.take()
    }

    pub(crate) fn succeeded(&self) {
        self.failures.set(0);
        self.error.take();
        self.told.reset();
    }
}
