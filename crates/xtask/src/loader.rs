//! A loader that costs little and hides nothing: prepared frames of protocol v4 over plain sockets, one thread.
//!
//! Closed loop: every connection keeps `depth` requests in flight. Open loop: request k is due at start + k / rate,
//! whatever the server does, and its latency counts from that moment. Sockets do not block; the thread sweeps over
//! them, so that requests arrive at the server as they happen to, not in waves. The same frames go to the echo server
//! and to the node.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const HEADER: usize = 9;
/// Requests in flight on one connection of an open loop; later ones wait, and their wait counts.
const OPEN_LOOP_DEPTH: usize = 256;

/// One connection, after STARTUP.
pub struct Connection {
    stream: TcpStream,
    /// The shard that serves it, when the server says so.
    pub shard: Option<u16>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// When each stream's request was sent or due.
    since: Vec<Option<Instant>>,
    free: Vec<u16>,
    waiting: VecDeque<Instant>,
    next_frame: usize,
}

/// What to send and for how long.
pub struct Plan {
    /// Frames per connection, sent in turn; the stream number is filled in.
    pub frames: Vec<Vec<Vec<u8>>>,
    /// Requests in flight per connection.
    pub depth: usize,
    /// Requests per second over all connections; `None` is a closed loop.
    pub rate: Option<f64>,
    /// Time before measuring.
    pub warm: Duration,
    /// Time to measure.
    pub measure: Duration,
    /// Stop after so many requests instead.
    pub count: Option<u64>,
}

/// What came out.
#[derive(Clone, Copy, Default)]
pub struct Measured {
    /// Answers within the measured time.
    pub requests: u64,
    /// The measured time in seconds.
    pub seconds: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// The latency that one in a hundred exceeds, in microseconds.
    pub p99_us: f64,
    /// Answers that were errors.
    pub errors: u64,
    /// Processor time of the server per request in microseconds.
    pub cpu_us: f64,
}

impl Measured {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds
    }
}

impl Connection {
    /// Connects and logs in, where the server asks for it, with this name and password.
    pub fn open_as(address: SocketAddr, (name, password): (&str, &str)) -> Result<Connection, String> {
        let mut connection = Connection::open(address)?;
        let token = format!("\0{name}\0{password}");
        let mut body = (token.len() as u32).to_be_bytes().to_vec();
        body.extend_from_slice(token.as_bytes());
        connection.ask(&frame(0x0f, &body))?;
        Ok(connection)
    }

    /// Connects, asks which shard it is on, and sends STARTUP.
    pub fn open(address: SocketAddr) -> Result<Connection, String> {
        let told = |error: std::io::Error| format!("{address}: {error}");
        let stream = TcpStream::connect(address).map_err(told)?;
        stream.set_nodelay(true).map_err(told)?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(told)?;
        let mut connection = Connection {
            stream,
            shard: None,
            input: Vec::new(),
            output: Vec::new(),
            since: vec![None; OPEN_LOOP_DEPTH],
            free: (0..OPEN_LOOP_DEPTH as u16).rev().collect(),
            waiting: VecDeque::new(),
            next_frame: 0,
        };
        let supported = connection.ask(&frame(0x05, &[]))?;
        connection.shard = shard_of(&supported);
        let mut body = vec![0, 1];
        for text in ["CQL_VERSION", "3.0.0"] {
            body.extend_from_slice(&(text.len() as u16).to_be_bytes());
            body.extend_from_slice(text.as_bytes());
        }
        connection.ask(&frame(0x01, &body))?;
        Ok(connection)
    }

    /// Sends one frame and waits for its answer's body; an ERROR is an error.
    pub fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        let told = |error: std::io::Error| format!("asking the server: {error}");
        self.stream.set_nonblocking(false).map_err(told)?;
        self.stream.write_all(request).map_err(told)?;
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header).map_err(told)?;
        let mut body = vec![0; u32::from_be_bytes(header[5..].try_into().expect("four bytes")) as usize];
        self.stream.read_exact(&mut body).map_err(told)?;
        if header[4] == 0 {
            return Err(format!("the server answered {}", String::from_utf8_lossy(&body)));
        }
        Ok(body)
    }

    fn send(&mut self, frames: &[Vec<u8>], since: Instant) {
        let Some(stream) = self.free.pop() else {
            self.waiting.push_back(since);
            return;
        };
        let start = self.output.len();
        self.output.extend_from_slice(&frames[self.next_frame % frames.len()]);
        self.next_frame += 1;
        self.output[start + 2..start + 4].copy_from_slice(&stream.to_be_bytes());
        self.since[usize::from(stream)] = Some(since);
    }

    /// Writes what is due and reads what is there; calls `answered` with each answer's start time and opcode.
    fn turn(&mut self, scratch: &mut [u8], mut answered: impl FnMut(Instant, u8)) -> Result<(), String> {
        if !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("sending: {error}")),
            }
        }
        match self.stream.read(scratch) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(count) => self.input.extend_from_slice(&scratch[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(format!("receiving: {error}")),
        }
        let mut used = 0;
        while let Some(header) = self.input.get(used..used + HEADER) {
            let len = u32::from_be_bytes(header[5..].try_into().expect("four bytes")) as usize;
            if self.input.len() < used + HEADER + len {
                break;
            }
            let stream = u16::from_be_bytes([header[2], header[3]]);
            let since = self.since.get_mut(usize::from(stream)).and_then(Option::take);
            let since = since.ok_or("an answer to a request that was not sent")?;
            answered(since, header[4]);
            self.free.push(stream);
            used += HEADER + len;
        }
        self.input.drain(..used);
        Ok(())
    }
}

/// Drives the connections and measures; `server` is the process whose processor time is counted.
pub fn drive(connections: &mut [Connection], plan: &Plan, server: u32) -> Result<Measured, String> {
    for connection in connections.iter_mut() {
        connection.stream.set_nonblocking(true).map_err(|error| error.to_string())?;
    }
    let mut scratch = vec![0; 1 << 18];
    let mut latencies: Vec<u32> = Vec::with_capacity(1 << 20);
    let (mut errors, mut answers, mut sent) = (0, 0u64, 0u64);
    let start = Instant::now();
    let mut measured_from = (start, cpu_ns(server));
    let mut warm = false;
    let mut stopping = false;
    loop {
        let now = Instant::now();
        if !warm && now - start >= plan.warm {
            warm = true;
            latencies.clear();
            errors = 0;
            measured_from = (now, cpu_ns(server));
        }
        if !stopping && plan.count.is_none() && warm && now - measured_from.0 >= plan.measure {
            break;
        }
        if let Some(rate) = plan.rate {
            let due = ((now - start).as_secs_f64() * rate) as u64;
            while sent < due {
                let index = (sent as usize) % connections.len();
                let moment = start + Duration::from_secs_f64(sent as f64 / rate);
                connections[index].send(&plan.frames[index], moment);
                sent += 1;
            }
        }
        let before = answers;
        for (connection, frames) in connections.iter_mut().zip(&plan.frames) {
            while let Some(&moment) = connection.waiting.front().filter(|_| !connection.free.is_empty()) {
                connection.waiting.pop_front();
                connection.send(frames, moment);
            }
            if plan.rate.is_none() && !stopping {
                while OPEN_LOOP_DEPTH - connection.free.len() < plan.depth {
                    connection.send(frames, Instant::now());
                    sent += 1;
                }
            }
            connection.turn(&mut scratch, |since, opcode| {
                latencies.push(since.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
                errors += u64::from(opcode == 0);
                answers += 1;
            })?;
        }
        if answers == before {
            // Where the server shares this processor, it shall have it while nothing is to do here.
            std::thread::yield_now();
        }
        if let Some(count) = plan.count {
            stopping = sent >= count;
            if stopping && answers == sent {
                break;
            }
        }
    }
    let seconds = measured_from.0.elapsed().as_secs_f64();
    let cpu = cpu_ns(server) - measured_from.1;
    drain(connections, &mut scratch)?;
    Ok(summary(latencies, seconds, errors, cpu))
}

/// Takes the answers still on their way, so that the connections can be used again.
fn drain(connections: &mut [Connection], scratch: &mut [u8]) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(30);
    for connection in connections {
        connection.waiting.clear();
        while connection.free.len() < OPEN_LOOP_DEPTH {
            connection.turn(scratch, |_, _| {})?;
            if Instant::now() > end {
                return Err("some requests were never answered".into());
            }
        }
    }
    Ok(())
}

fn summary(mut latencies: Vec<u32>, seconds: f64, errors: u64, cpu_ns: u64) -> Measured {
    latencies.sort_unstable();
    let at = |share: f64| {
        let index = ((latencies.len() as f64 * share) as usize).min(latencies.len().saturating_sub(1));
        latencies.get(index).map_or(0.0, |ns| f64::from(*ns) / 1000.0)
    };
    Measured {
        requests: latencies.len() as u64,
        seconds,
        p50_us: at(0.5),
        p99_us: at(0.99),
        errors,
        cpu_us: cpu_ns as f64 / 1000.0 / latencies.len().max(1) as f64,
    }
}

/// A v4 request frame on stream 0.
pub fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![4, 0, 0, 0, opcode];
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// QUERY at consistency ONE.
pub fn query(text: &str) -> Vec<u8> {
    let mut body = (text.len() as u32).to_be_bytes().to_vec();
    body.extend_from_slice(text.as_bytes());
    body.extend_from_slice(&[0, 1, 0]);
    frame(0x07, &body)
}

/// PREPARE.
pub fn prepare(text: &str) -> Vec<u8> {
    let mut body = (text.len() as u32).to_be_bytes().to_vec();
    body.extend_from_slice(text.as_bytes());
    frame(0x09, &body)
}

/// The statement id in the answer to PREPARE.
pub fn statement_id(body: &[u8]) -> Result<Vec<u8>, String> {
    let len = body.get(4..6).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])));
    let id = len.and_then(|len| body.get(6..6 + len));
    id.map(<[u8]>::to_vec).ok_or_else(|| "the answer to PREPARE has no statement id".into())
}

/// EXECUTE at consistency ONE, without metadata in the answer.
pub fn execute(id: &[u8], values: &[&[u8]]) -> Vec<u8> {
    let mut body = (id.len() as u16).to_be_bytes().to_vec();
    body.extend_from_slice(id);
    body.extend_from_slice(&[0, 1, 0x03]);
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value);
    }
    frame(0x0A, &body)
}

/// SCYLLA_SHARD in a SUPPORTED body: a multimap of strings.
fn shard_of(body: &[u8]) -> Option<u16> {
    let name = b"SCYLLA_SHARD";
    let at =
        body.windows(name.len() + 2).position(|window| &window[2..] == name && window[..2] == [0, 12])?;
    let value = body.get(at + 2 + name.len() + 2..)?;
    let len = usize::from(u16::from_be_bytes([*value.first()?, *value.get(1)?]));
    std::str::from_utf8(value.get(2..2 + len)?).ok()?.parse().ok()
}

/// Nanoseconds on a processor of all threads of a process.
pub fn cpu_ns(process: u32) -> u64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return 0 };
    let time = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    threads.flatten().filter_map(|thread| time(thread.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shard_is_found_in_supported() {
        let mut body = vec![0, 2];
        for (name, value) in [("COMPRESSION", "lz4"), ("SCYLLA_SHARD", "17")] {
            body.extend_from_slice(&(name.len() as u16).to_be_bytes());
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(&[0, 1]);
            body.extend_from_slice(&(value.len() as u16).to_be_bytes());
            body.extend_from_slice(value.as_bytes());
        }
        assert_eq!(shard_of(&body), Some(17));
        assert_eq!(shard_of(&body[..20]), None);
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let measured = summary((1..=1000).map(|n| n * 1000).collect(), 2.0, 0, 5_000_000);
        assert_eq!((measured.p50_us, measured.p99_us, measured.rate()), (501.0, 991.0, 500.0));
        assert_eq!(measured.cpu_us, 5.0);
    }
}
