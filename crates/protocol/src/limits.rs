//! Limits of the protocol.

/// Bytes of an envelope header.
pub const HEADER_BYTES: usize = 9;
/// Largest body of an envelope, the same as Cassandra's default: a larger request is refused before it is buffered.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest body a client reads: a server's answer to a big unpaged query may be larger than any request.
pub const RESPONSE_BODY_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Largest payload of a v5 segment: its length has 17 bits.
pub const SEGMENT_PAYLOAD_MAX: usize = (1 << 17) - 1;
/// How deep types may nest in a type option: decoding recurses.
pub const TYPE_DEPTH_MAX: usize = types::limits::TYPE_DEPTH_MAX;
/// Smallest body that is worth compressing.
pub const COMPRESS_BYTES_MIN: usize = 64;
/// Bytes a connection's buffers keep when no large message is under way; ten thousand idle connections must stay small.
pub const BUFFER_KEPT_BYTES: usize = 64 << 10;
