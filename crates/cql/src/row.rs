//! One row being read: the fetched columns' values, decoded from packed rows without copying where possible.
//!
//! Values live as long as the answer they come from; collections of many cells are put together in a buffer of the
//! row's own, which is why values are asked for by number instead of being kept as references.

use mutation::{Cell, ColumnView, Deletion, NO_TIME, RowView};
use schema::{Column, ColumnKind, Table, clustering_components};
use smallvec::SmallVec;
use std::borrow::Cow;
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
    /// Places whose single cells are asked for, for their times.
    by_cell: Vec<usize>,
    /// Whether the times of cells are asked for at all.
    timed: bool,
    /// Whether cells are counters: all of a table are, or none.
    counts: bool,
}

impl Fetches {
    /// Nothing yet.
    pub fn new(table: &Table) -> Fetches {
        Fetches {
            columns: Vec::new(),
            static_slots: vec![NOT_FETCHED; table.next_static_ordinal as usize],
            regular_slots: vec![NOT_FETCHED; table.next_regular_ordinal as usize],
            by_cell: Vec::new(),
            timed: false,
            counts: table.counter,
        }
    }

    /// Keeps the times of cells.
    pub fn watch_times(&mut self) {
        self.timed = true;
    }

    /// Keeps the times of every cell of a place's column, which has many.
    pub fn watch_cells(&mut self, place: usize) {
        if !self.by_cell.contains(&place) {
            self.by_cell.push(place);
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

    /// Whether every fetched value can be borrowed: no collection of many cells, and no counter.
    pub fn is_simple(&self) -> bool {
        !self.counts && self.columns.iter().all(|(_, c)| !c.is_complex())
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
    /// Empty when nobody asks for them.
    times: Vec<Option<CellTimes>>,
    built: Vec<u8>,
    /// Bytes of `built` that belong to the partition's static columns.
    static_built: usize,
    /// What few rows have; made when there is something to keep.
    extras: Option<Box<Extras<'a>>>,
    now_s: u32,
}

/// What rows have beside values when cells are watched or when they stand for a group.
#[derive(Default)]
struct Extras<'a> {
    /// Live cells of the places that are watched: place, path, times.
    cells: Vec<(usize, Cow<'a, [u8]>, CellTimes)>,
    /// How many of them are of static columns.
    static_cells: usize,
    /// Results of the aggregates of the group that this row stands for.
    aggregates: Vec<Option<Vec<u8>>>,
}

impl<'a> RowValues<'a> {
    /// All null.
    pub fn new(fetches: &Fetches, now_s: u32) -> RowValues<'a> {
        let mut row = RowValues::without_places(now_s);
        row.make_places(fetches);
        row
    }

    /// As [`RowValues::new`] before [`RowValues::make_places`]: where the row stays places are made without being copied.
    #[inline]
    pub fn without_places(now_s: u32) -> RowValues<'a> {
        let (values, times, built) = (SmallVec::new(), Vec::new(), Vec::new());
        RowValues { values, times, built, static_built: 0, extras: None, now_s }
    }

    /// A null for each fetched column.
    #[inline]
    pub fn make_places(&mut self, fetches: &Fetches) {
        self.values.resize(fetches.len(), Got::Null);
        if fetches.timed {
            self.times.resize(fetches.len(), None);
        }
    }

    /// A copy that outlives the answer the row came from.
    pub fn kept(&self) -> RowValues<'static> {
        let mut built = Vec::new();
        let values = (0..self.values.len()).map(|index| match self.value(index) {
            None => Got::Null,
            Some(bytes) => {
                let start = built.len();
                built.extend_from_slice(bytes);
                Got::Built(start..built.len())
            }
        });
        let values = values.collect();
        let watched = self.extras.iter().flat_map(|extras| &extras.cells);
        let cells = watched.map(|(at, path, times)| (*at, Cow::Owned(path.to_vec()), *times)).collect();
        RowValues {
            values,
            times: self.times.clone(),
            built,
            static_built: 0,
            extras: Some(Box::new(Extras { cells, ..Extras::default() })),
            now_s: self.now_s,
        }
    }

    /// Gives the row what its group's aggregates came to.
    pub fn set_aggregates(&mut self, results: Vec<Option<Vec<u8>>>) {
        self.extras.get_or_insert_default().aggregates = results;
    }

    /// What an aggregate came to.
    pub fn aggregate(&self, index: usize) -> Option<&[u8]> {
        self.extras.as_ref()?.aggregates.get(index)?.as_deref()
    }

    /// Paths and times of the live cells of a watched place, in the order of their paths.
    pub fn cells(&self, index: usize) -> impl Iterator<Item = (&[u8], CellTimes)> {
        let watched = self.extras.iter().flat_map(|extras| &extras.cells);
        watched.filter(move |(at, ..)| *at == index).map(|(_, path, times)| (&**path, *times))
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

    /// The times of the cell at a place, if they are [watched](Fetches::watch_times); `None` for keys, nulls and collections.
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
        if let Some(extras) = &mut self.extras {
            extras.cells.clear();
        }
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
        if let Some(extras) = &mut self.extras {
            extras.static_cells = extras.cells.len();
        }
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
        if let Some(extras) = &mut self.extras {
            extras.cells.truncate(extras.static_cells);
        }
        for (index, (source, _)) in fetches.columns.iter().enumerate() {
            if matches!(source, Source::Clustering(_) | Source::Regular(_)) {
                self.values[index] = Got::Null;
                self.set_times(index, None);
            }
        }
    }

    fn set_times(&mut self, index: usize, times: Option<CellTimes>) {
        if let Some(slot) = self.times.get_mut(index) {
            *slot = times;
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
                    self.values[slot] = match cell.value {
                        Some(shards) if fetches.counts => total(shards, &mut self.built),
                        Some(value) => Got::Borrowed(value),
                        None => Got::Null,
                    };
                    self.set_times(slot, Some(times_of(&cell)));
                }
                ColumnView::Simple(_) => {}
                ColumnView::Complex(complex) => {
                    let deletion = deletion.max(complex.deletion);
                    let cells = || complex.cells().filter(|(_, cell)| sees(cell, deletion));
                    if fetches.by_cell.contains(&slot) {
                        let watched =
                            cells().map(|(path, cell)| (slot, Cow::Borrowed(path), times_of(&cell)));
                        self.extras.get_or_insert_default().cells.extend(watched);
                    }
                    self.values[slot] = build(&fetches.columns[slot].1.ty, cells(), &mut self.built);
                }
            }
        }
    }
}

fn times_of(cell: &Cell<'_>) -> CellTimes {
    let local_time = if cell.is_expiring() { cell.local_time } else { NO_TIME };
    CellTimes { timestamp: cell.timestamp, ttl: cell.ttl, local_time }
}

/// What the shards of a counter come to; shards that cannot be told apart come to nothing.
fn total<'a>(shards: &[u8], built: &mut Vec<u8>) -> Got<'a> {
    let Some(total) = mutation::counter_total(shards) else { return Got::Null };
    let start = built.len();
    built.extend_from_slice(&total.to_be_bytes());
    Got::Built(start..built.len())
}

/// Puts a collection together from its live cells; none: null.
fn build<'a>(
    ty: &CqlType,
    cells: impl Iterator<Item = (&'a [u8], Cell<'a>)>,
    built: &mut Vec<u8>,
) -> Got<'a> {
    let start = built.len();
    if let CqlType::Udt(udt) = ty {
        return if build_user_type(udt.fields.len(), cells, built) {
            Got::Built(start..built.len())
        } else {
            Got::Null
        };
    }
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

/// Puts a user type together from the cells of its fields, which come in the order of the fields; false when there are none.
fn build_user_type<'a>(
    fields: usize,
    cells: impl Iterator<Item = (&'a [u8], Cell<'a>)>,
    built: &mut Vec<u8>,
) -> bool {
    let mut next = 0;
    for (path, cell) in cells {
        let Ok(field) = <[u8; 2]>::try_from(path).map(|path| usize::from(u16::from_be_bytes(path))) else {
            continue;
        };
        if field < next || field >= fields {
            continue;
        }
        (next..field).for_each(|_| collection::put_element(built, None));
        collection::put_element(built, cell.value);
        next = field + 1;
    }
    if next > 0 {
        (next..fields).for_each(|_| collection::put_element(built, None));
    }
    next > 0
}
