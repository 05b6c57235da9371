//! What comes out of a merge: sstables one after the other, cut where the task says, never inside a token.

use super::strategy::{Shape, Split};
use crate::Error;
use crate::manifest::SstableEntry;
use crate::store::Store;
use crate::table::{Sstable, TableStore};
use base::Token;
use mutation::TokenRange;
use schema::Table;
use sstable::{CompressionChoice, Descriptor, EncodingStats, Meta, Reader, Version, Writer, WriterOptions};
use std::rc::Rc;
use std::sync::Arc;

/// Stored bytes of an sstable that is not cut into halves again, as in Cassandra.
const HALF_BYTES_MIN: u64 = 50 << 20;
/// Room in filters for keys that are not where they were expected.
const KEYS_MARGIN: f64 = 1.1;

/// The sstables of one merge.
pub(super) struct Output<'a> {
    store: &'a Store,
    table: &'a TableStore,
    definition: Arc<Table>,
    shape: Shape,
    base: EncodingStats,
    version: Version,
    repaired_at: i64,
    /// Partitions of all inputs, and the tokens they span.
    keys: u64,
    span: Option<(Token, Token)>,
    /// Stored bytes of all inputs, and how many of them one plain byte makes.
    stored_bytes: u64,
    ratio: f64,
    /// Stored bytes of the next of halving sstables, and of the last.
    half: u64,
    half_min: u64,
    writer: Option<(u64, Writer)>,
    last: Option<Token>,
    /// Finished and not yet handed over.
    ready: Vec<Rc<Sstable>>,
    pub(super) bytes_out: u64,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        store: &'a Store,
        table: &'a TableStore,
        definition: Arc<Table>,
        shape: Shape,
        inputs: &[Rc<Sstable>],
    ) -> Output<'a> {
        let metas = || inputs.iter().map(|input| &input.entry.meta);
        let base = metas().map(|meta| meta.encoding_stats()).reduce(lower).unwrap_or(EncodingStats::EPOCH);
        let stored_bytes: u64 = inputs.iter().map(|input| input.reader.footprint().stored_bytes).sum();
        let plain_bytes: u64 = metas().map(|meta| meta.data_bytes).sum();
        Output {
            store,
            table,
            definition,
            shape,
            version: store.settings.version_of_new(metas().any(Meta::may_delete_early)),
            base,
            // What is merged with something that no repair has seen was not seen by one.
            repaired_at: metas().map(|meta| meta.repaired_at).min().unwrap_or(0),
            keys: metas().map(|meta| meta.partitions).sum(),
            span: metas()
                .map(|meta| (meta.first_token, meta.last_token))
                .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))),
            stored_bytes,
            ratio: stored_bytes as f64 / plain_bytes.max(1) as f64,
            half: stored_bytes / 2,
            // Simulated tables are small.
            half_min: if runtime::simulated() { 1_000 } else { HALF_BYTES_MIN },
            writer: None,
            last: None,
            ready: Vec::new(),
            bytes_out: 0,
        }
    }

    /// Whether the open sstable ends before the next partition.
    pub(super) fn ends_before(&self, token: Token) -> bool {
        let (Some((_, writer)), Some(last)) = (&self.writer, self.last) else { return false };
        let stored = || (writer.data_bytes() as f64 * self.ratio) as u64;
        let ends = match self.shape.split {
            Split::Whole => false,
            Split::Bytes(bytes) => bytes <= stored() || runtime::rare("small_sstables"),
            Split::Parts(parts) => self.part(last, parts) != self.part(token, parts),
            Split::Halves => self.half_min <= self.half && self.half <= stored(),
        };
        ends && last != token
    }

    /// Which of so many equal parts of the shard's tokens a token is in.
    fn part(&self, token: Token, parts: u32) -> u64 {
        let TokenRange { first, last } = self.store.interval;
        let width = (i128::from(last.0) - i128::from(first.0) + 1) as u128;
        let offset = (i128::from(token.0) - i128::from(first.0)).max(0) as u128;
        (offset.min(width - 1) * u128::from(parts) / width) as u64
    }

    /// Partitions that the next sstable is expected to have.
    fn expected_keys(&self) -> u64 {
        let share = match self.shape.split {
            Split::Whole => 1.0,
            Split::Bytes(bytes) => bytes as f64 / self.stored_bytes.max(1) as f64,
            Split::Parts(parts) => {
                let reached = |(first, last)| self.part(last, parts) - self.part(first, parts) + 1;
                1.0 / self.span.map_or(1, reached) as f64
            }
            Split::Halves => self.half as f64 / self.stored_bytes.max(1) as f64,
        };
        ((self.keys as f64 * share * KEYS_MARGIN) as u64).clamp(1, self.keys.max(1))
    }

    /// The writer for a partition of this token; a new one when none is open.
    pub(super) async fn open(&mut self, token: Token) -> Result<&mut Writer, Error> {
        self.last = Some(token);
        if self.writer.is_none() {
            let generation = self.table.take_generation()?;
            let writer = Writer::create(WriterOptions {
                dir: self.table.dir.clone(),
                version: self.version,
                generation,
                table: self.definition.clone(),
                estimated_keys: self.expected_keys(),
                compression: CompressionChoice::Table,
                base: self.base,
                host_id: self.store.settings.host_id,
                level: self.shape.level,
                repaired_at: self.repaired_at,
            });
            self.writer = Some((generation, writer.await?));
        }
        Ok(self.writer())
    }

    /// The writer that is open, and its generation.
    pub(super) fn open_writer(&self) -> (u64, &Writer) {
        let (generation, writer) = self.writer.as_ref().expect("a partition was begun");
        (*generation, writer)
    }

    /// The writer that is open.
    pub(super) fn writer(&mut self) -> &mut Writer {
        &mut self.writer.as_mut().expect("a partition was begun").1
    }

    /// Bytes that wait for the disk.
    pub(super) fn pending_bytes(&self) -> usize {
        self.writer.as_ref().map_or(0, |(_, writer)| writer.pending_bytes())
    }

    /// Ends the open sstable, if there is one; when nothing was written to it, it leaves no trace.
    pub(super) async fn end(&mut self) -> Result<(), Error> {
        let Some((generation, writer)) = self.writer.take() else { return Ok(()) };
        if writer.is_empty() {
            writer.abandon().await?;
            return Ok(());
        }
        let dir = &self.table.dir;
        let meta = match writer.finish().await {
            Ok(meta) => meta,
            Err(error) => {
                // What is left is removed now or, failing that, by the next start.
                let descriptor = Descriptor::new(self.version, generation);
                let _ = sstable::remove_temporary(dir, descriptor).await;
                return Err(error.into());
            }
        };
        self.half /= 2;
        let reader = Reader::open(dir, meta.descriptor(), self.definition.clone()).await?;
        self.bytes_out += reader.footprint().stored_bytes;
        self.ready.push(Sstable::new(SstableEntry { meta, ranges: Vec::new() }, reader, None));
        Ok(())
    }

    /// Hands over what is finished.
    pub(super) fn take_ready(&mut self) -> Vec<Rc<Sstable>> {
        std::mem::take(&mut self.ready)
    }

    /// Gives up what was not handed over.
    pub(super) async fn discard(mut self) -> Vec<Rc<Sstable>> {
        if let Some((_, writer)) = self.writer.take()
            && let Err(error) = writer.abandon().await
        {
            runtime::warn!("an unfinished sstable stays until the next start: {error}");
        }
        self.ready
    }
}

fn lower(a: EncodingStats, b: EncodingStats) -> EncodingStats {
    EncodingStats {
        min_timestamp: a.min_timestamp.min(b.min_timestamp),
        min_local_time: a.min_local_time.min(b.min_local_time),
        min_ttl: a.min_ttl.min(b.min_ttl),
    }
}
