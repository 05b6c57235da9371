//! Calls of this node by one connection.

use super::Conn;
use crate::calls::{Gather, Waiter};
use crate::error::CallError;
use crate::frame::{Kind, Message};
use crate::limits::{CALLS_IN_FLIGHT_MAX, SWEEP_EVERY};
use crate::load::{add, take};
use crate::outbox::Appended;
use base::Instant;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A call of this node, before it is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// What is asked.
    pub verb: u8,
    /// The version of metadata that the caller acts on.
    pub version: u64,
    /// How long the caller waits.
    pub timeout: Duration,
}

impl Conn {
    /// Asks, and waits for the answer.
    pub(crate) async fn call(
        self: &Rc<Self>,
        outgoing: &Outgoing,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Vec<u8>, CallError> {
        let call = self.begin_call(Waiter::Task(None), outgoing, |_, out| encode(out))?;
        let until = self.calls.borrow().until(call);
        // A caller that stops waiting takes the call along: its answer may never come.
        let waiting = Waiting { conn: self, call };
        let answered = runtime::timeout_at(until, waiting).await;
        answered.unwrap_or_else(|_| {
            self.traffic.call_failed();
            Err(CallError::TimedOut { peer: self.setup.peer })
        })
    }

    /// Asks; the answer goes to an object.
    pub(crate) fn send(
        self: &Rc<Self>,
        outgoing: &Outgoing,
        gather: (Rc<dyn Gather>, u16),
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallError> {
        self.begin_call(Waiter::Gather(gather.0, gather.1), outgoing, |_, out| encode(out))?;
        self.sweep_soon();
        Ok(())
    }

    /// Asks once for several answers: as [`Pool::send_for_many`](crate::Pool::send_for_many).
    pub(crate) fn send_for_many(
        self: &Rc<Self>,
        outgoing: &Outgoing,
        gather: &Rc<dyn Gather>,
        (first, others): (u16, &[u16]),
        encode: impl FnOnce(&[u64], &mut Vec<u8>),
    ) -> Result<(), CallError> {
        let waiter = |index: u16| Waiter::Gather(gather.clone(), index);
        let until = runtime::now() + outgoing.timeout;
        let mut besides = Vec::with_capacity(others.len());
        let begun = self.begin_call(waiter(first), outgoing, |begun, out| {
            let mut calls = self.calls.borrow_mut();
            besides.extend(others.iter().map(|index| calls.insert(waiter(*index), 0, (begun, until))));
            drop(calls);
            encode(&besides, out);
        });
        if let Err(error) = begun {
            let mut calls = self.calls.borrow_mut();
            for call in besides {
                calls.forget(call);
            }
            return Err(error);
        }
        besides.iter().for_each(|_| self.traffic.call_begun());
        self.sweep_soon();
        Ok(())
    }

    fn sweep_soon(self: &Rc<Self>) {
        if !self.sweeping.replace(true) {
            let sweeper = self.clone();
            drop(runtime::spawn(self.group(), async move { sweeper.sweep().await }));
        }
    }

    /// Sends a message for a waiter; `encode` is told when it began.
    fn begin_call(
        self: &Rc<Self>,
        waiter: Waiter,
        outgoing: &Outgoing,
        encode: impl FnOnce(Instant, &mut Vec<u8>),
    ) -> Result<u64, CallError> {
        let peer = self.setup.peer;
        if self.is_closed() {
            self.traffic.call_failed();
            return Err(self.unreachable());
        }
        let is_busy = self.calls.borrow().len() >= CALLS_IN_FLIGHT_MAX
            || !self.setup.load.admits(self.unsent.get(), self.unanswered.get());
        if is_busy {
            self.traffic.call_failed();
            return Err(CallError::Overloaded { peer });
        }
        let now = runtime::now();
        let call = self.calls.borrow_mut().insert(waiter, 0, (now, now + outgoing.timeout));
        // Rounded up: nothing is late for the other side before it is late here.
        let micros = outgoing.timeout.as_micros();
        let time_left_ms = u32::try_from(micros.div_ceil(1000)).unwrap_or(u32::MAX);
        let (verb, version) = (outgoing.verb, outgoing.version);
        let message = Message { kind: Kind::Request, verb, call, version, time_left_ms, body: &[] };
        let appended = self.append(&message, |out| {
            encode(now, out);
            true
        });
        match appended {
            Appended::Bytes(bytes) => {
                self.calls.borrow_mut().set_bytes(call, bytes);
                add(&self.unanswered, bytes);
                add(&self.setup.load.unanswered, bytes);
                self.traffic.call_begun();
                self.flush_soon();
                Ok(call)
            }
            Appended::TooLarge(bytes) => {
                self.calls.borrow_mut().forget(call);
                self.traffic.call_failed();
                Err(CallError::TooLarge { peer, bytes })
            }
            Appended::Nothing => unreachable!("the body was wanted"),
        }
    }

    pub(super) fn release(&self, bytes: usize) {
        take(&self.unanswered, bytes);
        take(&self.setup.load.unanswered, bytes);
    }

    /// Gives an answer to its caller, if that still waits.
    pub(super) fn deliver(&self, call: u64, answer: Result<&[u8], CallError>) {
        let owned = || answer.as_ref().map(|body| body.to_vec()).map_err(CallError::clone);
        let found = self.calls.borrow_mut().answer(call, owned);
        let Some(settled) = found else { return };
        self.release(settled.bytes);
        match &answer {
            // The batch that it came with was received then: no call looks at the clock.
            Ok(_) => self.traffic.call_answered(self.heard.get() - settled.begun),
            Err(_) => self.traffic.call_failed(),
        }
        if let Some((gather, index)) = settled.gather {
            self.traffic.call_ended();
            gather.answered(index, answer);
        }
    }

    /// Ends gathered calls whose time is over, for as long as there are any.
    async fn sweep(self: Rc<Self>) {
        loop {
            runtime::sleep(SWEEP_EVERY).await;
            let late = self.calls.borrow().late(runtime::now());
            for call in late {
                self.deliver(call, Err(CallError::TimedOut { peer: self.setup.peer }));
            }
            if self.calls.borrow().gathered() == 0 {
                return self.sweeping.set(false);
            }
        }
    }
}

/// A call that a task waits for.
struct Waiting<'a> {
    conn: &'a Conn,
    call: u64,
}

impl Future for Waiting<'_> {
    type Output = Result<Vec<u8>, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.conn.calls.borrow_mut().poll(self.call, context);
        polled.map(|answer| answer.unwrap_or_else(|| Err(self.conn.unreachable())))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let bytes = self.conn.calls.borrow_mut().forget(self.call);
        self.conn.release(bytes);
        self.conn.traffic.call_ended();
    }
}
