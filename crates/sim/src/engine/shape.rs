//! Tables of a run, and their bytes: writes become mutations, answers become what a reader sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Prng;
use mutation::{
    Cell, ColumnView, Deletion, Item, Key, Liveness, Mutation, MutationBuilder, RangeTombstone, ReadAnswer,
    RowView, Slice,
};
use schema::{BoundSide, ColumnKind, Order, Table, TableBuilder, TableId, TableOptions};
use types::CqlType;

use super::change::{Bound, Change, Part, Place, Value, Write};
use super::truth::{Columns, Seen, SeenCell, SeenRow};

/// Regular columns: v, w blobs, m a map.
pub(super) const REGULARS: usize = 3;
/// Static columns of a table that has any: s a blob, sm a map.
pub(super) const STATICS: usize = 2;
const NAMES: [&str; REGULARS] = ["v", "w", "m"];
const STATIC_NAMES: [&str; STATICS] = ["s", "sm"];
/// Whether a column is a map, by ordinal.
pub(super) const MAPS: [bool; REGULARS] = [false, false, true];
pub(super) const STATIC_MAPS: [bool; STATICS] = [false, true];

/// A clustering column: a number, or a text that sorts as the number does.
#[derive(Clone, Copy, Debug)]
struct Clustering {
    text: bool,
    descending: bool,
}

/// One table as it is now.
#[derive(Clone)]
pub(super) struct Shape {
    pub(super) table: Arc<Table>,
    clustering: Vec<Clustering>,
    /// Cells at or below are not seen.
    pub(super) hidden: Columns,
    /// Columns that are not there now: static, ordinal.
    pub(super) gone: Vec<(bool, u16)>,
}

/// Seconds that tombstones are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grace {
    Short(u32),
    Long,
}

impl Shape {
    /// A table drawn by chance.
    pub(super) fn drawn(number: usize, grace: Grace, rng: &mut Prng) -> Shape {
        let column = |rng: &mut Prng| Clustering { text: rng.chance(0.3), descending: rng.chance(0.4) };
        let depth = if rng.chance(0.15) { 0 } else { 1 + rng.below(2) };
        let clustering: Vec<Clustering> = (0..depth).map(|_| column(rng)).collect();
        let id = TableId(0x7000 + number as u128);
        let mut builder =
            TableBuilder::new("ks", &format!("t{number}"), id).partition_key("k", CqlType::Blob);
        for (index, column) in clustering.iter().enumerate() {
            let ty = if column.text { CqlType::Text } else { CqlType::Int };
            let order = if column.descending { Order::Descending } else { Order::Ascending };
            builder = builder.clustering(&format!("c{index}"), ty, order);
        }
        for (ordinal, name) in NAMES.iter().enumerate() {
            builder = builder.regular(name, type_of(MAPS[ordinal]));
        }
        if depth > 0 {
            for (ordinal, name) in STATIC_NAMES.iter().enumerate() {
                builder = builder.static_column(name, type_of(STATIC_MAPS[ordinal]));
            }
        }
        let mut options = TableOptions::cassandra();
        options.gc_grace_seconds = match grace {
            Grace::Short(seconds) => seconds as i32,
            Grace::Long => 864_000,
        };
        compaction(&mut options, rng.u64());
        storage(&mut options, rng);
        let table = Arc::new(builder.options(options).build().expect("a valid table"));
        let hidden = Columns { regulars: vec![i64::MIN; REGULARS], statics: vec![i64::MIN; STATICS] };
        Shape { table, clustering, hidden, gone: Vec::new() }
    }

    /// For those who read what failed.
    pub(super) fn told(&self) -> String {
        let options = &self.table.options;
        let class = |map: &BTreeMap<String, String>| map.get("class").cloned().unwrap_or_default();
        let last = |text: String| text.rsplit('.').next().unwrap_or_default().to_string();
        format!(
            "table {}: {:?}, gc_grace {}, {} {:?}, compressed by {:?}, filter {}",
            self.table.name,
            self.clustering,
            options.gc_grace_seconds,
            last(class(&options.compaction)),
            options.compaction.iter().filter(|(name, _)| *name != "class").collect::<Vec<_>>(),
            last(class(&options.compression)),
            options.bloom_filter_fp_chance
        )
    }

    pub(super) fn depth(&self) -> usize {
        self.clustering.len()
    }

    pub(super) fn has_statics(&self) -> bool {
        !self.clustering.is_empty()
    }

    pub(super) fn with(&mut self, change: impl FnOnce(&mut TableBuilder)) {
        let mut builder = self.table.to_builder();
        change(&mut builder);
        self.table = Arc::new(builder.build().expect("a valid table"));
    }

    pub(super) fn set_id(&mut self, id: TableId) {
        let mut table = (*self.table).clone();
        table.id = id;
        self.table = Arc::new(table);
    }

    /// Takes a column away, or brings it back. False when that is so already.
    pub(super) fn drop_column(&mut self, fixed: bool, ordinal: u16, at: i64) -> bool {
        if self.gone.contains(&(fixed, ordinal)) || fixed && !self.has_statics() {
            return false;
        }
        self.gone.push((fixed, ordinal));
        self.with(|builder| assert!(builder.drop_column(name(fixed, ordinal), at), "it is there"));
        *self.hidden_of(fixed, ordinal) = i64::MAX;
        true
    }

    pub(super) fn add_column(&mut self, fixed: bool, ordinal: u16, dropped_at: i64) -> bool {
        let Some(at) = self.gone.iter().position(|gone| *gone == (fixed, ordinal)) else { return false };
        self.gone.remove(at);
        let kind = if fixed { ColumnKind::Static } else { ColumnKind::Regular };
        let map = if fixed { STATIC_MAPS[usize::from(ordinal)] } else { MAPS[usize::from(ordinal)] };
        self.with(|builder| builder.add(name(fixed, ordinal), kind, type_of(map)));
        *self.hidden_of(fixed, ordinal) = dropped_at;
        true
    }

    fn hidden_of(&mut self, fixed: bool, ordinal: u16) -> &mut i64 {
        let columns = if fixed { &mut self.hidden.statics } else { &mut self.hidden.regulars };
        &mut columns[usize::from(ordinal)]
    }

    // ---- to the engine -------------------------------------------------------------------------------------------

    /// Wire form of a clustering or of a prefix of one.
    pub(super) fn wire(&self, place: &[i32]) -> Vec<u8> {
        let mut wire = Vec::new();
        for (number, column) in place.iter().zip(&self.clustering) {
            let number = if column.descending { -number } else { *number };
            if column.text {
                let filler = "x".repeat(number as usize % 9);
                schema::push_component(&mut wire, Some(format!("{number:05}{filler}").as_bytes()));
            } else {
                schema::push_component(&mut wire, Some(&number.to_be_bytes()));
            }
        }
        wire
    }

    /// A place whose components are numbers from 0 up, as they sort.
    pub(super) fn place(&self, numbers: impl Iterator<Item = i32>) -> Place {
        let signed = |(number, column): (i32, &Clustering)| if column.descending { -number } else { number };
        numbers.zip(&self.clustering).map(signed).collect()
    }

    pub(super) fn slice(&self, start: &Bound, end: &Bound) -> Slice {
        let position = |bound: &Bound| {
            let wire = self.wire(&bound.prefix);
            self.table.bound_position(&wire, side(bound)).expect("a prefix of a clustering")
        };
        Slice { start: position(start), end: position(end) }
    }

    pub(super) fn mutation(&self, write: &Write) -> Mutation {
        let key = key_of(write.key);
        let mut builder = MutationBuilder::new(self.table.id, key.token, &key.bytes);
        let deletion = Deletion { timestamp: write.timestamp, local_time: write.second };
        let expires = write.second.saturating_add(write.ttl);
        if write.parts.iter().any(|part| matches!(part, Part::DeletePartition)) {
            builder.deletion(deletion);
        }
        for part in &write.parts {
            if let Part::Static { set } = part {
                builder.static_row_with(|out| {
                    let mut row = mutation::RowWriter::new(out, Liveness::NONE, Deletion::LIVE);
                    put_changes(&mut row, write, set);
                });
            }
        }
        for part in &write.parts {
            match part {
                Part::Row { place, mark, set } => {
                    let mark = match (mark, write.ttl) {
                        (false, _) => Liveness::NONE,
                        (true, 0) => Liveness::at(write.timestamp),
                        (true, ttl) => Liveness::expiring(write.timestamp, ttl, expires),
                    };
                    builder.write_row(&self.wire(place), mark, Deletion::LIVE, |row| {
                        put_changes(row, write, set);
                    });
                }
                Part::DeleteRow { place } => {
                    builder.write_row(&self.wire(place), Liveness::NONE, deletion, |_| {});
                }
                Part::DeleteRange { start, end } => {
                    let bound = |bound: &Bound| mutation::Bound::new(&self.wire(&bound.prefix), side(bound));
                    builder.range(&RangeTombstone { start: bound(start), end: bound(end), deletion });
                }
                Part::Static { .. } | Part::DeletePartition => {}
            }
        }
        builder.finish()
    }

    // ---- from the engine -----------------------------------------------------------------------------------------

    fn place_of(&self, wire: &[u8]) -> Result<Place, String> {
        let mut place = Place::new();
        for (component, column) in schema::clustering_components(wire).zip(&self.clustering) {
            let strange = || format!("clustering {wire:02x?}");
            let bytes = component.map_err(|error| error.to_string())?.ok_or_else(strange)?;
            let number = if column.text {
                let digits = bytes.get(..5).and_then(|digits| std::str::from_utf8(digits).ok());
                digits.and_then(|digits| digits.parse().ok()).ok_or_else(strange)?
            } else {
                i32::from_be_bytes(bytes.try_into().map_err(|_| strange())?)
            };
            place.push(if column.descending { -number } else { number });
        }
        if self.wire(&place) == wire { Ok(place) } else { Err(format!("clustering {wire:02x?}")) }
    }

    /// Adds what a page shows to what earlier ones showed, by key in the order of the answer. The read judges by its first second;
    /// what has expired by its last one may be gone from later pages.
    /// Errors: something that nobody wrote in that form.
    pub(super) fn add_page(
        &self,
        answer: &ReadAnswer,
        (first_s, last_s): (u32, u32),
        seen: &mut Vec<(u16, Seen)>,
    ) -> Result<(), String> {
        for mutation in &answer.partitions {
            let view = mutation.view();
            let key =
                number_of(view.key).ok_or_else(|| format!("a partition of the key {:02x?}", view.key))?;
            if seen.last().is_none_or(|(last, _)| *last != key) {
                seen.push((key, Seen::default()));
            }
            let (_, partition) = seen.last_mut().expect("pushed just now");
            if let Some(body) = view.static_row {
                let fixed = seen_row(body, first_s)?;
                let lasts = |row: &Option<SeenRow>| row.as_ref().and_then(|row| row.at(last_s));
                if partition.fixed.is_some() && lasts(&partition.fixed) != lasts(&fixed) {
                    return Err(format!("two pages of partition {key} show other static rows"));
                }
                partition.fixed = fixed;
            }
            for item in view.items() {
                if let Item::Row { clustering, body } = item
                    && let Some(row) = seen_row(body, first_s)?
                {
                    partition.rows.push((self.place_of(clustering)?, row));
                }
            }
        }
        Ok(())
    }
}

fn side(bound: &Bound) -> BoundSide {
    if bound.after { BoundSide::After } else { BoundSide::Before }
}

fn name(fixed: bool, ordinal: u16) -> &'static str {
    if fixed { STATIC_NAMES[usize::from(ordinal)] } else { NAMES[usize::from(ordinal)] }
}

fn type_of(map: bool) -> CqlType {
    if map { CqlType::map(CqlType::Int, CqlType::Blob) } else { CqlType::Blob }
}

/// The partition key of a number; of several lengths.
pub(super) fn key_of(number: u16) -> Key {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(2 + usize::from(number % 7) * 5, number as u8);
    Key::new(&bytes)
}

fn number_of(key: &[u8]) -> Option<u16> {
    let number = u16::from_be_bytes(*key.first_chunk::<2>()?);
    (*key_of(number).bytes == *key).then_some(number)
}

fn put_changes(row: &mut mutation::RowWriter<'_>, write: &Write, set: &[(u16, Change)]) {
    fn cell<'a>(write: &Write, value: Option<&'a [u8]>) -> Cell<'a> {
        match (value, write.ttl) {
            (None, _) => Cell::tombstone(write.timestamp, write.second),
            (Some(value), 0) => Cell::live(write.timestamp, value),
            (Some(value), ttl) => Cell::expiring(write.timestamp, ttl, write.second + ttl, value),
        }
    }
    for (ordinal, change) in set {
        match change {
            Change::Cell(value) => {
                let bytes = value.map(|value| value.bytes());
                row.simple(*ordinal, cell(write, bytes.as_deref()));
            }
            Change::Map { clear, cells } => {
                let before = Deletion { timestamp: write.timestamp - 1, local_time: write.second };
                row.complex_start(*ordinal, if *clear { before } else { Deletion::LIVE });
                for (path, value) in cells {
                    let bytes = value.map(|value| value.bytes());
                    row.complex_cell(&path.to_be_bytes(), cell(write, bytes.as_deref()));
                }
                row.complex_end();
            }
        }
    }
}

/// What a reader sees of a packed row.
fn seen_row(body: &[u8], now_s: u32) -> Result<Option<SeenRow>, String> {
    let row = RowView::new(body);
    let mark = row.liveness();
    let mark = mark.is_live(now_s).then_some((mark.timestamp, mark.ttl, mark.expires_at));
    let mut cells = Vec::new();
    let mut put = |column: u16, path: Option<i32>, cell: &Cell<'_>| {
        let Some(bytes) = cell.value.filter(|_| cell.is_live(now_s)) else { return Ok(()) };
        let value = Value::of(bytes).ok_or_else(|| {
            format!("a value of {} bytes that nobody wrote: {:02x?}", bytes.len(), head(bytes))
        })?;
        cells.push(SeenCell {
            column,
            path,
            timestamp: cell.timestamp,
            ttl: cell.ttl,
            expires: cell.local_time,
            value,
        });
        Ok::<(), String>(())
    };
    for (ordinal, column) in row.columns() {
        match column {
            ColumnView::Simple(cell) => put(ordinal, None, &cell)?,
            ColumnView::Complex(complex) => {
                for (path, cell) in complex.cells() {
                    let path: [u8; 4] = path.try_into().map_err(|_| format!("a path {path:02x?}"))?;
                    put(ordinal, Some(i32::from_be_bytes(path)), &cell)?;
                }
            }
        }
    }
    Ok((mark.is_some() || !cells.is_empty()).then_some(SeenRow { mark, cells }))
}

fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(24)]
}

/// Draws a compaction strategy with small options.
pub(super) fn compaction(options: &mut TableOptions, choice: u64) {
    let mut rng = Prng::new(choice);
    let class = |name: &str| format!("org.apache.cassandra.db.compaction.{name}");
    let mut map = BTreeMap::new();
    let mut put = |name: &str, value: String| drop(map.insert(name.to_string(), value));
    match rng.below(5) {
        0 => {
            put("class", class("LeveledCompactionStrategy"));
            put("sstable_size_in_mb", "1".into());
            put("fanout_size", (2 + rng.below(4)).to_string());
        }
        1 => {
            put("class", class("TimeWindowCompactionStrategy"));
            put("compaction_window_unit", "MINUTES".into());
            put("compaction_window_size", "1".into());
        }
        2 => {
            put("class", class("UnifiedCompactionStrategy"));
            put("scaling_parameters", ["T2", "T4", "N", "L4", "L8, N, T4"][rng.below(5) as usize].into());
            put("min_sstable_size", "1MiB".into());
        }
        _ => {
            put("class", class("SizeTieredCompactionStrategy"));
            let min = 2 + rng.below(3);
            put("min_threshold", min.to_string());
            put("max_threshold", (min + rng.below(30)).to_string());
        }
    }
    if rng.chance(0.3) {
        put("tombstone_threshold", format!("{:.2}", 0.01 + rng.unit() * 0.5));
        put("tombstone_compaction_interval", (1 + rng.below(5)).to_string());
        put("unchecked_tombstone_compaction", rng.chance(0.5).to_string());
    }
    options.compaction = map;
}

/// Draws how a table's data is stored.
fn storage(options: &mut TableOptions, rng: &mut Prng) {
    let class = |name: &str| format!("org.apache.cassandra.io.compress.{name}");
    let compressor = ["LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor"];
    let compressor = compressor[rng.below(4) as usize];
    let chunk = ["4", "16", "64"][rng.below(3) as usize];
    options.compression = match rng.below(4) {
        0 => BTreeMap::from([("enabled".to_string(), "false".to_string())]),
        _ => BTreeMap::from([
            ("class".to_string(), class(compressor)),
            ("chunk_length_in_kb".to_string(), chunk.to_string()),
        ]),
    };
    options.bloom_filter_fp_chance = [0.01, 0.1, 1.0][rng.below(3) as usize];
    if rng.chance(0.5) {
        let rows = ["ALL", "NONE", "10"][rng.below(3) as usize];
        options.caching.insert("rows_per_partition".into(), rows.into());
    }
}
