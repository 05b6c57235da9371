//! A digest speaks of content: it is the same from memory, from files that cut what lies beyond the slices, and from what a
//! compaction made of them.

use super::harness::*;
use crate::{CommitlogSync, Durability, fixture};
use base::Prng;
use mutation::{Bound, Deletion, Mutation, MutationBuilder, RangeTombstone, ReadCommand, Slice};
use runtime::sim::SimConfig;
use schema::{BoundSide, Table};
use sstable::Format;

const PLACES: u64 = 60;

fn bound(c: u64, side: BoundSide) -> Bound {
    Bound::new(&fixture::clustering(c as i32), side)
}

/// A tombstone over some rows.
fn deletion(table: &Table, prng: &mut Prng, timestamp: i64) -> Mutation {
    let key = mutation::Key::new(b"k");
    let mut builder = MutationBuilder::new(table.id, key.token, &key.bytes);
    let first = prng.below(PLACES);
    let last = first + prng.below(PLACES - first);
    let deletion = Deletion { timestamp, local_time: 1_704_067_200 };
    let (start, end) = (bound(first, BoundSide::Before), bound(last, BoundSide::After));
    builder.range(&RangeTombstone { start, end, deletion });
    builder.finish()
}

/// Some slices and limits, as coordinators ask.
fn some_command(table: &Table, prng: &mut Prng) -> ReadCommand {
    let at = |c: u64| table.bound_position(&fixture::clustering(c as i32), BoundSide::Before).expect("fits");
    let mut edges: Vec<u64> = (0..4).map(|_| prng.below(PLACES)).collect();
    edges.sort_unstable();
    let slices = [(edges[0], edges[1]), (edges[2], edges[3])];
    let mut command = of_key(table, b"k");
    command.slices =
        slices.map(|(first, end)| Slice { start: at(first), end: at(end) }).into_iter().collect();
    command.slices.retain(|slice| slice.start < slice.end);
    command.reversed = prng.below(2) == 1;
    command.row_limit = [1, 3, u32::MAX][prng.below(3) as usize];
    command
}

/// A command for each page of its answer.
fn pages(node: &mut Node, command: &ReadCommand) -> Vec<ReadCommand> {
    let mut command = command.clone();
    let asking = async move {
        let store = runtime::local::<crate::Store>();
        let mut pages = Vec::new();
        loop {
            pages.push(ReadCommand { digest_only: true, ..command.clone() });
            command.resume = store.read_cold(&command).await.expect("readable").stopped;
            if command.resume.is_none() {
                return pages;
            }
        }
    };
    node.run(asking)
}

/// Of each command.
fn digests(node: &mut Node, commands: &[ReadCommand]) -> Vec<[u8; 16]> {
    let commands = commands.to_vec();
    node.run(async move {
        let store = runtime::local::<crate::Store>();
        let mut digests = Vec::new();
        for command in &commands {
            let answer = store.read_cold(command).await.expect("readable");
            digests.push(answer.digest.expect("asked for"));
        }
        digests
    })
}

#[test]
fn equal_content_has_one_digest_wherever_it_lies() {
    let table = fixture::table();
    for seed in seeds(0, 40) {
        let prng = &mut Prng::new(seed);
        let mut settings = settings(CommitlogSync::Batch);
        settings.auto_compaction = false;
        settings.sstable_format = if seed % 2 == 0 { Format::Big } else { Format::Bti };
        let mut node = Node::new(seed, SimConfig::calm(), settings, &[&table]);
        node.boot(1).expect("opens");
        for timestamp in 1..40 {
            let change = match prng.below(3) {
                0 => deletion(&table, prng, timestamp),
                // Large enough that a partition has an index of its rows.
                _ => {
                    let value = vec![b'v'; prng.below(4_000) as usize];
                    fixture::insert(&table, b"k", prng.below(PLACES) as i32, timestamp, &value)
                }
            };
            node.run(apply(vec![change], Durability::Mode)).expect("accepted");
            if prng.below(12) == 0 {
                node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
            }
        }
        let asked: Vec<ReadCommand> = (0..30)
            .map(|_| some_command(&table, prng))
            .flat_map(|command| pages(&mut node, &command))
            .collect();
        let before = digests(&mut node, &asked);
        node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
        let flushed = digests(&mut node, &asked);
        let id = table.id;
        node.run(everywhere(move |store| async move { store.compact(id).await })).expect("compacts");
        let compacted = digests(&mut node, &asked);
        for (at, command) in asked.iter().enumerate() {
            assert_eq!(before[at], flushed[at], "seed {seed} {command:?}");
            assert_eq!(flushed[at], compacted[at], "seed {seed} {command:?}");
        }
    }
}
