//! What may be done with a resource.

/// What may be done with a resource, one bit each. In bytes and in entries: bits never change their meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Permissions(pub u32);

impl Permissions {
    /// Cassandra's names, the first one for bit 0.
    pub const NAMES: [&'static str; 10] = [
        "CREATE",
        "ALTER",
        "DROP",
        "SELECT",
        "MODIFY",
        "AUTHORIZE",
        "DESCRIBE",
        "EXECUTE",
        "UNMASK",
        "SELECT_MASKED",
    ];

    /// Making what lies in it.
    pub const CREATE: Permissions = Permissions(1);
    /// Changing it.
    pub const ALTER: Permissions = Permissions(1 << 1);
    /// Dropping it.
    pub const DROP: Permissions = Permissions(1 << 2);
    /// Reading rows.
    pub const SELECT: Permissions = Permissions(1 << 3);
    /// Writing rows.
    pub const MODIFY: Permissions = Permissions(1 << 4);
    /// Granting what one has.
    pub const AUTHORIZE: Permissions = Permissions(1 << 5);
    /// Listing roles and what they may do.
    pub const DESCRIBE: Permissions = Permissions(1 << 6);
    /// Calling functions.
    pub const EXECUTE: Permissions = Permissions(1 << 7);
    /// Reading what is masked.
    pub const UNMASK: Permissions = Permissions(1 << 8);
    /// Restricting rows by what is masked.
    pub const SELECT_MASKED: Permissions = Permissions(1 << 9);
    /// None.
    pub const NONE: Permissions = Permissions(0);
    /// Every one that has a name.
    pub const ALL: Permissions = Permissions((1 << Permissions::NAMES.len()) - 1);

    /// Whether all of `other` are in it.
    pub fn contains(self, other: Permissions) -> bool {
        self & other == other
    }

    /// Without those of `other`.
    #[must_use]
    pub fn without(self, other: Permissions) -> Permissions {
        Permissions(self.0 & !other.0)
    }

    /// Those that are set, one by one.
    pub fn each(self) -> impl Iterator<Item = Permissions> {
        (0..u32::BITS).map(|bit| Permissions(1 << bit)).filter(move |one| self.contains(*one))
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Permissions> {
        let bit = Permissions::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(Permissions(1 << bit))
    }

    /// The names of those that are set and known here.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let known = Permissions::NAMES.iter().enumerate();
        known.filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|(_, name)| *name)
    }
}

impl std::ops::BitOr for Permissions {
    type Output = Permissions;
    fn bitor(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }
}

impl std::ops::BitAnd for Permissions {
    type Output = Permissions;
    fn bitand(self, other: Permissions) -> Permissions {
        Permissions(self.0 & other.0)
    }
}
