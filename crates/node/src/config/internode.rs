//! Encryption between nodes.
//!
//! ```text
//! internode_encryption   connections made are encrypted to     storage_port takes
//! none                   no node                               plain text; either, with optional: true
//! rack                   nodes of other racks                  either
//! dc                     nodes of other datacenters            either
//! all                    all nodes                             TLS only; either, with optional: true
//! ```
//! As Cassandra has it, down to the names of the files that are looked for when none are named: with `rack` and `dc` the port must take plain text, because neighbours send it. A second port that only takes TLS, for
//! nodes of before 4.0 there, is opened where `legacy_ssl_storage_port_enabled` asks for it.

use std::path::PathBuf;
use tls::{ClientAuth, ClientSettings, Encryption, ServerSettings};

/// To whom connections are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InternodeEncryption {
    /// To no node.
    None,
    /// To nodes of other racks, and so of other datacenters.
    Rack,
    /// To nodes of other datacenters.
    Dc,
    /// To all nodes.
    All,
}

impl InternodeEncryption {
    /// What the word says; the shape of the key has only these.
    pub(super) fn parse(word: &str) -> InternodeEncryption {
        match word {
            "rack" => InternodeEncryption::Rack,
            "dc" => InternodeEncryption::Dc,
            "all" => InternodeEncryption::All,
            _ => InternodeEncryption::None,
        }
    }
}

/// A datacenter and a rack in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The datacenter.
    pub dc: &'a str,
    /// The rack.
    pub rack: &'a str,
}

/// How nodes speak with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InternodeRules {
    /// To whom connections are encrypted.
    pub encryption: InternodeEncryption,
    /// Whether plain text and TLS are both taken where one would do.
    pub is_optional: bool,
    /// Whether other nodes must show certificates.
    pub is_client_auth_required: bool,
    /// The PEM file with certificates and private key, as Cassandra names it.
    pub keystore: Option<PathBuf>,
    /// The same for connections made, where it is another.
    pub outbound_keystore: Option<PathBuf>,
    /// The PEM file with certificates, as ScyllaDB names it.
    pub certificate: Option<PathBuf>,
    /// The PEM file with the private key, as ScyllaDB names it.
    pub keyfile: Option<PathBuf>,
    /// The PEM file with the authorities of nodes' certificates.
    pub truststore: Option<PathBuf>,
    /// The one version of TLS allowed, or `TLS`.
    pub protocol: Option<String>,
    /// Versions of TLS allowed.
    pub accepted_protocols: Vec<String>,
    /// Cipher suites allowed.
    pub cipher_suites: Vec<String>,
    /// The port that only takes TLS, if it is opened.
    pub ssl_port: u16,
    /// Whether it is opened.
    pub is_ssl_port_open: bool,
}

impl InternodeRules {
    /// What holds when nothing is set.
    pub fn standard() -> InternodeRules {
        InternodeRules {
            encryption: InternodeEncryption::None,
            is_optional: false,
            is_client_auth_required: false,
            keystore: Some(PathBuf::from("conf/.keystore")),
            outbound_keystore: None,
            certificate: None,
            keyfile: None,
            truststore: Some(PathBuf::from("conf/.truststore")),
            protocol: None,
            accepted_protocols: Vec::new(),
            cipher_suites: Vec::new(),
            ssl_port: 7001,
            is_ssl_port_open: false,
        }
    }

    /// Whether connections from one place to another are encrypted.
    pub fn encrypts(&self, from: Place<'_>, to: Place<'_>) -> bool {
        match self.encryption {
            InternodeEncryption::None => false,
            InternodeEncryption::Rack => from != to,
            InternodeEncryption::Dc => from.dc != to.dc,
            InternodeEncryption::All => true,
        }
    }

    /// What `storage_port` takes.
    pub fn port_encryption(&self) -> Encryption {
        match (self.encryption, self.is_optional) {
            (InternodeEncryption::None, false) => Encryption::None,
            (InternodeEncryption::All, false) => Encryption::Required,
            _ => Encryption::Optional,
        }
    }

    /// The second port, which takes TLS only.
    pub fn ssl_port(&self) -> Option<u16> {
        self.is_ssl_port_open.then_some(self.ssl_port)
    }

    fn needs_keys(&self) -> bool {
        self.port_encryption() != Encryption::None || self.is_ssl_port_open
    }

    /// The keys of connections taken and made, where anything is encrypted.
    pub fn tls(&self) -> Option<(ServerSettings, ClientSettings)> {
        if !self.needs_keys() {
            return None;
        }
        let (certificate, key) = self.key_files()?;
        let outbound = match &self.outbound_keystore {
            Some(both) => (both.clone(), both.clone()),
            None => (certificate.clone(), key.clone()),
        };
        let protocols = match (&*self.accepted_protocols, &self.protocol) {
            ([], Some(protocol)) => vec![protocol.clone()],
            (accepted, _) => accepted.to_vec(),
        };
        let required = self.is_client_auth_required;
        let server = ServerSettings {
            certificate,
            key,
            trust: self.truststore.clone(),
            client_auth: if required { ClientAuth::Required } else { ClientAuth::None },
            protocols,
            cipher_suites: self.cipher_suites.clone(),
        };
        Some((server, ClientSettings { trust: self.truststore.clone(), certificate: Some(outbound) }))
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
        if !self.needs_keys() {
            return Ok(());
        }
        let (key, got) = match (self.encryption, self.is_ssl_port_open) {
            (InternodeEncryption::None, true) => ("legacy_ssl_storage_port_enabled", "true"),
            (InternodeEncryption::None, false) => ("optional", "true"),
            (InternodeEncryption::Rack, _) => ("internode_encryption", "rack"),
            (InternodeEncryption::Dc, _) => ("internode_encryption", "dc"),
            (InternodeEncryption::All, _) => ("internode_encryption", "all"),
        };
        let key = match key {
            "legacy_ssl_storage_port_enabled" => "server_encryption_options.legacy_ssl_storage_port_enabled",
            "optional" => "server_encryption_options.optional",
            _ => "server_encryption_options.internode_encryption",
        };
        if self.key_files().is_none() {
            let expected = "keystore, or certificate and keyfile, beside it: PEM files";
            return Err((key, expected, got.into()));
        }
        if self.truststore.is_none() {
            // Without it a node would speak with any node that answers.
            let expected = "truststore beside it: a PEM file with the authorities of nodes";
            return Err((key, expected, got.into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(options: &str) -> Result<InternodeRules, String> {
        let mut config = Config::standard(PathBuf::from("/data"));
        let text = format!("server_encryption_options: {{{options}}}\n");
        config.read("c.yaml", &text).map_err(|error| error.to_string())?;
        config.finish().map_err(|error| error.to_string())?;
        Ok(config.internode)
    }

    const KEYS: &str = "keystore: k.pem, truststore: t.pem";

    #[test]
    fn who_is_encrypted_to_and_what_the_port_takes() {
        let here = Place { dc: "dc1", rack: "r1" };
        let others = [here, Place { dc: "dc1", rack: "r2" }, Place { dc: "dc2", rack: "r1" }];
        for (options, port, encrypted) in [
            ("internode_encryption: none", Encryption::None, [false; 3]),
            ("internode_encryption: none, optional: true", Encryption::Optional, [false; 3]),
            ("internode_encryption: rack", Encryption::Optional, [false, true, true]),
            ("internode_encryption: dc", Encryption::Optional, [false, false, true]),
            ("internode_encryption: all", Encryption::Required, [true; 3]),
            ("internode_encryption: all, optional: true", Encryption::Optional, [true; 3]),
        ] {
            let rules = read(&format!("{options}, {KEYS}")).expect(options);
            assert_eq!(rules.port_encryption(), port, "{options}");
            assert_eq!(others.map(|other| rules.encrypts(here, other)), encrypted, "{options}");
            assert_eq!(rules.tls().is_some(), port != Encryption::None, "{options}");
            assert_eq!(rules.ssl_port(), None);
        }
    }

    #[test]
    fn both_spellings_name_the_keys() {
        let rules = read(&format!(
            "internode_encryption: all, require_client_auth: true, outbound_keystore: o.pem, {KEYS}"
        ));
        let (server, client) = rules.expect("it fits").tls().expect("keys");
        assert_eq!((server.certificate, server.client_auth), ("k.pem".into(), ClientAuth::Required));
        assert_eq!(client.certificate, Some(("o.pem".into(), "o.pem".into())));
        assert_eq!((server.trust, client.trust), (Some("t.pem".into()), Some("t.pem".into())));
        let rules = read("internode_encryption: dc, certificate: c.crt, keyfile: c.key, truststore: t.pem");
        let (server, client) = rules.expect("it fits").tls().expect("keys");
        assert_eq!((server.certificate, server.key), ("c.crt".into(), "c.key".into()));
        assert_eq!(
            (client.certificate, server.client_auth),
            (Some(("c.crt".into(), "c.key".into())), ClientAuth::None)
        );
        let rules = read(&format!("legacy_ssl_storage_port_enabled: true, {KEYS}")).expect("it fits");
        assert_eq!((rules.ssl_port(), rules.port_encryption()), (Some(7001), Encryption::None));
        assert!(rules.tls().is_some());
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (options, named) in [
            ("internode_encryption: all, keystore: ''", "keystore"),
            ("internode_encryption: rack, keystore: '', certificate: c", "keyfile"),
            ("internode_encryption: dc, truststore: ''", "truststore"),
            ("optional: true, keystore: ''", "server_encryption_options.optional"),
            ("legacy_ssl_storage_port_enabled: true, keystore: ''", "legacy_ssl_storage_port_enabled"),
            ("require_endpoint_verification: true", "require_endpoint_verification"),
            ("internode_encryption: some", "internode_encryption"),
        ] {
            let refused = read(options).expect_err(options);
            assert!(refused.contains(named), "{refused} does not name {named}");
        }
    }
}
