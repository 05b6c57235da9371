//! A walk through the rows and markers of one partition, forward, with seeks by the promoted index.
//!
//! Between steps the walk knows which range tombstone is open and where it began, or from where on it is known to be
//! open: a walk that starts in the middle of a partition learns it from the promoted index.

use mutation::{Bound, Deletion, Slice};
use schema::{BoundSide, Position, Table};
use std::rc::Rc;
use std::sync::Arc;

use crate::clustering::Prefix;
use crate::error::Error;
use crate::fragment::{Fragment, OpenTombstone, PartitionHead};
use crate::index::{Block, Promoted};
use crate::row::RowDecoder;
use crate::shape::Shape;
use crate::source::Window;
use crate::unfiltered::{Head, take_head, take_partition, take_static};

/// The promoted index of the partition and where it stands, for errors.
pub(crate) struct PromotedAt {
    /// The blocks.
    pub(crate) promoted: Promoted,
    /// The index file.
    pub(crate) path: std::path::PathBuf,
    /// Where in it.
    pub(crate) offset: u64,
}

impl PromotedAt {
    /// One block.
    pub(crate) fn block(&self, shape: &Shape, index: usize) -> Result<Block, Error> {
        let block = self.promoted.block(&shape.clustering, index);
        block.map_err(|fault| fault.in_file(&self.path, self.offset))
    }

    /// The place directly behind a block's last row or marker.
    pub(crate) fn behind(&self, table: &Table, block: &Block) -> Result<Position, Error> {
        let position = block.last.behind().position(table);
        position.map_err(|error| {
            Error::corrupt(&self.path, self.offset, "a clustering prefix", error.to_string())
        })
    }

    /// The first block with anything at or behind a position; the count of blocks if there is none.
    pub(crate) fn first_reaching(
        &self,
        shape: &Shape,
        table: &Table,
        position: &Position,
    ) -> Result<usize, Error> {
        self.partition_point(|block| Ok(self.behind(table, block)? <= *position), shape)
    }

    /// The last block with anything before a position, or the first block.
    pub(crate) fn last_before(
        &self,
        shape: &Shape,
        table: &Table,
        position: &Position,
    ) -> Result<usize, Error> {
        let next = self.partition_point(|block| Ok(self.behind(table, block)? < *position), shape)?;
        Ok(next.min(self.promoted.count() - 1))
    }

    fn partition_point(
        &self,
        below: impl Fn(&Block) -> Result<bool, Error>,
        shape: &Shape,
    ) -> Result<usize, Error> {
        let (mut low, mut high) = (0, self.promoted.count());
        while low < high {
            let middle = (low + high) / 2;
            if below(&self.block(shape, middle)?)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

/// Why a walk paused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Nothing more lies in the slices. The place is somewhere in the partition.
    Complete,
    /// The end of the partition was read.
    End,
    /// The fragment has reached its budget; everything before the position is in it.
    Budget(Position),
}

/// What a walk is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Disjoint, ascending.
    pub(crate) slices: &'a [Slice],
    /// Pause when the fragment is as large.
    pub(crate) byte_budget: usize,
}

/// A place in one partition.
pub(crate) struct Walk {
    table: Arc<Table>,
    shape: Rc<Shape>,
    pub(crate) window: Window,
    /// Where the partition starts.
    start: u64,
    pub(crate) promoted: Option<PromotedAt>,
    open: Option<OpenTombstone>,
    /// The last row or marker read or skipped.
    last: Option<Prefix>,
    /// A head that was read and belongs to the next step, with its size.
    ahead: Option<(Head, u64)>,
}

impl Walk {
    /// Reads the head of the partition at the window's place. The static row is decoded.
    pub(crate) async fn start(
        table: Arc<Table>,
        shape: Rc<Shape>,
        mut window: Window,
    ) -> Result<(Walk, PartitionHead), Error> {
        let start = window.position();
        let (key, deletion, size) = window.decode(take_partition).await?;
        window.consume(size);
        let mut static_row = Vec::new();
        if !shape.statics.columns.is_empty() {
            let (flags, body, size) = window.decode(take_static).await?;
            window.consume(size);
            window.require(body).await?;
            let decoder = RowDecoder { shape: &shape.statics, base: shape.base };
            let decoded = decoder.decode(flags, &window.rest()[..body as usize], &mut static_row);
            decoded.map_err(|fault| fault.in_file(window.path(), window.position()))?;
            window.consume(body);
        }
        let head = PartitionHead { token: base::Token::of_key(&key), key, deletion, static_row };
        Ok((Walk { table, shape, window, start, promoted: None, open: None, last: None, ahead: None }, head))
    }

    fn wrong(&self, error: impl std::fmt::Display) -> Error {
        Error::corrupt(self.window.path(), self.window.position(), "a clustering prefix", error.to_string())
    }

    fn position(&self, prefix: &Prefix) -> Result<Position, Error> {
        prefix.position(&self.table).map_err(|error| self.wrong(error))
    }

    /// Ends the open tombstone at a bound.
    fn cut(&mut self, end: &Bound, slices: &[Slice], fragment: &mut Fragment) -> Result<(), Error> {
        match self.open.take() {
            Some(open) => open.end(&self.table, end, slices, fragment).map_err(|error| self.wrong(error)),
            None => Ok(()),
        }
    }

    /// Ends the open tombstone at a bound for now; it goes on from there.
    fn pause_at(&mut self, end: Bound, slices: &[Slice], fragment: &mut Fragment) -> Result<(), Error> {
        let Some(deletion) = self.open.as_ref().map(|open| open.deletion) else { return Ok(()) };
        self.cut(&end, slices, fragment)?;
        self.open = Some(OpenTombstone { start: end, deletion, place: fragment.len() });
        Ok(())
    }

    /// Goes to the start of a block; what is open there is told by the block before.
    pub(crate) fn enter_block(&mut self, index: usize, place: usize) -> Result<Block, Error> {
        let promoted = self.promoted.as_ref().expect("only partitions with a promoted index have blocks");
        let block = promoted.block(&self.shape, index)?;
        let before = if index == 0 { None } else { Some(promoted.block(&self.shape, index - 1)?) };
        self.window.seek(self.start.saturating_add(block.offset));
        self.ahead = None;
        self.open = None;
        self.last = None;
        if let Some(before) = before {
            if !before.open.is_live() {
                let start = before.last.behind();
                self.open = Some(OpenTombstone { start, deletion: before.open, place });
            }
            self.last = Some(before.last);
        }
        Ok(block)
    }

    /// Goes forward to the first block that can hold something of a slice, if it lies ahead. False: there is none.
    fn seek_slice(
        &mut self,
        slice: usize,
        wanted: Wanted<'_>,
        fragment: &mut Fragment,
    ) -> Result<bool, Error> {
        let Some(promoted) = &self.promoted else { return Ok(true) };
        let start = &wanted.slices[slice].start;
        let index = promoted.first_reaching(&self.shape, &self.table, start)?;
        if index == promoted.promoted.count() {
            return Ok(false);
        }
        let block = promoted.block(&self.shape, index)?;
        if self.start.saturating_add(block.offset) > self.window.position() {
            if let Some(last) = &self.last {
                let end = last.behind();
                self.cut(&end, wanted.slices, fragment)?;
            }
            self.enter_block(index, fragment.len())?;
        }
        Ok(true)
    }

    /// Walks on and gathers what lies in the slices.
    pub(crate) async fn run(&mut self, wanted: Wanted<'_>, fragment: &mut Fragment) -> Result<Pause, Error> {
        if let Some(open) = &mut self.open {
            open.place = fragment.len();
        }
        let slices = wanted.slices;
        let Some(mut slice) = (!slices.is_empty()).then_some(0) else { return Ok(Pause::Complete) };
        if slices[0].start > Position::bottom() && !self.seek_slice(0, wanted, fragment)? {
            return Ok(Pause::Complete);
        }
        loop {
            if self.ahead.is_none() {
                let shape = self.shape.clone();
                self.ahead = Some(self.window.decode(|bytes| take_head(&shape, bytes)).await?);
            }
            let (at, position) = match &self.ahead {
                Some((Head::Row { at, .. } | Head::Marker { at, .. }, _)) => (at, self.position(at)?),
                Some((Head::End, _)) | None => return self.end(slices, fragment),
            };
            let passed = slice;
            while slices.get(slice).is_some_and(|slice| slice.end <= position) {
                slice += 1;
            }
            let inside = slices.get(slice).is_some_and(|slice| slice.start <= position);
            if slice != passed && !inside {
                let end = at.behind();
                self.pause_at(end, slices, fragment)?;
                if slice == slices.len() {
                    return Ok(Pause::Complete);
                }
                let place = self.window.position();
                if !self.seek_slice(slice, wanted, fragment)? {
                    return Ok(Pause::Complete);
                }
                if self.window.position() != place {
                    continue;
                }
            }
            let size = fragment.size();
            self.step(inside, slices, fragment).await?;
            // Only behind something that went into the fragment, so that a piece ends where one of its items does.
            if inside && fragment.size() > size && fragment.size() >= wanted.byte_budget {
                return self.stop(slices, fragment);
            }
        }
    }

    fn end(&mut self, slices: &[Slice], fragment: &mut Fragment) -> Result<Pause, Error> {
        if self.open.is_some() {
            let end = Bound::new(&[], BoundSide::After);
            self.cut(&end, slices, fragment)?;
            let expected = "the end of a range tombstone";
            return Err(Error::corrupt(
                self.window.path(),
                self.window.position(),
                expected,
                "the end of the partition",
            ));
        }
        self.ahead = None;
        self.window.consume(1);
        Ok(Pause::End)
    }

    fn stop(&mut self, slices: &[Slice], fragment: &mut Fragment) -> Result<Pause, Error> {
        let last = self.last.as_ref().expect("a step was made");
        let end = last.behind();
        let position = end.position(&self.table).map_err(|error| self.wrong(error))?;
        self.pause_at(end, slices, fragment)?;
        Ok(Pause::Budget(position))
    }

    /// Deals with the head read ahead: takes or skips a row, notes a marker.
    async fn step(&mut self, inside: bool, slices: &[Slice], fragment: &mut Fragment) -> Result<(), Error> {
        let (head, size) = self.ahead.take().expect("a head was read");
        self.window.consume(size);
        match head {
            Head::End => unreachable!("the end of a partition ends the walk"),
            Head::Row { at, flags, body } => {
                if inside {
                    self.window.require(body).await?;
                    let decoder = RowDecoder { shape: &self.shape.regulars, base: self.shape.base };
                    let bytes = &self.window.rest()[..body as usize];
                    let row = fragment.row(&at.wire, |out| decoder.decode(flags, bytes, out));
                    row.map_err(|fault| fault.in_file(self.window.path(), self.window.position()))?;
                }
                self.window.consume(body);
                self.last = Some(at);
            }
            Head::Marker { at, ends, starts } => {
                let bound = at.behind();
                self.close(ends, &bound, slices, fragment)?;
                if let Some(deletion) = starts.filter(|deletion| !deletion.is_live()) {
                    self.open = Some(OpenTombstone { start: bound, deletion, place: fragment.len() });
                }
                self.last = Some(at);
            }
        }
        Ok(())
    }

    /// Ends the open tombstone as a marker says, which must agree with what is open.
    fn close(
        &mut self,
        ends: Option<Deletion>,
        bound: &Bound,
        slices: &[Slice],
        fragment: &mut Fragment,
    ) -> Result<(), Error> {
        let open = self.open.as_ref().map(|open| open.deletion);
        let ends = ends.filter(|deletion| !deletion.is_live());
        if open.map(|open| open.timestamp) != ends.map(|ends| ends.timestamp) {
            let (path, at) = (self.window.path(), self.window.position());
            return Err(Error::corrupt(
                path,
                at,
                format!("a marker that ends {open:?}"),
                format!("{ends:?}"),
            ));
        }
        self.cut(bound, slices, fragment)
    }

    /// Walks one block, entered before, to its end.
    pub(crate) async fn run_block(
        &mut self,
        block: &Block,
        slices: &[Slice],
        fragment: &mut Fragment,
    ) -> Result<(), Error> {
        let limit = self.start.saturating_add(block.offset).saturating_add(block.width);
        loop {
            if self.window.position() >= limit {
                return self.pause_at(block.last.behind(), slices, fragment);
            }
            let shape = self.shape.clone();
            self.ahead = Some(self.window.decode(|bytes| take_head(&shape, bytes)).await?);
            let position = match &self.ahead {
                Some((Head::Row { at, .. } | Head::Marker { at, .. }, _)) => self.position(at)?,
                // Cassandra counts the end of the partition to the last block.
                Some((Head::End, _)) | None => {
                    self.ahead = None;
                    return self.pause_at(block.last.behind(), slices, fragment);
                }
            };
            let slice = slices.partition_point(|slice| slice.end <= position);
            let inside = slices.get(slice).is_some_and(|slice| slice.start <= position);
            self.step(inside, slices, fragment).await?;
        }
    }

    /// Skips what is left of the partition.
    pub(crate) async fn skip(&mut self) -> Result<(), Error> {
        loop {
            let (head, size) = match self.ahead.take() {
                Some(ahead) => ahead,
                None => {
                    let shape = self.shape.clone();
                    self.window.decode(|bytes| take_head(&shape, bytes)).await?
                }
            };
            self.window.consume(size);
            match head {
                Head::End => return Ok(()),
                Head::Row { body, .. } => self.window.consume(body),
                Head::Marker { .. } => {}
            }
        }
    }
}
