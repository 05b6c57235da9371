//! Roles, memberships, permissions, datacenters and identities, as `system_auth` shows them.

use crate::bytes::{Input, put_list, put_option, put_struct, put_text};
use crate::{Error, Permissions, Resource};
use std::collections::{BTreeMap, BTreeSet};

/// One role.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Role {
    /// Whether it may do everything.
    pub superuser: bool,
    /// Whether it may log in.
    pub login: bool,
    /// The hash of its password with its salt, if it has one.
    pub salted_hash: Option<String>,
    /// The roles that were granted to it.
    pub member_of: BTreeSet<String>,
}

impl std::fmt::Debug for Role {
    // Hashes of passwords stay out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has_hash = self.salted_hash.is_some();
        let (superuser, login, member_of) = (self.superuser, self.login, &self.member_of);
        write!(f, "Role(superuser {superuser}, login {login}, hash {has_hash}, member of {member_of:?})")
    }
}

/// Every role and what was granted to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// By name.
    pub roles: BTreeMap<String, Role>,
    /// By role, then by resource as Cassandra names it (`data`, `data/ks/table`, `roles/name`). Never empty sets.
    pub permissions: BTreeMap<String, BTreeMap<String, Permissions>>,
    /// The datacenters of which a role may use the nodes, of roles for which that was said; an empty set is all of them.
    pub datacenters: BTreeMap<String, BTreeSet<String>>,
    /// Identities of clients' certificates, and the role each stands for.
    pub identities: BTreeMap<String, String>,
}

impl Roles {
    /// A role and all that it has by others, each once; empty if there is no such role. O(roles reached).
    pub fn inherited<'r>(&'r self, name: &'r str) -> BTreeMap<&'r str, &'r Role> {
        let mut found = BTreeMap::new();
        let mut next = vec![name];
        while let Some(name) = next.pop() {
            if let Some(role) = self.roles.get(name)
                && found.insert(name, role).is_none()
            {
                next.extend(role.member_of.iter().map(String::as_str));
            }
        }
        found
    }

    /// Whether a role is a superuser, by itself or by one granted to it.
    pub fn is_super(&self, name: &str) -> bool {
        self.inherited(name).values().any(|role| role.superuser)
    }

    /// What a role may do with a resource by grants on this one alone, its own and those of roles granted to it. A superuser may do all that it knows.
    pub fn permissions_on(&self, name: &str, resource: &Resource) -> Permissions {
        let roles = self.inherited(name);
        if roles.values().any(|role| role.superuser) {
            return resource.applicable();
        }
        let resource = resource.name();
        let granted = |role: &&str| self.permissions.get(*role)?.get(&resource).copied();
        roles.keys().filter_map(granted).fold(Permissions::NONE, |all, granted| all | granted)
    }

    /// Whether a role has all of `wanted` on `resource` or on what that lies in. `counts` says which of these grants count.
    pub fn may(
        &self,
        name: &str,
        wanted: Permissions,
        resource: &Resource,
        counts: impl Fn(&Resource) -> bool,
    ) -> bool {
        resource.chain().filter(counts).any(|on| self.permissions_on(name, &on).contains(wanted))
    }

    /// The datacenters that a role may use: `None` is all of them. One that may not log in may use none.
    pub fn datacenters_of(&self, name: &str) -> Option<BTreeSet<String>> {
        match self.roles.get(name) {
            Some(role) if role.login => {}
            _ => return Some(BTreeSet::new()),
        }
        if self.is_super(name) {
            return None;
        }
        self.datacenters.get(name).filter(|named| !named.is_empty()).cloned()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_struct(out, |out| {
            put_list(out, self.roles.iter(), |out, (name, role)| {
                put_text(out, name);
                role.put(out);
            });
            put_list(out, self.permissions.iter(), |out, (role, resources)| {
                put_text(out, role);
                put_list(out, resources.iter(), |out, (resource, permissions)| {
                    put_text(out, resource);
                    out.extend_from_slice(&permissions.0.to_be_bytes());
                });
            });
            if self.datacenters.is_empty() && self.identities.is_empty() {
                return;
            }
            put_list(out, self.datacenters.iter(), |out, (role, named)| {
                put_text(out, role);
                put_list(out, named.iter(), |out, name| put_text(out, name));
            });
            put_list(out, self.identities.iter(), |out, (identity, role)| {
                put_text(out, identity);
                put_text(out, role);
            });
        });
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<Roles, Error> {
        let mut input = input.structure("roles")?;
        let roles = input.list("roles", |input| Ok((input.text("a role")?, Role::read(input)?)))?;
        let permissions = input.list("permissions", |input| {
            let role = input.text("a role")?;
            let resources = input.list("resources", |input| {
                Ok((input.text("a resource")?, Permissions(input.u32("permissions")?)))
            })?;
            Ok((role, resources.into_iter().collect()))
        })?;
        let mut read = Roles {
            roles: roles.into_iter().collect(),
            permissions: permissions.into_iter().collect(),
            ..Roles::default()
        };
        // Bytes of before these were known end here.
        if !input.is_at_end() {
            let datacenters = input.list("datacenters", |input| {
                let role = input.text("a role")?;
                let named = input.list("datacenters", |input| input.text("a datacenter"))?;
                Ok((role, named.into_iter().collect()))
            })?;
            read.datacenters = datacenters.into_iter().collect();
            let identity = |input: &mut Input<'_>| Ok((input.text("an identity")?, input.text("a role")?));
            read.identities = input.list("identities", identity)?.into_iter().collect();
        }
        Ok(read)
    }
}

impl Role {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_struct(out, |out| {
            out.extend([u8::from(self.superuser), u8::from(self.login)]);
            put_option(out, self.salted_hash.as_deref(), put_text);
            put_list(out, self.member_of.iter(), |out, name| put_text(out, name));
        });
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<Role, Error> {
        let mut input = input.structure("a role")?;
        Ok(Role {
            superuser: input.flag("superuser")?,
            login: input.flag("login")?,
            salted_hash: input.option("a hash", |input| input.text("a hash"))?,
            member_of: input.list("memberships", |input| input.text("a role"))?.into_iter().collect(),
        })
    }
}
