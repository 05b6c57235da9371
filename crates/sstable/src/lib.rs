//! Cassandra sstables: the nb writer and reader.
//!
//! An sstable is a set of files that never change: partitions in ring order, an index, a summary and a filter over
//! their keys, and statistics. This crate writes version `nb` of the `big` format so that Cassandra's own tools read
//! it, and reads it back in bounded pieces. It knows nothing of compaction, manifests or memory budgets; the shard
//! that opened a [`Reader`] or made a [`Writer`] owns it. Bytes: `docs/formats/sstable-nb.md`.
#![forbid(unsafe_code)]

/// Every limit, with unit and reason.
pub mod limits;
mod error;
mod cursor;
mod component;
mod compression;
mod checksums;
mod filter;
mod histogram;
mod cardinality;
mod summary;
mod statistics;
mod deletion;
mod clustering;
mod index;
mod shape;
mod collector;
mod row;
mod meta;
mod sink;
mod writer;
mod source;
mod unfiltered;
mod fragment;
mod walk;
mod reader;
mod scanner;

pub use component::{Component, VERSION};
pub use compression::Compressor;
pub use error::Error;
pub use histogram::TombstoneHistogram;
pub use meta::Meta;
pub use reader::{Reader, SourceSlice, remove_sstable};
pub use scanner::{Scanned, Scanner};
pub use statistics::EncodingStats;
pub use writer::{Writer, WriterOptions, remove_temporary};
