//! What a server or client is told.

use std::path::PathBuf;

/// Whether a port is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Plain text only.
    None,
    /// Either: the first byte tells.
    Optional,
    /// TLS only.
    Required,
}

/// Whether clients show certificates of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    None,
    /// They may; a certificate that is not trusted is refused.
    Optional,
    /// They must.
    Required,
}

/// A server's keys and rules. Names are Java's: `TLSv1.3`, `TLS_AES_128_GCM_SHA256`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// The PEM file with the server's certificate and those between it and its authority.
    pub certificate: PathBuf,
    /// The PEM file with the private key; may be the same file.
    pub key: PathBuf,
    /// The PEM file with the authorities that sign clients' certificates.
    pub trust: Option<PathBuf>,
    /// Whether clients show certificates.
    pub client_auth: ClientAuth,
    /// Versions allowed; empty allows 1.2 and 1.3.
    pub protocols: Vec<String>,
    /// Cipher suites allowed; empty allows all there are.
    pub cipher_suites: Vec<String>,
}

/// A client's trust and keys. Names in certificates are not compared with addresses, as Cassandra's drivers do unless told to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// The PEM file with the authorities to trust; `None` believes any certificate.
    pub trust: Option<PathBuf>,
    /// The PEM files with this client's certificate and its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}
