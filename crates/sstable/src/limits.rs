//! Every limit of this crate, with its unit and its reason.

/// Bytes after which a partition gets another entry in its promoted index; Cassandra's default for big.
pub const BIG_BLOCK_BYTES: u64 = 64 * 1024;

/// The same for the trie of its rows; Cassandra's default for bti.
pub const BTI_BLOCK_BYTES: u64 = 16 * 1024;

/// Bytes of a key of a trie: clusterings of 64 KiB, which grow by half at most when they become comparable, and more than
/// that is taken for corruption.
pub const TRIE_KEY_BYTES_MAX: usize = 256 * 1024;

/// Bytes of the index of one partition of format big before blocks start to grow with the partition: the writer gathers it in
/// memory. Some hundred thousand blocks, 7 GiB, with short clusterings; below it a slice passes half a block of
/// [`BIG_BLOCK_BYTES`].
pub const PROMOTED_BYTES_BEFORE_GROWTH: usize = 4 * 1024 * 1024;

/// Keys between two entries of the summary at full sampling; Cassandra's default.
pub const SUMMARY_INTERVAL: u32 = 128;

/// Bytes gathered before the writer hands a file's head to the disk in one aligned write.
pub const WRITE_BYTES: usize = 128 * 1024;

/// Such writes of one file under way at a time: the disk has the next one when it ends the one before, while the core makes a
/// third.
pub const WRITES_UNDER_WAY: usize = 2;

/// Small files of one sstable that are written and synced at a time: a busy disk makes each wait, and the kernel has few threads for
/// syncs, which the commitlog needs too.
pub const SYNCS_UNDER_WAY: usize = 3;

/// Bytes of the largest single read of a scan, or of a lookup that goes on, of plain data.
pub const READ_AHEAD_BYTES: u64 = 128 * 1024;

/// Reads of one scan under way at a time: the disk works on one while the core works on the other.
pub const READS_AHEAD: usize = 2;

/// Bytes of the first read of a scan on behalf of a request: many end after a page of rows.
pub const SCAN_FIRST_BYTES: u64 = 32 * 1024;

/// Bytes of a partition that a scan on behalf of a request reads to get past what it was not asked for, before it looks the way
/// up in the index: about what two reads of an index cost.
pub const FAR_BYTES: u64 = 64 * 1024;

/// What a stored chunk may have besides twice its plain size: checksum, frame and headers of tiny chunks.
pub const STORED_SLACK_BYTES: u64 = 4096;

/// Blocks that one look into an index may need; a sound one needs one for each step down.
pub const LOOK_BLOCKS_MAX: usize = 4096;

/// Least bytes copied when something crosses the end of a block.
pub const SPILL_BYTES: u64 = 512;

/// Bytes of a shard's cache of blocks before its owner says how large it may be.
pub const CACHE_BYTES_DEFAULT: usize = 8 * 1024 * 1024;

/// Bytes that keeping a block costs besides its own.
pub const CACHE_ENTRY_BYTES: usize = 128;

/// Buffers of blocks that went, kept for blocks that come: a miss in a full cache allocates nothing of that size.
pub const SPARE_BLOCKS_MAX: usize = 16;

/// A block is not kept if it would take more than one in so many bytes of the cache.
pub const CACHE_SHARE_OF_BLOCK: usize = 8;

/// Bytes of an `Index.db` read by a point lookup at a time.
pub const INDEX_READ_BYTES: u64 = 8 * 1024;

/// Bytes of one uncompressed chunk that a reader accepts; Cassandra's tables use at most 1 MiB.
pub const CHUNK_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of the uncompressed chunks that `CRC.db` covers; must never change.
pub const PLAIN_CHUNK_BYTES: u64 = 64 * 1024;

/// Bytes of a component that is read whole at open (statistics, summary, filter, compression).
pub const WHOLE_COMPONENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes of one row on disk; a larger one is taken for corruption.
pub const ROW_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes of a bloom filter; beyond it the filter is less selective than asked for.
pub const FILTER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bits per key of a bloom filter; Cassandra's table ends here too.
pub const FILTER_BITS_PER_KEY_MAX: u32 = 20;

/// Clustering columns that fit one header word of the values block.
pub const CLUSTERING_BATCH: usize = 32;

/// Bins of the tombstone histogram on disk.
pub const TOMBSTONE_BINS: usize = 100;

/// Bytes of a partition key, because its length is a `u16`.
pub const KEY_BYTES_MAX: usize = 65_535;

/// Memory for the rows of a piece that a scan keeps for the next piece, bytes.
pub const FRAGMENT_BYTES_KEPT: usize = 256 * 1024;
