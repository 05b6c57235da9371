//! Who is next at a device: one queue per scheduling group, chosen by virtual time as the executor chooses tasks.
//!
//! A request costs its bytes and a constant, divided by the shares of its group. The group with the smallest sum goes
//! first; one that comes back from a rest starts at the sum of the busiest moment it missed. While the background is held
//! back, no more of it than a part is under way, whosever turn it is.

use super::depth::Bounds;
use crate::group::Group;
use crate::limits::{GROUPS_MAX, IO_DEPTH, IO_REQUEST_COST};
use std::collections::VecDeque;

/// Requests that wait, and what is under way.
pub(crate) struct Queue<T> {
    classes: [Class<T>; GROUPS_MAX],
    virtual_now: u64,
    in_flight: usize,
    bytes_in_flight: u64,
    /// Those of them that are of the background.
    background_in_flight: u64,
    waiting: usize,
    bounds: Bounds,
}

struct Class<T> {
    waiting: VecDeque<(T, u64)>,
    virtual_time: u64,
    requests: u64,
    bytes: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        let class = |_| Class { waiting: VecDeque::new(), virtual_time: 0, requests: 0, bytes: 0 };
        Queue {
            classes: std::array::from_fn(class),
            virtual_now: 0,
            in_flight: 0,
            bytes_in_flight: 0,
            background_in_flight: 0,
            waiting: 0,
            bounds: Bounds::UNKNOWN,
        }
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Requests of a group that wait.
    pub(crate) fn waiting_of(&self, group: Group) -> usize {
        self.classes[group.index()].waiting.len()
    }

    /// Requests and bytes of a group that have started so far.
    pub(crate) fn started(&self, group: Group) -> (u64, u64) {
        let class = &self.classes[group.index()];
        (class.requests, class.bytes)
    }

    /// May another request be under way? A large one may when it is alone.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight < IO_DEPTH && self.bytes_in_flight < self.bounds.all
    }

    /// Must a request wait for others of the background, which is held back?
    pub(crate) fn is_held(&self, group: Group, bytes: u64) -> bool {
        let under_way = self.background_in_flight;
        group.is_background() && under_way > 0 && under_way + bytes > self.bounds.background
    }

    /// A request starts.
    pub(crate) fn start(&mut self, group: Group, bytes: u64, shares: u32) {
        self.go_on(group, bytes, shares);
        self.classes[group.index()].virtual_time += IO_REQUEST_COST * 1000 / u64::from(shares.max(1));
    }

    /// Another piece of a request starts, which costs its bytes only: who is cut does not fall behind.
    pub(crate) fn go_on(&mut self, group: Group, bytes: u64, shares: u32) {
        let class = &mut self.classes[group.index()];
        if class.waiting.is_empty() {
            class.virtual_time = class.virtual_time.max(self.virtual_now);
        }
        self.virtual_now = self.virtual_now.max(class.virtual_time);
        class.virtual_time += bytes * 1000 / u64::from(shares.max(1));
        class.requests += 1;
        class.bytes += bytes;
        self.in_flight += 1;
        self.carry(group, bytes);
    }

    fn carry(&mut self, group: Group, bytes: u64) {
        self.bytes_in_flight += bytes;
        if group.is_background() {
            self.background_in_flight += bytes;
        }
    }

    /// A request that has started takes so many bytes more than it came with.
    pub(crate) fn grow(&mut self, group: Group, bytes: u64, shares: u32) {
        let class = &mut self.classes[group.index()];
        class.virtual_time += bytes * 1000 / u64::from(shares.max(1));
        class.bytes += bytes;
        self.carry(group, bytes);
    }

    /// Do requests wait because as many bytes are under way as may be? `hold`: the background is held back.
    pub(crate) fn is_full(&self, hold: bool) -> bool {
        self.waiting > 0 && (self.bytes_in_flight >= self.bounds.all || self.pick(hold).is_none())
    }

    /// So many bytes may be under way from now on.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// What may be under way.
    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// A request is over.
    pub(crate) fn end(&mut self, group: Group, bytes: u64) {
        assert!(self.in_flight > 0 && self.bytes_in_flight >= bytes, "what ends was started");
        self.in_flight -= 1;
        self.bytes_in_flight -= bytes;
        if group.is_background() {
            assert!(self.background_in_flight >= bytes, "the background's are some of them");
            self.background_in_flight -= bytes;
        }
    }

    /// A request waits for its turn.
    pub(crate) fn push(&mut self, group: Group, ticket: T, bytes: u64) {
        let class = &mut self.classes[group.index()];
        if class.waiting.is_empty() {
            class.virtual_time = class.virtual_time.max(self.virtual_now);
        }
        class.waiting.push_back((ticket, bytes));
        self.waiting += 1;
    }

    /// The group whose turn it is; `None` when nobody waits but the background, and is held back: all of it, so that its small
    /// requests do not pass its large ones for ever.
    pub(crate) fn pick(&self, hold: bool) -> Option<Group> {
        let group = self.first_of(|_| true)?;
        let first = self.classes[group.index()].waiting.front();
        let is_held = first.is_some_and(|(_, bytes)| self.is_held(group, *bytes));
        if hold && is_held { self.first_of(|group| !group.is_background()) } else { Some(group) }
    }

    /// Of some groups that wait, the one whose turn it is.
    fn first_of(&self, may: impl Fn(&Group) -> bool) -> Option<Group> {
        let waiting = Group::ALL.into_iter().filter(|group| self.waiting_of(*group) > 0);
        waiting.filter(may).min_by_key(|group| self.classes[group.index()].virtual_time)
    }

    /// Takes the request of a group that waits longest.
    pub(crate) fn pop(&mut self, group: Group) -> Option<(T, u64)> {
        let first = self.classes[group.index()].waiting.pop_front();
        self.waiting -= usize::from(first.is_some());
        first
    }

    /// Drops requests at the front of a group's queue that nobody wants any more.
    pub(crate) fn forget(&mut self, group: Group, gone: impl Fn(&T) -> bool) {
        let waiting = &mut self.classes[group.index()].waiting;
        while waiting.front().is_some_and(|(ticket, _)| gone(ticket)) {
            waiting.pop_front();
            self.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::IO_BYTES_IN_FLIGHT;

    #[test]
    fn shares_divide_the_device_and_rest_earns_nothing() {
        let mut queue: Queue<u32> = Queue::new();
        let shares = |group| if group == Group::QUERY { 1000 } else { 250 };
        for ticket in 0..4_000 {
            queue.push(Group::COMPACTION, ticket, 128 * 1024);
            queue.push(Group::QUERY, ticket, 4 * 1024);
        }
        let mut bytes = [0u64; 2];
        for _ in 0..2_000 {
            let group = queue.pick(false).unwrap();
            let (_, size) = queue.pop(group).unwrap();
            queue.start(group, size, shares(group));
            queue.end(group, size);
            bytes[usize::from(group == Group::COMPACTION)] += size + IO_REQUEST_COST;
        }
        let ratio = bytes[0] as f64 / bytes[1] as f64;
        assert!((3.8..4.3).contains(&ratio), "{bytes:?}");
        // Flush had nothing to do all the while: it is next, but not for long.
        for ticket in 0..100 {
            queue.push(Group::FLUSH, ticket, 128 * 1024);
        }
        let mut others = 0;
        for _ in 0..20 {
            let group = queue.pick(false).unwrap();
            let (_, size) = queue.pop(group).unwrap();
            queue.start(group, size, shares(group));
            others += u32::from(group != Group::FLUSH);
        }
        assert!(others >= 10, "{others}");
    }

    #[test]
    fn room_ends_with_requests_and_with_bytes() {
        let mut queue: Queue<u32> = Queue::new();
        for _ in 0..IO_DEPTH {
            assert!(queue.has_room());
            queue.start(Group::QUERY, 1, 1000);
        }
        assert!(!queue.has_room());
        (0..IO_DEPTH).for_each(|_| queue.end(Group::QUERY, 1));
        queue.start(Group::FLUSH, IO_BYTES_IN_FLIGHT * 2, 1000);
        assert!(!queue.has_room());
        queue.end(Group::FLUSH, IO_BYTES_IN_FLIGHT * 2);
        assert!(queue.has_room());
        queue.push(Group::QUERY, 1, 1);
        queue.push(Group::QUERY, 2, 1);
        queue.forget(Group::QUERY, |ticket| *ticket == 1);
        assert_eq!((queue.waiting(), queue.pop(Group::QUERY)), (1, Some((2, 1))));
    }

    #[test]
    fn a_background_that_is_held_back_has_its_part_under_way_and_no_more() {
        let mut queue: Queue<u32> = Queue::new();
        queue.set_bounds(Bounds { all: 100, background: 20, piece: 10 });
        (0..4).for_each(|ticket| queue.push(Group::COMPACTION, ticket, 10));
        queue.push(Group::FLUSH, 9, 50);
        let mut started = 0;
        while let Some(group) = queue.pick(true) {
            let (_, size) = queue.pop(group).unwrap();
            queue.start(group, size, if group == Group::FLUSH { 1 } else { 1_000_000 });
            started += size;
        }
        assert_eq!(started, 50, "the large one was alone");
        queue.push(Group::QUERY, 5, 10);
        assert!(!queue.is_full(true) && queue.pick(true) == Some(Group::QUERY));
        queue.pop(Group::QUERY);
        assert!(queue.is_full(true) && !queue.is_full(false), "there is room for others only");
        queue.end(Group::FLUSH, 50);
        for left in [true, false] {
            let group = queue.pick(true).expect("two pieces");
            let (_, size) = queue.pop(group).unwrap();
            queue.start(group, size, 200);
            assert_eq!(queue.pick(true).is_some(), left);
        }
        assert_eq!(queue.pick(false), Some(Group::COMPACTION), "nobody else is about");
        assert!(!queue.is_held(Group::COMMITLOG, 1) && queue.is_held(Group::STREAMING, 1));
    }
}
