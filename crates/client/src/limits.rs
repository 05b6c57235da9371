//! Limits of the client.

use std::time::Duration;

/// Most requests in flight on one connection: stream ids are 15 bits.
pub const STREAMS_MAX: usize = 1 << 15;
/// Requests in flight on one connection unless the options say otherwise.
pub const IN_FLIGHT: usize = 1024;
/// Events kept until they are asked for; older ones are dropped.
pub const EVENTS_MAX: usize = 1024;
/// How long connecting and the handshake may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// First source port that drivers draw for the shard-aware port.
pub const SOURCE_PORT_FIRST: u16 = 49152;
/// Source ports tried for one shard before the ordinary port is used.
pub const SOURCE_PORT_TRIES: u16 = 8;
/// Rest after the first failure to connect to a node; twice as long after each further one.
pub const RECONNECT_MIN: Duration = Duration::from_millis(50);
/// And never longer.
pub const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// Largest buffer kept for the next send.
pub const SEND_BUFFER_KEPT: usize = 1 << 20;
/// How long nodes may take to agree on a schema before a client goes on without.
pub const AGREEMENT_WITHIN: Duration = Duration::from_secs(10);
/// Rest between two looks at whether they do.
pub const AGREEMENT_PAUSE: Duration = Duration::from_millis(100);
/// How often a statement that a node does not know is prepared for one request. More than once: where several requests prepare a statement at
/// the same time, Cassandra 5.0 may forget it in between.
pub const PREPARES_MAX: usize = 8;
/// How often, within the time that a request has, requests that are too late are looked for.
pub const LOOKS: u32 = 16;
/// Rest between a change of the ring and reading it: several come at once, and the tables follow the events.
pub const EVENTS_REST: Duration = Duration::from_millis(500);
/// Rest between two tries to find somebody who tells of changes.
pub const LISTEN_AGAIN: Duration = Duration::from_secs(1);
