//! What a queue has flushed is read again whatever happens to machine and disk; what it has not is still in its buffer.

use crate::file::{Name, Reader};
use crate::fixture::mutation;
use crate::queue::{Folder, Queue};
use crate::record;
use base::HostId;
use runtime::sim::{NodeId, SimConfig, World, main_of};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use storage::{Planned, Point};

const SECOND: Duration = Duration::from_secs(1);
const TARGET: HostId = HostId(9);
const SALT: u64 = 77;
/// Small, so that files follow each other.
const FILE_BYTES_MAX: u64 = 2_000;

fn boot(world: &mut World, node: NodeId) {
    let idle = || async {
        runtime::sleep(Duration::from_secs(3600)).await;
        0
    };
    world.boot(node, 1, main_of(idle));
    world.run_for(SECOND);
}

fn node(seed: u64) -> (World, NodeId) {
    let mut world = World::new(seed, SimConfig::calm());
    let node = world.add_node([10, 0, 0, 1].into());
    boot(&mut world, node);
    (world, node)
}

fn run<T: 'static>(world: &mut World, node: NodeId, future: impl Future<Output = T> + 'static) -> T {
    let mut task = world.spawn(node, future);
    assert!(world.run_until(|_| task.done(), 100 * SECOND), "it takes too long");
    task.take().expect("it is done")
}

/// A queue on a node. Tasks of one shard share it.
#[derive(Clone)]
struct Kept {
    queue: Rc<Queue>,
    is_made: Rc<Cell<bool>>,
    bytes: Rc<Cell<usize>>,
}

impl Kept {
    fn new() -> Kept {
        let bytes = Rc::new(Cell::new(0));
        Kept { queue: Rc::new(Queue::new(TARGET, bytes.clone())), is_made: Rc::default(), bytes }
    }

    fn push(&self, n: i64) -> u64 {
        let planned = Planned { on: Point::ALONE, at: n };
        let mutations = [mutation(7, &n.to_be_bytes(), &[n as u8; 100])];
        self.queue.push(runtime::now(), |out| record::encode(out, SALT, planned, &mutations))
    }

    async fn flush(&self) -> Result<u64, std::io::Error> {
        let folder = Folder {
            path: Path::new("/data/hints"),
            is_made: &self.is_made,
            salt: SALT,
            file_bytes_max: FILE_BYTES_MAX,
        };
        self.queue.flush(&folder).await
    }
}

/// The times of all hints in the folder, file after file, each with how many stretches are no hints.
async fn found() -> (Vec<i64>, u64) {
    let folder = Path::new("/data/hints");
    let mut files: Vec<(i64, PathBuf)> = Vec::new();
    if runtime::file::exists(folder).await.expect("looked") {
        for entry in runtime::file::read_dir(folder).await.expect("a folder") {
            let name = Name::parse(&entry.name).expect("a name");
            assert_eq!((name.target, name.shard), (TARGET, 0));
            files.push((name.ms, folder.join(entry.name)));
        }
    }
    files.sort();
    let (mut times, mut damaged) = (Vec::new(), 0);
    for (_, path) in files {
        let Some(mut reader) = Reader::open(&path, 0).await.expect("readable") else { continue };
        while let Some(batch) = reader.next(300).await.expect("readable") {
            times.extend(batch.hints.iter().map(|(hint, _)| hint.planned.at));
            damaged += batch.damaged;
        }
    }
    (times, damaged)
}

#[test]
fn what_was_flushed_survives_a_power_cut_and_nothing_else_does() {
    let (mut world, node) = node(1);
    run(&mut world, node, async {
        let kept = Kept::new();
        for n in 0..100 {
            let number = kept.push(n);
            assert!(!kept.queue.is_durable(number));
            if n % 7 == 0 && n < 80 {
                assert!(kept.flush().await.expect("flushed") > 0);
                assert!(kept.queue.is_durable(number));
                assert_eq!(kept.bytes.get(), 0);
            }
        }
        assert!(kept.queue.content().files > 3, "files are no longer than they may be");
    });
    world.power_cut(node);
    boot(&mut world, node);
    let (times, damaged) = run(&mut world, node, found());
    assert_eq!((times, damaged), ((0..78).collect(), 0));
}

#[test]
fn a_power_cut_in_a_flush_leaves_a_prefix_of_it() {
    for seed in 0..40 {
        let (mut world, node) = node(seed);
        world.slow_disk(node, (Duration::from_millis(1), Duration::from_millis(20)));
        let task = world.spawn(node, async {
            let kept = Kept::new();
            for n in 0..10 {
                kept.push(n);
                if n == 2 {
                    kept.flush().await.expect("flushed");
                }
            }
            kept.flush().await.expect("flushed");
        });
        world.run_for(Duration::from_millis(2 * seed));
        world.power_cut(node);
        drop(task);
        boot(&mut world, node);
        let (times, _) = run(&mut world, node, found());
        assert!(
            times.len() <= 10 && times.iter().copied().eq(0..times.len() as i64),
            "seed {seed}: {times:?}"
        );
    }
}

/// A node that has flushed hint 0.
fn with_one_flushed(seed: u64) -> (World, NodeId, Kept) {
    let (mut world, node) = node(seed);
    let kept = run(&mut world, node, async {
        let kept = Kept::new();
        kept.push(0);
        kept.flush().await.expect("flushed");
        kept
    });
    (world, node, kept)
}

#[test]
fn what_cannot_be_synced_is_not_durable_and_goes_to_another_file() {
    let (mut world, node, kept) = with_one_flushed(3);
    world.fail_next_syncs(node, 1);
    let on_node = kept.clone();
    run(&mut world, node, async move {
        let number = on_node.push(1);
        on_node.flush().await.expect_err("the sync fails");
        assert!(!on_node.queue.is_durable(number) && on_node.bytes.get() > 0);
        assert!(on_node.queue.buffered().is_some_and(|buffered| buffered.has_failed));
        let later = on_node.push(2);
        on_node.flush().await.expect("flushed");
        assert!(on_node.queue.is_durable(number) && on_node.queue.is_durable(later));
        assert_eq!((on_node.bytes.get(), on_node.queue.content().files), (0, 2));
    });
    drop(kept);
    world.power_cut(node);
    boot(&mut world, node);
    let (mut times, _) = run(&mut world, node, found());
    times.dedup();
    assert_eq!(times, [0, 1, 2]);
}

#[test]
fn a_full_disk_leaves_what_was_durable_and_keeps_the_rest_in_memory() {
    let (mut world, node, kept) = with_one_flushed(4);
    world.set_capacity(node, 400);
    let on_node = kept.clone();
    run(&mut world, node, async move {
        for n in 1..20 {
            on_node.push(n);
        }
        on_node.flush().await.expect_err("no space");
        assert!(on_node.bytes.get() > 1_000);
    });
    assert_eq!(run(&mut world, node, found()).0, [0], "nothing is left of the attempt");
    world.set_capacity(node, 1 << 20);
    let on_node = kept.clone();
    assert!(run(&mut world, node, async move { on_node.flush().await.expect("flushed") }) > 1_000);
    assert_eq!(run(&mut world, node, found()), ((0..20).collect(), 0));
}

#[test]
fn what_an_operator_throws_away_is_gone_and_was_never_durable() {
    let (mut world, node) = node(5);
    run(&mut world, node, async {
        let kept = Kept::new();
        let first = kept.push(0);
        kept.flush().await.expect("flushed");
        let second = kept.push(1);
        kept.queue.throw_away().await.expect("removed");
        let third = kept.push(2);
        kept.flush().await.expect("flushed");
        let durable = [first, second, third].map(|number| kept.queue.is_durable(number));
        assert_eq!(durable, [false, false, true]);
    });
    assert_eq!(run(&mut world, node, found()), (vec![2], 0));
}

#[test]
fn files_are_delivered_oldest_first_and_go_when_they_are_noted() {
    let (mut world, node) = node(6);
    run(&mut world, node, async {
        let kept = Kept::new();
        for n in 0..60 {
            kept.push(n);
            kept.flush().await.expect("flushed");
        }
        let mut seen = Vec::new();
        while let Some(file) = kept.queue.oldest().await {
            let mut reader =
                Reader::open(&file.path, file.delivered).await.expect("readable").expect("a header");
            let batch = reader.next(1_000).await.expect("readable");
            match batch {
                // As if the delivery were begun anew after each request.
                Some(batch) => {
                    seen.extend(batch.hints.iter().map(|(hint, _)| hint.planned.at));
                    kept.queue.note(&file.path, batch.end);
                }
                None => kept.queue.remove(&file.path).await,
            }
        }
        assert!(seen.iter().copied().eq(0..60), "{seen:?}");
        assert_eq!(kept.queue.content().bytes, 0);
    });
    assert_eq!(run(&mut world, node, found()), (vec![], 0));
}
