//! Tests poll by hand: what matters is who is woken and in which order.

use super::*;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_large_request_is_not_overtaken() {
    let semaphore = Semaphore::new(4);
    let mut first = semaphore.try_acquire(3).expect("free");
    let mut large = pin!(semaphore.acquire(4));
    assert!(poll(large.as_mut()).is_pending());
    assert!(semaphore.try_acquire(1).is_none());
    first.release(1);
    assert!(poll(large.as_mut()).is_pending());
    drop(first);
    let Poll::Ready(permit) = poll(large.as_mut()) else { panic!("granted") };
    assert_eq!((permit.count(), semaphore.available()), (4, 0));
    drop(permit);
    assert_eq!(semaphore.available(), 4);
}

#[test]
fn a_dropped_waiter_gives_its_grant_back() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire(1);
    let mut granted = Box::pin(semaphore.acquire(1));
    let mut next = pin!(semaphore.acquire(1));
    assert!(poll(granted.as_mut()).is_pending());
    assert!(poll(next.as_mut()).is_pending());
    drop(held);
    assert!(poll(next.as_mut()).is_pending());
    drop(granted);
    assert!(poll(next.as_mut()).is_ready());
    assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
}

#[test]
fn an_event_is_kept_once_and_passed_on() {
    let event = Event::new();
    event.notify();
    event.notify();
    assert!(poll(pin!(event.wait())).is_ready());
    let mut first = Box::pin(event.wait());
    let mut second = pin!(event.wait());
    assert!(poll(first.as_mut()).is_pending());
    assert!(poll(second.as_mut()).is_pending());
    event.notify();
    drop(first);
    assert!(poll(second.as_mut()).is_ready());
}

#[test]
fn an_event_for_each_wakes_all_or_is_kept() {
    let event = Event::new();
    event.notify_each();
    assert!(poll(pin!(event.wait())).is_ready(), "nobody waited: it is kept");
    let (mut first, mut second) = (pin!(event.wait()), pin!(event.wait()));
    assert!(poll(first.as_mut()).is_pending());
    assert!(poll(second.as_mut()).is_pending());
    event.notify_each();
    assert!(poll(first.as_mut()).is_ready());
    assert!(poll(second.as_mut()).is_ready());
    assert!(poll(pin!(event.wait())).is_pending(), "they were told: nothing is kept");
}

#[test]
fn a_gate_drains() {
    let gate = Gate::new();
    let guard = gate.enter().expect("open");
    let mut close = pin!(gate.close());
    assert!(poll(close.as_mut()).is_pending());
    assert!(gate.enter().is_err());
    drop(guard);
    assert!(poll(close.as_mut()).is_ready());
    assert!(poll(pin!(gate.close())).is_ready());
}

#[test]
fn a_queue_blocks_at_both_ends() {
    let queue = Queue::new(1);
    let mut pop = Box::pin(queue.pop());
    assert!(poll(pop.as_mut()).is_pending());
    assert!(poll(pin!(queue.push(1))).is_ready());
    let mut push = pin!(queue.push(2));
    assert!(poll(push.as_mut()).is_pending());
    assert_eq!(poll(pop.as_mut()), Poll::Ready(Some(1)));
    assert_eq!(poll(push.as_mut()), Poll::Ready(Ok(())));
    queue.close();
    assert_eq!(queue.try_push(3), Err(QueueClosed(3)));
    assert_eq!(poll(pin!(queue.pop())), Poll::Ready(Some(2)));
    assert_eq!(poll(pin!(queue.pop())), Poll::Ready(None));
}

#[test]
fn one_value_once() {
    let (sender, mut receiver) = oneshot::channel();
    assert!(poll(Pin::new(&mut receiver)).is_pending());
    assert_eq!(sender.send(5), Ok(()));
    assert_eq!(poll(Pin::new(&mut receiver)), Poll::Ready(Ok(5)));
    let (sender, mut receiver) = oneshot::channel::<u8>();
    drop(sender);
    assert_eq!(poll(Pin::new(&mut receiver)), Poll::Ready(Err(oneshot::Closed)));
    let (sender, receiver) = oneshot::channel();
    drop(receiver);
    assert_eq!(sender.send(1), Err(1));
}

#[test]
fn locks_flags_and_watches() {
    let lock = Lock::new(1);
    let guard = lock.try_lock().expect("free");
    let mut next = pin!(lock.lock());
    assert!(poll(next.as_mut()).is_pending());
    drop(guard);
    assert!(poll(next.as_mut()).is_ready());

    let flag = Flag::new();
    let mut wait = pin!(flag.wait());
    assert!(poll(wait.as_mut()).is_pending());
    flag.set();
    assert!(poll(wait.as_mut()).is_ready());

    let watch = Watch::new("a");
    let mut newer = pin!(watch.newer_than(0));
    assert!(poll(newer.as_mut()).is_pending());
    watch.set("b");
    assert!(poll(newer.as_mut()).is_ready());
    assert_eq!((*watch.get(), watch.version()), ("b", 1));
}
