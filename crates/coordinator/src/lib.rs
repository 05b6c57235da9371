//! Consistency levels act here: reads, writes, digests, read repair.
#![forbid(unsafe_code)]
