//! The consensus group: `SEEDS=1000 cargo test -p sim raft` runs more seeds.

use crate::{caught, clean};
use sim::{Bug, Scenario};

#[test]
fn raft_keeps_its_promises_and_repeats_bit_for_bit() {
    clean(Scenario::Raft, 20);
}

#[test]
fn raft_catches_a_skipped_sync() {
    caught(Scenario::Raft, Bug::SkipSync);
}
