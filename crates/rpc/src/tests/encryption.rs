//! The same conversations under TLS: who is trusted, what a port takes, keys that are renewed.

use super::*;
use std::path::PathBuf;
use tls::{ClientAuth, ClientSettings, Encryption, ServerSettings};

const FILES: [(&str, &[u8]); 9] = [
    ("server.pem", include_bytes!("../../../tls/testdata/server.pem")),
    ("server.key", include_bytes!("../../../tls/testdata/server.key")),
    ("renewed.pem", include_bytes!("../../../tls/testdata/renewed.pem")),
    ("renewed.key", include_bytes!("../../../tls/testdata/renewed.key")),
    ("client.pem", include_bytes!("../../../tls/testdata/client.pem")),
    ("client.key", include_bytes!("../../../tls/testdata/client.key")),
    ("outsider.pem", include_bytes!("../../../tls/testdata/outsider.pem")),
    ("outsider.key", include_bytes!("../../../tls/testdata/outsider.key")),
    ("authority.pem", include_bytes!("../../../tls/testdata/authority.pem")),
];
const SERVER: [&str; 2] = ["server.pem", "server.key"];
const CLIENT: [&str; 2] = ["client.pem", "client.key"];
const OUTSIDER: [&str; 2] = ["outsider.pem", "outsider.key"];

async fn put(name: &str, bytes: &[u8]) {
    runtime::file::replace_atomic(&PathBuf::from("/").join(name), bytes).await.expect("the disk works");
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/").join(name)
}

/// Puts the files onto the node's disk.
pub(super) async fn settings(
    server: [&str; 2],
    client: [&str; 2],
    client_auth: ClientAuth,
) -> (ServerSettings, ClientSettings) {
    for (name, bytes) in FILES {
        put(name, bytes).await;
    }
    let server = ServerSettings {
        certificate: path(server[0]),
        key: path(server[1]),
        trust: Some(path("authority.pem")),
        client_auth,
        protocols: Vec::new(),
        cipher_suites: Vec::new(),
    };
    let client = ClientSettings {
        trust: Some(path("authority.pem")),
        certificate: Some((path(client[0]), path(client[1]))),
    };
    (server, client)
}

/// Two nodes with these rules, given some seconds.
fn meet(seed: u64, first: Security, second: Security) -> (World, Vec<Node>) {
    let mut world = World::new(seed, SimConfig::calm());
    let mut nodes = Vec::new();
    for (last, shards, security, peer) in [(1, 2, first, 2), (2, 3, second, 1)] {
        let id = world.add_node(ip(last));
        let rules = Rules::new(last, shards);
        *rules.security.lock().expect("as above") = security;
        nodes.push(boot(&mut world, id, &rules, shards, last, &[(peer, peer)]));
    }
    world.run_for(3 * SECOND);
    (world, nodes)
}

pub(super) fn secure(port: Encryption) -> Security {
    Security { port, keys: Some((SERVER, CLIENT, ClientAuth::Required)), encrypt: port != Encryption::None }
}

fn are_up(nodes: &[Node]) -> (bool, bool) {
    let up = |node: &Node, of| node.rules.story(host(of)).last().is_some_and(|word| word.starts_with("up"));
    (up(&nodes[0], 2), up(&nodes[1], 1))
}

#[test]
fn nodes_speak_encrypted_on_all_shards() {
    for seed in 0..5 {
        let required = secure(Encryption::Required);
        let (mut world, nodes) = meet(seed, required, required);
        assert_eq!(are_up(&nodes), (true, true), "seed {seed}");
        for (from, to) in [(0, 0), (1, 2), (0, 2), (1, 0)] {
            let task = on_shard(&mut world, &nodes[0], from, async move || {
                let pool = runtime::local::<Pool>();
                let small = pool.call(host(2), to, asks(ECHO, SECOND), |out| out.push(9)).await;
                let ask = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&3_000_000u32.to_be_bytes());
                    out.resize(out.len() + 2_000_000, 1);
                };
                let large = pool.call(host(2), to, asks(LARGE, 10 * SECOND), ask).await;
                (small, large.map(|body| body.len()), pool.in_flight(), pool.unsent())
            });
            let (small, large, in_flight, unsent) = result(&mut world, task, 20 * SECOND);
            assert_eq!((small, large), (Ok(vec![to as u8, 9]), Ok(3_000_000)), "seed {seed}: {from} to {to}");
            assert_eq!((in_flight, unsent), ((0, 0), 0));
        }
    }
}

#[test]
fn an_optional_port_takes_both_and_others_one() {
    let plain = Security { port: Encryption::None, keys: None, encrypt: false };
    let (_, nodes) = meet(1, secure(Encryption::Optional), Security { keys: plain.keys, ..plain });
    assert_eq!(are_up(&nodes), (true, true), "the plain one connects to the optional one");
    let (_, nodes) = meet(1, secure(Encryption::Required), plain);
    assert_eq!(are_up(&nodes), (false, false));
}

#[test]
fn strangers_are_not_trusted() {
    let required = secure(Encryption::Required);
    let keys = |server, client, auth| Security { keys: Some((server, client, auth)), ..required };
    let (mut world, nodes) = meet(2, required, keys(OUTSIDER, OUTSIDER, ClientAuth::Required));
    assert_eq!(are_up(&nodes), (false, false), "whichever dials");
    world.run_for(10 * SECOND);
    let told =
        world.log_lines().iter().filter(|(_, line)| line.contains("no encryption: invalid peer")).count();
    assert!((2..=4).contains(&told), "{told} lines: {:#?}", world.log_lines());
    let task = on_shard(&mut world, &nodes[0], 0, async || runtime::local::<Links>().reason(host(2)));
    let reason = result(&mut world, task, SECOND).expect("it was tried");
    assert!(reason.contains("no encryption"), "{reason}");
    // Who is not asked for a certificate is judged by what it serves alone.
    let lenient = keys(SERVER, CLIENT, ClientAuth::None);
    let (_, nodes) = meet(2, lenient, keys(SERVER, OUTSIDER, ClientAuth::Required));
    assert_eq!(are_up(&nodes), (true, true));
}

#[test]
fn renewed_keys_are_used_for_new_connections() {
    let required = secure(Encryption::Required);
    let (mut world, nodes) = meet(3, required, required);
    for node in &nodes {
        let task = on_shard(&mut world, node, 0, async || {
            let file = |name: &str| FILES.iter().find(|(known, _)| *known == name).expect("known").1;
            put("server.key", file("renewed.key")).await;
            put("server.pem", file("renewed.pem")).await;
        });
        result(&mut world, task, SECOND);
    }
    world.run_for(2 * tls::limits::LOOK_EVERY + SECOND);
    let renewed = world.log_lines().iter().filter(|(_, line)| line.contains("renewed keys")).count();
    assert_eq!(renewed, 2, "{:#?}", world.log_lines());
    world.reset_connections(nodes[0].id, nodes[1].id);
    world.run_for(2 * SECOND);
    assert_eq!(are_up(&nodes), (true, true));
}
