//! Tasks and their run queues, one per scheduling group.
//!
//! ```text
//! slots: [ Idle fut ][ Queued fut ][ Running  - ][ vacant ]        one slab; a waker is (slot, generation)
//! group: main  query  commitlog …    each: queue of slots, shares, virtual time
//! ```
//! The group with the smallest virtual time runs next; running for `t` adds `t * 1000 / shares` to it. A group that
//! wakes after a rest starts at the virtual time of the busiest moment it missed, so it cannot claim the past; one that
//! requests wait for may claim the last [`REQUEST_CREDIT`] of it, so that nothing comes between the requests of a burst.
//! While a task is polled its future is outside the slab, so no borrow is held and it may spawn and wake at will.

use crate::group::{DESCRIPTIONS, Group, REQUEST_SHARES};
use crate::inbox::TaskId;
use crate::limits::{GROUPS_MAX, PATIENCE, REQUEST_CREDIT};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

pub(crate) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Vacant,
    Idle,
    Queued,
    Running,
    /// Woken while it ran: runs again.
    Again,
}

struct Slot {
    generation: u32,
    group: Group,
    depth: u8,
    state: State,
    future: Option<LocalFuture>,
}

/// What runs now: inherited by what it spawns.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) group: Group,
    /// How many shards are waiting for this task in a chain of calls.
    pub(crate) depth: u8,
}

pub(crate) struct Executor {
    tasks: RefCell<Tasks>,
    groups: [GroupState; GROUPS_MAX],
    context: Cell<Context>,
    /// The greatest virtual time at which a group was chosen.
    virtual_now: Cell<u64>,
    /// Ticks at which the running slice began and ends.
    slice: Cell<(u64, u64)>,
}

struct Tasks {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    live: usize,
}

struct GroupState {
    queue: RefCell<VecDeque<TaskId>>,
    shares: Cell<u32>,
    virtual_time: Cell<u64>,
    ran_ns: Cell<u64>,
    polls: Cell<u64>,
}

impl Executor {
    pub(crate) fn new() -> Executor {
        let groups = std::array::from_fn(|i| GroupState {
            queue: RefCell::default(),
            shares: Cell::new(DESCRIPTIONS.get(i).map_or(100, |d| d.shares)),
            virtual_time: Cell::new(0),
            ran_ns: Cell::new(0),
            polls: Cell::new(0),
        });
        Executor {
            tasks: RefCell::new(Tasks { slots: Vec::new(), vacant: Vec::new(), live: 0 }),
            groups,
            context: Cell::new(Context { group: Group::MAIN, depth: 0 }),
            virtual_now: Cell::new(0),
            slice: Cell::new((0, 0)),
        }
    }

    pub(crate) fn context(&self) -> Context {
        self.context.get()
    }

    pub(crate) fn set_context(&self, context: Context) -> Context {
        self.context.replace(context)
    }

    pub(crate) fn slice(&self) -> (u64, u64) {
        self.slice.get()
    }

    pub(crate) fn set_slice(&self, start: u64, end: u64) {
        self.slice.set((start, end));
    }

    pub(crate) fn set_shares(&self, group: Group, shares: u32) {
        self.groups[group.index()].shares.set(shares.max(1));
    }

    pub(crate) fn shares(&self, group: Group) -> u32 {
        self.groups[group.index()].shares.get()
    }

    /// For so many nanoseconds of its slice a group does not care for completions that wait. By kind first: what is in the background
    /// may have the shares of requests when it must catch up, and is still nothing that a request should wait for.
    pub(crate) fn patience(&self, group: Group) -> u64 {
        match (self.shares(group) < REQUEST_SHARES, group.is_background()) {
            (true, _) => 0,
            (false, true) => PATIENCE.as_nanos() as u64,
            (false, false) => u64::MAX,
        }
    }

    /// Nanoseconds and polls this group has had.
    pub(crate) fn usage(&self, group: Group) -> (u64, u64) {
        let state = &self.groups[group.index()];
        (state.ran_ns.get(), state.polls.get())
    }

    pub(crate) fn queued(&self, group: Group) -> usize {
        self.groups[group.index()].queue.borrow().len()
    }

    pub(crate) fn live(&self) -> usize {
        self.tasks.borrow().live
    }

    /// Adds a task to its group's queue.
    pub(crate) fn spawn(&self, context: Context, future: LocalFuture) -> TaskId {
        let id = self.insert(context, Some(future), State::Queued);
        self.enqueue(context.group, id);
        id
    }

    /// Makes a slot for a task that the caller polls itself, once, before `polled`.
    pub(crate) fn reserve(&self, context: Context) -> TaskId {
        self.insert(context, None, State::Running)
    }

    fn insert(&self, context: Context, future: Option<LocalFuture>, state: State) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        tasks.live += 1;
        let Context { group, depth } = context;
        if let Some(slot) = tasks.vacant.pop() {
            let entry = &mut tasks.slots[slot as usize];
            let generation = entry.generation;
            *entry = Slot { generation, group, depth, state, future };
            return TaskId { slot, generation };
        }
        let slot = tasks.slots.len() as u32;
        assert!(slot < TaskId::SLOTS, "a waker has room for this many tasks");
        tasks.slots.push(Slot { generation: 0, group, depth, state, future });
        TaskId { slot, generation: 0 }
    }

    fn enqueue(&self, group: Group, id: TaskId) {
        let state = &self.groups[group.index()];
        let mut queue = state.queue.borrow_mut();
        if queue.is_empty() {
            let credit = if group.is_awaited() { REQUEST_CREDIT.as_nanos() as u64 } else { 0 };
            let least = self.virtual_now.get().saturating_sub(credit);
            state.virtual_time.set(state.virtual_time.get().max(least));
        }
        queue.push_back(id);
    }

    /// Makes a task ready, if it still exists and is not ready yet.
    pub(crate) fn wake(&self, id: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        let Some(slot) = tasks.slots.get_mut(id.slot as usize) else {
            return;
        };
        if slot.generation != id.generation {
            return;
        }
        match slot.state {
            State::Idle => slot.state = State::Queued,
            State::Running => {
                slot.state = State::Again;
                return;
            }
            State::Vacant | State::Queued | State::Again => return,
        }
        let group = slot.group;
        drop(tasks);
        self.enqueue(group, id);
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.groups.iter().any(|g| !g.queue.borrow().is_empty())
    }

    /// The group that deserves the core most, among those with work.
    pub(crate) fn pick(&self) -> Option<Group> {
        let (index, state) = self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, g)| !g.queue.borrow().is_empty())
            .min_by_key(|(_, g)| g.virtual_time.get())?;
        self.virtual_now.set(self.virtual_now.get().max(state.virtual_time.get()));
        Some(Group::from_index(index))
    }

    pub(crate) fn charge(&self, group: Group, ns: u64, polls: u64) {
        let state = &self.groups[group.index()];
        let virtual_ns = ns * 1000 / u64::from(state.shares.get());
        state.virtual_time.set(state.virtual_time.get() + virtual_ns.max(1));
        state.ran_ns.set(state.ran_ns.get() + ns);
        state.polls.set(state.polls.get() + polls);
    }

    pub(crate) fn pop(&self, group: Group) -> Option<TaskId> {
        self.groups[group.index()].queue.borrow_mut().pop_front()
    }

    /// Takes any ready task of the group, as `choose` among so many says.
    pub(crate) fn pop_by(&self, group: Group, choose: impl FnOnce(usize) -> usize) -> Option<TaskId> {
        let mut queue = self.groups[group.index()].queue.borrow_mut();
        let index = if queue.len() > 1 { choose(queue.len()) } else { 0 };
        queue.remove(index)
    }

    /// Takes the future of a queued task for one poll.
    pub(crate) fn start(&self, id: TaskId) -> Option<(Context, LocalFuture)> {
        let mut tasks = self.tasks.borrow_mut();
        let slot = tasks.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation || slot.state != State::Queued {
            return None;
        }
        slot.state = State::Running;
        let future = slot.future.take().expect("a queued task has its future");
        Some((Context { group: slot.group, depth: slot.depth }, future))
    }

    /// Ends one poll: `Some` puts the future back, `None` frees the slot.
    pub(crate) fn polled(&self, id: TaskId, future: Option<LocalFuture>) {
        let mut tasks = self.tasks.borrow_mut();
        let slot = &mut tasks.slots[id.slot as usize];
        debug_assert_eq!(slot.generation, id.generation);
        if future.is_some() {
            slot.future = future;
            if slot.state == State::Again {
                slot.state = State::Queued;
                let group = slot.group;
                drop(tasks);
                self.enqueue(group, id);
            } else {
                slot.state = State::Idle;
            }
            return;
        }
        slot.state = State::Vacant;
        slot.generation = (slot.generation + 1) & TaskId::GENERATION_MASK;
        tasks.vacant.push(id.slot);
        tasks.live -= 1;
    }

    /// Takes every future out, in slot order, so that the caller can drop them with the shard current.
    pub(crate) fn take_all(&self) -> Vec<LocalFuture> {
        for group in &self.groups {
            group.queue.borrow_mut().clear();
        }
        let mut tasks = self.tasks.borrow_mut();
        let Tasks { slots, vacant, live } = &mut *tasks;
        let mut futures = Vec::new();
        for (index, slot) in slots.iter_mut().enumerate() {
            if let Some(future) = slot.future.take() {
                slot.state = State::Vacant;
                slot.generation = (slot.generation + 1) & TaskId::GENERATION_MASK;
                vacant.push(index as u32);
                *live -= 1;
                futures.push(future);
            }
        }
        futures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(group: Group) -> Context {
        Context { group, depth: 0 }
    }

    fn forever() -> LocalFuture {
        Box::pin(std::future::pending())
    }

    /// Polls the task whose turn it is for so many nanoseconds; it is ready again at once.
    fn poll_next(executor: &Executor, ns: u64) -> Group {
        let group = executor.pick().expect("there is work");
        let id = executor.pop(group).expect("the group was picked for its work");
        let (_, future) = executor.start(id).expect("is queued");
        executor.wake(id);
        executor.polled(id, Some(future));
        executor.charge(group, ns, 1);
        group
    }

    #[test]
    fn a_slot_is_reused_under_another_generation() {
        let executor = Executor::new();
        let first = executor.spawn(context(Group::MAIN), forever());
        assert_eq!(executor.pop(Group::MAIN), Some(first));
        let (_, future) = executor.start(first).expect("is queued");
        executor.wake(first);
        executor.polled(first, Some(future));
        assert!(executor.has_ready(), "woken while it ran");
        executor.pop(Group::MAIN);
        assert!(executor.start(first).is_some());
        executor.polled(first, None);
        let second = executor.reserve(context(Group::MAIN));
        assert_eq!(second.slot, first.slot);
        executor.polled(second, Some(forever()));
        executor.wake(first);
        assert!(!executor.has_ready(), "an old waker wakes nobody");
        executor.wake(second);
        executor.wake(second);
        assert_eq!((executor.queued(Group::MAIN), executor.live()), (1, 1));
        assert_eq!(executor.take_all().len(), 1);
        assert_eq!((executor.live(), executor.has_ready()), (0, false));
    }

    #[test]
    fn groups_run_by_virtual_time_and_cannot_claim_the_past() {
        let executor = Executor::new();
        executor.set_shares(Group::FLUSH, 500);
        for group in [Group::QUERY, Group::FLUSH] {
            executor.spawn(context(group), forever());
        }
        let mut ran = [0u64; 2];
        for _ in 0..300 {
            ran[usize::from(poll_next(&executor, 1000) == Group::FLUSH)] += 1;
        }
        assert!(ran[0].abs_diff(200) <= 2, "{ran:?}");
        // A group that had nothing to do all the while gets no more than its share from now on.
        executor.spawn(context(Group::COMPACTION), forever());
        assert_eq!(executor.usage(Group::COMPACTION), (0, 0));
        let late = executor.groups[Group::COMPACTION.index()].virtual_time.get();
        assert!(150_000 < late, "{late}");
    }

    #[test]
    fn the_background_gives_way_whatever_its_shares() {
        let executor = Executor::new();
        assert_eq!((executor.patience(Group::FLUSH), executor.patience(Group::ADMIN)), (0, 0));
        executor.set_shares(Group::FLUSH, 4 * REQUEST_SHARES);
        assert_eq!(executor.patience(Group::FLUSH), PATIENCE.as_nanos() as u64);
        for group in [Group::MAIN, Group::QUERY, Group::COMMITLOG, Group::RPC] {
            assert_eq!(executor.patience(group), u64::MAX, "{}", group.name());
        }
    }

    #[test]
    fn a_burst_of_requests_goes_first_until_its_credit_is_used() {
        const POLL: u64 = 50_000;
        let executor = Executor::new();
        let poll = || poll_next(&executor, POLL);
        executor.set_shares(Group::COMPACTION, 4000);
        executor.spawn(context(Group::COMPACTION), forever());
        // Far more than the credit is missed.
        (0..10_000).for_each(|_| assert_eq!(poll(), Group::COMPACTION));
        executor.spawn(context(Group::QUERY), forever());
        let credit = REQUEST_CREDIT.as_nanos() as u64 / POLL;
        let first = (0..1000).take_while(|_| poll() == Group::QUERY).count() as u64;
        assert!(first.abs_diff(credit) <= 1, "{first} polls of {credit}");
        // From then on it is shares that count.
        let queries = (0..1000).filter(|_| poll() == Group::QUERY).count();
        assert!(queries.abs_diff(200) <= 2, "{queries}");
    }

    /// Requests of 10 us come in bursts of up to 20, 70 % of a core in all, beside a compaction of so many shares that never ends and takes
    /// steps of 50 us. The wait of the last in a hundred, in us.
    fn wait_beside_compaction(requests: Group, shares: u32) -> u64 {
        const REQUEST: u64 = 10_000;
        const STEP: u64 = 50_000;
        const END: u64 = 2_000_000_000;
        const BURST: u64 = 20;
        let executor = Executor::new();
        executor.set_shares(Group::COMPACTION, shares);
        executor.spawn(context(Group::COMPACTION), forever());
        let mut rng = base::Prng::new(1);
        let (mut now, mut next_burst) = (0, 0f64);
        let (mut waiting, mut waits) = (VecDeque::new(), Vec::new());
        while now < END {
            while next_burst <= now as f64 {
                for _ in 0..=rng.below(BURST) {
                    executor.spawn(context(requests), forever());
                    waiting.push_back(next_burst as u64);
                }
                let mean = (BURST + 1) as f64 / 2.0 * REQUEST as f64 / 0.7;
                next_burst -= (1.0 - rng.unit()).ln() * mean;
            }
            let group = executor.pick().expect("the compaction never ends");
            let id = executor.pop(group).expect("the group was picked for its work");
            let (_, future) = executor.start(id).expect("is queued");
            let ns = if group == requests { REQUEST } else { STEP };
            now += ns;
            if group == requests {
                waits.push(now - waiting.pop_front().expect("one for each task"));
                executor.polled(id, None);
            } else {
                executor.wake(id);
                executor.polled(id, Some(future));
            }
            executor.charge(group, ns, 1);
        }
        waits.sort_unstable();
        waits[waits.len() / 100 * 99] / 1000
    }

    #[test]
    fn bursts_of_requests_wait_less_than_those_of_other_groups_with_their_shares() {
        let wait = wait_beside_compaction;
        // Beside one that gets next to nothing they wait for each other.
        let alone = wait(Group::MAIN, 1);
        for shares in [50, 100, 200] {
            let added = [Group::MAIN, Group::QUERY].map(|group| wait(group, shares) - alone);
            assert!(added[1] * 3 < added[0] * 2, "at {shares} shares {added:?} us more than {alone}");
        }
    }
}
