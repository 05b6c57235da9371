//! Who a node is, whatever its addresses.

use std::fmt;

/// A node's identity for life: a UUID, drawn at its first start and kept in its data folder. Everything that speaks of a node keeps
/// this and never a position in a list of nodes, which is another node's after the next change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HostId(pub u128);

impl HostId {
    /// Its 16 bytes, as a UUID has them.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The identity that [`HostId::to_bytes`] gave.
    pub fn from_bytes(bytes: [u8; 16]) -> HostId {
        HostId(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e] = [(96, 32), (80, 16), (64, 16), (48, 16), (0, 48)]
            .map(|(shift, bits)| (self.0 >> shift) & ((1u128 << bits) - 1));
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }
}

impl fmt::Debug for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_as_a_uuid_and_comes_back_from_its_bytes() {
        let host = HostId(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c8);
        assert_eq!(host.to_string(), "6ba7b810-9dad-41d1-80b4-00c04fd430c8");
        assert_eq!(HostId(7).to_string(), "00000000-0000-0000-0000-000000000007");
        assert_eq!(HostId::from_bytes(host.to_bytes()), host);
    }
}
