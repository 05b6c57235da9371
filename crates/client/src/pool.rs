//! Connections to every shard of every node: a request goes to the shard that owns its partition.
//!
//! The ring is read once from the system tables of the first node that answers: a token's owner is the node with the next token around the
//! ring, of those that may be asked. On nodes that tell their shards, one connection per shard is made over the shard-aware port, whose
//! source port chooses the shard; where that fails the ordinary port is used and the shards are served by whoever answered. Other nodes
//! get so many connections as the options say, which take turns. Nodes that are only asked while the others are away make rings of their
//! own, one after the other; they are connected when they are wanted.

use crate::connection::{Connection, Options};
use crate::error::Error;
use crate::limits::{RECONNECT_MAX, RECONNECT_MIN, SOURCE_PORT_FIRST, SOURCE_PORT_TRIES};
use crate::outcome::{Outcome, RowSet};
use crate::statement::Statement;
use base::{Instant, Token};
use protocol::request::Parameters;
use runtime::sync::Semaphore;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use types::{Consistency, Value};

/// How a pool connects.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Options of each connection; the local address is the pool's business.
    pub connection: Options,
    /// Whether to make one connection per shard where nodes tell their shards.
    pub shard_aware: bool,
    /// Connections to a node that tells no shards, or whose shards are none of our business.
    pub connections_per_node: u16,
    /// Whom of the ring to ask.
    pub usable: Usable,
    /// Whom to ask while none of them can be reached, nor any of those before.
    pub spare: Vec<Usable>,
}

/// Which nodes of a ring are asked: those that fit all that is said.
#[derive(Clone, Debug, Default)]
pub struct Usable {
    /// In this datacenter.
    pub datacenter: Option<String>,
    /// In this rack.
    pub rack: Option<String>,
    /// One of these addresses; none for any.
    pub addresses: Vec<IpAddr>,
}

impl PoolOptions {
    /// Aware of shards, one connection to nodes that tell none, every node.
    pub fn new(connection: Options) -> PoolOptions {
        PoolOptions {
            connection,
            shard_aware: true,
            connections_per_node: 1,
            usable: Usable::default(),
            spare: Vec::new(),
        }
    }
}

impl std::fmt::Display for Usable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
        let of = |what: &str, name: &Option<String>| name.as_ref().map(|name| format!("{what} {name}"));
        let listed = (!addresses.is_empty()).then(|| format!("one of {}", addresses.join(", ")));
        let parts = [of("datacenter", &self.datacenter), of("rack", &self.rack), listed];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl Usable {
    fn fits(&self, place: &Place) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        same(&self.datacenter, &place.datacenter)
            && same(&self.rack, &place.rack)
            && (self.addresses.is_empty() || self.addresses.contains(&place.address.ip()))
    }
}

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of its clients.
    pub address: SocketAddr,
    /// The datacenter's name.
    pub datacenter: String,
    /// The rack's name.
    pub rack: String,
}

struct Node {
    place: Place,
    /// How many shards it says it has; 0 while it says nothing.
    shards: Cell<u16>,
    shard_aware_port: Cell<Option<u16>>,
    /// One place per shard; what is closed or was never made is connected when it is wanted.
    connections: RefCell<Vec<Option<Connection>>>,
    /// Held by who connects: the others use what comes of it.
    connecting: Semaphore,
    /// Failures to connect since the last success, and until when nobody tries again.
    failures: Cell<u32>,
    down_until: Cell<Option<Instant>>,
}

/// Nodes that are asked alike.
#[derive(Default)]
struct Tier {
    nodes: Vec<usize>,
    /// Tokens in order, each with its node; those of nodes that are not asked are the next one's.
    ring: Vec<(Token, usize)>,
}

/// A pool.
pub struct Pool {
    options: PoolOptions,
    nodes: Vec<Node>,
    /// Those that are asked, then those that are asked while they are away. The first has a node at least.
    tiers: Vec<Tier>,
    cluster: String,
    turn: Cell<usize>,
}

impl Pool {
    /// Connects to the first contact point that answers, learns the others from it, and connects to every shard of every node that can
    /// be reached now.
    pub async fn connect(contact_points: &[SocketAddr], mut options: PoolOptions) -> Result<Pool, Error> {
        let mut last = Error::Unexpected("no contact point");
        for address in contact_points {
            let connection = match Connection::connect(*address, &options.connection).await {
                Ok(connection) => connection,
                // What a server answered says more than that another one is away.
                Err(error) => {
                    if matches!(last, Error::Connect { .. } | Error::Unexpected(_)) {
                        last = error;
                    }
                    continue;
                }
            };
            let mut pool = Pool {
                tiers: (0..=options.spare.len()).map(|_| Tier::default()).collect(),
                options,
                nodes: Vec::new(),
                cluster: String::new(),
                turn: Cell::new(0),
            };
            if let Err(error) = pool.learn(*address, &connection).await {
                last = error;
                options = pool.options;
                continue;
            }
            if let Some(node) = pool.nodes.iter().find(|node| node.place.address == *address) {
                pool.adopt(node, None, connection);
            }
            for index in pool.tiers[0].nodes.clone() {
                pool.fill(index).await;
            }
            return Ok(pool);
        }
        Err(last)
    }

    /// Reads the ring from the system tables.
    async fn learn(&mut self, contact: SocketAddr, connection: &Connection) -> Result<(), Error> {
        let at_one = Parameters::at(Consistency::One);
        let text = "SELECT cluster_name, data_center, rack, tokens FROM system.local";
        let local = connection.query(text, at_one).await?.rows();
        if let Value::Text(name) = local.value(0, 0)? {
            self.cluster = name;
        }
        self.add(contact, &local, 0)?;
        let text = "SELECT rpc_address, data_center, rack, tokens FROM system.peers";
        let peers = connection.query(text, at_one).await?.rows();
        for row in 0..peers.rows.len() {
            if let Value::Inet(ip) = peers.value(row, 0)? {
                self.add(SocketAddr::new(ip, contact.port()), &peers, row)?;
            }
        }
        if self.tiers[0].nodes.is_empty() {
            return Err(Error::NoNode(self.options.usable.to_string()));
        }
        self.tiers.iter_mut().for_each(|tier| tier.ring.sort());
        Ok(())
    }

    /// Adds a node that may be asked, from the columns that follow its name or address.
    fn add(&mut self, address: SocketAddr, rows: &RowSet, row: usize) -> Result<(), Error> {
        let text = |column| {
            Ok::<String, Error>(match rows.value(row, column)? {
                Value::Text(text) => text,
                _ => String::new(),
            })
        };
        let place = Place { address, datacenter: text(1)?, rack: text(2)? };
        let usable = std::iter::once(&self.options.usable).chain(&self.options.spare);
        let Some((_, tier)) = usable.zip(&mut self.tiers).find(|(usable, _)| usable.fits(&place)) else {
            return Ok(());
        };
        let index = self.nodes.len();
        tier.nodes.push(index);
        if let Value::Set(tokens) = rows.value(row, 3)? {
            for token in tokens {
                if let Value::Text(text) = token
                    && let Ok(token) = text.parse()
                {
                    tier.ring.push((Token(token), index));
                }
            }
        }
        self.nodes.push(Node {
            place,
            shards: Cell::new(0),
            shard_aware_port: Cell::new(None),
            connections: RefCell::new(vec![None]),
            connecting: Semaphore::new(1),
            failures: Cell::new(0),
            down_until: Cell::new(None),
        });
        Ok(())
    }

    /// The name of the cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The nodes that are asked.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.nodes.iter().map(|node| &node.place)
    }

    /// Connections to a node: one for each shard, or as many as the options say.
    fn place_count(&self, node: &Node) -> u16 {
        match node.shards.get() {
            shards if shards > 0 && self.options.shard_aware => shards,
            _ => self.options.connections_per_node.max(1),
        }
    }

    /// Makes the connections that are missing; what cannot be made now is tried again when it is wanted.
    async fn fill(&self, index: usize) {
        let mut place = 0;
        // The first connection tells how many there will be.
        while place < self.place_count(&self.nodes[index]) {
            if self.on_shard(index, place).await.is_err() {
                // The error comes back when somebody wants the connection.
                return;
            }
            place += 1;
        }
    }

    /// How many nodes the pool knows.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// How many shards a node has, as it says; 1 when it says nothing.
    pub fn shard_count(&self, node: usize) -> u16 {
        self.nodes[node].shards.get().max(1)
    }

    /// The node and shard that own a token.
    pub fn owner(&self, token: Token) -> (usize, u16) {
        self.owner_in(&self.tiers[0], token)
    }

    fn owner_in(&self, tier: &Tier, token: Token) -> (usize, u16) {
        let at = tier.ring.partition_point(|(t, _)| *t < token);
        let node = match tier.ring.get(at).or_else(|| tier.ring.first()) {
            Some((_, node)) => *node,
            None => tier.nodes[0],
        };
        (node, base::shard_of(token, self.shard_count(node)))
    }

    /// The tokens of the nodes that are asked, in order.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        self.tiers[0].ring.iter().map(|(token, _)| *token)
    }

    /// The node of a tier for a token and the place of the connection there; without a token, the nodes take turns.
    fn choose(&self, tier: &Tier, token: Option<Token>) -> (usize, u16) {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let (node, shard) = match token {
            Some(token) => self.owner_in(tier, token),
            None => (tier.nodes[turn % tier.nodes.len()], (turn / tier.nodes.len()) as u16),
        };
        let is_by_shard = self.options.shard_aware && self.nodes[node].shards.get() > 0;
        // Where no shard is meant, connections take turns.
        (node, if is_by_shard { shard } else { turn as u16 })
    }

    /// The connection for a token if it is there, without waiting. If it is not, its turn is not over: who waits for
    /// [`connection`](Self::connection) makes that one.
    pub fn ready(&self, token: Option<Token>) -> Option<Connection> {
        let turn = self.turn.get();
        let (node, place) = self.choose(&self.tiers[0], token);
        let node = &self.nodes[node];
        let live = node.live(place % self.place_count(node));
        if live.is_none() {
            self.turn.set(turn);
        }
        live
    }

    /// The connection for a token, at once if it is there; without one, the nodes take turns. When the owner cannot be reached, any other
    /// node, those of the first tier before the others: those that could not be reached a moment ago are not tried.
    pub async fn connection(&self, token: Option<Token>) -> Result<Connection, Error> {
        if let Some(connection) = self.ready(token) {
            return Ok(connection);
        }
        let mut last = Error::Unexpected("no node");
        for tier in self.tiers.iter().filter(|tier| !tier.nodes.is_empty()) {
            let (first, place) = self.choose(tier, token);
            let first = tier.nodes.iter().position(|node| *node == first).unwrap_or(0);
            for step in 0..tier.nodes.len() {
                let node = tier.nodes[(first + step) % tier.nodes.len()];
                match self.on_shard(node, place % self.place_count(&self.nodes[node])).await {
                    Ok(connection) => return Ok(connection),
                    Err(error) => last = error,
                }
                // One that cannot be made now does not keep others to the same node from being used.
                if let Some(connection) = self.nodes[node].any_live() {
                    return Ok(connection);
                }
            }
        }
        Err(last)
    }

    /// The connection to one shard of one node, made anew when it has closed. One caller connects, the others wait for it, or ask another
    /// node where this one has failed and there is one; after a failure nobody tries for a while, longer each time.
    pub async fn on_shard(&self, node: usize, shard: u16) -> Result<Connection, Error> {
        let node = &self.nodes[node];
        if let Some(connection) = node.live(shard) {
            return Ok(connection);
        }
        node.is_up()?;
        let goes_elsewhere = 0 < node.failures.get() && 1 < self.nodes.len();
        let _connecting = match goes_elsewhere {
            true => node.connecting.try_acquire(1).ok_or_else(|| node.away("is being tried again"))?,
            false => node.connecting.acquire(1).await,
        };
        if let Some(connection) = node.live(shard) {
            return Ok(connection);
        }
        node.is_up()?;
        let connected = self.connect_to(node, shard).await;
        node.tell(connected.is_ok());
        connected
    }

    async fn connect_to(&self, node: &Node, shard: u16) -> Result<Connection, Error> {
        if let (true, Some(port)) = (self.options.shard_aware, node.shard_aware_port.get())
            && let Some(connection) = self.over_shard_port(node, port, shard).await
        {
            self.adopt(node, Some(shard), connection.clone());
            return Ok(connection);
        }
        let connection = Connection::connect(node.place.address, &self.options.connection).await?;
        self.adopt(node, Some(shard), connection.clone());
        Ok(connection)
    }

    /// Puts a connection at the place it was made for, and where shards are meant at that of the shard that serves it unless another
    /// is there; learns the node's shards from it.
    fn adopt(&self, node: &Node, wanted: Option<u16>, connection: Connection) {
        if self.options.shard_aware
            && let Some(sharding) = connection.sharding()
        {
            node.shards.set(sharding.shards);
            let encrypted = self.options.connection.tls.is_some();
            let port = if encrypted { sharding.shard_aware_port_ssl } else { sharding.shard_aware_port };
            node.shard_aware_port.set(port);
            if node.live(sharding.shard).is_none() {
                node.put(sharding.shard, connection.clone());
            }
            // The first one tells how many shards there are: it belongs to nobody else's place.
            if let Some(wanted) = wanted.filter(|wanted| *wanted < sharding.shards) {
                node.put(wanted, connection);
            }
            return;
        }
        node.put(wanted.unwrap_or(0), connection);
    }

    /// Connects from a source port that chooses the shard; `None` when no port could be had or another shard answered.
    async fn over_shard_port(&self, node: &Node, port: u16, shard: u16) -> Option<Connection> {
        let shards = node.shards.get();
        let steps = (u16::MAX - SOURCE_PORT_FIRST) / shards;
        let any: IpAddr = match node.place.address.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let patience = runtime::now() + self.options.connection.connect_timeout / 2;
        for _ in 0..SOURCE_PORT_TRIES {
            let step = (runtime::random_u64() % u64::from(steps.max(1))) as u16;
            let base = SOURCE_PORT_FIRST + step * shards;
            let source = base + (shard + shards - base % shards) % shards;
            let options =
                Options { local: Some(SocketAddr::new(any, source)), ..self.options.connection.clone() };
            let address = SocketAddr::new(node.place.address.ip(), port);
            match Connection::connect(address, &options).await {
                Ok(connection) => {
                    let right = connection.sharding().is_some_and(|s| s.shard == shard);
                    return right.then_some(connection);
                }
                // The source port may be taken: draw another. A server that does not answer answers on no port.
                Err(Error::Connect { .. }) if runtime::now() < patience => {}
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
    /// The connection at a place, if it is there and open.
    fn live(&self, place: u16) -> Option<Connection> {
        let connections = self.connections.borrow();
        connections.get(usize::from(place))?.clone().filter(|connection| !connection.is_closed())
    }

    fn any_live(&self) -> Option<Connection> {
        self.connections.borrow().iter().flatten().find(|connection| !connection.is_closed()).cloned()
    }

    fn is_up(&self) -> Result<(), Error> {
        match self.down_until.get() {
            Some(until) if runtime::now() < until => Err(self.away("failed a moment ago")),
            _ => Ok(()),
        }
    }

    fn away(&self, reason: &str) -> Error {
        Error::Connect { address: self.place.address, reason: reason.into() }
    }

    fn tell(&self, connected: bool) {
        if connected {
            self.failures.set(0);
            self.down_until.set(None);
            return;
        }
        let rest = RECONNECT_MIN.saturating_mul(1 << self.failures.get().min(16)).min(RECONNECT_MAX);
        self.failures.set(self.failures.get() + 1);
        self.down_until.set(Some(runtime::now() + rest));
    }

    fn put(&self, shard: u16, connection: Connection) {
        let mut connections = self.connections.borrow_mut();
        let place = usize::from(shard);
        if connections.len() <= place {
            connections.resize(place + 1, None);
        }
        connections[place] = Some(connection);
    }
}
