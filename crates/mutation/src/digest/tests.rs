//! What is hashed reads back to what was put in, so no two contents share it; what is not asked for is not hashed.

use super::*;
use crate::command::{Key, Resume, Scope, Slice};
use crate::ranges::{Bound, RangeTombstone};
use crate::tests::sample;
use crate::{Liveness, MutationBuilder, Partitions, RowWriter};
use base::{Prng, Token};
use proptest::prelude::*;
use schema::{BoundSide, TableId};

/// What a digest covers, as a list of words that cannot be confused.
fn told(partitions: &[Mutation]) -> Vec<String> {
    let mut words = Vec::new();
    for view in partitions.iter().map(Mutation::view) {
        words.push(format!("partition {:?} {}", view.key, view.deletion.timestamp));
        view.static_row.into_iter().for_each(|row| tell_row("static", row, &mut words));
        for item in view.items() {
            if let Item::Row { clustering, body } = item {
                tell_row(&format!("row {clustering:?}"), body, &mut words);
            }
        }
        let table = sample::table();
        let mut ranges: Vec<(Position, Position, i64)> = Vec::new();
        for item in view.items() {
            if let Item::Range { start, end, deletion } = item {
                let at =
                    |bound: BoundRef<'_>| bound.to_bound().position(&table).expect("a bound of the table");
                ranges.push((at(start), at(end), deletion.timestamp));
            }
        }
        ranges.retain(|(start, end, _)| start < end);
        ranges.sort();
        let mut ranges = ranges.into_iter().peekable();
        while let Some((start, mut end, timestamp)) = ranges.next() {
            while let Some(next) = ranges.next_if(|next| next.0 == end && next.2 == timestamp) {
                end = next.1;
            }
            words.push(format!("range {:?} {:?} {timestamp}", start.as_bytes(), end.as_bytes()));
        }
    }
    words
}

fn tell_row(what: &str, body: &[u8], words: &mut Vec<String>) {
    let row = RowView::new(body);
    let (liveness, deletion) = (row.liveness(), row.deletion().timestamp);
    words.push(format!("{what} {} {} {deletion}", liveness.timestamp, liveness.ttl));
    let cell = |c: &Cell<'_>| format!("{} {} {:?}", c.timestamp, c.ttl, c.value);
    for (ordinal, column) in row.columns() {
        match column {
            ColumnView::Simple(c) => words.push(format!("simple {ordinal} {}", cell(&c))),
            ColumnView::Complex(complex) => {
                words.push(format!("complex {ordinal} {}", complex.deletion.timestamp));
                complex.cells().for_each(|(path, c)| words.push(format!("cell {path:?} {}", cell(&c))));
            }
        }
    }
}

/// Reads what is hashed from its front, knowing only the grammar.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count);
        self.0 = rest;
        front
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().expect("two"))
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().expect("four"))
    }

    fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().expect("eight"))
    }

    fn sized(&mut self) -> &'a [u8] {
        let count = self.u32();
        self.take(count as usize)
    }

    fn cell(&mut self) -> String {
        let (timestamp, ttl, count) = (self.i64(), self.u32(), self.u32());
        let value = (count != u32::MAX).then(|| self.take(count as usize));
        format!("{timestamp} {ttl} {value:?}")
    }

    fn row(&mut self, what: &str, words: &mut Vec<String>) {
        words.push(format!("{what} {} {} {}", self.i64(), self.u32(), self.i64()));
        loop {
            match self.u8() {
                END => return,
                SIMPLE => words.push(format!("simple {} {}", self.u16(), self.cell())),
                COMPLEX => {
                    words.push(format!("complex {} {}", self.u16(), self.i64()));
                    while self.u8() == CELL {
                        words.push(format!("cell {:?} {}", self.sized(), self.cell()));
                    }
                }
                other => panic!("column {other}"),
            }
        }
    }

    fn partitions(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while self.u8() == PARTITION {
            words.push(format!("partition {:?} {}", self.sized(), self.i64()));
            if self.u8() == ROW {
                self.row("static", &mut words);
            }
            loop {
                match self.u8() {
                    END => break,
                    ROW => {
                        let clustering = self.sized();
                        self.row(&format!("row {clustering:?}"), &mut words);
                    }
                    RANGE => {
                        words.push(format!("range {:?} {:?} {}", self.sized(), self.sized(), self.i64()));
                    }
                    other => panic!("item {other}"),
                }
            }
        }
        words
    }
}

proptest! {
    #[test]
    fn what_is_hashed_reads_back(seed: u64, count in 0usize..4) {
        let mut prng = Prng::new(seed);
        let partitions: Partitions = (0..count).map(|_| sample::mutation(&mut prng)).collect();
        let answer = ReadAnswer { partitions: partitions.clone(), ..ReadAnswer::default() };
        let bytes = content(&sample::table(), &everything(), &answer, None);
        let mut reader = Reader(&bytes);
        prop_assert_eq!(reader.partitions(), told(&partitions));
        prop_assert!(reader.0.is_empty(), "{} bytes are left", reader.0.len());
    }
}

fn everything() -> ReadCommand {
    ReadCommand::everything(TableId(7), Scope::Keys(std::iter::once(Key::new(sample::KEY)).collect()), 0)
}

/// Tombstones begin and end before one of these.
const PLACES: i32 = 12;

fn before(a: i32) -> Bound {
    Bound::new(&prefix(a), BoundSide::Before)
}

fn prefix(a: i32) -> Vec<u8> {
    let mut wire = Vec::new();
    schema::push_component(&mut wire, Some(&a.to_be_bytes()));
    wire
}

fn at(bound: &Bound) -> Position {
    bound.position(&sample::table()).expect("a bound of the table")
}

/// An answer of tombstones, each from a place to a place.
fn answer(tombstones: &[(i32, i32, i64)]) -> ReadAnswer {
    let mut builder = MutationBuilder::new(TableId(7), Token::of_key(sample::KEY), sample::KEY);
    for (start, end, timestamp) in tombstones {
        let deletion = Deletion { timestamp: *timestamp, local_time: 1 };
        builder.range(&RangeTombstone { start: before(*start), end: before(*end), deletion });
    }
    ReadAnswer { partitions: std::iter::once(builder.finish()).collect(), ..ReadAnswer::default() }
}

/// What of tombstones lies at each place that is asked for.
fn shown(tombstones: &[(i32, i32, i64)], asked: impl Fn(i32) -> bool) -> Vec<Option<i64>> {
    let of = |place: i32| tombstones.iter().find(|(start, end, _)| (*start..*end).contains(&place));
    (0..PLACES).map(|place| of(place).filter(|_| asked(place)).map(|found| found.2)).collect()
}

/// Disjoint tombstones, ascending.
fn some_tombstones(prng: &mut Prng) -> Vec<(i32, i32, i64)> {
    let (mut tombstones, mut from) = (Vec::new(), 0);
    while from < PLACES {
        let start = from + prng.below(3) as i32;
        let end = start + 1 + prng.below(4) as i32;
        if end <= PLACES {
            tombstones.push((start, end, 1 + prng.below(2) as i64));
        }
        from = end;
    }
    tombstones
}

proptest! {
    #[test]
    fn equal_parts_of_tombstones_have_equal_digests_and_others_have_not(seed: u64) {
        let prng = &mut Prng::new(seed);
        let (one, mut other) = (some_tombstones(prng), some_tombstones(prng));
        let first = prng.below(PLACES as u64) as i32;
        let last = first + prng.below((PLACES - first) as u64) as i32;
        // Two slices, and a page that begins or ends somewhere.
        let ends = [first, last, last + prng.below(2) as i32, PLACES];
        let (after, until) = (prng.below(8) as i32 - 3, PLACES + 3 - prng.below(8) as i32);
        let reversed = prng.below(2) == 1;
        let slice = |from, to| Slice { start: at(&before(from)), end: at(&before(to)) };
        let mut command = everything();
        command.reversed = reversed;
        command.slices = [slice(ends[0], ends[1]), slice(ends[2], ends[3])].into_iter().collect();
        command.slices.retain(|slice| slice.start < slice.end);
        // The place where a page stops is in it: forward that is the last one of those before `until`.
        let last_one = Bound::new(&prefix(until - 1), BoundSide::After);
        let (begin, stop) =
            if reversed { (before(until), before(after)) } else { (before(after), last_one) };
        let resume = |bound: &Bound| {
            Some(Resume { key: Key::new(sample::KEY), after: Some(at(bound)), rows_taken: 0 })
        };
        command.resume = resume(&begin);
        let asked = |place: i32| {
            let in_slices = (ends[0]..ends[1]).contains(&place) || (ends[2]..ends[3]).contains(&place);
            in_slices && (after..until).contains(&place)
        };
        if prng.below(2) == 1 {
            // The same where it was asked for, cut anywhere else.
            other = one.iter().flat_map(|(start, end, timestamp)| {
                (*start..*end).filter(|place| asked(*place)).map(|place| (place, place + 1, *timestamp))
            }).collect();
        }
        let digest_of = |tombstones: &[(i32, i32, i64)]| {
            let answer = ReadAnswer { stopped: resume(&stop), ..answer(tombstones) };
            digest(&sample::table(), &command, &answer, None)
        };
        let same = shown(&one, asked) == shown(&other, asked);
        prop_assert_eq!(digest_of(&one) == digest_of(&other), same, "{:?} {:?} {:?}", one, other, command);
    }
}

#[test]
fn a_page_full_of_rows_ends_with_its_last_live_row() {
    let clustering = sample::clustering(3, Some("x"));
    let with_row = |(start, end): (i32, i32), live: bool| {
        let mut builder = MutationBuilder::new(TableId(7), Token::of_key(sample::KEY), sample::KEY);
        let deletion = Deletion { timestamp: 1, local_time: 1 };
        builder.range(&RangeTombstone { start: before(start), end: before(end), deletion });
        let dead = Deletion { timestamp: 5, local_time: 1 };
        let (liveness, deletion) =
            if live { (Liveness::at(5), Deletion::LIVE) } else { (Liveness::NONE, dead) };
        builder.write_row(&clustering, liveness, deletion, |_| {});
        let partitions = std::iter::once(builder.finish()).collect();
        ReadAnswer { partitions, live_rows: 1, ..ReadAnswer::default() }
    };
    let full = ReadCommand { row_limit: 1, ..everything() };
    let back = ReadCommand { reversed: true, ..full.clone() };
    let digest = |command: &ReadCommand, range: (i32, i32), live: bool| {
        digest(&sample::table(), command, &with_row(range, live), None)
    };
    assert_eq!(digest(&full, (1, 5), true), digest(&full, (1, 7), true));
    assert_ne!(digest(&full, (1, 5), true), digest(&full, (2, 5), true));
    assert_ne!(digest(&full, (1, 3), true), digest(&full, (1, 7), true), "one ends before the row");
    assert_eq!(digest(&back, (2, 5), true), digest(&back, (1, 5), true));
    assert_ne!(digest(&back, (1, 5), true), digest(&back, (1, 7), true));
    assert_ne!(digest(&everything(), (1, 5), true), digest(&everything(), (1, 7), true));
    // What counts is the static row: all of the partition was seen.
    assert_ne!(digest(&full, (1, 5), false), digest(&full, (1, 7), false));
}

/// One static row: a collection with or without an element, and a value behind it or none.
fn one(element: Option<(&[u8], Cell<'_>)>, value: Option<Cell<'_>>) -> ReadAnswer {
    let mut builder = MutationBuilder::new(TableId(7), Token(1), b"k");
    builder.static_row_with(|out| {
        let mut writer = RowWriter::new(out, Liveness::NONE, Deletion::LIVE);
        writer.complex_start(0, Deletion { timestamp: 5, local_time: 5 });
        element.into_iter().for_each(|(path, cell)| writer.complex_cell(path, cell));
        writer.complex_end();
        value.into_iter().for_each(|cell| writer.simple(1, cell));
    });
    ReadAnswer { partitions: std::iter::once(builder.finish()).collect(), ..ReadAnswer::default() }
}

#[test]
fn an_element_is_not_a_value_of_the_next_column() {
    // Without a mark between them, the next column's ordinal and time read as the length of an element's path, and its
    // value as the rest of that element.
    const PATH: usize = 0x1_0000;
    let mut value = vec![0; PATH - 14];
    value.extend_from_slice(&1i64.to_be_bytes());
    value.extend_from_slice(&[0; 8]);
    let mut path = vec![0; 10];
    path.extend_from_slice(&(value.len() as u32).to_be_bytes());
    path.extend_from_slice(&value[..PATH - 14]);
    let column = one(None, Some(Cell::live(0, &value)));
    let element = one(Some((&path, Cell::live(1, b""))), None);
    let digest = |answer: &ReadAnswer| digest(&sample::table(), &everything(), answer, None);
    assert_ne!(digest(&column), digest(&element));
}
