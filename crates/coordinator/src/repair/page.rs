//! One page of a range: read from several replicas, compared, and what one lacks is written to it.

use super::lacking::{Judge, lacking};
use super::party::{Absent, Party, Task, Whom, task};
use crate::coordinator::Coordinator;
use crate::limits::{REPAIR_PAGE_BYTES, REPAIR_PAGE_TOMBSTONES, REPAIR_PAGE_WITHIN, REPAIR_WRITE_BYTES};
use crate::merge::merge_only;
use crate::read::digest_of;
use crate::replicas::Silence;
use crate::view::{Placed, View};
use base::{HashMap, HostId, Token};
use mutation::{ByteLimit, Mutation, MutationView, ReadAnswer, ReadCommand, Resume, Scope, TokenRange};
use replica::{Request, Response, VERB_BACKGROUND};
use rpc::Outgoing;
use runtime::{Bug, Group, JoinHandle};
use schema::{Table, TableId};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::Durability;

/// What is left of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) range: TokenRange,
    pub(super) resume: Option<Resume>,
    /// The page before differed: data is asked for at once, without digests before.
    pub(super) differs: bool,
}

/// What a page has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// What is left behind it.
    pub(super) rest: Option<Rest>,
    /// Messages of rows that replicas lacked.
    pub(super) writes: u64,
    /// Bytes of them.
    pub(super) bytes: u64,
    /// Nobody who lives has ever had it.
    pub(super) lost: bool,
}

/// Why a page was not repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageError {
    /// Holders that are needed do not answer.
    Down(Vec<IpAddr>),
    /// A replica could not, for this reason. Try again.
    Replica(IpAddr, String),
    /// A replica knows a newer placement. Try again.
    Behind,
}

impl Coordinator {
    /// Repairs the first page of what is left of a range. Everything written is durable when it returns.
    pub(super) async fn repair_page(
        self: Rc<Self>,
        table: TableId,
        rest: Rest,
        whom: Arc<Whom>,
    ) -> Result<Page, PageError> {
        let view = self.view();
        // A table that is gone needs nothing.
        let Some(placed) = view.placed(table) else { return Ok(Page::default()) };
        match PageOf::begin(self, view, placed, &rest, &whom)? {
            Begun::Done(page) => Ok(page),
            Begun::Part(page, part, behind) => page.run(&rest, part, behind).await,
        }
    }

    /// Sends a request in the group of streaming, there as well as here.
    pub(super) async fn ask_in_background(
        self: Rc<Self>,
        view: Rc<View>,
        host: HostId,
        request: Request,
        timeout: Duration,
    ) -> Result<Response, Silence> {
        if host == view.snapshot.local_id() {
            let (local, on) = (self.local().working_in(Group::STREAMING), view.point());
            let work = runtime::spawn(Group::STREAMING, async move { local.handle(request, on).await });
            let response = runtime::timeout(timeout, work).await.map_err(|_| Silence::Unheard)?;
            return crate::replicas::done_or_failed(response);
        }
        let outgoing = Outgoing { verb: VERB_BACKGROUND, version: view.point().1, timeout };
        let shard = self.shard_there(host, request.token());
        let answer = self.pool().call(host, shard, outgoing, |out| request.encode_to(out)).await;
        match answer {
            Err(error @ rpc::CallError::Unsupported { .. }) => {
                Err(Silence::Failed(replica::Error::Malformed(error.to_string())))
            }
            answer => crate::replicas::heard(answer.as_deref().map_err(rpc::CallError::clone)),
        }
    }
}

/// What stays the same through one page.
pub(super) struct PageOf {
    pub(super) coordinator: Rc<Coordinator>,
    pub(super) view: Rc<View>,
    pub(super) placed: Rc<Placed>,
    pub(super) party: Party,
    /// The second at which it began to be read.
    pub(super) now_s: u32,
}

/// How a page begins.
pub(super) enum Begun {
    /// With the tokens that have these holders, and what is left behind them.
    Part(PageOf, TokenRange, Option<Rest>),
    /// Not at all: there is nobody to compare with.
    Done(Page),
}

pub(super) type Answering = (HostId, JoinHandle<Result<Response, Silence>>);

impl PageOf {
    /// Plans the first part of what is left of a range in which holders do not change.
    pub(super) fn begin(
        coordinator: Rc<Coordinator>,
        view: Rc<View>,
        placed: Rc<Placed>,
        rest: &Rest,
        whom: &Whom,
    ) -> Result<Begun, PageError> {
        let from = rest.resume.as_ref().map_or(rest.range.first, |resume| resume.key.token);
        let parts = placed.placements.parts(from, rest.range.last);
        let Some((_, last, holders)) = parts.first().copied() else {
            return Ok(Begun::Done(Page::default()));
        };
        let behind = (last < rest.range.last).then(|| Rest {
            range: TokenRange::new(Token(last.0 + 1), rest.range.last),
            resume: None,
            differs: rest.differs,
        });
        let replication = &placed.keyspace.replication;
        let party = match task(&view.snapshot, replication, holders, whom) {
            Ok(Task::Compare(party)) => party,
            Ok(Task::Nothing) => return Ok(Begun::Done(Page { rest: behind, ..Page::default() })),
            Ok(Task::Lost) => return Ok(Begun::Done(Page { rest: behind, lost: true, ..Page::default() })),
            Err(Absent { hosts }) => {
                return Err(PageError::Down(hosts.iter().map(|host| view.address_of(*host)).collect()));
            }
        };
        let now_s = runtime::unix_seconds();
        let page = PageOf { coordinator, view, placed, party, now_s };
        Ok(Begun::Part(page, TokenRange::new(from, last), behind))
    }

    /// `part`: the tokens of what is left that have these holders; `behind`: what is left behind them.
    async fn run(&self, rest: &Rest, part: TokenRange, behind: Option<Rest>) -> Result<Page, PageError> {
        let command = self.command(rest, part);
        let table = &self.placed.table;
        let (merged, answers) = self.gather(table, &command, rest.differs).await?;
        if answers.is_empty() {
            return Ok(done(rest, behind, merged.stopped, false, (0, 0)));
        }
        let judge = Judge::new(table, command.now_s);
        let mut writing = Vec::new();
        let mut written = (0, 0);
        for (host, answer) in answers.iter().filter(|(host, _)| self.party.written.contains(host)) {
            let known: HashMap<&[u8], MutationView<'_>> =
                answer.partitions.iter().map(Mutation::view).map(|view| (view.key, view)).collect();
            let mut lacks = Vec::new();
            for whole in &merged.partitions {
                let whole = whole.view();
                let more = lacking(table, known.get(whole.key), &whole, judge, REPAIR_WRITE_BYTES);
                lacks.extend(more.map_err(|error| self.here(&error))?);
            }
            if !lacks.is_empty() {
                written.0 += lacks.len() as u64;
                written.1 += lacks.iter().map(|mutation| mutation.as_bytes().len() as u64).sum::<u64>();
                writing.push((*host, self.write(*host, lacks)));
            }
        }
        let differs = !writing.is_empty();
        drop(answers);
        self.written(writing).await?;
        Ok(done(rest, behind, merged.stopped, differs, written))
    }

    /// What all have together, and the answers of each unless they are the same. `differs`: they are not compared by digests before.
    pub(super) async fn gather(
        &self,
        table: &Table,
        command: &ReadCommand,
        differs: bool,
    ) -> Result<(ReadAnswer, Vec<(HostId, ReadAnswer)>), PageError> {
        if !differs {
            let read = self.read(command, true).await?;
            let digests = read.iter().map(|(_, answer)| digest_of(table, command, answer));
            let digests: Vec<[u8; 16]> = digests.collect();
            if digests.windows(2).all(|pair| pair[0] == pair[1]) {
                let all: Vec<ReadAnswer> = read.into_iter().map(|(_, answer)| answer).collect();
                return Ok((crate::merge::agreed(command, all), Vec::new()));
            }
        }
        let (hosts, answers): (Vec<HostId>, Vec<ReadAnswer>) =
            self.read(command, false).await?.into_iter().unzip();
        let merged = merge_only(table, command, &answers).map_err(|error| self.here(&error))?;
        Ok((merged, hosts.into_iter().zip(answers).collect()))
    }

    pub(super) fn here(&self, error: &impl std::fmt::Display) -> PageError {
        PageError::Replica(self.view.snapshot.local().broadcast(), error.to_string())
    }

    fn command(&self, rest: &Rest, part: TokenRange) -> ReadCommand {
        let everything = ReadCommand::everything(self.placed.table.id, Scope::Range(part), self.now_s);
        self.bounded(everything, rest)
    }

    /// As much of a command as one page has.
    pub(super) fn bounded(&self, command: ReadCommand, rest: &Rest) -> ReadCommand {
        let limits = self.coordinator.local().tombstone_limits(&self.placed.table);
        // In a simulation pages end after a few rows, so that partitions lie across them.
        let bytes = match runtime::simulated() {
            true => ByteLimit::near(64 << (runtime::random_u64() % 8)),
            false => REPAIR_PAGE_BYTES,
        };
        ReadCommand {
            byte_limit: bytes,
            // A replica fails reads of more than it is told to allow; half of it leaves room for the last row.
            tombstone_limit: REPAIR_PAGE_TOMBSTONES.min(limits.fail / 2).max(1),
            resume: rest.resume.clone(),
            ..command
        }
    }

    /// The answers of all; with `digests` only the first one's has data.
    async fn read(
        &self,
        command: &ReadCommand,
        digests: bool,
    ) -> Result<Vec<(HostId, ReadAnswer)>, PageError> {
        let ask = |(at, host): (usize, &HostId)| -> Answering {
            let command = ReadCommand { digest_only: digests && at > 0, ..command.clone() };
            (*host, self.ask(*host, Request::Read(command)))
        };
        let asked: Vec<Answering> = self.party.read.iter().enumerate().map(ask).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for (host, answer) in asked {
            match self.judged(host, answer.await).await? {
                Response::Answer(answer) => answers.push((host, answer)),
                _ => return Err(self.strange(host)),
            }
        }
        Ok(answers)
    }

    pub(super) fn strange(&self, host: HostId) -> PageError {
        PageError::Replica(self.view.address_of(host), "answered with something else".to_owned())
    }

    pub(super) fn ask(&self, host: HostId, request: Request) -> JoinHandle<Result<Response, Silence>> {
        let (coordinator, view) = (self.coordinator.clone(), self.view.clone());
        let asking = coordinator.ask_in_background(view, host, request, REPAIR_PAGE_WITHIN);
        runtime::spawn(Group::STREAMING, asking)
    }

    /// Writes what a replica lacks, message by message.
    pub(super) fn write(&self, host: HostId, lacks: Vec<Mutation>) -> JoinHandle<Result<Response, Silence>> {
        let (coordinator, view) = (self.coordinator.clone(), self.view.clone());
        runtime::spawn(Group::STREAMING, async move {
            let mut lacks = lacks.into_iter().peekable();
            while lacks.peek().is_some() {
                let (mut mutations, mut bytes) = (Vec::new(), 0);
                while let Some(next) = lacks.next_if(|_| bytes < REPAIR_WRITE_BYTES) {
                    bytes += next.as_bytes().len();
                    mutations.push(next);
                }
                // ⚔ Planned on the view of the page: a replica that has forgotten the table since refuses what was read before.
                let request = Request::Write { mutations, durability: Durability::Synced };
                let asking =
                    coordinator.clone().ask_in_background(view.clone(), host, request, REPAIR_PAGE_WITHIN);
                asking.await?;
            }
            Ok(Response::Done)
        })
    }

    /// All are waited for: what is begun is not left behind. Errors: the first.
    pub(super) async fn written(&self, writing: Vec<Answering>) -> Result<(), PageError> {
        let mut outcome = Ok(());
        for (host, work) in writing {
            outcome = outcome.and(self.judged(host, work.await).await.map(drop));
        }
        outcome
    }

    pub(super) async fn judged(
        &self,
        host: HostId,
        answer: Result<Response, Silence>,
    ) -> Result<Response, PageError> {
        let text = match answer {
            Ok(response) => return Ok(response),
            Err(Silence::Behind(version)) => {
                let until = runtime::now() + REPAIR_PAGE_WITHIN;
                self.coordinator.catch_up(host, version, until).await;
                return Err(PageError::Behind);
            }
            Err(Silence::Failed(error)) => error.to_string(),
            Err(Silence::Unheard) => "no answer in time".to_owned(),
        };
        Err(PageError::Replica(self.view.address_of(host), text))
    }
}

/// What is left behind a page that reached up to `stopped`, or to the end of its part.
pub(super) fn done(
    rest: &Rest,
    behind: Option<Rest>,
    stopped: Option<Resume>,
    differs: bool,
    (writes, bytes): (u64, u64),
) -> Page {
    let rest = match stopped {
        Some(stopped) => {
            let skips = runtime::planted(Bug::RepairSkipsRest) && stopped.after.is_some();
            let after = stopped.after.filter(|_| !skips);
            Some(Rest { range: rest.range, resume: Some(Resume { after, ..stopped }), differs })
        }
        None => behind.map(|behind| Rest { differs, ..behind }),
    };
    Page { rest, writes, bytes, lost: false }
}
