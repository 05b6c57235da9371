//! Writes that a truncation has overtaken.
//!
//! A truncation takes what a table holds when it comes. What was planned before it and arrives behind it would bring rows back, on this
//! node or, by repairs, on all: it is refused. What decides is the point in the cluster's history that a write was planned on, never its
//! timestamp: after a truncation a client may write with any timestamp it likes.

use crate::Error;
use base::HashMap;
use mutation::Mutation;
use schema::TableId;
use std::cell::{Cell, RefCell};

/// A point in the cluster's history: epoch, then index. The store compares points and knows nothing more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(pub u64, pub u64);

impl Point {
    /// Of a node that has no cluster.
    pub const ALONE: Point = Point(0, 0);
    /// Of what is begun and ended on this shard in one step: never too late.
    pub const NOW: Point = Point(u64::MAX, u64::MAX);
}

/// When something was planned that is not written at once: part of a logged batch, a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// What its first coordinator knew of the cluster. It goes along through every hand-over.
    pub on: Point,
    /// Microseconds since the Unix epoch, by [`crate::Store::next_time`] of that coordinator.
    pub at: i64,
}

/// The least point that writes of a table may be planned on, of tables that were truncated.
#[derive(Default)]
pub(crate) struct Floors {
    of_table: RefCell<HashMap<TableId, Point>>,
    /// No floor is higher, so that most writes compare once.
    highest: Cell<Option<Point>>,
}

impl Floors {
    /// Takes new ones in place of all others.
    pub(crate) fn set(&self, floors: impl Iterator<Item = (TableId, Point)>) {
        let floors: HashMap<TableId, Point> = floors.collect();
        self.highest.set(floors.values().max().copied());
        *self.of_table.borrow_mut() = floors;
    }

    pub(crate) fn of(&self, table: TableId) -> Option<Point> {
        self.of_table.borrow().get(&table).copied()
    }

    /// Refuses mutations of which one was overtaken. To be asked in the step that logs or applies them.
    pub(crate) fn admit(&self, mutations: &[Mutation], on: Point) -> Result<(), Error> {
        if self.highest.get().is_none_or(|highest| highest <= on) {
            return Ok(());
        }
        let floors = self.of_table.borrow();
        let overtaken = |mutation: &Mutation| {
            let table = mutation.table();
            floors.get(&table).filter(|floor| on < **floor).map(|floor| (table, *floor))
        };
        match mutations.iter().find_map(overtaken) {
            // The mistake that the checker of a cluster must notice.
            Some(_) if runtime::planted(runtime::Bug::LateWriteAfterTruncate) => Ok(()),
            Some((table, floor)) => Err(Error::Overtaken { table, floor }),
            None => Ok(()),
        }
    }
}
