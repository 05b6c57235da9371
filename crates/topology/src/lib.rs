//! Who holds a token: ring, replication strategy, shards; an immutable snapshot.
#![forbid(unsafe_code)]
