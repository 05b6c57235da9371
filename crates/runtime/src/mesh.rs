//! Calls between the shards of a node: two rings per ordered pair, one for calls and one for their answers.
//!
//! ```text
//! shard A --calls--> shard B      at most CALLS_PER_PAIR in flight; the permit comes back with the answer
//! shard A <-answers- shard B      never waits: there are never more answers than permits
//! ```
//! A call made while serving another shard's call takes no permit (its number is bounded by the permits of the first
//! shard), so a cycle of calls cannot wait for itself. What does not fit a ring waits in a local queue behind it.

use crate::group::Group;
use crate::limits::{CALLS_PER_PAIR, CALLS_PER_TURN};
use crate::sync::{Permit, Semaphore};
use rtrb::{Consumer, Producer, RingBuffer};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Waker;

pub(crate) type Answer = Box<dyn Any + Send>;

/// Where an answer goes.
#[derive(Clone, Copy)]
pub(crate) struct ReplyTo {
    pub(crate) shard: u16,
    pub(crate) key: u32,
}

pub(crate) type SendReply = fn(ReplyTo, Answer);

/// A call on its way: turned into a future on the shard that serves it.
pub(crate) trait Work: Send {
    fn start(self: Box<Self>, to: ReplyTo, reply: SendReply) -> Pin<Box<dyn Future<Output = ()>>>;
}

pub(crate) struct Request {
    pub(crate) key: u32,
    pub(crate) group: Group,
    pub(crate) depth: u8,
    pub(crate) work: Box<dyn Work>,
}

pub(crate) struct Reply {
    key: u32,
    answer: Answer,
}

/// One closure and, after it ran, its result: the same allocation travels both ways.
pub(crate) struct Call<F, Fut, T> {
    ask: Option<F>,
    pub(crate) answer: Option<T>,
    future: PhantomData<fn() -> Fut>,
}

impl<F, Fut, T> Call<F, Fut, T> {
    pub(crate) fn new(ask: F) -> Call<F, Fut, T> {
        Call { ask: Some(ask), answer: None, future: PhantomData }
    }
}

impl<F, Fut, T> Work for Call<F, Fut, T>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    fn start(mut self: Box<Self>, to: ReplyTo, reply: SendReply) -> Pin<Box<dyn Future<Output = ()>>> {
        let ask = self.ask.take().expect("a call starts once");
        Box::pin(async move {
            self.answer = Some(ask().await);
            reply(to, self);
        })
    }
}

/// One shard's ends of the four rings it shares with one peer.
pub(crate) struct Link {
    calls_out: Producer<Request>,
    calls_in: Consumer<Request>,
    replies_out: Producer<Reply>,
    replies_in: Consumer<Reply>,
    calls_late: VecDeque<Request>,
    replies_late: VecDeque<Reply>,
}

/// The links of every shard of a node: `[shard][peer]`.
pub(crate) fn connect(shards: u16) -> Vec<Vec<Option<Link>>> {
    let count = usize::from(shards);
    let mut links: Vec<Vec<Option<Link>>> = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
    for (left, right) in (0..count).flat_map(|left| (left + 1..count).map(move |right| (left, right))) {
        let (left_calls, right_takes) = RingBuffer::new(CALLS_PER_PAIR);
        let (right_calls, left_takes) = RingBuffer::new(CALLS_PER_PAIR);
        let (right_replies, left_hears) = RingBuffer::new(CALLS_PER_PAIR);
        let (left_replies, right_hears) = RingBuffer::new(CALLS_PER_PAIR);
        links[left][right] = Some(Link::new(left_calls, left_takes, left_replies, left_hears));
        links[right][left] = Some(Link::new(right_calls, right_takes, right_replies, right_hears));
    }
    links
}

impl Link {
    fn new(
        calls_out: Producer<Request>,
        calls_in: Consumer<Request>,
        replies_out: Producer<Reply>,
        replies_in: Consumer<Reply>,
    ) -> Link {
        let (calls_late, replies_late) = (VecDeque::new(), VecDeque::new());
        Link { calls_out, calls_in, replies_out, replies_in, calls_late, replies_late }
    }

    fn has_news(&self) -> bool {
        !self.calls_in.is_empty() || !self.replies_in.is_empty()
    }

    fn send_call(&mut self, request: Request) {
        if !self.calls_late.is_empty() {
            self.calls_late.push_back(request);
        } else if let Err(rtrb::PushError::Full(request)) = self.calls_out.push(request) {
            self.calls_late.push_back(request);
        }
    }

    fn send_reply(&mut self, reply: Reply) {
        if !self.replies_late.is_empty() {
            self.replies_late.push_back(reply);
        } else if let Err(rtrb::PushError::Full(reply)) = self.replies_out.push(reply) {
            self.replies_late.push_back(reply);
        }
    }

    /// Sends what waits behind a full ring, as far as there is room.
    fn send_late(&mut self) {
        while let Some(request) = self.calls_late.pop_front() {
            if let Err(rtrb::PushError::Full(request)) = self.calls_out.push(request) {
                self.calls_late.push_front(request);
                break;
            }
        }
        while let Some(reply) = self.replies_late.pop_front() {
            if let Err(rtrb::PushError::Full(reply)) = self.replies_out.push(reply) {
                self.replies_late.push_front(reply);
                break;
            }
        }
    }
}

struct Peer {
    link: RefCell<Link>,
    permits: Semaphore,
    dirty: Cell<bool>,
}

enum Pending {
    Vacant { next: u32 },
    Waiting { waker: Option<Waker>, permit: Option<Permit> },
    Abandoned { _permit: Option<Permit> },
    Answered(Answer),
}

/// One shard's side of all calls.
pub(crate) struct Mesh {
    peers: Vec<Option<Peer>>,
    pending: RefCell<Vec<Pending>>,
    vacant: Cell<u32>,
    in_flight: Cell<usize>,
}

const NONE: u32 = u32::MAX;

impl Mesh {
    pub(crate) fn new(links: Vec<Option<Link>>) -> Mesh {
        let peer = |link: Link| Peer {
            link: RefCell::new(link),
            permits: Semaphore::new(CALLS_PER_PAIR),
            dirty: Cell::new(false),
        };
        Mesh {
            peers: links.into_iter().map(|link| link.map(peer)).collect(),
            pending: RefCell::default(),
            vacant: Cell::new(NONE),
            in_flight: Cell::new(0),
        }
    }

    fn peer(&self, shard: u16) -> &Peer {
        let peer = self.peers.get(usize::from(shard)).and_then(Option::as_ref);
        peer.expect("a call goes to another shard of this node")
    }

    pub(crate) fn permits(&self, shard: u16) -> Semaphore {
        self.peer(shard).permits.clone()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// Sends a call and returns the key of its answer.
    pub(crate) fn call(
        &self,
        shard: u16,
        group: Group,
        depth: u8,
        work: Box<dyn Work>,
        permit: Option<Permit>,
    ) -> u32 {
        let key = self.insert(Pending::Waiting { waker: None, permit });
        let peer = self.peer(shard);
        let mut link = peer.link.borrow_mut();
        link.send_call(Request { key, group, depth, work });
        peer.dirty.set(true);
        key
    }

    pub(crate) fn reply(&self, to: ReplyTo, answer: Answer) {
        let peer = self.peer(to.shard);
        let mut link = peer.link.borrow_mut();
        link.send_reply(Reply { key: to.key, answer });
        peer.dirty.set(true);
    }

    fn insert(&self, entry: Pending) -> u32 {
        self.in_flight.set(self.in_flight.get() + 1);
        let mut pending = self.pending.borrow_mut();
        let key = self.vacant.get();
        if key == NONE {
            pending.push(entry);
            return pending.len() as u32 - 1;
        }
        let old = std::mem::replace(&mut pending[key as usize], entry);
        let Pending::Vacant { next } = old else { unreachable!("the vacant list holds vacant entries") };
        self.vacant.set(next);
        key
    }

    fn free(&self, key: u32) -> Pending {
        self.in_flight.set(self.in_flight.get() - 1);
        let next = self.vacant.replace(key);
        std::mem::replace(&mut self.pending.borrow_mut()[key as usize], Pending::Vacant { next })
    }

    /// The answer, or `None` after leaving a waker.
    pub(crate) fn poll_answer(&self, key: u32, waker: &Waker) -> Option<Answer> {
        let mut pending = self.pending.borrow_mut();
        match &mut pending[key as usize] {
            Pending::Waiting { waker: Some(old), .. } => old.clone_from(waker),
            Pending::Waiting { waker: empty, .. } => *empty = Some(waker.clone()),
            Pending::Answered(_) => {
                drop(pending);
                let Pending::Answered(answer) = self.free(key) else { unreachable!("looked a line above") };
                return Some(answer);
            }
            Pending::Vacant { .. } | Pending::Abandoned { .. } => {
                unreachable!("the caller owns its key")
            }
        }
        None
    }

    /// The caller is gone; the call runs on and its answer is dropped.
    pub(crate) fn abandon(&self, key: u32) {
        let mut pending = self.pending.borrow_mut();
        let entry = &mut pending[key as usize];
        match entry {
            Pending::Waiting { permit, .. } => *entry = Pending::Abandoned { _permit: permit.take() },
            Pending::Answered(_) => {
                drop(pending);
                drop(self.free(key));
            }
            Pending::Vacant { .. } | Pending::Abandoned { .. } => {}
        }
    }

    fn answered(&self, reply: Reply) {
        let mut pending = self.pending.borrow_mut();
        let entry = &mut pending[reply.key as usize];
        match std::mem::replace(entry, Pending::Answered(reply.answer)) {
            Pending::Waiting { waker, permit } => {
                drop(pending);
                drop(permit);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Pending::Abandoned { _permit } => {
                drop(pending);
                drop(self.free(reply.key));
            }
            Pending::Vacant { .. } | Pending::Answered(_) => unreachable!("one answer per call"),
        }
    }

    pub(crate) fn has_news(&self) -> bool {
        self.peers.iter().flatten().any(|peer| peer.link.borrow().has_news())
    }

    /// Is something waiting behind a full ring?
    pub(crate) fn has_late(&self) -> bool {
        self.peers.iter().flatten().any(|peer| {
            let link = peer.link.borrow();
            !link.calls_late.is_empty() || !link.replies_late.is_empty()
        })
    }

    /// Takes answers in and hands each new call to `serve`.
    pub(crate) fn receive(&self, mut serve: impl FnMut(u16, Request)) {
        for (index, peer) in self.peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            if !peer.link.borrow().has_news() {
                continue;
            }
            loop {
                let reply = peer.link.borrow_mut().replies_in.pop();
                match reply {
                    Ok(reply) => self.answered(reply),
                    Err(_) => break,
                }
            }
            for _ in 0..CALLS_PER_TURN {
                let request = peer.link.borrow_mut().calls_in.pop();
                match request {
                    Ok(request) => serve(index as u16, request),
                    Err(_) => break,
                }
            }
        }
    }

    /// Names each peer that was sent something since the last call.
    pub(crate) fn flush(&self, mut wake: impl FnMut(u16)) {
        for (index, peer) in self.peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            let mut link = peer.link.borrow_mut();
            if !link.calls_late.is_empty() || !link.replies_late.is_empty() {
                link.send_late();
                peer.dirty.set(true);
            }
            if peer.dirty.replace(false) {
                wake(index as u16);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbers = Call<fn() -> std::future::Ready<u32>, std::future::Ready<u32>, u32>;

    fn two() -> (Mesh, Mesh) {
        let mut links = connect(2).into_iter().map(Mesh::new);
        (links.next().expect("the first of two"), links.next().expect("the second of two"))
    }

    fn call(mesh: &Mesh, permit: Option<Permit>) -> u32 {
        let ask: fn() -> std::future::Ready<u32> = || std::future::ready(7);
        mesh.call(1, Group::RPC, 1, Box::new(Numbers::new(ask)), permit)
    }

    /// Serves every call at once, without an executor.
    fn serve(mesh: &Mesh) -> usize {
        let mut served = 0;
        let mut calls = Vec::new();
        mesh.receive(|from, request| calls.push((from, request)));
        for (from, request) in calls {
            served += 1;
            assert_eq!((from, request.group, request.depth), (0, Group::RPC, 1));
            let answer: Box<Numbers> = Box::new(Call { ask: None, answer: Some(7), future: PhantomData });
            mesh.reply(ReplyTo { shard: from, key: request.key }, answer);
        }
        served
    }

    #[test]
    fn more_calls_than_the_ring_holds_are_all_answered() {
        let (caller, server) = two();
        let count = 3 * CALLS_PER_PAIR;
        let keys: Vec<u32> = (0..count).map(|_| call(&caller, None)).collect();
        assert!(caller.has_late() && server.has_news());
        let mut served = 0;
        while served < count {
            let mut woken = Vec::new();
            caller.flush(|peer| woken.push(peer));
            served += serve(&server);
            server.flush(|peer| assert_eq!(peer, 0));
            caller.receive(|_, _| panic!("nobody calls the caller"));
            assert!(served == count || woken == [1] || !caller.has_late());
        }
        server.flush(|_| {});
        caller.receive(|_, _| {});
        for key in keys {
            let answer = caller.poll_answer(key, Waker::noop()).expect("all are answered");
            assert_eq!(answer.downcast::<Numbers>().expect("the call comes back").answer, Some(7));
        }
        assert_eq!(caller.in_flight(), 0);
    }

    #[test]
    fn an_abandoned_call_gives_its_permit_back_with_the_answer() {
        let (caller, server) = two();
        let permits = caller.permits(1);
        let key = call(&caller, permits.try_acquire(1));
        assert!(caller.poll_answer(key, Waker::noop()).is_none());
        caller.abandon(key);
        assert_eq!(permits.available(), CALLS_PER_PAIR - 1);
        assert_eq!(serve(&server), 1);
        caller.receive(|_, _| {});
        assert_eq!((permits.available(), caller.in_flight()), (CALLS_PER_PAIR, 0));
        let answered = call(&caller, None);
        serve(&server);
        caller.receive(|_, _| {});
        caller.abandon(answered);
        assert_eq!(caller.in_flight(), 0);
    }
}
