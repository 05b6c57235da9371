//! Three nodes: `SEEDS=1000 cargo test -p sim three` runs more seeds.

use crate::{caught, clean};
use sim::{Bug, Scenario};

#[test]
fn three_show_every_acknowledged_quorum_write_and_repeat_bit_for_bit() {
    clean(Scenario::Three, 10);
}

#[test]
fn three_catch_a_digest_that_stops_at_nulls() {
    caught(Scenario::Three, Bug::DigestStopsAtNull);
}
