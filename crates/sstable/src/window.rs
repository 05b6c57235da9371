//! A place in a file and the bytes around it that are in memory.
//!
//! ```text
//!   block  [·······position──── rest ────]      the usual case: a view of one block, nothing is copied
//!   spill       [position── rest ──]            what crosses the end of a block: its tail and the head of the next
//!   ahead  [read][read]                         a scan: reads under way or done that come next
//! ```
//! A lookup reads the blocks it needs; one that goes on and on reads twice as many each time. A scan begins with a little,
//! doubles with every read that it used up, and keeps two reads under way from the second on; one of a background group
//! does so at once and leaves nothing in the cache.

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use crate::cursor::{Decoded, Fault};
use crate::error::Error;
use crate::limits::{INDEX_READ_BYTES, READ_AHEAD_BYTES, READS_AHEAD, SCAN_FIRST_BYTES, SPILL_BYTES};
use crate::pages::Purpose;
use crate::pages::blocks::Block;
use crate::pages::flight::Landing;
use crate::source::Source;

/// How far a window reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// What is asked for.
    Point,
    /// Ahead of what is asked for, so many bytes with the next read.
    Scan { bytes: u64 },
}

/// Bytes of the first read of a scan.
fn first_bytes(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Request => SCAN_FIRST_BYTES,
        Purpose::Passing => READ_AHEAD_BYTES,
    }
}

/// A place in a file.
pub(crate) struct Window {
    source: Rc<Source>,
    position: u64,
    /// The farthest block in memory, and where it starts.
    block: Option<(u64, Block)>,
    spill: Vec<u8>,
    /// Where `spill` starts. It reaches into `block`, or is empty.
    spill_base: u64,
    reach: Reach,
    purpose: Purpose,
    /// A lookup will want the bytes before this position.
    expected: u64,
    ahead: VecDeque<Landing>,
    /// Reads begun.
    departures: u32,
}

impl Window {
    /// A window for a lookup: reads little.
    pub(crate) fn point(source: Rc<Source>, position: u64) -> Window {
        // An entry of an index may cross into the next page; chunks are too dear to be decoded by chance.
        let more = if source.is_compressed() { 1 } else { INDEX_READ_BYTES };
        let mut window = Window::new(source, position, Reach::Point);
        window.expect(more);
        window
    }

    /// A window for a scan: reads ahead.
    pub(crate) fn scan(source: Rc<Source>, position: u64) -> Window {
        Window::new(source, position, Reach::Scan { bytes: first_bytes(Purpose::of_task()) })
    }

    fn new(source: Rc<Source>, position: u64, reach: Reach) -> Window {
        Window {
            source,
            position,
            block: None,
            spill: Vec::new(),
            spill_base: 0,
            reach,
            purpose: Purpose::of_task(),
            expected: 0,
            ahead: VecDeque::new(),
            departures: 0,
        }
    }

    /// Says that so many bytes from the place on will be wanted: one read brings them all.
    pub(crate) fn expect(&mut self, size: u64) {
        self.expected = self.position.saturating_add(size);
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
    #[inline]
    pub(crate) fn rest(&self) -> &[u8] {
        if let Some((base, block)) = &self.block
            && let Some(skipped) = self.position.checked_sub(*base)
        {
            return block.get(skipped as usize..).unwrap_or(&[]);
        }
        match self.position.checked_sub(self.spill_base) {
            Some(skipped) => self.spill.get(skipped as usize..).unwrap_or(&[]),
            None => &[],
        }
    }

    /// Goes forward.
    pub(crate) fn consume(&mut self, size: u64) {
        self.position = self.position.saturating_add(size);
    }

    /// Goes forward over something that must be there whole. Errors: `Corrupt` when the file ends before.
    pub(crate) fn pass(&mut self, size: u64) -> Result<(), Error> {
        let at = self.position;
        self.consume(size);
        if self.position <= self.source.length() {
            return Ok(());
        }
        let expected = format!("{size} more bytes");
        Err(Error::corrupt(self.path(), at, expected, "the end of the file"))
    }

    /// Goes anywhere. A scan begins again with a little.
    pub(crate) fn seek(&mut self, position: u64) {
        (self.position, self.expected, self.departures) = (position, 0, 0);
        if let Reach::Scan { bytes } = &mut self.reach {
            *bytes = first_bytes(self.purpose);
        }
    }

    /// Whether what comes next has to be read, and nobody reads it yet.
    pub(crate) fn is_used_up(&self) -> bool {
        self.rest().is_empty() && self.ahead.is_empty()
    }

    /// Whether the place is at or behind the end of the file.
    pub(crate) fn is_at_end(&self) -> bool {
        self.position >= self.source.length()
    }

    /// Whether the file has so many bytes behind those in memory.
    fn has_more(&self, wanted: u64) -> bool {
        let loaded = self.rest().len() as u64;
        self.position.saturating_add(loaded).saturating_add(wanted) <= self.source.length()
    }

    /// Lengthens the spill from the block it reaches into; false when all of that is in.
    fn spill_on(&mut self, wanted: u64) -> bool {
        let Some((base, block)) = &self.block else { return false };
        if self.spill.is_empty() || self.position >= *base || self.position < self.spill_base {
            return false;
        }
        let done = (self.spill_base + self.spill.len() as u64 - base) as usize;
        let size = wanted.max(SPILL_BYTES).max(self.spill.len() as u64);
        let end = (done as u64).saturating_add(size).min(block.len() as u64) as usize;
        self.spill.extend_from_slice(&block[done..end]);
        done < end
    }

    /// The block that comes next behind the bytes in memory.
    fn next_index(&self) -> u32 {
        self.source.index_of(self.position + self.rest().len() as u64)
    }

    /// Takes the next block in; what is left of the one before stays before it.
    fn take(&mut self, index: u32, block: Block, wanted: u64) {
        let base = u64::from(index) * self.source.block_length();
        let rest = self.rest();
        if rest.is_empty() {
            self.spill.clear();
            self.block = Some((base, block));
            return;
        }
        assert!(self.position + rest.len() as u64 == base, "blocks follow each other");
        let in_block = self.block.as_ref().is_some_and(|(base, _)| *base <= self.position);
        if in_block {
            let mut spill = std::mem::take(&mut self.spill);
            spill.clear();
            spill.extend_from_slice(self.rest());
            self.spill = spill;
        } else {
            self.spill.drain(..(self.position - self.spill_base) as usize);
        }
        self.spill_base = self.position;
        self.block = Some((base, block));
        self.spill_on(wanted);
    }

    /// The last block that `wanted` bytes behind those in memory, or those expected, lie in.
    fn last_wanted(&self, wanted: u64) -> u32 {
        let end = self.position.saturating_add(self.rest().len() as u64).saturating_add(wanted);
        self.source.index_of(end.max(self.expected).clamp(1, self.source.length()) - 1)
    }

    /// The next block, if a read has brought it or it is cached.
    fn next_now(&mut self, index: u32) -> Option<Block> {
        while self.ahead.front().is_some_and(|landing| *landing.range().end() < index) {
            self.ahead.pop_front();
        }
        match self.ahead.front() {
            Some(landing) if landing.range().contains(&index) => landing.block_now(index),
            // The place has jumped: what is under way leads elsewhere.
            Some(_) => {
                self.ahead.clear();
                self.source.cached(index, self.purpose)
            }
            None => self.source.cached(index, self.purpose),
        }
    }

    /// The next block, with a read if it must be.
    async fn next(&mut self, index: u32, last: u32) -> Result<Block, Error> {
        if self.ahead.is_empty() {
            self.depart(index, last);
        }
        self.read_ahead(last);
        match self.ahead.front() {
            Some(landing) => self.source.landed(landing, index).await,
            None => self.source.block(index, last, self.purpose).await,
        }
    }

    /// Blocks that the next read of a lookup brings besides those it must: none for what crosses into a second block, and
    /// more with every read that was used up.
    fn more_blocks(&self) -> u32 {
        let most = self.source.blocks_in(READ_AHEAD_BYTES);
        let doubled = 1u32.checked_shl(self.departures.saturating_sub(1)).unwrap_or(most);
        doubled.min(most) - 1
    }

    /// Begins a read at a block, as far as the window's reach goes, at least to `last`. False: it is cached.
    fn depart(&mut self, index: u32, last: u32) -> bool {
        let last = match self.reach {
            Reach::Point => last.max(index.saturating_add(self.more_blocks())),
            Reach::Scan { bytes } => {
                self.reach = Reach::Scan { bytes: (bytes * 2).min(READ_AHEAD_BYTES) };
                last.max(index.saturating_add(self.source.blocks_in(bytes) - 1))
            }
        };
        let landing = self.source.fetch(index, last.max(index), self.purpose);
        self.departures += 1;
        let departed = landing.is_some();
        self.ahead.extend(landing);
        departed
    }

    /// A scan that has used up a read goes on to have some under way.
    fn read_ahead(&mut self, last: u32) {
        let at_once = self.purpose == Purpose::Passing || self.departures > 1;
        if self.reach == Reach::Point || !at_once {
            return;
        }
        while self.ahead.len() < READS_AHEAD
            && let Some(end) = self.ahead.back().map(|landing| *landing.range().end())
            && (u64::from(end) + 1) * self.source.block_length() < self.source.length()
        {
            if !self.depart(end + 1, last) {
                break;
            }
        }
    }

    /// Takes at least `wanted` bytes behind those in memory from memory. `Some(false)`: the file has not so many; `None`:
    /// they must be read.
    fn more_now(&mut self, wanted: u64) -> Option<bool> {
        if !self.has_more(wanted) {
            return Some(false);
        }
        if self.spill_on(wanted) {
            return Some(true);
        }
        let index = self.next_index();
        let block = self.next_now(index)?;
        self.take(index, block, wanted);
        Some(true)
    }

    /// Reads at least `wanted` bytes behind those in memory; false when the file has not so many.
    async fn more(&mut self, wanted: u64) -> Result<bool, Error> {
        let more = match self.more_now(wanted) {
            Some(more) => more,
            None => {
                let (index, last) = (self.next_index(), self.last_wanted(wanted));
                let block = self.next(index, last).await?;
                self.take(index, block, wanted);
                true
            }
        };
        // Before the core turns to this block: the disk works meanwhile.
        self.read_ahead(0);
        runtime::yield_if_needed().await;
        Ok(more)
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
