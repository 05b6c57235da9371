//! Who this node is to others, and who may speak with it.

use crate::applied::Seen;
use crate::error::Error;
use crate::machine::Machine;
use crate::wire::Slot;
use base::{HashMap, HostId};
use core::cell::{Cell, RefCell};
use group0::must_close_native;
use rpc::{Facts, Gatekeeper, Hello, Identity, Recorded, Recording, Refusal, RefusalKind};
use std::rc::Rc;
use topology::Member;

/// Judges hellos by what this node knows.
pub(crate) struct Gate {
    pub(crate) cluster_name: String,
    pub(crate) member: Member,
    pub(crate) starts: u64,
    pub(crate) machine: Rc<Machine>,
    pub(crate) group: Slot,
    /// Whether clients can connect to this node.
    pub(crate) clients_open: Box<dyn Fn() -> bool>,
    /// Ends serving clients, for a reason.
    pub(crate) close_clients: Box<dyn Fn(String)>,
    /// Of a node without a cluster: a host of which cluster has expected another one at this node's address.
    pub(crate) known_to: Cell<Option<(HostId, u128)>>,
    /// Bytes of live data on this node, as they were counted last.
    pub(crate) load: Cell<u64>,
    /// The version of the schema that every shard shows to clients.
    pub(crate) schema_version: Cell<u128>,
    /// When this process started, seconds since the epoch.
    pub(crate) started_at_s: u64,
    /// What others were seen to have, and by which process of theirs: what was recorded, and what came since.
    pub(crate) recorded: RefCell<HashMap<HostId, Seen>>,
}

impl Gatekeeper for Gate {
    fn identity(&self) -> Identity {
        let state = self.machine.state();
        let (vote_term, applied) = self.group.get().map_or((0, None), |group| group.durable());
        let version = state.version();
        Identity {
            cluster_name: self.cluster_name.clone(),
            cluster_id: state.cluster().map_or(0, |cluster| cluster.id),
            epoch: version.epoch,
            host: self.member.host_id,
            starts: self.starts,
            vote_term,
            applied_index: applied.unwrap_or(0),
            applied_version: version.index,
            shards: self.member.shards,
            ignore_msb: self.member.ignore_msb,
            features: self.member.features,
            address: Some(self.member.internode),
            release: self.member.release.clone(),
        }
    }

    fn check(&self, theirs: &Hello) -> Result<(), Refusal> {
        let host = theirs.node.host;
        if self.machine.state().is_refused(host) {
            let text = format!(
                "host {host} was removed from the cluster, replaced, has left it or gave up joining: it joins again with an empty data folder"
            );
            return Err(Refusal::new(RefusalKind::Banned, text));
        }
        // What nodes had that are no members is of no use: they may begin anew.
        let is_member = self.machine.state().members().get(host).is_some();
        let known = self
            .recorded
            .borrow()
            .get(&host)
            .copied()
            .filter(|_| is_member && !runtime::planted(runtime::Bug::OldFolderLetIn));
        let now = judged(known, theirs, &self.identity(), runtime::unix_micros())?;
        self.recorded.borrow_mut().insert(host, now);
        Ok(())
    }

    /// ⚔ Before a connection is used that consensus runs on: what this node does with a peer's votes and acknowledgements rests on what that one has, and
    /// a restart of this node must not make it take an older copy of the peer's folder for the peer.
    fn record<'a>(&'a self, theirs: &'a Hello) -> Recording<'a> {
        Box::pin(async move {
            let host = theirs.node.host;
            let news: Vec<_> = self.unsaved().into_iter().filter(|(member, _)| *member == host).collect();
            let machine = self.machine.clone();
            // ⚔ In a task of its own: whoever dials may stop waiting, and a record must not be dropped half way.
            let noted =
                runtime::spawn_now(runtime::Group::CONTROL, async move { machine.note_seen(&news).await });
            noted.await.map_err(|error| error.to_string())
        })
    }

    fn misdirected(&self, theirs: &Hello) {
        let (caller, state) = (&theirs.node, self.machine.state());
        if caller.cluster_name != self.cluster_name || caller.cluster_id == 0 {
            return;
        }
        // Addresses with a host id are those of members: nobody expects a host of whom it was not told by its cluster.
        let (host, cluster) = (caller.host, caller.cluster_id);
        if state.cluster().is_none() {
            self.known_to.set(Some((host, cluster)));
        } else if (self.clients_open)()
            && let Some(text) =
                must_close_native(&state, self.member.internode, (host, cluster, &caller.cluster_name), true)
        {
            (self.close_clients)(text);
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            starts: self.starts,
            applied_version: self.machine.state().version().index,
            native_open: (self.clients_open)(),
            load: self.load.get(),
            schema_version: self.schema_version.get(),
            started_at_s: self.started_at_s,
        }
    }
}

impl Gate {
    /// A peer that is up has said how far it is, and so it is on its disk.
    pub(crate) fn heard(&self, host: HostId, facts: &Facts) {
        if let Some(seen) = self.recorded.borrow_mut().get_mut(&host)
            && seen.had.starts == facts.starts
        {
            seen.had.applied_index = seen.had.applied_index.max(facts.applied_version);
        }
    }

    /// Makes durable what members were seen to have since it was done last: one sync, or none.
    pub(crate) async fn save_seen(&self) -> Result<(), Error> {
        for (host, term) in self.group.get().map(|group| group.votes_kept()).unwrap_or_default() {
            if let Some(seen) = self.recorded.borrow_mut().get_mut(&host) {
                seen.had.vote_term = seen.had.vote_term.max(term);
            }
        }
        self.machine.note_seen(&self.unsaved()).await
    }

    /// What is known of members. Of nodes that are none nothing is kept: they are many, and nobody counts on them.
    fn unsaved(&self) -> Vec<(HostId, Seen)> {
        let (state, recorded) = (self.machine.state(), self.recorded.borrow());
        let members = recorded.iter().filter(|(host, _)| state.members().get(**host).is_some());
        members.map(|(host, seen)| (*host, *seen)).collect()
    }
}

/// Judges a hello by what its host was seen to have; what it was seen to have behind it. Both ends dial: of two hellos of one process the older one may
/// come last, and is no older folder. Two processes never have one start counter: each counts its start, durably, before it says anything.
fn judged(known: Option<Seen>, theirs: &Hello, ours: &Identity, now_micros: i64) -> Result<Seen, Refusal> {
    let node = &theirs.node;
    let is_same = known.is_some_and(|known| known.process == theirs.process);
    let earlier = known.filter(|_| !is_same).map(|known| known.had);
    theirs.judge(ours, earlier.as_ref(), now_micros)?;
    if earlier.is_some_and(|had| had.starts == node.starts) {
        let text = format!(
            "host {} was started twice as its start {}: a copied or restored data folder, or one that was emptied",
            node.host, node.starts
        );
        return Err(Refusal::new(RefusalKind::Copied, text));
    }
    let before = known.filter(|_| is_same).unwrap_or_default().had;
    let had = Recorded {
        starts: node.starts.max(before.starts),
        vote_term: node.vote_term.max(before.vote_term),
        applied_index: node.applied_index.max(before.applied_index),
    };
    Ok(Seen { had, process: theirs.process })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpc::Class;

    fn hello(process: u64, starts: u64, vote_term: u64, applied_index: u64) -> Hello {
        Hello {
            node: Identity { host: HostId(1), starts, vote_term, applied_index, ..Identity::default() },
            protocol: (1, 1),
            class: Class::Control,
            wanted_shard: 0,
            from_shard: 0,
            process,
            unix_micros: 0,
            expected: HostId(0),
        }
    }

    fn after(known: Option<Seen>, theirs: &Hello) -> Option<Seen> {
        judged(known, theirs, &Identity::default(), 0).ok()
    }

    #[test]
    fn hellos_of_one_process_may_come_in_any_order_and_those_of_a_copy_may_not() {
        let known = after(None, &hello(7, 1, 0, 3));
        assert!(known.is_some());
        let known = after(known, &hello(7, 1, 0, 2));
        assert!(known.is_some(), "an earlier hello of the same process");
        assert!(after(known, &hello(8, 2, 0, 2)).is_none(), "what is remembered is the largest");
        assert!(after(known, &hello(8, 2, 0, 3)).is_some());
    }

    #[test]
    fn each_of_counter_vote_and_index_gives_an_older_folder_away() {
        let known = after(None, &hello(7, 5, 8, 90));
        assert!(after(known, &hello(8, 6, 8, 90)).is_some(), "it was started again");
        for older in [hello(8, 4, 8, 90), hello(8, 6, 7, 90), hello(8, 6, 8, 89)] {
            assert!(after(known, &older).is_none(), "{:?}", older.node);
        }
        assert!(after(known, &hello(8, 5, 8, 90)).is_none(), "two folders were started from one");
    }
}
