//! A statement of one shard: its text, and what analysis made of it under the newest schema.
//!
//! A change of a table makes what was prepared on it out of date: clients must prepare it again, so that they hear of its
//! new columns. After any other change the statement goes on: whoever runs it asks for its [`Analysed`] form, which is made
//! anew when the schema is another than before. The id stays in both cases, as clients expect.

use crate::allowed::Allowed;
use crate::cache::{Cached, StatementId};
use crate::error::Error;
use crate::limits;
use crate::outcome::ResultMetadata;
use cql::{Plan, is_system_keyspace};
use md5::{Digest, Md5};
use protocol::metadata::{ColumnSpec, Prepared};
use schema::Schema;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A statement with everything that its execution needs under one schema.
pub struct Analysed {
    /// What to do.
    pub plan: Plan,
    /// The bind markers.
    pub binds: std::sync::Arc<[cql::BindSpec]>,
    /// Marker numbers of the partition key's components.
    pub key_markers: Vec<u16>,
    /// The columns of the result; `None` when there are none.
    pub metadata: Option<Rc<ResultMetadata>>,
    /// Whether it is about rows of the server's own keyspaces, where more is to be asked than of users'.
    pub(crate) of_system: bool,
    /// Who was let through.
    pub(crate) allowed: Allowed,
}

impl Analysed {
    /// Analyses a text.
    pub fn of(schema: &Schema, keyspace: Option<&str>, text: &str) -> Result<Analysed, Error> {
        Analysed::of_parsed(schema, keyspace, cql::parse(text)?)
    }

    fn of_parsed(
        schema: &Schema,
        keyspace: Option<&str>,
        statement: cql::ast::Statement,
    ) -> Result<Analysed, Error> {
        let prepared = cql::prepare(schema, keyspace, statement)?;
        let column = |c: &cql::ResultColumn| ColumnSpec {
            keyspace: c.keyspace.clone(),
            table: c.table.clone(),
            name: c.name.clone(),
            ty: c.ty.clone(),
        };
        let columns = prepared.result.as_ref().map(|columns| columns.iter().map(column).collect());
        let of_system = prepared.plan.tables().iter().any(|table| is_system_keyspace(&table.keyspace));
        Ok(Analysed {
            of_system,
            plan: prepared.plan,
            binds: prepared.binds,
            key_markers: prepared.pk_binds,
            metadata: columns.map(|columns| Rc::new(ResultMetadata::new(columns))),
            allowed: Allowed::default(),
        })
    }

    /// Whether clients go on executing it after a change of the schema: no table whose rows it reads or writes is another.
    /// Statements about no rows are never out of date; they are refused when they run on what is gone.
    fn outlives(&self, change: &Schema) -> bool {
        self.plan.tables().into_iter().all(|table| {
            let later =
                change.keyspace(&table.keyspace).and_then(|keyspace| keyspace.tables.get(&*table.name));
            later.is_some_and(|later| std::sync::Arc::ptr_eq(later, table) || table.keeps_statements(later))
        })
    }

    fn columns_id(&self) -> Option<[u8; 16]> {
        self.metadata.as_ref().map(|metadata| metadata.id)
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
    /// MD5 of keyspace and text; of the text alone when the keyspace in use does not matter. Then drivers that prepare
    /// again after a USE get the id that they have.
    pub id: StatementId,
    /// The keyspace it was prepared in, if that matters.
    pub keyspace: Option<Rc<str>>,
    /// Every table is named with its keyspace.
    fully_qualified: bool,
    /// Its text.
    pub text: Rc<str>,
    /// A client that skips metadata may hold columns of an earlier schema.
    columns_changed: Cell<bool>,
    /// The version of the schema it was analysed with.
    schema_version: Cell<u128>,
    analysed: RefCell<Rc<Analysed>>,
}

impl Statement {
    /// Analyses a text under a schema.
    pub fn prepare(schema: &Schema, keyspace: Option<&str>, text: &str) -> Result<Statement, Error> {
        let parsed = cql::parse(text)?;
        let fully_qualified = parsed.is_fully_qualified();
        let analysed = Analysed::of_parsed(schema, keyspace, parsed)?;
        let keyspace = keyspace.filter(|_| !fully_qualified);
        Ok(Statement {
            id: id_of(keyspace, text),
            keyspace: keyspace.map(Rc::from),
            fully_qualified,
            text: text.into(),
            columns_changed: Cell::new(false),
            schema_version: Cell::new(schema.version),
            analysed: RefCell::new(Rc::new(analysed)),
        })
    }

    /// Whether a text that is prepared in `keyspace` is this statement, whose text it is.
    pub fn is_prepared_in(&self, keyspace: Option<&str>) -> bool {
        self.fully_qualified || self.keyspace.as_deref() == keyspace
    }

    /// Remembers what clients know of the statement from before it was out of date: other connections than the one that
    /// has prepared it again may hold its earlier columns.
    pub fn follow(&self, earlier: &Statement) {
        let changed = earlier.known().columns_id() != self.known().columns_id();
        self.columns_changed.set(earlier.columns_changed() || changed);
    }

    /// Whether it goes on after a change to `schema`.
    pub fn outlives(&self, schema: &Schema) -> bool {
        self.analysed.borrow().outlives(schema)
    }

    /// The statement as it was analysed last.
    pub fn known(&self) -> Rc<Analysed> {
        self.analysed.borrow().clone()
    }

    /// The statement under `schema`, analysed anew if that is another than before.
    pub fn analysed(&self, schema: &Schema) -> Result<Rc<Analysed>, Error> {
        let known = self.analysed.borrow().clone();
        if self.schema_version.get() == schema.version {
            return Ok(known);
        }
        let fresh = match Analysed::of(schema, self.keyspace.as_deref(), &self.text) {
            Ok(fresh) => Rc::new(fresh),
            // A type that it names in passing is gone. It goes on with the one it was prepared with.
            Err(_) if !known.plan.tables().is_empty() => known.clone(),
            Err(error) => return Err(error),
        };
        if fresh.columns_id() != known.columns_id() {
            self.columns_changed.set(true);
        }
        self.schema_version.set(schema.version);
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
