//! The shapes of the system tables, each written once.
//!
//! Names, keys, types and comments are those of Cassandra 5.0.6, column by column. A table without a generator in
//! `contents` reads as empty: there is nothing here that would fill it (repairs, hints, views), and clients ask whether
//! it exists.

mod other;
mod schema_tables;
mod system;
mod views;

use md5::{Digest, Md5};
use schema::{Keyspace, Order, Replication, Table, TableBuilder, TableId};
use std::sync::Arc;
use types::CqlType;

/// One table: columns are `name type` pairs with commas between them.
struct Definition {
    keyspace: &'static str,
    name: &'static str,
    partition_key: &'static str,
    clustering: &'static str,
    regulars: &'static str,
    comment: &'static str,
}

const fn table(
    keyspace: &'static str,
    name: &'static str,
    partition_key: &'static str,
    clustering: &'static str,
    regulars: &'static str,
    comment: &'static str,
) -> Definition {
    Definition { keyspace, name, partition_key, clustering, regulars, comment }
}

/// The keyspaces kept in the schema tables, as Cassandra lists them.
pub const STORED_KEYSPACES: [&str; 5] =
    ["system", "system_auth", "system_distributed", "system_schema", "system_traces"];
/// The keyspaces listed in `system_virtual_schema` only.
pub const VIRTUAL_KEYSPACES: [&str; 2] = ["system_views", "system_virtual_schema"];

const COLUMNS_OF_COLUMNS: &str =
    "clustering_order text, column_name_bytes blob, kind text, position int, type text";

const TABLE_OPTIONS: &str = "additional_write_policy text, allow_auto_snapshot boolean, \
    bloom_filter_fp_chance double, caching frozen<map<text, text>>, cdc boolean, comment text, \
    compaction frozen<map<text, text>>, compression frozen<map<text, text>>, crc_check_chance double, \
    dclocal_read_repair_chance double, default_time_to_live int, extensions frozen<map<text, blob>>, \
    gc_grace_seconds int, id uuid, incremental_backups boolean, max_index_interval int, memtable text, \
    memtable_flush_period_in_ms int, min_index_interval int, read_repair text, read_repair_chance double, \
    speculative_retry text";

fn all() -> impl Iterator<Item = &'static Definition> {
    let groups = [
        system::SYSTEM,
        schema_tables::SCHEMA,
        schema_tables::VIRTUAL_SCHEMA,
        other::TRACES,
        other::DISTRIBUTED,
        views::VIEWS,
    ];
    groups.into_iter().flatten()
}

/// Every system keyspace with its made-up tables, built from its definitions; `cluster::builtin` has those that are stored.
/// Costs about as much as reading a small schema: call once.
pub fn keyspaces() -> Vec<Arc<Keyspace>> {
    let names = STORED_KEYSPACES.iter().filter(|name| **name != "system_auth").chain(&VIRTUAL_KEYSPACES);
    names.map(|name| Arc::new(keyspace(name))).collect()
}

fn keyspace(name: &str) -> Keyspace {
    let replication = match name {
        "system_traces" => Replication::Simple { factor: 2 },
        "system_distributed" => Replication::Simple { factor: 3 },
        _ => Replication::Local,
    };
    let mut keyspace = Keyspace::new(name, replication);
    for definition in all().filter(|d| d.keyspace == name) {
        let table = build(definition);
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
    keyspace
}

fn build(definition: &Definition) -> Table {
    let id = table_id(definition.keyspace, definition.name);
    let mut builder = TableBuilder::new(definition.keyspace, definition.name, id);
    for (name, ty) in columns(definition.partition_key) {
        builder = builder.partition_key(name, ty);
    }
    for (name, ty) in columns(definition.clustering) {
        builder = builder.clustering(name, ty, Order::Ascending);
    }
    for (name, ty) in columns(definition.regulars) {
        builder = builder.regular(name, ty);
    }
    if definition.keyspace == "system_schema" && matches!(definition.name, "tables" | "views") {
        for (name, ty) in columns(TABLE_OPTIONS) {
            builder = builder.regular(name, ty);
        }
    }
    let options = builder.options_mut();
    options.comment = definition.comment.to_string();
    options.gc_grace_seconds = match definition.keyspace {
        "system_distributed" => 864_000,
        "system_schema" => 604_800,
        _ => 0,
    };
    if matches!(definition.keyspace, "system" | "system_schema") {
        options.memtable_flush_period_in_ms = 3_600_000;
    }
    builder.build().expect("definitions are constants, and the tests build every one")
}

/// The id Cassandra gives a system table, the same on every node: a name-based UUID of keyspace and table.
fn table_id(keyspace: &str, name: &str) -> TableId {
    let mut hash = Md5::new();
    hash.update(keyspace);
    hash.update(name);
    let bytes = u128::from_be_bytes(hash.finalize().into());
    let version = bytes & !(0xf000 << 64) | (0x3000 << 64);
    TableId(version & !(0xc000 << 48) | (0x8000 << 48))
}

/// Splits `name type, name type` at the commas outside angle brackets.
fn columns(text: &'static str) -> Vec<(&'static str, CqlType)> {
    let mut depth = 0;
    let pieces = text.split(move |c| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    let pieces = pieces.map(str::trim).filter(|piece| !piece.is_empty());
    pieces
        .map(|piece| {
            let (name, ty) = piece.split_once(' ').expect("definitions are constants");
            (name, CqlType::parse(ty.trim()).expect("definitions are constants"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_builds() {
        let keyspaces = keyspaces();
        assert_eq!(keyspaces.len(), 6);
        let tables: usize = keyspaces.iter().map(|k| k.tables.len()).sum();
        assert_eq!(tables, all().count());
    }

    #[test]
    fn ids_are_cassandras() {
        assert_eq!(table_id("system", "IndexInfo").0, 0x9f5c_6374_d485_3229_9a0a_5094_af9a_d1e3);
        assert_eq!(table_id("system", "available_ranges").0, 0xc539_fcab_d65a_31d1_8133_d256_0564_3ee3);
    }

    #[test]
    fn types_with_commas_stay_whole() {
        let split = columns("a frozen<map<text, int>>, b int");
        assert_eq!(split.len(), 2);
        assert_eq!(split[0].1.to_string(), "frozen<map<text, int>>");
    }
}
