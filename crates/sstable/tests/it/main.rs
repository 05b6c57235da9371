//! Writes sstables and reads them back through the public interface, on real files.
#![allow(clippy::disallowed_methods, reason = "tests may meet the operating system")]

mod broken;
mod carry;
mod column_order;
mod golden;
mod property;
mod round_trip;
mod samples;
mod simulated;

use sstable::{Descriptor, Version};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static FOLDERS: AtomicU64 = AtomicU64::new(0);

/// Runs a test on one shard with an empty folder that is gone afterwards.
fn on_shard(test: impl Fn(PathBuf) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync + 'static) {
    let name = format!("sstable-{}-{}", std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).unwrap();
    let config = runtime::Config { pin: false, overprovisioned: true, ..runtime::Config::new(1) };
    let inside = dir.clone();
    let main: runtime::Main = Arc::new(move || {
        let test = test(inside.clone());
        Box::pin(async move {
            test.await;
            0
        })
    });
    let code = runtime::run(config, main);
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(code, 0);
}

/// The table of a name.
fn table(name: &str) -> Arc<schema::Table> {
    samples::tables().into_iter().find(|table| &*table.name == name).expect("a sample table")
}

/// The first sstable of a folder.
fn first(version: Version) -> Descriptor {
    Descriptor::new(version, 1)
}
