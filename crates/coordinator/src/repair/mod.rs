//! Repair: what some replicas have and others lack is found page by page, and written to those. See `docs/mechanisms/repair.md`.
//!
//! ```text
//! job ─▶ ranges ─▶ page: party ─▶ answers ─▶ merge ─▶ lacking ─▶ writes, durable
//! ```

mod job;
mod lacking;
mod page;
mod party;
mod plan;
mod rounds;
mod sweep;
#[cfg(test)]
mod tests;

pub use job::{Filled, Line, LineKind, Repair, RepairState, Repairs};
pub use plan::RepairOptions;
