//! What a shard knows of logins: whom it remembers, and whose turn it is to hash a password.

use crate::error::Error;
use crate::limits;
use crate::settings::Authentication;
use auth::Remembered;
use runtime::metrics::{self, Counter};
use runtime::sync::{Permit, Semaphore};
use std::cell::RefCell;

/// What one shard knows of logins.
pub(crate) struct Logins {
    pub(crate) remembered: RefCell<Remembered>,
    /// Whoever has to hash a password of this shard's clients waits for those before: one of them may have the same.
    pub(crate) turn: Semaphore,
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
            turn: Semaphore::new(1),
            hashes: Semaphore::new(limits::HASHES_AT_ONCE),
            accepted: outcome("accepted"),
            refused: outcome("refused"),
            hashed: metrics::counter("messina_query_password_hashes_total", "Passwords hashed.", &[]),
        }
    }
}

/// Waits for its turn, unless too many do.
pub(crate) async fn wait(turns: &Semaphore) -> Result<Permit, Error> {
    if turns.waiting() >= limits::LOGINS_WAITING_MAX {
        return Err(Error::Overloaded("Too many logins at once".into()));
    }
    Ok(turns.acquire(1).await)
}
