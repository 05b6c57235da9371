//! What a replica is asked to read.

use crate::error::Error;
use crate::input::{Input, put_sized};
use crate::limit::ByteLimit;
use crate::limits::{KEYS_MAX, SLICES_MAX};
use base::Token;
use schema::{Position, TableId};
use smallvec::SmallVec;

/// A partition key with its token, computed once per request and carried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Murmur3 of the bytes; first, so that keys order as the ring does.
    pub token: Token,
    /// Serialized partition key.
    pub bytes: Box<[u8]>,
}

impl Key {
    /// Hashes a serialized key.
    pub fn new(bytes: &[u8]) -> Key {
        Key { token: Token::of_key(bytes), bytes: bytes.into() }
    }

    /// A key whose token is known.
    pub fn with_token(token: Token, bytes: &[u8]) -> Key {
        Key { token, bytes: bytes.into() }
    }
}

/// Tokens from `first` to `last`, both inside. Never wraps around the ring; a wrapping interval is two of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRange {
    /// Smallest token in it.
    pub first: Token,
    /// Largest token in it.
    pub last: Token,
}

impl TokenRange {
    /// Every token.
    pub const ALL: TokenRange = TokenRange { first: Token(i64::MIN), last: Token(i64::MAX) };

    /// Tokens from `first` to `last`, both inside. Empty when `first > last`.
    pub fn new(first: Token, last: Token) -> TokenRange {
        TokenRange { first, last }
    }

    /// Whether no token is in it.
    pub fn is_empty(self) -> bool {
        self.last < self.first
    }

    /// Whether a token is in it.
    pub fn contains(self, token: Token) -> bool {
        self.first <= token && token <= self.last
    }

    /// The tokens in both; `None` when there are none.
    pub fn intersect(self, other: TokenRange) -> Option<TokenRange> {
        let both = TokenRange { first: self.first.max(other.first), last: self.last.min(other.last) };
        (!both.is_empty()).then_some(both)
    }
}

/// Distinct keys; one costs no list.
pub type Keys = SmallVec<[Key; 1]>;

/// Which partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// These, answered in this order.
    Keys(Keys),
    /// All whose token lies in the range, in ring order.
    Range(TokenRange),
}

impl Scope {
    /// The first token it is about; `None`: it names no key.
    pub fn first_token(&self) -> Option<Token> {
        match self {
            Scope::Keys(keys) => keys.first().map(|key| key.token),
            Scope::Range(range) => Some(range.first),
        }
    }
}

/// Rows at `start <= position < end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// First position inside.
    pub start: Position,
    /// First position beyond.
    pub end: Position,
}

impl Slice {
    /// Every row of a partition.
    pub fn all() -> Slice {
        Slice { start: Position::bottom(), end: Position::top() }
    }
}

/// Disjoint and ascending; one costs no allocation.
pub type Slices = SmallVec<[Slice; 1]>;

/// Where a read stopped and its next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The partition the read stopped in or behind.
    pub key: Key,
    /// The last row position dealt with; `None`: the whole partition was.
    pub after: Option<Position>,
    /// Live rows of that partition already counted, for the per-partition limit.
    pub rows_taken: u32,
}

/// A read of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCommand {
    /// The table.
    pub table: TableId,
    /// Which partitions.
    pub scope: Scope,
    /// Which rows of each: disjoint, ascending. Empty: static rows only.
    pub slices: Slices,
    /// Rows of each partition largest position first.
    pub reversed: bool,
    /// Whether a partition with a live static row but no live row asked for counts as one row.
    pub static_counts: bool,
    /// Live rows in all, at least 1.
    pub row_limit: u32,
    /// Live rows of one partition, at least 1.
    pub partition_row_limit: u32,
    /// The answer stops soon after this many bytes.
    pub byte_limit: ByteLimit,
    /// The second at which ttls are judged.
    pub now_s: u32,
    /// Only what lies behind this point.
    pub resume: Option<Resume>,
    /// Answer with a digest and no rows.
    pub digest_only: bool,
    /// Tombstones that earlier reads for the same page have met.
    pub tombstones: u32,
    /// The answer stops soon after the page has met as many tombstones, those before it included.
    pub tombstone_limit: u32,
}

impl ReadCommand {
    /// Every row of a scope, forward and without limits; a partition that has only a static row does not count as one.
    pub fn everything(table: TableId, scope: Scope, now_s: u32) -> ReadCommand {
        ReadCommand {
            table,
            scope,
            slices: std::iter::once(Slice::all()).collect(),
            reversed: false,
            static_counts: false,
            row_limit: u32::MAX,
            partition_row_limit: u32::MAX,
            byte_limit: ByteLimit::MOST,
            now_s,
            resume: None,
            digest_only: false,
            tombstones: 0,
            tombstone_limit: u32::MAX,
        }
    }

    /// Whether a page that has met so many tombstones is to end.
    pub fn is_tired_by(&self, tombstones: u32) -> bool {
        // None at all tire nobody: a read gets on whatever its limit is.
        tombstones >= self.tombstone_limit.max(1)
    }

    /// The command as bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.table.0.to_be_bytes());
        match &self.scope {
            Scope::Keys(keys) => {
                out.push(0);
                out.extend_from_slice(&(keys.len() as u32).to_be_bytes());
                keys.iter().for_each(|key| put_key(out, key));
            }
            Scope::Range(range) => {
                out.push(1);
                out.extend_from_slice(&range.first.0.to_be_bytes());
                out.extend_from_slice(&range.last.0.to_be_bytes());
            }
        }
        out.extend_from_slice(&(self.slices.len() as u32).to_be_bytes());
        for slice in &self.slices {
            put_sized(out, slice.start.as_bytes());
            put_sized(out, slice.end.as_bytes());
        }
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.push(flag(self.reversed, 1) | flag(self.static_counts, 2) | flag(self.digest_only, 4));
        for number in [self.row_limit, self.partition_row_limit, self.byte_limit.number(), self.now_s] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        put_resume(out, self.resume.as_ref());
        for number in [self.tombstones, self.tombstone_limit] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// Reads what [`ReadCommand::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<ReadCommand, Error> {
        let mut input = Input::new(bytes);
        let table = TableId(u128::from_be_bytes(input.array("table id")?));
        let scope = match input.u8("scope")? {
            0 => {
                let count = bounded(&mut input, KEYS_MAX, "a bounded count of keys")?;
                Scope::Keys((0..count).map(|_| key(&mut input)).collect::<Result<_, _>>()?)
            }
            1 => {
                let first = Token(input.i64("first token")?);
                Scope::Range(TokenRange { first, last: Token(input.i64("last token")?) })
            }
            _ => return Err(input.malformed("scope 0 or 1")),
        };
        let count = bounded(&mut input, SLICES_MAX, "a bounded count of slices")?;
        let mut slices = Slices::new();
        for _ in 0..count {
            let start = Position::from_bytes(input.sized("slice start")?);
            slices.push(Slice { start, end: Position::from_bytes(input.sized("slice end")?) });
        }
        let flags = input.u8("read flags")?;
        Ok(ReadCommand {
            table,
            scope,
            slices,
            reversed: flags & 1 != 0,
            static_counts: flags & 2 != 0,
            digest_only: flags & 4 != 0,
            row_limit: input.u32("row limit")?,
            partition_row_limit: input.u32("partition row limit")?,
            byte_limit: ByteLimit::near(input.u32("byte limit")?.into()),
            now_s: input.u32("now")?,
            resume: resume(&mut input)?,
            tombstones: input.u32("tombstones")?,
            tombstone_limit: input.u32("tombstone limit")?,
        })
    }
}

fn bounded(input: &mut Input<'_>, most: usize, expected: &'static str) -> Result<usize, Error> {
    let count = input.u32(expected)? as usize;
    if count > most { Err(input.malformed(expected)) } else { Ok(count) }
}

pub(crate) fn put_key(out: &mut Vec<u8>, key: &Key) {
    out.extend_from_slice(&key.token.0.to_be_bytes());
    put_sized(out, &key.bytes);
}

pub(crate) fn key(input: &mut Input<'_>) -> Result<Key, Error> {
    let token = Token(input.i64("token")?);
    Ok(Key { token, bytes: input.sized("partition key")?.into() })
}

pub(crate) fn put_resume(out: &mut Vec<u8>, resume: Option<&Resume>) {
    let Some(resume) = resume else {
        return out.push(0);
    };
    out.push(if resume.after.is_some() { 2 } else { 1 });
    put_key(out, &resume.key);
    if let Some(after) = &resume.after {
        put_sized(out, after.as_bytes());
    }
    out.extend_from_slice(&resume.rows_taken.to_be_bytes());
}

pub(crate) fn resume(input: &mut Input<'_>) -> Result<Option<Resume>, Error> {
    let kind = input.u8("resume kind")?;
    if kind == 0 {
        return Ok(None);
    }
    if kind > 2 {
        return Err(input.malformed("resume kind 0 to 2"));
    }
    let key = key(input)?;
    let after = if kind == 2 { Some(Position::from_bytes(input.sized("resume position")?)) } else { None };
    Ok(Some(Resume { key, after, rows_taken: input.u32("rows taken")? }))
}
