//! One CQL connection of a scenario: real frames over the simulated network, one request at a time.
//!
//! By chance a statement goes as QUERY or is prepared and goes as EXECUTE, its literals bound or not: the same statement by
//! another path of the node. An answer, a refusal (the server said no) and a loss (nobody knows) are kept apart: a lost write may have happened.

use std::net::SocketAddr;
use std::time::Duration;

use protocol::assembler::Assembler;
use protocol::compression::Compression;
use protocol::envelope::{Direction, Version};
use protocol::failure::{Failure, FailureKind};
use protocol::outgoing::Outgoing;
use protocol::request::{
    Batch, BatchKind, BatchSource, BatchStatement, Execute, Parameters, Prepare, Query, Request, Startup,
};
use protocol::response::Response;
use runtime::net::TcpStream;
use types::Consistency;

use crate::limits::{CLIENT_TIMEOUT, FRAME_BYTES, PREPARES_MAX};
use crate::prepared::{Statements, Way, with_markers};

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server refused or failed it. A write may have happened unless it says why not.
    Refused(Failure),
    /// Connection gone, or too late: a write may have happened. Open a new session.
    Lost(String),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Refused(failure) => write!(f, "refused: {failure}"),
            Trouble::Lost(text) => write!(f, "lost: {text}"),
        }
    }
}

/// One row: its values as they stand on the wire, None for null.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// What a request gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Row>,
    pub(crate) next_page: Option<Vec<u8>>,
}

/// How to run a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) consistency: Consistency,
    pub(crate) timestamp: Option<i64>,
    pub(crate) page_size: Option<u32>,
}

impl Ask {
    pub(crate) fn at(consistency: Consistency) -> Ask {
        Ask { consistency, timestamp: None, page_size: None }
    }

    fn parameters<'a>(&self, paging_state: Option<&'a [u8]>) -> Parameters<'a> {
        let mut parameters = Parameters::at(self.consistency);
        parameters.timestamp = self.timestamp;
        parameters.page_size = self.page_size;
        parameters.paging_state = paging_state;
        parameters
    }
}

/// A connection after its STARTUP.
pub(crate) struct Session {
    stream: TcpStream,
    assembler: Assembler,
    outgoing: Outgoing,
    stream_id: i16,
    /// What is prepared; another session with the same node may go on with it.
    pub(crate) statements: Statements,
    skip_metadata: bool,
    /// Name and password.
    login: (String, String),
}

fn lost(error: impl std::fmt::Display) -> Trouble {
    Trouble::Lost(error.to_string())
}

impl Session {
    /// Connects and greets, with version and compression drawn from the shard's chance.
    pub(crate) async fn connect(to: SocketAddr) -> Result<Session, Trouble> {
        Session::connect_as(to, ("cassandra", "cassandra")).await
    }

    /// As [`Session::connect`]; name and password are for a node that asks for them.
    pub(crate) async fn connect_as(
        to: SocketAddr,
        (name, password): (&str, &str),
    ) -> Result<Session, Trouble> {
        let open = async {
            let stream = TcpStream::connect(to, None).await.map_err(lost)?;
            let chance = runtime::random_u64();
            let (version, compression) = match chance & 3 {
                0 => (Version::V4, Compression::None),
                1 => (Version::V5, Compression::None),
                2 if chance & 8 == 0 => (Version::V4, Compression::Lz4),
                2 => (Version::V3, Compression::Snappy),
                _ => (Version::V5, Compression::Lz4),
            };
            let mut session = Session {
                stream,
                assembler: Assembler::new(Direction::Responses, FRAME_BYTES),
                outgoing: Outgoing::bare(version),
                stream_id: 0,
                statements: Statements::default(),
                skip_metadata: chance & 4 == 0,
                login: (name.to_string(), password.to_string()),
            };
            session.greet(version, compression).await?;
            Ok(session)
        };
        match runtime::timeout(CLIENT_TIMEOUT, open).await {
            Ok(result) => result,
            Err(late) => Err(lost(late)),
        }
    }

    async fn greet(&mut self, version: Version, compression: Compression) -> Result<(), Trouble> {
        let mut options = vec![("CQL_VERSION", "3.4.7")];
        if let Some(name) = compression.name() {
            options.push(("COMPRESSION", name));
        }
        self.send(&Request::Startup(Startup { options })).await?;
        let must_log_in = self
            .receive(|response| match response {
                Response::Ready => Ok(false),
                Response::Authenticate(_) => Ok(true),
                other => Err(lost(format!("STARTUP was answered with {other:?}"))),
            })
            .await?;
        self.assembler.set_compression(compression);
        self.outgoing.compression = compression;
        if version == Version::V5 {
            self.assembler.use_segments();
            self.outgoing.segmented = true;
        }
        if must_log_in {
            let (name, password) = &self.login;
            let token = format!("\0{name}\0{password}");
            self.send(&Request::AuthResponse(Some(token.as_bytes()))).await?;
            self.receive(|response| match response {
                Response::AuthSuccess(_) => Ok(()),
                other => Err(lost(format!("a login was answered with {other:?}"))),
            })
            .await?;
        }
        Ok(())
    }

    async fn send(&mut self, request: &Request<'_>) -> Result<(), Trouble> {
        self.stream_id = self.stream_id.wrapping_add(1) & 0x7fff;
        let (mut envelopes, mut wire) = (Vec::new(), Vec::new());
        request.encode(&mut envelopes, self.outgoing.version, self.stream_id);
        self.outgoing.write(&envelopes, &mut wire);
        self.stream.send_all(wire).await.map(|_| ()).map_err(lost)
    }

    async fn receive<T>(
        &mut self,
        take: impl FnOnce(Response<'_>) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        loop {
            if let Some(envelope) = self.assembler.next().map_err(lost)? {
                if envelope.header.stream != self.stream_id {
                    return Err(lost(format!(
                        "answer on stream {}, asked on {}",
                        envelope.header.stream, self.stream_id
                    )));
                }
                let response = Response::decode(&envelope.header, envelope.body).map_err(lost)?;
                return match response {
                    Response::Error(failure) => Err(Trouble::Refused(failure)),
                    response => take(response),
                };
            }
            let bytes = self.stream.recv().await.map_err(lost)?;
            if bytes.is_empty() {
                return Err(lost("connection closed"));
            }
            self.assembler.push(&bytes);
        }
    }

    async fn exchange<T>(
        &mut self,
        request: &Request<'_>,
        take: impl FnOnce(Response<'_>) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let exchange = async {
            self.send(request).await?;
            self.receive(take).await
        };
        match runtime::timeout(CLIENT_TIMEOUT, exchange).await {
            Ok(result) => result,
            Err(late) => Err(lost(late)),
        }
    }

    async fn ask(&mut self, request: &Request<'_>) -> Result<Answer, Trouble> {
        self.exchange(request, |response| match response {
            Response::Rows(rows) => Ok(Answer {
                next_page: rows.metadata.paging_state.map(<[u8]>::to_vec),
                rows: rows
                    .iter()
                    .map(|row| row.into_iter().map(|v| v.map(<[u8]>::to_vec)).collect())
                    .collect(),
            }),
            Response::Void | Response::SchemaChange(_) | Response::SetKeyspace(_) => Ok(Answer::default()),
            other => Err(lost(format!("unexpected answer {other:?}"))),
        })
        .await
    }

    /// Runs a statement; one page of its rows.
    pub(crate) async fn query(&mut self, cql: &str, ask: Ask) -> Result<Answer, Trouble> {
        self.page(cql, ask, None, Way::drawn()).await
    }

    async fn page(&mut self, cql: &str, ask: Ask, state: Option<&[u8]>, way: Way) -> Result<Answer, Trouble> {
        let mut parameters = ask.parameters(state);
        let (text, values) = match way {
            Way::Text => return self.ask(&Request::Query(Query { query: cql, parameters })).await,
            Way::Whole => (cql.to_string(), Default::default()),
            Way::Bound => with_markers(cql),
        };
        parameters.values = values.values();
        parameters.skip_metadata = self.skip_metadata;
        let mut tries = 0;
        loop {
            let (id, result_id) = self.prepare(&text, values.values().len()).await?;
            let execute = Execute { id: &id, result_metadata_id: Some(&result_id), parameters };
            let answer = self.ask(&Request::Execute(execute)).await;
            tries += 1;
            match &answer {
                Err(Trouble::Refused(failure))
                    if tries < PREPARES_MAX && matches!(failure.kind, FailureKind::Unprepared { .. }) =>
                {
                    self.statements.forget(&text);
                }
                _ => return answer,
            }
        }
    }

    /// The ids of a statement and of its result columns, asked for unless they are known.
    async fn prepare(&mut self, text: &str, markers: usize) -> Result<(Vec<u8>, Vec<u8>), Trouble> {
        if self.statements.get(text).is_none() {
            let request = Request::Prepare(Prepare { query: text, keyspace: None });
            let prepared = self
                .exchange(&request, |response| match response {
                    Response::Prepared(prepared) => Ok(prepared),
                    other => Err(lost(format!("PREPARE was answered with {other:?}"))),
                })
                .await?;
            assert_eq!(prepared.markers.len(), markers, "markers of {text}");
            self.statements.keep(text, prepared);
        }
        let known = self.statements.get(text).ok_or_else(|| lost("what was kept is gone"))?;
        Ok((known.id.clone(), known.result_metadata_id.clone()))
    }

    /// Runs a statement and gathers all pages.
    pub(crate) async fn all(&mut self, cql: &str, ask: Ask) -> Result<Vec<Row>, Trouble> {
        let way = Way::drawn();
        let mut rows = Vec::new();
        let mut state: Option<Vec<u8>> = None;
        loop {
            let answer = self.page(cql, ask, state.as_deref(), way).await?;
            rows.extend(answer.rows);
            match answer.next_page {
                Some(next) => state = Some(next),
                None => return Ok(rows),
            }
        }
    }

    /// Runs several modifications as one batch.
    pub(crate) async fn batch(
        &mut self,
        statements: &[String],
        ask: Ask,
        logged: bool,
    ) -> Result<(), Trouble> {
        let statements = statements
            .iter()
            .map(|text| BatchStatement { source: BatchSource::Query(text), values: Default::default() })
            .collect();
        let kind = if logged { BatchKind::Logged } else { BatchKind::Unlogged };
        self.ask(&Request::Batch(Batch { kind, statements, parameters: ask.parameters(None) }))
            .await
            .map(|_| ())
    }
}

/// Opens a session, again and again, for as long as `within`.
pub(crate) async fn insist(to: SocketAddr, within: Duration) -> Result<Session, Trouble> {
    let end = runtime::now() + within;
    loop {
        match Session::connect(to).await {
            Ok(session) => return Ok(session),
            Err(trouble) if end < runtime::now() => return Err(trouble),
            Err(_) => runtime::sleep(Duration::from_millis(50)).await,
        }
    }
}
