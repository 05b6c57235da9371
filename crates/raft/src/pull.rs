//! Who is behind pulls: committed entries from any member that has applied them, so that members cut off from the majority go on.
//!
//! openraft takes entries from leaders alone. The giver therefore sends what a leader would have: committed entries under the vote of
//! a leader whose log has them. To the receiver this is a message of that leader that took another way. It is sound because
//! 1. an entry that is committed is in the log of the leader that wrote it, with all before it, and of every leader not before the one that
//!    committed it (leaders are ordered by term and host: openraft may elect two in one term);
//! 2. so the vote is the giver's own, if it has followed a leader by it, else that of the writer of its last applied entry;
//! 3. a receiver that has followed a later leader takes the entries under that one's vote, unless the giver's own vote is higher still: then
//!    the entries may have been committed after that leader's end, and its log may lack them;
//! 4. nothing is counted for any leader by it: the answer to such a message goes to the receiver itself;
//! 5. a vote by which the receiver itself leads is refused: it must not hear itself as another.
//!
//! A receiver that has voted in an election whose leader it has not heard of refuses, too, until it has: with votes asked for in advance
//! (pre-vote) only one that was cut off in the very moment of an election stays so. What arrives counts as a sign of life of the leader
//! to the receiver and delays its next election by one timeout, no more: a member that lacks nothing pulls nothing.

use std::rc::Rc;
use std::time::Duration;

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use runtime::Bug;

use crate::codec::{self, Given, In, Part, Wanted};
use crate::error::Error;
use crate::group::{Group, text};
use crate::incoming::{Arrived, Incoming};
use crate::limits::SNAPSHOT_CHUNK_BYTES;
use crate::network::Kind;
use crate::types::{LogId, Snapshot, Types, Vote};

impl Group {
    /// Returns once this member has applied the entry of that index, taking what it lacks from `from`, leader or not, which has applied it.
    /// Errors: `NotDone`: that member is out of reach, has not applied it, or has an older leader than this one knows; ask another.
    pub async fn pull(&self, from: base::HostId, index: u64, timeout: Duration) -> Result<(), Error> {
        let pulling = async {
            let mut incoming = Incoming::default();
            while !self.has_applied(index) {
                self.pull_some(from, &mut incoming, timeout).await?;
            }
            Ok(())
        };
        let late = Error::NotDone("the time is up".to_string());
        runtime::timeout(timeout, pulling).await.unwrap_or(Err(late))
    }

    async fn pull_some(
        &self,
        from: base::HostId,
        incoming: &mut Incoming,
        timeout: Duration,
    ) -> Result<(), Error> {
        let not_done = |text: String| Error::NotDone(format!("{from}: {text}"));
        let (snapshot, offset) = incoming.progress();
        let index = self.applied().map_or(0, |at| at.index + 1);
        let mut body = Vec::new();
        codec::put_wanted(&mut body, &Wanted { index, snapshot, offset });
        let answer = self.network.ask(from, Kind::Pull, &body, timeout).await;
        let answer = answer.map_err(|error| not_done(error.to_string()))?;
        let (theirs, given) = codec::given(&mut In::new(&answer)).map_err(|e| not_done(e.to_string()))?;
        match given {
            Given::Nothing => Err(not_done("has applied no more".to_string())),
            Given::Entries(mut request) => {
                request.vote = self.vote_for(request.vote, theirs).map_err(not_done)?;
                self.take_entries(request, timeout).await
            }
            Given::Part(part) => {
                let vote = self.vote_for(part.vote, theirs).map_err(not_done)?;
                match incoming.take(part).map_err(not_done)? {
                    Arrived::Next(_) => Ok(()),
                    Arrived::Whole(_, meta, bytes) => {
                        let snapshot = Snapshot { meta: *meta, snapshot: Rc::new(bytes) };
                        self.take_snapshot(vote, snapshot, timeout).await
                    }
                }
            }
        }
    }

    async fn take_entries(
        &self,
        request: AppendEntriesRequest<Types>,
        timeout: Duration,
    ) -> Result<(), Error> {
        let Some(last) = request.entries.last().map(|entry| entry.log_id.index) else {
            return Err(Error::NotDone("no entries".to_string()));
        };
        match self.take_append(request).await {
            Ok(AppendEntriesResponse::Success) => self.wait_applied(last, timeout).await,
            Ok(AppendEntriesResponse::PartialSuccess(_)) => Ok(()),
            Ok(other) => Err(Error::NotDone(format!("entries are not taken: {other:?}"))),
            Err(reason) => Err(Error::Ended(reason)),
        }
    }

    async fn take_snapshot(&self, vote: Vote, snapshot: Snapshot, timeout: Duration) -> Result<(), Error> {
        let last = snapshot.meta.last_log_id;
        let own = self.install(vote, snapshot).await.map_err(Error::Ended)?;
        if own > vote {
            return Err(Error::NotDone("a later election is under way".to_string()));
        }
        self.wait_applied(last.map_or(0, |id| id.index), timeout).await
    }

    /// The vote under which to take what was given under `offered` by a member with a vote of its own.
    fn vote_for(&self, offered: Vote, theirs: Vote) -> Result<Vote, String> {
        let vote = match self.log.vote() {
            None => offered,
            Some(own) if offered >= own => offered,
            Some(own) if own.is_committed() && own >= theirs => own,
            Some(_) => return Err("a later election is under way".to_string()),
        };
        let leader = vote.leader_id().node_id;
        if !vote.is_committed() || leader == self.id {
            return Err(format!("no vote for a leader other than this member: {vote}"));
        }
        Ok(vote)
    }

    /// What this member gives to one that is behind.
    pub(crate) fn give(&self, wanted: &Wanted) -> (Vote, Given) {
        let own = self.log.vote().unwrap_or_else(|| Vote::new(0, self.id));
        let reached = match runtime::planted(Bug::PullUncommitted) {
            true => self.log.last(),
            false => self.machine.applied_id(),
        };
        let Some(applied) = reached.filter(|applied| applied.index >= wanted.index) else {
            return (own, Given::Nothing);
        };
        let writer = Vote::new_committed(applied.leader_id.term, applied.leader_id.node_id);
        let vote = if own.is_committed() { own } else { writer };
        let given = match self.log.since(wanted.index, applied.index) {
            Some((prev_log_id, entries)) if !entries.is_empty() => {
                let last = entries.last().map(|entry| entry.log_id);
                Given::Entries(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit: last })
            }
            _ => self.give_part(vote, wanted).map_or(Given::Nothing, Given::Part),
        };
        (own, given)
    }

    fn give_part(&self, vote: Vote, wanted: &Wanted) -> Option<Part> {
        let (meta, bytes) = self.machine.snapshot()?;
        let known: Option<LogId> = meta.last_log_id;
        if known.is_none_or(|last| last.index < wanted.index) {
            return None;
        }
        let offset = if wanted.snapshot == known { (wanted.offset as usize).min(bytes.len()) } else { 0 };
        let end = bytes.len().min(offset + SNAPSHOT_CHUNK_BYTES);
        let part = bytes[offset..end].to_vec();
        Some(Part { vote, meta, total: bytes.len() as u64, offset: offset as u64, bytes: part })
    }

    pub(crate) fn answer_pull(&self, input: &mut In<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let wanted = codec::wanted(input).map_err(text)?;
        let (own, given) = self.give(&wanted);
        codec::put_given(out, &own, &given);
        Ok(())
    }
}
