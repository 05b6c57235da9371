//! Several processes, one cluster: the stock driver and nodetool while nodes are killed and return.

mod bad_days;
mod datacenters;
mod faults;
mod histories;
mod load;
mod long;
mod nodes;
mod proxy;
mod rolling;
mod screens;
mod stress;
mod transactions;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::python::{self, Script};
use crate::suite::{Options, Report};
use load::{Loads, Settings};
use nodes::Nodes;

/// How long after a kill a client may hear of errors other than Unavailable.
const ERRORS_WITHIN: f64 = 3.0;
/// How long it may take until every node shows every node as up.
const UP_WITHIN: Duration = Duration::from_secs(30);

/// Runs the suite on clusters of nodes of one shard count.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut suite = Suite { options, shards, report };
    suite.three_nodes();
    suite.test("screens_of_three_nodes", || screens::three(options, shards));
    suite.test("screens_of_two_datacenters", || screens::four(options, shards));
    suite.test("histories_of_the_simulator", || histories::run(options));
    if options.quick {
        return;
    }
    suite.test("levels_of_two_datacenters", || datacenters::levels(options, shards));
    suite.test("a_datacenter_cut_off", || datacenters::cut_off(options, shards));
    suite.test("stress_tools_and_a_killed_node", || stress::run(options, shards));
    suite.test("faults_between_nodes", || faults::run(options, shards));
    suite.test("a_rolling_restart", || rolling::run(options, shards));
    if let Some(minutes) = options.long {
        suite.test("long_run_of_kills", || long::run(options, shards, minutes));
        suite.test("transactions_on_five_nodes", || transactions::run(options, shards, minutes));
    }
    for (name, test) in bad_days::TESTS {
        suite.test(name, || test(options, shards));
    }
}

/// One test, with clusters of its own of so many shards each.
type Test = fn(&Options, u16) -> Result<String, String>;

/// Runs one test after the other, by names that `--only` chooses from.
struct Suite<'a> {
    options: &'a Options,
    shards: u16,
    report: &'a mut Report,
}

impl Suite<'_> {
    fn test(&mut self, name: &str, body: impl FnOnce() -> Result<String, String>) {
        if self.chosen(name) {
            self.report.test(&format!("cluster::{name} --smp {}", self.shards), body);
        }
    }

    fn chosen(&self, name: &str) -> bool {
        self.options.only.as_ref().is_none_or(|word| name.contains(word.as_str()))
    }

    /// A cluster with the table of loads, when one of these tests is chosen. Its addresses are used again by the next one.
    fn cluster(&mut self, tests: &[&str]) -> Option<Nodes> {
        if !tests.iter().any(|name| self.chosen(name)) {
            return None;
        }
        let mut nodes = None;
        let name = format!("cluster::three_nodes_find_each_other --smp {}", self.shards);
        let (options, shards) = (self.options, self.shards);
        self.report.test(&name, || {
            let mut started = Nodes::start(options, 3, shards)?;
            started.wait_until_all_up(UP_WITHIN)?;
            started.make_table("3")?;
            nodes = Some(started);
            Ok(String::new())
        });
        nodes
    }

    fn three_nodes(&mut self) {
        const TESTS: [&str; 3] =
            ["drivers_and_a_killed_node", "events_come_in_order", "all_killed_at_once_lose_nothing"];
        let Some(mut nodes) = self.cluster(&TESTS) else { return };
        let quick = self.options.quick;
        self.test(TESTS[0], || {
            let (drivers, seconds) = if quick { (load::QUICK, 3) } else { (load::ALL, 10) };
            load_through_a_kill(&mut nodes, drivers, Duration::from_secs(seconds))
        });
        self.test(TESTS[1], || events(&mut nodes));
        self.test(TESTS[2], || {
            let times = if quick { 1 } else { 20 };
            for time in 0..times {
                load_until_all_die(&mut nodes).map_err(|error| format!("time {time}: {error}"))?;
            }
            Ok(format!("{times} times"))
        });
        self.test("stop", || nodes.stop().map(|()| String::new()));
    }
}

/// Starts a script that speaks with all nodes, with a word and an argument that may be empty.
fn python_script(
    nodes: &Nodes,
    name: &str,
    settings: &Settings,
    word: &str,
    argument: &str,
) -> Result<Script, String> {
    let mut command = python::script_command(name, nodes.address(0), 5, "lz4")?;
    command.arg(word);
    if !argument.is_empty() {
        command.arg(argument);
    }
    nodes.environment(&mut command, settings, &load::acked(&nodes.folder));
    Script::of(command)
}

fn expect(line: &str, wanted: &str) -> Result<(), String> {
    if line == wanted { Ok(()) } else { Err(format!("the script said {line} instead of {wanted}")) }
}

/// Load while one node is killed and comes back: no Unavailable ever, other errors only just behind the kill. One table is
/// made while the node is down, one by each driver after it has returned; every driver sees them all.
fn load_through_a_kill(
    nodes: &mut Nodes,
    drivers: &[&'static str],
    phase: Duration,
) -> Result<String, String> {
    let in_flight = 32 / drivers.len();
    let mut loads = Loads::start(nodes, drivers, &Settings::quorum(in_flight))?;
    std::thread::sleep(phase);
    let killed = Instant::now();
    nodes.kill(1);
    std::thread::sleep(phase);
    loads.create(0, "made_while_one_is_down")?;
    nodes.start_again(1)?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    std::thread::sleep(phase);
    loads.all_see("made_while_one_is_down")?;
    loads.share_schema("after")?;
    let summaries = loads.stop()?;
    for summary in &summaries {
        summary.judge(&[killed], ERRORS_WITHIN)?;
    }
    let checked = nodes.check_acked()?;
    let told: Vec<String> = summaries.iter().map(load::Summary::told).collect();
    Ok(format!("{checked}; {}", told.join("; ")))
}

/// A kill and a return, as a driver connected to another node hears of them; and what an operator does to a node: its native transport
/// closed and opened, gossip off and on, a drain.
fn events(nodes: &mut Nodes) -> Result<String, String> {
    let mut script = nodes.script("events", "")?;
    expect(&script.line()?, "LISTENING")?;
    let address = nodes.address(2).ip();
    nodes.kill(2);
    expect(&script.line()?, &format!("DOWN {address}"))?;
    nodes.start_again(2)?;
    expect(&script.line()?, &format!("UP {address}"))?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    for (word, event) in [
        ("disablebinary", "DOWN"),
        ("enablebinary", "UP"),
        ("disablegossip", "DOWN"),
        ("enablegossip", "UP"),
        ("drain", "DOWN"),
    ] {
        nodes.nodetool(2, &[word])?;
        let heard = script.line()?;
        expect(&heard, &format!("{event} {address}")).map_err(|error| format!("{word}: {error}"))?;
    }
    nodes.kill(2);
    nodes.start_again(2)?;
    expect(&script.line()?, &format!("UP {address}"))?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    Ok(String::new())
}

/// Load, all nodes killed within it, all started again, every acknowledged key read.
fn load_until_all_die(nodes: &mut Nodes) -> Result<(), String> {
    let loads = Loads::start(nodes, &load::ALL[..1], &Settings::quorum(32))?;
    std::thread::sleep(Duration::from_millis(1500));
    for node in 0..nodes.count() {
        nodes.kill(node);
    }
    for summary in loads.stop()? {
        summary.is_sound()?;
    }
    for node in (0..nodes.count()).rev() {
        nodes.start_again_without_waiting(node)?;
    }
    nodes.wait_until_all_up(UP_WITHIN)?;
    nodes.check_acked().map(drop)
}

/// A folder's name under the suite's.
pub(crate) fn folder_of(folder: &Path, node: usize) -> PathBuf {
    folder.join(format!("node{}", node + 1))
}
