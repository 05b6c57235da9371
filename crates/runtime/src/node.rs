//! The shard a task runs on: identity, chance, values installed per shard, helper threads, shutdown.

use crate::backend::{Backend, Bug};
use crate::offload::OffloadPool;
use crate::shard::{NodeShared, ShardId, with};
use std::any::{TypeId, type_name};
use std::rc::Rc;
use std::sync::Arc;

/// The shard this runs on.
pub fn shard() -> ShardId {
    with(|shard| shard.id)
}

/// Shards of this node.
pub fn shard_count() -> u16 {
    with(|shard| shard.node.inboxes.len() as u16)
}

/// A random number; in simulation a function of the seed. Not for secrets.
pub fn random_u64() -> u64 {
    with(|shard| shard.random.borrow_mut().u64())
}

/// A random (version 4) uuid.
pub fn random_uuid() -> u128 {
    let random = u128::from(random_u64()) << 64 | u128::from(random_u64());
    random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62
}

/// True now and then in simulation, by its seed, to make legal but rare behaviour common. Never on a real node.
pub fn rare(name: &'static str) -> bool {
    with(|shard| match &shard.backend {
        Backend::Uring(_) | Backend::Epoll(_) => false,
        Backend::Sim(sim) => sim.rare(name),
    })
}

/// Has the scenario planted this mistake in this node? Never on a real node.
pub fn planted(bug: Bug) -> bool {
    with(|shard| match &shard.backend {
        Backend::Uring(_) | Backend::Epoll(_) => false,
        Backend::Sim(sim) => sim.planted(bug),
    })
}

/// Does this shard run in a simulated world?
pub fn simulated() -> bool {
    with(|shard| matches!(shard.backend, Backend::Sim(_)))
}

/// How this shard talks to the world: `io_uring`, `epoll` or `simulation`.
pub fn reactor() -> &'static str {
    with(|shard| shard.backend.name())
}

/// Puts a value into this shard's slot of its type, replacing what was there.
pub fn install<T: 'static>(value: Rc<T>) {
    with(|shard| shard.install(TypeId::of::<T>(), value));
}

/// The value installed for this type. Panics when there is none.
pub fn local<T: 'static>() -> Rc<T> {
    match try_local() {
        Some(value) => value,
        None => panic!("no {} is installed on this shard", type_name::<T>()),
    }
}

/// The value installed for this type, if any.
pub fn try_local<T: 'static>() -> Option<Rc<T>> {
    let value = with(|shard| shard.local(TypeId::of::<T>()))?;
    Some(value.downcast().expect("slots are keyed by type"))
}

/// Runs a blocking closure on a helper thread; inline in simulation. The closure runs to its end even when this
/// future is dropped.
pub async fn offload<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    run_on(|node| node.offload.clone(), work).await
}

/// Runs long computing, such as hashing a password, on a helper thread of lower priority that no file waits for; inline
/// in simulation. The closure runs to its end even when this future is dropped.
pub async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    run_on(|node| node.compute.clone(), work).await
}

async fn run_on<T: Send + 'static>(
    pool: impl FnOnce(&NodeShared) -> Arc<OffloadPool>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let pool = with(|shard| match &shard.backend {
        Backend::Uring(_) | Backend::Epoll(_) => Some(pool(&shard.node)),
        Backend::Sim(_) => None,
    });
    match pool {
        Some(pool) => pool.run(work).await,
        None => work(),
    }
}

/// Resolves on every shard once the node shall stop: SIGTERM, SIGINT, or [`request_shutdown`].
pub async fn shutdown_requested() {
    let stopping = with(|shard| shard.stopping.clone());
    stopping.wait().await;
}

/// Has the node been asked to stop?
pub fn shutdown_is_requested() -> bool {
    with(|shard| shard.stopping.is_set())
}

/// Asks all shards of this node to stop.
pub fn request_shutdown() {
    with(|shard| shard.node.request_shutdown());
}
