//! How many connections the node serves, in all and to one address: the counts that all shards share.
//!
//! A connection is accepted on one shard and lives on another, so its slot travels with it and frees itself.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The slots of a node.
#[derive(Debug, Clone)]
pub struct Slots {
    taken: Arc<AtomicU32>,
    most: u32,
    by_address: Option<(Arc<Addresses>, u32)>,
}

/// Connections of each address that has any. Touched when a connection begins and ends, never in between.
#[derive(Debug, Default)]
struct Addresses(Mutex<BTreeMap<IpAddr, u32>>);

/// One connection's slot; free again when dropped.
#[derive(Debug)]
pub struct Slot {
    taken: Arc<AtomicU32>,
    address: Option<(Arc<Addresses>, IpAddr)>,
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The node serves as many as it may.
    Node,
    /// The client's address has as many as it may.
    Address,
}

impl Slots {
    /// As many slots as `most`, and for each address as many as `most_by_address`.
    pub fn new(most: u32, most_by_address: Option<u32>) -> Slots {
        let by_address = most_by_address.map(|most| (Arc::default(), most));
        Slots { taken: Arc::new(AtomicU32::new(0)), most, by_address }
    }

    /// A slot, unless all are taken.
    pub fn take(&self, address: IpAddr) -> Result<Slot, Full> {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        let mut slot = Slot { taken: self.taken.clone(), address: None };
        if self.most <= before {
            return Err(Full::Node);
        }
        if let Some((addresses, most)) = &self.by_address {
            if !addresses.add(address, *most) {
                return Err(Full::Address);
            }
            slot.address = Some((addresses.clone(), address));
        }
        Ok(slot)
    }
}

impl Addresses {
    fn add(&self, address: IpAddr, most: u32) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        let fits = *count < most;
        *count += u32::from(fits);
        fits
    }

    fn remove(&self, address: IpAddr) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
        if let Some((addresses, address)) = &self.address {
            addresses.remove(*address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn slots_run_out_and_come_back() {
        let slots = Slots::new(2, None);
        let first = slots.take(ip(1)).unwrap();
        let _second = slots.take(ip(1)).unwrap();
        assert_eq!(slots.take(ip(1)).unwrap_err(), Full::Node);
        drop(first);
        assert!(slots.take(ip(1)).is_ok());
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let slots = Slots::new(4, Some(2));
        let taken = [slots.take(ip(1)).unwrap(), slots.take(ip(1)).unwrap()];
        assert_eq!(slots.take(ip(1)).unwrap_err(), Full::Address);
        // What was refused has taken nothing.
        let _others = [slots.take(ip(2)).unwrap(), slots.take(ip(3)).unwrap()];
        assert_eq!(slots.take(ip(4)).unwrap_err(), Full::Node);
        drop(taken);
        assert!(slots.take(ip(1)).is_ok());
    }
}
