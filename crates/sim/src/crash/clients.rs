//! The clients of the crash scenario: they write, read and change the schema until the node is gone, and keep book of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::Prng;
use types::Consistency;

use crate::fleeting::{E_COLUMNS, Exists, ExpiringRows, R_ID, Wiped};
use crate::model::{Change, Known, Partition, Seen, T_COLUMNS, U_COLUMNS, shown};
use crate::session::{Ask, Session, Trouble};

/// What the clients know, shared by them and the checker.
pub(super) struct Book {
    pub(super) partitions: BTreeMap<i32, Partition>,
    pub(super) tables: BTreeMap<String, Exists>,
    pub(super) columns: BTreeMap<String, Exists>,
    pub(super) expiring: ExpiringRows,
    pub(super) wiped: Wiped,
    /// The disk is full: writes may be refused for that reason alone.
    pub(super) full: bool,
    /// Batches over several partitions are logged. Not in periodic mode: there a power cut may take what came before one from
    /// one log, and leave it in another, to be written again.
    pub(super) logs_batches: bool,
    pub(super) next_stamp: i32,
    pub(super) next_time: i64,
    pub(super) rows: i32,
    pub(super) own_timestamps: bool,
    pub(super) violation: Option<String>,
    pub(super) reads: u64,
    pub(super) writes: u64,
}

pub(super) type Shared = Rc<RefCell<Book>>;

impl Book {
    pub(super) fn stamp(&mut self) -> i32 {
        self.next_stamp += 1;
        self.next_stamp
    }

    /// Blames a refusal of a statement that is right, or one by a full disk that does not say so.
    pub(super) fn judge(&mut self, result: &Result<(), Trouble>, statements: &[String]) {
        let Err(Trouble::Refused(failure)) = result else { return };
        let silent = self.full && failure.kind.code() == 0 && !failure.message.contains("space");
        if silent || failure.code_group() == Group::Ours {
            self.blame(format!("refused: {failure}: {statements:?}"));
        }
    }

    /// Blames a read that failed: no fault but a damaged file is a reason, and then nobody reads while it runs.
    pub(super) fn judge_read(&mut self, trouble: &Trouble) {
        if let Trouble::Refused(failure) = trouble
            && !matches!(failure.kind.code(), 0x1001 | 0x1200)
        {
            self.blame(format!("a live read was refused: {failure}"));
        }
    }

    pub(super) fn blame(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }
}

pub(super) fn ask() -> Ask {
    Ask::at(Consistency::One)
}

/// Of the form of Cassandra's old tables: rows are static ones.
pub(super) fn create_wiped() -> String {
    format!("CREATE TABLE ks.r (k int PRIMARY KEY, v text) WITH COMPACT STORAGE AND ID = {R_ID}")
}

/// Writes to the partitions that are its own, one operation at a time, until the connection is gone.
pub(super) async fn writer(to: std::net::SocketAddr, book: Shared, mine: Vec<i32>, mut rng: Prng) {
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
        let written = match usable.len() {
            2.. if rng.chance(0.25) => write_over_several(&mut session, &book, &usable, &mut rng).await,
            _ => write(&mut session, &book, pk, &mut rng).await,
        };
        if let Err(Trouble::Lost(_)) = written {
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

/// One batch over some of these partitions, a part of it in each.
async fn write_over_several(
    session: &mut Session,
    book: &Shared,
    usable: &[i32],
    rng: &mut Prng,
) -> Result<(), Trouble> {
    let first = rng.below(usable.len() as u64) as usize;
    let count = 2 + rng.below(2) as usize;
    let several: Vec<i32> =
        usable.iter().copied().cycle().skip(first).take(count.min(usable.len())).collect();
    let logged = book.borrow().logs_batches;
    let (parts, statements, ask) = {
        let mut book = book.borrow_mut();
        let (batch, rows) = (book.stamp(), book.rows);
        let (mut parts, mut statements) = (Vec::new(), Vec::new());
        for pk in several {
            let stamp = book.stamp();
            let changes = vec![Change::drawn(rng, stamp, rows)];
            statements.extend(changes.iter().map(|change| change.cql(pk)));
            let partition = book.partitions.get_mut(&pk).expect("a known partition");
            let op = if logged { partition.issue_part(batch, changes) } else { partition.issue(changes) };
            parts.push((pk, op));
        }
        book.next_time += 10;
        let mut ask = ask();
        ask.timestamp = book.own_timestamps.then_some(book.next_time);
        book.writes += 1;
        (parts, statements, ask)
    };
    let result = session.batch(&statements, ask, logged).await;
    let mut book = book.borrow_mut();
    book.judge(&result, &statements);
    let known = if result.is_ok() { Known::Acked(runtime::now()) } else { Known::Unknown };
    for (pk, op) in parts {
        book.partitions.get_mut(&pk).expect("a known partition").end(op, known);
    }
    result
}

/// Reads random partitions while others write them.
pub(super) async fn reader(to: std::net::SocketAddr, book: Shared, mut rng: Prng) {
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
pub(super) async fn expirer(to: std::net::SocketAddr, book: Shared, mut rng: Prng) {
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
pub(super) async fn wiper(to: std::net::SocketAddr, book: Shared, mut rng: Prng) {
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
pub(super) async fn designer(to: std::net::SocketAddr, book: Shared, mut rng: Prng) {
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
