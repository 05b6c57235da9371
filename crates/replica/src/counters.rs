//! This shard as a leader of counters: reads its own shard of each cell, adds, makes the result durable, and hands it back to be sent. One at a time of
//! each partition; increments that come meanwhile are counted together by the next. Why this holds: `docs/mechanisms/counters.md`.

use crate::Error;
use crate::counting::{Asked, Increments};
use crate::shard::Shard;
use base::{HostId, Instant};
use mutation::{Mutation, ReadCommand, Scope};
use runtime::Bug;
use std::cell::RefCell;
use std::rc::Rc;
use storage::{Durability, Point};

impl Shard {
    /// Counts increments of a partition of this shard, once, and returns what others are to write: it is durable here, and visible.
    /// `None`: its turn did not come in time; nothing was counted.
    /// `on`: what was known of the cluster when they were planned.
    /// Errors: as of a write. Nothing was counted, or what may appear after a restart is the same and older than what is counted then.
    pub async fn count(
        &self,
        increments: Increments,
        on: Point,
        until: Instant,
    ) -> Result<Option<Mutation>, Error> {
        if runtime::planted(Bug::CountWithoutTurn) {
            let asked = Asked { increments, on, outcome: RefCell::default() };
            return self.count_together(&[Rc::new(asked)]).await.map(Some);
        }
        let whose = (increments.table.id, increments.key.clone());
        let asked = Rc::new(Asked { increments, on, outcome: RefCell::default() });
        // In one step with taking a place in the queue: whoever has its turn is the first of those that wait.
        self.counting().wait(whose.clone(), asked.clone());
        let place = self.counting().turns.place(whose.0, whose.1.clone());
        let _turn = match runtime::timeout_at(until, place.lock().lock()).await {
            Ok(turn) => turn,
            Err(_) if self.counting().withdraw(&whose, &asked) => return Ok(None),
            // It is under way, and ends with the turn of whoever counts it.
            Err(_) => place.lock().lock().await,
        };
        loop {
            if let Some(outcome) = asked.outcome.take() {
                return outcome.map(Some);
            }
            let together = self.counting().take(&whose);
            let outcome = self.count_together(&together).await;
            for one in &together {
                *one.outcome.borrow_mut() = Some(outcome.clone());
            }
            if together.is_empty() {
                return outcome.map(Some);
            }
        }
    }

    /// Counts what some requests ask for as one.
    async fn count_together(&self, together: &[Rc<Asked>]) -> Result<Mutation, Error> {
        let nothing = || Error::Malformed("no increments to count".to_string());
        let (first, on) = match (together.first(), together.iter().map(|asked| asked.on).min()) {
            (Some(first), Some(on)) => (&first.increments, on),
            (_, _) => return Err(nothing()),
        };
        let increments: Vec<Mutation> =
            together.iter().flat_map(|asked| &asked.increments.mutations).cloned().collect();
        let slices = mutation::counted_rows(&first.table, &increments).map_err(malformed)?;
        let now_s = runtime::unix_seconds();
        let scope = Scope::Keys(std::iter::once(first.key.clone()).collect());
        let mut command = ReadCommand {
            slices,
            static_counts: true,
            ..ReadCommand::everything(first.table.id, scope, now_s)
        };
        let (mut known, mut is_hit) = (Vec::new(), true);
        loop {
            let answer = match self.read_now(&command) {
                Some((answer, _)) => answer,
                None => {
                    is_hit = false;
                    self.read(&command).await?
                }
            };
            known.extend(answer.partitions);
            match answer.stopped {
                Some(at) => command.resume = Some(at),
                None => break,
            }
        }
        self.counting().note_read(is_hit);
        // ⚔ Later than all that this node gave before: what it counts after a deletion must not be older than what it counted before.
        let now = self.store().next_time(i64::MIN);
        let leader = if runtime::planted(Bug::CountIdShared) { HostId(1) } else { first.leader };
        let counted = mutation::count(&first.table, leader, &known, &increments, now);
        let counted = counted.map_err(malformed)?.ok_or_else(nothing)?;
        // ⚔ Whatever the table's mode: what others have of this node's shard and it has not itself would be counted again.
        let durability = match runtime::planted(Bug::CountSentBeforeDurable) {
            true => Durability::Mode,
            false => Durability::Synced,
        };
        self.store().apply_planned(vec![counted.clone()], durability, on).await?;
        runtime::tracing::note(|| "Counted, appended to the commitlog and added to its memtable");
        Ok(counted)
    }
}

fn malformed(error: mutation::Error) -> Error {
    Error::Malformed(error.to_string())
}
