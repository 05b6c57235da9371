//! Whole nodes in one thread from a seed: scenarios, faults, checkers.
//!
//! A scenario is a function of a world and a seed; it plays faults and says what was wrong. `(scenario, seed, commit)`
//! replays any run.
//!
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded.
#![forbid(unsafe_code)]

/// Every limit of this crate.
pub mod limits;
/// What one run says.
mod outcome;
/// PREPARE and EXECUTE in place of QUERY.
mod prepared;
/// One CQL connection of a scenario.
mod session;
/// What tables must hold, and what explains a read.
mod model;
/// Rows that expire or are wiped.
mod fleeting;
/// A simulated machine that runs the shipped node.
mod host;
/// Files that must not be wrong.
mod damage;
/// The storage engine alone.
mod engine;
/// One node that loses power again and again.
mod crash;
/// Registers that the last writer wins.
mod register;
/// Clients of registers, through any node at any level.
mod clients;
/// The machines of a scenario with several nodes.
mod machines;

mod faults;
/// Repairs, as an operator asks for them.
mod repairs;
/// What one node misses reaches it by hints.
mod handoff;
/// Three nodes that hold the same rows.
mod three;
/// Lightweight transactions on three nodes.
mod lwt;
/// Counters on three nodes.
mod counters;
/// Clusters of any shape, and everything that happens to them.
mod cluster;
/// Replicas that missed something, and what makes up for it.
mod repair;
/// Logged batches whose coordinators are gone for good.
mod batches;
/// A consensus group that crashes and is cut apart.
mod consensus;
/// Runs seeds, one or many, and reports.
mod driver;

pub use driver::{Report, Scenario, run, run_range, run_verbose, shrunk};
pub use outcome::{Counts, Outcome};
pub use runtime::Bug;
