//! cassandra-stress: the words, keys, values and output of the tool every published figure of this field was made with, from an
//! asynchronous client.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// The error of this crate.
pub mod error;
/// What the Java library computes.
pub mod java;
/// Distributions of whole numbers.
pub mod distribution;
/// Keys and values.
pub mod generate;
/// How words are read.
pub mod grammar;

/// The command line.
pub mod settings;

/// Counts and latencies.
pub mod measure;
/// Lines and results.
pub mod report;

pub use error::Error;
