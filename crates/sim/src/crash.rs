//! One node with one to eight shards and tiny memtables loses power again and again, also while it starts.
//!
//! ```text
//!   cycle: clients write and read (disk full | syncs fail for a while) ─ power cut | kill | orderly stop
//!          ─ perhaps a flipped bit: boot, all is right or the file is named; flipped back
//!          ─ boot (other shard count; perhaps cut again) ─ verify
//! ```
//! Checked after every boot: each partition of both tables is exactly what some prefix of its operations gives, with
//! every acknowledged one in it (in `periodic` mode after a power cut those older than the period); of a logged batch over several partitions
//! all show their part or none does; a full scan by pages shows the same
//! rows and no others; acknowledged schema changes are there; what was truncated or dropped, or has expired, stays away.
//! Live reads are checked the same way while it runs. A full disk refuses writes, saying so, and leaves reads alone.

/// What they do.
mod clients;
/// What happens to the disk.
mod faults;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Prng};
use node::config::CommitlogSync;
use runtime::Bug;
use runtime::sim::{NodeId, SimConfig, Task, World};

use crate::fleeting::{E_COLUMNS, Exists, ExpiringRows, Wiped};
use crate::host::Host;
use crate::limits::START;
use crate::model::{Partition, Seen, T_COLUMNS, U_COLUMNS, shown};
use crate::session::{Ask, Row, Trouble, insist};
use clients::{Book, Shared, ask, create_wiped, designer, expirer, reader, wiper, writer};
use faults::{DiskTrouble, rot, trouble_the_disk};

/// What a log in periodic mode may add to its period besides the time of the disk: it hands over what was appended after
/// 10 ms and counts the period from there, and its shard has other things to do.
const PERIODIC_SLACK: Duration = Duration::from_millis(100);
/// A life in periodic mode is prolonged until something must have been synced, unless outliers of the disk make that too long.
const PROLONGED_MAX: Duration = Duration::from_millis(500);

struct Run {
    host: Host,
    client: NodeId,
    book: Shared,
    synced: bool,
    /// Logged batches over several partitions are all or none, because tombstones outlive them.
    whole_batches: bool,
    /// In periodic mode an acknowledged write that is older than this survives a power cut.
    certain_after: Duration,
    disk_bytes: u64,
    rng: Prng,
}

impl Run {
    /// What a killed process left in periodic mode is not durable before a start has ended.
    fn end_after_power_cut(&self, end: End) -> End {
        if end == End::Kill && !self.synced { End::Power } else { end }
    }
}

/// How long a log in periodic mode may take until an entry is on the disk: it may have to wait for a round under way, and
/// either round may change the segment, so that it syncs twice, and makes and writes the new one.
fn certain_after(period: Duration, disk: &SimConfig) -> Duration {
    let round = 2 * disk.disk_sync.1 + 4 * disk.disk_write.1 + 4 * disk.disk_read.1;
    // Outliers take up to 61 times longer.
    let times = if disk.disk_spikes > 0.0 { 61 } else { 1 };
    period + PERIODIC_SLACK + 2 * times * round
}

fn prepare(world: &mut World, seed: u64, planted: Option<Bug>) -> Run {
    let mut rng = Prng::new(seed ^ 0x6372_6173_6821);
    let mut host = Host::new(world, IpAddr::from([10, 0, 0, 1]));
    if let Some(bug) = planted {
        world.plant(host.node, bug);
    }
    let mode = rng.below(4);
    let period = Duration::from_millis(5 + rng.below(200));
    host.config.commitlog_sync = match mode {
        0 | 1 => CommitlogSync::Batch,
        2 => CommitlogSync::Group(Duration::from_millis(rng.below(10))),
        _ => CommitlogSync::Periodic(period),
    };
    let certain_after = certain_after(period, &SimConfig::drawn(seed));
    host.config.commitlog_segment_bytes = 256 << 10;
    host.config.memtable_bytes = Some(1 << (12 + rng.below(6)));
    if rng.chance(0.5) {
        host.config.shard_aware_port = None;
    }
    let disk_bytes = world.free_space(host.node);
    let client = world.add_client(IpAddr::from([10, 0, 1, 1]));
    let book = Book {
        partitions: (0..4 + rng.below(8) as i32).map(|pk| (pk, Partition::default())).collect(),
        tables: BTreeMap::new(),
        columns: BTreeMap::new(),
        expiring: ExpiringRows::default(),
        wiped: Wiped::default(),
        full: false,
        logs_batches: mode != 3,
        next_stamp: 0,
        next_time: 1_600_000_000_000_000,
        rows: 2 + rng.below(8) as i32,
        own_timestamps: rng.chance(0.5),
        violation: None,
        reads: 0,
        writes: 0,
    };
    Run {
        host,
        client,
        book: Rc::new(RefCell::new(book)),
        synced: mode != 3,
        whole_batches: false,
        certain_after,
        disk_bytes,
        rng,
    }
}

/// Runs a task of the scenario to its end; None when it does not end in time.
fn run_task<T: 'static>(
    world: &mut World,
    client: NodeId,
    limit: Duration,
    future: impl Future<Output = T> + 'static,
) -> Option<T> {
    let mut task = world.spawn(client, future);
    world.run_until(|_| task.done(), limit);
    task.take()
}

async fn create_schema(to: std::net::SocketAddr, gc_grace: u32) -> Result<(), Trouble> {
    let mut session = insist(to, START).await?;
    let options = format!("WITH gc_grace_seconds = {gc_grace}");
    let statements = [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            .to_string(),
        format!(
            "CREATE TABLE ks.t (pk int, ck int, s int static, v text, w int, m map<int, text>, z set<int>, l list<int>, \
             PRIMARY KEY (pk, ck)) {options}"
        ),
        format!("CREATE TABLE ks.u (pk int, ck int, v text, PRIMARY KEY (pk, ck)) {options}"),
        format!("CREATE TABLE ks.e (pk int, ck int, v text, w int, PRIMARY KEY (pk, ck)) {options}"),
        create_wiped(),
        "CREATE TABLE ks.p (k int PRIMARY KEY)".to_string(),
    ];
    for statement in statements {
        session.query(&statement, ask()).await?;
    }
    Ok(())
}

fn start_clients(world: &mut World, run: &mut Run) -> Vec<Task<()>> {
    let to = run.host.native();
    let all: Vec<i32> = run.book.borrow().partitions.keys().copied().collect();
    let writers = 1 + run.rng.below(3) as usize;
    let mut tasks = Vec::new();
    for first in 0..writers {
        let mine: Vec<i32> = all.iter().copied().skip(first).step_by(writers).collect();
        tasks.push(world.spawn(run.client, writer(to, run.book.clone(), mine, run.rng.fork())));
    }
    tasks.push(world.spawn(run.client, reader(to, run.book.clone(), run.rng.fork())));
    if run.rng.chance(0.4) {
        tasks.push(world.spawn(run.client, expirer(to, run.book.clone(), run.rng.fork())));
    }
    if run.rng.chance(0.4) {
        tasks.push(world.spawn(run.client, wiper(to, run.book.clone(), run.rng.fork())));
    }
    if run.rng.chance(0.4) {
        tasks.push(world.spawn(run.client, designer(to, run.book.clone(), run.rng.fork())));
    }
    tasks
}

// ---- verification ------------------------------------------------------------------------------------------------

/// Everything of the database, as read after a boot with nobody writing.
struct Dump {
    t: BTreeMap<i32, Vec<Row>>,
    u: BTreeMap<i32, Vec<Row>>,
    scan_t: BTreeMap<i32, Vec<Row>>,
    scan_u: BTreeMap<i32, Vec<Row>>,
    e: (Vec<Row>, Instant, Instant),
    r: Option<Vec<Row>>,
    tables: Vec<String>,
    columns: Vec<String>,
}

impl Dump {
    fn of(&self, pk: i32) -> Seen<'_> {
        Seen { t: self.t.get(&pk).map(Vec::as_slice), u: self.u.get(&pk).map(Vec::as_slice) }
    }
}

fn by_partition(rows: Vec<Row>) -> BTreeMap<i32, Vec<Row>> {
    let mut out: BTreeMap<i32, Vec<Row>> = BTreeMap::new();
    for mut row in rows {
        let pk = row.remove(0).and_then(|bytes| bytes.try_into().ok()).map_or(i32::MIN, i32::from_be_bytes);
        out.entry(pk).or_default().push(row);
    }
    out
}

fn names(rows: Vec<Row>) -> Vec<String> {
    let name =
        |row: Row| row.into_iter().next().flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    rows.into_iter().filter_map(name).collect()
}

async fn dump(to: std::net::SocketAddr, partitions: Vec<i32>, page: u32) -> Result<Dump, Trouble> {
    let mut session = insist(to, START).await?;
    let paged = Ask { page_size: Some(page), ..ask() };
    let (mut t, mut u) = (BTreeMap::new(), BTreeMap::new());
    for pk in partitions {
        t.insert(pk, session.all(&format!("SELECT {T_COLUMNS} FROM ks.t WHERE pk = {pk}"), paged).await?);
        u.insert(pk, session.all(&format!("SELECT {U_COLUMNS} FROM ks.u WHERE pk = {pk}"), ask()).await?);
    }
    let scan_t = session.all(&format!("SELECT pk, {T_COLUMNS} FROM ks.t"), paged).await?;
    let scan_u = session.all(&format!("SELECT pk, {U_COLUMNS} FROM ks.u"), paged).await?;
    let from = runtime::now();
    let e = session.all(&format!("SELECT {E_COLUMNS} FROM ks.e"), paged).await?;
    let e = (e, from, runtime::now());
    let r = match session.all("SELECT k FROM ks.r", paged).await {
        Ok(rows) => Some(rows),
        Err(Trouble::Refused(failure)) if failure.kind.code() == 0x2200 => None,
        Err(trouble) => return Err(trouble),
    };
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'";
    let columns =
        "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'ks' AND table_name = 't'";
    Ok(Dump {
        t,
        u,
        scan_t: by_partition(scan_t),
        scan_u: by_partition(scan_u),
        e,
        r,
        tables: names(session.all(tables, ask()).await?),
        columns: names(session.all(columns, ask()).await?),
    })
}

/// How the last life ended, for what must have survived it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Power,
    Kill,
    Orderly,
}

/// Reads everything. Errors: it cannot be read.
fn read_all(world: &mut World, run: &mut Run) -> Result<Dump, String> {
    let partitions: Vec<i32> = run.book.borrow().partitions.keys().copied().collect();
    let page = 1 + run.rng.below(7) as u32;
    match run_task(world, run.client, 2 * START, dump(run.host.native(), partitions, page)) {
        Some(Ok(dump)) => Ok(dump),
        Some(Err(trouble)) => Err(format!("the database cannot be read: {trouble}")),
        None => Err("the database does not answer".to_string()),
    }
}

fn verify(world: &mut World, run: &mut Run, end: End, at: Instant) -> Result<(), String> {
    let dump = read_all(world, run).map_err(|text| format!("after {end:?}: {text}"))?;
    check(run, &dump, end, at)
}

/// Compares what was read with what is known, and takes it as certain from then on.
fn check(run: &mut Run, dump: &Dump, end: End, at: Instant) -> Result<(), String> {
    let mut book = run.book.borrow_mut();
    let horizon = match (run.synced, end) {
        (true, _) | (_, End::Kill | End::Orderly) => Instant::MAX,
        (false, End::Power) => at - run.certain_after,
    };
    if run.synced && run.whole_batches {
        check_batches(&book.partitions, dump, horizon)?;
    }
    for (pk, partition) in &mut book.partitions {
        let seen = dump.of(*pk);
        let from = partition.acked_before(horizon);
        let Some(state) = partition.explain(seen, from, partition.issued()) else {
            return Err(format!(
                "partition {pk} after {end:?} shows\n  t: {}\n  u: {}\nwhich no prefix of at least {from} operations explains:\n{}",
                shown(&dump.t[pk]),
                shown(&dump.u[pk]),
                partition.story()
            ));
        };
        // A killed process leaves writes in the page cache that a later power cut may still take.
        if end != End::Kill || partition.is_uncertain() {
            partition.settle(state);
        }
    }
    same_scan("t", &dump.t, &dump.scan_t)?;
    same_scan("u", &dump.u, &dump.scan_u)?;
    let (rows, from, to) = &dump.e;
    book.expiring.check(rows, *from, *to, horizon)?;
    book.expiring.settle(rows, *to);
    let lossy = !run.synced && end == End::Power;
    book.wiped.check(dump.r.as_deref(), lossy)?;
    book.wiped.settle(dump.r.as_deref());
    let settle = end == End::Power;
    check_names("table", &mut book.tables, &dump.tables, settle)?;
    check_names("column", &mut book.columns, &dump.columns, settle)
}

/// A batch that is certain to be in one partition and certain not to be in another is torn.
fn check_batches(partitions: &BTreeMap<i32, Partition>, dump: &Dump, horizon: Instant) -> Result<(), String> {
    let mut there: BTreeMap<i32, i32> = BTreeMap::new();
    let mut missing: BTreeMap<i32, i32> = BTreeMap::new();
    for (pk, partition) in partitions {
        for (batch, with, without) in partition.parts_seen(dump.of(*pk), partition.acked_before(horizon)) {
            match (with, without) {
                (true, false) => there.insert(batch, *pk),
                (false, true) => missing.insert(batch, *pk),
                // Both: later operations hide it. None: that is told of the partition itself.
                _ => None,
            };
        }
    }
    match there.iter().find_map(|(batch, pk)| Some((batch, pk, missing.get(batch)?))) {
        None => Ok(()),
        Some((batch, there, missing)) => Err(format!(
            "logged batch {batch} is torn: its part is in partition {there} and not in partition {missing}:\n{}{}",
            partitions[there].story(),
            partitions[missing].story()
        )),
    }
}

fn same_scan(
    table: &str,
    read: &BTreeMap<i32, Vec<Row>>,
    scan: &BTreeMap<i32, Vec<Row>>,
) -> Result<(), String> {
    let read: BTreeMap<_, _> = read.iter().filter(|(_, rows)| !rows.is_empty()).collect();
    let scanned: BTreeMap<_, _> = scan.iter().collect();
    if read == scanned {
        return Ok(());
    }
    let differs = read.keys().chain(scanned.keys()).find(|pk| read.get(**pk) != scanned.get(**pk));
    let pk = **differs.expect("two different maps differ somewhere");
    let show = |rows: Option<&&Vec<Row>>| rows.map_or("nothing".to_string(), |rows| shown(rows));
    Err(format!(
        "a scan of {table} shows partition {pk} as {}, a read as {}",
        show(scanned.get(&pk)),
        show(read.get(&pk))
    ))
}

fn check_names(
    what: &str,
    known: &mut BTreeMap<String, Exists>,
    found: &[String],
    settle: bool,
) -> Result<(), String> {
    for (name, exists) in known.iter_mut() {
        let there = found.contains(name);
        match (*exists, there) {
            (Exists::Yes, false) => return Err(format!("acknowledged {what} {name} is gone: {found:?}")),
            (Exists::No, true) => return Err(format!("dropped {what} {name} is back: {found:?}")),
            (Exists::Perhaps, _) if settle => *exists = if there { Exists::Yes } else { Exists::No },
            _ => {}
        }
    }
    Ok(())
}

// ---- the run -----------------------------------------------------------------------------------------------------

fn violation(run: &Run) -> Result<(), String> {
    match &run.book.borrow().violation {
        Some(text) => Err(text.clone()),
        None => Ok(()),
    }
}

/// How long the clients are left alone.
fn spell(run: &mut Run) -> Duration {
    let drawn = match run.rng.below(4) {
        0 => run.rng.below(20_000),
        1 => run.rng.below(400_000),
        _ => run.rng.below(100_000),
    };
    let prolonged = !run.synced && run.certain_after < PROLONGED_MAX && run.rng.chance(0.6);
    Duration::from_micros(drawn) + if prolonged { run.certain_after } else { Duration::ZERO }
}

/// One life of the node under load, its end, and when it was sure to sync for the last time.
fn live(world: &mut World, run: &mut Run) -> Result<(End, Instant), String> {
    let tasks = start_clients(world, run);
    let spell = spell(run);
    world.run_for(spell);
    let untroubled = world.now();
    let trouble = trouble_the_disk(world, run)?;
    violation(run)?;
    let end = match run.rng.below(10) {
        // A log that failed to sync cannot be closed in good order.
        0 if trouble != DiskTrouble::SyncsFail => End::Orderly,
        1 => End::Kill,
        // A killed process takes nothing with it in periodic mode either, where all depends on the tail of the log.
        2..=4 if !run.synced => End::Kill,
        _ => End::Power,
    };
    // A disk that was full for one shard may still be so for another, which tries again after a while.
    let at = if trouble == DiskTrouble::None { world.now() } else { untroubled };
    match end {
        End::Power => world.power_cut(run.host.node),
        End::Kill => world.kill(run.host.node),
        End::Orderly => run.host.stop(world)?,
    }
    // Everybody notices: connections break or time out.
    if end == End::Power {
        world.reset_connections(run.client, run.host.node);
    }
    world.run_until(|_| tasks.iter().all(Task::done), Duration::from_secs(40));
    run.book.borrow_mut().partitions.values_mut().for_each(Partition::orphan);
    run.book.borrow_mut().expiring.orphan(world.now());
    violation(run)?;
    Ok((end, at))
}

fn shards(run: &mut Run) -> u16 {
    let most = if run.rng.chance(0.7) { 3 } else { 8 };
    1 + run.rng.below(most) as u16
}

/// Boots the node, perhaps cutting its power before it is ready. Returns how what was written before was ended.
fn boot(world: &mut World, run: &mut Run, mut end: End) -> Result<End, String> {
    let count = shards(run);
    run.host.boot(world, count);
    while run.rng.chance(0.25) {
        let spell = run.rng.below(30_000);
        world.run_for(Duration::from_micros(spell));
        if !world.alive(run.host.node) {
            break;
        }
        world.power_cut(run.host.node);
        end = run.end_after_power_cut(end);
        let count = shards(run);
        run.host.boot(world, count);
    }
    run.host.await_ready(world)?;
    Ok(end)
}

/// One run.
pub(crate) fn play(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<(), String> {
    let mut run = prepare(world, seed, planted);
    let grace = if run.rng.chance(0.5) { 0 } else { 864_000 };
    run.whole_batches = grace > 0;
    boot(world, &mut run, End::Orderly)?;
    match run_task(world, run.client, 2 * START, create_schema(run.host.native(), grace)) {
        Some(Ok(())) => {}
        Some(Err(trouble)) => return Err(format!("the schema is not made: {trouble}")),
        None => return Err("the schema is not made in time".to_string()),
    }
    for _ in 0..2 + run.rng.below(3) {
        let (mut end, at) = live(world, &mut run)?;
        if run.rng.chance(0.15) {
            end = rot(world, &mut run, end, at)?;
        }
        let end = boot(world, &mut run, end)?;
        if run.rng.chance(0.3) {
            // Some of what expires does.
            world.run_for(Duration::from_millis(run.rng.below(4_000)));
        }
        verify(world, &mut run, end, at)?;
    }
    run.host.stop(world)?;
    boot(world, &mut run, End::Orderly)?;
    let at = world.now();
    verify(world, &mut run, End::Orderly, at)
}

#[cfg(test)]
mod tests;
