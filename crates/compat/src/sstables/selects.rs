//! What is asked of a table: everything, page by page; by key, reversed, by slices, by token; with write times and ttls.
//!
//! The questions follow from the table and the seed, so that two servers are asked the same.

use std::time::{SystemTime, UNIX_EPOCH};

use super::schemas::{Column, Role};
use super::session::Session;
use super::table::Table;
use super::values::Chance;
use crate::cql::client::Value;
use crate::cql::types::Type;

/// Partitions and rows of a table that are looked at one by one.
const LOOKS: usize = 8;
/// Seconds by which a time of expiry, computed from a ttl, may differ when two read the same file: as long as a busy
/// machine may take for an answer. The shortest ttl that is compared is a day.
pub const TOLERANCE: i64 = 60;

/// A statement, what is bound, and how many rows make a page.
struct Question {
    text: String,
    values: Vec<Value>,
    page: i32,
}

/// What a server said to one question.
pub struct Answered {
    text: String,
    columns: Vec<(String, Type)>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
    /// Seconds since the epoch at which it was asked.
    at: i64,
}

/// Asks everything.
pub fn ask(session: &mut Session, table: &Table<'_>, seed: u64) -> Result<Vec<Answered>, String> {
    let questions = questions(table, seed);
    questions.into_iter().map(|question| answer(session, question)).collect()
}

fn answer(session: &mut Session, question: Question) -> Result<Answered, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let rows = session.select(&question.text, &question.values, question.page)?;
    let columns = rows.columns.into_iter().map(|column| (column.name, column.ty)).collect();
    Ok(Answered { text: question.text, columns, rows: rows.rows, at: now.as_secs() as i64 })
}

/// Compares two servers' answers; says how many rows there were, or the first difference. Times of expiry may differ by
/// `tolerance` seconds.
pub fn compare(ours: &[Answered], theirs: &[Answered], tolerance: i64) -> Result<usize, String> {
    if ours.len() != theirs.len() {
        return Err(format!("{} questions and {}", ours.len(), theirs.len()));
    }
    let mut rows = 0;
    for (ours, theirs) in ours.iter().zip(theirs) {
        rows += ours.rows.len();
        for (index, (mine, other)) in ours.rows.iter().zip(&theirs.rows).enumerate() {
            let columns = ours.columns.len().max(theirs.columns.len());
            let same = (0..columns)
                .all(|column| ours.value(column, mine).is_as(theirs.value(column, other), tolerance));
            if !same {
                return Err(format!(
                    "{}\nrow {index} of {}, here: {}\nthere: {}",
                    ours.text,
                    ours.rows.len(),
                    ours.shown(mine),
                    theirs.shown(other)
                ));
            }
        }
        if ours.rows.len() != theirs.rows.len() {
            let (more, here) =
                if ours.rows.len() > theirs.rows.len() { (ours, "here") } else { (theirs, "there") };
            let first = &more.rows[ours.rows.len().min(theirs.rows.len())];
            return Err(format!(
                "{}\n{} rows here, {} there; only {here}: {}",
                ours.text,
                ours.rows.len(),
                theirs.rows.len(),
                more.shown(first)
            ));
        }
    }
    Ok(rows)
}

impl Answered {
    /// A value of a row; of a ttl the time at which it ends.
    fn value<'r>(&self, column: usize, row: &'r [Option<Vec<u8>>]) -> Told<'r> {
        let bytes = row.get(column).and_then(Option::as_deref);
        let is_ttl = self.columns.get(column).is_some_and(|(name, _)| name.starts_with("ttl("));
        match bytes.filter(|_| is_ttl).and_then(|ttl| ttl.try_into().ok()) {
            Some(ttl) => Told::Ends(self.at + i64::from(i32::from_be_bytes(ttl))),
            None => Told::Is(bytes),
        }
    }

    fn shown(&self, row: &[Option<Vec<u8>>]) -> String {
        let values = self.columns.iter().zip(row).map(|((name, ty), value)| {
            let mut text = ty.value(value.as_deref());
            if text.len() > 300 {
                let cut = (0..=300).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                text.truncate(cut);
                text.push_str(&format!("… ({} bytes)", value.as_ref().map_or(0, Vec::len)));
            }
            format!("{name} = {text}")
        });
        values.collect::<Vec<_>>().join(", ")
    }
}

/// What is compared.
enum Told<'r> {
    /// Bytes or null.
    Is(Option<&'r [u8]>),
    /// Seconds since the epoch.
    Ends(i64),
}

impl Told<'_> {
    fn is_as(&self, other: Told<'_>, tolerance: i64) -> bool {
        match (self, other) {
            (Told::Is(mine), Told::Is(other)) => *mine == other,
            (Told::Ends(mine), Told::Ends(other)) => (mine - other).abs() <= tolerance,
            _ => false,
        }
    }
}

fn bound(values: &[Vec<u8>]) -> Vec<Value> {
    values.iter().map(|value| Value::Bytes(value.clone())).collect()
}

fn questions(table: &Table<'_>, seed: u64) -> Vec<Question> {
    let name = &table.name;
    let mut chance = Chance::new(seed, &format!("{} questions", table.schema.name));
    let mut all = vec![
        of(format!("SELECT * FROM {name}"), Vec::new(), 13),
        of(format!("SELECT count(*) FROM {name}"), Vec::new(), 1000),
        of(times(table), Vec::new(), 500),
    ];
    let keys = columns(table, Role::Key);
    let statics = columns(table, Role::Static);
    let partition = [keys.as_str(), statics.as_str()].into_iter().filter(|part| !part.is_empty());
    let partition = partition.collect::<Vec<_>>().join(", ");
    all.push(of(format!("SELECT DISTINCT {partition} FROM {name}"), Vec::new(), 7));
    let token = chance.below(1 << 62) as i64;
    let (low, high) = (-token / 2, token);
    let range = format!("SELECT * FROM {name} WHERE token({keys}) > {low} AND token({keys}) <= {high}");
    all.push(of(range, Vec::new(), 100));
    for key in table.keys.iter().take(LOOKS) {
        by_key(table, key, &mut all);
    }
    if table.clustering().next().is_some() {
        all.push(of(format!("SELECT * FROM {name} PER PARTITION LIMIT 2"), Vec::new(), 5));
        for _ in 0..LOOKS {
            by_row(table, &mut chance, &mut all);
        }
    }
    all
}

fn of(text: String, values: Vec<Value>, page: i32) -> Question {
    Question { text, values, page }
}

fn columns(table: &Table<'_>, role: Role) -> String {
    table.of(role).map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The key and, of every column, the value with what CQL says about its time.
fn times(table: &Table<'_>) -> String {
    let mut selected: Vec<String> = Vec::new();
    for column in &table.columns {
        let name = &column.name;
        selected.push(name.clone());
        if column.role == Role::Key || column.is_clustering() || table.schema.counts() {
            continue;
        }
        selected.push(format!("writetime({name})"));
        if !column.is_complex() {
            selected.push(format!("ttl({name})"));
        }
    }
    format!("SELECT {} FROM {}", selected.join(", "), table.name)
}

/// The other way round than the table is.
fn reversed(column: &Column) -> String {
    format!("ORDER BY {} {}", column.name, if column.role == Role::Desc { "ASC" } else { "DESC" })
}

fn by_key(table: &Table<'_>, key: &[Vec<u8>], all: &mut Vec<Question>) {
    let select = format!("SELECT * FROM {} WHERE {}", table.name, table.key_is());
    all.push(of(select.clone(), bound(key), 101));
    if let Some(first) = table.clustering().next() {
        all.push(of(format!("{select} {}", reversed(first)), bound(key), 7));
        all.push(of(format!("{select} LIMIT 5"), bound(key), 2));
        all.push(of(format!("{select} {} LIMIT 3", reversed(first)), bound(key), 100));
    }
}

/// One row, two rows by IN, and slices around it in both directions.
fn by_row(table: &Table<'_>, chance: &mut Chance, all: &mut Vec<Question>) {
    let key = chance.pick(&table.keys).clone();
    let row = chance.pick(&table.clusterings).clone();
    let other = chance.pick(&table.clusterings).clone();
    let columns: Vec<&Column> = table.clustering().collect();
    let select = format!("SELECT * FROM {} WHERE {}", table.name, table.key_is());
    let with = |rest: &[Vec<u8>]| bound(&[&key[..], rest].concat());
    all.push(of(format!("{select} AND {}", table.clustering_is(row.len())), with(&row), 10));
    let depth = chance.below(columns.len() as u64) as usize;
    let mut prefix = select.clone();
    if depth > 0 {
        prefix = format!("{select} AND {}", table.clustering_is(depth));
        all.push(of(prefix.clone(), with(&row[..depth]), 3));
    }
    let column = columns[depth];
    let at = with(&row[..=depth]);
    for operator in [">", "<="] {
        let slice = format!("{prefix} AND {} {operator} ?", column.name);
        all.push(of(slice.clone(), at.clone(), 9));
        all.push(of(format!("{slice} {}", reversed(columns[0])), at.clone(), 4));
    }
    let both = [&row[..=depth], &other[depth..=depth]].concat();
    let name = &column.name;
    let slice = format!("{prefix} AND {name} >= ? AND {name} < ?");
    all.push(of(format!("{slice} {}", reversed(columns[0])), with(&both), 50));
    all.push(of(slice, with(&both), 50));
    if columns.len() == 1 {
        all.push(of(format!("{select} AND {name} IN (?, ?)"), with(&[row[0].clone(), other[0].clone()]), 10));
    }
}
