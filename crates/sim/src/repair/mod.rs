//! A cluster of three whose replicas differ, and what makes them equal: a repair, or the filling of a node that replaces one whose disk is gone.

/// The machines, the table and what clients wrote.
mod rows;
/// Replicas that missed writes are repaired.
mod equal;
/// A dead node is replaced.
mod replaced;
/// A dead node that took part in lightweight transactions is replaced.
mod transactions;

pub(crate) use equal::play as play_repair;
pub(crate) use replaced::play as play_replace;
pub(crate) use transactions::play as play_transactions;
