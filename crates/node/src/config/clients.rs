//! What is asked of clients: encryption, how many they may be, how much they may send.
//!
//! ```text
//! enabled: false, optional: false     plain text
//! enabled: true,  optional: false     TLS only
//!                 optional: true      either, on the same port
//! ```
//! Where a second port for TLS is named, the first is plain.

use super::value::Value;
use core::time::Duration;
use std::path::PathBuf;
use tls::{ClientAuth, Encryption, ServerSettings};

/// The rules of the native protocol's ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRules {
    /// Connections of one address served at once.
    pub connections_per_ip_max: Option<u32>,
    /// Bytes of requests being served at once.
    pub request_bytes_max: Option<u64>,
    /// Bytes of requests of one address being served at once.
    pub request_bytes_per_ip_max: Option<u64>,
    /// Whether the number of requests a second is bounded.
    pub is_rate_bounded: bool,
    /// That bound.
    pub requests_per_second_max: u32,
    /// Whether clients are told of overload instead of being read more slowly.
    pub throw_on_overload: bool,
    /// A connection that sends nothing for so long is closed; zero keeps it.
    pub idle_timeout: Duration,
    /// Whether the system asks silent clients if they are still there.
    pub keep_alive: bool,
    /// Whether versions of the protocol below the newest are served.
    pub older_versions: bool,
    /// The port of its own for TLS.
    pub ssl_port: Option<u16>,
    /// The shard-aware port of its own for TLS.
    pub shard_aware_port_ssl: Option<u16>,
    /// Whether TLS is served.
    pub is_encrypted: bool,
    /// Whether plain text is served where TLS is.
    pub is_optional: bool,
    /// The PEM file with certificates and private key, as Cassandra names it.
    pub keystore: Option<PathBuf>,
    /// The PEM file with certificates, as ScyllaDB names it.
    pub certificate: Option<PathBuf>,
    /// The PEM file with the private key, as ScyllaDB names it.
    pub keyfile: Option<PathBuf>,
    /// The PEM file with the authorities of clients' certificates.
    pub truststore: Option<PathBuf>,
    /// Whether clients show certificates.
    pub client_auth: ClientAuth,
    /// The one version of TLS allowed, or `TLS`.
    pub protocol: Option<String>,
    /// Versions of TLS allowed.
    pub accepted_protocols: Vec<String>,
    /// Cipher suites allowed.
    pub cipher_suites: Vec<String>,
}

impl ClientRules {
    /// What holds when nobody sets anything.
    pub fn standard() -> ClientRules {
        ClientRules {
            connections_per_ip_max: None,
            request_bytes_max: None,
            request_bytes_per_ip_max: None,
            is_rate_bounded: false,
            requests_per_second_max: 1_000_000,
            throw_on_overload: false,
            idle_timeout: Duration::ZERO,
            keep_alive: true,
            older_versions: true,
            ssl_port: None,
            shard_aware_port_ssl: None,
            is_encrypted: false,
            is_optional: false,
            keystore: None,
            certificate: None,
            keyfile: None,
            truststore: None,
            client_auth: ClientAuth::None,
            protocol: None,
            accepted_protocols: Vec::new(),
            cipher_suites: Vec::new(),
        }
    }

    /// Whether the ports are encrypted; see the head of the file.
    pub fn encryption(&self) -> Encryption {
        match (self.is_optional, self.is_encrypted) {
            (true, _) => Encryption::Optional,
            (false, true) => Encryption::Required,
            (false, false) => Encryption::None,
        }
    }

    /// The keys, where anything is encrypted.
    pub fn tls(&self) -> Option<ServerSettings> {
        if self.encryption() == Encryption::None {
            return None;
        }
        let (certificate, key) = self.key_files()?;
        let protocols = match (&*self.accepted_protocols, &self.protocol) {
            ([], Some(protocol)) => vec![protocol.clone()],
            (accepted, _) => accepted.to_vec(),
        };
        Some(ServerSettings {
            certificate,
            key,
            trust: self.truststore.clone(),
            client_auth: self.client_auth,
            protocols,
            cipher_suites: self.cipher_suites.clone(),
        })
    }

    fn key_files(&self) -> Option<(PathBuf, PathBuf)> {
        match (&self.certificate, &self.keyfile, &self.keystore) {
            (Some(certificate), Some(key), _) => Some((certificate.clone(), key.clone())),
            (_, _, Some(both)) => Some((both.clone(), both.clone())),
            _ => None,
        }
    }

    /// What does not fit together: the key and what it expects.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str, String)> {
        let plain = self.encryption() == Encryption::None;
        for (key, port) in [
            ("native_transport_port_ssl", self.ssl_port),
            ("native_shard_aware_transport_port_ssl", self.shard_aware_port_ssl),
        ] {
            if let (true, Some(port)) = (plain, port) {
                return Err((
                    key,
                    "client_encryption_options with enabled: true beside it",
                    port.to_string(),
                ));
            }
        }
        let is_complete = plain || self.key_files().is_some();
        let truststore = plain || self.client_auth == ClientAuth::None || self.truststore.is_some();
        match (is_complete, truststore) {
            (false, _) => Err((
                "client_encryption_options.enabled",
                "keystore, or certificate and keyfile, beside it: PEM files",
                "true".into(),
            )),
            (_, false) => Err((
                "client_encryption_options.require_client_auth",
                "truststore beside it: a PEM file with the authorities of clients",
                if self.client_auth == ClientAuth::Required { "true" } else { "optional" }.into(),
            )),
            _ => Ok(()),
        }
    }
}

/// What `require_client_auth` says.
pub(super) fn client_auth(value: &Value) -> ClientAuth {
    match &*value.text() {
        "true" => ClientAuth::Required,
        "optional" => ClientAuth::Optional,
        _ => ClientAuth::None,
    }
}

/// A file, unless the name is empty.
pub(super) fn file(value: &Value) -> Option<PathBuf> {
    let name = value.text();
    (!name.is_empty()).then(|| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use std::path::PathBuf;
    use tls::{ClientAuth, Encryption};

    fn read(text: &str) -> Result<Config, String> {
        let mut config = Config::standard(PathBuf::from("/data"));
        config.read("c.yaml", text).map_err(|error| error.to_string())?;
        config.finish().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn both_spellings_name_the_keys() {
        let cassandra = "client_encryption_options:\n  enabled: true\n  keystore: k.pem\n  truststore: t.pem\n  \
                         require_client_auth: optional\n  accepted_protocols: [TLSv1.3]\n  ssl_context_factory:\n    \
                         class_name: org.apache.cassandra.security.PEMBasedSslContextFactory\n";
        let config = read(cassandra).expect("it fits");
        assert_eq!(config.clients.encryption(), Encryption::Required);
        let keys = config.clients.tls().expect("keys");
        assert_eq!((keys.certificate, keys.key), ("k.pem".into(), "k.pem".into()));
        assert_eq!((keys.trust, keys.client_auth), (Some("t.pem".into()), ClientAuth::Optional));
        assert_eq!(keys.protocols, ["TLSv1.3"]);
        let scylla = "client_encryption_options:\n  enabled: true\n  optional: true\n  certificate: c.crt\n  \
                      keyfile: c.key\nnative_transport_port_ssl: 9142\nnative_shard_aware_transport_port_ssl: 19142\n";
        let config = read(scylla).expect("it fits");
        assert_eq!(config.clients.encryption(), Encryption::Optional);
        let keys = config.clients.tls().expect("keys");
        assert_eq!((keys.certificate, keys.key), ("c.crt".into(), "c.key".into()));
        assert_eq!((config.clients.ssl_port, config.clients.shard_aware_port_ssl), (Some(9142), Some(19142)));
    }

    #[test]
    fn nothing_is_encrypted_unless_it_is_asked_for() {
        let config =
            read("client_encryption_options: {enabled: false, keystore: conf/.keystore}").expect("it fits");
        assert_eq!((config.clients.encryption(), config.clients.tls()), (Encryption::None, None));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (text, named) in [
            ("client_encryption_options: {enabled: true}", "keystore"),
            ("client_encryption_options: {optional: true, certificate: a}", "keyfile"),
            (
                "client_encryption_options: {enabled: true, keystore: k, require_client_auth: true}",
                "truststore",
            ),
            ("native_transport_port_ssl: 9142", "enabled: true"),
            (
                "client_encryption_options: {require_endpoint_verification: true}",
                "require_endpoint_verification",
            ),
            ("client_encryption_options: {certficate_revocation_list: l.pem}", "certficate_revocation_list"),
        ] {
            let refused = read(text).expect_err(text);
            assert!(refused.contains(named), "{refused} does not name {named}");
        }
    }
}
