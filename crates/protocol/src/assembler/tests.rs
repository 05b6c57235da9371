//! What one side writes the other reads, however the bytes are cut, in every dress; and nothing a stranger sends panics.

use super::*;
use crate::envelope::{self, Opcode};
use crate::outgoing::Outgoing;
use proptest::prelude::*;

fn envelopes(version: Version, bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (stream, body) in bodies.iter().enumerate() {
        let begun = envelope::begin(&mut out, Direction::Requests, version, stream as i16, Opcode::Query, 0);
        out.extend_from_slice(body);
        envelope::finish(&mut out, begun);
    }
    out
}

fn collect(assembler: &mut Assembler, wire: &[u8], chunk: usize) -> Result<Vec<Vec<u8>>, Error> {
    let mut bodies = Vec::new();
    for bytes in wire.chunks(chunk.max(1)) {
        assembler.push(bytes);
        while let Some(envelope) = assembler.next()? {
            bodies.push(envelope.body.to_vec());
        }
    }
    Ok(bodies)
}

fn dressed(outgoing: Outgoing) -> Assembler {
    let mut assembler = Assembler::new(Direction::Requests, 1 << 20);
    assembler.set_compression(outgoing.compression);
    if outgoing.segmented {
        assembler.use_segments();
    }
    assembler
}

fn dress() -> impl Strategy<Value = Outgoing> {
    prop_oneof![
        Just((Version::V3, Compression::Lz4, false)),
        Just((Version::V3, Compression::Snappy, false)),
        Just((Version::V4, Compression::None, false)),
        Just((Version::V4, Compression::Lz4, false)),
        Just((Version::V4, Compression::Snappy, false)),
        Just((Version::V5, Compression::None, false)),
        Just((Version::V5, Compression::None, true)),
        Just((Version::V5, Compression::Lz4, true)),
    ]
    .prop_map(|(version, compression, segmented)| Outgoing { version, compression, segmented })
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(
        outgoing in dress(),
        bodies in proptest::collection::vec(proptest::collection::vec(0u8..8, 0..300), 0..8),
        chunk in 1usize..700,
    ) {
        let mut wire = Vec::new();
        outgoing.write(&envelopes(outgoing.version, &bodies), &mut wire);
        let mut assembler = dressed(outgoing);
        prop_assert_eq!(collect(&mut assembler, &wire, chunk), Ok(bodies));
        prop_assert_eq!(assembler.buffered(), 0);
    }

    #[test]
    fn damaged_bytes_are_safe(
        outgoing in dress(),
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 1..4),
        at in any::<usize>(), bit in 0u8..8, noise: Vec<u8>, chunk in 1usize..64,
    ) {
        let mut wire = Vec::new();
        outgoing.write(&envelopes(outgoing.version, &bodies), &mut wire);
        let at = at % wire.len();
        wire[at] ^= 1 << bit;
        let result = collect(&mut dressed(outgoing), &wire, chunk);
        if outgoing.segmented {
            // Checksums cover every byte: either an error, or a length that waits for bytes that never come.
            prop_assert!(result.map_or(true, |got| got.len() < bodies.len() || got == bodies));
        }
        let _ = collect(&mut dressed(outgoing), &noise, chunk);
    }
}

#[test]
fn envelopes_larger_than_a_segment_are_cut() {
    for compression in [Compression::None, Compression::Lz4] {
        let outgoing = Outgoing { version: Version::V5, compression, segmented: true };
        let big: Vec<u8> = (0..400_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let bodies = vec![vec![1; 10], big, vec![2; 131_000], vec![3; 200]];
        let mut wire = Vec::new();
        outgoing.write(&envelopes(Version::V5, &bodies), &mut wire);
        let got = collect(&mut dressed(outgoing), &wire, 1000).expect("intact");
        assert_eq!(got, bodies);
    }
}

#[test]
fn limits_and_versions_are_kept() {
    let mut assembler = Assembler::new(Direction::Requests, 16);
    assembler.push(&[4, 0, 0, 9, 7, 0, 0, 0, 17]);
    let error = assembler.next().expect_err("too long");
    assert!(matches!(error, Error::Frame { stream: 9, .. }), "{error}");
    let mut assembler = Assembler::new(Direction::Requests, 16);
    assembler.push(&[4, 0, 0, 0, 5, 0, 0, 0, 0, 5, 0, 0, 1, 5, 0, 0, 0, 0]);
    assert!(assembler.next().expect("first").is_some());
    let error = assembler.next().expect_err("another version");
    assert_eq!(
        error.to_string(),
        "Invalid message version. Got 5/v5 but previous messages on this connection had version 4/v4"
    );
    // A compressed body that claims to be larger than any body may be.
    let mut assembler = Assembler::new(Direction::Requests, 16);
    assembler.set_compression(Compression::Lz4);
    assembler.push(&[4, 1, 0, 0, 7, 0, 0, 0, 5, 0x7F, 0, 0, 0, 0]);
    assert!(assembler.next().expect_err("too long").closes_connection());
}

#[test]
fn segments_must_hold_whole_envelopes() {
    let envelope = envelopes(Version::V5, &[vec![1; 20]]);
    let outgoing = Outgoing { version: Version::V5, compression: Compression::None, segmented: true };
    let mut wire = Vec::new();
    segment::write(&envelope[..15], true, Compression::None, &mut wire);
    assert!(collect(&mut dressed(outgoing), &wire, 100).is_err());
    wire.clear();
    segment::write(&envelope[..15], false, Compression::None, &mut wire);
    segment::write(&envelope[15..], true, Compression::None, &mut wire);
    assert!(collect(&mut dressed(outgoing), &wire, 100).is_err());
    wire.clear();
    segment::write(&envelope[..15], false, Compression::None, &mut wire);
    segment::write(&envelope[15..], false, Compression::None, &mut wire);
    assert_eq!(collect(&mut dressed(outgoing), &wire, 3), Ok(vec![vec![1; 20]]));
}

/// Ten thousand clients that each sent one large request must not hold its memory for ever.
#[test]
fn memory_of_a_large_message_is_given_back() {
    for (version, segmented) in [(Version::V4, false), (Version::V5, true)] {
        for compression in [Compression::None, Compression::Lz4] {
            let outgoing = Outgoing { version, compression, segmented };
            let mut wire = Vec::new();
            outgoing.write(&envelopes(version, &[vec![7; 900_000]]), &mut wire);
            let mut assembler = dressed(outgoing);
            assert_eq!(collect(&mut assembler, &wire, 16_384).expect("reads").len(), 1);
            let mut small = Vec::new();
            outgoing.write(&envelopes(version, &[vec![1; 10]]), &mut small);
            assert_eq!(collect(&mut assembler, &small, 100).expect("reads").len(), 1);
            let held = assembler.capacity();
            assert!(held <= 8 * BUFFER_KEPT_BYTES, "{version:?} {compression:?}: {held} bytes");
        }
    }
}

#[test]
fn the_length_of_what_is_awaited_is_known() {
    for segmented in [false, true] {
        let version = if segmented { Version::V5 } else { Version::V4 };
        let outgoing = Outgoing { version, compression: Compression::None, segmented };
        let mut wire = Vec::new();
        outgoing.write(&envelopes(version, &[vec![1; 300_000]]), &mut wire);
        let mut assembler = dressed(outgoing);
        assert_eq!(assembler.awaited(), 0);
        let (first, rest) = wire.split_at(200_000);
        assembler.push(first);
        assert_eq!(assembler.next(), Ok(None));
        assert_eq!(assembler.awaited(), 300_009);
        assembler.push(rest);
        assert!(assembler.next().unwrap().is_some());
        assert_eq!(assembler.next(), Ok(None));
        assert_eq!(assembler.awaited(), 0);
    }
}

#[test]
fn a_decompressed_body_is_given_back_with_the_next_look() {
    let outgoing = Outgoing { version: Version::V4, compression: Compression::Lz4, segmented: false };
    let mut wire = Vec::new();
    outgoing.write(&envelopes(Version::V4, &[vec![1; 1_000_000]]), &mut wire);
    let mut assembler = dressed(outgoing);
    assembler.push(&wire);
    assert!(assembler.next().unwrap().is_some());
    assert!(1_000_000 <= assembler.capacity());
    assert_eq!(assembler.next(), Ok(None));
    assert!(assembler.capacity() < 500_000, "{}", assembler.capacity());
}

#[test]
fn what_lies_ahead_is_seen_and_still_comes() {
    let bodies: Vec<Vec<u8>> = (0..9).map(|n| vec![n; 40 * usize::from(n)]).collect();
    for segmented in [false, true] {
        let version = if segmented { Version::V5 } else { Version::V4 };
        let outgoing = Outgoing { version, compression: Compression::None, segmented };
        let mut wire = Vec::new();
        outgoing.write(&envelopes(version, &bodies), &mut wire);
        let mut assembler = dressed(outgoing);
        assert!(assembler.peek(0).is_none(), "nothing has arrived");
        // The last envelope is not whole; a segment that is not has nothing to show.
        assembler.push(if segmented { &wire } else { &wire[..wire.len() - 1] });
        let mut came = 0;
        while let Some(length) = assembler.next().unwrap().map(|envelope| envelope.body.len()) {
            assert_eq!(length, bodies[came].len());
            came += 1;
            let (mut at, mut ahead) = (0, came);
            while let Some((envelope, next)) = assembler.peek(at) {
                assert_eq!((envelope.header.stream, envelope.body), (ahead as i16, &bodies[ahead][..]));
                (at, ahead) = (next, ahead + 1);
            }
            assert_eq!(ahead, if segmented { 9 } else { 8 }, "as far as whole envelopes go");
        }
        assert_eq!(came, if segmented { 9 } else { 8 });
        assert!(assembler.peek(usize::MAX).is_none() && assembler.peek(1 << 20).is_none());
    }
}
