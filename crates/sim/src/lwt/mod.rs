//! Lightweight transactions on three nodes, every row on all of them, with every fault of machines and links ([`crate::faults`]).
//!
//! Registers are made if they are not there, changed and deleted if they hold what was seen last, and read at SERIAL, by tasks on every node, which ask their
//! coordinator. A change also adds its value to a set, so that what a register holds says how many changes there were.
//!
//! Ballots of what was at rest for a moment are swept meanwhile, from nodes at random.
//!
//! The same of one of two datacenters at LOCAL_SERIAL ([`play_local`]), which must not care what becomes of the other.
//!
//! Checked: what was seen of each register is linearizable ([`history`]). When the faults are over every register can be changed through every node, and each
//! replica alone has what was agreed on; no ballot is left behind sweeps of what is at rest, and what comes then is decided as ever.

mod history;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{HostId, Prng, Token};
use coordinator::{Conditional, Coordinator, Error};
use mutation::{
    Cell, ColumnView, Deletion, Key, Liveness, Mutation, MutationBuilder, ReadAnswer, ReadCommand, RowView,
    Scope, TokenRange,
};
use paxos::Records;
use runtime::Bug;
use runtime::sim::{NodeId, Task, World};
use schema::TableId;
use types::Consistency;

use crate::Counts;
use crate::faults::{Lasting, any_fault, end_all};
use crate::host::Host;
use crate::limits::{CONVERGE, START};
use crate::lwt::history::{Call, Op, Value, exported, linearizable};
use crate::machines::{FAR, Run, clients_on, finished};
use crate::session::{Ask, Trouble, insist};
use crate::three::{prepare, prepare_nodes};

const TABLE: TableId = TableId(0x5a1c_395e_b41f_11e5_9f22_ba0b_e048_3c21);
/// Ordinals: the value that was written last, and every value since the last deletion. One that is lost shows although later ones were written.
const V: u16 = 0;
const S: u16 = 1;
/// A register holds its value times this, and how many values are in the set. More calls than this there are not.
const SET_MAX: i64 = 1_000;
/// Calls of one register: what each further one costs to explain grows with those that nobody answered.
pub(crate) const CALLS_MAX: usize = 60;
/// Calls of one register that nobody has answered, or will: each may have happened at any later time, and other checkers try them all.
const OPEN_MAX: usize = 10;
/// How long one transaction may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(2);

/// What clients have seen, by register.
pub(crate) struct Seen {
    /// No register has more calls than this: less than [`CALLS_MAX`] keeps some for later.
    pub(crate) calls_max: usize,
    calls: BTreeMap<u64, Vec<Call>>,
    /// Registers that clients let be for now, one bit each: their ballots can be swept.
    at_rest: u64,
    next_value: i64,
    counts: BTreeMap<&'static str, u64>,
    failed: Option<String>,
    pub(crate) over: bool,
    /// Among whom all is agreed on, and the levels of commits.
    serial: Consistency,
    commits: [Consistency; 3],
}

impl Default for Seen {
    fn default() -> Seen {
        let (calls, counts) = Default::default();
        let (serial, commits) =
            (Consistency::Serial, [Consistency::Quorum, Consistency::One, Consistency::All]);
        Seen {
            calls_max: CALLS_MAX,
            calls,
            at_rest: 0,
            next_value: 0,
            counts,
            failed: None,
            over: false,
            serial,
            commits,
        }
    }
}

impl Seen {
    fn rests(&self, key: u64) -> bool {
        self.at_rest >> key & 1 == 1
    }

    fn is_full(&self, key: u64) -> bool {
        let open = |calls: &[Call]| calls.iter().filter(|call| call.end.is_none()).count();
        self.calls.get(&key).is_some_and(|calls| self.calls_max <= calls.len() || OPEN_MAX <= open(calls))
    }

    fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// A call that is about to be made; it counts as without an answer until it has one.
    fn begin(&mut self, key: u64, op: Op) -> usize {
        let calls = self.calls.entry(key).or_default();
        calls.push(Call { start: runtime::now(), end: None, op });
        calls.len() - 1
    }

    fn end(&mut self, key: u64, at: usize, op: Op) {
        let call = &mut self.calls.entry(key).or_default()[at];
        (call.end, call.op) = (Some(runtime::now()), op);
    }
}

pub(crate) type Shared = Rc<RefCell<Seen>>;

/// Every row on three nodes.
pub(crate) const ON_THREE: &str = "{'class': 'SimpleStrategy', 'replication_factor': 3}";

/// Makes the table of registers, through each of these nodes.
pub(crate) async fn create_schema(nodes: Vec<SocketAddr>, replication: &str) -> Result<(), Trouble> {
    let keyspace = format!("CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {replication}");
    for to in nodes {
        let mut session = insist(to, START).await?;
        let statements = [
            keyspace.as_str(),
            "CREATE TABLE ks.l (k int PRIMARY KEY, v bigint, s set<bigint>) WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c21",
        ];
        for statement in statements {
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

/// What the register holds, by what was read.
fn held(answer: &ReadAnswer) -> Value {
    let partition = answer.partitions.first()?;
    let view = partition.view();
    let (_, body) = view.rows().next()?;
    let row = RowView::new(body);
    let deletion = view.deletion.max(row.deletion());
    let is_live =
        |cell: &Cell<'_>, deletion: Deletion| !cell.is_tombstone() && !deletion.deletes(cell.timestamp);
    let value = match row.column(V) {
        Some(ColumnView::Simple(cell)) if is_live(&cell, deletion) => {
            cell.value.and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_be_bytes)
        }
        _ => 0,
    };
    let count = match row.column(S) {
        Some(ColumnView::Complex(set)) => {
            let deletion = deletion.max(set.deletion);
            set.cells().filter(|(_, cell)| is_live(cell, deletion)).count() as i64
        }
        _ => 0,
    };
    (value != 0 || count != 0).then_some(value * SET_MAX + count)
}

/// What it holds when a fresh value is written to what it held.
fn after(old: Value, fresh: i64) -> Value {
    Some(fresh * SET_MAX + old.unwrap_or(0) % SET_MAX + 1)
}

/// If the register holds this, it is to hold that.
struct Swap {
    key: u64,
    command: ReadCommand,
    old: Value,
    new: Value,
}

impl Conditional for Swap {
    fn command(&self) -> &ReadCommand {
        &self.command
    }

    fn decide(&self, answer: &ReadAnswer, at: i64) -> Result<Option<Mutation>, String> {
        if held(answer) != self.old {
            return Ok(None);
        }
        let key = key_of(self.key);
        let mut builder = MutationBuilder::new(TABLE, key.token, &key.bytes);
        builder.write_row(&[], Liveness::NONE, Deletion::LIVE, |row| match self.new {
            Some(holds) => {
                let value = (holds / SET_MAX).to_be_bytes();
                row.simple(V, Cell::live(at, &value));
                row.complex_start(S, Deletion::LIVE);
                row.complex_cell(&value, Cell::live(at, &[]));
                row.complex_end();
            }
            None => {
                let local_time = (at / 1_000_000) as u32;
                row.simple(V, Cell::tombstone(at, local_time));
                row.complex_start(S, Deletion { timestamp: at, local_time });
                row.complex_end();
            }
        });
        Ok(Some(builder.finish()))
    }
}

/// What came of a swap: whether it was applied, and what was there otherwise. `None`: nobody knows; an error: it did not happen.
async fn swap(
    coordinator: &Rc<Coordinator>,
    (key, old, new): (u64, Value, Value),
    (serial, commit): (Consistency, Consistency),
) -> Result<Option<(bool, Value)>, Error> {
    let what = Swap { key, command: command(key), old, new };
    match coordinator.cas(&what, serial, commit, WITHIN).await {
        Ok(decided) => Ok(Some((decided.applied, held(&decided.answer)))),
        Err(error @ (Error::Unavailable { .. } | Error::Invalid(_))) => Err(error),
        Err(_) => Ok(None),
    }
}

/// One client: transactions of this node until it dies or the faults are over.
pub(crate) async fn client(seen: Shared, mut rng: Prng, keys: u64) {
    while !seen.borrow().over {
        let Some(coordinator) = runtime::try_local::<Coordinator>() else {
            runtime::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let key = rng.below(keys);
        let waits = seen.borrow().is_full(key) || seen.borrow().rests(key);
        if coordinator.schema().table_by_id(TABLE).is_none() || waits {
            runtime::sleep(Duration::from_millis(if waits { 2 } else { 20 })).await;
            continue;
        }
        if rng.chance(0.4) {
            read(&coordinator, &seen, key).await;
        } else {
            change(&coordinator, &seen, key, &mut rng).await;
        }
        if rng.chance(0.3) {
            runtime::sleep(Duration::from_micros(rng.below(20_000))).await;
        }
    }
}

async fn read(coordinator: &Rc<Coordinator>, seen: &Shared, key: u64) {
    let start = runtime::now();
    let serial = seen.borrow().serial;
    if let Ok(answer) = coordinator.read_serial(&command(key), serial, WITHIN).await {
        let call = Call { start, end: Some(runtime::now()), op: Op::Read(held(&answer)) };
        let mut seen = seen.borrow_mut();
        seen.calls.entry(key).or_default().push(call);
        seen.count("serial reads");
    }
}

async fn change(coordinator: &Rc<Coordinator>, seen: &Shared, key: u64, rng: &mut Prng) {
    let (old, new) = {
        let mut seen = seen.borrow_mut();
        seen.next_value += 1;
        let fresh = seen.next_value;
        // What some client has seen last, right or not by now.
        let last = seen.calls.get(&key).and_then(|calls| {
            calls.iter().rev().find_map(|call| match call.op {
                Op::Read(value) => Some(value),
                Op::Swap { new, applied: Some(true), .. } => Some(new),
                Op::Swap { .. } | Op::Nothing => None,
            })
        });
        let old = last.unwrap_or(None);
        (old, if old.is_some() && rng.chance(0.15) { None } else { after(old, fresh) })
    };
    let op = |applied| Op::Swap { old, new, applied };
    let at = seen.borrow_mut().begin(key, op(None));
    let levels = {
        let seen = seen.borrow();
        (seen.serial, seen.commits[rng.below(3) as usize])
    };
    let outcome = swap(coordinator, (key, old, new), levels).await;
    let mut seen = seen.borrow_mut();
    match outcome {
        Ok(Some((applied, held))) => {
            seen.end(key, at, op(Some(applied)));
            if !applied {
                // What it was refused for is as good as a read of that time.
                let start = seen.calls[&key][at].start;
                let call = Call { start, end: Some(runtime::now()), op: Op::Read(held) };
                seen.calls.entry(key).or_default().push(call);
            }
            seen.count(if applied { "applied" } else { "not applied" });
        }
        Ok(None) => seen.count("unknown"),
        // A condition that never held: it must not have happened.
        Err(_) => {
            seen.end(key, at, Op::Nothing);
            seen.count("unavailable");
        }
    }
}

/// When nothing disturbs any more: a register is changed, and its commit confirmed at this level. What it holds then.
async fn change_at_end(
    coordinator: &Rc<Coordinator>,
    seen: &Shared,
    key: u64,
    commit: Consistency,
) -> Result<Value, String> {
    let (start, serial) = (runtime::now(), seen.borrow().serial);
    let answer = coordinator.read_serial(&command(key), serial, CONVERGE).await;
    let answer = answer.map_err(|error| format!("a SERIAL read of {key} at the end: {error}"))?;
    let old = held(&answer);
    let (at, new) = {
        let mut seen = seen.borrow_mut();
        seen.next_value += 1;
        let new = after(old, seen.next_value);
        let call = Call { start, end: Some(runtime::now()), op: Op::Read(old) };
        seen.calls.entry(key).or_default().push(call);
        (seen.begin(key, Op::Swap { old, new, applied: None }), new)
    };
    match swap(coordinator, (key, old, new), (serial, commit)).await {
        Ok(Some((true, _))) => {
            seen.borrow_mut().end(key, at, Op::Swap { old, new, applied: Some(true) });
            Ok(new)
        }
        other => {
            Err(format!("at the end, with nobody else there, {key} was not changed from {old:?}: {other:?}"))
        }
    }
}

/// Has this node sweep what was at rest for so long, of the ranges of which it is the first holder. Errors: as of [`Coordinator::sweep`].
async fn sweep(seen: Shared, age: Duration) -> Result<(), String> {
    let Some(coordinator) = runtime::try_local::<Coordinator>() else { return Err("it starts".to_string()) };
    let swept = coordinator.sweep(age).await?;
    *seen.borrow_mut().counts.entry("swept").or_default() += swept;
    Ok(())
}

/// Some of these nodes begin to sweep, as they would every few hours.
pub(crate) fn sweep_by_chance(world: &mut World, hosts: &[Host], rng: &mut Prng, seen: &Shared) {
    for host in hosts {
        if rng.chance(0.5) && world.alive(host.node) {
            // Often of no age at all: whatever nobody is at work on at the moment.
            let age = Duration::from_micros(rng.below(100_000).saturating_sub(50_000));
            drop(world.spawn(host.node, sweep(seen.clone(), age)));
        }
    }
}

/// Partitions of which this node knows any ballot.
async fn with_ballots() -> Result<usize, String> {
    let whole = TokenRange::new(Token(i64::MIN), Token(i64::MAX));
    let command = Records::all(whole, runtime::unix_seconds());
    let local = runtime::local::<Coordinator>().local().clone();
    let answer = local.read(&command).await.map_err(|error| error.to_string())?;
    let states = Records::states(&answer).map_err(|error| error.to_string())?;
    Ok(states.iter().filter(|(_, _, state)| !state.last().is_none()).count())
}

/// Times that all nodes sweep until nothing is left: the first one settles what was open, and what tells others of that may be on its way.
const SWEEPS: usize = 3;
/// Time between them, and half of it is longer than clocks are apart: everything is at rest then.
const AT_REST: Duration = Duration::from_secs(8);

/// When nothing disturbs any more: all ballots can be swept.
fn sweep_all(world: &mut World, run: &Run, seen: &Shared) -> Result<(), String> {
    for _ in 0..SWEEPS {
        for host in &run.hosts {
            let mut swept = world.spawn(host.node, sweep(seen.clone(), AT_REST / 2));
            let swept = finished(world, &mut swept, 4 * CONVERGE, "sweeping ballots")?;
            swept.map_err(|text| format!("{} does not sweep: {text}", host.ip))?;
        }
        world.run_for(AT_REST);
    }
    for host in &run.hosts {
        let mut left = world.spawn(host.node, with_ballots());
        match finished(world, &mut left, START, "looking for ballots")?? {
            0 => {}
            left => return Err(format!("{} has ballots of {left} partitions, and all was swept", host.ip)),
        }
    }
    Ok(())
}

/// On one node, when nothing disturbs any more: each register is changed at ALL, and what this node's replica has alone is that.
pub(crate) async fn settled(seen: Shared, keys: u64, here: HostId) -> Result<(), String> {
    let coordinator = runtime::local::<Coordinator>();
    for key in 0..keys {
        let new = change_at_end(&coordinator, &seen, key, Consistency::All).await?;
        has_alone(&coordinator, (key, new)).await.map_err(|text| format!("{here} {text}"))?;
    }
    Ok(())
}

/// Whether the replica of this node holds that of a register, whatever others have.
async fn has_alone(coordinator: &Rc<Coordinator>, (key, new): (u64, Value)) -> Result<(), String> {
    let alone = coordinator.local().read(&command(key)).await.map_err(|error| error.to_string())?;
    // A commit of long ago that it missed is in a hint or waits for a repair; what is decided is decided with a quorum that has it.
    let value = |holds: Value| holds.unwrap_or(0) / SET_MAX;
    if value(held(&alone)) != value(new) {
        return Err(format!("has {:?} of {key}, and {new:?} is agreed on", held(&alone)));
    }
    Ok(())
}

/// Whether all that was seen is linearizable, and how often what happened. The log of this client has every call behind the word `history`.
pub(crate) fn judged(
    world: &mut World,
    client: NodeId,
    seen: &Shared,
    counts: &mut Counts,
) -> Result<(), String> {
    let of_key = |(key, calls): (&u64, &Vec<Call>)| -> Vec<String> {
        calls.iter().filter_map(|call| exported(*key, call)).collect()
    };
    let lines: Vec<String> = seen.borrow().calls.iter().flat_map(of_key).collect();
    let mut task = world.spawn(client, async move {
        for line in lines {
            runtime::info!("history {line}");
        }
    });
    finished(world, &mut task, START, "telling the history")?;
    let seen = seen.borrow();
    for (kind, count) in &seen.counts {
        *counts.entry(kind).or_default() += count;
    }
    if let Some(failed) = &seen.failed {
        return Err(failed.clone());
    }
    for (key, calls) in &seen.calls {
        linearizable(calls).map_err(|text| format!("register {key}: {text}"))?;
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
    let run = prepare(world, seed, planted);
    let all = run.count();
    play_on(world, run, Shared::default(), (all, ON_THREE), counts)
}

/// Of [`play_local`]: the nodes of the first datacenter, and of both.
const NEAR: usize = 3;
const OF_BOTH: usize = 5;
/// Hints have arrived by then, whatever they wait for.
const HINTED: Duration = Duration::from_secs(30);

/// One run of two datacenters, of three nodes and of two, each with every row. What is agreed on at LOCAL_SERIAL in the first one reaches the second one in
/// the end, whatever became of it meanwhile.
pub(crate) fn play_local(
    world: &mut World,
    seed: u64,
    planted: Option<Bug>,
    counts: &mut Counts,
) -> Result<(), String> {
    let run = prepare_nodes(world, seed, planted, OF_BOTH, |n| NEAR <= n);
    let commits = [Consistency::LocalQuorum, Consistency::LocalOne, Consistency::EachQuorum];
    let seen = Seen { serial: Consistency::LocalSerial, commits, ..Seen::default() };
    let replication =
        format!("{{'class': 'NetworkTopologyStrategy', 'datacenter1': {NEAR}, '{FAR}': {}}}", OF_BOTH - NEAR);
    play_on(world, run, Rc::new(RefCell::new(seen)), (NEAR, &replication), counts)
}

/// Clients on the first nodes, faults everywhere.
fn play_on(
    world: &mut World,
    mut run: Run,
    seen: Shared,
    (near, replication): (usize, &str),
    counts: &mut Counts,
) -> Result<(), String> {
    // Commits are as durable as the mode says; promises and acceptances always.
    if run.rng.chance(0.5) {
        let sync = node::config::CommitlogSync::Periodic(Duration::from_millis(10 + run.rng.below(2_000)));
        run.hosts.iter_mut().for_each(|host| host.config.commitlog_sync = sync);
    }
    run.all_ready(world)?;
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let replication = replication.to_owned();
    let mut schema = world.spawn(run.client, async move { create_schema(nodes, &replication).await });
    finished(world, &mut schema, 2 * START, "making the schema")?
        .map_err(|trouble| format!("the schema is not made: {trouble}"))?;
    // In periodic mode the schema must survive what comes.
    world.run_for(Duration::from_secs(3));
    let keys = 1 + run.rng.below(4);
    let mut tasks: Vec<Vec<Task<()>>> = (0..near).map(|_| Vec::new()).collect();
    let mut lasting = Lasting::default();
    let spells = 4 + run.rng.below(6) as usize;
    for spell in 0..spells {
        // Calls are kept for every fault: without a limit they are used up before the second one.
        seen.borrow_mut().calls_max = CALLS_MAX * (spell + 1) / spells;
        seen.borrow_mut().at_rest = run.rng.below(1 << keys);
        // Only where all answer anything is swept.
        if run.rng.chance(0.3) {
            lasting.heal(world, &run);
            run.boot_dead(world, 1.0);
        }
        let clients = |rng| client(seen.clone(), rng, keys);
        clients_on(world, &run.hosts[..near], &mut run.rng, 2, &mut tasks, clients);
        for part in 0..2 {
            world.run_for(Duration::from_micros(run.rng.below(300_000)));
            if part == 0 {
                sweep_by_chance(world, &run.hosts, &mut run.rng, &seen);
            }
        }
        if near < run.count() && run.rng.chance(0.2) {
            run.cut_datacenters(world, false);
        }
        for happened in any_fault(world, &mut run, &mut lasting) {
            seen.borrow_mut().count(happened);
        }
        run.boot_dead(world, 0.4);
    }
    world.run_for(Duration::from_millis(200));
    seen.borrow_mut().over = true;
    end_all(world, &mut run, &mut lasting)?;
    // What is on its way may still happen, and hints arrive.
    world.run_for(Duration::from_secs(15));
    drop(tasks);
    if run.rng.chance(0.5) {
        sweep_all(world, &run, &seen)?;
    }
    if near < run.count() {
        reaches_the_other(world, &run, &seen, (near, keys))?;
    }
    for host in &run.hosts[..near] {
        let here = HostId(host.config.host_id.unwrap_or_default());
        let mut end = world.spawn(host.node, settled(seen.clone(), keys, here));
        finished(world, &mut end, 4 * CONVERGE, "changing everything after the faults")??;
    }
    judged(world, run.client, &seen, counts)
}

/// Changes every register in the first datacenter while the other is cut off: when both hear each other again, hints bring it there, and nothing else does.
fn reaches_the_other(
    world: &mut World,
    run: &Run,
    seen: &Shared,
    (near, keys): (usize, u64),
) -> Result<(), String> {
    run.cut_datacenters(world, false);
    let shared = seen.clone();
    let mut changed = world.spawn(run.hosts[0].node, async move {
        let coordinator = runtime::local::<Coordinator>();
        let mut all = Vec::new();
        for key in 0..keys {
            all.push((key, change_at_end(&coordinator, &shared, key, Consistency::LocalQuorum).await?));
        }
        Ok::<_, String>(all)
    });
    let changed = finished(world, &mut changed, 4 * CONVERGE, "changing everything in one datacenter")??;
    // Whoever has not confirmed it by now gets a hint.
    world.run_for(2 * WITHIN);
    world.heal_all();
    world.run_for(HINTED);
    for host in &run.hosts[near..] {
        let changed = changed.clone();
        let mut has = world.spawn(host.node, async move {
            let coordinator = runtime::local::<Coordinator>();
            for held in changed {
                has_alone(&coordinator, held).await?;
            }
            Ok::<_, String>(())
        });
        let has = finished(world, &mut has, CONVERGE, "reading in the other datacenter")?;
        has.map_err(|text| format!("{}, of the other datacenter: {text}", host.ip))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
