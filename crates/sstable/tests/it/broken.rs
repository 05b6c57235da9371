//! Files that are cut, changed or missing: named in an error or done without, never a panic, never other data.

use base::{Prng, Token};
use mutation::{Slice, TokenRange};
use schema::{ColumnKind, Table};
use sstable::{Component, Error, Reader, Version};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::CqlType;

use crate::samples::{self, Amount, SamplePartition};
use crate::{first, on_shard, table};

/// Everything in the sstable, by a scan and by lookups.
async fn read_all(
    dir: &Path,
    version: Version,
    table: &Arc<Table>,
    keys: &[SamplePartition],
) -> Result<Vec<Vec<u8>>, Error> {
    let reader = Reader::open(dir, first(version), table.clone()).await?;
    let slices = [Slice::all()];
    let mut all = Vec::new();
    let mut scanner = reader.scan(TokenRange::ALL);
    while let Some(scanned) = scanner.next(&slices, 10_000).await? {
        all.push(scanned.slice.mutation.into_bytes());
    }
    for (index, partition) in keys.iter().enumerate() {
        let (key, token) = (&partition.key, partition.token);
        let read = reader.read_partition(key, token, &slices, index % 2 == 1, 10_000).await?;
        all.push(read.map_or(Vec::new(), |slice| slice.mutation.into_bytes()));
    }
    Ok(all)
}

fn files(dir: &Path, version: Version) -> Vec<PathBuf> {
    let all = Component::ALL.into_iter().map(|part| part.path(dir, first(version)));
    all.filter(|path| path.exists()).collect()
}

fn break_one(bytes: &mut Vec<u8>, rng: &mut Prng) {
    if bytes.is_empty() {
        return bytes.push(1);
    }
    let at = rng.below(bytes.len() as u64) as usize;
    match rng.below(4) {
        0 => bytes.truncate(at),
        1 => bytes[at] = rng.below(256) as u8,
        2 => bytes[at] ^= 1 << rng.below(8),
        _ => {
            let end = (at + 8).min(bytes.len());
            rng.fill(&mut bytes[at..end]);
        }
    }
}

async fn check_broken(
    dir: PathBuf,
    version: Version,
    table: Arc<Table>,
    amount: Amount,
    checked: bool,
    rounds: u64,
) {
    let partitions = samples::partitions(&table, 3, amount);
    samples::write(&dir, version, 1, &table, &partitions).await.unwrap();
    let whole = read_all(&dir, version, &table, &partitions).await.unwrap();
    let sums = Component::Checksums.path(&dir, first(version));
    if !checked {
        std::fs::remove_file(&sums).unwrap();
    }
    let files = files(&dir, version);
    let mut rng = Prng::new(11);
    let mut refused = 0;
    for round in 0..rounds {
        let file = &files[rng.below(files.len() as u64) as usize];
        let sound = std::fs::read(file).unwrap();
        let mut broken = sound.clone();
        break_one(&mut broken, &mut rng);
        std::fs::write(file, &broken).unwrap();
        match read_all(&dir, version, &table, &partitions).await {
            Err(Error::Corrupt { file: named, .. }) => {
                refused += 1;
                // A break of the offsets shows in the data and the other way round; any other names itself.
                assert!(named.starts_with(&dir), "round {round}: {named:?} of {file:?}");
            }
            Err(Error::Unsupported { .. }) => refused += 1,
            // A file that is gone.
            Err(error) => panic!("round {round}, {file:?}: {error}"),
            Ok(all) => assert!(!checked || all == whole, "round {round}: other data after breaking {file:?}"),
        }
        std::fs::write(file, &sound).unwrap();
    }
    assert!(refused > rounds / 4, "{refused} of {rounds} were refused");
    assert_eq!(read_all(&dir, version, &table, &partitions).await.unwrap(), whole);
}

#[test]
fn any_broken_byte_is_seen() {
    for name in ["reversed", "plain", "collections"] {
        on_shard(move |dir| {
            let amount = Amount { partitions: 150, rows: 30, value_bytes: 60 };
            Box::pin(async move {
                for version in [Version::Nb, Version::Da] {
                    check_broken(dir.clone(), version, table(name), amount, true, 80).await;
                }
            })
        });
    }
}

#[test]
fn broken_wide_partitions_are_seen() {
    on_shard(|dir| {
        let amount = Amount { partitions: 2, rows: 3000, value_bytes: 300 };
        Box::pin(async move {
            for version in [Version::Nb, Version::Da] {
                check_broken(dir.clone(), version, table("reversed"), amount, true, 30).await;
            }
        })
    });
}

#[test]
fn without_our_checksums_nothing_panics() {
    for name in ["reversed", "plain", "seventy", "snappy", "deflated", "zstd"] {
        on_shard(move |dir| {
            let amount = Amount { partitions: 40, rows: 30, value_bytes: 60 };
            Box::pin(async move {
                for version in [Version::Me, Version::Nb, Version::Oa, Version::Da] {
                    check_broken(dir.clone(), version, table(name), amount, false, 40).await;
                }
            })
        });
    }
}

/// From everywhere the next readable partition is found, and none is passed that could be read.
async fn check_next_readable(reader: &Reader, partitions: &[SamplePartition]) -> u64 {
    let mut passed_in_all = 0;
    let froms = partitions.iter().map(|partition| partition.token).chain([Token::MIN]);
    for from in froms {
        let next = reader.next_readable(from).await.unwrap();
        let first = partitions.partition_point(|partition| partition.token < from);
        let found = next.token.map_or(partitions.len(), |token| {
            partitions.iter().position(|partition| partition.token == token).unwrap()
        });
        let passed = &partitions[first..found];
        let all = [Slice::all()];
        for partition in passed {
            let read = reader.read_partition(&partition.key, partition.token, &all, false, 10_000).await;
            assert!(matches!(read, Err(Error::Corrupt { .. })), "{} can be read", partition.token);
        }
        // Whether what lies before the token comes before it is known only from its key.
        let count = passed.len() as u64;
        assert!((count..=count + 1).contains(&next.unreadable), "{} of {count}", next.unreadable);
        assert_eq!(next.unreadable > 0, next.error.is_some());
        passed_in_all += count;
    }
    passed_in_all
}

#[test]
fn unreadable_keys_are_passed_wherever_they_are() {
    for name in ["plain", "reversed"] {
        on_shard(move |dir| {
            Box::pin(async move {
                let (table, version) = (table(name), Version::Da);
                let amount = Amount { partitions: 60, rows: 40, value_bytes: 600 };
                let partitions = samples::partitions(&table, 9, amount);
                samples::write(&dir, version, 1, &table, &partitions).await.unwrap();
                let file = Component::Data.path(&dir, first(version));
                let sound = std::fs::read(&file).unwrap();
                let (length, middle) = (sound.len(), sound.len() / 2);
                for damaged in [0..1, length - 1..length, middle..middle + 20_000.min(middle), 0..length] {
                    let mut broken = sound.clone();
                    broken[damaged.clone()].iter_mut().for_each(|byte| *byte ^= 0x55);
                    std::fs::write(&file, &broken).unwrap();
                    let reader = Reader::open(&dir, first(version), table.clone()).await.unwrap();
                    let passed = check_next_readable(&reader, &partitions).await;
                    assert!(passed > 0 || damaged.len() == 1, "{damaged:?} made no key unreadable");
                }
            })
        });
    }
}

#[test]
fn optional_files_can_be_missing() {
    on_shard(|dir| {
        Box::pin(async move {
            let (table, version) = (table("reversed"), Version::Nb);
            let partitions =
                samples::partitions(&table, 5, Amount { partitions: 400, rows: 5, value_bytes: 20 });
            samples::write(&dir, version, 1, &table, &partitions).await.unwrap();
            let whole = read_all(&dir, version, &table, &partitions).await.unwrap();
            for part in [
                Component::Summary,
                Component::Filter,
                Component::Checksums,
                Component::Digest,
                Component::Toc,
            ] {
                std::fs::remove_file(part.path(&dir, first(version))).unwrap();
                assert_eq!(
                    read_all(&dir, version, &table, &partitions).await.unwrap(),
                    whole,
                    "without {part:?}"
                );
            }
            for part in [Component::Statistics, Component::Index, Component::Data, Component::CompressionInfo]
            {
                let sound = std::fs::read(part.path(&dir, first(version))).unwrap();
                std::fs::remove_file(part.path(&dir, first(version))).unwrap();
                assert!(read_all(&dir, version, &table, &partitions).await.is_err(), "without {part:?}");
                std::fs::write(part.path(&dir, first(version)), sound).unwrap();
            }
        })
    });
}

#[test]
fn an_abandoned_writer_leaves_nothing() {
    on_shard(|dir| {
        Box::pin(async move {
            let options = sstable::WriterOptions {
                dir: dir.clone(),
                version: Version::Da,
                generation: 1,
                table: table("kv"),
                estimated_keys: 10,
                compression: sstable::CompressionChoice::Table,
                base: sstable::EncodingStats::EPOCH,
                host_id: 0,
                level: 0,
                repaired_at: 0,
            };
            let mut writer = sstable::Writer::create(options.clone()).await.unwrap();
            let late = Token::of_key(b"a").max(Token::of_key(b"b"));
            let (first, second): (&[u8], &[u8]) =
                if late == Token::of_key(b"b") { (b"b", b"a") } else { (b"a", b"b") };
            let gone = mutation::Deletion { timestamp: 1, local_time: 1 };
            writer.start_partition(first, Token::of_key(first), gone, None).unwrap();
            writer.end_partition().unwrap();
            assert!(
                writer.start_partition(second, Token::of_key(second), gone, None).is_err(),
                "out of ring order"
            );
            writer.abandon().await.unwrap();
            assert!(runtime::file::read_dir(&dir).await.unwrap().is_empty());

            let mut writer = sstable::Writer::create(options).await.unwrap();
            writer
                .start_partition(b"empty", Token::of_key(b"empty"), mutation::Deletion::LIVE, None)
                .unwrap();
            writer.end_partition().unwrap();
            assert!(writer.is_empty(), "a partition about which nothing is said leaves no trace");
            writer.abandon().await.unwrap();
        })
    });
}

#[test]
fn columns_are_found_by_name_and_dropped_ones_are_left_out() {
    on_shard(|dir| {
        Box::pin(async move {
            let (old, version) = (table("collections"), Version::Nb);
            let partitions =
                samples::partitions(&old, 5, Amount { partitions: 50, rows: 5, value_bytes: 20 });
            samples::write(&dir, version, 1, &old, &partitions).await.unwrap();

            let mut builder = old.to_builder();
            assert!(builder.drop_column("m", i64::MAX) && builder.drop_column("v", 0));
            builder.add("v", ColumnKind::Regular, CqlType::Int);
            builder.add("another", ColumnKind::Regular, CqlType::Text);
            let new = Arc::new(builder.build().unwrap());
            let reader = Reader::open(&dir, first(version), new.clone()).await.unwrap();
            let ordinal = |table: &Table, name: &str| table.column(name).expect("it is there").ordinal;
            let (m, v) = (ordinal(&old, "m"), ordinal(&new, "v"));
            assert_eq!(v, ordinal(&old, "v"), "a column that comes back has its ordinal again");
            let mut scanner = reader.scan(TokenRange::ALL);
            let mut moved = 0;
            while let Some(scanned) = scanner.next(&[Slice::all()], usize::MAX).await.unwrap() {
                for (_, body) in scanned.slice.mutation.view().rows() {
                    let row = mutation::RowView::new(body);
                    assert!(row.column(m).is_none());
                    moved += usize::from(row.column(v).is_some());
                }
            }
            assert!(moved > 10, "cells newer than the drop belong to the new column");

            let other = table("reversed");
            assert!(matches!(
                Reader::open(&dir, first(version), other).await,
                Err(Error::Unsupported { .. })
            ));
        })
    });
}
