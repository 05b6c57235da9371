//! Rows results: written value by value straight into the output, read in place.

use crate::envelope::{self, Begun, Direction, Opcode, Version};
use crate::error::Error;
use crate::extras::Extras;
use crate::metadata::{ColumnSpec, Metadata, RowsHeader, put_rows_metadata};
use crate::wire::{Reader, put_bytes, put_int};

/// The result kind of rows.
pub(crate) const RESULT_ROWS: i32 = 2;

/// Writes a Rows result into a buffer: header first, then values one after another; lengths and counts are filled in afterwards, and nothing
/// else is allocated.
#[derive(Debug)]
#[must_use]
pub struct RowsWriter<'o> {
    out: &'o mut Vec<u8>,
    begun: Begun,
    count_at: usize,
    row_at: usize,
    rows: u32,
}

impl<'o> RowsWriter<'o> {
    /// Writes everything up to the rows.
    pub fn begin(
        out: &'o mut Vec<u8>,
        version: Version,
        stream: i16,
        extras: &Extras<'_>,
        columns: &[ColumnSpec],
        header: RowsHeader<'_>,
    ) -> RowsWriter<'o> {
        let begun = envelope::begin(
            out,
            Direction::Responses,
            version,
            stream,
            Opcode::Result,
            extras.flags(version),
        );
        extras.encode(out, version);
        put_int(out, RESULT_ROWS);
        put_rows_metadata(out, version, columns, header);
        let count_at = out.len();
        put_int(out, 0);
        let row_at = out.len();
        RowsWriter { out, begun, count_at, row_at, rows: 0 }
    }

    /// Writes a value's bytes, or null.
    #[inline]
    pub fn value(&mut self, value: Option<&[u8]>) {
        put_bytes(self.out, value);
    }

    /// Writes a value whose bytes `fill` appends.
    pub fn value_with(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let at = self.out.len();
        put_int(self.out, 0);
        fill(self.out);
        let length = (self.out.len() - at - 4) as i32;
        self.out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Ends a row; the caller has written as many values as there are columns.
    #[inline]
    pub fn end_row(&mut self) {
        self.rows += 1;
        self.row_at = self.out.len();
    }

    /// Forgets the values written since the last [`end_row`](RowsWriter::end_row).
    pub fn discard_row(&mut self) {
        self.out.truncate(self.row_at);
    }

    /// Rows ended so far.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Bytes of the rows ended so far.
    pub fn row_bytes(&self) -> usize {
        self.row_at - self.count_at - 4
    }

    /// Fills in row count and length; a row not ended is forgotten.
    pub fn finish(mut self) {
        self.discard_row();
        let count = self.rows.to_be_bytes();
        self.out[self.count_at..self.count_at + 4].copy_from_slice(&count);
        envelope::finish(self.out, self.begun);
    }
}

/// A Rows result as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<'a> {
    /// The metadata.
    pub metadata: Metadata<'a>,
    /// How many rows there are.
    pub row_count: usize,
    content: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Reads the metadata and checks that every row is there.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Rows<'a>, Error> {
        let metadata = Metadata::decode(reader)?;
        let row_count = usize::try_from(reader.int()?).map_err(|_| Error::message("negative row count"))?;
        if metadata.column_count == 0 && row_count > 0 {
            return Err(Error::message("rows without columns"));
        }
        let content = reader.rest();
        let start = reader.position();
        for _ in 0..row_count {
            for _ in 0..metadata.column_count {
                reader.bytes()?;
            }
        }
        Ok(Rows { metadata, row_count, content: &content[..reader.position() - start] })
    }

    /// The rows; each is its values, null being `None`.
    pub fn iter(&self) -> impl Iterator<Item = Vec<Option<&'a [u8]>>> + use<'a> {
        let mut reader = Reader::new(self.content);
        let columns = self.metadata.column_count;
        (0..self.row_count).map_while(move |_| (0..columns).map(|_| reader.bytes().ok()).collect())
    }

    /// The values of the rows as they stand on the wire: per value `i32 length, bytes`.
    pub fn content(&self) -> &'a [u8] {
        self.content
    }
}
