//! Whole runs against a node in a simulated world: what is loaded is verified, schedules are kept, and no wait is hidden.

use loadtools::output::Output;
use node::config::Config;
use node::{Ready, Reporter, main_closure};
use runtime::sim::{NodeId, SimConfig, Task, World};
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ycsb::measure::block::{Line, Number};
use ycsb::measure::table::Status;
use ycsb::run::Ended;
use ycsb::settings::Settings;
use ycsb::words;

/// How long a run may take on the world's clock.
const PATIENCE: Duration = Duration::from_secs(600);
const SERVER: &str = "10.0.0.1";

/// A node, and a machine that runs the tool.
struct Stage {
    world: World,
    node: NodeId,
    client: NodeId,
}

/// What came of a run and what it said.
struct Outcome {
    ended: Result<Ended, String>,
    said: String,
    complaints: Vec<String>,
}

impl Outcome {
    fn ended(&self) -> &Ended {
        self.ended.as_ref().unwrap_or_else(|error| panic!("{error}: {:?}", self.complaints))
    }

    /// A number of the report, if it is there.
    fn find(&self, metric: &str, measurement: &str) -> Option<f64> {
        let is = |line: &&Line| line.metric == metric && line.measurement == measurement;
        self.ended().lines.iter().find(is).map(|line| match line.value {
            Number::Whole(value) => value as f64,
            Number::Double(value) => value,
        })
    }

    fn number(&self, metric: &str, measurement: &str) -> f64 {
        self.find(metric, measurement).unwrap_or_else(|| {
            panic!("[{metric}], {measurement}: {:?} {:?}", self.ended().lines, self.complaints)
        })
    }

    /// Sums what all operations returned, by result.
    fn returned(&self, result: &str) -> f64 {
        let of = |metric: &str| self.find(metric, &format!("Return={result}")).unwrap_or(0.0);
        ["READ", "UPDATE", "INSERT", "SCAN"].into_iter().map(of).sum()
    }
}

impl Stage {
    fn new(seed: u64) -> Stage {
        let mut world = World::new(seed, SimConfig::calm());
        let node = world.add_node(SERVER.parse().expect("an address"));
        let client = world.add_client("10.0.9.9".parse().expect("an address"));
        let mut stage = Stage { world, node, client };
        stage.boot();
        stage
    }

    /// With CloudSuite's tables.
    fn with_tables(seed: u64) -> Stage {
        let mut stage = Stage::new(seed);
        let servers = settings("load -P workloads/workloada").servers;
        let mut task = stage.world.spawn(stage.client, async move {
            ycsb::command::create_tables(&servers, 3).await.map_err(|e| e.to_string())
        });
        assert!(stage.world.run_until(|_| task.done(), PATIENCE));
        assert_eq!(task.take().expect("it is done"), Ok(()));
        stage
    }

    fn boot(&mut self) {
        let ip: IpAddr = SERVER.parse().expect("an address");
        let mut config = Config::standard(PathBuf::from("/data"));
        (config.listen_address, config.rpc_address) = (ip, ip);
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
    fn start(&mut self, line: &str) -> Task<Outcome> {
        let settings = settings(line);
        self.world.spawn(self.client, async move {
            let output = Rc::new(Output::in_memory());
            let ended = ycsb::run::run(settings, output.clone()).await;
            Outcome {
                ended: ended.map_err(|error| error.to_string()),
                said: output.kept().unwrap_or_default(),
                complaints: output.complaints(),
            }
        })
    }

    fn end(&mut self, task: &mut Task<Outcome>) -> Outcome {
        let done = self.world.run_until(|_| task.done(), PATIENCE);
        assert!(done, "the run does not end: {:?}", self.world.log_lines());
        task.take().expect("it is done")
    }

    fn run(&mut self, line: &str) -> Outcome {
        let mut task = self.start(line);
        self.end(&mut task)
    }
}

fn settings(line: &str) -> Settings {
    let line = format!("{line} -p hosts={SERVER}");
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let said = words::read(&words).expect(&line);
    Settings::read(&said.properties, said.binding, &Output::in_memory()).expect(&line)
}

#[test]
fn every_workload_reads_what_was_loaded() {
    let mut stage = Stage::with_tables(1);
    let common = "-p recordcount=300 -p operationcount=600 -p dataintegrity=true -threads 7";
    let loaded = stage.run(&format!("load -P workloads/workloada {common}"));
    assert_eq!(loaded.number("INSERT", "Return=OK"), 300.0);
    assert_eq!(loaded.number("INSERT", "Operations"), 300.0);
    assert_eq!(loaded.number("CLEANUP", "Operations"), 7.0);
    for letter in ["a", "b", "c", "d", "e", "f"] {
        let outcome = stage.run(&format!("run -P workloads/workload{letter} {common}"));
        let not_ok = ["ERROR", "NOT_FOUND"].map(|result| outcome.returned(result));
        assert_eq!(not_ok, [0.0, 0.0], "{letter}: {:?}", outcome.complaints);
        let verified = &outcome.ended().verified;
        match letter {
            "e" => assert!(verified.is_empty(), "{verified:?}"),
            _ => assert!(
                matches!(verified.as_slice(), [(Status::Ok, count)] if 250 < *count),
                "{letter}: {verified:?}"
            ),
        }
        if letter == "f" {
            assert!(outcome.number("READ-MODIFY-WRITE", "Operations") > 200.0);
        } else {
            assert_eq!(outcome.returned("OK"), 600.0, "{letter}");
        }
    }
    // The run phases of d and e have inserted more.
    let late = "run -P workloads/workloadc -p requestdistribution=uniform -p recordcount=310 -p operationcount=900 -threads 3";
    assert_eq!(stage.run(late).number("READ", "Return=OK"), 900.0);
    let beyond = stage.run("run -P workloads/workloadc -p requestdistribution=sequential -p recordcount=2000 -p operationcount=2000 -p dataintegrity=true");
    let missing = beyond.number("READ", "Return=NOT_FOUND");
    assert!(missing > 1_500.0, "{missing}");
    assert_eq!(beyond.number("READ-FAILED", "Operations"), missing);
    let verified = &beyond.ended().verified;
    assert!(verified.contains(&(Status::Error, missing as u64)), "{verified:?}");
}

#[test]
fn one_field_or_all_of_them() {
    let mut stage = Stage::with_tables(2);
    stage.run("load -P workloads/workloada -p recordcount=50 -p dataintegrity=true -threads 3");
    for extra in [
        "-p readallfields=false",
        "-p writeallfields=true",
        "-p readallfields=false -p writeallfields=true",
        "-p readallfieldsbyname=true",
    ] {
        for letter in ["a", "e", "f"] {
            let line =
                format!("run -P workloads/workload{letter} -p recordcount=50 -p operationcount=200 {extra}");
            let plain = stage.run(&format!("{line} -p dataintegrity=true -threads 2"));
            assert_eq!(
                plain.returned("ERROR") + plain.returned("NOT_FOUND"),
                0.0,
                "{line}: {:?}",
                plain.complaints
            );
            let wrong = plain.ended().verified.iter().any(|(status, _)| *status != Status::Ok);
            assert!(!wrong, "{line}: {:?}", plain.ended().verified);
        }
    }
    // Random values are not what follows from the keys.
    stage.run("run -P workloads/workloada -p recordcount=50 -p operationcount=200");
    let other =
        stage.run("run -P workloads/workloadc -p recordcount=50 -p operationcount=200 -p dataintegrity=true");
    assert!(other.number("VERIFY", "Return=UNEXPECTED_STATE") > 20.0);
    assert!(other.number("READ", "Return=OK") > 199.0);
}

/// A server that stands still for half a second holds a few operations of a closed loop, and hundreds of a schedule.
#[test]
fn a_schedule_is_kept_and_no_wait_is_hidden() {
    let mut stage = Stage::with_tables(3);
    stage.run("load -P workloads/workloada -p recordcount=100 -threads 4");
    let line =
        "run -P workloads/workloadc -p recordcount=100 -p operationcount=10000 -threads 4 -target 1000";
    let kept = stage.run(line);
    let throughput = kept.number("OVERALL", "Throughput(ops/sec)");
    assert!((throughput - 1000.0).abs() < 5.0, "{throughput}");
    let mut task = stage.start(&format!("{line} -p measurement.interval=both -s -p status.interval=1"));
    stage.world.run_for(Duration::from_secs(4));
    stage.world.cut(stage.node, stage.client);
    stage.world.run_for(Duration::from_millis(500));
    stage.world.heal(stage.node, stage.client);
    let paused = stage.end(&mut task);
    let throughput = paused.number("OVERALL", "Throughput(ops/sec)");
    assert!((throughput - 1000.0).abs() < 5.0, "what was late is made up for: {throughput}");
    // Half a second of ten: one in twenty waited, on average half of the pause.
    let of = |metric: &str, what: &str| paused.number(metric, what);
    let intended = of("Intended-READ", "99thPercentileLatency(us)");
    assert!((350_000.0..520_000.0).contains(&intended), "{intended}");
    assert!(of("Intended-READ", "MaxLatency(us)") >= 450_000.0);
    // By their actual start one operation of each thread waited.
    assert!(of("READ", "99thPercentileLatency(us)") < 10_000.0);
    assert!(of("READ", "MaxLatency(us)") >= 450_000.0);
    let lines: Vec<&String> = paused.complaints.iter().filter(|line| line.contains(" sec: ")).collect();
    assert!((11..=12).contains(&lines.len()), "{lines:?}");
    assert!(lines[0].contains(" 0 sec: 0 operations; est completion in "), "{}", lines[0]);
    assert!(lines[3].contains(" 3 sec: ") && lines[3].contains("[READ: Count="), "{}", lines[3]);
}

#[test]
fn operations_that_fail_are_counted_and_the_run_ends() {
    let mut stage = Stage::with_tables(4);
    stage.run("load -P workloads/workloada -p recordcount=100 -threads 4");
    let mut task = stage.start(
        "run -P workloads/workloada -p recordcount=100 -p operationcount=6000 -threads 4 -target 500 -p cassandra.readtimeoutmillis=2000",
    );
    stage.world.run_for(Duration::from_secs(4));
    stage.world.kill(stage.node);
    stage.world.run_for(Duration::from_secs(3));
    stage.boot();
    let outcome = stage.end(&mut task);
    let (well, badly) = (outcome.returned("OK"), outcome.returned("ERROR"));
    assert_eq!(well + badly, 6000.0);
    assert!(well > 3000.0 && badly > 4.0, "{well} {badly}");
    let failed = |metric: &str| outcome.find(metric, "Operations").unwrap_or(0.0);
    assert_eq!(failed("READ-FAILED") + failed("UPDATE-FAILED"), badly);
    assert!(outcome.complaints.iter().any(|line| line.starts_with("Error reading key: user")));
    assert!(outcome.complaints.len() < 400, "{}", outcome.complaints.len());
    // Nobody is there to begin with: nothing is done.
    stage.world.kill(stage.node);
    let nobody = stage.run("run -P workloads/workloada");
    assert!(nobody.ended.is_err_and(|error| error.contains("NoHostAvailableException")));
}

/// The node does not come back: what fails is counted, nothing else ends the run, and the report tells. As with the Java tool that is no
/// error of the run, so its process ends with status 0.
#[test]
fn a_run_whose_server_goes_away_has_its_report() {
    let mut stage = Stage::with_tables(9);
    stage.run("load -P workloads/workloada -p recordcount=100 -threads 4");
    let line = "run -P workloads/workloada -p recordcount=100 -p operationcount=2000 -threads 4 -target 200";
    let mut task = stage.start(line);
    stage.world.run_for(Duration::from_secs(5));
    stage.world.kill(stage.node);
    let outcome = stage.end(&mut task);
    let (well, badly) = (outcome.returned("OK"), outcome.returned("ERROR"));
    assert_eq!(well + badly, 2000.0, "{:?}", outcome.ended().lines);
    assert!(well > 900.0 && badly > 900.0, "{well} {badly}");
    assert!(outcome.number("OVERALL", "RunTime(ms)") < 60_000.0, "{:?}", outcome.ended().lines);
    // A load ends with the first insert of each thread that fails.
    stage.boot();
    let mut task = stage.start("load -P workloads/workloada -p recordcount=100000 -threads 4 -target 200");
    stage.world.run_for(Duration::from_secs(5));
    stage.world.kill(stage.node);
    let outcome = stage.end(&mut task);
    assert_eq!(outcome.returned("ERROR"), 4.0, "{:?}", outcome.ended().lines);
    assert!(outcome.returned("OK") > 900.0, "{:?}", outcome.ended().lines);
}

#[test]
fn a_failed_insert_of_the_load_phase_ends_its_thread_unless_it_is_tried_again() {
    let mut stage = Stage::new(5);
    let line = "load -P workloads/workloada -p recordcount=40 -threads 4";
    let none = stage.run(line);
    assert_eq!(none.number("INSERT", "Return=ERROR"), 4.0);
    assert_eq!(none.find("INSERT", "Return=OK"), None);
    let end = "Error inserting, not retrying any more. number of attempts: 1Insertion Retry Limit: 0";
    assert_eq!(none.complaints.iter().filter(|line| *line == end).count(), 4);
    let going_on = stage.run(&format!("{line} -p core_workload_insertion_keep_going_on_error=true"));
    assert_eq!(going_on.number("INSERT", "Return=ERROR"), 40.0);
    // The tables are made while inserts are tried again.
    let retries = "-p core_workload_insertion_retry_limit=9 -p core_workload_insertion_retry_interval=1";
    let mut task = stage.start(&format!("{line} {retries}"));
    stage.world.run_for(Duration::from_secs(2));
    let servers = settings("load -P workloads/workloada").servers;
    let mut making = stage
        .world
        .spawn(stage.client, async move { ycsb::command::create_tables(&servers, 3).await.is_ok() });
    assert!(stage.world.run_until(|_| making.done(), PATIENCE));
    assert_eq!(making.take(), Some(true));
    let outcome = stage.end(&mut task);
    assert_eq!(outcome.number("INSERT", "Return=OK"), 40.0, "{:?}", outcome.complaints);
    assert!(outcome.complaints.iter().any(|line| line == "Retrying insertion, retry count: 1"));
}

#[test]
fn a_run_without_an_end_has_a_time() {
    let mut stage = Stage::with_tables(6);
    stage.run("load -P workloads/workloada -p recordcount=100 -threads 4");
    let line = "run -P workloads/workloada -p recordcount=100 -p operationcount=0 -p maxexecutiontime=5";
    // Most of them have their second turn after the end.
    let outcome = stage.run(&format!("{line} -threads 2000 -target 100"));
    let run_ms = outcome.number("OVERALL", "RunTime(ms)");
    assert!((5_000.0..5_050.0).contains(&run_ms), "{run_ms}");
    let done = outcome.returned("OK");
    assert!((400.0..600.0).contains(&done), "{done}");
    assert_eq!(outcome.number("CLEANUP", "Operations"), 2000.0);
    for said in ["Maximum execution time specified as: 5 secs", "Stop requested for workload. Now Joining!"] {
        assert!(outcome.complaints.iter().any(|line| line == said), "{:?}", outcome.complaints);
    }
    assert!(outcome.said.is_empty(), "{}", outcome.said);
}

/// A server that hangs before any statement is prepared: those who wait for each other's preparations do not wait one after the other.
#[test]
fn the_end_waits_for_a_server_that_hangs_no_longer_than_for_a_request() {
    let mut stage = Stage::with_tables(8);
    stage.run("load -P workloads/workloada -p recordcount=100 -threads 4");
    // Twenty-one statements, a thread for each of them and more; each thread begins within the first second.
    let mut task = stage.start(
        "run -P workloads/workloadf -p recordcount=100 -p operationcount=0 -p readallfields=false -p maxexecutiontime=4 -threads 40 \
         -target 40 -p cassandra.readtimeoutmillis=2000",
    );
    stage.world.run_for(Duration::from_millis(100));
    stage.world.cut(stage.node, stage.client);
    let outcome = stage.end(&mut task);
    let run_ms = outcome.number("OVERALL", "RunTime(ms)");
    assert!((4_000.0..6_100.0).contains(&run_ms), "{run_ms}");
    assert!(outcome.returned("ERROR") > 40.0, "{:?}", outcome.ended().lines);
}

#[test]
fn who_ends_a_run_has_its_report() {
    let mut stage = Stage::with_tables(7);
    stage.run("load -P workloads/workloada -p recordcount=100 -threads 4");
    let settings =
        settings("run -P workloads/workloada -p recordcount=100 -p operationcount=0 -threads 3 -target 30");
    let report: Arc<Mutex<Option<Vec<Line>>>> = Arc::default();
    let told = report.clone();
    let main: runtime::Main = Arc::new(move || {
        let (settings, told) = (settings.clone(), told.clone());
        Box::pin(async move {
            let ended = ycsb::run::run(settings, Rc::new(Output::in_memory())).await;
            *told.lock().expect("one thread") = ended.ok().map(|ended| ended.lines);
            0
        })
    });
    let runner = stage.world.add_node("10.0.9.10".parse().expect("an address"));
    stage.world.boot(runner, 1, main);
    stage.world.run_for(Duration::from_secs(5));
    stage.world.stop(runner);
    assert!(stage.world.run_until(|_| report.lock().expect("one thread").is_some(), Duration::from_secs(1)));
    let lines = report.lock().expect("one thread").take().unwrap_or_default();
    let cleanup = lines.iter().find(|line| line.metric == "CLEANUP" && line.measurement == "Operations");
    assert_eq!(cleanup.map(|line| line.value), Some(Number::Whole(3)), "{lines:?}");
    assert!(lines.iter().any(|line| line.metric == "READ"), "{lines:?}");
}
