//! Checksums of the components that Cassandra leaves without any: our own component, `Checksums.db`.
//!
//! ```text
//! u32 magic "MsC2", u32 page size (4096),
//! u8 components, (u8 name length, suffix, u32 pages, u32 crc32 of each page)*,       Index, Partitions, Rows
//! u8 components, (u8 name length, suffix, u32 crc32 of the whole file)*, u32 crc32 of all before
//! ```
//! Version 1 ("MsC1") has pages of `Index.db` alone, without their name: `u32 pages, u32 crc32*`.
//! Cassandra does not list it and leaves it alone; a copy of an sstable without it is read unchecked.

use std::path::Path;

use crate::component::Component;
use crate::cursor::{Cursor, Decoded};
use crate::error::Error;

const MAGIC_1: u32 = 0x4d73_4331;
const MAGIC_2: u32 = 0x4d73_4332;
/// Bytes of a page of an index.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Gathers the page checksums of a file that is written from front to back.
#[derive(Debug, Default)]
pub(crate) struct PageChecksums {
    pages: Vec<u32>,
    open: base::Crc32,
    open_bytes: u64,
}

impl PageChecksums {
    /// Sees the next bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min((PAGE_BYTES - self.open_bytes) as usize));
            self.open.update(head);
            self.open_bytes += head.len() as u64;
            if self.open_bytes == PAGE_BYTES {
                self.end_page();
            }
            bytes = tail;
        }
    }

    fn end_page(&mut self) {
        self.pages.push(std::mem::take(&mut self.open).finalize());
        self.open_bytes = 0;
    }

    /// The checksums of all pages; the last may be short.
    pub(crate) fn finish(mut self) -> Vec<u32> {
        if self.open_bytes > 0 {
            self.end_page();
        }
        self.pages
    }
}

/// The component's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checksums {
    /// Of the pages of components.
    pub(crate) pages: Vec<(Component, Vec<u32>)>,
    /// Of whole components.
    pub(crate) wholes: Vec<(Component, u32)>,
}

impl Checksums {
    /// The component's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let pages: usize = self.pages.iter().map(|(_, crcs)| crcs.len()).sum();
        let mut out = Vec::with_capacity(128 + pages * 4);
        out.extend_from_slice(&MAGIC_2.to_be_bytes());
        out.extend_from_slice(&(PAGE_BYTES as u32).to_be_bytes());
        out.push(self.pages.len() as u8);
        for (component, crcs) in &self.pages {
            put_name(&mut out, *component);
            out.extend_from_slice(&(crcs.len() as u32).to_be_bytes());
            crcs.iter().for_each(|crc| out.extend_from_slice(&crc.to_be_bytes()));
        }
        out.push(self.wholes.len() as u8);
        for (component, crc) in &self.wholes {
            put_name(&mut out, *component);
            out.extend_from_slice(&crc.to_be_bytes());
        }
        out.extend_from_slice(&base::crc32(&out).to_be_bytes());
        out
    }

    /// The checksums of a component's pages and their size, as [`Source::plain`](crate::source::Source::plain) takes them;
    /// `None` when nothing is known.
    pub(crate) fn pages_of(&self, component: Component) -> Option<(u64, Vec<u32>)> {
        let known = self.pages.iter().find(|(known, _)| *known == component);
        known.map(|(_, crcs)| (PAGE_BYTES, crcs.clone()))
    }

    /// Reads the component. Errors: `Corrupt`.
    pub(crate) fn decode(file: &Path, bytes: &[u8]) -> Result<Checksums, Error> {
        decode(bytes).map_err(|fault| fault.in_file(file, 0))
    }

    /// Whether the bytes of a whole component are those that were written; true when nothing is known.
    pub(crate) fn agrees(&self, component: Component, bytes: &[u8]) -> bool {
        let known = self.wholes.iter().find(|(known, _)| *known == component);
        known.is_none_or(|(_, crc)| *crc == base::crc32(bytes))
    }
}

fn decode(bytes: &[u8]) -> Decoded<Checksums> {
    let mut cursor = Cursor::new(bytes);
    let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
        return Err(cursor.bad_at(0, "a checksum", "the end of the file"));
    };
    let (stored, computed) = (u32::from_be_bytes(*crc), base::crc32(body));
    if stored != computed {
        let expected = format!("checksum {stored:#010x}");
        return Err(cursor.bad_at(body.len() as u64, expected, format!("{computed:#010x}")));
    }
    let (magic, page) = (cursor.u32()?, cursor.u32()?);
    if ![MAGIC_1, MAGIC_2].contains(&magic) || u64::from(page) != PAGE_BYTES {
        return Err(cursor.bad_at(0, "the magic number", format!("{magic:#010x}, pages of {page}")));
    }
    let mut checksums = Checksums::default();
    if magic == MAGIC_1 {
        checksums.pages.push((Component::Index, take_pages(&mut cursor)?));
    } else {
        for _ in 0..cursor.u8()? {
            let component = take_name(&mut cursor)?;
            let crcs = take_pages(&mut cursor)?;
            checksums.pages.extend(component.map(|component| (component, crcs)));
        }
    }
    for _ in 0..cursor.u8()? {
        let component = take_name(&mut cursor)?;
        let crc = cursor.u32()?;
        checksums.wholes.extend(component.map(|component| (component, crc)));
    }
    Ok(checksums)
}

fn take_pages(cursor: &mut Cursor<'_>) -> Decoded<Vec<u32>> {
    let pages = cursor.u32()?;
    let mut crcs = Vec::new();
    for _ in 0..cursor.count(u64::from(pages), 4)? {
        crcs.push(cursor.u32()?);
    }
    Ok(crcs)
}

fn put_name(out: &mut Vec<u8>, component: Component) {
    let suffix = component.suffix().as_bytes();
    out.push(suffix.len() as u8);
    out.extend_from_slice(suffix);
}

/// `None`: a component of a later version.
fn take_name(cursor: &mut Cursor<'_>) -> Decoded<Option<Component>> {
    let size = cursor.u8()?;
    let suffix = cursor.bytes(usize::from(size))?;
    Ok(Component::ALL.into_iter().find(|component| component.suffix().as_bytes() == suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_back_and_every_break_is_seen() {
        let mut pages = PageChecksums::default();
        pages.update(&[1; 3000]);
        pages.update(&[1; 6000]);
        let crcs = pages.finish();
        assert_eq!(crcs, [base::crc32(&[1; 4096]), base::crc32(&[1; 4096]), base::crc32(&[1; 808])]);
        let pages = vec![(Component::Index, crcs.clone()), (Component::Data, Vec::new())];
        let checksums = Checksums { pages, wholes: vec![(Component::Filter, base::crc32(b"filter"))] };
        let bytes = checksums.encode();
        let file = Path::new("Checksums.db");
        assert_eq!(Checksums::decode(file, &bytes).unwrap(), checksums);
        assert!(
            checksums.agrees(Component::Filter, b"filter") && checksums.agrees(Component::Summary, b"any")
        );
        assert!(!checksums.agrees(Component::Filter, b"filtes"));
        assert_eq!(checksums.pages_of(Component::Index), Some((4096, crcs)));
        assert_eq!(checksums.pages_of(Component::Summary), None);
        for at in 0..bytes.len() {
            assert!(Checksums::decode(file, &bytes[..at]).is_err());
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert!(Checksums::decode(file, &broken).is_err());
        }
    }

    #[test]
    fn version_1_is_read() {
        let mut bytes = Vec::new();
        for number in [MAGIC_1, 4096, 2, 0xaaaa_0001, 0xaaaa_0002] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.push(1);
        put_name(&mut bytes, Component::Filter);
        bytes.extend_from_slice(&0xbbbb_0001u32.to_be_bytes());
        bytes.extend_from_slice(&base::crc32(&bytes).to_be_bytes());
        let checksums = Checksums::decode(Path::new("Checksums.db"), &bytes).unwrap();
        assert_eq!(checksums.pages, [(Component::Index, vec![0xaaaa_0001, 0xaaaa_0002])]);
        assert_eq!(checksums.wholes, [(Component::Filter, 0xbbbb_0001)]);
    }
}
