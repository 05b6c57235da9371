//! What a whole cluster agrees on: members, schema, roles, truncations; the commands that change it; founding and joining.
//!
//! Pure: no I/O, no time, no chance. Consensus orders bytes and [`State::apply_entry`] says what they mean; every node that has
//! applied the same entries has the same state. See docs/mechanisms/group-0.md.
//!
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded.
#![forbid(unsafe_code)]

/// What bounds each thing here.
pub mod limits;
/// Why bytes are refused, and when a node must stop.
mod error;
/// Length-prefixed values whose fields are only ever appended.
mod bytes;
/// What may be done with a resource.
mod permission;
/// What permissions are granted on.
mod resource;
/// Roles, memberships and permissions.
mod role;
/// What is proposed.
mod command;
/// How a command ended, and the memory of that.
mod outcome;
/// The state and its bytes.
mod state;
/// What each command does.
mod apply;
/// What a node must do when its applied state changes.
mod effects;
/// Whether an empty node founds, joins or waits.
mod founding;
/// Joining and replacing, step by step.
mod joining;
#[cfg(test)]
mod tests;

pub use apply::removal_refusal;
pub use command::{Applicant, Change, Command, FEATURES, Founding, Header, MemberUpdate, RoleChange, Scope};
pub use effects::{Effects, EventKind, EventTarget, MemberChange, SchemaEvent, SchemaStep, TopologyEvent};
pub use error::{Error, Stop};
pub use founding::{
    Answer, Decision, Folder, Node, Seed, SeedAnswer, Standing, decide, lost_its_folder, must_close_native,
};
pub use joining::{Action, Event, Holdings, Joining, Waiting};
pub use outcome::Outcome;
pub use permission::Permissions;
pub use resource::Resource;
pub use role::{Role, Roles};
pub use state::{Cluster, Fill, Operation, OperationKind, State, Truncation, Versions};
