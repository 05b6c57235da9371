//! Results a caller can keep: rows with their columns, or what else a statement gives.

use crate::error::Error;
use protocol::envelope::{Header, Opcode};
use protocol::event::SchemaChange;
use protocol::failure::FailureKind;
use protocol::metadata::ColumnSpec;
use protocol::response::Response;
use protocol::rows::Rows;
use smallvec::SmallVec;
use std::rc::Rc;
use types::Value;

/// An answer as it came: decoded in place by whoever wants it.
#[derive(Debug)]
pub struct Answer {
    /// The envelope's header.
    pub header: Header,
    /// Its body, decompressed; that of a write is within.
    pub body: SmallVec<[u8; 24]>,
}

impl Answer {
    /// True for a RESULT, whatever it holds: all a load generator wants to know.
    pub fn is_result(&self) -> bool {
        self.header.opcode == Opcode::Result as u8
    }

    /// True when the server does not know the statement: it is to be prepared again.
    pub fn is_unprepared(&self) -> bool {
        !self.is_result()
            && matches!(
                self.response(),
                Err(Error::Failure(failure)) if matches!(failure.kind, FailureKind::Unprepared { .. })
            )
    }

    /// Itself if it is a RESULT; the server's error becomes ours.
    pub fn result(self) -> Result<Answer, Error> {
        if self.is_result() {
            return Ok(self);
        }
        self.response()?;
        Err(Error::Unexpected("EXECUTE"))
    }

    /// The decoded response; the server's error becomes ours.
    pub fn response(&self) -> Result<Response<'_>, Error> {
        match Response::decode(&self.header, &self.body)? {
            Response::Error(failure) => Err(Error::Failure(Box::new(failure))),
            response => Ok(response),
        }
    }
}

/// Rows with their columns.
#[derive(Clone, Debug)]
pub struct RowSet {
    /// The columns.
    pub columns: Rc<[ColumnSpec]>,
    /// The rows: wire bytes per column, `None` for null.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// There are more pages, to be asked for with this.
    pub paging_state: Option<Vec<u8>>,
}

/// What a statement gives.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Nothing.
    Void,
    /// Rows.
    Rows(RowSet),
    /// The connection's keyspace.
    SetKeyspace(String),
    /// A change of the schema.
    SchemaChange(SchemaChange),
}

impl RowSet {
    pub(crate) fn of(rows: &Rows<'_>, known: Option<Rc<[ColumnSpec]>>) -> RowSet {
        let columns = match &rows.metadata.columns {
            Some(columns) => columns.as_slice().into(),
            None => known.unwrap_or_else(|| Rc::from([])),
        };
        RowSet {
            columns,
            rows: rows.iter().map(|row| row.into_iter().map(|v| v.map(<[u8]>::to_vec)).collect()).collect(),
            paging_state: rows.metadata.paging_state.map(<[u8]>::to_vec),
        }
    }

    /// The position of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| &*c.name == name)
    }

    /// One decoded value; null when the row or column is not there.
    pub fn value(&self, row: usize, column: usize) -> Result<Value, Error> {
        let bytes = self.rows.get(row).and_then(|r| r.get(column)?.as_deref());
        match (bytes, self.columns.get(column)) {
            (Some(bytes), Some(spec)) => Ok(Value::decode(&spec.ty, bytes)?),
            _ => Ok(Value::Null),
        }
    }

    /// Every value decoded.
    pub fn values(&self) -> Result<Vec<Vec<Value>>, Error> {
        (0..self.rows.len())
            .map(|row| (0..self.columns.len()).map(|column| self.value(row, column)).collect())
            .collect()
    }
}

impl Outcome {
    /// Reads the result of a statement whose columns may be known from its preparation.
    pub(crate) fn of(answer: &Answer, known: Option<Rc<[ColumnSpec]>>) -> Result<Outcome, Error> {
        match answer.response()? {
            Response::Void => Ok(Outcome::Void),
            Response::Rows(rows) => Ok(Outcome::Rows(RowSet::of(&rows, known))),
            Response::SetKeyspace(keyspace) => Ok(Outcome::SetKeyspace(keyspace.to_owned())),
            Response::SchemaChange(change) => Ok(Outcome::SchemaChange(change)),
            _ => Err(Error::Unexpected("a statement")),
        }
    }

    /// The rows; an empty set when the statement gives none.
    pub fn rows(self) -> RowSet {
        match self {
            Outcome::Rows(rows) => rows,
            Outcome::Void | Outcome::SetKeyspace(_) | Outcome::SchemaChange(_) => {
                RowSet { columns: Rc::from([]), rows: Vec::new(), paging_state: None }
            }
        }
    }
}
