//! Runs of profiles: tables of one's own, their inserts and queries.

/// A profile's table on the server.
mod spec;
/// Queries over token ranges.
mod scan;
/// Prepared operations.
mod operation;
/// What one worker does.
mod worker;

pub use operation::{Chosen, Operation, prepare};
pub use scan::{Range, Ranges, within};
pub use spec::Spec;
pub use worker::Worker;
