//! What replicas missed, written to them later; and writes at ANY, for which it is enough that it will be.

use crate::coordinator::{Coordinator, Ticket};
use crate::error::Error;
use crate::replicas::Silence;
use crate::view::View;
use crate::write::{Asked, Once};
use base::HostId;
use mutation::Mutation;
use replica::Request;
use std::rc::Rc;
use std::time::Duration;
use storage::{Durability, Planned, Point};
use types::Consistency;

/// Why a replica did not get what it had missed. It may have it all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unwritten {
    /// No answer in time, or no way there. Try again later.
    #[error("no answer")]
    Unheard,
    /// It knows a newer version of what this was planned on. Sort out again what may still be written.
    #[error("planned on an old version")]
    Behind,
    /// It answered that it could not.
    #[error("{0}")]
    Failed(replica::Error),
}

impl Coordinator {
    /// Writes to another node what it has missed, as any replica write; returns when it is on its disk.
    /// `on`: the point of the view by which it was found that the node is to have it.
    pub async fn write_missed(
        self: &Rc<Self>,
        host: HostId,
        mutations: Vec<Mutation>,
        on: Point,
        timeout: Duration,
    ) -> Result<(), Unwritten> {
        let request = Request::Write { mutations, durability: Durability::Synced };
        match self.clone().ask(host, request, on, timeout).await {
            Ok(_) => Ok(()),
            Err(Silence::Unheard) => Err(Unwritten::Unheard),
            Err(Silence::Behind(version)) => {
                self.catch_up(host, version, runtime::now() + timeout).await;
                Err(Unwritten::Behind)
            }
            Err(Silence::Failed(error)) => Err(Unwritten::Failed(error)),
        }
    }

    /// Whether one of the mutations has no replica that is alive.
    pub(crate) fn lacks_targets(&self, view: &View, mutations: &[Mutation]) -> Result<bool, Error> {
        for mutation in mutations {
            if self.plan_write(view, mutation, Consistency::Any)?.targets.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes at ANY where some mutations have no replica that is alive: of those a hint must be durable. The others are written as ever, and
    /// for them a replica must answer.
    /// Errors: `Timeout` when no hint is kept, as Cassandra has it, at once.
    pub(crate) async fn write_any(
        self: &Rc<Self>,
        view: &Rc<View>,
        mutations: &[Mutation],
        planned: Planned,
        asked: Asked,
    ) -> Once {
        let (mut present, mut kept) = (Vec::new(), Vec::new());
        for mutation in mutations {
            let plan = match self.plan_write(view, mutation, Consistency::Any) {
                Ok(plan) => plan,
                Err(error) => return Once::Told(Err(error)),
            };
            if !plan.targets.is_empty() {
                present.push(mutation.clone());
                continue;
            }
            let keep = |host: &HostId| self.tell_missed(*host, std::slice::from_ref(mutation), planned);
            kept.push(plan.missed.iter().filter_map(keep).collect::<Vec<Ticket>>());
        }
        if !present.is_empty() {
            match self.write_once(view, &present.into(), planned, asked).await {
                Once::Told(Ok(())) => {}
                ended => return ended,
            }
        }
        for tickets in kept {
            if runtime::timeout_at(asked.until, self.is_durable(&tickets)).await != Ok(true) {
                return Once::Told(Err(asked.late(1)));
            }
        }
        Once::Told(Ok(()))
    }
}
