//! Counters that came in files go on counting: what is added where they were imported is added to what the files say.

use super::session::Session;
use super::table::Table;
use crate::cql::client::Value;

/// What is added to each counter.
const STEP: i64 = 7;
/// Rows of a page.
const PAGE: i32 = 1000;

/// Adds to every counter of a table, if it is one of counters, and looks what has become of it; says how many there were.
pub fn go_on(session: &mut Session, table: &Table<'_>) -> Result<String, String> {
    if !table.schema.counts() {
        return Ok(String::new());
    }
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let counters: Vec<usize> = (0..columns.len()).filter(|at| table.columns[*at].ty == "counter").collect();
    let depth = table.clustering().count();
    let place = [vec![table.key_is()], (depth > 0).then(|| table.clustering_is(depth)).into_iter().collect()];
    let place = place.concat().join(" AND ");
    let all = format!("SELECT {} FROM {}", columns.join(", "), table.name);
    let before = session.select(&all, &[], PAGE)?.rows;
    let mut count = 0;
    for row in &before {
        let keys: Option<Vec<Value>> = (0..columns.len())
            .filter(|at| !counters.contains(at))
            .map(|at| row[at].clone().map(Value::Bytes))
            .collect();
        // A row of statics alone has no clustering.
        let Some(keys) = keys else { continue };
        for &at in counters.iter().filter(|at| row[**at].is_some()) {
            let name = columns[at];
            let text = format!("UPDATE {} SET {name} = {name} + {STEP} WHERE {place}", table.name);
            session.execute(&text, keys.clone())?;
            count += 1;
        }
    }
    let after = session.select(&all, &[], PAGE)?.rows;
    if before.len() != after.len() {
        return Err(format!("{} rows, and {} when all had been added to", before.len(), after.len()));
    }
    for (before, after) in before.iter().zip(&after) {
        for &at in &counters {
            let (was, is) = (number(&before[at]), number(&after[at]));
            if was.map(|was| was + STEP) != is {
                return Err(format!("{} was {was:?}, and is {is:?} with {STEP} more", columns[at]));
            }
        }
    }
    match count {
        0 => Err("no counter came with the files".into()),
        count => Ok(format!(", {count} counters go on")),
    }
}

fn number(value: &Option<Vec<u8>>) -> Option<i64> {
    value.as_deref()?.try_into().ok().map(i64::from_be_bytes)
}
