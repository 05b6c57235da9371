//! `messina load`: a loader on the node's own runtime, one shard of it.

use crate::arguments::Load;
use client::load::{Draw, LoadOptions, Pace, TableShape, Workload};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tls::ClientSettings;

/// Sends load and prints what came back.
pub fn run(arguments: &Load) -> ExitCode {
    let options = options(arguments);
    let main: runtime::Main = Arc::new(move || {
        let options = options.clone();
        Box::pin(async move {
            match client::load::run(options).await {
                Ok(report) => match writeln!(std::io::stdout(), "{report}") {
                    // Nobody listens any more: no reason to end otherwise than the run did.
                    Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                        eprintln!("messina: {error}");
                        1
                    }
                    _ => i32::from(report.errors > 0),
                },
                Err(error) => {
                    eprintln!("messina: {error}");
                    1
                }
            }
        })
    });
    ExitCode::from(loadtools::shard::run(main))
}

fn options(arguments: &Load) -> LoadOptions {
    LoadOptions {
        connections: usize::from(arguments.connections),
        depth: usize::from(arguments.depth),
        workload: match arguments.workload.as_str() {
            "insert" => Workload::Insert,
            "mixed" => Workload::Mixed(arguments.reads),
            "delete" => Workload::Delete,
            "scan" => Workload::Scan,
            "echo" => Workload::Echo,
            _ => Workload::Read,
        },
        pace: arguments.rate.map_or(Pace::Closed, Pace::Open),
        table: match arguments.table.as_str() {
            "stress" => TableShape::Stress,
            "usertable" => TableShape::Usertable,
            _ => TableShape::KeyValue,
        },
        keys: arguments.keys,
        read_keys: arguments.read_keys,
        draw: match arguments.draw.as_str() {
            "gaussian" => Draw::Gaussian,
            "zipfian" => Draw::Zipfian,
            "sequence" => Draw::Sequence,
            _ => Draw::Uniform,
        },
        stride: arguments.stride,
        value_bytes: arguments.value_bytes,
        fresh_values: arguments.fresh_values,
        warm_up: Duration::from_secs(u64::from(arguments.warm_up)),
        seed: arguments.seed,
        fill: !arguments.no_fill,
        duration: Duration::from_secs(u64::from(arguments.seconds)),
        prepare_data: !arguments.keep_data,
        shard_aware: arguments.shard_aware,
        tls: (arguments.tls || arguments.tls_ca.is_some()).then(|| ClientSettings {
            trust: arguments.tls_ca.clone(),
            certificate: arguments.tls_certificate.clone().map(|file| (file.clone(), file)),
        }),
        ..LoadOptions::new(vec![arguments.target])
    }
}
