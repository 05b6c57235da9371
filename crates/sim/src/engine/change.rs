//! Operations of a run, made before it from the seed, so that any part of the list can be run alone.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

/// A whole clustering, or a prefix of one: numbers in clustering order (those of descending columns are negated).
pub(super) type Place = Vec<i32>;

/// A bound of rows: before or after everything with the prefix.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) prefix: Place,
    pub(super) after: bool,
}

impl Bound {
    /// Whether it lies before a row.
    pub(super) fn is_before(&self, row: &Place) -> bool {
        match row[..self.prefix.len()].cmp(&self.prefix) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => !self.after,
        }
    }

    /// Which of two bounds comes first.
    pub(super) fn order(&self, other: &Bound) -> Ordering {
        let common = self.prefix.len().min(other.prefix.len());
        self.prefix[..common].cmp(&other.prefix[..common]).then_with(|| {
            let side = |bound: &Bound| if bound.after { 1 } else { -1 };
            match self.prefix.len().cmp(&other.prefix.len()) {
                Ordering::Equal => side(self).cmp(&side(other)),
                Ordering::Less => side(self).cmp(&0),
                Ordering::Greater => 0.cmp(&side(other)),
            }
        })
    }
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", if self.after { "after " } else { "before " }, self.prefix)
    }
}

/// Bytes that tell which they are: their number, then a filler that follows from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Value {
    tag: u32,
    len: u32,
}

impl Value {
    /// No bytes.
    pub(super) const EMPTY: Value = Value { tag: 0, len: 0 };

    /// A number and a length; at least as many bytes as the number has.
    pub(super) fn new(tag: u32, len: u32) -> Value {
        Value { tag, len: len.max(4) }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        if self.len == 0 {
            return Vec::new();
        }
        let mut bytes = Vec::with_capacity(self.len as usize);
        bytes.extend_from_slice(&self.tag.to_be_bytes());
        if self.tag & 1 == 0 {
            bytes.resize(self.len as usize, self.tag as u8);
        } else {
            // What does not compress.
            let mut state = u64::from(self.tag) | 1 << 40;
            while bytes.len() < self.len as usize {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                bytes.push((state >> 33) as u8);
            }
        }
        bytes
    }

    /// The value whose bytes these are.
    pub(super) fn of(bytes: &[u8]) -> Option<Value> {
        if bytes.is_empty() {
            return Some(Value::EMPTY);
        }
        let tag = u32::from_be_bytes(*bytes.first_chunk::<4>()?);
        let value = Value { tag, len: bytes.len() as u32 };
        (value.bytes() == bytes).then_some(value)
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}x{}", self.tag, self.len)
    }
}

/// What happens to one column.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A simple one is set, or unset.
    Cell(Option<Value>),
    /// A map: all that was there before goes when `clear`, and these cells are set or unset.
    Map { clear: bool, cells: BTreeMap<i32, Option<Value>> },
}

/// One part of a write to one partition.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Row { place: Place, mark: bool, set: Vec<(u16, Change)> },
    Static { set: Vec<(u16, Change)> },
    DeleteRow { place: Place },
    DeleteRange { start: Bound, end: Bound },
    DeletePartition,
}

/// A write to one partition as the plan has it.
#[derive(Clone, Debug)]
pub(super) struct WriteOp {
    pub(super) table: usize,
    pub(super) key: u16,
    /// Microseconds by which its timestamp is older than the clock.
    pub(super) back: i64,
    pub(super) ttl: u32,
    pub(super) parts: Vec<Part>,
}

/// A write with its times.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) table: usize,
    pub(super) key: u16,
    pub(super) timestamp: i64,
    pub(super) second: u32,
    pub(super) ttl: u32,
    pub(super) parts: Vec<Part>,
}

/// Which partitions a read asks for.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Keys(Vec<u16>),
    Tokens(i64, i64),
}

impl Wanted {
    /// The first key of keys; none of a range.
    pub(super) fn first_key(&self) -> u16 {
        match self {
            Wanted::Keys(keys) => keys.first().copied().unwrap_or_default(),
            Wanted::Tokens(..) => 0,
        }
    }
}

/// A read, with all its pages.
#[derive(Clone, Debug)]
pub(super) struct ReadOp {
    pub(super) table: usize,
    pub(super) wanted: Wanted,
    /// None: every row.
    pub(super) slices: Vec<(Bound, Bound)>,
    pub(super) reversed: bool,
    pub(super) rows: u32,
    pub(super) partition_rows: u32,
    pub(super) bytes: u32,
    pub(super) static_counts: bool,
    pub(super) digest: bool,
}

/// How a life of the node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Power,
    Kill,
    Orderly,
}

/// A bit to flip: which file, which byte (both as numbers to take the rest of), which bit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flip {
    pub(super) file: u64,
    pub(super) byte: u64,
    pub(super) bit: u8,
}

/// The end of one life and the begin of the next.
#[derive(Clone, Debug)]
pub(super) struct Restart {
    pub(super) end: End,
    /// Under way when it ends.
    pub(super) writes: Vec<WriteOp>,
    pub(super) after: Duration,
    /// A bit that is flipped for one start, and flipped back.
    pub(super) flip: Option<Flip>,
    /// Starts that do not come to their end: shards, and when the power fails.
    pub(super) cuts: Vec<(u16, Duration)>,
    pub(super) shards: u16,
}

/// What may be wrong with the disk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    /// Only so many bytes are free.
    Full(u64),
    /// So many syncs fail; the node needs a restart then.
    Syncs(u32),
    /// So many reads fail.
    Reads(u32),
}

/// What operators have done to the sstables of a table; none of it changes what is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Upkeep {
    /// All into sstables of halving sizes.
    Split,
    /// Those with tokens from the first to the last.
    Range(i64, i64),
    /// Some, by name: which is drawn from this.
    Files(u64),
    /// Everything is owned.
    Cleanup,
    Scrub,
    /// Without what others delete; cell by cell or only by tombstones.
    Collect {
        cells: bool,
    },
    Upgrade,
    /// All, but told to end while it goes on.
    Stop(Duration),
}

/// What else happens while reads and writes meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct With {
    pub(super) flush: bool,
    pub(super) compact: bool,
    /// Reads go on until the flush has ended, and find nothing cached.
    pub(super) chill: bool,
}

/// One operation.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Write(WriteOp),
    /// All to tokens of one shard go as one entry of its log.
    Batch(Vec<WriteOp>),
    Read(ReadOp),
    /// Reads of one partition while it is written to, and perhaps flushed or compacted.
    Race {
        read: ReadOp,
        reads: u32,
        writes: Vec<WriteOp>,
        with: With,
    },
    /// The whole table, then each partition through caches and past them.
    Cold {
        table: usize,
    },
    Flush {
        table: usize,
    },
    Compact {
        table: usize,
    },
    Upkeep {
        table: usize,
        how: Upkeep,
    },
    /// A snapshot is taken of a table and imported, perhaps after it was emptied.
    Import {
        table: usize,
        emptied: bool,
    },
    Wait(Duration),
    Truncate {
        table: usize,
    },
    /// Dropped, and made again.
    Again {
        table: usize,
        same_id: bool,
    },
    DropColumn {
        table: usize,
        fixed: bool,
        ordinal: u16,
    },
    AddColumn {
        table: usize,
        fixed: bool,
        ordinal: u16,
    },
    /// Another compaction strategy and other options.
    Alter {
        table: usize,
        choice: u64,
    },
    Snapshot {
        table: usize,
    },
    Slow(Duration),
    Trouble(Trouble),
    /// The disk is well again.
    Calm,
    /// A bit is flipped for a while in a file that is in use.
    Rot(Flip),
    Restart(Restart),
}
