//! The files of one sstable and how they are named: `<version>-<id>-<format>-<component>`.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::version::{Format, Version};

/// Characters of an id made of a UUID.
const UUID_ID_BYTES: usize = 28;

/// What tells an sstable from the others of its folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SstableId {
    /// A number; all that Messina itself writes.
    Number(u64),
    /// A UUID of version 1 in the 28 characters of `uuid_sstable_identifiers_enabled`: `dddd_ssss_nnnnnlllllllllllll`,
    /// days, seconds, rest and low half in base 36.
    Uuid([u8; UUID_ID_BYTES]),
}

impl SstableId {
    /// The id of its characters.
    pub fn parse(text: &str) -> Option<SstableId> {
        let bytes = text.as_bytes();
        if !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit) {
            return text.parse().ok().map(SstableId::Number);
        }
        let id: [u8; UUID_ID_BYTES] = bytes.try_into().ok()?;
        let digit = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
        let sound = id
            .iter()
            .enumerate()
            .all(|(at, byte)| if at == 4 || at == 9 { *byte == b'_' } else { digit(byte) });
        sound.then_some(SstableId::Uuid(id))
    }

    /// The number, if it is one.
    pub fn number(self) -> Option<u64> {
        match self {
            SstableId::Number(number) => Some(number),
            SstableId::Uuid(_) => None,
        }
    }
}

impl fmt::Display for SstableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SstableId::Number(number) => write!(f, "{number}"),
            SstableId::Uuid(id) => f.write_str(&String::from_utf8_lossy(id)),
        }
    }
}

impl fmt::Debug for SstableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of an sstable in its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Descriptor {
    /// The version of its files.
    pub version: Version,
    /// What tells it from others.
    pub id: SstableId,
}

impl Descriptor {
    /// The name of one with a number.
    pub fn new(version: Version, generation: u64) -> Descriptor {
        Descriptor { version, id: SstableId::Number(generation) }
    }

    /// The sstable and component of a file name, without `.tmp`; `None` when it is not one that can be read.
    pub fn of_file_name(name: &str) -> Option<(Descriptor, Component)> {
        let mut parts = name.splitn(4, '-');
        let mut next = || parts.next();
        let (version, id, format, suffix) = (next()?, next()?, next()?, next()?);
        let version = Version::of_letters(version)?;
        if Format::of_name(format)? != version.format() {
            return None;
        }
        let component = Component::ALL.into_iter().find(|component| component.suffix() == suffix)?;
        Some((Descriptor { version, id: SstableId::parse(id)? }, component))
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.version, self.id, self.version.format().name())
    }
}

/// One file of an sstable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The partitions.
    Data,
    /// One entry per partition: key, position, promoted index. Format big.
    Index,
    /// Every 128th entry of the index. Format big.
    Summary,
    /// A trie of all partition keys. Format bti.
    Partitions,
    /// A trie of clustering bounds for each wide partition. Format bti.
    Rows,
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
    /// All components of both formats, in the order in which they become durable.
    pub const ALL: [Component; 12] = [
        Component::Data,
        Component::Index,
        Component::Summary,
        Component::Partitions,
        Component::Rows,
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
            Component::Partitions => "Partitions.db",
            Component::Rows => "Rows.db",
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
    pub fn path(self, dir: &Path, descriptor: Descriptor) -> PathBuf {
        dir.join(format!("{descriptor}-{}", self.suffix()))
    }

    /// The path while it is being written; such files are garbage after a crash.
    pub fn temporary_path(self, dir: &Path, descriptor: Descriptor) -> PathBuf {
        dir.join(format!("{descriptor}-{}.tmp", self.suffix()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &Path) -> &str {
        path.file_name().and_then(|name| name.to_str()).expect("it has one")
    }

    #[test]
    fn names_are_read_back() {
        let id = SstableId::parse("3gvk_0g5a_1tvow2ywqy9xhzm4d7").expect("28 characters");
        for version in Version::ALL {
            for descriptor in [Descriptor::new(version, 12), Descriptor { version, id }] {
                for component in Component::ALL {
                    let path = component.path(Path::new("/d"), descriptor);
                    assert_eq!(Descriptor::of_file_name(name(&path)), Some((descriptor, component)));
                    let path = component.temporary_path(Path::new("/d"), descriptor);
                    assert_eq!(Descriptor::of_file_name(name(&path)), None);
                }
            }
        }
    }

    #[test]
    fn other_names_are_none_of_ours() {
        for name in [
            "nb-x-big-Data.db",
            "nb-1-bti-Data.db",
            "da-1-big-Data.db",
            "la-1-big-Data.db",
            "nb--big-Data.db",
            "nb-1-big-Else.db",
            "nb-1-big",
            "nb-99999999999999999999999-big-Data.db",
            "nb-3gvk-0g5a-1tvow2ywqy9xhzm4d7-big-Data.db",
            "nb-3GVK_0g5a_1tvow2ywqy9xhzm4d7-big-Data.db",
        ] {
            assert_eq!(Descriptor::of_file_name(name), None, "{name}");
        }
    }
}
