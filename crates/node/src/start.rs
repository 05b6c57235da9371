//! Wiring: what is started in which order, and stopped in the reverse.
//!
//! ```text
//! shard 0   folder lock and storage plan → schema log → identity
//! every     store (replay) → replica → coordinator → cluster → engine → protocol server
//! shard 0   internode port → metrics port → REST port → native ports → "ready"
//!           … serving …
//! shard 0   native ports closed → every shard drained → metrics and internode closed
//! every     engine and coordinator closed → hints flushed → store flushed and closed
//! ```
//! The same function runs on threads and in the simulated world. Shard 0 leads; the others wait to be told.

use crate::config::{CommitlogSync, Config};
use crate::faults;
use crate::handoff;
use crate::identity::{self, Identity};
use crate::internode::{Beginning, Others};
use crate::limits;
use crate::operator::{ClientPort, serve_operators};
use base::HostId;
use cluster::{Cluster, Folder, SchemaLog};
use coordinator::Coordinator;
use core::net::SocketAddr;
use core::time::Duration;
use journal::Journal;
use query::{Authenticator, Engine, NodeInfo};
use replica::Local;
use rpc::Pool;
use runtime::sync::Flag;
use runtime::{Group, ShardId};
use schema::Schema;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use storage::Store;
use topology::{Member, MemberState, Members, Snapshot, Version};

/// What a node that has started can be reached by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Where clients connect.
    pub native: SocketAddr,
    /// The shard-aware port on the same address.
    pub shard_aware_port: Option<u16>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// How many shards run.
    pub shards: u16,
    /// The node's identity.
    pub host_id: uuid::Uuid,
}

/// Who is told how the start went; called on shard 0.
#[derive(Clone)]
pub struct Reporter {
    /// Clients can connect now.
    pub ready: Arc<dyn Fn(&Ready) + Send + Sync>,
    /// The node does not start, or did not stop in order, for this reason.
    pub failed: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Reporter {
    /// Tells nobody but the log.
    pub fn silent() -> Reporter {
        Reporter { ready: Arc::new(|_| {}), failed: Arc::new(|text| runtime::error!("node: {text}")) }
    }
}

/// The function a node runs on every one of its shards, real or simulated.
pub fn main_closure(config: Config, reporter: Reporter) -> runtime::Main {
    let config = Arc::new(config);
    Arc::new(move || {
        let (config, reporter) = (config.clone(), reporter.clone());
        Box::pin(async move { run_shard(config, reporter).await })
    })
}

/// Why a node does not start. Nothing is left behind but what an earlier start has made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A folder cannot be made.
    #[error("{}: {reason}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The folder was in use and its schema is gone. Put the file back.
    #[error(
        "{}: lost from a folder that was in use; without it all data in the folder would be taken for that of dropped \
         tables: put the file back, or remove the folder to begin anew",
        path.display()
    )]
    SchemaLost {
        /// The schema log.
        path: PathBuf,
    },
    /// The identity cannot be known.
    #[error(transparent)]
    Identity(#[from] identity::IdentityError),
    /// The schema log cannot be read.
    #[error(transparent)]
    Schema(#[from] cluster::Error),
    /// A store cannot be opened.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// Logged batches of an earlier life cannot be read. Without them clients could see half of one.
    #[error("logged batches cannot be read: {0}")]
    Batches(replica::Error),
    /// The time up to which the node takes part in no lightweight transaction cannot be read.
    #[error("ballots of lightweight transactions cannot be read: {0}")]
    Ballots(replica::Error),
    /// The node ended itself, as the operator has decided for failing disks. Nothing was flushed; the log has everything.
    #[error("the node ends ({policy}): {reason}")]
    DiskFailed {
        /// The setting that says so, with its value.
        policy: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// This node's part of the cluster's log cannot be written, whatever the policies for failing disks say: it may have promised what its disk does not
    /// have. Nothing was flushed; the log has everything.
    #[error("the node ends, as it cannot take part in the cluster's agreement: {0}")]
    ClusterLog(String),
    /// A port cannot be listened on.
    #[error(transparent)]
    Clients(#[from] transport::Error),
    /// The metrics port cannot be listened on.
    #[error(transparent)]
    Metrics(#[from] admin::Error),
    /// Keys and certificates between nodes cannot be used.
    #[error("server_encryption_options: {0}")]
    InternodeKeys(#[source] tls::Error),
    /// The port between nodes cannot be listened on.
    #[error("cannot listen on {address} for other nodes: {}", admin::listen_reason(source))]
    Internode {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// How long a start waits for the first role; above what writing it takes on a busy disk.
const ROLE_PATIENCE: Duration = Duration::from_secs(10);

/// Set when a shard other than 0 may end.
struct Finish(Flag);

fn finish() -> Rc<Finish> {
    runtime::try_local::<Finish>().unwrap_or_else(|| {
        let made = Rc::new(Finish(Flag::new()));
        runtime::install(made.clone());
        made
    })
}

async fn run_shard(config: Arc<Config>, reporter: Reporter) -> i32 {
    if runtime::shard() != ShardId(0) {
        finish().0.wait().await;
        return 0;
    }
    let outcome = lead(config, &reporter).await;
    each_other_shard(|| async { finish().0.set() }).await;
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            (reporter.failed)(&error.to_string());
            1
        }
    }
}

/// Shard 0's life: start, serve until told to stop, stop.
async fn lead(config: Arc<Config>, reporter: &Reporter) -> Result<(), StartError> {
    make_folders(&config).await?;
    // This locks the folders: nothing in them is read before.
    runtime::io::limit_devices(config.device_limits);
    let mut settings = storage_settings(&config);
    let plan = storage::prepare(&settings, runtime::shard_count()).await?;
    // Beside the rest: on a slow disk every look takes its time.
    let opened = config.clone();
    let group0 = runtime::spawn(Group::MAIN, async move { open_group0(&opened).await });
    let schema_log = config.data_directory.join("schema.log");
    refuse_lost_schema(&config.data_directory, &schema_log).await?;
    let (log, schema) = SchemaLog::open(&schema_log).await?;
    let identity = identity::load(&config.data_directory, &config).await?;
    settings.host_id = identity.host_id;
    let member = own_member(&config, &identity);
    let folder = group0.await?;
    let schema = folder.as_ref().and_then(Folder::schema).unwrap_or_else(|| Arc::new(schema));
    let snapshot = match &folder {
        Some(folder) => folder.snapshot(&member, &schema),
        None => snapshot(&config, &member, &schema),
    };
    let log = folder.is_none().then_some(log);
    let started_at_s = (runtime::unix_micros() / 1_000_000) as i32;
    let shared = Arc::new(Shared {
        info: node_info(&config, started_at_s),
        snapshot: Arc::new(snapshot),
        config,
        settings,
        plan,
        schema,
    });
    let opened = open_shards(&shared, log).await;
    let result = match opened {
        Ok(()) => serve(&shared, member, folder, reporter).await,
        Err(StartError::Storage(storage::Error::Stopping)) => {
            runtime::info!("node: stopped during the commitlog replay; the next start replays it again");
            Ok(())
        }
        Err(error) => Err(error),
    };
    if matches!(result, Err(StartError::DiskFailed { .. } | StartError::ClusterLog(_))) {
        // Nothing is written to a disk that fails.
        return result;
    }
    let closed = close_shards().await;
    result.and(closed)
}

async fn serve(
    shared: &Shared,
    member: Member,
    folder: Option<Folder>,
    reporter: &Reporter,
) -> Result<(), StartError> {
    let host_id = member.host_id;
    let config = &shared.config;
    let clients = ClientPort::new(transport_settings(config));
    let started_at_s = u64::try_from(shared.info.started_at_s).unwrap_or(0);
    let beginning = Beginning { config, schema: &shared.schema, started_at_s };
    let others = Others::open(&clients, member, folder, beginning).await?;
    handoff::begin().await;
    let metrics = match config.prometheus {
        None => None,
        Some((address, port)) => {
            let address = SocketAddr::new(address.unwrap_or(config.listen_address), port);
            match admin::Server::start(address).await {
                Ok(server) => Some(server),
                // Nobody asked for this port by name: a second node on the machine works without it.
                Err(error)
                    if !config.is_given("prometheus_port") && !config.is_given("prometheus_address") =>
                {
                    runtime::warn!("node: no metrics: {error}");
                    None
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    let is_guarded = config.authentication.authenticator == Authenticator::Password;
    before_clients(others.are_none(), is_guarded).await?;
    // Clients last: nothing that may still fail is left to do once one is served.
    let operators = serve_operators(config, &clients, others.clone()).await?;
    let (native, shard_aware_port) = clients.open().await?;
    let ready = Ready {
        native,
        shard_aware_port,
        metrics: metrics.as_ref().map(admin::Server::address),
        shards: runtime::shard_count(),
        host_id: uuid::Uuid::from_u128(host_id.0),
    };
    runtime::info!("node: ready for clients on {}", ready.native);
    (reporter.ready)(&ready);
    if !is_guarded {
        // Where nobody has to log in, no start waits for its password to be hashed.
        drop(keep_a_role());
    }
    let faults = faults::guard(&clients, &others);
    runtime::shutdown_requested().await;
    faults.died()?;
    runtime::info!("node: stopping");
    others.say_goodbye().await;
    clients.close().await;
    for server in [metrics, operators].into_iter().flatten() {
        server.stop();
    }
    others.close().await;
    Ok(())
}

/// What clients must not find undone: logged batches of an earlier life, and the first role where they need one.
async fn before_clients(is_alone: bool, is_guarded: bool) -> Result<(), StartError> {
    let coordinator = runtime::local::<Coordinator>();
    if coordinator.topology().others().next().is_none() {
        coordinator.replay_batches().await.map_err(StartError::Batches)?;
    }
    // Of other nodes' batches each comes at its time, and others may take a while to be there.
    runtime::on_every_shard(Group::MAIN, || async { runtime::local::<Coordinator>().begin_batches() }).await;
    coordinator.begin_sweeps();
    if is_guarded {
        let roles = keep_a_role();
        // Without a role nobody could log in.
        if is_alone {
            let _in_the_background = runtime::timeout(ROLE_PATIENCE, roles).await;
        }
    }
    Ok(())
}

/// Makes the default role if there is none.
fn keep_a_role() -> runtime::JoinHandle<()> {
    let engine = runtime::local::<Engine>();
    runtime::spawn(Group::MAIN, async move { engine.keep_a_role().await })
}

/// What every shard is opened with.
struct Shared {
    config: Arc<Config>,
    settings: storage::Settings,
    plan: Arc<storage::StartPlan>,
    schema: Arc<Schema>,
    snapshot: Arc<Snapshot>,
    info: NodeInfo,
}

/// The schema log is made before the identity. A folder that has the one and not the other has lost its schema, and every
/// table in it would be taken for a dropped one.
async fn refuse_lost_schema(
    folder: &std::path::Path,
    schema_log: &std::path::Path,
) -> Result<(), StartError> {
    let told = |error: std::io::Error| StartError::Folder {
        reason: runtime::file::reason(&error, schema_log),
        path: schema_log.to_path_buf(),
    };
    if !identity::exists(folder).await.map_err(told)? {
        return Ok(());
    }
    let exists = runtime::file::exists(schema_log).await.map_err(told)?;
    if exists && runtime::file::read(schema_log).await.map_err(told)?.len() >= Journal::BYTES_MIN {
        return Ok(());
    }
    Err(StartError::SchemaLost { path: schema_log.to_path_buf() })
}

/// A shard's store, for its end.
struct Stored(Rc<Store>);

async fn open_shards(shared: &Arc<Shared>, log: Option<SchemaLog>) -> Result<(), StartError> {
    let others: Vec<_> = (1..runtime::shard_count())
        .map(|shard| {
            let shared = shared.clone();
            let open = move || async move { open_shard(&shared, None).await };
            runtime::spawn(Group::MAIN, runtime::submit_to(ShardId(shard), Group::MAIN, open))
        })
        .collect();
    let mut outcome = open_shard(shared, log).await;
    for other in others {
        let opened = other.await;
        outcome = outcome.and(opened);
    }
    outcome?;
    // ⚔ Before anybody asks: what is refused below it may have been forgotten.
    runtime::local::<Coordinator>().local().open_floor().await.map_err(StartError::Ballots)
}

async fn open_shard(shared: &Shared, log: Option<SchemaLog>) -> Result<(), StartError> {
    let schema = shared.schema.clone();
    let store = Store::open(shared.settings.clone(), shared.plan.clone(), &schema).await?;
    runtime::install(Rc::new(Stored(store.clone())));
    faults::watch(&store);
    let replica = Rc::new(replica::Shard::new(store.clone()));
    runtime::install(replica.clone());
    let local = Local::new(replica);
    let pool = Pool::install(coordinator::verbs(local.clone()));
    let coordinator = Coordinator::new(shared.snapshot.clone(), schema.clone(), local, pool);
    coordinator.set_snitch(shared.config.dynamic_snitch);
    coordinator.set_write_timeout(shared.config.write_timeout);
    coordinator.set_cas_contention_timeout(shared.config.cas_contention_timeout);
    runtime::install(coordinator.clone());
    coordinator.read_batches();
    handoff::open(&shared.config, coordinator.clone()).await?;
    let cluster = Cluster::new(schema, log);
    runtime::install(cluster.clone());
    // The store first: nobody may plan on a table that the store does not know.
    let forgetful = store.clone();
    cluster.before_tables(move |ids| {
        let store = forgetful.clone();
        async move { store.drops_recorded(&ids).await }
    });
    cluster.on_store(move |schema| store.set_schema(schema));
    let coordinated = coordinator.clone();
    cluster.on_schema(move |schema| coordinated.set_schema(schema.clone()));
    let engine = Engine::new(engine_settings(shared), coordinator.clone(), &cluster);
    runtime::install(engine.clone());
    let shard = transport::Shard::start(engine.clone(), transport_settings(&shared.config));
    let listed = Rc::downgrade(&shard);
    engine.set_clients(move || listed.upgrade().map(|shard| shard.clients()).unwrap_or_default());
    runtime::install(shard.clone());
    // Weak: the shard of the port holds the engine, and that the coordinator.
    let told = Rc::downgrade(&shard);
    coordinator.on_news(move |news| {
        if let Some(shard) = told.upgrade() {
            shard.tell_members(news);
        }
    });
    cluster.on_events(move |events| shard.tell(events));
    Ok(())
}

/// Flushes and closes every store that was opened; the first failure is reported, the others are logged.
async fn close_shards() -> Result<(), StartError> {
    let mut outcome = Ok(());
    for shard in 0..runtime::shard_count() {
        let closed = runtime::submit_to(ShardId(shard), Group::MAIN, || async {
            if let Some(coordinator) = runtime::try_local::<Coordinator>() {
                coordinator.close();
            }
            handoff::close().await;
            match runtime::try_local::<Stored>() {
                Some(store) => store.0.drain().await,
                None => Ok(()),
            }
        })
        .await;
        if let Err(error) = &closed {
            runtime::error!("node: shard {shard} did not stop in order: {error}");
        }
        outcome = outcome.and(closed.map_err(StartError::from));
    }
    outcome
}

async fn each_other_shard<F, Fut>(act: F)
where
    F: Fn() -> Fut + Copy + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    for shard in 1..runtime::shard_count() {
        runtime::submit_to(ShardId(shard), Group::MAIN, act).await;
    }
}

async fn make_folders(config: &Config) -> Result<(), StartError> {
    let folders = [config.data_directory.clone(), commitlog_directory(config)];
    // That of hints is made with the first of them, unless somebody has named it.
    for path in folders.into_iter().chain(config.hints.directory.clone()) {
        let made = make_folder(&path).await;
        made.map_err(|error| StartError::Folder { reason: runtime::file::reason(&error, &path), path })?;
    }
    Ok(())
}

/// Makes a folder whose name survives a power cut. Also when it is there already: a killed process may have made it
/// and not synced it. Folders above the parent may belong to somebody else; then they are older than this node.
async fn make_folder(path: &std::path::Path) -> std::io::Result<()> {
    runtime::file::create_dir_all(path).await?;
    for parent in path.ancestors().skip(1) {
        let parent = if parent.as_os_str().is_empty() { std::path::Path::new(".") } else { parent };
        match runtime::file::sync_dir(parent).await {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => break,
            result => result?,
        }
    }
    Ok(())
}

fn commitlog_directory(config: &Config) -> PathBuf {
    config.commitlog_directory.clone().unwrap_or_else(|| config.data_directory.join("commitlog"))
}

/// Bytes of this shard's memory that memtables and caches share: what its part of the process takes for itself is not theirs.
fn shared_memory() -> u64 {
    let budget = runtime::memory::budget();
    let own = limits::PROCESS_BYTES / u64::from(runtime::shard_count()) + limits::SHARD_BYTES;
    budget - own.min(budget / limits::OWN_SHARE)
}

fn storage_settings(config: &Config) -> storage::Settings {
    let millis = |d: core::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let shards = u64::from(runtime::shard_count());
    let budget = shared_memory();
    // A simulated node may flush after a few rows, so that flushes and compactions happen in a short run.
    let memtable_floor = if runtime::simulated() { 4 << 10 } else { 1 << 20 };
    let mut settings = storage::Settings {
        data_dir: config.data_directory.clone(),
        commitlog_dir: commitlog_directory(config),
        sync_lag: config.commitlog_sync_lag,
        sync: match config.commitlog_sync {
            CommitlogSync::Periodic(period) => storage::CommitlogSync::Periodic { period_ms: millis(period) },
            CommitlogSync::Batch => storage::CommitlogSync::Batch,
            CommitlogSync::Group(window) => storage::CommitlogSync::Group { window_ms: millis(window) },
        },
        segment_bytes: config.commitlog_segment_bytes,
        commitlog_bytes: match config.commitlog_bytes {
            Some(bytes) => (bytes / shards).max(config.commitlog_segment_bytes * 2),
            None => (config.commitlog_segment_bytes * 8).max(budget),
        },
        memtable_bytes: config
            .memtable_bytes
            .map_or(budget / 2, |bytes| (bytes / shards).max(memtable_floor)),
        block_cache_bytes: config.file_cache_bytes.map_or(budget / 4, |bytes| bytes / shards)
            + config.key_cache_bytes / shards,
        buffered_reads: config.buffered_reads,
        ignore_replay_errors: config.ignore_replay_errors,
        auto_compaction: config.auto_compaction,
        compaction_throughput: config.compaction_throughput,
        concurrent_compactors: config.concurrent_compactors,
        host_id: config.host_id.unwrap_or(0),
        // Unset or nothing, as Cassandra ships it: a sixth of the memory, so that requests have room beside memtables and blocks.
        row_cache_bytes: match config.row_cache_bytes {
            None | Some(0) => budget / 6,
            Some(bytes) => bytes / shards,
        },
        lend_memtable_bytes: false,
        compaction_room: config.compaction_room,
        tombstones: storage::TombstoneLimits { warn: config.tombstone_warn, fail: config.tombstone_fail },
        auto_snapshot: config.auto_snapshot,
        auto_snapshot_ttl_ms: config.auto_snapshot_ttl_ms,
        incremental_backups: config.incremental_backups,
        sstable_format: config.sstable_format,
        flush_compression: config.flush_compression,
        disk_failure: config.disk_failure,
        commit_failure: config.commit_failure,
        mutation_bytes_max: config.mutation_bytes_max,
        describe: cql::create_table_again,
    };
    // A size that an operator gave is a size; and what is more than there is, which was a mere limit so far, is not lent.
    let caches = settings.block_cache_bytes.saturating_add(settings.row_cache_bytes);
    let all = caches.saturating_add(settings.memtable_bytes);
    settings.lend_memtable_bytes = matches!(config.row_cache_bytes, None | Some(0)) && all <= budget;
    settings
}

/// As many connections as configured, as long as files keep descriptors: a node whose clients took them all could not open
/// the next segment of its log.
fn connections_max(config: &Config) -> u32 {
    let wanted = config.connections_max.unwrap_or(transport::limits::CONNECTIONS_MAX);
    let descriptors = runtime::descriptors_max();
    let kept = (descriptors / limits::DESCRIPTORS_OF_FILES).max(limits::DESCRIPTORS_OF_FILES_MIN);
    let room = u32::try_from(descriptors.saturating_sub(kept)).unwrap_or(u32::MAX);
    if room < wanted && config.connections_max.is_some() {
        runtime::warn!(
            "{room} connections are served, not {wanted}: the process may have {descriptors} open files \
             (ulimit -n), and {kept} are kept for the node's own"
        );
    }
    wanted.min(room)
}

fn transport_settings(config: &Config) -> transport::Settings {
    let clients = &config.clients;
    transport::Settings {
        address: SocketAddr::new(config.rpc_address, config.native_transport_port),
        shard_aware_port: config.shard_aware_port,
        shard_aware_port_required: config.is_given("native_shard_aware_transport_port"),
        frame_bytes_max: config.frame_bytes_max as usize,
        connections_max: connections_max(config),
        connections_per_ip_max: clients.connections_per_ip_max,
        requests_per_shard_max: config
            .requests_per_shard_max
            .unwrap_or(transport::limits::REQUESTS_PER_SHARD),
        request_bytes_max: clients.request_bytes_max,
        request_bytes_per_ip_max: clients.request_bytes_per_ip_max,
        requests_per_second_max: clients.is_rate_bounded.then_some(clients.requests_per_second_max),
        throw_on_overload: clients.throw_on_overload,
        idle_timeout: Some(clients.idle_timeout).filter(|time| !time.is_zero()),
        keep_alive: clients.keep_alive,
        older_versions: clients.older_versions,
        tls: clients.tls(),
        encryption: clients.encryption(),
        ssl_port: clients.ssl_port,
        shard_aware_port_ssl: clients.shard_aware_port_ssl,
    }
}

fn engine_settings(shared: &Shared) -> query::Settings {
    let config = &shared.config;
    query::Settings {
        info: shared.info.clone(),
        authentication: config.authentication,
        authorization: config.authorization,
        slow_timeout: config.slow_query_timeout,
        read_timeout: config.read_timeout,
        range_timeout: config.range_timeout,
        write_timeout: config.write_timeout,
        counter_write_timeout: config.counter_write_timeout,
        truncate_timeout: config.truncate_timeout,
        page_bytes: u32::try_from(config.page_bytes).unwrap_or(u32::MAX),
        // The row that reaches the limit may bring some more, and must not make the page fail.
        page_tombstones: config.page_tombstones.min(config.tombstone_fail / 2),
        batch_warn_bytes: config.batch_warn_bytes as usize,
        batch_warn_partitions: config.batch_warn_partitions as usize,
        batch_fail_bytes: config.batch_fail_bytes as usize,
        default_compaction: config.default_compaction.clone(),
        drop_compact_storage: config.drop_compact_storage,
    }
}

fn node_info(config: &Config, started_at_s: i32) -> NodeInfo {
    NodeInfo {
        cluster_name: config.cluster_name.clone(),
        listen_address: config.listen_address,
        listen_port: config.storage_port,
        started_at_s,
        settings: config.effective(),
    }
}

/// This node, as it is a member of a cluster.
fn own_member(config: &Config, identity: &Identity) -> Member {
    Member {
        host_id: HostId(identity.host_id),
        internode: SocketAddr::new(config.internode_address(), config.storage_port),
        native: SocketAddr::new(config.client_address(), config.native_transport_port),
        dc: config.data_center.clone(),
        rack: config.rack.clone(),
        tokens: identity.tokens.iter().map(|token| base::Token(*token)).collect(),
        shards: runtime::shard_count(),
        ignore_msb: 0,
        state: MemberState::Normal,
        features: cluster::FEATURES,
        release: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// What the folder knows of a cluster, where the node has one or is told where to look for one.
async fn open_group0(config: &Config) -> Result<Option<Folder>, StartError> {
    let path = config.data_directory.join("group0");
    let told = |error: std::io::Error| StartError::Folder {
        reason: runtime::file::reason(&error, &path),
        path: path.clone(),
    };
    let is_told = !config.seeds.is_empty() || runtime::file::exists(&path).await.map_err(told)?;
    if !is_told && !Folder::was_member(&path).await.map_err(told)? {
        return Ok(None);
    }
    Ok(Some(Folder::open(&path).await?))
}

/// This node and its fixed peers.
fn snapshot(config: &Config, member: &Member, schema: &Schema) -> Snapshot {
    let mut members = vec![member.clone()];
    members.extend(config.peers.iter().map(|peer| Member {
        host_id: HostId(peer.host_id),
        internode: peer.address,
        native: peer.native_address,
        dc: peer.data_center.clone(),
        rack: peer.rack.clone(),
        tokens: peer.tokens.iter().map(|token| base::Token(*token)).collect(),
        shards: peer.shards,
        ..member.clone()
    }));
    Snapshot::new(member.host_id, Members::new(Version::ZERO, members), &replications(schema))
}

/// The replication rules in use.
fn replications(schema: &Schema) -> Vec<schema::Replication> {
    schema.keyspaces.values().map(|keyspace| keyspace.replication.clone()).collect()
}
