//! Who is next at a device: one queue per scheduling group, chosen by virtual time as the executor chooses tasks.
//!
//! A request costs its bytes and a constant, divided by the shares of its group. The group with the smallest sum goes
//! first; one that comes back from a rest starts at the sum of the busiest moment it missed.

use crate::group::Group;
use crate::limits::{GROUPS_MAX, IO_BYTES_IN_FLIGHT, IO_DEPTH, IO_REQUEST_COST};
use std::collections::VecDeque;

/// Requests that wait, and what is under way.
pub(crate) struct Queue<T> {
    classes: [Class<T>; GROUPS_MAX],
    virtual_now: u64,
    in_flight: usize,
    bytes_in_flight: u64,
    waiting: usize,
    /// Bytes that may be under way: [`super::depth`].
    bytes_max: u64,
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
            waiting: 0,
            bytes_max: IO_BYTES_IN_FLIGHT,
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
        self.in_flight < IO_DEPTH && self.bytes_in_flight < self.bytes_max
    }

    /// A request starts.
    pub(crate) fn start(&mut self, group: Group, bytes: u64, shares: u32) {
        let class = &mut self.classes[group.index()];
        if class.waiting.is_empty() {
            class.virtual_time = class.virtual_time.max(self.virtual_now);
        }
        self.virtual_now = self.virtual_now.max(class.virtual_time);
        class.virtual_time += (bytes + IO_REQUEST_COST) * 1000 / u64::from(shares.max(1));
        class.requests += 1;
        class.bytes += bytes;
        self.in_flight += 1;
        self.bytes_in_flight += bytes;
    }

    /// A request that has started takes so many bytes more than it came with.
    pub(crate) fn grow(&mut self, group: Group, bytes: u64, shares: u32) {
        let class = &mut self.classes[group.index()];
        class.virtual_time += bytes * 1000 / u64::from(shares.max(1));
        class.bytes += bytes;
        self.bytes_in_flight += bytes;
    }

    /// Do requests wait because as many bytes are under way as may be?
    pub(crate) fn is_full(&self) -> bool {
        self.waiting > 0 && self.bytes_in_flight >= self.bytes_max
    }

    /// So many bytes may be under way from now on.
    pub(crate) fn set_bytes_max(&mut self, bytes: u64) {
        self.bytes_max = bytes;
    }

    /// A request is over.
    pub(crate) fn end(&mut self, bytes: u64) {
        assert!(self.in_flight > 0 && self.bytes_in_flight >= bytes, "what ends was started");
        self.in_flight -= 1;
        self.bytes_in_flight -= bytes;
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

    /// The group whose turn it is.
    pub(crate) fn pick(&self) -> Option<Group> {
        let waiting = Group::ALL.into_iter().filter(|group| self.waiting_of(*group) > 0);
        waiting.min_by_key(|group| self.classes[group.index()].virtual_time)
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
            let group = queue.pick().unwrap();
            let (_, size) = queue.pop(group).unwrap();
            queue.start(group, size, shares(group));
            queue.end(size);
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
            let group = queue.pick().unwrap();
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
        (0..IO_DEPTH).for_each(|_| queue.end(1));
        queue.start(Group::FLUSH, IO_BYTES_IN_FLIGHT * 2, 1000);
        assert!(!queue.has_room());
        queue.end(IO_BYTES_IN_FLIGHT * 2);
        assert!(queue.has_room());
        queue.push(Group::QUERY, 1, 1);
        queue.push(Group::QUERY, 2, 1);
        queue.forget(Group::QUERY, |ticket| *ticket == 1);
        assert_eq!((queue.waiting(), queue.pop(Group::QUERY)), (1, Some((2, 1))));
    }
}
