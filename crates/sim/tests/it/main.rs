//! Scenarios over a few seeds each, with the assertions of a debug build. That they repeat bit for bit is what `cargo x sim prove` shows of an optimised
//! one, and that their checkers find planted mistakes `cargo x sim planted`: both take minutes here.

mod batches;
mod cluster;
mod crash;
mod engine;
mod raft;
mod repair;
mod three;

use sim::{Scenario, run_range};

#[allow(clippy::disallowed_methods, reason = "which seeds to run is no setting of a node")]
fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// No seed fails. `FIRST` and `SEEDS` choose others.
fn clean(scenario: Scenario, usual: u64) {
    let first = from_environment("FIRST").unwrap_or(0);
    let seeds = first..first + from_environment("SEEDS").unwrap_or(usual);
    let report = run_range(scenario, seeds, 2, None, false, |outcome| {
        if let Some(text) = &outcome.failure {
            eprintln!("{} seed {}: {text}", scenario.name(), outcome.seed);
        }
    });
    if !report.counts.is_empty() {
        eprintln!("{}: {:?}", scenario.name(), report.counts);
    }
    assert_eq!(report.failed, 0, "of {} seeds", report.ran);
}

/// `SCENARIO=crash SEED=7 cargo test -p sim one -- --nocapture` tells one run with its log.
#[test]
#[allow(clippy::disallowed_methods, reason = "which seeds to run is no setting of a node")]
fn one() {
    let (Some(seed), Ok(name)) = (from_environment("SEED"), std::env::var("SCENARIO")) else { return };
    let scenario = Scenario::of(&name).expect("a scenario of that name");
    let (outcome, lines) = sim::run_verbose(scenario, seed, None);
    lines.iter().for_each(|line| eprint!("{line}"));
    eprintln!("{outcome:?}");
}
