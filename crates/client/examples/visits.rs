//! Prepares a statement, writes a row where its partition lives, and reads it back; any node of the cluster is found by one of them.

use client::{Error, Options, Pool, PoolOptions};
use protocol::envelope::Version;
use protocol::request::Parameters;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use types::{Consistency, Value};

async fn visit(node: SocketAddr) -> Result<Vec<Vec<Value>>, Error> {
    let pool = Pool::connect(&[node], PoolOptions::new(Options::new(Version::V5))).await?;
    let at_one = Parameters::at(Consistency::One);
    for text in [
        "CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS shop.visits (who text PRIMARY KEY, page text)",
    ] {
        pool.query(text, at_one).await?;
    }
    let insert = pool.prepare("INSERT INTO shop.visits (who, page) VALUES (?, ?)").await?;
    let row = insert.bind(&[Value::text("Ada"), Value::text("/engines")])?;
    pool.execute(&insert, Parameters { values: row.values(), ..at_one }).await?;
    let read = pool.prepare("SELECT page FROM shop.visits WHERE who = ?").await?;
    let key = read.bind(&[Value::text("Ada")])?;
    pool.execute(&read, Parameters { values: key.values(), ..at_one }).await?.rows().values()
}

fn main() -> ExitCode {
    let config = runtime::Config { overprovisioned: true, ..runtime::Config::new(1) };
    let main: runtime::Main = Arc::new(|| {
        Box::pin(async {
            let found = visit(SocketAddr::from(([127, 0, 0, 1], 9042))).await;
            i32::from(!found.is_ok_and(|rows| rows == [[Value::text("/engines")]]))
        })
    });
    if runtime::run(config, main) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
