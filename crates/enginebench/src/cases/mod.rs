//! The cases by name, and how they run.

mod backlog;
mod cached;
mod columns;
mod compaction;
mod counters;
mod directory;
mod disk;
mod eviction;
mod full_disk;
mod large;
mod log;
mod memory;
mod restart;
mod sizes;
mod tombstones;

use crate::Options;
use crate::meter::Cost;
use schema::Table;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use storage::Store;

/// One case: M memory and writes, R cached reads, D disk reads, C commitlog, F flush, K compaction, T tombstones,
/// N counters, X the rest.
pub struct Case {
    /// Its name, such as `M1`.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Does it.
    pub run: fn(Bench) -> Running,
}

/// A case that runs.
pub type Running = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// A case as the list of its part names it.
fn boxed(future: impl Future<Output = Result<(), String>> + 'static) -> Running {
    Box::pin(future)
}

/// All cases; a part of the engine adds its module's list here.
const PARTS: &[&[Case]] = &[
    memory::CASES,
    directory::CASES,
    cached::CASES,
    columns::CASES,
    eviction::CASES,
    disk::CASES,
    log::CASES,
    large::CASES,
    compaction::CASES,
    backlog::CASES,
    full_disk::CASES,
    tombstones::CASES,
    counters::CASES,
    sizes::CASES,
    restart::CASES,
];

/// All cases, part by part.
pub fn all() -> impl Iterator<Item = &'static Case> {
    PARTS.iter().copied().flatten()
}

/// What the engine must reach.
#[derive(Clone, Copy)]
pub enum Bar {
    /// No more than that.
    AtMost(f64),
    /// No less than that.
    AtLeast(f64),
}

/// What a case is given.
pub struct Bench {
    /// The command line.
    pub options: Options,
    /// An empty folder.
    pub folder: PathBuf,
    name: &'static str,
}

impl Bench {
    /// [`settings`](crate::engine::settings) in its folder, with the format asked for.
    pub fn settings(&self) -> storage::Settings {
        crate::engine::settings(&self.folder, self.options.format)
    }

    /// A store with one table in its folder, and a row cache of so many bytes.
    pub async fn open(&self, table: &Arc<Table>, cache_bytes: u64) -> Result<Rc<Store>, String> {
        let settings = storage::Settings { row_cache_bytes: cache_bytes, ..self.settings() };
        crate::engine::open(settings, std::slice::from_ref(table)).await
    }

    /// Ends a store and empties its folder for the next one.
    pub async fn end(&self, store: Rc<Store>) -> Result<(), String> {
        store.drain().await.map_err(crate::engine::told)?;
        drop(store);
        empty(&self.folder)
    }

    /// Prints one line of the result: costs of one kind of operation.
    pub fn cost(&self, what: &str, cost: Cost) {
        println!("| {} | {what} | {} |  |", self.name, cost.columns());
    }

    /// Prints one line of the result that is not a cost per operation.
    pub fn fact(&self, what: &str, value: &str) {
        println!("| {} | {what} |  |  |  |  | {value} |", self.name);
    }

    /// Prints one line of the result: whether a number reaches its bar.
    pub fn bar(&self, what: &str, value: f64, bar: Bar) {
        let (is_met, sign, limit) = match bar {
            Bar::AtMost(limit) => (value <= limit, '≤', limit),
            Bar::AtLeast(limit) => (value >= limit, '≥', limit),
        };
        let met = if is_met { "met" } else { "NOT MET" };
        let digits = if value < 10.0 { 2 } else { 0 };
        self.fact(&format!("bar: {what}"), &format!("{met}: {value:.digits$} {sign} {limit}"));
    }
}

/// Runs the cases that were asked for, in order.
pub async fn run(options: &Options) -> Result<(), String> {
    println!("| case | what | operations | processor, ns each | clock, ns each | allocations each | |");
    println!("|---|---|---:|---:|---:|---:|---|");
    // R1 is that case; R stands for all that begin with it.
    let is_name = |name: &str| all().any(|case| case.name == name);
    let means = |name: &String, case: &Case| {
        if is_name(name) { case.name == name } else { case.name.starts_with(name.as_str()) }
    };
    let wanted =
        |case: &&Case| options.cases.is_empty() || options.cases.iter().any(|name| means(name, case));
    let mut any = false;
    for case in all().filter(wanted) {
        any = true;
        let folder = options.folder.join(case.name);
        empty(&folder)?;
        let bench = Bench { options: options.clone(), folder: folder.clone(), name: case.name };
        (case.run)(bench).await.map_err(|error| format!("{}: {error}", case.name))?;
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    if any { Ok(()) } else { Err(format!("no such case: {}", options.cases.join(" "))) }
}

/// Makes the folders of a store, with nothing in them.
pub fn empty(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(failed)?;
    }
    for part in ["data", "commitlog"] {
        std::fs::create_dir_all(folder.join(part)).map_err(failed)?;
    }
    Ok(())
}
