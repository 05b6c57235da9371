//! Clusters of any shape: `SEEDS=1000 cargo test -p sim cluster` runs more seeds.

use crate::clean;
use sim::Scenario;

#[test]
fn a_cluster_keeps_what_it_has_acknowledged_and_one_history() {
    clean(Scenario::Cluster, 2);
}
