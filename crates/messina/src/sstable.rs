//! `messina sstable`: the offline tools, on the node's own runtime, one shard of it.

use crate::arguments::{Sstable, SstableCommand};
use sstabletools::{DumpOptions, Error, MetadataOptions, Output, Place};
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

/// Whether all was found to be well.
type Done = Result<bool, Error>;

/// Runs one tool. The exit code is 0 when all was well, 1 otherwise.
pub fn run(arguments: &Sstable) -> ExitCode {
    let command = arguments.command.clone();
    let main: runtime::Main = Arc::new(move || {
        let command = command.clone();
        Box::pin(async move { i32::from(!on_shard(command).await) })
    });
    ExitCode::from(loadtools::shard::run(main))
}

async fn on_shard(command: SstableCommand) -> bool {
    let mut stdout = std::io::stdout();
    let mut out = Output::new(&mut stdout);
    let work: Pin<Box<dyn Future<Output = Done> + '_>> = Box::pin(tool(command, &mut out));
    match work.await {
        Ok(well) => well,
        // Whoever read has seen enough.
        Err(Error::Closed) => true,
        Err(error) => {
            eprintln!("messina: {error}");
            false
        }
    }
}

async fn tool(command: SstableCommand, out: &mut Output<'_>) -> Done {
    match command {
        SstableCommand::Dump(dump) => {
            let options = DumpOptions {
                lines_per_row: dump.lines_per_row,
                only_keys: dump.only_keys,
                raw_times: dump.raw_times,
                json_lines: dump.json_lines,
                keys: dump.keys,
                excluded: dump.excluded,
            };
            let place = Place::existing(&dump.file).await?;
            sstabletools::dump(&place, &options, out).await?;
            Ok(true)
        }
        SstableCommand::Metadata(metadata) => {
            let options =
                MetadataOptions { gc_grace_seconds: metadata.gc_grace_seconds, unicode: metadata.unicode };
            for place in sstabletools::places(&metadata.files).await? {
                sstabletools::metadata(&place, &options, out).await?;
            }
            out.flush()?;
            Ok(true)
        }
        SstableCommand::Verify(files) => sstabletools::verify_all(&files.files, out).await,
        SstableCommand::Scrub(files) => {
            sstabletools::scrub(&sstabletools::places(&files.files).await?, out).await
        }
        SstableCommand::List(list) => sstabletools::list(&list.dir, list.json, out).await,
    }
}
