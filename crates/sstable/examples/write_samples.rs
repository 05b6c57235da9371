//! Writes one sstable of every sample table below a folder, for other databases' tools to read:
//! `cargo run -p sstable --example write_samples -- FOLDER [VERSION]...`, of versions `nb` and `da` unless told otherwise.
//! Prints for each data file its path, its partitions and its rows. As in what a flush writes, nothing is in a file that a
//! deletion of the same file covers: Cassandra's readers would show it.

#[path = "../tests/it/samples.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod samples;

use mutation::{Deletion, Rewrite, rewrite_row};
use samples::{Amount, SampleItem, SamplePartition};
use schema::Position;
use sstable::Version;
use std::path::PathBuf;
use std::sync::Arc;

/// Leaves out what is covered by deletions of the partition, of ranges, and of rows and collections themselves.
fn uncover(partition: &mut SamplePartition) {
    let clean = |body: &[u8], shadow: Deletion| {
        let mut out = Vec::new();
        rewrite_row(body, &Rewrite { shadow, expire_at: None, purge: None }, &mut out).then_some(out)
    };
    let deletion = partition.deletion;
    partition.static_row = partition.static_row.take().and_then(|body| clean(&body, deletion));
    let mut last: Option<(Position, Deletion)> = None;
    partition.items.retain_mut(|item| match item {
        SampleItem::Tombstone { tombstone, end, .. } => {
            last = Some((end.clone(), tombstone.deletion));
            true
        }
        SampleItem::Row { body, position, .. } => {
            let range =
                last.as_ref().filter(|(end, _)| *position < *end).map_or(Deletion::LIVE, |range| range.1);
            let cleaned = clean(body, deletion.max(range));
            cleaned.map(|cleaned| *body = cleaned).is_some()
        }
    });
}

async fn write_all(folder: PathBuf, versions: &[Version]) -> Result<(), sstable::Error> {
    for table in samples::tables() {
        let dir = folder.join("ks").join(format!("{}-{:032x}", table.name, table.id.0));
        runtime::file::create_dir_all(&dir).await.map_err(|source| sstable::Error::Io {
            file: dir.clone(),
            action: "create",
            source,
        })?;
        let amounts = [
            Amount { partitions: 300, rows: 6, value_bytes: 40 },
            Amount { partitions: 3, rows: 900, value_bytes: 3000 },
        ];
        for version in versions {
            for (index, amount) in amounts.into_iter().enumerate() {
                let mut partitions = samples::partitions(&table, 7 + index as u64, amount);
                partitions.iter_mut().for_each(uncover);
                partitions.retain(|partition| !partition.is_empty());
                let generation = index as u64 + 1;
                let meta = samples::write(&dir, *version, generation, &table, &partitions).await?;
                let path = sstable::Component::Data.path(&dir, meta.descriptor());
                println!("{} {} {}", path.display(), meta.partitions, meta.rows);
            }
        }
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let folder = PathBuf::from(std::env::args().nth(1).expect("the folder to write to"));
    let told = std::env::args().skip(2);
    let mut versions: Vec<Version> =
        told.map(|letters| Version::of_letters(&letters).expect("letters of a version")).collect();
    if versions.is_empty() {
        versions = vec![Version::Nb, Version::Da];
    }
    let config = runtime::Config { pin: false, overprovisioned: true, ..runtime::Config::new(1) };
    let main: runtime::Main = Arc::new(move || {
        let (folder, versions) = (folder.clone(), versions.clone());
        Box::pin(async move {
            match write_all(folder, &versions).await {
                Ok(()) => 0,
                Err(error) => {
                    eprintln!("{error}");
                    1
                }
            }
        })
    });
    std::process::ExitCode::from(u8::from(runtime::run(config, main) != 0))
}
