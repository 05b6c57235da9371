//! What a stretch of work cost: operations, time on the processor, time on the clock, allocations; counters; latencies.

use base::counting::allocations;
use runtime::metrics::SampleValue;
use std::time::Instant;

/// A measurement that runs.
pub struct Meter {
    clock: Instant,
    processor_ns: u64,
    allocations: u64,
}

/// What one stretch cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Operations.
    pub operations: u64,
    /// Nanoseconds on the clock.
    pub clock_ns: u64,
    /// Nanoseconds of this thread on a processor.
    pub processor_ns: u64,
    /// Calls of the allocator by this thread that returned memory.
    pub allocations: u64,
}

impl Meter {
    /// Begins.
    pub fn start() -> Meter {
        Meter { allocations: allocations(), processor_ns: processor_ns(), clock: Instant::now() }
    }

    /// Ends.
    pub fn stop(self, operations: u64) -> Cost {
        let clock_ns = self.clock.elapsed().as_nanos() as u64;
        Cost {
            operations,
            clock_ns,
            processor_ns: processor_ns() - self.processor_ns,
            allocations: allocations() - self.allocations,
        }
    }
}

impl Cost {
    /// Nanoseconds on the processor per operation.
    pub fn processor_ns_each(&self) -> f64 {
        self.processor_ns as f64 / self.operations.max(1) as f64
    }

    /// Allocations per operation, to two digits: what is made once for many is nothing.
    pub fn allocations_each(&self) -> f64 {
        (self.allocations as f64 / self.operations.max(1) as f64 * 100.0).round() / 100.0
    }

    /// The line of a table: operations, nanoseconds each, allocations each.
    pub fn columns(&self) -> String {
        let each = |total: u64| total as f64 / self.operations.max(1) as f64;
        format!(
            "{} | {:.0} | {:.0} | {:.2}",
            self.operations,
            each(self.processor_ns),
            each(self.clock_ns),
            each(self.allocations)
        )
    }
}

/// The median by time on the processor.
pub fn median(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by(|a, b| a.processor_ns_each().total_cmp(&b.processor_ns_each()));
    costs.get(costs.len() / 2).copied().unwrap_or_default()
}

/// A counter of this process, by its name among the metrics.
#[derive(Clone, Copy)]
pub struct Count(pub &'static str);

/// Bytes of sstables that flushes wrote.
pub const FLUSHED: Count = Count("messina_storage_flushed_bytes_total");
/// Bytes of sstables that compactions wrote.
pub const COMPACTED: Count = Count("messina_storage_compacted_bytes_total");

impl Count {
    /// What it says now.
    pub fn now(self) -> u64 {
        let samples = runtime::metrics::render_local();
        let ours = samples.into_iter().filter(|sample| sample.name == self.0);
        ours.map(|sample| if let SampleValue::Counter(count) = sample.value { count } else { 0 }).sum()
    }
}

/// How long operations took, in nanoseconds.
#[derive(Default)]
pub struct Latencies(pub Vec<u64>);

impl Latencies {
    /// Microseconds within which so many of a hundred operations ended.
    pub fn within(&mut self, percent: f64) -> f64 {
        self.0.sort_unstable();
        let at = (self.0.len() as f64 * percent / 100.0) as usize;
        self.0.get(at.min(self.0.len().saturating_sub(1))).map_or(0.0, |ns| *ns as f64 / 1e3)
    }

    /// The median, and what the slowest hundredth and thousandth begin with.
    pub fn told(&mut self) -> String {
        let [median, p99, p999] = [50.0, 99.0, 99.9].map(|percent| self.within(percent));
        format!("p50 {median:.0} µs, p99 {p99:.0} µs, p99.9 {p999:.0} µs")
    }
}

/// Nanoseconds this thread was on a processor.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}
