//! Node to node calls: framing, verbs, deadlines, back-pressure.
//!
//! A [`Peer`] is one shard's door to one other node: one connection, many calls in flight, kept alive by pings, reopened
//! by itself. [`serve`] is the other end. What a verb means and what its bytes say belongs to the floors above.
#![forbid(unsafe_code)]

mod error;
mod frame;
pub mod limits;
mod outbox;
mod peer;
mod server;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use frame::{Frame, FrameKind, decode_frame, encode_frame};
pub use peer::Peer;
pub use server::{Handler, Incoming, serve};
