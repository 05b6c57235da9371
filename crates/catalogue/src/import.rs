//! Bulk import: blocks of rows of one folder, many on their way at a time, each the index first and then the entries.
//!
//! ```text
//!  file ── reader ──► block of ≤ 64 rows of a folder ──► a batch for each partition of the index ──► a batch for the folder
//! ```
//! An import that was cut off is begun again from its start: what was written is written again and is the same.

use crate::catalogue::Catalogue;
use crate::change::{put_file, put_guid};
use crate::error::Error;
use crate::input::{Format, Source};
use crate::limits::PARTITION_ENTRIES;
use crate::path;
use crate::placement::{GuidPlace, bucket, guid_place};
use crate::record::Block;
use crate::tables::Ask;
use crate::tally::{EntryFacts, Tally, index_hash, locations_hash, part_of};
use base::{HashMap, Instant};
use loadtools::java::{fixed, grouped};
use loadtools::output::Output;
use protocol::request::BatchKind;
use protocol::values::ValuesBuilder;
use runtime::Group;
use runtime::sync::{Flag, Lock};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// How often the terminal is told how far the import is.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What is imported, and how.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The file.
    pub file: String,
    /// What it is.
    pub format: Format,
    /// Of a dump, the table whose rows are wanted.
    pub table: String,
    /// Blocks on their way at a time.
    pub blocks: usize,
}

/// What the rows of a file amount to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Their entries.
    pub entries: Tally,
    /// What the index should say of them.
    pub index: Tally,
}

impl Sums {
    /// Counts the rows of a block.
    pub fn add(&mut self, block: &Block, scratch: &mut Vec<u8>) {
        for nth in 0..block.len() {
            let record = block.record(nth);
            let part = part_of(record.path);
            self.entries.add(part, EntryFacts::of(&record).hash(scratch));
            let locations = locations_hash(record.locations, scratch);
            self.index.add(part, index_hash(&record.guid, record.path, locations, scratch));
        }
    }
}

/// What came of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Rows.
    pub rows: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// What they amount to.
    pub sums: Sums,
    /// Requests that were made more than once.
    pub retried: u64,
    /// Milliseconds of this process's processors, all told.
    pub cpu_ms: u64,
}

impl Imported {
    /// Rows in a second.
    pub fn rate(&self) -> f64 {
        self.rows as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Microseconds of this process's processors for a row.
    pub fn cpu_us(&self) -> f64 {
        self.cpu_ms as f64 * 1e3 / self.rows.max(1) as f64
    }

    /// In a line.
    pub fn line(&self) -> String {
        format!(
            "{} rows in {} s, {} rows/s, {} us of this process's processors for a row, {} requests made again",
            grouped(self.rows),
            fixed(self.elapsed.as_secs_f64(), 1, false),
            fixed(self.rate(), 0, true),
            fixed(self.cpu_us(), 2, false),
            grouped(self.retried)
        )
    }
}

/// What the tasks of an import share.
struct Import {
    catalogue: Rc<Catalogue>,
    source: Lock<Source>,
    sums: RefCell<Sums>,
    rows: Cell<u64>,
    /// Rows of each folder in this import, from which its partitions follow.
    counts: RefCell<HashMap<Uuid, u64>>,
    failed: RefCell<Option<Error>>,
    over: Flag,
}

/// Imports a file. Errors: of the file, with its line; of the database, after all tries. Rows up to there may be there.
pub async fn import(
    catalogue: &Rc<Catalogue>,
    options: &ImportOptions,
    output: &Rc<Output>,
) -> Result<Imported, Error> {
    let source = Source::open(&options.file, options.format, &options.table).await?;
    let shared = Rc::new(Import {
        catalogue: catalogue.clone(),
        source: Lock::new(source),
        sums: RefCell::default(),
        rows: Cell::new(0),
        counts: RefCell::default(),
        failed: RefCell::default(),
        over: Flag::new(),
    });
    let (start, retried, cpu_ms) = (runtime::now(), catalogue.session.retried(), crate::process::cpu_ms());
    let telling = runtime::spawn(Group::MAIN, tell(shared.clone(), output.clone(), start));
    let tasks: Vec<_> = (0..options.blocks.max(1))
        .map(|_| runtime::spawn(Group::QUERY, Worker::new(shared.clone()).run()))
        .collect();
    for task in tasks {
        task.await;
    }
    let elapsed = runtime::now() - start;
    shared.over.set();
    telling.await;
    if let Some(error) = shared.failed.borrow_mut().take() {
        return Err(error);
    }
    Ok(Imported {
        rows: shared.rows.get(),
        elapsed,
        sums: shared.sums.take(),
        retried: catalogue.session.retried() - retried,
        cpu_ms: crate::process::cpu_ms() - cpu_ms,
    })
}

/// Shows how far the import is, where somebody watches.
async fn tell(shared: Rc<Import>, output: Rc<Output>, start: Instant) {
    let mut rows = 0;
    while runtime::timeout(TOLD_EVERY, shared.over.wait()).await.is_err() {
        if !output.is_live() {
            continue;
        }
        let Ok((read, size)) = shared.source.lock().await.progress().await else { return };
        let now = shared.rows.get();
        let share = 100.0 * read as f64 / size.max(1) as f64;
        output.status(&format!(
            "{:>3} %  {} rows  {} rows/s  {} s",
            share as u64,
            grouped(now),
            grouped(now - rows),
            (runtime::now() - start).as_secs()
        ));
        rows = now;
    }
}

/// One block at a time, with memory for its requests.
struct Worker {
    shared: Rc<Import>,
    block: Block,
    scratch: Vec<u8>,
    guids: Vec<ValuesBuilder>,
    entries: Vec<ValuesBuilder>,
    /// Rows by their partition of the index.
    places: Vec<(GuidPlace, usize)>,
    /// Rows by their partition of the folder.
    buckets: Vec<(i32, usize)>,
}

impl Worker {
    fn new(shared: Rc<Import>) -> Worker {
        Worker {
            shared,
            block: Block::default(),
            scratch: Vec::new(),
            guids: Vec::new(),
            entries: Vec::new(),
            places: Vec::new(),
            buckets: Vec::new(),
        }
    }

    async fn run(mut self) {
        while self.shared.failed.borrow().is_none() {
            match self.one().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.shared.failed.borrow_mut().get_or_insert(error);
                }
            }
        }
    }

    /// Imports the next block; false when there is none.
    async fn one(&mut self) -> Result<bool, Error> {
        {
            let mut source = self.shared.source.lock().await;
            // Others have found the file wrong: what follows makes no sense either.
            if self.shared.failed.borrow().is_some() {
                return Ok(false);
            }
            let read = source.next_block(&mut self.block).await;
            if let Err(error) = read {
                self.shared.failed.borrow_mut().get_or_insert(error);
                return Ok(false);
            }
        }
        if self.block.is_empty() {
            return Ok(false);
        }
        self.shared.sums.borrow_mut().add(&self.block, &mut self.scratch);
        self.write().await?;
        self.shared.rows.set(self.shared.rows.get() + self.block.len() as u64);
        Ok(true)
    }

    async fn write(&mut self) -> Result<(), Error> {
        let catalogue = self.shared.catalogue.clone();
        let folder = catalogue.make_folder(self.block.folder()).await?;
        let rows = self.block.len();
        let count = {
            let mut counts = self.shared.counts.borrow_mut();
            let count = counts.entry(folder.id).or_insert(0);
            *count += rows as u64;
            *count
        };
        if PARTITION_ENTRIES * u64::from(folder.partitions) < count {
            catalogue.grow(&folder).await?;
        }
        self.bind(&folder.id, folder.partitions)?;
        let session = catalogue.session.clone();
        let timestamp = session.timestamp();
        for rows in self.places.chunk_by(|(left, _), (right, _)| left == right) {
            let writes: Vec<_> = rows.iter().map(|(_, row)| (Ask::PutGuid, &self.guids[*row])).collect();
            session.batch(BatchKind::Unlogged, &writes, timestamp).await?;
        }
        for rows in self.buckets.chunk_by(|(left, _), (right, _)| left == right) {
            let writes: Vec<_> = rows.iter().map(|(_, row)| (Ask::PutEntry, &self.entries[*row])).collect();
            session.batch(BatchKind::Unlogged, &writes, timestamp).await?;
        }
        Ok(())
    }

    /// Binds the rows of the block, and puts them in the order of their partitions.
    fn bind(&mut self, folder: &Uuid, partitions: u32) -> Result<(), Error> {
        let rows = self.block.len();
        self.guids.resize_with(rows.max(self.guids.len()), ValuesBuilder::new);
        self.entries.resize_with(rows.max(self.entries.len()), ValuesBuilder::new);
        self.places.clear();
        self.buckets.clear();
        for row in 0..rows {
            let record = self.block.record(row);
            let (_, name) = path::split_entry(record.path)?;
            let bucket = bucket(name, partitions);
            self.guids[row].clear();
            put_guid(&record, folder, name, &mut self.scratch, &mut self.guids[row])?;
            self.entries[row].clear();
            put_file(&record, (folder, bucket, name), &mut self.entries[row]);
            self.places.push((guid_place(&record.guid)?, row));
            self.buckets.push((bucket, row));
        }
        self.places.sort_unstable();
        self.buckets.sort_unstable();
        Ok(())
    }
}
