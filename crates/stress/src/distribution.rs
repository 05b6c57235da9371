//! Distributions of whole numbers: `fixed(34)`, `uniform(1..1M)`, `gaussian(1..100,50,5)`, `~exp(1..10)` and the others.
//!
//! A [`Distribution`] is what was written; a [`Sampler`] draws from it. Equal seeds give the numbers that the Java tool draws: they decide
//! what is in a table, so their arithmetic, order of operations included, must never change.
//!
//! Source: the tool's options and Apache Commons Math 3, whose samplers it uses: inversion for the Weibull distribution, the polar method for
//! the normal one, algorithm SA of Ahrens and Dieter ("Computer methods for sampling from the exponential and normal distributions", 1972)
//! for the exponential one.

use crate::error::Error;
use loadtools::java::Random;
use std::fmt;
use std::rc::Rc;

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    shape: Shape,
    min: i64,
    max: i64,
    /// Large where it was small.
    inverted: bool,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Fixed,
    Uniform,
    Gaussian {
        mean: f64,
        deviation: f64,
    },
    /// Above the least value.
    Exponential {
        mean: f64,
    },
    /// Weibull, above the least value.
    Extreme {
        shape: f64,
        scale: f64,
    },
    /// The same, in groups of equal chance, uniform inside each; the bounds of the groups.
    QuantizedExtreme {
        shape: f64,
        scale: f64,
        bounds: Vec<i64>,
    },
    Sequence,
}

impl Distribution {
    /// Always the same value.
    pub fn fixed(value: i64) -> Distribution {
        Distribution::new(Shape::Fixed, value, value, format!("FIXED({value})"))
    }

    /// All values alike.
    pub fn uniform(min: i64, max: i64) -> Distribution {
        Distribution::new(Shape::Uniform, min, max, format!("UNIFORM({min}..{max})"))
    }

    /// The middle most; three standard deviations reach the ends.
    pub fn gaussian(min: i64, max: i64) -> Distribution {
        let (mean, deviation) = middle(min, max, 3.0);
        Distribution::new(Shape::Gaussian { mean, deviation }, min, max, format!("GAUSSIAN({min}..{max})"))
    }

    fn new(shape: Shape, min: i64, max: i64, text: String) -> Distribution {
        // A range of one value has no other.
        let shape = if min == max { Shape::Fixed } else { shape };
        Distribution { shape, min, max, inverted: false, text }
    }

    /// Reads `[~]NAME(parameters)`; numbers may end in k, m or b.
    pub fn parse(text: &str) -> Result<Distribution, Error> {
        let illegal = || Error::usage(format!("Illegal distribution specification: {text}"));
        let (inverted, rest) = match text.strip_prefix('~') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (name, parameters) = rest.split_once('(').ok_or_else(illegal)?;
        let parameters =
            parameters.strip_suffix(')').filter(|inside| !inside.is_empty()).ok_or_else(illegal)?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(illegal());
        }
        let parameters: Vec<&str> = parameters.split(',').filter(|part| !part.is_empty()).collect();
        let (kind, distribution) = match name.to_ascii_lowercase().as_str() {
            "fixed" => ("fixed", parse_fixed(&parameters)),
            "uniform" => ("uniform", parse_uniform(&parameters)),
            "gaussian" | "gauss" | "normal" | "norm" => ("gaussian", parse_gaussian(&parameters)),
            "exp" => ("exponential", parse_exponential(&parameters)),
            "extr" | "extreme" => ("extreme (Weibull)", parse_extreme(&parameters)),
            "qextr" | "qextreme" => ("quantized extreme (Weibull)", parse_quantized(&parameters)),
            "seq" => ("sequence", parse_sequence(&parameters)),
            _ => return Err(Error::usage(format!("Illegal distribution type: {name}"))),
        };
        let distribution = distribution.ok_or_else(|| {
            Error::usage(format!(
                "Invalid parameter list for {kind} distribution: [{}]",
                parameters.join(", ")
            ))
        })?;
        Ok(Distribution { inverted, text: text.to_owned(), ..distribution })
    }

    /// The least value.
    pub fn min(&self) -> i64 {
        self.min
    }

    /// The greatest value.
    pub fn max(&self) -> i64 {
        self.max
    }

    /// The value if there is only one.
    pub fn only(&self) -> Option<i64> {
        (self.shape == Shape::Fixed).then_some(self.min)
    }

    /// As the settings of a run print it.
    pub fn described(&self) -> String {
        let (min, max) = (self.min, self.max);
        let number = |value: &f64| loadtools::java::fixed(*value, 6, false);
        let plain = match &self.shape {
            Shape::Fixed => format!("Fixed:  key={min}"),
            Shape::Uniform => format!("Uniform:  min={min},max={max}"),
            Shape::Gaussian { mean, deviation } => {
                format!("Gaussian:  min={min},max={max},mean={},stdev={}", number(mean), number(deviation))
            }
            Shape::Exponential { mean } => format!("Exponential:  min={min},max={max},mean={}", number(mean)),
            // Groups are not told.
            Shape::Extreme { shape, scale } | Shape::QuantizedExtreme { shape, scale, .. } => {
                format!("Extreme:  min={min},max={max},shape={}, scale={}", number(shape), number(scale))
            }
            Shape::Sequence => format!("Sequence:  start={min},end={max}"),
        };
        if self.inverted { format!("Inverse: {plain}") } else { plain }
    }

    /// The value below which this share (0 to 1) of the draws lies.
    pub fn quantile(&self, share: f64) -> i64 {
        if self.inverted {
            self.mirrored(self.plain_quantile(1.0 - share))
        } else {
            self.plain_quantile(share)
        }
    }

    fn plain_quantile(&self, share: f64) -> i64 {
        let offset = |value: f64| self.offset(value);
        match &self.shape {
            Shape::Fixed => self.min,
            Shape::Uniform => {
                let (min, max) = (self.min as f64, self.max as f64 + 1.0);
                self.bounded(share * (max - min) + min)
            }
            Shape::Gaussian { mean, deviation } => self.bounded(mean + deviation * normal_quantile(share)),
            Shape::Exponential { mean } => offset(exponential_quantile(share, *mean)),
            Shape::Extreme { shape, scale } => offset(weibull_quantile(share, *shape, *scale)),
            Shape::QuantizedExtreme { bounds, .. } => quantized_quantile(bounds, share),
            Shape::Sequence => (self.min as f64 + (self.max - self.min) as f64 * share) as i64,
        }
    }

    fn mirrored(&self, value: i64) -> i64 {
        self.max - (value - self.min)
    }

    /// Cut to a whole number, and to the range.
    fn bounded(&self, value: f64) -> i64 {
        (value as i64).clamp(self.min, self.max)
    }

    /// The same for what is counted from the least value.
    fn offset(&self, value: f64) -> i64 {
        self.min + (value as i64).clamp(0, self.max - self.min)
    }

    /// Draws by chance that follows from a seed; a sequence begins with its first value.
    pub fn sampler(&self, seed: i64) -> Sampler {
        Sampler { distribution: Rc::new(self.clone()), random: Random::new(seed), position: 0 }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Draws from a distribution.
#[derive(Clone, Debug)]
pub struct Sampler {
    distribution: Rc<Distribution>,
    random: Random,
    /// Of a sequence: the next value above the least.
    position: i64,
}

impl Sampler {
    /// Starts again from a seed.
    pub fn set_seed(&mut self, seed: i64) {
        self.random = Random::new(seed);
        self.position = seed;
    }

    /// What is drawn from.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The next value.
    pub fn draw(&mut self) -> i64 {
        let value = self.plain_draw();
        if self.distribution.inverted { self.distribution.mirrored(value) } else { value }
    }

    /// The next value, fractions included, of the same draw that [`Sampler::draw`] would cut.
    pub fn next_double(&mut self) -> f64 {
        let (min, max) = (self.distribution.min as f64, self.distribution.max as f64);
        let value = match self.distribution.shape {
            Shape::Uniform | Shape::Gaussian { .. } => self.sample().clamp(min, max),
            Shape::Exponential { .. } | Shape::Extreme { .. } => min + self.sample().clamp(0.0, max - min),
            Shape::Fixed | Shape::QuantizedExtreme { .. } | Shape::Sequence => self.plain_draw() as f64,
        };
        if self.distribution.inverted { max - (value - min) } else { value }
    }

    fn plain_draw(&mut self) -> i64 {
        match &self.distribution.shape {
            Shape::Fixed => self.distribution.min,
            Shape::Uniform | Shape::Gaussian { .. } => {
                let value = self.sample();
                self.distribution.bounded(value)
            }
            Shape::Exponential { .. } | Shape::Extreme { .. } => {
                let value = self.sample();
                self.distribution.offset(value)
            }
            Shape::QuantizedExtreme { shape, scale, bounds } => {
                let value = weibull_quantile(self.random.next_double(), *shape, *scale);
                let value = self.distribution.offset(value);
                // Groups include their end, but for the first, which has its beginning, too.
                let group = bounds.partition_point(|bound| *bound < value).saturating_sub(1);
                let (from, to) = (bounds[group], bounds[group + 1]);
                from + (self.random.next_double() * (to - from) as f64) as i64
            }
            Shape::Sequence => {
                let count = self.distribution.max - self.distribution.min + 1;
                let value = self.distribution.min + self.position % count;
                self.position = self.position.wrapping_add(1);
                value
            }
        }
    }

    /// One draw of the real distribution behind.
    fn sample(&mut self) -> f64 {
        match self.distribution.shape {
            Shape::Uniform => {
                let (min, max) = (self.distribution.min as f64, self.distribution.max as f64 + 1.0);
                let u = self.random.next_double();
                u * max + (1.0 - u) * min
            }
            Shape::Gaussian { mean, deviation } => deviation * self.random.next_gaussian() + mean,
            Shape::Exponential { mean } => exponential(&mut self.random, mean),
            Shape::Extreme { shape, scale } => weibull_quantile(self.random.next_double(), shape, scale),
            // These are not drawn from a real distribution alone.
            Shape::QuantizedExtreme { .. } | Shape::Fixed | Shape::Sequence => self.distribution.min as f64,
        }
    }
}

/// A whole number with the tool's endings: k, m and b for 10^3, 10^6 and 10^9.
pub fn parse_count(text: &str) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, factor) = match text.strip_suffix(['k', 'm', 'b']) {
        Some(digits) => (
            digits,
            match text.as_bytes()[text.len() - 1] {
                b'k' => 1_000,
                b'm' => 1_000_000,
                _ => 1_000_000_000,
            },
        ),
        None => (text.as_str(), 1),
    };
    digits.parse::<i64>().ok()?.checked_mul(factor)
}

/// Reads `min..max`; more dots are as good as two.
pub fn parse_range(text: &str) -> Option<(i64, i64)> {
    let (min, max) = text.split_once("..")?;
    let (min, max) = (parse_count(min)?, parse_count(max.trim_start_matches('.'))?);
    // Widths are computed, so they have to fit, too.
    (min <= max && max.checked_sub(min)?.checked_add(1).is_some()).then_some((min, max))
}

fn parse_double(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// Mean and deviation of a normal distribution over a range whose ends are so many deviations away.
fn middle(min: i64, max: i64, deviations: f64) -> (f64, f64) {
    (min.wrapping_add(max) as f64 / 2.0, ((max - min) as f64 / 2.0) / deviations)
}

fn parse_fixed(parameters: &[&str]) -> Option<Distribution> {
    let [value] = parameters else { return None };
    Some(Distribution::fixed(parse_count(value)?))
}

fn parse_uniform(parameters: &[&str]) -> Option<Distribution> {
    let [range] = parameters else { return None };
    let (min, max) = parse_range(range)?;
    Some(Distribution::uniform(min, max))
}

fn parse_gaussian(parameters: &[&str]) -> Option<Distribution> {
    let (min, max) = parse_range(parameters.first()?)?;
    let (mean, deviation) = match parameters[1..] {
        [] => middle(min, max, 3.0),
        [deviations] => middle(min, max, parse_double(deviations)?),
        [mean, deviation] => (parse_double(mean)?, parse_double(deviation)?),
        _ => return None,
    };
    ((deviation > 0.0 && deviation.is_finite()) || min == max)
        .then(|| Distribution::new(Shape::Gaussian { mean, deviation }, min, max, String::new()))
}

/// The share of draws that a range should hold: so that all values can come, but not so that hardly one does.
fn reach(min: i64, max: i64) -> f64 {
    1.0 - (1.0 / (max - min) as f64).sqrt()
}

fn parse_exponential(parameters: &[&str]) -> Option<Distribution> {
    let [range] = parameters else { return None };
    let (min, max) = parse_range(range)?;
    let mean = (max - min) as f64 / exponential_quantile(reach(min, max), 1.0);
    // Of two neighbours the share is nothing and the mean endless.
    (mean.is_finite() || min == max)
        .then(|| Distribution::new(Shape::Exponential { mean }, min, max, String::new()))
}

fn parse_weibull(range: &str, shape: &str) -> Option<(i64, i64, f64, f64)> {
    let ((min, max), shape) = (parse_range(range)?, parse_double(shape)?);
    let scale = (max - min) as f64 / weibull_quantile(reach(min, max), shape, 1.0);
    (shape > 0.0 && (scale.is_finite() || min == max)).then_some((min, max, shape, scale))
}

fn parse_extreme(parameters: &[&str]) -> Option<Distribution> {
    let [range, shape] = parameters else { return None };
    let (min, max, shape, scale) = parse_weibull(range, shape)?;
    Some(Distribution::new(Shape::Extreme { shape, scale }, min, max, String::new()))
}

fn parse_quantized(parameters: &[&str]) -> Option<Distribution> {
    let [range, shape, groups] = parameters else { return None };
    let (min, max, shape, scale) = parse_weibull(range, shape)?;
    let groups = groups.trim().parse::<u32>().ok().filter(|groups| (1..=GROUPS_MAX).contains(groups))?;
    let plain = Distribution::new(Shape::Extreme { shape, scale }, min, max, String::new());
    let inner = (1..groups).map(|nth| plain.quantile(f64::from(nth) / f64::from(groups)));
    let bounds = std::iter::once(min).chain(inner).chain([max]).collect();
    Some(Distribution::new(Shape::QuantizedExtreme { shape, scale, bounds }, min, max, String::new()))
}

/// Groups of a quantized distribution; each costs a number.
const GROUPS_MAX: u32 = 1 << 20;

fn parse_sequence(parameters: &[&str]) -> Option<Distribution> {
    let [range] = parameters else { return None };
    let (min, max) = parse_range(range)?;
    // One value is no sequence: the Java tool refuses it as well.
    (min < max).then(|| Distribution::new(Shape::Sequence, min, max, String::new()))
}

fn exponential_quantile(share: f64, mean: f64) -> f64 {
    if share >= 1.0 { f64::INFINITY } else { -mean * (1.0 - share).ln() }
}

fn weibull_quantile(share: f64, shape: f64, scale: f64) -> f64 {
    if share <= 0.0 {
        0.0
    } else if share >= 1.0 {
        f64::INFINITY
    } else {
        scale * (-(-share).ln_1p()).powf(1.0 / shape)
    }
}

fn quantized_quantile(bounds: &[i64], share: f64) -> i64 {
    let groups = bounds.len() - 1;
    let place = share * groups as f64;
    let group = (place as usize).min(groups - 1);
    let (from, to) = (bounds[group], bounds[group + 1]);
    from + ((to - from) as f64 * (place - group as f64)) as i64
}

/// Where this share of a standard normal distribution ends: Acklam's rational approximation, made exact by a step of Halley's method.
fn normal_quantile(share: f64) -> f64 {
    if share <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if share >= 1.0 {
        return f64::INFINITY;
    }
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    let polynomial = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |q: f64| polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    let first = if share < 0.02425 {
        tail((-2.0 * share.ln()).sqrt())
    } else if share > 1.0 - 0.02425 {
        -tail((-2.0 * (1.0 - share).ln()).sqrt())
    } else {
        let q = share - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    };
    let error = 0.5 * libm::erfc(-first / std::f64::consts::SQRT_2) - share;
    let step = error * (2.0 * std::f64::consts::PI).sqrt() * (first * first / 2.0).exp();
    first - step / (1.0 + first * step / 2.0)
}

/// Sums of ln(2)^k / k! for k from 1, until they are 1.
fn exponential_sums() -> [f64; 16] {
    let (mut sums, mut sum, mut term) = ([0.0; 16], 0.0, 1.0);
    for (nth, place) in sums.iter_mut().enumerate() {
        term *= std::f64::consts::LN_2 / (nth + 1) as f64;
        sum += term;
        *place = sum;
    }
    sums
}

fn exponential(random: &mut Random, mean: f64) -> f64 {
    static SUMS: std::sync::LazyLock<[f64; 16]> = std::sync::LazyLock::new(exponential_sums);
    let ln2 = SUMS[0];
    let (mut whole, mut u) = (0.0, random.next_double());
    if u == 0.0 {
        // One in 2^53; doubling would never end.
        return mean * ln2 * 53.0;
    }
    while u < 0.5 {
        whole += ln2;
        u *= 2.0;
    }
    u += u - 1.0;
    if u <= ln2 {
        return mean * (whole + u);
    }
    let mut least = random.next_double();
    let mut nth = 0;
    loop {
        nth += 1;
        least = least.min(random.next_double());
        if u <= SUMS[nth] || nth + 1 == SUMS.len() {
            return mean * (whole + least * ln2);
        }
    }
}

#[cfg(test)]
mod tests;
