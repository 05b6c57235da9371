//! What a ledger knows after which ends of tries, exactly and to the millisecond, of one loader and of several; and what it calls wrong.

use super::*;
use crate::distribution::Distribution;
use crate::settings::Order;
use std::collections::BTreeMap;

const START: i64 = 1_795_344_377_000_000;

fn sequence(first: i64, last: i64) -> Population {
    let visited = Visited::Sequence { first, last, wrap: true, look_back: None };
    Population { visited, order: Order::Arbitrary }
}

/// One that keeps exact times, and one that does not.
fn both() -> [Ledger; 2] {
    let long = LEDGER_EXACT_MAX as i64 + 10;
    [Ledger::new(&sequence(5, 1000), START), Ledger::new(&sequence(5, long), START)]
}

fn known(ledger: Ledger) -> BTreeMap<i64, Known> {
    ledger.into_known().collect()
}

#[test]
fn what_is_acknowledged_is_there_from_its_time_on() {
    for mut ledger in both() {
        assert_eq!(ledger.known(7), Known::default());
        ledger.acknowledged(7, START + 5_000);
        ledger.acknowledged(7, START + 9_000);
        // The earlier one ends last.
        ledger.acknowledged(7, START + 2_000);
        assert_eq!(ledger.known(7), Known { since: Some(START + 9_000), newest: Some(START + 9_000) });
        assert_eq!(ledger.known(8), Known::default());
        assert_eq!(known(ledger).keys().copied().collect::<Vec<_>>(), [7]);
    }
}

#[test]
fn how_a_try_ends_says_what_is_known() {
    for mut ledger in both() {
        let timeout: Result<(), _> = Err(client::Error::Timeout);
        let nowhere: Result<(), _> = Err(client::Error::NoNode("nowhere".into()));
        ledger.wrote(5, START + 1_000, &timeout);
        ledger.wrote(6, START + 2_000, &nowhere);
        ledger.wrote(7, START + 3_000, &Ok(()));
        assert_eq!((ledger.known(5).since, ledger.known(5).newest.is_some()), (None, true));
        assert_eq!(ledger.known(6), Known::default(), "refused for certain");
        // A later try whose end nobody knows does not take back what was acknowledged.
        ledger.wrote(7, START + 4_000, &timeout);
        assert_eq!(ledger.known(7), Known { since: Some(START + 3_000), newest: Some(START + 4_000) });
    }
}

#[test]
fn long_sequences_keep_times_to_the_millisecond_and_never_later_ones() {
    let [_, mut ledger] = both();
    for (partition, at) in [(5, 1), (70_000, 999), (70_001, 1_000), (70_002, 3_600_000_123)] {
        ledger.acknowledged(partition, START + at);
        let since = ledger.known(partition).since.expect("acknowledged") - START;
        assert!(since <= at && at - since < TICK, "{at}: {since}");
    }
    // Partitions that are not of the sequence change nothing.
    ledger.acknowledged(4, START + 1);
    ledger.acknowledged(i64::MIN, START + 1);
    ledger.acknowledged(i64::MAX, START + 1);
    assert_eq!(known(ledger).len(), 4);
}

#[test]
fn ledgers_of_several_loaders_make_one() {
    let long = LEDGER_EXACT_MAX as i64 + 10;
    for population in [sequence(1, 100), sequence(1, long)] {
        let mut one = Ledger::new(&population, START + 7_500);
        let mut two = Ledger::new(&population, START);
        one.acknowledged(1, START + 20_000);
        one.acknowledged(2, START + 30_000);
        one.doubtful(3, START + 40_000);
        two.acknowledged(2, START + 10_000);
        two.acknowledged(3, START + 11_000);
        two.doubtful(4, START + 12_000);
        one.early.add(Finding::Lost, "gone", || "key a".into());
        two.early.add(Finding::Stale, "old", || "key b".into());
        one.join(two);
        assert_eq!((one.early.lost, one.early.stale, one.early.examples.len()), (1, 1, 2));
        let since = |partition| one.known(partition).since.map_or(0, |since| since - START);
        let within = |since: i64, at: i64| since <= at && at - since < 2 * TICK;
        assert!(within(since(1), 20_000) && within(since(2), 30_000) && within(since(3), 11_000));
        assert_eq!(one.known(4).since, None);
        let newest = one.known(3).newest.expect("in doubt");
        assert!(START + 40_000 <= newest);
        assert_eq!(known(one).len(), 4);
    }
}

#[test]
fn what_was_given_away_is_not_there_twice() {
    for mut ledger in both() {
        ledger.acknowledged(9, START + 1_000);
        let mut taken = ledger.take();
        assert_eq!(ledger.known(9), Known::default());
        taken.join(ledger);
        assert_eq!(known(taken).len(), 1);
    }
}

/// After TRUNCATE a row may be there only if its write may still come.
#[test]
fn nothing_is_owed_of_emptied_tables() {
    for mut ledger in both() {
        ledger.acknowledged(5, START + 1_000);
        ledger.doubtful(6, START + 2_000);
        ledger.emptied();
        assert!((5..=6).all(|partition| ledger.known(partition).since.is_none()));
        ledger.acknowledged(5, START + 3_000);
        assert_eq!(ledger.known(5).since, Some(START + 3_000));
    }
}

#[test]
fn rows_are_judged_by_their_times_and_values() {
    let row = |oldest, newest, is_right| Found::Row { oldest, newest, is_right };
    let of = |since: Option<i64>, newest: Option<i64>, found| {
        judge(Known { since, newest }, found, 100).map(|(finding, _)| finding)
    };
    let written = |found| of(Some(150), Some(200), found);
    assert_eq!(written(Found::Nothing), Some(Finding::Lost));
    assert_eq!(written(row(150, 150, true)), None);
    assert_eq!(written(row(150, 200, true)), None, "the doubtful write came");
    assert_eq!(written(row(149, 150, true)), Some(Finding::Stale), "one value is old");
    assert_eq!(written(row(50, 50, true)), Some(Finding::Stale), "an earlier run's");
    assert_eq!(written(row(i64::MIN, 150, false)), Some(Finding::Stale), "one value is missing");
    assert_eq!(written(row(150, 201, true)), Some(Finding::Phantom));
    assert_eq!(written(row(150, 150, false)), Some(Finding::Phantom), "not what was written");
    let doubtful = |found| of(None, Some(200), found);
    assert_eq!(doubtful(Found::Nothing), None);
    assert_eq!(doubtful(row(200, 200, true)), None);
    assert_eq!(doubtful(row(50, 50, false)), None, "from before the run");
    assert_eq!(doubtful(row(200, 200, false)), Some(Finding::Phantom));
    let never = |found| of(None, None, found);
    assert_eq!(never(Found::Nothing), None);
    assert_eq!(never(row(99, 99, true)), None);
    assert_eq!(never(row(100, 100, true)), Some(Finding::Phantom));
}

#[test]
fn the_first_few_of_each_kind_are_named() {
    let mut findings = Findings::default();
    assert!(findings.is_clean());
    for _ in 0..1_000 {
        findings.add(Finding::Lost, "not there", || "key 00 (partition 1)".into());
    }
    findings.add(Finding::Stale, "old", || "key 01 (partition 2)".into());
    assert_eq!((findings.lost, findings.stale, findings.is_clean()), (1_000, 1, false));
    assert_eq!(findings.examples.len(), LEDGER_EXAMPLES_MAX as usize + 1);
    assert_eq!(findings.examples.last().map(String::as_str), Some("stale: key 01 (partition 2): old"));
}

#[test]
fn populations_that_take_too_much_memory_are_refused_by_number() {
    let drawn = |text: &str| {
        let visited = Visited::Drawn(Distribution::parse(text).expect("a distribution"));
        Population { visited, order: Order::Arbitrary }
    };
    assert_eq!(fits(&sequence(1, 1_000_000)), Ok(()));
    assert_eq!(fits(&drawn("gaussian(1..1M)")), Ok(()));
    for (population, count) in [
        (sequence(1, 1_000_000_000), "1000000000"),
        (sequence(0, i64::MAX), "9223372036854775808"),
        (drawn("uniform(1..1B)"), "1000000000"),
    ] {
        let error = fits(&population).expect_err("too many").to_string();
        assert!(error.contains(count) && error.contains("bytes of memory"), "{error}");
    }
}
