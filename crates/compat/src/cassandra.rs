//! Starts one Apache Cassandra 5.0 on the loopback interface, and runs its offline tools: the measure of what is right.
//!
//! The jars come by Maven from `cassandra/pom.xml`; configuration and options are written here. Waits that only make
//! sense among several nodes are switched off by Cassandra's own properties.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::server::{Server, free_port};
use crate::{packages, paths};

/// Packages of the JDK that Cassandra opens by reflection on Java 17.
const OPENED: &[&str] = &[
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
    "jdk.management.agent/jdk.internal.agent",
];
const EXPORTED: &[&str] = &[
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
];

/// Starts a node that keeps everything in `folder`.
pub fn start(folder: &Path) -> Result<Server, String> {
    start_with(folder, "authenticator: AllowAllAuthenticator\n")
}

/// Which of the two configurations that Cassandra 5.0 is shipped with a node follows where they differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// `cassandra.yaml`: big sstables, memtables of skip lists on the heap.
    Stock,
    /// `cassandra_latest.yaml`: BTI sstables, tries off the heap, unified compaction.
    Latest,
}

/// A node to measure against: how large its heap is, and the processors it keeps to.
pub struct Measured {
    /// The configuration.
    pub profile: Profile,
    /// As Java's `-Xmx` wants it.
    pub heap: String,
    /// As `taskset -c` wants them.
    pub cpus: String,
}

/// Starts a node as an operator would who wants it fast: all memory touched, no assertions of ours.
pub fn start_measured(folder: &Path, measured: &Measured) -> Result<Server, String> {
    let differences = match measured.profile {
        Profile::Stock => STOCK,
        Profile::Latest => LATEST,
    };
    let more = format!("authenticator: AllowAllAuthenticator\n{differences}");
    launch(folder, &more, Some(measured), &Place::alone())
}

/// Starts so many nodes of one cluster, one after the other, each in a folder below this one; they share their ports, and each has an
/// address of its own.
pub fn start_cluster(folder: &Path, count: u8, measured: &Measured) -> Result<Vec<Server>, String> {
    let (native, storage) = (free_port(), free_port());
    let address = |node: u8| Ipv4Addr::new(127, 0, 9, node);
    let more = format!("authenticator: AllowAllAuthenticator\nauto_bootstrap: false\n{STOCK}");
    let place = |node| Place { address: address(node), native, storage, seed: address(1), waits: true };
    let start = |node: u8| launch(&folder.join(format!("node{node}")), &more, Some(measured), &place(node));
    (1..=count).map(start).collect()
}

/// Where a node stands, alone or among others.
struct Place {
    address: Ipv4Addr,
    native: u16,
    storage: u16,
    seed: Ipv4Addr,
    /// Whether it gives others the time to tell it who they are.
    waits: bool,
}

impl Place {
    fn alone() -> Place {
        let here = Ipv4Addr::LOCALHOST;
        Place { address: here, native: free_port(), storage: free_port(), seed: here, waits: false }
    }
}

/// Starts a node with further lines of configuration, the authenticator's among them.
pub fn start_with(folder: &Path, more: &str) -> Result<Server, String> {
    launch(folder, more, None, &Place::alone())
}

fn launch(folder: &Path, more: &str, measured: Option<&Measured>, place: &Place) -> Result<Server, String> {
    let jars = packages::cassandra()?;
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder.join("logs")).map_err(told)?;
    fs::create_dir_all(folder.join("triggers")).map_err(told)?;
    let config = folder.join("cassandra.yaml");
    let mut lines = yaml(folder, place);
    if more.lines().any(|line| line.starts_with("authorizer:")) {
        lines = lines.replace(AUTHORIZER, "");
    }
    fs::write(&config, lines + more).map_err(told)?;
    fs::write(folder.join("logback.xml"), LOGBACK).map_err(told)?;
    let log = folder.join("node.log");
    let out = File::create(&log).map_err(told)?;
    let mut command = java(&jars, folder, &config, measured.map(|measured| measured.cpus.as_str()));
    // Others stand beside the first only to be asked for passwords and certificates.
    let heap = if more.contains("client_encryption_options") { "-Xmx512M" } else { "-Xmx1G" };
    match measured {
        Some(measured) => {
            let (most, least) = (format!("-Xmx{}", measured.heap), format!("-Xms{}", measured.heap));
            command.args([&most, &least]).args(MEASURED_FLAGS);
        }
        None => drop(command.args([heap, "-Xss512k", "-XX:+UseG1GC", "-ea"])),
    }
    match place.waits {
        true => command.args(["-Dcassandra.ring_delay_ms=5000"]),
        false => {
            command.args(["-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.ring_delay_ms=100"])
        }
    };
    command
        .args(["-Dcassandra.superuser_setup_delay_ms=0", "-Dcassandra-foreground=yes"])
        .arg(format!("-Dcassandra.jmx.local.port={}", free_port()))
        .arg(format!("-Dcassandra.triggers_dir={}", folder.join("triggers").display()))
        .arg("org.apache.cassandra.service.CassandraDaemon")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(out.try_clone().map_err(told)?)
        .stderr(out);
    let since = Instant::now();
    let child = command.spawn().map_err(|error| format!("java: {error}"))?;
    let mut server = Server {
        name: "cassandra 5.0.6".into(),
        address: (place.address, place.native).into(),
        folder: folder.into(),
        log,
        child,
        started_in: Duration::ZERO,
        tls: more.contains("client_encryption_options"),
    };
    server.wait_until_ready(since, Duration::from_secs(240))?;
    if more.contains("PasswordAuthenticator") {
        server.wait_until_said("Created default superuser role", since + Duration::from_secs(240))?;
    }
    Ok(server)
}

/// An offline tool of Cassandra, such as `org.apache.cassandra.tools.SSTableExport`.
pub fn tool(folder: &Path, class: &str, arguments: &[String]) -> Result<Command, String> {
    // Otherwise Cassandra refuses what its version 4 cannot read.
    tool_of(folder, "NONE", class, arguments)
}

/// The same in a storage compatibility mode, which says what it may write and read.
pub fn tool_of(folder: &Path, mode: &str, class: &str, arguments: &[String]) -> Result<Command, String> {
    let jars = packages::cassandra()?;
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(told)?;
    let config = folder.join("cassandra.yaml");
    let mode = format!("storage_compatibility_mode: {mode}\n");
    fs::write(&config, yaml(folder, &Place::alone()) + &mode).map_err(told)?;
    fs::write(folder.join("logback.xml"), LOGBACK).map_err(told)?;
    let mut command = java(&jars, folder, &config, None);
    // An exception that was thrown often keeps its text.
    command.args(["-Xmx512M", "-XX:+UseSerialGC", "-XX:-OmitStackTraceInFastThrow"]);
    command.arg(class).args(arguments).current_dir(folder);
    Ok(command)
}

/// The storage engine of an earlier release without a node around it: `cassandra/WriteOlder.java` does what a file says.
/// Nothing of it but the engine runs on Java 17, and of that not the cleaner of mapped memory, as it says on every start.
pub fn older(folder: &Path, release: &str, lines: &Path) -> Result<Command, String> {
    let jars = packages::older_cassandra(release)?;
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(told)?;
    let config = folder.join("cassandra.yaml");
    fs::write(&config, older_yaml(folder)).map_err(told)?;
    fs::write(folder.join("logback.xml"), LOGBACK).map_err(told)?;
    let mut command = opened(folder, &config, None);
    command
        .args(["-Xmx512M", "-XX:+UseSerialGC", "-cp"])
        .arg(jars.join("*"))
        .arg(paths::resources().join("cassandra/WriteOlder.java"))
        .arg(lines)
        .current_dir(folder);
    Ok(command)
}

fn java(jars: &Path, folder: &Path, config: &Path, cpus: Option<&str>) -> Command {
    let mut command = opened(folder, config, cpus);
    command
        .arg(format!("-javaagent:{}", agent(jars).display()))
        .args(["-Djava.net.preferIPv4Stack=true", "-Dio.netty.tryReflectionSetAccessible=true"])
        .arg("-cp")
        .arg(jars.join("*"));
    command
}

/// Java 17, opened as Cassandra needs it, with the files of a folder.
fn opened(folder: &Path, config: &Path, cpus: Option<&str>) -> Command {
    let mut command = match cpus {
        Some(cpus) => {
            let mut command = Command::new("taskset");
            command.args(["-c", cpus, "java"]);
            command
        }
        None => Command::new("java"),
    };
    command.arg("-Djdk.attach.allowAttachSelf=true");
    for package in OPENED {
        command.arg(format!("--add-opens={package}=ALL-UNNAMED"));
    }
    for package in EXPORTED {
        command.arg(format!("--add-exports={package}=ALL-UNNAMED"));
    }
    command
        .arg(format!("-Dcassandra.config=file://{}", config.display()))
        .arg(format!("-Dcassandra.storagedir={}", folder.display()))
        .arg(format!("-Dcassandra.logdir={}", folder.join("logs").display()))
        .arg(format!("-Dlogback.configurationFile=file://{}", folder.join("logback.xml").display()));
    command
}

/// The memory meter that Cassandra wants as a Java agent.
fn agent(jars: &Path) -> PathBuf {
    let found = fs::read_dir(jars).ok().and_then(|entries| {
        entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("jamm-")))
    });
    found.unwrap_or_else(|| jars.join("jamm.jar"))
}

fn yaml(folder: &Path, place: &Place) -> String {
    let Place { address, native, storage, seed, .. } = place;
    let any = any_yaml(folder, *address, &format!("{seed}:{storage}"));
    format!(
        "{any}num_tokens: 16\nstorage_port: {storage}\n\
         native_transport_port: {native}\nstart_native_transport: true\n\
         commitlog_sync_period: 10000ms\n\
         {AUTHORIZER}\
         read_request_timeout: 20000ms\nwrite_request_timeout: 20000ms\n\
         range_request_timeout: 20000ms\ntruncate_request_timeout: 60000ms\n"
    )
}

fn older_yaml(folder: &Path) -> String {
    any_yaml(folder, Ipv4Addr::LOCALHOST, "127.0.0.1") + "num_tokens: 1\ncommitlog_sync_period_in_ms: 10000\n"
}

const AUTHORIZER: &str = "authorizer: AllowAllAuthorizer\n";

/// What every release understands.
fn any_yaml(folder: &Path, address: Ipv4Addr, seeds: &str) -> String {
    let at = folder.display();
    format!(
        "cluster_name: 'compat'\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
         listen_address: {address}\nrpc_address: {address}\nendpoint_snitch: SimpleSnitch\n\
         seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters:\n      \
         - seeds: '{seeds}'\n\
         data_file_directories:\n  - {at}/data\ncommitlog_directory: {at}/commitlog\nhints_directory: {at}/hints\n\
         saved_caches_directory: {at}/saved_caches\ncdc_raw_directory: {at}/cdc_raw\n\
         commitlog_sync: periodic\nauto_snapshot: false\n"
    )
}

/// Flags of the Java 17 that Cassandra 5.0 ships, as far as they matter to speed.
const MEASURED_FLAGS: &[&str] = &[
    "-Xss256k",
    "-XX:+AlwaysPreTouch",
    "-XX:+UseTLAB",
    "-XX:+ResizeTLAB",
    "-XX:+PerfDisableSharedMem",
    "-XX:+UseG1GC",
    "-XX:+ParallelRefProcEnabled",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:MaxTenuringThreshold=2",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1NewSizePercent=50",
    "-XX:G1RSetUpdatingPauseTimePercent=5",
    "-XX:MaxGCPauseMillis=300",
    "-XX:InitiatingHeapOccupancyPercent=70",
    "-ea",
];
const STOCK: &str = "storage_compatibility_mode: CASSANDRA_4\nmemtable_allocation_type: heap_buffers\n\
     uuid_sstable_identifiers_enabled: false\ncommitlog_disk_access_mode: legacy\ntrickle_fsync: false\n";
const LATEST: &str = "storage_compatibility_mode: NONE\nmemtable:\n  configurations:\n    skiplist:\n      \
     class_name: SkipListMemtable\n    trie:\n      class_name: TrieMemtable\n    default:\n      inherits: trie\n\
     memtable_allocation_type: offheap_objects\nsstable:\n  selected_format: bti\ndefault_compaction:\n  \
     class_name: UnifiedCompactionStrategy\n  parameters:\n    scaling_parameters: T4\n    \
     max_sstables_to_compact: 64\n    target_sstable_size: 1GiB\n    sstable_growth: 0.3333333333333333\n    \
     min_sstable_size: 100MiB\nuuid_sstable_identifiers_enabled: true\ncommitlog_disk_access_mode: auto\n\
     trickle_fsync: true\ncolumn_index_size: 4KiB\nkey_cache_size: 0MiB\n";

const LOGBACK: &str = "<configuration>\n  <appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\">\n    \
    <target>System.err</target>\n    <encoder><pattern>%-5level %date{ISO8601} %msg%n</pattern></encoder>\n  </appender>\n  \
    <logger name=\"org.apache.cassandra.auth\" level=\"INFO\"/>\n  <root level=\"WARN\"><appender-ref ref=\"OUT\"/></root>\n</configuration>\n";
