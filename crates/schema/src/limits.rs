//! The limits of a schema, each with its unit and reason.

/// Most bytes in a serialized partition key or clustering prefix: lengths on disk are unsigned 16-bit.
pub const KEY_BYTES_MAX: usize = 65_535;
/// Most ordinals one table may ever hand out per kind, dropped columns too: ordinals are unsigned 16-bit in packed rows.
pub const ORDINALS_MAX: usize = 32_768;
