//! From what is known of a partition to a part of an answer, within limits.
//!
//! Replicas and coordinators cut answers by the same rule, so both use this. What is known may lie in several places; it is
//! merged row by row on the way, so nothing is copied but what is answered.

use crate::buffer::Buffer;
use crate::command::{Key, ReadCommand, Slice};
use crate::deletion::Deletion;
use crate::encoded::{Mutation, MutationBuilder};
use crate::limits::WALKED_BYTES_MAX;
use crate::merge::{Rewrite, merge_rows, replaces, rewrite_row, without_hidden};
use crate::ranges::{RangeRef, Sweep, SweepBack};
use crate::row::{row_is_live, row_judged};
use crate::view::{Body, PartitionView, RowRef};
use schema::{Position, Table, TableId};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::iter::Peekable;

/// What may still be put into an answer. A partition whose rows are used up gives none and counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Live rows in all.
    pub rows: u32,
    /// Live rows of the partition at hand.
    pub partition_rows: u32,
    /// Bytes in all.
    pub bytes: usize,
    /// Tombstones met in all, but for those of the static row.
    pub tombstones: u32,
}

/// What came of emitting one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emitted {
    /// What is known, tombstones included; `None` when nothing is.
    pub mutation: Option<Mutation>,
    /// Live rows in it.
    pub live_rows: u32,
    /// Bytes of its rows and range tombstones: what stands in every page is left out.
    pub bytes: usize,
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
///        O(rows walked), and ends early after [`WALKED_BYTES_MAX`] of rows however few are left of them. Does not subtract
///        from the budget: the caller does, by what is returned.
pub fn emit<V: PartitionView>(partition: &V, emit: &Emit<'_>, budget: Budget) -> Emitted {
    Walk::new(std::slice::from_ref(partition), None, emit, budget).run()
}

/// As [`emit`], of what several sources know together; cells of dropped columns are left out.
/// Cost: as [`emit`]; rows that only one source knows are not copied before they are answered.
pub fn emit_merged<V: PartitionView>(
    table: &Table,
    sources: &[V],
    emit: &Emit<'_>,
    budget: Budget,
) -> Emitted {
    Walk::new(sources, Some(table), emit, budget).run()
}

/// What a range tombstone counts among the bytes walked, beside its bounds.
const RANGE_BYTES: usize = 32;

struct Walk<'e, 'a, V> {
    emit: &'e Emit<'a>,
    sources: &'e [V],
    /// For merging rows of several sources, and for what dropped columns hide.
    table: Option<&'e Table>,
    hides: bool,
    deletion: Deletion,
    budget: Budget,
    live_rows: u32,
    last: Option<Position>,
    /// Where the range tombstone that was emitted last starts.
    told: Option<&'e Position>,
    cut: bool,
    /// Bytes of what stands in every page: key, deletion, static row.
    head: usize,
    /// The tombstones among that.
    head_tombstones: u32,
    /// Bytes of rows and range tombstones walked.
    walked: usize,
    tombstones: u32,
    scratch: Buffer,
    unhidden: Buffer,
    /// Large rows, put together.
    pieces: Buffer,
}

/// The range tombstones of a slice in reading order, and the last one begun.
struct Ranges<'e, I: Iterator<Item = RangeRef<'e>>> {
    ahead: Peekable<I>,
    open: Option<RangeRef<'e>>,
}

impl<'e, 'a, V: PartitionView> Walk<'e, 'a, V> {
    fn new(
        sources: &'e [V],
        table: Option<&'e Table>,
        emit: &'e Emit<'a>,
        budget: Budget,
    ) -> Walk<'e, 'a, V> {
        Walk {
            emit,
            sources,
            table,
            hides: table.is_some_and(Table::hides_cells),
            deletion: sources.iter().map(V::deletion).fold(Deletion::LIVE, Deletion::max),
            budget,
            live_rows: 0,
            last: None,
            told: None,
            cut: false,
            head: 0,
            head_tombstones: 0,
            walked: 0,
            tombstones: 0,
            scratch: Buffer::default(),
            unhidden: Buffer::default(),
            pieces: Buffer::default(),
        }
    }

    fn run(mut self) -> Emitted {
        let (emit, command) = (self.emit, self.emit.command);
        let mut builder = MutationBuilder::new(emit.table, emit.key.token, &emit.key.bytes);
        builder.deletion(self.deletion);
        let static_live = self.put_static(&mut builder);
        (self.head, self.head_tombstones) = (builder.len(), self.tombstones);
        let count = command.slices.len();
        for index in 0..count {
            let slice = &command.slices[if command.reversed { count - 1 - index } else { index }];
            let Some((start, end)) = self.clip(slice) else {
                continue;
            };
            if !self.put_slice(&start, &end, &mut builder) {
                self.cut = true;
                break;
            }
        }
        let unread = emit.complete_to.is_some();
        // Earlier pages may have ended among rows of the partition that are all dead: those do not stand for it.
        let taken = command.resume.as_ref().filter(|resume| emit.after.is_some() && resume.key == *emit.key);
        let first = self.live_rows == 0 && taken.is_none_or(|resume| resume.rows_taken == 0);
        if static_live && command.static_counts && first && !self.cut && !unread {
            self.live_rows = 1;
        }
        let cut_after = match (self.cut, unread) {
            (true, _) => self.last,
            (false, true) => emit.complete_to.cloned(),
            (false, false) => None,
        };
        let bytes = builder.len() - self.head;
        let mutation = (!builder.is_empty()).then(|| builder.finish());
        Emitted { mutation, live_rows: self.live_rows, bytes, cut_after, tombstones: self.tombstones }
    }

    fn put_static(&mut self, builder: &mut MutationBuilder) -> bool {
        let mut known = self.sources.iter().filter_map(V::static_row);
        let Some(first) = known.next() else { return false };
        let mut merged: Cow<'_, [u8]> = match first {
            Body::Whole(body) => Cow::Borrowed(body),
            Body::Pieces(_) => Cow::Owned(first.whole(&mut Vec::new()).to_vec()),
        };
        for body in known {
            let table = self.table.expect("several sources come with their table");
            let mut both = Vec::with_capacity(merged.len() + body.size());
            merge_rows(table, true, &merged, body.whole(&mut self.pieces), &mut both);
            merged = Cow::Owned(both);
        }
        if let Some(table) = self.table.filter(|_| self.hides) {
            let mut kept = Vec::with_capacity(merged.len());
            if !without_hidden(&merged, |ordinal| table.hidden_to(true, ordinal), &mut kept) {
                return false;
            }
            merged = Cow::Owned(kept);
        }
        let rewrite = Rewrite { shadow: self.deletion, expire_at: None, purge: None };
        self.scratch.clear();
        let now_s = self.emit.command.now_s;
        let live = row_is_live(&merged, self.deletion, now_s);
        if rewrite_row(&merged, &rewrite, &mut self.scratch) {
            let (_, tombstones) = row_judged(&self.scratch, Deletion::LIVE, now_s);
            self.tombstones = self.tombstones.saturating_add(tombstones);
            builder.static_row(&self.scratch);
        }
        live
    }

    /// The part of a slice that is behind `after` and known. Copies only what it cuts.
    fn clip(&self, slice: &'a Slice) -> Option<(Cow<'a, Position>, Cow<'a, Position>)> {
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

    /// Emits one slice. False when a limit was reached with something left.
    fn put_slice(&mut self, start: &Position, end: &Position, builder: &mut MutationBuilder) -> bool {
        let sources = self.sources;
        let reversed = self.emit.command.reversed;
        let ranges = || sources.iter().filter_map(V::ranges);
        if ranges().next().is_none() {
            return self.put_rows(start, end, builder, |walk, row, builder| {
                let covering = walk.deletion;
                walk.put_row(row, covering, builder);
                true
            });
        }
        if reversed {
            let before = |range: &RangeRef<'_>, row: &[u8]| range.end_at.as_bytes() > row;
            self.put_mixed(start, end, SweepBack::between(ranges(), start, end), before, builder)
        } else {
            let before = |range: &RangeRef<'_>, row: &[u8]| range.start_at.as_bytes() <= row;
            self.put_mixed(start, end, Sweep::between(ranges(), start, end), before, builder)
        }
    }

    /// As [`Walk::put_rows`], with the range tombstones that overlap the slice: those that begin `before` a row come with it,
    /// so that a page meets none behind its end. They are whole: they are true whatever the slice is.
    fn put_mixed(
        &mut self,
        start: &Position,
        end: &Position,
        ranges: impl Iterator<Item = RangeRef<'e>>,
        before: impl Fn(&RangeRef<'_>, &[u8]) -> bool,
        builder: &mut MutationBuilder,
    ) -> bool {
        let mut ranges = Ranges { ahead: ranges.peekable(), open: None };
        let done = self.put_rows(start, end, builder, |walk, row, builder| {
            if !walk.put_ranges(&mut ranges, |range| before(range, row.position), builder) {
                return false;
            }
            let covers = |range: &RangeRef<'_>| {
                range.start_at.as_bytes() <= row.position && row.position < range.end_at.as_bytes()
            };
            let covering = ranges.open.filter(covers).map_or(Deletion::LIVE, |range| range.deletion);
            let covering = walk.deletion.max(covering);
            walk.put_row(row, covering, builder);
            true
        });
        if !done || self.last.is_some() && ranges.ahead.peek().is_some() && self.exhausted(builder) {
            return false;
        }
        self.put_ranges(&mut ranges, |_| true, builder)
    }

    /// Emits the next range tombstones as long as they are `wanted`. False when a limit was reached with some left.
    fn put_ranges<I: Iterator<Item = RangeRef<'e>>>(
        &mut self,
        ranges: &mut Ranges<'e, I>,
        wanted: impl Fn(&RangeRef<'_>) -> bool,
        builder: &mut MutationBuilder,
    ) -> bool {
        // All of them begin behind the last row, if there was one.
        let mut begun: Option<&Position> = None;
        while let Some(range) = ranges.ahead.next_if(&wanted) {
            ranges.open = Some(range);
            // One that reaches over several slices is told once.
            if self.told == Some(range.start_at) {
                continue;
            }
            if let Some(place) = begun
                && self.is_large(builder)
            {
                self.last = Some(place.clone());
                return false;
            }
            self.put_range(&range, builder);
            self.told = Some(range.start_at);
            begun = self.begin_of(&range);
        }
        self.last = begun.cloned().or(self.last.take());
        true
    }

    /// Where a range tombstone begins in reading order, if that is further than this page began: the next may begin there.
    fn begin_of(&self, range: &RangeRef<'e>) -> Option<&'e Position> {
        let after = self.emit.after;
        if self.emit.command.reversed {
            after.is_none_or(|after| range.end_at < after).then_some(range.end_at)
        } else {
            after.is_none_or(|after| range.start_at > after).then_some(range.start_at)
        }
    }

    fn put_range(&mut self, range: &RangeRef<'_>, builder: &mut MutationBuilder) {
        self.walked += RANGE_BYTES + range.start.prefix.len() + range.end.prefix.len();
        if range.deletion.supersedes(self.deletion) {
            self.tombstones = self.tombstones.saturating_add(2);
            builder.range_between(range.start, range.end, range.deletion);
        }
    }

    /// Hands over the rows of all sources in reading order, merged. False when a limit was reached with rows left, or `put` says so, which then
    /// has noted where the next page goes on.
    fn put_rows(
        &mut self,
        start: &Position,
        end: &Position,
        builder: &mut MutationBuilder,
        mut put: impl FnMut(&mut Self, RowRef<'_>, &mut MutationBuilder) -> bool,
    ) -> bool {
        let (sources, reversed) = (self.sources, self.emit.command.reversed);
        if let [only] = sources {
            let mut last = None;
            for row in only.rows_between(start, Some(end), reversed) {
                if self.exhausted_behind(last.is_some(), builder) {
                    self.note_last(last);
                    return false;
                }
                last = Some(row.position);
                if !put(self, row, builder) {
                    return false;
                }
            }
            self.note_last(last);
            return true;
        }
        let rows = sources.iter().map(|source| source.rows_between(start, Some(end), reversed).peekable());
        let mut rows: SmallVec<[_; 4]> = rows.collect();
        let table = self.table.expect("several sources come with their table");
        let mut last = None;
        let mut merging = Merging::default();
        while let Some((first, same)) = next_row(&mut rows, reversed) {
            if self.exhausted_behind(last.is_some(), builder) {
                self.note_last(last);
                return false;
            }
            let position = rows[first].peek().expect("found just now").position;
            last = Some(position);
            if same == 1 {
                let row = rows[first].next().expect("found just now");
                if !put(self, row, builder) {
                    return false;
                }
                continue;
            }
            let mut versions =
                rows.iter_mut().filter_map(|rows| rows.next_if(|row| row.position == position));
            let one = versions.next().expect("several have it");
            let other = versions.next().expect("several have it");
            if same == 2
                && let Some(row) = winner(table, one, other)
            {
                if !put(self, row, builder) {
                    return false;
                }
                continue;
            }
            merging.start(one);
            std::iter::once(other).chain(versions).for_each(|row| merging.add(table, row));
            if !put(self, merging.row(position), builder) {
                return false;
            }
        }
        self.note_last(last);
        true
    }

    /// The last row of a slice, if it gave any, is the place where a next piece goes on.
    fn note_last(&mut self, last: Option<&[u8]>) {
        if let Some(last) = last {
            self.last = Some(Position::from_bytes(last));
        }
    }

    fn exhausted(&self, builder: &MutationBuilder) -> bool {
        self.exhausted_behind(false, builder)
    }

    /// `behind_row`: this slice has given a row.
    fn exhausted_behind(&self, behind_row: bool, builder: &MutationBuilder) -> bool {
        // Bytes and tombstones alone never stop the first row, so that every page makes progress.
        self.live_rows >= self.budget.rows.min(self.budget.partition_rows)
            || ((behind_row || self.last.is_some()) && self.is_large(builder))
    }

    fn is_large(&self, builder: &MutationBuilder) -> bool {
        builder.len() - self.head >= self.budget.bytes
            || self.walked >= WALKED_BYTES_MAX
            || self.tombstones - self.head_tombstones >= self.budget.tombstones
    }

    fn put_row(&mut self, row: RowRef<'_>, covering: Deletion, builder: &mut MutationBuilder) {
        self.walked += row.size();
        if let (Body::Whole(body), false) = (row.body, self.hides) {
            return self.put_seen(row.clustering, body, covering, builder);
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        let body = row.body.whole(&mut pieces);
        match self.table.filter(|_| self.hides) {
            None => self.put_seen(row.clustering, body, covering, builder),
            Some(table) => {
                let mut unhidden = std::mem::take(&mut self.unhidden);
                unhidden.clear();
                if without_hidden(body, |ordinal| table.hidden_to(false, ordinal), &mut unhidden) {
                    self.put_seen(row.clustering, &unhidden, covering, builder);
                }
                self.unhidden = unhidden;
            }
        }
        self.pieces = pieces;
    }

    fn put_seen(
        &mut self,
        clustering: &[u8],
        body: &[u8],
        covering: Deletion,
        builder: &mut MutationBuilder,
    ) {
        let now_s = self.emit.command.now_s;
        if covering == Deletion::LIVE {
            let (live, tombstones) = row_judged(body, covering, now_s);
            self.live_rows += u32::from(live);
            self.tombstones = self.tombstones.saturating_add(tombstones);
            return builder.row(clustering, body);
        }
        self.live_rows += u32::from(row_is_live(body, covering, now_s));
        self.scratch.clear();
        self.scratch.make_room(body.len());
        let rewrite = Rewrite { shadow: covering, expire_at: None, purge: None };
        if rewrite_row(body, &rewrite, &mut self.scratch) {
            let (_, tombstones) = row_judged(&self.scratch, Deletion::LIVE, now_s);
            self.tombstones = self.tombstones.saturating_add(tombstones);
            builder.row(clustering, &self.scratch);
        }
    }
}

/// The source with the next row in reading order, and how many have a row there.
fn next_row<'v, I: Iterator<Item = RowRef<'v>>>(
    rows: &mut [Peekable<I>],
    reversed: bool,
) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize, &[u8])> = None;
    for (index, rows) in rows.iter_mut().enumerate() {
        let Some(row) = rows.peek() else { continue };
        best = Some(match best {
            None => (index, 1, row.position),
            Some((first, same, position)) => match (row.position.cmp(position), reversed) {
                (Ordering::Equal, _) => (first, same + 1, position),
                (Ordering::Less, false) | (Ordering::Greater, true) => (index, 1, row.position),
                (Ordering::Less, true) | (Ordering::Greater, false) => (first, same, position),
            },
        });
    }
    best.map(|(first, same, _)| (first, same))
}

/// The version of two that says all there is, when one does: a row that was written once more, most of the time.
fn winner<'r>(table: &Table, one: RowRef<'r>, other: RowRef<'r>) -> Option<RowRef<'r>> {
    let (Body::Whole(first), Body::Whole(second)) = (one.body, other.body) else { return None };
    let row = if replaces(table, first, second) {
        other
    } else if replaces(table, second, first) {
        one
    } else {
        return None;
    };
    // Equal values can have several byte forms: the same one, whatever comes first.
    Some(RowRef { clustering: one.clustering.max(other.clustering), ..row })
}

/// Versions of one row becoming one.
#[derive(Default)]
struct Merging {
    clustering: Buffer,
    body: Buffer,
    spare: Buffer,
    pieces: Buffer,
}

impl Merging {
    fn start(&mut self, row: RowRef<'_>) {
        self.clustering.clear();
        self.clustering.make_room(row.clustering.len());
        self.clustering.extend_from_slice(row.clustering);
        self.body.clear();
        self.body.make_room(row.body.size());
        row.body.write(&mut self.body);
    }

    fn add(&mut self, table: &Table, row: RowRef<'_>) {
        // As above.
        if row.clustering > self.clustering.as_slice() {
            self.clustering.clear();
            self.clustering.extend_from_slice(row.clustering);
        }
        self.spare.clear();
        self.spare.make_room(self.body.len() + row.body.size());
        merge_rows(table, false, &self.body, row.body.whole(&mut self.pieces), &mut self.spare);
        std::mem::swap(&mut self.body, &mut self.spare);
    }

    fn row<'m>(&'m self, position: &'m [u8]) -> RowRef<'m> {
        RowRef { position, clustering: &self.clustering, body: Body::Whole(&self.body) }
    }
}
