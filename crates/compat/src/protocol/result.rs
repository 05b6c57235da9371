//! The bodies of RESULT that PREPARE and EXECUTE are answered with, taken apart.

use super::talk::{Envelope, string};

/// Rows whose columns are not named: the client has them.
const NO_METADATA: u32 = 4;
/// Rows with a new id of their columns.
const METADATA_CHANGED: u32 = 8;

/// What PREPARE gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The statement's id.
    pub id: Vec<u8>,
    /// The id of the result's columns, by version 5.
    pub columns_id: Vec<u8>,
}

impl Prepared {
    /// Takes the body of an answer apart.
    pub fn of(body: &[u8], version: u8) -> Result<Prepared, String> {
        let mut rest = body.strip_prefix(&[0, 0, 0, 4]).ok_or("PREPARE was not answered with an id")?;
        let id = short_bytes(&mut rest)?;
        let columns_id = if version >= 5 { short_bytes(&mut rest)? } else { Vec::new() };
        Ok(Prepared { id, columns_id })
    }
}

/// What EXECUTE gave.
#[derive(Debug)]
pub enum Executed {
    /// An error.
    Error {
        /// Its code.
        code: u32,
        /// Its words.
        why: String,
        /// The id that UNPREPARED names.
        id: Vec<u8>,
    },
    /// Rows.
    Rows(Rows),
    /// Anything else that is a success.
    Other,
}

/// Rows without their values.
#[derive(Debug, PartialEq, Eq)]
pub struct Rows {
    /// How many columns each row has.
    pub column_count: u32,
    /// The names of the columns, if they came along.
    pub columns: Option<Vec<String>>,
    /// The new id of the columns, if it came along.
    pub new_id: Option<Vec<u8>>,
}

impl Executed {
    /// Takes an answer apart.
    pub fn of(envelope: &Envelope) -> Result<Executed, String> {
        let response = &envelope.response;
        if let Some((code, why)) = response.error() {
            let mut rest = &response.body[6 + why.len()..];
            let id = if code == 0x2500 { short_bytes(&mut rest)? } else { Vec::new() };
            return Ok(Executed::Error { code, why, id });
        }
        match response.body.strip_prefix(&[0, 0, 0, 2]) {
            Some(rows) => Ok(Executed::Rows(Rows::of(rows)?)),
            None => Ok(Executed::Other),
        }
    }
}

impl Rows {
    fn of(mut rest: &[u8]) -> Result<Rows, String> {
        let flags = int(&mut rest)?;
        let column_count = int(&mut rest)?;
        let new_id = if flags & METADATA_CHANGED != 0 { Some(short_bytes(&mut rest)?) } else { None };
        let mut columns = None;
        if flags & NO_METADATA == 0 {
            let global = flags & 1 != 0;
            if global {
                let _names = (string(&mut rest)?, string(&mut rest)?);
            }
            let mut names = Vec::new();
            for _ in 0..column_count {
                if !global {
                    let _names = (string(&mut rest)?, string(&mut rest)?);
                }
                names.push(string(&mut rest)?);
                skip_type(&mut rest)?;
            }
            columns = Some(names);
        }
        Ok(Rows { column_count, columns, new_id })
    }
}

fn skip_type(rest: &mut &[u8]) -> Result<(), String> {
    match short(rest)? {
        0 => drop(string(rest)?),
        0x20 | 0x22 => skip_type(rest)?,
        0x21 => {
            skip_type(rest)?;
            skip_type(rest)?;
        }
        0x30 => {
            let _names = (string(rest)?, string(rest)?);
            for _ in 0..short(rest)? {
                string(rest)?;
                skip_type(rest)?;
            }
        }
        0x31 => {
            for _ in 0..short(rest)? {
                skip_type(rest)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn short(rest: &mut &[u8]) -> Result<u16, String> {
    let (number, after) = rest.split_first_chunk::<2>().ok_or("a result that ends early")?;
    *rest = after;
    Ok(u16::from_be_bytes(*number))
}

fn int(rest: &mut &[u8]) -> Result<u32, String> {
    let (number, after) = rest.split_first_chunk::<4>().ok_or("a result that ends early")?;
    *rest = after;
    Ok(u32::from_be_bytes(*number))
}

fn short_bytes(rest: &mut &[u8]) -> Result<Vec<u8>, String> {
    let len = usize::from(short(rest)?);
    let (bytes, after) = rest.split_at_checked(len).ok_or("a result that ends early")?;
    *rest = after;
    Ok(bytes.to_vec())
}
