//! CQL types and values: encode, decode, validate, order; consistency levels.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// Text of blobs, UUIDs and addresses.
pub mod text;
/// The types.
pub mod cql_type;
/// The error of this crate.
pub mod error;
/// What bounds each thing here.
pub mod limits;
/// Cassandra's class names of types.
pub mod class;
/// Wire collections, tuples and vectors.
pub mod collection;
/// Integers and decimals of any size.
pub mod number;
/// Byte-comparable order.
pub mod order;
/// The order of two values.
mod compare;
/// Consistency levels.
pub mod consistency;
/// Time zones by name.
mod zone;
/// Dates, times and timestamps as text.
pub mod datetime;
/// Durations.
pub mod duration;
/// Floats as Java prints them.
pub mod float_text;
/// Scalars from their text.
pub mod literal;
/// CQL text of types.
pub mod name;
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
