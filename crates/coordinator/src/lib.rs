//! Consistency levels act here: reads, writes, digests, read repair.
//!
//! A [`Coordinator`] turns one request into messages to replicas and their answers into one. It owns no data. Replicas
//! are reached through [`replica::Request`] whether they are another node or this one.
#![forbid(unsafe_code)]

mod coordinator;
mod error;
#[cfg(test)]
mod fixture;
pub mod limits;
mod merge;
mod read;
mod replicas;
mod scan;
mod service;
mod tombstones;
mod write;
mod batchlog;
mod now;

pub use coordinator::{Coordinator, Latencies};
pub use error::{Error, WriteKind, describe_failure};
pub use replica::Reason;
pub use service::internode_handler;
