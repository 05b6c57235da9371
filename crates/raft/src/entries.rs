//! The entries of a log that are in memory, by index, and how many bytes they are.

use crate::codec::entry_bytes;
use crate::types::Entry;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// Entries without a gap, and their bytes as [`entry_bytes`] counts them, which a look costs nothing.
#[derive(Default, Clone)]
pub(crate) struct Entries {
    all: BTreeMap<u64, Entry>,
    bytes: usize,
}

impl Entries {
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.bytes += entry_bytes(&entry);
        if let Some(old) = self.all.insert(entry.log_id.index, entry) {
            self.bytes -= entry_bytes(&old);
        }
    }

    /// Forgets those from an index on.
    pub(crate) fn cut_tail(&mut self, first: u64) {
        let gone = self.all.split_off(&first);
        self.forget(&gone);
    }

    /// Forgets those below an index.
    pub(crate) fn cut_head(&mut self, next: u64) {
        let kept = self.all.split_off(&next);
        let gone = std::mem::replace(&mut self.all, kept);
        self.forget(&gone);
    }

    fn forget(&mut self, gone: &BTreeMap<u64, Entry>) {
        self.bytes -= gone.values().map(entry_bytes).sum::<usize>();
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Entry> {
        self.all.get(&index)
    }

    pub(crate) fn range(&self, range: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = &Entry> {
        self.all.range(range).map(|(_, entry)| entry)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.all.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Command, LogId};
    use base::HostId;
    use openraft::EntryPayload;
    use openraft::impls::leader_id_adv::LeaderId;

    #[test]
    fn bytes_are_those_of_the_entries_there_are() {
        let entry = |index: u64, len: usize| Entry {
            log_id: LogId { leader_id: LeaderId { term: 3, node_id: HostId(2) }, index },
            payload: EntryPayload::Normal(Command(vec![0; len])),
        };
        let mut entries = Entries::default();
        let sum = |entries: &Entries| entries.values().map(entry_bytes).sum::<usize>();
        for index in 3..20 {
            entries.insert(entry(index, 100 * index as usize));
            assert_eq!(entries.bytes(), sum(&entries));
        }
        let before = entries.bytes();
        entries.insert(entry(19, 5));
        assert_eq!(entries.bytes(), before - 1895, "another takes its place");
        entries.cut_tail(15);
        entries.cut_head(6);
        assert_eq!((entries.len(), entries.bytes()), (9, sum(&entries)));
        entries.cut_head(100);
        assert_eq!((entries.len(), entries.bytes()), (0, 0));
    }
}
