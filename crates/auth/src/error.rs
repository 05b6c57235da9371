//! Why somebody is not let in, in the words that drivers show.

/// The login fails with the protocol's error 0x0100; the client may try again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The response has more than two NULs.
    #[error("Credential format error: username or password is empty or contains NUL(\\0) character")]
    Format,
    /// No password.
    #[error("Password must not be null")]
    NoPassword,
    /// No name.
    #[error("Authentication ID must not be null")]
    NoName,
    /// Nobody of that name, or another password; which of the two is not told, neither by words nor by time.
    #[error("Provided username {0} and/or password are incorrect")]
    Incorrect(String),
    /// The role may not log in.
    #[error("{0} is not permitted to log in")]
    NoLogin(String),
}
