//! What a node must not do lest others lose what it promised: go on without its disk, come back older than it was.

use crate::found::{Found, ip};
use base::HostId;
use cluster::Group0;
use node::config::Authenticator;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_node_that_cannot_write_the_clusters_log_ends_with_the_reason() {
    for n in [1, 3] {
        let mut found = Found::start(71, 3);
        let node = found.node(n);
        found.world.fail_next_syncs(node, 1);
        let through = if n == 1 { 2 } else { 1 };
        // It may be the leader that fails: then this is in doubt.
        let _done_or_not = found.query(
            through,
            "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
        );
        let (code, text) = found.await_end(n, LONG);
        assert_eq!(code, Some(1), "node {n}: {text}");
        assert!(text.contains("group0.log") && text.contains("sync"), "node {n}: {text}");
        // The others are a majority, and it may come back.
        found
            .query(
                through,
                "CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
            )
            .expect("two of three");
        found.boot_all();
        found.query(n, "DROP KEYSPACE b").expect("it is a member again");
    }
}

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}";

#[test]
fn a_join_that_is_refused_for_good_ends_with_the_reason() {
    let mut found = Found::new(72, 5);
    found.configs[2].cluster_name = "another".to_owned();
    found.configs[3].initial_tokens = vec![5];
    found.configs[0].initial_tokens = vec![5, 6];
    found.boot(1);
    found.await_ready(1);
    for (n, words) in [(3, &["\"another\"", "cluster names differ"][..]), (4, &["token"][..])] {
        found.boot(n);
        let (code, text) = found.await_end(n, LONG);
        assert_eq!(code, Some(1), "node {n}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "node {n}: {text}");
    }
    // One that lost its folder, and is called as a member is.
    found.boot(2);
    found.await_ready(2);
    let node = found.node(2);
    found.world.power_cut(node);
    found.world.wipe_disk(node);
    found.configs[1].host_id = Some(0x7777);
    found.boot(2);
    let (code, text) = found.await_end(2, LONG);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("10.0.0.2"), "{text}");
}

#[test]
fn two_names_before_a_cluster_is_founded_are_waited_for() {
    let mut found = Found::new(73, 2);
    let seeds = [1, 2].map(|n| node::config::Seed { host: ip(n).to_string(), port: None });
    found.configs.iter_mut().for_each(|config| config.seeds = seeds.to_vec());
    found.configs[1].cluster_name = "another".to_owned();
    found.boot(1);
    found.boot(2);
    found.world.run_for(LONG * 3);
    for n in [1, 2] {
        assert!(
            found.world.alive(found.node(n)),
            "an operator may start the other one anew: {:?}",
            found.failure(n)
        );
    }
    let said = found.count_lines("cluster names differ");
    assert!((4..20).contains(&said), "each minute, not more: {said}: {:?}", found.lines());
    let node = found.node(2);
    found.world.kill(node);
    found.configs[1].cluster_name = found.configs[0].cluster_name.clone();
    found.boot(2);
    found.await_ready(1);
    found.await_ready(2);
}

#[test]
fn a_join_that_waits_says_for_whom_each_minute_and_ends_when_it_is_given_up() {
    let mut found = Found::new(74, 4);
    (1..=3).for_each(|n| {
        found.boot(n);
        found.await_ready(n);
    });
    found.world.run_for(Duration::from_secs(10));
    // A member that may hold rows is waited for.
    let down = found.node(2);
    found.world.power_cut(down);
    found.world.run_for(Duration::from_secs(10));
    found.boot(4);
    found.world.run_for(4 * LONG);
    assert!(!found.is_ready(4));
    let by_leader =
        found.count_lines("the join of 10.0.0.4 (00000000-0000-0000-0000-000000004444) waits for 10.0.0.2");
    assert!((3..=4).contains(&by_leader), "{by_leader}: {:?}", found.lines());
    let by_itself = found
        .lines()
        .iter()
        .filter(|line| line.contains("waiting to join") && line.contains("10.0.0.2"))
        .count();
    assert!((3..=12).contains(&by_itself), "{by_itself}: {:?}", found.lines());
    // An operator gives it up.
    let first = found.node(1);
    let mut put_out =
        found.world.spawn(first, async { runtime::local::<Group0>().put_out(HostId(0x4444)).await });
    assert!(found.world.run_until(|_| put_out.done(), LONG));
    put_out.take().expect("done").expect("agreed");
    let (code, text) = found.await_end(4, LONG);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("empty data folder") && text.contains("4444"), "{text}");
    // And each later start of its folder.
    found.boot(4);
    let (code, text) = found.await_end(4, LONG);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("4444"), "{text}");
}

#[test]
fn a_node_that_lags_does_not_say_what_is_not_so_any_more() {
    let mut found = Found::new(75, 3);
    for config in &mut found.configs {
        config.authentication.authenticator = Authenticator::Password;
    }
    found.boot_all();
    found.world.run_for(Duration::from_secs(10));
    let query = |found: &mut Found, n, text: &str| {
        let text = text.to_owned();
        found.play(async move {
            let connection = crate::found::connect_as(n, ("cassandra", "cassandra")).await;
            let outcome = connection.query(&text, crate::harness::one()).await;
            outcome.map(drop).map_err(|error| error.to_string())
        })
    };
    query(&mut found, 1, KEYSPACE).unwrap();
    // The second node hears nothing of the others for so long that it lags, and is asked in the moment in which it does again.
    for (made, asked) in [
        ("CREATE TABLE ks.a (k int PRIMARY KEY)", "DROP TABLE IF EXISTS ks.a"),
        ("CREATE TABLE ks.a (k int PRIMARY KEY)", "DROP TABLE ks.a"),
        ("CREATE ROLE clerk", "DROP ROLE IF EXISTS clerk"),
        ("CREATE ROLE clerk", "DROP ROLE clerk"),
    ] {
        let [first, second, third] = [1, 2, 3].map(|n| found.node(n));
        found.world.cut(first, second);
        found.world.cut(second, third);
        query(&mut found, 1, made).unwrap();
        found.world.heal_all();
        query(&mut found, 2, asked).unwrap_or_else(|error| panic!("{asked}: {error}"));
        found.world.run_for(Duration::from_secs(10));
        // It was there, and is not any more.
        query(&mut found, 1, made).unwrap_or_else(|error| panic!("{made} again: {error}"));
        query(&mut found, 1, asked).unwrap();
    }
    // Without a majority it cannot know.
    let [first, second, third] = [1, 2, 3].map(|n| found.node(n));
    found.world.cut(first, second);
    found.world.cut(second, third);
    for asked in ["DROP TABLE IF EXISTS ks.a", "DROP ROLE IF EXISTS clerk"] {
        let begun = found.world.now();
        let error = query(&mut found, 2, asked).expect_err("nobody else was asked");
        assert!(error.contains("changed"), "{error}");
        assert!(found.world.now() - begun < Duration::from_secs(12));
    }
}

#[test]
fn an_older_folder_is_refused_also_by_nodes_that_have_restarted() {
    let mut found = Found::start(76, 3);
    let third = found.node(3);
    let make = |found: &mut Found, name: &str| {
        found.query(1, &format!("CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"))
    };
    make(&mut found, "a").unwrap();
    found.world.run_for(Duration::from_secs(3));
    // As a backup that is taken with the node stopped, or a snapshot of its disk.
    found.world.power_cut(third);
    let image = found.world.disk_image(third);
    found.boot(3);
    found.await_ready(3);
    make(&mut found, "b").unwrap();
    found.world.run_for(Duration::from_secs(3));
    for n in 1..=3 {
        let node = found.node(n);
        found.world.power_cut(node);
    }
    for n in 1..=2 {
        found.boot(n);
    }
    (1..=2).for_each(|n| found.await_ready(n));
    found.world.run_for(Duration::from_secs(10));
    found.world.restore_disk(third, image);
    found.boot(3);
    found.world.run_for(Duration::from_secs(20));
    for n in 1..=2 {
        let is_up = found.is_up(n, 3);
        assert!(!is_up, "node {n} takes it for the one that it knows: {:?}", found.lines());
    }
    assert!(found.count_lines("a copied or restored data folder") >= 2, "{:?}", found.lines());
    make(&mut found, "c").expect("two of three go on");
}

#[test]
fn a_folder_that_was_kept_is_let_in_wherever_its_node_was_killed() {
    for seed in 80..86 {
        let mut found = Found::start(seed, 3);
        for round in 0..8 {
            let [n, other] =
                [1 + found.world.rng().below(3) as usize, 1 + found.world.rng().below(3) as usize];
            let through = 1 + n % 3;
            let text = format!(
                "CREATE KEYSPACE k{round} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            );
            let address = std::net::SocketAddr::new(ip(through), 9042);
            let asking = found.spawn(async move {
                let options = client::Options::new(protocol::envelope::Version::V5);
                if let Ok(connection) = client::Connection::connect(address, &options).await {
                    let _done_or_not = connection.query(&text, crate::harness::one()).await;
                }
            });
            let spell = Duration::from_micros(found.world.rng().below(20_000));
            found.world.run_for(spell);
            for victim in [n, other] {
                let node = found.node(victim);
                match found.world.rng().chance(0.5) {
                    true => found.world.power_cut(node),
                    false => found.world.kill(node),
                }
            }
            // Perhaps behind an election of the others.
            let spell = Duration::from_millis(found.world.rng().below(6_000));
            found.world.run_for(spell);
            drop(asking);
            found.boot_all();
            found.world.run_for(Duration::from_secs(1));
        }
        found.world.run_for(Duration::from_secs(10));
        assert_eq!(
            found.count_lines("a copied or restored data folder"),
            0,
            "seed {seed}: {:?}",
            found.lines()
        );
        for n in 1..=3 {
            assert!(
                (1..=3).all(|of| of == n || found.is_up(n, of)),
                "seed {seed}: at {n}: {:?}",
                found.lines()
            );
        }
    }
}
