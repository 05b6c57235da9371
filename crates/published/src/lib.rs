//! Published load tests, run again: their command lines as data, scaled by one factor, with a report beside the published figures.
//!
//! What there is and how it is used: docs/operating/bench.md.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// The error of this crate.
pub mod error;
/// How much is run.
pub mod scale;
/// Rates and latencies.
pub mod figures;
/// Command lines with places in them.
pub mod line;
/// The runs.
pub mod runs;
/// Machines.
pub mod facts;
/// What machine and servers do during a phase.
mod watch;
/// Whether a rate held.
mod dips;
/// The report.
pub mod report;
/// Phases as they are done.
pub mod steps;
/// The commands.
pub mod command;

pub use command::{Order, lines, list, main};
pub use error::Error;
