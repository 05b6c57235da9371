//! Random values of every type, in the bytes that clients send.
//!
//! Of numbers that can be written in several ways only one is made: which of them stays is for the first writer to say.

use crate::cql::types::Type;

/// A sequence that looks random and is the same for the same seed (SplitMix64).
pub struct Chance(u64);

impl Chance {
    /// Begins a sequence; the same name and seed begin the same one.
    pub fn new(seed: u64, name: &str) -> Chance {
        let mut chance = Chance(seed);
        for byte in name.bytes() {
            chance.0 = chance.next() ^ u64::from(byte);
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True so many times of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn pick<'p, T>(&mut self, of: &'p [T]) -> &'p T {
        &of[self.below(of.len() as u64) as usize]
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// How large values are.
#[derive(Clone, Copy)]
pub struct Size {
    /// Texts and blobs are at most so long.
    pub bytes: usize,
    /// Of a hundred values, so many have no bytes, where their type allows it.
    pub empty: u64,
    /// Whether texts and blobs resemble each other.
    pub repetitive: bool,
    /// How deep inside of other values this one is.
    depth: usize,
}

impl Size {
    /// Of values of their own.
    pub fn new(bytes: usize, empty: u64, repetitive: bool) -> Size {
        Size { bytes, empty, repetitive, depth: 0 }
    }

    /// The same without values of no bytes.
    pub fn never_empty(self) -> Size {
        Size { empty: 0, ..self }
    }

    /// Of what is inside of such a value: small.
    fn inside(self) -> Size {
        Size { bytes: self.bytes.min(24), depth: self.depth + 1, ..self }
    }
}

/// Types that have no value without bytes, and `boolean`, of which sstabledump ends with a Java exception.
const NEVER_EMPTY: [&str; 7] = ["tinyint", "smallint", "date", "time", "duration", "counter", "boolean"];

/// A value. Collections hold at most four elements, none of them twice.
pub fn value(ty: &Type, size: Size, chance: &mut Chance) -> Vec<u8> {
    match ty {
        Type::Native(name) => {
            if size.empty > 0 && !NEVER_EMPTY.contains(name) && chance.percent(size.empty) {
                return Vec::new();
            }
            native(name, size, chance)
        }
        Type::Custom(class) if class == "LexicalUUIDType" => native("uuid", size, chance),
        Type::Custom(_) => Vec::new(),
        Type::Sequence("list", element) => {
            let items: Vec<_> = (0..chance.below(5)).map(|_| value(element, size.inside(), chance)).collect();
            counted(items.len(), items.iter())
        }
        Type::Sequence(_, element) => {
            let items = distinct(element, size, chance);
            counted(items.len(), items.iter())
        }
        Type::Map(key, element) => {
            let keys = distinct(key, size, chance);
            let pairs: Vec<_> =
                keys.into_iter().flat_map(|key| [key, value(element, size.inside(), chance)]).collect();
            counted(pairs.len() / 2, pairs.iter())
        }
        Type::User(_, fields) => parts(fields.iter().map(|(_, ty)| ty), size, chance),
        Type::Tuple(types) => parts(types.iter(), size, chance),
        Type::Vector(element, count) => {
            let variable = matches!(**element, Type::Native("text" | "varint" | "blob"));
            (0..*count).fold(Vec::new(), |mut out, _| {
                let item = value(element, size.inside().never_empty(), chance);
                if variable {
                    // Below 128 the length is one byte.
                    out.push(item.len() as u8);
                }
                out.extend(item);
                out
            })
        }
    }
}

/// A value for a key: of few that there are, and never without bytes unless the table is about that. Collections are in
/// order: Cassandra keeps those of keys as they come, and finds them only so.
pub fn key(ty: &Type, size: Size, chance: &mut Chance) -> Vec<u8> {
    let size = Size { bytes: size.bytes.min(40), depth: 1, ..size };
    for _ in 0..100 {
        let made = value(ty, size, chance);
        if !made.is_empty() || size.empty > 0 {
            return made;
        }
    }
    value(ty, size, chance)
}

/// Up to four different values of a set, or keys of a map. Those inside of other values are in order, as a driver
/// sends what it keeps in sorted collections; the outermost come in any order.
fn distinct(ty: &Type, size: Size, chance: &mut Chance) -> Vec<Vec<u8>> {
    let most = if size.depth > 0 && !is_ordered_here(ty) { 1 } else { 4 };
    let mut items: Vec<Vec<u8>> = Vec::new();
    for _ in 0..chance.below(most + 1) {
        let item = value(ty, size.inside(), chance);
        if !items.contains(&item) {
            items.push(item);
        }
    }
    if size.depth > 0 {
        let flip = |item: &Vec<u8>| {
            let mut item = item.clone();
            if let (Type::Native("int"), Some(first)) = (ty, item.first_mut()) {
                *first ^= 0x80;
            }
            item
        };
        items.sort_by_key(flip);
    }
    items
}

fn is_ordered_here(ty: &Type) -> bool {
    matches!(ty, Type::Native("text" | "ascii" | "blob" | "int"))
}

fn counted<'i>(count: usize, items: impl Iterator<Item = &'i Vec<u8>>) -> Vec<u8> {
    items.fold((count as i32).to_be_bytes().to_vec(), |mut out, item| {
        out.extend_from_slice(&(item.len() as i32).to_be_bytes());
        out.extend_from_slice(item);
        out
    })
}

/// Fields, of which one in six is null.
fn parts<'t>(types: impl Iterator<Item = &'t Type>, size: Size, chance: &mut Chance) -> Vec<u8> {
    types.fold(Vec::new(), |mut out, ty| {
        if chance.below(6) == 0 {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            return out;
        }
        let item = value(ty, size.inside(), chance);
        out.extend_from_slice(&(item.len() as i32).to_be_bytes());
        out.extend_from_slice(&item);
        out
    })
}

fn native(name: &str, size: Size, chance: &mut Chance) -> Vec<u8> {
    match name {
        "ascii" => text(size, chance, &["\0", "\n", "'", "\"", "\\", "~", " "]).into_bytes(),
        "text" => text(size, chance, &["é", "ß", "中", "😀", "\u{1}", "\"", "'", "\\", "\t"]).into_bytes(),
        "blob" => blob(size, chance),
        "boolean" => vec![chance.below(2) as u8],
        "tinyint" => chance.bytes(1),
        "smallint" => chance.bytes(2),
        "int" => integer(chance, 4),
        "bigint" => integer(chance, 8),
        "float" => match chance.below(8) {
            0 => chance
                .pick(&[0.0f32, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE])
                .to_be_bytes(),
            _ => ((chance.next() as i32 as f32) / 1024.0).to_be_bytes(),
        }
        .to_vec(),
        "double" => match chance.below(8) {
            0 => chance.pick(&[0.0f64, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX]).to_be_bytes(),
            _ => ((chance.next() as i64 as f64) / 1_048_576.0).to_be_bytes(),
        }
        .to_vec(),
        "date" => ((1u32 << 31) - 30_000 + chance.below(100_000) as u32).to_be_bytes().to_vec(),
        "time" => chance.below(86_400_000_000_000).to_be_bytes().to_vec(),
        "timestamp" => (chance.below(9_000_000_000_000) as i64 - 2_000_000_000_000).to_be_bytes().to_vec(),
        "uuid" => {
            let version = *chance.pick(&[1, 3, 4, 4, 4, 5, 7]);
            uuid(chance, version)
        }
        "timeuuid" => uuid(chance, 1),
        "inet" => {
            let count = if chance.percent(70) { 4 } else { 16 };
            chance.bytes(count)
        }
        "varint" => varint(chance),
        "decimal" => {
            let scale = chance.below(30) as i32 - 8;
            // An odd number has no zero at its end that could move into the scale.
            let mut digits = varint(chance);
            if let Some(last) = digits.last_mut() {
                *last |= 1;
            }
            [&scale.to_be_bytes()[..], &digits].concat()
        }
        "duration" => {
            let sign = if chance.percent(30) { -1 } else { 1 };
            let (months, days) = (chance.below(500) as i64, chance.below(5000) as i64);
            let nanos = if chance.percent(50) { chance.below(1 << 45) as i64 } else { 0 };
            [months, days, nanos].iter().fold(Vec::new(), |mut out, part| {
                signed_vint(&mut out, part * sign);
                out
            })
        }
        _ => integer(chance, 8),
    }
}

fn text(size: Size, chance: &mut Chance, rare: &[&str]) -> String {
    let count = chance.below(size.bytes as u64 + 1) as usize;
    if size.repetitive || size.bytes > 10_000 {
        let mut word = native_word(chance);
        word.push(' ');
        return word.repeat(count / word.len() + 1);
    }
    let mut out = String::new();
    while out.len() < count {
        if chance.percent(10) {
            out.push_str(chance.pick::<&str>(rare));
        } else {
            out.push(char::from(b'a' + chance.below(26) as u8));
        }
    }
    while out.len() > size.bytes {
        out.pop();
    }
    out
}

fn native_word(chance: &mut Chance) -> String {
    (0..3 + chance.below(6)).map(|_| char::from(b'a' + chance.below(26) as u8)).collect()
}

/// Of any length; one in three has runs of zeros, also at its end.
fn blob(size: Size, chance: &mut Chance) -> Vec<u8> {
    let count = chance.below(size.bytes as u64 + 1) as usize;
    match chance.below(3) {
        0 => (0..count).map(|_| if chance.percent(60) { 0 } else { chance.next() as u8 }).collect(),
        1 if size.repetitive => vec![7; count],
        _ => chance.bytes(count),
    }
}

/// Small ones often, extremes at times.
fn integer(chance: &mut Chance, bytes: usize) -> Vec<u8> {
    let number = match chance.below(6) {
        0 => *chance.pick(&[0, 1, -1, i64::MAX, i64::MIN, i64::from(i32::MAX), i64::from(i32::MIN)]),
        1 | 2 => chance.below(40) as i64 - 20,
        _ => chance.next() as i64,
    };
    number.to_be_bytes()[8 - bytes..].to_vec()
}

fn uuid(chance: &mut Chance, version: u8) -> Vec<u8> {
    let mut out = chance.bytes(16);
    out[6] = out[6] & 0x0F | version << 4;
    out[8] = out[8] & 0x3F | 0x80;
    out
}

/// Of up to twelve bytes, none of which could be left out.
fn varint(chance: &mut Chance) -> Vec<u8> {
    let count = 1 + chance.below(12) as usize;
    let mut out = chance.bytes(count);
    while out.len() > 1 && (out[0] == 0 && out[1] < 0x80 || out[0] == 0xFF && out[1] >= 0x80) {
        out.remove(0);
    }
    out
}

fn signed_vint(out: &mut Vec<u8>, value: i64) {
    let value = (value << 1 ^ value >> 63) as u64;
    let bits = (64 - value.leading_zeros()).max(1);
    let extra = (bits.div_ceil(7) - 1).min(8) as usize;
    let bytes = value.to_be_bytes();
    if extra == 8 {
        out.push(0xFF);
        out.extend_from_slice(&bytes);
        return;
    }
    let mut bytes = bytes[7 - extra..].to_vec();
    bytes[0] |= !(0xFF_u8.checked_shr(extra as u32).unwrap_or(0));
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::super::schemas::KEY_TYPES;
    use super::*;

    #[test]
    fn values_are_of_their_types() {
        let mut chance = Chance::new(7, "values");
        for name in KEY_TYPES.into_iter().chain(["duration"]) {
            let nested = Type::Map(
                Box::new(Type::Native("int")),
                Box::new(Type::Tuple(vec![
                    Type::Native(name),
                    Type::Sequence("set", Box::new(Type::Native(name))),
                ])),
            );
            for _ in 0..200 {
                for ty in [Type::Native(name), nested.clone()] {
                    let bytes = value(&ty, Size::new(30, 10, false), &mut chance);
                    let shown = ty.value(Some(&bytes));
                    assert!(!shown.contains('?') || name == "ascii" || name == "text", "{name}: {shown}");
                }
            }
        }
    }

    #[test]
    fn signed_vints_are_those_of_cassandra() {
        let of = |value| {
            let mut out = Vec::new();
            signed_vint(&mut out, value);
            out
        };
        assert_eq!(of(0), [0]);
        assert_eq!(of(-1), [1]);
        assert_eq!(of(64), [0x80, 0x80]);
        assert_eq!(of(i64::MIN), [0xFF; 9]);
    }

    #[test]
    fn the_same_seed_says_the_same() {
        let of = |seed, name| Chance::new(seed, name).next();
        assert_eq!(of(1, "a"), of(1, "a"));
        assert_ne!(of(1, "a"), of(2, "a"));
        assert_ne!(of(1, "a"), of(1, "b"));
    }
}
