//! Bytes of log entries, votes and the messages between peers. Decoding never panics.
//!
//! ```text
//! log id   = u64 term, u64 node, u64 index          option = u8 0 | 1 + value
//! vote     = u64 term, u64 node, u8 committed
//! entry    = log id, u8 kind (0 blank, 1 command, 2 membership), body
//! members  = u32 configs × (u32 n × u64), u32 nodes × (u64 id, u32 len + address)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteReader, Truncated};
use openraft::impls::leader_id_adv::LeaderId;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use openraft::{BasicNode, EntryPayload, Membership};

use crate::{Command, Entry, LogId, Members, SnapshotMeta, StoredMembers, Types, Vote};

/// Bytes that are no message of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the format needs: drop the connection, or end the log there.
    #[error("message is cut short")]
    Short,
    /// An unknown kind or an impossible value: drop the connection, or end the log there.
    #[error("message has an unknown kind {0}")]
    Kind(u8),
}

impl From<Truncated> for DecodeError {
    fn from(_: Truncated) -> DecodeError {
        DecodeError::Short
    }
}

/// Reader over one message.
pub type In<'a> = ByteReader<'a>;
type Result<T> = std::result::Result<T, DecodeError>;

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}

fn bytes(input: &mut In) -> Result<Vec<u8>> {
    let len = input.u32()? as usize;
    Ok(input.bytes(len)?.to_vec())
}

/// A count that cannot be larger than the bytes that follow.
fn count(input: &mut In) -> Result<usize> {
    let n = input.u32()? as usize;
    if n > input.remaining() { Err(DecodeError::Short) } else { Ok(n) }
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_be_bytes());
}

pub(crate) fn put_log_id(out: &mut Vec<u8>, id: &LogId) {
    put_u64(out, id.leader_id.term);
    put_u64(out, id.leader_id.node_id);
    put_u64(out, id.index);
}

pub(crate) fn log_id(input: &mut In) -> Result<LogId> {
    let leader_id = LeaderId { term: input.u64()?, node_id: input.u64()? };
    Ok(LogId { leader_id, index: input.u64()? })
}

pub(crate) fn put_opt_log_id(out: &mut Vec<u8>, id: &Option<LogId>) {
    out.push(u8::from(id.is_some()));
    if let Some(id) = id {
        put_log_id(out, id);
    }
}

pub(crate) fn opt_log_id(input: &mut In) -> Result<Option<LogId>> {
    match input.u8()? {
        0 => Ok(None),
        1 => Ok(Some(log_id(input)?)),
        kind => Err(DecodeError::Kind(kind)),
    }
}

pub(crate) fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    put_u64(out, vote.leader_id().term);
    put_u64(out, vote.leader_id().node_id);
    out.push(u8::from(vote.is_committed()));
}

pub(crate) fn vote(input: &mut In) -> Result<Vote> {
    let (term, node) = (input.u64()?, input.u64()?);
    Ok(if input.u8()? == 1 { Vote::new_committed(term, node) } else { Vote::new(term, node) })
}

fn put_members(out: &mut Vec<u8>, members: &Members) {
    let configs = members.get_joint_config();
    out.extend((configs.len() as u32).to_be_bytes());
    for config in configs {
        out.extend((config.len() as u32).to_be_bytes());
        config.iter().for_each(|id| put_u64(out, *id));
    }
    let nodes: Vec<_> = members.nodes().collect();
    out.extend((nodes.len() as u32).to_be_bytes());
    for (id, node) in nodes {
        put_u64(out, *id);
        put_bytes(out, node.addr.as_bytes());
    }
}

fn members(input: &mut In) -> Result<Members> {
    let mut configs = Vec::new();
    for _ in 0..count(input)? {
        let mut config = BTreeSet::new();
        for _ in 0..count(input)? {
            config.insert(input.u64()?);
        }
        configs.push(config);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..count(input)? {
        let id = input.u64()?;
        let addr = String::from_utf8(bytes(input)?).map_err(|_| DecodeError::Kind(b'a'))?;
        nodes.insert(id, BasicNode::new(addr));
    }
    if configs.is_empty() && nodes.is_empty() {
        return Ok(Members::default());
    }
    Membership::new(configs, nodes).map_err(|_| DecodeError::Kind(b'm'))
}

pub(crate) fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_log_id(out, &entry.log_id);
    match &entry.payload {
        EntryPayload::Blank => out.push(0),
        EntryPayload::Normal(command) => {
            out.push(1);
            put_bytes(out, &command.0);
        }
        EntryPayload::Membership(m) => {
            out.push(2);
            put_members(out, m);
        }
    }
}

pub(crate) fn entry(input: &mut In) -> Result<Entry> {
    let log_id = log_id(input)?;
    let payload = match input.u8()? {
        0 => EntryPayload::Blank,
        1 => EntryPayload::Normal(Command(bytes(input)?)),
        2 => EntryPayload::Membership(members(input)?),
        kind => return Err(DecodeError::Kind(kind)),
    };
    Ok(Entry { log_id, payload })
}

pub(crate) fn put_meta(out: &mut Vec<u8>, meta: &SnapshotMeta) {
    put_opt_log_id(out, &meta.last_log_id);
    put_opt_log_id(out, meta.last_membership.log_id());
    put_members(out, meta.last_membership.membership());
}

pub(crate) fn meta(input: &mut In) -> Result<SnapshotMeta> {
    let last_log_id = opt_log_id(input)?;
    let at = opt_log_id(input)?;
    Ok(SnapshotMeta { last_log_id, last_membership: StoredMembers::new(at, members(input)?) })
}

pub(crate) fn put_append(out: &mut Vec<u8>, request: &AppendEntriesRequest<Types>) {
    put_vote(out, &request.vote);
    put_opt_log_id(out, &request.prev_log_id);
    put_opt_log_id(out, &request.leader_commit);
    out.extend((request.entries.len() as u32).to_be_bytes());
    request.entries.iter().for_each(|e| put_entry(out, e));
}

pub(crate) fn append(input: &mut In) -> Result<AppendEntriesRequest<Types>> {
    let vote = vote(input)?;
    let prev_log_id = opt_log_id(input)?;
    let leader_commit = opt_log_id(input)?;
    let mut entries = Vec::new();
    for _ in 0..count(input)? {
        entries.push(entry(input)?);
    }
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

pub(crate) fn put_append_answer(out: &mut Vec<u8>, answer: &AppendEntriesResponse<Types>) {
    match answer {
        AppendEntriesResponse::Success => out.push(0),
        AppendEntriesResponse::PartialSuccess(id) => {
            out.push(1);
            put_opt_log_id(out, id);
        }
        AppendEntriesResponse::Conflict => out.push(2),
        AppendEntriesResponse::HigherVote(vote) => {
            out.push(3);
            put_vote(out, vote);
        }
    }
}

pub(crate) fn append_answer(input: &mut In) -> Result<AppendEntriesResponse<Types>> {
    Ok(match input.u8()? {
        0 => AppendEntriesResponse::Success,
        1 => AppendEntriesResponse::PartialSuccess(opt_log_id(input)?),
        2 => AppendEntriesResponse::Conflict,
        3 => AppendEntriesResponse::HigherVote(vote(input)?),
        kind => return Err(DecodeError::Kind(kind)),
    })
}

pub(crate) fn put_ballot(out: &mut Vec<u8>, request: &VoteRequest<Types>) {
    put_vote(out, &request.vote);
    put_opt_log_id(out, &request.last_log_id);
    out.push(u8::from(request.leadership_transfer));
}

pub(crate) fn ballot(input: &mut In) -> Result<VoteRequest<Types>> {
    let mut request = VoteRequest::new(vote(input)?, opt_log_id(input)?);
    request.leadership_transfer = input.u8()? == 1;
    Ok(request)
}

pub(crate) fn put_ballot_answer(out: &mut Vec<u8>, answer: &VoteResponse<Types>) {
    put_vote(out, &answer.vote);
    put_opt_log_id(out, &answer.last_log_id);
    out.push(u8::from(answer.vote_granted));
}

pub(crate) fn ballot_answer(input: &mut In) -> Result<VoteResponse<Types>> {
    let (vote, last_log_id) = (vote(input)?, opt_log_id(input)?);
    Ok(VoteResponse { vote, last_log_id, vote_granted: input.u8()? == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let id = |index| LogId { leader_id: LeaderId { term: 3, node_id: 2 }, index };
        let nodes: BTreeMap<u64, BasicNode> =
            (1..4).map(|n| (n, BasicNode::new(format!("10.0.0.{n}:7000")))).collect();
        let members = Membership::new(vec![BTreeSet::from([1, 2, 3])], nodes).expect("three voters");
        let entries = vec![
            Entry { log_id: id(0), payload: EntryPayload::Membership(members) },
            Entry { log_id: id(1), payload: EntryPayload::Blank },
            Entry { log_id: id(2), payload: EntryPayload::Normal(Command(vec![1, 2, 3])) },
        ];
        let request = AppendEntriesRequest::<Types> {
            vote: Vote::new_committed(3, 2),
            prev_log_id: None,
            leader_commit: Some(id(1)),
            entries,
        };
        let mut out = Vec::new();
        put_append(&mut out, &request);
        let back = append(&mut In::new(&out)).expect("whole");
        assert_eq!(format!("{back:?}"), format!("{request:?}"));
        for cut in 0..out.len() {
            assert!(append(&mut In::new(&out[..cut])).is_err(), "{cut}");
        }
    }
}
