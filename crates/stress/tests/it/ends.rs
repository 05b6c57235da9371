//! How a run ends: by who watches it, by a server that goes away, by an operation that fails. Whatever ends it, what was measured is told,
//! and the status says how it went.

use super::Stage;
use super::fake::{Fault, Server};
use runtime::sim::{SimConfig, World};
use std::net::IpAddr;
use std::time::Duration;

/// A server with rows to read.
fn stage(seed: u64) -> Stage {
    let mut stage = Stage::new(seed);
    stage.run("write n=100 no-warmup -rate threads=2");
    stage
}

const NODE: &str = "-log no-settings -node 10.0.0.1";

#[test]
fn who_ends_a_run_has_its_results() {
    let mut stage = stage(51);
    let line = format!("read duration=60s no-warmup -pop seq=1..100 -rate threads=4 throttle=100/s {NODE}");
    let machine = stage.machine("10.0.9.11", &line);
    stage.world.run_for(Duration::from_secs(7));
    stage.world.stop(machine.node);
    let (status, ended) = stage.status(machine);
    assert_eq!(status, 130, "{:?}", ended.complaints);
    let partitions = ended.number("Total partitions");
    assert!((450.0..550.0).contains(&partitions), "{}", ended.said);
    assert_eq!(ended.result("Total errors"), "0 [READ: 0]");
    assert!(ended.said.ends_with("\n\nEND\n"), "{}", ended.said);
}

/// What a warm-up does is not measured, so there is nothing to tell but that.
#[test]
fn who_ends_a_warm_up_hears_that_nothing_was_measured() {
    let mut stage = stage(52);
    let line = format!("mixed duration=60s ratio(read=1,write=1) -pop seq=1..100 -rate threads=4 {NODE}");
    let machine = stage.machine("10.0.9.11", &line);
    stage.world.run_for(Duration::from_secs(3));
    stage.world.stop(machine.node);
    let (status, ended) = stage.status(machine);
    assert_eq!(status, 130, "{:?}", ended.complaints);
    assert_eq!(ended.said.matches("Warming up ").count(), 1, "{}", ended.said);
    assert!(
        ended.said.ends_with("\nNothing was measured: ended before the first run\nEND\n"),
        "{}",
        ended.said
    );
    assert!(!ended.said.contains("Running ") && !ended.said.contains("Results:"), "{}", ended.said);
}

#[test]
fn a_search_that_somebody_ends_claims_no_highest_rate() {
    let mut stage = stage(53);
    let line =
        format!("read duration=5s no-warmup -pop seq=1..100 -rate threads=2 --find-knee p99<1s {NODE}");
    // In the second trial, in the run before the first.
    for (address, seconds, verdict, trials) in [
        ("10.0.9.11", 14, "\nThe search ended early: ", 1),
        ("10.0.9.12", 4, "\nThe search ended early: no rate has held p99 < 1000 ms so far\n", 0),
    ] {
        let machine = stage.machine(address, &line);
        stage.world.run_for(Duration::from_secs(seconds));
        stage.world.stop(machine.node);
        let (status, ended) = stage.status(machine);
        assert_eq!(status, 130, "{:?}", ended.complaints);
        assert!(ended.said.contains(verdict), "{}", ended.said);
        assert!(
            !ended.said.contains("Highest rate") && !ended.said.contains("No rate was"),
            "{}",
            ended.said
        );
        assert_eq!(ended.said.matches(" ms: holds\n").count(), trials, "{}", ended.said);
        assert!(ended.said.ends_with("\nEND\n"), "{}", ended.said);
    }
}

#[test]
fn who_ends_a_run_with_steps_has_the_table_of_those_there_were() {
    let mut stage = stage(54);
    let line = format!("read duration=5s no-warmup -pop seq=1..100 -rate threads>=2 threads<=64 {NODE}");
    let machine = stage.machine("10.0.9.11", &line);
    stage.world.run_for(Duration::from_secs(10));
    stage.world.stop(machine.node);
    let (status, ended) = stage.status(machine);
    assert_eq!(status, 130, "{:?}", ended.complaints);
    for text in ["\n2 threadCount, total,", "\n4 threadCount, total,"] {
        assert!(ended.said.contains(text), "{text}: {}", ended.said);
    }
    assert!(!ended.said.contains("Running with 8"), "{}", ended.said);
}

/// The node goes away and does not come back: every try fails, and the run ends with what it has seen.
#[test]
fn a_run_whose_server_goes_away_ends_with_its_results() {
    let mut stage = stage(55);
    let line =
        format!("write duration=60s no-warmup -pop seq=1..100000 -rate threads=4 throttle=100/s {NODE}");
    let machine = stage.machine("10.0.9.11", &line);
    stage.world.run_for(Duration::from_secs(8));
    stage.world.kill(stage.node);
    let (status, ended) = stage.status(machine);
    assert_eq!(status, 1, "{:?}", ended.complaints);
    let (partitions, errors) = (ended.number("Total partitions"), ended.number("Total errors"));
    assert!((400.0..600.0).contains(&partitions) && (1.0..=4.0).contains(&errors), "{}", ended.said);
    assert!(ended.said.ends_with("\n\nFAILURE\n"), "{}", ended.said);
    let failed = ended.complaints.iter().filter(|text| text.starts_with("Operation x10 on key(s) ["));
    assert_eq!(failed.count() as f64, errors, "{:?}", ended.complaints);
    assert_eq!(ended.complaints.last().map(String::as_str), Some("Failed to execute stress action"));
    // Who ignores errors has them counted until the time is over, and what is on its way then.
    stage.boot();
    let line = format!("read duration=30s no-warmup -pop seq=1..100 -rate threads=4 throttle=100/s {NODE}");
    let machine = stage.machine("10.0.9.12", &format!("{line} -errors ignore retries=0"));
    stage.world.run_for(Duration::from_secs(7));
    stage.world.kill(stage.node);
    let (status, ended) = stage.status(machine);
    assert_eq!(status, 0, "{:?}", ended.complaints);
    assert!(ended.result("Total operation time").starts_with("00:00:3"), "{}", ended.said);
    assert!(ended.number("Total errors") >= 4.0 && ended.said.ends_with("\n\nEND\n"), "{}", ended.said);
}

/// Between two steps, too: the statements of the next cannot be prepared.
#[test]
fn steps_whose_server_goes_away_tell_what_came_before() {
    let mut stage = stage(56);
    let line = format!("read duration=3s no-warmup -pop seq=1..100 {NODE}");
    let machine = stage.machine("10.0.9.11", &format!("{line} -rate threads>=2 threads<=64"));
    stage.world.run_for(Duration::from_millis(6_500));
    stage.world.kill(stage.node);
    let (status, ended) = stage.status(machine);
    assert_eq!(status, 1, "{:?}", ended.complaints);
    for text in ["\n2 threadCount, total,", "\n4 threadCount, total,"] {
        assert!(ended.said.contains(text), "{text}: {}", ended.said);
    }
    assert!(ended.said.ends_with("\nFAILURE\n"), "{}", ended.said);
}

/// A server a hundredth of a second away, so that two threads reach two hundred operations in a second: it refuses what comes after the
/// first six hundred, in the second step and in the second trial.
#[test]
fn a_search_and_steps_that_fail_tell_what_came_before() {
    for (nth, more) in ["threads>=2 threads<=64", "threads=2 --find-knee p99<1s"].into_iter().enumerate() {
        let delay = Duration::from_millis(5);
        let mut world = World::new(57, SimConfig { delay: (delay, delay), ..SimConfig::calm() });
        let (node, client) =
            (world.add_node([10, 0, 0, 1].into()), world.add_client(IpAddr::from([10, 0, 9, 9])));
        Server::alone([10, 0, 0, 1].into(), &[Fault::Refuses(600)]).boot(&mut world, node);
        let mut stage = Stage { world, node, client, goal: None, sync: None };
        let line = format!("write duration=2s no-warmup -pop seq=1..1000 -rate {more}");
        let machine =
            stage.machine("10.0.9.11", &format!("{line} -mode native cql3 protocolVersion=4 {NODE}"));
        let (status, ended) = stage.status(machine);
        assert_eq!(status, 1, "{:?}", ended.complaints);
        assert!(ended.said.ends_with("\nFAILURE\n"), "{}", ended.said);
        assert_eq!(
            ended.said.matches("\nResults:\n").count(),
            if nth == 0 { 2 } else { 3 },
            "{}",
            ended.said
        );
        if nth == 0 {
            for text in ["\n2 threadCount, total,", "\n4 threadCount, total,"] {
                assert!(ended.said.contains(text), "{text}: {}", ended.said);
            }
        } else {
            assert_eq!(ended.said.matches(" ms: holds\n").count(), 1, "{}", ended.said);
            assert!(ended.said.contains("\nThe search ended early: "), "{}", ended.said);
            assert!(!ended.said.contains("Highest rate"), "{}", ended.said);
        }
        assert!(ended.complaints.iter().any(|text| text.starts_with("Operation x10 on key(s) [")));
    }
}
