//! The limits of a schema, each with its unit and reason.

/// Most bytes in a serialized partition key or clustering prefix: lengths on disk are unsigned 16-bit.
pub const KEY_BYTES_MAX: usize = 65_535;
/// Most characters in a keyspace name, as Cassandra: names become folder names.
pub const NAME_CHARS_MAX: usize = 48;
/// Most ordinals one table may ever hand out per kind: ordinals are unsigned 16-bit in packed rows.
pub const COLUMNS_MAX: usize = 32_768;
