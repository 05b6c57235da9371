//! Versions of the file format and what sets each apart: one table, which all other code asks.

/// How partitions and rows are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A list of keys with a sampled summary (`Index.db`, `Summary.db`).
    Big,
    /// Tries over byte-comparable keys (`Partitions.db`, `Rows.db`).
    Bti,
}

impl Format {
    /// The name in file names and in `sstable.selected_format`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Big => "big",
            Format::Bti => "bti",
        }
    }

    /// The format of a name.
    pub fn of_name(name: &str) -> Option<Format> {
        [Format::Big, Format::Bti].into_iter().find(|format| format.name() == name)
    }

    /// The version that is written where the format is selected.
    pub fn version(self) -> Version {
        match self {
            Format::Big => Version::Nb,
            Format::Bti => Version::Da,
        }
    }
}

/// A version that can be read. Nodes write `nb` or `da`; the writer knows the others for nodes that are older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Cassandra 3.0.8, 3.9.
    Mc,
    /// Cassandra 3.0.18, 3.11.4.
    Md,
    /// Cassandra 3.0.25, 3.11.11.
    Me,
    /// Cassandra 4.0, before its release.
    Na,
    /// Cassandra 4.0 to 5.0.
    Nb,
    /// Cassandra 5.0 without compatibility to 4.
    Oa,
    /// Cassandra 5.0, tries.
    Da,
}

/// What sets a version apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    version: Version,
    letters: &'static str,
    format: Format,
    /// The two lists of least and largest clustering values tell the truth.
    pub(crate) sound_clustering_lists: bool,
    /// A slice of clustering bounds instead of those lists; then key range, token coverage and whether there are
    /// deletions of partitions.
    pub(crate) covered_slice: bool,
    /// The node that wrote the file is named.
    pub(crate) host_id: bool,
    /// Session of a pending repair, and whether data is transient.
    pub(crate) repair_session: bool,
    /// `Statistics.db` carries checksums.
    pub(crate) statistics_checksums: bool,
    /// Chunks that would not shrink enough are stored as they are.
    pub(crate) raw_chunks: bool,
    /// Each word of `Filter.db` stands with its bytes turned round.
    pub(crate) turned_filter: bool,
    /// Local times are unsigned, a live deletion is one byte.
    pub(crate) wide_times: bool,
}

const Y: bool = true;
const N: bool = false;

const fn row(version: Version, letters: &'static str, format: Format, facts: [bool; 8]) -> Facts {
    let [lists, covered, host, repair, checksums, raw, turned, wide] = facts;
    Facts {
        version,
        letters,
        format,
        sound_clustering_lists: lists,
        covered_slice: covered,
        host_id: host,
        repair_session: repair,
        statistics_checksums: checksums,
        raw_chunks: raw,
        turned_filter: turned,
        wide_times: wide,
    }
}

/// One row per version, in the order of the enum.
#[rustfmt::skip]
const TABLE: [Facts; 7] = [
    //                                      sound  covered  host  repair   statistics  raw     turned  wide
    //                                      lists  slice    id    session  checksums   chunks  filter  times
    row(Version::Mc, "mc", Format::Big,    [N,     N,       N,    N,       N,          N,      Y,      N]),
    row(Version::Md, "md", Format::Big,    [Y,     N,       N,    N,       N,          N,      Y,      N]),
    row(Version::Me, "me", Format::Big,    [Y,     N,       Y,    N,       N,          N,      Y,      N]),
    row(Version::Na, "na", Format::Big,    [Y,     N,       N,    Y,       Y,          Y,      N,      N]),
    row(Version::Nb, "nb", Format::Big,    [Y,     N,       Y,    Y,       Y,          Y,      N,      N]),
    row(Version::Oa, "oa", Format::Big,    [N,     Y,       Y,    Y,       Y,          Y,      N,      Y]),
    row(Version::Da, "da", Format::Bti,    [N,     Y,       Y,    Y,       Y,          Y,      N,      Y]),
];

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Version; 7] =
        [Version::Mc, Version::Md, Version::Me, Version::Na, Version::Nb, Version::Oa, Version::Da];

    /// Its facts.
    pub(crate) fn facts(self) -> &'static Facts {
        &TABLE[self as usize]
    }

    /// The letters in file names.
    pub fn letters(self) -> &'static str {
        self.facts().letters
    }

    /// The version of letters.
    pub fn of_letters(letters: &str) -> Option<Version> {
        TABLE.iter().find(|facts| facts.letters == letters).map(|facts| facts.version)
    }

    /// How its files are searched.
    pub fn format(self) -> Format {
        self.facts().format
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.letters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_versions() {
        for version in Version::ALL {
            assert_eq!(version.facts().version, version);
            assert_eq!(Version::of_letters(version.letters()), Some(version));
        }
        assert_eq!(Version::of_letters("la"), None);
        for format in [Format::Big, Format::Bti] {
            assert_eq!(format.version().format(), format);
            assert_eq!(Format::of_name(format.name()), Some(format));
        }
    }
}
