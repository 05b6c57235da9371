//! What WHERE comes down to: keys, token bounds, slices of clustering positions. Bound with values, it says where to
//! read or write.
//!
//! A tuple bound such as `(a, b) > (1, 2)` is the union of `a > 1` and `a = 1 AND b > 2`; each piece is one interval of
//! positions whatever the directions of the columns, so mixed directions need nothing special.

use crate::ast::Operator;
use crate::error::{Error, Result, invalid};
use crate::limits;
use crate::term::{Env, Term};
use crate::value::Val;
use mutation::{Slice, Slices, TokenRange};
use schema::{BoundSide, Column, CompactStorage, Order, Position, Table, push_component};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use types::{CqlType, collection};

/// The values one column may have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    /// `= value`, `IN (value)`
    One(Term),
    /// `IN (a, b)`
    Each(Vec<Term>),
    /// `IN ?`: a marker that holds a list.
    Whole(Term),
}

impl Values {
    /// The values, evaluated. IN: sorted and distinct by the column's order.
    fn eval<'t, 'v: 't>(&'t self, column: &Column, env: &Env<'v, '_>) -> Result<Vec<Cow<'t, [u8]>>> {
        let mut out = match self {
            Values::One(term) => return Ok(vec![component(column, term.eval(env)?)?]),
            Values::Each(terms) => {
                let values: Result<Vec<_>> = terms.iter().map(|t| component(column, t.eval(env)?)).collect();
                values?
            }
            Values::Whole(term) => whole_list(column, term.eval(env)?)?,
        };
        // Equal values may have several spellings in bytes, which are different partition keys: each is kept once.
        out.sort_by(|a, b| column.ty.compare(a, b).then_with(|| a.cmp(b)));
        out.dedup();
        Ok(out)
    }

    /// The marker of `= ?`.
    pub fn as_marker(&self) -> Option<usize> {
        match self {
            Values::One(term) => term.as_marker(),
            Values::Each(_) | Values::Whole(_) => None,
        }
    }
}

fn whole_list<'t>(column: &Column, value: Val<'t>) -> Result<Vec<Cow<'t, [u8]>>> {
    let bytes = match value {
        Val::Bytes(bytes) => bytes,
        Val::Null => return invalid(format!("Invalid null value for column {}", column.name)),
        Val::Unset => return invalid(format!("Invalid unset value for column {}", column.name)),
    };
    let mut out = Vec::new();
    for item in collection::elements(&bytes) {
        let item = item?.filter(|item| !item.is_empty() || has_empty_value(&column.ty));
        let Some(item) = item else {
            return invalid(format!("Invalid null value in condition for column {}", column.name));
        };
        out.push(Cow::Owned(item.to_vec()));
    }
    Ok(out)
}

/// Whether no bytes are a value of the type like others, and not another way to say null.
fn has_empty_value(ty: &CqlType) -> bool {
    !matches!(
        ty.unfrozen(),
        CqlType::Bigint
            | CqlType::Boolean
            | CqlType::Decimal
            | CqlType::Double
            | CqlType::Float
            | CqlType::Inet
            | CqlType::Int
            | CqlType::Timestamp
            | CqlType::Timeuuid
            | CqlType::Uuid
            | CqlType::LexicalUuid
            | CqlType::Varint
    )
}

/// A key component's bytes; null and unset are refused with Cassandra's texts.
pub(crate) fn component<'t>(column: &Column, value: Val<'t>) -> Result<Cow<'t, [u8]>> {
    match value {
        Val::Bytes(bytes) => Ok(bytes),
        Val::Null => invalid(format!("Invalid null value in condition for column {}", column.name)),
        Val::Unset => invalid(format!("Invalid unset value for column {}", column.name)),
    }
}

fn too_long<T>(bytes: usize) -> Result<T> {
    invalid(format!("Key length of {bytes} is longer than maximum of {}", limits::KEY_BYTES))
}

/// Calls `each` with every serialized partition key that restrictions on every component name, in key order.
/// Cost: a lone value is passed on without a copy. Errors: null, unset, empty and oversized keys, products beyond the limit.
pub(crate) fn for_each_key(
    table: &Table,
    parts: &[Values],
    env: &Env<'_, '_>,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    debug_assert_eq!(parts.len(), table.partition_key.len());
    if let ([Values::One(term)], [column]) = (parts, &table.partition_key[..]) {
        let value = component(column, term.eval(env)?)?;
        check_key(&value)?;
        return each(&value);
    }
    let mut choices = Vec::with_capacity(parts.len());
    for (part, column) in parts.iter().zip(&table.partition_key) {
        choices.push(part.eval(column, env)?);
    }
    let count = choices.iter().try_fold(1usize, |n, c| n.checked_mul(c.len())).unwrap_or(usize::MAX);
    if count > limits::IN_PRODUCT {
        return invalid(format!("IN relations name {count} partitions, more than {}", limits::IN_PRODUCT));
    }
    let mut values: Vec<&[u8]> = vec![&[]; choices.len()];
    let mut key = Vec::new();
    for mut index in 0..count {
        for (slot, choice) in values.iter_mut().zip(&choices).rev() {
            *slot = &choice[index % choice.len()];
            index /= choice.len();
        }
        // Before they are put together: what is longer has no length of 16 bits.
        let bytes = values.iter().map(|value| value.len()).sum();
        if bytes > limits::KEY_BYTES {
            return too_long(bytes);
        }
        key.clear();
        table.push_key(&values, &mut key);
        check_key(&key)?;
        each(&key)?;
    }
    Ok(())
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return invalid("Key may not be empty");
    }
    if key.len() > limits::KEY_BYTES {
        return too_long(key.len());
    }
    Ok(())
}

/// A bound on `token(…)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenBound {
    /// One of `=`, `<`, `<=`, `>`, `>=`.
    pub operator: Operator,
    /// A bigint.
    pub value: Term,
}

/// The tokens that all bounds allow; `None` when there are none.
/// An upper bound of the smallest token means no upper bound, so that a ring's last range can be asked for.
pub(crate) fn token_range(bounds: &[TokenBound], env: &Env<'_, '_>) -> Result<Option<TokenRange>> {
    let mut range = TokenRange::ALL;
    for bound in bounds {
        let value = bound.value.eval(env)?;
        let Some(bytes) = value.bytes() else {
            return invalid("Invalid null token value");
        };
        let Ok(array) = <[u8; 8]>::try_from(bytes) else {
            return invalid("Invalid token value: 8 bytes expected");
        };
        let token = i64::from_be_bytes(array);
        let only = |first: Option<i64>, last: Option<i64>| match (first, last) {
            (Some(first), Some(last)) if first <= last => {
                Some(TokenRange::new(base::Token(first), base::Token(last)))
            }
            _ => None,
        };
        let allowed = match bound.operator {
            Operator::Greater => only(token.checked_add(1), Some(i64::MAX)),
            Operator::GreaterOrEqual => only(Some(token), Some(i64::MAX)),
            Operator::Less | Operator::LessOrEqual if token == i64::MIN => Some(TokenRange::ALL),
            Operator::Less => only(Some(i64::MIN), token.checked_sub(1)),
            Operator::LessOrEqual => only(Some(i64::MIN), Some(token)),
            _ => only(Some(token), Some(token)),
        };
        match allowed.and_then(|a| range.intersect(a)) {
            Some(both) => range = both,
            None => return Ok(None),
        }
    }
    Ok(Some(range))
}

/// Values of several columns at once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Row {
    /// One value of one column, without parentheses.
    One(Term),
    /// `(a, b)`
    Terms(Vec<Term>),
    /// A marker that holds a tuple of so many fields.
    Marker(Term, usize),
}

impl Row {
    /// How many columns it is about.
    pub fn columns(&self) -> usize {
        match self {
            Row::One(_) => 1,
            Row::Terms(terms) => terms.len(),
            Row::Marker(_, count) => *count,
        }
    }

    fn eval<'t, 'v: 't>(
        &'t self,
        columns: &[Column],
        env: &Env<'v, '_>,
        null: Nulls,
    ) -> Result<Vec<Cow<'t, [u8]>>> {
        match self {
            Row::One(term) => Ok(vec![match term.eval(env)? {
                Val::Null => null_in(&columns[0], Nulls::Value, columns)?,
                value => component(&columns[0], value)?,
            }]),
            Row::Terms(terms) => terms
                .iter()
                .zip(columns)
                .enumerate()
                .map(|(index, (term, column))| match term.eval(env)? {
                    Val::Null if null == Nulls::Row => null_in(column, Nulls::Value, columns),
                    Val::Null => null_in(column, null, columns),
                    Val::Unset => invalid(format!("Invalid unset value for tuple field number {index}")),
                    Val::Bytes(bytes) => Ok(bytes),
                })
                .collect(),
            Row::Marker(term, count) => {
                let value = term.eval(env)?;
                let columns = &columns[..*count];
                match value.bytes() {
                    Some(bytes) => tuple_fields(bytes, columns, null),
                    None if value == Val::Unset => {
                        let names: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
                        invalid(format!("Invalid unset value for tuple ({})", names.join(",")))
                    }
                    None => null_in(&columns[0], null, columns),
                }
            }
        }
    }
}

fn tuple_fields<'t>(bytes: &[u8], columns: &[Column], null: Nulls) -> Result<Vec<Cow<'t, [u8]>>> {
    let mut fields = collection::Fields::new(bytes);
    let mut out = Vec::with_capacity(columns.len());
    for column in columns {
        match fields.next().transpose()? {
            Some(Some(field)) => out.push(Cow::Owned(field.to_vec())),
            _ => return null_in(column, null, columns),
        }
    }
    Ok(out)
}

/// What a null among the values of several columns is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Of `=`.
    Value,
    /// Of `<` and the like.
    Bound,
    /// Of IN, where a marker stands for a row.
    Row,
}

fn null_in<T>(column: &Column, null: Nulls, columns: &[Column]) -> Result<T> {
    let name = &column.name;
    invalid(match null {
        Nulls::Value => format!("Invalid null value for column {name}"),
        Nulls::Bound => format!("Invalid null value in condition for column {name}"),
        Nulls::Row => {
            let names: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
            format!("Invalid null value in condition for columns: [{}]", names.join(", "))
        }
    })
}

/// Equality on the next clustering columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Prefix {
    /// One column.
    Column(Values),
    /// Several at once: `(a, b) = …`, `(a, b) IN (…)`; so many columns, any of these rows, and what nulls are called.
    Columns(usize, Vec<Row>, Nulls),
    /// `(a, b) IN ?`: a marker that holds a list of tuples.
    WholeColumns(usize, Term),
}

impl Prefix {
    /// How many columns it fixes.
    pub fn columns(&self) -> usize {
        match self {
            Prefix::Column(_) => 1,
            Prefix::Columns(count, ..) | Prefix::WholeColumns(count, _) => *count,
        }
    }

    fn eval<'t, 'v: 't>(&'t self, columns: &[Column], env: &Env<'v, '_>) -> Result<Vec<Vec<Cow<'t, [u8]>>>> {
        match self {
            Prefix::Column(values) => {
                Ok(values.eval(&columns[0], env)?.into_iter().map(|v| vec![v]).collect())
            }
            Prefix::Columns(count, rows, nulls) => {
                rows.iter().map(|row| row.eval(&columns[..*count], env, *nulls)).collect()
            }
            Prefix::WholeColumns(count, term) => {
                let value = term.eval(env)?;
                let Some(bytes) = value.bytes() else {
                    return invalid(match value {
                        Val::Unset => {
                            let names: Vec<&str> = columns[..*count].iter().map(|c| &*c.name).collect();
                            format!("Invalid unset value for in({})", names.join(","))
                        }
                        _ => "Invalid null value for IN restriction".to_owned(),
                    });
                };
                let rows: Result<Vec<_>> = collection::elements(bytes)
                    .map(|item| tuple_fields(item?.unwrap_or(&[]), &columns[..*count], Nulls::Row))
                    .collect();
                rows
            }
        }
    }
}

/// An inequality on the columns behind the prefix.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    /// One of `<`, `<=`, `>`, `>=`.
    pub operator: Operator,
    /// Values of as many columns.
    pub row: Row,
}

/// Clustering prefixes in wire form; nearly always one.
pub(crate) type Prefixes = SmallVec<[Vec<u8>; 1]>;

/// Restrictions on clustering columns that are an interval of positions per prefix.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Clustering {
    /// Equality from the first column on.
    pub prefix: Vec<Prefix>,
    /// Inequalities on what follows.
    pub bounds: Vec<Bound>,
}

/// Makes whole clusterings of prefixes of so many columns.
fn end_in_nulls(table: &Table, columns: usize, prefixes: &mut Prefixes) -> Result<()> {
    if let [only] = &table.clustering[..] {
        let is_empty = |wire: &Vec<u8>| {
            schema::clustering_components(wire)
                .any(|value| value.is_ok_and(|v| v.is_none_or(<[u8]>::is_empty)))
        };
        if prefixes.iter().any(is_empty) {
            return invalid(format!("Invalid empty or null value for column {}", only.name));
        }
    }
    for prefix in prefixes {
        (columns..table.clustering.len()).for_each(|_| push_component(prefix, None));
    }
    Ok(())
}

impl Clustering {
    /// Whether nothing is restricted.
    pub fn is_empty(&self) -> bool {
        self.prefix.is_empty() && self.bounds.is_empty()
    }

    /// How many columns equality fixes.
    pub fn prefix_columns(&self) -> usize {
        self.prefix.iter().map(Prefix::columns).sum()
    }

    /// Every prefix in wire form.
    pub fn prefixes(&self, table: &Table, env: &Env<'_, '_>) -> Result<Prefixes> {
        let mut out: Prefixes = smallvec![Vec::with_capacity(if self.prefix.is_empty() { 0 } else { 64 })];
        let mut at = 0;
        for part in &self.prefix {
            if let (Prefix::Column(Values::One(term)), [only]) = (part, &mut out[..]) {
                let column = &table.clustering[at];
                push_component(only, Some(&component(column, term.eval(env)?)?));
                at += 1;
                continue;
            }
            let choices = part.eval(&table.clustering[at..], env)?;
            at += part.columns();
            if let [only] = &choices[..] {
                out.iter_mut().for_each(|prefix| only.iter().for_each(|v| push_component(prefix, Some(v))));
                continue;
            }
            if out.len().saturating_mul(choices.len()) > limits::IN_PRODUCT {
                return invalid(format!(
                    "IN relations name more than {} clustering prefixes",
                    limits::IN_PRODUCT
                ));
            }
            let mut longer = Prefixes::with_capacity(out.len() * choices.len());
            for prefix in &out {
                for choice in &choices {
                    let mut prefix: Vec<u8> = prefix.clone();
                    choice.iter().for_each(|v| push_component(&mut prefix, Some(v)));
                    longer.push(prefix);
                }
            }
            out = longer;
        }
        Ok(out)
    }

    /// Every prefix as the clustering of a row to be written.
    /// Errors: as [`Clustering::prefixes`], and rows whose clustering columns come to more bytes than a key may have. Of the only
    /// clustering column of a table WITH COMPACT STORAGE: a value without bytes.
    pub fn rows(&self, table: &Table, env: &Env<'_, '_>) -> Result<Prefixes> {
        let mut prefixes = self.prefixes(table, env)?;
        if table.compact == CompactStorage::Dense {
            end_in_nulls(table, self.prefix_columns(), &mut prefixes)?;
        }
        // The wire form is longer than the values: nearly every row is let through by its length alone.
        for prefix in prefixes.iter().filter(|prefix| prefix.len() > limits::KEY_BYTES) {
            let mut bytes = 0;
            for component in schema::clustering_components(prefix) {
                let component = component.map_err(|e| Error::Invalid { text: e.to_string() })?;
                bytes += component.map_or(0, <[u8]>::len);
            }
            if bytes > limits::KEY_BYTES {
                return too_long(bytes);
            }
        }
        Ok(prefixes)
    }

    /// The spans of rows to be deleted.
    /// Errors: as [`Clustering::spans`], and bounds that sstables could not hold.
    pub fn ranges(&self, table: &Table, env: &Env<'_, '_>) -> Result<Vec<Span>> {
        let spans = self.spans(table, env)?;
        let longest = spans.iter().map(|span| span.start.prefix.len().max(span.end.prefix.len())).max();
        match longest {
            Some(bytes) if bytes > limits::BOUND_BYTES => {
                invalid(format!("a bound of a deletion has {bytes} bytes, more than {}", limits::BOUND_BYTES))
            }
            _ => Ok(spans),
        }
    }

    /// The slices that all restrictions allow: disjoint and ascending. Empty when they contradict each other.
    pub fn slices(&self, table: &Table, env: &Env<'_, '_>) -> Result<Slices> {
        if self.is_empty() {
            return Ok(smallvec![Slice::all()]);
        }
        if self.bounds.is_empty()
            && let [only] = &self.prefixes(table, env)?[..]
        {
            let start = position(table, only, BoundSide::Before)?;
            return Ok(smallvec![Slice { start, end: position(table, only, BoundSide::After)? }]);
        }
        let spans = self.spans(table, env)?;
        Ok(spans.into_iter().map(|s| Slice { start: s.start_at, end: s.end_at }).collect())
    }

    /// Whether a column can have one value only.
    pub fn fixes_one(&self, column: usize) -> bool {
        let mut at = 0;
        for part in &self.prefix {
            at += part.columns();
            if column < at {
                return match part {
                    Prefix::Column(values) => matches!(values, Values::One(_)),
                    Prefix::Columns(_, rows, _) => rows.len() == 1,
                    Prefix::WholeColumns(..) => false,
                };
            }
        }
        false
    }

    /// As [`Clustering::slices`], with the prefixes and sides that make the bounds.
    pub fn spans(&self, table: &Table, env: &Env<'_, '_>) -> Result<Vec<Span>> {
        let first = self.prefix_columns();
        let mut out = Vec::new();
        for prefix in self.prefixes(table, env)? {
            let mut spans =
                vec![Span::new(table, (&prefix, BoundSide::Before), (&prefix, BoundSide::After))?];
            for bound in &self.bounds {
                let values = bound.row.eval(&table.clustering[first..], env, Nulls::Bound)?;
                let allowed = bound_spans(table, &prefix, first, &values, bound.operator)?;
                spans = intersect(&spans, &allowed);
            }
            out.append(&mut spans);
        }
        if out.len() > 1 {
            out.sort_by(|a, b| a.start_at.cmp(&b.start_at));
            // By position: 1.0 and 1.00 are different bytes of one decimal, whose rows are read once.
            out.dedup_by(|a, b| a.start_at == b.start_at && a.end_at == b.end_at);
        }
        Ok(out)
    }
}

/// An interval of positions with the bounds it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: mutation::Bound,
    pub start_at: Position,
    pub end: mutation::Bound,
    pub end_at: Position,
}

impl Span {
    fn new(table: &Table, start: (&[u8], BoundSide), end: (&[u8], BoundSide)) -> Result<Span> {
        Ok(Span {
            start: mutation::Bound::new(start.0, start.1),
            start_at: position(table, start.0, start.1)?,
            end: mutation::Bound::new(end.0, end.1),
            end_at: position(table, end.0, end.1)?,
        })
    }
}

/// Where a prefix begins or ends.
pub(crate) fn position(table: &Table, prefix: &[u8], side: BoundSide) -> Result<Position> {
    table.bound_position(prefix, side).map_err(|e| Error::Invalid { text: e.to_string() })
}

/// The intervals in which `(column first, …) operator values` holds below a prefix; ascending.
fn bound_spans(
    table: &Table,
    prefix: &[u8],
    first: usize,
    values: &[Cow<'_, [u8]>],
    operator: Operator,
) -> Result<Vec<Span>> {
    let greater = matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
    let inclusive = matches!(operator, Operator::GreaterOrEqual | Operator::LessOrEqual);
    let mut out = Vec::with_capacity(values.len());
    let mut fixed = prefix.to_vec();
    for (index, value) in values.iter().enumerate() {
        let last = index + 1 == values.len();
        let mut with_value = fixed.clone();
        push_component(&mut with_value, Some(value));
        let ascending = table.clustering[first + index].order == Order::Ascending;
        let include = inclusive && last;
        out.push(if greater == ascending {
            let side = if include { BoundSide::Before } else { BoundSide::After };
            Span::new(table, (&with_value, side), (&fixed, BoundSide::After))?
        } else {
            let side = if include { BoundSide::After } else { BoundSide::Before };
            Span::new(table, (&fixed, BoundSide::Before), (&with_value, side))?
        });
        fixed = with_value;
    }
    out.sort_by(|a, b| a.start_at.cmp(&b.start_at));
    Ok(out)
}

/// Both ascending and disjoint; so is the result.
fn intersect(left: &[Span], right: &[Span]) -> Vec<Span> {
    let mut out = Vec::new();
    for a in left {
        for b in right {
            let later = if a.start_at < b.start_at { b } else { a };
            let earlier = if a.end_at < b.end_at { a } else { b };
            if later.start_at < earlier.end_at {
                out.push(Span {
                    start: later.start.clone(),
                    start_at: later.start_at.clone(),
                    end: earlier.end.clone(),
                    end_at: earlier.end_at.clone(),
                });
            }
        }
    }
    out.sort_by(|a, b| a.start_at.cmp(&b.start_at));
    out
}

/// A condition on a row that no key structure serves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filter {
    /// The column it looks at.
    pub column: Column,
    /// The test.
    pub test: Test,
}

/// The test of a filter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// By the column type's order.
    Compare(Operator, Term),
    /// Equal to any.
    In(Values),
    /// A list, set or map holds the value.
    Contains(Term),
    /// A map holds the key.
    ContainsKey(Term),
    /// A map's value at a key.
    Entry(Term, Term),
    /// Equal to a field of a tuple, by its place.
    FieldEqual(Term, usize),
}

/// A filter with its values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoundFilter {
    /// Index into what the statement fetches.
    pub fetch: usize,
    ty: CqlType,
    test: BoundTest,
}

#[derive(Debug, Clone, PartialEq)]
enum BoundTest {
    Compare(Operator, Vec<u8>),
    In(Vec<Vec<u8>>),
    Contains(Vec<u8>),
    ContainsKey(Vec<u8>),
    Entry(Vec<u8>, Vec<u8>),
}

impl Filter {
    /// Evaluates the values. `fetch` says where rows keep the column.
    pub fn bind(&self, fetch: usize, env: &Env<'_, '_>) -> Result<BoundFilter> {
        let one = |term: &Term| -> Result<Vec<u8>> {
            match term.eval(env)? {
                Val::Bytes(bytes) => Ok(bytes.into_owned()),
                Val::Null => invalid(format!("Unsupported null value for column {}", self.column.name)),
                Val::Unset => invalid(format!("Unsupported unset value for column {}", self.column.name)),
            }
        };
        let test = match &self.test {
            Test::Compare(operator, term) => BoundTest::Compare(*operator, one(term)?),
            Test::In(values) => {
                if let Values::Each(terms) = values {
                    for term in terms {
                        one(term)?;
                    }
                }
                match values {
                    // Null is equal to nothing, so nothing is lost without it.
                    Values::Whole(term) => BoundTest::In(held(&one(term)?)?),
                    values => {
                        let values = values.eval(&self.column, env)?;
                        BoundTest::In(values.into_iter().map(Cow::into_owned).collect())
                    }
                }
            }
            Test::Contains(term) => BoundTest::Contains(one(term)?),
            Test::ContainsKey(term) => BoundTest::ContainsKey(one(term)?),
            Test::Entry(key, value) => {
                let named = |what: &str, term: &Term| match term.eval(env)? {
                    Val::Bytes(bytes) => Ok(bytes.into_owned()),
                    Val::Null => {
                        invalid(format!("Unsupported null map {what} for column {}", self.column.name))
                    }
                    Val::Unset => {
                        invalid(format!("Unsupported unset map {what} for column {}", self.column.name))
                    }
                };
                BoundTest::Entry(named("key", key)?, named("value", value)?)
            }
            Test::FieldEqual(term, index) => {
                let value = one(term)?;
                let field = collection::Fields::new(&value).nth(*index).transpose()?.flatten();
                match field {
                    Some(field) => BoundTest::Compare(Operator::Equal, field.to_vec()),
                    None => return invalid(format!("Invalid null value for column {}", self.column.name)),
                }
            }
        };
        Ok(BoundFilter { fetch, ty: self.column.ty.clone(), test })
    }
}

/// The elements of a list that are not null.
fn held(list: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    for item in collection::elements(list) {
        out.extend(item?.map(<[u8]>::to_vec));
    }
    Ok(out)
}

impl BoundFilter {
    /// Whether a row's value passes. Null never does.
    pub fn passes(&self, value: Option<&[u8]>) -> bool {
        let Some(value) = value else { return false };
        match &self.test {
            BoundTest::Compare(operator, other) => {
                let order = self.ty.compare(value, other);
                match operator {
                    Operator::Less => order.is_lt(),
                    Operator::LessOrEqual => order.is_le(),
                    Operator::Greater => order.is_gt(),
                    Operator::GreaterOrEqual => order.is_ge(),
                    _ => order.is_eq(),
                }
            }
            BoundTest::In(values) => values.iter().any(|v| self.ty.compare(value, v).is_eq()),
            BoundTest::Contains(wanted) => self.contains(value, wanted),
            BoundTest::ContainsKey(wanted) => self.entry(value, wanted).is_some(),
            BoundTest::Entry(key, wanted) => match (self.entry(value, key), self.ty.element_type()) {
                (Some(found), Some(ty)) => ty.compare(found, wanted).is_eq(),
                _ => false,
            },
        }
    }

    fn contains(&self, value: &[u8], wanted: &[u8]) -> bool {
        let Some(element) = self.ty.element_type() else {
            return false;
        };
        if matches!(self.ty.unfrozen(), CqlType::Map(..)) {
            return collection::entries(value).flatten().any(|(_, v)| element.compare(v, wanted).is_eq());
        }
        collection::elements(value).flatten().flatten().any(|v| element.compare(v, wanted).is_eq())
    }

    fn entry<'v>(&self, value: &'v [u8], key: &[u8]) -> Option<&'v [u8]> {
        let CqlType::Map(key_type, _) = self.ty.unfrozen() else {
            return None;
        };
        collection::entries(value).flatten().find(|(k, _)| key_type.compare(k, key).is_eq()).map(|(_, v)| v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schema::{TableBuilder, TableId};

    fn table(first: Order, second: Order) -> Table {
        TableBuilder::new("ks", "t", TableId(1))
            .partition_key("k", CqlType::Int)
            .clustering("a", CqlType::Int, first)
            .clustering("b", CqlType::Int, second)
            .build()
            .expect("builds")
    }

    fn wire(values: &[i32]) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|v| push_component(&mut out, Some(&v.to_be_bytes())));
        out
    }

    proptest! {
        /// Whatever the directions, a tuple bound selects exactly the rows that compare so.
        #[test]
        fn tuple_bounds_select_what_they_say(
            directions in 0..4u8, a in -3..3i32, b in -3..3i32, which in 0..4usize, x in -3..3i32, y in -3..3i32,
        ) {
            let order = |bit: u8| if directions & bit == 0 { Order::Ascending } else { Order::Descending };
            let table = table(order(1), order(2));
            let operator =
                [Operator::Less, Operator::LessOrEqual, Operator::Greater, Operator::GreaterOrEqual][which];
            let values = [Cow::Owned(a.to_be_bytes().to_vec()), Cow::Owned(b.to_be_bytes().to_vec())];
            let spans = bound_spans(&table, &[], 0, &values, operator).expect("spans");
            prop_assert!(spans.windows(2).all(|w| w[0].end_at <= w[1].start_at));
            let position = table.position(&wire(&[x, y])).expect("position");
            let inside = spans.iter().any(|s| s.start_at <= position && position < s.end_at);
            let wanted = match operator {
                Operator::Less => (x, y) < (a, b),
                Operator::LessOrEqual => (x, y) <= (a, b),
                Operator::Greater => (x, y) > (a, b),
                _ => (x, y) >= (a, b),
            };
            prop_assert_eq!(inside, wanted);
        }
    }
}
