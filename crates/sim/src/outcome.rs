//! What one run of one seed says.

use std::collections::BTreeMap;

/// How often each kind of fault or change happened.
pub type Counts = BTreeMap<&'static str, u64>;

/// One run of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed that decided everything.
    pub seed: u64,
    /// Hash of every scheduling decision, disk operation, packet and log line.
    pub trace_hash: u64,
    /// Turns and moves of the clock.
    pub steps: u64,
    /// Virtual time that passed, in milliseconds.
    pub virtual_millis: u64,
    /// What happened to machines and links, as far as the scenario counts it.
    pub counts: Counts,
    /// What the checker found wrong, or the panic; None is a good run.
    pub failure: Option<String>,
}
