//! What operators do to the sstables of a table. Runs on the machine.

use std::path::PathBuf;
use std::rc::Rc;

use base::Token;
use schema::TableId;
use storage::snapshot::{SnapshotOptions, clear_snapshot};
use storage::{Error, Granularity, ImportOptions, MajorCompaction, Store, Verify};

use super::change::Upkeep;
use super::machine::everywhere;

/// Does it on every shard.
pub(super) async fn keep_up(id: TableId, how: Upkeep) -> Result<(), Error> {
    everywhere(move |store| async move {
        match how {
            Upkeep::Split => store.compact_as(id, &MajorCompaction { split_output: true, range: None }).await,
            Upkeep::Range(first, last) => {
                let range = Some((Token(first), Token(last)));
                store.compact_as(id, &MajorCompaction { split_output: false, range }).await
            }
            Upkeep::Files(chosen) => {
                let files = store.sstable_files(id)?;
                let mask = |place: usize| chosen >> (place % 64) & 1 == 1;
                let some = files.into_iter().enumerate().filter(|(place, _)| mask(*place));
                let some: Vec<String> = some.map(|(_, file)| file.display().to_string()).collect();
                store.compact_files(&some).await.map(|_| ())
            }
            Upkeep::Cleanup => {
                let halves = [(Token(i64::MIN), Token(-1)), (Token(0), Token(i64::MAX))];
                store.cleanup(id, &halves).await
            }
            Upkeep::Scrub => {
                let scrubbed = store.scrub(id).await?;
                assert!(scrubbed.lost.is_empty(), "nothing is damaged: {:?}", scrubbed.lost);
                Ok(())
            }
            Upkeep::Collect { cells } => {
                let granularity = if cells { Granularity::Cell } else { Granularity::Row };
                store.garbage_collect(id, granularity).await
            }
            Upkeep::Upgrade => store.upgrade(id, true).await,
            Upkeep::Stop(after) => stopped(store, id, after).await,
        }
    })
    .await
}

/// A compaction of everything that is told to end. Whether it did is a matter of time.
async fn stopped(store: Rc<Store>, id: TableId, after: std::time::Duration) -> Result<(), Error> {
    let compacting = store.clone();
    let work = runtime::spawn(runtime::current_group(), async move { compacting.compact(id).await });
    runtime::sleep(after).await;
    let told = store.stop_compactions(None, None);
    match work.await {
        Err(_) if told > 0 => Ok(()),
        ended => ended,
    }
}

/// Takes a whole snapshot; the folder of the table.
pub(super) async fn snapshot(id: TableId, tag: &str) -> Result<PathBuf, Error> {
    let store = runtime::local::<Store>();
    let options = SnapshotOptions { tag: tag.to_string(), skip_flush: false, ttl_ms: None };
    store.snapshot(id, "", &options).await?;
    store.table_dir(id)
}

/// Takes a snapshot, perhaps empties the table, and imports it.
pub(super) async fn import(id: TableId, tag: String, emptied: bool) -> Result<(), Error> {
    let dir = snapshot(id, &tag).await?;
    if emptied {
        let truncate = move |store: Rc<Store>| async move {
            let at = store.next_time(i64::MIN);
            store.truncate(id, at).await
        };
        everywhere(truncate).await?;
    }
    let store = runtime::local::<Store>();
    let options =
        ImportOptions { copy: true, verify: Verify::Full, keep_level: emptied, keep_repaired: false };
    store.import(id, &dir.join("snapshots").join(&tag), options).await?;
    clear_snapshot(&dir, &tag).await
}
