//! A repair from its start to its end: ranges, pages, progress. On the shard that was asked; each page is worked on by the shard that owns its tokens.

use super::page::{Page, PageError, Rest};
use super::party::Whom;
use super::plan::{Piece, Plan, RepairOptions, filling, plan};
use crate::coordinator::Coordinator;
use crate::limits::{
    REPAIR_LINES_MAX, REPAIR_PAGE_TRIES, REPAIR_PAUSE, REPAIR_RANGES_AT_ONCE, REPAIRS_REMEMBERED,
};
use base::{HostId, Instant, Token, shard_of};
use mutation::TokenRange;
use runtime::sync::{Event, Semaphore};
use runtime::{Group, ShardId};
use schema::TableId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// How far a repair is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairState {
    /// It runs.
    Running,
    /// All of it is done, durably.
    Done,
    /// It ended before that, for this reason.
    Failed(String),
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// Something as it is.
    Notice,
    /// So much of it is done, in percent.
    Progress(u8),
    /// It has failed.
    Error,
    /// It has ended.
    Complete,
}

/// One line for whoever waits for a repair, as Cassandra words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// What it says.
    pub kind: LineKind,
    /// In words.
    pub text: String,
}

/// One repair, while it runs and for a while after.
pub struct Repair {
    /// Its number, from 1; 0 where a node is filled.
    pub id: u32,
    /// Its identity.
    pub session: u128,
    /// The keyspace.
    pub keyspace: String,
    /// Tables that are repaired.
    tables: Arc<[TableId]>,
    whom: Arc<Whom>,
    rows: bool,
    rounds: bool,
    ranges: usize,
    done: Cell<usize>,
    state: RefCell<RepairState>,
    lines: RefCell<VecDeque<Line>>,
    /// Lines that were let go.
    gone: Cell<usize>,
    is_stopped: Cell<bool>,
    ended: Event,
    began: Instant,
    writes: Cell<u64>,
    bytes: Cell<u64>,
    lost: Cell<bool>,
}

/// The repairs that were asked for on this node. Owned by one shard.
#[derive(Default)]
pub struct Repairs {
    last_id: Cell<u32>,
    all: RefCell<VecDeque<Rc<Repair>>>,
    is_closed: Cell<bool>,
}

impl Repairs {
    /// Begins a repair. `None`: nobody else holds anything of the keyspace. `described`: its options as the first line shows them.
    /// Errors: it cannot be done, in words for the operator; nothing was begun.
    pub fn start(
        &self,
        coordinator: &Coordinator,
        keyspace: &str,
        options: &RepairOptions,
        described: impl FnOnce(usize) -> String,
    ) -> Result<Option<Rc<Repair>>, String> {
        if self.is_closed.get() {
            return Err("this node drains".to_owned());
        }
        let view = coordinator.view();
        let planned = plan(&view.snapshot, &view.schema, keyspace, options);
        let planned = match planned {
            Ok(None) => return Ok(None),
            Ok(Some(planned)) => Ok(planned),
            // What is wrong with the words is answered; what is wrong with the cluster is how the repair ends.
            Err(text) if text.starts_with("Endpoint not alive") => Err(text),
            Err(text) => return Err(text),
        };
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        let pieces = planned.as_ref().map_or(0, |planned| planned.pieces.len());
        let (session, shown) = (runtime::random_uuid(), described(pieces));
        let repair = Rc::new(Repair::new(id, session, keyspace, planned.as_ref().ok()));
        repair.tell(
            LineKind::Notice,
            format!(
                "Starting repair command #{id} ({}), repairing keyspace {keyspace} with repair options ({shown})",
                HostId(session)
            ),
        );
        let mut all = self.all.borrow_mut();
        all.push_back(repair.clone());
        while all.len() > REPAIRS_REMEMBERED
            && let Some(at) = all.iter().position(|repair| repair.state() != RepairState::Running)
        {
            all.remove(at);
        }
        let begun = repair.clone();
        drop(runtime::spawn(Group::STREAMING, async move {
            let outcome = match planned {
                Ok(planned) => begun.clone().run(planned.pieces).await,
                Err(text) => Err(text),
            };
            begun.end(outcome);
        }));
        Ok(Some(repair))
    }

    /// One of them, if it is remembered.
    pub fn get(&self, id: u32) -> Option<Rc<Repair>> {
        self.all.borrow().iter().find(|repair| repair.id == id).cloned()
    }

    /// Those that are remembered, oldest first.
    pub fn all(&self) -> Vec<Rc<Repair>> {
        self.all.borrow().iter().cloned().collect()
    }

    /// Ends those that run, or the one of this number, each behind the pages at hand; returns how many.
    pub fn stop(&self, id: Option<u32>) -> usize {
        let all = self.all.borrow();
        let wanted = |repair: &&Rc<Repair>| id.is_none_or(|id| repair.id == id);
        let running = all.iter().filter(wanted).filter(|repair| repair.state() == RepairState::Running);
        running.map(|repair| repair.is_stopped.set(true)).count()
    }

    /// Ends all, and begins none any more.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.stop(None);
    }
}

impl Repair {
    fn new(id: u32, session: u128, keyspace: &str, planned: Option<&Plan>) -> Repair {
        let whom = planned.map_or_else(|| Whom::Holders(Default::default()), |planned| planned.whom.clone());
        Repair {
            id,
            session,
            keyspace: keyspace.to_owned(),
            tables: planned.map(|planned| planned.tables.as_slice().into()).unwrap_or_default(),
            whom: Arc::new(whom),
            rows: planned.is_some_and(|planned| planned.rows),
            rounds: planned.is_some_and(|planned| planned.rounds),
            ranges: planned.map_or(0, |planned| planned.pieces.len()),
            done: Cell::new(0),
            state: RefCell::new(RepairState::Running),
            lines: RefCell::default(),
            gone: Cell::new(0),
            is_stopped: Cell::new(false),
            ended: Event::new(),
            began: runtime::now(),
            writes: Cell::new(0),
            bytes: Cell::new(0),
            lost: Cell::new(false),
        }
    }

    /// How far it is.
    pub fn state(&self) -> RepairState {
        self.state.borrow().clone()
    }

    /// Ranges that are done, and all.
    pub fn progress(&self) -> (usize, usize) {
        (self.done.get(), self.ranges)
    }

    /// Mutations that replicas lacked so far, and their bytes.
    pub fn written(&self) -> (u64, u64) {
        (self.writes.get(), self.bytes.get())
    }

    /// The lines from a number on, as far as they are kept, and the number behind them.
    pub fn lines(&self, from: usize) -> (Vec<Line>, usize) {
        let (lines, gone) = (self.lines.borrow(), self.gone.get());
        (lines.iter().skip(from.saturating_sub(gone)).cloned().collect(), gone + lines.len())
    }

    /// Returns when it has ended, or after a time.
    pub async fn wait(&self, timeout: std::time::Duration) {
        let until = runtime::now() + timeout;
        while self.state() == RepairState::Running && runtime::now() < until {
            let _ended_or_late = runtime::timeout_at(until, self.ended.wait()).await;
        }
    }

    /// Sweeps ballots, as planned; how many, and why no more.
    pub(super) async fn sweep(keyspace: &str, plan: Plan) -> (u64, Result<(), String>) {
        let sweep = Rc::new(Repair::new(0, 0, keyspace, Some(&plan)));
        let outcome = sweep.clone().run(plan.pieces).await;
        (sweep.writes.get(), outcome)
    }

    fn tell(&self, kind: LineKind, text: String) {
        match self.id {
            // Of a node that is filled its ranges are told together.
            0 => runtime::debug!("repair: {text}"),
            _ => runtime::info!("repair: {text}"),
        }
        let mut lines = self.lines.borrow_mut();
        if lines.len() == REPAIR_LINES_MAX {
            lines.pop_front();
            self.gone.set(self.gone.get() + 1);
        }
        lines.push_back(Line { at_ms: runtime::unix_micros() / 1000, kind, text });
    }

    fn end(&self, outcome: Result<(), String>) {
        let id = self.id;
        let state = match outcome {
            Ok(()) => {
                self.tell(LineKind::Notice, "Repair completed successfully".to_owned());
                let s = (runtime::now() - self.began).as_secs();
                let seconds = if s == 1 { "second" } else { "seconds" };
                self.tell(LineKind::Complete, format!("Repair command #{id} finished in {s} {seconds}"));
                RepairState::Done
            }
            Err(text) => {
                self.tell(LineKind::Error, format!("Repair command #{id} failed with error {text}"));
                self.tell(LineKind::Complete, format!("Repair command #{id} finished with error"));
                RepairState::Failed(text)
            }
        };
        *self.state.borrow_mut() = state;
        self.ended.notify_all();
    }

    /// A few ranges at once. Errors: the first; ranges that were begun end behind their page.
    async fn run(self: Rc<Self>, pieces: Vec<Piece>) -> Result<(), String> {
        let turns = Semaphore::new(REPAIR_RANGES_AT_ONCE);
        let mut begun = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let turn = turns.acquire(1).await;
            if self.is_stopped.get() {
                break;
            }
            let this = self.clone();
            begun.push(runtime::spawn(Group::STREAMING, async move {
                let _turn = turn;
                let outcome = this.piece(&piece).await;
                if outcome.is_err() && !matches!(*this.whom, Whom::AtRest(_)) {
                    this.is_stopped.set(true);
                }
                outcome
            }));
        }
        let (mut outcome, count) = (Ok(()), begun.len());
        for piece in begun {
            outcome = outcome.and(piece.await);
        }
        // Who was stopped has ended with an error, but one that was stopped between two ranges.
        if outcome.is_ok() && count < self.ranges { Err(STOPPED.to_owned()) } else { outcome }
    }

    async fn piece(&self, piece: &Piece) -> Result<(), String> {
        for range in &piece.ranges {
            // First: what they come to is repaired with the rows.
            if self.rounds {
                self.range(Work::Rounds(self.tables.clone()), *range, &piece.name).await?;
            }
            for table in self.tables.iter().filter(|_| self.rows) {
                self.range(Work::Rows(*table), *range, &piece.name).await?;
            }
        }
        let done = self.done.get() + 1;
        self.done.set(done);
        let percent = (done * 100 / self.ranges.max(1)) as u8;
        let session = HostId(self.session);
        let text = format!("Repair session {session} for range [{}] finished", piece.name);
        self.tell(LineKind::Progress(percent), text);
        Ok(())
    }

    async fn range(&self, work: Work, range: TokenRange, name: &str) -> Result<(), String> {
        let mut left = Some(Rest { range, resume: None, differs: false });
        let (mut failed, mut pause) = (0, REPAIR_PAUSE);
        while let Some(rest) = left.take() {
            if self.is_stopped.get() || runtime::shutdown_is_requested() {
                return Err(STOPPED.to_owned());
            }
            match page(work.clone(), rest.clone(), self.whom.clone()).await {
                Ok(page) => {
                    self.writes.set(self.writes.get() + page.writes);
                    self.bytes.set(self.bytes.get() + page.bytes);
                    self.lost.set(self.lost.get() || page.lost);
                    left = page.rest;
                    (failed, pause) = (0, REPAIR_PAUSE);
                }
                Err(error) => {
                    failed += 1;
                    let is_filling = matches!(*self.whom, Whom::Onto(_));
                    // Who fills a new node tries again by itself, as a whole.
                    let is_final = failed >= REPAIR_PAGE_TRIES || matches!(error, PageError::Down(_));
                    if is_final {
                        return Err(self.why(&error, name, is_filling));
                    }
                    if error != PageError::Behind {
                        runtime::debug!("repair: range {name}: {error:?}");
                        runtime::sleep(pause).await;
                        pause *= 2;
                    }
                    left = Some(rest);
                }
            }
        }
        Ok(())
    }

    fn why(&self, error: &PageError, name: &str, is_filling: bool) -> String {
        let keyspace = &self.keyspace;
        let shown = |hosts: &[IpAddr]| {
            let all: Vec<String> = hosts.iter().map(|host| format!("/{host}")).collect();
            all.join(", ")
        };
        match error {
            PageError::Down(hosts) if is_filling => format!(
                "too few holders of range {name} of keyspace {keyspace} answer, {} do not: what they may alone have would be lost",
                shown(hosts)
            ),
            PageError::Down(hosts) => {
                format!(
                    "Endpoint not alive: {}, which holds range {name} of keyspace {keyspace}",
                    shown(hosts)
                )
            }
            PageError::Replica(host, text) => {
                format!("range {name} of keyspace {keyspace}: /{host}: {text}")
            }
            PageError::Behind => {
                format!("range {name} of keyspace {keyspace}: its holders change again and again")
            }
        }
    }
}

const STOPPED: &str = "it was stopped";

/// What is done page by page.
#[derive(Clone)]
enum Work {
    /// The rows of a table are made equal.
    Rows(TableId),
    /// The open rounds of conditional writes of these tables are finished, or what is at rest of them is swept.
    Rounds(Arc<[TableId]>),
}

/// A page, by the shard that owns its first token.
async fn page(work: Work, rest: Rest, whom: Arc<Whom>) -> Result<Page, PageError> {
    let from: Token = rest.resume.as_ref().map_or(rest.range.first, |resume| resume.key.token);
    let shard = ShardId(shard_of(from, runtime::shard_count()));
    let work = move || async move {
        let coordinator = runtime::local::<Coordinator>();
        match work {
            Work::Rows(table) => coordinator.repair_page(table, rest, whom).await,
            Work::Rounds(tables) => coordinator.repair_rounds(tables, rest, whom).await,
        }
    };
    if shard == runtime::shard() {
        work().await
    } else {
        runtime::submit_to(shard, Group::STREAMING, work).await
    }
}

/// What filling a member has come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filled {
    /// Mutations that were brought to it, and their bytes.
    pub written: (u64, u64),
    /// Keyspaces of which it holds ranges that nobody else has: what was in them is gone.
    pub lost: Vec<String>,
}

impl Coordinator {
    /// Brings to this node what it is to hold of all keyspaces, from those who hold it: see `docs/mechanisms/repair.md`. Everything is durable here
    /// when it returns. `on_progress`: ranges that are done, and all.
    /// Errors: it was not all brought, in words; again from the beginning, which costs little for what is there.
    pub async fn fill(&self, on_progress: impl Fn(usize, usize)) -> Result<Filled, String> {
        let view = self.view();
        let host = view.snapshot.local_id();
        let keyspaces = view.schema.keyspaces.values();
        let plans: Vec<(String, Plan)> = keyspaces
            .map(|keyspace| (keyspace.name.to_string(), filling(&view.snapshot, keyspace, host)))
            .filter(|(_, plan)| !plan.pieces.is_empty())
            .collect();
        let all: usize = plans.iter().map(|(_, plan)| plan.pieces.len()).sum();
        let (mut filled, mut done) = (Filled::default(), 0);
        // A request in flight would hold up a barrier.
        drop(view);
        for (keyspace, plan) in plans {
            let repair = Rc::new(Repair::new(0, 0, &keyspace, Some(&plan)));
            let count = plan.pieces.len();
            repair.clone().run(plan.pieces).await?;
            done += count;
            on_progress(done, all);
            filled.written.0 += repair.writes.get();
            filled.written.1 += repair.bytes.get();
            if repair.lost.get() {
                filled.lost.push(keyspace);
            }
        }
        Ok(filled)
    }
}
