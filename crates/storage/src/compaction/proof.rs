//! When a tombstone may go: when its grace is over and nothing that stays can hold data as old as it or older.
//!
//! What stays are memtables, sstables outside of the compaction that cover the token and whose filter may hold the key, and what
//! the log alone has and a restart would bring back ([`Replayable`](crate::replayable::Replayable)). The grace must have been over
//! when the oldest write was logged that still waits for its sync: whatever is logged later comes too late for the tombstone.

use super::strategy::Common;
use crate::store::Store;
use crate::table::{Sstable, TableStore, TableVersion};
use base::Token;
use mutation::{Key, Purge, TokenRange};
use runtime::Bug;
use schema::{Table, TombstoneGc};
use std::rc::Rc;

/// Nothing may go.
const NOTHING: Purge = Purge { gc_before: 0, max_timestamp: i64::MIN };

/// What holds for a whole compaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof {
    /// Tombstones made before this second have had their grace; 0: none.
    gc_before: u32,
    /// Whether only what a repair has seen may go.
    only_repaired: bool,
}

impl Proof {
    pub(super) fn new(store: &Store, table: &TableStore, definition: &Table) -> Proof {
        Proof::with(store, table, definition, &Common::of(&definition.options))
    }

    /// As [`Proof::new`], with what the options say already known.
    pub(super) fn with(store: &Store, table: &TableStore, definition: &Table, common: &Common) -> Proof {
        // What an sstable holds that cannot be read is not known, nor what is on its way here from other nodes.
        let kept =
            table.compacting.shares_files() || table.is_incomplete.get() || store.keeps_tombstones.get();
        let gc_before = if kept { 0 } else { gc_before(definition, store.waiting_since_s(table)) };
        Proof { gc_before, only_repaired: common.only_repaired }
    }

    /// The second before which tombstones may have had their grace; `None`: nothing may go.
    pub(super) fn gc_before(&self) -> Option<u32> {
        (self.gc_before > 0).then_some(self.gc_before)
    }

    /// What may go of a partition that comes from these inputs. `stays` says which sstables of the table are outside.
    pub(super) fn of_partition(
        &self,
        table: &TableStore,
        key: &Key,
        repaired: bool,
        stays: impl Fn(&Rc<Sstable>) -> bool,
    ) -> Purge {
        if self.gc_before == 0 || self.only_repaired && !repaired {
            return NOTHING;
        }
        if runtime::planted(Bug::PurgeWithoutProof) {
            return Purge { gc_before: self.gc_before, max_timestamp: i64::MAX };
        }
        let version = table.version();
        let mut oldest = table.replayable.oldest();
        for memtable in version.memtables() {
            let in_memory = memtable.with(key.token, &key.bytes, |partition| partition.min_timestamp());
            oldest = oldest.min(in_memory.unwrap_or(i64::MAX));
        }
        let h2 = base::murmur3(&key.bytes).1;
        for sstable in &version.sstables {
            let older = sstable.entry.meta.min_timestamp < oldest;
            if older
                && stays(sstable)
                && sstable.covers(key.token)
                && sstable.reader.may_contain(key.token, h2)
            {
                oldest = sstable.entry.meta.min_timestamp;
            }
        }
        Purge { gc_before: self.gc_before, max_timestamp: oldest }
    }

    /// Whether everything in an sstable is deleted or expired, and its grace over.
    pub(super) fn has_expired(&self, sstable: &Sstable) -> bool {
        let meta = &sstable.entry.meta;
        self.gc_before > 0
            && meta.is_expired_before(self.gc_before)
            && (!self.only_repaired || meta.repaired_at > 0)
    }

    /// Of these sstables those that can be dropped whole: all of each has expired, and nothing alive elsewhere is as old as the
    /// newest of it, which its tombstones might hide. Walks the keys of memtables.
    pub(super) async fn droppable(&self, table: &TableStore, among: &[Rc<Sstable>]) -> Vec<Rc<Sstable>> {
        let mut droppable = Vec::new();
        let version = table.version();
        for sstable in among.iter().filter(|sstable| self.has_expired(sstable)) {
            let meta = &sstable.entry.meta;
            // What has expired as well is no data that could come back.
            let hidden = version.sstables.iter().any(|other| {
                !Rc::ptr_eq(other, sstable)
                    && !self.has_expired(other)
                    && other.overlaps(TokenRange::new(meta.first_token, meta.last_token))
                    && other.entry.meta.min_timestamp <= meta.max_timestamp
            });
            if !hidden
                && !hides_memory(&version, sstable).await
                && meta.max_timestamp < table.replayable.oldest()
            {
                droppable.push(sstable.clone());
            }
        }
        droppable
    }
}

/// Whether a memtable may hold data as old as the newest of an sstable, of one of its keys.
async fn hides_memory(version: &TableVersion, sstable: &Sstable) -> bool {
    let meta = &sstable.entry.meta;
    let range = TokenRange::new(meta.first_token, meta.last_token);
    for memtable in version.memtables() {
        let mut after: Option<Key> = None;
        while let Some(key) = memtable.next_key(range, after.as_ref()) {
            if sstable.reader.may_contain(key.token, base::murmur3(&key.bytes).1) {
                let oldest = memtable.with(key.token, &key.bytes, |partition| partition.min_timestamp());
                if oldest.is_some_and(|oldest| oldest <= meta.max_timestamp) {
                    return true;
                }
            }
            after = Some(key);
            runtime::yield_if_needed().await;
        }
    }
    false
}

/// The second before which tombstones have had their grace; 0 when none ever has. `waiting_since_s`: it must have been over then.
fn gc_before(definition: &Table, waiting_since_s: Option<u32>) -> u32 {
    let now_s = runtime::unix_seconds();
    let over_s = waiting_since_s.map_or(now_s, |since_s| since_s.min(now_s));
    match definition.options.tombstone_gc() {
        TombstoneGc::Timeout => {
            over_s.saturating_sub(u32::try_from(definition.options.gc_grace_seconds).unwrap_or(0))
        }
        TombstoneGc::Immediate if waiting_since_s.is_some() => over_s,
        TombstoneGc::Immediate => now_s.saturating_add(1),
        // There are no repairs yet, so no tombstone was seen by one.
        TombstoneGc::Repair | TombstoneGc::Disabled => 0,
    }
}

/// Share of the tokens that an sstable spans in which no other sstable may hide data that its tombstones delete.
pub(super) fn lonely_share(sstable: &Sstable, version: &TableVersion) -> f64 {
    let meta = &sstable.entry.meta;
    let whole = TokenRange::new(meta.first_token, meta.last_token);
    let others = version.sstables.iter().filter(|other| {
        other.generation() != meta.generation && other.entry.meta.min_timestamp <= meta.max_timestamp
    });
    let covered = |other: &Rc<Sstable>| {
        let of = &other.entry.meta;
        whole.intersect(TokenRange::new(of.first_token, of.last_token))
    };
    let mut ranges: Vec<(Token, Token)> = others.filter_map(covered).map(|r| (r.first, r.last)).collect();
    ranges.sort_unstable();
    let width = |first: Token, last: Token| (i128::from(last.0) - i128::from(first.0) + 1) as f64;
    let (mut sum, mut end) = (0.0, None::<Token>);
    for (first, last) in ranges {
        let from = end.map_or(first, |end| if end < first { first } else { end });
        if end.is_none_or(|end| end < last) {
            sum += width(from, last);
            end = Some(last);
        }
    }
    (1.0 - sum / width(whole.first, whole.last)).clamp(0.0, 1.0)
}
