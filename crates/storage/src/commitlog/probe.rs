//! Which way of making a block durable is the faster one on a device.
//!
//! A write that is durable when it ends can be one command to a disk that knows them (`FUA`); where the disk flushes its cache
//! for each, or the file system its journal, a sync behind the write costs the same or less. Only trying tells.

use super::block::BLOCK;
use super::log::NEW_SEGMENT;
use crate::Error;
use base::Instant;
use runtime::file::{self, AlignedBuf, File, SyncMethod};
use std::path::Path;

/// Name of the file that is tried on; no segment's.
const FILE: &str = "sync-probe.tmp";
/// Blocks that are written in each way.
const ROUNDS: u64 = 5;

/// Tries both ways in a folder and says which to use. A folder that cannot be tried, a full one say, gets the usual one.
/// Cost: a dozen syncs, once per start in the modes that answer after a sync.
pub async fn probe(dir: &Path) -> SyncMethod {
    if runtime::simulated() {
        // There both are the same to the disk; a start must not be longer for it.
        let through = runtime::rare("log_writes_through");
        return if through { SyncMethod::Through } else { SyncMethod::After };
    }
    let path = dir.join(FILE);
    let tried = measure(&path).await;
    if let Err(error) = file::remove(&path).await {
        runtime::debug!("cannot remove \"{}\": {error}", path.display());
    }
    match tried {
        Ok((after, through)) => {
            let method = if through < after { SyncMethod::Through } else { SyncMethod::After };
            runtime::info!(
                "commitlog: {} makes a block durable in \"{}\" ({after} us by fdatasync, {through} us by RWF_DSYNC)",
                method.name(),
                dir.display()
            );
            method
        }
        Err(error) => {
            runtime::info!(
                "commitlog: {} is used, as others cannot be tried: {error}",
                SyncMethod::After.name()
            );
            SyncMethod::After
        }
    }
}

/// Microseconds of the middle one of some writes, by fdatasync and by a write through.
async fn measure(path: &Path) -> Result<(u64, u64), Error> {
    let io = |action| move |error| Error::io(path, action, error);
    let file = File::open(path, NEW_SEGMENT).await.map_err(io("create"))?;
    // Blocks that were written once, as those of the log's segments.
    let all = AlignedBuf::zeroed(2 * ROUNDS as usize * BLOCK);
    file.write_at(0, all).await.map_err(io("write"))?;
    file.sync_data().await.map_err(io("sync"))?;
    let mut times: [Vec<u64>; 2] = Default::default();
    for round in 0..2 * ROUNDS {
        // In turns, so that what else the disk does meets both.
        let way = (round % 2) as usize;
        let method = [SyncMethod::After, SyncMethod::Through][way];
        let start: Instant = runtime::now();
        let buffer = AlignedBuf::zeroed(BLOCK);
        let written = file.write_durable(round * BLOCK as u64, buffer, method).await;
        written.and_then(|synced| synced).map_err(io("write"))?;
        times[way].push(runtime::now().saturating_duration_since(start).as_micros() as u64);
    }
    let middle = |mut times: Vec<u64>| {
        times.sort();
        times[times.len() / 2]
    };
    let [after, through] = times;
    Ok((middle(after), middle(through)))
}
