//! From the folder of an earlier start to open stores, on any number of shards.
//!
//! ```text
//! shard 0   prepare: lock, node file, old manifests, list folders, remove garbage ─► StartPlan
//! shards    open: sstables ─ replay old logs into memtables ─ flush them ─ new manifest ─► barrier
//! shard 0   when all are there: replace the node file (the switch), then remove old manifests and logs
//! ```
//! The node file names the incarnation whose manifests count. A crash before the switch leaves the old start as it was, and what
//! was written beside it is garbage; a crash after it leaves old logs and manifests as garbage.

use crate::commitlog::probe;
use crate::commitlog::replay::OldLog;
use crate::commitlog::tail::TailName;
use crate::commitlog::{LogPosition, SegmentName};
use crate::import::{Imports, Intent, incarnation_of_intent};
use crate::limits::{INCARNATION_MAX, SHARDS_MAX};
use crate::manifest::{ManifestHeader, ManifestState, SstableEntry};
use crate::snapshot::Snapshots;
use crate::table::table_of_dir;
use crate::{CommitlogSync, Error, Settings, snapshot};
use base::{ByteReader, HashMap, Token, crc32, shard_interval, shards_of_interval};
use mutation::TokenRange;
use runtime::file::{self, DirEntry, FolderLock, SyncMethod};
use runtime::sync::Event;
use runtime::{Group, ShardId};
use schema::TableId;
use sstable::{Descriptor, Meta};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

const NODE_FILE: &str = "messina.node";
const MAGIC: &[u8; 8] = b"MSNNODE1";

/// What every shard needs to open its store. Made once, by [`prepare`].
#[derive(Debug)]
pub struct StartPlan {
    pub(crate) incarnation: u32,
    pub(crate) shards: Vec<ShardPlan>,
    last_generations: HashMap<TableId, u64>,
    /// Old manifests and log segments, to be removed after the switch.
    old_files: Vec<PathBuf>,
    /// How blocks of the log become durable fastest.
    pub(crate) log_method: SyncMethod,
    /// The last time given out on this node, microseconds since the Unix epoch.
    last_time: AtomicI64,
}

/// What one shard takes over.
#[derive(Debug, Default)]
pub(crate) struct ShardPlan {
    pub(crate) sstables: Vec<PlannedSstable>,
    /// Files that have tokens of this shard of which none counts any more, by how many shards hold them.
    pub(crate) spent: Vec<(TableId, Arc<AtomicU32>)>,
    pub(crate) logs: Vec<PlannedLog>,
    pub(crate) truncated: BTreeMap<TableId, i64>,
}

#[derive(Debug, Clone)]
pub(crate) struct PlannedSstable {
    pub(crate) table: TableId,
    pub(crate) entry: SstableEntry,
    /// How many shards take it over; `None`: only this one, and all that is in it counts.
    pub(crate) holders: Option<Arc<AtomicU32>>,
}

#[derive(Debug, Clone)]
pub(crate) struct PlannedLog {
    pub(crate) log: OldLog,
    pub(crate) flushed: Arc<BTreeMap<TableId, LogPosition>>,
}

impl StartPlan {
    /// Which start of the node this is, counted from 1.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The largest generation any file of a table had at start; 0 when there was none.
    pub(crate) fn last_generation(&self, table: TableId) -> u64 {
        self.last_generations.get(&table).copied().unwrap_or(0)
    }

    /// A time later than all given out before on any shard, and not before `now` and `at_least`.
    pub(crate) fn next_time(&self, now: i64, at_least: i64) -> i64 {
        let wanted = now.max(at_least);
        let next = |last: i64| wanted.max(last.saturating_add(1));
        // The closure always gives something, so both sides are the time before.
        let before =
            self.last_time.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(before.unwrap_or_else(|last| last))
    }
}

/// Looks at the folders and decides what each shard takes over. Runs on shard 0, before any shard opens its store.
/// Locks the folders until the node ends.
/// Errors: another process has them, or what they hold is damaged; nothing that counts was changed.
pub async fn prepare(settings: &Settings, shards: u16) -> Result<Arc<StartPlan>, Error> {
    if shards > SHARDS_MAX || shards == 0 {
        let (value, limit) = (u64::from(shards), u64::from(SHARDS_MAX));
        return Err(Error::OutOfNumbers { what: "number of shards", value, limit });
    }
    let locks = lock_folders(settings).await?;
    // What a killed process renamed may be visible and not durable yet; nothing is removed because of such a name.
    let data_dir = &settings.data_dir;
    file::sync_dir(data_dir).await.map_err(|error| Error::io(data_dir, "sync folder", error))?;
    let (segments, tails) = list_log(&settings.commitlog_dir).await?;
    let old = read_node_file(&settings.data_dir.join(NODE_FILE)).await?;
    let first = segments.first().map(|segment| segment.file_name());
    if let (None, Some(name)) = (&old, first.or(tails.first().map(|tail| tail.file_name()))) {
        let path = settings.data_dir.join(NODE_FILE);
        let got = format!("no such file, but \"{name}\" of a commitlog");
        return Err(Error::corrupt("node file", &path, 0, "the file of an earlier start", got));
    }
    let old_incarnation = old.map_or(0, |node| node.incarnation);
    if old_incarnation >= INCARNATION_MAX {
        let (value, limit) = (u64::from(old_incarnation) + 1, u64::from(INCARNATION_MAX));
        return Err(Error::OutOfNumbers { what: "incarnation", value, limit });
    }
    let mut manifests = Vec::new();
    for shard in 0..old.map_or(0, |node| node.shards) {
        let header =
            ManifestHeader { incarnation: old_incarnation, shard, shards: old.map_or(1, |node| node.shards) };
        let path = settings.data_dir.join(header.file_name());
        let manifest = ManifestState::read(&path).await?;
        if manifest.header != header {
            let (expected, got) = (format!("{header:?}"), format!("{:?}", manifest.header));
            return Err(Error::corrupt("manifest", &path, 8, expected, got));
        }
        manifests.push(manifest);
    }
    // Imports of which some manifests may not know yet.
    let mut imports = Vec::new();
    let ours = |entry: &&DirEntry| incarnation_of_intent(&entry.name) == old.map(|node| node.incarnation);
    for entry in
        list(&settings.data_dir).await?.iter().filter(|entry| !entry.is_dir && old.is_some()).filter(ours)
    {
        let path = settings.data_dir.join(&entry.name);
        manifests_know(&mut manifests, &Intent::read(&path).await?);
        imports.push(path);
    }
    // Reading a manifest writes it again, so the names are taken afterwards.
    let entries = list(&settings.data_dir).await?;
    remove_stale(settings, &entries, &segments, old_incarnation).await?;
    for tail in tails.iter().filter(|tail| tail.incarnation != old_incarnation) {
        remove(&settings.commitlog_dir.join(tail.file_name())).await?;
    }
    let log = (&segments[..], &tails[..]);
    let last_generations = collect_garbage(settings, &entries, &manifests, old.is_some()).await?;
    let plan = plan(settings, shards, old_incarnation + 1, &manifests, log, last_generations, imports);
    // Trying costs as much as the rest of a start, and pays where answers wait for syncs.
    let log_method = match settings.sync {
        CommitlogSync::Periodic { .. } => SyncMethod::After,
        CommitlogSync::Batch | CommitlogSync::Group { .. } => probe::probe(&settings.commitlog_dir).await,
    };
    let plan = Arc::new(StartPlan { log_method, ..plan });
    let barrier = StartBarrier {
        settings: settings.clone(),
        plan: plan.clone(),
        arrived: Cell::new(0),
        outcome: RefCell::new(None),
        decided: Event::new(),
        _locks: locks,
    };
    runtime::install(Rc::new(barrier));
    // What a node has once.
    runtime::install(Rc::new(Imports::default()));
    runtime::install(Rc::new(Snapshots::default()));
    Ok(plan)
}

async fn lock_folders(settings: &Settings) -> Result<Vec<FolderLock>, Error> {
    let node_file = settings.data_dir.join(NODE_FILE);
    let known = file::exists(&node_file).await;
    let first_start = !known.map_err(|error| Error::io(&node_file, "look for", error))?;
    let mut locks = Vec::new();
    let mut folders = vec![&settings.data_dir];
    if settings.commitlog_dir != settings.data_dir {
        folders.push(&settings.commitlog_dir);
    }
    for folder in folders {
        make_folder(folder, first_start).await?;
        match file::lock_exclusive(folder).await {
            Ok(lock) => locks.push(lock),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(Error::FolderInUse { folder: folder.clone() });
            }
            Err(error) => return Err(Error::io(folder, "lock folder", error)),
        }
    }
    Ok(locks)
}

/// Makes a folder and those above it, all of them durable by name. An earlier start may have made them and died before they
/// were, so at a first start every folder above is synced, whoever made it.
async fn make_folder(folder: &Path, first_start: bool) -> Result<(), Error> {
    file::create_dir_all(folder).await.map_err(|error| Error::io(folder, "create folder", error))?;
    let parents = folder.ancestors().skip(1).filter(|parent| first_start && !parent.as_os_str().is_empty());
    for parent in parents {
        match file::sync_dir(parent).await {
            Ok(()) => {}
            // A folder that may not be listed was not made by a start of ours.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(Error::io(parent, "sync folder", error)),
        }
    }
    Ok(())
}

async fn list(folder: &Path) -> Result<Vec<DirEntry>, Error> {
    let entries = file::read_dir(folder).await.map_err(|error| Error::io(folder, "list folder", error))?;
    let (count, limit) = (entries.len() as u64, crate::limits::DIRECTORY_ENTRIES_MAX as u64);
    if count > limit {
        return Err(Error::OutOfNumbers { what: "files in one folder", value: count, limit });
    }
    Ok(entries)
}

/// Segments and tail files of all logs, each in order.
async fn list_log(folder: &Path) -> Result<(Vec<SegmentName>, Vec<TailName>), Error> {
    let entries = list(folder).await?;
    let mut segments: Vec<_> = entries.iter().filter_map(|entry| SegmentName::parse(&entry.name)).collect();
    let mut tails: Vec<_> = entries.iter().filter_map(|entry| TailName::parse(&entry.name)).collect();
    segments.sort();
    tails.sort();
    Ok((segments, tails))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeFile {
    incarnation: u32,
    shards: u16,
}

impl NodeFile {
    fn encode(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.incarnation.to_be_bytes());
        bytes.extend_from_slice(&self.shards.to_be_bytes());
        let crc = crc32(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<NodeFile> {
        let (content, crc) = bytes.split_last_chunk::<4>()?;
        if crc32(content) != u32::from_be_bytes(*crc) {
            return None;
        }
        let mut input = ByteReader::new(content.strip_prefix(MAGIC)?);
        let node = NodeFile { incarnation: input.u32().ok()?, shards: input.u16().ok()? };
        (input.is_empty() && node.shards > 0).then_some(node)
    }
}

async fn read_node_file(path: &Path) -> Result<Option<NodeFile>, Error> {
    if !file::exists(path).await.map_err(|error| Error::io(path, "look for", error))? {
        return Ok(None);
    }
    let bytes = file::read(path).await.map_err(|error| Error::io(path, "read", error))?;
    match NodeFile::decode(&bytes) {
        Some(node) => Ok(Some(node)),
        None => Err(Error::corrupt(
            "node file",
            path,
            0,
            "22 bytes with their checksum",
            format!("{} bytes", bytes.len()),
        )),
    }
}

/// Adds what an import was about to the manifest of the first shard, all of it: whatever some shards recorded of it, it is
/// divided anew among those of this start. Nothing when the table was truncated or dropped since.
fn manifests_know(manifests: &mut [ManifestState], import: &Intent) {
    let voids = |table: &TableId| {
        let truncated = manifests.iter().filter_map(|manifest| manifest.truncated.get(table));
        truncated.max().is_some_and(|at| *at >= import.at)
    };
    let sstables = import.edit.add.len();
    if import.edit.add.iter().any(|(table, _)| voids(table)) {
        runtime::info!(
            "start: an import of {sstables} sstables is left out: its table was truncated after it failed"
        );
    } else if let Some(manifest) = manifests.first_mut() {
        runtime::info!("start: an import of {sstables} sstables is brought to its end");
        manifest.apply(&import.edit);
    }
}

/// Removes manifests and segments that belong to no start that counts.
async fn remove_stale(
    settings: &Settings,
    entries: &[DirEntry],
    segments: &[SegmentName],
    old_incarnation: u32,
) -> Result<(), Error> {
    let stale_file = |entry: &&DirEntry| {
        let manifest = ManifestHeader::parse_name(&entry.name);
        !entry.is_dir
            && (manifest.is_some_and(|(incarnation, _)| incarnation != old_incarnation)
                || incarnation_of_intent(&entry.name)
                    .is_some_and(|incarnation| incarnation != old_incarnation)
                || entry.name.starts_with("manifest-") && entry.name.ends_with(".tmp")
                || entry.name.starts_with("import-") && entry.name.ends_with(".tmp")
                || entry.name == format!("{NODE_FILE}.tmp"))
    };
    for entry in entries.iter().filter(stale_file) {
        remove(&settings.data_dir.join(&entry.name)).await?;
    }
    for segment in segments.iter().filter(|segment| segment.incarnation != old_incarnation) {
        remove(&settings.commitlog_dir.join(segment.file_name())).await?;
    }
    Ok(())
}

async fn remove(path: &Path) -> Result<(), Error> {
    file::remove(path).await.map_err(|error| Error::io(path, "remove", error))
}

/// Removes sstables that no manifest knows, and unfinished ones; returns the largest generation of each table.
async fn collect_garbage(
    settings: &Settings,
    entries: &[DirEntry],
    manifests: &[ManifestState],
    may_remove: bool,
) -> Result<HashMap<TableId, u64>, Error> {
    let mut last: HashMap<TableId, u64> = HashMap::default();
    let known = |table: TableId, generation: u64| {
        manifests.iter().any(|manifest| manifest.sstables.contains_key(&(table, generation)))
    };
    for (table, generation) in manifests.iter().flat_map(|manifest| manifest.sstables.keys()) {
        let largest = last.entry(*table).or_default();
        *largest = (*largest).max(*generation);
    }
    for keyspace in entries.iter().filter(|entry| entry.is_dir) {
        let keyspace_dir = settings.data_dir.join(&keyspace.name);
        for folder in list(&keyspace_dir).await?.iter().filter(|entry| entry.is_dir) {
            let Some(table) = table_of_dir(&folder.name) else { continue };
            let dir = keyspace_dir.join(&folder.name);
            snapshot::sweep(&dir).await?;
            for file in list(&dir).await? {
                let finished = file.name.strip_suffix(".tmp").unwrap_or(&file.name);
                // A file named by a UUID is none of ours: somebody has put it there to be imported.
                let Some((descriptor, _)) = Descriptor::of_file_name(finished) else { continue };
                let Some(generation) = descriptor.id.number() else { continue };
                let largest = last.entry(table).or_default();
                *largest = (*largest).max(generation);
                let garbage = finished.len() < file.name.len() || !known(table, generation);
                if garbage && may_remove {
                    remove(&dir.join(&file.name)).await?;
                }
            }
        }
    }
    Ok(last)
}

fn plan(
    settings: &Settings,
    shards: u16,
    incarnation: u32,
    manifests: &[ManifestState],
    (segments, tails): (&[SegmentName], &[TailName]),
    last_generations: HashMap<TableId, u64>,
    imports: Vec<PathBuf>,
) -> StartPlan {
    let mut plans: Vec<ShardPlan> = (0..shards).map(|_| ShardPlan::default()).collect();
    plan_sstables(manifests, shards, &mut plans);
    let mut old_files = imports;
    for manifest in manifests {
        let header = &manifest.header;
        old_files.push(settings.data_dir.join(header.file_name()));
        let mut numbers = Vec::new();
        for segment in segments {
            if segment.incarnation == header.incarnation && segment.shard == header.shard {
                old_files.push(settings.commitlog_dir.join(segment.file_name()));
                numbers.push(segment.segment);
            }
        }
        let tail = TailName { incarnation: header.incarnation, shard: header.shard };
        let has_tail = tails.contains(&tail);
        if has_tail {
            old_files.push(settings.commitlog_dir.join(tail.file_name()));
        }
        // A released segment can be back after a crash while one above it is gone: those below the floor do not count.
        numbers.retain(|number| *number >= manifest.log_floor);
        let log = OldLog {
            incarnation: header.incarnation,
            shard: header.shard,
            segments: numbers,
            floor: manifest.log_floor,
            has_tail,
        };
        let planned = PlannedLog { log, flushed: Arc::new(manifest.flushed.clone()) };
        let (first, last) = shard_interval(header.shard, header.shards);
        for shard in shards_of_interval(first, last, shards) {
            let plan = &mut plans[shard as usize];
            for (table, at) in &manifest.truncated {
                // The shards of an earlier start took their times one after the other.
                let known = plan.truncated.entry(*table).or_insert(*at);
                *known = (*known).max(*at);
            }
            if has_tail || !planned.log.segments.is_empty() {
                plan.logs.push(planned.clone());
            }
        }
    }
    let last_time = manifests.iter().flat_map(|manifest| manifest.truncated.values().copied()).max();
    let last_time = AtomicI64::new(last_time.unwrap_or(i64::MIN));
    let log_method = SyncMethod::After;
    StartPlan { incarnation, shards: plans, last_generations, old_files, log_method, last_time }
}

/// Gives every sstable to the shards that own tokens of it, with the ranges that count for each.
fn plan_sstables(manifests: &[ManifestState], shards: u16, plans: &mut [ShardPlan]) {
    let mut all: BTreeMap<(TableId, u64), (Meta, Vec<TokenRange>)> = BTreeMap::new();
    for manifest in manifests {
        for (name, entry) in &manifest.sstables {
            let (_, ranges) = all.entry(*name).or_insert_with(|| (entry.meta.clone(), Vec::new()));
            if entry.ranges.is_empty() {
                ranges.push(TokenRange::new(entry.meta.first_token, entry.meta.last_token));
            } else {
                ranges.extend_from_slice(&entry.ranges);
            }
        }
    }
    for ((table, _), (meta, ranges)) in all {
        let divided = divide(table, &meta, &union(ranges), shards);
        for (shard, planned) in divided.shares {
            plans[usize::from(shard)].sstables.push(planned);
        }
        for (shard, holders) in divided.spent {
            plans[usize::from(shard)].spent.push((table, holders));
        }
    }
}

/// One sstable among the shards.
#[derive(Default)]
pub(crate) struct Division {
    /// What of it counts, for each shard that has any such tokens.
    pub(crate) shares: Vec<(u16, PlannedSstable)>,
    /// The other shards that own tokens of it, with the count of those that hold it.
    pub(crate) spent: Vec<(u16, Arc<AtomicU32>)>,
}

/// Gives one sstable, of which these ranges (ascending, disjoint, not adjacent) count, to the shards that own tokens of them.
pub(crate) fn divide(table: TableId, meta: &Meta, ranges: &[TokenRange], shards: u16) -> Division {
    let whole = TokenRange::new(meta.first_token, meta.last_token);
    let mut shares = Vec::new();
    let mut spent = Vec::new();
    for shard in shards_of_interval(meta.first_token, meta.last_token, shards) {
        let (first, last) = shard_interval(shard, shards);
        let own = TokenRange::new(first, last);
        let share: Vec<_> = ranges.iter().filter_map(|range| range.intersect(own)).collect();
        if share.is_empty() {
            spent.push(shard);
        } else {
            shares.push((shard, share));
        }
    }
    let covers = |ranges: &[TokenRange]| {
        ranges.iter().any(|range| range.first <= whole.first && whole.last <= range.last)
    };
    let is_own = shares.len() == 1 && covers(ranges);
    let holders = (!is_own).then(|| Arc::new(AtomicU32::new(shares.len() as u32)));
    let planned = |(shard, share): (u16, Vec<TokenRange>)| {
        let ranges = if covers(&share) { Vec::new() } else { share };
        let entry = SstableEntry { meta: meta.clone(), ranges };
        (shard, PlannedSstable { table, entry, holders: holders.clone() })
    };
    Division {
        spent: spent.into_iter().zip(holders.iter().cycle().cloned()).collect(),
        shares: shares.into_iter().map(planned).collect(),
    }
}

/// The same tokens in ascending, disjoint, not adjacent ranges.
fn union(mut ranges: Vec<TokenRange>) -> Vec<TokenRange> {
    ranges.sort_by_key(|range| (range.first, range.last));
    let mut out: Vec<TokenRange> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(before) if range.first.0 <= before.last.0.saturating_add(1) => {
                before.last = before.last.max(range.last)
            }
            _ => out.push(range),
        }
    }
    out
}

/// Where the shards of a node meet at the end of their start. Lives on shard 0, and holds the folders' locks.
struct StartBarrier {
    settings: Settings,
    plan: Arc<StartPlan>,
    arrived: Cell<usize>,
    outcome: RefCell<Option<Result<(), Error>>>,
    decided: Event,
    _locks: Vec<FolderLock>,
}

impl StartBarrier {
    async fn arrive(&self, shard: u16, result: Result<(), Error>) -> Result<(), Error> {
        if let Err(error) = result {
            // The first failure decides; the failing shard itself keeps its own error.
            let told = match &error {
                // Every shard was asked to stop; which of them noticed first tells nobody anything.
                Error::Stopping => Error::Stopping,
                _ => Error::OtherShard { shard, reason: Arc::from(error.to_string()) },
            };
            self.outcome.borrow_mut().get_or_insert(Err(told));
            self.decided.notify_all();
            return Err(error);
        }
        self.arrived.set(self.arrived.get() + 1);
        if self.arrived.get() == self.plan.shards.len() {
            let switched = self.switch().await;
            *self.outcome.borrow_mut() = Some(switched);
            self.decided.notify_all();
        }
        loop {
            if let Some(outcome) = &*self.outcome.borrow() {
                return outcome.clone();
            }
            self.decided.wait().await;
        }
    }

    /// Makes the new manifests the ones that count.
    async fn switch(&self) -> Result<(), Error> {
        let node = NodeFile { incarnation: self.plan.incarnation, shards: self.plan.shards.len() as u16 };
        let path = self.settings.data_dir.join(NODE_FILE);
        file::replace_atomic(&path, &node.encode())
            .await
            .map_err(|error| Error::io(&path, "replace", error))?;
        let plan = self.plan.clone();
        let log = self.settings.commitlog_dir.clone();
        drop(runtime::spawn(Group::FLUSH, async move {
            for path in &plan.old_files {
                let is_segment = path.starts_with(&log);
                let removed =
                    if is_segment { runtime::release::remove(path).await } else { file::remove(path).await };
                if let Err(error) = removed {
                    // The next start removes it.
                    runtime::warn!("cannot remove \"{}\": {error}", path.display());
                }
            }
        }));
        Ok(())
    }
}

/// Tells shard 0 how this shard's start went and waits for all others.
/// Errors: this shard's own, or the first of another shard; then no store may be used.
pub(crate) async fn meet_at_barrier(shard: u16, result: Result<(), Error>) -> Result<(), Error> {
    runtime::submit_to(ShardId(0), Group::MAIN, move || async move {
        match runtime::try_local::<StartBarrier>() {
            Some(barrier) => barrier.arrive(shard, result).await,
            None => Err(Error::Stopping),
        }
    })
    .await
}

/// All tokens of a shard.
pub(crate) fn interval_of(shard: u16, shards: u16) -> TokenRange {
    let (first, last): (Token, Token) = shard_interval(shard, shards);
    TokenRange::new(first, last)
}

#[cfg(test)]
mod tests;
