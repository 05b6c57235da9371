//! A consensus group of three to five members, one shard each: clients write unique commands and read the whole list,
//! while members lose power, are killed, cut apart and slowed down.
//!
//! Checked: all members apply the same command at the same index; an acknowledged command is in every later read; a
//! read is a prefix of every later one; nothing appears that was not written, nothing twice; after the last fault the
//! group agrees again and all members hold the same list.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Instant, Prng};
use raft::network::{Kind, Wire};
use raft::{Member, Settings};
use runtime::Bug;
use runtime::sim::{NodeId, Task, World, main_of};

use crate::limits::CONVERGE;

const PORT: u16 = 7000;
const CLIENTS: usize = 3;

/// What every member has applied, by index; a second, different command at one index is a violation.
#[derive(Default)]
struct Applied {
    commands: BTreeMap<u64, (u64, Vec<u8>)>,
    violation: Option<String>,
}

impl Applied {
    fn apply(&mut self, member: u64, index: u64, term: u64, command: &[u8]) {
        let known = self.commands.entry(index).or_insert_with(|| (term, command.to_vec()));
        if (known.0, &known.1[..]) != (term, command) && self.violation.is_none() {
            self.violation = Some(format!(
                "member {member} applied {command:?} of term {term} at index {index}, another applied {:?} of term {}",
                known.1, known.0
            ));
        }
    }
}

/// What the clients saw.
#[derive(Default)]
struct History {
    next: u64,
    /// Commands and when they were acknowledged, if they were.
    written: BTreeMap<u64, Option<Instant>>,
    /// The longest list any finished read has seen, and when that read ended.
    longest: Vec<u64>,
    violation: Option<String>,
    acknowledged: u64,
    reads: u64,
}

struct Group {
    nodes: Vec<NodeId>,
    client: NodeId,
    main: Vec<runtime::Main>,
    applied: Arc<Mutex<Applied>>,
    history: Rc<RefCell<History>>,
    addresses: Vec<SocketAddr>,
}

fn address(member: u64) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, 0, member as u8]), PORT)
}

fn member_main(id: u64, members: BTreeMap<u64, SocketAddr>, applied: Arc<Mutex<Applied>>) -> runtime::Main {
    main_of(move || {
        let settings =
            Settings { id, members: members.clone(), folder: PathBuf::from("/raft"), snapshot_every: 16 };
        let applied = applied.clone();
        async move {
            let observer = Rc::new(move |index: u64, term: u64, command: &[u8]| {
                applied.lock().unwrap_or_else(PoisonError::into_inner).apply(id, index, term, command);
            });
            match Member::start(settings, observer).await {
                Ok(_member) => {
                    runtime::shutdown_requested().await;
                    0
                }
                Err(error) => {
                    runtime::error!("member {id} does not start: {error}");
                    1
                }
            }
        }
    })
}

fn found(world: &mut World, planted: Option<Bug>) -> Group {
    let count = if world.rng().chance(0.6) { 3 } else { 5 };
    let members: BTreeMap<u64, SocketAddr> = (1..=count).map(|id| (id, address(id))).collect();
    let applied = Arc::new(Mutex::new(Applied::default()));
    let (mut nodes, mut main) = (Vec::new(), Vec::new());
    for id in 1..=count {
        let node = world.add_node(address(id).ip());
        if let Some(bug) = planted {
            world.plant(node, bug);
        }
        nodes.push(node);
        main.push(member_main(id, members.clone(), applied.clone()));
    }
    let client = world.add_client(IpAddr::from([10, 0, 1, 1]));
    let addresses = members.into_values().collect();
    Group { nodes, client, main, applied, history: Rc::default(), addresses }
}

async fn ask(to: SocketAddr, kind: Kind, body: Vec<u8>) -> Option<Vec<u8>> {
    let asked = async {
        let mut wire = Wire::connect(to).await.ok()?;
        wire.ask(kind, &body).await.ok()
    };
    runtime::timeout(Duration::from_secs(3), asked).await.ok().flatten()
}

/// The numbers of all commands of a read's answer; None when it is not what members send.
fn commands(answer: &[u8]) -> Option<Vec<u64>> {
    let records = answer.chunks(12);
    records.map(|r| Some(u64::from_be_bytes(r.get(4..12)?.try_into().ok()?))).collect()
}

async fn write(to: SocketAddr, history: &Rc<RefCell<History>>) -> bool {
    let command = {
        let mut history = history.borrow_mut();
        history.next += 1;
        let command = history.next;
        history.written.insert(command, None);
        command
    };
    let done = ask(to, Kind::Write, command.to_be_bytes().to_vec()).await.is_some();
    if done {
        let mut history = history.borrow_mut();
        history.acknowledged += 1;
        history.written.insert(command, Some(runtime::now()));
    }
    done
}

async fn read(to: SocketAddr, history: &Rc<RefCell<History>>) -> bool {
    let start = runtime::now();
    let before = history.borrow().longest.clone();
    let Some(answer) = ask(to, Kind::Read, Vec::new()).await else { return false };
    let mut history = history.borrow_mut();
    history.reads += 1;
    let verdict = match commands(&answer) {
        Some(list) => history.check(start, &before, &list).map(|()| list),
        None => Err("a read's answer is garbled".to_string()),
    };
    match verdict {
        Ok(list) if history.longest.len() < list.len() => history.longest = list,
        Ok(_) => {}
        Err(text) => {
            history.violation.get_or_insert(text);
        }
    }
    true
}

impl History {
    fn check(&self, start: Instant, before: &[u64], list: &[u64]) -> Result<(), String> {
        if !list.starts_with(before) {
            return Err(format!(
                "a read of {} commands does not extend an earlier one of {}",
                list.len(),
                before.len()
            ));
        }
        let mut seen = std::collections::BTreeSet::new();
        for command in list {
            if !self.written.contains_key(command) {
                return Err(format!("command {command} was never written"));
            }
            if !seen.insert(*command) {
                return Err(format!("command {command} was applied twice"));
            }
        }
        let missing =
            self.written.iter().find(|(c, at)| at.is_some_and(|at| at < start) && !seen.contains(c));
        match missing {
            Some((command, _)) => {
                Err(format!("command {command} was acknowledged and is not in a later read"))
            }
            None => Ok(()),
        }
    }
}

fn start_clients(world: &mut World, group: &Group) -> Vec<Task<()>> {
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let (addresses, history) = (group.addresses.clone(), group.history.clone());
        tasks.push(world.spawn(group.client, async move {
            let mut to = addresses[0];
            loop {
                let choice = runtime::random_u64();
                let done = if choice.is_multiple_of(4) {
                    read(to, &history).await
                } else {
                    write(to, &history).await
                };
                if !done {
                    to = addresses[(choice >> 8) as usize % addresses.len()];
                }
                runtime::sleep(Duration::from_millis(choice >> 32 & 63)).await;
            }
        }));
    }
    tasks
}

fn fault(world: &mut World, group: &Group, rng: &mut Prng) {
    let node = |rng: &mut Prng| group.nodes[rng.below(group.nodes.len() as u64) as usize];
    let (a, b) = (node(rng), node(rng));
    match rng.below(8) {
        0..=2 if world.alive(a) => world.power_cut(a),
        3 if world.alive(a) => world.kill(a),
        4 if a != b => world.cut(a, b),
        5 if a != b => world.cut_one_way(a, b),
        6 => world.heal_all(),
        7 => {
            let others = group.nodes.iter().copied().filter(|n| *n != a).collect::<Vec<_>>();
            others.into_iter().for_each(|other| world.cut(a, other));
        }
        _ => world.reset_connections(a, b),
    }
}

fn boot_dead(world: &mut World, group: &Group, chance: f64, rng: &mut Prng) {
    for (at, node) in group.nodes.iter().enumerate() {
        if !world.alive(*node) && rng.chance(chance) {
            world.boot(*node, 1, group.main[at].clone());
        }
    }
}

fn violation(group: &Group) -> Result<(), String> {
    let applied = group.applied.lock().unwrap_or_else(PoisonError::into_inner).violation.clone();
    match applied.or_else(|| group.history.borrow().violation.clone()) {
        Some(text) => Err(text),
        None => Ok(()),
    }
}

/// Reads from every member until all hold the same list.
fn converge(world: &mut World, group: &Group) -> Result<(), String> {
    let (addresses, history) = (group.addresses.clone(), group.history.clone());
    let mut task = world.spawn(group.client, async move {
        loop {
            let to = addresses[runtime::random_u64() as usize % addresses.len()];
            if write(to, &history).await {
                break;
            }
            runtime::sleep(Duration::from_millis(100)).await;
        }
        loop {
            let to = addresses[runtime::random_u64() as usize % addresses.len()];
            if read(to, &history).await {
                return;
            }
            runtime::sleep(Duration::from_millis(100)).await;
        }
    });
    if !world.run_until(|_| task.done(), CONVERGE) {
        let down: Vec<_> = group.nodes.iter().filter(|n| !world.alive(**n)).collect();
        return Err(format!("no progress after all faults ended; members down: {down:?}"));
    }
    task.take();
    violation(group)?;
    let history = group.history.borrow();
    if history.acknowledged == 0 || history.reads == 0 {
        return Err("the run acknowledged nothing".to_string());
    }
    Ok(())
}

/// One run.
pub(crate) fn play(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<(), String> {
    let group = found(world, planted);
    let mut rng = Prng::new(seed ^ 0x72_6166_7421);
    boot_dead(world, &group, 1.0, &mut rng);
    world.run_for(Duration::from_secs(2));
    let clients = start_clients(world, &group);
    for _ in 0..4 + rng.below(8) {
        world.run_for(Duration::from_millis(20 + rng.below(800)));
        violation(&group)?;
        fault(world, &group, &mut rng);
        boot_dead(world, &group, 0.5, &mut rng);
    }
    world.heal_all();
    boot_dead(world, &group, 1.0, &mut rng);
    world.run_for(Duration::from_secs(1));
    boot_dead(world, &group, 1.0, &mut rng);
    drop(clients);
    converge(world, &group)
}
