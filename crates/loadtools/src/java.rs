//! What the Java library computes, where keys and values depend on it bit for bit.
//!
//! Source: the documented algorithms of `java.util.Random` (a linear congruential generator of 48 bits and the polar method for normal
//! numbers) and of `java.util.Formatter` (decimal digits of the shortest text, rounded half up).

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
}
