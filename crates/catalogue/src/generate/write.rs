//! The catalogue as a file: CSV, or a dump as `mysqldump` writes them.

use super::Generator;
use crate::error::Error;
use crate::input::Format;
use crate::limits::CHUNK_BYTES;
use crate::path;
use crate::record::{FIELDS, Record};
use runtime::file::{AlignedBuf, File, OpenOptions};
use std::io::Write as _;
use types::datetime;

/// Bytes of an INSERT, about: as `mysqldump` makes them.
const INSERT_BYTES: usize = 1_000_000;

const DUMP_HEAD: &str = "\
-- MySQL dump of a generated catalogue
/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `files`;
CREATE TABLE `files` (
  `path` varchar(4096) NOT NULL,
  `owner` varchar(64) NOT NULL,
  `permissions` char(4) NOT NULL DEFAULT '0644' COMMENT 'octal; as of a file system',
  `size` bigint(20) unsigned NOT NULL,
  `changed` datetime(3) NOT NULL,
  `guid` binary(16) NOT NULL,
  `locations` text,
  KEY `by_guid` (`guid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
LOCK TABLES `files` WRITE;
/*!40000 ALTER TABLE `files` DISABLE KEYS */;
";
const DUMP_TAIL: &str = "/*!40000 ALTER TABLE `files` ENABLE KEYS */;\nUNLOCK TABLES;\n-- Dump completed\n";

/// A file that grows.
struct Growing {
    name: String,
    file: File,
    offset: u64,
    pending: Vec<u8>,
}

impl Growing {
    async fn flush(&mut self) -> Result<(), Error> {
        let buffer = AlignedBuf::from(&self.pending[..]);
        let written = self.file.write_at(self.offset, buffer).await;
        written.map_err(|error| Error::file(&self.name, error))?;
        self.offset += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Writes all files of a catalogue; what the file held before is gone. Gives its bytes.
pub async fn write(generator: &Generator, name: &str, format: Format) -> Result<u64, Error> {
    let options = OpenOptions { truncate: true, ..OpenOptions::CREATE };
    let file = File::open(name, options).await.map_err(|error| Error::file(name, error))?;
    let mut out = Growing { name: name.to_owned(), file, offset: 0, pending: Vec::new() };
    match format {
        Format::Csv => out.pending.extend_from_slice((FIELDS.join(",") + "\r\n").as_bytes()),
        Format::Mysql => out.pending.extend_from_slice(DUMP_HEAD.as_bytes()),
    }
    // Bytes of the INSERT that is not ended.
    let mut statement = 0;
    for folder in 0..generator.folders() {
        let path = generator.folder_path(folder);
        for nth in 0..generator.files_of(folder).end - generator.files_of(folder).start {
            let facts = generator.file_in(folder, nth);
            let path = path::join(&path, &facts.name);
            let before = out.pending.len();
            match format {
                Format::Csv => put_csv(&facts.record(&path), &mut out.pending),
                Format::Mysql => {
                    let begin: &[u8] = if statement == 0 { b"INSERT INTO `files` VALUES " } else { b"," };
                    out.pending.extend_from_slice(begin);
                    put_values(&facts.record(&path), &mut out.pending);
                    statement += out.pending.len() - before;
                    if INSERT_BYTES < statement {
                        out.pending.extend_from_slice(b";\n");
                        statement = 0;
                    }
                }
            }
            if CHUNK_BYTES <= out.pending.len() {
                out.flush().await?;
            }
        }
        runtime::yield_if_needed().await;
    }
    if format == Format::Mysql {
        let end: &[u8] = if statement == 0 { b"" } else { b";\n" };
        out.pending.extend_from_slice(end);
        out.pending.extend_from_slice(DUMP_TAIL.as_bytes());
    }
    out.flush().await?;
    Ok(out.offset)
}

/// Appends to memory, which does not fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { write!($out, $($text)*).expect("memory") };
}

/// Appends a line of CSV.
pub fn put_csv(record: &Record<'_>, out: &mut Vec<u8>) {
    put_csv_text(record.path, out);
    out.push(b',');
    put_csv_text(record.owner, out);
    put!(out, ",{:03o},{},{},{},", record.permissions, record.size, record.changed, record.guid);
    put_csv_text(record.locations, out);
    out.extend_from_slice(b"\r\n");
}

fn put_csv_text(text: &str, out: &mut Vec<u8>) {
    if !text.contains([',', '"', '\r', '\n']) {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

/// Appends a row of an INSERT.
pub fn put_values(record: &Record<'_>, out: &mut Vec<u8>) {
    out.push(b'(');
    put_string(record.path, out);
    out.push(b',');
    put_string(record.owner, out);
    put!(out, ",'{:04o}',{},", record.permissions, record.size);
    let changed = datetime::format_timestamp(record.changed).replace('T', " ");
    put!(out, "'{}',0x{},", changed.trim_end_matches('Z'), record.guid.simple());
    put_string(record.locations, out);
    out.push(b')');
}

fn put_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'\'');
    for byte in text.bytes() {
        match byte {
            b'\'' | b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\0"),
            26 => out.extend_from_slice(b"\\Z"),
            byte => out.push(byte),
        }
    }
    out.push(b'\'');
}
