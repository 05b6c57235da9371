//! Roles: who is let in, who may make others, what a restart leaves; and the tables all that is kept in.

use crate::harness::*;
use client::{Connection, Error, Options, RowSet};
use protocol::envelope::Version;
use query::Authenticator;
use types::Value;

const VERSIONS: [Version; 3] = [Version::V3, Version::V4, Version::V5];

/// A node that asks for passwords.
fn guarded(seed: u64, shards: u16) -> Stage {
    let mut stage = Stage::new(seed);
    stage.config.authentication.authenticator = Authenticator::Password;
    stage.boot(shards);
    stage
}

async fn login_as(version: Version, name: &str, password: &str) -> Result<Connection, (i32, String)> {
    let mut options = Options::new(version);
    options.credentials = Some((name.to_string(), password.to_string()));
    match Connection::connect(native(), &options).await {
        Ok(connection) => Ok(connection),
        Err(Error::Failure(failure)) => Err((failure.kind.code(), failure.message.clone())),
        Err(other) => panic!("{name} is neither let in nor refused: {other}"),
    }
}

async fn login(name: &str, password: &str) -> Connection {
    login_as(Version::V5, name, password).await.unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

async fn refused(name: &str, password: &str) -> (i32, String) {
    match login_as(Version::V5, name, password).await {
        Ok(_) => panic!("{name} is let in"),
        Err(error) => error,
    }
}

fn texts(rows: &RowSet, column: usize) -> Vec<String> {
    let text = |row| match rows.value(row, column).unwrap() {
        Value::Text(text) => text.to_string(),
        other => panic!("{other:?} is no text"),
    };
    (0..rows.rows.len()).map(text).collect()
}

fn incorrect(name: &str) -> (i32, String) {
    (0x0100, format!("Provided username {name} and/or password are incorrect"))
}

#[test]
fn nobody_gets_in_without_the_right_password() {
    let mut stage = guarded(201, 3);
    stage.play(async {
        for version in VERSIONS {
            let connection = login_as(version, "cassandra", "cassandra").await.expect("the default");
            run(&connection, "SELECT key FROM system.local").await;
            assert_eq!(login_as(version, "cassandra", "wrong").await.err(), Some(incorrect("cassandra")));
            assert_eq!(login_as(version, "nobody", "cassandra").await.err(), Some(incorrect("nobody")));
        }
        let nothing = (0x0100, "Password must not be null".to_string());
        assert_eq!(refused("cassandra", "").await, nothing);
        // What was remembered of a right password does not let a wrong one in.
        let connection = login("cassandra", "cassandra").await;
        assert_eq!(refused("cassandra", "wrong").await, incorrect("cassandra"));
        run(&connection, "CREATE ROLE quiet WITH PASSWORD = 'p'").await;
        let told = (0x0100, "quiet is not permitted to log in".to_string());
        assert_eq!(refused("quiet", "p").await, told);
    });
}

async fn metric(name: &str) -> u64 {
    let to: std::net::SocketAddr = "10.0.0.1:9180".parse().unwrap();
    let stream = runtime::net::TcpStream::connect(to, None).await.unwrap();
    stream.send_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n".to_vec()).await.unwrap();
    let mut text = Vec::new();
    loop {
        match stream.recv().await.unwrap() {
            bytes if bytes.is_empty() => break,
            bytes => text.extend_from_slice(&bytes),
        }
    }
    let text = String::from_utf8(text).unwrap();
    let of_shards = text.lines().filter(|line| line.starts_with(name));
    of_shards.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn connections_of_one_driver_cost_one_hash_for_each_shard() {
    let mut stage = guarded(207, 2);
    stage.play(async {
        let before = metric("messina_query_password_hashes_total").await;
        let logins = (0..40).map(|_| runtime::spawn(runtime::Group::MAIN, login("cassandra", "cassandra")));
        for task in logins.collect::<Vec<_>>() {
            drop(task.await);
        }
        let hashed = metric("messina_query_password_hashes_total").await - before;
        assert!(hashed <= 2, "{hashed} passwords were hashed");
        assert_eq!(metric("messina_query_logins_total{outcome=\"accepted\"").await, 40);
    });
}

#[test]
fn a_name_that_is_nobodys_costs_what_a_wrong_password_costs() {
    let mut stage = guarded(208, 2);
    stage.play(async {
        drop(login("cassandra", "cassandra").await);
        for name in ["cassandra", "nobody", "nobody"] {
            let before = metric("messina_query_password_hashes_total").await;
            assert_eq!(refused(name, "wrong").await, incorrect(name));
            assert_eq!(metric("messina_query_password_hashes_total").await - before, 1, "{name}");
        }
        // What is remembered of nobody ends when the role is made.
        let admin = login("cassandra", "cassandra").await;
        run(&admin, "CREATE ROLE nobody WITH PASSWORD = 'wrong' AND LOGIN = true").await;
        drop(login("nobody", "wrong").await);
    });
}

#[test]
fn who_leaves_before_the_turn_costs_no_hash() {
    use protocol::request::{Request, Startup};
    const COUNT: u64 = 200;
    let mut stage = guarded(209, 2);
    stage.play(async {
        let mut streams = Vec::new();
        for _ in 0..COUNT {
            let stream = runtime::net::TcpStream::connect(native(), None).await.unwrap();
            let mut wire = Vec::new();
            Request::Startup(Startup { options: vec![("CQL_VERSION", "3.0.0")] }).encode(
                &mut wire,
                Version::V4,
                1,
            );
            stream.send_all(wire).await.unwrap();
            assert!(!stream.recv().await.unwrap().is_empty(), "AUTHENTICATE");
            streams.push(stream);
        }
        let before = metric("messina_query_password_hashes_total").await;
        for stream in streams {
            let mut wire = Vec::new();
            Request::AuthResponse(Some(b"\0cassandra\0wrong")).encode(&mut wire, Version::V4, 1);
            stream.send_all(wire).await.unwrap();
        }
        runtime::sleep(std::time::Duration::from_secs(20)).await;
        let hashed = metric("messina_query_password_hashes_total").await - before;
        assert!(hashed < COUNT, "all who left were served: {hashed}");
    });
}

#[test]
fn nothing_is_served_before_the_login() {
    use protocol::assembler::Assembler;
    use protocol::envelope::Direction;
    use protocol::request::{Query, Request, Startup};
    use protocol::response::Response;
    let mut stage = guarded(202, 2);
    stage.play(async {
        let stream = runtime::net::TcpStream::connect(native(), None).await.unwrap();
        let mut inbound = Assembler::new(Direction::Responses, 1 << 20);
        let mut ask = async |request: Request<'_>| {
            let mut wire = Vec::new();
            request.encode(&mut wire, Version::V4, 1);
            stream.send_all(wire).await.unwrap();
            loop {
                if let Some(envelope) = inbound.next().unwrap() {
                    let response = Response::decode(&envelope.header, envelope.body).unwrap();
                    return match response {
                        Response::Error(failure) => {
                            format!("{:#06x} {}", failure.kind.code(), failure.message)
                        }
                        Response::Authenticate(class) => class.to_string(),
                        Response::AuthSuccess(_) => "in".to_string(),
                        Response::Rows(_) => "rows".to_string(),
                        other => format!("{other:?}"),
                    };
                }
                let bytes = stream.recv().await.unwrap();
                assert!(!bytes.is_empty(), "closed");
                inbound.push(&bytes);
            }
        };
        let query = || Request::Query(Query { query: "SELECT key FROM system.local", parameters: one() });
        let startup = Request::Startup(Startup { options: vec![("CQL_VERSION", "3.0.0")] });
        assert_eq!(ask(query()).await, "0x000a Unexpected message QUERY, expecting STARTUP or OPTIONS");
        assert_eq!(ask(startup.clone()).await, "org.apache.cassandra.auth.PasswordAuthenticator");
        assert_eq!(ask(query()).await, "0x000a Unexpected message QUERY, expecting SASL_RESPONSE");
        assert_eq!(ask(startup).await, "0x000a Unexpected message STARTUP, expecting SASL_RESPONSE");
        let wrong = ask(Request::AuthResponse(Some(b"\0cassandra\0no"))).await;
        assert_eq!(wrong, "0x0100 Provided username cassandra and/or password are incorrect");
        assert_eq!(ask(query()).await, "0x000a Unexpected message QUERY, expecting SASL_RESPONSE");
        assert_eq!(ask(Request::AuthResponse(Some(b"\0cassandra\0cassandra"))).await, "in");
        assert_eq!(ask(query()).await, "rows");
    });
}

#[test]
fn roles_are_made_changed_and_dropped() {
    let mut stage = guarded(203, 2);
    stage.play(async {
        let root = login("cassandra", "cassandra").await;
        for text in [
            "CREATE ROLE boss WITH PASSWORD = 'b' AND LOGIN = true AND SUPERUSER = true",
            "CREATE USER Bob WITH PASSWORD 'bob'",
            "CREATE ROLE IF NOT EXISTS 'Bob'",
            "CREATE ROLE readers",
            "CREATE ROLE staff WITH ACCESS TO DATACENTERS {'datacenter1'}",
            "GRANT staff TO readers",
            "GRANT readers TO 'Bob'",
        ] {
            run(&root, text).await;
        }
        let all = rows(&root, "LIST ROLES").await;
        assert_eq!(texts(&all, 0), ["Bob", "boss", "cassandra", "readers", "staff"]);
        assert_eq!(texts(&all, 4), ["ALL"; 5]);
        assert_eq!(texts(&rows(&root, "LIST ROLES OF 'Bob'").await, 0), ["Bob", "readers", "staff"]);
        assert_eq!(texts(&rows(&root, "LIST ROLES OF 'Bob' NORECURSIVE").await, 0), ["Bob", "readers"]);
        assert_eq!(texts(&rows(&root, "LIST USERS").await, 0), ["Bob", "boss", "cassandra"]);

        let bob = login("Bob", "bob").await;
        let cases = [
            (&root, "CREATE ROLE readers", 0x2200, "readers already exists"),
            (&root, "ALTER ROLE nobody WITH LOGIN = true", 0x2200, "Role nobody doesn't exist"),
            (&root, "DROP ROLE nobody", 0x2200, "nobody doesn't exist"),
            (&root, "DROP ROLE cassandra", 0x2200, "Cannot DROP primary role for current login"),
            (&root, "GRANT staff TO 'Bob'", 0x2200, "Bob is a member of staff"),
            (&root, "GRANT 'Bob' TO staff", 0x2200, "Bob is a member of staff"),
            (&root, "GRANT nobody TO staff", 0x2200, "nobody doesn't exist"),
            (&root, "REVOKE staff FROM 'Bob'", 0x2200, "Bob is not a member of staff"),
            (&root, "CREATE ROLE ''", 0x2200, "Role name can't be an empty string"),
            (
                &root,
                "CREATE ROLE x WITH HASHED PASSWORD = 'plain'",
                0x2200,
                "Invalid hashed password value. Please use jBcrypt.",
            ),
            (
                &root,
                "CREATE ROLE x WITH OPTIONS = {'a': 'b'}",
                0x2200,
                "org.apache.cassandra.auth.CassandraRoleManager doesn't support OPTIONS",
            ),
            (
                &root,
                "CREATE ROLE x WITH ACCESS TO DATACENTERS {'mars'}",
                0x2200,
                "Invalid value(s) for DATACENTERS '[mars]',All values must be valid datacenters",
            ),
            (
                &root,
                "CREATE ROLE x WITH ACCESS FROM CIDRS {'a'}",
                0x2200,
                "Invalid CIDR group(s): [a]. Available CIDR Groups are: []",
            ),
            (&root, "GRANT SELECT ON ALL KEYSPACES TO nobody", 0x2200, "Role nobody doesn't exist"),
            (&root, "LIST ALL PERMISSIONS OF nobody", 0x2200, "<role nobody> doesn't exist"),
            (&root, "LIST ROLES OF nobody", 0x2200, "<role nobody> doesn't exist"),
            (
                &root,
                "ALTER ROLE cassandra WITH SUPERUSER = false",
                0x2100,
                "You aren't allowed to alter your own superuser status or that of a role granted to you",
            ),
            (
                &bob,
                "CREATE ROLE x WITH SUPERUSER = true",
                0x2100,
                "Only superusers can create a role with superuser status",
            ),
            (
                &bob,
                "ALTER ROLE staff2 WITH SUPERUSER = true",
                0x2100,
                "Only superusers are allowed to alter superuser status",
            ),
            (&bob, "DROP ROLE boss", 0x2100, "Only superusers can drop a role with superuser status"),
            (
                &root,
                "GRANT SELECT ON ALL KEYSPACES TO staff",
                0x2200,
                "GRANT operation is not supported by AllowAllAuthorizer",
            ),
        ];
        for (connection, text, code, message) in cases {
            assert_eq!(failure(connection, text, one()).await, (code, message.to_string()), "{text}");
        }

        // A new password holds at once, on every shard.
        run(&root, "ALTER ROLE 'Bob' WITH PASSWORD = 'new'").await;
        assert_eq!(refused("Bob", "bob").await, incorrect("Bob"));
        login("Bob", "new").await;
        let hash = "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe";
        run(&root, &format!("ALTER USER Bob WITH HASHED PASSWORD '{hash}'")).await;
        login("Bob", "a").await;
        run(&root, "ALTER ROLE 'Bob' WITH LOGIN = false").await;
        assert_eq!(refused("Bob", "a").await, (0x0100, "Bob is not permitted to log in".to_string()));

        run(&root, "DROP ROLE staff").await;
        assert_eq!(texts(&rows(&root, "LIST ROLES OF 'Bob'").await, 0), ["Bob", "readers"]);
        let members = rows(&root, "SELECT role, member FROM system_auth.role_members").await;
        assert_eq!((texts(&members, 0), texts(&members, 1)), (vec!["readers".into()], vec!["Bob".into()]));
        run(&root, "DROP USER IF EXISTS nobody").await;
        run(&root, "DROP ROLE 'Bob'").await;
        assert_eq!(refused("Bob", "a").await, incorrect("Bob"));
        assert_eq!(rows(&root, "SELECT role FROM system_auth.role_members").await.rows.len(), 0);
    });
}

#[test]
fn roles_survive_restarts_with_other_numbers_of_shards() {
    let mut stage = guarded(204, 2);
    stage.play(async {
        let root = login("cassandra", "cassandra").await;
        for n in 0..20 {
            run(&root, &format!("CREATE ROLE r{n} WITH PASSWORD = 'p{n}' AND LOGIN = true")).await;
        }
        run(&root, "CREATE ROLE boss WITH PASSWORD = 'b' AND LOGIN = true AND SUPERUSER = true").await;
        let boss = login("boss", "b").await;
        run(&boss, "DROP ROLE cassandra").await;
        let altered = "ALTER KEYSPACE system_auth WITH replication = \
                       {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}";
        run(&boss, altered).await;
    });
    for shards in [3, 1] {
        stage.stop();
        stage.boot(shards);
        stage.play(async {
            assert_eq!(refused("cassandra", "cassandra").await, incorrect("cassandra"));
            let boss = login("boss", "b").await;
            login("r7", "p7").await;
            assert_eq!(rows(&boss, "LIST ROLES").await.rows.len(), 21);
            let shown = rows(&boss, "DESCRIBE KEYSPACE system_auth").await;
            let text = texts(&shown, 3).concat();
            assert!(text.contains("'class': 'NetworkTopologyStrategy', 'datacenter1': '1'"), "{text}");
            assert!(text.contains("CREATE TABLE system_auth.resource_role_permissons_index"), "{text}");
        });
    }
}

#[test]
fn without_passwords_nobody_is_somebody() {
    let mut stage = stage(205, 2);
    stage.play(async {
        let connection = connect().await;
        // Made after the start, which does not wait for it.
        let roles = "SELECT role FROM system_auth.roles";
        while texts(&rows(&connection, roles).await, 0) != ["cassandra"] {
            runtime::sleep(std::time::Duration::from_millis(10)).await;
        }
        let anonymous = "You have to be logged in and not anonymous to perform this request";
        let no_password = "org.apache.cassandra.auth.CassandraRoleManager doesn't support PASSWORD";
        let cases = [
            ("CREATE ROLE r", 0x2100, anonymous),
            ("CREATE ROLE r WITH PASSWORD = 'p'", 0x2200, no_password),
            ("CREATE USER u", 0x2100, anonymous),
            ("ALTER ROLE r WITH LOGIN = true", 0x2100, anonymous),
            ("DROP ROLE r", 0x2100, anonymous),
            ("LIST ROLES", 0x2100, anonymous),
            ("LIST USERS", 0x2100, anonymous),
            ("GRANT r TO s", 0x2100, anonymous),
            ("GRANT SELECT ON ks.t TO s", 0x2100, anonymous),
        ];
        for (text, code, message) in cases {
            assert_eq!(failure(&connection, text, one()).await, (code, message.to_string()), "{text}");
        }
    });
}

#[test]
fn built_in_tables_stay_as_they_are() {
    let mut stage = stage(206, 2);
    stage.play(async {
        let connection = connect().await;
        for text in [
            "DROP KEYSPACE system_auth",
            "DROP TABLE system_auth.roles",
            "ALTER TABLE system_auth.roles ADD x int",
            "CREATE TABLE system_auth.mine (k int PRIMARY KEY)",
            "ALTER KEYSPACE system WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "DROP TABLE system.batches",
            "TRUNCATE system.batches",
            "DELETE FROM system.batches WHERE id = 8e7b4a40-c6b1-11ef-9cd2-0242ac120002",
        ] {
            assert_eq!(failure(&connection, text, one()).await.0, 0x2100, "{text}");
        }
        let id = rows(
            &connection,
            "SELECT id FROM system_schema.tables WHERE keyspace_name = 'system_auth' AND table_name = 'roles'",
        )
        .await;
        let expected = "5bc52802-de25-35ed-aeab-188eecebb090";
        assert_eq!(id.value(0, 0).unwrap(), Value::Uuid(uuid::Uuid::parse_str(expected).unwrap()));
    });
}
