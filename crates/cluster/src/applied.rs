//! What this node has applied of the cluster's log, on disk: state and position in one record.
//!
//! ```text
//! journal "group0.applied"      u8 1 state   position   the state's bytes        the first record, and after a snapshot
//!                               u8 2 entry   position   the command's bytes      what was applied to it
//!                               u8 3 starts  u64                                 how often this folder was started, the last one counts
//!                               u8 4 asked   u128                                the cluster that this node has asked to take it
//!                               u8 5 seen    (u128 host, u64 starts, u64 process, u64 vote, u64 index)…
//!                                                                                what other members were seen to have; the last one of a host counts
//! ```
//! Big endian; kinds are only ever added. A record is durable before anything that follows from it is done.

use crate::Error;
use base::{ByteReader, HostId};
use group0::State;
use journal::Journal;
use raft::Position;
use rpc::Recorded;
use std::collections::BTreeMap;
use std::path::Path;
use topology::Version;

/// Entries after which the journal is written anew as one state: replay stays short, writing anew stays rare.
const ENTRIES_MAX: usize = 512;

/// Records of what others were seen to have after which it is: one for each restart or election of theirs, and one a second at most.
const SEEN_MAX: usize = 4096;

const STATE: u8 = 1;
const ENTRY: u8 = 2;
const STARTS: u8 = 3;
const ASKED: u8 = 4;
const SEEN: u8 = 5;

/// What a member was seen to have, and the number of the process that had it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) had: Recorded,
    pub(crate) process: u64,
}

/// The journal. Owned by shard 0.
pub(crate) struct Applied {
    journal: Journal,
    entries: usize,
    starts: u64,
    asked: Option<u128>,
    /// What the file says of others.
    seen: BTreeMap<HostId, Seen>,
    /// Records of that since the journal was written anew.
    seen_since: usize,
}

/// What a journal said.
pub(crate) struct Known {
    pub(crate) state: State,
    pub(crate) position: Option<Position>,
    pub(crate) asked: Option<u128>,
}

/// The version of the state that has applied everything up to a position.
pub(crate) fn version_of(at: Position) -> Version {
    Version { epoch: at.epoch, index: at.index }
}

impl Applied {
    /// Opens or makes the journal, and counts this start.
    pub(crate) async fn open(path: &Path) -> Result<(Applied, Known), Error> {
        let (mut journal, records) = Journal::open(path).await?;
        let mut known = Known { state: State::default(), position: None, asked: None };
        let (mut entries, mut starts) = (0, 0);
        let mut seen = BTreeMap::new();
        for (index, record) in records.iter().enumerate() {
            let bad = |reason: String| Error::Applied { index, reason };
            let (kind, rest) = record.split_first().ok_or_else(|| bad("it is empty".into()))?;
            if *kind == STARTS {
                let bytes: [u8; 8] = rest.try_into().map_err(|_| bad("it is cut short".into()))?;
                starts = u64::from_be_bytes(bytes);
                continue;
            }
            if *kind == ASKED {
                let bytes: [u8; 16] = rest.try_into().map_err(|_| bad("it is cut short".into()))?;
                known.asked = Some(u128::from_be_bytes(bytes));
                continue;
            }
            if *kind == SEEN {
                read_seen(rest, &mut seen).ok_or_else(|| bad("it is cut short".into()))?;
                continue;
            }
            let (at, payload) =
                rest.split_at_checked(Position::BYTES).ok_or_else(|| bad("it is cut short".into()))?;
            let at = Position::from_bytes(at).map_err(|error| bad(error.to_string()))?;
            match *kind {
                STATE => {
                    known.state = State::decode(payload).map_err(|error| bad(error.to_string()))?;
                    entries = 0;
                }
                ENTRY => {
                    let applied = known.state.apply_entry(version_of(at), payload);
                    known.state = applied.map_err(|error| bad(error.to_string()))?.0;
                    entries += 1;
                }
                other => return Err(bad(format!("it is of kind {other}, which a later release wrote"))),
            }
            known.position = Some(at);
        }
        starts += 1;
        journal.append(&starts_record(starts)).await?;
        let asked = known.asked;
        Ok((Applied { journal, entries, starts, asked, seen, seen_since: 0 }, known))
    }

    /// What other members were seen to have, as it is on the disk.
    pub(crate) fn seen(&self) -> &BTreeMap<HostId, Seen> {
        &self.seen
    }

    /// Makes durable what others were seen to have, as far as the file does not say so: one sync, or none. `at`, `state`: what is applied.
    pub(crate) async fn note_seen(
        &mut self,
        news: &[(HostId, Seen)],
        at: Option<Position>,
        state: &State,
    ) -> Result<(), Error> {
        let news: Vec<_> =
            news.iter().copied().filter(|(host, seen)| self.seen.get(host) != Some(seen)).collect();
        if news.is_empty() {
            return Ok(());
        }
        let before = self.seen.clone();
        self.seen.extend(news.iter().copied());
        let grown = self.seen_since >= SEEN_MAX || self.journal.failed();
        let written = match at.filter(|_| grown) {
            Some(at) => self.replace(at, state).await,
            None => self.journal.append(&seen_record(&news)).await.map_err(Error::from),
        };
        match &written {
            Ok(()) => self.seen_since += 1,
            // It is to be written again.
            Err(_) => self.seen = before,
        }
        written
    }

    /// How often this folder was started, this time included.
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    /// Makes an applied command durable; `state` is what it made.
    pub(crate) async fn append(&mut self, at: Position, command: &[u8], state: &State) -> Result<(), Error> {
        if self.entries >= ENTRIES_MAX || self.journal.failed() {
            return self.replace(at, state).await;
        }
        self.journal.append(&record(ENTRY, at, command)).await?;
        self.entries += 1;
        Ok(())
    }

    /// Makes durable which cluster this node has asked to take it.
    pub(crate) async fn note_asked(&mut self, cluster: u128) -> Result<(), Error> {
        if self.asked != Some(cluster) {
            self.journal.append(&asked_record(cluster)).await?;
            self.asked = Some(cluster);
        }
        Ok(())
    }

    /// Makes a whole state durable.
    pub(crate) async fn replace(&mut self, at: Position, state: &State) -> Result<(), Error> {
        let mut records = vec![starts_record(self.starts), record(STATE, at, &state.encode())];
        records.extend(self.asked.map(asked_record));
        // Who is no member of any kind is refused whatever it has.
        let is_known = |host: HostId| state.members().get(host).is_some();
        let seen: Vec<_> =
            self.seen.iter().map(|(host, seen)| (*host, *seen)).filter(|(host, _)| is_known(*host)).collect();
        records.extend((!seen.is_empty()).then(|| seen_record(&seen)));
        self.journal.rewrite(&records).await?;
        self.seen.retain(|host, _| is_known(*host));
        (self.entries, self.seen_since) = (0, 0);
        Ok(())
    }
}

fn seen_record(all: &[(HostId, Seen)]) -> Vec<u8> {
    let mut record = vec![SEEN];
    for (host, Seen { had, process }) in all {
        record.extend_from_slice(&host.0.to_be_bytes());
        for number in [had.starts, *process, had.vote_term, had.applied_index] {
            record.extend_from_slice(&number.to_be_bytes());
        }
    }
    record
}

/// `None`: the record is cut short.
fn read_seen(bytes: &[u8], seen: &mut BTreeMap<HostId, Seen>) -> Option<()> {
    let mut input = ByteReader::new(bytes);
    while input.remaining() > 0 {
        let (high, low) = (input.u64().ok()?, input.u64().ok()?);
        let host = HostId(u128::from(high) << 64 | u128::from(low));
        let (starts, process) = (input.u64().ok()?, input.u64().ok()?);
        let (vote_term, applied_index) = (input.u64().ok()?, input.u64().ok()?);
        seen.insert(host, Seen { had: Recorded { starts, vote_term, applied_index }, process });
    }
    Some(())
}

fn asked_record(cluster: u128) -> Vec<u8> {
    let mut record = vec![ASKED];
    record.extend_from_slice(&cluster.to_be_bytes());
    record
}

fn starts_record(starts: u64) -> Vec<u8> {
    let mut record = vec![STARTS];
    record.extend_from_slice(&starts.to_be_bytes());
    record
}

fn record(kind: u8, at: Position, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(1 + Position::BYTES + payload.len());
    record.push(kind);
    record.extend_from_slice(&at.to_bytes());
    record.extend_from_slice(payload);
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::sim::{SimConfig, World};
    use std::time::Duration;

    fn seen(starts: u64, applied_index: u64) -> Seen {
        Seen { had: Recorded { starts, vote_term: 3, applied_index }, process: 9 }
    }

    #[test]
    fn what_others_were_seen_to_have_outlives_the_process_and_costs_a_sync_when_it_is_news() {
        let mut world = World::new(1, SimConfig::calm());
        let node = world.add_client([10, 0, 0, 1].into());
        let mut task = world.spawn(node, async {
            let path = Path::new("/group0.applied");
            let (mut applied, known) = Applied::open(path).await.expect("sound");
            let (a, b) = (HostId(1 << 100 | 7), HostId(8));
            let write = async |applied: &mut Applied, news: &[(HostId, Seen)]| {
                applied.note_seen(news, known.position, &known.state).await.expect("written");
            };
            write(&mut applied, &[(a, seen(1, 5)), (b, seen(2, 6))]).await;
            let bytes = runtime::file::read(path).await.expect("there").len();
            write(&mut applied, &[(a, seen(1, 5)), (b, seen(2, 6))]).await;
            assert_eq!(runtime::file::read(path).await.expect("there").len(), bytes, "no news");
            write(&mut applied, &[(b, seen(2, 7))]).await;
            drop(applied);
            let (applied, _) = Applied::open(path).await.expect("sound");
            assert_eq!(*applied.seen(), BTreeMap::from([(a, seen(1, 5)), (b, seen(2, 7))]));
        });
        assert!(world.run_until(|_| task.done(), Duration::from_secs(10)));
        task.take().expect("it is done");
    }
}
