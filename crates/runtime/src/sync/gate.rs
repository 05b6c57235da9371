//! Draining what is under way before something closes.

use super::flag::Flag;
use std::cell::Cell;
use std::rc::Rc;

/// Counts operations under way; closing refuses new ones and waits for the old.
#[derive(Clone, Default)]
pub struct Gate(Rc<Inner>);

#[derive(Default)]
struct Inner {
    inside: Cell<usize>,
    closed: Cell<bool>,
    empty: Flag,
}

/// The gate is closed: what it guards is stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateClosed;

impl std::fmt::Display for GateClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("gate is closed")
    }
}

impl std::error::Error for GateClosed {}

/// One operation inside a gate; leaves on drop.
pub struct GateGuard(Rc<Inner>);

impl Gate {
    /// An open gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Goes in, unless the gate is closed.
    pub fn enter(&self) -> Result<GateGuard, GateClosed> {
        if self.0.closed.get() {
            return Err(GateClosed);
        }
        self.0.inside.set(self.0.inside.get() + 1);
        Ok(GateGuard(self.0.clone()))
    }

    /// How many are inside.
    pub fn inside(&self) -> usize {
        self.0.inside.get()
    }

    /// Has `close` been called?
    pub fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    /// Refuses newcomers and waits until everybody has left. May be called more than once.
    pub async fn close(&self) {
        self.0.closed.set(true);
        if self.0.inside.get() > 0 {
            self.0.empty.wait().await;
        }
    }
}

impl Drop for GateGuard {
    fn drop(&mut self) {
        let inside = self.0.inside.get() - 1;
        self.0.inside.set(inside);
        if inside == 0 && self.0.closed.get() {
            self.0.empty.set();
        }
    }
}
