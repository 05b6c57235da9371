//! Runs plans: prepared statements, binding, paging, system tables.
//!
//! Modules, bottom to top.
#![forbid(unsafe_code)]

/// What bounds each thing here.
pub mod limits;
/// What a statement can end in, other than a result.
mod error;
/// What the engine is told about the node and its clients.
mod info;
/// What the engine is told.
mod settings;
/// Timestamps for writes that bring none.
mod clock;
/// Prepared statements by id.
mod cache;
/// System tables.
mod system;
/// What a statement gives.
mod outcome;
/// A statement and its analysis.
mod statement;
/// From values to work.
mod bound;
/// One shard's engine.
mod engine;
/// Reads of system tables.
mod virtual_table;
/// Running bound work.
mod run;
/// Writes that must read first.
mod prior;
/// BATCH.
mod batch;

pub use bound::Bound;
pub use coordinator::WriteKind;
pub use engine::Engine;
pub use error::Error;
pub use info::{ClientInfo, NodeInfo, PeerInfo};
pub use outcome::{Announce, Answer, Outcome, ResultMetadata, Rows};
pub use settings::Settings;
