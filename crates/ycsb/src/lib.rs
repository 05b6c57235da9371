//! YCSB: the words, properties, keys, values and output of the tool that served by many a published figure, from an asynchronous
//! client; and CloudSuite's data serving, which is two scripts around it.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// What bounds each thing here.
pub mod limits;
/// The error of this crate.
pub mod error;
/// Properties, from files and words.
pub mod properties;
/// The workloads that come with YCSB.
pub mod presets;
/// Numbers by their distributions.
pub mod generator;
/// Keys and values.
pub mod values;
/// The core workload.
pub mod workload;
/// Latencies and results.
pub mod measure;
/// The report and the lines before it.
pub mod report;
/// What a run is to do.
pub mod settings;
/// Connections, statements, answers.
mod session;
/// A run from its settings.
pub mod run;
/// The command line.
pub mod words;
/// The tools from their words to their exit status.
pub mod command;

pub use command::{cloudsuite, main};
pub use error::Error;
