//! A snapshot that arrives part by part.

use crate::codec::Part;
use crate::limits::SNAPSHOT_BYTES_MAX;
use crate::types::{LogId, SnapshotMeta, Vote};

/// What has arrived of one snapshot. A part of another one, or of another leader, begins anew.
#[derive(Default)]
pub(crate) struct Incoming {
    of: Option<(Vote, Option<LogId>, u64)>,
    bytes: Vec<u8>,
}

/// What a part makes of it.
#[derive(Debug, PartialEq)]
pub(crate) enum Arrived {
    /// Go on from this byte.
    Next(u64),
    /// All of it is here.
    Whole(Vote, Box<SnapshotMeta>, Vec<u8>),
}

impl Incoming {
    /// The snapshot that is arriving, and how much of it is here.
    pub(crate) fn progress(&self) -> (Option<LogId>, u64) {
        (self.of.as_ref().and_then(|(_, last, _)| *last), self.bytes.len() as u64)
    }

    /// Takes a part. A part that does not begin where the last one ended changes nothing: the answer says where to go on.
    pub(crate) fn take(&mut self, part: Part) -> Result<Arrived, String> {
        if part.total > SNAPSHOT_BYTES_MAX {
            return Err(format!("a snapshot of {} bytes is more than {SNAPSHOT_BYTES_MAX}", part.total));
        }
        let of = Some((part.vote, part.meta.last_log_id, part.total));
        if self.of != of {
            *self = Incoming { of, bytes: Vec::new() };
        }
        if part.offset == self.bytes.len() as u64 {
            if self.bytes.len() as u64 + part.bytes.len() as u64 > part.total {
                return Err("a part of a snapshot reaches beyond its end".to_string());
            }
            self.bytes.extend(part.bytes);
        }
        if self.bytes.len() as u64 == part.total {
            let whole = std::mem::take(self);
            return Ok(Arrived::Whole(part.vote, Box::new(part.meta), whole.bytes));
        }
        Ok(Arrived::Next(self.bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::HostId;

    fn part(term: u64, total: u64, offset: u64, bytes: &[u8]) -> Part {
        let meta = SnapshotMeta::default();
        Part { vote: Vote::new_committed(term, HostId(1)), meta, total, offset, bytes: bytes.to_vec() }
    }

    #[test]
    fn lost_doubled_and_foreign_parts_are_set_right() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.take(part(1, 6, 0, b"ab")), Ok(Arrived::Next(2)));
        assert_eq!(incoming.take(part(1, 6, 0, b"ab")), Ok(Arrived::Next(2)), "doubled");
        assert_eq!(incoming.take(part(1, 6, 4, b"ef")), Ok(Arrived::Next(2)), "one was lost");
        assert_eq!(incoming.take(part(2, 6, 2, b"cd")), Ok(Arrived::Next(0)), "another leader");
        assert_eq!(incoming.take(part(2, 6, 0, b"abcd")), Ok(Arrived::Next(4)));
        assert!(incoming.take(part(2, 6, 4, b"efg")).is_err(), "too long");
        let Ok(Arrived::Whole(_, _, bytes)) = incoming.take(part(2, 6, 4, b"ef")) else {
            panic!("not whole")
        };
        assert_eq!(bytes, b"abcdef");
        assert!(incoming.take(part(2, u64::MAX, 0, b"ef")).is_err(), "no such size");
        assert!(matches!(incoming.take(part(3, 0, 0, b"")), Ok(Arrived::Whole(..))), "an empty one");
    }
}
