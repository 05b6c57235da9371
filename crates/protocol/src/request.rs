//! Requests: a server reads them in place, a client writes them. The same structs serve both.

use crate::compression::Compression;
use crate::envelope::{self, Direction, Header, Opcode, Version, flag};
use crate::error::Error;
use crate::event::EventType;
use crate::values::Values;
use crate::wire::{
    Reader, put_bytes, put_int, put_long, put_long_string, put_short, put_short_bytes, put_string,
    put_string_list,
};
use types::Consistency;

/// Flags of query parameters.
mod query_flag {
    pub const VALUES: u32 = 0x01;
    pub const SKIP_METADATA: u32 = 0x02;
    pub const PAGE_SIZE: u32 = 0x04;
    pub const PAGING_STATE: u32 = 0x08;
    pub const SERIAL_CONSISTENCY: u32 = 0x10;
    pub const TIMESTAMP: u32 = 0x20;
    pub const NAMES: u32 = 0x40;
    pub const KEYSPACE: u32 = 0x80;
    pub const NOW: u32 = 0x100;
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// STARTUP.
    Startup(Startup<'a>),
    /// OPTIONS.
    Options,
    /// AUTH_RESPONSE with its token.
    AuthResponse(Option<&'a [u8]>),
    /// QUERY.
    Query(Query<'a>),
    /// PREPARE.
    Prepare(Prepare<'a>),
    /// EXECUTE.
    Execute(Execute<'a>),
    /// BATCH.
    Batch(Batch<'a>),
    /// REGISTER.
    Register(Vec<EventType>),
}

/// The options of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Startup<'a> {
    /// Keys and values as they came.
    pub options: Vec<(&'a str, &'a str)>,
}

/// A statement's text with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Query<'a> {
    /// The text.
    pub query: &'a str,
    /// How to run it.
    pub parameters: Parameters<'a>,
}

/// A statement's text to be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare<'a> {
    /// The text.
    pub query: &'a str,
    /// The keyspace to prepare it in (v5).
    pub keyspace: Option<&'a str>,
}

/// A prepared statement to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Execute<'a> {
    /// The id PREPARE gave.
    pub id: &'a [u8],
    /// The result metadata the client holds (v5).
    pub result_metadata_id: Option<&'a [u8]>,
    /// How to run it.
    pub parameters: Parameters<'a>,
}

impl<'a> Execute<'a> {
    /// Id and values of the body of an EXECUTE, if its values are there and go by position. Nothing else of it is looked at, so
    /// it may be wrong all the same.
    pub fn glance(version: Version, body: &'a [u8]) -> Option<(&'a [u8], Values<'a>)> {
        let reader = &mut Reader::new(body);
        let id = reader.short_bytes().ok()?;
        if version == Version::V5 {
            reader.short_bytes().ok()?;
        }
        reader.consistency().ok()?;
        let flags = Parameters::read_flags(reader, version).ok()?;
        if flags & query_flag::VALUES == 0 || flags & query_flag::NAMES != 0 {
            return None;
        }
        Some((id, Values::read(reader, version, false).ok()?))
    }
}

/// How to run a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters<'a> {
    /// How many replicas must answer.
    pub consistency: Consistency,
    /// Bound values.
    pub values: Values<'a>,
    /// Leave the column specs out of the result.
    pub skip_metadata: bool,
    /// Rows per page; `None` is no paging (zero and negative sizes too).
    pub page_size: Option<u32>,
    /// Where the last page ended.
    pub paging_state: Option<&'a [u8]>,
    /// Consistency of the condition of a conditional statement.
    pub serial_consistency: Option<Consistency>,
    /// Write timestamp, microseconds.
    pub timestamp: Option<i64>,
    /// The keyspace to run in (v5).
    pub keyspace: Option<&'a str>,
    /// The time of the request in seconds, for tests (v5).
    pub now_s: Option<i32>,
}

/// What a batch promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// All or nothing.
    Logged,
    /// Each for itself.
    Unlogged,
    /// Counter updates.
    Counter,
}

/// A statement of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchStatement<'a> {
    /// Text or id.
    pub source: BatchSource<'a>,
    /// Bound values.
    pub values: Values<'a>,
}

/// Text or id of a statement of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSource<'a> {
    /// The statement's text.
    Query(&'a str),
    /// The id PREPARE gave.
    Prepared(&'a [u8]),
}

/// Several modifications.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<'a> {
    /// What it promises.
    pub kind: BatchKind,
    /// The statements.
    pub statements: Vec<BatchStatement<'a>>,
    /// How to run them; values, paging and metadata do not apply.
    pub parameters: Parameters<'a>,
}

impl<'a> Parameters<'a> {
    /// No values, no paging, everything else left to the server.
    pub fn at(consistency: Consistency) -> Parameters<'a> {
        Parameters {
            consistency,
            values: Values::default(),
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_s: None,
        }
    }

    fn read_flags(reader: &mut Reader<'a>, version: Version) -> Result<u32, Error> {
        Ok(match version {
            Version::V3 | Version::V4 => u32::from(reader.byte()?),
            Version::V5 => reader.int()? as u32,
        })
    }

    fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Parameters<'a>, Error> {
        let mut parameters = Parameters::at(reader.consistency()?);
        let flags = Self::read_flags(reader, version)?;
        let has = |flag: u32| flags & flag != 0;
        if has(query_flag::VALUES) {
            parameters.values = Values::read(reader, version, has(query_flag::NAMES))?;
        }
        parameters.skip_metadata = has(query_flag::SKIP_METADATA);
        if has(query_flag::PAGE_SIZE) {
            let size = reader.int()?;
            if size == 0 {
                return Err(Error::message("The page size cannot be 0"));
            }
            // A negative one asks for everything.
            parameters.page_size = u32::try_from(size).ok();
        }
        if has(query_flag::PAGING_STATE) {
            parameters.paging_state = reader.bytes()?;
        }
        parameters.decode_tail(reader, flags)?;
        Ok(parameters)
    }

    /// What has a meaning in BATCH, too.
    fn decode_tail(&mut self, reader: &mut Reader<'a>, flags: u32) -> Result<(), Error> {
        let has = |flag: u32| flags & flag != 0;
        if has(query_flag::SERIAL_CONSISTENCY) {
            self.serial_consistency = Some(reader.consistency()?);
        }
        if has(query_flag::TIMESTAMP) {
            let timestamp = reader.long()?;
            if timestamp == i64::MIN {
                return Err(Error::Message(format!(
                    "Out of bound timestamp, must be in [{}, {}] (got {timestamp})",
                    i64::MIN + 1,
                    i64::MAX
                )));
            }
            self.timestamp = Some(timestamp);
        }
        if has(query_flag::KEYSPACE) {
            self.keyspace = Some(reader.string()?);
        }
        if has(query_flag::NOW) {
            self.now_s = Some(reader.int()?);
        }
        Ok(())
    }

    fn put_flags(out: &mut Vec<u8>, version: Version, flags: u32) {
        match version {
            Version::V3 | Version::V4 => out.push(flags as u8),
            Version::V5 => put_int(out, flags as i32),
        }
    }

    fn tail_flags(&self, version: Version) -> u32 {
        let mut flags = 0;
        let mut set = |on: bool, flag: u32| flags |= if on { flag } else { 0 };
        set(self.serial_consistency.is_some(), query_flag::SERIAL_CONSISTENCY);
        set(self.timestamp.is_some(), query_flag::TIMESTAMP);
        set(self.keyspace.is_some() && version == Version::V5, query_flag::KEYSPACE);
        set(self.now_s.is_some() && version == Version::V5, query_flag::NOW);
        flags
    }

    fn encode(&self, out: &mut Vec<u8>, version: Version) {
        put_short(out, self.consistency.code());
        let mut flags = self.tail_flags(version);
        let mut set = |on: bool, flag: u32| flags |= if on { flag } else { 0 };
        set(!self.values.is_empty(), query_flag::VALUES);
        set(self.values.is_named(), query_flag::NAMES);
        set(self.skip_metadata, query_flag::SKIP_METADATA);
        set(self.page_size.is_some(), query_flag::PAGE_SIZE);
        set(self.paging_state.is_some(), query_flag::PAGING_STATE);
        Self::put_flags(out, version, flags);
        if !self.values.is_empty() {
            self.values.encode(out);
        }
        if let Some(size) = self.page_size {
            put_int(out, i32::try_from(size).unwrap_or(i32::MAX));
        }
        if let Some(state) = self.paging_state {
            put_bytes(out, Some(state));
        }
        self.encode_tail(out, version);
    }

    fn encode_tail(&self, out: &mut Vec<u8>, version: Version) {
        if let Some(consistency) = self.serial_consistency {
            put_short(out, consistency.code());
        }
        if let Some(timestamp) = self.timestamp {
            put_long(out, timestamp);
        }
        if version == Version::V5 {
            if let Some(keyspace) = self.keyspace {
                put_string(out, keyspace);
            }
            if let Some(now) = self.now_s {
                put_int(out, now);
            }
        }
    }
}

impl<'a> Startup<'a> {
    /// The value of a key, in any case.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.options.iter().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, v)| *v)
    }

    /// Checks CQL_VERSION and gives the compression asked for.
    pub fn check(&self, version: Version) -> Result<Compression, Error> {
        let cql = self
            .get("CQL_VERSION")
            .ok_or_else(|| Error::message("Missing value CQL_VERSION in STARTUP message"))?;
        let mut numbers = cql.split('.').map(|part| part.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), minor) if (2, 99) <= (major, minor.unwrap_or(0)) => {}
            (Some(_), _) => {
                return Err(Error::Message(format!(
                    "CQL version {cql} is not supported by the binary protocol (supported version are >= 3.0.0)"
                )));
            }
            (None, _) => {
                return Err(Error::Message(format!(
                    "Invalid version value: {cql} (see http://semver.org/ for details)"
                )));
            }
        }
        match self.get("COMPRESSION").map(str::to_ascii_lowercase).as_deref() {
            None | Some("") => Ok(Compression::None),
            Some("lz4") => Ok(Compression::Lz4),
            Some("snappy") if Version::V5 <= version => {
                Err(Error::message("Snappy compression is not supported in protocol V5"))
            }
            Some("snappy") => Ok(Compression::Snappy),
            Some(other) => Err(Error::Message(format!("Unknown compression algorithm: {other}"))),
        }
    }
}

impl<'a> Batch<'a> {
    fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Batch<'a>, Error> {
        let kind = match reader.byte()? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            other => return Err(Error::Message(format!("Invalid BATCH type {other}"))),
        };
        let n = reader.short()?;
        let mut statements = Vec::new();
        for _ in 0..n {
            let source = match reader.byte()? {
                0 => BatchSource::Query(reader.long_string()?),
                1 => BatchSource::Prepared(reader.short_bytes()?),
                _ => {
                    return Err(Error::message(
                        "Invalid query kind in BATCH messages. Must be 0 or 1 but got something else",
                    ));
                }
            };
            let values = Values::read(reader, version, false)?;
            statements.push(BatchStatement { source, values });
        }
        let parameters = Parameters::decode(reader, version)?;
        Ok(Batch { kind, statements, parameters })
    }

    fn encode(&self, out: &mut Vec<u8>, version: Version) {
        out.push(match self.kind {
            BatchKind::Logged => 0,
            BatchKind::Unlogged => 1,
            BatchKind::Counter => 2,
        });
        let statements = &self.statements[..self.statements.len().min(usize::from(u16::MAX))];
        put_short(out, statements.len() as u16);
        for statement in statements {
            match statement.source {
                BatchSource::Query(query) => {
                    out.push(0);
                    put_long_string(out, query);
                }
                BatchSource::Prepared(id) => {
                    out.push(1);
                    put_short_bytes(out, id);
                }
            }
            statement.values.encode(out);
        }
        put_short(out, self.parameters.consistency.code());
        Parameters::put_flags(out, version, self.parameters.tail_flags(version));
        self.parameters.encode_tail(out, version);
    }
}

impl<'a> Request<'a> {
    /// Reads the request of an envelope; a custom payload is skipped, bytes after the message are ignored.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Request<'a>, Error> {
        let mut reader = Reader::new(body);
        let reader = &mut reader;
        let version = header.version;
        if header.has(flag::CUSTOM_PAYLOAD) {
            if version < Version::V4 {
                return Err(Error::message(
                    "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4",
                ));
            }
            skip_payload(reader)?;
        }
        Ok(match header.known_opcode()? {
            Opcode::Startup => {
                let n = reader.short()?;
                let mut options = Vec::new();
                for _ in 0..n {
                    options.push((reader.string()?, reader.string()?));
                }
                Request::Startup(Startup { options })
            }
            Opcode::Options => Request::Options,
            Opcode::AuthResponse => Request::AuthResponse(reader.bytes()?),
            Opcode::Query => Request::Query(Query {
                query: reader.long_string()?,
                parameters: Parameters::decode(reader, version)?,
            }),
            Opcode::Prepare => {
                let query = reader.long_string()?;
                let with_keyspace = version == Version::V5 && reader.int()? & 1 != 0;
                let keyspace = if with_keyspace { Some(reader.string()?) } else { None };
                Request::Prepare(Prepare { query, keyspace })
            }
            Opcode::Execute => {
                let id = reader.short_bytes()?;
                let result_metadata_id = match version {
                    Version::V3 | Version::V4 => None,
                    Version::V5 => Some(reader.short_bytes()?),
                };
                Request::Execute(Execute {
                    id,
                    result_metadata_id,
                    parameters: Parameters::decode(reader, version)?,
                })
            }
            Opcode::Batch => Request::Batch(Batch::decode(reader, version)?),
            Opcode::Register => {
                let mut kinds = Vec::new();
                for name in reader.string_list()? {
                    kinds.push(
                        EventType::parse(name)
                            .ok_or_else(|| Error::Message(format!("Invalid value '{name}' for Type")))?,
                    );
                }
                Request::Register(kinds)
            }
            other => {
                return Err(Error::Message(format!("Unexpected message {} from a client", other.name())));
            }
        })
    }

    /// The opcode.
    pub fn opcode(&self) -> Opcode {
        match self {
            Request::Startup(_) => Opcode::Startup,
            Request::Options => Opcode::Options,
            Request::AuthResponse(_) => Opcode::AuthResponse,
            Request::Query(_) => Opcode::Query,
            Request::Prepare(_) => Opcode::Prepare,
            Request::Execute(_) => Opcode::Execute,
            Request::Batch(_) => Opcode::Batch,
            Request::Register(_) => Opcode::Register,
        }
    }

    /// Appends the whole envelope.
    pub fn encode(&self, out: &mut Vec<u8>, version: Version, stream: i16) {
        let begun = envelope::begin(out, Direction::Requests, version, stream, self.opcode(), 0);
        match self {
            Request::Startup(startup) => {
                put_short(out, startup.options.len() as u16);
                for (key, value) in &startup.options {
                    put_string(out, key);
                    put_string(out, value);
                }
            }
            Request::Options => {}
            Request::AuthResponse(token) => put_bytes(out, *token),
            Request::Query(query) => {
                put_long_string(out, query.query);
                query.parameters.encode(out, version);
            }
            Request::Prepare(prepare) => {
                put_long_string(out, prepare.query);
                if version == Version::V5 {
                    put_int(out, i32::from(prepare.keyspace.is_some()));
                    if let Some(keyspace) = prepare.keyspace {
                        put_string(out, keyspace);
                    }
                }
            }
            Request::Execute(execute) => {
                put_short_bytes(out, execute.id);
                if version == Version::V5 {
                    put_short_bytes(out, execute.result_metadata_id.unwrap_or_default());
                }
                execute.parameters.encode(out, version);
            }
            Request::Batch(batch) => batch.encode(out, version),
            Request::Register(kinds) => {
                let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
                put_string_list(out, &names);
            }
        }
        envelope::finish(out, begun);
    }
}

/// Skips a custom payload.
pub(crate) fn skip_payload(reader: &mut Reader<'_>) -> Result<(), Error> {
    for _ in 0..reader.short()? {
        reader.string()?;
        reader.bytes()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
