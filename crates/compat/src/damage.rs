//! Files that were damaged or lost between two starts: the node names them, with the place, and does not go on as if
//! nothing had been there. A terminal that is closed is no damage.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::bad_input::{Raw, Reaction};
use crate::command;
use crate::messina::Start;
use crate::server::Server;
use crate::suite::{Options, Report};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const ROWS: usize = 200;

/// Runs every case on a folder of its own.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    if options.against_cassandra {
        return;
    }
    for (name, case) in [
        ("sstable", sstable as fn(&Start) -> Result<String, String>),
        ("commitlog", commitlog),
        ("lost_schema", lost_schema),
        ("hang_up", hang_up),
    ] {
        report.test(&format!("damage::{name} --smp {shards}"), || {
            let mut start = options.start(options.folder("damage")?, shards);
            start.commitlog_sync = "batch";
            case(&start)
        });
    }
}

/// A flipped bit in a data file: reads of it fail, naming file and offset to the client and in the log.
fn sstable(start: &Start) -> Result<String, String> {
    let mut server = filled(start)?;
    server.stop()?;
    let data = files(&start.folder.join("data/damage"), "-Data.db")?;
    flip(data.first().ok_or("an orderly stop left no sstable")?, 2)?;
    let mut server = start.run()?;
    let text = match query(server.address, "SELECT * FROM damage.t")? {
        Reaction::Error(0x1300, text) => text,
        other => return Err(format!("a read of a damaged sstable gave {other:?}")),
    };
    let told = logged_error(&server, "-Data.db")?;
    for text in [&text[..], &told] {
        if !text.contains("-Data.db") || !text.contains("offset") {
            return Err(format!("file and offset are not named: {text}"));
        }
    }
    server.stop().map(|()| text)
}

/// The error in the log that holds a word; empty when none comes. The node writes its log behind its answers.
fn logged_error(server: &Server, word: &str) -> Result<String, String> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let log = command::read(&server.log)?;
        let told = log.lines().find(|line| line.contains("ERROR") && line.contains(word));
        if told.is_some() || Instant::now() > until {
            return Ok(told.unwrap_or_default().to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Damage in the middle of a log whose every write was synced: the start is refused, naming file and offset.
fn commitlog(start: &Start) -> Result<String, String> {
    let mut server = filled(start)?;
    server.kill();
    let logs = files(&start.folder.join("commitlog"), ".log")?;
    let used = |path: &PathBuf| fs::read(path).map_or(0, |b| b.iter().filter(|byte| **byte != 0).count());
    let log = logs.iter().max_by_key(|path| used(path)).ok_or("a killed node left no log")?;
    let whole = fs::read(log).map_err(|error| error.to_string())?;
    flip(log, 2)?;
    refused(start, &[&log.display().to_string(), "offset"])?;
    fs::write(log, whole).map_err(|error| error.to_string())?;
    let mut server = start.run()?;
    all_there(server.address)?;
    server.stop().map(|()| String::new())
}

/// Without its schema every table would be taken for a dropped one, so the node does not start.
fn lost_schema(start: &Start) -> Result<String, String> {
    let mut server = filled(start)?;
    server.stop()?;
    let schema = start.folder.join("data/schema.log");
    let aside = start.folder.join("schema.log.aside");
    fs::rename(&schema, &aside).map_err(|error| error.to_string())?;
    refused(start, &["schema.log", "lost"])?;
    fs::write(&schema, "").map_err(|error| error.to_string())?;
    refused(start, &["schema.log", "lost"])?;
    fs::rename(&aside, &schema).map_err(|error| error.to_string())?;
    let mut server = start.run()?;
    all_there(server.address)?;
    server.stop().map(|()| String::new())
}

/// A closed terminal stops the node in order, however often it says so.
fn hang_up(start: &Start) -> Result<String, String> {
    let mut server = filled(start)?;
    for _ in 0..2 {
        command::signal(server.child.id(), "HUP");
    }
    match command::wait(&mut server.child, PATIENCE) {
        Some(true) => {}
        other => return Err(format!("after SIGHUP: {other:?}\n{}", server.last_words())),
    }
    let mut server = start.run()?;
    all_there(server.address)?;
    server.stop().map(|()| String::new())
}

fn filled(start: &Start) -> Result<Server, String> {
    let server = start.run()?;
    let mut raw = Raw::started(server.address, 4)?;
    let mut texts = vec![
        "CREATE KEYSPACE damage WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            .into(),
        "CREATE TABLE damage.t (k int PRIMARY KEY, v text)".into(),
    ];
    // Texts that compression does not shrink to nothing, so that the middle of a file is in the middle of rows.
    let value =
        |k: usize| (0..40).map(|i| format!("{:04x}", (k * 7919 + i * 104_729) % 65_536)).collect::<String>();
    texts.extend((0..ROWS).map(|k| format!("INSERT INTO damage.t (k, v) VALUES ({k}, '{}')", value(k))));
    for text in texts {
        match raw.query(&text)? {
            Reaction::Answer(_) => {}
            other => return Err(format!("{text}: {other:?}")),
        }
    }
    Ok(server)
}

fn query(address: SocketAddr, text: &str) -> Result<Reaction, String> {
    Raw::started(address, 4)?.query(text)
}

fn all_there(address: SocketAddr) -> Result<(), String> {
    match query(address, "SELECT count(*) FROM damage.t")? {
        Reaction::Answer(found) if found.body.ends_with(&(ROWS as u64).to_be_bytes()) => Ok(()),
        other => Err(format!("of {ROWS} rows there are {other:?}")),
    }
}

/// The start must end with a failure whose reason holds these words.
fn refused(start: &Start, words: &[&str]) -> Result<(), String> {
    let mut server = start.spawn()?;
    match command::wait(&mut server.child, PATIENCE) {
        Some(false) => {}
        other => return Err(format!("the start ended with {other:?}:\n{}", server.last_words())),
    }
    let said = command::tail(&server.last_words(), 3);
    match words.iter().find(|word| !said.contains(**word)) {
        Some(word) => Err(format!("the reason does not say {word}: {said}")),
        None => Ok(()),
    }
}

/// Files below a folder whose names end so, in order.
fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            found.extend(files(&path, end)?);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Changes several bits of one byte, at one part of what is not zero at the end of the file.
fn flip(path: &Path, part: usize) -> Result<(), String> {
    let mut bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let used = bytes.iter().rposition(|byte| *byte != 0).ok_or("the file holds nothing")? + 1;
    bytes[used / part] ^= 0x55;
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}
