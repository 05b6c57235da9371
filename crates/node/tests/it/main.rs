//! A whole node in a simulated world, spoken to through the client crate and through raw bytes.

mod bad_input;
mod harness;
mod operations;
mod statements;
mod system_tables;
mod three;
mod tracing;
