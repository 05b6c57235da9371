//! Statements about roles: what they ask for. Whether they may, and whether the roles exist, is known where they run.

use crate::ast::{ListStatement, Object, Resource, RoleOptions, RoleStatement, StatementKind};
use crate::error::{Result, unsupported};
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
    /// GRANT, REVOKE and LIST of permissions.
    Permissions {
        /// `GRANT`, `REVOKE` or `LIST`.
        verb: &'static str,
        /// On what, if it is said.
        resource: Option<Resource>,
        /// Whose, if it is said.
        role: Option<String>,
    },
}

impl RolePlan {
    /// The plan of a statement, or the statement again if it is not about roles.
    pub(crate) fn of(statement: StatementKind) -> Result<std::result::Result<RolePlan, StatementKind>> {
        Ok(Ok(match statement {
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
            StatementKind::Permission { grant, resource, role, .. } => {
                let verb = if grant { "GRANT" } else { "REVOKE" };
                RolePlan::Permissions { verb, resource: Some(resource), role: Some(role) }
            }
            StatementKind::List(ListStatement::Roles { of, recursive }) => {
                RolePlan::ListRoles { of, recursive }
            }
            StatementKind::List(ListStatement::Users) => RolePlan::ListUsers,
            StatementKind::List(ListStatement::Permissions { resource, of, .. }) => {
                RolePlan::Permissions { verb: "LIST", resource, role: of }
            }
            StatementKind::Identity { .. } => return unsupported("identities"),
            other => return Ok(Err(other)),
        }))
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
            RolePlan::Create { .. }
            | RolePlan::Alter { .. }
            | RolePlan::Drop { .. }
            | RolePlan::Grant { .. }
            | RolePlan::Permissions { .. } => return None,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> RolePlan {
        let statement = crate::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        RolePlan::of(statement.kind).expect("known").expect("it is about roles")
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
