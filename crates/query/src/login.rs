//! Logging in: names and passwords against the roles of the cluster, which this node has in memory whoever else is there, or against
//! `system_auth.roles` of a lone node.
//!
//! ```text
//!   AUTH_RESPONSE ─▶ remembered? ── no ──▶ read the role ─▶ hash (few at once on the node, off its shards) ─▶ remember
//!                        └── yes, with this password ──────────────────────────────────────────────────────▶ in
//! ```
//! Hashing takes tens of milliseconds of a processor by design. Logins of one role go one after the other, roles take
//! turns, and shard 0 hands out the permits, so that a storm of logins waits for itself and requests do not. Whoever has
//! left or waited for too long when the turn comes costs no hash. A role that is not there costs what any other costs.

use crate::engine::Engine;
use crate::error::Error;
use crate::limits;
use crate::logins::{too_many, wait};
use crate::settings::Authenticator;
use auth::{Cost, Credentials, Known};
use base::Instant;
use runtime::{Group, ShardId};
use std::rc::Rc;
use types::Consistency;

/// The role that is made when there is none, and its password, as everybody knows.
pub(crate) const DEFAULT_ROLE: &str = "cassandra";

impl Engine {
    /// How clients say who they are.
    pub fn authenticator(&self) -> Authenticator {
        self.settings.authentication.authenticator
    }

    /// Checks what a client answered to AUTHENTICATE; the name it is known by from now on.
    /// `deadline`: until when it may wait for others. `has_left`: whether the client is gone, asked before hashing.
    /// Errors: `BadCredentials`, and the client may try again; `Overloaded`.
    pub async fn login(
        &self,
        response: &[u8],
        deadline: Instant,
        has_left: impl Fn() -> bool,
    ) -> Result<Rc<str>, Error> {
        let checked = runtime::timeout_at(deadline, self.check_login(response, deadline, has_left)).await;
        let outcome = checked.unwrap_or_else(|_| Err(too_many()));
        match &outcome {
            Ok(_) => self.logins.accepted.inc(),
            Err(_) => self.logins.refused.inc(),
        }
        outcome
    }

    async fn check_login(
        &self,
        response: &[u8],
        deadline: Instant,
        has_left: impl Fn() -> bool,
    ) -> Result<Rc<str>, Error> {
        let Credentials { name, password } = Credentials::read(response)?;
        let (mut known, mut verified) = self.known(&name, &password).await?;
        if !verified {
            // Names of nobody share one turn: who makes names up waits for himself.
            let _turn = self.logins.turn(if known.exists { &name } else { "" }).await?;
            let _own = self.logins.own.acquire(1).await;
            if has_left() {
                return Err(too_many());
            }
            // A driver opens many connections at once: the first of them has proven the password to the others.
            (known, verified) = self.known(&name, &password).await?;
            if !verified {
                let (given, hash) = (password.clone(), known.salted_hash.clone());
                let matches = hashing(Some(deadline), move || auth::verify(&given, &hash)).await?;
                if !matches || !known.exists {
                    return Err(auth::Error::Incorrect(name.clone()).into());
                }
                self.logins.remembered.borrow_mut().verified(&name, &password, &known.salted_hash);
            }
        }
        if !known.can_login {
            return Err(auth::Error::NoLogin(name).into());
        }
        Ok(name.into())
    }

    /// What is known of a role, remembered or read, and whether this password is known to be its own.
    async fn known(&self, name: &str, password: &str) -> Result<(Known, bool), Error> {
        let remembered = self.logins.remembered.borrow().get(runtime::now(), name, password);
        if let Some(found) = remembered {
            return Ok(found);
        }
        let changes = self.logins.remembered.borrow().changes();
        let known = self.read_login(name).await?;
        let mut remembered = self.logins.remembered.borrow_mut();
        // A role that changed meanwhile may have been read as it was.
        if remembered.changes() == changes {
            remembered.learn(runtime::now(), name, known.clone());
        }
        Ok((known, false))
    }

    /// A role that is not there, or has no password, is nobody.
    async fn read_login(&self, name: &str) -> Result<Known, Error> {
        if let Some(roles) = self.shared_roles() {
            let role = roles.roles.get(name);
            let known = role.and_then(|role| {
                let salted_hash = role.salted_hash.clone()?;
                Some(Known { salted_hash, can_login: role.login, exists: true })
            });
            return Ok(known.unwrap_or_else(|| Known::nobody(cost())));
        }
        let text = "SELECT salted_hash, can_login FROM system_auth.roles WHERE role = ?";
        let rows = self.internal(text, &[Some(name.as_bytes())], self.role_read_level(name)).await;
        let rows =
            rows.map_err(|e| Error::BadCredentials(format!("Unable to perform authentication: {e}")))?;
        let known = rows.into_iter().next().and_then(|mut row| {
            let can_login = row.pop()?.is_some_and(|value| value == [1]);
            let salted_hash = String::from_utf8(row.pop()??).ok()?;
            Some(Known { salted_hash, can_login, exists: true })
        });
        Ok(known.unwrap_or_else(|| Known::nobody(cost())))
    }

    /// How many replicas are asked for a role. The default one, which a node makes by itself, is read and written by more
    /// than half, as in Cassandra.
    pub(crate) fn role_read_level(&self, name: &str) -> Consistency {
        if name == DEFAULT_ROLE { Consistency::Quorum } else { self.settings.authentication.read_level }
    }

    /// How many replicas must have what is written of a role.
    pub(crate) fn role_write_level(&self, name: &str) -> Consistency {
        if name == DEFAULT_ROLE { Consistency::Quorum } else { self.settings.authentication.write_level }
    }

    /// Makes the default superuser if there is no role at all; tries again until that is known or the node stops.
    pub async fn keep_a_role(&self) {
        while !runtime::shutdown_is_requested() {
            let made = match self.make_default_role().await {
                // Statements are judged from here on.
                Ok(made) => self.show_own_roles().await.map(|()| made),
                Err(error) => Err(error),
            };
            match made {
                Ok(false) => return,
                Ok(true) => {
                    runtime::info!("made the superuser '{DEFAULT_ROLE}', whose password everybody knows");
                    return;
                }
                Err(_) if runtime::shutdown_is_requested() => return,
                Err(error) => runtime::warn!("cannot look up the default role yet: {error}"),
            }
            runtime::sleep(limits::DEFAULT_ROLE_RETRY).await;
        }
    }

    /// Makes the default superuser if there is no role at all. Whether it did.
    async fn make_default_role(&self) -> Result<bool, Error> {
        // A cluster is founded with one.
        if self.shared_roles().is_some() {
            return Ok(false);
        }
        let any = "SELECT role FROM system_auth.roles LIMIT 1";
        if !self.internal(any, &[], Consistency::Quorum).await?.is_empty() {
            return Ok(false);
        }
        let hash = new_hash(DEFAULT_ROLE.to_string()).await?;
        let text = "INSERT INTO system_auth.roles (role, is_superuser, can_login, salted_hash) \
                    VALUES (?, true, true, ?)";
        let values = [Some(DEFAULT_ROLE.as_bytes()), Some(hash.as_bytes())];
        self.internal(text, &values, Consistency::Quorum).await?;
        Ok(true)
    }
}

/// The hash of a new password.
pub(crate) async fn new_hash(password: String) -> Result<String, Error> {
    let mut salt = [0; 16];
    salt[..8].copy_from_slice(&runtime::random_u64().to_be_bytes());
    salt[8..].copy_from_slice(&runtime::random_u64().to_be_bytes());
    let cost = cost();
    hashing(None, move || auth::hash(&password, cost, salt)).await
}

fn cost() -> Cost {
    if runtime::simulated() { Cost::LEAST } else { Cost::USUAL }
}

/// Forgets on every shard what is known of a role of a lone node, because it has changed. What a cluster changes, each shard forgets as it is shown it.
pub(crate) async fn forget_login(name: &str) {
    for shard in 0..runtime::shard_count() {
        let name = name.to_string();
        runtime::submit_to(ShardId(shard), Group::QUERY, move || async move {
            if let Some(engine) = runtime::try_local::<Engine>() {
                engine.logins.remembered.borrow_mut().forget(&name);
            }
        })
        .await;
    }
}

/// Runs work with passwords on a helper thread, with one of the node's few permits for it; not after `deadline`.
async fn hashing<T: Send + 'static>(
    deadline: Option<Instant>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    runtime::submit_to(ShardId(0), Group::QUERY, move || async move {
        let engine = runtime::local::<Engine>();
        let _permit = wait(&engine.logins.hashes).await?;
        if deadline.is_some_and(|deadline| runtime::now() >= deadline) {
            return Err(too_many());
        }
        engine.logins.hashed.inc();
        Ok(runtime::compute(work).await)
    })
    .await
}
