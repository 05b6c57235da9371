//! Every system table is made from a live state with something of everything in it.

use super::*;
use crate::info::ClientInfo;
use crate::system::definitions;
use crate::system::live::Statements;
use crate::system::partitions::partitions;
use base::histogram::{Distribution, EstimatedHistogram, Zeroes};
use base::{HostId, Token};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use runtime::metrics::GroupUsage;
use schema::TableId;
use storage::snapshot::Snapshot;
use storage::{CompactionKind, CompactionProgress, CompactionRecord, TableStats};
use topology::{MemberState, Members, Version};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// A time-based UUID.
const TIMEUUID: u128 = 0x6cfa_d6f0_e5ac_11f1_a596_c1a0_9588_c68b;

fn seen(values: &[u64]) -> Distribution {
    let mut seen = Distribution::new(Zeroes::Apart);
    for value in values {
        seen.count += 1;
        seen.sum += value;
        seen.ever.add(*value, 1);
        seen.recent.add(*value, 1);
    }
    seen
}

fn stats(keyspace: &str) -> TableStats {
    let mut sizes = EstimatedHistogram::new(Zeroes::AsOne);
    sizes.add(2_000_000, 10);
    TableStats {
        largest_sstable: 1,
        longest_sstable_micros: 7_000,
        live_bytes: (1 << 20) + 1,
        partitions: 1000,
        partition_sizes: sizes,
        reads: seen(&[250, 250, 1000]),
        live_rows: seen(&[20]),
        ..TableStats::empty(keyspace, "visits", TableId(7))
    }
}

fn live() -> Live {
    Live {
        roles: None,
        row_cache: storage::CacheStats::default(),
        clients: vec![ClientInfo {
            address: SocketAddr::new(HERE, 40_000),
            stage: "ready",
            user: None,
            protocol_version: 5,
            options: BTreeMap::from([("DRIVER_NAME".to_string(), "driver".to_string())]),
            keyspace: Some("shop".into()),
            tls: None,
            request_count: 3,
        }],
        prepared: vec![(vec![1; 16], None, "SELECT 1".into())],
        traces: Vec::new(),
        tables: vec![stats("shop"), stats("system")],
        compactions: vec![CompactionProgress {
            id: TIMEUUID,
            kind: CompactionKind::Major,
            keyspace: "shop".into(),
            table: "visits".into(),
            completed: 1,
            total: 4,
        }],
        history: vec![CompactionRecord {
            id: TIMEUUID,
            kind: CompactionKind::Major,
            keyspace: "shop".into(),
            table: "visits".into(),
            at_ms: 1,
            bytes_in: 2,
            bytes_out: 1,
            merged: BTreeMap::from([(1, 20), (3, 1)]),
        }],
        snapshots: vec![Snapshot {
            tag: "first".into(),
            keyspace: "shop".into(),
            table: "visits".into(),
            size: 10,
            true_size: 1,
            created_ms: Some(1),
            expires_ms: None,
        }],
        groups: vec![GroupUsage { name: "query", queued: 1, polls: 9, ran_ns: 5 }],
        shards: 2,
        statements: Statements {
            prepared_run: 3,
            text_run: 1,
            logged_batches: seen(&[2]),
            ..Statements::default()
        },
    }
}

fn node() -> NodeInfo {
    NodeInfo {
        cluster_name: "c".into(),
        listen_address: HERE,
        listen_port: 7000,
        started_at_s: 0,
        settings: vec![("cluster_name".into(), "c".into())],
    }
}

/// A normal member that listens on this machine.
pub(super) fn member(id: u16, tokens: &[i64]) -> Member {
    let mut tokens: Vec<Token> = tokens.iter().copied().map(Token).collect();
    tokens.sort_unstable();
    Member {
        host_id: HostId(u128::from(id)),
        internode: (HERE, 7000 + id).into(),
        native: (HERE, 9042 + id).into(),
        dc: "dc".into(),
        rack: "rack".into(),
        tokens,
        shards: 1,
        ignore_msb: 0,
        state: MemberState::Normal,
        features: 0,
        release: "test".into(),
    }
}

/// Seen by the first of them.
pub(super) fn snapshot(members: Vec<Member>) -> topology::Snapshot {
    let local = members[0].host_id;
    topology::Snapshot::new(local, Members::new(Version::ZERO, members), &[])
}

/// Rows by name of their table, each checked against the table's columns.
fn generated() -> BTreeMap<String, Vec<Row>> {
    let keyspaces = definitions::keyspaces();
    let schema = Schema::new(3, keyspaces.iter().map(|k| (k.name.clone(), k.clone())).collect());
    let (node, live) = (node(), live());
    let snapshot = snapshot(vec![member(1, &[0]), member(2, &[5])]);
    let source = Source { node: &node, snapshot: &snapshot, schema: &schema, live: &live };
    let mut all = BTreeMap::new();
    for table in keyspaces.iter().flat_map(|keyspace| keyspace.tables.values()) {
        let rows = rows(table, &source);
        for row in &rows {
            for (name, value) in &row.values {
                let column = table.column(name);
                let column = column.unwrap_or_else(|| panic!("{} has no {name}", table.qualified_name()));
                let checked = column.ty.validate(value);
                assert!(checked.is_ok(), "{}.{name}: {checked:?}", table.qualified_name());
            }
        }
        partitions(table, &rows).expect("rows fit their table");
        all.insert(table.qualified_name(), rows);
    }
    all
}

#[test]
fn every_row_fits_its_table_and_what_exists_is_shown() {
    let all = generated();
    for (name, rows) in [
        ("system.local", 1),
        ("system.peers", 1),
        ("system.peers_v2", 1),
        ("system.prepared_statements", 1),
        ("system.compaction_history", 1),
        // One table that is spread, two kinds of ranges, one primary range.
        ("system.table_estimates", 2),
        ("system.size_estimates", 1),
        ("system_views.clients", 1),
        ("system_views.settings", 1),
        ("system_views.system_properties", 2),
        ("system_views.caches", 3),
        ("system_views.thread_pools", 1),
        ("system_views.sstable_tasks", 1),
        ("system_views.snapshots", 1),
        ("system_views.disk_usage", 2),
        ("system_views.max_partition_size", 2),
        ("system_views.max_sstable_size", 2),
        ("system_views.max_sstable_duration", 2),
        ("system_views.local_read_latency", 2),
        ("system_views.local_scan_latency", 2),
        ("system_views.local_write_latency", 2),
        ("system_views.rows_per_read", 2),
        ("system_views.tombstones_per_read", 2),
        ("system_views.cql_metrics", 5),
        ("system_views.batch_metrics", 3),
        ("system_views.gossip_info", 2),
        // Nothing here would fill them.
        ("system_views.repairs", 0),
        ("system_views.pending_hints", 0),
        ("system.built_views", 0),
    ] {
        assert_eq!(all[name].len(), rows, "{name}");
    }
    let tables = all["system_virtual_schema.tables"].len();
    let virtuals = all.keys().filter(|name| name.starts_with("system_v")).count();
    assert_eq!(tables, virtuals);
}

#[test]
fn numbers_are_in_their_columns_units() {
    let all = generated();
    let double = |row: &Row, name: &str| f64::from_be_bytes(row.get(name).unwrap().try_into().unwrap());
    let bigint = |row: &Row, name: &str| i64::from_be_bytes(row.get(name).unwrap().try_into().unwrap());
    let latency = &all["system_views.local_read_latency"][0];
    assert_eq!((bigint(latency, "count"), double(latency, "p50th_ms")), (3, 0.258));
    assert_eq!(double(latency, "max_ms"), 1.109);
    assert_eq!(bigint(&all["system_views.disk_usage"][0], "mebibytes"), 2);
    assert_eq!(bigint(&all["system_views.max_sstable_size"][0], "mebibytes"), 1);
    assert_eq!(bigint(&all["system_views.max_sstable_duration"][0], "max_sstable_duration"), 7);
    // The bucket of 2,000,000 bytes ends just above it.
    assert_eq!(bigint(&all["system_views.max_partition_size"][0], "mebibytes"), 3);
    let ratio = all["system_views.cql_metrics"]
        .iter()
        .find(|row| row.get("name") == Some(b"prepared_statements_ratio".as_slice()));
    assert_eq!(double(ratio.unwrap(), "value"), 0.75);
    assert_eq!(double(&all["system_views.sstable_tasks"][0], "completion_ratio"), 0.25);
}

#[test]
fn a_peers_schema_version_is_the_one_it_said_last() {
    let keyspaces = definitions::keyspaces();
    let schema = Schema::new(3, keyspaces.iter().map(|k| (k.name.clone(), k.clone())).collect());
    let [answers, is_down, unheard] = [2, 3, 4].map(HostId);
    let before = topology::Liveness::of([answers, is_down])
        .with_schemas(&topology::Liveness::default(), [(answers, 1), (is_down, 2)]);
    let now = topology::Liveness::of([answers]).with_schemas(&before, [(answers, 9)]);
    let snapshot = snapshot((1..5).map(|id| member(id, &[i64::from(id)])).collect()).with_liveness(now);
    let (node, live) = (node(), live());
    let source = Source { node: &node, snapshot: &snapshot, schema: &schema, live: &live };
    for name in ["peers", "peers_v2"] {
        let system = keyspaces.iter().find(|keyspace| &*keyspace.name == "system").expect("it is there");
        let rows = rows(&system.tables[name], &source);
        let said = |host: HostId| {
            let row = rows.iter().find(|row| row.get("host_id") == Some(&host.0.to_be_bytes()[..]));
            row.and_then(|row| row.get("schema_version")).map(<[u8]>::to_vec)
        };
        let version = |version: u128| Some(version.to_be_bytes().to_vec());
        assert_eq!(said(answers), version(9), "{name}");
        assert_eq!(said(is_down), version(2), "{name}");
        assert_eq!(
            said(unheard),
            version(3),
            "{name}: this node's, as some drivers take a row without one for no node"
        );
    }
}
