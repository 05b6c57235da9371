//! Recursive descent over the tokens: one method per rule of the grammar, depth-limited.
//!
//! Errors are worded as Cassandra's generated parser words them: `line 1:7 no viable alternative at input 'x' (…)`.

mod admin;
mod core;
mod ddl;
mod dml;
mod expr;

use crate::ast::{Statement, StatementKind};
use crate::error::Result;
use core::Parser;
pub use core::is_reserved;

/// Parses one statement, with or without a final `;`.
/// Cost: linear in the text except where a parenthesis may be a type hint. Errors: [`crate::Error::Syntax`] only.
pub fn parse(text: &str) -> Result<Statement> {
    let mut parser = Parser::new(text)?;
    let kind = statement(&mut parser)?;
    while parser.symbol(";") {}
    if !parser.at_end() {
        return parser.mismatched("EOF");
    }
    Ok(Statement { kind, markers: parser.markers })
}

/// Parses a single value, such as a literal in a test or an option.
pub fn parse_expression(text: &str) -> Result<crate::ast::Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.expr()?;
    if !parser.at_end() {
        return parser.mismatched("EOF");
    }
    Ok(expr)
}

fn statement(p: &mut Parser) -> Result<StatementKind> {
    let Some(word) = p.peek_word() else {
        return p.no_alternative();
    };
    match word.as_str() {
        "select" => p.select().map(StatementKind::Select),
        "insert" => p.insert().map(StatementKind::Insert),
        "update" => p.update().map(StatementKind::Update),
        "delete" => p.delete().map(StatementKind::Delete),
        "begin" => p.batch().map(StatementKind::Batch),
        "use" => {
            p.advance();
            Ok(StatementKind::Use { keyspace: p.keyspace()? })
        }
        "truncate" => p.truncate(),
        "create" => p.create(),
        "alter" => p.alter(),
        "drop" => p.drop(),
        "add" => p.add_identity(),
        "grant" | "revoke" => p.grant_or_revoke(),
        "list" => p.list(),
        "describe" | "desc" => p.describe(),
        _ => p.no_alternative(),
    }
}

#[cfg(test)]
mod tests;
