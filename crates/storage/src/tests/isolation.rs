//! Writers change several rows of a partition at once while readers look, memtables are flushed and sstables merged: every
//! reader sees all rows of one write. The same run with a probe planted before the awaits must be caught.

use super::harness::*;
use crate::{CommitlogSync, Durability, fixture};
use mutation::{Cell, Deletion, Key, Liveness, Mutation, MutationBuilder, Scope};
use runtime::Bug;
use runtime::sim::SimConfig;
use schema::Table;
use std::cell::Cell as Shared;
use std::rc::Rc;
use std::time::Duration;

const ROWS: i32 = 4;
const KEYS: u8 = 3;

fn all_rows(table: &Table, key: u8, version: i64) -> Mutation {
    let bytes = [key];
    let mut builder = MutationBuilder::new(table.id, base::Token::of_key(&bytes), &bytes);
    for c in 0..ROWS {
        builder.write_row(&fixture::clustering(c), Liveness::at(version), Deletion::LIVE, |row| {
            row.simple(0, Cell::live(version, &version.to_be_bytes()));
        });
    }
    builder.finish()
}

/// Runs writers, readers and flushes; returns how many reads saw parts of two writes.
fn torn_reads(seed: u64, bug: Option<Bug>) -> u64 {
    let table = table();
    let mut settings = settings(CommitlogSync::Periodic { period_ms: 100 });
    settings.memtable_bytes = 20 * 1024;
    let mut node = Node::new(seed, SimConfig::drawn(seed), settings, &[&table]);
    if let Some(bug) = bug {
        node.world.plant(node.id, bug);
    }
    node.boot(2).expect("opens");
    let torn = Rc::new(Shared::new(0));
    let mut tasks = Vec::new();
    for key in 0..KEYS {
        let written = table.clone();
        tasks.push(node.world.spawn(node.id, async move {
            for version in 1..400 {
                apply(vec![all_rows(&written, key, version)], Durability::Mode).await.expect("accepted");
                runtime::sleep(Duration::from_micros(20)).await;
            }
        }));
        let (read, torn) = (table.clone(), torn.clone());
        tasks.push(node.world.spawn(node.id, async move {
            let mut newest = Vec::new();
            for _ in 0..150 {
                let command = command(&read, Scope::Keys(vec![Key::new(&[key])].into()));
                let rows = read_key(command).await.expect("readable");
                let values: Vec<_> = rows.iter().map(|(_, _, body)| value(body).expect("a value")).collect();
                let whole = values.is_empty()
                    || values.len() == ROWS as usize && values.iter().all(|v| *v == values[0]);
                let fresh = values.first().is_none_or(|value| *value >= newest);
                if !whole || !fresh {
                    torn.set(torn.get() + 1);
                }
                newest = values.into_iter().next().unwrap_or(newest);
                runtime::sleep(Duration::from_micros(50)).await;
            }
        }));
    }
    tasks.push(node.world.spawn(node.id, async move {
        for _ in 0..40 {
            everywhere(|store| async move { store.flush(None).await }).await.expect("flushes");
            runtime::sleep(Duration::from_millis(1)).await;
        }
    }));
    assert!(node.world.run_until(|_| tasks.iter().all(|task| task.done()), LIMIT), "all tasks end");
    torn.get()
}

#[test]
fn a_write_to_one_partition_is_seen_whole_or_not_at_all() {
    for seed in 0..4 {
        assert_eq!(torn_reads(seed, None), 0, "seed {seed}");
    }
}

#[test]
fn a_probe_before_the_awaits_is_caught() {
    let caught = (0..16).any(|seed| torn_reads(seed, Some(Bug::ProbeBeforeAwait)) > 0);
    assert!(caught, "the planted bug goes unnoticed");
}
