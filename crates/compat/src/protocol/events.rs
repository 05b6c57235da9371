//! Events: each change of the schema reaches each connection that asked for it once, and no other.
//!
//! That nothing more comes cannot be waited for. A last change is made whose event everybody waits for: what was told
//! before it stands before it on every connection.

use std::net::SocketAddr;

use super::talk::{Talk, event};
use crate::server::Server;
use crate::wire;

const ALL: &[&str] = &["TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"];

/// Statements in `K`, and what is told of each.
const STEPS: &[(&str, &[&str])] = &[
    (
        "CREATE KEYSPACE K WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        &["CREATED KEYSPACE K"],
    ),
    (
        "CREATE KEYSPACE IF NOT EXISTS K WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        &[],
    ),
    ("ALTER KEYSPACE K WITH durable_writes = false", &["UPDATED KEYSPACE K"]),
    ("CREATE TYPE K.part (x int)", &["CREATED TYPE K.part"]),
    ("CREATE TYPE IF NOT EXISTS K.part (x int)", &[]),
    ("ALTER TYPE K.part ADD y int", &["UPDATED TYPE K.part"]),
    ("CREATE TYPE K.whole (p frozen<part>)", &["CREATED TYPE K.whole"]),
    ("CREATE TABLE K.rows (k int PRIMARY KEY, w frozen<whole>)", &["CREATED TABLE K.rows"]),
    ("CREATE TABLE IF NOT EXISTS K.rows (k int PRIMARY KEY)", &[]),
    // What is made of a type changes with it.
    (
        "ALTER TYPE K.part RENAME y TO z",
        &["UPDATED TYPE K.part", "UPDATED TYPE K.whole", "UPDATED TABLE K.rows"],
    ),
    ("ALTER TABLE K.rows ADD v int", &["UPDATED TABLE K.rows"]),
    ("ALTER TABLE K.rows RENAME k TO key", &["UPDATED TABLE K.rows"]),
    ("ALTER TABLE K.rows WITH comment = 'told'", &["UPDATED TABLE K.rows"]),
    ("ALTER TABLE K.rows DROP v", &["UPDATED TABLE K.rows"]),
    ("INSERT INTO K.rows (key) VALUES (1)", &[]),
    ("TRUNCATE K.rows", &[]),
    ("DROP TABLE IF EXISTS K.nowhere", &[]),
    ("DROP TABLE K.rows", &["DROPPED TABLE K.rows"]),
    ("DROP TYPE K.whole", &["DROPPED TYPE K.whole"]),
    ("DROP TYPE IF EXISTS K.whole", &[]),
    ("CREATE TABLE K.\"Left\" (k int PRIMARY KEY)", &["CREATED TABLE K.Left"]),
    // What a keyspace holds goes with it.
    ("DROP KEYSPACE K", &["DROPPED TABLE K.Left", "DROPPED TYPE K.part", "DROPPED KEYSPACE K"]),
    ("DROP KEYSPACE IF EXISTS K", &[]),
];

/// Each change, once, to each who asked, in order; to nobody else.
pub fn schema(address: SocketAddr, version: u8, shards: usize) -> Result<String, String> {
    let mut asking: Vec<(String, Talk, Vec<String>)> = Vec::new();
    let mut ask = |what: &str, rounds: &[&[&str]]| {
        let mut talk = Talk::open(address, version)?;
        for kinds in rounds {
            ready(&mut talk, kinds)?;
        }
        asking.push((what.into(), talk, Vec::new()));
        Ok::<_, String>(())
    };
    // Connections go to the shards in turn.
    for _ in 0..2 * shards {
        ask("once", &[&["SCHEMA_CHANGE"]])?;
        ask("twice", &[&["SCHEMA_CHANGE", "SCHEMA_CHANGE"], &["SCHEMA_CHANGE"], &[]])?;
        ask("for everything", &[ALL])?;
        ask("in small letters, then for something else", &[&["schema_change"], &["STATUS_CHANGE"]])?;
    }
    let mut silent = Vec::new();
    for _ in 0..2 * shards {
        silent.push(Talk::open(address, version)?);
        let mut others = Talk::open(address, version)?;
        ready(&mut others, &ALL[..2])?;
        silent.push(others);
    }
    let (_, changing, own) = &mut asking[0];
    let keyspace = format!("told_v{version}");
    let mut expected = Vec::new();
    for (text, told) in STEPS {
        own.extend(changing.run(&inside(text, &keyspace))?);
        let mut told: Vec<String> = told.iter().map(|event| inside(event, &keyspace)).collect();
        // In which order the parts of one change are told is nobody's business.
        told.sort();
        expected.push(told);
    }
    let last = format!("last_v{version}");
    let replication = "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    own.extend(changing.run(&format!("CREATE KEYSPACE {last} WITH {replication}"))?);
    own.extend(changing.run(&format!("DROP KEYSPACE {last}"))?);
    expected.push(vec![format!("CREATED KEYSPACE {last}")]);
    expected.push(vec![format!("DROPPED KEYSPACE {last}")]);
    let connections = asking.len();
    for (what, talk, told) in &mut asking {
        while told.last() != expected[expected.len() - 1].last() {
            told.push(talk.event().map_err(|error| format!("{error}; asked {what}, told {told:#?}"))?);
        }
        let told = grouped(told, &expected);
        if told != expected {
            return Err(format!("asked {what}: expected {expected:#?}, told {told:#?}"));
        }
        nothing_waits(talk).map_err(|error| format!("asked {what}: {error}"))?;
    }
    for talk in &mut silent {
        nothing_waits(talk)?;
    }
    Ok(format!("{} events to {connections} connections", expected.iter().flatten().count()))
}

/// A statement or an event of this keyspace.
fn inside(text: &str, keyspace: &str) -> String {
    text.replace(" K.", &format!(" {keyspace}."))
        .replace("KEYSPACE K", &format!("KEYSPACE {keyspace}"))
        .replace("EXISTS K", &format!("EXISTS {keyspace}"))
}

/// What was told, cut as what was expected; each part in order.
fn grouped(told: &[String], expected: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut rest = told.iter();
    let mut out: Vec<Vec<String>> =
        expected.iter().map(|part| rest.by_ref().take(part.len()).cloned().collect()).collect();
    out.iter_mut().for_each(|part| part.sort());
    let more: Vec<String> = rest.cloned().collect();
    if !more.is_empty() {
        out.push(more);
    }
    out
}

/// The next thing that comes is the answer to what is asked now.
fn nothing_waits(talk: &mut Talk) -> Result<(), String> {
    for _ in 0..2 {
        let stream = talk.send(wire::OPTIONS, 0, &[]);
        let (answer, events) = talk.answer(stream)?;
        if answer.response.opcode != wire::SUPPORTED || !events.is_empty() {
            return Err(format!("before {:?} came {events:?}", answer.response.opcode));
        }
    }
    Ok(())
}

fn ready(talk: &mut Talk, kinds: &[&str]) -> Result<(), String> {
    let answer = talk.register(kinds)?.response;
    if answer.opcode == wire::READY { Ok(()) } else { Err(format!("REGISTER {kinds:?}: {answer:?}")) }
}

/// A node that is alone in its cluster tells nothing of nodes, whoever comes and goes, until it stops.
pub fn nodes(address: SocketAddr, version: u8, _: usize) -> Result<String, String> {
    let mut asking = Talk::open(address, version)?;
    ready(&mut asking, &ALL[..1])?;
    ready(&mut asking, &ALL[..2])?;
    for _ in 0..10 {
        drop(Talk::open(address, version)?);
    }
    nothing_waits(&mut asking).map(|()| String::new())
}

/// What can be asked for.
pub fn register(address: SocketAddr, version: u8, _: usize) -> Result<String, String> {
    let mut talk = Talk::open(address, version)?;
    ready(&mut talk, &[])?;
    let mut refused = vec!["SCHEMA_CHANGES", ""];
    if version < 4 {
        refused.push("TRACE_COMPLETE");
    } else {
        ready(&mut talk, &["TRACE_COMPLETE"])?;
    }
    for kind in refused {
        let mut talk = Talk::open(address, version)?;
        let answer = talk.register(&["SCHEMA_CHANGE", kind])?.response;
        match answer.error() {
            Some((0x000A, _)) => {}
            _ => return Err(format!("REGISTER {kind:?}: {answer:?}")),
        }
    }
    Ok(String::new())
}

/// A server that stops in order says so to who asked for it, once, and closes their connections.
pub fn stop(server: &mut Server) -> Result<String, String> {
    let mut asking = Vec::new();
    for version in super::VERSIONS {
        for kinds in [ALL, &ALL[1..2], &ALL[..1], &[]] {
            let mut talk = Talk::open(server.address, version)?;
            ready(&mut talk, kinds)?;
            asking.push((kinds.contains(&ALL[1]), talk));
        }
    }
    server.stop()?;
    let down = format!("STATUS_CHANGE DOWN {}", server.address);
    for (told, talk) in &mut asking {
        let mut events = Vec::new();
        while let Some(envelope) = talk.next()? {
            events.push(event(&envelope)?);
        }
        let expected = if *told { vec![down.clone()] } else { Vec::new() };
        if events != expected {
            return Err(format!("expected {expected:?}, told {events:?}"));
        }
    }
    Ok(format!("{} connections", asking.len()))
}
