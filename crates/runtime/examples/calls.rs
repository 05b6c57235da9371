//! What a call from shard to shard costs: some tasks on shard 0 call shard 1 in a loop. Prints the nanoseconds of one
//! call, as a caller sees them, and the processor time of both shards per call.
//!
//! `calls [tasks] [milliseconds] [uring|epoll] [spin|sleep]`

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests and measurements look at the operating system directly"
)]

use runtime::{Config, Group, Reactor, ShardId, now, shard, spawn, submit_to};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn argument(index: usize, default: u64) -> u64 {
    std::env::args().nth(index).map_or(default, |v| v.parse().expect("a number"))
}

/// Nanoseconds on the processor of all threads of this process.
fn cpu_ns() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("lists threads");
    let time = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    threads.flatten().filter_map(|t| time(t.path())).sum()
}

async fn measure() {
    let (tasks, limit) = (argument(1, 64), Duration::from_millis(argument(2, 2000)));
    let calls = Rc::new(Cell::new(0u64));
    let (start, cpu) = (now(), cpu_ns());
    let callers: Vec<_> = (0..tasks)
        .map(|_| {
            let calls = calls.clone();
            spawn(Group::QUERY, async move {
                while now() - start < limit {
                    let sum = submit_to(ShardId(1), Group::QUERY, || async { u64::from(shard().0) }).await;
                    calls.set(calls.get() + sum);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await;
    }
    let (wall, used) = ((now() - start).as_nanos() as u64, cpu_ns() - cpu);
    let calls = calls.get().max(1);
    println!("{} {}", wall * tasks / calls, used / calls);
}

fn main() {
    let main: runtime::Main = Arc::new(|| {
        Box::pin(async {
            if shard().0 == 0 {
                measure().await;
            }
            0
        })
    });
    let word = |index| std::env::args().nth(index).unwrap_or_default();
    let reactor = match word(3).as_str() {
        "uring" => Reactor::Uring,
        "epoll" => Reactor::Epoll,
        _ => Reactor::Auto,
    };
    let spin = match word(4).as_str() {
        "spin" => Some(true),
        "sleep" => Some(false),
        _ => None,
    };
    std::process::exit(runtime::run(Config { reactor, spin, ..Config::new(2) }, main));
}
