//! Messages to one replica, near or far.

use crate::coordinator::Coordinator;
use crate::forward::encode_names;
use crate::view::View;
use base::{HostId, Instant, Token};
use replica::{Request, Response, VERB_FORWARD, VERB_REPLICA};
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
        let outgoing = Outgoing { verb: VERB_REPLICA, version: on.1, timeout };
        let shard = self.shard_there(host, request.token());
        let answer = self.pool().call(host, shard, outgoing, |out| request.encode_to(out)).await;
        heard(answer.as_deref().map_err(CallError::clone))
    }

    /// Sends a request that was planned on `view` to another node; the answer goes to `gather` under its number, unless there is an
    /// error here: then nothing was sent.
    pub(crate) fn send_there(
        &self,
        view: &View,
        host: HostId,
        token: Option<Token>,
        until: Instant,
        gather: (Rc<dyn Gather>, u16),
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallError> {
        let timeout = until.saturating_duration_since(runtime::now());
        let outgoing = Outgoing { verb: VERB_REPLICA, version: view.point().1, timeout };
        self.pool().send(host, self.shard_there(host, token), outgoing, gather, encode)
    }

    /// Sends to the first of some replicas what all of them are to write; that one hands it to the others. Each answer goes to `gather` under the
    /// number beside its replica; when the first one's is that it did not begin, the others come at the deadline only. Errors: nothing was sent.
    pub(crate) fn forward_there(
        &self,
        view: &View,
        (forwarder, others): ((HostId, u16), &[(HostId, u16)]),
        token: Option<Token>,
        until: Instant,
        gather: &Rc<dyn Gather>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallError> {
        let timeout = until.saturating_duration_since(runtime::now());
        let outgoing = Outgoing { verb: VERB_FORWARD, version: view.point().1, timeout };
        let (host, first) = forwarder;
        let numbers: Vec<u16> = others.iter().map(|(_, number)| *number).collect();
        let gather = (gather, first, &*numbers);
        self.pool().send_for_many(host, self.shard_there(host, token), outgoing, gather, |calls, out| {
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
            let work = runtime::spawn_now(Group::QUERY, async move { local.handle(request, on).await });
            runtime::timeout(timeout, work).await
        };
        done_or_failed(answer.map_err(|_| Silence::Unheard)?)
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

pub(crate) fn done_or_failed(response: Response) -> Result<Response, Silence> {
    match response {
        Response::Failed(error) => Err(error.into()),
        Response::Behind(version) => Err(Silence::Behind(version)),
        response @ (Response::Done | Response::Answer(_)) => Ok(response),
    }
}
