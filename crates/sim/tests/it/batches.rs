//! Logged batches: `SEEDS=1000 cargo test -p sim batches` runs more seeds.

use crate::clean;
use sim::Scenario;

#[test]
fn batches_are_whole_or_absent_whoever_dies() {
    clean(Scenario::Batches, 4);
}
