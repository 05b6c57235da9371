//! What every backend promises, shown by one script for all of them: each operation is dropped at every step, and the
//! world must look as if it had come to its end or never begun. Nothing is lost, nothing leaks, no buffer is given back
//! while the kernel may still use it.

#![allow(
    clippy::async_yields_async,
    reason = "an operation is begun here and driven, or dropped, by `at_every_step`"
)]

use crate::cut::{Cut, at_every_step};
use crate::{everywhere, in_folder};
use runtime::file::{self, AlignedBuf, File, OpenOptions};
use runtime::net::{TcpListener, TcpStream};
use runtime::{Group, ShardId, sleep, spawn, submit_to, timeout};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const BLOCK: usize = 4096;
/// How long an abandoned operation may take to be over.
const PATIENCE: Duration = Duration::from_secs(20);

fn filled(byte: u8) -> AlignedBuf {
    AlignedBuf::from(&vec![byte; BLOCK][..])
}

/// Waits until something that abandoned operations delay has come true.
async fn eventually(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let waited = timeout(PATIENCE, async {
        while !is_true().await {
            sleep(Duration::from_millis(1)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

/// Waits until this process holds no descriptor of anything in a folder. A simulated folder has none.
async fn no_descriptors(folder: &Path) {
    let held = || {
        let all = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        all.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|to| to.starts_with(folder))
    };
    eventually("a descriptor leaks", async || !held()).await;
}

#[test]
fn opening() {
    in_folder("open", |root| async move {
        let name = |round: u32| root.join(round.to_string());
        at_every_step(
            async |round| File::open(name(round), OpenOptions::CREATE_NEW),
            async |round, cut| {
                if cut.unpolled() {
                    assert!(!file::exists(name(round)).await.expect("looks"), "{cut}");
                }
                if let Some(done) = cut.done {
                    done.expect("opens");
                    assert!(file::exists(name(round)).await.expect("looks"));
                }
                let missing =
                    File::open(root.join("missing"), OpenOptions::READ).await.expect_err("is missing");
                assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
            },
        )
        .await;
        no_descriptors(&root).await;
    });
}

#[test]
fn writing() {
    in_folder("write", |root| async move {
        let file = File::open(root.join("f"), OpenOptions::CREATE.with_direct()).await.expect("opens");
        file.write_at(0, AlignedBuf::zeroed(64 * BLOCK)).await.expect("writes");
        let mut expected = Vec::new();
        let mut scribbled = Vec::new();
        let byte = |round: u32| 1 + (round % 200) as u8;
        at_every_step(
            async |round| {
                let (file, offset) = (file.clone(), u64::from(round) * BLOCK as u64);
                async move { file.write_at(offset, filled(byte(round))).await.map(|_| ()) }
            },
            async |round, cut: Cut<_>| {
                // If the buffer was freed early, its bytes are these now.
                scribbled.push(filled(0xee));
                expected.push((round, cut.unpolled(), cut.done.is_some(), cut.to_string()));
                if let Some(done) = cut.done {
                    done.expect("writes");
                }
            },
        )
        .await;
        file.sync_data().await.expect("syncs");
        sleep(Duration::from_millis(50)).await;
        for (round, unpolled, done, told) in expected {
            let found = file.read_exact_at(u64::from(round) * BLOCK as u64, BLOCK).await.unwrap_or_default();
            let is = |byte: u8| found.iter().all(|b| *b == byte);
            assert!(
                is(byte(round)) && !unpolled || is(0) && !done,
                "round {round}, {told}: {:?}",
                &found[..4]
            );
        }
        drop(file);
        no_descriptors(&root).await;
    });
}

#[test]
fn reading() {
    in_folder("read", |root| async move {
        let file = File::open(root.join("f"), OpenOptions::CREATE.with_direct()).await.expect("opens");
        file.write_at(0, filled(7)).await.expect("writes");
        let mut later = Vec::new();
        at_every_step(
            async |_| {
                let file = file.clone();
                async move { file.read_at(0, AlignedBuf::zeroed(BLOCK)).await }
            },
            async |_, cut| {
                // If the buffer was freed early, this is the same memory, and the kernel writes into it.
                later.push(filled(0xee));
                if let Some(done) = cut.done {
                    let (buffer, count) = done.expect("reads");
                    assert!(count == BLOCK && buffer.iter().all(|b| *b == 7));
                }
            },
        )
        .await;
        sleep(Duration::from_millis(50)).await;
        assert!(
            later.iter().all(|buffer| buffer.iter().all(|b| *b == 0xee)),
            "a late read wrote into freed memory"
        );
        drop(file);
        no_descriptors(&root).await;
    });
}

#[test]
fn reading_pieces() {
    in_folder("piece", |root| async move {
        let file = File::open(root.join("f"), OpenOptions::CREATE.with_direct()).await.expect("opens");
        file.write_at(0, filled(7)).await.expect("writes");
        file.write_at(BLOCK as u64, filled(8)).await.expect("writes");
        at_every_step(
            async |_| {
                let file = file.clone();
                async move { file.read_piece(BLOCK as u64 - 5, 10).await }
            },
            async |_, cut| {
                // Buffers go round: one that came back while the kernel still writes into it would change here.
                let other = file.read_piece(0, 100).await.expect("reads");
                sleep(Duration::from_millis(1)).await;
                assert!(other.len() == 100 && other.iter().all(|b| *b == 7));
                if let Some(done) = cut.done {
                    assert_eq!(done.expect("reads")[..], [7, 7, 7, 7, 7, 8, 8, 8, 8, 8]);
                }
            },
        )
        .await;
        drop(file);
        no_descriptors(&root).await;
    });
}

#[test]
fn syncing_growing_and_cutting() {
    in_folder("sync", |root| async move {
        let file = File::open(root.join("f"), OpenOptions::CREATE).await.expect("opens");
        file.write_at(0, filled(9)).await.expect("writes");
        let copy = || file.clone();
        at_every_step(
            async |_| {
                let file = copy();
                async move { file.sync_data().await }
            },
            async |_, cut| assert!(cut.done.is_none_or(|done| done.is_ok())),
        )
        .await;
        let big = 16 * BLOCK as u64;
        at_every_step(
            async |_| {
                let file = copy();
                async move { file.allocate(big).await }
            },
            async |_, cut: Cut<_>| {
                let size = file.size().await.expect("has a size");
                assert!([BLOCK as u64, big].contains(&size), "{size}");
                assert!(cut.done.is_none() || size == big);
            },
        )
        .await;
        at_every_step(
            async |_| {
                let file = copy();
                async move { file.truncate(100).await }
            },
            async |_, cut: Cut<_>| {
                let size = file.size().await.expect("has a size");
                assert!([big, 100].contains(&size), "{size}");
                assert!(cut.done.is_none() || size == 100);
            },
        )
        .await;
        assert_eq!(file.read_exact_at(0, 100).await.expect("reads"), [9; 100]);
        drop(file);
        no_descriptors(&root).await;
    });
}

#[test]
fn names() {
    in_folder("names", |root| async move {
        let name = |kind: &str, round: u32| root.join(format!("{kind}{round}"));
        let there = async |kind: &str, round| file::exists(name(kind, round)).await.expect("looks");
        at_every_step(
            async |round| {
                file::write_new_synced(name("old", round), b"x").await.expect("writes");
                file::rename(name("old", round), name("new", round))
            },
            async |round, cut: Cut<_>| {
                // New first: the rename may happen between the two looks.
                let (new, old) = (there("new", round).await, there("old", round).await);
                assert!(new || old || there("new", round).await, "{cut}: lost");
                assert!(!(new && old), "{cut}: doubled");
                assert!(!(cut.unpolled() && new), "{cut}: never begun");
                assert!(cut.done.is_none() || new);
            },
        )
        .await;
        at_every_step(
            async |round| {
                file::write_new_synced(name("one", round), b"x").await.expect("writes");
                file::link(name("one", round), name("two", round))
            },
            async |round, cut: Cut<_>| {
                assert!(there("one", round).await);
                assert!(cut.done.is_none() || there("two", round).await);
            },
        )
        .await;
        at_every_step(
            async |round| {
                file::write_new_synced(name("gone", round), b"x").await.expect("writes");
                file::remove(name("gone", round))
            },
            async |round, cut: Cut<_>| {
                let gone = !there("gone", round).await;
                assert!(!gone || !cut.unpolled(), "{cut}");
                assert!(cut.done.is_none() || gone);
            },
        )
        .await;
        no_descriptors(&root).await;
    });
}

#[test]
fn folders() {
    in_folder("folders", |root| async move {
        let path = |round: u32| root.join(format!("a{round}/b/c"));
        at_every_step(
            async |round| file::create_dir_all(path(round)),
            async |round, cut: Cut<_>| {
                if cut.done.is_some() {
                    assert!(file::exists(path(round)).await.expect("looks"));
                }
                file::create_dir_all(path(round)).await.expect("makes what is missing");
                file::sync_dir(path(round)).await.expect("syncs");
            },
        )
        .await;
        at_every_step(
            async |round| {
                file::create_dir_all(path(1000 + round)).await.expect("makes");
                file::remove_dir_all(root.join(format!("a{}", 1000 + round)))
            },
            async |round, _| {
                let top = root.join(format!("a{}", 1000 + round));
                eventually("a folder comes back", async || {
                    file::remove_dir_all(&top).await.is_ok() && !file::exists(&top).await.expect("looks")
                })
                .await;
            },
        )
        .await;
        at_every_step(
            async |_| file::read_dir(root.clone()),
            async |_, cut| assert!(cut.done.is_none_or(|entries| !entries.expect("lists").is_empty())),
        )
        .await;
        at_every_step(
            async |_| file::sync_dir(root.clone()),
            async |_, cut| assert!(cut.done.is_none_or(|done| done.is_ok())),
        )
        .await;
        at_every_step(
            async |_| file::free_space(root.clone()),
            async |_, cut| assert!(cut.done.is_none_or(|bytes| 0 < bytes.expect("asks"))),
        )
        .await;
        at_every_step(
            async |_| file::lock_exclusive(root.clone()),
            async |_, cut| {
                drop(cut.done);
                eventually("a dropped lock is held", async || file::lock_exclusive(&root).await.is_ok())
                    .await;
            },
        )
        .await;
        no_descriptors(&root).await;
    });
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(loopback()).await.expect("binds");
    let address = listener.local_addr().expect("has an address");
    (listener, address)
}

/// Reads until the other side's end, or an error.
async fn read_all(stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(bytes) = stream.recv().await {
        if bytes.is_empty() {
            break;
        }
        all.extend_from_slice(&bytes);
    }
    all
}

#[test]
fn accepting() {
    everywhere(1, || async {
        let (listener, address) = listen().await;
        let clients = RefCell::new(Vec::new());
        at_every_step(
            async |round| {
                // One that is there already, and one that comes while the operation waits.
                let ahead = round % 2 == 0;
                let connect = async move {
                    if !ahead {
                        sleep(Duration::from_micros(200)).await;
                    }
                    TcpStream::connect(address, None).await.expect("connects")
                };
                let client = spawn(Group::MAIN, connect);
                clients.borrow_mut().push(client);
                if ahead {
                    sleep(Duration::from_millis(1)).await;
                }
                let listener = listener.clone();
                async move { listener.accept().await }
            },
            async |_, cut| {
                let told = cut.to_string();
                let client = clients.borrow_mut().pop().expect("pushed above");
                let client = client.await;
                let accepted = match cut.done {
                    Some(accepted) => accepted,
                    None => {
                        timeout(PATIENCE, listener.accept()).await.unwrap_or_else(|_| panic!("{told}: lost"))
                    }
                };
                let (stream, peer) = accepted.expect("accepts");
                assert_eq!(peer, client.local_addr().expect("has an address"), "{told}");
                stream.send_all(b"hello".to_vec()).await.expect("sends");
                drop(stream);
                assert_eq!(read_all(&client).await, b"hello", "{told}");
            },
        )
        .await;
    });
}

#[test]
fn connecting() {
    everywhere(1, || async {
        let (listener, address) = listen().await;
        let (open, ended) = (Rc::new(Cell::new(0u32)), Rc::new(Cell::new(0u32)));
        let (opens, ends) = (open.clone(), ended.clone());
        drop(spawn(Group::MAIN, async move {
            while let Ok((stream, _)) = listener.accept().await {
                opens.set(opens.get() + 1);
                let ends = ends.clone();
                drop(spawn(Group::MAIN, async move {
                    read_all(&stream).await;
                    ends.set(ends.get() + 1);
                }));
            }
        }));
        at_every_step(
            async |_| TcpStream::connect(address, None),
            async |_, cut| {
                let told = cut.to_string();
                if let Some(stream) = cut.done {
                    let stream = stream.expect("connects");
                    assert_eq!(stream.peer_addr().expect("has a peer"), address);
                }
                // Whether it was made or not: it is not left open.
                eventually(&format!("{told}: left open"), async || open.get() == ended.get()).await;
            },
        )
        .await;
        // One of each pause came to its end.
        eventually("a connection did not arrive", async || 3 <= open.get()).await;
        eventually("a connection is left open", async || open.get() == ended.get()).await;
    });
}

#[test]
fn receiving() {
    everywhere(1, || async {
        let (listener, address) = listen().await;
        let client = TcpStream::connect(address, None).await.expect("connects");
        let (server, _) = listener.accept().await.expect("accepts");
        let sent = Rc::new(Cell::new(0u32));
        let (next, received) = (sent.clone(), RefCell::new(Vec::new()));
        at_every_step(
            async |round| {
                // A piece comes before, during or after the wait.
                let (server, next) = (server.clone(), next.clone());
                let send = async move {
                    sleep(Duration::from_micros(u64::from(round % 3) * 100)).await;
                    let piece: Vec<u8> = (0..1000).map(|i| (next.get() + i) as u8).collect();
                    next.set(next.get() + 1000);
                    server.send_all(piece).await.expect("sends");
                };
                drop(spawn(Group::MAIN, send));
                if round % 3 == 0 {
                    sleep(Duration::from_millis(1)).await;
                }
                let client = client.clone();
                async move { client.recv().await.map(|bytes| bytes.to_vec()) }
            },
            async |_, cut| {
                if let Some(bytes) = cut.done {
                    received.borrow_mut().extend_from_slice(&bytes.expect("receives"));
                }
            },
        )
        .await;
        sleep(Duration::from_millis(20)).await;
        drop(server);
        let mut received = received.into_inner();
        received.extend(read_all(&client).await);
        assert_eq!(received.len(), sent.get() as usize, "lost or doubled");
        assert!(received.iter().enumerate().all(|(at, byte)| *byte == at as u8), "out of order");
    });
}

#[test]
fn sending() {
    everywhere(1, || async {
        // More than a socket takes at once; a simulated one takes less.
        let len = if runtime::simulated() { 300_000 } else { 4 << 20 };
        let (listener, address) = listen().await;
        let pattern: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let current: RefCell<Option<TcpStream>> = RefCell::new(None);
        let readers = RefCell::new(Vec::new());
        at_every_step(
            async |_| {
                let client = TcpStream::connect(address, None).await.expect("connects");
                let (server, _) = listener.accept().await.expect("accepts");
                readers.borrow_mut().push(spawn(Group::MAIN, async move {
                    sleep(Duration::from_micros(300)).await;
                    read_all(&server).await
                }));
                *current.borrow_mut() = Some(client.clone());
                let bytes = pattern.clone();
                async move { client.send_all(bytes).await.map(|bytes| bytes.len()) }
            },
            async |_, cut| {
                let told = cut.to_string();
                // Memory that was freed while the kernel still sends it is this now.
                let scribble = vec![0xeeu8; len];
                drop(current.borrow_mut().take());
                let reader = readers.borrow_mut().pop().expect("pushed above");
                let received = timeout(PATIENCE, reader).await.unwrap_or_else(|_| panic!("{told}: no end"));
                assert!(received == pattern[..received.len()], "{told}: not what was sent");
                assert!(cut.done.is_none() || received.len() == len, "{told}: {}", received.len());
                drop(scribble);
            },
        )
        .await;
    });
}

#[test]
fn shutting_down_ends_both_sides() {
    everywhere(1, || async {
        let (listener, address) = listen().await;
        for ours in [true, false] {
            let client = TcpStream::connect(address, None).await.expect("connects");
            let (server, _) = listener.accept().await.expect("accepts");
            let (near, far) = (client.clone(), server.clone());
            let waiting = spawn(Group::MAIN, async move { read_all(&near).await });
            let opposite = spawn(Group::MAIN, async move { read_all(&far).await });
            sleep(Duration::from_millis(1)).await;
            if ours {
                client.shutdown();
            } else {
                server.shutdown();
            }
            assert!(timeout(PATIENCE, waiting).await.is_ok(), "ours {ours}: this side waits");
            assert!(timeout(PATIENCE, opposite).await.is_ok(), "ours {ours}: the other side waits");
        }
    });
}

#[test]
fn moving_to_another_shard() {
    everywhere(2, || async {
        if runtime::shard().0 != 0 {
            return;
        }
        let (listener, address) = listen().await;
        let clients = RefCell::new(Vec::new());
        at_every_step(
            async |_| {
                let client = TcpStream::connect(address, None).await.expect("connects");
                clients.borrow_mut().push(client);
                let (server, _) = listener.accept().await.expect("accepts");
                let transfer = server.into_transfer().expect("was not used");
                submit_to(ShardId(1), Group::MAIN, move || async move {
                    let stream = TcpStream::from_transfer(transfer);
                    stream.send_all(b"from the other shard".to_vec()).await.is_ok()
                })
            },
            async |_, cut| {
                // It arrives whole, or its end shows.
                let client = clients.borrow_mut().pop().expect("pushed above");
                let received = timeout(PATIENCE, read_all(&client)).await;
                let received = received.unwrap_or_else(|_| panic!("{cut}: left open"));
                let arrived = received == b"from the other shard";
                assert!(arrived || received.is_empty() && cut.done.is_none(), "{cut}");
                assert!(!cut.unpolled() || !arrived, "{cut}");
            },
        )
        .await;
    });
}

#[test]
fn calling_another_shard() {
    everywhere(2, || async {
        if runtime::shard().0 != 0 {
            return;
        }
        let begun = Arc::new(AtomicU32::new(0));
        let ended = Arc::new(AtomicU32::new(0));
        at_every_step(
            async |_| {
                let (begun, ended) = (begun.clone(), ended.clone());
                submit_to(ShardId(1), Group::QUERY, move || async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_micros(100)).await;
                    ended.fetch_add(1, Ordering::SeqCst)
                })
            },
            async |_, cut| {
                let polled = u32::from(!cut.unpolled());
                let count = begun.load(Ordering::SeqCst);
                eventually(&format!("{cut}: a call stops half way"), async || {
                    begun.load(Ordering::SeqCst) == ended.load(Ordering::SeqCst)
                })
                .await;
                assert!(begun.load(Ordering::SeqCst) <= count + polled, "{cut}");
            },
        )
        .await;
    });
}

#[test]
fn blocking_work_elsewhere() {
    everywhere(1, || async {
        let runs = Arc::new(AtomicU32::new(0));
        let mut polled = 0;
        at_every_step(
            async |_| {
                let runs = runs.clone();
                runtime::offload(move || runs.fetch_add(1, Ordering::SeqCst))
            },
            async |_, cut| polled += u32::from(!cut.unpolled()),
        )
        .await;
        eventually("work is lost", async || runs.load(Ordering::SeqCst) == polled).await;
    });
}

#[test]
fn sleeping() {
    everywhere(1, || async {
        at_every_step(
            async |_| sleep(Duration::from_micros(300)),
            async |_, _| sleep(Duration::from_micros(10)).await,
        )
        .await;
    });
}
