//! The Rust `scylla` driver against running nodes: the shared tables of `cases/`, and what only this driver does, requests
//! on the shard that owns the row. It speaks protocol 4 alone, sends no payloads, and has no listeners of events.
//!
//! Everything is told by the environment, as `drivers.rs` says. Each test prints one line, the last line is their count.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)]

mod cases;
mod cluster;
mod rows;
mod schema;
mod secure;
mod statements;
mod suite;
mod talk;
mod values;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::cluster::metadata::PeriodicFetchMode;

use crate::suite::{Failure, Outcome, Suite, Told, equal, wait_for};
use crate::talk::{Talk, builder};

/// How often a session that listens reads again what events named since the last time, and nothing else.
const GATHERING: Duration = Duration::from_millis(20);

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, first] = words.as_slice() {
        return if word == "load" { cluster::run(first.parse()?).await } else { Err("unknown word".into()) };
    }
    let told = Told::read()?;
    let mut suite = Suite::new(&told);
    let all = [Some(Compression::Lz4), None, Some(Compression::Snappy)];
    for (i, compression) in all.into_iter().enumerate() {
        converse(&mut suite, &told, compression, i == 0).await?;
    }
    for compression in &all[..if told.quick { 1 } else { all.len() }] {
        let name = format!("v4 {}", name_of(*compression));
        suite.test(&format!("tls_and_password {name}"), secure::tls_and_password(&told, *compression)).await;
        suite.test(&format!("shard_aware_tls {name}"), secure::shard_aware(&told, *compression)).await;
        suite
            .test(&format!("client_certificate {name}"), secure::client_certificate(&told, *compression))
            .await;
    }
    suite.end();
    Ok(())
}

/// Everything by one compression; paging only once.
async fn converse(
    suite: &mut Suite<'_>,
    told: &Told,
    compression: Option<Compression>,
    paging: bool,
) -> Result<(), Failure> {
    let name = format!("v4 {}", name_of(compression));
    let mut opened = None;
    suite
        .test(&format!("connect {name}"), async {
            let (talk, note) = connect(told, compression).await?;
            opened = Some(talk);
            Ok(note)
        })
        .await;
    let Some(talk) = opened else { return Ok(()) };
    let (ordinary, talk) = (told.port, &talk);
    suite.test(&format!("shard_aware {name}"), rows::every_shard(talk, told, ordinary)).await;
    suite.test(&format!("types {name}"), cases::types(talk, told)).await;
    suite.test(&format!("mistakes {name}"), cases::mistakes(talk, told)).await;
    let changes = statements::prepared_across_changes(talk);
    suite.test(&format!("prepared_across_changes {name}"), changes).await;
    suite.test(&format!("batches_timestamps_ttl {name}"), statements::batches(talk)).await;
    suite.test(&format!("tracing_warnings {name}"), statements::extras(talk)).await;
    suite.test(&format!("metadata {name}"), schema::metadata(talk)).await;
    suite.test(&format!("events {name}"), events(talk, told, compression)).await;
    if paging {
        suite.test(&format!("paging {name}"), rows::paging(talk, told)).await;
    }
    talk.exec(format!("DROP KEYSPACE {}", talk.keyspace)).await?;
    Ok(())
}

async fn connect(told: &Told, compression: Option<Compression>) -> Result<(Talk, String), Failure> {
    let session = builder(&told.host, told.port, compression).build().await?;
    let talk = Talk::new(session, &told.driver).await?;
    let seen = connections(&talk.session).await?;
    equal(Connections::new(compression), seen, "connections as the server sees them")?;
    let (release,) = talk.row::<(String,)>("SELECT release_version FROM system.local").await?;
    Ok((talk, release))
}

/// A second session listens to what the first one changes.
async fn events(changing: &Talk, told: &Told, compression: Option<Compression>) -> Outcome {
    let keyspace = format!("{}_events", told.driver);
    changing.exec(format!("DROP KEYSPACE IF EXISTS {keyspace}")).await?;
    let listening = builder(&told.host, told.port, compression)
        .cluster_metadata_refresh_interval(GATHERING)
        .periodic_metadata_fetch_mode(PeriodicFetchMode::AffectedKeyspaces)
        .build()
        .await?;
    schema::events(&listening, changing, &keyspace).await
}

fn name_of(compression: Option<Compression>) -> &'static str {
    match compression {
        Some(Compression::Lz4) => "lz4",
        Some(Compression::Snappy) => "snappy",
        None => "none",
    }
}

/// How the server says that a session's connections speak; the driver tells nobody what it agreed on.
#[derive(Debug, PartialEq)]
pub struct Connections {
    versions: BTreeSet<i32>,
    compressions: BTreeSet<Option<String>>,
    tls: bool,
    user: String,
}

impl Connections {
    /// By protocol 4 and this compression, plain and without a password.
    fn new(compression: Option<Compression>) -> Connections {
        let word = compression.map(|compression| name_of(Some(compression)).to_owned());
        Connections {
            versions: [4].into(),
            compressions: [word].into(),
            tls: false,
            user: "anonymous".into(),
        }
    }
}

/// The server's list of clients, of which those of this session are told by its id.
pub async fn connections(session: &Session) -> Result<Connections, Failure> {
    type Client = (Option<HashMap<String, String>>, i32, bool, Option<String>);
    let text = "SELECT client_options, protocol_version, ssl_enabled, username FROM system_views.clients";
    let id = session.session_id().to_string();
    wait_for("the session in the server's list of clients", async || {
        let rows = session.query_unpaged(text, &[]).await?.into_rows_result()?;
        let mut seen: Option<Connections> = None;
        for row in rows.rows::<Client>()? {
            let (options, version, tls, user) = row?;
            let options = options.unwrap_or_default();
            if options.get("SESSION_ID") != Some(&id) {
                continue;
            }
            let seen = seen.get_or_insert_with(|| Connections {
                versions: BTreeSet::new(),
                compressions: BTreeSet::new(),
                tls,
                user: user.unwrap_or_default(),
            });
            seen.versions.insert(version);
            seen.compressions.insert(options.get("COMPRESSION").cloned());
            seen.tls &= tls;
        }
        Ok(seen)
    })
    .await
}
