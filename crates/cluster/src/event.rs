//! What changed, in the words of the native protocol's SCHEMA_CHANGE event.

/// How something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It is different.
    Updated,
    /// It is gone.
    Dropped,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A keyspace.
    Keyspace,
    /// A table.
    Table,
    /// A user-defined type.
    Type,
}

/// One change, as clients hear of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaEvent {
    /// How.
    pub kind: ChangeKind,
    /// What.
    pub target: Target,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name; empty when it is the keyspace itself.
    pub name: String,
}
