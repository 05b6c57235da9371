//! Values, selectors and types.

use super::core::{Parser, is_reserved};
use crate::ast::{Arithmetic, Expr, TypeName};
use crate::error::Result;
use crate::lexer::Kind;
use crate::limits;
use crate::names::native_type;

impl Parser<'_> {
    /// A value or selector.
    pub fn expr(&mut self) -> Result<Expr> {
        self.nested(Self::sum)
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.product()?;
        for _ in 0..limits::NESTING_DEPTH {
            let operator = if self.symbol("+") {
                Arithmetic::Add
            } else if self.symbol("-") {
                Arithmetic::Subtract
            } else {
                return Ok(left);
            };
            let right = self.product()?;
            left = Expr::Arithmetic(operator, Box::new(left), Box::new(right));
        }
        self.fail("too many operators in one expression")
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.unary()?;
        for _ in 0..limits::NESTING_DEPTH {
            let operator = if self.symbol("*") {
                Arithmetic::Multiply
            } else if self.symbol("/") {
                Arithmetic::Divide
            } else if self.symbol("%") {
                Arithmetic::Modulo
            } else {
                return Ok(left);
            };
            let right = self.unary()?;
            left = Expr::Arithmetic(operator, Box::new(left), Box::new(right));
        }
        self.fail("too many operators in one expression")
    }

    fn unary(&mut self) -> Result<Expr> {
        if !self.symbol("-") {
            return self.postfix();
        }
        let inner = self.nested(Self::unary)?;
        Ok(match inner {
            Expr::Integer(n) if !n.starts_with('-') => Expr::Integer(format!("-{n}")),
            Expr::Float(n) if !n.starts_with('-') => Expr::Float(format!("-{n}")),
            Expr::Duration(n) if !n.starts_with('-') => Expr::Duration(format!("-{n}")),
            other => Expr::Negate(Box::new(other)),
        })
    }

    fn postfix(&mut self) -> Result<Expr> {
        let mut expr = self.primary()?;
        for _ in 0..limits::NESTING_DEPTH {
            if !has_parts(&expr) || !self.selects() {
                return Ok(expr);
            }
            if self.symbol(".") {
                expr = Expr::Field(Box::new(expr), self.name()?);
            } else if self.symbol("[") {
                expr = self.subscript(expr)?;
            } else {
                return Ok(expr);
            }
        }
        self.fail("too many subscripts in one expression")
    }

    fn subscript(&mut self, of: Expr) -> Result<Expr> {
        let of = Box::new(of);
        let from = if self.is_symbol("..") { None } else { Some(Box::new(self.written(Self::expr)?)) };
        if self.symbol("..") {
            if from.is_none() && self.is_symbol("]") {
                return self.no_alternative();
            }
            let to = if self.is_symbol("]") { None } else { Some(Box::new(self.written(Self::expr)?)) };
            self.expect_symbol("]")?;
            return Ok(Expr::Slice(of, from, to));
        }
        self.expect_symbol("]")?;
        match from {
            Some(key) => Ok(Expr::Element(of, key)),
            None => self.no_alternative(),
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        if let Some(marker) = self.marker()? {
            return Ok(Expr::Marker(marker));
        }
        let literal = match self.peek().clone() {
            Kind::Text(text) => Expr::Text(text),
            Kind::Integer(digits) => Expr::Integer(digits),
            Kind::Float(digits) => Expr::Float(digits),
            Kind::Uuid(uuid) => Expr::Uuid(uuid),
            Kind::Hex(digits) => Expr::Hex(digits),
            Kind::Duration(duration) => Expr::Duration(duration),
            Kind::Symbol("[") => return self.list_literal(),
            Kind::Symbol("{") => return self.brace_literal(),
            Kind::Symbol("(") => return self.parenthesis(),
            Kind::Word(word) => return self.word_expr(&word.to_ascii_lowercase()),
            Kind::Quoted(_) => return self.column_or_call(),
            Kind::Symbol(":") => {
                self.advance();
                return self.no_alternative();
            }
            Kind::Symbol(_) | Kind::End => return self.no_alternative(),
        };
        self.advance();
        Ok(literal)
    }

    fn word_expr(&mut self, word: &str) -> Result<Expr> {
        let literal = match word {
            "null" => Expr::Null,
            "true" => Expr::Boolean(true),
            "false" => Expr::Boolean(false),
            "nan" => Expr::Float("NaN".to_string()),
            "infinity" => Expr::Float("Infinity".to_string()),
            "cast" if self.is_symbol_at(1, "(") => return self.cast(),
            "count" if self.selects() && self.is_symbol_at(1, "(") && self.count_rows() => {
                return Ok(Expr::CountRows);
            }
            "token" if self.is_symbol_at(1, "(") => {
                self.advance();
                return self.call(crate::ast::TableName { keyspace: None, name: "token".to_string() });
            }
            _ => return self.column_or_call(),
        };
        self.advance();
        Ok(literal)
    }

    /// `count(*)` and `count(1)`, or any other value, passed whole if next.
    fn count_rows(&mut self) -> bool {
        let value = matches!(
            self.peek_at(2),
            Kind::Integer(_)
                | Kind::Float(_)
                | Kind::Text(_)
                | Kind::Uuid(_)
                | Kind::Hex(_)
                | Kind::Duration(_)
        );
        let star = self.is_symbol_at(2, "*") || value;
        let found = star && self.is_symbol_at(3, ")");
        if found {
            (0..4).for_each(|_| self.advance());
        }
        found
    }

    fn cast(&mut self) -> Result<Expr> {
        self.advance();
        self.expect_symbol("(")?;
        let inner = self.expr()?;
        self.expect_keyword("as")?;
        let native = self.peek_word().is_some_and(|word| native_type(&word).is_some());
        if !native {
            return self.no_alternative();
        }
        let ty = self.type_name()?;
        self.expect_symbol(")")?;
        Ok(Expr::Cast(Box::new(inner), ty))
    }

    fn column_or_call(&mut self) -> Result<Expr> {
        let first = self.name()?;
        if self.selects() && self.is_symbol("(") && matches!(&*first, "writetime" | "maxwritetime" | "ttl") {
            return self.times(first);
        }
        if self.is_symbol("(") {
            return self.call(crate::ast::TableName { keyspace: None, name: first });
        }
        let qualified = self.is_symbol(".")
            && matches!(self.peek_at(1), Kind::Word(_) | Kind::Quoted(_))
            && self.is_symbol_at(2, "(");
        if qualified {
            self.advance();
            let name = if self.keyword("token") { "token".to_string() } else { self.name()? };
            return self.call(crate::ast::TableName { keyspace: Some(first), name });
        }
        // Only names of functions begin a value, and keys of user types: what is wrong is what follows.
        if self.selects() || self.is_symbol(":") { Ok(Expr::Column(first)) } else { self.no_alternative() }
    }

    /// What follows `writetime`: a column, or a part of one.
    fn times(&mut self, name: String) -> Result<Expr> {
        self.expect_symbol("(")?;
        let mut column = Expr::Column(self.name()?);
        for _ in 0..limits::NESTING_DEPTH {
            if self.symbol(".") {
                column = Expr::Field(Box::new(column), self.name()?);
            } else if self.symbol("[") {
                column = self.subscript(column)?;
            } else {
                break;
            }
        }
        self.expect_symbol(")")?;
        let function = crate::ast::TableName { keyspace: None, name };
        Ok(Expr::Call { function, arguments: vec![column] })
    }

    fn call(&mut self, function: crate::ast::TableName) -> Result<Expr> {
        self.expect_symbol("(")?;
        let arguments = if self.is_symbol(")") { Vec::new() } else { self.list_of(Self::expr)? };
        self.expect_symbol(")")?;
        Ok(Expr::Call { function, arguments })
    }

    fn list_literal(&mut self) -> Result<Expr> {
        self.advance();
        let items = if self.is_symbol("]") { Vec::new() } else { self.list_of(Self::expr)? };
        self.expect_symbol("]")?;
        Ok(Expr::List(items))
    }

    fn brace_literal(&mut self) -> Result<Expr> {
        self.advance();
        if self.symbol("}") {
            return Ok(Expr::Set(Vec::new()));
        }
        let name = self.bare_key();
        let first = self.expr()?;
        let expr = if self.symbol(":") {
            self.pairs(name, first)?
        } else {
            let mut items = vec![first];
            while self.symbol(",") {
                items.push(self.expr()?);
            }
            Expr::Set(items)
        };
        self.expect_symbol("}")?;
        Ok(expr)
    }

    /// The name that is next and whole before a colon.
    fn bare_key(&self) -> Option<String> {
        if !self.is_name() || !self.is_symbol_at(1, ":") {
            return None;
        }
        match self.peek() {
            Kind::Quoted(name) => Some(name.clone()),
            _ => self.peek_word(),
        }
    }

    /// What follows the first key and its colon: fields of a user type if every key is a bare name, else a map whose keys
    /// may be columns. Read once: to go back and read it as the other would double the work with every level.
    fn pairs(&mut self, name: Option<String>, first: Expr) -> Result<Expr> {
        let mut names: Option<Vec<String>> = name.map(|name| vec![name]);
        let mut pairs = vec![(first, self.expr()?)];
        while self.symbol(",") {
            names = names.zip(self.bare_key()).map(|(mut names, name)| {
                names.push(name);
                names
            });
            let key = self.expr()?;
            self.expect_symbol(":")?;
            pairs.push((key, self.expr()?));
        }
        let Some(names) = names else { return Ok(Expr::Map(pairs)) };
        Ok(Expr::Udt(names.into_iter().zip(pairs.into_iter().map(|(_, value)| value)).collect()))
    }

    /// `(type) value`, `(a, b)` or `(a)`. A lone value in parentheses is a tuple of one, as in Cassandra.
    fn parenthesis(&mut self) -> Result<Expr> {
        if let Some(hinted) = self.type_hint()? {
            return Ok(hinted);
        }
        self.advance();
        let items = self.list_of(Self::expr)?;
        self.expect_symbol(")")?;
        Ok(Expr::Tuple(items))
    }

    fn type_hint(&mut self) -> Result<Option<Expr>> {
        if !matches!(self.peek_at(1), Kind::Word(_) | Kind::Quoted(_)) {
            return Ok(None);
        }
        let mark = self.mark();
        self.advance();
        let Ok(ty) = self.type_name() else {
            self.rewind(mark);
            return Ok(None);
        };
        if !self.symbol(")") || !self.starts_value() {
            self.rewind(mark);
            return Ok(None);
        }
        // The type stands closer to the value than a part that is selected of it.
        let rule = if self.is_symbol("-") { Self::unary } else { Self::primary };
        let value = self.nested(rule)?;
        Ok(Some(Expr::TypeHint(ty, Box::new(value))))
    }

    fn starts_value(&self) -> bool {
        match self.peek() {
            Kind::Symbol(s) => matches!(*s, "(" | "[" | "{" | "?" | ":" | "-"),
            Kind::Word(word) => {
                let word = word.to_ascii_lowercase();
                matches!(word.as_str(), "null" | "true" | "false" | "nan" | "infinity")
                    || self.is_symbol_at(1, "(")
                    || (word != "as" && !is_reserved(&word))
            }
            Kind::End => false,
            Kind::Quoted(_)
            | Kind::Text(_)
            | Kind::Integer(_)
            | Kind::Float(_)
            | Kind::Uuid(_)
            | Kind::Hex(_)
            | Kind::Duration(_) => true,
        }
    }

    /// A type.
    pub fn type_name(&mut self) -> Result<TypeName> {
        self.nested(Self::type_name_here)
    }

    fn type_name_here(&mut self) -> Result<TypeName> {
        if let Kind::Text(class) = self.peek() {
            let class = class.clone();
            self.advance();
            return Ok(TypeName::Custom(class));
        }
        let quoted = matches!(self.peek(), Kind::Quoted(_));
        if !quoted && self.is_symbol_at(1, "<") {
            let word = self.peek_word().unwrap_or_default();
            if let Some(ty) = self.generic_type(&word)? {
                return Ok(ty);
            }
        }
        let first = self.name()?;
        if self.symbol(".") {
            let quoted = matches!(self.peek(), Kind::Quoted(_));
            return Ok(TypeName::Named { keyspace: Some(first), name: self.name()?, quoted });
        }
        Ok(TypeName::Named { keyspace: None, name: first, quoted })
    }

    fn generic_type(&mut self, word: &str) -> Result<Option<TypeName>> {
        if !matches!(word, "frozen" | "list" | "set" | "map" | "tuple" | "vector") {
            return Ok(None);
        }
        self.advance();
        self.expect_symbol("<")?;
        let first = self.type_name()?;
        let ty = match word {
            "frozen" => TypeName::Frozen(Box::new(first)),
            "list" => TypeName::List(Box::new(first)),
            "set" => TypeName::Set(Box::new(first)),
            "map" => {
                self.expect_symbol(",")?;
                TypeName::Map(Box::new(first), Box::new(self.type_name()?))
            }
            "vector" => {
                self.expect_symbol(",")?;
                let digits = self.integer()?;
                match digits.parse() {
                    Ok(dimension) => TypeName::Vector(Box::new(first), dimension),
                    Err(_) => return self.fail(&format!("vectors cannot have {digits} elements")),
                }
            }
            _ => {
                let mut items = vec![first];
                while self.symbol(",") {
                    items.push(self.type_name()?);
                }
                TypeName::Tuple(items)
            }
        };
        self.expect_symbol(">")?;
        Ok(Some(ty))
    }
}

/// Whether an expression selects anything: a column or a part of one.
pub fn selects_anything(expr: &Expr) -> bool {
    let any = |items: &[Expr]| items.iter().any(selects_anything);
    match expr {
        Expr::Column(_) | Expr::Field(..) | Expr::Element(..) | Expr::Slice(..) | Expr::CountRows => true,
        Expr::Call { arguments, .. } => any(arguments),
        Expr::Cast(inner, _) | Expr::TypeHint(_, inner) | Expr::Negate(inner) => selects_anything(inner),
        Expr::List(items) | Expr::Set(items) | Expr::Tuple(items) => any(items),
        Expr::Map(pairs) => pairs.iter().any(|(k, v)| selects_anything(k) || selects_anything(v)),
        Expr::Udt(fields) => fields.iter().any(|(_, value)| selects_anything(value)),
        Expr::Arithmetic(_, left, right) => selects_anything(left) || selects_anything(right),
        Expr::Null
        | Expr::Boolean(_)
        | Expr::Integer(_)
        | Expr::Float(_)
        | Expr::Text(_)
        | Expr::Uuid(_)
        | Expr::Hex(_)
        | Expr::Duration(_)
        | Expr::Marker(_) => false,
    }
}

/// What a field or an element may be selected of.
fn has_parts(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_)
        | Expr::Field(..)
        | Expr::Element(..)
        | Expr::Slice(..)
        | Expr::Call { .. }
        | Expr::CountRows
        | Expr::Cast(..)
        | Expr::TypeHint(..)
        | Expr::List(_)
        | Expr::Set(_)
        | Expr::Map(_)
        | Expr::Udt(_)
        | Expr::Tuple(_) => true,
        Expr::Null
        | Expr::Boolean(_)
        | Expr::Integer(_)
        | Expr::Float(_)
        | Expr::Text(_)
        | Expr::Uuid(_)
        | Expr::Hex(_)
        | Expr::Duration(_)
        | Expr::Marker(_)
        | Expr::Arithmetic(..)
        | Expr::Negate(_) => false,
    }
}
