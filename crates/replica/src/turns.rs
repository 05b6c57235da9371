//! One at a time of each partition, first come first served.

use base::HashMap;
use mutation::Key;
use runtime::sync::Lock;
use schema::TableId;
use std::cell::RefCell;
use std::rc::Rc;

/// Partitions at work, and who waits for them.
#[derive(Default)]
pub struct Turns {
    of: RefCell<HashMap<(TableId, Key), Rc<Lock<()>>>>,
}

/// A place in the queue of a partition; the queue is forgotten with its last place.
pub struct Place<'t> {
    turns: &'t Turns,
    whose: (TableId, Key),
    lock: Rc<Lock<()>>,
}

impl Turns {
    /// Takes a place in the queue of a partition; [`Place::lock`] waits.
    pub fn place(&self, table: TableId, key: Key) -> Place<'_> {
        let whose = (table, key);
        let lock =
            self.of.borrow_mut().entry(whose.clone()).or_insert_with(|| Rc::new(Lock::new(()))).clone();
        Place { turns: self, whose, lock }
    }
}

impl Place<'_> {
    /// Held: it is this one's turn.
    pub fn lock(&self) -> &Lock<()> {
        &self.lock
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Its own and that of the map.
        if Rc::strong_count(&self.lock) == 2 {
            self.turns.of.borrow_mut().remove(&self.whose);
        }
    }
}
