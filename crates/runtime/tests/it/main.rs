//! The runtime through its public interface, on real threads, sockets and files.

/// Calls between shards.
mod calls;
/// Files, aligned and not.
mod files;
/// Connections.
mod net;
/// Start and stop.
mod shutdown;
/// Tasks, timers, groups.
mod tasks;

use runtime::{Config, Reactor, run};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Every test runs on each of these.
const REACTORS: [Reactor; 2] = [Reactor::Uring, Reactor::Epoll];

/// Settings that suit a busy test machine.
fn config(shards: u16, reactor: Reactor) -> Config {
    Config { pin: false, overprovisioned: true, memory_per_shard: 1 << 20, reactor, ..Config::new(shards) }
}

/// Runs a main on each of some shards, once per reactor; panics of a shard become panics here.
fn on_shards<Fut: Future<Output = ()> + 'static>(
    shards: u16,
    main: impl Fn() -> Fut + Send + Sync + 'static,
) {
    let main: runtime::Main = Arc::new(move || -> Pin<Box<dyn Future<Output = i32>>> {
        let main = main();
        Box::pin(async move {
            main.await;
            0
        })
    });
    for reactor in REACTORS {
        assert_eq!(run(config(shards, reactor), main.clone()), 0);
    }
}

/// Runs a main on one shard.
fn on_shard<Fut: Future<Output = ()> + 'static>(main: impl Fn() -> Fut + Send + Sync + 'static) {
    on_shards(1, main);
}

/// Runs a main on one shard with a new folder, once per reactor.
fn in_folder<Fut: Future<Output = ()> + 'static>(
    name: &str,
    main: impl Fn(PathBuf) -> Fut + Send + Sync + 'static,
) {
    let folder = Folder::new(name);
    let root = folder.0.clone();
    let runs = AtomicU32::new(0);
    on_shard(move || {
        let fresh = root.join(runs.fetch_add(1, Ordering::SeqCst).to_string());
        std::fs::create_dir(&fresh).expect("the temporary folder can be written");
        main(fresh)
    });
}

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("runtime-it-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
