//! What a shard knows of logins: whom it remembers, and whose turn it is to hash a password.

use crate::error::Error;
use crate::limits;
use crate::settings::Authentication;
use auth::Remembered;
use base::HashMap;
use runtime::metrics::{self, Counter};
use runtime::sync::{Permit, Semaphore};
use std::cell::{Cell, RefCell};

/// What one shard knows of logins.
pub(crate) struct Logins {
    pub(crate) remembered: RefCell<Remembered>,
    /// Logins of one role go one after the other: the first may prove the password to the others. Gone when unused.
    turns: RefCell<HashMap<String, Semaphore>>,
    /// Logins that have a turn or wait for one.
    waiting: Cell<usize>,
    /// One hash of this shard after the other, whichever role asks first.
    pub(crate) own: Semaphore,
    /// Permits for hashing; those of shard 0 are the node's.
    pub(crate) hashes: Semaphore,
    pub(crate) accepted: Counter,
    pub(crate) refused: Counter,
    pub(crate) hashed: Counter,
}

impl Logins {
    /// Nobody has logged in yet.
    pub(crate) fn new(authentication: Authentication) -> Logins {
        let key = runtime::random_uuid().to_be_bytes();
        let Authentication { validity, remembered_max, .. } = authentication;
        let outcome = |name| {
            metrics::counter("messina_query_logins_total", "Logins, by outcome.", &[("outcome", name)])
        };
        Logins {
            remembered: RefCell::new(Remembered::new(key, validity, remembered_max)),
            turns: RefCell::default(),
            waiting: Cell::new(0),
            own: Semaphore::new(1),
            hashes: Semaphore::new(limits::HASHES_AT_ONCE),
            accepted: outcome("accepted"),
            refused: outcome("refused"),
            hashed: metrics::counter("messina_query_password_hashes_total", "Passwords hashed.", &[]),
        }
    }

    /// Waits for the turn of a role, unless too many wait for theirs.
    pub(crate) async fn turn<'a>(&'a self, role: &'a str) -> Result<Turn<'a>, Error> {
        if self.waiting.get() >= limits::LOGINS_WAITING_MAX {
            return Err(too_many());
        }
        self.waiting.set(self.waiting.get() + 1);
        let mut turn = Turn { logins: self, role, permit: None };
        let known = self.turns.borrow().get(role).cloned();
        let semaphore = known.unwrap_or_else(|| {
            let made = Semaphore::new(1);
            self.turns.borrow_mut().insert(role.to_string(), made.clone());
            made
        });
        turn.permit = Some(semaphore.acquire(1).await);
        Ok(turn)
    }
}

/// The turn of a role, or the wait for it; ends on drop.
pub(crate) struct Turn<'a> {
    logins: &'a Logins,
    role: &'a str,
    permit: Option<Permit>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.permit = None;
        self.logins.waiting.set(self.logins.waiting.get() - 1);
        let mut turns = self.logins.turns.borrow_mut();
        let is_unused = |turn: &Semaphore| turn.available() == 1 && turn.waiting() == 0;
        if turns.get(self.role).is_some_and(is_unused) {
            turns.remove(self.role);
        }
    }
}

/// What is told to who waits in vain.
pub(crate) fn too_many() -> Error {
    Error::Overloaded("Too many logins at once".into())
}

/// Waits for one of the node's permits to hash, unless too many do.
pub(crate) async fn wait(turns: &Semaphore) -> Result<Permit, Error> {
    if turns.waiting() >= limits::LOGINS_WAITING_MAX {
        return Err(too_many());
    }
    Ok(turns.acquire(1).await)
}
