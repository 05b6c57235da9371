//! Bytes of a commitlog segment: blocks, and entries that stream over them. No I/O.
//!
//! ```text
//! segment   header block | block 1 | block 2 | …                           block = 4096 bytes
//! block     payload 4072 | segment id u64 | seq u32 | synced u32 | sum u32 | crc u32      sum: of the words before it
//! entry     len u32 | crc u32 | payload           a header never straddles two blocks; len 0 = rest of the block is padding
//! ```
//! All numbers are big endian and must never change. See docs/formats/commitlog.md.
//! Invariants: a block is written once in the life of a segment; blocks beyond the end are zero, or those of an older segment
//! of the same log whose file is written again; `synced` is the number of leading blocks of this segment known to be synced
//! when the block was full, or handed to the disk before it was.

use super::memory::{BlockMemory, BlockRef};
use crate::limits::{INCARNATION_MAX, REPLAY_READ_BYTES, SEGMENT_NUMBER_MAX, SHARDS_MAX};
use base::{ByteReader, Crc32, crc32};
use journal::rot::{Flipped, one_bit_off};
use runtime::mapping::{store_u32, store_u64};

/// Bytes of a block; also the alignment of every write.
pub const BLOCK: usize = 4096;
/// Bytes of the trailer of a block.
pub const TRAILER: usize = 24;
/// Bytes of a block that carry entries.
pub const PAYLOAD: usize = BLOCK - TRAILER;
/// Bytes of an entry's header.
pub const ENTRY_HEADER: usize = 8;
const MAGIC: &[u8; 8] = b"MSNALOG1";

/// A place in the log of one shard and incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition {
    /// Number of the segment, counted from 1.
    pub segment: u32,
    /// Byte offset of an entry's header in the segment file.
    pub offset: u32,
}

impl LogPosition {
    /// Before every entry.
    pub const START: LogPosition = LogPosition { segment: 0, offset: 0 };
}

/// Identity of one segment file; packed into each of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// Which start of the node wrote it.
    pub incarnation: u32,
    /// Which shard wrote it.
    pub shard: u16,
    /// Number within the shard's log.
    pub segment: u32,
}

impl SegmentName {
    /// The id in every block trailer: unique among all segments a folder ever held.
    pub fn id(self) -> u64 {
        assert!(self.incarnation <= INCARNATION_MAX);
        assert!(self.shard <= SHARDS_MAX);
        assert!(self.segment <= SEGMENT_NUMBER_MAX);
        (u64::from(self.incarnation) << 40) | (u64::from(self.shard) << 28) | u64::from(self.segment)
    }

    /// Name of the file.
    pub fn file_name(self) -> String {
        format!("{}-{}-{}.log", self.incarnation, self.shard, self.segment)
    }

    /// The inverse of [`SegmentName::file_name`]; `None` for other files and numbers out of range.
    pub fn parse(name: &str) -> Option<SegmentName> {
        let mut parts = name.strip_suffix(".log")?.split('-');
        let parsed = SegmentName {
            incarnation: parts.next()?.parse().ok()?,
            shard: parts.next()?.parse().ok()?,
            segment: parts.next()?.parse().ok()?,
        };
        let in_range = parsed.incarnation <= INCARNATION_MAX
            && parsed.shard <= SHARDS_MAX
            && parsed.segment <= SEGMENT_NUMBER_MAX;
        (parts.next().is_none() && in_range && parsed.file_name() == name).then_some(parsed)
    }
}

/// What the first block of a segment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The segment's own identity.
    pub name: SegmentName,
    /// Shards of the node when it was written.
    pub shards: u16,
    /// Blocks of the previous segment of the log, all of them synced; 0 when this is the first.
    pub previous_blocks: u32,
}

impl SegmentHeader {
    fn encode(&self, out: &mut [u8]) {
        let mut bytes = Vec::with_capacity(32);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.name.incarnation.to_be_bytes());
        bytes.extend_from_slice(&self.name.shard.to_be_bytes());
        bytes.extend_from_slice(&self.shards.to_be_bytes());
        bytes.extend_from_slice(&self.name.segment.to_be_bytes());
        bytes.extend_from_slice(&self.previous_blocks.to_be_bytes());
        out[..bytes.len()].copy_from_slice(&bytes);
    }

    /// Reads a header out of the payload of a valid first block.
    pub fn decode(block: &[u8]) -> Option<SegmentHeader> {
        let mut input = ByteReader::new(block);
        if input.bytes(MAGIC.len()).ok()? != MAGIC {
            return None;
        }
        let incarnation = input.u32().ok()?;
        let shard = input.u16().ok()?;
        let shards = input.u16().ok()?;
        let segment = input.u32().ok()?;
        let previous_blocks = input.u32().ok()?;
        Some(SegmentHeader { name: SegmentName { incarnation, shard, segment }, shards, previous_blocks })
    }
}

/// Blocks that go to the disk in one write.
#[derive(Debug)]
pub struct Sealed {
    /// Sequence number of the first.
    pub first_block: u32,
    /// Whole blocks with trailers; whoever has written them gives them back.
    pub blocks: Vec<BlockRef>,
}

impl Sealed {
    /// Bytes of the blocks.
    pub fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// Sequence number of the block behind them.
    pub fn end(&self) -> u32 {
        self.first_block + self.blocks.len() as u32
    }
}

/// Builds the blocks of one segment.
#[derive(Debug)]
pub struct SegmentBuilder {
    name: SegmentName,
    blocks_max: u32,
    /// Sequence number of the first block in `waiting`.
    first_block: u32,
    /// Blocks to be written. All but the last are sealed.
    waiting: Vec<BlockRef>,
    /// Whether the last of them is open: it gets its checksum when it is full or goes to the disk.
    is_open: bool,
    /// Payload bytes used of the last block in `waiting`; [`PAYLOAD`] when there is none or it is full.
    fill: usize,
    /// Of the open block: what stands in place of its checksum.
    guard: u32,
}

impl SegmentBuilder {
    /// Starts a segment of `bytes_max` bytes with its header.
    pub fn new(memory: &mut BlockMemory, header: SegmentHeader, bytes_max: u64) -> SegmentBuilder {
        let blocks_max = u32::try_from(bytes_max / BLOCK as u64).expect("segments are limited to a GiB");
        assert!(blocks_max >= 2, "a segment holds its header and something else");
        let mut builder = SegmentBuilder {
            name: header.name,
            blocks_max,
            first_block: 0,
            waiting: Vec::new(),
            is_open: false,
            fill: PAYLOAD,
            guard: 0,
        };
        let block = builder.start_block(memory, 0);
        header.encode(memory.block_mut(block));
        builder.seal_last(memory, 0);
        builder.fill = PAYLOAD;
        builder
    }

    /// The segment's identity.
    pub fn name(&self) -> SegmentName {
        self.name
    }

    /// Bytes waiting to be sealed.
    pub fn pending(&self) -> usize {
        self.waiting.len() * BLOCK
    }

    /// Takes another block for the header when nothing else was started: the memory has better ones now.
    pub fn move_header(&mut self, memory: &mut BlockMemory) {
        if let ([old], 1) = (&self.waiting[..], self.blocks()) {
            let (old, new) = (*old, memory.take());
            let bytes = memory.block(old).to_vec();
            memory.block_mut(new).copy_from_slice(&bytes);
            memory.give_back(&[old]);
            self.waiting = vec![new];
        }
    }

    /// Blocks that wait to be written, for a builder that is given up.
    pub fn into_waiting(self) -> Vec<BlockRef> {
        self.waiting
    }

    /// Blocks started so far, the header included.
    pub fn blocks(&self) -> u32 {
        self.first_block + self.waiting.len() as u32
    }

    /// Where the next entry will start, or later.
    pub fn position(&self) -> LogPosition {
        let offset = if self.fill == PAYLOAD {
            self.blocks() as usize * BLOCK
        } else {
            (self.blocks() as usize - 1) * BLOCK + self.fill
        };
        LogPosition { segment: self.name.segment, offset: offset as u32 }
    }

    /// True when an entry of that many payload bytes fits.
    pub fn fits(&self, payload: usize) -> bool {
        let room = if PAYLOAD - self.fill < ENTRY_HEADER { 0 } else { PAYLOAD - self.fill };
        let wanted = (ENTRY_HEADER + payload).saturating_sub(room).div_ceil(PAYLOAD);
        u64::from(self.blocks()) + wanted as u64 <= u64::from(self.blocks_max)
    }

    /// Appends one entry made of `parts`; returns where its header lies. Panics unless it [`fits`](Self::fits) and is not empty.
    /// `synced` leading blocks of the segment are on disk for good.
    pub fn append(&mut self, memory: &mut BlockMemory, synced: u32, parts: &[&[u8]]) -> LogPosition {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        assert!(len > 0, "length zero means padding");
        assert!(self.fits(len), "the caller asks first");
        let mut crc = Crc32::new();
        parts.iter().for_each(|part| crc.update(part));
        let crc = crc.finalize();
        if PAYLOAD - self.fill < ENTRY_HEADER {
            self.fill = PAYLOAD;
        }
        let position = self.position();
        let mut head = [0; ENTRY_HEADER];
        head[..4].copy_from_slice(&(len as u32).to_be_bytes());
        head[4..].copy_from_slice(&crc.to_be_bytes());
        self.push(memory, synced, &head);
        parts.iter().for_each(|part| self.push(memory, synced, part));
        // The entry is whole before the guard says so, at whatever instruction the process ends.
        self.guard = guard(self.guard, self.fill, crc);
        let last = *self.waiting.last().expect("the entry is in it");
        store_u32(memory.block_mut(last), CHECKSUM, self.guard.to_be_bytes());
        position
    }

    fn push(&mut self, memory: &mut BlockMemory, synced: u32, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let block = match self.waiting.last() {
                Some(last) if self.fill < PAYLOAD => *last,
                _ => self.start_block(memory, synced),
            };
            let n = bytes.len().min(PAYLOAD - self.fill);
            put(memory.block_mut(block), self.fill, &bytes[..n]);
            self.fill += n;
            bytes = &bytes[n..];
        }
    }

    /// Seals the last block and takes another. At every moment a block of the tail file is one that its numbers belong to.
    fn start_block(&mut self, memory: &mut BlockMemory, synced: u32) -> BlockRef {
        self.seal_last(memory, synced);
        let block = memory.take();
        let bytes = memory.block_mut(block);
        store_u64(bytes, PAYLOAD, 0u64.to_be_bytes());
        bytes[..PAYLOAD].fill(0);
        bytes[PAYLOAD + 8..].fill(0);
        store_u32(bytes, PAYLOAD + 8, self.blocks().to_be_bytes());
        store_u64(bytes, PAYLOAD, self.name.id().to_be_bytes());
        self.waiting.push(block);
        (self.is_open, self.fill, self.guard) = (true, 0, 0);
        block
    }

    /// Ends the last block: the segment takes no more entries, and the next one continues the log.
    pub fn end(&mut self, memory: &mut BlockMemory, synced: u32) {
        self.seal_last(memory, synced);
        self.fill = PAYLOAD;
    }

    fn seal_last(&mut self, memory: &mut BlockMemory, synced: u32) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let last = *self.waiting.last().expect("it is open");
        let seq = self.blocks() - 1;
        assert!(synced <= seq, "what is not yet written is not synced");
        seal_block(memory.block_mut(last), synced);
    }

    /// Pads the last block and takes everything that waits; `synced` leading blocks are on disk for good.
    pub fn seal(&mut self, memory: &mut BlockMemory, synced: u32) -> Option<Sealed> {
        if self.waiting.is_empty() {
            return None;
        }
        self.seal_last(memory, synced);
        let sealed = Sealed { first_block: self.first_block, blocks: std::mem::take(&mut self.waiting) };
        self.first_block = sealed.end();
        self.fill = PAYLOAD;
        Some(sealed)
    }
}

/// Where the checksum of a block lies.
const CHECKSUM: usize = BLOCK - 4;

/// What stands in place of an open block's checksum: a summary of the entries that end in it, each by where it ends and by its
/// checksum. 0: none does. One store changes it, so a block whose process ended has it right for all entries that were
/// answered, and one of which a power cut left parts for those that are there, or for none.
fn guard(before: u32, end: usize, crc: u32) -> u32 {
    (before ^ crc ^ end as u32).wrapping_mul(0x9E37_79B1).rotate_left(15)
}

/// Stores bytes at a place of a block.
#[inline]
fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Gives a block its trailer, the checksum last and in one store: until then the guard stands there, and holds.
fn seal_block(block: &mut [u8], synced: u32) {
    put(block, PAYLOAD + 12, &synced.to_be_bytes());
    let sum = sum(block);
    put(block, PAYLOAD + 16, &sum.to_be_bytes());
    let crc = crc32(&block[..CHECKSUM]);
    store_u32(block, CHECKSUM, crc.to_be_bytes());
}

/// A second, independent check of a block: whether a bit that the CRC calls flipped really was.
fn sum(block: &[u8]) -> u32 {
    let words = block[..PAYLOAD + 16].chunks_exact(4);
    words.fold(0, |sum, word| sum.wrapping_add(u32::from_be_bytes([word[0], word[1], word[2], word[3]])))
}

/// What a block turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Whole; so many leading blocks of the segment were synced when it was written.
    Valid {
        /// Leading blocks known to be synced.
        synced: u32,
    },
    /// Never written in the life of this segment, not written in full, or damaged beyond telling.
    Broken,
    /// Written in full, and one bit changed since; or a sound block in the wrong place.
    Rotten,
}

/// Judges a block. A write cut short by a power loss and a block damaged later both fail the checksum; only the damage of a
/// single bit is told apart here. The rest is decided by what later blocks say was synced.
pub fn judge(block: &[u8], id: u64, seq: u32) -> Verdict {
    assert!(block.len() == BLOCK);
    let trailer = Trailer::read(block);
    let crc = crc32(&block[..BLOCK - 4]);
    match trailer.crc == crc {
        true if trailer.id == id && trailer.seq == seq => Verdict::Valid { synced: trailer.synced },
        // Ids of one log ascend: what an earlier segment left in this file, in its place.
        true if trailer.id < id && trailer.seq == seq => Verdict::Broken,
        true => Verdict::Rotten,
        false if is_rotten(block, crc ^ trailer.crc) => Verdict::Rotten,
        false => Verdict::Broken,
    }
}

fn is_rotten(block: &[u8], difference: u32) -> bool {
    flipped_back(block, difference).is_some()
}

fn flipped_back(block: &[u8], difference: u32) -> Option<Vec<u8>> {
    let mut repaired = block.to_vec();
    match one_bit_off(difference, BLOCK - 4)? {
        Flipped::Checksum => {
            let crc = crc32(&block[..BLOCK - 4]);
            repaired[BLOCK - 4..].copy_from_slice(&crc.to_be_bytes());
        }
        Flipped::Message { byte, bit } => repaired[byte] ^= 1 << bit,
    }
    (sum(&repaired) == Trailer::read(&repaired).sum).then_some(repaired)
}

/// The block as it was written, when one bit of it is not as written: rotten, or torn where only that bit was lost.
pub fn mended(block: &[u8], id: u64, seq: u32) -> Option<Vec<u8>> {
    let difference = crc32(&block[..BLOCK - 4]) ^ Trailer::read(block).crc;
    let mended = flipped_back(block, difference)?;
    valid(&mended, id, seq).is_some().then_some(mended)
}

/// The `synced` mark of a block that is sound and in its place.
pub fn valid(block: &[u8], id: u64, seq: u32) -> Option<u32> {
    let trailer = Trailer::read(block);
    let here = trailer.id == id && trailer.seq == seq;
    (here && trailer.crc == crc32(&block[..BLOCK - 4])).then_some(trailer.synced)
}

/// The trailer of a block as it stands, unchecked.
#[derive(Debug, Clone, Copy)]
pub struct Trailer {
    /// Segment id.
    pub id: u64,
    /// Sequence number in the segment.
    pub seq: u32,
    /// Leading blocks synced before.
    pub synced: u32,
    sum: u32,
    crc: u32,
}

impl Trailer {
    /// Reads the last 24 bytes of a block.
    pub fn read(block: &[u8]) -> Trailer {
        assert!(block.len() == BLOCK);
        let word = |at: usize| u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        Trailer {
            id: (u64::from(word(PAYLOAD)) << 32) | u64::from(word(PAYLOAD + 4)),
            seq: word(PAYLOAD + 8),
            synced: word(PAYLOAD + 12),
            sum: word(PAYLOAD + 16),
            crc: word(PAYLOAD + 20),
        }
    }
}

/// An entry of a log, where it lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where its header lies in the log.
    pub position: LogPosition,
    /// What was appended.
    pub payload: &'a [u8],
}

/// Entries of one segment, in order: their payloads lie one behind the other, without what stood between them.
#[derive(Debug, Default)]
pub struct Entries {
    segment: u32,
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// Of one entry: where its header lies in the file, and where its payload ends in memory.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u32,
    end: usize,
}

impl Entries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let starts = std::iter::once(0).chain(self.places.iter().map(|place| place.end));
        starts.zip(&self.places).map(|(start, place)| Entry {
            position: LogPosition { segment: self.segment, offset: place.offset },
            payload: &self.bytes[start..place.end],
        })
    }

    /// Keeps the first ones.
    pub fn truncate(&mut self, len: usize) {
        self.places.truncate(len);
    }

    /// Where the last payload ends; what lies behind it is the beginning of another.
    fn end(&self) -> usize {
        self.places.last().map_or(0, |place| place.end)
    }
}

/// Bytes in a sound block that no writer of ours makes.
#[derive(Debug, PartialEq, Eq)]
pub struct BadEntry {
    /// Offset in the file.
    pub offset: u32,
    /// What was expected and found.
    pub expected: String,
    /// What was found.
    pub got: String,
}

/// Puts entries together again out of the payloads of consecutive blocks.
#[derive(Debug)]
pub struct EntryReader {
    entry_max: usize,
    check_crc: bool,
    /// Whole entries, and behind them what there is of the open one.
    found: Entries,
    open: Option<OpenEntry>,
}

#[derive(Debug)]
struct OpenEntry {
    offset: u32,
    len: usize,
    crc: u32,
}

impl EntryReader {
    /// Reads entries of a segment, of at most `entry_max` bytes; `check_crc` false accepts any (only for a planted bug).
    pub fn new(segment: u32, entry_max: usize, check_crc: bool) -> EntryReader {
        let found = Entries { segment, ..Entries::default() };
        EntryReader { entry_max, check_crc, found, open: None }
    }

    /// True when an entry has begun and not ended.
    pub fn in_entry(&self) -> bool {
        self.open.is_some()
    }

    /// The entries that have ended since the last call.
    /// Cost:   a copy of what there is of an open entry, unless none has ended: a large one is not copied again and again.
    pub fn take(&mut self) -> Entries {
        let segment = self.found.segment;
        if self.found.is_empty() {
            return Entries { segment, ..Entries::default() };
        }
        let begun_bytes = &self.found.bytes[self.found.end()..];
        // As many come next, unless a large one was among them.
        let mut begun = Vec::with_capacity(begun_bytes.len() + self.found.bytes.len().min(REPLAY_READ_BYTES));
        begun.extend_from_slice(begun_bytes);
        let next = Entries { segment, bytes: begun, places: Vec::with_capacity(self.found.len()) };
        std::mem::replace(&mut self.found, next)
    }

    /// Reads the payload of the next block, `seq`. Errors: what ended before is there all the same.
    pub fn block(&mut self, seq: u32, block: &[u8]) -> Result<(), BadEntry> {
        self.entries(seq, block, |_, _, _| {})
    }

    /// As [`EntryReader::block`]; `ended` hears of every entry that ends in the block: how many there are with it, where in the
    /// block it ends, and its checksum.
    fn entries(
        &mut self,
        seq: u32,
        block: &[u8],
        mut ended: impl FnMut(usize, usize, u32),
    ) -> Result<(), BadEntry> {
        let payload = &block[..PAYLOAD];
        let mut at = 0;
        loop {
            if let Some(open) = &self.open {
                let missing = open.len - (self.found.bytes.len() - self.found.end());
                let n = missing.min(PAYLOAD - at);
                self.found.bytes.extend_from_slice(&payload[at..at + n]);
                at += n;
                if n < missing {
                    return Ok(());
                }
                let crc = self.close()?;
                ended(self.found.len(), at, crc);
            }
            if PAYLOAD - at < ENTRY_HEADER {
                return Ok(());
            }
            let word = |at: usize| {
                u32::from_be_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]])
            };
            let len = word(at) as usize;
            if len == 0 {
                return Ok(());
            }
            let offset = (seq as usize * BLOCK + at) as u32;
            if len > self.entry_max {
                let expected = format!("an entry of at most {} bytes", self.entry_max);
                return Err(BadEntry { offset, expected, got: format!("{len} bytes") });
            }
            self.open = Some(OpenEntry { offset, len, crc: word(at + 4) });
            at += ENTRY_HEADER;
        }
    }

    /// Reads what an open block of a tail file has: the entries that its guard answers for, and none that goes on behind it. It
    /// is the last block of its log.
    pub fn open_block(&mut self, seq: u32, block: &[u8]) {
        let written = u32::from_be_bytes([
            block[CHECKSUM],
            block[CHECKSUM + 1],
            block[CHECKSUM + 2],
            block[CHECKSUM + 3],
        ]);
        let before = self.found.len();
        let mut known = 0;
        let mut kept = before;
        // What is wrong with an entry, or what came behind it, was never answered for.
        let _ = self.entries(seq, block, |found, end, crc| {
            known = guard(known, end, crc);
            if known == written {
                kept = found;
            }
        });
        self.found.truncate(kept);
        self.found.bytes.truncate(self.found.end());
        self.open = None;
    }

    /// The open entry has all its bytes; returns its checksum.
    fn close(&mut self) -> Result<u32, BadEntry> {
        let OpenEntry { offset, crc: expected, .. } = self.open.take().expect("an entry was open");
        let crc = crc32(&self.found.bytes[self.found.end()..]);
        if self.check_crc && crc != expected {
            self.found.bytes.truncate(self.found.end());
            let expected = format!("an entry with checksum {expected:08x}");
            return Err(BadEntry { offset, expected, got: format!("{crc:08x}") });
        }
        self.found.places.push(Place { offset, end: self.found.bytes.len() });
        Ok(expected)
    }
}

#[cfg(test)]
mod tests {
    //! Entries of all sizes come back whole; a damaged block is told from one that was never written.
    use super::*;
    use base::Prng;

    fn name() -> SegmentName {
        SegmentName { incarnation: 3, shard: 2, segment: 7 }
    }

    fn builder(memory: &mut BlockMemory) -> SegmentBuilder {
        SegmentBuilder::new(memory, SegmentHeader { name: name(), shards: 4, previous_blocks: 9 }, 1 << 20)
    }

    fn bytes(memory: &mut BlockMemory, sealed: Sealed) -> Vec<u8> {
        let bytes = memory.copy(&sealed.blocks).to_vec();
        memory.give_back(&sealed.blocks);
        bytes
    }

    fn written(entries: &[Vec<u8>], seal_every: usize) -> (Vec<u8>, Vec<LogPosition>) {
        let mut memory = BlockMemory::new();
        let mut builder = builder(&mut memory);
        let mut file = Vec::new();
        let mut positions = Vec::new();
        for (i, entry) in entries.iter().enumerate() {
            let halves = entry.split_at(entry.len() / 2);
            positions.push(builder.append(&mut memory, 0, &[halves.0, halves.1]));
            if i % seal_every == 0 {
                let sealed = builder.seal(&mut memory, 0).expect("something waits");
                file.extend(bytes(&mut memory, sealed));
            }
        }
        if let Some(sealed) = builder.seal(&mut memory, 0) {
            file.extend(bytes(&mut memory, sealed));
        }
        (file, positions)
    }

    #[test]
    fn entries_come_back_with_their_positions() {
        let mut prng = Prng::new(5);
        for (seal_every, take_every) in [(1, 1), (3, 2), (100, 1), (100, 1000)] {
            let entries: Vec<Vec<u8>> = (0..60)
                .map(|_| {
                    let most = if prng.chance(0.2) { 12_000 } else { 60 };
                    let mut bytes = vec![0; 1 + prng.below(most) as usize];
                    prng.fill(&mut bytes);
                    bytes
                })
                .collect();
            let (file, positions) = written(&entries, seal_every);
            let mut reader = EntryReader::new(name().segment, 1 << 20, true);
            let mut found = Vec::new();
            for (seq, block) in file.chunks_exact(BLOCK).enumerate() {
                assert_eq!(judge(block, name().id(), seq as u32), Verdict::Valid { synced: 0 });
                if seq == 0 {
                    let header = SegmentHeader::decode(block).expect("a header");
                    assert_eq!((header.name, header.shards, header.previous_blocks), (name(), 4, 9));
                } else {
                    reader.block(seq as u32, block).expect("sound");
                }
                if seq % take_every == 0 {
                    found.push(reader.take());
                }
            }
            found.push(reader.take());
            assert!(!reader.in_entry());
            assert_eq!(found.iter().map(Entries::len).sum::<usize>(), entries.len());
            let found = found.iter().flat_map(Entries::iter);
            for ((found, entry), position) in found.zip(&entries).zip(&positions) {
                assert_eq!(found.payload, entry);
                assert_eq!(found.position, *position);
            }
        }
    }

    #[test]
    fn an_entry_that_is_wrong_in_a_sound_block_takes_nothing_from_those_before_it() {
        let entries = [vec![1; 100], vec![2; 9000], vec![3; 200], vec![4; 50]];
        let (mut file, positions) = written(&entries, 100);
        let last = positions[3].offset as usize;
        let kept = |file: &[u8], entry_max, take_each_block| {
            let mut reader = EntryReader::new(name().segment, entry_max, true);
            let mut payloads = Vec::new();
            let mut keep =
                |entries: Entries| payloads.extend(entries.iter().map(|entry| entry.payload.to_vec()));
            for (seq, block) in file.chunks_exact(BLOCK).enumerate().skip(1) {
                let read = reader.block(seq as u32, block);
                if take_each_block {
                    keep(reader.take());
                }
                if let Err(bad) = read {
                    keep(reader.take());
                    keep(reader.take());
                    return (payloads, Some(bad.offset));
                }
            }
            keep(reader.take());
            (payloads, None)
        };
        for take_each_block in [false, true] {
            assert_eq!(kept(&file, 1 << 20, take_each_block), (entries.to_vec(), None));
            let (before, at) = kept(&file, 8999, take_each_block);
            assert_eq!((before, at), (entries[..1].to_vec(), Some(positions[1].offset)), "it is too long");
        }
        file[last + ENTRY_HEADER + 7] ^= 1;
        for take_each_block in [false, true] {
            let (before, at) = kept(&file, 1 << 20, take_each_block);
            assert_eq!((before, at), (entries[..3].to_vec(), Some(positions[3].offset)));
        }
    }

    /// Payloads of the entries that an open block gives, behind the sound blocks before it.
    fn read_open(sealed: &[Vec<u8>], open: &[u8]) -> Vec<Vec<u8>> {
        let mut reader = EntryReader::new(name().segment, 1 << 20, true);
        for (seq, block) in sealed.iter().enumerate().skip(1) {
            reader.block(seq as u32, block).expect("sound");
        }
        reader.open_block(sealed.len() as u32, open);
        assert!(!reader.in_entry(), "nothing goes on behind it");
        reader.take().iter().map(|entry| entry.payload.to_vec()).collect()
    }

    #[test]
    fn an_open_block_answers_for_the_entries_that_ended_in_it() {
        let mut prng = Prng::new(8);
        let mut memory = BlockMemory::new();
        let mut builder = builder(&mut memory);
        let mut entries = Vec::new();
        for _ in 0..200 {
            let most = if prng.chance(0.1) { 9000 } else { 300 };
            let mut entry = vec![0; 1 + prng.below(most) as usize];
            prng.fill(&mut entry);
            builder.append(&mut memory, 0, &[&entry]);
            entries.push(entry);
            let blocks: Vec<Vec<u8>> =
                builder.waiting.iter().map(|block| memory.block(*block).to_vec()).collect();
            let (open, sealed) = blocks.split_last().expect("there is one");
            assert!(valid(open, name().id(), sealed.len() as u32).is_none(), "it has no checksum yet");
            for (seq, block) in sealed.iter().enumerate() {
                assert!(valid(block, name().id(), seq as u32).is_some(), "blocks before it have theirs");
            }
            assert_eq!(read_open(sealed, open), entries);
            // The process ended before the guard of the last entry was stored, or within it.
            let mut before = open.clone();
            before[CHECKSUM..].copy_from_slice(&prng.u64().to_be_bytes()[..4]);
            let found = read_open(sealed, &before);
            assert!(found.len() < entries.len() && found == entries[..found.len()]);
        }
    }

    #[test]
    fn an_open_block_of_which_a_power_cut_kept_parts_answers_for_no_entry_of_another_place() {
        // Entries of one size, as they lie in many blocks at the same places.
        let mut memory = BlockMemory::new();
        let mut builder = builder(&mut memory);
        let entry = |number: u32| [&number.to_be_bytes()[..], &[7; 96]].concat();
        for number in 0..400 {
            builder.append(&mut memory, 0, &[&entry(number)]);
        }
        let blocks: Vec<Vec<u8>> =
            builder.waiting.iter().map(|block| memory.block(*block).to_vec()).collect();
        let (open, sealed) = blocks.split_last().expect("there is one");
        let whole = read_open(sealed, open);
        for older in sealed {
            for sector in 0..BLOCK / 512 - 1 {
                let mut torn = open.clone();
                torn[sector * 512..(sector + 1) * 512]
                    .copy_from_slice(&older[sector * 512..(sector + 1) * 512]);
                let found = read_open(sealed, &torn);
                assert_eq!(found, whole[..found.len()], "what is given was written there");
            }
        }
    }

    #[test]
    fn a_cut_write_is_broken_and_a_flipped_bit_is_rot() {
        let (file, _) = written(&[vec![7; 9000]], 100);
        let block = &file[BLOCK..2 * BLOCK];
        let id = name().id();
        for sector in 0..BLOCK / 512 {
            for cut in [0, 1, 300, 511] {
                let mut torn = block.to_vec();
                torn[sector * 512 + cut..(sector + 1) * 512].fill(0);
                assert_eq!(judge(&torn, id, 1), Verdict::Broken, "sector {sector} cut at {cut}");
            }
        }
        assert_eq!(judge(&[0; BLOCK], id, 1), Verdict::Broken);
        for bit in (0..BLOCK * 8).step_by(97).chain(BLOCK * 8 - 200..BLOCK * 8) {
            let mut rotten = block.to_vec();
            rotten[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(judge(&rotten, id, 1), Verdict::Rotten, "bit {bit}");
        }
        assert_eq!(judge(block, id, 2), Verdict::Rotten, "a block in the wrong place");
        assert_eq!(judge(block, id + 1, 1), Verdict::Broken, "a block of the file's life before");
        assert_eq!(judge(block, id - 1, 1), Verdict::Rotten, "a block of a later segment");
    }

    #[test]
    fn a_full_segment_says_so() {
        let header = SegmentHeader { name: name(), shards: 1, previous_blocks: 0 };
        let memory = &mut BlockMemory::new();
        let mut builder = SegmentBuilder::new(memory, header, 4 * BLOCK as u64);
        assert!(builder.fits(3 * PAYLOAD - ENTRY_HEADER));
        assert!(!builder.fits(3 * PAYLOAD - ENTRY_HEADER + 1));
        builder.append(memory, 0, &[&[1; 2 * PAYLOAD]]);
        assert!(builder.fits(PAYLOAD - 2 * ENTRY_HEADER));
        assert!(!builder.fits(PAYLOAD - 2 * ENTRY_HEADER + 1));
        builder.append(memory, 0, &[&vec![1; PAYLOAD - 2 * ENTRY_HEADER]]);
        assert_eq!(builder.seal(memory, 0).expect("blocks").bytes(), 4 * BLOCK);
    }

    #[test]
    fn names_are_parsed_strictly() {
        assert_eq!(SegmentName::parse(&name().file_name()), Some(name()));
        for bad in
            ["3-2-7", "3-2.log", "03-2-7.log", "3-2-7-1.log", "x-2-7.log", "99999999-1-1.log", "1-5000-1.log"]
        {
            assert_eq!(SegmentName::parse(bad), None, "{bad}");
        }
    }
}
