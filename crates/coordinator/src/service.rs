//! Other nodes' requests to this node's replica.

use crate::batchlog::{Batches, VERB_BATCH};
use crate::coordinator::{Coordinator, LocalBytes};
use crate::counters::{Counters, VERB_COUNT};
use crate::forward::decode_names;
use crate::replicas::name_of;
use crate::tracing::{FEATURE_TRACES, begin_part, encode_events, name_of as node_name};
use crate::view::View;
use base::{HostId, Instant, Token};
use mutation::{Mutation, Scope, TokenRange};
use replica::{
    Error, FloorAsked, Local, Request, Response, VERB_BACKGROUND, VERB_FORWARD, VERB_REPLICA, VERB_TRACE,
    VERB_TRACED, VERB_TRACED_FORWARD,
};
use rpc::{LocalFuture, Registry, Responder, Serve};
use runtime::tracing::Trace;
use runtime::{Bug, Group};
use schema::TableId;
use std::rc::Rc;
use std::time::Duration;
use storage::Point;
use topology::Placements;

/// The verbs that this shard's replica answers.
pub fn verbs(local: Local) -> Registry {
    let background = Background(local.working_in(Group::STREAMING));
    let verbs = Registry::new()
        .on(VERB_REPLICA, Group::QUERY, Rc::new(Replica(local.clone())))
        .on(VERB_FORWARD, Group::QUERY, Rc::new(Forward { local: local.clone(), traced: false }))
        .on(VERB_BATCH, Group::QUERY, Rc::new(Batches))
        .on(VERB_COUNT, Group::QUERY, Rc::new(Counters))
        .on(VERB_BACKGROUND, Group::STREAMING, Rc::new(background));
    if runtime::planted(Bug::BeforeTraces) {
        return verbs;
    }
    verbs
        .with_features(FEATURE_TRACES)
        .on(VERB_TRACED, Group::QUERY, Rc::new(Traced(local.clone())))
        .on(VERB_TRACED_FORWARD, Group::QUERY, Rc::new(Forward { local, traced: true }))
        .on_future(VERB_TRACE, Group::QUERY, kept_trace)
}

/// Answers in the step in which a request arrives where this shard owns all of it and nothing must be waited for; else by a task.
/// Bytes that do not decode are answered, not dropped, so that the other side learns at once.
struct Replica(Local);

impl Serve for Replica {
    fn now(&self, request: &rpc::Request<'_>, out: &mut Vec<u8>) -> bool {
        let Some(coordinator) = runtime::try_local::<Coordinator>() else { return false };
        let Point(epoch, version) = coordinator.view_point();
        if version < request.version {
            return false;
        }
        // Peers of another epoch are refused when they say hello.
        let on = Point(epoch, request.version);
        let decoded = Request::decode(request.body);
        if let Some(changed) =
            decoded.as_ref().ok().and_then(|asked| coordinator.changed_since(asked, request.version))
        {
            Response::Behind(changed).encode_to(out);
            return true;
        }
        let response = match decoded {
            Ok(Request::Read(command)) => match &command.scope {
                // What is not there in one piece of memory is asked again below; decoding it twice is little beside reading it.
                Scope::Keys(_) => self.0.read_now(&command).map(|(answer, _)| Response::Answer(answer)),
                Scope::Range(_) => None,
            },
            Ok(Request::Write { mutations, durability }) => {
                self.0.write_now(&mutations, durability, on).map(|(written, _)| Response::of(written))
            }
            Ok(Request::Truncate { .. } | Request::Paxos(_) | Request::Floor(_)) => None,
            Err(error) => Some(Response::Failed(error)),
        };
        let Some(response) = response else { return false };
        response.encode_to(out);
        true
    }

    fn begin(&self, request: &rpc::Request<'_>, answer: Responder) -> LocalFuture {
        begin(self.0.clone(), request, Request::decode(request.body), answer, None)
    }
}

/// The same where nobody waits for it: never in the step of the connection's reader, which belongs to requests.
struct Background(Local);

impl Serve for Background {
    fn begin(&self, request: &rpc::Request<'_>, answer: Responder) -> LocalFuture {
        begin(self.0.clone(), request, Request::decode(request.body), answer, None)
    }
}

/// The same for requests that are traced: always by a task, which notes what it does.
struct Traced(Local);

impl Serve for Traced {
    fn begin(&self, request: &rpc::Request<'_>, answer: Responder) -> LocalFuture {
        let (trace, plain) = part_of(request.body);
        let decoded = Request::decode(plain);
        note_received(&trace, request, decoded.as_ref().map_or("REPLICA", name_of));
        begin(self.0.clone(), request, decoded, answer, Some(trace))
    }
}

/// This node's part of a traced request, and the plain request; none of it where the message is cut.
fn part_of(body: &[u8]) -> (Rc<Trace>, &[u8]) {
    begin_part(body).unwrap_or_else(|| (Trace::begin(0, 0), &[]))
}

fn note_received(trace: &Trace, request: &rpc::Request<'_>, name: &str) {
    trace.note(format!("{name}_REQ message received from {}", name_here(request.from.host)));
}

fn name_here(host: HostId) -> String {
    match runtime::try_local::<Coordinator>() {
        Some(coordinator) => node_name(&coordinator.topology(), host),
        None => host.to_string(),
    }
}

/// A write that this node is to hand to other replicas near it, and to do itself.
struct Forward {
    local: Local,
    /// Whether what is sent and what is answered has events around it.
    traced: bool,
}

impl Serve for Forward {
    fn begin(&self, request: &rpc::Request<'_>, answer: Responder) -> LocalFuture {
        let (trace, body) = if self.traced {
            let (trace, body) = part_of(request.body);
            note_received(&trace, request, "MUTATION");
            (Some(trace), body)
        } else {
            (None, request.body)
        };
        let Some((names, write)) = decode_names(body) else {
            let cut = Err(Error::Malformed("malformed message to forward".to_string()));
            return begin(self.local.clone(), request, cut, answer, trace);
        };
        let decoded = match Request::decode(write) {
            Ok(Request::Read(_) | Request::Truncate { .. } | Request::Paxos(_) | Request::Floor(_)) => {
                Err(Error::Malformed("only writes are forwarded".to_string()))
            }
            decoded => decoded,
        };
        if let Some(coordinator) = runtime::try_local::<Coordinator>()
            && let Ok(decoded) = &decoded
        {
            coordinator.hand_on(request, &names, (write, decoded.token()), &answer, trace.as_ref());
        }
        begin(self.local.clone(), request, decoded, answer, trace)
    }
}

fn begin(
    local: Local,
    request: &rpc::Request<'_>,
    decoded: Result<Request, Error>,
    answer: Responder,
    trace: Option<Rc<Trace>>,
) -> LocalFuture {
    let (from, version) = (request.from.host, request.version);
    let Some(trace) = trace else {
        return Box::pin(async move {
            let (response, view) = respond(&local, decoded, (from, version), answer.until()).await;
            answer.send(|out| response.encode_to(out));
            drop(view);
        });
    };
    Box::pin(async move {
        let responding = respond(&local, decoded, (from, version), answer.until());
        let (response, view) = runtime::tracing::follow(Some(trace.clone()), responding).await;
        if let Response::Failed(error) = &response {
            trace.note(format!("Failed: {error}"));
        }
        trace.note(format!("Enqueuing response to {}", name_here(from)));
        answer.send(|out| {
            encode_events(&trace.take(), out);
            response.encode_to(out);
        });
        drop(view);
    })
}

/// What a message of another node is answered with, and the view to keep until it is sent.
async fn respond(
    local: &Local,
    decoded: Result<Request, Error>,
    (from, version): (HostId, u64),
    until: Instant,
) -> (Response, Option<Rc<View>>) {
    // ⚔ Kept to the end: what is accepted by a version is a request of that version, for which a barrier waits, whoever planned it.
    let mut view = None;
    let mut on = Point(0, version);
    if let Some(coordinator) = runtime::try_local::<Coordinator>() {
        if !runtime::planted(runtime::Bug::BehindDoesNotPull) {
            coordinator.catch_up(from, version, until).await;
        }
        on = Point(coordinator.view_point().0, version);
        let changed = decoded.as_ref().ok().and_then(|asked| coordinator.changed_since(asked, version));
        if let Some(changed) = changed {
            return (Response::Behind(changed), None);
        }
        view = Some(coordinator.view());
    }
    let response = match decoded {
        // A read ends with its caller's timeout: nobody hears its answer, and it would only hold back others.
        Ok(request @ Request::Read(_)) => {
            let left = until.saturating_duration_since(runtime::now());
            read_within(local, request, on, left).await
        }
        Ok(request) => local.handle(request, on).await,
        Err(error) => Response::Failed(error),
    };
    (response, view)
}

/// Answers with what this node has kept of a traced request, as [`Coordinator::on_trace`] says; nothing, if there is none.
fn kept_trace(request: &rpc::Request<'_>) -> LocalBytes {
    let id = <[u8; 16]>::try_from(request.body).map(u128::from_be_bytes);
    let hook = runtime::try_local::<Coordinator>().and_then(|coordinator| coordinator.trace_hook());
    match (id, hook) {
        (Ok(id), Some(hook)) => hook(id),
        _ => Box::pin(std::future::ready(Vec::new())),
    }
}

impl Coordinator {
    /// ⚔ The version after `planned` that changed who holds what is asked: whoever planned on the older one may write past a new holder, or read
    /// from one that holds it no more. `None`: the plan is as good as a new one.
    fn changed_since(&self, asked: &Request, planned: u64) -> Option<u64> {
        if self.version() <= planned {
            return None;
        }
        let view = self.view();
        let changed = |table: TableId, holders: &dyn Fn(&Placements) -> Option<u64>| {
            // A table that is gone, or not there yet, is answered for by the replica.
            view.placed(table).and_then(|placed| holders(&placed.placements)).filter(|index| planned < *index)
        };
        let at = |placements: &Placements, token: Token| placements.at(token).changed.index;
        let in_range = |placements: &Placements, range: TokenRange| {
            let parts = placements.parts(range.first, range.last);
            parts.iter().map(|(_, _, holders)| holders.changed.index).max()
        };
        match asked {
            Request::Write { mutations, .. } => {
                let of =
                    |one: &Mutation| changed(one.table(), &|placements| Some(at(placements, one.token())));
                mutations.iter().filter_map(of).max()
            }
            Request::Read(command) => changed(command.table, &|placements| match &command.scope {
                Scope::Keys(keys) => keys.iter().map(|key| at(placements, key.token)).max(),
                Scope::Range(range) => in_range(placements, *range),
            }),
            Request::Truncate { .. } => None,
            Request::Floor(FloorAsked { of: (table, range), .. }) => {
                changed(*table, &|placements| in_range(placements, *range))
            }
            Request::Paxos(ask) => {
                let token = ask.key().token;
                changed(ask.table(), &|placements| Some(at(placements, token)))
            }
        }
    }
}

async fn read_within(local: &Local, request: Request, on: Point, timeout: Duration) -> Response {
    match runtime::timeout(timeout, local.handle(request, on)).await {
        Ok(response) => response,
        Err(late) => Response::Failed(Error::Failed(late.to_string())),
    }
}
