//! Who belongs to the cluster, who answers and who holds a token: an immutable snapshot.
//!
//! [`Members`] come from the cluster's log and have its version; [`Liveness`] is what this node finds by itself. A [`Snapshot`] is both with
//! the [`Placements`] that follow from them, shared by all shards. A request takes one and keeps it to its end. It never does I/O.
#![forbid(unsafe_code)]

#[cfg(test)]
mod fixture;
mod version;
mod member;
mod members;
mod liveness;
mod placement;
mod placements;
mod snapshot;
mod news;
mod plan;

pub use liveness::Liveness;
pub use member::{FEATURE_FLOORS, Malformed, Member, MemberState};
pub use members::Members;
pub use news::News;
pub use placement::{Location, Placement};
pub use placements::{Holders, Placements};
pub use plan::{ReadPlan, Shortfall, Target, WritePlan};
pub use snapshot::Snapshot;
pub use version::Version;
