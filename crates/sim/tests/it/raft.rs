//! The consensus group: `SEEDS=1000 cargo test -p sim raft` runs more seeds.

use sim::{Bug, Scenario, run, run_range};

fn seeds(usual: u64) -> u64 {
    std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn raft_keeps_its_promises_over_seeds_and_repeats_them_bit_for_bit() {
    let report = run_range(Scenario::Raft, 0..seeds(20), 2, None, false, |_| {});
    for outcome in &report.failures {
        eprintln!("seed {}: {:?}", outcome.seed, outcome.failure);
    }
    assert_eq!(report.failed, 0);
    let again = run_range(Scenario::Raft, 0..seeds(20), 1, None, false, |_| {});
    assert_eq!(report.trace_hash, again.trace_hash);
    assert_ne!(run(Scenario::Raft, 0, None).trace_hash, run(Scenario::Raft, 1, None).trace_hash);
}

#[test]
fn raft_without_syncs_is_caught() {
    let report = run_range(Scenario::Raft, 0..200, 2, Some(Bug::SkipSync), true, |_| {});
    assert!(report.failed > 0, "no seed of {} found it", report.ran);
}
