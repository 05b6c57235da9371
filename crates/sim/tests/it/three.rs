//! Three nodes: `SEEDS=1000 cargo test -p sim three` runs more seeds.

use crate::clean;
use sim::Scenario;

#[test]
fn three_show_every_acknowledged_quorum_write() {
    clean(Scenario::Three, 4);
}
