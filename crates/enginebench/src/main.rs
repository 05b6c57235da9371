//! `enginebench [CASE…] [--folder PATH] [--scale F] [--count N] [--rounds N] [--memory BYTES] [--format big|bti] [--epoll] [--list]`
//!
//! One shard's storage engine alone: no protocol, no network, no other shard. A case fills tables, then measures one
//! kind of operation: time on the processor, time on the clock, allocations. `--count` sets the operations of the
//! measured part, so that two runs under an instruction counter differ by nothing else. `cargo x bench storage` runs
//! all of them and records what they print.
//!
//! Beside the house: nothing depends on this crate.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, clippy::print_stderr)]

mod zipf;
mod folders;
mod meter;
mod engine;
mod cases;

use runtime::{Config, Reactor, shard};
use std::path::PathBuf;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: base::counting::CountingAllocator = base::counting::CountingAllocator;

/// What the command line asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of cases, or beginnings of names; empty: all.
    pub cases: Vec<String>,
    /// Where data goes; emptied before each case.
    pub folder: PathBuf,
    /// What the sizes of a case are multiplied by.
    pub scale: f64,
    /// Operations of the measured part, instead of the case's own number.
    pub count: Option<u64>,
    /// How often a measurement is repeated; the median is shown.
    pub rounds: usize,
    /// Bytes the shard may use.
    pub memory: u64,
    /// Format of sstables.
    pub format: sstable::Format,
    /// Speak to the kernel by epoll, as instruction counters need it.
    pub epoll: bool,
}

impl Options {
    /// A size of a case, scaled.
    pub fn scaled(&self, full: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(1)
    }

    /// Operations of a measured part: `--count`, or the case's own number, scaled.
    pub fn operations(&self, full: u64) -> u64 {
        self.count.unwrap_or_else(|| self.scaled(full))
    }
}

fn parse(words: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options {
        cases: Vec::new(),
        folder: std::env::temp_dir().join("messina-enginebench"),
        scale: 1.0,
        count: None,
        rounds: 3,
        memory: 4 << 30,
        format: sstable::Format::Bti,
        epoll: false,
    };
    let mut words = words;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let wrong = |what: &str| format!("{what} is no number");
        match word.as_str() {
            "--list" => {
                for case in cases::all() {
                    println!("{:4} {}", case.name, case.what);
                }
                return Ok(None);
            }
            "--folder" => options.folder = value()?.into(),
            "--scale" => options.scale = value()?.parse().map_err(|_| wrong("--scale"))?,
            "--count" => options.count = Some(value()?.parse().map_err(|_| wrong("--count"))?),
            "--rounds" => options.rounds = value()?.parse().map_err(|_| wrong("--rounds"))?,
            "--memory" => options.memory = value()?.parse().map_err(|_| wrong("--memory"))?,
            "--format" => {
                options.format = sstable::Format::of_name(&value()?).ok_or("--format is big or bti")?;
            }
            "--epoll" => options.epoll = true,
            name if !name.starts_with("--") => options.cases.push(name.to_owned()),
            other => return Err(format!("unknown word {other}")),
        }
    }
    Ok(Some(options))
}

fn main() {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return,
        Err(error) => {
            eprintln!("enginebench: {error}");
            std::process::exit(2);
        }
    };
    let config = Config {
        reactor: if options.epoll { Reactor::Epoll } else { Reactor::Auto },
        memory_per_shard: options.memory,
        // The caller pins; a bench that fills memory in long steps is not a stall.
        pin: false,
        stall_threshold: std::time::Duration::ZERO,
        seed: Some(1),
        ..Config::new(1)
    };
    let main: runtime::Main = Arc::new(move || {
        let options = options.clone();
        Box::pin(async move {
            assert!(shard().0 == 0, "one shard");
            match cases::run(&options).await {
                Ok(()) => 0,
                Err(error) => {
                    eprintln!("enginebench: {error}");
                    1
                }
            }
        })
    });
    std::process::exit(runtime::run(config, main));
}
