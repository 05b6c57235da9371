//! A table that clients of a cluster fill and truncate, at any node, while nodes are down, cut off or slow.
//!
//! Every row is written once. One that was acknowledged before a truncation was asked for is gone with it: whoever has answered the truncation
//! never shows it again, nor does any node when all have followed the history. Rows without an answer say nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Prng};
use types::Consistency;

use super::{Sessions, number};
use crate::limits::START;
use crate::prepared::Statements;
use crate::session::{Ask, Session, Trouble, insist};

/// When a truncation was asked for and answered, and which node was asked.
#[derive(Clone, Copy, Debug)]
struct Truncation {
    asked: Instant,
    answered: Option<Instant>,
    node: usize,
}

/// What clients know of the table.
#[derive(Default)]
pub(super) struct Book {
    /// When each row was acknowledged.
    rows: BTreeMap<i32, Option<Instant>>,
    truncations: Vec<Truncation>,
    violation: Option<String>,
}

pub(super) type Shared = Rc<RefCell<Book>>;

impl Book {
    /// Errors: what a client has seen and must not.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    fn new_row(&mut self) -> i32 {
        let row = self.rows.len() as i32;
        self.rows.insert(row, None);
        row
    }

    /// The truncation that has taken a row, of those that a read begun then must know: those that this node has answered, or all.
    fn taken_by(&self, row: i32, start: Instant, node: Option<usize>) -> Option<Truncation> {
        let acknowledged = self.rows.get(&row).copied().flatten()?;
        let known = |truncation: &&Truncation| {
            truncation.answered.is_some_and(|answered| answered < start)
                && node.is_none_or(|node| node == truncation.node)
                && acknowledged < truncation.asked
        };
        self.truncations.iter().find(known).copied()
    }

    fn judge(&mut self, seen: &[i32], start: Instant, node: Option<usize>) {
        for row in seen {
            if let Some(truncation) = self.taken_by(*row, start, node) {
                let written = self.rows[row];
                self.violation.get_or_insert(format!(
                    "row {row}, acknowledged at {written:?}, is there again at {start:?}, behind {truncation:?}"
                ));
            }
        }
    }
}

/// Writes, reads and truncates until something is wrong.
pub(super) async fn client(nodes: Vec<SocketAddr>, book: Shared, mut rng: Prng) {
    let (open, statements) = nodes.iter().map(|_| (None, Statements::default())).unzip();
    let mut sessions = Sessions { nodes, open, statements, at: 0 };
    while book.borrow().violation.is_none() {
        if rng.chance(0.3) {
            sessions.move_on(&mut rng);
        }
        let node = sessions.at;
        let Some(session) = sessions.get().await else {
            sessions.move_on(&mut rng);
            runtime::sleep(Duration::from_millis(1)).await;
            continue;
        };
        if let Err(Trouble::Lost(_)) = act(session, node, &book, &mut rng).await {
            sessions.close();
            sessions.move_on(&mut rng);
        }
        runtime::sleep(Duration::from_micros(rng.below(10_000))).await;
    }
}

async fn act(session: &mut Session, node: usize, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    match rng.below(20) {
        0 => {
            let at = book.borrow().truncations.len();
            let asked = runtime::now();
            book.borrow_mut().truncations.push(Truncation { asked, answered: None, node });
            session.query("TRUNCATE ks.u", Ask::at(Consistency::One)).await?;
            book.borrow_mut().truncations[at].answered = Some(runtime::now());
        }
        1..=11 => {
            let row = book.borrow_mut().new_row();
            let level = [Consistency::One, Consistency::Quorum][rng.below(2) as usize];
            let cql = format!("INSERT INTO ks.u (k, v) VALUES ({row}, 1)");
            session.query(&cql, Ask::at(level)).await?;
            book.borrow_mut().rows.insert(row, Some(runtime::now()));
        }
        _ => {
            // Two replicas that differ are made alike by the read itself.
            let start = runtime::now();
            let seen = rows(session, Consistency::Quorum).await?;
            book.borrow_mut().judge(&seen, start, Some(node));
        }
    }
    Ok(())
}

async fn rows(session: &mut Session, level: Consistency) -> Result<Vec<i32>, Trouble> {
    let found = session.all("SELECT k FROM ks.u", Ask::at(level)).await?;
    Ok(found.iter().map(|row| number(&row[0])).collect())
}

/// Nothing of what was truncated is anywhere. Then one more truncation takes what is there and nothing that is written behind it.
pub(super) async fn settled(nodes: Vec<SocketAddr>, book: Shared, mut rng: Prng) -> Result<(), String> {
    let told = |trouble: Trouble| format!("a truncated table, after all faults ended: {trouble}");
    for to in &nodes {
        let mut session = insist(*to, START).await.map_err(told)?;
        let start = runtime::now();
        let seen = rows(&mut session, Consistency::All).await.map_err(told)?;
        book.borrow_mut().judge(&seen, start, None);
        book.borrow().verdict()?;
    }
    let mut any = || nodes[rng.below(nodes.len() as u64) as usize];
    let before = book.borrow_mut().new_row();
    let behind = book.borrow_mut().new_row();
    let at_all = Ask::at(Consistency::All);
    let insert = |row: i32| format!("INSERT INTO ks.u (k, v) VALUES ({row}, 1)");
    let statements = [(any(), insert(before)), (any(), "TRUNCATE ks.u".to_string()), (any(), insert(behind))];
    for (to, cql) in statements {
        let mut session = insist(to, START).await.map_err(told)?;
        session.query(&cql, at_all).await.map_err(told)?;
    }
    for to in &nodes {
        let mut session = insist(*to, START).await.map_err(told)?;
        for level in [Consistency::One, Consistency::All] {
            let seen = rows(&mut session, level).await.map_err(told)?;
            if seen != [behind] {
                return Err(format!("{to} at {level}: rows {seen:?} behind a truncation, not [{behind}]"));
            }
        }
    }
    Ok(())
}
