//! Consistency levels and their numbers on the wire.

use crate::error::TypeError;

/// How many replicas must answer. The numbers are the native protocol's and must never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Consistency {
    /// A hint is enough (writes only).
    Any = 0,
    /// One replica.
    One = 1,
    /// Two replicas.
    Two = 2,
    /// Three replicas.
    Three = 3,
    /// More than half of all replicas.
    Quorum = 4,
    /// Every replica.
    All = 5,
    /// More than half of the local data centre's replicas.
    LocalQuorum = 6,
    /// More than half of each data centre's replicas.
    EachQuorum = 7,
    /// Linearizable, over all data centres.
    Serial = 8,
    /// Linearizable, within the local data centre.
    LocalSerial = 9,
    /// One replica of the local data centre.
    LocalOne = 10,
}

const ALL: [(Consistency, &str); 11] = [
    (Consistency::Any, "ANY"),
    (Consistency::One, "ONE"),
    (Consistency::Two, "TWO"),
    (Consistency::Three, "THREE"),
    (Consistency::Quorum, "QUORUM"),
    (Consistency::All, "ALL"),
    (Consistency::LocalQuorum, "LOCAL_QUORUM"),
    (Consistency::EachQuorum, "EACH_QUORUM"),
    (Consistency::Serial, "SERIAL"),
    (Consistency::LocalSerial, "LOCAL_SERIAL"),
    (Consistency::LocalOne, "LOCAL_ONE"),
];

impl Consistency {
    /// Cassandra's name.
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }

    /// The number on the wire.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// True for the two levels of conditional statements.
    pub fn is_serial(self) -> bool {
        matches!(self, Consistency::Serial | Consistency::LocalSerial)
    }

    /// True for the levels that count only the local data centre.
    pub fn is_local(self) -> bool {
        matches!(self, Consistency::LocalQuorum | Consistency::LocalOne | Consistency::LocalSerial)
    }

    /// The level with this name, in any case.
    pub fn parse(name: &str) -> Option<Consistency> {
        ALL.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|(c, _)| *c)
    }
}

impl TryFrom<u16> for Consistency {
    type Error = TypeError;
    fn try_from(code: u16) -> Result<Consistency, TypeError> {
        match ALL.get(code as usize) {
            Some((level, _)) => Ok(*level),
            None => Err(TypeError::Consistency(code)),
        }
    }
}

impl std::fmt::Display for Consistency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_agree() {
        for code in 0..=10u16 {
            let level = Consistency::try_from(code).expect("codes 0 to 10 exist");
            assert_eq!(level.code(), code);
            assert_eq!(Consistency::parse(&level.to_string()), Some(level));
        }
        assert_eq!(Consistency::try_from(11), Err(TypeError::Consistency(11)));
        assert_eq!(Consistency::LocalOne.to_string(), "LOCAL_ONE");
    }
}
