//! LZ4 in its two dresses: v4 puts the length in front of the block, v5 has it in the segment header.

use crate::error::Error;

/// The compression a client asked for at STARTUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing is compressed.
    None,
    /// LZ4 blocks.
    Lz4,
}

/// Appends the raw LZ4 block of `input`.
pub fn compress_block(input: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let bound = lz4_flex::block::get_maximum_output_size(input.len());
    out.resize(start + bound, 0);
    let written = lz4_flex::block::compress_into(input, &mut out[start..])
        .expect("the output has the size that holds any compressed input");
    out.truncate(start + written);
}

/// Appends what a raw LZ4 block holds; it must be exactly `length` bytes.
pub fn decompress_block(block: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    out.resize(start + length, 0);
    match lz4_flex::block::decompress_into(block, &mut out[start..]) {
        Ok(n) if n == length => Ok(()),
        Ok(_) | Err(_) => {
            out.truncate(start);
            Err(Error::message("Decompression failed: invalid LZ4 block"))
        }
    }
}

/// Appends a v4 compressed body: uncompressed length, then the block.
pub fn compress_body(body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    compress_block(body, out);
}

/// Reads a v4 compressed body into `out`, which is cleared first.
pub fn decompress_body(body: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    out.clear();
    let Some((length, block)) = body.split_first_chunk::<4>() else {
        // An empty body may carry the flag.
        return if body.is_empty() { Ok(()) } else { Err(Error::message("Decompression failed: no length")) };
    };
    let length = u32::from_be_bytes(*length) as usize;
    if limit < length {
        return Err(Error::Message(format!(
            "Decompressed length {length} exceeds maximum allowed length {limit}"
        )));
    }
    if length == 0 {
        return Ok(());
    }
    decompress_block(block, length, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_round_trip() {
        for body in [Vec::new(), vec![7; 1000], (0..=255).collect()] {
            let (mut packed, mut back) = (Vec::new(), Vec::new());
            compress_body(&body, &mut packed);
            assert_eq!(decompress_body(&packed, 1000, &mut back), Ok(()));
            assert_eq!(back, body);
        }
        let mut out = Vec::new();
        assert!(decompress_body(&[0, 0, 4, 0, 1, 2], 1000, &mut out).is_err());
        assert!(decompress_body(&[0xFF; 9], 1000, &mut out).is_err());
        assert!(decompress_body(&[1], 1000, &mut out).is_err());
        assert_eq!(decompress_body(&[0, 0, 0, 0, 0], 1000, &mut out), Ok(()));
    }
}
