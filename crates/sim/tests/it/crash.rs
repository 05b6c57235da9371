//! One node under power cuts: `SEEDS=1000 cargo test -p sim crash` runs more seeds.

use crate::clean;
use sim::Scenario;

#[test]
fn crash_loses_nothing_acknowledged() {
    clean(Scenario::Crash, 4);
}
