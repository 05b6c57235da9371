//! The runtime through its public interface, on real threads, sockets and files.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests and measurements look at the operating system directly"
)]

/// Calls between shards.
mod calls;
/// Every operation, dropped at every step, on every backend.
mod conformance;
/// Operations dropped at every step of their way.
mod cut;
/// Files, aligned and not.
mod files;
/// Connections.
mod net;
/// Machines that refuse io_uring, calls that block.
mod refused;
/// Start and stop.
mod shutdown;
/// Tasks, timers, groups.
mod tasks;

use runtime::sim::{SimConfig, World};
use runtime::{Config, Reactor, run};
use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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

/// Like [`on_shards`], and in a calm and a rough simulated world: one behaviour behind three backends.
fn everywhere<Fut: Future<Output = ()> + 'static>(
    shards: u16,
    main: impl Fn() -> Fut + Send + Sync + 'static,
) {
    let main = Arc::new(main);
    let real = main.clone();
    on_shards(shards, move || real());
    for config in [SimConfig::calm(), SimConfig::drawn(11), SimConfig::drawn(12)] {
        let mut world = World::new(7, config);
        let node = world.add_node(IpAddr::from([127, 0, 0, 1]));
        let simulated = main.clone();
        let body = move || -> Pin<Box<dyn Future<Output = i32>>> {
            let main = simulated();
            Box::pin(async move {
                main.await;
                0
            })
        };
        world.boot(node, shards, Arc::new(body));
        let ended = world.run_until(|world| !world.alive(node), Duration::from_secs(600));
        assert!(ended, "the simulated node did not come to its end");
        assert_eq!(world.exit_code(node), Some(0));
    }
}

/// Runs a main on one shard.
fn on_shard<Fut: Future<Output = ()> + 'static>(main: impl Fn() -> Fut + Send + Sync + 'static) {
    on_shards(1, main);
}

/// Runs a main on one shard with a new folder, everywhere.
fn in_folder<Fut: Future<Output = ()> + 'static>(
    name: &str,
    main: impl Fn(PathBuf) -> Fut + Send + Sync + 'static,
) {
    let folder = Folder::new(name);
    let root = folder.0.clone();
    let runs = AtomicU32::new(0);
    everywhere(1, move || {
        let fresh = root.join(runs.fetch_add(1, Ordering::SeqCst).to_string());
        let main = main(fresh.clone());
        async move {
            runtime::file::create_dir_all(&fresh).await.expect("there is room");
            main.await;
        }
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
