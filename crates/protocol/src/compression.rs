//! LZ4 in its two dresses (v3 and v4 put the length in front of the block, v5 has it in the segment header), and Snappy,
//! whose block begins with its length.

use crate::error::Error;

/// The compression a client asked for at STARTUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing is compressed.
    None,
    /// LZ4 blocks.
    Lz4,
    /// Snappy blocks: versions 3 and 4.
    Snappy,
}

impl Compression {
    /// The name in SUPPORTED and STARTUP; none for none.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Compression::None => None,
            Compression::Lz4 => Some("lz4"),
            Compression::Snappy => Some("snappy"),
        }
    }
}

/// Appends the raw LZ4 block of `input`.
pub fn compress_block(input: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let bound = lz4::block::compress_bound(input.len()).expect("frames are far below two gigabytes");
    out.resize(start + bound, 0);
    let written = lz4::block::compress_to_buffer(input, None, false, &mut out[start..])
        .expect("the output has the size that holds any compressed input");
    out.truncate(start + written);
}

/// Appends what a raw LZ4 block holds; it must be exactly `length` bytes.
pub fn decompress_block(block: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    out.resize(start + length, 0);
    let size = i32::try_from(length).ok();
    match size.map(|size| lz4::block::decompress_to_buffer(block, Some(size), &mut out[start..])) {
        Some(Ok(n)) if n == length => Ok(()),
        _ => {
            out.truncate(start);
            Err(Error::message("Decompression failed: invalid LZ4 block"))
        }
    }
}

/// Appends a v3 or v4 compressed body.
pub fn compress_body(compression: Compression, body: &[u8], out: &mut Vec<u8>) {
    match compression {
        Compression::None => out.extend_from_slice(body),
        Compression::Lz4 => {
            out.extend_from_slice(&(body.len() as u32).to_be_bytes());
            compress_block(body, out);
        }
        Compression::Snappy => {
            let start = out.len();
            out.resize(start + snap::raw::max_compress_len(body.len()), 0);
            let written = snap::raw::Encoder::new()
                .compress(body, &mut out[start..])
                .expect("the output has the size that holds any compressed input");
            out.truncate(start + written);
        }
    }
}

/// Reads a v3 or v4 compressed body of at most `limit` bytes into `out`, which is cleared first.
pub fn decompress_body(
    compression: Compression,
    body: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    out.clear();
    // An empty body may carry the flag.
    if body.is_empty() {
        return Ok(());
    }
    let checked = |length: usize| match length <= limit {
        true => Ok(length),
        false => Err(Error::Message(format!(
            "Decompressed length {length} exceeds maximum allowed length {limit}"
        ))),
    };
    match compression {
        Compression::None => out.extend_from_slice(body),
        Compression::Lz4 => {
            let Some((length, block)) = body.split_first_chunk::<4>() else {
                return Err(Error::message("Decompression failed: no length"));
            };
            match checked(u32::from_be_bytes(*length) as usize)? {
                0 => {}
                length => decompress_block(block, length, out)?,
            }
        }
        Compression::Snappy => {
            let invalid = |_| Error::message("Decompression failed: invalid Snappy block");
            let length = checked(snap::raw::decompress_len(body).map_err(invalid)?)?;
            out.resize(length, 0);
            snap::raw::Decoder::new().decompress(body, out).map_err(invalid)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_round_trip() {
        for compression in [Compression::None, Compression::Lz4, Compression::Snappy] {
            for body in [Vec::new(), vec![7; 1000], (0..=255).collect()] {
                let (mut packed, mut back) = (Vec::new(), Vec::new());
                compress_body(compression, &body, &mut packed);
                assert_eq!(decompress_body(compression, &packed, 1000, &mut back), Ok(()));
                assert_eq!(back, body);
            }
        }
    }

    #[test]
    fn bad_bodies_are_refused() {
        let mut out = Vec::new();
        for body in [&[0, 0, 4, 0, 1, 2][..], &[0xFF; 9], &[1]] {
            assert!(decompress_body(Compression::Lz4, body, 1000, &mut out).is_err());
        }
        assert_eq!(decompress_body(Compression::Lz4, &[0, 0, 0, 0, 0], 1000, &mut out), Ok(()));
        // A block of another length than it says, one longer than allowed, no length, no block.
        for body in [&[5, 0x0c, b'a', b'b'][..], &[0x80, 0x80, 0x04], &[0xFF; 9], &[5]] {
            assert!(decompress_body(Compression::Snappy, body, 1000, &mut out).is_err());
        }
        // The block of an empty body is its length alone.
        assert_eq!(decompress_body(Compression::Snappy, &[0], 1000, &mut out), Ok(()));
        assert_eq!(decompress_body(Compression::Snappy, &[3, 0x08, b'a', b'b', b'c'], 3, &mut out), Ok(()));
        assert_eq!(out, b"abc");
    }
}
