//! Who a client is: what it sends to log in, hashes of passwords, logins that are remembered.
//!
//! Pure: no table is read here, no time asked for and no chance met; whoever logs somebody in brings them.
//! Modules, bottom to top.
#![forbid(unsafe_code)]

/// What bounds each thing here.
pub mod limits;
/// Why somebody is not let in.
mod error;
/// What a client sends to log in.
mod plain;
/// Hashes of passwords.
mod hash;
/// Logins that are remembered for a while.
mod remembered;

pub use error::Error;
pub use hash::{Cost, hash, is_hash, verify};
pub use plain::Credentials;
pub use remembered::{Known, Remembered};
