//! Latencies in microseconds, to three digits: a histogram whose numbers are those of the Java tool's library, version 2.1.4.

use hdrhistogram::Histogram;

/// Digits that are kept.
const DIGITS: u8 = 3;
/// The longest latency: the Java tool counts in 32 bits.
pub const LONGEST: u64 = i32::MAX as u64;

/// Latencies in microseconds.
#[derive(Clone, Debug)]
pub struct Micros(Histogram<u64>);

impl Default for Micros {
    fn default() -> Micros {
        // The number of digits is a constant that the library takes.
        Micros(Histogram::new(DIGITS).expect("three digits"))
    }
}

impl Micros {
    /// Counts one; what is longer than the longest counts as that.
    pub fn record(&mut self, micros: u64) {
        // It grows: nothing of up to the longest is too long.
        let _fits = self.0.record(micros.min(LONGEST));
    }

    /// Counts all of another and empties that.
    pub fn take(&mut self, other: &mut Micros) {
        let _fits = self.0.add(&other.0);
        other.0.reset();
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The average; not a number when there are none.
    pub fn mean(&self) -> f64 {
        let middle = |value| self.0.median_equivalent(value);
        let sum: f64 = self
            .0
            .iter_recorded()
            .map(|step| (middle(step.value_iterated_to()) * step.count_at_value()) as f64)
            .sum();
        sum / self.0.len() as f64
    }

    /// The least; more than anything when there are none.
    pub fn min(&self) -> u64 {
        if self.0.is_empty() { i64::MAX as u64 } else { self.0.min() }
    }

    /// The most; 0 when there are none.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// Below which so many percent lie; 0 when there are none. To the nearest of them, not to the next.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = (percent.min(100.0) / 100.0 * self.0.len() as f64 + 0.5) as u64;
        let wanted = wanted.max(1);
        let mut seen = 0;
        for step in self.0.iter_recorded() {
            seen += step.count_at_value();
            if wanted <= seen {
                let value = step.value_iterated_to();
                let lowest = percent == 0.0;
                return if lowest {
                    self.0.lowest_equivalent(value)
                } else {
                    self.0.highest_equivalent(value)
                };
            }
        }
        0
    }

    /// Values with how often they were seen.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// The histogram behind.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the Java library of that version says of the same latencies.
    #[test]
    fn numbers_are_those_of_the_java_library() {
        let mut micros = Micros::default();
        (1..=1000u64).for_each(|value| micros.record(value * 7));
        assert_eq!((micros.count(), micros.min(), micros.max()), (1000, 7, 7003));
        assert_eq!(micros.mean(), 3503.855);
        let percentiles = [0.0, 50.0, 95.0, 99.0, 99.9, 100.0].map(|percent| micros.percentile(percent));
        assert_eq!(percentiles, [7, 3501, 6651, 6931, 6995, 7003]);
    }

    #[test]
    fn nothing_is_said_of_nothing_as_there() {
        let none = Micros::default();
        assert_eq!((none.count(), none.min(), none.max()), (0, i64::MAX as u64, 0));
        assert!(none.mean().is_nan());
        assert_eq!(none.percentile(95.0), 0);
    }

    #[test]
    fn any_latency_can_be_counted() {
        let mut micros = Micros::default();
        micros.record(0);
        micros.record(u64::MAX);
        let mut all = Micros::default();
        all.take(&mut micros);
        assert_eq!((all.count(), micros.count(), all.min()), (2, 0, 0));
        assert!(all.max() >= LONGEST);
    }
}
