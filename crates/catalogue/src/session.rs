//! Requests to the database, made again until they are answered.
//!
//! Every write carries a timestamp of this client and can be repeated: what was done twice was done once.

use crate::error::Error;
use crate::limits::{RETRY_MAX, RETRY_MIN, SCAN_PAGE_ROWS};
use crate::tables::{Ask, Statements, create, is_keyspace_name};
use base::{Instant, Token};
use client::outcome::Answer;
use client::{Connection, Pool, PoolOptions, Statement, contact};
use protocol::envelope::Version;
use protocol::failure::FailureKind;
use protocol::request::{Batch, BatchKind, BatchSource, BatchStatement, Parameters};
use protocol::response::Response;
use protocol::values::ValuesBuilder;
use std::cell::Cell;
use std::time::Duration;
use types::Consistency;

/// Which database, and how it is asked.
#[derive(Clone, Debug)]
pub struct Server {
    /// Names or addresses of nodes.
    pub nodes: Vec<String>,
    /// Their port.
    pub port: u16,
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// The keyspace of the tables.
    pub keyspace: String,
    /// Replicas in each datacenter, when the keyspace is made; three, or as many as there are nodes, unless given.
    pub replicas: Option<u32>,
    /// Of every request.
    pub consistency: Consistency,
    /// How long a request is made again and again.
    pub patience: Duration,
}

impl Server {
    /// A node of this machine, the keyspace `catalogue`, a minute of patience.
    pub fn local() -> Server {
        Server {
            nodes: vec!["127.0.0.1".into()],
            port: 9042,
            credentials: None,
            keyspace: "catalogue".into(),
            replicas: None,
            consistency: Consistency::LocalQuorum,
            patience: Duration::from_secs(60),
        }
    }

    /// Connects to the nodes, and to those they know.
    pub async fn pool(&self) -> Result<Pool, Error> {
        let addresses = contact::addresses(&self.nodes, self.port)
            .map_err(|source| Error::File { file: "the nodes".into(), source })?;
        let options = |version| PoolOptions {
            keyspace: Some(self.keyspace.clone()),
            ..PoolOptions::new(client::Options {
                credentials: self.credentials.clone(),
                in_flight: client::limits::STREAMS_MAX,
                ..client::Options::new(version)
            })
        };
        // Version 4 first: it has no checksums, which would cost both sides time for each of many small requests.
        let versions = [Version::V4, Version::V5, Version::V3];
        Ok(contact::connect_newest(&addresses, &versions, options).await?)
    }
}

/// Connections and statements.
pub struct Session {
    /// Connections to all nodes.
    pub pool: Pool,
    statements: Statements,
    consistency: Consistency,
    patience: Duration,
    /// The last timestamp given: each is larger than the one before.
    last_timestamp: Cell<i64>,
    /// Requests that were made again.
    retried: Cell<u64>,
}

/// When a request is given up.
struct Tries {
    end: Instant,
    rest: Duration,
}

impl Session {
    /// Connects, and makes the tables where they are not there.
    pub async fn open(server: &Server) -> Result<Session, Error> {
        if !is_keyspace_name(&server.keyspace) {
            return Err(Error::Option(format!("\"{}\" cannot be the name of a keyspace", server.keyspace)));
        }
        let pool = server.pool().await?;
        let replicas = server.replicas.unwrap_or(pool.node_count().min(3) as u32);
        create(&pool, &server.keyspace, replicas).await?;
        Ok(Session {
            statements: Statements::prepare(&pool, &server.keyspace).await?,
            pool,
            consistency: server.consistency,
            patience: server.patience,
            last_timestamp: Cell::new(0),
            retried: Cell::new(0),
        })
    }

    /// Requests that were made again so far.
    pub fn retried(&self) -> u64 {
        self.retried.get()
    }

    /// The statement for it.
    pub fn statement(&self, ask: Ask) -> &Statement {
        self.statements.of(ask)
    }

    /// The timestamp of the next write: microseconds, each larger than the one before.
    pub fn timestamp(&self) -> i64 {
        let next = runtime::unix_micros().max(self.last_timestamp.get() + 1);
        self.last_timestamp.set(next);
        next
    }

    async fn connection(&self, token: Option<Token>) -> Result<Connection, client::Error> {
        match self.pool.ready(token) {
            Some(connection) => Ok(connection),
            None => self.pool.connection(token).await,
        }
    }

    fn tries(&self) -> Tries {
        Tries { end: runtime::now() + self.patience, rest: RETRY_MIN }
    }

    /// Rests before the next try, or gives the error back when there is none.
    async fn rest(&self, tries: &mut Tries, error: client::Error) -> Result<(), Error> {
        if !is_passing(&error) || tries.end <= runtime::now() || runtime::shutdown_is_requested() {
            return Err(error.into());
        }
        self.retried.set(self.retried.get() + 1);
        // Who comes back at the same time is in each other's way.
        let share = 0.5 + (runtime::random_u64() >> 11) as f64 / (1u64 << 54) as f64;
        runtime::sleep(tries.rest.mul_f64(share)).await;
        tries.rest = (tries.rest * 2).min(RETRY_MAX);
        Ok(())
    }

    fn parameters<'v>(&self, values: &'v ValuesBuilder) -> Parameters<'v> {
        Parameters {
            values: values.values(),
            // Columns are known by their place.
            skip_metadata: true,
            ..Parameters::at(self.consistency)
        }
    }

    /// Reads: the answer's rows are given to `visit` one by one.
    pub async fn read(
        &self,
        ask: Ask,
        values: &ValuesBuilder,
        visit: impl FnMut(&[Option<&[u8]>]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let parameters = self.parameters(values);
        let statement = self.statement(ask);
        let answer = self.execute(statement, parameters, statement.token(parameters.values)).await?;
        rows(&answer, visit).map(|_| ())
    }

    /// Reads one page of a statement over a range of tokens; where the next one begins, if there is one.
    pub async fn page(
        &self,
        ask: Ask,
        values: &ValuesBuilder,
        (end, state): (Token, Option<&[u8]>),
        visit: impl FnMut(&[Option<&[u8]>]) -> Result<(), Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let parameters =
            Parameters { page_size: Some(SCAN_PAGE_ROWS), paging_state: state, ..self.parameters(values) };
        let answer = self.execute(self.statement(ask), parameters, Some(end)).await?;
        rows(&answer, visit)
    }

    /// Writes.
    pub async fn write(&self, ask: Ask, values: &ValuesBuilder, timestamp: i64) -> Result<(), Error> {
        let statement = self.statement(ask);
        let parameters = Parameters { timestamp: Some(timestamp), ..self.parameters(values) };
        self.execute(statement, parameters, statement.token(parameters.values)).await.map(|_| ())
    }

    async fn execute(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
        token: Option<Token>,
    ) -> Result<Answer, Error> {
        let mut tries = self.tries();
        loop {
            let done = match self.connection(token).await {
                Ok(connection) => connection.execute_undecoded(statement, parameters).await,
                Err(error) => Err(error),
            };
            match done.and_then(Answer::result) {
                Ok(answer) => return Ok(answer),
                Err(error) => self.rest(&mut tries, error).await?,
            }
        }
    }

    /// Writes several rows, where the first of them lives: `Logged`, all or none; `Unlogged` only for rows of one partition.
    pub async fn batch(
        &self,
        kind: BatchKind,
        writes: &[(Ask, &ValuesBuilder)],
        timestamp: i64,
    ) -> Result<(), Error> {
        if let ([(ask, values)], BatchKind::Unlogged) = (writes, kind) {
            return self.write(*ask, values, timestamp).await;
        }
        let Some((first, values)) = writes.first() else { return Ok(()) };
        let token = self.statement(*first).token(values.values());
        let mut statements: Vec<&Statement> = Vec::new();
        for (ask, _) in writes {
            let statement = self.statement(*ask);
            if !statements.iter().any(|known| known.id() == statement.id()) {
                statements.push(statement);
            }
        }
        let mut tries = self.tries();
        loop {
            let parts = writes.iter().map(|(ask, values)| BatchStatement {
                source: BatchSource::Prepared(self.statement(*ask).id()),
                values: values.values(),
            });
            let batch = Batch {
                kind,
                statements: parts.collect(),
                parameters: Parameters { timestamp: Some(timestamp), ..Parameters::at(self.consistency) },
            };
            let done = match self.connection(token).await {
                Ok(connection) => connection.batch(batch, &statements).await,
                Err(error) => Err(error),
            };
            match done {
                Ok(_) => return Ok(()),
                Err(error) => self.rest(&mut tries, error).await?,
            }
        }
    }
}

/// Gives the rows of an answer to `visit`; where the next page begins.
fn rows(
    answer: &Answer,
    mut visit: impl FnMut(&[Option<&[u8]>]) -> Result<(), Error>,
) -> Result<Option<Vec<u8>>, Error> {
    let Response::Rows(rows) = answer.response()? else { return Ok(None) };
    for row in rows.iter() {
        visit(&row)?;
    }
    Ok(rows.metadata.paging_state.map(<[u8]>::to_vec))
}

/// Whether the same request may well succeed a little later.
fn is_passing(error: &client::Error) -> bool {
    match error {
        client::Error::Connect { .. } | client::Error::Closed(_) | client::Error::Timeout => true,
        client::Error::Protocol(_)
        | client::Error::Tls(_)
        | client::Error::Type(_)
        | client::Error::NoNode(_)
        | client::Error::Unexpected(_) => false,
        client::Error::Failure(failure) => matches!(
            failure.kind,
            FailureKind::Unavailable { .. }
                | FailureKind::Overloaded
                | FailureKind::Bootstrapping
                | FailureKind::WriteTimeout { .. }
                | FailureKind::ReadTimeout { .. }
                | FailureKind::WriteFailure { .. }
                | FailureKind::ReadFailure { .. }
                | FailureKind::Server
        ),
    }
}
