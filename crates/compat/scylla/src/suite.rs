//! What the environment says, the tables of cases, the lines that the Rust side reads, and small assertions.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::FutureExt;
use serde_json::Value;

/// Why a test failed.
pub type Failure = Box<dyn Error + Send + Sync>;
/// A test's end: a note, which may be empty.
pub type Outcome = Result<String, Failure>;

/// Time after which a test that waits for something has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Time after which a test is given up.
const LIMIT: Duration = Duration::from_secs(900);
/// Pause between two looks at something that is waited for.
const PAUSE: Duration = Duration::from_millis(20);

/// The environment, which tells everything.
pub struct Told {
    /// Address of all servers.
    pub host: String,
    /// Port of the open one.
    pub port: u16,
    /// Port of the one with TLS and passwords.
    pub secure_port: u16,
    /// Port of the one with TLS that asks clients for certificates.
    pub mutual_port: u16,
    /// How many shards each has; 0: it has none.
    pub shards: u16,
    /// The name of this driver in the tables, and of the keyspace.
    pub driver: String,
    /// Rows of the test of paging.
    pub rows: i64,
    /// Few conversations.
    pub quick: bool,
    only: String,
    cases: PathBuf,
}

impl Told {
    /// Reads the environment.
    pub fn read() -> Result<Told, Failure> {
        let var = |name: &str| std::env::var(name).map_err(|error| format!("{name}: {error}"));
        Ok(Told {
            host: var("NODE_HOST")?,
            port: var("NODE_PORT")?.parse()?,
            secure_port: var("NODE_SECURE_PORT")?.parse()?,
            mutual_port: var("NODE_MUTUAL_PORT")?.parse()?,
            shards: var("NODE_SHARDS")?.parse()?,
            driver: var("SUITE_DRIVER")?,
            rows: var("SUITE_ROWS")?.parse()?,
            quick: var("SUITE_QUICK")? == "1",
            only: var("SUITE_ONLY")?,
            cases: var("SUITE_CASES")?.into(),
        })
    }

    /// A table of cases.
    pub fn cases(&self, name: &str) -> Result<Value, Failure> {
        Ok(serde_json::from_slice(&std::fs::read(self.cases.join(name))?)?)
    }

    /// Whether an entry of the table of types is for this driver. Every type's protocol version is at most the fourth
    /// or it comes under the name of its class, which this driver understands.
    pub fn applies(&self, entry: &Value) -> bool {
        let except = entry["except"].as_array();
        !except.is_some_and(|names| names.iter().any(|name| name == self.driver.as_str()))
    }
}

/// Runs tests one after the other and counts them.
pub struct Suite<'a> {
    told: &'a Told,
    count: usize,
}

impl<'a> Suite<'a> {
    /// Nothing was run yet.
    pub fn new(told: &'a Told) -> Suite<'a> {
        Suite { told, count: 0 }
    }

    /// Runs one test; what it returns or panics with is why it failed.
    pub async fn test(&mut self, name: &str, body: impl Future<Output = Outcome>) {
        let only = &self.told.only;
        if !only.is_empty() && !name.contains(only) && !name.starts_with("connect") {
            return;
        }
        self.count += 1;
        let since = Instant::now();
        let caught = AssertUnwindSafe(body).catch_unwind();
        let failure = match tokio::time::timeout(LIMIT, caught).await {
            Ok(Ok(Ok(note))) => {
                let note = if note.is_empty() { note } else { format!(" ({note})") };
                println!("test {name} ... ok [{:.1} s]{note}", since.elapsed().as_secs_f64());
                return;
            }
            Ok(Ok(Err(failure))) => failure.to_string(),
            Ok(Err(_)) => "panicked; the log of the program says where".into(),
            Err(_) => format!("did not end within {LIMIT:?}"),
        };
        println!("test {name} ... FAILED\n{failure}\n");
    }

    /// Prints the last line.
    pub fn end(self) {
        println!("end {}", self.count);
    }
}

/// Fails unless both are the same.
pub fn equal<T: PartialEq + Debug>(expected: T, got: T, what: &str) -> Result<(), Failure> {
    that(expected == got, || format!("{what}: expected {}, got {}", brief(&expected), brief(&got)))
}

/// Fails unless it holds.
pub fn that(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// Looks again and again until there is something, or [`PATIENCE`] ends.
pub async fn wait_for<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        that(Instant::now() < end, || format!("waited {PATIENCE:?} for {what}"))?;
        tokio::time::sleep(PAUSE).await;
    }
}

fn brief(value: &impl Debug) -> String {
    const CHARACTERS: usize = 300;
    format!("{value:?}").chars().take(CHARACTERS).collect()
}
