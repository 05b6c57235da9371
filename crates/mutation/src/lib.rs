//! The data model: packed rows, tombstones, one partition, merge, digest, read commands and answers.
#![forbid(unsafe_code)]
