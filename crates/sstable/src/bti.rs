//! Finding partitions and rows by the tries of `Partitions.db` and `Rows.db`, and writing both.

use base::Token;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::checksums::{Checksums, PageChecksums};
use crate::component::{Component, Descriptor};
use crate::cursor::Fault;
use crate::deletion::Times;
use crate::error::Error;
use crate::index::NewBlock;
use crate::lookup::{EndedPartition, Found, IndexSink, Readable, RowsAt};
use crate::pages::Content;
use crate::partitions::{self, FOOTER_BYTES, Footer, PartitionEntry, PartitionsWriter, Place, take_keys};
use crate::rows::{self, BlockStart, RowsEntry, RowsWriter};
use crate::source::{Source, Window};
use crate::unfiltered::take_partition;

/// The index of an open sstable. In memory: the first and the last key.
pub(crate) struct BtiIndex {
    partitions: Rc<Source>,
    rows: Rc<Source>,
    data: Rc<Source>,
    times: Times,
    footer: Footer,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

impl BtiIndex {
    /// Opens the files.
    pub(crate) async fn open(
        dir: &Path,
        descriptor: Descriptor,
        known: &Checksums,
        data: Rc<Source>,
        times: Times,
        disk_bytes: &mut u64,
    ) -> Result<BtiIndex, Error> {
        let open = |component: Component| {
            Source::plain(component.path(dir, descriptor), known.pages_of(component), Content::Index)
        };
        let partitions = Rc::new(open(Component::Partitions).await?);
        let rows = Rc::new(open(Component::Rows).await?);
        *disk_bytes += partitions.stored_bytes() + rows.stored_bytes();
        let bytes = partitions.length();
        let Some(footer_at) = bytes.checked_sub(FOOTER_BYTES) else {
            return Err(Error::corrupt(partitions.path(), 0, "a footer", format!("{bytes} bytes")));
        };
        let mut window = Window::point(partitions.clone(), footer_at);
        let footer = window.decode(|rest| match rest.len() as u64 {
            FOOTER_BYTES.. => Footer::take(rest, footer_at),
            loaded => Err(Fault::Short { at: loaded, wanted: FOOTER_BYTES - loaded }),
        });
        let footer = footer.await?;
        let mut window = Window::point(partitions.clone(), footer.keys_at);
        let (first_key, last_key) = window.decode(take_keys).await?;
        Ok(BtiIndex { partitions, rows, data, times, footer, first_key, last_key })
    }

    /// First and last key.
    pub(crate) fn keys(&self) -> (&[u8], &[u8]) {
        (&self.first_key, &self.last_key)
    }

    /// Bytes of memory: of keys, and of checksums.
    pub(crate) fn memory_bytes(&self) -> (u64, u64) {
        let keys = (self.first_key.len() + self.last_key.len()) as u64;
        (keys, self.partitions.memory_bytes() + self.rows.memory_bytes())
    }

    /// Looks a key up. What is found may be another partition unless it is certain.
    pub(crate) async fn find(&self, key: &[u8], token: Token) -> Result<Option<Found>, Error> {
        let (root, hash) = (self.footer.root, base::murmur3(key).1 as u8);
        let entry = self.partitions.look(|pages| partitions::find(pages, root, token, key, hash)).await?;
        match entry.map(|entry| entry.place) {
            None => Ok(None),
            Some(Place::Data(data_position)) => {
                self.check(data_position, self.data.length())?;
                Ok(Some(Found { data_position, rows: RowsAt::Nowhere, certain: false }))
            }
            Some(Place::Rows(position)) => {
                let entry = self.rows_entry(position).await?;
                if entry.key != key {
                    return Ok(None);
                }
                let rows = RowsAt::Trie { root: entry.root };
                Ok(Some(Found { data_position: entry.data_position, rows, certain: true }))
            }
        }
    }

    /// Errors: `Corrupt` when the index names a place behind the end of a file.
    fn check(&self, position: u64, length: u64) -> Result<(), Error> {
        if position < length {
            return Ok(());
        }
        let expected = format!("a position below {length}");
        Err(Error::corrupt(self.partitions.path(), self.footer.root, expected, position.to_string()))
    }

    pub(crate) async fn rows_entry(&self, position: u64) -> Result<RowsEntry, Error> {
        self.check(position, self.rows.length())?;
        let mut window = Window::point(self.rows.clone(), position);
        let entry = window.decode(|bytes| rows::take_entry(bytes, position)).await?;
        if entry.data_position >= self.data.length() {
            let expected = format!("a position below {}", self.data.length());
            return Err(Error::corrupt(
                self.rows.path(),
                position,
                expected,
                entry.data_position.to_string(),
            ));
        }
        Ok(entry)
    }

    /// The trie of a partition that was found.
    pub(crate) fn row_trie(&self, root: u64) -> RowTrie {
        RowTrie { rows: self.rows.clone(), root }
    }

    /// The first partition at or behind a token: its token and where it starts in the data.
    pub(crate) async fn first_from(&self, token: Token) -> Result<Option<(Token, u64)>, Error> {
        let root = self.footer.root;
        let near = self.partitions.look(|pages| partitions::first_near(pages, root, token)).await?;
        let Some(near) = near else { return Ok(None) };
        let found = self.resolve(near.payload).await?;
        if found.0 >= token {
            return Ok(Some(found));
        }
        let next = self.partitions.look(|pages| partitions::next(pages, root, &near.path)).await?;
        match next {
            Some(next) => self.resolve(next.payload).await.map(Some),
            None => Ok(None),
        }
    }

    /// Where in the data the first partition behind a key starts.
    pub(crate) async fn behind(&self, key: &[u8], token: Token) -> Result<Option<u64>, Error> {
        let (root, path) = (self.footer.root, partitions::comparable(token, key));
        let near = self.partitions.look(|pages| partitions::near(pages, root, &path)).await?;
        let Some(near) = near else { return Ok(None) };
        let (found, position) = self.key_at(near.payload).await?;
        // The trie has the beginnings of keys: that of one before may be one of this one as well.
        if (Token::of_key(&found), &found[..]) > (token, key) {
            return Ok(Some(position));
        }
        let next = self.partitions.look(|pages| partitions::next(pages, root, &near.path)).await?;
        match next.map(|next| next.payload.place) {
            None => Ok(None),
            Some(Place::Rows(position)) => Ok(Some(self.rows_entry(position).await?.data_position)),
            Some(Place::Data(position)) => {
                self.check(position, self.data.length())?;
                Ok(Some(position))
            }
        }
    }

    /// The first partition at or behind a token whose key can be read. Keys stand in the data alone.
    pub(crate) async fn first_readable(&self, token: Token) -> Result<Readable, Error> {
        let root = self.footer.root;
        let mut found = Readable::default();
        let mut near = self.partitions.look(|pages| partitions::first_near(pages, root, token)).await?;
        // A broken trie may have ways without end.
        for _ in 0..self.footer.count {
            let Some(entry) = near else { break };
            let at = match entry.payload.place {
                Place::Rows(position) => Ok(Token::of_key(&self.rows_entry(position).await?.key)),
                Place::Data(position) => {
                    self.check(position, self.data.length())?;
                    self.resolve(entry.payload).await.map(|(token, _)| token)
                }
            };
            match at {
                Ok(at) if at >= token => {
                    found.token = Some(at);
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    found.unreadable += 1;
                    found.error.get_or_insert(error);
                }
            }
            near = self.partitions.look(|pages| partitions::next(pages, root, &entry.path)).await?;
        }
        Ok(found)
    }

    /// How many partitions there are.
    pub(crate) fn count(&self) -> u64 {
        self.footer.count
    }

    /// Errors: `Corrupt`, about the trie of partitions.
    pub(crate) fn broken(&self, expected: &str, got: impl std::fmt::Display) -> Error {
        Error::corrupt(self.partitions.path(), self.footer.root, expected, got.to_string())
    }

    /// The entry behind the one that a path leads to; without one, the first.
    pub(crate) async fn next_entry(
        &self,
        path: Option<&[u8]>,
    ) -> Result<Option<crate::trie::Found<PartitionEntry>>, Error> {
        let root = self.footer.root;
        let entry = match path {
            Some(path) => self.partitions.look(|pages| partitions::next(pages, root, path)).await?,
            None => self.partitions.look(|pages| partitions::first(pages, root)).await?,
        };
        if let Some(Place::Data(position)) = entry.as_ref().map(|entry| entry.payload.place) {
            self.check(position, self.data.length())?;
        }
        Ok(entry)
    }

    /// The token and place in the data of a partition, from its key.
    async fn resolve(&self, entry: PartitionEntry) -> Result<(Token, u64), Error> {
        let (key, position) = self.key_at(entry).await?;
        Ok((Token::of_key(&key), position))
    }

    /// The key of a partition and its place in the data.
    async fn key_at(&self, entry: PartitionEntry) -> Result<(Vec<u8>, u64), Error> {
        match entry.place {
            Place::Rows(position) => {
                let entry = self.rows_entry(position).await?;
                Ok((entry.key, entry.data_position))
            }
            Place::Data(position) => {
                self.check(position, self.data.length())?;
                let mut key = Vec::new();
                let mut window = Window::point(self.data.clone(), position);
                window.decode(|bytes| take_partition(self.times, bytes, &mut key)).await?;
                Ok((key, position))
            }
        }
    }
}

/// The row index of one partition.
pub(crate) struct RowTrie {
    rows: Rc<Source>,
    root: u64,
}

impl RowTrie {
    /// The last block that starts at or before a place, or before it only; the first block starts before all.
    pub(crate) async fn floor(
        &self,
        place: &[u8],
        strictly: bool,
    ) -> Result<Option<rows::Found<BlockStart>>, Error> {
        let root = self.root;
        self.rows.look(|pages| rows::floor(pages, root, place, strictly)).await
    }

    /// As [`RowTrie::floor`], where there must be one.
    pub(crate) async fn block(&self, place: &[u8], strictly: bool) -> Result<rows::Found<BlockStart>, Error> {
        let missing = || Error::corrupt(self.rows.path(), self.root, "an entry for the first block", "none");
        self.floor(place, strictly).await?.ok_or_else(missing)
    }
}

/// Writes both files.
pub(crate) struct BtiWriter {
    partitions: IndexSink,
    keys: PartitionsWriter,
    rows: IndexSink,
    blocks: RowsWriter,
}

impl BtiWriter {
    /// Creates the files.
    pub(crate) async fn create(partitions: PathBuf, rows: PathBuf) -> Result<BtiWriter, Error> {
        Ok(BtiWriter {
            partitions: IndexSink::create(partitions).await?,
            keys: PartitionsWriter::default(),
            rows: IndexSink::create(rows).await?,
            blocks: RowsWriter::default(),
        })
    }

    /// Forgets the blocks of the partition before.
    pub(crate) fn start_partition(&mut self) {
        self.blocks.clear();
    }

    /// Adds a block of the partition.
    pub(crate) fn block(&mut self, block: &NewBlock<'_>) {
        let start = BlockStart { offset: block.offset, open: block.open_before };
        self.blocks.push(block.first_at, block.last_at, start, &mut self.rows);
    }

    /// Writes the entry of the partition.
    pub(crate) fn end_partition(&mut self, ended: &EndedPartition<'_>) {
        let rows = &mut self.rows;
        let at = self.blocks.finish(ended.key, ended.start, ended.deletion, ended.end_offset, rows);
        let place = at.map_or(Place::Data(ended.start), Place::Rows);
        self.keys.add(ended.token, ended.key, ended.hash.1 as u8, place, &mut self.partitions);
    }

    /// Bytes in memory.
    pub(crate) fn pending(&self) -> usize {
        self.partitions.pending() + self.rows.pending()
    }

    /// As [`crate::sink::Sink::drain`].
    pub(crate) async fn drain(&mut self) -> Result<(), Error> {
        self.rows.drain().await?;
        self.partitions.drain().await
    }

    /// Makes both durable; returns the size of both, and the checksums of the pages of each.
    pub(crate) async fn finish(
        mut self,
        first: &[u8],
        last: &[u8],
    ) -> Result<(u64, PageChecksums, PageChecksums), Error> {
        self.keys.finish(first, last, &mut self.partitions);
        let rows = runtime::spawn_now(runtime::current_group(), self.rows.finish());
        let partitions = self.partitions.finish().await;
        let ((row_bytes, row_pages), (partition_bytes, partition_pages)) = (rows.await?, partitions?);
        Ok((partition_bytes + row_bytes, partition_pages, row_pages))
    }
}
