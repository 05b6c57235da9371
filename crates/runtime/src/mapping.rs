//! A file whose bytes are this process's memory: what was stored there is the kernel's, so it outlives the process at whatever
//! instruction that ends, without a system call. It does not outlive a power cut: the kernel writes pages when it likes.
//!
//! Space must be allocated before it is stored to, or a full disk ends the process (`SIGBUS`). In simulation the disk keeps
//! the memory of a killed node.

use crate::backend::FileHandle;
use crate::backend::sim::memory::SharedMemory;
use crate::file::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{Ordering, compiler_fence};

/// The first bytes of a file as memory, shared with the kernel and with whoever reads the file. Unmapped when dropped.
/// Its owner alone changes these bytes: nothing writes to the file below [`Mapping::set_len`].
pub struct Mapping {
    start: NonNull<u8>,
    /// Address space.
    reserved: usize,
    /// Bytes of it that the file has.
    len: usize,
    keeper: Keeper,
    file: File,
}

/// Who gave the memory.
enum Keeper {
    Kernel,
    Sim { _memory: Rc<SharedMemory> },
}

impl File {
    /// Maps a file that was opened for reading and writing. Nothing of it is usable before [`Mapping::set_len`].
    /// Errors: the file system has no shared mappings, or the process has no address space left.
    pub fn map(&self, reserved: usize) -> io::Result<Mapping> {
        assert!(reserved > 0, "an empty mapping is none");
        let (start, keeper) = match self.handle() {
            FileHandle::Uring(file) => (map_shared(file.raw_fd(), reserved)?, Keeper::Kernel),
            FileHandle::Blocking(file) => (map_shared(file.raw_fd(), reserved)?, Keeper::Kernel),
            FileHandle::Sim(file) => {
                let memory = file.map(reserved)?;
                (memory.start(), Keeper::Sim { _memory: memory })
            }
        };
        Ok(Mapping { start, reserved, len: 0, keeper, file: self.clone() })
    }
}

fn map_shared(fd: i32, bytes: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: asks for address space of its own; the descriptor is open.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory.cast::<u8>()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

impl Mapping {
    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes the first `len` bytes usable; the file must have them, allocated.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.reserved, "the address space was reserved");
        self.len = len;
    }
}

impl Deref for Mapping {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped as long as this value lives; only it hands out references to them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the reference is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapping({} of {:?})", self.len, self.file)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match &self.keeper {
            // SAFETY: this value mapped it, and no reference outlives it.
            Keeper::Kernel => drop(unsafe { libc::munmap(self.start.as_ptr().cast(), self.reserved) }),
            Keeper::Sim { .. } => {
                if let FileHandle::Sim(file) = self.file.handle() {
                    file.unmap();
                }
            }
        }
    }
}

/// Stores eight bytes at once: a process that ends meanwhile has stored all of them or none, and what was stored before in the
/// order of the program lies there too.
/// Panics when the place is not one of eight aligned bytes in the slice; memory that is not aligned itself gets them one by one.
pub fn store_u64(bytes: &mut [u8], at: usize, value: [u8; 8]) {
    assert!(at.is_multiple_of(8), "words lie at multiples of their size");
    store(&mut bytes[at..at + 8], value, u64::from_ne_bytes);
}

/// As [`store_u64`], of four bytes.
pub fn store_u32(bytes: &mut [u8], at: usize, value: [u8; 4]) {
    assert!(at.is_multiple_of(4), "words lie at multiples of their size");
    store(&mut bytes[at..at + 4], value, u32::from_ne_bytes);
}

fn store<const N: usize, T>(place: &mut [u8], value: [u8; N], word: impl Fn([u8; N]) -> T) {
    assert!(place.len() == N && size_of::<T>() == N, "a place of one word");
    compiler_fence(Ordering::Release);
    let start = place.as_mut_ptr().cast::<T>();
    if start.is_aligned() {
        // SAFETY: the place is as long as the word, aligned, and borrowed exclusively.
        unsafe { start.write_volatile(word(value)) };
    } else {
        place.copy_from_slice(&value);
    }
    compiler_fence(Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{self, OpenOptions};
    use crate::sim::{SimConfig, World, main_of};
    use std::time::Duration;

    const PAGE: usize = 4096;

    async fn mapped(path: &str) -> Mapping {
        let options = OpenOptions { read: true, write: true, create: true, ..OpenOptions::READ };
        let file = File::open(path, options).await.expect("opens");
        file.allocate(2 * PAGE as u64).await.expect("allocates");
        let mut mapping = file.map(16 * PAGE).expect("maps");
        mapping.set_len(2 * PAGE);
        mapping
    }

    /// What a node's file has after it stored `1` and ended in this way.
    fn stored_and_ended(seed: u64, end: impl FnOnce(&mut World, crate::sim::NodeId)) -> Vec<u8> {
        let mut world = World::new(seed, SimConfig::calm());
        let node = world.add_node([10, 0, 0, 1].into());
        let main = || {
            main_of(|| async {
                let mut mapping = mapped("/tail").await;
                file::sync_dir("/").await.expect("synced");
                mapping.fill(1);
                crate::shutdown_requested().await;
                0
            })
        };
        world.boot(node, 1, main());
        world.run_for(Duration::from_millis(50));
        end(&mut world, node);
        world.boot(node, 1, main_of(|| async { std::future::pending::<i32>().await }));
        let mut task = world.spawn(node, async { file::read("/tail").await.expect("readable") });
        assert!(world.run_until(|_| task.done(), Duration::from_secs(5)));
        task.take().expect("done")
    }

    #[test]
    fn a_killed_process_leaves_what_it_stored() {
        assert_eq!(stored_and_ended(1, |world, node| world.kill(node)), vec![1; 2 * PAGE]);
    }

    #[test]
    fn a_stopped_process_leaves_what_it_stored() {
        let stop = |world: &mut World, node| {
            world.stop(node);
            assert!(world.run_until(|world| !world.alive(node), Duration::from_secs(5)));
        };
        assert_eq!(stored_and_ended(1, stop), vec![1; 2 * PAGE]);
    }

    #[test]
    fn a_power_cut_leaves_any_part_of_it() {
        let (mut none, mut some, mut all) = (0, 0, 0);
        for seed in 0..40 {
            let bytes = stored_and_ended(seed, |world, node| world.power_cut(node));
            match bytes.iter().filter(|byte| **byte == 1).count() {
                0 => none += 1,
                count if count == 2 * PAGE => all += 1,
                _ => some += 1,
            }
        }
        assert!(none > 0 && some > 0 && all > 0, "{none} none, {some} some, {all} all");
    }

    #[test]
    fn a_real_mapping_is_the_file() {
        let dir = std::env::temp_dir().join(format!("messina-mapping-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let path = dir.join("tail");
        let name = path.to_string_lossy().into_owned();
        let config = crate::Config { pin: false, ..crate::Config::new(1) };
        let code = crate::run(
            config,
            main_of(move || {
                let name = name.clone();
                async move {
                    let mut mapping = mapped(&name).await;
                    mapping[PAGE - 1..PAGE + 1].copy_from_slice(&[7, 8]);
                    let bytes = file::read(&name).await.expect("readable");
                    assert_eq!(bytes[PAGE - 1..PAGE + 1], [7, 8]);
                    0
                }
            }),
        );
        assert_eq!(code, 0);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
