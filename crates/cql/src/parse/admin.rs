//! Roles, permissions, LIST, DESCRIBE.

use super::core::Parser;
use crate::ast::*;
use crate::error::Result;
use crate::lexer::Kind;

const PERMISSIONS: [&str; 12] = [
    "CREATE",
    "ALTER",
    "DROP",
    "SELECT",
    "MODIFY",
    "AUTHORIZE",
    "DESCRIBE",
    "EXECUTE",
    "UNMASK",
    "SELECT_MASKED",
    "TRUNCATE",
    "VECTOR_SEARCH_INDEXING",
];

impl Parser<'_> {
    /// A role's name: like other names, or in single quotes.
    pub fn role_name(&mut self) -> Result<String> {
        if matches!(self.peek(), Kind::Text(_)) { self.text() } else { self.name() }
    }

    /// CREATE or ALTER ROLE or USER; the cursor stands on ROLE or USER.
    pub fn role(&mut self, create: bool) -> Result<StatementKind> {
        let user = self.is_keyword("user");
        self.advance();
        let conditional = if create { self.if_not_exists() } else { self.if_exists() };
        let name = self.role_name()?;
        let mut options = Vec::new();
        if user {
            if self.keyword("with") {
                options.push(self.user_password()?);
            }
            if self.keyword("superuser") || self.keyword("nosuperuser") {
                options
                    .push(Property { name: "superuser".into(), value: PropertyValue::Scalar("kept".into()) });
            }
        } else if self.keyword("with") {
            options.push(self.role_option()?);
            while self.keyword("and") {
                options.push(self.role_option()?);
            }
        }
        Ok(StatementKind::Role(RoleStatement { create, conditional, name, options }))
    }

    fn user_password(&mut self) -> Result<Property> {
        let hashed = self.keyword("hashed");
        if !hashed && self.keyword("generated") {
            self.expect_keyword("password")?;
            return Ok(Property {
                name: "generated password".into(),
                value: PropertyValue::Scalar(String::new()),
            });
        }
        self.expect_keyword("password")?;
        let name = if hashed { "hashed password" } else { "password" };
        Ok(Property { name: name.into(), value: PropertyValue::Scalar(self.text()?) })
    }

    fn role_option(&mut self) -> Result<Property> {
        if self.keywords(&["access", "to"]) {
            let name = if self.keyword("all") {
                self.expect_keyword("datacenters")?;
                return Ok(Property { name: "access to".into(), value: PropertyValue::Scalar("all".into()) });
            } else {
                self.keyword("datacenters");
                "access to"
            };
            return self.access_list(name);
        }
        if self.keywords(&["access", "from"]) {
            if self.keyword("all") {
                self.expect_keyword("cidrs")?;
                return Ok(Property {
                    name: "access from".into(),
                    value: PropertyValue::Scalar("all".into()),
                });
            }
            self.keyword("cidrs");
            return self.access_list("access from");
        }
        if self.keyword("generated") {
            self.expect_keyword("password")?;
            return Ok(Property {
                name: "generated password".into(),
                value: PropertyValue::Scalar(String::new()),
            });
        }
        let mut name = self.name()?;
        if name == "hashed" {
            self.expect_keyword("password")?;
            name.push_str(" password");
        }
        self.expect_symbol("=")?;
        Ok(Property { name, value: self.property_value()? })
    }

    fn access_list(&mut self, name: &str) -> Result<Property> {
        self.expect_symbol("{")?;
        let names = self.list_of(Self::text)?;
        self.expect_symbol("}")?;
        let pairs = names.into_iter().map(|n| (n, String::new())).collect();
        Ok(Property { name: name.into(), value: PropertyValue::Map(pairs) })
    }

    /// ADD IDENTITY.
    pub fn add_identity(&mut self) -> Result<StatementKind> {
        self.expect_keywords(&["add", "identity"])?;
        let conditional = self.if_not_exists();
        let identity = self.text()?;
        self.expect_keywords(&["to", "role"])?;
        let role = Some(self.role_name()?);
        Ok(StatementKind::Identity { add: true, identity, role, conditional })
    }

    /// GRANT and REVOKE.
    pub fn grant_or_revoke(&mut self) -> Result<StatementKind> {
        let grant = self.is_keyword("grant");
        self.advance();
        let preposition = if grant { "to" } else { "from" };
        if let Some(permissions) = self.permissions()? {
            self.expect_keyword("on")?;
            let resource = self.resource()?;
            self.expect_keyword(preposition)?;
            let role = self.role_name()?;
            return Ok(StatementKind::Permission { grant, permissions, resource, role });
        }
        let role = self.role_name()?;
        self.expect_keyword(preposition)?;
        let grantee = self.role_name()?;
        Ok(StatementKind::RoleGrant { grant, role, grantee })
    }

    fn permissions(&mut self) -> Result<Option<Vec<String>>> {
        if self.keyword("all") {
            self.keyword("permissions");
            return Ok(Some(vec!["ALL".to_string()]));
        }
        let mut out = Vec::new();
        loop {
            let word = self.peek_word().map(|w| w.to_ascii_uppercase()).unwrap_or_default();
            if !PERMISSIONS.contains(&word.as_str()) {
                return if out.is_empty() { Ok(None) } else { self.no_alternative() };
            }
            self.advance();
            self.keyword("permission");
            out.push(word);
            if !self.symbol(",") {
                return Ok(Some(out));
            }
        }
    }

    fn resource(&mut self) -> Result<Resource> {
        if self.keywords(&["all", "keyspaces"]) {
            return Ok(Resource::AllKeyspaces);
        }
        if self.keywords(&["all", "tables", "in", "keyspace"]) {
            return self.name().map(Resource::AllTables);
        }
        if self.keywords(&["all", "roles"]) {
            return Ok(Resource::AllRoles);
        }
        if self.keywords(&["all", "functions"]) {
            let keyspace = if self.keywords(&["in", "keyspace"]) { Some(self.name()?) } else { None };
            return Ok(Resource::AllFunctions(keyspace));
        }
        if self.keywords(&["all", "mbeans"]) {
            return Ok(Resource::AllMbeans);
        }
        if self.keyword("keyspace") {
            return self.name().map(Resource::Keyspace);
        }
        if self.keyword("role") {
            return self.role_name().map(Resource::Role);
        }
        if self.keyword("mbean") || self.keyword("mbeans") {
            return self.text().map(Resource::Mbean);
        }
        if self.keyword("function") {
            let name = self.table_name()?;
            self.expect_symbol("(")?;
            let types = if self.is_symbol(")") { Vec::new() } else { self.list_of(Self::type_name)? };
            self.expect_symbol(")")?;
            return Ok(Resource::Function(name, types));
        }
        if !self.keyword("table") {
            self.keyword("columnfamily");
        }
        self.table_name().map(Resource::Table)
    }

    /// LIST.
    pub fn list(&mut self) -> Result<StatementKind> {
        self.expect_keyword("list")?;
        let list = if self.keyword("roles") {
            let of = if self.keyword("of") { Some(self.role_name()?) } else { None };
            ListStatement::Roles { of, recursive: !self.keyword("norecursive") }
        } else if self.keyword("users") {
            ListStatement::Users
        } else if self.keyword("superusers") {
            ListStatement::Superusers
        } else {
            let Some(permissions) = self.permissions()? else {
                return self.no_alternative();
            };
            let resource = if self.keyword("on") { Some(self.resource()?) } else { None };
            let of = if self.keyword("of") { Some(self.role_name()?) } else { None };
            ListStatement::Permissions { permissions, resource, of, recursive: !self.keyword("norecursive") }
        };
        Ok(StatementKind::List(list))
    }

    /// DESCRIBE.
    pub fn describe(&mut self) -> Result<StatementKind> {
        self.advance();
        let what = self.describe_target()?;
        let internals = self.keywords(&["with", "internals"]);
        Ok(StatementKind::Describe(Describe { what, internals }))
    }

    fn describe_target(&mut self) -> Result<DescribeTarget> {
        const LISTS: [(&str, DescribeTarget); 6] = [
            ("keyspaces", DescribeTarget::Keyspaces),
            ("tables", DescribeTarget::Tables),
            ("types", DescribeTarget::Types),
            ("functions", DescribeTarget::Functions),
            ("aggregates", DescribeTarget::Aggregates),
            ("cluster", DescribeTarget::Cluster),
        ];
        for (word, target) in LISTS {
            let alone = matches!(self.peek_at(1), Kind::End)
                || self.is_symbol_at(1, ";")
                || self.is_keyword_at(1, "with");
            if alone && self.keyword(word) {
                return Ok(target);
            }
        }
        if self.keyword("schema") {
            return Ok(DescribeTarget::Schema { full: false });
        }
        if self.keywords(&["full", "schema"]) {
            return Ok(DescribeTarget::Schema { full: true });
        }
        if self.is_keyword("keyspace") || (self.is_keyword("only") && self.is_keyword_at(1, "keyspace")) {
            let only = self.keyword("only");
            self.advance();
            let name = if self.is_name() { Some(self.name()?) } else { None };
            return Ok(DescribeTarget::Keyspace { name, only });
        }
        if self.keywords(&["materialized", "view"]) {
            return self.table_name().map(DescribeTarget::View);
        }
        if !matches!(self.peek_at(1), Kind::End | Kind::Symbol(_)) {
            let word = self.peek_word().unwrap_or_default();
            let make: Option<fn(TableName) -> DescribeTarget> = match word.as_str() {
                "table" | "columnfamily" => Some(DescribeTarget::Table),
                "index" => Some(DescribeTarget::Index),
                "type" => Some(DescribeTarget::Type),
                "function" => Some(DescribeTarget::Function),
                "aggregate" => Some(DescribeTarget::Aggregate),
                _ => None,
            };
            if let Some(make) = make {
                self.advance();
                return self.table_name().map(make);
            }
        }
        self.table_name().map(DescribeTarget::Any)
    }
}
