//! Nodes of some shards in a simulated network: who may connect, who is up, what becomes of calls.

mod calls;
mod chaos;
mod greetings;
mod liveness;
mod encryption;

use crate::{
    Event, EventKind, Facts, Gatekeeper, Hello, Identity, Links, LocalFuture, Outgoing, Pool, Recorded,
    Refusal, RefusalKind, Registry, Request, Responder, Serve, Target,
};
use base::HostId;
use runtime::sim::{NodeId, SimConfig, Task, World, main_of};
use runtime::{Group, ShardId};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Answers the body behind the serving shard's number, within the step.
const ECHO: u8 = 1;
/// Answers after so many milliseconds, a u32, that the body says.
const SLOW: u8 = 2;
/// Answers so many bytes, a u32, as the body says.
const LARGE: u8 = 3;
/// Ends without an answer.
const GIVE_UP: u8 = 4;
/// Names three more calls: answers its own, then the first of them, gives up the second and never answers the third.
const SEVERAL: u8 = 5;
/// Registered by nobody.
const UNKNOWN: u8 = 99;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::new(ip(last), 7000)
}

fn host(last: u8) -> HostId {
    HostId(u128::from(last))
}

/// What a node is, as a test may change it at any time.
struct Rules {
    identity: Mutex<Identity>,
    banned: Mutex<Vec<HostId>>,
    recorded: Mutex<BTreeMap<HostId, Recorded>>,
    facts: Mutex<Facts>,
    events: Mutex<Vec<Event>>,
    begun: Mutex<usize>,
    /// Whether the port is encrypted, and which keys are used, by the names of their files.
    security: Mutex<Security>,
}

/// A node's encryption.
#[derive(Clone, Copy)]
struct Security {
    port: tls::Encryption,
    /// Of accepted and of made connections, and whether certificates are wanted.
    keys: Option<([&'static str; 2], [&'static str; 2], tls::ClientAuth)>,
    /// Whether peers are encrypted to.
    encrypt: bool,
}

impl Rules {
    fn new(last: u8, shards: u16) -> Arc<Rules> {
        let identity = Identity {
            cluster_name: "test".into(),
            cluster_id: 1,
            host: host(last),
            starts: 1,
            shards,
            address: Some(address(last)),
            release: "0.1".into(),
            ..Identity::default()
        };
        Arc::new(Rules {
            identity: Mutex::new(identity),
            banned: Mutex::default(),
            recorded: Mutex::default(),
            facts: Mutex::new(Facts { starts: 1, ..Facts::default() }),
            events: Mutex::default(),
            begun: Mutex::default(),
            security: Mutex::new(Security { port: tls::Encryption::None, keys: None, encrypt: false }),
        })
    }

    fn change(&self, change: impl FnOnce(&mut Identity)) {
        change(&mut self.identity.lock().expect("no test panics with it"));
    }

    /// What happened to a peer so far, in words; what it says of itself apart from that.
    fn story(&self, of: HostId) -> Vec<String> {
        let events = self.events.lock().expect("as above");
        let word = |event: &Event| match &event.kind {
            EventKind::Up(hello) => Some(format!("up {}", hello.node.starts)),
            EventKind::Down(reason) => Some(format!("down: {reason}")),
            EventKind::Moved(address) => Some(format!("moved to {address}")),
            EventKind::Met(hello) => Some(format!("met {}", hello.node.starts)),
            EventKind::Facts(_) => None,
        };
        events.iter().filter(|event| event.host == of).filter_map(word).collect()
    }

    fn facts_of(&self, of: HostId) -> Vec<Facts> {
        let events = self.events.lock().expect("as above");
        let facts = |event: &Event| match event.kind {
            EventKind::Facts(facts) if event.host == of => Some(facts),
            _ => None,
        };
        events.iter().filter_map(facts).collect()
    }
}

struct Gate(Arc<Rules>);

impl Gatekeeper for Gate {
    fn identity(&self) -> Identity {
        self.0.identity.lock().expect("as above").clone()
    }

    fn check(&self, theirs: &Hello) -> Result<(), Refusal> {
        if self.0.banned.lock().expect("as above").contains(&theirs.node.host) {
            return Err(Refusal::new(RefusalKind::Banned, format!("host {} is banned", theirs.node.host)));
        }
        let recorded = self.0.recorded.lock().expect("as above").get(&theirs.node.host).copied();
        theirs.judge(&self.identity(), recorded.as_ref(), runtime::unix_micros())
    }

    fn facts(&self) -> Facts {
        *self.0.facts.lock().expect("as above")
    }
}

fn number(request: &Request<'_>) -> usize {
    let bytes = request.body.first_chunk::<4>().copied().unwrap_or_default();
    u32::from_be_bytes(bytes) as usize
}

/// Ends without an answer.
struct GiveUp;

impl Serve for GiveUp {
    fn begin(&self, _: &Request<'_>, answer: Responder) -> LocalFuture {
        drop(answer);
        Box::pin(std::future::ready(()))
    }
}

struct Several;

impl Serve for Several {
    fn begin(&self, request: &Request<'_>, answer: Responder) -> LocalFuture {
        let calls =
            request.body.chunks_exact(8).map(|call| u64::from_be_bytes(call.try_into().expect("eight")));
        let [first, second, third] =
            calls.map(|call| answer.beside(call)).collect::<Vec<_>>().try_into().ok().expect("three");
        answer.send(|out| out.push(0));
        Box::pin(async move {
            runtime::sleep(SECOND / 100).await;
            first.send(|out| out.push(1));
            drop(second);
            runtime::sleep(60 * SECOND).await;
            drop(third);
        })
    }
}

fn registry(rules: &Arc<Rules>) -> Registry {
    let count = |rules: &Arc<Rules>| *rules.begun.lock().expect("as above") += 1;
    let (echoes, slow, large) = (rules.clone(), rules.clone(), rules.clone());
    Registry::new()
        .on_now(ECHO, move |request, out| {
            count(&echoes);
            out.push(runtime::shard().0 as u8);
            out.extend_from_slice(request.body);
        })
        .on_future(SLOW, Group::RPC, move |request| {
            count(&slow);
            let pause = Duration::from_millis(number(request) as u64);
            async move {
                runtime::sleep(pause).await;
                vec![7]
            }
        })
        .on_future(LARGE, Group::RPC, move |request| {
            count(&large);
            let size = number(request);
            async move { vec![7; size] }
        })
        .on(GIVE_UP, Group::RPC, Rc::new(GiveUp))
        .on(SEVERAL, Group::RPC, Rc::new(Several))
}

/// A running node.
#[derive(Clone)]
struct Node {
    id: NodeId,
    rules: Arc<Rules>,
}

/// Starts a node at `10.0.0.<last>` that knows those peers.
fn boot(world: &mut World, id: NodeId, rules: &Arc<Rules>, shards: u16, at: u8, peers: &[(u8, u8)]) -> Node {
    let (shared, peers) = (rules.clone(), peers.to_vec());
    let main = main_of(move || {
        let (rules, peers) = (shared.clone(), peers.clone());
        async move {
            if runtime::shard() == ShardId(0) {
                start(&rules, at, &peers).await;
            }
            runtime::shutdown_requested().await;
            if runtime::shard() == ShardId(0) {
                let links = runtime::local::<Links>();
                links.say_goodbye().await;
                runtime::sleep(SECOND / 2).await;
                links.close();
            }
            0
        }
    });
    world.boot(id, shards, main);
    Node { id, rules: rules.clone() }
}

async fn start(rules: &Arc<Rules>, at: u8, peers: &[(u8, u8)]) {
    for shard in 0..runtime::shard_count() {
        let rules = rules.clone();
        let install = move || async move { drop(Pool::install(registry(&rules))) };
        runtime::submit_to(ShardId(shard), Group::MAIN, install).await;
    }
    let heard = rules.clone();
    let report = Rc::new(move |event| heard.events.lock().expect("as above").push(event));
    let links = Links::start(Rc::new(Gate(rules.clone())), registry(rules), report);
    runtime::install(links.clone());
    let security = *rules.security.lock().expect("as above");
    if let Some((server, client, client_auth)) = security.keys {
        let (server, client) = encryption::settings(server, client, client_auth).await;
        links.use_keys(server, client).await.expect("good files");
    }
    links.listen(address(at), security.port).await.expect("the port is free");
    for (peer, at) in peers {
        links.add(host(*peer), Target { encrypt: security.encrypt, ..target(*at) }).await;
    }
}

fn target(last: u8) -> Target {
    Target { address: address(last), encrypt: false }
}

/// A world with so many nodes of so many shards that all know each other.
fn cluster(seed: u64, shards: &[u16]) -> (World, Vec<Node>) {
    let mut world = World::new(seed, SimConfig::calm());
    world.expect_nothing_left();
    let all: Vec<u8> = (1..=shards.len() as u8).collect();
    let mut nodes = Vec::new();
    for (last, shards) in all.iter().zip(shards) {
        let id = world.add_node(ip(*last));
        let peers: Vec<(u8, u8)> =
            all.iter().filter(|peer| *peer != last).map(|peer| (*peer, *peer)).collect();
        nodes.push(boot(&mut world, id, &Rules::new(*last, *shards), *shards, *last, &peers));
    }
    (world, nodes)
}

fn asks(verb: u8, timeout: Duration) -> Outgoing {
    Outgoing { verb, version: 5, timeout }
}

/// Runs a task on a shard of a node.
fn on_shard<T: Send + 'static>(
    world: &mut World,
    node: &Node,
    shard: u16,
    work: impl AsyncFnOnce() -> T + Send + 'static,
) -> Task<T> {
    world.spawn(node.id, async move {
        runtime::submit_to(ShardId(shard), Group::MAIN, move || async move { work().await }).await
    })
}

/// The result of a task that must end in time.
fn result<T>(world: &mut World, mut task: Task<T>, limit: Duration) -> T {
    assert!(world.run_until(|_| task.done(), limit), "it ends");
    task.take().expect("it ended")
}
