//! What a statement gives: rows in wire form, a schema change, or nothing to speak of.

use cluster::SchemaEvent;
use md5::{Digest, Md5};
use protocol::metadata::{ColumnSpec, Prepared, RowsHeader};
use std::rc::Rc;
use std::sync::Arc;

/// A statement's result with the warnings that came up.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The result.
    pub outcome: Outcome,
    /// For the client's log.
    pub warnings: Vec<String>,
}

impl Answer {
    /// A result without warnings.
    pub fn plain(outcome: Outcome) -> Answer {
        Answer { outcome, warnings: Vec::new() }
    }
}

/// What a statement gives.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Nothing.
    Void,
    /// Rows.
    Rows(Rows),
    /// The keyspace the connection uses from now on.
    SetKeyspace(Arc<str>),
    /// The schema has changed.
    SchemaChange(SchemaEvent),
    /// A statement is ready to be executed on every shard. Boxed: the largest by far and the rarest.
    Prepared(Box<Prepared>),
}

/// The columns of a result; shared by all results of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultMetadata {
    /// The columns.
    pub columns: Vec<ColumnSpec>,
    /// Changes when the columns change.
    pub id: [u8; 16],
}

impl ResultMetadata {
    /// The metadata of these columns.
    pub fn new(columns: Vec<ColumnSpec>) -> ResultMetadata {
        let mut hash = Md5::new();
        for column in &columns {
            hash.update(column.name.as_bytes());
            hash.update([0]);
            hash.update(column.ty.to_string().as_bytes());
            hash.update([0, 0]);
        }
        ResultMetadata { columns, id: hash.finalize().into() }
    }
}

/// How much of the metadata a client needs with its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announce {
    /// All of it.
    Columns,
    /// Nothing: it said that it has it.
    Skip,
    /// All of it with its new id: what the client has is out of date (v5).
    Changed,
}

/// Rows in wire form: row count × column count × `[bytes]`.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The columns.
    pub metadata: Rc<ResultMetadata>,
    /// How much of them is sent.
    pub announce: Announce,
    /// Where the next page begins; `None` on the last page.
    pub paging_state: Option<Vec<u8>>,
    /// How many rows.
    pub count: u32,
    /// Their values.
    pub content: Vec<u8>,
}

impl Rows {
    /// No rows yet.
    pub(crate) fn new(metadata: Rc<ResultMetadata>, announce: Announce) -> Rows {
        Rows { metadata, announce, paging_state: None, count: 0, content: Vec::new() }
    }

    /// What is written in front of the columns.
    pub fn header(&self) -> RowsHeader<'_> {
        RowsHeader {
            paging_state: self.paging_state.as_deref(),
            skip_metadata: self.announce == Announce::Skip,
            new_metadata_id: (self.announce == Announce::Changed).then_some(&self.metadata.id[..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::CqlType;

    fn metadata(ty: CqlType) -> ResultMetadata {
        let name: Arc<str> = "a".into();
        ResultMetadata::new(vec![ColumnSpec { keyspace: name.clone(), table: name.clone(), name, ty }])
    }

    #[test]
    fn the_id_follows_the_columns() {
        assert_eq!(metadata(CqlType::Int).id, metadata(CqlType::Int).id);
        assert_ne!(metadata(CqlType::Int).id, metadata(CqlType::Text).id);
    }
}
