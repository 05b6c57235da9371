//! A schema as bytes, for the schema log and for other nodes.
//!
//! ```text
//! u8 format, u128 version, u32 keyspaces, each: name, replication map, u8 durable, types, tables
//! format 1   no table has COMPACT STORAGE
//! format 2   each table begins with a u8: 0 without COMPACT STORAGE, 1 dense, 2 static
//! strings: u32 length + UTF-8; maps: u32 count + pairs; column types travel as marshal class names
//! ```
//! The format byte must change with the layout; old formats stay readable, and are written where they suffice: nodes of an
//! older release read them.

use crate::{
    Column, ColumnKind, CompactStorage, DroppedColumn, Error, Keyspace, Order, Replication, Schema, Table,
    TableBuilder, TableId, TableOptions,
};
use base::ByteReader;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::CqlType;

/// No table has COMPACT STORAGE.
const PLAIN: u8 = 1;
/// Each table says whether it has.
const COMPACT: u8 = 2;

impl Schema {
    /// The schema as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let format = self.format();
        let mut out = vec![format];
        out.extend_from_slice(&self.version.to_be_bytes());
        put_count(&mut out, self.keyspaces.len());
        self.put_keyspaces(format, &mut out);
        out
    }

    /// Appends what a schema is apart from its version.
    pub(crate) fn put_content(&self, out: &mut Vec<u8>) {
        self.put_keyspaces(self.format(), out);
    }

    /// The oldest format that suffices.
    fn format(&self) -> u8 {
        let mut tables = self.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
        if tables.any(|table| table.is_compact()) { COMPACT } else { PLAIN }
    }

    fn put_keyspaces(&self, format: u8, out: &mut Vec<u8>) {
        for keyspace in self.keyspaces.values() {
            put_keyspace(out, keyspace);
            put_count(out, keyspace.tables.len());
            for table in keyspace.tables.values() {
                if format == COMPACT {
                    put_compact(out, table.compact);
                }
                put_table(out, table);
            }
        }
    }

    /// Reads what [`Schema::encode`] wrote. Errors name the offset.
    pub fn decode(bytes: &[u8]) -> Result<Schema, Error> {
        let mut input = Input { reader: ByteReader::new(bytes) };
        let format = input.u8("format")?;
        if !matches!(format, PLAIN | COMPACT) {
            return Err(input.malformed("format 1 or 2"));
        }
        let version = u128::from_be_bytes(input.array("version")?);
        let mut keyspaces = BTreeMap::new();
        for _ in 0..input.count("keyspaces")? {
            let mut keyspace = input.keyspace()?;
            let name = keyspace.name.clone();
            for _ in 0..input.count("tables")? {
                let compact = if format == COMPACT { input.compact()? } else { CompactStorage::No };
                let table = input.table(&name, compact)?;
                keyspace.tables.insert(table.name.clone(), Arc::new(table));
            }
            keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        }
        Ok(Schema::new(version, keyspaces))
    }
}

pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_be_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(crate) fn put_str(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn put_map(out: &mut Vec<u8>, map: &BTreeMap<String, String>) {
    put_count(out, map.len());
    for (key, value) in map {
        put_str(out, key);
        put_str(out, value);
    }
}

fn put_option_str(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(text.is_some() as u8);
    put_str(out, text.unwrap_or(""));
}

/// Without its tables.
pub(crate) fn put_keyspace(out: &mut Vec<u8>, keyspace: &Keyspace) {
    put_str(out, &keyspace.name);
    put_map(out, &keyspace.replication.to_map());
    out.push(keyspace.durable_writes as u8);
    put_count(out, keyspace.types.len());
    for ty in keyspace.types.values() {
        put_str(out, &CqlType::Udt(ty.clone()).class_name());
    }
}

/// What the layout of a plain table has no place for.
pub(crate) fn put_compact(out: &mut Vec<u8>, compact: CompactStorage) {
    out.push(match compact {
        CompactStorage::No => 0,
        CompactStorage::Dense => 1,
        CompactStorage::Static => 2,
    });
}

pub(crate) fn put_table(out: &mut Vec<u8>, table: &Table) {
    put_str(out, &table.name);
    out.extend_from_slice(&table.id.0.to_be_bytes());
    put_count(out, table.columns().count());
    for column in table.columns() {
        put_str(out, &column.name);
        out.push(kind_code(column.kind));
        out.extend_from_slice(&column.position.to_be_bytes());
        out.extend_from_slice(&column.ordinal.to_be_bytes());
        out.push((column.order == Order::Descending) as u8);
        put_str(out, &column.ty.class_name());
    }
    put_count(out, table.dropped.len());
    for column in &table.dropped {
        put_str(out, &column.name);
        out.push(kind_code(column.kind));
        out.extend_from_slice(&column.ordinal.to_be_bytes());
        put_str(out, &column.ty.class_name());
        out.extend_from_slice(&column.dropped_at.to_be_bytes());
    }
    out.extend_from_slice(&table.next_static_ordinal.to_be_bytes());
    out.extend_from_slice(&table.next_regular_ordinal.to_be_bytes());
    put_options(out, &table.options);
}

fn kind_code(kind: ColumnKind) -> u8 {
    match kind {
        ColumnKind::PartitionKey => 0,
        ColumnKind::Clustering => 1,
        ColumnKind::Static => 2,
        ColumnKind::Regular => 3,
    }
}

fn put_options(out: &mut Vec<u8>, o: &TableOptions) {
    put_str(out, &o.comment);
    out.extend_from_slice(&o.bloom_filter_fp_chance.to_be_bytes());
    put_map(out, &o.caching);
    put_map(out, &o.compaction);
    put_map(out, &o.compression);
    out.extend_from_slice(&o.crc_check_chance.to_be_bytes());
    put_count(out, o.extensions.len());
    for (key, value) in &o.extensions {
        put_str(out, key);
        put_bytes(out, value);
    }
    for number in [
        o.default_time_to_live,
        o.gc_grace_seconds,
        o.max_index_interval,
        o.min_index_interval,
        o.memtable_flush_period_in_ms,
    ] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    put_option_str(out, o.memtable.as_deref());
    put_str(out, &o.speculative_retry);
    put_str(out, &o.additional_write_policy);
    put_str(out, &o.read_repair);
    out.push(match o.cdc {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    });
    out.push(o.allow_auto_snapshot as u8);
    out.push(o.incremental_backups as u8);
}

pub(crate) struct Input<'a> {
    pub(crate) reader: ByteReader<'a>,
}

impl Input<'_> {
    pub(crate) fn malformed(&self, expected: &'static str) -> Error {
        Error::Malformed { offset: self.reader.position(), expected }
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], Error> {
        let error = self.malformed(expected);
        let bytes = self.reader.bytes(N).map_err(|_| error.clone())?;
        bytes.try_into().map_err(|_| error)
    }

    pub(crate) fn u8(&mut self, expected: &'static str) -> Result<u8, Error> {
        Ok(self.array::<1>(expected)?[0])
    }

    fn u16(&mut self, expected: &'static str) -> Result<u16, Error> {
        Ok(u16::from_be_bytes(self.array(expected)?))
    }

    fn i32(&mut self, expected: &'static str) -> Result<i32, Error> {
        Ok(i32::from_be_bytes(self.array(expected)?))
    }

    fn f64(&mut self, expected: &'static str) -> Result<f64, Error> {
        Ok(f64::from_be_bytes(self.array(expected)?))
    }

    pub(crate) fn count(&mut self, expected: &'static str) -> Result<u32, Error> {
        Ok(u32::from_be_bytes(self.array(expected)?))
    }

    pub(crate) fn blob(&mut self, expected: &'static str) -> Result<Vec<u8>, Error> {
        let len = self.count(expected)? as usize;
        let error = self.malformed(expected);
        self.reader.bytes(len).map(<[u8]>::to_vec).map_err(|_| error)
    }

    pub(crate) fn string(&mut self, expected: &'static str) -> Result<String, Error> {
        let bytes = self.blob(expected)?;
        String::from_utf8(bytes).map_err(|_| self.malformed(expected))
    }

    fn map(&mut self, expected: &'static str) -> Result<BTreeMap<String, String>, Error> {
        let mut map = BTreeMap::new();
        for _ in 0..self.count(expected)? {
            let key = self.string(expected)?;
            map.insert(key, self.string(expected)?);
        }
        Ok(map)
    }

    fn column_type(&mut self) -> Result<CqlType, Error> {
        let class = self.string("a type class")?;
        CqlType::parse_class(&class).map_err(|_| self.malformed("a type class"))
    }

    fn kind(&mut self) -> Result<ColumnKind, Error> {
        match self.u8("a column kind")? {
            0 => Ok(ColumnKind::PartitionKey),
            1 => Ok(ColumnKind::Clustering),
            2 => Ok(ColumnKind::Static),
            3 => Ok(ColumnKind::Regular),
            _ => Err(self.malformed("a column kind")),
        }
    }

    fn replication(&mut self) -> Result<Replication, Error> {
        let mut map = self.map("replication")?;
        let class = map.remove("class").unwrap_or_default();
        let factor = |text: &String| text.parse::<u32>().ok();
        let replication = match class.rsplit('.').next() {
            Some("LocalStrategy") => Some(Replication::Local),
            Some("SimpleStrategy") => {
                map.get("replication_factor").and_then(factor).map(|factor| Replication::Simple { factor })
            }
            Some("NetworkTopologyStrategy") => {
                let factors: Option<BTreeMap<_, _>> =
                    map.iter().map(|(dc, text)| Some((dc.clone(), factor(text)?))).collect();
                factors.map(|factors| Replication::NetworkTopology { factors })
            }
            _ => None,
        };
        replication.ok_or_else(|| self.malformed("a replication strategy"))
    }

    pub(crate) fn keyspace(&mut self) -> Result<Keyspace, Error> {
        let name: Arc<str> = self.string("a keyspace name")?.into();
        let replication = self.replication()?;
        let mut keyspace = Keyspace::new(&name, replication);
        keyspace.durable_writes = self.u8("durable writes")? != 0;
        for _ in 0..self.count("types")? {
            match self.column_type()? {
                CqlType::Udt(udt) => keyspace.types.insert(udt.name.clone(), udt),
                _ => return Err(self.malformed("a user-defined type")),
            };
        }
        Ok(keyspace)
    }

    pub(crate) fn compact(&mut self) -> Result<CompactStorage, Error> {
        match self.u8("COMPACT STORAGE")? {
            0 => Ok(CompactStorage::No),
            1 => Ok(CompactStorage::Dense),
            2 => Ok(CompactStorage::Static),
            _ => Err(self.malformed("COMPACT STORAGE")),
        }
    }

    pub(crate) fn table(&mut self, keyspace: &str, compact: CompactStorage) -> Result<Table, Error> {
        let name = self.string("a table name")?;
        let id = TableId(u128::from_be_bytes(self.array("a table id")?));
        let mut builder = TableBuilder::new(keyspace, &name, id);
        builder.restore_compact(compact);
        for _ in 0..self.count("columns")? {
            let name = self.string("a column name")?.into();
            let kind = self.kind()?;
            let position = self.u16("a position")?;
            let ordinal = self.u16("an ordinal")?;
            let descending = self.u8("an order")? != 0;
            let order = if descending { Order::Descending } else { Order::Ascending };
            let ty = self.column_type()?;
            builder.restore(Column { name, kind, position, ordinal, ty, order });
        }
        for _ in 0..self.count("dropped columns")? {
            let name = self.string("a column name")?.into();
            let kind = self.kind()?;
            let ordinal = self.u16("an ordinal")?;
            let ty = self.column_type()?;
            let dropped_at = i64::from_be_bytes(self.array("a drop time")?);
            builder.restore_dropped(DroppedColumn { name, kind, ordinal, ty, dropped_at });
        }
        let next_static = self.u16("next static ordinal")?;
        let next_regular = self.u16("next regular ordinal")?;
        builder.restore_next_ordinals(next_static, next_regular);
        *builder.options_mut() = self.options()?;
        builder
            .build_checked(next_static, next_regular)
            .map_err(|_| self.malformed("a sound table definition"))
    }

    fn options(&mut self) -> Result<TableOptions, Error> {
        let mut o = TableOptions::cassandra();
        o.comment = self.string("comment")?;
        o.bloom_filter_fp_chance = self.f64("bloom_filter_fp_chance")?;
        o.caching = self.map("caching")?;
        o.compaction = self.map("compaction")?;
        o.compression = self.map("compression")?;
        o.crc_check_chance = self.f64("crc_check_chance")?;
        for _ in 0..self.count("extensions")? {
            let key = self.string("an extension")?;
            o.extensions.insert(key, self.blob("an extension")?);
        }
        o.default_time_to_live = self.i32("default_time_to_live")?;
        o.gc_grace_seconds = self.i32("gc_grace_seconds")?;
        o.max_index_interval = self.i32("max_index_interval")?;
        o.min_index_interval = self.i32("min_index_interval")?;
        o.memtable_flush_period_in_ms = self.i32("memtable_flush_period_in_ms")?;
        let has_memtable = self.u8("memtable")? != 0;
        let memtable = self.string("memtable")?;
        o.memtable = has_memtable.then_some(memtable);
        o.speculative_retry = self.string("speculative_retry")?;
        o.additional_write_policy = self.string("additional_write_policy")?;
        o.read_repair = self.string("read_repair")?;
        o.cdc = match self.u8("cdc")? {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        };
        o.allow_auto_snapshot = self.u8("allow_auto_snapshot")? != 0;
        o.incremental_backups = self.u8("incremental_backups")? != 0;
        Ok(o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;

    fn table(name: &str, id: u128, compact: bool, clustered: bool, valued: bool) -> Table {
        let mut builder = TableBuilder::new("ks", name, TableId(id)).partition_key("k", CqlType::Int);
        if clustered {
            builder = builder.clustering("c", CqlType::Text, Order::Descending);
        }
        if valued {
            builder = builder.regular("value", CqlType::Text);
        }
        if compact {
            builder.make_compact();
        }
        builder.build().unwrap()
    }

    fn schema(tables: Vec<Table>) -> Schema {
        let mut keyspace = Keyspace::new("ks", Replication::Simple { factor: 1 });
        keyspace.tables = tables.into_iter().map(|table| (table.name.clone(), Arc::new(table))).collect();
        Schema::new(7, BTreeMap::from([(keyspace.name.clone(), Arc::new(keyspace))]))
    }

    /// What releases before COMPACT STORAGE wrote is format 1, and what they can read is still written so.
    #[test]
    fn schemas_without_compact_storage_keep_the_first_format() {
        let plain = schema(vec![table("t", 1, false, true, true)]);
        let bytes = plain.encode();
        assert_eq!(bytes[0], 1);
        assert_eq!(Schema::decode(&bytes).unwrap(), plain);
        let put = Change::PutTable(Arc::new(table("t", 1, false, true, true)));
        assert_eq!(put.encode()[0], 4);
        assert_eq!(Change::decode(&put.encode()).unwrap(), put);
    }

    #[test]
    fn compact_storage_is_read_back_with_what_it_hides() {
        let tables = vec![
            table("plain", 1, false, true, true),
            table("dense", 2, true, true, true),
            table("keys", 3, true, true, false),
            table("static", 4, true, false, true),
        ];
        for table in &tables {
            let put = Change::PutTable(Arc::new(table.clone()));
            assert_eq!(put.encode()[0], if table.is_compact() { 6 } else { 4 });
            assert_eq!(Change::decode(&put.encode()).unwrap(), put);
        }
        let hidden = |table: &Table| -> Vec<String> {
            table.columns().filter(|column| table.is_hidden(column)).map(|c| c.name.to_string()).collect()
        };
        assert_eq!(hidden(&tables[1]), Vec::<String>::new());
        assert_eq!(hidden(&tables[2]), ["value"]);
        assert_eq!(hidden(&tables[3]), ["column1", "value1"]);
        let whole = schema(tables);
        let bytes = whole.encode();
        assert_eq!(bytes[0], 2);
        assert_eq!(Schema::decode(&bytes).unwrap(), whole);
        let all = Change::All(Arc::new(whole));
        assert_eq!(Change::decode(&all.encode()).unwrap(), all);
        for size in 0..bytes.len() {
            assert!(Schema::decode(&bytes[..size]).is_err(), "{size} bytes");
        }
    }

    /// The schema's version is made of its content: COMPACT STORAGE is part of it.
    #[test]
    fn dropping_compact_storage_is_another_version() {
        let compact = table("t", 1, true, true, true);
        let mut builder = compact.to_builder();
        builder.drop_compact_storage();
        let dropped = schema(vec![builder.build().unwrap()]).with_content_version();
        assert_ne!(schema(vec![compact]).with_content_version().version, dropped.version);
    }
}
