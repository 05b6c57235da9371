//! ALTER KEYSPACE that would have nodes answer reads of ranges that they hold no rows of: refused while there are rows.
//!
//! ```text
//!   holders of each range before and after ─▶ none is new: allowed
//!                                          ─▶ some are: every member says that the keyspace's tables are empty, and that it keeps no hints ─▶ allowed, else refused
//! ```
//! Nothing brings rows to a new holder by itself, and with two of three holders new a quorum of them would say that there is nothing. What is
//! written between the answers and the change is not seen: see `docs/operating/cluster.md`.

use crate::builtin;
use crate::error::Error;
use crate::group::Group0;
use base::{HostId, Token};
use coordinator::Coordinator;
use core::time::Duration;
use group0::State;
use rpc::Outgoing;
use schema::{Keyspace, Schema};
use std::collections::BTreeSet;
use std::sync::Arc;
use topology::{Members, Placements};

/// How many tables of a keyspace hold anything, and how many hints the node keeps: the keyspace's name. Answer: u64 tables, u64 hints; or nothing: it
/// cannot say. Must never change.
pub(crate) const VERB_HOLDS: u8 = 41;
/// Longest wait for a member's answer.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// Who would be read from for ranges that it did not hold.
fn new_readers(members: &Members, before: &Keyspace, after: &Keyspace, local: HostId) -> BTreeSet<HostId> {
    let place = |keyspace: &Keyspace| Placements::of(members, &keyspace.replication, local, None);
    let (before, after) = (place(before), place(after));
    let ends = before.ranges().iter().chain(after.ranges()).map(|range| range.end).chain([Token::MAX]);
    let new_at = |end: Token| {
        let held = &before.at(end).read;
        after.at(end).read.iter().copied().filter(|host| !held.contains(host)).collect::<Vec<_>>()
    };
    ends.flat_map(new_at).collect()
}

/// Keyspaces with tables whose replication differs, before and after.
fn moved<'s>(
    before: &'s Schema,
    after: &'s Schema,
) -> impl Iterator<Item = (&'s Arc<Keyspace>, &'s Arc<Keyspace>)> {
    let both = before.keyspaces.iter().filter_map(|(name, old)| Some((old, after.keyspaces.get(name)?)));
    // Roles are a part of the cluster's state, and every node has all of them.
    both.filter(|(old, new)| {
        old.replication != new.replication && !old.tables.is_empty() && &*old.name != builtin::AUTH
    })
}

impl Group0 {
    /// Refuses a change of the schema that would have nodes answer for rows that they do not have.
    /// Cost: none but where a replication changes; then one question to each member.
    pub(crate) async fn refuse_empty_readers(
        &self,
        state: &State,
        before: &Schema,
        after: &Schema,
    ) -> Result<(), Error> {
        for (old, new) in moved(before, after) {
            if new_readers(state.members(), old, new, self.local_id()).is_empty() {
                continue;
            }
            let what = format!(
                "Cannot ALTER KEYSPACE {}: nodes would be asked for rows that other nodes hold",
                old.name
            );
            let instead = "nothing brings rows to them. Create a keyspace with that replication and copy the rows, or alter this one while its \
                           tables are empty";
            for member in state.counted() {
                let host = member.host_id;
                let address = member.broadcast();
                let Some((tables, hints)) = self.ask_holds(host, &old.name).await else {
                    return Err(Error::EmptyReaders(format!(
                        "{what}, {address} does not say that it holds none, and {instead}"
                    )));
                };
                if tables + hints > 0 {
                    return Err(Error::EmptyReaders(format!(
                        "{what}, {address} holds some ({tables} tables, {hints} hints), and {instead}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// What a member holds of a keyspace; `None`: it does not answer, or does not know how.
    async fn ask_holds(&self, host: HostId, keyspace: &str) -> Option<(u64, u64)> {
        if host == self.local_id() {
            return Some(self.holds(keyspace).await);
        }
        if !self.links.is_up(host) {
            return None;
        }
        let outgoing = Outgoing { verb: VERB_HOLDS, version: 0, timeout: ASK_WITHIN };
        let answer =
            self.links.call(host, outgoing, |out| out.extend_from_slice(keyspace.as_bytes())).await.ok()?;
        let mut input = base::ByteReader::new(&answer);
        Some((input.u64().ok()?, input.u64().ok()?))
    }

    async fn holds(&self, keyspace: &str) -> (u64, u64) {
        let coordinator = runtime::local::<Coordinator>();
        let tables = coordinator.local().count_with_data(|name| name == keyspace).await;
        (tables, (self.settings.hints)().await)
    }

    /// Answers what this node holds of a keyspace.
    pub(crate) async fn answer_holds(&self, keyspace: &[u8]) -> Vec<u8> {
        let Ok(keyspace) = core::str::from_utf8(keyspace) else { return Vec::new() };
        let (tables, hints) = self.holds(keyspace).await;
        [tables, hints].iter().flat_map(|count| count.to_be_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;
    use schema::Replication;
    use topology::{Member, MemberState, Version};

    fn members(racks: &[&str]) -> Members {
        let member = |(n, rack): (usize, &&str)| {
            let ip = IpAddr::from([127, 0, 0, 1 + n as u8]);
            Member {
                host_id: HostId(n as u128 + 1),
                internode: (ip, 7000).into(),
                native: (ip, 9042).into(),
                dc: "d".into(),
                rack: (*rack).into(),
                tokens: vec![Token(n as i64 * 100)],
                shards: 1,
                ignore_msb: 0,
                state: MemberState::Normal,
                features: 0,
                release: "test".into(),
            }
        };
        Members::new(Version::ZERO, racks.iter().enumerate().map(member))
    }

    fn new(racks: &[&str], before: Replication, after: Replication) -> usize {
        let keyspace = |replication| Keyspace::new("ks", replication);
        new_readers(&members(racks), &keyspace(before), &keyspace(after), HostId(1)).len()
    }

    #[test]
    fn who_held_a_range_before_is_no_new_reader_of_it() {
        let simple = |factor| Replication::Simple { factor };
        let dc = |factor| Replication::NetworkTopology { factors: [("d".to_string(), factor)].into() };
        let one_rack = ["a"; 4];
        assert_eq!(new(&one_rack, simple(3), simple(1)), 0, "a lowered factor");
        assert_eq!(new(&one_rack, simple(1), simple(3)), 4, "each holds ranges that it did not");
        assert_eq!(new(&one_rack, simple(3), dc(3)), 0, "the same nodes by another name");
        assert_eq!(new(&one_rack, simple(4), simple(9)), 0, "there are no more nodes");
        assert_eq!(new(&["a", "a", "b", "b"], simple(2), dc(2)), 2, "other racks");
        assert_eq!(new(&["a"], simple(1), simple(3)), 0, "alone");
        let elsewhere = Replication::NetworkTopology { factors: [("e".to_string(), 3)].into() };
        assert_eq!(new(&one_rack, simple(3), elsewhere), 0, "nobody is asked any more");
    }

    #[test]
    fn only_keyspaces_with_tables_whose_replication_changes_matter() {
        let of = |factor| Keyspace::new("ks", Replication::Simple { factor });
        let schema = |keyspace| Schema::default().with_keyspace(1, keyspace);
        assert_eq!(moved(&schema(of(1)), &schema(of(3))).count(), 0, "it has no tables");
        let table =
            schema::TableBuilder::new("ks", "t", schema::TableId(1)).partition_key("k", types::CqlType::Int);
        let with_table = |factor| {
            let tables = [("t".into(), Arc::new(table.clone().build().expect("a table")))].into();
            schema(Keyspace { tables, ..of(factor) })
        };
        assert_eq!(moved(&with_table(1), &with_table(3)).count(), 1);
        assert_eq!(moved(&with_table(1), &with_table(1)).count(), 0);
        assert_eq!(moved(&with_table(1), &Schema::default()).count(), 0, "dropped");
    }
}
