//! Writes one sstable: appends are synchronous into memory, the owner waits for the disk when it wants to.
//!
//! Partitions come in ring order; inside one, rows and range tombstones come by where they start, tombstones disjoint.
//! The writer makes markers of the tombstones, the index of both levels, and exact statistics. Files carry
//! `.tmp` until all are durable; `TOC.txt` is last. Layout: `docs/formats/sstables.md`.

use base::Token;
use mutation::{Bound, Buffer, Deletion, RangeTombstone, RowView};
use schema::{BoundSide, Position, Table};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::big::BigWriter;
use crate::bti::BtiWriter;
use crate::cardinality::Cardinality;
use crate::checksums::Checksums;
use crate::clustering::{Kind, Prefix};
use crate::collector::Collector;
use crate::component::{Component, Descriptor};
use crate::compression::{Compression, CompressionChoice};
use crate::cursor::put_short_bytes;
use crate::deletion::Times;
use crate::error::Error;
use crate::filter::{Filling, Filter};
use crate::index::NewBlock;
use crate::limits::{KEY_BYTES_MAX, SUMMARY_INTERVAL, SYNCS_UNDER_WAY};
use crate::lookup::{EndedPartition, IndexWriter};
use crate::meta::Meta;
use crate::reader::Reader;
use crate::row::{RowEncoder, carry_body, flags};
use crate::shape::{ColumnShape, Shape, header_for};
use crate::sink::{DataSink, Sink};
use crate::statistics::{EncodingStats, Statistics};
use crate::version::{Format, Version};

/// What a new sstable is and where it goes.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The table's folder; it exists.
    pub dir: PathBuf,
    /// The version of its files: `Format::version` of the selected format; older ones for older nodes.
    pub version: Version,
    /// A number not used in the folder before.
    pub generation: u64,
    /// The table, at least as new as the rows to be written: cells of columns it does not have are left out.
    pub table: Arc<Table>,
    /// About how many partitions come; sizes the filter.
    pub estimated_keys: u64,
    /// What of the table's compression it takes.
    pub compression: CompressionChoice,
    /// Bases of the deltas; any are correct, the minima of the data make the smallest file.
    pub base: EncodingStats,
    /// This node; 0 for unknown.
    pub host_id: u128,
    /// Level, for levelled compaction.
    pub level: u32,
    /// Milliseconds since the Unix epoch, 0 for not repaired.
    pub repaired_at: i64,
}

/// A range tombstone whose end is still to come.
struct OpenRange {
    end: Prefix,
    end_at: Position,
    deletion: Deletion,
}

/// The partition being written. Its buffers serve the next one.
#[derive(Default)]
struct OpenPartition {
    key: Vec<u8>,
    token: Token,
    deletion: Deletion,
    /// Key, deletion and static row; written when it is known that the partition says something.
    header: Vec<u8>,
    /// Whether the header alone is worth keeping.
    header_says_something: bool,
    header_written: bool,
    /// Where it starts in the data.
    start: u64,
    /// Start of the row or marker before, from `start`.
    previous: u64,
    /// The open index block.
    block: OpenBlock,
    /// Index blocks that have ended.
    blocks: u64,
    /// The range tombstone open where the last block ended.
    open_before: Deletion,
    last: Place,
    range: Option<OpenRange>,
}

/// The index block being written, if it has a first row or marker.
#[derive(Default)]
struct OpenBlock {
    is_open: bool,
    /// Where it starts, from the partition's start.
    start: u64,
    first: Place,
}

/// A row or marker, and where it sorts; nowhere as long as there is none.
#[derive(Default)]
struct Place {
    prefix: Prefix,
    at: Vec<u8>,
}

impl Place {
    fn set(&mut self, kind: Kind, wire: &[u8], at: &[u8]) {
        self.prefix.kind = kind;
        self.prefix.wire.clear();
        self.prefix.wire.extend_from_slice(wire);
        self.at.clear();
        self.at.extend_from_slice(at);
    }

    fn is_nowhere(&self) -> bool {
        self.at.is_empty()
    }
}

/// A row of another sstable.
pub(crate) struct CarriedRow<'a> {
    pub(crate) flags: u8,
    /// Flags and clustering values as they are in the file.
    pub(crate) head: &'a [u8],
    /// Clustering values in wire form.
    pub(crate) wire: &'a [u8],
    pub(crate) body: &'a [u8],
}

/// Writes one sstable. Dropping it leaves files named `.tmp` behind; see [`Writer::abandon`].
pub struct Writer {
    options: WriterOptions,
    shape: Shape,
    data: DataSink,
    index: IndexWriter,
    filter: Option<Filling>,
    cardinality: Cardinality,
    collector: Collector,
    partition: OpenPartition,
    /// Whether a partition was started and not ended.
    is_inside: bool,
    partitions: u64,
    first_key: Vec<u8>,
    last_key: (Token, Vec<u8>),
    /// The first and the last of all rows and markers.
    first_place: Place,
    last_place: Place,
    scratch: Vec<u8>,
    body: Vec<u8>,
}

impl Writer {
    /// Creates the data and index files under temporary names.
    /// Errors: `Io`; `Unsupported` when the table asks for a compressor this crate cannot write.
    pub async fn create(options: WriterOptions) -> Result<Writer, Error> {
        let descriptor = Descriptor::new(options.version, options.generation);
        let path = |component: Component| component.temporary_path(&options.dir, descriptor);
        let table = &options.table;
        let compression = Compression::choose(options.compression, &table.options, options.version);
        let compression =
            compression.map_err(|what| Error::Unsupported { file: path(Component::Data), what })?;
        let data = DataSink::create(path(Component::Data), compression).await?;
        let times = Times::new(options.version, options.base);
        let index = match options.version.format() {
            Format::Big => {
                let interval = u32::try_from(table.options.min_index_interval);
                let interval = interval.map_or(SUMMARY_INTERVAL, |interval| interval.max(1));
                let writer = BigWriter::create(path(Component::Index), interval, times).await?;
                IndexWriter::Big(Box::new(writer))
            }
            Format::Bti => {
                let (partitions, rows) = (path(Component::Partitions), path(Component::Rows));
                IndexWriter::Bti(Box::new(BtiWriter::create(partitions, rows).await?))
            }
        };
        Ok(Writer {
            shape: Shape::for_writing(table, times),
            data,
            index,
            filter: Filter::for_keys(options.estimated_keys, table.options.bloom_filter_fp_chance)
                .map(Filling::new),
            cardinality: Cardinality::default(),
            collector: Collector::new(times),
            partition: OpenPartition::default(),
            is_inside: false,
            partitions: 0,
            first_key: Vec::new(),
            last_key: (Token::MIN, Vec::new()),
            first_place: Place::default(),
            last_place: Place::default(),
            scratch: Vec::new(),
            body: Vec::new(),
            options,
        })
    }

    fn descriptor(&self) -> Descriptor {
        Descriptor::new(self.options.version, self.options.generation)
    }

    fn invalid(&self, what: String) -> Error {
        Error::Invalid { table: self.options.table.qualified_name(), what }
    }

    /// Starts a partition. `static_row` is a packed row. A partition about which nothing follows and whose deletion and
    /// static row say nothing leaves no trace.
    /// Errors: a key too long, out of ring order, or a static value of a wrong length.
    pub fn start_partition(
        &mut self,
        key: &[u8],
        token: Token,
        deletion: Deletion,
        static_row: Option<&[u8]>,
    ) -> Result<(), Error> {
        assert!(!self.is_inside, "the partition before was ended");
        if key.len() > KEY_BYTES_MAX {
            let (size, limit) = (key.len() as u64, KEY_BYTES_MAX as u64);
            return Err(Error::TooLarge { what: "a partition key", size, limit });
        }
        if self.partitions > 0 && (self.last_key.0, &self.last_key.1[..]) >= (token, key) {
            return Err(self.invalid(format!("partitions out of ring order at token {token}")));
        }
        if !self.shape.times.fits_full(deletion) {
            // Any time that fits would delete more or less than was deleted: the caller takes another version.
            return Err(self.invalid(format!("a partition deleted as of a time before 1970: {deletion:?}")));
        }
        let mut header = std::mem::take(&mut self.partition.header);
        header.clear();
        put_short_bytes(&mut header, key);
        self.shape.times.put_full(&mut header, deletion);
        let static_written = self.put_static_row(static_row, &mut header);
        let partition = &mut self.partition;
        partition.header = header;
        partition.key.clear();
        partition.key.extend_from_slice(key);
        (partition.token, partition.deletion) = (token, deletion);
        partition.header_says_something = static_written? || !deletion.is_live();
        partition.header_written = false;
        (partition.start, partition.previous) = (self.data.position(), 0);
        (partition.block.is_open, partition.blocks) = (false, 0);
        partition.open_before = Deletion::LIVE;
        partition.last.at.clear();
        partition.range = None;
        self.index.start_partition();
        self.is_inside = true;
        Ok(())
    }

    /// Appends the static row, which stands in every partition if the table has static columns, else in none.
    fn put_static_row(&mut self, row: Option<&[u8]>, out: &mut Vec<u8>) -> Result<bool, Error> {
        if self.shape.statics.columns.is_empty() {
            return Ok(false);
        }
        self.body.clear();
        let mut encoder = RowEncoder {
            shape: &self.shape.statics,
            times: self.shape.times,
            collector: &mut self.collector,
        };
        let encoded = match row {
            Some(row) => encoder.encode(&RowView::new(row), &mut self.body),
            None => Ok(None),
        };
        let encoded = encoded.map_err(|what| self.invalid(what))?;
        let flags = encoded.unwrap_or_else(|| {
            let total = self.shape.statics.columns.len();
            crate::row::put_empty_subset(&mut self.body, total);
            0
        });
        out.push(flags | flags::EXTENSION);
        out.push(flags::IS_STATIC);
        base::put_uvint(out, self.body.len() as u64 + 1);
        out.push(0);
        out.extend_from_slice(&self.body);
        Ok(encoded.is_some())
    }

    /// Adds a row from its packed form. Errors: out of order, or a value of a wrong length.
    pub fn row(&mut self, clustering: &[u8], body: &[u8]) -> Result<(), Error> {
        let position =
            self.options.table.position(clustering).map_err(|error| self.invalid(error.to_string()))?;
        self.close_range_before(&position)?;
        self.check_order(&position)?;
        self.body.clear();
        let mut encoder = RowEncoder {
            shape: &self.shape.regulars,
            times: self.shape.times,
            collector: &mut self.collector,
        };
        let encoded = encoder.encode(&RowView::new(body), &mut self.body);
        let Some(flags) = encoded.map_err(|what| self.invalid(what))? else { return Ok(()) };
        self.scratch.clear();
        self.scratch.push(flags);
        let values = self.shape.clustering.put_values(clustering, &mut self.scratch);
        values.map_err(|what| self.invalid(what))?;
        self.unfiltered(Kind::Row, clustering, position)
    }

    /// Whether rows of an sstable can be added as they are: it has the same columns, of which none was ever dropped.
    pub fn carries(&self, reader: &Reader) -> bool {
        let (ours, theirs) = (&self.shape, &reader.shape);
        let whole = |column: &ColumnShape| column.ordinal.is_some() && column.dropped_at == i64::MIN;
        ours.clustering.fixed == theirs.clustering.fixed
            && ours.regulars.columns == theirs.regulars.columns
            && ours.regulars.columns.iter().all(whole)
    }

    /// Adds a row as another sstable holds it, whose times are written `from` some bases. False, and nothing done: something of it is
    /// deleted, or has expired at `expire_at`, and it goes through its packed form.
    pub(crate) fn carry(
        &mut self,
        from: Times,
        expire_at: Option<u32>,
        row: CarriedRow<'_>,
    ) -> Result<bool, Error> {
        self.body.clear();
        let times = (from, self.shape.times);
        let carried = carry_body(&self.shape.regulars, times, expire_at, &row, &mut self.body);
        let Some(seen) = carried else { return Ok(false) };
        assert!(self.partition.range.is_none(), "nothing but copying was done in the partition");
        let position =
            self.options.table.position(row.wire).map_err(|error| self.invalid(error.to_string()))?;
        self.check_order(&position)?;
        self.collector.carried_row(&seen);
        self.scratch.clear();
        self.scratch.extend_from_slice(row.head);
        self.unfiltered(Kind::Row, row.wire, position)?;
        Ok(true)
    }

    /// Adds a range tombstone. It may only start at or behind what was added before, and where the one before ends or
    /// later; rows inside it come after it. Errors: out of order.
    pub fn range_tombstone(&mut self, tombstone: &RangeTombstone) -> Result<(), Error> {
        let table = &self.options.table;
        let place =
            |bound: &mutation::Bound| bound.position(table).map_err(|error| self.invalid(error.to_string()));
        let (start_at, end_at) = (place(&tombstone.start)?, place(&tombstone.end)?);
        if start_at >= end_at || tombstone.deletion.is_live() {
            return Ok(());
        }
        let end = Prefix { kind: Kind::end(tombstone.end.side), wire: tombstone.end.prefix.to_vec() };
        let deletion = tombstone.deletion;
        let partition = &mut self.partition;
        match partition.range.take() {
            Some(open) if open.end_at == start_at && open.deletion == deletion => {
                partition.range = Some(OpenRange { end, end_at, deletion });
                return Ok(());
            }
            Some(open) if open.end_at == start_at => {
                partition.range = Some(OpenRange { end, end_at, deletion });
                let kind = Kind::boundary(tombstone.start.side);
                self.collector.deletion(deletion);
                return self.marker(kind, &tombstone.start.prefix, start_at, &[open.deletion, deletion]);
            }
            Some(open) if open.end_at > start_at => {
                return Err(self.invalid("range tombstones that overlap".to_string()));
            }
            Some(open) => self.marker(open.end.kind, &open.end.wire, open.end_at, &[open.deletion])?,
            None => {}
        }
        self.collector.deletion(deletion);
        self.partition.range = Some(OpenRange { end, end_at, deletion });
        self.marker(Kind::start(tombstone.start.side), &tombstone.start.prefix, start_at, &[deletion])
    }

    /// Writes the end of the open range if it lies before a position.
    fn close_range_before(&mut self, position: &Position) -> Result<(), Error> {
        match self.partition.range.take_if(|range| range.end_at <= *position) {
            Some(open) => self.marker(open.end.kind, &open.end.wire, open.end_at, &[open.deletion]),
            None => Ok(()),
        }
    }

    fn marker(&mut self, kind: Kind, wire: &[u8], at: Position, deletions: &[Deletion]) -> Result<(), Error> {
        self.check_order(&at)?;
        self.body.clear();
        for deletion in deletions {
            self.shape.times.put_delta(&mut self.body, *deletion);
        }
        self.scratch.clear();
        self.scratch.push(flags::IS_MARKER);
        let prefix = self.shape.clustering.put_prefix(kind, wire, &mut self.scratch);
        prefix.map_err(|what| self.invalid(what))?;
        self.unfiltered(kind, wire, at)
    }

    fn check_order(&self, position: &Position) -> Result<(), Error> {
        if position.as_bytes() > &self.partition.last.at[..] {
            return Ok(());
        }
        Err(self.invalid("rows or range tombstones out of clustering order".to_string()))
    }

    /// Writes a row or marker: the head stands in `scratch`, the body in `body`.
    fn unfiltered(&mut self, kind: Kind, wire: &[u8], at: Position) -> Result<(), Error> {
        assert!(self.is_inside, "a partition was started");
        self.write_header();
        let partition = &mut self.partition;
        let start = self.data.position() - partition.start;
        let distance = start - partition.previous;
        partition.previous = start;
        base::put_uvint(&mut self.scratch, (self.body.len() + base::uvint_len(distance)) as u64);
        base::put_uvint(&mut self.scratch, distance);
        self.data.append(&self.scratch);
        self.data.append(&self.body);

        if !partition.block.is_open {
            partition.block.is_open = true;
            partition.block.start = start;
            partition.block.first.set(kind, wire, &at);
        }
        let first = &mut self.first_place;
        if partition.last.is_nowhere() && (first.is_nowhere() || first.at[..] > at[..]) {
            first.set(kind, wire, &at);
        }
        partition.last.set(kind, wire, &at);
        let size = self.data.position() - partition.start;
        // A tombstone that the index cannot tell must not be open where a block ends.
        let told = partition.range.as_ref().is_none_or(|range| self.shape.times.fits_full(range.deletion));
        if told && self.index.is_block(size - partition.block.start, size) {
            self.end_block(0)
        } else {
            Ok(())
        }
    }

    fn write_header(&mut self) {
        if !self.partition.header_written {
            self.partition.header_written = true;
            self.data.append(&self.partition.header);
        }
    }

    /// Ends the open index block, if there is one. `more` bytes that come later belong to it.
    fn end_block(&mut self, more: u64) -> Result<(), Error> {
        let partition = &mut self.partition;
        if !std::mem::take(&mut partition.block.is_open) {
            return Ok(());
        }
        let open = partition.range.as_ref().map_or(Deletion::LIVE, |range| range.deletion);
        let mut prefixes = Buffer::with_room(partition.last.prefix.wire.len() * 2);
        let mut put = |prefix: &Prefix| {
            let put = self.shape.clustering.put_prefix(prefix.kind, &prefix.wire, &mut prefixes);
            put.expect("the same prefix was encoded before");
            prefixes.len()
        };
        let middle = put(&partition.block.first.prefix);
        put(&partition.last.prefix);
        let (first, last) = prefixes.split_at(middle);
        let start = partition.block.start;
        partition.blocks += 1;
        self.index.block(&NewBlock {
            first,
            first_at: &partition.block.first.at,
            last,
            last_at: &partition.last.at,
            offset: start,
            width: self.data.position() - partition.start - start + more,
            open_before: std::mem::replace(&mut partition.open_before, open),
            open,
        })
    }

    /// Ends the partition: closes an open range tombstone, writes the index entry.
    pub fn end_partition(&mut self) -> Result<(), Error> {
        assert!(self.is_inside, "a partition was started");
        if let Some(open) = self.partition.range.take() {
            self.marker(open.end.kind, &open.end.wire, open.end_at, &[open.deletion])?;
        }
        self.is_inside = false;
        if !self.partition.header_written && !self.partition.header_says_something {
            return Ok(());
        }
        self.write_header();
        // One block alone is no index.
        if self.partition.blocks > 0 {
            // Cassandra counts the mark of the end to the last block.
            self.end_block(1)?;
        }
        let end = self.data.position();
        self.data.append(&[flags::END_OF_PARTITION]);
        let partition = &mut self.partition;
        self.collector.partition(partition.deletion);
        self.collector.end_partition(self.data.position() - partition.start);
        let hash = base::murmur3(&partition.key);
        self.index.end_partition(&EndedPartition {
            key: &partition.key,
            token: partition.token,
            hash,
            deletion: partition.deletion,
            start: partition.start,
            header_bytes: partition.header.len() as u64,
            end_offset: end - partition.start,
        });
        if self.last_place.at < partition.last.at {
            std::mem::swap(&mut self.last_place, &mut partition.last);
        }
        if let Some(filter) = &mut self.filter {
            filter.add(hash);
        }
        self.cardinality.add(&partition.key);
        if self.partitions == 0 {
            self.first_key.clone_from(&partition.key);
        }
        self.partitions += 1;
        self.last_key.0 = partition.token;
        std::mem::swap(&mut self.last_key.1, &mut partition.key);
        Ok(())
    }

    /// Whether no partition was written yet.
    pub fn is_empty(&self) -> bool {
        self.partitions == 0
    }

    /// Uncompressed bytes of data so far.
    pub fn data_bytes(&self) -> u64 {
        self.data.position()
    }

    /// Bytes appended and not yet handed to the disk.
    pub fn pending_bytes(&self) -> usize {
        self.data.pending() + self.index.pending()
    }

    /// Hands bytes to the disk in large aligned pieces; the last piece stays for [`Writer::finish`].
    pub async fn drain(&mut self) -> Result<(), Error> {
        self.data.drain().await?;
        self.index.drain().await
    }

    /// Makes the sstable durable and visible under its name. At least one partition must have been written.
    /// Errors: the caller removes what is left with [`remove_temporary`].
    pub async fn finish(mut self) -> Result<Meta, Error> {
        assert!(!self.is_inside, "the last partition was ended");
        assert!(self.partitions > 0, "an sstable holds at least one partition");
        let (dir, descriptor) = (self.options.dir.clone(), self.descriptor());
        let version = descriptor.version;
        let mut statistics = self.statistics();
        // Each file costs a sync, which takes its time on a busy disk: they run side by side.
        let data = runtime::spawn_now(runtime::current_group(), self.data.finish(version));
        let index = self.index.finish(&self.first_key, &self.last_key.1).await;
        let (data, index) = (data.await?, index?);
        if data.compression.is_some() {
            statistics.stats.compression_ratio = data.stored_bytes as f64 / data.plain_bytes as f64;
        }
        let mut wholes = index.wholes;
        wholes.push((Component::Statistics, statistics.encode(version)));
        wholes.push((Component::Digest, data.digest.to_string().into_bytes()));
        wholes.extend(self.filter.map(|filter| (Component::Filter, filter.finish().encode(version))));
        wholes.extend(data.compression.map(|bytes| (Component::CompressionInfo, bytes)));
        wholes.extend(data.crc.map(|bytes| (Component::Crc, bytes)));
        let mut disk_bytes = data.stored_bytes + index.bytes;
        let mut components = vec![Component::Data];
        components.extend(index.paged.iter().map(|(component, _)| *component));
        let checksums = Checksums {
            pages: index.paged.into_iter().map(|(component, pages)| (component, pages.finish())).collect(),
            wholes: wholes.iter().map(|(component, bytes)| (*component, base::crc32(bytes))).collect(),
        };
        wholes.push((Component::Checksums, checksums.encode()));
        for (component, bytes) in &wholes {
            // The digest is a few digits that a reader has no reason to open.
            if *component != Component::Digest {
                disk_bytes += bytes.len() as u64;
            }
            components.push(*component);
        }
        wholes.push((Component::Toc, toc(&components)));
        write_wholes(&dir, descriptor, wholes).await?;
        publish(&dir, descriptor, &components).await?;
        let keys = (&self.first_key[..], &self.last_key.1[..]);
        Ok(Meta::from_parts(descriptor, keys, &statistics.stats, (data.plain_bytes, disk_bytes)))
    }

    /// What the statistics say, but for what the files become.
    fn statistics(&mut self) -> Statistics {
        let times = self.shape.times;
        let mut stats = std::mem::replace(&mut self.collector, Collector::new(times)).finish();
        if self.first_place.is_nowhere() {
            // Nothing lies anywhere.
            stats.clustering_start = Bound::new(&[], BoundSide::After);
            stats.clustering_end = Bound::new(&[], BoundSide::Before);
        } else {
            stats.clustering_start = self.first_place.prefix.before();
            stats.clustering_end = self.last_place.prefix.behind();
        }
        stats.level = self.options.level;
        stats.repaired_at = self.options.repaired_at;
        stats.host_id = self.options.host_id;
        stats.keys = Some((self.first_key.clone(), self.last_key.1.clone()));
        let table = &self.options.table;
        let header = header_for(table, self.options.base);
        Statistics::new(table.options.bloom_filter_fp_chance, &self.cardinality, stats, header)
    }

    /// Gives up and removes the files.
    pub async fn abandon(self) -> Result<(), Error> {
        let (dir, descriptor) = (self.options.dir.clone(), self.descriptor());
        drop(self);
        remove_temporary(&dir, descriptor).await
    }
}

/// The list of components, as `TOC.txt` has it.
fn toc(components: &[Component]) -> Vec<u8> {
    let listed = components.iter().chain([&Component::Toc]).filter(|part| **part != Component::Checksums);
    let mut listed: Vec<&str> = listed.map(|component| component.suffix()).collect();
    listed.sort_unstable();
    (listed.join("\n") + "\n").into_bytes()
}

/// Writes small files, some side by side, each durably and under its temporary name.
async fn write_wholes(
    dir: &Path,
    descriptor: Descriptor,
    wholes: Vec<(Component, Vec<u8>)>,
) -> Result<(), Error> {
    let mut files =
        wholes.into_iter().map(|(component, bytes)| (component.temporary_path(dir, descriptor), bytes));
    let mut under_way = VecDeque::new();
    let mut result = Ok(());
    loop {
        while under_way.len() < SYNCS_UNDER_WAY && result.is_ok() {
            let Some((path, bytes)) = files.next() else { break };
            let write = async move { Sink::whole(&path, bytes).await };
            under_way.push_back(runtime::spawn_now(runtime::current_group(), write));
        }
        // After an error too: the caller removes the files, none may be made after that.
        let Some(oldest) = under_way.pop_front() else { return result };
        result = result.and(oldest.await);
    }
}

/// Renames durable components to their names, and last the list of them.
async fn publish(dir: &Path, descriptor: Descriptor, components: &[Component]) -> Result<(), Error> {
    for component in components.iter().copied() {
        rename(dir, descriptor, component).await?;
    }
    runtime::file::sync_dir(dir).await.map_err(|error| Error::io(dir, "sync", error))?;
    rename(dir, descriptor, Component::Toc).await?;
    runtime::file::sync_dir(dir).await.map_err(|error| Error::io(dir, "sync", error))
}

async fn rename(dir: &Path, descriptor: Descriptor, component: Component) -> Result<(), Error> {
    let target = component.path(dir, descriptor);
    let result = runtime::file::rename(&component.temporary_path(dir, descriptor), &target).await;
    result.map_err(|error| Error::io(&target, "rename to", error))
}

/// Removes what an unfinished writer left: files under temporary names, and those already renamed.
pub async fn remove_temporary(dir: &Path, descriptor: Descriptor) -> Result<(), Error> {
    for component in Component::ALL {
        for path in [component.temporary_path(dir, descriptor), component.path(dir, descriptor)] {
            match runtime::file::remove(&path).await {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(&path, "remove", error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("dir", &self.options.dir)
            .field("descriptor", &self.descriptor())
            .finish()
    }
}
