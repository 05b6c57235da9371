//! Which permissions are wanted for what, and whether a role has them: decided on the roles that there are, in Cassandra's order and words.

use crate::error::Error;
use cluster::{Permissions, Resource, Roles};
use cql::ast;
use cql::{ChangeKind, SchemaChange, Touched, is_system_keyspace};
use schema::{Schema, Table};

/// Tables of the server's own that everybody may read: drivers and tools cannot do without.
fn is_readable(keyspace: &str, table: &str) -> bool {
    match keyspace {
        "system" => matches!(table, "local" | "peers" | "peers_v2" | "size_estimates" | "table_estimates"),
        "system_traces" => matches!(table, "events" | "sessions"),
        "system_schema" | "system_virtual_schema" => true,
        _ => false,
    }
}

/// Whether `user` has `wanted` on a resource or on what it lies in.
pub(crate) fn has(roles: &Roles, user: &str, wanted: Permissions, on: &Resource) -> bool {
    // What is granted on all keyspaces is not granted on the server's own.
    let is_own = on.keyspace().is_some_and(is_system_keyspace);
    roles.may(user, wanted, on, |granted| !(is_own && *granted == Resource::AllKeyspaces))
}

/// Errors: `user` lacks `wanted` on a resource and on what it lies in.
pub(crate) fn ensure(roles: &Roles, user: &str, wanted: Permissions, on: &Resource) -> Result<(), Error> {
    if has(roles, user, wanted, on) {
        return Ok(());
    }
    let wanted: Vec<&str> = wanted.names().collect();
    let wanted = wanted.join(", ");
    Err(Error::Unauthorized(format!("User {user} has no {wanted} permission on {on} or any of its parents")))
}

/// As [`ensure`], for rows of a table.
pub(crate) fn ensure_rows(
    roles: &Roles,
    user: &str,
    wanted: Permissions,
    table: &Table,
) -> Result<(), Error> {
    if wanted == Permissions::SELECT && is_readable(&table.keyspace, &table.name) {
        return Ok(());
    }
    ensure(roles, user, wanted, &table_resource(&table.keyspace, &table.name))
}

/// As [`ensure`], for a change of the schema.
pub(crate) fn ensure_change(roles: &Roles, user: &str, change: &SchemaChange) -> Result<(), Error> {
    let Some((kind, touched)) = change.touches() else { return Ok(()) };
    let wanted = match kind {
        ChangeKind::Created => Permissions::CREATE,
        ChangeKind::Updated => Permissions::ALTER,
        ChangeKind::Dropped => Permissions::DROP,
    };
    let keyspace = change.keyspace();
    let on = match touched {
        Touched::AllKeyspaces => Resource::AllKeyspaces,
        Touched::Keyspace => Resource::Keyspace(keyspace.to_owned()),
        Touched::AllTables => Resource::AllTables(keyspace.to_owned()),
        Touched::Table(name) => table_resource(keyspace, name),
        Touched::Functions => Resource::FunctionsOf(keyspace.to_owned()),
        Touched::Triggers if roles.is_super(user) => return Ok(()),
        Touched::Triggers => {
            // As Cassandra spells it.
            let what = if kind == ChangeKind::Created { "perform CREATE" } else { "perfrom DROP" };
            let text = format!("Only superusers are allowed to {what} TRIGGER queries");
            return Err(Error::Unauthorized(text));
        }
    };
    ensure(roles, user, wanted, &on)
}

fn table_resource(keyspace: &str, name: &str) -> Resource {
    Resource::Table(keyspace.to_owned(), name.to_owned())
}

/// What whoever has made a keyspace or a table may do with it from then on, and on what.
pub(crate) fn of_maker(change: &SchemaChange) -> Vec<Resource> {
    let keyspace = change.keyspace().to_owned();
    match (change.touches(), change.made_table()) {
        (Some((_, Touched::AllKeyspaces)), _) => {
            vec![Resource::Keyspace(keyspace.clone()), Resource::FunctionsOf(keyspace)]
        }
        (_, Some(table)) => vec![Resource::Table(keyspace, table.to_owned())],
        _ => Vec::new(),
    }
}

/// The permissions of a statement that mean something on its resource.
/// Errors: none does.
pub(crate) fn applicable(names: &[String], on: &Resource) -> Result<Permissions, Error> {
    let wanted = named(names) & on.applicable();
    if wanted == Permissions::NONE {
        let class = on.class();
        return Err(Error::Syntax(format!(
            "Resource type {class} does not support any of the requested permissions"
        )));
    }
    Ok(wanted)
}

/// The permissions that a statement names.
pub(crate) fn named(names: &[String]) -> Permissions {
    let one = |name: &String| match name.as_str() {
        "ALL" => Permissions::ALL,
        name => Permissions::named(name).unwrap_or_default(),
    };
    names.iter().map(one).fold(Permissions::NONE, |all, one| all | one)
}

/// What a statement means.
/// Errors: a table without a keyspace where none is in use.
pub(crate) fn resource_of(written: &ast::Resource) -> Result<Resource, Error> {
    let keyspace_of = |name: &ast::TableName| {
        name.keyspace.clone().ok_or_else(|| {
            let text =
                "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";
            Error::Invalid(text.to_owned())
        })
    };
    Ok(match written {
        ast::Resource::AllKeyspaces => Resource::AllKeyspaces,
        ast::Resource::Keyspace(name) => Resource::Keyspace(name.clone()),
        ast::Resource::AllTables(keyspace) => Resource::AllTables(keyspace.clone()),
        ast::Resource::Table(name) => Resource::Table(keyspace_of(name)?, name.name.clone()),
        ast::Resource::AllRoles => Resource::AllRoles,
        ast::Resource::Role(name) => Resource::Role(name.clone()),
        ast::Resource::AllFunctions(None) => Resource::AllFunctions,
        ast::Resource::AllFunctions(Some(keyspace)) => Resource::FunctionsOf(keyspace.clone()),
        ast::Resource::Function(name, types) => {
            let types = types.iter().map(cql::type_text).map(|text| (text.clone(), text)).collect();
            Resource::Function(keyspace_of(name)?, name.name.clone(), types)
        }
        ast::Resource::AllMbeans => Resource::AllMbeans,
        ast::Resource::Mbean(name) => Resource::Mbean(name.clone()),
    })
}

/// Whether a resource is there. Java's management beans are taken as they are named: there are none, and scripts grant on them.
pub(crate) fn exists(on: &Resource, roles: &Roles, schema: &Schema) -> bool {
    match on {
        Resource::Keyspace(name) | Resource::AllTables(name) | Resource::FunctionsOf(name) => {
            schema.keyspace(name).is_some()
        }
        Resource::Table(keyspace, name) => {
            schema.keyspace(keyspace).is_some_and(|keyspace| keyspace.tables.contains_key(name.as_str()))
        }
        Resource::Role(name) => roles.roles.contains_key(name),
        Resource::Function(..) => false,
        Resource::AllKeyspaces
        | Resource::AllRoles
        | Resource::AllFunctions
        | Resource::AllMbeans
        | Resource::Mbean(_) => true,
    }
}

/// What may not be granted on the server's own keyspaces, whoever grants it.
pub(crate) fn refuse_system(wanted: Permissions, on: &Resource) -> Result<(), Error> {
    let allowed = Permissions::SELECT | Permissions::DESCRIBE | Permissions::ALTER;
    let is_stored =
        |name: &str| is_system_keyspace(name) && !matches!(name, "system_views" | "system_virtual_schema");
    if on.keyspace().is_some_and(is_stored) && wanted.without(allowed) != Permissions::NONE {
        return Err(Error::Unauthorized(
            "Granting permissions on system keyspaces is strictly limited, this operation is not permitted"
                .to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::Role;

    /// A superuser, a reader by a role granted to it, and the owner of a keyspace.
    fn roles() -> Roles {
        let role = |superuser, member_of: &[&str]| Role {
            superuser,
            login: true,
            salted_hash: None,
            member_of: member_of.iter().map(|name| (*name).to_owned()).collect(),
        };
        let all = [
            ("boss", role(true, &[])),
            ("readers", role(false, &[])),
            ("clerk", role(false, &["readers"])),
            ("owner", role(false, &[])),
        ];
        let mut roles =
            Roles { roles: all.map(|(name, role)| (name.to_owned(), role)).into(), ..Roles::default() };
        let mut grant = |role: &str, on: &str, what| {
            roles.permissions.entry(role.to_owned()).or_default().insert(on.to_owned(), what);
        };
        grant("readers", "data", Permissions::SELECT);
        grant("owner", "data/ks", Resource::Keyspace("ks".to_owned()).applicable());
        roles
    }

    fn table(keyspace: &str, name: &str) -> Resource {
        table_resource(keyspace, name)
    }

    #[test]
    fn a_permission_holds_for_what_lies_in_its_resource_and_for_members_of_its_role() {
        let roles = roles();
        let may = |user, wanted, on: &Resource| has(&roles, user, wanted, on);
        assert!(may("clerk", Permissions::SELECT, &table("ks", "t")));
        assert!(!may("clerk", Permissions::MODIFY, &table("ks", "t")));
        assert!(may("owner", Permissions::MODIFY, &table("ks", "t")));
        assert!(may("owner", Permissions::CREATE, &Resource::AllTables("ks".to_owned())));
        assert!(!may("owner", Permissions::CREATE, &Resource::AllKeyspaces));
        assert!(!may("owner", Permissions::SELECT, &table("other", "t")));
        assert!(may("boss", Permissions::MODIFY, &table("ks", "t")));
        assert!(may("boss", Permissions::CREATE, &Resource::Role("x".to_owned())), "it has it on all roles");
        assert!(!may("gone", Permissions::SELECT, &table("ks", "t")));
        let refused = ensure(&roles, "clerk", Permissions::MODIFY, &table("ks", "t"));
        let text = "User clerk has no MODIFY permission on <table ks.t> or any of its parents";
        assert_eq!(refused, Err(Error::Unauthorized(text.to_owned())));
    }

    #[test]
    fn all_keyspaces_leave_out_the_servers_own() {
        let roles = roles();
        assert!(!has(&roles, "clerk", Permissions::SELECT, &table("system_auth", "roles")));
        assert!(has(&roles, "boss", Permissions::SELECT, &table("system_auth", "roles")));
        assert!(is_readable("system", "local") && !is_readable("system", "batches"));
        assert!(refuse_system(Permissions::MODIFY, &Resource::Keyspace("system".to_owned())).is_err());
        assert!(refuse_system(Permissions::SELECT, &table("system_auth", "roles")).is_ok());
        assert!(refuse_system(Permissions::MODIFY, &Resource::AllKeyspaces).is_ok());
    }

    #[test]
    fn what_means_nothing_on_a_resource_is_left_out() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let on = table("ks", "t");
        assert_eq!(applicable(&names(&["SELECT", "CREATE"]), &on), Ok(Permissions::SELECT));
        assert_eq!(applicable(&names(&["ALL"]), &on), Ok(on.applicable()));
        let refused = applicable(&names(&["EXECUTE"]), &on).expect_err("it means nothing there");
        assert!(matches!(refused, Error::Syntax(_)), "{refused}");
    }
}
