//! The bytes of one connection: as they are, or through a TLS session.

use crate::error::Error;
use protocol::assembler::Assembler;
use runtime::net::TcpStream;
use std::cell::RefCell;
use std::io;
use tls::{Connector, Session};

/// A connected socket.
pub(crate) struct Wire {
    stream: TcpStream,
    session: Option<RefCell<Box<Session>>>,
}

fn broken(error: tls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Wire {
    /// Plain bytes.
    pub(crate) fn plain(stream: TcpStream) -> Wire {
        Wire { stream, session: None }
    }

    /// Agrees on keys first.
    pub(crate) async fn encrypted(stream: TcpStream, connector: &Connector) -> Result<Wire, Error> {
        let closed = |error: io::Error| Error::Closed(format!("in the TLS handshake: {error}"));
        let peer = stream.peer_addr().map_err(closed)?;
        let mut session = Box::new(connector.session(peer.ip())?);
        loop {
            let mut wire = Vec::new();
            session.output(&mut wire)?;
            if !wire.is_empty() {
                stream.send_all(wire).await.map_err(closed)?;
            }
            if !session.is_handshaking() {
                return Ok(Wire { stream, session: Some(RefCell::new(session)) });
            }
            let bytes = stream.recv().await.map_err(closed)?;
            if bytes.is_empty() {
                return Err(Error::Closed("by the server, in the TLS handshake".into()));
            }
            let mut spoken = false;
            let received = session.receive(&bytes, |_| spoken = true);
            drop(bytes);
            if let Err(error) = received {
                // The server is told why, if it still listens.
                let mut alert = Vec::new();
                if session.output(&mut alert).is_ok() {
                    let _unheard = stream.try_send(&alert);
                }
                return Err(error.into());
            }
            if spoken {
                return Err(Error::Unexpected("nothing: the server speaks first"));
            }
        }
    }

    /// Sends all bytes and gives the buffer back.
    pub(crate) async fn send_all(&self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let Some(session) = &self.session else { return self.stream.send_all(bytes).await };
        let mut wire = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 64);
        session.borrow_mut().send(&bytes, &mut wire).map_err(broken)?;
        self.stream.send_all(wire).await?;
        Ok(bytes)
    }

    /// Gives the assembler what comes next; false when the other side has ended.
    pub(crate) async fn receive(&self, assembler: &mut Assembler) -> io::Result<bool> {
        let bytes = self.stream.recv().await?;
        let Some(session) = &self.session else {
            assembler.push(&bytes);
            return Ok(!bytes.is_empty());
        };
        if bytes.is_empty() {
            return Ok(false);
        }
        let received = session.borrow_mut().receive(&bytes, |plain| assembler.push(plain));
        Ok(!received.map_err(broken)?.closed)
    }

    /// Ends both directions.
    pub(crate) fn shutdown(&self) {
        let mut wire = Vec::new();
        if let Some(session) = &self.session
            && session.borrow_mut().goodbye(&mut wire).is_ok()
        {
            // The server may have gone already.
            let _unheard = self.stream.try_send(&wire);
        }
        self.stream.shutdown();
    }
}
