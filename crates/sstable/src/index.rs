//! `Index.db`: one entry per partition, with the promoted index of wide ones.
//!
//! ```text
//! u16 length, key, uvint data position, uvint promoted size, then if that is not 0:
//!   uvint header length, deletion (full), uvint blocks (>= 2), block*, i32 offset of each block from the first
//! block:  first prefix, last prefix, uvint offset from the partition's start, svint (width - 65536),
//!         u8 open, [deletion (full) of the range tombstone open at the block's END]
//! ```

use mutation::Deletion;
use std::ops::Range;

use crate::clustering::{ClusteringShape, Prefix};
use crate::cursor::{Cursor, Decoded, Fault, put_short_bytes};
use crate::deletion::Times;

/// What block widths are counted from; must never change, whatever the block size is.
const WIDTH_BASE: i64 = 65_536;

/// Gathers the promoted index of the partition being written.
#[derive(Debug, Default)]
pub(crate) struct PromotedWriter {
    blocks: Vec<u8>,
    offsets: Vec<u32>,
}

/// One block as it is written.
pub(crate) struct NewBlock<'a> {
    /// Encoded prefix of its first row or marker, and where that sorts.
    pub(crate) first: &'a [u8],
    pub(crate) first_at: &'a [u8],
    /// The same of its last row or marker.
    pub(crate) last: &'a [u8],
    pub(crate) last_at: &'a [u8],
    /// Bytes from the partition's start.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) width: u64,
    /// The range tombstone open at its start.
    pub(crate) open_before: Deletion,
    /// The range tombstone open at its end.
    pub(crate) open: Deletion,
}

impl PromotedWriter {
    /// Forgets the blocks.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.offsets.clear();
    }

    /// How many blocks there are.
    pub(crate) fn count(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() + self.offsets.len() * 4
    }

    /// Adds a block.
    pub(crate) fn push(&mut self, times: Times, block: &NewBlock<'_>) {
        self.offsets.push(self.blocks.len() as u32);
        self.blocks.extend_from_slice(block.first);
        self.blocks.extend_from_slice(block.last);
        base::put_uvint(&mut self.blocks, block.offset);
        base::put_svint(&mut self.blocks, block.width as i64 - WIDTH_BASE);
        self.blocks.push(u8::from(!block.open.is_live()));
        if !block.open.is_live() {
            times.put_full(&mut self.blocks, block.open);
        }
    }

    /// Appends the partition's entry; fewer than two blocks are not worth a promoted index.
    pub(crate) fn put_entry(
        &self,
        times: Times,
        key: &[u8],
        data_position: u64,
        header_length: u64,
        deletion: Deletion,
        out: &mut Vec<u8>,
    ) {
        put_short_bytes(out, key);
        base::put_uvint(out, data_position);
        if self.offsets.len() < 2 {
            out.push(0);
            return;
        }
        let mut head = Vec::with_capacity(32);
        base::put_uvint(&mut head, header_length);
        times.put_full(&mut head, deletion);
        base::put_uvint(&mut head, self.offsets.len() as u64);
        base::put_uvint(out, (head.len() + self.blocks.len() + self.offsets.len() * 4) as u64);
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.blocks);
        for offset in &self.offsets {
            out.extend_from_slice(&(*offset as i32).to_be_bytes());
        }
    }
}

/// The head of an entry without its key: everything but the promoted index itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHead {
    /// Where the partition starts, in uncompressed bytes of the data file.
    pub(crate) data_position: u64,
    /// Bytes of the head.
    pub(crate) size: u64,
    /// Bytes of the promoted index that follow.
    pub(crate) promoted_size: u64,
}

/// Reads the head of an entry and its key.
pub(crate) fn take_entry(bytes: &[u8]) -> Decoded<(&[u8], EntryHead)> {
    let mut cursor = Cursor::new(bytes);
    let key = cursor.short_bytes()?;
    let data_position = cursor.uvint()?;
    let promoted_size = cursor.uvint()?;
    Ok((key, EntryHead { data_position, size: cursor.at(), promoted_size }))
}

/// One block as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its first row or marker.
    pub(crate) first: Prefix,
    /// Its last row or marker.
    pub(crate) last: Prefix,
    /// Bytes from the partition's start.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) width: u64,
    /// The range tombstone open at its end.
    pub(crate) open: Deletion,
}

/// Where the parts of one partition's promoted index are. Its blocks are looked at one by one: a partition of gigabytes
/// has tens of thousands, and a search needs a few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promoted {
    times: Times,
    /// Where the first block starts, and where the table of their offsets does; from the start of the promoted index.
    blocks_at: u64,
    table_at: u64,
    count: usize,
    /// Bytes from the partition's start to its first row or marker.
    header_length: u64,
}

impl Promoted {
    /// Reads what stands before the blocks of a promoted index of so many bytes.
    pub(crate) fn take(times: Times, size: u64, bytes: &[u8]) -> Decoded<Promoted> {
        let mut cursor = Cursor::new(bytes);
        let header_length = cursor.uvint()?;
        times.take_full(&mut cursor)?;
        let at = cursor.at();
        let count = cursor.uvint()?;
        let blocks_at = cursor.at();
        // A block is at least two prefixes, an offset, a width and a flag; then its offset in the table.
        let most = size.saturating_sub(blocks_at) / 9;
        if count < 1 || count > most {
            return Err(cursor.bad_at(at, format!("1 to {most} blocks"), count.to_string()));
        }
        Ok(Promoted { times, blocks_at, table_at: size - count * 4, count: count as usize, header_length })
    }

    /// How many blocks there are, at least one.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Where the offset of a block stands; four bytes, those of the next one behind them.
    pub(crate) fn offset_at(&self, index: usize) -> u64 {
        self.table_at + index as u64 * 4
    }

    /// From where to where a block is, by what stands at its [`Promoted::offset_at`].
    pub(crate) fn span(&self, index: usize, bytes: &[u8]) -> Decoded<Range<u64>> {
        let mut cursor = Cursor::new(bytes);
        let start = u64::from(cursor.u32()?);
        let all = self.table_at - self.blocks_at;
        let end = if index + 1 < self.count { u64::from(cursor.u32()?) } else { all };
        if start >= end || end > all || (index == 0) != (start == 0) {
            let expected = format!("the offset of block {index} and a larger one, up to {all}");
            return Err(cursor.bad_at(0, expected, format!("{start} and {end}")));
        }
        Ok(self.blocks_at + start..self.blocks_at + end)
    }

    /// Decodes the block that is there; `bytes` are those from its start on.
    pub(crate) fn take_block(
        &self,
        shape: &ClusteringShape,
        span: &Range<u64>,
        bytes: &[u8],
    ) -> Decoded<Block> {
        let room = usize::try_from(span.end - span.start).unwrap_or(usize::MAX);
        let (whole, loaded) = (bytes.len() >= room, bytes.len().min(room));
        let mut cursor = Cursor::new(&bytes[..loaded]);
        let wrong = |at| Fault::Bad {
            at,
            expected: format!("a block of {room} bytes"),
            got: "another size".to_string(),
        };
        match self.take_fields(shape, &mut cursor) {
            Ok(_) if cursor.at() != room as u64 => Err(wrong(cursor.at())),
            Err(Fault::Short { at, .. }) if whole => Err(wrong(at)),
            block => block,
        }
    }

    fn take_fields(&self, shape: &ClusteringShape, cursor: &mut Cursor<'_>) -> Decoded<Block> {
        let first = shape.take_prefix(cursor)?;
        let last = shape.take_prefix(cursor)?;
        let at = cursor.at();
        let offset = cursor.uvint()?;
        let width = cursor.svint()?.checked_add(WIDTH_BASE).unwrap_or(-1);
        if offset < self.header_length || width <= 0 || offset.checked_add(width as u64).is_none() {
            return Err(cursor.bad_at(
                at,
                "a block behind the header",
                format!("offset {offset}, width {width}"),
            ));
        }
        let open = if cursor.u8()? != 0 { self.times.take_full(cursor)? } else { Deletion::LIVE };
        Ok(Block { first, last, offset, width: width as u64, open })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clustering::Kind;
    use crate::statistics::EncodingStats;
    use crate::version::Version;
    use schema::push_component;

    fn wire(value: u32) -> Vec<u8> {
        let mut wire = Vec::new();
        push_component(&mut wire, Some(&value.to_be_bytes()));
        wire
    }

    #[test]
    fn entries_are_read_back_and_truncations_are_refused() {
        for version in [Version::Nb, Version::Oa] {
            check(Times::new(version, EncodingStats::EPOCH));
        }
    }

    fn block(promoted: Promoted, shape: &ClusteringShape, index: usize, bytes: &[u8]) -> Decoded<Block> {
        let span = promoted.span(index, &bytes[promoted.offset_at(index) as usize..])?;
        promoted.take_block(shape, &span, &bytes[span.start as usize..])
    }

    fn check(times: Times) {
        let shape = ClusteringShape { fixed: vec![Some(4)] };
        let mut writer = PromotedWriter::default();
        let open = Deletion { timestamp: 5, local_time: 6 };
        for block in 0..3u32 {
            let mut first = Vec::new();
            shape.put_prefix(Kind::Row, &wire(block * 10), &mut first).unwrap();
            let mut last = Vec::new();
            shape.put_prefix(Kind::ExclusiveStart, &wire(block * 10 + 9), &mut last).unwrap();
            let new = NewBlock {
                first: &first,
                first_at: &[],
                last: &last,
                last_at: &[],
                open_before: Deletion::LIVE,
                offset: 20 + u64::from(block) * 70_000,
                width: 70_000,
                open: if block == 1 { open } else { Deletion::LIVE },
            };
            writer.push(times, &new);
        }
        let mut bytes = Vec::new();
        writer.put_entry(times, b"key", 1234, 20, Deletion::LIVE, &mut bytes);
        let (key, head) = take_entry(&bytes).unwrap();
        assert_eq!((key, head.data_position), (&b"key"[..], 1234));
        assert_eq!(head.size + head.promoted_size, bytes.len() as u64);
        let promoted = Promoted::take(times, head.promoted_size, &bytes[head.size as usize..]).unwrap();
        assert_eq!((promoted.count(), promoted.header_length), (3, 20));
        let second = block(promoted, &shape, 1, &bytes[head.size as usize..]).unwrap();
        assert_eq!((second.offset, second.width, second.open), (70_020, 70_000, open));
        assert_eq!(second.first, Prefix { kind: Kind::Row, wire: wire(10) });
        assert_eq!(second.last, Prefix { kind: Kind::ExclusiveStart, wire: wire(19) });
        for size in 0..head.promoted_size as usize {
            let bytes = &bytes[head.size as usize..][..size];
            let cut = Promoted::take(times, size as u64, bytes);
            let cut =
                cut.and_then(|cut| (0..3).try_for_each(|index| block(cut, &shape, index, bytes).map(|_| ())));
            assert!(cut.is_err(), "cut at {size}");
        }
        assert!(take_entry(&bytes[..4]).is_err());
    }

    #[test]
    fn one_block_makes_no_promoted_index() {
        let mut bytes = Vec::new();
        let times = Times::new(Version::Nb, EncodingStats::EPOCH);
        PromotedWriter::default().put_entry(times, b"k", 0, 20, Deletion::LIVE, &mut bytes);
        assert_eq!(bytes, [0, 1, b'k', 0, 0]);
    }
}
