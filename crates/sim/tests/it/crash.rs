//! One node under power cuts: `SEEDS=1000 cargo test -p sim crash` runs more seeds.

use crate::{caught, clean};
use sim::{Bug, Scenario};

#[test]
fn crash_loses_nothing_acknowledged_and_repeats_bit_for_bit() {
    clean(Scenario::Crash, 10);
}

#[test]
fn crash_catches_a_skipped_sync() {
    caught(Scenario::Crash, Bug::SkipSync);
}

#[test]
fn crash_catches_an_ignored_checksum() {
    caught(Scenario::Crash, Bug::IgnoreCrc);
}

#[test]
fn crash_catches_a_replay_that_stops_early() {
    caught(Scenario::Crash, Bug::ReplayStopsEarly);
}

#[test]
fn crash_catches_a_batch_that_is_not_logged() {
    caught(Scenario::Crash, Bug::SkipBatchlog);
}

#[test]
fn crash_catches_a_memtable_probed_before_an_await() {
    caught(Scenario::Crash, Bug::ProbeBeforeAwait);
}
