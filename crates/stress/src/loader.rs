//! One loader of a run: its workers, their schedule, what they have seen.

use crate::distribution::Sampler;
use crate::population::{Part, Seeds, Tickets};
use crate::settings::{Delay, Level, Limit, Settings, Until};
use crate::work::{Prepared, Touched, Work};
use base::{Instant, Prng};
use client::contact::named;
use loadtools::measure::{Done, Metrics, Snapshot, Standing};
use loadtools::output::Output;
use runtime::Group;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Rest after a server could not be reached.
const AWAY_REST: Duration = Duration::from_millis(10);

/// What one loader does in a run.
#[derive(Clone, Debug)]
pub struct Order {
    /// Operations by their number among those of the command, with their weights.
    pub operations: Vec<(usize, f64)>,
    /// Their names.
    pub names: Vec<String>,
    /// Requests in flight, of all loaders.
    pub threads: u32,
    /// When it ends, for all loaders.
    pub until: Until,
    /// Operations in a second, of all loaders.
    pub limit: Option<Limit>,
    /// Which of the loaders this is.
    pub part: Part,
    /// Whether it is a warm-up.
    pub is_warm_up: bool,
}

/// What the workers of a loader share.
pub struct Loader {
    order: Order,
    settings: Rc<Settings>,
    output: Rc<Output>,
    weights: Vec<f64>,
    seeds: Seeds,
    tickets: Tickets,
    metrics: RefCell<Metrics>,
    /// Nanoseconds from one operation of this loader to its next.
    interval_ns: Option<u64>,
    /// Partitions of operations that have begun, by which the schedule counts.
    begun: Cell<u64>,
    start: Instant,
    /// When no operation begins any more, of a run of a given time.
    end: Option<Instant>,
    failed: Cell<bool>,
}

/// How a loader ended.
#[derive(Clone, Debug)]
pub struct LoaderEnd {
    /// What it has done since the last line, and in all.
    pub last: Snapshot,
    /// An operation failed for good, and errors are not ignored.
    pub failed: bool,
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

impl Loader {
    /// Begins to work at an instant.
    pub fn new(order: Order, settings: Rc<Settings>, output: Rc<Output>, start: Instant) -> Rc<Loader> {
        let part = order.part;
        Rc::new(Loader {
            weights: order.operations.iter().map(|(_, weight)| *weight).collect(),
            seeds: Seeds::new(&part.population(&settings.population), runtime::random_u64() as i64),
            metrics: RefCell::new(Metrics::new(order.names.clone(), start.0)),
            tickets: Tickets::new(match order.until {
                Until::Count(count) => Some(part.share(count)),
                Until::Time(..) | Until::Settled { .. } => None,
            }),
            interval_ns: order.limit.map(|limit| limit.interval_ns().saturating_mul(u64::from(part.of))),
            begun: Cell::new(0),
            start,
            end: match order.until {
                Until::Time(time, ..) => Some(start + time),
                Until::Count(_) | Until::Settled { .. } => None,
            },
            failed: Cell::new(false),
            settings,
            output,
            order,
        })
    }

    /// Works until the end.
    pub async fn run(self: Rc<Self>, prepared: &Prepared) -> LoaderEnd {
        let threads = self.order.part.share(u64::from(self.order.threads));
        let workers: Vec<_> =
            (0..threads).map(|_| runtime::spawn(Group::QUERY, work(self.clone(), prepared.work()))).collect();
        for worker in workers {
            worker.await;
        }
        self.stop();
        let ended = runtime::now();
        let mut last = self.snapshot();
        last.not_begun = self.not_begun(ended);
        LoaderEnd { last, failed: self.failed.get() }
    }

    /// No operation begins any more, and none is tried again.
    pub fn stop(&self) {
        self.tickets.stopped.set();
    }

    /// Ends a line and begins the next.
    pub fn snapshot(&self) -> Snapshot {
        self.metrics.borrow_mut().snapshot(runtime::now().0)
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        let from_schedule = self.order.limit.is_some_and(|limit| limit.is_fixed);
        self.metrics.borrow().standing(runtime::now().0, from_schedule)
    }

    /// Waits for the instant at which the schedule has the next operation begin.
    async fn scheduled(&self, partitions: u64) -> Option<Instant> {
        let interval = self.interval_ns?;
        let nth = self.begun.replace(self.begun.get() + partitions);
        // Loaders take turns: each begins one of their common intervals after the one before.
        let first = interval / u64::from(self.order.part.of) * u64::from(self.order.part.number);
        let intended = self.start + Duration::from_nanos(nth.saturating_mul(interval).saturating_add(first));
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
        match (self.interval_ns, self.end) {
            (Some(interval), Some(end)) => {
                let passed = end.min(ended).saturating_duration_since(self.start).as_nanos() as u64;
                let due = passed / interval;
                due.saturating_sub(self.begun.get())
            }
            _ => 0,
        }
    }
}

async fn work(loader: Rc<Loader>, mut work: Work) {
    runtime::sleep_until(loader.start).await;
    let seed = runtime::random_u64();
    let mut draws = Draws {
        rng: Prng::new(seed),
        clustering: loader.settings.command.clustering.sampler(seed as i64),
        total: loader.weights.iter().sum(),
        kind: 0,
        left: 0,
    };
    loop {
        let kind = draws.next(&loader.weights);
        let partitions = work.begin(kind, &loader.seeds, &loader.tickets).await;
        if partitions == 0 {
            return;
        }
        let intended = loader.scheduled(partitions).await;
        if loader.tickets.stopped.is_set() {
            return;
        }
        let started = runtime::now();
        let outcome = attempts(&loader, &mut work).await;
        work.end(&loader.seeds);
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
        loader.metrics.borrow_mut().record(kind, &done);
        if let Attempted::Failed { tries, problem } = outcome {
            fail(&loader, &work, tries, problem);
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
async fn attempts(loader: &Loader, work: &mut Work) -> Attempted {
    let errors = &loader.settings.errors;
    let mut problem = None;
    for tried in 0..errors.tries {
        let is_away = match work.send().await {
            Ok(Some(touched)) => return Attempted::Done(touched),
            // Another try would read the same. The Java tool of Cassandra counts the tries before this one, too: x0.
            Ok(None) => return Attempted::Failed { tries: tried, problem: None },
            Err(error) => {
                let text = named(&error);
                if loader.settings.log.level > Level::Minimal {
                    loader.output.complain(&text);
                }
                problem = Some(text);
                matches!(error, client::Error::Connect { .. } | client::Error::Closed(_))
            }
        };
        if loader.tickets.stopped.is_set() {
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
        } else if loader.stopped_by(runtime::now() + delay).await {
            return Attempted::CutShort;
        }
    }
    Attempted::Failed { tries: errors.tries, problem }
}

/// An operation has failed for good: says so, and ends the run unless errors are ignored.
fn fail(loader: &Loader, work: &Work, tries: u32, problem: Option<String>) {
    let what = match problem {
        None => "Data returned was not validated".to_owned(),
        Some(problem) => format!("Error executing: {problem}"),
    };
    let mut text = format!("Operation x{tries} on key(s) [{}]: {what}\n", work.key_text());
    if loader.settings.log.statements {
        text.push_str(&work.statement_text());
        text.push('\n');
    }
    if loader.settings.errors.ignore {
        if loader.settings.log.level > Level::Minimal {
            loader.output.complain(&text);
        }
        return;
    }
    loader.output.complain(&text);
    loader.failed.set(true);
    loader.tickets.stopped.set();
}
