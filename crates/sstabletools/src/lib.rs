//! Offline tools over sstables, in the words of Cassandra's own: sstabledump, sstablemetadata, sstableverify, sstablescrub.
//!
//! They open the files of a node that is stopped, or copies, and need no schema: an sstable says what it holds. A tool runs on
//! one shard of the runtime and prints into a writer. What they print is compared with the tools of Apache Cassandra 5.0.6.
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a tool beside the node writes to its terminal")]

/// What bounds each thing here.
mod limits;
/// What a tool can end in.
mod error;
/// Where text goes.
mod output;
/// JSON in the layout of sstabledump.
mod json;
/// Times as Java prints them.
mod times;
/// Values as text.
mod values;
/// Partition keys as text.
mod keys;
/// Sstables by their files.
mod files;
/// `dump -d`.
mod lines;
/// `dump`.
mod dump;
/// Bars and percentiles.
mod histogram;
/// `metadata`.
mod metadata;
/// `verify`.
mod verify;
/// `list`.
mod list;
/// `scrub`.
mod scrub;

pub use dump::{DumpOptions, dump};
pub use error::Error;
pub use files::{Place, places};
pub use list::list;
pub use metadata::{MetadataOptions, metadata};
pub use output::Output;
pub use scrub::{Scrubbed, scrub};
pub use verify::{Verdict, verify, verify_all};

#[cfg(test)]
mod tests;
