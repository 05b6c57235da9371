//! Replicas that each saw some of the writes, read through merging page after page, answer what one replica that saw
//! all of them would; and the repairs leave every replica with the merged content.

use super::{agreed, for_replicas, merge_answers};
use base::Prng;
use mutation::{
    Budget, Cell, Deletion, Emit, Key, Liveness, Mutation, MutationBuilder, Partition, ReadAnswer,
    ReadCommand, Resume, Scope, TokenRange, emit,
};
use schema::{Order, Table, TableBuilder, TableId, push_component};
use std::collections::BTreeMap;
use types::CqlType;

type Replica = BTreeMap<Key, Partition>;

fn table() -> Table {
    TableBuilder::new("ks", "t", TableId(3))
        .partition_key("k", CqlType::Text)
        .clustering("c", CqlType::Int, Order::Ascending)
        .regular("v", CqlType::Int)
        .regular("w", CqlType::Int)
        .build()
        .expect("a sound table")
}

fn keys() -> Vec<Key> {
    let mut keys: Vec<Key> = ["a", "b", "c", "d"].iter().map(|k| Key::new(k.as_bytes())).collect();
    keys.sort();
    keys
}

fn random_mutation(prng: &mut Prng) -> Mutation {
    let keys = keys();
    let key = &keys[prng.below(4) as usize];
    let mut builder = MutationBuilder::new(TableId(3), key.token, &key.bytes);
    let timestamp = 100 + prng.below(20) as i64;
    let deletion = Deletion { timestamp, local_time: 5 };
    if prng.below(12) == 0 {
        builder.deletion(deletion);
        return builder.finish();
    }
    let mut clustering = Vec::new();
    push_component(&mut clustering, Some(&(prng.below(8) as i32).to_be_bytes()));
    if prng.below(4) == 0 {
        builder.write_row(&clustering, Liveness::NONE, deletion, |_| {});
        return builder.finish();
    }
    let value = (prng.below(100) as i32).to_be_bytes();
    builder.write_row(&clustering, Liveness::at(timestamp), Deletion::LIVE, |row| {
        row.simple(
            0,
            if prng.below(4) == 0 { Cell::tombstone(timestamp, 5) } else { Cell::live(timestamp, &value) },
        );
        if prng.below(2) == 0 {
            row.simple(1, Cell::live(timestamp, &value));
        }
    });
    builder.finish()
}

fn apply(table: &Table, replica: &mut Replica, mutation: &Mutation) {
    let view = mutation.view();
    let partition = replica.entry(Key::with_token(view.token, view.key)).or_default();
    partition.apply(table, &view).expect("fits");
}

fn read(replica: &Replica, command: &ReadCommand) -> ReadAnswer {
    let mut answer = ReadAnswer::default();
    for (key, partition) in replica {
        let resume = command.resume.as_ref();
        if resume.is_some_and(|r| *key < r.key || (*key == r.key && r.after.is_none())) {
            continue;
        }
        if answer.live_rows >= command.row_limit {
            let last = answer.partitions.last().map(|m: &Mutation| m.view());
            answer.stopped =
                last.map(|v| Resume { key: Key::with_token(v.token, v.key), after: None, rows_taken: 0 });
            return answer;
        }
        let inside = resume.filter(|r| r.key == *key);
        let taken = inside.map_or(0, |r| r.rows_taken);
        let after = inside.and_then(|r| r.after.as_ref());
        let rows = command.row_limit - answer.live_rows;
        let partition_rows = command.partition_row_limit.saturating_sub(taken);
        let request = Emit { table: TableId(3), key, command, after, complete_to: None };
        let emitted = emit(
            partition,
            &request,
            Budget { rows, partition_rows, bytes: usize::MAX, tombstones: u32::MAX },
        );
        answer.live_rows += emitted.live_rows;
        answer.partitions.extend(emitted.mutation);
        if let Some(after) = emitted.cut_after
            && answer.live_rows >= command.row_limit
        {
            let rows_taken = taken + emitted.live_rows;
            answer.stopped = Some(Resume { key: key.clone(), after: Some(after), rows_taken });
            return answer;
        }
    }
    answer
}

fn command(row_limit: u32, partition_row_limit: u32, reversed: bool) -> ReadCommand {
    ReadCommand {
        reversed,
        row_limit,
        partition_row_limit,
        byte_limit: mutation::ByteLimit::MOST,
        ..ReadCommand::everything(TableId(3), Scope::Range(TokenRange::ALL), 50)
    }
}

/// Live rows only: what a client sees.
fn visible(table: &Table, partitions: &[Mutation], reversed: bool) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    for mutation in partitions {
        let view = mutation.view();
        let mut partition = Partition::new();
        partition.apply(table, &view).expect("fits");
        let mut live: Vec<_> = partition
            .rows()
            .filter(|(p, r)| mutation::row_is_live(r.body(), partition.covering(p), 50))
            .map(|(_, r)| (view.key.to_vec(), r.clustering().to_vec(), r.body().to_vec()))
            .collect();
        if reversed {
            live.reverse();
        }
        rows.extend(live);
    }
    rows
}

#[test]
fn pages_over_disagreeing_replicas_equal_one_that_saw_everything() {
    let table = table();
    for seed in 0..1500 {
        let mut prng = Prng::new(seed);
        let mut replicas = vec![Replica::new(); 2 + prng.below(2) as usize];
        let mut whole = Replica::new();
        for _ in 0..prng.below(40) {
            let mutation = random_mutation(&mut prng);
            apply(&table, &mut whole, &mutation);
            for replica in &mut replicas {
                if prng.below(2) == 0 {
                    apply(&table, replica, &mutation);
                }
            }
        }
        // What no replica saw was never written.
        let mut union = Replica::new();
        for replica in &replicas {
            for (key, partition) in replica {
                union.entry(key.clone()).or_default().merge(&table, partition).expect("fits");
            }
        }
        let reversed = prng.below(2) == 0;
        let partition_limit = if prng.below(2) == 0 { u32::MAX } else { 1 + prng.below(3) as u32 };
        let expected = read(&union, &command(u32::MAX, partition_limit, reversed));
        let expected = visible(&table, &expected.partitions, reversed);
        let mut page = command(1 + prng.below(4) as u32, partition_limit, reversed);
        let mut seen = Vec::new();
        for round in 0.. {
            assert!(round < 500, "seed {seed}: does not end");
            let answers: Vec<ReadAnswer> = replicas.iter().map(|r| read(r, &for_replicas(&page))).collect();
            let merged = merge_answers(&table, &page, &answers).expect("fits");
            assert!(merged.answer.live_rows <= page.row_limit, "seed {seed}");
            seen.extend(visible(&table, &merged.answer.partitions, reversed));
            for (replica, repairs) in replicas.iter_mut().zip(&merged.repairs) {
                repairs.iter().for_each(|m| apply(&table, replica, m));
            }
            let Some(stopped) = merged.answer.stopped else { break };
            page.resume = Some(stopped);
        }
        assert_eq!(expected, seen, "seed {seed}");
    }
}

#[test]
fn equal_digests_hide_no_rows_behind_a_limit() {
    let table = table();
    let key = Key::new(b"a");
    let (mut fewer, mut more) = (Replica::new(), Replica::new());
    for c in 0..3i32 {
        let mut builder = MutationBuilder::new(TableId(3), key.token, &key.bytes);
        let mut clustering = Vec::new();
        push_component(&mut clustering, Some(&c.to_be_bytes()));
        builder.write_row(&clustering, Liveness::at(1), Deletion::LIVE, |_| {});
        let mutation = builder.finish();
        apply(&table, &mut more, &mutation);
        if c < 2 {
            apply(&table, &mut fewer, &mutation);
        }
    }
    let command = ReadCommand {
        row_limit: 2,
        byte_limit: mutation::ByteLimit::MOST,
        ..ReadCommand::everything(TableId(3), Scope::Range(TokenRange::ALL), 10)
    };
    let answers = vec![read(&fewer, &command), read(&more, &command)];
    let digest = |answer: &ReadAnswer| mutation::digest(&table, &command, answer, None);
    assert_eq!(digest(&answers[0]), digest(&answers[1]));
    assert_eq!(answers[0].stopped, None);
    let expected = answers[1].stopped.clone();
    assert!(expected.is_some());
    assert_eq!(agreed(&command, answers).stopped, expected);
}
