//! Worlds run real runtime code: the same seed gives the same trace, crashes keep what was synced, tasks die cleanly.

use super::*;
use crate::file::{AlignedBuf, File, OpenOptions};
use crate::net::{TcpListener, TcpStream};
use std::net::SocketAddr;
use std::rc::Rc;

const PORT: u16 = 9042;

fn ip(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn addr(n: u8) -> SocketAddr {
    SocketAddr::new(ip(n), PORT)
}

/// Says back what it hears, upper case, after writing it to a log file, from a random shard.
fn echo_main() -> Main {
    main_of(|| async {
        let listener =
            TcpListener::bind(SocketAddr::new(IpAddr::from([0, 0, 0, 0]), PORT)).await.expect("free");
        crate::file::create_dir_all("/data").await.expect("room");
        let path = format!("/data/log-{}", crate::shard());
        let file = File::open(&path, OpenOptions::CREATE).await.expect("room");
        let tail = Rc::new(std::cell::Cell::new(file.size().await.expect("open")));
        crate::file::sync_dir("/data").await.expect("there");
        crate::file::sync_dir("/").await.expect("there");
        crate::info!("listening");
        crate::spawn(Group::MAIN, async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (file, tail) = (file.clone(), tail.clone());
                crate::spawn(Group::QUERY, async move {
                    let _ = serve(stream, file, tail).await;
                });
            }
        });
        crate::shutdown_requested().await;
        0
    })
}

async fn serve(stream: TcpStream, file: File, tail: Rc<std::cell::Cell<u64>>) -> std::io::Result<()> {
    loop {
        let bytes = stream.recv().await?.to_vec();
        if bytes.is_empty() {
            return Ok(());
        }
        let at = tail.get();
        tail.set(at + bytes.len() as u64);
        file.write_at(at, AlignedBuf::from(&bytes[..])).await?;
        file.sync_data().await?;
        let target = ShardId((crate::random_u64() % u64::from(crate::shard_count())) as u16);
        let answer = crate::submit_to(target, Group::QUERY, move || async move {
            crate::yield_now().await;
            bytes.to_ascii_uppercase()
        })
        .await;
        stream.send_all(answer).await?;
    }
}

/// Sends `count` numbered lines and answers how many came back.
async fn talk(to: SocketAddr, count: u32) -> u32 {
    let Ok(stream) = TcpStream::connect(to, None).await else { return 0 };
    for n in 0..count {
        let line = format!("line {n};").into_bytes();
        let wanted = line.to_ascii_uppercase();
        if stream.send_all(line).await.is_err() {
            return n;
        }
        let mut heard = Vec::new();
        while heard.len() < wanted.len() {
            match crate::timeout(Duration::from_secs(5), stream.recv()).await {
                Ok(Ok(bytes)) if !bytes.is_empty() => heard.extend_from_slice(&bytes),
                _ => return n,
            }
        }
        assert_eq!(heard, wanted);
    }
    count
}

fn busy_world(seed: u64) -> (u64, u32) {
    let mut world = World::new(seed, SimConfig::drawn(seed));
    let server = world.add_node(ip(1));
    let client = world.add_client(ip(9));
    world.boot(server, 3, echo_main());
    world.run_for(Duration::from_secs(1));
    let mut tasks: Vec<Task<u32>> = (0..4).map(|_| world.spawn(client, talk(addr(1), 10))).collect();
    let over = world.run_until(|_| tasks.iter().all(Task::done), Duration::from_secs(600));
    assert!(over, "seed {seed}");
    let total = tasks.iter_mut().map(|t| t.take().expect("done")).sum();
    world.stop(server);
    assert!(world.run_until(|w| !w.alive(server), Duration::from_secs(10)), "seed {seed}");
    assert_eq!(world.exit_code(server), Some(0));
    (world.trace_hash(), total)
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    let mut hashes = BTreeSet::new();
    for seed in 0..12 {
        let (hash, total) = busy_world(seed);
        assert_eq!(total, 40, "seed {seed}");
        assert_eq!((hash, total), busy_world(seed), "seed {seed}");
        hashes.insert(hash);
    }
    assert_eq!(hashes.len(), 12);
}

#[test]
fn acknowledged_bytes_survive_a_power_cut_at_any_moment() {
    for seed in 0..60 {
        let mut world = World::new(seed, SimConfig::drawn(seed));
        let server = world.add_node(ip(1));
        let client = world.add_client(ip(9));
        world.boot(server, 1, echo_main());
        let task = world.spawn(client, async {
            crate::sleep(Duration::from_millis(50)).await;
            talk(addr(1), 50).await
        });
        let moment = Duration::from_micros(50_000 + world.rng().below(100_000));
        world.run_for(moment);
        world.power_cut(server);
        assert!(!world.alive(server));
        let mut task = task;
        assert!(world.run_until(|_| task.done(), Duration::from_secs(120)), "seed {seed}");
        let acknowledged = task.take().expect("done");
        let written: String = (0..acknowledged).map(|n| format!("line {n};")).collect();
        let size =
            world.files(server).iter().find(|(path, _)| path == "/data/log-0").map_or(0, |(_, size)| *size);
        assert!(written.len() as u64 <= size, "seed {seed}: {acknowledged} lines, {size} bytes");
        // And a second life begins on the same disk.
        world.boot(server, 2, echo_main());
        world.run_for(Duration::from_secs(1));
        let mut again = world.spawn(client, talk(addr(1), 3));
        assert!(world.run_until(|_| again.done(), Duration::from_secs(120)), "seed {seed}");
        assert_eq!(again.take(), Some(3), "seed {seed}");
    }
}

#[test]
fn a_cut_link_stalls_and_heals() {
    let mut world = World::new(7, SimConfig::calm());
    let server = world.add_node(ip(1));
    let client = world.add_client(ip(9));
    world.boot(server, 1, echo_main());
    world.run_for(Duration::from_millis(100));
    world.cut(client, server);
    let mut task = world.spawn(client, talk(addr(1), 1));
    assert!(!world.run_until(|_| task.done(), Duration::from_secs(2)));
    world.heal_all();
    assert!(world.run_until(|_| task.done(), Duration::from_secs(2)));
    assert_eq!(task.take(), Some(1));
    world.kill(server);
    let mut refused = world.spawn(client, talk(addr(1), 1));
    assert!(world.run_until(|_| refused.done(), Duration::from_secs(10)));
    assert_eq!(refused.take(), Some(0));
}

struct SpawnsOnDrop;

impl Drop for SpawnsOnDrop {
    fn drop(&mut self) {
        crate::spawn(Group::MAIN, async { crate::sleep(Duration::from_secs(1)).await });
    }
}

#[test]
fn tasks_of_a_dead_node_are_dropped_on_their_shard_and_may_spawn_there() {
    let mut world = World::new(1, SimConfig::calm());
    let node = world.add_node(ip(1));
    let main = main_of(|| async {
        for _ in 0..10 {
            crate::spawn(Group::MAIN, async {
                let _guard = SpawnsOnDrop;
                let file = File::open("/f", OpenOptions::CREATE).await.expect("room");
                loop {
                    file.write_at(0, AlignedBuf::from(&b"x"[..])).await.expect("room");
                }
            });
        }
        crate::shutdown_requested().await;
        0
    });
    world.boot(node, 2, main.clone());
    world.run_for(Duration::from_millis(5));
    world.power_cut(node);
    world.boot(node, 1, main);
    world.run_for(Duration::from_millis(5));
    world.kill(node);
    world.run_for(Duration::from_millis(5));
}

#[test]
fn clocks_move_together_and_quotas_count_virtual_time() {
    let mut world = World::new(3, SimConfig { skew: Duration::from_secs(1), ..SimConfig::calm() });
    let client = world.add_client(ip(9));
    let mut task = world.spawn(client, async {
        let (start, wall) = (crate::now(), crate::unix_micros());
        let mut yields = 0;
        for _ in 0..100_000 {
            if crate::need_preempt() {
                yields += 1;
                crate::yield_now().await;
            }
        }
        crate::sleep(Duration::from_secs(3)).await;
        let (passed, wall) = (crate::now() - start, crate::unix_micros() - wall);
        (yields, passed, wall)
    });
    assert!(world.run_until(|_| task.done(), Duration::from_secs(100)));
    let (yields, passed, wall) = task.take().expect("done");
    assert!(yields > 0);
    assert!(passed >= Duration::from_secs(3));
    assert!((passed.as_micros() as i64 - wall).abs() <= 1);
    let rare = world.spawn(client, async { (0..1000).filter(|_| crate::rare("nothing")).count() });
    world.run_for(Duration::from_secs(1));
    assert!(rare.done());
}

#[test]
fn a_paused_node_goes_on_late_and_its_disk_may_be_copied_and_emptied() {
    let mut world = World::new(5, SimConfig::calm());
    let node = world.add_node(ip(1));
    let turns = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = turns.clone();
    let main = main_of(move || {
        let counted = counted.clone();
        async move {
            crate::file::write_new_synced("/f", b"here").await.ok();
            loop {
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                crate::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let count = || turns.load(std::sync::atomic::Ordering::Relaxed);
    world.boot(node, 1, main.clone());
    world.run_for(Duration::from_millis(100));
    let before = count();
    assert!(before > 50);
    world.pause(node);
    world.run_for(Duration::from_millis(100));
    assert_eq!(count(), before);
    world.resume(node);
    world.run_for(Duration::from_millis(50));
    assert!(count() > before);
    world.kill(node);
    let image = world.disk_image(node);
    world.wipe_disk(node);
    assert!(world.files(node).is_empty());
    let other = world.add_node(ip(2));
    world.restore_disk(other, image);
    assert_eq!(world.files(other), [("/f".to_string(), 4)]);
}
