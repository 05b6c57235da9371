//! ALTER KEYSPACE of a cluster: never may a node be read from for rows that it does not have.

use super::*;

/// A founded cluster of three nodes of one datacenter.
fn cluster() -> (World, Run) {
    let mut world = World::new(12, SimConfig::calm());
    let mut run = members(&mut world, 12);
    for host in &mut run.hosts {
        host.config.data_center = "near".to_owned();
    }
    run.boot_dead(&mut world, 1.0);
    for host in &run.hosts {
        host.await_ready(&mut world).expect("starts");
    }
    (world, run)
}

/// What comes of a statement at a node: nothing, or the text and code of its refusal.
fn said(world: &mut World, run: &Run, at: usize, cql: &str) -> Result<(), (i32, String)> {
    let (to, cql) = (run.hosts[at].native(), cql.to_owned());
    let mut asked = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        session.query(&cql, Ask::at(Consistency::One)).await
    });
    match finished(world, &mut asked, LONG, "asking").expect("in time") {
        Ok(_) => Ok(()),
        Err(Trouble::Refused(failure)) => Err((failure.kind.code(), failure.message.clone())),
        Err(Trouble::Lost(text)) => panic!("{text}"),
    }
}

fn replicated(keyspace: &str, factor: u32) -> String {
    format!(
        "ALTER KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {factor}}}"
    )
}

#[test]
fn a_replication_with_new_readers_is_refused_while_there_are_rows() {
    let (mut world, run) = cluster();
    for keyspace in ["ks", "other"] {
        let made = format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 2}}"
        );
        said(&mut world, &run, 0, &made).expect("made");
        said(&mut world, &run, 0, &format!("CREATE TABLE {keyspace}.r (k int PRIMARY KEY, v int)"))
            .expect("made");
    }
    said(&mut world, &run, 1, "INSERT INTO ks.r (k, v) VALUES (1, 1)").expect("written");
    let (code, text) = said(&mut world, &run, 2, &replicated("ks", 3)).expect_err("there are rows");
    assert_eq!(code, 0x2200, "{text}");
    assert!(text.contains("Create a keyspace with that replication"), "{text}");
    // Another keyspace is not concerned, nor is one that loses replicas, nor that of the roles.
    said(&mut world, &run, 0, &replicated("other", 3)).expect("it is empty");
    said(&mut world, &run, 0, &replicated("ks", 1)).expect("a lowered factor");
    let (code, text) = said(&mut world, &run, 0, &replicated("ks", 2)).expect_err("there are rows");
    assert_eq!(code, 0x2200, "{text}");
    said(&mut world, &run, 0, &replicated("system_auth", 3)).expect("roles are everywhere");
    said(&mut world, &run, 0, "TRUNCATE ks.r").expect("truncated");
    world.kill(run.hosts[2].node);
    world.run_for(Duration::from_secs(10));
    let (code, text) = said(&mut world, &run, 0, &replicated("ks", 3)).expect_err("a member is down");
    assert_eq!(code, 0x2200, "{text}");
    assert!(text.contains("does not say"), "{text}");
    let mut run = run;
    run.boot_dead(&mut world, 1.0);
    run.hosts[2].await_ready(&mut world).expect("starts");
    world.run_for(Duration::from_secs(5));
    said(&mut world, &run, 0, &replicated("ks", 3)).expect("it is empty");
}
