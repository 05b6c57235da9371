//! One peer, on shard 0: its control connections, and whether it is up.
//!
//! ```text
//!            hello                       silence 2.5 s, or the connection ended and the next attempt was refused, or a goodbye
//!   Down ───────────▶ Up ───────────────────────────────────────────────────────────────────────────────────────▶ Down
//!            hello and a pong, if it was silence that ended the last time of this process
//! ```
//! Both sides dial until there is a connection; of two the one that the higher host id dialed is closed by its dialer. Invariants: every change of
//! state is reported once, in order; a peer is up only while it has an open connection, or has lost it and tries anew.

use crate::conn::{Conn, Hooks, Side};
use crate::frame::{Facts, Kind};
use crate::greet::Failed;
use crate::hello::{Gatekeeper, Hello};
use crate::limits::{
    CONNECT_TIMEOUT, HELLO_TIMEOUT, PING_PAUSE, RECONNECT_PAUSE_MAX, RECONNECT_PAUSE_MIN,
    SECOND_CONNECTION_LIFE, SILENCE_MAX,
};
use crate::pool::Pool;
use crate::standing::Standing;
use crate::watch::{Tick, Watch};
use base::{HostId, Instant};
use runtime::sync::{Event as Bell, Flag};
use runtime::{Group, ShardId};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Where a peer is, and how it is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its address for other nodes.
    pub address: SocketAddr,
    /// Whether connections to it are encrypted.
    pub encrypt: bool,
}

/// Something happened to a peer.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Which.
    pub host: HostId,
    /// What.
    pub kind: EventKind,
}

/// What happened to a peer.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// It was down or unknown and answers, or it is another process than before.
    Up(Box<Hello>),
    /// It says something new of itself; its load alone is nothing new.
    Facts(Facts),
    /// It is down, for the reason given.
    Down(String),
    /// It was met at another address, which is used from now on.
    Moved(SocketAddr),
    /// A node that was not added has connected and was not refused.
    Met(Box<Hello>),
}

/// What a peer has said, also when it does not answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// What its last ping or pong said.
    pub facts: Facts,
    /// When that came.
    pub at: Instant,
    /// It said that it stops, and is not back.
    pub has_left: bool,
    /// How long pings took to be answered on its last connection.
    pub round_trip: Option<Duration>,
}

/// Makes control connections.
pub(crate) trait DialControl {
    /// Connects to a peer and hands the connection to [`Control::adopt`].
    fn dial(self: Rc<Self>, peer: Rc<Control>) -> Pin<Box<dyn Future<Output = Result<(), Failed>>>>;
}

/// One peer.
pub(crate) struct Control {
    pub(crate) host: HostId,
    ours: HostId,
    gate: Rc<dyn Gatekeeper>,
    report: Rc<dyn Fn(Event)>,
    pub(crate) standing: Arc<Standing>,
    target: Cell<Option<Target>>,
    conns: RefCell<Vec<Rc<Conn>>>,
    state: RefCell<State>,
    bell: Bell,
    removed: Flag,
}

#[derive(Default)]
struct State {
    is_up: bool,
    hello: Option<Box<Hello>>,
    facts: Facts,
    /// When a ping or a pong came last.
    heard_at: Option<Instant>,
    /// It said that it is about to stop, and has not been back.
    has_left: bool,
    /// It was silent: until it answers a ping, or is another process, its hellos are no life.
    must_answer: bool,
    watch: Watch,
    /// Since when nothing is known of the peer: when its last connection ended, or the first ping was sent that had no answer then.
    lost_at: Option<Instant>,
    /// How long pings take to be answered, smoothed.
    round_trip: Option<Duration>,
    /// Why it is not up.
    reason: String,
}

impl Control {
    pub(crate) fn new(
        host: HostId,
        ours: HostId,
        gate: Rc<dyn Gatekeeper>,
        report: Rc<dyn Fn(Event)>,
    ) -> Rc<Control> {
        Rc::new(Control {
            host,
            ours,
            gate,
            report,
            standing: Arc::new(Standing::new(host)),
            target: Cell::new(None),
            conns: RefCell::default(),
            state: RefCell::default(),
            bell: Bell::new(),
            removed: Flag::new(),
        })
    }

    /// Where it is, if it was added.
    pub(crate) fn target(&self) -> Option<Target> {
        self.target.get()
    }

    /// Adds the peer, or changes where it is.
    pub(crate) fn set_target(&self, target: Target) {
        let was_added = self.target.replace(Some(target)).is_some();
        if !was_added
            && self.is_up()
            && let Some(hello) = self.hello()
        {
            self.report(EventKind::Up(Box::new(hello)));
        }
        self.bell.notify();
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state.borrow().is_up
    }

    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let state = self.state.borrow();
        state.round_trip.filter(|_| state.is_up)
    }

    pub(crate) fn reason(&self) -> Option<String> {
        let state = self.state.borrow();
        (!state.is_up && !state.reason.is_empty()).then(|| state.reason.clone())
    }

    pub(crate) fn facts(&self) -> Option<Facts> {
        let state = self.state.borrow();
        state.is_up.then_some(state.facts)
    }

    pub(crate) fn heard(&self) -> Option<Heard> {
        let state = self.state.borrow();
        let at = state.heard_at?;
        let State { facts, has_left, round_trip, .. } = *state;
        Some(Heard { facts, at, has_left, round_trip })
    }

    pub(crate) fn hello(&self) -> Option<Hello> {
        self.state.borrow().hello.as_deref().cloned()
    }

    /// The process that a live connection is with.
    pub(crate) fn live_process(&self) -> Option<u64> {
        let is_live = self.conns.borrow().iter().any(|conn| conn.is_open() && !conn.is_silent(SILENCE_MAX));
        let state = self.state.borrow();
        state.hello.as_ref().filter(|_| is_live).map(|hello| hello.process)
    }

    /// The connection that calls go by: the one that the lower host id dialed, if it stands.
    pub(crate) fn current(&self) -> Option<Rc<Conn>> {
        let conns = self.conns.borrow();
        let open = || conns.iter().filter(|conn| conn.is_open());
        open().find(|conn| conn.side() == self.lasting_side()).or_else(|| open().next()).cloned()
    }

    /// The side that this node has in the connection that lasts when there are two.
    fn lasting_side(&self) -> Side {
        if self.ours < self.host { Side::Dialed } else { Side::Accepted }
    }

    /// Sends this node's facts outside of the turn. A pong answers no ping of number 0, and asks for no answer.
    pub(crate) fn say_facts(&self) {
        if let Some(conn) = self.current() {
            conn.signal(Kind::Pong, 0);
        }
    }

    /// Signals the peer that this node is about to stop; returns the connections to wait for.
    pub(crate) fn say_goodbye(&self) -> Vec<Rc<Conn>> {
        let conns = self.conns.borrow().clone();
        conns.iter().for_each(|conn| conn.signal(Kind::Goodbye, 0));
        conns
    }

    /// Ends the connections there are: others take their place.
    pub(crate) fn renew(&self, reason: &str) {
        let conns = self.conns.borrow().clone();
        conns.iter().for_each(|conn| conn.close(reason));
        self.bell.notify();
    }

    /// Takes a connection that both sides agreed to.
    pub(crate) fn adopt(self: &Rc<Self>, conn: Rc<Conn>, hello: &Hello) {
        if self.removed.is_set() {
            return conn.close("it is no peer any more");
        }
        let before = self.state.borrow().hello.as_ref().map(|hello| hello.process);
        let is_another = before.is_some_and(|process| process != hello.process);
        if is_another {
            // Its connections are those of a process that is gone, whatever their sockets say.
            let old = self.conns.take();
            old.iter().for_each(|conn| conn.close("it was started again"));
        }
        self.conns.borrow_mut().push(conn);
        let mut state = self.state.borrow_mut();
        let was_up = state.is_up;
        state.must_answer &= !is_another;
        state.is_up = !state.must_answer;
        state.hello = Some(Box::new(hello.clone()));
        state.lost_at = None;
        state.has_left = false;
        state.watch.restart(runtime::now(), was_up && !is_another);
        state.round_trip = None;
        let node = &hello.node;
        if is_another {
            state.facts = Facts::default();
        }
        (state.facts.starts, state.facts.applied_version) = (node.starts, node.applied_version);
        drop(state);
        if is_another {
            self.standing.renew();
        }
        if !self.is_up() {
            // The first ping goes out now, and its answer makes the peer up.
            self.note_address(hello);
            self.end_second();
            return self.bell.notify();
        }
        self.standing.set_up(node.shards, node.features);
        self.look_everywhere();
        self.note_address(hello);
        if self.target.get().is_none() {
            self.report(EventKind::Met(Box::new(hello.clone())));
        } else if !was_up || is_another {
            self.report_up(hello);
        }
        self.end_second();
        self.bell.notify();
    }

    fn report_up(&self, hello: &Hello) {
        runtime::info!("rpc: node {} at {} is up", self.host, Shown(hello.node.address));
        self.report(EventKind::Up(Box::new(hello.clone())));
    }

    /// It has answered, behind a silence.
    fn answers_again(&self) {
        let mut state = self.state.borrow_mut();
        let Some(hello) = state.hello.clone() else { return };
        (state.must_answer, state.is_up) = (false, true);
        drop(state);
        self.standing.set_up(hello.node.shards, hello.node.features);
        self.look_everywhere();
        if self.target.get().is_some() {
            self.report_up(&hello);
        }
    }

    /// A known node says where it is now: all nodes may have come back with other addresses.
    fn note_address(&self, hello: &Hello) {
        let (Some(target), Some(address)) = (self.target.get(), hello.node.address) else { return };
        // One that does not know its address says so by zeros.
        let is_address = !address.ip().is_unspecified() && address.port() != 0;
        if is_address && target.address != address {
            runtime::info!("rpc: node {} has moved from {} to {address}", self.host, target.address);
            self.target.set(Some(Target { address, ..target }));
            self.report(EventKind::Moved(address));
        }
    }

    /// Of two connections, closes the one that this side dialed and should not have; later, so that calls on it end.
    fn end_second(self: &Rc<Self>) {
        let lasting = self.lasting_side();
        let conns = self.conns.borrow();
        let has_lasting = conns.iter().any(|conn| conn.is_open() && conn.side() == lasting);
        if lasting == Side::Dialed || !has_lasting {
            return;
        }
        for conn in conns.iter().filter(|conn| conn.side() == Side::Dialed) {
            let (control, conn) = (self.clone(), conn.clone());
            drop(runtime::spawn(Group::CONTROL, async move {
                runtime::sleep(SECOND_CONNECTION_LIFE).await;
                if control.current().is_some_and(|current| !Rc::ptr_eq(&current, &conn)) {
                    conn.close("the other side's connection lasts");
                }
            }));
        }
    }

    fn report(&self, kind: EventKind) {
        (self.report)(Event { host: self.host, kind });
    }

    /// Marks the peer as down, if it is up.
    fn down(&self, reason: &str, calls_go_on: bool) {
        let was_up = std::mem::replace(&mut self.state.borrow_mut().is_up, false);
        if !was_up {
            return;
        }
        reason.clone_into(&mut self.state.borrow_mut().reason);
        self.standing.set_down();
        if !calls_go_on {
            self.standing.renew();
        }
        self.look_everywhere();
        if self.target.get().is_some() {
            runtime::info!("rpc: node {} is down: {reason}", self.host);
            self.report(EventKind::Down(reason.to_owned()));
        }
    }

    /// Has every shard look at this peer; whichever order they do it in, they see what is true then.
    fn look_everywhere(&self) {
        for shard in 0..runtime::shard_count() {
            let (standing, is_added) = (self.standing.clone(), self.target.get().is_some());
            let look = move || async move {
                let Some(pool) = runtime::try_local::<Pool>() else { return };
                if is_added {
                    pool.learn(standing.clone());
                }
                pool.look(standing.host);
            };
            drop(runtime::spawn(Group::CONTROL, runtime::submit_to(ShardId(shard), Group::CONTROL, look)));
        }
    }

    /// Makes a new peer known to every shard, and returns when it is.
    pub(crate) async fn introduce(&self) {
        for shard in 0..runtime::shard_count() {
            let standing = self.standing.clone();
            let learn = move || async move {
                if let Some(pool) = runtime::try_local::<Pool>() {
                    pool.learn(standing);
                }
            };
            runtime::submit_to(ShardId(shard), Group::CONTROL, learn).await;
        }
    }

    /// Ends everything with this peer.
    pub(crate) fn remove(&self, reason: &str) {
        self.removed.set();
        self.target.set(None);
        self.state.borrow_mut().is_up = false;
        self.standing.set_gone();
        self.look_everywhere();
        let conns = self.conns.take();
        conns.iter().for_each(|conn| conn.close(reason));
        self.bell.notify();
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.is_set()
    }

    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.conns.borrow().iter().filter(|conn| conn.is_open()).count()
    }

    pub(crate) fn has_connections(&self) -> bool {
        self.conns.borrow().iter().any(|conn| !conn.is_closed())
    }

    /// Keeps a connection to an added peer, and watches whether it answers.
    pub(crate) async fn keep(self: Rc<Self>, dialer: Rc<dyn DialControl>) {
        let mut pause = RECONNECT_PAUSE_MIN;
        while !self.removed.is_set() {
            if let Some(conn) = self.current() {
                pause = RECONNECT_PAUSE_MIN;
                let wait = self.beat(&conn);
                let _rung_or_not = runtime::timeout(wait, self.bell.wait()).await;
                continue;
            }
            let attempt = dialer.clone().dial(self.clone());
            let failed = match runtime::timeout_at(self.attempt_until(), attempt).await {
                Ok(Ok(())) => continue,
                Ok(Err(failed)) => failed,
                Err(_) => Failed::Slow,
            };
            if self.removed.is_set() || self.current().is_some() {
                continue;
            }
            let now = runtime::now();
            let silent = self.state.borrow().lost_at.is_none_or(|at| SILENCE_MAX <= now - at);
            let reason = failed.to_string();
            if failed != Failed::Slow || silent {
                self.down(&reason, false);
            }
            self.state.borrow_mut().reason = reason;
            let jitter = Duration::from_nanos(runtime::random_u64() % (pause.as_nanos() as u64 / 2));
            let _rung_or_not = runtime::timeout(pause / 2 + jitter, self.bell.wait()).await;
            pause = (2 * pause).min(RECONNECT_PAUSE_MAX);
        }
    }

    /// An attempt lasts no longer than its parts may, and while the peer counts as up no longer than silence may.
    fn attempt_until(&self) -> Instant {
        let now = runtime::now();
        let state = self.state.borrow();
        let usual = now + CONNECT_TIMEOUT + HELLO_TIMEOUT;
        let least = now + RECONNECT_PAUSE_MIN;
        match state.lost_at.filter(|_| state.is_up) {
            Some(at) => usual.min((at + SILENCE_MAX).max(least)),
            None => usual,
        }
    }

    /// Sends a ping, or gives the peer up; how long until the next.
    fn beat(&self, conn: &Rc<Conn>) -> Duration {
        let now = runtime::now();
        let mut state = self.state.borrow_mut();
        let tick = state.watch.tick(now, self.standing.proved());
        let deadline = state.watch.deadline();
        drop(state);
        match tick {
            Tick::Ping(number) => {
                conn.signal(Kind::Ping, number);
                // Spread a little, so that the pings of many peers do not stay together.
                let jitter = Duration::from_nanos(runtime::random_u64() % (PING_PAUSE.as_nanos() as u64 / 8));
                let pause = PING_PAUSE * 15 / 16 + jitter;
                match deadline.filter(|at| now < *at) {
                    Some(at) => pause.min(at - now + Duration::from_millis(1)),
                    None => pause,
                }
            }
            Tick::Silent => {
                let reason = format!("no answer for {} ms", SILENCE_MAX.as_millis());
                self.down(&reason, false);
                self.state.borrow_mut().must_answer = true;
                let conns = self.conns.borrow().clone();
                conns.iter().for_each(|conn| conn.close(&reason));
                Duration::ZERO
            }
        }
    }
}

impl Hooks for Control {
    fn facts(&self) -> Facts {
        self.gate.facts()
    }

    fn heard(&self, _peer: HostId, facts: &Facts, pong: Option<u64>) {
        let mut is_back = false;
        let mut state = self.state.borrow_mut();
        if let Some(sent) = pong.and_then(|number| state.watch.pong(number)) {
            let took = runtime::now() - sent;
            // An eighth of each: a single late pong says little.
            state.round_trip = Some(state.round_trip.map_or(took, |usual| usual * 7 / 8 + took / 8));
            is_back = state.must_answer && !state.has_left;
        }
        state.heard_at = Some(runtime::now());
        let old = std::mem::replace(&mut state.facts, *facts);
        let is_news = state.is_up && Facts { load: facts.load, ..old } != *facts;
        drop(state);
        if is_back {
            self.answers_again();
        } else if is_news && self.target.get().is_some() {
            self.report(EventKind::Facts(*facts));
        }
    }

    fn goodbye(&self, _peer: HostId) {
        self.state.borrow_mut().has_left = true;
        self.down("it is about to stop", true);
    }

    fn ended(&self, _peer: HostId) {
        self.conns.borrow_mut().retain(|conn| !conn.is_closed());
        if self.conns.borrow().is_empty() {
            let mut state = self.state.borrow_mut();
            // A new attempt always has its time: this process may have been stopped, and only just sees that it was given up.
            let (now, spare) = (runtime::now(), SILENCE_MAX - CONNECT_TIMEOUT);
            state.lost_at = Some(state.watch.oldest().map_or(now, |at| at.max(now - spare)));
            drop(state);
            if self.target.get().is_none() {
                self.down("its connection has ended", false);
            }
        }
        self.bell.notify();
    }
}

/// An address that may be unknown.
struct Shown(Option<SocketAddr>);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("an unknown address"),
        }
    }
}
