//! Runs plans: prepared statements, binding, paging, system tables.
#![forbid(unsafe_code)]
