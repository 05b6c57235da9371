//! Cassandra sstables: the nb writer and reader.
//!
//! An sstable is a set of files that never change: partitions in ring order, an index, a summary and a filter over
//! their keys, and statistics. This crate writes version `nb` of the `big` format so that Cassandra's own tools read
//! it, and reads it back in bounded pieces. It knows nothing of compaction, manifests or memory budgets; the shard
//! that opened a [`Reader`] or made a [`Writer`] owns it. Bytes: `docs/formats/sstable-nb.md`.
#![forbid(unsafe_code)]

mod cardinality;
mod checksums;
mod clustering;
mod collector;
mod component;
mod compression;
mod cursor;
mod deletion;
mod error;
mod filter;
mod fragment;
mod histogram;
mod index;
/// Every limit, with unit and reason.
pub mod limits;
mod meta;
mod pages;
mod reader;
mod row;
mod scanner;
mod shape;
mod sink;
mod source;
mod statistics;
mod summary;
mod unfiltered;
mod walk;
mod window;
mod writer;

pub use cardinality::Cardinality;
pub use component::{Component, VERSION};
pub use compression::Compressor;
pub use error::Error;
pub use histogram::TombstoneHistogram;
pub use meta::Meta;
pub use pages::{Cache, CacheStats};
pub use reader::{Footprint, Reader, SourceSlice, remove_sstable};
pub use scanner::{Scanned, Scanner};
pub use statistics::EncodingStats;
pub use writer::{Writer, WriterOptions, remove_temporary};
