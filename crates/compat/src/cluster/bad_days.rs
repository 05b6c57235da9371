//! What operators do by mistake and what machines do by themselves, with real processes. Where something is refused, the line of the log that
//! names the peer or the folder and the reason is a part of the test: it is all that the operator has.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::load::{self, Loads, Settings, Summary};
use super::nodes::{Nodes, Place, Way};
use super::{ERRORS_WITHIN, Test, UP_WITHIN, expect};
use crate::bad_days::limits::SmallDisk;
use crate::command;
use crate::suite::Options;

/// Names and tests.
pub const TESTS: &[(&str, Test)] = &[
    ("bad_day_another_name", another_name),
    ("bad_day_one_folder_twice", one_folder_twice),
    ("bad_day_one_address_twice", one_address_twice),
    ("bad_day_copied_folder", copied_folder),
    ("bad_day_silent_seed", silent_seed),
    ("bad_day_wiped_seed", wiped_seed),
    ("bad_day_two_lone_nodes", two_lone_nodes),
    ("bad_day_two_clusters", two_clusters),
    ("bad_day_stopped_process", stopped_process),
    ("bad_day_full_disk", full_disk),
    ("bad_day_lost_group0", lost_group0),
    ("bad_day_random_order", random_order),
];

/// How long a log may take to say something.
const SAID_WITHIN: Duration = Duration::from_secs(20);
/// How long a process that refuses to go on may take.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// Three nodes, of which so many are started and up.
fn first(options: &Options, shards: u16, count: usize) -> Result<Nodes, String> {
    let places = [Place::PLAIN; 3];
    let mut nodes = Nodes::lay_out(options, &places, shards, Way::Straight)?;
    (0..count).try_for_each(|node| nodes.start_again_without_waiting(node))?;
    (0..count).try_for_each(|node| {
        (0..count).try_for_each(|other| nodes.wait_for_state_or_start(node, other, "UN", UP_WITHIN))
    })?;
    Ok(nodes)
}

/// The same with the table of loads.
fn with_table(options: &Options, shards: u16) -> Result<Nodes, String> {
    let nodes = first(options, shards, 3)?;
    nodes.make_table("3")?;
    Ok(nodes)
}

/// A node is to be refused: it ends, and its log says why.
fn ends_saying(nodes: &mut Nodes, node: usize, skip: usize, words: &[&str]) -> Result<String, String> {
    if nodes.wait_for_end(node, ENDS_WITHIN)? {
        return Err(format!("node {} ended as if all were well", node + 1));
    }
    nodes.wait_for_line(node, skip, words, Duration::ZERO)
}

fn size_of_log(nodes: &Nodes, node: usize) -> usize {
    nodes.log(node).map_or(0, |log| log.len())
}

/// The members that were there before are all up, and are as many.
fn still_up(nodes: &Nodes, members: &[usize]) -> Result<(), String> {
    for node in members {
        let states = nodes.states(*node)?;
        let is_as_before = |(other, state): (usize, &String)| {
            if members.contains(&other) { state == "UN" } else { state == "--" }
        };
        if !states.iter().enumerate().all(is_as_before) {
            return Err(format!("node {} shows {states:?}", node + 1));
        }
    }
    Ok(())
}

fn another_name(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = first(options, shards, 2)?;
    nodes.start_of(2).cluster_name = "another";
    nodes.start_again_without_waiting(2)?;
    let seed = format!("127.0.7.1:{}", nodes.storage_port());
    let said =
        nodes.wait_for_line(2, 0, &[&seed, "cluster names differ", "another", "compat"], SAID_WITHIN)?;
    nodes.wait_for_line(0, 0, &["refusing 127.0.7.3", "cluster names differ", "another"], SAID_WITHIN)?;
    still_up(&nodes, &[0, 1])?;
    Ok(said)
}

fn one_folder_twice(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = first(options, shards, 2)?;
    let skip = size_of_log(&nodes, 1);
    let mut second = nodes.start_of(1).spawn()?;
    let folder = nodes.folder_of(1).display().to_string();
    match command::wait(&mut second.child, ENDS_WITHIN) {
        Some(false) => {}
        other => return Err(format!("the second process on a folder: {other:?}")),
    }
    let said = nodes.wait_for_line(1, skip, &[&folder, "is used by another process"], Duration::ZERO)?;
    still_up(&nodes, &[0, 1])?;
    Ok(said)
}

fn one_address_twice(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = first(options, shards, 2)?;
    let taken = nodes.start_of(1).ip;
    let own = std::mem::replace(&mut nodes.start_of(2).ip, taken);
    nodes.start_again_without_waiting(2)?;
    let listens = ends_saying(&mut nodes, 2, 0, &["cannot listen", "127.0.7.2"])?;
    // The same by a mistake in one line: it listens elsewhere and says the address of another node.
    nodes.start_of(2).ip = own;
    fs::remove_dir_all(nodes.folder_of(2).join("data")).map_err(|error| error.to_string())?;
    nodes.start_of(2).yaml.insert_str(0, &format!("broadcast_address: {taken}\n"));
    let skip = size_of_log(&nodes, 2);
    nodes.start_again_without_waiting(2)?;
    let says = nodes.wait_for_line(2, skip, &["127.0.7.2", "address"], SAID_WITHIN)?;
    still_up(&nodes, &[0, 1])?;
    Ok(format!("{listens}; {says}"))
}

fn copied_folder(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = first(options, shards, 2)?;
    let id = nodes.host_id(1)?;
    nodes.kill(1);
    for name in ["data", "commitlog"] {
        copy(&nodes.folder_of(1).join(name), &nodes.folder_of(2).join(name))?;
    }
    nodes.start_again(1)?;
    nodes.wait_for_state(0, 1, "UN", UP_WITHIN)?;
    let skip = size_of_log(&nodes, 0);
    nodes.start_again_without_waiting(2)?;
    let said = nodes.wait_for_line(0, skip, &["127.0.7.3", &id], SAID_WITHIN)?;
    let theirs = nodes.wait_for_line(2, 0, &["127.0.7.1", &id], SAID_WITHIN)?;
    still_up(&nodes, &[0, 1])?;
    Ok(format!("{said}; {theirs}"))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(told)?;
    for entry in fs::read_dir(from).map_err(told)? {
        let entry = entry.map_err(told)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target)?;
        } else {
            fs::copy(&source, &target).map_err(told)?;
        }
    }
    Ok(())
}

fn silent_seed(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = first(options, shards, 0)?;
    for node in 0..3 {
        nodes.set_seeds(node, &[0, 1]);
    }
    nodes.start_again_without_waiting(0)?;
    nodes.start_again_without_waiting(2)?;
    let seed = "127.0.7.2";
    let said = nodes.wait_for_line(0, 0, &["waiting for", seed, "a seed has not answered"], SAID_WITHIN)?;
    nodes.wait_for_line(2, 0, &["waiting for", seed], SAID_WITHIN)?;
    std::thread::sleep(Duration::from_secs(5));
    if crate::server::answers(nodes.address(0), false) || crate::server::answers(nodes.address(2), false) {
        return Err("a node serves clients before its cluster is founded".into());
    }
    nodes.start_again_without_waiting(1)?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    nodes.stop()?;
    Ok(said)
}

fn wiped_seed(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = with_table(options, shards)?;
    let wipe = |nodes: &Nodes| {
        ["data", "commitlog"].iter().try_for_each(|name| {
            fs::remove_dir_all(nodes.folder_of(0).join(name)).map_err(|error| error.to_string())
        })
    };
    // The only seed is told of nobody else and would found a cluster of its own. The members call it, before or after it has, and it sees what
    // happened.
    nodes.kill(0);
    wipe(&nodes)?;
    let skip = size_of_log(&nodes, 0);
    nodes.start_again_without_waiting(0)?;
    let alone = nodes.wait_for_line(0, skip, &["127.0.7.1", "replace the old node"], SAID_WITHIN)?;
    let end = Instant::now() + SAID_WITHIN;
    while crate::server::answers(nodes.address(0), false) {
        if Instant::now() > end {
            return Err("a wiped seed serves clients".into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // With another seed it asks there.
    nodes.kill(0);
    wipe(&nodes)?;
    nodes.set_seeds(0, &[0, 1]);
    let skip = size_of_log(&nodes, 0);
    nodes.start_again_without_waiting(0)?;
    let said = ends_saying(&mut nodes, 0, skip, &["127.0.7.1", "replace"])?;
    let mut check = nodes.script("quorum", "/dev/null")?;
    expect(&check.line()?, "CHECKED 0")?;
    Ok(format!("{alone}; {said}"))
}

fn two_lone_nodes(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = first(options, shards, 0)?;
    for node in 0..2 {
        nodes.set_seeds(node, &[]);
        nodes.start_again(node)?;
        let keyspace =
            "CREATE KEYSPACE own WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        nodes.run_statements_at(node, &[keyspace, "CREATE TABLE own.rows (k int PRIMARY KEY)"])?;
    }
    nodes.stop()?;
    let mut said = Vec::new();
    for node in 0..2 {
        nodes.set_seeds(node, &[0, 1]);
        nodes.start_again_without_waiting(node)?;
    }
    for node in 0..2 {
        let other = format!("127.0.7.{}", 2 - node);
        said.push(ends_saying(&mut nodes, node, 0, &[&other, "their data cannot become one"]));
    }
    // Who ends first is not there to be asked any more: the other one waits for it.
    match (said.iter().find_map(|said| said.as_ref().ok()), said.iter().find_map(|said| said.as_ref().err()))
    {
        (Some(said), None) => Ok(said.clone()),
        (Some(said), Some(other)) if other.contains("goes on") && other.contains("waiting for") => {
            Ok(said.clone())
        }
        (_, other) => Err(format!("{other:?}")),
    }
}

fn two_clusters(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = first(options, shards, 0)?;
    for node in 0..2 {
        nodes.set_seeds(node, &[node]);
        nodes.start_again(node)?;
    }
    nodes.kill(1);
    nodes.set_seeds(1, &[0, 1]);
    let skip = size_of_log(&nodes, 1);
    nodes.start_again(1)?;
    let said =
        nodes.wait_for_line(1, skip, &["127.0.7.1", "another cluster of the same name"], SAID_WITHIN)?;
    nodes.wait_for_line(0, 0, &["127.0.7.2", "another cluster of the same name"], SAID_WITHIN)?;
    for node in 0..2 {
        still_up(&nodes, &[node])?;
    }
    nodes.stop()?;
    Ok(said)
}

fn stopped_process(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = with_table(options, shards)?;
    // Its own clients wait for it; those of the others must not notice.
    let settings = Settings { contacts: Some(vec![0, 2]), ..Settings::quorum(16) };
    let loads = Loads::start(&nodes, &["python"], &settings)?;
    std::thread::sleep(Duration::from_secs(2));
    let skips = [0, 2].map(|node| size_of_log(&nodes, node));
    nodes.signal(1, "STOP");
    std::thread::sleep(Duration::from_secs(2));
    nodes.signal(1, "CONT");
    std::thread::sleep(Duration::from_secs(3));
    for (node, skip) in [0, 2].into_iter().zip(skips) {
        let log = nodes.log(node)?;
        if let Some(line) = log.get(skip..).unwrap_or_default().lines().find(|line| line.contains("is down"))
        {
            return Err(format!("2 s of silence: node {} says {line}", node + 1));
        }
    }
    let stopped = Instant::now();
    nodes.signal(1, "STOP");
    for seen_by in [0, 2] {
        nodes.wait_for_state(seen_by, 1, "DN", Duration::from_secs(10))?;
    }
    let said = nodes.wait_for_line(0, skips[0], &["rpc: node", "is down"], Duration::ZERO)?;
    std::thread::sleep(Duration::from_secs(30).saturating_sub(stopped.elapsed()));
    nodes.signal(1, "CONT");
    nodes.wait_until_all_up(UP_WITHIN)?;
    std::thread::sleep(Duration::from_secs(2));
    let summaries = loads.stop()?;
    for summary in &summaries {
        summary.is_sound()?;
        // A driver that waits for a connected node that says nothing is told by nobody; the rule is for what nodes say.
        if let Some((class, _)) = summary.errors.iter().find(|(class, _)| class.contains("Unavailable")) {
            return Err(format!("{class}: {}", summary.told()));
        }
    }
    let checked = nodes.check_acked()?;
    nodes.stop()?;
    let told: Vec<String> = summaries.iter().map(Summary::told).collect();
    Ok(format!("{said}; {checked}; {}", told.join("; ")))
}

fn full_disk(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = first(options, shards, 0)?;
    let disk = SmallDisk::mount(&nodes.folder_of(1).join("commitlog"), 8 * (u64::from(shards) + 1))?;
    let start = nodes.start_of(1);
    start.wrapper = disk.wrapper();
    start.commitlog_sync = "batch";
    // So that the log needs room soon.
    start.yaml.insert_str(0, "commitlog_segment_size: 1MiB\nmemtable_heap_space: 1MiB\n");
    nodes.start_all()?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    nodes.make_table("3")?;
    let loads = Loads::start(&nodes, &["python"], &Settings::quorum(16))?;
    std::thread::sleep(Duration::from_secs(3));
    let skip = size_of_log(&nodes, 1);
    disk.fill(0)?;
    let full = Instant::now();
    let said = nodes.wait_for_line(1, skip, &["ERROR", "space"], Duration::from_secs(60));
    std::thread::sleep(Duration::from_secs(5));
    let summaries = loads.stop()?;
    for summary in &summaries {
        summary.judge(&[full], ERRORS_WITHIN)?;
    }
    if !nodes.is_alive(1) {
        return Err(format!("the node with the full disk ended:\n{}", command::tail(&nodes.log(1)?, 10)));
    }
    let said = said?;
    let checked = nodes.check_acked()?;
    disk.empty()?;
    nodes.kill(1);
    nodes.start_again(1)?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    nodes.check_acked()?;
    nodes.stop()?;
    let told: Vec<String> = summaries.iter().map(Summary::told).collect();
    Ok(format!("{said}; {checked}; {}", told.join("; ")))
}

fn lost_group0(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = with_table(options, shards)?;
    nodes.kill(1);
    let group0 = nodes.folder_of(1).join("data/group0");
    fs::remove_dir_all(&group0).map_err(|error| format!("{}: {error}", group0.display()))?;
    let skip = size_of_log(&nodes, 1);
    nodes.start_again_without_waiting(1)?;
    ends_saying(&mut nodes, 1, skip, &[&group0.display().to_string()])
}

fn random_order(options: &Options, shards: u16) -> Result<String, String> {
    const ROUNDS: usize = 6;
    let mut nodes = with_table(options, shards)?;
    // Every order of three.
    const ORDERS: [[usize; 3]; ROUNDS] = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1], [1, 2, 0], [0, 2, 1]];
    for order in ORDERS {
        let loads = Loads::start(&nodes, &load::ALL[..1], &Settings::quorum(16))?;
        std::thread::sleep(Duration::from_secs(1));
        for node in order {
            nodes.kill(node);
        }
        for summary in loads.stop()? {
            summary.is_sound()?;
        }
        for node in order {
            nodes.start_again_without_waiting(node)?;
            // As by hand: what is started first looks for the others for a while.
            std::thread::sleep(Duration::from_millis(700));
        }
        nodes.wait_until_all_up(UP_WITHIN).map_err(|error| format!("{order:?}: {error}"))?;
        nodes.check_acked().map_err(|error| format!("{order:?}: {error}"))?;
    }
    nodes.stop()?;
    Ok(format!("{ROUNDS} orders"))
}
