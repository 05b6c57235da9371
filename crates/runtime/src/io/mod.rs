//! The I/O scheduler: every read, write and sync of a file passes here before the backend sees it.
//!
//! ```text
//! File ─► admit ─► [ room, rates, nobody before it ] ─► backend ─► permit dropped ─► next
//!            └─► queue of its group ─► turn by shares ─┘
//! ```
//! A class is a scheduling group: its shares of the core are its shares of each device. A device is what the kernel calls
//! one (`st_dev`); a simulated machine has one. The rates of a device are kept by all shards of the node together. Without rates and with room, a request passes at once. The same scheduler runs over io_uring, helper
//! threads and the simulated disk.

mod depth;
mod queue;
mod rate;

use crate::group::Group;
use crate::limits::RATE_LOOK;
use crate::shard::{Shard, try_with, with};
use crate::time::{Sleep, sleep_until};
use base::Instant;
use depth::{Depth, Users};
use queue::Queue;
use rate::Rate;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What each device may be asked for; 0 stands for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Bytes read and written in a second.
    pub bytes_per_second: u64,
    /// Reads, writes and syncs in a second.
    pub requests_per_second: u64,
}

/// Limits every device of this node, for all shards together. Other shards learn it within [`crate::limits::RATE_LOOK`].
pub fn limit_devices(limits: DeviceLimits) {
    with(|shard| shard.node.io.limit_devices(limits));
    let devices = with(|shard| shard.io.devices.borrow().clone());
    devices.iter().for_each(|(_, device)| device.dispatch());
}

/// Requests and bytes that a group of this shard has had of all devices so far.
pub fn started(group: Group) -> (u64, u64) {
    with(|shard| shard.io.started(group))
}

/// Rates of one device.
#[derive(Debug, Default)]
struct DeviceRates {
    bytes: Rate,
    requests: Rate,
    users: Users,
}

impl DeviceRates {
    fn set(&self, limits: DeviceLimits) {
        self.bytes.set(limits.bytes_per_second);
        self.requests.set(limits.requests_per_second);
    }
}

/// What the shards of a node share.
#[derive(Default)]
pub(crate) struct NodeIo {
    devices: Mutex<Devices>,
}

#[derive(Default)]
struct Devices {
    limits: DeviceLimits,
    known: Vec<(u64, Arc<DeviceRates>)>,
}

impl NodeIo {
    fn limit_devices(&self, limits: DeviceLimits) {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.limits = limits;
        devices.known.iter().for_each(|(_, rates)| rates.set(limits));
    }

    fn device(&self, number: u64) -> Arc<DeviceRates> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, rates)) = devices.known.iter().find(|(known, _)| *known == number) {
            return rates.clone();
        }
        let rates = Arc::new(DeviceRates::default());
        rates.set(devices.limits);
        devices.known.push((number, rates.clone()));
        rates
    }
}

/// The devices a shard has files on.
#[derive(Default)]
pub(crate) struct ShardIo {
    devices: RefCell<Vec<(u64, Rc<Device>)>>,
}

impl ShardIo {
    /// Requests and bytes of a group that were handed to the backend, on all devices.
    pub(crate) fn started(&self, group: Group) -> (u64, u64) {
        let devices = self.devices.borrow();
        devices.iter().fold((0, 0), |sum, (_, device)| {
            let (requests, bytes) = device.queue.borrow().started(group);
            (sum.0 + requests, sum.1 + bytes)
        })
    }

    /// Requests of a group that wait for their turn.
    pub(crate) fn waiting(&self, group: Group) -> usize {
        self.devices.borrow().iter().map(|(_, device)| device.queue.borrow().waiting_of(group)).sum()
    }
}

/// A device as one shard uses it.
pub(crate) struct Device {
    rates: Arc<DeviceRates>,
    queue: RefCell<Queue<Rc<Waiter>>>,
    depth: RefCell<Depth>,
    /// When somebody who waits may start, as far as rates go.
    wake_at: Cell<Option<u64>>,
    /// Of the task that sleeps until then.
    pump: RefCell<Option<Waker>>,
}

struct Waiter {
    waker: RefCell<Option<Waker>>,
    state: Cell<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Granted,
    Gone,
}

/// The device of a number on the current shard.
pub(crate) fn device(number: u64) -> Rc<Device> {
    with(|shard| {
        let mut devices = shard.io.devices.borrow_mut();
        if let Some((_, device)) = devices.iter().find(|(known, _)| *known == number) {
            return device.clone();
        }
        let device = Rc::new(Device {
            rates: shard.node.io.device(number),
            queue: RefCell::new(Queue::new()),
            depth: RefCell::new(Depth::new()),
            wake_at: Cell::new(None),
            pump: RefCell::new(None),
        });
        devices.push((number, device.clone()));
        device
    })
}

impl Device {
    /// Waits for the turn of a request of the running task's group. Dropping the future gives the turn up.
    pub(crate) fn admit(self: &Rc<Self>, bytes: u64) -> Admit {
        Admit { device: self.clone(), bytes, waiter: None }
    }

    /// When a request may start, as far as rates go.
    fn ready_at(&self) -> u64 {
        self.rates.bytes.ready_at().max(self.rates.requests.ready_at())
    }

    fn is_limited(&self) -> bool {
        self.rates.bytes.per_second() != 0 || self.rates.requests.per_second() != 0
    }

    fn start(&self, shard: &Shard, group: Group, bytes: u64) {
        self.queue.borrow_mut().start(group, bytes, shard.executor.shares(group));
        if self.is_limited() {
            let now = shard.backend.now().0;
            self.rates.bytes.pay(now, bytes);
            self.rates.requests.pay(now, 1);
        }
    }

    /// What has started takes more than was known.
    fn grow(&self, group: Group, bytes: u64) {
        with(|shard| {
            self.queue.borrow_mut().grow(group, bytes, shard.executor.shares(group));
            if self.is_limited() {
                self.rates.bytes.pay(shard.backend.now().0, bytes);
            }
        });
    }

    /// Takes a turn if nobody waits and nothing speaks against it.
    fn try_start(&self, group: Group, bytes: u64) -> bool {
        with(|shard| {
            let queue = self.queue.borrow();
            if queue.waiting() > 0 || !queue.has_room() {
                return false;
            }
            drop(queue);
            if self.is_limited() && shard.backend.now().0 < self.ready_at() {
                return false;
            }
            self.start(shard, group, bytes);
            true
        })
    }

    /// Gives turns to those who wait, as long as there is room; sets a timer when only rates hold them back.
    fn dispatch(self: &Rc<Self>) {
        self.wake_at.set(None);
        while let Some((group, waiter, bytes)) = self.next() {
            with(|shard| self.start(shard, group, bytes));
            waiter.state.set(State::Granted);
            let waker = waiter.waker.borrow_mut().take();
            waker.into_iter().for_each(Waker::wake);
        }
        if self.wake_at.get().is_some() {
            self.wake_pump();
        }
    }

    fn next(&self) -> Option<(Group, Rc<Waiter>, u64)> {
        let mut queue = self.queue.borrow_mut();
        for group in Group::ALL {
            queue.forget(group, |waiter| waiter.state.get() == State::Gone);
        }
        if queue.waiting() == 0 || !queue.has_room() {
            return None;
        }
        let ready_at = self.ready_at();
        if self.is_limited() && with(|shard| shard.backend.now().0) < ready_at {
            self.wake_at.set(Some(ready_at));
            return None;
        }
        let group = queue.pick()?;
        queue.pop(group).map(|(waiter, bytes)| (group, waiter, bytes))
    }

    fn wake_pump(self: &Rc<Self>) {
        let pump = self.pump.borrow().clone();
        match pump {
            Some(waker) => waker.wake(),
            None => {
                *self.pump.borrow_mut() = Some(Waker::noop().clone());
                let pump = Pump { device: self.clone(), sleep: None };
                drop(crate::task::spawn(Group::MAIN, pump));
            }
        }
    }
}

/// Sleeps until rates let the next request start; ends when nobody waits for them.
struct Pump {
    device: Rc<Device>,
    sleep: Option<Sleep>,
}

impl Future for Pump {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            // Nothing wakes this task while it dispatches.
            *self.device.pump.borrow_mut() = Some(Waker::noop().clone());
            let device = self.device.clone();
            device.dispatch();
            *device.pump.borrow_mut() = Some(context.waker().clone());
            let Some(at) = device.wake_at.get() else {
                *device.pump.borrow_mut() = None;
                return Poll::Ready(());
            };
            // Another shard may change a limit: never far away from a look.
            let soon = crate::time::now() + RATE_LOOK;
            let sleep = match self.sleep.take() {
                Some(sleep) if sleep.deadline() == Instant(at) => sleep,
                _ => sleep_until(Instant(at).min(soon)),
            };
            if Pin::new(self.sleep.insert(sleep)).poll(context).is_pending() {
                return Poll::Pending;
            }
            self.sleep = None;
        }
    }
}

/// A request before its turn.
pub(crate) struct Admit {
    device: Rc<Device>,
    bytes: u64,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Admit {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        if self.waiter.is_none() {
            let group = crate::task::current_group();
            if self.device.try_start(group, self.bytes) {
                return Poll::Ready(Permit::new(self.device.clone(), self.bytes));
            }
            let waiter = Rc::new(Waiter { waker: RefCell::new(None), state: Cell::new(State::Waiting) });
            self.device.queue.borrow_mut().push(group, waiter.clone(), self.bytes);
            self.waiter = Some(waiter);
            self.device.dispatch();
        }
        let waiter = self.waiter.as_ref().expect("made above");
        if waiter.state.get() == State::Granted {
            self.waiter = None;
            return Poll::Ready(Permit::new(self.device.clone(), self.bytes));
        }
        *waiter.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Admit {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        match waiter.state.replace(State::Gone) {
            State::Granted => drop(Permit::new(self.device.clone(), self.bytes)),
            State::Waiting | State::Gone => {}
        }
    }
}

/// A request's turn, until it is dropped.
pub(crate) struct Permit {
    device: Rc<Device>,
    bytes: Cell<u64>,
}

impl Permit {
    fn new(device: Rc<Device>, bytes: u64) -> Permit {
        Permit { device, bytes: Cell::new(bytes) }
    }

    /// The request takes so many bytes in all; what it was not known to take when it waited is counted now.
    pub(crate) fn takes(&self, bytes: u64) {
        let more = bytes.saturating_sub(self.bytes.get());
        if more > 0 {
            self.bytes.set(bytes);
            self.device.grow(crate::task::current_group(), more);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let device = &self.device;
        let full = device.queue.borrow().is_full();
        device.queue.borrow_mut().end(self.bytes.get());
        // While a shard is torn down there may be none.
        let Some((shard, now)) = try_with(|shard| (shard.id.0, shard.backend.now().0)) else { return };
        let bound = device.depth.borrow_mut().ended(self.bytes.get(), full, now, &device.rates.users, shard);
        if let Some(bytes) = bound {
            device.queue.borrow_mut().set_bytes_max(bytes);
        }
        if device.queue.borrow().waiting() > 0 {
            device.dispatch();
        }
    }
}

#[cfg(test)]
mod tests;
