//! Aggregate functions: count, min, max, sum and avg over rows or the elements of a collection.

use crate::error::{Result, invalid};
use crate::function::{NUMBERS, Number, accepts, is_number, number_of, number_to};
use crate::selector::Selector;
use num_bigint::BigInt;
use types::CqlType;

/// Which aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    /// Rows.
    CountRows,
    /// Values that are not null.
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

impl AggregateKind {
    /// The aggregate of a name.
    pub fn of_name(name: &str) -> Option<AggregateKind> {
        Some(match name {
            "count" => AggregateKind::Count,
            "min" => AggregateKind::Min,
            "max" => AggregateKind::Max,
            "sum" => AggregateKind::Sum,
            "avg" => AggregateKind::Avg,
            _ => return None,
        })
    }

    /// The type of its result for values of a type.
    pub fn result_type(self, name: &str, of: &CqlType) -> Result<CqlType> {
        match self {
            AggregateKind::CountRows | AggregateKind::Count => Ok(CqlType::Bigint),
            AggregateKind::Min | AggregateKind::Max => Ok(of.clone()),
            AggregateKind::Sum | AggregateKind::Avg if is_number(of) => Ok(of.clone()),
            AggregateKind::Sum | AggregateKind::Avg => {
                let fitting: Vec<&CqlType> =
                    NUMBERS.iter().filter(|ty| **ty != CqlType::Counter && accepts(ty, of)).collect();
                if let [_, _, ..] = fitting[..] {
                    let all: Vec<String> =
                        fitting.iter().map(|ty| format!("system.{name} : ({ty}) -> {ty}")).collect();
                    return invalid(format!(
                        "Ambiguous call to function {name} (can be matched by following signatures: {}): use type casts \
                         to disambiguate",
                        all.join(", ")
                    ));
                }
                let known: Vec<String> =
                    NUMBERS.iter().map(|ty| format!("system.{name} : ({ty}) -> {ty}")).collect();
                invalid(format!(
                    "Invalid call to function {name}, none of its type signatures match (known type signatures: {})",
                    known.join(", ")
                ))
            }
        }
    }
}

/// An aggregate of a SELECT clause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aggregate {
    pub kind: AggregateKind,
    /// What it looks at; `None` counts rows.
    pub argument: Option<Selector>,
    /// The argument's type.
    pub ty: CqlType,
}

/// An aggregate on its way.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    count: i64,
    best: Option<Vec<u8>>,
    integer: BigInt,
    scale: i32,
    float: FloatSum,
}

/// Decimal digits behind the point beyond which sums are cut; larger scales would cost memory by a client's wish.
const MAX_SCALE: i32 = 4096;

impl Running {
    /// Before the first row.
    pub fn new() -> Running {
        Running { count: 0, best: None, integer: BigInt::ZERO, scale: 0, float: FloatSum::default() }
    }

    /// Takes one value in; null changes nothing.
    pub fn add(&mut self, aggregate: &Aggregate, value: Option<&[u8]>) {
        if aggregate.kind == AggregateKind::CountRows {
            self.count += 1;
            return;
        }
        let Some(value) = value else { return };
        match aggregate.kind {
            AggregateKind::CountRows | AggregateKind::Count => self.count += 1,
            AggregateKind::Min | AggregateKind::Max => {
                let wins = |best: &Vec<u8>| {
                    let order = aggregate.ty.compare(value, best);
                    if aggregate.kind == AggregateKind::Min { order.is_lt() } else { order.is_gt() }
                };
                if self.best.as_ref().is_none_or(wins) {
                    self.best = Some(value.to_vec());
                }
            }
            AggregateKind::Sum | AggregateKind::Avg => self.add_number(&aggregate.ty, value),
        }
    }

    fn add_number(&mut self, ty: &CqlType, value: &[u8]) {
        let Some(number) = number_of(ty, value) else { return };
        self.count += 1;
        match number {
            Number::Integer(n) => self.integer += n,
            Number::Float(n) => self.float.add(n),
            Number::Decimal(scale, unscaled) => {
                let common = scale.max(self.scale).min(MAX_SCALE);
                let grow =
                    |from: i32| BigInt::from(10).pow(common.saturating_sub(from).clamp(0, MAX_SCALE) as u32);
                self.integer = &self.integer * grow(self.scale) + unscaled * grow(scale);
                self.scale = common;
            }
        }
    }

    /// The result over all rows. Sums of integers wrap around, averages of integers are cut, those of decimals rounded.
    pub fn result(&self, aggregate: &Aggregate) -> Option<Vec<u8>> {
        let divide = aggregate.kind == AggregateKind::Avg && self.count > 0;
        match aggregate.kind {
            AggregateKind::CountRows | AggregateKind::Count => Some(self.count.to_be_bytes().to_vec()),
            AggregateKind::Min | AggregateKind::Max => self.best.clone(),
            AggregateKind::Sum | AggregateKind::Avg => {
                let number = match aggregate.ty {
                    CqlType::Float | CqlType::Double if divide => {
                        Number::Float(self.float.average(self.count))
                    }
                    CqlType::Float | CqlType::Double => Number::Float(self.float.sum()),
                    CqlType::Decimal if divide => {
                        Number::Decimal(self.scale, half_up(&self.integer, self.count))
                    }
                    CqlType::Decimal => Number::Decimal(self.scale, self.integer.clone()),
                    _ if divide => Number::Integer(&self.integer / self.count),
                    _ => Number::Integer(self.integer.clone()),
                };
                number_to(&aggregate.ty, &number)
            }
        }
    }
}

/// A quotient rounded to the nearest, halves away from zero.
fn half_up(number: &BigInt, count: i64) -> BigInt {
    let twice: BigInt = BigInt::from(number.magnitude().clone()) * 2 + count;
    let rounded: BigInt = twice / (BigInt::from(count) * 2);
    if *number < BigInt::ZERO { -rounded } else { rounded }
}

/// A sum of floats that keeps what rounding loses (Kahan's), beside a plain one for infinities and one of values so
/// small that it cannot overflow.
#[derive(Debug, Clone, Copy, Default)]
struct FloatSum {
    sum: f64,
    lost: f64,
    plain: f64,
    scaled: f64,
    /// Whether an infinity or NaN went in.
    odd: bool,
}

/// 2^-64: enough to sum as many values as there can be.
const SCALE: f64 = 1.0 / (1u128 << 64) as f64;

impl FloatSum {
    fn add(&mut self, value: f64) {
        self.plain += value;
        self.scaled += value * SCALE;
        self.odd |= !value.is_finite();
        let corrected = value - self.lost;
        let next = self.sum + corrected;
        self.lost = (next - self.sum) - corrected;
        self.sum = next;
    }

    fn sum(&self) -> f64 {
        if self.sum.is_nan() { self.plain } else { self.sum }
    }

    fn average(&self, count: i64) -> f64 {
        let sum = self.sum();
        if !sum.is_finite() && !self.odd {
            return self.scaled / count as f64 / SCALE;
        }
        sum / count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubles(kind: AggregateKind, values: &[f64]) -> f64 {
        let aggregate = Aggregate { kind, argument: None, ty: CqlType::Double };
        let mut running = Running::new();
        values.iter().for_each(|v| running.add(&aggregate, Some(&v.to_be_bytes())));
        let bytes = running.result(&aggregate).expect("a number");
        f64::from_be_bytes(bytes.try_into().expect("eight bytes"))
    }

    #[test]
    fn floats_sum_as_in_cassandra() {
        assert_eq!(doubles(AggregateKind::Sum, &[0.1, 0.2, 0.3]), 0.6);
        assert_eq!(doubles(AggregateKind::Sum, &[1.7e308, 1.7e308]), f64::INFINITY);
        assert_eq!(doubles(AggregateKind::Avg, &[1.7e308, 1.7e308]), 1.7e308);
        assert!(doubles(AggregateKind::Sum, &[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert_eq!(doubles(AggregateKind::Avg, &[f64::INFINITY, 1.0]), f64::INFINITY);
        assert_eq!(doubles(AggregateKind::Avg, &[]), 0.0);
    }

    #[test]
    fn decimals_average_to_their_scale() {
        assert_eq!(half_up(&BigInt::from(13_445), 2), BigInt::from(6723));
        assert_eq!(half_up(&BigInt::from(-5), 2), BigInt::from(-3));
        assert_eq!(half_up(&BigInt::from(4), 3), BigInt::from(1));
    }
}
