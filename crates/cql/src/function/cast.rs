//! `CAST(a AS type)`: between numbers, to text, between date types.

use super::number::{Number, TOO_LARGE, is_number, is_workable, number_of, number_to};
use super::time::{date_of_millis, millis_of};
use super::{Function, FunctionKind};
use crate::error::{Error, Result, invalid};
use types::{CqlType, Value, datetime};

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

/// Casts a value; `None` for values without a number. Errors: floats that no decimal can be.
pub(super) fn convert(from: &CqlType, to: &CqlType, value: &[u8]) -> Result<Option<Vec<u8>>> {
    if from == to {
        return Ok(Some(value.to_vec()));
    }
    if value.is_empty() {
        return Ok(matches!(from, CqlType::Text | CqlType::Ascii).then(Vec::new));
    }
    if !is_workable(from, value) {
        return Err(Error::Function {
            name: format!("cast_as_{to}"),
            arguments: vec![from.to_string()],
            text: TOO_LARGE.to_string(),
        });
    }
    if matches!(to, CqlType::Text | CqlType::Ascii) {
        return Ok(Some(text_of(&Value::decode(from, value)?).into_bytes()));
    }
    match (from, to) {
        // An int where a date is wanted is the number of its day.
        (CqlType::Int, CqlType::Timestamp) => {
            let millis = millis_of(&CqlType::Date, value).unwrap_or_default();
            return Ok(Some(millis.to_be_bytes().to_vec()));
        }
        (CqlType::Timestamp, CqlType::Bigint) => return Ok(Some(value.to_vec())),
        (CqlType::Bigint, CqlType::Date) => {
            let millis = millis_of(&CqlType::Timestamp, value).unwrap_or_default();
            return Ok(Some(date_of_millis(millis).to_be_bytes().to_vec()));
        }
        _ => {}
    }
    if let Some(millis) = millis_of(from, value) {
        return Ok(Some(match to {
            CqlType::Date => date_of_millis(millis).to_be_bytes().to_vec(),
            _ => millis.to_be_bytes().to_vec(),
        }));
    }
    let number = number_of(from, value);
    if let Some(Number::Float(float)) = number
        && !float.is_finite()
        && matches!(to, CqlType::Decimal | CqlType::Varint)
    {
        let text = if float.is_nan() { "NaN" } else { "an infinite number" };
        return Err(Error::Function {
            name: format!("cast_as_{to}"),
            arguments: vec![from.to_string()],
            text: format!("{text} cannot be cast to {to}"),
        });
    }
    Ok(number.and_then(|number| number_to(to, &number)))
}

/// The text of a value without quotes.
fn text_of(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Timestamp(millis) => {
            let (days, within) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
            let (year, month, day) = base::calendar::civil(days);
            let time = datetime::format_time(within * 1_000_000);
            format!("{year:04}-{month:02}-{day:02}T{}Z", &time[..12])
        }
        Value::Date(date) => datetime::format_date(*date),
        Value::Time(nanos) => datetime::format_time(*nanos),
        Value::Inet(address) => address.to_string(),
        other => other.to_cql(),
    }
}
