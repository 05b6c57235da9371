//! Permissions: who is refused what, when a grant counts, what ends with what it was granted on; and the page that takes an operator through it.

use crate::found::{Found, connect_as};
use crate::harness::*;
use client::{Connection, Error, Options, RowSet};
use node::config::Config;
use protocol::envelope::Version;
use protocol::request::{Batch, BatchKind, BatchSource, BatchStatement};
use query::{Authenticator, Authorization};
use types::Value;

const PERMISSIONS: Authorization = Authorization { by_permissions: true, by_datacenter: false };

/// A node with passwords and permissions.
fn guarded(seed: u64, shards: u16) -> Stage {
    let mut stage = Stage::new(seed);
    guard(&mut stage.config);
    stage.boot(shards);
    stage
}

fn guard(config: &mut Config) {
    config.authentication.authenticator = Authenticator::Password;
    config.authorization = PERMISSIONS;
}

/// Logs in to the lone node; the password is the name.
async fn login(name: &str) -> Connection {
    login_with(name, name).await
}

async fn login_with(name: &str, password: &str) -> Connection {
    let mut options = Options::new(Version::V5);
    options.credentials = Some((name.to_string(), password.to_string()));
    Connection::connect(native(), &options).await.unwrap_or_else(|error| panic!("{name}: {error}"))
}

async fn refused(connection: &Connection, text: &str) -> String {
    let (code, text) = failure(connection, text, one()).await;
    assert_eq!(code, 0x2100, "{text}");
    text
}

/// The error of a request, which must be that something is not allowed.
fn unauthorized<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Failure(failure)) if failure.kind.code() == 0x2100 => failure.message.clone(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is let through"),
    }
}

fn texts(rows: &RowSet, column: usize) -> Vec<String> {
    let text = |row| match rows.value(row, column).unwrap() {
        Value::Text(text) => text.to_string(),
        other => panic!("{other:?} is no text"),
    };
    (0..rows.rows.len()).map(text).collect()
}

/// What a role was granted, as LIST says it: resource and permission.
async fn listed(connection: &Connection, of: &str) -> Vec<(String, String)> {
    match run(connection, &format!("LIST ALL PERMISSIONS OF {of}")).await {
        client::Outcome::Rows(rows) => texts(&rows, 2).into_iter().zip(texts(&rows, 3)).collect(),
        _ => Vec::new(),
    }
}

async fn make_user(admin: &Connection, name: &str) {
    run(admin, &format!("CREATE ROLE {name} WITH PASSWORD = '{name}' AND LOGIN = true")).await;
}

#[test]
fn a_grant_counts_at_once_for_what_was_prepared_before() {
    let mut stage = guarded(401, 3);
    stage.play(async {
        let admin = login("cassandra").await;
        make_kv(&admin).await;
        make_user(&admin, "web").await;
        // Several connections, so that every shard has one.
        for _ in 0..6 {
            let web = login("web").await;
            let insert = web.prepare("INSERT INTO ks.kv (k, v) VALUES (1, 'a')").await.unwrap();
            let select = web.prepare("SELECT v FROM ks.kv WHERE k = 1").await.unwrap();
            let text = unauthorized(web.execute(&insert, one()).await);
            assert_eq!(text, "User web has no MODIFY permission on <table ks.kv> or any of its parents");
            assert!(unauthorized(web.execute(&select, one()).await).contains("no SELECT permission"));
            run(&admin, "GRANT MODIFY ON ks.kv TO web").await;
            web.execute(&insert, one()).await.unwrap();
            web.execute(&insert, one()).await.unwrap();
            assert!(unauthorized(web.execute(&select, one()).await).contains("no SELECT permission"));
            run(&admin, "GRANT SELECT ON KEYSPACE ks TO web").await;
            assert_eq!(web.execute(&select, one()).await.unwrap().rows().rows.len(), 1);
            run(&admin, "REVOKE ALL ON ks.kv FROM web").await;
            run(&admin, "REVOKE ALL ON KEYSPACE ks FROM web").await;
            assert!(unauthorized(web.execute(&insert, one()).await).contains("no MODIFY permission"));
            assert!(unauthorized(web.execute(&select, one()).await).contains("no SELECT permission"));
        }
    });
}

#[test]
fn every_part_of_a_batch_is_asked_for() {
    let mut stage = guarded(402, 2);
    stage.play(async {
        let admin = login("cassandra").await;
        make_kv(&admin).await;
        run(&admin, "CREATE TABLE ks.other (k int PRIMARY KEY, v text)").await;
        make_user(&admin, "web").await;
        run(&admin, "GRANT MODIFY ON ks.kv TO web").await;
        let web = login("web").await;
        let batch = |texts: &'static [&'static str]| Batch {
            kind: BatchKind::Logged,
            statements: texts
                .iter()
                .map(|text| BatchStatement { source: BatchSource::Query(text), values: Default::default() })
                .collect(),
            parameters: one(),
        };
        let (mine, others) = ("INSERT INTO ks.kv (k) VALUES (1)", "INSERT INTO ks.other (k) VALUES (1)");
        web.batch(batch(&["INSERT INTO ks.kv (k) VALUES (1)"]), &[]).await.unwrap();
        let both = &["INSERT INTO ks.kv (k) VALUES (2)", "INSERT INTO ks.other (k) VALUES (2)"];
        assert!(unauthorized(web.batch(batch(both), &[]).await).contains("<table ks.other>"));
        let text = format!("BEGIN BATCH {mine}; {others}; APPLY BATCH");
        assert!(refused(&web, &text).await.contains("<table ks.other>"));
        assert_eq!(rows(&admin, "SELECT k FROM ks.kv").await.rows.len(), 1, "nothing of it is written");
    });
}

#[test]
fn makers_own_what_they_make_until_it_is_dropped() {
    let mut stage = guarded(403, 2);
    stage.play(async {
        let admin = login("cassandra").await;
        make_user(&admin, "maker").await;
        run(&admin, "GRANT CREATE ON ALL KEYSPACES TO maker").await;
        run(&admin, "GRANT CREATE ON ALL ROLES TO maker").await;
        let maker = login("maker").await;
        make_kv(&maker).await;
        run(&maker, "INSERT INTO ks.kv (k) VALUES (1)").await;
        run(&maker, "CREATE ROLE made").await;
        run(&maker, "GRANT SELECT ON ks.kv TO made").await;
        run(&maker, "ALTER TABLE ks.kv ADD w int").await;
        let on = |held: &[(String, String)], on: &str| held.iter().filter(|(of, _)| of == on).count();
        let held = listed(&maker, "maker").await;
        let counts = ["<table ks.kv>", "<keyspace ks>", "<all functions in ks>", "<role made>"]
            .map(|resource| on(&held, resource));
        assert_eq!(counts, [7, 8, 5, 4], "{held:?}");
        run(&maker, "DROP TABLE ks.kv").await;
        assert_eq!(listed(&admin, "made").await, []);
        run(&maker, "DROP ROLE made").await;
        run(&maker, "DROP KEYSPACE ks").await;
        let held = listed(&maker, "maker").await;
        assert_eq!(held.len(), 2, "{held:?}");
        let index = rows(&admin, "SELECT resource FROM system_auth.resource_role_permissons_index").await;
        let mut index = texts(&index, 0);
        index.sort();
        assert_eq!(index, ["data", "roles", "roles/maker"]);
    });
}

#[test]
fn roles_inherit_and_a_restart_keeps_what_was_granted() {
    let mut stage = guarded(404, 2);
    stage.play(async {
        let admin = login("cassandra").await;
        make_kv(&admin).await;
        make_user(&admin, "clerk").await;
        for statement in [
            "CREATE ROLE readers",
            "CREATE ROLE staff",
            "GRANT SELECT ON ALL TABLES IN KEYSPACE ks TO readers",
            "GRANT readers TO staff",
            "GRANT staff TO clerk",
            "ADD IDENTITY 'spiffe://clerk' TO ROLE clerk",
        ] {
            run(&admin, statement).await;
        }
        run(&login("clerk").await, "SELECT * FROM ks.kv").await;
    });
    stage.stop();
    stage.boot(3);
    stage.play(async {
        let (admin, clerk) = (login("cassandra").await, login("clerk").await);
        run(&clerk, "SELECT * FROM ks.kv").await;
        assert!(refused(&clerk, "INSERT INTO ks.kv (k) VALUES (1)").await.contains("no MODIFY permission"));
        let identities = rows(&admin, "SELECT identity, role FROM system_auth.identity_to_role").await;
        assert_eq!(texts(&identities, 0), ["spiffe://clerk"]);
        run(&admin, "REVOKE readers FROM staff").await;
        assert!(refused(&clerk, "SELECT * FROM ks.kv").await.contains("no SELECT permission"));
        run(&admin, "CREATE ROLE bosses WITH SUPERUSER = true").await;
        run(&admin, "GRANT bosses TO staff").await;
        run(&clerk, "INSERT INTO ks.kv (k) VALUES (1)").await;
        run(&clerk, "SELECT role FROM system_auth.roles").await;
        run(&admin, "DROP ROLE clerk").await;
        let left = rows(&admin, "SELECT identity FROM system_auth.identity_to_role").await;
        assert!(left.rows.is_empty(), "they end with their role");
        assert!(refused(&clerk, "SELECT * FROM ks.kv").await.contains("no SELECT permission"));
    });
}

/// Cassandra lets superusers write rows of roles; a lone node does, too.
#[test]
fn rows_that_are_written_by_hand_count_at_once() {
    let mut stage = guarded(405, 3);
    stage.play(async {
        let admin = login("cassandra").await;
        make_kv(&admin).await;
        make_user(&admin, "web").await;
        let web = login("web").await;
        refused(&web, "SELECT * FROM ks.kv").await;
        let grant = "INSERT INTO system_auth.role_permissions (role, resource, permissions) \
                     VALUES ('web', 'data/ks/kv', {'SELECT'})";
        run(&admin, grant).await;
        run(&web, "SELECT * FROM ks.kv").await;
        let take = "DELETE FROM system_auth.role_permissions WHERE role = 'web'";
        let take = admin.prepare(take).await.unwrap();
        admin.execute(&take, one()).await.unwrap();
        refused(&web, "SELECT * FROM ks.kv").await;
        refused(&web, grant).await;
    });
}

#[test]
fn a_role_is_bound_to_datacenters() {
    let mut stage = Stage::new(406);
    guard(&mut stage.config);
    stage.config.authorization.by_datacenter = true;
    stage.boot(2);
    stage.play(async {
        let admin = login("cassandra").await;
        make_kv(&admin).await;
        make_user(&admin, "web").await;
        run(&admin, "GRANT SELECT ON ks.kv TO web").await;
        let web = login("web").await;
        let select = web.prepare("SELECT * FROM ks.kv").await.unwrap();
        web.execute(&select, one()).await.unwrap();
        // Of another one there is no node here, so it is written by hand.
        run(&admin, "UPDATE system_auth.network_permissions SET dcs = {'mars'} WHERE role = 'roles/web'")
            .await;
        let text = "You do not have access to this datacenter (datacenter1)";
        assert_eq!(unauthorized(web.execute(&select, one()).await), text);
        for statement in ["SELECT key FROM system.local", "USE ks", "DESCRIBE KEYSPACES", "LIST ROLES"] {
            assert_eq!(refused(&web, statement).await, text, "{statement}");
        }
        assert_eq!(texts(&rows(&admin, "LIST ROLES OF web").await, 4), ["mars"]);
        run(&admin, "ALTER ROLE web WITH ACCESS TO DATACENTERS {'datacenter1'}").await;
        web.execute(&select, one()).await.unwrap();
    });
}

#[test]
fn without_an_authorizer_nobody_is_asked() {
    let mut stage = Stage::new(407);
    stage.config.authentication.authenticator = Authenticator::Password;
    stage.boot(2);
    stage.play(async {
        let admin = login("cassandra").await;
        make_kv(&admin).await;
        make_user(&admin, "web").await;
        let web = login("web").await;
        run(&web, "INSERT INTO ks.kv (k) VALUES (1)").await;
        run(&web, "DROP TABLE ks.kv").await;
        let (code, text) = failure(&admin, "GRANT SELECT ON KEYSPACE ks TO web", one()).await;
        assert_eq!((code, &*text), (0x2200, "GRANT operation is not supported by AllowAllAuthorizer"));
        let granted = rows(&admin, "SELECT * FROM system_auth.role_permissions").await;
        assert!(granted.rows.is_empty());
    });
}

#[test]
fn members_of_a_cluster_agree_on_permissions_at_once() {
    let mut found = Found::new(408, 3);
    found.configs.iter_mut().for_each(guard);
    found.boot_all();
    found.world.run_for(std::time::Duration::from_secs(10));
    found.play(async {
        let admin = connect_as(1, ("cassandra", "cassandra")).await;
        run(
            &admin,
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
        )
        .await;
        run(&admin, "CREATE TABLE ks.kv (k int PRIMARY KEY, v text)").await;
        make_user(&admin, "web").await;
        let second = connect_as(2, ("web", "web")).await;
        let third = connect_as(3, ("web", "web")).await;
        let select = third.prepare("SELECT v FROM ks.kv WHERE k = 1").await.unwrap();
        for _ in 0..3 {
            assert!(refused(&second, "SELECT * FROM ks.kv").await.contains("no SELECT permission"));
            assert!(unauthorized(third.execute(&select, one()).await).contains("no SELECT permission"));
            run(&admin, "GRANT SELECT ON ks.kv TO web").await;
            run(&second, "SELECT * FROM ks.kv").await;
            third.execute(&select, one()).await.unwrap();
            run(&admin, "REVOKE SELECT ON ks.kv FROM web").await;
        }
        run(&admin, "GRANT SELECT, CREATE ON KEYSPACE ks TO web").await;
        run(&second, "CREATE TABLE ks.own (k int PRIMARY KEY)").await;
        run(&third, "INSERT INTO ks.own (k) VALUES (1)").await;
        let third_admin = connect_as(3, ("cassandra", "cassandra")).await;
        let text = "SELECT resource FROM system_auth.role_permissions WHERE role = 'web'";
        assert_eq!(texts(&rows(&third_admin, text).await, 0), ["data/ks", "data/ks/own"]);
        run(&admin, "DROP TABLE ks.own").await;
        assert_eq!(texts(&rows(&third_admin, text).await, 0), ["data/ks"]);
        run(&admin, "ADD IDENTITY 'spiffe://web' TO ROLE web").await;
        let text = "SELECT identity FROM system_auth.identity_to_role WHERE identity = 'spiffe://web'";
        assert_eq!(texts(&rows(&third_admin, text).await, 0), ["spiffe://web"]);
        let (code, _) = failure(
            &admin,
            "INSERT INTO system_auth.role_permissions (role, resource) VALUES ('a', 'b')",
            one(),
        )
        .await;
        assert_eq!(code, 0x2100, "what is agreed on is no row");
    });
}

/// A fenced block of the page.
struct Block {
    language: String,
    lines: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for line in page.lines() {
        match (line.strip_prefix("```"), open) {
            (Some(_), true) => open = false,
            (Some(language), false) => {
                open = true;
                blocks.push(Block { language: language.to_owned(), lines: Vec::new() });
            }
            (None, true) => blocks.last_mut().expect("it was opened").lines.push(line.to_owned()),
            (None, false) => {}
        }
    }
    blocks
}

/// Runs the lines of a block as the user that its first line names; what is marked as refused must be, with that text.
async fn run_block(lines: Vec<String>, password: String, user: String) {
    let connection = login_with(&user, &password).await;
    for line in &lines {
        let (statement, mark) = line.split_once(';').unwrap_or_else(|| panic!("{line} has no end"));
        match mark.trim().strip_prefix("-- refused: ") {
            Some(text) => assert!(refused(&connection, statement).await.contains(text), "{line}"),
            None => drop(run(&connection, statement).await),
        }
    }
}

#[test]
fn the_page_on_security_does_what_it_says() {
    let page = std::fs::read_to_string("../../docs/operating/security.md").expect("the page is there");
    let mut stage = Stage::new(409);
    let mut passwords = std::collections::BTreeMap::from([("cassandra".to_owned(), "cassandra".to_owned())]);
    let mut running = false;
    let mut ran = 0;
    for block in blocks(&page) {
        if block.language == "yaml" {
            let mut read = Config::standard("/data".into());
            read.read("node.yaml", &block.lines.join("\n")).expect("the node reads it");
            if block.lines.iter().any(|line| line.starts_with("authenticator:")) {
                read.finish().expect("the node starts with it");
                if running {
                    stage.stop();
                }
                stage.config.authentication = read.authentication;
                stage.config.authorization = read.authorization;
                stage.boot(2);
                running = true;
            }
            continue;
        }
        assert_eq!(block.language, "sql", "nothing tries other blocks");
        let (first, lines) = block.lines.split_first().expect("it says who");
        let user = first.strip_prefix("-- as ").unwrap_or_else(|| panic!("{first} says nobody")).to_owned();
        for line in lines {
            if let Some((name, rest)) =
                line.strip_prefix("CREATE ROLE ").and_then(|rest| rest.split_once(" WITH PASSWORD = '"))
            {
                let (password, _) = rest.split_once('\'').expect("it is quoted");
                passwords.insert(name.to_owned(), password.to_owned());
            }
        }
        let password = passwords[&user].clone();
        let lines = lines.to_vec();
        ran += lines.len();
        stage.play(run_block(lines, password, user));
    }
    assert!(ran > 20, "only {ran} statements were found");
}
