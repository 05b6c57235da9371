//! Mutations for tests.

use base::Token;
use mutation::{Cell, Deletion, Liveness, Mutation, MutationBuilder};
use schema::TableId;

/// A row with one value in a table.
pub(crate) fn mutation(table: u128, key: &[u8], value: &[u8]) -> Mutation {
    let mut builder = MutationBuilder::new(TableId(table), token(key), key);
    builder.write_row(&[], Liveness::at(5), Deletion::LIVE, |row| row.simple(0, Cell::live(5, value)));
    builder.finish()
}

fn token(key: &[u8]) -> Token {
    mutation::Key::new(key).token
}
