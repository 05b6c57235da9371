//! Statements that change the schema: each is known to all nodes before the next one is asked for.

use crate::connection::Connection;
use crate::error::Error;
use crate::limits::{AGREEMENT_PAUSE, AGREEMENT_WITHIN};
use crate::outcome::Outcome;
use crate::pool::Pool;
use protocol::request::Parameters;
use std::net::IpAddr;
use types::{Consistency, Value};

impl Pool {
    /// Runs a statement that may change the schema, on any node; then waits until that node and all others that can be reached have one version of
    /// it, at most [`AGREEMENT_WITHIN`]: what comes next may be asked of any of them. It waits also when nothing was changed, as somebody else may
    /// have changed it just now.
    pub async fn define(&self, text: &str, consistency: Consistency) -> Result<Outcome, Error> {
        let connection = self.connection(None).await?;
        let outcome = connection.query(text, Parameters::at(consistency)).await?;
        let until = runtime::now() + AGREEMENT_WITHIN;
        let mut away = Vec::new();
        while runtime::now() < until {
            let mut differs = false;
            for node in dissenting(&connection).await? {
                // Nobody need wait for a node that is down: it learns of it when it returns.
                if !away.contains(&node) && self.is_away(node).await {
                    away.push(node);
                }
                differs |= !away.contains(&node);
            }
            if !differs {
                break;
            }
            runtime::sleep(AGREEMENT_PAUSE).await;
        }
        Ok(outcome)
    }
}

/// The nodes that have another version of the schema than the one asked, as that one knows. None where servers do not tell.
async fn dissenting(connection: &Connection) -> Result<Vec<IpAddr>, Error> {
    let at_one = Parameters::at(Consistency::One);
    let asked = async |text| match connection.query(text, at_one).await {
        Ok(outcome) => Ok(outcome.rows()),
        Err(Error::Failure(_)) => Ok(Outcome::Void.rows()),
        Err(error) => Err(error),
    };
    let local = asked("SELECT schema_version FROM system.local").await?.value(0, 0)?;
    let peers = asked("SELECT rpc_address, schema_version FROM system.peers").await?;
    let mut differing = Vec::new();
    for row in 0..peers.rows.len() {
        // A node that has just come has told nothing yet.
        if let (Value::Inet(ip), version @ Value::Uuid(_)) = (peers.value(row, 0)?, peers.value(row, 1)?)
            && version != local
        {
            differing.push(ip);
        }
    }
    Ok(differing)
}
