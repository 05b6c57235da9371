//! Looking ahead: what requests that wait in a connection's buffer will look at is asked of memory before their turn.
//!
//! With more in memory than a processor keeps near, a read of one row waits for a chain of five to twelve places, each of
//! which tells where the next one is, longer than it computes. Requests that wait have chains of their own, and memory serves
//! many at once. So each request enters here some requests before its turn, and every call brings all that wait here one place
//! further. These are hints: nothing is read that way, nothing changes, and a request that never comes does no harm.

use crate::limits::PREFETCH_MEMORY_MIN;
use crate::store::Store;
use crate::table::TableStore;
use base::Token;
use schema::TableId;
use std::rc::Rc;

/// How many places of a chain are asked for one after the other. Who looks as many requests ahead waits for none of them.
pub const PREFETCH_STEPS: usize = 5;
/// A flush leaves one memtable behind the active one; more are rare.
const MEMTABLES: usize = 2;

/// What a request will do with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Look into memtables and the row cache.
    Read,
    /// Look into the newest memtable.
    Write,
}

struct Coming {
    table: Rc<TableStore>,
    token: Token,
    purpose: Purpose,
}

/// Requests that will come, the last one first.
#[derive(Default)]
pub(crate) struct Ahead {
    coming: [Option<Coming>; PREFETCH_STEPS],
}

impl Store {
    /// Whether so much is in memory that [`Store::prefetch`] is worth what it costs. O(1).
    pub fn is_prefetch_worth(&self) -> bool {
        runtime::rare("little_is_looked_ahead_for")
            || self.pressure.memory() + self.cache.bytes() >= PREFETCH_MEMORY_MIN
    }

    /// A request about a partition of this shard will come. Also brings those told before one place further.
    /// Cost:   some 20 ns; waits for no memory if other requests ran since the last call.
    pub fn prefetch(&self, table: TableId, token: Token, purpose: Purpose) {
        let table = self.tables.borrow().get(&table).cloned();
        self.advance(table.map(|table| Coming { table, token, purpose }));
    }

    /// Brings what was told before one place further.
    pub fn prefetch_on(&self) {
        self.advance(None);
    }

    fn advance(&self, next: Option<Coming>) {
        let Ahead { coming } = &mut *self.ahead.borrow_mut();
        coming.rotate_right(1);
        coming[0] = next;
        for (step, coming) in coming.iter().enumerate() {
            let Some(Coming { table, token, purpose }) = coming else { continue };
            table.with_version(|version, _| match purpose {
                Purpose::Write => version.active.prefetch(*token, step),
                Purpose::Read => {
                    version.memtables().take(MEMTABLES).for_each(|memtable| memtable.prefetch(*token, step));
                    if !version.sstables.is_empty() {
                        self.cache.prefetch(&table.cache, *token, step);
                    }
                }
            });
        }
    }
}
