//! SELECT, INSERT, UPDATE, DELETE, BATCH and their clauses.

use super::core::Parser;
use super::expr::selects_anything;
use crate::ast::*;
use crate::error::Result;
use crate::lexer::Kind;
use crate::limits;

impl Parser<'_> {
    /// SELECT.
    pub fn select(&mut self) -> Result<Select> {
        self.expect_keyword("select")?;
        let json = self.is_keyword("json") && !self.is_keyword_at(1, "from") && !self.is_symbol_at(1, ",");
        if json {
            self.advance();
        }
        let distinct =
            self.is_keyword("distinct") && !self.is_keyword_at(1, "from") && !self.is_symbol_at(1, ",");
        if distinct {
            self.advance();
        }
        let selectors = if self.symbol("*") { Vec::new() } else { self.list_of(Self::selector)? };
        self.expect_keyword("from")?;
        let table = self.table()?;
        let relations = if self.keyword("where") { self.relations()? } else { Vec::new() };
        let group_by = if self.keyword_then("group", "by")? {
            self.selecting(|p| p.list_of(Self::expr))?
        } else {
            Vec::new()
        };
        let order_by =
            if self.keyword_then("order", "by")? { self.list_of(Self::ordering)? } else { Vec::new() };
        let per_partition_limit = if self.keywords(&["per", "partition", "limit"]) {
            Some(self.integer_or_marker()?)
        } else {
            None
        };
        let limit = if self.keyword("limit") { Some(self.integer_or_marker()?) } else { None };
        let allow_filtering = self.keyword_then("allow", "filtering")?;
        self.keywords(&["bypass", "cache"]);
        let using = self.using()?;
        Ok(Select {
            json,
            distinct,
            selectors,
            table,
            relations,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
            using,
        })
    }

    fn selector(&mut self) -> Result<(Expr, Option<String>)> {
        let expr = self.selecting(Self::expr)?;
        let alias = if self.keyword("as") { Some(self.name()?) } else { None };
        Ok((expr, alias))
    }

    fn ordering(&mut self) -> Result<(OrderTarget, bool)> {
        let column = self.name()?;
        let target = if self.keywords(&["ann", "of"]) {
            OrderTarget::Nearest(column, self.expr()?)
        } else {
            OrderTarget::Column(column)
        };
        let descending = self.keyword("desc");
        if !descending {
            self.keyword("asc");
        }
        Ok((target, descending))
    }

    /// Relations joined by AND.
    pub fn relations(&mut self) -> Result<Vec<Relation>> {
        let mut out = Vec::new();
        loop {
            self.nested(|p| p.relation(&mut out))?;
            if !self.keyword("and") {
                return Ok(out);
            }
        }
    }

    fn relation(&mut self, out: &mut Vec<Relation>) -> Result<()> {
        if self.is_symbol("(") {
            return self.parenthesized_relation(out);
        }
        let subject = if self.is_keyword("token") && self.is_symbol_at(1, "(") {
            self.advance();
            Subject::Token(self.names_in_parentheses()?)
        } else if self.is_keyword("expr") && self.is_symbol_at(1, "(") {
            return self.custom_relation(out);
        } else {
            // A field may stand in a condition of a lightweight transaction only.
            let field_at = self.mark();
            match self.target()? {
                Target::Column(name) => Subject::Column(name),
                Target::Element(name, key) => Subject::Element(name, key),
                Target::Field(..) => {
                    self.rewind(field_at);
                    self.advance();
                    return self.no_alternative();
                }
            }
        };
        let relation = self.operator_and_operand(subject)?;
        out.push(relation);
        Ok(())
    }

    /// `(a, b) > (1, 2)` or a relation in parentheses.
    fn parenthesized_relation(&mut self, out: &mut Vec<Relation>) -> Result<()> {
        let mark = self.mark();
        if let Ok(names) = self.names_in_parentheses()
            && !self.is_keyword("and")
            && !self.is_symbol(")")
        {
            let relation = self.operator_and_operand(Subject::Tuple(names))?;
            out.push(relation);
            return Ok(());
        }
        self.rewind(mark);
        self.advance();
        self.nested(|p| p.relation(out))?;
        self.expect_symbol(")")
    }

    fn custom_relation(&mut self, out: &mut Vec<Relation>) -> Result<()> {
        self.advance();
        self.expect_symbol("(")?;
        let index = self.table_name()?;
        self.expect_symbol(",")?;
        let value = self.expr()?;
        self.expect_symbol(")")?;
        out.push(Relation {
            subject: Subject::Custom(index),
            operator: Operator::Equal,
            object: Operand::One(value),
        });
        Ok(())
    }

    fn names_in_parentheses(&mut self) -> Result<Vec<String>> {
        self.expect_symbol("(")?;
        let names = self.list_of(Self::name)?;
        self.expect_symbol(")")?;
        Ok(names)
    }

    /// Passes an operator of comparison, if one is next.
    fn comparison(&mut self) -> Option<Operator> {
        const COMPARISONS: [(&str, Operator); 6] = [
            ("=", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<", Operator::Less),
            ("<=", Operator::LessOrEqual),
            (">", Operator::Greater),
            (">=", Operator::GreaterOrEqual),
        ];
        COMPARISONS.iter().find(|(symbol, _)| self.symbol(symbol)).map(|(_, operator)| *operator)
    }

    fn operator_and_operand(&mut self, subject: Subject) -> Result<Relation> {
        let several = matches!(subject, Subject::Tuple(_));
        if let Some(operator) = self.comparison() {
            let value = if several { self.row()? } else { self.expr()? };
            return Ok(Relation { subject, operator, object: Operand::One(value) });
        }
        if several && self.keyword("in") {
            return Ok(Relation { subject, operator: Operator::In, object: self.in_rows()? });
        }
        // Nothing else stands behind tokens and entries of maps.
        if several || !matches!(subject, Subject::Column(_)) {
            return self.no_alternative();
        }
        if self.keyword("in") {
            return Ok(Relation { subject, operator: Operator::In, object: self.in_operand()? });
        }
        if self.keyword("like") {
            return Ok(Relation { subject, operator: Operator::Like, object: Operand::One(self.expr()?) });
        }
        if self.keyword("contains") {
            let operator = if self.keyword("key") { Operator::ContainsKey } else { Operator::Contains };
            return Ok(Relation { subject, operator, object: Operand::One(self.expr()?) });
        }
        if self.keyword("is") {
            self.expect_keywords(&["not", "null"])?;
            return Ok(Relation { subject, operator: Operator::IsNotNull, object: Operand::Nothing });
        }
        self.no_alternative()
    }

    /// The values of several columns: in parentheses, or a marker for all of them.
    fn row(&mut self) -> Result<Expr> {
        if self.is_symbol("(") || self.is_symbol("?") || self.is_symbol(":") {
            return self.expr();
        }
        self.no_alternative()
    }

    fn in_rows(&mut self) -> Result<Operand> {
        if let Some(marker) = self.marker()? {
            return Ok(Operand::One(Expr::Marker(marker)));
        }
        self.expect_symbol("(")?;
        let rows = if self.is_symbol(")") { Vec::new() } else { self.list_of(Self::row)? };
        self.expect_symbol(")")?;
        Ok(Operand::Many(rows))
    }

    fn in_operand(&mut self) -> Result<Operand> {
        if let Some(marker) = self.marker()? {
            return Ok(Operand::One(Expr::Marker(marker)));
        }
        self.expect_symbol("(")?;
        let items = if self.is_symbol(")") { Vec::new() } else { self.list_of(Self::expr)? };
        self.expect_symbol(")")?;
        Ok(Operand::Many(items))
    }

    fn target(&mut self) -> Result<Target> {
        let name = self.name()?;
        if self.symbol("[") {
            let key = self.expr()?;
            self.expect_symbol("]")?;
            return Ok(Target::Element(name, key));
        }
        if self.symbol(".") {
            return Ok(Target::Field(name, self.name()?));
        }
        Ok(Target::Column(name))
    }

    fn using(&mut self) -> Result<Using> {
        let mut using = Using::default();
        if !self.keyword("using") {
            return Ok(using);
        }
        loop {
            let duration = self.is_keyword("timeout");
            let slot = if self.keyword("timestamp") {
                &mut using.timestamp
            } else if self.keyword("ttl") {
                &mut using.ttl
            } else if self.keyword("timeout") {
                &mut using.timeout
            } else {
                return self.no_alternative();
            };
            // Of an option given twice the last counts.
            *slot = Some(if duration { self.expr()? } else { self.integer_or_marker()? });
            if !self.keyword("and") {
                return Ok(using);
            }
        }
    }

    fn condition(&mut self) -> Result<Condition> {
        if !self.keyword("if") {
            return Ok(Condition::None);
        }
        if self.keyword("exists") {
            return Ok(Condition::Exists);
        }
        let mut conditions = Vec::new();
        loop {
            conditions.push(self.nested(Self::column_condition)?);
            if !self.keyword("and") {
                return Ok(Condition::Relations(conditions));
            }
        }
    }

    /// A condition on a column, an element or a field.
    fn column_condition(&mut self) -> Result<Relation> {
        let subject = match self.target()? {
            Target::Column(name) => Subject::Column(name),
            Target::Element(name, key) => Subject::Element(name, key),
            Target::Field(name, field) => Subject::Field(name, field),
        };
        if let Some(operator) = self.comparison() {
            return Ok(Relation { subject, operator, object: Operand::One(self.expr()?) });
        }
        if self.keyword("in") {
            return Ok(Relation { subject, operator: Operator::In, object: self.in_operand()? });
        }
        if matches!(subject, Subject::Column(_)) && self.keyword("contains") {
            let operator = if self.keyword("key") { Operator::ContainsKey } else { Operator::Contains };
            return Ok(Relation { subject, operator, object: Operand::One(self.expr()?) });
        }
        self.no_alternative()
    }

    /// INSERT.
    pub fn insert(&mut self) -> Result<Insert> {
        self.expect_keywords(&["insert", "into"])?;
        let table = self.table()?;
        let mut insert = Insert {
            table,
            columns: Vec::new(),
            values: Vec::new(),
            json: None,
            condition: Condition::None,
            using: Using::default(),
        };
        if self.keyword("json") {
            let value = self.expr()?;
            let unset = if self.keyword("default") {
                let unset = self.keyword("unset");
                if !unset {
                    self.expect_keyword("null")?;
                }
                unset
            } else {
                false
            };
            insert.json = Some((value, unset));
        } else {
            insert.columns = self.names_in_parentheses()?;
            self.expect_keyword("values")?;
            self.expect_symbol("(")?;
            insert.values = self.list_of(Self::expr)?;
            self.expect_symbol(")")?;
        }
        if self.is_keyword("if") {
            self.expect_keywords(&["if", "not", "exists"])?;
            insert.condition = Condition::NotExists;
        }
        insert.using = self.using()?;
        Ok(insert)
    }

    /// UPDATE.
    pub fn update(&mut self) -> Result<Update> {
        self.expect_keyword("update")?;
        let table = self.table()?;
        let using = self.using()?;
        self.expect_keyword("set")?;
        let assignments = self.list_of(Self::assignment)?;
        self.expect_keyword("where")?;
        let relations = self.relations()?;
        let condition = self.condition()?;
        Ok(Update { table, using, assignments, relations, condition })
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let target = self.target()?;
        let assign = if self.symbol("=") {
            Assign::Set
        } else if matches!(target, Target::Field(..)) {
            return self.mismatched("'='");
        } else if self.symbol("+=") {
            Assign::Add
        } else if self.symbol("-=") {
            Assign::Subtract
        } else {
            return self.no_alternative();
        };
        let value = if assign == Assign::Set { self.assigned()? } else { self.expr()? };
        Ok(Assignment { target, assign, value })
    }

    /// `c + 1`, `c - 1`, `[1] + c` or a value: a column stands nowhere else in what is written.
    fn assigned(&mut self) -> Result<Expr> {
        let boolean = self.is_keyword("true") || self.is_keyword("false");
        if self.is_name() && !boolean && !self.is_symbol_at(1, "(") && !self.is_symbol_at(1, ".") {
            let column = Expr::Column(self.name()?);
            let operator = if self.symbol("+") {
                Arithmetic::Add
            } else if self.symbol("-") {
                Arithmetic::Subtract
            } else {
                return self.no_alternative();
            };
            return Ok(Expr::Arithmetic(operator, Box::new(column), Box::new(self.expr()?)));
        }
        let value = self.selecting(Self::expr)?;
        let written = match &value {
            Expr::Arithmetic(Arithmetic::Add, left, right) if matches!(**right, Expr::Column(_)) => left,
            whole => whole,
        };
        if selects_anything(written) {
            return self.no_alternative();
        }
        Ok(value)
    }

    /// DELETE.
    pub fn delete(&mut self) -> Result<Delete> {
        self.expect_keyword("delete")?;
        let targets = if self.is_keyword("from") { Vec::new() } else { self.list_of(Self::target)? };
        self.expect_keyword("from")?;
        let table = self.table()?;
        if self.is_keyword("using") && self.is_keyword_at(1, "ttl") {
            self.advance();
            return self.mismatched("K_TIMESTAMP");
        }
        let using = self.using()?;
        self.expect_keyword("where")?;
        let relations = self.relations()?;
        let condition = self.condition()?;
        Ok(Delete { targets, table, using, relations, condition })
    }

    /// BEGIN BATCH … APPLY BATCH.
    pub fn batch(&mut self) -> Result<Batch> {
        self.expect_keyword("begin")?;
        let kind = if self.keyword("unlogged") {
            BatchKind::Unlogged
        } else if self.keyword("counter") {
            BatchKind::Counter
        } else {
            self.keyword("logged");
            BatchKind::Logged
        };
        self.expect_keyword("batch")?;
        let using = self.using()?;
        let mut statements = Vec::new();
        while !self.is_keyword("apply") {
            let statement = match self.peek_word().as_deref() {
                Some("insert") => StatementKind::Insert(self.insert()?),
                Some("update") => StatementKind::Update(self.update()?),
                Some("delete") => StatementKind::Delete(self.delete()?),
                _ => return self.mismatched("K_APPLY"),
            };
            if statements.len() == limits::BATCH_STATEMENTS {
                return self.fail("too many statements in one batch: 65535 at most");
            }
            statements.push(statement);
            self.symbol(";");
        }
        self.expect_keywords(&["apply", "batch"])?;
        Ok(Batch { kind, using, statements })
    }

    /// TRUNCATE.
    pub fn truncate(&mut self) -> Result<StatementKind> {
        self.expect_keyword("truncate")?;
        let explicit = (self.is_keyword("table") || self.is_keyword("columnfamily"))
            && matches!(self.peek_at(1), Kind::Word(_) | Kind::Quoted(_));
        if explicit {
            self.advance();
        }
        Ok(StatementKind::Truncate { table: self.table()? })
    }
}
