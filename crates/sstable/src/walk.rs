//! A walk through the rows and markers of one partition, forward, with seeks by the row index.
//!
//! Between steps the walk knows which range tombstone is open and where it began, or from where on it is known to be
//! open: a walk that starts in the middle of a partition learns it from the row index.

use base::Token;
use mutation::{Bound, Deletion, Slice};
use schema::{BoundSide, Position, Table};
use std::rc::Rc;
use std::sync::Arc;

use crate::clustering::{Kind, Prefix};
use crate::cursor::Fault;
use crate::error::Error;
use crate::fragment::{Fragment, OpenTombstone, PartitionHead};
use crate::limits::READ_AHEAD_BYTES;
use crate::reader::Reader;
use crate::row::{RowDecoder, Written, flags, when_written};
use crate::row_index::{Entry, RowIndex};
use crate::shape::Shape;
use crate::source::Window;
use crate::unfiltered::{Head, Next, take_head, take_row};
use crate::writer::{CarriedRow, Writer};

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

/// How far copying rows has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// To the end of the partition.
    All,
    /// To a row between others: the writer has enough to write, or others wait.
    Some,
    /// To something that has to be looked at, such as a tombstone.
    Odd,
}

/// What a walk is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Disjoint, ascending.
    pub(crate) slices: &'a [Slice],
    /// Pause when the fragment is as large.
    pub(crate) byte_budget: usize,
    /// How a walk without the row index finds it when the way to a slice is long.
    pub(crate) far: Option<Far<'a>>,
}

/// Where the row index of a partition is found.
#[derive(Clone, Copy)]
pub(crate) struct Far<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) key: &'a [u8],
    pub(crate) token: Token,
    /// So many bytes into the partition it is worth it.
    pub(crate) bytes: u64,
}

/// A place in one partition.
pub(crate) struct Walk {
    table: Arc<Table>,
    shape: Rc<Shape>,
    pub(crate) window: Window,
    /// Where the partition starts.
    start: u64,
    /// The row index of the partition, if it has one and it is wanted.
    pub(crate) rows: Option<RowIndex>,
    /// Whether it was looked for on the way.
    looked: bool,
    open: Option<OpenTombstone>,
    /// The last row or marker read or skipped.
    last: Option<Prefix>,
    /// A head that was read and belongs to the next step, with its size.
    ahead: Option<(Head, u64)>,
    /// Where that sorts; only while a step is decided about.
    place: Vec<u8>,
    /// Room for the clustering of the next row: rows that are passed over allocate nothing.
    spare: Vec<u8>,
}

impl Walk {
    /// A walk that has not begun.
    pub(crate) fn new(table: Arc<Table>, shape: Rc<Shape>, window: Window) -> Walk {
        Walk {
            table,
            shape,
            window,
            start: 0,
            rows: None,
            looked: false,
            open: None,
            last: None,
            ahead: None,
            place: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Begins with the partition at the window's place and reads its head. The static row is decoded.
    pub(crate) async fn begin(&mut self, head: &mut PartitionHead) -> Result<(), Error> {
        self.start = self.window.position();
        (self.rows, self.open, self.last, self.ahead) = (None, None, None, None);
        self.looked = false;
        head.read(&self.shape, &mut self.window).await
    }

    /// Copies rows into a writer that [carries](Writer::carries) them, as long as nothing of them is deleted or has expired at
    /// `expire_at`, and the writer has less than `pending` bytes to write. `wire`: scratch. Nothing was read ahead.
    pub(crate) async fn copy_rows(
        &mut self,
        writer: &mut Writer,
        expire_at: Option<u32>,
        pending: usize,
        wire: &mut Vec<u8>,
    ) -> Result<Copied, Error> {
        assert!(self.ahead.is_none() && self.open.is_none(), "nothing but copying was done in the partition");
        let shape = &self.shape;
        loop {
            match self.window.decode(|bytes| take_row(shape, bytes, wire)).await? {
                Next::End => {
                    self.window.consume(1);
                    return Ok(Copied::All);
                }
                Next::Other => return Ok(Copied::Odd),
                Next::Row(place) => {
                    let bytes = self.window.rest();
                    let (head, body) = (&bytes[..place.head], &bytes[place.body..place.end]);
                    let row = CarriedRow { flags: place.flags, head, wire, body };
                    if !writer.carry(shape.times, expire_at, row)? {
                        return Ok(Copied::Odd);
                    }
                    self.window.consume(place.end as u64);
                }
            }
            if writer.pending_bytes() >= pending || runtime::need_preempt() {
                return Ok(Copied::Some);
            }
        }
    }

    /// The row of a partition that has no other and no tombstones, its clustering values in `wire`. Moves nothing; nothing was read
    /// ahead.
    pub(crate) async fn only_row(
        &mut self,
        wire: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<Written>, Error> {
        assert!(self.ahead.is_none() && self.open.is_none(), "nothing was read of the partition");
        let shape = &self.shape;
        let row = |bytes: &[u8]| {
            let Next::Row(place) = take_row(shape, bytes, wire)? else { return Ok(None) };
            match bytes.get(place.end) {
                Some(next) => Ok((next & flags::END_OF_PARTITION != 0).then_some(place)),
                None => Err(Fault::Short { at: bytes.len() as u64, wanted: 1 }),
            }
        };
        let Some(place) = self.window.decode(row).await? else { return Ok(None) };
        let bytes = self.window.rest();
        let (head, body) = (&bytes[..place.head], &bytes[place.body..place.end]);
        let row = CarriedRow { flags: place.flags, head, wire, body };
        Ok(when_written(&shape.regulars, shape.times, &row, scratch))
    }

    pub(crate) fn wrong(&self, error: impl std::fmt::Display) -> Error {
        Error::corrupt(self.window.path(), self.window.position(), "a clustering prefix", error.to_string())
    }

    /// Finds out where the head that was read sorts; false at the partition's end.
    fn find_place(&mut self) -> Result<bool, Error> {
        let Some(at) = self.ahead.as_ref().and_then(|(head, _)| head.at()) else { return Ok(false) };
        self.place.clear();
        let found = match at.kind {
            Kind::Row => self.table.push_position(&at.wire, &mut self.place),
            _ => at.position(&self.table).map(|position| self.place.extend_from_slice(position.as_bytes())),
        };
        found.map_err(|error| self.wrong(error))?;
        Ok(true)
    }

    /// The bound behind the head that was read.
    fn behind_ahead(&self) -> Bound {
        self.ahead.as_ref().and_then(|(head, _)| head.at()).expect("a place was found").behind()
    }

    /// Notes what was passed last.
    fn pass(&mut self, at: Prefix) {
        if let Some(before) = self.last.replace(at) {
            self.spare = before.wire;
        }
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

    /// Reads the next head, if it is not read yet.
    async fn look_ahead(&mut self) -> Result<&Head, Error> {
        if self.ahead.is_none() {
            let (shape, spare) = (&self.shape, &mut self.spare);
            self.ahead = Some(self.window.decode(|bytes| take_head(shape, bytes, spare)).await?);
        }
        Ok(&self.ahead.as_ref().expect("it was read").0)
    }

    /// Goes to a block of the partition; nothing is known to be open there.
    fn go_to(&mut self, entry: &Entry) {
        self.window.seek(self.start.saturating_add(entry.offset));
        self.window.expect(entry.bytes.min(READ_AHEAD_BYTES));
        self.ahead = None;
        self.open = None;
        self.last = None;
    }

    /// The bound before the next row or marker; `None` at the partition's end.
    async fn next_bound(&mut self) -> Result<Option<Bound>, Error> {
        Ok(self.look_ahead().await?.at().map(Prefix::before))
    }

    /// An open range tombstone where the partition ends.
    fn never_ended(&self) -> Error {
        let (path, at) = (self.window.path(), self.window.position());
        Error::corrupt(path, at, "the end of a range tombstone", "the end of the partition")
    }

    /// Goes to a place that the row index names.
    async fn enter(&mut self, entry: Entry, place: usize) -> Result<(), Error> {
        self.go_to(&entry);
        if entry.open.is_live() {
            return Ok(());
        }
        let start = match entry.from {
            Some(from) => from,
            None => self.next_bound().await?.ok_or_else(|| self.never_ended())?,
        };
        self.open = Some(OpenTombstone { start, deletion: entry.open, place });
        Ok(())
    }

    /// Goes forward to where what a slice wants begins, if that lies ahead. False: there is nothing of it.
    async fn seek_slice(
        &mut self,
        slice: usize,
        wanted: Wanted<'_>,
        fragment: &mut Fragment,
    ) -> Result<bool, Error> {
        let Some(rows) = &self.rows else { return Ok(true) };
        let start = &wanted.slices[slice].start;
        let Some(entry) = rows.entry(&self.shape, &self.table, start).await? else { return Ok(false) };
        if self.start.saturating_add(entry.offset) > self.window.position() {
            if let Some(last) = &self.last {
                let end = last.behind();
                self.cut(&end, wanted.slices, fragment)?;
            }
            self.enter(entry, fragment.len()).await?;
        }
        Ok(true)
    }

    /// Whether so many bytes are `far`; a part of that is when to go on means to read.
    fn is_far(&self, passed: u64, far: u64) -> bool {
        passed >= far || passed >= far / 4 && self.window.is_used_up()
    }

    /// Looks for the row index when the way has become long. True: it is there, and was not before.
    async fn finds_rows(&mut self, far: Option<Far<'_>>) -> Result<bool, Error> {
        let Some(far) = far else { return Ok(false) };
        let passed = self.window.position() - self.start;
        if self.looked || self.rows.is_some() || !self.is_far(passed, far.bytes) {
            return Ok(false);
        }
        self.looked = true;
        self.rows = far.reader.row_index(far.key, far.token).await?;
        Ok(self.rows.is_some())
    }

    /// Walks on and gathers what lies in the slices.
    pub(crate) async fn run(&mut self, wanted: Wanted<'_>, fragment: &mut Fragment) -> Result<Pause, Error> {
        if let Some(open) = &mut self.open {
            open.place = fragment.len();
        }
        let slices = wanted.slices;
        let Some(mut slice) = (!slices.is_empty()).then_some(0) else { return Ok(Pause::Complete) };
        if slices[0].start > Position::bottom() && !self.seek_slice(0, wanted, fragment).await? {
            return Ok(Pause::Complete);
        }
        loop {
            self.look_ahead().await?;
            if !self.find_place()? {
                return self.end(slices, fragment);
            }
            let place = &self.place[..];
            let passed = slice;
            while slices.get(slice).is_some_and(|slice| slice.end.as_bytes() <= place) {
                slice += 1;
            }
            let inside = slices.get(slice).is_some_and(|slice| slice.start.as_bytes() <= place);
            if slice != passed && !inside {
                let end = self.behind_ahead();
                self.pause_at(end, slices, fragment)?;
                if slice == slices.len() {
                    return Ok(Pause::Complete);
                }
            }
            // The row index leads on when the walk has left a slice, or when it was found just now.
            if !inside && (self.finds_rows(wanted.far).await? || slice != passed) {
                let place = self.window.position();
                if !self.seek_slice(slice, wanted, fragment).await? {
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
            return Err(self.never_ended());
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
                    let decoder = RowDecoder { shape: &self.shape.regulars, times: self.shape.times };
                    let bytes = &self.window.rest()[..body as usize];
                    let about = bytes.len() + self.shape.regulars.packed_more();
                    let row = fragment.row(&at.wire, about, |out| decoder.decode(flags, bytes, out));
                    row.map_err(|fault| fault.in_file(self.window.path(), self.window.position()))?;
                }
                self.window.consume(body);
                self.pass(at);
            }
            Head::Marker { at, ends, starts } => {
                let bound = at.behind();
                self.close(ends, &bound, slices, fragment)?;
                if let Some(deletion) = starts.filter(|deletion| !deletion.is_live()) {
                    self.open = Some(OpenTombstone { start: bound, deletion, place: fragment.len() });
                }
                self.pass(at);
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

    /// Walks from the start of a block to where the one behind it starts, or, without one, to the end of the slices.
    /// Returns the bound before the block's first row or marker: what lies at or behind it has been read.
    pub(crate) async fn run_back(
        &mut self,
        entry: &Entry,
        behind: Option<&(u64, Bound)>,
        slices: &[Slice],
        fragment: &mut Fragment,
    ) -> Result<Option<Bound>, Error> {
        self.go_to(entry);
        let Some(first) = self.next_bound().await? else { return Ok(None) };
        if !entry.open.is_live() {
            self.open = Some(OpenTombstone { start: first.clone(), deletion: entry.open, place: 0 });
        }
        loop {
            if let Some((offset, bound)) = behind
                && self.window.position() >= self.start.saturating_add(*offset)
            {
                self.pause_at(bound.clone(), slices, fragment)?;
                return Ok(Some(first));
            }
            self.look_ahead().await?;
            if !self.find_place()? {
                return if self.open.is_some() { Err(self.never_ended()) } else { Ok(Some(first)) };
            }
            let place = &self.place[..];
            let slice = slices.partition_point(|slice| slice.end.as_bytes() <= place);
            let inside = slices.get(slice).is_some_and(|slice| slice.start.as_bytes() <= place);
            if slice == slices.len() && behind.is_none() {
                let end = self.behind_ahead();
                self.pause_at(end, slices, fragment)?;
                return Ok(Some(first));
            }
            self.step(inside, slices, fragment).await?;
        }
    }

    /// Goes to the start of a partition behind this one.
    pub(crate) fn leave_for(&mut self, position: u64) -> Result<(), Error> {
        let at = self.window.position();
        if position <= at {
            let expected = "a partition behind it in the index";
            return Err(Error::corrupt(self.window.path(), at, expected, position.to_string()));
        }
        self.ahead = None;
        self.window.seek(position);
        Ok(())
    }

    /// Skips what is left of the partition. False: its end is `far`, and the walk is still in it.
    pub(crate) async fn skip(&mut self, far: u64) -> Result<bool, Error> {
        let place = self.window.position();
        while !self.is_far(self.window.position() - place, far) {
            let (head, size) = match self.ahead.take() {
                Some(ahead) => ahead,
                None => {
                    let (shape, spare) = (&self.shape, &mut self.spare);
                    self.window.decode(|bytes| take_head(shape, bytes, spare)).await?
                }
            };
            self.window.consume(size);
            match head {
                Head::End => return Ok(true),
                Head::Row { body, at, .. } => {
                    self.spare = at.wire;
                    self.window.consume(body);
                }
                Head::Marker { .. } => {}
            }
        }
        Ok(false)
    }
}
