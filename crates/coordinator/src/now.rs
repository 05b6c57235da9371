//! Requests that end in one step: this node is the whole cluster, this shard owns what is asked, nothing must be waited for.
//!
//! Most requests to a single node are of this kind, and a future that is never suspended costs more than they do. The
//! rules are those of [`Coordinator::read`] and [`Coordinator::write`]: whoever gets `None` asks them, and they also say
//! what is wrong with a request that cannot be served.

use crate::coordinator::Coordinator;
use crate::error::{Error, WriteKind};
use crate::replicas::Silence;
use crate::write::judge_one;
use mutation::{Mutation, ReadAnswer, ReadCommand};
use storage::Durability;
use types::Consistency;

impl Coordinator {
    /// As [`Coordinator::read`], within this step.
    pub fn read_now(&self, command: &ReadCommand, consistency: Consistency) -> Option<ReadAnswer> {
        if !self.suffices(command.table, consistency) {
            return None;
        }
        let (answer, micros) = self.local().read_now(command)?;
        self.metrics.reads.inc();
        self.metrics.read_latency.record_placed(micros);
        Some(answer)
    }

    /// As [`Coordinator::write`], within this step.
    pub fn write_now(
        &self,
        mutations: &[Mutation],
        consistency: Consistency,
        kind: WriteKind,
    ) -> Option<Result<(), Error>> {
        let suffices = |mutation: &Mutation| self.suffices(mutation.table(), consistency);
        if consistency.is_serial() || !mutations.iter().all(suffices) {
            return None;
        }
        let (written, micros) = self.local().write_now(mutations, Durability::Mode)?;
        self.metrics.writes.inc();
        self.metrics.write_latency.record_placed(micros);
        Some(written.or_else(|error| {
            let here = self.topology().local().broadcast;
            judge_one(Err(Silence::Failed(error)), here, 1, consistency, kind)
        }))
    }
}
