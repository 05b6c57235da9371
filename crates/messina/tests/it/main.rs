//! The binary as a user runs it: a node, what fills it, and `messina import` from its own snapshot into another table.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may meet the operating system"
)]

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_messina");
/// How long a debug build may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A node in a folder of its own, whose data folder is relative. Ended and removed with the test.
struct Node {
    folder: PathBuf,
    child: Child,
    native: u16,
    rest: u16,
}

impl Node {
    fn start(name: &str) -> Node {
        let folder = std::env::temp_dir().join(format!("messina-it-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        // All at once, so that they differ.
        let taken = [(); 5].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
        let [native, rest, sharded, metrics, storage] =
            taken.each_ref().map(|taken| taken.local_addr().expect("bound").port());
        drop(taken);
        let config = format!(
            "cluster_name: it\nlisten_address: 127.0.0.1\nrpc_address: 127.0.0.1\nnative_transport_port: {native}\n\
             api_port: {rest}\nnative_shard_aware_transport_port: {sharded}\nprometheus_port: {metrics}\n\
             storage_port: {storage}\ndata_file_directories:\n  - data\ncommitlog_directory: commitlog\n"
        );
        fs::write(folder.join("messina.yaml"), config).expect("written");
        let log = fs::File::create(folder.join("node.log")).expect("made");
        let child = Command::new(BINARY)
            .args(["node", "--overprovisioned", "--memory", "512M", "--smp", "2", "--config", "messina.yaml"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("open"))
            .stderr(log)
            .spawn()
            .expect("the binary runs");
        let mut node = Node { folder, child, native, rest };
        let begun = Instant::now();
        while [native, rest].iter().any(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_err()) {
            let ended = node.child.try_wait().expect("it is ours");
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "no start: {ended:?}\n{}", node.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        node
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("node.log")).unwrap_or_default()
    }

    /// Runs the binary in the node's folder.
    fn run(&self, words: &[&str]) -> (bool, String) {
        let output = Command::new(BINARY).args(words).current_dir(&self.folder).output();
        let Output { status, stdout, stderr } = output.expect("the binary runs");
        (
            status.success(),
            format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)),
        )
    }

    fn stress(&self, command: &str, keyspace: &str) -> (bool, String) {
        let (port, schema) = (format!("native={}", self.native), format!("keyspace={keyspace}"));
        let words = ["cassandra-stress", command, "n=200", "no-warmup", "-node", "127.0.0.1", "-port", &port];
        let more = ["-rate", "threads=2", "-schema", &schema];
        self.run(&[&words[..], &more[..]].concat())
    }

    fn nodetool(&self, words: &[&str]) {
        let port = self.rest.to_string();
        let (well, printed) = self.run(&[&["nodetool", "-p", &port], words].concat());
        assert!(well, "nodetool {words:?}: {printed}");
    }

    fn import(&self, words: &[&str]) -> (bool, String) {
        let port = self.rest.to_string();
        self.run(&[&["import", "-p", &port], words].concat())
    }

    /// The folder of a table, from the node's folder on.
    fn table(&self, keyspace: &str) -> String {
        let tables = fs::read_dir(self.folder.join("data").join(keyspace)).expect("there");
        let names = tables.map(|entry| entry.expect("readable").file_name().into_string().expect("text"));
        let name = names.into_iter().find(|name| name.starts_with("standard1-")).expect("the table");
        format!("data/{keyspace}/{name}")
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join(folder)).expect("there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("readable"))
            .filter(|entry| entry.path().is_file())
            .map(|entry| entry.file_name().into_string().expect("text"))
            .collect();
        names.sort();
        names
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn import_loads_a_snapshot_and_takes_nothing_that_a_table_lives_on() {
    let node = Node::start("import");
    for (command, keyspace) in [("write", "source"), ("write", "target")] {
        let (well, printed) = node.stress(command, keyspace);
        assert!(well, "{printed}\n{}", node.log());
    }
    node.nodetool(&["flush"]);
    node.nodetool(&["snapshot", "-t", "monday", "source"]);
    let (source, target) = (node.table("source"), node.table("target"));
    let live = node.files(&source);
    assert!(live.iter().any(|name| name.ends_with("-Data.db")), "{live:?}");

    let snapshot = format!("{source}/snapshots/monday");
    let (well, printed) = node.import(&["--table", "target.standard1", &snapshot]);
    assert!(well && printed.contains("200 partitions"), "{printed}\n{}", node.log());
    let (well, printed) = node.stress("read", "target");
    assert!(well, "{printed}");

    // The node knows its folders by relative names, the command names them absolutely, and by links.
    let link = node.folder.join("link");
    std::os::unix::fs::symlink(Path::new(&source), &link).expect("made");
    for (table, folder) in
        [("target", &*source), ("source", &*source), ("source", "link"), ("target", "link")]
    {
        let (well, printed) = node.import(&["--move", "--table", &format!("{table}.standard1"), folder]);
        assert!(!well && printed.contains("is the folder of"), "{folder} into {table}: {printed}");
        assert_eq!(node.files(&source), live);
    }

    let upload = node.folder.join(&target).join("upload");
    fs::create_dir_all(&upload).expect("made");
    for name in node.files(&snapshot).iter().filter(|name| name.contains("-bti-") || name.contains("-big-")) {
        fs::copy(node.folder.join(&snapshot).join(name), upload.join(name)).expect("copied");
    }
    node.nodetool(&["refresh", "target", "standard1"]);
    assert_eq!(node.files(&format!("{target}/upload")), Vec::<String>::new());
    for keyspace in ["source", "target"] {
        let (well, printed) = node.stress("read", keyspace);
        assert!(well, "{printed}");
    }
}
