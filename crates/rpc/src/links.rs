//! A node's connections to other nodes, on its shard 0: who they are, where they are, which of them answer.
//!
//! Everything here happens on shard 0: attempts and greetings of all classes, control connections, and the hand-over of data connections to the shards
//! that use them. The caller adds the members of the cluster, judges hellos, and gets an event for what happens to peers.

use crate::calls::Gather;
use crate::conn::{Conn, Outgoing, Setup, Side};
use crate::control::{Control, DialControl, Event, Heard, Target};
use crate::error::CallError;
use crate::frame::Facts;
use crate::greet::{Failed, Handed, Met, Unmet, Wire};
use crate::hello::{Class, Gatekeeper, Hello, Refusal, RefusalKind, Verdict};
use crate::limits::{
    CONNECT_TIMEOUT, GOODBYE_TIMEOUT, GREETINGS_MAX, HANDSHAKES_MAX, HELLO_TIMEOUT, PROTOCOL_MAX,
    PROTOCOL_MIN, REFUSAL_LOG_EVERY, REFUSALS_REMEMBERED,
};
use crate::load::Load;
use crate::pool::{Dial, Dialer, Dialing, Pool};
use crate::traffic::Counts;
use crate::verbs::Registry;
use base::{HashMap, HostId, Instant};
use runtime::metrics::{Sample, SampleValue};
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::{Flag, Permit, Semaphore};
use runtime::{Group, ShardId};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;
use tls::Encryption;

/// What connections are encrypted with.
#[derive(Default)]
struct Keys {
    /// For those that other nodes make.
    acceptor: Option<tls::Acceptor>,
    /// For those that this node makes.
    connector: Option<tls::Connector>,
}

/// A port that other nodes connect to, until the links are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// Where.
    pub address: SocketAddr,
}

/// Why an address could not be called.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("cannot speak with {address}: {reason}")]
pub struct ContactError {
    /// The address.
    pub address: SocketAddr,
    /// What happened, for people.
    pub reason: String,
    /// The refusal, if it was one, of whichever side.
    pub refusal: Option<Refusal>,
    /// Whether it was the other side that refused.
    pub refused_there: bool,
    /// Who answers there, if it said so.
    pub hello: Option<Box<Hello>>,
}

/// A conversation with the node that answers at an address; ends when dropped.
pub struct Contact {
    /// Who answers.
    pub hello: Hello,
    conn: Rc<Conn>,
}

impl Contact {
    /// Asks a verb of the control class.
    pub async fn call(
        &self,
        outgoing: Outgoing,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Vec<u8>, CallError> {
        self.conn.call(&outgoing, encode).await
    }
}

impl Drop for Contact {
    fn drop(&mut self) {
        self.conn.close("the conversation is over");
    }
}

/// The connections of one node.
pub struct Links {
    gate: Rc<dyn Gatekeeper>,
    report: Rc<dyn Fn(Event)>,
    verbs: Rc<Registry>,
    load: Rc<Load>,
    /// Sets this process apart from others with the same host id.
    process: u64,
    peers: RefCell<HashMap<HostId, Rc<Control>>>,
    keys: RefCell<Keys>,
    greetings: Semaphore,
    handshakes: Semaphore,
    draining: Cell<bool>,
    closed: Flag,
    /// When refusals were logged last.
    refusals: RefCell<HashMap<(SocketAddr, RefusalKind), Instant>>,
}

impl Links {
    /// Starts on shard 0, where verbs of the control class are answered; every shard has its [`Pool`] installed already. `report` is called
    /// within the step in which something happens; it may call back.
    pub fn start(gate: Rc<dyn Gatekeeper>, verbs: Registry, report: Rc<dyn Fn(Event)>) -> Rc<Links> {
        assert_eq!(runtime::shard(), ShardId(0), "links live on shard 0");
        let links = Rc::new(Links {
            report,
            verbs: Rc::new(verbs),
            load: Load::new("control"),
            process: process_number(gate.identity().host),
            gate,
            peers: RefCell::default(),
            keys: RefCell::default(),
            greetings: Semaphore::new(GREETINGS_MAX),
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            draining: Cell::new(false),
            closed: Flag::new(),
            refusals: RefCell::default(),
        });
        runtime::install(Rc::new(Dialer(links.clone())));
        let shown = Rc::downgrade(&links);
        runtime::metrics::collector(move |samples| {
            if let Some(links) = shown.upgrade() {
                links.collect(samples);
            }
        });
        links
    }

    /// Encrypts with these keys from now on, reading their files again when they change; connections made before go on with theirs.
    /// Errors: the files cannot be used, and nothing is encrypted.
    pub async fn use_keys(
        self: &Rc<Self>,
        server: tls::ServerSettings,
        client: tls::ClientSettings,
    ) -> Result<(), tls::Error> {
        let (acceptor, of_acceptor) = tls::Watch::start(server).await?;
        let (connector, of_connector) = tls::ConnectorWatch::start(client).await?;
        *self.keys.borrow_mut() = Keys { acceptor: Some(acceptor), connector: Some(connector) };
        let links = self.clone();
        drop(runtime::spawn(Group::MAIN, async move { links.renew_keys(of_acceptor, of_connector).await }));
        Ok(())
    }

    async fn renew_keys(&self, mut of_acceptor: tls::Watch, mut of_connector: tls::ConnectorWatch) {
        while runtime::timeout(tls::limits::LOOK_EVERY, self.closed.wait()).await.is_err() {
            let acceptor = of_acceptor.look().await.transpose();
            let connector = of_connector.look().await.transpose();
            for error in [acceptor.as_ref().err(), connector.as_ref().err()].into_iter().flatten() {
                runtime::warn!("rpc: keys and certificates between nodes stay as they were: {error}");
            }
            let (acceptor, connector) = (acceptor.ok().flatten(), connector.ok().flatten());
            if acceptor.is_some() || connector.is_some() {
                let mut keys = self.keys.borrow_mut();
                keys.acceptor = acceptor.or(keys.acceptor.take());
                keys.connector = connector.or(keys.connector.take());
                runtime::info!("rpc: new connections get the renewed keys and certificates");
            }
        }
    }

    /// Listens for other nodes. `Optional` takes both kinds.
    pub async fn listen(
        self: &Rc<Self>,
        address: SocketAddr,
        encryption: Encryption,
    ) -> io::Result<Listener> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let links = self.clone();
        drop(runtime::spawn(Group::CONTROL, async move { links.accept_all(listener, encryption).await }));
        Ok(Listener { address })
    }

    /// Adds a peer, or changes where it is; all shards know it when this ends. Its first event says that it is up.
    pub async fn add(self: &Rc<Self>, host: HostId, target: Target) {
        let control = self.control(host);
        let is_new = control.target().is_none();
        control.set_target(target);
        if is_new {
            let (keeper, dialer) = (control.clone(), self.clone());
            drop(runtime::spawn(Group::CONTROL, async move { keeper.keep(dialer).await }));
            control.introduce().await;
        }
    }

    /// Forgets a peer and ends its connections. Whether it may come back is the gatekeeper's to say.
    pub fn remove(&self, host: HostId) {
        self.load.traffic.forget(host);
        let control = self.peers.borrow_mut().remove(&host);
        if let Some(control) = control {
            control.remove("it is no peer any more");
        }
    }

    /// Peers that were added, and where they are.
    pub fn peers(&self) -> Vec<(HostId, Target)> {
        let peers = self.peers.borrow();
        peers.values().filter_map(|control| Some((control.host, control.target()?))).collect()
    }

    /// Why a peer is not up, if anything was tried.
    pub fn reason(&self, host: HostId) -> Option<String> {
        self.peer(host)?.reason()
    }

    fn peer(&self, host: HostId) -> Option<Rc<Control>> {
        self.peers.borrow().get(&host).cloned()
    }

    /// Whether a peer is up.
    pub fn is_up(&self, host: HostId) -> bool {
        self.peer(host).is_some_and(|control| control.is_up())
    }

    /// What a peer that is up said of itself last.
    pub fn facts(&self, host: HostId) -> Option<Facts> {
        self.peer(host)?.facts()
    }

    /// How long pings to a peer that is up took to be answered lately.
    pub fn round_trip(&self, host: HostId) -> Option<Duration> {
        self.peer(host)?.round_trip()
    }

    /// What went between this node and all peers by control connections.
    pub fn traffic(&self) -> Counts {
        self.load.traffic.sum()
    }

    /// What a peer said last, and when; `None`: it was never heard.
    pub fn heard(&self, host: HostId) -> Option<Heard> {
        self.peer(host)?.heard()
    }

    /// The newest hello of a peer.
    pub fn hello(&self, host: HostId) -> Option<Hello> {
        self.peer(host)?.hello()
    }

    /// Says to every peer at once what this node's pings would say of it soon.
    pub fn say_facts(&self) {
        self.peers.borrow().values().for_each(|control| control.say_facts());
    }

    /// Who is up, and how long pings take.
    fn collect(&self, samples: &mut Vec<Sample>) {
        for (host, target) in self.peers() {
            let labels = || {
                let address = ("address".to_owned(), target.address.to_string());
                vec![("peer".to_owned(), host.to_string()), address]
            };
            let mut add = |name: &str, help: &str, value: f64| {
                let value = SampleValue::Gauge(value);
                samples.push(Sample {
                    name: name.to_owned(),
                    help: help.to_owned(),
                    labels: labels(),
                    value,
                });
            };
            add("messina_rpc_peer_up", "1: a node answers.", f64::from(u8::from(self.is_up(host))));
            if let Some(took) = self.round_trip(host) {
                add("messina_rpc_ping_us", "Microseconds until a ping is answered.", took.as_micros() as f64);
            }
        }
    }

    /// Asks a verb of the control class and waits for the answer.
    pub async fn call(
        &self,
        host: HostId,
        outgoing: Outgoing,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Vec<u8>, CallError> {
        self.current(host)?.call(&outgoing, encode).await
    }

    /// Asks a verb of the control class; the answer goes to `gather`. Errors: nothing was sent.
    pub fn send(
        &self,
        host: HostId,
        outgoing: Outgoing,
        gather: (Rc<dyn Gather>, u16),
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallError> {
        self.current(host)?.send(&outgoing, gather, encode)
    }

    fn current(&self, host: HostId) -> Result<Rc<Conn>, CallError> {
        let reason = match self.peer(host) {
            None => "it is no known peer",
            Some(control) => match control.current() {
                Some(conn) => return Ok(conn),
                None => "it is down",
            },
        };
        Err(CallError::Unreachable { peer: host, reason: reason.into() })
    }

    /// Speaks with the node that answers at an address: a seed whose host id is not known.
    pub async fn contact(self: &Rc<Self>, target: Target) -> Result<Contact, ContactError> {
        let address = target.address;
        let failed = |(hello, failed): Unmet| ContactError {
            address,
            reason: failed.to_string(),
            hello,
            refused_there: matches!(failed, Failed::RefusedThere(_)),
            refusal: match failed {
                Failed::RefusedHere(refusal) | Failed::RefusedThere(refusal) => Some(refusal),
                Failed::Broken(_) | Failed::Foreign(_) | Failed::Slow => None,
            },
        };
        let met = self.reach(target, self.hello_for(Class::Contact, HostId(0))).await.map_err(failed)?;
        let hello = met.theirs.clone();
        let conn = Conn::new(self.setup(hello.node.host, Class::Contact, Side::Dialed, None));
        conn.open(met.into_link());
        Ok(Contact { hello, conn })
    }

    /// Signals all peers that this node is about to stop, and takes no more connections. Calls under way go on.
    pub async fn say_goodbye(&self) {
        self.draining.set(true);
        let conns: Vec<Rc<Conn>> =
            self.peers.borrow().values().flat_map(|control| control.say_goodbye()).collect();
        let left = async {
            for conn in &conns {
                conn.drained().await;
            }
        };
        let _in_time_or_not = runtime::timeout(GOODBYE_TIMEOUT, left).await;
    }

    /// Takes connections again after [`Links::say_goodbye`], and makes them anew, as peers wait for a hello.
    pub fn return_to_peers(&self) {
        self.draining.set(false);
        let peers: Vec<Rc<Control>> = self.peers.borrow().values().cloned().collect();
        peers.iter().for_each(|control| control.renew("this node is back"));
    }

    /// Whether this node has said that it stops.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Ends all connections of shard 0 and the listeners.
    pub fn close(&self) {
        self.draining.set(true);
        self.closed.set();
        let peers = std::mem::take(&mut *self.peers.borrow_mut());
        for control in peers.into_values() {
            control.remove("this node stops");
        }
    }

    /// Control connections with peers.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.peers.borrow().values().map(|control| control.connections()).sum()
    }

    fn control(&self, host: HostId) -> Rc<Control> {
        let new = || Control::new(host, self.gate.identity().host, self.gate.clone(), self.report.clone());
        self.peers.borrow_mut().entry(host).or_insert_with(new).clone()
    }

    fn setup(&self, peer: HostId, class: Class, side: Side, control: Option<&Rc<Control>>) -> Setup {
        Setup {
            peer,
            class,
            side,
            verbs: self.verbs.clone(),
            load: self.load.clone(),
            standing: control.map(|control| control.standing.clone()),
            hooks: control.map(|control| Rc::downgrade(control) as Weak<dyn crate::conn::Hooks>),
        }
    }
}

/// Two processes that were given the same seed must not take each other for themselves.
fn process_number(host: HostId) -> u64 {
    runtime::random_u64() ^ host.0 as u64 ^ (host.0 >> 64) as u64 ^ runtime::unix_micros() as u64
}

// ---- greetings -------------------------------------------------------------------------------------------------

impl Links {
    fn hello_for(&self, class: Class, expected: HostId) -> Hello {
        let mut node = self.gate.identity();
        node.features |= runtime::try_local::<Pool>().map_or(0, |pool| pool.features());
        Hello {
            node,
            protocol: (PROTOCOL_MIN, PROTOCOL_MAX),
            class,
            wanted_shard: 0,
            from_shard: 0,
            process: self.process,
            unix_micros: runtime::unix_micros(),
            expected,
        }
    }

    /// Judges a hello: what only the links know, then what the gatekeeper says.
    fn check(&self, theirs: &Hello, expected: HostId) -> Verdict {
        let (ours, host) = (self.gate.identity(), theirs.node.host);
        let refuse = |kind, text: String| Err(Refusal::new(kind, text));
        if theirs.process == self.process {
            return refuse(RefusalKind::Myself, format!("node {host} has called itself"));
        }
        if host == ours.host {
            let text = format!("two nodes have host id {host}: a data folder was copied");
            return refuse(RefusalKind::HostTwice, text);
        }
        if expected != HostId(0) && expected != host {
            return refuse(RefusalKind::OtherHost, format!("expected host {expected}, found {host}"));
        }
        if theirs.expected != HostId(0) && theirs.expected != ours.host {
            self.gate.misdirected(theirs);
            let text = format!("expected host {}, found {}", theirs.expected, ours.host);
            return refuse(RefusalKind::OtherHost, text);
        }
        let live = self.peer(host).and_then(|control| control.live_process());
        if live.is_some_and(|process| process != theirs.process) {
            let text = format!("another process with host id {host} is connected");
            return refuse(RefusalKind::HostTwice, text);
        }
        if self.draining.get() {
            return refuse(RefusalKind::Draining, format!("node {} is about to stop", ours.host));
        }
        self.gate.check(theirs)
    }

    /// Dials and greets.
    async fn reach(&self, target: Target, ours: Hello) -> Result<Met, Unmet> {
        if self.draining.get() {
            return Err((None, Failed::Broken("this node stops".into())));
        }
        let connector = match (target.encrypt, self.keys.borrow().connector.clone()) {
            (false, _) => None,
            (true, Some(connector)) => Some(connector),
            (true, None) => return Err((None, Failed::Foreign("there are no keys to encrypt with".into()))),
        };
        let expected = ours.expected;
        let greeted = async {
            let wire = Wire::connect(target.address, connector.as_ref(), &self.handshakes).await;
            let wire = wire.map_err(|failed| (None, failed))?;
            wire.greet(&ours, |theirs| self.check(theirs, expected)).await
        };
        let met = runtime::timeout(CONNECT_TIMEOUT + HELLO_TIMEOUT, greeted).await;
        let met = met.unwrap_or(Err((None, Failed::Slow)));
        if let Err((_, failed)) = &met {
            self.log_refusal(target.address, failed);
        }
        met
    }

    /// At most a line a minute for a peer and a kind of refusal: who is refused tries again.
    fn log_refusal(&self, address: SocketAddr, failed: &Failed) {
        let (kind, text, who) = match failed {
            Failed::RefusedHere(refusal) => (refusal.kind, &refusal.text, "refusing"),
            Failed::RefusedThere(refusal) => (refusal.kind, &refusal.text, "refused by"),
            Failed::Foreign(text) => (RefusalKind::Other, text, "cannot speak with"),
            Failed::Broken(_) | Failed::Slow => return,
        };
        let now = runtime::now();
        let mut refusals = self.refusals.borrow_mut();
        if REFUSALS_REMEMBERED <= refusals.len() {
            refusals.retain(|_, at| now - *at < REFUSAL_LOG_EVERY);
        }
        let key = (address, kind);
        let is_due = refusals.get(&key).is_none_or(|at| REFUSAL_LOG_EVERY <= now - *at);
        if is_due && refusals.len() < REFUSALS_REMEMBERED {
            refusals.insert(key, now);
            runtime::warn!("rpc: {who} {address}: {text}");
        }
    }

    async fn accept_all(self: Rc<Self>, listener: TcpListener, encryption: Encryption) {
        let mut closed = pin!(self.closed.wait());
        loop {
            // Those beyond the bound wait in the kernel: a peer's shards may all dial at once.
            let mut accepting = pin!(async { (self.greetings.acquire(1).await, listener.accept().await) });
            let accepted = std::future::poll_fn(|context| match closed.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => accepting.as_mut().poll(context).map(Some),
            });
            match accepted.await {
                None => return,
                Some((permit, Ok((stream, from)))) => self.begin_greeting(stream, from, encryption, permit),
                Some((_, Err(error))) => {
                    runtime::warn!("rpc: cannot accept a connection: {error}");
                    runtime::sleep(CONNECT_TIMEOUT).await;
                }
            }
        }
    }

    fn begin_greeting(
        self: &Rc<Self>,
        stream: TcpStream,
        from: SocketAddr,
        encryption: Encryption,
        permit: Permit,
    ) {
        let links = self.clone();
        drop(runtime::spawn(Group::CONTROL, async move {
            let greeting = links.be_greeted(stream, encryption);
            let met = runtime::timeout(HELLO_TIMEOUT, greeting).await.unwrap_or(Err((None, Failed::Slow)));
            drop(permit);
            match met {
                Ok(met) => links.take(met, from).await,
                Err((hello, failed)) => {
                    // One that does not say where it is has another port each time.
                    let unknown = SocketAddr::new(from.ip(), 0);
                    let address = hello.and_then(|hello| hello.node.address).unwrap_or(unknown);
                    links.log_refusal(address, &failed);
                    runtime::debug!("rpc: no connection from {from}: {failed}");
                }
            }
        }));
    }

    async fn be_greeted(&self, stream: TcpStream, encryption: Encryption) -> Result<Met, Unmet> {
        let acceptor = self.keys.borrow().acceptor.clone();
        let wire = Wire::accept(stream, encryption, acceptor.as_ref(), &self.handshakes).await;
        let wire = wire.map_err(|failed| (None, failed))?;
        wire.be_greeted(|theirs| {
            let ours = self.hello_for(theirs.class, theirs.node.host);
            (ours, self.check(theirs, HostId(0)))
        })
        .await
    }

    /// Puts an accepted connection to use.
    async fn take(self: &Rc<Self>, met: Met, from: SocketAddr) {
        let (host, class) = (met.theirs.node.host, met.theirs.class);
        if class == Class::Control
            && let Err(reason) = self.gate.record(&met.theirs).await
        {
            return runtime::warn!("rpc: no connection with {host}: {reason}");
        }
        // Verdicts take time: meanwhile another process may have come, or this node begun to stop.
        if let Err(refusal) = self.check(&met.theirs, HostId(0)) {
            return self.log_refusal(from, &Failed::RefusedHere(refusal));
        }
        match class {
            Class::Contact => Conn::new(self.setup(host, class, Side::Accepted, None)).open(met.into_link()),
            Class::Control => self.adopt(met, Side::Accepted),
            Class::Data => self.hand_over(met),
        }
    }

    fn adopt(self: &Rc<Self>, met: Met, side: Side) {
        self.forget_strangers();
        let hello = met.theirs.clone();
        let control = self.control(hello.node.host);
        let conn = Conn::new(self.setup(hello.node.host, Class::Control, side, Some(&control)));
        conn.open(met.into_link());
        control.adopt(conn, &hello);
    }

    /// Nodes that are no peers are remembered as long as they are connected.
    fn forget_strangers(&self) {
        self.peers.borrow_mut().retain(|_, control| control.target().is_some() || control.has_connections());
    }

    fn hand_over(&self, met: Met) {
        let host = met.theirs.node.host;
        let shard = ShardId(met.theirs.wanted_shard % runtime::shard_count());
        let standing = self.peer(host).map(|control| control.standing.clone());
        let Ok(handed) = met.into_handed() else { return };
        let accept = move || async move {
            if let Some(pool) = runtime::try_local::<Pool>() {
                pool.accept(host, standing, handed);
            }
        };
        drop(runtime::spawn(Group::CONTROL, runtime::submit_to(shard, Group::CONTROL, accept)));
    }
}

impl DialControl for Links {
    fn dial(self: Rc<Self>, peer: Rc<Control>) -> Pin<Box<dyn Future<Output = Result<(), Failed>>>> {
        Box::pin(async move {
            let Some(target) = peer.target() else { return Err(Failed::Broken("it is no peer".into())) };
            let ours = self.hello_for(Class::Control, peer.host);
            let met = self.reach(target, ours).await.map_err(|(_, failed)| failed)?;
            self.gate.record(&met.theirs).await.map_err(Failed::Broken)?;
            if let Err(refusal) = self.check(&met.theirs, peer.host) {
                return Err(Failed::RefusedHere(refusal));
            }
            if !peer.is_removed() {
                self.adopt(met, Side::Dialed);
            }
            Ok(())
        })
    }
}

impl Dial for Links {
    fn open_data(self: Rc<Self>, host: HostId, from: u16, wanted: u16) -> Dialing {
        Box::pin(async move {
            let control = self.peer(host).ok_or("it is no known peer")?;
            let target = control.target().ok_or("it is no known peer")?;
            if !control.is_up() {
                return Err("it is down".to_owned());
            }
            let ours = Hello { wanted_shard: wanted, from_shard: from, ..self.hello_for(Class::Data, host) };
            let met = self.reach(target, ours).await.map_err(|(_, failed)| failed.to_string())?;
            let handed: Result<Handed, Failed> = met.into_handed();
            handed.map_err(|failed| failed.to_string())
        })
    }
}
