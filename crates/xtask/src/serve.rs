//! `cargo x run`: the release build as a node on this machine.

use crate::{Outcome, house};

/// Builds and starts the node; further words go to `messina node`. Ends when the node ends.
pub fn run(rest: &[String]) -> Outcome {
    println!("building the release binary (the first time takes a few minutes)");
    let binary = house::messina("release")?;
    let port = house::option(rest, "--native-transport-port").unwrap_or("9042");
    println!();
    println!("  binary   {}", binary.display());
    println!("  data     {}", house::option(rest, "--data").unwrap_or("./data"));
    println!("  connect  127.0.0.1 port {port}, for example: cqlsh 127.0.0.1 {port}");
    println!("  metrics  GET /metrics on 127.0.0.1 port 9180");
    println!("  stop     Ctrl-C; what was written is flushed first");
    println!();
    let mut node = house::command(&binary);
    node.arg("node").args(rest);
    if house::option(rest, "--data").is_none() && house::option(rest, "--config").is_none() {
        node.args(["--data", "data"]);
    }
    if house::option(rest, "--smp").is_none() && !rest.iter().any(|word| word == "--overprovisioned") {
        // A first node on somebody's laptop must not pin cores or spin.
        node.arg("--overprovisioned");
    }
    house::run(&mut node)?;
    Ok(String::new())
}
