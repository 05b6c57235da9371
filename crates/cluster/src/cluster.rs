//! The schema on one shard, and the one place where it changes.

use crate::builtin;
use crate::error::Error;
use crate::event::SchemaEvent;
use crate::group::Group0;
use crate::schema_log::SchemaLog;
use group0::{Outcome, RoleChange, Roles};
use runtime::sync::Lock;
use runtime::{Group, ShardId};
use schema::{Schema, TableId};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Longest that a table waits to be made until every shard has forgotten an earlier one of its id: a sync takes far less, and
/// a client waits no longer.
const FORGET_PATIENCE: Duration = Duration::from_secs(5);

/// Time between two attempts to write over what a failed change left in the schema log.
const SETTLE_EVERY: Duration = Duration::from_secs(1);

/// What a change function decided on shard 0.
pub type Decision<E> = Result<Option<(Schema, Vec<SchemaEvent>)>, E>;

/// How a schema change ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// Every shard runs the new schema; clients were or will be told these events.
    Done(Vec<SchemaEvent>),
    /// There was nothing to do (`IF NOT EXISTS`), or it was so already.
    Nothing,
}

/// ⚔ Whether a decision that changes nothing may be answered: it rests on what is applied here, and this node may lag. A client that was told that
/// a table is dropped must not be told by another node that it is there. A change needs no such look, as it is applied as nothing where it rests on an
/// older state.
#[derive(Default)]
struct CaughtUp(bool);

impl CaughtUp {
    /// Waits until this node has applied all that was agreed on before now, unless it has done so for this request; whether it did: decide again then.
    /// Errors: no majority answered in time.
    async fn waits(&mut self, group0: &Group0) -> Result<bool, Error> {
        if self.0 {
            return Ok(false);
        }
        self.0 = true;
        group0.catch_up().await?;
        Ok(true)
    }
}

type SchemaHook = Box<dyn Fn(&Arc<Schema>)>;
type RolesHook = Box<dyn Fn(&Arc<Roles>, &[String])>;
type EventHook = Box<dyn Fn(&[SchemaEvent])>;
type Forgotten = Pin<Box<dyn Future<Output = Result<(), storage::Error>>>>;
type ForgottenHook = Box<dyn Fn(Vec<TableId>) -> Forgotten>;

/// The schema as this shard knows it. Installed once per shard.
pub struct Cluster {
    schema: RefCell<Arc<Schema>>,
    store_hooks: RefCell<Vec<SchemaHook>>,
    schema_hooks: RefCell<Vec<SchemaHook>>,
    event_hooks: RefCell<Vec<EventHook>>,
    roles_hooks: RefCell<Vec<RolesHook>>,
    forgotten_hook: RefCell<Option<ForgottenHook>>,
    /// Only on shard 0 of a node that is alone; held for the whole of a change, so that changes happen one after the other.
    log: Option<Lock<SchemaLog>>,
}

impl Cluster {
    /// Shard 0 of a node that is alone gives the log; other shards give none, and those of a node whose changes go through the
    /// cluster's log. The result must be installed in the runtime of its shard.
    pub fn new(schema: Arc<Schema>, log: Option<SchemaLog>) -> Rc<Cluster> {
        assert!(log.is_none() || runtime::shard() == ShardId(0), "the schema log lives on shard 0");
        Rc::new(Cluster {
            schema: RefCell::new(schema),
            store_hooks: RefCell::default(),
            schema_hooks: RefCell::default(),
            event_hooks: RefCell::default(),
            roles_hooks: RefCell::default(),
            forgotten_hook: RefCell::default(),
            log: log.map(Lock::new),
        })
    }

    /// The newest schema.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    /// Calls a function with every new schema before any shard takes it: for stores, which must know a table before anybody plans on it.
    pub fn on_store(&self, hook: impl Fn(&Arc<Schema>) + 'static) {
        self.store_hooks.borrow_mut().push(Box::new(hook));
    }

    /// Calls a function with every new schema, in the step in which this shard takes it.
    pub fn on_schema(&self, hook: impl Fn(&Arc<Schema>) + 'static) {
        self.schema_hooks.borrow_mut().push(Box::new(hook));
    }

    /// Calls a function with the roles of the cluster, in the step in which this shard takes them, and the names of those that are not what
    /// they were. A lone node has none.
    pub fn on_roles(&self, hook: impl Fn(&Arc<Roles>, &[String]) + 'static) {
        self.roles_hooks.borrow_mut().push(Box::new(hook));
    }

    /// Calls a function with the events of every change, after all shards have the new schema.
    pub fn on_events(&self, hook: impl Fn(&[SchemaEvent]) + 'static) {
        self.event_hooks.borrow_mut().push(Box::new(hook));
    }

    /// Names the function that waits until this shard has durably forgotten what tables of these ids held before. It is
    /// called on every shard before a change that makes tables: a crash right behind it must not bring old rows back.
    pub fn before_tables<Fut>(&self, hook: impl Fn(Vec<TableId>) -> Fut + 'static)
    where
        Fut: Future<Output = Result<(), storage::Error>> + 'static,
    {
        *self.forgotten_hook.borrow_mut() = Some(Box::new(move |ids| Box::pin(hook(ids))));
    }

    /// Changes the schema: `decide` runs on shard 0 and sees the schema it changes, once more for each change of another node that came
    /// first.
    /// Returns when the change is durable and every shard runs it. Outer errors are of the log; inner ones are
    /// `decide`'s own, and then nothing has changed.
    pub async fn change<E: Send + 'static>(
        decide: impl Fn(&Schema) -> Decision<E> + Send + 'static,
    ) -> Result<Result<Changed, E>, Error> {
        runtime::submit_to(ShardId(0), Group::ADMIN, move || async move {
            let cluster = runtime::local::<Cluster>();
            cluster.change_here(decide).await
        })
        .await
    }

    /// Has every node forget what a table holds, by an entry of the cluster's log: see `docs/mechanisms/group-0.md`.
    /// Whether this node has a cluster that it could be said to; if not, nothing has happened.
    /// `at`: microseconds since the Unix epoch. `within`: longest wait.
    pub async fn truncate(table: TableId, at: i64, within: Duration) -> Result<bool, Error> {
        runtime::submit_to(ShardId(0), Group::ADMIN, move || async move {
            let cluster = runtime::local::<Cluster>();
            match runtime::try_local::<Group0>() {
                _ if cluster.log.is_some() => Ok(false),
                Some(group0) => group0.truncate(table, at, within).await.map(|()| true),
                None => Err(Error::NotStarted),
            }
        })
        .await
    }

    /// Returns once every shard of this node has what was agreed on before the call; at once where there is no cluster.
    /// Errors: no majority answered in time.
    pub async fn catch_up() -> Result<(), Error> {
        runtime::submit_to(ShardId(0), Group::ADMIN, || async {
            match runtime::try_local::<Group0>() {
                Some(group0) => group0.catch_up().await,
                None => Ok(()),
            }
        })
        .await
    }

    /// Changes the roles of the cluster: `decide` runs on shard 0 and sees the roles it changes, once more for each change of another node that
    /// came first; `None` is no change.
    /// Returns when the change is applied here and by every member that answers, a while at most. Outer errors are of the log; inner
    /// ones are `decide`'s own, and then nothing has changed.
    pub async fn change_roles<E: Send + 'static>(
        decide: impl Fn(&Roles) -> Result<Option<RoleChange>, E> + Send + 'static,
    ) -> Result<Result<(), E>, Error> {
        runtime::submit_to(ShardId(0), Group::ADMIN, move || async move {
            let group0 = runtime::try_local::<Group0>().ok_or(Error::NotStarted)?;
            let mut caught_up = CaughtUp::default();
            loop {
                let state = group0.machine.state();
                let change = match decide(state.roles()) {
                    Ok(Some(change)) => change,
                    undecided => match (caught_up.waits(&group0).await, undecided) {
                        (Ok(true), _) => continue,
                        // An error acknowledges nothing: it needs no majority.
                        (_, Err(error)) => return Ok(Err(error)),
                        (Ok(false), _) => return Ok(Ok(())),
                        (Err(error), _) => return Err(error),
                    },
                };
                match group0.propose(&state, group0::Change::Role(change)).await? {
                    Outcome::Done(version) => {
                        group0.wait_until_seen(version).await;
                        return Ok(Ok(()));
                    }
                    Outcome::Moved => {}
                    Outcome::Refused(text) => return Err(Error::Refused(text)),
                }
            }
        })
        .await
    }

    async fn change_here<E>(
        &self,
        decide: impl Fn(&Schema) -> Decision<E>,
    ) -> Result<Result<Changed, E>, Error> {
        let Some(log) = self.log.as_ref() else {
            return self.change_all(decide).await;
        };
        let mut log = log.lock().await;
        let before = self.schema();
        let (next, events) = match decide(&before) {
            Ok(Some(decided)) => decided,
            Ok(None) => return Ok(Ok(Changed::Nothing)),
            Err(error) => return Ok(Err(error)),
        };
        // What alters nothing is no change: there is nothing to log, and nobody is told.
        if schema::Change::between(&before, &next).is_empty() {
            return Ok(Ok(Changed::Nothing));
        }
        let next = Arc::new(builtin::versioned(next));
        await_forgotten(&before, &next).await?;
        let settling = log.is_unsettled();
        if let Err(error) = log.append(&before, &next).await {
            // An earlier failure may have left a task that settles it, too.
            if log.is_unsettled() && !settling {
                drop(runtime::spawn(Group::ADMIN, settle()));
            }
            return Err(error);
        }
        show_store(&next).await;
        runtime::on_every_shard(Group::ADMIN, move || {
            let next = next.clone();
            async move { runtime::local::<Cluster>().take(next) }
        })
        .await;
        tell_everywhere(&events).await;
        Ok(Ok(Changed::Done(events)))
    }

    /// Changes the schema of all nodes: decides again when another change came first.
    async fn change_all<E>(
        &self,
        decide: impl Fn(&Schema) -> Decision<E>,
    ) -> Result<Result<Changed, E>, Error> {
        let group0 = runtime::try_local::<Group0>().ok_or(Error::NotStarted)?;
        let mut caught_up = CaughtUp::default();
        loop {
            // What a decision sees must be one state: the schema that is applied here, laid over by the built-in tables.
            let state = group0.machine.state();
            let before = builtin::with_builtin(Schema::clone(state.schema()));
            let decided = match decide(&before) {
                Ok(Some((next, _))) if schema::Change::between(&before, &next).is_empty() => Ok(None),
                other => other,
            };
            let (next, events) = match decided {
                Ok(Some(decided)) => decided,
                undecided => match (caught_up.waits(&group0).await, undecided) {
                    (Ok(true), _) => continue,
                    (_, Err(error)) => return Ok(Err(error)),
                    (Ok(false), _) => return Ok(Ok(Changed::Nothing)),
                    (Err(error), _) => return Err(error),
                },
            };
            group0.refuse_empty_readers(&state, &before, &next).await?;
            await_forgotten(&before, &next).await?;
            let changes = schema::Change::between(state.schema(), &builtin::logged(&next));
            readable(&changes)?;
            match group0.propose(&state, group0::Change::Schema(changes)).await? {
                Outcome::Done(version) => {
                    group0.wait_until_seen(version).await;
                    return Ok(Ok(Changed::Done(events)));
                }
                Outcome::Moved => {}
                Outcome::Refused(text) => return Err(Error::Refused(text)),
            }
        }
    }

    fn forgotten(&self, ids: Vec<TableId>) -> Option<Forgotten> {
        self.forgotten_hook.borrow().as_ref().map(|hook| hook(ids))
    }

    pub(crate) fn store(&self, schema: &Arc<Schema>) {
        self.store_hooks.borrow().iter().for_each(|hook| hook(schema));
    }

    pub(crate) fn take(&self, schema: Arc<Schema>) {
        *self.schema.borrow_mut() = schema.clone();
        self.schema_hooks.borrow().iter().for_each(|hook| hook(&schema));
    }

    pub(crate) fn take_roles(&self, roles: &Arc<Roles>, changed: &[String]) {
        self.roles_hooks.borrow().iter().for_each(|hook| hook(roles, changed));
    }

    fn tell(&self, events: &[SchemaEvent]) {
        self.event_hooks.borrow().iter().for_each(|hook| hook(events));
    }
}

/// Writes over what a failed change left, until that succeeds: the tables of the schema that holds take writes meanwhile.
async fn settle() {
    loop {
        runtime::sleep(SETTLE_EVERY).await;
        let cluster = runtime::local::<Cluster>();
        let mut log = cluster.log.as_ref().expect("changes run on shard 0").lock().await;
        log.settle(&cluster.schema()).await;
        if !log.is_unsettled() {
            return;
        }
    }
}

/// Shows a schema to the stores of every shard: before any of them plans on it.
pub(crate) async fn show_store(schema: &Arc<Schema>) {
    let schema = schema.clone();
    runtime::on_every_shard(Group::ADMIN, move || {
        let schema = schema.clone();
        async move { runtime::local::<Cluster>().store(&schema) }
    })
    .await;
}

/// Tells the clients of every shard.
pub(crate) async fn tell_everywhere(events: &[SchemaEvent]) {
    let events: Arc<[SchemaEvent]> = events.into();
    runtime::on_every_shard(Group::ADMIN, move || {
        let events = events.clone();
        async move { runtime::local::<Cluster>().tell(&events) }
    })
    .await;
}

/// Errors: what the cluster's log could not be read with again.
fn readable(changes: &[schema::Change]) -> Result<(), Error> {
    schema::Change::decode_all(&schema::Change::encode_all(changes)).map_err(Error::Unreadable)?;
    Ok(())
}

/// Waits until no shard holds anything durable of earlier tables with the ids of those that are about to be made.
pub(crate) async fn await_forgotten(before: &Schema, next: &Schema) -> Result<(), Error> {
    let made: Vec<TableId> =
        next.tables().map(|table| table.id).filter(|id| before.table_by_id(*id).is_none()).collect();
    if made.is_empty() {
        return Ok(());
    }
    let forget = move || {
        let made = made.clone();
        async move {
            match runtime::local::<Cluster>().forgotten(made) {
                Some(forgotten) => runtime::timeout(FORGET_PATIENCE, forgotten).await,
                None => Ok(Ok(())),
            }
        }
    };
    for (shard, forgotten) in (0..).zip(runtime::on_every_shard(Group::ADMIN, forget).await) {
        match forgotten {
            Ok(forgotten) => forgotten?,
            Err(_) => return Err(Error::StillDropping { shard }),
        }
    }
    Ok(())
}
