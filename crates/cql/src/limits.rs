//! Limits of the language: each with its unit and its reason.

/// Levels of nesting in one statement (brackets, calls, types, operators in one chain). Recursion on the shard's stack.
pub const NESTING_DEPTH: usize = 60;
/// Bytes of one statement's text; far above what a driver sends, below what would stall a shard.
pub const STATEMENT_BYTES: usize = 16 << 20;
/// Bind markers in one statement; the protocol counts them in 16 bits.
pub const MARKERS: usize = 65_535;
/// Statements in one batch, counted in 16 bits by the protocol.
pub const BATCH_STATEMENTS: usize = 65_535;
/// Bytes of a partition key, and of a row's clustering columns together; lengths of keys are written in 16 bits.
/// Bounds of slices may be longer: they are no keys.
pub const KEY_BYTES: usize = 65_535;
/// Bytes of a bound of DELETE in wire form: sstables take keys of tries of that length for sound. No row lies between such
/// bounds that a shorter one would not reach as well.
pub const BOUND_BYTES: usize = 128 << 10;
/// Bytes of the shortest value of a vector, and of what a function makes up: no write takes more.
pub const VALUE_BYTES: usize = mutation::limits::MUTATION_BYTES_MAX;
/// Partition keys or clustering prefixes one statement may name by `IN` products; more would be an unbounded fan-out.
pub const IN_PRODUCT: usize = 10_000;
/// Seconds of the longest time to live: twenty years, Cassandra's `MAX_TTL`.
pub const TTL_SECONDS: i64 = 20 * 365 * 24 * 60 * 60;
/// Characters of a keyspace name, Cassandra's limit.
pub const KEYSPACE_NAME_CHARS: usize = 48;
/// Characters of a table name, Cassandra's limit: with a dash and 32 digits of the id it is a folder name of 255 bytes.
pub const TABLE_NAME_CHARS: usize = 222;
/// Columns in a table; ordinals are 16 bits.
pub const COLUMNS: usize = 16_384;
/// Relations of one WHERE: each is compared with those before it. More than a bound on each side of any sensible key.
pub const RELATIONS: usize = 1_024;
/// Assignments of one UPDATE and columns or elements one DELETE names: as many as there may be markers.
pub const ASSIGNMENTS: usize = 65_535;
/// Tokens of query text quoted in a syntax error before the offending one, as Cassandra's tools expect.
pub const SNIPPET_TOKENS: usize = 10;
/// Bytes of rows that ORDER BY with IN on the partition key may gather to sort them; a shard answers many at once.
pub const SORTED_BYTES: usize = 64 << 20;
/// Rows an aggregate or a filter may look at before it yields an answer page to its caller.
pub const ROWS_PER_STEP: u32 = 10_000;
/// Rows the first read of a filter or a group asks for at least: a read costs more than a few rows.
pub const ROWS_OF_FIRST_STEP: u32 = 100;
/// Bytes after which one answer of the lists read before a write stops; the rest is asked for again.
pub const PRIOR_BYTES_PER_STEP: mutation::ByteLimit = mutation::ByteLimit::near(1 << 20);
