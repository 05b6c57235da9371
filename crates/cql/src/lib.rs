//! CQL text to plan: lexer, parser, analysis, binding; pure.
#![forbid(unsafe_code)]

pub mod ast;
mod error;
mod function;
mod lexer;
mod limits;
mod modify;
mod names;
mod parse;
mod restriction;
mod term;
mod value;
mod where_clause;
mod write;

pub use error::{Error, Result};
pub use parse::{parse, parse_expression};
