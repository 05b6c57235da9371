//! Statements about roles: what they ask for. Whether they may, and whether the roles exist, is known where they run.

use crate::ast::{ListStatement, Object, Resource, RoleOptions, RoleStatement, StatementKind};
use crate::select::ResultColumn;
use std::sync::Arc;
use types::CqlType;

/// A statement about roles, or about what they may do.
#[derive(Debug, Clone, PartialEq)]
pub enum RolePlan {
    /// CREATE ROLE, CREATE USER.
    Create {
        /// Its name.
        name: String,
        /// All but passwords and access are set.
        options: RoleOptions,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// ALTER ROLE, ALTER USER.
    Alter {
        /// Its name.
        name: String,
        /// What changes.
        options: RoleOptions,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// DROP ROLE, DROP USER.
    Drop {
        /// Its name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// GRANT and REVOKE of a role.
    Grant {
        /// GRANT, otherwise REVOKE.
        grant: bool,
        /// What is granted.
        role: String,
        /// To whom.
        grantee: String,
    },
    /// LIST ROLES.
    ListRoles {
        /// OF.
        of: Option<String>,
        /// Without NORECURSIVE.
        recursive: bool,
    },
    /// LIST USERS.
    ListUsers,
    /// GRANT and REVOKE of permissions.
    Permissions {
        /// GRANT, otherwise REVOKE.
        grant: bool,
        /// The permissions by name; `ALL` alone for all.
        permissions: Vec<String>,
        /// On what; a table has its keyspace, unless none was in use.
        resource: Resource,
        /// To or from whom.
        role: String,
    },
    /// LIST of permissions.
    ListPermissions {
        /// Those that are shown, by name; `ALL` alone for all.
        permissions: Vec<String>,
        /// On what, if it is said; a table has its keyspace, unless none was in use.
        resource: Option<Resource>,
        /// Whose, if it is said.
        of: Option<String>,
        /// Without NORECURSIVE: on what it lies in, too.
        recursive: bool,
    },
    /// ADD IDENTITY.
    AddIdentity {
        /// The identity in a certificate.
        identity: String,
        /// The role that it stands for.
        role: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP IDENTITY.
    DropIdentity {
        /// The identity in a certificate.
        identity: String,
        /// IF EXISTS.
        if_exists: bool,
    },
}

impl RolePlan {
    /// The plan of a statement, or the statement again if it is not about roles.
    pub(crate) fn of(statement: StatementKind, in_use: Option<&str>) -> Result<RolePlan, Box<StatementKind>> {
        Ok(match statement {
            StatementKind::Role(RoleStatement { create: true, conditional, name, options }) => {
                RolePlan::Create { name, options, if_not_exists: conditional }
            }
            StatementKind::Role(RoleStatement { create: false, conditional, name, options }) => {
                RolePlan::Alter { name, options, if_exists: conditional }
            }
            StatementKind::DropObject { object: Object::Role | Object::User, name, if_exists, .. } => {
                RolePlan::Drop { name: name.name, if_exists }
            }
            StatementKind::RoleGrant { grant, role, grantee } => RolePlan::Grant { grant, role, grantee },
            StatementKind::Permission { grant, permissions, resource, role } => {
                RolePlan::Permissions { grant, permissions, resource: within(resource, in_use), role }
            }
            StatementKind::List(ListStatement::Roles { of, recursive }) => {
                RolePlan::ListRoles { of, recursive }
            }
            StatementKind::List(ListStatement::Users) => RolePlan::ListUsers,
            StatementKind::List(ListStatement::Permissions { permissions, resource, of, recursive }) => {
                let resource = resource.map(|resource| within(resource, in_use));
                RolePlan::ListPermissions { permissions, resource, of, recursive }
            }
            StatementKind::Identity { add: true, identity, role: Some(role), conditional } => {
                RolePlan::AddIdentity { identity, role, if_not_exists: conditional }
            }
            StatementKind::Identity { identity, conditional, .. } => {
                RolePlan::DropIdentity { identity, if_exists: conditional }
            }
            other => return Err(Box::new(other)),
        })
    }

    /// What each row holds; `None` when there are none.
    pub fn columns(&self) -> Option<Arc<[ResultColumn]>> {
        let (table, columns) = match self {
            RolePlan::ListRoles { .. } => {
                let options = CqlType::map(CqlType::Text, CqlType::Text).frozen();
                let columns = vec![
                    ("role", CqlType::Text),
                    ("super", CqlType::Boolean),
                    ("login", CqlType::Boolean),
                    ("options", options),
                    ("datacenters", CqlType::Text),
                ];
                ("roles", columns)
            }
            RolePlan::ListUsers => {
                let columns = vec![
                    ("name", CqlType::Text),
                    ("super", CqlType::Boolean),
                    ("datacenters", CqlType::Text),
                ];
                ("users", columns)
            }
            RolePlan::ListPermissions { .. } => {
                let columns = ["role", "username", "resource", "permission"];
                ("permissions", columns.map(|name| (name, CqlType::Text)).to_vec())
            }
            RolePlan::Create { .. }
            | RolePlan::Alter { .. }
            | RolePlan::Drop { .. }
            | RolePlan::Grant { .. }
            | RolePlan::Permissions { .. }
            | RolePlan::AddIdentity { .. }
            | RolePlan::DropIdentity { .. } => return None,
        };
        let column = |(name, ty): (&str, CqlType)| ResultColumn {
            keyspace: "system_auth".into(),
            table: table.into(),
            name: name.into(),
            ty,
        };
        Some(columns.into_iter().map(column).collect())
    }
}

/// A table or function named without its keyspace is one of the keyspace in use.
fn within(resource: Resource, in_use: Option<&str>) -> Resource {
    match resource {
        Resource::Table(mut table) => {
            table.keyspace = table.keyspace.or_else(|| in_use.map(str::to_owned));
            Resource::Table(table)
        }
        Resource::Function(mut name, types) => {
            name.keyspace = name.keyspace.or_else(|| in_use.map(str::to_owned));
            Resource::Function(name, types)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> RolePlan {
        let statement = crate::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        RolePlan::of(statement.kind, Some("ks")).expect("it is about roles")
    }

    #[test]
    fn permissions_come_with_what_they_are_on() {
        let table = |keyspace: &str| {
            let keyspace = Some(keyspace.to_owned());
            Resource::Table(crate::ast::TableName { keyspace, name: "t".to_owned() })
        };
        for (text, on) in [
            ("GRANT SELECT, MODIFY ON t TO r", table("ks")),
            ("GRANT SELECT PERMISSION, MODIFY PERMISSION ON TABLE other.t TO r", table("other")),
        ] {
            let permissions = vec!["SELECT".to_owned(), "MODIFY".to_owned()];
            let expected =
                RolePlan::Permissions { grant: true, permissions, resource: on, role: "r".to_owned() };
            assert_eq!(plan(text), expected, "{text}");
        }
        let listed = plan("LIST ALL PERMISSIONS ON KEYSPACE k OF r NORECURSIVE");
        assert!(listed.columns().is_some_and(|columns| columns.len() == 4));
        assert!(matches!(listed, RolePlan::ListPermissions { recursive: false, .. }));
        assert!(matches!(
            plan("DROP IDENTITY IF EXISTS 'a'"),
            RolePlan::DropIdentity { if_exists: true, .. }
        ));
    }

    fn options(text: &str) -> RoleOptions {
        match plan(text) {
            RolePlan::Create { options, .. } | RolePlan::Alter { options, .. } => options,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_is_not_said_has_a_meaning_when_created() {
        let role = options("CREATE ROLE r");
        assert_eq!((role.superuser, role.login, role.password), (Some(false), Some(false), None));
        let user = options("CREATE USER u WITH PASSWORD 'p' SUPERUSER");
        assert_eq!((user.superuser, user.login, user.password), (Some(true), Some(true), Some("p".into())));
        let altered = options("ALTER ROLE r WITH HASHED PASSWORD = 'h'");
        assert_eq!((altered.superuser, altered.login), (None, None));
        assert_eq!(altered.hashed_password.as_deref(), Some("h"));
        assert_eq!(options("ALTER USER u NOSUPERUSER").superuser, Some(false));
    }

    #[test]
    fn names_of_users_keep_their_case() {
        let name = |text| match plan(text) {
            RolePlan::Create { name, .. } | RolePlan::Drop { name, .. } => name,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(name("CREATE ROLE Bob"), "bob");
        assert_eq!(name("CREATE ROLE \"Bob\""), "Bob");
        assert_eq!(name("CREATE ROLE 'Bob'"), "Bob");
        assert_eq!(name("CREATE USER Bob"), "Bob");
        assert_eq!(name("DROP USER Bob"), "Bob");
        assert!(crate::parse("CREATE USER \"Bob\"").is_err());
    }

    #[test]
    fn options_are_given_once_and_of_their_kind() {
        for wrong in [
            "CREATE ROLE r WITH LOGIN = true AND LOGIN = true",
            "CREATE ROLE r WITH PASSWORD = 'a' AND PASSWORD = 'b'",
            "CREATE ROLE r WITH PASSWORD = 'a' AND HASHED PASSWORD = 'b'",
            "CREATE ROLE r WITH LOGIN = 'true'",
            "CREATE ROLE r WITH PASSWORD = 12",
            "CREATE ROLE r WITH OPTIONS = 'a'",
            "CREATE ROLE r WITH COLOUR = 'a'",
            "CREATE ROLE r WITH ACCESS TO {'a'}",
        ] {
            assert!(matches!(crate::parse(wrong), Err(crate::Error::Syntax { .. })), "{wrong}");
        }
        let access = options("CREATE ROLE r WITH ACCESS TO DATACENTERS {'b', 'a'}").datacenters;
        assert_eq!(access, Some(crate::ast::Access::Some(["a".to_string(), "b".to_string()].into())));
        let all = options("CREATE ROLE r WITH LOGIN = true AND ACCESS TO ALL DATACENTERS").datacenters;
        assert_eq!(all, Some(crate::ast::Access::All));
    }
}
