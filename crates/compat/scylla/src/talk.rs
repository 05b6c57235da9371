//! A session with the words that every test says, and what an error was told as.

use std::num::NonZeroU32;
use std::sync::Arc;

use scylla::client::Compression;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use crate::suite::{Failure, PATIENCE};

/// How every keyspace is made.
pub const REPLICATION: &str = "replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}";

/// Looks at a trace that is still written.
const TRACE_ATTEMPTS: NonZeroU32 = NonZeroU32::new(3000).unwrap();

/// A session that waits long, repeats nothing by itself, and asks one replica.
pub fn builder(host: &str, port: u16, compression: Option<Compression>) -> SessionBuilder {
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::One)
        .request_timeout(Some(PATIENCE))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .build();
    SessionBuilder::new()
        .known_node(format!("{host}:{port}"))
        .compression(compression)
        .connection_timeout(PATIENCE / 2)
        .schema_agreement_timeout(PATIENCE)
        // A trace is written behind the answer; the driver looks five times within a moment unless told otherwise.
        .tracing_info_fetch_attempts(TRACE_ATTEMPTS)
        .tracing_info_fetch_interval(PATIENCE / TRACE_ATTEMPTS.get())
        .default_execution_profile_handle(profile.into_handle())
}

/// One session, in a keyspace of its own.
pub struct Talk {
    /// The driver's session.
    pub session: Session,
    /// The keyspace.
    pub keyspace: String,
}

impl Talk {
    /// Makes an empty keyspace and goes there.
    pub async fn new(session: Session, keyspace: &str) -> Result<Talk, Failure> {
        let talk = Talk { session, keyspace: keyspace.into() };
        talk.exec(format!("DROP KEYSPACE IF EXISTS {keyspace}")).await?;
        talk.exec(format!("CREATE KEYSPACE {keyspace} WITH {REPLICATION}")).await?;
        talk.session.use_keyspace(keyspace, false).await?;
        Ok(talk)
    }

    /// Runs a text without values.
    pub async fn exec(&self, text: impl AsRef<str>) -> Result<QueryResult, Failure> {
        let text = text.as_ref();
        self.session.query_unpaged(text, &[]).await.map_err(|error| named(text, &error))
    }

    /// Prepares a text.
    pub async fn prepare(&self, text: impl AsRef<str>) -> Result<PreparedStatement, Failure> {
        let text = text.as_ref();
        self.session.prepare(text).await.map_err(|error| named(text, &error))
    }

    /// Executes a prepared statement.
    pub async fn run(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult, Failure> {
        let ran = self.session.execute_unpaged(statement, values).await;
        ran.map_err(|error| named(statement.get_statement(), &error))
    }

    /// The only row of a text's answer.
    pub async fn row<R: for<'f> DeserializeRow<'f, 'f>>(&self, text: impl AsRef<str>) -> Result<R, Failure> {
        let rows = self.exec(text.as_ref()).await?.into_rows_result()?;
        rows.single_row::<R>().map_err(|error| named(text.as_ref(), &error))
    }
}

fn named(text: &str, error: &dyn std::error::Error) -> Failure {
    const CHARACTERS: usize = 200;
    format!("{}: {error}", text.chars().take(CHARACTERS).collect::<String>()).into()
}

/// What the server said was wrong, and how.
pub fn told<T>(what: &str, outcome: Result<T, ExecutionError>) -> Result<(DbError, String), Failure> {
    match outcome {
        Ok(_) => Err(format!("{what} was accepted").into()),
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, says))) => Ok((error, says)),
        Err(ExecutionError::PrepareError(error)) => told_of_preparing(what, Err::<(), _>(error)),
        Err(error) => Err(format!("{what}: {error:?}").into()),
    }
}

/// The same of a statement that was to be prepared.
pub fn told_of_preparing<T>(
    what: &str,
    outcome: Result<T, PrepareError>,
) -> Result<(DbError, String), Failure> {
    match outcome {
        Ok(_) => Err(format!("{what} was accepted").into()),
        Err(PrepareError::AllAttemptsFailed {
            first_attempt: RequestAttemptError::DbError(error, says),
            ..
        }) => Ok((error, says)),
        Err(error) => Err(format!("{what}: {error:?}").into()),
    }
}
