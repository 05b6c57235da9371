//! What one node holds, reached through encoded messages.
//!
//! A coordinator never touches a store: it sends a [`Request`] and gets a [`Response`], also when the replica is this
//! very process. [`Local`] finds the shards that own what is asked and merges their parts; between shards of one process
//! the messages keep their types and skip the bytes.
#![forbid(unsafe_code)]

mod error;
mod limits;
mod message;
mod turns;
mod floor;
mod counting;
mod shard;
mod paxos;
mod counters;
mod operations;
mod local;
mod raise;

pub use counting::{CounterReads, Increments};
pub use error::{Error, Reason};
pub use floor::NO_FLOOR;
pub use local::Local;
pub use message::{
    FloorAsked, Request, Response, VERB_BACKGROUND, VERB_FORWARD, VERB_REPLICA, VERB_TRACE, VERB_TRACED,
    VERB_TRACED_FORWARD, encode_read_to, encode_write_to,
};
pub use paxos::planned_of;
pub use shard::Shard;
pub use turns::{Place, Turns};
