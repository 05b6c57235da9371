//! The floor of a node, over its shards: raised for good, and read when it starts. See [`crate::floor`].

use crate::Error;
use crate::floor::NO_FLOOR;
use crate::local::Local;
use crate::message::FloorAsked;
use crate::shard::Shard;
use paxos::{Ballot, Records};
use runtime::{Bug, Group, ShardId};
use storage::{Durability, Point};

impl Local {
    /// Has this node take part in no round up to a time, in microseconds since the Unix epoch; it never will again, whatever happens. Returns the floor,
    /// which may be a later one, when what was at work below it is over. Or only says whether that can be done.
    /// Errors: by this node's clock that time is still to come, or it could not be written: nothing may lean on it.
    /// Cost: a sync, where it rises, and a message to every shard.
    pub async fn raise_floor(&self, asked: FloorAsked, on: Point) -> Result<i64, Error> {
        let raise = move || async move {
            let first = Local::new(runtime::local::<Shard>());
            first.raise_on_first(asked, on).await
        };
        runtime::submit_to(ShardId(0), Group::QUERY, raise).await
    }

    async fn raise_on_first(&self, asked: FloorAsked, on: Point) -> Result<i64, Error> {
        let FloorAsked { raises, at: micros, .. } = asked;
        let here = self.here().floor();
        let _turn = here.raising.lock().await;
        let floor = Ballot::floor(micros);
        if micros == NO_FLOOR || floor <= here.at() {
            return Ok(here.at().micros());
        }
        // ⚔ A floor in the future would close every partition until then.
        if runtime::unix_micros() < micros {
            return Err(Error::Refused("by the clock of this node that time is still to come".into()));
        }
        if !raises {
            return Ok(micros);
        }
        // ⚔ First: what leans on it must find it after a loss of power.
        if !runtime::planted(Bug::FloorNotDurable) {
            let row = self.here().records().floor(floor);
            self.write(vec![row], Durability::Synced, on).await?;
        }
        show(floor).await;
        Ok(micros)
    }

    /// Has every shard of a node that starts know its floor. Nobody may be answered before.
    /// Errors: it cannot be read.
    pub async fn open_floor(&self) -> Result<(), Error> {
        let answer = self.read(&self.here().records().floor_command(runtime::unix_seconds())).await?;
        let floor = Records::floor_in(&answer).map_err(|error| Error::Failed(error.to_string()))?;
        show(floor).await;
        Ok(())
    }
}

async fn show(floor: Ballot) {
    let raise = move || async move { runtime::local::<Shard>().floor().raise(floor).await };
    runtime::on_every_shard(Group::QUERY, raise).await;
}
