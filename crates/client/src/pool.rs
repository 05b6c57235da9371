//! Connections to every shard of every node: a request goes to the shard that owns its partition.
//!
//! The ring is read once from the system tables of the first node that answers: a token's owner is the node with the next token around the
//! ring. On nodes that tell their shards, one connection per shard is made over the shard-aware port, whose source port chooses the
//! shard; where that fails the ordinary port is used and the shards are served by whoever answered.

use crate::connection::{Connection, Options};
use crate::error::Error;
use crate::limits::{SOURCE_PORT_FIRST, SOURCE_PORT_TRIES};
use crate::outcome::Outcome;
use crate::statement::Statement;
use base::Token;
use protocol::request::Parameters;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use types::{Consistency, Value};

/// How a pool connects.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Options of each connection; the local address is the pool's business.
    pub connection: Options,
    /// Whether to make one connection per shard; otherwise one per node.
    pub shard_aware: bool,
}

struct Node {
    address: SocketAddr,
    shards: Cell<u16>,
    shard_aware_port: Cell<Option<u16>>,
    /// One place per shard; what is closed or was never made is connected when it is wanted.
    connections: RefCell<Vec<Option<Connection>>>,
}

/// A pool.
pub struct Pool {
    options: PoolOptions,
    nodes: Vec<Node>,
    /// Tokens in order, each with its node.
    ring: Vec<(Token, usize)>,
    turn: Cell<usize>,
}

impl Pool {
    /// Connects to the first contact point that answers, learns the others from it, and connects to every shard of every node that can
    /// be reached now.
    pub async fn connect(contact_points: &[SocketAddr], options: PoolOptions) -> Result<Pool, Error> {
        let mut last = Error::Unexpected("no contact point");
        for address in contact_points {
            let connection = match Connection::connect(*address, &options.connection).await {
                Ok(connection) => connection,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            let mut pool = Pool { options, nodes: Vec::new(), ring: Vec::new(), turn: Cell::new(0) };
            pool.learn(*address, &connection).await?;
            pool.nodes[0].adopt(connection, pool.is_encrypted());
            for index in 0..pool.nodes.len() {
                pool.fill(index).await;
            }
            return Ok(pool);
        }
        Err(last)
    }

    /// Reads the ring from the system tables.
    async fn learn(&mut self, contact: SocketAddr, connection: &Connection) -> Result<(), Error> {
        let at_one = Parameters::at(Consistency::One);
        let local = connection.query("SELECT tokens FROM system.local", at_one).await?.rows();
        self.add(contact, local.value(0, 0)?);
        let peers = connection.query("SELECT rpc_address, tokens FROM system.peers", at_one).await?.rows();
        for row in 0..peers.rows.len() {
            if let Value::Inet(ip) = peers.value(row, 0)? {
                self.add(SocketAddr::new(ip, contact.port()), peers.value(row, 1)?);
            }
        }
        self.ring.sort();
        Ok(())
    }

    fn add(&mut self, address: SocketAddr, tokens: Value) {
        let index = self.nodes.len();
        if let Value::Set(tokens) = tokens {
            for token in tokens {
                if let Value::Text(text) = token
                    && let Ok(token) = text.parse()
                {
                    self.ring.push((Token(token), index));
                }
            }
        }
        self.nodes.push(Node {
            address,
            shards: Cell::new(1),
            shard_aware_port: Cell::new(None),
            connections: RefCell::new(vec![None]),
        });
    }

    /// Makes the connections that are missing; what cannot be made now is tried again when it is wanted.
    async fn fill(&self, index: usize) {
        let mut shard = 0;
        while shard < self.nodes[index].shards.get() {
            // Errors come back when somebody wants the connection.
            let _later = self.on_shard(index, shard).await;
            shard += 1;
        }
    }

    fn is_encrypted(&self) -> bool {
        self.options.connection.tls.is_some()
    }

    /// How many nodes the ring has.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// How many shards a node has, as it says.
    pub fn shard_count(&self, node: usize) -> u16 {
        self.nodes[node].shards.get()
    }

    /// The node and shard that own a token.
    pub fn owner(&self, token: Token) -> (usize, u16) {
        let at = self.ring.partition_point(|(t, _)| *t < token);
        let node = match self.ring.get(at).or_else(|| self.ring.first()) {
            Some((_, node)) => *node,
            None => 0,
        };
        (node, base::shard_of(token, self.nodes[node].shards.get()))
    }

    /// The connection for a token; without one, the nodes take turns. When the owner cannot be reached, any other node.
    pub async fn connection(&self, token: Option<Token>) -> Result<Connection, Error> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let (first, shard) = match token {
            Some(token) => self.owner(token),
            None => (turn % self.nodes.len(), (turn / self.nodes.len()) as u16),
        };
        let mut last = Error::Unexpected("no node");
        for step in 0..self.nodes.len() {
            let node = (first + step) % self.nodes.len();
            let shards = self.nodes[node].shards.get();
            match self.on_shard(node, shard % shards).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The connection to one shard of one node, made anew when it has closed.
    pub async fn on_shard(&self, node: usize, shard: u16) -> Result<Connection, Error> {
        let node = &self.nodes[node];
        let live = |c: &Option<Connection>| c.clone().filter(|c| !c.is_closed());
        if let Some(connection) = node.connections.borrow().get(usize::from(shard)).and_then(live) {
            return Ok(connection);
        }
        if let (true, Some(port)) = (self.options.shard_aware, node.shard_aware_port.get())
            && let Some(connection) = self.over_shard_port(node, port, shard).await
        {
            return Ok(node.adopt(connection, self.is_encrypted()));
        }
        let connection = Connection::connect(node.address, &self.options.connection).await?;
        if self.options.shard_aware {
            node.adopt(connection.clone(), self.is_encrypted());
            node.put(shard, connection.clone());
        } else {
            node.put(0, connection.clone());
        }
        Ok(connection)
    }

    /// Connects from a source port that chooses the shard; `None` when no port could be had or another shard answered.
    async fn over_shard_port(&self, node: &Node, port: u16, shard: u16) -> Option<Connection> {
        let shards = node.shards.get();
        let steps = (u16::MAX - SOURCE_PORT_FIRST) / shards;
        let any: IpAddr = match node.address.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        for _ in 0..SOURCE_PORT_TRIES {
            let step = (runtime::random_u64() % u64::from(steps.max(1))) as u16;
            let base = SOURCE_PORT_FIRST + step * shards;
            let source = base + (shard + shards - base % shards) % shards;
            let options =
                Options { local: Some(SocketAddr::new(any, source)), ..self.options.connection.clone() };
            let address = SocketAddr::new(node.address.ip(), port);
            match Connection::connect(address, &options).await {
                Ok(connection) => {
                    let right = connection.sharding().is_some_and(|s| s.shard == shard);
                    return right.then_some(connection);
                }
                // The source port may be taken: draw another.
                Err(Error::Connect { .. }) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Prepares a statement on any node.
    pub async fn prepare(&self, text: &str) -> Result<Statement, Error> {
        self.connection(None).await?.prepare(text).await
    }

    /// Runs a prepared statement where its partition lives.
    pub async fn execute(&self, statement: &Statement, parameters: Parameters<'_>) -> Result<Outcome, Error> {
        let connection = self.connection(statement.token(parameters.values)).await?;
        connection.execute(statement, parameters).await
    }

    /// Runs a statement's text on any node.
    pub async fn query(&self, text: &str, parameters: Parameters<'_>) -> Result<Outcome, Error> {
        self.connection(None).await?.query(text, parameters).await
    }
}

impl Node {
    /// Puts a connection at the place of the shard that serves it, and learns the node's shards from it.
    fn adopt(&self, connection: Connection, encrypted: bool) -> Connection {
        match connection.sharding() {
            Some(sharding) => {
                self.shards.set(sharding.shards);
                let port = if encrypted { sharding.shard_aware_port_ssl } else { sharding.shard_aware_port };
                self.shard_aware_port.set(port);
                self.put(sharding.shard, connection.clone());
            }
            None => self.put(0, connection.clone()),
        }
        connection
    }

    fn put(&self, shard: u16, connection: Connection) {
        let mut connections = self.connections.borrow_mut();
        let wanted = usize::from(self.shards.get().max(shard + 1));
        if connections.len() < wanted {
            connections.resize(wanted, None);
        }
        connections[usize::from(shard)] = Some(connection);
    }
}
