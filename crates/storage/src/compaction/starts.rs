//! Where the partitions of an sstable start, by its index, in the order of the data file: behind damage a scan goes on at the next.

use crate::limits::SCRUB_STARTS_MAX;
use sstable::{Raw, RawEntries, Reader};
use std::collections::BinaryHeap;

/// Some of the starts of one sstable.
#[derive(Default)]
pub(super) struct Starts {
    /// Ascending; all there are between `from` and `to`.
    known: Vec<u64>,
    from: u64,
    /// `None`: to the end; before the first look nothing is known.
    to: Option<u64>,
    looked: bool,
}

impl Starts {
    /// The first that is known at or behind a place.
    pub(super) fn first_from(&self, at: u64) -> Option<u64> {
        self.known.get(self.known.partition_point(|start| *start < at)).copied()
    }

    /// Sees to it that the first start at or behind a place is known. Cost: a walk through the index for every
    /// [`SCRUB_STARTS_MAX`] partitions, if any is asked for.
    /// Errors are returned: the index could not be read to its end; what it said before counts.
    pub(super) async fn next(&mut self, reader: &Reader, at: u64) -> Option<sstable::Error> {
        if self.looked && self.from <= at && self.to.is_none_or(|to| at <= to) {
            return None;
        }
        let mut least = BinaryHeap::new();
        let walked = match entries(reader).await {
            Ok(mut entries) => walk(&mut entries, at, &mut least).await,
            Err(error) => Err(error),
        };
        self.to = if least.len() < SCRUB_STARTS_MAX { None } else { least.peek().copied() };
        self.known = least.into_sorted_vec();
        (self.from, self.looked) = (at, true);
        walked.err()
    }
}

async fn entries(reader: &Reader) -> Result<RawEntries, sstable::Error> {
    Raw::open(reader.dir(), reader.descriptor()).await?.entries().await
}

/// Keeps the least of the starts at or behind a place.
async fn walk(entries: &mut RawEntries, at: u64, least: &mut BinaryHeap<u64>) -> Result<(), sstable::Error> {
    while let Some(entry) = entries.next().await? {
        if at <= entry.position {
            least.push(entry.position);
            if least.len() > SCRUB_STARTS_MAX {
                least.pop();
            }
        }
        runtime::yield_if_needed().await;
    }
    Ok(())
}
