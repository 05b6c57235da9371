//! A run: schema, warm-up, operations until the end that was asked for, lines meanwhile, results.

use crate::error::Error;
use crate::fleet::Fleet;
use crate::graph::{self, Notes};
use crate::knee::{Goal, Search};
use crate::loader::Order;
use crate::population::Part;
use crate::report::{self, Style};
use crate::scrape::Scraper;
use crate::session::{Session, rest};
use crate::settings::tables::Kind;
use crate::settings::{Level, Limit, Rate, Settings, Truncate, Until};
use crate::verify::verify;
use crate::work::{Operation, Target, Truncated};
use base::Instant;
use client::contact::named;
use loadtools::hdrlog::HistogramLog;
use loadtools::measure::{Snapshot, Uncertainty};
use loadtools::output::Output;
use loadtools::shard::or_interrupted;
use runtime::Group;
use runtime::sync::Flag;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use types::Consistency;

/// Operations of a warm-up for each node, at most.
const WARMUP: u64 = 50_000;
/// Requests in flight of a warm-up, at most.
const WARMUP_THREADS: u32 = 100;
/// Rest between steps of a command that writes.
const REST: Duration = Duration::from_secs(15);
/// Time of a trial at one rate, where the command names none.
const TRIAL: Duration = Duration::from_secs(10);
/// First line of a file of histograms.
const HISTOGRAM_TITLE: &str = "Logging op latencies for Cassandra Stress";
/// How often a watched terminal is told how things stand.
const LOOK: Duration = Duration::from_millis(250);
/// Time until all loaders begin, after all are ready.
const COUNTDOWN: Duration = Duration::from_millis(20);
/// Rest before a run.
const BREATH: Duration = Duration::from_secs(2);

/// What this tool can do beside the Java tool's words.
#[derive(Clone, Debug)]
pub struct Extras {
    /// Wording of the results.
    pub style: Style,
    /// Look for the highest rate at which this holds.
    pub goal: Option<Goal>,
    /// Loaders, each on a shard of its own.
    pub loaders: u16,
}

/// What came of a command.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Nothing failed.
    pub success: bool,
    /// What each run that was told has beside its lines.
    pub notes: Vec<Notes>,
    /// What each of them has done in all.
    pub totals: Vec<Snapshot>,
}

/// How one run ended.
struct RunEnd {
    /// What it has done.
    seen: Snapshot,
    /// An operation failed for good, and errors are not ignored.
    failed: bool,
}

/// Runs with more and more requests in flight.
struct Steps {
    /// At first.
    least: u32,
    /// At most.
    most: u32,
    /// Ends when more bring nothing.
    auto: bool,
}

/// How one run goes.
#[derive(Clone)]
struct Plan {
    /// By their number among the command's, with their weights.
    operations: Vec<(usize, f64)>,
    threads: u32,
    until: Until,
    limit: Option<Limit>,
}

/// Runs what the settings say.
pub async fn run(settings: Settings, output: Rc<Output>, extras: Extras) -> Result<Ended, Error> {
    let settings = Rc::new(settings);
    settings.warnings.iter().for_each(|warning| output.complain(warning));
    let scraper = Scraper::new(&settings.scraped, settings.log.interval);
    let scraper = Rc::new(scraper.map_err(|text| Error::run(format!("--scrape: {text}")))?);
    let (target, operations) = Target::of_settings(&settings, Some(&output)).await?;
    if settings.command.count() == Some(0) {
        output.line("N=0: SCHEMA CREATED, NOTHING ELSE DONE.");
        return Ok(Ended { success: true, notes: Vec::new(), totals: Vec::new() });
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
    let truncated = target.tables(&settings);
    let followed = target.followed();
    let weights = operations.iter().map(|(_, weight)| *weight).enumerate().collect();
    let operations: Vec<Operation> = operations.into_iter().map(|(operation, _)| operation).collect();
    let names = operations.iter().map(|operation| operation.name().to_owned()).collect();
    let fleet = Rc::new(Fleet::open(&settings, &output, target, operations).await?);
    let (notes, totals) = (RefCell::default(), RefCell::default());
    let bench =
        Bench { fleet, names, truncated, settings, output, extras, histograms, scraper, notes, totals };
    let success = bench.whole(weights, followed).await;
    bench.fleet.close().await;
    let success = success?;
    bench.output.line(if success { "END" } else { "FAILURE" });
    Ok(Ended { success, notes: bench.notes.take(), totals: bench.totals.take() })
}

/// One after the other: warm-up, runs, table.
struct Bench {
    fleet: Rc<Fleet>,
    /// Of the command's operations.
    names: Vec<String>,
    /// Tables that are emptied where that is asked for.
    truncated: Vec<Truncated>,
    settings: Rc<Settings>,
    output: Rc<Output>,
    extras: Extras,
    histograms: Option<Rc<RefCell<HistogramLog>>>,
    scraper: Rc<Scraper>,
    notes: RefCell<Vec<Notes>>,
    totals: RefCell<Vec<Snapshot>>,
}

impl Bench {
    /// Runs, and reads back what was written where that is `followed`. Errors: nothing was measured.
    async fn whole(&self, weights: Vec<(usize, f64)>, followed: Option<Rc<Session>>) -> Result<bool, Error> {
        let mut success = match self.all(weights).await {
            Ok(success) => success,
            // Of what was measured before, everything is told.
            Err(error) if !self.totals.borrow().is_empty() => {
                self.output.complain(&error.to_string());
                false
            }
            Err(error) => return Err(error),
        };
        if let Some(session) = followed {
            success &= self.verified(session).await;
        }
        Ok(success)
    }

    async fn all(&self, operations: Vec<(usize, f64)>) -> Result<bool, Error> {
        let (settings, command) = (&self.settings, &self.settings.command);
        if !command.no_warmup {
            self.warm_up(&operations).await?;
        }
        if runtime::shutdown_is_requested() {
            self.output.line("Nothing was measured: ended before the first run");
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
                Ok(!self.once(&plan, true).await?.failed)
            }
            (Rate::Steps { least, most, auto }, _) => {
                self.output.line("Thread count was not specified");
                self.steps(operations, Steps { least, most, auto }).await
            }
        }
    }

    /// Reads back what was written, unless the person at the terminal wants the end; true when nothing is wrong.
    async fn verified(&self, session: Rc<Session>) -> bool {
        let Some(ledger) = self.fleet.ledger().await else { return true };
        if runtime::shutdown_is_requested() {
            self.output.line("Not verified: ended before anything was read back");
            return ledger.early.is_clean();
        }
        verify(session, self.settings.clone(), ledger, self.output.clone()).await
    }

    async fn warm_up(&self, operations: &[(usize, f64)]) -> Result<(), Error> {
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
            if runtime::shutdown_is_requested() {
                break;
            }
            self.output.line(&format!("Warming up {} with {each} iterations...", self.names[*operation]));
            let plan =
                Plan { operations: vec![(*operation, 1.0)], threads, until: Until::Count(each), limit: None };
            if self.once(&plan, false).await?.failed {
                return Err(Error::run("Failed to execute warmup"));
            }
        }
        Ok(())
    }

    async fn truncate(&self) -> Result<(), Error> {
        let nodes = self.settings.node.nodes.len() as u64;
        for truncated in &self.truncated {
            for table in &truncated.tables {
                let done = truncated.session.query(&format!("TRUNCATE {table}"), Consistency::One).await;
                done.map_err(|error| Error::run(named(&error)))?;
            }
            self.output.line(&format!("Truncated {}. Sleeping {nodes}s for propagation.", truncated.said));
            rest(Duration::from_secs(nodes)).await;
        }
        self.fleet.emptied().await;
        Ok(())
    }

    /// Runs at one rate after the other until the highest that holds is known, and tells what each has come to, however it ends.
    async fn knee(&self, goal: &Goal, operations: Vec<(usize, f64)>, threads: u32) -> Result<bool, Error> {
        let until = match self.settings.command.until {
            Until::Time(..) => self.settings.command.until,
            Until::Count(_) | Until::Settled { .. } => Until::Time(TRIAL, TRIAL.as_secs(), "SECONDS"),
        };
        let plan = Plan { operations, threads, until, limit: None };
        self.output.line(&format!("Looking for the highest rate with {goal}"));
        let first = self.once(&plan, true).await?;
        let mut search = Search::below(first.seen.total.operation_rate() as u32);
        let mut lines = Vec::new();
        let success = match first.failed {
            true => Ok(false),
            false => self.trials(goal, &plan, &mut search, &mut lines).await,
        };
        if success != Ok(true) || runtime::shutdown_is_requested() {
            search.end_early();
        }
        lines.iter().for_each(|line| self.output.line(line));
        self.output.line(&goal.verdict(&search));
        success
    }

    /// Tries rates until the answer is near enough or somebody wants the end; false when an operation failed for good.
    async fn trials(
        &self,
        goal: &Goal,
        plan: &Plan,
        search: &mut Search,
        lines: &mut Vec<String>,
    ) -> Result<bool, Error> {
        while let Some(rate) = search.next().filter(|_| !runtime::shutdown_is_requested()) {
            let plan = Plan { limit: Some(Limit { rate, is_fixed: true }), ..plan.clone() };
            let end = self.once(&plan, true).await?;
            // One that did not come to its end tells nothing of its rate.
            if end.failed || runtime::shutdown_is_requested() {
                return Ok(!end.failed);
            }
            search.tried(rate, goal.holds(rate, &end.seen));
            lines.push(goal.line(rate, &end.seen));
        }
        Ok(true)
    }

    /// Runs with more and more requests in flight, and tells what each step has come to, however it ends.
    async fn steps(&self, operations: Vec<(usize, f64)>, steps: Steps) -> Result<bool, Error> {
        if matches!(self.settings.command.until, Until::Settled { .. }) {
            self.output.line(
                "WARNING: uncertainty mode (err<) results in uneven workload between thread runs, so should be used for high level analysis only",
            );
        }
        let mut seen = Vec::new();
        let success = self.climb(operations, steps, &mut seen).await;
        if !seen.is_empty() {
            report::steps(&seen, false).iter().for_each(|line| self.output.line(line));
        }
        success
    }

    /// Takes the steps; false when an operation failed for good.
    async fn climb(
        &self,
        operations: Vec<(usize, f64)>,
        Steps { least, most, auto }: Steps,
        seen: &mut Vec<(String, Snapshot)>,
    ) -> Result<bool, Error> {
        let command = &self.settings.command;
        let target = match command.until {
            Until::Settled { error, .. } => error,
            Until::Count(_) | Until::Time(..) => -1.0,
        };
        let mut before: Option<u32> = None;
        let mut threads = least;
        loop {
            self.output.line("");
            self.output.line(&format!("Running with {threads} threadCount"));
            if command.truncate == Truncate::Always {
                self.truncate().await?;
            }
            let plan = Plan { operations: operations.clone(), threads, until: command.until, limit: None };
            let end = self.once(&plan, true).await?;
            seen.push((format!("{threads} threadCount"), end.seen));
            if end.failed {
                return Ok(false);
            }
            if let Some(before) = before {
                let percent = loadtools::java::fixed(100.0 * improvement(seen, 1), 0, false);
                self.output.line(&format!("Improvement over {before} threadCount: {percent}%"));
            }
            before = Some(threads);
            // As the Java tool of Cassandra: twice as many while they are few, then half as many more.
            threads = if threads < 16 { threads * 2 } else { threads + threads / 2 };
            let goes_on =
                |steps: usize, least: f64| seen.len() < steps + 1 || improvement(seen, steps) >= least;
            if threads > most
                || runtime::shutdown_is_requested()
                || (auto && !(goes_on(3, 0.0) && goes_on(5, target)))
            {
                return Ok(true);
            }
            if command.kind.updates() {
                self.output.line("Sleeping for 15s");
                rest(REST).await;
                if runtime::shutdown_is_requested() {
                    return Ok(true);
                }
            }
        }
    }

    /// One run, with its results: of one that failed, too.
    async fn once(&self, plan: &Plan, told: bool) -> Result<RunEnd, Error> {
        let order = Order {
            names: plan.operations.iter().map(|(nth, _)| self.names[*nth].clone()).collect(),
            operations: plan.operations.clone(),
            // A warm-up or a step may have fewer requests in flight than there are loaders: each has one.
            threads: plan.threads.max(self.fleet.loaders()),
            until: plan.until,
            limit: plan.limit,
            part: Part::WHOLE,
            is_warm_up: !told,
        };
        self.fleet.prepare(&order).await?;
        if told {
            self.output.line(&self.announcement(plan));
            if self.settings.log.level > Level::Minimal {
                self.output.complain("Failed to connect over JMX; not collecting these stats");
            }
            self.output.line(&report::header());
        }
        let start = if self.fleet.loaders() > 1 { runtime::now() + COUNTDOWN } else { runtime::now() };
        let watch = Rc::new(Watch {
            fleet: self.fleet.clone(),
            settings: self.settings.clone(),
            output: self.output.clone(),
            histograms: self.histograms.clone(),
            names: order.names.clone(),
            from_schedule: plan.limit.is_some_and(|limit| limit.is_fixed),
            until: plan.until,
            told,
            start,
            uncertainty: RefCell::default(),
            over: Flag::new(),
        });
        let watching = runtime::spawn(Group::MAIN, watch.clone().run());
        let scraping = told.then(|| {
            let (scraper, over, output) = (self.scraper.clone(), watch.over.clone(), self.output.clone());
            runtime::spawn(Group::MAIN, async move { scraper.run(start, over, output).await })
        });
        let ends = self.fleet.run(start).await;
        watch.over.set();
        watching.await;
        let servers = match scraping {
            Some(scraping) => scraping.await,
            None => Vec::new(),
        };
        let ends = ends?;
        let parts: Vec<Snapshot> = ends.iter().map(|end| end.last.clone()).collect();
        let last = watch.joined(&parts);
        if told {
            watch.tell(&last);
            let distribution = graph::distribution(last.total.latencies(watch.from_schedule));
            self.notes.borrow_mut().push(Notes { distribution, servers });
            self.totals.borrow_mut().push(last.clone());
        }
        if told && !self.settings.log.no_summary {
            let results = report::results(&last, self.extras.style, watch.from_schedule);
            self.output.line(results.trim_end_matches('\n'));
            self.output.line("");
        }
        Ok(RunEnd { seen: last, failed: ends.iter().any(|end| end.failed) })
    }

    fn announcement(&self, plan: &Plan) -> String {
        let names: Vec<&str> = plan.operations.iter().map(|(nth, _)| self.names[*nth].as_str()).collect();
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

/// Looks at a run while it goes on.
struct Watch {
    fleet: Rc<Fleet>,
    settings: Rc<Settings>,
    output: Rc<Output>,
    histograms: Option<Rc<RefCell<HistogramLog>>>,
    names: Vec<String>,
    /// Whether latencies count from the intended start.
    from_schedule: bool,
    until: Until,
    /// Whether its lines are told.
    told: bool,
    start: Instant,
    uncertainty: RefCell<Uncertainty>,
    /// All loaders have ended.
    over: Flag,
}

impl Watch {
    /// Says a line for each interval, and ends the run when its time is over or its rate has settled.
    async fn run(self: Rc<Self>) {
        let end = match self.until {
            Until::Time(time, ..) => Some(self.start + time),
            Until::Count(_) | Until::Settled { .. } => None,
        };
        let interval = self.settings.log.interval;
        let mut next = self.start + interval;
        let is_live = self.told && self.output.is_live();
        loop {
            let line = end.map_or(next, |end| end.min(next));
            let wake = if is_live { line.min(runtime::now() + LOOK) } else { line };
            // The end of the run, and somebody who wants it, do not wait for the line.
            let ended = runtime::timeout_at(wake, or_interrupted(self.over.wait())).await;
            if ended.is_ok() || end.is_some_and(|end| end <= runtime::now()) {
                self.fleet.stop().await;
                return;
            }
            if is_live && runtime::now() < line {
                self.show().await;
                continue;
            }
            next = line + interval;
            let snapshot = self.joined(&self.fleet.snapshots().await);
            if self.told {
                self.tell(&snapshot);
            }
            if let Until::Settled { error, least, most } = self.until {
                let uncertainty = *self.uncertainty.borrow();
                let measured = uncertainty.measurements();
                if (least <= measured && uncertainty.value() <= error) || most <= measured {
                    self.fleet.stop().await;
                }
            }
        }
    }

    fn joined(&self, parts: &[Snapshot]) -> Snapshot {
        Snapshot::joined(&self.names, parts, &mut self.uncertainty.borrow_mut())
    }

    /// Shows how the run stands, and how far it is.
    async fn show(&self) {
        let standing = self.fleet.standing().await;
        let passed = runtime::now().saturating_duration_since(self.start).as_secs_f64();
        let share = match self.until {
            Until::Count(count) => Some(standing.partitions as f64 / count.max(1) as f64),
            Until::Time(time, ..) => Some(passed / time.as_secs_f64().max(1e-9)),
            Until::Settled { .. } => None,
        };
        self.output.status(&standing.line(share));
    }

    /// Says the lines of an interval, and writes its histograms.
    fn tell(&self, snapshot: &Snapshot) {
        for line in report::rows(snapshot, self.from_schedule) {
            self.output.line(&line);
        }
        if let (Some(histograms), Some(file)) = (&self.histograms, &self.settings.log.histograms)
            && let Err(error) = histograms.borrow_mut().write(snapshot)
        {
            self.output.broke(file, &error);
        }
    }
}
