//! What the driver knows of the schema, and how it follows what another session changes.

use scylla::client::session::Session;
use scylla::cluster::ClusterState;
use scylla::cluster::metadata::{CollectionType, ColumnKind, ColumnType, NativeType};
use scylla::routing::Token;

use crate::suite::{Failure, Outcome, equal, that, wait_for};
use crate::talk::{REPLICATION, Talk};

/// A table, a type and a keyspace as the driver sees them. It keeps no comments, options and orders of clustering.
pub async fn metadata(talk: &Talk) -> Outcome {
    talk.exec("CREATE TYPE IF NOT EXISTS point (x int, y int)").await?;
    talk.exec(
        "CREATE TABLE described (a int, b text, c int, d timeuuid, s text static, m map<int, frozen<list<text>>>, \
         p frozen<point>, n vector<float, 3>, PRIMARY KEY ((a, b), c, d)) \
         WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'it''s' AND gc_grace_seconds = 99",
    )
    .await?;
    let state = talk.session.get_cluster_state();
    let keyspace = state.get_keyspace(&talk.keyspace).ok_or("no keyspace in the metadata")?;
    equal(
        "NetworkTopologyStrategy { datacenter_repfactors: {\"datacenter1\": 1} }".into(),
        format!("{:?}", keyspace.strategy),
        "strategy",
    )?;
    that(keyspace.durable_writes, || "writes of the keyspace are not durable".into())?;
    let table = keyspace.tables.get("described").ok_or("no table in the metadata")?;
    equal(&["a".to_owned(), "b".into()][..], &table.partition_key[..], "partition key")?;
    equal(&["c".to_owned(), "d".into()][..], &table.clustering_key[..], "clustering key")?;
    equal(8, table.columns.len(), "columns")?;
    equal(ColumnKind::Static, table.columns["s"].kind.clone(), "kind of s")?;
    equal(ColumnKind::Regular, table.columns["m"].kind.clone(), "kind of m")?;
    let text = || Box::new(ColumnType::Native(NativeType::Text));
    let list = ColumnType::Collection { frozen: true, typ: CollectionType::List(text()) };
    let int = Box::new(ColumnType::Native(NativeType::Int));
    let map = ColumnType::Collection { frozen: false, typ: CollectionType::Map(int, Box::new(list)) };
    equal(map, table.columns["m"].typ.clone(), "type of m")?;
    let float = Box::new(ColumnType::Native(NativeType::Float));
    equal(ColumnType::Vector { typ: float, dimensions: 3 }, table.columns["n"].typ.clone(), "type of n")?;
    let point = keyspace.user_defined_types.get("point").ok_or("no type in the metadata")?;
    let of = ColumnType::UserDefinedType { frozen: true, definition: point.clone() };
    equal(of, table.columns["p"].typ.clone(), "type of p")?;
    equal(vec!["x", "y"], point.field_types.iter().map(|(name, _)| &**name).collect(), "fields")?;
    replicas(talk, &state).await
}

/// The driver's token of a key is the server's, and a token has one replica.
async fn replicas(talk: &Talk, state: &ClusterState) -> Outcome {
    talk.exec("INSERT INTO described (a, b, c, d) VALUES (7, 'é', 1, 00000000-0000-1000-8080-808080808080)")
        .await?;
    let (theirs,) = talk.row::<(i64,)>("SELECT token(a, b) FROM described WHERE a = 7 AND b = 'é'").await?;
    let ours = state.compute_token(&talk.keyspace, "described", &(7, "é"))?;
    equal(theirs, ours.value(), "token")?;
    for token in [ours, Token::new(i64::MIN + 1), Token::new(0), Token::new(i64::MAX)] {
        let replicas = state.get_token_endpoints(&talk.keyspace, "described", token);
        equal(1, replicas.len(), "replicas of a token")?;
    }
    equal(1, state.get_nodes_info().len(), "nodes")?;
    Ok(format!("token {theirs}; this driver keeps no options of tables"))
}

/// The driver offers no listeners of its own. Its knowledge must follow what another session changes, told by events:
/// `listening` reads again what they named, and nothing else.
pub async fn events(listening: &Session, changing: &Talk, name: &str) -> Outcome {
    let table = |state: &ClusterState| state.get_keyspace(name)?.tables.get("told").cloned();
    let of_type = |state: &ClusterState| state.get_keyspace(name)?.user_defined_types.get("t").cloned();
    type Step<'a> = (String, &'a dyn Fn(&ClusterState) -> bool);
    let steps: [Step<'_>; 9] = [
        (format!("CREATE KEYSPACE {name} WITH {REPLICATION}"), &|state| state.get_keyspace(name).is_some()),
        (format!("ALTER KEYSPACE {name} WITH {REPLICATION} AND durable_writes = false"), &|state| {
            state.get_keyspace(name).is_some_and(|keyspace| !keyspace.durable_writes)
        }),
        (format!("CREATE TYPE {name}.t (x int)"), &|state| of_type(state).is_some()),
        (format!("CREATE TABLE {name}.told (k int PRIMARY KEY)"), &|state| table(state).is_some()),
        (format!("ALTER TABLE {name}.told ADD v int"), &|state| {
            table(state).is_some_and(|table| table.columns.contains_key("v"))
        }),
        (format!("ALTER TABLE {name}.told DROP v"), &|state| {
            table(state).is_some_and(|table| !table.columns.contains_key("v"))
        }),
        (format!("DROP TABLE {name}.told"), &|state| table(state).is_none()),
        (format!("DROP TYPE {name}.t"), &|state| of_type(state).is_none()),
        (format!("DROP KEYSPACE {name}"), &|state| state.get_keyspace(name).is_none()),
    ];
    let count = steps.len();
    for (text, holds) in steps {
        changing.exec(&text).await?;
        wait_for(&format!("the listening session to see {text}"), async || -> Result<_, Failure> {
            Ok(holds(&listening.get_cluster_state()).then_some(()))
        })
        .await?;
    }
    equal(1, listening.get_cluster_state().get_nodes_info().len(), "nodes")?;
    Ok(format!("{count} changes"))
}
