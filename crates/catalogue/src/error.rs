//! What does not let an operation be done.

use std::io;

/// An error of the catalogue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A row or statement of a file makes no sense: nothing from this line on was imported. Mend the file and import it again.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// Its line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{file}: {source}")]
    File {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A path that cannot be: say another.
    #[error("\"{path}\" is no path: {reason}")]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// There is no such entry. Nothing was changed.
    #[error("\"{0}\" does not exist")]
    NotFound(String),
    /// There is an entry of this path, another one. Nothing was changed.
    #[error("\"{0}\" exists")]
    Exists(String),
    /// What stands where a folder should is a file, or the other way round. Nothing was changed.
    #[error("\"{0}\" is no {1}")]
    Kind(String, &'static str),
    /// A folder cannot be moved below itself. Nothing was changed.
    #[error("\"{to}\" is below \"{from}\"")]
    Below {
        /// The folder.
        from: String,
        /// Where it should go.
        to: String,
    },
    /// A GUID that tells no time. Nothing was changed.
    #[error("{0} is no version 1 UUID")]
    Guid(uuid::Uuid),
    /// What the database holds is no catalogue: a row that cannot be, or folders that are above themselves.
    #[error("the catalogue is damaged: {0}")]
    Damaged(String),
    /// An option that cannot be.
    #[error("{0}")]
    Option(String),
    /// The database did not do it, after all tries. A change may have happened or happen later: do it again, with the same words.
    #[error("{}", client::contact::named(.0))]
    Database(#[from] client::Error),
}

impl Error {
    pub(crate) fn file(file: &str, source: io::Error) -> Error {
        Error::File { file: file.to_owned(), source }
    }
}
