//! Timers: an indexed four-ary heap over a slab, ordered by deadline and then by age. Cancelling removes at once, so
//! the many request timeouts that never fire cost no memory afterwards. Insert of a late deadline is O(1) in practice.

use base::Instant;
use std::task::Waker;

const ARITY: usize = 4;

/// A timer's slot and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    slot: u32,
    generation: u32,
}

struct Slot {
    deadline: Instant,
    age: u64,
    place: u32,
    generation: u32,
    waker: Option<Waker>,
}

/// All timers of one shard.
#[derive(Default)]
pub(crate) struct Timers {
    /// Slots in heap order.
    heap: Vec<u32>,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    next_age: u64,
}

impl Timers {
    pub(crate) fn insert(&mut self, deadline: Instant, waker: Waker) -> TimerKey {
        let age = self.next_age;
        self.next_age += 1;
        let place = self.heap.len() as u32;
        let slot = match self.vacant.pop() {
            Some(slot) => {
                let entry = &mut self.slots[slot as usize];
                let generation = entry.generation;
                *entry = Slot { deadline, age, place, generation, waker: Some(waker) };
                slot
            }
            None => {
                self.slots.push(Slot { deadline, age, place, generation: 0, waker: Some(waker) });
                self.slots.len() as u32 - 1
            }
        };
        self.heap.push(slot);
        self.rise(place as usize);
        TimerKey { slot, generation: self.slots[slot as usize].generation }
    }

    /// Replaces the waker; false when the timer has fired.
    pub(crate) fn refresh(&mut self, key: TimerKey, waker: &Waker) -> bool {
        let slot = &mut self.slots[key.slot as usize];
        if slot.generation != key.generation {
            return false;
        }
        if let Some(old) = &mut slot.waker {
            old.clone_from(waker);
        }
        true
    }

    /// Removes a timer that has not fired; otherwise does nothing.
    pub(crate) fn cancel(&mut self, key: TimerKey) {
        if self.slots.get(key.slot as usize).is_some_and(|s| s.generation == key.generation) {
            self.remove(key.slot);
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|slot| self.slots[*slot as usize].deadline)
    }

    /// Removes and returns the first timer due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        let slot = *self.heap.first()?;
        if now < self.slots[slot as usize].deadline {
            return None;
        }
        self.remove(slot)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.heap.len()
    }

    fn remove(&mut self, slot: u32) -> Option<Waker> {
        let entry = &mut self.slots[slot as usize];
        let place = entry.place as usize;
        let waker = entry.waker.take();
        entry.generation = entry.generation.wrapping_add(1);
        self.vacant.push(slot);
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.slots[self.heap[place] as usize].place = place as u32;
            self.sink(place);
            self.rise(place);
        }
        waker
    }

    fn order(&self, place: usize) -> (Instant, u64) {
        let slot = &self.slots[self.heap[place] as usize];
        (slot.deadline, slot.age)
    }

    fn swap(&mut self, left: usize, right: usize) {
        self.heap.swap(left, right);
        self.slots[self.heap[left] as usize].place = left as u32;
        self.slots[self.heap[right] as usize].place = right as u32;
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.order(parent) <= self.order(place) {
                return;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let first = place * ARITY + 1;
            let last = (first + ARITY).min(self.heap.len());
            let Some(child) = (first..last).min_by_key(|c| self.order(*c)) else {
                return;
            };
            if self.order(place) <= self.order(child) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    #[test]
    fn fires_in_order_whatever_is_cancelled() {
        let mut prng = Prng::new(7);
        let mut timers = Timers::default();
        let mut live: Vec<(u64, TimerKey)> = Vec::new();
        for _ in 0..5000 {
            if prng.chance(0.4) && !live.is_empty() {
                let index = prng.below(live.len() as u64) as usize;
                let (_, key) = live.swap_remove(index);
                timers.cancel(key);
                timers.cancel(key);
            } else {
                let deadline = prng.below(1000);
                live.push((deadline, timers.insert(Instant(deadline), Waker::noop().clone())));
            }
            assert_eq!(timers.len(), live.len());
            assert_eq!(timers.next(), live.iter().map(|l| Instant(l.0)).min());
        }
        let mut last = Instant(0);
        while let Some(next) = timers.next() {
            assert!(last <= next);
            last = next;
            assert!(timers.pop_due(Instant(next.0.wrapping_sub(1))).is_none() || next.0 == 0);
            if timers.pop_due(next).is_none() {
                assert_eq!(next.0, 0);
            }
        }
        for (_, key) in live {
            assert!(!timers.refresh(key, Waker::noop()));
        }
    }
}
