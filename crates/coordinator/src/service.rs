//! Other nodes' requests to this node's replica.

use crate::coordinator::Coordinator;
use crate::forward::decode_names;
use base::Token;
use mutation::{Mutation, Scope};
use replica::{Error, Local, Request, Response, VERB_BACKGROUND, VERB_FORWARD, VERB_REPLICA};
use rpc::{LocalFuture, Registry, Responder, Serve};
use runtime::Group;
use schema::TableId;
use std::rc::Rc;
use std::time::Duration;
use storage::Point;
use topology::Placements;

/// The verbs that this shard's replica answers.
pub fn verbs(local: Local) -> Registry {
    let background = Background(local.working_in(Group::STREAMING));
    Registry::new()
        .on(VERB_REPLICA, Group::QUERY, Rc::new(Replica(local.clone())))
        .on(VERB_FORWARD, Group::QUERY, Rc::new(Forward(local)))
        .on(VERB_BACKGROUND, Group::STREAMING, Rc::new(background))
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
            Ok(Request::Truncate { .. }) => None,
            Err(error) => Some(Response::Failed(error)),
        };
        let Some(response) = response else { return false };
        response.encode_to(out);
        true
    }

    fn begin(&self, request: &rpc::Request<'_>, answer: Responder) -> LocalFuture {
        begin(self.0.clone(), request, Request::decode(request.body), answer)
    }
}

/// The same where nobody waits for it: never in the step of the connection's reader, which belongs to requests.
struct Background(Local);

impl Serve for Background {
    fn begin(&self, request: &rpc::Request<'_>, answer: Responder) -> LocalFuture {
        begin(self.0.clone(), request, Request::decode(request.body), answer)
    }
}

/// A write that this node is to hand to other replicas near it, and to do itself.
struct Forward(Local);

impl Serve for Forward {
    fn begin(&self, request: &rpc::Request<'_>, answer: Responder) -> LocalFuture {
        let Some((names, write)) = decode_names(request.body) else {
            let cut = Err(Error::Malformed("malformed message to forward".to_string()));
            return begin(self.0.clone(), request, cut, answer);
        };
        let decoded = match Request::decode(write) {
            Ok(Request::Read(_) | Request::Truncate { .. }) => {
                Err(Error::Malformed("only writes are forwarded".to_string()))
            }
            decoded => decoded,
        };
        if let Some(coordinator) = runtime::try_local::<Coordinator>()
            && let Ok(decoded) = &decoded
        {
            coordinator.hand_on(request, &names, write, decoded.token(), &answer);
        }
        begin(self.0.clone(), request, decoded, answer)
    }
}

fn begin(
    local: Local,
    request: &rpc::Request<'_>,
    decoded: Result<Request, Error>,
    answer: Responder,
) -> LocalFuture {
    let (from, version) = (request.from.host, request.version);
    Box::pin(async move {
        // ⚔ Kept to the end: what is accepted by a version is a request of that version, for which a barrier waits, whoever planned it.
        let mut view = None;
        let mut on = Point(0, version);
        if let Some(coordinator) = runtime::try_local::<Coordinator>() {
            if !runtime::planted(runtime::Bug::BehindDoesNotPull) {
                coordinator.catch_up(from, version, answer.until()).await;
            }
            on = Point(coordinator.view_point().0, version);
            let changed = decoded.as_ref().ok().and_then(|asked| coordinator.changed_since(asked, version));
            if let Some(changed) = changed {
                return answer.send(|out| Response::Behind(changed).encode_to(out));
            }
            view = Some(coordinator.view());
        }
        let response = match decoded {
            // A read ends with its caller's timeout: nobody hears its answer, and it would only hold back others.
            Ok(request @ Request::Read(_)) => {
                let left = answer.until().saturating_duration_since(runtime::now());
                read_within(&local, request, on, left).await
            }
            Ok(request) => local.handle(request, on).await,
            Err(error) => Response::Failed(error),
        };
        answer.send(|out| response.encode_to(out));
        drop(view);
    })
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
        match asked {
            Request::Write { mutations, .. } => {
                let of =
                    |one: &Mutation| changed(one.table(), &|placements| Some(at(placements, one.token())));
                mutations.iter().filter_map(of).max()
            }
            Request::Read(command) => changed(command.table, &|placements| match &command.scope {
                Scope::Keys(keys) => keys.iter().map(|key| at(placements, key.token)).max(),
                Scope::Range(range) => {
                    let parts = placements.parts(range.first, range.last);
                    parts.iter().map(|(_, _, holders)| holders.changed.index).max()
                }
            }),
            Request::Truncate { .. } => None,
        }
    }
}

async fn read_within(local: &Local, request: Request, on: Point, timeout: Duration) -> Response {
    match runtime::timeout(timeout, local.handle(request, on)).await {
        Ok(response) => response,
        Err(late) => Response::Failed(Error::Failed(late.to_string())),
    }
}
