//! The load tools against a node that speaks nothing but TLS: they find everything right with the authority that signed the node's
//! certificate, and say what is wrong with another one, or when they were not told to encrypt.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::certificates::Certificates;
use crate::server::{Server, free_port};
use crate::suite::Options;
use crate::{command, ycsb};

const LIMIT: Duration = Duration::from_secs(300);

/// A node, and the tools.
struct Stage<'a> {
    options: &'a Options,
    server: Server,
    made: Certificates,
}

/// Each tool with the right authority, with another one, and in plain bytes.
pub fn run(options: &Options, shards: u16) -> Result<String, String> {
    let folder = options.folder("certificates-tools")?;
    let made = Certificates::make(&folder.join("made"))?;
    let mut start = options.start(folder, shards);
    start.yaml = made.yaml(false) + &format!("native_shard_aware_transport_port_ssl: {}\n", free_port());
    let mut stage = Stage { options, server: start.run()?, made };
    let (authority, stranger) = (stage.made.authority.clone(), stage.made.stranger.clone());
    stage.tables()?;
    let mut told = Vec::new();
    for tool in [Stage::stress, Stage::ycsb, Stage::load] {
        let said =
            tool(&stage, Some(&authority)).map_err(|text| format!("with the right authority: {text}"))?;
        told.push(said);
        for (trust, wanted) in
            [(Some(stranger.as_path()), "invalid peer certificate"), (None, "speak only TLS")]
        {
            match tool(&stage, trust) {
                Err(text) if text.contains(wanted) => {}
                Err(text) => return Err(format!("{trust:?}: nothing of {wanted} in:\n{text}")),
                Ok(text) => return Err(format!("{trust:?}: it was served:\n{text}")),
            }
        }
    }
    stage.server.stop()?;
    Ok(told.join(", "))
}

impl Stage<'_> {
    fn run(&self, words: &[&str], name: &str) -> Result<String, String> {
        let mut tool = Command::new(&self.options.binary);
        tool.args(words).current_dir(&self.server.folder);
        command::run(&mut tool, &self.server.folder.join(name), LIMIT)
    }

    /// The table of YCSB, by the one tool that makes it; which fills it, too.
    fn tables(&self) -> Result<(), String> {
        let (ip, port) =
            (self.server.address.ip().to_string(), format!("port={}", self.server.address.port()));
        let trust = format!("messina.trust={}", self.made.authority.display());
        let mut words = vec!["cloudsuite", "warmup", &ip, "100", "4"];
        words.extend(
            [port.as_str(), "cassandra.useSSL=true", &trust].into_iter().flat_map(|word| ["-p", word]),
        );
        ycsb::judge(&self.run(&words, "warmup.log")?, 100).map(drop)
    }

    fn stress(&self, trust: Option<&Path>) -> Result<String, String> {
        let (n, ip) = (format!("n={}", self.options.records), self.server.address.ip().to_string());
        let port = format!("native={}", self.server.address.port());
        let trust = trust.map(|file| format!("truststore={}", file.display()));
        let mut words =
            vec!["cassandra-stress", "write", &n, "-rate", "threads=20", "-node", &ip, "-port", &port];
        words.extend(trust.iter().flat_map(|trust| ["-transport", trust.as_str()]));
        let text = self.run(&words, "stress.log")?;
        let clean = text.lines().any(|line| line.starts_with("Total errors              :          0 "));
        if clean { Ok("cassandra-stress".into()) } else { Err(command::tail(&text, 30)) }
    }

    fn ycsb(&self, trust: Option<&Path>) -> Result<String, String> {
        let (ip, port) = (self.server.address.ip(), self.server.address.port());
        let records = self.options.records;
        let at = [format!("hosts={ip}"), format!("port={port}"), format!("recordcount={records}")];
        let trust = trust.map(|file| format!("messina.trust={}", file.display()));
        let mut words = vec!["ycsb", "load", "cassandra-cql", "-threads", "8", "-P", "workloads/workloada"];
        let secret = trust.iter().flat_map(|trust| ["cassandra.useSSL=true", trust.as_str()]);
        words.extend(at.iter().map(String::as_str).chain(secret).flat_map(|property| ["-p", property]));
        ycsb::judge(&self.run(&words, "ycsb.log")?, records).map(|_| "ycsb".into())
    }

    fn load(&self, trust: Option<&Path>) -> Result<String, String> {
        let target = self.server.address.to_string();
        let trust = trust.map(|file| file.display().to_string());
        let mut words =
            vec!["load", "--target", &target, "--keys", "1000", "--seconds", "1", "--warm-up", "0"];
        words.extend(trust.iter().flat_map(|file| ["--tls-ca", file.as_str()]));
        let text = self.run(&words, "load.log")?;
        if text.contains("  errors 0") { Ok("load".into()) } else { Err(text) }
    }
}
