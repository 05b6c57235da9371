//! Bounds: unit and reason.

/// Values that a clustering column takes in a partition: all of them are made whenever the partition is visited.
pub const LEVEL_VALUES_MAX: i64 = 10_000_000;
/// Partitions of one operation, whose keys are all in memory.
pub const PARTITIONS_MAX: i64 = 1_000_000;
/// Rows that one insert writes: sixteen bytes of memory each, besides those of the batch that is made of them.
pub const INSERT_ROWS_MAX: f64 = 100e6;
/// Rows of a partition that is compared: the numbers of all of them are sorted.
pub const VALIDATE_ROWS_MAX: f64 = 1e6;
/// Partitions of a sequence that `--verify` follows: 4 bytes each while it runs, 8 more while the table is scanned.
pub const LEDGER_SEQUENCE_MAX: u64 = 1 << 28;
/// Partitions of a sequence whose times `--verify` keeps exactly: longer ones take longer than a millisecond to come round.
pub const LEDGER_EXACT_MAX: u64 = 1 << 22;
/// Partitions of a distribution that `--verify` follows: up to 60 bytes each while it runs, 8 more while the table is scanned.
pub const LEDGER_DRAWN_MAX: u64 = 1 << 25;
/// Lines about partitions of one kind of fault: what is wrong is seen from a few.
pub const LEDGER_EXAMPLES_MAX: u64 = 10;
/// Requests in flight while what was written is read back.
pub const READERS_MAX: u32 = 256;
/// Partitions that could not be read back before the others are not tried: the servers are away.
pub const UNREAD_MAX: u64 = 1_000;
/// Rows of a page of the scan for rows that nobody wrote.
pub const SCAN_PAGE_ROWS: u32 = 5_000;
/// Values of a statement that failed which are printed with it.
pub const SHOWN_VALUES_MAX: usize = 64;
/// Bytes of each of them.
pub const SHOWN_BYTES_MAX: usize = 64;
/// Letters of the statement.
pub const SHOWN_LETTERS_MAX: usize = 4_096;
/// Rows of a batch that failed which are printed.
pub const SHOWN_ROWS_MAX: usize = 4;
