//! A run: threads that are tasks, each with one operation on its way; lines meanwhile, the report at the end.
//!
//! ```text
//!  a thread, with a rate     due 0 ── tick ── due 1 ── tick ── due 2
//!                            start … end      start … end       what is late starts at once and is charged from when it was due
//! ```

use crate::error::Error;
use crate::limits::{AWAY_REST, COMPLAINTS_PER_SECOND};
use crate::measure::block::{Line, Moment};
use crate::measure::table::{Done, Measurements, Operation, Status};
use crate::report;
use crate::session::{Fields, KEY, Record, Session, Shape};
use crate::settings::{Phase, Progress, Settings};
use crate::values::{put_known, put_random};
use crate::workload::{Action, Draws, Workload};
use base::Instant;
use loadtools::output::Output;
use loadtools::shard::or_interrupted;
use protocol::values::ValuesBuilder;
use runtime::Group;
use runtime::sync::Flag;
use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

/// What a run says at its start of errors whose latencies are told apart: with the list as Java prints it.
fn said_of_errors(settings: &Settings) -> String {
    format!(
        "DBWrapper: report latency for each error is {} and specific error codes to track for latency are: [{}]",
        settings.reports_each_error,
        settings.measuring.tracked_errors.join(", ")
    )
}

/// What the threads of a run share.
struct Shared {
    phase: Phase,
    tick: Option<Duration>,
    workload: Rc<Workload>,
    session: RefCell<Option<Rc<Session>>>,
    draws: RefCell<Draws>,
    measurements: RefCell<Measurements>,
    output: Rc<Output>,
    /// Operations that ended.
    done: Cell<u64>,
    /// Operations of all threads; 0 for any number.
    wanted: u64,
    /// Threads that have not ended.
    running: Cell<u64>,
    /// No operation begins any more.
    stopped: Flag,
    /// All threads have ended.
    ended: Flag,
    complaints: RefCell<Complaints>,
    /// One moment by both clocks, from which others follow: asking the system costs more than counting an operation.
    origin: Moment,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The lines of the report.
    pub lines: Vec<Line>,
    /// How often comparisons came out in each way.
    pub verified: Vec<(Status, u64)>,
}

/// Runs what the settings say. Errors: the servers cannot be reached; nothing was done. What fails later is counted.
pub async fn run(settings: Settings, output: Rc<Output>) -> Result<Ended, Error> {
    output.complain("Starting test.");
    let workload = Rc::new(settings.workload.clone());
    let session = Rc::new(Session::connect(&settings.servers, workload.clone()).await?);
    output.complain(&said_of_errors(&settings));
    let shared = Rc::new(Shared {
        phase: settings.phase,
        tick: settings.tick,
        session: RefCell::new(Some(session.clone())),
        draws: RefCell::new(Draws::new(&workload, runtime::random_u64())),
        measurements: RefCell::new(Measurements::new(settings.measuring.clone())),
        output,
        done: Cell::new(0),
        wanted: settings.operations,
        running: Cell::new(settings.threads),
        stopped: Flag::new(),
        ended: Flag::new(),
        complaints: RefCell::default(),
        origin: Moment { now: runtime::now().0, unix_micros: runtime::unix_micros() },
        workload,
    });
    let start = runtime::now();
    for index in 0..settings.threads {
        let share = match (settings.operations, settings.phase) {
            // Loading nothing is done at once; only a run has no end.
            (0, Phase::Run) => None,
            (all, _) => Some(all / settings.threads + u64::from(index < all % settings.threads)),
        };
        runtime::spawn(Group::QUERY, work(Thread::new(shared.clone(), session.clone()), share));
    }
    drop(session);
    let timer = settings.time.map(|time| runtime::spawn(Group::MAIN, end_after(shared.clone(), time)));
    let teller = settings
        .progress
        .clone()
        .map(|progress| runtime::spawn(Group::MAIN, tell(shared.clone(), progress, start)));
    or_interrupted(shared.ended.wait()).await;
    // What is on its way ends, at the latest when requests time out.
    shared.stopped.set();
    shared.ended.wait().await;
    let run_ms = millis(start, runtime::now());
    for task in [timer, teller].into_iter().flatten() {
        task.await;
    }
    shared.complaints.borrow_mut().flush(&shared.output);
    let mut lines = report::head(shared.done.get(), run_ms);
    let mut measurements = shared.measurements.borrow_mut();
    lines.extend(measurements.export(shared.moment(), &shared.output));
    Ok(Ended { lines, verified: measurements.counts(Operation::Verify) })
}

fn millis(from: Instant, to: Instant) -> u64 {
    (to - from).as_millis() as u64
}

/// Lets no operation begin after a time.
async fn end_after(shared: Rc<Shared>, time: Duration) {
    let say = |text: &str| shared.output.complain(text);
    say(&format!("Maximum execution time specified as: {} secs", time.as_secs()));
    if runtime::timeout(time, shared.stopped.wait()).await.is_ok() {
        return say("Could not wait until max specified time, TerminatorThread interrupted.");
    }
    say("Maximum time elapsed. Requesting stop for the workload.");
    shared.stopped.set();
    say("Stop requested for workload. Now Joining!");
}

/// Says how it goes: at once, then after each interval, then at the end.
async fn tell(shared: Rc<Shared>, progress: Progress, start: Instant) {
    let (mut last, mut operations) = (start, 0);
    let mut next = start;
    loop {
        let now = runtime::now();
        let done = shared.done.get();
        let at = report::Progress {
            unix_micros: runtime::unix_micros(),
            run_ms: millis(start, now),
            interval_ms: millis(last, now),
            operations: done,
            recent: done - operations,
            left: shared.wanted.saturating_sub(done),
        };
        let mut text = report::progress(&progress.label, &at);
        text.push_str(&shared.measurements.borrow_mut().summary(shared.moment(), &shared.output));
        shared.output.complain(&text);
        if progress.on_report {
            shared.output.line(&text);
        }
        if shared.ended.is_set() {
            return;
        }
        (last, operations) = (now, done);
        next += progress.interval;
        // The last line does not wait for its time.
        let _ended_early = runtime::timeout_at(next, shared.ended.wait()).await;
    }
}

/// Complaints about requests: a few in each second, the others as a number.
#[derive(Debug, Default)]
struct Complaints {
    second: u64,
    said: u32,
    unsaid: u64,
}

impl Complaints {
    fn say(&mut self, text: impl FnOnce() -> String, output: &Output) {
        let second = runtime::now().0 / 1_000_000_000;
        if self.second != second {
            self.flush(output);
            (self.second, self.said) = (second, 0);
        }
        if self.said < COMPLAINTS_PER_SECOND {
            self.said += 1;
            output.complain(&text());
        } else {
            self.unsaid += 1;
        }
    }

    fn flush(&mut self, output: &Output) {
        let unsaid = std::mem::take(&mut self.unsaid);
        if 0 < unsaid {
            output.complain(&format!("{unsaid} more requests failed within a second"));
        }
    }
}

impl Shared {
    fn moment(&self) -> Moment {
        self.moment_of(runtime::now().0)
    }

    /// The moment of an instant of the run's clock.
    fn moment_of(&self, now: u64) -> Moment {
        let passed = now.saturating_sub(self.origin.now) / 1000;
        Moment { now, unix_micros: self.origin.unix_micros + passed as i64 }
    }

    /// Counts the latency of a request and what came of it.
    fn measure(&self, operation: Operation, done: &Done) {
        let moment = self.moment_of(done.ended);
        let mut measurements = self.measurements.borrow_mut();
        measurements.measure(operation, done, moment, &self.output);
        measurements.report(operation, done.status, moment, &self.output);
    }

    /// Counts a latency, but nothing that came of it.
    fn measure_alone(&self, operation: Operation, done: &Done) {
        self.measurements.borrow_mut().measure(operation, done, self.moment_of(done.ended), &self.output);
    }

    /// Counts a comparison: all in one block, whatever came of it.
    fn measure_together(&self, operation: Operation, done: &Done) {
        let moment = self.moment_of(done.ended);
        let mut measurements = self.measurements.borrow_mut();
        measurements.measure_together(operation, done, moment, &self.output);
        measurements.report(operation, done.status, moment, &self.output);
    }
}

/// Runs one thread's operations.
async fn work(mut thread: Thread, share: Option<u64>) {
    let shared = thread.shared.clone();
    // Waited for again and again: it takes one place among those that wait, however many operations there are.
    let mut stopped = pin!(shared.stopped.wait());
    if let Some(tick) = shared.tick
        && Duration::from_millis(1) <= tick
    {
        // Threads that start together would ask together for ever.
        let phase = tick.mul_f64(shared.draws.borrow_mut().unit());
        // Whether it was stopped is asked below.
        let _stopped = stopped_by(runtime::now() + phase, stopped.as_mut()).await;
    }
    let start = runtime::now();
    let mut done = 0;
    while share.is_none_or(|share| done < share) && !shared.stopped.is_set() {
        let goes_on = match shared.phase {
            Phase::Load => thread.load(stopped.as_mut()).await,
            Phase::Run => thread.transaction().await,
        };
        if !goes_on {
            break;
        }
        done += 1;
        shared.done.set(shared.done.get() + 1);
        if let Some(tick) = shared.tick {
            let due = start + Duration::from_nanos((tick.as_nanos() as u64).saturating_mul(done));
            if stopped_by(due, stopped.as_mut()).await {
                break;
            }
            thread.due = Some(due);
        }
        if std::mem::take(&mut thread.was_away)
            && !shared.stopped.is_set()
            && stopped_by(runtime::now() + AWAY_REST, stopped.as_mut()).await
        {
            break;
        }
    }
    clean_up(thread);
}

/// Ends a thread; the last one ends the session.
fn clean_up(thread: Thread) {
    let shared = thread.shared.clone();
    let started = runtime::now().0;
    drop(thread);
    let left = shared.running.get() - 1;
    shared.running.set(left);
    if left == 0 {
        shared.session.borrow_mut().take();
    }
    let done = Done { intended: started, started, ended: runtime::now().0, status: Status::Ok };
    shared.measure_alone(Operation::Cleanup, &done);
    if left == 0 {
        shared.ended.set();
    }
}

/// Waits for an instant; true when the run is stopped before. Then it must not be asked again.
async fn stopped_by(instant: Instant, stopped: Pin<&mut impl Future<Output = ()>>) -> bool {
    runtime::now() < instant && runtime::timeout_at(instant, stopped).await.is_ok()
}

/// One thread, with memory for its requests.
struct Thread {
    shared: Rc<Shared>,
    session: Rc<Session>,
    workload: Rc<Workload>,
    key: String,
    text: String,
    bytes: Vec<u8>,
    bound: ValuesBuilder,
    record: Record,
    /// When the schedule had its operation start; nothing for the first one, and without a schedule.
    due: Option<Instant>,
    /// The last request found nobody to talk to.
    was_away: bool,
}

impl Thread {
    fn new(shared: Rc<Shared>, session: Rc<Session>) -> Thread {
        Thread {
            workload: shared.workload.clone(),
            shared,
            session,
            key: String::new(),
            text: String::new(),
            bytes: Vec::new(),
            bound: ValuesBuilder::new(),
            record: Record::default(),
            due: None,
            was_away: false,
        }
    }

    fn put_key(&mut self, record: u64) {
        self.workload.keys.put(record, &mut self.key);
    }

    /// Binds the value of a field.
    fn bind_field(&mut self, field: usize) {
        let bytes = self.shared.draws.borrow_mut().field_bytes();
        if self.workload.integrity {
            put_known(&self.key, &self.workload.fields[field], bytes, &mut self.text);
            self.bound.bytes(self.text.as_bytes());
        } else {
            self.bytes.clear();
            put_random(bytes, self.shared.draws.borrow_mut().rng(), &mut self.bytes);
            self.bound.bytes(&self.bytes);
        }
    }

    fn bind_all_fields(&mut self) {
        let workload = self.workload.clone();
        workload.write_order.iter().for_each(|field| self.bind_field(*field));
    }

    /// Binds a whole record: its key, then its fields.
    fn bind_record(&mut self) {
        self.bound.clear();
        self.bound.bytes(self.key.as_bytes());
        self.bind_all_fields();
    }

    /// Binds what an update writes, then its key.
    fn bind_update(&mut self) -> Shape {
        self.bound.clear();
        let shape = if self.workload.writes_all {
            self.bind_all_fields();
            Shape::UpdateAll
        } else {
            let field = self.shared.draws.borrow_mut().field();
            self.bind_field(field);
            Shape::Update(field)
        };
        self.bound.bytes(self.key.as_bytes());
        shape
    }

    /// One of the fields, unless reads take all.
    fn fields(&self) -> Fields {
        if self.workload.reads_all {
            Fields::Any
        } else {
            Fields::One(self.shared.draws.borrow_mut().field())
        }
    }

    /// When an operation should have started, and when it does.
    fn start(&self) -> (u64, u64) {
        let now = runtime::now().0;
        (self.due.map_or(now, |due| due.0), now)
    }

    fn measured(&self, operation: Operation, (intended, started): (u64, u64), status: Status) -> Status {
        let done = Done { intended, started, ended: runtime::now().0, status };
        self.shared.measure(operation, &done);
        status
    }

    /// What a request came to, and what to say of an error.
    fn status(&mut self, doing: &str, result: Result<Status, client::Error>) -> Status {
        match result {
            Ok(status) => status,
            Err(error) => {
                self.was_away = matches!(error, client::Error::Connect { .. } | client::Error::Closed(_));
                let text = || format!("Error {doing} key: {}: {}", self.key, client::contact::named(&error));
                self.shared.complaints.borrow_mut().say(text, &self.shared.output);
                Status::Error
            }
        }
    }

    async fn write(&mut self, operation: Operation, shape: Shape) -> Status {
        let start = self.start();
        let written = self.session.write(shape, &self.key, &self.bound).await;
        let doing = if operation == Operation::Insert { "inserting" } else { "updating" };
        let status = self.status(doing, written.map(|()| Status::Ok));
        self.measured(operation, start, status)
    }

    /// Reads the record of the key; keeps it when it will be compared.
    async fn read(&mut self, fields: Fields) -> Status {
        self.record.0.clear();
        let start = self.start();
        let record = self.workload.integrity.then_some(&mut self.record);
        let found = self.session.read(fields, &self.key, record).await;
        let status = self.status("reading", found.map(|is| if is { Status::Ok } else { Status::NotFound }));
        self.measured(Operation::Read, start, status)
    }

    /// Compares the record that was read with what was written under its key.
    fn verify(&mut self) {
        let started = runtime::now().0;
        let mut status = if self.record.0.is_empty() { Status::Error } else { Status::Ok };
        let bytes = self.shared.draws.borrow_mut().field_bytes();
        for (name, value) in &self.record.0 {
            // The key itself is among the columns when all are asked for.
            if **name == *KEY {
                continue;
            }
            put_known(&self.key, name, bytes, &mut self.text);
            if value.as_deref() != Some(self.text.as_bytes()) {
                status = Status::UnexpectedState;
                break;
            }
        }
        let done = Done { intended: started, started, ended: runtime::now().0, status };
        self.shared.measure_together(Operation::Verify, &done);
    }

    /// Inserts the next record of the load phase, again if that is wanted; whether the thread goes on.
    async fn load(&mut self, mut stopped: Pin<&mut impl Future<Output = ()>>) -> bool {
        let record = self.shared.draws.borrow_mut().load();
        self.put_key(record);
        self.bind_record();
        let retries = self.workload.retries;
        let mut tries = 0;
        loop {
            if self.write(Operation::Insert, Shape::Insert).await == Status::Ok {
                return true;
            }
            tries += 1;
            if retries.limit < tries {
                let text = || {
                    format!(
                        "Error inserting, not retrying any more. number of attempts: {tries}Insertion Retry Limit: {}",
                        retries.limit
                    )
                };
                self.shared.complaints.borrow_mut().say(text, &self.shared.output);
                return retries.goes_on;
            }
            let text = || format!("Retrying insertion, retry count: {tries}");
            self.shared.complaints.borrow_mut().say(text, &self.shared.output);
            let rest = retries.rest.mul_f64(0.8 + 0.4 * self.shared.draws.borrow_mut().unit());
            let rest = rest.max(if self.was_away { AWAY_REST } else { Duration::ZERO });
            if self.shared.stopped.is_set() || stopped_by(runtime::now() + rest, stopped.as_mut()).await {
                return false;
            }
        }
    }

    /// Runs one operation of the run phase; false when there is none.
    async fn transaction(&mut self) -> bool {
        let Some(action) = self.shared.draws.borrow_mut().action() else { return false };
        if action == Action::Insert {
            self.insert().await;
            return true;
        }
        let record = self.shared.draws.borrow_mut().record();
        self.put_key(record);
        match action {
            Action::Read => {
                let by_name = self.workload.integrity || self.workload.reads_by_name;
                let fields = match self.fields() {
                    Fields::Any if by_name => Fields::Named,
                    fields => fields,
                };
                self.read(fields).await;
                if self.workload.integrity {
                    self.verify();
                }
            }
            Action::Update => {
                let shape = self.bind_update();
                self.write(Operation::Update, shape).await;
            }
            Action::Scan => self.scan().await,
            Action::ReadModifyWrite => self.read_modify_write().await,
            Action::Insert => {}
        }
        true
    }

    async fn insert(&mut self) {
        let record = self.shared.draws.borrow_mut().insert();
        self.put_key(record);
        self.bind_record();
        self.write(Operation::Insert, Shape::Insert).await;
        self.shared.draws.borrow_mut().acknowledge(record);
    }

    async fn scan(&mut self) {
        let records = self.shared.draws.borrow_mut().scan_records();
        let fields = self.fields();
        let start = self.start();
        let scanned = self.session.scan(fields, &self.key, records).await;
        let status = self.status("scanning with start", scanned.map(|_| Status::Ok));
        self.measured(Operation::Scan, start, status);
    }

    async fn read_modify_write(&mut self) {
        let fields = self.fields();
        let shape = self.bind_update();
        let (intended, started) = self.start();
        // Also without a record: as it has always been. But at the end a server that hangs is not waited for twice.
        let found = self.read(fields).await;
        if found == Status::Error && self.shared.stopped.is_set() {
            return;
        }
        self.write(Operation::Update, shape).await;
        let done = Done { intended, started, ended: runtime::now().0, status: Status::Ok };
        if self.workload.integrity {
            self.verify();
        }
        self.shared.measure_alone(Operation::ReadModifyWrite, &done);
    }
}
