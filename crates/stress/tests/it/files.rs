//! What a run writes beside its lines: pages with what servers tell, statements that failed, files on a full disk.

use super::fake::{Fault, Server};
use super::{Stage, profile};
use runtime::sim::{SimConfig, World};
use std::net::IpAddr;
use std::time::Duration;

#[test]
fn servers_are_asked_how_busy_they_are_and_leave_gaps_while_they_are_away() {
    let mut stage = Stage::new(41);
    stage.run("write n=100 no-warmup -rate threads=2");
    let line =
        "read duration=12s no-warmup -pop seq=1..100 -rate threads=4 throttle=500/s -errors ignore retries=0";
    let mut task = stage.start(&format!(
        "{line} -log level=minimal -graph file=unwritten.html --scrape http://10.0.0.1:9180/metrics,http://10.0.0.7:9180/metrics"
    ));
    stage.world.run_for(Duration::from_secs(6));
    stage.world.kill(stage.node);
    stage.world.run_for(Duration::from_secs(3));
    stage.boot();
    let ended = stage.end(&mut task);
    assert_eq!(ended.success, Ok(true), "{:?}", ended.complaints);
    let [node, nobody] = &ended.notes[0].servers[..] else { panic!("{:?}", ended.notes) };
    let (known, gaps): (Vec<_>, Vec<_>) = node.points.iter().partition(|(_, busy, _)| busy.is_some());
    assert!(known.len() >= 5 && gaps.len() >= 2, "{:?}", node.points);
    assert!(
        known.iter().all(|(_, busy, _)| busy.is_some_and(|busy| 0.0 < busy && busy <= 100.0)),
        "{known:?}"
    );
    assert!(known.iter().any(|(_, _, hits)| hits.is_some_and(|hits| hits > 90.0)), "{known:?}");
    assert!(node.points.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{:?}", node.points);
    // One that is never there has gaps alone, and each is named once.
    assert!(nobody.points.iter().all(|(_, busy, hits)| busy.is_none() && hits.is_none()), "{nobody:?}");
    for server in ["10.0.0.1:9180", "10.0.0.7:9180"] {
        let told = |text: &&String| text.starts_with(&format!("--scrape http://{server}/metrics: "));
        assert_eq!(ended.complaints.iter().filter(told).count(), 1, "{server}: {:?}", ended.complaints);
    }
}

#[test]
fn a_statement_that_failed_is_printed_with_its_values() {
    let mut world = World::new(42, SimConfig::calm());
    let (node, client) =
        (world.add_node([10, 0, 0, 1].into()), world.add_client(IpAddr::from([10, 0, 9, 9])));
    Server::alone([10, 0, 0, 1].into(), &[Fault::Refuses(1)]).boot(&mut world, node);
    let mut stage = Stage { world, node, client, goal: None, sync: None };
    let line = "write n=1 no-warmup -rate threads=1 -errors retries=0 -mode native cql3 protocolVersion=4";
    let refused = stage.run(&format!("{line} -log print-statements-on-error"));
    let complaint = refused.complaints.last().expect("a complaint");
    assert!(
        complaint.contains(
            "\nStatement: UPDATE \"keyspace1\".\"standard1\" SET \"C0\" = ?,\"C1\" = ?,\"C2\" = ?,\"C3\" = ?,\"C4\" = ? WHERE KEY=?\nValues: [0x85182fdf"
        ) && complaint.ends_with(", 0x30503337373039503231]\n"),
        "{complaint}"
    );
    let silent = stage.run(line);
    assert!(!silent.complaints.last().expect("a complaint").contains("Statement"), "{:?}", silent.complaints);
    // Of a profile's batch the first rows.
    let mut stage = Stage::new(43);
    let file = profile("failing", super::VISITS);
    let words = format!(
        "user profile={file} ops(insert=1) n=4 no-warmup cl=QUORUM -rate threads=1 -errors retries=0"
    );
    stage.run(&format!("user profile={file} ops(insert=1) n=4 no-warmup -rate threads=1"));
    stage.run_cql(
        "ALTER KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    );
    let refused = stage.run(&format!("{words} -log print-statements-on-error"));
    let complaint = refused.complaints.last().expect("a complaint");
    assert_eq!(complaint.matches("Statement: UPDATE \"shop\".\"visits\" SET ").count(), 4, "{complaint}");
    assert!(complaint.trim_end().ends_with(" more rows of the batch"), "{complaint}");
}

/// The disk of the tool's machine is full: the load goes on, the results are told, and the file is named once.
#[test]
fn a_full_disk_ends_no_run() {
    let mut stage = Stage::new(44);
    let ended =
        stage.run("write duration=5s no-warmup -rate threads=2 throttle=100/s -log hdrfile=/dev/full");
    assert_eq!((ended.success.clone(), ended.is_whole), (Ok(true), false));
    assert!(ended.number("Total partitions") > 450.0, "{}", ended.said);
    let named = ended.complaints.iter().filter(|text| text.starts_with("/dev/full: "));
    assert_eq!(named.count(), 1, "{:?}", ended.complaints);
    let nowhere = stage.run("write n=5 no-warmup -rate threads=2 -log hdrfile=/not/there");
    assert!(nowhere.success.is_err_and(|text| text.starts_with("/not/there: ")));
}
