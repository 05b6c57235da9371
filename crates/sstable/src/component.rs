//! The files of one sstable and how they are named.

use std::path::{Path, PathBuf};

/// The version letters this crate writes.
pub const VERSION: &str = "nb";

/// One file of an sstable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The partitions.
    Data,
    /// One entry per partition: key, position, promoted index.
    Index,
    /// Every 128th entry of the index.
    Summary,
    /// The bloom filter.
    Filter,
    /// Schema, delta bases, histograms, ranges.
    Statistics,
    /// Chunk offsets, when the data is compressed.
    CompressionInfo,
    /// Chunk checksums, when the data is not compressed.
    Crc,
    /// The checksum of the whole data file, as text.
    Digest,
    /// Checksums of index, summary, filter and the like; our own, unknown to Cassandra and not in the list.
    Checksums,
    /// The list of components, written last.
    Toc,
}

impl Component {
    /// All components, in the order in which they become durable.
    pub const ALL: [Component; 10] = [
        Component::Data,
        Component::Index,
        Component::Summary,
        Component::Filter,
        Component::Statistics,
        Component::CompressionInfo,
        Component::Crc,
        Component::Digest,
        Component::Checksums,
        Component::Toc,
    ];

    /// The end of the file's name; part of the format.
    pub fn suffix(self) -> &'static str {
        match self {
            Component::Data => "Data.db",
            Component::Index => "Index.db",
            Component::Summary => "Summary.db",
            Component::Filter => "Filter.db",
            Component::Statistics => "Statistics.db",
            Component::CompressionInfo => "CompressionInfo.db",
            Component::Crc => "CRC.db",
            Component::Digest => "Digest.crc32",
            Component::Checksums => "Checksums.db",
            Component::Toc => "TOC.txt",
        }
    }

    /// The file's path.
    pub fn path(self, dir: &Path, generation: u64) -> PathBuf {
        dir.join(format!("{VERSION}-{generation}-big-{}", self.suffix()))
    }

    /// The path while it is being written; such files are garbage after a crash.
    pub fn temporary_path(self, dir: &Path, generation: u64) -> PathBuf {
        dir.join(format!("{VERSION}-{generation}-big-{}.tmp", self.suffix()))
    }

    /// The generation and component of a file name of ours, without `.tmp`.
    pub fn of_file_name(name: &str) -> Option<(u64, Component)> {
        let rest = name.strip_prefix(VERSION)?.strip_prefix('-')?;
        let (generation, rest) = rest.split_once('-')?;
        if generation.is_empty() || !generation.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let generation = generation.parse().ok()?;
        let suffix = rest.strip_prefix("big-")?;
        let component = Component::ALL.into_iter().find(|component| component.suffix() == suffix)?;
        Some((generation, component))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for component in Component::ALL {
            let path = component.path(Path::new("/d"), 12);
            let name = path.file_name().and_then(|name| name.to_str()).expect("it has one");
            assert_eq!(Component::of_file_name(name), Some((12, component)));
            let path = component.temporary_path(Path::new("/d"), 12);
            let name = path.file_name().and_then(|name| name.to_str()).expect("it has one");
            assert_eq!(Component::of_file_name(name), None);
        }
        assert_eq!(Component::of_file_name("nb-x-big-Data.db"), None);
        assert_eq!(Component::of_file_name("nb-1-bti-Data.db"), None);
        assert_eq!(Component::of_file_name("nb-99999999999999999999999-big-Data.db"), None);
    }
}
