//! Tail files of an earlier start: blocks of its log that were appended and may not be in the segments.
//!
//! Every block says which one it is, so they lie in any order, and what an earlier use of their place left is not taken for one.
//! The file outlives a killed process whole. After a power cut any part of it may be there, in any version: a block counts if
//! its checksum is right, or, as the last of its log, for those of its entries that its guard answers for.

use super::block::{BLOCK, SegmentName, Trailer, valid};
use crate::Error;
use crate::limits::{INCARNATION_MAX, REPLAY_READ_BYTES, SHARDS_MAX};
use base::HashMap;
use runtime::file::{AlignedBuf, File, OpenOptions};
use std::path::{Path, PathBuf};

/// Identity of a tail file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TailName {
    /// Which start of the node wrote it.
    pub incarnation: u32,
    /// Which shard wrote it.
    pub shard: u16,
}

impl TailName {
    /// Name of the file.
    pub fn file_name(self) -> String {
        format!("{}-{}.tail", self.incarnation, self.shard)
    }

    /// The inverse of [`TailName::file_name`]; `None` for other files and numbers out of range.
    pub fn parse(name: &str) -> Option<TailName> {
        let (incarnation, shard) = name.strip_suffix(".tail")?.split_once('-')?;
        let parsed = TailName { incarnation: incarnation.parse().ok()?, shard: shard.parse().ok()? };
        let in_range = parsed.incarnation <= INCARNATION_MAX && parsed.shard <= SHARDS_MAX;
        (in_range && parsed.file_name() == name).then_some(parsed)
    }
}

/// A block of a tail file.
pub enum TailBlock {
    /// Whole.
    Sealed(Vec<u8>),
    /// The process ended, or the page was written, before it was full.
    Open(Vec<u8>),
}

/// Which blocks of a log a tail file has.
pub struct Tail {
    path: PathBuf,
    file: File,
    /// Where each lies, by segment and number.
    places: HashMap<(u32, u32), u64>,
    last_segment: u32,
}

impl Tail {
    /// Looks through a tail file.
    pub async fn open(dir: &Path, name: TailName) -> Result<Tail, Error> {
        let path = dir.join(name.file_name());
        let io = |action: &'static str| {
            let path = &path;
            move |error| Error::io(path, action, error)
        };
        let file = File::open(&path, OpenOptions { direct: false, ..OpenOptions::READ })
            .await
            .map_err(io("open"))?;
        let mut places = HashMap::default();
        let mut offset = 0u64;
        let mut buffer = AlignedBuf::zeroed(REPLAY_READ_BYTES);
        loop {
            let (read, count) = file.read_at(offset, buffer).await.map_err(io("read"))?;
            for (index, block) in read[..count].chunks_exact(BLOCK).enumerate() {
                let trailer = Trailer::read(block);
                if let Some(segment) = segment_of(trailer.id, name) {
                    let place = offset + (index * BLOCK) as u64;
                    keep(
                        &mut places,
                        segment,
                        trailer.seq,
                        place,
                        valid(block, trailer.id, trailer.seq).is_some(),
                    );
                }
            }
            offset += count as u64;
            if count < REPLAY_READ_BYTES {
                break;
            }
            buffer = read;
            runtime::yield_if_needed().await;
        }
        let last_segment = places.keys().map(|(segment, _)| *segment).max().unwrap_or(0);
        let places = places.into_iter().map(|(block, (place, _))| (block, place)).collect();
        Ok(Tail { path, file, places, last_segment })
    }

    /// Number of the last segment of which it has a block; 0: it has none.
    pub fn last_segment(&self) -> u32 {
        self.last_segment
    }

    /// Whether it has a block of this number.
    pub fn has(&self, segment: u32, seq: u32) -> bool {
        self.places.contains_key(&(segment, seq))
    }

    /// A block of the log, if it is there.
    pub async fn block(&self, name: SegmentName, seq: u32) -> Result<Option<TailBlock>, Error> {
        let Some(place) = self.places.get(&(name.segment, seq)) else { return Ok(None) };
        let read = self.file.read_exact_at(*place, BLOCK).await;
        let block = read.map_err(|error| Error::io(&self.path, "read", error))?;
        let is_sealed = valid(&block, name.id(), seq).is_some();
        Ok(Some(if is_sealed { TailBlock::Sealed(block) } else { TailBlock::Open(block) }))
    }
}

/// The segment of a block of this tail file; `None`: it is not of its log.
fn segment_of(id: u64, name: TailName) -> Option<u32> {
    let segment = (id & ((1 << 28) - 1)) as u32;
    let own = SegmentName { incarnation: name.incarnation, shard: name.shard, segment }.id();
    (id == own && segment > 0).then_some(segment)
}

/// Remembers where a block lies. A power cut can leave one in two places only if a page of it was torn: the whole one counts.
fn keep(places: &mut HashMap<(u32, u32), (u64, bool)>, segment: u32, seq: u32, place: u64, is_sealed: bool) {
    let known = places.entry((segment, seq)).or_insert((place, is_sealed));
    if is_sealed && !known.1 {
        *known = (place, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_strictly() {
        let name = TailName { incarnation: 3, shard: 12 };
        assert_eq!(TailName::parse(&name.file_name()), Some(name));
        for bad in
            ["3-12", "3-12.log", "03-12.tail", "3-1-2.tail", "x-1.tail", "99999999-1.tail", "1-5000.tail"]
        {
            assert_eq!(TailName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn blocks_of_another_log_are_not_its_own() {
        let name = TailName { incarnation: 3, shard: 2 };
        let id = |incarnation, shard, segment| SegmentName { incarnation, shard, segment }.id();
        assert_eq!(segment_of(id(3, 2, 7), name), Some(7));
        assert_eq!(segment_of(id(2, 2, 7), name), None);
        assert_eq!(segment_of(id(3, 1, 7), name), None);
        assert_eq!(segment_of(0, name), None);
    }
}
