//! Memory in huge pages, for what is touched all over: blocks of a few sizes, cut from pieces of 2 MiB.
//!
//! ```text
//! piece   [block][block][block] … of one size; 128 of 16 KiB, 42 of 48 KiB or 16 of 128 KiB
//! ```
//! Whoever looks at a place among gigabytes in pages of 4 KiB waits for the page tables as long as for the place itself. So the
//! kernel is asked for huge pages below the blocks of which memtables, caches and their indexes are made. Pieces without blocks are
//! given back, but for some that the thread [keeps](keep): the kernel zeroes what it gives, which costs as much as filling it. Those that
//! nobody needed for a while go as well. Pieces belong to the thread that asked for them, and so does what lies in them: it is not [`Send`].

use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
use base::{HashMap, counting};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Bytes of a piece, and what its address is a multiple of: a huge page.
const PIECE_BYTES: usize = 2 << 20;
/// Bytes of the blocks that lie in pieces.
const BLOCK_BYTES: [usize; 3] = [16 << 10, 48 << 10, 128 << 10];
/// Pieces that [`give_back`] gives back at once: the kernel takes some ten microseconds for one.
const GIVEN_BACK_AT_ONCE: usize = 8;
/// Pieces that so many calls of it in a row did not see needed go back.
const CALLS_UNNEEDED: u32 = 12;
/// What addresses of blocks are multiples of, at least.
const ALIGN: usize = 4096;

const _: () =
    assert!(PIECE_BYTES / BLOCK_BYTES[0] <= u128::BITS as usize, "a piece has a bit for each block");

/// An allocator for lists whose pages have 16, 48 or 128 KiB; those of other sizes come from where everything comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages(PhantomData<*const ()>);

impl Pages {
    /// The allocator. All are one.
    pub const fn new() -> Pages {
        Pages(PhantomData)
    }
}

/// Adding many elements at once. The list's own `extend_from_slice` adds one after the other, five instructions for each byte.
pub trait PushSlice<T> {
    /// Appends copies of all elements. Cost: that of copying their bytes.
    fn push_slice(&mut self, elements: &[T]);
}

impl<T: Copy> PushSlice<T> for allocator_api2::vec::Vec<T, Pages> {
    #[inline]
    fn push_slice(&mut self, elements: &[T]) {
        self.reserve(elements.len());
        // SAFETY: there is room for so many behind the last one, which is nobody else's; they are copied whole.
        unsafe {
            self.as_mut_ptr().add(self.len()).copy_from_nonoverlapping(elements.as_ptr(), elements.len());
            self.set_len(self.len() + elements.len());
        }
    }
}

/// From now on this thread keeps pieces without blocks of up to so many bytes, at least one piece.
pub fn keep(bytes: usize) {
    POOL.with_borrow_mut(|pool| {
        pool.kept_max = (bytes / PIECE_BYTES).max(1);
        pool.spares.truncate(pool.kept_max);
    });
}

/// Gives back some of the pieces that were not needed for as long as it was called twelve times. To be called now and then.
/// Cost: bounded; whatever is left goes with later calls.
pub fn give_back() {
    POOL.with_borrow_mut(Pool::give_back);
}

/// Which of the sizes of blocks a layout has.
fn kind_of(layout: Layout) -> Option<usize> {
    if layout.align() > ALIGN {
        return None;
    }
    BLOCK_BYTES.iter().position(|bytes| *bytes == layout.size())
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

// SAFETY: a block stays where it is and is nobody else's until it is given back; all values of this type are one allocator; a block
// is given back to the pool it came from, because nothing with this allocator leaves its thread.
unsafe impl Allocator for Pages {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let taken = kind_of(layout)
            .and_then(|kind| POOL.try_with(|pool| pool.borrow_mut().take(kind)).ok().flatten());
        match taken {
            Some(block) => {
                counting::count(1, layout.size() as i64);
                Ok(NonNull::slice_from_raw_parts(block, layout.size()))
            }
            None => Global.allocate(layout),
        }
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if kind_of(layout).is_some() {
            match POOL.try_with(|pool| pool.borrow_mut().give(block)) {
                Ok(true) => return counting::count(0, -(layout.size() as i64)),
                // It was made without the pool, as the kernel had no piece left.
                Ok(false) => {}
                // The thread ends, and its pool has: what is left there is lost until the process ends.
                Err(_) => return,
            }
        }
        // SAFETY: it came from there, with this layout.
        unsafe { Global.deallocate(block, layout) };
    }
}

/// A piece with blocks of one size.
struct Piece {
    memory: Mapping,
    kind: usize,
    /// Blocks that are taken, as bits.
    taken: u128,
}

impl Piece {
    fn blocks(kind: usize) -> u32 {
        (PIECE_BYTES / BLOCK_BYTES[kind]) as u32
    }

    fn is_full(&self) -> bool {
        self.taken.count_ones() == Piece::blocks(self.kind)
    }
}

/// The pieces of one thread.
struct Pool {
    /// By their addresses.
    pieces: HashMap<usize, Piece>,
    /// Those with room, by the size of their blocks.
    open: [Vec<usize>; BLOCK_BYTES.len()],
    /// Those without blocks.
    spares: Vec<Mapping>,
    /// How many of them may be kept.
    kept_max: usize,
    /// The fewest there were since so many calls, and how many were not needed in the time before.
    spares_min: usize,
    calls: u32,
    unneeded: usize,
}

impl Default for Pool {
    fn default() -> Pool {
        let pieces = HashMap::default();
        let (spares, kept_max, spares_min, calls, unneeded) = (Vec::new(), 1, 0, 0, 0);
        Pool { pieces, open: Default::default(), spares, kept_max, spares_min, calls, unneeded }
    }
}

impl Pool {
    fn take(&mut self, kind: usize) -> Option<NonNull<u8>> {
        let address = match self.open[kind].last() {
            Some(address) => *address,
            None => self.add_piece(kind)?,
        };
        let piece = self.pieces.get_mut(&address)?;
        let at = piece.taken.trailing_ones();
        piece.taken |= 1 << at;
        if piece.is_full() {
            self.open[kind].pop();
        }
        // SAFETY: a piece that is not full has a block there.
        Some(unsafe { piece.memory.start.add(at as usize * BLOCK_BYTES[kind]) })
    }

    fn add_piece(&mut self, kind: usize) -> Option<usize> {
        let memory = self.spares.pop().or_else(Mapping::new)?;
        self.spares_min = self.spares_min.min(self.spares.len());
        let address = memory.start.addr().get();
        self.pieces.insert(address, Piece { memory, kind, taken: 0 });
        self.open[kind].push(address);
        Some(address)
    }

    fn give_back(&mut self) {
        self.spares_min = self.spares_min.min(self.spares.len());
        self.calls += 1;
        if self.calls == CALLS_UNNEEDED {
            (self.unneeded, self.spares_min, self.calls) = (self.spares_min, self.spares.len(), 0);
        }
        let most = self.unneeded.min(self.spares.len().saturating_sub(1));
        let now = most.min(GIVEN_BACK_AT_ONCE);
        self.unneeded = most - now;
        self.spares.truncate(self.spares.len() - now);
    }

    /// Whether the block was one of a piece, and is free now.
    fn give(&mut self, block: NonNull<u8>) -> bool {
        let address = block.addr().get() & !(PIECE_BYTES - 1);
        let Some(piece) = self.pieces.get_mut(&address) else { return false };
        let (kind, at) = (piece.kind, (block.addr().get() - address) / BLOCK_BYTES[piece.kind]);
        assert!(piece.taken >> at & 1 == 1, "a block is given back once");
        if piece.is_full() {
            self.open[kind].push(address);
        }
        piece.taken &= !(1 << at);
        if piece.taken == 0 {
            self.open[kind].retain(|open| *open != address);
            let memory = self.pieces.remove(&address).map(|piece| piece.memory);
            if self.spares.len() < self.kept_max {
                self.spares.extend(memory);
            }
        }
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // What still lies in a piece outlives the thread's pool.
        for (_, piece) in self.pieces.drain() {
            let _kept = ManuallyDrop::new(piece.memory);
        }
    }
}

/// Address space of a piece.
struct Mapping {
    start: NonNull<u8>,
}

impl Mapping {
    /// `None`: the kernel has none left.
    fn new() -> Option<Mapping> {
        // What is in excess of an aligned piece goes back at once.
        let bytes = 2 * PIECE_BYTES;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new memory.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let memory = NonNull::new(memory.cast::<u8>())?;
        let before = memory.addr().get().next_multiple_of(PIECE_BYTES) - memory.addr().get();
        // SAFETY: inside of what was mapped, as the piece and what is before it are no more than two pieces.
        let start = unsafe { memory.add(before) };
        // SAFETY: as above.
        let behind = unsafe { start.add(PIECE_BYTES) };
        for (start, bytes) in [(memory, before), (behind, bytes - PIECE_BYTES - before)] {
            if bytes > 0 {
                // SAFETY: part of what was mapped, which nobody else knows.
                unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
            }
        }
        // A kernel without huge pages says no, and small ones do as well.
        // SAFETY: advice on memory that is ours.
        unsafe { libc::madvise(start.as_ptr().cast(), PIECE_BYTES, libc::MADV_HUGEPAGE) };
        Some(Mapping { start })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nothing lies in it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), PIECE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocator_api2::vec::Vec as PagedVec;
    use base::Prng;

    fn pieces() -> (usize, usize, usize) {
        POOL.with_borrow(|pool| (pool.pieces.len(), pool.open.iter().map(Vec::len).sum(), pool.spares.len()))
    }

    #[test]
    fn blocks_keep_what_is_in_them_and_pieces_come_back() {
        let mut prng = Prng::new(7);
        let mut held: Vec<(PagedVec<u8, Pages>, u8)> = Vec::new();
        let mut most = 0;
        for round in 0..3_000u32 {
            // More and more, then fewer and fewer.
            if prng.chance(if round < 1_500 { 0.6 } else { 0.2 }) {
                let bytes = [16 << 10, 48 << 10, 128 << 10, 16 << 10, 1000][prng.below(5) as usize];
                let mut block: PagedVec<u8, Pages> = PagedVec::with_capacity_in(bytes, Pages::new());
                assert!(bytes == 1000 || block.as_ptr().addr().is_multiple_of(ALIGN));
                block.resize(bytes, round as u8);
                held.push((block, round as u8));
            } else if !held.is_empty() {
                let (block, value) = held.swap_remove(prng.below(held.len() as u64) as usize);
                assert!(block.iter().all(|byte| *byte == value), "nobody else wrote there");
            }
            let (pieces, open, _) = pieces();
            assert!(open <= pieces);
            most = most.max(pieces);
        }
        assert!(most > 3);
        held.into_iter().for_each(|(block, value)| assert!(block.iter().all(|byte| *byte == value)));
        assert_eq!(pieces(), (0, 0, 1), "one is kept");
    }

    #[test]
    fn pieces_are_kept_as_long_as_they_are_needed() {
        let lists = |count: usize| -> Vec<PagedVec<u8, Pages>> {
            (0..count).map(|_| PagedVec::with_capacity_in(128 << 10, Pages::new())).collect()
        };
        let of_piece = PIECE_BYTES / (128 << 10);
        keep(20 * PIECE_BYTES);
        drop(lists(30 * of_piece));
        assert_eq!(pieces(), (0, 0, 20));
        let minute = || (0..CALLS_UNNEEDED).for_each(|_| give_back());
        // What was needed in between stays.
        minute();
        drop(lists(15 * of_piece));
        minute();
        assert_eq!(pieces(), (0, 0, 20 - GIVEN_BACK_AT_ONCE.min(5)));
        minute();
        assert_eq!(pieces(), (0, 0, 15 - GIVEN_BACK_AT_ONCE));
        minute();
        assert_eq!(pieces(), (0, 0, 1), "one is kept");
        drop(lists(2 * of_piece));
        assert_eq!(pieces(), (0, 0, 2));
        keep(0);
        assert_eq!(pieces(), (0, 0, 1));
    }

    #[test]
    fn a_list_that_grows_moves_between_sizes() {
        let mut list: PagedVec<u64, Pages> = PagedVec::new_in(Pages::new());
        for value in 0..100_000 {
            list.push(value);
        }
        assert!(list.iter().copied().eq(0..100_000));
        list.shrink_to(2048);
        drop(list);
    }

    /// A thread whose lists are dropped after its pool.
    #[test]
    fn what_outlives_the_pool_of_its_thread_stays_valid() {
        thread_local! {
            static LATE: RefCell<Option<PagedVec<u8, Pages>>> = const { RefCell::new(None) };
        }
        let thread = std::thread::spawn(|| {
            // Made before the pool, so it may go after it.
            LATE.with_borrow_mut(|late| *late = None);
            let mut list = PagedVec::with_capacity_in(16 << 10, Pages::new());
            list.push(7);
            LATE.with_borrow_mut(|late| *late = Some(list));
        });
        thread.join().expect("the thread ends");
    }
}
