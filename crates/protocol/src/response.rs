//! Responses: a server appends them to its output, a client reads them in place.

use crate::envelope::{self, Direction, Header, Opcode, Version, flag};
use crate::error::Error;
use crate::event::{Event, SchemaChange};
use crate::extras::Extras;
use crate::failure::{Failure, FailureKind};
use crate::metadata::Prepared;
use crate::request::skip_payload;
use crate::rows::{RESULT_ROWS, Rows};
use crate::wire::{Reader, put_bytes, put_int, put_short, put_string, put_string_list};

/// Result kinds.
const RESULT_VOID: i32 = 1;
const RESULT_SET_KEYSPACE: i32 = 3;
const RESULT_PREPARED: i32 = 4;
const RESULT_SCHEMA_CHANGE: i32 = 5;

/// The stream of events.
pub const EVENT_STREAM: i16 = -1;
/// The class name that makes drivers log in with user and password.
pub const PASSWORD_AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

/// A response other than rows, which [`RowsWriter`](crate::rows::RowsWriter) writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<'a> {
    /// ERROR.
    Error(&'a Failure),
    /// READY.
    Ready,
    /// AUTHENTICATE with the authenticator's class name.
    Authenticate(&'a str),
    /// SUPPORTED.
    Supported(&'a [(String, Vec<String>)]),
    /// RESULT: nothing.
    Void,
    /// RESULT: the keyspace is now this.
    SetKeyspace(&'a str),
    /// RESULT: the statement was prepared.
    Prepared(&'a Prepared),
    /// RESULT: the schema changed.
    SchemaChange(&'a SchemaChange),
    /// AUTH_CHALLENGE.
    AuthChallenge(Option<&'a [u8]>),
    /// AUTH_SUCCESS.
    AuthSuccess(Option<&'a [u8]>),
    /// EVENT; give it [`EVENT_STREAM`].
    Event(&'a Event),
}

impl Reply<'_> {
    fn opcode(&self) -> Opcode {
        match self {
            Reply::Error(_) => Opcode::Error,
            Reply::Ready => Opcode::Ready,
            Reply::Authenticate(_) => Opcode::Authenticate,
            Reply::Supported(_) => Opcode::Supported,
            Reply::Void | Reply::SetKeyspace(_) | Reply::Prepared(_) | Reply::SchemaChange(_) => {
                Opcode::Result
            }
            Reply::AuthChallenge(_) => Opcode::AuthChallenge,
            Reply::AuthSuccess(_) => Opcode::AuthSuccess,
            Reply::Event(_) => Opcode::Event,
        }
    }

    /// Appends the whole envelope.
    pub fn encode(&self, out: &mut Vec<u8>, version: Version, stream: i16, extras: &Extras<'_>) {
        let begun =
            envelope::begin(out, Direction::Responses, version, stream, self.opcode(), extras.flags(version));
        extras.encode(out, version);
        match self {
            Reply::Error(failure) => failure.encode(out, version),
            Reply::Ready => {}
            Reply::Authenticate(class) => put_string(out, class),
            Reply::Supported(options) => {
                put_short(out, options.len() as u16);
                for (key, values) in *options {
                    put_string(out, key);
                    put_string_list(out, values);
                }
            }
            Reply::Void => put_int(out, RESULT_VOID),
            Reply::SetKeyspace(keyspace) => {
                put_int(out, RESULT_SET_KEYSPACE);
                put_string(out, keyspace);
            }
            Reply::Prepared(prepared) => {
                put_int(out, RESULT_PREPARED);
                prepared.encode(out, version);
            }
            Reply::SchemaChange(change) => {
                put_int(out, RESULT_SCHEMA_CHANGE);
                change.encode(out, version);
            }
            Reply::AuthChallenge(token) | Reply::AuthSuccess(token) => put_bytes(out, *token),
            Reply::Event(event) => event.encode(out, version),
        }
        envelope::finish(out, begun);
    }
}

/// The whole answer to a frame that cannot be answered in its own terms: an unsupported version is answered in the highest version spoken
/// here (versions 1 and 2 in their own shorter header), anything else in the connection's version. Send it, then close.
pub fn refusal(error: &Error, connection: Option<Version>) -> Vec<u8> {
    let failure = Failure::new(FailureKind::Protocol, error.to_string());
    let mut out = Vec::new();
    if let Error::UnsupportedVersion { version: version @ (1 | 2), stream } = error {
        let mut body = Vec::new();
        failure.encode(&mut body, Version::V4);
        out.extend_from_slice(&[version | 0x80, 0, *stream as u8, Opcode::Error as u8]);
        put_int(&mut out, body.len() as i32);
        out.extend_from_slice(&body);
        return out;
    }
    let (version, stream) = match error {
        Error::UnsupportedVersion { stream, .. } => (Version::HIGHEST, *stream),
        Error::Frame { stream, .. } => (connection.unwrap_or(Version::HIGHEST), *stream),
        Error::Message(_) => (connection.unwrap_or(Version::HIGHEST), 0),
    };
    Reply::Error(&failure).encode(&mut out, version, stream, &Extras::default());
    out
}

/// A response as a client reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum Response<'a> {
    /// ERROR.
    Error(Failure),
    /// READY.
    Ready,
    /// AUTHENTICATE with the authenticator's class name.
    Authenticate(&'a str),
    /// SUPPORTED.
    Supported(Vec<(String, Vec<String>)>),
    /// RESULT: nothing.
    Void,
    /// RESULT: rows.
    Rows(Rows<'a>),
    /// RESULT: the keyspace is now this.
    SetKeyspace(&'a str),
    /// RESULT: the statement was prepared.
    Prepared(Prepared),
    /// RESULT: the schema changed.
    SchemaChange(SchemaChange),
    /// AUTH_CHALLENGE.
    AuthChallenge(Option<&'a [u8]>),
    /// AUTH_SUCCESS.
    AuthSuccess(Option<&'a [u8]>),
    /// EVENT.
    Event(Event),
}

impl<'a> Response<'a> {
    /// Reads the response of an envelope; trace id, warnings and payload are skipped.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Response<'a>, Error> {
        let mut reader = Reader::new(body);
        let reader = &mut reader;
        if header.has(flag::TRACING) {
            reader.raw(16)?;
        }
        if header.has(flag::WARNING) {
            reader.string_list()?;
        }
        if header.has(flag::CUSTOM_PAYLOAD) {
            skip_payload(reader)?;
        }
        Ok(match header.known_opcode()? {
            Opcode::Error => Response::Error(Failure::decode(reader, header.version)?),
            Opcode::Ready => Response::Ready,
            Opcode::Authenticate => Response::Authenticate(reader.string()?),
            Opcode::Supported => {
                let mut options = Vec::new();
                for _ in 0..reader.short()? {
                    let key = reader.string()?.to_owned();
                    let values = reader.string_list()?.into_iter().map(String::from);
                    options.push((key, values.collect()));
                }
                Response::Supported(options)
            }
            Opcode::Result => Self::decode_result(reader, header.version)?,
            Opcode::AuthChallenge => Response::AuthChallenge(reader.bytes()?),
            Opcode::AuthSuccess => Response::AuthSuccess(reader.bytes()?),
            Opcode::Event => Response::Event(Event::decode(reader)?),
            other => {
                return Err(Error::Message(format!("Unexpected message {} from a server", other.name())));
            }
        })
    }

    fn decode_result(reader: &mut Reader<'a>, version: Version) -> Result<Response<'a>, Error> {
        Ok(match reader.int()? {
            RESULT_VOID => Response::Void,
            RESULT_ROWS => Response::Rows(Rows::decode(reader)?),
            RESULT_SET_KEYSPACE => Response::SetKeyspace(reader.string()?),
            RESULT_PREPARED => Response::Prepared(Prepared::decode(reader, version)?),
            RESULT_SCHEMA_CHANGE => Response::SchemaChange(SchemaChange::decode(reader)?),
            kind => return Err(Error::Message(format!("Unknown result kind {kind}"))),
        })
    }
}

#[cfg(test)]
mod tests;
