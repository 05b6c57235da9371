//! Whether a rate held: the lines that loaders logged, second by second, and those far below the others.

use loadtools::java::fixed;

/// Share of the mean below which an interval is a dip.
const FLOOR: f64 = 0.8;
/// Intervals without the first and the last, which are not whole; of fewer nothing is said.
const INTERVALS_MIN: usize = 3;
/// Dips that are named.
const NAMED_MAX: usize = 10;

/// Operations in a second of each interval that a log of cassandra-stress tells, with its time, of its last run.
pub fn rates(log: &str) -> Vec<(f64, f64)> {
    let mut rates = Vec::new();
    for line in log.lines() {
        if line.starts_with("type ") {
            // What was before was the warm-up.
            rates.clear();
        }
        if line.starts_with("Results:") {
            break;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        if let ("total", Some(rate), Some(time)) = (fields[0], number(2), number(11)) {
            rates.push((time, rate));
        }
    }
    rates
}

/// What the rates of loaders that began together say in a sentence; nothing of few intervals.
pub fn told(loaders: &[Vec<(f64, f64)>]) -> Option<String> {
    let whole = loaders.iter().map(Vec::len).min()?.checked_sub(2).filter(|whole| INTERVALS_MIN <= *whole)?;
    let sum = |at: usize| loaders.iter().map(|rates| rates[at].1).sum::<f64>();
    let all: Vec<(f64, f64)> = (1..=whole).map(|at| (loaders[0][at].0, sum(at))).collect();
    let mean = all.iter().map(|(_, rate)| rate).sum::<f64>() / all.len() as f64;
    let dips: Vec<&(f64, f64)> = all.iter().filter(|(_, rate)| *rate < FLOOR * mean).collect();
    let of = |(time, rate): &(f64, f64)| {
        format!("{} % at {} s", fixed(100.0 * rate / mean, 0, false), fixed(*time, 0, false))
    };
    let mean = fixed(mean, 0, true);
    if dips.is_empty() {
        return Some(format!("no dip: each of {} intervals had 80 % of the mean of {mean} op/s", all.len()));
    }
    let mut named: Vec<String> = dips.iter().take(NAMED_MAX).map(|dip| of(dip)).collect();
    if NAMED_MAX < dips.len() {
        named.push("and so on".to_owned());
    }
    Some(format!(
        "dips: {} of {} intervals had less than 80 % of the mean of {mean} op/s: {}",
        dips.len(),
        all.len(),
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(rates: &[u32]) -> String {
        let row = |(nth, rate): (usize, &u32)| {
            let zeros = ",       0".repeat(7);
            format!(
                "total,         41234,{rate:>8},   41234,   41234,     4.8,     3.9,    10.4,    17.2,    40.1,    61.7,{:>7}.0,  0.00000{zeros}\n",
                nth + 1
            )
        };
        let rows: String = rates.iter().enumerate().map(row).collect();
        format!(
            "type       total ops,    op/s\ntotal, 5,    7,\ntype       total ops,    op/s,\n{rows}\nResults:\ntotal, 1, 2\n"
        )
    }

    #[test]
    fn a_dip_is_told_with_its_time() {
        let steady = rates(&log(&[5, 100, 110, 90, 3]));
        assert_eq!(steady, [(1.0, 5.0), (2.0, 100.0), (3.0, 110.0), (4.0, 90.0), (5.0, 3.0)]);
        let none = "no dip: each of 3 intervals had 80 % of the mean of 100 op/s";
        assert_eq!(told(std::slice::from_ref(&steady)).as_deref(), Some(none));
        let dip = rates(&log(&[5, 1100, 1100, 200, 1600, 3]));
        assert_eq!(
            told(&[dip]).as_deref(),
            Some("dips: 1 of 4 intervals had less than 80 % of the mean of 1,000 op/s: 20 % at 4 s")
        );
    }

    #[test]
    fn loaders_count_together() {
        let one = rates(&log(&[5, 100, 20, 100, 3]));
        let other = rates(&log(&[5, 100, 180, 100, 100, 3]));
        assert_eq!(
            told(&[one, other]).as_deref(),
            Some("no dip: each of 3 intervals had 80 % of the mean of 200 op/s")
        );
        assert_eq!((told(&[]), told(&[rates(&log(&[1, 2, 3, 4]))]), told(&[Vec::new()])), (None, None, None));
    }
}
