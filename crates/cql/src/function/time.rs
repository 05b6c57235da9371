//! Functions of dates, times and timeuuids.

use super::FunctionKind;
use crate::error::{Result, invalid};
use crate::value::BindContext;
use base::calendar::plus_months;
use types::datetime::EPOCH_DAY;
use types::duration::Duration;
use types::{CqlType, timeuuid};

const DAY_MS: i64 = 86_400_000;

/// A timeuuid of now with random node bits.
pub(super) fn new_timeuuid(context: &BindContext<'_>) -> [u8; 16] {
    let ticks = context.now_micros.saturating_mul(10);
    *timeuuid::from_ticks(ticks, (context.random)()).as_bytes()
}

/// The day of a time, counted as `date` counts; `None` where no date is.
pub(super) fn date_of_millis(millis: i64) -> Option<u32> {
    types::datetime::date_of_days(millis.div_euclid(DAY_MS))
}

/// What is said of a time that the wanted type cannot hold.
pub(super) const OUT_OF_RANGE: &str = "the time is out of range";

/// Milliseconds since the epoch of a date, timestamp or timeuuid; `None` for empty values.
pub(super) fn millis_of(ty: &CqlType, value: &[u8]) -> Option<i64> {
    match ty {
        CqlType::Timestamp => Some(i64::from_be_bytes(value.try_into().ok()?)),
        CqlType::Date => {
            let days = i64::from(u32::from_be_bytes(value.try_into().ok()?)) - i64::from(EPOCH_DAY);
            Some(days * DAY_MS)
        }
        CqlType::Timeuuid => timeuuid::unix_ms(&uuid::Uuid::from_slice(value).ok()?),
        _ => None,
    }
}

/// Conversions between date types; `Ok(None)` for empty values. Errors: times that the wanted type cannot hold.
pub(super) fn convert(
    kind: FunctionKind,
    from: &CqlType,
    value: &[u8],
) -> std::result::Result<Option<Vec<u8>>, &'static str> {
    let Some(millis) = millis_of(from, value) else { return Ok(None) };
    let converted = match kind {
        FunctionKind::ToDate => date_of_millis(millis).map(|date| date.to_be_bytes().to_vec()),
        FunctionKind::MinTimeuuid => timeuuid::min_of_ms(millis).map(|id| id.as_bytes().to_vec()),
        FunctionKind::MaxTimeuuid => timeuuid::max_of_ms(millis).map(|id| id.as_bytes().to_vec()),
        _ => Some(millis.to_be_bytes().to_vec()),
    };
    converted.map(Some).ok_or(OUT_OF_RANGE)
}

/// `floor(time, duration[, start])`: the beginning of the interval that a time falls into.
/// Errors: durations that are negative or finer than the type's precision, times before the start.
pub(super) fn floor(types: &[CqlType], values: &[&[u8]]) -> Result<Option<Vec<u8>>> {
    let duration = Duration::decode(values[1])?;
    if duration.months < 0 || duration.days < 0 || duration.nanos < 0 {
        return invalid("Negative durations are not supported by the floor function");
    }
    let Some(ty) = types.first() else { return Ok(None) };
    if *ty == CqlType::Time {
        return floor_clock(values[0], &duration);
    }
    let is_date = matches!(ty, CqlType::Date | CqlType::Int);
    let precision = if is_date { "date" } else { "timestamp" };
    if is_date && duration.nanos != 0 {
        return invalid(format!(
            "The floor on {precision} values cannot be computed for the {duration} duration as precision is below 1 day"
        ));
    }
    if duration.nanos % 1_000_000 != 0 {
        return invalid(format!(
            "The floor cannot be computed for the {duration} duration as precision is below 1 millisecond"
        ));
    }
    let Some(time) = millis_of(if is_date { &CqlType::Date } else { ty }, values[0]) else { return Ok(None) };
    let start = match (types.get(2), values.get(2)) {
        (Some(ty), Some(value)) => match millis_of(ty, value) {
            Some(start) => start,
            None => return Ok(None),
        },
        _ => 0,
    };
    if start > time {
        return invalid("The floor function starting time is greater than the provided time");
    }
    if (duration.months, duration.days, duration.nanos) == (0, 0, 0) {
        return invalid("The floor cannot be computed for a duration of zero");
    }
    let Some(floored) = floor_millis(time, &duration, start) else {
        return invalid("The floor cannot be computed: the times are too far apart");
    };
    if !is_date {
        return Ok(Some(floored.to_be_bytes().to_vec()));
    }
    match date_of_millis(floored) {
        Some(date) => Ok(Some(date.to_be_bytes().to_vec())),
        None => invalid("The floor cannot be computed: the time is out of range"),
    }
}

/// The beginning of the interval of a duration above zero; `None` when a span of time is beyond what milliseconds count.
fn floor_millis(time: i64, duration: &Duration, start: i64) -> Option<i64> {
    let fixed = i64::from(duration.days) * DAY_MS + duration.nanos / 1_000_000;
    let span = time.checked_sub(start)?;
    if duration.months == 0 {
        return Some(start + span / fixed * fixed);
    }
    let begin = |count: i64| -> Option<i64> {
        let months = i64::from(duration.months).checked_mul(count)?;
        add_months(start, months).and_then(|ms| ms.checked_add(fixed.checked_mul(count)?))
    };
    // Months differ in length, so the interval is searched for: no month is shorter than 28 days, which bounds its number.
    // What lies beyond all times begins later than `time`.
    let shortest = i64::from(duration.months) * 28 * DAY_MS + fixed;
    let (mut last, mut beyond) = (0, span / shortest + 1);
    while beyond - last > 1 {
        let middle = last + (beyond - last) / 2;
        match begin(middle) {
            Some(begun) if begun <= time => last = middle,
            _ => beyond = middle,
        }
    }
    begin(last)
}

fn add_months(millis: i64, months: i64) -> Option<i64> {
    let days = plus_months(millis.div_euclid(DAY_MS), months)?;
    days.checked_mul(DAY_MS)?.checked_add(millis.rem_euclid(DAY_MS))
}

fn floor_clock(value: &[u8], duration: &Duration) -> Result<Option<Vec<u8>>> {
    if duration.months != 0 || duration.days != 0 {
        return invalid(format!(
            "For time values, the floor can only be computed for durations smaller that a day, not for {duration}"
        ));
    }
    let Ok(array) = <[u8; 8]>::try_from(value) else { return Ok(None) };
    if duration.nanos == 0 {
        return invalid("The floor cannot be computed for a duration of zero");
    }
    let time = i64::from_be_bytes(array);
    Ok(Some((time - time.rem_euclid(duration.nanos)).to_be_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::calendar::days_of;
    use types::literal::from_text;

    fn floored(ty: &CqlType, value: &str, duration: &str) -> String {
        let value = from_text(ty, value).expect("a value");
        let duration = from_text(&CqlType::Duration, duration).expect("a duration");
        match floor(&[ty.clone(), CqlType::Duration], &[&value, &duration]) {
            Ok(Some(bytes)) => types::Value::decode(ty, &bytes).expect("valid").to_cql(),
            Ok(None) => "null".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn times_fall_into_intervals() {
        let of = |value: &str, duration: &str| floored(&CqlType::Timestamp, value, duration);
        assert_eq!(of("2016-09-27 16:12:00+0000", "5m"), "'2016-09-27T16:10:00.000Z'");
        assert_eq!(of("2016-09-27 16:12:00+0000", "1mo"), "'2016-09-01T00:00:00.000Z'");
        assert_eq!(of("2016-09-27 16:12:00+0000", "2y"), "'2016-01-01T00:00:00.000Z'");
        assert_eq!(of("1999-12-31 23:59:59+0000", "1mo"), "'1999-12-01T00:00:00.000Z'");
        assert_eq!(floored(&CqlType::Date, "2016-09-27", "2d"), "'2016-09-26'");
        assert!(floored(&CqlType::Date, "2016-09-27", "1h").contains("precision is below 1 day"));
        assert_eq!(floored(&CqlType::Time, "00:04:59", "5m"), "'00:00:00.000000000'");
        assert!(of("2016-09-27 16:12:00+0000", "-5m").starts_with("Negative"));
        assert_eq!(
            of("2016-09-27 16:12:00+0000", "0m"),
            "The floor cannot be computed for a duration of zero"
        );
    }

    #[test]
    fn floors_of_any_times_are_found_quickly() {
        let floor_of = |time: i64, text: &str, start: i64| {
            let duration = from_text(&CqlType::Duration, text).expect("a duration");
            let types = [CqlType::Timestamp, CqlType::Duration, CqlType::Timestamp];
            floor(&types, &[&time.to_be_bytes(), &duration, &start.to_be_bytes()])
        };
        let millis = |days: i64| days * DAY_MS;
        for (time, text, start) in [
            (i64::MAX, "1mo", 0),
            (i64::MAX - 1, "1mo1ms", 0),
            (i64::MAX, "178956970y7mo", 0),
            (i64::MAX, "1ms", 0),
            (0, "1mo", i64::MIN / 2),
            (i64::MAX, "1mo", i64::MIN),
            (i64::MAX, "1ms", i64::MIN),
        ] {
            match floor_of(time, text, start) {
                Ok(floored) => {
                    let floored = i64::from_be_bytes(floored.expect("a time").try_into().expect("8 bytes"));
                    assert!((start..=time).contains(&floored), "{time} {text} {start}: {floored}");
                }
                Err(error) => assert!(error.to_string().contains("too far apart"), "{error}"),
            }
        }
        // The last day of January, and a month after it: the shorter one's last.
        let (from, to) = (days_of(2021, 1, 31), days_of(2021, 2, 28));
        for (day, want) in [(to - 1, from), (to, to), (days_of(2021, 3, 30), to)] {
            let floored = floor_of(millis(day) + 5, "1mo", millis(from)).expect("a time");
            assert_eq!(floored, Some(millis(want).to_be_bytes().to_vec()), "{day}");
        }
    }

    use proptest::prelude::*;

    proptest! {
        /// Whatever is converted says the same time, or nothing.
        #[test]
        fn times_are_kept_or_refused(millis in any::<i64>(), shift in 0u32..64) {
            let millis = millis >> shift;
            let wire = millis.to_be_bytes();
            for kind in [FunctionKind::ToDate, FunctionKind::MinTimeuuid, FunctionKind::MaxTimeuuid, FunctionKind::ToTimestamp] {
                let Ok(Some(made)) = convert(kind, &CqlType::Timestamp, &wire) else { continue };
                let (ty, unit) = match kind {
                    FunctionKind::ToDate => (CqlType::Date, DAY_MS),
                    FunctionKind::ToTimestamp => (CqlType::Timestamp, 1),
                    _ => (CqlType::Timeuuid, 1),
                };
                prop_assert_eq!(millis_of(&ty, &made).map(|ms| ms.div_euclid(unit)), Some(millis.div_euclid(unit)));
            }
        }
    }

    #[test]
    fn times_that_a_type_cannot_hold_are_refused() {
        let of = |kind, millis: i64| convert(kind, &CqlType::Timestamp, &millis.to_be_bytes());
        for kind in [FunctionKind::ToDate, FunctionKind::MinTimeuuid, FunctionKind::MaxTimeuuid] {
            assert_eq!((of(kind, i64::MAX), of(kind, i64::MIN)), (Err(OUT_OF_RANGE), Err(OUT_OF_RANGE)));
        }
        assert_eq!(of(FunctionKind::MinTimeuuid, 253_402_214_400_000), Err(OUT_OF_RANGE));
        assert_eq!(of(FunctionKind::ToDate, -1), Ok(Some((EPOCH_DAY - 1).to_be_bytes().to_vec())));
    }
}
