//! cassandra-stress: the words, keys, values and output of the tool every published figure of this field was made with, from an
//! asynchronous client.
//!
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded.
#![forbid(unsafe_code)]

/// The error of this crate.
pub mod error;
/// Distributions of whole numbers.
pub mod distribution;
/// Keys and values.
pub mod generate;
/// How words are read.
pub mod grammar;

/// Bounds.
mod limits;
/// Tables of one's own.
pub mod profile;
/// Values of any column.
pub mod column;

/// The command line.
pub mod settings;
/// What is known of every write.
mod ledger;

/// Lines and results.
pub mod report;

/// What servers tell of themselves.
pub mod scrape;
/// A page with charts.
pub mod graph;
/// The highest rate that holds a bound.
pub mod knee;
/// A list by rank.
mod ranked;
/// Which partitions are visited.
pub mod population;
/// The rows of a partition.
mod partition;
/// Connections, tries and errors.
mod session;
/// Operations on the standard tables.
mod standard;
/// Operations on those of profiles.
mod user;
/// What workers do.
mod work;
/// One loader.
mod loader;
/// Several loaders.
pub mod fleet;
/// What was written is read back.
mod verify;
/// A run from its settings.
pub mod run;

/// The tool from its words to its exit status.
pub mod command;

pub use command::{Ran, Says, main, run_here, run_to};
pub use error::Error;
