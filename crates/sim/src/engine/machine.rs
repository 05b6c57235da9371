//! A machine of some shards that runs nothing but stores, driven from outside.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Prng;
use mutation::{ReadAnswer, ReadCommand};
use runtime::sim::{NodeId, SimConfig, World, main_of};
use runtime::{Bug, Group, ShardId};
use schema::{Keyspace, Replication, Schema};
use sstable::{CompressionChoice, Format};
use storage::{
    CommitFailurePolicy, CommitlogSync, CompactionRoom, DiskFailurePolicy, Error, Settings, StartPlan, Store,
    TombstoneLimits, prepare,
};

use super::shape::Shape;
use crate::limits::{START, STOP};

/// What flushes may be told.
const COMPRESSIONS: [CompressionChoice; 3] =
    [CompressionChoice::Table, CompressionChoice::Fast, CompressionChoice::None];

/// What the shards of one boot share.
#[derive(Default)]
struct Boot {
    plan: Option<Arc<StartPlan>>,
    opened: u16,
    error: Option<Error>,
}

fn lock(boot: &Mutex<Boot>) -> MutexGuard<'_, Boot> {
    boot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One machine.
pub(super) struct Machine {
    pub(super) node: NodeId,
    pub(super) shards: u16,
    settings: Settings,
    starts: u32,
    boot: Arc<Mutex<Boot>>,
}

/// Tiny memory and segments, so that everything happens often.
pub(super) fn settings(sync: CommitlogSync, rng: &mut Prng) -> Settings {
    let segment_bytes = 256 << 10;
    Settings {
        data_dir: "/node/data".into(),
        commitlog_dir: "/node/commitlog".into(),
        sync,
        sync_lag: rng.chance(0.3).then(|| Duration::from_millis(rng.below(400))),
        segment_bytes,
        commitlog_bytes: (2 + rng.below(4)) * segment_bytes,
        memtable_bytes: 1 << (14 + rng.below(6)),
        block_cache_bytes: rng.below(3) * (32 << 10),
        buffered_reads: rng.chance(0.2),
        row_cache_bytes: [0, 16 << 10, 256 << 10, 1 << 20][rng.below(4) as usize],
        lend_memtable_bytes: rng.chance(0.5),
        ignore_replay_errors: false,
        auto_compaction: true,
        compaction_throughput: 0,
        concurrent_compactors: rng.chance(0.5).then(|| 1 + rng.below(3) as u32),
        host_id: 7,
        tombstones: TombstoneLimits::NONE,
        compaction_room: match rng.below(3) {
            0 => CompactionRoom {
                usable_permille: 1000,
                least_free_bytes: SimConfig::calm().disk_bytes - (1 << (17 + rng.below(7))),
            },
            _ => CompactionRoom::ANY,
        },
        auto_snapshot: rng.chance(0.1),
        auto_snapshot_ttl_ms: None,
        incremental_backups: rng.chance(0.1),
        // One refuses a start with a damaged file, the other goes on without it.
        disk_failure: if rng.chance(0.5) { DiskFailurePolicy::Stop } else { DiskFailurePolicy::Ignore },
        commit_failure: CommitFailurePolicy::Stop,
        mutation_bytes_max: None,
        sstable_format: if rng.chance(0.5) { Format::Big } else { Format::Bti },
        flush_compression: COMPRESSIONS[rng.below(COMPRESSIONS.len() as u64) as usize],
        describe: |table| format!("TABLE {}", table.name),
    }
}

pub(super) fn schema_of(shapes: &[Shape]) -> Arc<Schema> {
    let mut keyspace = Keyspace::new("ks", Replication::Simple { factor: 1 });
    for shape in shapes {
        keyspace.tables.insert(shape.table.name.clone(), shape.table.clone());
    }
    Arc::new(Schema::new(1, BTreeMap::from([(keyspace.name.clone(), Arc::new(keyspace))])))
}

impl Machine {
    /// A machine with an empty disk, switched off.
    pub(super) fn new(world: &mut World, settings: Settings, planted: Option<Bug>) -> Machine {
        let node = world.add_node([10, 0, 0, 1].into());
        if let Some(bug) = planted {
            world.plant(node, bug);
        }
        Machine { node, shards: 0, settings, starts: 0, boot: Arc::default() }
    }

    /// Boots without waiting.
    pub(super) fn start(&mut self, world: &mut World, shards: u16, schema: Arc<Schema>) {
        self.shards = shards;
        self.boot = Arc::default();
        // Now and then the operator changes the format of what is written from then on.
        self.starts += 1;
        if self.starts.is_multiple_of(3) {
            self.settings.sstable_format = match self.settings.sstable_format {
                Format::Big => Format::Bti,
                Format::Bti => Format::Big,
            };
        }
        let (boot, settings) = (self.boot.clone(), self.settings.clone());
        let main = main_of(move || serve(boot.clone(), settings.clone(), schema.clone()));
        world.boot(self.node, shards, main);
    }

    /// Waits until all stores are open. Errors: what the first shard that could not says.
    pub(super) fn opened(&mut self, world: &mut World) -> Result<(), String> {
        let (boot, node, shards) = (self.boot.clone(), self.node, self.shards);
        let done = |world: &mut World| {
            let boot = lock(&boot);
            boot.opened == shards || (boot.error.is_some() && !world.alive(node))
        };
        if !world.run_until(done, START) {
            return Err("the stores are not open in time".to_string());
        }
        match lock(&boot).error.take() {
            Some(error) => Err(format!("the stores do not open: {error}")),
            None => Ok(()),
        }
    }

    /// Stops in good order; the exit code.
    pub(super) fn stop(&mut self, world: &mut World) -> Result<i32, String> {
        world.stop(self.node);
        let node = self.node;
        if !world.run_until(|world| !world.alive(node), STOP) {
            return Err("the stores do not stop in time".to_string());
        }
        Ok(world.exit_code(node).unwrap_or(-1))
    }

    /// Runs a future on shard 0 to its end.
    pub(super) fn run<T: 'static>(
        &self,
        world: &mut World,
        what: &str,
        future: impl Future<Output = T> + 'static,
    ) -> Result<T, String> {
        let mut task = world.spawn(self.node, future);
        let node = self.node;
        world.run_until(|world| task.done() || !world.alive(node), 2 * START);
        task.take().ok_or_else(|| format!("{what} does not end"))
    }
}

async fn serve(boot: Arc<Mutex<Boot>>, settings: Settings, schema: Arc<Schema>) -> i32 {
    let fail = |error: Error| {
        lock(&boot).error.get_or_insert(error);
        1
    };
    if runtime::shard().0 == 0 {
        match prepare(&settings, runtime::shard_count()).await {
            Ok(plan) => lock(&boot).plan = Some(plan),
            Err(error) => return fail(error),
        }
    }
    let plan = loop {
        {
            let boot = lock(&boot);
            if boot.error.is_some() {
                return 1;
            }
            if let Some(plan) = &boot.plan {
                break plan.clone();
            }
        }
        runtime::sleep(Duration::from_micros(100)).await;
    };
    let store = match Store::open(settings, plan, &schema).await {
        Ok(store) => store,
        Err(error) => return fail(error),
    };
    runtime::install(store.clone());
    lock(&boot).opened += 1;
    runtime::shutdown_requested().await;
    match store.drain().await {
        Ok(()) => 0,
        Err(error) => {
            runtime::error!("the store does not stop cleanly: {error}");
            3
        }
    }
}

/// Does something on the store of a shard.
pub(super) async fn on_shard<T, F, Fut>(shard: u16, work: F) -> T
where
    T: Send + 'static,
    F: FnOnce(Rc<Store>) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    if shard == runtime::shard().0 {
        return work(runtime::local::<Store>()).await;
    }
    runtime::submit_to(ShardId(shard), Group::MAIN, move || work(runtime::local::<Store>())).await
}

/// Does something on every shard, in turn. Errors: the first; every shard was tried.
pub(super) async fn everywhere<F, Fut>(work: F) -> Result<(), Error>
where
    F: Fn(Rc<Store>) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = Result<(), Error>> + 'static,
{
    let mut result = Ok(());
    for shard in 0..runtime::shard_count() {
        result = result.and(on_shard(shard, work.clone()).await);
    }
    result
}

/// All pages of a command on one shard. Half of those that memory alone answers are read in one step.
pub(super) async fn pages(
    shard: u16,
    mut command: ReadCommand,
    in_one_step: bool,
) -> Result<Vec<ReadAnswer>, Error> {
    let mut answers = Vec::new();
    loop {
        let asked = command.clone();
        let work = move |store: Rc<Store>| async move {
            match in_one_step.then(|| store.read_now(&asked)).flatten() {
                Some((answer, _)) => Ok(answer),
                None => store.read(&asked).await,
            }
        };
        let answer = on_shard(shard, work).await?;
        let stopped = answer.stopped.clone();
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

/// The clock of the machine, in microseconds since the Unix epoch.
pub(super) fn micros() -> i64 {
    runtime::unix_micros()
}

/// The same in seconds.
pub(super) fn second() -> u32 {
    runtime::unix_seconds()
}
