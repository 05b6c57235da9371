//! Many rows by pages, and requests on the shard that owns the row.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use futures::{StreamExt, TryStreamExt};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::unprepared::Statement;
use scylla::value::Row;

use crate::suite::{Failure, Outcome, Told, equal, that, wait_for};
use crate::talk::Talk;

/// Rows of a partition.
const WIDTH: i64 = 100;
/// Requests at a time.
const AT_ONCE: usize = 256;

/// Writes rows, many at a time, and reads them by pages of two sizes, at once, and from a page's state.
pub async fn paging(talk: &Talk, told: &Told) -> Outcome {
    talk.exec("CREATE TABLE pages (k bigint, c int, v text, PRIMARY KEY (k, c))").await?;
    let insert = talk.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)").await?;
    let insert = &insert;
    futures::stream::iter(0..told.rows)
        .map(|i| talk.run(insert, (i / WIDTH, (i % WIDTH) as i32, format!("value {i}"))))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let mut scan = talk.prepare("SELECT k, c, v FROM pages").await?;
    for size in [5000, 997] {
        scan.set_page_size(size);
        let pager = talk.session.execute_iter(scan.clone(), &[]).await?;
        let mut stream = pager.rows_stream::<(i64, i32, String)>()?;
        let mut seen = Seen::new(told.rows);
        while let Some(row) = stream.try_next().await? {
            seen.row(row)?;
        }
        seen.end()?;
    }
    let mut seen = Seen::new(told.rows);
    for row in talk.exec("SELECT k, c, v FROM pages").await?.into_rows_result()?.rows()? {
        seen.row(row?)?;
    }
    seen.end()?;
    states(talk).await?;
    Ok(format!("{} rows", told.rows))
}

/// Rows that come once each, in the order of their partition.
struct Seen {
    rows: Vec<bool>,
    last: (i64, i32),
}

impl Seen {
    fn new(rows: i64) -> Seen {
        Seen { rows: vec![false; rows as usize], last: (-1, -1) }
    }

    fn row(&mut self, (k, c, v): (i64, i32, String)) -> Result<(), Failure> {
        let i = k * WIDTH + i64::from(c);
        let seen = self.rows.get_mut(i as usize).ok_or_else(|| format!("row {i} was never written"))?;
        that(!*seen && v == format!("value {i}"), || format!("row {i} came twice or as {v}"))?;
        that(self.last.0 != k || self.last.1 < c, || format!("row {i} is out of order"))?;
        *seen = true;
        self.last = (k, c);
        Ok(())
    }

    fn end(self) -> Result<(), Failure> {
        equal(self.rows.len(), self.rows.into_iter().filter(|seen| *seen).count(), "rows")
    }
}

/// Two pages of ten rows, the second by the first one's state as bytes, are the first twenty.
async fn states(talk: &Talk) -> Result<(), Failure> {
    const SIZE: i32 = 10;
    let text = "SELECT k, c FROM pages";
    let page = async |state: PagingState| -> Result<(Vec<Row>, PagingStateResponse), Failure> {
        let statement = Statement::new(text).with_page_size(SIZE);
        let (result, next) = talk.session.query_single_page(statement, &[], state).await?;
        Ok((result.into_rows_result()?.rows::<Row>()?.collect::<Result<_, _>>()?, next))
    };
    let (mut rows, next) = page(PagingState::start()).await?;
    equal(SIZE as usize, rows.len(), "rows of a page")?;
    let ControlFlow::Continue(state) = next.into_paging_control_flow() else {
        return Err("there was no second page".into());
    };
    let bytes = state.as_bytes_slice().ok_or("a state without bytes")?.to_vec();
    rows.extend(page(PagingState::new_from_raw_bytes(bytes)).await?.0);
    let all = talk.exec(format!("{text} LIMIT {}", 2 * SIZE)).await?.into_rows_result()?;
    equal(all.rows::<Row>()?.collect::<Result<Vec<_>, _>>()?, rows, "two pages")
}

/// Waits until the driver has a connection to every shard, all but the first by the shard-aware port, and then looks
/// where requests go: to the shard that owns their row.
pub async fn every_shard(talk: &Talk, told: &Told, ordinary: u16) -> Outcome {
    const SAMPLE: i64 = 200;
    talk.exec("CREATE TABLE owned (k bigint PRIMARY KEY, v text)").await?;
    let insert = talk.prepare("INSERT INTO owned (k, v) VALUES (?, ?)").await?;
    let select = talk.prepare("SELECT v FROM owned WHERE k = ?").await?;
    let mut reached = BTreeMap::new();
    let mut key = 0i64;
    // The driver opens its connections behind the session's back.
    wait_for("requests on every shard", async || {
        for _ in 0..SAMPLE {
            let result = talk.run(&insert, (key, format!("value {key}"))).await?;
            let by = result.request_coordinator();
            reached.insert(by.shard(), by.connection_address().port());
            key += 1;
        }
        Ok((reached.len() >= usize::from(told.shards)).then_some(()))
    })
    .await?;
    if told.shards == 0 {
        equal(vec![None], reached.into_keys().collect(), "shards of a server without")?;
        return Ok("no shards announced".into());
    }
    let shards: Vec<Option<u32>> = (0..u32::from(told.shards)).map(Some).collect();
    equal(shards, reached.keys().copied().collect(), "shards")?;
    let aware = reached.values().filter(|port| **port != ordinary).count();
    let enough = aware + 1 >= usize::from(told.shards);
    that(enough, || format!("only {aware} of {} shards by the shard-aware port: {reached:?}", told.shards))?;
    for k in 0..SAMPLE {
        let token = select.calculate_token(&(k,))?.ok_or("the statement has no token")?;
        let result = talk.run(&select, (k,)).await?;
        let by = result.request_coordinator().clone();
        let sharder = by.node().sharder().ok_or("the node announced no shards")?;
        equal(told.shards, sharder.nr_shards.get(), "shards announced")?;
        equal(Some(sharder.shard_of(token)), by.shard(), &format!("shard of row {k}"))?;
        let (value,) = result.into_rows_result()?.single_row::<(String,)>()?;
        equal(format!("value {k}"), value, "a row")?;
    }
    Ok(format!(
        "{SAMPLE} requests on the owning one of {} shards, {aware} by the shard-aware port",
        told.shards
    ))
}
