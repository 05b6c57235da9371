//! Two versions of a row become one; one version is rewritten without what is gone.
//!
//! Merging commutes, associates and is idempotent, so replicas that have seen the same writes in any order agree.

use crate::cell::Cell;
use crate::counter;
use crate::deletion::{Deletion, Liveness};
use crate::row::{ColumnView, ComplexView, RowView, RowWriter};
use schema::Table;
use std::cmp::Ordering;
use types::CqlType;

/// Merges two versions of one row (static when `is_static`) at the end of `out`.
/// Shape:  O(cells of both); no allocation per cell except for counters.
/// Source: Cassandra's reconciliation: per cell the winner of [`Cell::reconcile`], per mark the newer one; what a
///         merged row or collection deletion covers is left out.
pub fn merge_rows(table: &Table, is_static: bool, left: &[u8], right: &[u8], out: &mut Vec<u8>) {
    let (left, right) = (RowView::new(left), RowView::new(right));
    let deletion = left.deletion().max(right.deletion());
    let mut liveness = left.liveness().max(right.liveness());
    if deletion.deletes(liveness.timestamp) {
        liveness = Liveness::NONE;
    }
    let mut writer = RowWriter::new(out, liveness, deletion);
    let (mut l, mut r) = (left.columns().peekable(), right.columns().peekable());
    loop {
        let order = match (l.peek(), r.peek()) {
            (Some(a), Some(b)) => a.0.cmp(&b.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let one = if order == Ordering::Greater { r.next() } else { l.next() };
        let (ordinal, column) = one.expect("peeked");
        let other = if order == Ordering::Equal { r.next().map(|c| c.1) } else { None };
        let context = ColumnContext { table, is_static, ordinal, deletion };
        match other {
            None => context.copy(column, &mut writer),
            Some(other) => context.merge(column, other, &mut writer),
        }
    }
}

/// Whether merging a newer version into an older one of a row gives the newer as it is: it has every cell that the older
/// one has, and all of its win. False also where finding out would cost more than merging.
/// Shape:  O(columns), no allocation. `newer` says nothing that its own deletions cover.
pub fn replaces(table: &Table, older: &[u8], newer: &[u8]) -> bool {
    let (older, newer) = (RowView::new(older), RowView::new(newer));
    let unmarked = older.deletion().is_live() && newer.deletion().is_live();
    if table.counter || !unmarked || older.liveness().max(newer.liveness()) != newer.liveness() {
        return false;
    }
    let mut columns = newer.columns();
    older.columns().all(|(ordinal, column)| {
        let ColumnView::Simple(cell) = column else { return false };
        match columns.find(|(other, _)| *other >= ordinal) {
            Some((other, ColumnView::Simple(winner))) => {
                other == ordinal && winner.reconcile(&cell) != Ordering::Less
            }
            _ => false,
        }
    })
}

struct ColumnContext<'t> {
    table: &'t Table,
    is_static: bool,
    ordinal: u16,
    /// Deletes what it covers in every column.
    deletion: Deletion,
}

impl ColumnContext<'_> {
    fn copy(&self, column: ColumnView<'_>, writer: &mut RowWriter<'_>) {
        match column {
            ColumnView::Simple(cell) => self.put_simple(cell, writer),
            ColumnView::Complex(complex) => {
                let deletion = kept(complex.deletion, self.deletion);
                let shadow = complex.deletion.max(self.deletion);
                let live = complex.cells().filter(|(_, c)| !shadow.deletes(c.timestamp));
                put_complex(self.ordinal, deletion, live, writer);
            }
        }
    }

    fn put_simple(&self, cell: Cell<'_>, writer: &mut RowWriter<'_>) {
        if !self.deletion.deletes(cell.timestamp) {
            writer.simple(self.ordinal, cell);
        }
    }

    fn merge(&self, left: ColumnView<'_>, right: ColumnView<'_>, writer: &mut RowWriter<'_>) {
        match (left, right) {
            (ColumnView::Simple(a), ColumnView::Simple(b)) => self.merge_simple(a, b, writer),
            (ColumnView::Complex(a), ColumnView::Complex(b)) => self.merge_complex(a, b, writer),
            // One column has one shape for life: keep the collection, which says more.
            (complex @ ColumnView::Complex(_), _) | (_, complex) => self.copy(complex, writer),
        }
    }

    fn merge_simple(&self, a: Cell<'_>, b: Cell<'_>, writer: &mut RowWriter<'_>) {
        if let (Some(x), Some(y)) = (a.value, b.value)
            && x != y
            && self.is_counter()
            && let Some(context) = counter::merge(x, y)
        {
            let timestamp = a.timestamp.max(b.timestamp);
            return self.put_simple(Cell::live(timestamp, &context), writer);
        }
        if self.is_counter() && a.is_tombstone() != b.is_tombstone() {
            return self.put_simple(if a.is_tombstone() { a } else { b }, writer);
        }
        self.put_simple(if b.reconcile(&a) == Ordering::Greater { b } else { a }, writer);
    }

    fn is_counter(&self) -> bool {
        self.table.counter
            && self
                .table
                .column_by_ordinal(self.is_static, self.ordinal)
                .is_some_and(|c| c.ty == CqlType::Counter)
    }

    fn merge_complex(&self, a: ComplexView<'_>, b: ComplexView<'_>, writer: &mut RowWriter<'_>) {
        let deletion = a.deletion.max(b.deletion);
        let shadow = deletion.max(self.deletion);
        let path_type = self.table.cell_path_type(self.is_static, self.ordinal).unwrap_or(CqlType::Blob);
        let live = merge_cells(&path_type, a, b).filter(|(_, c)| !shadow.deletes(c.timestamp));
        put_complex(self.ordinal, kept(deletion, self.deletion), live, writer);
    }
}

/// A collection's deletion says nothing when the row's covers it.
fn kept(deletion: Deletion, covering: Deletion) -> Deletion {
    if deletion.supersedes(covering) { deletion } else { Deletion::LIVE }
}

fn merge_cells<'a>(
    path_type: &CqlType,
    a: ComplexView<'a>,
    b: ComplexView<'a>,
) -> impl Iterator<Item = (&'a [u8], Cell<'a>)> {
    let (mut l, mut r) = (a.cells().peekable(), b.cells().peekable());
    std::iter::from_fn(move || {
        let order = match (l.peek(), r.peek()) {
            (Some(x), Some(y)) if x.0 == y.0 => Ordering::Equal,
            (Some(x), Some(y)) => path_type.compare(x.0, y.0),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match order {
            Ordering::Less => l.next(),
            Ordering::Greater => r.next(),
            Ordering::Equal => {
                let (x, y) = (l.next()?, r.next()?);
                Some(if y.1.reconcile(&x.1) == Ordering::Greater { y } else { x })
            }
        }
    })
}

fn put_complex<'a>(
    ordinal: u16,
    deletion: Deletion,
    cells: impl Iterator<Item = (&'a [u8], Cell<'a>)>,
    writer: &mut RowWriter<'_>,
) {
    let mut cells = cells.peekable();
    if deletion.is_live() && cells.peek().is_none() {
        return;
    }
    writer.complex_start(ordinal, deletion);
    cells.for_each(|(path, cell)| writer.complex_cell(path, cell));
    writer.complex_end();
}

/// What may be forgotten for good: only with proof that nothing older lives elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purge {
    /// Tombstones made before this second may go.
    pub gc_before: u32,
    /// Only tombstones with timestamps below this may go: older data elsewhere would come back.
    pub max_timestamp: i64,
}

impl Purge {
    /// Whether a tombstone with these times may be forgotten.
    pub fn allows(&self, timestamp: i64, local_time: u32) -> bool {
        local_time < self.gc_before && timestamp < self.max_timestamp
    }
}

/// How [`rewrite_row`] changes a row.
#[derive(Debug, Clone, Copy)]
pub struct Rewrite {
    /// A deletion that covers the row from outside; what it deletes is left out.
    pub shadow: Deletion,
    /// At this second expired cells become tombstones; `None` keeps them as written.
    pub expire_at: Option<u32>,
    /// What may be forgotten.
    pub purge: Option<Purge>,
}

/// Writes a row without what a rewrite removes at the end of `out`. Returns false, and writes nothing, when nothing is
/// left. O(cells), no allocation.
pub fn rewrite_row(body: &[u8], rewrite: &Rewrite, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let row = RowView::new(body);
    let purges = |d: Deletion| rewrite.purge.is_some_and(|p| p.allows(d.timestamp, d.local_time));
    let shadow = row.deletion().max(rewrite.shadow);
    let mut deletion = kept(row.deletion(), rewrite.shadow);
    if purges(deletion) {
        deletion = Deletion::LIVE;
    }
    let mut liveness = row.liveness();
    // An expired mark hides older marks elsewhere, so it stays until it may be forgotten like a tombstone.
    let made_at = liveness.expires_at.saturating_sub(liveness.ttl);
    let expired = rewrite.expire_at.is_some_and(|now| !liveness.is_live(now))
        && rewrite.purge.is_some_and(|p| p.allows(liveness.timestamp, made_at));
    if shadow.deletes(liveness.timestamp) || expired {
        liveness = Liveness::NONE;
    }
    let mut writer = RowWriter::new(out, liveness, deletion);
    let mut any = !liveness.is_none() || !deletion.is_live();
    for (ordinal, column) in row.columns() {
        match column {
            ColumnView::Simple(cell) => {
                if let Some(cell) = rewrite_cell(cell, shadow, rewrite) {
                    writer.simple(ordinal, cell);
                    any = true;
                }
            }
            ColumnView::Complex(complex) => {
                let inner = shadow.max(complex.deletion);
                let mut deletion = kept(complex.deletion, shadow);
                if purges(deletion) {
                    deletion = Deletion::LIVE;
                }
                let cells = complex.cells().filter_map(|(p, c)| Some((p, rewrite_cell(c, inner, rewrite)?)));
                let mut cells = cells.peekable();
                any |= !deletion.is_live() || cells.peek().is_some();
                put_complex(ordinal, deletion, cells, &mut writer);
            }
        }
    }
    if !any {
        out.truncate(start);
    }
    any
}

/// Writes a row without the cells that are hidden: those at or below what `hidden_to` says of their ordinal. Returns
/// false, with nothing written, when nothing is left.
pub(crate) fn without_hidden(body: &[u8], hidden_to: impl Fn(u16) -> i64, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let row = RowView::new(body);
    let mut any = !row.liveness().is_none() || !row.deletion().is_live();
    let mut writer = RowWriter::new(out, row.liveness(), row.deletion());
    for (ordinal, column) in row.columns() {
        let hidden = hidden_to(ordinal);
        match column {
            ColumnView::Simple(cell) if cell.timestamp > hidden => {
                writer.simple(ordinal, cell);
                any = true;
            }
            ColumnView::Simple(_) => {}
            ColumnView::Complex(complex) => {
                let seen = complex.deletion.timestamp > hidden;
                let deletion = if seen { complex.deletion } else { Deletion::LIVE };
                let cells = complex.cells().filter(|(_, cell)| cell.timestamp > hidden);
                let mut cells = cells.peekable();
                any |= !deletion.is_live() || cells.peek().is_some();
                put_complex(ordinal, deletion, cells, &mut writer);
            }
        }
    }
    if !any {
        out.truncate(start);
    }
    any
}

/// Whether a row may hold cells that its own deletions cover.
fn shadows_itself(body: &[u8]) -> bool {
    let row = RowView::new(body);
    let complex = |c: ColumnView<'_>| matches!(c, ColumnView::Complex(c) if !c.deletion.is_live());
    !row.deletion().is_live() || row.columns().any(|(_, c)| complex(c))
}

/// The row without what its own deletions cover, so that equal content has one form. `None`: it is so already.
pub fn normalized(body: &[u8]) -> Option<Vec<u8>> {
    if !shadows_itself(body) {
        return None;
    }
    let mut out = Vec::with_capacity(body.len());
    let rewrite = Rewrite { shadow: Deletion::LIVE, expire_at: None, purge: None };
    rewrite_row(body, &rewrite, &mut out).then_some(out)
}

fn rewrite_cell<'a>(cell: Cell<'a>, shadow: Deletion, rewrite: &Rewrite) -> Option<Cell<'a>> {
    if shadow.deletes(cell.timestamp) {
        return None;
    }
    let mut cell = cell;
    if cell.is_expiring() && rewrite.expire_at.is_some_and(|now| !cell.is_live(now)) {
        // The clock of garbage collection starts when the cell was written.
        cell = Cell::tombstone(cell.timestamp, cell.local_time.saturating_sub(cell.ttl));
    }
    let purged =
        cell.is_tombstone() && rewrite.purge.is_some_and(|p| p.allows(cell.timestamp, cell.local_time));
    (!purged).then_some(cell)
}
