//! A table: its key, its columns and what follows from them.

use crate::column_order::sort_as_selected;
use crate::limits::ORDINALS_MAX;
use crate::position;
use crate::{BoundSide, Column, ColumnKind, DroppedColumn, Error, Order, Position, TableOptions};
use std::fmt;
use std::sync::Arc;
use types::CqlType;

/// A table's identity for life; survives renames, never reused. 128-bit UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u128);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", uuid::Uuid::from_u128(self.0))
    }
}

/// Whether a table is WITH COMPACT STORAGE: of the form in which Cassandra kept tables before version 3. Its rows lie as those
/// of other tables, and have no liveness of their own: a row is there as long as one of its cells is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactStorage {
    /// It is not.
    No,
    /// With clustering columns and exactly one regular column. That one is of type `empty`, and hidden, where CREATE TABLE
    /// named none. Clusterings may end in nulls.
    Dense,
    /// Without clustering columns, as far as statements see: what they see are static columns. There is a clustering column,
    /// of type `text`, and a regular column, of type `blob` or `counter`; both are hidden, as are all rows.
    Static,
}

/// One table definition. Immutable; built by [`TableBuilder`].
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Identity.
    pub id: TableId,
    /// Keyspace name.
    pub keyspace: Arc<str>,
    /// Table name.
    pub name: Arc<str>,
    /// In key order, at least one.
    pub partition_key: Vec<Column>,
    /// In key order.
    pub clustering: Vec<Column>,
    /// In the order of `SELECT *`.
    pub statics: Vec<Column>,
    /// In the order of `SELECT *`.
    pub regulars: Vec<Column>,
    /// Everything after WITH.
    pub options: TableOptions,
    /// Columns that are gone.
    pub dropped: Vec<DroppedColumn>,
    /// Whether all regular columns are counters.
    pub counter: bool,
    /// COMPACT STORAGE.
    pub compact: CompactStorage,
    /// Next ordinal to give to a static column.
    pub next_static_ordinal: u16,
    /// Next ordinal to give to a regular column.
    pub next_regular_ordinal: u16,
    static_by_ordinal: Vec<Slot>,
    regular_by_ordinal: Vec<Slot>,
    /// By ordinal, empty unless a column was ever dropped; see [`Table::hidden_to`].
    static_hidden: Vec<i64>,
    regular_hidden: Vec<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Live(u16),
    Dropped(u16),
    Never,
}

impl Table {
    /// Whether it is WITH COMPACT STORAGE.
    pub fn is_compact(&self) -> bool {
        self.compact != CompactStorage::No
    }

    /// Whether statements do not see a column of this table.
    pub fn is_hidden(&self, column: &Column) -> bool {
        match self.compact {
            CompactStorage::No => false,
            CompactStorage::Dense => column.kind == ColumnKind::Regular && column.ty == CqlType::Empty,
            CompactStorage::Static => matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular),
        }
    }

    /// The column in which the rows of a table WITH COMPACT STORAGE have their value, if nobody sees it: a row is its key.
    pub fn empty_value(&self) -> Option<&Column> {
        let value = self.regulars.first().filter(|_| self.compact == CompactStorage::Dense);
        value.filter(|column| self.is_hidden(column))
    }

    /// The column of that name, of any kind, hidden or not.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns().find(|c| &*c.name == name)
    }

    /// Whether statements that were prepared on this definition go on with a later one; otherwise clients prepare them
    /// again. Options count only where what was bound for one would be wrong for the other: Cassandra draws the same line.
    pub fn keeps_statements(&self, later: &Table) -> bool {
        self.id == later.id
            && self.compact == later.compact
            && self.partition_key == later.partition_key
            && self.clustering == later.clustering
            && self.statics == later.statics
            && self.regulars == later.regulars
            && self.options.default_time_to_live == later.options.default_time_to_live
            && self.options.gc_grace_seconds == later.options.gc_grace_seconds
    }

    /// The columns that statements see, in the order of `SELECT *`.
    pub fn visible_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns().filter(|column| !self.is_hidden(column))
    }

    /// All columns in the order of `SELECT *`, hidden ones too: partition key, clustering, static, regular.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.partition_key.iter().chain(&self.clustering).chain(&self.statics).chain(&self.regulars)
    }

    /// The live static (`is_static`) or regular column with an ordinal; `None` if dropped or never given. O(1).
    pub fn column_by_ordinal(&self, is_static: bool, ordinal: u16) -> Option<&Column> {
        match self.slot(is_static, ordinal) {
            Slot::Live(index) if is_static => self.statics.get(index as usize),
            Slot::Live(index) => self.regulars.get(index as usize),
            Slot::Dropped(_) | Slot::Never => None,
        }
    }

    /// The dropped column with an ordinal. O(1).
    pub fn dropped_by_ordinal(&self, is_static: bool, ordinal: u16) -> Option<&DroppedColumn> {
        match self.slot(is_static, ordinal) {
            Slot::Dropped(index) => self.dropped.get(index as usize),
            Slot::Live(_) | Slot::Never => None,
        }
    }

    /// Whether some cells must not be seen, because they belong to columns that were dropped.
    pub fn hides_cells(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// The timestamp (microseconds) to which cells with an ordinal are hidden: that of the drop for a column that came
    /// back, all for one that is gone, `i64::MIN` for one that was never dropped. O(1).
    pub fn hidden_to(&self, is_static: bool, ordinal: u16) -> i64 {
        let hidden = if is_static { &self.static_hidden } else { &self.regular_hidden };
        hidden.get(ordinal as usize).copied().unwrap_or(i64::MIN)
    }

    /// Index into `statics` or `regulars` of the live column with an ordinal. O(1).
    pub fn index_by_ordinal(&self, is_static: bool, ordinal: u16) -> Option<usize> {
        match self.slot(is_static, ordinal) {
            Slot::Live(index) => Some(index as usize),
            Slot::Dropped(_) | Slot::Never => None,
        }
    }

    fn slot(&self, is_static: bool, ordinal: u16) -> Slot {
        let slots = if is_static { &self.static_by_ordinal } else { &self.regular_by_ordinal };
        slots.get(ordinal as usize).copied().unwrap_or(Slot::Never)
    }

    /// The type that orders the cells of a complex column, live or dropped; `None` for simple or unknown columns.
    pub fn cell_path_type(&self, is_static: bool, ordinal: u16) -> Option<CqlType> {
        match self.column_by_ordinal(is_static, ordinal) {
            Some(column) => column.ty.cell_path_type(),
            None => self.dropped_by_ordinal(is_static, ordinal)?.ty.cell_path_type(),
        }
    }

    /// Where a whole clustering key (wire form) sorts. Errors when the components are not exactly the table's.
    pub fn position(&self, clustering: &[u8]) -> Result<Position, Error> {
        if self.clustering.is_empty() && clustering.is_empty() {
            return Ok(Position::only_row());
        }
        let mut out = Vec::with_capacity(clustering.len() + 4);
        position::row_position(&self.clustering, clustering, &mut out)?;
        Ok(out.into())
    }

    /// As [`Table::position`], appended to `out`.
    pub fn push_position(&self, clustering: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        position::row_position(&self.clustering, clustering, out)
    }

    /// Where a bound with a prefix (wire form, 0 to all components) sorts.
    pub fn bound_position(&self, prefix: &[u8], side: BoundSide) -> Result<Position, Error> {
        position::bound_position(&self.clustering, prefix, side)
    }

    /// `ks.table` with names quoted where needed is left to the CQL layer; this is plain `ks.table`.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }

    /// Number of components of the partition key.
    pub fn key_components(&self) -> usize {
        self.partition_key.len()
    }

    /// Splits a serialized partition key into its components' values.
    /// Shape: one column: the raw bytes; several: `u16 length, bytes, 00` each. Errors when it does not divide so.
    pub fn split_key<'k>(&self, key: &'k [u8]) -> Result<Vec<&'k [u8]>, Error> {
        if self.partition_key.len() == 1 {
            return Ok(vec![key]);
        }
        let cut = Error::Clustering { reason: "composite partition key does not divide into its components" };
        let mut rest = key;
        let mut values = Vec::with_capacity(self.partition_key.len());
        for _ in &self.partition_key {
            let (len, tail) = rest.split_first_chunk::<2>().ok_or_else(|| cut.clone())?;
            let len = u16::from_be_bytes(*len) as usize;
            let (value, tail) = tail.split_at_checked(len).ok_or_else(|| cut.clone())?;
            let (_end, tail) = tail.split_first().ok_or_else(|| cut.clone())?;
            values.push(value);
            rest = tail;
        }
        if rest.is_empty() { Ok(values) } else { Err(cut) }
    }

    /// Serializes a partition key from its components' values into `out`. See [`Table::split_key`] for the shape.
    pub fn push_key(&self, values: &[&[u8]], out: &mut Vec<u8>) {
        debug_assert_eq!(values.len(), self.partition_key.len());
        if let [only] = values {
            out.extend_from_slice(only);
            return;
        }
        for value in values {
            out.extend_from_slice(&(value.len() as u16).to_be_bytes());
            out.extend_from_slice(value);
            out.push(0);
        }
    }

    /// A builder that starts from this definition, for ALTER TABLE.
    pub fn to_builder(&self) -> TableBuilder {
        TableBuilder { table: self.clone(), full: false }
    }
}

/// Builds a [`Table`], giving ordinals and checking the whole at the end.
#[derive(Debug, Clone)]
pub struct TableBuilder {
    table: Table,
    /// A column found no ordinal: [`TableBuilder::build`] says so.
    full: bool,
}

impl TableBuilder {
    /// Starts an empty definition with Cassandra's default options.
    pub fn new(keyspace: &str, name: &str, id: TableId) -> TableBuilder {
        TableBuilder {
            table: Table {
                id,
                keyspace: keyspace.into(),
                name: name.into(),
                partition_key: Vec::new(),
                clustering: Vec::new(),
                statics: Vec::new(),
                regulars: Vec::new(),
                options: TableOptions::cassandra(),
                dropped: Vec::new(),
                counter: false,
                compact: CompactStorage::No,
                next_static_ordinal: 0,
                next_regular_ordinal: 0,
                static_by_ordinal: Vec::new(),
                regular_by_ordinal: Vec::new(),
                static_hidden: Vec::new(),
                regular_hidden: Vec::new(),
            },
            full: false,
        }
    }

    /// Adds the next component of the partition key.
    pub fn partition_key(mut self, name: &str, ty: CqlType) -> TableBuilder {
        let position = self.table.partition_key.len() as u16;
        self.table.partition_key.push(key_column(
            name,
            ColumnKind::PartitionKey,
            position,
            ty,
            Order::Ascending,
        ));
        self
    }

    /// Adds the next component of the clustering key.
    pub fn clustering(mut self, name: &str, ty: CqlType, order: Order) -> TableBuilder {
        let position = self.table.clustering.len() as u16;
        self.table.clustering.push(key_column(name, ColumnKind::Clustering, position, ty, order));
        self
    }

    /// Adds a regular column with the next ordinal.
    pub fn regular(mut self, name: &str, ty: CqlType) -> TableBuilder {
        self.add(name, ColumnKind::Regular, ty);
        self
    }

    /// Adds a static column with the next ordinal.
    pub fn static_column(mut self, name: &str, ty: CqlType) -> TableBuilder {
        self.add(name, ColumnKind::Static, ty);
        self
    }

    /// Makes it a table WITH COMPACT STORAGE, all of whose columns have been added as CREATE TABLE names them, and adds those that are
    /// hidden. Without clustering columns, what was added as regular becomes static.
    pub fn make_compact(&mut self) {
        let is_free = |table: &Table, name: &str| table.column(name).is_none();
        let first_free = |table: &Table, word: &str, from: usize| {
            let numbered = |n: usize| if n == 0 { word.to_string() } else { format!("{word}{n}") };
            (from..)
                .map(numbered)
                .find(|name| is_free(table, name))
                .expect("a table has finitely many columns")
        };
        if self.table.clustering.is_empty() {
            let counts = self.table.regulars.iter().any(|column| column.ty == CqlType::Counter);
            for column in std::mem::take(&mut self.table.regulars) {
                self.add(&column.name, ColumnKind::Static, column.ty);
            }
            self.table.next_regular_ordinal = 0;
            let name = first_free(&self.table, "column", 1);
            let key = key_column(&name, ColumnKind::Clustering, 0, CqlType::Text, Order::Ascending);
            self.table.clustering.push(key);
            let value = first_free(&self.table, "value", 0);
            let ty = if counts { CqlType::Counter } else { CqlType::Blob };
            self.add(&value, ColumnKind::Regular, ty);
            self.table.compact = CompactStorage::Static;
        } else {
            if self.table.regulars.is_empty() {
                let value = first_free(&self.table, "value", 0);
                self.add(&value, ColumnKind::Regular, CqlType::Empty);
            }
            self.table.compact = CompactStorage::Dense;
        }
    }

    /// Makes it a table without COMPACT STORAGE, of the same columns, all of which are seen then.
    pub fn drop_compact_storage(&mut self) {
        self.table.compact = CompactStorage::No;
    }

    /// Replaces the options.
    pub fn options(mut self, options: TableOptions) -> TableBuilder {
        self.table.options = options;
        self
    }

    /// Adds a static or regular column with the next ordinal of its kind; one that comes back after it was dropped gets
    /// the ordinal it had, so that cells newer than the drop are found again and older ones stay hidden.
    pub fn add(&mut self, name: &str, kind: ColumnKind, ty: CqlType) {
        assert!(matches!(kind, ColumnKind::Static | ColumnKind::Regular), "key columns have no ordinal");
        let is_static = kind == ColumnKind::Static;
        let next = if is_static {
            &mut self.table.next_static_ordinal
        } else {
            &mut self.table.next_regular_ordinal
        };
        let mut back = self.table.dropped.iter().rev().filter(|d| &*d.name == name && d.kind == kind);
        let ordinal = match back.next().filter(|d| d.ty.is_multi_cell() == ty.is_multi_cell()) {
            Some(dropped) => dropped.ordinal,
            None if usize::from(*next) >= ORDINALS_MAX => {
                self.full = true;
                return;
            }
            None => {
                *next += 1;
                *next - 1
            }
        };
        let column = Column { name: name.into(), kind, position: 0, ordinal, ty, order: Order::Ascending };
        let columns = if is_static { &mut self.table.statics } else { &mut self.table.regulars };
        columns.push(column);
    }

    /// Takes a static or regular column away at a time (microseconds); its ordinal stays taken. What it had of user types
    /// is kept as tuples: the types may go, too. Returns whether it was there.
    pub fn drop_column(&mut self, name: &str, dropped_at: i64) -> bool {
        for columns in [&mut self.table.statics, &mut self.table.regulars] {
            if let Some(index) = columns.iter().position(|c| &*c.name == name) {
                let Column { name, kind, ordinal, ty, .. } = columns.remove(index);
                let ty = ty.with_tuples();
                let same = |d: &DroppedColumn| (d.kind, d.ordinal) == (kind, ordinal);
                // A second drop with an earlier time does not bring back what the first one hid.
                let earlier = self.table.dropped.iter().filter(|d| same(d)).map(|d| d.dropped_at).max();
                let dropped_at = earlier.map_or(dropped_at, |earlier| earlier.max(dropped_at));
                self.table.dropped.retain(|d| !same(d));
                self.table.dropped.push(DroppedColumn { name, kind, ordinal, ty, dropped_at });
                return true;
            }
        }
        false
    }

    /// Renames a key column. Returns whether it was there.
    pub fn rename_key(&mut self, from: &str, to: &str) -> bool {
        let keys = self.table.partition_key.iter_mut().chain(&mut self.table.clustering);
        for column in keys {
            if &*column.name == from {
                column.name = to.into();
                return true;
            }
        }
        false
    }

    /// Replaces the type of every column, dropped ones too, by what `change` makes of it.
    pub fn change_types(&mut self, change: impl Fn(&CqlType) -> CqlType) {
        let table = &mut self.table;
        let keys = table.partition_key.iter_mut().chain(&mut table.clustering);
        keys.chain(&mut table.statics).chain(&mut table.regulars).for_each(|c| c.ty = change(&c.ty));
        table.dropped.iter_mut().for_each(|d| d.ty = change(&d.ty));
    }

    /// The options, to change.
    pub fn options_mut(&mut self) -> &mut TableOptions {
        &mut self.table.options
    }

    /// Puts a decoded column in place, with the ordinal it already has.
    pub(crate) fn restore(&mut self, column: Column) {
        match column.kind {
            ColumnKind::PartitionKey => self.table.partition_key.push(column),
            ColumnKind::Clustering => self.table.clustering.push(column),
            ColumnKind::Static => self.table.statics.push(column),
            ColumnKind::Regular => self.table.regulars.push(column),
        }
    }

    pub(crate) fn restore_dropped(&mut self, dropped: DroppedColumn) {
        self.table.dropped.push(dropped);
    }

    pub(crate) fn restore_compact(&mut self, compact: CompactStorage) {
        self.table.compact = compact;
    }

    pub(crate) fn restore_next_ordinals(&mut self, statics: u16, regulars: u16) {
        self.table.next_static_ordinal = statics;
        self.table.next_regular_ordinal = regulars;
    }

    /// As [`TableBuilder::build`], for decoded definitions: every ordinal must lie below the next one.
    pub(crate) fn build_checked(self, statics: u16, regulars: u16) -> Result<Table, Error> {
        let limit = |kind| {
            if kind == ColumnKind::Static { statics } else { regulars }
        };
        let live = self.table.statics.iter().chain(&self.table.regulars).all(|c| c.ordinal < limit(c.kind));
        let dropped = self.table.dropped.iter().all(|c| c.ordinal < limit(c.kind));
        if !(live && dropped) {
            return Err(Error::Definition("an ordinal lies beyond those given".to_string()));
        }
        self.build()
    }

    /// Checks the definition and derives the rest.
    /// Errors: no partition key, a name used twice, no ordinals left, statics without clustering, counters mixed with others.
    pub fn build(self) -> Result<Table, Error> {
        let mut table = self.table;
        if self.full {
            return Err(Error::Definition(format!(
                "table {} has had {ORDINALS_MAX} columns and can have no new ones",
                table.qualified_name()
            )));
        }
        if table.partition_key.is_empty() {
            return Err(Error::Definition(format!(
                "No PRIMARY KEY specified for table '{}' (exactly one required)",
                table.qualified_name()
            )));
        }
        let mut names: Vec<&str> = table.columns().map(|c| &*c.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::Definition(format!(
                "Duplicate column '{}' declaration for table '{}'",
                twice[0], table.name
            )));
        }
        if !table.statics.is_empty() && table.clustering.is_empty() {
            return Err(Error::Definition("Static columns are only useful (and thus allowed) if the table has at least one clustering column".to_string()));
        }
        let (keys, values) = (table.clustering.len(), table.regulars.len());
        let sound = match table.compact {
            CompactStorage::No => true,
            CompactStorage::Dense => keys > 0 && values == 1 && table.statics.is_empty(),
            CompactStorage::Static => keys == 1 && values == 1,
        };
        if !sound {
            return Err(Error::Definition("these columns do not go with COMPACT STORAGE".to_string()));
        }
        let counters =
            table.regulars.iter().chain(&table.statics).filter(|c| c.ty == CqlType::Counter).count();
        if counters > 0 && counters != table.regulars.len() + table.statics.len() {
            return Err(Error::Definition(
                "Cannot mix counter and non counter columns in the same table".to_string(),
            ));
        }
        table.counter = counters > 0;
        sort_as_selected(&mut table.statics);
        sort_as_selected(&mut table.regulars);
        table.static_by_ordinal =
            slots(&table.statics, &table.dropped, ColumnKind::Static, table.next_static_ordinal);
        table.regular_by_ordinal =
            slots(&table.regulars, &table.dropped, ColumnKind::Regular, table.next_regular_ordinal);
        table.static_hidden = hidden(&table.dropped, ColumnKind::Static, &table.static_by_ordinal);
        table.regular_hidden = hidden(&table.dropped, ColumnKind::Regular, &table.regular_by_ordinal);
        Ok(table)
    }
}

fn key_column(name: &str, kind: ColumnKind, position: u16, ty: CqlType, order: Order) -> Column {
    Column { name: name.into(), kind, position, ordinal: 0, ty, order }
}

fn hidden(dropped: &[DroppedColumn], kind: ColumnKind, slots: &[Slot]) -> Vec<i64> {
    if dropped.is_empty() {
        return Vec::new();
    }
    let mut hidden = vec![i64::MIN; slots.len()];
    for column in dropped.iter().filter(|c| c.kind == kind) {
        let ordinal = column.ordinal as usize;
        let live = matches!(slots[ordinal], Slot::Live(_));
        hidden[ordinal] = if live { column.dropped_at } else { i64::MAX };
    }
    hidden
}

fn slots(live: &[Column], dropped: &[DroppedColumn], kind: ColumnKind, count: u16) -> Vec<Slot> {
    let mut slots = vec![Slot::Never; count as usize];
    for (index, column) in dropped.iter().enumerate().filter(|(_, c)| c.kind == kind) {
        slots[column.ordinal as usize] = Slot::Dropped(index as u16);
    }
    for (index, column) in live.iter().enumerate() {
        slots[column.ordinal as usize] = Slot::Live(index as u16);
    }
    slots
}
