//! Time, as certificates are judged by: read from the runtime when a session begins, because its steps may run on helper threads,
//! which know no clock.

use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time of the newest session's beginning.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    seconds: AtomicU64,
}

impl Clock {
    pub(crate) fn new() -> Arc<Clock> {
        let clock = Arc::new(Clock::default());
        clock.set();
        clock
    }

    /// Takes the time of this shard.
    pub(crate) fn set(&self) {
        let seconds = u64::try_from(runtime::unix_micros() / 1_000_000).unwrap_or(0);
        self.seconds.store(seconds, Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = Duration::from_secs(self.seconds.load(Ordering::Relaxed));
        Some(UnixTime::since_unix_epoch(since))
    }
}
