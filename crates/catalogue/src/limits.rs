//! What bounds each thing here.

use std::time::Duration;

/// Bytes of a path.
pub const PATH_BYTES_MAX: usize = 4096;
/// Bytes of a name in a folder.
pub const NAME_BYTES_MAX: usize = 255;
/// Folders above a file: what walks up ends there, whatever two movers have made of the tree.
pub const DEPTH_MAX: usize = 256;
/// Entries of one partition of a folder, about: then the folder gets twice as many partitions.
pub const PARTITION_ENTRIES: u64 = 65_536;
/// Partitions of a folder at most: four billion entries of 65,536.
pub const FOLDER_PARTITIONS_MAX: u32 = 1 << 16;
/// One registration in so many looks how large its partition is.
pub const GROWTH_LOOK: u64 = 1024;
/// Partitions of a month of GUIDs: 280 million GUIDs of a month make 68,000 in each.
pub const MONTH_PARTITIONS: u32 = 4096;
/// GUIDs of one host and 6.7 seconds (2^26 ticks) lie in one partition.
pub const SLICE_BITS: u32 = 26;
/// How long what is known of folders is believed. Another client's move shows no later.
pub const FOLDERS_KNOWN: Duration = Duration::from_secs(1);
/// Folders that are remembered; then they are forgotten.
pub const FOLDERS_MAX: usize = 1 << 20;
/// Age at which an index entry without its file is no registration under way any more: well above any request's patience.
pub const STALE_AFTER: Duration = Duration::from_secs(600);
/// Rest after the first failure of a request; twice as long after each further one.
pub const RETRY_MIN: Duration = Duration::from_millis(20);
/// And never longer.
pub const RETRY_MAX: Duration = Duration::from_secs(1);
/// Rows of a page of a scan.
pub const SCAN_PAGE_ROWS: u32 = 2_000;
/// Ranges of tokens of a scan, at least: one that fails late is not read again from far.
pub const SCAN_RANGES_MIN: usize = 64;
/// Rows of a page of a listing.
pub const LIST_PAGE_ROWS: usize = 1_000;
/// Rows of a block of an import: one batch for each partition in it.
pub const BLOCK_ROWS: usize = 64;
/// Bytes read from a file at a time.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of one row or statement of a file.
pub const ROW_BYTES_MAX: usize = 16 << 20;
/// Columns of a file's rows.
pub const COLUMNS_MAX: usize = 256;
/// Parts in which the rows of a cross-check are counted: only those that differ are looked at row by row.
pub const TALLY_PARTS: usize = 4096;
/// Rows that are held to name those that differ.
pub const NAMED_ROWS_MAX: u64 = 1_000_000;
/// Rows that are named.
pub const NAMES_TOLD: usize = 20;
/// Files of a generated catalogue: eight bytes of memory for each folder, of some sixty files.
pub const FILES_MAX: u64 = 10_000_000_000;
