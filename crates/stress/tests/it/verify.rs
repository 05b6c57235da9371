//! What is written is followed and read back: nothing is said of what is well, and every broken promise is found and named.

use super::fake::{Fault, Member, Server};
use super::{Ended, Stage, run_in_parts};
use runtime::sim::{SimConfig, World};
use std::net::IpAddr;
use std::time::Duration;

/// What the last protocol without segments asks of a fake server.
const V4: &str = "-mode native cql3 protocolVersion=4 requestTimeout=1000";

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// A machine that runs the tool, and a server with faults.
fn faulty(seed: u64, faults: &[Fault]) -> (Stage, Server) {
    let mut world = World::new(seed, SimConfig::calm());
    let node = world.add_node(ip(1));
    let client = world.add_client(IpAddr::from([10, 0, 9, 9]));
    let server = Server::alone(ip(1), faults);
    server.boot(&mut world, node);
    (Stage { world, node, client, goal: None, sync: None }, server)
}

/// A number of the verification, and that of what was seen while it ran.
fn number(ended: &Ended, label: &str) -> (u64, u64) {
    let text = ended.result(label).replace(',', "");
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    let mut next = || numbers.next().map_or(0, |word| word.parse().expect("a number"));
    (next(), next())
}

/// Lost, stale, phantom: at the end and while it ran.
fn wrong(ended: &Ended) -> [(u64, u64); 3] {
    ["Lost", "Stale", "Phantom"].map(|label| number(ended, label))
}

const NOTHING: [(u64, u64); 3] = [(0, 0); 3];

#[test]
fn a_run_whose_writes_are_there_is_clean() {
    let mut stage = Stage::new(21);
    // Twice around, after a warm-up.
    let written = stage.run("write n=800 -pop seq=1..400 -rate threads=7 --verify");
    assert_eq!((written.success.clone(), wrong(&written)), (Ok(true), NOTHING), "{}", written.said);
    assert_eq!(number(&written, "Partitions acknowledged").0, 400);
    assert_eq!(number(&written, "Rows of the table"), (400, 0));
    assert!(written.said.trim_end().ends_with("END"), "{}", written.said);
    // Rows from before the run are nobody's business, whatever they hold.
    let line = "mixed n=2000 ratio(read=1,write=1) -pop dist=uniform(301..900) -col size=fixed(9) -rate threads=5 --verify";
    let mixed = stage.run(line);
    assert_eq!(
        (mixed.success.clone(), wrong(&mixed)),
        (Ok(true), NOTHING),
        "{}\n{:?}",
        mixed.said,
        mixed.complaints
    );
    assert!(number(&mixed, "Rows of the table").1 > 250, "{}", mixed.said);
    let shared = run_in_parts(
        &mut stage,
        "10.0.9.1",
        3,
        "mixed n=3000 ratio(read=1,write=2) truncate=once -pop dist=gaussian(1..500) -rate threads=6 --verify",
    );
    assert_eq!((shared.success.clone(), wrong(&shared)), (Ok(true), NOTHING), "{}", shared.said);
    let sequence = run_in_parts(
        &mut stage,
        "10.0.9.2",
        2,
        "write n=500 truncate=once no-warmup -rate threads=4 --verify",
    );
    assert_eq!(number(&sequence, "Partitions acknowledged").0, 500, "{}", sequence.said);
    assert_eq!((sequence.success.clone(), wrong(&sequence)), (Ok(true), NOTHING), "{}", sequence.said);
}

/// With a log that is synced before each acknowledgement nothing is lost, and what was on its way is in doubt.
#[test]
fn a_node_that_is_killed_loses_nothing_it_acknowledged() {
    let mut stage = Stage::with_synced_log(22);
    let line = "write duration=20s no-warmup -pop seq=1..100000 -rate threads=20 throttle=500/s -errors ignore retries=0 -log level=minimal";
    let mut task = stage.start(&format!("{line} -mode native cql3 requestTimeout=2000 --verify"));
    stage.world.run_for(Duration::from_secs(8));
    // Some are cut off from their answers, then the node dies.
    stage.world.cut(stage.node, stage.client);
    stage.world.run_for(Duration::from_secs(4));
    stage.world.kill(stage.node);
    stage.world.heal(stage.node, stage.client);
    stage.world.run_for(Duration::from_secs(1));
    stage.boot();
    let ended = stage.end(&mut task);
    assert_eq!((ended.success.clone(), wrong(&ended)), (Ok(true), NOTHING), "{}", ended.said);
    assert!(number(&ended, "Partitions in doubt").0 >= 20, "{}", ended.said);
    assert!(number(&ended, "Partitions acknowledged").0 > 4_000, "{}", ended.said);
}

#[test]
fn every_planted_fault_is_found_and_named() {
    let twice = "write n=40 no-warmup -pop seq=1..20 -rate threads=1 --verify";
    for (fault, found, text) in [
        // The second time around the row of the first is there.
        (Fault::Forgets(30), [(0, 0), (1, 0), (0, 0)], "  stale: key "),
        (Fault::Forgets(0), NOTHING, "END"),
        (Fault::Invents(7), [(0, 0), (0, 0), (1, 0)], "  phantom: key 696e76656e746564: written at "),
        (Fault::Garbles(33), [(0, 0), (0, 0), (1, 0)], "other values than were written"),
    ] {
        let (mut stage, _) = faulty(23, &[fault]);
        let ended = stage.run(&format!("{twice} {V4}"));
        assert_eq!(wrong(&ended), found, "{fault:?}: {}", ended.said);
        assert_eq!(ended.success, Ok(found == NOTHING), "{fault:?}");
        assert!(ended.said.contains(text), "{fault:?}: {}", ended.said);
        let last = if found == NOTHING { "END" } else { "FAILURE" };
        assert!(ended.said.trim_end().ends_with(last), "{fault:?}: {}", ended.said);
    }
    let (mut stage, _) = faulty(24, &[Fault::Forgets(5)]);
    let lost = stage.run(&format!("write n=20 no-warmup -rate threads=1 --verify {V4}"));
    assert_eq!((wrong(&lost), lost.success.clone()), ([(1, 0), (0, 0), (0, 0)], Ok(false)), "{}", lost.said);
    assert!(
        lost.said.contains(" (partition 5): acknowledged at ") && lost.said.contains(", not there"),
        "{}",
        lost.said
    );
}

#[test]
fn reads_of_a_mixed_run_compare_at_once() {
    let (mut stage, _) = faulty(25, &[Fault::Overlooks(30)]);
    let line = "mixed n=200 ratio(read=1,write=1) no-warmup -pop dist=uniform(1..5) -rate threads=1 --verify";
    let ended = stage.run(&format!("{line} -errors ignore {V4}"));
    // What is there again at the end was not when it was asked for.
    assert_eq!(
        (wrong(&ended), ended.success.clone()),
        ([(0, 1), (0, 0), (0, 0)], Ok(false)),
        "{}",
        ended.said
    );
    assert!(ended.said.contains("  while it ran, lost: key "), "{}", ended.said);
    // Without the option to go on the first finding ends the run.
    let (mut stage, server) = faulty(26, &[Fault::Overlooks(30)]);
    let ended = stage.run(&format!("{line} {V4}"));
    assert_eq!(ended.success, Ok(false));
    assert!(server.state.lock().expect("one thread").writes < 100, "{}", ended.said);
}

#[test]
fn writes_without_an_answer_are_in_doubt_and_refused_ones_are_not_there() {
    let line = "write n=10 no-warmup -rate threads=1 -errors ignore retries=0 --verify";
    let (mut stage, _) = faulty(27, &[Fault::Hangs(6)]);
    let hanging = stage.run(&format!("{line} {V4}"));
    assert_eq!((wrong(&hanging), hanging.success.clone()), (NOTHING, Ok(true)), "{}", hanging.said);
    assert_eq!(
        (number(&hanging, "Partitions acknowledged").0, number(&hanging, "Partitions in doubt").0),
        (5, 5)
    );
    let (mut stage, _) = faulty(28, &[Fault::Refuses(6)]);
    let refused = stage.run(&format!("{line} {V4}"));
    assert_eq!((wrong(&refused), refused.success.clone()), (NOTHING, Ok(true)), "{}", refused.said);
    assert_eq!(
        (number(&refused, "Partitions acknowledged").0, number(&refused, "Partitions in doubt").0),
        (5, 0)
    );
}

/// A server that does not answer when what was written is read back, or is gone: that is no clean run.
#[test]
fn what_cannot_be_read_back_is_told() {
    let (mut stage, _) = faulty(29, &[Fault::Mute(8)]);
    let mute = stage.run(&format!("write n=20 no-warmup -rate threads=1 -errors retries=1 --verify {V4}"));
    assert_eq!((wrong(&mute), mute.success.clone()), (NOTHING, Ok(false)), "{}", mute.said);
    assert_eq!(
        (number(&mute, "Partitions read back").0, number(&mute, "Not read")),
        (7, (13, 0)),
        "{}",
        mute.said
    );
    let mut stage = Stage::new(29);
    let line = "write duration=5s no-warmup -pop seq=1..1000 -rate threads=4 throttle=100/s -errors ignore retries=1";
    let mut task = stage.start(&format!("{line} -log level=minimal --verify"));
    stage.world.run_for(Duration::from_secs(6));
    stage.world.kill(stage.node);
    let gone = stage.end(&mut task);
    assert_eq!(gone.success, Ok(false), "{:?}", gone.complaints);
    assert!(
        gone.said.contains("\nNot verified: ") && gone.said.trim_end().ends_with("FAILURE"),
        "{}",
        gone.said
    );
}

/// A rack, its datacenter, a remote one: each is asked when none before it can be reached.
#[test]
fn nodes_farther_away_are_asked_while_the_near_ones_are_away() {
    let mut world = World::new(30, SimConfig::calm());
    let all: Vec<Member> = [(1, "dc1", "r1"), (2, "dc1", "r2"), (3, "dc2", "r1")]
        .into_iter()
        .enumerate()
        .map(|(at, (last, datacenter, rack))| Member {
            ip: ip(last),
            datacenter,
            rack,
            token: at as i64 * 1_000,
        })
        .collect();
    let servers: Vec<(runtime::sim::NodeId, Server)> = (0..3)
        .map(|at| {
            let mut members = all.clone();
            members.swap(0, at);
            let (node, server) = (world.add_node(ip(at as u8 + 1)), Server::new(members, &[]));
            server.boot(&mut world, node);
            (node, server)
        })
        .collect();
    let client = world.add_client(IpAddr::from([10, 0, 9, 9]));
    let mut stage = Stage { world, node: servers[0].0, client, goal: None, sync: None };
    let line = format!(
        "write duration=30s no-warmup -pop seq=1..100000 -rate threads=4 throttle=100/s -errors ignore {V4}"
    );
    let mut task = stage.start_whole(&format!("{line} -node 10.0.0.1 loadbalance=rack-aware remote-dc=dc2"));
    let writes = |at: usize| servers[at].1.state.lock().expect("one thread").writes;
    let mut seen = Vec::new();
    for (node, _) in &servers[..2] {
        stage.world.run_for(Duration::from_secs(10));
        seen.push([0, 1, 2].map(writes));
        stage.world.kill(*node);
    }
    let ended = stage.end(&mut task);
    assert_eq!(ended.success, Ok(true), "{:?}", ended.complaints);
    let [first, second] = seen[..] else { panic!("two of them") };
    assert!(first[0] > 500 && first[1..] == [0, 0], "{seen:?}");
    assert!(second[1] > 500 && second[2] == 0, "{seen:?}");
    assert!(writes(2) > 500, "{}", writes(2));
    assert!(ended.number("Total errors") < 100.0, "{}", ended.said);
}
