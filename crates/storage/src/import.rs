//! Sstables from elsewhere into a table of a running node: checked first, then there on all shards or on none.
//!
//! ```text
//! shard 0      files of the folder ─► linked under new generations ─► opened, checked ─► intent file, synced
//! every shard  turn of the table ─► readers ─► manifest edit ─┐                        ┌─► visible (or the edit undone)
//! shard 0                                                     └─ all are there: intent ┘ removed
//! ```
//! The intent file is what makes it whole: from the moment it is durable a crash ends with everything imported, because the
//! next [`prepare`](crate::prepare) takes its sstables for known; before that the links are garbage, which the next start
//! removes. The turn of the table is held on every shard from the edit until it is visible, so that nothing compacts,
//! truncates or drops what counts on some shards only. The source is touched last, and only when it is to be moved.

use crate::Error;
use crate::limits::{IMPORT_COPY_BYTES, IMPORT_SAMPLE_BYTES, IMPORT_SAMPLE_PIECES, IMPORT_SSTABLES_MAX};
use crate::manifest::{Edit, SstableEntry};
use crate::shards::{on_every_shard, opened};
use crate::start::{PlannedSstable, divide};
use crate::store::Store;
use crate::table::{Sstable, TableStore};
use base::{Crc32, HashMap, Token};
use journal::Journal;
use mutation::{Slice, TokenRange};
use runtime::file::{self, AlignedBuf, File, OpenOptions};
use runtime::sync::{Event, Lock};
use runtime::{Group, ShardId};
use schema::{ColumnKind, DroppedColumn, Table, TableId};
use sstable::{Component, Descriptor, Header, Raw, RawEntry, Reader};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use types::CqlType;
use types::class::is_ordered_otherwise;

const TOC: &str = "TOC.txt";
const PREFIX: &str = "import-";

/// How thoroughly sstables are looked at before they are taken. Every one is opened, fits the schema, has all its files, and some of
/// its rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// No more than that.
    Open,
    /// The data file has the checksum that was written beside it, and the index says that partitions are in ring order; where there is no
    /// checksum, as [`Verify::Full`].
    Digest,
    /// Every partition is read, its chunks' checksums checked, and the partitions are in ring order.
    Full,
}

/// What an import does besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Whether the source keeps its files; otherwise they are gone from there when the import is done.
    pub copy: bool,
    /// How thoroughly they are checked.
    pub verify: Verify,
    /// Whether they stay on the level they are on; otherwise they begin on level 0.
    pub keep_level: bool,
    /// Whether they stay repaired; otherwise they count as not repaired.
    pub keep_repaired: bool,
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Sstables.
    pub sstables: usize,
    /// Bytes of their files that readers open.
    pub bytes: u64,
    /// Partitions, counted once per sstable.
    pub partitions: u64,
    /// Files beside the sstables that are no part of them here, such as those of Cassandra's indexes: they were not taken.
    pub left_out: usize,
}

/// Imports of a node. Installed on shard 0 before any shard opens its store.
pub(crate) struct Imports {
    /// Number of the last one. Held by the one that runs: two that held turns of one table would wait for each other.
    turn: Lock<u64>,
    meetings: RefCell<HashMap<u64, Rc<Meeting>>>,
}

impl Default for Imports {
    fn default() -> Imports {
        Imports { turn: Lock::new(0), meetings: RefCell::default() }
    }
}

impl Imports {
    /// Says that a shard's manifest knows its share, or that it cannot; resolves with what is to be done about it.
    async fn meet(&self, number: u64, arrived: Result<(), Error>) -> Verdict {
        let Some(meeting) = self.meetings.borrow().get(&number).cloned() else {
            return Verdict::Undo;
        };
        if let Err(error) = arrived {
            meeting.failed.borrow_mut().get_or_insert(error);
        }
        meeting.arrived.set(meeting.arrived.get() + 1);
        meeting.all_here.notify_all();
        loop {
            if let Some(verdict) = meeting.verdict.get() {
                return verdict;
            }
            meeting.decided.wait().await;
        }
    }
}

/// What becomes of the shares that the manifests of an import know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// They become visible.
    Publish,
    /// The manifests forget them.
    Undo,
    /// They stay as they are, for the next start.
    Leave,
}

/// Where the shards of one import meet once their manifests know it.
struct Meeting {
    expected: usize,
    arrived: Cell<usize>,
    failed: RefCell<Option<Error>>,
    all_here: Event,
    verdict: Cell<Option<Verdict>>,
    decided: Event,
}

/// Why an import failed.
struct Failure {
    error: Error,
    /// Whether the next start may find an intent or a manifest that names its files: then they must be there. Files too many are
    /// garbage, files too few are a loss.
    needs_files: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, needs_files: false }
    }
}

/// The files of one sstable in the source folder.
struct Found {
    /// `<version>-<id>-<format>-`, as it was.
    prefix: String,
    /// `<version>`, `<format>`.
    version: String,
    format: String,
    /// What we know to be part of an sstable.
    components: Vec<String>,
    /// How many files with its name are not.
    left_out: usize,
    /// The list of components without what is left out, where it names any of that.
    toc: Option<Vec<u8>>,
}

/// An sstable under its new name.
struct Linked {
    generation: u64,
    source: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

fn refused(text: impl Into<String>) -> Error {
    Error::Import(text.into())
}

fn no_folder(dir: &Path) -> Error {
    refused(format!("there is no folder \"{}\"", dir.display()))
}

/// Name of the file that makes import `number` of a start whole.
fn intent_name(incarnation: u32, number: u64) -> String {
    format!("{PREFIX}{incarnation}-{number}")
}

/// The incarnation in the name of an intent file; `None` for other files.
pub(crate) fn incarnation_of_intent(name: &str) -> Option<u32> {
    let (incarnation, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse::<u64>().ok()?;
    incarnation.parse().ok()
}

/// What an intent file says.
pub(crate) struct Intent {
    /// The sstables that count for every shard that owns tokens of them.
    pub(crate) edit: Edit,
    /// When it was made, microseconds since the Unix epoch; a later truncation or drop of the table voids it.
    pub(crate) at: i64,
}

impl Intent {
    async fn write(&self, path: &Path) -> Result<(), Error> {
        Journal::create(path, &[self.edit.encode(), self.at.to_be_bytes().to_vec()]).await?;
        Ok(())
    }

    /// Reads an intent file.
    pub(crate) async fn read(path: &Path) -> Result<Intent, Error> {
        let records = Journal::read(path).await?.unwrap_or_default();
        let wrong = |got: String| Error::corrupt("import", path, 8, "an edit of a manifest and a time", got);
        let [edit, at] = &records[..] else { return Err(wrong(format!("{} records", records.len()))) };
        let Ok(at) = <[u8; 8]>::try_from(&at[..]) else { return Err(wrong(format!("{} bytes", at.len()))) };
        Ok(Intent { edit: Edit::decode((path, 16), edit).map_err(wrong)?, at: i64::from_be_bytes(at) })
    }
}

impl Store {
    /// Takes the sstables of a folder into a table of the whole node, or none of them.
    /// Shape:  every `<version>-<id>-<format>-<component>` in `dir` itself. The table's own folder is refused, by whatever path, and
    /// that of another table of this node unless `options` lets it keep its files.
    /// Errors: `Import` says what is wrong with which file; nothing was changed. Others: nothing is visible, and what it says
    /// may be imported by the next start. Cost: one read of everything, unless `options` asks for less.
    pub async fn import(
        &self,
        table: TableId,
        dir: &Path,
        options: ImportOptions,
    ) -> Result<ImportReport, Error> {
        let dir = dir.to_path_buf();
        runtime::submit_to(ShardId(0), Group::MAIN, move || async move {
            opened()?.import_here(table, &dir, &options).await
        })
        .await
    }

    async fn import_here(
        &self,
        id: TableId,
        dir: &Path,
        options: &ImportOptions,
    ) -> Result<ImportReport, Error> {
        let imports = runtime::local::<Imports>();
        let mut turn = imports.turn.lock().await;
        *turn += 1;
        let number = *turn;
        self.opened(id).await?;
        let table = self.table(id)?;
        self.check_source(&table, dir, options).await?;
        let found = find(dir).await?;
        if found.is_empty() {
            return Ok(ImportReport::default());
        }
        table.make_dir(&self.settings.data_dir).await?;
        let mut linked = Vec::new();
        let imported = self.import_found(number, &table, dir, found, options, &mut linked).await;
        match &imported {
            Ok(_) if !options.copy => remove_sources(&linked).await,
            Ok(_) => {}
            Err(failure) if failure.needs_files => left_to_next_start(id).await,
            Err(_) => remove_files(&linked).await,
        }
        imported.map_err(|failure| failure.error)
    }

    /// Refuses folders whose files tables of this node have open. A table's own would become twice as much; from another's they
    /// may be linked, for nothing changes an sstable, but not taken.
    async fn check_source(
        &self,
        into: &TableStore,
        dir: &Path,
        options: &ImportOptions,
    ) -> Result<(), Error> {
        let source = match file::identity(dir).await {
            Ok(source) => source,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(no_folder(dir)),
            Err(error) => return Err(Error::io(dir, "look for", error)),
        };
        for table in self.all_tables() {
            if options.copy && table.id != into.id {
                continue;
            }
            // Not by path: the data folder may be relative, and either may lead through symbolic links.
            match file::identity(&table.dir).await {
                Ok(live) if live == source => {}
                Ok(_) => continue,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io(&table.dir, "look for", error)),
            }
            let dir = dir.display();
            return Err(refused(match table.id == into.id {
                true => {
                    format!(
                        "\"{dir}\" is the folder of the table itself: put them into a folder of their own"
                    )
                }
                false => format!(
                    "\"{dir}\" is the folder of table {}, which needs its files: import them without moving them",
                    table.definition().qualified_name()
                ),
            }));
        }
        Ok(())
    }

    async fn import_found(
        &self,
        number: u64,
        table: &Rc<TableStore>,
        dir: &Path,
        found: Vec<Found>,
        options: &ImportOptions,
        linked: &mut Vec<Linked>,
    ) -> Result<ImportReport, Failure> {
        let mut left_out = 0;
        for found in found {
            self.check_running()?;
            let generation = table.take_generation()?;
            left_out += found.left_out;
            linked.push(Linked { generation, source: Vec::new(), files: Vec::new() });
            let linked = linked.last_mut().expect("just pushed");
            link(dir, &table.dir, &found, linked).await?;
        }
        file::sync_dir(&table.dir).await.map_err(|error| Error::io(&table.dir, "sync folder", error))?;
        let mut report = ImportReport { left_out, ..ImportReport::default() };
        let mut entries = Vec::new();
        for linked in linked.iter() {
            self.check_running()?;
            let mut entry = check(table, linked, options.verify).await?;
            entry.meta.level = if options.keep_level { entry.meta.level } else { 0 };
            entry.meta.repaired_at = if options.keep_repaired { entry.meta.repaired_at } else { 0 };
            report.sstables += 1;
            report.bytes += entry.meta.disk_bytes;
            report.partitions += entry.meta.partitions;
            entries.push(entry);
        }
        self.import_checked(number, table.id, entries).await?;
        runtime::info!(
            "imported {} sstables of {} bytes into table {} from \"{}\"",
            report.sstables,
            report.bytes,
            table.id,
            dir.display()
        );
        if report.left_out > 0 {
            runtime::info!(
                "{} files in \"{}\" are no part of the sstables that were imported, as those of indexes: they were left out",
                report.left_out,
                dir.display()
            );
        }
        Ok(report)
    }

    fn check_running(&self) -> Result<(), Error> {
        if self.stopping.get() { Err(Error::Stopping) } else { Ok(()) }
    }

    fn intent_path(&self, number: u64) -> PathBuf {
        self.settings.data_dir.join(intent_name(self.incarnation(), number))
    }

    /// Makes checked sstables count on every shard that owns tokens of them.
    async fn import_checked(
        &self,
        number: u64,
        table: TableId,
        entries: Vec<SstableEntry>,
    ) -> Result<(), Failure> {
        let path = self.intent_path(number);
        let edit =
            Edit { add: entries.iter().map(|entry| (table, entry.clone())).collect(), ..Edit::default() };
        let intent = Intent { edit, at: self.next_time(i64::MIN) };
        if let Err(error) = intent.write(&path).await {
            let needs_files = remove_intent(&path).await.is_err();
            return Err(Failure { error, needs_files });
        }
        let mut shares: BTreeMap<u16, Vec<PlannedSstable>> = BTreeMap::new();
        for entry in entries {
            let whole = vec![TokenRange::new(entry.meta.first_token, entry.meta.last_token)];
            for (shard, planned) in divide(table, &entry.meta, &whole, runtime::shard_count()).shares {
                shares.entry(shard).or_default().push(planned);
            }
        }
        let meeting = Rc::new(Meeting {
            expected: shares.len(),
            arrived: Cell::new(0),
            failed: RefCell::new(None),
            all_here: Event::new(),
            verdict: Cell::new(None),
            decided: Event::new(),
        });
        let imports = runtime::local::<Imports>();
        imports.meetings.borrow_mut().insert(number, meeting.clone());
        let parts: Vec<_> = shares
            .into_iter()
            .map(|(shard, share)| {
                let part = move || async move { take_share(number, table, share).await };
                runtime::spawn(Group::MAIN, runtime::submit_to(ShardId(shard), Group::MAIN, part))
            })
            .collect();
        while meeting.arrived.get() < meeting.expected {
            meeting.all_here.wait().await;
        }
        let (verdict, failed) = match meeting.failed.take() {
            Some(error) => (Verdict::Undo, Some(error)),
            // Before anything is visible: once it may be compacted, the intent must not bring it back.
            None => match remove_intent(&path).await {
                Ok(()) => (Verdict::Publish, None),
                // It may be back after a power cut. With it or without, the manifests as they are now have all of it.
                Err(error) => (Verdict::Leave, Some(error)),
            },
        };
        meeting.verdict.set(Some(verdict));
        meeting.decided.notify_all();
        let mut undone = Ok(());
        for part in parts {
            undone = undone.and(part.await);
        }
        imports.meetings.borrow_mut().remove(&number);
        let Some(error) = failed else { return Ok(()) };
        // Where a manifest still knows its share, the intent says to the others that they have theirs.
        let gone = verdict == Verdict::Undo && undone.is_ok() && remove_intent(&path).await.is_ok();
        Err(Failure { error, needs_files: !gone })
    }

    /// Records a share in this shard's manifest; returns what becomes visible.
    async fn record_share(
        &self,
        table: &TableStore,
        share: &[PlannedSstable],
    ) -> Result<Vec<Rc<Sstable>>, Error> {
        self.check_running()?;
        if table.dropped.get() {
            return Err(Error::UnknownTable(table.id));
        }
        let mut sstables = Vec::new();
        for planned in share {
            let descriptor = planned.entry.meta.descriptor();
            let reader = Reader::open(&table.dir, descriptor, table.definition()).await?;
            sstables.push(Sstable::new(planned.entry.clone(), reader, planned.holders.clone()));
        }
        let add = share.iter().map(|planned| (table.id, planned.entry.clone())).collect();
        // The folder may have been made by another shard.
        table.make_dir(&self.settings.data_dir).await?;
        self.manifest.lock().await.commit(&Edit { add, ..Edit::default() }).await?;
        Ok(sstables)
    }
}

/// One shard's part of an import. Errors: only when what it recorded could not be undone.
async fn take_share(number: u64, id: TableId, share: Vec<PlannedSstable>) -> Result<(), Error> {
    let store = opened();
    let table = store.as_ref().map_err(Error::clone).and_then(|store| store.table(id));
    let (store, table) = match (store, table) {
        (Ok(store), Ok(table)) => (store, table),
        (Err(error), _) | (_, Err(error)) => {
            arrive(number, Err(error)).await;
            return Ok(());
        }
    };
    let _turn = table.turn.lock().await;
    let recorded = store.record_share(&table, &share).await;
    let (sstables, told) = match recorded {
        Ok(sstables) => (sstables, Ok(())),
        Err(error) => (Vec::new(), Err(error)),
    };
    match arrive(number, told).await {
        Verdict::Publish => {
            table.publish(sstables, &[], None);
            table.forget_cached();
            store.compaction_wanted.notify();
            return Ok(());
        }
        Verdict::Leave => return Ok(()),
        Verdict::Undo => {}
    }
    // Also where recording it failed: then it is not known whether the edit is there.
    let remove = share.iter().map(|planned| (id, planned.entry.meta.generation)).collect();
    let undone = store.manifest.lock().await.commit(&Edit { remove, ..Edit::default() }).await;
    undone.map_err(|unwritten| {
        runtime::error!("an import that failed could not be undone: {}", unwritten.error);
        unwritten.error
    })
}

async fn arrive(number: u64, told: Result<(), Error>) -> Verdict {
    runtime::submit_to(ShardId(0), Group::MAIN, move || async move {
        match opened() {
            Ok(_) => runtime::local::<Imports>().meet(number, told).await,
            Err(_) => Verdict::Undo,
        }
    })
    .await
}

/// The next start may go on with the files of an import that failed: what they may hold counts from now on.
async fn left_to_next_start(id: TableId) {
    let marked = on_every_shard(move |store| async move {
        if let Ok(table) = store.table(id) {
            table.is_incomplete.set(true);
        }
        Ok(())
    });
    // A shard that has no store any more compacts nothing.
    let _: Result<(), Error> = marked.await;
}

/// Removes an intent, or makes sure that it is gone. Errors: it may be there after a power cut.
async fn remove_intent(path: &Path) -> Result<(), Error> {
    let io = |action| move |error| Error::io(path, action, error);
    match file::remove(path).await {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("remove")(error)),
        _ => {}
    }
    match path.parent() {
        Some(folder) => file::sync_dir(folder).await.map_err(io("sync folder of")),
        None => Ok(()),
    }
}

/// Cuts `<version>-<id>-<format>-<component>` apart.
fn parse_name(name: &str) -> Option<(&str, &str, &str, &str)> {
    let mut parts = name.splitn(4, '-');
    let (version, id, format, component) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_version = version.len() == 2 && version.bytes().all(|b| b.is_ascii_lowercase());
    let is_id = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let known = matches!(format, "big" | "bti");
    (is_version && is_id && known && component.contains('.')).then_some((version, id, format, component))
}

/// The sstables of a folder, by name. Errors: one of them is not whole.
async fn find(dir: &Path) -> Result<Vec<Found>, Error> {
    let entries = match file::read_dir(dir).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(no_folder(dir));
        }
        Err(error) => return Err(Error::io(dir, "list folder", error)),
    };
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.is_dir) {
        let Some((version, id, format, component)) = parse_name(&entry.name) else { continue };
        if component.ends_with(".tmp") {
            continue;
        }
        let prefix = format!("{version}-{id}-{format}-");
        let one = found.entry(prefix.clone()).or_insert_with(|| Found {
            prefix,
            version: version.to_string(),
            format: format.to_string(),
            components: Vec::new(),
            left_out: 0,
            toc: None,
        });
        if is_known(component) {
            one.components.push(component.to_string());
        } else {
            one.left_out += 1;
        }
    }
    // Files of an index whose sstable is not there any more are nothing to import.
    found.retain(|_, one| !one.components.is_empty());
    if found.len() > IMPORT_SSTABLES_MAX {
        return Err(refused(format!(
            "{} sstables are more than {IMPORT_SSTABLES_MAX} at a time",
            found.len()
        )));
    }
    for one in found.values_mut() {
        one.toc = check_complete(dir, one).await?;
    }
    Ok(found.into_values().collect())
}

/// Whether a file is part of an sstable here: others nobody would ever remove.
fn is_known(component: &str) -> bool {
    Component::ALL.iter().any(|known| known.suffix() == component)
}

/// Whether all files are there that the list of components names; returns the list that stays when it names some that are left out.
async fn check_complete(dir: &Path, found: &Found) -> Result<Option<Vec<u8>>, Error> {
    let path = dir.join(format!("{}{TOC}", found.prefix));
    if !found.components.iter().any(|component| component == TOC) {
        return Err(refused(format!("\"{}\" is missing: the sstable is not complete", path.display())));
    }
    let bytes = file::read(&path).await.map_err(|error| Error::io(&path, "read", error))?;
    let listed = String::from_utf8_lossy(&bytes);
    let listed: Vec<&str> = listed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let kept: Vec<&str> = listed.iter().copied().filter(|component| is_known(component)).collect();
    for component in &kept {
        if !found.components.iter().any(|known| known == component) {
            let path = dir.join(format!("{}{component}", found.prefix));
            return Err(refused(format!("\"{}\" is listed and missing", path.display())));
        }
    }
    Ok((kept.len() < listed.len()).then(|| (kept.join("\n") + "\n").into_bytes()))
}

/// Gives the files of an sstable second names in the table's folder; copies them from another file system.
async fn link(dir: &Path, table_dir: &Path, found: &Found, linked: &mut Linked) -> Result<(), Error> {
    for component in &found.components {
        let from = dir.join(format!("{}{component}", found.prefix));
        let name = format!("{}-{}-{}-{component}", found.version, linked.generation, found.format);
        let to = table_dir.join(name);
        linked.files.push(to.clone());
        match &found.toc {
            Some(toc) if component == TOC => {
                file::write_new_synced(&to, toc).await.map_err(|error| Error::io(&to, "write", error))?;
            }
            _ => match file::link(&from, &to).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::CrossesDevices => copy(&from, &to).await?,
                Err(error) => return Err(Error::io(&from, "link", error)),
            },
        }
        linked.source.push(from);
        runtime::yield_if_needed().await;
    }
    Ok(())
}

async fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let source = File::open(from, OpenOptions::READ).await.map_err(|error| Error::io(from, "open", error))?;
    let target =
        File::open(to, OpenOptions::CREATE_NEW).await.map_err(|error| Error::io(to, "create", error))?;
    let mut offset = 0;
    loop {
        let read = source.read_at(offset, AlignedBuf::zeroed(IMPORT_COPY_BYTES)).await;
        let (buffer, count) = read.map_err(|error| Error::io(from, "read", error))?;
        if count == 0 {
            break;
        }
        let bytes = AlignedBuf::from(&buffer[..count]);
        target.write_at(offset, bytes).await.map_err(|error| Error::io(to, "write", error))?;
        offset += count as u64;
    }
    target.sync_data().await.map_err(|error| Error::io(to, "sync", error))
}

/// Opens an sstable under its new name and looks at it as thoroughly as asked.
async fn check(table: &TableStore, linked: &Linked, verify: Verify) -> Result<SstableEntry, Error> {
    let name = linked.source.iter().find(|path| path.to_string_lossy().ends_with("Data.db"));
    let name = name.or(linked.source.first()).map(|path| path.display().to_string()).unwrap_or_default();
    let told = |error: sstable::Error| match error {
        error @ sstable::Error::Io { .. } => Error::from(error),
        error => refused(format!("\"{name}\" is not imported: {error}")),
    };
    let mut names = linked.files.iter().filter_map(|path| path.file_name()?.to_str());
    let Some((descriptor, _)) = names.find_map(Descriptor::of_file_name) else {
        return Err(refused(format!("\"{name}\" is not imported: its version cannot be read")));
    };
    let reader = Reader::open(&table.dir, descriptor, table.definition()).await.map_err(told)?;
    let header = reader.statistics().await.map_err(told)?.header;
    check_types(&header, reader.table(), reader.meta().max_timestamp)
        .map_err(|what| refused(format!("\"{name}\" is not imported: {what}")))?;
    if verify != Verify::Full {
        sample(&reader).await.map_err(told)?;
    }
    let digest = match verify {
        Verify::Open => Some(true),
        Verify::Digest => {
            digest_agrees(&reader.path(Component::Data), &reader.path(Component::Digest)).await?
        }
        Verify::Full => None,
    };
    match digest {
        Some(true) if verify == Verify::Open => {}
        Some(true) => check_order(&table.dir, descriptor)
            .await
            .map_err(told)?
            .map_err(|what| refused(format!("\"{name}\" is not imported: {what}")))?,
        Some(false) => {
            return Err(refused(format!(
                "\"{name}\" is not imported: its checksum is not the one beside it"
            )));
        }
        None => scan(&reader)
            .await
            .map_err(told)?
            .map_err(|what| refused(format!("\"{name}\" is not imported: {what}")))?,
    }
    Ok(SstableEntry { meta: reader.meta().clone(), ranges: Vec::new() })
}

/// Whether values of an sstable can be read as those of a table. That its columns are the table's, and as many of the
/// clustering, the reader has seen to. `max_timestamp`: nothing in it is newer. Errors: in words.
fn check_types(header: &Header, table: &Table, max_timestamp: i64) -> Result<(), String> {
    let parse = |class: &str| {
        CqlType::parse_class_reversed(class).map(|parsed| parsed.0).map_err(|error| error.to_string())
    };
    let differs = |name: &str, class: &str, ty: &CqlType| {
        format!("column \"{name}\" of type \"{class}\" where table \"{}\" has {ty}", table.qualified_name())
    };
    let classes = header.key_classes();
    if classes.len() != table.partition_key.len() {
        let (theirs, ours) = (classes.len(), table.partition_key.len());
        return Err(format!("a partition key of {theirs} columns where the table's has {ours}"));
    }
    let clustering = header.clustering_types.iter().map(String::as_str);
    let keys = table.partition_key.iter().chain(&table.clustering);
    for (class, column) in classes.into_iter().chain(clustering).zip(keys) {
        let ty = parse(class)?;
        // Keys are ordered: that their bytes could be read otherwise is not enough.
        let is_same = column.ty.reads_bytes_of(&ty) && ty.reads_bytes_of(&column.ty);
        if !is_same || (column.kind == ColumnKind::Clustering && is_ordered_otherwise(class)) {
            return Err(differs(&column.name, class, &column.ty));
        }
    }
    for (columns, kind) in [(&header.statics, ColumnKind::Static), (&header.regulars, ColumnKind::Regular)] {
        for (name, class) in columns {
            let ty = parse(class)?;
            let is_complex = ty.is_multi_cell();
            let live = table.column(name).filter(|column| column.kind == kind);
            let dropped = table.dropped.iter().filter(|column| *column.name == **name && column.kind == kind);
            if is_complex && is_ordered_otherwise(class) {
                return Err(differs(name, class, live.map_or(&ty, |live| &live.ty)));
            }
            if live.is_some_and(|live| live.ty.reads_bytes_of(&ty)) {
                continue;
            }
            // Cells of one that is gone are not shown, nor those from before the drop of one that came back.
            let is_shown = live.is_some_and(|live| live.is_complex() == is_complex);
            let hides = |column: &DroppedColumn| !is_shown || max_timestamp <= column.dropped_at;
            let known = dropped.clone().any(|column| column.ty.reads_bytes_of(&ty) && hides(column));
            let first = live.map(|column| &column.ty).or(dropped.clone().map(|column| &column.ty).next());
            if let Some(first) = first.filter(|_| !known) {
                return Err(differs(name, class, first));
            }
        }
    }
    Ok(())
}

/// Whether a data file has the checksum that was written beside it; `None` when there is none.
async fn digest_agrees(data: &Path, digest: &Path) -> Result<Option<bool>, Error> {
    match file::exists(digest).await {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(error) => return Err(Error::io(digest, "look for", error)),
    }
    let text = file::read(digest).await.map_err(|error| Error::io(digest, "read", error))?;
    let Ok(expected) = String::from_utf8_lossy(&text).trim().parse::<u32>() else { return Ok(Some(false)) };
    let io = |action| move |error| Error::io(data, action, error);
    let source = File::open(data, OpenOptions::READ).await.map_err(io("open"))?;
    let (mut crc, mut offset) = (Crc32::new(), 0);
    loop {
        let (buffer, count) =
            source.read_at(offset, AlignedBuf::zeroed(IMPORT_COPY_BYTES)).await.map_err(io("read"))?;
        if count == 0 {
            return Ok(Some(crc.finalize() == expected));
        }
        crc.update(&buffer[..count]);
        offset += count as u64;
        runtime::yield_if_needed().await;
    }
}

/// Reads the index. The inner error: partitions are not in the order of the ring, as it says; neither lookups nor compactions
/// would find all of them.
async fn check_order(dir: &Path, descriptor: Descriptor) -> Result<Result<(), String>, sstable::Error> {
    let raw = Raw::open(dir, descriptor).await?;
    let mut entries = raw.entries().await?;
    let mut position = None;
    let mut last: Option<(Token, Vec<u8>)> = None;
    while let Some(RawEntry { key, position: next }) = entries.next().await? {
        let key = key.map(|key| (Token::of_key(&key), key));
        let goes_back = position.is_some_and(|position| next <= position);
        if goes_back || key.as_ref().zip(last.as_ref()).is_some_and(|(key, last)| key <= last) {
            let place = format!("the partition at byte {next} of the data");
            return Ok(Err(format!("{place} is out of order; `messina sstable scrub` keeps the others")));
        }
        position = Some(next);
        last = key.or(last);
        runtime::yield_if_needed().await;
    }
    Ok(Ok(()))
}

/// Reads some rows: whatever keeps all of them from being read is found before the files are taken.
async fn sample(reader: &Rc<Reader>) -> Result<(), sstable::Error> {
    let last = reader.meta().last_token;
    for range in [TokenRange::ALL, TokenRange::new(last, last)] {
        let mut scanner = reader.scan(range);
        for _ in 0..IMPORT_SAMPLE_PIECES {
            if scanner.next(&[Slice::all()], IMPORT_SAMPLE_BYTES).await?.is_none() {
                break;
            }
            runtime::yield_if_needed().await;
        }
    }
    Ok(())
}

/// Reads all partitions. The inner error: they are not what the format promises.
async fn scan(reader: &Rc<Reader>) -> Result<Result<(), String>, sstable::Error> {
    let slices = [Slice::all()];
    let mut scanner = reader.scan(TokenRange::ALL);
    let mut last: Option<(Token, Vec<u8>)> = None;
    while let Some(piece) = scanner.next(&slices, IMPORT_COPY_BYTES).await? {
        let view = piece.slice.mutation.view();
        if !piece.continuation {
            let key = (view.token, view.key.to_vec());
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Ok(Err(format!("the partition behind token {} is out of order", key.0.0)));
            }
            if !reader.meta().covers(key.0) {
                return Ok(Err(format!("a partition of token {} is outside of its range", key.0.0)));
            }
            last = Some(key);
        }
        runtime::yield_if_needed().await;
    }
    Ok(Ok(()))
}

async fn remove_sources(linked: &[Linked]) {
    for path in linked.iter().flat_map(|linked| &linked.source) {
        if let Err(error) = file::remove(path).await {
            runtime::warn!("cannot remove \"{}\", which is imported: {error}", path.display());
        }
    }
}

async fn remove_files(linked: &[Linked]) {
    for path in linked.iter().flat_map(|linked| &linked.files) {
        match file::remove(path).await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                runtime::warn!("cannot remove \"{}\", which is not imported: {error}", path.display());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_versions_are_cut_apart() {
        assert_eq!(parse_name("nb-12-big-Data.db"), Some(("nb", "12", "big", "Data.db")));
        assert_eq!(parse_name("da-3gxc_0y1c_3xgz425r8d-bti-Rows.db").map(|parts| parts.2), Some("bti"));
        assert_eq!(parse_name("me-1-big-Digest.crc32").map(|parts| parts.3), Some("Digest.crc32"));
        for other in [
            "schema.cql",
            "nb-12-big",
            "nb--big-Data.db",
            "manifest.json",
            "nb-1-xyz-Data.db",
            "../x-1-big-Data.db",
        ] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn types_must_be_those_of_the_table() {
        let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
        let table = schema::TableBuilder::new("ks", "t", TableId(1))
            .partition_key("a", CqlType::Int)
            .partition_key("b", CqlType::Text)
            .clustering("c", CqlType::Bigint, schema::Order::Descending)
            .static_column("s", CqlType::Text)
            .regular("v", CqlType::Blob)
            .regular("w", CqlType::Varint)
            .build()
            .expect("a table");
        let header = |key: &str, clustering: &str, v: &str, w: &str| Header {
            base: sstable::EncodingStats::EPOCH,
            key_type: format!(
                "{}(org.apache.cassandra.db.marshal.Int32Type,{})",
                class("CompositeType"),
                class(key)
            ),
            clustering_types: vec![format!("{}({})", class("ReversedType"), class(clustering))],
            statics: vec![("s".into(), class("AsciiType"))],
            regulars: vec![("v".into(), class(v)), ("w".into(), class(w))],
        };
        assert_eq!(
            check_types(&header("UTF8Type", "LongType", "BytesType", "IntegerType"), &table, 5),
            Ok(())
        );
        for (key, clustering, v, w, name) in [
            ("Int32Type", "LongType", "BytesType", "IntegerType", "\"b\""),
            ("UTF8Type", "TimeUUIDType", "BytesType", "IntegerType", "\"c\""),
            ("UTF8Type", "LongType", "BytesType", "UTF8Type", "\"w\""),
        ] {
            let told = check_types(&header(key, clustering, v, w), &table, 5).expect_err(name);
            assert!(told.contains(name), "{told}");
        }
        let mut single = header("UTF8Type", "LongType", "BytesType", "IntegerType");
        single.key_type = class("Int32Type");
        assert!(check_types(&single, &table, 5).is_err());
    }

    /// Rows that a class of before orders otherwise than the type it is read as would not be found.
    #[test]
    fn rows_ordered_by_another_class_are_refused() {
        let set = CqlType::set(CqlType::Timestamp);
        let table = schema::TableBuilder::new("ks", "t", TableId(1))
            .partition_key("k", CqlType::Timestamp)
            .clustering("c", CqlType::Timestamp, schema::Order::Ascending)
            .regular("s", set.clone())
            .regular("v", CqlType::Timestamp)
            .build()
            .expect("a table");
        let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
        let header = |c: &str, s: &str| Header {
            base: sstable::EncodingStats::EPOCH,
            key_type: class("DateType"),
            clustering_types: vec![class(c)],
            statics: Vec::new(),
            regulars: vec![
                ("s".into(), format!("{}({})", class("SetType"), class(s))),
                ("v".into(), class("DateType")),
            ],
        };
        assert_eq!(check_types(&header("TimestampType", "TimestampType"), &table, 1), Ok(()));
        assert!(check_types(&header("DateType", "TimestampType"), &table, 1).is_err());
        assert!(check_types(&header("TimestampType", "DateType"), &table, 1).is_err());
    }

    /// A column that came back with a type that does not read its old cells shows none of them, as long as all are older.
    #[test]
    fn types_of_dropped_columns_count_for_what_is_older_than_the_drop() {
        let table = |live: Option<CqlType>| {
            let builder = schema::TableBuilder::new("ks", "t", TableId(1)).partition_key("k", CqlType::Int);
            let mut builder = builder.regular("v", CqlType::Text);
            assert!(builder.drop_column("v", 100));
            if let Some(ty) = live {
                builder.add("v", ColumnKind::Regular, ty);
            }
            builder.build().expect("a table")
        };
        let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
        let header = |v: &str| Header {
            base: sstable::EncodingStats::EPOCH,
            key_type: class("Int32Type"),
            clustering_types: Vec::new(),
            statics: Vec::new(),
            regulars: vec![("v".into(), v.into())],
        };
        let text = header(&class("UTF8Type"));
        let list = header(&format!("{}({})", class("ListType"), class("Int32Type")));
        let ok = |header: &Header, live: Option<CqlType>, newest: i64| {
            check_types(header, &table(live), newest).is_ok()
        };
        assert!(ok(&text, None, 1000) && ok(&text, Some(CqlType::Text), 1000));
        assert!(ok(&text, Some(CqlType::Bigint), 100));
        assert!(!ok(&text, Some(CqlType::Bigint), 101));
        // Its cells are of another kind than those of the live column: none is shown.
        assert!(ok(&text, Some(CqlType::list(CqlType::Int)), 1000));
        assert!(ok(&list, Some(CqlType::list(CqlType::Int)), 1000));
        assert!(!ok(&list, Some(CqlType::Text), 1) && !ok(&list, None, 1));
    }

    #[test]
    fn intents_are_told_from_other_files() {
        assert_eq!(incarnation_of_intent(&intent_name(7, 3)), Some(7));
        for other in ["import-7", "import-7-x", "manifest-7-3", "import-x-3", "import-7-3.tmp"] {
            assert_eq!(incarnation_of_intent(other), None, "{other}");
        }
    }
}
