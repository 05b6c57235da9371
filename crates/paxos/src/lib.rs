//! Lightweight transactions: how replicas agree on one order of conditional writes of a partition.
//!
//! The rules and why they hold: `docs/mechanisms/paxos.md`. Here are ballots, what an acceptor promises and accepts, what a proposer concludes from answers,
//! messages and rows. Nothing here does I/O, waits, looks at the time or meets chance.
#![forbid(unsafe_code)]

mod error;
mod ballot;
mod proposal;
mod state;
mod record;
mod message;

pub use ballot::Ballot;
pub use error::Error;
pub use message::{Ask, Promise, Reply};
pub use proposal::{Planned, Proposal};
pub use record::{Records, TABLE};
pub use state::{State, Superseded};
