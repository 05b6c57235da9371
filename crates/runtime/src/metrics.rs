//! Per-shard counters, gauges and histograms, and their Prometheus text form.
//!
//! Registering the same name and labels twice gives the same metric. Every sample carries the shard as a label.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::rc::Rc;

/// A count that only grows.
#[derive(Clone, Default)]
pub struct Counter(Rc<Cell<u64>>);

impl Counter {
    /// Adds one.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds a number.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.set(self.0.get().wrapping_add(count));
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// A value that goes up and down.
#[derive(Clone, Default)]
pub struct Gauge(Rc<Cell<i64>>);

impl Gauge {
    /// Replaces the value.
    #[inline]
    pub fn set(&self, value: i64) {
        self.0.set(value);
    }

    /// Adds a number, which may be negative.
    #[inline]
    pub fn add(&self, change: i64) {
        self.0.set(self.0.get().wrapping_add(change));
    }

    /// The value now.
    pub fn get(&self) -> i64 {
        self.0.get()
    }
}

/// Buckets per doubling: a bound is at most 1/4 above the values in its bucket.
const STEPS: u64 = 4;
/// Buckets of one histogram: values up to 2^40.
const BUCKETS: usize = 160;

/// Counts of values by size, each bucket 1/4 of a doubling wide. The unit is the caller's, usually microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    buckets: Vec<u64>,
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The largest.
    pub max: u64,
}

fn bucket_of(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let exponent = u64::from(value.ilog2());
    let step = (value >> (exponent - 2)) & (STEPS - 1);
    (((exponent - 1) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// Largest value of a bucket.
fn bucket_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (exponent, step) = (bucket / STEPS + 1, bucket % STEPS);
    (1 << exponent) + ((step + 1) << (exponent - 2)) - 1
}

impl Distribution {
    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        let bucket = bucket_of(value);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Distribution) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// An upper bound of the value at this quantile (0 to 1), 0 when empty.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((self.count as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return bucket_bound(bucket).min(self.max);
            }
        }
        self.max
    }

    /// Bounds and cumulative counts of the buckets that hold something.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut seen = 0;
        self.buckets.iter().enumerate().filter(|(_, c)| **c > 0).map(move |(bucket, count)| {
            seen += count;
            (bucket_bound(bucket), seen)
        })
    }
}

/// A distribution that is being recorded.
#[derive(Clone, Default)]
pub struct Histogram(Rc<RefCell<Distribution>>);

impl Histogram {
    /// A histogram outside any registry.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Adds one value.
    #[inline]
    pub fn record(&self, value: u64) {
        self.0.borrow_mut().record(value);
    }

    /// A copy of what was recorded.
    pub fn snapshot(&self) -> Distribution {
        self.0.borrow().clone()
    }
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleValue {
    /// A growing count.
    Counter(u64),
    /// A momentary value.
    Gauge(f64),
    /// A distribution.
    Histogram(Distribution),
}

/// One metric of one shard at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Metric name as Prometheus knows it.
    pub name: String,
    /// One sentence.
    pub help: String,
    /// Label pairs, the shard among them.
    pub labels: Vec<(String, String)>,
    /// What was measured.
    pub value: SampleValue,
}

enum Source {
    Counter(Counter),
    Gauge(Gauge),
    GaugeFn(Box<dyn Fn() -> f64>),
    CounterFn(Box<dyn Fn() -> u64>),
    Histogram(Histogram),
}

struct Metric {
    name: String,
    help: String,
    labels: Vec<(String, String)>,
    source: Source,
}

/// All metrics of one shard.
#[derive(Default)]
pub(crate) struct Registry {
    metrics: Vec<Metric>,
}

fn own(labels: &[(&str, &str)]) -> Vec<(String, String)> {
    labels.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect()
}

impl Registry {
    fn position(&self, name: &str, labels: &[(String, String)]) -> Option<usize> {
        self.metrics.iter().position(|m| m.name == name && m.labels == labels)
    }

    /// The metric of this name, made by `make` when new or of another kind.
    fn register<T: Clone>(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        find: impl Fn(&Source) -> Option<T>,
        make: impl FnOnce() -> (T, Source),
    ) -> T {
        let labels = own(labels);
        let position = self.position(name, &labels);
        if let Some(found) = position.and_then(|i| find(&self.metrics[i].source)) {
            return found;
        }
        let (result, source) = make();
        let metric = Metric { name: name.to_string(), help: help.to_string(), labels, source };
        match position {
            Some(i) => self.metrics[i] = metric,
            None => self.metrics.push(metric),
        }
        result
    }

    pub(crate) fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> Counter {
        let find = |s: &Source| {
            if let Source::Counter(c) = s { Some(c.clone()) } else { None }
        };
        self.register(name, help, labels, find, || {
            let counter = Counter::default();
            (counter.clone(), Source::Counter(counter))
        })
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> Gauge {
        let find = |s: &Source| {
            if let Source::Gauge(g) = s { Some(g.clone()) } else { None }
        };
        self.register(name, help, labels, find, || {
            let gauge = Gauge::default();
            (gauge.clone(), Source::Gauge(gauge))
        })
    }

    pub(crate) fn histogram(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> Histogram {
        let find = |s: &Source| {
            if let Source::Histogram(h) = s { Some(h.clone()) } else { None }
        };
        self.register(name, help, labels, find, || {
            let histogram = Histogram::default();
            (histogram.clone(), Source::Histogram(histogram))
        })
    }

    pub(crate) fn gauge_fn(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        read: Box<dyn Fn() -> f64>,
    ) {
        self.register(name, help, labels, |_| None, || ((), Source::GaugeFn(read)));
    }

    pub(crate) fn counter_fn(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        read: Box<dyn Fn() -> u64>,
    ) {
        self.register(name, help, labels, |_| None, || ((), Source::CounterFn(read)));
    }

    pub(crate) fn remove(&mut self, labels: &[(&str, &str)]) {
        let labels = own(labels);
        self.metrics.retain(|m| !labels.iter().all(|l| m.labels.contains(l)));
    }

    pub(crate) fn samples(&self, shard: u16) -> Vec<Sample> {
        let sample = |m: &Metric| {
            let mut labels = m.labels.clone();
            labels.push(("shard".to_string(), shard.to_string()));
            let value = match &m.source {
                Source::Counter(c) => SampleValue::Counter(c.get()),
                Source::CounterFn(read) => SampleValue::Counter(read()),
                Source::Gauge(g) => SampleValue::Gauge(g.get() as f64),
                Source::GaugeFn(read) => SampleValue::Gauge(read()),
                Source::Histogram(h) => SampleValue::Histogram(h.snapshot()),
            };
            Sample { name: m.name.clone(), help: m.help.clone(), labels, value }
        };
        self.metrics.iter().map(sample).collect()
    }
}

fn labels_text(labels: &[(String, String)], extra: Option<&str>) -> String {
    let mut text = String::new();
    for (key, value) in labels {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{key}=\"{value}\"");
    }
    if let Some(bound) = extra {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}le=\"{bound}\"");
    }
    if text.is_empty() { text } else { format!("{{{text}}}") }
}

/// Prometheus text exposition format 0.0.4 of samples, which may come from many shards.
pub fn to_prometheus(samples: &[Sample]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut by_name: base::HashMap<&str, Vec<&Sample>> = base::HashMap::default();
    for sample in samples {
        by_name
            .entry(&sample.name)
            .or_insert_with(|| {
                names.push(&sample.name);
                Vec::new()
            })
            .push(sample);
    }
    let mut out = String::new();
    for name in names {
        let group = &by_name[name];
        let kind = match group[0].value {
            SampleValue::Counter(_) => "counter",
            SampleValue::Gauge(_) => "gauge",
            SampleValue::Histogram(_) => "histogram",
        };
        let help = group[0].help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for sample in group {
            write_sample(&mut out, sample);
        }
    }
    out
}

fn write_sample(out: &mut String, sample: &Sample) {
    let Sample { name, labels, value, .. } = sample;
    let plain = labels_text(labels, None);
    // Writing to a string cannot fail.
    let _ = match value {
        SampleValue::Counter(count) => writeln!(out, "{name}{plain} {count}"),
        SampleValue::Gauge(value) => writeln!(out, "{name}{plain} {value}"),
        SampleValue::Histogram(distribution) => {
            for (bound, count) in distribution.cumulative() {
                let _ =
                    writeln!(out, "{name}_bucket{} {count}", labels_text(labels, Some(&bound.to_string())));
            }
            let Distribution { count, sum, .. } = distribution;
            let all = labels_text(labels, Some("+Inf"));
            writeln!(out, "{name}_bucket{all} {count}\n{name}_sum{plain} {sum}\n{name}_count{plain} {count}")
        }
    };
}

/// A counter of this shard; the same name and labels give the same counter.
pub fn counter(name: &str, help: &str, labels: &[(&str, &str)]) -> Counter {
    crate::shard::with(|shard| shard.metrics.borrow_mut().counter(name, help, labels))
}

/// A counter whose value is computed when it is asked for. The closure must not register metrics.
pub fn counter_fn(name: &str, help: &str, labels: &[(&str, &str)], read: impl Fn() -> u64 + 'static) {
    crate::shard::with(|shard| shard.metrics.borrow_mut().counter_fn(name, help, labels, Box::new(read)));
}

/// A gauge of this shard; the same name and labels give the same gauge.
pub fn gauge(name: &str, help: &str, labels: &[(&str, &str)]) -> Gauge {
    crate::shard::with(|shard| shard.metrics.borrow_mut().gauge(name, help, labels))
}

/// A gauge whose value is computed when it is asked for. The closure must not register metrics.
pub fn gauge_fn(name: &str, help: &str, labels: &[(&str, &str)], read: impl Fn() -> f64 + 'static) {
    crate::shard::with(|shard| shard.metrics.borrow_mut().gauge_fn(name, help, labels, Box::new(read)));
}

/// A histogram of this shard; the same name and labels give the same histogram.
pub fn histogram(name: &str, help: &str, labels: &[(&str, &str)]) -> Histogram {
    crate::shard::with(|shard| shard.metrics.borrow_mut().histogram(name, help, labels))
}

/// Forgets every metric that carries all these labels, as when a table is dropped.
pub fn remove(labels: &[(&str, &str)]) {
    crate::shard::with(|shard| shard.metrics.borrow_mut().remove(labels));
}

/// All metrics of this shard now.
pub fn render_local() -> Vec<Sample> {
    crate::shard::with(|shard| shard.metrics.borrow().samples(shard.id.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_their_values() {
        for value in (0..5000).chain([1 << 20, (1 << 39) + 12345]) {
            let bucket = bucket_of(value);
            assert!(value <= bucket_bound(bucket), "{value}");
            assert!(bucket == 0 || bucket_bound(bucket - 1) < value, "{value}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_upper_bounds() {
        let mut distribution = Distribution::default();
        assert_eq!(distribution.quantile(0.5), 0);
        for value in 1..=1000 {
            distribution.record(value);
        }
        let median = distribution.quantile(0.5);
        assert!((500..=625).contains(&median), "{median}");
        assert_eq!(distribution.quantile(1.0), 1000);
        let mut twice = distribution.clone();
        twice.merge(&distribution);
        assert_eq!((twice.count, twice.quantile(0.5)), (2000, median));
    }

    #[test]
    fn text_form() {
        let mut registry = Registry::default();
        registry.counter("reads", "Reads.", &[("ks", "a\"b")]).add(3);
        registry.counter("reads", "Reads.", &[("ks", "a\"b")]).inc();
        registry.gauge_fn("load", "Load.", &[], Box::new(|| 1.5));
        registry.histogram("lat", "Latency.", &[]).record(7);
        let text = to_prometheus(&registry.samples(2));
        let expected = "# HELP reads Reads.\n# TYPE reads counter\nreads{ks=\"a\\\"b\",shard=\"2\"} 4\n\
            # HELP load Load.\n# TYPE load gauge\nload{shard=\"2\"} 1.5\n\
            # HELP lat Latency.\n# TYPE lat histogram\nlat_bucket{shard=\"2\",le=\"7\"} 1\n\
            lat_bucket{shard=\"2\",le=\"+Inf\"} 1\nlat_sum{shard=\"2\"} 7\nlat_count{shard=\"2\"} 1\n";
        assert_eq!(text, expected);
        registry.remove(&[("ks", "a\"b")]);
        assert_eq!(registry.samples(0).len(), 2);
    }
}
