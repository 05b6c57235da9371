//! `messina node`: the configuration from file, environment and command line, then the node until it is told to stop.

use crate::arguments::Node;
use node::config::{Config, ENVIRONMENT_PREFIX};
use node::units;
use runtime::Reactor;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The smallest memory a shard works with, in bytes.
const SHARD_MEMORY_MIN: u64 = 32 << 20;
/// What a node takes at least when it is not told, in bytes.
const MEMORY_MIN: u64 = 256 << 20;
/// What is left to the rest of the machine, in bytes.
const MEMORY_LEFT: u64 = 1 << 30;

/// Runs a node, or only checks what it would be told. The exit code is 0 after an orderly stop.
pub fn run(arguments: &Node) -> ExitCode {
    let prepared = prepare(arguments);
    let (runtime_config, config) = match prepared {
        Ok(prepared) => prepared,
        Err(text) => {
            complain(&text);
            return ExitCode::FAILURE;
        }
    };
    if arguments.check_config {
        // Whoever reads may have seen enough.
        let _closed = std::io::stdout().write_all(config.explain().as_bytes());
        return ExitCode::SUCCESS;
    }
    runtime::log::set_levels(config.log_levels.clone());
    runtime::log::set_json(config.log_json);
    let code = runtime::run(runtime_config, node::main_closure(config, reporter()));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
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

/// File, then environment, then command line: later ones win.
fn configure(arguments: &Node) -> Result<Config, String> {
    let mut config = Config::standard(PathBuf::from("data"));
    // Told at once: what is wrong further on must not hide them.
    let tell = |warnings: Vec<String>| {
        warnings.iter().for_each(|text| complain(&format!("warning: {text}")));
    };
    if let Some(path) = &arguments.config {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
        tell(config.read(&name, &text).map_err(|e| e.to_string())?);
    }
    for (name, text) in variables()? {
        tell(config.read_environment(&name, &text).map_err(|e| e.to_string())?);
    }
    for (written, key, text) in settings(arguments)? {
        tell(config.read_argument(&written, &key, &text).map_err(|e| e.to_string())?);
    }
    if config.wants_rack_file() {
        let folder = arguments.config.as_ref().and_then(|path| path.parent()).unwrap_or(Path::new("."));
        let path = folder.join("cassandra-rackdc.properties");
        let name = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => tell(config.read_rack_file(&name, &text).map_err(|e| e.to_string())?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let (dc, rack) = (&config.data_center, &config.rack);
                complain(&format!(
                    "warning: {name} is not there: this node is in datacenter {dc}, rack {rack}"
                ));
            }
            Err(error) => return Err(format!("{name}: {error}")),
        }
    }
    config.take_interfaces(runtime::net::interface_addresses).map_err(|e| e.to_string())?;
    config.finish().map_err(|e| e.to_string())?;
    Ok(config)
}

/// The environment variables that name keys, ascending, so that two runs read them in the same order.
fn variables() -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with(ENVIRONMENT_PREFIX)) else { continue };
        let value = value.into_string().map_err(|_| format!("environment {name}: not UTF-8"))?;
        found.push((name.to_string(), value));
    }
    found.sort();
    Ok(found)
}

/// What the command line sets: the argument without the value, the key, the value. `--set` wins over the short options.
fn settings(arguments: &Node) -> Result<Vec<(String, String, String)>, String> {
    let path = arguments.data.as_ref().map(|path| path.display().to_string());
    let short = [
        ("--data", "data_file_directories", path),
        (
            "--seeds",
            "seed_provider.parameters",
            arguments.seeds.as_ref().map(|seeds| format!("{{seeds: \"{seeds}\"}}")),
        ),
        ("--listen-address", "listen_address", arguments.listen_address.map(|address| address.to_string())),
        ("--rpc-address", "rpc_address", arguments.rpc_address.map(|address| address.to_string())),
        (
            "--native-transport-port",
            "native_transport_port",
            arguments.native_transport_port.map(|port| port.to_string()),
        ),
        (
            "--replace-address",
            "replace_address_first_boot",
            arguments.replace_address.map(|address| address.to_string()),
        ),
        ("--log-level", "log_level", arguments.log_level.clone()),
        ("--log-format", "log_format", arguments.log_format.clone()),
    ];
    let short = short.into_iter().filter_map(|(option, key, value)| {
        let value = value?;
        Some((option.to_string(), key.to_string(), value))
    });
    let mut settings: Vec<_> = short.collect();
    for text in &arguments.properties {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("-D: expected property=value, got \"{text}\""))?;
        let key = match name {
            "cassandra.replace_address_first_boot" => "replace_address_first_boot",
            "cassandra.replace_address" => "replace_address",
            _ => {
                return Err(format!(
                    "-D{name}: no property that has a meaning here; keys are set with --set key=value"
                ));
            }
        };
        settings.push((format!("-D{name}"), key.to_string(), value.to_string()));
    }
    for text in &arguments.set {
        let (key, value) =
            text.split_once('=').ok_or_else(|| format!("--set: expected key=value, got \"{text}\""))?;
        let key = key.trim();
        settings.push((format!("--set {key}"), key.to_string(), value.to_string()));
    }
    Ok(settings)
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
        // A node serves its clients also when nobody reads what it says.
        ready: Arc::new(|ready| drop(announce(&mut std::io::stdout(), ready))),
        failed: Arc::new(complain),
    }
}

fn announce(out: &mut impl Write, ready: &node::Ready) -> std::io::Result<()> {
    writeln!(out, "messina is ready: CQL on {}, host id {}", ready.native, ready.host_id)?;
    if let Some(port) = ready.shard_aware_port {
        writeln!(out, "shard-aware port {port}, {} shards", ready.shards)?;
    }
    if let Some(address) = ready.metrics {
        writeln!(out, "metrics on http://{address}/metrics")?;
    }
    writeln!(out, "stop it with Ctrl-C or `kill {}`", std::process::id())?;
    out.flush()
}

/// Tells the terminal what is wrong, if it still listens.
fn complain(text: &str) {
    drop(writeln!(std::io::stderr(), "messina: {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn who_is_replaced_is_said_in_each_of_the_known_ways() {
        let address: core::net::IpAddr = "10.0.0.3".parse().unwrap();
        for words in [
            &["--replace-address", "10.0.0.3"][..],
            &["-Dcassandra.replace_address_first_boot=10.0.0.3"],
            &["-D", "cassandra.replace_address=10.0.0.3"],
            &["--set", "replace_address_first_boot=10.0.0.3"],
        ] {
            let line = ["messina", "node"].iter().chain(words);
            let Command::Node(arguments) = Arguments::parse_from(line).command else { panic!("a node") };
            let replaces = configure(&arguments).unwrap().replaces;
            assert_eq!(replaces, Some(node::config::Replaced::Address(address)), "{words:?}");
        }
        let Command::Node(arguments) =
            Arguments::parse_from(["messina", "node", "-Dcassandra.foo=1"]).command
        else {
            panic!("a node")
        };
        assert!(configure(&arguments).unwrap_err().contains("-Dcassandra.foo"));
    }

    #[test]
    fn values_of_arguments_are_not_told() {
        let line = [
            "messina",
            "node",
            "--data",
            "/d",
            "--set",
            "client_encryption_options.keystore_password=hunter2",
        ];
        let Command::Node(arguments) = Arguments::parse_from(line).command else { panic!("a node") };
        let config = configure(&arguments).unwrap().explain();
        assert!(!config.contains("hunter2"), "{config}");
        assert!(
            config.contains("keystore_password: <REDACTED>  # argument --set client_encryption_options.")
        );
    }
}
