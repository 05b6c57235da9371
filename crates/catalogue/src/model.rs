//! What the files of some runs are and where, by what the generator made and what one worker has done since. No other worker touches
//! these runs, so every answer about them is known beforehand.

use crate::generate::{FileFacts, Generator, KINDS};
use crate::path;
use crate::quota::Quotas;
use crate::record::put_location;
use base::{HashMap, Prng};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use types::timeuuid;
use uuid::Uuid;

/// Of random files, the share of those that are not as the generator made them.
const TOUCHED: f64 = 0.2;
/// Hosts of workers: the generator's have the bit above them unset.
const WORKER_HOST: u64 = 3 << 40;

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// In a folder of the generator's number, under a name.
    Folder(usize, String),
    /// In the trash; the path it had, the folder and the name.
    Trash(String, usize, String),
}

/// What one worker knows.
pub struct Model {
    generator: Rc<Generator>,
    worker: u64,
    /// Its runs.
    runs: Vec<usize>,
    /// Runs that were moved.
    paths: HashMap<usize, String>,
    /// By folder, names that are not what the generator says: another file's, or nobody's.
    changes: HashMap<usize, BTreeMap<String, Option<Rc<FileFacts>>>>,
    /// Files that are not where the generator says, or that it does not know.
    spots: HashMap<Uuid, Spot>,
    /// Those, in the order in which they were touched.
    touched: Vec<Rc<FileFacts>>,
    /// Those in the trash.
    trash: Vec<Rc<FileFacts>>,
    /// Changes so far: each makes a name.
    count: u64,
    /// Files that the generator does not know.
    registered: Vec<Rc<FileFacts>>,
}

impl Model {
    /// Of worker number `worker` of so many.
    pub fn new(generator: Rc<Generator>, worker: usize, of: usize) -> Model {
        Model {
            runs: (worker..generator.runs()).step_by(of).collect(),
            generator,
            worker: worker as u64,
            paths: HashMap::default(),
            changes: HashMap::default(),
            spots: HashMap::default(),
            touched: Vec::new(),
            trash: Vec::new(),
            count: 0,
            registered: Vec::new(),
        }
    }

    fn run(&self, prng: &mut Prng) -> usize {
        self.runs[prng.below(self.runs.len() as u64) as usize]
    }

    /// A folder of files.
    pub fn folder(&self, prng: &mut Prng) -> usize {
        let first = self.run(prng) * KINDS.len();
        let folders = KINDS.len().min(self.generator.folders() - first);
        first + prng.below(folders as u64) as usize
    }

    /// The path of a run now.
    pub fn run_path(&self, run: usize) -> String {
        self.paths.get(&run).cloned().unwrap_or_else(|| self.generator.run_path(run))
    }

    /// The path of a folder now.
    pub fn folder_path(&self, folder: usize) -> String {
        path::join(&self.run_path(folder / KINDS.len()), KINDS[folder % KINDS.len()])
    }

    /// A file, sometimes one that is not as it was made.
    pub fn file(&self, prng: &mut Prng) -> Rc<FileFacts> {
        if !self.touched.is_empty() && prng.chance(TOUCHED) {
            return self.touched[prng.below(self.touched.len() as u64) as usize].clone();
        }
        let range = self.generator.files_of(self.folder(prng));
        Rc::new(self.generator.file(prng.range(range.start, range.end)))
    }

    /// A file that is not in the trash; nothing where chance finds none.
    pub fn live_file(&self, prng: &mut Prng) -> Option<(Rc<FileFacts>, usize, String)> {
        let file = self.file(prng);
        match self.spot(&file) {
            Spot::Folder(folder, name) => Some((file, folder, name)),
            Spot::Trash(..) => None,
        }
    }

    /// Where a file is.
    pub fn spot(&self, file: &FileFacts) -> Spot {
        if let Some(spot) = self.spots.get(&file.guid) {
            return spot.clone();
        }
        Spot::Folder(file.folder, file.name.clone())
    }

    /// A name that nobody has, anywhere among those of a folder.
    pub fn new_name(&mut self, prng: &mut Prng) -> String {
        self.count += 1;
        format!("{:05}.w{}.{}.root", prng.below(100), self.worker, self.count)
    }

    /// A file that nobody knows yet, to be registered in a folder.
    pub fn new_file(&mut self, folder: usize, prng: &mut Prng) -> FileFacts {
        let name = self.new_name(prng);
        let ticks = self.generator.begun(folder) + 600_000_000 + self.count as i64;
        let guid = timeuuid::from_ticks(ticks, WORKER_HOST | self.worker << 28 | self.count & 0xFFF_FFFF);
        let mut locations = String::new();
        put_location("ALICE::NEW::DISK", &format!("root://new.example.org//{guid}"), &mut locations);
        let owner = self.generator.file_in(folder, 0).owner;
        FileFacts {
            folder,
            name,
            owner,
            permissions: 0o640,
            size: prng.below(1 << 40) as i64,
            changed: ticks.div_euclid(10_000),
            guid,
            locations,
        }
    }

    /// Another path for a run, in the folder of a run of the generator's.
    pub fn new_run_path(&mut self, prng: &mut Prng) -> (usize, String) {
        let (run, beside) = (self.run(prng), self.run(prng));
        self.count += 1;
        let path = self.generator.run_path(beside);
        let above = path::split(&path).map_or(path::ROOT, |(folder, _)| folder);
        (run, path::join(above, &format!("moved.w{}.{}", self.worker, self.count)))
    }

    /// A run was moved.
    pub fn run_moved(&mut self, run: usize, path: String) {
        self.paths.insert(run, path);
    }

    /// A file was registered.
    pub fn was_registered(&mut self, folder: usize, file: FileFacts) {
        let file = Rc::new(file);
        self.registered.push(file.clone());
        let name = file.name.clone();
        self.put(&file, folder, name);
    }

    /// A file was moved.
    pub fn was_moved(&mut self, file: &Rc<FileFacts>, from: (usize, &str), to: (usize, String)) {
        self.changes.entry(from.0).or_default().insert(from.1.to_owned(), None);
        self.put(file, to.0, to.1);
    }

    /// A file was deleted from a path.
    pub fn was_deleted(&mut self, file: &Rc<FileFacts>, from: (usize, String), origin: String) {
        let (folder, name) = from;
        self.changes.entry(folder).or_default().insert(name.clone(), None);
        self.touch(file, Spot::Trash(origin, folder, name));
        self.trash.push(file.clone());
    }

    /// A file of the trash, with the path it will have again and whether that can be.
    pub fn trashed(&self, prng: &mut Prng) -> Option<(usize, Rc<FileFacts>, String, bool)> {
        if self.trash.is_empty() {
            return None;
        }
        let at = prng.below(self.trash.len() as u64) as usize;
        let file = self.trash[at].clone();
        let Some(Spot::Trash(origin, folder, name)) = self.spots.get(&file.guid) else { return None };
        let is_there = *origin == path::join(&self.folder_path(*folder), name);
        Some((at, file, origin.clone(), is_there))
    }

    /// A file came back, by its place among those in the trash.
    pub fn was_restored(&mut self, at: usize) {
        let file = self.trash.swap_remove(at);
        if let Some(Spot::Trash(_, folder, name)) = self.spots.get(&file.guid).cloned() {
            self.put(&file, folder, name);
        }
    }

    fn put(&mut self, file: &Rc<FileFacts>, folder: usize, name: String) {
        self.changes.entry(folder).or_default().insert(name.clone(), Some(file.clone()));
        self.touch(file, Spot::Folder(folder, name));
    }

    fn touch(&mut self, file: &Rc<FileFacts>, spot: Spot) {
        if self.spots.insert(file.guid, spot).is_none() {
            self.touched.push(file.clone());
        }
    }

    /// The files of a folder behind a name, by their names, at most so many.
    pub fn list(&self, folder: usize, after: &str, limit: usize) -> Vec<(String, Rc<FileFacts>)> {
        let empty = BTreeMap::new();
        let changes = self.changes.get(&folder).unwrap_or(&empty);
        let range = self.generator.files_of(folder);
        let count = range.end - range.start;
        // Names are in the order of numbers.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            if self.generator.file_in(folder, middle).name.as_str() <= after {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let mut made = (low..count)
            .map(|nth| self.generator.file_in(folder, nth))
            .filter(|file| !changes.contains_key(&file.name))
            .map(|file| (file.name.clone(), Rc::new(file)))
            .peekable();
        let mut changed = changes
            .range::<str, _>((Bound::Excluded(after), Bound::Unbounded))
            .filter_map(|(name, file)| Some((name.clone(), file.clone()?)))
            .peekable();
        let mut all = Vec::new();
        while all.len() < limit {
            let is_made = match (made.peek(), changed.peek()) {
                (Some((made, _)), Some((changed, _))) => made < changed,
                (made, _) => made.is_some(),
            };
            match if is_made { made.next() } else { changed.next() } {
                Some(file) => all.push(file),
                None => break,
            }
        }
        all
    }

    /// Counts what this worker has changed.
    pub fn count(&self, quotas: &mut Quotas) {
        for file in &self.registered {
            quotas.entry(file.owner.clone()).or_default().add(file.size, false);
        }
        for file in &self.trash {
            let usage = quotas.entry(file.owner.clone()).or_default();
            usage.remove(file.size, false);
            usage.add(file.size, true);
        }
    }
}

/// What owners have of a catalogue as it was generated.
pub async fn quotas_of(generator: &Generator) -> Quotas {
    let mut quotas = Quotas::new();
    for folder in 0..generator.folders() {
        let range = generator.files_of(folder);
        for nth in 0..range.end - range.start {
            let file = generator.file_in(folder, nth);
            quotas.entry(file.owner).or_default().add(file.size, false);
        }
        runtime::yield_if_needed().await;
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> (Model, Prng) {
        (Model::new(Rc::new(Generator::new(5, 5_000).expect("few")), 1, 3), Prng::new(9))
    }

    fn names(model: &Model, folder: usize, after: &str, limit: usize) -> Vec<String> {
        model.list(folder, after, limit).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_folder_lists_what_was_made_and_changed() {
        let (mut model, mut prng) = model();
        let folder = model.folder(&mut prng);
        let before = names(&model, folder, "", usize::MAX);
        let range = model.generator.files_of(folder);
        assert_eq!(before.len() as u64, range.end - range.start);
        assert_eq!(names(&model, folder, &before[0], 2), before[1..before.len().min(3)]);
        let new = model.new_file(folder, &mut prng);
        let name = new.name.clone();
        model.was_registered(folder, new);
        let file = Rc::new(model.generator.file_in(folder, 0));
        assert_eq!(model.spot(&file), Spot::Folder(folder, file.name.clone()));
        let origin = path::join(&model.folder_path(folder), &file.name);
        model.was_deleted(&file, (folder, file.name.clone()), origin.clone());
        let mut expected = before.clone();
        expected[0] = name;
        expected.sort();
        assert_eq!(names(&model, folder, "", usize::MAX), expected);
        let (at, found, path, is_there) = model.trashed(&mut prng).expect("one");
        assert_eq!((found.guid, path, is_there), (file.guid, origin, true));
        // Its folder is elsewhere: it cannot come back.
        let there = model.run_path(folder / KINDS.len());
        model.run_moved(folder / KINDS.len(), "/x".into());
        assert!(!model.trashed(&mut prng).expect("one").3);
        model.run_moved(folder / KINDS.len(), there);
        model.was_restored(at);
        assert!(names(&model, folder, "", usize::MAX).contains(&file.name) && model.trash.is_empty());
    }

    #[test]
    fn quotas_follow_what_was_done() {
        let (mut model, mut prng) = model();
        let folder = model.folder(&mut prng);
        let (new, old) = (model.new_file(folder, &mut prng), Rc::new(model.generator.file_in(folder, 0)));
        let (size, owner) = (new.size as u64, new.owner.clone());
        model.was_registered(folder, new);
        model.was_deleted(&old, (folder, old.name.clone()), "/x/y".into());
        let mut quotas = Quotas::new();
        quotas.entry(owner.clone()).or_default().add(old.size, false);
        model.count(&mut quotas);
        let usage = quotas[&owner];
        assert_eq!((usage.files, usage.bytes), (1, size));
        assert_eq!((usage.trashed_files, usage.trashed_bytes), (1, old.size as u64));
    }
}
