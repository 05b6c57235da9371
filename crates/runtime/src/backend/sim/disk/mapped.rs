//! Mapped files of a simulated disk: what the process stored is looked at when it lets go of them or dies, and when the kernel
//! writes a page.

use std::io;
use std::rc::Rc;

use super::super::memory::SharedMemory;
use super::{Disk, Ino, Node, SECTOR, bad_handle};

/// Bytes of a page, which the kernel writes whole.
const PAGE: usize = 4096;

/// A file whose bytes are a process's memory.
pub(super) struct Map {
    ino: Ino,
    memory: Rc<SharedMemory>,
}

impl Disk {
    /// Gives a process memory that is the file's content, for at most so many bytes.
    pub(crate) fn map(&mut self, handle: u64, bytes: usize) -> io::Result<Rc<SharedMemory>> {
        let ino = self.handle(handle)?;
        let file = self.file_mut(ino).ok_or_else(bad_handle)?;
        let memory = Rc::new(SharedMemory::new(bytes));
        memory.set(&file.cache);
        self.maps.insert(handle, Map { ino, memory: memory.clone() });
        Ok(memory)
    }

    /// The process lets go of the memory.
    pub(crate) fn unmap(&mut self, handle: u64) {
        if let Some(map) = self.maps.remove(&handle) {
            self.look_at(&map, 0..usize::MAX);
        }
    }

    /// What a process stored to pages of a mapping is what reads see.
    fn look_at(&mut self, map: &Map, pages: std::ops::Range<usize>) {
        let version = self.next_version();
        let Some(file) = self.file_mut(map.ino) else { return };
        map.memory.look(file.cache.len(), |bytes| {
            let end = pages.end.min(bytes.len().div_ceil(PAGE));
            for page in pages.start.min(end)..end {
                let range = page * PAGE..((page + 1) * PAGE).min(bytes.len());
                if bytes[range.clone()] == file.cache[range.clone()] {
                    continue;
                }
                for start in range.clone().step_by(SECTOR) {
                    let sector = start..(start + SECTOR).min(range.end);
                    if bytes[sector.clone()] != file.cache[sector.clone()] {
                        file.cache[sector.clone()].copy_from_slice(&bytes[sector]);
                        file.dirty.insert((start / SECTOR) as u32, version);
                    }
                }
            }
        });
    }

    /// The kernel writes a page of a mapping, if there is one.
    pub(super) fn write_a_page(&mut self) {
        let chosen = self.rng.below(self.maps.len() as u64) as usize;
        let Some((_, map)) = self.maps.iter().nth(chosen) else { return };
        let map = Map { ino: map.ino, memory: map.memory.clone() };
        let Some(Node::File(file)) = self.nodes.get(&map.ino) else { return };
        let pages = file.cache.len().div_ceil(PAGE) as u64;
        if pages == 0 {
            return;
        }
        // Most of what was stored lies in the first pages: the others would hide that these have older versions.
        let among = if self.rng.chance(0.5) { pages } else { pages.min(8) };
        let page = self.rng.below(among) as usize;
        self.look_at(&map, page..page + 1);
        let Some(file) = self.file_mut(map.ino) else { return };
        for sector in (page * PAGE / SECTOR) as u32..((page + 1) * PAGE / SECTOR) as u32 {
            if file.dirty.remove(&sector).is_some() {
                file.write_back(sector);
            }
        }
    }

    /// The process is gone, and with it its mappings; what it stored is not.
    pub(super) fn end_mappings(&mut self) {
        for map in std::mem::take(&mut self.maps).into_values() {
            self.look_at(&map, 0..usize::MAX);
        }
    }
}
