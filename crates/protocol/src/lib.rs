//! CQL native protocol v3, v4 and v5 in both directions: frames, segments, messages; no sockets.
//!
//! A server gives what it receives to an [`assembler::Assembler`], decodes [`request::Request`]s out of its envelopes, appends
//! [`response::Reply`]s and [`rows::RowsWriter`]s to an output buffer and dresses that with [`outgoing::Outgoing`]. A client does the same
//! the other way round.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// The error of this crate.
pub mod error;
/// LZ4 and Snappy.
pub mod compression;
/// What bounds each thing here.
pub mod limits;
/// The envelope header.
pub mod envelope;
/// CRC-24 and CRC-32 of segments.
pub mod checksum;
/// Version 5 segments.
pub mod segment;
/// Bytes in, envelopes out.
pub mod assembler;
/// Primitive encodings.
pub mod wire;
/// Events and schema changes.
pub mod event;
/// What comes before a response.
pub mod extras;
/// ERROR bodies.
pub mod failure;
/// Types on the wire.
pub mod type_option;
/// Columns and markers.
pub mod metadata;
/// Envelopes in, bytes out.
pub mod outgoing;
/// Bound values.
pub mod values;
/// Requests.
pub mod request;
/// Rows results.
pub mod rows;
/// Responses.
pub mod response;
/// What SUPPORTED says.
pub mod supported;
