//! `speculative_retry` and `additional_write_policy`: how long an answer may take before one replica more is asked.

use std::fmt;
use std::time::Duration;

/// When one replica more is asked than a level needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SpeculativeRetry {
    /// Never because of slowness.
    Never,
    /// At once, together with the others.
    Always,
    /// After this.
    After(Wait),
    /// After the shorter one.
    Least(Wait, Wait),
    /// After the longer one.
    Greatest(Wait, Wait),
}

/// A time that an answer may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wait {
    /// What this share of the table's requests takes at most, in percent: above 0, below 100.
    Percentile(f64),
    /// Milliseconds.
    Millis(u64),
}

impl SpeculativeRetry {
    /// Reads what [`SpeculativeRetry`] is written as: `NEVER`, `ALWAYS`, `99p`, `50ms`, `MIN(99p,50ms)`, `MAX(99p,50ms)`. Table definitions hold
    /// no other spelling; `None` for anything else.
    pub fn parse(text: &str) -> Option<SpeculativeRetry> {
        let inside = |word: &str| {
            let (first, second) =
                text.strip_prefix(word)?.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
            Some((Wait::parse(first)?, Wait::parse(second)?))
        };
        match text {
            "NEVER" | "NONE" => Some(SpeculativeRetry::Never),
            "ALWAYS" => Some(SpeculativeRetry::Always),
            _ if text.starts_with("MIN") => inside("MIN").map(|(a, b)| SpeculativeRetry::Least(a, b)),
            _ if text.starts_with("MAX") => inside("MAX").map(|(a, b)| SpeculativeRetry::Greatest(a, b)),
            _ => Wait::parse(text).map(SpeculativeRetry::After),
        }
    }

    /// How long an answer may take. `percentile`: what that share (0 to 1) of recent requests took at most.
    /// `None`: as long as it takes. [`SpeculativeRetry::Always`] is no time at all.
    pub fn wait(&self, percentile: impl Fn(f64) -> Duration) -> Option<Duration> {
        let of = |wait: &Wait| match wait {
            Wait::Percentile(percent) => percentile(percent / 100.0),
            Wait::Millis(ms) => Duration::from_millis(*ms),
        };
        match self {
            SpeculativeRetry::Never => None,
            SpeculativeRetry::Always => Some(Duration::ZERO),
            SpeculativeRetry::After(wait) => Some(of(wait)),
            SpeculativeRetry::Least(a, b) => Some(of(a).min(of(b))),
            SpeculativeRetry::Greatest(a, b) => Some(of(a).max(of(b))),
        }
    }
}

impl Wait {
    fn parse(text: &str) -> Option<Wait> {
        if let Some(percent) = text.strip_suffix('p') {
            let percent = percent.parse::<f64>().ok()?;
            return (0.0 < percent && percent < 100.0).then_some(Wait::Percentile(percent));
        }
        text.strip_suffix("ms")?.parse().ok().map(Wait::Millis)
    }
}

impl fmt::Display for SpeculativeRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpeculativeRetry::Never => f.write_str("NEVER"),
            SpeculativeRetry::Always => f.write_str("ALWAYS"),
            SpeculativeRetry::After(wait) => wait.fmt(f),
            SpeculativeRetry::Least(a, b) => write!(f, "MIN({a},{b})"),
            SpeculativeRetry::Greatest(a, b) => write!(f, "MAX({a},{b})"),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Percentile(percent) => write!(f, "{percent}p"),
            Wait::Millis(ms) => write!(f, "{ms}ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_is_written_as() {
        for text in ["NEVER", "ALWAYS", "99p", "99.9p", "0ms", "50ms", "MIN(99p,50ms)", "MAX(99.5p,7ms)"] {
            let policy = SpeculativeRetry::parse(text).expect(text);
            assert_eq!(policy.to_string(), text);
        }
        for text in ["", "99", "100p", "0p", "NaNp", "-1ms", "MIN(99p)", "MIN", "MAX(,)", "MINUTES"] {
            assert_eq!(SpeculativeRetry::parse(text), None, "{text}");
        }
    }

    #[test]
    fn percentiles_are_of_what_is_measured_and_both_parts_count() {
        let measured = |share: f64| Duration::from_millis((share * 100.0).round() as u64);
        let wait = |text: &str| SpeculativeRetry::parse(text).expect(text).wait(measured);
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!((wait("NEVER"), wait("ALWAYS")), (None, ms(0)));
        assert_eq!((wait("99p"), wait("40p"), wait("7ms")), (ms(99), ms(40), ms(7)));
        assert_eq!((wait("MIN(99p,50ms)"), wait("MIN(40p,50ms)")), (ms(50), ms(40)));
        assert_eq!((wait("MAX(99p,50ms)"), wait("MAX(40p,50ms)")), (ms(99), ms(50)));
    }
}
