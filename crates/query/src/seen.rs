//! What `system_views` tells of statements beyond the counters by kind.

use runtime::metrics::{self, Counter, Histogram};

/// Statements and batches seen by one shard.
pub(crate) struct Seen {
    /// Statements that came as texts.
    pub(crate) texts: Counter,
    /// Partitions of batches, by kind.
    pub(crate) logged: Histogram,
    pub(crate) unlogged: Histogram,
    pub(crate) counter: Histogram,
    /// Conditional statements and batches, by whether their conditions held.
    pub(crate) applied: Counter,
    pub(crate) not_applied: Counter,
}

impl Seen {
    /// Registers them with the current shard's metrics.
    pub(crate) fn register() -> Seen {
        let batches = |kind: &str| {
            let help = "Partitions of batches, by kind.";
            metrics::histogram("messina_query_batch_partitions", help, &[("kind", kind)])
        };
        let conditional = |applied: &str| {
            let help = "Conditional statements and batches that were decided.";
            metrics::counter("messina_query_conditional_total", help, &[("applied", applied)])
        };
        Seen {
            texts: metrics::counter(
                "messina_query_text_statements_total",
                "Statements run from their text, not by a prepared id.",
                &[],
            ),
            logged: batches("logged"),
            unlogged: batches("unlogged"),
            counter: batches("counter"),
            applied: conditional("true"),
            not_applied: conditional("false"),
        }
    }
}
