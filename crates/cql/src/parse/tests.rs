//! The parser: shapes of every statement, Cassandra's error texts, and that no text whatever makes it panic.

use super::*;
use crate::ast::{Expr, StatementKind};
use proptest::prelude::*;

/// One accepted text per line of the grammar.
const ACCEPTED: &[&str] = &[
    "SELECT * FROM ks.t WHERE k = 1 AND c > 2 AND c <= :high ORDER BY c DESC PER PARTITION LIMIT 2 LIMIT ? ALLOW FILTERING;",
    "select json a as b, count(*), count(1), writetime(v), ttl(v), cast(a as text), m['x'], u.f.g, l[1..2], f(a, 3), ks.f(a), token(k) FROM t",
    "select distinct k from t where token(k) > token(3) and token(k, j) <= -5 and (a, b) >= (1, 2) and (a, b) in ((1, 2), ?) and (x = 3) and m contains 3 and m contains key ? and z in ? and y in () using timeout 5s",
    "SELECT json FROM t; ",
    "SELECT a + -b * 2 % 3, (int) 5, (list<int>) [1, 2], -1.5e3 FROM t GROUP BY a, b",
    "SELECT * FROM t ORDER BY v ANN OF [1.0, 2.0] LIMIT 3",
    "INSERT INTO t (a, \"B\") VALUES (1, {'a': 1, 'b': {1, 2}}) IF NOT EXISTS USING TTL 5 AND TIMESTAMP ?",
    "INSERT INTO t JSON '{}' DEFAULT UNSET",
    "UPDATE t USING TIMESTAMP 5 SET a = 1, b = b + {1}, m['k'] = :v, l = [1] + l, c += 1, u.f = 3 WHERE k = 0 IF a = 3 AND m['x'] != 4",
    "DELETE a, m['x'], u.f FROM t USING TIMESTAMP 3 WHERE k IN (1, 2) IF EXISTS",
    "BEGIN UNLOGGED BATCH USING TIMESTAMP 1 INSERT INTO t (a) VALUES (1); UPDATE t SET a = 1 WHERE k = 1 DELETE FROM t WHERE k = 1; APPLY BATCH;",
    "USE \"Ks\"",
    "TRUNCATE TABLE ks.t",
    "truncate t",
    "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND durable_writes = false",
    "ALTER KEYSPACE ks WITH durable_writes = true",
    "DROP KEYSPACE IF EXISTS ks",
    "CREATE TABLE ks.t (a int, b text STATIC, c frozen<map<text, list<int>>>, v vector<float, 3>, PRIMARY KEY ((a, x), c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x' AND ID = 5a1c395e-b41f-11e5-9f22-ba0be0483c18 AND COMPACT STORAGE AND compaction = {'class': 'A'}",
    "CREATE TABLE t (k int PRIMARY KEY, u 'org.x.Y', w ks.ut)",
    "ALTER TABLE t ADD a int, b text static",
    "ALTER TABLE t ADD IF NOT EXISTS (a int, b text)",
    "ALTER TABLE t DROP (a, b) USING TIMESTAMP 5",
    "ALTER TABLE t RENAME a TO b AND c TO d",
    "ALTER TABLE t WITH gc_grace_seconds = -1 AND caching = {'keys': 'NONE'}",
    "ALTER TABLE t ALTER a TYPE text",
    "DROP TABLE IF EXISTS ks.t",
    "CREATE TYPE ks.u (a int, b frozen<v>)",
    "ALTER TYPE u ADD c int",
    "ALTER TYPE u RENAME a TO b AND c TO d",
    "DROP TYPE IF EXISTS ks.u",
    "CREATE INDEX IF NOT EXISTS i ON ks.t (keys(m))",
    "CREATE CUSTOM INDEX ON t (v) USING 'StorageAttachedIndex' WITH options = {'a': 'b'}",
    "DROP INDEX ks.i",
    "CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t WHERE a IS NOT NULL AND b IS NOT NULL PRIMARY KEY (b, a) WITH comment = 'x'",
    "ALTER MATERIALIZED VIEW v WITH comment = 'y'",
    "DROP MATERIALIZED VIEW IF EXISTS v",
    "CREATE OR REPLACE FUNCTION ks.f (a int, b text) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$ return a; $$",
    "CREATE AGGREGATE a (int) SFUNC f STYPE tuple<int, int> FINALFUNC g INITCOND (0, 0)",
    "DROP FUNCTION IF EXISTS f (int)",
    "DROP AGGREGATE a",
    "CREATE TRIGGER x ON ks.t USING 'c'",
    "DROP TRIGGER x ON ks.t",
    "CREATE ROLE IF NOT EXISTS 'r' WITH PASSWORD = 'p' AND LOGIN = true AND ACCESS TO DATACENTERS {'a', 'b'} AND OPTIONS = {'a': 1}",
    "CREATE USER u WITH PASSWORD 'p' SUPERUSER",
    "ALTER ROLE r WITH HASHED PASSWORD = 'x'",
    "DROP ROLE r",
    "DROP USER IF EXISTS u",
    "ADD IDENTITY 'spiffe' TO ROLE r",
    "DROP IDENTITY 'spiffe'",
    "GRANT SELECT, MODIFY ON KEYSPACE ks TO r",
    "GRANT ALL PERMISSIONS ON ALL KEYSPACES TO r",
    "REVOKE EXECUTE ON FUNCTION ks.f(int) FROM r",
    "GRANT a TO b",
    "REVOKE a FROM b",
    "LIST ROLES OF r NORECURSIVE",
    "LIST ALL PERMISSIONS ON t OF r",
    "LIST USERS",
    "DESCRIBE KEYSPACES",
    "DESC TABLES;",
    "DESCRIBE CLUSTER",
    "DESCRIBE FULL SCHEMA",
    "DESC SCHEMA WITH INTERNALS",
    "DESCRIBE ONLY KEYSPACE ks",
    "DESCRIBE KEYSPACE",
    "DESC TABLE ks.t",
    "DESC MATERIALIZED VIEW v",
    "DESCRIBE TYPE u",
    "desc ks.t",
    "desc tables2",
];

#[test]
fn accepts_the_grammar() {
    for text in ACCEPTED {
        if let Err(error) = parse(text) {
            panic!("{text}\n{error}");
        }
    }
}

#[test]
fn counts_markers_in_order_and_keeps_their_names() {
    let statement = parse("UPDATE t USING TTL ? SET a = :a, b = ? WHERE k = :\"K\"").expect("parses");
    assert_eq!(statement.markers, [None, Some("a".to_string()), None, Some("K".to_string())]);
}

#[test]
fn a_rewound_type_hint_does_not_count_its_markers_twice() {
    let statement = parse("INSERT INTO t (a) VALUES ((?, ?))").expect("parses");
    assert_eq!(statement.markers.len(), 2);
    let statement = parse("SELECT * FROM t WHERE (a, b) > (?, ?) AND (c = ?)").expect("parses");
    assert_eq!(statement.markers.len(), 3);
}

#[test]
fn braces_hold_sets_maps_or_fields() {
    let written = |text: &str| {
        let text = format!("INSERT INTO t (a) VALUES ({text})");
        match parse(&text).expect("parses").kind {
            StatementKind::Insert(insert) => insert.values[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    let one = || Expr::Integer("1".to_string());
    let field = |name: &str| (name.to_string(), one());
    let column = |name: &str| (Expr::Column(name.to_string()), one());
    assert_eq!(written("{a: 1, \"B\": 1}"), Expr::Udt(vec![field("a"), field("B")]));
    assert_eq!(written("{true: 1}"), Expr::Udt(vec![field("true")]));
    assert_eq!(written("{a: 1, 1: 1}"), Expr::Map(vec![column("a"), (one(), one())]));
    assert_eq!(written("{1: 1, a: 1}"), Expr::Map(vec![(one(), one()), column("a")]));
    assert_eq!(written("{1, 1}"), Expr::Set(vec![one(), one()]));
}

#[test]
fn errors_are_worded_as_cassandra_words_them() {
    let text = |input: &str| parse(input).expect_err(input).to_string();
    assert_eq!(text("foo"), "line 1:0 no viable alternative at input 'foo' ([foo])");
    assert_eq!(
        text("SELECT * form t"),
        "line 1:9 mismatched input 'form' expecting K_FROM (SELECT * [form]...)"
    );
    assert_eq!(
        text("SELECT * FROM t WHERE"),
        "line 1:21 no viable alternative at input '<EOF>' (SELECT * FROM t WHERE[EOF])"
    );
    assert_eq!(text(""), "line 1:0 no viable alternative at input '<EOF>' ([EOF])");
    assert!(text("USE ks x").starts_with("line 1:7 mismatched input 'x' expecting EOF"));
    assert!(text("INSERT INTO t (a) VALUES ('b").contains("expecting '''"));
}

#[test]
fn nested_bombs_are_refused() {
    let deep = 100_000;
    for (open, close) in [
        ("[", "]"),
        ("{", "}"),
        ("{a:", "}"),
        ("{a:1,b:", "}"),
        ("(", ")"),
        ("f(", ")"),
        ("-", ""),
        ("(int)", ""),
    ] {
        let bomb = format!("INSERT INTO t (a) VALUES ({}1{})", open.repeat(deep), close.repeat(deep));
        assert!(parse(&bomb).is_err(), "{open}");
    }
    assert!(parse(&format!("SELECT a FROM t WHERE {}a = 1", "(".repeat(deep))).is_err());
    assert!(parse(&format!("SELECT a{} FROM t", "[1]".repeat(deep))).is_err());
    assert!(parse(&format!("SELECT 1{} FROM t", "+1".repeat(deep))).is_err());
    assert!(parse(&format!("CREATE TABLE t (a {}int)", "list<".repeat(deep))).is_err());
    // Each level is read once: with two readings of it, this would take 2^50.
    let open = "{a:".repeat(50);
    assert!(parse(&format!("INSERT INTO t (a) VALUES ({open}")).is_err());
    assert!(parse(&format!("INSERT INTO t (a) VALUES ({open}1, 2:3{})", "}".repeat(50))).is_ok());
    let modest = format!("INSERT INTO t (a) VALUES ({}1{})", "[".repeat(20), "]".repeat(20));
    assert!(parse(&modest).is_ok());
}

proptest! {
    #[test]
    fn never_panics_on_random_text(text in "\\PC{0,80}") {
        let _ = parse(&text);
    }

    #[test]
    fn never_panics_on_random_words(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        let _ = parse(&words.join(" "));
    }

    #[test]
    fn never_panics_on_mutated_statements(
        which in 0..ACCEPTED.len(), at in 0.0..1.0f64, remove in 0..6usize, insert in prop::sample::select(WORDS),
    ) {
        let mut text: Vec<char> = ACCEPTED[which].chars().collect();
        let from = (at * text.len() as f64) as usize;
        let to = (from + remove).min(text.len());
        text.splice(from..to, insert.chars());
        let _ = parse(&text.into_iter().collect::<String>());
    }
}

const WORDS: &[&str] = &[
    "SELECT", "FROM", "WHERE", "t", "a", "=", "<", "(", ")", "[", "]", "{", "}", ",", ";", ":", "?", "'",
    "\"", "1", "1.5", "0x", "--", "/*", "*", "IN", "AND", "token", "INSERT", "INTO", "VALUES", "UPDATE",
    "SET", "BATCH", "BEGIN", "APPLY", "CREATE", "TABLE", "PRIMARY", "KEY", "int", "list", "map", "WITH",
    "NULL", "count", "cast", "as", "..", ".", "$$", "é", "1y", "P1Y", "-", "USING", "TTL", "IF", "NOT",
    "EXISTS", "DESCRIBE", "LIST", "GRANT", "ON", "TO",
];
