//! Calls in flight on one connection, each with who waits for it.

use crate::error::CallError;
use base::Instant;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Takes the answers of several calls, each with the number it was sent with. One object serves a client's request, however many replicas it is sent to.
pub trait Gather {
    /// The answer of a call, once for each, within the step that received it. The bytes are the connection's.
    fn answered(&self, index: u16, answer: Result<&[u8], CallError>);
}

/// Who waits for a call.
pub(crate) enum Waiter {
    /// A task, once it was polled.
    Task(Option<Waker>),
    /// An object, for its call of this number.
    Gather(Rc<dyn Gather>, u16),
}

/// A call that was answered.
pub(crate) struct Settled {
    /// Bytes that are not in flight any more.
    pub(crate) bytes: usize,
    /// When it was made.
    pub(crate) begun: Instant,
    /// Whom to give the answer, when nothing is borrowed.
    pub(crate) gather: Option<(Rc<dyn Gather>, u16)>,
}

enum State {
    Vacant { next: u32 },
    Waiting(Waiter),
    Answered(Result<Vec<u8>, CallError>),
}

struct Slot {
    generation: u32,
    bytes: usize,
    begun: Instant,
    until: Instant,
    state: State,
}

const NONE: u32 = u32::MAX;

/// A slab of calls. A call's id on the wire is its slot and the slot's generation: a late answer finds no caller.
pub(crate) struct Calls {
    slots: Vec<Slot>,
    vacant: u32,
    live: usize,
    gathered: usize,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls { slots: Vec::new(), vacant: NONE, live: 0, gathered: 0 }
    }
}

impl Calls {
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Calls whose deadlines only the connection looks at.
    pub(crate) fn gathered(&self) -> usize {
        self.gathered
    }

    /// The id of a new call, made at the first time and waited for until the second.
    pub(crate) fn insert(&mut self, waiter: Waiter, bytes: usize, (begun, until): (Instant, Instant)) -> u64 {
        self.live += 1;
        self.gathered += usize::from(matches!(waiter, Waiter::Gather(..)));
        let state = State::Waiting(waiter);
        if self.vacant == NONE {
            self.slots.push(Slot { generation: 0, bytes, begun, until, state });
            return self.slots.len() as u64 - 1;
        }
        let index = self.vacant;
        let slot = &mut self.slots[index as usize];
        let State::Vacant { next } = std::mem::replace(&mut slot.state, state) else {
            unreachable!("the vacant list holds vacant slots")
        };
        self.vacant = next;
        (slot.bytes, slot.begun, slot.until) = (bytes, begun, until);
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    fn slot(&mut self, call: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(call as u32 as usize)?;
        let is_current = u64::from(slot.generation) == call >> 32;
        (is_current && !matches!(slot.state, State::Vacant { .. })).then_some(slot)
    }

    /// Until when a new call is waited for.
    pub(crate) fn until(&self, call: u64) -> Instant {
        self.slots[call as u32 as usize].until
    }

    /// The bytes a call was inserted with are known only later.
    pub(crate) fn set_bytes(&mut self, call: u64, bytes: usize) {
        if let Some(slot) = self.slot(call) {
            slot.bytes = bytes;
        }
    }

    /// Forgets a call: its bytes, and who waited.
    fn free(&mut self, call: u64) -> Option<(usize, State)> {
        let next = self.vacant;
        let slot = self.slot(call)?;
        let state = std::mem::replace(&mut slot.state, State::Vacant { next });
        slot.generation = slot.generation.wrapping_add(1);
        let bytes = slot.bytes;
        self.vacant = call as u32;
        self.live -= 1;
        self.gathered -= usize::from(matches!(state, State::Waiting(Waiter::Gather(..))));
        Some((bytes, state))
    }

    /// Takes an answer; a task finds it in its slot. `None`: no caller waits.
    pub(crate) fn answer(
        &mut self,
        call: u64,
        answer: impl FnOnce() -> Result<Vec<u8>, CallError>,
    ) -> Option<Settled> {
        let slot = self.slot(call)?;
        let begun = slot.begun;
        match &mut slot.state {
            State::Waiting(Waiter::Task(waker)) => {
                let waker = waker.take();
                slot.state = State::Answered(answer());
                let bytes = std::mem::take(&mut slot.bytes);
                if let Some(waker) = waker {
                    waker.wake();
                }
                Some(Settled { bytes, begun, gather: None })
            }
            State::Waiting(Waiter::Gather(..)) => match self.free(call)? {
                (bytes, State::Waiting(Waiter::Gather(gather, index))) => {
                    Some(Settled { bytes, begun, gather: Some((gather, index)) })
                }
                _ => None,
            },
            State::Answered(_) | State::Vacant { .. } => None,
        }
    }

    /// The answer of a task's call; then the call is forgotten.
    pub(crate) fn poll(
        &mut self,
        call: u64,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Vec<u8>, CallError>>> {
        let Some(slot) = self.slot(call) else { return Poll::Ready(None) };
        if let State::Waiting(Waiter::Task(waker)) = &mut slot.state {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        match self.free(call) {
            Some((_, State::Answered(answer))) => Poll::Ready(Some(answer)),
            _ => Poll::Ready(None),
        }
    }

    /// The caller of a call stopped waiting; its bytes.
    pub(crate) fn forget(&mut self, call: u64) -> usize {
        self.free(call).map_or(0, |(bytes, _)| bytes)
    }

    fn ids(&self, wanted: impl Fn(&Slot) -> bool) -> Vec<u64> {
        let waits = |slot: &Slot| matches!(slot.state, State::Waiting(_)) && wanted(slot);
        let id = |(index, slot): (usize, &Slot)| u64::from(slot.generation) << 32 | index as u64;
        self.slots.iter().enumerate().filter(|(_, slot)| waits(slot)).map(id).collect()
    }

    /// Every call that waits.
    pub(crate) fn waiting(&self) -> Vec<u64> {
        self.ids(|_| true)
    }

    /// Gathered calls whose deadline has passed.
    pub(crate) fn late(&self, now: Instant) -> Vec<u64> {
        self.ids(|slot| slot.until <= now && matches!(slot.state, State::Waiting(Waiter::Gather(..))))
    }
}

#[cfg(test)]
mod tests {
    //! Ids are never confused, however slots are used again.
    use super::*;
    use std::cell::RefCell;

    fn poll(calls: &mut Calls, call: u64) -> Poll<Option<Result<Vec<u8>, CallError>>> {
        calls.poll(call, &mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_late_answer_does_not_reach_the_next_call_in_the_slot() {
        let mut calls = Calls::default();
        let first = calls.insert(Waiter::Task(None), 10, (Instant(1), Instant(5)));
        assert!(poll(&mut calls, first).is_pending());
        assert_eq!((calls.forget(first), calls.forget(first)), (10, 0));
        let second = calls.insert(Waiter::Task(None), 20, (Instant(2), Instant(5)));
        assert_eq!((second as u32, calls.len()), (first as u32, 1));
        assert!(calls.answer(first, || Ok(vec![1])).is_none());
        assert!(poll(&mut calls, second).is_pending());
        let settled = calls.answer(second, || Ok(vec![2])).expect("it waits");
        assert_eq!((settled.bytes, settled.begun, settled.gather.is_none()), (20, Instant(2), true));
        assert!(calls.answer(second, || Ok(vec![3])).is_none(), "answered once");
        assert_eq!(poll(&mut calls, second), Poll::Ready(Some(Ok(vec![2]))));
        assert_eq!((calls.len(), poll(&mut calls, second)), (0, Poll::Ready(None)));
    }

    #[derive(Default)]
    struct Seen(RefCell<Vec<u16>>);

    impl Gather for Seen {
        fn answered(&self, index: u16, _: Result<&[u8], CallError>) {
            self.0.borrow_mut().push(index);
        }
    }

    #[test]
    fn gathered_calls_are_late_by_their_deadline() {
        let mut calls = Calls::default();
        let seen = Rc::new(Seen::default());
        let [early, late] = [(1, 10), (2, 20)].map(|(index, until)| {
            calls.insert(Waiter::Gather(seen.clone(), index), 1, (Instant(0), Instant(until)))
        });
        let _task = calls.insert(Waiter::Task(None), 1, (Instant(0), Instant(1)));
        assert_eq!((calls.gathered(), calls.late(Instant(9))), (2, vec![]));
        assert_eq!(calls.late(Instant(10)), [early]);
        let settled = calls.answer(early, || Ok(Vec::new())).expect("it waits");
        let (gather, index) = settled.gather.expect("an object waits");
        gather.answered(index, Ok(&[]));
        assert_eq!((calls.late(Instant(99)), calls.gathered(), calls.len()), (vec![late], 1, 2));
        assert_eq!(*seen.0.borrow(), [1]);
    }
}
