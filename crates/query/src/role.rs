//! Statements about roles, run.
//!
//! ```text
//!   of a cluster   Roles, applied from the cluster's log on every node      changed by an entry of it
//!   of a lone node rows of system_auth: see role_rows                       changed by writing them
//! ```
//! Who is not logged in changes and sees nothing; without an authorizer everybody else may all but what takes a superuser.

use crate::engine::Engine;
use crate::error::Error;
use crate::internal::Row;
use crate::login::new_hash;
use crate::outcome::{Announce, Answer, Outcome, Rows};
use crate::permission;
use crate::role_change::{Asked, invalid};
use crate::settings::{Authenticator, Authorization};
use crate::statement::Analysed;
use cluster::{Cluster, Permissions, Resource, Role, RoleChange, Roles};
use cql::RolePlan;
use cql::ast::{Access, RoleOptions};
use protocol::wire::put_bytes;
use schema::Schema;
use std::collections::BTreeMap;

fn not_changed(error: cluster::Error) -> Error {
    match error {
        cluster::Error::Refused(text) => Error::Invalid(text),
        cluster::Error::Unknown(text) => {
            Error::Server(format!("the roles may have been changed, or will be: {text}"))
        }
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
        let authorization = self.settings.authorization;
        let mut asked = Asked {
            user: user_name,
            plan: plan_asked,
            checked,
            hash: None,
            authorization,
            schema: self.schema(),
            may_reset,
        };
        match plan {
            RolePlan::ListRoles { of, recursive } => {
                asked.logged_in()?;
                let lister = Lister { roles: &*self.roles(user).await?, user, authorization };
                return lister.roles(analysed, of.as_deref(), *recursive);
            }
            RolePlan::ListUsers => {
                asked.logged_in()?;
                let lister = Lister { roles: &*self.roles(user).await?, user, authorization };
                return lister.users(analysed);
            }
            RolePlan::ListPermissions { permissions, resource, of, recursive } => {
                asked.logged_in()?;
                let lister = Lister { roles: &*self.roles(user).await?, user, authorization };
                let resource = resource.as_ref().map(permission::resource_of).transpose()?;
                let listed = Listed { permissions, resource, of: of.as_deref(), recursive: *recursive };
                return lister.permissions(analysed, listed, &asked.schema);
            }
            RolePlan::Create { .. }
            | RolePlan::Alter { .. }
            | RolePlan::Drop { .. }
            | RolePlan::Grant { .. }
            | RolePlan::Permissions { .. }
            | RolePlan::AddIdentity { .. }
            | RolePlan::DropIdentity { .. } => {}
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
        let decided = decided?;
        let answer = Answer { outcome: Outcome::Void, warnings: asked.warning(&roles).into_iter().collect() };
        let Some(mut change) = decided else { return Ok(answer) };
        // Only now: a password takes tens of milliseconds to hash.
        if let RolePlan::Create { options, .. } | RolePlan::Alter { options, .. } = plan {
            asked.hash = self.hash_of(options).await?;
        }
        if self.shared_roles().is_some() {
            let changed = Cluster::change_roles(move |roles| asked.decide(roles)).await;
            changed.map_err(not_changed)??;
        } else {
            if asked.hash.is_some() {
                let Some(hashed) = asked.decide(&roles)? else { return Ok(answer) };
                change = hashed;
            }
            self.write_role(&change, &roles).await?;
            self.show_own_roles().await?;
        }
        Ok(answer)
    }

    /// Grants what was made to whoever made it, as all that it knows.
    pub(crate) async fn grant_to_maker(&self, user: &str, made: Vec<Resource>) -> Result<(), Error> {
        let grant = |on: &Resource| RoleChange::Grant(user.to_owned(), on.name(), on.applicable());
        let mut grants: Vec<RoleChange> = made.iter().map(grant).collect();
        let change = match grants.len() {
            1 => grants.remove(0),
            _ => RoleChange::All(grants),
        };
        if self.shared_roles().is_some() {
            let user = user.to_owned();
            // Whoever was dropped meanwhile is granted nothing.
            let decide =
                move |roles: &Roles| Ok::<_, Error>(roles.roles.contains_key(&user).then(|| change.clone()));
            return Cluster::change_roles(decide).await.map_err(not_changed)?;
        }
        self.write_role(&change, &*self.roles(Some(user)).await?).await?;
        self.show_own_roles().await
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

/// Who lists, and what there is.
struct Lister<'a> {
    roles: &'a Roles,
    user: Option<&'a str>,
    authorization: Authorization,
}

/// What LIST of permissions asks for.
struct Listed<'a> {
    permissions: &'a [String],
    resource: Option<Resource>,
    of: Option<&'a str>,
    recursive: bool,
}

impl Lister<'_> {
    /// Roles: all, or one with those granted to it; with all that were granted to those, too, if `recursive`. Who may not see every role sees
    /// those granted to himself.
    fn roles(&self, analysed: &Analysed, of: Option<&str>, recursive: bool) -> Result<Answer, Error> {
        let no_options = 0i32.to_be_bytes().to_vec();
        let row = |(name, role): (&str, &Role)| -> Row {
            vec![
                Some(name.as_bytes().to_vec()),
                Some(vec![u8::from(role.superuser)]),
                Some(vec![u8::from(role.login)]),
                Some(no_options.clone()),
                Some(self.datacenters(name).into_bytes()),
            ]
        };
        listed(analysed, self.shown(of, recursive)?.into_iter().map(row))
    }

    fn users(&self, analysed: &Analysed) -> Result<Answer, Error> {
        let users = self.shown(None, true)?.into_iter().filter(|(_, role)| role.login);
        let row = |(name, _): (&str, &Role)| -> Row {
            vec![
                Some(name.as_bytes().to_vec()),
                Some(vec![u8::from(self.roles.is_super(name))]),
                Some(self.datacenters(name).into_bytes()),
            ]
        };
        listed(analysed, users.map(row))
    }

    fn shown<'s>(
        &'s self,
        of: Option<&'s str>,
        recursive: bool,
    ) -> Result<BTreeMap<&'s str, &'s Role>, Error> {
        if let Some(of) = of.filter(|of| !self.roles.roles.contains_key(*of)) {
            return invalid(format!("<role {of}> doesn't exist"));
        }
        let user = self.user.unwrap_or_default();
        let of = match of {
            _ if self.sees_all() => match of {
                Some(of) => of,
                None => {
                    return Ok(self.roles.roles.iter().map(|(name, role)| (name.as_str(), role)).collect());
                }
            },
            None => user,
            Some(of) if self.roles.inherited(user).contains_key(of) => of,
            Some(of) => {
                let text = format!("You are not authorized to view roles granted to {of} ");
                return Err(Error::Unauthorized(text));
            }
        };
        let mut found = self.roles.inherited(of);
        let own = self.roles.roles.get(of);
        let is_granted = |name: &str| own.is_some_and(|role| role.member_of.contains(name));
        found.retain(|name, _| recursive || *name == of || is_granted(name));
        Ok(found)
    }

    fn sees_all(&self) -> bool {
        let user = self.user.unwrap_or_default();
        let on_roles = || self.roles.permissions_on(user, &Resource::AllRoles);
        !self.authorization.by_permissions || on_roles().contains(Permissions::DESCRIBE)
    }

    fn datacenters(&self, name: &str) -> String {
        let named = match self.authorization.by_datacenter {
            true => self.roles.datacenters_of(name),
            false => None,
        };
        match named {
            None => "ALL".to_owned(),
            Some(none) if none.is_empty() => "n/a".to_owned(),
            Some(some) => some.into_iter().collect::<Vec<String>>().join(", "),
        }
    }

    fn permissions(&self, analysed: &Analysed, listed: Listed<'_>, schema: &Schema) -> Result<Answer, Error> {
        let Listed { permissions, resource, of, recursive } = listed;
        if let Some(on) = resource.as_ref().filter(|on| !permission::exists(on, self.roles, schema)) {
            return invalid(format!("{on} doesn't exist"));
        }
        if let Some(of) = of.filter(|of| !self.roles.roles.contains_key(*of)) {
            return invalid(format!("<role {of}> doesn't exist"));
        }
        if !self.authorization.by_permissions {
            return invalid("LIST PERMISSIONS operation is not supported by AllowAllAuthorizer");
        }
        let user = self.user.unwrap_or_default();
        let describes = |of: &str| {
            let on = Resource::Role(of.to_owned());
            self.roles.permissions_on(user, &on).contains(Permissions::DESCRIBE)
        };
        let is_own = |of: &str| self.roles.inherited(user).contains_key(of) || describes(of);
        if !self.roles.is_super(user) && !of.is_some_and(is_own) && !self.sees_all() {
            let whose = of.unwrap_or("everyone");
            return Err(Error::Unauthorized(format!("You are not authorized to view {whose}'s permissions")));
        }
        let wanted = permission::named(permissions);
        let on: Option<Vec<String>> = resource.map(|resource| {
            let outer = if recursive { usize::MAX } else { 1 };
            resource.chain().take(outer).map(|resource| resource.name()).collect()
        });
        let of = of.map(|of| self.roles.inherited(of));
        let mut rows = Vec::new();
        for (role, resources) in &self.roles.permissions {
            if of.as_ref().is_some_and(|of| !of.contains_key(role.as_str())) {
                continue;
            }
            for (name, held) in resources {
                if on.as_ref().is_some_and(|on| !on.contains(name)) {
                    continue;
                }
                let shown = Resource::named(name).map_or_else(|| name.clone(), |on| on.to_string());
                let row = |permission: &'static str| -> Row {
                    let texts = [role, role, &shown].map(|text| Some(text.clone().into_bytes()));
                    texts.into_iter().chain([Some(permission.as_bytes().to_vec())]).collect()
                };
                rows.extend((*held & wanted).names().map(row));
            }
        }
        self::listed(analysed, rows.into_iter())
    }
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
