//! One node with one to eight shards and tiny memtables loses power again and again, also while it starts.
//!
//! ```text
//!   cycle: clients write and read (disk full | syncs fail for a while) ─ power cut | kill | orderly stop
//!          ─ perhaps a flipped bit: boot, all is right or the file is named; flipped back
//!          ─ boot (other shard count; perhaps cut again) ─ verify
//! ```
//! Checked after every boot: each partition of both tables is exactly what some prefix of its operations gives, with
//! every acknowledged one in it (in `periodic` mode those older than the period); a full scan by pages shows the same
//! rows and no others; acknowledged schema changes are there; what was truncated or dropped, or has expired, stays away.
//! Live reads are checked the same way while it runs. A full disk refuses writes, saying so, and leaves reads alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Prng};
use node::config::CommitlogSync;
use runtime::Bug;
use runtime::sim::{NodeId, Task, World};
use types::Consistency;

use crate::fleeting::{E_COLUMNS, Exists, ExpiringRows, R_ID, Wiped};
use crate::host::Host;
use crate::limits::START;
use crate::model::{Change, Known, Partition, Seen, T_COLUMNS, U_COLUMNS, shown};
use crate::session::{Ask, Row, Session, Trouble, insist};

/// Longest that writes may be refused once a full disk has space again.
const RECOVERY: Duration = Duration::from_secs(30);
/// An acknowledged write older than the sync period by this much must survive even in periodic mode.
const PERIODIC_SLACK: Duration = Duration::from_secs(20);

/// What the clients know, shared by them and the checker.
struct Book {
    partitions: BTreeMap<i32, Partition>,
    tables: BTreeMap<String, Exists>,
    columns: BTreeMap<String, Exists>,
    expiring: ExpiringRows,
    wiped: Wiped,
    /// The disk is full: writes may be refused for that reason alone.
    full: bool,
    next_stamp: i32,
    next_time: i64,
    rows: i32,
    own_timestamps: bool,
    violation: Option<String>,
    reads: u64,
    writes: u64,
}

type Shared = Rc<RefCell<Book>>;

impl Book {
    fn stamp(&mut self) -> i32 {
        self.next_stamp += 1;
        self.next_stamp
    }

    /// Blames a refusal of a statement that is right, or one by a full disk that does not say so.
    fn judge(&mut self, result: &Result<(), Trouble>, statements: &[String]) {
        let Err(Trouble::Refused(failure)) = result else { return };
        let silent = self.full && failure.kind.code() == 0 && !failure.message.contains("space");
        if silent || failure.code_group() == Group::Ours {
            self.blame(format!("refused: {failure}: {statements:?}"));
        }
    }

    /// Blames a read that failed: no fault but a damaged file is a reason, and then nobody reads while it runs.
    fn judge_read(&mut self, trouble: &Trouble) {
        if let Trouble::Refused(failure) = trouble
            && !matches!(failure.kind.code(), 0x1001 | 0x1200)
        {
            self.blame(format!("a live read was refused: {failure}"));
        }
    }

    fn blame(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }
}

struct Run {
    host: Host,
    client: NodeId,
    book: Shared,
    synced: bool,
    period: Duration,
    disk_bytes: u64,
    rng: Prng,
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
        next_stamp: 0,
        next_time: 1_600_000_000_000_000,
        rows: 2 + rng.below(8) as i32,
        own_timestamps: rng.chance(0.5),
        violation: None,
        reads: 0,
        writes: 0,
    };
    Run { host, client, book: Rc::new(RefCell::new(book)), synced: mode != 3, period, disk_bytes, rng }
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

fn ask() -> Ask {
    Ask::at(Consistency::One)
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

fn create_wiped() -> String {
    format!("CREATE TABLE ks.r (k int PRIMARY KEY, v text) WITH ID = {R_ID}")
}

// ---- clients -----------------------------------------------------------------------------------------------------

/// Writes to the partitions that are its own, one operation at a time, until the connection is gone.
async fn writer(to: std::net::SocketAddr, book: Shared, mine: Vec<i32>, mut rng: Prng) {
    let Ok(mut session) = Session::connect(to).await else { return };
    loop {
        let usable: Vec<i32> = {
            let book = book.borrow();
            mine.iter().copied().filter(|pk| book.partitions[pk].usable()).collect()
        };
        if usable.is_empty() {
            return;
        }
        let pk = usable[rng.below(usable.len() as u64) as usize];
        if let Err(Trouble::Lost(_)) = write(&mut session, &book, pk, &mut rng).await {
            return;
        }
        if rng.chance(0.3) {
            runtime::sleep(Duration::from_micros(rng.below(5_000))).await;
        }
    }
}

async fn write(session: &mut Session, book: &Shared, pk: i32, rng: &mut Prng) -> Result<(), Trouble> {
    let (op, changes, ask) = {
        let mut book = book.borrow_mut();
        let (stamp, rows) = (book.stamp(), book.rows);
        let changes = match rng.chance(0.3) {
            true => Change::drawn_batch(rng, stamp, rows),
            false if rng.chance(0.1) => book.partitions[&pk].set_element(rng, stamp).into_iter().collect(),
            false => vec![Change::drawn(rng, stamp, rows)],
        };
        if changes.is_empty() {
            return Ok(());
        }
        book.next_time += 10;
        let mut ask = ask();
        ask.timestamp = book.own_timestamps.then_some(book.next_time);
        book.writes += 1;
        let op = book.partitions.get_mut(&pk).expect("a known partition").issue(changes.clone());
        (op, changes, ask)
    };
    let statements: Vec<String> = changes.iter().map(|change| change.cql(pk)).collect();
    let result = match &statements[..] {
        [statement] => session.query(statement, ask).await.map(|_| ()),
        several => session.batch(several, ask, rng.chance(0.5)).await,
    };
    let mut book = book.borrow_mut();
    book.judge(&result, &statements);
    let known = if result.is_ok() { Known::Acked(runtime::now()) } else { Known::Unknown };
    book.partitions.get_mut(&pk).expect("a known partition").end(op, known);
    result
}

/// Reads random partitions while others write them.
async fn reader(to: std::net::SocketAddr, book: Shared, mut rng: Prng) {
    let Ok(mut session) = Session::connect(to).await else { return };
    loop {
        let count = book.borrow().partitions.len() as u64;
        let pk = rng.below(count) as i32;
        let read = match rng.below(10) {
            0..=5 => live_t(&mut session, &book, pk, &mut rng).await,
            6..=8 => live_u(&mut session, &book, pk).await,
            _ => live_e(&mut session, &book).await,
        };
        if let Err(trouble) = &read {
            book.borrow_mut().judge_read(trouble);
        }
        if matches!(read, Err(Trouble::Lost(_))) || book.borrow().violation.is_some() {
            return;
        }
        runtime::sleep(Duration::from_micros(rng.below(4_000))).await;
    }
}

async fn live_t(session: &mut Session, book: &Shared, pk: i32, rng: &mut Prng) -> Result<(), Trouble> {
    let from = book.borrow().partitions[&pk].acked();
    let mut ask = ask();
    // Pages of one partition may show different moments, so a live read asks for one.
    ask.page_size = rng.chance(0.3).then_some(5_000);
    let rows = session.all(&format!("SELECT {T_COLUMNS} FROM ks.t WHERE pk = {pk}"), ask).await?;
    check_live(book, pk, from, Seen { t: Some(&rows), u: None });
    Ok(())
}

async fn live_u(session: &mut Session, book: &Shared, pk: i32) -> Result<(), Trouble> {
    let from = book.borrow().partitions[&pk].acked();
    let rows = session.all(&format!("SELECT {U_COLUMNS} FROM ks.u WHERE pk = {pk}"), ask()).await?;
    check_live(book, pk, from, Seen { t: None, u: Some(&rows) });
    Ok(())
}

async fn live_e(session: &mut Session, book: &Shared) -> Result<(), Trouble> {
    let from = runtime::now();
    let rows = session.all(&format!("SELECT {E_COLUMNS} FROM ks.e"), ask()).await?;
    let mut book = book.borrow_mut();
    // A row acknowledged while the read was on its way need not be in it.
    let checked = book.expiring.check(&rows, from, runtime::now(), from);
    if let Err(text) = checked {
        book.blame(format!("a live read: {text}"));
    }
    Ok(())
}

fn check_live(book: &Shared, pk: i32, from: usize, seen: Seen<'_>) {
    let mut book = book.borrow_mut();
    book.reads += 1;
    let partition = &book.partitions[&pk];
    if partition.explain(seen, from, partition.issued()).is_none() {
        let rows = shown(seen.t.or(seen.u).unwrap_or_default());
        let text = format!(
            "a live read of partition {pk} shows {rows}, after {from} operations of\n{}",
            partition.story()
        );
        book.blame(text);
    }
}

/// Writes rows that expire.
async fn expirer(to: std::net::SocketAddr, book: Shared, mut rng: Prng) {
    let Ok(mut session) = Session::connect(to).await else { return };
    loop {
        runtime::sleep(Duration::from_micros(rng.below(10_000))).await;
        let (stamp, statements) = {
            let mut book = book.borrow_mut();
            let stamp = book.stamp();
            (stamp, book.expiring.issue(&mut rng, stamp, runtime::now()))
        };
        let result = session.batch(&statements, ask(), rng.chance(0.5)).await;
        let mut book = book.borrow_mut();
        book.judge(&result, &statements);
        match result {
            Ok(()) => book.expiring.acked(stamp, runtime::now()),
            Err(Trouble::Refused(_)) => {}
            Err(Trouble::Lost(_)) => return,
        }
    }
}

/// Writes rows to `ks.r`, truncates it, drops it and makes it again with its id.
async fn wiper(to: std::net::SocketAddr, book: Shared, mut rng: Prng) {
    let Ok(mut session) = Session::connect(to).await else { return };
    loop {
        let there = book.borrow().wiped.table == Exists::Yes;
        let done = match rng.below(16) {
            _ if !there => make_again(&mut session, &book).await,
            0 => wipe(&mut session, &book, "TRUNCATE ks.r").await,
            1 => wipe(&mut session, &book, "DROP TABLE ks.r").await,
            _ => put(&mut session, &book, &mut rng).await,
        };
        if done.is_err() || book.borrow().violation.is_some() {
            return;
        }
        if rng.chance(0.5) {
            runtime::sleep(Duration::from_micros(rng.below(4_000))).await;
        }
    }
}

async fn put(session: &mut Session, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let key = book.borrow_mut().stamp();
    book.borrow_mut().wiped.note(key, Exists::Perhaps);
    let text = "r".repeat(rng.below(400) as usize);
    let statement = format!("INSERT INTO ks.r (k, v) VALUES ({key}, '{text}')");
    let result = session.query(&statement, ask()).await.map(|_| ());
    book.borrow_mut().judge(&result, &[statement]);
    if result.is_ok() {
        book.borrow_mut().wiped.note(key, Exists::Yes);
    }
    result
}

async fn wipe(session: &mut Session, book: &Shared, statement: &str) -> Result<(), Trouble> {
    let drops = statement.starts_with("DROP");
    book.borrow_mut().wiped.wiping();
    if drops {
        book.borrow_mut().wiped.table = Exists::Perhaps;
    }
    let result = session.query(statement, ask()).await.map(|_| ());
    book.borrow_mut().judge(&result, &[statement.to_string()]);
    result?;
    book.borrow_mut().wiped.wiped();
    if drops {
        book.borrow_mut().wiped.table = Exists::No;
        return Ok(());
    }
    check_wiped(session, book).await
}

async fn make_again(session: &mut Session, book: &Shared) -> Result<(), Trouble> {
    book.borrow_mut().wiped.table = Exists::Perhaps;
    let result = session.query(&create_wiped(), ask()).await.map(|_| ());
    book.borrow_mut().judge(&result, &[create_wiped()]);
    result?;
    book.borrow_mut().wiped.table = Exists::Yes;
    check_wiped(session, book).await
}

async fn check_wiped(session: &mut Session, book: &Shared) -> Result<(), Trouble> {
    let read = session.all("SELECT k FROM ks.r", ask()).await;
    let mut book = book.borrow_mut();
    if let Err(trouble) = &read {
        book.judge_read(trouble);
    }
    if let Err(text) = book.wiped.check(Some(&read?), false) {
        book.blame(format!("a live read: {text}"));
    }
    Ok(())
}

/// Makes and drops tables and adds columns.
async fn designer(to: std::net::SocketAddr, book: Shared, mut rng: Prng) {
    let Ok(mut session) = Session::connect(to).await else { return };
    for _ in 0..rng.below(4) {
        runtime::sleep(Duration::from_micros(rng.below(60_000))).await;
        let stamp = book.borrow_mut().stamp();
        let name = format!("d{stamp}");
        let existing: Option<String> = book
            .borrow()
            .tables
            .iter()
            .find(|(_, exists)| **exists == Exists::Yes)
            .map(|(name, _)| name.clone());
        let (cql, name, column, then) = match (rng.below(3), existing) {
            (0, Some(table)) => (format!("DROP TABLE ks.{table}"), table, false, Exists::No),
            (1, _) => (format!("ALTER TABLE ks.t ADD {name} int"), name, true, Exists::Yes),
            _ => (format!("CREATE TABLE ks.{name} (k int PRIMARY KEY, x text)"), name, false, Exists::Yes),
        };
        let note = |exists: Exists| {
            let mut book = book.borrow_mut();
            let names = if column { &mut book.columns } else { &mut book.tables };
            names.insert(name.clone(), exists);
        };
        note(Exists::Perhaps);
        match session.query(&cql, ask()).await {
            Ok(_) => note(then),
            Err(Trouble::Lost(_)) => return,
            Err(Trouble::Refused(failure)) => {
                if failure.code_group() == Group::Ours {
                    book.borrow_mut().blame(format!("a schema change was refused: {failure}: {cql}"));
                }
            }
        }
    }
}

/// Whose fault a refusal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// The node is busy or its disk failed it: the outcome is unknown.
    Theirs,
    /// The statement was not understood: the node is wrong, because the statement is right.
    Ours,
}

trait CodeGroup {
    fn code_group(&self) -> Group;
}

impl CodeGroup for protocol::failure::Failure {
    fn code_group(&self) -> Group {
        if self.kind.code() >= 0x2000 || self.kind.code() == 0x000A { Group::Ours } else { Group::Theirs }
    }
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
        (false, End::Power) => at - (run.period + PERIODIC_SLACK),
    };
    for (pk, partition) in &mut book.partitions {
        let seen = Seen { t: dump.t.get(pk).map(Vec::as_slice), u: dump.u.get(pk).map(Vec::as_slice) };
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

/// One life of the node under load, and its end.
fn live(world: &mut World, run: &mut Run) -> Result<(End, Instant), String> {
    let tasks = start_clients(world, run);
    let spell = match run.rng.below(4) {
        0 => run.rng.below(20_000),
        1 => run.rng.below(400_000),
        _ => run.rng.below(100_000),
    };
    world.run_for(Duration::from_micros(spell));
    let syncs_fail = trouble_the_disk(world, run)?;
    violation(run)?;
    let end = match run.rng.below(10) {
        // A log that failed to sync cannot be closed in good order.
        0 if !syncs_fail => End::Orderly,
        // In periodic mode a killed process takes along what it had not handed to the kernel, as a power cut does.
        1 if run.synced => End::Kill,
        _ => End::Power,
    };
    let at = world.now();
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

/// Now and then the disk is full for a while, or some syncs fail. Whether the latter.
fn trouble_the_disk(world: &mut World, run: &mut Run) -> Result<bool, String> {
    let node = run.host.node;
    let spell = Duration::from_micros(run.rng.below(150_000));
    match run.rng.below(10) {
        0 => {
            let capacity = run.disk_bytes;
            let used = capacity - world.free_space(node);
            world.set_capacity(node, used + run.rng.below(300 << 10));
            run.book.borrow_mut().full = true;
            world.run_for(spell);
            violation(run)?;
            world.set_capacity(node, capacity);
            // Refusals that are on their way still tell of it.
            match run_task(world, run.client, RECOVERY, written_again(run.host.native())) {
                Some(()) => {}
                None => {
                    return Err(format!("writes are refused {RECOVERY:?} after the disk has space again"));
                }
            }
            run.book.borrow_mut().full = false;
            Ok(false)
        }
        1 => {
            world.fail_next_syncs(node, 1 + run.rng.below(3) as u32);
            world.run_for(spell);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Returns when a write is accepted.
async fn written_again(to: std::net::SocketAddr) {
    loop {
        if let Ok(mut session) = Session::connect(to).await
            && session.query("INSERT INTO ks.p (k) VALUES (1)", ask()).await.is_ok()
        {
            return;
        }
        runtime::sleep(Duration::from_millis(50)).await;
    }
}

/// Flips one bit of an sstable, or of a log segment that is not the last, and boots. Either everything is as it should be, or
/// file and place are named and nothing else is said. Then the bit is flipped back.
fn rot(world: &mut World, run: &mut Run, end: End, at: Instant) -> Result<(), String> {
    let files = world.files(run.host.node);
    let damageable = |(path, size): &&(String, u64)| {
        let log = log_name(path);
        let behind = files.iter().filter_map(|(other, _)| log_name(other));
        // The last one with entries may end anywhere, and one behind it may be prepared.
        let older =
            log.is_some_and(|(a, b, c)| behind.filter(|(x, y, z)| (a, b) == (*x, *y) && c < *z).count() > 1);
        *size > 0 && (path.ends_with(".db") || older)
    };
    let candidates: Vec<&(String, u64)> = files.iter().filter(damageable).collect();
    let Some((path, size)) = candidates.get(run.rng.below(candidates.len().max(1) as u64) as usize) else {
        return Ok(());
    };
    let (node, offset, bit) = (run.host.node, run.rng.below(*size), run.rng.below(8) as u8);
    world.flip_bit(node, path, offset, bit);
    let count = shards(run);
    run.host.boot(world, count);
    let named = |text: &str| text.contains(path.as_str()) && text.contains("offset");
    let read = run.host.await_ready(world).and_then(|()| read_all(world, run));
    match read {
        Ok(dump) => check(run, &dump, end, at)
            .map_err(|text| format!("bit {bit} of byte {offset} of {path} is flipped, and {text}"))?,
        Err(text) => {
            let told = named(&text) || world.log_lines().iter().any(|(_, line)| named(line));
            if !told {
                return Err(format!(
                    "bit {bit} of byte {offset} of {path} is flipped, and all that is said: {text}"
                ));
            }
        }
    }
    world.power_cut(node);
    world.flip_bit(node, path, offset, bit);
    Ok(())
}

/// Incarnation, shard and number in the path of a log segment.
fn log_name(path: &str) -> Option<(u32, u32, u32)> {
    let name = path.rsplit('/').next()?.strip_suffix(".log")?;
    let mut numbers = name.split('-').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

fn shards(run: &mut Run) -> u16 {
    let most = if run.rng.chance(0.7) { 3 } else { 8 };
    1 + run.rng.below(most) as u16
}

/// Boots the node, perhaps cutting its power before it is ready.
fn boot(world: &mut World, run: &mut Run) -> Result<(), String> {
    let count = shards(run);
    run.host.boot(world, count);
    while run.rng.chance(0.25) {
        let spell = run.rng.below(30_000);
        world.run_for(Duration::from_micros(spell));
        if !world.alive(run.host.node) {
            break;
        }
        world.power_cut(run.host.node);
        let count = shards(run);
        run.host.boot(world, count);
    }
    run.host.await_ready(world)
}

/// One run.
pub(crate) fn play(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<(), String> {
    let mut run = prepare(world, seed, planted);
    let grace = if run.rng.chance(0.5) { 0 } else { 864_000 };
    boot(world, &mut run)?;
    match run_task(world, run.client, 2 * START, create_schema(run.host.native(), grace)) {
        Some(Ok(())) => {}
        Some(Err(trouble)) => return Err(format!("the schema is not made: {trouble}")),
        None => return Err("the schema is not made in time".to_string()),
    }
    for _ in 0..2 + run.rng.below(3) {
        let (end, at) = live(world, &mut run)?;
        if run.rng.chance(0.15) {
            rot(world, &mut run, end, at)?;
        }
        boot(world, &mut run)?;
        if run.rng.chance(0.3) {
            // Some of what expires does.
            world.run_for(Duration::from_millis(run.rng.below(4_000)));
        }
        verify(world, &mut run, end, at)?;
    }
    run.host.stop(world)?;
    boot(world, &mut run)?;
    let at = world.now();
    verify(world, &mut run, End::Orderly, at)
}

#[cfg(test)]
mod tests;
