//! Per-shard counters, gauges and histograms, and their Prometheus text form.
//!
//! Registering the same name and labels twice gives the same metric. Every sample carries the shard as a label.

use base::histogram::{BOUNDARIES, DecayingHistogram, Distribution, Placed, Zeroes, boundary};
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

/// A distribution that is being recorded, in Cassandra's buckets.
#[derive(Clone, Debug)]
pub struct Histogram(Rc<RefCell<DecayingHistogram>>);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new(Zeroes::AsOne)
    }
}

impl Histogram {
    /// A histogram outside any registry: whoever made it calls [`Histogram::tick`].
    pub fn new(zeroes: Zeroes) -> Histogram {
        Histogram(Rc::new(RefCell::new(DecayingHistogram::new(zeroes))))
    }

    /// Adds one value. The unit is the caller's, usually microseconds.
    #[inline]
    pub fn record(&self, value: u64) {
        self.0.borrow_mut().record(value);
    }

    /// Adds one value whose bucket is known.
    #[inline]
    pub fn record_placed(&self, placed: Placed) {
        self.0.borrow_mut().record_placed(placed);
    }

    /// Adds one value as often as told.
    #[inline]
    pub fn record_many(&self, value: u64, count: u64) {
        self.0.borrow_mut().record_many(value, count);
    }

    /// [`base::histogram::TICK`] has passed.
    pub fn tick(&self) {
        self.0.borrow_mut().tick();
    }

    /// What was recorded, as of now.
    pub fn snapshot(&self) -> Distribution {
        self.0.borrow().snapshot()
    }
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleValue {
    /// A growing count.
    Counter(u64),
    /// A momentary value.
    Gauge(f64),
    /// A distribution, shown as counts up to boundaries.
    Histogram(Distribution),
    /// A distribution, shown as the median and the tail of the last minutes: five series whatever it holds.
    Summary(Distribution),
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

/// Makes samples when they are asked for.
type Collector = Box<dyn Fn(&mut Vec<Sample>)>;

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
    collectors: Vec<Collector>,
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
        let mut samples: Vec<Sample> = self.metrics.iter().map(sample).collect();
        let own = samples.len();
        self.collectors.iter().for_each(|collect| collect(&mut samples));
        let label = || ("shard".to_string(), shard.to_string());
        samples[own..].iter_mut().for_each(|sample| sample.labels.push(label()));
        samples
    }

    fn tick(&self) {
        for metric in &self.metrics {
            if let Source::Histogram(histogram) = &metric.source {
                histogram.tick();
            }
        }
    }
}

fn labels_text(labels: &[(String, String)], extra: Option<(&str, &str)>) -> String {
    let mut text = String::new();
    for (key, value) in labels {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{key}=\"{value}\"");
    }
    if let Some((key, value)) = extra {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{key}=\"{value}\"");
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
            SampleValue::Summary(_) => "summary",
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
            write_buckets(out, name, labels, distribution);
            let Distribution { count, sum, .. } = distribution;
            let all = labels_text(labels, Some(("le", "+Inf")));
            writeln!(out, "{name}_bucket{all} {count}\n{name}_sum{plain} {sum}\n{name}_count{plain} {count}")
        }
        SampleValue::Summary(distribution) => {
            for quantile in [0.5, 0.95, 0.99] {
                let labels = labels_text(labels, Some(("quantile", &quantile.to_string())));
                let _ = writeln!(out, "{name}{labels} {}", distribution.recent.percentile(quantile));
            }
            let Distribution { count, sum, .. } = distribution;
            writeln!(out, "{name}_sum{plain} {sum}\n{name}_count{plain} {count}")
        }
    };
}

/// Boundaries shown of a histogram: every fourth, which doubles from one to the next, up to some hours in microseconds.
/// The same series whatever was recorded.
fn write_buckets(out: &mut String, name: &str, labels: &[(String, String)], distribution: &Distribution) {
    let mut counted = distribution.ever.buckets().peekable();
    let mut seen = 0;
    for bound in (3..BOUNDARIES).step_by(4).map(boundary).take_while(|bound| *bound < LARGEST_BOUND) {
        while let Some((_, count)) = counted.next_if(|(value, _)| *value <= bound) {
            seen += count;
        }
        let _ =
            writeln!(out, "{name}_bucket{} {seen}", labels_text(labels, Some(("le", &bound.to_string()))));
    }
}

const LARGEST_BOUND: u64 = 1 << 34;

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

/// Asks a closure for more samples whenever samples are wanted, for metrics that come and go. It leaves the shard's label
/// out and must not register metrics.
pub fn collector(collect: impl Fn(&mut Vec<Sample>) + 'static) {
    crate::shard::with(|shard| shard.metrics.borrow_mut().collectors.push(Box::new(collect)));
}

/// [`base::histogram::TICK`] has passed: lets the histograms of this shard's registry fade.
pub fn tick() {
    crate::shard::with(|shard| shard.metrics.borrow().tick());
}

/// What a scheduling group of this shard does and has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupUsage {
    /// The group's name.
    pub name: &'static str,
    /// Tasks ready to run and not running.
    pub queued: u64,
    /// Turns that tasks have had.
    pub polls: u64,
    /// Nanoseconds on the core.
    pub ran_ns: u64,
}

/// All scheduling groups of this shard.
pub fn groups() -> Vec<GroupUsage> {
    crate::shard::with(|shard| {
        let usage = |group: crate::Group| {
            let (ran_ns, polls) = shard.executor.usage(group);
            GroupUsage { name: group.name(), queued: shard.executor.queued(group) as u64, polls, ran_ns }
        };
        crate::Group::ALL.map(usage).to_vec()
    })
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
    fn text_form() {
        let mut registry = Registry::default();
        registry.counter("reads", "Reads.", &[("ks", "a\"b")]).add(3);
        registry.counter("reads", "Reads.", &[("ks", "a\"b")]).inc();
        registry.gauge_fn("load", "Load.", &[], Box::new(|| 1.5));
        registry.histogram("lat", "Latency.", &[]).record(7);
        let text = to_prometheus(&registry.samples(2));
        let expected = "# HELP reads Reads.\n# TYPE reads counter\nreads{ks=\"a\\\"b\",shard=\"2\"} 4\n\
            # HELP load Load.\n# TYPE load gauge\nload{shard=\"2\"} 1.5\n\
            # HELP lat Latency.\n# TYPE lat histogram\n\
            lat_bucket{shard=\"2\",le=\"4\"} 0\nlat_bucket{shard=\"2\",le=\"8\"} 1\n";
        assert!(text.starts_with(expected), "{text}");
        let end = "lat_bucket{shard=\"2\",le=\"+Inf\"} 1\nlat_sum{shard=\"2\"} 7\nlat_count{shard=\"2\"} 1\n";
        assert!(text.ends_with(end), "{text}");
        assert!(text.lines().count() < 50, "the series of a histogram are few: {text}");
        registry.remove(&[("ks", "a\"b")]);
        assert_eq!(registry.samples(0).len(), 2);
    }

    #[test]
    fn collected_samples_carry_the_shard() {
        let mut registry = Registry::default();
        registry.collectors.push(Box::new(|samples| {
            let latency = Distribution { count: 2, ..Distribution::default() };
            let (name, help) = ("t".to_string(), "T.".to_string());
            samples.push(Sample { name, help, labels: Vec::new(), value: SampleValue::Summary(latency) });
        }));
        let text = to_prometheus(&registry.samples(1));
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "# TYPE t summary",
            "t{shard=\"1\",quantile=\"0.5\"} 0",
            "t{shard=\"1\",quantile=\"0.95\"} 0",
            "t{shard=\"1\",quantile=\"0.99\"} 0",
            "t_sum{shard=\"1\"} 0",
            "t_count{shard=\"1\"} 2",
        ];
        assert_eq!(lines, expected);
    }
}
