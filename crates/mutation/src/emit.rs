//! From a merged partition to a part of an answer, within limits.
//!
//! Replicas and coordinators cut answers by the same rule, so both use this.

use crate::command::{Key, ReadCommand};
use crate::deletion::Deletion;
use crate::encoded::{Mutation, MutationBuilder};
use crate::merge::{Rewrite, rewrite_row};
use crate::partition::{Partition, Row};
use crate::ranges::RangeTombstone;
use crate::row::{row_is_live, row_judged};
use schema::{Position, TableId};
use std::borrow::Cow;

/// What may still be put into an answer. A partition whose rows are used up gives none and counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Live rows in all.
    pub rows: u32,
    /// Live rows of the partition at hand.
    pub partition_rows: u32,
    /// Bytes in all.
    pub bytes: usize,
}

/// What came of emitting one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emitted {
    /// What is known, tombstones included; `None` when nothing is.
    pub mutation: Option<Mutation>,
    /// Live rows in it.
    pub live_rows: u32,
    /// The last position dealt with when a limit or `complete_to` cut the partition; `None`: all of it was done.
    pub cut_after: Option<Position>,
    /// Tombstones and expired cells among what was walked; a range tombstone counts for its two ends.
    pub tombstones: u32,
}

/// The part of a partition to emit.
#[derive(Debug, Clone, Copy)]
pub struct Emit<'a> {
    /// The table.
    pub table: TableId,
    /// Its key.
    pub key: &'a Key,
    /// What was asked; where it resumes says how many live rows of this partition earlier pages took.
    pub command: &'a ReadCommand,
    /// Only rows behind this position in reading order.
    pub after: Option<&'a Position>,
    /// Rows behind this position in reading order are not known yet: stop there.
    pub complete_to: Option<&'a Position>,
}

/// Emits the rows a command asks for, in reading order, until a limit is reached.
/// Shape: rows and tombstones that covering deletions have killed are left out; expired cells stay as written.
///        O(rows walked). Does not subtract from the budget: the caller does, by what is returned.
pub fn emit(partition: &Partition, emit: &Emit<'_>, budget: Budget) -> Emitted {
    let command = emit.command;
    let mut builder = MutationBuilder::new(emit.table, emit.key.token, &emit.key.bytes);
    builder.deletion(partition.deletion);
    let mut walk = Walk {
        emit,
        partition,
        budget,
        live_rows: 0,
        last: None,
        cut: false,
        tombstones: 0,
        scratch: Vec::new(),
    };
    let static_live = walk.put_static(&mut builder);
    let count = command.slices.len();
    for index in 0..count {
        let slice = &command.slices[if command.reversed { count - 1 - index } else { index }];
        let Some((start, end)) = walk.clip(slice) else {
            continue;
        };
        let rows = partition.rows_between(&start, Some(&end));
        let done = match (partition.ranges.is_empty(), command.reversed) {
            (true, false) => walk.put_rows(rows, &mut builder),
            (true, true) => walk.put_rows(rows.rev(), &mut builder),
            (false, false) => {
                let ranges = partition.ranges.overlapping(&start, &end);
                let before = |range: &Range, row: &Position| range.0 < *row;
                walk.put_mixed(rows, ranges, before, &mut builder)
            }
            (false, true) => {
                let ranges = partition.ranges.overlapping(&start, &end).rev();
                let before = |range: &Range, row: &Position| range.1 > *row;
                walk.put_mixed(rows.rev(), ranges, before, &mut builder)
            }
        };
        if !done {
            walk.cut = true;
            break;
        }
    }
    let unread = emit.complete_to.is_some();
    // Earlier pages may have ended among rows of the partition that are all dead: those do not stand for it.
    let taken = command.resume.as_ref().filter(|resume| emit.after.is_some() && resume.key == *emit.key);
    let first = walk.live_rows == 0 && taken.is_none_or(|resume| resume.rows_taken == 0);
    let only_static = static_live && command.static_counts && first;
    let (mut live_rows, tombstones) = (walk.live_rows, walk.tombstones);
    if only_static && !walk.cut && !unread {
        live_rows = 1;
    }
    let cut_after = match (walk.cut, unread) {
        (true, _) => walk.last.cloned(),
        (false, true) => emit.complete_to.cloned(),
        (false, false) => None,
    };
    Emitted { mutation: (!builder.is_empty()).then(|| builder.finish()), live_rows, cut_after, tombstones }
}

/// A range tombstone between the positions of its ends.
type Range = (Position, Position, RangeTombstone);

struct Walk<'e, 'a> {
    emit: &'e Emit<'a>,
    partition: &'e Partition,
    budget: Budget,
    live_rows: u32,
    last: Option<&'e Position>,
    cut: bool,
    tombstones: u32,
    scratch: Vec<u8>,
}

impl<'e, 'a> Walk<'e, 'a> {
    fn put_static(&mut self, builder: &mut MutationBuilder) -> bool {
        let Some(body) = &self.partition.static_row else {
            return false;
        };
        let rewrite = Rewrite { shadow: self.partition.deletion, expire_at: None, purge: None };
        self.scratch.clear();
        let now_s = self.emit.command.now_s;
        let live = row_is_live(body, self.partition.deletion, now_s);
        if rewrite_row(body, &rewrite, &mut self.scratch) {
            let (_, tombstones) = row_judged(&self.scratch, Deletion::LIVE, now_s);
            self.tombstones = self.tombstones.saturating_add(tombstones);
            builder.static_row(&self.scratch);
        }
        live
    }

    /// The part of a slice that is behind `after` and known. Copies only what it cuts.
    fn clip(&self, slice: &'a crate::Slice) -> Option<(Cow<'a, Position>, Cow<'a, Position>)> {
        let (mut start, mut end) = (Cow::Borrowed(&slice.start), Cow::Borrowed(&slice.end));
        let (after, complete_to) = (self.emit.after, self.emit.complete_to);
        let reversed = self.emit.command.reversed;
        if let Some(after) = after {
            if reversed {
                end = end.min(Cow::Borrowed(after));
            } else {
                start = start.max(Cow::Owned(after.successor()));
            }
        }
        if let Some(last) = complete_to {
            if reversed {
                start = start.max(Cow::Borrowed(last));
            } else {
                end = end.min(Cow::Owned(last.successor()));
            }
        }
        (start < end).then_some((start, end))
    }

    /// As [`Walk::put_rows`], with the range tombstones that overlap the slice: those that begin `before` a row come with it,
    /// so that a page meets none behind its end. They are whole: they are true whatever the slice is.
    fn put_mixed(
        &mut self,
        rows: impl Iterator<Item = (&'e Position, &'e Row)>,
        ranges: impl Iterator<Item = Range>,
        before: impl Fn(&Range, &Position) -> bool,
        builder: &mut MutationBuilder,
    ) -> bool {
        let partition = self.partition;
        let mut ranges = ranges.filter(|range| range.2.deletion.supersedes(partition.deletion)).peekable();
        for (position, row) in rows {
            if self.exhausted(builder) {
                return false;
            }
            while let Some(range) = ranges.next_if(|range| before(range, position)) {
                self.put_range(&range, builder);
            }
            self.put_row(position, row, builder);
        }
        // Without a row there is no place where the next page could go on.
        if self.last.is_some() && ranges.peek().is_some() && self.exhausted(builder) {
            return false;
        }
        ranges.for_each(|range| self.put_range(&range, builder));
        true
    }

    fn put_range(&mut self, range: &Range, builder: &mut MutationBuilder) {
        self.tombstones = self.tombstones.saturating_add(2);
        builder.range(&range.2);
    }

    /// Returns false when a limit was reached with rows left.
    fn put_rows(
        &mut self,
        rows: impl Iterator<Item = (&'e Position, &'e Row)>,
        builder: &mut MutationBuilder,
    ) -> bool {
        for (position, row) in rows {
            if self.exhausted(builder) {
                return false;
            }
            self.put_row(position, row, builder);
        }
        true
    }

    fn exhausted(&self, builder: &MutationBuilder) -> bool {
        // Bytes alone never stop the first row, so that every page makes progress.
        self.live_rows >= self.budget.rows.min(self.budget.partition_rows)
            || (self.last.is_some() && builder.len() >= self.budget.bytes)
    }

    fn put_row(&mut self, position: &'e Position, row: &Row, builder: &mut MutationBuilder) {
        let covering = self.partition.covering(position);
        let now_s = self.emit.command.now_s;
        self.last = Some(position);
        if covering == Deletion::LIVE {
            let (live, tombstones) = row_judged(row.body(), covering, now_s);
            self.live_rows += u32::from(live);
            self.tombstones = self.tombstones.saturating_add(tombstones);
            return builder.row(row.clustering(), row.body());
        }
        self.live_rows += u32::from(row_is_live(row.body(), covering, now_s));
        self.scratch.clear();
        let rewrite = Rewrite { shadow: covering, expire_at: None, purge: None };
        if rewrite_row(row.body(), &rewrite, &mut self.scratch) {
            let (_, tombstones) = row_judged(&self.scratch, Deletion::LIVE, now_s);
            self.tombstones = self.tombstones.saturating_add(tombstones);
            builder.row(row.clustering(), &self.scratch);
        }
    }
}
