//! The commitlog's reader: whole segment files of arbitrary bytes, sound segments with a few bytes changed, tail files of both
//! kinds beside them, and entries behind blocks whose checksums are right.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use runtime::sim::{SimConfig, World};
use storage::commitlog::SegmentName;
use storage::commitlog::block::{BLOCK, Entries, EntryReader, SegmentBuilder, SegmentHeader};
use storage::commitlog::memory::BlockMemory;
use storage::commitlog::replay::{LogReader, OldLog};
use storage::commitlog::tail::TailName;

const DIR: &str = "/log";

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    if mode & 3 == 0 {
        return entries(rest);
    }
    let mut files = vec![segment(1, mode & 4 == 0, rest)];
    if mode & 8 == 0 {
        files.push(segment(2, mode & 16 == 0, rest));
    }
    let segments = files.len() as u32;
    if mode & 64 == 0 {
        // Blocks of a segment that has a file, or of the one behind it.
        let (_, bytes) = segment(1 + u32::from(mode >> 7), mode & 4 != 0, rest);
        files.push((TailName { incarnation: 1, shard: 0 }.file_name(), bytes));
    }
    read(files, segments, mode & 32 == 0);
});

/// Entries of arbitrary bytes, without any checksum between them and the reader: they are the same whenever they are taken.
fn entries(data: &[u8]) {
    assert_eq!(taken(data, 1), taken(data, usize::MAX));
}

/// Positions and payloads, taken after so many blocks each time.
fn taken(data: &[u8], blocks: usize) -> Vec<(u32, Vec<u8>)> {
    let mut reader = EntryReader::new(1, 1 << 20, false);
    let mut found = Vec::new();
    let mut keep = |entries: Entries| {
        found.extend(entries.iter().map(|entry| (entry.position.offset, entry.payload.to_vec())));
    };
    for (seq, bytes) in data.chunks(BLOCK).enumerate() {
        let mut block = vec![0; BLOCK];
        block[..bytes.len()].copy_from_slice(bytes);
        if reader.block(seq as u32 + 1, &block).is_err() {
            break;
        }
        if seq % blocks == blocks - 1 {
            keep(reader.take());
        }
    }
    keep(reader.take());
    found
}

/// A file: the bytes themselves, or a sound segment with entries made of them and some of its bits flipped.
fn segment(number: u32, raw: bool, data: &[u8]) -> (String, Vec<u8>) {
    let name = SegmentName { incarnation: 1, shard: 0, segment: number };
    let file = name.file_name();
    if raw {
        return (file, data.to_vec());
    }
    let header = SegmentHeader { name, shards: 1, previous_blocks: if number == 1 { 0 } else { 2 } };
    let memory = &mut BlockMemory::new();
    let mut builder = SegmentBuilder::new(memory, header, 1 << 20);
    let (flips, payloads) = data.split_at(data.len().min(8));
    for payload in payloads.chunks(1 + usize::from(flips.first().copied().unwrap_or(0)) * 40) {
        if !builder.fits(payload.len()) {
            break;
        }
        builder.append(memory, 0, &[payload]);
    }
    let sealed = builder.seal(memory, 0);
    let mut bytes = sealed.map(|sealed| memory.copy(&sealed.blocks).to_vec()).unwrap_or_default();
    for flip in flips.chunks_exact(4) {
        let at = usize::from(u16::from_be_bytes([flip[0], flip[1]])) % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= flip[2];
        }
    }
    (file, bytes)
}

/// Reads the log of these files in the simulator.
fn read(files: Vec<(String, Vec<u8>)>, segments: u32, skip_damage: bool) {
    let mut world = World::new(1, SimConfig::calm());
    let node = world.add_node([10, 0, 0, 1].into());
    let main = runtime::sim::main_of(move || read_all(files.clone(), segments, skip_damage));
    world.boot(node, 1, Arc::clone(&main));
    let done = world.run_until(|world| !world.alive(node), Duration::from_secs(60));
    assert!(done, "reading a log of this size ends");
    assert_eq!(world.exit_code(node), Some(0));
}

async fn read_all(files: Vec<(String, Vec<u8>)>, segments: u32, skip_damage: bool) -> i32 {
    let dir = PathBuf::from(DIR);
    if runtime::file::create_dir_all(&dir).await.is_err() {
        return 1;
    }
    let has_tail = files.len() > segments as usize;
    let segments = (1..=segments).collect();
    for (name, bytes) in files {
        if runtime::file::write_new_synced(&Path::new(DIR).join(name), &bytes).await.is_err() {
            return 1;
        }
    }
    let mut reader =
        LogReader::new(&dir, OldLog { incarnation: 1, shard: 0, segments, floor: 1, has_tail }, skip_damage);
    while let Ok(Some(entries)) = reader.next().await {
        for entry in entries.iter() {
            let _ = mutation::MutationView::from_bytes(entry.payload);
        }
    }
    0
}
