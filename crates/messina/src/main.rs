//! The one binary: argument parsing and dispatch.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to its terminal")]
#![allow(clippy::disallowed_methods, reason = "the configuration is read before the runtime exists")]

mod arguments;
mod load;
mod simulate;
mod start;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Node(node) => start::run(&node),
        Command::Simulate(simulate) => simulate::run(&simulate),
        Command::Load(load) => load::run(&load),
        Command::Version => {
            println!("messina {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
    }
}
