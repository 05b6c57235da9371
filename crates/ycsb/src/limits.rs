//! Limits of the tool.

use std::time::Duration;

/// Bytes of a property file or of a file of field lengths: such files have a few lines.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Threads, each a task of one shard and a block of memory with the values of a row.
pub const THREADS_MAX: u64 = 1_000_000;
/// Fields of a record: each may have three statements of its own.
pub const FIELDS_MAX: u64 = 10_000;
/// Bytes of a field's value: a request holds all fields and has a frame's limit of 256 MiB.
pub const FIELD_BYTES_MAX: u64 = 64 << 20;
/// Digits to which numbers of keys are filled up.
pub const ZERO_PADDING_MAX: u64 = 1_000;
/// Buckets of a histogram of latencies, a millisecond each: more than a day.
pub const HISTOGRAM_BUCKETS_MAX: u64 = 100_000_000;
/// Latencies kept one by one by `measurementtype=raw`: 16 bytes each.
pub const RAW_LATENCIES_MAX: usize = 1 << 26;
/// Averages kept by `measurementtype=timeseries`: 16 bytes each.
pub const SERIES_MAX: usize = 1 << 24;
/// Draws of a key that is not there yet before the last one that is there is taken.
pub const KEY_DRAWS_MAX: u32 = 10_000;
/// Terms of a sum of zipfian weights that are added one by one; the rest is an integral with its corrections, exact to the last bits.
pub const ZETA_TERMS: u64 = 10_000;
/// Rows of a page of a scan: what the Java driver asks for.
pub const SCAN_PAGE_ROWS: u32 = 5_000;
/// Connections to a node.
pub const CONNECTIONS_MAX: u64 = 1_024;
/// How long a request may take unless a property says otherwise: what the Java driver allows.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);
/// Rest of a thread whose server could not be reached: without it nobody else would have a turn, nor the server a chance to come back.
pub const AWAY_REST: Duration = Duration::from_millis(10);
/// Complaints about requests in one second; further ones are counted.
pub const COMPLAINTS_PER_SECOND: u32 = 10;
/// Between two tries to make CloudSuite's tables.
pub const SCHEMA_REST: Duration = Duration::from_secs(5);
