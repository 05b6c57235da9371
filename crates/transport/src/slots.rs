//! How many connections the node serves: the one count all shards share.
//!
//! A connection is accepted on one shard and lives on another, so its slot travels with it and frees itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The slots of a node.
#[derive(Debug, Clone)]
pub struct Slots {
    taken: Arc<AtomicU32>,
    most: u32,
}

/// One connection's slot; free again when dropped.
#[derive(Debug)]
pub struct Slot {
    taken: Arc<AtomicU32>,
}

impl Slots {
    /// As many slots as `most`.
    pub fn new(most: u32) -> Slots {
        Slots { taken: Arc::new(AtomicU32::new(0)), most }
    }

    /// A slot, unless all are taken.
    pub fn take(&self) -> Option<Slot> {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        let slot = Slot { taken: self.taken.clone() };
        (before < self.most).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_run_out_and_come_back() {
        let slots = Slots::new(2);
        let first = slots.take().unwrap();
        let _second = slots.take().unwrap();
        assert!(slots.take().is_none());
        drop(first);
        assert!(slots.take().is_some());
    }
}
