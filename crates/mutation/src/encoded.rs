//! [`Mutation`]: what is said about one partition, as one byte string.
//!
//! ```text
//! u8 format (1), u8 flags (01 partition deletion, 02 static row)
//! u128 table id, i64 token, u32 length + partition key
//! [01] i64 timestamp, u32 local_time   [02] u32 length + packed row
//! items to the end:
//!   u8 1 row              u32 length + clustering (wire form), u32 length + packed row
//!   u8 2 range tombstone  u8 side, u32 length + prefix (start); the same (end); i64 timestamp, u32 local_time
//! ```
//! Items stand in clustering order when the mutation is an answer, in any order when it is a write. On disk (commitlog)
//! and on the wire (rpc): the layout changes only with the format byte.

use crate::buffer::Buffer;
use crate::deletion::{Deletion, Liveness};
use crate::error::Error;
use crate::input::{Input, put_sized};
use crate::ranges::{Bound, RangeTombstone};
use crate::row::{RowView, RowWriter, put_deletion};
use base::Token;
use schema::{BoundSide, TableId};

const FORMAT: u8 = 1;
const PARTITION_DELETION: u8 = 0x01;
const STATIC_ROW: u8 = 0x02;
const ROW: u8 = 1;
const RANGE: u8 = 2;
const FLAGS_AT: usize = 1;
const TABLE_AT: usize = 2;
const TOKEN_AT: usize = 18;
/// Bytes of the head but for the key, and some more.
const HEAD_BYTES: usize = 64;
/// Bytes of a usual row.
const ROW_BYTES: usize = 160;
const VALIDATED: &str = "mutations are validated when they enter the process";

/// A change to one partition, or what is known about a part of it. Valid by construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    bytes: Buffer,
}

impl Mutation {
    /// Takes bytes from a file, a log or a node, checking every length in them.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Mutation, Error> {
        MutationView::from_bytes(&bytes)?;
        Ok(Mutation { bytes: bytes.into() })
    }

    /// The encoded form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The encoded form.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_vec()
    }

    /// Reads its head. Cheap; call it once and keep the view.
    pub fn view(&self) -> MutationView<'_> {
        MutationView::parse(&self.bytes).expect(VALIDATED)
    }

    /// The table it is about.
    pub fn table(&self) -> TableId {
        let mut id = [0; 16];
        id.copy_from_slice(&self.bytes[TABLE_AT..TABLE_AT + 16]);
        TableId(u128::from_be_bytes(id))
    }

    /// The token of its partition.
    pub fn token(&self) -> Token {
        let mut token = [0; 8];
        token.copy_from_slice(&self.bytes[TOKEN_AT..TOKEN_AT + 8]);
        Token(i64::from_be_bytes(token))
    }
}

/// A mutation's parts, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct MutationView<'a> {
    /// The table it is about.
    pub table: TableId,
    /// The token of the key.
    pub token: Token,
    /// Serialized partition key.
    pub key: &'a [u8],
    /// The partition tombstone, LIVE when there is none.
    pub deletion: Deletion,
    /// The packed static row.
    pub static_row: Option<&'a [u8]>,
    items: &'a [u8],
}

impl<'a> MutationView<'a> {
    /// Reads bytes from a file or a log where they lie, checking every length in them.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<MutationView<'a>, Error> {
        let view = MutationView::parse(bytes)?;
        if let Some(row) = view.static_row {
            RowView::validate(row)?;
        }
        let mut input = Input::new(view.items);
        while !input.is_empty() {
            if let Item::Row { body, .. } = item(&mut input)? {
                RowView::validate(body)?;
            }
        }
        Ok(view)
    }

    fn parse(bytes: &'a [u8]) -> Result<MutationView<'a>, Error> {
        let mut input = Input::new(bytes);
        if input.u8("mutation format")? != FORMAT {
            return Err(input.malformed("mutation format 1"));
        }
        let flags = input.u8("mutation flags")?;
        if flags & !(PARTITION_DELETION | STATIC_ROW) != 0 {
            return Err(input.malformed("known mutation flags"));
        }
        let table = TableId(u128::from_be_bytes(input.array("table id")?));
        let token = Token(input.i64("token")?);
        let key = input.sized("partition key")?;
        let deletion = if flags & PARTITION_DELETION != 0 { deletion(&mut input)? } else { Deletion::LIVE };
        let static_row = if flags & STATIC_ROW != 0 { Some(input.sized("static row")?) } else { None };
        let items = input.bytes(input.remaining(), "items")?;
        Ok(MutationView { table, token, key, deletion, static_row, items })
    }

    /// Its rows and range tombstones.
    pub fn items(&self) -> impl Iterator<Item = Item<'a>> + use<'a> {
        let mut input = Input::new(self.items);
        std::iter::from_fn(move || (!input.is_empty()).then(|| item(&mut input).expect(VALIDATED)))
    }

    /// Its rows only: (clustering, packed row).
    pub fn rows(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.items().filter_map(|item| match item {
            Item::Row { clustering, body } => Some((clustering, body)),
            Item::Range { .. } => None,
        })
    }

    /// Whether it says nothing beyond its key.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_live() && self.static_row.is_none() && self.items.is_empty()
    }
}

/// A bound of a range tombstone, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundRef<'a> {
    /// Clustering prefix in wire form.
    pub prefix: &'a [u8],
    /// Side of everything that extends the prefix.
    pub side: BoundSide,
}

impl BoundRef<'_> {
    /// An owned copy.
    pub fn to_bound(self) -> Bound {
        Bound::new(self.prefix, self.side)
    }
}

/// One row or range tombstone of a mutation.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A row.
    Row {
        /// Clustering key in wire form.
        clustering: &'a [u8],
        /// Packed row.
        body: &'a [u8],
    },
    /// A range tombstone.
    Range {
        /// First bound.
        start: BoundRef<'a>,
        /// Last bound.
        end: BoundRef<'a>,
        /// What it deletes.
        deletion: Deletion,
    },
}

fn deletion(input: &mut Input<'_>) -> Result<Deletion, Error> {
    Ok(Deletion { timestamp: input.i64("deletion timestamp")?, local_time: input.u32("deletion time")? })
}

fn bound<'a>(input: &mut Input<'a>) -> Result<BoundRef<'a>, Error> {
    let side = match input.u8("bound side")? {
        0 => BoundSide::Before,
        1 => BoundSide::After,
        _ => return Err(input.malformed("bound side 0 or 1")),
    };
    Ok(BoundRef { prefix: input.sized("bound prefix")?, side })
}

fn item<'a>(input: &mut Input<'a>) -> Result<Item<'a>, Error> {
    match input.u8("item kind")? {
        ROW => Ok(Item::Row { clustering: input.sized("clustering")?, body: input.sized("packed row")? }),
        RANGE => Ok(Item::Range { start: bound(input)?, end: bound(input)?, deletion: deletion(input)? }),
        _ => Err(input.malformed("item kind 1 or 2")),
    }
}

/// Builds one mutation into one buffer: partition deletion first, static row next, then items.
pub struct MutationBuilder {
    bytes: Buffer,
    has_items: bool,
}

impl MutationBuilder {
    /// Starts a mutation that says nothing yet.
    pub fn new(table: TableId, token: Token, key: &[u8]) -> MutationBuilder {
        let mut bytes = Buffer::with_room(HEAD_BYTES + key.len() + ROW_BYTES);
        bytes.extend_from_slice(&[FORMAT, 0]);
        bytes.extend_from_slice(&table.0.to_be_bytes());
        bytes.extend_from_slice(&token.0.to_be_bytes());
        put_sized(&mut bytes, key);
        MutationBuilder { bytes, has_items: false }
    }

    /// Sets the partition tombstone. Must come before the static row and the items. LIVE adds nothing.
    pub fn deletion(&mut self, deletion: Deletion) {
        if deletion.is_live() {
            return;
        }
        assert!(!self.has_items && self.bytes[FLAGS_AT] == 0, "the partition deletion comes first, once");
        self.bytes[FLAGS_AT] |= PARTITION_DELETION;
        put_deletion(&mut self.bytes, deletion);
    }

    /// Adds the static row from a packed row. Must come before the items.
    pub fn static_row(&mut self, body: &[u8]) {
        self.bytes.make_room(4 + body.len());
        self.static_row_with(|out| out.extend_from_slice(body));
    }

    /// Adds the static row, written by a closure that appends one packed row.
    pub fn static_row_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        assert!(
            !self.has_items && self.bytes[FLAGS_AT] & STATIC_ROW == 0,
            "the static row comes before items, once"
        );
        self.bytes[FLAGS_AT] |= STATIC_ROW;
        self.sized_with(write);
    }

    /// Adds a row from its packed form.
    pub fn row(&mut self, clustering: &[u8], body: &[u8]) {
        self.bytes.make_room(9 + clustering.len() + body.len());
        self.row_with(clustering, |out| out.extend_from_slice(body));
    }

    /// Adds a row, its packed form written by a closure that appends to the buffer.
    pub fn row_with(&mut self, clustering: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.has_items = true;
        self.bytes.push(ROW);
        put_sized(&mut self.bytes, clustering);
        self.sized_with(write);
    }

    /// Adds a row through a [`RowWriter`].
    pub fn write_row(
        &mut self,
        clustering: &[u8],
        liveness: Liveness,
        deletion: Deletion,
        write: impl FnOnce(&mut RowWriter<'_>),
    ) {
        self.row_with(clustering, |out| write(&mut RowWriter::new(out, liveness, deletion)));
    }

    /// Adds a range tombstone.
    pub fn range(&mut self, tombstone: &RangeTombstone) {
        self.range_between(&tombstone.start, &tombstone.end, tombstone.deletion);
    }

    /// As [`MutationBuilder::range`], from its parts.
    pub(crate) fn range_between(&mut self, start: &Bound, end: &Bound, deletion: Deletion) {
        let side = |s| match s {
            BoundSide::Before => 0,
            BoundSide::After => 1,
        };
        self.has_items = true;
        self.bytes.push(RANGE);
        for bound in [start, end] {
            self.bytes.push(side(bound.side));
            put_sized(&mut self.bytes, &bound.prefix);
        }
        put_deletion(&mut self.bytes, deletion);
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was said about the partition yet.
    pub fn is_empty(&self) -> bool {
        !self.has_items && self.bytes[FLAGS_AT] == 0
    }

    /// The finished mutation.
    pub fn finish(self) -> Mutation {
        debug_assert_eq!(MutationView::from_bytes(&self.bytes).map(drop), Ok(()));
        Mutation { bytes: self.bytes }
    }

    fn sized_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        write(&mut self.bytes);
        let len = (self.bytes.len() - at - 4) as u32;
        self.bytes[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }
}
