//! What a statement about roles changes, decided on the roles that there are.
//!
//! Pure, and decided again on newer roles when another node was faster: see [`cluster::Cluster::change_roles`].

use crate::error::Error;
use cluster::{Role, RoleChange, Roles};
use cql::RolePlan;
use cql::ast::RoleOptions;

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
                self.logged_in()?;
                existing(roles, role)?;
                let member = existing(roles, grantee)?;
                if *grant { give(roles, role, grantee) } else { take(role, grantee, member) }
            }
            RolePlan::ListRoles { .. } | RolePlan::ListUsers | RolePlan::Permissions { .. } => Ok(None),
        }
    }

    fn create(
        &self,
        roles: &Roles,
        name: &str,
        options: &RoleOptions,
        if_not_exists: bool,
    ) -> Result<Option<RoleChange>, Error> {
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
        Ok(Some(RoleChange::Create(name.to_owned(), role)))
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
        if !is_super && user == Some(name) && options.login.is_some() {
            return unauthorized("You aren't allowed to alter LOGIN");
        }
        self.checked.clone()?;
        if !(self.may_reset && options.hashed_password.is_some()) {
            self.logged_in()?;
        }
        if !roles.roles.contains_key(name) {
            return if if_exists { Ok(None) } else { invalid(format!("Role {name} doesn't exist")) };
        }
        if options.datacenters.is_some() {
            return invalid("ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer");
        }
        let (superuser, login, salted_hash) = (options.superuser, options.login, self.hash.clone());
        // The password is not hashed yet when this is asked for the first time.
        let has_password = options.password.is_some() || options.hashed_password.is_some();
        if superuser.is_none() && login.is_none() && !has_password {
            return Ok(None);
        }
        Ok(Some(RoleChange::Alter { name: name.to_owned(), superuser, login, salted_hash }))
    }

    fn drop(&self, roles: &Roles, name: &str, if_exists: bool) -> Result<Option<RoleChange>, Error> {
        if is_super(roles, name) && !self.is_super(roles) {
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
        self.user.as_deref().is_some_and(|user| is_super(roles, user))
    }

    /// Errors: nobody is logged in.
    pub(crate) fn logged_in(&self) -> Result<(), Error> {
        match self.user {
            Some(_) => Ok(()),
            None => unauthorized("You have to be logged in and not anonymous to perform this request"),
        }
    }
}

/// Whether a role is a superuser, by itself or by one granted to it.
pub(crate) fn is_super(roles: &Roles, name: &str) -> bool {
    roles.inherited(name).values().any(|role| role.superuser)
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

    fn decided(user: Option<&str>, plan: RolePlan) -> Result<Option<RoleChange>, String> {
        let user = user.map(str::to_owned);
        let asked = Asked { user, plan, checked: Ok(()), hash: None, may_reset: false };
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
        assert_eq!(decided(Some("boss"), alter("clerk", RoleOptions::default())), Ok(None));
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
            Asked { user: None, plan, checked: Ok(()), hash, may_reset }.decide(&roles())
        };
        assert!(matches!(asked(hashed.clone(), true), Ok(Some(RoleChange::Alter { .. }))));
        assert!(asked(hashed.clone(), false).is_err());
        let more = RoleOptions { superuser: Some(true), ..hashed };
        assert!(asked(more, true).is_err(), "that and nothing else");
        let plain = RoleOptions { password: Some("p".to_owned()), ..RoleOptions::default() };
        assert!(asked(plain, true).is_err());
    }
}
