//! CQL types and values: encode, decode, validate, order; consistency levels.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// Cassandra's class names of types.
pub mod class;
/// Wire collections, tuples and vectors.
pub mod collection;
/// The order of two values.
mod compare;
/// Consistency levels.
pub mod consistency;
/// The types.
pub mod cql_type;
/// Time zones by name.
mod zone;
/// Dates, times and timestamps as text.
pub mod datetime;
/// Durations.
pub mod duration;
/// The error of this crate.
pub mod error;
/// Floats as Java prints them.
pub mod float_text;
/// What bounds each thing here.
pub mod limits;
/// Scalars from their text.
pub mod literal;
/// CQL text of types.
pub mod name;
/// Integers and decimals of any size.
pub mod number;
/// Byte-comparable order.
pub mod order;
/// Text of blobs, UUIDs and addresses.
pub mod text;
/// Version 1 UUIDs.
pub mod timeuuid;
/// Which bytes are values.
mod validate;
/// Values as a tree.
pub mod value;

pub use consistency::Consistency;
pub use cql_type::{CqlType, UdtType};
pub use error::TypeError;
pub use value::Value;
