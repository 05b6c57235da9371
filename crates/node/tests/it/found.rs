//! Nodes that find each other by their seeds, in one simulated world, and a client machine.

use crate::harness::SCENARIO_TIMEOUT;
use base::HostId;
use client::{Connection, Options};
use cluster::Group0;
use node::config::{CommitlogSync, Config, Seed};
use node::{Reporter, main_closure};
use protocol::envelope::Version;
use protocol::request::Parameters;
use runtime::sim::{NodeId, SimConfig, Task, World};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use types::Consistency;

/// Nodes count from 1: node n has the address 10.0.0.n. The first is the seed of all.
pub struct Found {
    pub world: World,
    pub configs: Vec<Config>,
    nodes: Vec<NodeId>,
    status: Vec<Arc<Mutex<Status>>>,
    client: NodeId,
}

#[derive(Default)]
struct Status {
    ready: bool,
    failure: Option<String>,
}

pub fn ip(n: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, n as u8])
}

impl Found {
    /// That many machines, switched off.
    pub fn new(seed: u64, count: usize) -> Found {
        let mut world = World::new(seed, SimConfig::calm());
        let nodes: Vec<NodeId> = (1..=count).map(|n| world.add_node(ip(n))).collect();
        let client = world.add_client(ip(99));
        let configs = (1..=count).map(config).collect();
        let status = nodes.iter().map(|_| Arc::default()).collect();
        Found { world, configs, nodes, status, client }
    }

    /// That many members of one cluster.
    pub fn start(seed: u64, count: usize) -> Found {
        let mut found = Found::new(seed, count);
        found.boot_all();
        // Who votes is settled a moment later.
        found.world.run_for(Duration::from_secs(10));
        found
    }

    /// Starts every node and waits until all serve.
    pub fn boot_all(&mut self) {
        let dead: Vec<usize> = (1..=self.nodes.len()).filter(|n| !self.world.alive(self.node(*n))).collect();
        dead.iter().for_each(|n| self.boot(*n));
        dead.iter().for_each(|n| self.await_ready(*n));
    }

    pub fn node(&self, n: usize) -> NodeId {
        self.nodes[n - 1]
    }

    /// Starts a node's process; it is not ready yet.
    pub fn boot(&mut self, n: usize) {
        let status: Arc<Mutex<Status>> = Arc::default();
        self.status[n - 1] = status.clone();
        let failed = status.clone();
        let reporter = Reporter {
            ready: Arc::new(move |_| status.lock().unwrap().ready = true),
            failed: Arc::new(move |text| failed.lock().unwrap().failure = Some(text.to_owned())),
        };
        self.world.boot(self.nodes[n - 1], 1, main_closure(self.configs[n - 1].clone(), reporter));
    }

    pub fn is_ready(&self, n: usize) -> bool {
        self.status[n - 1].lock().unwrap().ready
    }

    /// What the node's process has reported at its end.
    pub fn failure(&self, n: usize) -> Option<String> {
        self.status[n - 1].lock().unwrap().failure.clone()
    }

    pub fn await_ready(&mut self, n: usize) {
        let (node, status) = (self.node(n), self.status[n - 1].clone());
        self.world.run_until(|world| status.lock().unwrap().ready || !world.alive(node), SCENARIO_TIMEOUT);
        let failure = self.failure(n);
        assert!(self.is_ready(n), "node {n} does not start: {failure:?}, {:?}", self.lines());
    }

    /// Runs the world until a node's process has ended by itself: its exit code, and what it reported.
    pub fn await_end(&mut self, n: usize, limit: Duration) -> (Option<i32>, String) {
        let node = self.node(n);
        let ended = self.world.run_until(|world| !world.alive(node), limit);
        assert!(ended, "node {n} goes on: {:?}", self.lines());
        (self.world.exit_code(node), self.failure(n).unwrap_or_default())
    }

    /// What all nodes have logged.
    pub fn lines(&self) -> Vec<String> {
        self.world.log_lines().into_iter().map(|(_, line)| line).collect()
    }

    /// How many lines that were logged hold a text.
    pub fn count_lines(&self, text: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(text)).count()
    }

    /// Runs a scenario of clients to its end.
    pub fn play<T: 'static>(&mut self, scenario: impl Future<Output = T> + 'static) -> T {
        let mut task = self.world.spawn(self.client, scenario);
        assert!(self.world.run_until(|_| task.done(), SCENARIO_TIMEOUT), "{:?}", self.lines());
        task.take().expect("it is done")
    }

    /// Begins a scenario of clients.
    pub fn spawn<T: 'static>(&mut self, scenario: impl Future<Output = T> + 'static) -> Task<T> {
        self.world.spawn(self.client, scenario)
    }

    /// Whether another node is up for a node.
    pub fn is_up(&mut self, n: usize, of: usize) -> bool {
        let other = HostId(host_id(of));
        let asked = self.node(n);
        let mut task =
            self.world.spawn(asked, async move { runtime::local::<Group0>().links().is_up(other) });
        assert!(self.world.run_until(|_| task.done(), SCENARIO_TIMEOUT));
        task.take().expect("it is done")
    }

    /// Runs a statement through a node: nothing, or the server's text.
    pub fn query(&mut self, n: usize, text: &str) -> Result<(), String> {
        let text = text.to_owned();
        self.play(async move {
            let outcome = connect_to(n).await.query(&text, Parameters::at(Consistency::One)).await;
            outcome.map(drop).map_err(|error| error.to_string())
        })
    }
}

fn host_id(n: usize) -> u128 {
    0x1111 * n as u128
}

fn config(n: usize) -> Config {
    let mut config = Config::standard("/data".into());
    config.listen_address = ip(n);
    config.rpc_address = ip(n);
    config.prometheus = None;
    config.api_port = None;
    config.shard_aware_port = None;
    config.commitlog_sync = CommitlogSync::Batch;
    config.host_id = Some(host_id(n));
    config.seeds = vec![Seed { host: ip(1).to_string(), port: None }];
    config
}

pub async fn connect_to(n: usize) -> Connection {
    Connection::connect(SocketAddr::new(ip(n), 9042), &Options::new(Version::V5)).await.unwrap()
}

/// As [`connect_to`], for a role.
pub async fn connect_as(n: usize, (name, password): (&str, &str)) -> Connection {
    let options =
        Options { credentials: Some((name.to_owned(), password.to_owned())), ..Options::new(Version::V5) };
    Connection::connect(SocketAddr::new(ip(n), 9042), &options).await.unwrap()
}
