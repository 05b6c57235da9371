//! Scalar functions: what they take, what they give, and the doing of it.
//!
//! A call is resolved as Cassandra does: a function with one signature says which argument does not fit; among several,
//! the one whose arguments fit exactly wins, else the only one that fits at all.

mod cast;
mod collection;
mod mask;
mod number;
mod time;

use crate::ast::Expr;
use crate::error::{Error, Result, invalid};
use crate::expr_text::text_of;
use crate::names::native_type;
use crate::term::{is_literal, may_be, preferred_type};
use crate::to_json;
use crate::value::{BindContext, Val};
use schema::Table;
use std::borrow::Cow;
use types::CqlType;

pub(crate) use cast::cast;
pub(crate) use collection::{CollectionFunction, Similarity};
pub(crate) use mask::Mask;
pub(crate) use number::{
    MathFunction, NUMBERS, Number, TOO_LARGE, is_number, is_workable, number_of, number_to,
};

/// A function with the types it was resolved to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Function {
    /// Name as Cassandra prints it, for errors.
    pub name: String,
    /// What it does.
    pub kind: FunctionKind,
    /// Argument types.
    pub arguments: Vec<CqlType>,
    /// Result type.
    pub returns: CqlType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionKind {
    /// A new timeuuid.
    Now,
    /// A new random uuid.
    Uuid,
    CurrentTimestamp,
    CurrentDate,
    CurrentTime,
    /// From date or timeuuid to timestamp.
    ToTimestamp,
    ToDate,
    /// Milliseconds.
    ToUnixTimestamp,
    MinTimeuuid,
    MaxTimeuuid,
    /// The beginning of the interval a time falls into.
    Floor,
    /// The same bytes as blob.
    AsBlob,
    /// A blob's bytes, checked against the result type.
    BlobAs,
    /// The token of a partition key.
    Token,
    /// Between numbers, to text, between date types.
    Cast,
    /// Of one number.
    Math(MathFunction),
    /// Of one collection.
    Collection(CollectionFunction),
    /// Of two vectors.
    Similarity(Similarity),
    /// Hides a value.
    Mask(Mask),
    /// A value as JSON text.
    ToJson,
}

/// How well an argument fits a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// It cannot be one.
    No,
    /// It can be taken for one.
    Weak,
    /// It is one.
    Exact,
}

/// What is known of an argument before its function is.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'a> {
    /// As written.
    pub expr: &'a Expr,
    /// Its type, if it has one by itself: literals and markers have none.
    pub ty: Option<&'a CqlType>,
}

impl Argument<'_> {
    /// How well it fits a type.
    pub fn fit(&self, wanted: &CqlType) -> Fit {
        match self.ty {
            Some(given) if given.unfrozen() == wanted.unfrozen() => Fit::Exact,
            Some(given) if *wanted != CqlType::Counter && accepts(wanted, given) => Fit::Weak,
            Some(_) => Fit::No,
            None => literal_fit(self.expr, wanted),
        }
    }
}

/// How well an expression without a type of its own fits one.
pub(crate) fn literal_fit(expr: &Expr, wanted: &CqlType) -> Fit {
    let all = |items: &mut dyn Iterator<Item = Fit>| items.min().unwrap_or(Fit::Weak);
    let wanted = wanted.unfrozen();
    match (expr, wanted) {
        // A call whose signature is told by what takes its result.
        (Expr::Null | Expr::Marker(_) | Expr::Call { .. }, _) => Fit::Weak,
        (Expr::List(items), CqlType::List(element) | CqlType::Vector(element, _)) => {
            all(&mut items.iter().map(|item| literal_fit(item, element)))
        }
        (Expr::Set(items), CqlType::Set(element)) => {
            all(&mut items.iter().map(|item| literal_fit(item, element)))
        }
        (Expr::Set(items), CqlType::Map(..)) if items.is_empty() => Fit::Weak,
        (Expr::Map(pairs), CqlType::Map(key, value)) => {
            all(&mut pairs.iter().map(|(k, v)| literal_fit(k, key).min(literal_fit(v, value))))
        }
        (Expr::Udt(_), CqlType::Udt(_)) => Fit::Weak,
        (Expr::Tuple(items), CqlType::Tuple(types)) if items.len() == types.len() => {
            all(&mut items.iter().zip(types.iter()).map(|(item, ty)| literal_fit(item, ty)))
        }
        (Expr::Tuple(items), _) if items.len() == 1 => literal_fit(&items[0], wanted),
        _ if preferred_type(expr).as_ref() == Some(wanted) => Fit::Exact,
        (Expr::Arithmetic(..) | Expr::Negate(_), _) if may_be(expr, wanted) => Fit::Weak,
        _ if is_literal(expr) && may_be(expr, wanted) => Fit::Weak,
        _ => Fit::No,
    }
}

/// Resolves a call of a function of the `system` keyspace, which native ones are in. `receiver`: the type of what takes
/// the result, which tells signatures apart; in a SELECT clause there is none.
/// Errors: unknown functions, arguments that no signature takes, or that several take equally well.
pub(crate) fn resolve(
    name: &str,
    arguments: &[Argument<'_>],
    table: &Table,
    receiver: Option<&CqlType>,
) -> Result<Function> {
    if let Some(special) = special(name, arguments)? {
        return Ok(special);
    }
    let mut signatures = signatures(name, table);
    match signatures.len() {
        0 if receiver.is_some() => invalid(format!("Unknown function {name} called")),
        0 => invalid(format!("Unknown function '{name}'")),
        1 => check_only(signatures.remove(0), arguments),
        _ => choose(signatures, arguments, receiver),
    }
}

/// A call of an aggregate where there are no rows to go over: wrong in itself, or in its arguments.
pub(crate) fn refuse_aggregate<T>(name: &str, arguments: &[Argument<'_>]) -> Result<T> {
    if let ("count", [given]) = (name, arguments)
        && given.fit(&CqlType::Blob) == Fit::No
    {
        return invalid(format!(
            "Type error: {} cannot be passed as argument 0 of function system.count of type blob",
            text_of(given.expr)
        ));
    }
    invalid("Aggregation function are not supported in the where clause")
}

fn check_only(function: Function, arguments: &[Argument<'_>]) -> Result<Function> {
    if function.arguments.len() != arguments.len() {
        return invalid(format!(
            "Invalid number of arguments in call to function system.{}: {} required but {} provided",
            function.name,
            function.arguments.len(),
            arguments.len()
        ));
    }
    for (index, (wanted, given)) in function.arguments.iter().zip(arguments).enumerate() {
        if given.fit(wanted) == Fit::No {
            return invalid(format!(
                "Type error: {} cannot be passed as argument {index} of function system.{} of type {wanted}",
                text_of(given.expr),
                function.name
            ));
        }
    }
    Ok(function)
}

/// The signature that fits exactly, or else the only one that fits.
fn choose(
    signatures: Vec<Function>,
    arguments: &[Argument<'_>],
    receiver: Option<&CqlType>,
) -> Result<Function> {
    let fit_of = |function: &Function| {
        let taken = receiver.is_none_or(|receiver| accepts(receiver, &function.returns));
        if !taken || function.arguments.len() != arguments.len() {
            return Fit::No;
        }
        let fits = function.arguments.iter().zip(arguments).map(|(wanted, given)| given.fit(wanted));
        fits.min().unwrap_or(Fit::Exact)
    };
    if let Some(exact) = signatures.iter().find(|f| fit_of(f) == Fit::Exact) {
        return Ok(exact.clone());
    }
    let name = signatures.first().map(|f| f.name.clone()).unwrap_or_default();
    let known = signatures.iter().map(signature_text).collect::<Vec<_>>().join(", ");
    let mut fitting = signatures.into_iter().filter(|f| fit_of(f) == Fit::Weak);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => invalid(format!(
            "Invalid call to function {name}, none of its type signatures match (known type signatures: {known})"
        )),
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(fitting);
            let all: Vec<String> = all.map(|f| signature_text(&f)).collect();
            invalid(format!(
                "Ambiguous call to function {name} (can be matched by following signatures: {}): use type casts to \
                 disambiguate",
                all.join(", ")
            ))
        }
    }
}

fn signature_text(function: &Function) -> String {
    let arguments: Vec<String> = function.arguments.iter().map(CqlType::to_string).collect();
    format!("system.{} : ({}) -> {}", function.name, arguments.join(", "), function.returns)
}

/// Names as of Cassandra 5 and before it.
const RENAMED: [(&str, &str); 9] = [
    ("currenttimeuuid", "current_timeuuid"),
    ("currenttimestamp", "current_timestamp"),
    ("currentdate", "current_date"),
    ("currenttime", "current_time"),
    ("todate", "to_date"),
    ("totimestamp", "to_timestamp"),
    ("tounixtimestamp", "to_unix_timestamp"),
    ("mintimeuuid", "min_timeuuid"),
    ("maxtimeuuid", "max_timeuuid"),
];

/// Every signature of a name; none for a name that is not known.
fn signatures(name: &str, table: &Table) -> Vec<Function> {
    use FunctionKind as K;
    let make = |kind: FunctionKind, arguments: &[CqlType], returns: CqlType| Function {
        name: name.to_string(),
        kind,
        arguments: arguments.to_vec(),
        returns,
    };
    let renamed = RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| *new);
    let (timeuuid, timestamp, date) = (CqlType::Timeuuid, CqlType::Timestamp, CqlType::Date);
    let each = |kind: FunctionKind, from: &[&CqlType], to: CqlType| -> Vec<Function> {
        from.iter().map(|from| make(kind, &[(*from).clone()], to.clone())).collect()
    };
    match renamed {
        "now" | "current_timeuuid" => vec![make(K::Now, &[], timeuuid)],
        "uuid" => vec![make(K::Uuid, &[], CqlType::Uuid)],
        "current_timestamp" => vec![make(K::CurrentTimestamp, &[], timestamp)],
        "current_date" => vec![make(K::CurrentDate, &[], date)],
        "current_time" => vec![make(K::CurrentTime, &[], CqlType::Time)],
        "to_timestamp" => each(K::ToTimestamp, &[&timeuuid, &date], timestamp.clone()),
        "to_date" => each(K::ToDate, &[&timeuuid, &timestamp], date.clone()),
        "to_unix_timestamp" => each(K::ToUnixTimestamp, &[&timeuuid, &timestamp, &date], CqlType::Bigint),
        // Gone from Cassandra 5, still asked for by older applications.
        "dateof" => vec![make(K::ToTimestamp, &[timeuuid], timestamp)],
        "unixtimestampof" => vec![make(K::ToUnixTimestamp, &[timeuuid], CqlType::Bigint)],
        "min_timeuuid" => vec![make(K::MinTimeuuid, &[timestamp], timeuuid)],
        "max_timeuuid" => vec![make(K::MaxTimeuuid, &[timestamp], timeuuid)],
        "floor" => floors(name),
        "token" => {
            let types: Vec<CqlType> = table.partition_key.iter().map(|c| c.ty.clone()).collect();
            vec![make(K::Token, &types, CqlType::Bigint)]
        }
        _ => match MathFunction::of_name(name) {
            Some(math) => {
                NUMBERS.iter().map(|ty| make(K::Math(math), std::slice::from_ref(ty), ty.clone())).collect()
            }
            None => conversion(name).into_iter().collect(),
        },
    }
}

fn floors(name: &str) -> Vec<Function> {
    let mut out = Vec::new();
    let mut add = |arguments: &[&CqlType], returns: &CqlType| {
        out.push(Function {
            name: name.to_string(),
            kind: FunctionKind::Floor,
            arguments: arguments.iter().map(|ty| (*ty).clone()).collect(),
            returns: returns.clone(),
        });
    };
    let (timestamp, duration) = (&CqlType::Timestamp, &CqlType::Duration);
    for time in [timestamp, &CqlType::Timeuuid] {
        add(&[time, duration], timestamp);
        add(&[time, duration, timestamp], timestamp);
    }
    add(&[&CqlType::Date, duration], &CqlType::Date);
    add(&[&CqlType::Date, duration, &CqlType::Date], &CqlType::Date);
    add(&[&CqlType::Time, duration], &CqlType::Time);
    out
}

/// `blobasint`, `blob_as_int`, `intasblob`, `int_as_blob`.
fn conversion(name: &str) -> Option<Function> {
    let other_than_blob = |word: &str| native_type(word).filter(|ty| *ty != CqlType::Blob);
    let make = |kind, argument, returns| {
        Some(Function { name: name.to_string(), kind, arguments: vec![argument], returns })
    };
    let from_blob = name.strip_prefix("blob_as_").or_else(|| name.strip_prefix("blobas"));
    if let Some(ty) = from_blob.and_then(other_than_blob) {
        return make(FunctionKind::BlobAs, CqlType::Blob, ty);
    }
    let to_blob = name.strip_suffix("_as_blob").or_else(|| name.strip_suffix("asblob"));
    if let Some(ty) = to_blob.and_then(other_than_blob) {
        return make(FunctionKind::AsBlob, ty, CqlType::Blob);
    }
    None
}

/// Functions that take their types from their arguments.
fn special(name: &str, arguments: &[Argument<'_>]) -> Result<Option<Function>> {
    let made = |kind: FunctionKind, arguments: Vec<CqlType>, returns: CqlType| {
        Ok(Some(Function { name: name.to_string(), kind, arguments, returns }))
    };
    if matches!(name, "tojson" | "to_json") {
        let [given] = arguments else { return wrong_count(name, "any") };
        let ty = own_type(name, given)?;
        return made(FunctionKind::ToJson, vec![ty], CqlType::Text);
    }
    if let Some(function) = CollectionFunction::of_name(name) {
        let [given] = arguments else { return wrong_count(name, "collection") };
        let ty = own_type(name, given)?;
        return match function.result_type(&ty) {
            Ok(returns) => made(FunctionKind::Collection(function), vec![ty], returns),
            Err(wanted) => invalid(format!(
                "Function system.{name} requires {wanted}, but found argument {} of type {}",
                text_of(given.expr),
                ty
            )),
        };
    }
    if let Some(similarity) = Similarity::of_name(name) {
        let [left, right] = arguments else { return wrong_count(name, "vector<float, n>, vector<float, n>") };
        let ty = vector_type(name, left, right)?;
        return made(FunctionKind::Similarity(similarity), vec![ty.clone(), ty], CqlType::Float);
    }
    let Some(mask) = Mask::of_name(name) else { return Ok(None) };
    let (words, counts) = mask.signature();
    if !counts.contains(&arguments.len()) {
        return wrong_count(name, words);
    }
    let ty = own_type(name, &arguments[0])?;
    if matches!(mask, Mask::Inner | Mask::Outer) && !matches!(ty, CqlType::Text | CqlType::Ascii) {
        return invalid(format!(
            "Function system.{name} requires an argument of type [text|varchar|ascii], but found argument {} of type {}",
            text_of(arguments[0].expr),
            ty
        ));
    }
    let types = match mask {
        Mask::Null | Mask::Default => vec![ty.clone()],
        Mask::Replace => vec![ty.clone(), ty.clone()],
        Mask::Inner | Mask::Outer => vec![ty.clone(), CqlType::Int, CqlType::Int, CqlType::Text],
        Mask::Hash => vec![ty.clone(), CqlType::Text],
    };
    let returns = if mask == Mask::Hash { CqlType::Blob } else { ty };
    let function = Function {
        name: name.to_string(),
        kind: FunctionKind::Mask(mask),
        arguments: types[..arguments.len()].to_vec(),
        returns,
    };
    check_only(function, arguments).map(Some)
}

fn wrong_count<T>(name: &str, words: &str) -> Result<T> {
    invalid(format!("Invalid number of arguments for function system.{name}({words})"))
}

/// The type of an argument that has to have one: a column's, or the one that a literal prefers.
fn own_type(name: &str, given: &Argument<'_>) -> Result<CqlType> {
    let preferred = || match given.expr {
        Expr::List(items) => items.iter().find_map(preferred_type).map(CqlType::list),
        Expr::Set(items) => items.iter().find_map(preferred_type).map(CqlType::set),
        expr => preferred_type(expr),
    };
    match given.ty.cloned().or_else(preferred) {
        Some(ty) => Ok(ty),
        None => invalid(format!(
            "Cannot infer type of argument {} in call to function system.{name}: use type casts to disambiguate",
            text_of(given.expr)
        )),
    }
}

fn vector_type(name: &str, left: &Argument<'_>, right: &Argument<'_>) -> Result<CqlType> {
    let mut found: Option<CqlType> = None;
    for given in [left, right] {
        let literal = match given.expr {
            Expr::List(items) => Some(CqlType::Vector(CqlType::Float.into(), items.len() as u32)),
            _ => None,
        };
        let Some(ty) = given.ty.cloned().or(literal) else { continue };
        if !matches!(&ty, CqlType::Vector(element, _) if **element == CqlType::Float) {
            return invalid(format!(
                "Function system.{name} requires a float vector argument, but found argument {} of type {}",
                text_of(given.expr),
                ty
            ));
        }
        if found.as_ref().is_some_and(|other| *other != ty) {
            return invalid("All arguments must have the same vector dimensions");
        }
        found = Some(ty);
    }
    match found {
        Some(ty) => Ok(ty),
        None => invalid(format!(
            "Cannot infer type of argument {} in call to function system.{name}: use type casts to disambiguate",
            text_of(left.expr)
        )),
    }
}

/// Whether a value of `given` may stand where `wanted` is asked for: its bytes are a value of that type, too.
pub(crate) fn accepts(wanted: &CqlType, given: &CqlType) -> bool {
    let (wanted, given) = (wanted.unfrozen(), given.unfrozen());
    wanted == given
        || matches!(
            (wanted, given),
            (CqlType::Blob, _)
                | (CqlType::Text, CqlType::Ascii)
                | (CqlType::Uuid, CqlType::Timeuuid)
                | (CqlType::Bigint, CqlType::Counter | CqlType::Timestamp)
                | (CqlType::Counter, CqlType::Bigint)
                | (CqlType::Varint, CqlType::Int | CqlType::Bigint | CqlType::Timestamp)
                | (CqlType::Timestamp | CqlType::Time, CqlType::Bigint)
                | (CqlType::Date, CqlType::Int)
        )
}

impl Function {
    /// Whether every call gives another value, so that it cannot be computed when preparing.
    pub fn is_volatile(&self) -> bool {
        matches!(
            self.kind,
            FunctionKind::Now
                | FunctionKind::Uuid
                | FunctionKind::CurrentTimestamp
                | FunctionKind::CurrentDate
                | FunctionKind::CurrentTime
        )
    }

    /// Calls it. A null argument gives null, except where null is what the function is about.
    pub fn call<'v>(
        &self,
        table: &Table,
        arguments: &[Val<'v>],
        context: &BindContext<'_>,
    ) -> Result<Val<'v>> {
        if arguments.contains(&Val::Unset) {
            return invalid(format!("Invalid unset value for argument in call to function {}", self.name));
        }
        if let FunctionKind::Mask(mask) = self.kind {
            return mask.call(self, arguments);
        }
        let values: Vec<&[u8]> = arguments.iter().filter_map(Val::bytes).collect();
        if self.kind == FunctionKind::ToJson {
            let text = to_json::text(&self.arguments[0], values.first().copied())?;
            return Ok(Val::Bytes(Cow::Owned(text.into_bytes())));
        }
        if values.len() < arguments.len() {
            return Ok(Val::Null);
        }
        Ok(match self.compute(table, &values, context)? {
            Some(bytes) => Val::Bytes(Cow::Owned(bytes)),
            None => Val::Null,
        })
    }

    fn compute(&self, table: &Table, values: &[&[u8]], context: &BindContext<'_>) -> Result<Option<Vec<u8>>> {
        let millis = context.now_micros.div_euclid(1000);
        let types = &self.arguments;
        Ok(Some(match self.kind {
            FunctionKind::Now => time::new_timeuuid(context).to_vec(),
            FunctionKind::Uuid => {
                let high = (context.random)() & 0xffff_ffff_ffff_0fff | 0x4000;
                let low = (context.random)() & 0x3fff_ffff_ffff_ffff | 1 << 63;
                [high.to_be_bytes(), low.to_be_bytes()].concat()
            }
            FunctionKind::CurrentTimestamp => millis.to_be_bytes().to_vec(),
            FunctionKind::CurrentDate => match time::date_of_millis(millis) {
                Some(date) => date.to_be_bytes().to_vec(),
                None => return number::failed(&self.name, types, time::OUT_OF_RANGE),
            },
            FunctionKind::CurrentTime => {
                let nanos = context.now_micros.rem_euclid(86_400_000_000) * 1000;
                nanos.to_be_bytes().to_vec()
            }
            FunctionKind::Token => {
                let mut key = Vec::new();
                table.push_key(values, &mut key);
                base::Token::of_key(&key).0.to_be_bytes().to_vec()
            }
            FunctionKind::AsBlob => values[0].to_vec(),
            FunctionKind::BlobAs => {
                self.returns.validate(values[0]).map_err(|_| Error::Invalid {
                    text: format!(
                        "In call to function system.{}, value 0x{} is not a valid binary representation for type {}",
                        self.name,
                        types::text::format_hex(values[0]),
                        // As the function calls it.
                        if self.name.ends_with("varchar") { "varchar".into() } else { self.returns.to_string() }
                    ),
                })?;
                values[0].to_vec()
            }
            FunctionKind::ToTimestamp
            | FunctionKind::ToDate
            | FunctionKind::ToUnixTimestamp
            | FunctionKind::MinTimeuuid
            | FunctionKind::MaxTimeuuid => {
                return time::convert(self.kind, &types[0], values[0])
                    .or_else(|text| number::failed(&self.name, types, text));
            }
            FunctionKind::Floor => return time::floor(types, values),
            FunctionKind::Cast => return cast::convert(&types[0], &self.returns, values[0]),
            FunctionKind::Math(function) => {
                return match function.call(&types[0], values[0]) {
                    Ok(value) => Ok(value),
                    Err(text) => number::failed(&self.name, types, text),
                };
            }
            FunctionKind::Collection(function) => return function.call(&types[0], values[0]),
            FunctionKind::Similarity(similarity) => {
                return similarity.call(&self.name, &types[0], values[0], values[1]);
            }
            FunctionKind::Mask(_) | FunctionKind::ToJson => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests;
