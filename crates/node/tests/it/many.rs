//! Several nodes with a fixed membership in one simulated world, and a client machine.

use crate::harness::SCENARIO_TIMEOUT;
use client::{Connection, Options};
use coordinator::Coordinator;
use node::config::{Config, Peer};
use node::{Reporter, main_closure};
use protocol::envelope::Version;
use protocol::request::Parameters;
use runtime::sim::{NodeId, SimConfig, World};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use types::Consistency;

/// Where a node is, and how many shards it has.
#[derive(Clone, Copy)]
pub struct Place {
    pub dc: &'static str,
    pub rack: &'static str,
    pub shards: u16,
}

/// A node of one shard.
pub fn place(dc: &'static str, rack: &'static str) -> Place {
    Place { dc, rack, shards: 1 }
}

/// Nodes count from 1: node n has the address 10.0.0.n and the host id n.
pub struct Many {
    pub world: World,
    pub nodes: Vec<NodeId>,
    pub client: NodeId,
    change: Rc<dyn Fn(&mut Config)>,
    places: Vec<Place>,
}

fn ip(n: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, n as u8])
}

impl Many {
    /// All are ready. `change` is applied to the configuration of each.
    pub fn start(seed: u64, places: &[Place], change: impl Fn(&mut Config) + 'static) -> Many {
        let mut world = World::new(seed, SimConfig::calm());
        world.expect_nothing_left();
        let nodes: Vec<NodeId> = (1..=places.len()).map(|n| world.add_node(ip(n))).collect();
        let client = world.add_client(ip(99));
        let mut many = Many { world, nodes, client, change: Rc::new(change), places: places.to_vec() };
        let ready = Arc::new(AtomicU32::new(0));
        (1..=places.len()).for_each(|n| many.boot(n, &ready));
        let all = places.len() as u32;
        let started = many.world.run_until(|_| ready.load(Ordering::Relaxed) == all, SCENARIO_TIMEOUT);
        assert!(started, "{:?}", many.world.log_lines());
        many
    }

    /// Starts a node that was killed, and waits until it serves.
    pub fn restart(&mut self, n: usize) {
        let ready = Arc::new(AtomicU32::new(0));
        self.boot(n, &ready);
        assert!(self.world.run_until(|_| ready.load(Ordering::Relaxed) == 1, SCENARIO_TIMEOUT));
    }

    fn boot(&mut self, n: usize, ready: &Arc<AtomicU32>) {
        let mut config = self.config(n);
        let others = (1..=self.places.len()).filter(|other| *other != n);
        config.peers = others.map(|other| self.peer(other)).collect();
        let told = ready.clone();
        let reporter = Reporter {
            ready: Arc::new(move |_| {
                told.fetch_add(1, Ordering::Relaxed);
            }),
            ..Reporter::silent()
        };
        self.world.boot(self.node(n), self.places[n - 1].shards, main_closure(config, reporter));
    }

    fn config(&self, n: usize) -> Config {
        let mut config = Config::standard("/data".into());
        config.listen_address = ip(n);
        config.rpc_address = ip(n);
        config.prometheus = None;
        config.api_port = None;
        config.host_id = Some(n as u128);
        config.initial_tokens = vec![n as i64 * (i64::MAX / (self.places.len() as i64 + 1))];
        config.data_center = self.places[n - 1].dc.to_owned();
        config.rack = self.places[n - 1].rack.to_owned();
        (self.change)(&mut config);
        config
    }

    fn peer(&self, n: usize) -> Peer {
        let config = self.config(n);
        Peer {
            host_id: n as u128,
            address: SocketAddr::new(ip(n), config.storage_port),
            native_address: SocketAddr::new(ip(n), config.native_transport_port),
            tokens: config.initial_tokens,
            shards: self.places[n - 1].shards,
            data_center: config.data_center,
            rack: config.rack,
        }
    }

    pub fn node(&self, n: usize) -> NodeId {
        self.nodes[n - 1]
    }

    /// Runs a scenario of clients to its end.
    pub fn play<T: 'static>(&mut self, scenario: impl Future<Output = T> + 'static) -> T {
        let mut task = self.world.spawn(self.client, scenario);
        assert!(self.world.run_until(|_| task.done(), SCENARIO_TIMEOUT), "{:?}", self.world.log_lines());
        task.take().expect("it is done")
    }

    /// What the coordinator of a node's first shard says.
    pub fn ask<T: 'static>(&mut self, n: usize, ask: impl FnOnce(Rc<Coordinator>) -> T + 'static) -> T {
        let mut task = self.world.spawn(self.node(n), async move { ask(runtime::local::<Coordinator>()) });
        assert!(self.world.run_until(|_| task.done(), SCENARIO_TIMEOUT));
        task.take().expect("it is done")
    }

    /// Runs a statement on every node: each has a schema of its own.
    pub fn define(&mut self, statements: &[&str]) {
        let (count, statements) = (self.places.len(), statements.join(";"));
        self.play(async move {
            for n in 1..=count {
                let connection = connect_to(n).await;
                for statement in statements.split(';') {
                    connection.query(statement, at(Consistency::One)).await.unwrap();
                }
            }
        });
    }
}

pub async fn connect_to(n: usize) -> Connection {
    Connection::connect(SocketAddr::new(ip(n), 9042), &Options::new(Version::V5)).await.unwrap()
}

pub fn at(consistency: Consistency) -> Parameters<'static> {
    Parameters::at(consistency)
}
