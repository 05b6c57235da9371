//! How much of a published run is run: its numbers of rows and its times, by one factor.

use std::time::Duration;

/// Rows of a phase at least, unless it was published with fewer.
const ROWS_MIN: u64 = 10_000;
/// Standard deviation of keys at least: the same few keys again and again measure nothing else.
const DEVIATION_MIN: u64 = 100;
/// Shortest time of a phase.
const SHORTEST: Duration = Duration::from_secs(20);
/// The same of a tiny run, or a smaller one.
const SHORTEST_TINY: Duration = Duration::from_secs(1);

/// A scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Share of the published size: 1 is all of it.
    pub factor: f64,
    /// Times are no shorter.
    shortest: Duration,
}

impl Scale {
    /// A share of the published size.
    pub fn of(factor: f64) -> Scale {
        Scale { factor, shortest: SHORTEST }
    }

    /// What `--scale` says: a number above 0, or `tiny`. Error: what it should be.
    pub fn parse(text: &str, tiny: f64) -> Result<Scale, String> {
        if text == "tiny" {
            return Ok(Scale { factor: tiny, shortest: SHORTEST_TINY });
        }
        let factor = text.parse().ok().filter(|factor| 0.0 < *factor && *factor <= 1_000.0);
        let scale =
            |factor| Scale { shortest: if factor <= tiny { SHORTEST_TINY } else { SHORTEST }, factor };
        factor.map(scale).ok_or_else(|| {
            format!("--scale: expected a share of the published size above 0, such as 0.001, or tiny, got \"{text}\"")
        })
    }

    /// Rows or keys.
    pub fn rows(self, published: u64) -> u64 {
        ((published as f64 * self.factor).round() as u64).max(published.min(ROWS_MIN))
    }

    /// A standard deviation of keys.
    pub fn deviation(self, published: u64) -> u64 {
        ((published as f64 * self.factor).round() as u64).max(published.min(DEVIATION_MIN))
    }

    /// A time: never longer than published at a scale of 1 or less.
    pub fn time(self, published: Duration) -> Duration {
        published.mul_f64(self.factor).max(published.min(self.shortest))
    }
}

/// A time as a command line says it: `240m`, `96h`, `34s`.
pub fn written(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        seconds if seconds.is_multiple_of(3600) && 24 * 3600 < seconds => format!("{}h", seconds / 3600),
        seconds if seconds.is_multiple_of(60) && 120 < seconds => format!("{}m", seconds / 60),
        seconds => format!("{}s", seconds.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_scale_of_one_is_what_was_published() {
        let one = Scale::parse("1", 0.1).expect("a number");
        assert_eq!((one.rows(7_000_000_000), one.rows(3), one.deviation(7)), (7_000_000_000, 3, 7));
        assert_eq!(
            (one.time(4 * HOUR), one.time(Duration::from_secs(5))),
            (4 * HOUR, Duration::from_secs(5))
        );
        assert_eq!(Scale::of(2.0).time(HOUR), 2 * HOUR);
        let small = |text| Scale::parse(text, 0.1).expect("a number").time(Duration::from_secs(60)).as_secs();
        assert_eq!((small("0.2"), small("0.01")), (20, 1));
    }

    #[test]
    fn little_is_not_nothing() {
        let small = Scale::of(1e-4);
        assert_eq!((small.rows(7_000_000_000), small.rows(1_000_000), small.rows(10)), (700_000, 10_000, 10));
        assert_eq!((small.deviation(1_100_000_000), small.deviation(10_000)), (110_000, 100));
        assert_eq!((small.time(96 * HOUR).as_secs(), small.time(4 * HOUR).as_secs()), (34, 20));
        let tiny = Scale::parse("tiny", 1e-6).expect("tiny");
        assert_eq!((tiny.factor, tiny.time(96 * HOUR).as_secs()), (1e-6, 1));
        for bad in ["", "0", "-1", "large", "NaN", "inf"] {
            let text = Scale::parse(bad, 1.0).expect_err(bad);
            assert!(text.starts_with("--scale: ") && text.ends_with(&format!("\"{bad}\"")), "{text}");
        }
    }

    #[test]
    fn times_are_written_as_they_were_published() {
        let texts =
            [240 * 60, 96 * 3600, 20, 60, 3 * 3600].map(|seconds| written(Duration::from_secs(seconds)));
        assert_eq!(texts, ["240m", "96h", "20s", "60s", "180m"]);
    }
}
