//! Values bound to markers, and values on their way through a statement.

use crate::error::{Result, invalid};
use std::borrow::Cow;
use std::sync::Arc;
use types::{CqlType, collection};

/// A value a client sent for one marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundValue<'a> {
    /// Null: deletes in INSERT and UPDATE.
    Null,
    /// Not set: leaves the column alone.
    Unset,
    /// The wire form.
    Bytes(&'a [u8]),
}

/// A value kept beyond the request's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedValue {
    /// Null.
    Null,
    /// Not set.
    Unset,
    /// The wire form.
    Bytes(Vec<u8>),
}

impl OwnedValue {
    /// A copy of a bound value.
    pub fn of(value: &BoundValue<'_>) -> OwnedValue {
        match value {
            BoundValue::Null => OwnedValue::Null,
            BoundValue::Unset => OwnedValue::Unset,
            BoundValue::Bytes(bytes) => OwnedValue::Bytes(bytes.to_vec()),
        }
    }

    /// The value again as it was bound.
    pub fn lent(&self) -> BoundValue<'_> {
        match self {
            OwnedValue::Null => BoundValue::Null,
            OwnedValue::Unset => BoundValue::Unset,
            OwnedValue::Bytes(bytes) => BoundValue::Bytes(bytes),
        }
    }
}

/// What a client must send for one marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindSpec {
    /// The marker's own name, or the column's, or one in brackets such as `[limit]`.
    pub name: Arc<str>,
    /// Its type.
    pub ty: CqlType,
    /// Keyspace of the statement's table.
    pub keyspace: Arc<str>,
    /// The statement's table.
    pub table: Arc<str>,
    /// Whether elements of a list may be null: what is bound to IN is looked at value by value.
    pub nulls: bool,
}

/// What the node knows when values are bound: clock and chance come from outside.
pub struct BindContext<'a> {
    /// The request's default timestamp, or the coordinator's clock: microseconds since the Unix epoch.
    pub timestamp: i64,
    /// The coordinator's clock in microseconds, for `now()`.
    pub now_micros: i64,
    /// The second at which ttls are judged; the request's now-in-seconds if it has one.
    pub now_s: u32,
    /// Random bits for `uuid()`, `now()` and the paths of list elements.
    pub random: &'a dyn Fn() -> u64,
    /// Units of 100 ns since the Unix epoch, each later than the one before, for the paths of list elements: what is
    /// bound first stands first.
    pub ticks: &'a dyn Fn() -> i64,
}

/// The ticks of a context in which nothing is written.
pub(crate) fn no_ticks() -> i64 {
    0
}

/// A value within a statement being run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Val<'a> {
    /// Null.
    Null,
    /// Not set.
    Unset,
    /// The wire form.
    Bytes(Cow<'a, [u8]>),
}

impl Val<'_> {
    /// The bytes; `None` for null and not set.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Val::Bytes(bytes) => Some(bytes),
            Val::Null | Val::Unset => None,
        }
    }
}

impl<'a> From<BoundValue<'a>> for Val<'a> {
    fn from(value: BoundValue<'a>) -> Val<'a> {
        match value {
            BoundValue::Null => Val::Null,
            BoundValue::Unset => Val::Unset,
            BoundValue::Bytes(bytes) => Val::Bytes(Cow::Borrowed(bytes)),
        }
    }
}

/// Checks that there is one value for each marker and that each is a value of its type.
/// Errors: Cassandra's texts, such as `Expected 4 or 0 byte int (3)`.
pub fn check_values(specs: &[BindSpec], values: &[BoundValue<'_>]) -> Result<()> {
    if specs.len() != values.len() {
        return invalid(format!(
            "there were {} markers(?) in CQL but {} bound variables",
            specs.len(),
            values.len()
        ));
    }
    for (spec, value) in specs.iter().zip(values) {
        match (value, &spec.ty) {
            (BoundValue::Bytes(bytes), CqlType::List(element)) if spec.nulls => {
                for item in collection::elements(bytes) {
                    item?.map_or(Ok(()), |item| element.validate(item))?;
                }
            }
            (BoundValue::Bytes(bytes), ty) => ty.validate(bytes)?,
            (BoundValue::Null | BoundValue::Unset, _) => {}
        }
    }
    Ok(())
}

/// Puts values given by name into the order of the markers.
/// Errors when a marker has no value. Names given twice: the first counts.
pub fn by_name<'a>(specs: &[BindSpec], named: &[(&str, BoundValue<'a>)]) -> Result<Vec<BoundValue<'a>>> {
    let find = |spec: &BindSpec| named.iter().find(|(name, _)| *name == &*spec.name).map(|(_, value)| *value);
    specs
        .iter()
        .map(|spec| match find(spec) {
            Some(value) => Ok(value),
            None => invalid(format!("Invalid unset value for bind variable {}", spec.name)),
        })
        .collect()
}

/// Puts the elements of sets and the keys of maps in order, as literals are; duplicates: the last counts.
/// Shape: bytes that validated as `ty`. O(1) for types without sets and maps.
pub fn normalize<'a>(ty: &CqlType, bytes: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
    if !needs_order(ty) || is_ordered(ty.unfrozen(), &bytes)? {
        return Ok(bytes);
    }
    rebuild(ty.unfrozen(), &bytes).map(Cow::Owned)
}

fn needs_order(ty: &CqlType) -> bool {
    match ty.unfrozen() {
        CqlType::Set(_) | CqlType::Map(..) => true,
        CqlType::List(element) => needs_order(element),
        _ => false,
    }
}

fn is_ordered(ty: &CqlType, bytes: &[u8]) -> Result<bool> {
    match ty {
        CqlType::Set(element) if !needs_order(element) => {
            let items: Vec<&[u8]> =
                collection::elements(bytes).map(|e| Ok(e?.unwrap_or(&[]))).collect::<Result<_>>()?;
            Ok(items.windows(2).all(|pair| element.compare(pair[0], pair[1]).is_lt()))
        }
        CqlType::Map(key, value) if !needs_order(key) && !needs_order(value) => {
            let keys: Vec<&[u8]> = collection::entries(bytes).map(|e| Ok(e?.0)).collect::<Result<_>>()?;
            Ok(keys.windows(2).all(|pair| key.compare(pair[0], pair[1]).is_lt()))
        }
        _ => Ok(false),
    }
}

fn rebuild(ty: &CqlType, bytes: &[u8]) -> Result<Vec<u8>> {
    match ty {
        CqlType::List(element) => {
            let items = element_values(element, bytes)?;
            Ok(collection::build(items.iter().map(|i| &**i)))
        }
        CqlType::Set(element) => {
            let items = sort_elements(element, element_values(element, bytes)?);
            Ok(collection::build(items.iter().map(|i| &**i)))
        }
        CqlType::Map(key, value) => {
            let mut pairs = Vec::new();
            for entry in collection::entries(bytes) {
                let (k, v) = entry?;
                pairs.push((normalize(key, Cow::Borrowed(k))?, normalize(value, Cow::Borrowed(v))?));
            }
            let pairs = sort_pairs(key, pairs);
            Ok(collection::build_map(pairs.iter().map(|(k, v)| (&**k, &**v))))
        }
        _ => Ok(bytes.to_vec()),
    }
}

fn element_values<'a>(element: &CqlType, bytes: &'a [u8]) -> Result<Vec<Cow<'a, [u8]>>> {
    collection::elements(bytes)
        .map(|item| match item? {
            Some(item) => normalize(element, Cow::Borrowed(item)),
            None => invalid("null is not supported inside collections"),
        })
        .collect()
}

/// Elements in the order of a set, without duplicates.
pub(crate) fn sort_elements<'a>(element: &CqlType, mut items: Vec<Cow<'a, [u8]>>) -> Vec<Cow<'a, [u8]>> {
    items.sort_by(|a, b| element.compare(a, b));
    items.dedup_by(|later, earlier| element.compare(later, earlier).is_eq());
    items
}

type Pair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// Pairs in the order of a map; of equal keys the last pair stays.
pub(crate) fn sort_pairs<'a>(key: &CqlType, mut pairs: Vec<Pair<'a>>) -> Vec<Pair<'a>> {
    pairs.sort_by(|a, b| key.compare(&a.0, &b.0));
    pairs.dedup_by(|later, earlier| {
        let same = key.compare(&later.0, &earlier.0).is_eq();
        if same {
            std::mem::swap(later, earlier);
        }
        same
    });
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_maps_come_into_order() {
        let ty = CqlType::set(CqlType::Int);
        let wire = |items: &[i32]| {
            let items: Vec<[u8; 4]> = items.iter().map(|i| i.to_be_bytes()).collect();
            collection::build(items.iter().map(|i| &i[..]))
        };
        let sorted = normalize(&ty, Cow::Owned(wire(&[3, -1, 3, 2]))).expect("sorts");
        assert_eq!(&*sorted, wire(&[-1, 2, 3]));
        let kept = wire(&[-1, 2]);
        assert!(matches!(normalize(&ty, Cow::Borrowed(&kept)), Ok(Cow::Borrowed(_))));
        let map = CqlType::map(CqlType::Text, CqlType::Int);
        let pairs: [(&[u8], &[u8]); 3] =
            [(b"b", &[0, 0, 0, 1]), (b"a", &[0, 0, 0, 2]), (b"b", &[0, 0, 0, 3])];
        let want: [(&[u8], &[u8]); 2] = [(b"a", &[0, 0, 0, 2]), (b"b", &[0, 0, 0, 3])];
        let sorted = normalize(&map, Cow::Owned(collection::build_map(pairs))).expect("sorts");
        assert_eq!(&*sorted, collection::build_map(want));
    }

    #[test]
    fn values_are_counted_and_checked() {
        let spec = BindSpec {
            name: "k".into(),
            ty: CqlType::Int,
            keyspace: "ks".into(),
            table: "t".into(),
            nulls: false,
        };
        let specs = [spec];
        assert_eq!(check_values(&specs, &[BoundValue::Bytes(&[0, 0, 0, 1])]), Ok(()));
        let text = |values: &[BoundValue<'_>]| check_values(&specs, values).expect_err("refused").to_string();
        assert_eq!(text(&[BoundValue::Bytes(&[0, 0, 1])]), "Expected 4 or 0 byte int (3)");
        assert_eq!(text(&[]), "there were 1 markers(?) in CQL but 0 bound variables");
        let named = by_name(&specs, &[("x", BoundValue::Null), ("k", BoundValue::Unset)]);
        assert_eq!(named, Ok(vec![BoundValue::Unset]));
        assert!(by_name(&specs, &[("x", BoundValue::Null)]).is_err());
    }
}
