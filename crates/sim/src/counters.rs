//! Counters on three nodes, every row on two or three of them, with every fault of machines and links ([`crate::faults`]).
//!
//! Tasks on every node have their coordinator count up and down, at ONE, QUORUM and ALL, single cells and several partitions at once.
//!
//! Checked, when the faults are over and everybody has heard from everybody: each counter is what was acknowledged and nothing else but, each once, some of
//! what nobody knows of; every node sees the same, each replica alone has it, and each node can count on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::Prng;
use coordinator::{Coordinator, Error};
use mutation::{
    Cell, ColumnView, Deletion, Key, Liveness, Mutation, MutationBuilder, ReadAnswer, ReadCommand, RowView,
    Scope, counter_total,
};
use runtime::Bug;
use runtime::sim::{Task, World};
use schema::TableId;
use types::Consistency;

use crate::Counts;
use crate::faults::{Lasting, any_fault, end_all};
use crate::host::Host;
use crate::limits::{CONVERGE, START};
use crate::machines::{clients_on, finished};
use crate::session::{Ask, Trouble, insist};
use crate::three::prepare;

const TABLE: TableId = TableId(0x5a1c_395e_b41f_11e5_9f22_ba0b_e048_3c22);
/// Ordinals of the two counters of a row.
const COLUMNS: u16 = 2;
/// Keys of which each is counted in once: what is counted twice there cannot be one of many that nobody knows of.
const ONCE: std::ops::Range<u64> = 1_000..1_200;
/// How long one request may take.
const WITHIN: Duration = Duration::from_secs(2);

/// What may have been added to one counter.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    acknowledged: i64,
    /// What nobody knows of, by its direction.
    unknown_up: i64,
    unknown_down: i64,
}

impl Sum {
    fn allows(&self, value: i64) -> bool {
        let (least, most) = (self.acknowledged + self.unknown_down, self.acknowledged + self.unknown_up);
        (least..=most).contains(&value)
    }

    fn is_unknown(&mut self, by: i64) {
        self.unknown_up += by.max(0);
        self.unknown_down += by.min(0);
    }
}

/// What clients were told.
#[derive(Default)]
struct Seen {
    sums: BTreeMap<(u64, u16), Sum>,
    counts: BTreeMap<&'static str, u64>,
    /// How many of [`ONCE`] were used.
    once: u64,
    over: bool,
}

type Shared = Rc<RefCell<Seen>>;

/// One change of one counter.
#[derive(Debug, Clone, Copy)]
struct Step {
    key: u64,
    column: u16,
    by: i64,
}

async fn create_schema(nodes: Vec<SocketAddr>, factor: u64) -> Result<(), Trouble> {
    for to in nodes {
        let mut session = insist(to, START).await?;
        let keyspace = format!(
            "CREATE KEYSPACE ks WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {factor}}}"
        );
        let table = "CREATE TABLE ks.n (k int PRIMARY KEY, n counter, m counter) \
                     WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c22";
        for statement in [keyspace.as_str(), table] {
            session.query(statement, Ask::at(Consistency::One)).await?;
        }
    }
    Ok(())
}

fn key_of(key: u64) -> Key {
    Key::new(&(key as i32).to_be_bytes())
}

fn command(key: u64) -> ReadCommand {
    let now_s = runtime::unix_seconds();
    ReadCommand::everything(TABLE, Scope::Keys(std::iter::once(key_of(key)).collect()), now_s)
}

fn increment(step: Step) -> Mutation {
    let key = key_of(step.key);
    let mut builder = MutationBuilder::new(TABLE, key.token, &key.bytes);
    builder.write_row(&[], Liveness::NONE, Deletion::LIVE, |row| {
        row.simple(step.column, Cell::live(runtime::unix_micros(), &step.by.to_be_bytes()));
    });
    builder.finish()
}

/// The counters of a row, by what was read.
fn values(answer: &ReadAnswer) -> [i64; COLUMNS as usize] {
    let mut values = [0; COLUMNS as usize];
    let Some(partition) = answer.partitions.first() else { return values };
    for (_, body) in partition.view().rows() {
        for (ordinal, column) in RowView::new(body).columns() {
            if let ColumnView::Simple(Cell { value: Some(context), .. }) = column {
                values[usize::from(ordinal)] = counter_total(context).unwrap_or(i64::MIN);
            }
        }
    }
    values
}

/// Counts, and remembers what came of it.
async fn count(coordinator: &Rc<Coordinator>, seen: &Shared, steps: &[Step], level: Consistency) {
    // Until it is answered it may happen, whatever becomes of this task.
    for step in steps {
        seen.borrow_mut().sums.entry((step.key, step.column)).or_default().is_unknown(step.by);
    }
    let increments = steps.iter().copied().map(increment).collect();
    let outcome = coordinator.count(increments, level, WITHIN).await;
    let mut seen = seen.borrow_mut();
    let kind = match &outcome {
        Ok(()) => "acknowledged",
        // Of several partitions another may have been counted.
        Err(Error::Unavailable { .. } | Error::Invalid(_)) if steps.len() == 1 => "refused",
        Err(_) => "unknown",
    };
    *seen.counts.entry(kind).or_default() += 1;
    if kind == "unknown" {
        return;
    }
    for step in steps {
        let sum = seen.sums.entry((step.key, step.column)).or_default();
        sum.unknown_up -= step.by.max(0);
        sum.unknown_down -= step.by.min(0);
        if outcome.is_ok() {
            sum.acknowledged += step.by;
        }
    }
}

/// One client: counts on this node until it dies or the faults are over.
async fn client(seen: Shared, mut rng: Prng, keys: u64) {
    while !seen.borrow().over {
        let Some(coordinator) = runtime::try_local::<Coordinator>() else {
            runtime::sleep(Duration::from_millis(20)).await;
            continue;
        };
        if coordinator.schema().table_by_id(TABLE).is_none() {
            runtime::sleep(Duration::from_millis(20)).await;
            continue;
        }
        let several = if rng.chance(0.2) { 1 + rng.below(4) } else { 1 };
        let steps: Vec<Step> = (0..several)
            .map(|_| Step {
                key: rng.below(keys),
                column: rng.below(u64::from(COLUMNS)) as u16,
                by: rng.below(1_000) as i64 - 300,
            })
            .collect();
        let fresh = ONCE.clone().nth(seen.borrow().once as usize).filter(|_| rng.chance(0.4));
        let steps = match fresh {
            Some(key) => {
                seen.borrow_mut().once += 1;
                vec![Step { key, ..steps[0] }]
            }
            None => steps,
        };
        let level = [Consistency::Quorum, Consistency::One, Consistency::All][rng.below(3) as usize];
        count(&coordinator, &seen, &steps, level).await;
        if rng.chance(0.3) {
            runtime::sleep(Duration::from_micros(rng.below(20_000))).await;
        }
    }
}

/// On one node, when nothing disturbs any more: it can count, and sees at ALL what may be; this brings all replicas up to date.
async fn settled(seen: Shared, keys: u64) -> Result<Vec<(u64, [i64; 2])>, String> {
    let coordinator = runtime::local::<Coordinator>();
    let mut all = Vec::new();
    let once = ONCE.clone().take(seen.borrow().once as usize);
    for key in (0..keys).chain(once) {
        if key < keys {
            let step = Step { key, column: 0, by: 1 };
            let counted = coordinator.count(vec![increment(step)], Consistency::All, CONVERGE).await;
            counted.map_err(|error| {
                format!("at the end, with nobody else there, {key} was not counted: {error}")
            })?;
            seen.borrow_mut().sums.entry((key, 0)).or_default().acknowledged += 1;
        }
        let answer = coordinator.read(&command(key), Consistency::All, CONVERGE).await;
        let answer = answer.map_err(|error| format!("a read of {key} at ALL at the end: {error}"))?;
        let values = values(&answer);
        for (column, value) in (0u16..).zip(values) {
            let sum = seen.borrow().sums.get(&(key, column)).copied().unwrap_or_default();
            if !sum.allows(value) {
                return Err(format!("counter {column} of {key} is {value}: {sum:?}"));
            }
        }
        all.push((key, values));
    }
    Ok(all)
}

/// On one node: what its replica has alone of the keys that it holds is this.
async fn alone(expected: Vec<(u64, [i64; 2])>) -> Result<(), String> {
    let coordinator = runtime::local::<Coordinator>();
    let here = coordinator.topology().local_id();
    for (key, expected) in expected {
        let held = coordinator.view().holders_of(&increment(Step { key, column: 0, by: 0 }));
        if !held.is_some_and(|held| held.contains(&here)) {
            continue;
        }
        let answer = coordinator.local().read(&command(key)).await.map_err(|error| error.to_string())?;
        let found = values(&answer);
        if found != expected {
            return Err(format!("{here} has {found:?} of {key}, all together have {expected:?}"));
        }
    }
    Ok(())
}

/// One run.
pub(crate) fn play(
    world: &mut World,
    seed: u64,
    planted: Option<Bug>,
    counts: &mut Counts,
) -> Result<(), String> {
    let mut run = prepare(world, seed, planted);
    // What others have counted is as durable as the mode says; what a node has counted itself always.
    if run.rng.chance(0.6) {
        let sync = node::config::CommitlogSync::Periodic(Duration::from_millis(10 + run.rng.below(2_000)));
        run.hosts.iter_mut().for_each(|host| host.config.commitlog_sync = sync);
    }
    run.all_ready(world)?;
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let factor = 2 + run.rng.below(2);
    let mut schema = world.spawn(run.client, create_schema(nodes, factor));
    finished(world, &mut schema, 2 * START, "making the schema")?
        .map_err(|trouble| format!("the schema is not made: {trouble}"))?;
    // In periodic mode the schema must survive what comes.
    world.run_for(Duration::from_secs(3));
    let keys = 1 + run.rng.below(6);
    let seen = Shared::default();
    let mut lasting = Lasting::default();
    let mut tasks: Vec<Vec<Task<()>>> = run.hosts.iter().map(|_| Vec::new()).collect();
    for _ in 0..4 + run.rng.below(8) {
        clients_on(world, &run.hosts, &mut run.rng, 4, &mut tasks, |rng| client(seen.clone(), rng, keys));
        let spell = Duration::from_micros(run.rng.below(600_000));
        world.run_for(spell);
        for happened in any_fault(world, &mut run, &mut lasting) {
            *seen.borrow_mut().counts.entry(happened).or_default() += 1;
        }
        run.boot_dead(world, 0.4);
    }
    world.run_for(Duration::from_millis(200));
    seen.borrow_mut().over = true;
    end_all(world, &mut run, &mut lasting)?;
    // What is on its way may still happen, and hints arrive.
    world.run_for(Duration::from_secs(15));
    drop(tasks);
    let mut last = Vec::new();
    for host in &run.hosts {
        let mut end = world.spawn(host.node, settled(seen.clone(), keys));
        last = finished(world, &mut end, 4 * CONVERGE, "counting after the faults")??;
    }
    for host in &run.hosts {
        let mut end = world.spawn(host.node, alone(last.clone()));
        finished(world, &mut end, 4 * CONVERGE, "reading each replica")??;
    }
    for (kind, count) in &seen.borrow().counts {
        *counts.entry(kind).or_default() += count;
    }
    Ok(())
}
