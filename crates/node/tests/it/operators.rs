//! What operators ask over REST, while clients are at work, tables go and disks are full.

use crate::harness::*;
use protocol::event::{Event, EventType};
use runtime::net::TcpStream;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use types::Value as Cql;

/// A node whose REST interface the client machine can reach.
pub fn open_stage(seed: u64, shards: u16) -> Stage {
    let mut stage = Stage::new(seed);
    stage.config.api_address = "10.0.0.1".parse().unwrap();
    stage.boot(shards);
    stage
}

/// Status and JSON of one request; null for no body.
async fn send(head: String) -> (u16, Value) {
    let stream = TcpStream::connect("10.0.0.1:10000".parse().unwrap(), None).await.unwrap();
    stream.send_all(head.into_bytes()).await.unwrap();
    let mut text = Vec::new();
    while let Ok(Ok(bytes)) = runtime::timeout(Duration::from_secs(60), stream.recv()).await {
        if bytes.is_empty() {
            break;
        }
        text.extend_from_slice(&bytes);
    }
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

pub async fn ask(method: &str, target: &str) -> (u16, Value) {
    send(format!("{method} {target} HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")).await
}

pub async fn get(target: &str) -> Value {
    let (status, value) = ask("GET", target).await;
    assert_eq!(status, 200, "{target}: {value}");
    value
}

pub async fn post(target: &str) -> Value {
    let (status, value) = ask("POST", target).await;
    assert_eq!(status, 200, "{target}: {value}");
    value
}

async fn table(name: &str) -> Value {
    get(&format!("/messina/tables?keyspace=ks&table={name}")).await[0].take()
}

async fn tags() -> Vec<String> {
    let snapshots = get("/storage_service/snapshots").await;
    let key = |pair: &Value| pair["key"].as_str().unwrap().to_string();
    snapshots.as_array().unwrap().iter().map(key).collect()
}

#[test]
fn numbers_follow_what_clients_do() {
    let mut stage = open_stage(61, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for k in 0..40 {
            run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'v{k}')")).await;
            rows(&connection, &format!("SELECT v FROM ks.kv WHERE k = {k}")).await;
        }
        rows(&connection, "SELECT * FROM ks.kv").await;
        let before = table("kv").await;
        assert_eq!((&before["write"]["count"], &before["read"]["count"]), (&40.into(), &40.into()));
        assert_eq!((&before["memtable_cells"], &before["partitions_estimate"]), (&40.into(), &40.into()));
        post("/storage_service/keyspace_flush/ks?cf=kv").await;
        let after = table("kv").await;
        assert_eq!((&after["sstable_count"], &after["memtable_cells"]), (&2.into(), &0.into()));
        assert_eq!(after["partition_sizes"]["count"], 40);
        let proxy = get("/messina/proxy").await;
        assert!(
            40 <= proxy["read"]["count"].as_u64().unwrap() && 1 <= proxy["range"]["count"].as_u64().unwrap()
        );
        assert!(proxy["write"]["count"].as_u64().unwrap() >= 40);
        assert_eq!(get("/column_family/metrics/live_ss_table_count/ks:kv").await, 2);
        post("/storage_service/keyspace_compaction/ks").await;
        assert_eq!(get("/compaction_manager/compaction_history").await.as_array().unwrap().len(), 2);
        let paths = get("/column_family/sstables/by_key/ks:kv?key=7").await;
        assert!(paths[0].as_str().unwrap().ends_with("-bti-Data.db"), "{paths}");
        assert_eq!(get("/storage_service/natural_endpoints/ks?cf=kv&key=7").await[0], "10.0.0.1");
        assert_eq!(get("/storage_service/ownership/ks").await[0]["value"], 1.0);
    });
}

#[test]
fn every_kind_of_compaction_can_be_asked_for() {
    let mut stage = open_stage(64, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for round in 0..2 {
            for k in 0..40 {
                run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, '{round}')")).await;
            }
            post("/storage_service/keyspace_flush/ks?cf=kv").await;
        }
        let count = async || get("/column_family/metrics/live_ss_table_count/ks:kv").await.as_u64().unwrap();
        assert_eq!(count().await, 4);
        for asked in [
            "/storage_service/keyspace_cleanup/ks",
            "/storage_service/keyspace_scrub/ks?cf=kv",
            "/messina/garbage_collect/ks?granularity=CELL",
            "/storage_service/keyspace_upgrade_sstables/ks?exclude_current_version=false",
            "/storage_service/keyspace_compaction/ks?cf=kv&split_output=true",
        ] {
            post(asked).await;
            assert_eq!(rows(&connection, "SELECT * FROM ks.kv").await.rows.len(), 40, "{asked}");
        }
        assert_eq!(count().await, 2);
        let tags = get("/storage_service/snapshots").await.to_string();
        assert!(tags.contains("pre-scrub-"), "{tags}");
        let paths = get("/column_family/sstables/by_key/ks:kv?key=7").await;
        post(&format!("/messina/compact_files?files={}", paths[0].as_str().unwrap())).await;
        let rewritten = get("/column_family/sstables/by_key/ks:kv?key=7").await;
        assert_ne!(rewritten, paths, "the one that was named is another now");
        assert_eq!(get("/storage_service/compaction_throughput").await, 64.0);
        post("/storage_service/compaction_throughput?value=7").await;
        assert_eq!(get("/storage_service/compaction_throughput").await, 7.0);
        assert_eq!(get("/messina/compaction").await["concurrent_compactors"], 4);
        post("/compaction_manager/stop_compaction?type=compaction").await;
        let history = get("/compaction_manager/compaction_history").await.to_string();
        for kind in ["Scrub", "Remove deleted data", "Upgrade sstables", "Major compaction"] {
            assert!(history.contains(kind), "{history}");
        }
    });
}

#[test]
fn sstables_are_loaded_from_folders() {
    let mut stage = open_stage(65, 3);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for (name, column) in [("other", "v text"), ("numbers", "v int")] {
            run(&connection, &format!("CREATE TABLE ks.{name} (k int PRIMARY KEY, {column})")).await;
        }
        for k in 0..40 {
            run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'v{k}')")).await;
        }
        post("/storage_service/keyspace_flush/ks?cf=kv").await;
        let paths = get("/column_family/sstables/by_key/ks:kv?key=7").await;
        let from = std::path::PathBuf::from(paths[0].as_str().unwrap());
        let from = from.parent().unwrap().to_str().unwrap().to_owned();
        let count =
            async |table: &str| rows(&connection, &format!("SELECT * FROM ks.{table}")).await.rows.len();
        let load = |table: &str, more: &str| {
            format!("/messina/import/ks?cf={table}&dir={from}&copy_data=true{more}")
        };
        let loaded = post(&load("other", "&verify=full")).await;
        assert_eq!((&loaded["sstables"], &loaded["partitions"]), (&3.into(), &40.into()));
        assert_eq!((count("other").await, count("kv").await, count("numbers").await), (40, 40, 0));
        for (asked, status) in [
            (load("numbers", ""), 400),
            (load("kv", ""), 400),
            (load("nope", ""), 404),
            (load("other", "&verify=twice"), 400),
            ("/messina/import/ks?cf=other&dir=relative".to_owned(), 400),
            ("/messina/import/ks?cf=other&dir=/nowhere".to_owned(), 400),
            ("/messina/import/system?cf=local&dir=/nowhere".to_owned(), 400),
            ("/storage_service/sstables/ks?cf=numbers".to_owned(), 400),
            ("/storage_service/sstables/ks".to_owned(), 400),
        ] {
            assert_eq!(ask("POST", &asked).await.0, status, "{asked}");
        }
        assert_eq!(count("numbers").await, 0, "what was refused left nothing");
        // A snapshot's folder is as good as any, and keeps its files.
        run(&connection, "TRUNCATE ks.other").await;
        post("/storage_service/snapshots?tag=monday&kn=ks&cf=kv").await;
        let asked = format!("/messina/import/ks?cf=other&dir={from}/snapshots/monday&copy_data=true");
        assert_eq!(post(&asked).await["sstables"], 3);
        assert_eq!((count("other").await, post(&asked).await["sstables"].as_u64()), (40, Some(3)));
    });
}

#[test]
fn refresh_loads_what_lies_in_the_upload_folder() {
    let mut stage = open_stage(67, 3);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "CREATE TABLE ks.other (k int PRIMARY KEY, v text)").await;
        for k in 0..40 {
            run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'v{k}')")).await;
        }
        run(&connection, "INSERT INTO ks.other (k, v) VALUES (100, 'own')").await;
        post("/storage_service/keyspace_flush/ks").await;
    });
    let files = |stage: &Stage, part: &str| -> Vec<String> {
        let paths = stage.world.files(stage.node).into_iter().map(|(path, _)| path);
        paths.filter(|path| path.contains(part)).collect()
    };
    let from = files(&stage, "/ks/kv-");
    let own = files(&stage, "/ks/other-");
    let folder = own[0].rsplit_once('/').unwrap().0.to_owned();
    let upload = format!("{folder}/upload");
    let (sources, to) = (from.clone(), upload.clone());
    let copied = stage.world.spawn(stage.node, async move {
        runtime::file::create_dir_all(&to).await.unwrap();
        for path in sources {
            let name = path.rsplit_once('/').unwrap().1;
            let bytes = runtime::file::read(&path).await.unwrap();
            runtime::file::write_new_synced(format!("{to}/{name}"), &bytes).await.unwrap();
        }
    });
    assert!(stage.world.run_until(|_| copied.done(), Duration::from_secs(60)));
    let refreshed = stage.play(async { post("/storage_service/sstables/ks?cf=other").await });
    assert_eq!((&refreshed["sstables"], &refreshed["partitions"]), (&3.into(), &40.into()));
    assert_eq!(files(&stage, &upload), Vec::<String>::new(), "they are moved");
    assert_eq!(files(&stage, "/ks/kv-"), from);
    assert!(own.iter().all(|path| files(&stage, &folder).contains(path)));
    let again = stage.play(async { post("/storage_service/sstables/ks?cf=other").await });
    assert_eq!(again["sstables"], 0, "the folder is empty");
    stage.stop();
    stage.boot(2);
    stage.play(async {
        let connection = connect().await;
        let found = rows(&connection, "SELECT * FROM ks.other").await;
        assert_eq!(found.rows.len(), 41);
        let one = rows(&connection, "SELECT v FROM ks.other WHERE k = 7").await;
        assert_eq!(one.value(0, 0).unwrap(), Cql::Text("v7".into()));
    });
}

/// Runs an offline tool on the machine of a node that is stopped; what it printed.
fn offline_scrub(stage: &mut Stage, file: &str) -> String {
    let printed: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
    let (told, file) = (printed.clone(), std::path::PathBuf::from(file));
    let main: runtime::Main = Arc::new(move || {
        let (told, file) = (told.clone(), file.clone());
        Box::pin(async move {
            let mut bytes = Vec::new();
            let place = sstabletools::Place::existing(&file).await.unwrap();
            let sound =
                sstabletools::scrub(&[place], &mut sstabletools::Output::new(&mut bytes)).await.unwrap();
            assert!(!sound, "something was lost");
            *told.lock().unwrap() = Some(bytes);
            0
        })
    });
    stage.world.boot(stage.node, 1, main);
    let node = stage.node;
    assert!(stage.world.run_until(|world| !world.alive(node), Duration::from_secs(120)));
    String::from_utf8(printed.lock().unwrap().take().expect("it ended well")).unwrap()
}

#[test]
fn a_node_goes_on_with_what_an_offline_scrub_left() {
    let mut stage = open_stage(66, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for k in 0..400 {
            run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, '{k}{}')", "x".repeat(400)))
                .await;
        }
        post("/storage_service/keyspace_flush/ks?cf=kv").await;
    });
    stage.stop();
    let is_data = |path: &str| path.contains("/ks/kv-") && path.ends_with("-Data.db");
    let file = stage.world.files(stage.node).into_iter().find(|(path, _)| is_data(path)).unwrap();
    // In the middle of the data: several chunks, of which one is lost.
    assert!(stage.world.flip_bit(stage.node, &file.0, file.1 / 2, 3));
    let told = offline_scrub(&mut stage, &file.0);
    // Keys of tries stand in the data alone: some are lost with it.
    assert!(told.contains("lost: a partition of an unknown key"), "{told}");
    let left: Vec<usize> = [1, 3, 2]
        .into_iter()
        .map(|shards| {
            stage.boot(shards);
            let left = stage.play(async {
                let connection = connect().await;
                let left = rows(&connection, "SELECT * FROM ks.kv").await.rows.len();
                for k in 0..400 {
                    rows(&connection, &format!("SELECT v FROM ks.kv WHERE k = {k}")).await;
                }
                run(&connection, "INSERT INTO ks.kv (k, v) VALUES (1000, 'new')").await;
                post("/storage_service/keyspace_compaction/ks").await;
                left
            });
            stage.stop();
            left
        })
        .collect();
    assert!(left[0] > 200 && left[0] < 400, "{left:?}");
    assert_eq!(left[1..], [left[0] + 1, left[0] + 1]);
}

#[test]
fn mistakes_are_told_and_change_nothing() {
    let mut stage = open_stage(62, 1);
    stage.play(async {
        make_kv(&connect().await).await;
        let long = "x".repeat(300);
        let cases = [
            ("GET", "/nothing".to_string(), 404),
            ("PUT", "/storage_service/flush".into(), 405),
            ("GET", "/%ff".into(), 400),
            ("POST", "/storage_service/keyspace_flush/none".into(), 404),
            ("POST", "/storage_service/keyspace_flush/ks?cf=kv,none".into(), 404),
            ("GET", "/column_family/metrics/live_ss_table_count/kskv".into(), 400),
            ("GET", "/column_family/metrics/none/ks:kv".into(), 404),
            ("GET", "/column_family/sstables/by_key/ks:kv?key=seven".into(), 400),
            ("POST", "/storage_service/snapshots?tag=..%2Fescape".into(), 400),
            ("POST", "/storage_service/snapshots?tag=.hidden".into(), 400),
            ("POST", format!("/storage_service/snapshots?tag={long}"), 400),
            ("POST", "/storage_service/snapshots?tag=a&ttl=5x".into(), 400),
            ("POST", "/storage_service/snapshots?tag=a&kn=none".into(), 404),
            ("DELETE", "/storage_service/snapshots?tag=..".into(), 400),
            ("POST", "/storage_service/keyspace_cleanup/none".into(), 404),
            ("POST", "/storage_service/keyspace_compaction/ks?start_token=x".into(), 400),
            ("POST", "/messina/garbage_collect/ks?granularity=TABLE".into(), 400),
            ("POST", "/storage_service/compaction_throughput?value=-1".into(), 400),
            ("POST", "/compaction_manager/stop_compaction?type=NAPPING".into(), 400),
            ("POST", "/compaction_manager/stop_compaction?id=1".into(), 400),
            ("POST", "/system/logger/storage?level=loud".into(), 400),
            ("POST", "/storage_service/decommission".into(), 400),
            ("POST", "/storage_service/join_ring".into(), 400),
            ("POST", "/storage_service/move?new_token=x".into(), 400),
            ("POST", "/storage_service/rebuild?source_dc=none".into(), 400),
            ("POST", "/storage_service/rebuild".into(), 501),
            ("POST", "/storage_service/remove_node?host_id=1".into(), 400),
            ("POST", "/storage_service/remove_node?host_id=00000000-0000-0000-0000-000000000001".into(), 404),
            ("POST", "/gossiper/assassinate/nobody".into(), 400),
            ("POST", "/gossiper/assassinate/9.9.9.9".into(), 404),
        ];
        for (method, target, expected) in cases {
            let (status, value) = ask(method, &target).await;
            assert_eq!(status, expected, "{method} {target}: {value}");
            assert_eq!(value["code"], expected);
            assert!(value["message"].as_str().is_some_and(|text| !text.is_empty()));
        }
        let page = "POST /storage_service/drain HTTP/1.1\r\nOrigin: http://evil\r\nConnection: close\r\n\r\n";
        assert_eq!(send(page.into()).await.0, 403);
        assert!(tags().await.is_empty());
        assert_eq!(get("/storage_service/operation_mode").await, "NORMAL");
    });
}

#[test]
fn snapshots_are_made_under_load_and_while_tables_go() {
    let mut stage = open_stage(63, 3);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "CREATE TABLE ks.gone (k int PRIMARY KEY, v text)").await;
        let writer = runtime::spawn(runtime::Group::MAIN, async {
            let connection = connect().await;
            for k in 0..300 {
                run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'v')")).await;
            }
        });
        for k in 0..20 {
            run(&connection, &format!("INSERT INTO ks.gone (k, v) VALUES ({k}, 'v')")).await;
        }
        let dropper = runtime::spawn(runtime::Group::MAIN, async {
            runtime::sleep(Duration::from_millis(2)).await;
            run(&connect().await, "DROP TABLE ks.gone").await;
        });
        for round in 0..10 {
            assert_eq!(
                post(&format!("/storage_service/snapshots?tag=s{round}&kn=ks")).await,
                format!("s{round}")
            );
        }
        dropper.await;
        writer.await;
        let (status, value) = ask("POST", "/storage_service/snapshots?tag=s1&kn=ks").await;
        assert_eq!((status, value["message"].as_str().unwrap()), (400, "Snapshot s1 already exists."));
        let tags = tags().await;
        assert_eq!(tags.iter().filter(|tag| tag.starts_with('s')).count(), 10, "{tags:?}");
        assert_eq!(tags.iter().filter(|tag| tag.starts_with("dropped-")).count(), 1, "{tags:?}");
        assert_eq!(ask("DELETE", "/storage_service/snapshots?tag=s3&kn=ks").await.0, 200);
        assert_eq!(ask("DELETE", "/storage_service/snapshots").await.0, 200);
        assert!(self::tags().await.is_empty());
        let count = rows(&connection, "SELECT count(*) FROM ks.kv").await;
        assert_eq!(count.value(0, 0).unwrap(), Cql::Bigint(300));
    });
}

#[test]
fn what_is_dropped_or_truncated_is_kept_where_that_is_asked_for() {
    for kept in [true, false] {
        let mut stage = Stage::new(64);
        stage.config.api_address = "10.0.0.1".parse().unwrap();
        stage.config.auto_snapshot = kept;
        stage.boot(2);
        let tags = stage.play(async {
            let connection = connect().await;
            make_kv(&connection).await;
            run(&connection, "CREATE TABLE ks.empty (k int PRIMARY KEY)").await;
            run(&connection, "CREATE TABLE ks.none (k int PRIMARY KEY) WITH allow_auto_snapshot = false")
                .await;
            run(&connection, "INSERT INTO ks.none (k) VALUES (1)").await;
            // The longest name there is.
            let long = "x".repeat(222);
            run(&connection, &format!("CREATE TABLE ks.{long} (k int PRIMARY KEY)")).await;
            run(&connection, &format!("INSERT INTO ks.{long} (k) VALUES (1)")).await;
            run(&connection, &format!("DROP TABLE ks.{long}")).await;
            run(&connection, "INSERT INTO ks.kv (k, v) VALUES (1, 'v')").await;
            run(&connection, "TRUNCATE ks.kv").await;
            assert_eq!(rows(&connection, "SELECT * FROM ks.kv").await.rows.len(), 0);
            run(&connection, "INSERT INTO ks.kv (k, v) VALUES (2, 'v')").await;
            run(&connection, "DROP KEYSPACE ks").await;
            tags().await
        });
        let kinds: Vec<&str> = tags.iter().map(|tag| tag.split('-').next().unwrap()).collect();
        assert_eq!(kinds, if kept { vec!["dropped", "dropped", "truncated"] } else { vec![] }, "{tags:?}");
    }
}

#[test]
fn what_was_kept_goes_when_its_time_comes() {
    let mut stage = Stage::new(64);
    stage.config.api_address = "10.0.0.1".parse().unwrap();
    stage.config.auto_snapshot_ttl_ms = Some(180_000);
    stage.boot(2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "INSERT INTO ks.kv (k, v) VALUES (1, 'v')").await;
    });
    // The node has looked, and found no snapshot that goes.
    stage.world.run_for(Duration::from_secs(150));
    let kept = stage.play(async {
        let connection = connect().await;
        run(&connection, "TRUNCATE ks.kv").await;
        run(&connection, "INSERT INTO ks.kv (k, v) VALUES (2, 'v')").await;
        run(&connection, "DROP TABLE ks.kv").await;
        tags().await
    });
    assert_eq!(kept.len(), 2, "{kept:?}");
    stage.world.run_for(Duration::from_secs(100));
    assert_eq!(stage.play(tags()).len(), 2, "their time has not come");
    stage.world.run_for(Duration::from_secs(200));
    assert!(stage.play(tags()).is_empty());
}

#[test]
fn a_full_disk_refuses_snapshots_and_nothing_else() {
    let mut stage = open_stage(65, 1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "INSERT INTO ks.kv (k, v) VALUES (1, 'v')").await;
        post("/storage_service/flush").await;
    });
    let node = stage.node;
    let used: u64 = stage.world.files(node).iter().map(|(_, size)| size).sum();
    stage.world.set_capacity(node, used);
    stage.play(async {
        let (status, value) = ask("POST", "/storage_service/snapshots?tag=full").await;
        assert_eq!(status, 500, "{value}");
        assert!(value["message"].as_str().unwrap().contains("no space"), "{value}");
        assert!(tags().await.is_empty());
        assert_eq!(rows(&connect().await, "SELECT * FROM ks.kv").await.rows.len(), 1);
    });
    stage.world.set_capacity(node, used + (8 << 20));
    stage.play(async {
        post("/storage_service/snapshots?tag=full").await;
        assert_eq!(tags().await, ["full"]);
    });
}

#[test]
fn a_drained_node_keeps_everything_and_lets_nobody_in() {
    let mut stage = open_stage(66, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "INSERT INTO ks.kv (k, v) VALUES (1, 'v')").await;
        post("/storage_service/drain").await;
        assert_eq!(get("/storage_service/operation_mode").await, "DRAINED");
        assert_eq!(get("/storage_service/native_transport").await, false);
        assert!(connection.is_closed());
        assert_eq!(ask("POST", "/storage_service/native_transport").await.0, 500);
    });
    stage.world.kill(stage.node);
    stage.boot(1);
    stage.play(async {
        let connection = connect().await;
        assert_eq!(rows(&connection, "SELECT * FROM ks.kv").await.rows.len(), 1);
        run(&connection, "INSERT INTO ks.kv (k, v) VALUES (2, 'v')").await;
    });
}

#[test]
fn the_port_of_clients_is_closed_and_opened() {
    let mut stage = open_stage(67, 2);
    stage.play(async {
        make_kv(&connect().await).await;
        for _ in 0..2 {
            let silent = connect().await;
            let told = connect().await;
            told.register(&[EventType::StatusChange]).await.unwrap();
            let busy = runtime::spawn(runtime::Group::MAIN, async {
                let connection = connect().await;
                let mut written = 0;
                while connection.query("INSERT INTO ks.kv (k, v) VALUES (1, 'v')", one()).await.is_ok() {
                    written += 1;
                }
                written
            });
            runtime::sleep(Duration::from_millis(100)).await;
            assert_eq!(ask("DELETE", "/storage_service/native_transport").await.0, 200);
            assert_eq!(get("/storage_service/native_transport").await, false);
            let options = client::Options::new(protocol::envelope::Version::V5);
            assert!(client::Connection::connect(native(), &options).await.is_err());
            assert_eq!(told.next_event().await, Some(Event::Status(false, native())));
            assert_eq!(told.next_event().await, None);
            assert_eq!(silent.next_event().await, None);
            assert!(busy.await > 0, "a busy client is cut, too");
            post("/storage_service/native_transport").await;
            rows(&connect().await, "SELECT key FROM system.local").await;
        }
    });
}

#[test]
fn tombstones_warn_and_fail_a_client() {
    let mut stage = Stage::new(68);
    (stage.config.tombstone_warn, stage.config.tombstone_fail) = (5, 20);
    stage.boot(1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "CREATE TABLE ks.wide (k int, c int, PRIMARY KEY (k, c))").await;
        for c in 0..21 {
            run(&connection, &format!("DELETE FROM ks.wide WHERE k = 1 AND c = {c}")).await;
        }
        run(&connection, "INSERT INTO ks.wide (k, c) VALUES (1, 30)").await;
        assert_eq!(
            rows(&connection, "SELECT * FROM ks.wide WHERE k = 1 AND c > 13 LIMIT 1").await.rows.len(),
            1
        );
        let (code, text) = failure(&connection, "SELECT * FROM ks.wide WHERE k = 1 LIMIT 1", one()).await;
        assert_eq!(code, 0x1300, "{text}");
        assert!(text.contains("READ_TOO_MANY_TOMBSTONES") && text.contains("21 tombstones"), "{text}");
    });
    let lines = stage.world.log_lines();
    let warned =
        lines.iter().filter(|(_, line)| line.contains("tombstone_warn_threshold")).collect::<Vec<_>>();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(
        warned[0]
            .1
            .contains("Read 1 live rows and 7 tombstone cells for query SELECT * FROM ks.wide WHERE k = 1")
    );
}

#[test]
fn backups_are_switched_on_every_shard() {
    let mut stage = Stage::new(70);
    stage.boot(2);
    let path = "/storage_service/incremental_backups";
    let mut found = Vec::new();
    for (round, switched) in [None, Some(true), Some(false)].into_iter().enumerate() {
        stage.play(async move {
            let connection = connect().await;
            if round == 0 {
                make_kv(&connection).await;
            }
            if let Some(on) = switched {
                post(&format!("{path}?value={on}")).await;
            }
            assert_eq!(get(path).await, switched.unwrap_or(false));
            for key in 0..40 {
                run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({key}, 'v')")).await;
            }
            post("/storage_service/keyspace_flush/ks").await;
        });
        let files = stage.world.files(stage.node).into_iter();
        found
            .push(files.filter(|(path, _)| path.contains("/backups/") && path.ends_with("-Data.db")).count());
    }
    assert_eq!(found, [0, 2, 2], "one of each shard while it was on");
}

/// A scan that a client asks for page by page gets through any number of tombstones; one that it wants whole does not.
#[test]
fn pages_end_early_over_tombstones_instead_of_failing() {
    let mut stage = Stage::new(69);
    stage.config.tombstone_fail = 300;
    stage.boot(1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "CREATE TABLE ks.wide (k int, c int, PRIMARY KEY (k, c))").await;
        for c in 0..2_000 {
            run(&connection, &format!("DELETE FROM ks.wide WHERE k = 1 AND c = {c}")).await;
        }
        run(&connection, "INSERT INTO ks.wide (k, c) VALUES (1, 3000)").await;
        for flushed in [false, true] {
            if flushed {
                post("/storage_service/keyspace_flush/ks").await;
            }
            let whole = failure(&connection, "SELECT * FROM ks.wide", one()).await;
            assert!(whole.1.contains("READ_TOO_MANY_TOMBSTONES"), "{whole:?}");
            for text in ["SELECT * FROM ks.wide", "SELECT * FROM ks.wide WHERE k = 1 LIMIT 5"] {
                let mut pages = client::Pages::query(&connection, text, one(), 10);
                let (mut count, mut found) = (0, 0);
                while let Some(page) = pages.next_page().await.expect("no page fails") {
                    found += page.rows.len();
                    count += 1;
                }
                assert_eq!(found, 1, "{text}");
                assert!((8..100).contains(&count), "{text}: {count} pages");
            }
        }
    });
}

#[test]
fn the_port_of_clients_is_free_at_once_and_connections_stay_counted() {
    let mut stage = Stage::new(41);
    stage.config.api_address = "10.0.0.1".parse().unwrap();
    stage.config.connections_max = Some(2);
    stage.boot(2);
    stage.play(async {
        for _ in 0..5 {
            let _connections = [connect().await, connect().await];
            let options = client::Options::new(protocol::envelope::Version::V4);
            assert!(client::Connection::connect(native(), &options).await.is_err(), "a third");
            let (off, _) = ask("DELETE", "/storage_service/native_transport").await;
            let (on, why) = ask("POST", "/storage_service/native_transport").await;
            assert_eq!((off, on), (200, 200), "{why}");
            runtime::sleep(Duration::from_millis(100)).await;
        }
    });
}
