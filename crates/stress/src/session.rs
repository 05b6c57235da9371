//! Connections to the servers, and what can go wrong on them.

use crate::error::Error;
use crate::settings::{Compression, Settings};
use client::{Pool, PoolOptions, Statement, Usable, contact};
use protocol::compression::Compression as Frames;
use protocol::envelope::Version;
use protocol::request::{Batch, BatchKind, BatchSource, BatchStatement, Parameters, Query, Request};
use protocol::values::ValuesBuilder;
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;
use tls::{ClientSettings, Connector};
use types::Consistency;

/// What the operations of a run use to speak with the servers.
pub struct Session {
    /// Connections by token.
    pub pool: Pool,
    /// Consistency of operations.
    pub level: Consistency,
    /// Consistency of conditions.
    pub serial_level: Consistency,
    /// Statements are prepared.
    pub prepared: bool,
    /// Timestamp of every write, if it is the same for all.
    timestamp: Option<i64>,
    /// The last timestamp given: each is larger than the one before.
    last_timestamp: Cell<i64>,
}

impl Session {
    /// Connects to the nodes of the settings; statements that name no keyspace use the one given.
    pub async fn connect(settings: &Settings, keyspace: Option<String>) -> Result<Session, Error> {
        let (mode, node) = (&settings.mode, &settings.node);
        let addresses = contact::addresses(&node.nodes, settings.port.native)
            .map_err(|error| Error::run(error.to_string()))?;
        let tls = match (&settings.transport.trust, &settings.transport.key) {
            (None, None) => None,
            (trust, key) => {
                let certificate = key.clone().map(|file| (file.clone().into(), file.into()));
                let files = ClientSettings { trust: trust.clone().map(Into::into), certificate };
                Some(Connector::load(&files).await.map_err(|error| Error::run(error.to_string()))?)
            }
        };
        let versions = match mode.version {
            Some(3) => vec![Version::V3],
            Some(5) => vec![Version::V5],
            Some(_) => vec![Version::V4],
            None => vec![Version::V5, Version::V4, Version::V3],
        };
        let usable = Usable {
            datacenter: node.datacenter.clone(),
            rack: node.rack.clone(),
            addresses: if node.only_these {
                addresses.iter().map(SocketAddr::ip).collect()
            } else {
                Vec::new()
            },
        };
        // The newest protocol knows LZ4 alone.
        let versions: Vec<Version> = versions
            .into_iter()
            .filter(|version| mode.compression != Compression::Snappy || *version != Version::V5)
            .collect();
        let options = |version| {
            let connection = client::Options {
                compression: match mode.compression {
                    Compression::None => Frames::None,
                    Compression::Lz4 => Frames::Lz4,
                    Compression::Snappy => Frames::Snappy,
                },
                credentials: mode.user.clone().map(|user| (user, mode.password.clone().unwrap_or_default())),
                request_timeout: Some(mode.timeout),
                // Unless the settings bound them, every request of the run may be on its way.
                in_flight: mode.pending_max.unwrap_or(client::limits::STREAMS_MAX),
                tls: tls.clone(),
                keyspace: keyspace.clone(),
                ..client::Options::new(version)
            };
            PoolOptions {
                connections_per_node: mode.connections as u16,
                usable: usable.clone(),
                ..PoolOptions::new(connection)
            }
        };
        let pool = contact::connect_newest(&addresses, &versions, options)
            .await
            .map_err(|error| Error::run(contact::named(&error)))?;
        // The table of options lets no other name through.
        let level = Consistency::parse(&settings.command.level).unwrap_or(Consistency::One);
        let serial_level = Consistency::parse(&settings.command.serial_level).unwrap_or(Consistency::Serial);
        Ok(Session {
            pool,
            level,
            serial_level,
            prepared: mode.prepared,
            timestamp: settings.columns.timestamp,
            last_timestamp: Cell::new(0),
        })
    }

    /// Runs a statement's text.
    pub async fn query(&self, text: &str, level: Consistency) -> Result<client::Outcome, client::Error> {
        self.pool.query(text, Parameters::at(level)).await
    }

    /// The timestamp of the next write: microseconds, each larger than the one before.
    pub fn timestamp(&self) -> i64 {
        if let Some(timestamp) = self.timestamp {
            return timestamp;
        }
        let next = runtime::unix_micros().max(self.last_timestamp.get() + 1);
        self.last_timestamp.set(next);
        next
    }

    /// Sends one request of a statement to where its partition lives, and gives the answer undecoded.
    pub async fn send(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<client::outcome::Answer, client::Error> {
        let token = statement.token(parameters.values);
        let connection = match self.pool.ready(token) {
            Some(connection) => connection,
            None => self.pool.connection(token).await?,
        };
        let answer = if self.prepared {
            connection.execute_undecoded(statement, parameters).await?
        } else {
            connection.request(&Request::Query(Query { query: statement.text(), parameters })).await?
        };
        answer.result()
    }

    /// Sends a statement with the values of several rows as one batch, to where the first of them lives.
    pub async fn send_batch(
        &self,
        kind: BatchKind,
        statement: &Statement,
        rows: &[ValuesBuilder],
        parameters: Parameters<'_>,
    ) -> Result<(), client::Error> {
        let token = rows.first().and_then(|row| statement.token(row.values()));
        let connection = match self.pool.ready(token) {
            Some(connection) => connection,
            None => self.pool.connection(token).await?,
        };
        let source = match self.prepared {
            true => BatchSource::Prepared(statement.id()),
            false => BatchSource::Query(statement.text()),
        };
        let statements = rows.iter().map(|row| BatchStatement { source, values: row.values() }).collect();
        let batch = Batch { kind, statements, parameters: Parameters { skip_metadata: false, ..parameters } };
        connection.batch(batch, &[statement]).await.map(|_| ())
    }
}

/// Waits, unless the person at the terminal wants the end.
pub async fn rest(time: Duration) {
    let _ended_early = runtime::timeout(time, runtime::shutdown_requested()).await;
}

/// A name as an identifier of CQL, whatever it is: also of a reserved word.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
