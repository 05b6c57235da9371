//! A file catalogue as of a physics experiment, on CQL: logical names in folders, an index by GUID, physical locations, a trash; bulk import
//! with a cross-check, a generator, and a mixed load that knows every answer.
//!
//! Tables, invariants and limits: docs/operating/catalogue.md.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// What bounds each thing here.
pub mod limits;
/// The error of this crate.
pub mod error;
/// What the operating system says of this process.
mod process;
/// Paths.
pub mod path;
/// Which partition holds what.
pub mod placement;
/// Files of the catalogue as rows.
pub mod record;
/// What rows amount to.
pub mod tally;
/// Rows of CSV and of MySQL dumps.
pub mod input;
/// A catalogue from a seed.
pub mod generate;
/// Tables and statements.
pub mod tables;
/// Requests, again and again.
pub mod session;
/// Whole tables.
pub mod scan;
/// Folders that were seen.
mod folders;
/// From paths to entries and back.
pub mod catalogue;
/// Looking up and listing.
pub mod lookup;
/// Registering, moving, deleting, restoring.
pub mod change;
/// What owners have.
pub mod quota;
/// Bulk import.
pub mod import;
/// A file against the database.
pub mod check;
/// What a worker knows.
mod model;
/// The mixed load.
pub mod operate;
/// What `messina catalogue` does.
pub mod command;

pub use catalogue::Catalogue;
pub use error::Error;
pub use folders::Folder;
pub use generate::Generator;
pub use input::Format;
pub use session::Server;
