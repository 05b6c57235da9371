//! Statements about roles, run: the tables of `system_auth` changed and listed as Cassandra's role manager does.
//!
//! ```text
//!   roles         role ─▶ is_superuser, can_login, salted_hash, member_of
//!   role_members  role, member        the same memberships from the other side
//! ```
//! Who is not logged in changes and sees nothing; without an authorizer everybody else may all but what takes a superuser.

use crate::engine::Engine;
use crate::error::Error;
use crate::internal::Row;
use crate::login::{forget_login, new_hash};
use crate::outcome::{Announce, Answer, Outcome, Rows};
use crate::settings::Authenticator;
use crate::statement::Analysed;
use cql::RolePlan;
use cql::ast::{Access, RoleOptions};
use protocol::wire::put_bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::collection;

/// What Cassandra's role manager is called where it says that it cannot do something.
const MANAGER: &str = "org.apache.cassandra.auth.CassandraRoleManager";

/// A role as its row says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Role {
    name: String,
    is_superuser: bool,
    can_login: bool,
    member_of: BTreeSet<String>,
}

impl Engine {
    /// Runs a statement about roles for `user`; nobody is logged in when that is missing.
    pub(crate) async fn run_role(
        &self,
        plan: &RolePlan,
        analysed: &Analysed,
        user: Option<&str>,
    ) -> Result<Answer, Error> {
        match plan {
            RolePlan::Create { name, options, if_not_exists } => {
                self.create_role(user, name, options, *if_not_exists).await?;
            }
            RolePlan::Alter { name, options, if_exists } => {
                self.alter_role(user, name, options, *if_exists).await?;
            }
            RolePlan::Drop { name, if_exists } => self.drop_role(user, name, *if_exists).await?,
            RolePlan::Grant { grant, role, grantee } => {
                logged_in(user)?;
                self.existing(role).await?;
                let member = self.existing(grantee).await?;
                if *grant { self.grant(role, &member).await? } else { self.revoke(role, &member).await? }
            }
            RolePlan::ListRoles { of, recursive } => {
                logged_in(user)?;
                return self.list_roles(analysed, of.as_deref(), *recursive).await;
            }
            RolePlan::ListUsers => {
                logged_in(user)?;
                return self.list_users(analysed).await;
            }
            RolePlan::Permissions { verb, role, .. } => {
                logged_in(user)?;
                if let Some(role) = role
                    && self.role(role).await?.is_none()
                {
                    let shown =
                        if *verb == "LIST" { format!("<role {role}>") } else { format!("Role {role}") };
                    return invalid(format!("{shown} doesn't exist"));
                }
                let what = if *verb == "LIST" { "LIST PERMISSIONS" } else { verb };
                return invalid(format!("{what} operation is not supported by AllowAllAuthorizer"));
            }
        }
        Ok(Answer::plain(Outcome::Void))
    }

    async fn create_role(
        &self,
        user: Option<&str>,
        name: &str,
        options: &RoleOptions,
        if_not_exists: bool,
    ) -> Result<(), Error> {
        if options.superuser == Some(true) && !self.is_super(user).await? {
            return unauthorized("Only superusers can create a role with superuser status");
        }
        self.check(options)?;
        if name.is_empty() {
            return invalid("Role name can't be an empty string");
        }
        logged_in(user)?;
        if self.role(name).await?.is_some() {
            return if if_not_exists { Ok(()) } else { invalid(format!("{name} already exists")) };
        }
        let hash = self.hash_of(options).await?;
        let level = self.role_write_level(name);
        let text = "INSERT INTO system_auth.roles (role, is_superuser, can_login, salted_hash) \
                    VALUES (?, ?, ?, ?)";
        let flag = |flag: Option<bool>| [u8::from(flag.unwrap_or(false))];
        let (superuser, login) = (flag(options.superuser), flag(options.login));
        let hash = hash.as_deref().map(str::as_bytes);
        self.internal(text, &[Some(name.as_bytes()), Some(&superuser), Some(&login), hash], level).await?;
        forget_login(name).await;
        Ok(())
    }

    async fn alter_role(
        &self,
        user: Option<&str>,
        name: &str,
        options: &RoleOptions,
        if_exists: bool,
    ) -> Result<(), Error> {
        let is_super = self.is_super(user).await?;
        if options.superuser.is_some() {
            if let Some(user) = user
                && self.collect(user, true).await?.iter().any(|role| role.name == name)
            {
                return unauthorized(
                    "You aren't allowed to alter your own superuser status or that of a role granted to you",
                );
            }
            if !is_super {
                return unauthorized("Only superusers are allowed to alter superuser status");
            }
        }
        if !is_super && user == Some(name) && options.login.is_some() {
            return unauthorized("You aren't allowed to alter LOGIN");
        }
        self.check(options)?;
        logged_in(user)?;
        if self.role(name).await?.is_none() {
            return if if_exists { Ok(()) } else { invalid(format!("Role {name} doesn't exist")) };
        }
        if options.datacenters.is_some() {
            return invalid("ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer");
        }
        let (key, level) = (Some(name.as_bytes()), self.role_write_level(name));
        if let Some(superuser) = options.superuser {
            let text = "UPDATE system_auth.roles SET is_superuser = ? WHERE role = ?";
            self.internal(text, &[Some(&[u8::from(superuser)]), key], level).await?;
        }
        if let Some(login) = options.login {
            let text = "UPDATE system_auth.roles SET can_login = ? WHERE role = ?";
            self.internal(text, &[Some(&[u8::from(login)]), key], level).await?;
        }
        if let Some(hash) = self.hash_of(options).await? {
            let text = "UPDATE system_auth.roles SET salted_hash = ? WHERE role = ?";
            self.internal(text, &[Some(hash.as_bytes()), key], level).await?;
        }
        forget_login(name).await;
        Ok(())
    }

    async fn drop_role(&self, user: Option<&str>, name: &str, if_exists: bool) -> Result<(), Error> {
        let known = self.role(name).await?;
        if known.is_some() && self.has_superuser_status(name).await? && !self.is_super(user).await? {
            return unauthorized("Only superusers can drop a role with superuser status");
        }
        logged_in(user)?;
        let Some(role) = known else {
            return if if_exists { Ok(()) } else { invalid(format!("{name} doesn't exist")) };
        };
        if user == Some(name) {
            return invalid("Cannot DROP primary role for current login");
        }
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
        for granted in &role.member_of {
            let text = "DELETE FROM system_auth.role_members WHERE role = ? AND member = ?";
            self.internal(text, &[Some(granted.as_bytes()), key], level).await?;
        }
        let text = "DELETE FROM system_auth.network_permissions WHERE role = ?";
        self.internal(text, &[key], level).await?;
        Ok(())
    }

    async fn grant(&self, role: &str, member: &Role) -> Result<(), Error> {
        if self.collect(&member.name, true).await?.iter().any(|had| had.name == role) {
            return invalid(format!("{} is a member of {role}", member.name));
        }
        if self.collect(role, true).await?.iter().any(|had| had.name == member.name) {
            return invalid(format!("{role} is a member of {}", member.name));
        }
        let level = self.role_write_level(&member.name);
        let text = "UPDATE system_auth.roles SET member_of = member_of + ? WHERE role = ?";
        self.internal(text, &[Some(&set_of(role)), Some(member.name.as_bytes())], level).await?;
        let text = "INSERT INTO system_auth.role_members (role, member) VALUES (?, ?)";
        self.internal(text, &[Some(role.as_bytes()), Some(member.name.as_bytes())], level).await?;
        Ok(())
    }

    async fn revoke(&self, role: &str, member: &Role) -> Result<(), Error> {
        if !member.member_of.contains(role) && member.name != role {
            return invalid(format!("{} is not a member of {role}", member.name));
        }
        let level = self.role_write_level(&member.name);
        let text = "UPDATE system_auth.roles SET member_of = member_of - ? WHERE role = ?";
        self.internal(text, &[Some(&set_of(role)), Some(member.name.as_bytes())], level).await?;
        let text = "DELETE FROM system_auth.role_members WHERE role = ? AND member = ?";
        self.internal(text, &[Some(role.as_bytes()), Some(member.name.as_bytes())], level).await?;
        Ok(())
    }

    async fn list_roles(
        &self,
        analysed: &Analysed,
        of: Option<&str>,
        recursive: bool,
    ) -> Result<Answer, Error> {
        let roles = match of {
            Some(name) => {
                if self.role(name).await?.is_none() {
                    return invalid(format!("<role {name}> doesn't exist"));
                }
                self.collect(name, recursive).await?
            }
            None => self.all_roles().await?,
        };
        let no_options = 0i32.to_be_bytes().to_vec();
        let row = |role: Role| -> Row {
            let (superuser, login) = (u8::from(role.is_superuser), u8::from(role.can_login));
            vec![
                Some(role.name.into_bytes()),
                Some(vec![superuser]),
                Some(vec![login]),
                Some(no_options.clone()),
                Some(b"ALL".to_vec()),
            ]
        };
        listed(analysed, roles.into_iter().map(row))
    }

    async fn list_users(&self, analysed: &Analysed) -> Result<Answer, Error> {
        let all = self.all_roles().await?;
        let by_name: BTreeMap<&str, &Role> = all.iter().map(|role| (&*role.name, role)).collect();
        let row = |role: &Role| -> Row {
            let superuser = inherited(role, &by_name).iter().any(|role| role.is_superuser);
            vec![Some(role.name.clone().into_bytes()), Some(vec![u8::from(superuser)]), Some(b"ALL".to_vec())]
        };
        listed(analysed, all.iter().filter(|role| role.can_login).map(row))
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
            if options.hashed_password.is_some() {
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
            let is_known = |name: &&String| snapshot.nodes().iter().any(|node| node.dc == **name);
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

    async fn existing(&self, name: &str) -> Result<Role, Error> {
        match self.role(name).await? {
            Some(role) => Ok(role),
            None => invalid(format!("{name} doesn't exist")),
        }
    }

    async fn role(&self, name: &str) -> Result<Option<Role>, Error> {
        let text = "SELECT role, is_superuser, can_login, member_of FROM system_auth.roles WHERE role = ?";
        let rows = self.internal(text, &[Some(name.as_bytes())], self.role_read_level(name)).await?;
        rows.into_iter().next().map(read_role).transpose()
    }

    /// Every role, by name.
    async fn all_roles(&self) -> Result<Vec<Role>, Error> {
        let text = "SELECT role, is_superuser, can_login, member_of FROM system_auth.roles";
        let rows = self.internal(text, &[], self.settings.authentication.read_level).await?;
        let mut roles = rows.into_iter().map(read_role).collect::<Result<Vec<Role>, Error>>()?;
        roles.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(roles)
    }

    /// A role and those granted to it, by name; with all that were granted to those, too, if `recursive`.
    async fn collect(&self, name: &str, recursive: bool) -> Result<Vec<Role>, Error> {
        let mut found: BTreeMap<String, Role> = BTreeMap::new();
        let mut next = vec![(name.to_string(), true)];
        while let Some((name, follow)) = next.pop() {
            if found.contains_key(&name) {
                continue;
            }
            let Some(role) = self.role(&name).await? else { continue };
            if follow {
                next.extend(role.member_of.iter().map(|granted| (granted.clone(), recursive)));
            }
            found.insert(name, role);
        }
        Ok(found.into_values().collect())
    }

    async fn has_superuser_status(&self, name: &str) -> Result<bool, Error> {
        Ok(self.collect(name, true).await?.iter().any(|role| role.is_superuser))
    }

    async fn is_super(&self, user: Option<&str>) -> Result<bool, Error> {
        match user {
            Some(user) => self.has_superuser_status(user).await,
            None => Ok(false),
        }
    }
}

/// A role and all that it has by others.
fn inherited<'a>(role: &'a Role, all: &BTreeMap<&str, &'a Role>) -> Vec<&'a Role> {
    let mut found: BTreeMap<&str, &Role> = [(&*role.name, role)].into();
    let mut next: Vec<&Role> = vec![role];
    while let Some(role) = next.pop() {
        for granted in role.member_of.iter().filter_map(|name| all.get(name.as_str())) {
            if found.insert(&granted.name, granted).is_none() {
                next.push(granted);
            }
        }
    }
    found.into_values().collect()
}

fn read_role(row: Row) -> Result<Role, Error> {
    let [Some(name), superuser, login, member_of] = &row[..] else {
        return Err(Error::Server("a role without a name".into()));
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let flag = |value: &Option<Vec<u8>>| value.as_deref() == Some(&[1][..]);
    let mut names = BTreeSet::new();
    for element in member_of.as_deref().map(collection::elements).into_iter().flatten() {
        let element = element.map_err(|error| Error::Server(format!("a role's memberships: {error}")))?;
        names.extend(element.map(text));
    }
    Ok(Role { name: text(name), is_superuser: flag(superuser), can_login: flag(login), member_of: names })
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

fn logged_in(user: Option<&str>) -> Result<(), Error> {
    match user {
        Some(_) => Ok(()),
        None => unauthorized("You have to be logged in and not anonymous to perform this request"),
    }
}

fn unauthorized<T>(text: &str) -> Result<T, Error> {
    Err(Error::Unauthorized(text.into()))
}

fn invalid<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(text.into()))
}
