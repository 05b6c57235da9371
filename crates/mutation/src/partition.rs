//! A partition in memory: what mutations made of it so far, sorted.
//!
//! Owned by the shard of its token. Memtables keep these, and reads merge their sources into a temporary one.

use crate::deletion::Deletion;
use crate::encoded::{Item, MutationView};
use crate::error::Error;
use crate::merge::{merge_rows, normalized, without_hidden};
use crate::ranges::{RangeTombstone, RangeTombstones};
use schema::{Position, Table};
use std::collections::{BTreeMap, btree_map};

/// One row: its clustering key in wire form and its packed body, in one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    bytes: Box<[u8]>,
    clustering_len: u32,
}

impl Row {
    /// Copies both parts together.
    pub fn new(clustering: &[u8], body: &[u8]) -> Row {
        let mut bytes = Vec::with_capacity(clustering.len() + body.len());
        bytes.extend_from_slice(clustering);
        bytes.extend_from_slice(body);
        Row { bytes: bytes.into(), clustering_len: clustering.len() as u32 }
    }

    /// Clustering key in wire form.
    pub fn clustering(&self) -> &[u8] {
        &self.bytes[..self.clustering_len as usize]
    }

    /// Packed row.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.clustering_len as usize..]
    }

    /// Bytes of both parts.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// Rows by position. Most partitions have one row, which costs no tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Rows {
    #[default]
    None,
    One(Position, Row),
    Many(BTreeMap<Position, Row>),
}

/// What is known about one partition, sorted by position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The partition tombstone.
    pub deletion: Deletion,
    /// Packed static row.
    pub static_row: Option<Box<[u8]>>,
    /// Range tombstones.
    pub ranges: RangeTombstones,
    rows: Rows,
}

/// Memory one row or range tombstone costs beside its bytes, roughly.
const ENTRY_BYTES: usize = 64;

impl Partition {
    /// Knows nothing.
    pub fn new() -> Partition {
        Partition {
            deletion: Deletion::LIVE,
            static_row: None,
            ranges: RangeTombstones::default(),
            rows: Rows::None,
        }
    }

    /// Merges a mutation in. Runs to completion, so readers between steps see all of it or nothing.
    /// Returns the bytes of memory it grew by (roughly). Errors when a clustering does not fit the table; nothing was
    /// applied then.
    pub fn apply(&mut self, table: &Table, mutation: &MutationView<'_>) -> Result<usize, Error> {
        // A single item is refused by applying it: nothing else of it could have been applied before.
        let single =
            mutation.deletion.is_live() && mutation.static_row.is_none() && mutation.items().nth(1).is_none();
        if !single {
            check_positions(table, mutation)?;
        }
        let mut grown = 0;
        self.deletion = self.deletion.max(mutation.deletion);
        if let Some(body) = mutation.static_row {
            grown += self.apply_static(table, body);
        }
        for item in mutation.items() {
            grown += self.apply_item(table, item)?;
        }
        Ok(grown)
    }

    /// Merges one row or range tombstone in. Returns the bytes of memory it grew by (roughly). Errors when it does not fit the
    /// table; nothing was applied then.
    pub fn apply_item(&mut self, table: &Table, item: Item<'_>) -> Result<usize, Error> {
        match item {
            Item::Row { clustering, body } => self.apply_row(table, clustering, body),
            Item::Range { start, end, deletion } => {
                let bytes = start.prefix.len() + end.prefix.len();
                let tombstone = RangeTombstone { start: start.to_bound(), end: end.to_bound(), deletion };
                self.ranges.add(table, tombstone)?;
                Ok(2 * bytes + 2 * ENTRY_BYTES)
            }
        }
    }

    /// Leaves out the cells of dropped columns, and rows that hold nothing else. O(rows) for a table that ever dropped a
    /// column, O(1) otherwise.
    pub fn hide_dropped(&mut self, table: &Table) {
        if !table.hides_cells() {
            return;
        }
        let mut scratch = Vec::new();
        if let Some(body) = self.static_row.take()
            && without_hidden(&body, |ordinal| table.hidden_to(true, ordinal), &mut scratch)
        {
            self.static_row = Some(scratch.as_slice().into());
        }
        let hidden = |ordinal| table.hidden_to(false, ordinal);
        let mut keep = |row: &mut Row| {
            scratch.clear();
            let kept = without_hidden(row.body(), hidden, &mut scratch);
            if kept {
                *row = Row::new(row.clustering(), &scratch);
            }
            kept
        };
        match &mut self.rows {
            Rows::None => {}
            Rows::One(_, row) => {
                if !keep(row) {
                    self.rows = Rows::None;
                }
            }
            Rows::Many(rows) => rows.retain(|_, row| keep(row)),
        }
    }

    fn apply_static(&mut self, table: &Table, body: &[u8]) -> usize {
        let Some(old) = self.static_row.take() else {
            self.static_row = Some(normalized(body).map_or_else(|| body.into(), Vec::into));
            return body.len();
        };
        let mut merged = Vec::with_capacity(old.len() + body.len());
        merge_rows(table, true, &old, body, &mut merged);
        let grown = merged.len().saturating_sub(old.len());
        self.static_row = Some(merged.into());
        grown
    }

    fn apply_row(&mut self, table: &Table, clustering: &[u8], body: &[u8]) -> Result<usize, Error> {
        let position = table.position(clustering)?;
        let merge = |old: &mut Row| {
            // Equal values can have several byte forms, such as 10.0 and 10.00: one of them, whatever came first.
            let clustering = clustering.max(old.clustering());
            let clustering_len = clustering.len() as u32;
            let mut merged = Vec::with_capacity(old.size() + clustering.len() + body.len());
            merged.extend_from_slice(clustering);
            merge_rows(table, false, old.body(), body, &mut merged);
            let grown = merged.len().saturating_sub(old.size());
            if old.bytes.len() == merged.len() {
                // Overwritten by its like, as most rows are: there is room for it already.
                old.bytes.copy_from_slice(&merged);
            } else {
                old.bytes = merged.into();
            }
            old.clustering_len = clustering_len;
            grown
        };
        let fresh = position.len() + clustering.len() + body.len() + ENTRY_BYTES;
        let insert = || match normalized(body) {
            Some(body) => Row::new(clustering, &body),
            None => Row::new(clustering, body),
        };
        match &mut self.rows {
            Rows::None => {
                self.rows = Rows::One(position, insert());
                Ok(fresh)
            }
            Rows::One(at, row) if *at == position => Ok(merge(row)),
            Rows::One(..) => {
                let Rows::One(at, row) = std::mem::take(&mut self.rows) else { unreachable!("just matched") };
                let pair = [(at, row), (position, insert())];
                self.rows = Rows::Many(BTreeMap::from(pair));
                Ok(fresh)
            }
            Rows::Many(rows) => match rows.entry(position) {
                btree_map::Entry::Occupied(mut entry) => Ok(merge(entry.get_mut())),
                btree_map::Entry::Vacant(entry) => {
                    entry.insert(insert());
                    Ok(fresh)
                }
            },
        }
    }

    /// Merges one row in. Returns the bytes of memory it grew by (roughly).
    pub fn merge_row(&mut self, table: &Table, clustering: &[u8], body: &[u8]) -> Result<usize, Error> {
        self.apply_row(table, clustering, body)
    }

    /// Merges a static row in. Returns the bytes of memory it grew by (roughly).
    pub fn merge_static(&mut self, table: &Table, body: &[u8]) -> usize {
        self.apply_static(table, body)
    }

    /// Merges another in-memory partition in.
    pub fn merge(&mut self, table: &Table, other: &Partition) -> Result<(), Error> {
        self.deletion = self.deletion.max(other.deletion);
        if let Some(body) = &other.static_row {
            self.apply_static(table, body);
        }
        for (_, row) in other.rows() {
            self.apply_row(table, row.clustering(), row.body())?;
        }
        for tombstone in other.ranges.iter() {
            self.ranges.add(table, tombstone)?;
        }
        Ok(())
    }

    /// The row at a position. O(log rows).
    pub fn row(&self, position: &[u8]) -> Option<&Row> {
        match &self.rows {
            Rows::None => None,
            Rows::One(at, row) => (at.as_bytes() == position).then_some(row),
            Rows::Many(rows) => rows.get(position),
        }
    }

    /// All rows in order.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = (&Position, &Row)> {
        self.rows_between(&[], None)
    }

    /// Rows at `start <= position < end` in order; `None` is no end.
    pub fn rows_between<'p>(
        &'p self,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'p Position, &'p Row)> + use<'p> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let inverted = end.is_some_and(|end| end <= start);
        let (one, many) = match &self.rows {
            _ if inverted => (None, None),
            Rows::None => (None, None),
            Rows::One(at, row) => {
                let inside = at.as_bytes() >= start && end.is_none_or(|end| at.as_bytes() < end);
                (inside.then_some((at, row)), None)
            }
            Rows::Many(rows) => {
                let end = end.map_or(Unbounded, Excluded);
                (None, Some(rows.range::<[u8], _>((Included(start), end))))
            }
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// How many rows it holds, dead ones included.
    pub fn row_count(&self) -> usize {
        match &self.rows {
            Rows::None => 0,
            Rows::One(..) => 1,
            Rows::Many(rows) => rows.len(),
        }
    }

    /// The deletion that covers a row from outside it: partition or range, whichever wins.
    pub fn covering(&self, position: &[u8]) -> Deletion {
        if self.ranges.is_empty() {
            return self.deletion;
        }
        self.deletion.max(self.ranges.covering(position))
    }
}

impl Default for Partition {
    fn default() -> Partition {
        Partition::new()
    }
}

/// Refuses a mutation whose clusterings do not fit the table, before anything of it is applied.
pub fn check_positions(table: &Table, mutation: &MutationView<'_>) -> Result<(), Error> {
    let mut scratch = Vec::new();
    for item in mutation.items() {
        match item {
            Item::Row { clustering, .. } => {
                scratch.clear();
                table.push_position(clustering, &mut scratch)?;
            }
            Item::Range { start, end, .. } => {
                table.bound_position(start.prefix, start.side)?;
                table.bound_position(end.prefix, end.side)?;
            }
        }
    }
    Ok(())
}
