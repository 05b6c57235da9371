//! Merging sstables partition by partition into one, leaving out what is gone for good.
//!
//! Each input is scanned in bounded pieces. Of a partition larger than one piece a window is written at a time: up to the
//! position to which all inputs are known. A tombstone is purged only with proof that nothing outside the inputs can hold
//! older data for its partition.

use crate::Error;
use crate::compaction::progress::Running;
use crate::limits::{COMPACTION_FRAGMENT_BYTES, WRITER_PENDING_BYTES};
use crate::store::Store;
use crate::table::{Sstable, TableStore};
use mutation::{Bound, Deletion, Item, Key, Partition, Purge, RangeTombstone, Rewrite, Slice, rewrite_row};
use schema::{BoundSide, Position, Table};
use sstable::{Scanner, SourceSlice, Writer};
use std::rc::Rc;
use std::sync::Arc;

/// One merge under way.
pub(crate) struct Merge<'a> {
    store: &'a Store,
    table: Rc<TableStore>,
    definition: Arc<Table>,
    inputs: Vec<Input>,
    now_s: u32,
    gc_before: u32,
    running: &'a Running,
}

struct Input {
    sstable: Rc<Sstable>,
    scanner: Scanner,
    piece: Option<(Key, SourceSlice)>,
    done: bool,
}

/// The end of a piece: everything before it is known.
type Edge = (Position, Bound);

impl<'a> Merge<'a> {
    pub(crate) fn new(
        store: &'a Store,
        table: &Rc<TableStore>,
        sstables: &[Rc<Sstable>],
        now_s: u32,
        running: &'a Running,
    ) -> Merge<'a> {
        let definition = table.definition();
        let grace = u32::try_from(definition.options.gc_grace_seconds).unwrap_or(0);
        let input = |sstable: &Rc<Sstable>| Input {
            sstable: sstable.clone(),
            scanner: sstable.reader.scan(store.interval),
            piece: None,
            done: false,
        };
        Merge {
            store,
            table: table.clone(),
            definition,
            inputs: sstables.iter().map(input).collect(),
            now_s,
            gc_before: now_s.saturating_sub(grace),
            running,
        }
    }

    /// Writes everything that is left of the inputs.
    pub(crate) async fn run(mut self, writer: &mut Writer) -> Result<(), Error> {
        loop {
            if self.store.stopping.get() {
                return Err(Error::Stopping);
            }
            if self.table.dropped.get() {
                return Err(Error::UnknownTable(self.table.id));
            }
            for input in &mut self.inputs {
                input.fill().await?;
            }
            let heads = self.inputs.iter().filter_map(|input| input.piece.as_ref());
            let Some(key) = heads.map(|(key, _)| key).min().cloned() else { return Ok(()) };
            self.partition(&key, writer).await?;
            self.running.completed.set(self.inputs.iter().map(|input| input.scanner.position()).sum());
            if writer.pending_bytes() >= WRITER_PENDING_BYTES {
                writer.drain().await?;
            }
            runtime::yield_if_needed().await;
        }
    }

    async fn partition(&mut self, key: &Key, writer: &mut Writer) -> Result<(), Error> {
        let mut partition = Partition::new();
        let mut edges: Vec<(usize, Edge)> = Vec::new();
        let mut sources = 0;
        for index in 0..self.inputs.len() {
            if let Some(slice) = self.inputs[index].take(key) {
                sources += 1;
                self.absorb(&mut partition, &mut edges, index, &slice)?;
            }
        }
        self.running.merged(sources);
        let purge = self.purge_of(key);
        let mut scratch = Vec::new();
        let deletion = if purge.allows(partition.deletion.timestamp, partition.deletion.local_time) {
            Deletion::LIVE
        } else {
            partition.deletion
        };
        let rewrite = Rewrite { shadow: partition.deletion, expire_at: Some(self.now_s), purge: Some(purge) };
        let body = partition.static_row.take();
        let kept = body.is_some_and(|body| rewrite_row(&body, &rewrite, &mut scratch));
        writer.start_partition(&key.bytes, key.token, deletion, kept.then_some(&scratch[..]))?;
        loop {
            let edge = edges.iter().map(|(_, edge)| edge).min_by(|a, b| a.0.cmp(&b.0)).cloned();
            self.write_window(&partition, edge.as_ref(), purge, writer)?;
            let Some(edge) = edge else { break };
            partition = remainder(&self.definition, &partition, &edge)?;
            if writer.pending_bytes() >= WRITER_PENDING_BYTES {
                writer.drain().await?;
            }
            runtime::yield_if_needed().await;
            let (reached, left): (Vec<_>, Vec<_>) = edges.into_iter().partition(|(_, at)| at.0 == edge.0);
            edges = left;
            for (index, _) in reached {
                let continued = self.inputs[index].scanner.next(&[Slice::all()], piece_bytes()).await?;
                if let Some(piece) = continued {
                    self.absorb(&mut partition, &mut edges, index, &piece.slice)?;
                }
            }
        }
        writer.end_partition()?;
        Ok(())
    }

    fn absorb(
        &self,
        partition: &mut Partition,
        edges: &mut Vec<(usize, Edge)>,
        index: usize,
        slice: &SourceSlice,
    ) -> Result<(), Error> {
        partition.apply(&self.definition, &slice.mutation.view())?;
        if let Some(position) = &slice.complete_to {
            edges.push((index, (position.clone(), self.bound_at(slice, position)?)));
        }
        Ok(())
    }

    /// The bound of the last row or tombstone of a piece, at which the piece ends.
    fn bound_at(&self, slice: &SourceSlice, edge: &Position) -> Result<Bound, Error> {
        for item in slice.mutation.view().items() {
            let bound = match item {
                Item::Row { clustering, .. } => Bound::new(clustering, BoundSide::After),
                Item::Range { end, .. } => end.to_bound(),
            };
            if bound.position(&self.definition)? == *edge {
                return Ok(bound);
            }
        }
        base::never!(true, "a piece of a scan ends at one of its items");
        Err(Error::Stopping)
    }

    /// What may be purged from a partition: nothing that data outside of the inputs, as old as it or older, needs.
    fn purge_of(&self, key: &Key) -> Purge {
        let version = self.table.version();
        let nothing = Purge { gc_before: 0, max_timestamp: i64::MIN };
        if version.memtables().any(|memtable| memtable.contains(key.token, &key.bytes)) {
            return nothing;
        }
        let h2 = base::murmur3(&key.bytes).1;
        let is_input =
            |sstable: &Rc<Sstable>| self.inputs.iter().any(|input| Rc::ptr_eq(&input.sstable, sstable));
        let outside = version.sstables.iter().filter(|sstable| {
            !is_input(sstable) && sstable.covers(key.token) && sstable.reader.may_contain(key.token, h2)
        });
        let oldest = outside.map(|sstable| sstable.entry.meta.min_timestamp).min();
        Purge { gc_before: self.gc_before, max_timestamp: oldest.unwrap_or(i64::MAX) }
    }

    /// Writes the rows and tombstones before the edge, or all.
    fn write_window(
        &self,
        partition: &Partition,
        edge: Option<&Edge>,
        purge: Purge,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        let end = edge.map_or(Position::top(), |(position, _)| position.clone());
        let kept = |range: &RangeTombstone| {
            let deletion = range.deletion;
            deletion.supersedes(partition.deletion) && !purge.allows(deletion.timestamp, deletion.local_time)
        };
        let ranges = partition.ranges.overlapping(&Position::bottom(), &end);
        let mut ranges = ranges.filter(|(_, _, range)| kept(range)).peekable();
        let clip = |end_at: &Position, range: RangeTombstone| match edge {
            Some((edge_at, bound)) if end_at > edge_at => RangeTombstone { end: bound.clone(), ..range },
            _ => range,
        };
        let mut scratch = Vec::new();
        for (position, row) in partition.rows_between(&[], edge.map(|(position, _)| position.as_bytes())) {
            while let Some((_, end_at, range)) = ranges.next_if(|(at, ..)| at < position) {
                writer.range_tombstone(&clip(&end_at, range))?;
            }
            let shadow = partition.covering(position);
            let rewrite = Rewrite { shadow, expire_at: Some(self.now_s), purge: Some(purge) };
            scratch.clear();
            if rewrite_row(row.body(), &rewrite, &mut scratch) {
                writer.row(row.clustering(), &scratch)?;
            }
        }
        for (_, end_at, range) in ranges {
            writer.range_tombstone(&clip(&end_at, range))?;
        }
        Ok(())
    }
}

/// Bytes asked of an input in one step.
fn piece_bytes() -> usize {
    if runtime::rare("small_compaction_pieces") { 100 } else { COMPACTION_FRAGMENT_BYTES }
}

/// What of a partition lies at or behind an edge.
fn remainder(table: &Table, partition: &Partition, edge: &Edge) -> Result<Partition, Error> {
    let mut rest = Partition::new();
    rest.deletion = partition.deletion;
    for (_, row) in partition.rows_between(&edge.0, None) {
        rest.merge_row(table, row.clustering(), row.body())?;
    }
    for (start_at, _, range) in partition.ranges.overlapping(&edge.0, &Position::top()) {
        let start = if start_at < edge.0 { edge.1.clone() } else { range.start };
        rest.ranges.add(table, RangeTombstone { start, ..range })?;
    }
    Ok(rest)
}

impl Input {
    /// Makes sure that the next partition that counts is there, or that there is none.
    async fn fill(&mut self) -> Result<(), Error> {
        while self.piece.is_none() && !self.done {
            self.scanner.skip_partition().await?;
            let Some(scanned) = self.scanner.next(&[Slice::all()], piece_bytes()).await? else {
                self.done = true;
                break;
            };
            let view = scanned.slice.mutation.view();
            let key = Key::with_token(view.token, view.key);
            if self.sstable.covers(key.token) {
                self.piece = Some((key, scanned.slice));
            }
        }
        Ok(())
    }

    fn take(&mut self, key: &Key) -> Option<SourceSlice> {
        self.piece.take_if(|(head, _)| head == key).map(|(_, slice)| slice)
    }
}
