//! `messina catalogue`: a file catalogue in the database, on the node's own runtime, one shard of it.

use crate::arguments::{Catalogue, CatalogueCommand, CatalogueFile, CatalogueServer, Database, Generated};
use catalogue::command::{self, Order, Task};
use catalogue::import::ImportOptions;
use catalogue::operate::OperateOptions;
use catalogue::{Error, Format, Server};
use std::process::ExitCode;
use std::time::Duration;

/// Runs one command. The exit code is 0 when all was as it should be, 1 otherwise.
pub fn run(arguments: &Catalogue) -> ExitCode {
    match order(&arguments.command) {
        Ok(order) => ExitCode::from(command::main(order)),
        Err(error) => {
            eprintln!("messina: {error}");
            ExitCode::from(2)
        }
    }
}

fn order(command: &CatalogueCommand) -> Result<Order, Error> {
    let made = |generated: &Generated| (generated.seed, generated.files);
    Ok(match command {
        CatalogueCommand::Generate(generate) => Order {
            server: Server::local(),
            task: Task::Generate {
                generated: made(&generate.generated),
                file: generate.file.clone(),
                format: format_of(None, &generate.file)?,
            },
        },
        CatalogueCommand::Import(import) => Order {
            server: server(&import.file.server)?,
            task: Task::Import {
                file: file(&import.file, import.blocks)?,
                checks: (!import.no_check).then_some(import.file.parallel),
            },
        },
        CatalogueCommand::Check(check) => Order {
            server: server(&check.server)?,
            task: Task::Check { file: file(check, 1)?, parallel: check.parallel },
        },
        CatalogueCommand::Operate(operate) => Order {
            server: server(&operate.server)?,
            task: Task::Operate {
                generated: made(&operate.generated),
                options: OperateOptions {
                    workers: operate.workers,
                    duration: Duration::from_secs(operate.seconds),
                    seed: operate.load_seed,
                },
            },
        },
        CatalogueCommand::Quota(quota) => {
            Order { server: server(&quota.server)?, task: Task::Quota { parallel: quota.parallel } }
        }
    })
}

fn server(arguments: &CatalogueServer) -> Result<Server, Error> {
    let said = &arguments.consistency;
    let consistency = command::level(said)
        .ok_or_else(|| Error::Option(format!("--consistency: \"{said}\" is no level for this")))?;
    let Database { node, port, replication, .. } = &arguments.database;
    Ok(Server {
        nodes: node.clone(),
        port: *port,
        credentials: arguments.database.user.clone().zip(arguments.database.password.clone()),
        keyspace: arguments.keyspace.clone(),
        replicas: *replication,
        consistency,
        ..Server::local()
    })
}

fn file(arguments: &CatalogueFile, blocks: usize) -> Result<ImportOptions, Error> {
    Ok(ImportOptions {
        file: arguments.file.clone(),
        format: format_of(arguments.format.as_deref(), &arguments.file)?,
        table: arguments.table.clone(),
        blocks,
    })
}

/// What is said, or what the name of the file says.
fn format_of(said: Option<&str>, file: &str) -> Result<Format, Error> {
    match said {
        Some("csv") => Ok(Format::Csv),
        Some(_) => Ok(Format::Mysql),
        None => Format::of_file(file).ok_or_else(|| {
            Error::Option(format!("{file}: the name does not end in .csv, .sql or .dump: say --format"))
        }),
    }
}
