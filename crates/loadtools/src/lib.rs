//! What the load tools share: latencies and intervals, histogram logs, output, and numbers as Java makes and prints them.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// What the Java library computes.
pub mod java;
/// Counts and latencies.
pub mod measure;
/// Histograms in a file.
pub mod hdrlog;
/// Asking a server for its numbers.
pub mod http;
/// Where lines go.
pub mod output;
/// A tool's own shard.
pub mod shard;
