//! Statements of the server's own: roles are kept in tables, and read and written in the words of CQL.

use crate::engine::Engine;
use crate::error::Error;
use crate::outcome::{Answer, Outcome};
use protocol::request::Parameters;
use protocol::values::ValuesBuilder;
use protocol::wire::{RawValue, Reader};
use types::Consistency;

/// A row: one value or null for each column.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

impl Engine {
    /// Runs a statement of constant text with values, whoever is connected. Its rows come in one piece.
    /// Errors: those of any statement; the text itself is right.
    pub(crate) async fn internal(
        &self,
        text: &'static str,
        values: &[Option<&[u8]>],
        consistency: Consistency,
    ) -> Result<Vec<Row>, Error> {
        let mut bound = ValuesBuilder::default();
        for value in values {
            let value = value.map_or(RawValue::Null, RawValue::Bytes);
            bound.push(value);
        }
        let parameters = Parameters { values: bound.values(), ..Parameters::at(consistency) };
        // Boxed: statements about roles run statements themselves.
        rows_of(Box::pin(self.query_unasked(text, &parameters)).await?)
    }

    /// Runs a SELECT of constant text on what this node alone holds, whoever else holds what.
    pub(crate) async fn internal_here(&self, text: &'static str) -> Result<Vec<Row>, Error> {
        rows_of(Box::pin(self.select_here(text)).await?)
    }
}

fn rows_of(answer: Answer) -> Result<Vec<Row>, Error> {
    let Outcome::Rows(rows) = answer.outcome else { return Ok(Vec::new()) };
    let columns = rows.metadata.columns.len();
    let mut reader = Reader::new(&rows.content);
    let mut read = || {
        let value = reader.bytes().map_err(|error| Error::Server(error.to_string()))?;
        Ok(value.map(<[u8]>::to_vec))
    };
    (0..rows.count).map(|_| (0..columns).map(|_| read()).collect()).collect()
}
