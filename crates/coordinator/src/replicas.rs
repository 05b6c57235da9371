//! Messages to one replica, near or far.

use crate::coordinator::Coordinator;
use replica::{Request, Response, VERB_REPLICA};
use runtime::Group;
use std::rc::Rc;
use std::time::Duration;
use topology::NodeIndex;

/// Why a replica's answer did not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Silence {
    /// No answer in time, or no way there.
    Unheard,
    /// It answered that it could not.
    Failed(replica::Error),
}

impl Coordinator {
    /// Sends a request to one replica. Runs to its end even when nobody waits any more.
    pub(crate) async fn ask(
        self: Rc<Self>,
        node: NodeIndex,
        request: Request,
        patience: Duration,
    ) -> Result<Response, Silence> {
        let snapshot = self.topology();
        let response = if node == snapshot.local_index() {
            self.ask_here(request, patience).await?
        } else {
            let Some(peer) = self.peer(node) else {
                return Err(Silence::Unheard);
            };
            let body = request.encode();
            let answer = peer.call(VERB_REPLICA, snapshot.epoch, &body, patience).await;
            let bytes = answer.map_err(|error| match error {
                rpc::Error::TooLarge { .. } => Silence::Failed(replica::Error::TooLarge(error.to_string())),
                _ => Silence::Unheard,
            })?;
            Response::decode(&bytes).map_err(Silence::Failed)?
        };
        match response {
            Response::Failed(error) => Err(Silence::Failed(error)),
            response => Ok(response),
        }
    }

    /// A write runs in a task of its own: once begun it is never dropped half way. A read may be dropped at any await.
    async fn ask_here(&self, request: Request, patience: Duration) -> Result<Response, Silence> {
        let local = self.local().clone();
        let answer = if let Request::Read(_) = request {
            runtime::timeout(patience, local.handle(request)).await
        } else {
            let work = runtime::spawn_now(Group::QUERY, async move { local.handle(request).await });
            runtime::timeout(patience, work).await
        };
        answer.map_err(|_| Silence::Unheard)
    }
}
