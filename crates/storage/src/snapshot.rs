//! Snapshots: hard links to a table's sstables under a name that nothing changes later, laid out as in Cassandra.
//!
//! ```text
//! <data>/<keyspace>/<table>-<id>/snapshots/<tag>/   nb-… files | schema.cql | manifest.json
//!                                          .<tag>.partial/     one that is being made or removed
//! ```
//! A snapshot gets its name by one rename once all of it is durable, and loses it by one rename before it is removed. So
//! after a crash there are whole snapshots and folders that the next start removes, nothing in between.

use crate::Error;
use crate::shards::on_every_shard;
use crate::store::Store;
use crate::table::{Sstable, TableStore, table_of_dir};
use runtime::file;
use runtime::sync::Lock;
use schema::TableId;
use serde_json::{Value, json};
use sstable::{Component, Reader};
use std::cell::Cell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::datetime;

const FOLDER: &str = "snapshots";
/// Where links to new sstables are kept; whoever copies them elsewhere removes them.
const BACKUPS: &str = "backups";
const PARTIAL: &str = ".partial";
const MANIFEST: &str = "manifest.json";
const SCHEMA: &str = "schema.cql";
/// Bytes of a name: the folder's own name must fit a file system while it is made, with a dot and `.partial` around it.
pub const TAG_BYTES_MAX: usize = 246;
const _: () = assert!(1 + TAG_BYTES_MAX + PARTIAL.len() <= 255);
// The longest one this database gives itself: what is about to happen, milliseconds until the year 2286, and the table.
const _: () = assert!("truncated-".len() + 13 + 1 + TABLE_NAME_BYTES_MAX <= TAG_BYTES_MAX);
/// Bytes of a table's name, whose own folder has an id of 33 behind it.
const TABLE_NAME_BYTES_MAX: usize = 222;

/// Snapshots of a node. Installed on shard 0 before any shard opens its store.
pub struct Snapshots {
    turn: Lock<()>,
    /// Whether there may be some that go by themselves.
    pub(crate) expire: Cell<bool>,
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        Snapshots { turn: Lock::new(()), expire: Cell::new(true) }
    }
}

impl Snapshots {
    /// Held by whatever makes or removes snapshots.
    pub fn turn(&self) -> &Lock<()> {
        &self.turn
    }
}

/// One snapshot of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub tag: String,
    /// The keyspace.
    pub keyspace: String,
    /// The table; it may have been dropped.
    pub table: String,
    /// Bytes of its files.
    pub size: u64,
    /// Bytes of those that the table itself no longer has: what removing it would free.
    pub true_size: u64,
    /// When it was made, milliseconds since the Unix epoch.
    pub created_ms: Option<i64>,
    /// When it goes by itself.
    pub expires_ms: Option<i64>,
}

/// What is said about a snapshot that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// Its name.
    pub tag: String,
    /// Whether what is in memory is left out.
    pub skip_flush: bool,
    /// Milliseconds until it goes by itself.
    pub ttl_ms: Option<i64>,
}

/// A snapshot of one table that is being made.
struct PartialSnapshot {
    tag: String,
    snapshots: PathBuf,
    folder: PathBuf,
}

/// Refuses names that are no plain file name.
pub fn check_tag(tag: &str) -> Result<(), Error> {
    let plain = !tag.starts_with('.') && !tag.contains(|c: char| c == '/' || c.is_control());
    if tag.is_empty() || tag.len() > TAG_BYTES_MAX || !plain {
        let shown = &tag[..tag.floor_char_boundary(TAG_BYTES_MAX)];
        return Err(Error::Snapshot(format!(
            "\"{}\" is no name for a snapshot: it must be 1 to {TAG_BYTES_MAX} bytes without '/' and not begin with '.'",
            shown.escape_default()
        )));
    }
    Ok(())
}

impl Store {
    /// The folder of a table.
    pub fn table_dir(&self, id: TableId) -> Result<PathBuf, Error> {
        Ok(self.table(id)?.dir.clone())
    }

    /// Makes a snapshot of a table, of all shards of the node. On shard 0, which from now on looks whether its time has come.
    /// Errors: there is one of that name; others: what there is of it was removed, or is by the next start.
    pub async fn snapshot(&self, id: TableId, schema: &str, options: &SnapshotOptions) -> Result<(), Error> {
        let partial = PartialSnapshot::begin(&self.table_dir(id)?, &options.tag).await?;
        let made = match link_all(id, partial.folder.clone(), options.skip_flush).await {
            Ok(()) => partial.finish(schema, options.ttl_ms).await,
            Err(error) => Err(error),
        };
        match &made {
            Ok(()) if options.ttl_ms.is_some() => runtime::local::<Snapshots>().expire.set(true),
            Ok(()) => {}
            Err(_) => partial.abandon().await,
        }
        made
    }

    /// Keeps this shard's sstables of a table as they are now, for a snapshot in a folder.
    pub(crate) async fn hold(&self, id: TableId, folder: &Path, skip_flush: bool) -> Result<(), Error> {
        let table = self.table(id)?;
        if !skip_flush {
            self.flush_table(&table).await?;
        }
        let sstables = table.with_version(|version, _| version.sstables.clone());
        let before = self.held.borrow_mut().insert(folder.to_path_buf(), sstables);
        assert!(before.is_none(), "snapshots take turns");
        Ok(())
    }

    /// Links what is held for a snapshot. Errors: some may be linked.
    pub(crate) async fn link_held(&self, folder: &Path) -> Result<(), Error> {
        let held = self.held.borrow().get(folder).cloned().expect("it is held");
        for sstable in &held {
            link_files(&sstable.reader, folder).await?;
            runtime::yield_if_needed().await;
        }
        Ok(())
    }

    /// Ends [`Store::hold`].
    pub(crate) fn release(&self, folder: &Path) {
        self.held.borrow_mut().remove(folder);
        self.compaction_wanted.notify();
    }

    /// Links a new sstable into its table's backups, where that is wanted. What cannot be linked is told in the log: the data itself
    /// is safe.
    pub(crate) async fn back_up(&self, table: &TableStore, sstable: &Sstable) {
        if !self.backs_up.get() || !table.definition().options.incremental_backups {
            return;
        }
        if let Err(error) = link_durably(&sstable.reader, &table.dir.join(BACKUPS)).await {
            runtime::error!("an sstable of table {} is not among its backups: {error}", table.id);
        }
    }
}

/// Links what all shards have of a table into a folder. Each holds on to its sstables before the first is linked, until the last
/// is: a file that was linked and then ceased to be held would no longer keep the other shards from purging tombstones that what is
/// linked of it needs.
/// Errors: some may be linked.
async fn link_all(id: TableId, folder: PathBuf, skip_flush: bool) -> Result<(), Error> {
    // A task of its own: whoever waits for it may go away, and what is held must be let go.
    let linking = async move {
        let folder = Arc::new(folder);
        let of = folder.clone();
        let mut linked = on_every_shard(move |store| {
            let folder = of.clone();
            async move { store.hold(id, &folder, skip_flush).await }
        })
        .await;
        if linked.is_ok() {
            let of = folder.clone();
            linked = on_every_shard(move |store| {
                let folder = of.clone();
                async move { store.link_held(&folder).await }
            })
            .await;
        }
        let released = on_every_shard(move |store| {
            store.release(&folder);
            async { Ok(()) }
        });
        linked.and(released.await)
    };
    runtime::spawn(runtime::current_group(), linking).await
}

/// Links the files of an sstable into a folder, which is made.
async fn link_durably(reader: &Reader, folder: &Path) -> Result<(), Error> {
    let io = |action| move |error| Error::io(folder, action, error);
    file::create_dir_all(folder).await.map_err(io("create folder"))?;
    link_files(reader, folder).await?;
    file::sync_dir(folder).await.map_err(io("sync folder"))
}

/// Links the files of an sstable into a folder.
async fn link_files(reader: &Reader, folder: &Path) -> Result<(), Error> {
    for component in Component::ALL {
        let from = reader.path(component);
        let Some(name) = from.file_name() else { continue };
        match file::link(&from, folder.join(name)).await {
            Ok(()) => {}
            // Not every sstable has every component, and several shards may share one.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {}
            Err(error) => return Err(Error::io(&from, "link", error)),
        }
    }
    Ok(())
}

impl PartialSnapshot {
    /// Begins a snapshot of the table in `table_dir`. Errors: there is one of that name.
    async fn begin(table_dir: &Path, tag: &str) -> Result<PartialSnapshot, Error> {
        check_tag(tag)?;
        let snapshots = table_dir.join(FOLDER);
        let path = snapshots.join(tag);
        if file::exists(&path).await.map_err(|error| Error::io(&path, "look for", error))? {
            return Err(Error::Snapshot(format!("Snapshot {tag} already exists.")));
        }
        let folder = snapshots.join(format!(".{tag}{PARTIAL}"));
        let path = &folder;
        let io = |action| move |error| Error::io(path, action, error);
        file::remove_dir_all(&folder).await.map_err(io("remove folder"))?;
        file::create_dir_all(&folder).await.map_err(io("create folder"))?;
        Ok(PartialSnapshot { tag: tag.to_string(), snapshots, folder })
    }

    /// Gives the snapshot its name, once everything in it is durable.
    async fn finish(&self, schema: &str, ttl_ms: Option<i64>) -> Result<(), Error> {
        let path = &self.folder;
        let io = |action| move |error| Error::io(path, action, error);
        let entries = file::read_dir(&self.folder).await.map_err(io("list folder"))?;
        let data = entries.iter().filter(|entry| entry.name.ends_with(Component::Data.suffix()));
        let files: Vec<&str> = data.map(|entry| entry.name.as_str()).collect();
        let created_ms = runtime::unix_micros() / 1000;
        let expires = ttl_ms.map(|ttl| iso(created_ms.saturating_add(ttl)));
        let manifest = json!({
            "files": files, "created_at": iso(created_ms), "expires_at": expires, "ephemeral": false,
        });
        for (name, text) in [(SCHEMA, schema.to_string()), (MANIFEST, manifest.to_string())] {
            let path = self.folder.join(name);
            file::write_new_synced(&path, text.as_bytes())
                .await
                .map_err(|error| Error::io(&path, "write", error))?;
        }
        file::sync_dir(&self.folder).await.map_err(io("sync folder"))?;
        file::rename(&self.folder, self.snapshots.join(&self.tag)).await.map_err(io("rename folder"))?;
        let table_dir = self.snapshots.parent().unwrap_or(&self.snapshots);
        for folder in [&*self.snapshots, table_dir] {
            file::sync_dir(folder).await.map_err(|error| Error::io(folder, "sync folder", error))?;
        }
        Ok(())
    }

    /// Removes what there is of it. What cannot be removed is garbage of the next start.
    async fn abandon(self) {
        if let Err(error) = file::remove_dir_all(&self.folder).await {
            runtime::warn!("cannot remove \"{}\": {error}", self.folder.display());
        }
    }
}

fn iso(ms: i64) -> String {
    datetime::format_timestamp(ms).replace(' ', "T")
}

/// A folder of snapshots and whose it is.
struct Place {
    keyspace: String,
    table: String,
    table_dir: PathBuf,
}

impl Place {
    fn snapshots(&self) -> PathBuf {
        self.table_dir.join(FOLDER)
    }
}

async fn list(folder: &Path) -> Result<Vec<file::DirEntry>, Error> {
    match file::read_dir(folder).await {
        Ok(entries) => Ok(entries),
        // It went away since it was seen.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io(folder, "list folder", error)),
    }
}

/// Every table folder with snapshots, those of dropped tables included.
async fn places(data_dir: &Path) -> Result<Vec<Place>, Error> {
    let mut found = Vec::new();
    for keyspace in list(data_dir).await?.into_iter().filter(|entry| entry.is_dir) {
        let keyspace_dir = data_dir.join(&keyspace.name);
        for folder in list(&keyspace_dir).await?.into_iter().filter(|entry| entry.is_dir) {
            if table_of_dir(&folder.name).is_none() {
                continue;
            }
            let table_dir = keyspace_dir.join(&folder.name);
            let path = table_dir.join(FOLDER);
            if file::exists(&path).await.map_err(|error| Error::io(&path, "look for", error))? {
                let table = folder.name.rsplit_once('-').map_or("", |(name, _)| name).to_string();
                found.push(Place { keyspace: keyspace.name.clone(), table, table_dir });
            }
            runtime::yield_if_needed().await;
        }
    }
    Ok(found)
}

/// All snapshots, by keyspace, table and name.
pub async fn list_snapshots(data_dir: &Path) -> Result<Vec<Snapshot>, Error> {
    let mut found = Vec::new();
    for place in places(data_dir).await? {
        let own: Vec<String> = list(&place.table_dir).await?.into_iter().map(|entry| entry.name).collect();
        let whole = |entry: &file::DirEntry| entry.is_dir && !entry.name.starts_with('.');
        for entry in list(&place.snapshots()).await?.into_iter().filter(whole) {
            let folder = place.snapshots().join(&entry.name);
            let files = list(&folder).await?;
            let size = files.iter().map(|file| file.size).sum();
            let gone = files.iter().filter(|file| own.binary_search(&file.name).is_err());
            let (created_ms, expires_ms) = times(&folder).await;
            found.push(Snapshot {
                tag: entry.name,
                keyspace: place.keyspace.clone(),
                table: place.table.clone(),
                size,
                true_size: gone.map(|file| file.size).sum(),
                created_ms,
                expires_ms,
            });
            runtime::yield_if_needed().await;
        }
    }
    Ok(found)
}

/// When a snapshot was made and when it goes, as far as its manifest says so.
async fn times(folder: &Path) -> (Option<i64>, Option<i64>) {
    let bytes = file::read(folder.join(MANIFEST)).await.unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let time = |name: &str| datetime::parse_timestamp(manifest.get(name)?.as_str()?).ok();
    (time("created_at"), time("expires_at"))
}

/// Removes the snapshots of a name, or all, of these keyspaces, or of all when none is named; returns how many.
/// Errors: some may be removed.
pub async fn clear_snapshots(
    data_dir: &Path,
    tag: Option<&str>,
    keyspaces: &[String],
) -> Result<usize, Error> {
    if let Some(tag) = tag {
        check_tag(tag)?;
    }
    let mut removed = 0;
    for place in places(data_dir).await? {
        if !keyspaces.is_empty() && !keyspaces.contains(&place.keyspace) {
            continue;
        }
        let wanted = |entry: &file::DirEntry| {
            entry.is_dir && !entry.name.starts_with('.') && tag.is_none_or(|tag| entry.name == tag)
        };
        for entry in list(&place.snapshots()).await?.into_iter().filter(wanted) {
            remove(&place.snapshots(), &entry.name).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes the snapshot of that name of the table in `table_dir`.
pub async fn clear_snapshot(table_dir: &Path, tag: &str) -> Result<(), Error> {
    check_tag(tag)?;
    remove(&table_dir.join(FOLDER), tag).await
}

/// Takes the name away first: what a crash leaves is no snapshot.
async fn remove(snapshots: &Path, tag: &str) -> Result<(), Error> {
    let partial = snapshots.join(format!(".{tag}{PARTIAL}"));
    let path = &partial;
    let io = |action| move |error| Error::io(path, action, error);
    file::remove_dir_all(&partial).await.map_err(io("remove folder"))?;
    file::rename(snapshots.join(tag), &partial).await.map_err(io("rename folder"))?;
    file::sync_dir(snapshots).await.map_err(|error| Error::io(snapshots, "sync folder", error))?;
    file::remove_dir_all(&partial).await.map_err(io("remove folder"))
}

/// Removes what a crash left of snapshots in a table's folder. Only at start: later they may be in the making.
pub(crate) async fn sweep(table_dir: &Path) -> Result<(), Error> {
    let snapshots = table_dir.join(FOLDER);
    for entry in list(&snapshots).await? {
        if entry.is_dir && entry.name.starts_with('.') && entry.name.ends_with(PARTIAL) {
            let path = snapshots.join(&entry.name);
            file::remove_dir_all(&path).await.map_err(|error| Error::io(&path, "remove folder", error))?;
        }
    }
    Ok(())
}

/// Removes snapshots whose time has come; returns whether others have a time.
pub async fn expire_snapshots(data_dir: &Path) -> Result<bool, Error> {
    let now_ms = runtime::unix_micros() / 1000;
    let mut waiting = false;
    for place in places(data_dir).await? {
        for entry in list(&place.snapshots()).await? {
            if !entry.is_dir || entry.name.starts_with('.') {
                continue;
            }
            match times(&place.snapshots().join(&entry.name)).await.1 {
                Some(expires) if expires <= now_ms => {
                    if let Err(error) = remove(&place.snapshots(), &entry.name).await {
                        runtime::warn!("cannot remove an expired snapshot: {error}");
                        waiting = true;
                    }
                }
                Some(_) => waiting = true,
                None => {}
            }
            runtime::yield_if_needed().await;
        }
    }
    Ok(waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for tag in ["1732194175123", "before upgrade", "ü", "a-b_c.d"] {
            check_tag(tag).expect(tag);
        }
        check_tag(&"x".repeat(246)).expect("fits");
        let long = "x".repeat(247);
        for tag in ["", ".", "..", ".hidden", "a/b", "/etc", "a\0b", "a\nb", &long] {
            check_tag(tag).expect_err(tag);
        }
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        let text = iso(1_700_000_000_123);
        assert_eq!(text, "2023-11-14T22:13:20.123Z");
        assert_eq!(datetime::parse_timestamp(&text).expect("ours"), 1_700_000_000_123);
    }
}
