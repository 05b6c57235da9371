//! How many tombstones a read may meet.

use crate::store::Store;
use crate::{Error, TombstoneLimits};
use schema::Table;

/// Whether the tables of a keyspace keep to the limits: the node's own do not, as in Cassandra.
fn is_limited(keyspace: &str) -> bool {
    !matches!(keyspace, "system" | "system_schema")
}

impl Store {
    /// The limits that reads of a table keep to.
    pub fn tombstone_limits(&self, table: &Table) -> TombstoneLimits {
        if is_limited(&table.keyspace) { self.settings.tombstones } else { TombstoneLimits::NONE }
    }

    #[inline]
    pub(crate) fn tombstones_max(&self, table: &Table) -> u32 {
        let most = self.settings.tombstones.fail;
        if is_limited(&table.keyspace) { most } else { u32::MAX }
    }

    /// Counts a read that failed; a line in the log, unless there was one a moment ago.
    pub(crate) fn tell_tombstones(&self, error: &Error) {
        self.metrics.tombstone_failures.inc();
        if self.tombstones_told.take() {
            runtime::error!("a read was aborted: {error}");
        }
    }
}
