//! Numbers and orders as Java prints them, which scripts that read nodetool have learnt.

/// A double as `Double.toString` writes it: `0.2391`, `1.0E-4`, `NaN`.
pub fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{point}E{exponent}")
}

/// A double with so many decimals, halves away from zero, as `String.format("%.3f")` writes it.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return double(value);
    }
    // Java rounds the shortest decimal form, not the binary value.
    round(&format!("{value}"), decimals)
}

fn round(text: &str, decimals: usize) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut kept: Vec<u8> =
        whole.bytes().chain(fraction.bytes().chain(std::iter::repeat(b'0')).take(decimals)).collect();
    let up = fraction.as_bytes().get(decimals).is_some_and(|digit| *digit >= b'5');
    if up {
        let mut carry = true;
        for digit in kept.iter_mut().rev() {
            match (carry, *digit) {
                (false, _) => break,
                (true, b'9') => *digit = b'0',
                (true, other) => {
                    *digit = other + 1;
                    carry = false;
                }
            }
        }
        if carry {
            kept.insert(0, b'1');
        }
    }
    let point = kept.len() - decimals;
    let text: String = kept.iter().map(|digit| char::from(*digit)).collect();
    let fraction = if decimals == 0 { String::new() } else { format!(".{}", &text[point..]) };
    format!("{sign}{}{fraction}", &text[..point])
}

/// Orders keys as a `HashMap` of this initial capacity walks them; equal slots keep the order given.
pub fn hash_order<T>(mut items: Vec<T>, capacity: usize, key: impl Fn(&T) -> &str) -> Vec<T> {
    let mut slots = capacity.max(1).next_power_of_two();
    while items.len() * 4 > slots * 3 {
        slots *= 2;
    }
    items.sort_by_key(|item| spread(key(item)) as usize & (slots - 1));
    items
}

fn spread(text: &str) -> u32 {
    let hash =
        text.encode_utf16().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_look_like_javas() {
        for (value, text) in [
            (0.0, "0.0"),
            (100.0, "100.0"),
            (0.057_679_503_105_590_064, "0.057679503105590064"),
            (33.833_333_333_333_336, "33.833333333333336"),
            (1e-4, "1.0E-4"),
            (1.25e-7, "1.25E-7"),
            (12_345_678.0, "1.2345678E7"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn halves_go_up() {
        assert_eq!(fixed(0.125, 2), "0.13");
        assert_eq!(fixed(0.0495, 3), "0.050");
        assert_eq!(fixed(9.999, 2), "10.00");
        assert_eq!(fixed(-1.0, 5), "-1.00000");
        assert_eq!(fixed(258.0, 2), "258.00");
        assert_eq!(fixed(0.5, 0), "1");
        assert_eq!(fixed(f64::NAN, 3), "NaN");
    }

    #[test]
    fn keyspaces_come_in_the_order_of_a_hash_map() {
        let names = [
            "Mixed",
            "shop",
            "system",
            "system_auth",
            "system_distributed",
            "system_schema",
            "system_traces",
        ];
        let ordered = hash_order(names.to_vec(), 16, |name| name);
        assert_eq!(
            ordered,
            [
                "system_traces",
                "shop",
                "system",
                "Mixed",
                "system_distributed",
                "system_schema",
                "system_auth"
            ]
        );
        assert_eq!(
            hash_order(vec!["carts", "never", "visits"], 4, |name| name),
            ["never", "visits", "carts"]
        );
    }
}
