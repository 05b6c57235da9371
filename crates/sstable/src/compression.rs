//! Chunk compression and `CompressionInfo.db`.
//!
//! ```text
//! utf compressor, i32 options, (utf key, utf value)*, i32 chunk_length, i32 max_compressed_length,
//! i64 data_length, i32 chunk_count, i64 chunk_offset*                    before na no max_compressed_length
//! chunk in Data.db:  compressed bytes, u32 crc32 of them
//! ```
//! A chunk whose stored length reaches `max_compressed_length` is stored as it is. Layout: `docs/formats/sstables.md`.

use schema::TableOptions;
use std::cell::RefCell;
use std::io::{Read, Write};
use std::path::Path;

use crate::cursor::{Cursor, Decoded, put_short_bytes};
use crate::error::Error;
use crate::limits::CHUNK_BYTES_MAX;
use crate::version::Version;

/// A way to compress one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// `u32` little-endian length, then a raw LZ4 block.
    Lz4,
    /// A zlib stream.
    Deflate,
    /// A raw Snappy block.
    Snappy,
    /// One Zstandard frame.
    Zstd,
    /// The bytes themselves, with a checksum.
    Noop,
}

impl Compressor {
    /// The compressor of a Cassandra class name, simple or full; `None` when this crate cannot write it.
    pub fn of_class(class: &str) -> Option<Compressor> {
        match class.rsplit('.').next().unwrap_or(class) {
            "LZ4Compressor" => Some(Compressor::Lz4),
            "DeflateCompressor" => Some(Compressor::Deflate),
            "SnappyCompressor" => Some(Compressor::Snappy),
            "ZstdCompressor" => Some(Compressor::Zstd),
            "NoopCompressor" => Some(Compressor::Noop),
            _ => None,
        }
    }

    /// The simple class name; part of the format.
    pub fn class(self) -> &'static str {
        match self {
            Compressor::Lz4 => "LZ4Compressor",
            Compressor::Deflate => "DeflateCompressor",
            Compressor::Snappy => "SnappyCompressor",
            Compressor::Zstd => "ZstdCompressor",
            Compressor::Noop => "NoopCompressor",
        }
    }

    /// Appends the plain bytes of a chunk, which must be exactly `size`. Errors: what was wrong, in words.
    pub fn decompress(self, stored: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        out.resize(start + size, 0);
        self.decompress_into(stored, &mut out[start..])
    }

    /// Writes the plain bytes of a chunk, which must be exactly as many as there is room for. Errors: what was wrong, in
    /// words; then what was written means nothing.
    pub fn decompress_into(self, stored: &[u8], out: &mut [u8]) -> Result<(), String> {
        let size = out.len();
        let got = match self {
            Compressor::Lz4 => decompress_lz4(stored, out)?,
            Compressor::Deflate => {
                let mut decoder = flate2::read::ZlibDecoder::new(stored);
                decoder.read_exact(out).map_err(|error| error.to_string())?;
                size + decoder.read(&mut [0]).map_err(|error| error.to_string())?
            }
            Compressor::Snappy => {
                let told = snap::raw::decompress_len(stored).map_err(|error| error.to_string())?;
                if told != size {
                    return Err(format!("a chunk of {told} bytes"));
                }
                snap::raw::Decoder::new().decompress(stored, out).map_err(|error| error.to_string())?
            }
            Compressor::Zstd => ZSTD
                .with_borrow_mut(|decompressor| {
                    let decompressor = match decompressor {
                        Some(decompressor) => decompressor,
                        None => decompressor.insert(zstd::bulk::Decompressor::new()?),
                    };
                    decompressor.decompress_to_buffer(stored, out)
                })
                .map_err(|error| error.to_string())?,
            Compressor::Noop => {
                if stored.len() == size {
                    out.copy_from_slice(stored);
                }
                stored.len()
            }
        };
        if got == size { Ok(()) } else { Err(format!("a chunk of {got} bytes")) }
    }
}

fn decompress_lz4(stored: &[u8], out: &mut [u8]) -> Result<usize, String> {
    let Some((told, block)) = stored.split_first_chunk::<4>() else {
        return Err("no length".to_string());
    };
    let told = u32::from_le_bytes(*told) as usize;
    if told != out.len() {
        return Err(format!("a chunk of {told} bytes"));
    }
    let size = i32::try_from(out.len()).map_err(|error| error.to_string())?;
    lz4::block::decompress_to_buffer(block, Some(size), out).map_err(|error| error.to_string())
}

thread_local! {
    /// What decompressing needs beside the bytes: large, and the same for every chunk.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses chunk after chunk; buffers and, where the library allows it, the compressor's own memory serve all of them.
pub(crate) struct Encoder {
    kind: EncoderKind,
    /// The compressed chunk.
    out: Vec<u8>,
}

enum EncoderKind {
    Lz4(Lz4),
    Lz4High(lz4::block::CompressionMode),
    Deflate,
    Snappy(Box<snap::raw::Encoder>),
    Zstd(zstd::bulk::Compressor<'static>),
    Noop,
}

/// LZ4, which looks for repetitions at fewer places where it found next to none: a third less time. Elsewhere that would cost more
/// than it looks like: rows of random values have little but their timestamps and lengths to repeat, four in a hundred bytes.
struct Lz4 {
    /// The chunk before had next to nothing to gain.
    saved_little: bool,
}

impl Lz4 {
    /// How many places are left out, as the library counts them; 1 is what it does unless told.
    const ACCELERATION: i32 = 2;
    /// A chunk that saves less than one in so many bytes has next to nothing to gain; of a chunk for which fewer places were tried,
    /// one that saves more than that has.
    const LITTLE: usize = 50;
    const LITTLE_AFTER_LESS: usize = 100;

    fn mode(&self) -> lz4::block::CompressionMode {
        if self.saved_little {
            lz4::block::CompressionMode::FAST(Self::ACCELERATION)
        } else {
            lz4::block::CompressionMode::DEFAULT
        }
    }

    fn saw(&mut self, plain: usize, compressed: usize) {
        let little = if self.saved_little { Self::LITTLE_AFTER_LESS } else { Self::LITTLE };
        self.saved_little = compressed > plain - plain / little;
    }
}

impl Encoder {
    /// Of the compressor's options, one that is not given, or of no known value, is as Cassandra's default.
    /// Errors: a compressor that cannot be set up so, in words.
    pub(crate) fn new(compression: &Compression) -> Result<Encoder, String> {
        let Compression { compressor, options, .. } = compression;
        let option = |name| options.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let level = |name, default| option(name).and_then(|level| level.parse().ok()).unwrap_or(default);
        let kind = match compressor {
            Compressor::Lz4 if option("lz4_compressor_type") == Some("high") => {
                let level = level("lz4_high_compressor_level", LZ4_HIGH_LEVEL);
                EncoderKind::Lz4High(lz4::block::CompressionMode::HIGHCOMPRESSION(level))
            }
            Compressor::Lz4 => EncoderKind::Lz4(Lz4 { saved_little: false }),
            Compressor::Deflate => EncoderKind::Deflate,
            Compressor::Snappy => EncoderKind::Snappy(Box::new(snap::raw::Encoder::new())),
            Compressor::Zstd => {
                let level = level("compression_level", zstd::DEFAULT_COMPRESSION_LEVEL);
                let compressor = zstd::bulk::Compressor::new(level);
                EncoderKind::Zstd(compressor.map_err(|error| format!("Zstandard at level {level}: {error}"))?)
            }
            Compressor::Noop => EncoderKind::Noop,
        };
        Ok(Encoder { kind, out: Vec::new() })
    }

    /// The compressed form of a chunk. O(n), one buffer of the same order of size.
    pub(crate) fn compress<'e>(&'e mut self, chunk: &'e [u8]) -> &'e [u8] {
        const ROOM: &str = "there is memory, and the buffer has the size the library asks for";
        let out = &mut self.out;
        let with_room = |out: &mut Vec<u8>, size: usize| {
            if out.len() < size {
                out.resize(size, 0);
            }
        };
        let lz4 = |mode, out: &mut Vec<u8>| {
            with_room(out, 4 + lz4::block::compress_bound(chunk.len()).expect("chunks are small"));
            lz4::block::compress_to_buffer(chunk, Some(mode), true, out).expect(ROOM)
        };
        let size = match &mut self.kind {
            EncoderKind::Lz4(state) => {
                let size = lz4(state.mode(), out);
                state.saw(chunk.len(), size);
                size
            }
            EncoderKind::Lz4High(mode) => lz4(*mode, out),
            EncoderKind::Deflate => {
                out.clear();
                let mut encoder = flate2::write::ZlibEncoder::new(&mut *out, flate2::Compression::default());
                encoder
                    .write_all(chunk)
                    .and_then(|()| encoder.try_finish())
                    .expect("a Vec takes every write");
                drop(encoder);
                out.len()
            }
            EncoderKind::Snappy(encoder) => {
                with_room(out, snap::raw::max_compress_len(chunk.len()));
                encoder.compress(chunk, out).expect(ROOM)
            }
            EncoderKind::Zstd(compressor) => {
                with_room(out, zstd::zstd_safe::compress_bound(chunk.len()));
                compressor.compress_to_buffer(chunk, &mut out[..]).expect(ROOM)
            }
            EncoderKind::Noop => return chunk,
        };
        &out[..size]
    }
}

/// Level of LZ4's slow form unless the table says another.
const LZ4_HIGH_LEVEL: i32 = 9;

/// Options of a table's compression that are not the compressor's own.
const COMMON_OPTIONS: [&str; 9] = [
    "class",
    "sstable_compression",
    "chunk_length_in_kb",
    "chunk_length_kb",
    "chunk_length",
    "min_compress_ratio",
    "max_compressed_length",
    "crc_check_chance",
    "enabled",
];

/// What of a table's compression a new sstable takes. A table without compression has plain files in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionChoice {
    /// All of it.
    Table,
    /// What is fast; in the place of what is not LZ4, in chunks of 16 KiB.
    Fast,
    /// Chunks and checksums, nothing is compressed.
    None,
}

impl CompressionChoice {
    /// The choice of a name, as `flush_compression` gives it.
    pub fn of_name(name: &str) -> Option<CompressionChoice> {
        Some(match name {
            "table" => CompressionChoice::Table,
            "fast" => CompressionChoice::Fast,
            "none" => CompressionChoice::None,
            _ => return None,
        })
    }
}

/// How a new data file is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compression {
    /// How chunks are compressed.
    pub(crate) compressor: Compressor,
    /// Options of the compressor as the table gives them.
    pub(crate) options: Vec<(String, String)>,
    /// Plain bytes of a chunk.
    pub(crate) chunk_length: usize,
    /// Stored bytes from which on a chunk is stored as it is.
    pub(crate) max_compressed_length: u32,
}

impl Compression {
    /// What a new sstable of a table has; `None`: plain files. Errors: a compressor that is not known, in words.
    pub(crate) fn choose(
        choice: CompressionChoice,
        options: &TableOptions,
        version: Version,
    ) -> Result<Option<Compression>, String> {
        let of_table = Compression::of_table(options, version)?;
        let own = |compressor| Compression {
            compressor,
            options: Vec::new(),
            chunk_length: schema::CHUNK_BYTES,
            max_compressed_length: i32::MAX as u32,
        };
        Ok(of_table.map(|of_table| match choice {
            CompressionChoice::Fast if !of_table.is_affordable() => own(Compressor::Lz4),
            CompressionChoice::Fast | CompressionChoice::Table => of_table,
            CompressionChoice::None => own(Compressor::Noop),
        }))
    }

    /// Whether a flush can afford it.
    fn is_affordable(&self) -> bool {
        let high = || self.options.iter().any(|(key, value)| key == "lz4_compressor_type" && value == "high");
        match self.compressor {
            Compressor::Lz4 => !high(),
            Compressor::Snappy | Compressor::Noop => true,
            Compressor::Deflate | Compressor::Zstd => false,
        }
    }

    /// What a table asks for; `None` for plain files. Errors: a compressor that is not known, in words.
    fn of_table(options: &TableOptions, version: Version) -> Result<Option<Compression>, String> {
        let Some(class) = options.compressor() else { return Ok(None) };
        let compressor = Compressor::of_class(class).ok_or_else(|| format!("compressor \"{class}\""))?;
        let chunk_length = options.chunk_bytes();
        let ratio = options.compression.get("min_compress_ratio").and_then(|ratio| ratio.parse::<f64>().ok());
        let max_compressed_length = match ratio {
            Some(ratio) if ratio >= 1.0 && version.facts().raw_chunks => {
                (chunk_length as f64 / ratio).ceil() as u32
            }
            _ => i32::MAX as u32,
        };
        let own = options.compression.iter().filter(|(key, _)| !COMMON_OPTIONS.contains(&key.as_str()));
        let options = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(Some(Compression { compressor, options, chunk_length, max_compressed_length }))
    }

    /// Appends a chunk as it is stored: compressed, or as it is when that saves too little.
    pub(crate) fn put_chunk(&self, encoder: &mut Encoder, chunk: &[u8], out: &mut Vec<u8>) {
        let compressed = encoder.compress(chunk);
        let most = self.max_compressed_length as usize;
        if compressed.len() < most {
            out.extend_from_slice(compressed);
            return;
        }
        let start = out.len();
        out.extend_from_slice(chunk);
        // The length alone tells that it is not compressed.
        out.resize(start + chunk.len().max(most), 0);
    }
}

/// What `CompressionInfo.db` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionInfo {
    /// How chunks are compressed.
    pub compressor: Compressor,
    /// Options of the compressor as the table gave them.
    pub options: Vec<(String, String)>,
    /// Plain bytes of a chunk; a power of two. The last chunk may be shorter.
    pub chunk_length: u32,
    /// Stored bytes from which on a chunk is stored as it is; `i32::MAX` for never.
    pub max_compressed_length: u32,
    /// Plain bytes of the whole file.
    pub data_length: u64,
    /// Where each chunk starts in the file, ascending.
    pub offsets: Vec<u64>,
}

impl CompressionInfo {
    /// The component's bytes in a version.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.offsets.len() * 8);
        put_short_bytes(&mut out, self.compressor.class().as_bytes());
        out.extend_from_slice(&(self.options.len() as i32).to_be_bytes());
        for (key, value) in &self.options {
            put_short_bytes(&mut out, key.as_bytes());
            put_short_bytes(&mut out, value.as_bytes());
        }
        out.extend_from_slice(&(self.chunk_length as i32).to_be_bytes());
        if version.facts().raw_chunks {
            out.extend_from_slice(&(self.max_compressed_length as i32).to_be_bytes());
        }
        out.extend_from_slice(&(self.data_length as i64).to_be_bytes());
        out.extend_from_slice(&(self.offsets.len() as i32).to_be_bytes());
        for offset in &self.offsets {
            out.extend_from_slice(&(*offset as i64).to_be_bytes());
        }
        out
    }

    /// Reads the component. `stored_bytes` is the size of the data file it belongs to.
    /// Errors: `Corrupt` with the offset; `Unsupported` for a compressor this crate does not know.
    pub fn decode(
        file: &Path,
        version: Version,
        bytes: &[u8],
        stored_bytes: u64,
    ) -> Result<CompressionInfo, Error> {
        let mut cursor = Cursor::new(bytes);
        let class = cursor.utf().map_err(|fault| fault.in_file(file, 0))?;
        let Some(compressor) = Compressor::of_class(class) else {
            let what = format!("compressor \"{class}\"");
            return Err(Error::Unsupported { file: file.to_path_buf(), what });
        };
        decode_rest(&mut cursor, version, compressor, stored_bytes).map_err(|fault| fault.in_file(file, 0))
    }

    /// Where chunk `index` starts in the data file and how many bytes it takes there, its checksum included.
    pub fn stored(&self, index: usize, stored_bytes: u64) -> (u64, u64) {
        let start = self.offsets[index];
        let end = self.offsets.get(index + 1).copied().unwrap_or(stored_bytes);
        (start, end - start)
    }
}

fn decode_rest(
    cursor: &mut Cursor<'_>,
    version: Version,
    compressor: Compressor,
    stored_bytes: u64,
) -> Decoded<CompressionInfo> {
    let mut options = Vec::new();
    for _ in 0..cursor.count_i32(4)? {
        options.push((cursor.utf()?.to_string(), cursor.utf()?.to_string()));
    }
    let at = cursor.at();
    let chunk_length = cursor.i32()?;
    if chunk_length <= 0 || !(chunk_length as u32).is_power_of_two() || chunk_length as u64 > CHUNK_BYTES_MAX
    {
        let expected = format!("a power of two up to {CHUNK_BYTES_MAX}");
        return Err(cursor.bad_at(at, expected, chunk_length.to_string()));
    }
    let at = cursor.at();
    let max_compressed_length = if version.facts().raw_chunks { cursor.i32()? } else { i32::MAX };
    if max_compressed_length < 0 {
        return Err(cursor.bad_at(at, "a length", max_compressed_length.to_string()));
    }
    let at = cursor.at();
    let data_length = cursor.i64()?;
    let offsets_at = cursor.at();
    let count = cursor.count_i32(8)?;
    let chunks = (data_length.max(0) as u64).div_ceil(chunk_length as u64);
    // Cassandra's compaction leaves an empty chunk at the end.
    if data_length <= 0 || chunks > count as u64 || chunks + 1 < count as u64 {
        return Err(cursor.bad_at(at, format!("the length of {count} chunks"), data_length.to_string()));
    }
    let mut offsets: Vec<u64> = Vec::with_capacity(count);
    for _ in 0..count {
        let at = cursor.at();
        let offset = cursor.i64()?;
        let least = offsets.last().map_or(0, |last| last + 5);
        if offset < 0 || (offset as u64) < least || (offsets.is_empty() && offset != 0) {
            return Err(cursor.bad_at(at, format!("an offset of at least {least}"), offset.to_string()));
        }
        offsets.push(offset as u64);
    }
    if offsets.last().is_some_and(|last| last + 4 > stored_bytes) {
        let expected = format!("chunks within {stored_bytes} bytes");
        return Err(cursor.bad_at(offsets_at, expected, "an offset beyond them"));
    }
    Ok(CompressionInfo {
        compressor,
        options,
        chunk_length: chunk_length as u32,
        max_compressed_length: max_compressed_length as u32,
        data_length: data_length as u64,
        offsets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(compressor: Compressor, options: &[(&str, &str)]) -> Encoder {
        let options = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let (chunk_length, max_compressed_length) = (schema::CHUNK_BYTES, i32::MAX as u32);
        Encoder::new(&Compression { compressor, options, chunk_length, max_compressed_length }).unwrap()
    }

    const ALL: [Compressor; 5] =
        [Compressor::Lz4, Compressor::Deflate, Compressor::Snappy, Compressor::Zstd, Compressor::Noop];

    #[test]
    fn every_compressor_gives_the_chunk_back() {
        let chunk: Vec<u8> = (0..20_000u32).map(|i| (i / 7 % 251) as u8).collect();
        for compressor in ALL {
            let mut encoder = encoder(compressor, &[]);
            // The shorter chunk shows that nothing of the one before stays.
            for chunk in [&chunk[..], &chunk[5_000..5_001], &chunk[..0], &chunk[..]] {
                let stored = encoder.compress(chunk);
                let mut plain = vec![7];
                compressor.decompress(stored, chunk.len(), &mut plain).unwrap();
                assert_eq!(plain[1..], *chunk);
                assert!(compressor.decompress(stored, chunk.len() + 1, &mut Vec::new()).is_err());
                if chunk.len() > 1 {
                    assert!(compressor.decompress(stored, chunk.len() - 1, &mut Vec::new()).is_err());
                    let half = &stored[..stored.len() / 2];
                    assert!(compressor.decompress(half, chunk.len(), &mut Vec::new()).is_err());
                }
            }
            assert_eq!(Compressor::of_class(compressor.class()), Some(compressor));
        }
        assert_eq!(
            Compressor::of_class("org.apache.cassandra.io.compress.LZ4Compressor"),
            Some(Compressor::Lz4)
        );
        assert_eq!(Compressor::of_class("BrotliCompressor"), None);
    }

    #[test]
    fn lz4_tries_less_after_a_chunk_with_next_to_nothing_to_gain_and_only_then() {
        let mut prng = base::Prng::new(7);
        let mut noise = vec![0; 16_384];
        prng.fill(&mut noise);
        let words: Vec<Vec<u8>> = (0..300).map(|_| (0..7).map(|_| prng.below(256) as u8).collect()).collect();
        let text: Vec<u8> = (0..2_000).flat_map(|_| words[prng.below(300) as usize].clone()).collect();
        // Random values, each behind the same few bytes.
        let mut cells = noise.clone();
        cells.chunks_mut(39).for_each(|cell| {
            cell.iter_mut().zip([0, 0xc3, 0xb3, 0xe0, 34]).for_each(|(byte, same)| *byte = same);
        });
        let sizes = |chunks: &[&[u8]]| {
            let mut encoder = encoder(Compressor::Lz4, &[]);
            let size = |chunk: &&[u8]| {
                let stored = encoder.compress(chunk);
                let mut plain = Vec::new();
                Compressor::Lz4.decompress(stored, chunk.len(), &mut plain).unwrap();
                assert!(plain == *chunk);
                stored.len()
            };
            chunks.iter().map(size).collect::<Vec<_>>()
        };
        let mixed = sizes(&[&text, &noise, &text, &text]);
        assert!(mixed[1] > noise.len() && mixed[0] < text.len() * 8 / 10);
        assert!(mixed[2] > mixed[0], "the chunk after what does not compress");
        assert_eq!(mixed[3], mixed[0]);
        let mixed = sizes(&[&noise, &cells, &cells, &cells]);
        assert!(mixed[1] > mixed[2], "{mixed:?}");
        assert!((9_000..9_800).contains(&(mixed[2] * 10_000 / cells.len())), "{mixed:?}");
        assert_eq!(mixed[3], mixed[2], "what saves one byte in forty is worth the search");
    }

    #[test]
    fn a_flush_takes_what_is_fast_of_a_tables_compression() {
        let chosen = |choice, options: &[(&str, &str)]| {
            let compression = options.iter().map(|(key, value)| (key.to_string(), value.to_string()));
            let options = TableOptions { compression: compression.collect(), ..TableOptions::cassandra() };
            let chosen = Compression::choose(choice, &options, Version::Nb).unwrap();
            chosen.map(|chosen| (chosen.compressor, chosen.chunk_length, chosen.options.len()))
        };
        use CompressionChoice::{Fast, None as Nothing, Table};
        let zstd = [("class", "ZstdCompressor"), ("chunk_length_in_kb", "64"), ("compression_level", "19")];
        let high = [("class", "LZ4Compressor"), ("lz4_compressor_type", "high")];
        let snappy = [("class", "SnappyCompressor"), ("chunk_length_in_kb", "64")];
        assert_eq!(chosen(Table, &zstd), Some((Compressor::Zstd, 65_536, 1)));
        assert_eq!(chosen(Fast, &zstd), Some((Compressor::Lz4, 16_384, 0)));
        assert_eq!(chosen(Fast, &[("class", "DeflateCompressor")]), Some((Compressor::Lz4, 16_384, 0)));
        assert_eq!(chosen(Fast, &high), Some((Compressor::Lz4, 16_384, 0)));
        assert_eq!(chosen(Fast, &snappy), Some((Compressor::Snappy, 65_536, 0)));
        assert_eq!(chosen(Nothing, &snappy), Some((Compressor::Noop, 16_384, 0)));
        for choice in [Table, Fast, Nothing] {
            assert_eq!(chosen(choice, &[("enabled", "false")]), None);
        }
    }

    #[test]
    fn options_of_a_compressor_change_how_hard_it_tries() {
        let mut prng = base::Prng::new(5);
        let words: Vec<Vec<u8>> = (0..60).map(|_| (0..9).map(|_| prng.below(256) as u8).collect()).collect();
        let chunk: Vec<u8> = (0..3_000).flat_map(|_| words[prng.below(60) as usize].clone()).collect();
        let size = |compressor, options: &[(&str, &str)]| {
            let mut encoder = encoder(compressor, options);
            let stored = encoder.compress(&chunk);
            let mut plain = Vec::new();
            compressor.decompress(stored, chunk.len(), &mut plain).unwrap();
            assert!(plain == chunk);
            stored.len()
        };
        let fast = size(Compressor::Lz4, &[]);
        assert_eq!(fast, size(Compressor::Lz4, &[("lz4_compressor_type", "fast")]));
        let high = [("lz4_compressor_type", "high"), ("lz4_high_compressor_level", "17")];
        assert!(size(Compressor::Lz4, &high) < fast);
        let zstd = |level| size(Compressor::Zstd, &[("compression_level", level)]);
        assert_eq!(zstd("3"), size(Compressor::Zstd, &[]));
        assert!(zstd("19") < zstd("3") && zstd("3") < zstd("-100"));
    }

    #[test]
    fn info_is_read_back_and_its_truncations_are_refused() {
        let info = CompressionInfo {
            compressor: Compressor::Lz4,
            options: vec![("lz4_compressor_type".to_string(), "high".to_string())],
            chunk_length: 16384,
            max_compressed_length: i32::MAX as u32,
            data_length: 40_000,
            offsets: vec![0, 900, 1800],
        };
        for version in Version::ALL {
            let bytes = info.encode(version);
            let file = Path::new("CompressionInfo.db");
            assert_eq!(CompressionInfo::decode(file, version, &bytes, 2000).unwrap(), info);
            for size in 0..bytes.len() {
                assert!(CompressionInfo::decode(file, version, &bytes[..size], 2000).is_err());
            }
            assert!(CompressionInfo::decode(file, version, &bytes, 1803).is_err());
        }
        assert_eq!(info.stored(2, 2000), (1800, 200));
    }
}
