//! The shard-aware drivers: Rust's `scylla` crate in a small workspace of its own, and the Python fork.
//!
//! The Rust driver's dependencies are heavy and none of the house's business, so they are built apart from it.

use std::process::Command;
use std::time::Duration;

use crate::suite::{Options, Report};
use crate::{command, packages, paths, python};

const LIMIT: Duration = Duration::from_secs(1800);

/// Builds the Rust client, then runs both drivers against one server.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut ready = None;
    report.test(&format!("scylla::start --smp {shards}"), || {
        let client = build()?;
        packages::python_scylla()?;
        ready = Some((options.server("scylla", shards)?, client));
        Ok(String::new())
    });
    let Some((mut server, client)) = ready else {
        return;
    };
    for compression in ["none", "lz4"] {
        report.test(&format!("scylla::rust_driver {compression} --smp {shards}"), || {
            let mut command = Command::new(&client);
            command
                .env("NODE_ADDRESS", server.address.to_string())
                .env("NODE_COMPRESSION", compression)
                .env("NODE_SHARDS", if options.against_cassandra { "0".into() } else { shards.to_string() })
                .env("SUITE_ROWS", options.rows.to_string());
            let text =
                command::run(&mut command, &server.folder.join(format!("rust-{compression}.log")), LIMIT)?;
            Ok(text.lines().last().unwrap_or("").to_owned())
        });
    }
    report
        .test(&format!("scylla::python_driver --smp {shards}"), || python::run_shard_aware(options, &server));
    report.test(&format!("scylla::stop --smp {shards}"), || server.stop().map(|()| String::new()));
}

fn build() -> Result<std::path::PathBuf, String> {
    let project = paths::resources().join("scylla");
    let target = paths::target().join("scylla-client");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--locked", "--manifest-path"])
        .arg(project.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env_remove("CARGO_TARGET_DIR");
    let _ = std::fs::create_dir_all(&target);
    command::run(&mut cargo, &target.join("build.log"), LIMIT)?;
    Ok(target.join("debug/scylla-client"))
}
