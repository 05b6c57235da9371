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
        let clock = Clock::new();
        let provider = provider();
        let inner = match &settings.trust {
            None => None,
            Some(path) => {
                let roots = Arc::new(roots(&PemFile::read(path).await?)?);
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
        let mut config = match &settings.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = PemFile::read(certificate).await?.certificates()?;
                let key = PemFile::read(key).await?.key()?;
                let made = builder.with_client_auth_cert(chain, key);
                made.map_err(|error| Error::Settings(format!("{}: {error}", certificate.display())))?
            }
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
