//! Files of hints: their names, one that is written to, one that is read.

use crate::limits::READ_BYTES;
use crate::record::{HEADER, Hint, Place, header, look, parse_header};
use base::HostId;
use runtime::file::{self, AlignedBuf, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

const EXTENSION: &str = ".hints";

/// What the name of a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) target: HostId,
    /// The shard that made it.
    pub(crate) shard: u16,
    /// When it was made, in milliseconds since the Unix epoch; higher in later files of a queue, whatever the clock does.
    pub(crate) ms: i64,
}

impl Name {
    pub(crate) fn of(self) -> String {
        format!("{}-{}-{}{EXTENSION}", self.target, self.shard, self.ms)
    }

    pub(crate) fn parse(name: &str) -> Option<Name> {
        let mut parts = name.strip_suffix(EXTENSION)?.rsplitn(3, '-');
        let (ms, shard, target) = (parts.next()?, parts.next()?, parts.next()?);
        let target = HostId(u128::from_str_radix(&target.replace('-', ""), 16).ok()?);
        let name_ = Name { target, shard: shard.parse().ok()?, ms: ms.parse().ok()? };
        (name_.of() == name).then_some(name_)
    }
}

/// The file that a queue appends to.
pub(crate) struct Open {
    file: File,
    pub(crate) path: PathBuf,
    pub(crate) ms: i64,
    /// Behind the last hint that is durable.
    pub(crate) end: u64,
}

/// Why hints are not durable.
pub(crate) struct Unflushed {
    pub(crate) error: io::Error,
    /// The file may hold anything from its durable end on, and must not be appended to.
    pub(crate) is_spoilt: bool,
}

impl Open {
    /// Makes a file; its name is durable when the first hints are.
    pub(crate) async fn create(folder: &Path, name: Name, salt: u64) -> io::Result<Open> {
        let path = folder.join(name.of());
        let file = File::open(&path, OpenOptions::CREATE_NEW).await?;
        let header = header(name.target, salt);
        if let Err(error) = file.write_at(0, AlignedBuf::from(&header[..])).await {
            // What cannot be removed either is found empty by the next life.
            let _best_effort = file::remove(&path).await;
            return Err(error);
        }
        Ok(Open { file, path, ms: name.ms, end: header.len() as u64 })
    }

    /// Appends hints and makes them durable, and the name of the file with the first ones.
    pub(crate) async fn append(&mut self, hints: &[u8]) -> Result<(), Unflushed> {
        if let Err(error) = self.file.write_at(self.end, AlignedBuf::from(hints)).await {
            // What the write left behind must not stand in front of what is appended next.
            let is_spoilt = self.file.truncate(self.end).await.is_err();
            return Err(Unflushed { error, is_spoilt });
        }
        let synced = async {
            self.file.sync_data().await?;
            match self.path.parent() {
                Some(folder) if self.end == HEADER as u64 => file::sync_dir(folder).await,
                _ => Ok(()),
            }
        };
        // Behind a failed sync the page cache may show bytes that the disk does not have.
        synced.await.map_err(|error| Unflushed { error, is_spoilt: true })?;
        self.end += hints.len() as u64;
        Ok(())
    }
}

/// Makes a folder whose name survives a power cut, also when it is there already. Folders above it may belong to somebody else; then they
/// are older than this node.
pub(crate) async fn make_folder(path: &Path) -> io::Result<()> {
    file::create_dir_all(path).await?;
    for parent in path.ancestors().skip(1) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match file::sync_dir(parent).await {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            result => result?,
        }
    }
    Ok(())
}

/// Reads the hints of a file that nobody appends to any more.
pub(crate) struct Reader {
    file: File,
    size: u64,
    salt: u64,
    at: u64,
}

/// Hints that stand one behind the other, and where they end.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Each with the place behind it.
    pub(crate) hints: Vec<(Hint, u64)>,
    /// Bytes of the hints.
    pub(crate) bytes: usize,
    pub(crate) end: u64,
    /// Stretches of bytes before the end that are no hints.
    pub(crate) damaged: u64,
}

impl Reader {
    /// Opens a file to be read from a place on; `None`: it has no header, as the process that made it ended too early, and holds nothing.
    pub(crate) async fn open(path: &Path, at: u64) -> io::Result<Option<Reader>> {
        let file = File::open(path, OpenOptions::READ).await?;
        let size = file.size().await?;
        if size < HEADER as u64 {
            return Ok(None);
        }
        let header = file.read_exact_at(0, HEADER).await?;
        let Some((_, salt)) = parse_header(&header) else {
            return match header.iter().all(|byte| *byte == 0) {
                true => Ok(None),
                false => {
                    Err(io::Error::new(io::ErrorKind::InvalidData, "it does not begin as a file of hints"))
                }
            };
        };
        Ok(Some(Reader { file, size, salt, at: at.max(HEADER as u64) }))
    }

    /// The next hints, as many as there are in so many bytes, at least one; `None`: there are no more.
    pub(crate) async fn next(&mut self, bytes_max: usize) -> io::Result<Option<Batch>> {
        let mut batch = Batch { end: self.at, ..Batch::default() };
        let (mut wanted, mut is_damaged) = (READ_BYTES, false);
        while batch.hints.is_empty() && batch.end < self.size {
            let len = (self.size - batch.end).min(wanted as u64) as usize;
            let window = self.file.read_exact_at(batch.end, len).await?;
            let is_last = batch.end + len as u64 == self.size;
            wanted = READ_BYTES;
            let mut at = 0;
            loop {
                match look(&window[at..], self.salt) {
                    Place::Sound(hint, bytes) => {
                        if !batch.hints.is_empty() && bytes_max < batch.bytes + bytes {
                            break;
                        }
                        is_damaged = false;
                        batch.bytes += bytes;
                        at += bytes;
                        batch.hints.push((hint, batch.end + at as u64));
                    }
                    Place::Damaged(bytes) => {
                        at += bytes;
                        batch.damaged += u64::from(!is_damaged);
                        is_damaged = true;
                    }
                    // Torn: the process that wrote it ended too early.
                    Place::Longer(_) | Place::Short if is_last => {
                        batch.damaged += u64::from(at < window.len() && !is_damaged);
                        at = window.len();
                        break;
                    }
                    Place::Longer(bytes) => {
                        wanted = bytes.max(READ_BYTES);
                        break;
                    }
                    Place::Short => break,
                }
            }
            batch.end += at as u64;
        }
        let is_behind = self.at < batch.end;
        self.at = batch.end;
        Ok(is_behind.then_some(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_from_others() {
        let name = Name {
            target: HostId(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c8),
            shard: 12,
            ms: 1_700_000_000_123,
        };
        assert_eq!(name.of(), "6ba7b810-9dad-41d1-80b4-00c04fd430c8-12-1700000000123.hints");
        assert_eq!(Name::parse(&name.of()), Some(name));
        for other in
            ["6ba7b810-12-1.hints", "x.hints", "a-1-2.hints", "commitlog", &format!("{}.tmp", name.of())]
        {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
