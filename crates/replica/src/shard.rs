//! One shard's part of a replica: its store behind messages.

use crate::Error;
use crate::counting::Counting;
use crate::floor::Floor;
use crate::turns::Turns;
use base::histogram::Placed;
use core::time::Duration;
use mutation::{Mutation, ReadAnswer, ReadCommand};
use paxos::Records;
use runtime::log::Sparse;
use schema::TableId;
use std::rc::Rc;
use storage::{Durability, Point, Store};

/// The store of this shard, as replicas are spoken to. Installed once per shard.
pub struct Shard {
    store: Rc<Store>,
    /// How states of lightweight transactions are written.
    records: Records,
    /// Partitions whose state is at work.
    turns: Turns,
    /// Up to when no round of a lightweight transaction goes on.
    floor: Floor,
    /// Counters that are at work.
    counting: Counting,
    /// Damage that is worth a line in the log.
    told: Sparse,
}

/// At most one failed read of a shard is written to the log in this time: an application repeats its reads.
const DAMAGE_LOG_EVERY: Duration = Duration::from_secs(10);

impl Shard {
    /// Wraps a shard's store.
    pub fn new(store: Rc<Store>) -> Shard {
        Shard {
            store,
            records: Records::new(),
            turns: Turns::default(),
            floor: Floor::default(),
            counting: Counting::default(),
            told: Sparse::new(DAMAGE_LOG_EVERY),
        }
    }

    /// The store itself, for what operators ask and for its clock; reads and writes go through the methods here.
    pub fn store(&self) -> &Rc<Store> {
        &self.store
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(crate) fn floor(&self) -> &Floor {
        &self.floor
    }

    pub(crate) fn counting(&self) -> &Counting {
        &self.counting
    }

    /// Reads this shard's part of what is asked.
    pub async fn read(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        let answer = self.store.read(command).await.inspect_err(|error| self.tell_damage(error))?;
        Ok(answer)
    }

    /// The client is told by the coordinator; whoever looks after the machine must learn of damaged files, too, and it may have
    /// consequences.
    fn tell_damage(&self, error: &storage::Error) {
        self.store.note_fault(error);
        let damage = matches!(
            error,
            storage::Error::Io { .. } | storage::Error::Corrupt { .. } | storage::Error::Sstable(_)
        );
        if damage && self.told.take() {
            runtime::error!("a read failed: {error}");
        }
    }

    /// As [`Shard::read`] if memory alone answers; `None`: ask that.
    /// Also says how many microseconds it took.
    pub fn read_now(&self, command: &ReadCommand) -> Option<(ReadAnswer, Placed)> {
        self.store.read_now(command)
    }

    /// As [`Shard::write`] if nothing has to be waited for; `None`: nothing has happened, ask that.
    /// Also says how many microseconds it took.
    pub fn write_now(
        &self,
        mutations: &[Mutation],
        durability: Durability,
        on: Point,
    ) -> Option<(Result<(), Error>, Placed)> {
        let (applied, micros) = self.store.apply_planned_now(mutations, durability, on)?;
        Some((applied.map_err(Error::from), micros))
    }

    /// How many tombstones reads of a table may meet.
    pub fn tombstone_limits(&self, table: &schema::Table) -> storage::TombstoneLimits {
        self.store.tombstone_limits(table)
    }

    /// Applies mutations whose tokens this shard owns, all or none.
    pub async fn write(
        &self,
        mutations: Vec<Mutation>,
        durability: Durability,
        on: Point,
    ) -> Result<(), Error> {
        let count = mutations.len();
        self.store.apply_planned(mutations, durability, on).await?;
        runtime::tracing::note(|| match count {
            1 => "Appended a mutation to the commitlog and added it to its memtable".to_owned(),
            _ => format!("Appended {count} mutations to the commitlog and added them to memtables"),
        });
        Ok(())
    }

    /// Forgets a table's data up to a time.
    pub async fn truncate(&self, table: TableId, at: i64) -> Result<(), Error> {
        Ok(self.store.truncate(table, at).await?)
    }
}
