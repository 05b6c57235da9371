//! Runs plans: prepared statements, binding, paging, system tables.
//!
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded.
#![forbid(unsafe_code)]

/// What bounds each thing here.
pub mod limits;
/// What a statement can end in, other than a result.
mod error;
/// What the engine is told about the node and its clients.
mod info;
/// What the engine is told.
mod settings;
/// Ascending times: timestamps for writes that bring none, ticks for list elements.
mod clock;
/// Prepared statements by id.
mod cache;
/// What a statement gives.
mod outcome;
/// Traced requests.
mod trace;
/// System tables.
mod system;
/// Slow requests in the log.
mod slow;
/// What is counted for system tables.
mod seen;
/// Which permissions are wanted for what, and who has them.
mod permission;
/// Who was let through.
mod allowed;
/// A statement and its analysis.
mod statement;
/// A conditional request.
mod conditional;
/// From values to work.
mod bound;
/// What a shard knows of logins.
mod logins;
/// One shard's engine.
mod engine;
/// Whether whoever is logged in may run a statement.
mod authorize;
/// Requests before their turn.
mod ahead;
/// Reads of system tables.
mod virtual_table;
/// Statements of the server's own.
mod internal;
/// Logging in.
mod login;
/// Roles in the rows of a lone node.
mod role_rows;
/// What statements about roles change.
mod role_change;
/// Statements about roles.
mod role;
/// Running bound work.
mod run;
/// Snapshots of what is dropped.
mod auto_snapshot;
/// Writes that must read first.
mod prior;
/// Writes that are made if conditions hold.
mod cas;
/// BATCH.
mod batch;

pub use bound::{Bound, Executed};
pub use coordinator::{Reason, WriteKind};
pub use engine::Engine;
pub use error::Error;
pub use info::{ClientInfo, NodeInfo};
pub use outcome::{Announce, Answer, Outcome, ResultMetadata, Rows};
pub use settings::{Authentication, Authenticator, Authorization, Settings};
pub use slow::SlowRequests;
pub use storage::PREFETCH_STEPS;
pub use system::contents::RELEASE_VERSION;
pub use trace::Traced;
