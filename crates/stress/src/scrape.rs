//! What servers tell of themselves while they are loaded: how busy their cores are, and how often their row caches hit.
//!
//! ```text
//!  GET /metrics?__name__=messina_runtime_group_nanoseconds_total     time that tasks had the core: by shard and group
//!  GET /metrics?__name__=messina_storage_row_cache_*                 partitions looked for and found: by shard
//! ```
//! Both only grow, so an interval's value is what has been added. A server that does not answer, or that was started anew, leaves a gap.

use crate::settings::Address;
use base::Instant;
use loadtools::http;
use loadtools::output::Output;
use runtime::Group;
use runtime::sync::Flag;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How long an answer may take: longer ones would say nothing of the interval.
const PATIENCE: Duration = Duration::from_secs(2);
const CORES: &str = "messina_runtime_group_nanoseconds_total";
const CACHE: &str = "messina_storage_row_cache_";

/// One server's numbers over a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The server.
    pub node: String,
    /// Seconds since the start, percent of its cores that were busy, percent of looks into the row cache that hit; nothing in a gap.
    pub points: Vec<(f64, Option<f64>, Option<f64>)>,
}

impl Series {
    /// As the page has it.
    pub fn json(&self) -> Value {
        json!({"node": self.node, "points": self.points})
    }
}

/// What a server has counted since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    busy_ns: f64,
    shards: usize,
    looked: f64,
    hits: f64,
}

/// Servers whose names have been looked up.
pub struct Scraper {
    servers: Vec<(Address, SocketAddr)>,
    interval: Duration,
}

impl Scraper {
    /// Looks the names up, which blocks: before there is any load. Errors: a name that nobody knows.
    pub fn new(addresses: &[Address], interval: Duration) -> Result<Scraper, String> {
        let mut servers = Vec::new();
        for address in addresses {
            let found = client::contact::addresses(std::slice::from_ref(&address.host), address.port);
            let found = found.map_err(|error| error.to_string())?;
            let found = *found.first().ok_or_else(|| format!("{}: no address", address.host))?;
            servers.push((address.clone(), found));
        }
        Ok(Scraper { servers, interval })
    }

    /// Asks every server at the beginning, after each interval and at the end; what each of them said.
    pub async fn run(&self, start: Instant, over: Flag, output: Rc<Output>) -> Vec<Series> {
        let asking: Vec<_> = self
            .servers
            .iter()
            .map(|(address, server)| {
                let following = Following {
                    address: address.clone(),
                    server: *server,
                    interval: self.interval,
                    output: output.clone(),
                };
                runtime::spawn(Group::MAIN, following.run(start, over.clone()))
            })
            .collect();
        let mut all = Vec::new();
        for series in asking {
            all.push(series.await);
        }
        all
    }
}

/// One server that is asked again and again.
struct Following {
    address: Address,
    server: SocketAddr,
    interval: Duration,
    output: Rc<Output>,
}

impl Following {
    async fn run(self, start: Instant, over: Flag) -> Series {
        let node = format!("{}:{}", self.address.host, self.address.port);
        let mut series = Series { node, points: Vec::new() };
        let (mut before, mut is_told) = (None, false);
        let mut next = start;
        loop {
            // Until its time, or the end of the run, which is asked about as well.
            let is_over = runtime::timeout_at(next, over.wait()).await.is_ok();
            next = (next + self.interval).max(runtime::now());
            let asked = self.counted().await;
            let at = runtime::now();
            let counted = match asked {
                Ok(counted) => Some((at, counted)),
                Err(text) => {
                    if !std::mem::replace(&mut is_told, true) {
                        self.output.complain(&format!(
                            "--scrape http://{}{}: {text}; the charts have a gap wherever it does not answer",
                            series.node, self.address.path
                        ));
                    }
                    None
                }
            };
            if !(series.points.is_empty() && before.is_none() && counted.is_some()) {
                let seconds = at.saturating_duration_since(start).as_secs_f64();
                let (busy, hits) = between(before, counted);
                series.points.push((seconds, busy, hits));
            }
            before = counted;
            if is_over {
                return series;
            }
        }
    }

    async fn counted(&self) -> Result<Counted, String> {
        let mut text = String::new();
        for names in [CORES.to_owned(), format!("{CACHE}*")] {
            let host = format!("{}:{}", self.address.host, self.address.port);
            let path = format!("{}?__name__={names}", self.address.path);
            let asked = runtime::timeout(PATIENCE, http::get(self.server, &host, &path)).await;
            let answer = asked.unwrap_or_else(|_| Err(format!("no answer in {} s", PATIENCE.as_secs())))?;
            text.push_str(&answer);
        }
        counted(&text).ok_or_else(|| format!("no {CORES}: a Messina node is wanted"))
    }
}

/// Sums of what a server tells; nothing when it is no Messina node.
fn counted(text: &str) -> Option<Counted> {
    let mut counted = Counted::default();
    let mut shards: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        match name.strip_prefix(CACHE) {
            Some("requests") => counted.looked += value,
            Some("hits") => counted.hits += value,
            Some(_) => {}
            None if name == CORES => {
                counted.busy_ns += value;
                let shard = labels.split_once("shard=\"").and_then(|(_, rest)| rest.split('"').next());
                if let Some(shard) = shard.filter(|shard| !shards.contains(shard)) {
                    shards.push(shard);
                }
            }
            None => {}
        }
    }
    counted.shards = shards.len();
    (0 < counted.shards).then_some(counted)
}

/// Percent of the cores that were busy, and of looks that hit, between two answers.
fn between(
    before: Option<(Instant, Counted)>,
    now: Option<(Instant, Counted)>,
) -> (Option<f64>, Option<f64>) {
    let (Some((then, before)), Some((now, counted))) = (before, now) else { return (None, None) };
    let passed = now.saturating_duration_since(then).as_nanos() as f64;
    let (busy, looked) = (counted.busy_ns - before.busy_ns, counted.looked - before.looked);
    // A server that was started anew counts from nothing.
    if passed <= 0.0 || busy < 0.0 || looked < 0.0 {
        return (None, None);
    }
    let share = (100.0 * busy / (passed * counted.shards as f64)).min(100.0);
    let hits = (0.0 < looked).then(|| (100.0 * (counted.hits - before.hits) / looked).clamp(0.0, 100.0));
    (Some(share), hits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_all_shards_and_groups_are_summed() {
        let text = "# HELP messina_runtime_group_nanoseconds_total Time.\n# TYPE messina_runtime_group_nanoseconds_total counter\n\
                    messina_runtime_group_nanoseconds_total{group=\"main\",shard=\"0\"} 100\n\
                    messina_runtime_group_nanoseconds_total{group=\"query\",shard=\"0\"} 200\n\
                    messina_runtime_group_nanoseconds_total{group=\"query\",shard=\"1\"} 300\n\
                    messina_storage_row_cache_requests{shard=\"0\"} 10\nmessina_storage_row_cache_requests{shard=\"1\"} 5\n\
                    messina_storage_row_cache_hits{shard=\"0\"} 9\nmessina_storage_row_cache_bytes{shard=\"0\"} 7\nnonsense\n";
        assert_eq!(counted(text), Some(Counted { busy_ns: 600.0, shards: 2, looked: 15.0, hits: 9.0 }));
        assert_eq!(counted("process_cpu_seconds_total 5\n"), None);
        assert_eq!(counted(""), None);
    }

    #[test]
    fn an_interval_is_what_was_added() {
        let of = |busy_ns, looked, hits| Counted { busy_ns, shards: 2, looked, hits };
        let at = |ns, counted| Some((Instant(ns), counted));
        let first = at(0, of(0.0, 100.0, 0.0));
        let second = at(1_000_000_000, of(1e9, 300.0, 150.0));
        assert_eq!(between(first, second), (Some(50.0), Some(75.0)));
        assert_eq!(
            between(first, at(1_000_000_000, of(9e9, 100.0, 0.0))),
            (Some(100.0), None),
            "nobody looked"
        );
        assert_eq!(between(second, first), (None, None), "it was started anew");
        assert_eq!((between(None, second), between(first, None)), ((None, None), (None, None)));
    }
}
