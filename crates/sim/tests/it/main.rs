//! Scenarios over a few seeds each, their determinism, and that their checkers find planted mistakes.

mod crash;
mod engine;
mod raft;
mod three;

use sim::{Bug, Scenario, run, run_range};

#[allow(clippy::disallowed_methods, reason = "which seeds to run is no setting of a node")]
fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// No seed fails, and the same seeds leave the same trace. `FIRST` and `SEEDS` choose others.
fn clean(scenario: Scenario, usual: u64) {
    let first = from_environment("FIRST").unwrap_or(0);
    let seeds = first..first + from_environment("SEEDS").unwrap_or(usual);
    let report = run_range(scenario, seeds.clone(), 2, None, false, |outcome| {
        if let Some(text) = &outcome.failure {
            eprintln!("{} seed {}: {text}", scenario.name(), outcome.seed);
        }
    });
    assert_eq!(report.failed, 0, "of {} seeds", report.ran);
    let again = run_range(scenario, seeds.start..seeds.start + 5, 1, None, false, |_| {});
    let twice = run_range(scenario, seeds.start..seeds.start + 5, 2, None, false, |_| {});
    assert_eq!(again.trace_hash, twice.trace_hash);
    let other = run_range(scenario, seeds.start + 5..seeds.start + 10, 2, None, false, |_| {});
    assert_ne!(again.trace_hash, other.trace_hash);
}

/// Some seed of a modest range finds the planted mistake, and is clean without it.
fn caught(scenario: Scenario, bug: Bug) {
    let report = run_range(scenario, 0..400, 2, Some(bug), true, |_| {});
    let outcome =
        report.failures.first().unwrap_or_else(|| panic!("no seed of {} finds {bug:?}", report.ran));
    eprintln!("{bug:?} caught by {} at seed {}: {:?}", scenario.name(), outcome.seed, outcome.failure);
    assert_eq!(run(scenario, outcome.seed, None).failure, None, "the mistake is what it found");
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
