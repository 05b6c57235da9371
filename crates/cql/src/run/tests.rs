//! Pages that end where rows are dead or groups begin, and tables that no step could hold.

use super::*;
use crate::{Plan, parse, prepare};
use mutation::{Cell, Deletion, Liveness, Mutation, MutationBuilder, RowWriter};
use schema::{Keyspace, Order, Replication, Schema, Table, TableBuilder, TableId};
use std::collections::BTreeMap;
use types::CqlType;

fn table() -> Table {
    TableBuilder::new("ks", "t", TableId(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, Order::Ascending)
        .static_column("s", CqlType::Int)
        .regular("v", CqlType::Int)
        .build()
        .expect("a valid table")
}

fn plan_of(table: &Table) -> Arc<SelectPlan> {
    plan_for(table, "SELECT * FROM t WHERE k = 1")
}

fn plan_for(table: &Table, text: &str) -> Arc<SelectPlan> {
    let mut keyspace = Keyspace::new("ks", Replication::Simple { factor: 1 });
    keyspace.tables.insert(table.name.clone(), Arc::new(table.clone()));
    let schema = Schema::new(1, BTreeMap::from([(keyspace.name.clone(), Arc::new(keyspace))]));
    let statement = parse(text).expect("parses");
    match prepare(&schema, Some("ks"), statement).expect("prepares").plan {
        Plan::Select(plan) => plan,
        _ => panic!("a SELECT"),
    }
}

fn key() -> Key {
    Key::new(&1i32.to_be_bytes())
}

/// A run that continues where `state` says, at the last read of its page.
fn run_of(plan: &Arc<SelectPlan>, state: Option<Vec<u8>>) -> SelectRun {
    let command = ReadCommand {
        static_counts: true,
        byte_limit: mutation::ByteLimit::near(1),
        ..ReadCommand::everything(TableId(1), Scope::Keys(smallvec![key()]), 60)
    };
    let mut run = SelectRun {
        plan: plan.clone(),
        bound: Bound {
            values: Vec::new(),
            timestamp: 0,
            now_micros: 0,
            now_s: 60,
            random_state: std::cell::Cell::new(0),
        },
        command,
        filters: Vec::new(),
        running: Vec::new(),
        group: None,
        sorted: None,
        step_rows: limits::ROWS_PER_STEP,
        page_rows: Some(10),
        page_left: 10,
        limit_left: u32::MAX,
        partition_limit: u32::MAX,
        partition: None,
        steps: STEPS_PER_PAGE - 1,
        live_rows: 0,
        done: false,
        stopped: None,
    };
    if let Some(state) = state {
        run.resume(PagingState::decode(&state).expect("ours")).expect("fits");
    }
    run
}

/// The partition's static row, and one row, live or dead.
fn part(row: Option<(&[u8], bool)>) -> Mutation {
    let key = key();
    let mut builder = MutationBuilder::new(TableId(1), key.token, &key.bytes);
    builder.static_row_with(|out| {
        let mut row = RowWriter::new(out, Liveness::NONE, Deletion::LIVE);
        row.simple(0, Cell::live(1, &7i32.to_be_bytes()));
    });
    if let Some((clustering, live)) = row {
        let (liveness, deletion) = match live {
            true => (Liveness::at(1), Deletion::LIVE),
            false => (Liveness::NONE, Deletion { timestamp: 1, local_time: 1 }),
        };
        builder.write_row(clustering, liveness, deletion, |_| {});
    }
    builder.finish()
}

#[test]
fn a_static_row_stands_for_its_partition_behind_pages_of_dead_rows_only() {
    let table = table();
    let plan = plan_of(&table);
    let mut clustering = Vec::new();
    schema::push_component(&mut clustering, Some(&5i32.to_be_bytes()));
    let after = table.position(&clustering).expect("a position");
    for live in [false, true] {
        let rows_taken = u32::from(live);
        let mut run = run_of(&plan, None);
        assert!(run.next().is_some());
        let stopped = Some(Resume { key: key(), after: Some(after.clone()), rows_taken });
        let partitions = vec![part(Some((&clustering, live)))];
        let answer = ReadAnswer {
            partitions: partitions.into(),
            live_rows: rows_taken,
            stopped,
            digest: None,
            tombstones: 0,
        };
        let mut rows = 0;
        run.feed(&answer, &mut |_| rows += 1).expect("fits");
        assert_eq!(rows, rows_taken, "the page ends inside the partition");
        let state = run.finish(&mut |_| {}).expect("ends").expect("there is more");

        let mut run = run_of(&plan, Some(state));
        assert!(run.next().is_some());
        let partitions = vec![part(None)];
        let answer = ReadAnswer {
            partitions: partitions.into(),
            live_rows: 1 - rows_taken,
            stopped: None,
            digest: None,
            tombstones: 0,
        };
        run.feed(&answer, &mut |_| rows += 1).expect("fits");
        assert_eq!(rows, 1, "live: {live}");
    }
}

/// Partitions and rows of each in a table that no step could hold.
const PARTITIONS: i32 = 120;
const ROWS: i32 = 1_000;

/// A replica of a table whose rows are made when they are read: `v` is the row's number modulo 1,000.
struct Large {
    table: Table,
    /// In token order, with the partition's number.
    keys: Vec<(Key, i32)>,
    positions: Vec<Position>,
    steps: u32,
    /// Tombstones each read meets, and the most that a command already knew of.
    tombstones: u32,
    known_tombstones: u32,
}

impl Large {
    fn new() -> Large {
        let table = table();
        let mut keys: Vec<(Key, i32)> = (0..PARTITIONS).map(|k| (Key::new(&k.to_be_bytes()), k)).collect();
        keys.sort();
        let positions = (0..ROWS).map(|c| table.position(&clustering(c)).expect("a position")).collect();
        Large { table, keys, positions, steps: 0, tombstones: 0, known_tombstones: 0 }
    }

    fn read(&mut self, command: &ReadCommand) -> ReadAnswer {
        assert!(command.row_limit <= limits::ROWS_PER_STEP, "a step is bounded");
        self.steps += 1;
        self.known_tombstones = self.known_tombstones.max(command.tombstones);
        let tombstones = command.tombstones + self.tombstones;
        let resume = command.resume.as_ref();
        let first = resume.map_or(0, |r| {
            let at = self.keys.iter().position(|(key, _)| *key == r.key).expect("a key of the table");
            at + usize::from(r.after.is_none())
        });
        let mut partitions = Vec::new();
        let mut live_rows = 0;
        for (key, number) in &self.keys[first..] {
            let after = resume.filter(|r| r.key == *key).and_then(|r| r.after.as_ref());
            let begin = after.map_or(0, |after| self.positions.partition_point(|p| p <= after)) as i32;
            let mut builder = MutationBuilder::new(TableId(1), key.token, &key.bytes);
            for c in begin..ROWS {
                if live_rows == command.row_limit {
                    partitions.push(builder.finish());
                    let after = if c == 0 { None } else { Some(self.positions[c as usize - 1].clone()) };
                    let stopped = match after {
                        None => self.before(key),
                        after => Resume { key: key.clone(), after, rows_taken: c as u32 },
                    };
                    return ReadAnswer {
                        partitions: partitions.into(),
                        live_rows,
                        stopped: Some(stopped),
                        digest: None,
                        tombstones,
                    };
                }
                live_rows += 1;
                let value = (number + c) % 1_000;
                builder.write_row(&clustering(c), Liveness::at(1), Deletion::LIVE, |row| {
                    row.simple(0, Cell::live(1, &value.to_be_bytes()));
                });
            }
            partitions.push(builder.finish());
        }
        ReadAnswer { partitions: partitions.into(), live_rows, stopped: None, digest: None, tombstones }
    }

    /// Behind the partition before this one.
    fn before(&self, key: &Key) -> Resume {
        let at = self.keys.iter().position(|(known, _)| known == key).expect("a key of the table");
        Resume { key: self.keys[at - 1].0.clone(), after: None, rows_taken: 0 }
    }

    /// All rows of a statement as integers, page by page.
    fn ask(&mut self, text: &str, page: Option<u32>) -> Vec<Vec<Option<i64>>> {
        let plan = plan_for(&self.table, text);
        let random = || 1;
        let context = BindContext {
            timestamp: 0,
            now_micros: 60_000_000,
            now_s: 60,
            random: &random,
            ticks: &no_ticks,
        };
        let mut pages: Vec<Vec<Option<i64>>> = Vec::new();
        let mut state = None;
        loop {
            let mut rows = Vec::new();
            let integer = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | i64::from(*b));
            let mut sink = |cells: &[Option<&[u8]>]| rows.extend(cells.iter().map(|cell| cell.map(integer)));
            let page = Page { rows: page, bytes: 1 << 20, tombstones: 25, state: state.take() };
            let mut run = plan.start(&[], &context, page).expect("starts");
            while let Some(command) = run.next() {
                let command = command.clone();
                let answer = self.read(&command);
                run.feed(&answer, &mut sink).expect("fits");
            }
            state = run.finish(&mut sink).expect("ends");
            pages.push(rows);
            if state.is_none() {
                return pages;
            }
        }
    }
}

fn clustering(c: i32) -> Vec<u8> {
    let mut out = Vec::new();
    schema::push_component(&mut out, Some(&c.to_be_bytes()));
    out
}

#[test]
fn large_tables_are_aggregated_and_filtered_in_bounded_steps() {
    let mut large = Large::new();
    let rows = i64::from(PARTITIONS * ROWS);
    assert_eq!(large.ask("SELECT count(*), max(v) FROM t", Some(100)), [[Some(rows), Some(999)]]);
    assert!(large.steps >= 12, "{} steps of at most 10,000 rows", large.steps);
    let found = large.ask("SELECT c, v FROM t WHERE v = 7 ALLOW FILTERING", None);
    assert_eq!(found.concat().len(), 2 * PARTITIONS as usize);
    let pages = large.ask("SELECT c, v FROM t WHERE v = 7 ALLOW FILTERING", Some(50));
    assert_eq!(pages.concat().len(), 2 * PARTITIONS as usize);
    assert!(pages.iter().all(|page| page.len() <= 2 * 50));
}

#[test]
fn steps_grow_while_a_page_looks_for_its_rows() {
    let mut large = Large::new();
    let found = large.ask("SELECT c, v FROM t WHERE v = 7 LIMIT 20 ALLOW FILTERING", Some(20));
    assert_eq!(found.concat().len(), 2 * 20);
    assert!(large.steps <= 8, "{} steps through 20,000 rows", large.steps);
    let mut large = Large::new();
    large.ask("SELECT count(*) FROM t GROUP BY k LIMIT 20", Some(20));
    assert!(large.steps <= 8, "{} steps through 20,000 rows", large.steps);
}

#[test]
fn an_aggregate_meets_tombstones_read_by_read_as_pages_do() {
    for (text, most) in [
        ("SELECT count(*) FROM t", 0),
        ("SELECT count(*) FROM t GROUP BY k", 0),
        // One page is one allowance.
        ("SELECT c FROM t WHERE v = -1 ALLOW FILTERING", 10),
    ] {
        let mut large = Large::new();
        large.tombstones = 10;
        large.ask(text, None);
        assert!(large.steps > 2);
        let known = large.known_tombstones;
        assert!(if most == 0 { known == 0 } else { known >= most }, "{text}: {known}");
    }
}

#[test]
fn numbers_of_a_paging_state_do_not_overflow() {
    let resume = Resume { key: key(), after: None, rows_taken: u32::MAX };
    let state = PagingState { resume, limit_left: u32::MAX, partition_rows: u32::MAX }.encode();
    let read = PagingState::decode(&state).expect("ours");
    assert!(read.partition_rows <= u32::MAX / 2 && read.resume.rows_taken <= u32::MAX / 2);
}

#[test]
fn groups_that_reach_over_steps_and_pages_stay_whole() {
    let mut large = Large::new();
    for page in [None, Some(9), Some(500)] {
        let groups = large.ask("SELECT count(*), min(c), max(c) FROM t GROUP BY k", page).concat();
        let one = [Some(i64::from(ROWS)), Some(0), Some(i64::from(ROWS - 1))];
        assert_eq!(groups, one.repeat(PARTITIONS as usize), "pages of {page:?}");
    }
    let limited = "SELECT c, count(*) FROM t GROUP BY k, c PER PARTITION LIMIT 2 LIMIT 5";
    let want = [[0, 1], [1, 1], [0, 1], [1, 1], [0, 1]].concat().into_iter().map(Some).collect::<Vec<_>>();
    for page in [None, Some(1), Some(2), Some(3)] {
        assert_eq!(large.ask(limited, page).concat(), want, "pages of {page:?}");
    }
}

/// Counters come with sstables of others.
#[test]
fn a_counter_is_shown_as_what_its_shards_come_to() {
    let mut builder = TableBuilder::new("ks", "t", TableId(1)).partition_key("k", CqlType::Int);
    builder = builder.regular("n", CqlType::Counter).regular("o", CqlType::Counter);
    let plan = plan_for(&builder.build().expect("a valid table"), "SELECT o, n, k FROM t WHERE k = 1");
    let shard = |id: u8, count: i64| [&[id; 16][..], &1i64.to_be_bytes(), &count.to_be_bytes()].concat();
    let context = [&[0, 2, 0x80, 0, 0x80, 1][..], &shard(1, 700), &shard(2, -58)].concat();
    let key = key();
    let mut builder = MutationBuilder::new(TableId(1), key.token, &key.bytes);
    builder.write_row(&[], Liveness::NONE, Deletion::LIVE, |row| row.simple(0, Cell::live(1, &context)));
    let mut run = run_of(&plan, None);
    assert!(run.next().is_some());
    let partitions = vec![builder.finish()].into();
    let answer = ReadAnswer { partitions, live_rows: 1, stopped: None, digest: None, tombstones: 0 };
    let mut rows = Vec::new();
    let mut keep =
        |row: &[Option<&[u8]>]| rows.push(row.iter().map(|v| v.map(<[u8]>::to_vec)).collect::<Vec<_>>());
    run.feed(&answer, &mut keep).expect("fits");
    assert_eq!(rows, [[None, Some(642i64.to_be_bytes().to_vec()), Some(1i32.to_be_bytes().to_vec())]]);
}

/// No statement sees the rows of a table WITH COMPACT STORAGE without clustering columns, and none but SELECT DISTINCT reads them.
#[test]
fn rows_that_compact_storage_hides_are_not_read() {
    let mut builder =
        TableBuilder::new("ks", "t", TableId(1)).partition_key("k", CqlType::Int).regular("v", CqlType::Int);
    builder.make_compact();
    let table = builder.build().expect("a valid table");
    let random = || 1;
    let context = BindContext { timestamp: 1, now_micros: 1, now_s: 60, random: &random, ticks: &no_ticks };
    let command = |text: &str| {
        let page = Page { rows: Some(10), bytes: 1 << 20, tombstones: 1000, state: None };
        let mut run = plan_for(&table, text).start(&[], &context, page).expect("starts");
        let command = run.next().expect("something is read");
        (command.slices.len(), command.static_counts)
    };
    for text in ["SELECT * FROM t", "SELECT k FROM t WHERE k = 1", "SELECT v FROM t WHERE k IN (1, 2)"] {
        assert_eq!(command(text), (0, true), "{text}");
    }
    assert_eq!(command("SELECT DISTINCT k FROM t"), (1, true));
}
