//! Names that are not ASCII: files in Cassandra's order of columns, and those that were written here before it was known, by plain
//! bytes of names, say the same.

use mutation::{ColumnView, Mutation, RowView};
use schema::clustering_components;
use sstable::{Component, Descriptor, Reader, Version};
use std::path::Path;
use std::rc::Rc;

use crate::golden::{descriptor, folder, rewrite, scan, statistics, table_of};
use crate::on_shard;

/// Columns in the order of their values, which stand in rows 0 to 15 of the partition `one`, and those of two neighbours in `two`.
const NAMES: [&str; 16] =
    ["a", "ж", "b", "aж", "ab", "abcdefж", "abcdefg", "😀", "A", "é", "el", "я", "aя", "as", "ю", "up"];
/// Those of the static row of the partition `all`.
const STATICS: [&str; 5] = ["sa", "sж", "я1", "sm", "ям"];
const FIRST: i64 = 1_700_000_000_000_000;

/// Opens a file as one of the table of Cassandra's, whatever order its own columns have.
async fn open(dir: &Path, descriptor: Descriptor) -> Rc<Reader> {
    let table = table_of("names", &statistics("names", Version::Nb).header);
    Reader::open(dir, descriptor, table).await.unwrap()
}

fn place(reader: &Reader, is_static: bool, name: &str) -> u16 {
    let table = reader.table();
    let columns = if is_static { &table.statics } else { &table.regulars };
    columns.iter().find(|column| &*column.name == name).expect(name).ordinal
}

/// What a row says that is live: columns with the bytes of their values, one after the other.
fn said(body: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let row = RowView::new(body);
    let columns = row.columns().map(|(ordinal, column)| {
        let value = match column {
            ColumnView::Simple(cell) => cell.value.unwrap_or_default().to_vec(),
            // Of a set, the values are in the paths; those of a list are times.
            ColumnView::Complex(cells) => cells
                .cells()
                .flat_map(|(path, cell)| if path.len() == 4 { path } else { cell.value.unwrap() }.to_vec())
                .collect(),
        };
        (ordinal, value)
    });
    columns.collect()
}

fn values() -> Vec<Vec<u8>> {
    let int = |number: i32| number.to_be_bytes().to_vec();
    let ints = |numbers: &[i32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let frozen = [&ints(&[4, 10, 6])[..], b"eleven"].concat();
    let open = [&int(8)[..], b"nine"].concat();
    let text = |text: &str| text.as_bytes().to_vec();
    let simple =
        [text("a"), text("zhe"), int(1), text("a zhe"), text("ab"), text("abcdef zhe"), text("abcdefg")];
    let mut all = simple.to_vec();
    all.extend([int(2), int(3), ints(&[1, 2]), int(3), int(4), ints(&[5, 6]), int(7), open, frozen]);
    all
}

fn check(reader: &Reader, all: &[Mutation]) {
    let partition = |key: &str| all.iter().find(|one| one.view().key == key.as_bytes()).expect(key).view();
    let values = values();
    let expected = |indexes: &[usize]| {
        let mut row: Vec<_> = indexes
            .iter()
            .map(|index| (place(reader, false, NAMES[*index]), values[*index].clone()))
            .collect();
        row.sort();
        row
    };
    let number = |clustering: &[u8]| {
        let value = clustering_components(clustering).next().unwrap().unwrap().unwrap();
        i32::from_be_bytes(value.try_into().unwrap()) as usize
    };
    let every: Vec<usize> = (0..NAMES.len()).collect();
    assert_eq!(partition("all").rows().map(|(_, body)| said(body)).collect::<Vec<_>>(), [expected(&every)]);
    assert_eq!(partition("one").rows().count(), 16);
    for (clustering, body) in partition("one").rows() {
        assert_eq!(said(body), expected(&[number(clustering)]));
    }
    assert_eq!(partition("two").rows().count(), 15);
    for (clustering, body) in partition("two").rows() {
        let index = number(clustering);
        assert_eq!(said(body), expected(&[index - 1, index]));
    }
    for (clustering, body) in partition("gone").rows() {
        let index = number(clustering);
        let row = RowView::new(body);
        let [(ordinal, column)] = row.columns().collect::<Vec<_>>()[..] else { panic!("row {index}") };
        assert_eq!(ordinal, place(reader, false, NAMES[index]));
        let deleted_at = match column {
            ColumnView::Simple(cell) => cell.timestamp,
            ColumnView::Complex(cells) => cells.deletion.timestamp,
        };
        assert_eq!(deleted_at, FIRST + 100 + index as i64);
    }
    let statics = [&b"sa"[..], b"s zhe", b"ya", b"\0\0\0\x01", b"\0\0\0\x02"];
    let mut expected: Vec<_> = STATICS
        .iter()
        .zip(statics)
        .map(|(name, value)| (place(reader, true, name), value.to_vec()))
        .collect();
    expected.sort();
    assert_eq!(said(partition("all").static_row.unwrap()), expected);
}

#[test]
fn files_of_either_order_are_read() {
    on_shard(|_| {
        Box::pin(async {
            for (name, version) in [
                ("names", Version::Nb),
                ("names", Version::Da),
                ("names_old", Version::Nb),
                ("names_old", Version::Da),
            ] {
                let reader = open(&folder(name), descriptor(version)).await;
                check(&reader, &scan(&reader).await);
            }
        })
    });
}

/// The order of the header is the order of cells; Cassandra's, whatever was read.
#[test]
fn files_are_written_in_the_order_of_cassandra() {
    on_shard(|dir| {
        Box::pin(async move {
            let listed = |columns: &[(String, String)]| -> Vec<String> {
                columns.iter().map(|(name, _)| name.clone()).collect()
            };
            let of_cassandra = statistics("names", Version::Nb).header;
            for (name, version) in
                [("names", Version::Nb), ("names_old", Version::Nb), ("names_old", Version::Da)]
            {
                let reader = open(&folder(name), descriptor(version)).await;
                rewrite(&dir, &reader, version).await;
                let written = Descriptor::new(version, 1);
                let again = open(&dir, written).await;
                check(&again, &scan(&again).await);
                let header = again.statistics().await.unwrap().header;
                assert_eq!(listed(&header.statics), listed(&of_cassandra.statics), "{name} {version}");
                assert_eq!(listed(&header.regulars), listed(&of_cassandra.regulars), "{name} {version}");
                assert_eq!(again.path(Component::Data).parent(), Some(&*dir));
                sstable::remove_sstable(&dir, written).await.unwrap();
            }
        })
    });
}
