//! System tables: their shapes, what they hold, and their rows as partitions.

/// One generated row.
pub mod row;
/// The shapes of the tables.
pub mod definitions;
/// What rows are made from.
pub mod live;
/// The rows of the tables.
pub mod contents;
/// Rows as partitions.
pub mod partitions;
/// Reads of those partitions.
pub mod read;
