//! Whole nodes in one thread from a seed: scenarios, faults, checkers.
#![forbid(unsafe_code)]
