//! The pieces of a partition in the data file: its header, rows and range tombstone markers.

use mutation::Deletion;

use crate::clustering::Kind;
use crate::clustering::Prefix;
use crate::cursor::{Cursor, Decoded};
use crate::deletion::Times;
use crate::limits::ROW_BYTES_MAX;
use crate::row::flags;
use crate::shape::Shape;

/// Everything about a row or marker but the row's body, which follows.
#[derive(Debug)]
pub(crate) enum Head {
    /// The partition ends.
    End,
    /// A row: where, its flags, and the bytes of its body.
    Row { at: Prefix, flags: u8, body: u64 },
    /// A marker: where, the deletion that ends there and the one that starts.
    Marker { at: Prefix, ends: Option<Deletion>, starts: Option<Deletion> },
}

impl Head {
    /// Where it stands; `None` at the partition's end.
    pub(crate) fn at(&self) -> Option<&Prefix> {
        match self {
            Head::Row { at, .. } | Head::Marker { at, .. } => Some(at),
            Head::End => None,
        }
    }
}

/// Reads the head of what comes next and its size.
pub(crate) fn take_head(shape: &Shape, bytes: &[u8], wire: &mut Vec<u8>) -> Decoded<(Head, u64)> {
    let mut cursor = Cursor::new(bytes);
    let flags = cursor.u8()?;
    if flags & flags::END_OF_PARTITION != 0 {
        return Ok((Head::End, 1));
    }
    let head = if flags & flags::IS_MARKER != 0 {
        take_marker(shape, &mut cursor)?
    } else {
        if flags & flags::EXTENSION != 0 {
            let extension = cursor.u8()?;
            // 02: the deletion is of an obsolete kind that is read like any other.
            if extension & !2 != 0 {
                return Err(cursor.bad_at(1, "the flags of a row", format!("{extension:#04x}")));
            }
        }
        wire.clear();
        shape.clustering.take_values(&mut cursor, shape.clustering.fixed.len(), wire)?;
        let body = take_sizes(&mut cursor)?;
        Head::Row { at: Prefix { kind: Kind::Row, wire: std::mem::take(wire) }, flags, body }
    };
    Ok((head, cursor.at()))
}

/// Reads the size of a body and skips the size of what came before; returns what is left of the body.
fn take_sizes(cursor: &mut Cursor<'_>) -> Decoded<u64> {
    let at = cursor.at();
    let size = cursor.uvint()?;
    let before = cursor.at();
    cursor.uvint()?;
    let taken = cursor.at() - before;
    match size.checked_sub(taken) {
        Some(body) if size <= ROW_BYTES_MAX => Ok(body),
        _ => Err(cursor.bad_at(at, format!("a size from {taken} to {ROW_BYTES_MAX}"), size.to_string())),
    }
}

fn take_marker(shape: &Shape, cursor: &mut Cursor<'_>) -> Decoded<Head> {
    let at = shape.clustering.take_bound(cursor)?;
    let body = take_sizes(cursor)?;
    let start = cursor.at();
    let first = shape.times.take_delta(cursor)?;
    let (ends, starts) = match at.kind {
        Kind::ExclusiveEnd | Kind::InclusiveEnd => (Some(first), None),
        Kind::InclusiveStart | Kind::ExclusiveStart | Kind::Row => (None, Some(first)),
        Kind::ExclusiveEndInclusiveStart | Kind::InclusiveEndExclusiveStart => {
            (Some(first), Some(shape.times.take_delta(cursor)?))
        }
    };
    if cursor.at() - start != body {
        return Err(cursor.bad_at(
            start,
            format!("a marker of {body} bytes"),
            (cursor.at() - start).to_string(),
        ));
    }
    Ok(Head::Marker { at, ends, starts })
}

/// Reads a partition's key into `key`, which is emptied first, then its deletion; returns that and the size of both.
pub(crate) fn take_partition(times: Times, bytes: &[u8], key: &mut Vec<u8>) -> Decoded<(Deletion, u64)> {
    let mut cursor = Cursor::new(bytes);
    let found = cursor.short_bytes()?;
    let deletion = times.take_full(&mut cursor)?;
    key.clear();
    key.extend_from_slice(found);
    Ok((deletion, cursor.at()))
}

/// A row as it lies in the file: flags and clustering values, sizes, body.
pub(crate) struct RowPlace {
    /// What the flags say.
    pub(crate) flags: u8,
    /// Bytes of flags and clustering values.
    pub(crate) head: usize,
    /// Where the body begins, and where it ends.
    pub(crate) body: usize,
    pub(crate) end: usize,
}

/// What comes next in a partition, for who wants rows as they are.
pub(crate) enum Next {
    /// The partition ends.
    End,
    /// A row without flags of its own kind.
    Row(RowPlace),
    /// Something else.
    Other,
}

/// Reads where the parts of the next row are, all of which must be there, and its clustering values into `wire`.
pub(crate) fn take_row(shape: &Shape, bytes: &[u8], wire: &mut Vec<u8>) -> Decoded<Next> {
    let mut cursor = Cursor::new(bytes);
    let flags = cursor.u8()?;
    if flags & flags::END_OF_PARTITION != 0 {
        return Ok(Next::End);
    }
    if flags & (flags::IS_MARKER | flags::EXTENSION) != 0 {
        return Ok(Next::Other);
    }
    wire.clear();
    shape.clustering.take_values(&mut cursor, shape.clustering.fixed.len(), wire)?;
    let head = cursor.at() as usize;
    let size = take_sizes(&mut cursor)?;
    let body = cursor.at() as usize;
    cursor.sized(size)?;
    Ok(Next::Row(RowPlace { flags, head, body, end: cursor.at() as usize }))
}

/// Reads the head of a static row: its flags, the bytes of its body, and the size of the head.
pub(crate) fn take_static(bytes: &[u8]) -> Decoded<(u8, u64, u64)> {
    let mut cursor = Cursor::new(bytes);
    let flags = cursor.u8()?;
    let marks = flags::EXTENSION | flags::END_OF_PARTITION | flags::IS_MARKER;
    let extension = cursor.u8()?;
    if flags & marks != flags::EXTENSION || extension != flags::IS_STATIC {
        return Err(cursor.bad_at(0, "a static row", format!("flags {flags:#04x} {extension:#04x}")));
    }
    let body = take_sizes(&mut cursor)?;
    Ok((flags, body, cursor.at()))
}
