//! One shard's part of a replica: its store behind messages.

use crate::Error;
use mutation::{DigestFault, Mutation, ReadAnswer, ReadCommand, digest};
use runtime::Bug;
use schema::TableId;
use std::rc::Rc;
use storage::{Durability, Store};

/// The store of this shard, as replicas are spoken to. Installed once per shard.
pub struct Shard {
    store: Rc<Store>,
}

impl Shard {
    /// Wraps a shard's store.
    pub fn new(store: Rc<Store>) -> Shard {
        Shard { store }
    }

    /// Reads this shard's part of what is asked.
    pub async fn read(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        let answer = self.store.read(command).await?;
        Ok(answer)
    }

    /// Applies mutations whose tokens this shard owns, all or none.
    pub async fn write(&self, mutations: Vec<Mutation>, durability: Durability) -> Result<(), Error> {
        Ok(self.store.apply(mutations, durability).await?)
    }

    /// Forgets a table's data up to a time.
    pub async fn truncate(&self, table: TableId, at: i64) -> Result<(), Error> {
        Ok(self.store.truncate(table, at).await?)
    }
}

/// Replaces an answer's rows by their digest, if the store has not done so already.
pub(crate) fn digest_of(mut answer: ReadAnswer) -> ReadAnswer {
    if answer.digest.is_some() {
        return answer;
    }
    let fault = runtime::planted(Bug::DigestStopsAtNull).then_some(DigestFault::StopsAtNull);
    answer.digest = Some(digest(&answer.partitions, fault));
    answer.partitions.clear();
    answer
}
