//! The two checksums of v5 segments. Both are fixed by the protocol.

const CRC24_INIT: u32 = 0x87_5060;
const CRC24_POLYNOMIAL: u32 = 0x197_4F0B;
/// Goes into every payload checksum in front of the payload, but not over the wire.
const CRC32_PREFIX: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

/// CRC-24 of a segment header, not reflected.
pub fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = CRC24_INIT;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
        }
    }
    crc
}

/// CRC-32 of a segment payload.
pub fn payload_crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_PREFIX);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (header, crc) in [
            (&[0, 0, 2][..], 0xC4366A),
            (&[9, 0, 2], 0xC1C8A4),
            (&[0x64, 0, 2], 0x91A5F4),
            (&[0xFF, 0xFF, 1], 0xFE9138),
            (&[0x32, 0, 0xC8, 0, 4], 0x8DADEE),
            (&[9, 0, 0, 0, 4], 0x95B8C2),
        ] {
            assert_eq!(crc24(header), crc, "{header:x?}");
        }
        assert_eq!(payload_crc32(b""), 0x4477_7ED3);
        assert_eq!(payload_crc32(b"123456789"), 0xE2A2_61A7);
        assert_eq!(payload_crc32(&[5, 0, 0, 0, 5, 0, 0, 0, 0]), 0x4D28_8610);
    }
}
