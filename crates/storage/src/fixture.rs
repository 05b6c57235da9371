//! Tables and mutations for the tests of this crate.

use base::Token;
use mutation::{Cell, Deletion, Liveness, Mutation, MutationBuilder};
use schema::{Order, Table, TableBuilder, TableId};
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
