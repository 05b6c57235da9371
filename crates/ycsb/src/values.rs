//! Keys and the values of fields.

use crate::generator::scatter;
use base::Prng;
use loadtools::java::string_hash;
use std::fmt::Write as _;

/// How numbers become keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Numbers stay in order instead of being scattered.
    pub ordered: bool,
    /// Digits, at least.
    pub zero_padding: usize,
}

impl Keys {
    /// Puts the key of a record into `key`, in place of what was there.
    pub fn put(self, record: u64, key: &mut String) {
        let number = if self.ordered { record } else { scatter(record) };
        key.clear();
        // Writing to memory does not fail.
        write!(key, "user{number:0width$}", width = self.zero_padding).ok();
    }
}

/// Adds so many random characters: six from each number of 32 bits, of which five or six bits decide each.
pub fn put_random(bytes: usize, rng: &mut Prng, out: &mut Vec<u8>) {
    let end = out.len() + bytes;
    let mut spare = None;
    while out.len() < end {
        let random = spare.take().unwrap_or_else(|| {
            let both = rng.u64();
            spare = Some((both >> 32) as i32);
            both as i32
        });
        let six = [
            random & 31,
            random >> 5 & 63,
            random >> 10 & 95,
            random >> 15 & 31,
            random >> 20 & 63,
            random >> 25 & 95,
        ];
        let wanted = (end - out.len()).min(six.len());
        out.extend(six[..wanted].iter().map(|bits| *bits as u8 + b' '));
    }
}

/// The value that a field of a key has with `dataintegrity`: the hash of the text so far, again and again. In place of what was there.
///
/// Source: YCSB's documented rule; hashes are those of Java's strings, which go on from one length to the next.
pub fn put_known(key: &str, field: &str, bytes: usize, value: &mut String) {
    value.clear();
    value.push_str(key);
    value.push(':');
    value.push_str(field);
    let mut hashed = 0;
    let mut hash = 0i32;
    while value.len() < bytes {
        // The colon is hashed with what stands before it.
        value.push(':');
        // All of it is ASCII unless the field's name is not: then the hash is made anew.
        if value.is_ascii() {
            let grown = &value.as_bytes()[hashed..];
            hash = grown.iter().fold(hash, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(*byte)));
            hashed = value.len();
        } else {
            hash = string_hash(value);
        }
        write!(value, "{hash}").ok();
    }
    let cut = (0..=bytes.min(value.len())).rev().find(|at| value.is_char_boundary(*at));
    value.truncate(cut.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(record: u64, ordered: bool, zero_padding: usize) -> String {
        let mut key = String::from("something else");
        Keys { ordered, zero_padding }.put(record, &mut key);
        key
    }

    #[test]
    fn keys_are_those_of_the_java_tool() {
        assert_eq!(key(0, false, 1), "user6284781860667377211");
        assert_eq!(key(999, false, 1), "user2071219101098386137");
        assert_eq!(key(12, true, 1), "user12");
        assert_eq!(key(12, true, 8), "user00000012");
        assert_eq!(key(2, false, 20), "user01820151046732198393");
    }

    #[test]
    fn known_values_are_those_of_the_java_tool() {
        let mut value = String::new();
        put_known("user6284781860667377211", "field0", 100, &mut value);
        assert_eq!(
            value,
            "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:-169193395:-1039977118:-10"
        );
        put_known("user1", "field0", 5, &mut value);
        assert_eq!(value, "user1");
        put_known("user1", "field\u{e9}", 30, &mut value);
        assert!(value.len() <= 30);
    }

    #[test]
    fn random_values_have_their_length_and_are_printable() {
        let mut rng = Prng::new(1);
        let mut out = Vec::new();
        for bytes in [0, 1, 5, 6, 7, 100] {
            out.clear();
            put_random(bytes, &mut rng, &mut out);
            assert_eq!(out.len(), bytes);
            assert!(out.iter().all(|byte| (b' '..=0x7f).contains(byte)), "{out:?}");
        }
    }
}
