//! A statement of one shard: its text, and what analysis made of it under the newest schema.
//!
//! Analysis follows the schema: whoever runs a statement asks for its [`Analysed`] form, which is made anew when the
//! schema has changed since. The id stays, as clients expect.

use crate::cache::{Cached, StatementId};
use crate::error::Error;
use crate::limits;
use crate::outcome::ResultMetadata;
use cql::Plan;
use md5::{Digest, Md5};
use protocol::metadata::{ColumnSpec, Prepared};
use schema::Schema;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A statement with everything that its execution needs under one schema.
pub struct Analysed {
    /// The version of the schema it was analysed with.
    pub schema_version: u128,
    /// What to do.
    pub plan: Plan,
    /// The bind markers.
    pub binds: std::sync::Arc<[cql::BindSpec]>,
    /// Marker numbers of the partition key's components.
    pub key_markers: Vec<u16>,
    /// The columns of the result; `None` when there are none.
    pub metadata: Option<Rc<ResultMetadata>>,
}

impl Analysed {
    /// Analyses a text.
    pub fn of(schema: &Schema, keyspace: Option<&str>, text: &str) -> Result<Analysed, Error> {
        let prepared = cql::prepare(schema, keyspace, cql::parse(text)?)?;
        let column = |c: &cql::ResultColumn| ColumnSpec {
            keyspace: c.keyspace.clone(),
            table: c.table.clone(),
            name: c.name.clone(),
            ty: c.ty.clone(),
        };
        let columns = prepared.result.as_ref().map(|columns| columns.iter().map(column).collect());
        Ok(Analysed {
            schema_version: schema.version,
            plan: prepared.plan,
            binds: prepared.binds,
            key_markers: prepared.pk_binds,
            metadata: columns.map(|columns| Rc::new(ResultMetadata::new(columns))),
        })
    }

    fn marker_specs(&self) -> Vec<ColumnSpec> {
        let spec = |bind: &cql::BindSpec| ColumnSpec {
            keyspace: bind.keyspace.clone(),
            table: bind.table.clone(),
            name: bind.name.clone(),
            ty: bind.ty.clone(),
        };
        self.binds.iter().map(spec).collect()
    }
}

/// A prepared statement.
pub struct Statement {
    /// MD5 of keyspace and text.
    pub id: StatementId,
    /// The keyspace it was prepared in.
    pub keyspace: Option<Rc<str>>,
    /// Its text.
    pub text: Rc<str>,
    /// A client that skips metadata may hold columns of an earlier schema.
    columns_changed: Cell<bool>,
    analysed: RefCell<Rc<Analysed>>,
}

impl Statement {
    /// Analyses a text under a schema.
    pub fn prepare(schema: &Schema, keyspace: Option<&str>, text: &str) -> Result<Statement, Error> {
        Ok(Statement {
            id: id_of(keyspace, text),
            keyspace: keyspace.map(Rc::from),
            text: text.into(),
            columns_changed: Cell::new(false),
            analysed: RefCell::new(Rc::new(Analysed::of(schema, keyspace, text)?)),
        })
    }

    /// The statement as it was analysed last.
    pub fn known(&self) -> Rc<Analysed> {
        self.analysed.borrow().clone()
    }

    /// The statement under `schema`, analysed anew if that is another than before.
    pub fn analysed(&self, schema: &Schema) -> Result<Rc<Analysed>, Error> {
        let known = self.analysed.borrow().clone();
        if known.schema_version == schema.version {
            return Ok(known);
        }
        let fresh = Rc::new(Analysed::of(schema, self.keyspace.as_deref(), &self.text)?);
        if fresh.metadata.as_ref().map(|m| m.id) != known.metadata.as_ref().map(|m| m.id) {
            self.columns_changed.set(true);
        }
        *self.analysed.borrow_mut() = fresh.clone();
        Ok(fresh)
    }

    /// Whether the columns of the result have changed since it was first prepared here.
    pub fn columns_changed(&self) -> bool {
        self.columns_changed.get()
    }

    /// What a client is told about it.
    pub fn describe(&self) -> Prepared {
        let analysed = self.analysed.borrow();
        // Without a result the id of no columns stands for "nothing to expect".
        let empty = ResultMetadata::new(Vec::new());
        let metadata = analysed.metadata.as_deref();
        Prepared {
            id: self.id.to_vec(),
            result_metadata_id: metadata.map_or(empty.id, |m| m.id).to_vec(),
            markers: analysed.marker_specs(),
            pk_indexes: analysed.key_markers.clone(),
            columns: metadata.map(|m| m.columns.clone()),
        }
    }
}

impl Cached for Statement {
    fn bytes(&self) -> usize {
        limits::STATEMENT_BYTES_BASE + self.text.len() * 3
    }
}

/// The id of a text in a keyspace; the same on every node.
pub fn id_of(keyspace: Option<&str>, text: &str) -> StatementId {
    let mut hash = Md5::new();
    hash.update(keyspace.unwrap_or_default().as_bytes());
    hash.update(text.as_bytes());
    hash.finalize().into()
}
