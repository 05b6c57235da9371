//! ERROR bodies: a code, a text and what the code needs.

use crate::envelope::Version;
use crate::error::Error;
use crate::wire::{Reader, put_inetaddr, put_int, put_short, put_short_bytes, put_string, put_string_list};
use std::net::IpAddr;
use types::Consistency;

/// What kind of write a failed write was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteType {
    /// One partition.
    Simple,
    /// A logged batch.
    Batch,
    /// An unlogged batch.
    UnloggedBatch,
    /// A counter.
    Counter,
    /// The log of a logged batch.
    BatchLog,
    /// A conditional statement.
    Cas,
    /// A materialized view.
    View,
    /// A change log.
    Cdc,
}

const WRITE_TYPES: [(WriteType, &str); 8] = [
    (WriteType::Simple, "SIMPLE"),
    (WriteType::Batch, "BATCH"),
    (WriteType::UnloggedBatch, "UNLOGGED_BATCH"),
    (WriteType::Counter, "COUNTER"),
    (WriteType::BatchLog, "BATCH_LOG"),
    (WriteType::Cas, "CAS"),
    (WriteType::View, "VIEW"),
    (WriteType::Cdc, "CDC"),
];

impl WriteType {
    /// Cassandra's name.
    pub fn name(self) -> &'static str {
        WRITE_TYPES[self as usize].1
    }

    fn parse(name: &str) -> Result<WriteType, Error> {
        WRITE_TYPES
            .iter()
            .find(|(_, n)| *n == name)
            .map(|(kind, _)| *kind)
            .ok_or_else(|| Error::Message(format!("Unknown write type {name}")))
    }
}

/// Why a replica failed; the numbers are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// No reason known.
    Unknown = 0,
    /// Too many tombstones were read.
    ReadTooManyTombstones = 1,
    /// It did not answer in time.
    Timeout = 2,
    /// It has another schema.
    IncompatibleSchema = 3,
    /// The read was too large.
    ReadSize = 4,
    /// It was down.
    NodeDown = 5,
    /// The index is not built there.
    IndexNotAvailable = 6,
    /// Too many indexes were read.
    ReadTooManyIndexes = 7,
}

impl FailureReason {
    fn from_code(code: u16) -> FailureReason {
        match code {
            1 => FailureReason::ReadTooManyTombstones,
            2 => FailureReason::Timeout,
            3 => FailureReason::IncompatibleSchema,
            4 => FailureReason::ReadSize,
            5 => FailureReason::NodeDown,
            6 => FailureReason::IndexNotAvailable,
            7 => FailureReason::ReadTooManyIndexes,
            _ => FailureReason::Unknown,
        }
    }
}

/// The replicas that failed: version 4 carries only how many, version 3 not even that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How many failed.
    pub count: u32,
    /// Which and why (v5).
    pub reasons: Vec<(IpAddr, FailureReason)>,
}

impl Failures {
    /// The failures of these replicas.
    pub fn of(reasons: Vec<(IpAddr, FailureReason)>) -> Failures {
        Failures { count: reasons.len() as u32, reasons }
    }

    fn encode(&self, out: &mut Vec<u8>, version: Version) {
        match version {
            Version::V3 | Version::V4 => put_int(out, self.count as i32),
            Version::V5 => {
                put_int(out, self.reasons.len() as i32);
                for (address, reason) in &self.reasons {
                    put_inetaddr(out, address);
                    put_short(out, *reason as u16);
                }
            }
        }
    }

    fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Failures, Error> {
        let count = u32::try_from(reader.int()?).map_err(|_| Error::message("negative failure count"))?;
        let mut reasons = Vec::new();
        if version == Version::V5 {
            for _ in 0..count {
                let address = reader.inetaddr()?;
                reasons.push((address, FailureReason::from_code(reader.short()?)));
            }
        }
        Ok(Failures { count, reasons })
    }
}

/// What failed, with the fields of its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// 0x0000: something went wrong in the server.
    Server,
    /// 0x000A: the client broke the protocol.
    Protocol,
    /// 0x0100: the login failed.
    BadCredentials,
    /// 0x1000: too few replicas are alive.
    Unavailable {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas it needs.
        required: i32,
        /// Replicas alive.
        alive: i32,
    },
    /// 0x1001: try another node, or later.
    Overloaded,
    /// 0x1002: the node is not ready.
    Bootstrapping,
    /// 0x1003: a truncate failed.
    Truncate,
    /// 0x1100: too few replicas confirmed in time; the write may have happened.
    WriteTimeout {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that confirmed.
        received: i32,
        /// Replicas it needs.
        block_for: i32,
        /// What was written.
        write_type: WriteType,
        /// Rounds lost to other writers (v5, conditional writes).
        contentions: u16,
    },
    /// 0x1200: too few replicas answered in time.
    ReadTimeout {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: i32,
        /// Replicas it needs.
        block_for: i32,
        /// Whether the replica asked for data answered.
        data_present: bool,
    },
    /// 0x1300: replicas failed to read.
    ReadFailure {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: i32,
        /// Replicas it needs.
        block_for: i32,
        /// Replicas that failed.
        failures: Failures,
        /// Whether the replica asked for data answered.
        data_present: bool,
    },
    /// 0x1400: a function failed.
    Function {
        /// Its keyspace.
        keyspace: String,
        /// Its name.
        function: String,
        /// Its argument types.
        arguments: Vec<String>,
    },
    /// 0x1500: replicas failed to write.
    WriteFailure {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that confirmed.
        received: i32,
        /// Replicas it needs.
        block_for: i32,
        /// Replicas that failed.
        failures: Failures,
        /// What was written.
        write_type: WriteType,
    },
    /// 0x1600: the change log is full.
    CdcWrite,
    /// 0x1700: whether a conditional write happened is not known (v5).
    CasWriteUnknown {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that confirmed.
        received: i32,
        /// Replicas it needs.
        block_for: i32,
    },
    /// 0x2000: the text does not parse.
    Syntax,
    /// 0x2100: not allowed.
    Unauthorized,
    /// 0x2200: the statement makes no sense.
    Invalid,
    /// 0x2300: a setting makes no sense.
    Config,
    /// 0x2400: the keyspace or table is there already.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table, empty for a keyspace.
        table: String,
    },
    /// 0x2500: prepare it again.
    Unprepared {
        /// The unknown id.
        id: Vec<u8>,
    },
}

/// An ERROR: what failed and the text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What failed.
    pub kind: FailureKind,
    /// The text.
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (code 0x{:04x})", self.message, self.kind.code())
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        Failure::new(FailureKind::Protocol, error.to_string())
    }
}

impl FailureKind {
    /// The code on the wire (of version 5).
    pub fn code(&self) -> i32 {
        match self {
            FailureKind::Server => 0x0000,
            FailureKind::Protocol => 0x000A,
            FailureKind::BadCredentials => 0x0100,
            FailureKind::Unavailable { .. } => 0x1000,
            FailureKind::Overloaded => 0x1001,
            FailureKind::Bootstrapping => 0x1002,
            FailureKind::Truncate => 0x1003,
            FailureKind::WriteTimeout { .. } => 0x1100,
            FailureKind::ReadTimeout { .. } => 0x1200,
            FailureKind::ReadFailure { .. } => 0x1300,
            FailureKind::Function { .. } => 0x1400,
            FailureKind::WriteFailure { .. } => 0x1500,
            FailureKind::CdcWrite => 0x1600,
            FailureKind::CasWriteUnknown { .. } => 0x1700,
            FailureKind::Syntax => 0x2000,
            FailureKind::Unauthorized => 0x2100,
            FailureKind::Invalid => 0x2200,
            FailureKind::Config => 0x2300,
            FailureKind::AlreadyExists { .. } => 0x2400,
            FailureKind::Unprepared { .. } => 0x2500,
        }
    }
}

fn put_counts(out: &mut Vec<u8>, consistency: Consistency, first: i32, second: i32) {
    put_short(out, consistency.code());
    put_int(out, first);
    put_int(out, second);
}

impl Failure {
    /// A failure with its text.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }

    /// Appends the body of an ERROR, in words that the version has.
    pub fn encode(&self, out: &mut Vec<u8>, version: Version) {
        if version < Version::V5
            && let Some(older) = self.before_v5(version)
        {
            return older.encode(out, version);
        }
        put_int(out, self.kind.code());
        put_string(out, &self.message);
        match &self.kind {
            FailureKind::Server
            | FailureKind::Protocol
            | FailureKind::BadCredentials
            | FailureKind::Overloaded
            | FailureKind::Bootstrapping
            | FailureKind::Truncate
            | FailureKind::CdcWrite
            | FailureKind::Syntax
            | FailureKind::Unauthorized
            | FailureKind::Invalid
            | FailureKind::Config => {}
            FailureKind::Unavailable { consistency, required, alive } => {
                put_counts(out, *consistency, *required, *alive)
            }
            FailureKind::WriteTimeout { consistency, received, block_for, write_type, contentions } => {
                put_counts(out, *consistency, *received, *block_for);
                put_string(out, write_type.name());
                if version == Version::V5 && *write_type == WriteType::Cas {
                    put_short(out, *contentions);
                }
            }
            FailureKind::ReadTimeout { consistency, received, block_for, data_present } => {
                put_counts(out, *consistency, *received, *block_for);
                out.push(u8::from(*data_present));
            }
            FailureKind::ReadFailure { consistency, received, block_for, failures, data_present } => {
                put_counts(out, *consistency, *received, *block_for);
                failures.encode(out, version);
                out.push(u8::from(*data_present));
            }
            FailureKind::WriteFailure { consistency, received, block_for, failures, write_type } => {
                put_counts(out, *consistency, *received, *block_for);
                failures.encode(out, version);
                put_string(out, write_type.name());
            }
            FailureKind::Function { keyspace, function, arguments } => {
                put_string(out, keyspace);
                put_string(out, function);
                put_string_list(out, arguments);
            }
            FailureKind::CasWriteUnknown { consistency, received, block_for } => {
                put_counts(out, *consistency, *received, *block_for)
            }
            FailureKind::AlreadyExists { keyspace, table } => {
                put_string(out, keyspace);
                put_string(out, table);
            }
            FailureKind::Unprepared { id } => put_short_bytes(out, id),
        }
    }

    /// What a client is told whose version has no code for this: as Cassandra, failures of replicas are timeouts, an unknown
    /// conditional write is one, what is left is invalid.
    fn before_v5(&self, version: Version) -> Option<Failure> {
        let timed_out = |received: &i32| format!("Operation timed out - received only {received} responses.");
        let (kind, message) = match &self.kind {
            FailureKind::CasWriteUnknown { consistency, received, block_for } => {
                let kind = FailureKind::WriteTimeout {
                    consistency: *consistency,
                    received: *received,
                    block_for: *block_for,
                    write_type: WriteType::Cas,
                    contentions: 0,
                };
                (kind, timed_out(received))
            }
            _ if Version::V4 <= version => return None,
            FailureKind::ReadFailure { consistency, received, block_for, data_present, .. } => {
                let kind = FailureKind::ReadTimeout {
                    consistency: *consistency,
                    received: *received,
                    block_for: *block_for,
                    data_present: *data_present,
                };
                (kind, timed_out(received))
            }
            FailureKind::WriteFailure { consistency, received, block_for, write_type, .. } => {
                let kind = FailureKind::WriteTimeout {
                    consistency: *consistency,
                    received: *received,
                    block_for: *block_for,
                    write_type: *write_type,
                    contentions: 0,
                };
                (kind, timed_out(received))
            }
            FailureKind::Function { .. } => {
                (FailureKind::Invalid, format!("ERROR FUNCTION_FAILURE: {}", self.message))
            }
            FailureKind::CdcWrite => {
                (FailureKind::Invalid, format!("ERROR CDC_WRITE_FAILURE: {}", self.message))
            }
            _ => return None,
        };
        Some(Failure { kind, message })
    }

    /// Reads the body of an ERROR. An unknown code becomes a server error.
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Failure, Error> {
        let code = reader.int()?;
        let message = reader.string()?.to_owned();
        let kind = match code {
            0x000A => FailureKind::Protocol,
            0x0100 => FailureKind::BadCredentials,
            0x1000 => FailureKind::Unavailable {
                consistency: reader.consistency()?,
                required: reader.int()?,
                alive: reader.int()?,
            },
            0x1001 => FailureKind::Overloaded,
            0x1002 => FailureKind::Bootstrapping,
            0x1003 => FailureKind::Truncate,
            0x1100..=0x1500 | 0x1700 => decode_counted(code, reader, version)?,
            0x1600 => FailureKind::CdcWrite,
            0x2000 => FailureKind::Syntax,
            0x2100 => FailureKind::Unauthorized,
            0x2200 => FailureKind::Invalid,
            0x2300 => FailureKind::Config,
            0x2400 => FailureKind::AlreadyExists {
                keyspace: reader.string()?.to_owned(),
                table: reader.string()?.to_owned(),
            },
            0x2500 => FailureKind::Unprepared { id: reader.short_bytes()?.to_vec() },
            _ => FailureKind::Server,
        };
        Ok(Failure { kind, message })
    }
}

fn decode_counted(code: i32, reader: &mut Reader<'_>, version: Version) -> Result<FailureKind, Error> {
    if code == 0x1400 {
        return Ok(FailureKind::Function {
            keyspace: reader.string()?.to_owned(),
            function: reader.string()?.to_owned(),
            arguments: reader.string_list()?.into_iter().map(String::from).collect(),
        });
    }
    let consistency = reader.consistency()?;
    let received = reader.int()?;
    let block_for = reader.int()?;
    Ok(match code {
        0x1100 => {
            let write_type = WriteType::parse(reader.string()?)?;
            let counted = version == Version::V5 && write_type == WriteType::Cas;
            let contentions = if counted { reader.short()? } else { 0 };
            FailureKind::WriteTimeout { consistency, received, block_for, write_type, contentions }
        }
        0x1200 => {
            FailureKind::ReadTimeout { consistency, received, block_for, data_present: reader.byte()? != 0 }
        }
        0x1300 => FailureKind::ReadFailure {
            consistency,
            received,
            block_for,
            failures: Failures::decode(reader, version)?,
            data_present: reader.byte()? != 0,
        },
        0x1500 => FailureKind::WriteFailure {
            consistency,
            received,
            block_for,
            failures: Failures::decode(reader, version)?,
            write_type: WriteType::parse(reader.string()?)?,
        },
        0x1700 => FailureKind::CasWriteUnknown { consistency, received, block_for },
        _ => FailureKind::Server,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<FailureKind> {
        let consistency = Consistency::Quorum;
        let (received, block_for) = (1, 2);
        let failures = Failures::of(vec![
            ("10.0.0.1".parse().expect("an address"), FailureReason::Timeout),
            ("::1".parse().expect("an address"), FailureReason::NodeDown),
        ]);
        vec![
            FailureKind::Server,
            FailureKind::Protocol,
            FailureKind::BadCredentials,
            FailureKind::Unavailable { consistency, required: 2, alive: 1 },
            FailureKind::Overloaded,
            FailureKind::Bootstrapping,
            FailureKind::Truncate,
            FailureKind::WriteTimeout {
                consistency,
                received,
                block_for,
                write_type: WriteType::Cas,
                contentions: 3,
            },
            FailureKind::ReadTimeout { consistency, received, block_for, data_present: true },
            FailureKind::ReadFailure {
                consistency,
                received,
                block_for,
                failures: failures.clone(),
                data_present: false,
            },
            FailureKind::Function {
                keyspace: "k".into(),
                function: "f".into(),
                arguments: vec!["int".into()],
            },
            FailureKind::WriteFailure {
                consistency,
                received,
                block_for,
                failures,
                write_type: WriteType::BatchLog,
            },
            FailureKind::CdcWrite,
            FailureKind::CasWriteUnknown { consistency, received, block_for },
            FailureKind::Syntax,
            FailureKind::Unauthorized,
            FailureKind::Invalid,
            FailureKind::Config,
            FailureKind::AlreadyExists { keyspace: "k".into(), table: "t".into() },
            FailureKind::Unprepared { id: vec![1, 2] },
        ]
    }

    #[test]
    fn every_failure_round_trips_on_v5() {
        for kind in all() {
            let failure = Failure::new(kind, "text");
            let mut out = Vec::new();
            failure.encode(&mut out, Version::V5);
            let mut reader = Reader::new(&out);
            assert_eq!(Failure::decode(&mut reader, Version::V5), Ok(failure));
            assert!(reader.rest().is_empty());
        }
    }

    #[test]
    fn v4_loses_only_what_it_has_no_room_for() {
        for kind in all() {
            let mut out = Vec::new();
            Failure::new(kind.clone(), "text").encode(&mut out, Version::V4);
            let mut reader = Reader::new(&out);
            let back = Failure::decode(&mut reader, Version::V4).expect("our own bytes");
            assert!(reader.rest().is_empty());
            match (&kind, &back.kind) {
                (
                    FailureKind::CasWriteUnknown { .. },
                    FailureKind::WriteTimeout { write_type: WriteType::Cas, .. },
                ) => {}
                (FailureKind::WriteTimeout { .. }, FailureKind::WriteTimeout { contentions: 0, .. }) => {}
                (FailureKind::ReadFailure { .. }, FailureKind::ReadFailure { failures, .. })
                | (FailureKind::WriteFailure { .. }, FailureKind::WriteFailure { failures, .. }) => {
                    assert_eq!((failures.count, failures.reasons.len()), (2, 0));
                }
                (kind, back) => assert_eq!(kind, back),
            }
        }
    }

    /// What a client of version 3 is told, as Cassandra tells it.
    #[test]
    fn v3_knows_timeouts_and_invalid_requests_instead() {
        for kind in all() {
            let mut out = Vec::new();
            Failure::new(kind.clone(), "text").encode(&mut out, Version::V3);
            let mut reader = Reader::new(&out);
            let back = Failure::decode(&mut reader, Version::V3).expect("our own bytes");
            assert!(reader.rest().is_empty());
            let timeout = "Operation timed out - received only 1 responses.";
            match (&kind, &back.kind) {
                (FailureKind::ReadFailure { .. }, FailureKind::ReadTimeout { data_present: false, .. }) => {
                    assert_eq!(back.message, timeout);
                }
                (FailureKind::WriteFailure { .. }, FailureKind::WriteTimeout { write_type, .. }) => {
                    assert_eq!((&*back.message, write_type), (timeout, &WriteType::BatchLog));
                }
                (
                    FailureKind::CasWriteUnknown { .. },
                    FailureKind::WriteTimeout { write_type: WriteType::Cas, .. },
                ) => {}
                (FailureKind::WriteTimeout { .. }, FailureKind::WriteTimeout { contentions: 0, .. }) => {}
                (FailureKind::Function { .. }, FailureKind::Invalid) => {
                    assert_eq!(back.message, "ERROR FUNCTION_FAILURE: text");
                }
                (FailureKind::CdcWrite, FailureKind::Invalid) => {
                    assert_eq!(back.message, "ERROR CDC_WRITE_FAILURE: text");
                }
                (kind, back) => assert_eq!(kind, back),
            }
        }
    }

    #[test]
    fn names_are_at_their_own_places() {
        for (at, (kind, _)) in WRITE_TYPES.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
    }
}
