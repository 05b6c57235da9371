//! The simulated network: listeners and ordered byte streams between hosts, with delay, cut links and sudden death.
//!
//! ```text
//!   send ─► socket.out [(ready_at, packet)…] ─ one Deliver event per direction ─► peer.rx ─► recv
//! ```
//! A direction delivers its packets in order. A cut link stops its deliveries (a real stack would retransmit) until it
//! heals. A killed process resets its peers; a machine without power says nothing until something is sent to it: then
//! the sender times out, or is reset once the machine is back. Time comes in, wakes go out: no clock, no chance but the seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};

use base::{Prng, TraceHash};

/// A socket or listener, by number; numbers are never reused.
pub(crate) type SockId = u64;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
/// A connect to a silent host gives up after this.
const CONNECT_TIMEOUT: u64 = 3 * SECOND;
/// An unacknowledged packet is sent again this often, and this many times.
const RETRANSMIT: u64 = SECOND;
const RETRANSMITS: u32 = 20;
/// Connections that wait to be accepted.
const BACKLOG: usize = 256;
/// First port given to sockets that do not ask for one.
const EPHEMERAL: u16 = 32_768;

/// How long packets travel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delay {
    /// Nanoseconds, uniform between the two.
    pub min: u64,
    pub max: u64,
    /// Probability of a packet that takes up to a hundred times longer.
    pub spike: f64,
}

impl Delay {
    fn draw(&self, rng: &mut Prng) -> u64 {
        let usual = self.min + rng.below(self.max - self.min + 1);
        if self.spike > 0.0 && rng.chance(self.spike) { usual * (2 + rng.below(99)) } else { usual }
    }
}

#[derive(Debug)]
enum Packet {
    Data(Vec<u8>),
    Fin,
    Reset,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Open,
}

#[derive(Debug)]
struct Socket {
    host: IpAddr,
    local: SocketAddr,
    remote: SocketAddr,
    peer: Option<SockId>,
    state: State,
    rx: VecDeque<u8>,
    eof: bool,
    error: Option<io::ErrorKind>,
    out: VecDeque<(u64, Packet)>,
    /// A Deliver event is in the queue for the front of `out`.
    scheduled: bool,
    last_ready: u64,
    /// Bytes sent and not yet read by the peer.
    unread: usize,
    fin_sent: bool,
    retransmits: u32,
    /// The owner closed it; it stays only to deliver what is in `out`.
    closed: bool,
}

#[derive(Debug)]
struct Listener {
    addr: SocketAddr,
    host: IpAddr,
    backlog: VecDeque<SockId>,
}

#[derive(Debug)]
enum Event {
    Deliver(SockId),
    Syn(SockId),
    ConnectFailed(SockId, io::ErrorKind),
    Connected(SockId),
}

#[derive(Debug)]
struct Host {
    alive: bool,
    next_port: u16,
}

/// The network of one world.
pub(crate) struct Net {
    hosts: BTreeMap<IpAddr, Host>,
    sockets: BTreeMap<SockId, Socket>,
    listeners: BTreeMap<SockId, Listener>,
    events: BTreeMap<(u64, u64), Event>,
    cuts: BTreeSet<(IpAddr, IpAddr)>,
    delay: Delay,
    window: usize,
    next_id: SockId,
    next_seq: u64,
    ready: Vec<SockId>,
    rng: Prng,
    trace: TraceHash,
}

fn error(kind: io::ErrorKind) -> io::Error {
    let text = match kind {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "connection reset by peer",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::BrokenPipe => "broken pipe",
        io::ErrorKind::AddrInUse => "address already in use",
        io::ErrorKind::AddrNotAvailable => "cannot assign requested address",
        _ => "not connected",
    };
    io::Error::new(kind, text)
}

impl Net {
    pub(crate) fn new(seed: u64) -> Net {
        let mut rng = Prng::new(seed);
        let window = 16 << (10 + rng.below(5));
        Net {
            hosts: BTreeMap::new(),
            sockets: BTreeMap::new(),
            listeners: BTreeMap::new(),
            events: BTreeMap::new(),
            cuts: BTreeSet::new(),
            delay: Delay { min: 20_000, max: 200_000, spike: 0.0 },
            window,
            next_id: 1,
            next_seq: 1,
            ready: Vec::new(),
            rng,
            trace: TraceHash::default(),
        }
    }

    pub(crate) fn add_host(&mut self, ip: IpAddr) {
        self.hosts.insert(ip, Host { alive: false, next_port: EPHEMERAL });
    }

    pub(crate) fn set_alive(&mut self, ip: IpAddr) {
        if let Some(host) = self.hosts.get_mut(&ip) {
            host.alive = true;
        }
    }

    pub(crate) fn set_delay(&mut self, delay: Delay) {
        self.delay = delay;
    }

    /// Stops deliveries from `a` to `b` (one direction).
    pub(crate) fn cut(&mut self, a: IpAddr, b: IpAddr) {
        self.cuts.insert((a, b));
    }

    /// Lets deliveries from `a` to `b` go on.
    pub(crate) fn heal(&mut self, now: u64, a: IpAddr, b: IpAddr) {
        self.cuts.remove(&(a, b));
        self.reschedule(now);
    }

    pub(crate) fn heal_all(&mut self, now: u64) {
        self.cuts.clear();
        self.reschedule(now);
    }

    fn reschedule(&mut self, now: u64) {
        let stalled: Vec<SockId> = self
            .sockets
            .iter()
            .filter(|(_, s)| !s.scheduled && !s.out.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for id in stalled {
            self.schedule_delivery(now, id);
        }
    }

    /// Resets every connection between two hosts; both ends see it at once.
    pub(crate) fn reset_between(&mut self, a: IpAddr, b: IpAddr) {
        let hit: Vec<SockId> = self
            .sockets
            .iter()
            .filter(|(_, s)| {
                let (x, y) = (s.host, s.remote.ip());
                (x, y) == (a, b) || (x, y) == (b, a)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in hit {
            self.fail(id, io::ErrorKind::ConnectionReset);
        }
    }

    // ---- events ------------------------------------------------------------------------------------------------

    fn at(&mut self, time: u64, event: Event) {
        self.next_seq += 1;
        self.events.insert((time, self.next_seq), event);
    }

    /// When something happens next.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.events.keys().next().map(|(time, _)| *time)
    }

    /// Lets everything up to `now` happen; answers the sockets and listeners whose state changed.
    pub(crate) fn advance(&mut self, now: u64) -> Vec<SockId> {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let event = entry.remove();
            self.happen(now, event);
        }
        self.take_ready()
    }

    /// Sockets whose state changed since the last call.
    pub(crate) fn take_ready(&mut self) -> Vec<SockId> {
        std::mem::take(&mut self.ready)
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Running hash of every delivery.
    pub(crate) fn trace(&self) -> u64 {
        self.trace.finish()
    }

    fn happen(&mut self, now: u64, event: Event) {
        match event {
            Event::Deliver(id) => self.deliver(now, id),
            Event::Syn(id) => self.syn(now, id),
            Event::ConnectFailed(id, kind) => {
                self.trace.update(id ^ 0xdead);
                if self.sockets.get(&id).is_some_and(|s| s.state == State::Connecting && s.error.is_none()) {
                    self.fail(id, kind);
                }
            }
            Event::Connected(id) => {
                if let Some(socket) = self.sockets.get_mut(&id)
                    && socket.error.is_none()
                {
                    socket.state = State::Open;
                    self.ready.push(id);
                }
            }
        }
    }

    fn fail(&mut self, id: SockId, kind: io::ErrorKind) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        socket.error = Some(kind);
        socket.out.clear();
        socket.rx.clear();
        socket.peer = None;
        self.ready.push(id);
        if socket.closed {
            self.sockets.remove(&id);
        }
    }

    fn host_alive(&self, ip: IpAddr) -> bool {
        self.hosts.get(&ip).is_some_and(|h| h.alive)
    }

    // ---- connecting --------------------------------------------------------------------------------------------

    fn port(&mut self, host: IpAddr) -> u16 {
        let used: BTreeSet<u16> = self
            .sockets
            .values()
            .filter(|s| s.host == host)
            .map(|s| s.local.port())
            .chain(self.listeners.values().filter(|l| l.host == host).map(|l| l.addr.port()))
            .collect();
        let entry = self.hosts.get_mut(&host).expect("a socket's host exists");
        loop {
            let port = entry.next_port;
            entry.next_port = if port == u16::MAX { EPHEMERAL } else { port + 1 };
            if !used.contains(&port) {
                return port;
            }
        }
    }

    /// Whether `host` may bind `ip`.
    fn owns(&self, host: IpAddr, ip: IpAddr) -> bool {
        ip == host || ip.is_unspecified() || (ip.is_loopback() && !self.hosts.contains_key(&ip))
    }

    /// Several listeners of one host may share an address: connections are spread over them by seed.
    pub(crate) fn listen(&mut self, host: IpAddr, mut addr: SocketAddr) -> io::Result<(SockId, SocketAddr)> {
        if !self.owns(host, addr.ip()) {
            return Err(error(io::ErrorKind::AddrNotAvailable));
        }
        if addr.port() == 0 {
            addr.set_port(self.port(host));
        }
        let id = self.next_id;
        self.next_id += 1;
        self.listeners.insert(id, Listener { addr, host, backlog: VecDeque::new() });
        Ok((id, addr))
    }

    /// Starts a connection; its outcome is asked with [`Net::connected`].
    pub(crate) fn connect(
        &mut self,
        now: u64,
        host: IpAddr,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> io::Result<SockId> {
        let port = match local.map(|l| l.port()) {
            Some(port) if port != 0 => {
                let taken = self
                    .sockets
                    .values()
                    .any(|s| s.host == host && s.local.port() == port && s.remote == remote && !s.closed);
                if taken {
                    return Err(error(io::ErrorKind::AddrInUse));
                }
                port
            }
            _ => self.port(host),
        };
        let target = if self.owns(host, remote.ip()) { host } else { remote.ip() };
        let id = self.next_id;
        self.next_id += 1;
        self.sockets.insert(
            id,
            Socket::new(host, SocketAddr::new(host, port), SocketAddr::new(target, remote.port())),
        );
        let delay = self.delay.draw(&mut self.rng);
        self.at(now + delay, Event::Syn(id));
        self.at(now + CONNECT_TIMEOUT, Event::ConnectFailed(id, io::ErrorKind::TimedOut));
        Ok(id)
    }

    fn syn(&mut self, now: u64, id: SockId) {
        let Some(socket) = self.sockets.get(&id) else { return };
        let (from, local, remote) = (socket.host, socket.local, socket.remote);
        if self.cuts.contains(&(from, remote.ip())) || self.cuts.contains(&(remote.ip(), from)) {
            self.at(now + RETRANSMIT / 4, Event::Syn(id));
            return;
        }
        let back = now + self.delay.draw(&mut self.rng);
        if !self.host_alive(remote.ip()) {
            // Half of the dead are answered for by a router, half stay silent until the timeout.
            if self.rng.chance(0.5) {
                self.at(back, Event::ConnectFailed(id, io::ErrorKind::ConnectionRefused));
            }
            return;
        }
        let candidates: Vec<SockId> = self
            .listeners
            .iter()
            .filter(|(_, l)| {
                l.host == remote.ip() && l.addr.port() == remote.port() && l.backlog.len() < BACKLOG
            })
            .map(|(id, _)| *id)
            .collect();
        if candidates.is_empty() {
            self.at(back, Event::ConnectFailed(id, io::ErrorKind::ConnectionRefused));
            return;
        }
        let listener = candidates[self.rng.below(candidates.len() as u64) as usize];
        let accepted = self.next_id;
        self.next_id += 1;
        let mut server = Socket::new(remote.ip(), remote, local);
        server.state = State::Open;
        server.peer = Some(id);
        self.sockets.insert(accepted, server);
        self.sockets.get_mut(&id).expect("found above").peer = Some(accepted);
        self.listeners.get_mut(&listener).expect("a candidate").backlog.push_back(accepted);
        self.ready.push(listener);
        self.trace.update(id << 20 ^ listener);
        self.at(back, Event::Connected(id));
    }

    /// None while the connection is being made.
    pub(crate) fn connected(&self, id: SockId) -> Option<io::Result<()>> {
        let socket = self.sockets.get(&id)?;
        if let Some(kind) = socket.error {
            return Some(Err(error(kind)));
        }
        (socket.state == State::Open).then_some(Ok(()))
    }

    /// The next connection of a listener; None if there is none now.
    pub(crate) fn accept(&mut self, listener: SockId) -> io::Result<Option<(SockId, SocketAddr)>> {
        let listener = self.listeners.get_mut(&listener).ok_or_else(|| error(io::ErrorKind::NotConnected))?;
        while let Some(id) = listener.backlog.pop_front() {
            if let Some(socket) = self.sockets.get(&id) {
                return Ok(Some((id, socket.remote)));
            }
        }
        Ok(None)
    }

    // ---- bytes -------------------------------------------------------------------------------------------------

    pub(crate) fn addresses(&self, id: SockId) -> Option<(SocketAddr, SocketAddr)> {
        self.sockets.get(&id).map(|s| (s.local, s.remote))
    }

    /// How much may be sent now; an error if the connection is dead.
    pub(crate) fn send(&mut self, now: u64, id: SockId, bytes: &[u8]) -> io::Result<usize> {
        let window = self.window;
        let socket = self.sockets.get_mut(&id).ok_or_else(|| error(io::ErrorKind::NotConnected))?;
        if let Some(kind) = socket.error {
            return Err(error(kind));
        }
        if socket.fin_sent {
            return Err(error(io::ErrorKind::BrokenPipe));
        }
        let room = window.saturating_sub(socket.unread).min(bytes.len());
        if room == 0 {
            return Ok(0);
        }
        socket.unread += room;
        self.push(now, id, Packet::Data(bytes[..room].to_vec()));
        Ok(room)
    }

    fn push(&mut self, now: u64, id: SockId, packet: Packet) {
        let delay = self.delay.draw(&mut self.rng);
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let ready = (now + delay).max(socket.last_ready);
        socket.last_ready = ready;
        socket.out.push_back((ready, packet));
        if !socket.scheduled {
            self.schedule_delivery(now, id);
        }
    }

    fn schedule_delivery(&mut self, now: u64, id: SockId) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if let Some((ready, _)) = socket.out.front() {
            let time = (*ready).max(now);
            socket.scheduled = true;
            self.at(time, Event::Deliver(id));
        }
    }

    fn deliver(&mut self, now: u64, id: SockId) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        socket.scheduled = false;
        let (from, to) = (socket.host, socket.remote.ip());
        if socket.out.is_empty() || self.cuts.contains(&(from, to)) {
            return;
        }
        let peer = socket.peer;
        let alive = self.hosts.get(&to).is_some_and(|h| h.alive);
        match peer {
            Some(peer) if self.sockets.contains_key(&peer) => self.deliver_to(now, id, peer),
            _ if alive => self.fail(id, io::ErrorKind::ConnectionReset),
            _ => {
                let socket = self.sockets.get_mut(&id).expect("found above");
                socket.retransmits += 1;
                if socket.retransmits > RETRANSMITS {
                    self.fail(id, io::ErrorKind::TimedOut);
                } else {
                    socket.scheduled = true;
                    self.at(now + RETRANSMIT, Event::Deliver(id));
                }
            }
        }
    }

    fn deliver_to(&mut self, now: u64, id: SockId, peer: SockId) {
        let socket = self.sockets.get_mut(&id).expect("checked by the caller");
        let (_, packet) = socket.out.pop_front().expect("checked by the caller");
        let closed = socket.closed;
        let drained = socket.out.is_empty();
        self.trace.update(now ^ (id << 32));
        let receiver = self.sockets.get_mut(&peer).expect("checked by the caller");
        let mut reset_back = false;
        match packet {
            Packet::Data(bytes) => {
                self.trace.update_bytes(&bytes);
                if receiver.closed {
                    reset_back = true;
                } else {
                    receiver.rx.extend(bytes);
                }
            }
            Packet::Fin => receiver.eof = true,
            Packet::Reset => {
                receiver.peer = None;
                self.fail(peer, io::ErrorKind::ConnectionReset);
            }
        }
        self.ready.push(peer);
        if reset_back {
            self.fail(id, io::ErrorKind::ConnectionReset);
            return;
        }
        if drained && closed {
            self.sockets.remove(&id);
        } else {
            self.schedule_delivery(now, id);
        }
    }

    /// Bytes that have arrived (at most `max`); empty at the end of the stream; None if nothing is there yet.
    pub(crate) fn recv(&mut self, id: SockId, max: usize) -> io::Result<Option<Vec<u8>>> {
        let socket = self.sockets.get_mut(&id).ok_or_else(|| error(io::ErrorKind::NotConnected))?;
        if socket.rx.is_empty() {
            if let Some(kind) = socket.error {
                return Err(error(kind));
            }
            return Ok(socket.eof.then(Vec::new));
        }
        let n = socket.rx.len().min(max);
        let bytes: Vec<u8> = socket.rx.drain(..n).collect();
        if let Some(peer) = socket.peer
            && let Some(sender) = self.sockets.get_mut(&peer)
        {
            sender.unread -= n.min(sender.unread);
            self.ready.push(peer);
        }
        Ok(Some(bytes))
    }

    /// Which host a socket or listener belongs to.
    pub(crate) fn host_of(&self, id: SockId) -> Option<IpAddr> {
        let socket = self.sockets.get(&id).map(|s| s.host);
        socket.or_else(|| self.listeners.get(&id).map(|l| l.host))
    }

    /// Ends both directions: the peer sees the end after what was sent, the owner at once.
    pub(crate) fn shutdown(&mut self, now: u64, id: SockId) {
        if let Some(socket) = self.sockets.get_mut(&id)
            && !socket.fin_sent
            && socket.error.is_none()
        {
            socket.fin_sent = true;
            socket.eof = true;
            self.ready.push(id);
            self.push(now, id, Packet::Fin);
        }
    }

    /// The owner lets go: what was sent still arrives; unread bytes mean a reset, as in a real stack.
    pub(crate) fn close(&mut self, now: u64, id: SockId) {
        if let Some(listener) = self.listeners.remove(&id) {
            for waiting in listener.backlog {
                self.vanish(now, waiting, true);
            }
            return;
        }
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if socket.error.is_some() || socket.peer.is_none() {
            self.sockets.remove(&id);
            return;
        }
        socket.closed = true;
        if !socket.rx.is_empty() {
            socket.rx.clear();
            socket.fin_sent = true;
            self.push(now, id, Packet::Reset);
        } else if !socket.fin_sent {
            socket.fin_sent = true;
            self.push(now, id, Packet::Fin);
        } else if socket.out.is_empty() {
            self.sockets.remove(&id);
        }
    }

    /// One socket of a dead process; `loud` tells the peer with a reset.
    fn vanish(&mut self, now: u64, id: SockId, loud: bool) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if loud && socket.peer.is_some() && socket.error.is_none() {
            socket.closed = true;
            socket.out.clear();
            let ready = now.max(socket.last_ready);
            socket.out.push_back((ready, Packet::Reset));
            if !socket.scheduled {
                self.schedule_delivery(now, id);
            }
        } else {
            self.sockets.remove(&id);
        }
    }

    /// The process of `host` died (`loud`: its kernel resets the peers; otherwise the machine is simply gone).
    pub(crate) fn host_down(&mut self, now: u64, host: IpAddr, loud: bool) {
        if let Some(entry) = self.hosts.get_mut(&host) {
            entry.alive = false;
        }
        self.listeners.retain(|_, l| l.host != host);
        let ids: Vec<SockId> =
            self.sockets.iter().filter(|(_, s)| s.host == host).map(|(id, _)| *id).collect();
        for id in ids {
            self.vanish(now, id, loud);
        }
    }
}

impl Socket {
    fn new(host: IpAddr, local: SocketAddr, remote: SocketAddr) -> Socket {
        Socket {
            host,
            local,
            remote,
            peer: None,
            state: State::Connecting,
            rx: VecDeque::new(),
            eof: false,
            error: None,
            out: VecDeque::new(),
            scheduled: false,
            last_ready: 0,
            unread: 0,
            fin_sent: false,
            retransmits: 0,
            closed: false,
        }
    }
}

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;
