//! One pinned executor per shard and the only door to the operating system: files, net, time, chance.
//!
//! A node is [`run`] with one `main` that runs on every shard. Everything here acts on the current shard; tasks never
//! leave theirs. In simulation the same code runs with other clocks, disks and networks.
//!
//! Modules, bottom to top: each uses only those listed above it.

/// io_uring, epoll and the simulated world behind one seam.
mod backend;
/// Memory for direct file operations.
mod buffer;
/// Calls from shard to shard.
mod channel;
/// Clocks of the operating system.
mod clock;
/// Tasks and run queues.
mod executor;
/// Files.
pub mod file;
/// Scheduling groups.
mod group;
/// What other threads may touch of a shard.
mod inbox;
/// Every limit of this crate.
pub mod limits;
/// Log lines.
pub mod log;
/// The memory a shard may use.
pub mod memory;
/// Rings between the shards of a node.
mod mesh;
/// Counters, gauges, histograms.
pub mod metrics;
/// TCP.
pub mod net;
/// The shard a task runs on: identity, chance, values installed per shard, shutdown.
mod node;
/// Threads for blocking calls.
mod offload;
/// One shard.
mod shard;
/// Simulated worlds: whole nodes in one thread, from a seed.
pub mod sim;
/// Starting and stopping a real node.
mod start;
/// Waiting inside one shard.
pub mod sync;
/// Spawning and yielding.
mod task;
/// Waiting for time to pass.
mod time;
/// The timer heap.
mod timer;

pub use backend::{Bug, Reactor};
pub use channel::submit_to;
pub use group::Group;
pub use node::{
    install, local, offload, planted, random_u64, random_uuid, rare, request_shutdown, shard, shard_count,
    shutdown_is_requested, shutdown_requested, simulated, try_local,
};
pub use shard::ShardId;
pub use start::{Config, Main, run};
pub use task::{
    JoinHandle, current_group, need_preempt, set_shares, shares, spawn, spawn_detached_now, spawn_now,
    yield_if_needed, yield_now,
};
pub use time::{Elapsed, Sleep, now, sleep, sleep_until, timeout, timeout_at, unix_micros};
