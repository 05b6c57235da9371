//! Days and the proleptic Gregorian calendar.

/// Days between 0000-03-01 and 1970-01-01.
const EPOCH: i64 = 719_468;
/// Days of 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;

/// Days since 1970-01-01 of a date.
pub fn days_of(year: i64, month: u32, day: u32) -> i64 {
    // Years start in March here, so that the leap day is the last of its year.
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA + day_of_era - EPOCH
}

/// Year, month and day of a number of days since 1970-01-01.
pub fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + EPOCH;
    let era = shifted.div_euclid(ERA);
    let day_of_era = shifted.rem_euclid(ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_shifted + 2) / 5 + 1) as u32;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// A day some months later, or earlier; a day that the month has not becomes its last. `None` when the months cannot be
/// counted.
pub fn plus_months(days: i64, months: i64) -> Option<i64> {
    let (year, month, day) = civil(days);
    let all = year.checked_mul(12)?.checked_add(i64::from(month) - 1)?.checked_add(months)?;
    let (year, month) = (all.div_euclid(12), all.rem_euclid(12) as u32 + 1);
    let first = days_of(year, month, 1);
    let next = if month == 12 { days_of(year + 1, 1, 1) } else { days_of(year, month + 1, 1) };
    Some(first + i64::from(day - 1).min(next - first - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_say_the_same() {
        assert_eq!((civil(0), civil(-1), civil(11_016)), ((1970, 1, 1), (1969, 12, 31), (2000, 2, 29)));
        for days in (-1_000_000..1_000_000).step_by(97) {
            let (year, month, day) = civil(days);
            assert_eq!(days_of(year, month, day), days);
        }
    }

    #[test]
    fn months_end_where_they_end() {
        let moved =
            |date: (i64, u32, u32), months| plus_months(days_of(date.0, date.1, date.2), months).map(civil);
        assert_eq!(moved((2020, 1, 31), 1), Some((2020, 2, 29)));
        assert_eq!(moved((2020, 3, 31), -1), Some((2020, 2, 29)));
        assert_eq!(moved((2019, 12, 31), 2), Some((2020, 2, 29)));
        assert_eq!(moved((1970, 1, 1), i64::MAX), None);
    }
}
