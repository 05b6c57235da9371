//! Rows of files to import, however large: CSV, or INSERT statements of a MySQL dump. What is wrong is named with file and line.

mod csv;
mod mysql;

use crate::error::Error;
use crate::limits::{BLOCK_ROWS, CHUNK_BYTES, ROW_BYTES_MAX};
use crate::record::{Block, Columns, Row};
use runtime::file::{AlignedBuf, File, OpenOptions};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma separated, as RFC 4180 says; a first row with the names of the columns is optional.
    Csv,
    /// What `mysqldump` writes.
    Mysql,
}

impl Format {
    /// By the ending of a file's name.
    pub fn of_file(name: &str) -> Option<Format> {
        let ending = name.rsplit_once('.')?.1.to_ascii_lowercase();
        match ending.as_str() {
            "csv" => Some(Format::Csv),
            "sql" | "dump" => Some(Format::Mysql),
            _ => None,
        }
    }
}

/// What a parser found at the beginning of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A row, in so many bytes.
    Row(usize),
    /// Names of columns, or something that is none of ours, in so many bytes.
    Passed(usize),
    /// The bytes end too early.
    More,
    /// Nothing more.
    End,
}

enum Parser {
    Csv(csv::Csv),
    Mysql(mysql::Mysql),
}

impl Parser {
    fn next(&mut self, bytes: &[u8], is_last: bool, row: &mut Row) -> Result<Step, String> {
        match self {
            Parser::Csv(parser) => parser.next(bytes, is_last, row),
            Parser::Mysql(parser) => parser.next(bytes, is_last, row),
        }
    }

    fn columns(&self) -> &Columns {
        match self {
            Parser::Csv(parser) => &parser.columns,
            Parser::Mysql(parser) => &parser.columns,
        }
    }
}

/// A file that is read row by row.
pub struct Source {
    name: String,
    file: File,
    /// How much of the file is in memory or was.
    read: u64,
    buffer: Vec<u8>,
    at: usize,
    chunk: Option<AlignedBuf>,
    ended: bool,
    line: u64,
    /// The line of `row`.
    row_line: u64,
    parser: Parser,
    row: Row,
    /// `row` was read and belongs to the next block.
    is_pending: bool,
}

impl Source {
    /// Opens a file. `table`: of a dump, whose rows are wanted.
    pub async fn open(name: &str, format: Format, table: &str) -> Result<Source, Error> {
        let file = File::open(name, OpenOptions::READ).await.map_err(|error| opening(name, error))?;
        Ok(Source {
            name: name.to_owned(),
            file,
            read: 0,
            buffer: Vec::new(),
            at: 0,
            chunk: None,
            ended: false,
            line: 1,
            row_line: 1,
            parser: match format {
                Format::Csv => Parser::Csv(csv::Csv::default()),
                Format::Mysql => Parser::Mysql(mysql::Mysql::new(table)),
            },
            row: Row::default(),
            is_pending: false,
        })
    }

    /// Bytes of the file, and how many of them were read.
    pub async fn progress(&self) -> Result<(u64, u64), Error> {
        let size = self.file.size().await.map_err(|error| opening(&self.name, error))?;
        Ok((self.read - (self.buffer.len() - self.at) as u64, size))
    }

    /// Fills a block with the next records, all of one folder. Empty: there are no more.
    pub async fn next_block(&mut self, block: &mut Block) -> Result<(), Error> {
        block.clear();
        while block.len() < BLOCK_ROWS {
            if !self.is_pending && !self.next_row().await? {
                break;
            }
            let record = self.parser.columns().record(&self.row);
            let wrong = |reason| Error::Line { file: self.name.clone(), line: self.row_line, reason };
            let record = record.map_err(wrong)?;
            self.is_pending = !block.push(&record);
            if self.is_pending {
                break;
            }
        }
        Ok(())
    }

    /// Reads the next row; false at the end.
    async fn next_row(&mut self) -> Result<bool, Error> {
        loop {
            let bytes = &self.buffer[self.at..];
            let step = self.parser.next(bytes, self.ended, &mut self.row);
            let step = step.map_err(|reason| self.wrong(reason))?;
            let taken = match step {
                Step::Row(taken) | Step::Passed(taken) => taken,
                Step::End => return Ok(false),
                Step::More => {
                    self.fill().await?;
                    continue;
                }
            };
            let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.row_line = self.line + lines(&bytes[..blank.min(taken)]);
            self.line += lines(&bytes[..taken]);
            self.at += taken;
            if matches!(step, Step::Row(_)) {
                return Ok(true);
            }
        }
    }

    /// Reads the next part of the file behind what is left of the last one.
    async fn fill(&mut self) -> Result<(), Error> {
        if self.ended {
            return Err(self.wrong("the file ends in the middle of this".into()));
        }
        if ROW_BYTES_MAX < self.buffer.len() - self.at {
            return Err(self.wrong(format!("a row or statement has more than {} MiB", ROW_BYTES_MAX >> 20)));
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let mut chunk = self.chunk.take().unwrap_or_else(|| AlignedBuf::zeroed(CHUNK_BYTES));
        chunk.set_len(CHUNK_BYTES);
        let (chunk, count) =
            self.file.read_at(self.read, chunk).await.map_err(|error| opening(&self.name, error))?;
        self.buffer.extend_from_slice(&chunk[..count]);
        self.chunk = Some(chunk);
        self.read += count as u64;
        self.ended = count == 0;
        Ok(())
    }

    fn wrong(&self, reason: String) -> Error {
        Error::Line { file: self.name.clone(), line: self.line, reason }
    }
}

fn opening(name: &str, error: std::io::Error) -> Error {
    let reason = runtime::file::reason(&error, name.as_ref());
    Error::file(name, std::io::Error::new(error.kind(), reason))
}

#[cfg(test)]
mod tests;
