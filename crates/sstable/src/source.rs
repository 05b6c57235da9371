//! Bytes of a data or index file as if they were neither cut into chunks nor compressed; every chunk's checksum is
//! verified when it comes off the disk.

use runtime::Bug;
use runtime::file::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::compression::CompressionInfo;
use crate::cursor::{Decoded, Fault};
use crate::error::Error;
use crate::limits::{INDEX_READ_BYTES, READ_AHEAD_BYTES, WHOLE_COMPONENT_BYTES_MAX};

/// How a file is cut.
enum Chunks {
    /// Compressed, with a checksum behind each chunk.
    Compressed(CompressionInfo),
    /// Plain; checksums of chunks of this many bytes, where they are known.
    Plain { chunk_length: u64, crcs: Option<Vec<u32>> },
}

/// An open file.
pub(crate) struct Source {
    file: File,
    path: PathBuf,
    /// Bytes in the file.
    stored: u64,
    chunks: Chunks,
}

/// Opens a file for reading, through the page cache: it is the only cache of chunks there is.
async fn open(path: &Path) -> Result<(File, u64), Error> {
    let file = File::open(path, OpenOptions::READ).await;
    let file = file.map_err(|error| Error::io(path, "open", error))?;
    let size = file.size().await.map_err(|error| Error::io(path, "read the size of", error))?;
    Ok((file, size))
}

/// Reads a whole component; `None` when it does not exist.
pub(crate) async fn read_whole(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let (file, size) = match open(path).await {
        Ok(opened) => opened,
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if size > WHOLE_COMPONENT_BYTES_MAX {
        return Err(Error::corrupt(
            path,
            0,
            format!("at most {WHOLE_COMPONENT_BYTES_MAX} bytes"),
            size.to_string(),
        ));
    }
    read_exact(&file, path, 0, size).await.map(Some)
}

async fn read_exact(file: &File, path: &Path, offset: u64, size: u64) -> Result<Vec<u8>, Error> {
    match file.read_exact_at(offset, size as usize).await {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(Error::corrupt(path, offset, format!("{size} bytes"), "the end of the file"))
        }
        Err(error) => Err(Error::io(path, "read", error)),
    }
}

impl Source {
    /// Opens a compressed data file.
    pub(crate) async fn compressed(
        path: PathBuf,
        info: impl FnOnce(u64) -> Result<CompressionInfo, Error>,
    ) -> Result<Source, Error> {
        let (file, stored) = open(&path).await?;
        Ok(Source { file, stored, chunks: Chunks::Compressed(info(stored)?), path })
    }

    /// Opens a plain file. Errors: `Corrupt` when there are not as many checksums as chunks.
    pub(crate) async fn plain(path: PathBuf, crcs: Option<(u64, Vec<u32>)>) -> Result<Source, Error> {
        let (file, stored) = open(&path).await?;
        let chunks = match crcs {
            Some((chunk_length, crcs)) => {
                // Cassandra's compaction leaves the checksum of an empty chunk at the end.
                let chunks = stored.div_ceil(chunk_length);
                if chunks > crcs.len() as u64 || chunks + 1 < crcs.len() as u64 {
                    let expected = format!("{} chunks of {chunk_length} bytes", crcs.len());
                    return Err(Error::corrupt(&path, 0, expected, format!("{stored} bytes")));
                }
                Chunks::Plain { chunk_length, crcs: Some(crcs) }
            }
            None => Chunks::Plain { chunk_length: 4096, crcs: None },
        };
        Ok(Source { file, path, stored, chunks })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in the file.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.stored
    }

    /// Whether what is stored is compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        matches!(self.chunks, Chunks::Compressed(_))
    }

    /// Plain bytes.
    pub(crate) fn length(&self) -> u64 {
        match &self.chunks {
            Chunks::Compressed(info) => info.data_length,
            Chunks::Plain { .. } => self.stored,
        }
    }

    /// Bytes of memory for checksums and offsets.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match &self.chunks {
            Chunks::Compressed(info) => info.offsets.len() as u64 * 8,
            Chunks::Plain { crcs, .. } => crcs.as_ref().map_or(0, |crcs| crcs.len() as u64 * 4),
        }
    }

    fn chunk_length(&self) -> u64 {
        match &self.chunks {
            Chunks::Compressed(info) => u64::from(info.chunk_length),
            Chunks::Plain { chunk_length, .. } => *chunk_length,
        }
    }

    /// Appends the plain bytes of whole chunks: from `start`, which is the start of a chunk, at least `size` bytes or
    /// up to the end. One read.
    async fn read(&self, start: u64, size: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let length = self.chunk_length();
        assert!(start.is_multiple_of(length) && start < self.length(), "reads start at a chunk");
        let end = start.saturating_add(size.max(1)).min(self.length());
        let (first, last) = ((start / length) as usize, ((end - 1) / length) as usize);
        match &self.chunks {
            Chunks::Compressed(info) => self.read_compressed(info, first, last, out).await,
            Chunks::Plain { crcs, .. } => {
                let end = ((last as u64 + 1) * length).min(self.stored);
                let bytes = read_exact(&self.file, &self.path, start, end - start).await?;
                for (index, chunk) in bytes.chunks(length as usize).enumerate() {
                    if let Some(crcs) = crcs {
                        self.check(start + index as u64 * length, crcs[first + index], base::crc32(chunk))?;
                    }
                }
                out.extend_from_slice(&bytes);
                Ok(())
            }
        }
    }

    async fn read_compressed(
        &self,
        info: &CompressionInfo,
        first: usize,
        last: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let start = info.stored(first, self.stored).0;
        let (last_start, last_size) = info.stored(last, self.stored);
        let bytes = read_exact(&self.file, &self.path, start, last_start + last_size - start).await?;
        let length = u64::from(info.chunk_length);
        for index in first..=last {
            let (at, size) = info.stored(index, self.stored);
            let stored = &bytes[(at - start) as usize..][..size as usize];
            let Some((stored, crc)) = stored.split_last_chunk::<4>() else {
                return Err(Error::corrupt(
                    &self.path,
                    at,
                    "a chunk with a checksum",
                    format!("{size} bytes"),
                ));
            };
            self.check(at, u32::from_be_bytes(*crc), base::crc32(stored))?;
            let plain = length.min(info.data_length - index as u64 * length) as usize;
            if stored.len() as u64 >= u64::from(info.max_compressed_length) {
                let raw = stored.get(..plain).ok_or_else(|| {
                    Error::corrupt(&self.path, at, format!("{plain} raw bytes"), stored.len().to_string())
                })?;
                out.extend_from_slice(raw);
                continue;
            }
            let result = info.compressor.decompress(stored, plain, out);
            result.map_err(|got| {
                let expected = format!("a {} chunk of {plain} bytes", info.compressor.class());
                Error::corrupt(&self.path, at, expected, got)
            })?;
        }
        Ok(())
    }

    fn check(&self, at: u64, stored: u32, computed: u32) -> Result<(), Error> {
        if stored == computed || runtime::planted(Bug::IgnoreCrc) {
            return Ok(());
        }
        Err(Error::corrupt(&self.path, at, format!("checksum {stored:#010x}"), format!("{computed:#010x}")))
    }
}

/// A place in a file and the bytes around it that are in memory.
pub(crate) struct Window {
    source: Rc<Source>,
    /// Where `buffer` starts.
    base: u64,
    buffer: Vec<u8>,
    position: u64,
    /// Bytes of the next read; doubles up to the limit.
    ahead: u64,
}

impl Window {
    /// A window for a lookup: reads little at first.
    pub(crate) fn point(source: Rc<Source>, position: u64) -> Window {
        Window { source, base: 0, buffer: Vec::new(), position, ahead: INDEX_READ_BYTES }
    }

    /// A window for a scan: reads far ahead.
    pub(crate) fn scan(source: Rc<Source>, position: u64) -> Window {
        Window { source, base: 0, buffer: Vec::new(), position, ahead: READ_AHEAD_BYTES }
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        self.source.path()
    }

    /// The place.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The bytes from the place on that are in memory.
    pub(crate) fn rest(&self) -> &[u8] {
        let skipped = self.position.saturating_sub(self.base).min(self.buffer.len() as u64);
        &self.buffer[skipped as usize..]
    }

    /// Goes forward.
    pub(crate) fn consume(&mut self, size: u64) {
        self.position = self.position.saturating_add(size);
    }

    /// Goes anywhere.
    pub(crate) fn seek(&mut self, position: u64) {
        if position < self.base {
            self.buffer.clear();
        }
        self.position = position;
    }

    /// Whether the place is at or behind the end of the file.
    pub(crate) fn is_at_end(&self) -> bool {
        self.position >= self.source.length()
    }

    /// Reads at least `wanted` bytes behind those in memory; false when the file has not so many.
    async fn more(&mut self, wanted: u64) -> Result<bool, Error> {
        let loaded = self.rest().len() as u64;
        let enough = self.position.saturating_add(loaded).saturating_add(wanted);
        if enough > self.source.length() {
            return Ok(false);
        }
        let chunk_length = self.source.chunk_length();
        if loaded == 0 {
            self.buffer.clear();
            self.base = self.position / chunk_length * chunk_length;
        } else {
            self.buffer.drain(..self.buffer.len() - loaded as usize);
            self.base = self.position;
        }
        let start = self.base + self.buffer.len() as u64;
        let size = (enough - start).max(self.ahead.min(self.source.length() - start));
        self.source.read(start, size, &mut self.buffer).await?;
        self.ahead = (self.ahead * 2).min(READ_AHEAD_BYTES.max(chunk_length));
        runtime::yield_if_needed().await;
        Ok(true)
    }

    /// Decodes something at the place, reading more until it is all there. Does not move. `decode` may run several
    /// times and must fail with `Short` before it has effects.
    pub(crate) async fn decode<T>(
        &mut self,
        mut decode: impl FnMut(&[u8]) -> Decoded<T>,
    ) -> Result<T, Error> {
        loop {
            match decode(self.rest()) {
                Ok(value) => return Ok(value),
                Err(Fault::Short { at, wanted }) => {
                    if !self.more(wanted.max(1)).await? {
                        return Err(Fault::Short { at, wanted }.in_file(self.path(), self.position));
                    }
                }
                Err(fault) => return Err(fault.in_file(self.path(), self.position)),
            }
        }
    }

    /// Makes sure that so many bytes from the place on are in memory.
    pub(crate) async fn require(&mut self, size: u64) -> Result<(), Error> {
        self.decode(|bytes| match size.saturating_sub(bytes.len() as u64) {
            0 => Ok(()),
            wanted => Err(Fault::Short { at: bytes.len() as u64, wanted }),
        })
        .await
    }
}
