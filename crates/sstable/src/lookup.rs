//! The index of an sstable, whichever format it has: what readers ask and what the writer tells it.

use base::Token;
use mutation::Deletion;
use std::path::{Path, PathBuf};

use crate::big::{BigIndex, BigWriter};
use crate::bti::{BtiIndex, BtiWriter};
use crate::checksums::{Checksums, PageChecksums};
use crate::component::Component;
use crate::error::Error;
use crate::index::NewBlock;
use crate::limits::BTI_BLOCK_BYTES;
use crate::row_index::RowIndex;
use crate::sink::Sink;
use crate::source::read_whole;
use crate::trie_writer::TrieSink;

/// A partition that can be read, and those before it that cannot.
#[derive(Debug, Default)]
pub struct Readable {
    /// Its token; `None`: there is none.
    pub token: Option<Token>,
    /// How many partitions before it cannot even be named.
    pub unreadable: u64,
    /// What is wrong with the first of them.
    pub error: Option<Error>,
}

/// Where a partition is.
pub(crate) struct Found {
    /// In uncompressed bytes of the data file.
    pub(crate) data_position: u64,
    /// Its row index.
    pub(crate) rows: RowsAt,
    /// Whether it is the partition of the key; otherwise the key in the data tells.
    pub(crate) certain: bool,
}

/// Where the row index of a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowsAt {
    /// It is too small for one.
    Nowhere,
    /// In `Index.db`.
    Promoted { position: u64, size: u64 },
    /// In `Rows.db`.
    Trie { root: u64 },
}

/// The index of an open sstable.
pub(crate) enum Index {
    /// A list of keys.
    Big(BigIndex),
    /// Tries.
    Bti(BtiIndex),
}

impl Index {
    /// First and last key.
    pub(crate) fn keys(&self) -> (&[u8], &[u8]) {
        match self {
            Index::Big(index) => index.keys(),
            Index::Bti(index) => index.keys(),
        }
    }

    /// Bytes of memory: of keys, and of checksums.
    pub(crate) fn memory_bytes(&self) -> (u64, u64) {
        match self {
            Index::Big(index) => index.memory_bytes(),
            Index::Bti(index) => index.memory_bytes(),
        }
    }

    /// Looks a key up.
    pub(crate) async fn find(&self, key: &[u8], token: Token) -> Result<Option<Found>, Error> {
        match self {
            Index::Big(index) => index.find(key, token).await,
            Index::Bti(index) => index.find(key, token).await,
        }
    }

    /// The first partition at or behind a token: its token and where it starts in the data.
    pub(crate) async fn first_from(&self, token: Token) -> Result<Option<(Token, u64)>, Error> {
        match self {
            Index::Big(index) => index.first_from(token).await,
            Index::Bti(index) => index.first_from(token).await,
        }
    }

    /// Where in the data the first partition behind a key starts.
    pub(crate) async fn behind(&self, key: &[u8], token: Token) -> Result<Option<u64>, Error> {
        match self {
            Index::Big(index) => index.behind(key, token).await,
            Index::Bti(index) => index.behind(key, token).await,
        }
    }

    /// As [`Index::first_from`], past partitions whose keys cannot be read.
    pub(crate) async fn first_readable(&self, token: Token) -> Result<Readable, Error> {
        match self {
            Index::Big(index) => {
                let token = index.first_from(token).await?.map(|(token, _)| token);
                Ok(Readable { token, ..Readable::default() })
            }
            Index::Bti(index) => index.first_readable(token).await,
        }
    }

    /// The row index of a partition that was found; `None` when it has none.
    pub(crate) async fn rows(&self, found: &Found) -> Result<Option<RowIndex>, Error> {
        match (self, found.rows) {
            (Index::Big(index), RowsAt::Promoted { position, size }) => {
                Ok(Some(RowIndex::Promoted(index.promoted(position, size).await?)))
            }
            (Index::Bti(index), RowsAt::Trie { root }) => Ok(Some(RowIndex::Trie(index.row_trie(root)))),
            _ => Ok(None),
        }
    }
}

/// The bytes of a component that can be done without; `None` when it is missing or its checksum tells otherwise. Adds them
/// to those on disk.
pub(crate) async fn read_sound(
    file: &Path,
    component: Component,
    known: &Checksums,
    disk_bytes: &mut u64,
) -> Result<Option<Vec<u8>>, Error> {
    let bytes = read_whole(file).await?.filter(|bytes| known.agrees(component, bytes));
    *disk_bytes += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
    Ok(bytes)
}

/// A partition that was written.
pub(crate) struct EndedPartition<'a> {
    /// Its key.
    pub(crate) key: &'a [u8],
    /// The key's token.
    pub(crate) token: Token,
    /// Both halves of the key's hash.
    pub(crate) hash: (i64, i64),
    /// Its deletion.
    pub(crate) deletion: Deletion,
    /// Where it starts, in uncompressed bytes of the data file.
    pub(crate) start: u64,
    /// Bytes before its first row or marker.
    pub(crate) header_bytes: u64,
    /// Where its end is marked, from its start.
    pub(crate) end_offset: u64,
}

/// An index being written.
pub(crate) enum IndexWriter {
    /// A list of keys.
    Big(Box<BigWriter>),
    /// Tries.
    Bti(Box<BtiWriter>),
}

/// What an index has become.
pub(crate) struct WrittenIndex {
    /// Bytes of its files that are read in part.
    pub(crate) bytes: u64,
    /// Those files, with the checksums of their pages.
    pub(crate) paged: Vec<(Component, PageChecksums)>,
    /// Components that are still to be written.
    pub(crate) wholes: Vec<(Component, Vec<u8>)>,
}

impl IndexWriter {
    /// Whether a block of so many bytes is large enough in a partition of so many.
    pub(crate) fn is_block(&self, block: u64, partition: u64) -> bool {
        match self {
            IndexWriter::Big(writer) => writer.is_block(block, partition),
            IndexWriter::Bti(_) => block >= BTI_BLOCK_BYTES,
        }
    }

    /// A partition begins.
    pub(crate) fn start_partition(&mut self) {
        match self {
            IndexWriter::Big(writer) => writer.start_partition(),
            IndexWriter::Bti(writer) => writer.start_partition(),
        }
    }

    /// Adds a block of the partition.
    pub(crate) fn block(&mut self, block: &NewBlock<'_>) -> Result<(), Error> {
        match self {
            IndexWriter::Big(writer) => writer.block(block),
            IndexWriter::Bti(writer) => {
                writer.block(block);
                Ok(())
            }
        }
    }

    /// The partition ends.
    pub(crate) fn end_partition(&mut self, ended: &EndedPartition<'_>) {
        match self {
            IndexWriter::Big(writer) => writer.end_partition(ended),
            IndexWriter::Bti(writer) => writer.end_partition(ended),
        }
    }

    /// Bytes in memory.
    pub(crate) fn pending(&self) -> usize {
        match self {
            IndexWriter::Big(writer) => writer.pending(),
            IndexWriter::Bti(writer) => writer.pending(),
        }
    }

    /// As [`Sink::drain`].
    pub(crate) async fn drain(&mut self) -> Result<(), Error> {
        match self {
            IndexWriter::Big(writer) => writer.drain().await,
            IndexWriter::Bti(writer) => writer.drain().await,
        }
    }

    /// Makes its files durable under their temporary names.
    pub(crate) async fn finish(self, first: &[u8], last: &[u8]) -> Result<WrittenIndex, Error> {
        match self {
            IndexWriter::Big(writer) => {
                let (bytes, pages, summary) = writer.finish(first, last).await?;
                let (paged, wholes) = (vec![(Component::Index, pages)], vec![(Component::Summary, summary)]);
                Ok(WrittenIndex { bytes, paged, wholes })
            }
            IndexWriter::Bti(writer) => {
                let (bytes, partitions, rows) = writer.finish(first, last).await?;
                let paged = vec![(Component::Partitions, partitions), (Component::Rows, rows)];
                Ok(WrittenIndex { bytes, paged, wholes: Vec::new() })
            }
        }
    }
}

/// An index file: bytes are appended and the checksums of its pages gathered.
pub(crate) struct IndexSink {
    sink: Sink,
    /// Of what was handed over: entries are too short to be summed one by one.
    pages: PageChecksums,
}

impl IndexSink {
    /// Creates the file.
    pub(crate) async fn create(path: PathBuf) -> Result<IndexSink, Error> {
        Ok(IndexSink { sink: Sink::create(path).await?, pages: PageChecksums::default() })
    }

    /// Bytes appended in all.
    pub(crate) fn position(&self) -> u64 {
        self.sink.position()
    }

    /// Bytes not yet handed over.
    pub(crate) fn pending(&self) -> usize {
        self.sink.pending()
    }

    /// Appends what a closure appends.
    pub(crate) fn append_with(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(self.sink.buffer());
    }

    /// As [`Sink::drain`].
    pub(crate) async fn drain(&mut self) -> Result<(), Error> {
        let pages = &mut self.pages;
        self.sink.drain_seen(|bytes| pages.update(bytes)).await
    }

    /// Makes the file durable; returns its size and the checksums of its pages.
    pub(crate) async fn finish(mut self) -> Result<(u64, PageChecksums), Error> {
        let bytes = self.sink.position();
        self.pages.update(self.sink.buffer());
        self.sink.finish().await?;
        Ok((bytes, self.pages))
    }
}

impl TrieSink for IndexSink {
    fn position(&self) -> u64 {
        self.sink.position()
    }

    fn end(&mut self) -> &mut Vec<u8> {
        self.sink.buffer()
    }
}
