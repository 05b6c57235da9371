//! Values at and beside the edges of every type, as bytes of the wire: made from short lists, so that a limit is written
//! down once.

use super::bytes::{decimal, duration, fields, list, varint, with_lengths};

/// Whole numbers beside the powers of two that limit types, and beside powers of ten where texts change.
fn integers() -> Vec<i128> {
    let mut out = vec![
        0, 1, 2, 9, 10, 99, 100, 999, 1_000, 12_345, 86_399_999, 86_400_000, 999_999, 9_999_999, 10_000_000,
    ];
    for bits in [7, 8, 15, 16, 24, 31, 32, 53, 62, 63, 64] {
        let power = 1i128 << bits;
        out.extend([power - 2, power - 1, power, power + 1, power + power / 2 + 1]);
    }
    // Times: where timeuuids begin and end, years of one, five and ten digits, where dates end.
    out.extend([
        12_219_292_800_000,
        12_219_292_799_999,
        103_072_857_660_684,
        103_072_857_660_685,
        62_135_596_800_000,
        62_135_596_800_001,
        62_167_219_200_000,
        62_167_219_200_001,
        253_402_300_799_999,
        253_402_300_800_000,
        185_542_587_187_200_000,
        185_542_587_100_800_000,
        185_542_587_187_199_999,
        218_700_000_000_000_000,
        8_640_000_000_000_000,
        1_293_840_000_123,
        922_337_203_685_477,
        922_337_203_685_478,
    ]);
    let negative: Vec<i128> = out.iter().map(|n| -n).collect();
    out.extend(negative);
    out.sort_unstable();
    out.dedup();
    out
}

macro_rules! fixed {
    ($name:ident, $ty:ty) => {
        fn $name() -> Vec<Vec<u8>> {
            let fits = |n: i128| <$ty>::try_from(n).ok();
            integers().into_iter().filter_map(fits).map(|n| n.to_be_bytes().to_vec()).collect()
        }
    };
}
fixed!(tinyints, i8);
fixed!(smallints, i16);
fixed!(ints, i32);
fixed!(bigints, i64);
fixed!(unsigned, u32);

/// Mantissas and exponents whose decimal text is hard: ties, limits of the exponent, and where the shortest text that
/// reads back is not the one that Java 17 prints.
fn doubles() -> Vec<f64> {
    let mut out = vec![
        0.0,
        -0.0,
        1.0,
        0.1,
        0.5,
        1.5,
        2.5,
        1e-3,
        9.999e-4,
        9_999_999.0,
        1e7,
        1e22,
        1e23,
        2e23,
        8.41e21,
        2e-3,
        2.2e-322,
        5e-324,
        1e-323,
        1.5e-323,
        2f64.powi(-44),
        2f64.powi(-1022),
        2.225_073_858_507_201e-308,
        1.1e-5,
        5e-5,
        9.5e-9,
        123_456.789,
        1.0 / 3.0,
        2.0 / 3.0,
        100.0,
        9_007_199_254_740_993.0,
        9e15,
        1e16,
        1.844_674_407_370_955_2e19,
        4.611_686_018_427_388e18,
        3e38,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::EPSILON,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        127.5,
        -128.5,
        32_767.5,
        2_147_483_647.0,
        2_147_483_648.0,
        2_147_483_647.5,
        -2_147_483_649.0,
        9.3e18,
        -9.3e18,
        4_294_967_296.5,
        0.49999999999999994,
    ];
    for power in (-1074..1024).step_by(17) {
        out.push(2f64.powi(power));
    }
    let mut bits = 0x0123_4567_89AB_CDEF_u64;
    for _ in 0..220 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.push(f64::from_bits(bits));
    }
    for power in -25..25 {
        out.push(10f64.powi(power));
        out.push(10f64.powi(power) * 1.7);
    }
    out
}

fn floats() -> Vec<f32> {
    let mut out = vec![
        0.0,
        -0.0,
        1.0,
        0.1,
        0.5,
        1.5,
        2.5,
        1e-3,
        9.999e-4,
        9_999_999.0,
        1e7,
        1.1e7,
        1e10,
        3.4e38,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
        3e-45,
        1.4e-44,
        2f32.powi(-130),
        8.41e21,
        2e-3,
        33_554_432.0,
        16_777_216.0,
        2_147_483_648.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1.0 / 3.0,
        9.223_372e18,
        -9.223_373e18,
        127.5,
        -129.0,
    ];
    for power in (-149..128).step_by(5) {
        out.push(2f32.powi(power));
    }
    let mut bits = 0x89AB_CDEF_u32;
    for _ in 0..140 {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        out.push(f32::from_bits(bits));
    }
    out
}

fn decimals() -> Vec<Vec<u8>> {
    let scales = [0, 1, 2, 5, 6, 7, 8, 17, 38, 308, 324, 400, -1, -2, -7, -10, -38, -309];
    let mut out = Vec::new();
    for scale in scales {
        for unscaled in [0i128, 1, -1, 10, 15, 123, -1000, 12_345, 9_999_999, 1 << 62, -(1 << 63), 1 << 70] {
            out.push(decimal(scale, unscaled));
        }
    }
    // Where a decimal has no place in a plain text.
    out.extend(
        [i32::MAX, i32::MIN, i32::MAX - 1, 10_001, -10_001, 6144, -6144].map(|scale| decimal(scale, 1)),
    );
    out.extend([i32::MAX, i32::MIN].map(|scale| decimal(scale, 0)));
    out
}

/// Texts that JSON, CQL and terminals treat in ways of their own.
fn texts() -> Vec<String> {
    let mut out: Vec<String> = (0u8..0x20).map(|byte| format!("a{}b", char::from(byte))).collect();
    let odd = [
        "",
        " ",
        "'",
        "''",
        "\"",
        "\\",
        "/",
        "a\"b'c\\d",
        "\u{7f}",
        "\u{80}",
        "\u{85}",
        "\u{9f}",
        "\u{a0}",
        "\u{ad}",
        "é",
        "ж",
        "\u{200b}",
        "\u{200e}",
        "\u{2028}",
        "\u{2029}",
        "\u{202e}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{f8ff}",
        "\u{fdd0}",
        "\u{feff}",
        "\u{fffe}",
        "\u{ffff}",
        "😀",
        "\u{10000}",
        "\u{1ffff}",
        "\u{e0001}",
        "\u{10ffff}",
        "\u{378}",
        "null",
        "true",
        "0x",
        "123",
        "@",
        ":",
        "3:foo",
        "e\u{301}",
    ];
    out.extend(odd.map(str::to_owned));
    out
}

fn inets() -> Vec<Vec<u8>> {
    let v6 = |groups: [u16; 8]| groups.iter().flat_map(|g| g.to_be_bytes()).collect::<Vec<u8>>();
    let mut out =
        [[0, 0, 0, 0], [127, 0, 0, 1], [255, 255, 255, 255], [1, 2, 3, 4], [10, 0, 0, 10], [224, 0, 0, 1]]
            .map(|b: [u8; 4]| b.to_vec())
            .to_vec();
    out.extend([
        v6([0; 8]),
        v6([0, 0, 0, 0, 0, 0, 0, 1]),
        v6([0xffff; 8]),
        v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
        v6([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1]),
        v6([1, 0, 0, 2, 0, 0, 0, 3]),
        v6([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1]),
        v6([0, 0, 0, 0, 0, 0, 0x7f00, 1]),
        v6([0xfe80, 0, 0, 0, 0xa, 0xb0, 0xc00, 0xd000]),
        v6([0x64, 0xff9b, 0, 0, 0, 0, 0xc000, 0x221]),
    ]);
    out
}

fn uuids(version: Option<u8>) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    // Ticks of 100 ns since 1582, of 60 bits: their ends, and beside whole milliseconds.
    for ticks in [
        0u64,
        1,
        9_999,
        10_000,
        122_192_928_000_000_000,
        122_192_927_999_999_999,
        139_000_000_000_000_001,
        (1 << 60) - 1,
        1 << 59,
    ] {
        for low in [0u64, 0x8080_8080_8080_8080, 0x7f7f_7f7f_7f7f_7f7f, u64::MAX] {
            let version = u64::from(version.unwrap_or(4));
            let high = ticks << 32 | (ticks >> 16 & 0xFFFF_0000) | version << 12 | ticks >> 48;
            out.push([high.to_be_bytes(), low.to_be_bytes()].concat());
        }
    }
    if version.is_none() {
        out.extend([vec![0; 16], vec![255; 16]]);
        out.extend((0..16u8).map(|nibble| [&[0x12; 6][..], &[nibble << 4 | 3], &[0x81; 9]].concat()));
    }
    out
}

fn durations() -> Vec<Vec<u8>> {
    let parts32 = [0i64, 1, 11, 12, 13, i32::MAX.into()];
    let nanos = [
        0,
        1,
        999,
        1_000,
        1_000_000,
        1_000_000_000,
        60_000_000_000,
        3_600_000_000_000,
        3_661_001_001_001,
        86_400_000_000_000,
        i64::MAX,
    ];
    let mut out = Vec::new();
    for months in parts32 {
        for days in [0, 1, 7, i32::MAX.into()] {
            for nanos in nanos {
                out.push(duration(months, days, nanos));
                out.push(duration(-months, -days, -nanos));
            }
        }
    }
    out.extend([
        duration(i32::MIN.into(), i32::MIN.into(), i64::MIN),
        duration(i32::MIN.into(), 0, 0),
        duration(0, i32::MIN.into(), 0),
        duration(0, 0, i64::MIN),
    ]);
    out.extend([
        duration(1, -1, 0),
        duration(1, 0, -1),
        duration(-1, 0, 1),
        duration(1 << 31, 0, 0),
        duration(0, -(1 << 31) - 1, 0),
    ]);
    out
}

fn blobs() -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = (0..=18).map(|len| vec![0xA5; len]).collect();
    out.extend([
        vec![0],
        vec![1],
        vec![0x7f],
        vec![0x80],
        vec![0xff; 4],
        vec![0; 8],
        b"text".to_vec(),
        vec![0, 0, 0, 0, 1],
        vec![0x10; 16],
        vec![0xc3, 0x28],
    ]);
    out
}

/// Bytes of wrong lengths and forms, tried of every type; the empty value is one of them.
fn malformed() -> Vec<Vec<u8>> {
    [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17]
        .map(|len| vec![0; len])
        .into_iter()
        .chain([vec![2], vec![0xff; 5], vec![0xff; 12]])
        .collect()
}

fn int(n: i32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn int_lists() -> Vec<Vec<u8>> {
    let one = [Some(int(1))];
    vec![
        list(&[]),
        list(&one),
        list(&[Some(int(-1)), Some(int(2)), Some(int(2))]),
        list(&[Some(Vec::new())]),
        list(&[None]),
        list(&[Some(vec![1])]),
    ]
}

/// Pairs whose keys, or elements that, are `texts`.
fn text_items(per: usize) -> Vec<Vec<u8>> {
    texts()
        .into_iter()
        .map(|text| {
            let mut out = 1i32.to_be_bytes().to_vec();
            out.extend(with_lengths(&vec![Some(text.into_bytes()); per]));
            out
        })
        .collect()
}

fn pairs(keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    keys.into_iter().map(|key| [&int(1)[..], &with_lengths(&[Some(key), Some(int(7))])].concat()).collect()
}

fn tuples() -> Vec<Vec<u8>> {
    let mut out = vec![
        fields(&[Some(int(3)), Some(b"foo".to_vec())]),
        fields(&[None, None]),
        fields(&[Some(int(3))]),
        fields(&[Some(int(3)), None]),
        fields(&[Some(Vec::new()), Some(Vec::new())]),
        fields(&[None, Some(b"a:b@c".to_vec())]),
        fields(&[Some(int(1)), Some(vec![0xff])]),
        fields(&[Some(int(1)), Some(b"x".to_vec()), Some(int(2))]),
        fields(&[Some(vec![1, 2])]),
    ];
    out.extend(texts().into_iter().map(|text| fields(&[Some(int(1)), Some(text.into_bytes())])));
    out
}

fn vectors() -> Vec<Vec<u8>> {
    let all = floats();
    let pairs = all.windows(2).step_by(7);
    pairs.map(|pair| pair.iter().flat_map(|f| f.to_be_bytes()).collect()).collect()
}

/// The values of a type of the table of types in `forms`, by the type's text.
pub fn of(ty: &str) -> Vec<Vec<u8>> {
    scalars(ty).unwrap_or_else(|| nested(ty)).into_iter().chain(malformed()).collect()
}

fn scalars(ty: &str) -> Option<Vec<Vec<u8>>> {
    Some(match ty {
        "tinyint" => tinyints(),
        "smallint" => smallints(),
        "int" => ints(),
        "bigint" | "timestamp" => bigints(),
        "varint" => integers()
            .into_iter()
            .map(varint)
            .chain([[0, 0, 1].to_vec(), [0xff, 0xff].to_vec(), vec![0x7f; 40]])
            .collect(),
        "float" => floats().into_iter().map(|f| f.to_be_bytes().to_vec()).collect(),
        "double" => doubles().into_iter().map(|f| f.to_be_bytes().to_vec()).collect(),
        "decimal" => decimals(),
        "date" => unsigned()
            .into_iter()
            .chain((0..12).map(|n| (0x8000_0000u32 - 719_530 + n).to_be_bytes().to_vec()))
            .chain([2_932_896, 2_932_897].map(|n: u32| (n + (1 << 31)).to_be_bytes().to_vec()))
            .collect(),
        "time" => bigints()
            .into_iter()
            .chain(
                [86_399_999_999_999i64, 86_400_000_000_000, 43_200_000_000_001]
                    .map(|n| n.to_be_bytes().to_vec()),
            )
            .collect(),
        "duration" => durations(),
        "boolean" => vec![vec![0], vec![1], vec![0xff]],
        "text" => texts()
            .into_iter()
            .map(String::into_bytes)
            .chain([vec![0xff], vec![0xed, 0xa0, 0x80], vec![0xc0, 0x80]])
            .collect(),
        "ascii" => texts().into_iter().map(String::into_bytes).collect(),
        "blob" => blobs(),
        "inet" => inets(),
        "uuid" => uuids(None),
        "timeuuid" => uuids(Some(1)),
        _ => return None,
    })
}

fn nested(ty: &str) -> Vec<Vec<u8>> {
    match ty {
        "list<int>" | "frozen<set<int>>" => int_lists(),
        "list<text>" => text_items(1),
        "map<text, text>" => text_items(2),
        "map<int, int>" => pairs(ints()),
        "map<timestamp, int>" => pairs(bigints()),
        "map<double, int>" => {
            pairs(doubles().into_iter().step_by(9).map(|f| f.to_be_bytes().to_vec()).collect())
        }
        "map<inet, int>" => pairs(inets()),
        "map<blob, int>" => pairs(blobs()),
        "map<boolean, int>" => pairs(vec![vec![0], vec![1]]),
        "map<frozen<list<int>>, int>" => pairs(int_lists()),
        "map<frozen<tuple<int, text>>, int>" => pairs(tuples()),
        "map<frozen<u>, int>" => pairs(tuples()),
        "tuple<int, text>" | "frozen<u>" => tuples(),
        "vector<float, 2>" => vectors(),
        "vector<text, 1>" => texts()
            .into_iter()
            .filter(|text| text.len() < 100)
            .map(|text| [&[text.len() as u8][..], text.as_bytes()].concat())
            .collect(),
        "tuple<date, timestamp, time>" => [0u32, 1 << 31, u32::MAX]
            .map(|day| {
                fields(&[
                    Some(day.to_be_bytes().to_vec()),
                    Some(i64::MIN.to_be_bytes().to_vec()),
                    Some(0i64.to_be_bytes().to_vec()),
                ])
            })
            .to_vec(),
        "list<frozen<tuple<double, inet>>>" => inets()
            .into_iter()
            .zip(doubles())
            .map(|(inet, f)| list(&[Some(fields(&[Some(f.to_be_bytes().to_vec()), Some(inet)]))]))
            .collect(),
        _ => Vec::new(),
    }
}
