//! Configuration file, wiring, order of start and stop.
//!
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded.
#![forbid(unsafe_code)]
// A request is one future from the frame down to the file; its type is as deep as the floors.
#![recursion_limit = "256"]

/// What bounds each thing here.
pub mod limits;
/// Durations and sizes as text.
pub mod units;
/// What a node is told.
pub mod config;
/// Who a node is.
pub mod identity;
/// What operators reach.
mod operator;
/// What is kept for nodes that are down.
mod handoff;
/// This node among the others.
mod internode;
/// What becomes of a node whose disk fails.
mod faults;
/// What is started in which order, and stopped.
mod start;

pub use start::{Ready, Reporter, StartError, main_closure};
