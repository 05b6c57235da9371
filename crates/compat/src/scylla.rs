//! Rust's `scylla` driver: a program in a small workspace of its own, `crates/compat/scylla`.
//!
//! The driver's dependencies are heavy and none of the house's business, so they are built apart from it.

use std::process::Command;
use std::time::Duration;

use crate::{command, paths};

/// Its name among the drivers, and in the tables of cases.
pub const NAME: &str = "scylla";

/// Time to build the driver and all that it needs.
const LIMIT: Duration = Duration::from_secs(1800);

/// Builds the program; what is built already stays.
pub fn program() -> Result<Command, String> {
    let project = paths::resources().join("scylla");
    let target = paths::target().join("scylla-client");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--locked", "--manifest-path"])
        .arg(project.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env_remove("CARGO_TARGET_DIR");
    std::fs::create_dir_all(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    command::run(&mut cargo, &target.join("build.log"), LIMIT)?;
    Ok(Command::new(target.join("debug/scylla-client")))
}
