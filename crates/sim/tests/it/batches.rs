//! Logged batches: `SEEDS=1000 cargo test -p sim batches` runs more seeds.

use crate::clean;
use sim::{Bug, Scenario, run};

#[test]
fn batches_are_whole_or_absent_whoever_dies() {
    clean(Scenario::Batches, 6);
}

#[test]
fn a_batch_that_its_coordinator_alone_keeps_is_seen() {
    let caught = |seed: &u64| run(Scenario::Batches, *seed, Some(Bug::BatchlogOnlyHere)).failure.is_some();
    assert!((0..100).any(|seed| caught(&seed)), "not within 100 seeds");
}
