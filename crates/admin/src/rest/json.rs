//! Distributions as JSON.

use base::histogram::{Distribution, EstimatedHistogram, Rates};
use serde_json::{Value, json};

/// A distribution: all that was counted, and percentiles of the last minutes.
pub(super) fn distribution(of: &Distribution) -> Value {
    let mut value = histogram(&of.recent);
    value["count"] = of.count.into();
    value["total"] = of.sum.into();
    value["rates"] = json!(of.rates.per_second);
    value
}

/// Percentiles; the mean of nothing is null.
pub(super) fn histogram(of: &EstimatedHistogram) -> Value {
    json!({
        "count": of.count(),
        "min": of.min(),
        "max": of.max(),
        "mean": of.mean(),
        "p50": of.percentile(0.5),
        "p75": of.percentile(0.75),
        "p95": of.percentile(0.95),
        "p98": of.percentile(0.98),
        "p99": of.percentile(0.99),
        "p999": of.percentile(0.999),
    })
}

/// As [`histogram`], with nothing for every percentile of nothing.
pub(super) fn histogram_or_null(of: &EstimatedHistogram) -> Value {
    let mut value = histogram(of);
    if of.count() == 0 {
        for name in ["min", "max", "p50", "p75", "p95", "p98", "p99", "p999"] {
            value[name] = Value::Null;
        }
    }
    value
}

/// ScyllaDB's `rate_moving_average_and_histogram`: the sample holds every boundary as often as it was met lately, cut to
/// some hundred values.
pub(super) fn rates_and_histogram(of: &Distribution, uptime_s: f64) -> Value {
    const SAMPLES: u64 = 256;
    let recent = &of.recent;
    let all = recent.count().max(1);
    let share = |count: u64| ((count * SAMPLES).div_ceil(all)).min(count) as usize;
    let sample: Vec<u64> =
        recent.buckets().flat_map(|(value, count)| std::iter::repeat_n(value, share(count))).collect();
    let mean = recent.mean().unwrap_or(0.0);
    let spread = |(value, count): (u64, u64)| (value as f64 - mean).powi(2) * count as f64;
    let variance = recent.buckets().map(spread).sum::<f64>() / all as f64;
    json!({
        "meter": meter(&of.rates, of.count, uptime_s),
        "hist": {
            "count": of.count, "sum": of.sum, "min": recent.min(), "max": recent.max(),
            "mean": mean, "variance": variance, "sample": sample,
        },
    })
}

/// ScyllaDB's `rate_moving_average`.
pub(super) fn meter(rates: &Rates, count: u64, uptime_s: f64) -> Value {
    let mean_rate = if uptime_s > 0.0 { count as f64 / uptime_s } else { 0.0 };
    json!({ "rates": rates.per_second, "mean_rate": mean_rate, "count": count })
}

/// ScyllaDB's `estimated_histogram`: one more count than boundaries, for what lies beyond.
pub(super) fn estimated(of: &EstimatedHistogram) -> Value {
    let offsets: Vec<u64> = (0..base::histogram::BOUNDARIES).map(base::histogram::boundary).collect();
    let mut counts = vec![0u64; offsets.len() + 1];
    for (value, count) in of.buckets() {
        counts[base::histogram::bucket_of(value)] += count;
    }
    json!({ "buckets": counts, "bucket_offsets": offsets })
}

/// Pairs as ScyllaDB writes maps.
pub(super) fn map<K: Into<Value>, V: Into<Value>>(pairs: impl IntoIterator<Item = (K, V)>) -> Value {
    let pair = |(key, value): (K, V)| json!({ "key": key.into(), "value": value.into() });
    Value::Array(pairs.into_iter().map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::histogram::{DecayingHistogram, Zeroes};

    #[test]
    fn nothing_has_no_mean_and_a_sample_keeps_its_shape() {
        let mut histogram = DecayingHistogram::new(Zeroes::AsOne);
        assert_eq!(distribution(&histogram.snapshot())["mean"], Value::Null);
        assert_eq!(histogram_or_null(&histogram.snapshot().recent)["p99"], Value::Null);
        histogram.record_many(10, 9_000);
        histogram.record_many(100, 1_000);
        let value = rates_and_histogram(&histogram.snapshot(), 100.0);
        let sample = value["hist"]["sample"].as_array().expect("a list");
        assert_eq!(sample.iter().filter(|value| **value == 10).count(), 231);
        assert_eq!(sample.len(), 231 + 26);
        assert_eq!(value["meter"]["mean_rate"], 100.0);
        let estimated = estimated(&histogram.snapshot().recent);
        assert_eq!(estimated["buckets"][8], 9_000);
        assert_eq!(estimated["bucket_offsets"][8], 10);
    }
}
