//! Hints: opened with every shard, begun when the other nodes are known, closed with the shard.

use crate::config::Config;
use crate::start::StartError;
use coordinator::Coordinator;
use hints::{Hints, Settings, Switches};
use runtime::Group;
use std::path::PathBuf;
use std::rc::Rc;

/// The folder of hints.
pub(crate) fn directory(config: &Config) -> PathBuf {
    config.hints.directory.clone().unwrap_or_else(|| config.data_directory.join("hints"))
}

fn settings(config: &Config) -> Settings {
    let rules = &config.hints;
    Settings {
        directory: directory(config),
        switches: Switches {
            is_enabled: rules.enabled,
            disabled_dcs: rules.disabled_dcs.clone(),
            is_paused: false,
            window: rules.window,
            throttle: rules.throttle,
        },
        is_window_persistent: rules.is_window_persistent,
        flush_period: rules.flush_period,
        file_bytes_max: rules.file_bytes_max,
        host_bytes_max: rules.host_bytes_max,
        deliveries_max: rules.deliveries_max as usize,
    }
}

/// Opens this shard's hints: what replicas miss is kept from now on.
pub(crate) async fn open(config: &Config, coordinator: Rc<Coordinator>) -> Result<(), StartError> {
    let opened = Hints::open(settings(config), coordinator).await;
    let told = |error: std::io::Error| {
        let path = directory(config);
        StartError::Folder { reason: runtime::file::reason(&error, &path), path }
    };
    runtime::install(opened.map_err(told)?);
    Ok(())
}

/// Begins to deliver, on every shard.
pub(crate) async fn begin() {
    runtime::on_every_shard(Group::MAIN, || async { runtime::local::<Hints>().start() }).await;
}

/// Makes durable what this shard keeps, and keeps nothing more.
pub(crate) async fn close() {
    if let Some(hints) = runtime::try_local::<Hints>() {
        hints.close().await;
    }
}
