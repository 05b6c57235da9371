//! The cross-check: every row of a file against what a scan of the whole database finds, by sums first, by name where they differ.

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::import::{ImportOptions, Sums};
use crate::input::Source;
use crate::limits::{DEPTH_MAX, NAMED_ROWS_MAX, NAMES_TOLD};
use crate::placement::{ROOT_ID, TRASH_ID};
use crate::record::Block;
use crate::scan::scan;
use crate::tables::{Ask, Cells, FILE};
use crate::tally::{EntryFacts, index_hash, location_hash, locations_hash, part_of};
use base::{HashMap, HashSet};
use loadtools::java::grouped;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::collection;
use uuid::Uuid;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Rows of the file.
    pub file_rows: u64,
    /// Files of the database, but for those in the trash.
    pub database_rows: u64,
    /// Files that the index has.
    pub index_rows: u64,
    /// What is not the same: up to twenty are named.
    pub differences: Vec<String>,
    /// Paths that differ. At least, where there were too many to look at each.
    pub differing: u64,
}

impl Checked {
    /// Whether all is as the file says.
    pub fn is_clean(&self) -> bool {
        self.differing == 0
    }

    /// In a line, and one for each difference that is named.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} rows of the file, {} files and {} index entries of the database: {}",
            grouped(self.file_rows),
            grouped(self.database_rows),
            grouped(self.index_rows),
            if self.is_clean() {
                "all the same".to_owned()
            } else {
                format!("{} differ", grouped(self.differing))
            }
        )];
        lines.extend(self.differences.iter().cloned());
        lines
    }
}

/// Parts that are looked at row by row.
type Parts = Rc<HashSet<usize>>;

/// What stands of a path on one side: its entry's hash and its index entry's.
type Sides = (Option<u64>, Option<u64>);

/// What a pass over the database collects.
struct Pass {
    paths: Rc<Paths>,
    sums: Sums,
    /// The rows of these parts, one by one.
    named: Option<(Parts, BTreeMap<String, Sides>)>,
    scratch: Vec<u8>,
}

/// The folders of the database and their paths.
#[derive(Default)]
pub struct Paths {
    folders: HashMap<Uuid, (Uuid, String)>,
}

impl Paths {
    /// Reads all folders.
    pub async fn read(catalogue: &Catalogue, parallel: usize) -> Result<Paths, Error> {
        let keep = |folders: &mut HashMap<Uuid, (Uuid, String)>, row: &[Option<&[u8]>]| {
            let mut cells = Cells::new("folders", row);
            folders.insert(cells.uuid()?, (cells.uuid()?, cells.text()?.to_owned()));
            Ok(())
        };
        let folders = scan(&catalogue.session, Ask::ScanFolders, parallel, HashMap::default(), keep).await?;
        Ok(Paths { folders })
    }

    /// The path of a name in a folder; nothing in the trash, and in folders that hang in the air.
    fn path(&self, folder: &Uuid, name: &str, out: &mut String) -> bool {
        let mut names = [""; DEPTH_MAX];
        let (mut depth, mut at) = (0, *folder);
        while at != ROOT_ID {
            match self.folders.get(&at) {
                Some((parent, name)) if at != TRASH_ID && depth < DEPTH_MAX => {
                    names[depth] = name;
                    (depth, at) = (depth + 1, *parent);
                }
                _ => return false,
            }
        }
        out.clear();
        for name in names[..depth].iter().rev().chain([&name]) {
            out.push('/');
            out.push_str(name);
        }
        true
    }
}

/// Compares a file's rows with those of the database. `sums`: of the file, if they are known from its import.
pub async fn check(
    catalogue: &Catalogue,
    options: &ImportOptions,
    sums: Option<&Sums>,
    parallel: usize,
) -> Result<Checked, Error> {
    let sums = match sums {
        Some(sums) => sums.clone(),
        None => sums_of(options).await?,
    };
    let paths = Rc::new(Paths::read(catalogue, parallel).await?);
    let pass = database(catalogue, parallel, paths.clone(), None).await?;
    let mut checked = Checked {
        file_rows: sums.entries.rows(),
        database_rows: pass.sums.entries.rows(),
        index_rows: pass.sums.index.rows(),
        ..Checked::default()
    };
    let mut differing = sums.entries.differing(&pass.sums.entries);
    differing.extend(sums.index.differing(&pass.sums.index));
    if !differing.is_empty() {
        let parts = Rc::new(affordable(differing));
        let file = rows_of(options, &parts).await?;
        let named = database(catalogue, parallel, paths, Some(parts)).await?.named;
        compare(&file, &named.map(|(_, rows)| rows).unwrap_or_default(), &mut checked);
    }
    Ok(checked)
}

/// The smallest of the parts, as many as can be held: of those that are left something differs as well.
fn affordable(mut differing: Vec<(usize, u64)>) -> HashSet<usize> {
    differing.sort_by_key(|(part, rows)| (*rows, *part));
    let (mut parts, mut held) = (HashSet::default(), 0);
    for (part, rows) in differing {
        held += rows;
        if parts.is_empty() || held <= NAMED_ROWS_MAX {
            parts.insert(part);
        }
    }
    parts
}

/// What the rows of a file amount to.
async fn sums_of(options: &ImportOptions) -> Result<Sums, Error> {
    let mut source = Source::open(&options.file, options.format, &options.table).await?;
    let (mut sums, mut block, mut scratch) = (Sums::default(), Block::default(), Vec::new());
    loop {
        source.next_block(&mut block).await?;
        if block.is_empty() {
            return Ok(sums);
        }
        sums.add(&block, &mut scratch);
        runtime::yield_if_needed().await;
    }
}

/// The rows of a file in some parts.
async fn rows_of(options: &ImportOptions, parts: &HashSet<usize>) -> Result<BTreeMap<String, Sides>, Error> {
    let mut source = Source::open(&options.file, options.format, &options.table).await?;
    let (mut rows, mut block, mut scratch) = (BTreeMap::new(), Block::default(), Vec::new());
    loop {
        source.next_block(&mut block).await?;
        if block.is_empty() {
            return Ok(rows);
        }
        for nth in 0..block.len() {
            let record = block.record(nth);
            if parts.contains(&part_of(record.path)) {
                let entry = EntryFacts::of(&record).hash(&mut scratch);
                let locations = locations_hash(record.locations, &mut scratch);
                let index = index_hash(&record.guid, record.path, locations, &mut scratch);
                rows.insert(record.path.to_owned(), (Some(entry), Some(index)));
            }
        }
        runtime::yield_if_needed().await;
    }
}

/// One pass over entries and index.
async fn database(
    catalogue: &Catalogue,
    parallel: usize,
    paths: Rc<Paths>,
    parts: Option<Parts>,
) -> Result<Pass, Error> {
    let named = parts.map(|parts| (parts, BTreeMap::new()));
    let pass = Pass { paths, sums: Sums::default(), named, scratch: Vec::new() };
    let pass = scan(&catalogue.session, Ask::ScanEntries, parallel, pass, entry).await?;
    scan(&catalogue.session, Ask::ScanGuids, parallel, pass, index).await
}

fn entry(pass: &mut Pass, row: &[Option<&[u8]>]) -> Result<(), Error> {
    let mut cells = Cells::new("entries", row);
    let (folder, name) = (cells.uuid()?, cells.text()?);
    if i8::from_be_bytes(cells.number()?) != FILE {
        return Ok(());
    }
    let mut path = String::new();
    if !pass.paths.path(&folder, name, &mut path) {
        return Ok(());
    }
    let facts = EntryFacts {
        path: &path,
        guid: cells.uuid()?,
        owner: cells.text()?,
        permissions: i16::from_be_bytes(cells.number()?),
        size: i64::from_be_bytes(cells.number()?),
        changed: i64::from_be_bytes(cells.number()?),
    };
    let hash = facts.hash(&mut pass.scratch);
    let part = part_of(&path);
    pass.sums.entries.add(part, hash);
    if let Some((parts, rows)) = &mut pass.named
        && parts.contains(&part)
    {
        rows.entry(path).or_default().0 = Some(hash);
    }
    Ok(())
}

fn index(pass: &mut Pass, row: &[Option<&[u8]>]) -> Result<(), Error> {
    let mut cells = Cells::new("guids", row);
    let (guid, folder, name) = (cells.uuid()?, cells.uuid()?, cells.text()?);
    let mut path = String::new();
    if !pass.paths.path(&folder, name, &mut path) {
        return Ok(());
    }
    let mut locations = 0u64;
    if let Some(bytes) = cells.bytes() {
        for location in collection::entries(bytes) {
            let (element, name) = location.map_err(|error| Error::Damaged(error.to_string()))?;
            locations = locations.wrapping_add(location_hash(element, name, &mut pass.scratch));
        }
    }
    let hash = index_hash(&guid, &path, locations, &mut pass.scratch);
    let part = part_of(&path);
    pass.sums.index.add(part, hash);
    if let Some((parts, rows)) = &mut pass.named
        && parts.contains(&part)
    {
        // Two index entries for one path are no index entry that is right.
        let known = &mut rows.entry(path).or_default().1;
        *known = Some(known.map_or(hash, |other| other ^ hash));
    }
    Ok(())
}

/// Names what is on one side only or not the same.
fn compare(file: &BTreeMap<String, Sides>, database: &BTreeMap<String, Sides>, checked: &mut Checked) {
    let mut tell = |text: String| {
        checked.differing += 1;
        if checked.differences.len() < NAMES_TOLD {
            checked.differences.push(text);
        }
    };
    for (path, (entry, index)) in file {
        match database.get(path) {
            None | Some((None, _)) => tell(format!("missing: {path}")),
            Some((found, _)) if found != entry => tell(format!("another entry: {path}")),
            Some((_, None)) => tell(format!("not in the index: {path}")),
            Some((_, found)) if found != index => tell(format!("another index entry: {path}")),
            Some(_) => {}
        }
    }
    for (path, sides) in database {
        match (file.contains_key(path), sides) {
            (true, _) => {}
            (false, (Some(_), _)) => tell(format!("not in the file: {path}")),
            (false, (None, _)) => tell(format!("in the index only: {path}")),
        }
    }
    // Sums that differ are a difference, also where no row could be named: a path that a file has twice.
    if checked.differing == 0 {
        checked.differing = checked.file_rows.abs_diff(checked.database_rows).max(1);
        checked.differences.push("rows of the file have the same path".into());
    }
}
