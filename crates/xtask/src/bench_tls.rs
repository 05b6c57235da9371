//! What encryption costs: the same load by `messina load`, in plain text and over TLS, on one port of one node.
//!
//! Node on processor 0, loader on processor 1, both kinds of connection alternately; the processor time of the node per
//! request is what counts, because the loader pays for encryption, too.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::house;
use crate::loader::cpu_ns;
use crate::machine::{self, Running};

const CERTIFICATE: &str = "crates/tls/testdata/server.pem";
const KEY: &str = "crates/tls/testdata/server.key";

/// What one run of the loader gave.
#[derive(Clone, Copy)]
struct Run {
    rate: f64,
    /// Processor time of the node for each request.
    cpu_us: f64,
}

/// Appends the table; each line is the median of so many rounds.
pub fn encrypted(binary: &Path, seconds: u64, rounds: usize, text: &mut String) -> Result<(), String> {
    let folder = machine::fresh("serve-tls")?;
    let keys = folder.join("keys.pem");
    let read =
        |name: &str| std::fs::read(house::root().join(name)).map_err(|error| format!("{name}: {error}"));
    std::fs::write(&keys, [read(CERTIFICATE)?, read(KEY)?].concat()).map_err(|error| error.to_string())?;
    let port = machine::free_port()?;
    let keystore = format!("client_encryption_options.keystore={}", keys.display());
    let more = [
        "--smp",
        "1",
        "--memory",
        "2G",
        "--set",
        "client_encryption_options.optional=true",
        "--set",
        &keystore,
    ];
    let arguments = machine::node_arguments(&folder, port, "", &more)?;
    let mut node = Running::start(Some("0"), binary, &arguments, port, &folder.join("node.log"))?;
    node.wait_until_listening(Duration::from_secs(30))?;
    load(binary, &node, "read", 1, 1, &["--keys", "10000"])?;
    writeln!(text, "\n| request | load | rate/s | over TLS | CPU µs | over TLS | TLS costs |").ok();
    writeln!(text, "|---|---|---:|---:|---:|---:|---:|").ok();
    for kind in ["read", "insert"] {
        for depth in [1, 16] {
            let (mut plain, mut secured) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                plain.push(load(binary, &node, kind, depth, seconds, &[])?);
                secured.push(load(binary, &node, kind, depth, seconds, &["--tls"])?);
            }
            let (plain, secured) = (median(plain), median(secured));
            writeln!(
                text,
                "| {kind} | 64 × {depth} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} µs |",
                plain.rate,
                secured.rate,
                plain.cpu_us,
                secured.cpu_us,
                secured.cpu_us - plain.cpu_us
            )
            .ok();
        }
    }
    node.stop()
}

fn median(runs: Vec<Run>) -> Run {
    machine::median(runs, |run| run.cpu_us)
}

fn load(
    binary: &Path,
    node: &Running,
    kind: &str,
    depth: usize,
    seconds: u64,
    more: &[&str],
) -> Result<Run, String> {
    let mut command = house::command("taskset");
    command.args(["-c", "1"]).arg(binary).args(["load", "--workload", kind, "--keys", "10000"]);
    command.args(["--target", &node.address.to_string(), "--seconds", &seconds.to_string()]);
    command.args(["--depth", &depth.to_string()]);
    if !more.contains(&"--keys") {
        command.arg("--keep-data").args(more);
    }
    let before = cpu_ns(node.child.id());
    let said = house::output(&mut command)?;
    let spent_ns = cpu_ns(node.child.id()).saturating_sub(before);
    let number = |name: &str| -> Result<f64, String> {
        let mut words = said.split_whitespace().skip_while(|word| *word != name).skip(1);
        let word = words.next().unwrap_or_default().trim_end_matches("/s");
        word.parse().map_err(|_| format!("messina load said {said}"))
    };
    // The loader warms up for two seconds that it does not count: they cost as much.
    let rate = number("rate")?;
    let requests = rate * (seconds as f64 + 2.0);
    Ok(Run { rate, cpu_us: spent_ns as f64 / 1e3 / requests })
}
