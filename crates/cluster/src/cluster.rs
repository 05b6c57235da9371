//! The schema on one shard, and the one place where it changes.

use crate::builtin;
use crate::error::Error;
use crate::event::SchemaEvent;
use crate::schema_log::SchemaLog;
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

type SchemaHook = Box<dyn Fn(&Arc<Schema>)>;
type EventHook = Box<dyn Fn(&[SchemaEvent])>;
type Forgotten = Pin<Box<dyn Future<Output = Result<(), storage::Error>>>>;
type ForgottenHook = Box<dyn Fn(Vec<TableId>) -> Forgotten>;

/// The schema as this shard knows it. Installed once per shard.
pub struct Cluster {
    schema: RefCell<Arc<Schema>>,
    schema_hooks: RefCell<Vec<SchemaHook>>,
    event_hooks: RefCell<Vec<EventHook>>,
    forgotten_hook: RefCell<Option<ForgottenHook>>,
    /// Only on shard 0; held for the whole of a change, so that changes happen one after the other.
    log: Option<Lock<SchemaLog>>,
}

impl Cluster {
    /// Shard 0 gives the log, other shards give none. The result must be installed in the runtime of its shard.
    pub fn new(schema: Arc<Schema>, log: Option<SchemaLog>) -> Rc<Cluster> {
        assert_eq!(log.is_some(), runtime::shard() == ShardId(0), "the schema log lives on shard 0");
        Rc::new(Cluster {
            schema: RefCell::new(schema),
            schema_hooks: RefCell::default(),
            event_hooks: RefCell::default(),
            forgotten_hook: RefCell::default(),
            log: log.map(Lock::new),
        })
    }

    /// The newest schema.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    /// Calls a function with every new schema, in the step in which this shard takes it.
    pub fn on_schema(&self, hook: impl Fn(&Arc<Schema>) + 'static) {
        self.schema_hooks.borrow_mut().push(Box::new(hook));
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

    /// Changes the schema: `decide` runs on shard 0 and sees the schema it changes.
    /// Returns when the change is durable and every shard runs it. Outer errors are of the log; inner ones are
    /// `decide`'s own, and then nothing has changed.
    pub async fn change<E: Send + 'static>(
        decide: impl FnOnce(&Schema) -> Decision<E> + Send + 'static,
    ) -> Result<Result<Changed, E>, Error> {
        runtime::submit_to(ShardId(0), Group::ADMIN, move || async move {
            let cluster = runtime::local::<Cluster>();
            cluster.change_here(decide).await
        })
        .await
    }

    async fn change_here<E>(
        &self,
        decide: impl FnOnce(&Schema) -> Decision<E>,
    ) -> Result<Result<Changed, E>, Error> {
        let log = self.log.as_ref().expect("changes run on shard 0");
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
        for shard in (0..runtime::shard_count()).map(ShardId) {
            let next = next.clone();
            runtime::submit_to(shard, Group::ADMIN, move || async move {
                runtime::local::<Cluster>().take(next);
            })
            .await;
        }
        for shard in (0..runtime::shard_count()).map(ShardId) {
            let events = events.clone();
            runtime::submit_to(shard, Group::ADMIN, move || async move {
                runtime::local::<Cluster>().tell(&events);
            })
            .await;
        }
        Ok(Ok(Changed::Done(events)))
    }

    fn forgotten(&self, ids: Vec<TableId>) -> Option<Forgotten> {
        self.forgotten_hook.borrow().as_ref().map(|hook| hook(ids))
    }

    fn take(&self, schema: Arc<Schema>) {
        *self.schema.borrow_mut() = schema.clone();
        self.schema_hooks.borrow().iter().for_each(|hook| hook(&schema));
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

/// Waits until no shard holds anything durable of earlier tables with the ids of those that are about to be made.
async fn await_forgotten(before: &Schema, next: &Schema) -> Result<(), Error> {
    let made: Vec<TableId> =
        next.tables().map(|table| table.id).filter(|id| before.table_by_id(*id).is_none()).collect();
    if made.is_empty() {
        return Ok(());
    }
    for shard in (0..runtime::shard_count()).map(ShardId) {
        let made = made.clone();
        let forgotten = runtime::submit_to(shard, Group::ADMIN, move || async move {
            match runtime::local::<Cluster>().forgotten(made) {
                Some(forgotten) => runtime::timeout(FORGET_PATIENCE, forgotten).await,
                None => Ok(Ok(())),
            }
        });
        match forgotten.await {
            Ok(forgotten) => forgotten?,
            Err(_) => return Err(Error::StillDropping { shard: shard.0 }),
        }
    }
    Ok(())
}
