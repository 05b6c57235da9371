//! Whole runs against a node in a simulated world: what is written is there, what is wrong is said, and no wait is hidden.

#![allow(clippy::disallowed_methods, reason = "profiles are files of these tests' own")]

mod ends;
mod fake;
mod files;
mod transcripts;
mod verify;

use loadtools::output::Output;
use node::config::{CommitlogSync, Config};
use node::{Ready, Reporter, main_closure};
use runtime::sim::{NodeId, SimConfig, Task, World};
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stress::graph::Notes;
use stress::knee::Goal;
use stress::report::Style;
use stress::run::Extras;
use stress::settings::{read, split};

/// How long a run may take on the world's clock.
const PATIENCE: Duration = Duration::from_secs(600);

/// A node, and a machine that runs the tool.
struct Stage {
    world: World,
    node: NodeId,
    client: NodeId,
    /// What the next runs look for.
    goal: Option<Goal>,
    /// How the node syncs its log, if not as it does anyway.
    sync: Option<CommitlogSync>,
}

/// How a run ended and what it said.
struct Ended {
    success: Result<bool, String>,
    said: String,
    complaints: Vec<String>,
    /// What each run has for its charts.
    notes: Vec<Notes>,
    /// Whether every file is whole.
    is_whole: bool,
}

impl Ended {
    /// The value of all after a label of the results.
    fn result(&self, label: &str) -> String {
        let line = self
            .said
            .lines()
            .find(|line| line.starts_with(label))
            .unwrap_or_else(|| panic!("{label}: {}", self.said));
        line.split_once(": ").expect("a value").1.trim().to_owned()
    }

    /// The number that this value begins with.
    fn number(&self, label: &str) -> f64 {
        let text = self.result(label).replace(',', "");
        text.split(' ').next().expect("a word").parse().expect("a number")
    }

    /// A number of the line with the times from the intended or the actual start.
    fn milliseconds(&self, line: &str, what: &str) -> f64 {
        let text = self.result(line);
        let part = text.split(", ").find(|part| part.starts_with(what)).expect("a part");
        part.split(' ').nth(1).expect("a number").parse().expect("a number")
    }
}

/// Lines and complaints, once there are no more.
type Told = Arc<Mutex<Option<(String, Vec<String>)>>>;

/// A machine of its own that runs the tool as its process does: from its words to its status.
struct Machine {
    node: NodeId,
    /// What it has said in the end, on standard output and on standard error.
    told: Told,
}

impl Stage {
    fn new(seed: u64) -> Stage {
        Stage::with_log(seed, None)
    }

    /// Nothing is acknowledged that is not on the disk.
    fn with_synced_log(seed: u64) -> Stage {
        Stage::with_log(seed, Some(CommitlogSync::Batch))
    }

    fn with_log(seed: u64, sync: Option<CommitlogSync>) -> Stage {
        let mut world = World::new(seed, SimConfig::calm());
        let ip: IpAddr = "10.0.0.1".parse().expect("an address");
        let node = world.add_node(ip);
        let client = world.add_client("10.0.9.9".parse().expect("an address"));
        let mut stage = Stage { world, node, client, goal: None, sync };
        stage.boot();
        stage
    }

    fn boot(&mut self) {
        let ip: IpAddr = "10.0.0.1".parse().expect("an address");
        let mut config = Config::standard(PathBuf::from("/data"));
        (config.listen_address, config.rpc_address) = (ip, ip);
        if let Some(sync) = self.sync {
            config.commitlog_sync = sync;
        }
        let ready: Arc<Mutex<Option<Ready>>> = Arc::default();
        let told = ready.clone();
        let reporter = Reporter {
            ready: Arc::new(move |ready| *told.lock().expect("one thread") = Some(ready.clone())),
            failed: Arc::new(|text| panic!("the node does not start: {text}")),
        };
        self.world.boot(self.node, 2, main_closure(config, reporter));
        assert!(self.world.run_until(|_| ready.lock().expect("one thread").is_some(), PATIENCE));
    }

    /// Begins to run a command line.
    fn start(&mut self, line: &str) -> Task<Ended> {
        self.start_whole(&format!("{line} -node 10.0.0.1"))
    }

    /// The same, of a line that names its nodes.
    fn start_whole(&mut self, line: &str) -> Task<Ended> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let settings = split(&words).and_then(read).expect(line);
        let extras = Extras { style: Style::Current, goal: self.goal.clone(), loaders: 1 };
        self.world.spawn(self.client, async move {
            let output = Rc::new(Output::in_memory());
            let ended = stress::run::run(settings, output.clone(), extras).await;
            let (success, notes) = match ended {
                Ok(ended) => (Ok(ended.success), ended.notes),
                Err(error) => (Err(error.to_string()), Vec::new()),
            };
            let (said, complaints) = (output.kept().unwrap_or_default(), output.complaints());
            Ended { success, said, complaints, notes, is_whole: output.is_whole() }
        })
    }

    fn end(&mut self, task: &mut Task<Ended>) -> Ended {
        let done = self.world.run_until(|_| task.done(), PATIENCE);
        assert!(done, "the run does not end: {:?}", self.world.log_lines());
        task.take().expect("it is done")
    }

    /// Begins to run a command line on a machine of its own.
    fn machine(&mut self, address: &str, line: &str) -> Machine {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let node = self.world.add_node(address.parse().expect("an address"));
        let told = Told::default();
        let teller = told.clone();
        let main: runtime::Main = Arc::new(move || {
            let (words, told) = (words.clone(), teller.clone());
            Box::pin(async move {
                let output = Rc::new(Output::in_memory());
                let status = stress::run_to(&words, &output).await.expect("words that run");
                *told.lock().expect("one thread") =
                    Some((output.kept().unwrap_or_default(), output.complaints()));
                status
            })
        });
        self.world.boot(node, 1, main);
        Machine { node, told }
    }

    /// The status of the machine's process when it has ended, and what it said.
    fn status(&mut self, machine: Machine) -> (i32, Ended) {
        let node = machine.node;
        assert!(self.world.run_until(|world| !world.alive(node), PATIENCE), "the run does not end");
        let status = self.world.exit_code(node).expect("it ended by itself");
        let (said, complaints) = machine.told.lock().expect("one thread").take().expect("it has ended");
        let success = Ok(status != 1);
        (status, Ended { success, said, complaints, notes: Vec::new(), is_whole: true })
    }

    /// Runs a statement.
    fn run_cql(&mut self, text: &'static str) {
        let mut task = self.world.spawn(self.client, async move {
            let address = "10.0.0.1:9042".parse().expect("an address");
            let options = client::Options::new(protocol::envelope::Version::V4);
            let connection = client::Connection::connect(address, &options).await?;
            let parameters = protocol::request::Parameters::at(types::Consistency::One);
            connection.query(text, parameters).await.map(|_| ())
        });
        assert!(self.world.run_until(|_| task.done(), PATIENCE));
        task.take().expect("it is done").expect(text);
    }

    /// The addresses of those who are connected, this question's own among them.
    fn clients(&mut self) -> Vec<String> {
        let mut task = self.world.spawn(self.client, async move {
            let address = "10.0.0.1:9042".parse().expect("an address");
            let options = client::Options::new(protocol::envelope::Version::V4);
            let connection = client::Connection::connect(address, &options).await?;
            let parameters = protocol::request::Parameters::at(types::Consistency::One);
            connection.query("SELECT address FROM system_views.clients", parameters).await
        });
        assert!(self.world.run_until(|_| task.done(), PATIENCE));
        let rows = task.take().expect("it is done").expect("the clients").rows();
        let address = |row: &[Option<Vec<u8>>]| {
            let bytes: [u8; 4] = row[0].as_deref().expect("a value").try_into().expect("four bytes");
            IpAddr::from(bytes).to_string()
        };
        rows.rows.iter().map(|row| address(row)).collect()
    }

    fn run(&mut self, line: &str) -> Ended {
        let mut task = self.start(line);
        self.end(&mut task)
    }
}

/// A command may have several runs, as `messina bench run` has: those that are over have no connections.
#[test]
fn connections_end_with_their_run_on_every_shard() {
    let mut stage = Stage::new(12);
    let machine = stage.world.add_node("10.0.9.7".parse().expect("an address"));
    let runs: Arc<Mutex<u32>> = Arc::default();
    let counted = runs.clone();
    let main: runtime::Main = Arc::new(move || {
        let counted = counted.clone();
        Box::pin(async move {
            if runtime::shard().0 > 0 {
                stress::fleet::stay().await;
                return 0;
            }
            for line in ["write n=200 no-warmup -rate threads=4", "read n=200 no-warmup -rate threads=4"] {
                let words: Vec<String> =
                    format!("{line} -node 10.0.0.1").split(' ').map(str::to_owned).collect();
                let settings = split(&words).and_then(read).expect(line);
                let extras = Extras { style: Style::Current, goal: None, loaders: 2 };
                let ended = stress::run::run(settings, Rc::new(Output::in_memory()), extras).await;
                assert!(ended.expect(line).success);
                *counted.lock().expect("one thread") += 1;
            }
            runtime::sleep(Duration::from_secs(3600)).await;
            0
        })
    });
    stage.world.boot(machine, 2, main);
    assert!(stage.world.run_until(|_| *runs.lock().expect("one thread") == 2, PATIENCE));
    stage.world.run_for(Duration::from_secs(1));
    assert_eq!(stage.clients(), ["10.0.9.9"], "only who asks");
}

#[test]
fn what_is_written_is_read_and_compared() {
    let mut stage = Stage::new(1);
    let written = stage.run("write n=400 -rate threads=7");
    assert_eq!(written.success, Ok(true), "{:?}", written.complaints);
    assert_eq!(written.result("Total partitions"), "400 [WRITE: 400]");
    assert!(written.said.contains("\nWarming up WRITE with 100 iterations...\n"), "{}", written.said);
    assert!(written.said.trim_end().ends_with("\nEND"), "{}", written.said);
    let read = stage.run("read n=400 no-warmup -pop seq=1..400 -rate threads=3");
    assert_eq!(
        (read.success.clone(), read.result("Total errors")),
        (Ok(true), "0 [READ: 0]".into()),
        "{:?}",
        read.complaints
    );
    let sliced = stage.run("read n=50 no-warmup -pop seq=1..400 -col slice -rate threads=3");
    assert_eq!(sliced.success, Ok(true), "{:?}", sliced.complaints);
    let unprepared = stage.run("mixed n=100 no-warmup ratio(read=1,write=1) -pop dist=uniform(1..400) -rate threads=3 -mode unprepared cql3");
    assert_eq!(unprepared.success, Ok(true), "{:?}", unprepared.complaints);
    // Eight workers share connections that each carry one request: most of them wait for their turn.
    let narrow = stage.run("read n=400 no-warmup -pop seq=1..400 -rate threads=8 -mode native cql3 connectionsPerHost=1 maxPending=1");
    assert_eq!(narrow.result("Total errors"), "0 [READ: 0]", "{:?}", narrow.complaints);
    assert_eq!(narrow.success, Ok(true), "{:?}", narrow.complaints);
    let once = stage.run("read n=1000 no-warmup -pop seq=1..400 no-wrap -rate threads=3");
    assert_eq!(once.result("Total partitions"), "400 [READ: 400]");
}

#[test]
fn a_row_that_is_not_there_or_is_another_ends_the_run() {
    let mut stage = Stage::new(2);
    stage.run("write n=20 no-warmup -rate threads=2");
    let missing = stage.run("read n=30 no-warmup -pop seq=1..30 -rate threads=1");
    assert_eq!(missing.success, Ok(false));
    assert!(missing.said.trim_end().ends_with("FAILURE"), "{}", missing.said);
    let complaint = missing.complaints.last().expect("a complaint");
    assert!(complaint.ends_with("]: Data returned was not validated\n"), "{complaint}");
    // Values of another size are other values; errors that are ignored are counted.
    let other =
        stage.run("read n=20 no-warmup -pop seq=1..20 -col size=fixed(9) -rate threads=1 -errors ignore");
    assert_eq!((other.success.clone(), other.result("Total errors")), (Ok(true), "20 [READ: 20]".into()));
    let skipped = stage.run(
        "read n=20 no-warmup -pop seq=1..20 -col size=fixed(9) -rate threads=1 -errors skip-read-validation",
    );
    assert_eq!(skipped.result("Total errors"), "0 [READ: 0]");
}

#[test]
fn what_the_server_refuses_is_named_after_the_last_try() {
    let mut stage = Stage::new(3);
    let refused = stage.run(
        "write n=5 no-warmup cl=LOCAL_QUORUM -schema replication(factor=3) -rate threads=1 -errors retries=2",
    );
    assert_eq!(refused.success, Ok(false));
    let text = "(UnavailableException): Not enough replicas available for query at consistency LOCAL_QUORUM (2 required but only 1 alive)";
    assert_eq!(refused.complaints.iter().filter(|complaint| *complaint == text).count(), 3);
    let last = refused.complaints.last().expect("a complaint");
    assert_eq!(*last, format!("Operation x3 on key(s) [30503337373039503231]: Error executing: {text}\n"));
    let unknown = stage.run("read n=5 -schema keyspace=nowhere -rate threads=1");
    assert!(
        unknown.success.as_ref().is_err_and(|text| text.contains("InvalidQueryException")),
        "{:?}",
        unknown.success
    );
}

/// A server that stands still for half a second holds a few requests of a closed loop, and a thousand of a schedule.
#[test]
fn a_pause_of_the_server_is_charged_to_all_it_kept_waiting() {
    let mut stage = Stage::new(4);
    stage.run("write n=100 no-warmup -rate threads=2");
    let line = "read duration=10s no-warmup -pop dist=uniform(1..100) -rate threads=4";
    let paused = |stage: &mut Stage, line: &str| {
        let mut task = stage.start(line);
        stage.world.run_for(Duration::from_secs(6));
        stage.world.cut(stage.node, stage.client);
        stage.world.run_for(Duration::from_millis(500));
        stage.world.heal(stage.node, stage.client);
        stage.end(&mut task)
    };
    let scheduled = paused(&mut stage, &format!("{line} fixed=1000/s"));
    assert_eq!(scheduled.success, Ok(true), "{:?}", scheduled.complaints);
    let rate = scheduled.number("Op rate");
    assert!((rate - 1000.0).abs() < 10.0, "{rate}");
    // Half a second of ten: one in twenty waited, on average half of the pause.
    let intended = |what| scheduled.milliseconds("From the intended start", what);
    assert!(intended(".95") < 100.0 && (350.0..520.0).contains(&intended(".99")), "{}", scheduled.said);
    // By their actual start four requests waited: the last in a thousand do not show it.
    assert!(scheduled.milliseconds("From the actual start", ".99") < 10.0, "{}", scheduled.said);
    assert_eq!(
        scheduled.result("Latency 99th percentile").split(' ').next(),
        Some(format!("{:.1}", intended(".99")).as_str())
    );
    // A throttle is no schedule: what is reported is what the server took.
    let throttled = paused(&mut stage, &format!("{line} throttle=1000/s"));
    let reported = throttled.number("Latency 99th percentile");
    assert!(reported < 10.0, "{}", throttled.said);
    assert!(throttled.milliseconds("From the intended start", ".99") > 350.0, "{}", throttled.said);
}

#[test]
fn a_run_outlives_its_server() {
    let mut stage = Stage::new(5);
    stage.run("write n=100 no-warmup -rate threads=2");
    let line = "read duration=20s no-warmup -pop dist=uniform(1..100) -rate threads=4 fixed=100/s -errors ignore retries=0";
    let mut task = stage.start(&format!("{line} -log level=minimal"));
    stage.world.run_for(Duration::from_secs(8));
    stage.world.kill(stage.node);
    stage.world.run_for(Duration::from_secs(3));
    stage.boot();
    let ended = stage.end(&mut task);
    assert_eq!(ended.success, Ok(true));
    let last = ended.said.lines().rfind(|line| line.starts_with("total,")).expect("a line");
    let errors: u64 = last.split(',').nth(13).expect("a field").trim().parse().expect("a number");
    assert_eq!(errors, 0, "the server is back: {}", ended.said);
    assert!(!ended.said.contains("Total errors              :          0 "), "{}", ended.said);
}

#[test]
fn a_run_with_steps_ends_with_their_table() {
    let mut stage = Stage::new(6);
    stage.run("write n=100 no-warmup -rate threads=2");
    let ended = stage.run("read n=300 no-warmup -pop seq=1..100 -rate threads>=2 threads<=9");
    assert_eq!(ended.success, Ok(true), "{:?}", ended.complaints);
    for text in [
        "\nThread count was not specified\n",
        "\nRunning with 8 threadCount\n",
        "\nImprovement over 2 threadCount: ",
        "\n2 threadCount, total,",
    ] {
        assert!(ended.said.contains(text), "{text}: {}", ended.said);
    }
    assert!(!ended.said.contains("Running with 16"), "{}", ended.said);
}

/// Every worker has its place in the schedule, the last a hundred seconds from now: the run ends when its time is over all the same.
#[test]
fn a_run_ends_in_time_whatever_its_schedule() {
    let mut stage = Stage::new(7);
    stage.run("write n=100 no-warmup -rate threads=2");
    let slow = stage.run("read duration=10s no-warmup -pop seq=1..100 -rate threads=1000 fixed=10/s");
    assert_eq!((slow.success.clone(), slow.result("Total operation time")), (Ok(true), "00:00:10".into()));
    let partitions = slow.result("Total partitions");
    assert!(["99 ", "100 ", "101 "].iter().any(|count| partitions.starts_with(count)), "{partitions}");
    assert!(!slow.said.contains("Not begun"), "{}", slow.said);
    // A server that stands still to the end: what was due meanwhile is told.
    let mut task = stage.start("read duration=10s no-warmup -pop seq=1..100 -rate threads=4 fixed=1000/s");
    stage.world.run_for(Duration::from_secs(10));
    stage.world.cut(stage.node, stage.client);
    stage.world.run_for(Duration::from_secs(5));
    stage.world.heal(stage.node, stage.client);
    let still = stage.end(&mut task);
    let due = still.number("Not begun at the end");
    assert!((1_900.0..2_100.0).contains(&due), "{}", still.said);
}

#[test]
fn a_request_that_fails_at_the_very_end_is_no_failure_of_the_run() {
    let mut stage = Stage::new(8);
    stage.run("write n=100 no-warmup -rate threads=2");
    let mut task = stage.start(
        "read duration=10s no-warmup -pop seq=1..100 -rate threads=50 throttle=500/s -mode native cql3 requestTimeout=3000",
    );
    stage.world.run_for(Duration::from_secs(10));
    // Its last requests are never answered.
    stage.world.cut(stage.node, stage.client);
    stage.world.run_for(Duration::from_secs(20));
    stage.world.heal(stage.node, stage.client);
    let ended = stage.end(&mut task);
    assert_eq!(
        (ended.success.clone(), ended.result("Total errors")),
        (Ok(true), "0 [READ: 0]".into()),
        "{:?}",
        ended.complaints
    );
}

#[test]
fn a_sequence_that_is_drawn_begins_with_its_first_value() {
    let mut stage = Stage::new(9);
    stage.run("write n=50 no-warmup -pop dist=seq(1..1000) -rate threads=2");
    let read = stage.run("read n=50 no-warmup -pop seq=1..50 -rate threads=2");
    assert_eq!(read.success, Ok(true), "{:?}", read.complaints);
}

#[test]
fn the_highest_rate_that_holds_is_looked_for() {
    let mut stage = Stage::new(10);
    stage.run("write n=100 no-warmup -rate threads=2");
    // Two requests in flight, each a fifth of a millisecond or more: any rate below what they reach holds a bound of a second.
    stage.goal = Some(Goal::parse("p99<1s").expect("a goal"));
    let loose = stage.run("read duration=1s no-warmup -pop seq=1..100 -rate threads=2");
    assert_eq!(loose.success, Ok(true), "{:?}", loose.complaints);
    let reached = loose.number("Op rate");
    let found = loose.number("Highest rate with p99 < 1000 ms");
    assert!(found <= reached && found > reached * 0.9, "{found} of {reached}");
    stage.goal = Some(Goal::parse("p50<1us").expect("a goal"));
    let hopeless = stage.run("read duration=1s no-warmup -pop seq=1..100 -rate threads=2");
    assert!(hopeless.said.contains("\nNo rate was found with p50 < 0.001 ms\n"), "{}", hopeless.said);
}

/// A profile in a file of this process's own, which goes with it.
struct File(String);

impl Drop for File {
    fn drop(&mut self) {
        // One that is gone already is gone.
        let _gone = std::fs::remove_file(&self.0);
    }
}

impl std::fmt::Display for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn profile(name: &str, text: &str) -> File {
    let file = std::env::temp_dir().join(format!("messina-stress-{}-{name}.yaml", std::process::id()));
    std::fs::write(&file, text).expect("a file");
    File(file.display().to_string())
}

const VISITS: &str = "\
keyspace: shop
keyspace_definition: |
  CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
table: visits
table_definition: |
  CREATE TABLE IF NOT EXISTS visits (who text, day date, at timeuuid, page text, took double, ok boolean, tags set<text>,
    ip inet, PRIMARY KEY ((who, day), at, page)) WITH CLUSTERING ORDER BY (at DESC, page ASC)
columnspec:
  - {name: who, size: fixed(12), population: uniform(1..1M)}
  - {name: at, cluster: uniform(3..6)}
  - {name: page, cluster: fixed(4), size: uniform(3..20)}
  - {name: tags, size: fixed(2)}
insert: {partitions: fixed(2), batchtype: UNLOGGED}
queries:
  Newest: {cql: select * from visits where who = ? and day = ? LIMIT 3, fields: samerow}
  one: {cql: select took from visits where who = ? and day = ? and at = ? and page = ?, fields: samerow}
  any: {cql: select took from visits where who = ? and day = ? and at = ? and page = ?, fields: multirow}
token_range_queries:
  all: {columns: 'at, ip', page_size: 50}
";

#[test]
fn rows_of_a_profile_are_written_read_compared_and_scanned() {
    let mut stage = Stage::new(11);
    let file = profile("visits", VISITS);
    let written = stage.run(&format!("user profile={file} ops(insert=1) n=60 no-warmup -rate threads=5"));
    assert_eq!(written.success, Ok(true), "{:?}", written.complaints);
    assert_eq!(written.result("Total partitions"), "60 [insert: 60]");
    for text in [
        "\nCreated schema. Sleeping 1s for propagation.\n",
        "\nRunning [insert] with 5 threads for 60 iteration\n",
        "Generating batches with [2..2] partitions and [24..48] rows (of [24..48] total rows in the partitions)",
    ] {
        assert!(written.said.contains(text), "{text}: {}", written.said);
    }
    // Every row of every partition, all at once and between bounds of each length.
    let compared = stage
        .run(&format!("user profile={file} ops(validate=1) n=600 no-warmup -pop seq=1..60 -rate threads=4"));
    assert_eq!(
        (compared.success.clone(), compared.result("Total errors")),
        (Ok(true), "0 [validate: 0]".into()),
        "{:?}",
        compared.complaints
    );
    let asked = stage.run(&format!(
        "user profile={file} ops(newest=1,one=2,any=1) n=200 no-warmup -pop seq=1..60 -rate threads=3"
    ));
    assert_eq!(asked.success, Ok(true), "{:?}", asked.complaints);
    let rows = asked.result("Row rate");
    assert!(rows.contains("newest") && rows.contains("one") && rows.contains("any"), "{rows}");
    let scanned = stage.run(&format!(
        "user profile={file} ops(all=1) n=100000 no-warmup -rate threads=3 -tokenrange split-factor=3"
    ));
    assert_eq!(scanned.result("Total partitions"), "60 [all: 60]", "{:?}", scanned.complaints);
    // A row that is another ends the run, and is named.
    let other = stage
        .run(&format!("user profile={file} ops(validate=1) n=5 no-warmup -pop seq=61..70 -rate threads=1"));
    assert_eq!(other.success, Ok(false));
    assert!(
        other.complaints.last().expect("a complaint").ends_with("]: Data returned was not validated\n"),
        "{:?}",
        other.complaints
    );
    let unknown = stage.run(&format!("user profile={file} ops(oldest=1) n=5 -rate threads=1"));
    assert_eq!(unknown.success, Err("No query defined with name oldest".into()));
}

#[test]
fn visits_and_shares_of_rows_write_what_they_say() {
    let mut stage = Stage::new(12);
    let file = profile(
        "parts",
        &VISITS
            .replace("page_size: 50", "page_size: 7")
            .replace("fixed(2), batch", "fixed(1), batch")
            .replace("uniform(3..6)", "fixed(5)"),
    );
    // Four visits of a quarter each: 10 partitions of 20 rows.
    let visited = stage.run(&format!("user profile={file} ops(insert=1) n=40 no-warmup -pop seq=1..10 no-wrap -insert visits=fixed(4) revisit=uniform(1..5) -rate threads=1"));
    assert_eq!(visited.success, Ok(true), "{:?}", visited.complaints);
    let compared = stage
        .run(&format!("user profile={file} ops(validate=1) n=50 no-warmup -pop seq=1..10 -rate threads=1"));
    assert_eq!(compared.success, Ok(true), "{:?}", compared.complaints);
    let emptied = stage.run(&format!("user profile={file} ops(insert=1) truncate=once n=200 no-warmup -insert select-ratio=fixed(1)/4 -rate threads=4"));
    assert!(
        emptied.said.contains("\nTruncated shop.visits. Sleeping 1s for propagation.\n"),
        "{}",
        emptied.said
    );
    let scanned = stage.run(&format!(
        "user profile={file} ops(all=1) n=100000 no-warmup -rate threads=2 -log interval=100s"
    ));
    let line = scanned.said.lines().rfind(|line| line.starts_with("total,")).expect("a line");
    let field =
        |at: usize| -> f64 { line.split(',').nth(at).expect("a field").trim().parse().expect("a number") };
    let rows = field(4) / field(3) * 200.0;
    assert!((850.0..1_150.0).contains(&rows), "a quarter of 4,000: {rows}");
}

#[test]
fn counters_and_keys_alone_are_written_and_several_profiles_go_together() {
    let mut stage = Stage::new(13);
    let keys = profile(
        "keys",
        "specname: k\nkeyspace: shop\ntable: keys\nkeyspace_definition: \"CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}\"\n\
         table_definition: CREATE TABLE IF NOT EXISTS keys (a bigint, b uuid, PRIMARY KEY (a, b))\ncolumnspec: [{name: b, cluster: fixed(3)}]\nqueries: {all: {cql: 'select * from keys where a = ?'}}\n",
    );
    let visits = profile("again", &VISITS.replacen("keyspace:", "specname: V\nkeyspace:", 1));
    let both = stage.run(&format!("user profile={keys},{visits} ops(k.insert=2,v.insert=1,k.all=1) n=200 no-warmup -pop seq=1..200 -rate threads=3"));
    assert_eq!(both.success, Ok(true), "{:?}", both.complaints);
    assert!(both.said.contains("[k.insert, v.insert, k.all]"), "{}", both.said);
    let alone = stage.run(&format!("user profile={keys} ops(k.insert=1) n=50 no-warmup -rate threads=2"));
    assert_eq!(alone.success, Ok(true), "{:?}", alone.complaints);
    let compared = stage
        .run(&format!("user profile={keys} ops(validate=1) n=20 no-warmup -pop seq=1..50 -rate threads=1"));
    assert_eq!(compared.success, Ok(true), "{:?}", compared.complaints);
}

#[test]
fn a_profile_that_is_wrong_is_named_with_its_line() {
    let mut stage = Stage::new(14);
    let file = profile("wrong", &VISITS.replace("cluster: fixed(4)", "clusters: fixed(4)"));
    let wrong = stage.run(&format!("user profile={file} ops(insert=1) n=1 -rate threads=1"));
    assert_eq!(wrong.success, Err(format!("{file}:11: Unrecognised option(s) in column spec: clusters")));
    for (from, to, text) in [
        ("{name: tags", "{name: Tags", "12: columnspec: table \"shop.visits\" has no column \"Tags\""),
        (
            "population: uniform(1..1M)",
            "cluster: fixed(2)",
            "9: cluster: \"who\" is no clustering column of table \"shop.visits\"",
        ),
        (
            "{name: tags, size: fixed(2)}",
            "{name: tags, cluster: fixed(2)}",
            "12: cluster: \"tags\" is no clustering column of table \"shop.visits\"",
        ),
        (
            "page text, took",
            "page txt, took",
            "5: table_definition: Encountered exception creating schema: (",
        ),
        (
            "WITH replication = {'class'",
            "WITH replication = {'klass'",
            "2: keyspace_definition: Encountered exception creating schema: (",
        ),
        (
            "columnspec:",
            "extra_definitions:\n  - CREATE INDEX IF NOT EXISTS ON visits (nothing)\ncolumnspec:",
            "9: extra_definitions: Encountered exception creating schema: (",
        ),
        (
            "select took from visits where who = ? and day = ? and at = ? and page = ?, fields: samerow",
            "select nothing from visits, fields: samerow",
            "16: one: (",
        ),
    ] {
        assert!(VISITS.contains(from), "{from}");
        let file = profile("worse", &VISITS.replacen(from, to, 1));
        // A table of an earlier case would be there already.
        stage.run_cql("DROP KEYSPACE IF EXISTS shop");
        let wrong = stage.run(&format!("user profile={file} ops(one=1) n=1 no-warmup -rate threads=1"));
        let said = wrong.success.expect_err(to);
        assert!(said.starts_with(&format!("{file}:{text}")), "{said}");
    }
    let missing = stage.run("user profile=/nowhere.yaml ops(insert=1) n=1 -rate threads=1");
    assert!(
        missing.success.as_ref().is_err_and(|text| text.starts_with("/nowhere.yaml: ")),
        "{:?}",
        missing.success
    );
    let maps = profile(
        "maps",
        "keyspace: shop\ntable: maps\nkeyspace_definition: \"CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}\"\ntable_definition: 'CREATE TABLE IF NOT EXISTS maps (a int PRIMARY KEY, m map<int, int>, n int)'\n",
    );
    let line = format!("user profile={maps} ops(insert=1) n=3 no-warmup -rate threads=1");
    let refused = stage.run(&line);
    assert!(
        refused.success.as_ref().is_err_and(|text| text.contains("column m can be made")),
        "{:?}",
        refused.success
    );
    let skipped = stage.run(&format!("{line} -errors skip-unsupported-columns"));
    assert_eq!(skipped.success, Ok(true), "{:?}", skipped.complaints);
}

/// Runs a command line on a machine of its own with so many shards, a loader on each.
fn run_in_parts(stage: &mut Stage, address: &str, loaders: u16, line: &str) -> Ended {
    let machine = stage.world.add_node(address.parse().expect("an address"));
    let words: Vec<String> = format!("{line} -node 10.0.0.1").split(' ').map(str::to_owned).collect();
    let settings = split(&words).and_then(read).expect(line);
    let ended: Arc<Mutex<Option<Ended>>> = Arc::default();
    let told = ended.clone();
    let main: runtime::Main = Arc::new(move || {
        let (settings, told) = (settings.clone(), told.clone());
        Box::pin(async move {
            if runtime::shard() != runtime::ShardId(0) {
                stress::fleet::stay().await;
                return 0;
            }
            let output = Rc::new(Output::in_memory());
            let extras = Extras { style: Style::Current, goal: None, loaders };
            let success = stress::run::run(settings, output.clone(), extras).await;
            *told.lock().expect("one thread") = Some(Ended {
                success: success.map(|ended| ended.success).map_err(|error| error.to_string()),
                said: output.kept().unwrap_or_default(),
                complaints: output.complaints(),
                notes: Vec::new(),
                is_whole: output.is_whole(),
            });
            stress::fleet::leave().await;
            0
        })
    });
    stage.world.boot(machine, loaders, main);
    assert!(stage.world.run_until(|world| !world.alive(machine), PATIENCE), "the run does not end");
    let ended = ended.lock().expect("one thread").take();
    ended.expect("it has ended")
}

#[test]
fn several_loaders_share_a_run() {
    let mut stage = Stage::new(15);
    let written = run_in_parts(&mut stage, "10.0.9.1", 3, "write n=400 -rate threads=7");
    assert_eq!(written.success, Ok(true), "{:?}", written.complaints);
    assert_eq!(written.result("Total partitions"), "400 [WRITE: 400]");
    // Every row is there, whoever wrote it.
    let read = stage.run("read n=400 no-warmup -pop seq=1..400 -rate threads=3");
    assert_eq!(read.success, Ok(true), "{:?}", read.complaints);
    let line = "mixed ratio(read=3,write=1) duration=10s no-warmup -pop dist=uniform(1..400) -rate threads=8 fixed=1000/s";
    let scheduled = run_in_parts(&mut stage, "10.0.9.2", 4, line);
    assert_eq!(scheduled.success, Ok(true), "{:?}", scheduled.complaints);
    let rate = scheduled.number("Op rate");
    assert!((rate - 1_000.0).abs() < 10.0, "{}", scheduled.said);
    // Turns are even: none waits for another's.
    assert!(scheduled.milliseconds("From the intended start", ".99") < 10.0, "{}", scheduled.said);
    // What one finds wrong ends all.
    let wrong = run_in_parts(
        &mut stage,
        "10.0.9.3",
        2,
        "read duration=60s no-warmup -pop seq=301..500 -rate threads=4",
    );
    assert_eq!(wrong.success, Ok(false));
    assert!(wrong.said.trim_end().ends_with("FAILURE"), "{}", wrong.said);
    let profile = profile("shared", VISITS);
    let profiled = run_in_parts(
        &mut stage,
        "10.0.9.4",
        3,
        &format!("user profile={profile} ops(insert=1) n=60 no-warmup -rate threads=6"),
    );
    assert_eq!(profiled.result("Total partitions"), "60 [insert: 60]", "{:?}", profiled.complaints);
    let scanned = run_in_parts(
        &mut stage,
        "10.0.9.5",
        2,
        &format!("user profile={profile} ops(all=1) n=100000 no-warmup -rate threads=2"),
    );
    assert_eq!(scanned.result("Total partitions"), "60 [all: 60]", "{:?}", scanned.complaints);
}
