//! `cargo x sim`: runs scenarios over ranges of seeds on all processors, in the optimised build with assertions.
//!
//! ```text
//! sim crash --seeds 0..10000     each seed is one run; the first failing seeds are printed with how to repeat them
//! sim storage --seeds 0..20000   the same for the storage engine alone, under faults
//! sim model --operations N       and without faults, as many seeds as N operations take
//! sim prove                      the same seed twice, in two processes, gives the same trace hash
//! sim planted                    each planted bug is caught within a few hundred seeds, so the checkers see
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::{Outcome, house};

/// Seeds handed to one process at a time: few, as seeds of one scenario may differ a hundredfold.
const CHUNK: u64 = 5;
/// Operations of one seed of the model scenario, as `sim::Scenario::operations` says.
const MODEL_OPERATIONS: u64 = 10_000;
/// What stands before what happened in a run, by kind.
const HAPPENED: &str = " happened: ";
/// Clock ticks a second in which the kernel says how long processes ran.
const TICKS: f64 = 100.0;
/// What a checker says of a seed that failed.
const VERDICT: &str = "FAILED: ";

/// Planted bugs and the scenario that must catch each.
const PLANTED: &[(&str, &str)] = &[
    ("skip-sync", "crash"),
    ("ignore-crc", "crash"),
    ("replay-stops-early", "crash"),
    ("probe-before-await", "crash"),
    ("digest-stops-at-null", "three"),
    ("accept-unfenced", "lwt"),
    ("accept-unfenced", "lwt-local"),
    ("paxos-leaves-behind", "lwt"),
    ("replace-without-ballots", "lwt-replace"),
    ("count-sent-before-durable", "counters"),
    ("count-without-turn", "counters"),
    ("count-retried", "counters"),
    ("count-id-shared", "counters"),
    ("late-write-after-truncate", "cluster"),
    ("roles-of-one-shard", "cluster"),
    ("hint-unheard-is-delivered", "cluster"),
    ("founds-unasked", "cluster"),
    ("old-folder-let-in", "cluster"),
    ("replace-unfilled", "replace"),
    ("repair-skips-rest", "repair"),
    ("repair-forgets-tombstones", "repair"),
    ("batchlog-only-here", "batches"),
    ("skip-sync", "raft"),
    ("head-cut-too-far", "raft"),
    ("pull-uncommitted", "raft"),
    ("skip-batchlog", "crash"),
    ("forget-tail", "crash"),
    ("skip-sync", "storage"),
    ("ignore-crc", "storage"),
    ("replay-stops-early", "storage"),
    ("manifest-before-data", "storage"),
    ("purge-without-proof", "storage"),
    ("filter-false-negative", "storage"),
    ("population-race", "storage"),
    ("probe-before-await", "model"),
    ("purge-without-proof", "model"),
    ("filter-false-negative", "model"),
];

/// Reads the words after `sim`.
pub fn sim(rest: &[String]) -> Outcome {
    let scenario =
        rest.first().map(String::as_str).ok_or("sim SCENARIO --seeds A..B, sim prove, or sim planted")?;
    let binary = house::binary(rest, "sim")?;
    match scenario {
        "prove" => prove(&binary),
        "planted" => planted(&binary),
        "model" if house::option(rest, "--operations").is_some() => {
            let operations = number(house::option(rest, "--operations").unwrap_or_default())?;
            let seeds = operations.div_ceil(MODEL_OPERATIONS);
            let ran = seeds_of(&binary, scenario, 0..seeds)?;
            Ok(format!("{ran}, {} operations", seeds * MODEL_OPERATIONS))
        }
        scenario => {
            let seeds = range(house::option(rest, "--seeds").unwrap_or("0..100"))?;
            seeds_of(&binary, scenario, seeds)
        }
    }
}

/// A number, perhaps with underscores.
fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse::<u64>().map_err(|_| format!("{text} is not a number"))
}

/// `A..B`, or one seed.
fn range(text: &str) -> Result<Range<u64>, String> {
    match text.split_once("..") {
        Some((first, end)) => Ok(number(first)?..number(end)?),
        None => number(text).map(|seed| seed..seed + 1),
    }
}

/// Runs a range of seeds on all processors.
fn seeds_of(binary: &std::path::Path, scenario: &str, seeds: Range<u64>) -> Outcome {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let failures: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let campaign: Mutex<Campaign> = Mutex::default();
    let (since, ticks) = (Instant::now(), ticks_of_children());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(CHUNK, Ordering::Relaxed);
                    let full = failures.lock().map_or(true, |failures| failures.len() >= 5);
                    if first >= seeds.end || full {
                        return;
                    }
                    let end = (first + CHUNK).min(seeds.end);
                    let outcome = chunk(binary, scenario, first..end, &[]);
                    match (outcome, campaign.lock(), failures.lock()) {
                        (Ok(text), Ok(mut campaign), _) => campaign.add(&text),
                        (Err(text), _, Ok(mut failures)) => {
                            println!("{text}");
                            failures.push(text);
                        }
                        _ => return,
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().map_err(|_| "a worker panicked")?;
    let count = seeds.end - seeds.start;
    let seconds = since.elapsed().as_secs_f64();
    let campaign = campaign.into_inner().map_err(|_| "a worker panicked")?;
    let cpu = ticks_of_children().zip(ticks).map(|(after, before)| (after - before) as f64 / TICKS);
    campaign.told(scenario, cpu).iter().for_each(|line| println!("{line}"));
    if failures.is_empty() {
        Ok(format!("sim result: ok. {scenario}: {count} seeds in {seconds:.1} s"))
    } else {
        Err(format!(
            "{scenario}: {} chunks of seeds failed; repeat one with messina simulate (--shrink for storage and model)",
            failures.len()
        ))
    }
}

/// What all good seeds gave together.
#[derive(Default)]
struct Campaign {
    counts: BTreeMap<String, u64>,
    virtual_millis: u64,
}

impl Campaign {
    /// Adds what one process said.
    fn add(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((_, kinds)) = line.split_once(HAPPENED) {
                for (kind, count) in kinds.split("; ").filter_map(|kind| kind.split_once('=')) {
                    *self.counts.entry(kind.to_owned()).or_default() += count.parse::<u64>().unwrap_or(0);
                }
            }
            let words: Vec<&str> = line.split(' ').collect();
            let before =
                |unit: &str| words.iter().position(|word| *word == unit).and_then(|at| words.get(at - 1));
            if words.contains(&"steps") {
                let millis = before("ms").and_then(|number| number.parse::<u64>().ok());
                self.virtual_millis += millis.unwrap_or(0);
            }
        }
    }

    /// One line for each kind, and how fast the world was. `cpu`: seconds of all processes.
    fn told(&self, scenario: &str, cpu: Option<f64>) -> Vec<String> {
        let counts = self.counts.iter().map(|(kind, count)| format!("{scenario}: {count} x {kind}"));
        let simulated = self.virtual_millis as f64 / 1000.0;
        let speed = cpu.filter(|cpu| *cpu > 0.0).map(|cpu| {
            let each = simulated / cpu;
            format!("{scenario}: {simulated:.0} simulated s in {cpu:.1} s of CPU, {each:.0} each")
        });
        counts.chain(speed).collect()
    }
}

/// Clock ticks that ended children of this process ran. `None`: the kernel does not say.
fn ticks_of_children() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, which may hold anything, ends at the last bracket; user and system time of children are the 14th and 15th behind it.
    let behind = text.rsplit_once(')')?.1;
    let mut fields = behind.split_whitespace().skip(13).map_while(|field| field.parse::<u64>().ok());
    Some(fields.next()? + fields.next()?)
}

/// One process over a few seeds; an error holds the end of what it said.
fn chunk(
    binary: &std::path::Path,
    scenario: &str,
    seeds: Range<u64>,
    more: &[&str],
) -> Result<String, String> {
    let mut command = house::command(binary);
    command
        .args(["simulate", "--scenario", scenario, "--seeds", &format!("{}..{}", seeds.start, seeds.end)])
        .args(more)
        .stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{}: {error}", house::shown(&command)))?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(text);
    }
    Err(format!("{} ended with {}:\n{}", house::shown(&command), output.status, gist(&text)))
}

/// The verdicts, and the end of what was said.
fn gist(text: &str) -> String {
    const TAIL: usize = 40;
    let lines: Vec<&str> = text.lines().collect();
    let (before, tail) = lines.split_at(lines.len().saturating_sub(TAIL));
    let verdicts = before.iter().filter(|line| line.contains(VERDICT));
    verdicts.chain(tail).copied().collect::<Vec<_>>().join("\n")
}

/// The trace hash of a run is a function of its seed alone.
fn prove(binary: &std::path::Path) -> Outcome {
    let mut shown = Vec::new();
    for scenario in [
        "crash",
        "three",
        "lwt",
        "lwt-local",
        "lwt-replace",
        "counters",
        "cluster",
        "repair",
        "replace",
        "batches",
        "raft",
        "storage",
        "model",
    ] {
        let mut hashes_seen = Vec::new();
        for seed in [1, 7, 1234] {
            let first = hashes(&chunk(binary, scenario, seed..seed + 1, &[])?);
            let second = hashes(&chunk(binary, scenario, seed..seed + 1, &[])?);
            if first.is_empty() {
                return Err(format!("{scenario}, seed {seed}: no trace hash was printed"));
            }
            if first != second {
                return Err(format!("{scenario}, seed {seed}: {first:?}, then {second:?}"));
            }
            hashes_seen.push(first);
        }
        hashes_seen.dedup();
        if hashes_seen.len() != 3 {
            return Err(format!("{scenario}: different seeds gave one trace"));
        }
        shown.push(scenario);
    }
    Ok(format!("sim result: ok. same seed, same trace: {}", shown.join(", ")))
}

/// The words after `trace` in the output.
fn hashes(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split([' ', '=', ',']).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            if word.starts_with("trace") {
                found.extend(words.next().map(str::to_owned));
            }
        }
    }
    found
}

/// Every planted bug must be caught by its scenario.
fn planted(binary: &std::path::Path) -> Outcome {
    /// Enough seeds that a checker which sees anything sees this.
    const SEEDS: u64 = 400;
    for (bug, scenario) in PLANTED {
        let mut caught = None;
        for first in (0..SEEDS).step_by(CHUNK as usize) {
            match chunk(binary, scenario, first..first + CHUNK, &["--plant", bug]) {
                Ok(_) => {}
                Err(text) if text.contains(VERDICT) => {
                    caught = Some(first);
                    break;
                }
                Err(text) => return Err(format!("planted {bug}: no verdict of the checker:\n{text}")),
            }
        }
        match caught {
            Some(first) => {
                println!("planted {bug}: caught by {scenario} within seeds {first}..{}", first + CHUNK)
            }
            None => return Err(format!("planted {bug}: {scenario} did not notice in {SEEDS} seeds")),
        }
    }
    Ok(format!("sim result: ok. {} planted bugs caught", PLANTED.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(range("0..10_000"), Ok(0..10_000));
        assert_eq!(range("7"), Ok(7..8));
        assert!(range("a..b").is_err());
    }

    #[test]
    fn a_verdict_is_heard_whatever_follows() {
        let text = format!("seed 3 FAILED: lost\n{}", "detail\n".repeat(100));
        assert!(gist(&text).starts_with("seed 3 FAILED: lost\ndetail\n"));
        assert_eq!(gist(&text).lines().count(), 41);
        assert_eq!(gist("all is well"), "all is well");
    }

    #[test]
    fn what_happened_in_all_seeds_is_added_up() {
        let mut campaign = Campaign::default();
        campaign.add(
            "cluster seed 0 trace 00ff 12 steps 1500 ms ok\ncluster seed 0 happened: cut=2; power cut=1",
        );
        campaign.add("cluster seed 1 trace 00fe 12 steps 500 ms ok\ncluster seed 1 happened: cut=3");
        assert_eq!(
            campaign.told("cluster", Some(0.5)),
            ["cluster: 5 x cut", "cluster: 1 x power cut", "cluster: 2 simulated s in 0.5 s of CPU, 4 each"]
        );
    }

    #[test]
    fn hashes_are_found() {
        assert_eq!(hashes("seed 1 ok, trace 00ff\nseed 2 trace=12\n"), ["00ff", "12"]);
        assert!(hashes("seed 1 ok").is_empty());
    }
}
