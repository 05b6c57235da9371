//! Up to when this node takes part in no round of a lightweight transaction: what stands in for the ballots of partitions that were swept. Why, and what
//! leans on it: `docs/mechanisms/paxos.md`, "What is kept, and for how long".

use paxos::Ballot;
use runtime::Bug;
use runtime::sync::{Gate, GateGuard, Lock};
use std::cell::{Cell, RefCell};

/// The floor of a node that has none, in microseconds since the Unix epoch.
pub const NO_FLOOR: i64 = i64::MIN;
/// The floor as one shard knows it.
pub(crate) struct Floor {
    at: Cell<Ballot>,
    /// Messages of rounds are inside, from their look at the floor to what follows from it.
    at_work: RefCell<Gate>,
    /// On the shard that raises it: one at a time.
    pub(crate) raising: Lock<()>,
}

impl Default for Floor {
    fn default() -> Floor {
        Floor { at: Cell::new(Ballot::NONE), at_work: RefCell::new(Gate::new()), raising: Lock::new(()) }
    }
}

impl Floor {
    /// Holds up whoever raises the floor from now on until it is dropped.
    pub(crate) fn begin(&self) -> GateGuard {
        self.at_work.borrow().enter().expect("only one that was replaced is closed")
    }

    pub(crate) fn at(&self) -> Ballot {
        self.at.get()
    }

    /// ⚔ Returns when what was begun below it is over: the states that are read next have all that will ever be accepted there. Nobody waits for this.
    pub(crate) async fn raise(&self, to: Ballot) {
        self.at.set(self.at.get().max(to));
        if runtime::planted(Bug::FloorDoesNotWait) {
            return;
        }
        let below = self.at_work.replace(Gate::new());
        below.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use runtime::sim::{SimConfig, World};

    async fn raise_beside_one_at_work() -> (bool, Ballot) {
        let floor = Floor::default();
        let at_work = floor.begin();
        let raised = runtime::timeout(Duration::from_secs(1), floor.raise(Ballot::floor(5))).await.is_ok();
        // What begins now sees it, whoever is at work still.
        let (at, later) = (floor.at(), floor.begin());
        drop((at_work, later));
        floor.raise(Ballot::floor(3)).await;
        assert_eq!(floor.at(), at, "it never falls");
        (raised, at)
    }

    fn in_a_world(planted: Option<Bug>) -> (bool, Ballot) {
        let mut world = World::new(1, SimConfig::calm());
        let node = world.add_client([10, 0, 0, 1].into());
        planted.into_iter().for_each(|bug| world.plant(node, bug));
        let mut task = world.spawn(node, raise_beside_one_at_work());
        assert!(world.run_until(|_| task.done(), Duration::from_secs(60)), "it ends");
        task.take().expect("done")
    }

    #[test]
    fn a_floor_is_raised_when_nobody_is_at_work_below_it() {
        assert_eq!(in_a_world(None), (false, Ballot::floor(5)));
        assert_eq!(in_a_world(Some(Bug::FloorDoesNotWait)), (true, Ballot::floor(5)));
    }
}
