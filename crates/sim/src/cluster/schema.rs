//! Tables that clients make, change and drop, at any node, while nodes are down, cut off or slow.
//!
//! Each table has one owner. Some come again under their names, and all are written to at once when they are made: whoever has answered has them on
//! every shard. When the faults have ended, every node shows what was answered, by one version.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::Prng;
use protocol::failure::FailureKind;
use types::Consistency;

use crate::clients::{Door, Pace, Sessions, text};
use crate::limits::START;
use crate::session::{Ask, Session, Trouble, insist};

/// Names that a client makes tables of.
const NAMES: u64 = 4;

/// What is known of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// With these columns besides the first ones.
    Made(BTreeSet<u64>),
    Dropped,
    /// The answer to the last change did not come.
    Unknown,
}

/// What clients know of the tables.
#[derive(Default)]
pub(super) struct Book {
    tables: BTreeMap<String, Fate>,
    next_column: u64,
    /// Disks fail: a table may be there and take no writes.
    pub(super) is_disk_troubled: bool,
    violation: Option<String>,
}

pub(super) type Shared = Rc<RefCell<Book>>;

impl Book {
    /// Errors: what a client has seen and must not.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    /// The next statement about a table, and what it makes of it.
    fn next(&mut self, name: &str, rng: &mut Prng) -> (String, Fate) {
        let create =
            |condition: &str| format!("CREATE TABLE {condition}ks.{name} (k int PRIMARY KEY, v text)");
        let drop = |condition: &str| format!("DROP TABLE {condition}ks.{name}");
        let conditional = rng.chance(0.3);
        match self.tables.get(name) {
            None | Some(Fate::Dropped) if conditional => {
                (create("IF NOT EXISTS "), Fate::Made(BTreeSet::new()))
            }
            None | Some(Fate::Dropped) => (create(""), Fate::Made(BTreeSet::new())),
            // What was asked for without an answer may still happen behind it.
            Some(Fate::Unknown) if conditional => (drop("IF EXISTS "), Fate::Unknown),
            Some(Fate::Unknown) if rng.chance(0.5) => (create(""), Fate::Made(BTreeSet::new())),
            Some(Fate::Unknown) => (drop(""), Fate::Dropped),
            Some(Fate::Made(columns)) => {
                let mut columns = columns.clone();
                match rng.below(10) {
                    0..=2 if conditional => (drop("IF EXISTS "), Fate::Dropped),
                    0..=2 => (drop(""), Fate::Dropped),
                    3 | 4 if let Some(column) = columns.pop_last() => {
                        (format!("ALTER TABLE ks.{name} DROP c{column}"), Fate::Made(columns))
                    }
                    5 => (format!("ALTER TABLE ks.{name} WITH comment = 'again'"), Fate::Made(columns)),
                    _ => {
                        self.next_column += 1;
                        let column = self.next_column;
                        columns.insert(column);
                        (format!("ALTER TABLE ks.{name} ADD c{column} int"), Fate::Made(columns))
                    }
                }
            }
        }
    }
}

/// Makes, changes and drops tables until something is wrong. `owner`: no other client has this number.
pub(super) async fn client(nodes: Vec<Door>, book: Shared, owner: u64, mut rng: Prng) {
    let mut sessions = Sessions::new(nodes);
    let mut pace = Pace::new([300_000, 30_000, 3_000][rng.below(3) as usize], 150);
    while book.borrow().violation.is_none() {
        sessions.move_on(&mut rng);
        let name = format!("t{owner}_{}", rng.below(NAMES));
        let (cql, becomes) = book.borrow_mut().next(&name, &mut rng);
        // Until the answer is there, anything may be.
        book.borrow_mut().tables.insert(name.clone(), Fate::Unknown);
        if let Some(session) = sessions.get().await {
            match session.query(&cql, Ask::at(Consistency::One)).await {
                Ok(_) => {
                    let is_made = cql.starts_with("CREATE");
                    book.borrow_mut().tables.insert(name.clone(), becomes);
                    if is_made && let Err(Trouble::Lost(_)) = write_to(session, &name, &book).await {
                        sessions.close();
                    }
                }
                Err(Trouble::Lost(_)) => sessions.close(),
                Err(_) => {}
            }
        }
        pace.pause(&mut rng).await;
    }
}

/// Writes to a table that was made through this session. Errors: it was lost.
async fn write_to(session: &mut Session, name: &str, book: &Shared) -> Result<(), Trouble> {
    let cql = format!("INSERT INTO ks.{name} (k, v) VALUES (1, 'x')");
    match session.query(&cql, Ask::at(Consistency::One)).await {
        Err(Trouble::Refused(failure)) if !is_late(&failure.kind) => {
            let mut book = book.borrow_mut();
            if !book.is_disk_troubled {
                book.violation.get_or_insert(format!("{name} was made and takes no writes: {failure}"));
            }
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Whether a replica was not there, or not in time.
fn is_late(kind: &FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Unavailable { .. } | FailureKind::WriteTimeout { .. } | FailureKind::Overloaded
    )
}

/// Every node has every table that was made, with its columns, and none that was dropped, and all say so by the same version.
pub(super) async fn settled(nodes: Vec<Door>, book: Shared) -> Result<(), String> {
    let told = |trouble: Trouble| format!("comparing schemas: {trouble}");
    let mut versions = Vec::new();
    for door in &nodes {
        let to = door.address;
        let mut session = insist(to, START).await.map_err(told)?;
        let one = Ask::at(Consistency::One);
        let cql = "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = 'ks'";
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in session.all(cql, one).await.map_err(told)? {
            if let (Some(table), Some(column)) = (text(&row[0]), text(&row[1])) {
                found.entry(table).or_default().insert(column);
            }
        }
        for (name, fate) in &book.borrow().tables {
            let there = found.get(name);
            let is_right = match fate {
                Fate::Unknown => true,
                Fate::Dropped => there.is_none(),
                Fate::Made(columns) => {
                    let added = columns.iter().map(|column| format!("c{column}"));
                    let wanted: BTreeSet<String> =
                        ["k".into(), "v".into()].into_iter().chain(added).collect();
                    there == Some(&wanted)
                }
            };
            if !is_right {
                return Err(format!("{to}: table {name} is {fate:?}, and has the columns {there:?}"));
            }
        }
        let version = session.all("SELECT schema_version FROM system.local", one).await.map_err(told)?;
        versions.push(version);
    }
    match versions.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(()),
        false => Err(format!("versions of the schema differ: {versions:?}")),
    }
}
