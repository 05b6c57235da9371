//! `messina bench`: published load tests, run again.

use crate::arguments::{Bench, BenchCommand};
use published::Order;
use std::process::ExitCode;

/// Lists or runs. The exit code of a run is 0 when every phase ended well.
pub fn run(arguments: &Bench) -> ExitCode {
    match &arguments.command {
        BenchCommand::List(list) => {
            match list.lines.as_deref().map_or_else(|| Ok(published::list()), published::lines) {
                Ok(lines) => {
                    lines.iter().for_each(|line| println!("{line}"));
                    ExitCode::SUCCESS
                }
                Err(error) => {
                    eprintln!("messina: {error}");
                    ExitCode::from(2)
                }
            }
        }
        BenchCommand::Run(run) => ExitCode::from(published::main(Order {
            name: run.name.clone(),
            scale: run.scale.clone(),
            nodes: run.database.node.clone(),
            port: run.database.port,
            login: run.database.user.clone().zip(run.database.password.clone()),
            folder: run.folder.clone(),
            replicas: run.database.replication,
            metrics_port: run.metrics_port,
        })),
    }
}
