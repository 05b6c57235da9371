//! Limits of types and values.

/// How deep types may nest: parsing and walking recurse, so this bounds the stack.
pub const TYPE_DEPTH_MAX: usize = 32;
/// Longest type text or class name accepted, in bytes: longer comes from no schema.
pub const TYPE_TEXT_BYTES_MAX: usize = 64 * 1024;
/// Largest vector dimension, the same as Cassandra's: a Java int. A value is bounded by its own bytes.
pub const VECTOR_DIMENSION_MAX: u32 = i32::MAX as u32;
/// Most fields of a tuple or user type.
pub const FIELDS_MAX: usize = 1024;
/// Most bytes of a varint, and of a decimal besides its scale: text and comparison of it are quadratic. More than the longest
/// literal has.
pub const NUMBER_BYTES_MAX: usize = 16 * 1024;
/// Longest literal of a number, in digits: arithmetic on it is quadratic.
pub const NUMBER_DIGITS_MAX: usize = 32 * 1024;
