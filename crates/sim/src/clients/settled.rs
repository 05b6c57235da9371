//! After the faults: what every node says of every register, and what each replica says by itself.

use std::collections::BTreeMap;

use base::{Instant, Prng};
use types::Consistency;

use super::{Door, Row, Shared, judge, number, text};
use crate::limits::START;
use crate::register::At;
use crate::session::{Ask, Session, Trouble, insist};

/// Reads all registers through every node, whole and by pages, at QUORUM and at ALL.
pub(crate) async fn settled(nodes: Vec<Door>, book: Shared, mut rng: Prng) -> Result<(), String> {
    let keyspaces: Vec<&'static str> = book.borrow().keyspaces.iter().map(|keyspace| keyspace.name).collect();
    for door in nodes {
        let told = |trouble: Trouble| format!("after all faults ended, {}: {trouble}", door.address);
        let mut session = insist(door.address, START).await.map_err(told)?;
        for (keyspace, ks) in keyspaces.iter().enumerate() {
            read_keyspace(&mut session, door, &book, (keyspace, ks), &mut rng).await?;
        }
    }
    Ok(())
}

async fn read_keyspace(
    session: &mut Session,
    door: Door,
    book: &Shared,
    (keyspace, ks): (usize, &str),
    rng: &mut Prng,
) -> Result<(), String> {
    let told = |trouble: Trouble| format!("after all faults ended, {}: {trouble}", door.address);
    let (partitions, rows) = (book.borrow().partitions, book.borrow().rows);
    for level in [Consistency::Quorum, Consistency::All] {
        for k in 0..partitions {
            let start = runtime::now();
            let cql = format!("SELECT c, v FROM {ks}.r WHERE k = {k}");
            let whole = session.all(&cql, Ask::at(level)).await.map_err(told)?;
            let at = At { level, dc: door.dc };
            judge_all(book, (keyspace, k, rows), start, at, &whole);
            let start = runtime::now();
            let paged = Ask { page_size: Some(1 + rng.below(3) as u32), ..Ask::at(level) };
            let pages = session.all(&cql, paged).await.map_err(told)?;
            judge_all(book, (keyspace, k, rows), start, at, &pages);
            // A write that nobody has confirmed may be at one replica alone, which one quorum has and another has not; who has asked all has mended them.
            if level == Consistency::All {
                same(&format!("partition {k} of {ks} at {level}"), &whole, &pages)?;
            }
        }
    }
    let cql = format!("SELECT k, c, v FROM {ks}.r");
    let whole = session.all(&cql, Ask::at(Consistency::Quorum)).await.map_err(told)?;
    let paged = Ask { page_size: Some(1 + rng.below(5) as u32), ..Ask::at(Consistency::Quorum) };
    let pages = session.all(&cql, paged).await.map_err(told)?;
    same(&format!("a full scan of {ks}"), &whole, &pages)
}

/// What one node says at ONE, judged as if all had been asked: a replica answers by itself, another node asks one that is near.
pub(crate) async fn read_alone(door: Door, book: Shared) -> Result<(), String> {
    let told = |trouble: Trouble| format!("reading {} alone: {trouble}", door.address);
    let (partitions, rows) = (book.borrow().partitions, book.borrow().rows);
    let keyspaces: Vec<&'static str> = book.borrow().keyspaces.iter().map(|keyspace| keyspace.name).collect();
    let mut session = insist(door.address, START).await.map_err(told)?;
    for (keyspace, ks) in keyspaces.into_iter().enumerate() {
        for k in 0..partitions {
            let start = runtime::now();
            let cql = format!("SELECT c, v FROM {ks}.r WHERE k = {k}");
            let found = session.all(&cql, Ask::at(Consistency::One)).await.map_err(told)?;
            let at = At { level: Consistency::All, dc: door.dc };
            judge_all(&book, (keyspace, k, rows), start, at, &found);
        }
    }
    Ok(())
}

/// Judges every register of a partition by the rows that were read of it.
fn judge_all(book: &Shared, (keyspace, k, rows): (usize, i32, i32), start: Instant, at: At, found: &[Row]) {
    let mut seen: BTreeMap<i32, Option<String>> =
        found.iter().map(|row| (number(&row[0]), text(&row[1]))).collect();
    for c in 0..rows {
        judge(book, (keyspace, k, c), start, at, seen.remove(&c).flatten().as_deref());
    }
}

fn same(what: &str, whole: &[Row], pages: &[Row]) -> Result<(), String> {
    if whole == pages {
        return Ok(());
    }
    let (whole, pages) = (crate::model::shown(whole), crate::model::shown(pages));
    Err(format!("{what} by pages is\n  {pages}\nand whole\n  {whole}"))
}
