//! What is proposed: a change, the version it was decided on, and an id that stays the same when it is sent again.
//!
//! ```text
//! command  struct: u128 id, version base, u64 needs, u16 kind, body (u32 bytes)
//! ```
//! The body's layout belongs to its kind. Kinds are never reused, and what a kind means never changes: nodes of two releases apply
//! the same entry. A new meaning is a new kind. `needs` names the features that every member must have before the kind may be
//! applied: a node that does not know the kind can still tell that everybody refuses it. See [`crate::State::apply_entry`].

use crate::bytes::{Input, put_id, put_list, put_option, put_struct, put_text, put_version};
use crate::state::Fill;
use crate::{Error, Permissions, Role, Roles};
use base::HostId;
use schema::{Schema, TableId};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use topology::{Member, Version};

/// What is proposed to the cluster's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Random, and the same when the command is sent again because its outcome is unknown. A new decision has a new one.
    pub id: u128,
    /// The version its change was decided on: of its scope, or of the whole state. See [`crate::State::base`].
    pub base: Version,
    /// What it does.
    pub change: Change,
}

/// The part of the state that a change is about: changes of different scopes do not disturb each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Keyspaces, tables, types.
    Schema,
    /// Members, bans, the running operation, the founding.
    Members,
    /// Roles and permissions.
    Roles,
    /// The truncation of one table.
    Truncation(TableId),
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The first entry of every cluster.
    Found(Box<Founding>),
    /// Steps of the schema, whose ordinals, ids and times are decided in them. Not [`schema::Change::All`].
    Schema(Vec<schema::Change>),
    /// A new member takes writes from now on, and holds its tokens after [`Change::FinishJoin`].
    Join(Box<Applicant>),
    /// What the joining member must hold is proven to be nothing, or that is not asked for.
    FinishJoin(HostId),
    /// A new member takes the place and the tokens of one that is dead.
    Replace {
        /// Who is dead.
        old: HostId,
        /// Who comes; its tokens are those of `old`, whatever it says.
        new: Box<Applicant>,
    },
    /// The new member holds its tokens; the old one has left.
    FinishReplace(HostId),
    /// The running operation of this member is given up.
    Abort(HostId),
    /// Members came back with other addresses or another release. Applied together or not at all, so that two may swap addresses.
    Update(Vec<MemberUpdate>),
    /// A node is refused from now on, member or not.
    Ban(HostId),
    /// Rows of a table written up to a time are gone.
    Truncate {
        /// Which.
        table: TableId,
        /// Microseconds since the epoch.
        at: i64,
    },
    /// A change of roles or permissions.
    Role(RoleChange),
}

/// What the first entry holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Founding {
    /// The cluster's identity for life.
    pub cluster: u128,
    /// Its name.
    pub name: String,
    /// The node that founds it, which holds its tokens at once.
    pub member: Member,
    /// What a lone folder had: only what is logged.
    pub schema: Arc<Schema>,
    /// What a lone folder had, with the default superuser if that is nothing.
    pub roles: Roles,
}

/// A node that asks to become a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applicant {
    /// The cluster it means.
    pub cluster: u128,
    /// What it believes the cluster to be called.
    pub name: String,
    /// What it will be; its state is set by the cluster.
    pub member: Member,
    /// Whether it must be proven that it misses nothing: `auto_bootstrap`.
    pub fill: Fill,
}

/// What a known member says of itself after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberUpdate {
    /// Who.
    pub host: HostId,
    /// Where other nodes call it. May change.
    pub internode: SocketAddr,
    /// Where clients connect. May change.
    pub native: SocketAddr,
    /// Must be what it was.
    pub dc: String,
    /// Must be what it was.
    pub rack: String,
    /// How many shards it runs. May change.
    pub shards: u16,
    /// Bits that its shard formula leaves out. May change.
    pub ignore_msb: u8,
    /// What it can do. May not lose what the cluster uses.
    pub features: u64,
    /// Its release. May change.
    pub release: String,
}

/// A change of roles or permissions, decided: passwords are hashed, names exist.
#[derive(Clone, PartialEq, Eq)]
pub enum RoleChange {
    /// A new role.
    Create(String, Role),
    /// What is given is set.
    Alter {
        /// Which.
        name: String,
        /// Whether it may do everything.
        superuser: Option<bool>,
        /// Whether it may log in.
        login: Option<bool>,
        /// The hash of its new password.
        salted_hash: Option<String>,
    },
    /// The role is gone, with what it was granted and what was granted on it.
    Drop(String),
    /// The first role is granted to the second.
    GrantRole(String, String),
    /// The first role is taken from the second.
    RevokeRole(String, String),
    /// Permissions on a resource are added to a role.
    Grant(String, String, Permissions),
    /// Permissions on a resource are taken from a role.
    Revoke(String, String, Permissions),
    /// All of these in this order, or none. Not one within another.
    All(Vec<RoleChange>),
    /// The datacenters that a role may use; an empty set is all of them.
    SetDatacenters(String, BTreeSet<String>),
    /// The first, an identity of clients' certificates, stands for the second, a role.
    AddIdentity(String, String),
    /// An identity stands for no role any more.
    DropIdentity(String),
}

impl std::fmt::Debug for RoleChange {
    // Hashes of passwords stay out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RoleChange::Create(name, role) => write!(f, "Create({name}, {role:?})"),
            RoleChange::Alter { name, superuser, login, salted_hash } => {
                let has_hash = salted_hash.is_some();
                write!(f, "Alter({name}, superuser {superuser:?}, login {login:?}, hash {has_hash})")
            }
            RoleChange::Drop(name) => write!(f, "Drop({name})"),
            RoleChange::GrantRole(role, member) => write!(f, "GrantRole({role}, {member})"),
            RoleChange::RevokeRole(role, member) => write!(f, "RevokeRole({role}, {member})"),
            RoleChange::Grant(role, resource, what) => write!(f, "Grant({role}, {resource}, {what:?})"),
            RoleChange::Revoke(role, resource, what) => write!(f, "Revoke({role}, {resource}, {what:?})"),
            RoleChange::All(changes) => write!(f, "All({changes:?})"),
            RoleChange::SetDatacenters(role, named) => write!(f, "SetDatacenters({role}, {named:?})"),
            RoleChange::AddIdentity(identity, role) => write!(f, "AddIdentity({identity}, {role})"),
            RoleChange::DropIdentity(identity) => write!(f, "DropIdentity({identity})"),
        }
    }
}

/// What every release can read of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// See [`Command::id`].
    pub id: u128,
    /// See [`Command::base`].
    pub base: Version,
    /// Features that every member must have.
    pub needs: u64,
    /// What the body is.
    pub kind: u16,
}

/// The features of this release: a member says them. Those that gate kinds of commands and fields of the state: see [`Change::needs`].
pub const FEATURES: u64 = GRANTS | topology::FEATURE_FLOORS;

/// Several changes of roles in one, datacenters and identities of roles.
const GRANTS: u64 = 1;

const FOUND: u16 = 1;
const SCHEMA: u16 = 2;
const JOIN: u16 = 3;
const FINISH_JOIN: u16 = 4;
const REPLACE: u16 = 5;
const FINISH_REPLACE: u16 = 6;
const ABORT: u16 = 7;
const UPDATE: u16 = 8;
const BAN: u16 = 9;
const TRUNCATE: u16 = 10;
const CREATE_ROLE: u16 = 11;
const ALTER_ROLE: u16 = 12;
const DROP_ROLE: u16 = 13;
const GRANT_ROLE: u16 = 14;
const REVOKE_ROLE: u16 = 15;
const GRANT: u16 = 16;
const REVOKE: u16 = 17;
const ROLE_CHANGES: u16 = 18;
const SET_DATACENTERS: u16 = 19;
const ADD_IDENTITY: u16 = 20;
const DROP_IDENTITY: u16 = 21;

impl Change {
    /// What it is about.
    pub fn scope(&self) -> Scope {
        match self {
            Change::Schema(_) => Scope::Schema,
            Change::Found(_)
            | Change::Join(_)
            | Change::FinishJoin(_)
            | Change::Replace { .. }
            | Change::FinishReplace(_)
            | Change::Abort(_)
            | Change::Update(_)
            | Change::Ban(_) => Scope::Members,
            Change::Truncate { table, .. } => Scope::Truncation(*table),
            Change::Role(_) => Scope::Roles,
        }
    }

    /// Its number in bytes.
    pub fn kind(&self) -> u16 {
        match self {
            Change::Found(_) => FOUND,
            Change::Schema(_) => SCHEMA,
            Change::Join(_) => JOIN,
            Change::FinishJoin(_) => FINISH_JOIN,
            Change::Replace { .. } => REPLACE,
            Change::FinishReplace(_) => FINISH_REPLACE,
            Change::Abort(_) => ABORT,
            Change::Update(_) => UPDATE,
            Change::Ban(_) => BAN,
            Change::Truncate { .. } => TRUNCATE,
            Change::Role(change) => change.kind(),
        }
    }

    /// The features that every member must have before it may be applied: none for the kinds of the first release.
    pub fn needs(&self) -> u64 {
        match self.kind() {
            FOUND..=REVOKE => 0,
            ROLE_CHANGES..=DROP_IDENTITY => GRANTS,
            later => unreachable!("kind {later} is listed in Change::kind and must say here what it needs"),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Change::Found(founding) => founding.put(out),
            Change::Schema(changes) => out.extend(schema::Change::encode_all(changes)),
            Change::Join(applicant) => applicant.put(out),
            Change::FinishJoin(host)
            | Change::FinishReplace(host)
            | Change::Abort(host)
            | Change::Ban(host) => {
                put_id(out, host.0);
            }
            Change::Replace { old, new } => {
                put_id(out, old.0);
                new.put(out);
            }
            Change::Update(updates) => put_list(out, updates.iter(), |out, update| update.put(out)),
            Change::Truncate { table, at } => {
                put_id(out, table.0);
                out.extend_from_slice(&at.to_be_bytes());
            }
            Change::Role(change) => change.put(out),
        }
    }

    fn read(kind: u16, input: &mut Input<'_>) -> Result<Change, Error> {
        Ok(match kind {
            FOUND => Change::Found(Box::new(Founding::read(input)?)),
            SCHEMA => Change::Schema(schema::Change::decode_all(input.rest())?),
            JOIN => Change::Join(Box::new(Applicant::read(input)?)),
            FINISH_JOIN => Change::FinishJoin(input.host("a host id")?),
            REPLACE => {
                let old = input.host("a host id")?;
                Change::Replace { old, new: Box::new(Applicant::read(input)?) }
            }
            FINISH_REPLACE => Change::FinishReplace(input.host("a host id")?),
            ABORT => Change::Abort(input.host("a host id")?),
            UPDATE => Change::Update(input.list("updates", MemberUpdate::read)?),
            BAN => Change::Ban(input.host("a host id")?),
            TRUNCATE => {
                Change::Truncate { table: TableId(input.u128("a table id")?), at: input.i64("a time")? }
            }
            CREATE_ROLE..=DROP_IDENTITY => Change::Role(RoleChange::read(kind, input)?),
            kind => return Err(Error::UnknownKind { kind }),
        })
    }
}

impl Command {
    /// The command as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_struct(&mut out, |out| {
            put_id(out, self.id);
            put_version(out, self.base);
            out.extend_from_slice(&self.change.needs().to_be_bytes());
            out.extend_from_slice(&self.change.kind().to_be_bytes());
            put_struct(out, |out| self.change.put(out));
        });
        out
    }

    /// Reads what [`Command::encode`] wrote. What a later release appends to a struct inside is passed over; anything else that
    /// stands behind is an error, because to pass it over would be to apply something else than the others.
    pub fn decode(bytes: &[u8]) -> Result<Command, Error> {
        let (header, mut body) = split(bytes)?;
        let change = Change::read(header.kind, &mut body)?;
        body.end()?;
        if header.needs != change.needs() {
            return Err(body.malformed("the features that this kind needs"));
        }
        Ok(Command { id: header.id, base: header.base, change })
    }
}

impl Header {
    /// Reads the part of a command that every release understands.
    pub fn decode(bytes: &[u8]) -> Result<Header, Error> {
        split(bytes).map(|(header, _)| header)
    }
}

fn split(bytes: &[u8]) -> Result<(Header, Input<'_>), Error> {
    let mut outer = Input::new(bytes);
    let mut input = outer.structure("a command")?;
    outer.end()?;
    let header = Header {
        id: input.u128("a command id")?,
        base: input.version()?,
        needs: input.u64("needed features")?,
        kind: input.u16("a kind")?,
    };
    let body = input.structure("a body")?;
    input.end()?;
    Ok((header, body))
}

impl Founding {
    fn put(&self, out: &mut Vec<u8>) {
        put_struct(out, |out| {
            put_id(out, self.cluster);
            put_text(out, &self.name);
            self.member.encode(out);
            crate::bytes::put_bytes(out, &self.schema.encode());
            self.roles.put(out);
        });
    }

    fn read(input: &mut Input<'_>) -> Result<Founding, Error> {
        let mut input = input.structure("a founding")?;
        Ok(Founding {
            cluster: input.u128("a cluster id")?,
            name: input.text("a cluster name")?,
            member: input.member()?,
            schema: Arc::new(Schema::decode(input.blob("a schema")?)?),
            roles: Roles::read(&mut input)?,
        })
    }
}

impl Applicant {
    fn put(&self, out: &mut Vec<u8>) {
        put_struct(out, |out| {
            put_id(out, self.cluster);
            put_text(out, &self.name);
            self.member.encode(out);
            self.fill.put(out);
        });
    }

    fn read(input: &mut Input<'_>) -> Result<Applicant, Error> {
        let mut input = input.structure("an applicant")?;
        Ok(Applicant {
            cluster: input.u128("a cluster id")?,
            name: input.text("a cluster name")?,
            member: input.member()?,
            fill: Fill::read(&mut input)?,
        })
    }
}

impl MemberUpdate {
    fn put(&self, out: &mut Vec<u8>) {
        put_struct(out, |out| {
            put_id(out, self.host.0);
            put_text(out, &self.internode.to_string());
            put_text(out, &self.native.to_string());
            put_text(out, &self.dc);
            put_text(out, &self.rack);
            out.extend_from_slice(&self.shards.to_be_bytes());
            out.push(self.ignore_msb);
            out.extend_from_slice(&self.features.to_be_bytes());
            put_text(out, &self.release);
        });
    }

    fn read(input: &mut Input<'_>) -> Result<MemberUpdate, Error> {
        let mut input = input.structure("an update of a member")?;
        Ok(MemberUpdate {
            host: input.host("a host id")?,
            internode: address(&mut input)?,
            native: address(&mut input)?,
            dc: input.text("a datacenter")?,
            rack: input.text("a rack")?,
            shards: input.u16("shards")?,
            ignore_msb: input.u8("ignored bits")?,
            features: input.u64("features")?,
            release: input.text("a release")?,
        })
    }
}

fn address(input: &mut Input<'_>) -> Result<SocketAddr, Error> {
    let error = input.malformed("an address and a port");
    input.text("an address")?.parse().map_err(|_| error)
}

impl RoleChange {
    fn kind(&self) -> u16 {
        match self {
            RoleChange::Create(..) => CREATE_ROLE,
            RoleChange::Alter { .. } => ALTER_ROLE,
            RoleChange::Drop(_) => DROP_ROLE,
            RoleChange::GrantRole(..) => GRANT_ROLE,
            RoleChange::RevokeRole(..) => REVOKE_ROLE,
            RoleChange::Grant(..) => GRANT,
            RoleChange::Revoke(..) => REVOKE,
            RoleChange::All(_) => ROLE_CHANGES,
            RoleChange::SetDatacenters(..) => SET_DATACENTERS,
            RoleChange::AddIdentity(..) => ADD_IDENTITY,
            RoleChange::DropIdentity(_) => DROP_IDENTITY,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let put_flag = |out: &mut Vec<u8>, flag: bool| out.push(u8::from(flag));
        match self {
            RoleChange::Create(name, role) => {
                put_text(out, name);
                role.put(out);
            }
            RoleChange::Alter { name, superuser, login, salted_hash } => put_struct(out, |out| {
                put_text(out, name);
                put_option(out, *superuser, put_flag);
                put_option(out, *login, put_flag);
                put_option(out, salted_hash.as_deref(), put_text);
            }),
            RoleChange::Drop(name) | RoleChange::DropIdentity(name) => put_text(out, name),
            RoleChange::All(changes) => put_list(out, changes.iter(), |out, change| {
                out.extend_from_slice(&change.kind().to_be_bytes());
                put_struct(out, |out| change.put(out));
            }),
            RoleChange::SetDatacenters(role, named) => {
                put_text(out, role);
                put_list(out, named.iter(), |out, name| put_text(out, name));
            }
            RoleChange::AddIdentity(identity, role) => {
                put_text(out, identity);
                put_text(out, role);
            }
            RoleChange::GrantRole(role, member) | RoleChange::RevokeRole(role, member) => {
                put_text(out, role);
                put_text(out, member);
            }
            RoleChange::Grant(role, resource, permissions)
            | RoleChange::Revoke(role, resource, permissions) => {
                put_text(out, role);
                put_text(out, resource);
                out.extend_from_slice(&permissions.0.to_be_bytes());
            }
        }
    }

    fn read(kind: u16, input: &mut Input<'_>) -> Result<RoleChange, Error> {
        if kind == ALTER_ROLE {
            let mut input = input.structure("an altered role")?;
            return Ok(RoleChange::Alter {
                name: input.text("a role")?,
                superuser: input.option("superuser", |input| input.flag("superuser"))?,
                login: input.option("login", |input| input.flag("login"))?,
                salted_hash: input.option("a hash", |input| input.text("a hash"))?,
            });
        }
        if kind == ROLE_CHANGES {
            let changes = input.list("changes of roles", |input| {
                let kind = input.u16("a kind")?;
                let mut body = input.structure("a change of a role")?;
                // One level: what an attacker writes must not nest until the stack ends.
                if kind == ROLE_CHANGES {
                    return Err(body.malformed("a single change"));
                }
                let change = RoleChange::read(kind, &mut body)?;
                body.end()?;
                Ok(change)
            })?;
            return Ok(RoleChange::All(changes));
        }
        let name = input.text("a role")?;
        Ok(match kind {
            SET_DATACENTERS => {
                let named = input.list("datacenters", |input| input.text("a datacenter"))?;
                RoleChange::SetDatacenters(name, named.into_iter().collect())
            }
            ADD_IDENTITY => RoleChange::AddIdentity(name, input.text("a role")?),
            DROP_IDENTITY => RoleChange::DropIdentity(name),
            CREATE_ROLE => RoleChange::Create(name, Role::read(input)?),
            DROP_ROLE => RoleChange::Drop(name),
            GRANT_ROLE => RoleChange::GrantRole(name, input.text("a role")?),
            REVOKE_ROLE => RoleChange::RevokeRole(name, input.text("a role")?),
            GRANT | REVOKE => {
                let resource = input.text("a resource")?;
                let permissions = Permissions(input.u32("permissions")?);
                if kind == GRANT {
                    RoleChange::Grant(name, resource, permissions)
                } else {
                    RoleChange::Revoke(name, resource, permissions)
                }
            }
            kind => return Err(Error::UnknownKind { kind }),
        })
    }
}
