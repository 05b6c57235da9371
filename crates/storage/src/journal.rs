//! An append-only log of records that must never be lost: the manifest of a shard, the schema of a node.
//!
//! ```text
//! file     "MSNJRNL1" | record | record | …
//! record   len u32 | crc u32 | body          crc over len and body; len is never 0
//! ```
//! Big endian; must never change. Every append is synced before the next begins, so only the last record can be torn: it is
//! cut off when the file is opened. A broken record with a sound one behind it, or with one flipped bit, is corruption.
//! A journal is rewritten by replacing its file atomically.

use crate::Error;
use crate::limits::JOURNAL_RECORD_BYTES_MAX;
use crate::rot::one_bit_off;
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
    /// Set by a failed sync: what the file holds is unknown until it is rewritten.
    failed: bool,
}

impl Journal {
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
        if parsed.end < MAGIC.len() {
            file::replace_atomic(path, MAGIC).await.map_err(io("create"))?;
        }
        let file = open_for_append(path).await?;
        let end = parsed.end.max(MAGIC.len()) as u64;
        if (parsed.end..bytes.len()).len() > 0 && parsed.end >= MAGIC.len() {
            file.truncate(end).await.map_err(io("truncate"))?;
            file.sync_data().await.map_err(io("sync"))?;
        }
        let journal = Journal { path: path.to_path_buf(), file, end, rewritten_end: end, failed: false };
        Ok((journal, parsed.records))
    }

    /// Reads the records of a journal without opening it for writing; `None` if there is no such file.
    pub async fn read(path: &Path) -> Result<Option<Vec<Vec<u8>>>, Error> {
        match file::exists(path).await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(Error::io(path, "look for", error)),
        }
        let bytes = file::read(path).await.map_err(|error| Error::io(path, "read", error))?;
        Ok(Some(parse(&bytes).map_err(|bad| bad.in_file(path))?.records))
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
    pub async fn rewrite(&mut self, records: &[Vec<u8>]) -> Result<(), Error> {
        *self = Journal::create(&self.path, records).await?;
        Ok(())
    }

    /// Bytes appended since the journal was opened or rewritten.
    pub fn grown(&self) -> u64 {
        self.end - self.rewritten_end
    }

    /// Whether a failed sync asks for a rewrite.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
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
}

#[derive(Debug, PartialEq, Eq)]
struct Bad {
    offset: usize,
    expected: &'static str,
    got: &'static str,
}

impl Bad {
    fn in_file(self, path: &Path) -> Error {
        Error::corrupt("journal", path, self.offset as u64, self.expected, self.got)
    }
}

fn parse(bytes: &[u8]) -> Result<Parsed, Bad> {
    if bytes.len() < MAGIC.len() {
        return Ok(Parsed { records: Vec::new(), end: 0 });
    }
    if &bytes[..MAGIC.len()] != MAGIC {
        return Err(Bad { offset: 0, expected: "the magic of a journal", got: "other bytes" });
    }
    let mut records = Vec::new();
    let mut at = MAGIC.len();
    while at < bytes.len() {
        match record_at(bytes, at) {
            Some(body) => {
                records.push(body.to_vec());
                at += HEADER + body.len();
            }
            None if torn_tail(bytes, at) => break,
            None => {
                return Err(Bad { offset: at, expected: "a record with its checksum", got: "damaged bytes" });
            }
        }
    }
    Ok(Parsed { records, end: at })
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

/// Whether the broken bytes from `at` to the end can be one append that a crash cut short.
fn torn_tail(bytes: &[u8], at: usize) -> bool {
    let tail = &bytes[at..];
    if tail.iter().all(|&b| b == 0) {
        return true;
    }
    if (at + 1..bytes.len()).any(|later| record_at(bytes, later).is_some()) {
        return false;
    }
    let Some(body) = tail.get(HEADER..) else { return true };
    let len = (body.len() as u32).to_be_bytes();
    let stored = u32::from_be_bytes([tail[4], tail[5], tail[6], tail[7]]);
    let difference = record_crc(len, body) ^ stored;
    if len == tail[..4] {
        return one_bit_off(difference, body.len() + 4).is_none();
    }
    let flipped: u32 = len.iter().zip(&tail[..4]).map(|(a, b)| (a ^ b).count_ones()).sum();
    !(difference == 0 && flipped == 1)
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
        assert_eq!(parse(&bytes).expect("sound"), Parsed { records: records.clone(), end: bytes.len() });
        for cut in 0..bytes.len() {
            let parsed = parse(&bytes[..cut]).expect("torn, not corrupt");
            assert_eq!(parsed.records, records[..parsed.records.len()]);
            assert!(parsed.end <= cut || cut < MAGIC.len());
        }
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let bytes = encode(&records());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let bad = parse(&damaged).expect_err("damage is not a torn append");
            assert!(bad.offset <= bit / 8, "bit {bit} was reported at {}", bad.offset);
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
