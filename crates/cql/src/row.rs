//! One row being read: the fetched columns' values, decoded from packed rows without copying where possible.
//!
//! Values live as long as the answer they come from; collections of many cells are put together in a buffer of the
//! row's own, which is why values are asked for by number instead of being kept as references.

use mutation::{Cell, ColumnView, Deletion, NO_TIME, RowView};
use schema::{Column, ColumnKind, Table, clustering_components};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use types::{CqlType, collection};

/// Where a fetched column's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Key(usize),
    Clustering(usize),
    Static(u16),
    Regular(u16),
}

/// Rows of up to this many columns are decoded without an allocation.
pub(crate) const COLUMNS_INLINE: usize = 8;

const NOT_FETCHED: u16 = u16::MAX;

/// The columns a statement needs of each row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fetches {
    columns: Vec<(Source, Column)>,
    static_slots: Vec<u16>,
    regular_slots: Vec<u16>,
}

impl Fetches {
    /// Nothing yet.
    pub fn new(table: &Table) -> Fetches {
        Fetches {
            columns: Vec::new(),
            static_slots: vec![NOT_FETCHED; table.next_static_ordinal as usize],
            regular_slots: vec![NOT_FETCHED; table.next_regular_ordinal as usize],
        }
    }

    /// The place of a column, added if it has none.
    pub fn place(&mut self, column: &Column) -> usize {
        if let Some(index) = self.columns.iter().position(|(_, c)| c.name == column.name) {
            return index;
        }
        let index = self.columns.len();
        let source = match column.kind {
            ColumnKind::PartitionKey => Source::Key(column.position as usize),
            ColumnKind::Clustering => Source::Clustering(column.position as usize),
            ColumnKind::Static => Source::Static(column.ordinal),
            ColumnKind::Regular => Source::Regular(column.ordinal),
        };
        match source {
            Source::Static(ordinal) => self.static_slots[ordinal as usize] = index as u16,
            Source::Regular(ordinal) => self.regular_slots[ordinal as usize] = index as u16,
            Source::Key(_) | Source::Clustering(_) => {}
        }
        self.columns.push((source, column.clone()));
        index
    }

    /// How many columns are fetched.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether every fetched value can be borrowed: no collection of many cells.
    pub fn is_simple(&self) -> bool {
        self.columns.iter().all(|(_, c)| !c.is_complex())
    }

    fn has_keys(&self) -> bool {
        self.columns.iter().any(|(s, _)| matches!(s, Source::Key(_)))
    }
}

/// When a fetched cell was written and how long it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellTimes {
    /// Microseconds since the Unix epoch.
    pub timestamp: i64,
    /// Seconds; 0 when it does not expire.
    pub ttl: u32,
    /// The second at which it expires.
    pub local_time: u32,
}

#[derive(Debug, Clone)]
enum Got<'a> {
    Null,
    Borrowed(&'a [u8]),
    Built(Range<usize>),
}

/// The fetched values of the current row.
pub(crate) struct RowValues<'a> {
    values: SmallVec<[Got<'a>; COLUMNS_INLINE]>,
    times: SmallVec<[Option<CellTimes>; COLUMNS_INLINE]>,
    built: Vec<u8>,
    /// Bytes of `built` that belong to the partition's static columns.
    static_built: usize,
    now_s: u32,
}

impl<'a> RowValues<'a> {
    /// All null.
    pub fn new(fetches: &Fetches, now_s: u32) -> RowValues<'a> {
        RowValues {
            values: smallvec![Got::Null; fetches.len()],
            times: smallvec![None; fetches.len()],
            built: Vec::new(),
            static_built: 0,
            now_s,
        }
    }

    /// The value at a place.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        match self.values.get(index)? {
            Got::Null => None,
            Got::Borrowed(bytes) => Some(bytes),
            Got::Built(range) => self.built.get(range.clone()),
        }
    }

    /// The value at a place when it is known to be borrowed; `None` also for built ones.
    pub fn borrowed(&self, index: usize) -> Option<&'a [u8]> {
        match self.values.get(index)? {
            Got::Borrowed(bytes) => Some(bytes),
            Got::Null | Got::Built(_) => None,
        }
    }

    /// The times of the cell at a place; `None` for keys, nulls and collections.
    pub fn times(&self, index: usize) -> Option<CellTimes> {
        self.times.get(index).copied().flatten()
    }

    /// The second at which ttls are judged.
    pub fn now_s(&self) -> u32 {
        self.now_s
    }

    /// Starts a partition: its key and its static row. Returns whether the static row is live.
    pub fn start_partition(
        &mut self,
        fetches: &Fetches,
        table: &Table,
        key: &'a [u8],
        static_row: Option<&'a [u8]>,
        deletion: Deletion,
    ) -> Result<bool, schema::Error> {
        self.values.fill(Got::Null);
        self.times.fill(None);
        self.built.clear();
        if fetches.has_keys() {
            if let [_] = &table.partition_key[..] {
                self.fill_key(fetches, &[key]);
            } else {
                let parts = table.split_key(key)?;
                self.fill_key(fetches, &parts);
            }
        }
        let mut live = false;
        if let Some(body) = static_row {
            live = mutation::row_is_live(body, deletion, self.now_s);
            self.fill_cells(fetches, &fetches.static_slots, body, deletion);
        }
        self.static_built = self.built.len();
        Ok(live)
    }

    fn fill_key(&mut self, fetches: &Fetches, parts: &[&'a [u8]]) {
        for (value, (source, _)) in self.values.iter_mut().zip(&fetches.columns) {
            if let Source::Key(index) = source {
                *value = parts.get(*index).map_or(Got::Null, |part| Got::Borrowed(part));
            }
        }
    }

    /// Moves to a row of the partition.
    pub fn start_row(
        &mut self,
        fetches: &Fetches,
        clustering: &'a [u8],
        body: &'a [u8],
        deletion: Deletion,
    ) -> Result<(), schema::Error> {
        self.clear_row(fetches);
        for (index, component) in clustering_components(clustering).enumerate() {
            let component = component?;
            for (value, (source, _)) in self.values.iter_mut().zip(&fetches.columns) {
                if *source == Source::Clustering(index) {
                    *value = component.map_or(Got::Null, Got::Borrowed);
                }
            }
        }
        self.fill_cells(fetches, &fetches.regular_slots, body, deletion);
        Ok(())
    }

    /// Moves to no row: clustering and regular columns null.
    pub fn clear_row(&mut self, fetches: &Fetches) {
        self.built.truncate(self.static_built);
        for (index, (source, _)) in fetches.columns.iter().enumerate() {
            if matches!(source, Source::Clustering(_) | Source::Regular(_)) {
                self.values[index] = Got::Null;
                self.times[index] = None;
            }
        }
    }

    fn fill_cells(&mut self, fetches: &Fetches, slots: &[u16], body: &'a [u8], deletion: Deletion) {
        let row = RowView::new(body);
        let deletion = deletion.max(row.deletion());
        let now_s = self.now_s;
        let sees =
            |cell: &Cell<'_>, deletion: Deletion| cell.is_live(now_s) && !deletion.deletes(cell.timestamp);
        for (ordinal, column) in row.columns() {
            let slot = slots.get(ordinal as usize).copied().unwrap_or(NOT_FETCHED) as usize;
            if slot >= self.values.len() {
                continue;
            }
            match column {
                ColumnView::Simple(cell) if sees(&cell, deletion) => {
                    self.values[slot] = cell.value.map_or(Got::Null, Got::Borrowed);
                    self.times[slot] = Some(times_of(&cell));
                }
                ColumnView::Simple(_) => {}
                ColumnView::Complex(complex) => {
                    let deletion = deletion.max(complex.deletion);
                    let cells = complex.cells().filter(|(_, cell)| sees(cell, deletion));
                    self.values[slot] = build(&fetches.columns[slot].1.ty, cells, &mut self.built);
                }
            }
        }
    }
}

fn times_of(cell: &Cell<'_>) -> CellTimes {
    let local_time = if cell.is_expiring() { cell.local_time } else { NO_TIME };
    CellTimes { timestamp: cell.timestamp, ttl: cell.ttl, local_time }
}

/// Puts a collection together from its live cells; none: null.
fn build<'a>(
    ty: &CqlType,
    cells: impl Iterator<Item = (&'a [u8], Cell<'a>)>,
    built: &mut Vec<u8>,
) -> Got<'a> {
    let start = built.len();
    built.extend_from_slice(&[0; 4]);
    let mut count: i32 = 0;
    for (path, cell) in cells {
        count += 1;
        let value = cell.value.unwrap_or(&[]);
        match ty.unfrozen() {
            CqlType::Set(_) => collection::put_element(built, Some(path)),
            CqlType::Map(..) => {
                collection::put_element(built, Some(path));
                collection::put_element(built, Some(value));
            }
            _ => collection::put_element(built, Some(value)),
        }
    }
    if count == 0 {
        built.truncate(start);
        return Got::Null;
    }
    built[start..start + 4].copy_from_slice(&count.to_be_bytes());
    Got::Built(start..built.len())
}
