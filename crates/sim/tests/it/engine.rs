//! The storage engine alone: `SEEDS=1000 cargo test -p sim storage` runs more seeds; `cargo x sim model` the long scenario.

use crate::clean;
use sim::{Bug, Scenario};

#[test]
fn storage_answers_as_the_map_does() {
    clean(Scenario::Storage, 3);
}

#[test]
fn a_failure_is_shrunk_to_few_operations() {
    let bug = Some(Bug::SkipSync);
    let failing = (0..50).find(|seed| sim::run(Scenario::Storage, *seed, bug).failure.is_some());
    let told = sim::shrunk(Scenario::Storage, failing.expect("some seed meets it"), bug).expect("it fails");
    let operations = told.lines().filter(|line| line.starts_with("  ")).count();
    assert!(operations < 40, "{told}");
}
