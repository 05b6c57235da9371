//! Repairs: `SEEDS=1000 cargo test -p sim repair` runs more seeds.

use crate::clean;
use sim::Scenario;

#[test]
fn behind_a_repair_each_replica_alone_says_the_same() {
    clean(Scenario::Repair, 5);
}

#[test]
fn a_node_that_replaces_a_dead_one_has_every_acknowledged_quorum_write() {
    clean(Scenario::Replace, 4);
}
