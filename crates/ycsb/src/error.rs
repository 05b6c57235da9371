//! What ends a run, or does not let it begin.

use std::io;

/// An error of the tool.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line cannot be understood: print how it is written, then this; status 1.
    #[error("{0}")]
    Usage(String),
    /// A property has a value that it cannot have: print it, status 1.
    #[error("property \"{name}\" is \"{value}\", not {expected}")]
    Property {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
        /// What it could be.
        expected: String,
    },
    /// A property or a combination of them asks for what cannot be done: print it, status 1.
    #[error("{0}")]
    Refused(String),
    /// A combination of properties for which the Java tool has a status of its own: print it, status 255.
    #[error("{0}")]
    Bounds(&'static str),
    /// A line of a file makes no sense: print it, status 1.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read: print it, status 1.
    #[error("Unable to open the {what} {file}\n{source}")]
    Read {
        /// What it is for.
        what: &'static str,
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be written: the run may have been done all the same. Print it, status 255 as the Java tool.
    #[error("Could not export measurements, error: {file}: {source}")]
    Export {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A file of the run is not whole, which has been said: the run was done and told all the same. Status 255 as the Java tool.
    #[error("a file of this run is not whole")]
    NotWhole,
    /// The servers cannot be reached or refuse us: print it, status 1.
    #[error("{0}")]
    Connect(String),
}

impl Error {
    pub(crate) fn property(name: &str, value: &str, expected: impl Into<String>) -> Error {
        Error::Property { name: name.to_owned(), value: value.to_owned(), expected: expected.into() }
    }

    pub(crate) fn refused(text: impl Into<String>) -> Error {
        Error::Refused(text.into())
    }

    /// The status of a process that ends with this.
    pub fn status(&self) -> u8 {
        match self {
            Error::Usage(_)
            | Error::Property { .. }
            | Error::Refused(_)
            | Error::Line { .. }
            | Error::Read { .. }
            | Error::Connect(_) => 1,
            Error::Bounds(_) | Error::Export { .. } | Error::NotWhole => 255,
        }
    }
}
