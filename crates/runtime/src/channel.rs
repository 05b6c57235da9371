//! Calls from shard to shard.

use crate::executor::Context as TaskContext;
use crate::group::Group;
use crate::mesh::{Call, Mesh};
use crate::shard::{Shard, ShardId, try_with, with};
use crate::sync::Permit;
use crate::task::spawn;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Does something on every shard of this node at the same time; what each says, in the order of the shards. Like every call between shards, each runs
/// to its end even when this future is dropped once it was polled.
pub async fn on_every_shard<F, Fut, T>(group: Group, work: F) -> Vec<T>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let begin = |shard| {
        let work = work.clone();
        spawn(group, submit_to(ShardId(shard), group, work))
    };
    let begun: Vec<_> = (0..crate::shard_count()).map(begin).collect();
    let mut answers = Vec::with_capacity(begun.len());
    for answer in begun {
        answers.push(answer.await);
    }
    answers
}

/// Runs a closure on another shard of the node (or this one), in a group, and resolves with the output of its future.
///
/// Waits for a permit when too many calls from this shard to that one are in flight, except inside a call that
/// another shard waits for. Once sent, the call runs to its end even when this future is dropped.
pub async fn submit_to<F, Fut, T>(target: ShardId, group: Group, work: F) -> T
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    if target == with(|shard| shard.id) {
        return spawn(group, work()).await;
    }
    let permit = acquire(target).await;
    let work = Box::new(Call::<F, Fut, T>::new(work));
    let key = with(|shard| shard.mesh.call(target.0, group, next_depth(shard), work, permit));
    let answer = Reply { key, taken: false }.await;
    let call = answer.downcast::<Call<F, Fut, T>>().expect("the answer is the call that was sent");
    call.answer.expect("the serving shard filled it in")
}

fn next_depth(shard: &Shard) -> u8 {
    shard.executor.context().depth.saturating_add(1)
}

async fn acquire(target: ShardId) -> Option<Permit> {
    let context: TaskContext = with(|shard| shard.executor.context());
    if context.depth > 0 {
        return None;
    }
    let permits = with(|shard| shard.mesh.permits(target.0));
    match permits.try_acquire(1) {
        Some(permit) => Some(permit),
        None => Some(permits.acquire(1).await),
    }
}

struct Reply {
    key: u32,
    taken: bool,
}

impl Future for Reply {
    type Output = crate::mesh::Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key;
        let answer = with(|shard| Mesh::poll_answer(&shard.mesh, key, context.waker()));
        match answer {
            Some(answer) => {
                self.taken = true;
                Poll::Ready(answer)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.taken {
            try_with(|shard| shard.mesh.abandon(self.key));
        }
    }
}
