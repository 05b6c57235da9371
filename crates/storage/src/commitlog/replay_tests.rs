//! Logs whose last blocks are in a tail file: they are read once, in order, up to the first block that is in neither place.

use super::super::block::SegmentBuilder;
use super::super::memory::BlockMemory;
use super::*;
use base::Prng;
use runtime::sim::{SimConfig, World, main_of};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const DIR: &str = "/log";
const SEGMENT: u64 = 16 * BLOCK as u64;

/// The blocks of a log of entries with their numbers as payloads, by segment; the last one is open.
fn blocks(incarnation: u32, entries: u32, bytes: usize) -> Vec<Vec<Vec<u8>>> {
    let memory = &mut BlockMemory::new();
    let header = |segment, previous_blocks| SegmentHeader {
        name: SegmentName { incarnation, shard: 0, segment },
        shards: 1,
        previous_blocks,
    };
    let mut builder = SegmentBuilder::new(memory, header(1, 0), SEGMENT);
    let mut segments = Vec::new();
    let mut whole: Vec<Vec<u8>> = Vec::new();
    for number in 0..entries {
        if !builder.fits(bytes) {
            let next =
                SegmentBuilder::new(memory, header(builder.name().segment + 1, builder.blocks()), SEGMENT);
            let mut full = std::mem::replace(&mut builder, next);
            let sealed = full.seal(memory, 0).map(|sealed| sealed.blocks).unwrap_or_default();
            whole.extend(sealed.iter().map(|block| memory.block(*block).to_vec()));
            segments.push(std::mem::take(&mut whole));
        }
        let mut payload = number.to_be_bytes().to_vec();
        payload.resize(bytes, 9);
        builder.append(memory, 0, &[&payload]);
    }
    segments.push(builder.into_waiting().iter().map(|block| memory.block(*block).to_vec()).collect());
    segments
}

/// A folder with a log: of each segment the blocks that its file has, and a tail file.
struct Folder {
    files: Vec<(String, Vec<u8>)>,
    segments: Vec<u32>,
}

impl Folder {
    fn new() -> Folder {
        Folder { files: Vec::new(), segments: Vec::new() }
    }

    /// A file of full length whose blocks are there where `has` says so.
    fn segment(&mut self, number: u32, blocks: &[Vec<u8>], has: impl Fn(usize) -> bool) {
        let name = SegmentName { incarnation: 3, shard: 0, segment: number };
        let mut bytes = vec![0; SEGMENT as usize];
        for (seq, block) in blocks.iter().enumerate().filter(|(seq, _)| has(*seq)) {
            bytes[seq * BLOCK..(seq + 1) * BLOCK].copy_from_slice(block);
        }
        self.files.push((name.file_name(), bytes));
        self.segments.push(number);
    }

    fn tail(&mut self, blocks: Vec<Vec<u8>>) {
        self.files.push((TailName { incarnation: 3, shard: 0 }.file_name(), blocks.concat()));
    }

    /// Numbers of the entries that are read, or why not.
    fn read(self) -> Result<Vec<u32>, Error> {
        let mut world = World::new(1, SimConfig::calm());
        let node = world.add_node([10, 0, 0, 1].into());
        world.boot(node, 1, main_of(|| async { std::future::pending::<i32>().await }));
        let found: Rc<RefCell<Vec<u32>>> = Rc::default();
        let into = found.clone();
        let mut task = world.spawn(node, async move {
            runtime::file::create_dir_all(DIR).await.expect("made");
            for (name, bytes) in &self.files {
                runtime::file::write_new_synced(&Path::new(DIR).join(name), bytes).await.expect("written");
            }
            let log = OldLog { incarnation: 3, shard: 0, segments: self.segments, floor: 1, has_tail: true };
            let mut reader = LogReader::new(Path::new(DIR), log, false);
            while let Some(entries) = reader.next().await? {
                let number =
                    |payload: &[u8]| u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]);
                into.borrow_mut().extend(entries.iter().map(|entry| number(entry.payload)));
            }
            Ok(())
        });
        assert!(world.run_until(|_| task.done(), Duration::from_secs(60)));
        task.take().expect("done").map(|()| found.take())
    }
}

fn shuffled(mut blocks: Vec<Vec<u8>>, prng: &mut Prng) -> Vec<Vec<u8>> {
    for index in (1..blocks.len()).rev() {
        blocks.swap(index, prng.below(index as u64 + 1) as usize);
    }
    blocks
}

#[test]
fn what_is_in_segment_and_tail_is_read_once() {
    let mut prng = Prng::new(1);
    for _ in 0..40 {
        let bytes = 10 + prng.below(9000) as usize;
        let log = blocks(3, 60, bytes);
        let total: usize = log.iter().map(Vec::len).sum();
        // So many blocks are in the files, and the tail has those behind them and some of them.
        let written = prng.below(total as u64) as usize;
        let kept_from = prng.below(written as u64 + 1) as usize;
        let mut folder = Folder::new();
        let mut before = 0;
        for (index, segment) in log.iter().enumerate() {
            if before < written || prng.chance(0.3) && folder.segments.len() == index {
                folder.segment(index as u32 + 1, segment, |seq| before + seq < written);
            }
            before += segment.len();
        }
        let tail = log.concat().split_off(kept_from);
        folder.tail(shuffled(tail, &mut prng));
        assert_eq!(folder.read().expect("sound"), (0..60).collect::<Vec<u32>>());
    }
}

#[test]
fn a_tail_of_an_earlier_start_adds_nothing() {
    let (own, earlier) = (blocks(3, 30, 500), blocks(2, 90, 500));
    let mut folder = Folder::new();
    folder.segment(1, &own[0], |seq| seq + 1 < own[0].len());
    folder.tail(earlier.concat());
    let found = folder.read().expect("sound");
    assert!(!found.is_empty() && found.len() < 30);
    assert_eq!(found, (0..found.len() as u32).collect::<Vec<u32>>());
}

#[test]
fn nothing_is_read_behind_a_hole() {
    let log = blocks(3, 200, 1000);
    let blocks_before: Vec<usize> = log.iter().map(Vec::len).collect();
    for hole in 3..blocks_before[0] + blocks_before[1] - 1 {
        let mut folder = Folder::new();
        folder.segment(1, &log[0], |seq| seq < 3);
        let mut tail = log.concat();
        tail.remove(hole);
        folder.tail(tail);
        let found = folder.read().expect("that is no damage: a power cut leaves it so");
        assert_eq!(found, (0..found.len() as u32).collect::<Vec<u32>>());
        // Four entries of a thousand bytes end in every block between the header and the hole, in some five.
        let whole = hole as u32 - 1 - hole as u32 / 16;
        let (least, most) = ((whole.saturating_sub(2)) * 4, whole * 5);
        let count = found.len() as u32;
        assert!((least..=most).contains(&count), "{count} entries before the hole in block {hole}");
    }
}

#[test]
fn a_block_that_was_synced_is_missed_although_the_tail_has_later_ones() {
    let memory = &mut BlockMemory::new();
    let header = SegmentHeader {
        name: SegmentName { incarnation: 3, shard: 0, segment: 1 },
        shards: 1,
        previous_blocks: 0,
    };
    let mut builder = SegmentBuilder::new(memory, header, SEGMENT);
    let mut all: Vec<Vec<u8>> = Vec::new();
    for number in 0..5u32 {
        builder.append(memory, all.len() as u32, &[&number.to_be_bytes()]);
        let sealed = builder.seal(memory, all.len() as u32).expect("an entry waits");
        all.extend(sealed.blocks.iter().map(|block| memory.block(*block).to_vec()));
    }
    let last = all.len() - 1;
    let mut folder = Folder::new();
    folder.segment(1, &all, |seq| seq != 2);
    folder.tail(vec![all[last].clone()]);
    assert!(matches!(folder.read(), Err(Error::Corrupt { offset, .. }) if offset == 2 * BLOCK as u64));
    // In the tail as well it is whole.
    let mut folder = Folder::new();
    folder.segment(1, &all, |seq| seq != 2);
    folder.tail(vec![all[2].clone()]);
    assert_eq!(folder.read().expect("sound"), [0, 1, 2, 3, 4]);
}
