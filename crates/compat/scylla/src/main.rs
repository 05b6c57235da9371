//! The Rust `scylla` driver against a running node: schema, every scalar type and the collections there and back,
//! many rows by pages, batches, mistakes with their codes, and requests that land on the shard that owns the row.
//!
//! Reads NODE_ADDRESS, NODE_COMPRESSION ("none" or "lz4"), NODE_SHARDS (0: the server has no shards) and SUITE_ROWS.
//! Prints one line per check; a failed one ends the program.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use scylla::client::Compression;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::routing::Token;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, Row,
};

type Checked = Result<(), Box<dyn Error>>;

const KEYSPACE: &str = "rust_driver";

#[tokio::main]
async fn main() -> Checked {
    let address = std::env::var("NODE_ADDRESS")?;
    let shards: u16 = std::env::var("NODE_SHARDS")?.parse()?;
    let rows: i64 = std::env::var("SUITE_ROWS")?.parse()?;
    let compression = match std::env::var("NODE_COMPRESSION")?.as_str() {
        "lz4" => Some(Compression::Lz4),
        _ => None,
    };
    let profile = ExecutionProfile::builder().consistency(Consistency::One).build();
    let session = SessionBuilder::new()
        .known_node(&address)
        .compression(compression)
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?;
    tables(&session).await?;
    scalars(&session).await?;
    collections(&session).await?;
    mistakes(&session).await?;
    batches(&session).await?;
    let aware = paging(&session, rows, shards).await?;
    session.query_unpaged(format!("DROP KEYSPACE {KEYSPACE}"), &[]).await?;
    println!("{rows} rows there and back; {aware}");
    Ok(())
}

async fn tables(session: &Session) -> Checked {
    session.query_unpaged(format!("DROP KEYSPACE IF EXISTS {KEYSPACE}"), &[]).await?;
    session
        .query_unpaged(
            format!(
                "CREATE KEYSPACE {KEYSPACE} WITH replication = \
                 {{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}}"
            ),
            &[],
        )
        .await?;
    session.use_keyspace(KEYSPACE, false).await?;
    for text in [
        "CREATE TABLE scalars (k int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e date, f decimal, g double, \
         h duration, i float, j inet, l smallint, m text, n time, o timestamp, p timeuuid, q tinyint, r uuid, s varint)",
        "CREATE TABLE collections (k int PRIMARY KEY, l list<text>, s set<int>, m map<text, bigint>, \
         n frozen<map<int, frozen<list<text>>>>)",
        "CREATE TABLE pages (k bigint, c int, v text, PRIMARY KEY (k, c))",
    ] {
        session.query_unpaged(text, &[]).await?;
    }
    session.await_schema_agreement().await?;
    session.refresh_metadata().await?;
    let state = session.get_cluster_state();
    let table = &state.get_keyspace(KEYSPACE).ok_or("no keyspace in the metadata")?.tables["pages"];
    assert_eq!(
        (&table.partition_key[..], &table.clustering_key[..]),
        (&["k".to_owned()][..], &["c".to_owned()][..])
    );
    println!("schema and metadata: ok");
    Ok(())
}

async fn scalars(session: &Session) -> Checked {
    let insert = session
        .prepare(
            "INSERT INTO scalars (k, a, b, c, d, e, f, g, h, i, j, l, m, n, o, p, q, r, s) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .await?;
    let select = session
        .prepare("SELECT k, a, b, c, d, e, f, g, h, i, j, l, m, n, o, p, q, r, s FROM scalars WHERE k = ?")
        .await?;
    let uuid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301".parse()?;
    let timeuuid: CqlTimeuuid = "c2cb1b30-8d1a-11ee-b9d1-0242ac120002".parse()?;
    let low = [
        CqlValue::Int(i32::MIN),
        CqlValue::Ascii(String::new()),
        CqlValue::BigInt(i64::MIN),
        CqlValue::Blob(Vec::new()),
        CqlValue::Boolean(false),
        CqlValue::Date(CqlDate(0)),
        CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(vec![0x80], -300)),
        CqlValue::Double(f64::NEG_INFINITY),
        CqlValue::Duration(CqlDuration { months: -1, days: -2, nanoseconds: -3 }),
        CqlValue::Float(f32::MIN),
        CqlValue::Inet(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        CqlValue::SmallInt(i16::MIN),
        CqlValue::Text(String::new()),
        CqlValue::Time(CqlTime(0)),
        CqlValue::Timestamp(CqlTimestamp(i64::MIN)),
        CqlValue::Timeuuid(timeuuid),
        CqlValue::TinyInt(i8::MIN),
        CqlValue::Uuid(uuid),
        CqlValue::Varint(CqlVarint::from_signed_bytes_be(vec![0x80; 200])),
    ];
    let high = [
        CqlValue::Int(i32::MAX),
        CqlValue::Ascii("~".repeat(1000)),
        CqlValue::BigInt(i64::MAX),
        CqlValue::Blob(vec![0xff; 100_000]),
        CqlValue::Boolean(true),
        CqlValue::Date(CqlDate(u32::MAX)),
        CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(vec![0x7f, 0xff], 300)),
        CqlValue::Double(f64::MAX),
        CqlValue::Duration(CqlDuration { months: i32::MAX, days: i32::MAX, nanoseconds: i64::MAX }),
        CqlValue::Float(f32::INFINITY),
        CqlValue::Inet(IpAddr::V6(Ipv6Addr::from(u128::MAX))),
        CqlValue::SmallInt(i16::MAX),
        CqlValue::Text("日本語 €\u{1f30a}".repeat(50)),
        CqlValue::Time(CqlTime(86_399_999_999_999)),
        CqlValue::Timestamp(CqlTimestamp(i64::MAX)),
        CqlValue::Timeuuid(timeuuid),
        CqlValue::TinyInt(i8::MAX),
        CqlValue::Uuid(uuid),
        CqlValue::Varint(CqlVarint::from_signed_bytes_be(vec![0x7f; 200])),
    ];
    for values in [&low, &high] {
        session.execute_unpaged(&insert, &values[..]).await?;
        let read =
            session.execute_unpaged(&select, (&values[0],)).await?.into_rows_result()?.single_row::<Row>()?;
        for (wrote, read) in values.iter().zip(&read.columns) {
            assert_eq!(Some(wrote), read.as_ref());
        }
    }
    let mut nulls: Vec<Option<CqlValue>> = vec![None; low.len()];
    nulls[0] = Some(CqlValue::Int(0));
    session.execute_unpaged(&insert, &nulls).await?;
    let read = session.execute_unpaged(&select, (0,)).await?.into_rows_result()?.single_row::<Row>()?;
    assert_eq!(read.columns, nulls);
    println!("scalars at both ends and null: ok");
    Ok(())
}

async fn collections(session: &Session) -> Checked {
    type Nested = BTreeMap<i32, Vec<String>>;
    let insert = session.prepare("INSERT INTO collections (k, l, s, m, n) VALUES (?, ?, ?, ?, ?)").await?;
    let list = vec!["b".to_owned(), "a".to_owned(), "b".to_owned()];
    let set = vec![-5, 0, 7];
    let map: HashMap<String, i64> = (0..50).map(|i| (format!("key {i}"), i)).collect();
    let nested: Nested = [(1, vec![]), (2, vec!["x".to_owned()])].into();
    session.execute_unpaged(&insert, (1, &list, &set, &map, &nested)).await?;
    session.query_unpaged("UPDATE collections SET l = l + ['z'], s = s - {0} WHERE k = 1", &[]).await?;
    let read = session
        .query_unpaged("SELECT l, s, m, n FROM collections WHERE k = 1", &[])
        .await?
        .into_rows_result()?
        .single_row::<(Vec<String>, Vec<i32>, HashMap<String, i64>, Nested)>()?;
    assert_eq!(read, (vec!["b".into(), "a".into(), "b".into(), "z".into()], vec![-5, 7], map, nested));
    println!("collections: ok");
    Ok(())
}

async fn mistakes(session: &Session) -> Checked {
    for (text, code) in [
        ("SELEC 1", 0x2000),
        ("SELECT * FROM nowhere", 0x2200),
        ("SELECT * FROM nospace.pages", 0x2200),
        ("SELECT nothing FROM pages", 0x2200),
        ("INSERT INTO pages (k, c, v) VALUES (1, 'text', 'v')", 0x2200),
        ("INSERT INTO pages (k, v) VALUES (1, 'v')", 0x2200),
        ("INSERT INTO pages (k, c) VALUES (null, 1)", 0x2200),
        ("SELECT * FROM pages WHERE v = 'v'", 0x2200),
        ("CREATE TABLE pages (k int PRIMARY KEY)", 0x2400),
        ("CREATE KEYSPACE bad WITH replication = {'class': 'NoStrategy'}", 0x2300),
        ("DROP TABLE system.local", 0x2100),
    ] {
        match session.query_unpaged(text, &[]).await {
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, message))) => {
                assert_eq!(error.code(&Default::default()), code, "{text}: {message}");
            }
            other => return Err(format!("{text}: {other:?}").into()),
        }
    }
    match session.prepare("SELECT * FROM nowhere WHERE k = ?").await {
        Err(PrepareError::AllAttemptsFailed { first_attempt }) => {
            let RequestAttemptError::DbError(DbError::Invalid, _) = first_attempt else {
                return Err(format!("{first_attempt:?}").into());
            };
        }
        other => return Err(format!("{other:?}").into()),
    }
    let mut statement = Statement::new("INSERT INTO pages (k, c) VALUES (1, 1)");
    statement.set_consistency(Consistency::Two);
    match session.query_unpaged(statement, &[]).await {
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::Unavailable { required: 2, alive: 1, consistency: Consistency::Two },
            _,
        ))) => {}
        other => return Err(format!("{other:?}").into()),
    }
    println!("13 mistakes with their codes: ok");
    Ok(())
}

async fn batches(session: &Session) -> Checked {
    let insert = session.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)").await?;
    for kind in [BatchType::Logged, BatchType::Unlogged] {
        let mut batch = Batch::new(kind);
        let mut values = Vec::new();
        for c in 0..50 {
            batch.append_statement(insert.clone());
            values.push((-1i64, c, format!("batch {c}")));
        }
        session.batch(&batch, values).await?;
        let count = session
            .query_unpaged("SELECT count(*) FROM pages WHERE k = -1", &[])
            .await?
            .into_rows_result()?
            .single_row::<(i64,)>()?;
        assert_eq!(count, (50,));
        session.query_unpaged("DELETE FROM pages WHERE k = -1", &[]).await?;
    }
    println!("batches: ok");
    Ok(())
}

/// Waits until requests travel to every shard: the driver opens its connections behind the session's back, and a few
/// thousand writes can be over before the second one stands.
async fn connected_to_all(session: &Session, shards: u16) -> Checked {
    let select = session.prepare("SELECT v FROM pages WHERE k = ? AND c = 0").await?;
    let mut reached = BTreeSet::new();
    for attempt in 0i64.. {
        let result = session.execute_unpaged(&select, (attempt,)).await?;
        reached.extend(result.request_coordinator().shard());
        if reached.len() >= usize::from(shards) {
            return Ok(());
        }
        if attempt % 100 == 99 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if attempt > 50_000 {
            break;
        }
    }
    Err(format!("requests reach only shards {reached:?} of {shards}").into())
}

/// Writes rows concurrently, reads them by pages, and looks where the driver sent the requests.
async fn paging(session: &Session, rows: i64, shards: u16) -> Result<String, Box<dyn Error>> {
    const WIDTH: i64 = 50;
    let insert = session.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)").await?;
    connected_to_all(session, shards).await?;
    let results = futures::stream::iter(0..rows)
        .map(|i| {
            let insert = &insert;
            async move {
                session.execute_unpaged(insert, (i / WIDTH, (i % WIDTH) as i32, format!("value {i}"))).await
            }
        })
        .buffer_unordered(256);
    let mut on_owner = 0u64;
    let mut per_shard: BTreeMap<u32, u64> = BTreeMap::new();
    let mut results = std::pin::pin!(results);
    while let Some(result) = results.next().await {
        if let Some(shard) = result?.request_coordinator().shard() {
            *per_shard.entry(shard).or_default() += 1;
        }
    }
    let mut scan = session.prepare("SELECT k, c, v FROM pages").await?;
    scan.set_page_size(997);
    let mut stream = session.execute_iter(scan, &[]).await?.rows_stream::<(i64, i32, String)>()?;
    let (mut seen, mut last) = (0i64, None);
    while let Some((k, c, v)) = stream.try_next().await? {
        assert_eq!(v, format!("value {}", k * WIDTH + i64::from(c)));
        if let Some((last_k, last_c)) = last {
            assert!(last_k != k || last_c < c, "rows of partition {k} out of order");
        }
        last = Some((k, c));
        seen += 1;
    }
    assert_eq!(seen, rows);
    if shards == 0 {
        return Ok("no shards announced".into());
    }
    let select = session.prepare("SELECT v FROM pages WHERE k = ? AND c = 0").await?;
    let sample = (rows / WIDTH).min(200);
    for k in 0..sample {
        let token: Token = select.calculate_token(&(k,))?.ok_or("the statement has no token")?;
        let result = session.execute_unpaged(&select, (k,)).await?;
        let node = result.request_coordinator().node().clone();
        let sharder = node.sharder().ok_or("the node announced no shards")?;
        assert_eq!(sharder.nr_shards.get(), shards);
        on_owner += u64::from(result.request_coordinator().shard() == Some(sharder.shard_of(token)));
    }
    assert_eq!(on_owner, sample as u64, "requests went to a shard that does not own the row");
    assert_eq!(per_shard.len(), usize::from(shards), "writes reached only shards {per_shard:?}");
    Ok(format!("{on_owner} of {sample} requests on the owning one of {shards} shards"))
}
