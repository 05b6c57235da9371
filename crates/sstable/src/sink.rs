//! Files being written: bytes are appended at once and handed to the disk when the owner waits for it.
//!
//! ```text
//! append ─► buffer ─ drain ─► a write under way, and one more ─► finish waits for all, then for the sync
//! ```
//! The disk works on one piece while the next is made. A write that fails is told by the next `drain` or by `finish`.

use runtime::JoinHandle;
use runtime::file::{AlignedBuf, File, OpenOptions};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::compression::{Compression, CompressionInfo, Encoder};
use crate::error::Error;
use crate::limits::{PLAIN_CHUNK_BYTES, WRITE_BYTES, WRITES_UNDER_WAY};
use crate::version::Version;

/// Alignment of every write but the last.
const ALIGNMENT: usize = 4096;
/// What is appended in larger pieces is not compressed in the same step.
const LARGE_BYTES: usize = 64 * 1024;
/// Largest single write.
const WRITE_BYTES_MAX: usize = 8 * WRITE_BYTES;

/// One file, written from front to back under a temporary name.
pub(crate) struct Sink {
    file: Rc<File>,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Bytes handed over, a multiple of the alignment until the end.
    written: u64,
    under_way: VecDeque<JoinHandle<std::io::Result<AlignedBuf>>>,
    /// Buffers that were written: memory that is there already.
    spare: Vec<AlignedBuf>,
    /// A write has failed.
    failed: bool,
}

impl Sink {
    /// Creates the file, or empties a leftover of an earlier attempt.
    pub(crate) async fn create(path: PathBuf) -> Result<Sink, Error> {
        let options = OpenOptions {
            read: false,
            write: true,
            create: true,
            create_new: false,
            truncate: true,
            direct: true,
        };
        let file = File::open(&path, options).await.map_err(|error| Error::io(&path, "create", error))?;
        let (buffer, under_way, spare) = (Vec::new(), VecDeque::new(), Vec::new());
        Ok(Sink { file: Rc::new(file), path, buffer, written: 0, under_way, spare, failed: false })
    }

    /// The buffer, to append to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Bytes appended in all.
    pub(crate) fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Bytes not yet handed over.
    pub(crate) fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// Hands over whole aligned pieces, if there is enough for one worth its cost. Waits while as many are under way as may be.
    pub(crate) async fn drain(&mut self) -> Result<(), Error> {
        self.drain_seen(|_| {}).await
    }

    /// As [`Sink::drain`]; shows what is handed over, once and in order.
    pub(crate) async fn drain_seen(&mut self, mut see: impl FnMut(&[u8])) -> Result<(), Error> {
        while self.buffer.len() >= WRITE_BYTES {
            let size = (self.buffer.len() / ALIGNMENT * ALIGNMENT).min(WRITE_BYTES_MAX);
            see(&self.buffer[..size]);
            self.write(size).await?;
        }
        Ok(())
    }

    async fn write(&mut self, size: usize) -> Result<(), Error> {
        self.whole_so_far()?;
        while self.under_way.len() >= WRITES_UNDER_WAY {
            self.wait_for_oldest().await?;
        }
        let mut aligned = self.spare.pop().unwrap_or_default();
        aligned.clear();
        aligned.extend_from_slice(&self.buffer[..size]);
        aligned.pad_to_alignment();
        let (file, at) = (self.file.clone(), self.written);
        let write = async move { file.write_at(at, aligned).await };
        self.under_way.push_back(runtime::spawn_now(runtime::current_group(), write));
        self.buffer.drain(..size);
        self.written += size as u64;
        Ok(())
    }

    async fn wait_for_oldest(&mut self) -> Result<(), Error> {
        let Some(oldest) = self.under_way.front_mut() else { return Ok(()) };
        let written = oldest.await;
        self.under_way.pop_front();
        match written {
            Ok(buffer) => {
                self.spare.push(buffer);
                Ok(())
            }
            Err(error) => {
                self.failed = true;
                Err(Error::io(&self.path, "write", error))
            }
        }
    }

    /// An error when a write has failed before: the file has a hole.
    fn whole_so_far(&self) -> Result<(), Error> {
        if !self.failed {
            return Ok(());
        }
        let error = std::io::Error::other("an earlier write failed");
        Err(Error::io(&self.path, "write", error))
    }

    /// Writes the rest and makes the file durable under its temporary name.
    pub(crate) async fn finish(mut self) -> Result<(), Error> {
        self.whole_so_far()?;
        while self.buffer.len() > WRITE_BYTES_MAX {
            self.write(WRITE_BYTES_MAX).await?;
        }
        let rest = self.buffer.len();
        if rest > 0 {
            self.write(rest).await?;
        }
        while !self.under_way.is_empty() {
            self.wait_for_oldest().await?;
        }
        let trim = !(rest as u64).is_multiple_of(ALIGNMENT as u64);
        if trim {
            let result = self.file.truncate(self.written).await;
            result.map_err(|error| Error::io(&self.path, "truncate", error))?;
        }
        if runtime::planted(runtime::Bug::ManifestBeforeData) {
            return Ok(());
        }
        self.file.sync_data().await.map_err(|error| Error::io(&self.path, "sync", error))
    }

    /// Writes a whole small file durably.
    pub(crate) async fn whole(path: &Path, bytes: Vec<u8>) -> Result<(), Error> {
        let mut sink = Sink::create(path.to_path_buf()).await?;
        sink.buffer = bytes;
        sink.finish().await
    }
}

/// How the data file's chunks are stored.
enum Storage {
    Compressed { compression: Compression, encoder: Encoder, offsets: Vec<u64> },
    Plain { crcs: Vec<u32> },
}

/// The data file: cut into chunks, each with a checksum.
pub(crate) struct DataSink {
    sink: Sink,
    storage: Storage,
    chunk: Vec<u8>,
    /// Bytes behind the open chunk, still to be cut: a large row, and what was appended after it.
    ahead: Vec<u8>,
    /// So many of them are cut.
    ahead_cut: usize,
    chunk_length: usize,
    /// Bytes of the chunks before the open one.
    flushed: u64,
    digest: base::Crc32,
}

/// What the other components need to know about a finished data file.
pub(crate) struct DataSummary {
    /// Uncompressed bytes.
    pub(crate) plain_bytes: u64,
    /// Bytes in the file.
    pub(crate) stored_bytes: u64,
    /// CRC-32 of the file.
    pub(crate) digest: u32,
    /// `CompressionInfo.db`.
    pub(crate) compression: Option<Vec<u8>>,
    /// `CRC.db`.
    pub(crate) crc: Option<Vec<u8>>,
}

impl DataSink {
    /// Creates the data file; without compression: plain bytes with checksums apart.
    pub(crate) async fn create(path: PathBuf, compression: Option<Compression>) -> Result<DataSink, Error> {
        let (storage, chunk_length) = match compression {
            Some(compression) => {
                let chunk_length = compression.chunk_length;
                let encoder = Encoder::new(&compression);
                let encoder = encoder.map_err(|what| Error::Unsupported { file: path.clone(), what })?;
                (Storage::Compressed { compression, encoder, offsets: Vec::new() }, chunk_length)
            }
            None => (Storage::Plain { crcs: Vec::new() }, PLAIN_CHUNK_BYTES as usize),
        };
        let chunk = Vec::with_capacity(chunk_length);
        let sink = Sink::create(path).await?;
        Ok(DataSink {
            sink,
            storage,
            chunk,
            ahead: Vec::new(),
            ahead_cut: 0,
            chunk_length,
            flushed: 0,
            digest: base::Crc32::new(),
        })
    }

    /// Uncompressed bytes appended so far.
    pub(crate) fn position(&self) -> u64 {
        self.flushed + (self.chunk.len() + self.ahead.len() - self.ahead_cut) as u64
    }

    /// Bytes held in memory.
    pub(crate) fn pending(&self) -> usize {
        self.sink.pending() + self.chunk.len() + self.ahead.len() - self.ahead_cut
    }

    /// Appends bytes; full chunks are compressed at once, but for those of a large row: they wait for [`DataSink::drain`].
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if bytes.len() > LARGE_BYTES || !self.ahead.is_empty() {
            self.ahead.extend_from_slice(bytes);
        } else {
            self.cut(bytes);
        }
    }

    fn cut(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(self.chunk_length - self.chunk.len()));
            self.chunk.extend_from_slice(head);
            if self.chunk.len() == self.chunk_length {
                self.end_chunk();
            }
            bytes = tail;
        }
    }

    fn end_chunk(&mut self) {
        let position = self.sink.position();
        let out = self.sink.buffer();
        let start = out.len();
        match &mut self.storage {
            Storage::Compressed { compression, encoder, offsets } => {
                offsets.push(position);
                compression.put_chunk(encoder, &self.chunk, out);
                let crc = base::crc32(&out[start..]);
                out.extend_from_slice(&crc.to_be_bytes());
            }
            Storage::Plain { crcs } => {
                out.extend_from_slice(&self.chunk);
                crcs.push(base::crc32(&self.chunk));
            }
        }
        self.digest.update(&out[start..]);
        self.flushed += self.chunk.len() as u64;
        self.chunk.clear();
    }

    /// As [`Sink::drain`]. Yields while it compresses what waits for that.
    pub(crate) async fn drain(&mut self) -> Result<(), Error> {
        while !self.ahead.is_empty() {
            let ahead = std::mem::take(&mut self.ahead);
            let end = ahead.len().min(self.ahead_cut + LARGE_BYTES);
            self.cut(&ahead[self.ahead_cut..end]);
            if end < ahead.len() {
                (self.ahead, self.ahead_cut) = (ahead, end);
            } else {
                self.ahead_cut = 0;
            }
            self.sink.drain().await?;
            runtime::yield_if_needed().await;
        }
        self.sink.drain().await
    }

    /// Ends the last chunk, writes the rest and makes the file durable.
    pub(crate) async fn finish(mut self, version: Version) -> Result<DataSummary, Error> {
        self.drain().await?;
        if !self.chunk.is_empty() {
            self.end_chunk();
        }
        let (plain_bytes, stored_bytes) = (self.flushed, self.sink.position());
        self.sink.finish().await?;
        let (mut compression, mut crc) = (None, None);
        match self.storage {
            Storage::Compressed { compression: of_table, offsets, .. } => {
                let info = CompressionInfo {
                    compressor: of_table.compressor,
                    options: of_table.options,
                    chunk_length: self.chunk_length as u32,
                    max_compressed_length: of_table.max_compressed_length,
                    data_length: plain_bytes,
                    offsets,
                };
                compression = Some(info.encode(version));
            }
            Storage::Plain { crcs } => {
                let mut bytes = (self.chunk_length as i32).to_be_bytes().to_vec();
                crcs.iter().for_each(|crc| bytes.extend_from_slice(&crc.to_be_bytes()));
                crc = Some(bytes);
            }
        }
        Ok(DataSummary { plain_bytes, stored_bytes, digest: self.digest.finalize(), compression, crc })
    }
}
