//! What this shard lacks of the cluster's log is taken from who has sent something that was planned on it.

use crate::limits::PULL_AGAIN_AFTER;
use base::{HashMap, HashSet, HostId, Instant};
use runtime::sync::Event;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// Takes what this node lacks from a member, up to a version of the cluster's log, within a time.
type PullHook = Rc<dyn Fn(HostId, u64, Duration) -> Pin<Box<dyn Future<Output = ()>>>>;

/// Pulls, and the requests that wait for them.
#[derive(Default)]
pub(crate) struct Behind {
    hook: RefCell<Option<PullHook>>,
    /// From whom a request pulls now. A member that says nothing must not hold up what another one has.
    pulling: RefCell<HashSet<HostId>>,
    /// When a pull from a member ended last without bringing what was wanted. Few members: only those that were asked and had it not.
    failed: RefCell<HashMap<HostId, Instant>>,
    /// The newest version that was here.
    newest: Cell<u64>,
    /// A newer snapshot is here, or a pull has ended.
    newer: Event,
}

impl Behind {
    pub(crate) fn on_behind(
        &self,
        hook: impl Fn(HostId, u64, Duration) -> Pin<Box<dyn Future<Output = ()>>> + 'static,
    ) {
        *self.hook.borrow_mut() = Some(Rc::new(hook));
    }

    /// A snapshot of this version is here.
    pub(crate) fn has_moved(&self, version: u64) {
        if self.newest.replace(version) < version {
            self.failed.borrow_mut().clear();
        }
        self.newer.notify_all();
    }

    /// Returns when `version()` has reached what is wanted, or at the deadline. `from`: who has it; `None`: it is on its way here by itself.
    /// Cost: from one member one pull at a time for all requests that wait, and none within [`PULL_AGAIN_AFTER`] of one that was in vain.
    pub(crate) async fn catch_up(
        &self,
        version: impl Fn() -> u64,
        from: Option<HostId>,
        wanted: u64,
        until: Instant,
    ) {
        while version() < wanted && runtime::now() < until {
            let hook = self.hook.borrow().clone();
            let free = hook.zip(from).filter(|(_, from)| !self.pulling.borrow().contains(from));
            let Some((hook, from)) = free else {
                let _newer_or_late = runtime::timeout_at(until, self.newer.wait()).await;
                continue;
            };
            let again = self.failed.borrow().get(&from).map(|at| *at + PULL_AGAIN_AFTER);
            if let Some(again) = again.filter(|again| runtime::now() < *again) {
                // Taken, but not shown here yet; or there was nobody to take it from.
                let _newer_or_again = runtime::timeout_at(until.min(again), self.newer.wait()).await;
                continue;
            }
            let _pull = Pull::begin(self, from);
            hook(from, wanted, until.saturating_duration_since(runtime::now())).await;
            if version() < wanted {
                self.failed.borrow_mut().insert(from, runtime::now());
            }
        }
    }
}

/// A pull from a member, until it is dropped: its request may end in the middle of it.
struct Pull<'b>(&'b Behind, HostId);

impl Pull<'_> {
    fn begin(behind: &Behind, from: HostId) -> Pull<'_> {
        behind.pulling.borrow_mut().insert(from);
        Pull(behind, from)
    }
}

impl Drop for Pull<'_> {
    fn drop(&mut self) {
        let Pull(behind, from) = self;
        behind.pulling.borrow_mut().remove(from);
        behind.newer.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::sim::{NodeId, SimConfig, Task, World};

    const HAVE: u64 = 4;
    const WANTED: u64 = 5;
    const WAIT: Duration = Duration::from_secs(2);
    /// How long a pull from [`SILENT`] takes.
    const LONG: Duration = Duration::from_secs(30);
    const SILENT: HostId = HostId(7);

    struct Shard {
        world: World,
        node: NodeId,
        behind: Rc<Behind>,
        version: Rc<Cell<u64>>,
        pulls: Rc<Cell<u64>>,
    }

    impl Shard {
        /// Pulls end at once and bring nothing, as when the connection is gone; from one member they take long.
        fn new() -> Shard {
            let mut world = World::new(1, SimConfig::calm());
            let node = world.add_client([10, 0, 0, 1].into());
            let (behind, pulls) = (Rc::new(Behind::default()), Rc::new(Cell::new(0)));
            let counted = pulls.clone();
            behind.on_behind(move |from, _, _| {
                counted.set(counted.get() + 1);
                Box::pin(async move {
                    match from {
                        SILENT => runtime::sleep(LONG).await,
                        _ => runtime::yield_now().await,
                    }
                })
            });
            Shard { world, node, behind, version: Rc::new(Cell::new(HAVE)), pulls }
        }

        /// A request that waits for so long for what this member has.
        fn wait(&mut self, from: Option<HostId>, limit: Duration) -> Task<()> {
            let (behind, version) = (self.behind.clone(), self.version.clone());
            self.world.spawn(self.node, async move {
                let until = runtime::now() + limit;
                let waits = behind.catch_up(|| version.get(), from, WANTED, until);
                // A little later than it should, so that a wait without an end is seen.
                runtime::timeout(limit + WAIT, waits).await.expect("it ends at its deadline");
            })
        }
    }

    #[test]
    fn requests_that_wait_for_what_nobody_gives_pull_now_and_then_until_they_are_late() {
        let mut shard = Shard::new();
        let tasks: Vec<Task<()>> =
            (0..200).map(|request| shard.wait(Some(HostId(request % 2)), WAIT)).collect();
        shard.world.run_for(WAIT + WAIT / 100);
        assert!(tasks.iter().all(Task::done));
        let most = 2 * (WAIT.as_millis() / PULL_AGAIN_AFTER.as_millis()) as u64 + 2;
        assert!((20..=most).contains(&shard.pulls.get()), "{} pulls", shard.pulls.get());
    }

    #[test]
    fn a_newer_snapshot_ends_every_wait_at_once() {
        let mut shard = Shard::new();
        let of = [None, Some(HostId(1)), Some(HostId(1)), Some(HostId(2))];
        let tasks = of.map(|from| shard.wait(from, LONG));
        shard.world.run_for(WAIT / 4);
        shard.version.set(WANTED);
        shard.behind.has_moved(WANTED);
        shard.world.run_for(PULL_AGAIN_AFTER / 100);
        assert!(tasks.iter().all(Task::done));
        assert!(shard.behind.failed.borrow().is_empty());
    }

    #[test]
    fn a_snapshot_that_is_not_newer_brings_no_pull_forward() {
        let mut shard = Shard::new();
        let _task = shard.wait(Some(HostId(1)), LONG);
        shard.world.run_for(PULL_AGAIN_AFTER / 2);
        let before = shard.pulls.get();
        shard.behind.has_moved(HAVE);
        shard.behind.has_moved(HAVE);
        shard.world.run_for(PULL_AGAIN_AFTER / 4);
        assert_eq!(shard.pulls.get(), before + 1, "the first look at a version is newer than none");
    }

    #[test]
    fn a_member_that_says_nothing_holds_up_no_other() {
        let mut shard = Shard::new();
        let _silent = shard.wait(Some(SILENT), LONG);
        shard.world.run_for(WAIT / 100);
        let _other = shard.wait(Some(HostId(1)), WAIT);
        shard.world.run_for(WAIT / 100);
        assert_eq!(shard.pulls.get(), 2);
    }

    #[test]
    fn a_pull_that_is_given_up_lets_the_next_one_begin() {
        let mut shard = Shard::new();
        let (behind, version) = (shard.behind.clone(), shard.version.clone());
        let mut given_up = shard.world.spawn(shard.node, async move {
            let until = runtime::now() + LONG;
            let waits = behind.catch_up(|| version.get(), Some(SILENT), WANTED, until);
            runtime::timeout(WAIT, waits).await.is_err()
        });
        shard.world.run_for(WAIT / 2);
        let _next = shard.wait(Some(SILENT), LONG);
        shard.world.run_for(WAIT / 4);
        assert_eq!(shard.pulls.get(), 1);
        shard.world.run_for(WAIT);
        assert_eq!((given_up.take(), shard.pulls.get()), (Some(true), 2));
    }
}
