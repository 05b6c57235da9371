//! A connection by hand, plain or TLS: whichever its address was registered for, so that every raw test runs over both.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Addresses that speak TLS, and whom their certificates must come from.
static ENCRYPTED: OnceLock<Mutex<HashMap<SocketAddr, Arc<ClientConfig>>>> = OnceLock::new();

/// From now on, connections to this address are encrypted, and its certificate is checked.
pub fn encrypt(address: SocketAddr, authority: &Path) -> Result<(), String> {
    let told = |error: String| format!("{}: {error}", authority.display());
    let pem = std::fs::read(authority).map_err(|error| told(error.to_string()))?;
    let certificate = CertificateDer::from_pem_slice(&pem).map_err(|error| told(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).map_err(|error| told(error.to_string()))?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let all = ENCRYPTED.get_or_init(Mutex::default);
    all.lock().map_err(|error| error.to_string())?.insert(address, Arc::new(config));
    Ok(())
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
