//! How a node ends.

use crate::{REACTORS, config};
use runtime::{Group, Reactor, request_shutdown, run, shard, shutdown_requested, sleep, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn a_request_reaches_every_shard_and_tasks_are_dropped() {
    let (stopped, dropped) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    struct CountDrop(Arc<AtomicU32>);
    impl Drop for CountDrop {
        fn drop(&mut self) {
            // Destructors may use the runtime.
            assert!(runtime::shard_count() == 3);
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (count, drops) = (stopped.clone(), dropped.clone());
    let main: runtime::Main = Arc::new(move || {
        let (stopped, dropped) = (stopped.clone(), dropped.clone());
        Box::pin(async move {
            let guard = CountDrop(dropped);
            spawn(Group::COMPACTION, async move {
                let _guard = guard;
                sleep(Duration::from_secs(3600)).await;
            });
            if shard().0 == 1 {
                // Only the shard that asks knows that nobody has asked before: the others may begin late.
                assert!(!runtime::shutdown_is_requested());
                sleep(Duration::from_millis(20)).await;
                request_shutdown();
            }
            shutdown_requested().await;
            assert!(runtime::shutdown_is_requested());
            stopped.fetch_add(1, Ordering::SeqCst);
            if shard().0 == 2 { 17 } else { 0 }
        })
    });
    for reactor in REACTORS {
        assert_eq!(run(config(3, reactor), main.clone()), 17);
    }
    assert_eq!((count.load(Ordering::SeqCst), drops.load(Ordering::SeqCst)), (6, 6));
}

#[test]
fn a_signal_asks_for_shutdown() {
    let main: runtime::Main = Arc::new(|| {
        Box::pin(async {
            // To the thread that waits for signals: the process's first signals go to any thread that takes them, and
            // other tests' threads do not block them.
            let process = std::process::id();
            let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("lists threads");
            for thread in threads.flatten() {
                let folder = thread.path();
                let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
                if name.starts_with("shutdown::a_sig") {
                    let id: i32 = thread.file_name().to_string_lossy().parse().expect("a number");
                    // SAFETY: plain system call.
                    unsafe { libc::syscall(libc::SYS_tgkill, process as i32, id, libc::SIGTERM) };
                }
            }
            runtime::timeout(Duration::from_secs(20), shutdown_requested()).await.map_or(1, |()| 0)
        })
    });
    assert_eq!(run(config(1, Reactor::Auto), main), 0);
}

#[test]
fn starting_and_stopping_is_quick() {
    let start = std::time::Instant::now();
    for _ in 0..10 {
        assert_eq!(run(config(2, Reactor::Auto), Arc::new(|| Box::pin(async { 0 }))), 0);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
#[should_panic(expected = "shard 1 breaks")]
fn a_panic_of_one_shard_ends_the_node() {
    let main: runtime::Main = Arc::new(|| {
        Box::pin(async {
            if shard().0 == 1 {
                sleep(Duration::from_millis(5)).await;
                panic!("shard 1 breaks");
            }
            sleep(Duration::from_secs(3600)).await;
            0
        })
    });
    run(config(3, Reactor::Auto), main);
}
