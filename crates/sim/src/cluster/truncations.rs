//! A table that clients of a cluster fill and truncate, at any node, while nodes are down, cut off or slow.
//!
//! Every row is written once. One that was acknowledged before a truncation was asked for is gone with it: whoever has answered the truncation
//! never shows it again, nor does any node when all have followed the history. One that was written through a node that has answered the last
//! truncation is there in the end. Rows without an answer say nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Prng};
use protocol::failure::FailureKind;
use types::Consistency;

use crate::clients::{Door, Pace, Sessions, number};
use crate::limits::START;
use crate::session::{Ask, Session, Trouble, insist};

/// When a truncation was asked for and answered, and which node was asked.
#[derive(Clone, Copy, Debug)]
struct Truncation {
    asked: Instant,
    answered: Option<Instant>,
    node: usize,
}

/// When a row was asked for and acknowledged, through which node, and whether more than one replica has it.
#[derive(Clone, Copy, Debug)]
struct Written {
    asked: Instant,
    acknowledged: Option<Instant>,
    node: usize,
    is_safe: bool,
}

/// What clients know of the table.
#[derive(Default)]
pub(super) struct Book {
    rows: BTreeMap<i32, Written>,
    next_row: i32,
    truncations: Vec<Truncation>,
    /// Replicas of the table.
    replicas: u32,
    violation: Option<String>,
}

pub(super) type Shared = Rc<RefCell<Book>>;

impl Book {
    /// Nothing is known yet of a table with so many replicas.
    pub(super) fn new(replicas: u32) -> Book {
        Book { replicas, ..Book::default() }
    }

    /// Errors: what a client has seen and must not.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    fn new_row(&mut self, node: usize) -> i32 {
        let row = self.next_row;
        self.next_row += 1;
        let asked = runtime::now();
        self.rows.insert(row, Written { asked, acknowledged: None, node, is_safe: false });
        row
    }

    fn acknowledge(&mut self, row: i32, level: Consistency) {
        let is_safe = level != Consistency::One && self.replicas > 1;
        if let Some(written) = self.rows.get_mut(&row) {
            (written.acknowledged, written.is_safe) = (Some(runtime::now()), is_safe);
        }
    }

    /// A replica has lost everything: rows that it alone had confirmed may be gone.
    pub(super) fn lose_one(&mut self) {
        self.rows.retain(|_, written| written.is_safe);
    }

    /// Whether a row must be there: all truncations were over when one was asked for that the node of this row had answered before it.
    fn must_be_there(&self, written: &Written) -> bool {
        let over = |before: Instant, truncation: &Truncation| {
            truncation.answered.is_some_and(|answered| answered <= before)
        };
        let known = |last: &Truncation| last.node == written.node && over(written.asked, last);
        let is_last = |at: usize, last: &Truncation| {
            let others = self.truncations.iter().enumerate().filter(|(other, _)| *other != at);
            others.into_iter().all(|(_, truncation)| over(last.asked, truncation))
        };
        written.acknowledged.is_some()
            && (self.truncations.is_empty()
                || self.truncations.iter().enumerate().any(|(at, last)| known(last) && is_last(at, last)))
    }

    /// Errors: what must be there and is not.
    fn judge_missing(&self, seen: &[i32]) -> Result<(), String> {
        let missing =
            self.rows.iter().filter(|(row, written)| !seen.contains(row) && self.must_be_there(written));
        match missing.map(|(row, written)| (row, *written)).next() {
            None => Ok(()),
            Some((row, written)) => Err(format!(
                "row {row} is not there: {written:?}, with the truncations {:?}",
                self.truncations
            )),
        }
    }

    /// The truncation that has taken a row, of those that a read begun then must know: those that this node has answered, or all.
    fn taken_by(&self, row: i32, start: Instant, node: Option<usize>) -> Option<Truncation> {
        let acknowledged = self.rows.get(&row)?.acknowledged?;
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
                let written = self.rows[row].acknowledged;
                self.violation.get_or_insert(format!(
                    "row {row}, acknowledged at {written:?}, is there again at {start:?}, behind {truncation:?}"
                ));
            }
        }
    }
}

/// Writes, reads and truncates until something is wrong.
pub(super) async fn client(nodes: Vec<Door>, book: Shared, mut rng: Prng) {
    let mut sessions = Sessions::new(nodes);
    let mut pace = Pace::new(10_000, 1_000);
    while book.borrow().violation.is_none() {
        if rng.chance(0.3) {
            sessions.move_on(&mut rng);
        }
        let node = sessions.at();
        let Some(session) = sessions.get().await else {
            sessions.move_on(&mut rng);
            runtime::sleep(Duration::from_millis(1)).await;
            continue;
        };
        if let Err(Trouble::Lost(_)) = act(session, node, &book, &mut rng).await {
            sessions.close();
            sessions.move_on(&mut rng);
        }
        pace.pause(&mut rng).await;
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
            let row = book.borrow_mut().new_row(node);
            let level = [Consistency::One, Consistency::Quorum][rng.below(2) as usize];
            let cql = format!("INSERT INTO ks.u (k, v) VALUES ({row}, 1)");
            session.query(&cql, Ask::at(level)).await?;
            book.borrow_mut().acknowledge(row, level);
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

/// Nothing of what was truncated is anywhere, and what was written behind is. Then one more truncation takes what is there and nothing that is
/// written behind it.
pub(super) async fn settled(nodes: Vec<Door>, book: Shared, mut rng: Prng) -> Result<(), String> {
    let told = |trouble: Trouble| format!("a truncated table, after all faults ended: {trouble}");
    for to in &nodes {
        let mut session = insist(to.address, START).await.map_err(told)?;
        let start = runtime::now();
        let seen = rows(&mut session, Consistency::All).await.map_err(told)?;
        book.borrow_mut().judge(&seen, start, None);
        book.borrow().verdict()?;
        book.borrow().judge_missing(&seen).map_err(|text| format!("{}: {text}", to.address))?;
    }
    let mut any = || nodes[rng.below(nodes.len() as u64) as usize].address;
    let before = book.borrow_mut().new_row(0);
    let behind = book.borrow_mut().new_row(0);
    let at_all = Ask::at(Consistency::All);
    let insert = |row: i32| format!("INSERT INTO ks.u (k, v) VALUES ({row}, 1)");
    let statements = [(any(), insert(before)), (any(), "TRUNCATE ks.u".to_string()), (any(), insert(behind))];
    for (to, cql) in statements {
        let mut session = insist(to, START).await.map_err(told)?;
        let until = runtime::now() + START;
        // Nodes that were started a moment ago are not known to all yet; what is unavailable was not begun.
        while let Err(trouble) = session.query(&cql, at_all).await {
            let Trouble::Refused(failure) = &trouble else { return Err(told(trouble)) };
            if !matches!(failure.kind, FailureKind::Unavailable { .. }) || until < runtime::now() {
                return Err(told(trouble));
            }
            runtime::sleep(Duration::from_millis(200)).await;
        }
    }
    for to in &nodes {
        let to = to.address;
        let mut session = insist(to, START).await.map_err(told)?;
        for level in [Consistency::One, Consistency::All] {
            let seen = rows(&mut session, level).await.map_err(told)?;
            if seen != [behind] {
                return Err(format!("{to} at {level}: rows {seen:?} behind a truncation, not [{behind}]"));
            }
        }
    }
    Ok(())
}
