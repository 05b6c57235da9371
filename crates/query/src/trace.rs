//! Requests that were traced: a ring in memory, shown as `system_traces`. Nothing of it survives a restart, and each
//! node shows what it coordinated itself.

use crate::limits;
use crate::outcome::{Answer, Outcome};
use base::Instant;
use core::net::IpAddr;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

/// One traced request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// A timeuuid: what the client is told and asks for.
    pub id: u128,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// Who asked.
    pub client: IpAddr,
    /// What kind of request it is, such as `Execute CQL3 query`.
    pub request: &'static str,
    /// What it was asked with.
    pub parameters: BTreeMap<String, String>,
    /// How long it took, in microseconds.
    pub duration_us: i32,
    /// What happened.
    pub events: Vec<TraceEvent>,
    started: Instant,
}

/// Something that happened while a request was served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// A timeuuid; ascending within a trace.
    pub id: u128,
    /// What happened.
    pub activity: String,
    /// When, in microseconds from the start.
    pub elapsed_us: i32,
    /// Where.
    pub thread: String,
}

impl Trace {
    /// A trace that begins now. `tick` counts 100 ns since the Unix epoch, each call later than the one before.
    pub(crate) fn begin(
        request: &'static str,
        client: IpAddr,
        parameters: BTreeMap<String, String>,
        tick: impl Fn() -> i64,
    ) -> Trace {
        let mut trace = Trace {
            id: time_id(tick()),
            started_at_ms: runtime::unix_micros() / 1000,
            client,
            request,
            parameters,
            duration_us: 0,
            events: Vec::with_capacity(2),
            started: runtime::now(),
        };
        trace.event(format!("Received by shard {}", runtime::shard().0), tick());
        trace
    }

    /// Notes what became of it.
    pub(crate) fn end(&mut self, answer: Option<&Answer>, tick: i64) {
        let became = match answer.map(|a| &a.outcome) {
            Some(Outcome::Rows(rows)) if rows.paging_state.is_some() => {
                format!("Answered with {} rows and more to come", rows.count)
            }
            Some(Outcome::Rows(rows)) => format!("Answered with {} rows", rows.count),
            Some(Outcome::SchemaChange(_)) => "Schema changed on every shard".into(),
            Some(Outcome::Prepared(_)) => "Prepared on every shard".into(),
            Some(Outcome::Void | Outcome::SetKeyspace(_)) => "Done".into(),
            None => "Failed".into(),
        };
        self.event(became, tick);
        self.duration_us = self.elapsed_us();
    }

    fn event(&mut self, activity: String, tick: i64) {
        let (id, elapsed_us) = (time_id(tick), self.elapsed_us());
        self.events.push(TraceEvent {
            id,
            activity,
            elapsed_us,
            thread: format!("shard-{}", runtime::shard().0),
        });
    }

    fn elapsed_us(&self) -> i32 {
        i32::try_from((runtime::now() - self.started).as_micros()).unwrap_or(i32::MAX)
    }
}

fn time_id(tick: i64) -> u128 {
    u128::from_be_bytes(*types::timeuuid::from_ticks(tick, runtime::random_u64()).as_bytes())
}

/// The newest traces of one shard.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    ring: RefCell<VecDeque<Trace>>,
}

impl Traces {
    /// Keeps a trace; the oldest makes room.
    pub fn keep(&self, trace: Trace) {
        let mut ring = self.ring.borrow_mut();
        if ring.len() >= limits::TRACES_MAX {
            ring.pop_front();
        }
        ring.push_back(trace);
    }

    /// All of them, oldest first.
    pub fn all(&self) -> Vec<Trace> {
        self.ring.borrow().iter().cloned().collect()
    }
}
