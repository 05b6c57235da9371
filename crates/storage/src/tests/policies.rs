//! Disks and logs that fail under each policy: what the node is told to do, what is answered afterwards, and what a restart
//! brings back.

use super::harness::*;
use crate::{
    CommitFailurePolicy, CommitlogSync, Consequence, DiskFailurePolicy, Durability, Error, Store, fixture,
};
use mutation::{Key, Mutation, Scope};
use runtime::sim::SimConfig;
use schema::Table;
use std::time::Duration;

fn insert(table: &Table, key: u8) -> Mutation {
    fixture::insert(table, &[key], 1, 5, &[key; 700])
}

fn write(node: &mut Node, table: &Table, key: u8) -> Result<(), Error> {
    node.run(apply(vec![insert(table, key)], Durability::Mode))
}

/// A node with one sstable of each of these keys.
fn flushed(disk: DiskFailurePolicy, commit: CommitFailurePolicy, keys: std::ops::Range<u8>) -> (Node, Table) {
    let table = fixture::table();
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&table]);
    node.settings.auto_compaction = false;
    (node.settings.disk_failure, node.settings.commit_failure) = (disk, commit);
    node.boot(1).expect("opens");
    for key in keys {
        write(&mut node, &table, key).expect("accepted");
        node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
    }
    (node, table)
}

/// Reads a key as a replica does, which tells the store of what failed.
fn read(node: &mut Node, table: &Table, key: u8) -> Result<usize, Error> {
    let asked = command(table, Scope::Keys(vec![Key::new(&[key])].into()));
    node.run(async move {
        let store = runtime::local::<Store>();
        let answer = store.read(&asked).await.inspect_err(|error| store.note_fault(error))?;
        Ok(answer.live_rows as usize)
    })
}

/// What the node is told within a second.
fn told(node: &mut Node) -> Option<(Consequence, &'static str)> {
    node.run(async {
        let store = runtime::local::<Store>();
        let fault = runtime::timeout(Duration::from_secs(1), store.consequence()).await.ok()?;
        Some((fault.consequence, fault.policy))
    })
}

fn data_file(node: &Node, generation: u64) -> String {
    let files = node.world.files(node.id).into_iter().map(|(path, _)| path);
    let named = format!("-{generation}-bti-Data.db");
    files.into_iter().find(|path| path.ends_with(&named)).expect("it is there")
}

#[test]
fn a_failed_log_has_the_consequence_its_policy_names_and_reads_go_on() {
    let cases = [
        (CommitFailurePolicy::Stop, Some((Consequence::StopClients, "commit_failure_policy stop"))),
        (CommitFailurePolicy::Die, Some((Consequence::Die, "commit_failure_policy die"))),
        (CommitFailurePolicy::StopCommit, None),
    ];
    for (policy, expected) in cases {
        let (mut node, table) = flushed(DiskFailurePolicy::Stop, policy, 0..2);
        write(&mut node, &table, 9).expect("accepted");
        node.world.fail_next_syncs(node.id, 1);
        assert!(matches!(write(&mut node, &table, 10), Err(Error::CommitlogFailed(_))));
        assert_eq!(told(&mut node), expected, "{policy:?}");
        assert!(matches!(write(&mut node, &table, 11), Err(Error::CommitlogFailed(_))), "it stays so");
        assert_eq!(read(&mut node, &table, 1).expect("readable"), 1);
        assert_eq!(read(&mut node, &table, 9).expect("readable"), 1);
        node.world.kill(node.id);
        node.boot(1).expect("opens");
        write(&mut node, &table, 12).expect("accepted after a restart");
        assert_eq!(read(&mut node, &table, 9).expect("readable"), 1);
    }
}

#[test]
fn an_ignored_failure_of_the_log_fails_its_writes_and_a_new_log_begins() {
    for seed in 0..20u8 {
        let (mut node, table) = flushed(DiskFailurePolicy::Stop, CommitFailurePolicy::Ignore, 0..1);
        let mut accepted = vec![0];
        for round in 0..3 {
            for key in 0..seed % 5 {
                let key = 10 + round * 10 + key;
                write(&mut node, &table, key).expect("accepted");
                accepted.push(key);
            }
            node.world.fail_next_syncs(node.id, 1);
            assert!(matches!(write(&mut node, &table, 100 + round), Err(Error::CommitlogFailed(_))));
            node.world.run_for(Duration::from_millis(u64::from(seed) * 3));
            if let Ok(()) = write(&mut node, &table, 150 + round) {
                accepted.push(150 + round);
            }
            node.world.run_for(Duration::from_secs(2));
            write(&mut node, &table, 200 + round).expect("accepted again");
            accepted.push(200 + round);
        }
        assert_eq!(told(&mut node), None);
        node.world.power_cut(node.id);
        node.boot(2).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let rows = node.run(read_ring(command(&table, Scope::Keys(Vec::new().into())))).expect("readable");
        let found: Vec<u8> = rows.iter().map(|(key, ..)| key.bytes[0]).collect();
        assert!(accepted.iter().all(|key| found.contains(key)), "seed {seed}: {accepted:?} but {found:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_has_the_consequence_its_policy_names() {
    let cases = [
        (DiskFailurePolicy::Stop, Some((Consequence::StopClients, "disk_failure_policy stop"))),
        (
            DiskFailurePolicy::StopParanoid,
            Some((Consequence::StopClients, "disk_failure_policy stop_paranoid")),
        ),
        (DiskFailurePolicy::Die, Some((Consequence::Die, "disk_failure_policy die"))),
        (DiskFailurePolicy::Ignore, None),
    ];
    for (policy, expected) in cases {
        let (mut node, table) = flushed(policy, CommitFailurePolicy::Stop, 0..3);
        node.stop();
        node.boot(1).expect("opens");
        node.world.fail_reads(node.id, 1);
        let failed = read(&mut node, &table, 1).expect_err("it cannot be read");
        assert!(matches!(failed, Error::Sstable(_)), "{failed}");
        assert_eq!(told(&mut node), expected, "{policy:?}");
        assert_eq!(read(&mut node, &table, 1).expect("readable again"), 1);
        assert_eq!(told(&mut node), None, "one fault has one consequence");
    }
}

#[test]
fn best_effort_leaves_out_what_cannot_be_read_until_the_next_start() {
    let (mut node, table) = flushed(DiskFailurePolicy::BestEffort, CommitFailurePolicy::Stop, 0..3);
    node.stop();
    node.boot(1).expect("opens");
    node.world.fail_reads(node.id, 1);
    read(&mut node, &table, 1).expect_err("it cannot be read");
    assert_eq!(told(&mut node), None);
    let left_out = node.run(async { runtime::local::<Store>().left_out() });
    let [file] = &left_out[..] else { panic!("one is left out: {left_out:?}") };
    let named = node.world.log_lines().iter().any(|(_, line)| line.contains(&*file.to_string_lossy()));
    assert!(named, "the log names it");
    assert_eq!(read(&mut node, &table, 1).expect("answered by the others"), 0);
    assert_eq!(read(&mut node, &table, 2).expect("answered by the others"), 1);
    node.world.power_cut(node.id);
    node.boot(2).expect("opens");
    let everything = command(&table, Scope::Keys(Vec::new().into()));
    assert_eq!(node.run(read_ring(everything.clone())).expect("readable").len(), 3, "it is back");

    // What is truncated while it is left out stays away.
    node.stop();
    node.boot(1).expect("opens");
    node.world.fail_reads(node.id, 1);
    read(&mut node, &table, 1).expect_err("it cannot be read");
    let id = table.id;
    node.run(everywhere(move |store| async move { store.truncate(id, 1).await })).expect("truncates");
    node.world.kill(node.id);
    node.boot(1).expect("opens");
    assert_eq!(node.run(read_ring(everything)).expect("readable").len(), 0);
}

#[test]
fn a_damaged_sstable_matters_to_those_who_are_paranoid() {
    let cases = [
        (DiskFailurePolicy::Stop, None),
        (DiskFailurePolicy::BestEffort, None),
        (DiskFailurePolicy::Ignore, None),
        (DiskFailurePolicy::StopParanoid, Some(Consequence::StopClients)),
        (DiskFailurePolicy::Die, Some(Consequence::Die)),
    ];
    for (policy, expected) in cases {
        let (mut node, table) = flushed(policy, CommitFailurePolicy::Stop, 0..3);
        node.stop();
        let file = data_file(&node, 1);
        assert!(node.world.flip_bit(node.id, &file, 40, 3));
        node.boot(1).expect("opens: data is checked when it is read");
        let failed = read(&mut node, &table, 0).expect_err("damaged");
        assert!(failed.to_string().contains(&file), "{failed}");
        assert_eq!(told(&mut node).map(|told| told.0), expected, "{policy:?}");
        assert_eq!(read(&mut node, &table, 1).expect("others are read"), 1);
        assert!(read(&mut node, &table, 0).is_err(), "never answered without it");
    }
}

#[test]
fn a_start_without_a_damaged_sstable_is_for_those_who_ask_for_it() {
    for (policy, starts) in [
        (DiskFailurePolicy::Die, false),
        (DiskFailurePolicy::Stop, false),
        (DiskFailurePolicy::StopParanoid, false),
        (DiskFailurePolicy::BestEffort, true),
        (DiskFailurePolicy::Ignore, true),
    ] {
        let (mut node, table) = flushed(policy, CommitFailurePolicy::Stop, 0..3);
        node.stop();
        let file = data_file(&node, 1).replace("Data.db", "Statistics.db");
        assert!(node.world.flip_bit(node.id, &file, 2, 3));
        let opened = node.boot(1);
        assert_eq!(opened.is_ok(), starts, "{policy:?}");
        if let Err(error) = opened {
            assert!(error.to_string().contains(&file), "{error}");
        } else {
            assert_eq!(node.run(async { runtime::local::<Store>().left_out() }).len(), 1);
            assert_eq!(read(&mut node, &table, 1).expect("others are read"), 1);
            node.stop();
        }
        assert!(node.world.flip_bit(node.id, &file, 2, 3), "nobody removed it");
        node.boot(1).expect("opens");
        let everything = command(&table, Scope::Keys(Vec::new().into()));
        assert_eq!(node.run(read_ring(everything)).expect("readable").len(), 3, "{policy:?}");
    }
}

#[test]
fn a_full_disk_is_no_failed_disk() {
    let (mut node, table) = flushed(DiskFailurePolicy::Die, CommitFailurePolicy::Die, 0..2);
    let used: u64 = node.world.files(node.id).iter().map(|file| file.1).sum();
    node.world.set_capacity(node.id, used);
    let flush = everywhere(|store| async move { store.flush(None).await });
    write(&mut node, &table, 9).expect("there is room in the segment");
    node.run(flush).expect_err("there is no space");
    assert_eq!(told(&mut node), None);
}

#[test]
fn a_write_beyond_the_largest_is_refused_as_in_cassandra() {
    let table = fixture::table();
    let periodic = CommitlogSync::Periodic { period_ms: 1000 };
    for sync in [periodic, CommitlogSync::Batch] {
        let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&table]);
        node.settings.mutation_bytes_max = Some(2_000);
        node.boot(1).expect("opens");
        for key in 0..4 {
            let large = fixture::insert(&table, &[key], 1, 5, &[7; 3_000]);
            let bytes = large.as_bytes().len() + 8;
            let refused = node.run(apply(vec![large], Durability::Mode)).expect_err("too large").to_string();
            let expected = format!(
                "Encountered an oversized mutation ({bytes}/2000) for keyspace: ks. Top keys are: t.0x0{key}"
            );
            assert_eq!(refused, expected);
            assert_eq!(read(&mut node, &table, key).expect("readable"), 0);
            write(&mut node, &table, key).expect("small enough");
        }
        let two = vec![insert(&table, 8), fixture::insert(&table, &[9], 1, 5, &[7; 1_900])];
        let refused = node.run(apply(two, Durability::Mode)).expect_err("together too large").to_string();
        assert!(refused.ends_with("Top keys are: t.0x09, t.0x08"), "{refused}");
    }
}

#[test]
fn tombstones_over_what_is_left_out_are_kept() {
    let mut table = fixture::table();
    table.options.gc_grace_seconds = 0;
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&table]);
    node.settings.auto_compaction = false;
    node.settings.disk_failure = DiskFailurePolicy::Ignore;
    node.boot(1).expect("opens");
    let deleted = {
        let deletion = mutation::Deletion { timestamp: 9, local_time: 1_000_000_000 };
        let mut builder = mutation::MutationBuilder::new(table.id, base::Token::of_key(&[1]), &[1]);
        builder.write_row(&fixture::clustering(1), mutation::Liveness::NONE, deletion, |_| {});
        builder.finish()
    };
    for write in [insert(&table, 1), deleted, insert(&table, 2)] {
        node.run(apply(vec![write], Durability::Mode)).expect("accepted");
        node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
    }
    node.stop();
    let file = data_file(&node, 1).replace("Data.db", "Statistics.db");
    assert!(node.world.flip_bit(node.id, &file, 2, 3));
    node.boot(1).expect("opens without it");
    let id = table.id;
    node.run(everywhere(move |store| async move { store.compact(id).await })).expect("compacts");
    node.stop();
    assert!(node.world.flip_bit(node.id, &file, 2, 3));
    node.boot(1).expect("opens");
    assert_eq!(read(&mut node, &table, 1).expect("readable"), 0, "it stays deleted");
    assert_eq!(read(&mut node, &table, 2).expect("readable"), 1);
}
