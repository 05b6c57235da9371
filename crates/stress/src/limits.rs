//! Bounds of profiles: unit and reason.

/// Values that a clustering column takes in a partition: all of them are made whenever the partition is visited.
pub const LEVEL_VALUES_MAX: i64 = 10_000_000;
/// Partitions of one operation, whose keys are all in memory.
pub const PARTITIONS_MAX: i64 = 1_000_000;
/// Rows that one insert writes: sixteen bytes of memory each, besides those of the batch that is made of them.
pub const INSERT_ROWS_MAX: f64 = 100e6;
/// Rows of a partition that is compared: the numbers of all of them are sorted.
pub const VALIDATE_ROWS_MAX: f64 = 1e6;
