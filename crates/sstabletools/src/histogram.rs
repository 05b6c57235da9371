//! Histograms as sstablemetadata draws them: values with bars, then percentiles in Cassandra's growing buckets.

use crate::error::Error;
use crate::output::Output;

/// Buckets of the histogram that percentiles are taken from.
const BUCKETS: usize = 165;
/// Symbols of the longest bar.
const BAR: f64 = 30.0;

/// Values and how often each is there, ascending.
pub(crate) struct Histogram<'n> {
    /// The head of the first column.
    pub(crate) title: &'n str,
    /// The values.
    pub(crate) values: Vec<(i64, i64)>,
    /// How a value is written.
    pub(crate) name: &'n dyn Fn(i64) -> String,
    /// Bars of eighths of a block instead of letters.
    pub(crate) unicode: bool,
}

impl Histogram<'_> {
    /// Prints it.
    pub(crate) fn print(&self, out: &mut Output<'_>) -> Result<(), Error> {
        let max = self.values.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let sum: f64 = self.values.iter().map(|(_, count)| *count as f64).sum();
        let names = self.values.iter().map(|(value, _)| (self.name)(*value).chars().count());
        let width = names.max().unwrap_or(0).max(self.title.len());
        let digits = self.values.iter().map(|(_, count)| count.to_string().len()).max().unwrap_or(0).max(5);
        out.line(format_args!("   {:<width$} | {:<digits$}  (%)  Histogram ", self.title, "Count"))?;
        for (value, count) in &self.values {
            let percent = (100.0 * (*count as f64 / sum)) as i64;
            let (name, bar) = ((self.name)(*value), self.bar(*count, max));
            out.line(format_args!("   {name:<width$} | {count:>digits$} ({percent:>3}) {bar}"))?;
        }
        out.line("   Percentiles")?;
        let percentiles = Percentiles::of(&self.values);
        for (head, value) in [
            ("50th", percentiles.at(0.5)),
            ("75th", percentiles.at(0.75)),
            ("95th", percentiles.at(0.95)),
            ("98th", percentiles.at(0.98)),
            ("99th", percentiles.at(0.99)),
            ("Min", percentiles.min()),
            ("Max", percentiles.max()),
        ] {
            out.line(format_args!("   {head:<10}{}", (self.name)(value)))?;
        }
        Ok(())
    }

    fn bar(&self, count: i64, max: i64) -> String {
        let length = count as f64 / max as f64 * BAR;
        let whole = length as usize;
        let rest = length - whole as f64;
        let (full, parts): (&str, &[(f64, &str)]) = if self.unicode {
            let parts = &[
                (0.125, "\u{258f}"),
                (0.25, "\u{258e}"),
                (0.375, "\u{258d}"),
                (0.625, "\u{258b}"),
                (0.75, "\u{258a}"),
                (0.875, "\u{2589}"),
            ];
            ("\u{2589}", parts)
        } else {
            ("O", &[(0.3, "."), (0.75, "o")])
        };
        let part = parts.iter().rev().find(|(least, _)| *least <= rest).map_or("", |(_, symbol)| symbol);
        format!("{}{part}", full.repeat(whole))
    }
}

/// Counts by bucket; the last is of what lies beyond all.
struct Percentiles {
    boundaries: Vec<i64>,
    counts: Vec<i64>,
}

impl Percentiles {
    fn of(values: &[(i64, i64)]) -> Percentiles {
        let grow = |last: &i64| Some(((*last as f64 * 1.2).round() as i64).max(last + 1));
        let boundaries: Vec<i64> = std::iter::successors(Some(1), grow).take(BUCKETS).collect();
        let mut counts = vec![0; BUCKETS + 1];
        for (value, count) in values {
            let counted = &mut counts[boundaries.partition_point(|boundary| boundary < value)];
            *counted = i64::saturating_add(*counted, *count);
        }
        Percentiles { boundaries, counts }
    }

    /// The boundary at or below which this share of the values lies.
    fn at(&self, share: f64) -> i64 {
        let all = self.counts.iter().fold(0, |sum: i64, count| sum.saturating_add(*count));
        let wanted = (all as f64 * share).ceil() as i64;
        if wanted == 0 {
            return 0;
        }
        let mut seen = 0i64;
        let mut reached = self.boundaries.iter().zip(&self.counts).filter_map(|(boundary, count)| {
            seen = seen.saturating_add(*count);
            (seen >= wanted).then_some(*boundary)
        });
        reached.next().unwrap_or(0)
    }

    fn min(&self) -> i64 {
        match self.counts.iter().position(|count| *count > 0) {
            None | Some(0) => 0,
            Some(bucket) => self.boundaries[bucket - 1] + 1,
        }
    }

    fn max(&self) -> i64 {
        let last = self.counts.iter().rposition(|count| *count > 0);
        last.map_or(0, |bucket| self.boundaries.get(bucket).copied().unwrap_or(i64::MAX))
    }
}
