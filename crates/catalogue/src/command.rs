//! What `messina catalogue` does, from an order to an exit status.

use crate::catalogue::Catalogue;
use crate::check::check;
use crate::error::Error;
use crate::generate::{Generator, write};
use crate::import::{ImportOptions, import};
use crate::input::Format;
use crate::operate::{OperateOptions, Operated, operate};
use crate::quota::{Quotas, Usage};
use crate::session::Server;
use loadtools::java::{fixed, grouped};
use loadtools::measure::Interval;
use loadtools::output::Output;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use types::Consistency;

/// How long an import remembers folders: it makes them itself.
pub const IMPORT_REMEMBERS: Duration = Duration::from_secs(3_600);

/// What is to be done, and with which database.
#[derive(Clone, Debug)]
pub struct Order {
    /// The database.
    pub server: Server,
    /// What.
    pub task: Task,
}

/// One of the commands.
#[derive(Clone, Debug)]
pub enum Task {
    /// Writes a catalogue into a file.
    Generate {
        /// Seed and files.
        generated: (u64, u64),
        /// The file.
        file: String,
        /// As what.
        format: Format,
    },
    /// Imports a file.
    Import {
        /// The file.
        file: ImportOptions,
        /// Ranges that the comparison reads at a time; none without it.
        checks: Option<usize>,
    },
    /// Compares the database with a file.
    Check {
        /// The file.
        file: ImportOptions,
        /// Ranges read at a time.
        parallel: usize,
    },
    /// Puts load on what was generated and imported.
    Operate {
        /// Seed and files.
        generated: (u64, u64),
        /// How.
        options: OperateOptions,
    },
    /// Counts what owners have.
    Quota {
        /// Ranges read at a time.
        parallel: usize,
    },
}

/// The level of a name that a catalogue can be read and written at.
pub fn level(name: &str) -> Option<Consistency> {
    let level = Consistency::parse(&name.to_ascii_uppercase())?;
    (!level.is_serial() && level != Consistency::Any).then_some(level)
}

/// Does it on a shard of its own and gives the exit status.
pub fn main(order: Order) -> u8 {
    let main: runtime::Main = Arc::new(move || {
        let order = order.clone();
        Box::pin(async move {
            let output = match Output::new(None, false) {
                Ok(output) => Rc::new(output),
                Err(_) => return 1,
            };
            match run(&order, &output).await {
                Ok(true) => 0,
                Ok(false) => 1,
                Err(error) => {
                    output.complain(&format!("messina: {error}"));
                    1
                }
            }
        })
    });
    loadtools::shard::run(main)
}

/// Does it; whether all was as it should be.
pub async fn run(order: &Order, output: &Rc<Output>) -> Result<bool, Error> {
    let open = |known_for| Catalogue::open_remembering(&order.server, known_for);
    match &order.task {
        Task::Generate { generated: (seed, files), file, format } => {
            let generator = Generator::new(*seed, *files)?;
            let bytes = write(&generator, file, *format).await?;
            let (files, folders) = (grouped(generator.files()), grouped(generator.folders() as u64));
            output.line(&format!("{file}: {files} files in {folders} folders, {} bytes", grouped(bytes)));
            Ok(true)
        }
        Task::Import { file, checks } => {
            let catalogue = Rc::new(open(IMPORT_REMEMBERS).await?);
            let imported = import(&catalogue, file, output).await?;
            output.line(&imported.line());
            let Some(parallel) = checks else { return Ok(true) };
            let checked = check(&catalogue, file, Some(&imported.sums), *parallel).await?;
            checked.lines().iter().for_each(|line| output.line(line));
            Ok(checked.is_clean())
        }
        Task::Check { file, parallel } => {
            let checked = check(&open(IMPORT_REMEMBERS).await?, file, None, *parallel).await?;
            checked.lines().iter().for_each(|line| output.line(line));
            Ok(checked.is_clean())
        }
        Task::Operate { generated: (seed, files), options } => {
            let generator = Rc::new(Generator::new(*seed, *files)?);
            let catalogue = Rc::new(Catalogue::open(&order.server).await?);
            let operated = operate(&catalogue, &generator, *options, output).await?;
            told(&operated).iter().for_each(|line| output.line(line));
            Ok(operated.is_clean())
        }
        Task::Quota { parallel } => {
            let catalogue = Catalogue::open(&order.server).await?;
            quota_lines(&catalogue.quotas(*parallel).await?).iter().for_each(|line| output.line(line));
            Ok(true)
        }
    }
}

/// What a mixed load came to, a line for each kind of operation, and what was wrong.
pub fn told(operated: &Operated) -> Vec<String> {
    let line = |name: &str, interval: &Interval| {
        let latency = |share| fixed(interval.service.quantile(share), 2, false);
        format!(
            "{name:<9} {:>9} op/s  mean {} ms  p50 {}  p95 {}  p99 {}  p99.9 {}  max {}  {} operations  {} errors",
            fixed(interval.operation_rate(), 0, true),
            fixed(interval.service.mean(), 2, false),
            latency(0.5),
            latency(0.95),
            latency(0.99),
            latency(0.999),
            fixed(interval.service.max(), 2, false),
            grouped(interval.operations),
            grouped(interval.errors)
        )
    };
    let kinds = operated.snapshot.kinds.iter().map(|(name, _, total)| line(name, total));
    let mut lines: Vec<String> = kinds.collect();
    lines.push(line("total", &operated.snapshot.total));
    lines.push(match operated.mismatches {
        0 => "every answer was right".to_owned(),
        wrong => format!("{} answers were wrong", grouped(wrong)),
    });
    lines.extend(operated.told.iter().cloned());
    lines
}

/// What owners have, a line each.
pub fn quota_lines(quotas: &Quotas) -> Vec<String> {
    let row = |owner: &str, cells: [String; 4]| {
        let [files, bytes, trashed, trashed_bytes] = cells;
        format!("{owner:<20} {files:>15} {bytes:>24} {trashed:>15} {trashed_bytes:>24}")
    };
    let titles = ["files", "bytes", "in the trash", "their bytes"].map(str::to_owned);
    let cells =
        |usage: &Usage| [usage.files, usage.bytes, usage.trashed_files, usage.trashed_bytes].map(grouped);
    std::iter::once(row("owner", titles))
        .chain(quotas.iter().map(|(owner, usage)| row(owner, cells(usage))))
        .collect()
}

/// Owners whose numbers are not what they should be, a line each.
pub fn quota_differences(wanted: &Quotas, found: &Quotas) -> Vec<String> {
    let none = Usage::default();
    let owners: std::collections::BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    owners
        .into_iter()
        .filter_map(|owner| {
            let (wanted, found) = (wanted.get(owner).unwrap_or(&none), found.get(owner).unwrap_or(&none));
            (wanted != found).then(|| format!("{owner}: {found:?} instead of {wanted:?}"))
        })
        .collect()
}
