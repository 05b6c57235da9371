//! Prepared statements while the schema changes under them, batches, timestamps, TTLs, traces and warnings.

use std::time::{SystemTime, UNIX_EPOCH};

use scylla::errors::DbError;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::value::Row;

use crate::suite::{Failure, Outcome, equal, that, wait_for};
use crate::talk::{Talk, told};
use crate::values::show;

/// A prepared `SELECT *` shows added columns and hides dropped ones; what cannot be prepared again is told as invalid.
pub async fn prepared_across_changes(talk: &Talk) -> Outcome {
    talk.exec("CREATE TABLE changing (k int PRIMARY KEY, v int)").await?;
    let insert = talk.prepare("INSERT INTO changing (k, v) VALUES (?, ?)").await?;
    let select = talk.prepare("SELECT * FROM changing WHERE k = ?").await?;
    // By protocol 4 nobody tells a client that what it remembers of an answer's columns is old: this one must still
    // read what it knows rightly.
    let mut remembering = talk.prepare("SELECT * FROM changing WHERE k = ?").await?;
    remembering.set_use_cached_result_metadata(true);
    talk.run(&insert, (1, 2)).await?;
    equal("k=1 v=2".into(), read(talk, &select).await?, "before")?;
    equal("k=1 v=2".into(), read(talk, &remembering).await?, "before, remembered")?;
    talk.exec("ALTER TABLE changing ADD w text").await?;
    talk.run(&insert, (2, 3)).await?;
    talk.exec("UPDATE changing SET w = 'new' WHERE k = 1").await?;
    equal("k=1 v=2 w=new".into(), read(talk, &select).await?, "after ADD")?;
    let remembered = read(talk, &remembering).await?;
    that(remembered.starts_with("k=1 v=2"), || format!("after ADD, remembered: {remembered}"))?;
    talk.exec("ALTER TABLE changing DROP v").await?;
    equal("k=1 w=new".into(), read(talk, &select).await?, "after DROP")?;
    let outcome = talk.session.execute_unpaged(&insert, (3, 4)).await;
    equal(DbError::Invalid, told("a write of a dropped column", outcome)?.0, "a dropped column")?;
    talk.exec("DROP TABLE changing").await?;
    let outcome = talk.session.execute_unpaged(&select, (1,)).await;
    equal(DbError::Invalid, told("a read of a dropped table", outcome)?.0, "a dropped table")?;
    Ok(String::new())
}

/// The row with key 1, each value with its column's name.
async fn read(talk: &Talk, select: &PreparedStatement) -> Result<String, Failure> {
    let rows = talk.run(select, (1,)).await?.into_rows_result()?;
    let row = rows.single_row::<Row>()?;
    let columns = rows.column_specs().iter().zip(&row.columns);
    let columns = columns.map(|(column, value)| format!("{}={}", column.name(), show(value.as_ref())));
    Ok(columns.collect::<Vec<_>>().join(" "))
}

/// Batches of both kinds, of prepared statements and of texts; the client's timestamps; rows that end.
pub async fn batches(talk: &Talk) -> Outcome {
    talk.exec("CREATE TABLE batched (k int, c int, v int, PRIMARY KEY (k, c))").await?;
    let insert = talk.prepare("INSERT INTO batched (k, c, v) VALUES (?, ?, ?)").await?;
    for kind in [BatchType::Logged, BatchType::Unlogged] {
        let mut batch = Batch::new(kind);
        let mut values = Vec::new();
        for c in 0..20 {
            batch.append_statement(insert.clone());
            values.push(vec![c % 3, c, c]);
        }
        batch.append_statement("INSERT INTO batched (k, c, v) VALUES (?, 100, ?)");
        values.push(vec![7, 1]);
        batch.append_statement("DELETE FROM batched WHERE k = 0 AND c = 0");
        values.push(vec![]);
        batch.set_timestamp(Some(5000));
        talk.session.batch(&batch, values).await?;
        equal((20i64,), talk.row("SELECT count(*) FROM batched").await?, "rows of a batch")?;
        let time = talk.row("SELECT writetime(v) FROM batched WHERE k = 7").await?;
        equal((5000i64,), time, "time of a batch")?;
        talk.exec("TRUNCATE batched").await?;
    }
    timestamps(talk, insert).await?;
    let lasting = talk.prepare("INSERT INTO batched (k, c, v) VALUES (?, ?, ?) USING TTL ?").await?;
    talk.run(&lasting, (2, 2, 2, 1000)).await?;
    let (left,) = talk.row::<(i32,)>("SELECT ttl(v) FROM batched WHERE k = 2").await?;
    that((1..=1000).contains(&left), || format!("ttl {left}"))?;
    talk.run(&lasting, (3, 3, 3, 1)).await?;
    wait_for("the end of a row with a TTL of a second", async || {
        let (rows,) = talk.row::<(i64,)>("SELECT count(*) FROM batched WHERE k = 3").await?;
        Ok((rows == 0).then_some(()))
    })
    .await?;
    equal((1i64,), talk.row("SELECT count(*) FROM batched WHERE k = 2").await?, "the row that lasts")?;
    Ok(String::new())
}

/// The newer of two timestamps wins, whichever came last; without one the driver sends or the server takes the time.
async fn timestamps(talk: &Talk, mut insert: PreparedStatement) -> Result<(), Failure> {
    const APART_S: u128 = 600;
    insert.set_timestamp(Some(2000));
    talk.run(&insert, (1, 1, 10)).await?;
    insert.set_timestamp(Some(1000));
    talk.run(&insert, (1, 1, 20)).await?;
    let select = "SELECT v, writetime(v) FROM batched WHERE k = 1";
    equal((10, 2000i64), talk.row(select).await?, "the newer timestamp")?;
    insert.set_timestamp(None);
    talk.run(&insert, (1, 1, 30)).await?;
    let (value, time) = talk.row::<(i32, i64)>(select).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let apart = now.abs_diff(time.try_into()?) / 1_000_000;
    that(value == 30 && apart < APART_S, || format!("{value} was written {apart} s from now"))
}

/// Traces of a text, a prepared statement and a batch, and warnings. This driver lets no request carry a payload.
pub async fn extras(talk: &Talk) -> Outcome {
    const LARGE: usize = 4000;
    talk.exec("CREATE TABLE extras (k int PRIMARY KEY, v text)").await?;
    let mut text = Statement::new("INSERT INTO extras (k, v) VALUES (1, 'v')");
    text.set_tracing(true);
    let mut prepared = talk.prepare("SELECT v FROM extras WHERE k = ?").await?;
    prepared.set_tracing(true);
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.append_statement("UPDATE extras SET v = 'w' WHERE k = 2");
    batch.set_tracing(true);
    for (what, result) in [
        ("a text", talk.session.query_unpaged(text, &[]).await?),
        ("a prepared statement", talk.run(&prepared, (1,)).await?),
        ("a batch", talk.session.batch(&batch, ((),)).await?),
    ] {
        let id = result.tracing_id().ok_or_else(|| format!("{what} was not traced"))?;
        let trace = talk.session.get_tracing_info(&id).await?;
        let complete = !trace.events.is_empty() && trace.request.is_some() && trace.coordinator.is_some();
        that(complete, || format!("the trace of {what}: {trace:?}"))?;
    }
    let untraced = talk.exec("SELECT * FROM extras").await?;
    that(untraced.tracing_id().is_none() && untraced.warnings().count() == 0, || "traced unasked".into())?;
    let warnings = |result: &scylla::response::query_result::QueryResult| {
        result.warnings().map(str::to_owned).collect::<String>()
    };
    let warned = warnings(&talk.exec("SELECT count(*) FROM extras").await?);
    that(warned.contains("Aggregation query used without partition key"), || format!("warned: {warned}"))?;
    let mut batch = Batch::new(BatchType::Unlogged);
    let insert = talk.prepare("INSERT INTO extras (k, v) VALUES (?, ?)").await?;
    for _ in 0..2 {
        batch.append_statement(insert.clone());
    }
    let values = [(1, "x".repeat(LARGE)), (2, "x".repeat(LARGE))];
    let warned = warnings(&talk.session.batch(&batch, &values[..]).await?);
    that(warned.contains("exceed"), || format!("warned of a large batch: {warned}"))?;
    Ok("this driver offers no payloads".into())
}
