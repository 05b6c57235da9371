//! Events of the schema: every registered connection hears of every change once, in order, whatever it asked for and how often.

use crate::harness::*;
use client::{Connection, Options};
use protocol::envelope::Version;
use protocol::event::{Change, Event, EventType, Target};
use std::time::Duration;

/// What arrives until nothing more does.
async fn heard(connection: &Connection) -> Vec<(Change, String)> {
    let mut heard = Vec::new();
    while let Ok(event) = runtime::timeout(Duration::from_secs(2), connection.next_event()).await {
        let Some(Event::Schema(change)) = event else { panic!("{event:?}") };
        let name = match &change.target {
            Target::Keyspace => change.keyspace,
            Target::Table(name) => name.clone(),
            other => panic!("{other:?}"),
        };
        heard.push((change.change, name));
    }
    heard
}

async fn listener(version: Version, kinds: &[&[EventType]]) -> Connection {
    let connection = Connection::connect(native(), &Options::new(version)).await.unwrap();
    for kinds in kinds {
        connection.register(kinds).await.unwrap();
    }
    connection
}

#[test]
fn every_change_is_heard_once_on_every_registered_connection() {
    let mut stage = stage(1, 3);
    stage.play(async {
        use EventType::{SchemaChange, StatusChange, TopologyChange, TraceComplete};
        let schema: &[EventType] = &[SchemaChange];
        let mut listeners = Vec::new();
        for version in [Version::V3, Version::V4, Version::V5] {
            listeners.push(listener(version, &[schema]).await);
            listeners.push(listener(version, &[schema, schema, schema]).await);
            listeners.push(listener(version, &[&[StatusChange, SchemaChange, TopologyChange], schema]).await);
        }
        listeners.push(listener(Version::V4, &[&[TraceComplete, SchemaChange]]).await);
        let deaf = [
            listener(Version::V5, &[]).await,
            listener(Version::V5, &[&[TopologyChange, StatusChange]]).await,
        ];
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "ALTER TABLE ks.kv ADD w int").await;
        run(&connection, "CREATE TABLE IF NOT EXISTS ks.kv (k int PRIMARY KEY)").await;
        run(&connection, "DROP TABLE ks.kv").await;
        run(&connection, "DROP TABLE IF EXISTS ks.kv").await;
        run(&connection, "DROP KEYSPACE ks").await;
        let want: Vec<(Change, String)> = [
            (Change::Created, "ks"),
            (Change::Created, "kv"),
            (Change::Updated, "kv"),
            (Change::Dropped, "kv"),
            (Change::Dropped, "ks"),
        ]
        .map(|(change, name)| (change, name.to_string()))
        .to_vec();
        for listener in &listeners {
            assert_eq!(heard(listener).await, want);
        }
        for connection in &deaf {
            assert_eq!(heard(connection).await, []);
        }
    });
}

/// Two clients make and drop the same table at once: what succeeds is heard, once, by everybody in the same order.
#[test]
fn races_of_drop_and_create_are_heard_as_they_happened() {
    for seed in 0..8 {
        let mut stage = stage(seed, 2);
        stage.play(async {
            let listeners = [
                listener(Version::V5, &[&[EventType::SchemaChange]]).await,
                listener(Version::V4, &[&[EventType::SchemaChange]]).await,
                listener(Version::V3, &[&[EventType::SchemaChange]]).await,
            ];
            let connection = connect().await;
            make_kv(&connection).await;
            let churn = |own: Connection| async move {
                let mut done = 0;
                for _ in 0..10 {
                    for text in ["DROP TABLE ks.kv", "CREATE TABLE ks.kv (k int PRIMARY KEY)"] {
                        done += usize::from(own.query(text, one()).await.is_ok());
                    }
                }
                done
            };
            let (first, second) = (connect().await, connect().await);
            let first = runtime::spawn(runtime::Group::QUERY, churn(first));
            let second = runtime::spawn(runtime::Group::QUERY, churn(second));
            let done = first.await + second.await;
            let all = heard(&listeners[0]).await;
            // The keyspace and the table came first.
            assert_eq!(all.len(), done + 2);
            let turns: Vec<Change> = all.iter().skip(1).map(|(change, _)| *change).collect();
            for (index, change) in turns.iter().enumerate() {
                assert_eq!(*change, if index % 2 == 0 { Change::Created } else { Change::Dropped });
            }
            for listener in &listeners[1..] {
                assert_eq!(heard(listener).await, all);
            }
        });
    }
}
