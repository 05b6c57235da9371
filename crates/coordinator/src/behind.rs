//! What this shard lacks of the cluster's log is taken from who has sent something that was planned on it.

use crate::limits::PULL_AGAIN_AFTER;
use base::{HashMap, HostId, Instant};
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
    /// The version up to which a request pulls now; 0: none does.
    pulled: Cell<u64>,
    /// When a pull from a member ended last without bringing what was wanted. Few members: only those that were asked and had it not.
    failed: RefCell<HashMap<HostId, Instant>>,
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

    /// A newer snapshot is here.
    pub(crate) fn has_moved(&self) {
        self.failed.borrow_mut().clear();
        self.newer.notify_all();
    }

    /// Returns when `version()` has reached what is wanted, or at the deadline. `from`: who has it; `None`: it is on its way here by itself.
    /// Cost: one pull at a time for all requests that wait, and from one member none within [`PULL_AGAIN_AFTER`] of one that was in vain, however many wait.
    pub(crate) async fn catch_up(
        &self,
        version: impl Fn() -> u64,
        from: Option<HostId>,
        wanted: u64,
        until: Instant,
    ) {
        while version() < wanted && runtime::now() < until {
            let hook = self.hook.borrow().clone();
            let Some((hook, from)) = hook.zip(from).filter(|_| self.pulled.get() < wanted) else {
                let _newer_or_late = runtime::timeout_at(until, self.newer.wait()).await;
                continue;
            };
            let again = self.failed.borrow().get(&from).map(|at| *at + PULL_AGAIN_AFTER);
            if let Some(again) = again.filter(|again| runtime::now() < *again) {
                // Taken, but not shown here yet; or there was nobody to take it from.
                let _newer_or_again = runtime::timeout_at(until.min(again), self.newer.wait()).await;
                continue;
            }
            let _pulls = Pulls::up_to(self, wanted);
            hook(from, wanted, until.saturating_duration_since(runtime::now())).await;
            if version() < wanted {
                self.failed.borrow_mut().insert(from, runtime::now());
            }
        }
    }
}

/// A request pulls as long as this is there.
struct Pulls<'b>(&'b Behind);

impl Pulls<'_> {
    fn up_to(behind: &Behind, version: u64) -> Pulls<'_> {
        behind.pulled.set(version);
        Pulls(behind)
    }
}

impl Drop for Pulls<'_> {
    fn drop(&mut self) {
        self.0.pulled.set(0);
        self.0.newer.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::Group;
    use runtime::sim::{SimConfig, World};

    const HAVE: u64 = 4;
    const WANTED: u64 = 5;
    const WAIT: Duration = Duration::from_secs(2);

    /// A shard on which so many requests of two members wait for what neither gives; how often was pulled.
    fn in_vain(requests: u128) -> (World, Rc<Behind>, Rc<Cell<u64>>, Rc<Cell<u64>>) {
        let mut world = World::new(1, SimConfig::calm());
        let client = world.add_client([10, 0, 0, 1].into());
        let (behind, pulls) = (Rc::new(Behind::default()), Rc::new(Cell::new(0)));
        let (version, counted) = (Rc::new(Cell::new(HAVE)), pulls.clone());
        behind.on_behind(move |_, _, _| {
            counted.set(counted.get() + 1);
            // As when the connection is gone.
            Box::pin(runtime::yield_now())
        });
        for request in 0..requests {
            let (behind, version) = (behind.clone(), version.clone());
            drop(world.spawn(client, async move {
                let until = runtime::now() + WAIT;
                behind.catch_up(|| version.get(), Some(HostId(request % 2)), WANTED, until).await;
            }));
        }
        (world, behind, version, pulls)
    }

    #[test]
    fn requests_that_wait_for_what_nobody_gives_pull_now_and_then() {
        let (mut world, _behind, _version, pulls) = in_vain(200);
        world.run_for(2 * WAIT);
        let most = 2 * (WAIT.as_millis() / PULL_AGAIN_AFTER.as_millis()) as u64 + 2;
        assert!((20..=most).contains(&pulls.get()), "{} pulls", pulls.get());
    }

    #[test]
    fn a_newer_snapshot_ends_the_wait_and_what_failed_is_forgotten() {
        let (mut world, behind, version, pulls) = in_vain(10);
        world.run_for(WAIT / 4);
        version.set(WANTED);
        behind.has_moved();
        let before = pulls.get();
        world.run_for(WAIT);
        assert_eq!(pulls.get(), before);
        assert!(behind.failed.borrow().is_empty());
        assert_eq!(behind.pulled.get(), 0);
    }
}
