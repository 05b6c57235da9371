//! An append-only log of records that must never be lost: the manifest of a shard, the schema of a node.
//!
//! ```text
//! file     "MSNJRNL1" | record | record | …
//! record   len u32 | crc u32 | body          crc over len and body; len is never 0
//! ```
//! Big endian; must never change. Every append is synced before the next begins, so only the last record can be torn: it is
//! cut off when the file is opened. A broken record with a sound one behind it is corruption. A last record with one bit amiss,
//! whether torn or rotten, is set right. A journal is rewritten by replacing its file atomically.
//!
//! What is read is made durable before anybody acts on it: a process may have been killed between writing a record and syncing
//! it, and what was done because of that record must not outlive it in a power cut. It is written to a new file: where a sync
//! failed, the page cache shows bytes that the disk may not have, and another sync of the same file would not write them.

use crate::error::Error;
use crate::limits::JOURNAL_RECORD_BYTES_MAX;
use crate::rot::{Flipped, one_bit_off};
use base::Crc32;
use runtime::file::{self, AlignedBuf, File, OpenOptions};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"MSNJRNL1";
const HEADER: usize = 8;

/// An open journal. One owner; appends one after the other.
pub struct Journal {
    path: PathBuf,
    file: File,
    /// End of the last sound record.
    end: u64,
    /// Bytes right after the last rewrite.
    rewritten_end: u64,
    /// Set by a failed sync or rewrite: what the file holds is unknown until it is rewritten.
    failed: bool,
}

impl Journal {
    /// A sound file is never smaller.
    pub const BYTES_MIN: usize = MAGIC.len();
    /// Bytes in front of the body of each record.
    pub const RECORD_HEADER_BYTES: usize = HEADER;

    /// Opens a journal, or makes an empty one, and returns its records in order.
    /// Errors: [`Error::Corrupt`] names the broken record; a torn last record is no error and is cut off.
    pub async fn open(path: &Path) -> Result<(Journal, Vec<Vec<u8>>), Error> {
        let io = |action| move |source| Error::io(path, action, source);
        let bytes = match file::exists(path).await {
            Ok(true) => file::read(path).await.map_err(io("read"))?,
            Ok(false) => Vec::new(),
            Err(error) => return Err(Error::io(path, "look for", error)),
        };
        let parsed = parse(&bytes).map_err(|bad| bad.in_file(path))?;
        parsed.report(path);
        let journal = Journal::create(path, &parsed.records).await?;
        Ok((journal, parsed.records))
    }

    /// Reads the records of a journal that nobody appends to any more; `None` if there is no such file.
    pub async fn read(path: &Path) -> Result<Option<Vec<Vec<u8>>>, Error> {
        match file::exists(path).await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(Error::io(path, "look for", error)),
        }
        let bytes = file::read(path).await.map_err(|error| Error::io(path, "read", error))?;
        let parsed = parse(&bytes).map_err(|bad| bad.in_file(path))?;
        parsed.report(path);
        let again = encode(&parsed.records);
        file::replace_atomic(path, &again).await.map_err(|error| Error::io(path, "rewrite", error))?;
        Ok(Some(parsed.records))
    }

    /// Makes a new journal that holds `records`, replacing a file of that name; synced, its name as well.
    pub async fn create(path: &Path, records: &[Vec<u8>]) -> Result<Journal, Error> {
        let bytes = encode(records);
        file::replace_atomic(path, &bytes).await.map_err(|error| Error::io(path, "create", error))?;
        let file = open_for_append(path).await?;
        let end = bytes.len() as u64;
        Ok(Journal { path: path.to_path_buf(), file, end, rewritten_end: end, failed: false })
    }

    /// Appends one record and syncs it.
    /// Errors: nothing was appended; after a failed sync every append fails until [`Journal::rewrite`] succeeds.
    pub async fn append(&mut self, record: &[u8]) -> Result<(), Error> {
        assert!(!record.is_empty(), "an empty record looks like the end");
        assert!(record.len() <= JOURNAL_RECORD_BYTES_MAX, "records are bounded by their writers");
        if self.failed {
            let failed = std::io::Error::other("an earlier sync failed");
            return Err(Error::io(&self.path, "append to", failed));
        }
        let mut bytes = Vec::with_capacity(HEADER + record.len());
        push_record(&mut bytes, record);
        let mut buffer = AlignedBuf::with_capacity(bytes.len());
        buffer.extend_from_slice(&bytes);
        if let Err(error) = self.file.write_at(self.end, buffer).await {
            // What the failed write left behind must not look like a record.
            self.failed = self.file.truncate(self.end).await.is_err();
            return Err(Error::io(&self.path, "append to", error));
        }
        if let Err(error) = self.file.sync_data().await {
            self.failed = true;
            return Err(Error::io(&self.path, "sync", error));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Replaces everything by `records`, atomically and synced.
    /// Errors: the old or the new content is there; when that is not known, every append fails until a rewrite succeeds.
    pub async fn rewrite(&mut self, records: &[Vec<u8>]) -> Result<(), Error> {
        self.try_rewrite(records).await.map_err(|unwritten| unwritten.error)
    }

    /// The same, and on failure tells whether the file may hold the change.
    pub async fn try_rewrite(&mut self, records: &[Vec<u8>]) -> Result<(), Unwritten> {
        let bytes = encode(records);
        let temporary = self.path.with_added_extension("tmp");
        if let Err(error) = write_beside(&temporary, &bytes).await {
            let error = Error::io(&temporary, "write", error);
            // What an earlier append left may be this very edit.
            return Err(Unwritten { error, absent: !self.failed });
        }
        // From here on the new content may be the one that counts, and this handle be that of the old file.
        self.failed = true;
        match self.put_in_place(&temporary).await {
            Ok(file) => {
                let end = bytes.len() as u64;
                *self = Journal { path: self.path.clone(), file, end, rewritten_end: end, failed: false };
                Ok(())
            }
            Err(error) => Err(Unwritten { error, absent: false }),
        }
    }

    async fn put_in_place(&self, temporary: &Path) -> Result<File, Error> {
        let path = &self.path;
        file::rename(temporary, path).await.map_err(|error| Error::io(path, "replace", error))?;
        if let Some(folder) = path.parent() {
            file::sync_dir(folder).await.map_err(|error| Error::io(folder, "sync folder", error))?;
        }
        open_for_append(path).await
    }

    /// Bytes appended since the journal was opened or rewritten.
    pub fn grown(&self) -> u64 {
        self.end - self.rewritten_end
    }

    /// Whether a failed sync or rewrite asks for a rewrite.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A change of a journal that failed.
#[derive(Debug)]
pub struct Unwritten {
    /// Why.
    pub error: Error,
    /// Whether it is certain that the file holds nothing of the change.
    pub absent: bool,
}

impl From<Unwritten> for Error {
    fn from(unwritten: Unwritten) -> Error {
        unwritten.error
    }
}

async fn write_beside(temporary: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if file::exists(temporary).await? {
        file::remove(temporary).await?;
    }
    file::write_new_synced(temporary, bytes).await
}

async fn open_for_append(path: &Path) -> Result<File, Error> {
    let options = OpenOptions { read: true, write: true, ..OpenOptions::READ };
    File::open(path, options).await.map_err(|error| Error::io(path, "open", error))
}

fn encode(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    records.iter().for_each(|record| push_record(&mut bytes, record));
    bytes
}

fn push_record(out: &mut Vec<u8>, body: &[u8]) {
    let len = (body.len() as u32).to_be_bytes();
    out.extend_from_slice(&len);
    out.extend_from_slice(&record_crc(len, body).to_be_bytes());
    out.extend_from_slice(body);
}

fn record_crc(len: [u8; 4], body: &[u8]) -> u32 {
    let mut crc = Crc32::new();
    crc.update(&len);
    crc.update(body);
    crc.finalize()
}

#[derive(Debug, PartialEq, Eq)]
struct Parsed {
    records: Vec<Vec<u8>>,
    /// End of the last sound record; 0 when not even the magic is there.
    end: usize,
    /// The last record was set right.
    mended: bool,
    /// Bytes behind the last sound record.
    cut: usize,
}

impl Parsed {
    fn report(&self, path: &Path) {
        if self.mended {
            runtime::warn!("journal: one bit set right in the last record of \"{}\"", path.display());
        }
        if self.cut > 0 {
            // A crash in the middle of an append and damage of the last record look the same.
            let Parsed { end, cut, .. } = self;
            runtime::warn!(
                "journal: \"{}\" ends at offset {end}, {cut} bytes behind it are no record",
                path.display()
            );
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Bad {
    offset: usize,
    expected: &'static str,
    got: &'static str,
}

impl Bad {
    fn in_file(self, path: &Path) -> Error {
        Error::Corrupt {
            file: path.to_path_buf(),
            offset: self.offset as u64,
            expected: self.expected,
            got: self.got,
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Parsed, Bad> {
    let mut parsed = Parsed { records: Vec::new(), end: 0, mended: false, cut: 0 };
    if bytes.len() < MAGIC.len() {
        parsed.cut = bytes.len();
        return Ok(parsed);
    }
    if &bytes[..MAGIC.len()] != MAGIC {
        return Err(Bad { offset: 0, expected: "the magic of a journal", got: "other bytes" });
    }
    parsed.end = MAGIC.len();
    while let Some(body) = record_at(bytes, parsed.end) {
        parsed.records.push(body.to_vec());
        parsed.end += HEADER + body.len();
    }
    let tail = &bytes[parsed.end..];
    if (parsed.end + 1..bytes.len()).any(|later| record_at(bytes, later).is_some()) {
        return Err(Bad { offset: parsed.end, expected: "a record with its checksum", got: "damaged bytes" });
    }
    if let Some(body) = mended(tail) {
        parsed.records.push(body);
        parsed.end = bytes.len();
        parsed.mended = true;
    }
    parsed.cut = bytes.len() - parsed.end;
    Ok(parsed)
}

/// The sound record at an offset.
fn record_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let head = bytes.get(at..at + HEADER)?;
    let len_bytes = [head[0], head[1], head[2], head[3]];
    let crc = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let len = u32::from_be_bytes(len_bytes) as usize;
    if len == 0 || len > JOURNAL_RECORD_BYTES_MAX {
        return None;
    }
    let body = bytes.get(at + HEADER..at + HEADER + len)?;
    (record_crc(len_bytes, body) == crc).then_some(body)
}

/// The body of the record that fills the tail of a file but for one bit; `None` when more than that is amiss.
fn mended(tail: &[u8]) -> Option<Vec<u8>> {
    let mut body = tail.get(HEADER..).filter(|body| !body.is_empty())?.to_vec();
    let len = (body.len() as u32).to_be_bytes();
    let stored = u32::from_be_bytes([tail[4], tail[5], tail[6], tail[7]]);
    let difference = record_crc(len, &body) ^ stored;
    if len != tail[..4] {
        let flipped: u32 = len.iter().zip(&tail[..4]).map(|(a, b)| (a ^ b).count_ones()).sum();
        return (difference == 0 && flipped == 1).then_some(body);
    }
    match one_bit_off(difference, len.len() + body.len())? {
        Flipped::Checksum => {}
        Flipped::Message { byte, bit } => *body.get_mut(byte.checked_sub(len.len())?)? ^= 1 << bit,
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    //! A journal cut anywhere gives a prefix of its records; a journal damaged anywhere is refused, naming the place.
    use super::*;
    use base::Prng;

    fn records() -> Vec<Vec<u8>> {
        let mut prng = Prng::new(2);
        (1..12usize)
            .map(|i| {
                let mut body = vec![0; i * 37];
                prng.fill(&mut body);
                body
            })
            .collect()
    }

    #[test]
    fn a_cut_file_gives_a_prefix() {
        let records = records();
        let bytes = encode(&records);
        assert_eq!(
            parse(&bytes).expect("sound"),
            Parsed { records: records.clone(), end: bytes.len(), mended: false, cut: 0 }
        );
        for cut in 0..bytes.len() {
            let parsed = parse(&bytes[..cut]).expect("torn, not corrupt");
            assert_eq!(parsed.records, records[..parsed.records.len()]);
            assert_eq!(parsed.end + parsed.cut, cut);
        }
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let records = records();
        let bytes = encode(&records);
        let last = bytes.len() - HEADER - records[records.len() - 1].len();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match parse(&damaged) {
                Ok(parsed) => {
                    assert!(bit / 8 >= last && parsed.mended, "bit {bit} goes unnoticed");
                    assert_eq!(parsed.records, records, "bit {bit} is set right");
                }
                Err(bad) => assert!(bad.offset <= bit / 8 && bit / 8 < last, "bit {bit} at {}", bad.offset),
            }
        }
    }

    #[test]
    fn a_last_record_with_lost_sectors_is_torn() {
        let records = vec![vec![1; 3000], vec![2; 3000]];
        let bytes = encode(&records);
        for from in (3100..bytes.len()).step_by(41) {
            let mut torn = bytes.clone();
            torn[from..(from + 512).min(bytes.len())].fill(0);
            assert_eq!(parse(&torn).expect("torn").records, records[..1], "lost from {from}");
        }
    }
}
