//! What tables must hold: the newest of everything written, and every deletion for ever, by rules of their own.
//!
//! Nothing of the engine's merging is used. Deletions are never forgotten here, so whatever comes back in the engine
//! after a tombstone was purged differs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;
use storage::Error;

use super::change::{Bound, Change, Part, Place, Value, Write};

/// Columns of one kind that are hidden: cells at or below the timestamp are not seen.
pub(super) type Hidden = [i64];

/// How long a cell lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Plain,
    Expiring { ttl: u32, at: u32 },
    Dead { at: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    timestamp: i64,
    life: Life,
    value: Value,
}

impl Cell {
    /// Cassandra's rule: newer; deleted before expiring before plain; later time; larger value; longer ttl.
    fn beats(&self, other: &Cell) -> bool {
        let rank = |cell: &Cell| match cell.life {
            Life::Dead { at } => (cell.timestamp, 2, at, 0),
            Life::Expiring { ttl, at } => (cell.timestamp, 1, at, ttl),
            Life::Plain => (cell.timestamp, 0, 0, 0),
        };
        let ((ts, class, at, ttl), (other_ts, other_class, other_at, other_ttl)) = (rank(self), rank(other));
        let times = (ts, class, at).cmp(&(other_ts, other_class, other_at));
        let values = || self.value.bytes().cmp(&other.value.bytes());
        times.then_with(values).then(ttl.cmp(&other_ttl)) == Ordering::Greater
    }

    fn seen(&self, column: u16, path: Option<i32>, now_s: u32) -> Option<SeenCell> {
        let (ttl, expires) = match self.life {
            Life::Plain => (0, u32::MAX),
            Life::Expiring { ttl, at } if now_s < at => (ttl, at),
            Life::Expiring { .. } | Life::Dead { .. } => return None,
        };
        Some(SeenCell { column, path, timestamp: self.timestamp, ttl, expires, value: self.value })
    }
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    timestamp: i64,
    ttl: u32,
    expires: u32,
}

impl Mark {
    fn rank(&self) -> (i64, bool, u32) {
        (self.timestamp, self.ttl > 0, if self.ttl > 0 { self.expires } else { 0 })
    }
}

/// One column of one row; a simple one has a cell, a map cells and a deletion.
#[derive(Clone, Debug)]
struct Column {
    cell: Option<Cell>,
    cleared: i64,
    cells: BTreeMap<i32, Cell>,
}

#[derive(Clone, Debug)]
struct Row {
    mark: Option<Mark>,
    deletion: i64,
    columns: Vec<Column>,
}

impl Row {
    fn new(columns: usize) -> Row {
        let column = Column { cell: None, cleared: i64::MIN, cells: BTreeMap::new() };
        Row { mark: None, deletion: i64::MIN, columns: vec![column; columns] }
    }

    fn set(&mut self, write: &Write, changes: &[(u16, Change)]) {
        let life = |value: Option<Value>| match (value, write.ttl) {
            (None, _) => Life::Dead { at: write.second },
            (_, 0) => Life::Plain,
            (_, ttl) => Life::Expiring { ttl, at: write.second + ttl },
        };
        let cell = |value: &Option<Value>| Cell {
            timestamp: write.timestamp,
            life: life(*value),
            value: value.unwrap_or(Value::EMPTY),
        };
        for (ordinal, change) in changes {
            let column = &mut self.columns[usize::from(*ordinal)];
            match change {
                Change::Cell(value) => {
                    let new = cell(value);
                    if column.cell.is_none_or(|old| new.beats(&old)) {
                        column.cell = Some(new);
                    }
                }
                Change::Map { clear, cells } => {
                    if *clear {
                        column.cleared = column.cleared.max(write.timestamp - 1);
                    }
                    for (path, value) in cells {
                        let new = cell(value);
                        if column.cells.get(path).is_none_or(|old| new.beats(old)) {
                            column.cells.insert(*path, new);
                        }
                    }
                }
            }
        }
    }

    /// Forgets what a deletion covers for good. Returns whether anything is left.
    fn cover(&mut self, deletion: i64) -> bool {
        if self.mark.is_some_and(|mark| mark.timestamp <= deletion) {
            self.mark = None;
        }
        let mut any = self.mark.is_some() || self.deletion > deletion;
        for column in &mut self.columns {
            let cleared = column.cleared;
            column.cell = column.cell.filter(|cell| cell.timestamp > deletion);
            column.cells.retain(|_, cell| cell.timestamp > deletion.max(cleared));
            any |= column.cell.is_some() || !column.cells.is_empty() || cleared > deletion;
        }
        any
    }

    /// What a reader sees of it; `None` when it is not there.
    fn seen(&self, covering: i64, hidden: &Hidden, now_s: u32) -> Option<SeenRow> {
        let deletion = self.deletion.max(covering);
        let live = |mark: &Mark| mark.timestamp > deletion && now_s < mark.expires;
        let mark = self.mark.filter(live).map(|mark| (mark.timestamp, mark.ttl, mark.expires));
        let mut cells = Vec::new();
        for (ordinal, column) in self.columns.iter().enumerate() {
            let hidden = hidden.get(ordinal).copied().unwrap_or(i64::MIN);
            let ordinal = ordinal as u16;
            let below = deletion.max(hidden);
            let simple = column.cell.filter(|cell| cell.timestamp > below);
            cells.extend(simple.and_then(|cell| cell.seen(ordinal, None, now_s)));
            let below = below.max(column.cleared);
            let inner = column.cells.iter().filter(|(_, cell)| cell.timestamp > below);
            cells.extend(inner.filter_map(|(path, cell)| cell.seen(ordinal, Some(*path), now_s)));
        }
        (mark.is_some() || !cells.is_empty()).then_some(SeenRow { mark, cells })
    }
}

/// One cell as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenCell {
    pub(super) column: u16,
    pub(super) path: Option<i32>,
    pub(super) timestamp: i64,
    pub(super) ttl: u32,
    pub(super) expires: u32,
    pub(super) value: Value,
}

/// One row as a reader sees it: its mark (timestamp, ttl, expiry) and its cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenRow {
    pub(super) mark: Option<(i64, u32, u32)>,
    pub(super) cells: Vec<SeenCell>,
}

impl SeenRow {
    /// What is left of it at a later second.
    pub(super) fn at(&self, second: u32) -> Option<SeenRow> {
        let mark = self.mark.filter(|(_, _, expires)| second < *expires);
        let cells: Vec<SeenCell> = self.cells.iter().filter(|cell| second < cell.expires).copied().collect();
        (mark.is_some() || !cells.is_empty()).then_some(SeenRow { mark, cells })
    }
}

/// One partition as a reader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) fixed: Option<SeenRow>,
    pub(super) rows: Vec<(Place, SeenRow)>,
}

impl Seen {
    pub(super) fn is_empty(&self) -> bool {
        self.fixed.is_none() && self.rows.is_empty()
    }
}

#[derive(Clone, Debug)]
struct Range {
    start: Bound,
    end: Bound,
    deletion: i64,
}

/// Everything that was written to one partition.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    deletion: i64,
    ranges: Vec<Range>,
    fixed: Row,
    rows: BTreeMap<Place, Row>,
    /// Regular columns.
    width: usize,
}

impl Partition {
    /// A partition of a table with so many regular and static columns.
    pub(super) fn new(width: usize, statics: usize) -> Partition {
        let fixed = Row::new(statics);
        Partition { deletion: i64::MIN, ranges: Vec::new(), fixed, rows: BTreeMap::new(), width }
    }

    fn row(&mut self, place: &Place) -> &mut Row {
        let width = self.width;
        self.rows.entry(place.clone()).or_insert_with(|| Row::new(width))
    }

    pub(super) fn apply(&mut self, write: &Write) {
        for part in &write.parts {
            match part {
                Part::Row { place, mark, set } => {
                    let new = Mark {
                        timestamp: write.timestamp,
                        ttl: write.ttl,
                        expires: if write.ttl > 0 { write.second + write.ttl } else { u32::MAX },
                    };
                    let row = self.row(place);
                    if *mark && row.mark.is_none_or(|old| new.rank() > old.rank()) {
                        row.mark = Some(new);
                    }
                    row.set(write, set);
                }
                Part::Static { set } => self.fixed.set(write, set),
                Part::DeleteRow { place } => {
                    let row = self.row(place);
                    row.deletion = row.deletion.max(write.timestamp);
                    row.cover(row.deletion);
                }
                Part::DeleteRange { start, end } => self.delete_range(start, end, write.timestamp),
                Part::DeletePartition => self.delete(write.timestamp),
            }
        }
    }

    fn delete_range(&mut self, start: &Bound, end: &Bound, deletion: i64) {
        let inside = |range: &Range| {
            start.order(&range.start) != Ordering::Greater && range.end.order(end) != Ordering::Greater
        };
        self.ranges.retain(|range| range.deletion > deletion || !inside(range));
        let outside = |place: &Place| !start.is_before(place) || end.is_before(place);
        self.rows.retain(|place, row| outside(place) || row.cover(deletion));
        self.ranges.push(Range { start: start.clone(), end: end.clone(), deletion });
    }

    fn delete(&mut self, deletion: i64) {
        self.deletion = self.deletion.max(deletion);
        self.ranges.retain(|range| range.deletion > deletion);
        self.fixed.cover(deletion);
        self.rows.retain(|_, row| row.cover(deletion));
    }

    /// What a reader sees of it in slices (none: everything), last rows first when `reversed`.
    pub(super) fn seen(
        &self,
        columns: &Columns,
        slices: &[(Bound, Bound)],
        reversed: bool,
        now_s: u32,
    ) -> Seen {
        let fixed = self.fixed.seen(self.deletion, &columns.statics, now_s);
        let asked = |place: &Place| {
            slices.is_empty()
                || slices.iter().any(|(start, end)| start.is_before(place) && !end.is_before(place))
        };
        let covering = |place: &Place| {
            let over = self
                .ranges
                .iter()
                .filter(|range| range.start.is_before(place) && !range.end.is_before(place));
            over.map(|range| range.deletion).fold(self.deletion, i64::max)
        };
        let rows = self.rows.iter().filter(|(place, _)| asked(place));
        let seen = rows.filter_map(|(place, row)| {
            Some((place.clone(), row.seen(covering(place), &columns.regulars, now_s)?))
        });
        let mut rows: Vec<_> = seen.collect();
        if reversed {
            rows.reverse();
        }
        Seen { fixed, rows }
    }
}

/// To which timestamp the cells of each column are hidden.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    pub(super) regulars: Vec<i64>,
    pub(super) statics: Vec<i64>,
}

/// A write that was told to have happened, and when.
type Told = (base::Instant, Rc<Write>);

/// What is known of one partition.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// What must be seen now.
    pub(super) now: Rc<Partition>,
    /// What a power cut leaves for certain, with `recent` before its horizon.
    durable: Rc<Partition>,
    /// Acknowledged writes that a power cut may take, in their order; only where the log is synced later.
    recent: Vec<Told>,
    /// Writes that were refused and may be there after a restart all the same.
    ghosts: Vec<Ghost>,
}

/// A write that was refused.
#[derive(Clone, Debug)]
struct Ghost {
    write: Rc<Write>,
    /// Whether it may be seen before a restart, too, and was not yet.
    is_early: bool,
}

impl Known {
    pub(super) fn new(width: usize, statics: usize) -> Known {
        Known::of(Partition::new(width, statics))
    }

    /// It is this, for good.
    fn of(state: Partition) -> Known {
        let state = Rc::new(state);
        Known { now: state.clone(), durable: state, recent: Vec::new(), ghosts: Vec::new() }
    }

    /// An acknowledged write.
    pub(super) fn told(&mut self, write: Rc<Write>, at: base::Instant, lossy: bool) {
        Rc::make_mut(&mut self.now).apply(&write);
        if lossy {
            self.recent.push((at, write));
        } else {
            Rc::make_mut(&mut self.durable).apply(&write);
        }
    }

    /// A write that was refused, or of which nothing was heard (`None`). What a full disk refused may be there as soon as there is
    /// room.
    pub(super) fn refused(&mut self, write: Rc<Write>, why: Option<&Error>) {
        self.ghosts.push(Ghost { write, is_early: matches!(why, Some(Error::NoSpace(_))) });
    }

    /// Whether more may be seen than what is known.
    pub(super) fn may_be_more(&self) -> bool {
        self.ghosts.iter().any(|ghost| ghost.is_early)
    }

    /// Everything else that may be seen now, and which refused writes are in it, by their numbers.
    pub(super) fn more(&self) -> Vec<(Partition, Vec<usize>)> {
        let mut states = vec![((*self.now).clone(), Vec::new())];
        self.with_ghosts(&mut states, |ghost| ghost.is_early);
        states.split_off(1)
    }

    /// Adds what each state is with some of these refused writes, and their numbers.
    fn with_ghosts(&self, states: &mut Vec<(Partition, Vec<usize>)>, which: impl Fn(&Ghost) -> bool) {
        for (number, ghost) in self.ghosts.iter().enumerate().filter(|(_, ghost)| which(ghost)) {
            for at in 0..states.len() {
                let (mut state, mut among) = states[at].clone();
                state.apply(&ghost.write);
                among.push(number);
                states.push((state, among));
            }
        }
    }

    /// Refused writes are seen. Where the log is synced later (`lossy`), a power cut may take them again.
    pub(super) fn appeared(&mut self, numbers: &[usize], lossy: bool) {
        for number in numbers {
            let ghost = &mut self.ghosts[*number];
            ghost.is_early = false;
            Rc::make_mut(&mut self.now).apply(&ghost.write);
            if !lossy {
                Rc::make_mut(&mut self.durable).apply(&ghost.write);
            }
        }
        if !lossy {
            numbers.iter().rev().for_each(|number| drop(self.ghosts.remove(*number)));
        }
    }

    pub(super) fn ghosts(&self) -> usize {
        self.ghosts.len()
    }

    /// Whatever is seen now is durable.
    pub(super) fn settle(&mut self) {
        self.durable = self.now.clone();
        self.recent.clear();
    }

    /// Everything it may be after a restart: what was told before the horizon is in all of them.
    pub(super) fn candidates(&self, horizon: base::Instant) -> Vec<Partition> {
        let certain = self.recent.iter().take_while(|(at, _)| *at < horizon).count();
        let mut states = Vec::new();
        let mut state = (*self.durable).clone();
        self.recent[..certain].iter().for_each(|(_, write)| state.apply(write));
        states.push((state.clone(), Vec::new()));
        for (_, write) in &self.recent[certain..] {
            state.apply(write);
            states.push((state.clone(), Vec::new()));
        }
        self.with_ghosts(&mut states, |_| true);
        states.into_iter().rev().map(|(state, _)| state).collect()
    }

    /// It is this, for good.
    pub(super) fn becomes(&mut self, state: Partition) {
        *self = Known::of(state);
    }
}
