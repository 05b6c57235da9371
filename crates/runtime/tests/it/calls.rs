//! Calls between shards, more than fit.

use crate::everywhere;
use runtime::{Group, ShardId, shard, sleep, spawn, submit_to};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: u16 = 4;

#[test]
fn every_shard_calls_every_shard_with_back_pressure() {
    let served = Arc::new(AtomicU64::new(0));
    let count = served.clone();
    everywhere(SHARDS, move || {
        let served = served.clone();
        async move {
            let mut tasks = Vec::new();
            for i in 0..3000u64 {
                let target = ShardId((i % u64::from(SHARDS)) as u16);
                let served = served.clone();
                tasks.push(spawn(Group::QUERY, async move {
                    let answer = submit_to(target, Group::RPC, move || async move {
                        assert_eq!(shard(), target);
                        assert_eq!(runtime::current_group(), Group::RPC);
                        if i % 7 == 0 {
                            sleep(Duration::from_micros(200)).await;
                        }
                        served.fetch_add(1, Ordering::Relaxed);
                        i * 2
                    });
                    assert_eq!(answer.await, i * 2);
                }));
            }
            for task in tasks {
                task.await;
            }
        }
    });
    // Two reactors, three worlds.
    let runs = 5;
    assert_eq!(count.load(Ordering::Relaxed), 3000 * u64::from(SHARDS) * runs);
}

/// 0 calls 1, which calls 0, which calls 1 …
fn bounce(left: u32) -> std::pin::Pin<Box<dyn Future<Output = u32>>> {
    Box::pin(async move {
        if left == 0 {
            return 0;
        }
        let other = ShardId(1 - shard().0);
        1 + submit_to(other, Group::RPC, move || bounce(left - 1)).await
    })
}

#[test]
fn cycles_of_calls_do_not_wait_for_themselves() {
    everywhere(2, || async {
        let tasks: Vec<_> = (0..1000).map(|_| spawn(Group::QUERY, bounce(6))).collect();
        for task in tasks {
            assert_eq!(task.await, 6);
        }
    });
}

#[test]
fn a_dropped_call_runs_to_its_end() {
    let ended = Arc::new(AtomicU64::new(0));
    let count = ended.clone();
    everywhere(2, move || {
        let ended = ended.clone();
        async move {
            if shard().0 != 0 {
                return;
            }
            for _ in 0..600 {
                let ended = ended.clone();
                let call = submit_to(ShardId(1), Group::RPC, move || async move {
                    sleep(Duration::from_millis(2)).await;
                    ended.fetch_add(1, Ordering::SeqCst);
                });
                // Sent at its first poll, then dropped.
                let _ = runtime::timeout(Duration::ZERO, call).await;
            }
            while ended.load(Ordering::SeqCst) < 256 {
                sleep(Duration::from_millis(1)).await;
            }
            // The permits came back: a call still gets through.
            assert_eq!(submit_to(ShardId(1), Group::RPC, || async { 5 }).await, 5);
        }
    });
    assert!(256 <= count.load(Ordering::SeqCst));
}

#[test]
fn a_shard_serves_others_after_its_own_main_has_returned() {
    everywhere(2, || async {
        if shard().0 == 0 {
            sleep(Duration::from_millis(30)).await;
            assert_eq!(submit_to(ShardId(1), Group::MAIN, || async { shard().0 }).await, 1);
        }
    });
}

#[test]
fn a_sleeping_shard_is_woken_each_time() {
    everywhere(2, || async {
        if shard().0 != 0 {
            return;
        }
        let rounds = Rc::new(Cell::new(0));
        for round in 0..200u32 {
            // Long enough to fall asleep on both sides now and then.
            if round % 4 == 0 {
                sleep(Duration::from_micros(500)).await;
            }
            let answer = submit_to(ShardId(1), Group::QUERY, move || async move { round });
            let answer = runtime::timeout(Duration::from_secs(20), answer).await;
            assert_eq!(answer, Ok(round), "a wake was lost");
            rounds.set(rounds.get() + 1);
        }
        assert_eq!(rounds.get(), 200);
    });
}
