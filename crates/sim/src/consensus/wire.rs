//! Frames between the members and clients of a simulated group: one question at a time per connection.
//!
//! ```text
//! question = u32 length of the rest, u8 verb, 16 bytes host asked, u8 kind, body
//! answer   = u32 length of the rest, u8 status, body
//! ```
//! A connection whose question was cut short (deadline, dropped future) is closed, never reused.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::HostId;
use raft::{BoxFuture, SendError, Transport};
use runtime::net::TcpStream;

use crate::limits::{CONNECT_PATIENCE, FRAME_BYTES};

const PORT: u16 = 7000;
/// Machines fit this many bits of a host's id; the rest says how often the machine was wiped.
const MACHINE_BITS: u32 = 8;

/// The host that lives on a machine after it was wiped that often.
pub(super) fn host(machine: u64, wiped: u64) -> HostId {
    HostId(u128::from(wiped << MACHINE_BITS | machine))
}

/// Where a host lives.
pub(super) fn machine(host: HostId) -> u64 {
    host.0 as u64 & ((1 << MACHINE_BITS) - 1)
}

/// Where a machine listens.
pub(super) fn address(machine: u64) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, 0, machine as u8]), PORT)
}

/// A connection that carries frames.
pub(super) struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Wire {
        Wire { stream, received: Vec::new() }
    }

    pub(super) async fn connect(to: SocketAddr) -> io::Result<Wire> {
        match runtime::timeout(CONNECT_PATIENCE, TcpStream::connect(to, None)).await {
            Ok(stream) => Ok(Wire::new(stream?)),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    pub(super) async fn send(&mut self, tag: u8, body: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(5 + body.len());
        frame.extend((1 + body.len() as u32).to_be_bytes());
        frame.push(tag);
        frame.extend(body);
        self.stream.send_all(frame).await.map(|_| ())
    }

    /// The next frame: its tag and body. `UnexpectedEof` at the end of the stream.
    pub(super) async fn recv(&mut self) -> io::Result<(u8, Vec<u8>)> {
        loop {
            if let Some(header) = self.received.get(..4) {
                let len = u32::from_be_bytes(header.try_into().expect("four bytes")) as usize;
                if len == 0 || FRAME_BYTES < len {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, format!("frame of {len} bytes")));
                }
                if 4 + len <= self.received.len() {
                    let frame: Vec<u8> = self.received.drain(..4 + len).collect();
                    return Ok((frame[4], frame[5..].to_vec()));
                }
            }
            let bytes = self.stream.recv().await?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&bytes);
        }
    }

    pub(super) async fn ask(&mut self, tag: u8, body: &[u8]) -> io::Result<(u8, Vec<u8>)> {
        self.send(tag, body).await?;
        self.recv().await
    }
}

/// The tag of a message between members; clients use others.
pub(super) const MEMBER: u8 = 0;

/// The way from one member to the others: idle connections, one question at a time on each.
#[derive(Default)]
pub(super) struct Tcp {
    idle: RefCell<BTreeMap<HostId, Vec<Wire>>>,
}

impl Transport for Tcp {
    fn send(
        &self,
        to: HostId,
        kind: u8,
        body: Vec<u8>,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<Vec<u8>, SendError>> {
        Box::pin(async move {
            let mut message = to.to_bytes().to_vec();
            message.push(kind);
            message.extend(body);
            let sent = std::cell::Cell::new(false);
            let asking = async {
                let known = self.idle.borrow_mut().get_mut(&to).and_then(Vec::pop);
                let mut wire = match known {
                    Some(wire) => wire,
                    None => Wire::connect(address(machine(to))).await?,
                };
                sent.set(true);
                let (status, answer) = wire.ask(MEMBER, &message).await?;
                self.idle.borrow_mut().entry(to).or_default().push(wire);
                Ok::<_, io::Error>((status, answer))
            };
            let text = match runtime::timeout(timeout, asking).await {
                Ok(Ok((0, answer))) => return Ok(answer),
                Ok(Ok((_, _))) => return Err(SendError::NotSent("another host lives there".to_string())),
                Ok(Err(error)) => error.to_string(),
                Err(late) => late.to_string(),
            };
            Err(if sent.get() { SendError::NoAnswer(text) } else { SendError::NotSent(text) })
        })
    }
}
