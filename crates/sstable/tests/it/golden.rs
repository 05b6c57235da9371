//! Files that Apache Cassandra wrote (`testdata/README.md`): the versions say the same, and our writer writes the same.

use base::Token;
use mutation::{Item, Mutation, RangeTombstone, RangeTombstones, Slice, TokenRange};
use schema::{BoundSide, Order, Position, Table, TableBuilder, TableId, push_component};
use sstable::{
    Component, CompressionChoice, Descriptor, Header, Reader, Statistics, Stats, Version, Writer,
    WriterOptions,
};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use types::CqlType;

use crate::on_shard;

/// Tables, their versions here, partitions, and rows with the static ones.
pub const TABLES: [(&str, &[Version], u64, u64); 11] = [
    ("types", &[Version::Nb, Version::Oa, Version::Da], 14, 13),
    ("wide", &[Version::Nb, Version::Oa, Version::Da], 9, 241),
    ("counts", &[Version::Nb, Version::Oa, Version::Da], 3, 20),
    ("seventy", &[Version::Nb, Version::Oa, Version::Da], 2, 8),
    ("keys", &[Version::Nb, Version::Da], 1200, 1200),
    ("plain", &[Version::Nb, Version::Da], 3, 300),
    ("names", &[Version::Da], 6, 48),
    ("older_rows", &OLDER, 12, 139),
    ("older_types", &OLDER, 4, 4),
    ("older_counts", &OLDER, 3, 4),
    ("older_plain", &OLDER, 150, 150),
];

/// What releases before 4.0 wrote.
const OLDER: [Version; 4] = [Version::Mc, Version::Md, Version::Me, Version::Na];

/// Microseconds of the first write.
const FIRST: i64 = 1_700_000_000_000_000;

pub fn folder(table: &str) -> PathBuf {
    Path::new("testdata").join(table)
}

pub fn descriptor(version: Version) -> Descriptor {
    let generation = match version {
        Version::Oa => 2,
        Version::Da => 3,
        _ => 1,
    };
    Descriptor::new(version, generation)
}

pub fn statistics(table: &str, version: Version) -> Statistics {
    let file = Component::Statistics.path(&folder(table), descriptor(version));
    Statistics::decode(&file, version, &std::fs::read(&file).unwrap()).unwrap()
}

/// A table as the header of a file describes it.
pub fn table_of(name: &str, header: &Header) -> Arc<Table> {
    let ty = |class: &str| CqlType::parse_class(class).unwrap();
    let mut builder = TableBuilder::new("golden", name, TableId(1));
    let composite = header.key_type.strip_prefix("org.apache.cassandra.db.marshal.CompositeType(");
    let keys = composite.map_or(&header.key_type[..], |rest| rest.strip_suffix(')').unwrap());
    for (index, class) in keys.split(',').enumerate() {
        builder = builder.partition_key(&format!("key{index}"), ty(class));
    }
    for (index, class) in header.clustering_types.iter().enumerate() {
        let (ty, reversed) = CqlType::parse_class_reversed(class).unwrap();
        let order = if reversed { Order::Descending } else { Order::Ascending };
        builder = builder.clustering(&format!("clustering{index}"), ty, order);
    }
    for (name, class) in &header.statics {
        builder = builder.static_column(name, ty(class));
    }
    for (name, class) in &header.regulars {
        builder = builder.regular(name, ty(class));
    }
    Arc::new(builder.build().unwrap())
}

/// Opens a file.
pub async fn open(name: &str, version: Version) -> Rc<Reader> {
    let table = table_of(name, &statistics(name, version).header);
    Reader::open(&folder(name), descriptor(version), table).await.unwrap()
}

pub async fn scan(reader: &Rc<Reader>) -> Vec<Mutation> {
    let mut scanner = reader.scan(TokenRange::ALL);
    let mut all = Vec::new();
    while let Some(scanned) = scanner.next(&[Slice::all()], usize::MAX).await.unwrap() {
        assert!(scanned.slice.complete_to.is_none());
        all.push(scanned.slice.mutation);
    }
    all
}

/// Rows and range tombstones of a partition read piece by piece.
async fn by_pieces(reader: &Reader, key: &[u8], reversed: bool) -> (Vec<Vec<u8>>, RangeTombstones) {
    let table = reader.table().clone();
    let (mut rows, mut ranges) = (Vec::new(), RangeTombstones::default());
    let mut left = Slice::all();
    loop {
        let read = reader.read_partition(key, Token::of_key(key), &[left.clone()], reversed, 3000).await;
        let read = read.unwrap().expect("the partition is there");
        for item in read.mutation.view().items() {
            match item {
                Item::Row { clustering, body } => rows.push([clustering, body].concat()),
                Item::Range { start, end, deletion } => {
                    let (start, end) = (start.to_bound(), end.to_bound());
                    ranges.add(&table, RangeTombstone { start, end, deletion }).unwrap();
                }
            }
        }
        match read.complete_to {
            None => break,
            Some(position) if reversed => left.end = position,
            Some(position) => left.start = position,
        }
    }
    rows.sort();
    (rows, ranges)
}

async fn check_table(name: &str, versions: &[Version], partitions: u64, rows: u64) {
    let mut first: Option<Vec<Mutation>> = None;
    for version in versions {
        let reader = open(name, *version).await;
        assert_eq!((reader.meta().partitions, reader.meta().rows), (partitions, rows), "{name} {version}");
        let all = scan(&reader).await;
        assert_eq!(all.len() as u64, partitions);
        for mutation in &all {
            let view = mutation.view();
            let pieces = by_pieces(&reader, view.key, false).await;
            assert_eq!(pieces.0.len(), view.rows().count());
            let back = by_pieces(&reader, view.key, true).await;
            assert_eq!(pieces.0, back.0);
            for position in view.rows().map(|(clustering, _)| reader.table().position(clustering).unwrap()) {
                assert_eq!(pieces.1.covering(&position), back.1.covering(&position));
            }
            assert_eq!(reader.next_readable(view.token).await.unwrap().token, Some(view.token));
        }
        let first = first.get_or_insert_with(|| all.clone());
        for (mutation, same) in all.iter().zip(first.iter()) {
            assert!(mutation.view().key == same.view().key, "{name} {version}");
            assert!(mutation.clone().into_bytes() == same.clone().into_bytes(), "{name} {version}");
        }
    }
}

#[test]
fn every_version_says_the_same() {
    on_shard(|_| {
        Box::pin(async {
            for (name, versions, partitions, rows) in TABLES {
                check_table(name, versions, partitions, rows).await;
            }
        })
    });
}

#[test]
fn deletions_are_where_they_were_made() {
    on_shard(|_| {
        Box::pin(async {
            for version in [Version::Nb, Version::Oa, Version::Da] {
                let reader = open("wide", version).await;
                let place = |c1: i32| -> Position {
                    let mut wire = Vec::new();
                    push_component(&mut wire, Some(&c1.to_be_bytes()));
                    reader.table().bound_position(&wire, BoundSide::Before).unwrap()
                };
                for reversed in [false, true] {
                    let (_, ranges) = by_pieces(&reader, b"big", reversed).await;
                    let at = |c1: i32| ranges.covering(&place(c1)).timestamp;
                    for (c1, after) in
                        [(60, 1000), (50, 1000), (36, 1000), (35, 1001), (31, 1001), (30, 1000), (21, 1000)]
                    {
                        assert_eq!(at(c1), FIRST + after, "{version}, clustering {c1}");
                    }
                    assert_eq!((at(61), at(20), at(70)), (i64::MIN, i64::MIN, FIRST + 1002));
                }
            }
        })
    });
}

#[test]
fn statistics_of_all_versions_agree() {
    let told = |stats: &Stats| {
        // 3.11.3 ends with fewer classes.
        let mut counts = stats.partition_cells.parts().1.to_vec();
        counts.truncate(counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1));
        (
            (stats.min_timestamp, stats.max_timestamp, stats.min_local_time, stats.max_local_time),
            (stats.min_ttl, stats.max_ttl, stats.columns_set, counts),
            stats.tombstones.count(),
        )
    };
    for (name, versions, ..) in TABLES {
        let first = statistics(name, versions[0]);
        for version in versions {
            let other = statistics(name, *version);
            assert_eq!(told(&other.stats), told(&first.stats), "{name} {version}");
            let columns = |header: &Header| (header.statics.clone(), header.regulars.clone());
            assert_eq!(columns(&other.header), columns(&first.header), "{name} {version}");
            assert_eq!(
                (other.stats.repaired_at, other.stats.pending_repair, other.stats.is_transient),
                (0, None, false)
            );
            let exact = *version >= Version::Oa;
            assert!(!exact || other.stats.keys.is_some());
            let deletes = ["types", "wide", "older_rows"].contains(&name);
            assert_eq!(other.stats.has_partition_deletions, deletes || !exact, "{name} {version}");
        }
    }
}

/// Writes anew what was read, with the same bases.
pub async fn rewrite(dir: &Path, reader: &Rc<Reader>, version: Version) {
    let statistics = reader.statistics().await.unwrap();
    let mut definition = reader.table().to_builder();
    if reader.path(Component::Crc).exists() {
        let mut options = reader.table().options.clone();
        options.compression.clear();
        options.compression.insert("enabled".to_string(), "false".to_string());
        definition = definition.options(options);
    }
    let options = WriterOptions {
        dir: dir.to_path_buf(),
        version,
        generation: 1,
        table: Arc::new(definition.build().unwrap()),
        estimated_keys: reader.meta().partitions,
        compression: CompressionChoice::Table,
        base: statistics.header.base,
        host_id: 0,
        level: 0,
        repaired_at: 0,
    };
    let mut writer = Writer::create(options).await.unwrap();
    for mutation in scan(reader).await {
        let view = mutation.view();
        writer.start_partition(view.key, view.token, view.deletion, view.static_row).unwrap();
        for item in view.items() {
            match item {
                Item::Row { clustering, body } => writer.row(clustering, body).unwrap(),
                Item::Range { start, end, deletion } => {
                    let tombstone = RangeTombstone { start: start.to_bound(), end: end.to_bound(), deletion };
                    writer.range_tombstone(&tombstone).unwrap();
                }
            }
        }
        writer.end_partition().unwrap();
    }
    writer.finish().await.unwrap();
}

#[test]
fn our_writer_makes_the_same_bytes() {
    on_shard(|dir| {
        Box::pin(async move {
            for (name, versions, ..) in TABLES {
                for version in versions {
                    let reader = open(name, *version).await;
                    rewrite(&dir, &reader, *version).await;
                    let ours = Descriptor::new(*version, 1);
                    // Before 4.0 components were listed as a hash table had them.
                    let mut same = Vec::new();
                    same.extend((*version >= Version::Nb).then_some(Component::Toc));
                    // Cassandra 5 spells live deletions of collections in nb longer than Cassandra 4 does, and than we do.
                    if *version != Version::Nb || !["types", "counts"].contains(&name) {
                        same.extend([
                            Component::Partitions,
                            Component::Rows,
                            Component::Index,
                            Component::Summary,
                        ]);
                        same.extend(reader.path(Component::Crc).exists().then_some(Component::Data));
                    }
                    for component in same {
                        let (theirs, ours) = (reader.path(component), component.path(&dir, ours));
                        assert_eq!(theirs.exists(), ours.exists(), "{name} {version} {component:?}");
                        if theirs.exists() {
                            let (theirs, ours) =
                                (std::fs::read(theirs).unwrap(), std::fs::read(ours).unwrap());
                            let differ = theirs.iter().zip(&ours).position(|(a, b)| a != b);
                            let sizes = (theirs.len(), ours.len());
                            assert!(
                                theirs == ours,
                                "{name} {version} {component:?}: {sizes:?} bytes, from {differ:?} on"
                            );
                        }
                    }
                    sstable::remove_sstable(&dir, ours).await.unwrap();
                }
            }
        })
    });
}
