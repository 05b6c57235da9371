//! Forgetting what a table holds.

use crate::Error;
use crate::floors::{Planned, Point};
use crate::manifest::Edit;
use crate::store::Store;
use crate::table::TableStore;
use schema::TableId;

impl Store {
    /// Refuses from now on writes of these tables that were planned before these points, and of no others. A truncation begins with this, on
    /// every shard, so that nothing is behind it that it should have taken.
    pub fn set_floors(&self, floors: impl Iterator<Item = (TableId, Point)>) {
        self.floors.set(floors);
    }

    /// Forgets everything a table holds now; writes that come meanwhile stay.
    /// `at`: microseconds since the Unix epoch, kept in the manifest.
    /// Errors: nothing was forgotten.
    /// Yields: until the writes that wait for their sync now are applied, and for the manifest.
    pub async fn truncate(&self, id: TableId, at: i64) -> Result<(), Error> {
        let table = self.table(id)?;
        let _turn = table.turn.lock().await;
        if table.dropped.get() {
            // A table made again with the id must not lose what is written to it meanwhile.
            return Err(Error::UnknownTable(id));
        }
        if self.is_behind(&table) {
            self.flush_frozen(&table).await?;
        }
        let position = self.freeze_settled(&table).await;
        let truncating = Truncating::begin(&table);
        let gone = table.version().frozen.clone();
        let (mut sstables, removed) = {
            let mut manifest = self.manifest.lock().await;
            let sstables = table.version().sstables.clone();
            // Those that are left out count with the next start, so they go, too.
            let known = manifest.state().sstables.keys().filter(|(table, _)| *table == id);
            let removed: Vec<u64> = known.map(|(_, generation)| *generation).collect();
            let edit = Edit {
                remove: removed.iter().map(|generation| (id, *generation)).collect(),
                flushed: vec![(id, position)],
                truncated: vec![(id, at)],
                ..Edit::default()
            };
            manifest.commit(&edit).await?;
            table.publish(Vec::new(), &removed, None);
            table.forget_cached();
            (sstables, removed)
        };
        self.give_up(&table, position);
        table.replayable.flushed(position);
        drop(truncating);
        assert!(sstables.len() <= removed.len(), "what is read is in the manifest");
        for frozen in &gone {
            table.publish(Vec::new(), &[], Some(&frozen.memtable));
            self.memtable_gone(frozen.memtable.bytes());
            sstables.extend(frozen.written.take());
        }
        self.doom(&table, sstables);
        self.flushed.notify_all();
        self.reap().await;
        Ok(())
    }

    /// Whether a part of a logged batch, a hint or whatever else was kept for later is gone with a truncation of its table, or with the drop
    /// of an earlier table of its id: then it must not be written any more. A part that was planned in a cluster is judged by the cluster's history, whatever
    /// clocks say; one of a node that was alone, by time.
    /// ⚔ Ask it after the view was taken that the part is written on: what is truncated from then on is refused by replicas.
    pub async fn is_overtaken(&self, table: TableId, planned: Planned) -> bool {
        if self.floors.of(table).is_some_and(|floor| planned.on < floor) {
            return true;
        }
        planned.on == Point::ALONE && self.truncated_at(table).await.is_some_and(|at| planned.at <= at)
    }

    /// When a table was truncated last, or one of its id dropped, in microseconds since the Unix epoch, as the caller of
    /// [`Store::truncate`] said.
    pub async fn truncated_at(&self, id: TableId) -> Option<i64> {
        self.manifest.lock().await.truncated_at(id)
    }
}

/// While it is there no write without a caller is applied to a table.
struct Truncating<'a>(&'a TableStore);

impl Truncating<'_> {
    fn begin(table: &TableStore) -> Truncating<'_> {
        table.is_truncating.set(true);
        Truncating(table)
    }
}

impl Drop for Truncating<'_> {
    fn drop(&mut self) {
        self.0.is_truncating.set(false);
    }
}
