//! In simulation: power cuts while an sstable is written, and a reader that has been made to ignore checksums.

use mutation::{Slice, TokenRange};
use runtime::Bug;
use runtime::sim::{NodeId, SimConfig, World};
use sstable::{Component, Error, Reader, Version};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::samples::{self, Amount};
use crate::{first, table};

const DIR: &str = "/data/t";
/// Of the files that are cut short and flipped.
const VERSION: Version = Version::Da;
const LIMIT: Duration = Duration::from_secs(60);

fn world(seed: u64) -> (World, NodeId) {
    let mut world = World::new(seed, SimConfig::drawn(seed));
    let node = world.add_node(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    (world, node)
}

fn boot(world: &mut World, node: NodeId) {
    world.boot(
        node,
        1,
        Arc::new(|| {
            Box::pin(async {
                runtime::shutdown_requested().await;
                0
            })
        }),
    );
}

async fn write() -> Result<sstable::Meta, Error> {
    runtime::file::create_dir_all(DIR).await.unwrap();
    runtime::file::sync_dir("/data").await.unwrap();
    runtime::file::sync_dir("/").await.unwrap();
    let table = table("collections");
    let partitions = samples::partitions(&table, 9, Amount { partitions: 60, rows: 20, value_bytes: 200 });
    samples::write(Path::new(DIR), VERSION, 1, &table, &partitions).await
}

/// All mutations as bytes.
async fn read() -> Result<Vec<Vec<u8>>, Error> {
    let reader = Reader::open(Path::new(DIR), first(VERSION), table("collections")).await?;
    let mut scanner = reader.scan(TokenRange::ALL);
    let mut all = Vec::new();
    while let Some(scanned) = scanner.next(&[Slice::all()], usize::MAX).await? {
        all.push(scanned.slice.mutation.into_bytes());
    }
    Ok(all)
}

#[test]
fn a_power_cut_leaves_a_whole_sstable_or_none_with_a_list() {
    let (mut whole_ones, mut unfinished) = (0, 0);
    for seed in 0..60 {
        let (mut world, node) = world(seed);
        boot(&mut world, node);
        let done = Rc::new(RefCell::new(false));
        let inside = done.clone();
        world.spawn(node, async move {
            write().await.unwrap();
            *inside.borrow_mut() = true;
        });
        // The longest take a few dozen milliseconds; every tenth runs to its end.
        let limit = if seed % 10 == 0 { LIMIT } else { Duration::from_micros(1 + seed * 397 % 20_000) };
        let finished = done.clone();
        world.run_until(|_| *finished.borrow(), limit);
        world.power_cut(node);
        boot(&mut world, node);
        let toc = Component::Toc.path(Path::new(DIR), first(VERSION));
        let listed = world.files(node).iter().any(|(path, _)| Path::new(path) == toc);
        assert!(listed || !*done.borrow(), "seed {seed}: finished and gone");
        let mut task = world.spawn(node, read());
        assert!(world.run_until(|_| task.done(), LIMIT));
        match task.take().expect("it is done") {
            Ok(all) => whole_ones += usize::from(!all.is_empty()),
            Err(error) => {
                assert!(!listed, "seed {seed}: {error} in an sstable that is listed as complete");
                unfinished += 1;
            }
        }
    }
    assert!(whole_ones > 5 && unfinished > 5, "{whole_ones} whole, {unfinished} unfinished: both happen");
}

#[test]
fn a_reader_that_ignores_checksums_is_found_out() {
    let (mut world, node) = world(5);
    boot(&mut world, node);
    let mut task = world.spawn(node, async {
        write().await.unwrap();
        read().await.unwrap()
    });
    assert!(world.run_until(|_| task.done(), LIMIT));
    let sound = task.take().expect("it is done");
    let path = Component::Data.path(Path::new(DIR), first(VERSION));
    let path = path.to_str().expect("it is ASCII");
    let (mut refused, mut accepted) = (0, 0);
    for offset in (200..4000).step_by(211) {
        for planted in [false, true] {
            let (mut world, node) = self::world(5);
            boot(&mut world, node);
            if planted {
                world.plant(node, Bug::IgnoreCrc);
            }
            let task = world.spawn(node, write());
            assert!(world.run_until(|_| task.done(), LIMIT));
            assert!(world.flip_bit(node, path, offset, 3));
            let mut task = world.spawn(node, read());
            assert!(world.run_until(|_| task.done(), LIMIT));
            match task.take().expect("it is done") {
                Err(Error::Corrupt { file, .. }) => {
                    assert!(file.to_str() == Some(path));
                    refused += usize::from(!planted);
                }
                Err(error) => panic!("{error}"),
                Ok(all) => {
                    assert!(planted, "a flipped bit went unnoticed");
                    accepted += usize::from(all != sound);
                }
            }
        }
    }
    assert!(refused == 19 && accepted > 0, "{refused} refused, {accepted} accepted");
}

/// Reads all that can be read; errors are fine, as long as it ends.
async fn read_what_is_there(version: Version, table: Arc<schema::Table>, keys: Vec<(Vec<u8>, base::Token)>) {
    let Ok(reader) = Reader::open(Path::new(DIR), first(version), table).await else { return };
    let mut scanner = reader.scan(TokenRange::ALL);
    while let Ok(Some(_)) = scanner.next(&[Slice::all()], 5_000).await {}
    for (key, token) in keys {
        for reversed in [false, true] {
            let _ = reader.read_partition(&key, token, &[Slice::all()], reversed, 5_000).await;
        }
    }
}

#[test]
fn nothing_panics_even_when_checksums_are_ignored() {
    let mut rng = base::Prng::new(23);
    for (index, table) in samples::tables().into_iter().enumerate() {
        let version = [Version::Nb, Version::Da][index % 2];
        let (mut world, node) = world(1);
        boot(&mut world, node);
        world.plant(node, Bug::IgnoreCrc);
        let partitions =
            samples::partitions(&table, 4, Amount { partitions: 12, rows: 60, value_bytes: 400 });
        let keys: Vec<_> =
            partitions.iter().map(|partition| (partition.key.clone(), partition.token)).collect();
        let inside = table.clone();
        let mut task = world.spawn(node, async move {
            let dir = Path::new(DIR);
            runtime::file::create_dir_all(DIR).await.unwrap();
            samples::write(dir, version, 1, &inside, &partitions).await.unwrap();
            runtime::file::remove(Component::Checksums.path(dir, first(version))).await.unwrap();
            let parts = [
                Component::Data,
                Component::Index,
                Component::Summary,
                Component::Partitions,
                Component::Rows,
                Component::CompressionInfo,
            ];
            let mut files = Vec::new();
            for part in parts {
                let path = part.path(dir, first(version));
                if let Ok(bytes) = runtime::file::read(&path).await
                    && !bytes.is_empty()
                {
                    files.push((path, bytes));
                }
            }
            files
        });
        assert!(world.run_until(|_| task.done(), LIMIT));
        let files = task.take().expect("it is done");
        for _ in 0..40 {
            let (path, sound) = &files[rng.below(files.len() as u64) as usize];
            let mut broken = sound.clone();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(broken.len() as u64) as usize;
                broken[at] = rng.below(256) as u8;
            }
            let (path, sound, table, keys) = (path.clone(), sound.clone(), table.clone(), keys.clone());
            let task = world.spawn(node, async move {
                runtime::file::replace_atomic(&path, &broken).await.unwrap();
                read_what_is_there(version, table, keys).await;
                runtime::file::replace_atomic(&path, &sound).await.unwrap();
            });
            assert!(world.run_until(|_| task.done(), Duration::from_secs(3600)), "a read that does not end");
        }
    }
}
