//! The I/O scheduler: every read, write and sync of a file passes here before the backend sees it.
//!
//! ```text
//! File ─► admit ─► [ room, rates, nobody before it ] ─► backend ─► permit dropped ─► next
//!            └─► queue of its group ─► turn by shares ─┘
//! ```
//! A class is a scheduling group: its shares of the core are its shares of each device. A device is what the kernel calls
//! one (`st_dev`); a simulated machine has one. The rates of a device are kept by all shards of the node together. Without
//! rates and with room, a request passes at once.
//!
//! What a device was given cannot be overtaken. So while something is read for clients, on any shard, the background has
//! little under way, and what it asks for comes in pieces, as does what the commitlog writes: [`depth`].
//!
//! The same scheduler runs over io_uring, helper threads and the simulated disk.

mod depth;
mod queue;
mod rate;

use crate::group::Group;
use crate::limits::{DIRECT_ALIGN, IO_REQUEST_REST, RATE_LOOK};
use crate::shard::{Shard, try_with, with};
use crate::time::{Sleep, sleep_until};
use base::Instant;
use depth::{Depth, Ended, Users};
use queue::Queue;
use rate::Rate;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Nanoseconds of the node's clock when something was last asked for on behalf of a client, nearly; 0 for never.
    requested_at: AtomicU64,
}

impl DeviceRates {
    fn set(&self, limits: DeviceLimits) {
        self.bytes.set(limits.bytes_per_second);
        self.requests.set(limits.requests_per_second);
    }

    fn limits(&self) -> DeviceLimits {
        DeviceLimits {
            bytes_per_second: self.bytes.per_second(),
            requests_per_second: self.requests.per_second(),
        }
    }

    fn note_request(&self, now: u64) {
        // Shards that write this all the time would hand its cache line to and fro.
        let rest = IO_REQUEST_REST.as_nanos() as u64;
        if now.saturating_sub(self.requested_at.load(Ordering::Relaxed)) > rest / 16 {
            self.requested_at.store(now, Ordering::Relaxed);
        }
    }

    /// Are clients about?
    fn has_requests(&self, now: u64) -> bool {
        let at = self.requested_at.load(Ordering::Relaxed);
        at != 0 && now.saturating_sub(at) < IO_REQUEST_REST.as_nanos() as u64
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

/// A request, or a piece of one.
#[derive(Clone, Copy)]
struct Ask {
    group: Group,
    bytes: u64,
    /// A piece that is not the first.
    goes_on: bool,
}

struct Waiter {
    ask: Ask,
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
        Admit { device: self.clone(), bytes, goes_on: false, waiter: None }
    }

    /// As [`Device::admit`], for another piece of a request.
    pub(crate) fn admit_next(self: &Rc<Self>, bytes: u64) -> Admit {
        Admit { device: self.clone(), bytes, goes_on: true, waiter: None }
    }

    /// When a request may start, as far as rates go.
    fn ready_at(&self) -> u64 {
        self.rates.bytes.ready_at().max(self.rates.requests.ready_at())
    }

    fn is_limited(&self) -> bool {
        self.rates.bytes.per_second() != 0 || self.rates.requests.per_second() != 0
    }

    /// Is the background held back?
    fn holds(&self, now: u64) -> bool {
        self.rates.has_requests(now) && !crate::planted(crate::Bug::BackgroundUnbounded)
    }

    /// How many of so many bytes the running task's group should ask for at once: all, or whole blocks.
    pub(crate) fn piece(&self, bytes: usize) -> usize {
        let most = self.queue.borrow().bounds().piece;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        // A little more is worth no second request.
        if bytes <= most.saturating_add(most / 4) {
            return bytes;
        }
        let group = crate::task::current_group();
        let is_cut = group.is_background() || group == Group::COMMITLOG;
        if !is_cut || !self.holds(with(|shard| shard.backend.now().0)) {
            return bytes;
        }
        let pieces = bytes.div_ceil(most);
        bytes.div_ceil(pieces).next_multiple_of(DIRECT_ALIGN).min(bytes)
    }

    fn start(&self, shard: &Shard, Ask { group, bytes, goes_on }: Ask, now: u64) {
        let shares = shard.executor.shares(group);
        match goes_on {
            true => self.queue.borrow_mut().go_on(group, bytes, shares),
            false => self.queue.borrow_mut().start(group, bytes, shares),
        }
        if group.is_request() {
            self.rates.note_request(now);
        }
        if self.is_limited() {
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
    fn try_start(self: &Rc<Self>, ask: Ask) -> Option<Permit> {
        let Ask { group, bytes, .. } = ask;
        let now = with(|shard| shard.backend.now().0);
        let queue = self.queue.borrow();
        if queue.waiting() > 0 || !queue.has_room() || queue.is_held(group, bytes) && self.holds(now) {
            return None;
        }
        drop(queue);
        if self.is_limited() && now < self.ready_at() {
            return None;
        }
        with(|shard| self.start(shard, ask, now));
        Some(Permit::new(self.clone(), group, bytes, now))
    }

    /// Gives turns to those who wait, as long as there is room; sets a timer when only rates hold them back.
    fn dispatch(self: &Rc<Self>) {
        self.wake_at.set(None);
        let now = with(|shard| shard.backend.now().0);
        while let Some(waiter) = self.next(now) {
            with(|shard| self.start(shard, waiter.ask, now));
            waiter.state.set(State::Granted);
            let waker = waiter.waker.borrow_mut().take();
            waker.into_iter().for_each(Waker::wake);
        }
        if self.wake_at.get().is_some() {
            self.wake_pump();
        }
    }

    fn next(&self, now: u64) -> Option<Rc<Waiter>> {
        let mut queue = self.queue.borrow_mut();
        for group in Group::ALL {
            queue.forget(group, |waiter| waiter.state.get() == State::Gone);
        }
        if queue.waiting() == 0 || !queue.has_room() {
            return None;
        }
        let group = queue.pick(self.holds(now))?;
        let ready_at = self.ready_at();
        if self.is_limited() && now < ready_at {
            self.wake_at.set(Some(ready_at));
            return None;
        }
        queue.pop(group).map(|(waiter, _)| waiter)
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
    goes_on: bool,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Admit {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        if self.waiter.is_none() {
            let group = crate::task::current_group();
            let ask = Ask { group, bytes: self.bytes, goes_on: self.goes_on };
            if let Some(permit) = self.device.try_start(ask) {
                return Poll::Ready(permit);
            }
            let waiter = Rc::new(Waiter { ask, waker: RefCell::new(None), state: Cell::new(State::Waiting) });
            self.device.queue.borrow_mut().push(group, waiter.clone(), self.bytes);
            self.waiter = Some(waiter);
            self.device.dispatch();
        }
        let waiter = self.waiter.as_ref().expect("made above");
        if waiter.state.get() == State::Granted {
            let permit = self.permit(waiter.ask.group, crate::time::now().0);
            self.waiter = None;
            return Poll::Ready(permit);
        }
        *waiter.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Admit {
    /// The turn that was granted.
    fn permit(&self, group: Group, since: u64) -> Permit {
        Permit::new(self.device.clone(), group, self.bytes, since)
    }
}

impl Drop for Admit {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        match waiter.state.replace(State::Gone) {
            State::Granted => drop(self.permit(waiter.ask.group, 0)),
            State::Waiting | State::Gone => {}
        }
    }
}

/// A request's turn, until it is dropped.
pub(crate) struct Permit {
    device: Rc<Device>,
    group: Group,
    bytes: Cell<u64>,
    /// When the device was given it.
    since: u64,
    /// The device itself has moved the bytes.
    is_moved: Cell<bool>,
}

impl Permit {
    fn new(device: Rc<Device>, group: Group, bytes: u64, since: u64) -> Permit {
        Permit { device, group, bytes: Cell::new(bytes), since, is_moved: Cell::new(false) }
    }

    /// The device itself, and no page cache, has moved the bytes: how long that took tells how fast it is.
    pub(crate) fn moved(self) {
        self.is_moved.set(true);
    }

    /// What the request was known to take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// The request takes so many bytes in all; what it was not known to take when it waited is counted now.
    pub(crate) fn takes(&self, bytes: u64) {
        let more = bytes.saturating_sub(self.bytes.get());
        if more > 0 {
            self.bytes.set(bytes);
            self.device.grow(self.group, more);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let device = &self.device;
        let bytes = self.bytes.get();
        // While a shard is torn down there may be none.
        let Some((shard, now)) = try_with(|shard| (shard.id.0, shard.backend.now().0)) else {
            return device.queue.borrow_mut().end(self.group, bytes);
        };
        let waiting = device.queue.borrow().waiting() > 0;
        let full = waiting && device.queue.borrow().is_full(device.holds(now));
        device.queue.borrow_mut().end(self.group, bytes);
        let took = self.is_moved.get().then(|| now.saturating_sub(self.since));
        let ended = Ended { bytes, took, full, now };
        let rates = &device.rates;
        let bounds = device.depth.borrow_mut().ended(ended, &rates.users, shard, rates.limits());
        if let Some(bounds) = bounds {
            device.queue.borrow_mut().set_bounds(bounds);
        }
        if device.queue.borrow().waiting() > 0 {
            device.dispatch();
        }
    }
}

#[cfg(test)]
mod tests;
