//! Other nodes' requests to this node's replica.

use replica::{Error, Local, Request, Response, VERB_REPLICA};
use rpc::{Handler, Incoming};
use std::rc::Rc;

/// The handler to serve other nodes with. Bytes that do not decode are answered, not dropped, so that the other side
/// learns at once.
pub fn internode_handler(local: Local) -> Handler {
    Rc::new(move |incoming: Incoming| {
        let local = local.clone();
        Box::pin(async move { answer(&local, &incoming).await.encode() })
    })
}

async fn answer(local: &Local, incoming: &Incoming) -> Response {
    if incoming.verb != VERB_REPLICA {
        return Response::Failed(Error::Malformed(format!("unknown verb {}", incoming.verb)));
    }
    match Request::decode(&incoming.body) {
        // A read ends with its caller's patience: nobody hears its answer, and it would only hold back others.
        Ok(request @ Request::Read(_)) => {
            match runtime::timeout(incoming.patience, local.handle(request)).await {
                Ok(response) => response,
                Err(late) => Response::Failed(Error::Failed(late.to_string())),
            }
        }
        Ok(request) => local.handle(request).await,
        Err(error) => Response::Failed(error),
    }
}
