//! `verify`: everything about an sstable that can be checked without another copy of it.
//!
//! ```text
//! Statistics  own checksums, versions with them     Digest      of the whole data file
//! CompressionInfo, Filter, Summary                  Checksums.db, where there is one
//! Data        every chunk's checksum; partitions in ring order, rows and markers in order of clustering, markers
//!             paired, values that fit their types; what statistics say of keys, times and counts
//! index       each partition at its place, none more; filter holds every key
//! ```
//! A damage says file, place and partition. Of a damaged data file everything up to the damage is looked at, and with a sound index
//! the partitions behind it, too.

use crate::error::{Error, damage};
use crate::files::{Place, places};
use crate::keys;
use crate::limits::{DAMAGES_TOLD, READ_BYTES};
use crate::output::Output;
use base::{Crc32, Token};
use mutation::{Cell, ColumnView, Deletion, NO_TIME, RowView};
use runtime::file::{self, AlignedBuf, File, OpenOptions};
use schema::{Position, Table, clustering_components};
use sstable::{
    Component, Format, Raw, RawEntries, RawEntry, RawFilter, RawItem, RawPartition, RawScanner, Statistics,
};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What was found out about one sstable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong, each with file and place; the first hundred.
    pub damages: Vec<String>,
    /// How many more there are.
    pub more: u64,
    /// Partitions that were read.
    pub partitions: u64,
    /// Partitions that cannot be read to their end, as far as they are known.
    pub unreadable: u64,
    /// Rows that were read, static ones included.
    pub rows: u64,
    /// Stored bytes of the data file.
    pub bytes: u64,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }

    fn damage(&mut self, text: impl std::fmt::Display) {
        let text = text.to_string();
        // A broken chunk is met by every partition in it.
        if self.damages.last() == Some(&text) {
            return;
        }
        if self.damages.len() < DAMAGES_TOLD {
            self.damages.push(text);
        } else {
            self.more += 1;
        }
    }
}

/// Checks sstables and tells of each; returns whether all are sound.
pub async fn verify_all(paths: &[PathBuf], out: &mut Output<'_>) -> Result<bool, Error> {
    let mut sound = true;
    for place in places(paths).await? {
        let verdict = verify(&place).await?;
        let name = place.file(Component::Data);
        let name = name.display();
        let (partitions, rows, bytes) = (verdict.partitions, verdict.rows, verdict.bytes);
        if verdict.is_sound() {
            out.line(format_args!("{name}: ok, {partitions} partitions, {rows} rows, {bytes} bytes"))?;
        } else {
            sound = false;
            for damage in &verdict.damages {
                out.line(format_args!("{name}: {damage}"))?;
            }
            let count = verdict.damages.len() as u64 + verdict.more;
            let unreadable = verdict.unreadable;
            out.line(format_args!(
                "{name}: DAMAGED, {count} faults; {unreadable} partitions cannot be read, {partitions} with {rows} rows can"
            ))?;
        }
        out.flush()?;
    }
    Ok(sound)
}

/// Checks one sstable. Errors: only what keeps it from being looked at, such as a disk that does not answer; damage stands in
/// the verdict. Cost: two reads of the data file, one of the index.
pub async fn verify(place: &Place) -> Result<Verdict, Error> {
    let mut verdict = Verdict::default();
    listed(place, &mut verdict).await?;
    digest(place, &mut verdict).await?;
    let raw = match Raw::open(&place.dir, place.descriptor).await {
        Ok(raw) => raw,
        Err(error) => {
            told(error, &mut verdict)?;
            return Ok(verdict);
        }
    };
    for component in [Component::Statistics, Component::Filter, Component::Summary] {
        match raw.component_agrees(component).await {
            Ok(Some(false)) => {
                let file = place.file(component);
                verdict.damage(format_args!("\"{}\" has not the checksum in Checksums.db", file.display()));
            }
            Ok(_) => {}
            Err(error) => told(error, &mut verdict)?,
        }
    }
    contents(&raw, place, &mut verdict).await?;
    Ok(verdict)
}

/// Damage goes into the verdict, other errors up.
fn told(error: sstable::Error, verdict: &mut Verdict) -> Result<(), Error> {
    verdict.damage(damage(error)?);
    Ok(())
}

/// Whether every component is there that `TOC.txt` lists.
async fn listed(place: &Place, verdict: &mut Verdict) -> Result<(), Error> {
    let toc = place.file(Component::Toc);
    let exists = |path: &Path| {
        let path = path.to_path_buf();
        async move { file::exists(&path).await.map_err(|error| Error::io(&path, "look for", error)) }
    };
    if !exists(&toc).await? {
        verdict.damage(format_args!("\"{}\" is missing: the sstable is not complete", toc.display()));
        return Ok(());
    }
    let bytes = file::read(&toc).await.map_err(|error| Error::io(&toc, "read", error))?;
    for name in String::from_utf8_lossy(&bytes).lines().map(str::trim).filter(|name| !name.is_empty()) {
        let path = place.dir.join(format!("{}-{name}", place.descriptor));
        if !exists(&path).await? {
            verdict.damage(format_args!("\"{}\" is listed and missing", path.display()));
        }
    }
    Ok(())
}

/// The checksum of the data file as it is stored.
async fn digest(place: &Place, verdict: &mut Verdict) -> Result<(), Error> {
    let (data, path) = (place.file(Component::Data), place.file(Component::Digest));
    let io = |action| move |error| Error::io(place.file(Component::Data), action, error);
    let expected = match file::read(&path).await {
        Ok(text) => Some(String::from_utf8_lossy(&text).trim().parse::<u32>().ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io(&path, "read", error)),
    };
    if !file::exists(&data).await.map_err(io("look for"))? {
        return Ok(());
    }
    let source = File::open(&data, OpenOptions::READ).await.map_err(io("open"))?;
    verdict.bytes = source.size().await.map_err(io("read the size of"))?;
    let Some(expected) = expected else { return Ok(()) };
    let Some(expected) = expected else {
        verdict.damage(format_args!("\"{}\" is no checksum", path.display()));
        return Ok(());
    };
    let (mut crc, mut offset) = (Crc32::new(), 0);
    loop {
        let read = source.read_at(offset, AlignedBuf::zeroed(READ_BYTES)).await;
        let (buffer, count) = read.map_err(io("read"))?;
        if count == 0 {
            break;
        }
        crc.update(&buffer[..count]);
        offset += count as u64;
        runtime::yield_if_needed().await;
    }
    let computed = crc.finalize();
    if computed != expected {
        let data = data.display();
        verdict.damage(format_args!("\"{data}\" has checksum {computed}, Digest.crc32 says {expected}"));
    }
    Ok(())
}

/// What partitions and rows say together, to compare with the statistics.
#[derive(Default)]
struct Seen {
    timestamps: Option<(i64, i64)>,
    local_times: Option<(u32, u32)>,
    ttls: Option<(u32, u32)>,
    first: Option<Vec<u8>>,
    last: Option<(Token, Vec<u8>)>,
    /// Whether all partitions were read.
    whole: bool,
}

impl Seen {
    fn timestamp(&mut self, at: i64) {
        let (least, most) = self.timestamps.unwrap_or((at, at));
        self.timestamps = Some((least.min(at), most.max(at)));
    }

    fn local_time(&mut self, at: u32) {
        let (least, most) = self.local_times.unwrap_or((at, at));
        self.local_times = Some((least.min(at), most.max(at)));
    }

    fn ttl(&mut self, ttl: u32) {
        let (least, most) = self.ttls.unwrap_or((ttl, ttl));
        self.ttls = Some((least.min(ttl), most.max(ttl)));
    }

    fn deletion(&mut self, deletion: Deletion) {
        if !deletion.is_live() {
            self.timestamp(deletion.timestamp);
            self.local_time(deletion.local_time);
        }
    }

    fn cell(&mut self, cell: &Cell<'_>) {
        self.timestamp(cell.timestamp);
        self.local_time(cell.local_time);
        if cell.is_expiring() {
            self.ttl(cell.ttl);
        }
    }

    fn row(&mut self, row: &RowView<'_>) {
        let liveness = row.liveness();
        if !liveness.is_none() {
            self.timestamp(liveness.timestamp);
            self.local_time(liveness.expires_at);
            if liveness.is_expiring() {
                self.ttl(liveness.ttl);
            }
        }
        self.deletion(row.deletion());
        for (_, column) in row.columns() {
            match column {
                ColumnView::Simple(cell) => self.cell(&cell),
                ColumnView::Complex(complex) => {
                    self.deletion(complex.deletion);
                    complex.cells().for_each(|(_, cell)| self.cell(&cell));
                }
            }
        }
    }
}

/// A walk through data and index side by side.
struct Walk<'a> {
    raw: &'a Rc<Raw>,
    place: &'a Place,
    filter: Option<RawFilter>,
    /// None from the first damage of the index on.
    entries: Option<RawEntries>,
    scanner: RawScanner,
    /// Reading ahead has met damage: from now on nothing is read before it is its turn.
    closely: bool,
    seen: Seen,
    verdict: &'a mut Verdict,
}

async fn contents(raw: &Rc<Raw>, place: &Place, verdict: &mut Verdict) -> Result<(), Error> {
    let filter = match raw.filter().await {
        Ok(filter) => filter,
        Err(error) => told(error, verdict).map(|()| None)?,
    };
    let entries = match raw.entries().await {
        Ok(entries) => Some(entries),
        Err(error) => told(error, verdict).map(|()| None)?,
    };
    let seen = Seen { whole: true, ..Seen::default() };
    let scanner = raw.scan(0);
    let mut walk = Walk { raw, place, filter, entries, scanner, closely: false, seen, verdict };
    walk.run().await?;
    let seen = walk.seen;
    plausible(raw.statistics(), &seen, place, verdict);
    Ok(())
}

impl Walk<'_> {
    async fn run(&mut self) -> Result<(), Error> {
        // The index goes first: where the data is damaged it says where the next partition is.
        let mut entry = self.entry().await?;
        loop {
            if let Some(entry) = &entry {
                self.meet(entry);
            }
            let read = match self.read().await {
                Ok(read) => read,
                Err(error) => {
                    self.seen.whole = false;
                    self.verdict.unreadable += 1;
                    told(error, self.verdict)?;
                    entry = self.entry().await?;
                    let Some(next) = &entry else { return Ok(()) };
                    self.scanner = self.raw.scan_closely(next.position);
                    continue;
                }
            };
            match (&read, &entry) {
                (None, None) => return Ok(()),
                (None, Some(entry)) => {
                    self.index_damage(format!(
                        "a partition at offset {}, behind the end of the data",
                        entry.position
                    ));
                    return Ok(());
                }
                (Some(read), None) if self.entries.is_some() => {
                    self.index_damage(format!(
                        "no partition at offset {}, {}",
                        read.position,
                        self.shown(read)
                    ));
                    self.entries = None;
                }
                (Some(read), Some(entry)) if entry.key.as_ref().is_some_and(|key| *key != read.key) => {
                    self.index_damage(format!(
                        "another key at offset {} than the data, {}",
                        read.position,
                        self.shown(read)
                    ));
                }
                _ => {}
            }
            if let Some(read) = &read
                && self.filter.as_ref().is_some_and(|filter| !filter.may_contain(&read.key))
            {
                let file = self.place.file(Component::Filter);
                let shown = self.shown(read);
                self.verdict.damage(format_args!("\"{}\" does not hold {shown}", file.display()));
            }
            entry = self.entry().await?;
        }
    }

    /// Goes to where the index says that the next partition is.
    fn meet(&mut self, entry: &RawEntry) {
        let at = self.scanner.position();
        if entry.position != at {
            let told = entry.position;
            self.index_damage(format!(
                "a partition at offset {told} of the data where the one before ends at {at}"
            ));
            self.scanner.seek(told);
        }
    }

    fn shown(&self, partition: &RawPartition) -> String {
        format!("partition \"{}\"", keys::text(self.raw.table(), &partition.key))
    }

    fn index_damage(&mut self, what: String) {
        let is_big = self.place.descriptor.version.format() == Format::Big;
        let file = self.place.file(if is_big { Component::Index } else { Component::Partitions });
        self.verdict.damage(format_args!("\"{}\" has {what}", file.display()));
    }

    /// The next entry of the index; of a damaged one there are no more.
    async fn entry(&mut self) -> Result<Option<RawEntry>, Error> {
        let Some(known) = &mut self.entries else { return Ok(None) };
        match known.next().await {
            Ok(entry) => Ok(entry),
            Err(error) => {
                told(error, self.verdict)?;
                self.entries = None;
                Ok(None)
            }
        }
    }

    /// Reads the next partition. Damage of what lies behind may have come with the same read of the disk: then once more,
    /// without it.
    async fn read(&mut self) -> Result<Option<RawPartition>, sstable::Error> {
        let (start, before) = (self.scanner.position(), self.seen.last.clone());
        let mut part = Verdict::default();
        let mut read = partition(self.raw, &mut self.scanner, &mut self.seen, &mut part).await;
        if read.is_err() && !self.closely {
            self.closely = true;
            self.scanner = self.raw.scan_closely(start);
            (self.seen.last, part) = (before, Verdict::default());
            read = partition(self.raw, &mut self.scanner, &mut self.seen, &mut part).await;
        }
        self.verdict.partitions += part.partitions;
        self.verdict.rows += part.rows;
        part.damages.iter().for_each(|text| self.verdict.damage(text));
        self.verdict.more += part.more;
        read
    }
}

/// Reads one partition whole. Errors: damage that keeps it from being read to its end.
async fn partition(
    raw: &Rc<Raw>,
    scanner: &mut RawScanner,
    seen: &mut Seen,
    verdict: &mut Verdict,
) -> Result<Option<RawPartition>, sstable::Error> {
    let Some(read) = scanner.partition().await? else { return Ok(None) };
    let table = raw.table().clone();
    let head = format!("\"{}\", partition \"{}\"", raw.data_path().display(), keys::text(&table, &read.key));
    let mut damage = |at: u64, what: &str| verdict.damage(format_args!("{head}, at offset {at}: {what}"));
    if table.split_key(&read.key).is_err() {
        damage(read.position, "a key that does not divide into its columns");
    }
    let order = (read.token, read.key.clone());
    if seen.last.as_ref().is_some_and(|last| *last >= order) {
        damage(read.position, "it is not behind the partition before");
    }
    seen.first.get_or_insert_with(|| read.key.clone());
    seen.last = Some(order);
    seen.deletion(read.deletion);
    let mut rows = 0;
    if !read.static_row.is_empty() {
        rows += 1;
        let row = RowView::new(&read.static_row);
        seen.row(&row);
        misfit(&table, &row, true).iter().for_each(|what| damage(read.position, what));
    }
    let mut last: Option<Position> = None;
    let mut open: Option<Deletion> = None;
    while let Some(item) = scanner.item().await? {
        let (at, place) = match &item {
            RawItem::Row { position, clustering, .. } => (*position, table.position(clustering)),
            RawItem::Marker { position, prefix, side, .. } => {
                (*position, table.bound_position(prefix, *side))
            }
        };
        match place {
            Ok(place) if last.as_ref().is_some_and(|last| *last >= place) => {
                damage(at, "a row or marker that is not behind the one before");
            }
            Ok(place) => last = Some(place),
            Err(error) => damage(at, &error.to_string()),
        }
        match item {
            RawItem::Row { clustering, body, .. } => {
                rows += 1;
                let row = RowView::new(&body);
                seen.row(&row);
                let what = misfit(&table, &row, false).or_else(|| misfit_key(&table, &clustering));
                what.iter().for_each(|what| damage(at, what));
            }
            RawItem::Marker { ends, starts, .. } => {
                if open.map(|open| open.timestamp) != ends.map(|ends| ends.timestamp) {
                    damage(at, "a marker that does not end the range tombstone that is open");
                }
                ends.into_iter().chain(starts).for_each(|deletion| seen.deletion(deletion));
                open = starts;
            }
        }
    }
    if open.is_some() {
        damage(scanner.position(), "a range tombstone without an end");
    }
    verdict.partitions += 1;
    verdict.rows += rows;
    Ok(Some(read))
}

/// What is wrong with a clustering key, in words.
fn misfit_key(table: &Table, wire: &[u8]) -> Option<String> {
    let mut values = clustering_components(wire).zip(&table.clustering);
    values.find_map(|(value, column)| {
        let value = value.ok()??;
        if value.is_empty() {
            return None;
        }
        let error = column.ty.validate(value).err()?;
        Some(format!("clustering column {}: {error}", column.name))
    })
}

/// What is wrong with the values of a row, in words.
fn misfit(table: &Table, row: &RowView<'_>, is_static: bool) -> Option<String> {
    row.columns().find_map(|(ordinal, held)| {
        let column = table.column_by_ordinal(is_static, ordinal)?;
        // Contexts of counters are no values; some types take no empty values, but tables of old have them.
        let wrong = |ty: &types::CqlType, cell: &Cell<'_>| {
            let value = cell.value.filter(|value| !value.is_empty() && !ty.is_counter())?;
            ty.validate(value).err()
        };
        let error = match held {
            ColumnView::Simple(cell) => wrong(&column.ty, &cell),
            ColumnView::Complex(complex) => complex
                .cells()
                .find_map(|(path, cell)| wrong(crate::dump::cell_type(&column.ty, Some(path))?, &cell)),
        };
        error.map(|error| format!("column {}: {error}", column.name))
    })
}

/// Whether the statistics say what the data says: they may be wider, never narrower.
fn plausible(statistics: &Statistics, seen: &Seen, place: &Place, verdict: &mut Verdict) {
    let stats = &statistics.stats;
    let file = place.file(Component::Statistics);
    let mut damage = |what: String| verdict.damage(format_args!("\"{}\": {what}", file.display()));
    if let Some((least, most)) = seen.timestamps
        && (least < stats.min_timestamp || most > stats.max_timestamp)
    {
        let (from, to) = (stats.min_timestamp, stats.max_timestamp);
        damage(format!("timestamps from {from} to {to} where there are some from {least} to {most}"));
    }
    if let Some((least, most)) = seen.local_times
        && (least < stats.min_local_time || most > stats.max_local_time)
    {
        let shown = |time: u32| if time == NO_TIME { "none".to_string() } else { time.to_string() };
        let (from, to) = (shown(stats.min_local_time), shown(stats.max_local_time));
        let (least, most) = (shown(least), shown(most));
        damage(format!(
            "local deletion times from {from} to {to} where there are some from {least} to {most}"
        ));
    }
    if let Some((_, most)) = seen.ttls
        && most > stats.max_ttl
    {
        damage(format!("ttls up to {} where there is one of {most}", stats.max_ttl));
    }
    if let (Some((first, last)), true) = (&stats.keys, seen.whole)
        && (seen.first.as_ref() != Some(first) || seen.last.as_ref().map(|(_, key)| key) != Some(last))
    {
        damage("its first and last keys are not those of the data".into());
    }
    if seen.whole && stats.partition_sizes.count() != verdict.partitions {
        let (told, read) = (stats.partition_sizes.count(), verdict.partitions);
        verdict.damage(format_args!("\"{}\": {told} partitions where there are {read}", file.display()));
    }
}
