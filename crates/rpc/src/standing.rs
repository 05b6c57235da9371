//! What every shard may know of a peer at once: written by shard 0, read by all.

use base::{HostId, Instant};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Between two times a proof of life is written down: the word is shared by all shards.
const PROOF_STEP: Duration = Duration::from_millis(50);

/// A peer's state. No word depends on another: a reader that sees an old one acts as if it had come earlier.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) host: HostId,
    up: AtomicBool,
    /// The peer was removed: it may not be called any more.
    gone: AtomicBool,
    /// Grows when connections made before are worth nothing: the peer went down, or is another process.
    generation: AtomicU32,
    shards: AtomicU16,
    features: AtomicU64,
    /// Until when the peer was proved alive by what data connections saw.
    proved: AtomicU64,
}

impl Standing {
    pub(crate) fn new(host: HostId) -> Standing {
        Standing {
            host,
            up: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            shards: AtomicU16::new(0),
            features: AtomicU64::new(0),
            proved: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    pub(crate) fn set_down(&self) {
        self.up.store(false, Ordering::Release);
    }

    /// What its hello said of it.
    pub(crate) fn set_up(&self, shards: u16, features: u64) {
        self.shards.store(shards, Ordering::Relaxed);
        self.features.store(features, Ordering::Relaxed);
        self.up.store(true, Ordering::Release);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(crate) fn set_gone(&self) {
        self.up.store(false, Ordering::Release);
        self.gone.store(true, Ordering::Release);
        self.renew();
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes connections of before worthless.
    pub(crate) fn renew(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Shards of the peer; 0 before it was met.
    pub(crate) fn shards(&self) -> u16 {
        self.shards.load(Ordering::Relaxed)
    }

    /// What the peer knows how to do, as its last hello said; nothing before it was met.
    pub(crate) fn features(&self) -> u64 {
        self.features.load(Ordering::Relaxed)
    }

    /// The peer did something that only a living one does.
    pub(crate) fn prove(&self, now: Instant) {
        let known = self.proved.load(Ordering::Relaxed);
        if known + (PROOF_STEP.as_nanos() as u64) <= now.0 {
            self.proved.store(now.0, Ordering::Relaxed);
        }
    }

    /// When that was.
    pub(crate) fn proved(&self) -> Instant {
        Instant(self.proved.load(Ordering::Relaxed))
    }
}
