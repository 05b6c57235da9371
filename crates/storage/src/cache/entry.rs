//! One cached partition, and how readers see it.

use super::known::Known;
use super::tree::Tree;
use base::Token;
use mutation::{Body, ColumnView, Deletion, Liveness, RangeTombstones, RowRef, RowView};

/// Memory of one row of a tree beside its block, roughly: its share of a node.
const ROW_BYTES: usize = 48;
/// Memory of a static row or of tombstones beside their bytes.
const HEAD_BYTES: usize = 96;

/// Rows by position: the units that hold them.
#[derive(Default)]
pub(crate) enum Rows {
    #[default]
    None,
    /// With the place of its block, which is the unit's, too: a point read follows one reference less.
    One { unit: u32, block: u32 },
    /// Boxed: most partitions have one row and should be small.
    Many(Box<Tree<u32>>),
}

/// What most partitions do not have.
#[derive(Default)]
pub(crate) struct Head {
    pub(crate) static_row: Option<Box<[u8]>>,
    pub(crate) ranges: RangeTombstones,
}

/// A partition in the cache: what sstables say of the part that is known.
/// Invariant: rows lie at known places only.
pub(crate) struct Cached {
    pub(crate) token: Token,
    pub(crate) table: u32,
    /// What the table had forgotten and compacted when this was read; see [`super::TableCache`].
    pub(crate) generation: u32,
    pub(crate) purges: u32,
    /// Whether a compaction may leave out anything of it for good: tombstones, and what expires.
    pub(crate) is_mortal: bool,
    /// No longer in the directory: its rows are freed little by little.
    pub(crate) is_dead: bool,
    /// Stands for the partition itself; its block is the key.
    pub(crate) unit: u32,
    /// The block of that unit.
    pub(crate) key_block: u32,
    pub(crate) deletion: Deletion,
    pub(crate) known: Known,
    pub(crate) rows: Rows,
    pub(crate) head: Option<Box<Head>>,
}

impl Cached {
    pub(crate) fn vacant() -> Cached {
        Cached {
            token: Token(0),
            table: 0,
            generation: 0,
            purges: 0,
            is_mortal: false,
            is_dead: true,
            unit: 0,
            key_block: 0,
            deletion: Deletion::LIVE,
            known: Known::nothing(),
            rows: Rows::None,
            head: None,
        }
    }

    /// Bytes of memory that are in no slot and no page, roughly.
    pub(crate) fn outside_bytes(&self) -> usize {
        let rows = match &self.rows {
            Rows::None | Rows::One { .. } => 0,
            Rows::Many(rows) => ROW_BYTES * rows.len() + rows.outside_bytes(),
        };
        let head = self.head.as_ref().map_or(0, |head| {
            HEAD_BYTES + head.static_row.as_ref().map_or(0, |row| row.len()) + head.ranges.memory_bytes()
        });
        rows + head + self.known.bytes()
    }

    pub(crate) fn has_rows(&self) -> bool {
        !matches!(&self.rows, Rows::None)
    }

    /// The unit of its last row.
    pub(crate) fn last_row(&self) -> Option<u32> {
        match &self.rows {
            Rows::None => None,
            Rows::One { unit, .. } => Some(*unit),
            Rows::Many(rows) => rows.last_key_value().map(|(_, unit)| *unit),
        }
    }
}

/// The parts of a row's block: `u32` lengths of position and clustering, then the three.
#[inline]
pub(crate) fn row_of(block: &[u8]) -> RowRef<'_> {
    let length =
        |at: usize| block[at..].first_chunk::<4>().map_or(0, |number| u32::from_le_bytes(*number) as usize);
    let clustering_at = 8 + length(0);
    let body_at = clustering_at + length(4);
    RowRef {
        position: &block[8..clustering_at],
        clustering: &block[clustering_at..body_at],
        body: Body::Whole(&block[body_at..]),
    }
}

/// The lengths that a row's block begins with.
pub(crate) fn row_head(position: &[u8], clustering: &[u8]) -> [u8; 8] {
    let mut head = [0; 8];
    head[..4].copy_from_slice(&(position.len() as u32).to_le_bytes());
    head[4..].copy_from_slice(&(clustering.len() as u32).to_le_bytes());
    head
}

/// Whether a compaction may leave out anything of a packed row for good.
pub(crate) fn is_mortal(body: &[u8]) -> bool {
    let row = RowView::new(body);
    let expires = |liveness: Liveness| !liveness.is_none() && liveness.is_expiring();
    let cell_goes = |cell: mutation::Cell<'_>| cell.is_tombstone() || cell.is_expiring();
    expires(row.liveness())
        || !row.deletion().is_live()
        || row.columns().any(|(_, column)| match column {
            ColumnView::Simple(cell) => cell_goes(cell),
            ColumnView::Complex(complex) => {
                !complex.deletion.is_live() || complex.cells().any(|(_, cell)| cell_goes(cell))
            }
        })
}
