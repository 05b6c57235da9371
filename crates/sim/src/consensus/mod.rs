//! A consensus group on three to seven machines, one shard each: clients write unique commands and read the whole list, an operator
//! takes members in, lets them vote, replaces and removes them, while machines lose power, are killed, cut apart, slowed down,
//! and their disks fail to sync. Some keep their applied state on disk, some in memory; snapshots are frequent.
//!
//! Checked: all members apply the same command at the same index; an acknowledged command is in every later read; a
//! read is a prefix of every later one; nothing appears that was not written or was said not to be done, nothing twice; after the
//! last fault the group agrees again and every member catches up.

mod history;
mod member;
mod wire;

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{HostId, Prng};
use runtime::Bug;
use runtime::sim::{NodeId, World};

use crate::limits::CONVERGE;
use history::{Applied, History};
use member::{CHANGE, DONE, NOT_DONE, PULL, READ, SHOW, STATUS, Setup, WRITE};
use wire::{Wire, address, machine};

const CLIENTS: usize = 3;
/// Longest a client waits for an answer: longer than a member works on it.
const ANSWER: Duration = Duration::from_secs(6);

struct Group {
    nodes: Vec<NodeId>,
    client: NodeId,
    setups: Vec<Arc<Setup>>,
    /// The host that each machine runs, or ran last.
    booted: RefCell<Vec<HostId>>,
    applied: Arc<Mutex<Applied>>,
    history: Rc<RefCell<History>>,
    /// What clients know of the members.
    known: Rc<RefCell<Known>>,
    /// Clients and the operator end.
    over: Rc<Cell<bool>>,
}

/// The members as a client last heard of them.
#[derive(Default, Clone, Debug)]
struct Known {
    settled: bool,
    voters: Vec<HostId>,
    learners: Vec<HostId>,
}

fn build(world: &mut World, planted: Option<Bug>) -> Group {
    let machines = 3 + world.rng().below(5);
    let applied = Arc::new(Mutex::new(Applied::default()));
    let (mut nodes, mut setups) = (Vec::new(), Vec::new());
    let durable = world.rng().below(3);
    for machine in 1..=machines {
        let node = world.add_node(address(machine).ip());
        if let Some(bug) = planted {
            world.plant(node, bug);
        }
        nodes.push(node);
        let snapshot_every = 4 + world.rng().below(24);
        setups.push(Arc::new(Setup {
            machine,
            wiped: AtomicU64::new(0),
            durable: durable == 0 || (durable == 1 && world.rng().chance(0.5)),
            snapshot_every,
            keep_entries: world.rng().below(snapshot_every),
            applied: applied.clone(),
        }));
    }
    let client = world.add_client(IpAddr::from([10, 0, 1, 1]));
    let booted = RefCell::new(vec![HostId::default(); setups.len()]);
    Group {
        nodes,
        client,
        setups,
        booted,
        applied,
        history: Rc::default(),
        known: Rc::default(),
        over: Rc::default(),
    }
}

async fn ask(to: SocketAddr, tag: u8, body: &[u8]) -> Option<(u8, Vec<u8>)> {
    let asked = async {
        let mut wire = Wire::connect(to).await.ok()?;
        wire.ask(tag, body).await.ok()
    };
    runtime::timeout(ANSWER, asked).await.ok().flatten()
}

/// The numbers of all commands of a read's answer; None when it is not what members send.
fn commands(answer: &[u8]) -> Option<Vec<u64>> {
    answer.chunks(8).map(|r| Some(u64::from_be_bytes(r.try_into().ok()?))).collect()
}

async fn write(to: SocketAddr, history: &Rc<RefCell<History>>) -> bool {
    let command = {
        let mut history = history.borrow_mut();
        history.next += 1;
        let command = history.next;
        history.written.insert(command, None);
        command
    };
    let answer = ask(to, WRITE, &command.to_be_bytes()).await.map(|(status, _)| status);
    let mut history = history.borrow_mut();
    match answer {
        Some(DONE) => {
            history.acknowledged += 1;
            history.written.insert(command, Some(runtime::now()));
        }
        Some(NOT_DONE) => {
            history.refused.insert(command);
        }
        _ => {}
    }
    answer == Some(DONE)
}

async fn read(to: SocketAddr, history: &Rc<RefCell<History>>) -> bool {
    let start = runtime::now();
    let before = history.borrow().longest.clone();
    let Some((DONE, answer)) = ask(to, READ, &[]).await else { return false };
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

async fn learn_members(to: SocketAddr, known: &Rc<RefCell<Known>>) -> bool {
    let Some((DONE, answer)) = ask(to, STATUS, &[]).await else { return false };
    let Some((head, hosts)) = answer.split_at_checked(2) else { return false };
    let Some(mut voters) = member::hosts(hosts) else { return false };
    if voters.is_empty() {
        return false;
    }
    let learners = voters.split_off(usize::from(head[1]));
    let mut known = known.borrow_mut();
    known.settled = head[0] == 1;
    (known.voters, known.learners) = (voters, learners);
    true
}

fn pick<T: Copy>(of: &[T]) -> Option<T> {
    let at = (runtime::random_u64() as usize).checked_rem(of.len())?;
    of.get(at).copied()
}

/// One step of the operator: a word and the hosts it is about.
fn next_change(known: &Known, hosts: &[HostId]) -> Option<(u8, Vec<HostId>)> {
    let members: Vec<HostId> = known.voters.iter().chain(&known.learners).copied().collect();
    let outside: Vec<HostId> = hosts.iter().copied().filter(|host| !members.contains(host)).collect();
    match runtime::random_u64() % 8 {
        0..=2 if !outside.is_empty() => Some((b'a', vec![pick(&outside)?])),
        3 if known.learners.len() > 1 || outside.is_empty() => Some((b'r', vec![pick(&known.learners)?])),
        choice => {
            let wanted = match (choice, members.len()) {
                (_, 0..=2) => return Some((b'a', vec![pick(&outside)?])),
                (7, _) => 1,
                (6, 5..) => 5,
                _ => 3,
            };
            let mut pool = members;
            while pool.len() > wanted {
                let at = runtime::random_u64() as usize % pool.len();
                pool.remove(at);
            }
            Some((b'v', pool))
        }
    }
}

async fn operate(addresses: &[SocketAddr], setups: &[Arc<Setup>], known: &Rc<RefCell<Known>>) {
    let Some(to) = pick(addresses) else { return };
    if !learn_members(to, known).await {
        return;
    }
    let hosts: Vec<HostId> = setups.iter().map(|setup| setup.host()).collect();
    let Some((word, about)) = next_change(&known.borrow().clone(), &hosts) else { return };
    let mut body = vec![word];
    about.iter().for_each(|host| body.extend(host.to_bytes()));
    let answer = ask(to, CHANGE, &body).await;
    if word == b'r' && answer.is_some_and(|(status, _)| status == DONE) {
        // Out for good: the machine comes back as another host, with an empty disk.
        let out: Vec<_> = setups.iter().filter(|setup| about.contains(&setup.host())).collect();
        for setup in out {
            setup.wiped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Starts them; they go on until the group says that all is over.
fn start_clients(world: &mut World, group: &Group) {
    let addresses: Vec<SocketAddr> = group.setups.iter().map(|setup| address(setup.machine)).collect();
    for _ in 0..CLIENTS {
        let (addresses, history, over) = (addresses.clone(), group.history.clone(), group.over.clone());
        drop(world.spawn(group.client, async move {
            let mut to = addresses[0];
            while !over.get() {
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
    let (known, setups, over) = (group.known.clone(), group.setups.clone(), group.over.clone());
    drop(world.spawn(group.client, async move {
        while !over.get() {
            operate(&addresses, &setups, &known).await;
            runtime::sleep(Duration::from_millis(runtime::random_u64() % 500)).await;
        }
    }));
    pull_at_random(world, group);
}

/// Lets members that are behind pull from others, whoever leads.
fn pull_at_random(world: &mut World, group: &Group) {
    let (setups, history, over) = (group.setups.clone(), group.history.clone(), group.over.clone());
    drop(world.spawn(group.client, async move {
        while !over.get() {
            runtime::sleep(Duration::from_millis(runtime::random_u64() % 300)).await;
            let at = runtime::random_u64() as usize;
            let (to, from) = (&setups[at % setups.len()], &setups[(at >> 16) % setups.len()]);
            if to.machine != from.machine {
                let answer = ask(address(to.machine), PULL, &from.host().to_bytes()).await;
                history.borrow_mut().pulled += u64::from(answer.is_some_and(|(status, _)| status == DONE));
            }
        }
    }));
}

fn fault(world: &mut World, group: &Group, rng: &mut Prng) {
    let node = |rng: &mut Prng| group.nodes[rng.below(group.nodes.len() as u64) as usize];
    let (a, b) = (node(rng), node(rng));
    let micros = Duration::from_micros;
    match rng.below(12) {
        0..=2 if world.alive(a) => world.power_cut(a),
        3 if world.alive(a) => world.kill(a),
        4 if a != b => world.cut(a, b),
        5 if a != b => world.cut_one_way(a, b),
        6 => world.heal_all(),
        7 => {
            let others = group.nodes.iter().copied().filter(|n| *n != a).collect::<Vec<_>>();
            others.into_iter().for_each(|other| world.cut(a, other));
        }
        8 => {
            let longest = micros(100 + rng.below(300_000));
            world.set_delay(micros(50), longest, 0.01);
        }
        9 if world.alive(a) => world.fail_next_syncs(a, 1 + rng.below(2) as u32),
        10 => {
            let count = 1 + rng.below(group.nodes.len() as u64) as usize;
            group
                .nodes
                .iter()
                .take(count)
                .filter(|n| world.alive(**n))
                .copied()
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|n| world.power_cut(n));
        }
        _ => world.reset_connections(a, b),
    }
}

fn boot_dead(world: &mut World, group: &Group, chance: f64, rng: &mut Prng) {
    for (at, node) in group.nodes.iter().enumerate() {
        let setup = &group.setups[at];
        let host = &mut group.booted.borrow_mut()[at];
        if world.alive(*node) && *host != setup.host() {
            world.kill(*node);
        }
        if !world.alive(*node) && rng.chance(chance) {
            *host = setup.host();
            world.boot(*node, 1, member::main(setup.clone()));
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

/// Time between two looks at who has ended while the group converges.
const REBOOT: Duration = Duration::from_secs(1);

/// A write and a read through any machine, then a read of every member.
fn converge(world: &mut World, group: &Group, rng: &mut Prng) -> Result<(), String> {
    let addresses: Vec<SocketAddr> = group.setups.iter().map(|setup| address(setup.machine)).collect();
    let (history, known, setups) = (group.history.clone(), group.known.clone(), group.setups.clone());
    let stage = Rc::new(RefCell::new(String::new()));
    let at = stage.clone();
    let mut task = world.spawn(group.client, async move {
        let pause = || runtime::sleep(Duration::from_millis(100));
        *at.borrow_mut() = "writing".to_string();
        // In turn: who is not in the group keeps a client waiting, and chance may ask nobody else until time is up.
        let mut turn = addresses.iter().cycle();
        while let Some(to) = turn.next()
            && !write(*to, &history).await
        {
            pause().await;
        }
        *at.borrow_mut() = "reading from any".to_string();
        while let Some(asked) = turn.next().copied() {
            // Who is read from knows the members as they are; who is out of the group may not have heard of it.
            if read(asked, &history).await && learn_members(asked, &known).await {
                let members = known.borrow().clone();
                // A host whose addition had an unknown outcome may be a learner that does not exist.
                let real = |member: &&HostId| setups.iter().any(|setup| setup.host() == **member);
                let there = members.voters.iter().chain(members.learners.iter().filter(real));
                let mut to = there.copied().collect::<Vec<HostId>>();
                while let Some(member) = to.last() {
                    *at.borrow_mut() = format!("reading from {member} of {members:?} as {asked} knows them");
                    if !read(address(machine(*member)), &history).await {
                        break;
                    }
                    to.pop();
                }
                if to.is_empty() {
                    return;
                }
            }
            pause().await;
        }
    });
    let until = world.now() + CONVERGE;
    while !world.run_until(|_| task.done(), REBOOT) && world.now() < until {
        // A sync that was to fail may come only now.
        boot_dead(world, group, 1.0, rng);
    }
    if !task.done() {
        let down: Vec<_> = group.nodes.iter().filter(|n| !world.alive(**n)).collect();
        let shown = show(world, group);
        let stage = stage.borrow();
        return Err(format!("no progress after all faults ended, {stage}; machines down: {down:?}\n{shown}"));
    }
    task.take();
    violation(group)?;
    let history = group.history.borrow();
    if history.acknowledged == 0 || history.reads == 0 {
        return Err("the run acknowledged nothing".to_string());
    }
    Ok(())
}

/// What each machine says of the group.
fn show(world: &mut World, group: &Group) -> String {
    let machines: Vec<u64> = group.setups.iter().map(|setup| setup.machine).collect();
    let mut task = world.spawn(group.client, async move {
        let mut lines = Vec::new();
        for machine in machines {
            let answer = ask(address(machine), SHOW, &[]).await;
            let text = answer.map(|(_, text)| String::from_utf8_lossy(&text).into_owned());
            lines.push(format!("machine {machine}: {}", text.unwrap_or_default()));
        }
        lines.join("\n")
    });
    world.run_until(|_| task.done(), CONVERGE);
    task.take().unwrap_or_default()
}

/// One run.
pub(crate) fn play(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<(), String> {
    let group = build(world, planted);
    let mut rng = Prng::new(seed ^ 0x72_6166_7421);
    boot_dead(world, &group, 1.0, &mut rng);
    start_clients(world, &group);
    world.run_for(Duration::from_secs(2 + rng.below(6)));
    for _ in 0..4 + rng.below(12) {
        world.run_for(Duration::from_millis(20 + rng.below(2500)));
        violation(&group)?;
        fault(world, &group, &mut rng);
        boot_dead(world, &group, 0.5, &mut rng);
    }
    world.heal_all();
    world.set_delay(Duration::from_micros(50), Duration::from_millis(2), 0.0);
    group.over.set(true);
    for _ in 0..3 {
        world.run_for(Duration::from_secs(1));
        boot_dead(world, &group, 1.0, &mut rng);
    }
    converge(world, &group, &mut rng)
}
