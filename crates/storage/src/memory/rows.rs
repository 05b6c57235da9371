//! How one row lies in a region.
//!
//! ```text
//! length, position   length, clustering   u32 bytes of body   u16 spare   packed row   spare bytes
//! length: one byte; 255 means that a u32 follows
//! ```
//! A row that is overwritten by one as long as it, or one that fits the spare bytes too, stays where it is. One that grows
//! moves and is given spare bytes, for it may grow again. With `u32::MAX` bytes the body is the place (u32) of a large row.
//! Numbers are little endian: none of this ever leaves memory.

use super::PagedVec;
use crate::limits::{GROWN_ROW_BYTES, LARGE_ROW_BYTES};
use runtime::pages::PushSlice;

/// Said instead of a length by rows that lie in fragments.
const LARGE: u32 = u32::MAX;
/// Bytes of a body's length and spare.
const BODY_HEAD: usize = 6;
/// Lengths from here on take five bytes.
const LONG: usize = 255;
/// Rows that moved and are shorter get an eighth of their size as spare bytes, longer ones a half.
const SHORT_BYTES: usize = 512;

/// A row, read where it lies.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    /// Where it sorts.
    pub(crate) position: &'a [u8],
    /// Clustering key in wire form.
    pub(crate) clustering: &'a [u8],
    /// The packed row.
    pub(crate) body: Stored<'a>,
    /// Where the length of the body stands.
    body_at: usize,
    /// Bytes there are for the body.
    room: usize,
}

/// A packed row, or where it is.
#[derive(Clone, Copy)]
pub(crate) enum Stored<'a> {
    Whole(&'a [u8]),
    /// The place of a large row.
    Large(u32),
}

/// A row to be written.
pub(crate) struct NewRecord<'a> {
    pub(crate) position: &'a [u8],
    pub(crate) clustering: &'a [u8],
    pub(crate) body: Stored<'a>,
    /// Bytes behind the body that it may grow into.
    pub(crate) spare: u16,
}

/// How a row came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Written where none was.
    New,
    /// Written over one that says nothing beside it.
    Replacing,
    /// What came of merging two.
    Merged,
}

/// Spare bytes of a row.
pub(crate) fn spare_of(body: Stored<'_>, origin: Origin) -> u16 {
    match body {
        Stored::Whole(_) if origin == Origin::New => 0,
        Stored::Whole(body) if body.len() < SHORT_BYTES => (body.len() / 8) as u16,
        Stored::Whole(body) => (body.len() / 2) as u16,
        Stored::Large(_) => 0,
    }
}

/// Whether a row is to lie in fragments.
pub(crate) fn is_large(bytes: usize, origin: Origin) -> bool {
    bytes > if origin == Origin::Merged { GROWN_ROW_BYTES } else { LARGE_ROW_BYTES }
}

const _: () = assert!(LARGE_ROW_BYTES / 2 <= u16::MAX as usize, "spare bytes have a u16");

/// Bytes that a length takes.
pub(crate) fn length_bytes(len: usize) -> usize {
    if len < LONG { 1 } else { 5 }
}

pub(crate) fn put_length(out: &mut PagedVec<u8>, len: usize) {
    if len < LONG {
        return out.push(len as u8);
    }
    out.push(LONG as u8);
    out.push_slice(&(len as u32).to_le_bytes());
}

/// A length, and where what follows it begins.
#[inline]
pub(crate) fn length_at(bytes: &[u8], at: usize) -> (usize, usize) {
    match bytes[at] {
        255 => (u32_at(bytes, at + 1) as usize, at + 5),
        short => (usize::from(short), at + 1),
    }
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

/// The position of the row that begins here.
#[inline]
pub(crate) fn position(bytes: &[u8]) -> &[u8] {
    let (len, at) = length_at(bytes, 0);
    &bytes[at..at + len]
}

impl<'a> Record<'a> {
    /// The row that begins here.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Record<'a> {
        let (len, at) = length_at(bytes, 0);
        let position = &bytes[at..at + len];
        let (len, at) = length_at(bytes, at + len);
        let clustering = &bytes[at..at + len];
        let body_at = at + len;
        let len = u32_at(bytes, body_at);
        let spare = usize::from(u16::from_le_bytes([bytes[body_at + 4], bytes[body_at + 5]]));
        let at = body_at + BODY_HEAD;
        let (body, room) = if len == LARGE {
            (Stored::Large(u32_at(bytes, at)), 4)
        } else {
            let len = len as usize;
            (Stored::Whole(&bytes[at..at + len]), len + spare)
        };
        Record { position, clustering, body, body_at, room }
    }

    /// Bytes it takes, the spare ones included.
    pub(crate) fn size(&self) -> usize {
        self.body_at + BODY_HEAD + self.room
    }

    /// Where a body of this size may be written over the old one.
    pub(crate) fn place_for(&self, bytes: usize) -> Option<Place> {
        (matches!(self.body, Stored::Whole(_)) && bytes <= self.room)
            .then_some(Place { at: self.body_at, room: self.room })
    }
}

/// Where a body lies in the bytes of its row.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    at: usize,
    room: usize,
}

impl Place {
    /// Writes a body over the old one. Returns the bytes that are lost.
    pub(crate) fn overwrite(self, bytes: &mut [u8], body: &[u8]) -> usize {
        let spare = self.room - body.len();
        let kept = spare.min(usize::from(u16::MAX));
        let at = self.at;
        bytes[at..at + 4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        bytes[at + 4..at + 6].copy_from_slice(&(kept as u16).to_le_bytes());
        bytes[at + BODY_HEAD..at + BODY_HEAD + body.len()].copy_from_slice(body);
        spare - kept
    }
}

impl NewRecord<'_> {
    /// Bytes it will take.
    pub(crate) fn size(&self) -> usize {
        let body = match self.body {
            Stored::Whole(body) => body.len() + usize::from(self.spare),
            Stored::Large(_) => 4,
        };
        let (position, clustering) = (self.position.len(), self.clustering.len());
        length_bytes(position) + position + length_bytes(clustering) + clustering + BODY_HEAD + body
    }

    /// Appends it.
    pub(crate) fn write(&self, out: &mut PagedVec<u8>) {
        put_length(out, self.position.len());
        out.push_slice(self.position);
        put_length(out, self.clustering.len());
        out.push_slice(self.clustering);
        match self.body {
            Stored::Whole(body) => {
                out.push_slice(&(body.len() as u32).to_le_bytes());
                out.push_slice(&self.spare.to_le_bytes());
                out.push_slice(body);
                out.resize(out.len() + usize::from(self.spare), 0);
            }
            Stored::Large(place) => {
                out.push_slice(&LARGE.to_le_bytes());
                out.push_slice(&[0; 2]);
                out.push_slice(&place.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written_and_overwritten_where_it_fits() {
        for (position, clustering, spare) in [(3, 0, 0), (254, 255, 7), (300, 70_000, 9)] {
            let (position, clustering) = (vec![1; position], vec![2; clustering]);
            let new = NewRecord {
                position: &position,
                clustering: &clustering,
                body: Stored::Whole(b"hello"),
                spare,
            };
            let mut bytes = crate::memory::paged(0);
            new.write(&mut bytes);
            assert_eq!(bytes.len(), new.size());
            bytes.push_slice(b"behind");
            let record = Record::read(&bytes);
            assert_eq!((record.position, record.clustering), (&position[..], &clustering[..]));
            assert_eq!(record.size(), new.size());
            assert!(record.place_for(6 + usize::from(spare)).is_none());
            let place = record.place_for(2).expect("it fits");
            assert_eq!(place.overwrite(&mut bytes, b"no"), 0);
            let record = Record::read(&bytes);
            assert!(matches!(record.body, Stored::Whole(b"no")));
            assert_eq!(record.size(), new.size(), "what it gave up it may use again");
            assert_eq!(&bytes[new.size()..], b"behind");
        }
    }
}
