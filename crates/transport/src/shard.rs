//! What one shard's server holds: its connections, what they have in flight, who waits to be flushed.

use crate::connection::{Connection, Phase};
use crate::limits;
use crate::rate::Rate;
use crate::respond;
use crate::settings::Settings;
use base::HashMap;
use cluster::SchemaEvent;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use protocol::envelope::Version;
use protocol::event::{Event as ProtocolEvent, NodeChange};
use protocol::response::{EVENT_STREAM, Reply};
use query::{ClientInfo, Engine};
use runtime::Group;
use runtime::metrics::{self, Counter, Gauge};
use runtime::sync::{Event, Semaphore};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use tls::Acceptor;
use topology::News;

/// Counters of the native protocol, named as dashboards know them.
pub(crate) struct Metrics {
    pub(crate) connections: Gauge,
    pub(crate) requests: Counter,
    pub(crate) errors: Counter,
    pub(crate) shed: Counter,
    pub(crate) cut_slow: Counter,
    pub(crate) protocol_errors: Counter,
    pub(crate) handshakes: Counter,
    pub(crate) handshakes_failed: Counter,
    pub(crate) paused: Counter,
}

impl Metrics {
    fn register() -> Metrics {
        let counter = |name: &'static str, help: &'static str| metrics::counter(name, help, &[]);
        Metrics {
            connections: metrics::gauge(
                "messina_transport_connections",
                "Client connections served now.",
                &[],
            ),
            requests: counter("messina_transport_requests_total", "Requests answered."),
            errors: counter("messina_transport_failed_requests_total", "Requests answered with an error."),
            shed: counter("messina_transport_shed_requests_total", "Requests refused as overload."),
            cut_slow: counter(
                "messina_transport_slow_reader_disconnects_total",
                "Clients cut because they did not read.",
            ),
            protocol_errors: counter(
                "messina_transport_protocol_errors_total",
                "Frames that were not understood.",
            ),
            handshakes: counter("messina_transport_tls_handshakes_total", "TLS connections agreed on."),
            handshakes_failed: counter(
                "messina_transport_failed_tls_handshakes_total",
                "TLS connections not agreed on.",
            ),
            paused: counter(
                "messina_transport_paused_reads_total",
                "Times a connection was not read for a while because of overload.",
            ),
        }
    }
}

/// One shard's server.
pub struct Shard {
    /// Runs the statements.
    pub engine: Rc<Engine>,
    /// What the server is told.
    pub settings: Settings,
    /// The port clients are told for plain shard-aware connections; 0 when there is none.
    pub shard_aware_port: Cell<u16>,
    /// The port clients are told for encrypted shard-aware connections; 0 when there is none.
    pub shard_aware_port_ssl: Cell<u16>,
    acceptor: RefCell<Option<Acceptor>>,
    pub(crate) handshakes: Semaphore,
    pub(crate) metrics: Metrics,
    request_bytes_max: usize,
    /// Bytes of large frames that are arriving: as many again as may be served.
    pub(crate) unfinished: Semaphore,
    /// Whether more is bounded than requests and their bytes on this shard.
    has_further_bounds: bool,
    /// Bytes of requests by the clients' address, where they are bounded.
    request_bytes_by_ip: Option<(usize, RefCell<HashMap<IpAddr, usize>>)>,
    rate: Option<Rate>,
    requests: Cell<u32>,
    request_bytes: Cell<usize>,
    next_id: Cell<u64>,
    connections: RefCell<HashMap<u64, Weak<Connection>>>,
    to_flush: RefCell<Vec<Rc<Connection>>>,
    flush_wanted: Event,
}

/// Flushes the connections that asked for it. When it ends with the shard's tasks, so does the circle of connections that wait for it and of the
/// shard that they belong to.
struct Flusher(Rc<Shard>);

impl Flusher {
    async fn flush_forever(&self) {
        let mut batch = Vec::new();
        loop {
            self.0.flush_wanted.wait().await;
            std::mem::swap(&mut batch, &mut *self.0.to_flush.borrow_mut());
            for connection in batch.drain(..) {
                connection.flush();
            }
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        drop(self.0.to_flush.take());
    }
}

impl Shard {
    /// The server of the current shard, and its flusher.
    pub fn start(engine: Rc<Engine>, settings: Settings) -> Rc<Shard> {
        let shards = u64::from(runtime::shard_count());
        let share = runtime::memory::budget() / limits::REQUEST_MEMORY_SHARE;
        let request_bytes_max = settings.request_bytes_max.map_or(share, |most| most / shards);
        let request_bytes_max = usize::try_from(request_bytes_max).unwrap_or(usize::MAX);
        let by_ip = settings.request_bytes_per_ip_max;
        let rate = settings.requests_per_second_max;
        let rate = rate.map(|most| Rate::new(f64::from(most) / shards as f64, runtime::now()));
        let shard = Rc::new(Shard {
            engine,
            settings,
            shard_aware_port: Cell::new(0),
            shard_aware_port_ssl: Cell::new(0),
            acceptor: RefCell::new(None),
            handshakes: Semaphore::new(limits::HANDSHAKES_AT_ONCE),
            metrics: Metrics::register(),
            request_bytes_max,
            unfinished: Semaphore::new(request_bytes_max),
            has_further_bounds: by_ip.is_some() || rate.is_some(),
            request_bytes_by_ip: by_ip.map(|most| (most as usize, RefCell::default())),
            rate,
            requests: Cell::new(0),
            request_bytes: Cell::new(0),
            next_id: Cell::new(0),
            connections: RefCell::default(),
            to_flush: RefCell::default(),
            flush_wanted: Event::new(),
        });
        let flusher = Flusher(shard.clone());
        drop(runtime::spawn(Group::QUERY, async move { flusher.flush_forever().await }));
        shard
    }

    /// Counts a request in.
    #[inline]
    pub(crate) fn enter(&self, peer: &SocketAddr, bytes: usize) {
        if self.request_bytes_by_ip.is_some() {
            self.enter_by_ip(peer, bytes);
        }
        self.requests.set(self.requests.get() + 1);
        self.request_bytes.set(self.request_bytes.get() + bytes);
    }

    #[cold]
    fn enter_by_ip(&self, peer: &SocketAddr, bytes: usize) {
        if let Some((_, by_ip)) = &self.request_bytes_by_ip {
            *by_ip.borrow_mut().entry(peer.ip()).or_default() += bytes;
        }
    }

    #[cold]
    fn leave_by_ip(&self, peer: &SocketAddr, bytes: usize) {
        let Some((_, by_ip)) = &self.request_bytes_by_ip else { return };
        let mut by_ip = by_ip.borrow_mut();
        let held = by_ip.get_mut(&peer.ip()).map_or(0, |held| {
            *held -= bytes;
            *held
        });
        if held == 0 {
            by_ip.remove(&peer.ip());
        }
    }

    /// Counts a request out.
    #[inline]
    pub(crate) fn leave(&self, peer: &SocketAddr, bytes: usize) {
        if self.request_bytes_by_ip.is_some() {
            self.leave_by_ip(peer, bytes);
        }
        self.requests.set(self.requests.get() - 1);
        self.request_bytes.set(self.request_bytes.get() - bytes);
        self.metrics.requests.inc();
    }

    /// Whether one more request is to be refused: there are too many, or the client wants to hear of other overload.
    #[inline]
    pub(crate) fn refuses(&self, connection: &Connection, bytes: usize) -> bool {
        if self.requests.get() >= self.settings.requests_per_shard_max {
            return true;
        }
        let asks = self.has_further_bounds || connection.throws_on_overload.get();
        asks && self.refuses_for_overload(connection, bytes)
    }

    #[cold]
    fn refuses_for_overload(&self, connection: &Connection, bytes: usize) -> bool {
        let permitted = self.rate.as_ref().is_none_or(|rate| rate.take(runtime::now()));
        connection.throws_on_overload.get() && (!permitted || self.is_short_of_memory(connection, bytes))
    }

    /// How long nothing is to be read from a connection, because of what is being served for it and others.
    #[inline]
    pub(crate) fn pause(&self, connection: &Connection) -> Option<Duration> {
        if self.request_bytes.get() <= self.request_bytes_max && !self.has_further_bounds {
            return None;
        }
        self.pause_of_overload(connection)
    }

    #[cold]
    fn pause_of_overload(&self, connection: &Connection) -> Option<Duration> {
        // Who is slowed down must have been let in: a handshake that takes seconds is given up by its driver.
        if connection.throws_on_overload.get() || connection.phase.get() != Phase::Ready {
            return None;
        }
        if self.is_short_of_memory(connection, 0) {
            return Some(limits::OVERLOAD_PAUSE);
        }
        let wait = self.rate.as_ref()?.wait(runtime::now())?;
        Some(wait.min(limits::RATE_PAUSE_MAX))
    }

    fn is_short_of_memory(&self, connection: &Connection, bytes: usize) -> bool {
        if self.request_bytes_max < self.request_bytes.get() + bytes {
            return true;
        }
        let Some((most, by_ip)) = &self.request_bytes_by_ip else { return false };
        let held = by_ip.borrow().get(&connection.peer.ip()).copied().unwrap_or(0);
        *most < held + bytes
    }

    /// What new encrypted connections agree on; `None` until the listener has told.
    pub(crate) fn tls(&self) -> Option<Acceptor> {
        self.acceptor.borrow().clone()
    }

    /// New encrypted connections agree on this from now on.
    pub(crate) fn set_tls(&self, acceptor: Acceptor) {
        *self.acceptor.borrow_mut() = Some(acceptor);
    }

    /// Lists a connection; the id takes it off again.
    pub(crate) fn add(&self, connection: &Rc<Connection>) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        self.connections.borrow_mut().insert(id, Rc::downgrade(connection));
        self.metrics.connections.add(1);
        id
    }

    /// Takes a connection off the list.
    pub(crate) fn remove(&self, id: u64) {
        self.connections.borrow_mut().remove(&id);
        self.metrics.connections.add(-1);
    }

    /// The connections served now, oldest first.
    pub(crate) fn connections(&self) -> Vec<Rc<Connection>> {
        let connections = self.connections.borrow();
        let mut listed: Vec<(u64, Rc<Connection>)> =
            connections.iter().filter_map(|(id, weak)| Some((*id, weak.upgrade()?))).collect();
        listed.sort_unstable_by_key(|(id, _)| *id);
        listed.into_iter().map(|(_, connection)| connection).collect()
    }

    /// What `system_views.clients` shows of this shard.
    pub fn clients(&self) -> Vec<ClientInfo> {
        let info = |connection: Rc<Connection>| ClientInfo {
            address: connection.peer,
            stage: match connection.phase.get() {
                Phase::Startup => "startup",
                Phase::Authenticating => "authenticating",
                Phase::Ready => "ready",
            },
            user: connection.user.get().map(|user| user.to_string()),
            protocol_version: connection.version.get(),
            options: connection.greeting.borrow().options.clone(),
            keyspace: connection.keyspace.borrow().as_deref().map(str::to_string),
            tls: connection.cipher(),
            request_count: connection.answered.get(),
        };
        self.connections().into_iter().map(info).collect()
    }

    /// Tells clients that asked for it what has changed in the schema.
    pub fn tell(&self, events: &[SchemaEvent]) {
        for connection in self.connections() {
            let Some(version) = Version::from_number(connection.version.get()) else { continue };
            if !connection.registered.get().schema {
                continue;
            }
            for event in events {
                let event = ProtocolEvent::Schema(respond::schema_change(event));
                let mut out = connection.out.borrow_mut();
                respond::reply(out.buffer(), version, EVENT_STREAM, &Reply::Event(&event));
            }
            connection.flush_later();
        }
    }

    /// Tells clients that asked for it what has become of other members.
    pub fn tell_members(&self, news: &[News]) {
        for connection in self.connections() {
            let Some(version) = Version::from_number(connection.version.get()) else { continue };
            let registered = connection.registered.get();
            for one in news {
                let (event, wanted) = match *one {
                    News::Joined(at) => (ProtocolEvent::Topology(NodeChange::New, at), registered.topology),
                    News::Left(at) => (ProtocolEvent::Topology(NodeChange::Removed, at), registered.topology),
                    News::Up(at) => (ProtocolEvent::Status(true, at), registered.status),
                    News::Down(at) => (ProtocolEvent::Status(false, at), registered.status),
                };
                if wanted {
                    let mut out = connection.out.borrow_mut();
                    respond::reply(out.buffer(), version, EVENT_STREAM, &Reply::Event(&event));
                }
            }
            connection.flush_later();
        }
    }

    fn tell_down(&self, connections: &[Rc<Connection>]) {
        let down = ProtocolEvent::Status(false, self.engine.native_address());
        for connection in connections {
            let Some(version) = Version::from_number(connection.version.get()) else { continue };
            if connection.registered.get().status {
                let mut out = connection.out.borrow_mut();
                respond::reply(out.buffer(), version, EVENT_STREAM, &Reply::Event(&down));
            }
        }
    }

    /// Has the connection flushed by the shard's flusher, which ends with the shard's tasks.
    pub(crate) fn ask_flush(&self, connection: Rc<Connection>) {
        let mut waiting = self.to_flush.borrow_mut();
        waiting.push(connection);
        if waiting.len() == 1 {
            self.flush_wanted.notify();
        }
    }

    /// Tells clients that asked for it that this node is down for them; then lets the requests of every connection there
    /// is end and closes it, within the drain limit. Others may come, where somebody listens.
    pub async fn drain(&self) {
        let connections = self.connections();
        self.tell_down(&connections);
        for connection in &connections {
            connection.leaving.set(true);
        }
        let all = async {
            for connection in &connections {
                connection.drain().await;
            }
        };
        if runtime::timeout(limits::DRAIN_TIMEOUT, all).await.is_err() {
            runtime::warn!("transport: requests were still being served after {:?}", limits::DRAIN_TIMEOUT);
        }
        for connection in self.connections() {
            connection.cut();
        }
    }
}
