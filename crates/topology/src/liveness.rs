//! Who answers, as this node finds it.

use base::HostId;
use std::collections::BTreeMap;

/// Which other nodes answer at the moment. Every node finds that out for itself; membership never depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Liveness {
    /// Those that answer, and whether clients can connect to them.
    up: BTreeMap<HostId, bool>,
    /// The version of the schema that each showed last, also of those that do not answer any more.
    schemas: BTreeMap<HostId, u128>,
}

impl Liveness {
    /// These answer, and clients can connect to them.
    pub fn of(up: impl IntoIterator<Item = HostId>) -> Liveness {
        Liveness::with_ports(up.into_iter().map(|host| (host, true)))
    }

    /// These answer; of each whether clients can connect to it.
    pub fn with_ports(up: impl IntoIterator<Item = (HostId, bool)>) -> Liveness {
        Liveness { up: up.into_iter().collect(), schemas: BTreeMap::new() }
    }

    /// The same nodes answer; these versions of the schema they have said, and for others holds what they said before.
    #[must_use]
    pub fn with_schemas(self, before: &Liveness, said: impl IntoIterator<Item = (HostId, u128)>) -> Liveness {
        let mut schemas = before.schemas.clone();
        schemas.extend(said);
        Liveness { schemas, ..self }
    }

    /// The version of the schema that a node showed to its clients when it was heard last; `None`: it was never heard.
    pub fn schema_version(&self, host: HostId) -> Option<u128> {
        self.schemas.get(&host).copied()
    }

    /// Whether a node answers.
    pub fn is_up(&self, host: HostId) -> bool {
        self.up.contains_key(&host)
    }

    /// Whether a node answers and clients can connect to it.
    pub fn is_serving(&self, host: HostId) -> bool {
        self.up.get(&host).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_down_keeps_the_version_it_said_last() {
        let [two, three] = [2, 3].map(HostId);
        let first = Liveness::of([two, three]).with_schemas(&Liveness::default(), [(two, 7), (three, 7)]);
        let later = Liveness::of([two]).with_schemas(&first, [(two, 8)]);
        assert_eq!((later.schema_version(two), later.schema_version(three)), (Some(8), Some(7)));
        assert!(!later.is_up(three));
        assert_eq!(later.schema_version(HostId(4)), None);
    }
}
