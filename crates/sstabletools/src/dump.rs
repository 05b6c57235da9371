//! `dump`: an sstable as sstabledump of Cassandra 5.0 prints it.
//!
//! ```text
//! file ─▶ raw scan: partition, row, row, marker … ─▶ JSON (one object per partition), keys, or one line per row
//! ```
//! One row is in memory at a time. Positions are those of the tool: of a partition that of its first row, of a row
//! where the one before ended. Whether something is expired is told by the clock of the machine.

use crate::error::Error;
use crate::files::Place;
use crate::json::Json;
use crate::keys;
use crate::lines;
use crate::output::Output;
use crate::times::{Unit, instant};
use crate::values;
use base::Token;
use mutation::{Cell, ColumnView, ComplexView, Deletion, Liveness, RowView};
use schema::{BoundSide, Column, Table, clustering_components};
use sstable::{Raw, RawItem, RawPartition, RawScanner};
use std::collections::BTreeSet;
use std::rc::Rc;
use types::CqlType;

/// How an sstable is dumped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpOptions {
    /// One line per row in the representation of Cassandra's code, instead of JSON.
    pub lines_per_row: bool,
    /// Only the keys.
    pub only_keys: bool,
    /// Times as numbers.
    pub raw_times: bool,
    /// A line of JSON per partition.
    pub json_lines: bool,
    /// Only partitions of these keys; all if there are none.
    pub keys: Vec<String>,
    /// No partitions of these keys.
    pub excluded: Vec<String>,
}

/// Which partitions come, and how the next one is reached.
pub(crate) struct Partitions {
    raw: Rc<Raw>,
    pub(crate) scanner: RawScanner,
    /// Those that are asked for, in ring order; `None`: all.
    wanted: Option<std::vec::IntoIter<Vec<u8>>>,
    excluded: BTreeSet<String>,
}

impl Partitions {
    /// Errors: a key that is none of the table's.
    fn new(raw: &Rc<Raw>, options: &DumpOptions) -> Result<Partitions, Error> {
        let excluded: BTreeSet<String> = options.excluded.iter().cloned().collect();
        let wanted = if options.keys.is_empty() {
            None
        } else {
            let mut wanted: BTreeSet<(Token, Vec<u8>)> = BTreeSet::new();
            for key in options.keys.iter().filter(|key| !excluded.contains(*key)) {
                wanted.insert(keys::parse(raw.table(), key).map_err(Error::Refused)?);
            }
            Some(wanted.into_iter().map(|(_, key)| key).collect::<Vec<_>>().into_iter())
        };
        let scanner = if wanted.is_some() { raw.scan_closely(0) } else { raw.scan(0) };
        Ok(Partitions { raw: raw.clone(), scanner, wanted, excluded })
    }

    /// The next one that is asked for.
    pub(crate) async fn next(&mut self) -> Result<Option<RawPartition>, Error> {
        loop {
            let sought = match &mut self.wanted {
                None => None,
                Some(wanted) => {
                    let Some(key) = wanted.next() else { return Ok(None) };
                    let Some(position) = self.raw.find(&key).await? else { continue };
                    self.scanner.seek(position);
                    Some(key)
                }
            };
            let Some(partition) = self.scanner.partition().await? else { return Ok(None) };
            if sought.is_some_and(|key| key != partition.key) {
                continue;
            }
            let table = self.raw.table();
            if !self.excluded.is_empty() && self.excluded.contains(&keys::text(table, &partition.key)) {
                continue;
            }
            return Ok(Some(partition));
        }
    }
}

/// Prints one sstable. Errors: what was printed before stands.
pub async fn dump(place: &Place, options: &DumpOptions, out: &mut Output<'_>) -> Result<(), Error> {
    let raw = Raw::open(&place.dir, place.descriptor).await?;
    let dumped = if options.only_keys {
        only_keys(&raw, out).await
    } else {
        let mut partitions = Partitions::new(&raw, options)?;
        if options.lines_per_row {
            lines::print(raw.table(), &mut partitions, out).await
        } else {
            let now_s = runtime::unix_micros().div_euclid(1_000_000);
            let json = Json::new(!options.json_lines);
            let dumper = Dumper { table: raw.table(), json, raw_times: options.raw_times, now_s };
            dumper.all(&mut partitions, !options.json_lines, out).await
        }
    };
    let flushed = out.flush();
    dumped.and(flushed)
}

async fn only_keys(raw: &Rc<Raw>, out: &mut Output<'_>) -> Result<(), Error> {
    let mut json = Json::new(true);
    json.start_array(out.buffer());
    let mut scanner = raw.scan(0);
    while let Some(partition) = scanner.partition().await? {
        put_key(raw.table(), &partition.key, &mut json, out.buffer());
        out.pass()?;
    }
    json.end_array(out.buffer());
    Ok(())
}

fn put_key(table: &Table, key: &[u8], json: &mut Json, out: &mut Vec<u8>) {
    json.objects_on_one_line(true);
    json.arrays_on_one_line(true);
    json.start_array(out);
    keys::columns(table, key).iter().for_each(|column| json.text(column, out));
    json.end_array(out);
    json.objects_on_one_line(false);
    json.arrays_on_one_line(false);
}

/// The name of a column as CQL writes it.
fn column_name(column: &Column) -> String {
    cql::quoted(&column.name)
}

struct Dumper<'t> {
    table: &'t Table,
    json: Json,
    raw_times: bool,
    now_s: i64,
}

impl Dumper<'_> {
    async fn all(
        mut self,
        partitions: &mut Partitions,
        whole: bool,
        out: &mut Output<'_>,
    ) -> Result<(), Error> {
        if whole {
            self.json.start_array(out.buffer());
        }
        while let Some(partition) = partitions.next().await? {
            self.partition(&partition, out.buffer());
            let mut position = partition.items_at;
            while let Some(item) = partitions.scanner.item().await? {
                match &item {
                    RawItem::Row { clustering, body, .. } => {
                        self.row(Some(clustering), position, body, out.buffer());
                    }
                    RawItem::Marker { prefix, side, ends, starts, .. } => {
                        self.marker(prefix, *side, *ends, *starts, out.buffer());
                    }
                }
                position = partitions.scanner.position();
                out.pass()?;
            }
            self.json.end_array(out.buffer());
            self.json.end_object(out.buffer());
            out.pass()?;
        }
        if whole {
            self.json.end_array(out.buffer());
        }
        Ok(())
    }

    fn time(&self, time: i64, unit: Unit) -> String {
        if self.raw_times { time.to_string() } else { instant(time, unit) }
    }

    /// Everything of a partition before its first row or marker.
    fn partition(&mut self, partition: &RawPartition, out: &mut Vec<u8>) {
        self.json.start_object(out);
        self.json.text_field("table kind", "REGULAR", out);
        self.json.name("partition", out);
        self.json.start_object(out);
        self.json.name("key", out);
        put_key(self.table, &partition.key, &mut self.json, out);
        self.json.field("position", partition.items_at, out);
        if !partition.deletion.is_live() {
            self.deletion(partition.deletion, out);
        }
        self.json.end_object(out);
        self.json.name("rows", out);
        self.json.start_array(out);
        if !partition.static_row.is_empty() {
            self.row(None, partition.items_at, &partition.static_row, out);
        }
    }

    /// A row; the static one has no clustering.
    fn row(&mut self, clustering: Option<&[u8]>, position: u64, body: &[u8], out: &mut Vec<u8>) {
        let row = RowView::new(body);
        let is_static = clustering.is_none();
        self.json.start_object(out);
        self.json.text_field("type", if is_static { "static_block" } else { "row" }, out);
        self.json.field("position", position, out);
        if let Some(clustering) = clustering {
            self.clustering(clustering, out);
        }
        let liveness = seen_liveness(&row);
        if !liveness.is_none() {
            self.liveness(liveness, out);
        }
        if !row.deletion().is_live() {
            self.deletion(row.deletion(), out);
        }
        self.json.name("cells", out);
        self.json.start_array(out);
        for (ordinal, column) in row.columns() {
            if let Some(known) = self.table.column_by_ordinal(is_static, ordinal) {
                self.column(&known.clone(), &column, (liveness, row.deletion()), out);
            }
        }
        self.json.end_array(out);
        self.json.end_object(out);
    }

    fn liveness(&mut self, liveness: Liveness, out: &mut Vec<u8>) {
        let written = self.time(liveness.timestamp, Unit::Micros);
        self.json.objects_on_one_line(false);
        self.json.name("liveness_info", out);
        self.json.objects_on_one_line(true);
        self.json.start_object(out);
        self.json.text_field("tstamp", &written, out);
        if liveness.is_expiring() {
            let expires_at = i64::from(liveness.expires_at);
            self.expiry(liveness.ttl, expires_at, expires_at < self.now_s, out);
        }
        self.json.end_object(out);
        self.json.objects_on_one_line(false);
    }

    fn expiry(&mut self, ttl: u32, expires_at: i64, expired: bool, out: &mut Vec<u8>) {
        let at = self.time(expires_at, Unit::Seconds);
        self.json.field("ttl", ttl, out);
        self.json.text_field("expires_at", &at, out);
        self.json.field("expired", expired, out);
    }

    fn deletion(&mut self, deletion: Deletion, out: &mut Vec<u8>) {
        let marked = self.time(deletion.timestamp, Unit::Micros);
        let local = self.time(i64::from(deletion.local_time), Unit::Seconds);
        self.json.name("deletion_info", out);
        self.json.objects_on_one_line(true);
        self.json.start_object(out);
        self.json.text_field("marked_deleted", &marked, out);
        self.json.text_field("local_delete_time", &local, out);
        self.json.end_object(out);
        self.json.objects_on_one_line(false);
    }

    /// A clustering key or a prefix of one; what it leaves open is a star.
    fn clustering(&mut self, wire: &[u8], out: &mut Vec<u8>) {
        if wire.is_empty() {
            return;
        }
        self.json.name("clustering", out);
        self.json.objects_on_one_line(true);
        self.json.start_array(out);
        self.json.arrays_on_one_line(true);
        let mut values = clustering_components(wire);
        for column in &self.table.clustering {
            match values.next() {
                None => self.json.text("*", out),
                Some(Ok(Some(value))) => self.json.raw(&values::json(&column.ty, value), out),
                Some(_) => self.json.raw("null", out),
            }
        }
        self.json.end_array(out);
        self.json.objects_on_one_line(false);
        self.json.arrays_on_one_line(false);
    }

    fn marker(
        &mut self,
        prefix: &[u8],
        side: BoundSide,
        ends: Option<Deletion>,
        starts: Option<Deletion>,
        out: &mut Vec<u8>,
    ) {
        let is_boundary = ends.is_some() && starts.is_some();
        let kind = if is_boundary { "range_tombstone_boundary" } else { "range_tombstone_bound" };
        self.json.start_object(out);
        self.json.text_field("type", kind, out);
        if let Some(deletion) = starts {
            self.bound("start", side == BoundSide::Before, prefix, deletion, out);
        }
        if let Some(deletion) = ends {
            self.bound("end", side == BoundSide::After, prefix, deletion, out);
        }
        self.json.end_object(out);
        self.json.objects_on_one_line(false);
    }

    fn bound(&mut self, name: &str, inclusive: bool, prefix: &[u8], deletion: Deletion, out: &mut Vec<u8>) {
        self.json.name(name, out);
        self.json.start_object(out);
        self.json.text_field("type", if inclusive { "inclusive" } else { "exclusive" }, out);
        self.clustering(prefix, out);
        self.deletion(deletion, out);
        self.json.end_object(out);
    }

    fn column(
        &mut self,
        column: &Column,
        held: &ColumnView<'_>,
        (liveness, deletion): (Liveness, Deletion),
        out: &mut Vec<u8>,
    ) {
        match held {
            ColumnView::Simple(cell) if deletion.deletes(cell.timestamp) => {}
            ColumnView::Simple(cell) => self.cell(column, None, cell, liveness, out),
            ColumnView::Complex(complex) => {
                if !complex.deletion.is_live() {
                    self.json.objects_on_one_line(true);
                    self.json.start_object(out);
                    self.json.text_field("name", &column_name(column), out);
                    self.deletion(complex.deletion, out);
                    self.json.objects_on_one_line(true);
                    self.json.end_object(out);
                    self.json.objects_on_one_line(false);
                }
                for (path, cell) in seen_cells(complex, deletion) {
                    self.cell(column, Some(path), &cell, liveness, out);
                }
            }
        }
    }

    fn cell(
        &mut self,
        column: &Column,
        path: Option<&[u8]>,
        cell: &Cell<'_>,
        liveness: Liveness,
        out: &mut Vec<u8>,
    ) {
        self.json.start_object(out);
        self.json.objects_on_one_line(true);
        self.json.text_field("name", &column_name(column), out);
        if let Some(path) = path {
            self.json.name("path", out);
            self.json.arrays_on_one_line(true);
            self.json.start_array(out);
            self.json.text(&path_text(&column.ty, path), out);
            self.json.end_array(out);
            self.json.arrays_on_one_line(false);
        }
        match cell.value {
            Some(value) => {
                let text = match cell_type(&column.ty, path) {
                    Some(ty) => values::json(ty, value),
                    None => values::json(&CqlType::Blob, value),
                };
                self.json.name("value", out);
                self.json.raw(&text, out);
            }
            None => {
                let local = self.time(i64::from(cell.local_time), Unit::Seconds);
                self.json.name("deletion_info", out);
                self.json.objects_on_one_line(true);
                self.json.start_object(out);
                self.json.text_field("local_delete_time", &local, out);
                self.json.end_object(out);
                self.json.objects_on_one_line(false);
            }
        }
        if liveness.is_none() || cell.timestamp != liveness.timestamp {
            let written = self.time(cell.timestamp, Unit::Micros);
            self.json.text_field("tstamp", &written, out);
        }
        if cell.is_expiring() && (liveness.is_none() || cell.ttl != liveness.ttl) {
            let expires_at = i64::from(cell.local_time);
            self.expiry(cell.ttl, expires_at, expires_at <= self.now_s, out);
        }
        self.json.end_object(out);
        self.json.objects_on_one_line(false);
    }
}

/// The mark of a row, unless the row's own deletion covers it: Cassandra's reader does not see what it does, and the same
/// holds for cells.
pub(crate) fn seen_liveness(row: &RowView<'_>) -> Liveness {
    let liveness = row.liveness();
    if row.deletion().deletes(liveness.timestamp) { Liveness::NONE } else { liveness }
}

/// The cells of a collection that neither the row's deletion nor its own covers; one as old as its own is seen.
pub(crate) fn seen_cells<'r>(
    complex: &ComplexView<'r>,
    of_row: Deletion,
) -> impl Iterator<Item = (&'r [u8], Cell<'r>)> + use<'r> {
    let own = complex.deletion;
    let is_seen = move |cell: &Cell<'_>| {
        !of_row.deletes(cell.timestamp) && (own.is_live() || cell.timestamp >= own.timestamp)
    };
    complex.cells().filter(move |(_, cell)| is_seen(cell))
}

/// The field that a path of a user type's cell names.
fn field<'t>(ty: &'t CqlType, path: &[u8]) -> Option<&'t (std::sync::Arc<str>, CqlType)> {
    let CqlType::Udt(udt) = ty else { return None };
    let index = u16::from_be_bytes(path.try_into().ok()?);
    udt.fields.get(usize::from(index))
}

/// The path of a cell as text: a list's time UUID, a set's element, a map's key, the name of a user type's field.
pub(crate) fn path_text(ty: &CqlType, path: &[u8]) -> String {
    if let Some((name, _)) = field(ty, path) {
        return name.to_string();
    }
    let shown = ty.cell_path_type().and_then(|ty| values::plain(&ty, path));
    shown.unwrap_or_else(|| types::text::format_hex(path))
}

/// The type of a cell's value. A set's elements have no values: they count as empty.
pub(crate) fn cell_type<'t>(ty: &'t CqlType, path: Option<&[u8]>) -> Option<&'t CqlType> {
    let Some(path) = path else { return Some(ty) };
    match ty {
        CqlType::Set(_) => Some(&CqlType::Empty),
        CqlType::Udt(_) => field(ty, path).map(|(_, ty)| ty),
        _ => ty.element_type(),
    }
}
