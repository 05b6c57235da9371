//! Configuration file, wiring, order of start and stop.
#![forbid(unsafe_code)]
