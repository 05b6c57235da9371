//! Partitions of one sstable in ring order, in pieces of bounded size.

use base::Token;
use mutation::{Slice, TokenRange};
use std::rc::Rc;

use crate::error::Error;
use crate::fragment::{Fragment, PartitionHead};
use crate::reader::{Reader, SourceSlice};
use crate::source::Window;
use crate::walk::{Pause, Walk, Wanted};

/// Where a scan is.
enum State {
    /// Before the first partition.
    New,
    /// Between two partitions.
    Between(Window),
    /// Inside one that is to be continued.
    Inside(Box<Walk>, PartitionHead),
    /// Behind the last, or after an error.
    Done,
}

/// A scan of one sstable's partitions in a token range. Reads ahead; holds no more than one piece.
pub struct Scanner {
    reader: Rc<Reader>,
    range: TokenRange,
    /// Whether no more is read than what is asked for needs.
    closely: bool,
    state: State,
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

impl Reader {
    /// Starts a scan of a token range. No I/O yet.
    pub fn scan(self: &Rc<Self>, range: TokenRange) -> Scanner {
        Scanner { reader: self.clone(), range, closely: false, state: State::New }
    }

    /// As [`Reader::scan`], without reading ahead: damage of what follows does not matter.
    pub fn scan_closely(self: &Rc<Self>, range: TokenRange) -> Scanner {
        Scanner { reader: self.clone(), range, closely: true, state: State::New }
    }
}

impl Scanner {
    /// The next piece: what lies in the slices of the next partition, or the continuation of the one before, in about
    /// `byte_budget` bytes. Partitions about which nothing is said in the slices are passed over. `None`: no more.
    /// The slices stay the same while a partition continues. After an error the scan is over.
    pub async fn next(&mut self, slices: &[Slice], byte_budget: usize) -> Result<Option<Scanned>, Error> {
        let wanted = Wanted { slices, byte_budget };
        loop {
            let (mut walk, head, continuation) = match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Ok(None),
                State::Inside(walk, head) => (walk, head, true),
                State::New => {
                    if self.range.is_empty() {
                        return Ok(None);
                    }
                    let start = self.reader.data_position(self.range.first).await?;
                    let begin = if self.closely { Window::point } else { Window::scan };
                    self.state = State::Between(begin(self.reader.data.clone(), start));
                    continue;
                }
                State::Between(window) => match self.enter(window).await? {
                    Some((walk, head)) => (walk, head, false),
                    None => return Ok(None),
                },
            };
            let mut fragment = Fragment::default();
            let pause = walk.run(wanted, &mut fragment).await?;
            let mutation = fragment.build(self.reader.table.id, &head);
            let complete_to = match pause {
                Pause::End => None,
                Pause::Complete => {
                    walk.skip().await?;
                    None
                }
                Pause::Budget(position) => Some(position),
            };
            self.state = if complete_to.is_some() {
                State::Inside(walk, head.continued())
            } else {
                State::Between(walk.window)
            };
            if mutation.view().is_empty() && complete_to.is_none() && !continuation {
                runtime::yield_if_needed().await;
                continue;
            }
            return Ok(Some(Scanned { slice: SourceSlice { mutation, complete_to }, continuation }));
        }
    }

    /// Reads the head of the next partition if it lies in the range.
    async fn enter(&mut self, window: Window) -> Result<Option<(Box<Walk>, PartitionHead)>, Error> {
        if window.is_at_end() {
            return Ok(None);
        }
        let (table, shape) = (self.reader.table.clone(), self.reader.shape.clone());
        let (walk, head) = Walk::start(table, shape, window).await?;
        if head.token > self.range.last {
            return Ok(None);
        }
        Ok(Some((Box::new(walk), head)))
    }

    /// Passes over the rest of the partition that is to be continued, if there is one.
    pub async fn skip_partition(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Inside(mut walk, _) => {
                walk.skip().await?;
                self.state = State::Between(walk.window);
            }
            other => self.state = other,
        }
        Ok(())
    }

    /// Uncompressed bytes of the data file that lie behind.
    pub fn position(&self) -> u64 {
        match &self.state {
            State::New => 0,
            State::Between(window) => window.position(),
            State::Inside(walk, _) => walk.window.position(),
            State::Done => self.reader.data.length(),
        }
    }

    /// The token of the partition that is to be continued.
    pub fn inside(&self) -> Option<Token> {
        match &self.state {
            State::Inside(_, head) => Some(head.token),
            State::New | State::Between(_) | State::Done => None,
        }
    }
}
