//! Tasks, timers and groups on one shard.

use crate::{everywhere, on_shard};
use runtime::{Group, now, sleep, spawn, spawn_now, timeout, yield_if_needed, yield_now};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn spawn_now_runs_at_once_and_spawn_later() {
    everywhere(1, || async {
        let log = Rc::new(RefCell::new(Vec::new()));
        let write = |text: &'static str| {
            let log = log.clone();
            async move { log.borrow_mut().push(text) }
        };
        let later = spawn(Group::QUERY, write("later"));
        let first = spawn_now(Group::QUERY, write("first"));
        assert!(first.is_finished());
        assert_eq!(*log.borrow(), ["first"]);
        later.await;
        let pending = spawn_now(Group::QUERY, async {
            yield_now().await;
            7
        });
        assert_eq!(runtime::current_group(), Group::MAIN);
        assert_eq!(pending.await, 7);
        assert_eq!(log.borrow().len(), 2);
    });
}

#[test]
fn timers_fire_in_order() {
    everywhere(1, || async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut tasks = Vec::new();
        for ms in [30u64, 5, 20, 5, 1] {
            let order = order.clone();
            tasks.push(spawn(Group::MAIN, async move {
                sleep(Duration::from_millis(ms)).await;
                order.borrow_mut().push(ms);
            }));
        }
        let start = now();
        for task in tasks {
            task.await;
        }
        assert_eq!(*order.borrow(), [1, 5, 5, 20, 30]);
        assert!(Duration::from_millis(30) <= now() - start);
    });
}

#[test]
fn timeouts_drop_the_future_and_leave_no_timer() {
    everywhere(1, || async {
        let dropped = Rc::new(Cell::new(false));
        struct SetOnDrop(Rc<Cell<bool>>);
        impl Drop for SetOnDrop {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let guard = SetOnDrop(dropped.clone());
        let slow = async move {
            let _guard = guard;
            sleep(Duration::from_secs(3600)).await;
        };
        assert!(timeout(Duration::from_millis(5), slow).await.is_err());
        assert!(dropped.get());
        assert_eq!(timeout(Duration::from_secs(3600), async { 3 }).await, Ok(3));
    });
}

#[test]
fn groups_share_the_core_by_their_shares() {
    on_shard(|| async {
        runtime::set_shares(Group::COMPACTION, 250);
        let stop = Rc::new(Cell::new(false));
        let mut spinners = Vec::new();
        let mut time = Vec::new();
        for group in [Group::QUERY, Group::COMPACTION] {
            let ran = Rc::new(Cell::new(0u64));
            time.push(ran.clone());
            for _ in 0..3 {
                let (ran, stop) = (ran.clone(), stop.clone());
                spinners.push(spawn(group, async move {
                    while !stop.get() {
                        let start = now();
                        while now() - start < Duration::from_micros(20) {}
                        ran.set(ran.get() + (now() - start).as_nanos() as u64);
                        yield_if_needed().await;
                    }
                }));
            }
        }
        // The machine may take the core away within a turn, and who had it is charged: of some windows one is enough.
        let mut ratios = Vec::new();
        let fair = loop {
            time.iter().for_each(|ran| ran.set(0));
            sleep(Duration::from_millis(200)).await;
            let ratio = time[0].get() as f64 / time[1].get().max(1) as f64;
            ratios.push(ratio);
            if (2.5..6.5).contains(&ratio) || ratios.len() == 20 {
                break (2.5..6.5).contains(&ratio);
            }
        };
        stop.set(true);
        for spinner in spinners {
            spinner.await;
        }
        assert!(fair, "shares are 4 to 1, the core went {ratios:?}");
    });
}

#[test]
fn calls_that_block_do_not_wait_for_computing() {
    on_shard(|| async {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let receiver = std::sync::Arc::new(std::sync::Mutex::new(receiver));
        let computing: Vec<_> = (0..16)
            .map(|_| {
                let receiver = receiver.clone();
                let work = move || drop(receiver.lock().map(|waited| waited.recv()));
                spawn(Group::MAIN, runtime::compute(work))
            })
            .collect();
        yield_now().await;
        assert_eq!(timeout(Duration::from_secs(5), runtime::offload(|| 2)).await, Ok(2), "another pool");
        drop(sender);
        for computed in computing {
            computed.await;
        }
        // SAFETY: the call takes numbers only.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let (blocking, computing) = (runtime::offload(nice).await, runtime::compute(nice).await);
        // A test that is itself run as nice as they are tells nothing.
        let nicer = blocking < runtime::limits::COMPUTE_NICE;
        assert!(computing > blocking || !nicer, "{computing} and {blocking}");
    });
}

#[test]
fn a_waker_works_from_another_thread() {
    on_shard(|| async {
        for _ in 0..100 {
            let (sender, receiver) = std::sync::mpsc::channel::<std::task::Waker>();
            let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            let theirs = done.clone();
            let thread = std::thread::spawn(move || {
                let waker = receiver.recv().expect("a waker comes");
                theirs.store(true, std::sync::atomic::Ordering::SeqCst);
                waker.wake();
            });
            let mut sent = false;
            std::future::poll_fn(|context| {
                if done.load(std::sync::atomic::Ordering::SeqCst) {
                    return std::task::Poll::Ready(());
                }
                if !std::mem::replace(&mut sent, true) {
                    sender.send(context.waker().clone()).expect("the thread listens");
                }
                std::task::Poll::Pending
            })
            .await;
            thread.join().expect("the thread ends well");
        }
        assert_eq!(runtime::offload(|| 1 + 1).await, 2);
    });
}

#[test]
fn values_are_installed_per_shard() {
    on_shard(|| async {
        assert!(runtime::try_local::<String>().is_none());
        runtime::install(Rc::new("mine".to_string()));
        assert_eq!(*runtime::local::<String>(), "mine");
        assert_eq!((runtime::shard().0, runtime::shard_count()), (0, 1));
        assert_eq!(runtime::memory::budget(), 1 << 20);
        assert_ne!(runtime::random_u64(), runtime::random_u64());
        assert_eq!(runtime::random_uuid() >> 76 & 0xf, 4);
        assert!(!runtime::simulated() && !runtime::rare("anything"));
        runtime::metrics::counter("things", "Things.", &[]).inc();
        let text = runtime::metrics::to_prometheus(&runtime::metrics::render_local());
        assert!(text.contains("things{shard=\"0\"} 1"), "{text}");
    });
}
