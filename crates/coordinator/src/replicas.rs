//! Messages to one replica, near or far.

use crate::coordinator::Coordinator;
use crate::forward::encode_names;
use crate::tracing::{TRACED, Tracer, encode_header};
use crate::view::View;
use base::{HostId, Instant, Token};
use mutation::{ReadCommand, Scope};
use replica::{Request, Response, VERB_FORWARD, VERB_REPLICA, VERB_TRACED, VERB_TRACED_FORWARD};
use rpc::{CallError, Gather, Outgoing};
use runtime::Group;
use std::rc::Rc;
use std::time::Duration;
use storage::Point;

/// Why a replica's answer did not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Silence {
    /// No answer in time, or no way there.
    Unheard,
    /// It answered that it could not.
    Failed(replica::Error),
    /// It knows a newer version of what the request was planned on, and did nothing.
    Behind(u64),
}

impl Coordinator {
    /// Sends a request to one replica. Runs to its end even when nobody waits any more.
    /// `on`: the point of the view that it was planned on, whatever this node knows by now.
    pub(crate) async fn ask(
        self: Rc<Self>,
        host: HostId,
        request: Request,
        on: Point,
        timeout: Duration,
    ) -> Result<Response, Silence> {
        if host == self.topology().local_id() {
            self.ask_here(request, on, timeout).await
        } else {
            self.ask_there(host, &request, on, timeout).await
        }
    }

    /// Asks another node, in a task's name: the shard that owns the token, if it owns all of it.
    async fn ask_there(
        &self,
        host: HostId,
        request: &Request,
        on: Point,
        timeout: Duration,
    ) -> Result<Response, Silence> {
        let shard = self.shard_there(host, request.token());
        if let Some(trace) = runtime::tracing::current() {
            let tracer = Tracer::on(&trace, &self.view());
            return Box::pin(self.ask_traced((host, shard), request, on, timeout, tracer)).await;
        }
        let outgoing = Outgoing { verb: VERB_REPLICA, version: on.1, timeout };
        let answer = self.pool().call(host, shard, outgoing, |out| request.encode_to(out)).await;
        heard(answer.as_deref().map_err(CallError::clone))
    }

    /// The same for a traced request.
    async fn ask_traced(
        &self,
        (host, shard): (HostId, u16),
        request: &Request,
        on: Point,
        timeout: Duration,
        tracer: Tracer,
    ) -> Result<Response, Silence> {
        let knows = self.traces_there(host);
        let verb = if knows { VERB_TRACED } else { VERB_REPLICA };
        let outgoing = Outgoing { verb, version: on.1, timeout };
        let name = name_of(request);
        tracer.trace.note(format!("Sending {name}_REQ message to {}", tracer.name(host)));
        let encode = |out: &mut Vec<u8>| {
            if knows {
                encode_header(&tracer.trace, out);
            }
            request.encode_to(out);
        };
        let answer = self.pool().call(host, shard, outgoing, encode).await;
        heard(tracer.heard(host, name, knows, answer.as_deref().map_err(CallError::clone)))
    }

    /// Sends a request that was planned on a version to another node; the answer goes to `gather` under its number, unless there is an
    /// error here: then nothing was sent. Of a traced request the number has [`TRACED`] added where the answer brings events.
    pub(crate) fn send_there(
        &self,
        version: u64,
        (host, token): (HostId, Option<Token>),
        until: Instant,
        (gather, number): (Rc<dyn Gather>, u16),
        tracer: Option<&Tracer>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallError> {
        let timeout = until.saturating_duration_since(runtime::now());
        let shard = self.shard_there(host, token);
        if let Some(tracer) = tracer.filter(|_| self.traces_there(host)) {
            let outgoing = Outgoing { verb: VERB_TRACED, version, timeout };
            return self.pool().send(host, shard, outgoing, (gather, number | TRACED), |out| {
                encode_header(&tracer.trace, out);
                encode(out);
            });
        }
        let outgoing = Outgoing { verb: VERB_REPLICA, version, timeout };
        self.pool().send(host, shard, outgoing, (gather, number), encode)
    }

    /// Sends to the first of some replicas what all of them are to write; that one hands it to the others. Each answer goes to `gather` under the
    /// number beside its replica; when the first one's is that it did not begin, the others come at the deadline only. Errors: nothing was sent.
    /// Numbers are changed as by [`Coordinator::send_there`], by whether the first one knows traces: it puts none before the answers of those that do not.
    pub(crate) fn forward_there(
        &self,
        view: &View,
        (forwarder, others): ((HostId, u16), &[(HostId, u16)]),
        (token, until): (Option<Token>, Instant),
        gather: &Rc<dyn Gather>,
        tracer: Option<&Tracer>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallError> {
        let timeout = until.saturating_duration_since(runtime::now());
        let (host, first) = forwarder;
        let tracer = tracer.filter(|_| self.traces_there(host));
        let (verb, added) = if tracer.is_some() { (VERB_TRACED_FORWARD, TRACED) } else { (VERB_FORWARD, 0) };
        let outgoing = Outgoing { verb, version: view.point().1, timeout };
        let numbers: Vec<u16> = others.iter().map(|(_, number)| *number | added).collect();
        let gather = (gather, first | added, &*numbers);
        self.pool().send_for_many(host, self.shard_there(host, token), outgoing, gather, |calls, out| {
            if let Some(tracer) = tracer {
                encode_header(&tracer.trace, out);
            }
            let named = others.iter().zip(calls).map(|((host, _), call)| (*host, *call));
            encode_names(named, out);
            encode(out);
        })
    }

    /// A write runs in a task of its own: once begun it is never dropped half way. A read may be dropped at any await.
    pub(crate) async fn ask_here(
        &self,
        request: Request,
        on: Point,
        timeout: Duration,
    ) -> Result<Response, Silence> {
        let local = self.local().clone();
        let answer = if let Request::Read(_) = request {
            runtime::timeout(timeout, local.handle(request, on)).await
        } else {
            let work = runtime::tracing::carry(async move { local.handle(request, on).await });
            let work = runtime::spawn_now(Group::QUERY, work);
            runtime::timeout(timeout, work).await
        };
        done_or_failed(answer.map_err(|_| Silence::Unheard)?)
    }
}

/// What traces call the messages of a request.
pub(crate) fn name_of(request: &Request) -> &'static str {
    match request {
        Request::Read(command) => name_of_read(command),
        Request::Write { .. } => "MUTATION",
        Request::Truncate { .. } => "TRUNCATE",
        Request::Paxos(ask) => ask.name(),
        Request::Floor(_) => "PAXOS_CLEANUP",
    }
}

/// What traces call the messages of a read.
pub(crate) fn name_of_read(command: &ReadCommand) -> &'static str {
    match command.scope {
        Scope::Keys(_) => "READ",
        Scope::Range(_) => "RANGE",
    }
}

/// What came back from another node.
pub(crate) fn heard(answer: Result<&[u8], CallError>) -> Result<Response, Silence> {
    match answer {
        Ok(bytes) => done_or_failed(Response::decode(bytes).map_err(Silence::Failed)?),
        Err(error @ CallError::TooLarge { .. }) => {
            Err(Silence::Failed(replica::Error::TooLarge(error.to_string())))
        }
        Err(_) => Err(Silence::Unheard),
    }
}

impl From<replica::Error> for Silence {
    fn from(error: replica::Error) -> Silence {
        match error {
            replica::Error::Overtaken(version) => Silence::Behind(version),
            error => Silence::Failed(error),
        }
    }
}

/// The answer to another question.
pub(crate) fn strange() -> Silence {
    Silence::Failed(replica::Error::Malformed("answered with something else".to_string()))
}

pub(crate) fn done_or_failed(response: Response) -> Result<Response, Silence> {
    match response {
        Response::Failed(error) => Err(error.into()),
        Response::Behind(version) => Err(Silence::Behind(version)),
        response => Ok(response),
    }
}
