//! One sstable as it lies on disk, without a schema: partitions, rows and markers one by one, with their places.
//!
//! For tools that look at files. Columns are those of the file's own header; nothing is merged, hidden or cut, and of a
//! partition of any size one row is held. A [`Raw`] needs the data, the statistics and the chunk offsets; an index only
//! where a key is looked for. After an error a scan can go on at any place that is known to be the start of a partition.

use base::Token;
use mutation::Deletion;
use schema::{BoundSide, Table};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::bti::BtiIndex;
use crate::checksums::Checksums;
use crate::component::{Component, Descriptor};
use crate::error::Error;
use crate::fragment::PartitionHead;
use crate::index::take_entry;
use crate::lookup::Index;
use crate::pages::Content;
use crate::partitions::Place;
use crate::reader::{open_data, open_index, read_statistics};
use crate::row::RowDecoder;
use crate::shape::Shape;
use crate::source::{Source, Window, read_whole};
use crate::statistics::Statistics;
use crate::unfiltered::{Head, take_head};
use crate::version::Format;

/// An sstable opened by what it says of itself.
pub struct Raw {
    dir: PathBuf,
    descriptor: Descriptor,
    known: Checksums,
    statistics: Statistics,
    table: Arc<Table>,
    shape: Rc<Shape>,
    data: Rc<Source>,
}

/// The head of a partition.
#[derive(Clone, Debug)]
pub struct RawPartition {
    /// Where it starts, in uncompressed bytes of the data file.
    pub position: u64,
    /// Where its first row or marker is, or its end.
    pub items_at: u64,
    /// The key.
    pub key: Vec<u8>,
    /// Its token.
    pub token: Token,
    /// The partition tombstone.
    pub deletion: Deletion,
    /// Packed static row; empty for none.
    pub static_row: Vec<u8>,
}

/// A row or a marker of a range tombstone.
#[derive(Clone, Debug)]
pub enum RawItem {
    /// A row that says something.
    Row {
        /// Where it starts.
        position: u64,
        /// Its clustering key in wire form.
        clustering: Vec<u8>,
        /// The packed row.
        body: Vec<u8>,
    },
    /// A bound of a range tombstone, or a boundary between two.
    Marker {
        /// Where it starts.
        position: u64,
        /// Values in wire form, maybe fewer than there are clustering columns.
        prefix: Vec<u8>,
        /// On which side of the rows with this prefix it lies.
        side: BoundSide,
        /// The deletion that ends there.
        ends: Option<Deletion>,
        /// The deletion that starts there.
        starts: Option<Deletion>,
    },
}

/// What an index says of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEntry {
    /// The key, where the index holds it whole.
    pub key: Option<Vec<u8>>,
    /// Where the partition starts, in uncompressed bytes of the data file.
    pub position: u64,
}

impl Raw {
    /// Opens an sstable. Errors: `Corrupt`, `Unsupported` for types and compressors that are not known, `Io`.
    pub async fn open(dir: &Path, descriptor: Descriptor) -> Result<Rc<Raw>, Error> {
        let file = Component::Checksums.path(dir, descriptor);
        let known = match read_whole(&file).await? {
            Some(bytes) => Checksums::decode(&file, &bytes)?,
            None => Checksums::default(),
        };
        let statistics = read_statistics(dir, descriptor, &mut 0).await?;
        let file = Component::Statistics.path(dir, descriptor);
        let unsupported = |what| Error::Unsupported { file: file.clone(), what };
        let table = statistics.header.table("keyspace", "table").map_err(unsupported)?;
        let shape = Rc::new(Shape::for_reading(&file, descriptor.version, &statistics.header, &table)?);
        let data = Rc::new(open_data(dir, descriptor, &known, &mut 0).await?);
        Ok(Rc::new(Raw { dir: dir.to_path_buf(), descriptor, known, statistics, table, shape, data }))
    }

    /// Its statistics.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The table that its header describes.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Uncompressed bytes of the data.
    pub fn length(&self) -> u64 {
        self.data.length()
    }

    /// The data file.
    pub fn data_path(&self) -> &Path {
        self.data.path()
    }

    /// Scans partitions from the start of one on.
    pub fn scan(self: &Rc<Self>, position: u64) -> RawScanner {
        self.scanner(Window::scan(self.data.clone(), position))
    }

    /// As [`Raw::scan`], without reading ahead: damage of what follows does not matter.
    pub fn scan_closely(self: &Rc<Self>, position: u64) -> RawScanner {
        self.scanner(Window::point(self.data.clone(), position))
    }

    fn scanner(self: &Rc<Self>, window: Window) -> RawScanner {
        RawScanner { raw: self.clone(), window, inside: false }
    }

    async fn index(&self) -> Result<Index, Error> {
        open_index(&self.dir, self.descriptor, &self.known, &self.data, &self.shape, &mut 0).await
    }

    /// Where the partition of a key starts; what stands there may be another, which its key tells.
    pub async fn find(&self, key: &[u8]) -> Result<Option<u64>, Error> {
        let found = self.index().await?.find(key, Token::of_key(key)).await?;
        Ok(found.map(|found| found.data_position))
    }

    /// First and last key, from the index.
    pub async fn keys(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let index = self.index().await?;
        let (first, last) = index.keys();
        Ok((first.to_vec(), last.to_vec()))
    }

    /// All that the index says of partitions, in its order.
    pub async fn entries(&self) -> Result<RawEntries, Error> {
        let state = match self.descriptor.version.format() {
            Format::Big => {
                let pages = self.known.pages_of(Component::Index);
                let path = Component::Index.path(&self.dir, self.descriptor);
                let index = Rc::new(Source::plain(path, pages, Content::Index).await?);
                Entries::Big(Window::scan(index, 0))
            }
            Format::Bti => match self.index().await? {
                Index::Bti(index) => Entries::Bti(Box::new(index), None, 0),
                Index::Big(_) => unreachable!("the version says which index there is"),
            },
        };
        Ok(RawEntries { state })
    }

    /// Whether a component is what `Checksums.db` says; `None` when that says nothing about the whole file, or there is no
    /// such file.
    pub async fn component_agrees(&self, component: Component) -> Result<Option<bool>, Error> {
        if !self.known.wholes.iter().any(|(known, _)| *known == component) {
            return Ok(None);
        }
        let bytes = read_whole(&component.path(&self.dir, self.descriptor)).await?;
        Ok(bytes.map(|bytes| self.known.agrees(component, &bytes)))
    }

    /// Reads a bloom filter and says whether it holds keys; `None` when there is no filter.
    /// Errors: `Corrupt`.
    pub async fn filter(&self) -> Result<Option<RawFilter>, Error> {
        let file = Component::Filter.path(&self.dir, self.descriptor);
        let Some(bytes) = read_whole(&file).await? else { return Ok(None) };
        let filter = crate::filter::Filter::decode(&file, self.descriptor.version, &bytes)?;
        Ok(Some(RawFilter { filter }))
    }

    /// Options of the compression the data was written with, as a table has them; `None` when it is not compressed.
    pub fn compression(&self) -> Option<&crate::compression::CompressionInfo> {
        self.data.compression()
    }
}

/// A bloom filter.
pub struct RawFilter {
    filter: crate::filter::Filter,
}

impl RawFilter {
    /// Whether it says that a key may be there: it must of every key that is.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.filter.may_contain(base::murmur3(key))
    }
}

enum Entries {
    Big(Window),
    /// With the path to the last one, and how many there were.
    Bti(Box<BtiIndex>, Option<Vec<u8>>, u64),
}

/// The entries of an index, one by one.
pub struct RawEntries {
    state: Entries,
}

impl RawEntries {
    /// The next entry.
    pub async fn next(&mut self) -> Result<Option<RawEntry>, Error> {
        match &mut self.state {
            Entries::Big(window) => {
                if window.is_at_end() {
                    return Ok(None);
                }
                let (key, head) =
                    window.decode(|bytes| take_entry(bytes).map(|(key, head)| (key.to_vec(), head))).await?;
                let size = head.size.saturating_add(head.promoted_size);
                // An entry that ends behind the file is one that was cut off.
                window.pass(size)?;
                Ok(Some(RawEntry { key: Some(key), position: head.data_position }))
            }
            Entries::Bti(index, path, count) => {
                let Some(found) = index.next_entry(path.as_deref()).await? else { return Ok(None) };
                // A broken trie may have ways without end.
                if path.as_ref().is_some_and(|last| *last >= found.path) {
                    return Err(index.broken("the next partition", "one before"));
                }
                *count += 1;
                if *count > index.count() {
                    return Err(index.broken("as many partitions as are counted", "more"));
                }
                *path = Some(found.path);
                match found.payload.place {
                    Place::Data(position) => Ok(Some(RawEntry { key: None, position })),
                    Place::Rows(position) => {
                        let entry = index.rows_entry(position).await?;
                        Ok(Some(RawEntry { key: Some(entry.key), position: entry.data_position }))
                    }
                }
            }
        }
    }
}

/// A scan of partitions, rows and markers.
pub struct RawScanner {
    raw: Rc<Raw>,
    window: Window,
    /// Whether the place is behind the head of a partition and before its end.
    inside: bool,
}

impl RawScanner {
    /// The place, in uncompressed bytes of the data file.
    pub fn position(&self) -> u64 {
        self.window.position()
    }

    /// Goes to the start of another partition.
    pub fn seek(&mut self, position: u64) {
        self.window.seek(position);
        self.inside = false;
    }

    /// The head of the next partition, after passing over what is left of the one before. `None` at the end.
    pub async fn partition(&mut self) -> Result<Option<RawPartition>, Error> {
        self.skip().await?;
        if self.window.is_at_end() {
            return Ok(None);
        }
        let shape = self.raw.shape.clone();
        let position = self.window.position();
        let mut head = PartitionHead::default();
        head.read(&shape, &mut self.window).await?;
        self.inside = true;
        let items_at = self.window.position();
        let PartitionHead { key, token, deletion, static_row } = head;
        Ok(Some(RawPartition { position, items_at, key, token, deletion, static_row }))
    }

    /// The next row or marker of the partition; `None` at its end. Rows that say nothing are passed over.
    pub async fn item(&mut self) -> Result<Option<RawItem>, Error> {
        while self.inside {
            let position = self.window.position();
            let shape = self.raw.shape.clone();
            let (head, size) = self.window.decode(|bytes| take_head(&shape, bytes, &mut Vec::new())).await?;
            self.window.consume(size);
            match head {
                Head::End => self.inside = false,
                Head::Row { at, flags, body: bytes } => {
                    self.window.require(bytes).await?;
                    let decoder = RowDecoder { shape: &shape.regulars, times: shape.times };
                    let mut body = Vec::new();
                    let decoded = decoder.decode(flags, &self.window.rest()[..bytes as usize], &mut body);
                    let told =
                        decoded.map_err(|fault| fault.in_file(self.window.path(), self.window.position()))?;
                    self.window.consume(bytes);
                    if told {
                        return Ok(Some(RawItem::Row { position, clustering: at.wire, body }));
                    }
                }
                Head::Marker { at, ends, starts } => {
                    let side = at.kind.side();
                    return Ok(Some(RawItem::Marker { position, prefix: at.wire, side, ends, starts }));
                }
            }
            runtime::yield_if_needed().await;
        }
        Ok(None)
    }

    /// Passes over what is left of the partition; rows are not decoded.
    pub async fn skip(&mut self) -> Result<(), Error> {
        while self.inside {
            let shape = self.raw.shape.clone();
            let (head, size) = self.window.decode(|bytes| take_head(&shape, bytes, &mut Vec::new())).await?;
            self.window.consume(size);
            match head {
                Head::End => self.inside = false,
                Head::Row { body, .. } => self.window.consume(body),
                Head::Marker { .. } => {}
            }
        }
        Ok(())
    }
}
