//! The cursor over the tokens: peeking, expecting, names, nesting, error texts.

use crate::ast::{Expr, TableName};
use crate::error::{Error, Result, syntax};
use crate::lexer::{self, Kind, Token};
use crate::limits;

/// Words that are never names unless quoted.
const RESERVED: [&str; 57] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "default",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "mbean",
    "mbeans",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "replace",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "truncate",
    "unlogged",
    "unset",
    "update",
];
const RESERVED_TAIL: [&str; 5] = ["use", "using", "view", "where", "with"];

/// Whether a lower-case word cannot be a name without quotes.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok() || RESERVED_TAIL.binary_search(&word).is_ok()
}

/// A cursor over the tokens of one statement.
pub struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Whether names of columns may stand in expressions, and parts of values be selected: not in values that are written
    /// or compared with.
    selects: bool,
    /// Names of the markers met so far.
    pub markers: Vec<Option<String>>,
}

impl<'a> Parser<'a> {
    /// Cuts the text into tokens.
    pub fn new(text: &'a str) -> Result<Parser<'a>> {
        Ok(Parser {
            text,
            tokens: lexer::tokens(text)?,
            at: 0,
            depth: 0,
            selects: false,
            markers: Vec::new(),
        })
    }

    /// The kind of the token `ahead` of the next one.
    pub fn peek_at(&self, ahead: usize) -> &Kind {
        let index = (self.at + ahead).min(self.tokens.len() - 1);
        &self.tokens[index].kind
    }

    /// The kind of the next token.
    pub fn peek(&self) -> &Kind {
        self.peek_at(0)
    }

    /// Passes the next token; stays at the end.
    pub fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    /// Whether everything was read.
    pub fn at_end(&self) -> bool {
        *self.peek() == Kind::End
    }

    /// Where the cursor is, to return to.
    pub fn mark(&self) -> (usize, usize) {
        (self.at, self.markers.len())
    }

    /// Returns to a mark.
    pub fn rewind(&mut self, mark: (usize, usize)) {
        self.at = mark.0;
        self.markers.truncate(mark.1);
    }

    /// Runs `rule` one level deeper; refuses past the limit.
    pub fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= limits::NESTING_DEPTH {
            return self.fail(&format!("statement is nested deeper than {} levels", limits::NESTING_DEPTH));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// Runs `rule`, in whose expressions names of columns may stand.
    pub fn selecting<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut self.selects, true);
        let result = rule(self);
        self.selects = before;
        result
    }

    /// Runs `rule`, in whose expressions no names of columns may stand.
    pub fn written<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut self.selects, false);
        let result = rule(self);
        self.selects = before;
        result
    }

    /// Whether names of columns may stand here.
    pub fn selects(&self) -> bool {
        self.selects
    }

    /// The next token in lower case if it is an unquoted word.
    pub fn peek_word(&self) -> Option<String> {
        self.word_at(0)
    }

    /// As [`Parser::peek_word`], further ahead.
    pub fn word_at(&self, ahead: usize) -> Option<String> {
        match self.peek_at(ahead) {
            Kind::Word(word) => Some(word.to_ascii_lowercase()),
            _ => None,
        }
    }

    /// Whether the next token is that keyword.
    pub fn is_keyword(&self, keyword: &str) -> bool {
        self.is_keyword_at(0, keyword)
    }

    /// Whether the token `ahead` is that keyword.
    pub fn is_keyword_at(&self, ahead: usize, keyword: &str) -> bool {
        matches!(self.peek_at(ahead), Kind::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// Passes that keyword if it is next.
    pub fn keyword(&mut self, keyword: &str) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    /// Passes these keywords if they are all next, in order.
    pub fn keywords(&mut self, keywords: &[&str]) -> bool {
        let found = keywords.iter().enumerate().all(|(ahead, keyword)| self.is_keyword_at(ahead, keyword));
        if found {
            (0..keywords.len()).for_each(|_| self.advance());
        }
        found
    }

    /// Passes that keyword or fails.
    pub fn expect_keyword(&mut self, keyword: &str) -> Result<()> {
        if self.keyword(keyword) {
            Ok(())
        } else {
            self.mismatched(&format!("K_{}", keyword.to_ascii_uppercase()))
        }
    }

    /// Passes these keywords or fails at the first that is missing.
    pub fn expect_keywords(&mut self, keywords: &[&str]) -> Result<()> {
        keywords.iter().try_for_each(|keyword| self.expect_keyword(keyword))
    }

    /// Whether the next token is that symbol.
    pub fn is_symbol(&self, symbol: &str) -> bool {
        self.is_symbol_at(0, symbol)
    }

    /// Whether the token `ahead` is that symbol.
    pub fn is_symbol_at(&self, ahead: usize, symbol: &str) -> bool {
        matches!(self.peek_at(ahead), Kind::Symbol(s) if *s == symbol)
    }

    /// Passes that symbol if it is next.
    pub fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    /// Passes that symbol, as often as it comes; false if it is not next.
    pub fn symbols(&mut self, symbol: &str) -> bool {
        let found = self.symbol(symbol);
        while self.symbol(symbol) {}
        found
    }

    /// Passes that symbol or fails.
    pub fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if self.symbol(symbol) { Ok(()) } else { self.mismatched(&format!("'{symbol}'")) }
    }

    /// One or more of `rule`, between commas.
    pub fn list_of<T>(&mut self, mut rule: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut out = vec![rule(self)?];
        while self.symbol(",") {
            out.push(rule(self)?);
        }
        Ok(out)
    }

    /// Whether the next token can be a name.
    pub fn is_name(&self) -> bool {
        match self.peek() {
            Kind::Word(word) => !is_reserved(&word.to_ascii_lowercase()),
            Kind::Quoted(_) => true,
            Kind::Text(_)
            | Kind::Integer(_)
            | Kind::Float(_)
            | Kind::Uuid(_)
            | Kind::Hex(_)
            | Kind::Duration(_)
            | Kind::Symbol(_)
            | Kind::End => false,
        }
    }

    /// A name: an unreserved word folded to lower case, or a quoted one as it is.
    pub fn name(&mut self) -> Result<String> {
        if !self.is_name() {
            return self.no_alternative();
        }
        let name = match self.peek() {
            Kind::Quoted(name) => name.clone(),
            _ => self.peek_word().expect("is_name saw a word"),
        };
        self.advance();
        Ok(name)
    }

    /// A name with an optional keyspace before a point.
    pub fn table_name(&mut self) -> Result<TableName> {
        let first = self.name()?;
        if self.symbol(".") {
            return Ok(TableName { keyspace: Some(first), name: self.name()? });
        }
        Ok(TableName { keyspace: None, name: first })
    }

    /// The name of a table.
    pub fn table(&mut self) -> Result<TableName> {
        if self.symbol("?") {
            return syntax("Bind variables cannot be used for table names");
        }
        self.table_name()
    }

    /// The name of a keyspace.
    pub fn keyspace(&mut self) -> Result<String> {
        if self.symbol("?") {
            return syntax("Bind variables cannot be used for keyspace names");
        }
        self.name()
    }

    /// `IF NOT EXISTS`, if it is next.
    pub fn if_not_exists(&mut self) -> bool {
        self.keywords(&["if", "not", "exists"])
    }

    /// `IF EXISTS`, if it is next.
    pub fn if_exists(&mut self) -> bool {
        self.keywords(&["if", "exists"])
    }

    /// A string literal.
    pub fn text(&mut self) -> Result<String> {
        let Kind::Text(text) = self.peek() else {
            return self.mismatched("STRING_LITERAL");
        };
        let text = text.clone();
        self.advance();
        Ok(text)
    }

    /// An integer literal with an optional minus.
    pub fn integer(&mut self) -> Result<String> {
        let minus = self.symbol("-");
        let Kind::Integer(digits) = self.peek() else {
            return self.mismatched("INTEGER");
        };
        let number = if minus { format!("-{digits}") } else { digits.clone() };
        self.advance();
        Ok(number)
    }

    /// A bind marker, if one is next: its number.
    pub fn marker(&mut self) -> Result<Option<usize>> {
        let name = if self.symbol("?") {
            None
        } else if self.is_symbol(":") && matches!(self.peek_at(1), Kind::Word(_) | Kind::Quoted(_)) {
            self.advance();
            Some(self.name()?)
        } else {
            return Ok(None);
        };
        if self.markers.len() == limits::MARKERS {
            return self.fail("too many bind markers: 65535 at most");
        }
        self.markers.push(name);
        Ok(Some(self.markers.len() - 1))
    }

    /// Takes a keyword that `second` must follow.
    pub fn keyword_then(&mut self, first: &str, second: &str) -> Result<bool> {
        if !self.keyword(first) {
            return Ok(false);
        }
        self.expect_keyword(second)?;
        Ok(true)
    }

    /// An integer literal or a marker, such as after LIMIT.
    pub fn integer_or_marker(&mut self) -> Result<Expr> {
        if let Some(marker) = self.marker()? {
            return Ok(Expr::Marker(marker));
        }
        let signed = usize::from(self.is_symbol("-"));
        if !matches!(self.peek_at(signed), Kind::Integer(_)) {
            return self.no_alternative();
        }
        self.integer().map(Expr::Integer)
    }

    /// Fails where no rule fits the next token.
    pub fn no_alternative<T>(&self) -> Result<T> {
        self.fail(&format!("no viable alternative at input '{}'", self.token_text()))
    }

    /// Fails where one certain token had to come.
    pub fn mismatched<T>(&self, expected: &str) -> Result<T> {
        self.fail(&format!("mismatched input '{}' expecting {expected}", self.token_text()))
    }

    fn token_text(&self) -> &str {
        let token = &self.tokens[self.at];
        if token.kind == Kind::End { "<EOF>" } else { &self.text[token.start..token.end] }
    }

    /// Where the quoted piece of the query begins: so many tokens before the next one, blanks counted as tokens.
    fn snippet_start(&self) -> usize {
        let mut from = self.tokens[self.at].start;
        let mut left = limits::SNIPPET_TOKENS;
        for token in self.tokens[..self.at].iter().rev() {
            if token.end < from {
                from = token.end;
                left -= 1;
            }
            if left == 0 {
                break;
            }
            from = token.start;
            left -= 1;
            if left == 0 {
                break;
            }
        }
        from
    }

    /// Fails at the next token with a text, position and a piece of the query.
    pub fn fail<T>(&self, what: &str) -> Result<T> {
        let token = &self.tokens[self.at];
        let (line, column) = lexer::position(self.text, token.start);
        let from = self.snippet_start();
        let lead = if from > 0 { "..." } else { "" };
        let before = &self.text[from..token.start];
        let shown = if token.kind == Kind::End { "EOF" } else { self.token_text() };
        let last = self.tokens.get(self.at + 1).is_none_or(|next| next.kind == Kind::End);
        let tail = if token.kind == Kind::End || last { "" } else { "..." };
        Err(Error::Syntax { text: format!("line {line}:{column} {what} ({lead}{before}[{shown}]{tail})") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_sorted_for_the_search() {
        assert!(RESERVED.is_sorted());
        assert!(RESERVED_TAIL.is_sorted());
        assert!(is_reserved("token"));
        assert!(!is_reserved("ttl"));
    }
}
