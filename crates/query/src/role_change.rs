//! What a statement about roles changes, decided on the roles that there are.
//!
//! Pure, and decided again on newer roles when another node was faster: see [`cluster::Cluster::change_roles`].

use crate::error::Error;
use crate::permission;
use crate::settings::Authorization;
use cluster::{Permissions, Resource, Role, RoleChange, Roles};
use cql::RolePlan;
use cql::ast::{Access, RoleOptions};
use schema::Schema;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A statement, and what must be known of it before roles are looked at.
#[derive(Clone)]
pub(crate) struct Asked {
    /// Who asks; nobody is logged in when that is missing.
    pub(crate) user: Option<String>,
    pub(crate) plan: RolePlan,
    /// Whether its options can be at all.
    pub(crate) checked: Result<(), Error>,
    /// The hash of the password in it.
    pub(crate) hash: Option<String>,
    /// What those who are logged in may do.
    pub(crate) authorization: Authorization,
    /// What permissions may be granted on.
    pub(crate) schema: Arc<Schema>,
    /// Whether nobody has to log in and rows cannot be written in their place: then whoever connects may set the hash of a password, so
    /// that one that was lost can be replaced.
    pub(crate) may_reset: bool,
}

impl Asked {
    /// The change; `None`: all is as it is wanted.
    pub(crate) fn decide(&self, roles: &Roles) -> Result<Option<RoleChange>, Error> {
        match &self.plan {
            RolePlan::Create { name, options, if_not_exists } => {
                self.create(roles, name, options, *if_not_exists)
            }
            RolePlan::Alter { name, options, if_exists } => self.alter(roles, name, options, *if_exists),
            RolePlan::Drop { name, if_exists } => self.drop(roles, name, *if_exists),
            RolePlan::Grant { grant, role, grantee } => {
                self.ensure(roles, Permissions::AUTHORIZE, &Resource::Role(role.clone()))?;
                self.logged_in()?;
                existing(roles, role)?;
                let member = existing(roles, grantee)?;
                if *grant { give(roles, role, grantee) } else { take(role, grantee, member) }
            }
            RolePlan::Permissions { grant, role, .. } => {
                let (wanted, on) = self.granted(roles)?;
                let held = held(roles, role, &on);
                let (role, name) = (role.clone(), on.name());
                Ok(match grant {
                    true if !held.contains(wanted) => Some(RoleChange::Grant(role, name, wanted)),
                    false if wanted & held != Permissions::NONE => {
                        Some(RoleChange::Revoke(role, name, wanted))
                    }
                    _ => None,
                })
            }
            RolePlan::AddIdentity { identity, role, if_not_exists } => {
                self.ensure_own(roles, Permissions::CREATE)?;
                self.logged_in()?;
                if !roles.roles.contains_key(role) {
                    return invalid(format!("Can not add identity for non-existent role '{role}'"));
                }
                match (roles.identities.contains_key(identity), if_not_exists) {
                    (false, _) => Ok(Some(RoleChange::AddIdentity(identity.clone(), role.clone()))),
                    (true, true) => Ok(None),
                    (true, false) => invalid(format!("{identity} already exists")),
                }
            }
            RolePlan::DropIdentity { identity, if_exists } => {
                self.ensure_own(roles, Permissions::DROP)?;
                self.logged_in()?;
                match (roles.identities.contains_key(identity), if_exists) {
                    (true, _) => Ok(Some(RoleChange::DropIdentity(identity.clone()))),
                    (false, true) => Ok(None),
                    (false, false) => invalid(format!("identity '{identity}' doesn't exist")),
                }
            }
            RolePlan::ListRoles { .. } | RolePlan::ListUsers | RolePlan::ListPermissions { .. } => Ok(None),
        }
    }

    /// What a GRANT or REVOKE of permissions is about, once it is known that it may be.
    /// Errors: who asks lacks AUTHORIZE or one of them; nobody is logged in; role or resource is not there; there is no authorizer.
    fn granted(&self, roles: &Roles) -> Result<(Permissions, Resource), Error> {
        let RolePlan::Permissions { grant, permissions, resource, role } = &self.plan else {
            return Err(Error::Server("a statement took the wrong way".into()));
        };
        let on = permission::resource_of(resource)?;
        let wanted = permission::applicable(permissions, &on)?;
        if let (true, Some(user)) = (self.authorization.by_permissions, self.user.as_deref()) {
            permission::ensure(roles, user, Permissions::AUTHORIZE, &on)?;
            wanted.each().try_for_each(|one| permission::ensure(roles, user, one, &on))?;
        }
        self.logged_in()?;
        if !roles.roles.contains_key(role) {
            return invalid(format!("Role {role} doesn't exist"));
        }
        if matches!(&on, Resource::Function(keyspace, ..) if keyspace == "system") {
            return invalid("Altering permissions on builtin functions is not supported");
        }
        if !permission::exists(&on, roles, &self.schema) {
            return invalid(format!("Resource {on} doesn't exist"));
        }
        if *grant {
            permission::refuse_system(wanted, &on)?;
        }
        if !self.authorization.by_permissions {
            let verb = if *grant { "GRANT" } else { "REVOKE" };
            return invalid(format!("{verb} operation is not supported by AllowAllAuthorizer"));
        }
        Ok((wanted, on))
    }

    /// What a GRANT or REVOKE that is let through leaves as it was, in Cassandra's words.
    pub(crate) fn warning(&self, roles: &Roles) -> Option<String> {
        let RolePlan::Permissions { grant, role, .. } = &self.plan else { return None };
        let (wanted, on) = self.granted(roles).ok()?;
        let held = held(roles, role, &on);
        let (as_it_was, was) = match grant {
            true => (wanted & held, "already"),
            false => (wanted.without(held), "not"),
        };
        let names: Vec<&str> = as_it_was.names().collect();
        let names = names.join(", ");
        (!names.is_empty()).then(|| format!("Role '{role}' was {was} granted {names} on {on}"))
    }

    /// Errors: permissions count, and who asks lacks one.
    fn ensure(&self, roles: &Roles, wanted: Permissions, on: &Resource) -> Result<(), Error> {
        let Some(user) = self.user.as_deref().filter(|_| self.authorization.by_permissions) else {
            return Ok(());
        };
        if permission::has(roles, user, wanted, on) {
            return Ok(());
        }
        unauthorized(&format!(
            "User {user} does not have sufficient privileges to perform the requested operation"
        ))
    }

    /// The same on the role of who asks.
    fn ensure_own(&self, roles: &Roles, wanted: Permissions) -> Result<(), Error> {
        let own = Resource::Role(self.user.clone().unwrap_or_default());
        self.ensure(roles, wanted, &own)
    }

    fn create(
        &self,
        roles: &Roles,
        name: &str,
        options: &RoleOptions,
        if_not_exists: bool,
    ) -> Result<Option<RoleChange>, Error> {
        self.ensure(roles, Permissions::CREATE, &Resource::AllRoles)?;
        if options.superuser == Some(true) && !self.is_super(roles) {
            return unauthorized("Only superusers can create a role with superuser status");
        }
        self.checked.clone()?;
        if name.is_empty() {
            return invalid("Role name can't be an empty string");
        }
        self.logged_in()?;
        if roles.roles.contains_key(name) {
            return if if_not_exists { Ok(None) } else { invalid(format!("{name} already exists")) };
        }
        let role = Role {
            superuser: options.superuser.unwrap_or(false),
            login: options.login.unwrap_or(false),
            salted_hash: self.hash.clone(),
            ..Role::default()
        };
        let mut changes = vec![RoleChange::Create(name.to_owned(), role)];
        if self.authorization.by_datacenter {
            let named = options.datacenters.as_ref().map(named_datacenters).unwrap_or_default();
            changes.push(RoleChange::SetDatacenters(name.to_owned(), named));
        }
        if let Some(user) = self.user.as_ref().filter(|_| self.authorization.by_permissions) {
            let on = Resource::Role(name.to_owned());
            changes.push(RoleChange::Grant(user.clone(), on.name(), on.applicable()));
        }
        Ok(one_of(changes))
    }

    fn alter(
        &self,
        roles: &Roles,
        name: &str,
        options: &RoleOptions,
        if_exists: bool,
    ) -> Result<Option<RoleChange>, Error> {
        let is_super = self.is_super(roles);
        let user = self.user.as_deref();
        if options.superuser.is_some() {
            if user.is_some_and(|user| roles.inherited(user).contains_key(name)) {
                return unauthorized(
                    "You aren't allowed to alter your own superuser status or that of a role granted to you",
                );
            }
            if !is_super {
                return unauthorized("Only superusers are allowed to alter superuser status");
            }
        }
        // Without an authenticator nobody is, and it is said below.
        if user.is_some() && !is_super {
            if options.datacenters.is_some() {
                return unauthorized("Only superusers are allowed to alter access to datacenters.");
            }
            if options.cidrs.is_some() {
                return unauthorized("Only superusers are allowed to alter access from CIDR groups.");
            }
            match user == Some(name) {
                true if options.login.is_some() => return unauthorized("You aren't allowed to alter LOGIN"),
                true => {}
                false => self.ensure(roles, Permissions::ALTER, &Resource::Role(name.to_owned()))?,
            }
        }
        self.checked.clone()?;
        if *options == RoleOptions::default() {
            return invalid("ALTER [ROLE|USER] can't be empty");
        }
        if !(self.may_reset && options.hashed_password.is_some()) {
            self.logged_in()?;
        }
        if !roles.roles.contains_key(name) {
            return if if_exists { Ok(None) } else { invalid(format!("Role {name} doesn't exist")) };
        }
        if options.datacenters.is_some() && !self.authorization.by_datacenter {
            return invalid("ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer");
        }
        let (superuser, login, salted_hash) = (options.superuser, options.login, self.hash.clone());
        // The password is not hashed yet when this is asked for the first time.
        let has_password = options.password.is_some() || options.hashed_password.is_some();
        let mut changes = Vec::new();
        if superuser.is_some() || login.is_some() || has_password {
            changes.push(RoleChange::Alter { name: name.to_owned(), superuser, login, salted_hash });
        }
        if let Some(access) = &options.datacenters {
            changes.push(RoleChange::SetDatacenters(name.to_owned(), named_datacenters(access)));
        }
        Ok(one_of(changes))
    }

    fn drop(&self, roles: &Roles, name: &str, if_exists: bool) -> Result<Option<RoleChange>, Error> {
        self.ensure(roles, Permissions::DROP, &Resource::Role(name.to_owned()))?;
        if roles.is_super(name) && !self.is_super(roles) {
            return unauthorized("Only superusers can drop a role with superuser status");
        }
        self.logged_in()?;
        if !roles.roles.contains_key(name) {
            return if if_exists { Ok(None) } else { invalid(format!("{name} doesn't exist")) };
        }
        if self.user.as_deref() == Some(name) {
            return invalid("Cannot DROP primary role for current login");
        }
        Ok(Some(RoleChange::Drop(name.to_owned())))
    }

    fn is_super(&self, roles: &Roles) -> bool {
        self.user.as_deref().is_some_and(|user| roles.is_super(user))
    }

    /// Errors: nobody is logged in.
    pub(crate) fn logged_in(&self) -> Result<(), Error> {
        match self.user {
            Some(_) => Ok(()),
            None => unauthorized("You have to be logged in and not anonymous to perform this request"),
        }
    }
}

/// What was granted to a role itself on a resource itself.
fn held(roles: &Roles, role: &str, on: &Resource) -> Permissions {
    let granted = roles.permissions.get(role).and_then(|resources| resources.get(&on.name()));
    granted.copied().unwrap_or_default()
}

/// The datacenters that a statement names; none for all.
fn named_datacenters(access: &Access) -> BTreeSet<String> {
    match access {
        Access::All => BTreeSet::new(),
        Access::Some(named) => named.clone(),
    }
}

/// Several changes as one.
fn one_of(mut changes: Vec<RoleChange>) -> Option<RoleChange> {
    match changes.len() {
        0 | 1 => changes.pop(),
        _ => Some(RoleChange::All(changes)),
    }
}

fn give(roles: &Roles, role: &str, member: &str) -> Result<Option<RoleChange>, Error> {
    if roles.inherited(member).contains_key(role) {
        return invalid(format!("{member} is a member of {role}"));
    }
    if roles.inherited(role).contains_key(member) {
        return invalid(format!("{role} is a member of {member}"));
    }
    Ok(Some(RoleChange::GrantRole(role.to_owned(), member.to_owned())))
}

fn take(role: &str, name: &str, member: &Role) -> Result<Option<RoleChange>, Error> {
    if member.member_of.contains(role) {
        return Ok(Some(RoleChange::RevokeRole(role.to_owned(), name.to_owned())));
    }
    // Every role has itself.
    if name == role { Ok(None) } else { invalid(format!("{name} is not a member of {role}")) }
}

fn existing<'r>(roles: &'r Roles, name: &str) -> Result<&'r Role, Error> {
    match roles.roles.get(name) {
        Some(role) => Ok(role),
        None => invalid(format!("{name} doesn't exist")),
    }
}

fn unauthorized<T>(text: &str) -> Result<T, Error> {
    Err(Error::Unauthorized(text.into()))
}

pub(crate) fn invalid<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A superuser, one who has that by a grant, and one who has nothing.
    fn roles() -> Roles {
        let role = |superuser, member_of: &[&str]| Role {
            superuser,
            login: true,
            salted_hash: None,
            member_of: member_of.iter().map(|name| (*name).to_owned()).collect(),
        };
        let all =
            [("boss", role(true, &[])), ("deputy", role(false, &["boss"])), ("clerk", role(false, &[]))];
        Roles { roles: all.map(|(name, role)| (name.to_owned(), role)).into(), ..Roles::default() }
    }

    fn asked_of_nobody() -> Asked {
        Asked {
            user: None,
            plan: RolePlan::ListUsers,
            checked: Ok(()),
            hash: None,
            authorization: Authorization::NONE,
            schema: Arc::default(),
            may_reset: false,
        }
    }

    fn decided(user: Option<&str>, plan: RolePlan) -> Result<Option<RoleChange>, String> {
        let user = user.map(str::to_owned);
        let asked = Asked { user, plan, ..asked_of_nobody() };
        asked.decide(&roles()).map_err(|error| error.to_string())
    }

    fn create(name: &str, superuser: Option<bool>, if_not_exists: bool) -> RolePlan {
        let options = RoleOptions { superuser, ..RoleOptions::default() };
        RolePlan::Create { name: name.to_owned(), options, if_not_exists }
    }

    fn alter(name: &str, options: RoleOptions) -> RolePlan {
        RolePlan::Alter { name: name.to_owned(), options, if_exists: false }
    }

    fn drop_role(name: &str) -> RolePlan {
        RolePlan::Drop { name: name.to_owned(), if_exists: false }
    }

    fn grant(grant: bool, role: &str, grantee: &str) -> RolePlan {
        RolePlan::Grant { grant, role: role.to_owned(), grantee: grantee.to_owned() }
    }

    #[test]
    fn superusers_are_made_changed_and_dropped_by_superusers_alone() {
        let refused = |user, plan| decided(user, plan).expect_err("refused");
        assert!(refused(Some("clerk"), create("x", Some(true), false)).contains("Only superusers"));
        assert!(
            refused(Some("clerk"), drop_role("deputy")).contains("Only superusers"),
            "it is one by a grant"
        );
        assert!(refused(None, create("x", None, false)).contains("logged in"));
        assert!(decided(Some("deputy"), create("x", Some(true), false)).is_ok(), "so is who asks");
        let superuser = || RoleOptions { superuser: Some(false), ..RoleOptions::default() };
        assert!(refused(Some("deputy"), alter("boss", superuser())).contains("your own superuser status"));
        assert!(refused(Some("boss"), drop_role("boss")).contains("current login"));
        assert_eq!(decided(Some("boss"), drop_role("clerk")), Ok(Some(RoleChange::Drop("clerk".to_owned()))));
    }

    #[test]
    fn what_is_so_already_is_no_change() {
        assert_eq!(decided(Some("boss"), create("clerk", None, true)), Ok(None));
        assert!(decided(Some("boss"), create("clerk", None, false)).is_err());
        let empty = decided(Some("boss"), alter("clerk", RoleOptions::default()));
        assert_eq!(empty, Err("ALTER [ROLE|USER] can't be empty".to_owned()));
        let password = RoleOptions { password: Some("p".to_owned()), ..RoleOptions::default() };
        let altered = decided(Some("boss"), alter("clerk", password));
        assert!(matches!(altered, Ok(Some(RoleChange::Alter { .. }))), "the hash comes later: {altered:?}");
        assert_eq!(decided(Some("boss"), grant(false, "clerk", "clerk")), Ok(None));
    }

    #[test]
    fn grants_make_no_circle() {
        let given = RoleChange::GrantRole("clerk".to_owned(), "boss".to_owned());
        assert_eq!(decided(Some("boss"), grant(true, "clerk", "boss")), Ok(Some(given)));
        for (role, grantee) in
            [("boss", "deputy"), ("deputy", "boss"), ("nobody", "boss"), ("clerk", "nobody")]
        {
            assert!(decided(Some("boss"), grant(true, role, grantee)).is_err(), "{role} to {grantee}");
        }
        let taken = RoleChange::RevokeRole("boss".to_owned(), "deputy".to_owned());
        assert_eq!(decided(Some("boss"), grant(false, "boss", "deputy")), Ok(Some(taken)));
        assert!(decided(Some("boss"), grant(false, "clerk", "deputy")).is_err());
    }

    #[test]
    fn a_lost_password_is_replaced_where_nobody_has_to_log_in() {
        let hashed = RoleOptions { hashed_password: Some("h".to_owned()), ..RoleOptions::default() };
        let asked = |options: RoleOptions, may_reset| {
            let (plan, hash) = (alter("boss", options), Some("h".to_owned()));
            Asked { plan, hash, may_reset, ..asked_of_nobody() }.decide(&roles())
        };
        assert!(matches!(asked(hashed.clone(), true), Ok(Some(RoleChange::Alter { .. }))));
        assert!(asked(hashed.clone(), false).is_err());
        let more = RoleOptions { superuser: Some(true), ..hashed };
        assert!(asked(more, true).is_err(), "that and nothing else");
        let plain = RoleOptions { password: Some("p".to_owned()), ..RoleOptions::default() };
        assert!(asked(plain, true).is_err());
    }

    fn with_permissions(user: &str, plan: RolePlan, roles: &Roles) -> Result<Option<RoleChange>, String> {
        let authorization = Authorization { by_permissions: true, by_datacenter: false };
        let asked = Asked { user: Some(user.to_owned()), plan, authorization, ..asked_of_nobody() };
        asked.decide(roles).map_err(|error| error.to_string())
    }

    #[test]
    fn with_permissions_roles_are_changed_by_whoever_has_them() {
        let mut roles = roles();
        let lacks = |result: Result<Option<RoleChange>, String>| {
            result.expect_err("refused").contains("does not have sufficient privileges")
        };
        let password = RoleOptions { password: Some("p".to_owned()), ..RoleOptions::default() };
        assert!(lacks(with_permissions("clerk", create("x", None, false), &roles)));
        assert!(lacks(with_permissions("clerk", alter("boss", password.clone()), &roles)));
        assert!(lacks(with_permissions("clerk", drop_role("nobody"), &roles)), "it hides who is there");
        assert!(lacks(with_permissions("clerk", grant(true, "clerk", "boss"), &roles)));
        assert!(with_permissions("clerk", alter("clerk", password), &roles).is_ok(), "one's own");
        let on_roles = [("roles".to_owned(), Permissions::CREATE)].into();
        roles.permissions.insert("clerk".to_owned(), on_roles);
        let made = with_permissions("clerk", create("x", None, false), &roles);
        let Ok(Some(RoleChange::All(changes))) = made else { panic!("{made:?}") };
        assert!(matches!(&changes[0], RoleChange::Create(name, _) if name == "x"));
        let on = Resource::Role("x".to_owned());
        assert_eq!(changes[1], RoleChange::Grant("clerk".to_owned(), on.name(), on.applicable()));
    }

    #[test]
    fn who_grants_has_it_and_may_grant_it() {
        let mut roles = roles();
        let select = |role: &str| RolePlan::Permissions {
            grant: true,
            permissions: vec!["SELECT".to_owned()],
            resource: cql::ast::Resource::AllKeyspaces,
            role: role.to_owned(),
        };
        let refused = |roles: &Roles| with_permissions("clerk", select("boss"), roles).expect_err("refused");
        assert!(refused(&roles).contains("no AUTHORIZE permission"));
        let mut held = Permissions::AUTHORIZE;
        roles.permissions.insert("clerk".to_owned(), [("data".to_owned(), held)].into());
        assert!(refused(&roles).contains("no SELECT permission"));
        held = held | Permissions::SELECT;
        roles.permissions.insert("clerk".to_owned(), [("data".to_owned(), held)].into());
        let given = RoleChange::Grant("boss".to_owned(), "data".to_owned(), Permissions::SELECT);
        assert_eq!(with_permissions("clerk", select("boss"), &roles), Ok(Some(given)));
        assert_eq!(with_permissions("clerk", select("clerk"), &roles), Ok(None), "it has it");
        let without = decided(Some("boss"), select("clerk"));
        assert_eq!(without, Err("GRANT operation is not supported by AllowAllAuthorizer".to_owned()));
    }
}
