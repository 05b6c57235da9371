//! CQL native protocol v4 and v5 in both directions: frames, segments, messages; no sockets.
#![forbid(unsafe_code)]
