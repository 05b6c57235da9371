//! How large an answer may become.

/// Bytes of partitions after which an answer stops, soon after: 1 to [`ByteLimit::MOST`]. There is no "none" and no "no limit": either was read as
/// the other somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteLimit(u32);

impl ByteLimit {
    /// 16 MiB: what one answer of a shard, one message and the client's answer made of it may hold in memory at once.
    pub const MOST: ByteLimit = ByteLimit(16 << 20);

    /// The nearest limit to so many bytes.
    pub const fn near(bytes: u64) -> ByteLimit {
        match bytes {
            0 => ByteLimit(1),
            // Below 16 MiB here.
            bytes if bytes < ByteLimit::MOST.0 as u64 => ByteLimit(bytes as u32),
            _ => ByteLimit::MOST,
        }
    }

    /// The limit in bytes.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// As a number on the wire.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Whether so many bytes end an answer.
    pub const fn is_reached_by(self, bytes: usize) -> bool {
        self.bytes() <= bytes
    }

    /// The limit of what follows so many bytes; whoever asks on gets at least something.
    #[must_use]
    pub const fn after(self, bytes: usize) -> ByteLimit {
        ByteLimit::near(self.bytes().saturating_sub(bytes) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_a_limit_that_lets_an_answer_get_on() {
        for (asked, given) in
            [(0, 1), (1, 1), (7, 7), (16 << 20, 16 << 20), (1 << 32, 16 << 20), (u64::MAX, 16 << 20)]
        {
            assert_eq!(ByteLimit::near(asked).bytes(), given, "{asked}");
        }
        let limit = ByteLimit::near(100);
        assert_eq!(
            [0, 99, 100, usize::MAX].map(|bytes| limit.is_reached_by(bytes)),
            [false, false, true, true]
        );
        assert_eq!([0, 99, 100, usize::MAX].map(|bytes| limit.after(bytes).bytes()), [100, 1, 1, 1]);
    }
}
