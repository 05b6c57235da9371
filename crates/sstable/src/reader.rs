//! Reads one sstable: partitions by key, or in ring order through a [`Scanner`](crate::Scanner).
//!
//! In memory while it is open: summary, filter, chunk offsets, checksums of index pages. A lookup costs the filter,
//! then a piece of the index, then chunks of data. A reader never changes; its table definition is that of the moment
//! it was opened, which is enough because an ordinal stays with its column: none but the column itself, come back
//! after a drop, gets it again.

use base::Token;
use base::histogram::EstimatedHistogram;
use mutation::{Mutation, Slice};
use schema::{Position, Table};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::checksums::Checksums;
use crate::component::Component;
use crate::compression::CompressionInfo;
use crate::cursor::Cursor;
use crate::error::Error;
use crate::filter::Filter;
use crate::fragment::Fragment;
use crate::histogram::TombstoneHistogram;
use crate::index::{EntryHead, Promoted, take_entry};
use crate::limits::{CHUNK_BYTES_MAX, PROMOTED_INDEX_BYTES_MAX, SUMMARY_INTERVAL};
use crate::meta::Meta;
use crate::shape::Shape;
use crate::source::{Source, Window, read_whole};
use crate::statistics::{PARTITIONER, Statistics};
use crate::summary::Summary;
use crate::walk::{Pause, PromotedAt, Walk, Wanted};

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
    index: Rc<Source>,
    summary: Summary,
    filter: Option<Filter>,
    tombstones: TombstoneHistogram,
    footprint: Footprint,
    meta: Meta,
    dir: PathBuf,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("dir", &self.dir).field("generation", &self.meta.generation).finish()
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
    /// Bytes of memory of the summary of the index.
    pub summary_bytes: u64,
    /// Bytes of memory of chunk offsets and checksums.
    pub checksum_bytes: u64,
    /// Uncompressed bytes of its partitions.
    pub partition_sizes: EstimatedHistogram,
    /// Cells of its partitions.
    pub partition_cells: EstimatedHistogram,
}

/// Where a partition is.
struct Found {
    data_position: u64,
    promoted_at: u64,
    promoted_size: u64,
}

impl Reader {
    /// Opens the sstable of a generation in a table's folder. Its columns are found in the table by name.
    /// A missing or broken summary is rebuilt from the index; a missing or broken filter is done without.
    /// Errors: `Corrupt`, `Unsupported` when it holds columns the table never had, `Io`.
    pub async fn open(dir: &Path, generation: u64, table: Arc<Table>) -> Result<Rc<Reader>, Error> {
        let path = |component: Component| component.path(dir, generation);
        let mut disk_bytes = 0;
        let checksums = match read_whole(&path(Component::Checksums)).await? {
            Some(bytes) => {
                disk_bytes += bytes.len() as u64;
                Some(Checksums::decode(&path(Component::Checksums), &bytes)?)
            }
            None => None,
        };
        let known = checksums.clone().unwrap_or_default();
        let file = path(Component::Statistics);
        let statistics = read_statistics(&file, &mut disk_bytes).await?;
        let shape = Rc::new(Shape::for_reading(&file, &statistics.header, &table)?);

        let data = open_data(dir, generation, &known, &mut disk_bytes).await?;
        let pages = known.pages_of(Component::Index);
        let index = Rc::new(Source::plain(path(Component::Index), pages).await?);
        let file = path(Component::Summary);
        let bytes = read_sound(&file, Component::Summary, &known, &mut disk_bytes).await?;
        let summary = match bytes.and_then(|bytes| Summary::decode(&file, &bytes, index.length()).ok()) {
            Some(summary) => summary,
            None => rebuild_summary(&index).await?,
        };
        let file = path(Component::Filter);
        let bytes = read_sound(&file, Component::Filter, &known, &mut disk_bytes).await?;
        let filter = bytes.and_then(|bytes| Filter::decode(&file, &bytes).ok());
        disk_bytes += data.stored_bytes() + index.stored_bytes();
        let keys = (summary.first_key(), summary.last_key());
        let meta = Meta::from_parts(generation, keys, &statistics.stats, (data.length(), disk_bytes));
        let footprint = Footprint {
            stored_bytes: data.stored_bytes(),
            compressed: data.is_compressed(),
            filter_bytes: filter.as_ref().map_or(0, Filter::bytes),
            summary_bytes: summary.bytes(),
            checksum_bytes: data.memory_bytes() + index.memory_bytes(),
            partition_sizes: statistics.stats.partition_sizes.estimated(),
            partition_cells: statistics.stats.partition_cells.estimated(),
        };
        let tombstones = statistics.stats.tombstones;
        let dir = dir.to_path_buf();
        Ok(Rc::new(Reader {
            table,
            shape,
            data: Rc::new(data),
            index,
            summary,
            filter,
            tombstones,
            footprint,
            meta,
            dir,
        }))
    }

    /// What it takes of memory and disk, and how large its partitions are.
    pub fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    /// The keys it holds, in the form that says how many keys several sstables hold together. Reads the statistics anew;
    /// `None` when they were written in a form this crate does not read.
    pub async fn cardinality(&self) -> Result<Option<Cardinality>, Error> {
        let file = Component::Statistics.path(&self.dir, self.meta.generation);
        let Some(bytes) = read_whole(&file).await? else {
            return Err(Error::corrupt(&file, 0, "the component", "no file"));
        };
        Ok(Cardinality::decode(&Statistics::decode(&file, &bytes)?.cardinality))
    }

    /// The path of one of its files.
    pub fn path(&self, component: Component) -> PathBuf {
        component.path(&self.dir, self.meta.generation)
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
        filter + self.summary.bytes() + self.data.memory_bytes() + self.index.memory_bytes()
    }

    /// Whether it may hold a key, by key range and filter: no I/O. `h2` is the second half of the key's hash.
    pub fn may_contain(&self, token: Token, h2: i64) -> bool {
        // The token i64::MAX stands for two hashes.
        let filtered = |h1: i64| self.filter.as_ref().is_none_or(|filter| filter.may_contain((h1, h2)));
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
        let Some(found) = self.find(key, token).await? else { return Ok(None) };
        let window = Window::point(self.data.clone(), found.data_position);
        let (mut walk, head) = Walk::start(self.table.clone(), self.shape.clone(), window).await?;
        if head.key != key {
            let (expected, got) =
                (format!("the partition of token {token}"), format!("that of token {}", head.token));
            return Err(Error::corrupt(self.data.path(), found.data_position, expected, got));
        }
        let whole =
            slices.first().is_some_and(|slice| slice.start <= Position::bottom()) && slices.len() == 1;
        if found.promoted_size > 0 && !slices.is_empty() && (reversed || !whole) {
            walk.promoted = Some(self.promoted(&found).await?);
        }
        let mut fragment = Fragment::default();
        let complete_to = if reversed && walk.promoted.is_some() {
            self.read_reversed(&mut walk, slices, byte_budget, &mut fragment).await?
        } else {
            // A partition without promoted index is small: it is read in one piece where the order is reversed.
            let byte_budget = if reversed { usize::MAX } else { byte_budget };
            match walk.run(Wanted { slices, byte_budget }, &mut fragment).await? {
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
        slices: &[Slice],
        byte_budget: usize,
        fragment: &mut Fragment,
    ) -> Result<Option<Position>, Error> {
        let (Some(first), Some(last)) = (slices.first(), slices.last()) else { return Ok(None) };
        let mut parts: Vec<Fragment> = Vec::new();
        let mut complete_to = None;
        let mut size = 0;
        let promoted = walk.promoted.as_ref().expect("the caller looked");
        let last = promoted.last_before(&self.shape, &self.table, &last.end)?;
        for index in (0..=last).rev() {
            let block = walk.enter_block(index, 0)?;
            let promoted = walk.promoted.as_ref().expect("the caller looked");
            if promoted.behind(&self.table, &block)? <= first.start {
                break;
            }
            let mut part = Fragment::default();
            walk.run_block(&block, slices, &mut part).await?;
            size += part.size();
            parts.push(part);
            if size >= byte_budget && index > 0 {
                let promoted = walk.promoted.as_ref().expect("the caller looked");
                let before = promoted.block(&self.shape, index - 1)?;
                complete_to = Some(promoted.behind(&self.table, &before)?);
                break;
            }
        }
        for part in parts.into_iter().rev() {
            fragment.append(part);
        }
        Ok(complete_to)
    }

    /// Looks a key up in the index.
    async fn find(&self, key: &[u8], token: Token) -> Result<Option<Found>, Error> {
        let start = self.summary.floor(token, key);
        let end = self.summary.next_after(start).unwrap_or(u64::MAX);
        let mut window = Window::point(self.index.clone(), start);
        while window.position() < end && !window.is_at_end() {
            let (same, entry, at) = self.entry(&mut window, |found| found == key).await?;
            if same {
                return Ok(Some(Found {
                    data_position: entry.data_position,
                    promoted_at: at + entry.size,
                    promoted_size: entry.promoted_size,
                }));
            }
        }
        Ok(None)
    }

    /// Reads an index entry and steps over it; also returns what a closure says of its key, and where it was.
    async fn entry<T>(
        &self,
        window: &mut Window,
        look: impl Fn(&[u8]) -> T,
    ) -> Result<(T, EntryHead, u64), Error> {
        let at = window.position();
        let (seen, entry) =
            window.decode(|bytes| take_entry(bytes).map(|(key, entry)| (look(key), entry))).await?;
        window.consume(entry.size);
        window.consume(entry.promoted_size);
        if entry.data_position >= self.data.length() {
            let expected = format!("a position below {}", self.data.length());
            return Err(Error::corrupt(window.path(), at, expected, entry.data_position.to_string()));
        }
        if window.position() > self.index.length() {
            let expected = format!("an entry that ends by {}", self.index.length());
            return Err(Error::corrupt(window.path(), at, expected, window.position().to_string()));
        }
        Ok((seen, entry, at))
    }

    async fn promoted(&self, found: &Found) -> Result<PromotedAt, Error> {
        let path = self.index.path().to_path_buf();
        if found.promoted_size > PROMOTED_INDEX_BYTES_MAX {
            let expected = format!("a promoted index of at most {PROMOTED_INDEX_BYTES_MAX} bytes");
            return Err(Error::corrupt(&path, found.promoted_at, expected, found.promoted_size.to_string()));
        }
        let mut window = Window::point(self.index.clone(), found.promoted_at);
        window.require(found.promoted_size).await?;
        let bytes = window.rest()[..found.promoted_size as usize].to_vec();
        let promoted = Promoted::decode(bytes).map_err(|fault| fault.in_file(&path, found.promoted_at))?;
        Ok(PromotedAt { promoted, path, offset: found.promoted_at })
    }

    /// Where in the data the first partition at or behind a token starts; the end of the data when there is none.
    pub(crate) async fn data_position(&self, token: Token) -> Result<u64, Error> {
        if token <= self.meta.first_token {
            return Ok(0);
        }
        if token > self.meta.last_token {
            return Ok(self.data.length());
        }
        let start = self.summary.floor(token, &[]);
        let mut window = Window::point(self.index.clone(), start);
        while !window.is_at_end() {
            let (found, entry, _) = self.entry(&mut window, Token::of_key).await?;
            if found >= token {
                return Ok(entry.data_position);
            }
        }
        Ok(self.data.length())
    }

    /// Removes all its files. Those that hold them open can go on reading.
    pub async fn remove_files(&self) -> Result<(), Error> {
        remove_sstable(&self.dir, self.meta.generation).await
    }
}

/// Removes all files of an sstable, the list of components first, so that no tool takes the rest for whole.
pub async fn remove_sstable(dir: &Path, generation: u64) -> Result<(), Error> {
    for component in Component::ALL.into_iter().rev() {
        let path = component.path(dir, generation);
        match runtime::file::remove(&path).await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&path, "remove", error)),
        }
    }
    Ok(())
}

/// The statistics; adds its bytes to those on disk.
async fn read_statistics(file: &Path, disk_bytes: &mut u64) -> Result<Statistics, Error> {
    let Some(bytes) = read_whole(file).await? else {
        return Err(Error::corrupt(file, 0, "the component", "no file"));
    };
    let statistics = Statistics::decode(file, &bytes)?;
    if statistics.partitioner != PARTITIONER {
        let what = format!("partitioner \"{}\"", statistics.partitioner);
        return Err(Error::Unsupported { file: file.to_path_buf(), what });
    }
    *disk_bytes += bytes.len() as u64;
    Ok(statistics)
}

/// The bytes of a component that can be done without; `None` when it is missing or its checksum tells otherwise. Adds them
/// to those on disk.
async fn read_sound(
    file: &Path,
    component: Component,
    known: &Checksums,
    disk_bytes: &mut u64,
) -> Result<Option<Vec<u8>>, Error> {
    let bytes = read_whole(file).await?.filter(|bytes| known.agrees(component, bytes));
    *disk_bytes += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
    Ok(bytes)
}

/// Opens the data file with its chunk offsets, or with its checksums when it is not compressed.
async fn open_data(
    dir: &Path,
    generation: u64,
    known: &Checksums,
    disk_bytes: &mut u64,
) -> Result<Source, Error> {
    let path = Component::Data.path(dir, generation);
    let file = Component::CompressionInfo.path(dir, generation);
    let listed = |component| known.wholes.iter().any(|(known, _)| *known == component);
    let disagrees = |file: &Path| Error::corrupt(file, 0, "the checksum in Checksums.db", "another");
    let source = match read_whole(&file).await? {
        Some(bytes) if known.agrees(Component::CompressionInfo, &bytes) => {
            *disk_bytes += bytes.len() as u64;
            Source::compressed(path, |stored| CompressionInfo::decode(&file, &bytes, stored)).await?
        }
        Some(_) => return Err(disagrees(&file)),
        None if listed(Component::CompressionInfo) => {
            return Err(Error::corrupt(&file, 0, "the component", "no file"));
        }
        None => {
            let file = Component::Crc.path(dir, generation);
            let crcs = match read_whole(&file).await? {
                Some(bytes) if known.agrees(Component::Crc, &bytes) => {
                    *disk_bytes += bytes.len() as u64;
                    Some(decode_crcs(&file, &bytes)?)
                }
                Some(_) => return Err(disagrees(&file)),
                None => None,
            };
            Source::plain(path, crcs).await?
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

/// Samples the index anew.
async fn rebuild_summary(index: &Rc<Source>) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    let mut window = Window::scan(index.clone(), 0);
    let (mut count, mut first, mut last) = (0u64, Vec::new(), Vec::new());
    let mut last_token = Token::MIN;
    while !window.is_at_end() {
        let at = window.position();
        let (key, entry) =
            window.decode(|bytes| take_entry(bytes).map(|(key, entry)| (key.to_vec(), entry))).await?;
        window.consume(entry.size);
        window.consume(entry.promoted_size);
        let token = Token::of_key(&key);
        if window.position() > index.length() || count > 0 && (token, &key) <= (last_token, &last) {
            return Err(Error::corrupt(index.path(), at, "the next entry in ring order", "another"));
        }
        if count.is_multiple_of(u64::from(SUMMARY_INTERVAL)) {
            summary.push(token, &key, at);
        }
        if count == 0 {
            first.clone_from(&key);
        }
        (last, last_token) = (key, token);
        count += 1;
    }
    if count == 0 {
        return Err(Error::corrupt(index.path(), 0, "at least one entry", "an empty file"));
    }
    summary.set_range(&first, &last);
    Ok(summary)
}
