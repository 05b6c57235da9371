//! What one shard's store asks of the others'.

use crate::Error;
use crate::store::Store;
use std::rc::{Rc, Weak};

/// The store of this shard, for calls of other shards.
struct Opened(Weak<Store>);

/// Makes this shard's store known to the others.
pub(crate) fn install(store: &Rc<Store>) {
    runtime::install(Rc::new(Opened(Rc::downgrade(store))));
}

/// The store of this shard. Errors: it stops.
pub(crate) fn opened() -> Result<Rc<Store>, Error> {
    let store = runtime::try_local::<Opened>().and_then(|opened| opened.0.upgrade());
    store.ok_or(Error::Stopping)
}

/// Does something on every shard at the same time. Errors: the first; every shard has done what it could.
pub(crate) async fn on_every_shard<F, Fut>(work: F) -> Result<(), Error>
where
    F: Fn(Rc<Store>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<(), Error>> + 'static,
{
    let part = move || {
        let work = work.clone();
        async move { work(opened()?).await }
    };
    runtime::on_every_shard(runtime::current_group(), part).await.into_iter().collect()
}
