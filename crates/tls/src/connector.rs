//! Sessions of a client: whom it believes, who it says it is.

use crate::acceptor::roots;
use crate::clock::Clock;
use crate::error::Error;
use crate::pem::PemFile;
use crate::provider::provider;
use crate::session::Session;
use crate::settings::ClientSettings;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::net::IpAddr;
use std::sync::Arc;

/// Makes sessions; cheap to clone.
#[derive(Debug, Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    clock: Arc<Clock>,
}

impl Connector {
    /// Reads the files.
    pub async fn load(settings: &ClientSettings) -> Result<Connector, Error> {
        Connector::new(settings, &Files::read(settings).await?)
    }

    fn new(settings: &ClientSettings, files: &Files) -> Result<Connector, Error> {
        let clock = Clock::new();
        let provider = provider();
        let inner = match &files.trust {
            None => None,
            Some(trust) => {
                let roots = Arc::new(roots(trust)?);
                let built = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
                Some(built.map_err(|error| Error::Settings(error.to_string()))?)
            }
        };
        let verifier = Arc::new(Verifier { inner, provider: provider.clone() });
        let builder = ClientConfig::builder_with_details(provider, clock.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Settings(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match (&files.certificate, &settings.certificate) {
            (Some((chain, key)), Some((certificate, _))) => {
                let made = builder.with_client_auth_cert(chain.certificates()?, key.key()?);
                made.map_err(|error| Error::Settings(format!("{}: {error}", certificate.display())))?
            }
            _ => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(Connector { config: Arc::new(config), clock })
    }

    /// A session with the server at an address.
    pub fn session(&self, server: IpAddr) -> Result<Session, Error> {
        self.clock.set();
        let name = ServerName::IpAddress(server.into());
        Ok(Session::new(ClientConnection::new(self.config.clone(), name)?.into()))
    }
}

/// The files a connector was made of.
#[derive(PartialEq, Eq)]
struct Files {
    trust: Option<PemFile>,
    certificate: Option<(PemFile, PemFile)>,
}

impl Files {
    async fn read(settings: &ClientSettings) -> Result<Files, Error> {
        let trust = match &settings.trust {
            Some(path) => Some(PemFile::read(path).await?),
            None => None,
        };
        let certificate = match &settings.certificate {
            Some((certificate, key)) => Some((PemFile::read(certificate).await?, PemFile::read(key).await?)),
            None => None,
        };
        Ok(Files { trust, certificate })
    }
}

/// Looks whether the files of a connector have changed.
pub struct ConnectorWatch {
    settings: ClientSettings,
    /// What the newest connector was made of.
    used: Files,
    /// What was read last and could not be used: that is reported once.
    refused: Option<Result<Files, Error>>,
}

impl ConnectorWatch {
    /// Reads the files for the first time.
    pub async fn start(settings: ClientSettings) -> Result<(Connector, ConnectorWatch), Error> {
        let used = Files::read(&settings).await?;
        let connector = Connector::new(&settings, &used)?;
        Ok((connector, ConnectorWatch { settings, used, refused: None }))
    }

    /// Reads the files again; `None` when they are as they were. After an error what was made before stays good.
    pub async fn look(&mut self) -> Option<Result<Connector, Error>> {
        let read = Files::read(&self.settings).await;
        if read.as_ref() == Ok(&self.used) {
            self.refused = None;
            return None;
        }
        if self.refused.as_ref() == Some(&read) {
            return None;
        }
        let made =
            read.as_ref().map_err(Error::clone).and_then(|files| Connector::new(&self.settings, files));
        match (&made, read) {
            (Ok(_), Ok(files)) => (self.used, self.refused) = (files, None),
            (_, read) => self.refused = Some(read),
        }
        Some(made)
    }
}

/// Believes whoever an authority has signed, or everybody; never looks at names.
#[derive(Debug)]
struct Verifier {
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(certificate, between, name, ocsp, now) {
            // The name is looked at last: everything else is right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
