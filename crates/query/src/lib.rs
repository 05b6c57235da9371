//! Runs plans: prepared statements, binding, paging, system tables.
//!
//! Modules, bottom to top.
#![forbid(unsafe_code)]

/// BATCH.
mod batch;
/// From values to work.
mod bound;
/// Prepared statements by id.
mod cache;
/// Timestamps for writes that bring none.
mod clock;
/// One shard's engine.
mod engine;
/// What a statement can end in, other than a result.
mod error;
/// What the engine is told about the node and its clients.
mod info;
/// What bounds each thing here.
pub mod limits;
/// What a statement gives.
mod outcome;
/// Running bound work.
mod run;
/// What the engine is told.
mod settings;
/// A statement and its analysis.
mod statement;
/// System tables.
mod system;
/// Reads of system tables.
mod virtual_table;

pub use bound::Bound;
pub use coordinator::WriteKind;
pub use engine::Engine;
pub use error::Error;
pub use info::{ClientInfo, NodeInfo, PeerInfo};
pub use outcome::{Announce, Answer, Outcome, ResultMetadata, Rows};
pub use settings::Settings;
