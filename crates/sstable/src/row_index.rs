//! Where in a wide partition to begin: the row index of either format, asked by position.

use mutation::{Bound, Deletion};
use schema::{Position, Table};
use std::rc::Rc;

use crate::bti::RowTrie;
use crate::error::Error;
use crate::index::{Block, Promoted};
use crate::limits::BTI_BLOCK_BYTES;
use crate::shape::Shape;
use crate::source::{Source, Window};

/// A place in a partition where a walk can begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Bytes from the partition's start.
    pub(crate) offset: u64,
    /// The range tombstone that is open there.
    pub(crate) open: Deletion,
    /// Bytes of the block there, or what a block usually has: one read brings them.
    pub(crate) bytes: u64,
    /// A bound from which on it is known to be open; `None`: from the first row or marker there.
    pub(crate) from: Option<Bound>,
}

/// A block on the way back through a partition.
pub(crate) struct BlockAt {
    /// Its place among the blocks.
    name: BlockName,
    /// Where it starts.
    pub(crate) entry: Entry,
}

enum BlockName {
    Number(usize),
    Separator(Vec<u8>),
}

/// The row index of one partition.
pub(crate) enum RowIndex {
    /// In `Index.db`.
    Promoted(PromotedAt),
    /// In `Rows.db`.
    Trie(RowTrie),
}

impl RowIndex {
    /// Where a walk begins that is to meet all that lies at or behind a position; `None` when nothing does.
    pub(crate) async fn entry(
        &self,
        shape: &Shape,
        table: &Table,
        at: &Position,
    ) -> Result<Option<Entry>, Error> {
        match self {
            RowIndex::Promoted(promoted) => promoted.entry(shape, table, at).await,
            RowIndex::Trie(trie) => {
                let block = trie.block(at, false).await?;
                if block.payload.open.is_live() || block.path.is_empty() {
                    let (offset, open) = (block.payload.offset, Deletion::LIVE);
                    return Ok(Some(Entry { offset, open, bytes: BTI_BLOCK_BYTES, from: None }));
                }
                // Of what is open there is known only that it began in or before the block before: what that one begins
                // with lies before the position.
                let before = trie.block(&block.path, true).await?.payload;
                let (offset, open) = (before.offset, before.open);
                Ok(Some(Entry { offset, open, bytes: 2 * BTI_BLOCK_BYTES, from: None }))
            }
        }
    }

    /// The last block with anything before a position, or the first.
    pub(crate) async fn last_before(
        &self,
        shape: &Shape,
        table: &Table,
        at: &Position,
    ) -> Result<BlockAt, Error> {
        match self {
            RowIndex::Promoted(promoted) => promoted.last_before(shape, table, at).await,
            RowIndex::Trie(trie) => trie.block(at, true).await.map(BlockAt::of_trie),
        }
    }

    /// The block before another.
    pub(crate) async fn before(&self, shape: &Shape, block: &BlockAt) -> Result<Option<BlockAt>, Error> {
        match (self, &block.name) {
            (RowIndex::Promoted(promoted), BlockName::Number(number)) => match number.checked_sub(1) {
                Some(number) => promoted.block_at(shape, number).await.map(Some),
                None => Ok(None),
            },
            (RowIndex::Trie(trie), BlockName::Separator(separator)) => {
                Ok(trie.floor(separator, true).await?.map(BlockAt::of_trie))
            }
            _ => unreachable!("blocks are asked about where they came from"),
        }
    }
}

impl BlockAt {
    fn of_trie(found: crate::rows::Found<crate::rows::BlockStart>) -> BlockAt {
        let (offset, open) = (found.payload.offset, found.payload.open);
        let entry = Entry { offset, open, bytes: BTI_BLOCK_BYTES, from: None };
        BlockAt { name: BlockName::Separator(found.path), entry }
    }
}

/// The promoted index of a partition and where it stands. A look at a block costs two at the index file, mostly cached.
pub(crate) struct PromotedAt {
    index: Rc<Source>,
    /// Where in it.
    position: u64,
    promoted: Promoted,
}

impl PromotedAt {
    /// The one at a position of an index file.
    pub(crate) fn new(index: Rc<Source>, position: u64, promoted: Promoted) -> PromotedAt {
        PromotedAt { index, position, promoted }
    }

    async fn block(&self, shape: &Shape, index: usize) -> Result<Block, Error> {
        let promoted = &self.promoted;
        let mut window = Window::point(self.index.clone(), self.position + promoted.offset_at(index));
        let span = window.decode(|bytes| promoted.span(index, bytes)).await?;
        window.seek(self.position + span.start);
        window.expect(span.end - span.start);
        window.decode(|bytes| promoted.take_block(&shape.clustering, &span, bytes)).await
    }

    async fn block_at(&self, shape: &Shape, number: usize) -> Result<BlockAt, Error> {
        let Block { offset, width: bytes, .. } = self.block(shape, number).await?;
        let open = match number.checked_sub(1) {
            Some(before) => self.block(shape, before).await?.open,
            None => Deletion::LIVE,
        };
        Ok(BlockAt { name: BlockName::Number(number), entry: Entry { offset, open, bytes, from: None } })
    }

    fn wrong(&self, error: impl std::fmt::Display) -> Error {
        Error::corrupt(self.index.path(), self.position, "a clustering prefix", error.to_string())
    }

    /// Begins with the first block of which anything lies behind the position.
    async fn entry(&self, shape: &Shape, table: &Table, at: &Position) -> Result<Option<Entry>, Error> {
        let behind = |block: &Block| block.last.behind().position(table).map_err(|error| self.wrong(error));
        let index = self.partition_point(|block| Ok(behind(block)? <= *at), shape).await?;
        if index == self.promoted.count() {
            return Ok(None);
        }
        let Block { offset, width: bytes, .. } = self.block(shape, index).await?;
        Ok(Some(match index.checked_sub(1) {
            Some(before) => {
                let before = self.block(shape, before).await?;
                Entry { offset, open: before.open, bytes, from: Some(before.last.behind()) }
            }
            None => Entry { offset, open: Deletion::LIVE, bytes, from: None },
        }))
    }

    async fn last_before(&self, shape: &Shape, table: &Table, at: &Position) -> Result<BlockAt, Error> {
        let first = |block: &Block| block.first.before().position(table).map_err(|error| self.wrong(error));
        let next = self.partition_point(|block| Ok(first(block)? < *at), shape).await?;
        self.block_at(shape, next.saturating_sub(1)).await
    }

    async fn partition_point(
        &self,
        below: impl Fn(&Block) -> Result<bool, Error>,
        shape: &Shape,
    ) -> Result<usize, Error> {
        let (mut low, mut high) = (0, self.promoted.count());
        while low < high {
            let middle = (low + high) / 2;
            if below(&self.block(shape, middle).await?)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}
