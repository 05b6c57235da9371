//! What a replica lacks of what several know together.

use mutation::{
    Deletion, MutationBuilder, MutationView, Partition, Purge, RangeRef, Rewrite, Row, merge_rows,
    rewrite_row,
};
use mutation::{Error, Mutation};
use schema::{Position, Table, TombstoneGc};

/// How tombstones are judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judge {
    /// The second at which ttls are judged.
    pub(crate) now_s: u32,
    /// Tombstones made before this second may be forgotten by any replica.
    pub(crate) gc_before: u32,
    /// A mistake to plant: tombstones of partitions and ranges are not sent.
    pub(crate) forgets: bool,
}

impl Judge {
    /// By this clock. ⚔ What replicas may not forget by the age of a tombstone alone is never left out.
    pub(crate) fn new(table: &Table, now_s: u32) -> Judge {
        let grace = u32::try_from(table.options.gc_grace_seconds).unwrap_or(0);
        let gc_before = match table.options.tombstone_gc() {
            TombstoneGc::Timeout => now_s.saturating_sub(grace),
            TombstoneGc::Immediate | TombstoneGc::Repair | TombstoneGc::Disabled => 0,
        };
        Judge { now_s, gc_before, forgets: runtime::planted(runtime::Bug::RepairForgetsTombstones) }
    }

    fn is_over(self, deletion: Deletion) -> bool {
        deletion.local_time < self.gc_before
    }

    /// What of a row matters, under a deletion that covers it: what is left without tombstones that may be forgotten. `None`: nothing.
    fn essence(self, body: &[u8], covering: Deletion) -> Option<Vec<u8>> {
        let purge = Purge { gc_before: self.gc_before, max_timestamp: i64::MAX };
        let rewrite = Rewrite { shadow: covering, expire_at: Some(self.now_s), purge: Some(purge) };
        let mut out = Vec::with_capacity(body.len());
        rewrite_row(body, &rewrite, &mut out).then_some(out)
    }
}

/// What `theirs` lacks of `whole`, which several replicas' answers make together: mutations of about `bytes` each, none when nothing that matters
/// is missing. Tombstones that may be forgotten are left out, unless they delete something of theirs: who has forgotten one is not sent it again with
/// every repair.
/// Cost: O(rows of both · log). Errors: a clustering that does not fit the table.
pub(crate) fn lacking(
    table: &Table,
    theirs: Option<&MutationView<'_>>,
    whole: &MutationView<'_>,
    judge: Judge,
    bytes: usize,
) -> Result<Vec<Mutation>, Error> {
    let mut all = Partition::new();
    all.apply(table, whole)?;
    let mut known = Partition::new();
    if let Some(theirs) = theirs {
        known.apply(table, theirs)?;
    }
    let mut parts = Parts::new(whole, bytes);
    if !judge.forgets
        && all.deletion.supersedes(known.deletion)
        && (!judge.is_over(all.deletion) || deletes_any(&known, all.deletion, None))
    {
        parts.deletion(all.deletion);
    }
    if let Some(body) = &all.static_row
        && lacks_row(table, true, known.static_row.as_deref(), body, (known.deletion, all.deletion), judge)
    {
        parts.static_row(body);
    }
    put_ranges(&known, &all, judge, &mut parts);
    for (position, row) in all.rows() {
        let (before, after) = (known.covering(position.as_bytes()), all.covering(position.as_bytes()));
        let body = known.row(position.as_bytes()).map(Row::body);
        if lacks_row(table, false, body, row.body(), (before, before.max(after)), judge) {
            parts.row(row.clustering(), row.body());
        }
    }
    Ok(parts.finish())
}

/// Whether a deletion hides anything of a partition, between two positions or anywhere.
fn deletes_any(known: &Partition, deletion: Deletion, between: Option<(&Position, &Position)>) -> bool {
    let hides = |body: &[u8]| {
        let rewrite = Rewrite { shadow: deletion, expire_at: None, purge: None };
        let mut out = Vec::with_capacity(body.len());
        !rewrite_row(body, &rewrite, &mut out) || out != body
    };
    let (start, end): (&[u8], _) = match between {
        None => (&[], None),
        Some((start, end)) => (start.as_bytes(), Some(end.as_bytes())),
    };
    let in_static = between.is_none() && known.static_row.as_deref().is_some_and(hides);
    in_static || known.rows_between(start, end).any(|(_, row)| hides(row.body()))
}

/// Whether a row together with `more` says something that it does not say alone; each under what covers it.
fn lacks_row(
    table: &Table,
    is_static: bool,
    known: Option<&[u8]>,
    more: &[u8],
    (before, after): (Deletion, Deletion),
    judge: Judge,
) -> bool {
    let Some(known) = known else { return judge.essence(more, after).is_some() };
    if known == more {
        return false;
    }
    let mut both = Vec::with_capacity(known.len() + more.len());
    merge_rows(table, is_static, known, more, &mut both);
    judge.essence(&both, after) != judge.essence(known, before)
}

fn put_ranges(known: &Partition, all: &Partition, judge: Judge, parts: &mut Parts<'_>) {
    if judge.forgets {
        return;
    }
    for range in all.ranges.refs().filter(|range| range.deletion.supersedes(known.deletion)) {
        let is_forgotten = || {
            judge.is_over(range.deletion)
                && !deletes_any(known, range.deletion, Some((range.start_at, range.end_at)))
        };
        if !is_covered(known, &range) && !is_forgotten() {
            parts.range(&range.to_tombstone());
        }
    }
}

/// Whether a partition's own range tombstones delete all that another one does.
fn is_covered(known: &Partition, range: &RangeRef<'_>) -> bool {
    let mut at = range.start_at.clone();
    for (start, end, own) in known.ranges.overlapping(range.start_at.as_bytes(), range.end_at.as_bytes()) {
        if at < start || range.deletion.supersedes(own.deletion) {
            return false;
        }
        at = end;
    }
    *range.end_at <= at
}

/// Mutations of one partition, cut where they become large.
struct Parts<'w> {
    whole: &'w MutationView<'w>,
    bytes: usize,
    open: MutationBuilder,
    done: Vec<Mutation>,
}

impl<'w> Parts<'w> {
    fn new(whole: &'w MutationView<'w>, bytes: usize) -> Parts<'w> {
        let open = MutationBuilder::new(whole.table, whole.token, whole.key);
        Parts { whole, bytes, open, done: Vec::new() }
    }

    fn deletion(&mut self, deletion: Deletion) {
        self.open.deletion(deletion);
    }

    fn static_row(&mut self, body: &[u8]) {
        self.open.static_row(body);
        self.cut();
    }

    fn row(&mut self, clustering: &[u8], body: &[u8]) {
        self.open.row(clustering, body);
        self.cut();
    }

    fn range(&mut self, range: &mutation::RangeTombstone) {
        self.open.range(range);
        self.cut();
    }

    fn cut(&mut self) {
        if self.bytes <= self.open.len() {
            let next = MutationBuilder::new(self.whole.table, self.whole.token, self.whole.key);
            self.done.push(std::mem::replace(&mut self.open, next).finish());
        }
    }

    fn finish(mut self) -> Vec<Mutation> {
        if !self.open.is_empty() {
            self.done.push(self.open.finish());
        }
        self.done
    }
}
