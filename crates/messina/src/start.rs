//! `messina node`: the configuration from file and command line, then the node until it is told to stop.

use crate::arguments::Node;
use node::config::Config;
use node::units;
use runtime::Reactor;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The smallest memory a shard works with, in bytes.
const SHARD_MEMORY_MIN: u64 = 32 << 20;
/// What a node takes at least when it is not told, in bytes.
const MEMORY_MIN: u64 = 256 << 20;
/// What is left to the rest of the machine, in bytes.
const MEMORY_LEFT: u64 = 1 << 30;

/// Runs a node. The exit code is 0 after an orderly stop.
pub fn run(arguments: &Node) -> ExitCode {
    match prepare(arguments) {
        Ok((runtime_config, config)) => {
            let code = runtime::run(runtime_config, node::main_closure(config, reporter()));
            ExitCode::from(u8::try_from(code).unwrap_or(1))
        }
        Err(text) => {
            eprintln!("messina: {text}");
            ExitCode::FAILURE
        }
    }
}

fn prepare(arguments: &Node) -> Result<(runtime::Config, Config), String> {
    let config = configure(arguments)?;
    let shards = match arguments.smp {
        Some(shards) => shards,
        None => runtime::Config::processors(),
    };
    let memory = match &arguments.memory {
        Some(text) => units::size(text, 1)
            .ok_or_else(|| format!("--memory: expected a size such as 4G or 512MiB, got \"{text}\""))?,
        None => standard_memory(),
    };
    let memory_per_shard = memory / u64::from(shards);
    if memory_per_shard < SHARD_MEMORY_MIN {
        return Err(format!(
            "{} MiB of memory for {shards} shards: each needs at least {} MiB",
            memory >> 20,
            SHARD_MEMORY_MIN >> 20
        ));
    }
    let runtime_config = runtime::Config {
        pin: !arguments.overprovisioned,
        memory_per_shard,
        overprovisioned: arguments.overprovisioned,
        reactor: match arguments.reactor.as_str() {
            "uring" => Reactor::Uring,
            "epoll" => Reactor::Epoll,
            _ => Reactor::Auto,
        },
        ..runtime::Config::new(shards)
    };
    Ok((runtime_config, config))
}

fn configure(arguments: &Node) -> Result<Config, String> {
    let mut config = Config::standard(PathBuf::from("data"));
    if let Some(path) = &arguments.config {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
        let warnings = config.read(&name, &text).map_err(|e| e.to_string())?;
        for warning in warnings {
            eprintln!("messina: warning: {warning}");
        }
    }
    if let Some(data) = &arguments.data {
        config.data_directory = data.clone();
    }
    if let Some(address) = arguments.rpc_address {
        config.rpc_address = address;
    }
    if let Some(port) = arguments.native_transport_port {
        config.native_transport_port = port;
    }
    Ok(config)
}

/// Half of the machine's memory less what is left to others.
fn standard_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| {
        let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim();
        Some(kib.parse::<u64>().ok()? << 10)
    });
    (total.unwrap_or(0) / 2).saturating_sub(MEMORY_LEFT).max(MEMORY_MIN)
}

fn reporter() -> node::Reporter {
    node::Reporter {
        ready: Arc::new(|ready| {
            println!("messina is ready: CQL on {}, host id {}", ready.native, ready.host_id);
            if let Some(port) = ready.shard_aware_port {
                println!("shard-aware port {port}, {} shards", ready.shards);
            }
            if let Some(address) = ready.metrics {
                println!("metrics on http://{address}/metrics");
            }
            println!("stop it with Ctrl-C or `kill {}`", std::process::id());
        }),
        failed: Arc::new(|text| eprintln!("messina: {text}")),
    }
}
