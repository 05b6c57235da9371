//! Files on the real file system.

use crate::{Folder, in_folder, on_shards};
use runtime::file::{self, AlignedBuf, File, OpenOptions, SyncMethod};
use runtime::{Group, spawn};
use std::io::ErrorKind;
use std::time::Duration;

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

#[test]
fn direct_writes_and_reads() {
    in_folder("direct", |root| {
        let path = root.join("data");
        async move {
            let file = File::open(&path, OpenOptions::CREATE_NEW.with_direct()).await.expect("opens");
            file.allocate(64 * 1024).await.expect("allocates");
            assert_eq!(file.size().await.expect("size"), 64 * 1024);
            let bytes = pattern(64 * 1024, 5);
            let mut tasks = Vec::new();
            for (index, chunk) in bytes.chunks(8192).enumerate() {
                let (file, buffer) = (file.clone(), AlignedBuf::from(chunk));
                tasks.push(spawn(Group::FLUSH, async move {
                    let back = file.write_at(index as u64 * 8192, buffer).await.expect("writes");
                    assert_eq!(back.len(), 8192);
                }));
            }
            for task in tasks {
                task.await;
            }
            file.sync_data().await.expect("syncs");
            for (offset, len) in [(0, 65536), (1, 1), (4095, 2), (12345, 20000), (65535, 1), (7, 0)] {
                let read = file.read_exact_at(offset as u64, len).await.expect("reads");
                assert!(read == bytes[offset..offset + len], "{offset} {len}");
            }
            let (buffer, count) = file.read_at(60 * 1024, AlignedBuf::zeroed(8192)).await.expect("reads");
            assert_eq!((count, buffer.len()), (4096, 8192));
            let past = file.read_exact_at(65536, 1).await.expect_err("nothing is there");
            assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
            let odd = file.write_at(1, AlignedBuf::zeroed(4096)).await.expect_err("not aligned");
            assert_eq!(odd.kind(), ErrorKind::InvalidInput);
            file.truncate(5000).await.expect("truncates");
            assert_eq!(file.read_exact_at(4096, 904).await.expect("reads"), bytes[4096..5000]);
            let past = file.read_exact_at(4096, 905).await.expect_err("cut off");
            assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
            assert!(past.to_string().contains("data"), "{past}");
        }
    });
}

#[test]
fn durable_writes_are_whole_either_way() {
    in_folder("durable", |root| async move {
        for (name, options) in
            [("direct", OpenOptions::CREATE_NEW.with_direct()), ("cached", OpenOptions::CREATE_NEW)]
        {
            let file = File::open(&root.join(name), options).await.expect("opens");
            file.allocate(256 * 1024).await.expect("allocates");
            let mut tasks = Vec::new();
            for index in 0..32u64 {
                let method = [SyncMethod::After, SyncMethod::Through][index as usize % 2];
                let (file, buffer) = (file.clone(), AlignedBuf::from(&pattern(8192, index as u8)[..]));
                tasks.push(spawn(Group::COMMITLOG, async move {
                    let synced = file.write_durable(index * 8192, buffer, method).await.expect("writes");
                    synced.expect("syncs");
                }));
            }
            // Whoever stops waiting leaves the operations running.
            let abandoned = file.write_durable(0, AlignedBuf::from(&pattern(8192, 0)[..]), SyncMethod::After);
            let _ = runtime::timeout(Duration::ZERO, abandoned).await;
            for task in tasks {
                task.await;
            }
            for index in 0..32u64 {
                let read = file.read_exact_at(index * 8192, 8192).await.expect("reads");
                assert!(read == pattern(8192, index as u8), "{name}: piece {index}");
            }
        }
        if runtime::simulated() {
            return;
        }
        let readable = File::open(&root.join("direct"), OpenOptions::READ).await.expect("opens");
        for method in [SyncMethod::After, SyncMethod::Through] {
            let refused = readable.write_durable(0, AlignedBuf::zeroed(4096), method).await;
            assert!(refused.and_then(|synced| synced).is_err(), "{}", method.name());
        }
    });
}

/// `/proc` refuses direct operations, like some file systems of containers.
#[test]
fn without_direct_operations_the_page_cache_serves() {
    in_folder("buffered", |root| async move {
        if runtime::simulated() {
            return;
        }
        let file = File::open("/proc/self/maps", OpenOptions::READ.with_direct()).await.expect("opens");
        assert!(!file.is_direct());
        let (buffer, count) = file.read_at(0, AlignedBuf::zeroed(4096)).await.expect("reads");
        assert!(count > 0 && buffer[..count].contains(&b'\n'));
        let file = File::open(root.join("f"), OpenOptions::CREATE_NEW.with_direct()).await.expect("opens");
        file.write_at(0, AlignedBuf::zeroed(4096)).await.expect("writes");
        assert_eq!(file.read_piece(4000, 96).await.expect("reads").len(), 96);
    });
}

#[test]
fn folders_names_and_atomic_replacement() {
    in_folder("names", |root| async move {
        let sub = root.join("a/b");
        file::create_dir_all(&sub).await.expect("makes");
        file::create_dir_all(&sub).await.expect("may exist");
        let name = sub.join("x");
        file::write_new_synced(&name, b"one").await.expect("writes");
        let again = file::write_new_synced(&name, b"two").await.expect_err("exists");
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        file::replace_atomic(&name, b"three").await.expect("replaces");
        assert_eq!(file::read(&name).await.expect("reads"), b"three");
        file::link(&name, sub.join("z")).await.expect("links");
        file::rename(&name, sub.join("y")).await.expect("renames");
        file::sync_dir(&sub).await.expect("syncs");
        let names: Vec<_> =
            file::read_dir(&sub).await.expect("lists").into_iter().map(|e| (e.name, e.size)).collect();
        assert_eq!(names, [("y".to_string(), 5), ("z".to_string(), 5)]);
        assert!(file::read_dir(&root).await.expect("lists")[0].is_dir);
        assert!(!file::exists(&name).await.expect("looks"));
        assert!(0 < file::free_space(&root).await.expect("asks"));
        let lock = file::lock_exclusive(&root).await.expect("locks");
        let second = file::lock_exclusive(&root).await.err().expect("is held");
        assert_eq!(second.kind(), ErrorKind::WouldBlock);
        drop(lock);
        file::lock_exclusive(&root).await.expect("is free");
        file::remove(sub.join("y")).await.expect("removes");
        let missing = file::remove(sub.join("y")).await.expect_err("gone");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        file::remove_dir_all(root.join("a")).await.expect("removes");
        file::remove_dir_all(root.join("a")).await.expect("may be missing");
    });
}

#[test]
fn a_folder_is_the_same_by_every_path() {
    in_folder("identity", |root| async move {
        let (folder, other) = (root.join("folder"), root.join("other"));
        for path in [&folder, &other] {
            file::create_dir_all(path).await.expect("there is room");
        }
        let known = file::identity(&folder).await.expect("it is there");
        let paths = [root.join("other/../folder"), root.join("./folder/")];
        for path in &paths {
            assert_eq!(file::identity(path).await.expect("it is there"), known, "{}", path.display());
        }
        assert_ne!(file::identity(&other).await.expect("it is there"), known);
        let missing = file::identity(root.join("missing")).await.expect_err("nothing is there");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn symbolic_links_lead_to_what_they_name() {
    let folder = Folder::new("symbolic");
    let root = folder.0.clone();
    on_shards(1, move || {
        let root = root.clone();
        async move {
            file::create_dir_all(root.join("folder")).await.expect("there is room");
            file::write_new_synced(root.join("folder/a"), b"bytes").await.expect("there is room");
            for (target, link) in [("folder", "by_link"), ("folder/a", "a")] {
                let _ = std::fs::remove_file(root.join(link));
                std::os::unix::fs::symlink(target, root.join(link)).expect("there is room");
            }
            let of = async |name: &str| file::identity(root.join(name)).await.expect("it is there");
            assert_eq!(of("by_link").await, of("folder").await);
            file::link(root.join("a"), root.join("folder/b")).await.expect("links");
            assert_eq!(of("folder/b").await, of("folder/a").await);
            file::remove(root.join("a")).await.expect("removes");
            file::remove(root.join("folder/a")).await.expect("removes");
            assert_eq!(file::read(root.join("folder/b")).await.expect("reads"), b"bytes");
            file::remove(root.join("folder/b")).await.expect("removes");
        }
    });
}

#[test]
fn dropped_operations_keep_their_buffers_until_the_end() {
    in_folder("dropped", |root| {
        async move {
            let file = File::open(root.join("f"), OpenOptions::CREATE.with_direct()).await.expect("opens");
            file.write_at(0, AlignedBuf::zeroed(1 << 20)).await.expect("writes");
            for round in 0..200u64 {
                // Each is submitted by its first poll and dropped by the second of the other branch.
                let read = file.read_at(round % 16 * 65536, AlignedBuf::zeroed(65536));
                let _ = runtime::timeout(Duration::ZERO, read).await;
                let write =
                    file.write_at(round % 16 * 65536, AlignedBuf::from(&pattern(65536, round as u8)[..]));
                let _ = runtime::timeout(Duration::ZERO, write).await;
                let _ = runtime::timeout(Duration::ZERO, file.sync_data()).await;
                let open = File::open(root.join("g"), OpenOptions::CREATE);
                let _ = runtime::timeout(Duration::ZERO, open).await;
                // Memory freed too early would be reused here.
                let fresh = AlignedBuf::zeroed(65536);
                assert!(fresh.iter().all(|b| *b == 0));
            }
            file.sync_data().await.expect("syncs");
            assert_eq!(file.read_exact_at(0, 10).await.expect("reads").len(), 10);
        }
    });
}
