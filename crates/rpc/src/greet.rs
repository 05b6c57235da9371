//! From a socket to a connection: encryption if wanted, both hellos, both verdicts.
//!
//! Nothing is received beyond the last verdict, so that the socket may go to another shard. Handshakes of TLS are computed on helper threads.

use crate::error::Malformed;
use crate::hello::{Cut, Greeting, Hello, Refusal, Verdict, decode_verdict, encode_verdict, split_greeting};
use crate::limits::{CONNECT_TIMEOUT, GREETING_RECV_BYTES, HELLO_BYTES_MAX};
use crate::verbs::Origin;
use runtime::net::{TcpStream, Transfer};
use runtime::sync::Semaphore;
use std::io;
use std::net::SocketAddr;
use tls::{Encryption, Session};

/// The first byte of a TLS connection: a handshake record. No hello begins this way.
const HANDSHAKE_RECORD: u8 = 22;

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failed {
    /// This side refuses the other.
    RefusedHere(Refusal),
    /// The other side refuses this one.
    RefusedThere(Refusal),
    /// Nothing listens, or the connection ended.
    Broken(String),
    /// The two do not understand or trust each other: encryption, certificates, bytes that are no greeting. An operator must act.
    Foreign(String),
    /// It takes too long.
    Slow,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::RefusedHere(refusal) => write!(f, "refused: {refusal}"),
            Failed::RefusedThere(refusal) => write!(f, "it refuses this node: {refusal}"),
            Failed::Broken(text) | Failed::Foreign(text) => f.write_str(text),
            Failed::Slow => f.write_str("no answer in time"),
        }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        if error.kind() == io::ErrorKind::TimedOut { Failed::Slow } else { Failed::Broken(error.to_string()) }
    }
}

impl From<Malformed> for Failed {
    fn from(error: Malformed) -> Failed {
        Failed::Foreign(error.to_string())
    }
}

impl From<tls::Error> for Failed {
    fn from(error: tls::Error) -> Failed {
        Failed::Foreign(format!("no encryption: {error}"))
    }
}

/// No connection: the other side's hello if it came, and why.
pub(crate) type Unmet = (Option<Box<Hello>>, Failed);

/// A connection after both verdicts.
pub(crate) struct Met {
    pub(crate) wire: Wire,
    pub(crate) theirs: Hello,
    pub(crate) protocol: u16,
}

impl Met {
    fn origin(&self) -> Origin {
        Origin {
            host: self.theirs.node.host,
            shard: self.theirs.from_shard,
            features: self.theirs.node.features,
            protocol: self.protocol,
            class: self.theirs.class,
        }
    }

    /// For a connection of this shard.
    pub(crate) fn into_link(self) -> crate::conn::Link {
        let origin = self.origin();
        let Wire { stream, session, plain } = self.wire;
        crate::conn::Link { stream, session, plain, origin }
    }

    /// For a connection of another shard.
    pub(crate) fn into_handed(self) -> Result<Handed, Failed> {
        let origin = self.origin();
        let Wire { stream, session, plain } = self.wire;
        Ok(Handed { transfer: stream.into_transfer()?, session, plain, origin })
    }
}

/// A connection on its way to the shard that will use it.
pub(crate) struct Handed {
    pub(crate) transfer: Transfer,
    session: Option<Box<Session>>,
    plain: Vec<u8>,
    origin: Origin,
}

impl Handed {
    /// On the shard that will use it.
    pub(crate) fn into_link(self) -> crate::conn::Link {
        let Handed { transfer, session, plain, origin } = self;
        crate::conn::Link { stream: TcpStream::from_transfer(transfer), session, plain, origin }
    }
}

/// A socket during its greeting.
pub(crate) struct Wire {
    stream: TcpStream,
    session: Option<Box<Session>>,
    /// Received, decrypted and not used.
    plain: Vec<u8>,
}

/// One step of a handshake.
struct Step {
    session: Box<Session>,
    plain: Vec<u8>,
    wire: Vec<u8>,
    outcome: Result<bool, tls::Error>,
}

fn step(mut session: Box<Session>, bytes: &[u8]) -> Step {
    let (mut plain, mut wire) = (Vec::new(), Vec::new());
    let received = session.receive(bytes, |piece| plain.extend_from_slice(piece));
    let sent = session.output(&mut wire);
    Step { session, plain, wire, outcome: sent.and(received).map(|received| received.closed) }
}

fn ended() -> Failed {
    Failed::Broken("the connection was closed before its greeting had ended".into())
}

impl Wire {
    /// Makes a connection.
    pub(crate) async fn connect(
        address: SocketAddr,
        connector: Option<&tls::Connector>,
        handshakes: &Semaphore,
    ) -> Result<Wire, Failed> {
        let connecting = TcpStream::connect(address, None);
        let stream = runtime::timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| Failed::Slow)??;
        let mut wire = Wire { stream, session: None, plain: Vec::new() };
        if let Some(connector) = connector {
            let session = Box::new(connector.session(address.ip())?);
            wire.shake(session, Vec::new(), handshakes).await?;
        }
        Ok(wire)
    }

    /// Takes a connection.
    pub(crate) async fn accept(
        stream: TcpStream,
        encryption: Encryption,
        acceptor: Option<&tls::Acceptor>,
        handshakes: &Semaphore,
    ) -> Result<Wire, Failed> {
        let mut wire = Wire { stream, session: None, plain: Vec::new() };
        if encryption == Encryption::None {
            return Ok(wire);
        }
        let first = wire.stream.recv_at_most(1).await?;
        let is_encrypted = first.first() == Some(&HANDSHAKE_RECORD);
        match (is_encrypted, acceptor) {
            (false, _) if encryption == Encryption::Optional => wire.plain = first,
            (false, _) => return Err(Failed::Foreign("it does not encrypt, which is required".into())),
            (true, None) => return Err(Failed::Foreign("it encrypts, but there are no keys here".into())),
            (true, Some(acceptor)) => {
                let session = Box::new(acceptor.session()?);
                wire.shake(session, first, handshakes).await?;
            }
        }
        Ok(wire)
    }

    async fn shake(
        &mut self,
        mut session: Box<Session>,
        mut bytes: Vec<u8>,
        handshakes: &Semaphore,
    ) -> Result<(), Failed> {
        loop {
            let permit = handshakes.acquire(1).await;
            let done = runtime::compute(move || step(session, &bytes)).await;
            drop(permit);
            session = done.session;
            self.plain.extend_from_slice(&done.plain);
            if !done.wire.is_empty() {
                self.stream.send_all(done.wire).await?;
            }
            if done.outcome? {
                return Err(ended());
            }
            if !session.is_handshaking() {
                self.session = Some(session);
                return Ok(());
            }
            bytes = self.receive(GREETING_RECV_BYTES).await?;
        }
    }

    async fn receive(&self, max: usize) -> Result<Vec<u8>, Failed> {
        let bytes = self.stream.recv_at_most(max).await?;
        if bytes.is_empty() { Err(ended()) } else { Ok(bytes) }
    }

    /// The payload of the next message, and nothing behind it.
    async fn read(&mut self, kind: Greeting) -> Result<Vec<u8>, Failed> {
        loop {
            let more = match split_greeting(kind, &self.plain)? {
                Cut::Whole(payload, size) => {
                    let payload = payload.to_vec();
                    self.plain.drain(..size);
                    return Ok(payload);
                }
                Cut::Short(more) => more,
            };
            match &mut self.session {
                None => {
                    let bytes = self.receive(more).await?;
                    self.plain.extend_from_slice(&bytes);
                }
                Some(session) => {
                    // Records are taken whole; what lies behind the message stays in `plain`.
                    let bytes = self.stream.recv_at_most(GREETING_RECV_BYTES).await?;
                    let plain = &mut self.plain;
                    let received = session.receive(&bytes, |piece| plain.extend_from_slice(piece))?;
                    if received.closed || bytes.is_empty() {
                        return Err(ended());
                    }
                    if HELLO_BYTES_MAX * 2 + GREETING_RECV_BYTES < self.plain.len() {
                        return Err(Failed::Foreign("too much before the greeting has ended".into()));
                    }
                }
            }
        }
    }

    async fn send(&mut self, plain: Vec<u8>) -> Result<(), Failed> {
        let wire = match &mut self.session {
            None => plain,
            Some(session) => {
                let mut wire = Vec::new();
                session.send(&plain, &mut wire)?;
                wire
            }
        };
        self.stream.send_all(wire).await?;
        Ok(())
    }

    async fn read_hello(&mut self) -> Result<Hello, Failed> {
        let payload = self.read(Greeting::Hello).await?;
        Ok(Hello::decode(&payload)?)
    }

    async fn read_verdict(&mut self) -> Result<(), Failed> {
        let payload = self.read(Greeting::Verdict).await?;
        decode_verdict(&payload)?.map_err(Failed::RefusedThere)
    }

    async fn send_verdict(&mut self, verdict: &Verdict) -> Result<(), Failed> {
        let mut bytes = Vec::new();
        encode_verdict(verdict, &mut bytes);
        self.send(bytes).await
    }

    /// The dialing side.
    pub(crate) async fn greet(
        mut self,
        ours: &Hello,
        check: impl FnOnce(&Hello) -> Verdict,
    ) -> Result<Met, Unmet> {
        let mut bytes = Vec::new();
        ours.encode(&mut bytes);
        self.send(bytes).await.map_err(|failed| (None, failed))?;
        let theirs = self.read_hello().await.map_err(|failed| (None, failed))?;
        match self.judge_hello(&theirs, check).await {
            Ok(protocol) => Ok(Met { wire: self, theirs, protocol }),
            Err(failed) => Err((Some(Box::new(theirs)), failed)),
        }
    }

    async fn judge_hello(
        &mut self,
        theirs: &Hello,
        check: impl FnOnce(&Hello) -> Verdict,
    ) -> Result<u16, Failed> {
        self.read_verdict().await?;
        let verdict = theirs.agree().and_then(|protocol| check(theirs).map(|()| protocol));
        self.send_verdict(&verdict.clone().map(|_| ())).await?;
        verdict.map_err(Failed::RefusedHere)
    }

    /// The accepting side. `answer` gives the own hello and judges the other.
    pub(crate) async fn be_greeted(
        mut self,
        answer: impl FnOnce(&Hello) -> (Hello, Verdict),
    ) -> Result<Met, Unmet> {
        let theirs = self.read_hello().await.map_err(|failed| (None, failed))?;
        match self.answer_hello(&theirs, answer).await {
            Ok(protocol) => Ok(Met { wire: self, theirs, protocol }),
            Err(failed) => Err((Some(Box::new(theirs)), failed)),
        }
    }

    async fn answer_hello(
        &mut self,
        theirs: &Hello,
        answer: impl FnOnce(&Hello) -> (Hello, Verdict),
    ) -> Result<u16, Failed> {
        let (ours, judged) = answer(theirs);
        let verdict = theirs.agree().and_then(|protocol| judged.map(|()| protocol));
        let mut bytes = Vec::new();
        ours.encode(&mut bytes);
        encode_verdict(&verdict.clone().map(|_| ()), &mut bytes);
        self.send(bytes).await?;
        let protocol = verdict.map_err(Failed::RefusedHere)?;
        self.read_verdict().await?;
        Ok(protocol)
    }
}
