//! Limits of the data model, each with its unit and reason.

/// Most bytes in one encoded mutation: half of Cassandra's default commitlog segment.
pub const MUTATION_BYTES_MAX: usize = 16 << 20;
/// Most bytes in one cell value: lengths are signed 32-bit on the wire; half a frame is refused long before.
pub const VALUE_BYTES_MAX: usize = i32::MAX as usize;
/// Most keys in one read command: a statement's IN lists multiply.
pub const KEYS_MAX: usize = 65_536;
/// Most clustering slices in one read command.
pub const SLICES_MAX: usize = 65_536;
/// Most bytes of rows walked for one piece of an answer, however few of them are left of it: rows under a tombstone cost time,
/// too, and a page that ends early is continued.
pub const WALKED_BYTES_MAX: usize = 1 << 20;
/// Bytes of the buffers that are kept to be used again: small steps for small rows, of which an answer has thousands; the
/// largest holds a row of 100 kB.
pub const BUFFER_SIZES: [usize; 6] = [256, 512, 1_024, 2_560, 20_480, 163_840];
/// Buffers of each size that a thread keeps: a page of small rows, few large ones; 1.2 MiB in all.
pub const BUFFERS_KEPT: [usize; 6] = [512, 128, 64, 32, 12, 4];
