//! The memory of memtables and cache: where partitions lie and how they are found.
//!
//! ```text
//! (token, key) ─► directory ─► partition ─┬─ one row, behind the key
//!                                         ├─ a few rows: sorted handles ─► rows
//!                                         └─ many rows: tree of handles ─► rows ─► (more than 32 KiB) fragments
//! ```
//! Everything of one memtable lies in pages it owns and is given back with them, so nothing is freed one by one and what
//! it takes is known exactly. A handle is a `u32`; no pointer leaves a page. Owned by one shard.

/// A list in huge pages, where it is as long as those have blocks.
pub(crate) type PagedVec<T> = allocator_api2::vec::Vec<T, runtime::pages::Pages>;

/// An empty list with so much room.
pub(crate) fn paged<T>(room: usize) -> PagedVec<T> {
    PagedVec::with_capacity_in(room, runtime::pages::Pages::new())
}

pub(crate) mod slab;
/// Partitions by token: found in O(1), walked in the order of the ring.
pub mod directory;
mod region;
mod rows;
mod tree;
mod large;
mod contents;
mod view;
#[cfg(test)]
mod tests;

pub(crate) use contents::{Contents, MemoryPool};
pub(crate) use view::MemoryPartition;
