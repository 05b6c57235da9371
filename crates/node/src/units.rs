//! Durations and sizes as configuration files write them: `10s`, `200ms`, `64MiB`.

use core::time::Duration;

/// Parses `10s`, `500ms`, `3h`, `100us`, `1d`, `5m`, `10ns`; a bare number counts in `bare`.
pub fn duration(text: &str, bare: Duration) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let nanos: u64 = match unit {
        "" => u64::try_from(bare.as_nanos()).ok()?,
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    number.checked_mul(nanos).map(Duration::from_nanos)
}

/// Parses `64MiB`, `16KiB`, `1GiB`, `512B` (and `M`, `G`, `K`, as command lines write them);
/// a bare number counts in `bare` bytes.
pub fn size(text: &str, bare: u64) -> Option<u64> {
    let (number, unit) = split(text)?;
    let bytes = match unit {
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

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..digits].parse().ok()?;
    Some((number, text[digits..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let ms = Duration::from_millis(1);
        assert_eq!(duration("10s", ms), Some(Duration::from_secs(10)));
        assert_eq!(duration("250", ms), Some(Duration::from_millis(250)));
        assert_eq!(duration("3h", ms), Some(Duration::from_secs(10_800)));
        assert_eq!(duration("10 parsecs", ms), None);
        assert_eq!(duration("-1s", ms), None);
        assert_eq!(duration("99999999999999999999s", ms), None);
    }

    #[test]
    fn sizes() {
        assert_eq!(size("64MiB", 1), Some(64 << 20));
        assert_eq!(size("32", 1 << 20), Some(32 << 20));
        assert_eq!(size("256M", 1), Some(256 << 20));
        assert_eq!(size("a lot", 1), None);
    }
}
