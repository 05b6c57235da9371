//! A node of some shards whose stores a test drives from outside.

use crate::{
    CommitFailurePolicy, CommitlogSync, CompactionRoom, DiskFailurePolicy, Durability, Error, Settings,
    StartPlan, Store, TombstoneLimits, fixture, prepare,
};
use base::shard_of;
use mutation::{Key, Mutation, ReadAnswer, ReadCommand, Resume, Scope, Slice, TokenRange};
use runtime::sim::{NodeId, SimConfig, Task, World, main_of};
use runtime::{Group, ShardId};
use schema::{BoundSide, Keyspace, Replication, Schema, Table};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const LIMIT: Duration = Duration::from_secs(300);

pub(super) fn settings(sync: CommitlogSync) -> Settings {
    Settings {
        data_dir: "/node/data".into(),
        commitlog_dir: "/node/commitlog".into(),
        sync,
        sync_lag: None,
        segment_bytes: 256 * 1024,
        commitlog_bytes: 4 * 256 * 1024,
        memtable_bytes: 200 * 1024,
        block_cache_bytes: 64 * 1024,
        buffered_reads: false,
        ignore_replay_errors: false,
        auto_compaction: true,
        compaction_throughput: 0,
        concurrent_compactors: None,
        host_id: 7,
        row_cache_bytes: 512 * 1024,
        lend_memtable_bytes: false,
        tombstones: TombstoneLimits::NONE,
        compaction_room: CompactionRoom::ANY,
        auto_snapshot: false,
        auto_snapshot_ttl_ms: None,
        incremental_backups: false,
        disk_failure: DiskFailurePolicy::Stop,
        commit_failure: CommitFailurePolicy::Stop,
        mutation_bytes_max: None,
        sstable_format: sstable::Format::Bti,
        flush_compression: sstable::CompressionChoice::Fast,
        describe: |table| format!("TABLE {}", table.name),
    }
}

pub(super) fn schema_of(tables: &[&Table]) -> Schema {
    let replication = Replication::Simple { factor: 1 };
    let mut keyspace = Keyspace::new("ks", replication);
    for table in tables {
        keyspace.tables.insert(table.name.clone(), Arc::new((*table).clone()));
    }
    Schema::new(1, BTreeMap::from([(keyspace.name.clone(), Arc::new(keyspace))]))
}

/// What the shards of one boot share.
#[derive(Default)]
struct Shared {
    plan: Option<Arc<StartPlan>>,
    opened: u16,
    error: Option<Error>,
}

/// Seeds of a test: `count` from `first`, or as many as STORAGE_SEEDS says, from STORAGE_FIRST on.
#[allow(clippy::disallowed_methods, reason = "the number of seeds is no setting of a node")]
pub(super) fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = first + given("STORAGE_FIRST").unwrap_or(0);
    first..first + given("STORAGE_SEEDS").unwrap_or(count)
}

/// A world with one node of stores.
pub(super) struct Node {
    pub(super) world: World,
    pub(super) id: NodeId,
    pub(super) settings: Settings,
    pub(super) schema: Arc<Schema>,
    pub(super) shards: u16,
    shared: Arc<Mutex<Shared>>,
}

impl Node {
    pub(super) fn new(seed: u64, config: SimConfig, settings: Settings, tables: &[&Table]) -> Node {
        let mut world = World::new(seed, config);
        let id = world.add_node([10, 0, 0, 1].into());
        Node { world, id, settings, schema: Arc::new(schema_of(tables)), shards: 0, shared: Arc::default() }
    }

    /// Boots and waits until all stores are open; the error of the first shard that could not.
    pub(super) fn boot(&mut self, shards: u16) -> Result<(), Error> {
        self.start(shards);
        let shared = self.shared.clone();
        let done = move |world: &mut World, id: NodeId| {
            let shared = shared.lock().expect("not poisoned");
            shared.opened == shards || (shared.error.is_some() && !world.alive(id))
        };
        let id = self.id;
        assert!(self.world.run_until(|world| done(world, id), LIMIT), "the node neither opened nor failed");
        match self.shared.lock().expect("not poisoned").error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Boots without waiting.
    pub(super) fn start(&mut self, shards: u16) {
        self.shards = shards;
        self.shared = Arc::default();
        let (shared, settings, schema) = (self.shared.clone(), self.settings.clone(), self.schema.clone());
        let main = main_of(move || serve(shared.clone(), settings.clone(), schema.clone()));
        self.world.boot(self.id, shards, main);
    }

    /// Stops in good order.
    pub(super) fn stop(&mut self) {
        self.world.stop(self.id);
        let id = self.id;
        assert!(self.world.run_until(|world| !world.alive(id), LIMIT), "the node stops");
        assert_eq!(self.world.exit_code(self.id), Some(0));
    }

    /// Runs a future on shard 0 to its end.
    pub(super) fn run<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> T {
        let mut task: Task<T> = self.world.spawn(self.id, future);
        assert!(self.world.run_until(|_| task.done(), LIMIT), "the task ends");
        task.take().expect("it is done")
    }
}

async fn serve(shared: Arc<Mutex<Shared>>, settings: Settings, schema: Arc<Schema>) -> i32 {
    let fail = |error: Error| {
        shared.lock().expect("not poisoned").error.get_or_insert(error);
        1
    };
    if runtime::shard().0 == 0 {
        match prepare(&settings, runtime::shard_count()).await {
            Ok(plan) => shared.lock().expect("not poisoned").plan = Some(plan),
            Err(error) => return fail(error),
        }
    }
    let plan = loop {
        {
            let shared = shared.lock().expect("not poisoned");
            if shared.error.is_some() {
                return 1;
            }
            if let Some(plan) = &shared.plan {
                break plan.clone();
            }
        }
        runtime::sleep(Duration::from_micros(100)).await;
    };
    let store = match Store::open(settings, plan, &schema).await {
        Ok(store) => store,
        Err(error) => return fail(error),
    };
    // What tests write at first has nothing to wait for; where the disk is full, the write says so.
    let _ = store.log.room().await;
    runtime::install(store.clone());
    shared.lock().expect("not poisoned").opened += 1;
    runtime::shutdown_requested().await;
    match store.drain().await {
        Ok(()) => 0,
        Err(_) => 3,
    }
}

pub(super) async fn on_shard<T, F, Fut>(shard: u16, work: F) -> T
where
    T: Send + 'static,
    F: FnOnce(Rc<Store>) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    runtime::submit_to(ShardId(shard), Group::MAIN, move || work(runtime::local::<Store>())).await
}

/// Applies one atomic write on the shard of its first mutation.
pub(super) async fn apply(mutations: Vec<Mutation>, durability: Durability) -> Result<(), Error> {
    let shard = shard_of(mutations[0].token(), runtime::shard_count());
    let work = move |store: Rc<Store>| async move {
        // Half of the keys take the way of one step when it is open, so both ways meet in every test.
        let in_one_step = mutations[0].token().0 & 1 == 0;
        match in_one_step.then(|| store.apply_now(&mutations, durability)).flatten() {
            Some((applied, _)) => applied,
            None => store.apply(mutations, durability).await,
        }
    };
    on_shard(shard, work).await
}

/// Does something on every shard, in turn.
pub(super) async fn everywhere<F, Fut>(work: F) -> Result<(), Error>
where
    F: Fn(Rc<Store>) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = Result<(), Error>> + 'static,
{
    for shard in 0..runtime::shard_count() {
        on_shard(shard, work.clone()).await?;
    }
    Ok(())
}

pub(super) fn command(table: &Table, scope: Scope) -> ReadCommand {
    ReadCommand::everything(table.id, scope, 1_700_000_000)
}

/// Reads all pages of a command on one shard.
async fn read_on(shard: u16, mut command: ReadCommand) -> Result<Vec<ReadAnswer>, Error> {
    let mut answers = Vec::new();
    loop {
        let asked = command.clone();
        let work = move |store: Rc<Store>| async move {
            let now = store.read_now(&asked);
            let answer = store.read(&asked).await;
            if let Some((now, _)) = now {
                assert_eq!(answer.as_ref().ok(), Some(&now), "what memory answers alone is what is read");
            }
            answer
        };
        let answer = on_shard(shard, work).await?;
        let stopped: Option<Resume> = answer.stopped.clone();
        answers.push(answer);
        match stopped {
            Some(resume) => {
                assert!(command.resume.as_ref() != Some(&resume), "a page makes progress");
                command.resume = Some(resume);
            }
            None => return Ok(answers),
        }
    }
}

/// One row of an answer: key, clustering, packed row.
pub(super) type FoundRow = (Key, Vec<u8>, Vec<u8>);

/// The live rows of all pages, in the order of the answers.
pub(super) fn live_rows(answers: &[ReadAnswer], now_s: u32) -> Vec<FoundRow> {
    let mut found = Vec::new();
    for mutation in answers.iter().flat_map(|answer| &answer.partitions) {
        let view = mutation.view();
        let key = Key::with_token(view.token, view.key);
        for (clustering, body) in view.rows() {
            // Covered rows never come: what comes is dead only by its own tombstones.
            if mutation::row_is_live(body, mutation::Deletion::LIVE, now_s) {
                found.push((key.clone(), clustering.to_vec(), body.to_vec()));
            }
        }
    }
    let counted: u32 = answers.iter().map(|answer| answer.live_rows).sum();
    assert_eq!(counted as usize, found.len(), "live rows are counted right");
    found
}

pub(super) async fn read_key(command: ReadCommand) -> Result<Vec<FoundRow>, Error> {
    let Scope::Keys(keys) = &command.scope else { panic!("keys are asked for") };
    let shard = shard_of(keys[0].token, runtime::shard_count());
    let now_s = command.now_s;
    Ok(live_rows(&read_on(shard, command).await?, now_s))
}

/// Reads the whole ring in order, shard by shard.
pub(super) async fn read_ring(command: ReadCommand) -> Result<Vec<FoundRow>, Error> {
    let mut found = Vec::new();
    for shard in 0..runtime::shard_count() {
        let asked = ReadCommand { scope: Scope::Range(TokenRange::ALL), ..command.clone() };
        found.extend(live_rows(&read_on(shard, asked).await?, command.now_s));
    }
    Ok(found)
}

/// The value of column `v` in a packed row.
pub(super) fn value(body: &[u8]) -> Option<Vec<u8>> {
    match mutation::RowView::new(body).column(0) {
        Some(mutation::ColumnView::Simple(cell)) => cell.value.map(<[u8]>::to_vec),
        _ => None,
    }
}

pub(super) fn table() -> Table {
    fixture::table()
}

/// A node of one shard with a row cache, which flushes and compacts only when it is told to.
pub(super) fn node(table: &Table) -> Node {
    // Nothing is written that has to wait for a flush.
    node_of_sizes(table, 4 << 20, 4 << 20, false)
}

/// As [`node`], with so many bytes of memtables and of row cache.
pub(super) fn node_of_sizes(table: &Table, memtables: u64, rows: u64, lend: bool) -> Node {
    let mut settings = settings(CommitlogSync::Periodic { period_ms: 10_000 });
    settings.auto_compaction = false;
    (settings.memtable_bytes, settings.row_cache_bytes) = (memtables, rows);
    settings.lend_memtable_bytes = lend;
    let mut node = Node::new(1, SimConfig::calm(), settings, &[table]);
    node.boot(1).expect("opens");
    node
}

/// As a SELECT of one partition asks.
pub(super) fn of_key(table: &Table, key: &[u8]) -> ReadCommand {
    command(table, Scope::Keys(vec![Key::new(key)].into()))
}

/// As a SELECT of one row by its whole key asks.
pub(super) fn of_row(table: &Table, key: &[u8], c: i32) -> ReadCommand {
    let at = |side| table.bound_position(&fixture::clustering(c), side).expect("fits");
    let slice = Slice { start: at(BoundSide::Before), end: at(BoundSide::After) };
    ReadCommand { slices: vec![slice].into(), ..of_key(table, key) }
}

/// Applies a write in this step.
pub(super) fn put(store: &Store, mutation: Mutation) {
    store.apply_now(&[mutation], Durability::Mode).expect("nothing to wait for").0.expect("accepted");
}
