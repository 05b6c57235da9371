//! The mixed load: workers that look up, list, register, move, delete and restore, and know every answer beforehand.

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::generate::{FileFacts, Generator};
use crate::limits::NAMES_TOLD;
use crate::lookup::Whereabouts;
use crate::model::{Model, Spot, quotas_of};
use crate::path;
use crate::quota::Quotas;
use crate::record::{Location, Locations};
use crate::tables::Entry;
use base::{Instant, Prng};
use loadtools::measure::{Done, Metrics, Snapshot};
use loadtools::output::Output;
use runtime::Group;
use runtime::sync::Flag;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// Kinds of operation and how often they are drawn, of a hundred.
pub const MIX: [(&str, u64); 7] =
    [("path", 60), ("guid", 15), ("list", 10), ("register", 10), ("move", 2), ("delete", 2), ("restore", 1)];
/// Lookups of what is not there.
const ABSENT: f64 = 0.05;
/// Moves of a folder with all below it.
const FOLDER_MOVES: f64 = 0.1;
/// Entries of a listing.
const LISTED: usize = 100;
/// How often the terminal is told how things stand.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// How the load goes.
#[derive(Clone, Copy, Debug)]
pub struct OperateOptions {
    /// Workers: operations on their way at a time.
    pub workers: usize,
    /// How long operations begin.
    pub duration: Duration,
    /// Decides what is done.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Operated {
    /// Rates and latencies, by kind.
    pub snapshot: Snapshot,
    /// Answers that were not what they should be.
    pub mismatches: u64,
    /// The first of them, and what ended a worker.
    pub told: Vec<String>,
    /// What owners should have now.
    pub quotas: Quotas,
}

impl Operated {
    /// Whether every answer was right and none was missing.
    pub fn is_clean(&self) -> bool {
        self.mismatches == 0 && self.snapshot.total.errors == 0
    }
}

/// What workers share.
struct Shared {
    catalogue: Rc<Catalogue>,
    metrics: RefCell<Metrics>,
    end: Instant,
    mismatches: Cell<u64>,
    told: RefCell<Vec<String>>,
    over: Flag,
}

impl Shared {
    fn tell(&self, text: String) {
        let mut told = self.told.borrow_mut();
        if told.len() < NAMES_TOLD {
            told.push(text);
        }
    }
}

/// Runs the load on a catalogue that is as the generator made it. Errors: none but of the options; what fails is counted.
pub async fn operate(
    catalogue: &Rc<Catalogue>,
    generator: &Rc<Generator>,
    options: OperateOptions,
    output: &Rc<Output>,
) -> Result<Operated, Error> {
    if options.workers == 0 {
        return Err(Error::Option("the load needs a worker at least".into()));
    }
    let mut quotas = quotas_of(generator).await;
    let workers = options.workers.min(generator.runs());
    let start = runtime::now();
    let shared = Rc::new(Shared {
        catalogue: catalogue.clone(),
        metrics: RefCell::new(Metrics::new(
            MIX.iter().map(|(name, _)| (*name).to_owned()).collect(),
            start.0,
        )),
        end: start + options.duration,
        mismatches: Cell::new(0),
        told: RefCell::default(),
        over: Flag::new(),
    });
    let telling = runtime::spawn(Group::MAIN, tell(shared.clone(), output.clone()));
    let mut seeds = Prng::new(options.seed);
    let tasks: Vec<_> = (0..workers)
        .map(|worker| {
            let model = Model::new(generator.clone(), worker, workers);
            let worker = Worker { shared: shared.clone(), model, prng: seeds.fork() };
            runtime::spawn(Group::QUERY, worker.run())
        })
        .collect();
    for task in tasks {
        task.await.count(&mut quotas);
    }
    let snapshot = shared.metrics.borrow_mut().snapshot(runtime::now().0);
    shared.over.set();
    telling.await;
    let told = shared.told.take();
    Ok(Operated { snapshot, mismatches: shared.mismatches.get(), told, quotas })
}

async fn tell(shared: Rc<Shared>, output: Rc<Output>) {
    while runtime::timeout(TOLD_EVERY, shared.over.wait()).await.is_err() {
        if output.is_live() {
            let standing = shared.metrics.borrow().standing(runtime::now().0, false);
            output.status(&standing.line(None));
        }
    }
}

/// One operation after the other, on runs of its own.
struct Worker {
    shared: Rc<Shared>,
    model: Model,
    prng: Prng,
}

/// What came of an operation: rows it touched, or what was not as it should be.
type Outcome = Result<u64, Wrong>;

enum Wrong {
    /// The answer is not what it should be.
    Answer(String),
    /// There is no answer.
    Failed(Error),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        Wrong::Failed(error)
    }
}

fn expected(is: bool, text: impl FnOnce() -> String) -> Result<(), Wrong> {
    if is { Ok(()) } else { Err(Wrong::Answer(text())) }
}

impl Worker {
    async fn run(mut self) -> Model {
        while runtime::now() < self.shared.end && !runtime::shutdown_is_requested() {
            let kind = self.draw();
            let started = runtime::now().0;
            let outcome = self.one(kind).await;
            let failed = matches!(outcome, Err(Wrong::Failed(_)));
            let rows = *outcome.as_ref().unwrap_or(&0);
            let done = Done { intended: None, started, ended: runtime::now().0, partitions: 1, rows, failed };
            self.shared.metrics.borrow_mut().record(kind, &done);
            match outcome {
                Ok(_) => {}
                Err(Wrong::Answer(text)) => {
                    self.shared.mismatches.set(self.shared.mismatches.get() + 1);
                    self.shared.tell(format!("{}: {text}", MIX[kind].0));
                }
                // It may have been done or not: nothing is known of what comes after.
                Err(Wrong::Failed(error)) => {
                    self.shared.tell(format!("{}: {error}", MIX[kind].0));
                    break;
                }
            }
        }
        self.model
    }

    fn draw(&mut self) -> usize {
        let mut at = self.prng.below(MIX.iter().map(|(_, weight)| weight).sum());
        for (kind, (_, weight)) in MIX.iter().enumerate() {
            if at < *weight {
                return kind;
            }
            at -= weight;
        }
        0
    }

    async fn one(&mut self, kind: usize) -> Outcome {
        match MIX[kind].0 {
            "guid" => self.look_up_guid().await,
            "list" => self.list().await,
            "register" => self.register().await,
            "move" if self.prng.chance(FOLDER_MOVES) => self.move_run().await,
            "move" => self.move_file().await,
            "delete" => self.delete().await,
            "restore" => self.restore().await,
            _ => self.look_up().await,
        }
    }

    async fn look_up(&mut self) -> Outcome {
        let file = self.model.file(&mut self.prng);
        let (folder, name) = match self.model.spot(&file) {
            Spot::Folder(folder, name) => (folder, name),
            // Where it was it is not.
            Spot::Trash(origin, ..) => return self.look_up_nothing(&origin).await,
        };
        let path = path::join(&self.model.folder_path(folder), &name);
        if self.prng.chance(ABSENT) {
            return self.look_up_nothing(&format!("{path}.absent")).await;
        }
        let found = self.shared.catalogue.look_up(&path).await?;
        expected(found.as_ref() == Some(&entry_of(&file)), || {
            format!("{path}: {found:?} instead of {file:?}")
        })?;
        Ok(1)
    }

    async fn look_up_nothing(&mut self, path: &str) -> Outcome {
        let found = self.shared.catalogue.look_up(path).await?;
        expected(found.is_none(), || format!("{path}: {found:?} instead of nothing"))?;
        Ok(0)
    }

    async fn look_up_guid(&mut self) -> Outcome {
        let file = self.model.file(&mut self.prng);
        if self.prng.chance(ABSENT) {
            let other = Uuid::from_u128(file.guid.as_u128() ^ 1 << 47);
            let found = self.shared.catalogue.look_up_guid(&other).await?;
            expected(found.is_none(), || format!("{other}: {found:?} instead of nothing"))?;
            return Ok(0);
        }
        let at = match self.model.spot(&file) {
            Spot::Folder(folder, name) => {
                Whereabouts::Path(path::join(&self.model.folder_path(folder), &name))
            }
            Spot::Trash(..) => Whereabouts::Trash,
        };
        let mut locations: Vec<Location> = Locations::new(&file.locations).flatten().collect();
        locations.sort();
        let found = self.shared.catalogue.look_up_guid(&file.guid).await?;
        let is = found.as_ref().is_some_and(|found| {
            found.at == at && found.entry == entry_of(&file) && found.locations == locations
        });
        expected(is, || format!("{}: {found:?} instead of {at:?} {file:?}", file.guid))?;
        Ok(1)
    }

    async fn list(&mut self) -> Outcome {
        let folder = self.model.folder(&mut self.prng);
        let after = match self.prng.chance(0.5) {
            true => String::new(),
            false => self.model.file(&mut self.prng).name.clone(),
        };
        let path = self.model.folder_path(folder);
        let found = self.shared.catalogue.list(&path, &after, LISTED).await?;
        let wanted = self.model.list(folder, &after, LISTED);
        let same = |((name, entry), (wanted, file)): (&(String, Entry), &(String, Rc<FileFacts>))| {
            name == wanted && *entry == entry_of(file)
        };
        let is = found.len() == wanted.len() && found.iter().zip(&wanted).all(same);
        expected(is, || format!("{path} after \"{after}\": {found:?} instead of {wanted:?}"))?;
        Ok(found.len() as u64)
    }

    async fn register(&mut self) -> Outcome {
        let folder = self.model.folder(&mut self.prng);
        let file = self.model.new_file(folder, &mut self.prng);
        let path = path::join(&self.model.folder_path(folder), &file.name);
        self.shared.catalogue.register(&file.record(&path)).await?;
        self.model.was_registered(folder, file);
        Ok(1)
    }

    async fn move_file(&mut self) -> Outcome {
        let Some((file, folder, name)) = self.model.live_file(&mut self.prng) else {
            return self.look_up().await;
        };
        let target = self.model.folder(&mut self.prng);
        let new = self.model.new_name(&mut self.prng);
        let from = path::join(&self.model.folder_path(folder), &name);
        let to = path::join(&self.model.folder_path(target), &new);
        self.shared.catalogue.move_to(&from, &to).await?;
        self.model.was_moved(&file, (folder, &name), (target, new));
        Ok(1)
    }

    async fn move_run(&mut self) -> Outcome {
        let (run, to) = self.model.new_run_path(&mut self.prng);
        let from = self.model.run_path(run);
        self.shared.catalogue.move_to(&from, &to).await?;
        self.model.run_moved(run, to);
        Ok(1)
    }

    async fn delete(&mut self) -> Outcome {
        let Some((file, folder, name)) = self.model.live_file(&mut self.prng) else {
            return self.look_up().await;
        };
        let path = path::join(&self.model.folder_path(folder), &name);
        let deleted = self.shared.catalogue.delete(&path).await?;
        self.model.was_deleted(&file, (folder, name), path.clone());
        expected(deleted == entry_of(&file), || format!("{path}: {deleted:?} instead of {file:?}"))?;
        Ok(1)
    }

    async fn restore(&mut self) -> Outcome {
        let Some((at, file, origin, is_there)) = self.model.trashed(&mut self.prng) else {
            return self.look_up().await;
        };
        match self.shared.catalogue.restore(&file.owner, &file.guid).await {
            Ok(path) => {
                self.model.was_restored(at);
                expected(is_there && path == origin, || format!("{path} instead of {origin}, if at all"))?;
            }
            // Its folder has moved away.
            Err(Error::NotFound(_)) if !is_there => {}
            Err(Error::NotFound(text)) => return Err(Wrong::Answer(format!("{text} does not exist"))),
            Err(error) => return Err(error.into()),
        }
        Ok(1)
    }
}

fn entry_of(file: &FileFacts) -> Entry {
    Entry {
        is_folder: false,
        id: file.guid,
        owner: file.owner.clone(),
        permissions: file.permissions,
        size: file.size,
        changed: file.changed,
    }
}
