//! Increments that a leader is to count, and those that wait for the turn of their partition.

use crate::Error;
use crate::limits::{COUNTED_BYTES_MAX, COUNTED_TOGETHER_MAX};
use crate::turns::Turns;
use base::{HashMap, HostId};
use mutation::{Key, Mutation};
use schema::{Table, TableId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use storage::Point;

/// What is to be counted in one partition: never merged as it is, and never counted twice.
#[derive(Debug, Clone)]
pub struct Increments {
    pub(crate) table: Arc<Table>,
    pub(crate) leader: HostId,
    pub(crate) key: Key,
    /// Of the partition, in their order.
    pub(crate) mutations: Vec<Mutation>,
}

impl Increments {
    /// Increments of one partition of a counter table, which this node is to count as `leader`.
    /// `None`: there are none, or not of one partition.
    pub fn new(table: Arc<Table>, leader: HostId, mutations: Vec<Mutation>) -> Option<Increments> {
        let first = mutations.first()?;
        let key = Key::with_token(first.token(), first.view().key);
        let same = |one: &Mutation| one.table() == table.id && one.view().key == &*key.bytes;
        if !table.counter || !mutations.iter().all(same) {
            return None;
        }
        Some(Increments { table, leader, key, mutations })
    }

    /// Their partition.
    pub fn key(&self) -> &Key {
        &self.key
    }

    fn bytes(&self) -> usize {
        self.mutations.iter().map(|mutation| mutation.as_bytes().len()).sum()
    }
}

/// How often leaders of a node have looked for what they have counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterReads {
    /// Times that it was looked for: once for all increments that are counted together.
    pub requests: u64,
    /// Of these, those that memtables and the row cache answered.
    pub hits: u64,
}

/// Partitions whose counters are at work.
#[derive(Default)]
pub(crate) struct Counting {
    reads: Cell<CounterReads>,
    pub(crate) turns: Turns,
    waiting: RefCell<HashMap<(TableId, Key), VecDeque<Rc<Asked>>>>,
}

/// Increments of one request.
pub(crate) struct Asked {
    pub(crate) increments: Increments,
    pub(crate) on: Point,
    /// Set by whoever has counted them.
    pub(crate) outcome: RefCell<Option<Result<Mutation, Error>>>,
}

impl Counting {
    /// Since the start.
    pub(crate) fn reads(&self) -> CounterReads {
        self.reads.get()
    }

    pub(crate) fn note_read(&self, is_hit: bool) {
        let CounterReads { requests, hits } = self.reads.get();
        self.reads.set(CounterReads { requests: requests + 1, hits: hits + u64::from(is_hit) });
    }

    pub(crate) fn wait(&self, whose: (TableId, Key), asked: Rc<Asked>) {
        self.waiting.borrow_mut().entry(whose).or_default().push_back(asked);
    }

    /// Takes one from those that wait. False: somebody counts it.
    pub(crate) fn withdraw(&self, whose: &(TableId, Key), asked: &Rc<Asked>) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let Some(of) = waiting.get_mut(whose) else { return false };
        let before = of.len();
        of.retain(|other| !Rc::ptr_eq(other, asked));
        let withdrawn = of.len() < before;
        if of.is_empty() {
            waiting.remove(whose);
        }
        withdrawn
    }

    /// Takes those that wait, from the first one on, within the limits.
    pub(crate) fn take(&self, whose: &(TableId, Key)) -> Vec<Rc<Asked>> {
        let mut waiting = self.waiting.borrow_mut();
        let Some(of) = waiting.get_mut(whose) else { return Vec::new() };
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(next) = of.front()
            && taken.len() < COUNTED_TOGETHER_MAX
        {
            bytes += next.increments.bytes();
            if !taken.is_empty() && COUNTED_BYTES_MAX < bytes {
                break;
            }
            taken.extend(of.pop_front());
        }
        if of.is_empty() {
            waiting.remove(whose);
        }
        taken
    }
}
