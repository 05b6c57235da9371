//! Starts the binary under test with a configuration file of its own.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::server::{Server, free_port};
use crate::{command, no_io_uring};

/// How the node is started.
#[derive(Clone)]
pub struct Start {
    /// The binary.
    pub binary: PathBuf,
    /// Its data, configuration and log; kept when the same folder is started again.
    pub folder: PathBuf,
    /// How many shards.
    pub shards: u16,
    /// The commitlog's mode: `periodic` or `batch`.
    pub commitlog_sync: &'static str,
    /// Where it listens, on every port.
    pub ip: Ipv4Addr,
    /// Port of the native protocol; 0 takes a free one.
    pub port: u16,
    /// The port between nodes; `None` takes a free one.
    pub storage_port: Option<u16>,
    /// What its cluster is called.
    pub cluster_name: &'static str,
    /// Further lines of its configuration.
    pub yaml: String,
    /// A program and its first arguments that run the node, such as one that sets limits and then becomes the node.
    pub wrapper: Vec<String>,
    /// Where the log is written, when not in the folder of data.
    pub commitlog: Option<PathBuf>,
    /// Whether the node runs where io_uring is refused.
    pub refuse_io_uring: bool,
}

impl Start {
    /// A node of `shards` shards with the shipped commitlog mode.
    pub fn new(binary: &Path, folder: PathBuf, shards: u16) -> Start {
        Start {
            binary: binary.into(),
            folder,
            shards,
            commitlog_sync: "periodic",
            ip: Ipv4Addr::LOCALHOST,
            port: 0,
            storage_port: None,
            cluster_name: "compat",
            yaml: String::new(),
            wrapper: Vec::new(),
            commitlog: None,
            refuse_io_uring: false,
        }
    }

    /// Spawns the process without waiting for it to answer.
    pub fn spawn(&self) -> Result<Server, String> {
        let told = |error: std::io::Error| format!("{}: {error}", self.folder.display());
        fs::create_dir_all(&self.folder).map_err(told)?;
        let port = if self.port == 0 { free_port() } else { self.port };
        let config = self.folder.join("messina.yaml");
        fs::write(&config, self.yaml(port)).map_err(told)?;
        let log = self.folder.join("node.log");
        let out = File::options().create(true).append(true).open(&log).map_err(told)?;
        let mut words = self.wrapper.clone();
        if self.refuse_io_uring {
            words.extend(no_io_uring::wrapper()?);
        }
        words.push(self.binary.display().to_string());
        let mut command = command::hung_up_by_default(Path::new(&words[0]));
        command
            .args(&words[1..])
            .args(["node", "--overprovisioned", "--memory", "1G", "--smp", &self.shards.to_string()])
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(told)?)
            .stderr(out);
        let child = command.spawn().map_err(|error| format!("{}: {error}", self.binary.display()))?;
        Ok(Server {
            name: format!("messina --smp {}", self.shards),
            address: (self.ip, port).into(),
            folder: self.folder.clone(),
            log,
            child,
            started_in: Duration::ZERO,
            tls: self.yaml.contains("client_encryption_options") && !self.yaml.contains("optional: true"),
        })
    }

    /// Spawns it and waits for the first answer.
    pub fn run(&self) -> Result<Server, String> {
        let since = Instant::now();
        let mut server = self.spawn()?;
        server.wait_until_ready(since, Duration::from_secs(120))?;
        if self.refuse_io_uring {
            server.wait_until_said(no_io_uring::SAID, since + Duration::from_secs(120))?;
        }
        Ok(server)
    }

    fn yaml(&self, port: u16) -> String {
        let (data, ip) = (self.folder.join("data"), self.ip);
        let sync = match self.commitlog_sync {
            "periodic" => "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n".to_owned(),
            mode => format!("commitlog_sync: {mode}\n"),
        };
        format!(
            "cluster_name: '{}'\nlisten_address: {ip}\nrpc_address: {ip}\n\
             native_transport_port: {port}\nnative_shard_aware_transport_port: {}\nprometheus_port: {}\n\
             storage_port: {}\ndata_file_directories:\n  - {}\ncommitlog_directory: {}\n{sync}{}",
            self.cluster_name,
            free_port(),
            free_port(),
            self.storage_port.unwrap_or_else(free_port),
            data.display(),
            self.commitlog.clone().unwrap_or_else(|| self.folder.join("commitlog")).display(),
            self.yaml,
        )
    }
}
