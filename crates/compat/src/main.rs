//! Real clients and real tools against a running node.
//!
//! `compat [suite…] [--smp 1,2,7] [--against messina|cassandra] [--quick] [--rows N] [--cycles N]`
//!
//! Each suite starts a server of its own on free ports of the loopback interface, runs the client, and stops the
//! server again; what a suite proves is said in its module. `--against cassandra` runs the same suites against Apache
//! Cassandra 5.0: an expectation that Cassandra does not meet is a mistake of ours.
//!
//! Beside the house: nothing depends on this crate, and it uses none of the house's crates, so that both ends of a
//! conversation cannot share a mistake.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, clippy::print_stderr)]

mod command;
mod certificates;
mod wire;
mod server;
mod stream;
mod bad_input;
mod no_io_uring;
mod paths;
mod scylla;
mod packages;
mod cql;
mod cassandra;
mod nodetool;
mod python;
mod kill_loop;
mod peer;
mod messina;
mod drivers;
mod damage;
mod cqlsh;
mod catalogue;
mod sstables;
mod ycsb;
mod stress;
mod suite;
mod texts;
mod protocol;
mod bad_days;
mod cluster;
mod encrypted_tools;
mod renewal;

use std::process::ExitCode;

use suite::{Options, Outcome};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == no_io_uring::WORD) {
        eprintln!("compat: {}", no_io_uring::become_program(&arguments[1..]));
        return ExitCode::FAILURE;
    }
    if arguments.first().is_some_and(|word| word == peer::WORD) {
        return peer::run(&arguments[1..]);
    }
    if arguments.first().is_some_and(|word| word == packages::WORD) {
        return packages::class_path(&arguments[1..]);
    }
    if arguments.first().is_some_and(|word| word == sstables::golden::WORD) {
        return sstables::golden::run(&arguments[1..]);
    }
    if arguments.first().is_some_and(|word| word == bad_days::HALF_OPEN) {
        return bad_days::half_open_client(&arguments[1..]);
    }
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("compat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<bool, String> {
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        println!("{}", suite::HELP);
        return Ok(true);
    }
    let options = Options::parse(arguments)?;
    if options.bring_only {
        packages::bring_all(&options)?;
        return Ok(true);
    }
    if options.serve {
        drivers::serve(&options, options.smp[0])?;
        return Ok(true);
    }
    let outcomes = suite::run_all(&options)?;
    println!("\n{}", suite::summary(&outcomes));
    Ok(outcomes.iter().all(Outcome::passed))
}
