//! Reading the log of an earlier start: entries in order, and damage told from a write that a power loss cut short.
//!
//! A segment is read up to its first block that is not sound. That is the end of the log unless something proves that more
//! was synced: one flipped bit in that block, a later block of the segment that says so, or a following segment. Then the
//! log is corrupt, and the start is refused naming file and offset (or goes on with the next segment, if so configured).
//!
//! A block that is not sound in its segment, or whose segment has no file yet, is taken from the tail file if that has it. Nothing
//! is taken from there that does not continue the log: the first block that is in neither is its end.

use super::block::{
    BLOCK, Entries, EntryReader, SegmentHeader, SegmentName, Trailer, Verdict, judge, mended, valid,
};
use super::tail::{Tail, TailBlock, TailName};
use crate::Error;
use crate::limits::REPLAY_READ_BYTES;
use runtime::file::{AlignedBuf, File, OpenOptions};
use runtime::{Bug, Group, JoinHandle};
use std::path::{Path, PathBuf};

const KIND: &str = "commitlog segment";

/// The log that one shard of an earlier start left.
#[derive(Debug, Clone)]
pub struct OldLog {
    /// That start.
    pub incarnation: u32,
    /// That shard.
    pub shard: u16,
    /// Numbers of the segment files there are, ascending, from the floor.
    pub segments: Vec<u32>,
    /// First segment that may be needed.
    pub floor: u32,
    /// Whether there is a tail file.
    pub has_tail: bool,
}

impl OldLog {
    /// A segment of it.
    pub(crate) fn name(&self, segment: u32) -> SegmentName {
        SegmentName { incarnation: self.incarnation, shard: self.shard, segment }
    }
}

/// Reads one old log from its first to its last entry.
pub struct LogReader {
    dir: PathBuf,
    log: OldLog,
    skip_damage: bool,
    /// The tail file, once it was looked for.
    tail: Option<Option<Tail>>,
    /// Numbers of the segments: those with files, and behind them those of which only the tail file has blocks.
    segments: Vec<u32>,
    /// Index of the segment to open next.
    next: usize,
    open: Option<OpenSegment>,
    /// The segment before the next one.
    previous: Option<Previous>,
    /// Damage behind entries that were given out.
    damage: Option<Error>,
    finished: bool,
}

#[derive(Debug, Clone, Copy)]
struct Previous {
    segment: u32,
    /// Sound blocks.
    blocks: u32,
    /// Whether an entry began in its last sound block and did not end.
    in_entry: bool,
}

struct OpenSegment {
    name: SegmentName,
    path: PathBuf,
    /// `None`: the process ended before it was made.
    file: Option<File>,
    next_block: u32,
    entries: EntryReader,
    ahead: Option<Ahead>,
    /// A whole buffer to read into.
    spare: Option<AlignedBuf>,
}

/// The blocks behind those that were read last, on their way.
struct Ahead {
    offset: u64,
    reading: JoinHandle<Result<AlignedBuf, Error>>,
}

impl OpenSegment {
    /// The blocks from `offset` on; those behind them are read while these are looked at.
    async fn blocks(&mut self, offset: u64) -> Result<AlignedBuf, Error> {
        let Some(file) = &self.file else { return Ok(AlignedBuf::default()) };
        let bytes = match self.ahead.take() {
            Some(ahead) if ahead.offset == offset => ahead.reading.await?,
            _ => read_blocks(file, &self.path, offset, buffer()).await?,
        };
        if bytes.len() == REPLAY_READ_BYTES {
            let (file, path, next) = (file.clone(), self.path.clone(), offset + bytes.len() as u64);
            let into = self.spare.take().unwrap_or_else(buffer);
            let read = async move { read_blocks(&file, &path, next, into).await };
            self.ahead = Some(Ahead { offset: next, reading: runtime::spawn_now(Group::MAIN, read) });
        }
        Ok(bytes)
    }
}

fn buffer() -> AlignedBuf {
    AlignedBuf::zeroed(REPLAY_READ_BYTES)
}

impl LogReader {
    /// Starts reading; `skip_damage` reports damage to the log of the node and goes on with the next segment.
    pub fn new(dir: &Path, log: OldLog, skip_damage: bool) -> LogReader {
        LogReader {
            dir: dir.to_path_buf(),
            segments: log.segments.clone(),
            log,
            skip_damage,
            tail: None,
            next: 0,
            open: None,
            previous: None,
            damage: None,
            finished: false,
        }
    }

    /// The next entries, in order; `None` at the end of the log. Bounded: about a MiB at a time, and at most one larger entry.
    pub async fn next(&mut self) -> Result<Option<Entries>, Error> {
        while !self.finished {
            let mut entries = match self.step().await {
                Ok(entries) => entries,
                Err(error @ Error::Corrupt { .. }) if self.skip_damage => {
                    runtime::error!("skipping the rest of a commitlog segment: {error}");
                    self.open = None;
                    self.previous = None;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if entries.is_empty() {
                continue;
            }
            if runtime::planted(Bug::ReplayStopsEarly) {
                self.finished = true;
                entries.truncate(entries.len() / 2);
            }
            return Ok(Some(entries));
        }
        Ok(None)
    }

    /// Segments that were begun, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        (self.next, self.segments.len())
    }

    async fn step(&mut self) -> Result<Entries, Error> {
        if let Some(damage) = self.damage.take() {
            return Err(damage);
        }
        if self.tail.is_none() {
            self.open_tail().await?;
        }
        match self.open.take() {
            None => {
                self.open_next().await?;
                Ok(Entries::default())
            }
            Some(segment) => self.read_on(segment).await,
        }
    }

    /// Looks for the tail file, and for segments of which only it has anything.
    async fn open_tail(&mut self) -> Result<(), Error> {
        let name = TailName { incarnation: self.log.incarnation, shard: self.log.shard };
        let tail = if self.log.has_tail { Some(Tail::open(&self.dir, name).await?) } else { None };
        let first = self.segments.last().map_or(self.log.floor.max(1), |last| last + 1);
        self.segments.extend(tail.iter().flat_map(|tail| first..=tail.last_segment()));
        self.tail = Some(tail);
        Ok(())
    }

    /// A block that is not sound in its segment, from the tail file.
    async fn tail_block(&self, name: SegmentName, seq: u32) -> Result<Option<TailBlock>, Error> {
        if runtime::planted(Bug::ForgetTail) {
            return Ok(None);
        }
        match &self.tail {
            Some(Some(tail)) => tail.block(name, seq).await,
            _ => Ok(None),
        }
    }

    async fn open_next(&mut self) -> Result<(), Error> {
        let Some(&number) = self.segments.get(self.next) else {
            self.finished = true;
            return Ok(());
        };
        let has_file = self.next < self.log.segments.len();
        self.next += 1;
        let name = self.log.name(number);
        let path = self.dir.join(name.file_name());
        let mut file = None;
        if has_file {
            let opened = File::open(&path, OpenOptions::READ).await;
            file = Some(opened.map_err(|error| Error::io(&path, "open", error))?);
        }
        let Some((block, from_tail)) = self.header_block(&path, file.as_ref(), name).await? else {
            return Ok(());
        };
        let Some(header) = SegmentHeader::decode(&block).filter(|header| header.name == name) else {
            return Err(damaged(&path, 0, "a segment header with the numbers of the file name"));
        };
        match self.check_chain(number, &header) {
            Ok(()) => {}
            // That it is in the tail file proves nothing of the segment before.
            Err(_) if from_tail => {
                self.finished = true;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let is_checked = !runtime::planted(Bug::IgnoreCrc);
        let entries = EntryReader::new(number, crate::limits::SEGMENT_BYTES_MAX as usize, is_checked);
        self.open = Some(OpenSegment { name, path, file, next_block: 1, entries, ahead: None, spare: None });
        Ok(())
    }

    /// The first block of a segment, and whether it is from the tail file. `None`: the log has ended before.
    async fn header_block(
        &mut self,
        path: &Path,
        file: Option<&File>,
        name: SegmentName,
    ) -> Result<Option<(Vec<u8>, bool)>, Error> {
        let mut verdict = Verdict::Broken;
        let mut block = Vec::new();
        if let Some(file) = file {
            block = read_blocks(file, path, 0, AlignedBuf::zeroed(BLOCK)).await?.to_vec();
            verdict = accept(&block, name.id(), 0);
        }
        if matches!(verdict, Verdict::Valid { .. }) {
            return Ok(Some((block, false)));
        }
        if let Some(TailBlock::Sealed(block)) = self.tail_block(name, 0).await? {
            return Ok(Some((block, true)));
        }
        match (file, verdict) {
            (Some(file), Verdict::Rotten) => match self.mend(path, file, name, 0, &block).await? {
                Some(mended) => Ok(Some((mended, false))),
                None => Err(damaged(path, 0, "a sound header block")),
            },
            (Some(file), _) => self.end_at_header(path, file, name).await.map(|()| None),
            (None, _) => {
                self.finished = true;
                Ok(None)
            }
        }
    }

    /// A segment whose header is not there is the end of the log, unless it or a later one was in use.
    async fn end_at_header(&mut self, path: &Path, file: &File, name: SegmentName) -> Result<(), Error> {
        self.finished = true;
        self.check_tail(path, file, name, 0).await?;
        if self.later_in_use().await? {
            self.finished = false;
            return Err(damaged(path, 0, "a header block, as later segments are in use"));
        }
        Ok(())
    }

    /// Whether a segment after the one that is read has a sound header.
    async fn later_in_use(&self) -> Result<bool, Error> {
        for &later in self.log.segments.get(self.next..).unwrap_or_default() {
            let name = self.log.name(later);
            let later_path = self.dir.join(name.file_name());
            let file = File::open(&later_path, OpenOptions::READ)
                .await
                .map_err(|error| Error::io(&later_path, "open", error))?;
            let block = read_blocks(&file, &later_path, 0, AlignedBuf::zeroed(BLOCK)).await?;
            if valid(&block, name.id(), 0).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The last block of the log with one bit amiss, set right. A power cut can tear a block so that only one bit is
    /// missing, so this is no reason not to start; a rotten block that was synced must not be lost either. A block that
    /// something later knows to have been synced is damage, and named.
    async fn mend(
        &self,
        path: &Path,
        file: &File,
        name: SegmentName,
        seq: u32,
        block: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        self.check_tail(path, file, name, seq).await?;
        if self.later_in_use().await? {
            return Ok(None);
        }
        let mended = mended(block, name.id(), seq);
        if mended.is_some() {
            let offset = u64::from(seq) * BLOCK as u64;
            runtime::warn!(
                "commitlog: one bit set right in the last block of \"{}\" at offset {offset}",
                path.display()
            );
        }
        Ok(mended)
    }

    /// A segment that is in use proves that the one before it was synced to its end, and that none is missing between.
    fn check_chain(&self, number: u32, header: &SegmentHeader) -> Result<(), Error> {
        let Some(Previous { segment: previous, blocks, in_entry }) = self.previous else {
            if self.next == 1 && number > self.log.floor {
                return Err(self.missing(self.log.floor));
            }
            return Ok(());
        };
        if previous + 1 != number {
            return Err(self.missing(previous + 1));
        }
        if blocks < header.previous_blocks || in_entry {
            let path = self.dir.join(self.log.name(previous).file_name());
            return Err(damaged(
                &path,
                u64::from(blocks) * BLOCK as u64,
                "a sound block, as the next segment is in use",
            ));
        }
        Ok(())
    }

    fn missing(&self, segment: u32) -> Error {
        let path = self.dir.join(self.log.name(segment).file_name());
        Error::corrupt(KIND, &path, 0, "a file, as later segments are in use", "no such file")
    }

    async fn read_on(&mut self, mut segment: OpenSegment) -> Result<Entries, Error> {
        let offset = u64::from(segment.next_block) * BLOCK as u64;
        let bytes = segment.blocks(offset).await?;
        let mut read = self.read_entries(&mut segment, &bytes).await;
        if matches!(read, Ok(Read::All)) && bytes.len() < REPLAY_READ_BYTES {
            read = self.read_behind_file(&mut segment).await;
        }
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                self.damage = Some(error);
                return Ok(segment.entries.take());
            }
        };
        let entries = segment.entries.take();
        if read == Read::LastOfLog {
            self.finished = true;
        } else if read == Read::LastOfSegment {
            self.previous = Some(Previous {
                segment: segment.name.segment,
                blocks: segment.next_block,
                in_entry: segment.entries.in_entry(),
            });
        } else {
            // Behind the end of the file there is nothing to read into it.
            segment.spare = (bytes.len() == REPLAY_READ_BYTES).then_some(bytes);
            self.open = Some(segment);
        }
        Ok(entries)
    }

    /// Reads the entries of consecutive blocks of a segment's file. What was found before damage can be taken.
    async fn read_entries(&self, segment: &mut OpenSegment, bytes: &[u8]) -> Result<Read, Error> {
        for block in bytes.chunks_exact(BLOCK) {
            let seq = segment.next_block;
            let verdict = accept(block, segment.name.id(), seq);
            if matches!(verdict, Verdict::Valid { .. }) {
                take_block(segment, block)?;
            } else if let Some(kept) = self.tail_block(segment.name, seq).await? {
                match kept {
                    TailBlock::Sealed(kept) => take_block(segment, &kept)?,
                    // An older version of what rots in the segment.
                    TailBlock::Open(_) if verdict == Verdict::Rotten => {
                        self.take_mended(segment, block).await?
                    }
                    TailBlock::Open(kept) => return self.end_in_open_block(segment, &kept).await,
                }
            } else if verdict == Verdict::Rotten {
                self.take_mended(segment, block).await?;
            } else {
                self.check_end(segment).await?;
                return Ok(Read::LastOfSegment);
            }
            runtime::yield_if_needed().await;
        }
        Ok(Read::All)
    }

    /// Takes the entries of the last block of the log, of which one bit is amiss.
    async fn take_mended(&self, segment: &mut OpenSegment, block: &[u8]) -> Result<(), Error> {
        let seq = segment.next_block;
        let mended = match &segment.file {
            Some(file) => self.mend(&segment.path, file, segment.name, seq, block).await?,
            None => None,
        };
        let offset = u64::from(seq) * BLOCK as u64;
        let mended = mended.ok_or_else(|| damaged(&segment.path, offset, "a sound block"))?;
        take_block(segment, &mended)
    }

    /// Reads blocks that the tail file has behind the end of the segment's file, or in place of that.
    async fn read_behind_file(&self, segment: &mut OpenSegment) -> Result<Read, Error> {
        for _ in 0..REPLAY_READ_BYTES / BLOCK {
            match self.tail_block(segment.name, segment.next_block).await? {
                Some(TailBlock::Sealed(block)) => take_block(segment, &block)?,
                Some(TailBlock::Open(block)) => return self.end_in_open_block(segment, &block).await,
                None => return Ok(Read::LastOfSegment),
            }
            runtime::yield_if_needed().await;
        }
        // The file is looked at again, and ends before.
        Ok(Read::All)
    }

    /// A block that was not full when the process ended is the end of the log, unless more was synced.
    async fn end_in_open_block(&self, segment: &mut OpenSegment, block: &[u8]) -> Result<Read, Error> {
        self.check_end(segment).await?;
        if self.later_in_use().await? {
            let offset = u64::from(segment.next_block) * BLOCK as u64;
            return Err(damaged(&segment.path, offset, "a sound block, as later segments are in use"));
        }
        segment.entries.open_block(segment.next_block, block);
        Ok(Read::LastOfLog)
    }

    /// Looks whether something behind the next block says that it was synced.
    async fn check_end(&self, segment: &OpenSegment) -> Result<(), Error> {
        match &segment.file {
            Some(file) => self.check_tail(&segment.path, file, segment.name, segment.next_block).await,
            None => Ok(()),
        }
    }

    /// Looks behind the first block that is not sound for one that says it was synced.
    async fn check_tail(&self, path: &Path, file: &File, name: SegmentName, end: u32) -> Result<(), Error> {
        let mut next = end + 1;
        let mut sound = 0;
        loop {
            let bytes = read_blocks(file, path, u64::from(next) * BLOCK as u64, buffer()).await?;
            for block in bytes.chunks_exact(BLOCK) {
                let synced = valid(block, name.id(), next);
                sound += u32::from(synced.is_some());
                if synced.is_some_and(|synced| synced > end) {
                    let offset = u64::from(end) * BLOCK as u64;
                    return Err(damaged(
                        path,
                        offset,
                        &format!("a sound block, as block {next} knows it was synced"),
                    ));
                }
                next += 1;
            }
            if bytes.len() < REPLAY_READ_BYTES {
                break;
            }
        }
        if sound > 0 {
            let offset = u64::from(end) * BLOCK as u64;
            runtime::warn!(
                "commitlog: \"{}\" ends at offset {offset}, where a block is not sound; {sound} blocks behind it, never \
                 known to be synced, are left out: a power cut does that, or damage",
                path.display()
            );
        }
        Ok(())
    }
}

/// How far reading some blocks came.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    /// All of them.
    All,
    /// To the last block of the segment.
    LastOfSegment,
    /// To the last block of the log.
    LastOfLog,
}

/// Takes the entries of the next block of a segment.
fn take_block(segment: &mut OpenSegment, block: &[u8]) -> Result<(), Error> {
    if let Err(bad) = segment.entries.block(segment.next_block, block) {
        return Err(Error::corrupt(KIND, &segment.path, u64::from(bad.offset), bad.expected, bad.got));
    }
    segment.next_block += 1;
    Ok(())
}

fn accept(block: &[u8], id: u64, seq: u32) -> Verdict {
    if runtime::planted(Bug::IgnoreCrc) {
        let trailer = Trailer::read(block);
        let written = trailer.id == id && trailer.seq == seq;
        return if written { Verdict::Valid { synced: trailer.synced } } else { Verdict::Broken };
    }
    judge(block, id, seq)
}

fn damaged(path: &Path, offset: u64, expected: &str) -> Error {
    Error::corrupt(KIND, path, offset, expected, "damaged bytes")
}

/// As many bytes of whole blocks as the buffer has, or up to the end of the file; a block that it cuts is filled up with zeros.
async fn read_blocks(file: &File, path: &Path, offset: u64, buffer: AlignedBuf) -> Result<AlignedBuf, Error> {
    let read = file.read_at(offset, buffer).await;
    let (mut bytes, count) = read.map_err(|error| Error::io(path, "read", error))?;
    bytes.truncate(count);
    let least = if offset == 0 { 1 } else { 0 };
    bytes.resize(count.max(least).next_multiple_of(BLOCK), 0);
    Ok(bytes)
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
