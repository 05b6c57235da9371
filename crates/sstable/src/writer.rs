//! Writes one sstable: appends are synchronous into memory, the owner waits for the disk when it wants to.
//!
//! Partitions come in ring order; inside one, rows and range tombstones come by where they start, tombstones disjoint.
//! The writer makes markers of the tombstones, the promoted index of wide partitions, and exact statistics. Files carry
//! `.tmp` until all are durable; `TOC.txt` is last. Layout: `docs/formats/sstable-nb.md`.

use base::Token;
use mutation::{Deletion, RangeTombstone, RowView};
use schema::{Position, Table, clustering_components};
use std::path::PathBuf;
use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::checksums::{Checksums, PageChecksums};
use crate::clustering::{Kind, Prefix};
use crate::collector::Collector;
use crate::component::Component;
use crate::compression::Compressor;
use crate::cursor::put_short_bytes;
use crate::deletion::{put_delta, put_full};
use crate::error::Error;
use crate::filter::Filter;
use crate::index::{NewBlock, PromotedWriter};
use crate::limits::{INDEX_BLOCK_BYTES, INDEX_BLOCKS_BEFORE_GROWTH, KEY_BYTES_MAX, SUMMARY_INTERVAL};
use crate::meta::Meta;
use crate::row::{RowEncoder, flags};
use crate::shape::{Shape, header_for};
use crate::sink::{DataSink, Sink};
use crate::statistics::{EncodingStats, Statistics};
use crate::summary::Summary;

/// What a new sstable is and where it goes.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The table's folder; it exists.
    pub dir: PathBuf,
    /// A number not used in the folder before.
    pub generation: u64,
    /// The table, at least as new as the rows to be written: cells of columns it does not have are left out.
    pub table: Arc<Table>,
    /// About how many partitions come; sizes the filter.
    pub estimated_keys: u64,
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

/// The partition being written.
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
    /// Where the open index block starts, from `start`; its first prefix, empty when no block is open.
    block_start: u64,
    block_first: Vec<u8>,
    last: Prefix,
    last_at: Vec<u8>,
    range: Option<OpenRange>,
}

/// Writes one sstable. Dropping it leaves files named `.tmp` behind; see [`Writer::abandon`].
pub struct Writer {
    options: WriterOptions,
    shape: Shape,
    data: DataSink,
    index: Sink,
    index_pages: PageChecksums,
    filter: Option<Filter>,
    summary: Summary,
    cardinality: Cardinality,
    collector: Collector,
    promoted: PromotedWriter,
    partition: Option<OpenPartition>,
    partitions: u64,
    first_key: Vec<u8>,
    last_key: (Token, Vec<u8>),
    min_clustering: Option<(Vec<u8>, Vec<u8>)>,
    max_clustering: Option<(Vec<u8>, Vec<u8>)>,
    scratch: Vec<u8>,
    body: Vec<u8>,
}

impl Writer {
    /// Creates the data and index files under temporary names.
    /// Errors: `Io`; `Unsupported` when the table asks for a compressor this crate cannot write.
    pub async fn create(options: WriterOptions) -> Result<Writer, Error> {
        let path = |component: Component| component.temporary_path(&options.dir, options.generation);
        let compressor = match options.table.options.compressor() {
            None => None,
            Some(class) => Some(Compressor::of_class(class).ok_or_else(|| Error::Unsupported {
                file: path(Component::Data),
                what: format!("compressor \"{class}\""),
            })?),
        };
        let chunk_length = options.table.options.chunk_bytes();
        let data = DataSink::create(path(Component::Data), compressor, chunk_length).await?;
        let index = Sink::create(path(Component::Index)).await?;
        Ok(Writer {
            shape: Shape::for_writing(&options.table, options.base),
            data,
            index,
            index_pages: PageChecksums::default(),
            filter: Filter::for_keys(options.estimated_keys, options.table.options.bloom_filter_fp_chance),
            summary: Summary::default(),
            cardinality: Cardinality::default(),
            collector: Collector::new(),
            promoted: PromotedWriter::default(),
            partition: None,
            partitions: 0,
            first_key: Vec::new(),
            last_key: (Token::MIN, Vec::new()),
            min_clustering: None,
            max_clustering: None,
            scratch: Vec::new(),
            body: Vec::new(),
            options,
        })
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
        assert!(self.partition.is_none(), "the partition before was ended");
        if key.len() > KEY_BYTES_MAX {
            let (size, limit) = (key.len() as u64, KEY_BYTES_MAX as u64);
            return Err(Error::TooLarge { what: "a partition key", size, limit });
        }
        if self.partitions > 0 && (self.last_key.0, &self.last_key.1[..]) >= (token, key) {
            return Err(self.invalid(format!("partitions out of ring order at token {token}")));
        }
        let mut header = Vec::with_capacity(64 + key.len());
        put_short_bytes(&mut header, key);
        put_full(&mut header, deletion);
        let static_written = self.put_static_row(static_row, &mut header)?;
        self.promoted.clear();
        self.partition = Some(OpenPartition {
            key: key.to_vec(),
            token,
            deletion,
            header,
            header_says_something: static_written || !deletion.is_live(),
            header_written: false,
            start: self.data.position(),
            previous: 0,
            block_start: 0,
            block_first: Vec::new(),
            last: Prefix { kind: Kind::Row, wire: Vec::new() },
            last_at: Vec::new(),
            range: None,
        });
        Ok(())
    }

    /// Appends the static row, which stands in every partition if the table has static columns, else in none.
    fn put_static_row(&mut self, row: Option<&[u8]>, out: &mut Vec<u8>) -> Result<bool, Error> {
        if self.shape.statics.columns.is_empty() {
            return Ok(false);
        }
        self.body.clear();
        let mut encoder =
            RowEncoder { shape: &self.shape.statics, base: self.shape.base, collector: &mut self.collector };
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
        let mut encoder =
            RowEncoder { shape: &self.shape.regulars, base: self.shape.base, collector: &mut self.collector };
        let encoded = encoder.encode(&RowView::new(body), &mut self.body);
        let Some(flags) = encoded.map_err(|what| self.invalid(what))? else { return Ok(()) };
        self.scratch.clear();
        self.scratch.push(flags);
        let values = self.shape.clustering.put_values(clustering, &mut self.scratch);
        values.map_err(|what| self.invalid(what))?;
        self.unfiltered(Kind::Row, clustering, position)
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
        let partition = self.partition.as_mut().expect("a partition was started");
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
        let partition = self.partition.as_mut().expect("a partition was started");
        partition.range = Some(OpenRange { end, end_at, deletion });
        self.marker(Kind::start(tombstone.start.side), &tombstone.start.prefix, start_at, &[deletion])
    }

    /// Writes the end of the open range if it lies before a position.
    fn close_range_before(&mut self, position: &Position) -> Result<(), Error> {
        let partition = self.partition.as_mut().expect("a partition was started");
        match partition.range.take_if(|range| range.end_at <= *position) {
            Some(open) => self.marker(open.end.kind, &open.end.wire, open.end_at, &[open.deletion]),
            None => Ok(()),
        }
    }

    fn marker(&mut self, kind: Kind, wire: &[u8], at: Position, deletions: &[Deletion]) -> Result<(), Error> {
        self.check_order(&at)?;
        self.body.clear();
        for deletion in deletions {
            put_delta(&mut self.body, *deletion, self.shape.base);
        }
        self.scratch.clear();
        self.scratch.push(flags::IS_MARKER);
        let prefix = self.shape.clustering.put_prefix(kind, wire, &mut self.scratch);
        prefix.map_err(|what| self.invalid(what))?;
        self.unfiltered(kind, wire, at)
    }

    fn check_order(&self, position: &Position) -> Result<(), Error> {
        let partition = self.partition.as_ref().expect("a partition was started");
        if position.as_bytes() > &partition.last_at[..] {
            return Ok(());
        }
        Err(self.invalid("rows or range tombstones out of clustering order".to_string()))
    }

    /// Writes a row or marker: the head stands in `scratch`, the body in `body`.
    fn unfiltered(&mut self, kind: Kind, wire: &[u8], at: Position) -> Result<(), Error> {
        self.write_header();
        let partition = self.partition.as_mut().expect("a partition was started");
        let start = self.data.position() - partition.start;
        let distance = start - partition.previous;
        partition.previous = start;
        base::put_uvint(&mut self.scratch, (self.body.len() + base::uvint_len(distance)) as u64);
        base::put_uvint(&mut self.scratch, distance);
        self.data.append(&self.scratch);
        self.data.append(&self.body);

        if partition.block_first.is_empty() {
            partition.block_start = start;
            let prefix = self.shape.clustering.put_prefix(kind, wire, &mut partition.block_first);
            prefix.expect("the same prefix was encoded before");
        }
        if partition.last_at.is_empty() && self.min_clustering.as_ref().is_none_or(|min| min.0[..] > at[..]) {
            self.min_clustering = Some((at.to_vec(), wire.to_vec()));
        }
        partition.last.kind = kind;
        partition.last.wire.clear();
        partition.last.wire.extend_from_slice(wire);
        partition.last_at.clear();
        partition.last_at.extend_from_slice(&at);
        let size = self.data.position() - partition.start;
        let block_bytes = INDEX_BLOCK_BYTES.max(size / INDEX_BLOCKS_BEFORE_GROWTH);
        if size - partition.block_start >= block_bytes { self.end_block() } else { Ok(()) }
    }

    fn write_header(&mut self) {
        let partition = self.partition.as_mut().expect("a partition was started");
        if !partition.header_written {
            partition.header_written = true;
            self.data.append(&partition.header);
        }
    }

    /// Ends the open index block, if there is one.
    fn end_block(&mut self) -> Result<(), Error> {
        let partition = self.partition.as_mut().expect("a partition was started");
        if partition.block_first.is_empty() {
            return Ok(());
        }
        let block = NewBlock {
            first: &partition.block_first,
            last: (partition.last.kind, &partition.last.wire),
            offset: partition.block_start,
            width: self.data.position() - partition.start - partition.block_start,
            open: partition.range.as_ref().map_or(Deletion::LIVE, |range| range.deletion),
        };
        self.promoted.push(&self.shape.clustering, &block).expect("the same prefixes were encoded before");
        partition.block_first.clear();
        let bytes = self.promoted.bytes();
        if i32::try_from(bytes).is_err() {
            let limit = i32::MAX as u64;
            return Err(Error::TooLarge { what: "the index of a partition", size: bytes as u64, limit });
        }
        Ok(())
    }

    /// Ends the partition: closes an open range tombstone, writes the index entry.
    pub fn end_partition(&mut self) -> Result<(), Error> {
        let partition = self.partition.as_mut().expect("a partition was started");
        if let Some(open) = partition.range.take() {
            self.marker(open.end.kind, &open.end.wire, open.end_at, &[open.deletion])?;
        }
        let partition = self.partition.as_ref().expect("a partition was started");
        if !partition.header_written && !partition.header_says_something {
            self.partition = None;
            return Ok(());
        }
        self.write_header();
        self.end_block()?;
        self.data.append(&[flags::END_OF_PARTITION]);
        let partition = self.partition.take().expect("a partition was started");
        self.collector.deletion(partition.deletion);
        self.collector.end_partition(self.data.position() - partition.start);
        if !partition.last_at.is_empty()
            && self.max_clustering.as_ref().is_none_or(|max| max.0 < partition.last_at)
        {
            self.max_clustering = Some((partition.last_at, partition.last.wire));
        }
        if self.partitions.is_multiple_of(u64::from(self.summary_interval())) {
            self.summary.push(partition.token, &partition.key, self.index.position());
        }
        let header_length = partition.header.len() as u64;
        let out = self.index.buffer();
        let entry_at = out.len();
        self.promoted.put_entry(&partition.key, partition.start, header_length, partition.deletion, out);
        self.index_pages.update(&out[entry_at..]);
        if let Some(filter) = &mut self.filter {
            filter.add(base::murmur3(&partition.key));
        }
        self.cardinality.add(&partition.key);
        if self.partitions == 0 {
            self.first_key.clone_from(&partition.key);
        }
        self.partitions += 1;
        self.last_key = (partition.token, partition.key);
        Ok(())
    }

    fn summary_interval(&self) -> u32 {
        u32::try_from(self.options.table.options.min_index_interval)
            .map_or(SUMMARY_INTERVAL, |interval| interval.max(1))
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
        self.data.pending() + self.index.pending() + self.promoted.bytes()
    }

    /// Hands bytes to the disk in large aligned pieces; the last piece stays for [`Writer::finish`].
    pub async fn drain(&mut self) -> Result<(), Error> {
        self.data.drain().await?;
        self.index.drain().await
    }

    /// Makes the sstable durable and visible under its name. At least one partition must have been written.
    /// Errors: the caller removes what is left with [`remove_temporary`].
    pub async fn finish(mut self) -> Result<Meta, Error> {
        assert!(self.partition.is_none(), "the last partition was ended");
        assert!(self.partitions > 0, "an sstable holds at least one partition");
        let (dir, generation) = (self.options.dir.clone(), self.options.generation);
        let temporary = |component: Component| component.temporary_path(&dir, generation);
        self.summary.set_range(&self.first_key, &self.last_key.1);
        let summary = self.summary.encode(self.summary_interval())?;
        let index_bytes = self.index.position();
        self.index.finish().await?;
        let data = self.data.finish().await?;

        let mut stats = self.collector.finish();
        stats.min_clustering = legacy_values(self.min_clustering.as_ref());
        stats.max_clustering = legacy_values(self.max_clustering.as_ref());
        if data.compression.is_some() {
            stats.compression_ratio = data.stored_bytes as f64 / data.plain_bytes as f64;
        }
        stats.level = self.options.level;
        stats.repaired_at = self.options.repaired_at;
        stats.host_id = self.options.host_id;
        let table = &self.options.table;
        let header = header_for(table, self.options.base);
        let fp_chance = table.options.bloom_filter_fp_chance;
        let mut statistics = Statistics::new(fp_chance, &self.cardinality, stats, header);

        let mut wholes = vec![
            (Component::Summary, summary),
            (Component::Statistics, statistics.encode()),
            (Component::Digest, data.digest.to_string().into_bytes()),
        ];
        wholes.extend(self.filter.map(|filter| (Component::Filter, filter.encode())));
        wholes.extend(data.compression.map(|bytes| (Component::CompressionInfo, bytes)));
        wholes.extend(data.crc.map(|bytes| (Component::Crc, bytes)));
        let mut disk_bytes = data.stored_bytes + index_bytes;
        let mut components = vec![Component::Data, Component::Index];
        let checksums = Checksums {
            pages: vec![(Component::Index, self.index_pages.finish())],
            wholes: wholes.iter().map(|(component, bytes)| (*component, base::crc32(bytes))).collect(),
        };
        wholes.push((Component::Checksums, checksums.encode()));
        for (component, bytes) in wholes {
            // The digest is a few digits that a reader has no reason to open.
            if component != Component::Digest {
                disk_bytes += bytes.len() as u64;
            }
            components.push(component);
            Sink::whole(&temporary(component), bytes).await?;
        }
        publish(&dir, generation, &components).await?;
        let keys = (&self.first_key[..], &self.last_key.1[..]);
        Ok(Meta::from_parts(generation, keys, &statistics.stats, (data.plain_bytes, disk_bytes)))
    }

    /// Gives up and removes the files.
    pub async fn abandon(self) -> Result<(), Error> {
        let (dir, generation) = (self.options.dir.clone(), self.options.generation);
        drop(self);
        remove_temporary(&dir, generation).await
    }
}

/// Renames durable components to their names, then makes the list of them durable.
async fn publish(dir: &std::path::Path, generation: u64, components: &[Component]) -> Result<(), Error> {
    let mut toc = String::new();
    let ours = |component: &Component| *component == Component::Checksums;
    for component in components.iter().copied().filter(|component| !ours(component)).chain([Component::Toc]) {
        toc.push_str(component.suffix());
        toc.push('\n');
    }
    Sink::whole(&Component::Toc.temporary_path(dir, generation), toc.into_bytes()).await?;
    for component in components.iter().copied() {
        rename(dir, generation, component).await?;
    }
    runtime::file::sync_dir(dir).await.map_err(|error| Error::io(dir, "sync", error))?;
    rename(dir, generation, Component::Toc).await?;
    runtime::file::sync_dir(dir).await.map_err(|error| Error::io(dir, "sync", error))
}

async fn rename(dir: &std::path::Path, generation: u64, component: Component) -> Result<(), Error> {
    let target = component.path(dir, generation);
    let result = runtime::file::rename(&component.temporary_path(dir, generation), &target).await;
    result.map_err(|error| Error::io(&target, "rename to", error))
}

/// Removes what an unfinished writer left: files under temporary names, and those already renamed.
pub async fn remove_temporary(dir: &std::path::Path, generation: u64) -> Result<(), Error> {
    for component in Component::ALL {
        for path in [component.temporary_path(dir, generation), component.path(dir, generation)] {
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

/// The values of a prefix for the statistics; empty, which means unbounded, when one of them is null.
fn legacy_values(prefix: Option<&(Vec<u8>, Vec<u8>)>) -> Vec<Vec<u8>> {
    let Some((_, wire)) = prefix else { return Vec::new() };
    let values = clustering_components(wire).map(|value| value.ok().flatten().map(<[u8]>::to_vec));
    let values: Option<Vec<Vec<u8>>> = values.collect();
    values.filter(|values| values.iter().all(|value| value.len() <= KEY_BYTES_MAX)).unwrap_or_default()
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("dir", &self.options.dir)
            .field("generation", &self.options.generation)
            .finish()
    }
}
