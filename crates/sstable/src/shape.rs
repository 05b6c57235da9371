//! How the rows of one sstable are laid out: its columns in disk order and where they belong in the live table.
//!
//! Disk order is [`row_order`], simple columns before complex ones; it numbers the bits of a row's subset. Files of another order are
//! known by their header, see [`sort_as_listed`].

use base::HashMap;
use schema::{Column, ColumnKind, DroppedColumn, Order, Table, row_order};
use std::cmp::Ordering;
use std::path::Path;
use types::CqlType;

use crate::clustering::ClusteringShape;
use crate::deletion::Times;
use crate::error::Error;
use crate::statistics::{EncodingStats, Header};
use crate::version::Version;

/// One column of the sstable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnShape {
    /// Its ordinal in the live table; `None` when its cells are skipped.
    pub(crate) ordinal: Option<u16>,
    /// Whether its cells have paths.
    pub(crate) complex: bool,
    /// Bytes of a value, if fixed.
    pub(crate) fixed: Option<usize>,
    /// Cells and deletions at or below are skipped: an older column of that name was dropped then.
    pub(crate) dropped_at: i64,
}

/// Bytes of a packed row beside its columns: flags, a timestamp.
const PACKED_ROW_BYTES: usize = 16;
/// Bytes of a column of a packed row beside what the file has: ordinal, flags, length.
const PACKED_COLUMN_BYTES: usize = 7;

/// The static or the regular columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowShape {
    /// In disk order.
    pub(crate) columns: Vec<ColumnShape>,
    index_by_ordinal: Vec<Option<u16>>,
}

impl RowShape {
    fn new(columns: Vec<ColumnShape>) -> RowShape {
        let size =
            columns.iter().filter_map(|column| column.ordinal).max().map_or(0, |most| usize::from(most) + 1);
        let mut index_by_ordinal = vec![None; size];
        for (index, column) in columns.iter().enumerate() {
            if let Some(ordinal) = column.ordinal {
                index_by_ordinal[usize::from(ordinal)] = Some(index as u16);
            }
        }
        RowShape { columns, index_by_ordinal }
    }

    /// About how many bytes more a row has in its packed form.
    pub(crate) fn packed_more(&self) -> usize {
        PACKED_ROW_BYTES + PACKED_COLUMN_BYTES * self.columns.len()
    }

    /// The place in disk order of a column of the live table.
    pub(crate) fn index_of(&self, ordinal: u16) -> Option<u16> {
        self.index_by_ordinal.get(usize::from(ordinal)).copied().flatten()
    }
}

/// Everything needed to write or read the rows of one sstable.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// How times are written.
    pub(crate) times: Times,
    /// Clustering columns.
    pub(crate) clustering: ClusteringShape,
    /// Static columns.
    pub(crate) statics: RowShape,
    /// Regular columns.
    pub(crate) regulars: RowShape,
}

fn disk_order(columns: &[Column]) -> Vec<&Column> {
    let mut sorted: Vec<&Column> = columns.iter().collect();
    sorted.sort_by(|a, b| row_order((a.is_complex(), &a.name), (b.is_complex(), &b.name)));
    sorted
}

/// Puts the static or the regular columns of a header, which are in its order, into the order of cells; `key` says of each
/// whether it is complex, and its name.
///
/// Files of this database from before it knew [`row_order`] have cells by plain bytes of names, and list them so: it is
/// that order where the header has it and has not the other. A header in no order means what it means to Cassandra.
pub(crate) fn sort_as_listed<T>(columns: &mut [T], key: impl Fn(&T) -> (bool, &str)) {
    let plain = |left: (bool, &str), right: (bool, &str)| left.cmp(&right);
    let is_listed = |order: fn((bool, &str), (bool, &str)) -> Ordering| {
        let ascends = |complex: bool| {
            let names = columns.iter().map(&key).filter(|column| column.0 == complex);
            names.is_sorted_by(|left, right| order(*left, *right).is_le())
        };
        ascends(false) && ascends(true)
    };
    if !is_listed(row_order) && is_listed(plain) {
        columns.sort_by(|a, b| plain(key(a), key(b)));
    } else {
        columns.sort_by(|a, b| row_order(key(a), key(b)));
    }
}

fn shape_of(table: &Table, is_static: bool) -> RowShape {
    let columns = if is_static { &table.statics } else { &table.regulars };
    let shapes = disk_order(columns).into_iter().map(|column| ColumnShape {
        ordinal: Some(column.ordinal),
        complex: column.is_complex(),
        fixed: if column.is_complex() { None } else { column.ty.fixed_len() },
        dropped_at: table.hidden_to(is_static, column.ordinal),
    });
    RowShape::new(shapes.collect())
}

fn header_columns(columns: &[Column]) -> Vec<(String, String)> {
    disk_order(columns).into_iter().map(|column| (column.name.to_string(), column.ty.class_name())).collect()
}

fn key_class(table: &Table) -> String {
    let classes: Vec<String> = table.partition_key.iter().map(|column| column.ty.class_name()).collect();
    match &classes[..] {
        [only] => only.clone(),
        several => format!("org.apache.cassandra.db.marshal.CompositeType({})", several.join(",")),
    }
}

fn clustering_classes(table: &Table) -> Vec<String> {
    let class = |column: &Column| match column.order {
        Order::Ascending => column.ty.class_name(),
        Order::Descending => {
            format!("org.apache.cassandra.db.marshal.ReversedType({})", column.ty.class_name())
        }
    };
    table.clustering.iter().map(class).collect()
}

impl Shape {
    /// The shape of a new sstable.
    pub(crate) fn for_writing(table: &Table, times: Times) -> Shape {
        Shape {
            times,
            clustering: ClusteringShape::of(table),
            statics: shape_of(table, true),
            regulars: shape_of(table, false),
        }
    }

    /// The shape of an existing sstable, its columns found in the live table by name.
    /// Errors: `Unsupported` when the header belongs to another table.
    pub(crate) fn for_reading(
        file: &Path,
        version: Version,
        header: &Header,
        table: &Table,
    ) -> Result<Shape, Error> {
        let unsupported = |what: String| Error::Unsupported { file: file.to_path_buf(), what };
        if header.clustering_types.len() != table.clustering.len() {
            return Err(unsupported(format!(
                "{} clustering columns where table \"{}\" has {}",
                header.clustering_types.len(),
                table.qualified_name(),
                table.clustering.len()
            )));
        }
        let mut fixed = Vec::with_capacity(table.clustering.len());
        for (class, column) in header.clustering_types.iter().zip(&table.clustering) {
            let parsed = CqlType::parse_class_reversed(class);
            let (ty, reversed) =
                parsed.map_err(|error| unsupported(format!("clustering type \"{class}\": {error}")))?;
            if reversed != (column.order == Order::Descending) {
                return Err(unsupported(format!("another clustering order of column \"{}\"", column.name)));
            }
            fixed.push(ty.fixed_len());
        }
        let columns =
            |names: &[(String, String)], kind| match_columns(names, table, kind).map_err(unsupported);
        Ok(Shape {
            times: Times::new(version, header.base),
            clustering: ClusteringShape { fixed },
            statics: columns(&header.statics, ColumnKind::Static)?,
            regulars: columns(&header.regulars, ColumnKind::Regular)?,
        })
    }
}

/// The header of a new sstable.
pub(crate) fn header_for(table: &Table, base: EncodingStats) -> Header {
    Header {
        base,
        key_type: key_class(table),
        clustering_types: clustering_classes(table),
        statics: header_columns(&table.statics),
        regulars: header_columns(&table.regulars),
    }
}

/// Finds an sstable's columns in the live table or among its dropped ones. Errors: what does not fit, in words.
fn match_columns(names: &[(String, String)], table: &Table, kind: ColumnKind) -> Result<RowShape, String> {
    let live = if kind == ColumnKind::Static { &table.statics } else { &table.regulars };
    let live: HashMap<&str, &Column> = live.iter().map(|column| (&*column.name, column)).collect();
    let mut dropped: HashMap<&str, &DroppedColumn> = HashMap::default();
    for column in table.dropped.iter().filter(|column| column.kind == kind) {
        let latest = dropped.entry(&*column.name).or_insert(column);
        if column.dropped_at >= latest.dropped_at {
            *latest = column;
        }
    }
    let mut found: Vec<(bool, &str, ColumnShape)> = Vec::with_capacity(names.len());
    for (name, class) in names {
        let ty = CqlType::parse_class(class).map_err(|error| format!("column type \"{class}\": {error}"))?;
        let complex = ty.is_multi_cell();
        let dropped = dropped.get(name.as_str()).copied();
        let live = live.get(name.as_str()).filter(|column| column.is_complex() == complex);
        // One that is gone keeps its ordinal: should it come back, what is newer than the drop is seen again.
        let gone = dropped.filter(|column| column.ty.is_multi_cell() == complex);
        let ordinal = live.map(|column| column.ordinal).or(gone.map(|column| column.ordinal));
        if live.is_none() && dropped.is_none() {
            return Err(format!(
                "column \"{name}\" of type \"{class}\", which table \"{}\" has not",
                table.qualified_name()
            ));
        }
        let shape = ColumnShape {
            ordinal,
            complex,
            fixed: if complex { None } else { ty.fixed_len() },
            dropped_at: dropped.map_or(i64::MIN, |column| column.dropped_at),
        };
        found.push((complex, name, shape));
    }
    sort_as_listed(&mut found, |column| (column.0, column.1));
    if let Some(twice) = found.windows(2).find(|pair| pair[0].1 == pair[1].1) {
        return Err(format!("column \"{}\" twice", twice[0].1));
    }
    Ok(RowShape::new(found.into_iter().map(|(_, _, shape)| shape).collect()))
}
