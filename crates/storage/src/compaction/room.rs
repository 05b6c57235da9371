//! Whether the disk has room for what a compaction writes before its inputs go.
//!
//! ```text
//! inputs   ████ ████ ████       cut where tokens meet, a result takes the place of inputs at each cut over which none reaches
//!          ████ ████ ████
//! at once  ▒▒▒▒                 so the inputs between two such cuts are there with what is made of them, and no more
//! ```
//! A compaction that fills the disk takes the room of the commitlog, and writes are refused. So what would not fit is made smaller, by its
//! largest inputs, or left for later. Other shards that begin at the same moment are not known.
//! Source: what Cassandra does before a compaction, `max_space_usable_for_compactions_in_percentage`.

use super::claim::Claim;
use super::merge::Work;
use super::progress::CompactionKind;
use super::strategy::Split;
use crate::Error;
use crate::settings::CompactionRoom;
use crate::store::Store;
use crate::table::{Sstable, TableStore};
use std::io;
use std::rc::Rc;

/// Inputs below which nothing is left to merge.
const INPUTS_MIN: usize = 2;

/// One input: its tokens and its stored bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: i64,
    last: i64,
    bytes: u64,
}

impl Span {
    fn of(sstable: &Rc<Sstable>) -> Span {
        let meta = &sstable.entry.meta;
        let bytes = sstable.reader.footprint().stored_bytes;
        Span { first: meta.first_token.0, last: meta.last_token.0, bytes }
    }
}

/// Bytes of the result that are there at once with all inputs they are made of. O(n log n).
fn most_held(mut spans: Vec<Span>, split: Split) -> u64 {
    // Of other results it is not known where they are cut.
    let is_cut_where_tokens_meet = matches!(split, Split::Parts(_));
    spans.sort_by_key(|span| span.first);
    let (mut most, mut held, mut end) = (0u64, 0u64, None);
    for span in spans {
        if is_cut_where_tokens_meet && end.is_some_and(|end| end < span.first) {
            held = 0;
        }
        held = held.saturating_add(span.bytes);
        end = end.max(Some(span.last));
        most = most.max(held);
    }
    most
}

impl CompactionRoom {
    /// Of so many free bytes, those that compactions may take.
    fn of(self, free: u64) -> u64 {
        free.saturating_sub(self.least_free_bytes) / 1000 * u64::from(self.usable_permille)
    }
}

impl Store {
    /// Gives back the largest of what is claimed until the disk has room for the rest.
    /// Errors: it has none for the least that would be merged; nothing was done.
    pub(super) async fn fit(&self, table: &TableStore, work: &Work, claim: &Claim) -> Result<(), Error> {
        let folder = &self.settings.data_dir;
        let free = runtime::file::free_space(folder).await;
        let free = free.map_err(|error| Error::io(folder, "look for space in", error))?;
        let under_way = self.compactions.bytes_left();
        let room = self.settings.compaction_room.of(free).saturating_sub(under_way);
        loop {
            let sstables = claim.sstables();
            let wanted = most_held(sstables.iter().map(Span::of).collect(), work.shape.split);
            if wanted <= room {
                return Ok(());
            }
            // Sstables of a level go together: one that is left out would overlap with the result.
            let loose = |sstable: &&Rc<Sstable>| work.shape.level == 0 || sstable.level.get() == 0;
            let largest = sstables.iter().filter(loose).max_by_key(|sstable| Span::of(sstable).bytes);
            let is_smaller_useful = matches!(work.kind, CompactionKind::Background | CompactionKind::Major);
            match largest {
                Some(largest) if is_smaller_useful && sstables.len() > INPUTS_MIN => {
                    claim.give_back(largest);
                }
                _ => {
                    let what =
                        format!("a compaction of {} needs {wanted} bytes, {room} may be taken", table.id);
                    let full = io::Error::new(io::ErrorKind::StorageFull, what);
                    return Err(Error::io(folder, "compact in", full));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: i64, last: i64, bytes: u64) -> Span {
        Span { first, last, bytes }
    }

    fn held(spans: &[Span], split: Split) -> u64 {
        most_held(spans.to_vec(), split)
    }

    #[test]
    fn one_result_needs_the_room_of_all_its_inputs() {
        let spans = [span(0, 99, 1000), span(0, 49, 500)];
        assert_eq!(held(&spans, Split::Whole), 1500);
        assert_eq!(held(&[], Split::Whole), 0);
        assert_eq!(held(&[], Split::Parts(4)), 0);
    }

    #[test]
    fn what_is_cut_needs_no_more_than_lies_between_two_cuts() {
        // A run of four beside another: a quarter of both at a time.
        let run = |bytes: u64| (0..4).map(move |part| span(part * 100, part * 100 + 99, bytes));
        let spans: Vec<Span> = run(1000).chain(run(400)).collect();
        assert_eq!(held(&spans, Split::Parts(4)), 1400);
        assert_eq!(held(&spans, Split::Bytes(100)), 5600, "cut anywhere");
        // One of them reaches over every cut.
        let spans: Vec<Span> = run(1000).chain([span(0, 399, 1600)]).collect();
        assert_eq!(held(&spans, Split::Parts(4)), 5600);
        let spans = [span(i64::MIN, i64::MAX, 100), span(i64::MIN, i64::MAX, 300)];
        assert_eq!(held(&spans, Split::Parts(4)), 400);
    }

    #[test]
    fn some_space_is_never_taken() {
        let room = CompactionRoom { usable_permille: 900, least_free_bytes: 100 };
        assert_eq!((room.of(10_100), room.of(100), room.of(0)), (9_000, 0, 0));
        assert_eq!(CompactionRoom::ANY.of(u64::MAX), u64::MAX / 1000 * 1000);
    }
}
