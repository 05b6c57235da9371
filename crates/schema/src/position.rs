//! Positions: byte strings whose plain byte order is the clustering order of a partition.
//!
//! ```text
//! row        40 c0  40 c1 … 38        c = byte-comparable form of a component (all bytes inverted when descending)
//! bound      40 c0 … 20 | 60          20 sorts before everything that extends the prefix, 60 after
//! no prefix  20 = bottom, 60 = top    a table without clustering columns has the one row position 38
//! ```
//! The separators are Cassandra's, so the same bytes serve its trie indexes. Missing values: null 3E, empty value of a
//! type for which empty means "no value" 3F (41 when descending).

use crate::{Column, Error, Order};
use std::borrow::Borrow;
use types::order::{AFTER, BEFORE, END, encode_component};

/// A place in the clustering order of one table; compares as bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(Box<[u8]>);

impl Position {
    /// Before every row of any partition.
    pub fn bottom() -> Position {
        Position(Box::new([BEFORE]))
    }

    /// After every row of any partition.
    pub fn top() -> Position {
        Position(Box::new([AFTER]))
    }

    /// Takes bytes that another node or file says are a position. Any bytes are a valid place in the order.
    pub fn from_bytes(bytes: impl Into<Box<[u8]>>) -> Position {
        Position(bytes.into())
    }

    /// The comparable bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The smallest position greater than this one.
    pub fn successor(&self) -> Position {
        let mut bytes = Vec::with_capacity(self.0.len() + 1);
        bytes.extend_from_slice(&self.0);
        bytes.push(0);
        Position(bytes.into())
    }
}

impl Borrow<[u8]> for Position {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::Deref for Position {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Position {
    fn from(bytes: Vec<u8>) -> Position {
        Position(bytes.into())
    }
}

/// On which side of everything that extends its prefix a bound lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BoundSide {
    /// Before the rows with the prefix: an inclusive start or an exclusive end.
    Before,
    /// After the rows with the prefix: an exclusive start or an inclusive end.
    After,
}

/// Iterates the components of a clustering in wire form: `None` is null.
/// Errors: one `Err` and then nothing when the bytes do not divide into components.
pub fn clustering_components(wire: &[u8]) -> impl Iterator<Item = Result<Option<&[u8]>, Error>> {
    let mut rest = wire;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((len, tail)) = rest.split_first_chunk::<4>() else {
            rest = &[];
            return Some(Err(Error::Clustering {
                reason: "cut inside a length",
            }));
        };
        let len = i32::from_be_bytes(*len);
        if len < 0 {
            rest = tail;
            return Some(Ok(None));
        }
        let Some((value, tail)) = tail.split_at_checked(len as usize) else {
            rest = &[];
            return Some(Err(Error::Clustering {
                reason: "cut inside a value",
            }));
        };
        rest = tail;
        Some(Ok(Some(value)))
    })
}

/// Appends one component in wire form: `i32` length (-1 for null) and the bytes.
pub fn push_component(wire: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => {
            wire.extend_from_slice(&(value.len() as i32).to_be_bytes());
            wire.extend_from_slice(value);
        }
        None => wire.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

fn push_prefix(columns: &[Column], wire: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
    let mut count = 0;
    for component in clustering_components(wire) {
        let Some(column) = columns.get(count) else {
            return Err(Error::Clustering {
                reason: "more components than clustering columns",
            });
        };
        encode_component(
            &column.ty,
            component?,
            column.order == Order::Descending,
            out,
        );
        count += 1;
    }
    Ok(count)
}

pub(crate) fn row_position(
    columns: &[Column],
    wire: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let count = push_prefix(columns, wire, out)?;
    if count != columns.len() {
        return Err(Error::Clustering {
            reason: "fewer components than clustering columns",
        });
    }
    out.push(END);
    Ok(())
}

pub(crate) fn bound_position(
    columns: &[Column],
    wire: &[u8],
    side: BoundSide,
) -> Result<Position, Error> {
    let mut out = Vec::with_capacity(wire.len() + 8);
    push_prefix(columns, wire, &mut out)?;
    out.push(match side {
        BoundSide::Before => BEFORE,
        BoundSide::After => AFTER,
    });
    Ok(out.into())
}
