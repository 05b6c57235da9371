//! The one binary: argument parsing and dispatch.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to its terminal")]
#![allow(clippy::disallowed_methods, reason = "the configuration is read before the runtime exists")]

mod arguments;
mod bench;
mod catalogue;
mod import;
mod load;
mod local_cluster;
mod simulate;
mod sstable;
mod start;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words = || std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    if let Some(words) = words_of("nodetool", words()) {
        return run_nodetool(&words);
    }
    if let Some(words) = words_of("cassandra-stress", words()) {
        return ExitCode::from(stress::main(&words));
    }
    if let Some(words) = words_of("ycsb", words()).or_else(|| words_of("ycsb.sh", words())) {
        return ExitCode::from(ycsb::main(&words));
    }
    if let Some(words) = words_of("cloudsuite", words()) {
        return ExitCode::from(ycsb::cloudsuite(&words));
    }
    match Arguments::parse().command {
        Command::Node(node) => start::run(&node),
        Command::LocalCluster(cluster) => local_cluster::run(&cluster),
        Command::Simulate(simulate) => simulate::run(&simulate),
        Command::Load(load) => load::run(&load),
        Command::Import(import) => import::run(&import),
        Command::Sstable(sstable) => sstable::run(&sstable),
        Command::Nodetool(nodetool) => run_nodetool(&nodetool.words),
        Command::CassandraStress(stress) => ExitCode::from(stress::main(&stress.words)),
        Command::Ycsb(ycsb) => ExitCode::from(ycsb::main(&ycsb.words)),
        Command::Cloudsuite(cloudsuite) => ExitCode::from(ycsb::cloudsuite(&cloudsuite.words)),
        Command::Bench(bench) => bench::run(&bench),
        Command::Catalogue(catalogue) => catalogue::run(&catalogue),
        Command::Version => {
            println!("messina {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
    }
}

/// The words for a tool with a command line of its own, untouched: when it is the first word, or when a link of that name was called.
fn words_of(tool: &str, mut words: impl Iterator<Item = String>) -> Option<Vec<String>> {
    let program = words.next()?;
    let name = std::path::Path::new(&program).file_name();
    if name.is_some_and(|name| name == tool) || words.next()? == tool {
        return Some(words.collect());
    }
    None
}

fn run_nodetool(words: &[String]) -> ExitCode {
    ExitCode::from(nodetool::run(words, &mut std::io::stdout(), &mut std::io::stderr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_as_a_word_and_as_a_link() {
        let words = |line: &str| words_of("nodetool", line.split(' ').map(str::to_owned));
        let status = Some(vec!["-h".to_owned(), "x".to_owned(), "status".to_owned()]);
        assert_eq!(words("messina nodetool -h x status"), status);
        assert_eq!(words("/usr/bin/nodetool -h x status"), status);
        assert_eq!(words("nodetool"), Some(Vec::new()));
        assert_eq!(words("messina node --smp 1"), None);
        assert_eq!(words("messina"), None);
    }
}
