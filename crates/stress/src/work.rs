//! What the workers of a run do: operations on the standard tables, or on those of profiles.

use crate::error::Error;
use crate::ledger::{self, Ledger};
use crate::population::{Part, Seeds, Tickets};
use crate::profile::Profile;
use crate::session::{Session, rest};
use crate::settings::tables::Kind;
use crate::settings::{Level, Settings};
use crate::standard::{self, Standard};
use crate::user::{self, Chosen, Spec};
use client::contact::named;
use loadtools::output::Output;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use types::Consistency;
use types::text::quote_name;

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
    /// The standard tables, and what is known of the writes into them where that is wanted.
    Standard(Rc<Session>, Option<Rc<RefCell<Ledger>>>),
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

/// Tables that are emptied together.
pub struct Truncated {
    /// Over which connections.
    pub session: Rc<Session>,
    /// Their names in statements.
    pub tables: Vec<String>,
    /// How they are named to people.
    pub said: String,
}

impl Target {
    /// What a command is about, with its operations and their weights. With an output it is made if it is not there, and told of.
    pub async fn of_settings(
        settings: &Settings,
        output: Option<&Output>,
    ) -> Result<(Target, Vec<(Operation, f64)>), Error> {
        match settings.command.kind {
            Kind::User => user_target(settings, output).await,
            Kind::Read | Kind::Write | Kind::Mixed | Kind::CounterRead | Kind::CounterWrite => {
                standard_target(settings, output).await
            }
        }
    }

    /// The tables, as they are emptied.
    pub fn tables(&self, settings: &Settings) -> Vec<Truncated> {
        match self {
            Target::Standard(session, _) => {
                let (keyspace, tables) = (&settings.schema.keyspace, ["standard1", "counter1"]);
                vec![Truncated {
                    session: session.clone(),
                    tables: tables.iter().map(|table| format!("{}.{table}", quote_name(keyspace))).collect(),
                    said: format!("{keyspace}.[{}]", tables.join(", ")),
                }]
            }
            Target::User(specs) => {
                let of_spec = |spec: &Rc<Spec>| Truncated {
                    session: spec.session.clone(),
                    tables: vec![spec.quoted_name()],
                    said: format!("{}.{}", spec.profile.keyspace, spec.profile.table),
                };
                specs.iter().map(of_spec).collect()
            }
        }
    }

    /// The connections over which followed writes are read back.
    pub fn followed(&self) -> Option<Rc<Session>> {
        match self {
            Target::Standard(session, Some(_)) => Some(session.clone()),
            Target::Standard(_, None) | Target::User(_) => None,
        }
    }

    /// What is known of the writes of this loader.
    pub fn ledger(&self) -> Option<&RefCell<Ledger>> {
        match self {
            Target::Standard(_, ledger) => ledger.as_deref(),
            Target::User(_) => None,
        }
    }

    /// Prepares the statements of operations, for a part of a run; `is_warm_up`: not for one that counts.
    pub async fn prepare(
        &self,
        settings: &Settings,
        operations: &[&Operation],
        (part, is_warm_up): (Part, bool),
    ) -> Result<Prepared, Error> {
        match self {
            Target::Standard(session, ledger) => {
                let operations = operations.iter().filter_map(|operation| match operation {
                    Operation::Standard(operation) => Some(*operation),
                    Operation::User(_) => None,
                });
                let standard =
                    Standard::prepare(session, settings, operations.collect(), ledger.clone()).await;
                let standard = standard.map_err(|error| Error::run(named(&error)))?;
                Ok(Prepared::Standard(Box::new(standard), session.clone()))
            }
            Target::User(specs) => {
                let mut prepared = Vec::new();
                for operation in operations {
                    if let Operation::User(chosen) = operation {
                        let spec = &specs[chosen.spec];
                        let operation = user::prepare(chosen, spec, settings, (part, is_warm_up)).await?;
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

/// The standard tables, made if the command writes, and the operations on them.
async fn standard_target(
    settings: &Settings,
    output: Option<&Output>,
) -> Result<(Target, Vec<(Operation, f64)>), Error> {
    if settings.verify {
        ledger::fits(&settings.population)?;
    }
    let session = Rc::new(Session::connect(settings, None).await?);
    if let Some(output) = output {
        greet(&session, settings, output);
        if matches!(settings.command.kind, Kind::Write | Kind::CounterWrite) {
            create(&session, settings, output).await?;
        }
    }
    let weights = settings.command.weights.iter();
    let operations = weights
        .filter_map(|(name, weight)| Some((Operation::Standard(standard::Operation::of(name)?), *weight)));
    // Every write of this loader will have a later time.
    let ledger = settings.verify.then(|| Ledger::new(&settings.population, session.timestamp()));
    let ledger = ledger.map(|ledger| Rc::new(RefCell::new(ledger)));
    Ok((Target::Standard(session, ledger), operations.collect()))
}

/// The tables of profiles, made if they are not there, and the operations on them.
async fn user_target(
    settings: &Settings,
    output: Option<&Output>,
) -> Result<(Target, Vec<(Operation, f64)>), Error> {
    let profiles: Result<Vec<Profile>, Error> =
        settings.command.profiles.iter().map(|file| Profile::open(file)).collect();
    let profiles = profiles?;
    let bare = match output {
        Some(_) => Some(Session::connect(settings, None).await?),
        None => None,
    };
    let maker = bare.as_ref().zip(output);
    if let Some((bare, output)) = maker {
        greet(bare, settings, output);
    }
    let mut specs: Vec<Spec> = Vec::new();
    for profile in profiles {
        if let Some(same) = specs.iter().find(|spec| spec.profile.name == profile.name) {
            let text = format!("{} and {} have one name: say a specname", same.profile.file, profile.file);
            return Err(Error::run(text));
        }
        specs.push(Spec::open(profile, settings, maker).await?);
    }
    let weights = settings.command.weights.iter();
    let operations: Result<Vec<_>, Error> = weights
        .map(|(name, weight)| Ok((Operation::User(Rc::new(Chosen::of(name, &specs)?)), *weight)))
        .collect();
    if let (false, Some(output)) = (settings.log.no_settings, output) {
        output.line("******************** Profile ********************");
        specs.iter().for_each(|spec| output.line(&spec.described(settings)));
        output.line("");
    }
    Ok((Target::User(specs.into_iter().map(Rc::new).collect()), operations?))
}

fn greet(session: &Session, settings: &Settings, output: &Output) {
    let shards = (0..session.pool.node_count()).map(|node| session.pool.shard_count(node)).max();
    if let Some(shards) = shards.filter(|shards| 1 < *shards && settings.mode.connections_said) {
        output.complain(&format!(
            "WARNING: -mode connectionsPerHost= has no effect on nodes that tell their shards: one connection to each of up to {shards}"
        ));
    }
    if settings.log.level == Level::Minimal {
        return;
    }
    let mode = &settings.mode;
    output.line(&format!(
        "Connected to cluster: {}, max pending requests per connection {}, max connections per host {}",
        session.pool.cluster(),
        mode.pending_max.unwrap_or(client::limits::STREAMS_MAX),
        mode.connections
    ));
    for place in session.pool.places() {
        output.line(&format!(
            "Datacenter: {}; Host: {}; Rack: {}",
            place.datacenter,
            place.address.ip(),
            place.rack
        ));
    }
}

async fn create(session: &Session, settings: &Settings, output: &Output) -> Result<(), Error> {
    for text in standard::schema(settings) {
        session.define(&text, Consistency::LocalQuorum).await.map_err(|error| {
            Error::run(format!("Encountered exception creating schema: {}", named(&error)))
        })?;
    }
    let nodes = settings.node.nodes.len() as u64;
    output.line(&format!("Created keyspaces. Sleeping {nodes}s for propagation."));
    rest(Duration::from_secs(nodes)).await;
    Ok(())
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
    pub async fn begin(&mut self, operation: usize, seeds: &Seeds, tickets: &Tickets) -> u64 {
        match self {
            Work::Standard(standard, _) => standard.begin(operation, seeds, tickets),
            Work::User(worker) => worker.begin(operation, seeds, tickets).await,
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

    /// The statement of what was begun and its values, as failures print them.
    pub fn statement_text(&self) -> String {
        match self {
            Work::Standard(standard, _) => standard.statement_text(),
            Work::User(worker) => worker.statement_text(),
        }
    }
}
