//! What the workers of a run do: operations on the standard tables, or on those of profiles.

use crate::error::Error;
use crate::population::{Seeds, Tickets};
use crate::session::Session;
use crate::settings::Settings;
use crate::standard::{self, Standard};
use crate::user::{self, Chosen, Spec};
use client::contact::named;
use std::rc::Rc;

/// What an operation wrote or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Partitions.
    pub partitions: u64,
    /// Rows.
    pub rows: u64,
}

/// An operation of a run.
#[derive(Clone)]
pub enum Operation {
    /// On the standard tables.
    Standard(standard::Operation),
    /// On a profile's.
    User(Rc<Chosen>),
}

impl Operation {
    /// Its name in output.
    pub fn name(&self) -> &str {
        match self {
            Operation::Standard(operation) => operation.name(),
            Operation::User(chosen) => &chosen.name,
        }
    }
}

/// Where operations go.
pub enum Target {
    /// The standard tables.
    Standard(Rc<Session>),
    /// Those of profiles.
    User(Vec<Rc<Spec>>),
}

/// Operations with their statements.
pub enum Prepared {
    /// On the standard tables; each worker has a copy.
    Standard(Box<Standard>, Rc<Session>),
    /// On those of profiles.
    User(Vec<(Rc<user::Operation>, Rc<Spec>)>),
}

impl Target {
    /// Prepares the statements of operations; `is_warm_up`: not for a run that counts.
    pub async fn prepare(
        &self,
        settings: &Settings,
        operations: &[&Operation],
        is_warm_up: bool,
    ) -> Result<Prepared, Error> {
        match self {
            Target::Standard(session) => {
                let operations = operations.iter().filter_map(|operation| match operation {
                    Operation::Standard(operation) => Some(*operation),
                    Operation::User(_) => None,
                });
                let standard = Standard::prepare(session, settings, operations.collect()).await;
                let standard = standard.map_err(|error| Error::run(named(&error)))?;
                Ok(Prepared::Standard(Box::new(standard), session.clone()))
            }
            Target::User(specs) => {
                let mut prepared = Vec::new();
                for operation in operations {
                    if let Operation::User(chosen) = operation {
                        let spec = &specs[chosen.spec];
                        let operation = user::prepare(chosen, spec, settings, is_warm_up).await?;
                        prepared.push((Rc::new(operation), spec.clone()));
                    }
                }
                Ok(Prepared::User(prepared))
            }
        }
    }
}

impl Prepared {
    /// What one more worker does.
    pub fn work(&self) -> Work {
        match self {
            Prepared::Standard(standard, session) => Work::Standard(standard.clone(), session.clone()),
            Prepared::User(operations) => Work::User(Box::new(user::Worker::new(operations))),
        }
    }
}

/// What one worker does; operations go by their number.
pub enum Work {
    /// On the standard tables.
    Standard(Box<Standard>, Rc<Session>),
    /// On those of profiles.
    User(Box<user::Worker>),
}

impl Work {
    /// Makes the next request of an operation; how many partitions it touches, none when the run ends.
    pub fn begin(&mut self, operation: usize, seeds: &Seeds, tickets: &Tickets) -> u64 {
        match self {
            Work::Standard(standard, _) => standard.begin(operation, seeds, tickets),
            Work::User(worker) => worker.begin(operation, seeds, tickets),
        }
    }

    /// Sends it. What came back or was written; `Ok(None)` when it is not what was written.
    pub async fn send(&mut self) -> Result<Option<Touched>, client::Error> {
        match self {
            Work::Standard(standard, session) => standard.send(session).await,
            Work::User(worker) => worker.send().await,
        }
    }

    /// It has ended, well or not.
    pub fn end(&mut self, seeds: &Seeds) {
        match self {
            Work::Standard(standard, _) => standard.end(seeds),
            Work::User(worker) => worker.end(seeds),
        }
    }

    /// The keys of what was begun, as failures name them.
    pub fn key_text(&self) -> String {
        match self {
            Work::Standard(standard, _) => standard.key_text(),
            Work::User(worker) => worker.key_text(),
        }
    }
}
