//! Programs of drivers that write and read while a cluster changes under them, and what each says of it in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::nodes::Nodes;
use crate::python::{Script, script_command};
use crate::{packages, scylla};

/// Drivers of every commit; the others run without `--quick`.
pub const QUICK: &[&str] = &["python", "gocql1", "java4"];
/// All of them. The first one does what is not about drivers, too.
pub const ALL: &[&str] = &["python", "gocql1", "gocql2", "java4", "java3", "nodejs", scylla::NAME];

/// Keys of one program lie apart from those of others, of one run apart from those of the next.
const KEYS: u64 = 1_000_000_000;
/// Time for a program to end after its last word.
const ENDING: Duration = Duration::from_secs(60);

/// How a load is made.
#[derive(Clone)]
pub struct Settings {
    /// The consistency level.
    pub level: &'static str,
    /// The datacenter that the client calls its own.
    pub dc: &'static str,
    /// Requests at once, of each driver.
    pub in_flight: usize,
    /// Nodes whose addresses the driver is given; `None`: all.
    pub contacts: Option<Vec<usize>>,
    /// Whether it asks no other nodes; Python's driver alone.
    pub is_pinned: bool,
}

impl Settings {
    /// At QUORUM, in a cluster of one datacenter.
    pub fn quorum(in_flight: usize) -> Settings {
        Settings { level: "QUORUM", dc: "datacenter1", in_flight, contacts: None, is_pinned: false }
    }
}

/// One program that loads.
struct Client {
    driver: &'static str,
    script: Script,
    begun: Instant,
    acked: PathBuf,
}

/// Programs that load at once.
pub struct Loads {
    clients: Vec<Client>,
}

impl Loads {
    /// Starts the programs of these drivers and waits until all have begun. Keyspace and table are there.
    pub fn start(nodes: &Nodes, drivers: &[&'static str], settings: &Settings) -> Result<Loads, String> {
        let mut clients = Vec::new();
        for driver in drivers {
            let acked = nodes.folder.join(format!("acked.{driver}"));
            let place = ALL.iter().position(|name| name == driver).unwrap_or(ALL.len()) as u64;
            let first = (largest_key(&acked)? + 1_000).max(place * KEYS);
            let mut command = program(driver, nodes)?;
            command.args(["load", &first.to_string()]);
            nodes.environment(&mut command, settings, &acked);
            let script = Script::of(command).map_err(|error| format!("{driver}: {error}"))?;
            clients.push(Client { driver, script, begun: Instant::now(), acked });
        }
        for client in &mut clients {
            let (at, line) =
                client.script.line_at().map_err(|error| format!("{}: {error}", client.driver))?;
            super::expect(&line, "STARTED").map_err(|error| format!("{}: {error}", client.driver))?;
            client.begun = at;
        }
        Ok(Loads { clients })
    }

    /// Has one driver make a table.
    pub fn create(&mut self, driver: usize, table: &str) -> Result<(), String> {
        let client = &mut self.clients[driver];
        client.script.say(&format!("CREATE {table}"))?;
        super::expect(&client.script.line()?, &format!("CREATED {table}"))
            .map_err(|error| format!("{}: {error}", client.driver))
    }

    /// Has every driver find the table in its own metadata, which events keep.
    pub fn all_see(&mut self, table: &str) -> Result<(), String> {
        for client in &mut self.clients {
            client.script.say(&format!("SEES {table}"))?;
        }
        for client in &mut self.clients {
            super::expect(&client.script.line()?, &format!("SEES {table}"))
                .map_err(|error| format!("{}: {error}", client.driver))?;
        }
        Ok(())
    }

    /// Each driver makes a table, which all others see.
    pub fn share_schema(&mut self, suffix: &str) -> Result<(), String> {
        for nth in 0..self.clients.len() {
            let table = format!("of_{}_{suffix}", self.clients[nth].driver);
            self.create(nth, &table)?;
            self.all_see(&table)?;
        }
        Ok(())
    }

    /// Ends them; what each saw. What they acknowledged is in the cluster's folder.
    pub fn stop(mut self) -> Result<Vec<Summary>, String> {
        for client in &mut self.clients {
            client.script.say("STOP")?;
        }
        let mut summaries = Vec::new();
        for client in &mut self.clients {
            let named = |error: String| format!("{}: {error}", client.driver);
            super::expect(&client.script.line().map_err(named)?, "DONE").map_err(named)?;
            let told = client.script.line().map_err(named)?;
            client.script.finish(ENDING).map_err(named)?;
            summaries.push(Summary::read(client.driver, client.begun, &told).map_err(named)?);
        }
        join_acked(&self.clients)?;
        Ok(summaries)
    }
}

/// Everything acknowledged so far, of all drivers, in one file.
fn join_acked(clients: &[Client]) -> Result<(), String> {
    let Some(folder) = clients.first().and_then(|client| client.acked.parent()) else { return Ok(()) };
    let mut all = String::new();
    for driver in ALL {
        all.push_str(&fs::read_to_string(folder.join(format!("acked.{driver}"))).unwrap_or_default());
    }
    fs::write(acked(folder), all).map_err(|error| format!("{}: {error}", folder.display()))
}

/// The file of all acknowledged keys.
pub fn acked(folder: &Path) -> PathBuf {
    folder.join("acked")
}

fn largest_key(acked: &Path) -> Result<u64, String> {
    let text = if acked.exists() { crate::command::read(acked)? } else { String::new() };
    Ok(text.lines().filter_map(|line| line.parse::<u64>().ok()).max().unwrap_or(0))
}

fn program(driver: &str, nodes: &Nodes) -> Result<Command, String> {
    match driver {
        "python" => script_command("cluster_load", nodes.address(0), 5, "lz4"),
        "gocql1" | "gocql2" => packages::gocql(driver).map(Command::new),
        "java3" | "java4" => {
            let mut java = Command::new("java");
            java.args(["-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
                .arg(packages::java_driver(driver)?)
                .arg("messina.ClusterRun")
                .stderr(crate::command::log_of(&nodes.folder.join(format!("{driver}.log")))?);
            Ok(java)
        }
        "nodejs" => {
            let mut node = Command::new("node");
            node.arg(packages::nodejs()?.join("cluster.js"));
            Ok(node)
        }
        scylla::NAME => scylla::program(),
        other => Err(format!("there is no driver {other}")),
    }
}

/// What the load of one driver says of itself.
pub struct Summary {
    driver: &'static str,
    begun: Instant,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Reads that were answered.
    pub reads: u64,
    wrong: usize,
    /// Class and the seconds at which errors of it came.
    pub errors: Vec<(String, Vec<f64>)>,
}

impl Summary {
    fn read(driver: &'static str, begun: Instant, json: &str) -> Result<Summary, String> {
        let value: serde_json::Value =
            serde_json::from_str(json).map_err(|error| format!("{error}: {json}"))?;
        let number = |name: &str| value[name].as_u64().ok_or_else(|| format!("no {name} in {json}"));
        let times = |value: &serde_json::Value| {
            value.as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64).collect()
        };
        let errors = value["errors"].as_object().into_iter().flatten();
        let errors = errors.map(|(class, at)| (class.clone(), times(at))).collect();
        let wrong = value["wrong"].as_array().map_or(0, Vec::len);
        Ok(Summary { driver, begun, writes: number("writes")?, reads: number("reads")?, wrong, errors })
    }

    /// Unavailable never, other errors only within so many seconds behind one of these moments; no wrong answer at all.
    pub fn judge(&self, moments: &[Instant], within: f64) -> Result<(), String> {
        self.is_sound()?;
        let seconds = |moment: &Instant| moment.saturating_duration_since(self.begun).as_secs_f64();
        let moments: Vec<f64> = moments.iter().map(seconds).collect();
        for (class, at) in &self.errors {
            // A client's clock begins a moment before it says so.
            let is_excused =
                |at: &f64| moments.iter().any(|moment| (moment - 0.2..moment + within).contains(at));
            if class.contains("navailable") || !at.iter().all(is_excused) {
                let driver = self.driver;
                return Err(format!(
                    "{driver}: {class} at {at:?} s; excused within {within} s of {moments:.2?}"
                ));
            }
        }
        Ok(())
    }

    /// Everything but a wrong answer is excused while something lasts, and so many seconds longer.
    pub fn judge_outside(&self, lasted: &[(Instant, Instant)], longer: f64) -> Result<(), String> {
        self.is_sound()?;
        let seconds = |moment: &Instant| moment.saturating_duration_since(self.begun).as_secs_f64();
        for (class, at) in &self.errors {
            let is_excused = |at: &&f64| {
                lasted.iter().any(|(from, to)| (seconds(from) - 0.2..seconds(to) + longer).contains(*at))
            };
            if let Some(at) = at.iter().find(|at| !is_excused(at)) {
                return Err(format!("{}: {class} at {at:.2} s, when nothing was wrong", self.driver));
            }
        }
        Ok(())
    }

    /// Whether it did something, and every read found what was acknowledged.
    pub fn is_sound(&self) -> Result<(), String> {
        if self.wrong > 0 || self.writes == 0 || self.reads == 0 {
            let Summary { driver, wrong, writes, reads, .. } = self;
            return Err(format!(
                "{driver}: {wrong} wrong reads, {writes} writes, {reads} reads; {}",
                self.told()
            ));
        }
        Ok(())
    }

    /// All of it in a few words.
    pub fn told(&self) -> String {
        let each: Vec<String> =
            self.errors.iter().map(|(class, at)| format!("{class} × {}", at.len())).collect();
        let errors = if each.is_empty() { "no errors".into() } else { each.join(", ") };
        format!("{}: {} writes, {} reads, {errors}", self.driver, self.writes, self.reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_excused_only_behind_a_kill_and_unavailable_never() {
        let begun = Instant::now();
        let read = |errors: &str| {
            let json = format!("{{\"writes\": 5, \"reads\": 4, \"wrong\": [], \"errors\": {errors}}}");
            Summary::read("python", begun, &json).expect("sound")
        };
        let killed = [begun + Duration::from_secs(10)];
        assert_eq!(read("{}").judge(&killed, 3.0), Ok(()));
        assert_eq!(read("{\"write WriteTimeout\": [10.1, 12.9]}").judge(&killed, 3.0), Ok(()));
        assert!(read("{\"write WriteTimeout\": [10.1, 13.1]}").judge(&killed, 3.0).is_err());
        assert!(read("{\"write WriteTimeout\": [9.7]}").judge(&killed, 3.0).is_err());
        assert!(read("{\"read Unavailable\": [10.1]}").judge(&killed, 3.0).is_err());
        assert!(read("{\"read unavailableException\": [10.1]}").judge(&killed, 3.0).is_err());
        let json = "{\"writes\": 5, \"reads\": 4, \"wrong\": [7], \"errors\": {}}";
        assert!(Summary::read("python", begun, json).expect("sound").judge(&killed, 3.0).is_err());
    }
}
