//! `compat peer`: one Apache Cassandra to measure against, for benches; runs until standard input ends.
//!
//! `compat peer stock|latest FOLDER HEAP CPUS` prints `ready ADDRESS PID` when it answers; with `cluster` as the profile there are three
//! stock nodes, whose addresses and processes are listed with commas. For each line `flush` it has all
//! tables flushed and prints `flushed`; for `import KEYSPACE TABLE FOLDER` it takes the sstables of a folder over and prints
//! `imported`.

use std::path::Path;
use std::process::ExitCode;

use crate::cassandra::{self, Measured, Profile};
use crate::nodetool;
use crate::server::Server;

/// The first argument that asks for one.
pub const WORD: &str = "peer";

/// Starts it, says so, waits and stops it.
pub fn run(words: &[String]) -> ExitCode {
    match serve(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(words: &[String]) -> Result<(), String> {
    let [profile, folder, heap, cpus] = words else {
        return Err("peer stock|latest FOLDER HEAP CPUS".into());
    };
    if profile == "cluster" {
        return serve_cluster(Path::new(folder), heap, cpus);
    }
    let profile = match profile.as_str() {
        "stock" => Profile::Stock,
        "latest" => Profile::Latest,
        other => return Err(format!("{other} is neither stock, latest nor cluster")),
    };
    let measured = Measured { profile, heap: heap.clone(), cpus: cpus.clone() };
    let mut server = cassandra::start_measured(Path::new(folder), &measured)?;
    println!("ready {} {}", server.address, server.child.id());
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| format!("standard input: {error}"))?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["flush"] => {
                nodetool(&server, &words)?;
                println!("flushed");
            }
            ["import", _, _, _] => {
                nodetool(&server, &words)?;
                println!("imported");
            }
            _ => return Err(format!("unknown wish {line}")),
        }
    }
    server.stop()
}

fn serve_cluster(folder: &Path, heap: &str, cpus: &str) -> Result<(), String> {
    let measured = Measured { profile: Profile::Stock, heap: heap.to_owned(), cpus: cpus.to_owned() };
    let mut servers = cassandra::start_cluster(folder, 3, &measured)?;
    let listed = |shown: fn(&Server) -> String| servers.iter().map(shown).collect::<Vec<_>>().join(",");
    println!(
        "ready {} {}",
        listed(|server| server.address.to_string()),
        listed(|server| server.child.id().to_string())
    );
    if let Some(line) = std::io::stdin().lines().next() {
        return Err(format!("unknown wish {}", line.map_err(|error| format!("standard input: {error}"))?));
    }
    servers.iter_mut().try_for_each(Server::stop)
}

fn nodetool(server: &Server, words: &[&str]) -> Result<(), String> {
    let mut all = vec!["-p".to_owned(), nodetool::jmx_port(server)?.to_string()];
    all.extend(words.iter().map(|word| (*word).to_owned()));
    let folder = server.folder.join("tool");
    let mut command = cassandra::tool(&folder, "org.apache.cassandra.tools.NodeTool", &all)?;
    let output = command.output().map_err(|error| format!("nodetool: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("nodetool {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
}
