//! The commitlog of one shard: entries are appended to memory in one step, and one task writes and syncs them.
//!
//! ```text
//!  append ─► open builder ─(full)─► closed builders ─► writer task: write blocks ─► sync ─► wake who waits
//! ```
//! In periodic mode builders lie in a file that outlives the process (`log/tail.rs`), so that a kill loses nothing of what was
//! answered. An entry that does not fit there waits for its sync, and others wait until it is handed over.
//! At most one sync is in flight; whatever is appended meanwhile forms the next group. A segment is synced to its end before the
//! first block of the next one is written. A segment that is not needed any more becomes a spare and is written again under a
//! new number: its blocks are allocated, so that nothing but them is written. After a failed write or sync no append is accepted any more; a write to a full
//! disk refuses appends until a retry succeeds, a sync that says so is a failed one. Owned by its shard; segments are removed when nothing below the floor is needed.

use super::block::{BLOCK, LogPosition, Sealed, SegmentBuilder, SegmentHeader, SegmentName};
use super::memory::BlockMemory;
use crate::limits::{
    LOG_DESCRIPTOR_PATIENCE_MS, LOG_DESCRIPTOR_RETRY_MS, LOG_GROUP_BYTES_MAX, LOG_HANDOFF_MS, LOG_LOSSES_MAX,
    LOG_RETRY_MS, LOG_UNSYNCED_BYTES_MAX, LOG_WRITE_BYTES_MAX, TAIL_ENTRY_BYTES_MAX,
};
use crate::{CommitlogSync, Error};
use base::Instant;
use runtime::file::{self, AlignedBuf, File, OpenOptions, SyncMethod};
use runtime::metrics::Counter;
use runtime::sync::{Event, Lock};
use runtime::{Bug, Group};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

mod tail;

use tail::Tail;

/// How a log is made.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// Folder of the segments.
    pub dir: PathBuf,
    /// When writers are answered.
    pub sync: CommitlogSync,
    /// In periodic mode: who asks for room waits while the oldest entry that is not synced is older. Less than a period is one.
    pub sync_lag_max: Duration,
    /// Bytes of a segment; whole blocks.
    pub segment_bytes: u64,
    /// This start of the node.
    pub incarnation: u32,
    /// The shard that owns the log.
    pub shard: u16,
    /// Shards of the node.
    pub shards: u16,
    /// Segments that are kept to be written again.
    pub spares_max: usize,
    /// Largest entry, bytes; `None`: half a segment. Never more than that.
    pub entry_bytes_max: Option<u64>,
    /// How a group of blocks becomes durable when nothing before it waits for that.
    pub method: SyncMethod,
}

/// Where an entry lies and what to wait for.
#[derive(Debug, Clone, Copy)]
pub struct Appended {
    /// Where it begins.
    pub position: LogPosition,
    /// Number of the entry, for [`Commitlog::synced`].
    pub number: u64,
}

/// A handle to the log of this shard.
#[derive(Clone)]
pub struct Commitlog(Rc<Inner>);

struct Inner {
    config: LogConfig,
    state: RefCell<State>,
    /// The writer task has something to look at.
    work: Event,
    /// Something was synced, failed or recovered.
    progress: Event,
    /// Held by the first of those who wait for room.
    room: Lock<()>,
    appends: Counter,
    appended_bytes: Counter,
    written_bytes: Counter,
    syncs: Counter,
}

struct State {
    memory: BlockMemory,
    tail: Tail,
    /// A caller waits for blocks to be written.
    blocks_wanted: bool,
    open: SegmentBuilder,
    closed: VecDeque<SegmentBuilder>,
    /// Sealed blocks that a failed write left over.
    unwritten: Option<(u32, Sealed)>,
    /// Every segment with a file: live ones and the next one.
    files: BTreeMap<u32, File>,
    /// Numbers of segments that are not needed any more and whose files are written again.
    spares: Vec<u32>,
    /// Segment that was written last, its blocks written and synced.
    written: Written,
    /// Entries and bytes appended, and those of them that are synced.
    appended: Mark,
    synced: Mark,
    /// Somebody waits for this entry to be synced.
    wanted: u64,
    /// When the oldest entry was appended that is not handed to the disk, and the oldest that is not synced.
    pending_since: Option<Instant>,
    unsynced_since: Option<Instant>,
    /// The writer has something under way.
    busy: bool,
    /// Entries appended and not yet applied to a memtable, with when that was, in seconds since the Unix epoch.
    in_flight: BTreeMap<LogPosition, u32>,
    refused: Option<Error>,
    /// Entries, first and last, that a log lost in whose place a new one began, and why.
    lost: VecDeque<(u64, u64, Error)>,
    preparing: bool,
    /// Why the next segment must not be used: it was made, and a sync of that failed.
    spare_failed: Option<Error>,
    stopping: bool,
    stopped: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Written {
    segment: u32,
    blocks: u32,
    synced_blocks: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    entries: u64,
    bytes: u64,
}

impl Commitlog {
    /// Makes a log without files and starts its writer; nothing touches the disk before the first append.
    pub fn start(config: LogConfig) -> Commitlog {
        assert!(config.segment_bytes.is_multiple_of(BLOCK as u64), "segments are whole blocks");
        let counter = |name: &str, help: &str| runtime::metrics::counter(name, help, &[]);
        let mut memory = BlockMemory::new();
        let open = SegmentBuilder::new(&mut memory, header(&config, 1, 0), config.segment_bytes);
        let state = State {
            memory,
            tail: Tail::of(config.sync),
            blocks_wanted: false,
            open,
            closed: VecDeque::new(),
            unwritten: None,
            files: BTreeMap::new(),
            spares: Vec::new(),
            written: Written::default(),
            appended: Mark::default(),
            synced: Mark::default(),
            wanted: 0,
            pending_since: None,
            unsynced_since: None,
            busy: false,
            in_flight: BTreeMap::new(),
            refused: None,
            lost: VecDeque::new(),
            preparing: false,
            spare_failed: None,
            stopping: false,
            stopped: false,
        };
        let log = Commitlog(Rc::new(Inner {
            config,
            state: RefCell::new(state),
            work: Event::new(),
            progress: Event::new(),
            room: Lock::new(()),
            appends: counter("messina_commitlog_entries_total", "Entries appended to the commitlog."),
            appended_bytes: counter(
                "messina_commitlog_entry_bytes_total",
                "Bytes of entries appended to the commitlog.",
            ),
            written_bytes: counter(
                "messina_commitlog_written_bytes_total",
                "Bytes of blocks written to the commitlog.",
            ),
            syncs: counter("messina_commitlog_syncs_total", "Syncs of commitlog segments."),
        }));
        let writer = log.clone();
        drop(runtime::spawn(Group::COMMITLOG, async move { writer.run().await }));
        log
    }

    /// Largest entry, bytes.
    pub fn entry_max(&self) -> u64 {
        let half = self.0.config.segment_bytes / 2;
        self.0.config.entry_bytes_max.map_or(half, |most| most.min(half))
    }

    /// Why appends are refused, if they are.
    pub fn refused(&self) -> Option<Error> {
        self.0.state.borrow().refused.clone()
    }

    /// Whether an entry of that many bytes would be appended now.
    pub fn accepts(&self, bytes: usize) -> Result<(), Error> {
        self.accepts_in(&self.0.state.borrow(), bytes)
    }

    fn accepts_in(&self, state: &State, bytes: usize) -> Result<(), Error> {
        if let Some(error) = &state.refused {
            return Err(error.clone());
        }
        if state.stopping {
            return Err(Error::Stopping);
        }
        let (bytes, limit) = (bytes as u64, self.entry_max());
        if bytes <= limit {
            return Ok(());
        }
        // Whose it is only the store knows.
        Err(Error::TooLarge { bytes, limit, keyspace: String::new(), keys: String::new() })
    }

    /// Whether [`Commitlog::room`] would return at once and well. There is room then for the largest entry that is kept.
    pub fn has_room(&self) -> bool {
        let state = self.0.state.borrow();
        state.refused.is_none() && !state.stopping && self.keeps_up(&state) && self.has_blocks(&state)
    }

    /// Whether an entry of so many bytes may be answered in the step that appends it: it outlives the process. Where not, as
    /// for large ones, whoever appends it waits for its sync.
    pub fn keeps(&self, entry_bytes: usize) -> bool {
        entry_bytes <= TAIL_ENTRY_BYTES_MAX && self.0.state.borrow().keeps(entry_bytes)
    }

    /// Whether entries of usual size may be.
    fn has_blocks(&self, state: &State) -> bool {
        state.keeps(TAIL_ENTRY_BYTES_MAX)
    }

    /// Whether as little is not synced as may be lost.
    fn keeps_up(&self, state: &State) -> bool {
        state.appended.bytes - state.synced.bytes < self.unsynced_max() && !self.is_late(state)
    }

    /// Whether the entries of too long a time are not synced. Only a slow disk makes it so: a writer that has nothing under way
    /// begins in time, and no clock need be read.
    fn is_late(&self, state: &State) -> bool {
        let waits = state.busy && matches!(self.0.config.sync, CommitlogSync::Periodic { .. });
        let Some(since) = state.unsynced_since.filter(|_| waits) else { return false };
        runtime::now() >= since + self.0.config.sync_lag_max
    }

    /// Bytes that may be appended and not yet synced.
    fn unsynced_max(&self) -> u64 {
        match self.0.config.sync {
            CommitlogSync::Periodic { .. } => LOG_UNSYNCED_BYTES_MAX,
            CommitlogSync::Batch | CommitlogSync::Group { .. } => LOG_GROUP_BYTES_MAX,
        }
    }

    /// Waits until the bytes that are not yet synced are below their bound, and in periodic mode until the oldest of them is
    /// not too old; first come first served.
    pub async fn room(&self) -> Result<(), Error> {
        if self.has_room() && self.0.room.try_lock().is_some() {
            return Ok(());
        }
        let _turn = self.0.room.lock().await;
        loop {
            {
                let mut state = self.0.state.borrow_mut();
                if let Some(error) = &state.refused {
                    return Err(error.clone());
                }
                if state.stopping {
                    return Err(Error::Stopping);
                }
                match (self.keeps_up(&state), self.has_blocks(&state)) {
                    (true, true) => return Ok(()),
                    (true, false) => state.ask_for_blocks(),
                    (false, _) => state.wanted = state.appended.entries,
                }
            }
            self.0.work.notify();
            self.0.progress.wait().await;
        }
    }

    /// Appends one entry made of parts, in memory. Errors: nothing was appended.
    pub fn append(&self, parts: &[&[u8]]) -> Result<Appended, Error> {
        let inner = &*self.0;
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let state = &mut *inner.state.borrow_mut();
        self.accepts_in(state, bytes)?;
        if !state.open.fits(bytes) {
            let synced = state.written.synced_of(state.open.name().segment);
            state.open.end(&mut state.memory, synced);
            let next = header(&inner.config, state.open.name().segment + 1, state.open.blocks());
            let next = SegmentBuilder::new(&mut state.memory, next, inner.config.segment_bytes);
            state.closed.push_back(std::mem::replace(&mut state.open, next));
        }
        let synced = state.written.synced_of(state.open.name().segment);
        let position = state.open.append(&mut state.memory, synced, parts);
        state.appended.entries += 1;
        state.appended.bytes += bytes as u64;
        inner.appends.inc();
        inner.appended_bytes.add(bytes as u64);
        let first = state.pending_since.is_none();
        if first {
            let now = runtime::now();
            state.pending_since = Some(now);
            state.unsynced_since.get_or_insert(now);
        }
        if first || state.open.pending() >= LOG_WRITE_BYTES_MAX {
            inner.work.notify();
        }
        self.grow_tail_if_short(state);
        Ok(Appended { position, number: state.appended.entries })
    }

    /// Waits until an entry is synced. Errors: it may or may not be.
    pub async fn synced(&self, number: u64) -> Result<(), Error> {
        {
            let mut state = self.0.state.borrow_mut();
            if let Some(known) = state.outcome_of(number) {
                return known;
            }
            state.wanted = state.wanted.max(number);
        }
        self.0.work.notify();
        loop {
            {
                let state = self.0.state.borrow();
                if let Some(known) = state.outcome_of(number) {
                    return known;
                }
                if let Some(error) = &state.refused {
                    return Err(error.clone());
                }
                if state.stopped {
                    return Err(Error::Stopping);
                }
            }
            self.0.progress.wait().await;
        }
    }

    /// Waits until every entry appended so far is synced.
    pub async fn synced_so_far(&self) -> Result<(), Error> {
        let number = self.0.state.borrow().appended.entries;
        self.synced(number).await
    }

    /// Whether an entry is synced, or lost for good; `None`: neither yet.
    pub fn fate(&self, number: u64) -> Option<bool> {
        self.0.state.borrow().outcome_of(number).map(|known| known.is_ok())
    }

    /// Resolves with why the log has failed for good; `None` when it stops before.
    pub async fn failure(&self) -> Option<Error> {
        loop {
            {
                let state = self.0.state.borrow();
                if state.stopping {
                    return None;
                }
                if let Some(error @ Error::CommitlogFailed(_)) = &state.refused {
                    return Some(error.clone());
                }
            }
            self.0.progress.wait().await;
        }
    }

    /// Begins anew after a failure, with the segment behind the open one: the manifest says that none before it is needed.
    /// False: the log has not failed, or somebody still waits for it.
    pub fn renew(&self) -> bool {
        let config = &self.0.config;
        let gone: Vec<u32> = {
            let state = &mut *self.0.state.borrow_mut();
            let Some(error @ Error::CommitlogFailed(_)) = state.refused.clone() else { return false };
            if state.stopping || state.preparing || !state.in_flight.is_empty() {
                return false;
            }
            let (first, last) = (state.synced.entries + 1, state.appended.entries);
            if state.lost.len() == LOG_LOSSES_MAX {
                state.lost.pop_front();
            }
            state.lost.push_back((first, last, error));
            let next = state.open.name().segment + 1;
            let new = SegmentBuilder::new(&mut state.memory, header(config, next, 0), config.segment_bytes);
            let old = std::mem::replace(&mut state.open, new);
            let given_up = std::mem::take(&mut state.closed).into_iter().chain([old]);
            given_up.for_each(|builder| state.memory.give_back(&builder.into_waiting()));
            if let Some((_, sealed)) = state.unwritten.take() {
                state.memory.give_back(&sealed.blocks);
            }
            // It may lie on the heap, as all of the tail was in use; nobody would write it before something is appended.
            state.open.move_header(&mut state.memory);
            state.written = Written::default();
            state.synced = state.appended;
            (state.pending_since, state.unsynced_since) = (None, None);
            (state.refused, state.spare_failed) = (None, None);
            // The next one was made and synced before: it is whole.
            let kept = state.files.split_off(&next);
            let old = std::mem::replace(&mut state.files, kept);
            old.into_keys().chain(std::mem::take(&mut state.spares)).collect()
        };
        self.remove_segments(gone);
        self.0.work.notify();
        self.0.progress.notify_all();
        true
    }

    /// Marks an entry as appended and not yet applied: [`Commitlog::position`] stays at or below it.
    pub fn hold(&self, position: LogPosition) -> Held {
        let before = self.0.state.borrow_mut().in_flight.insert(position, runtime::unix_seconds());
        assert!(before.is_none(), "an entry is held once");
        Held { log: self.clone(), position }
    }

    /// When the oldest entry was appended that is not yet applied, in seconds since the Unix epoch; `None`: all are.
    pub fn in_flight_since_s(&self) -> Option<u32> {
        self.0.state.borrow().in_flight.values().copied().min()
    }

    /// Every entry below this place is applied to a memtable.
    pub fn position(&self) -> LogPosition {
        let state = self.0.state.borrow();
        let open = state.open.position();
        state.in_flight.keys().next().map_or(open, |held| open.min(*held))
    }

    /// Behind every entry appended so far, applied or not.
    pub fn end(&self) -> LogPosition {
        self.0.state.borrow().open.position()
    }

    /// Entries that are held: appended and not yet applied.
    pub fn in_flight(&self) -> usize {
        self.0.state.borrow().in_flight.len()
    }

    /// Bytes of the segments that hold entries.
    pub fn size(&self) -> u64 {
        let state = self.0.state.borrow();
        let first = state.files.keys().next().copied().unwrap_or(state.open.name().segment);
        u64::from(state.open.name().segment + 1 - first.min(state.open.name().segment))
            * self.0.config.segment_bytes
    }

    /// Bytes of blocks written since the start.
    #[cfg(test)]
    pub fn written_bytes(&self) -> u64 {
        self.0.written_bytes.get()
    }

    /// Number of the segment that is appended to.
    pub fn open_segment(&self) -> u32 {
        self.0.state.borrow().open.name().segment
    }

    /// Lets go of segments below `floor`: some become spares, the others are removed. The floor must be durable in the manifest.
    pub fn release(&self, floor: u32) {
        let mut gone = Vec::new();
        {
            let mut state = self.0.state.borrow_mut();
            let keep = floor.min(state.open.name().segment).min(state.written.segment);
            let keep = state.closed.front().map_or(keep, |closed| keep.min(closed.name().segment));
            while let Some((&number, _)) = state.files.first_key_value()
                && number < keep
            {
                state.files.remove(&number);
                if state.spares.len() < self.0.config.spares_max && !state.stopping {
                    state.spares.push(number);
                } else {
                    gone.push(number);
                }
            }
        }
        self.remove_segments(gone);
    }

    fn remove_segments(&self, gone: Vec<u32>) {
        if gone.is_empty() {
            return;
        }
        let gone: Vec<PathBuf> = gone.into_iter().map(|number| path(&self.0.config, number)).collect();
        drop(runtime::spawn(Group::COMMITLOG, async move {
            for path in gone {
                if let Err(error) = runtime::release::remove(&path).await {
                    runtime::warn!("cannot remove commitlog segment \"{}\": {error}", path.display());
                }
            }
        }));
    }

    /// Writes and syncs everything, and ends the writer. Appends are refused from now on.
    pub async fn stop(&self) -> Result<(), Error> {
        self.0.state.borrow_mut().stopping = true;
        self.0.work.notify();
        self.0.progress.notify_all();
        loop {
            {
                let state = self.0.state.borrow();
                if state.stopped {
                    return state.refused.clone().map_or(Ok(()), Err);
                }
            }
            self.0.progress.wait().await;
        }
    }

    /// Removes every segment of a stopped log whose content is all in sstables.
    pub async fn remove_all(&self) -> Result<(), Error> {
        let numbers: Vec<u32> = {
            let mut state = self.0.state.borrow_mut();
            assert!(state.stopped, "the writer is still there");
            let spares = std::mem::take(&mut state.spares);
            std::mem::take(&mut state.files).into_keys().chain(spares).collect()
        };
        for number in numbers {
            let path = path(&self.0.config, number);
            file::remove(&path).await.map_err(|error| Error::io(&path, "remove", error))?;
        }
        self.remove_tail().await
    }

    async fn run(self) {
        loop {
            match self.next_round() {
                Round::Stop => break,
                Round::Now { sync } => self.round_or_refuse(sync).await,
                Round::At(deadline) => {
                    let pause = deadline.saturating_duration_since(runtime::now());
                    // Elapsed is what the loop is about: it looks again either way.
                    let _ = runtime::timeout(pause, self.0.work.wait()).await;
                }
                Round::Idle => self.0.work.wait().await,
            }
        }
        self.0.state.borrow_mut().stopped = true;
        self.0.progress.notify_all();
    }

    fn next_round(&self) -> Round {
        let state = self.0.state.borrow();
        if matches!(state.refused, Some(Error::CommitlogFailed(_))) {
            return if state.stopping { Round::Stop } else { Round::Idle };
        }
        let unsynced = state.appended.entries > state.synced.entries;
        if state.stopping {
            let full = state.refused.is_some();
            return if unsynced && !full { Round::Now { sync: true } } else { Round::Stop };
        }
        if state.tail == (Tail::Wanted { asked: true }) {
            return Round::Now { sync: false };
        }
        if !unsynced {
            return Round::Idle;
        }
        let pending = state.open.pending() > 0 && state.pending_since.is_some() || !state.closed.is_empty();
        let handoff = state.pending_since.map(|since| since + Duration::from_millis(LOG_HANDOFF_MS));
        let wanted = state.wanted > state.synced.entries;
        let since = state.unsynced_since.unwrap_or(Instant(0));
        let (sync_at, write_at) = match self.0.config.sync {
            CommitlogSync::Batch => return Round::Now { sync: true },
            CommitlogSync::Group { window_ms } => (since + Duration::from_millis(window_ms), None),
            CommitlogSync::Periodic { .. } if wanted => return Round::Now { sync: true },
            CommitlogSync::Periodic { period_ms } => {
                let period = Duration::from_millis(period_ms).min(self.0.config.sync_lag_max);
                (since + period, handoff)
            }
        };
        let now = runtime::now();
        // Half of what may be unsynced: nobody has to wait for it then.
        let much = state.appended.bytes - state.synced.bytes >= self.unsynced_max() / 2;
        if now >= sync_at || much {
            return Round::Now { sync: true };
        }
        let large =
            state.open.pending() >= LOG_WRITE_BYTES_MAX || !state.closed.is_empty() || state.blocks_wanted;
        match write_at {
            Some(write_at) if pending && (large || now >= write_at) => Round::Now { sync: false },
            Some(write_at) if pending => Round::At(write_at.min(sync_at)),
            _ => Round::At(sync_at),
        }
    }

    async fn round_or_refuse(&self, sync: bool) {
        self.0.state.borrow_mut().busy = true;
        let mut result = self.round(sync).await;
        // Connections that are refused soon after they were accepted hold descriptors for a moment.
        let patience = runtime::now() + Duration::from_millis(LOG_DESCRIPTOR_PATIENCE_MS);
        while matches!(&result, Err(error) if error.is_out_of_descriptors()) && runtime::now() < patience {
            runtime::sleep(Duration::from_millis(LOG_DESCRIPTOR_RETRY_MS)).await;
            result = self.round(sync).await;
        }
        let full = {
            let mut state = self.0.state.borrow_mut();
            state.busy = false;
            match result {
                Ok(()) => {
                    state.refused = None;
                    false
                }
                Err(error) if error.is_shortage() && !is_of_sync(&error) => {
                    if state.refused.is_none() {
                        runtime::error!("writes are refused: {error}");
                    }
                    state.refused = Some(Error::NoSpace(error.to_string().into()));
                    true
                }
                Err(error) => {
                    runtime::error!("the commitlog failed, writes are refused from now on: {error}");
                    state.refused = Some(Error::CommitlogFailed(Arc::from(error.to_string())));
                    false
                }
            }
        };
        self.0.progress.notify_all();
        if full {
            runtime::sleep(Duration::from_millis(LOG_RETRY_MS)).await;
        }
    }

    /// Writes everything appended so far, and syncs it when asked.
    async fn round(&self, sync: bool) -> Result<(), Error> {
        self.make_tail().await?;
        let target = loop {
            let (segment, sealed, target) = match self.next_blocks() {
                Next::Blocks(segment, sealed) => (segment, sealed, None),
                Next::LastBlocks(segment, sealed, target) => (segment, sealed, Some(target)),
                Next::Nothing(target) => break target,
            };
            if sync && target.is_some() && self.may_be_written_durably(segment, &sealed) {
                self.write_durably(segment, sealed).await?;
            } else {
                self.write(segment, sealed).await?;
            }
            if let Some(target) = target {
                break target;
            }
        };
        if sync {
            self.sync_written().await?;
            let mut state = self.0.state.borrow_mut();
            assert!(target.entries >= state.synced.entries, "syncs are one after the other");
            state.synced = target;
            // What came meanwhile was not handed over yet.
            state.unsynced_since = state.pending_since;
        }
        self.prepare_spare();
        Ok(())
    }

    fn next_blocks(&self) -> Next {
        let state = &mut *self.0.state.borrow_mut();
        if let Some((segment, sealed)) = state.unwritten.take() {
            return Next::Blocks(segment, sealed);
        }
        while let Some(closed) = state.closed.front_mut() {
            let segment = closed.name().segment;
            if let Some(sealed) = closed.seal(&mut state.memory, state.written.synced_of(segment)) {
                return Next::Blocks(segment, sealed);
            }
            state.closed.pop_front();
        }
        let target = state.appended;
        let segment = state.open.name().segment;
        state.blocks_wanted = false;
        if state.pending_since.take().is_none() {
            return Next::Nothing(target);
        }
        match state.open.seal(&mut state.memory, state.written.synced_of(segment)) {
            Some(sealed) => Next::LastBlocks(segment, sealed, target),
            None => Next::Nothing(target),
        }
    }

    /// Whether blocks can be written and synced in one: everything before them in their segment is synced.
    fn may_be_written_durably(&self, segment: u32, sealed: &Sealed) -> bool {
        let written = self.0.state.borrow().written;
        written.segment == segment
            && written.blocks == written.synced_blocks
            && sealed.bytes() <= LOG_WRITE_BYTES_MAX
            && !runtime::planted(Bug::SkipSync)
    }

    async fn write_durably(&self, segment: u32, sealed: Sealed) -> Result<(), Error> {
        let (file, buffer) = {
            let state = self.0.state.borrow();
            (state.files[&segment].clone(), state.memory.copy(&sealed.blocks))
        };
        let path = path(&self.0.config, segment);
        let offset = u64::from(sealed.first_block) * BLOCK as u64;
        let written = file.write_durable(offset, buffer, self.0.config.method).await;
        let mut state = self.0.state.borrow_mut();
        match written {
            Ok(synced) => {
                let blocks = sealed.end();
                state.written.blocks = blocks;
                state.memory.give_back(&sealed.blocks);
                self.0.written_bytes.add(sealed.bytes() as u64);
                synced.map_err(|error| Error::io(&path, SYNC, error))?;
                state.written.synced_blocks = blocks;
                self.0.syncs.inc();
                Ok(())
            }
            Err(error) => {
                state.unwritten = Some((segment, sealed));
                state.pending_since.get_or_insert_with(runtime::now);
                Err(Error::io(&path, "write", error))
            }
        }
    }

    async fn write(&self, segment: u32, sealed: Sealed) -> Result<(), Error> {
        let result = self.write_blocks(segment, &sealed).await;
        let mut state = self.0.state.borrow_mut();
        match result {
            Ok(()) => {
                state.written.blocks = sealed.end();
                state.memory.give_back(&sealed.blocks);
                self.0.written_bytes.add(sealed.bytes() as u64);
                if matches!(state.tail, Tail::Made { .. }) {
                    drop(state);
                    // Who waits for blocks need not wait for the next sync.
                    self.0.progress.notify_all();
                }
            }
            Err(_) => {
                state.unwritten = Some((segment, sealed));
                state.pending_since.get_or_insert_with(runtime::now);
            }
        }
        result
    }

    async fn write_blocks(&self, segment: u32, sealed: &Sealed) -> Result<(), Error> {
        if self.0.state.borrow().written.segment != segment {
            self.sync_written().await?;
            let file = self.segment_file(segment).await?;
            let mut state = self.0.state.borrow_mut();
            state.files.insert(segment, file);
            state.written = Written { segment, blocks: 0, synced_blocks: 0 };
        }
        let file = self.0.state.borrow().files[&segment].clone();
        let path = path(&self.0.config, segment);
        let mut offset = u64::from(sealed.first_block) * BLOCK as u64;
        for piece in sealed.blocks.chunks(LOG_WRITE_BYTES_MAX / BLOCK) {
            let buffer = self.0.state.borrow().memory.copy(piece);
            let bytes = buffer.len() as u64;
            file.write_at(offset, buffer).await.map_err(|error| Error::io(&path, "write", error))?;
            offset += bytes;
        }
        Ok(())
    }

    async fn sync_written(&self) -> Result<(), Error> {
        let (file, written) = {
            let state = self.0.state.borrow();
            let written = state.written;
            if written.blocks == written.synced_blocks {
                return Ok(());
            }
            (state.files[&written.segment].clone(), written)
        };
        if !runtime::planted(Bug::SkipSync) {
            let path = path(&self.0.config, written.segment);
            file.sync_data().await.map_err(|error| Error::io(&path, SYNC, error))?;
        }
        self.0.syncs.inc();
        self.0.state.borrow_mut().written.synced_blocks = written.blocks;
        Ok(())
    }

    /// The file of a segment: the spare when it is ready, or a new one.
    async fn segment_file(&self, segment: u32) -> Result<File, Error> {
        while self.0.state.borrow().preparing {
            self.0.progress.wait().await;
        }
        let (made, failed) = {
            let state = self.0.state.borrow();
            (state.files.get(&segment).cloned(), state.spare_failed.clone())
        };
        if let Some(file) = made {
            return Ok(file);
        }
        // Made once more it would be synced with success, whatever the first sync lost.
        failed.map_or(Ok(()), Err)?;
        self.make_segment(segment, false).await
    }

    /// A file for a segment: a spare under its new name, or a new one.
    async fn make_segment(&self, segment: u32, fill: bool) -> Result<File, Error> {
        let spare = self.0.state.borrow_mut().spares.pop();
        match spare {
            Some(old) => recycle_segment(&self.0.config, old, segment).await,
            None => create_segment(&self.0.config, segment, fill).await,
        }
    }

    /// Makes the file of the next segment in the background once the present one is in use.
    fn prepare_spare(&self) {
        let next = {
            let mut state = self.0.state.borrow_mut();
            let next = state.written.segment + 1;
            let used = state.written.blocks as u64 * BLOCK as u64 * 4 >= self.0.config.segment_bytes;
            let ended = state.stopping || state.spare_failed.is_some();
            if !used || state.preparing || ended || state.files.contains_key(&next) {
                return;
            }
            state.preparing = true;
            next
        };
        let log = self.clone();
        drop(runtime::spawn(Group::COMMITLOG, async move {
            let fill = !matches!(log.0.config.sync, CommitlogSync::Periodic { .. });
            let created = log.make_segment(next, fill).await;
            let mut state = log.0.state.borrow_mut();
            state.preparing = false;
            match created {
                Ok(file) => drop(state.files.insert(next, file)),
                Err(error) if is_of_sync(&error) => state.spare_failed = Some(error),
                // It is tried again when the segment is needed.
                Err(_) => {}
            }
            drop(state);
            log.0.progress.notify_all();
        }));
    }
}

impl State {
    /// Asks the writer for blocks of the tail file: to make it, or to write what is in it.
    fn ask_for_blocks(&mut self) {
        match &mut self.tail {
            Tail::Wanted { asked } => *asked = true,
            Tail::Made { .. } => self.blocks_wanted = true,
            Tail::None => {}
        }
    }

    /// Whether an entry is synced or lost; `None`: neither yet.
    fn outcome_of(&self, number: u64) -> Option<Result<(), Error>> {
        if self.synced.entries < number {
            return None;
        }
        let lost = self.lost.iter().find(|(first, last, _)| (*first..=*last).contains(&number));
        Some(lost.map_or(Ok(()), |(_, _, error)| Err(error.clone())))
    }
}

enum Round {
    Now { sync: bool },
    At(Instant),
    Idle,
    Stop,
}

enum Next {
    /// Blocks of a segment, more may follow.
    Blocks(u32, Sealed),
    /// The newest blocks: they reach up to the mark.
    LastBlocks(u32, Sealed, Mark),
    /// Everything up to the mark is written.
    Nothing(Mark),
}

impl Written {
    fn synced_of(&self, segment: u32) -> u32 {
        if self.segment == segment { self.synced_blocks } else { 0 }
    }
}

/// An entry that is appended and not yet applied; dropping it lets the flush position pass.
pub struct Held {
    log: Commitlog,
    position: LogPosition,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.log.0.state.borrow_mut().in_flight.remove(&self.position);
    }
}

/// What is tried when a segment or its folder is synced.
const SYNC: &str = "sync";

/// Whether an error is one of a sync. What such a sync did not write may be lost even if a later one succeeds, so nothing may
/// go on after it, a full disk or not. Where no descriptor was left to sync a folder by, there was no sync yet.
fn is_of_sync(error: &Error) -> bool {
    matches!(error, Error::Io { action: SYNC, .. }) && !error.is_out_of_descriptors()
}

fn header(config: &LogConfig, segment: u32, previous_blocks: u32) -> SegmentHeader {
    let name = SegmentName { incarnation: config.incarnation, shard: config.shard, segment };
    SegmentHeader { name, shards: config.shards, previous_blocks }
}

fn path(config: &LogConfig, segment: u32) -> PathBuf {
    let name = SegmentName { incarnation: config.incarnation, shard: config.shard, segment };
    config.dir.join(name.file_name())
}

/// Gives the file of an old segment a new number, durably. Its blocks are those of the old one until they are written: their
/// ids tell. Under which name a power cut leaves it makes no difference: the old one is below the floor.
async fn recycle_segment(config: &LogConfig, old: u32, segment: u32) -> Result<File, Error> {
    let (from, to) = (path(config, old), path(config, segment));
    file::rename(&from, &to).await.map_err(|error| Error::io(&from, "rename", error))?;
    let options = OpenOptions { read: true, write: true, direct: true, ..OpenOptions::READ };
    let file = File::open(&to, options).await.map_err(|error| Error::io(&to, "open", error))?;
    file::sync_dir(&config.dir).await.map_err(|error| Error::io(&config.dir, SYNC, error))?;
    Ok(file)
}

/// How a segment's file is made; what is measured of it must be made the same way.
pub(super) const NEW_SEGMENT: OpenOptions =
    OpenOptions { read: true, write: true, create: true, truncate: true, direct: true, ..OpenOptions::READ };

/// Makes a segment file of full size whose name and size are durable; `fill` writes zeros, so that syncs of it touch no metadata.
async fn create_segment(config: &LogConfig, segment: u32, fill: bool) -> Result<File, Error> {
    let path = path(config, segment);
    let io = |action: &'static str| {
        let path = &path;
        move |source: io::Error| Error::io(path, action, source)
    };
    let file = File::open(&path, NEW_SEGMENT).await.map_err(io("create"))?;
    file.allocate(config.segment_bytes).await.map_err(io("allocate"))?;
    if fill {
        let mut offset = 0;
        while offset < config.segment_bytes {
            let len = (config.segment_bytes - offset).min(LOG_WRITE_BYTES_MAX as u64);
            file.write_at(offset, AlignedBuf::zeroed(len as usize)).await.map_err(io("write"))?;
            offset += len;
        }
    }
    file.sync_data().await.map_err(io(SYNC))?;
    file::sync_dir(&config.dir).await.map_err(|error| Error::io(&config.dir, SYNC, error))?;
    Ok(file)
}
