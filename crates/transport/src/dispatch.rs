//! From a request to its answer: what is legal now, what is answered at once, what becomes a task.
//!
//! EXECUTE, the hot path, is bound here from the received bytes and run at once; only what has to wait becomes a task.
//! Other statements are copied into their task and decoded there.

use crate::connection::{Connection, InFlight, Phase, Registered};
use crate::limits;
use crate::respond;
use protocol::compression::Compression;
use protocol::envelope::{Header, Opcode, Version, flag};
use protocol::event::EventType;
use protocol::request::{Execute, Request};
use protocol::response::Reply;
use protocol::supported::{self, Sharding};
use query::{Answer, Authenticator, Engine, Error, Executed, Traced};
use runtime::Group;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

/// What STARTUP agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) version: Version,
    pub(crate) compression: Compression,
}

/// Answers one request, now or later. Never waits.
pub(crate) fn dispatch(connection: &Rc<Connection>, header: &Header, body: &[u8]) {
    let answered = match Opcode::from_number(header.opcode) {
        Some(Opcode::Options) => {
            options(connection, header);
            Ok(())
        }
        Some(opcode) if connection.phase.get() != Phase::Ready => opening(connection, header, opcode, body),
        Some(Opcode::Startup) => {
            Err(Error::Protocol("Unexpected message STARTUP, the connection is already open".into()))
        }
        Some(Opcode::Execute) => execute(connection, header, body),
        Some(Opcode::Query | Opcode::Prepare | Opcode::Batch) => statement(connection, header, body),
        Some(Opcode::Register) => register(connection, header, body),
        Some(Opcode::AuthResponse) => {
            Err(Error::Protocol("Unexpected message AUTH_RESPONSE, no authentication is required".into()))
        }
        Some(opcode) => Err(Error::Protocol(format!("Unexpected message {} from a client", opcode.name()))),
        None => Err(Error::Protocol(format!("Unknown opcode {}", header.opcode))),
    };
    if let Err(error) = answered {
        if matches!(error, Error::Protocol(_)) {
            connection.shard.metrics.protocol_errors.inc();
        }
        fail(connection, header, &error, None);
    }
}

fn fail(connection: &Connection, header: &Header, error: &Error, trace_id: Option<[u8; 16]>) {
    connection.shard.metrics.errors.inc();
    if matches!(error, Error::Server(_)) {
        runtime::error!("transport: a request of {} failed: {error}", connection.peer);
    }
    respond::error(connection.out.borrow_mut().buffer(), header.version, header.stream, error, trace_id);
}

fn options(connection: &Connection, header: &Header) {
    let port = |port: &Cell<u16>| Some(port.get()).filter(|port| *port != 0);
    let sharding = Sharding {
        shard: runtime::shard().0,
        shards: runtime::shard_count(),
        shard_aware_port: port(&connection.shard.shard_aware_port),
        shard_aware_port_ssl: port(&connection.shard.shard_aware_port_ssl),
    };
    reply(connection, header, &Reply::Supported(&supported::options(Some(&sharding))));
}

fn reply(connection: &Connection, header: &Header, reply: &Reply<'_>) {
    respond::reply(connection.out.borrow_mut().buffer(), header.version, header.stream, reply);
}

/// What is legal before statements are.
fn opening(connection: &Rc<Connection>, header: &Header, opcode: Opcode, body: &[u8]) -> Result<(), Error> {
    match (connection.phase.get(), opcode) {
        (Phase::Authenticating, Opcode::AuthResponse) => log_in(connection, header, body),
        (Phase::Authenticating, opcode) => {
            let name = opcode.name();
            Err(Error::Protocol(format!("Unexpected message {name}, expecting SASL_RESPONSE")))
        }
        (_, Opcode::Startup) => startup(connection, header, body),
        (_, opcode) => {
            let name = opcode.name();
            Err(Error::Protocol(format!("Unexpected message {name}, expecting STARTUP or OPTIONS")))
        }
    }
}

fn startup(connection: &Connection, header: &Header, body: &[u8]) -> Result<(), Error> {
    let Request::Startup(startup) = decode(header, body)? else {
        return Err(Error::Protocol("Unexpected message, expecting STARTUP".into()));
    };
    let compression = startup.check(header.version).map_err(|e| Error::Protocol(e.to_string()))?;
    if startup.get("THROW_ON_OVERLOAD") == Some("1") {
        connection.throws_on_overload.set(true);
    }
    let mut greeting = connection.greeting.borrow_mut();
    greeting.options = kept(&startup.options);
    let authenticator = connection.shard.engine.authenticator();
    let (phase, answer) = match authenticator {
        Authenticator::AllowAll => (Phase::Ready, Reply::Ready),
        Authenticator::Password => (Phase::Authenticating, Reply::Authenticate(authenticator.class())),
    };
    reply(connection, header, &answer);
    connection.out.borrow_mut().negotiated(header.version, compression);
    connection.phase.set(phase);
    connection.agree(Agreed { version: header.version, compression });
    Ok(())
}

/// What is remembered of STARTUP for as long as the connection lasts.
fn kept(options: &[(&str, &str)]) -> BTreeMap<String, String> {
    let fits = |text: &str| text.len() <= limits::STARTUP_OPTION_BYTES_MAX;
    let fitting = options.iter().filter(|(key, value)| fits(key) && fits(value));
    fitting.take(limits::STARTUP_OPTIONS_MAX).map(|(k, v)| (k.to_uppercase(), v.to_string())).collect()
}

/// Checks a name and a password; meanwhile nothing more is read from the connection.
fn log_in(connection: &Rc<Connection>, header: &Header, body: &[u8]) -> Result<(), Error> {
    admit(connection, body.len())?;
    let Request::AuthResponse(token) = decode(header, body)? else {
        return Err(Error::Protocol("Unexpected message, expecting SASL_RESPONSE".into()));
    };
    let token = token.unwrap_or_default().to_vec();
    let (header, guard) = (*header, connection.enter(body.len(), limits::TEXT_WEIGHT));
    connection.logging_in.set(true);
    runtime::spawn_detached_now(Group::QUERY, async move {
        let connection = &guard.connection;
        let has_left = || connection.is_closed() || connection.ended.get();
        let engine = &connection.shard.engine;
        let result = engine.login(&token, connection.startup_deadline, has_left).await;
        connection.logging_in.set(false);
        match result {
            Ok(user) => {
                // Once a connection: its phase is another one from here on.
                let _once = connection.user.set(user);
                connection.phase.set(Phase::Ready);
                reply(connection, &header, &Reply::AuthSuccess(None));
            }
            Err(error) => fail(connection, &header, &error, None),
        }
        connection.flush_later();
    });
    Ok(())
}

fn register(connection: &Connection, header: &Header, body: &[u8]) -> Result<(), Error> {
    let Request::Register(kinds) = decode(header, body)? else {
        return Err(Error::Protocol("Unexpected message, expecting REGISTER".into()));
    };
    if limits::REGISTER_MAX < kinds.len() {
        return Err(Error::Protocol(format!("{} event types in one REGISTER", kinds.len())));
    }
    if let Some(kind) = kinds.iter().find(|kind| header.version < kind.since()) {
        let version = header.version as u8;
        return Err(Error::Protocol(format!(
            "Event {} not valid for protocol version {version}/v{version}",
            kind.name()
        )));
    }
    let before = connection.registered.get();
    let asks = |kind| kinds.contains(&kind);
    connection.registered.set(Registered {
        topology: before.topology || asks(EventType::TopologyChange),
        status: before.status || asks(EventType::StatusChange),
        schema: before.schema || asks(EventType::SchemaChange),
    });
    reply(connection, header, &Reply::Ready);
    Ok(())
}

fn decode<'a>(header: &Header, body: &'a [u8]) -> Result<Request<'a>, Error> {
    Request::decode(header, body).map_err(|e| Error::Protocol(e.to_string()))
}

/// Refuses work the shard has no room for.
fn admit(connection: &Connection, bytes: usize) -> Result<(), Error> {
    if connection.shard.refuses(connection, bytes) {
        connection.shard.metrics.shed.inc();
        return Err(Error::Overloaded(
            "Server is in overloaded state. Cannot accept more requests at this point".into(),
        ));
    }
    Ok(())
}

fn execute(connection: &Rc<Connection>, header: &Header, body: &[u8]) -> Result<(), Error> {
    admit(connection, body.len())?;
    let Request::Execute(request) = decode(header, body)? else {
        return Err(Error::Protocol("Unexpected message, expecting EXECUTE".into()));
    };
    let Execute { id, result_metadata_id, parameters } = &request;
    if is_traced(header) {
        return execute_traced(connection, header, &request, body.len());
    }
    let engine = &connection.shard.engine;
    let begun = engine.slow().begin_step();
    let executed =
        engine.execute(id, *result_metadata_id, connection.user.get().map(AsRef::as_ref), parameters)?;
    let guard = connection.enter(body.len(), 1);
    let bound = match executed {
        Executed::Done(result) => {
            finish(&guard, header, result, None);
            engine.slow().end(begun, || prepared_text(engine, id));
            return Ok(());
        }
        Executed::Waits(bound) => bound,
    };
    let (header, engine, id) = (*header, engine.clone(), <[u8; 16]>::try_from(*id));
    let begun = begun.or_else(|| engine.slow().begin());
    runtime::spawn_detached_now(Group::QUERY, async move {
        let user = guard.connection.user.get().cloned();
        let result = engine.run(bound, user.as_deref()).await;
        finish(&guard, &header, result, None);
        engine.slow().end(begun, || prepared_text(&engine, id.as_ref().map_or(&[], |id| &id[..])));
    });
    Ok(())
}

/// The same with every stage noted: never within this step, whose speed belongs to other requests.
fn execute_traced(
    connection: &Rc<Connection>,
    header: &Header,
    request: &Execute<'_>,
    bytes: usize,
) -> Result<(), Error> {
    let Execute { id, result_metadata_id, parameters } = request;
    let engine = connection.shard.engine.clone();
    let text = engine.text_of(id);
    let kind = "Execute CQL3 prepared query";
    let traced = engine.begin_trace(kind, connection.peer, text.as_deref(), Some(parameters));
    let bound =
        engine.bind_execute(id, *result_metadata_id, connection.user.get().map(AsRef::as_ref), parameters);
    let (header, guard, begun) = (*header, connection.enter(bytes, 1), engine.slow().begin());
    let id = id.to_vec();
    runtime::spawn_detached_now(Group::QUERY, async move {
        let user = guard.connection.user.get().cloned();
        let result = match bound {
            Ok(bound) => Traced::follow(Some(&traced), engine.run(bound, user.as_deref())).await,
            Err(error) => Err(error),
        };
        finish(&guard, &header, result, Some(traced));
        engine.slow().end(begun, || prepared_text(&engine, &id));
    });
    Ok(())
}

fn statement(connection: &Rc<Connection>, header: &Header, body: &[u8]) -> Result<(), Error> {
    admit(connection, body.len())?;
    let (header, guard, body) = (*header, connection.enter(body.len(), limits::TEXT_WEIGHT), body.to_vec());
    runtime::spawn_detached_now(Group::QUERY, async move { run_statement(guard, header, body).await });
    Ok(())
}

/// QUERY, PREPARE and BATCH.
async fn run_statement(guard: InFlight, header: Header, body: Vec<u8>) {
    let connection = guard.connection.clone();
    let engine = connection.shard.engine.clone();
    let keyspace = connection.keyspace.borrow().clone();
    let keyspace = keyspace.as_deref();
    let user = connection.user.get().cloned();
    let request = match decode(&header, &body) {
        Ok(request) => request,
        Err(error) => return finish(&guard, &header, Err(error), None),
    };
    let traced = is_traced(&header).then(|| begin_trace(&connection, &request)).flatten();
    let begun = engine.slow().begin();
    let work = pin!(async {
        match &request {
            Request::Query(query) => {
                engine.query(keyspace, user.as_deref(), query.query, &query.parameters).await
            }
            Request::Batch(batch) => engine.batch(keyspace, user.as_deref(), batch).await,
            Request::Prepare(prepare) => engine.prepare(prepare.keyspace.or(keyspace), prepare.query).await,
            _ => Err(Error::Protocol("Unexpected message".into())),
        }
    });
    let result = Traced::follow(traced.as_ref(), work).await;
    finish(&guard, &header, result, traced);
    engine.slow().end(begun, || (keyspace.map(str::to_string), text_of(&request)));
}

/// A statement in the words of its client, for the log.
fn text_of(request: &Request<'_>) -> String {
    match request {
        Request::Query(query) => query.query.into(),
        Request::Prepare(prepare) => format!("PREPARE {}", prepare.query),
        Request::Batch(batch) => format!("BATCH of {} statements", batch.statements.len()),
        _ => String::new(),
    }
}

/// Keyspace and text of a prepared statement, for the log.
fn prepared_text(engine: &Engine, id: &[u8]) -> (Option<String>, String) {
    match engine.prepared(id) {
        Some(statement) => statement,
        None => (None, "a prepared statement that was let go".into()),
    }
}

fn is_traced(header: &Header) -> bool {
    header.flags & flag::TRACING != 0
}

/// Begins the trace of a QUERY, PREPARE or BATCH.
fn begin_trace(connection: &Connection, request: &Request<'_>) -> Option<Traced> {
    let (engine, client) = (&connection.shard.engine, connection.peer);
    match request {
        Request::Query(query) => {
            Some(engine.begin_trace("Execute CQL3 query", client, Some(query.query), Some(&query.parameters)))
        }
        Request::Prepare(prepare) => {
            Some(engine.begin_trace("Preparing CQL3 query", client, Some(prepare.query), None))
        }
        Request::Batch(batch) => {
            Some(engine.begin_trace("Execute batch of CQL3 queries", client, None, Some(&batch.parameters)))
        }
        _ => None,
    }
}

fn finish(guard: &InFlight, header: &Header, result: Result<Answer, Error>, traced: Option<Traced>) {
    let connection = &guard.connection;
    let traced = traced.map(|traced| connection.shard.engine.end_trace(traced, result.as_ref()));
    match result {
        Ok(answer) => {
            if let query::Outcome::SetKeyspace(keyspace) = &answer.outcome {
                *connection.keyspace.borrow_mut() = Some(keyspace.clone());
            }
            respond::answer(
                connection.out.borrow_mut().buffer(),
                header.version,
                header.stream,
                &answer,
                traced,
            );
            if let query::Outcome::Rows(rows) = answer.outcome {
                connection.shard.engine.give_back(rows.content);
            }
        }
        Err(error) => fail(connection, header, &error, traced),
    }
    connection.flush_later();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_of_itself_is_bounded() {
        let long = "x".repeat(limits::STARTUP_OPTION_BYTES_MAX + 1);
        let names: Vec<String> = (0..1000).map(|n| format!("k{n:03}")).collect();
        let mut options = vec![("DRIVER_NAME", "a driver"), (long.as_str(), "a"), ("b", long.as_str())];
        options.extend(names.iter().map(|name| (name.as_str(), "c")));
        let kept = kept(&options);
        assert_eq!(kept.len(), limits::STARTUP_OPTIONS_MAX);
        assert!(kept.contains_key("DRIVER_NAME") && kept.contains_key("K000") && !kept.contains_key("B"));
    }
}
