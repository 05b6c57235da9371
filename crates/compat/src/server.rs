//! A server under test: started on free ports of the loopback interface, asked whether it answers, stopped or killed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{command, wire};

/// One running server process.
pub struct Server {
    /// What the summary calls it, such as `messina --smp 2`.
    pub name: String,
    /// Where clients connect.
    pub address: SocketAddr,
    /// Its data, configuration and logs.
    pub folder: PathBuf,
    /// The log to look at when something fails.
    pub log: PathBuf,
    /// The process.
    pub child: Child,
    /// Time from spawn to the first answer of the protocol.
    pub started_in: Duration,
    /// Whether it speaks nothing but TLS.
    pub tls: bool,
}

impl Server {
    /// Waits until the native protocol answers OPTIONS with SUPPORTED.
    pub fn wait_until_ready(&mut self, since: Instant, limit: Duration) -> Result<(), String> {
        let end = since + limit;
        loop {
            if answers(self.address, self.tls) {
                self.started_in = since.elapsed();
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{} ended with {status}:\n{}", self.name, self.last_words()));
            }
            if Instant::now() > end {
                return Err(format!("{} did not answer within {limit:?}:\n{}", self.name, self.last_words()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until its log holds these words.
    pub fn wait_until_said(&mut self, words: &str, end: Instant) -> Result<(), String> {
        loop {
            if command::read(&self.log)?.contains(words) {
                return Ok(());
            }
            if Instant::now() > end || !self.alive() {
                return Err(format!("{} never said {words}:\n{}", self.name, self.last_words()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Orderly stop; an error when the process does not end by itself or ends with a failure.
    pub fn stop(&mut self) -> Result<(), String> {
        command::signal(self.child.id(), "TERM");
        match command::wait(&mut self.child, Duration::from_secs(60)) {
            Some(true) => Ok(()),
            // A Java process ended by SIGTERM says 143.
            Some(false) if self.name.starts_with("cassandra") => Ok(()),
            Some(false) => Err(format!("{} did not stop cleanly:\n{}", self.name, self.last_words())),
            None => {
                self.kill();
                Err(format!("{} did not stop within 60 s:\n{}", self.name, self.last_words()))
            }
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether the process is still there.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        command::tail(&command::read(&self.log).unwrap_or_default(), 30)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.alive() {
            self.kill();
        }
    }
}

/// A port that was free a moment ago, and that no client's outgoing connection takes before the node does: below those
/// the kernel gives to such connections, another one at every call, others in every process.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(7919);
    (0..COUNT)
        .map(|_| FIRST + begin.wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed)) % COUNT)
        .filter_map(|port| u16::try_from(port).ok())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("the loopback interface has free ports")
}

/// Whether a native protocol server answers there; one of TLS only answers plain bytes with an alert, or closes.
pub fn answers(address: SocketAddr, tls: bool) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_millis(500)) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let mut header = [0u8; 9];
    let asked = stream.write_all(&wire::request(4, wire::OPTIONS, 0, &[])).is_ok();
    let answered = stream.read_exact(&mut header).is_ok() && header[4] == wire::SUPPORTED;
    answered || asked && tls
}
