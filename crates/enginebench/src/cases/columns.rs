//! R4: one column of fifty, asked for the way a node does: a prepared statement is bound, the engine reads what it says,
//! and the statement makes rows of the answer.
//!
//! A read command names rows and no columns, so the engine answers with the whole row; only the statement knows which
//! columns are wanted. The engine's part is therefore measured alone as well: what one column costs beyond a row that has
//! no other is what the engine could save.

use super::{Bench, Case, boxed};
use crate::engine::{apply, columns, key, open, read, schema_of, select, told, update};
use crate::meter::{Meter, median};
use base::Prng;
use cql::{BindContext, BoundValue, Page, Plan, SelectPlan};
use mutation::{Cell, ReadAnswer};
use schema::Table;
use std::rc::Rc;
use std::sync::Arc;
use storage::Store;
use types::CqlType;

/// The cases of this module.
pub const CASES: &[Case] =
    &[Case { name: "R4", what: "SELECT of 1 column of 50, of 50 of 50, of 1 of 1", run: |b| boxed(r4(b)) }];

const MANY: u16 = 50;
const VALUE: [u8; 10] = [7; 10];
/// Reads of one measured stretch at most.
const READS: u64 = 100_000;
const NOW_S: u32 = 1_700_000_000;

async fn r4(bench: Bench) -> Result<(), String> {
    for (count, wanted) in [(MANY, &["v025", "*"][..]), (1, &["v000"][..])] {
        let table = columns(usize::from(count), &CqlType::Blob);
        let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
        let partitions = bench.options.scaled(50_000);
        for number in 0..partitions {
            let whole = update(&table, &key(number), |writer| {
                (0..count).for_each(|ordinal| writer.simple(ordinal, Cell::live(1, &VALUE)));
            });
            apply(&store, whole).await?;
        }
        engine_alone(&bench, &store, &table, count).await?;
        for columns in wanted {
            statement(&bench, &store, &table, columns, count).await?;
        }
        bench.end(store).await?;
    }
    Ok(())
}

/// Numbers of keys for one round of reads.
fn drawn(bench: &Bench, round: usize) -> Vec<[u8; 16]> {
    let (partitions, mut random) = (bench.options.scaled(50_000), Prng::new(round as u64));
    (0..bench.options.operations(READS)).map(|_| key(random.below(partitions))).collect()
}

async fn engine_alone(bench: &Bench, store: &Store, table: &Table, count: u16) -> Result<(), String> {
    let (mut costs, mut bytes) = (Vec::new(), 0);
    for round in 0..bench.options.rounds {
        let commands: Vec<_> = drawn(bench, round).iter().map(|key| select(table, key)).collect();
        let meter = Meter::start();
        for command in &commands {
            let (at_once, answer) = read(store, command).await?;
            if !at_once || answer.live_rows != 1 {
                return Err(format!("{} rows, at once: {at_once}", answer.live_rows));
            }
            bytes = answer_bytes(&answer);
        }
        costs.push(meter.stop(commands.len() as u64));
    }
    bench.cost(&format!("the engine's part, row of {count} columns of 10 B"), median(costs));
    bench.fact(&format!("bytes of an answer, row of {count} columns"), &format!("{bytes} B"));
    Ok(())
}

fn answer_bytes(answer: &ReadAnswer) -> usize {
    answer.partitions.iter().map(|partition| partition.as_bytes().len()).sum()
}

async fn statement(
    bench: &Bench,
    store: &Rc<Store>,
    table: &Arc<Table>,
    wanted: &str,
    count: u16,
) -> Result<(), String> {
    let text = format!("SELECT {wanted} FROM bench.\"{}\" WHERE k = ?", table.name);
    let schema = schema_of(std::slice::from_ref(table));
    let prepared = cql::prepare(&schema, None, cql::parse(&text).map_err(told)?).map_err(told)?;
    let Plan::Select(plan) = prepared.plan else { return Err("no SELECT".into()) };
    // A row that is sent is copied once, as here.
    let (mut costs, mut sent) = (Vec::new(), Vec::new());
    let values = if wanted == "*" { usize::from(count) + 1 } else { 1 };
    for round in 0..bench.options.rounds {
        let keys = drawn(bench, round);
        let meter = Meter::start();
        for key in &keys {
            sent.clear();
            if run(store, &plan, key, &mut sent).await? != values {
                return Err(format!("{text}: not {values} values"));
            }
        }
        costs.push(meter.stop(keys.len() as u64));
    }
    let what = if wanted == "*" { format!("SELECT * of {count}") } else { format!("SELECT 1 of {count}") };
    bench.cost(&format!("{what}, statement bound and rows made"), median(costs));
    bench.fact(&format!("bytes of values of {what}"), &format!("{} B", sent.len()));
    Ok(())
}

/// Runs the statement for one key; how many values its rows had.
async fn run(
    store: &Rc<Store>,
    plan: &Arc<SelectPlan>,
    key: &[u8],
    sent: &mut Vec<u8>,
) -> Result<usize, String> {
    let context = BindContext { timestamp: 0, now_micros: 0, now_s: NOW_S, random: &|| 1, ticks: &|| 0 };
    let page = Page { rows: Some(5_000), bytes: 1 << 20, tombstones: u32::MAX, state: None };
    let mut run = plan.start(&[BoundValue::Bytes(key)], &context, page).map_err(told)?;
    let mut count = 0;
    while let Some(command) = run.next() {
        let (_, answer) = read(store, command).await?;
        let mut sink = |row: &[Option<&[u8]>]| {
            for value in row.iter().flatten() {
                sent.extend_from_slice(value);
                count += 1;
            }
        };
        run.feed(&answer, &mut sink).map_err(told)?;
    }
    Ok(count)
}
