//! Requests that end in one step: the plan has this node alone, this shard owns what is asked, nothing must be waited for.
//!
//! Most requests to a lone node, and reads at ONE of what a node holds, are of this kind, and a future that is never suspended costs more than they do. The
//! rules are those of [`Coordinator::read`] and [`Coordinator::write`]: whoever gets `None` asks them, and they also say
//! what is wrong with a request that cannot be served.

use crate::coordinator::Coordinator;
use crate::error::{Error, WriteKind};
use crate::replicas::Silence;
use crate::write::judge_one;
use mutation::{Mutation, ReadAnswer, ReadCommand, Scope};
use storage::Durability;
use types::Consistency;

impl Coordinator {
    /// As [`Coordinator::read`], within this step.
    pub fn read_now(&self, command: &ReadCommand, consistency: Consistency) -> Option<ReadAnswer> {
        let Scope::Keys(keys) = &command.scope else { return None };
        let [key] = &keys[..] else { return None };
        if !self.suffices_to_read(command.table, key.token, consistency) {
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
        let suffices =
            |mutation: &Mutation| self.suffices_to_write(mutation.table(), mutation.token(), consistency);
        if consistency.is_serial() || !mutations.iter().all(suffices) {
            return None;
        }
        let on = self.view_point();
        let (written, micros) = self.local().write_now(mutations, Durability::Mode, on)?;
        if let Err(replica::Error::Overtaken(_)) = written {
            // It waits for what this shard is about to be shown.
            return None;
        }
        self.metrics.writes.inc();
        self.metrics.write_latency.record_placed(micros);
        Some(written.or_else(|error| {
            let here = self.topology().local().broadcast();
            judge_one(Err(Silence::Failed(error)), here, 1, consistency, kind)
        }))
    }
}
