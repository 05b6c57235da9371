//! What a node must do when its applied state changes.
//!
//! ⚔ It follows from two states alone, so that a snapshot does what the entries in it would have done. What holds of a chain of entries
//! and of one jump over them: the same tables are dropped, the same tables are truncated (but those that were dropped behind it), and
//! the last of what was said of a member, a role or the schema is what the jump says. Intermediate events are not in it: what was made
//! and dropped between is never announced, and two changes of one thing are one.

use crate::{Operation, State, Truncation};
use base::HostId;
use schema::{Schema, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use topology::{Member, MemberState};

/// What is different, in the order in which it is to be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    /// The schema changed.
    pub schema: Option<SchemaStep>,
    /// Tables whose data must be forgotten, ascending; of an id that is in use again, what was written before it was made again.
    pub dropped: Vec<TableId>,
    /// Tables that were truncated, ascending.
    pub truncated: Vec<(TableId, Truncation)>,
    /// Members that came, went or changed, by host id.
    pub members: Vec<MemberChange>,
    /// Host ids to refuse from now on, and whose connections to close. See [`State::is_refused`].
    pub refused: Vec<HostId>,
    /// Roles to forget and read again, by name: what they are, what was granted to them, or what they may do has changed.
    pub roles: Vec<String>,
    /// The operation that runs now, if that changed.
    pub operation: Option<Option<Operation>>,
}

/// From one schema to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaStep {
    /// What was.
    pub from: Arc<Schema>,
    /// What is.
    pub to: Arc<Schema>,
    /// What drivers are told: drops before what is new; a keyspace behind its dropped tables and before its new ones.
    pub events: Vec<SchemaEvent>,
}

/// How something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It is new.
    Created,
    /// It is different.
    Updated,
    /// It is gone.
    Dropped,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventTarget {
    /// A keyspace.
    Keyspace,
    /// A table.
    Table,
    /// A user-defined type.
    Type,
}

/// One change of the schema, as drivers are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaEvent {
    /// How.
    pub kind: EventKind,
    /// What.
    pub target: EventTarget,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name; empty when it is the keyspace itself.
    pub name: String,
}

/// What drivers are told of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyEvent {
    /// `NEW_NODE`
    New(SocketAddr),
    /// `REMOVED_NODE`
    Removed(SocketAddr),
    /// `MOVED_NODE`: its tokens changed.
    Moved(SocketAddr),
}

/// One member before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberChange {
    /// Who.
    pub host: HostId,
    /// None when it is new.
    pub before: Option<Member>,
    /// None when its join was given up.
    pub after: Option<Member>,
}

impl MemberChange {
    /// What drivers are told of it, by the address at which they connect: a member is new to them when it holds its tokens.
    pub fn events(&self) -> Vec<TopologyEvent> {
        let shown = |member: &Option<Member>| member.clone().filter(|member| member.state.is_read());
        match (shown(&self.before), shown(&self.after)) {
            (None, None) => Vec::new(),
            (None, Some(after)) => vec![TopologyEvent::New(after.native)],
            (Some(before), None) => vec![TopologyEvent::Removed(before.native)],
            (Some(before), Some(after)) if before.native != after.native => {
                vec![TopologyEvent::Removed(before.native), TopologyEvent::New(after.native)]
            }
            (Some(before), Some(after)) if before.tokens != after.tokens => {
                vec![TopologyEvent::Moved(after.native)]
            }
            (Some(_), Some(_)) => Vec::new(),
        }
    }

    /// Whether it has left for good: hints for it are dropped.
    pub fn has_left(&self) -> bool {
        let left = |member: &Member| matches!(member.state, MemberState::Left | MemberState::Banned);
        self.after.as_ref().is_none_or(left) && !self.before.as_ref().is_some_and(left)
    }
}

impl Effects {
    /// Tables that are there before and after and must forget on the way what they hold: they were truncated, or dropped and made again under
    /// their id; ascending, with the time of the truncation.
    pub fn emptied(from: &State, to: &State) -> Vec<(TableId, i64)> {
        if Arc::ptr_eq(&from.truncations, &to.truncations) && Arc::ptr_eq(&from.dropped, &to.dropped) {
            return Vec::new();
        }
        let dropped = to.dropped.iter().filter(|(_, version)| from.version < **version);
        let mut emptied: BTreeMap<TableId, i64> = dropped.map(|(id, _)| (*id, i64::MIN)).collect();
        emptied.extend(truncated(from, to).into_iter().map(|(id, truncation)| (id, truncation.at)));
        let is_in = |state: &State, id: &TableId| state.schema.table_by_id(*id).is_some();
        emptied.into_iter().filter(|(id, _)| is_in(from, id) && is_in(to, id)).collect()
    }

    /// What leads from one applied state to a later one. O(what is in both).
    pub fn between(from: &State, to: &State) -> Effects {
        let changed = !Arc::ptr_eq(&from.schema, &to.schema) && *from.schema != *to.schema;
        let schema = changed.then(|| {
            let (from, to) = (from.schema.clone(), to.schema.clone());
            SchemaStep { events: schema_events(&from, &to), from, to }
        });
        let refused: BTreeSet<HostId> = refused(to).filter(|host| !from.is_refused(*host)).collect();
        Effects {
            schema,
            dropped: dropped(from, to),
            truncated: truncated(from, to),
            members: members(from, to),
            refused: refused.into_iter().collect(),
            roles: roles(from, to),
            operation: (from.operation != to.operation).then_some(to.operation),
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Effects::default()
    }
}

fn dropped(from: &State, to: &State) -> Vec<TableId> {
    let gone = from.schema.tables().map(|table| table.id).filter(|id| to.schema.table_by_id(*id).is_none());
    // Also what came and went between: a node may have been sent writes for it.
    let since = to.dropped.iter().filter(|(_, version)| from.version < **version).map(|(id, _)| *id);
    gone.chain(since).collect::<BTreeSet<TableId>>().into_iter().collect()
}

fn truncated(from: &State, to: &State) -> Vec<(TableId, Truncation)> {
    let since = to.truncations.iter().filter(|(_, truncation)| from.version < truncation.version);
    since.map(|(id, truncation)| (*id, *truncation)).collect()
}

fn members(from: &State, to: &State) -> Vec<MemberChange> {
    if Arc::ptr_eq(&from.members, &to.members) {
        return Vec::new();
    }
    let all = from.members.ever().iter().chain(to.members.ever()).map(|member| member.host_id);
    let mut changes = Vec::new();
    for host in all.collect::<BTreeSet<HostId>>() {
        let (before, after) = (from.members.get(host).cloned(), to.members.get(host).cloned());
        if before != after {
            changes.push(MemberChange { host, before, after });
        }
    }
    changes
}

fn refused(state: &State) -> impl Iterator<Item = HostId> {
    let ever = state.members.ever().iter().map(|member| member.host_id);
    ever.chain(state.banned.keys().chain(state.aborted.keys()).copied())
        .filter(|host| state.is_refused(*host))
}

fn roles(from: &State, to: &State) -> Vec<String> {
    if Arc::ptr_eq(&from.roles, &to.roles) {
        return Vec::new();
    }
    let (from, to) = (&from.roles, &to.roles);
    let names: BTreeSet<&String> = from.roles.keys().chain(to.roles.keys()).collect();
    let identities = |roles: &'_ crate::Roles, name: &str| -> Vec<String> {
        let of = roles.identities.iter().filter(|(_, role)| *role == name);
        of.map(|(identity, _)| identity.clone()).collect()
    };
    let same_identities = from.identities == to.identities;
    let same = |name: &&String| {
        from.roles.get(*name) == to.roles.get(*name)
            && from.permissions.get(*name) == to.permissions.get(*name)
            && from.datacenters.get(*name) == to.datacenters.get(*name)
            && (same_identities || identities(from, name) == identities(to, name))
    };
    names.into_iter().filter(|name| !same(name)).cloned().collect()
}

fn schema_events(from: &Schema, to: &Schema) -> Vec<SchemaEvent> {
    use EventKind::{Created, Dropped, Updated};
    use EventTarget::{Keyspace, Table, Type};
    let mut events = Vec::new();
    let mut tell = |kind, target, keyspace: &str, name: &str| {
        events.push(SchemaEvent { kind, target, keyspace: keyspace.to_owned(), name: name.to_owned() });
    };
    for (name, old) in &from.keyspaces {
        let new = to.keyspace(name);
        let (gone_table, gone_type) = (
            |key: &&Arc<str>| !new.is_some_and(|new| new.tables.contains_key(*key)),
            |key: &&Arc<str>| !new.is_some_and(|new| new.types.contains_key(*key)),
        );
        old.tables.keys().filter(gone_table).for_each(|table| tell(Dropped, Table, name, table));
        old.types.keys().filter(gone_type).for_each(|ty| tell(Dropped, Type, name, ty));
        if new.is_none() {
            tell(Dropped, Keyspace, name, "");
        }
    }
    for (name, new) in &to.keyspaces {
        let old = from.keyspace(name);
        match old {
            None => tell(Created, Keyspace, name, ""),
            Some(old) if old.replication != new.replication || old.durable_writes != new.durable_writes => {
                tell(Updated, Keyspace, name, "");
            }
            Some(_) => {}
        }
        for (key, ty) in &new.types {
            match old.and_then(|old| old.types.get(key)) {
                None => tell(Created, Type, name, key),
                Some(before) if before != ty => tell(Updated, Type, name, key),
                Some(_) => {}
            }
        }
        for (key, table) in &new.tables {
            match old.and_then(|old| old.tables.get(key)) {
                None => tell(Created, Table, name, key),
                Some(before) if before.id != table.id => {
                    tell(Dropped, Table, name, key);
                    tell(Created, Table, name, key);
                }
                Some(before) if before != table => tell(Updated, Table, name, key),
                Some(_) => {}
            }
        }
    }
    events
}
