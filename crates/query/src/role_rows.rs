//! Roles in the rows of a lone node.
//!
//! ```text
//!   system_auth.roles                 role ─▶ is_superuser, can_login, salted_hash, member_of
//!   system_auth.role_members          role, member            the same memberships from the other side
//!   system_auth.role_permissions      role, resource ─▶ permissions
//!   system_auth.resource_role_permissons_index   resource, role     the same grants from the other side
//!   system_auth.network_permissions   roles/NAME ─▶ dcs       an empty set is all of them
//!   system_auth.identity_to_role      identity ─▶ role
//! ```
//! Where statements are judged by them, every shard has them in memory, as they were read last: after each change, a client's own writes among
//! them, before that is answered.

use crate::bound::Write;
use crate::engine::Engine;
use crate::error::Error;
use crate::internal::Row;
use crate::login::{DEFAULT_ROLE, forget_login, new_hash};
use cluster::{ChangeKind, Permissions, Resource, Role, RoleChange, Roles, SchemaEvent, Target, builtin};
use runtime::{Group, ShardId};
use std::sync::Arc;
use types::collection;

impl Engine {
    /// Every role: as the cluster has agreed on, or as the rows say. The default one, as whoever asks, is read as [`Engine::role_read_level`] says.
    pub(crate) async fn roles(&self, user: Option<&str>) -> Result<Arc<Roles>, Error> {
        if let Some(roles) = self.shared_roles() {
            return Ok(roles);
        }
        let level = self.role_read_level(user.unwrap_or_default());
        let mut read = Vec::with_capacity(TABLES.len());
        for text in TABLES {
            read.push(self.internal(text, &[], level).await?);
        }
        read_roles(read).map(Arc::new)
    }

    /// Reads the rows of a lone node once more and has every shard judge statements by them; nothing to do where statements are not judged, or
    /// are by what a cluster has agreed on.
    pub(crate) async fn show_own_roles(&self) -> Result<(), Error> {
        if !self.settings.authorization.is_on() || self.shared_roles().is_some() {
            return Ok(());
        }
        runtime::submit_to(ShardId(0), Group::QUERY, || async move {
            let engine = runtime::local::<Engine>();
            let _turn = engine.reading_roles.acquire(1).await;
            let roles = engine.roles(None).await?;
            let show = move || {
                let roles = roles.clone();
                async move {
                    if let Some(engine) = runtime::try_local::<Engine>() {
                        engine.take_own_roles(roles);
                    }
                }
            };
            runtime::on_every_shard(Group::QUERY, show).await;
            Ok(())
        })
        .await
    }

    /// Whether a write of a client's changes rows by which statements are judged.
    pub(crate) fn writes_roles(&self, write: &Write) -> bool {
        if !self.has_own_roles() {
            return false;
        }
        let schema = self.schema();
        let is_one = |table: &Arc<schema::Table>| &*table.keyspace == builtin::AUTH;
        write.mutations.iter().any(|mutation| schema.table_by_id(mutation.table()).is_some_and(is_one))
    }

    /// Takes what was granted on tables and keyspaces of a lone node that are gone. A cluster does that where it drops them.
    pub(crate) async fn forget_dropped(&self, events: &[SchemaEvent]) -> Result<(), Error> {
        if self.shared_roles().is_some() {
            return Ok(());
        }
        let mut gone = Vec::new();
        for event in events.iter().filter(|event| event.kind == ChangeKind::Dropped) {
            let keyspace = event.keyspace.clone();
            match event.target {
                Target::Keyspace => gone.extend([
                    Resource::Keyspace(keyspace.clone()),
                    Resource::AllTables(keyspace.clone()),
                    Resource::FunctionsOf(keyspace),
                ]),
                Target::Table => gone.push(Resource::Table(keyspace, event.name.clone())),
                Target::Type => {}
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        let roles = self.roles(None).await?;
        for on in gone {
            self.forget_on(&on.name(), &roles).await?;
        }
        self.show_own_roles().await
    }

    /// The roles in the rows that this node alone holds, with the default one if there is none: what it founds a cluster with.
    pub async fn roles_to_found_with(&self) -> Result<Roles, Error> {
        let mut read = Vec::with_capacity(TABLES.len());
        for text in TABLES {
            read.push(self.internal_here(text).await?);
        }
        let mut roles = read_roles(read)?;
        if roles.roles.is_empty() {
            let salted_hash = Some(new_hash(DEFAULT_ROLE.to_owned()).await?);
            let role = Role { superuser: true, login: true, salted_hash, ..Role::default() };
            roles.roles.insert(DEFAULT_ROLE.to_owned(), role);
        }
        Ok(roles)
    }

    /// Writes a change into the rows of a lone node.
    pub(crate) async fn write_role(&self, change: &RoleChange, roles: &Roles) -> Result<(), Error> {
        match change {
            RoleChange::Create(name, role) => {
                let text = "INSERT INTO system_auth.roles (role, is_superuser, can_login, salted_hash) \
                            VALUES (?, ?, ?, ?)";
                let (superuser, login) = ([u8::from(role.superuser)], [u8::from(role.login)]);
                let hash = role.salted_hash.as_deref().map(str::as_bytes);
                let values = [Some(name.as_bytes()), Some(&superuser[..]), Some(&login[..]), hash];
                self.internal(text, &values, self.role_write_level(name)).await?;
                forget_login(name).await;
            }
            RoleChange::Alter { name, superuser, login, salted_hash } => {
                let (key, level) = (Some(name.as_bytes()), self.role_write_level(name));
                if let Some(superuser) = superuser {
                    let text = "UPDATE system_auth.roles SET is_superuser = ? WHERE role = ?";
                    self.internal(text, &[Some(&[u8::from(*superuser)]), key], level).await?;
                }
                if let Some(login) = login {
                    let text = "UPDATE system_auth.roles SET can_login = ? WHERE role = ?";
                    self.internal(text, &[Some(&[u8::from(*login)]), key], level).await?;
                }
                if let Some(hash) = salted_hash {
                    let text = "UPDATE system_auth.roles SET salted_hash = ? WHERE role = ?";
                    self.internal(text, &[Some(hash.as_bytes()), key], level).await?;
                }
                forget_login(name).await;
            }
            RoleChange::Drop(name) => self.drop_rows(name, roles).await?,
            RoleChange::GrantRole(role, member) => {
                let level = self.role_write_level(member);
                let text = "UPDATE system_auth.roles SET member_of = member_of + ? WHERE role = ?";
                self.internal(text, &[Some(&set_of(role)), Some(member.as_bytes())], level).await?;
                let text = "INSERT INTO system_auth.role_members (role, member) VALUES (?, ?)";
                self.internal(text, &[Some(role.as_bytes()), Some(member.as_bytes())], level).await?;
            }
            RoleChange::RevokeRole(role, member) => {
                let level = self.role_write_level(member);
                let text = "UPDATE system_auth.roles SET member_of = member_of - ? WHERE role = ?";
                self.internal(text, &[Some(&set_of(role)), Some(member.as_bytes())], level).await?;
                let text = "DELETE FROM system_auth.role_members WHERE role = ? AND member = ?";
                self.internal(text, &[Some(role.as_bytes()), Some(member.as_bytes())], level).await?;
            }
            RoleChange::Grant(role, resource, permissions) => {
                let level = self.role_write_level(role);
                let (role, resource) = (Some(role.as_bytes()), Some(resource.as_bytes()));
                let text = "UPDATE system_auth.role_permissions SET permissions = permissions + ? \
                            WHERE role = ? AND resource = ?";
                self.internal(text, &[Some(&set_of_permissions(*permissions)), role, resource], level)
                    .await?;
                let text =
                    "INSERT INTO system_auth.resource_role_permissons_index (resource, role) VALUES (?, ?)";
                self.internal(text, &[resource, role], level).await?;
            }
            RoleChange::Revoke(role, resource, permissions) => {
                let held = roles.permissions.get(role).and_then(|resources| resources.get(resource));
                let left = held.copied().unwrap_or_default().without(*permissions);
                if left == Permissions::NONE {
                    return self.forget_grant(role, resource).await;
                }
                let level = self.role_write_level(role);
                let text = "UPDATE system_auth.role_permissions SET permissions = permissions - ? \
                            WHERE role = ? AND resource = ?";
                let values = [
                    Some(&set_of_permissions(*permissions)[..]),
                    Some(role.as_bytes()),
                    Some(resource.as_bytes()),
                ];
                self.internal(text, &values, level).await?;
            }
            RoleChange::All(changes) => {
                for change in changes {
                    Box::pin(self.write_role(change, roles)).await?;
                }
            }
            RoleChange::SetDatacenters(role, named) => {
                let key = Resource::Role(role.clone()).name();
                let named = collection::build(named.iter().map(|name| name.as_bytes()));
                let text = "UPDATE system_auth.network_permissions SET dcs = ? WHERE role = ?";
                let level = self.role_write_level(role);
                self.internal(text, &[Some(&named), Some(key.as_bytes())], level).await?;
            }
            RoleChange::AddIdentity(identity, role) => {
                let text = "INSERT INTO system_auth.identity_to_role (identity, role) VALUES (?, ?)";
                let level = self.role_write_level(role);
                self.internal(text, &[Some(identity.as_bytes()), Some(role.as_bytes())], level).await?;
            }
            RoleChange::DropIdentity(identity) => {
                let text = "DELETE FROM system_auth.identity_to_role WHERE identity = ?";
                self.internal(text, &[Some(identity.as_bytes())], self.role_write_level("")).await?;
            }
        }
        Ok(())
    }

    /// Takes all that a role was granted on a resource.
    async fn forget_grant(&self, role: &str, resource: &str) -> Result<(), Error> {
        let level = self.role_write_level(role);
        let (role, resource) = (Some(role.as_bytes()), Some(resource.as_bytes()));
        let text = "DELETE FROM system_auth.role_permissions WHERE role = ? AND resource = ?";
        self.internal(text, &[role, resource], level).await?;
        let text = "DELETE FROM system_auth.resource_role_permissons_index WHERE resource = ? AND role = ?";
        self.internal(text, &[resource, role], level).await?;
        Ok(())
    }

    /// Takes all that was granted on a resource.
    async fn forget_on(&self, resource: &str, roles: &Roles) -> Result<(), Error> {
        for (role, resources) in &roles.permissions {
            if resources.contains_key(resource) {
                self.forget_grant(role, resource).await?;
            }
        }
        Ok(())
    }

    async fn drop_rows(&self, name: &str, roles: &Roles) -> Result<(), Error> {
        let (key, level) = (Some(name.as_bytes()), self.role_write_level(name));
        self.internal("DELETE FROM system_auth.roles WHERE role = ?", &[key], level).await?;
        forget_login(name).await;
        let members = "SELECT member FROM system_auth.role_members WHERE role = ?";
        for member in self.internal(members, &[key], self.role_read_level(name)).await? {
            let member = member.into_iter().next().flatten();
            let text = "UPDATE system_auth.roles SET member_of = member_of - ? WHERE role = ?";
            self.internal(text, &[Some(&set_of(name)), member.as_deref()], level).await?;
        }
        self.internal("DELETE FROM system_auth.role_members WHERE role = ?", &[key], level).await?;
        for granted in roles.roles.get(name).into_iter().flat_map(|role| &role.member_of) {
            let text = "DELETE FROM system_auth.role_members WHERE role = ? AND member = ?";
            self.internal(text, &[Some(granted.as_bytes()), key], level).await?;
        }
        for resource in roles.permissions.get(name).into_iter().flat_map(|resources| resources.keys()) {
            self.forget_grant(name, resource).await?;
        }
        let own = Resource::Role(name.to_owned()).name();
        self.forget_on(&own, roles).await?;
        let text = "DELETE FROM system_auth.network_permissions WHERE role = ?";
        self.internal(text, &[Some(own.as_bytes())], level).await?;
        for (identity, _) in roles.identities.iter().filter(|(_, role)| *role == name) {
            let text = "DELETE FROM system_auth.identity_to_role WHERE identity = ?";
            self.internal(text, &[Some(identity.as_bytes())], level).await?;
        }
        Ok(())
    }
}

/// What is read of each table, in the order in which [`read_roles`] takes it.
const TABLES: [&str; 4] = [
    "SELECT role, is_superuser, can_login, member_of, salted_hash FROM system_auth.roles",
    "SELECT role, resource, permissions FROM system_auth.role_permissions",
    "SELECT role, dcs FROM system_auth.network_permissions",
    "SELECT identity, role FROM system_auth.identity_to_role",
];

fn read_roles(tables: Vec<Vec<Row>>) -> Result<Roles, Error> {
    let [of_roles, of_permissions, of_datacenters, of_identities] =
        <[Vec<Row>; 4]>::try_from(tables).map_err(|_| Error::Server("tables of roles are missing".into()))?;
    let mut roles = Roles::default();
    for row in of_roles {
        let (name, role) = read_role(row)?;
        roles.roles.insert(name, role);
    }
    for row in of_permissions {
        let [Some(role), Some(resource), Some(permissions)] = &row[..] else { continue };
        let named = |name: String| Permissions::named(&name).unwrap_or_default();
        let held = texts(permissions)?.into_iter().map(named).fold(Permissions::NONE, |all, one| all | one);
        if held != Permissions::NONE {
            roles.permissions.entry(text(role)).or_default().insert(text(resource), held);
        }
    }
    for row in of_datacenters {
        let [Some(resource), Some(named)] = &row[..] else { continue };
        if let Some(Resource::Role(role)) = Resource::named(&text(resource)) {
            roles.datacenters.insert(role, texts(named)?.into_iter().collect());
        }
    }
    for row in of_identities {
        if let [Some(identity), Some(role)] = &row[..] {
            roles.identities.insert(text(identity), text(role));
        }
    }
    Ok(roles)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The elements of a set of texts.
fn texts(set: &[u8]) -> Result<Vec<String>, Error> {
    let mut read = Vec::new();
    for element in collection::elements(set) {
        let element = element.map_err(|error| Error::Server(format!("a set of a role: {error}")))?;
        read.extend(element.map(text));
    }
    Ok(read)
}

fn read_role(row: Row) -> Result<(String, Role), Error> {
    let [Some(name), superuser, login, member_of, salted_hash] = &row[..] else {
        return Err(Error::Server("a role without a name".into()));
    };
    let flag = |value: &Option<Vec<u8>>| value.as_deref() == Some(&[1][..]);
    let mut role = Role {
        superuser: flag(superuser),
        login: flag(login),
        salted_hash: salted_hash.as_deref().map(text),
        ..Role::default()
    };
    if let Some(granted) = member_of {
        role.member_of.extend(texts(granted)?);
    }
    Ok((text(name), role))
}

/// The wire form of a set of one text.
fn set_of(name: &str) -> Vec<u8> {
    collection::build(std::iter::once(name.as_bytes()))
}

/// The wire form of permissions: a set of their names.
fn set_of_permissions(permissions: Permissions) -> Vec<u8> {
    let mut names: Vec<&str> = permissions.names().collect();
    names.sort_unstable();
    collection::build(names.into_iter().map(str::as_bytes))
}
