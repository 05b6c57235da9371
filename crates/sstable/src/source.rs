//! Bytes of a data or index file as if they were neither cut into chunks nor compressed; every checksum there is, is
//! verified when a block comes off the disk.
//!
//! A file is read in blocks: chunks of a data file, pages of 4 KiB of the others. They come from the shard's [`Cache`] or
//! from one read around the kernel's page cache that brings all neighbours which are wanted with it.

use runtime::Bug;
use runtime::file::{File, OpenOptions, Turn};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::checksums::PAGE_BYTES;
use crate::compression::CompressionInfo;
use crate::error::Error;
use crate::limits::{READ_AHEAD_BYTES, STORED_SLACK_BYTES, WHOLE_COMPONENT_BYTES_MAX};
use crate::pages::blocks::{Block, Key};
use crate::pages::flight::{Failed, Flight, Landing};
use crate::pages::{Cache, Content, Purpose};

pub(crate) use crate::window::Window;

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
    content: Content,
    cache: Rc<Cache>,
    /// What its blocks are cached under.
    number: u32,
}

impl Drop for Source {
    fn drop(&mut self) {
        self.cache.drop_file(self.number);
    }
}

/// Opens a file for reading, around the kernel's page cache unless the operator wants it: blocks are cached decoded.
async fn open(path: &Path) -> Result<(File, u64), Error> {
    let direct = !Cache::of_shard().is_buffered();
    let file = File::open(path, OpenOptions { direct, ..OpenOptions::READ }).await;
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
    let bytes = file.read_exact_at(0, size as usize).await;
    bytes.map(Some).map_err(|error| failed_read(path, 0, size, error))
}

fn failed_read(path: &Path, offset: u64, size: u64, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::corrupt(path, offset, format!("{size} bytes"), "the end of the file")
        }
        _ => Error::io(path, "read", error),
    }
}

impl Source {
    /// Opens a compressed data file.
    pub(crate) async fn compressed(
        path: PathBuf,
        info: impl FnOnce(u64) -> Result<CompressionInfo, Error>,
    ) -> Result<Source, Error> {
        let (file, stored) = open(&path).await?;
        let chunks = Chunks::Compressed(info(stored)?);
        Source::new(file, path, stored, chunks, Content::Data)
    }

    /// Opens a plain file. Errors: `Corrupt` when there are not as many checksums as chunks.
    pub(crate) async fn plain(
        path: PathBuf,
        crcs: Option<(u64, Vec<u32>)>,
        content: Content,
    ) -> Result<Source, Error> {
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
            None => Chunks::Plain { chunk_length: PAGE_BYTES, crcs: None },
        };
        Source::new(file, path, stored, chunks, content)
    }

    fn new(
        file: File,
        path: PathBuf,
        stored: u64,
        chunks: Chunks,
        content: Content,
    ) -> Result<Source, Error> {
        let cache = Cache::of_shard();
        let number = cache.new_file();
        let source = Source { file, path, stored, chunks, content, cache, number };
        let blocks = source.length().div_ceil(source.block_length());
        if blocks > u64::from(u32::MAX) {
            let what = format!("a file of {blocks} blocks");
            return Err(Error::Unsupported { file: source.path.clone(), what });
        }
        Ok(source)
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

    /// How it is compressed.
    pub(crate) fn compression(&self) -> Option<&CompressionInfo> {
        match &self.chunks {
            Chunks::Compressed(info) => Some(info),
            Chunks::Plain { .. } => None,
        }
    }

    /// Plain bytes.
    pub(crate) fn length(&self) -> u64 {
        match &self.chunks {
            Chunks::Compressed(info) => info.data_length,
            Chunks::Plain { .. } => self.stored,
        }
    }

    /// Bytes of memory for checksums and offsets; cached blocks are the cache's.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match &self.chunks {
            Chunks::Compressed(info) => info.offsets.len() as u64 * 8,
            Chunks::Plain { crcs, .. } => crcs.as_ref().map_or(0, |crcs| crcs.len() as u64 * 4),
        }
    }

    /// Plain bytes of a block; the last may be shorter.
    pub(crate) fn block_length(&self) -> u64 {
        match &self.chunks {
            Chunks::Compressed(info) => u64::from(info.chunk_length),
            Chunks::Plain { chunk_length, .. } => *chunk_length,
        }
    }

    /// Plain bytes of one block.
    fn plain_size(&self, index: u32) -> usize {
        let length = self.block_length();
        length.min(self.length() - u64::from(index) * length) as usize
    }

    /// The block that holds the byte at a position.
    pub(crate) fn index_of(&self, position: u64) -> u32 {
        assert!(position < self.length(), "a block is asked for a byte of the file");
        u32::try_from(position / self.block_length()).expect("a file of more blocks was not opened")
    }

    /// Blocks that a read of about so many plain bytes covers, at least one.
    pub(crate) fn blocks_in(&self, bytes: u64) -> u32 {
        bytes.div_ceil(self.block_length()).clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Where a block starts in the file, and its bytes there.
    fn extent(&self, index: u32) -> (u64, u64) {
        match &self.chunks {
            Chunks::Compressed(info) => info.stored(index as usize, self.stored),
            Chunks::Plain { chunk_length, .. } => {
                let start = u64::from(index) * chunk_length;
                (start, (*chunk_length).min(self.stored - start))
            }
        }
    }

    fn key(&self, index: u32) -> Key {
        Key { file: self.number, index }
    }

    /// A block that is in memory.
    pub(crate) fn cached(&self, index: u32, purpose: Purpose) -> Option<Block> {
        self.cache.get(self.key(index), purpose)
    }

    /// Begins a read of the blocks from `first` to `last`, or of fewer: up to the first that is in memory or on its way.
    /// `None`: the first one is in memory. One read of the disk.
    pub(crate) fn fetch(self: &Rc<Self>, first: u32, last: u32, purpose: Purpose) -> Option<Landing> {
        let most = self.blocks_in(READ_AHEAD_BYTES) - 1;
        let last = last.min(first.saturating_add(most)).min(self.index_of(self.length() - 1));
        if purpose == Purpose::Request {
            if let Some(landing) = self.cache.join(self.key(first)) {
                return Some(landing);
            }
            if self.cache.expects(self.key(first)) {
                return None;
            }
        }
        let mut end = first;
        while end < last && (purpose == Purpose::Passing || !self.cache.expects(self.key(end + 1))) {
            end += 1;
        }
        let flight = Flight::new(first, end);
        let landing = flight.land();
        if purpose == Purpose::Request {
            self.cache.depart(self.number, &flight);
        }
        let read = fly(self.clone(), flight, purpose);
        runtime::spawn_detached_now(runtime::current_group(), read);
        Some(landing)
    }

    /// One block, from a read that may bring others along. When that failed, reads the block alone: what is wrong may be with
    /// another.
    pub(crate) async fn landed(&self, landing: &Landing, index: u32) -> Result<Block, Error> {
        match landing.block(index).await {
            Ok(block) => Ok(block),
            Err(Failed::Told(error)) if landing.range().count() == 1 => Err(error),
            Err(Failed::Told(_) | Failed::Elsewhere) => {
                let turn = self.file.turn(self.extent(index).1 as usize).await;
                let mut blocks = self.read(turn, index, index).await?;
                Ok(blocks.pop().expect("a read brings all its blocks"))
            }
        }
    }

    /// One block, with those up to `last` in the same read if it is not in memory.
    pub(crate) async fn block(
        self: &Rc<Self>,
        first: u32,
        last: u32,
        purpose: Purpose,
    ) -> Result<Block, Error> {
        loop {
            if let Some(block) = self.cached(first, purpose) {
                return Ok(block);
            }
            if let Some(landing) = self.fetch(first, last, purpose) {
                return self.landed(&landing, first).await;
            }
        }
    }

    /// Reads, checks and decodes neighbouring blocks: one operation of the disk.
    async fn read(&self, turn: Turn, first: u32, last: u32) -> Result<Vec<Block>, Error> {
        for index in first..=last {
            let (at, size) = self.extent(index);
            let most = self.block_length() * 2 + STORED_SLACK_BYTES;
            if size > most {
                return Err(Error::corrupt(
                    &self.path,
                    at,
                    format!("a chunk of at most {most} bytes"),
                    size.to_string(),
                ));
            }
        }
        let start = self.extent(first).0;
        let (last_start, last_size) = self.extent(last);
        let size = last_start + last_size - start;
        let read = self.file.read_piece_in(turn, start, size as usize).await;
        self.cache.count_read(u64::from(last - first) + 1, size);
        let piece = read.map_err(|error| failed_read(&self.path, start, size, error))?;
        self.unpack_all(first, last, &piece)
    }

    /// Checks and decodes blocks that were read in one piece.
    fn unpack_all(&self, first: u32, last: u32, piece: &[u8]) -> Result<Vec<Block>, Error> {
        let start = self.extent(first).0;
        let unpack = |index| {
            let (at, size) = self.extent(index);
            self.unpack(index, &piece[(at - start) as usize..][..size as usize]).map(Rc::new)
        };
        (first..=last).map(unpack).collect()
    }

    /// Checks and decodes one block.
    fn unpack(&self, index: u32, stored: &[u8]) -> Result<Vec<u8>, Error> {
        let at = self.extent(index).0;
        match &self.chunks {
            Chunks::Compressed(info) => self.unpack_chunk(info, index, at, stored),
            Chunks::Plain { crcs, .. } => {
                if let Some(crcs) = crcs {
                    self.check(at, crcs[index as usize], base::crc32(stored))?;
                }
                let mut out = self.cache.buffer(stored.len());
                out.copy_from_slice(stored);
                Ok(out)
            }
        }
    }

    fn unpack_chunk(
        &self,
        info: &CompressionInfo,
        index: u32,
        at: u64,
        stored: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let Some((stored, crc)) = stored.split_last_chunk::<4>() else {
            let got = format!("{} bytes", stored.len());
            return Err(Error::corrupt(&self.path, at, "a chunk with a checksum", got));
        };
        self.check(at, u32::from_be_bytes(*crc), base::crc32(stored))?;
        let plain = self.plain_size(index);
        if stored.len() as u64 >= u64::from(info.max_compressed_length) {
            let raw = stored.get(..plain).ok_or_else(|| {
                Error::corrupt(&self.path, at, format!("{plain} raw bytes"), stored.len().to_string())
            })?;
            return Ok(raw.to_vec());
        }
        let mut out = self.cache.buffer(plain);
        let result = info.compressor.decompress_into(stored, &mut out);
        result.map_err(|got| {
            let expected = format!("a {} chunk of {plain} bytes", info.compressor.class());
            Error::corrupt(&self.path, at, expected, got)
        })?;
        Ok(out)
    }

    fn check(&self, at: u64, stored: u32, computed: u32) -> Result<(), Error> {
        if stored == computed || runtime::planted(Bug::IgnoreCrc) {
            return Ok(());
        }
        Err(Error::corrupt(&self.path, at, format!("checksum {stored:#010x}"), format!("{computed:#010x}")))
    }
}

/// Reads blocks and hands them to whoever waits: the task of a flight.
async fn fly(source: Rc<Source>, flight: Rc<Flight>, purpose: Purpose) {
    let (first, last) = (*flight.range().start(), *flight.range().end());
    let (last_start, last_size) = source.extent(last);
    let size = last_start + last_size - source.extent(first).0;
    let is_found = purpose == Purpose::Request;
    // Dropped with the shard at the latest; until then whoever joins finds it.
    let Some(turn) = flight.unless_unwanted(source.file.turn(size as usize)).await else {
        source.cache.count_unwanted();
        if is_found {
            source.cache.arrive(source.number, &flight);
        }
        return;
    };
    let blocks = source.read(turn, first, last).await;
    if is_found {
        source.cache.arrive(source.number, &flight);
        for (index, block) in blocks.iter().flatten().enumerate() {
            source.cache.keep(source.key(first + index as u32), block, source.content);
        }
    }
    flight.finish(blocks);
}

#[cfg(test)]
mod tests;
