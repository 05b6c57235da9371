//! The operators' interface: REST as ScyllaDB publishes it, and `/messina/…` where Cassandra's nodetool shows more.
//!
//! Parameters stand in the query, also of POST; answers are JSON, errors `{"message", "code"}`. Sizes are bytes,
//! latencies microseconds. It has no login: it belongs on the loopback address. Requests that a browser sends for a page
//! are refused.

mod compactions;
mod facts;
mod hints;
mod imports;
mod json;
mod members;
mod operations;
mod repairs;
mod routes;
mod tables;

use crate::http::{self, Request};
use crate::server::{Error, Handler, Server};
use base::HostId;
use coordinator::{Coordinator, Repairs};
use core::net::SocketAddr;
use query::Engine;
use schema::TableId;
use serde_json::{Value, json};
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// What comes of switching the clients' port.
pub type Switched = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// The native transport port, as far as an operator switches it.
pub trait NativeTransport {
    /// Whether new connections are accepted.
    fn is_running(&self) -> bool;
    /// Begins to accept connections; or ceases to, and ends those there are with their requests. Errors: in words for
    /// the operator.
    fn switch(&self, on: bool) -> Switched;
}

/// What the interface is told about the node.
pub struct RestSettings {
    /// Coordination on this shard.
    pub coordinator: Rc<Coordinator>,
    /// Statements on this shard.
    pub engine: Rc<Engine>,
    /// The native transport port.
    pub native: Rc<dyn NativeTransport>,
    /// Kind of request and milliseconds, as `gettimeout` names them.
    pub timeouts: Vec<(&'static str, u64)>,
    /// What this node hears of the other members.
    pub peers: Rc<dyn Peers>,
}

/// What a member said when it was heard last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Bytes of its live data.
    pub load: u64,
    /// The version of the schema that it showed to its clients; 0 when it did not say.
    pub schema_version: u128,
    /// Whether its native transport was open.
    pub native_open: bool,
    /// When its process started, seconds since the epoch.
    pub started_at_s: u64,
    /// How long ago that was.
    pub silent: Duration,
    /// How long pings took to be answered.
    pub round_trip: Option<Duration>,
    /// It has said that it stops, and is not back.
    pub has_left: bool,
}

/// Messages between this node and others since the start, of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Sent, or waiting to be.
    pub sent: u64,
    /// Calls that have no answer yet.
    pub pending: u64,
    /// Calls that ended without one.
    pub failed: u64,
}

/// Messages between this node and others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests and answers of data that are large.
    pub large: Messages,
    /// Those that are not.
    pub small: Messages,
    /// Pings, and what the cluster agrees on.
    pub control: Messages,
}

/// What a question to all shards comes to.
pub type Counted = Pin<Box<dyn Future<Output = Traffic>>>;

/// The other members, as this node hears them, and what an operator has it do about them.
pub trait Peers {
    /// What a member said last; `None`: it was not heard since this node started.
    fn heard(&self, host: HostId) -> Option<Heard>;
    /// Whether others are let know that this node lives.
    fn is_talking(&self) -> bool;
    /// Tells them that it is gone; or takes connections again, so that they find it back.
    fn talk(&self, on: bool) -> Switched;
    /// Tells them at once what they would be told with the next ping, such as that native transport is closed.
    fn say_facts(&self);
    /// What was sent to all of them.
    fn traffic(&self) -> Counted;
    /// Puts a member out that is down: it is refused from now on, and nobody waits for it. Errors: in words for the operator.
    fn put_out(&self, host: HostId) -> Switched;
    /// Whether a member was put out; one that holds tokens goes on holding them until it is replaced.
    fn is_put_out(&self, host: HostId) -> bool;
    /// Why a member cannot be taken out of the ring, in words for the operator.
    fn removal_refusal(&self, host: HostId) -> String;
}

/// What an operator has made of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It serves.
    Normal,
    /// It writes everything to files.
    Draining,
    /// It has, and refuses writes.
    Drained,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Normal => "NORMAL",
            Mode::Draining => "DRAINING",
            Mode::Drained => "DRAINED",
        }
    }
}

/// The interface of a node.
pub struct Rest {
    settings: RestSettings,
    mode: Cell<Mode>,
    repairs: Repairs,
}

impl Rest {
    /// Listens on `address` from the current shard.
    pub async fn start(address: SocketAddr, settings: RestSettings) -> Result<Server, Error> {
        let rest = Rc::new(Rest { settings, mode: Cell::new(Mode::Normal), repairs: Repairs::default() });
        let handler: Handler = Rc::new(move |request| {
            let rest = rest.clone();
            Box::pin(async move { rest.respond(request).await })
        });
        Server::listen(address, "the REST interface", handler).await
    }

    async fn respond(&self, request: Request) -> Vec<u8> {
        let keep_alive = request.keep_alive;
        let (status, body) = match self.answer(&request).await {
            Ok(Value::Null) => ("200 OK", String::new()),
            Ok(value) => ("200 OK", value.to_string()),
            Err(Failure { status, message }) => {
                let body = json!({ "message": message, "code": status });
                (status_line(status), body.to_string())
            }
        };
        http::answer(status, "application/json", &body, keep_alive)
    }

    async fn answer(&self, request: &Request) -> Answer {
        if request.from_page {
            return Err(Failure::new(403, "requests of web pages are refused"));
        }
        let segments = request.segments().ok_or_else(|| Failure::new(400, "the path is not UTF-8"))?;
        let mut path: Vec<&str> = segments.iter().map(String::as_str).collect();
        if path.len() > 1 && path.last() == Some(&"") {
            // A slash at the end means nothing.
            path.pop();
        }
        match (request.method.as_str(), path.as_slice()) {
            ("GET", ["api-doc"]) => return Ok(routes::listing()),
            ("GET", ["api-doc", resource]) => {
                return routes::description(resource).ok_or_else(Failure::unknown);
            }
            ("GET" | "POST" | "DELETE", _) => {}
            _ => return Err(Failure::new(405, "only GET, POST and DELETE are answered")),
        }
        let route = routes::find(&request.method, &path).ok_or_else(Failure::unknown)?;
        match (route.method, path.as_slice()) {
            // ScyllaDB publishes these with GET.
            ("GET", ["storage_service", "keyspace_scrub" | "keyspace_upgrade_sstables", _]) => {
                self.act(&path, request).await
            }
            ("GET", _) => match self.fact(&path, request) {
                Some(answer) => answer,
                None => self.look(&path, request).await,
            },
            _ => self.act(&path, request).await,
        }
    }

    fn coordinator(&self) -> &Coordinator {
        &self.settings.coordinator
    }

    /// The tables of a keyspace that hold data here, or those of them that are named, with commas between the names.
    fn tables_of(&self, keyspace: &str, named: Option<String>) -> Result<Vec<TableId>, Failure> {
        if !self.settings.engine.schema().keyspaces.contains_key(keyspace) {
            return Err(Failure::new(404, format!("Keyspace [{keyspace}] does not exist.")));
        }
        let known = self.coordinator().local().table_names();
        let of_keyspace = known.iter().filter(|(of, ..)| of == keyspace);
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            return Ok(of_keyspace.map(|(.., id)| *id).collect());
        };
        let find = |name: &str| {
            let found = known.iter().find(|(of, table, _)| of == keyspace && table == name);
            let unknown = || Failure::new(404, format!("Unknown keyspace/cf pair ({keyspace}.{name})"));
            found.map(|(.., id)| *id).ok_or_else(unknown)
        };
        named.split(',').map(find).collect()
    }

    /// The table that a path calls `keyspace:table`.
    fn table_of(&self, name: &str) -> Result<TableId, Failure> {
        let (keyspace, table) = name
            .split_once(':')
            .ok_or_else(|| Failure::new(400, format!("\"{name}\" is not of the form keyspace:table")))?;
        let tables = self.tables_of(keyspace, Some(table.to_string()))?;
        tables.first().copied().ok_or_else(|| Failure::new(404, "no such table"))
    }

    /// Every table that holds data here.
    fn all_tables(&self) -> Vec<TableId> {
        self.coordinator().local().table_names().into_iter().map(|(.., id)| id).collect()
    }
}

type Answer = Result<Value, Failure>;

/// Why a request is not answered.
#[derive(Debug)]
struct Failure {
    status: u16,
    message: String,
}

impl Failure {
    fn new(status: u16, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }

    fn unknown() -> Failure {
        Failure::new(404, "Not found")
    }
}

impl From<storage::Error> for Failure {
    fn from(error: storage::Error) -> Failure {
        let status = match error {
            storage::Error::Snapshot(_) | storage::Error::Import(_) => 400,
            storage::Error::UnknownTable(_) => 404,
            _ => 500,
        };
        Failure::new(status, error.to_string())
    }
}

fn status_line(status: u16) -> &'static str {
    match status {
        400 => "400 Bad Request",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Method Not Allowed",
        409 => "409 Conflict",
        501 => "501 Not Implemented",
        _ => "500 Internal Server Error",
    }
}
