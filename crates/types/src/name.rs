//! CQL text of types: `frozen<map<text, int>>`.

use crate::cql_type::{CqlType, SCALARS, UdtType};
use crate::error::TypeError;
use crate::limits::{FIELDS_MAX, TYPE_DEPTH_MAX, TYPE_TEXT_BYTES_MAX, VECTOR_DIMENSION_MAX};
use std::sync::Arc;

/// Finds the user type with this (unquoted) name, optionally of another keyspace.
pub type Resolve<'r> = &'r dyn Fn(Option<&str>, &str) -> Option<Arc<UdtType>>;

impl CqlType {
    /// Parses CQL text without user types.
    pub fn parse(text: &str) -> Result<CqlType, TypeError> {
        CqlType::parse_with(text, &|_, _| None)
    }

    /// Parses CQL text; names that are no built-in type are user types found by `resolve`.
    pub fn parse_with(text: &str, resolve: Resolve<'_>) -> Result<CqlType, TypeError> {
        if text.len() > TYPE_TEXT_BYTES_MAX {
            return Err(TypeError::Name("type text too long".into()));
        }
        let mut parser = Parser { rest: text, text, resolve };
        let ty = parser.ty(0)?;
        parser.space();
        if parser.rest.is_empty() { Ok(ty) } else { Err(parser.bad()) }
    }
}

struct Parser<'t, 'r> {
    rest: &'t str,
    text: &'t str,
    resolve: Resolve<'r>,
}

impl Parser<'_, '_> {
    fn bad(&self) -> TypeError {
        TypeError::Name(format!("Unable to parse CQL type '{}'", self.text))
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, symbol: char) -> bool {
        self.space();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, symbol: char) -> Result<(), TypeError> {
        if self.take(symbol) { Ok(()) } else { Err(self.bad()) }
    }

    /// A bare word or the inside of quotes; true when quoted.
    fn word(&mut self) -> Result<(String, bool), TypeError> {
        self.space();
        for quote in ['"', '\''] {
            if let Some(inside) = self.rest.strip_prefix(quote) {
                return self.quoted(inside, quote);
            }
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.bad());
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok((word.to_ascii_lowercase(), false))
    }

    fn quoted(&mut self, inside: &str, quote: char) -> Result<(String, bool), TypeError> {
        let mut name = String::new();
        let mut chars = inside.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c != quote {
                name.push(c);
            } else if chars.peek().is_some_and(|(_, next)| *next == quote) {
                chars.next();
                name.push(quote);
            } else {
                let consumed = self.rest.len() - inside.len() + at + 1;
                self.rest = &self.rest[consumed..];
                return Ok((name, true));
            }
        }
        Err(self.bad())
    }

    fn ty(&mut self, depth: usize) -> Result<CqlType, TypeError> {
        if depth > TYPE_DEPTH_MAX {
            return Err(TypeError::Name("type nested too deeply".into()));
        }
        self.space();
        if self.rest.starts_with('\'') {
            let (class, _) = self.word()?;
            return CqlType::parse_class(&class);
        }
        let (name, quoted) = self.word()?;
        if !quoted {
            if let Some(ty) = self.generic(&name, depth)? {
                return Ok(ty);
            }
            if let Some((ty, _)) = SCALARS.iter().find(|(_, n)| *n == name) {
                return Ok(ty.clone());
            }
            if name == "varchar" {
                return Ok(CqlType::Text);
            }
        }
        let (keyspace, name) = if self.take('.') { (Some(name), self.word()?.0) } else { (None, name) };
        (self.resolve)(keyspace.as_deref(), &name)
            .map(CqlType::Udt)
            .ok_or_else(|| TypeError::Name(format!("Unknown type {name}")))
    }

    /// `list<..>` and its relatives; `None` when the word is none of them or no `<` follows.
    fn generic(&mut self, name: &str, depth: usize) -> Result<Option<CqlType>, TypeError> {
        if !["list", "set", "map", "tuple", "vector", "frozen"].contains(&name) || !self.take('<') {
            return Ok(None);
        }
        let first = self.ty(depth + 1)?;
        let ty = match name {
            "list" => CqlType::list(first),
            "set" => CqlType::set(first),
            "frozen" => first.frozen(),
            "map" => {
                self.expect(',')?;
                CqlType::map(first, self.ty(depth + 1)?)
            }
            "vector" => {
                self.expect(',')?;
                let (digits, _) = self.word()?;
                match digits.parse::<u32>() {
                    Ok(n) if 0 < n && n <= VECTOR_DIMENSION_MAX => CqlType::Vector(Arc::new(first), n),
                    _ => return Err(self.bad()),
                }
            }
            _ => {
                let mut fields = vec![first];
                while self.take(',') {
                    fields.push(self.ty(depth + 1)?);
                }
                if fields.len() > FIELDS_MAX {
                    return Err(TypeError::Name("tuple has too many fields".into()));
                }
                CqlType::tuple(fields).frozen()
            }
        };
        self.expect('>')?;
        Ok(Some(ty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_a_round_trip() {
        for text in [
            "int",
            "list<text>",
            "frozen<map<text, frozen<list<int>>>>",
            "map<timeuuid, frozen<set<inet>>>",
            "frozen<tuple<int, text, duration>>",
            "vector<float, 3>",
            "'org.example.Odd'",
        ] {
            assert_eq!(CqlType::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(CqlType::parse("VARCHAR"), Ok(CqlType::Text));
        assert_eq!(
            CqlType::parse("frozen<list<list<int>>>").expect("nested").to_string(),
            "frozen<list<frozen<list<int>>>>"
        );
        assert_eq!(CqlType::parse("tuple<int>").expect("tuple").to_string(), "frozen<tuple<int>>");
    }

    #[test]
    fn user_types_are_resolved() {
        let udt = Arc::new(UdtType {
            keyspace: "ks".into(),
            name: "Address".into(),
            fields: vec![("street".into(), CqlType::Text)],
        });
        let found = CqlType::parse_with("list<frozen<\"Address\">>", &|ks, name| {
            (ks.is_none() && name == "Address").then(|| udt.clone())
        })
        .expect("known");
        assert_eq!(found.to_string(), "list<frozen<\"Address\">>");
        assert!(found.mentions("ks", "Address"));
    }

    #[test]
    fn bad_text_is_an_error() {
        for text in
            ["", "list", "list<", "list<int", "list<int>>", "map<int>", "vector<int, 0>", "nope", "\"int"]
        {
            assert!(CqlType::parse(text).is_err(), "{text}");
        }
        let deep = "list<".repeat(100);
        assert!(CqlType::parse(&deep).is_err());
    }
}
