//! Skewed chance.

use base::Prng;

/// Numbers of which small ones are drawn more often: the n-th as often as 1 / n^exponent.
pub struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    /// Numbers below `count`.
    pub fn new(count: u64, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf { sums: sums.collect() }
    }

    /// One of them.
    pub fn draw(&self, random: &mut Prng) -> u64 {
        let at = random.unit() * self.sums.last().copied().unwrap_or(0.0);
        self.sums.partition_point(|sum| *sum < at) as u64
    }

    /// The share of draws that the first `count` numbers get.
    pub fn share_of(&self, count: u64) -> f64 {
        let all = self.sums.last().copied().unwrap_or(1.0);
        let of_first =
            (count as usize).min(self.sums.len()).checked_sub(1).map_or(0.0, |last| self.sums[last]);
        of_first / all
    }
}
