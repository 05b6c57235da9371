//! Every bound of this crate, with its unit and its reason.

/// Smallest commitlog segment, bytes: below it, preparing segments costs more than writing them.
pub const SEGMENT_BYTES_MIN: u64 = 256 * 1024;
/// Largest commitlog segment, bytes: an offset in a segment is a u32.
pub const SEGMENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Milliseconds a filled buffer may wait before it is handed to the disk, whatever the sync period.
pub const LOG_HANDOFF_MS: u64 = 10;
/// Bytes appended to the log and not yet synced; above it writers wait for the disk.
pub const LOG_UNSYNCED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a new tail file, where blocks of the log wait to be written: what comes while a mebibyte is under way to a usual disk.
pub const TAIL_BYTES_MIN: usize = 4 * 1024 * 1024;
/// Bytes a tail file may have: about all that may be appended and not synced, and the entry that was let in last. Of entries of
/// few bytes, whose headers count here, a little less is let in.
pub const TAIL_BYTES_MAX: usize = LOG_UNSYNCED_BYTES_MAX as usize + TAIL_BYTES_MIN;
/// Bytes of an entry that may be answered before it is handed to the disk; a larger one waits for its sync, which costs it little.
pub const TAIL_ENTRY_BYTES_MAX: usize = TAIL_BYTES_MIN / 4;
/// As [`LOG_UNSYNCED_BYTES_MAX`] where writers wait for their sync anyway: the next group is as large as a slow disk writes in
/// a tenth of a second, and memory of writes that nobody sees yet is small.
pub const LOG_GROUP_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Segments of one shard that are kept to be written again: their files stay open.
pub const LOG_SPARES_MAX: usize = 64;
/// The part of the log's space that such segments may take beside it.
pub const LOG_SPARES_SHARE: u32 = 4;
/// Bytes of one write to the log; a longer group is cut. Bounds the aligned buffer.
pub const LOG_WRITE_BYTES_MAX: usize = 1024 * 1024;
/// Shares of the log, of which one starts flushes, that a table that cannot be flushed may keep; then writes are refused.
pub const LOG_SHARES_MAX: u64 = 2;
/// Milliseconds between two attempts to write to a full disk.
pub const LOG_RETRY_MS: u64 = 200;
/// Milliseconds for which a commitlog that finds no file descriptor tries again before writes are refused.
pub const LOG_DESCRIPTOR_PATIENCE_MS: u64 = 2_000;
/// Milliseconds between two such attempts.
pub const LOG_DESCRIPTOR_RETRY_MS: u64 = 5;
/// How often a replay that takes long says how far it is.
pub const REPLAY_TELL_EVERY: core::time::Duration = core::time::Duration::from_secs(5);
/// Bytes read at a time while a log is replayed; as many are read ahead.
pub const REPLAY_READ_BYTES: usize = 1024 * 1024;
/// Entries of a log that are made ready to be replayed in one step.
pub const REPLAY_AT_ONCE: usize = 256;
/// Bytes of one table's replayed memtable above which it is flushed before memory is short, unless one of the next two is more:
/// the memory for more than these is new, which the kernel zeroes, and far from the processor.
pub const REPLAY_FLUSH_BYTES: u64 = 256 * 1024 * 1024;
/// This part of the budget of memtables: otherwise a large one would become many small sstables.
pub const REPLAY_FLUSH_SHARE: u64 = 16;
/// This part of the log, which is then about as many flushes at most.
pub const REPLAY_FLUSHES_MAX: u64 = 8;
/// A manifest is rewritten as one snapshot when it has grown by this many bytes.
pub const MANIFEST_REWRITE_BYTES: u64 = 1024 * 1024;
/// Mutations in one commitlog entry.
pub const ENTRY_MUTATIONS_MAX: usize = 65_535;
/// Largest number of shards of one node: twelve bits of a segment id.
pub const SHARDS_MAX: u16 = 4_095;
/// Largest incarnation: twenty-four bits of a segment id.
pub const INCARNATION_MAX: u32 = (1 << 24) - 1;
/// Largest segment number of one shard in one incarnation: twenty-eight bits of a segment id.
pub const SEGMENT_NUMBER_MAX: u32 = (1 << 28) - 1;
/// Largest sstable generation: Cassandra's tools read it as a positive i32.
pub const GENERATION_MAX: u64 = (1 << 31) - 1;
/// Bytes a read fetches from each sstable for one partition in its first round; the next asks for what that shows to be needed.
pub const READ_FRAGMENT_BYTES: usize = 64 * 1024;
/// How many times as much the next round may ask for: a first fragment of small rows is so far from a page of a megabyte.
pub const READ_GROWTH_MAX: usize = 16;
/// Bytes a row of a slice is expected to have: a LIMIT of few rows does not fetch a whole first fragment.
pub const READ_ROW_BYTES: usize = 512;
/// Least bytes that a read fetches of a partition: a chunk.
pub const READ_ROWS_BYTES_MIN: usize = 4 * 1024;
/// Largest fragment a read fetches from one sstable in one round, bytes.
pub const READ_FRAGMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of a partition that are asked of memory ahead; the processor brings what follows by itself.
pub const PREFETCHED_BYTES: usize = 256;
/// Bytes of memtables and row cache from which on requests are looked ahead for: less a processor keeps near by itself.
pub const PREFETCH_MEMORY_MIN: usize = 8 * 1024 * 1024;
/// Partitions one page of a range scan visits before it is cut short.
pub const SCAN_PARTITIONS_MAX: u64 = 20_000;
/// Of these, partitions in which one sstable has nothing of what is asked for and that it passes over before the page may end.
pub const SCAN_PARTITIONS_PASSED_MAX: u64 = 1_000;
/// Smallest row cache of a shard, bytes: below it pages of its own tables would leave no room for rows.
pub const CACHE_BYTES_MIN: usize = 256 * 1024;
/// Largest row cache of a shard, bytes: its segments of 128 KiB are numbered by eighteen bits.
pub const CACHE_BYTES_MAX: usize = 24 * 1024 * 1024 * 1024;
/// Bytes by which the row cache may grow at once, by one row, the tombstones of a partition or a list that doubles: as many of
/// its budget stay free.
pub const CACHE_GROWTH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of rows of one partition that one read puts into the row cache.
pub const CACHE_FILL_BYTES_MAX: usize = 1024 * 1024;
/// Evictions for the sake of one row: with more, the row is not worth it.
pub const CACHE_EVICTIONS_MAX: usize = 64;
/// Rows merged into the row cache, or freed in it, in one step.
pub const CACHE_ROWS_AT_ONCE: usize = 256;
/// Bytes fetched from one input in one step of a compaction: some hundred microseconds of work.
pub const COMPACTION_FRAGMENT_BYTES: usize = 64 * 1024;
/// Rows and range tombstones of a partition that a flush writes before it looks at the clock: some microseconds, more when they are large.
pub const FLUSH_ROWS_AT_ONCE: u32 = 16;
/// Bytes a flush or a compaction lets the writer hold before it drains to disk.
pub const WRITER_PENDING_BYTES: usize = 256 * 1024;
/// How much of the rate of admission may be let in at once, and the shortest wait of a write: below it timers cost more than
/// they smooth.
pub const ADMISSION_BURST: core::time::Duration = core::time::Duration::from_millis(1);
/// Longest wait of the first write in the queue before it looks at memory again.
pub const ADMISSION_LOOK: core::time::Duration = core::time::Duration::from_millis(10);
/// How often a flush that writes no data is looked at: as often as a wait for admission ends.
pub const FLUSH_LOOK: core::time::Duration = core::time::Duration::from_millis(10);
/// Time over which the rate of flushes is taken: some writes of a flush on a slow disk.
pub const DRAIN_WINDOW: core::time::Duration = core::time::Duration::from_millis(100);
/// Bytes of memtables per second that flushes are taken to write before one ran.
pub const DRAIN_BYTES_START: u64 = 64 * 1024 * 1024;
/// Flushes of one shard at the same time: one may wait for its syncs while another writes.
pub const FLUSHES_MAX: usize = 2;
/// Frozen memtables of one table; with that many nothing is frozen before one is flushed. While flushes fail the active
/// memtable grows instead, until memory runs out and writes are refused.
pub const FROZEN_MAX: usize = 8;
/// Rest after a flush of a table that failed, milliseconds: space on the disk may return at any moment.
pub const FLUSH_RETRY_MS: u64 = 500;
/// Longest rest after flushes of a table that failed, milliseconds.
pub const FLUSH_RETRY_MS_MAX: u64 = 4_000;
/// Rest after a compaction of a table that failed, milliseconds.
pub const COMPACTION_RETRY_MS: u64 = 10_000;
/// Longest rest after compactions of a table that failed, milliseconds: a damaged sstable stays damaged.
pub const COMPACTION_RETRY_MS_MAX: u64 = 300_000;
/// Longest rest after work that found the disk full, milliseconds: space may return at any moment.
pub const FULL_DISK_RETRY_MS_MAX: u64 = 5_000;
/// Finished compactions of one shard that are remembered for those who ask.
pub const COMPACTION_HISTORY_MAX: usize = 200;
/// Rows of a memtable that are looked at to tell how many cells it has; the rest is taken to be alike. One step.
pub const CELLS_COUNTED_ROWS_MAX: u64 = 5_000;
/// Tables of one shard with series of their own among the metrics, four each: a scrape stays some megabytes.
pub const SHOWN_TABLES_MAX: usize = 1_000;
/// Partitions of a memtable that say from which timestamp its sstable counts: enough to tell the first ones from the rest, and
/// looked at in one step.
pub const TIMESTAMP_SAMPLES: usize = 256;
/// Strings of a memtable longer than this have a segment of their own, bytes: what is left of a whole segment is less.
pub const REGION_LONG_BYTES: usize = 32 * 1024;
/// Segments of one shard that are kept for the next memtable, bytes; more are given back to the system.
pub const SEGMENT_POOL_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A row that was written with more bytes than this is kept in fragments: changing one cell must not copy it all.
pub const LARGE_ROW_BYTES: usize = 32 * 1024;
/// A row that has grown by changes to more bytes than this is kept in fragments.
pub const GROWN_ROW_BYTES: usize = 8 * 1024;
/// Bytes of a fragment of a large row; it is divided at twice as many. A change of a cell copies one of them.
pub const ROW_FRAGMENT_BYTES: usize = 1024;
/// Sstables opened at the same time at start.
pub const OPENS_MAX: usize = 32;
/// Names read from one directory at start.
pub const DIRECTORY_ENTRIES_MAX: usize = 1_000_000;
/// At most one flush that a new commitlog waits for is told to have failed in this time.
pub const FAULT_LOG_EVERY: core::time::Duration = core::time::Duration::from_secs(10);
/// Failures of the log whose lost entries are remembered for those who have not asked yet.
pub const LOG_LOSSES_MAX: usize = 16;
/// Sstables of one import: each has a dozen files whose names are kept until it is done.
pub const IMPORT_SSTABLES_MAX: usize = 100_000;
/// Bytes an import reads at a time.
pub const IMPORT_COPY_BYTES: usize = 1024 * 1024;
/// Pieces of partitions that an import reads of each sstable whatever it is told about checks, from the first partition on and from the
/// last one on: rows in another form than the header says end in the first of them but by rare chance.
pub const IMPORT_SAMPLE_PIECES: usize = 8;
/// Bytes of rows in each.
pub const IMPORT_SAMPLE_BYTES: usize = 64 * 1024;

const _: () = assert!(SEGMENT_BYTES_MAX <= u32::MAX as u64, "offsets in a segment are u32");
const _: () = assert!(
    (LOG_WRITE_BYTES_MAX as u64) < LOG_UNSYNCED_BYTES_MAX,
    "several writes must fit the unsynced budget"
);
const _: () = assert!(READ_FRAGMENT_BYTES <= READ_FRAGMENT_BYTES_MAX);
/// At most one failed flush and one failed compaction of a table is written to the log in this time, while they last.
pub const FAILURE_LOG_EVERY: core::time::Duration = core::time::Duration::from_secs(10);
