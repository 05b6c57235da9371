//! CQL types and values: encode, decode, validate, order; consistency levels.
#![forbid(unsafe_code)]
