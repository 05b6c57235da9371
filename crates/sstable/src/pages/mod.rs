//! What a shard keeps of its sstables' files in memory: pages of indexes and decoded chunks of data.
//!
//! ```text
//!   Window ─► Cache ─ hit ─► Block
//!                     └─ miss ─► Flight (one per block on its way) ─► disk, checksum, decode ─► Cache
//! ```
//! One [`Cache`] per shard under one budget: chunks have of it what pages do not want. A block is kept by whoever looks at it.
//! Reads on behalf of compaction, flush and streaming use what is there and leave nothing behind.

pub(crate) mod blocks;
pub(crate) mod flight;

use base::HashMap;
use runtime::metrics::{Counter, counter, gauge_fn};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::limits::CACHE_BYTES_DEFAULT;
use blocks::{Blocks, Key};

pub(crate) use blocks::{Block, Content};
use flight::{Flight, Landing};

/// The cache of a shard.
pub struct Cache {
    blocks: RefCell<Blocks>,
    /// Reads under way, by each block they bring.
    flights: RefCell<HashMap<Key, Rc<Flight>>>,
    next_file: Cell<u32>,
    buffered: Cell<bool>,
    hits: Counter,
    misses: Counter,
    joined: Counter,
    read_bytes: Counter,
    unwanted: Counter,
}

/// What a cache holds and what it was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Bytes it may hold.
    pub budget: usize,
    /// Bytes it holds.
    pub bytes: usize,
    /// Blocks it holds.
    pub blocks: usize,
    /// Blocks that were there.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Misses that waited for a read which was under way already.
    pub joined: u64,
    /// Blocks that went for others.
    pub evicted: u64,
    /// Bytes read from disk, whether or not they were kept.
    pub read_bytes: u64,
}

/// Why a block is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request: what it reads may be read again.
    Request,
    /// Background work that passes over everything once.
    Passing,
}

impl Purpose {
    /// That of the running task, by its group.
    pub(crate) fn of_task() -> Purpose {
        if runtime::current_group().is_background() { Purpose::Passing } else { Purpose::Request }
    }
}

impl Cache {
    /// The cache of this shard; made when it is first asked for, with a small budget.
    pub fn of_shard() -> Rc<Cache> {
        if let Some(cache) = runtime::try_local::<Cache>() {
            return cache;
        }
        let plain = |name, help| counter(name, help, &[]);
        let cache = Rc::new(Cache {
            blocks: RefCell::new(Blocks::new(CACHE_BYTES_DEFAULT)),
            flights: RefCell::default(),
            next_file: Cell::new(0),
            buffered: Cell::new(false),
            hits: plain("messina_sstable_cache_hits_total", "Blocks of sstables found in memory."),
            misses: plain("messina_sstable_cache_misses_total", "Blocks of sstables not found in memory."),
            joined: plain(
                "messina_sstable_cache_joined_total",
                "Blocks not found that another read was already bringing.",
            ),
            read_bytes: plain("messina_sstable_read_bytes_total", "Bytes of sstables read from disk."),
            unwanted: plain(
                "messina_sstable_reads_cancelled_total",
                "Reads whose readers had all gone before their turn at the disk.",
            ),
        });
        runtime::install(cache.clone());
        let weak = Rc::downgrade(&cache);
        let bytes = move || weak.upgrade().map_or(0.0, |cache| cache.stats().bytes as f64);
        gauge_fn("messina_sstable_cache_bytes", "Bytes of cached blocks.", &[], Box::new(bytes));
        cache
    }

    /// Sets how many bytes it may hold; what is too much goes at once.
    pub fn set_budget(&self, bytes: usize) {
        self.blocks.borrow_mut().set_budget(bytes);
    }

    /// Whether files that are opened from now on are read through the kernel's page cache.
    pub fn set_buffered(&self, buffered: bool) {
        self.buffered.set(buffered);
    }

    pub(crate) fn is_buffered(&self) -> bool {
        self.buffered.get()
    }

    /// What it holds and what it was asked.
    pub fn stats(&self) -> CacheStats {
        let blocks = self.blocks.borrow();
        CacheStats {
            budget: blocks.budget(),
            bytes: blocks.bytes(),
            blocks: blocks.count(),
            hits: self.hits.get(),
            misses: self.misses.get(),
            joined: self.joined.get(),
            evicted: blocks.evicted(),
            read_bytes: self.read_bytes.get(),
        }
    }

    /// A number for a file that is opened, of which nothing is cached.
    pub(crate) fn new_file(&self) -> u32 {
        loop {
            let file = self.next_file.get();
            self.next_file.set(file.wrapping_add(1));
            if !self.blocks.borrow().knows_file(file) {
                return file;
            }
        }
    }

    /// Forgets a file that is closed.
    pub(crate) fn drop_file(&self, file: u32) {
        self.blocks.borrow_mut().remove_file(file);
    }

    /// A block that is in memory.
    pub(crate) fn get(&self, key: Key, purpose: Purpose) -> Option<Block> {
        let block = self.blocks.borrow_mut().get(key, purpose == Purpose::Request);
        if block.is_some() {
            self.hits.inc();
        }
        block
    }

    /// Whether a block is in memory or on its way.
    pub(crate) fn expects(&self, key: Key) -> bool {
        self.blocks.borrow().contains(key) || self.flights.borrow().contains_key(&key)
    }

    /// The read under way that brings a block.
    pub(crate) fn join(&self, key: Key) -> Option<Landing> {
        let landing = self.flights.borrow().get(&key).map(Flight::land);
        if landing.is_some() {
            self.misses.inc();
            self.joined.inc();
        }
        landing
    }

    /// A read begins; whoever wants one of its blocks finds it.
    pub(crate) fn depart(&self, file: u32, flight: &Rc<Flight>) {
        let mut flights = self.flights.borrow_mut();
        for index in flight.range() {
            let before = flights.insert(Key { file, index }, flight.clone());
            assert!(before.is_none(), "a block is read once at a time");
        }
    }

    /// A read is over: it is found no more.
    pub(crate) fn arrive(&self, file: u32, flight: &Rc<Flight>) {
        let mut flights = self.flights.borrow_mut();
        for index in flight.range() {
            flights.remove(&Key { file, index });
        }
    }

    /// A buffer for a block of this size; its content means nothing.
    pub(crate) fn buffer(&self, size: usize) -> Vec<u8> {
        self.blocks.borrow_mut().buffer(size)
    }

    /// Keeps a block.
    pub(crate) fn keep(&self, key: Key, block: &Block, content: Content) {
        self.blocks.borrow_mut().insert(key, block.clone(), content);
    }

    /// Counts blocks that have to be read and the bytes that are.
    pub(crate) fn count_read(&self, blocks: u64, bytes: u64) {
        self.misses.add(blocks);
        self.read_bytes.add(bytes);
    }

    /// Counts a read that was given up.
    pub(crate) fn count_unwanted(&self) {
        self.unwanted.inc();
    }
}
