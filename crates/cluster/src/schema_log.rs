//! The schema log: one record for each change, rewritten as one snapshot when it has grown.

use crate::{Error, builtin};
use journal::Journal;
use schema::{Change, Schema};
use std::path::Path;
use std::sync::Arc;

/// Changes after which the log is rewritten as a snapshot: replay stays short, rewriting stays rare.
const RECORDS_MAX: usize = 4096;

/// The log on disk. Owned by shard 0.
pub struct SchemaLog {
    journal: Journal,
    records: usize,
}

impl SchemaLog {
    /// Opens or creates the log and replays it. The schema it gives has the built-in tables in it.
    pub async fn open(path: &Path) -> Result<(SchemaLog, Schema), Error> {
        let (journal, records) = Journal::open(path).await?;
        let mut changes = Vec::new();
        for (index, record) in records.iter().enumerate() {
            let decoded = Change::decode_all(record);
            changes.extend(decoded.map_err(|source| Error::Record { index, source })?);
        }
        let last = records.len().saturating_sub(1);
        let schema = Schema::replay(changes).map_err(|source| Error::Record { index: last, source })?;
        Ok((SchemaLog { journal, records: records.len() }, builtin::with_builtin(schema)))
    }

    /// Makes the step from one schema to the next durable.
    /// Errors: it did not happen, for one thing because it could not be read back. What a failed sync may have left of it is written over at once: a table must not take writes
    /// while a record of its drop may be on the disk. Should that fail, too, the log is [unsettled](SchemaLog::is_unsettled).
    pub async fn append(&mut self, from: &Schema, to: &Schema) -> Result<(), Error> {
        let result = self.try_append(from, to).await;
        if result.is_err() {
            self.settle(from).await;
        }
        result
    }

    /// Whether a change that failed may be on the disk all the same: [`SchemaLog::settle`] until it is not.
    pub fn is_unsettled(&self) -> bool {
        self.journal.failed()
    }

    /// Writes what holds over whatever a failed change left.
    pub async fn settle(&mut self, holds: &Schema) {
        if self.is_unsettled()
            && let Err(error) = self.rewrite(holds).await
        {
            runtime::error!(
                "a schema change that failed may come back with a restart until the schema log is written: {error}"
            );
        }
    }

    async fn try_append(&mut self, from: &Schema, to: &Schema) -> Result<(), Error> {
        if self.records >= RECORDS_MAX || self.journal.failed() {
            return self.rewrite(to).await;
        }
        let changes = Change::between(from, to);
        if !changes.is_empty() {
            let record = readable(Change::encode_all(&changes))?;
            self.journal.append(&record).await?;
            self.records += 1;
        }
        Ok(())
    }

    async fn rewrite(&mut self, to: &Schema) -> Result<(), Error> {
        let all = [Change::All(Arc::new(builtin::logged(to)))];
        let record = readable(Change::encode_all(&all))?;
        self.journal.rewrite(&[record]).await?;
        self.records = 1;
        Ok(())
    }
}

/// A record, if it can be read again: with one that cannot, the node would never start again.
fn readable(record: Vec<u8>) -> Result<Vec<u8>, Error> {
    Change::decode_all(&record).map_err(Error::Unreadable)?;
    Ok(record)
}
