//! CREATE, ALTER and DROP.

use super::core::Parser;
use crate::ast::*;
use crate::error::{Result, syntax};
use crate::lexer::Kind;
use base::HashSet;

impl Parser<'_> {
    /// CREATE anything.
    pub fn create(&mut self) -> Result<StatementKind> {
        self.expect_keyword("create")?;
        let Some(word) = self.peek_word() else {
            return self.no_alternative();
        };
        match word.as_str() {
            "keyspace" | "schema" => self.create_keyspace(),
            "table" | "columnfamily" => self.create_table(),
            "type" => self.create_type(),
            "index" | "custom" => self.create_index(),
            "materialized" => self.create_view(),
            "function" | "aggregate" | "or" => self.create_routine(),
            "trigger" => self.create_trigger(),
            "role" | "user" => self.role(true),
            _ => self.no_alternative(),
        }
    }

    /// ALTER anything.
    pub fn alter(&mut self) -> Result<StatementKind> {
        self.expect_keyword("alter")?;
        let Some(word) = self.peek_word() else {
            return self.no_alternative();
        };
        match word.as_str() {
            "keyspace" | "schema" => {
                self.advance();
                let if_exists = self.if_exists();
                let name = self.keyspace()?;
                self.expect_keyword("with")?;
                Ok(StatementKind::AlterKeyspace { name, if_exists, properties: self.properties()? })
            }
            "table" | "columnfamily" => self.alter_table(),
            "type" => self.alter_type(),
            "materialized" => {
                self.expect_keywords(&["materialized", "view"])?;
                let if_exists = self.if_exists();
                let view = self.table_name()?;
                self.expect_keyword("with")?;
                Ok(StatementKind::AlterView { view, if_exists, properties: self.properties()? })
            }
            "role" | "user" => self.role(false),
            _ => self.no_alternative(),
        }
    }

    /// DROP anything.
    pub fn drop(&mut self) -> Result<StatementKind> {
        self.expect_keyword("drop")?;
        let Some(word) = self.peek_word() else {
            return self.no_alternative();
        };
        match word.as_str() {
            "keyspace" | "schema" => {
                self.advance();
                let if_exists = self.if_exists();
                Ok(StatementKind::DropKeyspace { name: self.keyspace()?, if_exists })
            }
            "table" | "columnfamily" => {
                self.advance();
                let if_exists = self.if_exists();
                Ok(StatementKind::DropTable { table: self.table()?, if_exists })
            }
            "type" => self.drop_object(Object::Type),
            "index" => self.drop_object(Object::Index),
            "materialized" => {
                self.advance();
                self.drop_object(Object::View)
            }
            "trigger" => self.drop_object(Object::Trigger),
            "role" => self.drop_role(Object::Role),
            "user" => self.drop_role(Object::User),
            "function" | "aggregate" => self.drop_routine(word == "aggregate"),
            "identity" => {
                self.advance();
                let conditional = self.if_exists();
                let identity = self.text()?;
                Ok(StatementKind::Identity { add: false, identity, role: None, conditional })
            }
            _ => self.no_alternative(),
        }
    }

    fn drop_object(&mut self, object: Object) -> Result<StatementKind> {
        self.advance();
        let if_exists = self.if_exists();
        let name = self.table_name()?;
        let on = if object == Object::Trigger {
            self.expect_keyword("on")?;
            Some(self.table_name()?)
        } else {
            None
        };
        Ok(StatementKind::DropObject { object, name, if_exists, on })
    }

    fn drop_role(&mut self, object: Object) -> Result<StatementKind> {
        self.advance();
        let if_exists = self.if_exists();
        let name = TableName {
            keyspace: None,
            name: if object == Object::User { self.user_name()? } else { self.role_name()? },
        };
        Ok(StatementKind::DropObject { object, name, if_exists, on: None })
    }

    fn drop_routine(&mut self, aggregate: bool) -> Result<StatementKind> {
        self.advance();
        let if_exists = self.if_exists();
        let name = self.table_name()?;
        let arguments = if self.symbol("(") {
            let types = if self.is_symbol(")") { Vec::new() } else { self.list_of(Self::type_name)? };
            self.expect_symbol(")")?;
            Some(types)
        } else {
            None
        };
        Ok(StatementKind::DropRoutine { aggregate, name, if_exists, arguments })
    }

    fn create_keyspace(&mut self) -> Result<StatementKind> {
        self.advance();
        let if_not_exists = self.if_not_exists();
        let name = self.keyspace()?;
        self.expect_keyword("with")?;
        let properties = self.properties()?;
        Ok(StatementKind::CreateKeyspace(CreateKeyspace { name, if_not_exists, properties }))
    }

    /// `name = value` joined by AND.
    pub fn properties(&mut self) -> Result<Vec<Property>> {
        let (mut out, mut names) = (Vec::new(), HashSet::default());
        loop {
            let property = self.property()?;
            given_once(&mut names, &property.name)?;
            out.push(property);
            if !self.keyword("and") {
                return Ok(out);
            }
        }
    }

    /// One `name = value`.
    pub fn property(&mut self) -> Result<Property> {
        let name = self.name()?;
        self.expect_symbol("=")?;
        Ok(Property { name, value: self.property_value()? })
    }

    /// A scalar or a map of scalars.
    pub fn property_value(&mut self) -> Result<PropertyValue> {
        if !self.symbol("{") {
            return self.scalar().map(PropertyValue::Scalar);
        }
        let mut pairs = Vec::new();
        if self.symbol("}") {
            return Ok(PropertyValue::Map(pairs));
        }
        let mut keys = HashSet::default();
        let mut twice = None;
        loop {
            let key = self.scalar()?;
            self.expect_symbol(":")?;
            if !keys.insert(key.clone()) && twice.is_none() {
                twice = Some(key.clone());
            }
            pairs.push((key, self.scalar()?));
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol("}")?;
        match twice {
            Some(key) => syntax(format!("Multiple definition for property {key}")),
            None => Ok(PropertyValue::Map(pairs)),
        }
    }

    fn scalar(&mut self) -> Result<String> {
        let minus = if self.symbol("-") { "-" } else { "" };
        let text = match self.peek() {
            Kind::Text(text) => text.clone(),
            Kind::Integer(text) | Kind::Float(text) | Kind::Duration(text) | Kind::Word(text) => {
                format!("{minus}{text}")
            }
            Kind::Uuid(uuid) => uuid::Uuid::from_u128(*uuid).to_string(),
            Kind::Hex(digits) => format!("0x{digits}"),
            Kind::Quoted(_) | Kind::Symbol(_) | Kind::End => return self.no_alternative(),
        };
        self.advance();
        Ok(text)
    }

    fn create_table(&mut self) -> Result<StatementKind> {
        self.advance();
        let if_not_exists = self.if_not_exists();
        let table = self.table()?;
        let mut create = CreateTable {
            table,
            if_not_exists,
            columns: Vec::new(),
            primary_keys: Vec::new(),
            with: TableProperties::default(),
        };
        self.expect_symbol("(")?;
        loop {
            if self.is_keyword("primary") {
                self.expect_keywords(&["primary", "key"])?;
                create.primary_keys.push(self.primary_key()?);
            } else {
                create.columns.push(self.column_definition()?);
            }
            // Commas that nothing stands between count as one.
            if !self.symbols(",") || self.is_symbol(")") {
                break;
            }
        }
        self.expect_symbol(")")?;
        if self.keyword("with") {
            create.with = self.table_properties(true)?;
        }
        Ok(StatementKind::CreateTable(create))
    }

    /// `(a, b)`, `((a, b), c)`.
    fn primary_key(&mut self) -> Result<(Vec<String>, Vec<String>)> {
        self.expect_symbol("(")?;
        let partition = if self.symbol("(") {
            let names = self.list_of(Self::name)?;
            self.expect_symbol(")")?;
            names
        } else {
            vec![self.name()?]
        };
        let mut clustering = Vec::new();
        while self.symbol(",") {
            clustering.push(self.name()?);
        }
        self.expect_symbol(")")?;
        Ok((partition, clustering))
    }

    fn column_definition(&mut self) -> Result<ColumnDefinition> {
        let name = self.name()?;
        let ty = self.type_name()?;
        let is_static = self.keyword("static");
        let masked = self.mask()?;
        let primary_key = self.keywords(&["primary", "key"]);
        Ok(ColumnDefinition { name, ty, is_static, primary_key, masked })
    }

    fn mask(&mut self) -> Result<bool> {
        if !self.keyword("masked") {
            return Ok(false);
        }
        self.expect_keyword("with")?;
        if !self.keyword("default") {
            self.expr()?;
        } else if self.symbol("(") {
            self.expect_symbol(")")?;
        }
        Ok(true)
    }

    /// What follows WITH for tables and views; `new`: of one that is made, whose layout can be said.
    fn table_properties(&mut self, new: bool) -> Result<TableProperties> {
        let mut with = TableProperties::default();
        let mut names = HashSet::default();
        loop {
            if new && self.keywords(&["compact", "storage"]) {
                with.compact_storage = true;
            } else if new && self.keywords(&["clustering", "order", "by"]) {
                self.expect_symbol("(")?;
                with.clustering_order.extend(self.list_of(|p| {
                    let name = p.name()?;
                    let descending = p.keyword("desc");
                    if !descending && !p.keyword("asc") {
                        return p.no_alternative();
                    }
                    Ok((name, descending))
                })?);
                self.expect_symbol(")")?;
            } else if self.is_keyword("id") && self.is_symbol_at(1, "=") {
                with.id = Some(self.table_id()?);
                given_once(&mut names, "id")?;
            } else {
                let property = self.property()?;
                given_once(&mut names, &property.name)?;
                with.properties.push(property);
            }
            if !self.keyword("and") {
                return Ok(with);
            }
        }
    }

    fn table_id(&mut self) -> Result<u128> {
        self.advance();
        self.advance();
        let id = match self.peek() {
            Kind::Uuid(uuid) => Some(*uuid),
            Kind::Text(text) => uuid::Uuid::parse_str(text).ok().map(|u| u.as_u128()),
            _ => None,
        };
        match id {
            Some(id) => {
                self.advance();
                Ok(id)
            }
            None => self.mismatched("UUID"),
        }
    }

    fn alter_table(&mut self) -> Result<StatementKind> {
        self.advance();
        let if_exists = self.if_exists();
        let table = self.table()?;
        let change = if self.keyword("add") {
            self.table_add()?
        } else if self.keywords(&["drop", "compact", "storage"]) {
            TableChange::DropCompactStorage
        } else if self.keyword("drop") {
            self.table_drop()?
        } else if self.keyword("rename") {
            let if_exists = self.if_exists();
            TableChange::Rename { if_exists, renames: self.renames()? }
        } else if self.keyword("alter") {
            self.table_alter()?
        } else if self.keyword("with") {
            TableChange::With(self.table_properties(false)?)
        } else {
            return self.no_alternative();
        };
        Ok(StatementKind::AlterTable(AlterTable { table, if_exists, change }))
    }

    fn table_add(&mut self) -> Result<TableChange> {
        let if_not_exists = self.if_not_exists();
        let columns = if self.symbol("(") {
            let columns = self.list_of(Self::column_definition)?;
            self.expect_symbol(")")?;
            columns
        } else {
            self.list_of(Self::column_definition)?
        };
        Ok(TableChange::Add { if_not_exists, columns })
    }

    fn table_drop(&mut self) -> Result<TableChange> {
        let if_exists = self.if_exists();
        let columns = if self.symbol("(") {
            let columns = self.list_of(Self::name)?;
            self.expect_symbol(")")?;
            columns
        } else {
            self.list_of(Self::name)?
        };
        let timestamp = if self.keywords(&["using", "timestamp"]) {
            let digits = self.integer()?;
            match digits.parse() {
                Ok(timestamp) => Some(timestamp),
                Err(_) => return self.fail(&format!("timestamp {digits} does not fit 64 bits")),
            }
        } else {
            None
        };
        Ok(TableChange::Drop { if_exists, columns, timestamp })
    }

    fn renames(&mut self) -> Result<Vec<(String, String)>> {
        let mut out = Vec::new();
        loop {
            let from = self.name()?;
            self.expect_keyword("to")?;
            out.push((from, self.name()?));
            if !self.keyword("and") {
                return Ok(out);
            }
        }
    }

    fn table_alter(&mut self) -> Result<TableChange> {
        self.if_exists();
        let column = self.name()?;
        if self.keyword("type") {
            self.type_name()?;
            return Ok(TableChange::Retype { column });
        }
        if self.keywords(&["drop", "masked"]) || self.mask()? {
            return Ok(TableChange::Mask);
        }
        self.no_alternative()
    }

    fn create_type(&mut self) -> Result<StatementKind> {
        self.advance();
        let if_not_exists = self.if_not_exists();
        let name = self.table_name()?;
        self.expect_symbol("(")?;
        let mut fields = vec![(self.name()?, self.type_name()?)];
        while self.symbols(",") && !self.is_symbol(")") {
            fields.push((self.name()?, self.type_name()?));
        }
        self.expect_symbol(")")?;
        Ok(StatementKind::CreateType(CreateType { name, if_not_exists, fields }))
    }

    fn alter_type(&mut self) -> Result<StatementKind> {
        self.advance();
        let if_exists = self.if_exists();
        let name = self.table_name()?;
        let mut alter =
            AlterType { name, if_exists, add: None, renames: Vec::new(), if_field: false, retype: false };
        if self.keyword("add") {
            alter.if_field = self.if_not_exists();
            alter.add = Some((self.name()?, self.type_name()?));
        } else if self.keyword("rename") {
            alter.if_field = self.if_exists();
            alter.renames = self.renames()?;
        } else if self.keyword("alter") {
            self.name()?;
            self.expect_keyword("type")?;
            self.type_name()?;
            alter.retype = true;
        } else {
            return self.no_alternative();
        }
        Ok(StatementKind::AlterType(alter))
    }

    fn create_index(&mut self) -> Result<StatementKind> {
        let custom = self.keyword("custom");
        self.expect_keyword("index")?;
        let if_not_exists = self.if_not_exists();
        let name = if self.is_keyword("on") { None } else { Some(self.table_name()?) };
        self.expect_keyword("on")?;
        let table = self.table_name()?;
        self.expect_symbol("(")?;
        let targets = if self.is_symbol(")") { Vec::new() } else { self.list_of(Self::index_target)? };
        self.expect_symbol(")")?;
        let class = if self.keyword("using") { Some(self.text()?) } else { None };
        let properties = if self.keyword("with") { self.properties()? } else { Vec::new() };
        let create = CreateIndex { name, if_not_exists, custom, table, targets, class, properties };
        Ok(StatementKind::CreateIndex(create))
    }

    fn index_target(&mut self) -> Result<(Option<String>, String)> {
        let wrapper = match self.peek_word() {
            Some(word) if self.is_symbol_at(1, "(") => match word.as_str() {
                "keys" | "values" | "entries" | "full" => word,
                _ => return self.no_alternative(),
            },
            _ => return Ok((None, self.name()?)),
        };
        self.advance();
        self.advance();
        let column = self.name()?;
        self.expect_symbol(")")?;
        Ok((Some(wrapper), column))
    }

    fn create_view(&mut self) -> Result<StatementKind> {
        self.expect_keywords(&["materialized", "view"])?;
        let if_not_exists = self.if_not_exists();
        let name = self.table_name()?;
        self.expect_keyword("as")?;
        let select = self.select()?;
        self.expect_keywords(&["primary", "key"])?;
        let primary_key = self.primary_key()?;
        let with =
            if self.keyword("with") { self.table_properties(true)? } else { TableProperties::default() };
        Ok(StatementKind::CreateView(Box::new(CreateView { name, if_not_exists, select, primary_key, with })))
    }

    fn create_routine(&mut self) -> Result<StatementKind> {
        let or_replace = self.keywords(&["or", "replace"]);
        if self.keyword("aggregate") {
            return self.create_aggregate(or_replace);
        }
        self.expect_keyword("function")?;
        let if_not_exists = self.if_not_exists();
        let name = self.table_name()?;
        self.expect_symbol("(")?;
        let arguments =
            if self.is_symbol(")") { Vec::new() } else { self.list_of(|p| Ok((p.name()?, p.type_name()?)))? };
        self.expect_symbol(")")?;
        let called_on_null = if self.keyword("called") {
            true
        } else {
            self.expect_keywords(&["returns", "null"])?;
            false
        };
        self.expect_keywords(&["on", "null", "input", "returns"])?;
        let returns = self.type_name()?;
        self.expect_keyword("language")?;
        let language = self.name()?;
        self.expect_keyword("as")?;
        let body = self.text()?;
        let create = CreateFunction {
            name,
            or_replace,
            if_not_exists,
            arguments,
            called_on_null,
            returns,
            language,
            body,
        };
        Ok(StatementKind::CreateFunction(create))
    }

    fn create_aggregate(&mut self, or_replace: bool) -> Result<StatementKind> {
        let if_not_exists = self.if_not_exists();
        let name = self.table_name()?;
        self.expect_symbol("(")?;
        let arguments = if self.is_symbol(")") { Vec::new() } else { self.list_of(Self::type_name)? };
        self.expect_symbol(")")?;
        self.expect_keyword("sfunc")?;
        let state_function = self.name()?;
        self.expect_keyword("stype")?;
        let state_type = self.type_name()?;
        let final_function = if self.keyword("finalfunc") { Some(self.name()?) } else { None };
        let initial = if self.keyword("initcond") { Some(self.expr()?) } else { None };
        let create = CreateAggregate {
            name,
            or_replace,
            if_not_exists,
            arguments,
            state_function,
            state_type,
            final_function,
            initial,
        };
        Ok(StatementKind::CreateAggregate(create))
    }

    fn create_trigger(&mut self) -> Result<StatementKind> {
        self.advance();
        let if_not_exists = self.if_not_exists();
        let name = self.name()?;
        self.expect_keyword("on")?;
        let table = self.table_name()?;
        self.expect_keyword("using")?;
        let class = self.text()?;
        Ok(StatementKind::CreateTrigger { name, if_not_exists, table, class })
    }
}

/// Errors: a property is given again.
fn given_once(names: &mut HashSet<String>, name: &str) -> Result<()> {
    if names.insert(name.to_owned()) {
        return Ok(());
    }
    syntax(format!("Multiple definitions for property '{name}'"))
}
