//! Conditional statements and batches through a whole node: outcomes, levels, what drivers are told of columns.

use crate::harness::{connect, failure, make_kv, one, rows, run, stage};
use client::RowSet;
use protocol::request::Parameters;
use types::{Consistency, Value};

const INVALID: i32 = 0x2200;

fn applied(rows: &RowSet) -> bool {
    let value = rows.rows[0][0].as_deref().expect("[applied] has a value");
    assert_eq!(&*rows.columns[0].name, "[applied]");
    value == [1]
}

fn names(rows: &RowSet) -> Vec<String> {
    rows.columns.iter().map(|column| column.name.to_string()).collect()
}

#[test]
fn the_first_of_two_is_applied_and_the_second_is_shown_why_not() {
    stage(0x0ca5, 2).play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let first = rows(&connection, "INSERT INTO ks.kv (k, v) VALUES (1, 'a') IF NOT EXISTS").await;
        assert!(applied(&first));
        assert_eq!(names(&first), ["[applied]"]);
        let second = rows(&connection, "INSERT INTO ks.kv (k, v) VALUES (1, 'b') IF NOT EXISTS").await;
        assert!(!applied(&second));
        assert_eq!(names(&second), ["[applied]", "k", "v"]);
        assert_eq!(second.rows[0][2].as_deref(), Some(&b"a"[..]));
        let updated = rows(&connection, "UPDATE ks.kv SET v = 'c' WHERE k = 1 IF v = 'a'").await;
        assert!(applied(&updated));
        let none = rows(&connection, "DELETE FROM ks.kv WHERE k = 2 IF EXISTS").await;
        assert!(!applied(&none));
        assert_eq!(names(&none), ["[applied]"]);
        let kept = rows(&connection, "SELECT v FROM ks.kv WHERE k = 1").await;
        assert_eq!(kept.rows[0][0].as_deref(), Some(&b"c"[..]));
    });
}

#[test]
fn a_prepared_conditional_statement_describes_every_result() {
    stage(0x0ca6, 2).play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let text = "INSERT INTO ks.kv (k, v) VALUES (?, 'a') IF NOT EXISTS";
        let prepared = connection.prepare(text).await.unwrap();
        let values = prepared.bind(&[Value::Int(7)]).unwrap();
        for first in [true, false] {
            let parameters = Parameters { values: values.values(), skip_metadata: true, ..one() };
            let rows = connection.execute(&prepared, parameters).await.unwrap().rows();
            assert_eq!(applied(&rows), first);
            assert_eq!(names(&rows).len(), if first { 1 } else { 3 });
        }
    });
}

#[test]
fn a_batch_is_applied_whole_or_not_at_all() {
    stage(0x0ca7, 2).play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "CREATE TABLE ks.c (k int, c int, v int, PRIMARY KEY (k, c))").await;
        let batch = "BEGIN BATCH INSERT INTO ks.c (k, c, v) VALUES (1, 1, 1) IF NOT EXISTS; \
                     INSERT INTO ks.c (k, c, v) VALUES (1, 2, 2) IF NOT EXISTS; \
                     INSERT INTO ks.c (k, c, v) VALUES (1, 3, 3); APPLY BATCH";
        assert!(applied(&rows(&connection, batch).await));
        run(&connection, "DELETE FROM ks.c WHERE k = 1 AND c = 1").await;
        let again = rows(&connection, batch).await;
        assert!(!applied(&again));
        assert_eq!(again.rows.len(), 1, "only one of its rows is there");
        let kept = rows(&connection, "SELECT c FROM ks.c WHERE k = 1").await;
        assert_eq!(kept.rows.len(), 2);
    });
}

#[test]
fn serial_levels_are_for_conditions_and_reads_of_one_partition() {
    stage(0x0ca8, 2).play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let at = |level| Parameters::at(level);
        let plain = "INSERT INTO ks.kv (k, v) VALUES (1, 'a')";
        let (code, text) = failure(&connection, plain, at(Consistency::Serial)).await;
        assert_eq!((code, &*text), (INVALID, "You must use conditional updates for serializable writes"));
        let conditional = format!("{plain} IF NOT EXISTS");
        let (code, text) = failure(&connection, &conditional, at(Consistency::LocalSerial)).await;
        assert_eq!(code, INVALID);
        assert!(text.starts_with("LOCAL_SERIAL is not supported as conditional update commit consistency."));
        let wrong = Parameters { serial_consistency: Some(Consistency::Quorum), ..one() };
        let (code, text) = failure(&connection, &conditional, wrong).await;
        assert_eq!(code, INVALID);
        assert!(text.starts_with("Invalid consistency for conditional update."));
        let local = Parameters { serial_consistency: Some(Consistency::LocalSerial), ..at(Consistency::Any) };
        assert!(applied(&connection.query(&conditional, local).await.unwrap().rows()));
        let read = "SELECT v FROM ks.kv WHERE k = 1";
        let found = connection.query(read, at(Consistency::Serial)).await.unwrap().rows();
        assert_eq!(found.rows.len(), 1);
        let several = "SELECT v FROM ks.kv WHERE k IN (1, 2)";
        let (code, text) = failure(&connection, several, at(Consistency::LocalSerial)).await;
        assert_eq!(code, INVALID);
        assert_eq!(text, "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time");
    });
}
