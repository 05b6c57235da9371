//! What absent replicas have missed, kept on disk by those who coordinated it, and written to them later.
//!
//! How and why: `docs/mechanisms/hints.md`. One [`Hints`] on every shard takes what its coordinator tells as missed. Modules, bottom to top:
//! each uses only those listed above it.
#![forbid(unsafe_code)]

/// Every limit, with unit and reason.
pub mod limits;
#[cfg(test)]
mod fixture;
mod settings;
mod metrics;
mod record;
/// Files: names, writing, reading.
mod file;
/// What is kept for one target.
mod queue;
mod hints;
mod deliver;
mod operator;
#[cfg(test)]
mod tests;

pub use hints::Hints;
pub use operator::{Pending, held, pending, switch, switches, throw_away};
pub use settings::{Settings, Switches};
