//! `scrub`: what can be read of a damaged sstable is written anew in its place.
//!
//! ```text
//! folders locked ─▶ snapshots/pre-scrub-<ms> (hard links) ─▶ scrub/ : readable partitions, an sstable of one's own, synced
//!                 ─▶ its files take the place of the old ones, TOC.txt last
//! ```
//! The new sstable has the name and version of the old one, so that whatever lists it goes on doing so. Once `scrub/` holds a whole
//! sstable a crash is no loss: the next run puts its files in place first. Of a partition that is damaged in the middle
//! what lies before the damage is kept; where the next one starts the index says, and without it the rest of the file is lost.

use crate::error::{Error, damage};
use crate::files::Place;
use crate::keys;
use crate::limits::WRITE_BYTES;
use crate::output::Output;
use base::Token;
use mutation::{Bound, Deletion, RangeTombstone};
use runtime::file::{self, FolderLock};
use schema::{BoundSide, Position, Table};
use sstable::{
    Component, CompressionChoice, CompressionInfo, Descriptor, Raw, RawEntries, RawEntry, RawItem,
    RawPartition, Writer, WriterOptions,
};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Where the new sstable is made, below the table's folder.
const WORKPLACE: &str = "scrub";
/// How far above an sstable the folder of a node may be that holds it: `<data>/<keyspace>/<table>`.
const FOLDERS_ABOVE: usize = 3;

/// What became of one sstable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Partitions that were written anew.
    pub kept: u64,
    /// Partitions, or parts of them, that are lost; what is known of each.
    pub lost: Vec<String>,
    /// Where the files are kept as they were.
    pub snapshot: PathBuf,
}

/// Writes sstables anew without what cannot be read. Tells of each; returns whether nothing was lost.
/// Errors: `Refused` when a node has the folder open, or when nothing of an sstable can be read: it stays as it is.
pub async fn scrub(places: &[Place], out: &mut Output<'_>) -> Result<bool, Error> {
    let _locks = lock(places).await?;
    let tag = format!("pre-scrub-{}", runtime::unix_micros() / 1000);
    let mut sound = true;
    for place in places {
        finish_earlier(&place.dir).await?;
        let name = place.file(Component::Data);
        match scrub_one(place, &tag).await {
            Ok(scrubbed) => {
                sound &= scrubbed.lost.is_empty();
                for lost in &scrubbed.lost {
                    out.line(format_args!("{}: lost: {lost}", name.display()))?;
                }
                let (kept, lost) = (scrubbed.kept, scrubbed.lost.len());
                let snapshot = scrubbed.snapshot.display();
                out.line(format_args!(
                    "{}: {kept} partitions written anew, {lost} losses; as it was: {snapshot}",
                    name.display()
                ))?;
            }
            Err(error @ Error::Closed) => return Err(error),
            Err(error) => {
                sound = false;
                out.line(format_args!("{}: left as it is: {error}", name.display()))?;
            }
        }
        out.flush()?;
    }
    Ok(sound)
}

/// Locks every folder that a node could have locked. Errors: `Refused` when one has.
async fn lock(places: &[Place]) -> Result<Vec<FolderLock>, Error> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for place in places {
        let dir = std::path::absolute(&place.dir).map_err(|error| Error::io(&place.dir, "find", error))?;
        folders.extend(dir.ancestors().take(FOLDERS_ABOVE).map(Path::to_path_buf));
    }
    folders.sort();
    folders.dedup();
    let mut locks = Vec::with_capacity(folders.len());
    for folder in folders {
        match file::lock_exclusive(&folder).await {
            Ok(lock) => locks.push(lock),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let shown = folder.display();
                return Err(Error::Refused(format!(
                    "a node runs on \"{shown}\": stop it first, or ask it with nodetool scrub"
                )));
            }
            Err(error) => return Err(Error::io(folder, "lock", error)),
        }
    }
    Ok(locks)
}

async fn scrub_one(place: &Place, tag: &str) -> Result<Scrubbed, Error> {
    let raw = Raw::open(&place.dir, place.descriptor).await?;
    let snapshot = snapshot(place, tag).await?;
    let workplace = place.dir.join(WORKPLACE);
    empty(&workplace).await?;
    let made = salvage(&raw, place, &workplace).await;
    let (kept, lost) = match made {
        Ok(made) => made,
        Err(error) => {
            remove_folder(&workplace).await?;
            return Err(error);
        }
    };
    move_in(place, &workplace).await?;
    Ok(Scrubbed { kept, lost, snapshot })
}

/// Gives every file of the sstable a second name in a snapshot.
async fn snapshot(place: &Place, tag: &str) -> Result<PathBuf, Error> {
    let folder = place.dir.join("snapshots").join(tag);
    file::create_dir_all(&folder).await.map_err(|error| Error::io(&folder, "create", error))?;
    for component in Component::ALL {
        let from = place.file(component);
        match file::link(&from, component.path(&folder, place.descriptor)).await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&from, "link", error)),
        }
    }
    file::sync_dir(&folder).await.map_err(|error| Error::io(&folder, "sync folder", error))?;
    Ok(folder)
}

async fn remove_folder(folder: &Path) -> Result<(), Error> {
    match file::remove_dir_all(folder).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(folder, "remove", error)),
        _ => Ok(()),
    }
}

/// An empty workplace.
async fn empty(folder: &Path) -> Result<(), Error> {
    remove_folder(folder).await?;
    file::create_dir_all(folder).await.map_err(|error| Error::io(folder, "create", error))
}

/// The name of the file that says for which sstable a workplace holds a whole one.
fn order_path(workplace: &Path) -> PathBuf {
    workplace.join("moving")
}

/// Puts the files of the new sstable in the place of the old ones.
async fn move_in(place: &Place, workplace: &Path) -> Result<(), Error> {
    let order = order_path(workplace);
    let name = format!("{}-{}", place.descriptor, Component::Data.suffix());
    let written = file::write_new_synced(&order, name.as_bytes()).await;
    written.map_err(|error| Error::io(&order, "write", error))?;
    file::sync_dir(workplace).await.map_err(|error| Error::io(workplace, "sync folder", error))?;
    go_on_moving(place, workplace).await
}

async fn go_on_moving(place: &Place, workplace: &Path) -> Result<(), Error> {
    let new = Descriptor::new(place.descriptor.version, 1);
    let io = |action: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |error| Error::io(path, action, error)
    };
    let there = file::read_dir(workplace).await.map_err(io("list folder", workplace))?;
    let is_there = |component: Component| {
        let name = component.path(Path::new(""), new);
        there.iter().any(|entry| Path::new(&entry.name) == name)
    };
    for component in Component::ALL {
        let (from, to) = (component.path(workplace, new), place.file(component));
        if is_there(component) {
            file::rename(&from, &to).await.map_err(io("rename", &from))?;
        } else if !is_there(Component::Toc) || component == Component::Toc {
            // Moved by an earlier run.
        } else if !listed(workplace, new, component).await? {
            match file::remove(&to).await {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(&to, "remove", error));
                }
                _ => {}
            }
        }
    }
    file::sync_dir(&place.dir).await.map_err(io("sync folder", &place.dir))?;
    remove_folder(workplace).await
}

/// Whether the new sstable has a component at all: its list says so. Ours is not listed, and always there.
async fn listed(workplace: &Path, new: Descriptor, component: Component) -> Result<bool, Error> {
    let toc = Component::Toc.path(workplace, new);
    let bytes = file::read(&toc).await.map_err(|error| Error::io(&toc, "read", error))?;
    let named = String::from_utf8_lossy(&bytes).lines().any(|line| line.trim() == component.suffix());
    Ok(named || component == Component::Checksums)
}

/// What an earlier run began to put in place is put in place; what it did not finish making is removed.
async fn finish_earlier(dir: &Path) -> Result<(), Error> {
    let workplace = dir.join(WORKPLACE);
    let order = order_path(&workplace);
    match file::read(&order).await {
        Ok(name) => {
            let name = String::from_utf8_lossy(&name).into_owned();
            go_on_moving(&Place::of(&dir.join(name))?, &workplace).await
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(order, "read", error)),
    }
}

/// The table as its sstable was written: compressed the same way, with a filter of the same chance.
fn definition(raw: &Raw) -> Result<Arc<Table>, Error> {
    let mut options = raw.table().options.clone();
    options.bloom_filter_fp_chance = raw.statistics().bloom_filter_fp_chance;
    options.compression.clear();
    match raw.compression() {
        None => drop(options.compression.insert("enabled".into(), "false".into())),
        Some(CompressionInfo { compressor, options: own, chunk_length, max_compressed_length, .. }) => {
            options.compression.extend(own.iter().cloned());
            options.compression.insert("class".into(), compressor.class().into());
            options.compression.insert("chunk_length_in_kb".into(), (chunk_length / 1024).max(1).to_string());
            if *max_compressed_length < i32::MAX as u32 {
                let ratio = f64::from(*chunk_length) / f64::from(*max_compressed_length);
                options.compression.insert("min_compress_ratio".into(), ratio.to_string());
            }
        }
    }
    let table = raw.table().to_builder().options(options).build();
    table.map(Arc::new).map_err(|error| Error::Refused(error.to_string()))
}

/// Writes what can be read; returns how many partitions there are, and what is lost.
async fn salvage(raw: &Rc<Raw>, place: &Place, workplace: &Path) -> Result<(u64, Vec<String>), Error> {
    let (table, stats) = (definition(raw)?, &raw.statistics().stats);
    let options = WriterOptions {
        dir: workplace.to_path_buf(),
        version: place.descriptor.version,
        generation: 1,
        table: table.clone(),
        estimated_keys: stats.partition_sizes.count().max(1),
        compression: CompressionChoice::Table,
        base: raw.statistics().header.base,
        host_id: stats.host_id,
        level: stats.level,
        repaired_at: stats.repaired_at,
    };
    let writer = Writer::create(options).await?;
    let mut lost = Vec::new();
    let entries = match raw.entries().await {
        Ok(entries) => Some(entries),
        Err(error) => {
            lost.push(format!("the index ({error}); the data is read without it"));
            None
        }
    };
    let mut salvage = Salvage { raw, table, writer, entries, lost, kept: 0, last: None };
    let read = salvage.run().await;
    let Salvage { writer, lost, kept, .. } = salvage;
    match read {
        Ok(()) if kept > 0 => {
            writer.finish().await?;
            Ok((kept, lost))
        }
        Ok(()) => {
            writer.abandon().await?;
            let lost = lost.join("; ");
            Err(Error::Refused(format!("nothing of it can be read: {lost}")))
        }
        Err(error) => Err(error),
    }
}

struct Salvage<'a> {
    raw: &'a Rc<Raw>,
    table: Arc<Table>,
    writer: Writer,
    entries: Option<RawEntries>,
    lost: Vec<String>,
    kept: u64,
    last: Option<(Token, Vec<u8>)>,
}

impl Salvage<'_> {
    /// Partitions from the first to the last. Errors: the disk's; damage is told among the losses.
    async fn run(&mut self) -> Result<(), Error> {
        let mut scanner = self.raw.scan_closely(0);
        let mut entry = self.entry().await?;
        loop {
            if let Some(entry) = &entry
                && scanner.position() != entry.position
            {
                scanner.seek(entry.position);
            }
            let start = scanner.position();
            if start >= self.raw.length() {
                return Ok(());
            }
            let known = entry.as_ref().and_then(|entry| entry.key.clone());
            let damage = match scanner.partition().await {
                Ok(None) => return Ok(()),
                Ok(Some(partition)) => self.partition(&mut scanner, partition).await?,
                Err(error) => {
                    let known = known.map(|key| format!("\"{}\"", keys::text(&self.table, &key)));
                    let known = known.unwrap_or("of an unknown key".into());
                    Some(format!("a partition {known} at offset {start}: {}", damage(error)?))
                }
            };
            let is_damaged = damage.is_some();
            self.lost.extend(damage);
            entry = self.entry().await?;
            if is_damaged && entry.is_none() {
                let rest = self.raw.length() - scanner.position().min(self.raw.length());
                if self.entries.is_none() && rest > 0 {
                    self.lost.push(format!("up to {rest} bytes behind, in which no partition can be found"));
                }
                return Ok(());
            }
        }
    }

    async fn entry(&mut self) -> Result<Option<RawEntry>, Error> {
        let Some(entries) = &mut self.entries else { return Ok(None) };
        match entries.next().await {
            Ok(entry) => Ok(entry),
            Err(error) => {
                self.lost
                    .push(format!("the rest of the index ({}); the data is read without it", damage(error)?));
                self.entries = None;
                Ok(None)
            }
        }
    }

    /// Writes a partition up to its end or to the first damage, which is told.
    async fn partition(
        &mut self,
        scanner: &mut sstable::RawScanner,
        partition: RawPartition,
    ) -> Result<Option<String>, Error> {
        let shown = format!("\"{}\"", keys::text(&self.table, &partition.key));
        let order = (partition.token, partition.key.clone());
        if self.table.split_key(&partition.key).is_err() {
            return Ok(Some(format!("a partition of a broken key at offset {}", partition.position)));
        }
        if self.last.as_ref().is_some_and(|last| *last >= order) {
            scanner.skip().await.map_err(damage).map_or_else(|error| error.map(drop), Ok)?;
            return Ok(Some(format!("partition {shown} at offset {}: out of order", partition.position)));
        }
        self.last = Some(order);
        let static_row = Some(&partition.static_row[..]).filter(|row| !row.is_empty());
        let before = self.writer.data_bytes();
        self.writer.start_partition(&partition.key, partition.token, partition.deletion, static_row)?;
        let mut items = Items {
            table: &self.table,
            writer: &mut self.writer,
            last: None,
            open: None,
            rows: Vec::new(),
            bytes: 0,
        };
        let told = loop {
            let item = match scanner.item().await {
                Ok(None) => break None,
                Ok(Some(item)) => item,
                Err(error) => break Some(damage(error)?),
            };
            if let Err(what) = items.take(item)? {
                break Some(what);
            }
        };
        items.end()?;
        self.writer.end_partition()?;
        // One whose head alone could be read, and says nothing, leaves no trace.
        self.kept += u64::from(self.writer.data_bytes() > before);
        if self.writer.pending_bytes() > WRITE_BYTES {
            self.writer.drain().await?;
        }
        Ok(told.map(|what| format!("partition {shown} from offset {} on: {what}", scanner.position())))
    }
}

/// Rows on their way to the writer, which wants to know where a range tombstone ends when it begins.
struct Items<'a> {
    table: &'a Table,
    writer: &'a mut Writer,
    last: Option<Position>,
    /// The range tombstone that is open, and where it starts.
    open: Option<(Bound, Deletion)>,
    /// Rows behind that start.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Items<'_> {
    /// Takes a row or marker. The inner error: it is damaged, in words.
    fn take(&mut self, item: RawItem) -> Result<Result<(), String>, Error> {
        let place = match &item {
            RawItem::Row { clustering, .. } => self.table.position(clustering),
            RawItem::Marker { prefix, side, .. } => self.table.bound_position(prefix, *side),
        };
        let place = match place {
            Ok(place) => place,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if self.last.as_ref().is_some_and(|last| *last >= place) {
            return Ok(Err("a row or marker that is out of order".into()));
        }
        match item {
            RawItem::Row { clustering, body, .. } => {
                self.last = Some(place);
                if self.open.is_none() {
                    self.writer.row(&clustering, &body)?;
                    return Ok(Ok(()));
                }
                self.bytes += clustering.len() + body.len();
                self.rows.push((clustering, body));
                if self.bytes > WRITE_BYTES {
                    self.cut()?;
                }
            }
            RawItem::Marker { prefix, side, ends, starts, .. } => {
                let open = self.open.as_ref().map(|(_, open)| open.timestamp);
                if open != ends.map(|ends| ends.timestamp) {
                    return Ok(Err("a marker that does not end the range tombstone that is open".into()));
                }
                self.last = Some(place);
                let bound = Bound::new(&prefix, side);
                self.close(bound.clone())?;
                self.open = starts.filter(|deletion| !deletion.is_live()).map(|deletion| (bound, deletion));
            }
        }
        Ok(Ok(()))
    }

    /// Writes the open range tombstone up to a bound, and the rows in it.
    fn close(&mut self, end: Bound) -> Result<(), Error> {
        if let Some((start, deletion)) = self.open.take() {
            self.writer.range_tombstone(&RangeTombstone { start, end, deletion })?;
        }
        for (clustering, body) in self.rows.drain(..) {
            self.writer.row(&clustering, &body)?;
        }
        self.bytes = 0;
        Ok(())
    }

    /// Writes the open range tombstone up to the last row; it goes on from there.
    fn cut(&mut self) -> Result<(), Error> {
        let Some((clustering, _)) = self.rows.last() else { return Ok(()) };
        let behind = Bound::new(clustering, BoundSide::After);
        let deletion = self.open.as_ref().map(|(_, deletion)| *deletion);
        self.close(behind.clone())?;
        self.open = deletion.map(|deletion| (behind, deletion));
        Ok(())
    }

    /// The end of the partition, or the first damage: a range tombstone that is still open is known up to the last row.
    fn end(mut self) -> Result<(), Error> {
        self.cut()?;
        self.open = None;
        Ok(())
    }
}
