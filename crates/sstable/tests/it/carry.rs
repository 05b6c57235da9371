//! Rows that go from one sstable into another as they are leave the same bytes as those that are packed between.

use base::Prng;
use mutation::{Cell, ColumnView, Deletion, Item, RangeTombstone, RowView, Slice, TokenRange};
use proptest::prelude::*;
use schema::Table;
use sstable::{
    Component, Copied, Descriptor, EncodingStats, Reader, Scanner, Version, Writer, WriterOptions,
};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::property;
use crate::samples::{self, Amount, SampleItem, SamplePartition};
use crate::{first, golden, on_shard, table};

/// Writes the rest of a partition from packed rows.
async fn pack(scanner: &mut Scanner, writer: &mut Writer) {
    while let Some(scanned) = scanner.piece(&[Slice::all()], usize::MAX).await.unwrap() {
        for item in scanned.slice.mutation.view().items() {
            match item {
                Item::Row { clustering, body } => writer.row(clustering, body).unwrap(),
                Item::Range { start, end, deletion } => {
                    let (start, end) = (start.to_bound(), end.to_bound());
                    writer.range_tombstone(&RangeTombstone { start, end, deletion }).unwrap();
                }
            }
        }
    }
}

/// Copies an sstable, stopping at random and often; returns the partitions that were copied to their end.
async fn copy(reader: &Rc<Reader>, options: WriterOptions, rng: &mut Prng) -> u64 {
    let mut scanner = reader.scan(TokenRange::ALL);
    let mut writer = Writer::create(options).await.unwrap();
    assert!(writer.carries(reader));
    let mut whole = 0;
    while let Some(entered) = scanner.enter().await.unwrap() {
        writer.start_partition(entered.key, entered.token, entered.deletion, entered.static_row).unwrap();
        loop {
            let pending = if rng.chance(0.5) { 0 } else { 1 << 20 };
            let copied = scanner.copy_rows(&mut writer, None, pending).await.unwrap();
            if copied == Copied::All {
                whole += 1;
                break;
            }
            if copied == Copied::Odd || rng.chance(0.05) {
                pack(&mut scanner, &mut writer).await;
                break;
            }
        }
        writer.end_partition().unwrap();
        writer.drain().await.unwrap();
    }
    writer.finish().await.unwrap();
    whole
}

/// Makes most of the partitions say nothing that is deleted.
fn mostly_live(partitions: &mut [SamplePartition], rng: &mut Prng) {
    for partition in partitions {
        if rng.chance(0.2) {
            continue;
        }
        partition.deletion = Deletion::LIVE;
        partition.items.retain(|item| {
            let SampleItem::Row { body, .. } = item else { return false };
            let row = RowView::new(body);
            let is_live = |cell: &Cell<'_>| !cell.is_tombstone();
            let all_live = row.deletion().is_live()
                && row.columns().all(|(_, column)| match column {
                    ColumnView::Simple(cell) => is_live(&cell),
                    ColumnView::Complex(complex) => {
                        complex.deletion.is_live() && complex.cells().all(|(_, cell)| is_live(&cell))
                    }
                });
            all_live || rng.chance(0.05)
        });
    }
}

fn component(dir: &Path, descriptor: Descriptor, component: Component) -> Vec<u8> {
    std::fs::read(component.path(dir, descriptor)).unwrap()
}

/// Copies an sstable, and packs it, and compares every file. Returns the partitions that were copied to their end.
async fn compare(dir: &Path, reader: &Rc<Reader>, to: Version, rng: &mut Prng) -> u64 {
    let table = reader.table();
    let same = samples::options(dir, to, 2, table, reader.meta().partitions as usize);
    let mut whole = 0;
    for base in [same.base, EncodingStats::EPOCH] {
        let options = |generation| WriterOptions { base, generation, ..same.clone() };
        whole += copy(reader, options(2), rng).await;
        let mut packed = Writer::create(options(3)).await.unwrap();
        let mut scanner = reader.scan(TokenRange::ALL);
        while let Some(entered) = scanner.enter().await.unwrap() {
            let (key, token) = (entered.key, entered.token);
            packed.start_partition(key, token, entered.deletion, entered.static_row).unwrap();
            pack(&mut scanner, &mut packed).await;
            packed.end_partition().unwrap();
        }
        packed.finish().await.unwrap();
        let (copied, packed) = (Descriptor::new(to, 2), Descriptor::new(to, 3));
        for part in Component::ALL {
            if !part.path(dir, packed).exists() {
                assert!(!part.path(dir, copied).exists(), "{part:?}");
                continue;
            }
            let (copied, packed) = (component(dir, copied, part), component(dir, packed, part));
            assert!(copied == packed, "{part:?} of table {} to {to:?}", table.name);
        }
        for generation in [2, 3] {
            let descriptor = Descriptor::new(to, generation);
            Reader::open(dir, descriptor, table.clone()).await.unwrap().remove_files().await.unwrap();
        }
    }
    whole
}

async fn check(dir: &Path, table: &Arc<Table>, seed: u64, amount: Amount) -> u64 {
    let mut rng = Prng::new(seed ^ 0xca77);
    let mut partitions = samples::partitions(table, seed, amount);
    mostly_live(&mut partitions, &mut rng);
    partitions.retain(|partition| {
        !partition.items.is_empty() || !partition.deletion.is_live() || partition.static_row.is_some()
    });
    if partitions.is_empty() {
        return 0;
    }
    let mut whole = 0;
    for (from, to) in [
        (Version::Nb, Version::Nb),
        (Version::Da, Version::Da),
        (Version::Nb, Version::Da),
        (Version::Da, Version::Nb),
    ] {
        samples::write(dir, from, 1, table, &partitions).await.unwrap();
        let reader = Reader::open(dir, first(from), table.clone()).await.unwrap();
        whole += compare(dir, &reader, to, &mut rng).await;
        reader.remove_files().await.unwrap();
    }
    whole
}

#[test]
fn every_table_is_copied_as_it_is() {
    for table in samples::tables() {
        on_shard(move |dir| {
            let table = table.clone();
            Box::pin(async move {
                let small = Amount { partitions: 60, rows: 8, value_bytes: 40 };
                assert!(check(&dir, &table, 1, small).await > 60, "table {}", table.name);
                check(&dir, &table, 2, Amount { partitions: 2, rows: 300, value_bytes: 900 }).await;
            })
        });
    }
}

#[test]
fn what_cassandra_wrote_is_copied_as_it_is() {
    on_shard(|dir| {
        Box::pin(async move {
            let mut rng = Prng::new(11);
            for (name, versions, ..) in golden::TABLES {
                let mut whole = 0;
                for version in versions {
                    let reader = golden::open(name, *version).await;
                    for to in [Version::Nb, Version::Da] {
                        whole += compare(&dir, &reader, to, &mut rng).await;
                    }
                }
                assert!(whole > 0, "table {name}");
            }
        })
    });
}

#[test]
fn a_column_that_was_dropped_is_not_copied() {
    on_shard(|dir| {
        Box::pin(async move {
            let before = table("plain");
            let amount = Amount { partitions: 3, rows: 5, value_bytes: 20 };
            let partitions = samples::partitions(&before, 1, amount);
            samples::write(&dir, Version::Nb, 1, &before, &partitions).await.unwrap();
            let name = before.regulars[0].name.to_string();
            let mut builder = before.to_builder();
            assert!(builder.drop_column(&name, i64::MAX - 1));
            let after = Arc::new(builder.build().unwrap());
            let reader = Reader::open(&dir, first(Version::Nb), after.clone()).await.unwrap();
            let writer = Writer::create(samples::options(&dir, Version::Nb, 2, &after, 3)).await.unwrap();
            assert!(!writer.carries(&reader));
            writer.abandon().await.unwrap();
        })
    });
}

proptest! {
    #![proptest_config(property::cases(12))]

    #[test]
    fn random_partitions_are_copied_as_they_are((seed, index, amount) in property::any_amount()) {
        on_shard(move |dir| {
            Box::pin(async move {
                let table = &samples::tables()[index];
                check(&dir, table, seed, amount).await;
            })
        });
    }
}

/// Partitions that are copied to their end when what expires by then is not.
async fn copied_whole(dir: &Path, reader: &Rc<Reader>, expire_at: Option<u32>) -> u64 {
    let mut scanner = reader.scan(TokenRange::ALL);
    let amount = reader.meta().partitions as usize;
    let mut writer =
        Writer::create(samples::options(dir, Version::Da, 2, reader.table(), amount)).await.unwrap();
    let mut whole = 0;
    while let Some(entered) = scanner.enter().await.unwrap() {
        writer.start_partition(entered.key, entered.token, entered.deletion, entered.static_row).unwrap();
        let copied = loop {
            match scanner.copy_rows(&mut writer, expire_at, 1 << 20).await.unwrap() {
                Copied::Some => {}
                other => break other,
            }
        };
        whole += u64::from(copied == Copied::All);
        if copied == Copied::Odd {
            pack(&mut scanner, &mut writer).await;
        }
        writer.end_partition().unwrap();
    }
    writer.abandon().await.unwrap();
    whole
}

/// Whether nothing of a partition's rows is deleted, or has expired at a time.
fn is_whole(partition: &SamplePartition, now: Option<u32>) -> bool {
    let stays = |cell: &Cell<'_>| {
        !(cell.is_tombstone() || cell.is_expiring() && now.is_some_and(|now| cell.local_time <= now))
    };
    partition.items.iter().all(|item| {
        let SampleItem::Row { body, .. } = item else { return false };
        let row = RowView::new(body);
        let liveness = row.liveness();
        let has_expired = liveness.is_expiring() && now.is_some_and(|now| liveness.expires_at <= now);
        row.deletion().is_live()
            && !has_expired
            && row.columns().all(|(_, column)| match column {
                ColumnView::Simple(cell) => stays(&cell),
                ColumnView::Complex(complex) => {
                    complex.deletion.is_live() && complex.cells().all(|(_, cell)| stays(&cell))
                }
            })
    })
}

#[test]
fn what_has_expired_is_not_copied_and_what_will_is() {
    on_shard(|dir| {
        Box::pin(async move {
            let table = table("plain");
            let amount = Amount { partitions: 400, rows: 2, value_bytes: 20 };
            let mut partitions = samples::partitions(&table, 5, amount);
            mostly_live(&mut partitions, &mut Prng::new(5));
            partitions.retain(|partition| !partition.items.is_empty());
            let mut times: Vec<u32> = Vec::new();
            for item in partitions.iter().flat_map(|partition| &partition.items) {
                let SampleItem::Row { body, .. } = item else { continue };
                let row = RowView::new(body);
                let cells = row.columns().filter_map(|(_, column)| match column {
                    ColumnView::Simple(cell) if cell.is_expiring() => Some(cell.local_time),
                    _ => None,
                });
                times.extend(cells.chain(row.liveness().is_expiring().then_some(row.liveness().expires_at)));
            }
            times.sort_unstable();
            samples::write(&dir, Version::Da, 1, &table, &partitions).await.unwrap();
            let reader = Reader::open(&dir, first(Version::Da), table.clone()).await.unwrap();
            let expected =
                |now| partitions.iter().filter(|partition| is_whole(partition, now)).count() as u64;
            let middle = times[times.len() / 2];
            for now in [None, Some(times[0] - 1), Some(middle - 1), Some(middle), Some(u32::MAX)] {
                assert_eq!(copied_whole(&dir, &reader, now).await, expected(now), "{now:?}");
            }
            assert!(
                expected(Some(u32::MAX)) < expected(Some(middle)) && expected(Some(middle)) < expected(None)
            );
        })
    });
}
