//! Roles, permissions, LIST, DESCRIBE.

use super::core::{Parser, is_reserved};
use crate::ast::*;
use crate::error::{Result, syntax};
use crate::lexer::Kind;

const PERMISSIONS: [&str; 10] = [
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
];

impl Parser<'_> {
    /// A role's name: like other names, or in single quotes.
    pub fn role_name(&mut self) -> Result<String> {
        if matches!(self.peek(), Kind::Text(_)) { self.text() } else { self.name() }
    }

    /// A user's name: as it is written, without quotes or in single ones.
    pub fn user_name(&mut self) -> Result<String> {
        match self.peek() {
            Kind::Word(word) if self.is_name() => {
                let name = word.clone();
                self.advance();
                Ok(name)
            }
            Kind::Quoted(_) => syntax(
                "Quoted strings are are not supported for user names and USER is deprecated, please use ROLE",
            ),
            _ => self.text(),
        }
    }

    /// CREATE or ALTER ROLE or USER; the cursor stands on ROLE or USER.
    pub fn role(&mut self, create: bool) -> Result<StatementKind> {
        let user = self.is_keyword("user");
        self.advance();
        let conditional = if create { self.if_not_exists() } else { self.if_exists() };
        let name = if user { self.user_name()? } else { self.role_name()? };
        let mut options = RoleOptions::default();
        if user {
            if self.keyword("with") {
                self.user_password(&mut options)?;
            }
            let superuser = self.keyword("superuser");
            let told = superuser || self.keyword("nosuperuser");
            options.superuser = (told || create).then_some(superuser);
            options.login = create.then_some(true);
        } else {
            if self.keyword("with") {
                self.role_option(&mut options)?;
                while self.keyword("and") {
                    self.role_option(&mut options)?;
                }
            }
            if create {
                options.superuser.get_or_insert(false);
                options.login.get_or_insert(false);
            }
        }
        if options.password.is_some() && options.hashed_password.is_some() {
            return syntax("Options 'password' and 'hashed password' are mutually exclusive");
        }
        Ok(StatementKind::Role(RoleStatement { create, conditional, name, options }))
    }

    fn user_password(&mut self, options: &mut RoleOptions) -> Result<()> {
        let hashed = self.keyword("hashed");
        self.expect_keyword("password")?;
        let text = Some(self.text()?);
        if hashed {
            options.hashed_password = text
        } else {
            options.password = text
        }
        Ok(())
    }

    fn role_option(&mut self, options: &mut RoleOptions) -> Result<()> {
        if self.keywords(&["access", "to"]) {
            let access = self.access("datacenters")?;
            return once("datacenters", &mut options.datacenters, access);
        }
        if self.keywords(&["access", "from"]) {
            let access = self.access("cidrs")?;
            return once("cidrs", &mut options.cidrs, access);
        }
        if self.keyword("superuser") {
            let flag = self.flag()?;
            return once("SUPERUSER", &mut options.superuser, flag);
        }
        if self.keyword("login") {
            let flag = self.flag()?;
            return once("LOGIN", &mut options.login, flag);
        }
        if self.keyword("options") {
            self.expect_symbol("=")?;
            if !self.is_symbol("{") {
                return self.mismatched("'{'");
            }
            self.property_value()?;
            return once("OPTIONS", &mut options.custom, ());
        }
        let hashed = self.keyword("hashed");
        if !self.keyword("password") {
            return self.no_alternative();
        }
        self.expect_symbol("=")?;
        let text = self.text()?;
        match hashed {
            true => once("HASHED_PASSWORD", &mut options.hashed_password, text),
            false => once("PASSWORD", &mut options.password, text),
        }
    }

    fn flag(&mut self) -> Result<bool> {
        self.expect_symbol("=")?;
        let yes = self.keyword("true");
        if yes || self.keyword("false") { Ok(yes) } else { self.mismatched("BOOLEAN") }
    }

    /// `ALL DATACENTERS`, or `DATACENTERS { … }`; and the same of CIDRS.
    fn access(&mut self, of: &str) -> Result<Access> {
        if self.keyword("all") {
            self.expect_keyword(of)?;
            return Ok(Access::All);
        }
        self.expect_keyword(of)?;
        self.expect_symbol("{")?;
        let names = self.list_of(Self::text)?;
        self.expect_symbol("}")?;
        Ok(Access::Some(names.into_iter().collect()))
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
            let name = if self.is_name() || self.is_symbol("?") { Some(self.keyspace()?) } else { None };
            return Ok(DescribeTarget::Keyspace { name, only });
        }
        if self.keywords(&["materialized", "view"]) {
            return self.table_name().map(DescribeTarget::View);
        }
        let word = self.peek_word().unwrap_or_default();
        if is_reserved(&word) || !matches!(self.peek_at(1), Kind::End | Kind::Symbol(_)) {
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
                return if word == "table" { self.table().map(make) } else { self.table_name().map(make) };
            }
        }
        self.table_name().map(DescribeTarget::Any)
    }
}

/// Takes an option that may be given once.
fn once<T>(name: &str, slot: &mut Option<T>, value: T) -> Result<()> {
    if slot.replace(value).is_some() {
        return syntax(format!("Multiple definition for property '{name}'"));
    }
    Ok(())
}
