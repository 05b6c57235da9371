//! Functions of collections and of vectors.

use super::number::{Number, number_of};
use crate::aggregate::{Aggregate, AggregateKind, Running};
use crate::error::{Result, invalid};
use types::{CqlType, collection};

/// What a collection is boiled down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CollectionFunction {
    MapKeys,
    MapValues,
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

impl CollectionFunction {
    /// By its name.
    pub fn of_name(name: &str) -> Option<CollectionFunction> {
        Some(match name {
            "map_keys" => CollectionFunction::MapKeys,
            "map_values" => CollectionFunction::MapValues,
            "collection_count" => CollectionFunction::Count,
            "collection_min" => CollectionFunction::Min,
            "collection_max" => CollectionFunction::Max,
            "collection_sum" => CollectionFunction::Sum,
            "collection_avg" => CollectionFunction::Avg,
            _ => return None,
        })
    }

    /// The result's type; `Err` says what kind of argument is wanted.
    pub fn result_type(self, of: &CqlType) -> std::result::Result<CqlType, &'static str> {
        use CollectionFunction as F;
        match (self, of.unfrozen()) {
            (F::MapKeys, CqlType::Map(key, _)) => Ok(CqlType::set((**key).clone())),
            (F::MapValues, CqlType::Map(_, value)) => Ok(CqlType::list((**value).clone())),
            (F::MapKeys | F::MapValues, _) => Err("a map argument"),
            (F::Count, CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..)) => Ok(CqlType::Int),
            (F::Count, _) => Err("a collection argument"),
            (F::Min | F::Max, CqlType::List(element) | CqlType::Set(element)) => Ok((**element).clone()),
            (F::Min | F::Max, _) => Err("a set or list argument"),
            (F::Sum | F::Avg, CqlType::List(element) | CqlType::Set(element))
                if super::is_number(element) =>
            {
                Ok((**element).clone())
            }
            (F::Sum | F::Avg, _) => Err("a numeric set/list argument"),
        }
    }

    /// Computes it from a valid value; `None` for the extremes of nothing.
    pub fn call(self, ty: &CqlType, value: &[u8]) -> Result<Option<Vec<u8>>> {
        use CollectionFunction as F;
        Ok(match self {
            F::MapKeys => {
                let pairs: std::result::Result<Vec<_>, _> = collection::entries(value).collect();
                Some(collection::build(pairs?.iter().map(|(key, _)| *key)))
            }
            F::MapValues => {
                let pairs: std::result::Result<Vec<_>, _> = collection::entries(value).collect();
                Some(collection::build(pairs?.iter().map(|(_, value)| *value)))
            }
            F::Count => Some((collection::count(value)? as i32).to_be_bytes().to_vec()),
            F::Min | F::Max | F::Sum | F::Avg => {
                let kind = match self {
                    F::Min => AggregateKind::Min,
                    F::Max => AggregateKind::Max,
                    F::Sum => AggregateKind::Sum,
                    _ => AggregateKind::Avg,
                };
                let Some(element) = ty.element_type() else { return Ok(None) };
                let aggregate = Aggregate { kind, argument: None, ty: element.clone() };
                let mut running = Running::new();
                for item in collection::elements(value) {
                    running.add(&aggregate, item?);
                }
                running.result(&aggregate)
            }
        })
    }
}

/// How alike two vectors of floats are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Similarity {
    Cosine,
    Euclidean,
    DotProduct,
}

impl Similarity {
    /// By its function's name.
    pub fn of_name(name: &str) -> Option<Similarity> {
        Some(match name {
            "similarity_cosine" => Similarity::Cosine,
            "similarity_euclidean" => Similarity::Euclidean,
            "similarity_dot_product" => Similarity::DotProduct,
            _ => return None,
        })
    }

    /// Between 0 and 1 for vectors of length 1; larger is more alike.
    pub fn call(self, name: &str, ty: &CqlType, left: &[u8], right: &[u8]) -> Result<Option<Vec<u8>>> {
        let (Some(left), Some(right)) = (floats(ty, left), floats(ty, right)) else { return Ok(None) };
        let pairs = || left.iter().zip(&right);
        let dot: f32 = pairs().map(|(a, b)| a * b).sum();
        let result = match self {
            Similarity::DotProduct => (1.0 + dot) / 2.0,
            Similarity::Euclidean => {
                let distance: f32 = pairs().map(|(a, b)| (a - b) * (a - b)).sum();
                1.0 / (1.0 + distance)
            }
            Similarity::Cosine => {
                let norm = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>();
                let (a, b) = (norm(&left), norm(&right));
                if a == 0.0 || b == 0.0 {
                    return invalid(format!("Function system.{name} doesn't support all-zero vectors."));
                }
                (1.0 + (f64::from(dot) / (f64::from(a) * f64::from(b)).sqrt()) as f32) / 2.0
            }
        };
        Ok(Some(result.to_be_bytes().to_vec()))
    }
}

fn floats(ty: &CqlType, value: &[u8]) -> Option<Vec<f32>> {
    let CqlType::Vector(element, count) = ty else { return None };
    collection::vector_elements(element, *count, value)
        .map(|item| match number_of(element, item.ok()?)? {
            Number::Float(float) => Some(float as f32),
            _ => None,
        })
        .collect()
}
