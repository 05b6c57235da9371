//! Connections to every shard of every node: a request goes to a node that holds its partition, and there to the shard that owns it.
//!
//! The ring is read from the system tables of the first node that answers, and again when a node says that the ring or a node's state has
//! changed: who comes is connected, who has left is not asked any more. Which nodes hold a token follows from the replication of the
//! keyspace that is meant; they take turns. Where no keyspace is meant it is the node with the next token around the ring, of those that
//! may be asked. On nodes that tell their shards, one connection per shard is made over the shard-aware port, whose source port chooses
//! the shard; where that fails the ordinary port is used and the shards are served by whoever answered. Other nodes get so many
//! connections as the options say, which take turns. Nodes that are only asked while the others are away make rings of their own, one
//! after the other; they are connected when they are wanted.

use crate::connection::{Connection, Options};
use crate::error::Error;
use crate::limits::{
    EVENTS_REST, LISTEN_AGAIN, RECONNECT_MAX, RECONNECT_MIN, SOURCE_PORT_FIRST, SOURCE_PORT_TRIES,
};
use crate::outcome::Outcome;
use crate::ring::{Place, Ring, Told, Usable};
use crate::statement::Statement;
use base::{Instant, Token};
use protocol::event::{Event, EventType, Target};
use protocol::request::Parameters;
use runtime::Group;
use runtime::sync::{Flag, Semaphore};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

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
    /// The keyspace of tokens for which no statement says one; that of the connections unless given.
    pub keyspace: Option<String>,
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
            keyspace: None,
        }
    }
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

/// What a pool and the task that follows the ring share.
struct Shared {
    options: PoolOptions,
    keyspace: Option<String>,
    /// Every node that was ever one of those that are asked: numbers keep their meaning.
    nodes: RefCell<Vec<Rc<Node>>>,
    ring: RefCell<Rc<Ring>>,
    turn: Cell<usize>,
}

/// A pool.
pub struct Pool {
    shared: Rc<Shared>,
    cluster: String,
    /// Those that were asked at first.
    places: Vec<Place>,
    /// Set when the pool is dropped.
    over: Flag,
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.over.set();
    }
}

impl Pool {
    /// Connects to the first contact point that answers, learns the others from it, and connects to every shard of every node that can
    /// be reached now.
    pub async fn connect(contact_points: &[SocketAddr], options: PoolOptions) -> Result<Pool, Error> {
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
            match Pool::learn(*address, &connection, &options).await {
                Err(error) => last = error,
                Ok(pool) => {
                    pool.start(*address, connection).await;
                    return Ok(pool);
                }
            }
        }
        Err(last)
    }

    /// Reads the ring. Events are asked for before, so that none between the two is missed.
    async fn learn(
        contact: SocketAddr,
        connection: &Connection,
        options: &PoolOptions,
    ) -> Result<Pool, Error> {
        listen(connection).await?;
        let told = Told::ask(contact, connection).await?;
        let cluster = told.cluster.clone();
        let mut nodes = Vec::new();
        let ring = Ring::new(told, &options.asked(), |place| {
            nodes.push(Rc::new(Node::new(place.clone())));
            nodes.len() - 1
        })?;
        let shared = Shared {
            keyspace: options.keyspace.clone().or_else(|| options.connection.keyspace.clone()),
            options: options.clone(),
            ring: RefCell::new(Rc::new(ring)),
            turn: Cell::new(0),
            nodes: RefCell::new(nodes),
        };
        let places = shared.nodes.borrow().iter().map(|node| node.place.clone()).collect();
        Ok(Pool { shared: Rc::new(shared), cluster, places, over: Flag::new() })
    }

    /// Connects to the nodes that are asked, and begins to follow the ring.
    async fn start(&self, contact: SocketAddr, connection: Connection) {
        let shared = &self.shared;
        let known = shared.nodes.borrow().iter().find(|node| node.place.address == contact).cloned();
        if let Some(node) = known {
            shared.adopt(&node, None, connection.clone());
        }
        for index in shared.ring().tiers[0].nodes.clone() {
            shared.fill(index).await;
        }
        runtime::spawn(Group::QUERY, follow(Rc::downgrade(shared), contact, connection, self.over.clone()));
    }

    /// The name of the cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The nodes that were asked when the pool was made.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter()
    }

    /// How many nodes the pool knows, those that have left among them: one more than the last one's number.
    pub fn node_count(&self) -> usize {
        self.shared.nodes.borrow().len()
    }

    /// How many shards a node has, as it says; 1 when it says nothing.
    pub fn shard_count(&self, node: usize) -> u16 {
        self.shared.node(node).shards.get().max(1)
    }

    /// The node with the next token around the ring, of those that are asked, and the shard there that owns a token.
    pub fn owner(&self, token: Token) -> (usize, u16) {
        let node = self.shared.ring().owner(0, token);
        (node, base::shard_of(token, self.shard_count(node)))
    }

    /// The nodes that hold a token of a keyspace, of those that are asked; the owner comes first. With the owner alone where the
    /// replication of the keyspace says nothing.
    pub fn replicas(&self, keyspace: &str, token: Token) -> Vec<usize> {
        self.shared.ring().with_replicas(0, Some(keyspace), token, <[usize]>::to_vec)
    }

    /// The tokens of the nodes that are asked, in order.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        let tokens: Vec<Token> = self.shared.ring().tiers[0].tokens.iter().map(|(token, _)| *token).collect();
        tokens.into_iter()
    }

    /// The connection for a token of the pool's keyspace if it is there, without waiting. If it is not, its turn is not over: who waits
    /// for [`connection`](Self::connection) makes that one.
    pub fn ready(&self, token: Option<Token>) -> Option<Connection> {
        self.shared.ready(self.shared.keyspace.as_deref(), token)
    }

    /// The connection for a token of the pool's keyspace, at once if it is there; without one, the nodes take turns. When those that hold
    /// it cannot be reached, any other node, those of the first tier before the others: those that could not be reached a moment ago are
    /// not tried.
    pub async fn connection(&self, token: Option<Token>) -> Result<Connection, Error> {
        self.shared.connection(self.shared.keyspace.as_deref(), token).await
    }

    /// The connection to one shard of one node, made anew when it has closed. One caller connects, the others wait for it, or ask another
    /// node where this one has failed and there is one; after a failure nobody tries for a while, longer each time.
    pub async fn on_shard(&self, node: usize, shard: u16) -> Result<Connection, Error> {
        self.shared.on_shard(node, shard).await
    }

    /// Whether a node of this address cannot be reached, or is not asked.
    pub(crate) async fn is_away(&self, ip: IpAddr) -> bool {
        match self.shared.at_ip(ip) {
            Some(node) => self.shared.on_shard(node, 0).await.is_err(),
            None => true,
        }
    }

    /// Prepares a statement on any node.
    pub async fn prepare(&self, text: &str) -> Result<Statement, Error> {
        self.connection(None).await?.prepare(text).await
    }

    /// Runs a prepared statement where its partition lives.
    pub async fn execute(&self, statement: &Statement, parameters: Parameters<'_>) -> Result<Outcome, Error> {
        // Each marker says of which table it is.
        let keyspace = statement.markers().first().map(|marker| &*marker.keyspace);
        let token = statement.token(parameters.values);
        let connection = self.shared.connection(keyspace.or(self.shared.keyspace.as_deref()), token).await?;
        connection.execute(statement, parameters).await
    }

    /// Runs a statement's text on any node.
    pub async fn query(&self, text: &str, parameters: Parameters<'_>) -> Result<Outcome, Error> {
        self.connection(None).await?.query(text, parameters).await
    }
}

impl PoolOptions {
    /// Who is asked, tier by tier.
    fn asked(&self) -> Vec<&Usable> {
        std::iter::once(&self.usable).chain(&self.spare).collect()
    }
}

/// Asks for events of the ring and of keyspaces. A server that knows none is not followed.
async fn listen(connection: &Connection) -> Result<(), Error> {
    let events = [EventType::TopologyChange, EventType::StatusChange, EventType::SchemaChange];
    match connection.register(&events).await {
        Ok(()) | Err(Error::Failure(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether an event says something of who holds what: tables come and go without.
fn is_of_ring(event: &Event) -> bool {
    match event {
        Event::Topology(..) | Event::Status(..) => true,
        Event::Schema(change) => change.target == Target::Keyspace,
    }
}

/// Reads the ring again whenever it, or how a keyspace is replicated, has changed, until the pool is gone; over another connection when this one has ended.
async fn follow(shared: Weak<Shared>, mut contact: SocketAddr, connection: Connection, over: Flag) {
    let mut listening = Some(connection);
    loop {
        match &listening {
            Some(connection) => {
                let Some(event) = unless(&over, connection.next_event()).await else { return };
                match (event, shared.upgrade()) {
                    (_, None) => return,
                    (Some(event), _) if !is_of_ring(&event) => continue,
                    (Some(event), Some(shared)) => shared.hear(&event),
                    (None, Some(_)) => listening = None,
                }
                // A change comes with others: they are one.
                if unless(&over, runtime::sleep(EVENTS_REST)).await.is_none() {
                    return;
                }
                if let (Some(connection), Some(shared)) = (&listening, shared.upgrade()) {
                    while let Some(Some(event)) = ready(connection.next_event()).await {
                        shared.hear(&event);
                    }
                }
            }
            None => {
                let Some(shared) = shared.upgrade() else { return };
                let asked = unless(&over, shared.connection(None, None)).await;
                match asked {
                    None => return,
                    Some(Ok(connection)) if listen(&connection).await.is_ok() => {
                        contact = SocketAddr::new(
                            shared.address_of(&connection).unwrap_or(contact.ip()),
                            contact.port(),
                        );
                        listening = Some(connection);
                    }
                    Some(_) => {
                        drop(shared);
                        if unless(&over, runtime::sleep(LISTEN_AGAIN)).await.is_none() {
                            return;
                        }
                        continue;
                    }
                }
            }
        }
        if let (Some(connection), Some(shared)) = (&listening, shared.upgrade()) {
            // What cannot be read now is read at the next change.
            let _later = unless(&over, shared.read_again(contact, connection)).await;
        }
    }
}

/// What comes of a future, or nothing when the pool is gone first.
async fn unless<T>(over: &Flag, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut over) = (pin!(work), pin!(over.wait()));
    poll_fn(|context| match over.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

/// What a future gives at once.
async fn ready<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

impl Shared {
    fn ring(&self) -> Rc<Ring> {
        self.ring.borrow().clone()
    }

    fn node(&self, index: usize) -> Rc<Node> {
        self.nodes.borrow()[index].clone()
    }

    /// The number of the node with this address.
    fn at_ip(&self, ip: IpAddr) -> Option<usize> {
        self.nodes.borrow().iter().position(|node| node.place.address.ip() == ip)
    }

    /// A node that is up again is tried at once.
    fn hear(&self, event: &Event) {
        if let Event::Status(true, address) = event
            && let Some(node) = self.at_ip(address.ip())
        {
            self.node(node).down_until.set(None);
        }
    }

    /// Whom a connection of this pool leads to.
    fn address_of(&self, connection: &Connection) -> Option<IpAddr> {
        let is_its =
            |node: &&Rc<Node>| node.connections.borrow().iter().flatten().any(|known| known.is(connection));
        self.nodes.borrow().iter().find(is_its).map(|node| node.place.address.ip())
    }

    /// Reads the ring and connects to who is new. Errors: of the connection; the ring of before stays, also when none of the new one's nodes
    /// may be asked.
    async fn read_again(&self, contact: SocketAddr, connection: &Connection) -> Result<(), Error> {
        let told = Told::ask(contact, connection).await?;
        let before = self.nodes.borrow().len();
        let number = |place: &Place| {
            let mut nodes = self.nodes.borrow_mut();
            let known = nodes.iter().position(|node| node.place == *place);
            known.unwrap_or_else(|| {
                nodes.push(Rc::new(Node::new(place.clone())));
                nodes.len() - 1
            })
        };
        let ring = Rc::new(Ring::new(told, &self.options.asked(), number)?);
        self.ring.replace(ring.clone());
        for index in ring.tiers[0].nodes.iter().copied().filter(|index| before <= *index) {
            self.fill(index).await;
        }
        Ok(())
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
        let node = self.node(index);
        // The first connection tells how many there will be.
        while place < self.place_count(&node) {
            if self.on_shard(index, place).await.is_err() {
                // The error comes back when somebody wants the connection.
                return;
            }
            place += 1;
        }
    }

    /// The nodes of a tier that hold a token, in the order of this turn, or all of them; and how often each has had its turn.
    fn aim(&self, ring: &Ring, tier: usize, keyspace: Option<&str>, token: Option<Token>) -> Aim {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let turned = |nodes: &[usize]| {
            let first = turn % nodes.len();
            let round = turn / nodes.len();
            Aim { nodes: nodes[first..].iter().chain(&nodes[..first]).copied().collect(), round }
        };
        match token {
            Some(token) => ring.with_replicas(tier, keyspace, token, turned),
            None => turned(&ring.tiers[tier].nodes),
        }
    }

    /// The place of the connection to a node: the shard's, or where no shard is meant the next one's turn.
    fn place_on(&self, node: &Node, token: Option<Token>, round: usize) -> u16 {
        let shards = node.shards.get();
        match token {
            Some(token) if 0 < shards && self.options.shard_aware => base::shard_of(token, shards),
            _ => round as u16 % self.place_count(node),
        }
    }

    fn ready(&self, keyspace: Option<&str>, token: Option<Token>) -> Option<Connection> {
        let (turn, ring) = (self.turn.get(), self.ring());
        let aim = self.aim(&ring, 0, keyspace, token);
        for index in &aim.nodes {
            let node = self.node(*index);
            if let Some(connection) = node.live(self.place_on(&node, token, aim.round)) {
                return Some(connection);
            }
            // One that failed a moment ago is passed over; one that has not is to be connected.
            if node.is_up().is_ok() {
                break;
            }
        }
        self.turn.set(turn);
        None
    }

    async fn connection(&self, keyspace: Option<&str>, token: Option<Token>) -> Result<Connection, Error> {
        if let Some(connection) = self.ready(keyspace, token) {
            return Ok(connection);
        }
        let mut last = Error::Unexpected("no node");
        let ring = self.ring();
        for (number, tier) in ring.tiers.iter().enumerate().filter(|(_, tier)| !tier.nodes.is_empty()) {
            let aim = self.aim(&ring, number, keyspace, token);
            let first = tier.nodes.iter().position(|node| Some(node) == aim.nodes.first()).unwrap_or(0);
            let around = tier.nodes[first..].iter().chain(&tier.nodes[..first]);
            let others = around.filter(|node| !aim.nodes.contains(node));
            for index in aim.nodes.iter().chain(others).copied() {
                let node = self.node(index);
                match self.on_shard(index, self.place_on(&node, token, aim.round)).await {
                    Ok(connection) => return Ok(connection),
                    Err(error) => last = error,
                }
                // One that cannot be made now does not keep others to the same node from being used.
                if let Some(connection) = node.any_live() {
                    return Ok(connection);
                }
            }
        }
        Err(last)
    }

    async fn on_shard(&self, index: usize, shard: u16) -> Result<Connection, Error> {
        let (node, known) = (self.node(index), self.nodes.borrow().len());
        if let Some(connection) = node.live(shard) {
            return Ok(connection);
        }
        node.is_up()?;
        let goes_elsewhere = 0 < node.failures.get() && 1 < known;
        let _connecting = match goes_elsewhere {
            true => node.connecting.try_acquire(1).ok_or_else(|| node.away("is being tried again"))?,
            false => node.connecting.acquire(1).await,
        };
        if let Some(connection) = node.live(shard) {
            return Ok(connection);
        }
        node.is_up()?;
        let connected = self.connect_to(&node, shard).await;
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
}

/// Whom a request is for.
struct Aim {
    /// In the order in which they are tried.
    nodes: SmallVec<[usize; 4]>,
    /// How often the turn has gone round all of them.
    round: usize,
}

impl Node {
    fn new(place: Place) -> Node {
        Node {
            place,
            shards: Cell::new(0),
            shard_aware_port: Cell::new(None),
            connections: RefCell::new(vec![None]),
            connecting: Semaphore::new(1),
            failures: Cell::new(0),
            down_until: Cell::new(None),
        }
    }

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
