//! Every bound of this crate, with its unit and reason.

/// Longest response of a client that wants to log in, in bytes: a name and a password.
pub const RESPONSE_BYTES_MAX: usize = 64 << 10;
/// The cost of a new hash, a power of two of rounds: Cassandra's, some tens of milliseconds.
pub const HASH_COST: u32 = 10;
/// The cheapest hash there is. For simulated nodes, whose time is that of the one thread that plays them all.
pub const HASH_COST_MIN: u32 = 4;
/// The highest cost of a hash that a statement may bring: seconds of one processor for each login.
pub const HASH_COST_MAX: u32 = 16;
/// Logins remembered by one shard, unless configured; Cassandra's number.
pub const REMEMBERED_MAX: usize = 1000;
