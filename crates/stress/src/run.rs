//! A run: schema, warm-up, operations until the end that was asked for, lines meanwhile, results.

use crate::distribution::Sampler;
use crate::error::Error;
use crate::graph;
use crate::knee::{Goal, Search};
use crate::population::{Seeds, Tickets};
use crate::profile::Profile;
use crate::report::{self, Style};
use crate::session::{Session, rest};
use crate::settings::tables::Kind;
use crate::settings::{Delay, Level, Limit, Rate, Settings, Truncate, Until};
use crate::standard;
use crate::user::{Chosen, Spec};
use crate::work::{Operation, Target, Touched, Work};
use base::{Instant, Prng};
use client::contact::named;
use loadtools::hdrlog::HistogramLog;
use loadtools::measure::{Done, Metrics, Snapshot};
use loadtools::output::Output;
use runtime::Group;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use types::Consistency;
use types::cql_type::quoted;

/// Operations of a warm-up for each node, at most.
const WARMUP: u64 = 50_000;
/// Requests in flight of a warm-up, at most.
const WARMUP_THREADS: u32 = 100;
/// Rest between steps of a command that writes.
const REST: Duration = Duration::from_secs(15);
/// Time of a trial at one rate, where the command names none.
const TRIAL: Duration = Duration::from_secs(10);
/// Rest after a server could not be reached.
const AWAY_REST: Duration = Duration::from_millis(10);
/// First line of a file of histograms.
const HISTOGRAM_TITLE: &str = "Logging op latencies for Cassandra Stress";
/// Rest before a run.
const BREATH: Duration = Duration::from_secs(2);

/// What this tool can do beside the Java tool's words.
#[derive(Clone, Debug)]
pub struct Extras {
    /// Wording of the results.
    pub style: Style,
    /// Look for the highest rate at which this holds.
    pub goal: Option<Goal>,
}

/// What came of a command.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Nothing failed.
    pub success: bool,
    /// How the latencies of each run that was told are distributed: pairs of percentile and milliseconds.
    pub distributions: Vec<Vec<(f64, f64)>>,
}

/// How one run goes.
struct Plan {
    operations: Vec<(Operation, f64)>,
    threads: u32,
    until: Until,
    limit: Option<Limit>,
}

/// What the workers of a run share.
struct Shared {
    settings: Rc<Settings>,
    output: Rc<Output>,
    weights: Vec<f64>,
    seeds: Seeds,
    tickets: Tickets,
    metrics: RefCell<Metrics>,
    limit: Option<Limit>,
    /// Partitions of operations that have begun, by which the schedule counts.
    begun: Cell<u64>,
    start: Instant,
    /// When no operation begins any more, of a run of a given time.
    end: Option<Instant>,
    failed: Cell<bool>,
    /// Of a run whose lines are told, if histograms were asked for.
    histograms: Option<Rc<RefCell<HistogramLog>>>,
}

/// Runs what the settings say.
pub async fn run(settings: Settings, output: Rc<Output>, extras: Extras) -> Result<Ended, Error> {
    let settings = Rc::new(settings);
    let (target, operations) = match settings.command.kind {
        Kind::User => user_target(&settings, &output).await?,
        _ => standard_target(&settings, &output).await?,
    };
    if settings.command.count() == Some(0) {
        output.line("N=0: SCHEMA CREATED, NOTHING ELSE DONE.");
        return Ok(Ended { success: true, distributions: Vec::new() });
    }
    output.line("Sleeping 2s...");
    rest(BREATH).await;
    let histograms = match &settings.log.histograms {
        None => None,
        Some(file) => {
            let log = HistogramLog::create(file, HISTOGRAM_TITLE, runtime::now().0, runtime::unix_micros());
            Some(Rc::new(RefCell::new(log.map_err(|error| Error::run(format!("{file}: {error}")))?)))
        }
    };
    let bench = Bench { target, settings, output, extras, histograms, distributions: RefCell::default() };
    let success = bench.all(operations).await?;
    bench.output.line(if success { "END" } else { "FAILURE" });
    Ok(Ended { success, distributions: bench.distributions.take() })
}

/// The standard tables, made if the command writes, and the operations on them.
async fn standard_target(
    settings: &Settings,
    output: &Output,
) -> Result<(Target, Vec<(Operation, f64)>), Error> {
    let session = Rc::new(Session::connect(settings, None).await?);
    greet(&session, settings, output);
    if matches!(settings.command.kind, Kind::Write | Kind::CounterWrite) {
        create(&session, settings, output).await?;
    }
    let weights = settings.command.weights.iter();
    let operations = weights
        .filter_map(|(name, weight)| Some((Operation::Standard(standard::Operation::of(name)?), *weight)));
    Ok((Target::Standard(session), operations.collect()))
}

/// The tables of profiles, made if they are not there, and the operations on them.
async fn user_target(settings: &Settings, output: &Output) -> Result<(Target, Vec<(Operation, f64)>), Error> {
    let profiles: Result<Vec<Profile>, Error> =
        settings.command.profiles.iter().map(|file| Profile::open(file)).collect();
    let mut specs: Vec<Spec> = Vec::new();
    for profile in profiles? {
        if specs.is_empty() {
            greet(&Session::connect(settings, None).await?, settings, output);
        }
        specs.push(Spec::open(profile, settings, output).await?);
    }
    let weights = settings.command.weights.iter();
    let operations: Result<Vec<_>, Error> = weights
        .map(|(name, weight)| Ok((Operation::User(Rc::new(Chosen::of(name, &specs)?)), *weight)))
        .collect();
    if !settings.log.no_settings {
        output.line("******************** Profile ********************");
        specs.iter().for_each(|spec| output.line(&spec.described(settings)));
        output.line("");
    }
    Ok((Target::User(specs.into_iter().map(Rc::new).collect()), operations?))
}

fn greet(session: &Session, settings: &Settings, output: &Output) {
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
        session.query(&text, Consistency::LocalQuorum).await.map_err(|error| {
            Error::run(format!("Encountered exception creating schema: {}", named(&error)))
        })?;
    }
    let nodes = settings.node.nodes.len() as u64;
    output.line(&format!("Created keyspaces. Sleeping {nodes}s for propagation."));
    rest(Duration::from_secs(nodes)).await;
    Ok(())
}

/// One after the other: warm-up, runs, table.
struct Bench {
    target: Target,
    settings: Rc<Settings>,
    output: Rc<Output>,
    extras: Extras,
    histograms: Option<Rc<RefCell<HistogramLog>>>,
    distributions: RefCell<Vec<Vec<(f64, f64)>>>,
}

impl Bench {
    async fn all(&self, operations: Vec<(Operation, f64)>) -> Result<bool, Error> {
        let (settings, command) = (&self.settings, &self.settings.command);
        if !command.no_warmup {
            self.warm_up(&operations).await?;
        }
        if runtime::shutdown_is_requested() {
            return Ok(true);
        }
        // Steps are emptied for one by one.
        let is_one_run = matches!(settings.rate, Rate::Threads { .. });
        if command.truncate == Truncate::Once || (is_one_run && command.truncate == Truncate::Always) {
            self.truncate().await?;
        }
        match (settings.rate, &self.extras.goal) {
            (Rate::Threads { threads, .. }, Some(goal)) => self.knee(goal, operations, threads).await,
            (Rate::Threads { threads, limit }, None) => {
                let plan = Plan { operations, threads, until: command.until, limit };
                Ok(self.once(&plan, true).await?.is_some())
            }
            (Rate::Steps { least, most, auto }, _) => {
                self.output.line("Thread count was not specified");
                self.steps(operations, least, most, auto).await
            }
        }
    }

    async fn warm_up(&self, operations: &[(Operation, f64)]) -> Result<(), Error> {
        let nodes = self.settings.node.nodes.len() as u64;
        let each = self.settings.command.count().map_or(WARMUP, |count| (count / 4).min(WARMUP)) * nodes;
        if each == 0 {
            return Ok(());
        }
        let threads = match self.settings.rate {
            Rate::Threads { threads, .. } => threads.min(WARMUP_THREADS),
            Rate::Steps { most, .. } => most.min(WARMUP_THREADS),
        };
        for (operation, _) in operations {
            self.output.line(&format!("Warming up {} with {each} iterations...", operation.name()));
            let plan = Plan {
                operations: vec![(operation.clone(), 1.0)],
                threads,
                until: Until::Count(each),
                limit: None,
            };
            if self.once(&plan, false).await?.is_none() {
                return Err(Error::run("Failed to execute warmup"));
            }
        }
        Ok(())
    }

    async fn truncate(&self) -> Result<(), Error> {
        let nodes = self.settings.node.nodes.len() as u64;
        let mut said = Vec::new();
        match &self.target {
            Target::Standard(session) => {
                let (keyspace, tables) = (&self.settings.schema.keyspace, ["standard1", "counter1"]);
                for table in tables {
                    truncate(session, &format!("{}.{table}", quoted(keyspace))).await?;
                }
                said.push(format!("{keyspace}.[{}]", tables.join(", ")));
            }
            Target::User(specs) => {
                for spec in specs {
                    truncate(&spec.session, &spec.quoted_name()).await?;
                    said.push(format!("{}.{}", spec.profile.keyspace, spec.profile.table));
                }
            }
        }
        for table in said {
            self.output.line(&format!("Truncated {table}. Sleeping {nodes}s for propagation."));
            rest(Duration::from_secs(nodes)).await;
        }
        Ok(())
    }

    /// Runs at one rate after the other until the highest that holds is known.
    async fn knee(
        &self,
        goal: &Goal,
        operations: Vec<(Operation, f64)>,
        threads: u32,
    ) -> Result<bool, Error> {
        let until = match self.settings.command.until {
            Until::Time(..) => self.settings.command.until,
            Until::Count(_) | Until::Settled { .. } => Until::Time(TRIAL, TRIAL.as_secs(), "SECONDS"),
        };
        let plan = |limit| Plan { operations: operations.clone(), threads, until, limit };
        self.output.line(&format!("Looking for the highest rate with {goal}"));
        let Some(first) = self.once(&plan(None), true).await? else { return Ok(false) };
        let mut search = Search::below(first.total.operation_rate() as u32);
        let mut lines = Vec::new();
        while let Some(rate) = search.next().filter(|_| !runtime::shutdown_is_requested()) {
            let limit = Some(Limit { rate, is_fixed: true });
            let Some(snapshot) = self.once(&plan(limit), true).await? else { return Ok(false) };
            search.tried(rate, goal.holds(rate, &snapshot));
            lines.push(goal.line(rate, &snapshot));
        }
        lines.iter().for_each(|line| self.output.line(line));
        self.output.line(&match search.found() {
            Some(rate) => {
                format!("Highest rate with {goal}: {} op/s", loadtools::java::grouped(u64::from(rate)))
            }
            None => format!("No rate was found with {goal}"),
        });
        Ok(true)
    }

    /// Runs with more and more requests in flight.
    async fn steps(
        &self,
        operations: Vec<(Operation, f64)>,
        least: u32,
        most: u32,
        auto: bool,
    ) -> Result<bool, Error> {
        let command = &self.settings.command;
        let target = match command.until {
            Until::Settled { error, .. } => {
                self.output.line(
                    "WARNING: uncertainty mode (err<) results in uneven workload between thread runs, so should be used for high level analysis only",
                );
                error
            }
            Until::Count(_) | Until::Time(..) => -1.0,
        };
        let mut seen: Vec<(String, Snapshot)> = Vec::new();
        let mut before: Option<u32> = None;
        let mut threads = least;
        loop {
            self.output.line("");
            self.output.line(&format!("Running with {threads} threadCount"));
            if command.truncate == Truncate::Always {
                self.truncate().await?;
            }
            let plan = Plan { operations: operations.clone(), threads, until: command.until, limit: None };
            let Some(snapshot) = self.once(&plan, true).await? else {
                return Ok(false);
            };
            seen.push((format!("{threads} threadCount"), snapshot));
            if let Some(before) = before {
                let percent = loadtools::java::fixed(100.0 * improvement(&seen, 1), 0, false);
                self.output.line(&format!("Improvement over {before} threadCount: {percent}%"));
            }
            before = Some(threads);
            // Twice as many while they are few, then half as many more.
            threads = if threads < 16 { threads * 2 } else { threads + threads / 2 };
            let goes_on =
                |steps: usize, least: f64| seen.len() < steps + 1 || improvement(&seen, steps) >= least;
            if threads > most
                || runtime::shutdown_is_requested()
                || (auto && !(goes_on(3, 0.0) && goes_on(5, target)))
            {
                break;
            }
            if command.kind.updates() {
                self.output.line("Sleeping for 15s");
                rest(REST).await;
                if runtime::shutdown_is_requested() {
                    break;
                }
            }
        }
        for line in report::steps(&seen, false) {
            self.output.line(&line);
        }
        Ok(true)
    }

    /// One run; `None` when an operation failed for good.
    async fn once(&self, plan: &Plan, told: bool) -> Result<Option<Snapshot>, Error> {
        let operations: Vec<&Operation> = plan.operations.iter().map(|(operation, _)| operation).collect();
        let prepared = self.target.prepare(&self.settings, &operations, !told).await?;
        if told {
            self.output.line(&self.announcement(plan));
            if self.settings.log.level > Level::Minimal {
                self.output.complain("Failed to connect over JMX; not collecting these stats");
            }
            self.output.line(&report::header());
        }
        let start = runtime::now();
        let names = operations.iter().map(|operation| operation.name().to_owned()).collect();
        let shared = Rc::new(Shared {
            settings: self.settings.clone(),
            output: self.output.clone(),
            weights: plan.operations.iter().map(|(_, weight)| *weight).collect(),
            seeds: Seeds::new(&self.settings.population, runtime::random_u64() as i64),
            metrics: RefCell::new(Metrics::new(names, start.0)),
            tickets: Tickets::new(match plan.until {
                Until::Count(count) => Some(count),
                Until::Time(..) | Until::Settled { .. } => None,
            }),
            limit: plan.limit,
            begun: Cell::new(0),
            start,
            end: match plan.until {
                Until::Time(time, ..) => Some(start + time),
                Until::Count(_) | Until::Settled { .. } => None,
            },
            failed: Cell::new(false),
            histograms: self.histograms.clone().filter(|_| told),
        });
        let workers: Vec<_> = (0..plan.threads)
            .map(|_| runtime::spawn(Group::QUERY, work(shared.clone(), prepared.work())))
            .collect();
        let watcher = runtime::spawn(Group::MAIN, watch(shared.clone(), plan.until, told));
        for worker in workers {
            worker.await;
        }
        shared.tickets.stopped.set();
        watcher.await;
        let from_schedule = shared.counts_from_schedule();
        let ended = runtime::now();
        let mut last = shared.metrics.borrow_mut().snapshot(ended.0);
        last.not_begun = shared.not_begun(ended);
        if told {
            shared.tell(&last);
            let latencies = last.total.latencies(from_schedule);
            self.distributions.borrow_mut().push(graph::distribution(latencies));
        }
        if shared.failed.get() {
            return Ok(None);
        }
        if told && !self.settings.log.no_summary {
            self.output.line(report::results(&last, self.extras.style, from_schedule).trim_end_matches('\n'));
            self.output.line("");
        }
        Ok(Some(last))
    }

    fn announcement(&self, plan: &Plan) -> String {
        let names: Vec<&str> = plan.operations.iter().map(|(operation, _)| operation.name()).collect();
        let what = match self.settings.command.kind {
            Kind::Mixed | Kind::User => format!("[{}]", names.join(", ")),
            Kind::Read | Kind::Write | Kind::CounterRead | Kind::CounterWrite => names.join(", "),
        };
        let end = match plan.until {
            Until::Count(count) => format!("for {count} iteration"),
            Until::Time(_, number, unit) => format!("{number} {}", unit.to_ascii_lowercase()),
            Until::Settled { error, .. } => format!("until stderr of mean < {error}"),
        };
        format!("Running {what} with {} threads {end}", plan.threads)
    }
}

/// Mean growth of the rate over the last steps.
fn improvement(seen: &[(String, Snapshot)], steps: usize) -> f64 {
    let rates: Vec<f64> = seen.iter().map(|(_, snapshot)| snapshot.total.operation_rate()).collect();
    let last = &rates[rates.len().saturating_sub(steps + 1)..];
    last.windows(2).map(|pair| (pair[1] - pair[0]) / pair[0]).sum::<f64>() / steps as f64
}

async fn truncate(session: &Session, table: &str) -> Result<(), Error> {
    let done = session.query(&format!("TRUNCATE {table}"), Consistency::One).await;
    done.map(|_| ()).map_err(|error| Error::run(named(&error)))
}

/// Says a line for each interval, and ends the run when its time is over or its rate has settled.
async fn watch(shared: Rc<Shared>, until: Until, told: bool) {
    let end = shared.end;
    let mut next = shared.start + shared.settings.log.interval;
    loop {
        let wake = end.map_or(next, |end| end.min(next));
        // The end of the run, and somebody who wants it, do not wait for the line.
        let stopped =
            runtime::timeout_at(wake, either(shared.tickets.stopped.wait(), runtime::shutdown_requested()))
                .await;
        if stopped.is_ok() || end.is_some_and(|end| end <= runtime::now()) {
            shared.tickets.stopped.set();
            return;
        }
        next = wake + shared.settings.log.interval;
        let (snapshot, uncertainty) = {
            let mut metrics = shared.metrics.borrow_mut();
            (metrics.snapshot(runtime::now().0), metrics.uncertainty())
        };
        if told {
            shared.tell(&snapshot);
        }
        if let Until::Settled { error, least, most } = until {
            let measured = uncertainty.measurements();
            if (least <= measured && uncertainty.value() <= error) || most <= measured {
                shared.tickets.stopped.set();
            }
        }
    }
}

/// Whichever of two comes first.
async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(context),
    })
    .await;
}

/// Draws operations by weight, in runs of a drawn length.
struct Draws {
    rng: Prng,
    clustering: Sampler,
    total: f64,
    kind: usize,
    left: i64,
}

impl Draws {
    fn next(&mut self, weights: &[f64]) -> usize {
        while self.left <= 0 {
            self.left = self.clustering.draw().max(1);
            let mut at = self.rng.unit() * self.total;
            self.kind = weights.len() - 1;
            for (nth, weight) in weights.iter().enumerate() {
                at -= weight;
                if at < 0.0 {
                    self.kind = nth;
                    break;
                }
            }
        }
        self.left -= 1;
        self.kind
    }
}

impl Shared {
    /// Whether latencies count from the intended start.
    fn counts_from_schedule(&self) -> bool {
        self.limit.is_some_and(|limit| limit.is_fixed)
    }

    /// Says the lines of an interval, and writes its histograms.
    fn tell(&self, snapshot: &Snapshot) {
        for line in report::rows(snapshot, self.counts_from_schedule()) {
            self.output.line(&line);
        }
        if let Some(histograms) = &self.histograms
            && let Err(error) = histograms.borrow_mut().write(snapshot)
        {
            self.output.broke(error);
        }
    }

    /// Waits for the instant at which the schedule has the next operation begin.
    async fn scheduled(&self, partitions: u64) -> Option<Instant> {
        let limit = self.limit?;
        let nth = self.begun.replace(self.begun.get() + partitions);
        let intended = self.start + Duration::from_nanos(nth.saturating_mul(limit.interval_ns()));
        if runtime::now() < intended && self.stopped_by(intended).await {
            // It was due after the end.
            self.begun.set(self.begun.get() - partitions);
        }
        Some(intended)
    }

    /// Waits for an instant; true when the run ends before.
    async fn stopped_by(&self, instant: Instant) -> bool {
        runtime::timeout_at(instant, self.tickets.stopped.wait()).await.is_ok()
    }

    /// Operations that the schedule had due before the end of a run of a given time, and that no worker was free to begin.
    fn not_begun(&self, ended: Instant) -> u64 {
        match (self.limit, self.end) {
            (Some(limit), Some(end)) => {
                let due = (end.min(ended) - self.start).as_nanos() as u64 / limit.interval_ns();
                due.saturating_sub(self.begun.get())
            }
            _ => 0,
        }
    }
}

async fn work(shared: Rc<Shared>, mut work: Work) {
    let seed = runtime::random_u64();
    let mut draws = Draws {
        rng: Prng::new(seed),
        clustering: shared.settings.command.clustering.sampler(seed as i64),
        total: shared.weights.iter().sum(),
        kind: 0,
        left: 0,
    };
    loop {
        let kind = draws.next(&shared.weights);
        let partitions = work.begin(kind, &shared.seeds, &shared.tickets);
        if partitions == 0 {
            return;
        }
        let intended = shared.scheduled(partitions).await;
        if shared.tickets.stopped.is_set() {
            return;
        }
        let started = runtime::now();
        let outcome = attempts(&shared, &mut work).await;
        work.end(&shared.seeds);
        let touched = match &outcome {
            Attempted::Done(touched) => Some(*touched),
            Attempted::Failed { .. } => None,
            Attempted::CutShort => return,
        };
        let done = Done {
            intended: intended.map(|intended| intended.0),
            started: started.0,
            ended: runtime::now().0,
            partitions: touched.map_or(0, |touched| touched.partitions),
            rows: touched.map_or(0, |touched| touched.rows),
            failed: touched.is_none(),
        };
        shared.metrics.borrow_mut().record(kind, &done);
        if let Attempted::Failed { tries, problem } = outcome {
            fail(&shared, &work, tries, problem);
        }
    }
}

/// How an operation ended.
enum Attempted {
    /// Well.
    Done(Touched),
    /// For good: the tries before, and what was wrong last; nothing when the rows were not those that were written.
    Failed { tries: u32, problem: Option<String> },
    /// The run ended between two tries: neither well nor badly.
    CutShort,
}

/// Tries an operation until it succeeds or has been tried often enough.
async fn attempts(shared: &Shared, work: &mut Work) -> Attempted {
    let errors = &shared.settings.errors;
    let mut problem = None;
    for tried in 0..errors.tries {
        let is_away = match work.send().await {
            Ok(Some(touched)) => return Attempted::Done(touched),
            // Another try would read the same.
            Ok(None) => return Attempted::Failed { tries: tried, problem: None },
            Err(error) => {
                let text = named(&error);
                if shared.settings.log.level > Level::Minimal {
                    shared.output.complain(&text);
                }
                problem = Some(text);
                matches!(error, client::Error::Connect { .. } | client::Error::Closed(_))
            }
        };
        if shared.tickets.stopped.is_set() {
            return Attempted::CutShort;
        }
        let delay = match errors.delay {
            Delay::Constant => errors.delay_min,
            Delay::Linear => errors.delay_min.saturating_mul(tried + 1),
            Delay::Exponential => errors.delay_min.saturating_mul(1 << tried.min(30)),
        };
        // Who cannot connect fails at once: without a rest nobody else would have a turn, nor the server a chance to come back.
        let delay = delay.min(errors.delay_max).max(if is_away { AWAY_REST } else { Duration::ZERO });
        if delay.is_zero() {
            runtime::yield_now().await;
        } else if shared.stopped_by(runtime::now() + delay).await {
            return Attempted::CutShort;
        }
    }
    Attempted::Failed { tries: errors.tries, problem }
}

/// An operation has failed for good: says so, and ends the run unless errors are ignored.
fn fail(shared: &Shared, work: &Work, tries: u32, problem: Option<String>) {
    let what = match problem {
        None => "Data returned was not validated".to_owned(),
        Some(problem) => format!("Error executing: {problem}"),
    };
    let text = format!("Operation x{tries} on key(s) [{}]: {what}\n", work.key_text());
    if shared.settings.errors.ignore {
        if shared.settings.log.level > Level::Minimal {
            shared.output.complain(&text);
        }
        return;
    }
    shared.output.complain(&text);
    shared.failed.set(true);
    shared.tickets.stopped.set();
}
