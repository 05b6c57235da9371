//! The memory of cached rows and keys: blocks of bytes in slots of a few sizes.
//!
//! ```text
//! segment   [slot][slot][ free ][slot]…      all of one size; each is the one before and a `steps`th of it, 8 bytes at least
//! slot      u32 owner, u32 length, bytes     a free slot: u32 NOBODY, u32 next free slot
//! ```
//! Each block has one owner, a number that its user gives meaning to; so a segment can be emptied by moving its blocks and
//! telling their owners, and its memory serves blocks of another size. Blocks too large for a slot stand alone. A handle is
//! a `u32`: segment and slot, or the place of a block that stands alone.

use crate::memory::{PagedVec, paged};
use base::prefetch;

/// Bytes of a block before its content.
const HEAD: usize = 8;
/// Size of the smallest slot.
const SLOT_MIN: usize = 32;
const SLOT_BITS: u32 = 13;
/// Set in handles of blocks that stand alone.
const ALONE: u32 = 1 << 31;
const NOBODY: u32 = u32::MAX;
const NONE: u32 = u32::MAX;
/// Most segments looked at for the emptiest one.
const SEGMENTS_LOOKED_AT: usize = 16;

struct Segment {
    bytes: PagedVec<u8>,
    /// Bytes of a slot, as its class says.
    size: u32,
    class: u8,
    live: u32,
    /// The first free slot that was used before.
    free: u32,
    /// Slots from here on were never used.
    fresh: u32,
    /// Whether its class lists it among those with free slots.
    open: bool,
}

#[derive(Default)]
struct Class {
    size: usize,
    /// Segments with free slots.
    open: Vec<u32>,
    free_slots: usize,
}

/// Blocks of bytes. Memory is that of whole segments, and known exactly.
pub(crate) struct Slots {
    segment_bytes: usize,
    classes: Vec<Class>,
    segments: Vec<Segment>,
    /// Segments without a class.
    idle: Vec<u32>,
    /// Segments without memory.
    gone: Vec<u32>,
    alone: Vec<Option<Box<[u8]>>>,
    alone_free: Vec<u32>,
    alone_bytes: usize,
    /// Where the search for an empty segment goes on.
    hand: usize,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk::<4>().map_or(0, |number| u32::from_le_bytes(*number))
}

fn put_u32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

impl Slots {
    /// No memory yet; segments of so many bytes, a power of two of at least 1 KiB; sizes of slots so many steps apart.
    pub(crate) fn new(segment_bytes: usize, steps: usize) -> Slots {
        assert!(segment_bytes.is_power_of_two() && (1024..=SLOT_MIN << SLOT_BITS).contains(&segment_bytes));
        let mut classes = Vec::new();
        let mut size = SLOT_MIN;
        while size <= segment_bytes / 4 {
            classes.push(Class { size, ..Class::default() });
            size = (size + (size / steps).max(8)) / 8 * 8;
        }
        assert!(classes.len() <= 1 << u8::BITS, "a segment names its class");
        Slots {
            segment_bytes,
            classes,
            segments: Vec::new(),
            idle: Vec::new(),
            gone: Vec::new(),
            alone: Vec::new(),
            alone_free: Vec::new(),
            alone_bytes: 0,
            hand: 0,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.segments.capacity() * size_of::<Segment>() + self.alone.capacity() * 16;
        (self.segments.len() - self.gone.len()) * self.segment_bytes + self.alone_bytes + lists
    }

    fn class_of(&self, length: usize) -> Option<usize> {
        let class = self.classes.partition_point(|class| class.size < length + HEAD);
        (class < self.classes.len()).then_some(class)
    }

    /// Bytes by which memory must grow before a block of a length can be added; 0 when there is room.
    pub(crate) fn needs(&self, length: usize) -> usize {
        match self.class_of(length) {
            None => length + HEAD,
            Some(class) if self.classes[class].free_slots > 0 || !self.idle.is_empty() => 0,
            Some(_) => self.segment_bytes,
        }
    }

    /// Adds a block of one or several parts. Grows memory by what [`Slots::needs`] says.
    pub(crate) fn add(&mut self, owner: u32, parts: &[&[u8]]) -> u32 {
        assert!(owner != NOBODY, "a block has an owner");
        let length = parts.iter().map(|part| part.len()).sum();
        let Some(class) = self.class_of(length) else { return self.add_alone(owner, length, parts) };
        let handle = self.take_slot(class);
        self.fill(handle, owner, length, parts);
        handle
    }

    fn fill(&mut self, handle: u32, owner: u32, length: usize, parts: &[&[u8]]) {
        let slot = self.slot_mut(handle);
        put_u32(slot, 0, owner);
        put_u32(slot, 4, length as u32);
        let mut at = HEAD;
        for part in parts {
            slot[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }

    fn add_alone(&mut self, owner: u32, length: usize, parts: &[&[u8]]) -> u32 {
        self.alone_bytes += length + HEAD;
        let block = Some(vec![0; length + HEAD].into_boxed_slice());
        let at = match self.alone_free.pop() {
            Some(at) => {
                self.alone[at as usize] = block;
                at
            }
            None => {
                self.alone.push(block);
                self.alone.len() as u32 - 1
            }
        };
        self.fill(at | ALONE, owner, length, parts);
        at | ALONE
    }

    fn take_slot(&mut self, class: usize) -> u32 {
        let at = loop {
            let Some(at) = self.classes[class].open.last().copied() else { break self.add_segment(class) };
            let segment = &mut self.segments[at as usize];
            // One that was emptied for another class may still be listed.
            let room = segment.free != NONE
                || (segment.fresh as usize) < self.segment_bytes / self.classes[class].size;
            if segment.open && usize::from(segment.class) == class && room {
                break at;
            }
            if usize::from(segment.class) == class {
                segment.open = false;
            }
            self.classes[class].open.pop();
        };
        let size = self.classes[class].size;
        let segment = &mut self.segments[at as usize];
        let slot = if segment.free == NONE {
            segment.fresh += 1;
            segment.fresh - 1
        } else {
            let slot = segment.free;
            segment.free = u32_at(&segment.bytes, slot as usize * size + 4);
            slot
        };
        segment.live += 1;
        self.classes[class].free_slots -= 1;
        at << SLOT_BITS | slot
    }

    fn add_segment(&mut self, class: usize) -> u32 {
        let memory = || {
            let mut bytes = paged(self.segment_bytes);
            bytes.resize(self.segment_bytes, 0);
            bytes
        };
        let at = if let Some(at) = self.idle.pop() {
            at
        } else if let Some(at) = self.gone.pop() {
            self.segments[at as usize].bytes = memory();
            at
        } else {
            let bytes = memory();
            self.segments.push(Segment {
                bytes,
                size: 0,
                class: 0,
                live: 0,
                free: NONE,
                fresh: 0,
                open: false,
            });
            self.segments.len() as u32 - 1
        };
        let segment = &mut self.segments[at as usize];
        (segment.class, segment.live, segment.free, segment.fresh) = (class as u8, 0, NONE, 0);
        segment.open = true;
        let class = &mut self.classes[class];
        segment.size = class.size as u32;
        class.free_slots += self.segment_bytes / class.size;
        class.open.push(at);
        at
    }

    fn slot(&self, handle: u32) -> &[u8] {
        if handle & ALONE != 0 {
            return self.alone[(handle & !ALONE) as usize].as_deref().expect("a live block");
        }
        let segment = &self.segments[(handle >> SLOT_BITS) as usize];
        let size = segment.size as usize;
        let at = (handle & ((1 << SLOT_BITS) - 1)) as usize * size;
        &segment.bytes[at..at + size]
    }

    fn slot_mut(&mut self, handle: u32) -> &mut [u8] {
        if handle & ALONE != 0 {
            return self.alone[(handle & !ALONE) as usize].as_deref_mut().expect("a live block");
        }
        let segment = &mut self.segments[(handle >> SLOT_BITS) as usize];
        let size = segment.size as usize;
        let at = (handle & ((1 << SLOT_BITS) - 1)) as usize * size;
        &mut segment.bytes[at..at + size]
    }

    /// The content of a block.
    #[inline]
    pub(crate) fn get(&self, handle: u32) -> &[u8] {
        let slot = self.slot(handle);
        let length = u32_at(slot, 4) as usize;
        &slot[HEAD..HEAD + length]
    }

    /// Has the first bytes of a block come into the processor's caches.
    #[inline]
    pub(crate) fn prefetch(&self, handle: u32, bytes: usize) {
        prefetch(self.slot(handle), bytes);
    }

    /// Bytes that a block takes, unused ones of its slot included.
    pub(crate) fn size(&self, handle: u32) -> usize {
        self.slot(handle).len()
    }

    /// Gives a block back.
    pub(crate) fn remove(&mut self, handle: u32) {
        if handle & ALONE != 0 {
            let at = handle & !ALONE;
            let block = self.alone[at as usize].take().expect("a live block");
            self.alone_bytes -= block.len();
            self.alone_free.push(at);
            return;
        }
        let (at, slot) = (handle >> SLOT_BITS, handle & ((1 << SLOT_BITS) - 1));
        let segment = &mut self.segments[at as usize];
        let class = &mut self.classes[usize::from(segment.class)];
        let place = slot as usize * class.size;
        assert!(u32_at(&segment.bytes, place) != NOBODY, "a block is given back once");
        put_u32(&mut segment.bytes, place, NOBODY);
        put_u32(&mut segment.bytes, place + 4, segment.free);
        segment.free = slot;
        segment.live -= 1;
        class.free_slots += 1;
        if !segment.open {
            segment.open = true;
            class.open.push(at);
        }
    }

    /// Empties a segment of a size of which there is more room than one, and tells the owners of blocks where they are now.
    /// Returns false when no size has as much room. Copies one segment at most.
    pub(crate) fn drain_one(&mut self, mut moved: impl FnMut(u32, u32)) -> bool {
        for step in 0..self.classes.len() {
            let index = (self.hand + step) % self.classes.len();
            let class = &self.classes[index];
            let per_segment = self.segment_bytes / class.size;
            if class.free_slots < per_segment {
                continue;
            }
            let is_of_class = |at: &&u32| {
                let segment = &self.segments[**at as usize];
                segment.open && usize::from(segment.class) == index
            };
            let some = class.open.iter().filter(is_of_class).take(SEGMENTS_LOOKED_AT);
            let Some(at) = some.copied().min_by_key(|at| self.segments[*at as usize].live) else { continue };
            let segment = &self.segments[at as usize];
            // What it has free itself does not help to empty it.
            let elsewhere = class.free_slots - (per_segment - segment.live as usize);
            if elsewhere < segment.live as usize {
                continue;
            }
            self.hand = index;
            self.empty(at, index, &mut moved);
            return true;
        }
        false
    }

    /// Gives the memory of a segment without a class back. False: there is none.
    pub(crate) fn free_one(&mut self) -> bool {
        let Some(at) = self.idle.pop() else { return false };
        self.segments[at as usize].bytes = paged(0);
        self.gone.push(at);
        true
    }

    fn empty(&mut self, at: u32, class: usize, moved: &mut impl FnMut(u32, u32)) {
        let size = self.classes[class].size;
        let per_segment = self.segment_bytes / size;
        let segment = &mut self.segments[at as usize];
        let bytes = std::mem::replace(&mut segment.bytes, paged(0));
        let fresh = segment.fresh as usize;
        self.classes[class].free_slots -= per_segment - segment.live as usize;
        segment.open = false;
        self.classes[class].open.retain(|open| *open != at);
        for slot in 0..fresh {
            let old = &bytes[slot * size..(slot + 1) * size];
            let owner = u32_at(old, 0);
            if owner == NOBODY {
                continue;
            }
            let handle = self.take_slot(class);
            self.slot_mut(handle).copy_from_slice(old);
            moved(owner, handle);
        }
        let segment = &mut self.segments[at as usize];
        (segment.bytes, segment.live, segment.free, segment.fresh) = (bytes, 0, NONE, 0);
        self.idle.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{HashMap, Prng};

    /// Blocks come and go, segments are emptied, and every owner finds its bytes.
    #[test]
    fn blocks_keep_their_bytes_while_segments_change_their_size() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let mut slots = Slots::new(4096, 5);
            let mut live: HashMap<u32, (u32, Vec<u8>)> = HashMap::default();
            let (mut next, mut drained) = (0, 0);
            for round in 0..4000 {
                // Sizes shift, so that room of one size has to become room of another.
                let most = if round < 2000 { 60 } else { 700 };
                if prng.chance(0.55) && live.len() < 300 {
                    let mut bytes =
                        vec![0; prng.below(most) as usize + usize::from(prng.chance(0.02)) * 2000];
                    prng.fill(&mut bytes);
                    let (grows, before) = (slots.needs(bytes.len()), slots.bytes());
                    let cut = prng.below(bytes.len() as u64 + 1) as usize;
                    let handle = slots.add(next, &[&bytes[..cut], &bytes[cut..]]);
                    assert!(slots.bytes() <= before + grows + 2048, "lists apart, it grows as it said");
                    assert!(grows > 0 || slots.bytes() == before || bytes.is_empty());
                    live.insert(next, (handle, bytes));
                    next += 1;
                } else if let Some(owner) =
                    live.keys().nth(prng.below(live.len().max(1) as u64) as usize).copied()
                {
                    let (handle, bytes) = live.remove(&owner).expect("it is there");
                    assert_eq!(slots.get(handle), bytes);
                    slots.remove(handle);
                }
                if prng.chance(0.2) {
                    let emptied =
                        slots.drain_one(|owner, handle| live.get_mut(&owner).expect("an owner").0 = handle);
                    drained += u32::from(emptied);
                    if prng.chance(0.5) {
                        slots.free_one();
                    }
                }
            }
            assert!(drained > 0, "seed {seed}: a segment was emptied");
            live.values().for_each(|(handle, bytes)| assert_eq!(slots.get(*handle), bytes, "seed {seed}"));
            live.values().for_each(|(handle, _)| slots.remove(*handle));
            assert_eq!(slots.alone_bytes, 0);
            assert!(slots.segments.iter().all(|segment| segment.live == 0));
        }
    }
}
