//! One pinned executor per shard and the only door to the operating system: files, net, time, chance.
//!
//! A node is [`run`] with one `main` that runs on every shard. Everything here acts on the current shard; tasks never
//! leave theirs. In simulation the same code runs with other clocks, disks and networks.
//!
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded: most look at
//! the current shard or ask whether it is simulated.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is the door to the operating system"
)]

/// Every limit of this crate.
pub mod limits;
/// Clocks of the operating system.
mod clock;
/// Scheduling groups.
mod group;
/// What other threads may touch of a shard.
mod inbox;
/// Tasks and run queues.
mod executor;
/// The timer heap.
mod timer;
/// Waiting inside one shard.
pub mod sync;
/// Rings between the shards of a node.
mod mesh;
/// Threads for blocking calls.
mod offload;
/// Memory for direct file operations.
mod buffer;
/// Memory in huge pages.
pub mod pages;
/// Log lines.
pub mod log;
/// Counters, gauges, histograms.
pub mod metrics;
/// io_uring, epoll and the simulated world behind one seam.
mod backend;
/// Which file systems know direct operations.
mod direct;
/// Turns of file requests at the devices.
pub mod io;
/// One shard.
mod shard;
/// Waiting for time to pass.
mod time;
/// Spawning and yielding.
mod task;
/// Calls from shard to shard.
mod channel;
/// What happens to traced requests.
pub mod tracing;
/// Files.
pub mod file;
/// Files as memory.
pub mod mapping;
/// Giving the space of removed files back.
pub mod release;
/// TCP.
pub mod net;
/// Addresses of host names.
pub mod names;
/// The memory a shard may use.
pub mod memory;
/// The shard a task runs on: identity, chance, values installed per shard, shutdown.
mod node;
/// Starting and stopping a real node.
mod start;
/// Simulated worlds: whole nodes in one thread, from a seed.
pub mod sim;

pub use backend::{Bug, Reactor};
pub use channel::{on_every_shard, submit_to};
pub use group::Group;
pub use node::{
    compute, install, local, offload, planted, random_u64, random_uuid, rare, reactor, request_shutdown,
    shard, shard_count, shutdown_is_requested, shutdown_requested, simulated, try_local,
};
pub use shard::ShardId;
pub use start::{Config, Main, descriptors_max, run};
pub use task::{
    JoinHandle, current_group, need_preempt, poll_now, set_shares, shares, spawn, spawn_detached_now,
    spawn_now, yield_if_needed, yield_now,
};
pub use time::{
    Elapsed, Sleep, now, sleep, sleep_until, ticks, timeout, timeout_at, unix_micros, unix_seconds,
};
