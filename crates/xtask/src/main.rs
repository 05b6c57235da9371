//! The commands of this repository. `cargo x COMMAND`:
//!
//! ```text
//! check            type check everything, then clippy with the bans of `clippy.toml`
//! test [ARGS]      unit and integration tests of all crates; ARGS go to cargo test
//! tidy             direction of dependencies, order of modules, unused dependencies, headers, forbidden words, formatting; lists the longest
//!                  functions; --record accepts the order of modules as it is
//! sim SCENARIO     whole nodes in one thread from seeds: --seeds A..B, or prove, or planted; model: --operations N
//! fuzz TARGET      --minutes N; without a TARGET all of them in turn
//! bench NAME       serve, start, mesh, rpc, storage, peer, tails, rows, loader or import; writes bench/results/
//! compat [ARGS]    real clients against the release build, with --quick against the simulator's
//! dist             the binary as it is released: compiled with what a training run showed, its symbols in a file of their own
//! run [ARGS]       the release node on 127.0.0.1:9042 with ./data
//! ci               all of it, short; what `make test` runs
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, clippy::print_stderr)]

mod house;
mod loader;
mod machine;
mod bench_node;
mod shipped;
mod dist;
mod bench_servers;
mod bench_cluster;
mod bench_import;
mod bench_loader;
mod bench_mesh;
mod bench_peer;
mod bench_rows;
mod callgrind;
mod bench_rpc;
mod bench_tls;
mod bench_transactions;
mod bench_serve;
mod bench_start;
mod bench_storage;
mod bench_tails;
mod check;
mod fuzz;
mod simulate;
mod source;
mod tokens;
mod dependencies;
mod modules;
mod tidy;
mod ci;
mod serve;

use std::process::ExitCode;

/// What a command returns: a note for the summary, or why it failed.
pub type Outcome = Result<String, String>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((word, rest)) = words.split_first() else {
        println!("{HELP}");
        return ExitCode::FAILURE;
    };
    let outcome = match word.as_str() {
        "check" => check::check(),
        "test" => check::test(rest),
        "tidy" => tidy::tidy(rest),
        "sim" => simulate::sim(rest),
        "fuzz" => fuzz::fuzz(rest),
        "bench" => bench(rest),
        "compat" => check::compat(rest),
        "dist" => dist::dist(rest),
        "run" => serve::run(rest),
        "ci" => ci::ci(rest),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => Err(format!("unknown command {other}\n{HELP}")),
    };
    match outcome {
        Ok(note) => {
            if !note.is_empty() {
                println!("{note}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cargo x {word}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(rest: &[String]) -> Outcome {
    match rest.first().map(String::as_str) {
        Some("serve") => bench_serve::serve(&rest[1..]),
        Some("start") => bench_start::start(&rest[1..]),
        Some("rpc") => bench_rpc::rpc(&rest[1..]),
        Some("cluster") => bench_cluster::cluster(&rest[1..]),
        Some("transactions") => bench_transactions::transactions(&rest[1..]),
        Some("mesh") => bench_mesh::mesh(&rest[1..]),
        Some("peer") => bench_peer::peer(&rest[1..]),
        Some("storage") => bench_storage::storage(&rest[1..]),
        Some("tails") => bench_tails::tails(&rest[1..]),
        Some("rows") => bench_rows::rows(&rest[1..]),
        Some("loader") => bench_loader::loader(&rest[1..]),
        Some("import") => bench_import::import(&rest[1..]),
        _ => {
            Err("bench serve, start, cluster, transactions, mesh, rpc, storage, peer, tails, rows, loader or import".into())
        }
    }
}

const HELP: &str = "\
cargo x check | test [ARGS] | tidy [--record] | sim SCENARIO --seeds A..B | fuzz [TARGET] --minutes N
        bench serve|start|mesh|rpc|storage|peer|tails|rows|loader|import | compat [ARGS] | dist | run [ARGS] | ci";
