//! What an operator has done at once: each takes the table's turn, so that nothing else begins meanwhile, and ends what runs.

use super::merge::Work;
use super::progress::CompactionKind;
use super::strategy::{Shape, Strategy, Task};
use crate::Error;
use crate::store::Store;
use crate::table::{Sstable, TableStore, table_of_dir};
use base::{HashMap, Token};
use mutation::{ColumnView, Liveness, RowView, RowWriter, TokenRange};
use runtime::sync::LockGuard;
use schema::TableId;
use sstable::{Component, Descriptor};
use std::borrow::Cow;
use std::path::Path;
use std::rc::Rc;

/// How an operator wants all sstables of a table merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MajorCompaction {
    /// Into sstables of halving sizes, where the strategy would make one.
    pub split_output: bool,
    /// Only sstables that hold tokens from the first to the last of these.
    pub range: Option<(Token, Token)>,
}

/// How closely deleted data is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// What partition, range and row tombstones delete.
    Row,
    /// Also cells that were deleted or overwritten one by one.
    Cell,
}

/// What scrubbing a table found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Sstables that were read.
    pub sstables: u64,
    /// Partitions of which something could not be read.
    pub lost_partitions: u64,
    /// What could not be read, by file and place; the first some hundred.
    pub lost: Vec<String>,
}

/// Losses that are named one by one.
const LOST_NAMED_MAX: usize = 500;

impl Store {
    /// Merges all sstables of a table, in one or as its strategy has it.
    pub async fn compact(&self, table: TableId) -> Result<(), Error> {
        self.compact_as(table, &MajorCompaction::default()).await
    }

    /// Merges sstables of a table as an operator wants it. Errors: what was recorded so far counts.
    pub async fn compact_as(&self, id: TableId, how: &MajorCompaction) -> Result<(), Error> {
        let table = self.table(id)?;
        let _turn = self.turn(&table).await?;
        let wanted = |sstable: &Sstable| {
            how.range.is_none_or(|(first, last)| sstable.overlaps(TokenRange::new(first, last)))
        };
        self.merge_some(&table, wanted, how.split_output).await.map(|_| ())
    }

    /// Merges those sstables of this shard that are named by their data files; returns how many there were.
    /// Shape: paths whose last two parts are a table's folder and a file.
    pub async fn compact_files(&self, files: &[String]) -> Result<usize, Error> {
        let mut found = 0;
        for table in self.all_tables() {
            let generations: Vec<u64> =
                files.iter().filter_map(|file| generation_of(file, table.id)).collect();
            if generations.is_empty() {
                continue;
            }
            let _turn = self.turn(&table).await?;
            let wanted = |sstable: &Sstable| generations.contains(&sstable.generation());
            found += self.merge_some(&table, wanted, false).await?;
        }
        Ok(found)
    }

    /// Lets go of what this node does not own any more: `owned` are the tokens it does, from the first to the
    /// last of each range.
    pub async fn cleanup(&self, id: TableId, owned: &[(Token, Token)]) -> Result<(), Error> {
        let owned: Vec<TokenRange> =
            owned.iter().map(|(first, last)| TokenRange::new(*first, *last)).collect();
        let table = self.table(id)?;
        let _turn = self.turn(&table).await?;
        let strange = |sstable: &Sstable| {
            let meta = &sstable.entry.meta;
            let whole = TokenRange::new(meta.first_token, meta.last_token);
            !owned.iter().any(|range| range.contains(whole.first) && range.contains(whole.last))
        };
        let owned = |work: Work| Work { owned: Some(owned.clone()), ..work };
        self.each_alone(&table, CompactionKind::Cleanup, strange, owned).await.map(|_| ())
    }

    /// Writes every sstable of a table anew, without what cannot be read.
    /// Errors: one could not be written; those before it are scrubbed.
    pub async fn scrub(&self, id: TableId) -> Result<Scrubbed, Error> {
        let table = self.table(id)?;
        let _turn = self.turn(&table).await?;
        let skips = |work: Work| Work { skips_damage: true, ..work };
        self.each_alone(&table, CompactionKind::Scrub, |_| true, skips).await
    }

    /// Writes every sstable of a table anew, the oldest first, without what the others of it delete.
    pub async fn garbage_collect(&self, id: TableId, granularity: Granularity) -> Result<(), Error> {
        let table = self.table(id)?;
        let _turn = self.turn(&table).await?;
        let all = table.version().sstables.clone();
        let mut oldest_first: Vec<u64> = all.iter().map(|sstable| sstable.generation()).collect();
        oldest_first.sort_by_key(|generation| {
            let of = all.iter().find(|sstable| sstable.generation() == *generation);
            (of.map(|sstable| sstable.entry.meta.min_timestamp), *generation)
        });
        for generation in oldest_first {
            let version = table.version();
            let Some(sstable) = version.sstables.iter().find(|s| s.generation() == generation) else {
                continue;
            };
            let meta = &sstable.entry.meta;
            let range = TokenRange::new(meta.first_token, meta.last_token);
            let others = version.sstables.iter().filter(|other| {
                !Rc::ptr_eq(other, sstable)
                    && other.overlaps(range)
                    && meta.min_timestamp <= other.entry.meta.max_timestamp
            });
            let others: Vec<Rc<Sstable>> = others.cloned().collect();
            let wanted = |other: &Sstable| other.generation() == generation;
            let shadowed = |work: Work| Work { shadows: Some((granularity, others.clone())), ..work };
            self.each_alone(&table, CompactionKind::GarbageCollect, wanted, shadowed).await?;
        }
        Ok(())
    }

    /// Writes the sstables of a table anew that are of an earlier version of the format, or all.
    pub async fn upgrade(&self, id: TableId, all: bool) -> Result<(), Error> {
        let table = self.table(id)?;
        let _turn = self.turn(&table).await?;
        let old = |sstable: &Sstable| {
            let meta = &sstable.entry.meta;
            all || meta.descriptor().version != self.settings.version_of_new(meta.may_delete_early())
        };
        self.each_alone(&table, CompactionKind::Upgrade, old, |work| work).await.map(|_| ())
    }

    /// Ends compactions that run, by what they are for and which they are; `None`: any. Returns how many; they end soon.
    pub fn stop_compactions(&self, kind: Option<CompactionKind>, id: Option<u128>) -> usize {
        self.compactions.stop_by(kind, id)
    }

    /// The right to compact a table alone: what runs is told to end, and what it recorded counts.
    async fn turn<'t>(&self, table: &'t Rc<TableStore>) -> Result<LockGuard<'t, ()>, Error> {
        let turn = table.compaction.lock().await;
        while table.compacting.running.get() > 0 {
            self.compactions.stop_of(table.id);
            table.compacting.ended.wait().await;
        }
        self.record_unrecorded(table).await?;
        Ok(turn)
    }

    /// Merges some sstables of a table as its strategy has it; returns how many. The caller holds the turn.
    async fn merge_some(
        &self,
        table: &Rc<TableStore>,
        wanted: impl Fn(&Sstable) -> bool,
        split_output: bool,
    ) -> Result<usize, Error> {
        let mut sstables = table.version().sstables.clone();
        let mut candidates = self.candidates(table);
        candidates.retain(|candidate| {
            sstables.iter().any(|sstable| sstable.generation() == candidate.generation && wanted(sstable))
        });
        sstables.retain(|sstable| wanted(sstable));
        let count = sstables.len();
        let strategy = Strategy::of(&table.definition().options);
        let tasks = strategy.whole(self.scene(table, &candidates), split_output).into_iter();
        let picked = |task: Task| -> (Vec<Rc<Sstable>>, Shape) {
            (task.inputs.iter().map(|index| sstables[*index].clone()).collect(), task.shape)
        };
        let tasks: Vec<_> = tasks.map(picked).collect();
        // Nothing but its compaction holds an sstable, so that its files go when it is let go.
        drop(sstables);
        for (picked, shape) in tasks {
            let claim = self.claim(table, picked);
            self.merge(table, &Work::plain(CompactionKind::Major, shape), &claim).await?;
        }
        self.reap().await;
        Ok(count)
    }

    /// Writes sstables of a table anew, each for itself. The caller holds the turn.
    async fn each_alone(
        &self,
        table: &Rc<TableStore>,
        kind: CompactionKind,
        wanted: impl Fn(&Sstable) -> bool,
        adjust: impl Fn(Work) -> Work,
    ) -> Result<Scrubbed, Error> {
        let generations: Vec<u64> = {
            let version = table.version();
            version.sstables.iter().filter(|sstable| wanted(sstable)).map(|s| s.generation()).collect()
        };
        let mut scrubbed = Scrubbed::default();
        for generation in generations {
            let version = table.version();
            let Some(index) = version.sstables.iter().position(|s| s.generation() == generation) else {
                continue;
            };
            let candidates = self.candidates(table);
            let strategy = Strategy::of(&table.definition().options);
            let shape = strategy.alone(self.scene(table, &candidates), index);
            let claim = self.claim(table, vec![version.sstables[index].clone()]);
            drop(version);
            let merged = self.merge(table, &adjust(Work::plain(kind, shape)), &claim).await?;
            scrubbed.sstables += 1;
            scrubbed.lost_partitions += merged.lost_partitions;
            let room = LOST_NAMED_MAX.saturating_sub(scrubbed.lost.len());
            scrubbed.lost.extend(merged.lost.into_iter().take(room));
        }
        self.reap().await;
        Ok(scrubbed)
    }
}

/// The generation that the path of a data file names, if it is one of this table.
fn generation_of(file: &str, table: TableId) -> Option<u64> {
    let path = Path::new(file);
    let folder = path.parent()?.file_name()?.to_str()?;
    if table_of_dir(folder) != Some(table) {
        return None;
    }
    let (descriptor, component) = Descriptor::of_file_name(path.file_name()?.to_str()?)?;
    descriptor.id.number().filter(|_| component == Component::Data)
}

impl Granularity {
    /// A row without what another version of it has newer; `None`: nothing is left. The tombstones of the row as a whole are
    /// somebody else's to count.
    pub(super) fn clean<'r>(self, body: &'r [u8], other: Option<&[u8]>) -> Option<Cow<'r, [u8]>> {
        let (Granularity::Cell, Some(other)) = (self, other) else { return Some(Cow::Borrowed(body)) };
        let (row, other) = (RowView::new(body), RowView::new(other));
        let superseded = row.liveness().timestamp < other.liveness().timestamp && !other.liveness().is_none();
        let liveness = if superseded { Liveness::NONE } else { row.liveness() };
        let mut any = !liveness.is_none() || !row.deletion().is_live();
        let mut out = Vec::with_capacity(body.len());
        let mut writer = RowWriter::new(&mut out, liveness, row.deletion());
        for (ordinal, column) in row.columns() {
            match (column, other.column(ordinal)) {
                (ColumnView::Simple(cell), Some(ColumnView::Simple(newer)))
                    if cell.timestamp < newer.timestamp => {}
                (ColumnView::Simple(cell), _) => {
                    writer.simple(ordinal, cell);
                    any = true;
                }
                (ColumnView::Complex(complex), Some(ColumnView::Complex(newer))) => {
                    let deletion = complex.deletion;
                    let deleted = newer.deletion.supersedes(deletion);
                    // By path: a collection may have a hundred thousand elements.
                    let others: HashMap<&[u8], i64> =
                        newer.cells().map(|(path, cell)| (path, cell.timestamp)).collect();
                    let cells = complex.cells().filter(|(path, cell)| {
                        !newer.deletion.deletes(cell.timestamp)
                            && others.get(path).is_none_or(|timestamp| *timestamp <= cell.timestamp)
                    });
                    let mut cells = cells.peekable();
                    let deletion = if deleted { mutation::Deletion::LIVE } else { deletion };
                    if cells.peek().is_some() || !deletion.is_live() {
                        any = true;
                        writer.complex_start(ordinal, deletion);
                        cells.for_each(|(path, cell)| writer.complex_cell(path, cell));
                        writer.complex_end();
                    }
                }
                (ColumnView::Complex(complex), _) => {
                    any = true;
                    writer.complex_start(ordinal, complex.deletion);
                    complex.cells().for_each(|(path, cell)| writer.complex_cell(path, cell));
                    writer.complex_end();
                }
            }
        }
        any.then_some(Cow::Owned(out))
    }
}
