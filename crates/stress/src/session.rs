//! Connections to the servers, and what can go wrong on them.

use crate::error::Error;
use crate::settings::{Compression, Settings};
use client::{Pool, PoolOptions, Statement, Usable};
use protocol::compression::Compression as Frames;
use protocol::envelope::Version;
use protocol::failure::FailureKind;
use protocol::request::{Batch, BatchKind, BatchSource, BatchStatement, Parameters, Query, Request};
use protocol::values::ValuesBuilder;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
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
        let addresses = addresses(&node.nodes, settings.port.native)?;
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
        let mut last = None;
        for version in versions {
            let connection = client::Options {
                compression: match mode.compression {
                    Compression::None => Frames::None,
                    Compression::Lz4 => Frames::Lz4,
                    // The newest protocol knows LZ4 alone.
                    Compression::Snappy if version == Version::V5 => continue,
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
            let options = PoolOptions {
                connections_per_node: mode.connections as u16,
                usable: usable.clone(),
                ..PoolOptions::new(connection)
            };
            match Pool::connect(&addresses, options).await {
                Ok(pool) => {
                    // The table of options lets no other name through.
                    let level = Consistency::parse(&settings.command.level).unwrap_or(Consistency::One);
                    return Ok(Session {
                        pool,
                        level,
                        serial_level: Consistency::parse(&settings.command.serial_level)
                            .unwrap_or(Consistency::Serial),
                        prepared: mode.prepared,
                        timestamp: settings.columns.timestamp,
                        last_timestamp: Cell::new(0),
                    });
                }
                // An older server refuses a version it does not know with an error of the protocol.
                Err(error) if mode.version.is_none() && is_about_the_version(&error) => last = Some(error),
                Err(error) => return Err(Error::run(named(&error))),
            }
        }
        Err(Error::run(
            last.map_or_else(|| "no version of the protocol is left".into(), |error| named(&error)),
        ))
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

fn is_about_the_version(error: &client::Error) -> bool {
    match error {
        client::Error::Failure(failure) => failure.kind == FailureKind::Protocol,
        client::Error::Protocol(_) | client::Error::Closed(_) => true,
        client::Error::Connect { .. }
        | client::Error::NoNode(_)
        | client::Error::Timeout
        | client::Error::Tls(_)
        | client::Error::Type(_)
        | client::Error::Unexpected(_) => false,
    }
}

/// Addresses of nodes by name or number.
#[allow(clippy::disallowed_methods, reason = "names are looked up before there is any load")]
fn addresses(nodes: &[String], port: u16) -> Result<Vec<SocketAddr>, Error> {
    let mut all = Vec::new();
    for node in nodes {
        // Names may have addresses of both kinds; servers listen on the older one unless told otherwise.
        let mut found: Vec<SocketAddr> = match node.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, port)],
            Err(_) => (node.as_str(), port)
                .to_socket_addrs()
                .map_err(|error| Error::run(format!("{node}: {error}")))?
                .collect(),
        };
        found.sort_by_key(SocketAddr::is_ipv6);
        all.extend(found.into_iter().next());
    }
    Ok(all)
}

/// An error as the Java tool's driver would name it: `(UnavailableException): Not enough replicas …`.
pub fn named(error: &client::Error) -> String {
    let (class, text) = match error {
        client::Error::NoNode(_) => ("NoHostAvailableException", error.to_string()),
        client::Error::Connect { .. } => {
            ("NoHostAvailableException", format!("All host(s) tried for query failed (tried: {error})"))
        }
        client::Error::Closed(_) => ("TransportException", error.to_string()),
        client::Error::Timeout => {
            ("OperationTimedOutException", "Timed out waiting for server response".into())
        }
        client::Error::Protocol(_) | client::Error::Unexpected(_) => ("ProtocolError", error.to_string()),
        client::Error::Tls(_) => ("SSLException", error.to_string()),
        client::Error::Type(_) => ("InvalidTypeException", error.to_string()),
        client::Error::Failure(failure) => return named_failure(failure),
    };
    format!("({class}): {text}")
}

fn named_failure(failure: &protocol::failure::Failure) -> String {
    let message = failure.message.clone();
    let (class, text) = match &failure.kind {
        FailureKind::Unavailable { consistency, required, alive } => (
            "UnavailableException",
            format!(
                "Not enough replicas available for query at consistency {consistency} ({required} required but only {alive} alive)"
            ),
        ),
        FailureKind::WriteTimeout { consistency, received, block_for, .. } => (
            "WriteTimeoutException",
            format!(
                "Cassandra timeout during write query at consistency {consistency} ({block_for} replica were required but only {received} acknowledged the write)"
            ),
        ),
        FailureKind::ReadTimeout { consistency, received, block_for, .. } => (
            "ReadTimeoutException",
            format!(
                "Cassandra timeout during read query at consistency {consistency} ({block_for} responses were required but only {received} replica responded)"
            ),
        ),
        FailureKind::ReadFailure { .. } => ("ReadFailureException", message),
        FailureKind::WriteFailure { .. } => ("WriteFailureException", message),
        FailureKind::CdcWrite => ("CDCWriteException", message),
        FailureKind::CasWriteUnknown { .. } => ("CASWriteUnknownException", message),
        FailureKind::Function { .. } => ("FunctionExecutionException", message),
        FailureKind::BadCredentials => ("AuthenticationException", message),
        FailureKind::Overloaded => ("OverloadedException", message),
        FailureKind::Bootstrapping => ("BootstrappingException", message),
        FailureKind::Truncate => ("TruncateException", message),
        FailureKind::Syntax => ("SyntaxError", message),
        FailureKind::Unauthorized => ("UnauthorizedException", message),
        FailureKind::Invalid => ("InvalidQueryException", message),
        FailureKind::Config => ("InvalidConfigurationInQueryException", message),
        FailureKind::AlreadyExists { .. } => ("AlreadyExistsException", message),
        FailureKind::Unprepared { .. } => ("UnpreparedException", message),
        FailureKind::Protocol => ("ProtocolError", message),
        FailureKind::Server => ("ServerError", message),
    };
    format!("({class}): {text}")
}
