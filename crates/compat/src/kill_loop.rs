//! `kill -9` under the Python driver's load, in `periodic` and in `batch` mode, again and again: what was acknowledged is there.
//!
//! Each cycle starts the node, lets the load run for a moment of random length, kills the process, and starts it again
//! with another number of shards to read back every key acknowledged in this cycle; now and then, and at the end, all keys
//! since the beginning, and a scan of the table.

use std::fs;
use std::time::Duration;

use crate::python::Script;
use crate::suite::{Options, Report};

/// Every cycle checks its own keys; every so many, all keys since the beginning.
const FULL_CHECK_EVERY: u64 = 50;
/// Cycles between two lines that tell how far it is.
const TELL_EVERY: u64 = 10;

/// Runs the cycles in each mode, starting with this number of shards.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let wanted = |mode: &&str| options.only.as_deref().is_none_or(|word| mode.contains(word));
    for mode in ["periodic", "batch"].into_iter().filter(wanted) {
        cycles(options, shards, mode, report);
    }
}

fn cycles(options: &Options, shards: u16, mode: &'static str, report: &mut Report) {
    report.test(&format!("kill::acknowledged_writes_survive {mode} --smp {shards}"), || {
        let folder = options.folder(&format!("kill-{mode}"))?;
        let mut start = options.start(folder.clone(), shards);
        start.commitlog_sync = mode;
        let all = folder.join("acked-all");
        let mut next = 0u64;
        let mut acked = 0u64;
        let mut chance = Chance(0x9E37_79B9_7F4A_7C15 ^ u64::from(shards));
        for cycle in 0..options.cycles {
            let named = |error: String| format!("cycle {cycle}: {error}");
            let these = folder.join("acked");
            let _ = fs::remove_file(&these);
            start.shards = shards;
            let mut server = start.run().map_err(named)?;
            let arguments =
                [("", "write".into()), ("", next.to_string()), ("$KILL_ACKED", these.display().to_string())];
            let mut load = Script::spawn("kill_load", server.address, 5, "lz4", &arguments)?;
            expect(&load.line().map_err(named)?, "STARTED").map_err(named)?;
            std::thread::sleep(Duration::from_millis(200 + chance.next() % 800));
            server.kill();
            let line = load.line().map_err(named)?;
            let words: Vec<&str> = line.split(' ').collect();
            let (Some(count), Some(key)) = (number(&words, 1), number(&words, 3)) else {
                return Err(named(format!("the load said {line}")));
            };
            load.finish(Duration::from_secs(60)).map_err(named)?;
            acked += count;
            next = key;
            append(&these, &all)?;
            // Restart with another number of shards: the log of every shard must be found.
            start.shards = 1 + ((u64::from(shards) + cycle) % 4) as u16;
            let mut server = start.run().map_err(named)?;
            let full = cycle % FULL_CHECK_EVERY == FULL_CHECK_EVERY - 1 || cycle + 1 == options.cycles;
            let (what, checked) = if full { ("check-all", &all) } else { ("check", &these) };
            let arguments = [("", what.into()), ("$KILL_ACKED", checked.display().to_string())];
            let mut check = Script::spawn("kill_load", server.address, 5, "lz4", &arguments)?;
            let line = check.line().map_err(named)?;
            if !line.starts_with("CHECKED") {
                return Err(named(line));
            }
            check.finish(Duration::from_secs(60)).map_err(named)?;
            if cycle % TELL_EVERY == TELL_EVERY - 1 {
                println!("  {} cycles, {acked} acknowledged writes, none lost", cycle + 1);
            }
            // Every second cycle the node is killed again right after its recovery, else stopped in order.
            if cycle % 2 == 0 {
                server.kill();
            } else {
                server.stop().map_err(named)?;
            }
        }
        Ok(format!("{} cycles, {acked} acknowledged writes, none lost", options.cycles))
    });
}

fn expect(line: &str, wanted: &str) -> Result<(), String> {
    if line == wanted { Ok(()) } else { Err(format!("the load said {line} instead of {wanted}")) }
}

fn number(words: &[&str], index: usize) -> Option<u64> {
    words.get(index)?.parse().ok()
}

fn append(from: &std::path::Path, to: &std::path::Path) -> Result<(), String> {
    use std::io::Write;
    let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    fs::File::options()
        .create(true)
        .append(true)
        .open(to)
        .and_then(|mut file| file.write_all(&bytes))
        .map_err(|error| format!("{}: {error}", to.display()))
}

/// A small generator, so that a run can be repeated.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
