//! An append-only log of records that must never be lost, in one file: torn end cut, damage inside refused.
//!
//! The manifest of a shard, the schema of a node and the log of group 0 are kept in such files. Modules, bottom to top: each uses
//! only those listed above it.
#![forbid(unsafe_code)]

mod error;
/// Every limit, with unit and reason.
pub mod limits;
/// Tells a flipped bit from a write that was cut short.
pub mod rot;
mod journal;

pub use error::Error;
pub use journal::{Journal, Unwritten};
