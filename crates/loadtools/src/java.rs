//! What the Java library computes, where keys and values depend on it bit for bit.
//!
//! Source: the documented algorithms of `java.util.Random` (a linear congruential generator of 48 bits and the polar method for normal
//! numbers), of `java.util.Formatter` (decimal digits of the shortest text, rounded half up), of `java.text.DecimalFormat` (the exact
//! binary fraction, rounded half to even), of `Double.toString` since release 19 (the shortest text that reads back as the value), of
//! `String.hashCode`, and of the order in which hash maps give what was put into them.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;

/// `java.util.Random`: equal seeds give equal numbers in both languages.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// The polar method makes two normal numbers at a time; the second waits here.
    spare: Option<f64>,
}

impl Random {
    /// A generator whose whole future is its seed.
    pub fn new(seed: i64) -> Random {
        Random { state: (seed as u64 ^ MULTIPLIER) & MASK, spare: None }
    }

    /// The top bits of the next state, 32 at most, signed when there are 32.
    fn next(&mut self, bits: u32) -> i32 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        (self.state >> (48 - bits)) as i32
    }

    /// 64 bits of which 48 are random.
    pub fn next_long(&mut self) -> i64 {
        let high = i64::from(self.next(32)) << 32;
        high.wrapping_add(i64::from(self.next(32)))
    }

    /// A number in `[0, 1)` of 53 random bits.
    pub fn next_double(&mut self) -> f64 {
        let high = i64::from(self.next(26)) << 27;
        (high + i64::from(self.next(27))) as f64 / (1u64 << 53) as f64
    }

    /// A number of the standard normal distribution.
    pub fn next_gaussian(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.next_double() - 1.0;
            let y = 2.0 * self.next_double() - 1.0;
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                // The logarithm whose last bit is that of Java's StrictMath: both descend from fdlibm.
                let factor = (-2.0 * libm::log(square) / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }
}

/// Formats like `%.Nf` of Java, with a comma between thousands when asked for: `NaN` and `Infinity` as Java writes them.
pub fn fixed(value: f64, decimals: usize, thousands: bool) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    // The shortest digits that read back as the value are what Java rounds, not the exact binary fraction: 0.15 is 0.2, not 0.1.
    let shortest = format!("{}", value.abs());
    let (whole, fraction) = shortest.split_once('.').unwrap_or((&shortest, ""));
    let mut digits: Vec<u8> =
        whole.bytes().chain(fraction.bytes().chain(std::iter::repeat(b'0')).take(decimals)).collect();
    if fraction.as_bytes().get(decimals).is_some_and(|digit| *digit >= b'5') {
        round_up(&mut digits);
    }
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    let mut text = String::from(if value.is_sign_negative() { "-" } else { "" });
    put_whole(whole, thousands, &mut text);
    if decimals > 0 {
        text.push('.');
        text.extend(fraction.iter().map(|digit| char::from(*digit)));
    }
    text
}

/// Adds one to the last of these decimal digits.
fn round_up(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

/// A whole number with a comma between thousands.
pub fn grouped(value: u64) -> String {
    let mut text = String::new();
    put_whole(value.to_string().as_bytes(), true, &mut text);
    text
}

fn put_whole(digits: &[u8], thousands: bool, text: &mut String) {
    for (at, digit) in digits.iter().enumerate() {
        if thousands && at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(char::from(*digit));
    }
}

/// Formats like `Double.toString`: `0.001` to below `10000000` with a point, others like `1.0E7`; always a digit after the point.
pub fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let value = value.abs();
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let mut scientific = format!("{value:e}");
    if !scientific.contains('.') {
        // One digit would do: of two digits the nearest are written, 4.9E-324 and not 5.0E-324.
        scientific = format!("{value:.1e}");
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-3..7).contains(&exponent) {
        return format!("{sign}{mantissa}E{exponent}");
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let digits = digits.trim_end_matches('0');
    let text = match usize::try_from(exponent) {
        Err(_) => format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1)),
        Ok(above) if digits.len() <= above + 1 => {
            format!("{digits}{}.0", "0".repeat(above + 1 - digits.len()))
        }
        Ok(above) => format!("{}.{}", &digits[..above + 1], &digits[above + 1..]),
    };
    format!("{sign}{text}")
}

/// Formats like `DecimalFormat("#.##")`: two decimals at most, none that are zero at the end.
pub fn at_most_two_decimals(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "\u{221e}".into() } else { "-\u{221e}".into() };
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `String.hashCode`.
pub fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The order in which a hash map with so many buckets, a power of two, gives entries with these hashes that were put into it one after
/// the other: their indexes.
pub fn map_order(hashes: &[i32], buckets: u32) -> Vec<usize> {
    let bucket = |hash: i32| (hash as u32 ^ hash as u32 >> 16) & (buckets - 1);
    let mut order: Vec<usize> = (0..hashes.len()).collect();
    order.sort_by_key(|index| bucket(hashes[*index]));
    order
}

/// Buckets of a `HashMap` into which so many entries were put one by one: three quarters of them are filled at most.
pub fn map_buckets(entries: usize) -> u32 {
    let mut buckets = 16u32;
    while (buckets as usize) / 4 * 3 < entries && buckets < 1 << 30 {
        buckets *= 2;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a Java program printed for `new Random(42)`: two longs, then of a fresh one two doubles, then of a fresh one three normal numbers.
    #[test]
    fn random_numbers_are_those_of_java() {
        let mut random = Random::new(42);
        assert_eq!([random.next_long(), random.next_long()], [-5025562857975149833, -5843495416241995736]);
        let mut random = Random::new(42);
        assert_eq!([random.next_double(), random.next_double()], [0.7275636800328681, 0.6832234717598454]);
        let mut random = Random::new(42);
        let normal = [random.next_gaussian(), random.next_gaussian(), random.next_gaussian()];
        assert_eq!(normal, [1.1419053154730547, 0.9194079489827879, -0.9498666368908959]);
    }

    #[test]
    fn numbers_are_rounded_half_up_in_decimal() {
        assert_eq!(fixed(0.15, 1, false), "0.2");
        assert_eq!(fixed(2.5, 0, false), "3");
        assert_eq!(fixed(0.25, 1, false), "0.3");
        assert_eq!(fixed(999.96, 1, false), "1000.0");
        assert_eq!(fixed(1_234_567.4, 0, true), "1,234,567");
        assert_eq!(fixed(999_999.5, 0, true), "1,000,000");
        assert_eq!(fixed(-0.5, 0, true), "-1");
        assert_eq!(fixed(3.0, 5, false), "3.00000");
        assert_eq!(fixed(f64::NAN, 1, false), "NaN");
        assert_eq!(fixed(1e-9, 2, false), "0.00");
        assert_eq!([grouped(7), grouped(1000), grouped(1_234_567)], ["7", "1,000", "1,234,567"]);
    }

    /// What Java prints, since release 19 where one of its earlier digits was one too many.
    #[test]
    fn doubles_are_printed_as_java_prints_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-2.5, "-2.5"),
            (100.0, "100.0"),
            (4_969.437_956_567_112, "4969.437956567112"),
            (1.4388888888888892e7, "1.4388888888888892E7"),
            (180.4, "180.4"),
            (0.001, "0.001"),
            (9.99e-4, "9.99E-4"),
            (0.1 + 0.2, "0.30000000000000004"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (1.2345678e7, "1.2345678E7"),
            (1e23, "1.0E23"),
            (2e23, "2.0E23"),
            (5e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn every_double_reads_back() {
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let value = f64::from_bits(random.next_long() as u64);
            if value.is_finite() {
                assert_eq!(double(value).parse::<f64>().expect("a number").to_bits(), value.to_bits());
            }
        }
    }

    #[test]
    fn two_decimals_at_most_are_rounded_half_to_even() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (0.125, "0.12"),
            (0.375, "0.38"),
            (0.005, "0.01"),
            (0.015, "0.01"),
            (2.675, "2.67"),
            (1.005, "1"),
            (4970.6, "4970.6"),
            (100.0, "100"),
            (1234567.891, "1234567.89"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "\u{221e}"),
        ] {
            assert_eq!(at_most_two_decimals(value), text);
        }
    }

    #[test]
    fn strings_hash_as_in_java() {
        assert_eq!(string_hash(""), 0);
        assert_eq!(string_hash("READ"), 2_511_254);
        assert_eq!(string_hash("user6284781860667377211:field0"), 1_106_546_143);
    }

    #[test]
    fn maps_are_walked_as_in_java() {
        let names = ["CLEANUP", "UPDATE", "READ", "INSERT", "SCAN"];
        let hashes: Vec<i32> = names.iter().map(|name| string_hash(name)).collect();
        let order: Vec<&str> = map_order(&hashes, 16).into_iter().map(|index| names[index]).collect();
        assert_eq!(order, ["READ", "CLEANUP", "UPDATE", "INSERT", "SCAN"]);
        assert_eq!([map_buckets(0), map_buckets(12), map_buckets(13), map_buckets(25)], [16, 16, 32, 64]);
    }
}
