//! Waiting inside one shard: no atomics, no threads. Every guard's drop is synchronous.
//!
//! All types here are handles: cloning one gives another handle to the same thing.

/// The list of waiting tasks that the others share.
mod waiters;
/// Something happened: edge triggered.
mod event;
/// Something has become true: level triggered.
mod flag;
/// Counting what is inside, and closing.
mod gate;
/// Counting permits.
mod semaphore;
/// Exclusive use across awaits.
mod lock;
/// One value, once.
pub mod oneshot;
/// A bounded queue.
mod queue;
/// The newest value, and the wish to hear of the next.
mod watch;

#[cfg(test)]
mod tests;

pub use event::Event;
pub use flag::Flag;
pub use gate::{Gate, GateClosed, GateGuard};
pub use lock::{Lock, LockGuard};
pub use queue::{Queue, QueueClosed};
pub use semaphore::{Permit, Semaphore};
pub use watch::Watch;
