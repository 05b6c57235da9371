//! What a node without a cluster asks its seeds, and what they answer, as bytes.
//!
//! ```text
//! question   host id, address of who asks
//! answer     host id, name, kind (0 no cluster, 1 joining, 2 cluster), cluster id, flags, number of seeds, each seed's address
//! flags      1 it holds data of a lone node   2 who asks is a member   4 who asks is refused   8 the address is that of a member
//! ```
//! Fields as in [`rpc::fields`]: only ever appended, with defaults.

use base::HostId;
use core::net::SocketAddr;
use group0::{Answer, SeedAnswer, Standing};
use rpc::Malformed;
use rpc::fields::{FieldReader, FieldWriter};
use std::collections::BTreeSet;

/// Longest name of a cluster and text of an address, bytes.
const TEXT_MAX: usize = 1 << 16;

const LONE: u64 = 1;
const MEMBER: u64 = 2;
const REFUSED: u64 = 4;
const HAS_ADDRESS: u64 = 8;

pub(crate) fn encode_question(host: HostId, address: SocketAddr, out: &mut Vec<u8>) {
    FieldWriter::new(out).u128(host.0).text(&address.to_string());
}

pub(crate) fn decode_question(bytes: &[u8]) -> Result<(HostId, SocketAddr), Malformed> {
    let mut fields = FieldReader::new("question to a seed", bytes);
    let host = HostId(fields.u128()?);
    Ok((host, address(&mut fields)?))
}

fn address(fields: &mut FieldReader<'_>) -> Result<SocketAddr, Malformed> {
    let text = fields.text(TEXT_MAX)?;
    text.parse().map_err(|_| Malformed { what: "seed", reason: "no address" })
}

pub(crate) fn encode_answer(answer: &Answer, out: &mut Vec<u8>) {
    let (kind, id, flags) = match answer.what {
        SeedAnswer::NoCluster { lone } => (0, 0, if lone { LONE } else { 0 }),
        SeedAnswer::Joining(id) => (1, id, 0),
        SeedAnswer::Cluster { id, you, has_address } => {
            let you = match you {
                Standing::Unknown => 0,
                Standing::Member => MEMBER,
                Standing::Refused => REFUSED,
            };
            (2, id, you | if has_address { HAS_ADDRESS } else { 0 })
        }
    };
    let mut fields = FieldWriter::new(out);
    fields.u128(answer.host_id.0).text(&answer.name).u64(kind).u128(id).u64(flags);
    fields.u64(answer.seeds.len() as u64);
    for seed in &answer.seeds {
        fields.text(&seed.to_string());
    }
}

pub(crate) fn decode_answer(bytes: &[u8]) -> Result<Answer, Malformed> {
    if bytes.is_empty() {
        return Err(Malformed { what: "answer of a seed", reason: "it has not started yet" });
    }
    let mut fields = FieldReader::new("answer of a seed", bytes);
    let host_id = HostId(fields.u128()?);
    let name = fields.text(TEXT_MAX)?;
    let (kind, id, flags) = (fields.u64()?, fields.u128()?, fields.u64()?);
    let has = |flag: u64| flags & flag != 0;
    let what = match kind {
        0 => SeedAnswer::NoCluster { lone: has(LONE) },
        1 => SeedAnswer::Joining(id),
        2 => {
            let you = match (has(REFUSED), has(MEMBER)) {
                (true, _) => Standing::Refused,
                (false, true) => Standing::Member,
                (false, false) => Standing::Unknown,
            };
            SeedAnswer::Cluster { id, you, has_address: has(HAS_ADDRESS) }
        }
        _ => return Err(Malformed { what: "answer of a seed", reason: "of a later release" }),
    };
    let mut seeds = BTreeSet::new();
    for _ in 0..fields.u64()? {
        seeds.insert(address(&mut fields)?);
    }
    Ok(Answer { host_id, name, seeds, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_come_back_from_their_bytes() {
        let here: SocketAddr = "127.0.0.1:7000".parse().expect("an address");
        let mut bytes = Vec::new();
        encode_question(HostId(7), here, &mut bytes);
        assert_eq!(decode_question(&bytes), Ok((HostId(7), here)));
        let seeds: BTreeSet<SocketAddr> = [here, "[::1]:7001".parse().expect("an address")].into();
        let standings = [Standing::Unknown, Standing::Member, Standing::Refused];
        let cluster = standings.map(|you| SeedAnswer::Cluster { id: 9, you, has_address: true });
        let others = [
            SeedAnswer::NoCluster { lone: true },
            SeedAnswer::NoCluster { lone: false },
            SeedAnswer::Joining(9),
        ];
        for what in cluster.into_iter().chain(others) {
            let answer = Answer { host_id: HostId(3), name: "c".into(), seeds: seeds.clone(), what };
            let mut bytes = Vec::new();
            encode_answer(&answer, &mut bytes);
            assert_eq!(decode_answer(&bytes).as_ref(), Ok(&answer));
            bytes.pop();
            assert!(decode_answer(&bytes).is_err());
        }
        assert!(decode_answer(&[]).is_err());
    }
}
