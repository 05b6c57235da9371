//! Tables and mutations for the tests of this crate.

use base::Token;
use mutation::{Cell, Deletion, Liveness, Mutation, MutationBuilder};
use schema::{Order, Table, TableBuilder, TableId};
use sstable::Meta;
use types::CqlType;

/// `CREATE TABLE ks.t (k blob, c int, v blob, s blob static, PRIMARY KEY (k, c))`.
pub(crate) fn table() -> Table {
    table_with_id(1, "t")
}

/// As [`table`], with another identity.
pub(crate) fn table_with_id(id: u128, name: &str) -> Table {
    TableBuilder::new("ks", name, TableId(id))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Int, Order::Ascending)
        .regular("v", CqlType::Blob)
        .static_column("s", CqlType::Blob)
        .build()
        .expect("a valid table")
}

/// Wire form of a clustering of one int.
pub(crate) fn clustering(c: i32) -> Vec<u8> {
    let mut wire = Vec::new();
    schema::push_component(&mut wire, Some(&c.to_be_bytes()));
    wire
}

/// `INSERT INTO t (k, c, v) VALUES (..) USING TIMESTAMP ..`.
pub(crate) fn insert(table: &Table, key: &[u8], c: i32, timestamp: i64, value: &[u8]) -> Mutation {
    insert_at(table, Token::of_key(key), key, c, timestamp, value)
}

/// As [`insert`] with a token of the test's choice.
pub(crate) fn insert_at(
    table: &Table,
    token: Token,
    key: &[u8],
    c: i32,
    timestamp: i64,
    value: &[u8],
) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, token, key);
    builder.write_row(&clustering(c), Liveness::at(timestamp), Deletion::LIVE, |row| {
        row.simple(0, Cell::live(timestamp, value));
    });
    builder.finish()
}

/// Facts of an sstable with a token range.
pub(crate) fn meta(generation: u64, first: Token, last: Token) -> Meta {
    Meta {
        version: sstable::Version::Nb,
        generation,
        first_key: Box::new([1]),
        first_token: first,
        last_key: Box::new([2]),
        last_token: last,
        min_timestamp: 1,
        max_timestamp: 2,
        min_local_time: u32::MAX,
        max_local_time: u32::MAX,
        min_ttl: 0,
        max_ttl: 0,
        partitions: 2,
        rows: 2,
        data_bytes: 100,
        disk_bytes: 200,
        level: 0,
        repaired_at: 0,
        tombstones: 0,
    }
}
