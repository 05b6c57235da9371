//! Cassandra sstables: writer and reader.
//!
//! An sstable is a set of files that never change: partitions in ring order, an index and a filter over their keys, and
//! statistics. This crate writes version `nb` of the `big` format and version `da` of the `bti` format so that Cassandra's
//! own tools read them, and reads those and the versions before and between them in bounded pieces. It knows nothing of
//! compaction, manifests or memory budgets; the shard that opened a [`Reader`] or made a [`Writer`] owns it.
//! What sets versions apart is one table, `version.rs`. Bytes: `docs/formats/sstables.md`.
#![forbid(unsafe_code)]

mod version;
mod component;
mod error;
/// Every limit, with unit and reason.
pub mod limits;
mod cursor;
mod checksums;
mod cardinality;
mod clustering;
mod histogram;
mod deletion;
mod stats;
mod statistics;
mod index;
mod pages;
mod trie;
mod trie_writer;
mod partitions;
mod rows;
mod compression;
mod window;
mod source;
mod collector;
mod shape;
mod filter;
mod meta;
mod row;
mod unfiltered;
mod fragment;
mod bti;
mod row_index;
mod sink;
mod lookup;
mod summary;
mod big;
mod reader;
mod writer;
mod walk;
mod described;
mod look;
mod raw;
mod scanner;

pub use cardinality::Cardinality;
pub use component::{Component, Descriptor, SstableId};
pub use compression::{CompressionChoice, CompressionInfo, Compressor};
pub use error::Error;
pub use histogram::{SizeHistogram, TombstoneHistogram};
pub use lookup::Readable;
pub use meta::Meta;
pub use pages::{Cache, CacheStats};
pub use raw::{Raw, RawEntries, RawEntry, RawFilter, RawItem, RawPartition, RawScanner};
pub use reader::{Footprint, Reader, SourceSlice, remove_sstable};
pub use scanner::{Entered, OnlyRow, Scanned, Scanner};
pub use statistics::{EncodingStats, Header, Statistics};
pub use stats::{LogPosition, Stats};
pub use version::{Format, Version};
pub use walk::Copied;
pub use writer::{Writer, WriterOptions, remove_temporary};
