//! Roles and permissions.

use super::{Refusal, refuse};
use crate::limits::{DATACENTERS_MAX, IDENTITIES_MAX, NAME_BYTES_MAX, PERMISSIONS_MAX, ROLES_MAX};
use crate::{Permissions, Role, RoleChange, Roles, State};
use std::collections::BTreeSet;
use std::sync::Arc;

impl State {
    pub(super) fn change_role(&mut self, change: &RoleChange) -> Result<(), Refusal> {
        // Worked on apart, so that what is refused in the middle changes nothing.
        let mut roles = Roles::clone(&self.roles);
        apply(&mut roles, change)?;
        self.roles = Arc::new(roles);
        self.versions.roles = self.version;
        Ok(())
    }

    /// Takes all permissions of which `gone` says so, by role and resource. The caller sets the version of roles.
    pub(super) fn revoke_where(&mut self, gone: impl Fn(&str, &str) -> bool) {
        let has = |(role, resources): (&String, &std::collections::BTreeMap<String, Permissions>)| {
            resources.keys().any(|resource| gone(role, resource))
        };
        if !self.roles.permissions.iter().any(has) {
            return;
        }
        revoke_all(Arc::make_mut(&mut self.roles), gone);
    }
}

fn apply(roles: &mut Roles, change: &RoleChange) -> Result<(), Refusal> {
    match change {
        RoleChange::Create(name, role) => create(roles, name, role)?,
        RoleChange::Alter { name, superuser, login, salted_hash } => {
            let role = existing(roles, name)?;
            role.superuser = superuser.unwrap_or(role.superuser);
            role.login = login.unwrap_or(role.login);
            if salted_hash.is_some() {
                role.salted_hash.clone_from(salted_hash);
            }
        }
        RoleChange::Drop(name) => drop_role(roles, name)?,
        RoleChange::GrantRole(role, member) => grant_role(roles, role, member)?,
        RoleChange::RevokeRole(role, member) => {
            if !existing(roles, member)?.member_of.remove(role) {
                return refuse(format!("{member} is not a member of {role}"));
            }
        }
        RoleChange::Grant(name, resource, permissions) => grant(roles, name, resource, *permissions)?,
        RoleChange::Revoke(name, resource, permissions) => {
            existing(roles, name)?;
            revoke(roles, name, resource, *permissions);
        }
        RoleChange::All(changes) => changes.iter().try_for_each(|change| apply(roles, change))?,
        RoleChange::SetDatacenters(name, named) => set_datacenters(roles, name, named)?,
        RoleChange::AddIdentity(identity, name) => add_identity(roles, identity, name)?,
        RoleChange::DropIdentity(identity) => {
            if roles.identities.remove(identity).is_none() {
                return refuse(format!("identity '{identity}' doesn't exist"));
            }
        }
    }
    Ok(())
}

fn set_datacenters(roles: &mut Roles, name: &str, named: &BTreeSet<String>) -> Result<(), Refusal> {
    existing(roles, name)?;
    if named.len() > DATACENTERS_MAX || named.iter().any(|name| name.len() > NAME_BYTES_MAX) {
        return refuse(format!("a role names at most {DATACENTERS_MAX} datacenters"));
    }
    roles.datacenters.insert(name.to_owned(), named.clone());
    Ok(())
}

fn add_identity(roles: &mut Roles, identity: &str, name: &str) -> Result<(), Refusal> {
    existing(roles, name)?;
    if identity.is_empty() || identity.len() > NAME_BYTES_MAX {
        return refuse(format!("an identity has 1 to {NAME_BYTES_MAX} bytes"));
    }
    if roles.identities.contains_key(identity) {
        return refuse(format!("{identity} already exists"));
    }
    if roles.identities.len() >= IDENTITIES_MAX {
        return refuse(format!("there are {IDENTITIES_MAX} identities already"));
    }
    roles.identities.insert(identity.to_owned(), name.to_owned());
    Ok(())
}

fn revoke_all(roles: &mut Roles, gone: impl Fn(&str, &str) -> bool) {
    roles.permissions.retain(|role, resources| {
        resources.retain(|resource, _| !gone(role, resource));
        !resources.is_empty()
    });
}

fn existing<'r>(roles: &'r mut Roles, name: &str) -> Result<&'r mut Role, Refusal> {
    roles.roles.get_mut(name).ok_or_else(|| Refusal(format!("{name} doesn't exist")))
}

fn create(roles: &mut Roles, name: &str, role: &Role) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return refuse(format!("a role's name has 1 to {NAME_BYTES_MAX} bytes"));
    }
    if roles.roles.contains_key(name) {
        return refuse(format!("{name} already exists"));
    }
    if roles.roles.len() >= ROLES_MAX {
        return refuse(format!("there are {ROLES_MAX} roles already"));
    }
    if let Some(missing) = role.member_of.iter().find(|of| !roles.roles.contains_key(*of)) {
        return refuse(format!("{missing} doesn't exist"));
    }
    roles.roles.insert(name.to_owned(), role.clone());
    Ok(())
}

fn drop_role(roles: &mut Roles, name: &str) -> Result<(), Refusal> {
    if roles.roles.remove(name).is_none() {
        return refuse(format!("{name} doesn't exist"));
    }
    for role in roles.roles.values_mut() {
        role.member_of.remove(name);
    }
    roles.datacenters.remove(name);
    roles.identities.retain(|_, role| role != name);
    let resource = format!("roles/{name}");
    revoke_all(roles, |role, on| role == name || on == resource);
    Ok(())
}

fn grant_role(roles: &mut Roles, role: &str, member: &str) -> Result<(), Refusal> {
    existing(roles, role)?;
    existing(roles, member)?;
    if roles.inherited(member).contains_key(role) {
        return refuse(format!("{member} is a member of {role}"));
    }
    if roles.inherited(role).contains_key(member) {
        return refuse(format!("{role} is a member of {member}"));
    }
    existing(roles, member)?.member_of.insert(role.to_owned());
    Ok(())
}

fn grant(roles: &mut Roles, name: &str, resource: &str, permissions: Permissions) -> Result<(), Refusal> {
    existing(roles, name)?;
    if permissions == Permissions::default() {
        return Ok(());
    }
    if resource.is_empty() || resource.len() > NAME_BYTES_MAX {
        return refuse(format!("a resource's name has 1 to {NAME_BYTES_MAX} bytes"));
    }
    let held = roles.permissions.get(name).is_some_and(|resources| resources.contains_key(resource));
    if !held && roles.permissions.values().map(|resources| resources.len()).sum::<usize>() >= PERMISSIONS_MAX
    {
        return refuse(format!("there are permissions on {PERMISSIONS_MAX} resources already"));
    }
    let resources = roles.permissions.entry(name.to_owned()).or_default();
    resources.entry(resource.to_owned()).or_default().0 |= permissions.0;
    Ok(())
}

fn revoke(roles: &mut Roles, name: &str, resource: &str, permissions: Permissions) {
    let Some(resources) = roles.permissions.get_mut(name) else { return };
    if let Some(held) = resources.get_mut(resource) {
        held.0 &= !permissions.0;
        if held.0 == 0 {
            resources.remove(resource);
        }
    }
    if resources.is_empty() {
        roles.permissions.remove(name);
    }
}
