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

use runtime::{Config, run};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Settings that suit a busy test machine.
fn config(shards: u16) -> Config {
    Config { pin: false, overprovisioned: true, memory_per_shard: 1 << 20, ..Config::new(shards) }
}

/// Runs a main on each of some shards; panics of a shard become panics here.
fn on_shards<Fut: Future<Output = ()> + 'static>(
    shards: u16,
    main: impl Fn() -> Fut + Send + Sync + 'static,
) {
    let main = move || -> Pin<Box<dyn Future<Output = i32>>> {
        let main = main();
        Box::pin(async move {
            main.await;
            0
        })
    };
    assert_eq!(run(config(shards), Arc::new(main)), 0);
}

/// Runs a main on one shard.
fn on_shard<Fut: Future<Output = ()> + 'static>(main: impl Fn() -> Fut + Send + Sync + 'static) {
    on_shards(1, main);
}

/// A folder that is removed at the end of a test.
struct Folder(std::path::PathBuf);

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
