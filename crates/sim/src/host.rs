//! A simulated machine that runs the shipped node: its configuration, its boots, and how each start went.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use node::Reporter;
use node::config::Config;
use runtime::sim::{NodeId, World};

use crate::limits::{REPLACED_WITHIN, START, STOP};

#[derive(Debug, Default)]
struct Status {
    ready: bool,
    failure: Option<String>,
}

fn lock(status: &Mutex<Status>) -> MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One machine and what runs on it.
pub(crate) struct Host {
    pub(crate) node: NodeId,
    pub(crate) ip: IpAddr,
    pub(crate) config: Config,
    status: Arc<Mutex<Status>>,
}

impl Host {
    /// A machine with an empty disk, switched off.
    pub(crate) fn new(world: &mut World, ip: IpAddr) -> Host {
        let mut config = Config::standard("/data".into());
        config.rpc_address = ip;
        config.listen_address = ip;
        config.prometheus = None;
        config.api_port = None;
        Host { node: world.add_node(ip), ip, config, status: Arc::default() }
    }

    /// Where clients connect.
    pub(crate) fn native(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.config.native_transport_port)
    }

    /// Starts the node's process; it is not ready yet.
    pub(crate) fn boot(&mut self, world: &mut World, shards: u16) {
        let status = Arc::new(Mutex::new(Status::default()));
        self.status = status.clone();
        let failed = status.clone();
        let reporter = Reporter {
            ready: Arc::new(move |_| lock(&status).ready = true),
            failed: Arc::new(move |text| lock(&failed).failure = Some(text.to_string())),
        };
        world.boot(self.node, shards, node::main_closure(self.config.clone(), reporter));
    }

    pub(crate) fn is_ready(&self) -> bool {
        lock(&self.status).ready
    }

    fn failure(&self) -> Option<String> {
        lock(&self.status).failure.clone()
    }

    /// Runs the world until the node serves clients.
    pub(crate) fn await_ready(&self, world: &mut World) -> Result<(), String> {
        self.await_within(world, START)
    }

    /// The same for a node that must be filled with what another has lost before it serves.
    pub(crate) fn await_replaced(&self, world: &mut World) -> Result<(), String> {
        self.await_within(world, REPLACED_WITHIN).map_err(|text| format!("the new node: {text}"))
    }

    fn await_within(&self, world: &mut World, limit: Duration) -> Result<(), String> {
        world.run_until(|world| self.is_ready() || !world.alive(self.node), limit);
        match (self.is_ready(), self.failure()) {
            (true, _) => Ok(()),
            (false, Some(text)) => Err(format!("the node does not start: {text}")),
            (false, None) if !world.alive(self.node) => Err("the node ended while it started".to_string()),
            (false, None) => Err(format!("the node is not ready after {limit:?}")),
        }
    }

    /// Errors: the process has ended, with what the node said of it.
    pub(crate) fn still_runs(&self, world: &World) -> Result<(), String> {
        match (world.alive(self.node), self.failure()) {
            (true, _) => Ok(()),
            (false, said) => Err(format!("{} has ended by itself: {}", self.ip, said.unwrap_or_default())),
        }
    }

    /// Stops the node in good order.
    pub(crate) fn stop(&self, world: &mut World) -> Result<(), String> {
        world.stop(self.node);
        if !world.run_until(|world| !world.alive(self.node), STOP) {
            return Err(format!("the node does not stop within {STOP:?}"));
        }
        match (world.exit_code(self.node), self.failure()) {
            (Some(0), None) => Ok(()),
            (code, failure) => Err(format!("the node did not stop in order: exit {code:?}, {failure:?}")),
        }
    }
}
