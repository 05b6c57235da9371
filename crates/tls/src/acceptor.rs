//! Sessions of a server: its certificate, whom it trusts, what it agrees to.

use crate::clock::Clock;
use crate::error::Error;
use crate::pem::PemFile;
use crate::provider::provider;
use crate::session::{Session, protocol_name, suite_name};
use crate::settings::{ClientAuth, ServerSettings};
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::sync::Arc;

/// Makes sessions; cheap to clone, may go to any shard.
#[derive(Debug, Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
    clock: Arc<Clock>,
}

impl Acceptor {
    /// A session with a client that has just connected.
    pub fn session(&self) -> Result<Session, Error> {
        self.clock.set();
        Ok(Session::new(ServerConnection::new(self.config.clone())?.into()))
    }

    fn new(settings: &ServerSettings, files: &Files) -> Result<Acceptor, Error> {
        let clock = Clock::new();
        let mut provider = CryptoProvider::clone(&provider());
        allow_suites(&mut provider, &settings.cipher_suites)?;
        let provider = Arc::new(provider);
        let wrong =
            |error: rustls::Error| Error::Settings(format!("{}: {error}", settings.certificate.display()));
        let mut config = ServerConfig::builder_with_details(provider.clone(), clock.clone())
            .with_protocol_versions(&allowed_versions(&settings.protocols)?)
            .map_err(|error| Error::Settings(error.to_string()))?
            .with_client_cert_verifier(verifier(settings, files, provider)?)
            .with_single_cert(files.certificate.certificates()?, files.key.key()?)
            .map_err(wrong)?;
        // Nothing is resumed: sessions live long, and a renewed certificate counts for everybody who comes after it.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Acceptor { config: Arc::new(config), clock })
    }
}

/// The files an acceptor was made of.
#[derive(PartialEq, Eq)]
struct Files {
    certificate: PemFile,
    key: PemFile,
    trust: Option<PemFile>,
}

impl Files {
    async fn read(settings: &ServerSettings) -> Result<Files, Error> {
        let trust = match &settings.trust {
            Some(path) if settings.client_auth != ClientAuth::None => Some(PemFile::read(path).await?),
            _ => None,
        };
        let certificate = PemFile::read(&settings.certificate).await?;
        Ok(Files { certificate, key: PemFile::read(&settings.key).await?, trust })
    }
}

/// Looks whether the files have changed.
pub struct Watch {
    settings: ServerSettings,
    /// What the newest acceptor was made of.
    used: Files,
    /// What was read last and could not be used: that is told once.
    refused: Option<Result<Files, Error>>,
}

impl Watch {
    /// Reads the files for the first time.
    pub async fn start(settings: ServerSettings) -> Result<(Acceptor, Watch), Error> {
        let files = Files::read(&settings).await?;
        let acceptor = Acceptor::new(&settings, &files)?;
        Ok((acceptor, Watch { settings, used: files, refused: None }))
    }

    /// Reads the files again; `None` when they are as they were. After an error what was made before stays good.
    pub async fn look(&mut self) -> Option<Result<Acceptor, Error>> {
        let read = Files::read(&self.settings).await;
        if read.as_ref() == Ok(&self.used) {
            self.refused = None;
            return None;
        }
        if self.refused.as_ref() == Some(&read) {
            return None;
        }
        let made = read.as_ref().map_err(Error::clone).and_then(|files| Acceptor::new(&self.settings, files));
        match (&made, read) {
            (Ok(_), Ok(files)) => (self.used, self.refused) = (files, None),
            (_, read) => self.refused = Some(read),
        }
        Some(made)
    }
}

fn verifier(
    settings: &ServerSettings,
    files: &Files,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    if settings.client_auth == ClientAuth::None {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let Some(trust) = &files.trust else {
        return Err(Error::Settings(
            "clients are asked for certificates, but no truststore says who may sign them".into(),
        ));
    };
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(trust)?), provider);
    let builder = match settings.client_auth {
        ClientAuth::Optional => builder.allow_unauthenticated(),
        ClientAuth::None | ClientAuth::Required => builder,
    };
    builder.build().map_err(|error| Error::Settings(error.to_string()))
}

/// The authorities of a file.
pub(crate) fn roots(trust: &PemFile) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in trust.certificates()? {
        roots.add(certificate).map_err(|error| Error::Settings(format!("truststore: {error}")))?;
    }
    Ok(roots)
}

fn allowed_versions(names: &[String]) -> Result<Vec<&'static SupportedProtocolVersion>, Error> {
    let all = rustls::ALL_VERSIONS;
    let allows = |version: &SupportedProtocolVersion| {
        let name = protocol_name(version.version);
        // `TLS` is what Java calls "any".
        names.is_empty() || names.iter().any(|n| n.eq_ignore_ascii_case("TLS") || Some(n.as_str()) == name)
    };
    let allowed: Vec<_> = all.iter().copied().filter(|version| allows(version)).collect();
    if allowed.is_empty() {
        let names = names.join(", ");
        return Err(Error::Settings(format!(
            "none of the protocols {names} is spoken, only TLSv1.2 and TLSv1.3"
        )));
    }
    Ok(allowed)
}

/// Keeps the suites named, in the server's order of preference; names unknown here are those of suites that are broken or rare.
fn allow_suites(provider: &mut CryptoProvider, names: &[String]) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let known: Vec<String> = provider.cipher_suites.iter().map(|suite| suite_name(*suite)).collect();
    provider.cipher_suites.retain(|suite| names.contains(&suite_name(*suite)));
    if provider.cipher_suites.is_empty() {
        let known = known.join(", ");
        return Err(Error::Settings(format!("none of the cipher suites is known here, only {known}")));
    }
    Ok(())
}
