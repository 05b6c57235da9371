//! Roles, memberships and permissions, as `system_auth` shows them.

use crate::Error;
use crate::bytes::{Input, put_list, put_option, put_struct, put_text};
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

/// What may be done with a resource, one bit each. In bytes and in entries: bits never change their meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Permissions(pub u32);

impl Permissions {
    /// Cassandra's names, the first one for bit 0.
    pub const NAMES: [&'static str; 10] = [
        "CREATE",
        "ALTER",
        "DROP",
        "SELECT",
        "MODIFY",
        "AUTHORIZE",
        "DESCRIBE",
        "EXECUTE",
        "UNMASK",
        "SELECT_MASKED",
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Permissions> {
        let bit = Permissions::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(Permissions(1 << bit))
    }

    /// The names of those that are set and known here.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let known = Permissions::NAMES.iter().enumerate();
        known.filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|(_, name)| *name)
    }
}

/// Every role and what was granted to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// By name.
    pub roles: BTreeMap<String, Role>,
    /// By role, then by resource as Cassandra names it (`data`, `data/ks/table`, `roles/name`). Never empty sets.
    pub permissions: BTreeMap<String, BTreeMap<String, Permissions>>,
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
        Ok(Roles { roles: roles.into_iter().collect(), permissions: permissions.into_iter().collect() })
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
