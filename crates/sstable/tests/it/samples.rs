//! Tables of many shapes and random partitions for them, with every kind of tombstone.

use base::{Prng, Token};
use mutation::{Bound, Cell, Deletion, Liveness, RangeTombstone, RowWriter};
use schema::{
    BoundSide, Column, Order, Position, Table, TableBuilder, TableId, TableOptions, push_component,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{CqlType, UdtType};

/// One row or range tombstone, in the order in which a writer wants them.
#[derive(Clone, Debug)]
pub enum SampleItem {
    Row { wire: Vec<u8>, body: Vec<u8>, position: Position },
    Tombstone { tombstone: RangeTombstone, start: Position, end: Position },
}

/// One partition.
#[derive(Clone, Debug)]
pub struct SamplePartition {
    pub key: Vec<u8>,
    pub token: Token,
    pub deletion: Deletion,
    pub static_row: Option<Vec<u8>>,
    pub items: Vec<SampleItem>,
}

/// How much to make.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    pub partitions: u64,
    pub rows: u64,
    pub value_bytes: u64,
}

const BASE_MICROS: i64 = 1_700_000_000_000_000;
const BASE_SECONDS: u32 = 1_700_000_000;

fn builder(name: &str) -> TableBuilder {
    TableBuilder::new("ks", name, TableId(u128::from(base::crc32(name.as_bytes())) << 64 | 1))
}

fn compression(class: &str) -> TableOptions {
    let mut options = TableOptions::cassandra();
    options.compression.clear();
    if class.is_empty() {
        options.compression.insert("enabled".to_string(), "false".to_string());
    } else {
        options.compression.insert("class".to_string(), format!("org.apache.cassandra.io.compress.{class}"));
        options.compression.insert("chunk_length_in_kb".to_string(), "4".to_string());
    }
    options
}

fn scalars() -> Vec<CqlType> {
    use CqlType::*;
    vec![
        Ascii, Bigint, Blob, Boolean, Decimal, Double, Float, Int, Text, Timestamp, Uuid, Varint, Timeuuid,
        Inet, Date, Time, Smallint, Tinyint, Duration,
    ]
}

fn user_type() -> CqlType {
    let fields = [("street", CqlType::Text), ("number", CqlType::Int)];
    let fields = fields.into_iter().map(|(name, ty)| (Arc::from(name), ty)).collect::<Vec<_>>();
    CqlType::Udt(Arc::new(UdtType { keyspace: "ks".into(), name: "address".into(), fields })).frozen()
}

/// The tables, by name.
pub fn tables() -> Vec<Arc<Table>> {
    use CqlType::*;
    use Order::{Ascending, Descending};
    let mut no_filter = TableOptions::cassandra();
    no_filter.bloom_filter_fp_chance = 1.0;
    let mut types = builder("types").partition_key("pk", Int);
    for ty in scalars() {
        types = types.regular(&format!("c_{ty}"), ty);
    }
    let mut seventy = builder("seventy").partition_key("pk", Text).clustering("ck", Smallint, Ascending);
    for index in 0..70 {
        seventy = seventy.regular(&format!("c{index:02}"), if index % 2 == 0 { Int } else { Text });
    }
    for index in 0..65 {
        seventy = seventy.static_column(&format!("s{index:02}"), Boolean);
    }
    let collections = builder("collections")
        .partition_key("pk", Text)
        .clustering("ck", Int, Ascending)
        .regular("l", CqlType::list(Int))
        .regular("a_set", CqlType::set(Text))
        .regular("m", CqlType::map(Text, Int))
        .regular("fl", CqlType::list(Int).frozen())
        .regular("v", Int)
        .static_column("sm", CqlType::map(Int, Text))
        .static_column("s", Text);
    let nested = builder("nested")
        .partition_key("pk", user_type())
        .clustering("ck", CqlType::list(Int).frozen(), Descending)
        .regular("t", CqlType::tuple(vec![Int, Text, CqlType::set(Bigint).frozen()]))
        .regular("u", user_type())
        .regular("fm", CqlType::map(Text, CqlType::list(Int)).frozen())
        .regular("mu", CqlType::map(Int, user_type()))
        .regular("vec", CqlType::Vector(Arc::new(Float), 3));
    let keys = builder("keys")
        .partition_key("a", Bigint)
        .clustering("ck1", Timestamp, Descending)
        .clustering("ck2", Uuid, Ascending)
        .clustering("ck3", Boolean, Descending)
        .clustering("ck4", Varint, Ascending)
        .clustering("ck5", Blob, Descending);
    let tables = vec![
        builder("kv").partition_key("pk", Text).regular("v", Blob),
        builder("wide").partition_key("pk", Int).clustering("ck", Int, Ascending).regular("v", Text),
        builder("reversed")
            .partition_key("pk", Text)
            .clustering("ck", Int, Descending)
            .clustering("ck2", Text, Ascending)
            .regular("v", Int)
            .static_column("s", Smallint),
        collections,
        types,
        builder("composite")
            .partition_key("a", Int)
            .partition_key("b", Text)
            .clustering("ck", Timeuuid, Ascending)
            .regular("v", Double),
        seventy,
        builder("counts").partition_key("pk", Text).clustering("ck", Int, Ascending).regular("n", Counter),
        builder("plain")
            .partition_key("pk", Int)
            .clustering("ck", Text, Descending)
            .regular("v", Blob)
            .options(compression("")),
        builder("deflated")
            .partition_key("pk", Int)
            .clustering("ck", Text, Ascending)
            .regular("v", Blob)
            .options(compression("DeflateCompressor")),
        builder("snappy")
            .partition_key("pk", Int)
            .clustering("ck", Text, Ascending)
            .regular("v", Blob)
            .options(compression("SnappyCompressor")),
        builder("zstd")
            .partition_key("pk", Int)
            .clustering("ck", Text, Ascending)
            .regular("v", Text)
            .options(compression("ZstdCompressor")),
        nested,
        keys,
        builder("no_filter").partition_key("pk", Uuid).regular("v", Timestamp).options(no_filter),
    ];
    tables.into_iter().map(|table| Arc::new(table.build().expect("a sound definition"))).collect()
}

/// A random value of a type, in wire form.
pub fn value(ty: &CqlType, rng: &mut Prng, bytes: u64) -> Vec<u8> {
    let text = |rng: &mut Prng, most: u64| -> Vec<u8> {
        let size = rng.below(most + 1);
        (0..size).map(|_| b'a' + rng.below(26) as u8).collect()
    };
    let blob = |rng: &mut Prng, size: u64| -> Vec<u8> {
        let mut out = vec![0; size as usize];
        rng.fill(&mut out);
        out
    };
    let sized = |parts: Vec<Vec<u8>>, counted: bool| -> Vec<u8> {
        let mut out = if counted { (parts.len() as i32).to_be_bytes().to_vec() } else { Vec::new() };
        for part in parts {
            out.extend_from_slice(&(part.len() as i32).to_be_bytes());
            out.extend_from_slice(&part);
        }
        out
    };
    match ty.unfrozen() {
        CqlType::Ascii | CqlType::Text => text(rng, bytes),
        CqlType::Blob => {
            let size = rng.below(bytes + 1);
            blob(rng, size)
        }
        CqlType::Boolean => vec![rng.below(2) as u8],
        CqlType::Tinyint => blob(rng, 1),
        CqlType::Smallint => blob(rng, 2),
        CqlType::Int | CqlType::Float => (rng.below(1000) as u32).to_be_bytes().to_vec(),
        CqlType::Date => (0x8000_0000 + rng.below(20_000) as u32).to_be_bytes().to_vec(),
        CqlType::Bigint | CqlType::Double => blob(rng, 8),
        CqlType::Timestamp => (1_700_000_000_000 + rng.below(1_000_000)).to_be_bytes().to_vec(),
        CqlType::Time => rng.below(86_400_000_000_000).to_be_bytes().to_vec(),
        CqlType::Uuid => version(blob(rng, 16), 4),
        CqlType::LexicalUuid => blob(rng, 16),
        CqlType::Timeuuid => version(blob(rng, 16), 1),
        CqlType::Inet => blob(rng, 4),
        CqlType::Varint => varint(rng),
        CqlType::Decimal => [&(rng.below(5) as i32).to_be_bytes()[..], &varint(rng)].concat(),
        CqlType::Duration => {
            let mut out = Vec::new();
            [3i64, 4, 5_000_000].iter().for_each(|part| base::put_svint(&mut out, *part));
            out
        }
        CqlType::Counter => counter(rng),
        CqlType::List(element) => {
            sized((0..rng.below(4)).map(|_| value(element, rng, bytes)).collect(), true)
        }
        CqlType::Set(element) => {
            let mut values: Vec<Vec<u8>> = (0..rng.below(4)).map(|_| value(element, rng, bytes)).collect();
            values.sort_by(|a, b| element.compare(a, b));
            values.dedup();
            sized(values, true)
        }
        CqlType::Map(key, element) => {
            let mut keys: Vec<Vec<u8>> = (0..rng.below(4)).map(|_| value(key, rng, bytes)).collect();
            keys.sort_by(|a, b| key.compare(a, b));
            keys.dedup();
            let count = keys.len() as i32;
            let pairs = keys.into_iter().flat_map(|key| [key, value(element, rng, bytes)]).collect();
            [&count.to_be_bytes()[..], &sized(pairs, false)].concat()
        }
        CqlType::Tuple(fields) => sized(fields.iter().map(|field| value(field, rng, bytes)).collect(), false),
        CqlType::Udt(udt) => {
            sized(udt.fields.iter().map(|field| value(&field.1, rng, bytes)).collect(), false)
        }
        CqlType::Vector(element, count) => (0..*count).flat_map(|_| value(element, rng, bytes)).collect(),
        CqlType::Empty | CqlType::Frozen(_) | CqlType::Custom(_) => Vec::new(),
    }
}

fn version(mut uuid: Vec<u8>, version: u8) -> Vec<u8> {
    uuid[6] = uuid[6] & 0x0f | version << 4;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

fn varint(rng: &mut Prng) -> Vec<u8> {
    let mut out = vec![rng.below(127) as u8 + 1];
    let mut tail = vec![0; rng.below(10) as usize];
    rng.fill(&mut tail);
    out.extend_from_slice(&tail);
    out
}

fn counter(rng: &mut Prng) -> Vec<u8> {
    let shards = 1 + rng.below(2) as i16;
    let mut out = shards.to_be_bytes().to_vec();
    (0..shards).for_each(|index| out.extend_from_slice(&(i16::MIN + index).to_be_bytes()));
    for shard in 0..shards {
        out.extend_from_slice(&[shard as u8 + 1; 16]);
        out.extend_from_slice(&(1 + rng.below(9) as i64).to_be_bytes());
        out.extend_from_slice(&(rng.below(1000) as i64).to_be_bytes());
    }
    out
}

fn timestamp(rng: &mut Prng) -> i64 {
    BASE_MICROS + rng.below(1000) as i64
}

fn deletion(rng: &mut Prng) -> Deletion {
    Deletion { timestamp: timestamp(rng), local_time: BASE_SECONDS + rng.below(100_000) as u32 }
}

fn cell<'v>(rng: &mut Prng, liveness: Liveness, value: &'v [u8], counter: bool) -> Cell<'v> {
    let timestamp = if liveness.is_none() || rng.chance(0.3) { timestamp(rng) } else { liveness.timestamp };
    match rng.below(8) {
        0 => Cell::tombstone(timestamp, BASE_SECONDS + rng.below(1000) as u32),
        1 if !counter => Cell::expiring(timestamp, 100, BASE_SECONDS + 100 + rng.below(9) as u32, value),
        2 | 3 if !counter && liveness.is_expiring() => {
            Cell::expiring(timestamp, liveness.ttl, liveness.expires_at, value)
        }
        _ => Cell::live(timestamp, value),
    }
}

/// A random packed row; `None` when it would say nothing.
fn row(columns: &[Column], is_static: bool, counter: bool, rng: &mut Prng, bytes: u64) -> Option<Vec<u8>> {
    let liveness = match rng.below(4) {
        _ if is_static || counter => Liveness::NONE,
        0 => Liveness::NONE,
        1 => Liveness::expiring(timestamp(rng), 1000, BASE_SECONDS + 1000 + rng.below(9) as u32),
        _ => Liveness::at(timestamp(rng)),
    };
    let row_deletion = if !is_static && rng.chance(0.1) { deletion(rng) } else { Deletion::LIVE };
    let mut body = Vec::new();
    let mut writer = RowWriter::new(&mut body, liveness, row_deletion);
    let mut empty = liveness.is_none() && row_deletion.is_live();
    let mut columns: Vec<&Column> = columns.iter().collect();
    columns.sort_by_key(|column| column.ordinal);
    let share = [0.0, 0.1, 0.5, 0.9, 1.0][rng.below(5) as usize];
    for column in columns {
        if !rng.chance(share) {
            continue;
        }
        let Some(path_type) = column.ty.cell_path_type().filter(|_| column.is_complex()) else {
            let value = value(&column.ty, rng, bytes);
            writer.simple(column.ordinal, cell(rng, liveness, &value, counter));
            empty = false;
            continue;
        };
        let complex_deletion = if rng.chance(0.4) { deletion(rng) } else { Deletion::LIVE };
        let mut paths: Vec<Vec<u8>> = (0..rng.below(5)).map(|_| value(&path_type, rng, bytes)).collect();
        paths.sort_by(|a, b| path_type.compare(a, b));
        paths.dedup();
        if paths.is_empty() && complex_deletion.is_live() {
            continue;
        }
        empty = false;
        writer.complex_start(column.ordinal, complex_deletion);
        for path in &paths {
            let is_set = matches!(column.ty.unfrozen(), CqlType::Set(_));
            let element = column.ty.element_type().filter(|_| !is_set);
            let value = element.map_or(Vec::new(), |element| value(element, rng, bytes));
            writer.complex_cell(path, cell(rng, liveness, &value, false));
        }
        writer.complex_end();
    }
    (!empty).then_some(body)
}

fn clustering(table: &Table, components: usize, rng: &mut Prng) -> Vec<u8> {
    let mut wire = Vec::new();
    for column in &table.clustering[..components] {
        push_component(&mut wire, Some(&value(&column.ty, rng, 12)));
    }
    wire
}

fn tombstones(table: &Table, rng: &mut Prng, count: u64, items: &mut Vec<SampleItem>) {
    let mut bounds: BTreeMap<Position, Bound> = BTreeMap::new();
    for _ in 0..count * 2 {
        let components = rng.below(table.clustering.len() as u64 + 1) as usize;
        let side = if rng.chance(0.5) { BoundSide::Before } else { BoundSide::After };
        let bound = Bound::new(&clustering(table, components, rng), side);
        bounds.insert(bound.position(table).expect("made for it"), bound);
    }
    let bounds: Vec<(Position, Bound)> = bounds.into_iter().collect();
    let mut at = 0;
    while at + 1 < bounds.len() {
        let ((start, first), (end, last)) = (&bounds[at], &bounds[at + 1]);
        let tombstone = RangeTombstone { start: first.clone(), end: last.clone(), deletion: deletion(rng) };
        items.push(SampleItem::Tombstone { tombstone, start: start.clone(), end: end.clone() });
        at += if rng.chance(0.5) { 1 } else { 2 };
    }
}

fn partition(table: &Table, rng: &mut Prng, amount: Amount, key: Vec<u8>) -> SamplePartition {
    let mut rows: BTreeMap<Position, SampleItem> = BTreeMap::new();
    let bytes = amount.value_bytes;
    let count = if table.clustering.is_empty() { 1 } else { rng.below(amount.rows) + 1 };
    for _ in 0..count {
        let wire = clustering(table, table.clustering.len(), rng);
        let position = table.position(&wire).expect("made for it");
        if let Some(body) = row(&table.regulars, false, table.counter, rng, bytes) {
            rows.insert(position.clone(), SampleItem::Row { wire, body, position });
        }
    }
    let mut items: Vec<SampleItem> = rows.into_values().collect();
    if !table.clustering.is_empty() && rng.chance(0.6) {
        let count = rng.below(amount.rows / 8 + 3);
        tombstones(table, rng, count, &mut items);
    }
    items.sort_by(|a, b| a.start().cmp(b.start()));
    let static_row =
        if table.statics.is_empty() { None } else { row(&table.statics, true, table.counter, rng, bytes) };
    let deletion = if rng.chance(0.2) { deletion(rng) } else { Deletion::LIVE };
    SamplePartition { token: Token::of_key(&key), key, deletion, static_row, items }
}

impl SampleItem {
    /// Where it starts.
    pub fn start(&self) -> &Position {
        match self {
            SampleItem::Row { position, .. } => position,
            SampleItem::Tombstone { start, .. } => start,
        }
    }
}

impl SamplePartition {
    /// Whether it says anything.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.deletion.is_live() && self.static_row.is_none()
    }
}

/// Random partitions in ring order, none of them empty.
pub fn partitions(table: &Table, seed: u64, amount: Amount) -> Vec<SamplePartition> {
    let mut rng = Prng::new(seed);
    let mut made: BTreeMap<(Token, Vec<u8>), SamplePartition> = BTreeMap::new();
    for _ in 0..amount.partitions {
        let values: Vec<Vec<u8>> =
            table.partition_key.iter().map(|column| value(&column.ty, &mut rng, 20)).collect();
        let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
        let mut key = Vec::new();
        table.push_key(&values, &mut key);
        if !key.is_empty() {
            let partition = partition(table, &mut rng, amount, key);
            made.insert((partition.token, partition.key.clone()), partition);
        }
    }
    made.into_values().filter(|partition| !partition.is_empty()).collect()
}

/// A partition of a table with one text as its clustering key, with texts of so many bytes in its rows.
pub fn with_long_clusterings(table: &Table, partition: SamplePartition, bytes: usize) -> SamplePartition {
    let mut rng = Prng::new(bytes as u64);
    let mut lengthened = |item: SampleItem| {
        let SampleItem::Row { body, .. } = item else { return item };
        let text: Vec<u8> = (0..bytes).map(|_| b'a' + rng.below(26) as u8).collect();
        let mut wire = Vec::new();
        push_component(&mut wire, Some(&text));
        let position = table.position(&wire).expect("made for it");
        SampleItem::Row { wire, body, position }
    };
    let mut items: Vec<SampleItem> = partition.items.into_iter().map(&mut lengthened).collect();
    items.sort_by(|a, b| a.start().cmp(b.start()));
    SamplePartition { items, ..partition }
}

/// Writes partitions as one sstable.
pub async fn write(
    dir: &std::path::Path,
    version: sstable::Version,
    generation: u64,
    table: &Arc<Table>,
    partitions: &[SamplePartition],
) -> Result<sstable::Meta, sstable::Error> {
    let mut writer =
        sstable::Writer::create(options(dir, version, generation, table, partitions.len())).await?;
    put(&mut writer, partitions).await?;
    writer.finish().await
}

/// What a writer for so many partitions is told.
pub fn options(
    dir: &std::path::Path,
    version: sstable::Version,
    generation: u64,
    table: &Arc<Table>,
    partitions: usize,
) -> sstable::WriterOptions {
    sstable::WriterOptions {
        dir: dir.to_path_buf(),
        version,
        generation,
        table: table.clone(),
        estimated_keys: partitions as u64,
        compression: sstable::CompressionChoice::Table,
        base: sstable::EncodingStats {
            min_timestamp: BASE_MICROS,
            min_local_time: BASE_SECONDS,
            min_ttl: 100,
        },
        host_id: 0x1234_5678_1234_4321_8765_4321_1234_5678,
        level: 0,
        repaired_at: 0,
    }
}

/// Writes partitions from their packed rows.
pub async fn put(writer: &mut sstable::Writer, partitions: &[SamplePartition]) -> Result<(), sstable::Error> {
    for partition in partitions {
        writer.start_partition(
            &partition.key,
            partition.token,
            partition.deletion,
            partition.static_row.as_deref(),
        )?;
        for item in &partition.items {
            match item {
                SampleItem::Row { wire, body, .. } => writer.row(wire, body)?,
                SampleItem::Tombstone { tombstone, .. } => writer.range_tombstone(tombstone)?,
            }
            if writer.pending_bytes() > 256 * 1024 {
                writer.drain().await?;
            }
        }
        writer.end_partition()?;
    }
    Ok(())
}
