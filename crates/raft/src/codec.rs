//! Bytes of log entries, votes and the messages between peers. Decoding never panics.
//!
//! ```text
//! host     = 16 bytes                               option = u8 0 | 1 + value
//! log id   = u64 term, host, u64 index
//! vote     = u64 term, host, u8 committed
//! entry    = log id, u8 kind (0 blank, 1 command, 2 membership), body
//! members  = u32 configs × (u32 n × host), u32 nodes × host
//! ```

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteReader, HostId, Truncated};
use openraft::impls::leader_id_adv::LeaderId;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, EntryPayload, Membership};

use crate::types::{Command, Entry, LogId, Members, SnapshotMeta, StoredMembers, Types, Vote};

/// Bytes that are no message of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the format needs: drop the connection, or end the log there.
    #[error("message is cut short")]
    Short,
    /// An unknown kind or an impossible value: drop the connection, or end the log there.
    #[error("message has an unknown kind {0}")]
    Kind(u8),
    /// More bytes than the format needs: as above.
    #[error("message is too long")]
    Long,
    /// Entries that do not follow each other: the log lost one.
    #[error("entry {got} follows where entry {expected} belongs")]
    Hole {
        /// The next index.
        expected: u64,
        /// The index found.
        got: u64,
    },
}

impl From<Truncated> for DecodeError {
    fn from(_: Truncated) -> DecodeError {
        DecodeError::Short
    }
}

/// Reader over one message.
pub type In<'a> = ByteReader<'a>;
type Result<T> = std::result::Result<T, DecodeError>;

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}

pub(crate) fn bytes(input: &mut In) -> Result<Vec<u8>> {
    let len = input.u32()? as usize;
    Ok(input.bytes(len)?.to_vec())
}

/// A count that cannot be larger than the bytes that follow.
fn count(input: &mut In) -> Result<usize> {
    let n = input.u32()? as usize;
    if n > input.remaining() { Err(DecodeError::Short) } else { Ok(n) }
}

pub(crate) fn put_host(out: &mut Vec<u8>, host: HostId) {
    out.extend(host.to_bytes());
}

pub(crate) fn host(input: &mut In) -> Result<HostId> {
    let bytes = input.bytes(16)?;
    Ok(HostId::from_bytes(bytes.try_into().expect("sixteen bytes")))
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_be_bytes());
}

pub(crate) fn put_log_id(out: &mut Vec<u8>, id: &LogId) {
    put_u64(out, id.leader_id.term);
    put_host(out, id.leader_id.node_id);
    put_u64(out, id.index);
}

pub(crate) fn log_id(input: &mut In) -> Result<LogId> {
    let leader_id = LeaderId { term: input.u64()?, node_id: host(input)? };
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
    put_host(out, vote.leader_id().node_id);
    out.push(u8::from(vote.is_committed()));
}

pub(crate) fn vote(input: &mut In) -> Result<Vote> {
    let (term, node) = (input.u64()?, host(input)?);
    Ok(if input.u8()? == 1 { Vote::new_committed(term, node) } else { Vote::new(term, node) })
}

pub(crate) fn put_members(out: &mut Vec<u8>, members: &Members) {
    let configs = members.get_joint_config();
    out.extend((configs.len() as u32).to_be_bytes());
    for config in configs {
        out.extend((config.len() as u32).to_be_bytes());
        config.iter().for_each(|id| put_host(out, *id));
    }
    let nodes: Vec<HostId> = members.nodes().map(|(id, _)| *id).collect();
    out.extend((nodes.len() as u32).to_be_bytes());
    nodes.into_iter().for_each(|id| put_host(out, id));
}

pub(crate) fn members(input: &mut In) -> Result<Members> {
    let mut configs = Vec::new();
    for _ in 0..count(input)? {
        let mut config = BTreeSet::new();
        for _ in 0..count(input)? {
            config.insert(host(input)?);
        }
        configs.push(config);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..count(input)? {
        nodes.insert(host(input)?, EmptyNode {});
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

/// About the size of an entry's bytes.
pub(crate) fn entry_bytes(entry: &Entry) -> usize {
    let body = match &entry.payload {
        EntryPayload::Blank => 0,
        EntryPayload::Normal(command) => command.0.len(),
        EntryPayload::Membership(members) => 32 * members.nodes().count(),
    };
    64 + body
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
    let mut entries: Vec<Entry> = Vec::new();
    let mut before = prev_log_id;
    for _ in 0..count(input)? {
        let entry = entry(input)?;
        // openraft takes it for granted that entries follow each other.
        let expected = before.map_or(Some(0), |id| id.index.checked_add(1));
        if expected != Some(entry.log_id.index) || before > Some(entry.log_id) {
            let expected = expected.unwrap_or(u64::MAX);
            return Err(DecodeError::Hole { expected, got: entry.log_id.index });
        }
        before = Some(entry.log_id);
        entries.push(entry);
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

/// A part of a snapshot on its way.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) vote: Vote,
    pub(crate) meta: SnapshotMeta,
    /// Bytes of the whole snapshot.
    pub(crate) total: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn put_part(out: &mut Vec<u8>, part: &Part) {
    put_vote(out, &part.vote);
    put_meta(out, &part.meta);
    put_u64(out, part.total);
    put_u64(out, part.offset);
    put_bytes(out, &part.bytes);
}

pub(crate) fn part(input: &mut In) -> Result<Part> {
    Ok(Part {
        vote: vote(input)?,
        meta: meta(input)?,
        total: input.u64()?,
        offset: input.u64()?,
        bytes: bytes(input)?,
    })
}

/// What the receiver of a part says.
#[derive(Debug)]
pub(crate) struct PartAnswer {
    pub(crate) vote: Vote,
    /// The first byte it lacks; none when the snapshot is installed, or refused for the vote.
    pub(crate) next: Option<u64>,
}

pub(crate) fn put_part_answer(out: &mut Vec<u8>, answer: &PartAnswer) {
    put_vote(out, &answer.vote);
    out.push(u8::from(answer.next.is_some()));
    if let Some(next) = answer.next {
        put_u64(out, next);
    }
}

pub(crate) fn part_answer(input: &mut In) -> Result<PartAnswer> {
    let vote = vote(input)?;
    let next = match input.u8()? {
        0 => None,
        1 => Some(input.u64()?),
        kind => return Err(DecodeError::Kind(kind)),
    };
    Ok(PartAnswer { vote, next })
}

pub(crate) fn put_transfer(out: &mut Vec<u8>, request: &TransferLeaderRequest<Types>) {
    put_vote(out, request.from_leader());
    put_host(out, *request.to_node_id());
    put_opt_log_id(out, &request.last_log_id().copied());
}

pub(crate) fn transfer(input: &mut In) -> Result<TransferLeaderRequest<Types>> {
    Ok(TransferLeaderRequest::new(vote(input)?, host(input)?, opt_log_id(input)?))
}

pub(crate) fn put_transfer_answer(out: &mut Vec<u8>, answer: &TransferLeaderResponse<Types>) {
    match answer {
        Ok(()) => out.push(0),
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            out.push(1);
            put_vote(out, expected);
            put_vote(out, actual);
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            out.push(2);
            put_opt_log_id(out, expected);
            put_opt_log_id(out, actual);
        }
    }
}

pub(crate) fn transfer_answer(input: &mut In) -> Result<TransferLeaderResponse<Types>> {
    Ok(match input.u8()? {
        0 => Ok(()),
        1 => Err(TransferLeaderError::VoteChanged { expected: vote(input)?, actual: vote(input)? }),
        2 => Err(TransferLeaderError::LogNotFlushed {
            expected: opt_log_id(input)?,
            actual: opt_log_id(input)?,
        }),
        kind => return Err(DecodeError::Kind(kind)),
    })
}

/// What the asked member says to what only a leader does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Led<T> {
    Done(T),
    /// It does not lead; nothing has happened.
    NotLeader,
    /// Nothing has happened and asking again as it is will not help at once.
    Refused(String),
    /// It may happen yet.
    Unknown(String),
}

pub(crate) fn put_led<T>(out: &mut Vec<u8>, led: &Led<T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    match led {
        Led::Done(value) => {
            out.push(0);
            put(out, value);
        }
        Led::NotLeader => out.push(1),
        Led::Refused(text) => {
            out.push(2);
            put_bytes(out, text.as_bytes());
        }
        Led::Unknown(text) => {
            out.push(3);
            put_bytes(out, text.as_bytes());
        }
    }
}

pub(crate) fn led<T>(input: &mut In, get: impl FnOnce(&mut In) -> Result<T>) -> Result<Led<T>> {
    let text = |input: &mut In| bytes(input).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(match input.u8()? {
        0 => Led::Done(get(input)?),
        1 => Led::NotLeader,
        2 => Led::Refused(text(input)?),
        3 => Led::Unknown(text(input)?),
        kind => return Err(DecodeError::Kind(kind)),
    })
}

/// A change of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Takes in a member that listens.
    AddLearner(HostId),
    /// Makes exactly these vote, by joint consensus; all of them must be members. Who no longer votes listens.
    SetVoters(BTreeSet<HostId>),
    /// Puts a member that does not vote out.
    Remove(HostId),
}

pub(crate) fn put_change(out: &mut Vec<u8>, change: &Change) {
    match change {
        Change::AddLearner(id) => {
            out.push(1);
            put_host(out, *id);
        }
        Change::SetVoters(ids) => {
            out.push(2);
            out.extend((ids.len() as u32).to_be_bytes());
            ids.iter().for_each(|id| put_host(out, *id));
        }
        Change::Remove(id) => {
            out.push(3);
            put_host(out, *id);
        }
    }
}

pub(crate) fn change(input: &mut In) -> Result<Change> {
    Ok(match input.u8()? {
        1 => Change::AddLearner(host(input)?),
        2 => {
            let mut ids = BTreeSet::new();
            for _ in 0..count(input)? {
                ids.insert(host(input)?);
            }
            Change::SetVoters(ids)
        }
        3 => Change::Remove(host(input)?),
        kind => return Err(DecodeError::Kind(kind)),
    })
}

/// What a member that has applied more gives to one that is behind.
#[derive(Debug)]
pub(crate) enum Given {
    /// It has applied no more either.
    Nothing,
    /// Committed entries, as the leader of that vote might have sent them.
    Entries(AppendEntriesRequest<Types>),
    /// A part of its snapshot, likewise.
    Part(Part),
}

/// What a request to pull asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The first entry that is lacking.
    pub(crate) index: u64,
    /// The snapshot that is arriving, if one is, and how much of it is here.
    pub(crate) snapshot: Option<LogId>,
    pub(crate) offset: u64,
}

pub(crate) fn put_wanted(out: &mut Vec<u8>, wanted: &Wanted) {
    put_u64(out, wanted.index);
    put_opt_log_id(out, &wanted.snapshot);
    put_u64(out, wanted.offset);
}

pub(crate) fn wanted(input: &mut In) -> Result<Wanted> {
    Ok(Wanted { index: input.u64()?, snapshot: opt_log_id(input)?, offset: input.u64()? })
}

pub(crate) fn put_given(out: &mut Vec<u8>, own: &Vote, given: &Given) {
    put_vote(out, own);
    match given {
        Given::Nothing => out.push(0),
        Given::Entries(request) => {
            out.push(1);
            put_append(out, request);
        }
        Given::Part(part) => {
            out.push(2);
            put_part(out, part);
        }
    }
}

/// The giver's own vote and what it gives.
pub(crate) fn given(input: &mut In) -> Result<(Vote, Given)> {
    let own = vote(input)?;
    let given = match input.u8()? {
        0 => Given::Nothing,
        1 => Given::Entries(append(input)?),
        2 => Given::Part(part(input)?),
        kind => return Err(DecodeError::Kind(kind)),
    };
    Ok((own, given))
}

/// For the fuzzer: every decoder of messages over the same bytes. What decodes is encoded and decoded again to the same.
pub fn probe(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let input = &mut In::new(bytes);
    macro_rules! both {
        ($get:expr, $put:expr) => {
            if let Ok(value) = $get(input) {
                let mut out = Vec::new();
                $put(&mut out, &value);
                let again = $get(&mut In::new(&out)).expect("our own bytes");
                assert_eq!(format!("{value:?}"), format!("{again:?}"));
            }
        };
    }
    match kind % 14 {
        0 => both!(append, put_append),
        1 => both!(append_answer, put_append_answer),
        2 => both!(ballot, put_ballot),
        3 => both!(ballot_answer, put_ballot_answer),
        4 => both!(part, put_part),
        5 => both!(part_answer, put_part_answer),
        6 => both!(transfer, put_transfer),
        7 => both!(transfer_answer, put_transfer_answer),
        8 => both!(change, put_change),
        9 => both!(wanted, put_wanted),
        10 => both!(given, |out: &mut Vec<u8>, (own, given): &(Vote, Given)| put_given(out, own, given)),
        11 => both!(entry, put_entry),
        12 => both!(meta, put_meta),
        _ => both!(
            |input: &mut In| led(input, |input| Ok((input.u64()?, self::bytes(input)?))),
            |out: &mut Vec<u8>, value: &Led<(u64, Vec<u8>)>| put_led(out, value, |out, (index, answer)| {
                put_u64(out, *index);
                put_bytes(out, answer);
            })
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_make_a_decoder_panic() {
        let mut prng = base::Prng::new(3);
        for _ in 0..20_000 {
            let mut bytes = vec![0; prng.below(120) as usize];
            prng.fill(&mut bytes);
            // Small numbers are likelier to mean something.
            bytes.iter_mut().for_each(|byte| *byte &= if prng.chance(0.7) { 1 } else { 255 });
            probe(&bytes);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let id = |index| LogId { leader_id: LeaderId { term: 3, node_id: HostId(2) }, index };
        let nodes: BTreeMap<HostId, EmptyNode> = (1..5).map(|n| (HostId(n), EmptyNode {})).collect();
        let voters = BTreeSet::from([HostId(1), HostId(2), HostId(3)]);
        let members = Membership::new(vec![voters], nodes).expect("three voters");
        let entries = vec![
            Entry { log_id: id(0), payload: EntryPayload::Membership(members) },
            Entry { log_id: id(1), payload: EntryPayload::Blank },
            Entry { log_id: id(2), payload: EntryPayload::Normal(Command(vec![1, 2, 3])) },
        ];
        let request = AppendEntriesRequest::<Types> {
            vote: Vote::new_committed(3, HostId(2)),
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
        let mut hole = request;
        hole.entries.remove(1);
        let mut out = Vec::new();
        put_append(&mut out, &hole);
        assert_eq!(append(&mut In::new(&out)).err(), Some(DecodeError::Hole { expected: 1, got: 2 }));
    }
}
