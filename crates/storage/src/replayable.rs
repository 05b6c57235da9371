//! What a restart may bring back of a table that neither its memtables nor its waiting writes have: entries of the log at or behind
//! its flushed position that were flushed ahead of one that waited for its sync, or given up.
//!
//! As long as such an entry can come back, no tombstone may go that hides any of it.

use crate::commitlog::LogPosition;
use std::cell::RefCell;

/// Spans that are told apart; more are counted as one with the last.
const SPANS_MAX: usize = 16;

/// Such entries of one table, in spans: where writes always wait, every flush adds one before it ends the one before.
#[derive(Default)]
pub(crate) struct Replayable(RefCell<Vec<Span>>);

/// Entries before `end` that say nothing older than `oldest`.
#[derive(Clone, Copy)]
struct Span {
    end: LogPosition,
    /// A timestamp.
    oldest: i64,
}

impl Replayable {
    /// Entries before `end` were flushed ahead and may come back; none says anything older than this timestamp.
    pub(crate) fn flushed_ahead(&self, end: LogPosition, oldest: i64) {
        let spans = &mut *self.0.borrow_mut();
        let is_full = spans.len() == SPANS_MAX;
        match spans.last_mut() {
            Some(last) if is_full || last.oldest == oldest => {
                last.end = last.end.max(end);
                last.oldest = last.oldest.min(oldest);
            }
            _ => spans.push(Span { end, oldest }),
        }
    }

    /// The entry at a place was given up and may come back.
    pub(crate) fn given_up(&self, position: LogPosition) {
        // What it says is not worth remembering: it is rare, and gone with a restart or a new log.
        self.flushed_ahead(LogPosition { offset: position.offset + 1, ..position }, i64::MIN);
    }

    /// The manifest says that every entry before a place is in sstables.
    pub(crate) fn flushed(&self, position: LogPosition) {
        self.0.borrow_mut().retain(|span| position < span.end);
    }

    /// The manifest says that no segment before this one is needed.
    pub(crate) fn released(&self, floor: u32) {
        self.0.borrow_mut().retain(|span| floor <= span.end.segment);
    }

    /// No such entry says anything older than this timestamp.
    pub(crate) fn oldest(&self) -> i64 {
        self.0.borrow().iter().map(|span| span.oldest).min().unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(segment: u32, offset: u32) -> LogPosition {
        LogPosition { segment, offset }
    }

    #[test]
    fn entries_count_until_they_are_flushed_or_their_segment_is_not_needed() {
        let known = Replayable::default();
        assert_eq!(known.oldest(), i64::MAX);
        known.flushed_ahead(at(1, 100), 50);
        known.flushed_ahead(at(2, 700), 60);
        known.flushed(at(1, 99));
        assert_eq!(known.oldest(), 50);
        known.flushed(at(1, 100));
        assert_eq!(known.oldest(), 60);
        known.released(2);
        assert_eq!(known.oldest(), 60, "the segment itself is needed");
        known.released(3);
        assert_eq!(known.oldest(), i64::MAX);
    }

    #[test]
    fn what_was_given_up_may_say_anything() {
        let known = Replayable::default();
        known.given_up(at(1, 100));
        known.flushed(at(1, 100));
        assert_eq!(known.oldest(), i64::MIN, "it is behind");
        known.flushed(at(1, 101));
        assert_eq!(known.oldest(), i64::MAX);
    }

    #[test]
    fn many_are_bounded_and_none_is_forgotten() {
        let known = Replayable::default();
        for number in 0..1000 {
            known.flushed_ahead(at(1, number), 1000 - i64::from(number));
        }
        assert!(known.0.borrow().len() <= SPANS_MAX);
        assert_eq!(known.oldest(), 1);
        known.flushed(at(1, 998));
        assert_eq!(known.oldest(), 1, "the newest is behind");
        known.flushed(at(1, 999));
        assert_eq!(known.oldest(), i64::MAX);
    }
}
