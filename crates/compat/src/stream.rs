//! A connection by hand, plain or TLS: whichever its address was registered for, so that every raw test runs over both.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Addresses that speak TLS, and whom their certificates must come from.
static ENCRYPTED: OnceLock<Mutex<HashMap<SocketAddr, Arc<ClientConfig>>>> = OnceLock::new();

/// From now on, connections to this address are encrypted, and its certificate is checked.
pub fn encrypt(address: SocketAddr, authority: &Path) -> Result<(), String> {
    encrypt_as(address, authority, None)
}

/// The same, and whoever connects shows the certificate in this file, which holds its key, too.
pub fn encrypt_as(address: SocketAddr, authority: &Path, client: Option<&Path>) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", authority.display()))?;
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let told = |error: String| format!("{}: {error}", file.display());
            let key = PrivateKeyDer::from_pem_file(file).map_err(|error| told(error.to_string()))?;
            builder
                .with_client_auth_cert(certificates(file)?, key)
                .map_err(|error| told(error.to_string()))?
        }
    };
    let all = ENCRYPTED.get_or_init(Mutex::default);
    all.lock().map_err(|error| error.to_string())?.insert(address, Arc::new(config));
    Ok(())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let told = |error: rustls::pki_types::pem::Error| format!("{}: {error}", file.display());
    CertificateDer::pem_file_iter(file).map_err(told)?.collect::<Result<_, _>>().map_err(told)
}

/// A connected socket, plain or encrypted.
pub enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Over TLS; the handshake happens with the first byte.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects; reads and writes give up after `patience`.
    pub fn connect(address: SocketAddr, patience: Duration) -> Result<Stream, String> {
        let told = |error: std::io::Error| format!("connect: {error}");
        let socket = TcpStream::connect_timeout(&address, patience).map_err(told)?;
        socket.set_read_timeout(Some(patience)).map_err(told)?;
        socket.set_write_timeout(Some(patience)).map_err(told)?;
        socket.set_nodelay(true).map_err(told)?;
        let config = ENCRYPTED.get().and_then(|all| all.lock().ok()?.get(&address).cloned());
        let Some(config) = config else { return Ok(Stream::Plain(socket)) };
        let client = ClientConnection::new(config, ServerName::from(address.ip()))
            .map_err(|error| format!("TLS: {error}"))?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(client, socket))))
    }

    /// The socket below.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.get_ref(),
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) {
        if let Stream::Tls(stream) = self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
