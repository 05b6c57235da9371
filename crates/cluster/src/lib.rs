//! Schema changes made durable and shown to every shard; publishes the topology snapshot.
#![forbid(unsafe_code)]
