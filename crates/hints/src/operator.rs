//! What operators ask of the hints of all shards.

use crate::hints::Hints;
use crate::queue::Content;
use crate::settings::Switches;
use base::HostId;
use runtime::{Group, ShardId};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a node keeps for another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    /// Files.
    pub files: u64,
    /// Bytes in files and in memory.
    pub bytes: u64,
    /// Hints that are in no file yet.
    pub buffered: u64,
    /// When the oldest file was begun, in milliseconds since the Unix epoch.
    pub oldest_ms: Option<i64>,
    /// When the newest file was begun.
    pub newest_ms: Option<i64>,
}

impl Pending {
    fn add(&mut self, content: &Content) {
        self.files += content.files;
        self.bytes += content.bytes;
        self.buffered += content.buffered_hints;
        self.oldest_ms = [self.oldest_ms, content.oldest_ms].into_iter().flatten().min();
        self.newest_ms = self.newest_ms.max(content.newest_ms);
    }
}

/// Does something on every shard; those that keep no hints are passed over.
async fn on_every<T, F, Fut>(act: F) -> Vec<T>
where
    T: Send + 'static,
    F: Fn(Rc<Hints>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    let ask = move || {
        let act = act.clone();
        async move {
            match runtime::try_local::<Hints>() {
                Some(hints) => Some(act(hints).await),
                None => None,
            }
        }
    };
    runtime::on_every_shard(Group::ADMIN, ask).await.into_iter().flatten().collect()
}

/// What this node keeps, for each node that it keeps something for.
pub async fn pending() -> BTreeMap<HostId, Pending> {
    let shards = on_every(|hints| async move {
        let content = |queue: Rc<crate::queue::Queue>| (queue.target, queue.content());
        hints.all().into_iter().map(content).collect::<Vec<_>>()
    });
    let mut all: BTreeMap<HostId, Pending> = BTreeMap::new();
    for (target, content) in shards.await.into_iter().flatten() {
        if content.bytes > 0 {
            all.entry(target).or_default().add(&content);
        }
    }
    all
}

/// How many hints this node keeps, at least: what is in a file counts as one.
pub async fn held() -> u64 {
    pending().await.values().map(|pending| pending.files + pending.buffered).sum()
}

/// What is switched at the moment. `None`: this node keeps no hints.
pub async fn switches() -> Option<Switches> {
    let ask = || async { runtime::try_local::<Hints>().map(|hints| hints.switches.borrow().clone()) };
    runtime::submit_to(ShardId(0), Group::ADMIN, ask).await
}

/// Switches something on every shard.
pub async fn switch(change: impl Fn(&mut Switches) + Clone + Send + 'static) {
    let act = move |hints: Rc<Hints>| {
        let change = change.clone();
        async move {
            change(&mut hints.switches.borrow_mut());
            hints.wake.notify();
        }
    };
    on_every(act).await;
}

/// Throws away what is kept for one node, or for all.
/// Errors: files that cannot be removed, in words; the rest is gone.
pub async fn throw_away(target: Option<HostId>) -> Result<(), String> {
    let act = move |hints: Rc<Hints>| async move {
        let mut outcome = Ok(());
        for queue in hints.all() {
            if target.is_none_or(|target| target == queue.target) {
                let thrown = queue.throw_away().await;
                outcome = outcome.and(thrown.map(|_| ()).map_err(|error| error.to_string()));
            }
        }
        outcome
    };
    on_every(act).await.into_iter().collect()
}
