//! A connection that reads whatever comes: answers and events, several in one segment or one in several.

use std::net::SocketAddr;

use super::result::{Executed, Prepared};
use crate::bad_input::Raw;
use crate::wire::{self, EVENT, Response};

/// A connection after STARTUP.
pub struct Talk {
    raw: Raw,
    version: u8,
    /// Bytes of envelopes that came and were not looked at.
    held: Vec<u8>,
    stream: i16,
}

/// What came.
pub struct Envelope {
    /// Its flags.
    pub flags: u8,
    /// The rest of it.
    pub response: Response,
}

impl Talk {
    /// Connects and says STARTUP.
    pub fn open(address: SocketAddr, version: u8) -> Result<Talk, String> {
        Ok(Talk { raw: Raw::started(address, version)?, version, held: Vec::new(), stream: 0 })
    }

    /// Sends a request; returns its stream.
    pub fn send(&mut self, opcode: u8, flags: u8, body: &[u8]) -> i16 {
        self.stream = (self.stream + 1) & i16::MAX;
        let mut envelope = wire::request(self.version, opcode, self.stream, body);
        envelope[1] = flags;
        self.raw.send(&if self.version < 5 { envelope } else { wire::segments(&envelope) });
        self.stream
    }

    /// What comes next; `None` when the server closed the connection instead.
    pub fn next(&mut self) -> Result<Option<Envelope>, String> {
        loop {
            if let Some(envelope) = self.cut()? {
                return Ok(Some(envelope));
            }
            if !self.receive()? {
                return Ok(None);
            }
        }
    }

    /// The answer to a request, with the events that came before it.
    pub fn answer(&mut self, stream: i16) -> Result<(Envelope, Vec<String>), String> {
        let mut events = Vec::new();
        loop {
            let envelope = self.next()?.ok_or("the connection was closed instead of an answer")?;
            match envelope.response.opcode {
                EVENT => events.push(event(&envelope)?),
                _ if envelope.response.stream == stream => return Ok((envelope, events)),
                _ => return Err(format!("the answer to {stream} is {:?}", envelope.response)),
            }
        }
    }

    /// The next event, which must come before anything else.
    pub fn event(&mut self) -> Result<String, String> {
        event(&self.next()?.ok_or("the connection was closed instead of an event")?)
    }

    /// Runs a statement that must succeed; returns the events that came before its answer.
    pub fn run(&mut self, text: &str) -> Result<Vec<String>, String> {
        let stream = self.send(wire::QUERY, 0, &wire::query_body(self.version, text.as_bytes()));
        let (envelope, events) = self.answer(stream)?;
        match envelope.response.error() {
            Some((code, why)) => Err(format!("{text}: {code:#x} {why}")),
            None => Ok(events),
        }
    }

    /// Prepares a statement; the inner error is the server's.
    pub fn prepare(&mut self, text: &str) -> Result<Result<Prepared, (u32, String)>, String> {
        let mut body = (text.len() as u32).to_be_bytes().to_vec();
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(if self.version >= 5 { &[0; 4] } else { &[] });
        let stream = self.send(wire::PREPARE, 0, &body);
        let response = self.answer(stream)?.0.without_warnings()?.response;
        match response.error() {
            Some(error) => Ok(Err(error)),
            None => Prepared::of(&response.body, self.version).map(Ok),
        }
    }

    /// Executes what was prepared, at consistency ONE without values, with or without the wish to hear no columns.
    pub fn execute(&mut self, prepared: &Prepared, skips_columns: bool) -> Result<Executed, String> {
        let mut body = Vec::new();
        wire::string(&mut body, &prepared.id);
        if self.version >= 5 {
            wire::string(&mut body, &prepared.columns_id);
        }
        body.extend_from_slice(&1u16.to_be_bytes());
        body.extend_from_slice(if self.version >= 5 { &[0, 0, 0] } else { &[] });
        body.push(if skips_columns { 2 } else { 0 });
        let stream = self.send(wire::EXECUTE, 0, &body);
        Executed::of(&self.answer(stream)?.0.without_warnings()?)
    }

    /// Executes what was prepared in a logged batch of its own.
    pub fn batch(&mut self, prepared: &Prepared) -> Result<Executed, String> {
        let mut body = vec![0, 0, 1, 1];
        wire::string(&mut body, &prepared.id);
        body.extend_from_slice(&[0, 0, 0, 1]);
        body.extend_from_slice(if self.version >= 5 { &[0; 4] } else { &[0] });
        let stream = self.send(wire::BATCH, 0, &body);
        Executed::of(&self.answer(stream)?.0.without_warnings()?)
    }

    /// Asks for events; returns the answer.
    pub fn register(&mut self, kinds: &[&str]) -> Result<Envelope, String> {
        let mut body = (kinds.len() as u16).to_be_bytes().to_vec();
        for kind in kinds {
            wire::string(&mut body, kind.as_bytes());
        }
        let stream = self.send(wire::REGISTER, 0, &body);
        Ok(self.answer(stream)?.0)
    }

    fn receive(&mut self) -> Result<bool, String> {
        if self.version < 5 {
            let mut header = [0; 9];
            if !self.raw.fill(&mut header)? {
                return Ok(false);
            }
            let len = u32::from_be_bytes(header[5..].try_into().expect("four bytes"));
            let mut body = vec![0; len as usize];
            self.held.extend_from_slice(&header);
            let whole = self.raw.fill(&mut body)?;
            self.held.append(&mut body);
            return Ok(whole);
        }
        let mut header = [0; 6];
        if !self.raw.fill(&mut header)? {
            return Ok(false);
        }
        let len = (u32::from_le_bytes([header[0], header[1], header[2], 0]) & 0x1FFFF) as usize;
        let mut payload = vec![0; len + 4];
        let whole = self.raw.fill(&mut payload)?;
        if whole && payload[len..] != wire::crc32(&payload[..len]).to_le_bytes() {
            return Err("the server sent a segment with a wrong checksum".into());
        }
        self.held.extend_from_slice(&payload[..len]);
        Ok(whole)
    }

    fn cut(&mut self) -> Result<Option<Envelope>, String> {
        if self.held.len() < 9 {
            return Ok(None);
        }
        let number = u32::from_be_bytes(self.held[5..9].try_into().expect("four bytes"));
        let end = 9 + number as usize;
        if self.held.len() < end {
            return Ok(None);
        }
        let bytes: Vec<u8> = self.held.drain(..end).collect();
        if bytes[0] != 0x80 | self.version {
            return Err(format!(
                "an envelope of version {:#x} on a connection of v{}",
                bytes[0], self.version
            ));
        }
        let stream = i16::from_be_bytes([bytes[2], bytes[3]]);
        let response = Response { stream, opcode: bytes[4], body: bytes[9..].to_vec() };
        Ok(Some(Envelope { flags: bytes[1], response }))
    }
}

impl Envelope {
    /// Itself without the warnings that stand in front of its body.
    fn without_warnings(mut self) -> Result<Envelope, String> {
        if self.flags & wire::WARNING != 0 {
            let mut rest = &self.response.body[..];
            let count = rest.split_off(..2).ok_or("warnings without their number")?;
            for _ in 0..u16::from_be_bytes([count[0], count[1]]) {
                string(&mut rest)?;
            }
            self.response.body = rest.to_vec();
        }
        Ok(self)
    }
}

/// An event as words: `CREATED TABLE shop.visits`, `STATUS_CHANGE DOWN 127.0.0.1:9042`.
pub fn event(envelope: &Envelope) -> Result<String, String> {
    let Envelope { flags, response } = envelope;
    if response.opcode != EVENT || response.stream != -1 || *flags != 0 {
        return Err(format!("flags {flags:#x}: expected an event on stream -1, got {response:?}"));
    }
    let mut rest = &response.body[..];
    let kind = string(&mut rest)?;
    let change = string(&mut rest)?;
    if kind != "SCHEMA_CHANGE" {
        return match rest {
            [4, a, b, c, d, port @ ..] if port.len() == 4 => {
                let port = u32::from_be_bytes([port[0], port[1], port[2], port[3]]);
                Ok(format!("{kind} {change} {a}.{b}.{c}.{d}:{port}"))
            }
            _ => Err(format!("an event without an address: {response:?}")),
        };
    }
    let target = string(&mut rest)?;
    let keyspace = string(&mut rest)?;
    let name = if target == "KEYSPACE" { String::new() } else { format!(".{}", string(&mut rest)?) };
    if !rest.is_empty() {
        return Err(format!("bytes behind the event: {response:?}"));
    }
    Ok(format!("{change} {target} {keyspace}{name}"))
}

/// `[string]` at the begin of these bytes.
pub fn string(bytes: &mut &[u8]) -> Result<String, String> {
    let short = |bytes: &[u8]| Some(usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?])));
    let len = short(bytes).ok_or("a string without its length")?;
    let text = bytes.get(2..2 + len).ok_or("a string that ends early")?;
    let text = String::from_utf8(text.to_vec()).map_err(|error| error.to_string())?;
    *bytes = &bytes[2 + len..];
    Ok(text)
}
