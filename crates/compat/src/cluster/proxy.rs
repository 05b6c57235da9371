//! A TCP proxy between the nodes of one cluster: late, slow, deaf, cut and broken links, each direction of each pair by itself.
//!
//! ```text
//! node a ──▶ front of b (its broadcast address) ──▶ where b listens
//! ```
//! A node gives every other one its broadcast address, which is the proxy's, so every connection between nodes passes through here. Who
//! dials is known by its hello, the first bytes of a connection (docs/mechanisms/wire.md), which holds the dialer's own broadcast address.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a pump that has nothing to do looks whether something has changed.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of one read.
const CHUNK: usize = 64 * 1024;
/// Chunks that may wait to be delivered: room for what 200 ms of a busy link carry.
const CHUNKS_MAX: usize = 256;
/// How long a dialer may take for its hello.
const HELLO_WITHIN: Duration = Duration::from_secs(2);
/// The place of the dialer's address among the fields of a hello.
const ADDRESS_FIELD: usize = 18;

/// What becomes of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// They arrive.
    Passes,
    /// Nobody reads them: the sender's buffers fill. They arrive when this is over.
    Stalls,
    /// They are read and lost. When this is over, connections that lost some are ended.
    Cut,
}

/// One direction of a link.
#[derive(Clone, Copy)]
pub struct Link {
    /// What becomes of bytes.
    pub flow: Flow,
    /// By how much they are late.
    pub delay: Duration,
    /// At most so many bytes a second, of each connection.
    pub bytes_per_second: Option<u64>,
}

const SOUND: Link = Link { flow: Flow::Passes, delay: Duration::ZERO, bytes_per_second: None };

/// What all threads look at.
struct Shared {
    count: usize,
    links: Mutex<Vec<Link>>,
    /// Connections begun before the last reset end.
    generation: AtomicU64,
    is_over: AtomicBool,
    connections: AtomicU64,
    lost_bytes: AtomicU64,
    ended: AtomicU64,
}

impl Shared {
    fn link(&self, from: usize, to: usize) -> Link {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)[from * self.count + to]
    }
}

/// The proxy of one cluster; ends with this value.
pub struct Proxy {
    shared: Arc<Shared>,
}

/// What went through.
#[derive(Clone, Copy)]
pub struct Passed {
    /// Connections from node to node.
    pub connections: u64,
    /// Bytes that were lost in cuts.
    pub lost_bytes: u64,
    /// Connections that were ended by a reset or behind a cut.
    pub ended: u64,
}

impl Proxy {
    /// Listens at the front of each node and passes on to where it listens. `nodes`: front and back, by number of the node.
    pub fn start(nodes: &[(Ipv4Addr, Ipv4Addr)], port: u16) -> Result<Proxy, String> {
        let shared = Arc::new(Shared {
            count: nodes.len(),
            links: Mutex::new(vec![SOUND; nodes.len() * nodes.len()]),
            generation: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            lost_bytes: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        });
        let fronts: Arc<[SocketAddr]> = nodes.iter().map(|(front, _)| (*front, port).into()).collect();
        for (to, (front, back)) in nodes.iter().enumerate() {
            let told = |error: std::io::Error| format!("proxy at {front}:{port}: {error}");
            let listener = TcpListener::bind((*front, port)).map_err(told)?;
            listener.set_nonblocking(true).map_err(told)?;
            let (shared, fronts, back) = (shared.clone(), fronts.clone(), SocketAddr::from((*back, port)));
            std::thread::spawn(move || accept(&shared, &listener, &fronts, to, back));
        }
        Ok(Proxy { shared })
    }

    /// Sets one direction.
    pub fn set(&self, from: usize, to: usize, link: Link) {
        let at = from * self.shared.count + to;
        self.shared.links.lock().unwrap_or_else(PoisonError::into_inner)[at] = link;
    }

    /// Sets both directions of every link between these nodes and the others.
    pub fn around(&self, nodes: &[usize], link: Link) {
        for inner in nodes {
            for outer in (0..self.shared.count).filter(|outer| !nodes.contains(outer)) {
                self.set(*inner, outer, link);
                self.set(outer, *inner, link);
            }
        }
    }

    /// Every link passes everything at once.
    pub fn heal(&self) {
        self.shared.links.lock().unwrap_or_else(PoisonError::into_inner).fill(SOUND);
    }

    /// Ends every connection there is.
    pub fn reset(&self) {
        self.shared.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// What went through so far.
    pub fn passed(&self) -> Passed {
        Passed {
            connections: self.shared.connections.load(Ordering::Relaxed),
            lost_bytes: self.shared.lost_bytes.load(Ordering::Relaxed),
            ended: self.shared.ended.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Passed { connections, lost_bytes, ended } = self;
        write!(f, "{connections} connections between nodes, {ended} of them ended, {lost_bytes} bytes lost")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.reset();
    }
}

impl Link {
    /// One that only does this.
    pub fn that(flow: Flow) -> Link {
        Link { flow, ..SOUND }
    }

    /// One that is late.
    pub fn late(delay: Duration) -> Link {
        Link { delay, ..SOUND }
    }

    /// One that carries so much.
    pub fn narrow(bytes_per_second: u64) -> Link {
        Link { bytes_per_second: Some(bytes_per_second), ..SOUND }
    }
}

fn accept(
    shared: &Arc<Shared>,
    listener: &TcpListener,
    fronts: &Arc<[SocketAddr]>,
    to: usize,
    back: SocketAddr,
) {
    while !shared.is_over.load(Ordering::Relaxed) {
        let Ok((dialer, _)) = listener.accept() else {
            std::thread::sleep(LOOK / 4);
            continue;
        };
        let (shared, fronts) = (shared.clone(), fronts.clone());
        std::thread::spawn(move || {
            // A dialer that has gone, or a node that does not listen: the connection ends, as it would without a proxy.
            let _ = pass(&shared, dialer, &fronts, to, back);
        });
    }
}

/// One connection, to its end.
fn pass(
    shared: &Arc<Shared>,
    mut dialer: TcpStream,
    fronts: &[SocketAddr],
    to: usize,
    back: SocketAddr,
) -> std::io::Result<()> {
    dialer.set_nonblocking(false)?;
    dialer.set_read_timeout(Some(HELLO_WITHIN))?;
    let hello = read_hello(&mut dialer)?;
    let from = address_of(&hello).and_then(|address| fronts.iter().position(|front| *front == address));
    let from = from.ok_or(ErrorKind::InvalidData)?;
    while shared.link(from, to).flow == Flow::Stalls {
        std::thread::sleep(LOOK);
    }
    let accepter = TcpStream::connect(back)?;
    shared.connections.fetch_add(1, Ordering::Relaxed);
    for stream in [&dialer, &accepter] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
    }
    let connection = Arc::new(Connection {
        generation: shared.generation.load(Ordering::Relaxed),
        ends: [dialer.try_clone()?, accepter.try_clone()?],
    });
    let there = (shared.clone(), connection.clone(), dialer.try_clone()?, accepter.try_clone()?);
    let pump = std::thread::spawn(move || run_pump(&there.0, &there.1, (from, to), there.2, there.3, &hello));
    run_pump(shared, &connection, (to, from), accepter, dialer, &[]);
    let _ = pump.join();
    Ok(())
}

struct Connection {
    generation: u64,
    ends: [TcpStream; 2],
}

impl Connection {
    fn end(&self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// Carries bytes one way until a side ends, or the proxy ends both.
fn run_pump(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    (from, to): (usize, usize),
    mut source: TcpStream,
    target: TcpStream,
    first: &[u8],
) {
    let (send, receive) = mpsc::sync_channel(CHUNKS_MAX);
    let (of_writer, link) = (shared.clone(), move |shared: &Shared| shared.link(from, to));
    let writer = std::thread::spawn(move || deliver(&of_writer, &receive, target, link));
    // Of this direction alone: the other one may never have been cut.
    let mut has_lost = false;
    if first.is_empty() || hand_over(shared, (from, to), first, &send, &mut has_lost) {
        let mut chunk = vec![0; CHUNK];
        loop {
            let now = shared.link(from, to);
            let is_old = connection.generation < shared.generation.load(Ordering::Relaxed);
            let is_healed = has_lost && now.flow != Flow::Cut;
            if is_old || is_healed {
                shared.ended.fetch_add(1, Ordering::Relaxed);
                connection.end();
                break;
            }
            if now.flow == Flow::Stalls {
                std::thread::sleep(LOOK);
                continue;
            }
            match source.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) if hand_over(shared, (from, to), &chunk[..count], &send, &mut has_lost) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Ok(_) | Err(_) => break,
            }
        }
    }
    drop(send);
    let _ = writer.join();
}

/// Lets bytes go on their way, or loses them; false when nobody takes them any more.
fn hand_over(
    shared: &Shared,
    (from, to): (usize, usize),
    bytes: &[u8],
    send: &SyncSender<(Instant, Vec<u8>)>,
    has_lost: &mut bool,
) -> bool {
    let link = shared.link(from, to);
    if link.flow == Flow::Cut {
        *has_lost = true;
        shared.lost_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        return true;
    }
    send.send((Instant::now() + link.delay, bytes.to_vec())).is_ok()
}

fn deliver(
    shared: &Shared,
    receive: &Receiver<(Instant, Vec<u8>)>,
    mut target: TcpStream,
    link: impl Fn(&Shared) -> Link,
) {
    while let Ok((due, bytes)) = receive.recv() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if let Some(rate) = link(shared).bytes_per_second {
            std::thread::sleep(Duration::from_secs_f64(bytes.len() as f64 / rate as f64));
        }
        if target.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = target.shutdown(Shutdown::Write);
}

/// The whole first message: magic, length, checksum, payload.
fn read_hello(dialer: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut hello = vec![0; 12];
    dialer.read_exact(&mut hello)?;
    let length = u32::from_be_bytes([hello[4], hello[5], hello[6], hello[7]]) as usize;
    if !hello.starts_with(b"MSNH") || length > 4096 {
        return Err(ErrorKind::InvalidData.into());
    }
    hello.resize(12 + length, 0);
    dialer.read_exact(&mut hello[12..])?;
    Ok(hello)
}

/// The dialer's broadcast address: four bytes of IP and two of the port. Fields are a varint length and so many bytes each.
fn address_of(hello: &[u8]) -> Option<SocketAddr> {
    let mut rest = hello.get(12..)?;
    for nth in 0..=ADDRESS_FIELD {
        let (mut length, mut shift) = (0usize, 0);
        loop {
            let (byte, behind) = rest.split_first()?;
            length |= usize::from(byte & 0x7f) << shift;
            (rest, shift) = (behind, shift + 7);
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (field, behind) = rest.split_at_checked(length)?;
        rest = behind;
        if nth == ADDRESS_FIELD {
            let [a, b, c, d, high, low] = field.try_into().ok()?;
            return Some((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])).into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hello of a node at this address, as far as the proxy reads it.
    fn hello(address: SocketAddr) -> Vec<u8> {
        let SocketAddr::V4(address) = address else { panic!("of version 4") };
        let mut payload = Vec::new();
        for nth in 0..ADDRESS_FIELD {
            // A long field in the middle: its length takes two bytes.
            let field = vec![7; if nth == 7 { 200 } else { nth % 3 }];
            if field.len() >= 128 {
                payload.extend([field.len() as u8 & 0x7f | 0x80, (field.len() >> 7) as u8]);
            } else {
                payload.push(field.len() as u8);
            }
            payload.extend(field);
        }
        payload.push(6);
        payload.extend(address.ip().octets());
        payload.extend(address.port().to_be_bytes());
        let mut hello = b"MSNH".to_vec();
        hello.extend((payload.len() as u32).to_be_bytes());
        hello.extend([0; 4]);
        hello.extend(payload);
        hello
    }

    #[test]
    fn each_direction_is_late_cut_and_reset_by_itself() {
        let port = crate::server::free_port();
        let (fronts, backs) = ([[127, 0, 5, 1], [127, 0, 5, 2]], [[127, 0, 5, 11], [127, 0, 5, 12]]);
        let nodes = [0, 1].map(|node| (Ipv4Addr::from(fronts[node]), Ipv4Addr::from(backs[node])));
        let proxy = Proxy::start(&nodes, port).expect("the addresses are free");
        let listener = TcpListener::bind((nodes[1].1, port)).expect("the address is free");
        let connect = || {
            let mut dialer = TcpStream::connect((nodes[1].0, port)).expect("the proxy listens");
            let greeting = hello((nodes[0].0, port).into());
            dialer.write_all(&greeting).expect("it reads");
            let (mut accepter, _) = listener.accept().expect("it dials on");
            let mut seen = vec![0; greeting.len()];
            accepter.read_exact(&mut seen).expect("the hello comes whole");
            assert_eq!(seen, greeting);
            for end in [&dialer, &accepter] {
                end.set_read_timeout(Some(Duration::from_secs(5))).expect("it takes one");
            }
            (dialer, accepter)
        };
        let mut byte = [0];
        let (mut dialer, mut accepter) = connect();

        proxy.set(0, 1, Link::late(Duration::from_secs(1)));
        let since = Instant::now();
        dialer.write_all(b"a").expect("it is open");
        accepter.read_exact(&mut byte).expect("it comes");
        assert!(since.elapsed() >= Duration::from_secs(1));
        let since = Instant::now();
        accepter.write_all(b"b").expect("it is open");
        dialer.read_exact(&mut byte).expect("it comes");
        assert!(since.elapsed() < Duration::from_secs(1), "the other direction is not late");

        proxy.set(0, 1, Link::that(Flow::Stalls));
        // A read that was under way when the link stalled may still carry one chunk.
        std::thread::sleep(LOOK * 20);
        dialer.write_all(b"c").expect("it is open");
        accepter.set_read_timeout(Some(Duration::from_millis(200))).expect("it takes one");
        assert!(accepter.read_exact(&mut byte).is_err(), "nothing comes through a stalled link");
        proxy.heal();
        accepter.set_read_timeout(Some(Duration::from_secs(5))).expect("it takes one");
        accepter.read_exact(&mut byte).expect("it comes when the stall is over");
        assert_eq!(&byte, b"c");

        proxy.set(0, 1, Link::that(Flow::Cut));
        dialer.write_all(b"d").expect("it is open");
        // The other direction does not end because this one lost something.
        std::thread::sleep(LOOK * 5);
        accepter.write_all(b"e").expect("it is open");
        dialer.read_exact(&mut byte).expect("the other direction passes");
        proxy.heal();
        assert_eq!(accepter.read(&mut byte).unwrap_or(0), 0, "what lost bytes is ended");
        assert_eq!(proxy.passed().lost_bytes, 1);

        let (mut dialer, _accepter) = connect();
        proxy.reset();
        assert_eq!(dialer.read(&mut byte).unwrap_or(0), 0, "it was reset");
        assert_eq!(proxy.passed().connections, 2);
    }
}
