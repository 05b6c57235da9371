//! What the figures were measured on: this machine, and the servers as far as they can be asked.

use crate::error::Error;
use client::{Pool, PoolOptions, contact};
use protocol::envelope::Version;
use protocol::request::Parameters;
use std::collections::BTreeMap;
use types::{Consistency, Value};

/// This machine, in words.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Model and number of processors.
    pub processors: String,
    /// Bytes of memory, in GiB.
    pub memory: String,
    /// The kernel.
    pub kernel: String,
    /// The file system that the run's folder is on, and its disk.
    pub disk: String,
}

/// The servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// Its name.
    pub cluster: String,
    /// What nodes say they run, each once.
    pub releases: Vec<String>,
    /// Nodes of each datacenter.
    pub datacenters: BTreeMap<String, u32>,
}

#[allow(clippy::disallowed_methods, reason = "a tool's own facts, once in a run")]
fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

impl Machine {
    /// Asks the operating system. What it does not say is said to be unknown.
    #[allow(clippy::disallowed_methods, reason = "a tool's own facts, once in a run")]
    pub fn here(folder: &str) -> Machine {
        let absolute = std::fs::canonicalize(folder).map(|path| path.display().to_string());
        Machine {
            processors: processors(&read("/proc/cpuinfo")),
            memory: memory(&read("/proc/meminfo")),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            disk: disk(&read("/proc/mounts"), &absolute.unwrap_or_else(|_| folder.to_owned())),
        }
    }
}

fn processors(text: &str) -> String {
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processors", |model| model.trim_start_matches(['\t', ' ', ':']));
    format!("{} × {model}", text.lines().filter(|line| line.starts_with("processor")).count().max(1))
}

fn memory(text: &str) -> String {
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"));
    match kib.and_then(|kib| kib.trim().parse::<f64>().ok()) {
        Some(kib) => format!("{:.0} GiB", kib / f64::from(1 << 20)),
        None => "unknown".into(),
    }
}

/// The mount that a folder is below: the longest.
fn disk(mounts: &str, folder: &str) -> String {
    let within = |mount: &str| {
        let rest = folder.strip_prefix(mount.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found =
        fields.filter(|fields| fields.len() > 2 && within(fields[1])).max_by_key(|fields| fields[1].len());
    match found {
        Some(fields) => format!("{} ({})", fields[0], fields[2]),
        None => "unknown".into(),
    }
}

impl Servers {
    /// Asks the first node that answers about itself and the nodes it knows.
    pub async fn ask(
        nodes: &[String],
        port: u16,
        credentials: Option<(String, String)>,
    ) -> Result<Servers, Error> {
        let addresses =
            contact::addresses(nodes, port).map_err(|error| Error::Usage(format!("--node: {error}")))?;
        let options = |version| {
            PoolOptions::new(client::Options {
                credentials: credentials.clone(),
                ..client::Options::new(version)
            })
        };
        let versions = [Version::V5, Version::V4, Version::V3];
        let pool: Pool = contact::connect_newest(&addresses, &versions, options).await?;
        // One node: each knows itself from one table and the others from another.
        let connection = pool.connection(None).await?;
        let mut servers = Servers { cluster: pool.cluster().to_owned(), ..Servers::default() };
        for table in ["local", "peers"] {
            let text = format!("SELECT release_version, data_center FROM system.{table}");
            let rows = connection.query(&text, Parameters::at(Consistency::One)).await?.rows();
            for row in rows.values()? {
                let mut cells = row.into_iter().map(|cell| match cell {
                    Value::Text(text) => text,
                    _ => "unknown".into(),
                });
                let release = cells.next().unwrap_or_default();
                if !servers.releases.contains(&release) {
                    servers.releases.push(release);
                }
                *servers.datacenters.entry(cells.next().unwrap_or_default()).or_default() += 1;
            }
        }
        Ok(servers)
    }

    /// All nodes.
    pub fn nodes(&self) -> u32 {
        self.datacenters.values().sum()
    }

    /// Replicas that every datacenter can hold, up to what is wanted.
    pub fn replicas(&self, wanted: u32) -> u32 {
        self.datacenters.values().copied().min().unwrap_or(1).min(wanted).max(1)
    }

    /// What `-schema replication()` is to hold for so many replicas.
    pub fn replication(&self, replicas: u32, by_datacenter: bool) -> String {
        if !by_datacenter {
            return format!("factor={replicas}");
        }
        let factors: Vec<String> = self.datacenters.keys().map(|name| format!("{name}={replicas}")).collect();
        format!("strategy=NetworkTopologyStrategy,{}", factors.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_from_what_the_kernel_says() {
        let cpu =
            "processor\t: 0\nmodel name\t: Some CPU @ 2GHz\nprocessor\t: 1\nmodel name\t: Some CPU @ 2GHz\n";
        assert_eq!(processors(cpu), "2 × Some CPU @ 2GHz");
        assert_eq!(processors(""), "1 × unknown processors");
        assert_eq!(
            (memory("MemTotal:       16777216 kB\n"), memory("")),
            ("16 GiB".into(), "unknown".to_owned())
        );
        let mounts = "/dev/a / ext4 rw 0 0\n/dev/b /data xfs rw 0 0\ntmpfs /data2 tmpfs rw 0 0\n";
        assert_eq!(disk(mounts, "/data/run"), "/dev/b (xfs)");
        assert_eq!((disk(mounts, "/dat"), disk("", "/x")), ("/dev/a (ext4)".into(), "unknown".to_owned()));
    }

    #[test]
    fn replicas_are_no_more_than_a_datacenter_has_nodes() {
        let servers = |datacenters: &[(&str, u32)]| Servers {
            datacenters: datacenters.iter().map(|(name, nodes)| ((*name).to_owned(), *nodes)).collect(),
            ..Servers::default()
        };
        let (one, two) = (servers(&[("dc1", 1)]), servers(&[("dc1", 5), ("dc2", 2)]));
        assert_eq!((one.replicas(3), two.replicas(3), two.nodes()), (1, 2, 7));
        assert_eq!(one.replication(1, false), "factor=1");
        assert_eq!(two.replication(2, true), "strategy=NetworkTopologyStrategy,dc1=2,dc2=2");
    }
}
