//! `CAST(a AS type)`: between numbers, to text, between date types.

use super::number::{Number, POWER_MAX, TOO_LARGE, is_number, is_workable, number_of, number_to};
use super::time::{OUT_OF_RANGE, date_of_millis, millis_of};
use super::{Function, FunctionKind};
use crate::error::{Error, Result, invalid};
use types::{CqlType, Value, datetime, float_text};

/// The function that casts; a cast to a value's own type changes nothing. `text`: how the value was written.
pub(crate) fn cast(from: &CqlType, to: &CqlType, text: &str) -> Result<Function> {
    if !is_target(to) && from != to {
        return invalid(format!("{text} cannot be cast to {to}"));
    }
    if !knows(from, to) {
        let sources = SOURCES.iter().filter(|source| knows(source, to));
        let known: Vec<String> = sources.map(|ty| format!("system.cast_as_{to} : ({ty}) -> {to}")).collect();
        return invalid(format!(
            "Invalid call to function system.cast_as_{to}, none of its type signatures match (known type signatures: {})",
            known.join(", ")
        ));
    }
    Ok(Function {
        name: format!("cast_as_{to}"),
        kind: FunctionKind::Cast,
        arguments: vec![from.clone()],
        returns: to.clone(),
    })
}

/// What may be cast to something.
const SOURCES: [CqlType; 17] = [
    CqlType::Ascii,
    CqlType::Bigint,
    CqlType::Boolean,
    CqlType::Counter,
    CqlType::Date,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Float,
    CqlType::Inet,
    CqlType::Int,
    CqlType::Smallint,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::Timeuuid,
    CqlType::Tinyint,
    CqlType::Uuid,
    CqlType::Varint,
];

fn is_target(to: &CqlType) -> bool {
    (is_number(to) && *to != CqlType::Counter)
        || matches!(to, CqlType::Text | CqlType::Ascii | CqlType::Date | CqlType::Timestamp)
}

fn knows(from: &CqlType, to: &CqlType) -> bool {
    use CqlType as T;
    match to {
        _ if from == to => true,
        T::Text | T::Ascii => {
            is_number(from)
                || matches!(
                    from,
                    T::Boolean | T::Timestamp | T::Date | T::Time | T::Uuid | T::Timeuuid | T::Inet
                )
                || (*to == T::Text && *from == T::Ascii)
        }
        T::Date => matches!(from, T::Timeuuid | T::Timestamp | T::Bigint),
        T::Timestamp => matches!(from, T::Timeuuid | T::Date | T::Int),
        // A timestamp is as good as the long it is made of, where that is taken.
        T::Bigint if *from == T::Timestamp => true,
        _ => is_number(from) && is_number(to),
    }
}

/// Casts a value; `None` for values without a number. Errors: floats that no decimal can be, times that no date can be.
pub(super) fn convert(from: &CqlType, to: &CqlType, value: &[u8]) -> Result<Option<Vec<u8>>> {
    if from == to {
        return Ok(Some(value.to_vec()));
    }
    if value.is_empty() {
        return Ok(matches!(from, CqlType::Text | CqlType::Ascii).then(Vec::new));
    }
    let failed = |text: &str| {
        Err(Error::Function {
            name: format!("cast_as_{to}"),
            arguments: vec![from.to_string()],
            text: text.to_string(),
        })
    };
    if !is_workable(from, value) {
        return failed(TOO_LARGE);
    }
    if matches!(to, CqlType::Text | CqlType::Ascii) {
        return Ok(Some(text_of(&Value::decode(from, value)?).into_bytes()));
    }
    let millis = match (from, to) {
        // An int where a date is wanted is the number of its day.
        (CqlType::Int, CqlType::Timestamp) => millis_of(&CqlType::Date, value),
        (CqlType::Bigint, CqlType::Date) => millis_of(&CqlType::Timestamp, value),
        _ => millis_of(from, value),
    };
    if let Some(millis) = millis {
        return match to {
            CqlType::Date => match date_of_millis(millis) {
                Some(date) => Ok(Some(date.to_be_bytes().to_vec())),
                None => failed(OUT_OF_RANGE),
            },
            _ => Ok(Some(millis.to_be_bytes().to_vec())),
        };
    }
    let number = match (number_of(from, value), to) {
        (Some(Number::Float(float)), CqlType::Decimal | CqlType::Varint) if !float.is_finite() => {
            let text = if float.is_nan() { "NaN" } else { "an infinite number" };
            return failed(&format!("{text} cannot be cast to {to}"));
        }
        // A float is the decimal of its own digits, not of those it has as a double.
        (Some(Number::Float(float)), CqlType::Decimal) if *from == CqlType::Float => {
            let (scale, unscaled) = types::number::parse_decimal(&float_text::format_float(float as f32))?;
            Some(Number::Decimal(scale, unscaled))
        }
        (Some(Number::Decimal(scale, _)), CqlType::Varint) if scale < -POWER_MAX => return failed(TOO_LARGE),
        (number, _) => number,
    };
    Ok(number.and_then(|number| number_to(to, &number)))
}

/// The text of a value without quotes.
fn text_of(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Timestamp(millis) => datetime::format_timestamp(*millis),
        Value::Date(date) => datetime::format_date(*date),
        Value::Time(nanos) => datetime::format_time(*nanos),
        Value::Inet(address) => types::text::format_inet(address),
        other => other.to_cql(),
    }
}
