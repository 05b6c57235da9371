//! System tables: their shapes, what they hold, and their rows as partitions.

/// The rows of the tables.
pub mod contents;
/// The shapes of the tables.
pub mod definitions;
/// Rows as partitions.
pub mod partitions;
/// Reads of those partitions.
pub mod read;
/// One generated row.
pub mod row;
