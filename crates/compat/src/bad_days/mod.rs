//! Bad days, under load: thousands of connections that say nothing, clients that hardly read, statements made to break a
//! parser, no descriptors left, signals at the worst moment, disks that run full, folders that cannot be written.
//!
//! The node serves its other clients meanwhile, or refuses with the protocol's error; it never dies of it; afterwards it
//! serves again, and every acknowledged row is there. What is about connections runs over TLS, too.

pub mod limits;
mod load;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use limits::SmallDisk;
use load::Load;

use crate::bad_input::{Raw, Reaction, still_serves};
use crate::certificates::Certificates;
use crate::messina::Start;
use crate::server::Server;
use crate::suite::{Options, Report};
use crate::{command, stream, wire};

/// The word by which this program is called again to hold many connections.
pub const HALF_OPEN: &str = "--half-open";
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The slowest answer that still counts as being served, on a machine with two busy processors.
const SLOW: Duration = Duration::from_secs(10);

type OfConnections = fn(&Options, SocketAddr) -> Result<String, String>;
type OfProcesses = fn(&Options, Start) -> Result<String, String>;

const CONNECTIONS: &[(&str, OfConnections)] = &[
    ("half_open_connections", half_open_connections),
    ("slow_readers", slow_readers),
    ("nested_bombs", nested_bombs),
    ("large_statements", large_statements),
    ("many_bound_values", many_bound_values),
];

const PROCESSES: &[(&str, OfProcesses)] = &[
    ("descriptors_exhausted", descriptors_exhausted),
    ("sigterm_during_replay", sigterm_during_replay),
    ("sigterm_under_load", sigterm_under_load),
    ("sigterm_under_load_tls", sigterm_under_load_tls),
    ("disk_full_during_flush", disk_full_during_flush),
    ("commitlog_disk_full", commitlog_disk_full),
    ("data_folder_read_only", data_folder_read_only),
];

/// Runs every case.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    if options.against_cassandra {
        return;
    }
    let chosen = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    for tls in [false, true] {
        if !CONNECTIONS.iter().any(|(name, _)| chosen(name)) {
            break;
        }
        connections(options, shards, tls, report);
    }
    for (name, case) in PROCESSES.iter().filter(|(name, _)| chosen(name)) {
        report.test(&format!("bad_days::{name} --smp {shards}"), || {
            let folder = options.folder(&format!("bad-days-{name}"))?;
            let log = folder.join("node.log");
            let note = case(options, options.start(folder, shards))?;
            no_panic(&log)?;
            Ok(note)
        });
    }
}

fn connections(options: &Options, shards: u16, tls: bool, report: &mut Report) {
    let how = if tls { " tls" } else { "" };
    let mut running = None;
    report.test(&format!("bad_days::start{how} --smp {shards}"), || {
        let mut start = options.start(options.folder("bad-days")?, shards);
        start.wrapper = limits::descriptors("$(ulimit -H -n)");
        // A slow machine may work on a statement of 16 MiB for longer than requests may wait.
        start.yaml = "write_request_timeout: 20s\nread_request_timeout: 20s\n".into();
        running = Some(if tls { start_encrypted(options, &mut start)? } else { start.run()? });
        Ok(String::new())
    });
    let Some(mut server) = running else { return };
    for (name, case) in CONNECTIONS {
        report.test(&format!("bad_days::{name}{how} --smp {shards}"), || {
            let load = Load::start(server.address, 0)?;
            let ended = case(options, server.address);
            let seen = load.finish();
            let note = ended?;
            let served = seen.was_served(SLOW)?;
            still_serves(server.address)?;
            Ok(format!("{note}; {served}"))
        });
    }
    report.test(&format!("bad_days::stop{how} --smp {shards}"), || {
        no_panic(&server.log)?;
        server.stop().map(|()| String::new())
    });
}

fn start_encrypted(options: &Options, start: &mut Start) -> Result<Server, String> {
    let certificates = Certificates::make(&options.folder("bad-days-certificates")?)?;
    start.yaml += &certificates.yaml(false);
    let server = start.run()?;
    stream::encrypt(server.address, &certificates.authority)?;
    Ok(server)
}

fn no_panic(log: &std::path::Path) -> Result<(), String> {
    match command::read(log)?.lines().find(|line| line.contains("panicked")) {
        Some(line) => Err(format!("the log of the node says {line}")),
        None => Ok(()),
    }
}

/// 10,000 connections that were opened and say nothing, or half of something.
fn half_open_connections(options: &Options, address: SocketAddr) -> Result<String, String> {
    let count = if options.quick { 1_000 } else { 10_000 };
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    // Another process, so that the descriptors of both ends do not share one limit.
    let words = limits::descriptors("$(ulimit -H -n)");
    let mut client = Command::new(&words[0])
        .args(&words[1..])
        .arg(this)
        .args([HALF_OPEN, &address.to_string(), &count.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("half-open client: {error}"))?;
    let mut said = [0; 5];
    let output = client.stdout.as_mut().expect("standard output was piped");
    let opened = output.read_exact(&mut said).map_err(|error| format!("half-open client: {error}"));
    let served = opened.and_then(|()| {
        for _ in 0..20 {
            still_serves(address)?;
        }
        Ok(())
    });
    drop(client.stdin.take());
    let ended = client.wait();
    served?;
    match (ended, &said) {
        (Ok(status), b"open\n") if status.success() => Ok(format!("{count} connections")),
        other => Err(format!("half-open client: {other:?}")),
    }
}

/// What the called-again program does: opens connections, says `open`, and holds them until its input ends.
pub fn half_open_client(words: &[String]) -> ExitCode {
    let (Some(address), Some(count)) = (
        words.first().and_then(|word| word.parse::<SocketAddr>().ok()),
        words.get(1).and_then(|word| word.parse::<usize>().ok()),
    ) else {
        return ExitCode::FAILURE;
    };
    let startup = wire::request(4, wire::STARTUP, 0, &wire::startup_body());
    let mut held = Vec::new();
    for index in 0..count {
        let connected = TcpStream::connect_timeout(&address, PATIENCE);
        let Ok(mut socket) = connected.inspect_err(|error| eprintln!("connection {index}: {error}")) else {
            return ExitCode::FAILURE;
        };
        // Nothing, one byte, or all but the last byte of a request.
        let _ = socket.write_all(&startup[..[0, 1, startup.len() - 1][index % 3]]);
        held.push(socket);
    }
    println!("open");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    ExitCode::SUCCESS
}

/// Clients that ask for much and read a few bytes now and then.
fn slow_readers(options: &Options, address: SocketAddr) -> Result<String, String> {
    let count = if options.quick { 10 } else { 100 };
    let frame =
        wire::request(4, wire::QUERY, 1, &wire::query_body(4, b"SELECT * FROM system_schema.columns"));
    let mut slow = Vec::new();
    for _ in 0..count {
        let mut raw = Raw::started(address, 4)?;
        let short = Some(Duration::from_millis(20));
        raw.stream.socket().set_write_timeout(short).map_err(|error| error.to_string())?;
        raw.stream.socket().set_read_timeout(short).map_err(|error| error.to_string())?;
        for _ in 0..200 {
            if raw.stream.write_all(&frame).is_err() {
                break;
            }
        }
        slow.push(raw);
    }
    let end = Instant::now() + Duration::from_secs(if options.quick { 2 } else { 5 });
    let mut bytes = 0;
    while Instant::now() < end {
        for raw in &mut slow {
            bytes += raw.stream.read(&mut [0; 16]).unwrap_or(0);
        }
        still_serves(address)?;
    }
    Ok(format!("{count} clients read {bytes} bytes"))
}

/// Literals, types, calls and parentheses nested as deep as a statement holds.
fn nested_bombs(_: &Options, address: SocketAddr) -> Result<String, String> {
    const DEPTH: usize = 100_000;
    let nested = |open: &str, middle: &str, close: &str| open.repeat(DEPTH) + middle + &close.repeat(DEPTH);
    let statements = [
        format!("INSERT INTO load.rows (k, v) VALUES (1, {})", nested("[", "1", "]")),
        format!("INSERT INTO load.rows (k, v) VALUES (1, {})", nested("{", "1", "}")),
        format!("INSERT INTO load.rows (k, v) VALUES (1, {})", nested("{1:", "1", "}")),
        format!("INSERT INTO load.rows (k, v) VALUES (1, {})", nested("(", "1", ")")),
        format!("INSERT INTO load.rows (k, v) VALUES (1, {})", nested("(int)", "1", "")),
        format!("INSERT INTO load.rows (k, v) VALUES ({}, 'v')", nested("-", "1", "")),
        format!("SELECT {} FROM load.rows", nested("token(", "k", ")")),
        format!("SELECT {} FROM load.rows", nested("cast(", "k", " AS text)")),
        format!("SELECT v{} FROM load.rows", ".a".repeat(DEPTH)),
        format!("SELECT v{} FROM load.rows", "[0]".repeat(DEPTH)),
        format!("SELECT {} FROM load.rows", nested("k + (", "1", ")")),
        format!("CREATE TABLE load.bomb (k int PRIMARY KEY, v {})", nested("frozen<list<", "int", ">>")),
        format!("SELECT v FROM load.rows WHERE k = 1 AND {}", nested("(", "k = 1", ")")),
        nested("BEGIN BATCH ", "", " APPLY BATCH"),
        "(".repeat(1 << 20),
        "'".repeat((1 << 20) + 1),
        "/*".repeat(1 << 20),
    ];
    for (index, statement) in statements.iter().enumerate() {
        let mut raw = Raw::started(address, 4)?;
        match raw.query(statement)? {
            Reaction::Error(0x2000 | 0x2200, _) => {}
            Reaction::Error(code, text) => return Err(format!("bomb {index}: {code:#x} {text}")),
            other => return Err(format!("bomb {index} was answered with {other:?}")),
        }
        // The same connection goes on.
        match raw.query("SELECT key FROM system.local")? {
            Reaction::Answer(_) => {}
            other => return Err(format!("after bomb {index}: {other:?}")),
        }
        let mut body = (statement.len() as u32).to_be_bytes().to_vec();
        body.extend_from_slice(statement.as_bytes());
        raw.request(wire::PREPARE, 3, &body);
        match raw.answer()? {
            Reaction::Error(0x2000 | 0x2200, _) => {}
            other => return Err(format!("bomb {index}, prepared: {other:?}")),
        }
    }
    Ok(format!("{} statements", statements.len()))
}

/// Statements up to the largest frame of 16 MiB, and beyond.
fn large_statements(_: &Options, address: SocketAddr) -> Result<String, String> {
    let mut raw = Raw::started(address, 4)?;
    let length = (8 << 20) + 1;
    let text = format!("INSERT INTO load.rows (k, v) VALUES (-1, '{}')", "x".repeat(length));
    match raw.query(&text)? {
        Reaction::Answer(_) => match raw.query("SELECT v FROM load.rows WHERE k = -1")? {
            Reaction::Answer(answer) if answer.body.len() > length => {}
            other => return Err(format!("8 MiB were not read back: {:.200}", format!("{other:?}"))),
        },
        // As Cassandra refuses what is beyond half a segment of its log.
        Reaction::Error(0x2200 | 0x1500 | 0x0000, why) if why.to_lowercase().contains("large") => {}
        other => return Err(format!("8 MiB were answered with {:.200}", format!("{other:?}"))),
    }
    for length in [(16 << 20) - 100, 16 << 20, (16 << 20) + 1, 32 << 20] {
        let mut raw = Raw::started(address, 4)?;
        match raw.query(&format!("SELECT v FROM load.rows WHERE v = '{}'", "x".repeat(length)))? {
            Reaction::Error(..) | Reaction::Closed => {}
            other => return Err(format!("{length} bytes were answered with {:.200}", format!("{other:?}"))),
        }
        still_serves(address)?;
    }
    Ok(String::new())
}

/// As many values as the protocol can carry.
fn many_bound_values(_: &Options, address: SocketAddr) -> Result<String, String> {
    const COUNT: usize = 65_535;
    let mut raw = Raw::started(address, 4)?;
    let text = "CREATE TABLE IF NOT EXISTS load.lists (k int PRIMARY KEY, l frozen<list<int>>)";
    if let Reaction::Error(code, error) = raw.query(text)? {
        return Err(format!("{code:#x} {error}"));
    }
    let markers = vec!["?"; COUNT].join(",");
    let bind = |text: &str, count: usize, value: &[u8]| {
        let mut body = (text.len() as u32).to_be_bytes().to_vec();
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(&[0, 1, 0x01]);
        body.extend_from_slice(&(count as u16).to_be_bytes());
        for _ in 0..count {
            body.extend_from_slice(&(value.len() as u32).to_be_bytes());
            body.extend_from_slice(value);
        }
        body
    };
    let seven = 7i32.to_be_bytes();
    let insert = format!("INSERT INTO load.lists (k, l) VALUES (1, [{markers}])");
    raw.request(wire::QUERY, 1, &bind(&insert, COUNT, &seven));
    match raw.answer()? {
        Reaction::Answer(_) => match raw.query("SELECT l FROM load.lists WHERE k = 1")? {
            Reaction::Answer(answer) if answer.body.len() > COUNT * 8 => {}
            other => return Err(format!("the list was read as {:.200}", format!("{other:?}"))),
        },
        other => return Err(format!("{COUNT} values: {:.200}", format!("{other:?}"))),
    }
    let select = format!("SELECT k FROM load.rows WHERE k IN ({markers})");
    raw.request(wire::QUERY, 1, &bind(&select, COUNT, &7i64.to_be_bytes()));
    match raw.answer()? {
        Reaction::Answer(_) | Reaction::Error(0x2200, _) => {}
        other => return Err(format!("IN of {COUNT} values: {:.200}", format!("{other:?}"))),
    }
    for (text, count) in [
        ("SELECT v FROM load.rows WHERE k = ?".to_owned(), COUNT),
        (format!("INSERT INTO load.lists (k, l) VALUES (1, [{markers}, ?])"), COUNT),
        (format!("INSERT INTO load.lists (k, l) VALUES (1, [{markers}])"), 1),
    ] {
        raw.request(wire::QUERY, 1, &bind(&text, count, &7i64.to_be_bytes()));
        match raw.answer()? {
            Reaction::Error(0x2200 | 0x2000 | 0x000A, _) => {}
            other => return Err(format!("{:.60}: {:.200}", text, format!("{other:?}"))),
        }
    }
    Ok(format!("{COUNT} values"))
}

/// All descriptors are taken: connected clients are served, new ones are when there is room again.
fn descriptors_exhausted(_: &Options, mut start: Start) -> Result<String, String> {
    let count = 200 + 60 * usize::from(start.shards);
    // New segments of the log and new sstables want descriptors meanwhile.
    start.yaml = "commitlog_segment_size: 1MiB\nmemtable_heap_space: 1MiB\n".into();
    start.wrapper = limits::descriptors(&count.to_string());
    let mut server = start.run()?;
    let load = Load::start(server.address, 0)?;
    load.goes_on(50, PATIENCE)?;
    let mut held = Vec::new();
    for _ in 0..count + 100 {
        held.extend(TcpStream::connect_timeout(&server.address, Duration::from_secs(5)).ok());
    }
    load.goes_on(2_000, PATIENCE)?;
    let opened = held.len();
    drop(held);
    let end = Instant::now() + PATIENCE;
    while let Err(why) = still_serves(server.address) {
        if Instant::now() > end {
            return Err(format!("not served again: {why}"));
        }
    }
    let seen = load.finish();
    let note = seen.was_served(SLOW)?;
    let lines = command::read(&server.log)?.lines().count();
    if lines > 500 {
        return Err(format!("{lines} lines of log"));
    }
    server.stop()?;
    Ok(format!("{opened} connections, limit {count}; {note}"))
}

/// SIGTERM while the log is replayed ends the start in order and loses nothing.
fn sigterm_during_replay(options: &Options, mut start: Start) -> Result<String, String> {
    start.commitlog_sync = "batch";
    let mut server = start.run()?;
    let load = Load::start(server.address, 0)?;
    load.goes_on(if options.quick { 1_000 } else { 10_000 }, PATIENCE * 3)?;
    server.kill();
    let keys = load.finish().acknowledged;
    let mut ended = Vec::new();
    for delay_ms in [0, 5, 10, 20, 40, 80, 160] {
        let mut server = start.spawn()?;
        std::thread::sleep(Duration::from_millis(delay_ms));
        command::signal(server.child.id(), "TERM");
        let since = Instant::now();
        match command::wait(&mut server.child, PATIENCE) {
            Some(_) => ended.push(format!("{delay_ms}+{}", since.elapsed().as_millis())),
            None => {
                return Err(format!("SIGTERM after {delay_ms} ms did not end it:\n{}", server.last_words()));
            }
        }
    }
    let mut server = start.run()?;
    let note = load::all_there(server.address, &keys)?;
    server.stop()?;
    Ok(format!("{note}; ended after {} ms", ended.join(", ")))
}

fn sigterm_under_load(_: &Options, start: Start) -> Result<String, String> {
    let server = start.run()?;
    drained(&start, server)
}

fn sigterm_under_load_tls(options: &Options, mut start: Start) -> Result<String, String> {
    let server = start_encrypted(options, &mut start)?;
    drained(&start, server)
}

/// SIGTERM under load: the node ends by itself, clients see orderly closes, every acknowledged row is there.
fn drained(start: &Start, mut server: Server) -> Result<String, String> {
    let load = Load::start(server.address, 0)?;
    load.goes_on(300, PATIENCE)?;
    let since = Instant::now();
    server.stop()?;
    let took = since.elapsed();
    let seen = load.finish();
    if let Some(cut) = seen.ended.iter().find(|how| !how.contains("in order")) {
        return Err(format!("a connection ended so: {cut}"));
    }
    if let Some(refused) = seen.refused.iter().find(|text| !text.starts_with("0x1001")) {
        return Err(format!("a request was answered with {refused}"));
    }
    let mut again = start.clone();
    again.port = server.address.port();
    let mut server = again.run()?;
    let note = load::all_there(server.address, &seen.acknowledged)?;
    server.stop()?;
    Ok(format!("{note}; drained in {} ms", took.as_millis()))
}

/// The data disk is full when a memtable must be written: nothing acknowledged is lost, and room ends the trouble.
fn disk_full_during_flush(options: &Options, mut start: Start) -> Result<String, String> {
    let disk = SmallDisk::mount(&start.folder.join("data"), 64)?;
    start.wrapper = disk.wrapper();
    start.commitlog_sync = "batch";
    start.yaml = "memtable_heap_space: 4MiB\n".into();
    let mut server = start.run()?;
    load::table(server.address)?;
    disk.fill(256 << 10)?;
    let load = Load::start(server.address, 0)?;
    // Far more than the memtables hold; writes may be refused meanwhile, reads and the node may not end.
    said(&mut server, &["No space", "no space"])?;
    std::thread::sleep(Duration::from_secs(if options.quick { 1 } else { 5 }));
    if !server.alive() {
        return Err(format!("the node died:\n{}", server.last_words()));
    }
    reads(server.address)?;
    disk.empty()?;
    let after = Load::start(server.address, 1 << 32)?;
    let goes_on = after.goes_on(200, PATIENCE);
    let mut keys = load.finish().acknowledged;
    keys.extend(after.finish().acknowledged);
    goes_on.map_err(|why| format!("with room again: {why}\n{}", server.last_words()))?;
    load::all_there(server.address, &keys)?;
    server.stop()?;
    let mut server = start.run()?;
    let note = load::all_there(server.address, &keys)?;
    server.stop()?;
    Ok(note)
}

/// The log's own disk is full: writes are refused, reads are served, nothing acknowledged is lost.
fn commitlog_disk_full(options: &Options, mut start: Start) -> Result<String, String> {
    // Two segments of 32 MiB for every shard, and two of an older log while it is replayed.
    let disk = SmallDisk::mount(&start.folder.join("log-disk"), 64 * (u64::from(start.shards) + 1))?;
    start.wrapper = disk.wrapper();
    start.commitlog = Some(disk.folder.join("commitlog"));
    start.commitlog_sync = "batch";
    let mut server = start.run()?;
    load::table(server.address)?;
    let load = Load::start(server.address, 0)?;
    load.goes_on(300, PATIENCE)?;
    disk.fill(0)?;
    said(&mut server, &["ERROR"])?;
    std::thread::sleep(Duration::from_secs(if options.quick { 1 } else { 5 }));
    let alive = server.alive();
    if alive {
        reads(server.address)?;
    }
    let seen = load.finish();
    if seen.refused.is_empty() && alive {
        return Err(format!("{} writes and none refused", seen.acknowledged.len()));
    }
    if alive {
        server.kill();
    }
    disk.empty()?;
    let mut server = start.run()?;
    let note = load::all_there(server.address, &seen.acknowledged)?;
    let load = Load::start(server.address, 1 << 32)?;
    load.goes_on(100, PATIENCE)?;
    load.finish().was_served(SLOW)?;
    server.stop()?;
    let refused = seen.refused.first().cloned().unwrap_or_else(|| "nothing".into());
    Ok(format!("{note}; refused: {refused:.80}; alive: {alive}"))
}

/// The data folder cannot be written: what the log holds is acknowledged, nothing is lost.
fn data_folder_read_only(options: &Options, mut start: Start) -> Result<String, String> {
    start.wrapper = limits::unprivileged();
    start.commitlog_sync = "batch";
    // As an operator who wants reads to go on; the standard, stop, closes the port for clients.
    start.yaml = "memtable_heap_space: 4MiB\ndisk_failure_policy: ignore\n".into();
    let mut server = start.run()?;
    load::table(server.address)?;
    let data = start.folder.join("data");
    limits::permit(&data, false)?;
    let load = Load::start(server.address, 0)?;
    let denied = said(&mut server, &["denied"]);
    std::thread::sleep(Duration::from_secs(if options.quick { 1 } else { 5 }));
    let result = if server.alive() {
        reads(server.address)
    } else {
        Err(format!("the node died:\n{}", server.last_words()))
    };
    let seen = load.finish();
    limits::permit(&data, true)?;
    denied.and(result)?;
    let after = Load::start(server.address, 1 << 32)?;
    let goes_on = after.goes_on(200, PATIENCE);
    let mut keys = seen.acknowledged;
    keys.extend(after.finish().acknowledged);
    goes_on.map_err(|why| format!("writable again: {why}\n{}", server.last_words()))?;
    server.stop()?;
    let mut server = start.run()?;
    let note = load::all_there(server.address, &keys)?;
    server.stop()?;
    Ok(note)
}

/// Waits until the node's log holds one of these words.
fn said(server: &mut Server, words: &[&str]) -> Result<(), String> {
    let end = Instant::now() + PATIENCE * 2;
    loop {
        let log = command::read(&server.log)?;
        if words.iter().any(|word| log.contains(word)) {
            return Ok(());
        }
        if Instant::now() > end || !server.alive() {
            return Err(format!("the log never said {words:?}:\n{}", server.last_words()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A read of rows, whatever happens to writes.
fn reads(address: SocketAddr) -> Result<(), String> {
    match Raw::started(address, 4)?.query("SELECT k FROM load.rows LIMIT 10")? {
        Reaction::Answer(_) => Ok(()),
        other => Err(format!("a read was answered with {other:?}")),
    }
}
