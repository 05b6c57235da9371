//! Statements about roles, run.
//!
//! ```text
//!   of a cluster   Roles, applied from the cluster's log on every node      changed by an entry of it
//!   of a lone node system_auth.roles         role ─▶ is_superuser, can_login, salted_hash, member_of
//!                  system_auth.role_members  role, member        the same memberships from the other side
//! ```
//! Who is not logged in changes and sees nothing; without an authorizer everybody else may all but what takes a superuser.

use crate::engine::Engine;
use crate::error::Error;
use crate::internal::Row;
use crate::login::{DEFAULT_ROLE, forget_login, new_hash};
use crate::outcome::{Announce, Answer, Outcome, Rows};
use crate::role_change::{Asked, invalid, is_super};
use crate::settings::Authenticator;
use crate::statement::Analysed;
use cluster::{Cluster, Role, RoleChange, Roles};
use cql::RolePlan;
use cql::ast::{Access, RoleOptions};
use protocol::wire::put_bytes;
use std::sync::Arc;
use types::collection;

fn not_changed(error: cluster::Error) -> Error {
    match error {
        cluster::Error::Refused(text) => Error::Invalid(text),
        error => Error::Server(format!("the roles were not changed: {error}")),
    }
}

/// What Cassandra's role manager is called where it says that it cannot do something.
const MANAGER: &str = "org.apache.cassandra.auth.CassandraRoleManager";

impl Engine {
    /// Runs a statement about roles for `user`; nobody is logged in when that is missing.
    pub(crate) async fn run_role(
        &self,
        plan: &RolePlan,
        analysed: &Analysed,
        user: Option<&str>,
    ) -> Result<Answer, Error> {
        let checked = match plan {
            RolePlan::Create { options, .. } | RolePlan::Alter { options, .. } => self.check(options),
            _ => Ok(()),
        };
        let (user_name, plan_asked, may_reset) = (user.map(str::to_owned), plan.clone(), self.may_reset());
        let mut asked = Asked { user: user_name, plan: plan_asked, checked, hash: None, may_reset };
        match plan {
            RolePlan::ListRoles { of, recursive } => {
                asked.logged_in()?;
                let roles = self.roles(user).await?;
                return list_roles(&roles, analysed, of.as_deref(), *recursive);
            }
            RolePlan::ListUsers => {
                asked.logged_in()?;
                return list_users(&*self.roles(user).await?, analysed);
            }
            RolePlan::Permissions { verb, role, .. } => {
                asked.logged_in()?;
                return Err(no_authorizer(&*self.roles(user).await?, verb, role.as_deref()));
            }
            RolePlan::Create { .. }
            | RolePlan::Alter { .. }
            | RolePlan::Drop { .. }
            | RolePlan::Grant { .. } => {}
        }
        let mut roles = self.roles(user).await?;
        let mut decided = asked.decide(&roles);
        if self.shared_roles().is_some() && matches!(decided, Ok(None) | Err(Error::Invalid(_))) {
            // ⚔ That a role is there or is not may be news that this node has not heard yet.
            match Cluster::catch_up().await {
                Ok(()) => {
                    roles = self.roles(user).await?;
                    decided = asked.decide(&roles);
                }
                // An error acknowledges nothing: it needs no majority.
                Err(error) if decided.is_ok() => return Err(not_changed(error)),
                Err(_) => {}
            }
        }
        let Some(mut change) = decided? else { return Ok(Answer::plain(Outcome::Void)) };
        // Only now: a password takes tens of milliseconds to hash.
        if let RolePlan::Create { options, .. } | RolePlan::Alter { options, .. } = plan {
            asked.hash = self.hash_of(options).await?;
        }
        if self.shared_roles().is_some() {
            let changed = Cluster::change_roles(move |roles| asked.decide(roles)).await;
            changed.map_err(not_changed)??;
        } else {
            if asked.hash.is_some() {
                let Some(hashed) = asked.decide(&roles)? else { return Ok(Answer::plain(Outcome::Void)) };
                change = hashed;
            }
            self.write_role(&change, &roles).await?;
        }
        Ok(Answer::plain(Outcome::Void))
    }

    /// Every role: as the cluster has agreed on, or as the rows say. The default one, as whoever asks, is read as [`Engine::role_read_level`] says.
    async fn roles(&self, user: Option<&str>) -> Result<Arc<Roles>, Error> {
        if let Some(roles) = self.shared_roles() {
            return Ok(roles);
        }
        let level = self.role_read_level(user.unwrap_or_default());
        let rows = self.internal(ALL_ROLES, &[], level).await?;
        read_roles(rows).map(Arc::new)
    }

    /// The roles in the rows that this node alone holds, with the default one if there is none: what it founds a cluster with.
    pub async fn roles_to_found_with(&self) -> Result<Roles, Error> {
        let mut roles = read_roles(self.internal_here(ALL_ROLES).await?)?;
        if roles.roles.is_empty() {
            let salted_hash = Some(new_hash(DEFAULT_ROLE.to_owned()).await?);
            let role = Role { superuser: true, login: true, salted_hash, ..Role::default() };
            roles.roles.insert(DEFAULT_ROLE.to_owned(), role);
        }
        Ok(roles)
    }

    /// Writes a change into the rows of a lone node.
    async fn write_role(&self, change: &RoleChange, roles: &Roles) -> Result<(), Error> {
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
            RoleChange::Grant(..) | RoleChange::Revoke(..) => {
                return Err(Error::Server("permissions are not kept in rows".into()));
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
        let text = "DELETE FROM system_auth.network_permissions WHERE role = ?";
        self.internal(text, &[key], level).await?;
        Ok(())
    }

    /// See [`Asked::may_reset`].
    fn may_reset(&self) -> bool {
        self.authenticator() == Authenticator::AllowAll && self.shared_roles().is_some()
    }

    /// Refuses options that cannot be, as far as that is known without asking for roles.
    fn check(&self, options: &RoleOptions) -> Result<(), Error> {
        let unsupported = |option: &str| invalid(format!("{MANAGER} doesn't support {option}"));
        if options.custom.is_some() {
            return unsupported("OPTIONS");
        }
        if self.authenticator() == Authenticator::AllowAll {
            if options.password.is_some() {
                return unsupported("PASSWORD");
            }
            if options.hashed_password.is_some() && !self.may_reset() {
                return unsupported("HASHED_PASSWORD");
            }
        }
        if options.hashed_password.as_deref().is_some_and(|hash| !auth::is_hash(hash)) {
            return invalid("Invalid hashed password value. Please use jBcrypt.");
        }
        if let Some(Access::Some(groups)) = &options.cidrs {
            let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
            let groups = groups.join(", ");
            return invalid(format!("Invalid CIDR group(s): [{groups}]. Available CIDR Groups are: []"));
        }
        if let Some(Access::Some(named)) = &options.datacenters {
            let snapshot = self.coordinator.topology();
            let datacenters = snapshot.members().datacenters();
            let is_known = |name: &&String| datacenters.contains(name.as_str());
            let unknown: Vec<&str> =
                named.iter().filter(|name| !is_known(name)).map(String::as_str).collect();
            if !unknown.is_empty() {
                let unknown = unknown.join(", ");
                return invalid(format!(
                    "Invalid value(s) for DATACENTERS '[{unknown}]',All values must be valid datacenters"
                ));
            }
        }
        Ok(())
    }

    async fn hash_of(&self, options: &RoleOptions) -> Result<Option<String>, Error> {
        match (&options.password, &options.hashed_password) {
            (Some(password), _) => Ok(Some(new_hash(password.clone()).await?)),
            (None, hashed) => Ok(hashed.clone()),
        }
    }
}

const ALL_ROLES: &str = "SELECT role, is_superuser, can_login, member_of, salted_hash FROM system_auth.roles";

fn read_roles(rows: Vec<Row>) -> Result<Roles, Error> {
    let mut roles = Roles::default();
    for row in rows {
        let (name, role) = read_role(row)?;
        roles.roles.insert(name, role);
    }
    Ok(roles)
}

fn read_role(row: Row) -> Result<(String, Role), Error> {
    let [Some(name), superuser, login, member_of, salted_hash] = &row[..] else {
        return Err(Error::Server("a role without a name".into()));
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let flag = |value: &Option<Vec<u8>>| value.as_deref() == Some(&[1][..]);
    let mut role = Role {
        superuser: flag(superuser),
        login: flag(login),
        salted_hash: salted_hash.as_deref().map(text),
        ..Role::default()
    };
    for element in member_of.as_deref().map(collection::elements).into_iter().flatten() {
        let element = element.map_err(|error| Error::Server(format!("a role's memberships: {error}")))?;
        role.member_of.extend(element.map(text));
    }
    Ok((text(name), role))
}

/// What cannot be done without an authorizer. Roles that are not there are said first.
fn no_authorizer(roles: &Roles, verb: &str, role: Option<&str>) -> Error {
    let is_list = verb == "LIST";
    if let Some(role) = role.filter(|role| !roles.roles.contains_key(*role)) {
        let shown = if is_list { format!("<role {role}>") } else { format!("Role {role}") };
        return Error::Invalid(format!("{shown} doesn't exist"));
    }
    let what = if is_list { "LIST PERMISSIONS" } else { verb };
    Error::Invalid(format!("{what} operation is not supported by AllowAllAuthorizer"))
}

/// Lists all roles, or one with those granted to it; with all that were granted to those, too, if `recursive`.
fn list_roles(
    roles: &Roles,
    analysed: &Analysed,
    of: Option<&str>,
    recursive: bool,
) -> Result<Answer, Error> {
    let no_options = 0i32.to_be_bytes().to_vec();
    let row = |(name, role): (&str, &Role)| -> Row {
        vec![
            Some(name.as_bytes().to_vec()),
            Some(vec![u8::from(role.superuser)]),
            Some(vec![u8::from(role.login)]),
            Some(no_options.clone()),
            Some(b"ALL".to_vec()),
        ]
    };
    let Some(name) = of else {
        return listed(analysed, roles.roles.iter().map(|(name, role)| row((name, role))));
    };
    let Some(role) = roles.roles.get(name) else {
        return invalid(format!("<role {name}> doesn't exist"));
    };
    let mut found = roles.inherited(name);
    found.retain(|other, _| recursive || *other == name || role.member_of.contains(*other));
    listed(analysed, found.into_iter().map(row))
}

fn list_users(roles: &Roles, analysed: &Analysed) -> Result<Answer, Error> {
    let users = roles.roles.iter().filter(|(_, role)| role.login);
    let row = |(name, _): (&String, &Role)| -> Row {
        vec![
            Some(name.clone().into_bytes()),
            Some(vec![u8::from(is_super(roles, name))]),
            Some(b"ALL".to_vec()),
        ]
    };
    listed(analysed, users.map(row))
}

/// The wire form of a set of one text.
fn set_of(name: &str) -> Vec<u8> {
    collection::build(std::iter::once(name.as_bytes()))
}

fn listed(analysed: &Analysed, list: impl Iterator<Item = Row>) -> Result<Answer, Error> {
    let metadata = analysed.metadata.clone();
    let metadata = metadata.ok_or_else(|| Error::Server("a list without columns".into()))?;
    let mut rows = Rows::new(metadata, Announce::Columns);
    for row in list {
        rows.count += 1;
        row.iter().for_each(|value| put_bytes(&mut rows.content, value.as_deref()));
    }
    Ok(Answer::plain(if rows.count == 0 { Outcome::Void } else { Outcome::Rows(rows) }))
}
