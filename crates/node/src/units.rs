//! Durations, sizes and rates as configuration files and command lines write them: `10s`, `64MiB`, `24MiB/s`.

use core::time::Duration;

/// Units of durations, largest first, in nanoseconds.
pub const TIME_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];
/// Units of sizes, largest first, in bytes.
pub const SIZE_UNITS: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
/// Units of rates, largest first, in bytes per second.
pub const RATE_UNITS: &[(&str, u64)] = &[("MiB/s", 1 << 20), ("KiB/s", 1 << 10), ("B/s", 1)];

/// Parses a duration in a unit of at least `least` nanoseconds, as Cassandra does: no space, no bare number.
pub fn time(text: &str, least: u64) -> Option<Duration> {
    exact(text, TIME_UNITS, least).map(Duration::from_nanos)
}

/// Parses a size in a unit of at least `least` bytes, as Cassandra does: no space, no bare number.
pub fn exact_size(text: &str, least: u64) -> Option<u64> {
    exact(text, SIZE_UNITS, least)
}

/// Parses a rate in bytes per second, as Cassandra does: no space, no bare number.
pub fn rate(text: &str) -> Option<u64> {
    exact(text, RATE_UNITS, 0)
}

/// Parses a size as command lines write it: `64MiB`, `256M`, `4G`; a bare number counts in `bare` bytes.
pub fn size(text: &str, bare: u64) -> Option<u64> {
    let (number, unit) = split(text.trim())?;
    let bytes = match unit.trim_start() {
        "" => bare,
        "B" => 1,
        "KiB" | "K" | "k" | "KB" => 1 << 10,
        "MiB" | "M" | "m" | "MB" => 1 << 20,
        "GiB" | "G" | "g" | "GB" => 1 << 30,
        "TiB" | "T" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(bytes)
}

fn exact(text: &str, units: &[(&str, u64)], least: u64) -> Option<u64> {
    let (number, name) = split(text)?;
    let unit = units.iter().find(|unit| unit.0 == name && least <= unit.1)?;
    number.checked_mul(unit.1)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..digits].parse().ok()?;
    Some((number, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_cassandra_takes() {
        let ms = 1_000_000;
        assert_eq!(time("10s", ms), Some(Duration::from_secs(10)));
        assert_eq!(time("250ms", ms), Some(Duration::from_millis(250)));
        assert_eq!(time("3h", ms), Some(Duration::from_secs(10_800)));
        for wrong in
            ["250", "5 s", "5S", "5us", "-1s", "1.5s", "s", "", "99999999999999999999s", "10 parsecs"]
        {
            assert_eq!(time(wrong, ms), None, "{wrong}");
        }
        assert_eq!(time("5us", 1), Some(Duration::from_micros(5)));
        assert_eq!(time("5ms", 1_000_000_000), None);
    }

    #[test]
    fn sizes_and_rates_are_those_cassandra_takes() {
        assert_eq!(exact_size("64MiB", 1 << 20), Some(64 << 20));
        for wrong in ["64", "64KiB", "1TiB", "64 MiB", "64mib", "64MB"] {
            assert_eq!(exact_size(wrong, 1 << 20), None, "{wrong}");
        }
        assert_eq!(rate("24MiB/s"), Some(24 << 20));
        assert_eq!(rate("64"), None);
        assert_eq!(rate("64MiB"), None);
    }

    #[test]
    fn command_lines_are_laxer() {
        assert_eq!(size("64MiB", 1), Some(64 << 20));
        assert_eq!(size("32", 1 << 20), Some(32 << 20));
        assert_eq!(size("256M", 1), Some(256 << 20));
        assert_eq!(size("a lot", 1), None);
    }
}
