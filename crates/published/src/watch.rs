//! What this machine and the servers did while a phase ran: counters before and after it, and what has been added.
//!
//! | from | what |
//! |---|---|
//! | `/proc/stat` | time of all processors: busy, waiting for disks |
//! | `/proc/diskstats` | bytes read and written by each disk, time it was busy |
//! | `http://NODE:9180/metrics` | time that each shard's tasks had its core, looks into the row cache, bytes to and from disks |
//!
//! A node that does not answer there is said to be silent; a counter that has fallen belongs to a node that was started anew.

use base::Instant;
use loadtools::http;
use loadtools::java::fixed;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a node's answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a sector, as the kernel counts them whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;
const CORES: &str = "messina_runtime_group_nanoseconds_total";
const LOOKS: &str = "messina_storage_row_cache_requests";
const HITS: &str = "messina_storage_row_cache_hits";
const IO: &str = "messina_runtime_io_bytes_total";

/// Time of all processors, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Processors {
    all: u64,
    idle: u64,
    waiting: u64,
}

/// What a disk has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Disk {
    read_bytes: u64,
    written_bytes: u64,
    busy_ms: u64,
}

/// What a node has counted.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    /// Nanoseconds by shard.
    busy_ns: BTreeMap<String, f64>,
    looks: f64,
    hits: f64,
    io_bytes: f64,
}

/// All counters at one instant.
#[derive(Clone, Debug)]
pub struct Watch {
    at: Instant,
    processors: Option<Processors>,
    disks: BTreeMap<String, Disk>,
    /// By address; why a node is silent.
    nodes: Vec<(String, Result<Node, String>)>,
}

#[allow(clippy::disallowed_methods, reason = "a tool's own facts, before and after a phase")]
fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

impl Watch {
    /// Looks now: at this machine, and at the metrics of these nodes.
    pub async fn now(nodes: &[SocketAddr]) -> Watch {
        let mut watch = Watch {
            at: runtime::now(),
            processors: processors(&read("/proc/stat")),
            disks: disks(&read("/proc/diskstats")),
            nodes: Vec::new(),
        };
        for node in nodes {
            let name = node.to_string();
            let asked = runtime::timeout(PATIENCE, http::get(*node, &name, "/metrics")).await;
            let answer = asked.unwrap_or_else(|_| Err(format!("no answer in {} s", PATIENCE.as_secs())));
            let counted = answer
                .and_then(|text| counted(&text).ok_or_else(|| "these are no numbers of Messina".to_owned()));
            watch.nodes.push((name, counted));
        }
        watch
    }

    /// What has been added since, a line for this machine and one for each node.
    pub fn since(&self, before: &Watch) -> Vec<String> {
        let passed = self.at.saturating_duration_since(before.at);
        let mut lines: Vec<String> = machine(self, before, passed).into_iter().collect();
        for ((name, now), (_, then)) in self.nodes.iter().zip(&before.nodes) {
            lines.push(match (now, then) {
                (Ok(now), Ok(then)) => format!("node {name}: {}", added(now, then, passed)),
                (Err(why), _) | (_, Err(why)) => format!("node {name} tells no metrics: {why}"),
            });
        }
        lines
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn processors(text: &str) -> Option<Processors> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|tick| tick.parse().ok()).collect();
    let &[.., idle, waiting, _, _, _] = ticks.as_slice() else { return None };
    Some(Processors { all: ticks.iter().sum(), idle, waiting })
}

/// Disks that have done something: not those in memory, and not parts of others.
fn disks(text: &str) -> BTreeMap<String, Disk> {
    let mut all: BTreeMap<String, Disk> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let (Some(name), Some(read), Some(written), Some(busy_ms)) =
            (fields.get(2), number(5), number(9), number(12))
        else {
            continue;
        };
        let is_part = all.keys().any(|whole| {
            let rest = name.strip_prefix(whole.as_str());
            let rest = rest.map(|rest| {
                if whole.ends_with(|c: char| c.is_ascii_digit()) {
                    rest.trim_start_matches('p')
                } else {
                    rest
                }
            });
            rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        });
        if is_part || ["loop", "ram", "zram"].iter().any(|kind| name.starts_with(kind)) {
            continue;
        }
        let disk = Disk { read_bytes: read * SECTOR_BYTES, written_bytes: written * SECTOR_BYTES, busy_ms };
        all.insert((*name).to_owned(), disk);
    }
    all
}

/// Nothing when it is no Messina node.
fn counted(text: &str) -> Option<Node> {
    let mut node = Node::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        match name {
            CORES => {
                let shard = labels.split_once("shard=\"").and_then(|(_, rest)| rest.split('"').next());
                *node.busy_ns.entry(shard.unwrap_or_default().to_owned()).or_default() += value;
            }
            LOOKS => node.looks += value,
            HITS => node.hits += value,
            IO => node.io_bytes += value,
            _ => {}
        }
    }
    (!node.busy_ns.is_empty()).then_some(node)
}

fn percent(part: f64, whole: f64) -> String {
    if whole <= 0.0 { "–".to_owned() } else { format!("{} %", fixed(100.0 * part / whole, 1, false)) }
}

fn mib(bytes: f64) -> String {
    format!("{} MiB", fixed(bytes / f64::from(1 << 20), 1, true))
}

fn machine(now: &Watch, before: &Watch, passed: Duration) -> Option<String> {
    let mut parts = Vec::new();
    if let (Some(now), Some(then)) = (now.processors, before.processors) {
        let all = now.all.saturating_sub(then.all) as f64;
        let (idle, waiting) = (now.idle.saturating_sub(then.idle), now.waiting.saturating_sub(then.waiting));
        let busy = all - idle as f64 - waiting as f64;
        parts.push(format!(
            "processors {} busy, {} waiting for disks",
            percent(busy, all),
            percent(waiting as f64, all)
        ));
    }
    for (name, disk) in &now.disks {
        let then = before.disks.get(name).copied().unwrap_or_default();
        let read = disk.read_bytes.saturating_sub(then.read_bytes);
        let written = disk.written_bytes.saturating_sub(then.written_bytes);
        if read + written == 0 {
            continue;
        }
        let busy_ms = disk.busy_ms.saturating_sub(then.busy_ms) as f64;
        parts.push(format!(
            "{name} {} read, {} written, {} busy",
            mib(read as f64),
            mib(written as f64),
            percent(busy_ms, passed.as_secs_f64() * 1e3)
        ));
    }
    (!parts.is_empty()).then(|| format!("this machine: {}", parts.join("; ")))
}

fn added(now: &Node, then: &Node, passed: Duration) -> String {
    let nanoseconds = passed.as_nanos() as f64;
    let of = |(shard, busy): (&String, &f64)| busy - then.busy_ns.get(shard).copied().unwrap_or(0.0);
    let busy: Vec<f64> = now.busy_ns.iter().map(of).collect();
    if busy.iter().any(|busy| *busy < 0.0) {
        return "it was started anew".to_owned();
    }
    let (least, most) =
        (busy.iter().copied().fold(f64::INFINITY, f64::min), busy.iter().copied().fold(0.0, f64::max));
    let all = busy.iter().sum::<f64>();
    format!(
        "cores {} busy, the least busy of {} shards {}, the most {}; {}; {} to and from disks",
        percent(all, nanoseconds * busy.len() as f64),
        busy.len(),
        percent(least, nanoseconds),
        percent(most, nanoseconds),
        match now.looks - then.looks {
            looks if 0.0 < looks => format!("row cache {} hit", percent(now.hits - then.hits, looks)),
            _ => "nothing looked for in the row cache".to_owned(),
        },
        mib((now.io_bytes - then.io_bytes).max(0.0))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, stat: &str, diskstats: &str, metrics: Option<&str>) -> Watch {
        let node = metrics.and_then(counted).ok_or_else(|| "refused".to_owned());
        Watch {
            at: Instant(seconds * 1_000_000_000),
            processors: processors(stat),
            disks: disks(diskstats),
            nodes: vec![("10.0.0.1:9180".into(), node)],
        }
    }

    const DISKS: &str = "   8  0 sda 10 0 2048 5 20 0 4096 7 0 100 12 0\n   8  1 sda1 10 0 2048 5 20 0 4096 7 0 100 12 0\n\
                         259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n259 1 nvme0n1p1 1 0 9 0 0 0 0 0 0 0 0\n   7 0 loop0 1 0 8 0 0 0 0 0 0 9 0\n";
    const LATER: &str = "   8  0 sda 10 0 4096 5 20 0 8192 7 0 1100 12 0\n";

    #[test]
    fn a_phase_is_what_was_added() {
        let metrics = |busy: [u64; 2], looks: u64, hits: u64, io: u64| {
            format!(
                "# TYPE x counter\n{CORES}{{group=\"a\",shard=\"0\"}} {}\n{CORES}{{group=\"b\",shard=\"1\"}} {}\n\
                 {LOOKS}{{shard=\"0\"}} {looks}\n{HITS}{{shard=\"0\"}} {hits}\n{IO}{{shard=\"1\"}} {io}\n",
                busy[0], busy[1]
            )
        };
        let before = at(0, "cpu  10 0 10 100 5 0 0 0 0 0\n", DISKS, Some(&metrics([0, 0], 10, 10, 0)));
        let now = metrics([1_000_000_000, 500_000_000], 110, 100, 3 << 20);
        let after = at(2, "cpu  60 0 20 120 25 0 0 0 0 0\n", LATER, Some(&now));
        assert_eq!(
            after.since(&before),
            [
                "this machine: processors 60.0 % busy, 20.0 % waiting for disks; sda 1.0 MiB read, 2.0 MiB written, 50.0 % busy",
                "node 10.0.0.1:9180: cores 37.5 % busy, the least busy of 2 shards 25.0 %, the most 50.0 %; row cache 90.0 % hit; 3.0 MiB to and from disks",
            ]
        );
        assert!(before.since(&after)[0].contains("processors –"), "{:?}", before.since(&after));
        assert_eq!(
            before.since(&after).last().map(String::as_str),
            Some("node 10.0.0.1:9180: it was started anew")
        );
    }

    #[test]
    fn who_is_silent_is_named() {
        let silent = at(1, "", "", None);
        assert_eq!(silent.since(&at(0, "", "", None)), ["node 10.0.0.1:9180 tells no metrics: refused"]);
        assert_eq!(counted("process_cpu_seconds_total 5\n"), None);
        assert_eq!(disks(DISKS).keys().collect::<Vec<_>>(), ["nvme0n1", "sda"]);
    }
}
