//! `cargo x ci`: everything that must hold for every commit, the cheap first, ended by the runners' own summaries.

use std::time::Instant;

use crate::{
    Outcome, bench_loader, bench_mesh, bench_rows, bench_rpc, bench_serve, bench_start, check, fuzz, house,
    simulate, tidy,
};

/// One step: its name and what it does.
type Step = (&'static str, fn() -> Outcome);

const STEPS: &[Step] = &[
    ("tidy", || tidy::tidy(&[])),
    ("clippy", check::clippy),
    ("test", || check::test(&[])),
    ("sim crash", || simulate::sim(&words(&["crash", "--seeds", "0..150"]))),
    ("sim three", || simulate::sim(&words(&["three", "--seeds", "0..50"]))),
    ("sim lwt", || simulate::sim(&words(&["lwt", "--seeds", "0..20"]))),
    ("sim lwt-local", || simulate::sim(&words(&["lwt-local", "--seeds", "0..10"]))),
    ("sim lwt-replace", || simulate::sim(&words(&["lwt-replace", "--seeds", "0..15"]))),
    ("sim counters", || simulate::sim(&words(&["counters", "--seeds", "0..15"]))),
    ("sim cluster", || simulate::sim(&words(&["cluster", "--seeds", "0..10"]))),
    ("sim repair", || simulate::sim(&words(&["repair", "--seeds", "0..10"]))),
    ("sim replace", || simulate::sim(&words(&["replace", "--seeds", "0..10"]))),
    ("sim batches", || simulate::sim(&words(&["batches", "--seeds", "0..25"]))),
    ("sim raft", || simulate::sim(&words(&["raft", "--seeds", "0..40"]))),
    ("sim storage", || simulate::sim(&words(&["storage", "--seeds", "0..150"]))),
    ("sim model", || simulate::sim(&words(&["model", "--operations", "400000"]))),
    ("sim prove", || simulate::sim(&words(&["prove"]))),
    ("sim planted", || simulate::sim(&words(&["planted"]))),
    ("fuzz", || fuzz::fuzz(&words(&["--seconds", "6"]))),
    ("compat", || check::compat(&words(COMPAT))),
    ("compat epoll", || check::compat(&words(COMPAT_EPOLL))),
    ("bench serve", || pinned(bench_serve::serve)),
    ("bench start", || bench_start::start(&words(&["--smoke"]))),
    ("bench mesh", || bench_mesh::mesh(&words(&["--smoke"]))),
    ("bench rpc", || bench_rpc::rpc(&words(&["--smoke"]))),
    ("bench rows", || bench_rows::rows(&words(&["--smoke"]))),
    ("bench loader", || pinned(bench_loader::loader)),
];

const COMPAT: &[&str] = &[
    "--quick",
    "--smp",
    "2",
    "bad-input",
    "bad-days",
    "damage",
    "drivers",
    "cql",
    "texts",
    "nodetool",
    "sstables",
    "python",
    "restart",
    "protocol",
    "certificates",
    "cqlsh",
    "stress",
    "ycsb",
    "catalogue",
    "cluster",
    "kill",
];

/// The whole again where io_uring is refused takes `cargo x compat --refuse-io-uring`; these meet every part of it.
const COMPAT_EPOLL: &[&str] =
    &["--quick", "--smp", "2", "--refuse-io-uring", "bad-input", "damage", "gocql2", "restart", "kill"];

/// Runs all steps, or those named; a failed step does not keep the later ones from running.
pub fn ci(rest: &[String]) -> Outcome {
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    let since = Instant::now();
    for (name, step) in STEPS {
        if !rest.is_empty() && !rest.iter().any(|word| word == name) {
            continue;
        }
        println!("\n=== {name}");
        let started = Instant::now();
        let outcome = step();
        let seconds = started.elapsed().as_secs();
        match outcome {
            Ok(note) => lines.push(format!("{name:12} {seconds:5} s  {note}")),
            Err(error) => {
                println!("{name} failed: {error}");
                lines.push(format!("{name:12} {seconds:5} s  FAILED"));
                failed.push((*name, error));
            }
        }
    }
    println!("\n=== summary after {} s in {}", since.elapsed().as_secs(), house::root().display());
    for line in &lines {
        println!("{line}");
    }
    if failed.is_empty() {
        return Ok("ci result: ok".into());
    }
    // Last, because the end of a long output is what everybody sees.
    for (name, error) in &failed {
        println!("\n=== what failed in {name}\n{error}");
    }
    let names: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
    Err(format!("failed: {}", names.join(", ")))
}

/// The smoke run of a bench that pins server and loader to processors of their own.
fn pinned(bench: fn(&[String]) -> Outcome) -> Outcome {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() < 2) {
        return Ok("left out: one processor".into());
    }
    bench(&words(&["--smoke"]))
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}
