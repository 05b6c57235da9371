//! Who this node is to others, and who may speak with it.

use crate::machine::Machine;
use crate::wire::Slot;
use base::{HashMap, HostId};
use core::cell::{Cell, RefCell};
use group0::must_close_native;
use rpc::{Facts, Gatekeeper, Hello, Identity, Recorded, Refusal, RefusalKind};
use std::rc::Rc;
use topology::Member;

/// What a peer had, and the number of its process.
type Seen = (Recorded, u64);

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
    /// What others were seen to have since this process started, and by which process of theirs.
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
            let text = format!("host {host} was put out of the cluster, replaced, or has left it");
            return Err(Refusal::new(RefusalKind::Banned, text));
        }
        let known = self.recorded.borrow().get(&host).copied();
        let (earlier, now) = compared(known, theirs);
        theirs.judge(&self.identity(), earlier.as_ref(), runtime::unix_micros())?;
        self.recorded.borrow_mut().insert(host, now);
        Ok(())
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

/// What a hello is to be compared with, and what is to be kept of it. Both ends dial: of two hellos of one process the older one may come
/// last, and is no older folder.
fn compared(known: Option<Seen>, theirs: &Hello) -> (Option<Recorded>, Seen) {
    let node = &theirs.node;
    let same = known.filter(|(_, process)| *process == theirs.process).map(|(recorded, _)| recorded);
    let before = same.unwrap_or_default();
    let now = Recorded {
        starts: node.starts.max(before.starts),
        vote_term: node.vote_term.max(before.vote_term),
        applied_index: node.applied_index.max(before.applied_index),
    };
    let earlier = known.filter(|_| same.is_none()).map(|(recorded, _)| recorded);
    (earlier, (now, theirs.process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpc::Class;

    #[test]
    fn hellos_of_one_process_may_come_in_any_order_and_those_of_a_copy_may_not() {
        let hello = |process, applied_index| Hello {
            node: Identity { host: HostId(1), starts: 1, applied_index, ..Identity::default() },
            protocol: (1, 1),
            class: Class::Control,
            wanted_shard: 0,
            from_shard: 0,
            process,
            unix_micros: 0,
            expected: HostId(0),
        };
        let judged = |known, theirs: &Hello| {
            let (earlier, now) = compared(known, theirs);
            (theirs.judge(&Identity::default(), earlier.as_ref(), 0).is_ok(), Some(now))
        };
        let (ok, known) = judged(None, &hello(7, 3));
        assert!(ok);
        let (ok, known) = judged(known, &hello(7, 2));
        assert!(ok, "an earlier hello of the same process");
        assert!(!judged(known, &hello(8, 2)).0, "what is remembered is the largest");
        assert!(judged(known, &hello(8, 3)).0);
    }
}
