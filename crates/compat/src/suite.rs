//! The list of suites, the options, and the summary: one line per test as Cargo's own runner prints it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use crate::certificates::Certificates;
use crate::messina::Start;
use crate::server::{Server, free_port};
use crate::{
    bad_days, bad_input, cassandra, catalogue, cluster, cql, cqlsh, damage, drivers, kill_loop, nodetool,
    paths, protocol, python, renewal, sstables, stress, texts, ycsb,
};

/// What `--help` prints.
pub const HELP: &str = "\
compat [SUITE…] [OPTIONS]      runs real clients against a node; without a SUITE, all that apply

suites:
  python      the stock Python driver: v4 and v5, with and without LZ4; types, statements, paging, mistakes, schema
  drivers     every driver: java4 java3 gocql1 gocql2 nodejs pycassandra pyscylla scylla, each a suite by name, too;
              types, mistakes, paging, schema changes, batches, events, metadata, TLS, passwords, client
              certificates; scylla is Rust's, shard-aware, with Python's shard-aware paging
  driver-suites  what Go's drivers, versions 1 and 2, themselves test of conditions, counters, batches and passwords; not
              with --quick
  restart     one driver session across restarts and a kill: prepared statements come back, nothing is lost
  cql         files of statements, crates/compat/cql/*.cql, with Apache Cassandra's answers
  texts       texts, JSON and literals of every type at its edges, beside a running Apache Cassandra; with --quick against
              its recorded answers
  cqlsh       cqlsh from PyPI: create, insert, select, DESCRIBE, COPY TO and FROM
  protocol    raw sockets, by every version: events, custom payloads, prepared statements under changes of the schema
  certificates  keys and certificates renewed while the node runs; clients' certificates; the load tools by TLS
  ycsb        YCSB 0.17.0 in CloudSuite's set-up, workloads a to f; messina ycsb beside it, each verifying what the other wrote
  stress      messina cassandra-stress beside the Java tool of Cassandra 3.11.5, each reading what the other wrote; its bytes
              recomputed in Java; the published lines; CloudSuite's two scripts
  catalogue   messina bench run file-catalogue and messina catalogue: import, comparison, load, quotas
  cluster     processes, one cluster: drivers at QUORUM through a kill, events, all killed at once, nodetool; what clients of
              simulated lightweight transactions saw, checked by the Go package porcupine, too
  kill        kill -9 under load, in periodic and in batch mode, again and again
  bad-input   raw sockets, plain and TLS: broken frames, silent clients, taken ports, a folder in use
  bad-days    under load: 10,000 silent connections, bombs, no descriptors, SIGTERM, full disks, a read-only folder
  damage      files damaged or lost between two starts; a closed terminal
  nodetool    nodetool's screens, compared with Apache Cassandra's own
  sstables    files of a node, read by Cassandra and its tools, and Cassandra's files, of 3.11 to 5.0, read by a node

options:
  --smp LIST          shard counts, such as 1,2,7 (default 2)
  --against WHAT      messina (default) or cassandra
  --binary PATH       the messina binary (default: release build in the target folder)
  --older PATH        cluster: another build, from which the rolling restart goes to the tested one
  --rows N            rows of the paging suite (default 100000)
  --copy-rows N       rows that cqlsh copies (default 10000)
  --cycles N          kills of the kill suite (default 100)
  --records N         records and operations of YCSB (default 10000)
  --seed N            what the suite of sstables writes (default 1)
  --long              cluster: the long runs of kills and of transactions, too, of 15 minutes each
  --minutes N         cluster: the long runs, of so many minutes
  --quick             small numbers, for every commit
  --only WORD         only tests of Python, the drivers, cluster, stress, certificates and protocol, files of statements, bad
                      days, modes of the kill suite, or tables of sstables whose name holds WORD
  --at HOST:PORT      cql, texts, protocol: a server that runs already
  --peer HOST:PORT    texts: an Apache Cassandra that runs already
  --bless             nodetool --against cassandra: write its shapes to crates/compat/nodetool/shapes.txt;
                      cql: write answers into the files, as crates/compat/src/cql/mod.rs says
  --refuse-io-uring   the node runs where io_uring is refused, as in many containers
  --serve             only start the servers of the drivers' suites, until standard input ends
  --bring             only bring the client packages
  --with-cassandra    with --bring: the jars of Apache Cassandra, too";

/// What the command line asked for.
pub struct Options {
    /// Suites by name, in order.
    pub suites: Vec<String>,
    /// Shard counts.
    pub smp: Vec<u16>,
    /// Whether the server is Apache Cassandra.
    pub against_cassandra: bool,
    /// The binary under test.
    pub binary: PathBuf,
    /// Rows of the paging suite.
    pub rows: u64,
    /// Rows that cqlsh copies.
    pub copy_rows: u64,
    /// Kills of the kill suite.
    pub cycles: u64,
    /// Records and operations of YCSB.
    pub records: u64,
    /// What the suite of sstables writes.
    pub seed: u64,
    /// Minutes of the cluster's long run of kills, if it is wished for.
    pub long: Option<u64>,
    /// Small numbers.
    pub quick: bool,
    /// Only tests whose name holds this, in the suites that know it.
    pub only: Option<String>,
    /// A server that runs already, for the suites of statements and of raw protocol.
    pub at: Option<SocketAddr>,
    /// Apache Cassandra that runs already, for the suite of texts.
    pub peer: Option<SocketAddr>,
    /// Write answers into the files of statements.
    pub bless: bool,
    /// The node runs under a filter that refuses io_uring.
    pub refuse_io_uring: bool,
    /// Another build, from which a rolling restart goes to the tested one.
    pub older: Option<PathBuf>,
    /// Only start servers.
    pub serve: bool,
    /// Only bring the client packages.
    pub bring_only: bool,
    /// Bring the jars of Apache Cassandra, too.
    pub with_cassandra: bool,
}

const ALL: &[&str] = &[
    "bad-input",
    "bad-days",
    "damage",
    "cql",
    "texts",
    "nodetool",
    "python",
    "restart",
    "protocol",
    "certificates",
    "cqlsh",
    "ycsb",
    "stress",
    "catalogue",
    "cluster",
    "kill",
    "sstables",
    "driver-suites",
];
/// Those that are about this database's own processes and files.
const OF_MESSINA: [&str; 7] =
    ["bad-input", "bad-days", "damage", "certificates", "cluster", "kill", "sstables"];

impl Options {
    /// Reads the command line; an error names the word that was not understood.
    pub fn parse(words: &[String]) -> Result<Options, String> {
        let mut options = Options {
            suites: Vec::new(),
            smp: vec![2],
            against_cassandra: false,
            binary: paths::target().join("release/messina"),
            rows: 100_000,
            copy_rows: 10_000,
            cycles: 100,
            records: 10_000,
            seed: 1,
            long: None,
            quick: false,
            only: None,
            at: None,
            peer: None,
            bless: false,
            refuse_io_uring: false,
            older: None,
            serve: false,
            bring_only: false,
            with_cassandra: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--smp" => options.smp = list(value()?)?,
                "--against" => options.against_cassandra = value()? == "cassandra",
                "--binary" => options.binary = value()?.into(),
                "--rows" => options.rows = number(value()?)?,
                "--copy-rows" => options.copy_rows = number(value()?)?,
                "--cycles" => options.cycles = number(value()?)?,
                "--records" => options.records = number(value()?)?,
                "--seed" => options.seed = number(value()?)?,
                "--long" => drop(options.long.get_or_insert(15)),
                "--minutes" => options.long = Some(number(value()?)?),
                "--quick" => {
                    options.quick = true;
                    options.rows = 4_000;
                    options.copy_rows = 1_000;
                    options.cycles = 3;
                    options.records = 1_000;
                }
                "--only" => options.only = Some(value()?.clone()),
                "--at" => options.at = Some(address(value()?)?),
                "--peer" => options.peer = Some(address(value()?)?),
                "--bless" => options.bless = true,
                "--older" => options.older = Some(value()?.into()),
                "--refuse-io-uring" => options.refuse_io_uring = true,
                "--serve" => options.serve = true,
                "--bring" => options.bring_only = true,
                "--with-cassandra" => options.with_cassandra = true,
                "drivers" => options.suites.extend(drivers::NAMES.iter().map(|name| (*name).to_owned())),
                suite if ALL.contains(&suite) || drivers::NAMES.contains(&suite) => {
                    options.suites.push(suite.into());
                }
                other => return Err(format!("unknown word {other}; see --help")),
            }
        }
        if options.suites.is_empty() {
            let applies = |suite: &&&str| !(options.against_cassandra && OF_MESSINA.contains(suite));
            let all = ALL.iter().filter(applies).chain(drivers::NAMES);
            options.suites = all.map(|suite| (*suite).to_owned()).collect();
        }
        Ok(options)
    }

    /// A fresh folder for one suite.
    pub fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = paths::scratch().join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// A running server of the chosen kind with an empty folder.
    pub fn server(&self, name: &str, shards: u16) -> Result<Server, String> {
        let folder = self.folder(name)?;
        if self.against_cassandra { cassandra::start(&folder) } else { self.start(folder, shards).run() }
    }

    /// A running server of the chosen kind with further lines of configuration.
    pub fn server_with(&self, name: &str, shards: u16, yaml: String) -> Result<Server, String> {
        let folder = self.folder(name)?;
        if self.against_cassandra {
            return cassandra::start_with(&folder, &yaml);
        }
        let mut start = self.start(folder, shards);
        start.yaml = yaml;
        start.run()
    }

    /// A running server that speaks only TLS and asks for a password; what is shard-aware has a port of its own for TLS.
    pub fn secure_server(
        &self,
        name: &str,
        shards: u16,
        certificates: &Certificates,
    ) -> Result<Server, String> {
        let mut yaml = certificates.yaml(false) + "authenticator: PasswordAuthenticator\n";
        if !self.against_cassandra {
            yaml += &format!("native_shard_aware_transport_port_ssl: {}\n", free_port());
        }
        self.server_with(name, shards, yaml)
    }

    /// How a node is started in this folder.
    pub fn start(&self, folder: PathBuf, shards: u16) -> Start {
        let mut start = Start::new(&self.binary, folder, shards);
        start.refuse_io_uring = self.refuse_io_uring;
        start
    }
}

/// One test and how it ended.
pub struct Outcome {
    /// `suite::test`.
    pub name: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

impl Outcome {
    /// Whether it passed.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }
}

/// Collects the outcomes of one run and prints each as it comes.
pub struct Report {
    outcomes: Vec<Outcome>,
}

impl Report {
    /// Runs one test and prints its line.
    pub fn test(&mut self, name: &str, body: impl FnOnce() -> Result<String, String>) {
        let since = Instant::now();
        let result = body();
        let seconds = since.elapsed().as_secs_f64();
        let failure = match result {
            Ok(note) => {
                let note = if note.is_empty() { note } else { format!(" ({note})") };
                println!("test {name} ... ok [{seconds:.1} s]{note}");
                None
            }
            Err(error) => {
                println!("test {name} ... FAILED [{seconds:.1} s]\n{error}\n");
                Some(error)
            }
        };
        self.outcomes.push(Outcome { name: name.into(), failure });
    }

    /// Records a test that another program ran and that passed.
    pub fn passed(&mut self, name: String, note: &str) {
        println!("test {name} ... ok {note}");
        self.outcomes.push(Outcome { name, failure: None });
    }

    /// Records a test that another program ran and that failed.
    pub fn failed(&mut self, name: String, why: String) {
        println!("test {name} ... FAILED\n{why}");
        self.outcomes.push(Outcome { name, failure: Some(why) });
    }
}

/// Runs the chosen suites for every shard count.
pub fn run_all(options: &Options) -> Result<Vec<Outcome>, String> {
    if !options.against_cassandra && !options.binary.exists() {
        return Err(format!("{} does not exist; build it first", options.binary.display()));
    }
    let mut report = Report { outcomes: Vec::new() };
    let counts = if options.against_cassandra { &[1][..] } else { &options.smp[..] };
    let programs: Vec<&str> = options.suites.iter().map(String::as_str).collect();
    let programs: Vec<&str> = programs.into_iter().filter(|suite| drivers::NAMES.contains(suite)).collect();
    for &shards in counts {
        for suite in &options.suites {
            match suite.as_str() {
                "python" => python::run(options, shards, &mut report),
                "restart" => python::run_restart(options, shards, &mut report),
                "cql" => cql::run(options, shards, &mut report),
                "texts" => texts::run(options, shards, &mut report),
                "protocol" => protocol::run(options, shards, &mut report),
                "certificates" => renewal::run(options, shards, &mut report),
                "cqlsh" => cqlsh::run(options, shards, &mut report),
                "ycsb" => ycsb::run(options, shards, &mut report),
                "stress" => stress::run(options, shards, &mut report),
                "catalogue" => catalogue::run(options, shards, &mut report),
                "cluster" => cluster::run(options, shards, &mut report),
                "kill" => kill_loop::run(options, shards, &mut report),
                "nodetool" => nodetool::run(options, shards, &mut report),
                "damage" => damage::run(options, shards, &mut report),
                // They take longer to compile than to run.
                "driver-suites" if !options.quick => drivers::own_tests::run(options, shards, &mut report),
                "bad-input" => bad_input::run(options, shards, &mut report),
                "bad-days" => bad_days::run(options, shards, &mut report),
                _ => {}
            }
        }
        if !programs.is_empty() {
            drivers::run(options, shards, &programs, &mut report);
        }
    }
    if options.suites.iter().any(|suite| suite == "sstables") {
        sstables::run(options, &mut report);
    }
    Ok(report.outcomes)
}

/// The last line, as Cargo's runner words it, after the failures.
pub fn summary(outcomes: &[Outcome]) -> String {
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.passed()).collect();
    let mut text = String::new();
    if !failed.is_empty() {
        text.push_str("failures:\n");
        for outcome in &failed {
            text.push_str(&format!("    {}\n", outcome.name));
        }
        text.push('\n');
    }
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    let passed = outcomes.len() - failed.len();
    text + &format!("compat result: {verdict}. {passed} passed; {} failed", failed.len())
}

fn list(text: &str) -> Result<Vec<u16>, String> {
    text.split(',').map(|part| part.parse().map_err(|_| format!("{part} is not a shard count"))).collect()
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text} is not an address and a port"))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read() {
        let options = parse("python --smp 1,7 --rows 5").expect("all words are known");
        assert_eq!((options.suites, options.smp, options.rows), (vec!["python".to_owned()], vec![1, 7], 5));
        assert!(parse("pythn").is_err());
        assert!(parse("--rows many").is_err());
        assert!(parse("--rows").is_err());
    }

    #[test]
    fn a_failure_is_named_in_the_summary() {
        let outcomes = [
            Outcome { name: "a".into(), failure: None },
            Outcome { name: "b".into(), failure: Some("why".into()) },
        ];
        assert_eq!(summary(&outcomes), "failures:\n    b\n\ncompat result: FAILED. 1 passed; 1 failed");
        assert_eq!(summary(&outcomes[..1]), "compat result: ok. 1 passed; 0 failed");
    }
}
