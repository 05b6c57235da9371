//! Keys and values of the predefined commands, byte for byte those of the Java tool: what one loads the other validates.
//!
//! ```text
//!  number of the partition ──salt of "key"──► draws ──► key ──fold──► identity ──salt of the column──► draws ──► value
//! ```
//! A table's whole content follows from the numbers of its partitions and the names of its columns. None of this may ever change.

use crate::distribution::{Distribution, Sampler};
use loadtools::java::Random;

/// Draws of identities are uniform over `1..=IDENTITY_MAX`.
const IDENTITY_MAX: i64 = 100_000_000_000;
/// What comes before the name of a column where its salt is made.
const SALT_PREFIX: &str = "randomstr";
/// Draws that the fast generator makes of one state of the slow one.
const FAST_DRAWS: u32 = 32;

/// The number that keeps columns with different names apart.
pub fn salt(text: &str) -> i64 {
    base::murmur3(text.as_bytes()).0
}

/// Draws of one identity distribution.
pub struct Identity(Random);

impl Identity {
    /// Draws that follow from a seed.
    pub fn new(seed: i64) -> Identity {
        Identity(Random::new(seed))
    }

    /// The next draw.
    pub fn draw(&mut self) -> i64 {
        let u = self.0.next_double();
        let value = u * (IDENTITY_MAX + 1) as f64 + (1.0 - u);
        (value as i64).clamp(1, IDENTITY_MAX)
    }
}

/// A xorshift generator that starts again from `java.util.Random` every so many draws.
pub struct Fast {
    state: i64,
    drawn: u32,
}

impl Fast {
    /// Numbers that follow from a seed.
    pub fn new(seed: i64) -> Fast {
        Fast { state: Random::new(seed).next_long(), drawn: 0 }
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> i64 {
        self.drawn += 1;
        if self.drawn == FAST_DRAWS {
            *self = Fast::new(self.state);
        }
        let mut x = self.state;
        // Shifts to the right keep the sign: an oddity that decides every byte.
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.state = x;
        x.wrapping_mul(2_685_821_657_736_338_717)
    }

    /// Fills bytes, the low one of each number first.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.draw().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

/// Makes partition keys: texts of hexadecimal digits whose letters begin at K.
#[derive(Clone, Debug)]
pub struct Keys {
    salt: i64,
    bytes: usize,
}

impl Keys {
    /// Keys of so many bytes.
    pub fn new(bytes: usize) -> Keys {
        Keys { salt: salt("randomstrkey"), bytes }
    }

    /// Bytes of a key.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// Appends the key of a partition and gives its identity, from which its values follow.
    pub fn write(&self, partition: i64, out: &mut Vec<u8>) -> i64 {
        let mut draws = Identity::new(partition ^ self.salt);
        // The first draw seeds the size, which is fixed.
        draws.draw();
        let (start, mut left) = (out.len(), self.bytes);
        while left > 0 {
            let mut value = draws.draw();
            let digits = left.min(16);
            for _ in 0..digits {
                let digit = (value & 15) as u8;
                out.push(if digit < 10 { b'0' + digit } else { b'A' + digit });
                value >>= 4;
            }
            left -= digits;
        }
        fold(0, &out[start..])
    }
}

/// Folds bytes into an identity.
pub fn fold(identity: i64, bytes: &[u8]) -> i64 {
    bytes.iter().fold(identity, |sum, byte| sum.wrapping_mul(31).wrapping_add(i64::from(*byte as i8)))
}

/// Makes the values of one column.
#[derive(Clone, Debug)]
pub struct Values {
    salt: i64,
    size: Size,
}

#[derive(Clone, Debug)]
enum Size {
    Fixed(usize),
    Drawn(Box<Sampler>),
}

impl Values {
    /// Values of the column of this name, of so many bytes.
    pub fn new(name: &str, size: &Distribution) -> Values {
        let salt = salt(&format!("{SALT_PREFIX}{name}"));
        let size = match size.only() {
            Some(bytes) => Size::Fixed(bytes_of(bytes)),
            None => Size::Drawn(Box::new(size.sampler(0))),
        };
        Values { salt, size }
    }

    /// Appends the value that belongs to an identity.
    pub fn write(&mut self, identity: i64, out: &mut Vec<u8>) {
        let seed = Identity::new(identity ^ self.salt).draw();
        let bytes = match &mut self.size {
            Size::Fixed(bytes) => *bytes,
            Size::Drawn(sampler) => {
                sampler.set_seed(seed);
                bytes_of(sampler.draw())
            }
        };
        let start = out.len();
        out.resize(start + bytes, 0);
        Fast::new(!seed).fill(&mut out[start..]);
    }
}

/// Bytes a value may have: frames are not larger.
pub const VALUE_BYTES_MAX: usize = 256 << 20;

fn bytes_of(size: i64) -> usize {
    usize::try_from(size).unwrap_or(0).min(VALUE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(partition: i64) -> (String, i64) {
        let mut out = Vec::new();
        let identity = Keys::new(10).write(partition, &mut out);
        (String::from_utf8(out).expect("digits"), identity)
    }

    fn value(name: &str, partition: i64) -> String {
        let mut out = Vec::new();
        Values::new(name, &Distribution::fixed(34)).write(key(partition).1, &mut out);
        out.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Published vectors of the Java tool.
    #[test]
    fn salts_are_those_of_the_java_tool() {
        let salts = ["key", "C0", "C1", "C2", "C3", "C4"].map(|name| salt(&format!("randomstr{name}")));
        let expected = [
            -6294861599187687378,
            5919258029671157411,
            2823822333041508710,
            -4400155034025812751,
            -611415708070891864,
            -329182932806138863,
        ];
        assert_eq!(salts, expected);
    }

    #[test]
    fn keys_are_those_of_the_java_tool() {
        let expected = [
            (1, "0P37709P21", 1338786723438483),
            (2, "O8LK79LO61", 2138651199823976),
            (3, "OP001L5930", 2158326113993629),
            (10, "P6MNM8P9O0", 2163415844051516),
            (1_000_000, "0PMNL82P31", 1339523072381865),
        ];
        for (partition, text, identity) in expected {
            assert_eq!(key(partition), (text.to_owned(), identity), "{partition}");
        }
    }

    #[test]
    fn values_are_those_of_the_java_tool() {
        let of_one = [
            "85182fdfe7f86306cd58ce81aa53cca24c193841d6ae8a91646a4c304dd9f47892f9",
            "1f5c9f8c30a62ce4815e936de814514ea33ed4d85fa33f90222d58a5a0a49b38d2fe",
            "225510932bd8812b4610817653b79c86552c99aefb177f4cefa4850a9139db696e6e",
            "d7e099a59da559e039600f6e2c0ede94bada8cfe5d8d4ff26d68ff597d3b3f68f2b4",
            "fbdd9cec024fcbde438399670475aa8900d80e0ed3d0c3312d9d4ae79241214d74c3",
        ];
        for (nth, expected) in of_one.iter().enumerate() {
            assert_eq!(value(&format!("C{nth}"), 1), *expected);
        }
        let of_c0 = [
            (2, "b8e05320cd1037d6e317cce868ca7f9e679cf764169e9d0b3f5b2c0ffc3cb50dd5c4"),
            (3, "5ff08459ccd892a25f9189377eeee2a4f03827ef081b0c5909420a7ed9ad649929ad"),
            (10, "008a83c79b8c9994c3b52cefe5bf1bfaceb1daad442110334d86df65c03f71b99acb"),
            (1_000_000, "185f8a309ff37d639492552766f10051f4906f856e162373445800a35763cf8fed30"),
        ];
        for (partition, expected) in of_c0 {
            assert_eq!(value("C0", partition), expected, "{partition}");
        }
    }

    #[test]
    fn a_long_value_starts_its_generator_again() {
        let mut long = Vec::new();
        Values::new("C0", &Distribution::fixed(400)).write(key(1).1, &mut long);
        let mut short = Vec::new();
        Values::new("C0", &Distribution::fixed(34)).write(key(1).1, &mut short);
        assert_eq!((long.len(), &long[..34]), (400, &short[..]));
        // Without a new start every 32 draws the last bytes would follow from the ones before by the same rule alone.
        let mut plain = Fast { state: Random::new(1).next_long(), drawn: 0 };
        let mut never = Fast { state: Random::new(1).next_long(), drawn: u32::MAX };
        let draws = (1..=40).find(|_| {
            never.drawn = FAST_DRAWS;
            plain.draw() != never.draw()
        });
        assert_eq!(draws, Some(32));
    }

    #[test]
    fn sizes_follow_from_the_identity() {
        let mut values = Values::new("C0", &Distribution::uniform(10, 20));
        let sizes = |values: &mut Values| -> Vec<usize> {
            (1..50)
                .map(|partition| {
                    let mut out = Vec::new();
                    values.write(key(partition).1, &mut out);
                    out.len()
                })
                .collect()
        };
        let first = sizes(&mut values);
        assert_eq!(first, sizes(&mut values));
        assert!(first.iter().all(|size| (10..=20).contains(size)));
        assert!(first.iter().any(|size| *size != first[0]));
    }
}
