//! Columns: what a table's cells and keys are called and typed.

use std::sync::Arc;
use types::CqlType;

/// The part a column plays in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnKind {
    /// A component of the partition key.
    PartitionKey,
    /// A component of the clustering key.
    Clustering,
    /// One value per partition.
    Static,
    /// One value per row.
    Regular,
}

impl ColumnKind {
    /// The name used in `system_schema.columns`.
    pub fn name(self) -> &'static str {
        match self {
            ColumnKind::PartitionKey => "partition_key",
            ColumnKind::Clustering => "clustering",
            ColumnKind::Static => "static",
            ColumnKind::Regular => "regular",
        }
    }
}

/// The direction in which a clustering column sorts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Unquoted name.
    pub name: Arc<str>,
    /// The part it plays.
    pub kind: ColumnKind,
    /// Component index within the partition or clustering key; 0 for other kinds.
    pub position: u16,
    /// Stable number among all static or all regular columns the table ever had; 0 for key columns. Stored in packed
    /// rows: it must never change and is never given to a column of another name.
    pub ordinal: u16,
    /// Type of its values. A clustering column's direction is in `order`, not here.
    pub ty: CqlType,
    /// Direction; always ascending unless the kind is clustering.
    pub order: Order,
}

impl Column {
    /// Whether its cells carry paths: a non-frozen collection or user type.
    pub fn is_complex(&self) -> bool {
        self.ty.is_multi_cell()
    }

    /// Whether it is part of the primary key.
    pub fn is_key(&self) -> bool {
        matches!(self.kind, ColumnKind::PartitionKey | ColumnKind::Clustering)
    }
}

/// A column that was dropped: its ordinal stays taken and its old cells stay invisible, also when it comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedColumn {
    /// The name it had.
    pub name: Arc<str>,
    /// `Static` or `Regular`.
    pub kind: ColumnKind,
    /// The ordinal it keeps for ever.
    pub ordinal: u16,
    /// The type it had, needed to skip its cells in files.
    pub ty: CqlType,
    /// Microseconds since the Unix epoch; cells at or below are gone.
    pub dropped_at: i64,
}
