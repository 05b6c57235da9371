//! Rows are filtered, grouped and counted after replicas' answers are merged (CASSANDRA-8272): what one replica has not heard of decides nothing.

use crate::many::{Many, at, connect_to, place};
use node::config::CommitlogSync;
use std::time::Duration;
use types::Consistency;

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}";
/// Reads repair nothing, so that node 3 goes on knowing the old values.
const TABLE: &str = "CREATE TABLE ks.r (k int, c int, s int static, v int, PRIMARY KEY (k, c)) \
    WITH ID = 00000000-0000-1000-8000-00000000abcd AND read_repair = 'NONE'";

/// Rows 1 to 8 of each of three partitions have `v = 1`. Behind node 3's back all but the last of each become 2, and rows 7 are deleted; partition 3
/// has another static value.
fn stale() -> Many {
    let mut many = Many::start(91, &[place("dc", "r"); 3], |config| {
        config.hints.enabled = false;
        config.commitlog_sync = CommitlogSync::Batch;
    });
    many.define(&[KEYSPACE, TABLE]);
    many.play(async {
        let connection = connect_to(1).await;
        for k in 1..=3 {
            let fixed = format!("INSERT INTO ks.r (k, s) VALUES ({k}, 1)");
            connection.query(&fixed, at(Consistency::All)).await.unwrap();
            for c in 1..=8 {
                let row = format!("INSERT INTO ks.r (k, c, v) VALUES ({k}, {c}, 1)");
                connection.query(&row, at(Consistency::All)).await.unwrap();
            }
        }
    });
    many.world.kill(many.node(3));
    many.world.run_for(Duration::from_secs(3));
    many.play(async {
        let connection = connect_to(1).await;
        for k in 1..=3 {
            for c in 1..=7 {
                let change = match c {
                    7 => format!("DELETE FROM ks.r WHERE k = {k} AND c = {c}"),
                    _ => format!("UPDATE ks.r SET v = 2 WHERE k = {k} AND c = {c}"),
                };
                connection.query(&change, at(Consistency::Quorum)).await.unwrap();
            }
        }
        connection.query("UPDATE ks.r SET s = 2 WHERE k = 3", at(Consistency::Quorum)).await.unwrap();
    });
    many.restart(3);
    many.world.run_for(Duration::from_secs(3));
    many
}

/// The whole answer, page after page of `size` rows, every value as CQL has it.
async fn all(node: usize, text: &str, level: Consistency, size: u32) -> Vec<String> {
    let connection = connect_to(node).await;
    let (mut found, mut state): (Vec<String>, Option<Vec<u8>>) = (Vec::new(), None);
    loop {
        let mut parameters = at(level);
        parameters.page_size = Some(size);
        parameters.paging_state = state.as_deref();
        let rows = connection.query(text, parameters).await.unwrap().rows();
        for row in 0..rows.rows.len() {
            let value = |column| rows.value(row, column).unwrap().to_cql();
            found.push((0..rows.columns.len()).map(value).collect::<Vec<_>>().join(" "));
        }
        state = rows.paging_state.clone();
        if state.is_none() {
            return found;
        }
    }
}

#[test]
fn a_stale_row_of_one_replica_is_neither_shown_nor_counted() {
    let mut many = stale();
    let stale_there =
        many.play(all(3, "SELECT k, c FROM ks.r WHERE v = 1 ALLOW FILTERING", Consistency::One, 100));
    assert_eq!(stale_there.len(), 24, "node 3 knows nothing of it");
    let questions: [(&'static str, &[&str]); 8] = [
        ("SELECT k, c FROM ks.r WHERE k = 1 AND v = 1 ALLOW FILTERING", &["1 8"]),
        ("SELECT k, c FROM ks.r WHERE k = 1 AND v = 1 LIMIT 1 ALLOW FILTERING", &["1 8"]),
        ("SELECT k, c FROM ks.r WHERE v = 1 ALLOW FILTERING", &["1 8", "2 8", "3 8"]),
        ("SELECT k, c FROM ks.r WHERE v = 1 PER PARTITION LIMIT 1 ALLOW FILTERING", &["1 8", "2 8", "3 8"]),
        ("SELECT count(*) FROM ks.r WHERE v = 2 ALLOW FILTERING", &["18"]),
        (
            "SELECT k, count(*), min(v) FROM ks.r WHERE v < 3 GROUP BY k ALLOW FILTERING",
            &["1 7 1", "2 7 1", "3 7 1"],
        ),
        ("SELECT k, c FROM ks.r WHERE s = 1 AND v = 1 ALLOW FILTERING", &["1 8", "2 8"]),
        ("SELECT k, c FROM ks.r WHERE s = 2 AND c > 6 ALLOW FILTERING", &["3 8"]),
    ];
    for node in 1..=3 {
        for level in [Consistency::Quorum, Consistency::All] {
            for size in [1, 3, 100] {
                for (text, expected) in questions {
                    let mut found = many.play(all(node, text, level, size));
                    found.sort();
                    assert_eq!(found, expected, "{text} at {level} from node {node}, {size} rows at a time");
                }
            }
        }
    }
}

#[test]
fn a_limit_is_met_by_rows_that_are_there() {
    let mut many = stale();
    for node in 1..=3 {
        let text = "SELECT k, c FROM ks.r WHERE v = 1 LIMIT 2 ALLOW FILTERING";
        let found = many.play(all(node, text, Consistency::Quorum, 100));
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|row| row.ends_with(" 8")), "{found:?}");
    }
}
