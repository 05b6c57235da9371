//! Keys and certificates in PEM files. Java's keystores are recognised and refused with the commands that convert them.

use crate::error::Error;
use crate::limits::FILE_BYTES_MAX;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};

/// A file's bytes and name.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PemFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl PemFile {
    pub(crate) async fn read(path: &Path) -> Result<PemFile, Error> {
        let told = |error: std::io::Error| Error::File {
            path: path.to_path_buf(),
            reason: runtime::file::reason(&error, path),
        };
        let file = runtime::file::File::open(path, runtime::file::OpenOptions::READ).await.map_err(told)?;
        let size = file.size().await.map_err(told)?;
        if FILE_BYTES_MAX < size {
            let reason = format!("{size} bytes are more than keys and certificates have");
            return Err(Error::File { path: path.to_path_buf(), reason });
        }
        let bytes = file.read_exact_at(0, size as usize).await.map_err(told)?;
        let file = PemFile { path: path.to_path_buf(), bytes };
        file.check_form()?;
        Ok(file)
    }

    fn wrong(&self, reason: impl Into<String>) -> Error {
        Error::File { path: self.path.clone(), reason: reason.into() }
    }

    fn check_form(&self) -> Result<(), Error> {
        let name = self.path.display();
        match self.bytes.as_slice() {
            [0xFE, 0xED, 0xFE, 0xED, ..] | [0xCE, 0xCE, 0xCE, 0xCE, ..] => Err(self.wrong(format!(
                "a Java keystore; keys and certificates are read as PEM. Convert it with `keytool -importkeystore \
                 -srckeystore {name} -destkeystore store.p12 -deststoretype PKCS12`, then `openssl pkcs12 -in \
                 store.p12 -nodes -out store.pem`, and name store.pem instead"
            ))),
            [0x30, 0x80..=0x84, ..] => Err(self.wrong(format!(
                "a PKCS12 keystore or another binary form; keys and certificates are read as PEM. Convert it with \
                 `openssl pkcs12 -in {name} -nodes -out store.pem`, and name store.pem instead"
            ))),
            _ => Ok(()),
        }
    }

    /// The certificates in it, at least one.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        let certificates = certificates.map_err(|e| self.wrong(format!("not PEM: {e}")))?;
        if certificates.is_empty() {
            return Err(self.wrong("there is no certificate in it (no `-----BEGIN CERTIFICATE-----`)"));
        }
        Ok(certificates)
    }

    /// The private key in it.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, Error> {
        let encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
        if self.bytes.windows(encrypted.len()).any(|window| window == encrypted) {
            let name = self.path.display();
            return Err(self.wrong(format!(
                "its private key is encrypted, which is not read. Decrypt it with `openssl pkey -in {name} -out \
                 key.pem`, keep key.pem readable for the node alone, and name it instead"
            )));
        }
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|e| match e {
            rustls_pki_types::pem::Error::NoItemsFound => {
                self.wrong("there is no private key in it (no `-----BEGIN PRIVATE KEY-----`)")
            }
            other => self.wrong(format!("not PEM: {other}")),
        })
    }
}
