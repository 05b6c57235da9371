//! What coordination on one shard holds: the newest snapshots, the doors to other nodes, this node's replica.

use crate::batchlog::Kept;
use crate::behind::Behind;
use crate::limits::{CAS_CONTENTION_TIMEOUT, WARNING_LOG_EVERY, WRITE_TIMEOUT};
use crate::pace::Paces;
use crate::snitch::{Snitch, SnitchRules};
use crate::view::{Placed, View};
use base::histogram::Distribution;
use base::{HostId, Instant, Token};
use mutation::{Mutation, Scope};
use paxos::Records;
use replica::{Local, Turns};
use rpc::Pool;
use runtime::log::Sparse;
use runtime::metrics::{Counter, Histogram};
use schema::{Schema, TableId};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use storage::{Planned, Point};
use topology::{MemberState, News, Snapshot, Version};
use types::Consistency;

/// Coordinates requests on one shard.
pub struct Coordinator {
    view: RefCell<Rc<View>>,
    /// Views of requests that were begun before the newest one.
    old_views: RefCell<Vec<Weak<View>>>,
    paces: Rc<Paces>,
    snitch: Snitch,
    forwarders: Snitch,
    local: Local,
    pool: Rc<Pool>,
    closed: Cell<bool>,
    /// Logged batches of this shard's part of the table.
    pub(crate) kept: Kept,
    pub(crate) write_timeout: Cell<Duration>,
    pub(crate) cas_contention_timeout: Cell<Duration>,
    /// The table and level that this node alone was last found to suffice for whatever the token, under the newest view.
    sufficed: Cell<Option<(TableId, Consistency)>>,
    missed_hook: RefCell<Option<MissedHook>>,
    durable_hook: RefCell<Option<DurableHook>>,
    topology_hook: RefCell<Option<TopologyHook>>,
    news_hook: RefCell<Option<NewsHook>>,
    behind: Behind,
    trace_hook: RefCell<Option<TraceHook>>,
    /// Partitions with lightweight transactions of this shard.
    pub(crate) turns: Turns,
    /// How their states are written.
    pub(crate) records: Records,
    /// The time of the last round that this shard began, in microseconds.
    pub(crate) last_ballot: Cell<i64>,
    pub(crate) metrics: Metrics,
    /// Reads over many tombstones that are worth a line in the log.
    pub(crate) tombstones_told: Sparse,
}

/// A write that one of its replicas did not confirm: it was down, failed, or did not answer in time.
#[derive(Debug)]
pub struct Missed<'m> {
    /// The replica.
    pub host: HostId,
    /// What it may not have.
    pub mutations: &'m [Mutation],
    /// When it was planned.
    pub planned: Planned,
}

/// Names a missed write that is kept for its replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The replica.
    pub host: HostId,
    /// Which of those that this shard keeps for it, ascending.
    pub number: u64,
}

type MissedHook = Box<dyn Fn(Missed<'_>) -> Option<Ticket>>;
/// Whether what is kept will survive a crash; as soon as that is known.
type DurableHook = Rc<dyn Fn(Ticket) -> Pin<Box<dyn Future<Output = bool>>>>;
type TopologyHook = Box<dyn Fn(&Arc<Snapshot>)>;
type NewsHook = Box<dyn Fn(&[News])>;
/// Bytes, later.
pub(crate) type LocalBytes = Pin<Box<dyn Future<Output = Vec<u8>>>>;
/// What this node has kept of a traced request that it coordinated; empty: nothing.
type TraceHook = Rc<dyn Fn(u128) -> LocalBytes>;

pub(crate) struct Metrics {
    pub(crate) reads: Counter,
    pub(crate) writes: Counter,
    pub(crate) digest_mismatches: Counter,
    pub(crate) read_repairs: Counter,
    pub(crate) short_reads: Counter,
    pub(crate) read_stand_ins: Counter,
    pub(crate) speculative_retries: Counter,
    pub(crate) tombstone_warnings: Counter,
    pub(crate) unavailables: Counter,
    pub(crate) missed: Counter,
    pub(crate) forwards: Counter,
    pub(crate) forwards_failed: Counter,
    pub(crate) batches_kept: Counter,
    pub(crate) batches_replayed: Counter,
    pub(crate) counts: Counter,
    pub(crate) counts_led: Counter,
    pub(crate) cas_writes: Counter,
    pub(crate) cas_reads: Counter,
    pub(crate) cas_contention: Counter,
    pub(crate) cas_finished: Counter,
    pub(crate) cas_prunes: Counter,
    pub(crate) cas_swept: Counter,
    pub(crate) read_latency: Histogram,
    pub(crate) range_latency: Histogram,
    pub(crate) write_latency: Histogram,
}

/// How long requests of one shard took, in microseconds, from here to the answers their level needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// Reads by key.
    pub read: Distribution,
    /// Reads of token ranges.
    pub range: Distribution,
    /// Writes.
    pub write: Distribution,
}

impl Latencies {
    /// Adds those of another shard.
    pub fn merge(&mut self, other: &Latencies) {
        self.read.merge(&other.read);
        self.range.merge(&other.range);
        self.write.merge(&other.write);
    }
}

/// Whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Coordinator {
    /// Coordinates over what the snapshot says; `pool` has this shard's connections to other nodes.
    pub fn new(
        snapshot: Arc<Snapshot>,
        schema: Arc<Schema>,
        local: Local,
        pool: Rc<Pool>,
    ) -> Rc<Coordinator> {
        local.keep_tombstones(is_pending(&snapshot));
        let paces: Rc<Paces> = Rc::default();
        Rc::new(Coordinator {
            view: RefCell::new(Rc::new(View::new(schema, snapshot, paces.clone()))),
            old_views: RefCell::default(),
            paces,
            snitch: Snitch::new(SnitchRules::STANDARD),
            forwarders: Snitch::new(SnitchRules::STANDARD),
            local,
            pool,
            closed: Cell::new(false),
            kept: Kept::new(),
            write_timeout: Cell::new(WRITE_TIMEOUT),
            cas_contention_timeout: Cell::new(CAS_CONTENTION_TIMEOUT),
            sufficed: Cell::new(None),
            missed_hook: RefCell::default(),
            durable_hook: RefCell::default(),
            topology_hook: RefCell::default(),
            news_hook: RefCell::default(),
            behind: Behind::default(),
            trace_hook: RefCell::default(),
            turns: Turns::default(),
            records: Records::new(),
            last_ballot: Cell::new(i64::MIN),
            metrics: Metrics::register(),
            tombstones_told: Sparse::new(WARNING_LOG_EVERY),
        })
    }

    /// The newest schema and snapshot. A request takes them once.
    pub fn view(&self) -> Rc<View> {
        self.view.borrow().clone()
    }

    /// The newest snapshot of the cluster.
    pub fn topology(&self) -> Arc<Snapshot> {
        self.view.borrow().snapshot.clone()
    }

    /// The newest schema on this shard.
    pub fn schema(&self) -> Arc<Schema> {
        self.view.borrow().schema.clone()
    }

    /// Takes a new schema.
    pub fn set_schema(&self, schema: Arc<Schema>) {
        self.paces.retain(|table| schema.table_by_id(table).is_some());
        self.set_view(View::new(schema, self.topology(), self.paces.clone()));
    }

    /// Takes a new snapshot.
    pub fn set_topology(&self, snapshot: Arc<Snapshot>) {
        let news = News::between(&self.topology(), &snapshot);
        self.snitch.take_topology(&self.topology(), &snapshot);
        self.forwarders.take_topology(&self.topology(), &snapshot);
        self.local.keep_tombstones(is_pending(&snapshot));
        self.set_view(View::new(self.schema(), snapshot.clone(), self.paces.clone()));
        self.behind.has_moved(self.version());
        if let Some(hook) = &*self.topology_hook.borrow() {
            hook(&snapshot);
        }
        if let Some(hook) = &*self.news_hook.borrow()
            && !news.is_empty()
        {
            hook(&news);
        }
    }

    /// How replicas that answer slowly are avoided from now on.
    pub fn set_snitch(&self, rules: SnitchRules) {
        self.snitch.set_rules(rules);
        self.forwarders.set_rules(rules);
    }

    /// How fast nodes of other datacenters write what they are to hand on.
    pub(crate) fn forwarders(&self) -> &Snitch {
        &self.forwarders
    }

    pub(crate) fn snitch(&self) -> &Snitch {
        &self.snitch
    }

    /// Names the function that takes from a member what this node lacks of the cluster's log.
    pub fn on_behind(
        &self,
        hook: impl Fn(HostId, u64, Duration) -> Pin<Box<dyn Future<Output = ()>>> + 'static,
    ) {
        self.behind.on_behind(hook);
    }

    /// Names the function that says what this node has kept of a traced request that it coordinated, for a member that was asked for it; nothing, if
    /// it has none.
    pub fn on_trace(&self, hook: impl Fn(u128) -> Pin<Box<dyn Future<Output = Vec<u8>>>> + 'static) {
        *self.trace_hook.borrow_mut() = Some(Rc::new(hook));
    }

    pub(crate) fn trace_hook(&self) -> Option<TraceHook> {
        self.trace_hook.borrow().clone()
    }

    /// The index of the cluster's log that this shard acts on.
    pub(crate) fn version(&self) -> u64 {
        self.view_point().1
    }

    /// The point in the cluster's history that this shard acts on.
    pub(crate) fn view_point(&self) -> Point {
        self.view.borrow().point()
    }

    /// ⚔ Who is behind pulls: a replica that is sent what was planned on a newer version takes the difference from the sender, leader or
    /// not, before it acts; a datacenter that is cut off from the leader must not wedge itself. Returns when it has, or at the deadline.
    pub(crate) async fn catch_up(&self, from: HostId, version: u64, until: Instant) {
        // Nearly every request.
        if version <= self.version() {
            return;
        }
        // What this node's own replica knows is on its way here.
        let from = (from != self.topology().local_id()).then_some(from);
        self.behind.catch_up(|| self.version(), from, version, until).await;
    }

    /// Calls a function with what clients are to be told of other members.
    pub fn on_news(&self, hook: impl Fn(&[News]) + 'static) {
        *self.news_hook.borrow_mut() = Some(Box::new(hook));
    }

    fn set_view(&self, view: View) {
        self.sufficed.set(None);
        let old = self.view.replace(Rc::new(view));
        let mut all = self.old_views.borrow_mut();
        all.retain(|view| view.strong_count() > 0);
        all.push(Rc::downgrade(&old));
    }

    /// Whether a request of this shard runs that was planned before a version of the cluster.
    pub fn has_requests_before(&self, version: Version) -> bool {
        let newest = self.topology().members().version() < version;
        newest
            || self
                .old_views
                .borrow()
                .iter()
                .filter_map(Weak::upgrade)
                .any(|view| view.snapshot.members().version() < version)
    }

    /// Reads of this shard whose replicas did not agree, and that were repaired before they were answered.
    pub fn digest_mismatches(&self) -> u64 {
        self.metrics.digest_mismatches.get()
    }

    /// How long a write may take, by which it is known when a logged batch was given up.
    pub fn set_write_timeout(&self, timeout: Duration) {
        self.write_timeout.set(timeout);
    }

    /// How long a lightweight transaction may give way to others of its partition before it fails.
    pub fn set_cas_contention_timeout(&self, timeout: Duration) {
        self.cas_contention_timeout.set(timeout);
    }

    /// Calls a function with every write that a replica did not confirm; it says whether it keeps it.
    pub fn on_missed(&self, hook: impl Fn(Missed<'_>) -> Option<Ticket> + 'static) {
        *self.missed_hook.borrow_mut() = Some(Box::new(hook));
    }

    /// Names the function that waits until what is kept of a missed write is durable, or cannot be.
    pub fn on_durable(&self, hook: impl Fn(Ticket) -> Pin<Box<dyn Future<Output = bool>>> + 'static) {
        *self.durable_hook.borrow_mut() = Some(Rc::new(hook));
    }

    /// Calls a function with every new snapshot, in the step in which this shard takes it.
    pub fn on_topology(&self, hook: impl Fn(&Arc<Snapshot>) + 'static) {
        *self.topology_hook.borrow_mut() = Some(Box::new(hook));
    }

    /// A write that is planned now, on this view.
    pub(crate) fn plan_now(&self, view: &View) -> Planned {
        Planned { at: self.local().next_time(i64::MIN), on: view.point() }
    }

    /// Says whether what the replica missed is kept for it.
    pub(crate) fn tell_missed(
        &self,
        host: HostId,
        mutations: &[Mutation],
        planned: Planned,
    ) -> Option<Ticket> {
        self.metrics.missed.add(mutations.len() as u64);
        let hook = self.missed_hook.borrow();
        hook.as_ref().and_then(|hook| hook(Missed { host, mutations, planned }))
    }

    /// Whether one of these missed writes is kept so that it survives a crash.
    pub(crate) async fn is_durable(&self, tickets: &[Ticket]) -> bool {
        let hook = self.durable_hook.borrow().clone();
        let Some(hook) = hook else { return false };
        for ticket in tickets {
            if hook(*ticket).await {
                return true;
            }
        }
        false
    }

    /// Whether this node alone meets a level for reading a token of a table; what is asked again is not looked up again.
    pub(crate) fn suffices_to_read(&self, table: TableId, token: Token, level: Consistency) -> bool {
        self.suffices(table, token, level, |view, placed, token| {
            let holders = placed.placements.at(token);
            view.snapshot.suffices_to_read(&placed.keyspace.replication, &holders.read, level)
        })
    }

    /// Whether a write of a token goes to this node alone.
    pub(crate) fn suffices_to_write(&self, table: TableId, token: Token, level: Consistency) -> bool {
        self.suffices(table, token, level, |view, placed, token| {
            let holders = placed.placements.at(token);
            view.snapshot.suffices_to_write(&placed.keyspace.replication, holders, level)
        })
    }

    fn suffices(
        &self,
        table: TableId,
        token: Token,
        level: Consistency,
        asked: impl Fn(&View, &Placed, Token) -> bool,
    ) -> bool {
        if self.sufficed.get() == Some((table, level)) {
            return true;
        }
        let view = self.view.borrow();
        let Some(placed) = view.placed(table) else { return false };
        let met = asked(&view, &placed, token);
        // Where this node holds every token alone, the answer is that for each token and for both directions.
        let alone = placed
            .placements
            .of_all()
            .is_some_and(|all| view.snapshot.suffices_to_write(&placed.keyspace.replication, all, level));
        if met && alone {
            self.sufficed.set(Some((table, level)));
        }
        met
    }

    /// How long the requests of this shard took.
    pub fn latencies(&self) -> Latencies {
        Latencies {
            read: self.metrics.read_latency.snapshot(),
            range: self.metrics.range_latency.snapshot(),
            write: self.metrics.write_latency.snapshot(),
        }
    }

    /// Replicas that were asked besides one that was slow or failed, and requests refused for too few replicas.
    pub fn stand_ins_and_unavailables(&self) -> (u64, u64) {
        (self.metrics.read_stand_ins.get(), self.metrics.unavailables.get())
    }

    /// Reads of this shard that asked one replica more than they had to, because another was slow or the table always does, by table.
    pub fn speculative_retries(&self) -> Vec<(TableId, u64)> {
        self.paces.retries()
    }

    /// This node's replica.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Whether [`Coordinator::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Begins nothing more by itself.
    pub fn close(&self) {
        self.closed.set(true);
    }

    /// This shard's connections to other nodes.
    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }
}

/// ⚔ Whether this node still gets what others hold: a tombstone that was sent here directly must outlive the rows it deletes, which may be
/// on their way.
fn is_pending(snapshot: &Snapshot) -> bool {
    matches!(snapshot.local().state, MemberState::Joining | MemberState::Replacing(_))
}

impl Metrics {
    pub(crate) fn latency_of(&self, scope: &Scope) -> &Histogram {
        match scope {
            Scope::Keys(_) => &self.read_latency,
            Scope::Range(_) => &self.range_latency,
        }
    }

    fn register() -> Metrics {
        let counter = |name, help| runtime::metrics::counter(name, help, &[]);
        let latency = |name, help| runtime::metrics::histogram(name, help, &[]);
        Metrics {
            reads: counter("messina_coordinator_reads_total", "Reads coordinated."),
            writes: counter("messina_coordinator_writes_total", "Writes coordinated."),
            digest_mismatches: counter(
                "messina_coordinator_digest_mismatches_total",
                "Reads whose replicas' digests differed.",
            ),
            read_repairs: counter("messina_coordinator_read_repairs_total", "Repair writes sent by reads."),
            short_reads: counter(
                "messina_coordinator_short_reads_total",
                "Further rounds of reads whose merged page came out short.",
            ),
            read_stand_ins: counter(
                "messina_coordinator_read_retries_total",
                "Replicas asked to stand in for one that failed or was slow to answer a read.",
            ),
            speculative_retries: counter(
                "messina_coordinator_speculative_retries_total",
                "Reads that asked one replica more because another was slow, or because their table always does.",
            ),
            tombstone_warnings: counter(
                "messina_coordinator_tombstone_warnings_total",
                "Pages that met more tombstones than tombstone_warn_threshold.",
            ),
            unavailables: counter(
                "messina_coordinator_unavailables_total",
                "Requests refused: too few replicas.",
            ),
            missed: counter(
                "messina_coordinator_missed_writes_total",
                "Writes that a replica did not confirm: it was down, failed or late.",
            ),
            forwards: counter(
                "messina_coordinator_forwarded_writes_total",
                "Messages to another datacenter with a write for several of its replicas.",
            ),
            forwards_failed: counter(
                "messina_coordinator_forwards_failed_total",
                "Replicas that were sent a write after the one that was to hand it to them had not.",
            ),
            batches_kept: counter(
                "messina_coordinator_batchlog_entries_total",
                "Logged batches kept by this node until they are written.",
            ),
            batches_replayed: counter(
                "messina_coordinator_batchlog_replays_total",
                "Logged batches that this node has written again, as they were not removed in time.",
            ),
            counts: counter(
                "messina_coordinator_counter_writes_total",
                "Increments of partitions of counters coordinated.",
            ),
            counts_led: counter(
                "messina_coordinator_counter_leader_writes_total",
                "Increments of partitions of counters that this node has counted, for itself and others.",
            ),
            cas_writes: counter("messina_coordinator_cas_writes_total", "Conditional writes coordinated."),
            cas_reads: counter("messina_coordinator_cas_reads_total", "Reads at a serial level coordinated."),
            cas_contention: counter(
                "messina_coordinator_cas_contention_total",
                "Rounds of lightweight transactions that gave way to others.",
            ),
            cas_finished: counter(
                "messina_coordinator_cas_finished_total",
                "Proposals of other lightweight transactions that had to be finished first.",
            ),
            cas_prunes: counter(
                "messina_coordinator_cas_prunes_total",
                "Lightweight transactions that every holder has confirmed.",
            ),
            cas_swept: counter(
                "messina_coordinator_cas_swept_total",
                "Partitions whose ballots this node had forgotten everywhere, as they were at rest.",
            ),
            read_latency: latency("messina_coordinator_read_latency_us", "Reads by key, to their answer."),
            range_latency: latency(
                "messina_coordinator_range_latency_us",
                "Reads of ranges, to their answer.",
            ),
            write_latency: latency("messina_coordinator_write_latency_us", "Writes, to their answer."),
        }
    }
}
