//! Why bytes are refused, and when a node must stop.

/// Bytes that are no command, outcome or state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Damaged, or of another format. Refuse the message or the file that held them.
    #[error("group 0 bytes are malformed at offset {offset}: expected {expected}")]
    Malformed {
        /// Bytes from the start of the value.
        offset: usize,
        /// What should have stood there.
        expected: &'static str,
    },
    /// A schema or a change of one does not decode. Refuse the message or the file that held it.
    #[error("group 0 bytes: {0}")]
    Schema(#[from] schema::Error),
    /// A member does not decode. Refuse the message or the file that held it.
    #[error("group 0 bytes: {0}")]
    Member(#[from] topology::Malformed),
    /// A command of a later release. A follower stops applying; who received it as a proposal refuses it.
    #[error("a command of kind {kind} is of a later release")]
    UnknownKind {
        /// What stood where the kind does.
        kind: u16,
    },
    /// A state of a later release, parts of which this one would lose. The node stops.
    #[error("a state that uses features {features:#x} of a later release")]
    UnknownFeatures {
        /// Those that are not known here.
        features: u64,
    },
}

/// An entry of the log that cannot be applied here: stop the node. Passing it over would make its state differ from the others'.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("entry {version} of group 0 cannot be applied: {source}")]
pub struct Stop {
    /// The entry.
    pub version: topology::Version,
    /// Why.
    pub source: Error,
}
