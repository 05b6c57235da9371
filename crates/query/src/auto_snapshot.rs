//! A snapshot of what a DROP takes away, where the operator wants one.

use crate::engine::Engine;
use crate::error::Error;
use cql::{ChangeContext, SchemaChange};
use schema::{Schema, TableId};

impl Engine {
    /// Makes a snapshot of the tables that a change would drop.
    /// Errors: there is none, and nothing may be dropped.
    pub(crate) async fn snapshot_dropped(
        &self,
        schema: &Schema,
        change: &SchemaChange,
        context: &ChangeContext,
    ) -> Result<(), Error> {
        // What is wrong with the change is told when it is made.
        let Ok(Some(applied)) = cql::apply(schema, change, context) else { return Ok(()) };
        let gone = schema.tables().filter(|table| applied.schema.table_by_id(table.id).is_none());
        let gone: Vec<TableId> = gone.map(|table| table.id).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let made = self.coordinator.local().snapshot_before_drop(gone).await;
        made.map_err(|error| {
            Error::Server(format!(
                "nothing was dropped, because no snapshot could be made (auto_snapshot): {error}"
            ))
        })
    }
}
