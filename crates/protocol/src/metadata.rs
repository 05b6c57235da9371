//! Columns of results and markers of prepared statements.

use crate::envelope::Version;
use crate::error::Error;
use crate::type_option::{put_type, read_type};
use crate::wire::{Reader, put_bytes, put_int, put_short, put_short_bytes, put_string};
use std::sync::Arc;
use types::CqlType;

const GLOBAL_TABLE: i32 = 0x01;
const HAS_MORE_PAGES: i32 = 0x02;
const NO_METADATA: i32 = 0x04;
const METADATA_CHANGED: i32 = 0x08;

/// A column of a result or a marker of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The table's keyspace.
    pub keyspace: Arc<str>,
    /// The table.
    pub table: Arc<str>,
    /// The column's or the marker's name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: CqlType,
}

/// What comes before the rows besides the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsHeader<'a> {
    /// There are more pages, to be asked for with this.
    pub paging_state: Option<&'a [u8]>,
    /// Leave the column specs out: the client has them.
    pub skip_metadata: bool,
    /// The client's column specs are old: these have this id (v5). Overrides `skip_metadata`.
    pub new_metadata_id: Option<&'a [u8]>,
}

fn all_of_one_table(columns: &[ColumnSpec]) -> bool {
    match columns.split_first() {
        Some((first, rest)) => rest.iter().all(|c| c.keyspace == first.keyspace && c.table == first.table),
        None => false,
    }
}

fn put_columns(out: &mut Vec<u8>, version: Version, columns: &[ColumnSpec], global: bool) {
    if let (true, Some(first)) = (global, columns.first()) {
        put_string(out, &first.keyspace);
        put_string(out, &first.table);
    }
    for column in columns {
        if !global {
            put_string(out, &column.keyspace);
            put_string(out, &column.table);
        }
        put_string(out, &column.name);
        put_type(out, version, &column.ty);
    }
}

/// Appends rows metadata.
pub fn put_rows_metadata(
    out: &mut Vec<u8>,
    version: Version,
    columns: &[ColumnSpec],
    header: RowsHeader<'_>,
) {
    let new_id = header.new_metadata_id.filter(|_| Version::V5 <= version);
    let skip = header.skip_metadata && new_id.is_none();
    let global = !skip && all_of_one_table(columns);
    let mut flags = 0;
    let mut set = |on: bool, flag: i32| flags |= if on { flag } else { 0 };
    set(global, GLOBAL_TABLE);
    set(header.paging_state.is_some(), HAS_MORE_PAGES);
    set(skip, NO_METADATA);
    set(new_id.is_some(), METADATA_CHANGED);
    put_int(out, flags);
    put_int(out, columns.len() as i32);
    if let Some(state) = header.paging_state {
        put_bytes(out, Some(state));
    }
    if let Some(id) = new_id {
        put_short_bytes(out, id);
    }
    if !skip {
        put_columns(out, version, columns, global);
    }
}

/// The body of a Prepared result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The statement's id.
    pub id: Vec<u8>,
    /// The id of its result columns (v5).
    pub result_metadata_id: Vec<u8>,
    /// Its markers.
    pub markers: Vec<ColumnSpec>,
    /// Which markers are the partition key, in key order; empty when not all of it is bound.
    pub pk_indexes: Vec<u16>,
    /// Its result columns; `None` when it gives no rows.
    pub columns: Option<Vec<ColumnSpec>>,
}

impl Prepared {
    /// Appends the body after the result kind.
    pub fn encode(&self, out: &mut Vec<u8>, version: Version) {
        put_short_bytes(out, &self.id);
        if Version::V5 <= version {
            put_short_bytes(out, &self.result_metadata_id);
        }
        let global = all_of_one_table(&self.markers);
        put_int(out, if global { GLOBAL_TABLE } else { 0 });
        put_int(out, self.markers.len() as i32);
        if Version::V4 <= version {
            let indexes: &[u16] = if global { &self.pk_indexes } else { &[] };
            put_int(out, indexes.len() as i32);
            for index in indexes {
                put_short(out, *index);
            }
        }
        put_columns(out, version, &self.markers, global);
        match &self.columns {
            Some(columns) => put_rows_metadata(out, version, columns, RowsHeader::default()),
            None => {
                put_int(out, NO_METADATA);
                put_int(out, 0);
            }
        }
    }

    /// Reads what [`encode`](Prepared::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Prepared, Error> {
        let id = reader.short_bytes()?.to_vec();
        let result_metadata_id = match version {
            Version::V3 | Version::V4 => Vec::new(),
            Version::V5 => reader.short_bytes()?.to_vec(),
        };
        let flags = reader.int()?;
        let count = column_count(reader)?;
        let mut pk_indexes = Vec::new();
        if Version::V4 <= version {
            for _ in 0..reader.int()?.max(0) {
                pk_indexes.push(reader.short()?);
            }
        }
        let markers = read_columns(reader, count, flags & GLOBAL_TABLE != 0)?;
        let result = Metadata::decode(reader)?;
        Ok(Prepared { id, result_metadata_id, markers, pk_indexes, columns: result.columns })
    }
}

/// Rows metadata as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// How many columns each row has.
    pub column_count: usize,
    /// The column specs, when they were sent.
    pub columns: Option<Vec<ColumnSpec>>,
    /// There are more pages, to be asked for with this.
    pub paging_state: Option<&'a [u8]>,
    /// The new id of the columns, when the client's were old.
    pub new_metadata_id: Option<&'a [u8]>,
}

fn column_count(reader: &mut Reader<'_>) -> Result<usize, Error> {
    usize::try_from(reader.int()?).map_err(|_| Error::message("negative column count"))
}

fn read_columns(reader: &mut Reader<'_>, count: usize, global: bool) -> Result<Vec<ColumnSpec>, Error> {
    let mut table: Option<(Arc<str>, Arc<str>)> = None;
    if global {
        table = Some((reader.string()?.into(), reader.string()?.into()));
    }
    // Each column takes bytes, so a false count ends with the body.
    let mut columns = Vec::new();
    for _ in 0..count {
        let (keyspace, table) = match &table {
            Some((keyspace, table)) => (keyspace.clone(), table.clone()),
            None => (reader.string()?.into(), reader.string()?.into()),
        };
        columns.push(ColumnSpec { keyspace, table, name: reader.string()?.into(), ty: read_type(reader)? });
    }
    Ok(columns)
}

impl<'a> Metadata<'a> {
    /// Reads rows metadata.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Metadata<'a>, Error> {
        let flags = reader.int()?;
        let column_count = column_count(reader)?;
        let paging_state = if flags & HAS_MORE_PAGES != 0 { reader.bytes()? } else { None };
        let new_metadata_id = if flags & METADATA_CHANGED != 0 { Some(reader.short_bytes()?) } else { None };
        let columns = if flags & NO_METADATA != 0 {
            None
        } else {
            Some(read_columns(reader, column_count, flags & GLOBAL_TABLE != 0)?)
        };
        Ok(Metadata { column_count, columns, paging_state, new_metadata_id })
    }
}
