//! Responses: what the engine says, in the protocol's words. Errors become codes here and nowhere else.

use cluster::{ChangeKind, SchemaEvent, Target};
use protocol::envelope::{self, Direction, Opcode, Version};
use protocol::event::Target as EventTarget;
use protocol::event::{Change, SchemaChange};
use protocol::extras::Extras;
use protocol::failure::{Failure, FailureKind, FailureReason, Failures, WriteType};
use protocol::metadata::put_rows_metadata;
use protocol::response::Reply;
use protocol::wire::put_int;
use query::{Answer, Error, Outcome, Reason, Rows, WriteKind};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The RESULT kind of rows; it must never change.
const RESULT_ROWS: i32 = 2;

/// Appends one response without warnings.
pub(crate) fn reply(out: &mut Vec<u8>, version: Version, stream: i16, reply: &Reply<'_>) {
    reply.encode(out, version, stream, &Extras::default());
}

/// Appends ERROR; `trace_id` if the request was asked to be traced.
pub(crate) fn error(
    out: &mut Vec<u8>,
    version: Version,
    stream: i16,
    error: &Error,
    trace_id: Option<[u8; 16]>,
) {
    let extras = Extras { trace_id, warnings: &[] };
    Reply::Error(&failure(error)).encode(out, version, stream, &extras);
}

/// Appends the RESULT of a statement; `trace_id` if it was asked to be traced.
pub(crate) fn answer(
    out: &mut Vec<u8>,
    version: Version,
    stream: i16,
    answer: &Answer,
    trace_id: Option<[u8; 16]>,
) {
    let extras = Extras { trace_id, warnings: &answer.warnings };
    match &answer.outcome {
        Outcome::Void => Reply::Void.encode(out, version, stream, &extras),
        Outcome::Rows(answered) => rows(out, version, stream, &extras, answered),
        Outcome::SetKeyspace(keyspace) => {
            Reply::SetKeyspace(keyspace).encode(out, version, stream, &extras);
        }
        Outcome::SchemaChange(event) => {
            Reply::SchemaChange(&schema_change(event)).encode(out, version, stream, &extras);
        }
        Outcome::Prepared(prepared) => Reply::Prepared(prepared).encode(out, version, stream, &extras),
    }
}

fn rows(out: &mut Vec<u8>, version: Version, stream: i16, extras: &Extras<'_>, rows: &Rows) {
    out.reserve(64 + rows.content.len());
    let begun =
        envelope::begin(out, Direction::Responses, version, stream, Opcode::Result, extras.flags(version));
    extras.encode(out, version);
    put_int(out, RESULT_ROWS);
    put_rows_metadata(out, version, &rows.metadata.columns, rows.header());
    put_int(out, rows.count as i32);
    out.extend_from_slice(&rows.content);
    envelope::finish(out, begun);
}

/// A schema event in the protocol's words.
pub(crate) fn schema_change(event: &SchemaEvent) -> SchemaChange {
    SchemaChange {
        change: match event.kind {
            ChangeKind::Created => Change::Created,
            ChangeKind::Updated => Change::Updated,
            ChangeKind::Dropped => Change::Dropped,
        },
        keyspace: event.keyspace.clone(),
        target: match event.target {
            Target::Keyspace => EventTarget::Keyspace,
            Target::Table => EventTarget::Table(event.name.clone()),
            Target::Type => EventTarget::Type(event.name.clone()),
        },
    }
}

/// The code and fields of an error.
fn failure(error: &Error) -> Failure {
    let kind = match error {
        Error::Syntax(_) => FailureKind::Syntax,
        Error::Invalid(_) => FailureKind::Invalid,
        Error::Unauthorized(_) => FailureKind::Unauthorized,
        Error::Config(_) => FailureKind::Config,
        Error::AlreadyExists { keyspace, table, .. } => {
            FailureKind::AlreadyExists { keyspace: keyspace.clone(), table: table.clone() }
        }
        Error::Unprepared { id } => FailureKind::Unprepared { id: id.clone() },
        Error::Protocol(_) => FailureKind::Protocol,
        Error::Overloaded(_) => FailureKind::Overloaded,
        Error::Truncate(_) => FailureKind::Truncate,
        Error::BadCredentials(_) => FailureKind::BadCredentials,
        Error::Function { name, arguments, .. } => FailureKind::Function {
            keyspace: "system".to_string(),
            function: name.clone(),
            arguments: arguments.clone(),
        },
        Error::Server(_) => FailureKind::Server,
        Error::Unavailable { consistency, required, alive, .. } => FailureKind::Unavailable {
            consistency: *consistency,
            required: *required as i32,
            alive: *alive as i32,
        },
        Error::ReadTimeout { consistency, received, required, data_present } => FailureKind::ReadTimeout {
            consistency: *consistency,
            received: *received as i32,
            block_for: *required as i32,
            data_present: *data_present,
        },
        Error::WriteTimeout { consistency, received, required, write_kind } => FailureKind::WriteTimeout {
            consistency: *consistency,
            received: *received as i32,
            block_for: *required as i32,
            write_type: write_type(*write_kind),
            contentions: 0,
        },
        Error::CasTimeout { consistency, received, required, contention, .. } => FailureKind::WriteTimeout {
            consistency: *consistency,
            received: *received as i32,
            block_for: *required as i32,
            write_type: WriteType::Cas,
            contentions: u16::try_from(*contention).unwrap_or(u16::MAX),
        },
        Error::CasUnknown { consistency, received, required, .. } => FailureKind::CasWriteUnknown {
            consistency: *consistency,
            received: *received as i32,
            block_for: *required as i32,
        },
        Error::ReadFailure { consistency, received, required, failures: failed, data_present, .. } => {
            FailureKind::ReadFailure {
                consistency: *consistency,
                received: *received as i32,
                block_for: *required as i32,
                failures: failures(failed),
                data_present: *data_present,
            }
        }
        Error::WriteFailure { consistency, received, required, failures: failed, write_kind, .. } => {
            FailureKind::WriteFailure {
                consistency: *consistency,
                received: *received as i32,
                block_for: *required as i32,
                failures: failures(failed),
                write_type: write_type(*write_kind),
            }
        }
    };
    Failure::new(kind, error.to_string())
}

/// Who failed and why: a map in v5, which keeps the last reason of a replica that failed several times.
fn failures(failed: &[(IpAddr, Reason)]) -> Failures {
    let by_address: BTreeMap<IpAddr, FailureReason> =
        failed.iter().map(|(from, why)| (*from, failure_reason(*why))).collect();
    Failures::of(by_address.into_iter().collect())
}

fn failure_reason(reason: Reason) -> FailureReason {
    match reason {
        Reason::Unknown => FailureReason::Unknown,
        Reason::ReadTooManyTombstones => FailureReason::ReadTooManyTombstones,
        Reason::Timeout => FailureReason::Timeout,
        Reason::IncompatibleSchema => FailureReason::IncompatibleSchema,
    }
}

fn write_type(kind: WriteKind) -> WriteType {
    match kind {
        WriteKind::Simple => WriteType::Simple,
        WriteKind::Batch => WriteType::Batch,
        WriteKind::UnloggedBatch => WriteType::UnloggedBatch,
        WriteKind::Counter => WriteType::Counter,
        WriteKind::BatchLog => WriteType::BatchLog,
        WriteKind::Cas => WriteType::Cas,
    }
}

#[cfg(test)]
mod tests {
    //! What clients of each version are told of replicas that failed.
    use super::*;
    use protocol::envelope::Header;
    use protocol::limits::HEADER_BYTES;
    use protocol::response::Response;
    use types::Consistency;

    fn told(version: Version, failed: &Error) -> (u8, Failure) {
        let mut out = Vec::new();
        error(&mut out, version, 3, failed, Some([7; 16]));
        let header = Header::parse(&out, Direction::Responses).unwrap().unwrap();
        match Response::decode(&header, &out[HEADER_BYTES..]).unwrap() {
            Response::Error(failure) => (header.flags, failure),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unknown_outcome_has_a_code_of_its_own_since_version_5() {
        let (consistency, received, required) = (Consistency::Serial, 1, 2);
        let text = String::new();
        let unknown = Error::CasUnknown { text: text.clone(), consistency, received, required };
        let counted = FailureKind::CasWriteUnknown { consistency, received: 1, block_for: 2 };
        assert_eq!(told(Version::V5, &unknown).1.kind, counted);
        let timeout = |contentions| FailureKind::WriteTimeout {
            consistency,
            received: 1,
            block_for: 2,
            write_type: WriteType::Cas,
            contentions,
        };
        assert_eq!(told(Version::V4, &unknown).1.kind, timeout(0));
        let late = Error::CasTimeout { text, consistency, received, required, contention: 7 };
        assert_eq!(told(Version::V5, &late).1.kind, timeout(7));
        assert_eq!(told(Version::V3, &late).1.kind, timeout(0));
    }

    #[test]
    fn replicas_that_failed_are_named_as_far_as_the_version_goes() {
        let at = |last: u8| IpAddr::from([10, 0, 0, last]);
        let failures = vec![(at(2), Reason::ReadTooManyTombstones), (at(1), Reason::IncompatibleSchema)];
        let error = Error::ReadFailure {
            reason: "said".into(),
            consistency: Consistency::Quorum,
            received: 1,
            required: 2,
            failures,
            data_present: true,
        };
        let counted = |failures| FailureKind::ReadFailure {
            consistency: Consistency::Quorum,
            received: 1,
            block_for: 2,
            failures,
            data_present: true,
        };
        let reasons =
            vec![(at(1), FailureReason::IncompatibleSchema), (at(2), FailureReason::ReadTooManyTombstones)];
        let (flags, v5) = told(Version::V5, &error);
        assert_eq!((flags, v5.kind), (2, counted(Failures { count: 2, reasons })));
        assert_eq!(
            v5.message,
            "Operation failed - received 1 responses and 2 failures: READ_TOO_MANY_TOMBSTONES from /10.0.0.2, \
             INCOMPATIBLE_SCHEMA from /10.0.0.1 (said)"
        );
        let (_, v4) = told(Version::V4, &error);
        assert_eq!(v4.kind, counted(Failures { count: 2, reasons: Vec::new() }));
        let (_, v3) = told(Version::V3, &error);
        let timeout = FailureKind::ReadTimeout {
            consistency: Consistency::Quorum,
            received: 1,
            block_for: 2,
            data_present: true,
        };
        assert_eq!(v3.kind, timeout);
    }
}
