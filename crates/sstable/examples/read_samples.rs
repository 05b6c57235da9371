//! Reads every sstable of the sample tables below a folder, as other databases have written them:
//! `cargo run -p sstable --example read_samples -- FOLDER`, with FOLDER/ks/<table>-<id>/ as `write_samples` makes it.
//! Prints for each data file its partitions and rows, by the statistics and as read.

#[path = "../tests/it/samples.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod samples;

use mutation::{Slice, TokenRange};
use sstable::Descriptor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Partitions and rows of one sstable; every partition is also looked up by its key.
async fn read(dir: &Path, name: Descriptor, table: Arc<schema::Table>) -> Result<(u64, u64), sstable::Error> {
    let reader = sstable::Reader::open(dir, name, table).await?;
    let slices = [Slice::all()];
    let mut scanner = reader.scan(TokenRange::ALL);
    let (mut partitions, mut rows) = (0, 0);
    while let Some(scanned) = scanner.next(&slices, 100_000).await? {
        let view = scanned.slice.mutation.view();
        partitions += u64::from(!scanned.continuation);
        rows += view.rows().count() as u64 + u64::from(view.static_row.is_some());
        let found = reader.read_partition(view.key, view.token, &slices, true, 10_000).await?;
        assert!(found.is_some(), "a partition that was scanned is found by its key");
    }
    let meta = reader.meta();
    println!(
        "{} {name}: partitions {} of {}, rows {} of {}",
        dir.display(),
        partitions,
        meta.partitions,
        rows,
        meta.rows
    );
    Ok((partitions, rows))
}

async fn read_all(folder: PathBuf) -> Result<u64, sstable::Error> {
    let mut count = 0;
    for table in samples::tables() {
        let dir = folder.join("ks").join(format!("{}-{:032x}", table.name, table.id.0));
        for entry in runtime::file::read_dir(&dir).await.unwrap_or_default() {
            if let Some((name, sstable::Component::Data)) = Descriptor::of_file_name(&entry.name) {
                read(&dir, name, table.clone()).await?;
                count += 1;
            }
        }
    }
    Ok(count)
}

fn main() -> std::process::ExitCode {
    let folder = PathBuf::from(std::env::args().nth(1).expect("the folder to read from"));
    let config = runtime::Config { pin: false, overprovisioned: true, ..runtime::Config::new(1) };
    let main: runtime::Main = Arc::new(move || {
        let folder = folder.clone();
        Box::pin(async move {
            match read_all(folder).await {
                Ok(count) if count > 0 => 0,
                Ok(_) => {
                    eprintln!("no sstables were found");
                    1
                }
                Err(error) => {
                    eprintln!("{error}");
                    1
                }
            }
        })
    });
    std::process::ExitCode::from(u8::from(runtime::run(config, main) != 0))
}
