//! What orders the rounds of a partition.

use core::fmt;

/// 100 ns between the beginning of the Gregorian calendar and the Unix epoch, as version 1 UUIDs count.
const GREGORIAN_TICKS: i64 = 0x01b2_1dd2_1381_4000;
/// Bits of [`Ballot`] beside the time: those of a UUID beside time, version and variant.
const WHO_BITS: u64 = (1 << 62) - 1;

/// A round of one proposer: its time in microseconds since the Unix epoch and who it is of. Acceptors promise rounds of ever later times, so that no
/// two rounds of one time have a quorum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    micros: i64,
    who: u64,
}

impl Ballot {
    /// Before every round.
    pub const NONE: Ballot = Ballot { micros: i64::MIN, who: 0 };

    /// A round at a time, of whom `who` says: 62 bits that no other round of this time has.
    pub fn new(micros: i64, who: u64) -> Ballot {
        Ballot { micros, who: who & WHO_BITS }
    }

    /// Not a round: before every round of a later time, and not before any of this one.
    pub fn floor(micros: i64) -> Ballot {
        Ballot::new(micros, WHO_BITS)
    }

    /// Microseconds since the Unix epoch: the time of all cells that are first proposed in this round.
    pub fn micros(self) -> i64 {
        self.micros
    }

    /// Whether this is no round.
    pub fn is_none(self) -> bool {
        self == Ballot::NONE
    }

    /// Whether this is a later time than that of another.
    pub fn is_later_than(self, other: Ballot) -> bool {
        other.micros < self.micros
    }

    /// As a version 1 UUID, the way it is stored and sent; all zero for no round.
    pub fn to_bytes(self) -> [u8; 16] {
        if self.is_none() {
            return [0; 16];
        }
        let ticks = self.micros.wrapping_mul(10).wrapping_add(GREGORIAN_TICKS) as u64;
        let high = (ticks << 32) | ((ticks >> 16) & 0xffff_0000) | 0x1000 | ((ticks >> 48) & 0x0fff);
        let low = (1 << 63) | self.who;
        ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
    }

    /// Reads what [`Ballot::to_bytes`] wrote.
    pub fn from_bytes(bytes: [u8; 16]) -> Ballot {
        let bits = u128::from_be_bytes(bytes);
        if bits == 0 {
            return Ballot::NONE;
        }
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        let ticks = (high >> 32) | ((high & 0xffff_0000) << 16) | ((high & 0x0fff) << 48);
        let micros = (ticks as i64).wrapping_sub(GREGORIAN_TICKS).div_euclid(10);
        Ballot::new(micros, low)
    }
}

impl Default for Ballot {
    fn default() -> Ballot {
        Ballot::NONE
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return out.write_str("-");
        }
        write!(out, "{}.{:x}", self.micros, self.who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ballot_is_a_timeuuid_and_back() {
        for micros in [0, 1, 1_700_000_000_123_456, -1, 60_000_000_000_000_000] {
            let ballot = Ballot::new(micros, 0x3fed_cba9_8765_4321);
            let bytes = ballot.to_bytes();
            assert_eq!(bytes[6] >> 4, 1, "version 1");
            assert_eq!(bytes[8] >> 6, 0b10, "the variant of RFC 4122");
            assert_eq!(Ballot::from_bytes(bytes), ballot);
        }
        assert_eq!(Ballot::from_bytes(Ballot::NONE.to_bytes()), Ballot::NONE);
    }

    #[test]
    fn the_time_decides() {
        let (early, late) = (Ballot::new(1, u64::MAX), Ballot::new(2, 0));
        assert!(late.is_later_than(early) && early < late);
        assert!(!Ballot::new(1, 7).is_later_than(early) && !early.is_later_than(Ballot::new(1, 7)));
        assert!(early.is_later_than(Ballot::NONE));
    }
}
