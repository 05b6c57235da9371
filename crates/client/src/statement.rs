//! Prepared statements: known by the same id on every node, prepared again where a node has forgotten them.

use crate::error::Error;
use base::Token;
use protocol::metadata::{ColumnSpec, Prepared};
use protocol::values::{Values, ValuesBuilder};
use protocol::wire::RawValue;
use std::cell::RefCell;
use std::rc::Rc;
use types::Value;

/// A prepared statement; cheap to clone.
#[derive(Clone, Debug)]
pub struct Statement(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    text: String,
    keyspace: Option<String>,
    id: Vec<u8>,
    markers: Vec<ColumnSpec>,
    pk_indexes: Vec<u16>,
    /// Replaced when a server says that the columns have changed.
    result: RefCell<ResultColumns>,
}

#[derive(Clone, Debug)]
struct ResultColumns {
    id: Rc<[u8]>,
    columns: Option<Rc<[ColumnSpec]>>,
}

impl Statement {
    pub(crate) fn new(text: &str, keyspace: Option<&str>, prepared: Prepared) -> Statement {
        Statement(Rc::new(Inner {
            text: text.to_owned(),
            keyspace: keyspace.map(str::to_owned),
            id: prepared.id,
            markers: prepared.markers,
            pk_indexes: prepared.pk_indexes,
            result: RefCell::new(ResultColumns {
                id: prepared.result_metadata_id.into(),
                columns: prepared.columns.map(Into::into),
            }),
        }))
    }

    /// The text it was prepared from.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The keyspace it was prepared in, when one was named (v5).
    pub fn keyspace(&self) -> Option<&str> {
        self.0.keyspace.as_deref()
    }

    /// Its id.
    pub fn id(&self) -> &[u8] {
        &self.0.id
    }

    /// Its markers.
    pub fn markers(&self) -> &[ColumnSpec] {
        &self.0.markers
    }

    /// The columns of its result, if it has one.
    pub fn columns(&self) -> Option<Rc<[ColumnSpec]>> {
        self.0.result.borrow().columns.clone()
    }

    pub(crate) fn result_id(&self) -> Rc<[u8]> {
        self.0.result.borrow().id.clone()
    }

    pub(crate) fn set_result(&self, id: &[u8], columns: Option<Vec<ColumnSpec>>) {
        *self.0.result.borrow_mut() = ResultColumns { id: id.into(), columns: columns.map(Into::into) };
    }

    /// Takes the result's columns from the same statement, prepared again.
    pub(crate) fn follow(&self, again: &Statement) {
        self.0.result.replace(again.0.result.borrow().clone());
    }

    /// Encodes values for the markers, in order.
    pub fn bind(&self, values: &[Value]) -> Result<ValuesBuilder, Error> {
        let mut builder = ValuesBuilder::new();
        for (value, marker) in values.iter().zip(&self.0.markers) {
            match value.encode_nullable(&marker.ty)? {
                Some(bytes) => builder.bytes(&bytes),
                None => builder.push(RawValue::Null),
            };
        }
        Ok(builder)
    }

    /// The token of the partition the values name; `None` when the partition key is not all bound.
    pub fn token<'a>(&self, values: Values<'a>) -> Option<Token> {
        let bytes_of = |value: RawValue<'a>| match value {
            RawValue::Bytes(bytes) => Some(bytes),
            RawValue::Null | RawValue::Unset => None,
        };
        match self.0.pk_indexes.as_slice() {
            [] => None,
            [only] => {
                let (_, value) = values.iter().nth(usize::from(*only))?;
                bytes_of(value).map(Token::of_key)
            }
            several => {
                let bound: Vec<RawValue<'_>> = values.iter().map(|(_, value)| value).collect();
                let part = |index: &u16| bound.get(usize::from(*index)).and_then(|value| bytes_of(*value));
                let mut key = Vec::new();
                for index in several {
                    let bytes = part(index)?;
                    key.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
                    key.extend_from_slice(bytes);
                    key.push(0);
                }
                Some(Token::of_key(&key))
            }
        }
    }
}
