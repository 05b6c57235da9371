//! A catalogue made from a seed: file number `n` is the same whenever it is asked for, and nothing but the sizes of folders is kept.
//!
//! ```text
//!  /alice/data/2018/LHC18b/000100042/raw/1800010004233.00017.root
//!              year period  run      kind  file
//! ```
//! A run has four folders of files: raw data, what two passes made of it, and plots of a user with names that need escapes. Folders have
//! some sixty files, a few of them thousands (log-normal). Of the files of `aod` nine in ten are members of the archive before them.

mod write;

use crate::error::Error;
use crate::limits::FILES_MAX;
use crate::record::{Record, put_location};
use base::{Prng, calendar};
use std::fmt::Write as _;
use types::timeuuid;
use uuid::Uuid;

pub use write::{put_csv, put_values, write};

/// Folders of files of a run.
pub const KINDS: [&str; 4] = ["raw", "esd", "aod", "plots"];
/// The first year.
const YEAR: u64 = 2010;
/// Years, and periods of a year.
const YEARS: u64 = 10;
const PERIODS: u64 = 10;
/// Runs of a period, at least.
const PERIOD_RUNS: u64 = 40;
/// Number of the first run.
const RUN: u64 = 100_000;
/// Natural logarithms of the files of a folder: mean and deviation.
const FOLDER_FILES: (f64, f64) = (3.7, 0.9);
/// Files of a folder at most: their numbers have five digits.
const FOLDER_FILES_MAX: f64 = 5_000.0;
/// The same of the bytes of a file, by kind.
const SIZES: [(f64, f64); 4] = [(21.4, 0.3), (19.0, 0.8), (17.0, 1.0), (12.0, 1.5)];
/// Ticks of 100 ns between two files of a folder: 10 ms.
const FILE_TICKS: i64 = 100_000;
/// The same between the folders of a run: two minutes.
const KIND_TICKS: i64 = 1_200_000_000;
const DAY_TICKS: i64 = 86_400 * 10_000_000;
/// Users with plots.
const USERS: u64 = 200;
/// Storage elements.
const ELEMENTS: u64 = 20;
/// Files of an archive, with itself.
const ARCHIVE: u64 = 10;

/// The catalogue of a seed.
#[derive(Clone, Debug)]
pub struct Generator {
    seed: u64,
    files: u64,
    /// First file of each folder.
    starts: Vec<u64>,
    /// Runs of a period.
    period_runs: u64,
}

/// What a file is, in memory that is used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// The folder it was made in, by its number.
    pub folder: usize,
    /// Its name in its folder.
    pub name: String,
    /// Whose it is.
    pub owner: String,
    /// As of a file system.
    pub permissions: i16,
    /// Bytes.
    pub size: i64,
    /// Milliseconds since 1970.
    pub changed: i64,
    /// Its GUID.
    pub guid: Uuid,
    /// Its locations as text.
    pub locations: String,
}

impl FileFacts {
    /// As a record at a path.
    pub fn record<'a>(&'a self, path: &'a str) -> Record<'a> {
        Record {
            path,
            owner: &self.owner,
            permissions: self.permissions,
            size: self.size,
            changed: self.changed,
            guid: self.guid,
            locations: &self.locations,
        }
    }
}

impl Generator {
    /// So many files. Errors: none, or more than can be.
    pub fn new(seed: u64, files: u64) -> Result<Generator, Error> {
        if !(1..=FILES_MAX).contains(&files) {
            return Err(Error::Option(format!("a catalogue has from 1 to {FILES_MAX} files, not {files}")));
        }
        let mut prng = Prng::new(seed);
        let (mut starts, mut start) = (Vec::new(), 0);
        while start < files {
            starts.push(start);
            let (mean, deviation) = FOLDER_FILES;
            start += libm::exp(mean + deviation * normal(&mut prng)).clamp(1.0, FOLDER_FILES_MAX) as u64;
        }
        let runs = (starts.len() as u64).div_ceil(KINDS.len() as u64);
        Ok(Generator { seed, files, starts, period_runs: runs.div_ceil(YEARS * PERIODS).max(PERIOD_RUNS) })
    }

    /// Files.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Folders of files.
    pub fn folders(&self) -> usize {
        self.starts.len()
    }

    /// Runs: four folders each, but for the last.
    pub fn runs(&self) -> usize {
        self.starts.len().div_ceil(KINDS.len())
    }

    /// The files of a folder.
    pub fn files_of(&self, folder: usize) -> std::ops::Range<u64> {
        self.starts[folder]..self.starts.get(folder + 1).copied().unwrap_or(self.files)
    }

    /// The folder of a file.
    pub fn folder_of(&self, file: u64) -> usize {
        self.starts.partition_point(|start| *start <= file) - 1
    }

    /// The path of a run.
    pub fn run_path(&self, run: usize) -> String {
        let (year, period, _) = self.period(run);
        let letter = char::from(b'b' + period as u8);
        format!("/alice/data/{year}/LHC{:02}{letter}/{:09}", year % 100, RUN + run as u64)
    }

    /// The path of a folder.
    pub fn folder_path(&self, folder: usize) -> String {
        format!("{}/{}", self.run_path(folder / KINDS.len()), KINDS[folder % KINDS.len()])
    }

    /// Year, period of it, and the run's number in it.
    fn period(&self, run: usize) -> (u64, u64, u64) {
        let period = run as u64 / self.period_runs;
        (YEAR + period / PERIODS, period % PERIODS, run as u64 % self.period_runs)
    }

    /// Ticks since 1970 at which the first file of a folder was made.
    pub(crate) fn begun(&self, folder: usize) -> i64 {
        let (year, period, nth) = self.period(folder / KINDS.len());
        let days = calendar::days_of(year as i64, period as u32 + 2, 1);
        // The runs of a period within 27 days of its month.
        let into = 27 * DAY_TICKS / self.period_runs as i64 * nth as i64;
        days * DAY_TICKS + into + KIND_TICKS * (folder % KINDS.len()) as i64
    }

    /// A file of a folder, by its number in it.
    fn guid(&self, folder: usize, nth: u64) -> Uuid {
        // Each folder's files were made on a host of its own: an odd multiplier maps 40 bits onto themselves.
        let host = (folder as u64).wrapping_mul(0x9E_3779_B97F) & 0xFF_FFFF_FFFF;
        timeuuid::from_ticks(self.begun(folder) + FILE_TICKS * nth as i64, 1 << 40 | host)
    }

    /// What a file is.
    pub fn file(&self, file: u64) -> FileFacts {
        let folder = self.folder_of(file);
        self.file_in(folder, file - self.starts[folder])
    }

    /// What a file of a folder is, by its number in it.
    pub fn file_in(&self, folder: usize, nth: u64) -> FileFacts {
        let run = folder / KINDS.len();
        let kind = folder % KINDS.len();
        let (year, ..) = self.period(run);
        let mut prng = Prng::new(self.seed ^ (self.starts[folder] + nth).wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let guid = self.guid(folder, nth);
        let (mean, deviation) = SIZES[kind];
        let size = libm::exp(mean + deviation * normal(&mut prng)).min(1e15) as i64;
        let number = RUN + run as u64;
        let name = match kind {
            0 => format!("{:02}{number:09}33.{nth:05}.root", year % 100),
            1 => format!("{nth:05}.AliESDs.root"),
            2 => format!("{nth:05}.AliAOD.{}", if nth.is_multiple_of(ARCHIVE) { "zip" } else { "root" }),
            _ => format!("{nth:05}, O'Neill's \"best\" \\fit\u{3c7}\u{b2}.pdf"),
        };
        let owner = match kind {
            0 => "alidaq".to_owned(),
            1 | 2 => "aliprod".to_owned(),
            _ => format!("user{:03}", number % USERS),
        };
        let ticks = self.begun(folder) + FILE_TICKS * nth as i64;
        FileFacts {
            folder,
            name,
            owner,
            permissions: if kind == 3 { 0o600 } else { 0o644 },
            size,
            changed: ticks.div_euclid(10_000),
            guid,
            locations: self.locations(folder, nth, &guid, &mut prng),
        }
    }

    fn locations(&self, folder: usize, nth: u64, guid: &Uuid, prng: &mut Prng) -> String {
        let mut text = String::new();
        if folder % KINDS.len() == 2 && !nth.is_multiple_of(ARCHIVE) {
            let archive = self.guid(folder, nth - nth % ARCHIVE);
            put_location("archive", &format!("zip://{archive}/AliAOD.root"), &mut text);
            return text;
        }
        let first = prng.below(ELEMENTS);
        let mut name = String::new();
        for copy in 0..1 + prng.below(3) {
            let element = (first + 7 * copy) % ELEMENTS;
            name.clear();
            // Writing to memory does not fail.
            write!(name, "root://se{element:02}.example.org:1094//{:02}/{guid}", nth % 16).ok();
            put_location(&format!("ALICE::SITE{element:02}::DISK"), &name, &mut text);
        }
        text
    }
}

/// A number of the standard normal distribution.
fn normal(prng: &mut Prng) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - prng.unit())).sqrt();
    radius * libm::cos(std::f64::consts::TAU * prng.unit())
}

#[cfg(test)]
mod tests;
