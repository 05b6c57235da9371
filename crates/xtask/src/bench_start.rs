//! `cargo x bench start`: from spawn to the first row, and what an idle node costs; redis-server beside it.
//!
//! The clock starts before the process is made and stops when the row of `system.local` has arrived. Empty folder, 100
//! tables, 1,500 tables. Then resident memory, and processor time of ten idle seconds.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bench_node::of_process;
use crate::loader::{self, Connection};
use crate::machine::{self, Running};
use crate::{Outcome, house};

const STARTS: usize = 7;

/// Runs the bench and writes its result.
pub fn start(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let binary = house::binary(rest, house::profile(rest))?;
    let mut text = format!(
        "# bench start\n\n{}\ncommit {}; messina --smp 1 --overprovisioned; median (worst) of {STARTS} starts; \
         stopped in order before each.\n\n| server | spawn to first row | resident | idle CPU |\n|---|---:|---:|---:|\n",
        machine::shape(),
        machine::commit(),
    );
    let folder = machine::fresh("start")?;
    for (name, tables) in [("empty folder", 0), ("100 tables", 100), ("1,500 tables", 1_500)] {
        if smoke && tables > 100 {
            break;
        }
        let row = measure(&binary, &folder, tables, smoke)?;
        writeln!(text, "| messina, {name} | {row} |").ok();
    }
    match redis(&folder) {
        Ok(row) => writeln!(text, "| redis-server | {row} |").ok(),
        Err(why) => writeln!(text, "\nredis-server was not measured: {why}.").ok(),
    };
    println!("{text}");
    if smoke { Ok("bench result: ok. start works".into()) } else { machine::record("start", &text) }
}

fn measure(binary: &Path, folder: &Path, tables: usize, smoke: bool) -> Result<String, String> {
    let mut node = spawn(binary, folder)?;
    first_row(&mut node)?;
    create(&node, tables)?;
    node.stop()?;
    let mut times = Vec::new();
    for turn in 0..STARTS {
        if tables == 0 {
            let _ = fs::remove_dir_all(folder.join("data"));
        }
        let mut node = spawn(binary, folder)?;
        times.push(first_row(&mut node)?);
        if turn + 1 == STARTS {
            let row = costs(&mut times, node.child.id(), smoke);
            node.stop()?;
            return Ok(row);
        }
        node.stop()?;
    }
    Err("no starts were made".into())
}

fn spawn(binary: &Path, folder: &Path) -> Result<Running, String> {
    let port = machine::free_port()?;
    let arguments = machine::node_arguments(folder, port, "", &["--smp", "1", "--overprovisioned"])?;
    Running::start(None, binary, &arguments, port, &folder.join("node.log"))
}

/// Time from spawn to the row.
fn first_row(node: &mut Running) -> Result<Duration, String> {
    let request = loader::query("SELECT * FROM system.local WHERE key = 'local'");
    loop {
        // A connection is refused until the node listens; then the answer is waited for.
        if let Ok(mut connection) = Connection::open(node.address) {
            let body = connection.ask(&request)?;
            if body.get(..4) != Some(&[0, 0, 0, 2]) {
                return Err("the first answer holds no rows".into());
            }
            return Ok(node.spawned.elapsed());
        }
        node.still_runs()?;
        if node.spawned.elapsed() > Duration::from_secs(60) {
            return Err("the node did not answer".into());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn create(node: &Running, tables: usize) -> Result<(), String> {
    let mut connection = Connection::open(node.address)?;
    connection.ask(&loader::query(
        "CREATE KEYSPACE IF NOT EXISTS start WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    ))?;
    for table in 0..tables {
        let text =
            format!("CREATE TABLE IF NOT EXISTS start.t{table} (k int, c int, v text, PRIMARY KEY (k, c))");
        connection.ask(&loader::query(&text))?;
    }
    Ok(())
}

/// One row of the table: times, resident memory, processor time while idle.
fn costs(times: &mut [Duration], process: u32, smoke: bool) -> String {
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let idle = Duration::from_secs(if smoke { 1 } else { 10 });
    std::thread::sleep(Duration::from_secs(1));
    let before = loader::cpu_ns(process);
    let since = Instant::now();
    std::thread::sleep(idle);
    let share = (loader::cpu_ns(process) - before) as f64 / since.elapsed().as_nanos() as f64 * 100.0;
    format!(
        "{:.1} ({:.1}) ms | {:.1} MiB | {share:.2} %",
        ms(times[times.len() / 2]),
        ms(times[times.len() - 1]),
        of_process(process, "status", "VmRSS:").unwrap_or(0) as f64 / 1024.0
    )
}

/// The yardstick: an empty redis-server from spawn to its first PONG.
fn redis(folder: &Path) -> Result<String, String> {
    let found = Command::new("redis-server").arg("--version").output();
    if found.is_err() {
        return Err("it is not installed".into());
    }
    let mut times = Vec::new();
    for turn in 0..STARTS {
        let port = machine::free_port()?;
        let words = format!("--port {port} --bind 127.0.0.1 --appendonly no --dir {}", folder.display());
        let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let mut server =
            Running::start(None, Path::new("redis-server"), &arguments, port, &folder.join("redis.log"))?;
        times.push(pong(&server)?);
        if turn + 1 == STARTS {
            return Ok(costs(&mut times, server.child.id(), false));
        }
        server.stop()?;
    }
    Err("no starts were made".into())
}

fn pong(server: &Running) -> Result<Duration, String> {
    while server.spawned.elapsed() < Duration::from_secs(10) {
        if let Ok(mut stream) = TcpStream::connect(server.address) {
            let mut answer = [0; 7];
            if stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut answer).is_ok() {
                return Ok(server.spawned.elapsed());
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Err("it did not answer".into())
}
