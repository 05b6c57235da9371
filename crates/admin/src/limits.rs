//! Every bound of this crate, with its unit and reason.

use core::time::Duration;

/// Longest request head, in bytes: scrapers send a few hundred.
pub const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Longest body of a request, in bytes; it is passed over.
pub const BODY_BYTES_MAX: usize = 8 << 10;
/// Connections served at once: scrapers and an operator, not the public.
pub const CONNECTIONS_MAX: usize = 64;
/// How long a connection may be silent before it is closed.
pub const IDLE: Duration = Duration::from_secs(60);
/// How long sending one answer may take before the client is given up.
pub const SEND: Duration = Duration::from_secs(10);
