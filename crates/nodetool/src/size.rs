//! Sizes as Cassandra prints them: it has two ways, and uses both on one screen.

use crate::java;

const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];

/// `106.57 KiB`, `51 MiB`, `0 bytes`: at most two decimals, no zeros at their end.
pub fn file_size(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, "bytes");
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {unit}")
}

/// `10.236KiB`, `0B`: three decimals, nothing between number and unit.
pub fn memory(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let step = (63 - bytes.leading_zeros()) / 10;
    let value = bytes as f64 / (1u64 << (10 * step)) as f64;
    let prefix = ["", "K", "M", "G", "T", "P", "E"][step as usize];
    format!("{}{prefix}iB", java::fixed(value, 3))
}

/// A size as `-H` asks for it: in units, or as the plain number.
pub fn chosen(bytes: u64, human: bool) -> String {
    if human { file_size(bytes as f64) } else { bytes.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_cassandras() {
        assert_eq!(file_size(0.0), "0 bytes");
        assert_eq!(file_size(110.0), "110 bytes");
        assert_eq!(file_size(10_641.0), "10.39 KiB");
        assert_eq!(file_size(11_571.2), "11.3 KiB");
        assert_eq!(file_size(53_477_376.0), "51 MiB");
        assert_eq!(memory(0), "0B");
        assert_eq!(memory(713), "713B");
        assert_eq!(memory(7690), "7.510KiB");
        assert_eq!(memory(16065), "15.688KiB");
        assert_eq!(memory(1 << 30), "1.000GiB");
        assert_eq!(memory(u64::MAX), "16.000EiB");
        assert_eq!(chosen(10_482, false), "10482");
    }
}
