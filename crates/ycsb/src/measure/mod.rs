//! What a run sees: latencies and results by operation, printed as YCSB 0.17.0 prints them.
//!
//! Modules, bottom to top: each uses only those listed above it.

/// Latencies in microseconds, to three digits.
pub mod micros;
/// One operation's latencies, in each of the ways to keep them.
pub mod block;
/// All operations.
pub mod table;
