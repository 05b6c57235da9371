//! Scenarios over a few seeds each, their determinism, and that their checkers find planted mistakes.

mod raft;
