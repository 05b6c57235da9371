//! Why a member could not do what it was asked.

use std::path::PathBuf;

/// Why a member could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The log could not be read or written. At start: stop the node.
    #[error("log of group 0: {0}")]
    Log(#[from] journal::Error),
    /// A file of the group holds what was never written there. Stop the node; nothing was changed.
    #[error("corrupt {kind} \"{}\" at offset {offset}: {got}", file.display())]
    Corrupt {
        /// `log of group 0`, `snapshot of group 0`.
        kind: &'static str,
        /// The file.
        file: PathBuf,
        /// Byte offset in the file, or of the record's body.
        offset: u64,
        /// What was found.
        got: String,
    },
    /// This member has ended and must be opened again, which a restart of the node does. A command proposed here may or may not be
    /// applied.
    #[error("consensus ended: {0}")]
    Ended(String),
    /// It did not happen and will not. Ask again, later or elsewhere.
    #[error("not done: {0}")]
    NotDone(String),
    /// It may have happened, or may happen yet. Ask again with the same command, which must be recognised by its state machine.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}
