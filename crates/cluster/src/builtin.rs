//! Tables that every node has and nobody makes: `system_auth`, `system.batches` and `system.paxos`, stored like any other.
//!
//! ```text
//!   schema log ─ replay ─▶ what users made ─ with_builtin ─▶ what every shard runs ─ logged ─▶ schema log
//! ```
//! They lie over the schema that the log holds and are never written into it, so that a later release may add some. Only
//! what ALTER KEYSPACE says of `system_auth` is in the log: the keyspace without its tables. The schema's version is made of
//! the logged part alone, and nodes of two releases agree on it.
//!
//! Table ids are name-based as Cassandra's. On disk: ids, names and the order of the columns never change; columns are
//! only ever added behind the others.

use md5::{Digest, Md5};
use schema::{Keyspace, Order, Replication, Schema, Table, TableBuilder, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::CqlType;

/// The keyspace of roles and what they may do.
pub const AUTH: &str = "system_auth";
/// The keyspace of what only this node knows.
pub const LOCAL: &str = "system";

/// How long deleted roles are remembered: 90 days, as in Cassandra.
const AUTH_GC_GRACE_S: i32 = 90 * 24 * 60 * 60;

/// One table: names with their types.
struct Definition {
    keyspace: &'static str,
    name: &'static str,
    comment: &'static str,
    partition_key: &'static str,
    clustering: &'static str,
    regulars: &'static [(&'static str, &'static str)],
}

const fn auth(
    name: &'static str,
    comment: &'static str,
    partition_key: &'static str,
    clustering: &'static str,
    regulars: &'static [(&'static str, &'static str)],
) -> Definition {
    Definition { keyspace: AUTH, name, comment, partition_key, clustering, regulars }
}

#[rustfmt::skip]
const TABLES: &[Definition] = &[
    auth("roles", "role definitions", "role", "",
        &[("can_login", "boolean"), ("is_superuser", "boolean"), ("member_of", "set<text>"), ("salted_hash", "text")]),
    auth("role_members", "role memberships lookup table", "role", "member", &[]),
    auth("role_permissions", "permissions granted to db roles", "role", "resource", &[("permissions", "set<text>")]),
    auth("resource_role_permissons_index", "index of db roles with permissions granted on a resource",
        "resource", "role", &[]),
    auth("network_permissions", "user network permissions", "role", "", &[("dcs", "frozen<set<text>>")]),
    auth("identity_to_role", "mtls authorized identities lookup table", "identity", "", &[("role", "text")]),
    auth("cidr_permissions", "user cidr permissions", "role", "", &[("cidr_groups", "frozen<set<text>>")]),
    auth("cidr_groups", "cidr groups to cidrs mapping", "cidr_group", "",
        &[("cidrs", "frozen<set<frozen<tuple<inet, smallint>>>>")]),
    Definition {
        keyspace: LOCAL, name: "batches", comment: "batches awaiting replay", partition_key: "id", clustering: "",
        regulars: &[("mutations", "list<blob>"), ("version", "int")],
    },
    Definition {
        keyspace: LOCAL, name: "paxos", comment: "in-progress paxos proposals", partition_key: "row_key", clustering: "cf_id",
        regulars: &[("in_progress_ballot", "timeuuid"), ("in_progress_read_ballot", "timeuuid"), ("most_recent_commit", "blob"),
            ("most_recent_commit_at", "timeuuid"), ("most_recent_commit_version", "int"), ("proposal", "blob"),
            ("proposal_ballot", "timeuuid"), ("proposal_version", "int")],
    },
];

/// The same schema with the built-in keyspaces in it, at the version of what is logged of it.
/// Of `system_auth` it keeps the replication that it finds. Cost: that of a small schema.
pub fn with_builtin(schema: Schema) -> Schema {
    let mut keyspaces = schema.keyspaces;
    for name in [AUTH, LOCAL] {
        let mut keyspace = match keyspaces.get(name) {
            Some(altered) if name == AUTH => Keyspace::clone(altered),
            _ => Keyspace::new(name, default_replication(name)),
        };
        let tables = TABLES.iter().filter(|definition| definition.keyspace == name);
        keyspace.tables =
            tables.map(|definition| (definition.name.into(), Arc::new(build(definition)))).collect();
        keyspaces.insert(name.into(), Arc::new(keyspace));
    }
    versioned(Schema::new(0, keyspaces))
}

/// The same keyspaces, at the version of what is logged of them.
pub(crate) fn versioned(schema: Schema) -> Schema {
    let version = logged(&schema).with_content_version().version;
    Schema::new(version, schema.keyspaces)
}

/// What the schema log holds of a schema: what users made, and how they altered `system_auth`.
pub fn logged(schema: &Schema) -> Schema {
    let mut keyspaces: BTreeMap<Arc<str>, Arc<Keyspace>> = schema.keyspaces.clone();
    keyspaces.remove(LOCAL);
    if let Some(auth) = keyspaces.remove(AUTH)
        && (auth.replication != default_replication(AUTH) || !auth.durable_writes)
    {
        let bare = Keyspace { tables: BTreeMap::new(), ..Keyspace::clone(&auth) };
        keyspaces.insert(bare.name.clone(), Arc::new(bare));
    }
    Schema::new(schema.version, keyspaces)
}

/// Whether a table is one of these.
pub fn is_builtin(table: &Table) -> bool {
    (&*table.keyspace == AUTH || &*table.keyspace == LOCAL)
        && TABLES
            .iter()
            .any(|definition| definition.keyspace == &*table.keyspace && definition.name == &*table.name)
}

fn default_replication(keyspace: &str) -> Replication {
    if keyspace == AUTH { Replication::Simple { factor: 1 } } else { Replication::Local }
}

fn build(definition: &Definition) -> Table {
    let ty = |text: &str| CqlType::parse(text).expect("definitions are constants");
    let (key_type, clustering_type) = match definition.name {
        "batches" => (CqlType::Timeuuid, CqlType::Text),
        "paxos" => (CqlType::Blob, CqlType::Uuid),
        _ => (CqlType::Text, CqlType::Text),
    };
    let id = table_id(definition.keyspace, definition.name);
    let mut builder = TableBuilder::new(definition.keyspace, definition.name, id)
        .partition_key(definition.partition_key, key_type);
    if !definition.clustering.is_empty() {
        builder = builder.clustering(definition.clustering, clustering_type, Order::Ascending);
    }
    for (name, text) in definition.regulars {
        builder = builder.regular(name, ty(text));
    }
    let options = builder.options_mut();
    options.comment = definition.comment.to_string();
    if definition.keyspace == LOCAL {
        options.gc_grace_seconds = 0;
        options.memtable_flush_period_in_ms = 60 * 60 * 1000;
        options.compaction.insert("min_threshold".to_string(), "2".to_string());
    } else {
        options.gc_grace_seconds = AUTH_GC_GRACE_S;
    }
    builder.build().expect("definitions are constants, and the tests build every one")
}

/// The id Cassandra gives to a system table: the name-based UUID of keyspace and name.
fn table_id(keyspace: &str, name: &str) -> TableId {
    let mut hash = Md5::new();
    hash.update(keyspace.as_bytes());
    hash.update(name.as_bytes());
    let digest: [u8; 16] = hash.finalize().into();
    let bits = u128::from_be_bytes(digest);
    let version = bits & !(0xf000 << 64) | (0x3000 << 64);
    TableId(version & !(0xc000 << 48) | (0x8000 << 48))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::HashMap;

    fn user_schema() -> Schema {
        Schema::default().with_keyspace(1, Keyspace::new("a", Replication::Simple { factor: 1 }))
    }

    #[test]
    fn ids_are_those_of_cassandra() {
        let id = |keyspace, name| format!("{:032x}", table_id(keyspace, name).0);
        assert_eq!(id("system_auth", "roles"), "5bc52802de2535edaeab188eecebb090");
        assert_eq!(id("system", "batches"), "919a4bc57a333573b03e13fc3f68b465");
        assert_eq!(id("system", "paxos"), "b7b7f0c2fd0a34108c053ef614bb7c2d");
        let ids: HashMap<TableId, &str> =
            TABLES.iter().map(|d| (table_id(d.keyspace, d.name), d.name)).collect();
        assert_eq!(ids.len(), TABLES.len());
    }

    #[test]
    fn the_log_knows_nothing_of_them() {
        let users = user_schema().with_content_version();
        let all = with_builtin(users.clone());
        assert_eq!(all.tables().count(), TABLES.len());
        assert!(all.tables().all(|table| is_builtin(table)));
        assert_eq!(all.version, users.version, "nodes of other releases agree");
        assert_eq!(logged(&all), Schema::new(all.version, users.keyspaces));
        assert!(schema::Change::between(&all, &all).is_empty());
    }

    #[test]
    fn replication_of_the_roles_is_kept() {
        let factors = [("dc".to_string(), 3)].into();
        let all = with_builtin(user_schema());
        let mut auth = Keyspace::clone(all.keyspace(AUTH).expect("it is there"));
        auth.replication = Replication::NetworkTopology { factors };
        let altered = versioned(all.with_keyspace(2, auth.clone()));
        assert_ne!(altered.version, all.version);
        // What is appended to the log, and what a rewritten log holds, lead back to it.
        for changes in
            [schema::Change::between(&all, &altered), vec![schema::Change::All(Arc::new(logged(&altered)))]]
        {
            let base = schema::Change::All(Arc::new(logged(&all)));
            let record = schema::Change::encode_all(&changes);
            let read = schema::Change::decode_all(&record).expect("as written");
            let replayed = Schema::replay(std::iter::once(base).chain(read)).expect("in order");
            assert_eq!(with_builtin(replayed), altered);
        }
    }
}
