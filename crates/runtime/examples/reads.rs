//! What a direct read costs: some tasks read random blocks of a file. Prints reads per second and processor time per
//! read. Makes the file when it is missing and leaves it.
//!
//! `reads <file> [tasks] [seconds]`

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests and measurements look at the operating system directly"
)]

use runtime::file::{AlignedBuf, File, OpenOptions};
use runtime::{Config, Group, now, random_u64, spawn};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 1 << 16;

fn argument(index: usize, default: u64) -> u64 {
    std::env::args().nth(index).map_or(default, |v| v.parse().expect("a number"))
}

/// Nanoseconds on the processor of all threads of this process.
fn cpu_ns() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("lists threads");
    let time = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    threads.flatten().filter_map(|t| time(t.path())).sum()
}

async fn measure(path: String) -> std::io::Result<()> {
    let (tasks, limit) = (argument(2, 64), Duration::from_secs(argument(3, 2)));
    let file = File::open(&path, OpenOptions::CREATE.with_direct()).await?;
    if file.size().await? < BLOCK * BLOCKS {
        for chunk in 0..BLOCKS / 256 {
            file.write_at(chunk * 256 * BLOCK, AlignedBuf::zeroed(256 * BLOCK as usize)).await?;
        }
        file.sync_data().await?;
    }
    let reads = Rc::new(Cell::new(0u64));
    let (start, cpu) = (now(), cpu_ns());
    let readers: Vec<_> = (0..tasks)
        .map(|_| {
            let (file, reads) = (file.clone(), reads.clone());
            spawn(Group::QUERY, async move {
                let mut buffer = AlignedBuf::zeroed(BLOCK as usize);
                while now() - start < limit {
                    let count;
                    (buffer, count) = file.read_at(random_u64() % BLOCKS * BLOCK, buffer).await?;
                    assert_eq!(count as u64, BLOCK);
                    reads.set(reads.get() + 1);
                }
                Ok::<(), std::io::Error>(())
            })
        })
        .collect();
    for reader in readers {
        reader.await?;
    }
    let (wall, used, reads) = ((now() - start).as_secs_f64(), cpu_ns() - cpu, reads.get().max(1));
    println!(
        "{tasks} readers: {:.0} reads/s, {} ns of processor time each",
        reads as f64 / wall,
        used / reads
    );
    Ok(())
}

fn main() {
    let path = std::env::args().nth(1).expect("the name of a file to read");
    let main: runtime::Main = Arc::new(move || {
        let path = path.clone();
        Box::pin(async move {
            match measure(path).await {
                Ok(()) => 0,
                Err(error) => {
                    runtime::error!("{error}");
                    1
                }
            }
        })
    });
    std::process::exit(runtime::run(Config { pin: false, overprovisioned: true, ..Config::new(1) }, main));
}
