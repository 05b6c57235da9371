//! Partitions of one sstable in ring order, in pieces of bounded size.

use base::Token;
use mutation::{Deletion, Key, Slice, TokenRange};
use smallvec::SmallVec;
use std::rc::Rc;

use crate::error::Error;
use crate::fragment::{Fragment, PartitionHead};
use crate::limits::FAR_BYTES;
use crate::reader::{Reader, SourceSlice};
use crate::row::Written;
use crate::source::Window;
use crate::walk::{Copied, Far, Pause, Walk, Wanted};
use crate::writer::Writer;

/// Where a scan is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first partition.
    New,
    /// Between two partitions.
    Between,
    /// Inside one. `begun`: a piece of it was read.
    Inside { begun: bool },
    /// Behind the last, or after an error.
    Done,
}

/// How a scan reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// All of it, ahead of what is asked for.
    Whole,
    /// No more than what is asked for needs.
    Closely,
    /// As [`Manner::Whole`], but it passes over what is not asked for by the index, where that is far.
    Sparsely,
}

/// A scan of one sstable's partitions in a token range. Reads ahead; holds no more than one piece.
pub struct Scanner {
    reader: Rc<Reader>,
    range: TokenRange,
    manner: Manner,
    /// Only partitions behind this key.
    behind: Option<Key>,
    state: State,
    /// Between the first partition and the end; what it has read or wants read goes with it.
    walk: Option<Box<Walk>>,
    head: PartitionHead,
    fragment: Fragment,
    /// Clustering values of a row, and a body.
    scratch: Vec<u8>,
    body: Vec<u8>,
}

/// A partition that a scan has come to.
#[derive(Clone, Copy, Debug)]
pub struct Entered<'a> {
    /// The key's token.
    pub token: Token,
    /// The serialized key.
    pub key: &'a [u8],
    /// The partition tombstone.
    pub deletion: Deletion,
    /// The packed static row.
    pub static_row: Option<&'a [u8]>,
}

/// The next piece of a scan.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// What was read. `complete_to` set: the same partition goes on in the next piece.
    pub slice: SourceSlice,
    /// Whether the piece continues the partition of the piece before. Partition deletion and static row stand only in
    /// the first piece of a partition.
    pub continuation: bool,
}

/// The only row of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnlyRow {
    /// Its clustering values in wire form.
    pub clustering: SmallVec<[u8; 32]>,
    /// The earliest and the latest of its timestamps.
    pub first: i64,
    /// See `first`.
    pub last: i64,
    /// Whether it says that it was inserted, and has a single cell in each column that its sstable knows.
    pub is_whole: bool,
}

impl Reader {
    /// Starts a scan of a token range. No I/O yet.
    pub fn scan(self: &Rc<Self>, range: TokenRange) -> Scanner {
        Scanner::new(self.clone(), range, Manner::Whole)
    }

    /// As [`Reader::scan`], behind a key if there is one. What is not asked for, such as rows outside of the slices or the rest of a
    /// partition, costs no more than some 64 KiB, however large it is.
    pub fn scan_sparsely(self: &Rc<Self>, range: TokenRange, behind: Option<Key>) -> Scanner {
        Scanner { behind, ..Scanner::new(self.clone(), range, Manner::Sparsely) }
    }

    /// As [`Reader::scan`], without reading ahead: damage of what follows does not matter.
    pub fn scan_closely(self: &Rc<Self>, range: TokenRange) -> Scanner {
        Scanner::new(self.clone(), range, Manner::Closely)
    }
}

/// Bytes that are worth a look into the index.
fn far_bytes() -> u64 {
    if runtime::rare("far_is_near") { 64 } else { FAR_BYTES }
}

impl Scanner {
    fn new(reader: Rc<Reader>, range: TokenRange, manner: Manner) -> Scanner {
        Scanner {
            reader,
            range,
            manner,
            behind: None,
            state: State::New,
            walk: None,
            head: PartitionHead::default(),
            fragment: Fragment::default(),
            scratch: Vec::new(),
            body: Vec::new(),
        }
    }

    /// The next piece: what lies in the slices of the next partition, or the continuation of the one before, in about
    /// `byte_budget` bytes. Partitions about which nothing is said in the slices are passed over. `None`: no more.
    /// The slices stay the same while a partition continues. After an error the scan is over.
    pub async fn next(&mut self, slices: &[Slice], byte_budget: usize) -> Result<Option<Scanned>, Error> {
        loop {
            if !matches!(self.state, State::Inside { .. }) && self.enter().await?.is_none() {
                return Ok(None);
            }
            if let Some(scanned) = self.piece(slices, byte_budget).await? {
                return Ok(Some(scanned));
            }
            runtime::yield_if_needed().await;
        }
    }

    /// Goes to the next partition, passing over what is left of the one before, and reads its head. `None`: no more.
    /// After an error the scan is over.
    pub async fn enter(&mut self) -> Result<Option<Entered<'_>>, Error> {
        // What a failure, or who gives up, leaves behind.
        let state = std::mem::replace(&mut self.state, State::Done);
        let mut walk = match (self.walk.take(), state) {
            (_, State::Done) => return Ok(None),
            (Some(mut walk), state) => {
                if let State::Inside { .. } = state {
                    self.pass(&mut walk).await?;
                }
                walk
            }
            (None, _) => {
                if self.range.is_empty() {
                    return Ok(None);
                }
                let start = match &self.behind {
                    Some(key) if key.token >= self.range.first => {
                        self.reader.position_behind(&key.bytes, key.token).await?
                    }
                    _ => self.reader.data_position(self.range.first).await?,
                };
                let begin = if self.manner == Manner::Closely { Window::point } else { Window::scan };
                let window = begin(self.reader.data.clone(), start);
                Box::new(Walk::new(self.reader.table.clone(), self.reader.shape.clone(), window))
            }
        };
        if walk.window.is_at_end() {
            return Ok(None);
        }
        walk.begin(&mut self.head).await?;
        if self.head.token > self.range.last {
            return Ok(None);
        }
        (self.walk, self.state) = (Some(walk), State::Inside { begun: false });
        Ok(self.entered())
    }

    /// Passes over what is left of the partition.
    async fn pass(&self, walk: &mut Walk) -> Result<(), Error> {
        let most = if self.manner == Manner::Sparsely { far_bytes() } else { u64::MAX };
        if !walk.skip(most).await? {
            let next = self.reader.position_behind(&self.head.key, self.head.token).await?;
            walk.leave_for(next)?;
        }
        Ok(())
    }

    /// The partition that was entered, if no piece of it was read.
    pub fn entered(&self) -> Option<Entered<'_>> {
        let PartitionHead { key, token, deletion, static_row } = &self.head;
        let static_row = (!static_row.is_empty()).then_some(&static_row[..]);
        let entered = Entered { token: *token, key, deletion: *deletion, static_row };
        (self.state == State::Inside { begun: false }).then_some(entered)
    }

    /// As [`Scanner::next`], of the partition that was entered alone. `None`: it has ended, or says nothing in the slices.
    pub async fn piece(&mut self, slices: &[Slice], byte_budget: usize) -> Result<Option<Scanned>, Error> {
        let State::Inside { begun } = self.state else { return Ok(None) };
        self.state = State::Done;
        let mut walk = self.walk.take().expect("it is inside");
        self.fragment.clear();
        let (key, token, bytes) = (&self.head.key[..], self.head.token, far_bytes());
        let far = Far { reader: &self.reader, key, token, bytes };
        let far = (self.manner == Manner::Sparsely).then_some(far);
        let pause = walk.run(Wanted { slices, byte_budget, far }, &mut self.fragment).await?;
        let mutation = self.fragment.build(self.reader.table.id, &self.head);
        let complete_to = match pause {
            Pause::End => None,
            Pause::Complete => {
                self.pass(&mut walk).await?;
                None
            }
            Pause::Budget(position) => Some(position),
        };
        self.state = if complete_to.is_some() { State::Inside { begun: true } } else { State::Between };
        self.walk = Some(walk);
        self.head.go_on();
        if mutation.view().is_empty() && complete_to.is_none() && !begun {
            return Ok(None);
        }
        Ok(Some(Scanned { slice: SourceSlice { mutation, complete_to }, continuation: begun }))
    }

    /// Copies rows of the partition that was entered, and of which no piece was read, into a writer in which that partition
    /// was started. Its head is the caller's to write. What cannot be copied so is left to [`Scanner::piece`]: rows of which
    /// something is deleted, or has expired at `expire_at`.
    /// The writer must [carry](Writer::carries) rows of this sstable. Yields: where a read has to be waited for.
    pub async fn copy_rows(
        &mut self,
        writer: &mut Writer,
        expire_at: Option<u32>,
        pending: usize,
    ) -> Result<Copied, Error> {
        assert!(
            self.state == State::Inside { begun: false },
            "a partition was entered and no piece of it read"
        );
        self.state = State::Done;
        let mut walk = self.walk.take().expect("it is inside");
        let copied = walk.copy_rows(writer, expire_at, pending, &mut self.scratch).await?;
        self.state = if copied == Copied::All { State::Between } else { State::Inside { begun: false } };
        self.walk = Some(walk);
        Ok(copied)
    }

    /// When the only row of the partition that was entered was written, if nothing else stands in that and nothing of it is deleted.
    /// The partition stays as it was entered. Yields: where a read has to be waited for. After an error the scan is over.
    pub async fn only_row(&mut self) -> Result<Option<OnlyRow>, Error> {
        let PartitionHead { deletion, static_row, .. } = &self.head;
        if self.state != (State::Inside { begun: false }) || !deletion.is_live() || !static_row.is_empty() {
            return Ok(None);
        }
        self.state = State::Done;
        let mut walk = self.walk.take().expect("it is inside");
        let written = walk.only_row(&mut self.scratch, &mut self.body).await?;
        (self.walk, self.state) = (Some(walk), State::Inside { begun: false });
        Ok(written.map(|Written { first, last, is_whole }| OnlyRow {
            clustering: SmallVec::from_slice(&self.scratch),
            first,
            last,
            is_whole,
        }))
    }

    /// Passes over the rest of the partition that is to be continued, if there is one.
    pub async fn skip_partition(&mut self) -> Result<(), Error> {
        if let State::Inside { .. } = self.state {
            self.state = State::Done;
            let mut walk = self.walk.take().expect("it is inside");
            self.pass(&mut walk).await?;
            (self.walk, self.state) = (Some(walk), State::Between);
        }
        Ok(())
    }

    /// Uncompressed bytes of the data file that lie behind.
    pub fn position(&self) -> u64 {
        match (self.state, &self.walk) {
            (State::Between | State::Inside { .. }, Some(walk)) => walk.window.position(),
            (State::Done, _) => self.reader.data.length(),
            _ => 0,
        }
    }

    /// The token of the partition that is to be continued.
    pub fn inside(&self) -> Option<Token> {
        matches!(self.state, State::Inside { .. }).then_some(self.head.token)
    }
}
