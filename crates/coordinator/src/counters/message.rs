//! What a coordinator sends to the leader of a partition of counters, and how it answers.
//!
//! ```text
//! request   u16 consistency level, u32 count, (u32 length + mutation)*: increments of one partition
//! answer    u8 0 done   u8 1 again + u64 version   u8 2 unavailable + u32 required, u32 alive, name of datacenter or nothing
//!           u8 3 timeout + u32 received, u32 required
//!           u8 4 failure + u32 received, u32 required, u16 count, (u8 reason, u8 4 or 16, address)*, text
//!           u8 5 invalid + text   u8 6 unknown table
//! ```
//! Must never change: kinds of answers are only ever added.

use crate::error::{Error, WriteKind};
use base::ByteReader;
use mutation::Mutation;
use replica::Reason;
use std::net::IpAddr;
use types::Consistency;

/// The verb of these messages. Must never change.
pub(crate) const VERB_COUNT: u8 = 42;

/// Appends a request.
pub(super) fn encode_request(consistency: Consistency, increments: &[Mutation], out: &mut Vec<u8>) {
    out.extend_from_slice(&consistency.code().to_be_bytes());
    out.extend_from_slice(&(increments.len() as u32).to_be_bytes());
    for increment in increments {
        out.extend_from_slice(&(increment.as_bytes().len() as u32).to_be_bytes());
        out.extend_from_slice(increment.as_bytes());
    }
}

/// Reads a request; `None`: it is malformed.
pub(super) fn decode_request(bytes: &[u8]) -> Option<(Consistency, Vec<Mutation>)> {
    let mut input = ByteReader::new(bytes);
    let consistency = Consistency::try_from(input.u16().ok()?).ok()?;
    let count = input.u32().ok()?;
    let mut increments = Vec::new();
    for _ in 0..count {
        let len = input.u32().ok()? as usize;
        increments.push(Mutation::from_bytes(input.bytes(len).ok()?.to_vec()).ok()?);
    }
    input.is_empty().then_some((consistency, increments))
}

/// How a leader answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Led {
    /// With this for the client.
    Told(Result<(), Error>),
    /// It does not lead, or knows a newer version, which is named: nothing was counted.
    Again(u64),
}

impl Led {
    /// Appends an answer.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut numbers = |kind: u8, first: usize, second: usize| {
            out.push(kind);
            out.extend_from_slice(&(first as u32).to_be_bytes());
            out.extend_from_slice(&(second as u32).to_be_bytes());
        };
        match self {
            Led::Told(Ok(())) => out.push(0),
            Led::Again(version) => {
                out.push(1);
                out.extend_from_slice(&version.to_be_bytes());
            }
            Led::Told(Err(Error::Unavailable { required, alive, dc, .. })) => {
                numbers(2, *required, *alive);
                out.extend_from_slice(dc.as_deref().unwrap_or_default().as_bytes());
            }
            Led::Told(Err(
                Error::Timeout { received, required, .. }
                | Error::CasTimeout { received, required, .. }
                | Error::CasUnknown { received, required, .. },
            )) => numbers(3, *received, *required),
            Led::Told(Err(Error::Failure { received, required, failures, reason, .. })) => {
                numbers(4, *received, *required);
                out.extend_from_slice(&(failures.len() as u16).to_be_bytes());
                for (from, why) in failures {
                    out.push(*why as u8);
                    match from {
                        IpAddr::V4(address) => {
                            out.push(4);
                            out.extend_from_slice(&address.octets());
                        }
                        IpAddr::V6(address) => {
                            out.push(16);
                            out.extend_from_slice(&address.octets());
                        }
                    }
                }
                out.extend_from_slice(reason.as_bytes());
            }
            Led::Told(Err(Error::Invalid(text))) => {
                out.push(5);
                out.extend_from_slice(text.as_bytes());
            }
            Led::Told(Err(Error::UnknownTable)) => out.push(6),
        }
    }

    /// Reads an answer to a request at this level; `None`: it is malformed.
    pub(super) fn decode(bytes: &[u8], consistency: Consistency) -> Option<Led> {
        let mut input = ByteReader::new(bytes);
        let kind = input.u8().ok()?;
        let number = |input: &mut ByteReader<'_>| input.u32().ok().map(|number| number as usize);
        let text = |input: &ByteReader<'_>| String::from_utf8_lossy(input.rest()).into_owned();
        let write = Some(WriteKind::Counter);
        Some(Led::Told(Err(match kind {
            0 => return Some(Led::Told(Ok(()))),
            1 => return Some(Led::Again(input.u64().ok()?)),
            2 => {
                let (required, alive) = (number(&mut input)?, number(&mut input)?);
                let dc = Some(text(&input)).filter(|dc| !dc.is_empty());
                Error::Unavailable { consistency, required, alive, dc }
            }
            3 => {
                let (received, required) = (number(&mut input)?, number(&mut input)?);
                Error::Timeout { consistency, received, required, data_present: false, write }
            }
            4 => {
                let (received, required) = (number(&mut input)?, number(&mut input)?);
                let count = input.u16().ok()?;
                let mut failures = Vec::new();
                for _ in 0..count {
                    let why = match input.u8().ok()? {
                        1 => Reason::ReadTooManyTombstones,
                        2 => Reason::Timeout,
                        3 => Reason::IncompatibleSchema,
                        _ => Reason::Unknown,
                    };
                    let from = match input.u8().ok()? {
                        4 => IpAddr::from(input.array::<4>().ok()?),
                        16 => IpAddr::from(input.array::<16>().ok()?),
                        _ => return None,
                    };
                    failures.push((from, why));
                }
                let reason = text(&input);
                Error::Failure {
                    consistency,
                    received,
                    required,
                    failures,
                    data_present: false,
                    write,
                    reason,
                }
            }
            5 => Error::Invalid(text(&input)),
            6 => Error::UnknownTable,
            _ => return None,
        })))
    }
}

#[cfg(test)]
mod tests {
    //! Every answer is read back as it was given; what is cut is no answer.
    use super::*;
    use base::Token;
    use mutation::{Deletion, MutationBuilder};
    use schema::TableId;

    #[test]
    fn answers_read_back() {
        let consistency = Consistency::EachQuorum;
        let write = Some(WriteKind::Counter);
        let failures = vec![
            (IpAddr::from([127, 0, 0, 3]), Reason::IncompatibleSchema),
            (IpAddr::from([1u16, 2, 3, 4, 5, 6, 7, 8]), Reason::Unknown),
        ];
        let answers = [
            Led::Told(Ok(())),
            Led::Again(77),
            Led::Told(Err(Error::Unavailable { consistency, required: 2, alive: 1, dc: Some("dc2".into()) })),
            Led::Told(Err(Error::Unavailable { consistency, required: 3, alive: 0, dc: None })),
            Led::Told(Err(Error::Timeout {
                consistency,
                received: 1,
                required: 2,
                data_present: false,
                write,
            })),
            Led::Told(Err(Error::Failure {
                consistency,
                received: 1,
                required: 3,
                failures,
                data_present: false,
                write,
                reason: "full".into(),
            })),
            Led::Told(Err(Error::Invalid("too large".into()))),
            Led::Told(Err(Error::UnknownTable)),
        ];
        for answer in answers {
            let mut bytes = Vec::new();
            answer.encode(&mut bytes);
            assert_eq!(Led::decode(&bytes, consistency), Some(answer));
        }
        assert_eq!(Led::decode(&[], consistency), None);
        assert_eq!(Led::decode(&[4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 5], consistency), None);
        assert_eq!(Led::decode(&[9], consistency), None);
    }

    #[test]
    fn requests_read_back() {
        let mut builder = MutationBuilder::new(TableId(1), Token(5), b"k");
        builder.deletion(Deletion { timestamp: 1, local_time: 1 });
        let increments = vec![builder.finish()];
        let mut bytes = Vec::new();
        encode_request(Consistency::LocalQuorum, &increments, &mut bytes);
        assert_eq!(decode_request(&bytes), Some((Consistency::LocalQuorum, increments)));
        for cut in 0..bytes.len() {
            assert_eq!(decode_request(&bytes[..cut]), None, "{cut}");
        }
    }
}
