//! The paths of the REST interface: those that are described are served, and ScyllaDB's do what it publishes of them.

use crate::harness::*;
use crate::operators::{ask, get, open_stage, post};
use serde_json::{Value, json};

/// What stands for the names in a path.
const NAMES: &[(&str, &str)] = &[
    ("{keyspace}", "ks"),
    ("{name}", "ks:kv"),
    ("{node}", "10.0.0.1"),
    ("{logger}", "storage"),
    ("{request}", "read"),
];

fn filled(path: &str) -> String {
    let metric = if path.starts_with("/cache_service") { "hit_rate" } else { "read" };
    let path = path.replace("{metric}", metric);
    NAMES.iter().fold(path, |path, (name, value)| path.replace(name, value))
}

fn texts<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect()
}

#[test]
fn whatever_is_described_is_served() {
    let mut stage = open_stage(66, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let listing = get("/api-doc/").await;
        assert_eq!(listing["swaggerVersion"], "1.2");
        let mut requests = Vec::new();
        for resource in texts(&listing["apis"], "path") {
            let description = get(&format!("/api-doc{resource}/")).await;
            assert_eq!(description["resourcePath"], resource);
            for api in description["apis"].as_array().unwrap() {
                for method in texts(&api["operations"], "method") {
                    requests.push((method.to_owned(), filled(api["path"].as_str().unwrap())));
                }
            }
        }
        assert!(requests.len() > 100);
        // What follows is asked of a node that serves.
        requests.sort_by_key(|(_, path)| path.ends_with("/drain"));
        for (method, path) in requests {
            let (status, value) = ask(&method, &path).await;
            let refused = path.ends_with("/rebuild") || path.ends_with("/trace_probability");
            match status {
                200 => {}
                501 if refused && method != "GET" => {}
                // Parameters are missing.
                400 | 404 if value["message"] != "" && value["message"] != "Not found" => {}
                _ => panic!("{method} {path}: {status} {value}"),
            }
        }
        for (method, path) in [
            ("GET", "/storage_service/flush"),
            ("GET", "/"),
            ("POST", "/column_family/name"),
            ("GET", "/api-doc/none"),
        ] {
            assert_eq!(ask(method, path).await.0, 404, "{method} {path}");
        }
    });
}

#[test]
fn tables_are_listed_measured_and_compacted_by_their_names() {
    let mut stage = open_stage(67, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "CREATE TABLE ks.other (k int PRIMARY KEY)").await;
        let names = get("/column_family/name").await;
        let has = |name: &str| names.as_array().unwrap().contains(&name.into());
        assert!(has("ks:kv") && has("ks:other"), "{names}");
        let keyspaces = get("/column_family/name/keyspace").await;
        let count = |name: &str| keyspaces.as_array().unwrap().iter().filter(|found| *found == name).count();
        assert_eq!((count("ks"), count("none")), (1, 0), "{keyspaces}");
        for round in 0..3 {
            for k in 0..40 {
                run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, '{round}')")).await;
            }
            run(&connection, &format!("INSERT INTO ks.other (k) VALUES ({round})")).await;
            post("/storage_service/keyspace_flush/ks").await;
        }
        assert_eq!(get("/column_family/metrics/write/ks:kv").await, 120);
        assert_eq!(get("/column_family/metrics/write/ks:other").await, 3);
        assert!(get("/column_family/metrics/write").await.as_u64().unwrap() >= 123);
        let histogram = get("/column_family/metrics/write_latency/moving_average_histogram").await;
        assert!(histogram["hist"]["count"].as_u64().unwrap() >= 123, "{histogram}");
        let files = "/column_family/metrics/live_ss_table_count/ks:kv";
        assert_eq!(get(files).await, 6);
        post("/column_family/major_compaction/ks:kv").await;
        assert_eq!(get(files).await, 2);
        let other = "ALTER TABLE ks.other WITH compaction = {'class': 'LeveledCompactionStrategy'}";
        run(&connection, other).await;
        assert_eq!(get("/column_family/compaction_strategy/ks:other").await, "LeveledCompactionStrategy");
        assert!(get("/compaction_manager/metrics/bytes_compacted").await.as_u64().unwrap() > 0);
        let automatic = "/column_family/autocompaction/ks:kv";
        assert_eq!(get(automatic).await, true);
        assert_eq!(ask("DELETE", automatic).await.0, 200);
        assert_eq!(
            (get(automatic).await, get("/column_family/autocompaction/ks:other").await),
            (false.into(), true.into())
        );
        post(automatic).await;
        assert_eq!(get(automatic).await, true);
        assert_eq!(ask("GET", "/column_family/metrics/read/ks:none").await.0, 404);
        assert_eq!(ask("GET", "/column_family/metrics/none/ks:kv").await.0, 404);
    });
}

#[test]
fn the_rest_of_the_published_paths() {
    let mut stage = open_stage(68, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        // With and without a slash at the end.
        assert_eq!(get("/column_family/").await, get("/column_family").await);
        assert_eq!(post("/storage_service/snapshots/?tag=one&kn=ks").await, "one");
        assert_eq!(get("/storage_service/snapshots/").await[0]["key"], "one");
        assert_eq!(get("/storage_service/keyspace_scrub/ks?cf=kv&disable_snapshot=true").await, 0);
        assert_eq!(get("/storage_service/keyspace_upgrade_sstables/ks").await, 0);
        assert_eq!(get("/storage_service/tokens/10.0.0.1").await, get("/storage_service/tokens").await);
        assert_eq!(ask("GET", "/storage_service/tokens/10.0.0.9").await.0, 404);
        assert_eq!(get("/storage_service/keyspaces?replication=tablets").await, json!([]));
        assert_eq!(get("/failure_detector/count/endpoint/up").await, 1);
        assert_eq!(get("/failure_detector/count/endpoint/down").await, 0);
        assert_eq!(
            get("/failure_detector/simple_states").await,
            json!([{ "key": "10.0.0.1", "value": "UP" }])
        );
        let before = get("/system/logger/published").await;
        post("/system/logger/published?level=trace").await;
        assert_eq!(get("/system/logger/published").await, "trace");
        assert_eq!(get("/system/logger/published.part").await, "trace");
        assert!(get("/system/logger").await.as_array().unwrap().contains(&"published".into()));
        post("/system/logger?level=error").await;
        assert_eq!(
            (get("/system/logger/published").await, get("/system/logger/ROOT").await),
            ("error".into(), "error".into())
        );
        post("/system/logger").await;
        assert_eq!(get("/system/logger/published").await, before);
        assert_eq!(ask("POST", "/system/logger?level=loud").await.0, 400);
    });
}
