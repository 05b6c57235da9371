//! The shard on which a tool runs.

use runtime::log::{Level, Levels};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Runs a tool on one shard of its own, on any processor, and gives the status of its process. Of what the runtime logs only errors
/// are told: what a tool says is its own.
pub fn run(main: runtime::Main) -> u8 {
    run_on(1, main)
}

/// The same on several shards, each of which runs the main function.
pub fn run_on(shards: u16, main: runtime::Main) -> u8 {
    let mut levels = Levels::default();
    levels.set("", Some(Level::Error));
    runtime::log::set_levels(levels);
    let config = runtime::Config { overprovisioned: true, pin: false, ..runtime::Config::new(shards) };
    u8::try_from(runtime::run(config, main)).unwrap_or(1)
}

/// Waits for something, or until the person at the terminal wants the end.
pub async fn or_interrupted(work: impl Future<Output = ()>) {
    let (mut work, mut interrupted) = (pin!(work), pin!(runtime::shutdown_requested()));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => interrupted.as_mut().poll(context),
    })
    .await;
}
