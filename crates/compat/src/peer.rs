//! `compat peer`: one Apache Cassandra to measure against, for benches; runs until standard input ends.
//!
//! `compat peer stock|latest FOLDER HEAP CPUS` prints `ready ADDRESS PID` when it answers.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use crate::cassandra::{self, Measured, Profile};

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
    let profile = match profile.as_str() {
        "stock" => Profile::Stock,
        "latest" => Profile::Latest,
        other => return Err(format!("{other} is neither stock nor latest")),
    };
    let measured = Measured { profile, heap: heap.clone(), cpus: cpus.clone() };
    let mut server = cassandra::start_measured(Path::new(folder), &measured)?;
    println!("ready {} {}", server.address, server.child.id());
    let mut rest = Vec::new();
    let read = std::io::stdin().read_to_end(&mut rest);
    server.stop()?;
    read.map(|_| ()).map_err(|error| format!("standard input: {error}"))
}
