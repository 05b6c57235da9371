//! Clustering values and bounds as the data and index files write them.
//!
//! ```text
//! values block   per 32 values: uvint header (bit 2i = empty, bit 2i+1 = null), then the values that are neither:
//!                raw for types of fixed length, else uvint length + bytes
//! prefix         u8 kind; kind 4 (row): values block; other kinds: u16 count, values block
//! ```

use mutation::Bound;
use schema::{BoundSide, Position, Table, clustering_components, push_component};
use types::CqlType;

use crate::cursor::{Cursor, Decoded, put_vbytes};
use crate::limits::CLUSTERING_BATCH;

/// What a prefix stands for; the numbers are on disk and must never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    ExclusiveEnd = 0,
    InclusiveStart = 1,
    ExclusiveEndInclusiveStart = 2,
    #[default]
    Row = 4,
    InclusiveEndExclusiveStart = 5,
    InclusiveEnd = 6,
    ExclusiveStart = 7,
}

impl Kind {
    /// The kind with a number on disk.
    pub(crate) fn of(number: u8) -> Option<Kind> {
        Some(match number {
            0 => Kind::ExclusiveEnd,
            1 => Kind::InclusiveStart,
            2 => Kind::ExclusiveEndInclusiveStart,
            4 => Kind::Row,
            5 => Kind::InclusiveEndExclusiveStart,
            6 => Kind::InclusiveEnd,
            7 => Kind::ExclusiveStart,
            _ => return None,
        })
    }

    /// The kind of a range's first bound.
    pub(crate) fn start(side: BoundSide) -> Kind {
        match side {
            BoundSide::Before => Kind::InclusiveStart,
            BoundSide::After => Kind::ExclusiveStart,
        }
    }

    /// The kind of a range's last bound.
    pub(crate) fn end(side: BoundSide) -> Kind {
        match side {
            BoundSide::Before => Kind::ExclusiveEnd,
            BoundSide::After => Kind::InclusiveEnd,
        }
    }

    /// The kind of a bound where one range ends and another starts.
    pub(crate) fn boundary(side: BoundSide) -> Kind {
        match side {
            BoundSide::Before => Kind::ExclusiveEndInclusiveStart,
            BoundSide::After => Kind::InclusiveEndExclusiveStart,
        }
    }

    /// On which side of its prefix it lies; a row counts as lying before what follows it.
    pub(crate) fn side(self) -> BoundSide {
        match self {
            Kind::ExclusiveEnd | Kind::InclusiveStart | Kind::ExclusiveEndInclusiveStart => BoundSide::Before,
            Kind::Row | Kind::InclusiveEndExclusiveStart | Kind::InclusiveEnd | Kind::ExclusiveStart => {
                BoundSide::After
            }
        }
    }
}

/// A row's clustering key or a bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// What it stands for.
    pub(crate) kind: Kind,
    /// Values in wire form.
    pub(crate) wire: Vec<u8>,
}

impl Prefix {
    /// Where it sorts. Errors when the values do not fit the table.
    pub(crate) fn position(&self, table: &Table) -> Result<Position, schema::Error> {
        match self.kind {
            Kind::Row => table.position(&self.wire),
            bound => table.bound_position(&self.wire, bound.side()),
        }
    }

    /// The bound directly before it: a range that is open there is open from it on.
    pub(crate) fn before(&self) -> Bound {
        let side = if self.kind == Kind::Row { BoundSide::Before } else { self.kind.side() };
        Bound::new(&self.wire, side)
    }

    /// The bound directly behind it: where a range that is open there can be cut.
    pub(crate) fn behind(&self) -> Bound {
        Bound::new(&self.wire, self.kind.side())
    }
}

/// Room for the values of most bounds.
const WIRE_BYTES: usize = 24;

/// Which clustering columns have values of fixed length.
#[derive(Clone, Debug)]
pub(crate) struct ClusteringShape {
    /// Bytes of each column's values, where they are fixed.
    pub(crate) fixed: Vec<Option<usize>>,
}

impl ClusteringShape {
    /// The shape of a table's clustering.
    pub(crate) fn of(table: &Table) -> ClusteringShape {
        ClusteringShape { fixed: table.clustering.iter().map(|column| column.ty.fixed_len()).collect() }
    }

    /// The shape that clustering types in class names make. Errors: a class that is not known.
    pub(crate) fn of_classes(classes: &[String]) -> Result<ClusteringShape, String> {
        let fixed = |class: &String| match CqlType::parse_class_reversed(class) {
            Ok((ty, _)) => Ok(ty.fixed_len()),
            Err(error) => Err(format!("clustering type \"{class}\": {error}")),
        };
        Ok(ClusteringShape { fixed: classes.iter().map(fixed).collect::<Result<_, _>>()? })
    }

    /// Appends the values block of a prefix in wire form and returns how many values it has.
    /// Errors: what does not fit, in words.
    pub(crate) fn put_values(&self, wire: &[u8], out: &mut Vec<u8>) -> Result<usize, String> {
        let mut values = clustering_components(wire).enumerate().peekable();
        let mut count = 0;
        let mut batch: Vec<(Option<usize>, Option<&[u8]>)> =
            Vec::with_capacity(self.fixed.len().min(CLUSTERING_BATCH));
        while values.peek().is_some() {
            batch.clear();
            let mut header = 0u64;
            for (index, value) in values.by_ref().take(CLUSTERING_BATCH) {
                let value = value.map_err(|error| error.to_string())?;
                let fixed = self.fixed.get(index).ok_or("more values than clustering columns")?;
                match value {
                    None => header |= 2 << (2 * batch.len()),
                    Some([]) => header |= 1 << (2 * batch.len()),
                    Some(bytes) if fixed.is_some_and(|size| size != bytes.len()) => {
                        return Err(format!(
                            "a value of {} bytes for clustering column {index}",
                            bytes.len()
                        ));
                    }
                    Some(_) => {}
                }
                batch.push((*fixed, value));
                count = index + 1;
            }
            base::put_uvint(out, header);
            for (fixed, value) in &batch {
                match (fixed, value) {
                    (_, None | Some([])) => {}
                    (Some(_), Some(bytes)) => out.extend_from_slice(bytes),
                    (None, Some(bytes)) => put_vbytes(out, bytes),
                }
            }
        }
        Ok(count)
    }

    /// Reads `count` values and appends their wire form.
    pub(crate) fn take_values(
        &self,
        cursor: &mut Cursor<'_>,
        count: usize,
        wire: &mut Vec<u8>,
    ) -> Decoded<()> {
        let at = cursor.at();
        let Some(columns) = self.fixed.get(..count) else {
            return Err(cursor.bad_at(
                at,
                format!("at most {} clustering values", self.fixed.len()),
                count.to_string(),
            ));
        };
        for batch in columns.chunks(CLUSTERING_BATCH) {
            let header = cursor.uvint()?;
            for (index, fixed) in batch.iter().enumerate() {
                match header >> (2 * index) & 3 {
                    0 => {
                        let value = match fixed {
                            Some(size) => cursor.bytes(*size)?,
                            None => cursor.vbytes()?,
                        };
                        push_component(wire, Some(value));
                    }
                    1 => push_component(wire, Some(&[])),
                    _ => push_component(wire, None),
                }
            }
        }
        Ok(())
    }

    /// Appends a prefix as the index writes it.
    pub(crate) fn put_prefix(&self, kind: Kind, wire: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.push(kind as u8);
        if kind == Kind::Row {
            return self.put_values(wire, out).map(|_| ());
        }
        let at = out.len();
        out.extend_from_slice(&[0; 2]);
        let count = self.put_values(wire, out)?;
        out[at..at + 2].copy_from_slice(&(count as u16).to_be_bytes());
        Ok(())
    }

    /// Reads a kind that is a bound, not a row, and its values.
    pub(crate) fn take_bound(&self, cursor: &mut Cursor<'_>) -> Decoded<Prefix> {
        let at = cursor.at();
        let number = cursor.u8()?;
        match Kind::of(number) {
            Some(kind) if kind != Kind::Row => self.take_bound_values(cursor, kind),
            _ => Err(cursor.bad_at(at, "the kind of a bound", number.to_string())),
        }
    }

    fn take_bound_values(&self, cursor: &mut Cursor<'_>, kind: Kind) -> Decoded<Prefix> {
        let count = cursor.u16()?;
        let mut wire = Vec::with_capacity(WIRE_BYTES);
        self.take_values(cursor, usize::from(count), &mut wire)?;
        Ok(Prefix { kind, wire })
    }

    /// Reads a prefix as the index writes it.
    pub(crate) fn take_prefix(&self, cursor: &mut Cursor<'_>) -> Decoded<Prefix> {
        let at = cursor.at();
        let number = cursor.u8()?;
        match Kind::of(number) {
            Some(Kind::Row) => {
                let mut wire = Vec::new();
                self.take_values(cursor, self.fixed.len(), &mut wire)?;
                Ok(Prefix { kind: Kind::Row, wire })
            }
            Some(kind) => self.take_bound_values(cursor, kind),
            None => Err(cursor.bad_at(at, "the kind of a prefix", number.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_back_in_batches() {
        let fixed: Vec<Option<usize>> = (0..70).map(|index| (index % 3 == 0).then_some(4)).collect();
        let shape = ClusteringShape { fixed };
        for count in [0, 1, 31, 32, 33, 64, 70] {
            let mut wire = Vec::new();
            for index in 0..count {
                match index % 5 {
                    4 => push_component(&mut wire, None),
                    3 => push_component(&mut wire, Some(&[])),
                    _ => push_component(&mut wire, Some(&[index as u8; 4])),
                }
            }
            let mut bytes = Vec::new();
            shape.put_prefix(Kind::InclusiveEnd, &wire, &mut bytes).unwrap();
            let prefix = shape.take_prefix(&mut Cursor::new(&bytes)).unwrap();
            assert_eq!(prefix, Prefix { kind: Kind::InclusiveEnd, wire });
            for size in 0..bytes.len() {
                assert!(shape.take_prefix(&mut Cursor::new(&bytes[..size])).is_err());
            }
        }
        let mut wire = Vec::new();
        push_component(&mut wire, Some(&[1, 2]));
        assert!(shape.put_values(&wire, &mut Vec::new()).is_err(), "two bytes where four are fixed");
    }
}
