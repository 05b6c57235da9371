//! Both sides talk over bytes cut anywhere; whoever is not trusted is refused; files are what people put there by mistake, too.
//! Everything runs in a simulated world.

use crate::*;
use runtime::sim::{SimConfig, World};
use std::path::PathBuf;
use std::time::Duration;

const SERVER: &[u8] = include_bytes!("../testdata/server.pem");
const SERVER_KEY: &[u8] = include_bytes!("../testdata/server.key");
const RENEWED: &[u8] = include_bytes!("../testdata/renewed.pem");
const RENEWED_KEY: &[u8] = include_bytes!("../testdata/renewed.key");
const CLIENT: &[u8] = include_bytes!("../testdata/client.pem");
const CLIENT_KEY: &[u8] = include_bytes!("../testdata/client.key");
const OUTSIDER: &[u8] = include_bytes!("../testdata/outsider.pem");
const OUTSIDER_KEY: &[u8] = include_bytes!("../testdata/outsider.key");
const AUTHORITY: &[u8] = include_bytes!("../testdata/authority.pem");
const STRANGER: &[u8] = include_bytes!("../testdata/stranger.pem");
const ENCRYPTED_KEY: &[u8] = include_bytes!("../testdata/encrypted.key");

/// Runs a scenario on a machine of a world with this seed.
fn play<T: 'static>(seed: u64, scenario: impl Future<Output = T> + 'static) -> T {
    let mut world = World::new(seed, SimConfig::calm());
    let machine = world.add_client("10.0.0.1".parse().expect("an address"));
    let mut task = world.spawn(machine, scenario);
    assert!(world.run_until(|_| task.done(), Duration::from_secs(60)), "the scenario does not end");
    task.take().expect("done")
}

async fn put(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from("/").join(name);
    runtime::file::replace_atomic(&path, bytes).await.expect("the disk works");
    path
}

async fn server_settings(client_auth: ClientAuth) -> ServerSettings {
    ServerSettings {
        certificate: put("server.pem", SERVER).await,
        key: put("server.key", SERVER_KEY).await,
        trust: Some(put("authority.pem", AUTHORITY).await),
        client_auth,
        protocols: Vec::new(),
        cipher_suites: Vec::new(),
    }
}

async fn acceptor(settings: ServerSettings) -> Acceptor {
    Watch::start(settings).await.expect("good files").0
}

async fn connector(trust: Option<&[u8]>, certificate: Option<(&[u8], &[u8])>) -> Connector {
    let trust = match trust {
        Some(bytes) => Some(put("trust.pem", bytes).await),
        None => None,
    };
    let certificate = match certificate {
        Some((chain, key)) => Some((put("own.pem", chain).await, put("own.key", key).await)),
        None => None,
    };
    Connector::load(&ClientSettings { trust, certificate }).await.expect("good files")
}

/// Moves what one side has to say to the other, in pieces of random sizes; what it says is appended to `heard`.
fn carry(from: &mut Session, to: &mut Session, heard: &mut Vec<u8>) -> Result<bool, Error> {
    let mut wire = Vec::new();
    from.output(&mut wire)?;
    deliver(&wire, to, heard)?;
    Ok(!wire.is_empty())
}

fn deliver(mut wire: &[u8], to: &mut Session, heard: &mut Vec<u8>) -> Result<(), Error> {
    while !wire.is_empty() {
        let cut = 1 + runtime::random_u64() as usize % wire.len().min(20_000);
        let (piece, rest) = wire.split_at(cut);
        to.receive(piece, |plain| heard.extend_from_slice(plain))?;
        wire = rest;
    }
    Ok(())
}

/// Shakes hands; both sides know afterwards whether they trust each other.
fn shake(client: &mut Session, server: &mut Session) -> Result<(), Error> {
    let mut nothing = Vec::new();
    loop {
        let moved = carry(client, server, &mut nothing)? | carry(server, client, &mut nothing)?;
        if !moved {
            assert!(nothing.is_empty());
            assert!(!client.is_handshaking() && !server.is_handshaking());
            return Ok(());
        }
    }
}

fn sessions(acceptor: &Acceptor, connector: &Connector) -> (Session, Session) {
    let client = connector.session("10.0.0.1".parse().expect("an address")).expect("a client");
    (client, acceptor.session().expect("a server"))
}

#[test]
fn what_is_said_is_heard_however_the_bytes_are_cut() {
    for seed in 0..20 {
        play(seed, async {
            let acceptor = acceptor(server_settings(ClientAuth::None).await).await;
            let connector = connector(Some(AUTHORITY), None).await;
            let (mut client, mut server) = sessions(&acceptor, &connector);
            shake(&mut client, &mut server).expect("they agree");
            assert_eq!(server.protocol(), Some("TLSv1.3"));
            assert!(server.cipher_suite().expect("agreed").starts_with("TLS_"));
            for size in [0usize, 1, 100, 16_384, 16_385, 700_000] {
                let said: Vec<u8> = (0..size).map(|i| (i * i) as u8).collect();
                let (mut wire, mut heard) = (Vec::new(), Vec::new());
                client.send(&said, &mut wire).expect("sent");
                // A record has five bytes in front and a tag of sixteen behind, and the type of its content.
                assert!(wire.len() <= said.len() + 22 * size.div_ceil(limits::RECORD_BYTES));
                deliver(&wire, &mut server, &mut heard).expect("heard");
                assert_eq!(heard, said);
                wire.clear();
                heard.clear();
                server.send(&said, &mut wire).expect("sent");
                deliver(&wire, &mut client, &mut heard).expect("heard");
                assert_eq!(heard, said);
            }
            let mut wire = Vec::new();
            client.goodbye(&mut wire).expect("sent");
            let end = server.receive(&wire, |_| panic!("nothing was said")).expect("heard");
            assert_eq!(end, Received { closed: true });
        });
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let conversation = |seed| {
        play(seed, async {
            let acceptor = acceptor(server_settings(ClientAuth::None).await).await;
            let connector = connector(Some(AUTHORITY), None).await;
            let (mut client, mut server) = sessions(&acceptor, &connector);
            let (mut record, mut nothing) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let at = record.len();
                client.output(&mut record).expect("sent");
                deliver(&record[at..], &mut server, &mut nothing).expect("heard");
                let at = record.len();
                server.output(&mut record).expect("sent");
                deliver(&record[at..], &mut client, &mut nothing).expect("heard");
            }
            client.send(b"statement", &mut record).expect("sent");
            record
        })
    };
    assert_eq!(conversation(1), conversation(1));
    assert_ne!(conversation(1), conversation(2));
}

#[test]
fn servers_of_unknown_authorities_are_refused_unless_anybody_is_believed() {
    play(1, async {
        let acceptor = acceptor(server_settings(ClientAuth::None).await).await;
        for (trust, believed) in [(Some(AUTHORITY), true), (Some(STRANGER), false), (None, true)] {
            let (mut client, mut server) = sessions(&acceptor, &connector(trust, None).await);
            assert_eq!(shake(&mut client, &mut server).is_ok(), believed);
        }
    });
}

#[test]
fn clients_show_certificates_where_they_must() {
    play(1, async {
        let own = Some((CLIENT, CLIENT_KEY));
        let outsider = Some((OUTSIDER, OUTSIDER_KEY));
        for (asked, shown, welcome) in [
            (ClientAuth::None, None, true),
            (ClientAuth::None, outsider, true),
            (ClientAuth::Optional, None, true),
            (ClientAuth::Optional, own, true),
            (ClientAuth::Optional, outsider, false),
            (ClientAuth::Required, None, false),
            (ClientAuth::Required, own, true),
            (ClientAuth::Required, outsider, false),
        ] {
            let acceptor = acceptor(server_settings(asked).await).await;
            let (mut client, mut server) = sessions(&acceptor, &connector(Some(AUTHORITY), shown).await);
            assert_eq!(shake(&mut client, &mut server).is_ok(), welcome, "{asked:?}");
        }
        let settings = ServerSettings { trust: None, ..server_settings(ClientAuth::Required).await };
        let refused = Watch::start(settings).await.err().expect("nobody could be trusted").to_string();
        assert!(refused.contains("no truststore"), "{refused}");
    });
}

#[test]
fn files_of_other_forms_are_refused_with_the_way_to_convert_them() {
    play(1, async {
        let both = [SERVER, SERVER_KEY].concat();
        let good = ServerSettings {
            certificate: put("both.pem", &both).await,
            key: put("both.pem", &both).await,
            ..server_settings(ClientAuth::None).await
        };
        assert!(Watch::start(good).await.is_ok());
        for (certificate, key, text) in [
            (&[0xFE, 0xED, 0xFE, 0xED, 0, 0][..], SERVER_KEY, "keytool -importkeystore"),
            (&[0x30, 0x82, 1, 2], SERVER_KEY, "openssl pkcs12"),
            (SERVER, ENCRYPTED_KEY, "openssl pkey"),
            (SERVER, SERVER, "no private key"),
            (SERVER_KEY, SERVER_KEY, "no certificate"),
            (b"", SERVER_KEY, "no certificate"),
            (SERVER, CLIENT_KEY, "keys"),
            (b"-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", SERVER_KEY, "not PEM"),
        ] {
            let settings = ServerSettings {
                certificate: put("c.pem", certificate).await,
                key: put("k.pem", key).await,
                ..server_settings(ClientAuth::None).await
            };
            let refused = Watch::start(settings).await.err().expect(text).to_string();
            assert!(refused.contains(text), "{refused} does not say {text}");
        }
        let missing = ServerSettings {
            certificate: PathBuf::from("/missing.pem"),
            ..server_settings(ClientAuth::None).await
        };
        let refused = Watch::start(missing).await.err().expect("no file").to_string();
        assert!(refused.contains("/missing.pem"), "{refused}");
    });
}

#[test]
fn renewed_files_are_taken_broken_ones_are_not() {
    play(1, async {
        let (_, mut watch) = Watch::start(server_settings(ClientAuth::None).await).await.expect("good");
        assert!(watch.look().await.is_none());
        put("server.pem", b"half of a certif").await;
        assert!(watch.look().await.expect("a change").is_err());
        assert!(watch.look().await.is_none(), "it is told once");
        runtime::file::remove("/server.pem").await.expect("the disk works");
        assert!(watch.look().await.expect("a change").is_err());
        assert!(watch.look().await.is_none(), "it is told once");
        put("server.pem", SERVER).await;
        assert!(watch.look().await.is_none(), "they are what is used");
        put("server.pem", RENEWED).await;
        assert!(watch.look().await.expect("a change").is_err(), "the key is the old one");
        put("server.key", RENEWED_KEY).await;
        let renewed = watch.look().await.expect("a change").expect("good files");
        let (mut client, mut server) = sessions(&renewed, &connector(Some(AUTHORITY), None).await);
        shake(&mut client, &mut server).expect("they agree");
    });
}

#[test]
fn versions_and_suites_are_those_allowed() {
    play(1, async {
        let base = server_settings(ClientAuth::None).await;
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
        let old = ServerSettings { protocols: names(&["TLSv1.2", "TLSv1.1"]), ..base.clone() };
        let (mut client, mut server) = sessions(&acceptor(old).await, &connector(None, None).await);
        shake(&mut client, &mut server).expect("they agree");
        assert_eq!(server.protocol(), Some("TLSv1.2"));
        let suite = "TLS_CHACHA20_POLY1305_SHA256";
        let one =
            ServerSettings { cipher_suites: names(&[suite, "TLS_RSA_WITH_RC4_128_MD5"]), ..base.clone() };
        let (mut client, mut server) = sessions(&acceptor(one).await, &connector(None, None).await);
        shake(&mut client, &mut server).expect("they agree");
        assert_eq!(server.cipher_suite().as_deref(), Some(suite));
        for bad in [
            ServerSettings { protocols: names(&["SSLv3"]), ..base.clone() },
            ServerSettings { cipher_suites: names(&["TLS_RSA_WITH_RC4_128_MD5"]), ..base },
        ] {
            assert!(Watch::start(bad).await.is_err());
        }
    });
}

#[test]
fn any_bytes_are_safe() {
    play(1, async {
        let acceptor = acceptor(server_settings(ClientAuth::Optional).await).await;
        let connector = connector(Some(AUTHORITY), None).await;
        for round in 0..2000u64 {
            let (mut client, mut server) = sessions(&acceptor, &connector);
            let mut wire = Vec::new();
            client.output(&mut wire).expect("a greeting");
            match round % 3 {
                0 => wire = (0..runtime::random_u64() % 600).map(|_| runtime::random_u64() as u8).collect(),
                1 => {
                    let at = runtime::random_u64() as usize % wire.len();
                    wire[at] = runtime::random_u64() as u8;
                }
                _ => wire.truncate(runtime::random_u64() as usize % wire.len()),
            }
            let mut answer = Vec::new();
            let _judged = deliver(&wire, &mut server, &mut Vec::new());
            server.output(&mut answer).expect("an alert or nothing");
            if let Some(byte) = answer.first_mut()
                && round % 2 == 0
            {
                *byte ^= runtime::random_u64() as u8;
            }
            let _judged = deliver(&answer, &mut client, &mut Vec::new());
        }
    });
}
