//! Keyspaces, tables and columns as immutable values; where a clustering position sorts.
#![forbid(unsafe_code)]
