//! Keyspaces, tables and columns as immutable values, and where a clustering key sorts.
//!
//! A [`Schema`] is a snapshot: whoever holds one sees one consistent set of definitions for as long as it holds it.
//! Changing a schema means building the next one. Nothing here does I/O, knows the time or remembers history, except
//! that a column's ordinal is given once and never to a column of another name for the life of its table.
#![forbid(unsafe_code)]

mod column;
mod error;
mod column_order;
mod limits;
mod options;
mod position;
mod table;
mod keyspace;
mod snapshot;
mod codec;
mod change;
mod retry;

pub use change::Change;
pub use column::{Column, ColumnKind, DroppedColumn, Order};
pub use column_order::row_order;
pub use error::Error;
pub use keyspace::{Keyspace, Replication};
pub use limits::{KEY_BYTES_MAX, ORDINALS_MAX};
pub use options::{CHUNK_BYTES, TOMBSTONE_GC, TableOptions, TombstoneGc};
pub use position::{BoundSide, Position, clustering_components, push_component};
pub use retry::{SpeculativeRetry, Wait};
pub use snapshot::Schema;
pub use table::{CompactStorage, Table, TableBuilder, TableId};
