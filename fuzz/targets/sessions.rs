//! TLS records from a stranger: before, during and after a handshake, to a server and to a client; what comes through is read as frames.
//!
//! `mode bytes`: the mode says when the bytes come, who gets them, and whether they replace, damage or follow what should have come.
//! All of it happens in a simulated world, so that the same input gives the same run.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::assembler::Assembler;
use protocol::envelope::Direction;
use runtime::sim::{SimConfig, World};
use std::time::Duration;
use tls::{ClientAuth, ClientSettings, Connector, ServerSettings, Session, Watch};

const CERTIFICATE: &[u8] = include_bytes!("../../crates/tls/testdata/server.pem");
const KEY: &[u8] = include_bytes!("../../crates/tls/testdata/server.key");
const AUTHORITY: &[u8] = include_bytes!("../../crates/tls/testdata/authority.pem");

fuzz_target!(|data: &[u8]| {
    let Some((&mode, bytes)) = data.split_first() else { return };
    let mut world = World::new(1, SimConfig::calm());
    let machine = world.add_client([10, 0, 0, 1].into());
    let bytes = bytes.to_vec();
    let task = world.spawn(machine, async move { converse(mode, bytes).await });
    assert!(world.run_until(|_| task.done(), Duration::from_secs(60)), "it ends");
});

async fn converse(mode: u8, bytes: Vec<u8>) {
    for (path, content) in [("/c.pem", CERTIFICATE), ("/k.pem", KEY), ("/a.pem", AUTHORITY)] {
        runtime::file::replace_atomic(path, content).await.expect("the disk works");
    }
    let settings = ServerSettings {
        certificate: "/c.pem".into(),
        key: "/k.pem".into(),
        trust: Some("/a.pem".into()),
        client_auth: ClientAuth::Optional,
        protocols: if mode & 64 == 0 { Vec::new() } else { vec!["TLSv1.2".into()] },
        cipher_suites: Vec::new(),
    };
    let (acceptor, _) = Watch::start(settings).await.expect("good files");
    let trust = ClientSettings { trust: Some("/a.pem".into()), certificate: None };
    let connector = Connector::load(&trust).await.expect("good files");
    let mut server = acceptor.session().expect("a server");
    let mut client = connector.session([10, 0, 0, 1].into()).expect("a client");
    // So many flights go through unharmed.
    for flight in 0..mode & 7 {
        let (from, to) =
            if flight % 2 == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
        let mut wire = Vec::new();
        from.output(&mut wire).expect("it speaks");
        to.receive(&wire, |_| {}).expect("they agree");
    }
    let to_server = mode & 8 == 0;
    let (from, to) = if to_server { (&mut client, &mut server) } else { (&mut server, &mut client) };
    let mut wire = Vec::new();
    if from.is_handshaking() {
        from.output(&mut wire).expect("it speaks");
    } else {
        from.send(&bytes, &mut wire).expect("it speaks");
    }
    match mode >> 4 & 3 {
        0 => wire = bytes,
        1 => wire.extend_from_slice(&bytes),
        2 => wire.iter_mut().zip(&bytes).for_each(|(byte, noise)| *byte ^= noise),
        _ => {}
    }
    hear(to, &wire, to_server);
}

fn hear(session: &mut Session, wire: &[u8], to_server: bool) {
    let direction = if to_server { Direction::Requests } else { Direction::Responses };
    let mut assembler = Assembler::new(direction, 1 << 20);
    for piece in wire.chunks(300) {
        let heard = session.receive(piece, |plain| assembler.push(plain));
        let mut answer = Vec::new();
        session.output(&mut answer).expect("memory takes everything");
        while let Ok(Some(_)) = assembler.next() {}
        if heard.is_err() {
            return;
        }
    }
}
