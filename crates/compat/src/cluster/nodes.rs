//! The processes of one cluster on the loopback interface: same ports, one address each, the first one the seed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::load::{self, Settings};
use super::proxy::Proxy;
use super::{UP_WITHIN, expect, folder_of, python_script};
use crate::command;
use crate::messina::Start;
use crate::nodetool::{self, Said};
use crate::python::Script;
use crate::server::{Server, free_port};
use crate::suite::Options;

/// The port between nodes of the clusters that screens were recorded of.
const RECORDED_PORT: u16 = 7500;
/// How long one node may take to serve clients.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Where one node stands.
pub struct Place {
    /// Datacenter and rack, by `cassandra-rackdc.properties`; `None`: those of SimpleSnitch.
    dc_and_rack: Option<(&'static str, &'static str)>,
    /// Its tokens, with commas between; empty: as many as it draws by itself.
    tokens: &'static str,
    /// Whether `data_center` and `rack` say it, beside a file that says something else.
    by_settings: bool,
}

impl Place {
    /// A datacenter and rack, and tokens.
    pub const fn at(dc_and_rack: Option<(&'static str, &'static str)>, tokens: &'static str) -> Place {
        Place { dc_and_rack, tokens, by_settings: false }
    }

    /// A datacenter and rack, named by settings, which win over the file.
    pub const fn by_settings(dc: &'static str, rack: &'static str) -> Place {
        Place { dc_and_rack: Some((dc, rack)), tokens: "", by_settings: true }
    }

    /// Where SimpleSnitch puts it, with tokens that it draws by itself.
    pub const PLAIN: Place = Place::at(None, "");

    /// Lines of the configuration; writes the file beside it.
    fn configure(&self, folder: &Path) -> Result<String, String> {
        let mut yaml = String::new();
        if !self.tokens.is_empty() {
            let count = self.tokens.split(',').count();
            yaml.push_str(&format!("num_tokens: {count}\ninitial_token: '{}'\n", self.tokens));
        }
        if let Some((dc, rack)) = self.dc_and_rack {
            let told = |error: std::io::Error| format!("{}: {error}", folder.display());
            std::fs::create_dir_all(folder).map_err(told)?;
            let file = folder.join("cassandra-rackdc.properties");
            let said = if self.by_settings {
                "dc=elsewhere\nrack=elsewhere\n".into()
            } else {
                format!("dc={dc}\nrack={rack}\n")
            };
            std::fs::write(file, said).map_err(told)?;
            if self.by_settings {
                yaml.push_str(&format!("data_center: {dc}\nrack: {rack}\n"));
            }
            yaml.push_str("endpoint_snitch: GossipingPropertyFileSnitch\n");
        }
        Ok(yaml)
    }
}

/// A cluster of processes.
pub struct Nodes {
    /// Where all of it lies.
    pub folder: PathBuf,
    binary: PathBuf,
    starts: Vec<Start>,
    servers: Vec<Option<Server>>,
    native_port: u16,
    api_port: u16,
    storage_port: u16,
    proxy: Option<Proxy>,
    /// The datacenter of the first one.
    dc: &'static str,
}

/// How nodes reach each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Where they listen.
    Straight,
    /// Through the proxy, at broadcast addresses of their own.
    Proxied,
}

/// Where a node listens.
fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 7, 1 + node as u8)
}

/// Its broadcast address when the proxy stands between.
fn front(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 6, 1 + node as u8)
}

impl Nodes {
    /// Starts them one after the other, without waiting between.
    pub fn start(options: &Options, count: usize, shards: u16) -> Result<Nodes, String> {
        let places: Vec<Place> = (0..count).map(|_| Place::PLAIN).collect();
        Nodes::start_at(options, &places, shards)
    }

    /// The same, each at its place with its tokens.
    pub fn start_at(options: &Options, places: &[Place], shards: u16) -> Result<Nodes, String> {
        let mut nodes = Nodes::lay_out(options, places, shards, Way::Straight)?;
        nodes.start_all()?;
        Ok(nodes)
    }

    /// Prepares them without starting any.
    pub fn lay_out(options: &Options, places: &[Place], shards: u16, way: Way) -> Result<Nodes, String> {
        let count = places.len();
        let folder = options.folder("cluster")?;
        let (native_port, api_port) = (free_port(), free_port());
        // Screens that were recorded have an order that follows from it.
        let is_placed = places.iter().any(|place| !place.tokens.is_empty());
        let storage_port = if is_placed { RECORDED_PORT } else { free_port() };
        let start = |(node, place): (usize, &Place)| {
            let ip = address(node);
            let mut start = options.start(folder_of(&folder, node), shards);
            start.ip = ip;
            start.port = native_port;
            start.storage_port = Some(storage_port);
            start.yaml = format!("api_address: {ip}\napi_port: {api_port}\nprometheus_address: {ip}\n");
            if way == Way::Proxied {
                start.yaml.push_str(&format!("broadcast_address: {}\n", front(node)));
            }
            start.yaml.push_str(&place.configure(&start.folder)?);
            Ok(start)
        };
        let starts = places.iter().enumerate().map(start).collect::<Result<Vec<Start>, String>>()?;
        let servers = (0..count).map(|_| None).collect();
        let binary = options.binary.clone();
        let fronts: Vec<(Ipv4Addr, Ipv4Addr)> = (0..count).map(|node| (front(node), address(node))).collect();
        let proxy = match way {
            Way::Straight => None,
            Way::Proxied => Some(Proxy::start(&fronts, storage_port)?),
        };
        let dc = places[0].dc_and_rack.map_or("datacenter1", |(dc, _)| dc);
        let mut nodes =
            Nodes { folder, binary, starts, servers, native_port, api_port, storage_port, proxy, dc };
        for node in 0..count {
            nodes.set_seeds(node, &[0]);
        }
        Ok(nodes)
    }

    /// Names the seeds of a node, from its next start on.
    pub fn set_seeds(&mut self, node: usize, seeds: &[usize]) {
        const KEY: &str = "seed_provider:";
        let yaml = &mut self.starts[node].yaml;
        yaml.truncate(yaml.find(KEY).unwrap_or(yaml.len()));
        if seeds.is_empty() {
            return;
        }
        let of = if self.proxy.is_some() { front } else { address };
        let seeds: Vec<String> =
            seeds.iter().map(|seed| format!("{}:{}", of(*seed), self.storage_port)).collect();
        yaml.push_str(&format!(
            "{KEY}\n  - class_name: SimpleSeedProvider\n    parameters:\n      - seeds: \"{}\"\n",
            seeds.join(",")
        ));
    }

    /// Starts them one after the other, without waiting between.
    pub fn start_all(&mut self) -> Result<(), String> {
        (0..self.count()).try_for_each(|node| self.start_again_without_waiting(node))
    }

    /// The proxy between them.
    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("these nodes were laid out with one")
    }

    /// Its folder.
    pub fn folder_of(&self, node: usize) -> &Path {
        &self.starts[node].folder
    }

    /// How it is started, for what a test changes.
    pub fn start_of(&mut self, node: usize) -> &mut Start {
        &mut self.starts[node]
    }

    /// The port between nodes.
    pub fn storage_port(&self) -> u16 {
        self.storage_port
    }

    /// Whether the process runs.
    pub fn is_alive(&mut self, node: usize) -> bool {
        self.servers[node].as_mut().is_some_and(Server::alive)
    }

    /// Sends a signal to one by its name.
    pub fn signal(&self, node: usize, name: &str) {
        if let Some(server) = &self.servers[node] {
            command::signal(server.child.id(), name);
        }
    }

    /// The log of one, of all its starts.
    pub fn log(&self, node: usize) -> Result<String, String> {
        command::read(&self.starts[node].folder.join("node.log"))
    }

    /// Waits until a line of a node's log, behind its first `skip` bytes, holds all of these words; returns it.
    pub fn wait_for_line(
        &self,
        node: usize,
        skip: usize,
        words: &[&str],
        limit: Duration,
    ) -> Result<String, String> {
        let end = Instant::now() + limit;
        loop {
            let log = self.log(node)?;
            let new = log.get(skip..).unwrap_or_default();
            if let Some(line) = new.lines().find(|line| words.iter().all(|word| line.contains(word))) {
                return Ok(line.to_owned());
            }
            if Instant::now() > end {
                let last = command::tail(new, 20);
                return Err(format!("node {} never said {words:?} in one line:\n{last}", node + 1));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the process of a node has ended by itself; whether with success.
    pub fn wait_for_end(&mut self, node: usize, limit: Duration) -> Result<bool, String> {
        let mut server = self.servers[node].take().ok_or("it was not started")?;
        let ended = command::wait(&mut server.child, limit);
        ended.ok_or_else(|| format!("node {} goes on:\n{}", node + 1, server.last_words()))
    }

    /// How the nodes of a set are shown by one of them: `UN`, `DN` and so on, in the order of the nodes; `--` for one that is not.
    pub fn states(&self, seen_by: usize) -> Result<Vec<String>, String> {
        let shown = self.nodetool(seen_by, &["status"])?;
        let of = if self.proxy.is_some() { front } else { address };
        let state = |node: usize| {
            let mut lines = shown.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>());
            let ip = of(node).to_string();
            let found = lines
                .find(|words| words.get(1).is_some_and(|word| word.split(':').next() == Some(ip.as_str())));
            found.map_or("--".to_owned(), |words| words[0].to_owned())
        };
        Ok((0..self.count()).map(state).collect())
    }

    /// The same of one that may not answer nodetool yet.
    pub fn wait_for_state_or_start(
        &mut self,
        seen_by: usize,
        node: usize,
        state: &str,
        limit: Duration,
    ) -> Result<(), String> {
        let server = self.servers[seen_by].as_mut().ok_or("it was not started")?;
        server.wait_until_ready(Instant::now(), READY_WITHIN)?;
        self.wait_for_state(seen_by, node, state, limit)
    }

    /// Waits until one node shows another one so.
    pub fn wait_for_state(
        &self,
        seen_by: usize,
        node: usize,
        state: &str,
        limit: Duration,
    ) -> Result<(), String> {
        let end = Instant::now() + limit;
        while self.states(seen_by)?[node] != state {
            if Instant::now() > end {
                let states = self.states(seen_by)?;
                return Err(format!("node {} shows {states:?}; {} is not {state}", seen_by + 1, node + 1));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Where clients connect to one.
    pub fn address(&self, node: usize) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.starts[node].ip), self.native_port)
    }

    /// `kill -9` of one.
    pub fn kill(&mut self, node: usize) {
        if let Some(mut server) = self.servers[node].take() {
            server.kill();
        }
    }

    /// Starts one that was killed, on its old folder.
    pub fn start_again_without_waiting(&mut self, node: usize) -> Result<(), String> {
        self.servers[node] = Some(self.starts[node].spawn()?);
        Ok(())
    }

    /// The same, and waits until it serves clients.
    pub fn start_again(&mut self, node: usize) -> Result<(), String> {
        self.start_again_without_waiting(node)?;
        let server = self.servers[node].as_mut().expect("it was started");
        server.wait_until_ready(Instant::now(), READY_WITHIN)
    }

    /// Waits until each serves clients, and shows every node as up and normal.
    pub fn wait_until_all_up(&mut self, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        for server in self.servers.iter_mut().flatten() {
            server.wait_until_ready(Instant::now(), READY_WITHIN)?;
        }
        for node in 0..self.count() {
            loop {
                let shown = self.nodetool(node, &["status"])?;
                if shown.lines().filter(|line| line.starts_with("UN ")).count() == self.count() {
                    break;
                }
                if Instant::now() > end {
                    return Err(format!("after {limit:?} node {} shows\n{shown}", node + 1));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    /// The host id of a node, as another one or itself shows it.
    pub fn host_id(&self, node: usize) -> Result<String, String> {
        let address = format!(" {} ", if self.proxy.is_some() { front(node) } else { address(node) });
        let asked = (0..self.count()).find(|other| self.servers[*other].is_some()).ok_or("no node runs")?;
        let shown = self.nodetool(asked, &["status"])?;
        let line = shown.lines().find(|line| line.contains(&address));
        let id = line.and_then(|line| line.split_whitespace().rev().nth(1));
        id.map(str::to_owned).ok_or_else(|| format!("{address}is not shown:\n{shown}"))
    }

    /// Runs statements on the first node.
    pub fn run_statements(&self, statements: &[&str]) -> Result<(), String> {
        self.run_statements_at(0, statements)
    }

    /// Runs statements on a node.
    pub fn run_statements_at(&self, node: usize, statements: &[&str]) -> Result<(), String> {
        let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
        nodetool::run_statements(self.address(node), &statements).map(drop)
    }

    /// Everything nodetool says, asked at one node, also when it fails.
    pub fn say(&self, node: usize, words: &[&str]) -> Result<Said, String> {
        let said = nodetool::said(self.command(node).args(words), &self.folder.join("said"));
        said.map_err(|error| format!("{error}: {}", words.join(" ")))
    }

    fn command(&self, node: usize) -> Command {
        let (ip, port) = (self.starts[node].ip.to_string(), self.api_port.to_string());
        let mut nodetool = Command::new(&self.binary);
        nodetool.args(["nodetool", "-h", &ip, "-p", &port]);
        nodetool
    }

    /// What nodetool prints, asked at one node.
    pub fn nodetool(&self, node: usize, words: &[&str]) -> Result<String, String> {
        command::run(
            self.command(node).args(words),
            &self.folder.join("nodetool.log"),
            Duration::from_secs(60),
        )
    }

    /// Starts the script that speaks with all of them.
    pub fn script(&self, word: &str, argument: &str) -> Result<Script, String> {
        let settings = Settings { dc: self.dc, ..Settings::quorum(32) };
        python_script(self, "cluster_load", &settings, word, argument)
    }

    /// Makes the table of loads, replicated so; every node has it when this returns.
    pub fn make_table(&self, replication: &str) -> Result<(), String> {
        let mut script = self.script("schema", replication)?;
        expect(&script.line()?, &format!("SCHEMA {} VERSIONS 1", self.count()))?;
        script.finish(UP_WITHIN)
    }

    /// What every program of a driver is told by.
    pub fn environment(&self, command: &mut Command, settings: &Settings, acked: &Path) {
        let all: Vec<usize> = (0..self.count()).collect();
        let contacts = settings.contacts.as_ref().unwrap_or(&all);
        let contacts: Vec<String> = contacts.iter().map(|node| self.starts[*node].ip.to_string()).collect();
        command
            .env("CLUSTER_NODES", contacts.join(","))
            .env("CLUSTER_ACKED", acked)
            .env("CLUSTER_LEVEL", settings.level)
            .env("CLUSTER_PINNED", if settings.is_pinned { "1" } else { "0" })
            .env("CLUSTER_DC", settings.dc)
            .env("CLUSTER_IN_FLIGHT", settings.in_flight.to_string())
            .env("NODE_PORT", self.native_port.to_string());
    }

    /// Every acknowledged key, read at QUORUM; how many they are.
    pub fn check_acked(&self) -> Result<String, String> {
        let mut check = self.script("quorum", &load::acked(&self.folder).display().to_string())?;
        let line = check.line()?;
        let count = line.strip_prefix("CHECKED ");
        count.map(|count| format!("{count} keys")).ok_or_else(|| line.clone())
    }

    /// Stops one in order.
    pub fn stop_one(&mut self, node: usize) -> Result<(), String> {
        self.servers[node].take().map_or(Ok(()), |mut server| server.stop())
    }

    /// Stops all in order.
    pub fn stop(&mut self) -> Result<(), String> {
        let mut outcome = Ok(());
        for node in 0..self.count() {
            outcome = outcome.and(self.stop_one(node));
        }
        outcome
    }
}
