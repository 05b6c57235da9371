//! Windows over simulated disks: whatever the cache holds, whoever gives up and whatever fails, what is read is
//! what the file holds or an error, and nobody waits forever.

use super::*;
use crate::compression::{Compression, Compressor};
use crate::cursor::Fault;
use crate::sink::DataSink;
use crate::trie::Pages;
use crate::version::Version;
use base::Prng;
use runtime::sim::{NodeId, SimConfig, World, main_of};
use runtime::{Group, poll_now, spawn};
use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);
const PATH: &str = "/data/nb-1-big-Data.db";

/// Byte `at` of every test file: runs of four, so that it compresses a little.
fn byte(at: u64) -> u8 {
    ((at / 4).wrapping_mul(0x9e37_79b9) >> 13) as u8
}

fn content(start: u64, size: usize) -> Vec<u8> {
    (start..start + size as u64).map(byte).collect()
}

fn world(seed: u64, config: SimConfig) -> (World, NodeId) {
    let mut world = World::new(seed, config);
    let node = world.add_node([10, 0, 0, 1].into());
    let main = main_of(|| async {
        runtime::shutdown_requested().await;
        0
    });
    world.boot(node, 1, main);
    (world, node)
}

fn run<T: 'static>(world: &mut World, node: NodeId, future: impl Future<Output = T> + 'static) -> T {
    let mut task = world.spawn(node, future);
    assert!(world.run_until(|_| task.done(), LIMIT), "the task ends");
    task.take().expect("it is done")
}

/// A file of so many plain bytes: chunks of `chunk` bytes, or pages with checksums.
async fn source(size: usize, chunk: Option<usize>) -> Rc<Source> {
    runtime::file::create_dir_all("/data").await.unwrap();
    let path = PathBuf::from(PATH);
    let source = match chunk {
        Some(chunk) => {
            let mut sink = DataSink::create(path.clone(), Some(lz4(chunk))).await.unwrap();
            sink.append(&content(0, size));
            let summary = sink.finish(Version::Nb).await.unwrap();
            let info = summary.compression.unwrap();
            Source::compressed(path, |stored| {
                CompressionInfo::decode(Path::new("info"), Version::Nb, &info, stored)
            })
            .await
        }
        None => {
            crate::sink::Sink::whole(&path, content(0, size)).await.unwrap();
            let crcs = content(0, size).chunks(4096).map(base::crc32).collect();
            Source::plain(path, Some((4096, crcs)), Content::Index).await
        }
    };
    Rc::new(source.unwrap())
}

fn lz4(chunk_length: usize) -> Compression {
    Compression {
        compressor: Compressor::Lz4,
        options: Vec::new(),
        chunk_length,
        max_compressed_length: i32::MAX as u32,
    }
}

/// A data file appended in pieces of so many bytes, drained now and then: its digest and sizes.
async fn appended(chunk: Option<usize>, pieces: &[usize], drain_every: usize) -> (u32, u64, u64) {
    runtime::file::create_dir_all("/data").await.unwrap();
    let mut sink = DataSink::create(PathBuf::from(PATH), chunk.map(lz4)).await.unwrap();
    let whole = content(7, pieces.iter().sum());
    let mut rest = &whole[..];
    for (index, size) in pieces.iter().enumerate() {
        let (piece, behind) = rest.split_at(*size);
        sink.append(piece);
        rest = behind;
        assert_eq!(sink.position() as usize, whole.len() - rest.len());
        if (index + 1) % drain_every == 0 {
            sink.drain().await.unwrap();
            assert!(sink.pending() < 300_000, "{} bytes pending", sink.pending());
        }
    }
    let summary = sink.finish(Version::Nb).await.unwrap();
    assert_eq!(summary.plain_bytes as usize, whole.len());
    (summary.digest, summary.plain_bytes, summary.stored_bytes)
}

#[test]
fn a_file_is_the_same_however_large_the_pieces_are_that_it_is_made_of() {
    for seed in 0..40 {
        let mut rng = Prng::new(seed);
        let chunk = [None, Some(4096), Some(16 * 1024)][rng.below(3) as usize];
        let large = |rng: &mut Prng| if rng.chance(0.3) { rng.below(400_000) } else { rng.below(900) };
        let pieces: Vec<usize> = (0..20).map(|_| large(&mut rng) as usize).collect();
        let all: usize = pieces.iter().sum();
        let small: Vec<usize> = (0..all).step_by(999).map(|at| 999.min(all - at)).collect();
        let drain_every = 1 + rng.below(5) as usize;
        let (mut world, node) = world(1, SimConfig::calm());
        let in_large = run(&mut world, node, async move { appended(chunk, &pieces, drain_every).await });
        let in_small = run(&mut world, node, async move { appended(chunk, &small, usize::MAX).await });
        assert_eq!(in_large, in_small, "seed {seed}");
    }
}

/// Writes so many pieces to a file, going on after errors as no caller does; what `finish` says.
async fn write_pieces(pieces: usize) -> (usize, bool) {
    runtime::file::create_dir_all("/data").await.unwrap();
    let mut sink = crate::sink::Sink::create(PathBuf::from(PATH)).await.unwrap();
    let mut failed = 0;
    for piece in 0..pieces {
        sink.buffer().extend(content(piece as u64, 200_000));
        failed += usize::from(sink.drain().await.is_err());
    }
    (failed, sink.finish().await.is_ok())
}

#[test]
fn a_file_that_misses_a_piece_is_never_finished() {
    for (disk_bytes, whole) in [(64 << 20, true), (600_000, false), (1_000_000, false)] {
        let (mut world, node) = world(1, SimConfig { disk_bytes, ..SimConfig::calm() });
        let (failed, finished) = run(&mut world, node, write_pieces(10));
        assert_eq!((failed == 0, finished), (whole, whole), "{disk_bytes} bytes of disk, {failed} errors");
    }
}

fn budget(bytes: usize) {
    Cache::of_shard().set_budget(bytes);
}

/// Seeks, steps and reads at random, and compares.
async fn wander(source: Rc<Source>, seed: u64, steps: u32) {
    let mut rng = Prng::new(seed);
    let size = source.length();
    let start = rng.below(size);
    let mut window = if rng.chance(0.5) { Window::scan(source, start) } else { Window::point(source, start) };
    for _ in 0..steps {
        match rng.below(10) {
            0 => window.seek(rng.below(size + 100)),
            1..=3 => window.consume(rng.below(3_000)),
            4 => window.consume(rng.below(200_000)),
            5 => window.expect(rng.below(50_000)),
            _ => {
                let wanted = if rng.chance(0.1) { rng.below(100_000) } else { rng.below(600) };
                let position = window.position();
                match window.require(wanted).await {
                    Ok(()) => {
                        let rest = window.rest();
                        assert!(rest.len() as u64 >= wanted);
                        assert!(rest == content(position, rest.len()), "at {position}");
                    }
                    Err(error) => assert!(position.saturating_add(wanted) > size, "{error}"),
                }
            }
        }
    }
}

#[test]
fn windows_read_what_the_file_holds_whatever_is_cached() {
    for seed in 0..24 {
        let (mut world, node) = world(seed, SimConfig::drawn(seed));
        world.set_direct(node, seed % 5 != 0);
        run(&mut world, node, async move {
            let mut rng = Prng::new(seed);
            budget([0, 20_000, 200_000, 8 << 20][(seed % 4) as usize]);
            let chunk = [None, Some(4096), Some(16 * 1024), Some(64 * 1024)][rng.below(4) as usize];
            let source = source(1 + rng.below(500_000) as usize, chunk).await;
            let groups = [Group::QUERY, Group::COMPACTION, Group::QUERY, Group::STREAMING];
            let tasks: Vec<_> = (0..8)
                .map(|n| spawn(groups[n as usize % 4], wander(source.clone(), seed << 8 | n, 150)))
                .collect();
            for task in tasks {
                task.await;
            }
            let cache = Cache::of_shard();
            assert!(cache.stats().bytes <= cache.stats().budget);
            drop(source);
            // Reads ahead that nobody waits for any more keep the file open until they end.
            runtime::sleep(Duration::from_secs(1)).await;
            assert_eq!((cache.stats().bytes, cache.stats().blocks), (0, 0), "a closed file leaves nothing");
        });
    }
}

#[test]
fn one_read_serves_all_who_ask_and_a_cached_block_needs_no_waiting() {
    let (mut world, node) = world(1, SimConfig::calm());
    run(&mut world, node, async {
        let source = source(200_000, Some(16 * 1024)).await;
        let before = Cache::of_shard().stats();
        assert!(poll_now(source.block(3, 3, Purpose::Request)).is_none(), "not in memory; a read began");
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let source = source.clone();
                spawn(Group::QUERY, async move { source.block(3, 3, Purpose::Request).await })
            })
            .collect();
        for task in tasks {
            assert!(task.await.unwrap()[..] == content(3 * 16 * 1024, 16 * 1024)[..]);
        }
        let after = Cache::of_shard().stats();
        assert_eq!((after.misses - before.misses, after.joined - before.joined), (51, 50));
        assert!(after.read_bytes - before.read_bytes <= 16 * 1024 + 100);
        let mut window = Window::point(source.clone(), 3 * 16 * 1024 + 100);
        assert!(poll_now(window.require(1000)).is_some_and(|done| done.is_ok()));
        let short = |bytes: &[u8]| match bytes.first() {
            Some(byte) => Ok(*byte),
            None => Err(Fault::Short { at: 0, wanted: 1 }),
        };
        assert_eq!(poll_now(window.decode(short)).unwrap().unwrap(), byte(3 * 16 * 1024 + 100));
        window.seek(0);
        assert!(poll_now(window.decode(short)).is_none());
        assert_eq!(window.decode(short).await.unwrap(), byte(0));
    });
}

/// Polls a future so many times, then drops it.
async fn cut<T>(future: impl Future<Output = T>, mut polls: u32) -> Option<T> {
    let mut future = Box::pin(future);
    poll_fn(|context| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[test]
fn who_goes_away_takes_nothing_from_the_others_at_any_step() {
    for seed in 0..40u64 {
        let slow = SimConfig { disk_bytes_per_second: 20_000_000, ..SimConfig::drawn(seed) };
        let (mut world, node) = world(seed, slow);
        let failing = seed % 3 == 1;
        let handle = run(&mut world, node, async move {
            budget(if seed % 2 == 0 { 60_000 } else { 0 });
            source(300_000, if seed % 4 < 2 { Some(8192) } else { None }).await
        });
        if failing {
            world.fail_reads(node, 5);
        }
        run(&mut world, node, async move {
            let failures = Rc::new(Cell::new(0));
            let mut tasks = Vec::new();
            for reader in 0..120u64 {
                let (source, failures) = (handle.clone(), failures.clone());
                let mut rng = Prng::new(seed << 20 | reader);
                tasks.push(spawn(Group::QUERY, async move {
                    for _ in 0..6 {
                        let first = rng.below(20) as u32;
                        let read = source.block(first, first + rng.below(4) as u32, Purpose::Request);
                        let polls = if reader % 3 == 0 { u32::MAX } else { rng.below(4) as u32 };
                        let start = u64::from(first) * source.block_length();
                        match cut(read, polls).await {
                            Some(Ok(block)) => assert!(block[..] == content(start, block.len())[..]),
                            Some(Err(error)) => {
                                assert!(error.to_string().contains("read"), "{error}");
                                failures.set(failures.get() + 1);
                            }
                            None => assert!(polls < u32::MAX),
                        }
                        if rng.chance(0.3) {
                            runtime::sleep(Duration::from_micros(rng.below(500))).await;
                        }
                    }
                }));
            }
            for task in tasks {
                task.await;
            }
            // A read that failed is told to one reader, be it by its own attempt after another's failed.
            assert!(failures.get() <= if failing { 5 } else { 0 }, "{}", failures.get());
            runtime::sleep(Duration::from_secs(2)).await;
            assert_eq!(handle.block(0, 0, Purpose::Request).await.unwrap()[..8], content(0, 8)[..]);
        });
    }
}

#[test]
fn a_failed_read_fails_one_reader_and_the_others_read_again() {
    let (mut world, node) = world(5, SimConfig::calm());
    let source = run(&mut world, node, source(100_000, None));
    world.fail_reads(node, 1);
    run(&mut world, node, async move {
        let read = |source: Rc<Source>| async move { source.block(2, 2, Purpose::Request).await.is_ok() };
        let tasks: Vec<_> = (0..20).map(|_| spawn(Group::QUERY, read(source.clone()))).collect();
        let mut failed = 0;
        for task in tasks {
            failed += u32::from(!task.await);
        }
        assert_eq!(failed, 1);
    });
}

#[test]
fn a_flipped_bit_is_told_to_everyone_and_never_cached() {
    for chunk in [None, Some(4096)] {
        let (mut world, node) = world(6, SimConfig::calm());
        let source = run(&mut world, node, source(60_000, chunk));
        assert!(world.flip_bit(node, PATH, 700, 3));
        let again = source.clone();
        run(&mut world, node, async move {
            for group in [Group::QUERY, Group::COMPACTION] {
                let read = |source: Rc<Source>| async move { Window::scan(source, 0).require(30_000).await };
                let tasks: Vec<_> = (0..10).map(|_| spawn(group, read(source.clone()))).collect();
                for task in tasks {
                    let error = task.await.unwrap_err();
                    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                }
            }
        });
        assert!(world.flip_bit(node, PATH, 700, 3));
        run(&mut world, node, async move {
            assert!(again.block(0, 0, Purpose::Request).await.unwrap()[..] == content(0, 4096)[..]);
        });
    }
}

#[test]
fn a_file_that_was_cut_or_removed_is_an_error_or_read_to_its_end() {
    let (mut world, node) = world(7, SimConfig::calm());
    run(&mut world, node, async {
        let source = source(100_000, None).await;
        let file = File::open(PATH, OpenOptions { write: true, ..OpenOptions::READ }).await.unwrap();
        file.truncate(50_000).await.unwrap();
        let mut window = Window::point(source.clone(), 49_000);
        let error = window.require(5_000).await.unwrap_err();
        assert!(error.to_string().contains("end of the file"), "{error}");
        runtime::file::remove(PATH).await.unwrap();
        assert!(Window::point(source, 1).require(10).await.is_ok(), "open files outlive their names");
        let gone = Source::plain(PATH.into(), None, Content::Index).await.err().unwrap();
        assert!(matches!(gone, Error::Io { .. }), "{gone}");
    });
}

/// A scan's time with a disk that needs a millisecond for each read.
fn scan_time(group: Group) -> (Duration, usize) {
    let milli = Duration::from_millis(1);
    let config = SimConfig { disk_read: (milli, milli), ..SimConfig::calm() };
    let (mut world, node) = world(8, config);
    run(&mut world, node, async move {
        budget(1 << 20);
        let source = source(4 << 20, Some(16 * 1024)).await;
        let task = spawn(group, async move {
            let start = runtime::now();
            let mut window = Window::scan(source.clone(), 0);
            while !window.is_at_end() {
                window.require(100.min(source.length() - window.position())).await.unwrap();
                window.consume(100);
            }
            (runtime::now().since(start), Cache::of_shard().stats().blocks)
        });
        task.await
    })
}

#[test]
fn scans_read_ahead_and_those_that_pass_leave_nothing() {
    let (passing, left) = scan_time(Group::COMPACTION);
    // 32 reads of 128 KiB, two at a time.
    assert!(passing < Duration::from_millis(24), "{passing:?}");
    assert_eq!(left, 0);
    let (requests, left) = scan_time(Group::QUERY);
    assert!(requests < Duration::from_millis(30), "{requests:?}");
    assert!(left > 0);
}

#[test]
fn a_short_scan_reads_little_and_a_lookup_what_it_needs() {
    let (mut world, node) = world(9, SimConfig::calm());
    run(&mut world, node, async {
        let source = source(2 << 20, Some(16 * 1024)).await;
        let read = || Cache::of_shard().stats().read_bytes;
        let before = read();
        Window::point(source.clone(), 500_000).require(200).await.unwrap();
        assert!(read() - before <= 17_000, "{}", read() - before);
        let before = read();
        Window::scan(source.clone(), 1_000_000).require(200).await.unwrap();
        assert!(read() - before <= 34_000, "{}", read() - before);
        // What is known to be wanted comes with one read.
        let misses = Cache::of_shard().stats().misses;
        let mut window = Window::point(source.clone(), 1_500_000);
        window.expect(40_000);
        window.require(40_000).await.unwrap();
        assert!(Cache::of_shard().stats().misses - misses <= 4);
    });
}

#[test]
fn reads_that_nobody_wants_any_more_are_given_up_before_their_turn() {
    let config = SimConfig { disk_bytes_per_second: 4_000_000, ..SimConfig::calm() };
    let (mut world, node) = world(10, config);
    run(&mut world, node, async {
        let source = source(3 << 20, None).await;
        let before = Cache::of_shard().stats().read_bytes;
        let tasks: Vec<_> = (0..700u32)
            .map(|index| {
                let source = source.clone();
                spawn(Group::QUERY, async move {
                    let read = source.block(index, index, Purpose::Request);
                    runtime::timeout(Duration::from_millis(30), read).await.is_ok()
                })
            })
            .collect();
        let mut served = 0;
        for task in tasks {
            served += u64::from(task.await);
        }
        let start = runtime::now();
        assert!(source.block(700, 700, Purpose::Request).await.is_ok());
        let waited = runtime::now().since(start);
        let read = (Cache::of_shard().stats().read_bytes - before) / 4096;
        assert!(served >= 20 && read < 250, "{served} served, {read} read");
        assert!(waited < Duration::from_millis(200), "{waited:?}");
    });
}

#[test]
fn a_look_goes_where_it_is_led_and_runs_again_until_all_is_there() {
    let (mut world, node) = world(11, SimConfig::calm());
    run(&mut world, node, async {
        let source = source(100_000, None).await;
        let runs = Cell::new(0);
        // From each place to one that its bytes name.
        let walk = |look: &mut crate::look::Look| {
            runs.set(runs.get() + 1);
            let mut at = 99_000u64;
            let mut way = Vec::new();
            for _ in 0..6 {
                let bytes = look.bytes(at)?;
                assert!(bytes == content(at, bytes.len()));
                way.push(at);
                at = u64::from(bytes[0]) * 300 + 7;
            }
            Ok(way)
        };
        assert!(poll_now(source.look(walk)).is_none());
        let way = source.look(walk).await.unwrap();
        assert!(runs.get() > 3, "it had to be led");
        runs.set(0);
        assert_eq!(poll_now(source.look(walk)).unwrap().unwrap(), way);
        assert_eq!(runs.get(), 1, "all is cached");
        let error = source.look(|look| look.bytes(100_000).map(<[u8]>::len)).await.unwrap_err();
        assert!(error.to_string().contains("a position below"), "{error}");
        // Nothing is cached: what it has seen it still holds.
        budget(0);
        let every_page = |look: &mut crate::look::Look| {
            (0..24).try_fold(0, |sum, page| Ok(sum + look.bytes(page * 4096)?.len()))
        };
        assert_eq!(source.look(every_page).await.unwrap(), 24 * 4096);
    });
}
