//! One shard's engine: prepared statements, the newest schema, and the way of a statement to its result.
//!
//! ```text
//! EXECUTE   find ─▶ bind ───────────────┐
//! QUERY     analyse ─▶ bind ────────────┼─▶ run ─▶ coordinator │ cluster │ system tables
//! BATCH     find or analyse ─▶ bind all ┘
//! PREPARE   analyse here ─▶ on every other shard ─▶ id
//! ```
//! Binding never waits, so values are read where the request's bytes lie; running owns what it needs. An EXECUTE is also
//! run where it was bound, as long as this shard's memory is enough for it: see `begin_analysed`.

use crate::bound::{Bound, Executed, Work, miscount_of_execute, next_tick};
use crate::cache::Cache;
use crate::clock::{Ascending, Steady};
use crate::error::Error;
use crate::info::{ClientInfo, NodeInfo};
use crate::limits;
use crate::logins::Logins;
use crate::outcome::{Answer, Outcome};
use crate::seen::Seen;
use crate::settings::Settings;
use crate::slow::SlowRequests;
use crate::statement::{Statement, id_of};
use crate::system::definitions;
use crate::system::live::Statements;
use crate::trace::{Traced, Traces};
use cluster::{Cluster, Roles, builtin};
use coordinator::Coordinator;
use core::net::SocketAddr;
use protocol::request::Parameters;
use runtime::metrics::{self, Counter, Gauge};
use runtime::sync::Semaphore;
use runtime::{Group, ShardId};
use schema::{Keyspace, Schema, Table};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use types::Consistency;

/// Counters of the engine.
pub(crate) struct Metrics {
    pub(crate) selects: Counter,
    pub(crate) writes: Counter,
    pub(crate) batches: Counter,
    pub(crate) others: Counter,
    pub(crate) prepares: Counter,
    prepared: Gauge,
    evicted: Gauge,
}

/// Tables of `system_auth` that show what a cluster has agreed on.
const SHARED: [&str; 6] = [
    "roles",
    "role_members",
    "role_permissions",
    "resource_role_permissons_index",
    "network_permissions",
    "identity_to_role",
];

/// Tells the connections of this shard.
type ClientsSource = Box<dyn Fn() -> Vec<ClientInfo>>;

/// Runs the statements of one shard. Installed in the runtime of its shard.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) coordinator: Rc<Coordinator>,
    pub(crate) clock: Steady,
    pub(crate) timestamps: Ascending,
    /// Units of 100 ns.
    pub(crate) ticks: Ascending,
    pub(crate) metrics: Metrics,
    pub(crate) seen: Seen,
    pub(crate) traces: Traces,
    slow: Rc<SlowRequests>,
    pub(crate) logins: Logins,
    system: Vec<Arc<Keyspace>>,
    schema: RefCell<Arc<Schema>>,
    statements: RefCell<Cache<Statement>>,
    /// What the cluster has agreed on; none on a lone node, whose roles are rows.
    shared_roles: RefCell<Option<Arc<Roles>>>,
    /// What the rows of a lone node say, if statements are judged by it.
    own_roles: RefCell<Option<Arc<Roles>>>,
    /// Another one whenever one of these changes.
    roles_number: Cell<u64>,
    /// One reading of the rows after the other: what was read first must not be shown last. That of shard 0 is the node's.
    pub(crate) reading_roles: Semaphore,
    /// Room for the next rows.
    room: Cell<Vec<u8>>,
    clients: RefCell<Option<ClientsSource>>,
}

impl Engine {
    /// The engine of the current shard; follows the schema of `cluster` from now on.
    pub fn new(settings: Settings, coordinator: Rc<Coordinator>, cluster: &Rc<Cluster>) -> Rc<Engine> {
        let counter = |kind: &str| {
            metrics::counter("messina_query_statements_total", "Statements run, by kind.", &[("kind", kind)])
        };
        let system = definitions::keyspaces();
        let schema = with_system(&cluster.schema(), &system);
        let logins = Logins::new(settings.authentication);
        let slow = SlowRequests::new(settings.slow_timeout);
        let engine = Rc::new(Engine {
            settings,
            coordinator,
            clock: Steady::new(),
            timestamps: Ascending::default(),
            ticks: Ascending::default(),
            metrics: Metrics {
                selects: counter("select"),
                writes: counter("modify"),
                batches: counter("batch"),
                others: counter("other"),
                prepares: counter("prepare"),
                prepared: metrics::gauge(
                    "messina_query_prepared_statements",
                    "Prepared statements kept.",
                    &[],
                ),
                evicted: metrics::gauge(
                    "messina_query_evicted_statements",
                    "Prepared statements let go.",
                    &[],
                ),
            },
            seen: Seen::register(),
            traces: Traces::default(),
            slow,
            logins,
            system,
            schema: RefCell::new(schema),
            statements: RefCell::default(),
            shared_roles: RefCell::default(),
            own_roles: RefCell::default(),
            roles_number: Cell::new(1),
            reading_roles: Semaphore::new(1),
            room: Cell::default(),
            clients: RefCell::default(),
        });
        let follower = Rc::downgrade(&engine);
        cluster.on_schema(move |schema| {
            if let Some(engine) = follower.upgrade() {
                engine.take(schema);
            }
        });
        engine.coordinator.on_trace(|id| Box::pin(Engine::encoded_trace(id)));
        let follower = Rc::downgrade(&engine);
        cluster.on_roles(move |roles, changed| {
            if let Some(engine) = follower.upgrade() {
                *engine.shared_roles.borrow_mut() = Some(roles.clone());
                engine.count_roles();
                let mut remembered = engine.logins.remembered.borrow_mut();
                changed.iter().for_each(|name| remembered.forget(name));
            }
        });
        engine
    }

    /// The roles that the cluster has agreed on, as this shard knows them; `None`: this node is alone, and its roles are rows.
    pub(crate) fn shared_roles(&self) -> Option<Arc<Roles>> {
        self.shared_roles.borrow().clone()
    }

    /// The roles in the rows of this node, which is alone, as they were read last.
    pub(crate) fn own_roles(&self) -> Option<Arc<Roles>> {
        self.own_roles.borrow().clone()
    }

    /// Whether statements are judged by rows of this node.
    pub(crate) fn has_own_roles(&self) -> bool {
        self.own_roles.borrow().is_some()
    }

    /// Goes on with other roles of this node's own.
    pub(crate) fn take_own_roles(&self, roles: Arc<Roles>) {
        *self.own_roles.borrow_mut() = Some(roles);
        self.count_roles();
    }

    fn count_roles(&self) {
        self.roles_number.set(self.roles_number.get() + 1);
    }

    /// Another number whenever the roles have changed on this shard.
    pub(crate) fn roles_number(&self) -> u64 {
        self.roles_number.get()
    }

    /// Whether a table's rows are made from the roles that the cluster has agreed on.
    pub(crate) fn shows_shared_roles(&self, table: &Table) -> bool {
        &*table.keyspace == builtin::AUTH
            && SHARED.contains(&&*table.name)
            && self.shared_roles.borrow().is_some()
    }

    /// The newest schema on this shard, system keyspaces included.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    /// Goes on with a new schema; what it makes out of date must be prepared again.
    fn take(&self, schema: &Schema) {
        let next = with_system(schema, &self.system);
        self.statements.borrow_mut().set_outdated(|statement| !statement.outlives(&next));
        *self.schema.borrow_mut() = next;
        self.count_statements();
    }

    fn count_statements(&self) {
        let statements = self.statements.borrow();
        self.metrics.prepared.set(statements.len() as i64);
        self.metrics.evicted.set(statements.evicted() as i64);
    }

    /// Where drivers connect to this node, as they are told.
    pub fn native_address(&self) -> SocketAddr {
        self.coordinator.topology().local().native
    }

    /// What of this node is fixed from start to stop.
    pub fn info(&self) -> &NodeInfo {
        &self.settings.info
    }

    /// Says who knows the connections of this shard, for `system_views.clients`.
    pub fn set_clients(&self, source: impl Fn() -> Vec<ClientInfo> + 'static) {
        *self.clients.borrow_mut() = Some(Box::new(source));
    }

    pub(crate) fn clients(&self) -> Vec<ClientInfo> {
        self.clients.borrow().as_ref().map(|source| source()).unwrap_or_default()
    }

    pub(crate) fn prepared_statements(&self) -> Vec<(Vec<u8>, Option<String>, String)> {
        let statements = self.statements.borrow();
        let row = |(id, statement): (&[u8; 16], &Rc<Statement>)| {
            (id.to_vec(), statement.keyspace.as_deref().map(str::to_string), statement.text.to_string())
        };
        statements.iter().map(row).collect()
    }

    /// What this shard's statements have done.
    pub(crate) fn statements(&self) -> Statements {
        let (kept, metrics) = (self.statements.borrow(), &self.metrics);
        let all = metrics.selects.get() + metrics.writes.get() + metrics.others.get();
        let text_run = self.seen.texts.get();
        Statements {
            prepared: kept.len() as u64,
            evicted: kept.evicted(),
            prepared_run: all.saturating_sub(text_run),
            text_run,
            logged_batches: self.seen.logged.snapshot(),
            unlogged_batches: self.seen.unlogged.snapshot(),
            counter_batches: self.seen.counter.snapshot(),
        }
    }

    /// The prepared statement of an id.
    pub(crate) fn find(&self, id: &[u8]) -> Result<Rc<Statement>, Error> {
        let found = self.statements.borrow().get(id);
        found.ok_or_else(|| Error::Unprepared { id: id.to_vec() })
    }

    /// Prepares a text on every shard.
    pub async fn prepare(&self, keyspace: Option<&str>, text: &str) -> Result<Answer, Error> {
        self.metrics.prepares.inc();
        let statement = self.prepare_here(keyspace, text)?;
        let here = runtime::shard();
        let others = (0..runtime::shard_count()).map(ShardId).filter(|shard| *shard != here);
        let tasks: Vec<_> = others
            .map(|shard| {
                let (keyspace, text) = (keyspace.map(str::to_string), text.to_string());
                let prepare = move || async move {
                    let engine = runtime::local::<Engine>();
                    engine.prepare_here(keyspace.as_deref(), &text).map(|_| ())
                };
                runtime::spawn(Group::QUERY, runtime::submit_to(shard, Group::QUERY, prepare))
            })
            .collect();
        for task in tasks {
            match runtime::timeout(limits::PREPARE_TIMEOUT, task).await {
                Ok(prepared) => prepared?,
                Err(_) => {
                    return Err(Error::Overloaded("a shard did not prepare the statement in time".into()));
                }
            }
        }
        Ok(Answer::plain(Outcome::Prepared(Box::new(statement.describe()))))
    }

    fn prepare_here(&self, keyspace: Option<&str>, text: &str) -> Result<Rc<Statement>, Error> {
        let schema = self.schema();
        let ids = [id_of(None, text), id_of(keyspace, text)];
        let known =
            ids.iter().find_map(|id| self.statements.borrow().get(id).filter(|s| s.is_prepared_in(keyspace)));
        if let Some(statement) = known {
            statement.analysed(&schema)?;
            return Ok(statement);
        }
        let statement = Rc::new(Statement::prepare(&schema, keyspace, text)?);
        let mut statements = self.statements.borrow_mut();
        if let Some(earlier) = statements.outdated(&statement.id) {
            statement.follow(earlier);
        }
        statements.insert(statement.id, statement.clone());
        drop(statements);
        self.count_statements();
        Ok(statement)
    }

    /// Binds an EXECUTE of `user`, if somebody is logged in, and runs it as far as that goes without waiting.
    /// Errors: the request cannot be bound.
    pub fn execute(
        &self,
        id: &[u8],
        result_metadata_id: Option<&[u8]>,
        user: Option<&str>,
        parameters: &Parameters<'_>,
    ) -> Result<Executed, Error> {
        let statement = self.find(id)?;
        let analysed = statement.analysed(&self.schema.borrow())?;
        self.authorize(&analysed, user)?;
        let announce = statement.announce(&analysed, result_metadata_id, parameters.skip_metadata);
        self.begin_analysed(&analysed, announce, parameters)
    }

    /// Binds an EXECUTE of `user` and begins nothing: what is traced is run by [`Engine::run`].
    /// Errors: the request cannot be bound.
    pub fn bind_execute(
        &self,
        id: &[u8],
        result_metadata_id: Option<&[u8]>,
        user: Option<&str>,
        parameters: &Parameters<'_>,
    ) -> Result<Bound, Error> {
        let statement = self.find(id)?;
        let analysed = statement.analysed(&self.schema.borrow())?;
        self.authorize(&analysed, user)?;
        let announce = statement.announce(&analysed, result_metadata_id, parameters.skip_metadata);
        self.bind_analysed(&analysed, announce, parameters, miscount_of_execute)
    }

    /// Room for rows, that of earlier ones if it was given back.
    pub(crate) fn room(&self) -> Vec<u8> {
        self.room.take()
    }

    /// Takes back the room of rows that were sent.
    pub fn give_back(&self, mut room: Vec<u8>) {
        if room.capacity() <= limits::ROOM_BYTES_KEPT {
            room.clear();
            self.room.set(room);
        }
    }

    /// Begins to trace a request of `client`. `text` is its statement, if it has one only. Its work is to be done as [`Traced::follow`] says.
    pub fn begin_trace(
        &self,
        request: &'static str,
        client: SocketAddr,
        text: Option<&str>,
        parameters: Option<&Parameters<'_>>,
    ) -> Traced {
        let mut shown = BTreeMap::new();
        if let Some(text) = text {
            let end = text.floor_char_boundary(limits::TRACE_TEXT_BYTES_MAX);
            shown.insert("query".to_string(), text[..end].to_string());
        }
        if let Some(parameters) = parameters {
            shown.insert("consistency_level".into(), parameters.consistency.to_string());
            let serial = parameters.serial_consistency.unwrap_or(Consistency::Serial);
            shown.insert("serial_consistency_level".into(), serial.to_string());
            if let Some(rows) = parameters.page_size {
                shown.insert("page_size".into(), rows.to_string());
            }
        }
        let view = self.coordinator.view();
        let here = view.snapshot.local();
        Traced::begin(request, client, shown, (here.host_id, here.internode), next_tick())
    }

    /// Ends a trace and keeps it for who asks for it.
    pub fn end_trace(&self, traced: Traced, result: Result<&Answer, &Error>) -> [u8; 16] {
        traced.end(result);
        let id = traced.id();
        self.traces.keep(traced);
        id
    }

    /// Watches for slow requests.
    pub fn slow(&self) -> &Rc<SlowRequests> {
        &self.slow
    }

    /// Keyspace and text of a prepared statement, if it is known.
    pub fn prepared(&self, id: &[u8]) -> Option<(Option<String>, String)> {
        let statement = self.statements.borrow().get(id)?;
        Some((statement.keyspace.as_deref().map(str::to_string), statement.text.to_string()))
    }

    /// The text of a prepared statement, if it is known.
    pub fn text_of(&self, id: &[u8]) -> Option<Rc<str>> {
        self.statements.borrow().get(id).map(|statement| statement.text.clone())
    }

    /// Runs what was bound for `user`, if somebody is logged in.
    pub async fn run(&self, bound: Bound, user: Option<&str>) -> Result<Answer, Error> {
        match bound.work {
            Work::Select(select) => {
                self.metrics.selects.inc();
                self.run_select(*select).await
            }
            Work::Write(write) => {
                self.metrics.writes.inc();
                let of_roles = self.writes_roles(&write);
                let answer = self.run_write(write).await?;
                if of_roles {
                    self.show_own_roles().await?;
                }
                Ok(answer)
            }
            Work::ReadThenWrite(work) => {
                self.metrics.writes.inc();
                Box::pin(self.run_read_then_write(&work)).await
            }
            Work::Cas(cas) => {
                self.metrics.writes.inc();
                Box::pin(self.run_cas(&cas)).await
            }
            Work::Other(analysed, page) => {
                self.metrics.others.inc();
                Box::pin(self.run_other(&analysed, &page, user)).await
            }
        }
    }
}

/// The schema that statements see: what is stored, and the tables made up when read. Its version is that of the former.
fn with_system(schema: &Schema, system: &[Arc<Keyspace>]) -> Arc<Schema> {
    let mut keyspaces = schema.keyspaces.clone();
    for made_up in system {
        let mut keyspace = Keyspace::clone(made_up);
        if let Some(stored) = schema.keyspace(&made_up.name) {
            keyspace.replication = stored.replication.clone();
            keyspace.tables.extend(stored.tables.iter().map(|(name, table)| (name.clone(), table.clone())));
        }
        keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
    }
    Arc::new(Schema::new(schema.version, keyspaces))
}
