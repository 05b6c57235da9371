//! What is counted of hints.

use runtime::metrics::Counter;

pub(crate) struct Metrics {
    pub(crate) taken: Counter,
    pub(crate) taken_bytes: Counter,
    pub(crate) refused: Counter,
    pub(crate) flushed_bytes: Counter,
    pub(crate) flush_failures: Counter,
    pub(crate) delivered: Counter,
    pub(crate) delivered_bytes: Counter,
    pub(crate) moved: Counter,
    pub(crate) expired: Counter,
    pub(crate) truncated: Counter,
    pub(crate) dropped: Counter,
    pub(crate) postponed: Counter,
    pub(crate) unanswered: Counter,
}

impl Metrics {
    pub(crate) fn register() -> Metrics {
        let counter = |name: &str, help: &str| runtime::metrics::counter(name, help, &[]);
        Metrics {
            taken: counter(
                "messina_hints_created_total",
                "Writes kept for a replica that did not confirm them.",
            ),
            taken_bytes: counter("messina_hints_created_bytes_total", "Bytes of hints created."),
            refused: counter(
                "messina_hints_refused_total",
                "Missed writes that were not kept: switched off, the node down for too long, a limit reached.",
            ),
            flushed_bytes: counter("messina_hints_flushed_bytes_total", "Bytes of hints made durable."),
            flush_failures: counter("messina_hints_flush_failures_total", "Flushes of hints that failed."),
            delivered: counter("messina_hints_delivered_total", "Hints that their replica has confirmed."),
            delivered_bytes: counter("messina_hints_delivered_bytes_total", "Bytes of hints delivered."),
            moved: counter(
                "messina_hints_transferred_total",
                "Hints handed to other replicas, as the first one does not hold the token any more.",
            ),
            expired: counter("messina_hints_expired_total", "Hints older than the grace of their tables."),
            truncated: counter(
                "messina_hints_truncated_total",
                "Mutations of hints that a truncation or a drop has overtaken.",
            ),
            dropped: counter(
                "messina_hints_dropped_total",
                "Hints that can never be delivered: damaged, malformed, too large, or truncated by an operator.",
            ),
            postponed: counter(
                "messina_hints_postponed_total",
                "Hints that their replica refused again and again, put at the end of their queue.",
            ),
            unanswered: counter(
                "messina_hints_delivery_failures_total",
                "Requests of deliveries that were not answered or refused.",
            ),
        }
    }
}
