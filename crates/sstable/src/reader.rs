//! Reads one sstable: partitions by key, or in ring order through a [`Scanner`](crate::Scanner).
//!
//! In memory while it is open: filter, summary (big), chunk offsets, checksums of index pages. A lookup costs the filter,
//! then a piece of the index, then chunks of data. A reader never changes; its table definition is that of the moment
//! it was opened, which is enough because an ordinal stays with its column: none but the column itself, come back
//! after a drop, gets it again.

use base::Token;
use base::histogram::EstimatedHistogram;
use mutation::{Bound, Mutation, Slice};
use schema::{Position, Table};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::big::BigIndex;
use crate::bti::BtiIndex;
use crate::cardinality::Cardinality;
use crate::checksums::Checksums;
use crate::component::{Component, Descriptor};
use crate::compression::CompressionInfo;
use crate::cursor::Cursor;
use crate::error::Error;
use crate::filter::Filter;
use crate::fragment::{Fragment, PartitionHead};
use crate::histogram::TombstoneHistogram;
use crate::limits::CHUNK_BYTES_MAX;
use crate::lookup::{Index, Readable, read_sound};
use crate::meta::Meta;
use crate::pages::Content;
use crate::row_index::RowIndex;
use crate::shape::Shape;
use crate::source::{Source, Window, read_whole};
use crate::statistics::{PARTITIONER, Statistics};
use crate::version::Format;
use crate::walk::{Pause, Walk, Wanted};

/// What one sstable says about a part of one partition.
#[derive(Clone, Debug)]
pub struct SourceSlice {
    /// Partition deletion, static row, and rows and range tombstones in clustering order. A tombstone may reach beyond
    /// the slices asked for; it is never longer than the truth.
    pub mutation: Mutation,
    /// `None`: all that was asked for is in. Otherwise the budget was reached: forward, everything before the position
    /// is in; reversed, everything at or behind it. Ask again for the rest. Forward it is the bound directly behind the
    /// last row or tombstone of the mutation.
    pub complete_to: Option<Position>,
}

/// An open sstable.
pub struct Reader {
    pub(crate) table: Arc<Table>,
    pub(crate) shape: Rc<Shape>,
    pub(crate) data: Rc<Source>,
    index: Index,
    filter: Option<Filter>,
    clustering_range: Option<(Position, Position)>,
    has_partition_deletions: bool,
    tombstones: TombstoneHistogram,
    footprint: Footprint,
    meta: Meta,
    dir: PathBuf,
    descriptor: Descriptor,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("dir", &self.dir).field("descriptor", &self.descriptor).finish()
    }
}

/// What an open sstable takes, and the shape of what it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Bytes of the data file on disk.
    pub stored_bytes: u64,
    /// Whether those are compressed.
    pub compressed: bool,
    /// Bytes of memory of the filter.
    pub filter_bytes: u64,
    /// Bytes of memory of the keys of the index, sampled (big) or first and last (bti).
    pub summary_bytes: u64,
    /// Bytes of memory of chunk offsets and checksums.
    pub checksum_bytes: u64,
    /// Uncompressed bytes of its partitions.
    pub partition_sizes: EstimatedHistogram,
    /// Cells of its partitions.
    pub partition_cells: EstimatedHistogram,
}

impl Reader {
    /// Opens an sstable in a table's folder. Its columns are found in the table by name.
    /// A missing or broken summary is rebuilt from the index; a missing or broken filter is done without.
    /// Errors: `Corrupt`, `Unsupported` when it holds columns the table never had, `Io`.
    pub async fn open(dir: &Path, descriptor: Descriptor, table: Arc<Table>) -> Result<Rc<Reader>, Error> {
        let path = |component: Component| component.path(dir, descriptor);
        let mut disk_bytes = 0;
        let known = match read_whole(&path(Component::Checksums)).await? {
            Some(bytes) => {
                disk_bytes += bytes.len() as u64;
                Checksums::decode(&path(Component::Checksums), &bytes)?
            }
            None => Checksums::default(),
        };
        let statistics = read_statistics(dir, descriptor, &mut disk_bytes).await?;
        let file = path(Component::Statistics);
        let shape = Rc::new(Shape::for_reading(&file, descriptor.version, &statistics.header, &table)?);
        let stats = statistics.stats;

        let data = Rc::new(open_data(dir, descriptor, &known, &mut disk_bytes).await?);
        disk_bytes += data.stored_bytes();
        let index = open_index(dir, descriptor, &known, &data, &shape, &mut disk_bytes).await?;
        let filter_file = path(Component::Filter);
        let bytes = read_sound(&filter_file, Component::Filter, &known, &mut disk_bytes).await?;
        let filter = bytes.and_then(|bytes| Filter::decode(&filter_file, descriptor.version, &bytes).ok());
        let keys = index.keys();
        if let Some((first, last)) =
            stats.keys.as_ref().filter(|(first, last)| (&first[..], &last[..]) != keys)
        {
            let expected = format!("keys from {first:02x?} to {last:02x?}");
            return Err(Error::corrupt(&file, 0, expected, format!("{:02x?} to {:02x?}", keys.0, keys.1)));
        }
        let meta = Meta::from_parts(descriptor, keys, &stats, (data.length(), disk_bytes));
        let (summary_bytes, index_bytes) = index.memory_bytes();
        let footprint = Footprint {
            stored_bytes: data.stored_bytes(),
            compressed: data.is_compressed(),
            filter_bytes: filter.as_ref().map_or(0, Filter::bytes),
            summary_bytes,
            checksum_bytes: data.memory_bytes() + index_bytes,
            partition_sizes: stats.partition_sizes.estimated(),
            partition_cells: stats.partition_cells.estimated(),
        };
        let place = |bound: &Bound| bound.position(&table).ok();
        Ok(Rc::new(Reader {
            clustering_range: place(&stats.clustering_start).zip(place(&stats.clustering_end)),
            has_partition_deletions: stats.has_partition_deletions,
            table,
            shape,
            data,
            index,
            filter,
            tombstones: stats.tombstones,
            footprint,
            meta,
            dir: dir.to_path_buf(),
            descriptor,
        }))
    }

    /// The name of its files.
    pub fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// Where its rows and range tombstones lie: none sorts before the first or behind the second position, so that a read
    /// of slices beyond them finds in it partition deletions and static rows only. `None` when that is not known.
    pub fn clustering_range(&self) -> Option<(&Position, &Position)> {
        self.clustering_range.as_ref().map(|(start, end)| (start, end))
    }

    /// Whether it may hold deletions of whole partitions; `true` when that is not known (before `oa`).
    pub fn has_partition_deletions(&self) -> bool {
        self.has_partition_deletions
    }

    /// All that its statistics say; read anew.
    pub async fn statistics(&self) -> Result<Statistics, Error> {
        read_statistics(&self.dir, self.descriptor, &mut 0).await
    }

    /// What it takes of memory and disk, and how large its partitions are.
    pub fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    /// The keys it holds, in the form that says how many keys several sstables hold together. Reads the statistics anew;
    /// `None` when they were written in a form this crate does not read.
    pub async fn cardinality(&self) -> Result<Option<Cardinality>, Error> {
        Ok(Cardinality::decode(&self.statistics().await?.cardinality))
    }

    /// The path of one of its files.
    pub fn path(&self, component: Component) -> PathBuf {
        component.path(&self.dir, self.descriptor)
    }

    /// Facts about it, from its own files.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The table's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The table definition it was opened with.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// When its tombstones and expiring cells go.
    pub fn tombstones(&self) -> &TombstoneHistogram {
        &self.tombstones
    }

    /// Bytes of memory it holds while it is open.
    pub fn memory_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, Filter::bytes);
        let (keys, checksums) = self.index.memory_bytes();
        filter + keys + checksums + self.data.memory_bytes()
    }

    /// Whether it may hold a key, by key range and filter: no I/O. `h2` is the second half of the key's hash.
    pub fn may_contain(&self, token: Token, h2: i64) -> bool {
        // The token i64::MAX stands for two hashes.
        let missed = || h2 & 7 == 0 && runtime::planted(runtime::Bug::FilterFalseNegative);
        let filtered =
            |h1: i64| self.filter.as_ref().is_none_or(|filter| filter.may_contain((h1, h2)) && !missed());
        self.meta.covers(token) && (filtered(token.0) || token == Token::MAX && filtered(i64::MIN))
    }

    /// Reads what lies in the slices (disjoint, ascending) of one partition; `None` when it has no such partition.
    /// Gathers about `byte_budget` bytes, at least one row, and says how far it came. The partition deletion and the
    /// static row are always in. Reversed: starts with the last rows; they stand in the mutation in clustering order.
    pub async fn read_partition(
        &self,
        key: &[u8],
        token: Token,
        slices: &[Slice],
        reversed: bool,
        byte_budget: usize,
    ) -> Result<Option<SourceSlice>, Error> {
        if !self.may_contain(token, base::murmur3(key).1) {
            return Ok(None);
        }
        let Some(found) = self.index.find(key, token).await? else { return Ok(None) };
        let window = Window::point(self.data.clone(), found.data_position);
        let mut walk = Walk::new(self.table.clone(), self.shape.clone(), window);
        let mut head = PartitionHead::default();
        walk.begin(&mut head).await?;
        if head.key != key {
            if !found.certain {
                return Ok(None);
            }
            let (expected, got) =
                (format!("the partition of token {token}"), format!("that of token {}", head.token));
            return Err(Error::corrupt(self.data.path(), found.data_position, expected, got));
        }
        let whole =
            slices.first().is_some_and(|slice| slice.start <= Position::bottom()) && slices.len() == 1;
        if !slices.is_empty() && (reversed || !whole) {
            walk.rows = self.index.rows(&found).await?;
        }
        let mut fragment = Fragment::default();
        let complete_to = if reversed && let Some(rows) = walk.rows.take() {
            self.read_reversed(&mut walk, &rows, slices, byte_budget, &mut fragment).await?
        } else {
            // A partition without row index is small: it is read in one piece where the order is reversed.
            let byte_budget = if reversed { usize::MAX } else { byte_budget };
            match walk.run(Wanted { slices, byte_budget, far: None }, &mut fragment).await? {
                Pause::Complete | Pause::End => None,
                Pause::Budget(position) => Some(position),
            }
        };
        let mutation = fragment.build(self.table.id, &head);
        Ok(Some(SourceSlice { mutation, complete_to }))
    }

    /// Reads blocks from the last to the first until the budget is reached.
    async fn read_reversed(
        &self,
        walk: &mut Walk,
        rows: &RowIndex,
        slices: &[Slice],
        byte_budget: usize,
        fragment: &mut Fragment,
    ) -> Result<Option<Position>, Error> {
        let (Some(first), Some(last)) = (slices.first(), slices.last()) else { return Ok(None) };
        let mut parts: Vec<Fragment> = Vec::new();
        let mut size = 0;
        let mut behind: Option<(u64, Bound)> = None;
        let mut complete_to = None;
        let mut block = rows.last_before(&self.shape, &self.table, &last.end).await?;
        loop {
            let mut part = Fragment::default();
            let start = walk.run_back(&block.entry, behind.as_ref(), slices, &mut part).await?;
            size += part.size();
            parts.push(part);
            if let Some(start) = start {
                let position = start.position(&self.table).map_err(|error| walk.wrong(error))?;
                if position <= first.start {
                    break;
                }
                behind = Some((block.entry.offset, start));
                complete_to = Some(position).filter(|position| *position < last.end);
            }
            let Some(before) = rows.before(&self.shape, &block).await? else { break };
            if size >= byte_budget && complete_to.is_some() {
                parts.into_iter().rev().for_each(|part| fragment.append(part));
                return Ok(complete_to);
            }
            block = before;
        }
        parts.into_iter().rev().for_each(|part| fragment.append(part));
        Ok(None)
    }

    /// Where in the data the first partition at or behind a token starts; the end of the data when there is none.
    pub(crate) async fn data_position(&self, token: Token) -> Result<u64, Error> {
        if token <= self.meta.first_token {
            return Ok(0);
        }
        if token > self.meta.last_token {
            return Ok(self.data.length());
        }
        Ok(self.index.first_from(token).await?.map_or(self.data.length(), |(_, position)| position))
    }

    /// Where in the data the first partition behind a key starts; the end of the data when there is none.
    pub(crate) async fn position_behind(&self, key: &[u8], token: Token) -> Result<u64, Error> {
        if (token, key) < (self.meta.first_token, &self.meta.first_key[..]) {
            return Ok(0);
        }
        if (token, key) >= (self.meta.last_token, &self.meta.last_key[..]) {
            return Ok(self.data.length());
        }
        Ok(self.index.behind(key, token).await?.unwrap_or(self.data.length()))
    }

    /// The row index of a partition that is there, if it has one.
    pub(crate) async fn row_index(&self, key: &[u8], token: Token) -> Result<Option<RowIndex>, Error> {
        match self.index.find(key, token).await? {
            Some(found) => self.index.rows(&found).await,
            None => Ok(None),
        }
    }

    /// The first partition at or behind a token, by the index alone or nearly so. Goes past those whose keys cannot be read.
    /// Errors: the index itself is damaged.
    pub async fn next_readable(&self, from: Token) -> Result<Readable, Error> {
        if from > self.meta.last_token {
            return Ok(Readable::default());
        }
        self.index.first_readable(from).await
    }

    /// Removes all its files, as [`remove_sstable`] does.
    pub async fn remove_files(&self) -> Result<(), Error> {
        remove_sstable(&self.dir, self.descriptor).await
    }
}

/// Removes all files of an sstable, the list of components first, so that no tool takes the rest for whole. Nobody may read it any more:
/// the large files are cut piece by piece, unless a snapshot or the like has names of its own for them.
pub async fn remove_sstable(dir: &Path, descriptor: Descriptor) -> Result<(), Error> {
    for component in Component::ALL.into_iter().rev() {
        let path = component.path(dir, descriptor);
        let removed = match component {
            Component::Data | Component::Index | Component::Partitions | Component::Rows => {
                runtime::release::remove(&path).await
            }
            _ => runtime::file::remove(&path).await,
        };
        match removed {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&path, "remove", error)),
        }
    }
    Ok(())
}

/// Opens the index files.
pub(crate) async fn open_index(
    dir: &Path,
    descriptor: Descriptor,
    known: &Checksums,
    data: &Rc<Source>,
    shape: &Shape,
    disk_bytes: &mut u64,
) -> Result<Index, Error> {
    let times = shape.times;
    match descriptor.version.format() {
        Format::Big => {
            let index = BigIndex::open(dir, descriptor, known, data.length(), times, disk_bytes);
            Ok(Index::Big(index.await?))
        }
        Format::Bti => {
            let index = BtiIndex::open(dir, descriptor, known, data.clone(), times, disk_bytes);
            Ok(Index::Bti(index.await?))
        }
    }
}

/// The statistics; adds its bytes to those on disk.
pub(crate) async fn read_statistics(
    dir: &Path,
    descriptor: Descriptor,
    disk_bytes: &mut u64,
) -> Result<Statistics, Error> {
    let file = &Component::Statistics.path(dir, descriptor);
    let Some(bytes) = read_whole(file).await? else {
        return Err(Error::corrupt(file, 0, "the component", "no file"));
    };
    let statistics = Statistics::decode(file, descriptor.version, &bytes)?;
    if statistics.partitioner != PARTITIONER {
        let what = format!("partitioner \"{}\"", statistics.partitioner);
        return Err(Error::Unsupported { file: file.to_path_buf(), what });
    }
    *disk_bytes += bytes.len() as u64;
    Ok(statistics)
}

/// Opens the data file with its chunk offsets, or with its checksums when it is not compressed.
pub(crate) async fn open_data(
    dir: &Path,
    descriptor: Descriptor,
    known: &Checksums,
    disk_bytes: &mut u64,
) -> Result<Source, Error> {
    let path = Component::Data.path(dir, descriptor);
    let file = Component::CompressionInfo.path(dir, descriptor);
    let listed = |component| known.wholes.iter().any(|(known, _)| *known == component);
    let disagrees = |file: &Path| Error::corrupt(file, 0, "the checksum in Checksums.db", "another");
    let source = match read_whole(&file).await? {
        Some(bytes) if known.agrees(Component::CompressionInfo, &bytes) => {
            *disk_bytes += bytes.len() as u64;
            Source::compressed(path, |stored| {
                CompressionInfo::decode(&file, descriptor.version, &bytes, stored)
            })
            .await?
        }
        Some(_) => return Err(disagrees(&file)),
        None if listed(Component::CompressionInfo) => {
            return Err(Error::corrupt(&file, 0, "the component", "no file"));
        }
        None => {
            let file = Component::Crc.path(dir, descriptor);
            let crcs = match read_whole(&file).await? {
                Some(bytes) if known.agrees(Component::Crc, &bytes) => {
                    *disk_bytes += bytes.len() as u64;
                    Some(decode_crcs(&file, &bytes)?)
                }
                Some(_) => return Err(disagrees(&file)),
                None => None,
            };
            Source::plain(path, crcs, Content::Data).await?
        }
    };
    if source.length() == 0 {
        return Err(Error::corrupt(source.path(), 0, "at least one partition", "an empty file"));
    }
    Ok(source)
}

/// Reads `CRC.db`: the chunk length and a checksum for each chunk.
fn decode_crcs(file: &Path, bytes: &[u8]) -> Result<(u64, Vec<u32>), Error> {
    let mut cursor = Cursor::new(bytes);
    let length = cursor.u32().map_err(|fault| fault.in_file(file, 0))?;
    if length == 0 || u64::from(length) > CHUNK_BYTES_MAX || !cursor.remaining().is_multiple_of(4) {
        return Err(Error::corrupt(file, 0, "a chunk length and checksums", format!("length {length}")));
    }
    let mut crcs = Vec::with_capacity(cursor.remaining() / 4);
    while !cursor.is_empty() {
        crcs.push(cursor.u32().map_err(|fault| fault.in_file(file, 0))?);
    }
    Ok((u64::from(length), crcs))
}
