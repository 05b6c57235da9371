//! The scheduler over simulated disks: rates and shares are kept exactly, whoever gives up gives its turn away.

use super::{DeviceLimits, limit_devices};
use crate::file::{AlignedBuf, File, OpenOptions};
use crate::limits::{IO_DEPTH, IO_REQUEST_REST, READ_BUFFERS_KEPT_BYTES};
use crate::sim::{NodeId, SimConfig, World, main_of};
use crate::{Bug, Group, spawn};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const BLOCK: usize = 64 * 1024;

fn world(config: SimConfig) -> (World, NodeId) {
    let mut world = World::new(7, config);
    let node = world.add_node([10, 0, 0, 1].into());
    let main = main_of(|| async {
        crate::shutdown_requested().await;
        0
    });
    world.boot(node, 1, main);
    (world, node)
}

fn run<T: 'static>(world: &mut World, node: NodeId, future: impl Future<Output = T> + 'static) -> T {
    let mut task = world.spawn(node, future);
    assert!(world.run_until(|_| task.done(), Duration::from_secs(600)), "the task ends");
    task.take().expect("it is done")
}

async fn file(blocks: usize) -> File {
    let options = OpenOptions::CREATE.with_direct();
    let file = File::open("/data/file", options).await;
    let file = match file {
        Ok(file) => file,
        Err(_) => {
            crate::file::create_dir_all("/data").await.unwrap();
            File::open("/data/file", options).await.unwrap()
        }
    };
    for block in 0..blocks {
        let buffer = AlignedBuf::from(&[block as u8; BLOCK][..]);
        file.write_at((block * BLOCK) as u64, buffer).await.unwrap();
    }
    file
}

/// Reads blocks one after the other, `streams` at a time, until told to stop; counts bytes.
fn readers(group: Group, file: &File, streams: usize, stop: &Rc<Cell<bool>>) -> Rc<Cell<u64>> {
    let bytes = Rc::new(Cell::new(0));
    for stream in 0..streams {
        let (file, stop, bytes) = (file.clone(), stop.clone(), bytes.clone());
        drop(spawn(group, async move {
            while !stop.get() {
                let piece = file.read_piece((stream % 4 * BLOCK) as u64, BLOCK).await.unwrap();
                bytes.set(bytes.get() + piece.len() as u64);
            }
        }));
    }
    bytes
}

fn near(got: u64, wanted: u64, percent: u64) -> bool {
    got.abs_diff(wanted) * 100 <= wanted * percent
}

#[test]
fn a_limited_device_is_used_to_its_limit_and_divided_by_shares() {
    let (mut world, node) = world(SimConfig::calm());
    run(&mut world, node, async {
        let file = file(4).await;
        limit_devices(DeviceLimits { bytes_per_second: 50_000_000, requests_per_second: 0 });
        let stop = Rc::new(Cell::new(false));
        let query = readers(Group::QUERY, &file, 40, &stop);
        let compaction = readers(Group::COMPACTION, &file, 40, &stop);
        crate::sleep(Duration::from_secs(2)).await;
        let (queries, compactions) = (query.get(), compaction.get());
        assert!(near(queries + compactions, 100_000_000, 5), "{queries} + {compactions}");
        assert!(near(queries, compactions * 5, 8), "1000 shares against 200: {queries}, {compactions}");
        // The limit goes: what waits goes on at once.
        limit_devices(DeviceLimits::default());
        crate::sleep(Duration::from_millis(1)).await;
        assert!(query.get() > queries + 40 * BLOCK as u64, "{}", query.get());
        stop.set(true);
    });
}

#[test]
fn requests_are_limited_too_and_writes_count() {
    let (mut world, node) = world(SimConfig::calm());
    run(&mut world, node, async {
        let file = file(4).await;
        limit_devices(DeviceLimits { bytes_per_second: 0, requests_per_second: 500 });
        let start = crate::now();
        for block in 0..250u64 {
            file.write_at(block % 4 * BLOCK as u64, AlignedBuf::zeroed(4096)).await.unwrap();
            file.sync_data().await.unwrap();
        }
        let took = crate::now().since(start);
        assert!(Duration::from_millis(980) < took && took < Duration::from_millis(1400), "{took:?}");
    });
}

/// A chunk of an sstable begins anywhere, and the blocks around it are read.
#[test]
fn reads_count_with_all_blocks_they_take() {
    let (mut world, node) = world(SimConfig::calm());
    run(&mut world, node, async {
        let file = file(4).await;
        limit_devices(DeviceLimits { bytes_per_second: 4_096_000, requests_per_second: 0 });
        let (before, start) = (super::started(Group::QUERY), crate::now());
        let reads = (0..250).map(|_| {
            let file = file.clone();
            spawn(Group::QUERY, async move { file.read_piece(4_095, 4_098).await.map(|piece| piece.len()) })
        });
        for read in reads.collect::<Vec<_>>() {
            assert_eq!(read.await.unwrap(), 4_098);
        }
        let (after, took) = (super::started(Group::QUERY), crate::now().since(start));
        assert_eq!((after.0 - before.0, after.1 - before.1), (250, 250 * 3 * 4_096));
        assert!(Duration::from_millis(730) < took && took < Duration::from_millis(770), "{took:?}");
    });
}

#[test]
fn a_slow_disk_is_shared_fairly_and_its_queue_is_bounded() {
    let config = SimConfig { disk_bytes_per_second: 50_000_000, ..SimConfig::calm() };
    let (mut world, node) = world(config);
    run(&mut world, node, async {
        let file = file(4).await;
        let stop = Rc::new(Cell::new(false));
        // More than the depth, so that the scheduler and not the disk decides.
        let flush = readers(Group::FLUSH, &file, 4 * IO_DEPTH, &stop);
        let streaming = readers(Group::STREAMING, &file, 4 * IO_DEPTH, &stop);
        crate::sleep(Duration::from_secs(4)).await;
        let (flush, streaming) = (flush.get(), streaming.get());
        assert!(near(flush + streaming, 200_000_000, 5), "{flush} + {streaming}");
        assert!(near(flush, streaming * 2, 8), "400 shares against 200: {flush}, {streaming}");
        stop.set(true);
    });
}

/// What a compaction asks for while it writes and reads a mebibyte: requests, and how long a small read waits at most meanwhile.
fn a_large_write_beside(readers: bool, planted: bool) -> (u64, Duration) {
    const LARGE: usize = 1024 * 1024;
    let config = SimConfig { disk_bytes_per_second: 50_000_000, ..SimConfig::calm() };
    let (mut world, node) = world(config);
    if planted {
        world.plant(node, Bug::BackgroundUnbounded);
    }
    run(&mut world, node, async move {
        let file = file(64).await;
        crate::sleep(2 * IO_REQUEST_REST).await;
        let (stop, longest) = (Rc::new(Cell::new(!readers)), Rc::new(Cell::new(Duration::ZERO)));
        let (reads, stopped, seen) = (file.clone(), stop.clone(), longest.clone());
        let reader = spawn(Group::QUERY, async move {
            while !stopped.get() {
                let start = crate::now();
                reads.read_piece(7, 4_000).await.unwrap();
                seen.set(seen.get().max(crate::now().since(start)));
                crate::sleep(Duration::from_millis(3)).await;
            }
        });
        crate::sleep(Duration::from_millis(300)).await;
        longest.set(Duration::ZERO);
        let before = super::started(Group::COMPACTION).0;
        let compaction = spawn(Group::COMPACTION, async move {
            let mut bytes = vec![0; LARGE];
            base::Prng::new(5).fill(&mut bytes);
            let written = file.write_at(4096, AlignedBuf::from(&bytes[..])).await.unwrap();
            assert!(written[..] == bytes[..]);
            let piece = file.read_piece(5_001, LARGE - 2_000).await.unwrap();
            assert!(piece[..] == bytes[905..][..LARGE - 2_000]);
            let (read, count) = file.read_at(4096, AlignedBuf::zeroed(64 * BLOCK)).await.unwrap();
            assert!(count == 64 * BLOCK - 4096 && read.len() == 64 * BLOCK && read[..LARGE] == bytes[..]);
        });
        compaction.await;
        stop.set(true);
        reader.await;
        (super::started(Group::COMPACTION).0 - before, longest.get())
    })
}

#[test]
fn the_background_goes_in_pieces_while_somebody_waits_for_others() {
    let (requests, _) = a_large_write_beside(false, false);
    assert_eq!(requests, 3, "nobody else is about");
    let (requests, longest) = a_large_write_beside(true, false);
    assert!((80..200).contains(&requests), "{requests}");
    assert!(longest < Duration::from_millis(3), "{longest:?}");
    let (requests, longest) = a_large_write_beside(true, true);
    assert!(requests == 3 && longest > Duration::from_millis(20), "{requests}, {longest:?}");
}

#[test]
fn who_gives_up_before_or_at_its_turn_gives_it_away() {
    for polls in 0..6 {
        let (mut world, node) = world(SimConfig::drawn(polls as u64));
        run(&mut world, node, async move {
            let file = file(4).await;
            limit_devices(DeviceLimits { bytes_per_second: 5_000_000, requests_per_second: 0 });
            for round in 0..40 {
                let file = file.clone();
                let mut left = polls + round % 3;
                drop(spawn(Group::QUERY, async move {
                    let mut read = Box::pin(file.read_piece(0, 4096));
                    std::future::poll_fn(|context| match read.as_mut().poll(context) {
                        std::task::Poll::Pending if left > 0 => {
                            left -= 1;
                            std::task::Poll::Pending
                        }
                        _ => std::task::Poll::Ready(()),
                    })
                    .await;
                }));
            }
            let reads: Vec<_> = (0..40)
                .map(|_| {
                    let file = file.clone();
                    spawn(Group::QUERY, async move { file.read_piece(0, 4096).await.map(|p| p.len()) })
                })
                .collect();
            for read in reads {
                assert_eq!(read.await.unwrap(), 4096);
            }
            // Whatever was abandoned: the room is there again.
            crate::sleep(Duration::from_secs(1)).await;
            limit_devices(DeviceLimits::default());
            let start = crate::now();
            let all: Vec<_> = (0..IO_DEPTH)
                .map(|_| {
                    let file = file.clone();
                    spawn(Group::QUERY, async move { file.read_piece(0, 4096).await.is_ok() })
                })
                .collect();
            for read in all {
                assert!(read.await);
            }
            assert!(crate::now().since(start) < Duration::from_secs(1));
        });
    }
}

#[test]
fn waiting_reads_hold_no_memory() {
    let (mut world, node) = world(SimConfig::calm());
    run(&mut world, node, async {
        let file = file(4).await;
        let kept = || crate::shard::with(|shard| shard.read_buffers.kept_bytes());
        let reads: Vec<_> = (0..5_000)
            .map(|_| {
                let file = file.clone();
                spawn(Group::QUERY, async move { file.read_piece(0, BLOCK).await.map(|p| p.len()) })
            })
            .collect();
        for read in reads {
            assert_eq!(read.await.unwrap(), BLOCK);
        }
        // All memory that reads took went through here, no more at once than the depth allows.
        assert!(0 < kept() && kept() <= READ_BUFFERS_KEPT_BYTES, "{}", kept());
    });
}

#[test]
fn without_direct_operations_files_go_through_the_page_cache_and_one_line_says_so() {
    let (mut world, node) = world(SimConfig::calm());
    world.set_direct(node, false);
    run(&mut world, node, async {
        let first = file(2).await;
        assert!(!first.is_direct());
        let again = File::open("/data/file", OpenOptions::READ.with_direct()).await.unwrap();
        assert!(!again.is_direct());
        assert_eq!(again.read_exact_at(BLOCK as u64 - 3, 5).await.unwrap(), [0, 0, 0, 1, 1]);
        let error = again.read_exact_at(2 * BLOCK as u64 - 3, 5).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    });
    let lines = world.log_lines();
    assert_eq!(lines.iter().filter(|(_, line)| line.contains("no direct operations")).count(), 1);
}

#[test]
fn a_read_that_fails_is_told_and_the_next_one_is_not() {
    let (mut world, node) = world(SimConfig::calm());
    let handle = run(&mut world, node, file(2));
    world.fail_reads(node, 1);
    let read = handle.clone();
    assert!(run(&mut world, node, async move { read.read_piece(1, 2).await.is_err() }));
    assert!(run(&mut world, node, async move { handle.read_piece(1, 2).await.is_ok() }));
}
