//! Node to node calls: hello, frames, verbs, deadlines, back-pressure, liveness, encryption.
//!
//! ```text
//! shard 0      Links: who the peers are, which of them answer; dials and listens for all shards; control connections
//! each shard   Pool: calls (host id, shard) over data connections; answers other nodes' calls by its Registry
//! ```
//! ```text
//! // Shard 0, before its node serves requests:
//! for shard in 0..runtime::shard_count() {
//!     runtime::submit_to(ShardId(shard), Group::MAIN, || async { drop(Pool::install(data_verbs())) }).await;
//! }
//! let links = Links::start(gatekeeper, control_verbs(), Rc::new(|event| ...));      // Up, Down, Facts, Moved, Met
//! links.use_keys(server, client).await?;                                          // if anything is encrypted
//! links.listen(address, Encryption::None).await?;
//! links.add(host, Target { address, encrypt: false }).await;                      // each member; and when its address changes
//! links.call(host, Outgoing { verb, version, timeout }, |out| ...).await?;        // group 0
//!
//! // Any shard:
//! let pool = runtime::local::<Pool>();
//! let shard = owner_of(token, pool.shards(host));
//! let answer = pool.call(host, shard, Outgoing { verb, version, timeout }, |out| request.encode(out)).await?;
//! pool.send(host, shard, outgoing, (gather.clone(), index), |out| out.extend_from_slice(&encoded))?;
//! ```
//! What a verb means and what its bytes say belongs to the crates above. docs/mechanisms/wire.md has the layouts and rules.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// What bounds each thing here.
pub mod limits;
/// Why calls fail.
mod error;
/// Structs between releases.
pub mod fields;
/// Frames and messages.
mod frame;
/// The first messages of a connection.
mod hello;
/// What waits for a socket.
mod outbox;
/// Handlers of requests.
mod verbs;
/// Calls in flight.
mod calls;
/// What goes between a shard and its peers.
mod traffic;
/// Sums over a shard's connections.
mod load;
/// What all shards know of a peer.
mod standing;
/// One connection.
mod conn;
/// From a socket to a connection.
mod greet;
/// Whether a peer answers its pings.
mod watch;
/// Data connections of one shard.
mod pool;
/// One peer: its control connections and its state.
mod control;
/// The peers of a node.
mod links;
#[cfg(test)]
mod tests;

pub use calls::Gather;
pub use conn::Outgoing;
pub use control::{Event, EventKind, Heard, Target};
pub use error::{CallError, Malformed};
pub use frame::{
    FRAME_HEADER_BYTES, Facts, Kind, Message, Status, encode_message, next_message, seal_frame, split_frame,
};
pub use hello::{
    Class, Cut, Gatekeeper, Greeting, Hello, Identity, Recorded, Recording, Refusal, RefusalKind, Verdict,
    decode_verdict, encode_verdict, split_greeting,
};
pub use links::{Contact, ContactError, Links, Listener};
pub use pool::Pool;
pub use traffic::Counts;
pub use verbs::{Beside, LocalFuture, Origin, Registry, Request, Responder, Serve};
