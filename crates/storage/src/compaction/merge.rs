//! Merging sstables partition by partition, leaving out what is gone for good.
//!
//! Each input is scanned in bounded pieces. A partition that one input has is copied row by row; several are merged, in one pass
//! where that is enough, else a window at a time: up to the position to which all inputs are known. A tombstone is purged only
//! with proof that nothing outside the inputs can hold older data for its partition.

use super::claim::Claim;
use super::output::Output;
use super::progress::{CompactionKind, Running};
use super::proof::Proof;
use super::requests::Granularity;
use super::rows::{is_plain, write_merged};
use super::strategy::Shape;
use crate::Error;
use crate::limits::{COMPACTION_FRAGMENT_BYTES, WRITER_PENDING_BYTES};
use crate::store::Store;
use crate::table::{Replacement, Sstable, TableStore};
use base::Token;
use mutation::{
    Bound, Buffer, Deletion, Item, Key, Partition, Purge, RangeTombstone, Rewrite, Slice, TokenRange,
    rewrite_row,
};
use schema::{BoundSide, Position, Table};
use smallvec::SmallVec;
use sstable::{Copied, OnlyRow, Scanner, SourceSlice, Writer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use types::CqlType;

/// What one compaction does.
pub(super) struct Work {
    pub(super) kind: CompactionKind,
    pub(super) shape: Shape,
    /// Only partitions with these tokens are kept; `None`: all.
    pub(super) owned: Option<Vec<TokenRange>>,
    /// Sstables that are not merged but whose deletions count, and how closely they are looked at.
    pub(super) shadows: Option<(Granularity, Vec<Rc<Sstable>>)>,
    /// What cannot be read is left out instead of ending the compaction.
    pub(super) skips_damage: bool,
}

impl Work {
    pub(super) fn plain(kind: CompactionKind, shape: Shape) -> Work {
        Work { kind, shape, owned: None, shadows: None, skips_damage: false }
    }
}

/// What came of a merge.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Stored bytes of its outputs.
    pub(super) bytes_out: u64,
    /// What could not be read, as text with the file and the place.
    pub(super) lost: Vec<String>,
    /// Partitions of which something could not be read.
    pub(super) lost_partitions: u64,
}

/// One merge under way.
pub(super) struct Merge<'a> {
    store: &'a Store,
    table: &'a Rc<TableStore>,
    definition: Arc<Table>,
    work: &'a Work,
    claim: &'a Claim,
    running: &'a Running,
    inputs: Vec<Input>,
    /// The next partition of every input that has one.
    heads: BinaryHeap<Reverse<(Key, usize)>>,
    /// Inputs of which nothing is left alive: they leave with the first others.
    expired: Vec<Rc<Sstable>>,
    proof: Proof,
    now_s: u32,
    output: Output<'a>,
    /// Plain bytes that were read or need not be.
    completed: u64,
    /// Stored bytes that were read and are not paid for.
    unpaid: f64,
    merged: Merged,
    /// Whether what several say of a cell adds up: counters.
    adds_up: bool,
    /// How often one input alone was looked for, and how often in a row there was none.
    tries: u32,
    in_vain: u32,
}

struct Input {
    /// `None`: let go.
    sstable: Option<Rc<Sstable>>,
    scanner: Option<Scanner>,
    /// The first piece of the partition that stands among the heads, if it was read with the head.
    piece: Option<SourceSlice>,
    /// Whether the writer of this generation takes its rows as they are.
    carried: Option<(u64, bool)>,
    first: Token,
    last: Token,
    /// Plain bytes, and how many stored bytes one of them is.
    plain_bytes: u64,
    ratio: f64,
    /// Where the scan was when it was paid for last.
    paid_to: u64,
    tombstones: bool,
    repaired: bool,
    /// Everything up to this token was passed.
    passed: Option<Token>,
    /// Token of the partition that stands among the heads.
    at: Option<Token>,
    /// Reads the partition that stands among the heads when it lies beside damage: a scan of it alone.
    apart: Option<Scanner>,
}

/// After so many partitions in a row that no input alone says everything of, one in so many is looked at.
const OUTRIGHT_IN_VAIN: u32 = 8;
const OUTRIGHT_AGAIN: u32 = 16;

/// The end of a piece: everything before it is known.
type Edge = (Position, Bound);

impl<'a> Merge<'a> {
    pub(super) fn new(
        store: &'a Store,
        table: &'a Rc<TableStore>,
        work: &'a Work,
        claim: &'a Claim,
        running: &'a Running,
    ) -> Merge<'a> {
        let definition = table.definition();
        let sstables = claim.sstables();
        Merge {
            store,
            table,
            work,
            claim,
            running,
            inputs: sstables.iter().map(|sstable| Input::new(sstable, store.interval)).collect(),
            heads: BinaryHeap::with_capacity(sstables.len()),
            expired: Vec::new(),
            proof: Proof::new(store, table, &definition),
            now_s: runtime::unix_seconds(),
            output: Output::new(store, table, definition.clone(), work.shape, &sstables),
            adds_up: definition.regulars.iter().any(|column| column.ty == CqlType::Counter),
            definition,
            completed: 0,
            unpaid: 0.0,
            merged: Merged::default(),
            tries: 0,
            in_vain: 0,
        }
    }

    /// Does all of it.
    /// Errors: what was recorded so far counts; the rest of the inputs does, too.
    pub(super) async fn run(mut self) -> Result<Merged, Error> {
        let outcome = match self.merge_all().await {
            Ok(()) => self.finish().await,
            Err(error) => Err(error),
        };
        let Merge { output, merged, .. } = self;
        match outcome {
            Ok(()) => Ok(Merged { bytes_out: output.bytes_out, ..merged }),
            Err(error) => {
                self.store.doom(self.table, output.discard().await);
                Err(error)
            }
        }
    }

    async fn merge_all(&mut self) -> Result<(), Error> {
        self.leave_out_expired().await;
        for index in 0..self.inputs.len() {
            self.advance(index).await?;
        }
        let mut sources = Vec::new();
        loop {
            self.check()?;
            let Some(Reverse((key, first))) = self.heads.pop() else { return Ok(()) };
            if self.output.ends_before(key.token) {
                self.output.end().await?;
                self.let_go(Some(key.token)).await?;
            }
            sources.clear();
            sources.push(first);
            while self.heads.peek().is_some_and(|Reverse((next, _))| *next == key) {
                sources.extend(self.heads.pop().map(|Reverse((_, index))| index));
            }
            self.partition(&key, &sources).await?;
            for index in &sources {
                self.inputs[*index].passed = Some(key.token);
                self.advance(*index).await?;
            }
            self.settle().await?;
        }
    }

    /// The last outputs take the place of the last inputs.
    async fn finish(&mut self) -> Result<(), Error> {
        self.output.end().await?;
        self.let_go(None).await
    }

    /// Inputs whose content has expired are not read, when it is proven that nothing needs their tombstones.
    async fn leave_out_expired(&mut self) {
        if self.work.skips_damage {
            return;
        }
        let sstables: Vec<_> = self.inputs.iter().filter_map(|input| input.sstable.clone()).collect();
        self.expired = self.proof.droppable(self.table, &sstables).await;
        for input in &mut self.inputs {
            let sstable = input.sstable.as_ref();
            if sstable.is_some_and(|sstable| self.expired.iter().any(|other| Rc::ptr_eq(other, sstable))) {
                input.scanner = None;
                input.sstable = None;
                self.completed += input.plain_bytes;
            }
        }
    }

    /// Whether to go on.
    fn check(&self) -> Result<(), Error> {
        if self.store.stopping.get() {
            return Err(Error::Stopping);
        }
        if self.table.dropped.get() {
            return Err(Error::UnknownTable(self.table.id));
        }
        if self.running.to_stop.get() {
            return Err(self.interrupted("it was told to stop"));
        }
        Ok(())
    }

    fn interrupted(&self, why: &'static str) -> Error {
        Error::Interrupted { what: self.work.kind.name(), table: self.definition.qualified_name(), why }
    }

    /// Counts what an input has read since it was counted last.
    fn count(&mut self, index: usize) {
        let input = &mut self.inputs[index];
        let position = match &input.scanner {
            Some(scanner) => scanner.position(),
            None => input.plain_bytes,
        };
        let read = position.saturating_sub(input.paid_to);
        input.paid_to += read;
        self.completed += read;
        self.unpaid += read as f64 * input.ratio;
    }

    /// Between two partitions or pieces: the disk, the rate, the others.
    async fn settle(&mut self) -> Result<(), Error> {
        self.running.completed.set(self.completed);
        if self.output.pending_bytes() >= WRITER_PENDING_BYTES {
            if !self.counts() {
                return Err(self.interrupted("what it merged is gone"));
            }
            self.output.writer().drain().await?;
        }
        if self.unpaid >= COMPACTION_FRAGMENT_BYTES as f64 {
            let bytes = std::mem::take(&mut self.unpaid) as u64;
            let throttle = &self.store.compactions.throttle;
            let mut wait = throttle.take(bytes, runtime::now());
            while let Some(pause) = wait {
                self.check()?;
                runtime::sleep(pause).await;
                wait = throttle.take(0, runtime::now());
            }
        }
        runtime::yield_if_needed().await;
        Ok(())
    }

    /// Whether its inputs still count: a truncation takes all of them away.
    fn counts(&self) -> bool {
        let held = self.inputs.iter().find_map(|input| input.sstable.as_ref());
        let is_there = |held: &Rc<Sstable>| {
            self.table.with_version(|version, _| version.sstables.iter().any(|other| Rc::ptr_eq(held, other)))
        };
        held.is_none_or(is_there)
    }

    /// Records finished outputs and lets go of the inputs that end before a token, unless one of those left reaches over it:
    /// then what was purged on this side would come back from there. `None`: all of them.
    async fn let_go(&mut self, before: Option<Token>) -> Result<(), Error> {
        let ends = |input: &Input| before.is_none_or(|before| input.last < before);
        let reaches_over = |input: &Input| !ends(input) && before.is_some_and(|before| input.first < before);
        let held = || self.inputs.iter().filter(|input| input.sstable.is_some());
        if held().any(reaches_over) || before.is_some() && !held().any(ends) {
            return Ok(());
        }
        let mut gone: Vec<Rc<Sstable>> =
            held().filter(|input| ends(input)).filter_map(|input| input.sstable.clone()).collect();
        gone.append(&mut self.expired);
        let lossy = self.work.skips_damage || self.work.owned.is_some();
        let replacement = Replacement { inputs: gone.clone(), outputs: self.output.take_ready(), lossy };
        if !self.store.replace(self.table, replacement).await? {
            return Err(self.interrupted("what it merged is gone"));
        }
        for input in &mut self.inputs {
            if input.sstable.is_some() && before.is_none_or(|before| input.last < before) {
                self.completed += input.plain_bytes.saturating_sub(input.paid_to);
                input.paid_to = input.plain_bytes;
                input.sstable = None;
                input.scanner = None;
            }
        }
        self.claim.forget(&gone);
        drop(gone);
        self.store.reap().await;
        Ok(())
    }

    /// Makes the next partition of an input that counts one of the heads, if there is one.
    async fn advance(&mut self, index: usize) -> Result<(), Error> {
        loop {
            let input = &mut self.inputs[index];
            input.apart = None;
            input.piece = None;
            let Some(sstable) = input.sstable.clone().filter(|_| input.scanner.is_some()) else {
                return Ok(());
            };
            let key = match self.enter(index).await {
                Ok(Some(key)) => key,
                Ok(None) => {
                    self.inputs[index].scanner = None;
                    self.count(index);
                    return Ok(());
                }
                Err(error) if self.work.skips_damage => match self.step_over(index, error).await {
                    Some(slice) => {
                        let view = slice.mutation.view();
                        let key = Key::with_token(view.token, view.key);
                        self.inputs[index].piece = Some(slice);
                        key
                    }
                    None => continue,
                },
                Err(error) => return Err(error.into()),
            };
            self.count(index);
            let owned = self.work.owned.as_ref();
            let counts = sstable.covers(key.token)
                && owned.is_none_or(|owned| owned.iter().any(|range| range.contains(key.token)));
            let input = &mut self.inputs[index];
            if counts {
                input.at = Some(key.token);
                self.heads.push(Reverse((key, index)));
                return Ok(());
            }
            input.passed = Some(key.token);
            self.check()?;
            runtime::yield_if_needed().await;
        }
    }

    /// Goes to the next partition of an input's scan. Where damage is left out its first piece is read as well: whether it can be
    /// read has to be known before anything of it is written.
    async fn enter(&mut self, index: usize) -> Result<Option<Key>, sstable::Error> {
        let input = &mut self.inputs[index];
        let Some(scanner) = &mut input.scanner else { return Ok(None) };
        let Some(entered) = scanner.enter().await? else { return Ok(None) };
        let key = Key::with_token(entered.token, entered.key);
        if self.work.skips_damage {
            let scanned = scanner.piece(&[Slice::all()], piece_bytes()).await?;
            input.piece = scanned.map(|scanned| scanned.slice);
        }
        Ok(Some(key))
    }

    /// Goes on behind what an input could not read: the next partition of the index, if that alone can be read, or what follows
    /// it. Reading ahead may have failed at damage that is not its own.
    async fn step_over(&mut self, index: usize, error: sstable::Error) -> Option<SourceSlice> {
        let input = &mut self.inputs[index];
        input.scanner = None;
        let sstable = input.sstable.clone()?;
        let from = match input.passed {
            None => Token::MIN,
            Some(passed) => Token(passed.0.checked_add(1)?),
        };
        let next = match sstable.reader.next_readable(from).await {
            Ok(next) => next,
            Err(of_index) => {
                let lost = format!("everything behind token {from} of {error}; {of_index}");
                self.lose(lost);
                return None;
            }
        };
        if let Some(error) = next.error {
            self.merged.lost_partitions += next.unreadable;
            self.lose(format!("{} partitions from token {from} on: {error}", next.unreadable));
        }
        let token = next.token?;
        let input = &mut self.inputs[index];
        let rest =
            token.0.checked_add(1).map(|first| TokenRange::new(Token(first), self.store.interval.last));
        input.scanner = rest.map(|rest| sstable.reader.scan(rest));
        let mut closely = sstable.reader.scan_closely(TokenRange::new(token, token));
        match closely.next(&[Slice::all()], piece_bytes()).await {
            Ok(Some(scanned)) => {
                input.apart = Some(closely);
                Some(scanned.slice)
            }
            Ok(None) => {
                input.passed = Some(token);
                None
            }
            Err(error) => {
                input.passed = Some(token);
                self.merged.lost_partitions += 1;
                self.lose(format!("the partition of token {token}: {error}"));
                None
            }
        }
    }

    /// Names what could not be read.
    fn lose(&mut self, what: String) {
        runtime::warn!("scrub: table {}: lost {what}", self.definition.qualified_name());
        self.merged.lost.push(what);
    }

    async fn partition(&mut self, key: &Key, sources: &[usize]) -> Result<(), Error> {
        self.running.merged(sources.len() as u32);
        let rewrite = self.rewrite_of(key, sources);
        self.output.open(key.token).await?;
        if self.work.shadows.is_none() {
            let alone = if sources.len() == 1 { Some(sources[0]) } else { self.outright(sources).await? };
            if let Some(index) = alone {
                for other in sources.iter().filter(|other| **other != index) {
                    if let Some(scanner) = &mut self.inputs[*other].scanner {
                        scanner.skip_partition().await?;
                    }
                }
                return self.copy(key, index, rewrite).await;
            }
        }
        for index in sources {
            if self.inputs[*index].piece.is_none() {
                let piece = self.continue_piece(*index).await?;
                self.inputs[*index].piece = piece;
                // A piece is as large as its largest row.
                runtime::yield_if_needed().await;
            }
        }
        if self.work.shadows.is_none() {
            let mut pieces = sources.iter().filter_map(|index| self.inputs[*index].piece.as_ref());
            if pieces.all(is_plain) {
                return self.merge_plain(key, sources, rewrite);
            }
        }
        self.merge_windows(key, sources, rewrite).await
    }

    /// The input that alone has everything to say of a partition: each has one row of it and nothing that is deleted, the same row, and
    /// this one's says all that a row can say, later than the others say anything. Nothing has been read of it then.
    async fn outright(&mut self, sources: &[usize]) -> Result<Option<usize>, Error> {
        // Where it was in vain a few times, it is tried now and then.
        self.tries = self.tries.wrapping_add(1);
        if self.adds_up || self.in_vain >= OUTRIGHT_IN_VAIN && !self.tries.is_multiple_of(OUTRIGHT_AGAIN) {
            return Ok(None);
        }
        let best = self.latest(sources).await?;
        self.in_vain = if best.is_some() { 0 } else { self.in_vain.saturating_add(1) };
        Ok(best)
    }

    /// As [`Merge::outright`], of this partition.
    async fn latest(&mut self, sources: &[usize]) -> Result<Option<usize>, Error> {
        let mut rows: SmallVec<[(usize, OnlyRow); 4]> = SmallVec::new();
        for index in sources.iter().copied() {
            let input = &mut self.inputs[index];
            let Some(scanner) =
                input.scanner.as_mut().filter(|_| input.piece.is_none() && input.apart.is_none())
            else {
                return Ok(None);
            };
            let Some(row) = scanner.only_row().await? else { return Ok(None) };
            if rows.first().is_some_and(|(_, known)| known.clustering != row.clustering) {
                return Ok(None);
            }
            rows.push((index, row));
        }
        let Some((index, best)) = rows.iter().max_by_key(|(_, row)| row.last) else { return Ok(None) };
        let index = *index;
        let is_last = rows.iter().all(|(other, row)| *other == index || row.last < best.first);
        if !best.is_whole || !is_last {
            return Ok(None);
        }
        Ok(self.carries(index).then_some(index))
    }

    /// What is left out of a partition; `None`: there is nothing in its inputs that could be.
    fn rewrite_of(&self, key: &Key, sources: &[usize]) -> Option<Rewrite> {
        let inputs = || sources.iter().map(|index| &self.inputs[*index]);
        let shadowed = self.work.shadows.is_some();
        if !shadowed && !inputs().any(|input| input.tombstones) {
            return None;
        }
        let repaired = inputs().all(|input| input.repaired);
        let is_input = |sstable: &Rc<Sstable>| {
            let held = self.inputs.iter().filter_map(|input| input.sstable.as_ref());
            held.chain(&self.expired).any(|input| Rc::ptr_eq(input, sstable))
        };
        if self.table.is_incomplete.get() {
            // It may have become so since the proof was begun.
            return Some(Rewrite { shadow: Deletion::LIVE, expire_at: Some(self.now_s), purge: None });
        }
        let purge = self.proof.of_partition(self.table, key, repaired, |sstable| !is_input(sstable));
        Some(Rewrite { shadow: Deletion::LIVE, expire_at: Some(self.now_s), purge: Some(purge) })
    }

    /// Writes the head of a partition without what may go; returns the deletion that shadows its rows.
    fn begin(
        &mut self,
        key: &Key,
        deletion: Deletion,
        static_row: Option<&[u8]>,
        rewrite: Option<&Rewrite>,
    ) -> Result<(), Error> {
        let purge = rewrite.and_then(|rewrite| rewrite.purge);
        let gone = purge.is_some_and(|purge| purge.allows(deletion.timestamp, deletion.local_time));
        let written = if gone { Deletion::LIVE } else { deletion };
        let writer = self.output.writer();
        match (static_row, rewrite) {
            (Some(body), Some(rewrite)) => {
                let mut scratch = Vec::new();
                let shadow = rewrite.shadow.max(deletion);
                let kept = rewrite_row(body, &Rewrite { shadow, ..*rewrite }, &mut scratch);
                writer.start_partition(&key.bytes, key.token, written, kept.then_some(&scratch[..]))?;
            }
            (body, _) => writer.start_partition(&key.bytes, key.token, written, body)?,
        }
        Ok(())
    }

    /// A partition that one input has: its rows pass through one by one, as they are where that can be.
    async fn copy(&mut self, key: &Key, index: usize, rewrite: Option<Rewrite>) -> Result<(), Error> {
        let mut piece = self.inputs[index].piece.take();
        let deletion;
        if let Some(first) = &piece {
            let view = first.mutation.view();
            deletion = view.deletion;
            self.begin(key, deletion, view.static_row, rewrite.as_ref())?;
        } else {
            let entered = self.inputs[index].scanner.as_ref().and_then(Scanner::entered);
            let Some(entered) = entered else {
                // Nothing of it could be read, or it says nothing.
                return if self.work.skips_damage {
                    Ok(())
                } else {
                    Err(self.interrupted("a scan lost its place"))
                };
            };
            deletion = entered.deletion;
            let static_row = entered.static_row.map(<[u8]>::to_vec);
            self.begin(key, deletion, static_row.as_deref(), rewrite.as_ref())?;
            let expire_at = rewrite.as_ref().and_then(|rewrite| rewrite.expire_at);
            if deletion.is_live() && self.carries(index) && self.carry(index, expire_at).await? {
                self.output.writer().end_partition()?;
                return Ok(());
            }
            piece = self.continue_piece(index).await?;
        }
        let mut open = None;
        while let Some(next) = &piece {
            self.copy_piece(next, deletion, rewrite.as_ref(), &mut open)?;
            if next.complete_to.is_none() {
                break;
            }
            self.check()?;
            self.settle().await?;
            piece = self.continue_piece(index).await?;
        }
        self.output.writer().end_partition()?;
        Ok(())
    }

    /// Whether the open writer takes rows of an input as they are.
    fn carries(&mut self, index: usize) -> bool {
        let input = &mut self.inputs[index];
        let (generation, writer) = self.output.open_writer();
        match input.carried {
            Some((of, carries)) if of == generation => carries,
            _ => {
                let carries = input.sstable.as_ref().is_some_and(|sstable| writer.carries(&sstable.reader));
                input.carried = Some((generation, carries));
                carries
            }
        }
    }

    /// Copies rows of the partition that an input has entered as they are. True: all that were left. False: one has something that is
    /// deleted, or has expired.
    async fn carry(&mut self, index: usize, expire_at: Option<u32>) -> Result<bool, Error> {
        loop {
            let Some(scanner) = &mut self.inputs[index].scanner else { return Ok(false) };
            let pending = if runtime::rare("small_compaction_pieces") { 0 } else { WRITER_PENDING_BYTES };
            match scanner.copy_rows(self.output.writer(), expire_at, pending).await? {
                Copied::All => return Ok(true),
                Copied::Odd => return Ok(false),
                Copied::Some => {
                    self.check()?;
                    self.count(index);
                    self.settle().await?;
                }
            }
        }
    }

    /// The next piece of the partition that an input stands in; `None` at its end, or where it cannot be read any more.
    async fn continue_piece(&mut self, index: usize) -> Result<Option<SourceSlice>, Error> {
        let input = &mut self.inputs[index];
        if let Some(apart) = &mut input.apart {
            return match apart.piece(&[Slice::all()], piece_bytes()).await {
                Ok(scanned) => Ok(scanned.map(|scanned| scanned.slice)),
                Err(error) => {
                    self.merged.lost_partitions += 1;
                    self.lose(format!("the rest of a partition: {error}"));
                    Ok(None)
                }
            };
        }
        let Some(scanner) = &mut input.scanner else { return Ok(None) };
        let scanned = scanner.piece(&[Slice::all()], piece_bytes()).await;
        self.count(index);
        match scanned {
            Ok(scanned) => Ok(scanned.map(|scanned| scanned.slice)),
            Err(error) if self.work.skips_damage => {
                // What was read of it is kept. Where the scan goes on is found when the next partition is asked for.
                self.merged.lost_partitions += 1;
                self.lose(format!("the rest of a partition: {error}"));
                self.go_on_by_index(index);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Begins a scan behind the partition that an input stands in.
    fn go_on_by_index(&mut self, index: usize) {
        let input = &mut self.inputs[index];
        let Some(sstable) = &input.sstable else { return };
        let next = input.at.and_then(|at| at.0.checked_add(1));
        let rest = next.map(|first| TokenRange::new(Token(first), self.store.interval.last));
        input.scanner = rest.map(|rest| sstable.reader.scan(rest));
    }

    /// `open`: the range tombstone that reaches furthest, by where it ends.
    fn copy_piece(
        &mut self,
        piece: &SourceSlice,
        deletion: Deletion,
        rewrite: Option<&Rewrite>,
        open: &mut Option<(Position, Deletion)>,
    ) -> Result<(), Error> {
        let definition = &self.definition;
        let writer = self.output.writer();
        let mut scratch = Buffer::default();
        for item in piece.mutation.view().items() {
            let Some(rewrite) = rewrite else {
                let Item::Row { clustering, body } = item else {
                    base::never!(true, "an sstable with a range tombstone counts it");
                    continue;
                };
                writer.row(clustering, body)?;
                continue;
            };
            match item {
                Item::Row { clustering, body } => {
                    let mut shadow = deletion;
                    if let Some((end, range)) = open.as_ref() {
                        let position = definition.position(clustering).map_err(mutation::Error::from)?;
                        if position < *end {
                            shadow = shadow.max(*range);
                        } else {
                            *open = None;
                        }
                    }
                    scratch.clear();
                    scratch.make_room(body.len());
                    if rewrite_row(body, &Rewrite { shadow, ..*rewrite }, &mut scratch) {
                        writer.row(clustering, &scratch)?;
                    }
                }
                Item::Range { start, end, deletion: range } => {
                    let (start, end) = (start.to_bound(), end.to_bound());
                    *open = Some((end.position(definition)?, range));
                    if range_is_kept(range, deletion, rewrite.purge) {
                        writer.range_tombstone(&RangeTombstone { start, end, deletion: range })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A partition that several inputs have, each in one piece, without range tombstones.
    fn merge_plain(&mut self, key: &Key, sources: &[usize], rewrite: Option<Rewrite>) -> Result<(), Error> {
        let pieces: Vec<SourceSlice> =
            sources.iter().filter_map(|index| self.inputs[*index].piece.take()).collect();
        let views = || pieces.iter().map(|piece| piece.mutation.view());
        let deletion = views().map(|view| view.deletion).fold(Deletion::LIVE, Deletion::max);
        let mut static_row: Option<Vec<u8>> = None;
        for body in views().filter_map(|view| view.static_row) {
            static_row = Some(match static_row {
                None => body.to_vec(),
                Some(before) => {
                    let mut merged = Vec::with_capacity(before.len() + body.len());
                    mutation::merge_rows(&self.definition, true, &before, body, &mut merged);
                    merged
                }
            });
        }
        self.begin(key, deletion, static_row.as_deref(), rewrite.as_ref())?;
        let rewrite = rewrite.map(|rewrite| Rewrite { shadow: deletion, ..rewrite });
        let writer = self.output.writer();
        write_merged(&self.definition, &pieces, rewrite.as_ref(), writer)?;
        writer.end_partition()?;
        Ok(())
    }

    /// A partition of any kind, a window at a time.
    async fn merge_windows(
        &mut self,
        key: &Key,
        sources: &[usize],
        rewrite: Option<Rewrite>,
    ) -> Result<(), Error> {
        let mut partition = Partition::new();
        let mut edges: Vec<(Source, Edge)> = Vec::new();
        for index in sources {
            if let Some(slice) = self.inputs[*index].piece.take() {
                absorb(&self.definition, &mut partition, &mut edges, Source::Input(*index), &slice)?;
            }
        }
        let mut shadow = Partition::new();
        let (granularity, others) = match &self.work.shadows {
            Some((granularity, others)) => (*granularity, &others[..]),
            None => (Granularity::Row, &[][..]),
        };
        for (index, sstable) in others.iter().enumerate() {
            let slice = self.shadow_piece(sstable, key, Position::bottom()).await?;
            if let Some(slice) = slice {
                absorb(&self.definition, &mut shadow, &mut edges, Source::Shadow(index), &slice)?;
            }
        }
        let rewrite = rewrite.unwrap_or(Rewrite { shadow: Deletion::LIVE, expire_at: None, purge: None });
        let deletion =
            if shadow.deletion.supersedes(partition.deletion) { Deletion::LIVE } else { partition.deletion };
        let static_row = partition.static_row.take();
        let rewrite = Rewrite { shadow: partition.deletion.max(shadow.deletion), ..rewrite };
        let other = shadow.static_row.as_deref();
        let cleaned = static_row.as_deref().and_then(|body| granularity.clean(body, other));
        self.begin(key, deletion, cleaned.as_deref(), Some(&rewrite))?;
        loop {
            let edge = edges.iter().map(|(_, edge)| edge).min_by(|a, b| a.0.cmp(&b.0)).cloned();
            let window = Window { edge: edge.as_ref(), shadow: &shadow, granularity, rewrite: &rewrite };
            window.write(&partition, self.output.writer())?;
            let Some(edge) = edge else { break };
            partition = remainder(&self.definition, &partition, &edge)?;
            shadow = remainder(&self.definition, &shadow, &edge)?;
            self.check()?;
            self.settle().await?;
            let (reached, left): (Vec<_>, Vec<_>) = edges.into_iter().partition(|(_, at)| at.0 == edge.0);
            edges = left;
            for (source, _) in reached {
                match source {
                    Source::Input(index) => {
                        if let Some(slice) = self.continue_piece(index).await? {
                            absorb(&self.definition, &mut partition, &mut edges, source, &slice)?;
                        }
                    }
                    Source::Shadow(index) => {
                        let slice = self.shadow_piece(&others[index], key, edge.0.successor()).await?;
                        if let Some(slice) = slice {
                            absorb(&self.definition, &mut shadow, &mut edges, source, &slice)?;
                        }
                    }
                }
            }
        }
        self.output.writer().end_partition()?;
        Ok(())
    }

    /// What an sstable that is not merged says of a partition from a position on, in a piece.
    async fn shadow_piece(
        &self,
        sstable: &Sstable,
        key: &Key,
        start: Position,
    ) -> Result<Option<SourceSlice>, Error> {
        if !sstable.covers(key.token) {
            return Ok(None);
        }
        let slices = [Slice { start, end: Position::top() }];
        Ok(sstable.reader.read_partition(&key.bytes, key.token, &slices, false, piece_bytes()).await?)
    }
}

/// Where a piece comes from.
#[derive(Clone, Copy)]
enum Source {
    Input(usize),
    Shadow(usize),
}

fn absorb(
    table: &Table,
    partition: &mut Partition,
    edges: &mut Vec<(Source, Edge)>,
    source: Source,
    slice: &SourceSlice,
) -> Result<(), Error> {
    partition.apply(table, &slice.mutation.view())?;
    if let Some(position) = &slice.complete_to {
        edges.push((source, (position.clone(), bound_at(table, slice, position)?)));
    }
    Ok(())
}

/// The bound of the last row or tombstone of a piece, at which the piece ends.
fn bound_at(table: &Table, slice: &SourceSlice, edge: &Position) -> Result<Bound, Error> {
    for item in slice.mutation.view().items() {
        let bound = match item {
            Item::Row { clustering, .. } => Bound::new(clustering, BoundSide::After),
            Item::Range { end, .. } => end.to_bound(),
        };
        if bound.position(table)? == *edge {
            return Ok(bound);
        }
    }
    base::never!(true, "a piece of a scan ends at one of its items");
    Err(Error::Stopping)
}

/// The part of a partition that is complete.
struct Window<'w> {
    /// Where it ends; `None`: with the partition.
    edge: Option<&'w Edge>,
    /// What others delete of it.
    shadow: &'w Partition,
    granularity: Granularity,
    rewrite: &'w Rewrite,
}

impl Window<'_> {
    /// Writes the rows and tombstones before the edge, or all.
    fn write(&self, partition: &Partition, writer: &mut Writer) -> Result<(), Error> {
        let edge = self.edge;
        let end = edge.map_or(Position::top(), |(position, _)| position.clone());
        let covering = partition.deletion.max(self.shadow.deletion);
        let kept = |range: &RangeTombstone| range_is_kept(range.deletion, covering, self.rewrite.purge);
        let ranges = partition.ranges.overlapping(&Position::bottom(), &end);
        let mut ranges = ranges.filter(|(_, _, range)| kept(range)).peekable();
        let clip = |end_at: &Position, range: RangeTombstone| match edge {
            Some((edge_at, bound)) if end_at > edge_at => RangeTombstone { end: bound.clone(), ..range },
            _ => range,
        };
        let mut scratch = Vec::new();
        for (position, row) in partition.rows_between(&[], edge.map(|(position, _)| position.as_bytes())) {
            while let Some((_, end_at, range)) = ranges.next_if(|(at, ..)| at < position) {
                writer.range_tombstone(&clip(&end_at, range))?;
            }
            let mut shadow = partition.covering(position).max(self.shadow.covering(position));
            let other = self.shadow.row(position).map(|row| row.body());
            if let Some(other) = other {
                shadow = shadow.max(mutation::RowView::new(other).deletion());
            }
            let Some(body) = self.granularity.clean(row.body(), other) else { continue };
            scratch.clear();
            if rewrite_row(&body, &Rewrite { shadow, ..*self.rewrite }, &mut scratch) {
                writer.row(row.clustering(), &scratch)?;
            }
        }
        for (_, end_at, range) in ranges {
            writer.range_tombstone(&clip(&end_at, range))?;
        }
        Ok(())
    }
}

/// Whether a range tombstone says something beside a deletion of the whole partition, and has to.
fn range_is_kept(range: Deletion, partition: Deletion, purge: Option<Purge>) -> bool {
    let gone = purge.is_some_and(|purge| purge.allows(range.timestamp, range.local_time));
    range.supersedes(partition) && !gone
}

/// Bytes asked of an input in one step.
fn piece_bytes() -> usize {
    if runtime::rare("small_compaction_pieces") { 100 } else { COMPACTION_FRAGMENT_BYTES }
}

/// What of a partition lies at or behind an edge.
fn remainder(table: &Table, partition: &Partition, edge: &Edge) -> Result<Partition, Error> {
    let mut rest = Partition::new();
    rest.deletion = partition.deletion;
    for (_, row) in partition.rows_between(&edge.0, None) {
        rest.merge_row(table, row.clustering(), row.body())?;
    }
    for (start_at, _, range) in partition.ranges.overlapping(&edge.0, &Position::top()) {
        let start = if start_at < edge.0 { edge.1.clone() } else { range.start };
        rest.ranges.add(table, RangeTombstone { start, ..range })?;
    }
    Ok(rest)
}

impl Input {
    fn new(sstable: &Rc<Sstable>, interval: TokenRange) -> Input {
        let meta = &sstable.entry.meta;
        let stored_bytes = sstable.reader.footprint().stored_bytes;
        Input {
            scanner: Some(sstable.reader.scan(interval)),
            piece: None,
            carried: None,
            first: meta.first_token,
            last: meta.last_token,
            plain_bytes: meta.data_bytes,
            ratio: stored_bytes as f64 / meta.data_bytes.max(1) as f64,
            paid_to: 0,
            tombstones: meta.has_tombstones(),
            repaired: meta.repaired_at > 0,
            passed: None,
            at: None,
            apart: None,
            sstable: Some(sstable.clone()),
        }
    }
}
