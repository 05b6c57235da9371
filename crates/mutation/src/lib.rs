//! The data model: what a partition holds, how two versions of it become one, and how it is asked for.
//!
//! One encoding serves everything. A [`Mutation`] is one byte string about one partition; it is what a client's write
//! becomes, what the commitlog keeps, what travels between nodes, what a read answers with and what read repair writes
//! back. Inside it rows are *packed rows*, read in place by [`RowView`]. Cells are addressed by column ordinals, which
//! never change, so bytes written under an older schema need no conversion.
//!
//! Nothing here does I/O, knows the time or meets chance: every moment comes in as a parameter.
#![forbid(unsafe_code)]

mod error;
mod input;
mod limit;
pub mod limits;
mod command;
mod buffer;
mod cell;
mod deletion;
mod ranges;
mod row;
mod encoded;
mod answer;
mod counter;
mod digest;
mod merge;
mod page;
mod partition;
mod view;
mod emit;
mod increments;
#[cfg(test)]
mod tests;

pub use answer::{Partitions, ReadAnswer};
pub use buffer::Buffer;
pub use cell::{Cell, NO_TIME};
pub use command::{Key, Keys, ReadCommand, Resume, Scope, Slice, Slices, TokenRange};
pub use counter::counter_total;
pub use deletion::{Deletion, Liveness};
pub use digest::{DigestFault, digest};
pub use emit::{Budget, Emit, Emitted, emit, emit_merged};
pub use encoded::{BoundRef, Item, Mutation, MutationBuilder, MutationView};
pub use error::Error;
pub use increments::{count, counted_rows};
pub use limit::ByteLimit;
pub use merge::{Purge, Rewrite, merge_rows, normalized, replaces, rewrite_row};
pub use page::Page;
pub use partition::{Partition, Row, check_positions};
pub use ranges::{Bound, RangeRef, RangeTombstone, RangeTombstones, Sweep, SweepBack};
pub use row::{ColumnView, ComplexView, RowView, RowWriter, row_is_live, row_judged, row_timestamps};
pub use view::{Body, PartitionView, Pieces, RowRef};
