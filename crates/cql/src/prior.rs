//! What a write must know before it can be made: the lists as they stand, when elements are named by place or value.
//!
//! ```text
//! prior_reads(values) ─► commands ─► (somebody reads) ─► Prior ─► bind_into(values, prior) ─► mutations
//! ```
//! List cells are addressed by timeuuid, so `l[2] = x` and `l = l - [x]` must find the cells first. Two such writes at
//! once may both act on the list as it was; Cassandra has the same race.

use mutation::{ColumnView, Deletion, Mutation, ReadAnswer, Resume, RowView};
use schema::TableId;

/// The rows that a write's list operations look at. The empty one serves writes that look at none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prior {
    partitions: Vec<Mutation>,
}

impl Prior {
    /// Takes an answer; returns where the read goes on if it stopped early.
    pub fn add(&mut self, answer: ReadAnswer) -> Option<Resume> {
        self.partitions.extend(answer.partitions);
        answer.stopped
    }

    /// A partition's static row.
    pub(crate) fn static_row(&self, table: TableId, key: &[u8]) -> PriorRow<'_> {
        let found = self.of(table, key).find_map(|p| {
            let view = p.view();
            Some(PriorRow { body: Some(view.static_row?), deletion: view.deletion })
        });
        found.unwrap_or(PriorRow::NONE)
    }

    /// A row.
    pub(crate) fn row(&self, table: TableId, key: &[u8], clustering: &[u8]) -> PriorRow<'_> {
        let found = self.of(table, key).find_map(|p| {
            let view = p.view();
            let (_, body) = view.rows().find(|(other, _)| *other == clustering)?;
            Some(PriorRow { body: Some(body), deletion: view.deletion })
        });
        found.unwrap_or(PriorRow::NONE)
    }

    fn of<'p>(&'p self, table: TableId, key: &[u8]) -> impl Iterator<Item = &'p Mutation> {
        self.partitions.iter().filter(move |p| p.table() == table && p.view().key == key)
    }
}

/// One row as it stood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PriorRow<'p> {
    body: Option<&'p [u8]>,
    deletion: Deletion,
}

impl<'p> PriorRow<'p> {
    /// No such row.
    pub const NONE: PriorRow<'static> = PriorRow { body: None, deletion: Deletion::LIVE };

    /// The live value of a column of one cell.
    pub fn value(&self, ordinal: u16, now_s: u32) -> Option<&'p [u8]> {
        let row = RowView::new(self.body?);
        let Some(ColumnView::Simple(cell)) = row.column(ordinal) else { return None };
        let deletion = self.deletion.max(row.deletion());
        if cell.is_live(now_s) && !deletion.deletes(cell.timestamp) { cell.value } else { None }
    }

    /// The live cells of a list: paths and values, in the list's order.
    pub fn list(&self, ordinal: u16, now_s: u32) -> Vec<(&'p [u8], &'p [u8])> {
        let Some(body) = self.body else { return Vec::new() };
        let row = RowView::new(body);
        let Some(ColumnView::Complex(column)) = row.column(ordinal) else { return Vec::new() };
        let deletion = self.deletion.max(row.deletion()).max(column.deletion);
        let live = |cell: &mutation::Cell<'_>| cell.is_live(now_s) && !deletion.deletes(cell.timestamp);
        let cells = column.cells().filter(|(_, cell)| live(cell));
        cells.map(|(path, cell)| (path, cell.value.unwrap_or(&[]))).collect()
    }
}
