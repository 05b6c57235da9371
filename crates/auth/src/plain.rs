//! SASL PLAIN (RFC 4616): what a client answers to AUTHENTICATE.
//!
//! ```text
//! [authorization id] NUL name NUL password
//! ```
//! The authorization id is not used: nobody acts for somebody else.

use crate::error::Error;
use crate::limits;

/// A name and the password that should prove it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Who the client says it is.
    pub name: String,
    /// In clear, as the client sent it; at most for as long as the login takes.
    pub password: String,
}

impl core::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads a response. Bytes that are no UTF-8 become replacement characters, and match no password.
    pub fn read(response: &[u8]) -> Result<Credentials, Error> {
        if response.len() > limits::RESPONSE_BYTES_MAX {
            return Err(Error::Format);
        }
        let mut from_the_end = response.rsplit(|byte| *byte == 0);
        let nuls = response.iter().filter(|byte| **byte == 0).count();
        // The part in front of a name is empty or not there.
        if nuls > 2 {
            return Err(Error::Format);
        }
        let password = from_the_end.next().filter(|part| nuls > 0 && !part.is_empty());
        let password = password.ok_or(Error::NoPassword)?;
        let name = from_the_end.next().filter(|part| nuls > 1 && !part.is_empty()).ok_or(Error::NoName)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Credentials { name: text(name), password: text(password) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_read_as_cassandra_reads_them() {
        let read = |bytes: &[u8]| Credentials::read(bytes).map(|c| (c.name, c.password));
        let good = Ok(("user".to_string(), "secret".to_string()));
        assert_eq!(read(b"\0user\0secret"), good);
        assert_eq!(read(b"somebody\0user\0secret"), good);
        assert_eq!(read(b""), Err(Error::NoPassword));
        assert_eq!(read(b"secret"), Err(Error::NoPassword));
        assert_eq!(read(b"\0user\0"), Err(Error::NoPassword));
        assert_eq!(read(b"\0\0secret"), Err(Error::NoName));
        assert_eq!(read(b"user\0secret"), Err(Error::NoName));
        assert_eq!(read(b"\0user\0sec\0ret"), Err(Error::Format));
        assert_eq!(read(&[b'x'; 70_000]), Err(Error::Format));
    }

    #[test]
    fn a_password_is_not_shown() {
        let credentials = Credentials::read(b"\0user\0secret").expect("good");
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
