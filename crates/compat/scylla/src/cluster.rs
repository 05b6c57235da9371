//! Load on a cluster whose nodes come and go, as `python/cluster_load.py` makes it: `scylla-client load FIRST`.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::PeriodicFetchMode;
use scylla::errors::{ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::mpsc;

use crate::GATHERING;
use crate::suite::Failure;

const REQUEST_WITHIN: Duration = Duration::from_secs(15);
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// What was seen so far.
#[derive(Default)]
struct Seen {
    acked: Vec<i64>,
    reads: u64,
    wrong: Vec<i64>,
    errors: BTreeMap<String, Vec<f64>>,
}

struct Load {
    session: Session,
    insert: PreparedStatement,
    select: PreparedStatement,
    begin: Instant,
    next: AtomicI64,
    stopped: AtomicBool,
    seen: Mutex<Seen>,
}

/// Loads until standard input says STOP.
pub async fn run(first: i64) -> Result<(), Failure> {
    let var = |name: &str| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    let level = match var("CLUSTER_LEVEL")?.as_str() {
        "LOCAL_QUORUM" => Consistency::LocalQuorum,
        "QUORUM" => Consistency::Quorum,
        other => return Err(format!("no level {other}").into()),
    };
    let port: u16 = var("NODE_PORT")?.parse()?;
    let nodes: Vec<String> = var("CLUSTER_NODES")?.split(',').map(|node| format!("{node}:{port}")).collect();
    let profile = ExecutionProfile::builder()
        .consistency(level)
        .request_timeout(Some(REQUEST_WITHIN))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .load_balancing_policy(DefaultPolicy::builder().prefer_datacenter(var("CLUSTER_DC")?).build())
        .build();
    let session = SessionBuilder::new()
        .known_nodes(nodes)
        .cluster_metadata_refresh_interval(GATHERING * 10)
        .periodic_metadata_fetch_mode(PeriodicFetchMode::AffectedKeyspaces)
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?;
    let insert = session.prepare("INSERT INTO load.rows (k, v) VALUES (?, ?)").await?;
    let select = session.prepare("SELECT v FROM load.rows WHERE k = ?").await?;
    let load = Arc::new(Load {
        session,
        insert,
        select,
        begin: Instant::now(),
        next: AtomicI64::new(first),
        stopped: AtomicBool::new(false),
        seen: Mutex::default(),
    });
    println!("STARTED");
    let in_flight: usize = var("CLUSTER_IN_FLIGHT")?.parse()?;
    let workers: Vec<_> = (0..in_flight).map(|_| tokio::spawn(work(load.clone()))).collect();
    obey(&load).await?;
    load.stopped.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await?;
    }
    let seen = load.seen.lock().map_err(|_| "a worker panicked")?;
    let mut file = std::fs::File::options().create(true).append(true).open(var("CLUSTER_ACKED")?)?;
    let keys: String = seen.acked.iter().map(|key| format!("{key}\n")).collect();
    file.write_all(keys.as_bytes())?;
    let told = serde_json::json!({
        "next": load.next.load(Ordering::Relaxed),
        "writes": seen.acked.len(),
        "reads": seen.reads,
        "wrong": seen.wrong,
        "errors": seen.errors,
    });
    println!("DONE\n{told}");
    Ok(())
}

async fn work(load: Arc<Load>) {
    while !load.stopped.load(Ordering::Relaxed) {
        let key = load.next.fetch_add(1, Ordering::Relaxed);
        let known = {
            let seen = load.seen.lock().expect("no worker panicked");
            let nth = (key * 7919).checked_rem(seen.acked.len() as i64);
            nth.filter(|_| key % 2 == 1).map(|nth| seen.acked[nth as usize])
        };
        match known {
            None => load.write(key).await,
            Some(key) => load.read(key).await,
        }
    }
}

impl Load {
    async fn write(&self, key: i64) {
        let done = self.session.execute_unpaged(&self.insert, (key, value_of(key))).await;
        let mut seen = self.seen.lock().expect("no worker panicked");
        match done {
            Ok(_) => seen.acked.push(key),
            Err(error) => seen.failed("write", &error, self.begin),
        }
    }

    async fn read(&self, key: i64) {
        let done = self.session.execute_unpaged(&self.select, (key,)).await;
        let mut seen = self.seen.lock().expect("no worker panicked");
        let rows = match done {
            Ok(rows) => rows,
            Err(error) => return seen.failed("read", &error, self.begin),
        };
        seen.reads += 1;
        let text = rows.into_rows_result().ok().and_then(|rows| rows.single_row::<(String,)>().ok());
        if text != Some((value_of(key),)) {
            seen.wrong.push(key);
        }
    }

    /// Whether the driver's own metadata gets to have the table.
    async fn sees(&self, table: &str) -> bool {
        let end = Instant::now() + SEEN_WITHIN;
        loop {
            let state = self.session.get_cluster_state();
            if state.get_keyspace("load").is_some_and(|keyspace| keyspace.tables.contains_key(table)) {
                return true;
            }
            if Instant::now() > end {
                return false;
            }
            tokio::time::sleep(GATHERING).await;
        }
    }
}

impl Seen {
    fn failed(&mut self, what: &str, error: &ExecutionError, begin: Instant) {
        let class = match error {
            ExecutionError::LastAttemptError(RequestAttemptError::DbError(kind, _)) => format!("{kind:?}"),
            ExecutionError::LastAttemptError(other) => format!("{other:?}"),
            other => format!("{other:?}"),
        };
        let end = class.find(|c: char| !c.is_alphanumeric()).unwrap_or(class.len());
        let class = format!("{what} {}", &class[..end]);
        self.errors.entry(class).or_default().push(begin.elapsed().as_secs_f64());
    }
}

/// Does what standard input says while the load runs.
async fn obey(load: &Load) -> Result<(), Failure> {
    let (send, mut lines) = mpsc::unbounded_channel();
    // A thread that only waits for input keeps no runtime from ending.
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    while let Some(line) = lines.recv().await {
        match line.split_once(' ') {
            Some(("CREATE", table)) => {
                let text = format!("CREATE TABLE load.{table} (k bigint PRIMARY KEY, v text)");
                match load.session.query_unpaged(text, &[]).await {
                    Ok(_) => println!("CREATED {table}"),
                    Err(error) => println!("FAILED {error}"),
                }
            }
            Some(("SEES", table)) => {
                let word = if load.sees(table).await { "SEES" } else { "BLIND" };
                println!("{word} {table}");
            }
            _ => break,
        }
    }
    Ok(())
}

fn value_of(key: i64) -> String {
    format!("{key}:").repeat(5 + key as usize % 20)
}
