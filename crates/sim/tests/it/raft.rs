//! The consensus group: `SEEDS=1000 cargo test -p sim raft` runs more seeds.

use crate::clean;
use sim::Scenario;

#[test]
fn raft_keeps_its_promises() {
    clean(Scenario::Raft, 3);
}
