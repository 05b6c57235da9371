//! A thin client of the native protocol, versions 3, 4 and 5: one connection, one request at a time, everything a
//! response says kept for showing.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::types::Type;
use crate::wire;

/// A connection after STARTUP.
pub struct Client {
    stream: TcpStream,
    version: u8,
    /// Bytes of envelopes that came and were not read yet.
    arrived: Vec<u8>,
}

/// A column of a result or a marker.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// What a server said to a statement.
#[derive(Debug)]
pub enum Answer {
    /// Nothing but that it is done.
    Void,
    /// Rows, and the state of the next page if there is one.
    Rows { columns: Vec<Column>, rows: Vec<Vec<Option<Vec<u8>>>>, next: Option<Vec<u8>> },
    /// The keyspace in use changed.
    Keyspace(String),
    /// The schema changed: what happened, to what, and the names.
    Schema(Vec<String>),
    /// A statement was prepared.
    Prepared(Prepared),
    /// Code and text.
    Error(u32, String),
}

/// A prepared statement.
#[derive(Debug)]
pub struct Prepared {
    id: Vec<u8>,
    result_id: Option<Vec<u8>>,
    /// What must be bound.
    pub markers: Vec<Column>,
    /// For each component of the partition key, its marker.
    pub key: Vec<u16>,
    /// Columns of the result.
    pub columns: Vec<Column>,
}

/// What goes with a statement beside its text.
#[derive(Default)]
pub struct Parameters {
    /// Values: `None` is null, `Some(Err(()))` not set.
    pub values: Vec<Value>,
    /// Rows of a page.
    pub page: Option<i32>,
    /// Where the page before ended.
    pub state: Option<Vec<u8>>,
    /// The consistency level by its number; ONE if nothing is said.
    pub consistency: Option<u16>,
    /// The serial consistency level by its number.
    pub serial: Option<u16>,
}

/// A bound value.
#[derive(Debug, Clone)]
pub enum Value {
    /// Null.
    Null,
    /// Not set.
    Unset,
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Client {
    /// Connects and says STARTUP; `Err` when the server does not answer READY.
    pub fn connect(address: SocketAddr, version: u8) -> Result<Client, String> {
        Client::connect_as(address, version, None, None)
    }

    /// The same for a user whose password is the user's name, if the server asks for one; with one more option of STARTUP, if told so.
    pub fn connect_as(
        address: SocketAddr,
        version: u8,
        user: Option<&str>,
        option: Option<&(String, String)>,
    ) -> Result<Client, String> {
        let told = |error: std::io::Error| format!("{address}: {error}");
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).map_err(told)?;
        stream.set_nodelay(true).map_err(told)?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(told)?;
        let mut client = Client { stream, version: 4, arrived: Vec::new() };
        let mut startup = wire::startup_body();
        if let Some((name, value)) = option {
            startup[..2].copy_from_slice(&2u16.to_be_bytes());
            wire::string(&mut startup, name.as_bytes());
            wire::string(&mut startup, value.as_bytes());
        }
        let startup = wire::request(version, wire::STARTUP, 0, &startup);
        client.stream.write_all(&startup).map_err(told)?;
        let (opcode, _, body) = client.receive()?;
        if let (wire::AUTHENTICATE, Some(user)) = (opcode, user) {
            // Segments begin behind the answer to STARTUP, whatever it is.
            client.version = version;
            let token = format!("\0{user}\0{user}");
            let mut body = (token.len() as i32).to_be_bytes().to_vec();
            body.extend_from_slice(token.as_bytes());
            client.send(wire::AUTH_RESPONSE, &body)?;
            let (opcode, _, body) = client.receive()?;
            if opcode != wire::AUTH_SUCCESS {
                let text = String::from_utf8_lossy(body.get(6..).unwrap_or_default()).into_owned();
                return Err(format!("{user} is not let in: {text}"));
            }
            return Ok(client);
        }
        if opcode != wire::READY {
            return Err(format!(
                "STARTUP was answered with opcode {opcode}: {}",
                String::from_utf8_lossy(&body)
            ));
        }
        // Segments begin behind the answer to STARTUP.
        client.version = version;
        Ok(client)
    }

    /// Runs a statement by its text.
    pub fn query(&mut self, text: &str, parameters: &Parameters) -> Result<(Answer, Vec<String>), String> {
        let mut body = (text.len() as u32).to_be_bytes().to_vec();
        body.extend_from_slice(text.as_bytes());
        self.put_parameters(&mut body, parameters);
        self.ask(wire::QUERY, &body)
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, text: &str) -> Result<(Answer, Vec<String>), String> {
        let mut body = (text.len() as u32).to_be_bytes().to_vec();
        body.extend_from_slice(text.as_bytes());
        if self.version >= 5 {
            body.extend_from_slice(&[0; 4]);
        }
        self.ask(wire::PREPARE, &body)
    }

    /// Executes a prepared statement.
    pub fn execute(
        &mut self,
        prepared: &Prepared,
        parameters: &Parameters,
    ) -> Result<(Answer, Vec<String>), String> {
        let mut body = Vec::new();
        wire::string(&mut body, &prepared.id);
        if let Some(id) = &prepared.result_id {
            wire::string(&mut body, id);
        }
        self.put_parameters(&mut body, parameters);
        self.ask(wire::EXECUTE, &body)
    }

    /// Sends statements by their texts in one BATCH.
    pub fn batch(
        &mut self,
        kind: u8,
        statements: &[String],
        parameters: &Parameters,
    ) -> Result<(Answer, Vec<String>), String> {
        let mut body = vec![kind];
        body.extend_from_slice(&(statements.len() as u16).to_be_bytes());
        for text in statements {
            body.push(0);
            body.extend_from_slice(&(text.len() as u32).to_be_bytes());
            body.extend_from_slice(text.as_bytes());
            body.extend_from_slice(&[0; 2]);
        }
        self.put_parameters(&mut body, parameters);
        self.ask(wire::BATCH, &body)
    }

    /// The consistency level, then what the parameters say.
    fn put_parameters(&self, body: &mut Vec<u8>, parameters: &Parameters) {
        body.extend_from_slice(&parameters.consistency.unwrap_or(1).to_be_bytes());
        let flags = u32::from(!parameters.values.is_empty())
            | u32::from(parameters.page.is_some()) << 2
            | u32::from(parameters.state.is_some()) << 3
            | u32::from(parameters.serial.is_some()) << 4;
        if self.version >= 5 {
            body.extend_from_slice(&flags.to_be_bytes());
        } else {
            body.push(flags as u8);
        }
        if !parameters.values.is_empty() {
            body.extend_from_slice(&(parameters.values.len() as u16).to_be_bytes());
        }
        for value in &parameters.values {
            match value {
                Value::Null => body.extend_from_slice(&(-1i32).to_be_bytes()),
                Value::Unset => body.extend_from_slice(&(-2i32).to_be_bytes()),
                Value::Bytes(bytes) => {
                    body.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
                    body.extend_from_slice(bytes);
                }
            }
        }
        if let Some(page) = parameters.page {
            body.extend_from_slice(&page.to_be_bytes());
        }
        if let Some(state) = &parameters.state {
            body.extend_from_slice(&(state.len() as i32).to_be_bytes());
            body.extend_from_slice(state);
        }
        if let Some(serial) = parameters.serial {
            body.extend_from_slice(&serial.to_be_bytes());
        }
    }

    fn send(&mut self, opcode: u8, body: &[u8]) -> Result<(), String> {
        let envelope = wire::request(self.version, opcode, 0, body);
        let bytes = if self.version >= 5 {
            let pieces: Vec<&[u8]> = envelope.chunks(SEGMENT_BYTES).collect();
            match pieces[..] {
                [only] => wire::segment(only),
                _ => pieces.iter().flat_map(|piece| part_of_many(piece)).collect(),
            }
        } else {
            envelope
        };
        self.stream.write_all(&bytes).map_err(|error| format!("the connection broke: {error}"))
    }

    fn ask(&mut self, opcode: u8, body: &[u8]) -> Result<(Answer, Vec<String>), String> {
        self.send(opcode, body)?;
        let (opcode, flags, body) = self.receive()?;
        let mut reader = Reader { bytes: &body };
        let read = (|| {
            if flags & 0x02 != 0 {
                reader.take(16)?;
            }
            let mut warnings = Vec::new();
            if flags & 0x08 != 0 {
                for _ in 0..reader.u16()? {
                    warnings.push(reader.string()?);
                }
            }
            Some((self.answer(opcode, &mut reader)?, warnings))
        })();
        read.ok_or_else(|| format!("a response of opcode {opcode} could not be read"))
    }

    /// Opcode, flags and body of the next envelope.
    fn receive(&mut self) -> Result<(u8, u8, Vec<u8>), String> {
        loop {
            if let Some((header, rest)) = self.arrived.split_first_chunk::<9>() {
                let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
                if rest.len() >= length {
                    let out = (header[4], header[1], rest[..length].to_vec());
                    self.arrived.drain(..9 + length);
                    return Ok(out);
                }
            }
            self.receive_more()?;
        }
    }

    fn receive_more(&mut self) -> Result<(), String> {
        let told = |error: std::io::Error| format!("the connection broke: {error}");
        if self.version < 5 {
            let mut piece = vec![0; 65_536];
            let count = match self.stream.read(&mut piece) {
                // By a stop and a continuation of this process, where reads have a time limit.
                Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
                read => read.map_err(told)?,
            };
            if count == 0 {
                return Err("the server closed the connection".into());
            }
            self.arrived.extend_from_slice(&piece[..count]);
            return Ok(());
        }
        let mut header = [0; 6];
        self.stream.read_exact(&mut header).map_err(told)?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize & 0x1_FFFF;
        let mut payload = vec![0; length + 4];
        self.stream.read_exact(&mut payload).map_err(told)?;
        let crc = wire::crc24(&header[..3]).to_le_bytes();
        let sum = wire::crc32(&payload[..length]).to_le_bytes();
        if crc[..3] != header[3..] || sum != payload[length..] {
            return Err("a segment with a wrong checksum came".into());
        }
        self.arrived.extend_from_slice(&payload[..length]);
        Ok(())
    }

    fn answer(&self, opcode: u8, reader: &mut Reader<'_>) -> Option<Answer> {
        if opcode == wire::ERROR {
            let code = reader.i32()? as u32;
            return Some(Answer::Error(code, reader.string()?));
        }
        if opcode != wire::RESULT {
            return None;
        }
        match reader.i32()? {
            1 => Some(Answer::Void),
            2 => self.rows(reader),
            3 => Some(Answer::Keyspace(reader.string()?)),
            4 => self.prepared(reader),
            5 => {
                let mut words = Vec::new();
                while !reader.bytes.is_empty() && words.len() < 4 {
                    words.push(reader.string()?);
                }
                Some(Answer::Schema(words))
            }
            _ => None,
        }
    }

    fn rows(&self, reader: &mut Reader<'_>) -> Option<Answer> {
        let (columns, next) = reader.metadata()?;
        let mut rows = Vec::new();
        for _ in 0..reader.i32()? {
            let row: Option<Vec<Option<Vec<u8>>>> = columns.iter().map(|_| reader.value()).collect();
            rows.push(row?);
        }
        Some(Answer::Rows { columns, rows, next })
    }

    fn prepared(&self, reader: &mut Reader<'_>) -> Option<Answer> {
        let id = reader.short_bytes()?;
        let result_id = if self.version >= 5 { Some(reader.short_bytes()?) } else { None };
        let flags = reader.i32()?;
        let count = reader.i32()?;
        let mut key = Vec::new();
        if self.version >= 4 {
            for _ in 0..reader.i32()? {
                key.push(reader.u16()?);
            }
        }
        let markers = reader.columns(flags & 1 != 0, count)?;
        let (columns, _) = reader.metadata()?;
        Some(Answer::Prepared(Prepared { id, result_id, markers, key, columns }))
    }
}

/// Bytes of a segment's payload.
const SEGMENT_BYTES: usize = 0x1_FFFF;

/// A segment that holds a part of an envelope.
fn part_of_many(payload: &[u8]) -> Vec<u8> {
    let mut out = wire::segment(payload);
    out[2] &= !0x02;
    let crc = wire::crc24(&out[..3]).to_le_bytes();
    out[3..6].copy_from_slice(&crc[..3]);
    out
}

struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn short_bytes(&mut self) -> Option<Vec<u8>> {
        let count = self.u16()?;
        self.take(count.into()).map(<[u8]>::to_vec)
    }

    fn string(&mut self) -> Option<String> {
        self.short_bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// `Some(None)` for null.
    fn value(&mut self) -> Option<Option<Vec<u8>>> {
        match usize::try_from(self.i32()?) {
            Ok(count) => Some(Some(self.take(count)?.to_vec())),
            Err(_) => Some(None),
        }
    }

    /// Columns, and the state of the next page.
    fn metadata(&mut self) -> Option<(Vec<Column>, Option<Vec<u8>>)> {
        let flags = self.i32()?;
        let count = self.i32()?;
        let next = if flags & 2 != 0 { self.value()? } else { None };
        if flags & 8 != 0 {
            self.short_bytes()?;
        }
        let columns = if flags & 4 != 0 { Vec::new() } else { self.columns(flags & 1 != 0, count)? };
        Some((columns, next))
    }

    fn columns(&mut self, global: bool, count: i32) -> Option<Vec<Column>> {
        if global && count > 0 {
            self.string()?;
            self.string()?;
        }
        (0..count)
            .map(|_| {
                if !global {
                    self.string()?;
                    self.string()?;
                }
                Some(Column { name: self.string()?, ty: self.ty()? })
            })
            .collect()
    }

    fn ty(&mut self) -> Option<Type> {
        Some(match self.u16()? {
            0 => Type::of_class(&self.string()?),
            0x20 => Type::Sequence("list", Box::new(self.ty()?)),
            0x21 => Type::Map(Box::new(self.ty()?), Box::new(self.ty()?)),
            0x22 => Type::Sequence("set", Box::new(self.ty()?)),
            0x30 => {
                self.string()?;
                let name = self.string()?;
                let count = self.u16()?;
                let fields: Option<Vec<_>> = (0..count).map(|_| Some((self.string()?, self.ty()?))).collect();
                Type::User(name, fields?)
            }
            0x31 => {
                let count = self.u16()?;
                Type::Tuple((0..count).map(|_| self.ty()).collect::<Option<_>>()?)
            }
            code => Type::of_code(code)?,
        })
    }
}
