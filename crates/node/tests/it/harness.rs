//! A world with one node and one client machine.

use client::{Connection, Error, Options, Outcome, RowSet};
use node::config::Config;
use node::{Ready, Reporter, main_closure};
use protocol::envelope::Version;
use protocol::request::Parameters;
use runtime::sim::{NodeId, SimConfig, World};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use types::Consistency;

/// Where the node listens for clients.
pub fn native() -> SocketAddr {
    "10.0.0.1:9042".parse().unwrap()
}

/// How long a scenario may take on the world's clock.
pub const SCENARIO_TIMEOUT: Duration = Duration::from_secs(120);

/// One node, switched off, and a client machine.
pub struct Stage {
    pub world: World,
    pub node: NodeId,
    pub client: NodeId,
    pub config: Config,
    pub failure: Arc<Mutex<Option<String>>>,
}

impl Stage {
    pub fn new(seed: u64) -> Stage {
        let mut world = World::new(seed, SimConfig::calm());
        world.expect_nothing_left();
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        let node = world.add_node(ip);
        let client = world.add_client("10.0.9.9".parse().unwrap());
        let mut config = Config::standard(PathBuf::from("/data"));
        config.listen_address = ip;
        config.rpc_address = ip;
        Stage { world, node, client, config, failure: Arc::default() }
    }

    /// Switches the node on and waits until it is ready.
    pub fn boot(&mut self, shards: u16) {
        self.try_boot(shards).unwrap();
    }

    /// Switches the node on; the error is what it reports when it does not start.
    pub fn try_boot(&mut self, shards: u16) -> Result<Ready, String> {
        let ready: Arc<Mutex<Option<Ready>>> = Arc::default();
        let (told, failure) = (ready.clone(), self.failure.clone());
        *failure.lock().unwrap() = None;
        let reporter = Reporter {
            ready: Arc::new(move |ready| *told.lock().unwrap() = Some(ready.clone())),
            failed: Arc::new(move |text| *failure.lock().unwrap() = Some(text.to_string())),
        };
        self.world.boot(self.node, shards, main_closure(self.config.clone(), reporter));
        let (waiting, failure) = (ready.clone(), self.failure.clone());
        let settled = self.world.run_until(
            |_| waiting.lock().unwrap().is_some() || failure.lock().unwrap().is_some(),
            SCENARIO_TIMEOUT,
        );
        assert!(settled, "the node neither starts nor says why: {:?}", self.world.log_lines());
        let ready = ready.lock().unwrap().take();
        ready.ok_or_else(|| self.failure.lock().unwrap().clone().unwrap_or_default())
    }

    /// Asks the node to stop and waits until it has.
    pub fn stop(&mut self) {
        let node = self.node;
        self.world.stop(node);
        let stopped = self.world.run_until(|world| !world.alive(node), SCENARIO_TIMEOUT);
        assert!(stopped, "the node does not stop: {:?}", self.world.log_lines());
        assert_eq!(self.world.exit_code(node), Some(0));
    }

    /// Runs a scenario on the client machine to its end.
    pub fn play<T: 'static>(&mut self, scenario: impl Future<Output = T> + 'static) -> T {
        let mut task = self.world.spawn(self.client, scenario);
        let done = self.world.run_until(|_| task.done(), SCENARIO_TIMEOUT);
        assert!(done, "the scenario does not end: {:?}", self.world.log_lines());
        task.take().expect("it is done")
    }
}

/// A booted node with that many shards.
pub fn stage(seed: u64, shards: u16) -> Stage {
    let mut stage = Stage::new(seed);
    stage.boot(shards);
    stage
}

/// A connection in version 5 without compression.
pub async fn connect() -> Connection {
    Connection::connect(native(), &Options::new(Version::V5)).await.unwrap()
}

/// Parameters at ONE.
pub fn one() -> Parameters<'static> {
    Parameters::at(Consistency::One)
}

/// Runs a statement that must succeed.
pub async fn run(connection: &Connection, text: &str) -> Outcome {
    match connection.query(text, one()).await {
        Ok(outcome) => outcome,
        Err(error) => panic!("{text}: {error}"),
    }
}

/// Runs a statement that must give rows.
pub async fn rows(connection: &Connection, text: &str) -> RowSet {
    run(connection, text).await.rows()
}

/// Runs a statement that must fail, and says with which code and text.
pub async fn failure(connection: &Connection, text: &str, parameters: Parameters<'_>) -> (i32, String) {
    match connection.query(text, parameters).await {
        Err(Error::Failure(failure)) => (failure.kind.code(), failure.message.clone()),
        other => panic!("{text}: not a failure of the server: {other:?}"),
    }
}

/// Makes the keyspace `ks` with one replica and the table `ks.kv`.
pub async fn make_kv(connection: &Connection) {
    run(
        connection,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )
    .await;
    run(connection, "CREATE TABLE ks.kv (k int PRIMARY KEY, v text)").await;
}
