//! Clients that write and read all the while something bad happens, and know what was acknowledged.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::bad_input::{Raw, Reaction};

const CLIENTS: usize = 4;
/// Bytes of each row's text.
const VALUE: usize = 1000;

/// What the clients saw.
#[derive(Default)]
pub struct Seen {
    /// Keys whose write was acknowledged.
    pub acknowledged: Vec<u64>,
    /// The slowest answer.
    pub slowest: Duration,
    /// Errors that the node answered with.
    pub refused: Vec<String>,
    /// What happened to connections: closed in order, or cut.
    pub ended: Vec<String>,
}

/// The clients of one test.
pub struct Load {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Makes the table and starts the clients, all of them connected; keys begin at `first`.
    pub fn start(address: SocketAddr, first: u64) -> Result<Load, String> {
        table(address)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut clients = Vec::new();
        // Before any begins: a client whose turn came late would be refused by a node that has been told to stop.
        let connected =
            (0..CLIENTS).map(|_| Raw::started(address, 4)).collect::<Result<Vec<Raw>, String>>()?;
        for (client, raw) in connected.into_iter().enumerate() {
            let (stop, seen) = (stop.clone(), seen.clone());
            clients.push(std::thread::spawn(move || {
                let ended = talk(raw, first + client as u64, &stop, &seen);
                if let (Err(why), Ok(mut seen)) = (ended, seen.lock()) {
                    seen.ended.push(why);
                }
            }));
        }
        Ok(Load { stop, seen, clients })
    }

    /// How many writes were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.seen.lock().map_or(0, |seen| seen.acknowledged.len())
    }

    /// Waits until so many more writes were acknowledged.
    pub fn goes_on(&self, more: usize, limit: Duration) -> Result<(), String> {
        let (wanted, end) = (self.acknowledged() + more, Instant::now() + limit);
        while self.acknowledged() < wanted {
            if Instant::now() > end {
                return Err(format!("{} of {wanted} writes after {limit:?}", self.acknowledged()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Stops the clients, or waits until they ended by themselves.
    pub fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            let _ = client.join();
        }
        self.seen.lock().map(|mut seen| std::mem::take(&mut *seen)).unwrap_or_default()
    }
}

impl Seen {
    /// No request was refused, no connection lost, no answer slower than this.
    pub fn was_served(&self, slowest: Duration) -> Result<String, String> {
        if let Some(why) = self.refused.first().or(self.ended.first()) {
            return Err(format!("{} refused, {} ended; first: {why}", self.refused.len(), self.ended.len()));
        }
        if self.slowest > slowest {
            return Err(format!("an answer took {:?}", self.slowest));
        }
        Ok(format!("{} writes, slowest answer {} ms", self.acknowledged.len(), self.slowest.as_millis()))
    }
}

/// One client: writes a row, reads it back, and goes on to the next key that is its own.
fn talk(mut raw: Raw, first: u64, stop: &AtomicBool, seen: &Mutex<Seen>) -> Result<(), String> {
    let mut key = first;
    while !stop.load(Ordering::Relaxed) {
        let statements = [
            format!("INSERT INTO load.rows (k, v) VALUES ({key}, '{}')", value(key)),
            format!("SELECT v FROM load.rows WHERE k = {key}"),
        ];
        for (index, statement) in statements.iter().enumerate() {
            let since = Instant::now();
            let reaction = raw.query(statement)?;
            let mut seen = seen.lock().map_err(|error| error.to_string())?;
            seen.slowest = seen.slowest.max(since.elapsed());
            match reaction {
                Reaction::Closed => return Err(raw.how_closed()),
                Reaction::Error(code, text) => seen.refused.push(format!("{code:#x} {text}")),
                Reaction::Answer(_) if index == 0 => seen.acknowledged.push(key),
                Reaction::Answer(answer) if !holds(&answer.body, &value(key)) => {
                    seen.refused.push(format!("key {key} was not read as it was written"));
                }
                Reaction::Answer(_) => {}
            }
        }
        key += CLIENTS as u64;
    }
    Ok(())
}

/// Makes the keyspace and the table.
pub fn table(address: SocketAddr) -> Result<(), String> {
    let mut raw = Raw::started(address, 4)?;
    for text in [
        "CREATE KEYSPACE IF NOT EXISTS load WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS load.rows (k bigint PRIMARY KEY, v text)",
    ] {
        if let Reaction::Error(code, error) = raw.query(text)? {
            return Err(format!("{text}: {code:#x} {error}"));
        }
    }
    Ok(())
}

/// Every acknowledged row is there, with its own value.
pub fn all_there(address: SocketAddr, keys: &[u64]) -> Result<String, String> {
    let mut raw = Raw::started(address, 4)?;
    let mut lost = Vec::new();
    for &key in keys {
        match raw.query(&format!("SELECT v FROM load.rows WHERE k = {key}"))? {
            Reaction::Answer(answer) if holds(&answer.body, &value(key)) => {}
            Reaction::Answer(_) => lost.push(key),
            other => return Err(format!("key {key}: {other:?}")),
        }
    }
    match lost.first() {
        Some(first) => {
            Err(format!("{} of {} acknowledged rows are lost, {first} first", lost.len(), keys.len()))
        }
        None => Ok(format!("{} acknowledged rows are there", keys.len())),
    }
}

/// A text that compression does not shrink to nothing and that belongs to one key.
pub fn value(key: u64) -> String {
    let mut state = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = String::with_capacity(VALUE);
    while text.len() < VALUE {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{state:016x}"));
    }
    text
}

fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|part| part == text.as_bytes())
}
