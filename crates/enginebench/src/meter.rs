//! What a stretch of work cost: operations, time on the processor, time on the clock, allocations.

use base::counting::allocations;
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

/// Nanoseconds this thread was on a processor.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}
