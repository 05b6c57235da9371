//! What the node does when a disk fails, as `disk_failure_policy` and `commit_failure_policy` say.
//!
//! Each shard's store judges; shard 0 acts: it closes native transport, which an operator may open again
//! (`nodetool enablebinary`), or ends the node without another write. Whatever the policies say, a node that cannot write its part of the cluster's
//! log ends: it may have promised what its disk does not have.

use crate::internode::Others;
use crate::operator::ClientPort;
use crate::start::StartError;
use admin::NativeTransport;
use runtime::{Group, ShardId};
use std::cell::RefCell;
use std::rc::Rc;
use storage::{Consequence, Fault, Store};

/// What shard 0 needs to act.
struct Guard {
    clients: ClientPort,
    died: RefCell<Option<StartError>>,
}

/// Says whether the node ended itself.
pub(crate) struct Guarded(Rc<Guard>);

impl Guarded {
    /// Errors: it did, for this reason.
    pub(crate) fn died(&self) -> Result<(), StartError> {
        match self.0.died.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Guard {
    /// Ends the node, for the first reason there was.
    fn die(&self, error: StartError) {
        self.died.borrow_mut().get_or_insert(error);
        runtime::request_shutdown();
    }
}

/// From now on faults have consequences. Runs on shard 0, when clients may connect.
pub(crate) fn guard(clients: &ClientPort, others: &Others) -> Guarded {
    let guard = Rc::new(Guard { clients: clients.clone(), died: RefCell::new(None) });
    runtime::install(guard.clone());
    let (ending, others) = (guard.clone(), others.clone());
    drop(runtime::spawn(Group::ADMIN, async move {
        if let Some(reason) = others.ended().await {
            ending.die(StartError::ClusterLog(reason));
        }
    }));
    Guarded(guard)
}

/// Passes faults of this shard's store on to shard 0 as long as the shard lives.
pub(crate) fn watch(store: &Rc<Store>) {
    let store = store.clone();
    drop(runtime::spawn(Group::ADMIN, async move {
        loop {
            let Fault { consequence, policy, error } = store.consequence().await;
            let reason = error.to_string();
            let act = move || async move { act(consequence, policy, reason).await };
            runtime::submit_to(ShardId(0), Group::ADMIN, act).await;
        }
    }));
}

async fn act(consequence: Consequence, policy: &'static str, reason: String) {
    // Before clients may connect a start fails by itself, where the fault matters to it.
    let Some(guard) = runtime::try_local::<Guard>() else { return };
    match consequence {
        Consequence::StopClients if guard.clients.is_running() => {
            runtime::error!("node: native transport is closed ({policy}): {reason}");
            if let Err(error) = guard.clients.switch(false).await {
                runtime::error!("node: cannot close native transport: {error}");
            }
        }
        Consequence::StopClients => {}
        Consequence::Die => guard.die(StartError::DiskFailed { policy, reason }),
    }
}
