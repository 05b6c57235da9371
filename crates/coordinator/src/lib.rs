//! Consistency levels act here: reads, writes, digests, read repair.
//!
//! A [`Coordinator`] turns one request into messages to replicas and their answers into one. It owns no data. Replicas
//! are reached through [`replica::Request`] whether they are another node or this one.
#![forbid(unsafe_code)]

mod error;
#[cfg(test)]
mod fixture;
pub mod limits;
mod merge;
mod pace;
mod behind;
mod snitch;
mod view;
mod coordinator;
mod tracing;
mod forward;
mod replicas;
mod scan;
mod read;
mod tombstones;
mod write;
mod writing;
mod batchlog;
mod cas;
mod counters;
mod service;
mod now;
mod hinted;
mod repair;

pub use cas::{Conditional, Decided};
pub use coordinator::{Coordinator, Latencies, Missed, Ticket};
pub use error::{Error, WriteKind, describe_failure};
pub use hinted::Unwritten;
pub use repair::{Filled, Line, LineKind, Repair, RepairOptions, RepairState, Repairs};
pub use replica::Reason;
pub use service::verbs;
pub use snitch::SnitchRules;
pub use tracing::FEATURE_TRACES;
pub use view::View;
