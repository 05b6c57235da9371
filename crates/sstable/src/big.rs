//! Finding partitions by `Index.db` and its summary, and writing both.

use base::Token;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::checksums::{Checksums, PageChecksums};
use crate::component::{Component, Descriptor};
use crate::cursor::Decoded;
use crate::deletion::Times;
use crate::error::Error;
use crate::index::{EntryHead, NewBlock, Promoted, PromotedWriter, take_entry};
use crate::limits::{BIG_BLOCK_BYTES, PROMOTED_BYTES_BEFORE_GROWTH, SUMMARY_INTERVAL};
use crate::lookup::{EndedPartition, Found, IndexSink, RowsAt, read_sound};
use crate::pages::Content;
use crate::row_index::PromotedAt;
use crate::source::{Source, Window};
use crate::summary::Summary;

/// The index of an open sstable: the list of keys on disk, the summary in memory.
pub(crate) struct BigIndex {
    index: Rc<Source>,
    summary: Summary,
    data_bytes: u64,
    times: Times,
}

impl BigIndex {
    /// Opens the files. A missing or broken summary is rebuilt from the index.
    pub(crate) async fn open(
        dir: &Path,
        descriptor: Descriptor,
        known: &Checksums,
        data_bytes: u64,
        times: Times,
        disk_bytes: &mut u64,
    ) -> Result<BigIndex, Error> {
        let pages = known.pages_of(Component::Index);
        let index =
            Rc::new(Source::plain(Component::Index.path(dir, descriptor), pages, Content::Index).await?);
        *disk_bytes += index.stored_bytes();
        let file = Component::Summary.path(dir, descriptor);
        let bytes = read_sound(&file, Component::Summary, known, disk_bytes).await?;
        let summary = match bytes.and_then(|bytes| Summary::decode(&file, &bytes, index.length()).ok()) {
            Some(summary) => summary,
            None => rebuild_summary(&index).await?,
        };
        Ok(BigIndex { index, summary, data_bytes, times })
    }

    /// First and last key.
    pub(crate) fn keys(&self) -> (&[u8], &[u8]) {
        (self.summary.first_key(), self.summary.last_key())
    }

    /// Bytes of memory: of the summary, and of checksums.
    pub(crate) fn memory_bytes(&self) -> (u64, u64) {
        (self.summary.bytes(), self.index.memory_bytes())
    }

    /// Looks a key up.
    pub(crate) async fn find(&self, key: &[u8], token: Token) -> Result<Option<Found>, Error> {
        let start = self.summary.floor(token, key);
        let end = self.summary.next_after(start).unwrap_or(u64::MAX);
        let mut window = Window::point(self.index.clone(), start);
        while window.position() < end && !window.is_at_end() {
            let room = end - window.position();
            let passed = window.decode(|bytes| pass_others(bytes, key, room)).await?;
            self.step(&mut window, passed)?;
            if passed >= room || window.is_at_end() {
                break;
            }
            let (same, entry, at) = self.entry(&mut window, |found| found == key).await?;
            if same {
                let rows = match entry.promoted_size {
                    0 => RowsAt::Nowhere,
                    size => RowsAt::Promoted { position: at + entry.size, size },
                };
                return Ok(Some(Found { data_position: entry.data_position, rows, certain: true }));
            }
        }
        Ok(None)
    }

    /// The first partition at or behind a token: its token and where it starts in the data.
    pub(crate) async fn first_from(&self, token: Token) -> Result<Option<(Token, u64)>, Error> {
        let start = self.summary.floor(token, &[]);
        let mut window = Window::point(self.index.clone(), start);
        while !window.is_at_end() {
            let (found, entry, _) = self.entry(&mut window, Token::of_key).await?;
            if found >= token {
                return Ok(Some((found, entry.data_position)));
            }
        }
        Ok(None)
    }

    /// Where in the data the first partition behind a key starts.
    pub(crate) async fn behind(&self, key: &[u8], token: Token) -> Result<Option<u64>, Error> {
        let mut window = Window::point(self.index.clone(), self.summary.floor(token, key));
        while !window.is_at_end() {
            let is_behind = |found: &[u8]| (Token::of_key(found), found) > (token, key);
            let (is_behind, entry, _) = self.entry(&mut window, is_behind).await?;
            if is_behind {
                return Ok(Some(entry.data_position));
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
        self.step(window, entry.size.saturating_add(entry.promoted_size))?;
        if entry.data_position >= self.data_bytes {
            let expected = format!("a position below {}", self.data_bytes);
            return Err(Error::corrupt(window.path(), at, expected, entry.data_position.to_string()));
        }
        Ok((seen, entry, at))
    }

    /// Steps over entries. Errors: `Corrupt` when they go on behind the end of the file.
    fn step(&self, window: &mut Window, size: u64) -> Result<(), Error> {
        let at = window.position();
        window.consume(size);
        if window.position() > self.index.length() {
            let expected = format!("entries that end by {}", self.index.length());
            return Err(Error::corrupt(window.path(), at, expected, window.position().to_string()));
        }
        Ok(())
    }

    /// The promoted index that was found.
    pub(crate) async fn promoted(&self, position: u64, size: u64) -> Result<PromotedAt, Error> {
        let mut window = Window::point(self.index.clone(), position);
        let promoted = window.decode(|bytes| Promoted::take(self.times, size, bytes)).await?;
        Ok(PromotedAt::new(self.index.clone(), position, promoted))
    }
}

/// Bytes of the entries of other keys before `room` ends, as far as they are in memory: a lookup passes half an interval of
/// the summary.
fn pass_others(bytes: &[u8], key: &[u8], room: u64) -> Decoded<u64> {
    let mut passed = 0;
    while passed < room {
        let Some(rest) = usize::try_from(passed).ok().and_then(|passed| bytes.get(passed..)) else { break };
        if let Some(size) = other_entry(rest, key) {
            passed += size as u64;
            continue;
        }
        match take_entry(rest) {
            Ok((found, _)) if found == key => break,
            Ok((_, entry)) => passed = passed.saturating_add(entry.size).saturating_add(entry.promoted_size),
            // What is not whole here is read by whoever comes to it.
            Err(_) => break,
        }
    }
    Ok(passed)
}

/// Bytes of an entry of another key that has no promoted index, or a short one; without looking at more than it must.
#[inline]
fn other_entry(bytes: &[u8], key: &[u8]) -> Option<usize> {
    let length = usize::from(u16::from_be_bytes(*bytes.first_chunk()?));
    let found = bytes.get(2..2 + length)?;
    // Most keys of one length differ in their last byte already.
    if length == key.len() && found.last() == key.last() && found == key {
        return None;
    }
    // A varint has as many bytes behind the first as that has leading ones.
    let promoted_at = 3 + length + bytes.get(2 + length)?.leading_ones() as usize;
    let promoted = *bytes.get(promoted_at)?;
    (promoted < 0x80).then_some(promoted_at + 1 + usize::from(promoted))
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

/// Writes index and summary.
pub(crate) struct BigWriter {
    index: IndexSink,
    summary: Summary,
    /// Keys between two of the summary.
    interval: u32,
    promoted: PromotedWriter,
    partitions: u64,
    times: Times,
}

impl BigWriter {
    /// Creates the index file.
    pub(crate) async fn create(index: PathBuf, interval: u32, times: Times) -> Result<BigWriter, Error> {
        Ok(BigWriter {
            index: IndexSink::create(index).await?,
            summary: Summary::default(),
            interval,
            promoted: PromotedWriter::default(),
            partitions: 0,
            times,
        })
    }

    /// Forgets the blocks of the partition before.
    pub(crate) fn start_partition(&mut self) {
        self.promoted.clear();
    }

    /// Adds a block of the partition. Errors: `TooLarge` beyond 2 GiB of index for one partition.
    pub(crate) fn block(&mut self, block: &NewBlock<'_>) -> Result<(), Error> {
        self.promoted.push(self.times, block);
        let bytes = self.promoted.bytes();
        if i32::try_from(bytes).is_err() {
            let limit = i32::MAX as u64;
            return Err(Error::TooLarge { what: "the index of a partition", size: bytes as u64, limit });
        }
        Ok(())
    }

    /// Writes the entry of the partition.
    pub(crate) fn end_partition(&mut self, ended: &EndedPartition<'_>) {
        if self.partitions.is_multiple_of(u64::from(self.interval)) {
            self.summary.push(ended.token, ended.key, self.index.position());
        }
        self.partitions += 1;
        let (times, promoted) = (self.times, &self.promoted);
        self.index.append_with(|out| {
            promoted.put_entry(times, ended.key, ended.start, ended.header_bytes, ended.deletion, out);
        });
    }

    /// Bytes that wait for the disk. The promoted index of the open partition does not: it is written with the entry.
    pub(crate) fn pending(&self) -> usize {
        self.index.pending()
    }

    /// Whether a block of so many bytes is large enough in a partition of so many.
    pub(crate) fn is_block(&self, block: u64, partition: u64) -> bool {
        let least = match self.promoted.bytes() {
            // Not smaller than blocks are on average: their number grows with the logarithm of the partition's size.
            PROMOTED_BYTES_BEFORE_GROWTH.. => partition / self.promoted.count(),
            _ => 0,
        };
        block >= BIG_BLOCK_BYTES.max(least)
    }

    /// As [`crate::sink::Sink::drain`].
    pub(crate) async fn drain(&mut self) -> Result<(), Error> {
        self.index.drain().await
    }

    /// Makes the index durable; returns its size, the checksums of its pages, and the summary.
    pub(crate) async fn finish(
        mut self,
        first: &[u8],
        last: &[u8],
    ) -> Result<(u64, PageChecksums, Vec<u8>), Error> {
        self.summary.set_range(first, last);
        let summary = self.summary.encode(self.interval)?;
        let (bytes, pages) = self.index.finish().await?;
        Ok((bytes, pages, summary))
    }
}
