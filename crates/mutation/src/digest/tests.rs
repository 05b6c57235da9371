//! What is hashed reads back to what was put in, so no two contents share it.

use super::*;
use crate::tests::sample;
use crate::{Liveness, MutationBuilder, RowWriter};
use base::{Prng, Token};
use proptest::prelude::*;
use schema::TableId;

/// What a digest covers, as a list of words that cannot be confused.
fn told(partitions: &[Mutation]) -> Vec<String> {
    let mut words = Vec::new();
    for view in partitions.iter().map(Mutation::view) {
        words.push(format!("partition {:?} {}", view.key, view.deletion.timestamp));
        view.static_row.into_iter().for_each(|row| tell_row("static", row, &mut words));
        for item in view.items() {
            match item {
                Item::Row { clustering, body } => tell_row(&format!("row {clustering:?}"), body, &mut words),
                Item::Range { start, end, deletion } => {
                    let sides = [start.side as u8, end.side as u8];
                    let bounds = (start.prefix, end.prefix);
                    words.push(format!("range {sides:?} {bounds:?} {}", deletion.timestamp));
                }
            }
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
                        let sides = [self.u8(), self.u8()];
                        let bounds = (self.sized(), self.sized());
                        words.push(format!("range {sides:?} {bounds:?} {}", self.i64()));
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
        let partitions: Vec<Mutation> = (0..count).map(|_| sample::mutation(&mut prng)).collect();
        let bytes = content(&partitions, None);
        let mut reader = Reader(&bytes);
        prop_assert_eq!(reader.partitions(), told(&partitions));
        prop_assert!(reader.0.is_empty(), "{} bytes are left", reader.0.len());
    }
}

/// One static row: a collection with or without an element, and a value behind it or none.
fn one(element: Option<(&[u8], Cell<'_>)>, value: Option<Cell<'_>>) -> Vec<Mutation> {
    let mut builder = MutationBuilder::new(TableId(7), Token(1), b"k");
    builder.static_row_with(|out| {
        let mut writer = RowWriter::new(out, Liveness::NONE, Deletion::LIVE);
        writer.complex_start(0, Deletion { timestamp: 5, local_time: 5 });
        element.into_iter().for_each(|(path, cell)| writer.complex_cell(path, cell));
        writer.complex_end();
        value.into_iter().for_each(|cell| writer.simple(1, cell));
    });
    vec![builder.finish()]
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
    assert_ne!(digest(&column, None), digest(&element, None));
}
