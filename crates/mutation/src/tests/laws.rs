//! Merging partitions in any order and grouping gives one result; reading it by pages gives all of it.

use super::sample::{KEY, mutation, table};
use crate::{
    Budget, Cell, ColumnView, Deletion, Emit, Error, Item, Key, Liveness, Mutation, MutationBuilder,
    Partition, ReadAnswer, ReadCommand, Resume, RowWriter, Scope, Slice, emit,
};
use base::{Prng, Token};
use schema::{Order, Position, Table, TableBuilder, TableId, push_component};
use types::CqlType;

fn partition(table: &Table, mutations: &[&Mutation]) -> Partition {
    let mut partition = Partition::new();
    for mutation in mutations {
        partition.apply(table, &mutation.view()).expect("fits");
    }
    partition
}

fn command(row_limit: u32, reversed: bool) -> ReadCommand {
    ReadCommand {
        reversed,
        static_counts: true,
        row_limit,
        byte_limit: crate::ByteLimit::MOST,
        ..ReadCommand::everything(TableId(7), Scope::Keys(vec![Key::new(KEY)].into()), 60)
    }
}

fn read(partition: &Partition, command: &ReadCommand, budget: Budget) -> crate::Emitted {
    let key = Key::new(KEY);
    let after = command.resume.as_ref().and_then(|r| r.after.as_ref());
    emit(partition, &Emit { table: TableId(7), key: &key, command, after, complete_to: None }, budget)
}

const ALL: Budget =
    Budget { rows: u32::MAX, partition_rows: u32::MAX, bytes: usize::MAX, tombstones: u32::MAX };

/// What a reader can tell about a partition: everything emitted.
fn seen(partition: &Partition) -> Option<Mutation> {
    read(partition, &command(u32::MAX, false), ALL).mutation
}

#[test]
fn merging_commutes_associates_and_is_idempotent() {
    let table = table();
    for seed in 0..3000 {
        let mut prng = Prng::new(seed);
        let (a, b, c) = (mutation(&mut prng), mutation(&mut prng), mutation(&mut prng));
        let abc = seen(&partition(&table, &[&a, &b, &c]));
        assert_eq!(abc, seen(&partition(&table, &[&c, &b, &a])), "seed {seed}: order");
        assert_eq!(abc, seen(&partition(&table, &[&b, &a, &c, &a, &b])), "seed {seed}: repetition");
        let mut left = partition(&table, &[&a]);
        left.merge(&table, &partition(&table, &[&c, &b])).expect("fits");
        assert_eq!(abc, seen(&left), "seed {seed}: grouping");
    }
}

/// A row under a decimal clustering; 10.0 and 10.00 are two byte forms of one position.
fn decimal_row(table: &Table, scale: i32, unscaled: &[u8], timestamp: i64, value: &[u8]) -> Mutation {
    let mut clustering = Vec::new();
    push_component(&mut clustering, Some(&[&scale.to_be_bytes(), unscaled].concat()));
    let mut body = Vec::new();
    RowWriter::new(&mut body, Liveness::at(timestamp), Deletion::LIVE)
        .simple(0, Cell::live(timestamp, value));
    let mut builder = MutationBuilder::new(table.id, Token::of_key(KEY), KEY);
    builder.row(&clustering, &body);
    builder.finish()
}

#[test]
fn one_position_in_two_byte_forms_is_one_row() {
    let table = TableBuilder::new("ks", "t", TableId(7))
        .partition_key("k", CqlType::Text)
        .clustering("c", CqlType::Decimal, Order::Ascending)
        .regular("v", CqlType::Text)
        .build()
        .expect("a sound table");
    // Of equal size as a whole, and longer and shorter ones.
    for (short, long) in [("ab", "a"), ("abc", "a"), ("a", "abc")] {
        let a = decimal_row(&table, 1, &[0x64], 1, short.as_bytes());
        let b = decimal_row(&table, 2, &[0x03, 0xE8], 2, long.as_bytes());
        let merged = partition(&table, &[&a, &b]);
        assert_eq!(merged.row_count(), 1);
        for (_, row) in merged.rows() {
            let value = crate::RowView::new(row.body()).column(0);
            let Some(ColumnView::Simple(cell)) = value else { panic!("no cell") };
            assert_eq!(cell, Cell::live(2, long.as_bytes()), "the newer value");
        }
        assert_eq!(seen(&merged), seen(&partition(&table, &[&b, &a])), "whatever came first");
        assert_eq!(seen(&merged), seen(&partition(&table, &[&a, &b, &a])), "repetition");
    }
}

#[test]
fn an_answer_holds_all_that_was_known() {
    let table = table();
    for seed in 0..3000 {
        let mut prng = Prng::new(seed);
        let (a, b) = (mutation(&mut prng), mutation(&mut prng));
        let whole = seen(&partition(&table, &[&a, &b]));
        let again = whole.as_ref().and_then(|w| seen(&partition(&table, &[w])));
        assert_eq!(whole, again, "seed {seed}");
    }
}

#[test]
fn pages_equal_the_whole() {
    let table = table();
    for seed in 0..3000 {
        let mut prng = Prng::new(seed);
        let written: Vec<Mutation> = (0..4).map(|_| mutation(&mut prng)).collect();
        let partition = partition(&table, &written.iter().collect::<Vec<_>>());
        let reversed = prng.below(2) == 0;
        let rows = |m: &Option<Mutation>| -> Vec<(Vec<u8>, Vec<u8>)> {
            let items = m.iter().flat_map(|m| m.view().rows().collect::<Vec<_>>()).collect::<Vec<_>>();
            items.into_iter().map(|(c, b)| (c.to_vec(), b.to_vec())).collect()
        };
        let whole = read(&partition, &command(u32::MAX, reversed), ALL);
        let limit = 1 + prng.below(3) as u32;
        let mut page = command(limit, reversed);
        let mut pages = Vec::new();
        let mut joined = Partition::new();
        let mut live = 0;
        let mut before: Option<Position> = None;
        loop {
            // Few bytes or tombstones end pages among dead rows and range tombstones, too.
            let bytes = if prng.below(2) == 0 { 1 } else { usize::MAX };
            let tombstones = if prng.below(2) == 0 { 1 + prng.below(5) as u32 } else { u32::MAX };
            let emitted = read(&partition, &page, Budget { rows: limit, bytes, tombstones, ..ALL });
            assert!(emitted.live_rows <= limit, "seed {seed}");
            live += emitted.live_rows;
            pages.extend(rows(&emitted.mutation));
            emitted.mutation.iter().for_each(|page| {
                joined.apply(&table, &page.view()).expect("fits");
            });
            let Some(after) = emitted.cut_after else {
                break;
            };
            let further = |before: &Position| if reversed { after < *before } else { *before < after };
            assert!(before.as_ref().is_none_or(further), "seed {seed}: it moves on");
            before = Some(after.clone());
            page.resume = Some(Resume { key: Key::new(KEY), after: Some(after), rows_taken: live });
        }
        assert_eq!(rows(&whole.mutation), pages, "seed {seed}");
        assert_eq!(whole.live_rows, live, "seed {seed}");
        let whole: Vec<&Mutation> = whole.mutation.iter().collect();
        assert_eq!(joined, self::partition(&table, &whole), "seed {seed}");
    }
}

/// However many there are, an answer has no more of them than its bytes allow, before a row as behind the last.
#[test]
fn a_page_ends_among_range_tombstones() {
    let table = table();
    let at = |a: i32| super::sample::clustering(a, None);
    let mut builder = MutationBuilder::new(table.id, Token::of_key(KEY), KEY);
    // What is in every page does not count.
    let value = [7; 5_000];
    builder.static_row_with(|out| {
        RowWriter::new(out, Liveness::NONE, Deletion::LIVE).simple(0, Cell::live(1, &value));
    });
    builder.write_row(&super::sample::clustering(6_000, Some("x")), Liveness::at(1), Deletion::LIVE, |_| {});
    for a in (1..10_000).step_by(2) {
        let deletion = Deletion { timestamp: 1 + i64::from(a % 3), local_time: 5 };
        let bound = |a| crate::Bound::new(&at(a), schema::BoundSide::Before);
        builder.range(&crate::RangeTombstone { start: bound(a), end: bound(a + 1), deletion });
    }
    let whole = partition(&table, &[&builder.finish()]);
    let place = |a: i32| table.bound_position(&at(a), schema::BoundSide::Before).expect("fits");
    let apart = (0..10_000).step_by(2).map(|a| Slice { start: place(a), end: place(a + 2) });
    let apart: Vec<Slice> = apart.collect();
    for (reversed, slices) in
        [(false, vec![Slice::all()]), (true, vec![Slice::all()]), (false, apart.clone()), (true, apart)]
    {
        let mut page = ReadCommand { slices: slices.into(), ..command(u32::MAX, reversed) };
        let mut joined = Partition::new();
        let (mut pages, mut live) = (0, 0);
        loop {
            let emitted = read(&whole, &page, Budget { bytes: 4_000, ..ALL });
            let mutation = emitted.mutation.expect("something in every page");
            assert!(mutation.as_bytes().len() < 9_300, "{} bytes", mutation.as_bytes().len());
            joined.apply(&table, &mutation.view()).expect("fits");
            (pages, live) = (pages + 1, live + emitted.live_rows);
            let Some(after) = emitted.cut_after else { break };
            page.resume = Some(Resume { key: Key::new(KEY), after: Some(after), rows_taken: live });
        }
        assert_eq!((live, &joined), (1, &whole), "reversed: {reversed}");
        assert!((40..100).contains(&pages), "{pages}");
    }
}

/// What every page has to repeat does not end it.
#[test]
fn tombstones_of_a_static_row_end_no_pages() {
    let table = table();
    let mut builder = MutationBuilder::new(table.id, Token::of_key(KEY), KEY);
    builder.static_row_with(|out| {
        RowWriter::new(out, Liveness::NONE, Deletion::LIVE).simple(0, Cell::tombstone(5, 10));
    });
    for a in 0..20 {
        builder.write_row(&super::sample::clustering(a, Some("x")), Liveness::at(1), Deletion::LIVE, |_| {});
    }
    let whole = partition(&table, &[&builder.finish()]);
    let emitted = read(&whole, &command(u32::MAX, false), Budget { tombstones: 1, ..ALL });
    assert_eq!((emitted.live_rows, emitted.tombstones, emitted.cut_after), (20, 1, None));
}

#[test]
fn encoded_forms_read_back_and_damage_is_an_error() {
    for seed in 0..500 {
        let mut prng = Prng::new(seed);
        let mutation = mutation(&mut prng);
        assert_eq!(Mutation::from_bytes(mutation.as_bytes().to_vec()), Ok(mutation.clone()));
        for cut in 0..mutation.as_bytes().len() {
            // A cut between two items is a shorter mutation; any other is refused. Neither panics.
            let outcome = Mutation::from_bytes(mutation.as_bytes()[..cut].to_vec());
            assert!(matches!(outcome, Ok(_) | Err(Error::Malformed { .. })));
        }
        let mut damaged = mutation.as_bytes().to_vec();
        let at = prng.below(damaged.len() as u64) as usize;
        damaged[at] ^= 1 << prng.below(8);
        if let Ok(read) = Mutation::from_bytes(damaged) {
            read.view().items().for_each(|item| match item {
                Item::Row { body, .. } => drop(crate::row_is_live(body, crate::Deletion::LIVE, 5)),
                Item::Range { .. } => {}
            });
        }
        let command = command(9, true);
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        assert_eq!(ReadCommand::decode(&bytes), Ok(command));
        let stopped = Some(Resume { key: Key::new(b"k"), after: None, rows_taken: 3 });
        let answer = ReadAnswer {
            partitions: std::iter::once(mutation).collect(),
            live_rows: 2,
            stopped,
            digest: Some([7; 16]),
            tombstones: 9,
        };
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        assert_eq!(ReadAnswer::decode(&bytes), Ok(answer));
    }
}

#[test]
fn a_row_that_does_not_fit_is_refused_before_it_is_logged() {
    let table = table();
    let mut builder = crate::MutationBuilder::new(TableId(7), Key::new(KEY).token, KEY);
    builder.write_row(b"junk", crate::Liveness::at(1), crate::Deletion::LIVE, |_| {});
    let mutation = builder.finish();
    assert!(crate::check_positions(&table, &mutation.view()).is_err());
    assert!(Partition::new().apply(&table, &mutation.view()).is_err());
}

/// As the reference says it: dead cells, or else the tombstone of a row that is not live.
fn counted_slowly(body: &[u8], live: bool, now_s: u32) -> u32 {
    let row = crate::RowView::new(body);
    let mut dead = 0;
    for (_, column) in row.columns() {
        dead += match column {
            ColumnView::Simple(cell) => u32::from(!cell.is_live(now_s)),
            ColumnView::Complex(complex) => {
                complex.cells().filter(|(_, cell)| !cell.is_live(now_s)).count() as u32
            }
        };
    }
    if dead == 0 && !live && !row.deletion().is_live() { 1 } else { dead }
}

#[test]
fn tombstones_are_counted_in_the_bytes_as_in_the_cells() {
    let mut found = 0;
    for seed in 0..3000 {
        let mutation = mutation(&mut Prng::new(seed));
        let view = mutation.view();
        for (_, body) in view.rows().chain(view.static_row.map(|body| (&[][..], body))) {
            for now_s in [0, 60, u32::MAX - 1] {
                let (live, count) = crate::row_judged(body, Deletion::LIVE, now_s);
                assert_eq!(live, crate::row_is_live(body, Deletion::LIVE, now_s));
                assert_eq!(count, counted_slowly(body, live, now_s), "seed {seed}");
                found += count;
            }
        }
    }
    assert!(found > 1000, "{found}");
}

#[test]
fn a_page_meets_no_range_tombstone_behind_its_end() {
    let table = TableBuilder::new("ks", "t", TableId(7))
        .partition_key("k", CqlType::Text)
        .clustering("c", CqlType::Int, Order::Ascending)
        .build()
        .expect("a sound table");
    let at = |c: i32| {
        let mut clustering = Vec::new();
        push_component(&mut clustering, Some(&c.to_be_bytes()));
        clustering
    };
    let mut builder = MutationBuilder::new(table.id, Token::of_key(KEY), KEY);
    for c in [0, 1000] {
        builder.write_row(&at(c), Liveness::at(1), Deletion::LIVE, |_| {});
    }
    for c in (1..1000).step_by(2) {
        let deletion = Deletion { timestamp: 1, local_time: 5 };
        let (start, end) = (crate::Bound::new(&at(c), schema::BoundSide::Before), at(c));
        let end = crate::Bound::new(&end, schema::BoundSide::After);
        builder.range(&crate::RangeTombstone { start, end, deletion });
    }
    let whole = builder.finish();
    let partition = partition(&table, &[&whole]);
    for reversed in [false, true] {
        let mut page = command(1, reversed);
        let first = read(&partition, &page, Budget { rows: 1, ..ALL });
        assert_eq!((first.live_rows, first.tombstones), (1, 0), "reversed: {reversed}");
        page.resume = Some(Resume { key: Key::new(KEY), after: first.cut_after, rows_taken: 1 });
        let second = read(&partition, &page, Budget { rows: 1, ..ALL });
        assert_eq!((second.live_rows, second.tombstones), (1, 1000), "reversed: {reversed}");
        assert_eq!(second.cut_after, None);
    }
    // Behind the last row there are only tombstones: they are the next page's.
    let rows = Slice { end: table.position(&at(999)).expect("fits"), ..Slice::all() };
    let few = ReadCommand { slices: vec![rows].into(), ..command(1, false) };
    let first = read(&partition, &few, Budget { rows: 1, ..ALL });
    assert_eq!((first.live_rows, first.tombstones), (1, 0));
    assert!(first.cut_after.is_some());
}

/// Emitting from several sources gives what emitting from their merger gives, whatever the limits.
#[test]
fn sources_emitted_together_are_the_merged_partition() {
    let table = table();
    for seed in 0..4000 {
        let mut prng = Prng::new(seed);
        let mutations: Vec<Mutation> = (0..1 + prng.below(6)).map(|_| mutation(&mut prng)).collect();
        let sources: Vec<Partition> = mutations.iter().map(|m| partition(&table, &[m])).collect();
        let whole = partition(&table, &mutations.iter().collect::<Vec<_>>());
        let mut command = command(u32::MAX, prng.below(2) == 0);
        command.slices = match prng.below(3) {
            0 => vec![Slice::all()].into(),
            _ => {
                let at = |a| table.position(&super::sample::clustering(a, Some("y"))).expect("fits");
                vec![Slice { start: at(0), end: at(1) }, Slice { start: at(2), end: at(3) }].into()
            }
        };
        let budget = Budget { rows: 1 + prng.below(4) as u32, ..ALL };
        let key = Key::new(KEY);
        let after = table.position(&super::sample::clustering(1, Some("x"))).expect("fits");
        let what = Emit {
            table: TableId(7),
            key: &key,
            command: &command,
            after: (prng.below(2) == 0).then_some(&after),
            complete_to: None,
        };
        let together = crate::emit_merged(&table, &sources, &what, budget);
        assert_eq!(together, emit(&whole, &what, budget), "seed {seed}");
    }
}

/// A million dead rows under a partition tombstone are passed in pieces, each of which says where the next begins.
#[test]
fn rows_under_a_tombstone_end_a_piece_early() {
    let table = table();
    let mut whole = Partition::new();
    let (clusterings, body) = ((0..40_000).map(|a| super::sample::clustering(a, Some("x"))), {
        let mut body = Vec::new();
        RowWriter::new(&mut body, Liveness::at(5), Deletion::LIVE).simple(0, Cell::live(5, b"value"));
        body
    });
    for clustering in clusterings {
        whole.merge_row(&table, &clustering, &body).expect("fits");
    }
    whole.deletion = Deletion { timestamp: 9, local_time: 1 };
    let key = Key::new(KEY);
    let command = command(u32::MAX, false);
    let (mut after, mut pieces) = (None, 0);
    loop {
        let what = Emit {
            table: TableId(7),
            key: &key,
            command: &command,
            after: after.as_ref(),
            complete_to: None,
        };
        let emitted = emit(&whole, &what, ALL);
        assert_eq!(emitted.live_rows, 0);
        pieces += 1;
        let Some(next) = emitted.cut_after else { break };
        assert!(after.as_ref().is_none_or(|after| *after < next), "it moves on");
        after = Some(next);
    }
    assert!(pieces > 1, "40,000 rows are more than one piece");
}
