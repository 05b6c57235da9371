//! Cassandra sstables: the nb writer and reader.
#![forbid(unsafe_code)]
