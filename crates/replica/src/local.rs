//! This node as a replica: finds the shards that own what is asked.

use crate::Error;
use crate::counting::Increments;
use crate::message::{Request, Response};
use crate::operations::snapshots_before;
use crate::shard::Shard;
use base::histogram::Placed;
use base::{Instant, Token, shard_interval, shard_of};
use mutation::{Key, Mutation, Page, ReadAnswer, ReadCommand, Resume, Scope, TokenRange};
use paxos::{Ask, Reply};
use runtime::{Group, ShardId};
use schema::TableId;
use std::rc::Rc;
use storage::snapshot::Snapshots;
use storage::{Durability, Planned, Point, Purpose};

/// The whole node seen from one of its shards.
#[derive(Clone)]
pub struct Local {
    here: Rc<Shard>,
    /// What other shards are asked in.
    group: Group,
}

impl Local {
    /// Speaks for the node from the shard that owns `here`. The same [`Shard`] must be installed in the runtime of
    /// every shard, so that the others can reach it.
    pub fn new(here: Rc<Shard>) -> Local {
        Local { here, group: Group::QUERY }
    }

    /// The same node, other shards of which work in a group of their own instead of that of clients' requests.
    #[must_use]
    pub fn working_in(&self, group: Group) -> Local {
        Local { here: self.here.clone(), group }
    }

    /// Whether compactions of this shard that begin from now on keep every tombstone.
    pub fn keep_tombstones(&self, on: bool) {
        self.here.store().keep_tombstones(on);
    }

    pub(crate) fn here(&self) -> &Shard {
        &self.here
    }

    /// How many tombstones reads of a table may meet.
    pub fn tombstone_limits(&self, table: &schema::Table) -> storage::TombstoneLimits {
        self.here.tombstone_limits(table)
    }

    /// Answers a message. `on`: what its sender knew of the cluster when it planned it.
    pub async fn handle(&self, request: Request, on: Point) -> Response {
        let done = match request {
            Request::Read(command) => match self.read(&command).await {
                Ok(answer) => return Response::Answer(answer),
                Err(error) => Err(error),
            },
            Request::Write { mutations, durability } => self.write(mutations, durability, on).await,
            Request::Truncate { table, at } => self.truncate(table, at).await,
            Request::Paxos(ask) => match self.paxos(ask, on).await {
                Ok(reply) => return Response::Paxos(reply),
                Err(error) => Err(error),
            },
            Request::Floor(floor) => match self.raise_floor(floor, on).await {
                Ok(at) => return Response::Floor(at),
                Err(error) => Err(error),
            },
        };
        Response::of(done)
    }

    /// The answer to a message if this shard's memory alone gives it; `None`: nothing has happened, send the message.
    /// The same message and the same answer, lent instead of given away.
    /// Also says how many microseconds it took.
    pub fn read_now(&self, command: &ReadCommand) -> Option<(ReadAnswer, Placed)> {
        match &command.scope {
            Scope::Keys(keys) => {
                let [key] = &keys[..] else { return None };
                (owner(key.token) == runtime::shard()).then(|| self.here.read_now(command))?
            }
            Scope::Range(_) => None,
        }
    }

    /// Whether hints of what will be asked are worth what they cost.
    pub fn is_prefetch_worth(&self) -> bool {
        self.here.store().is_prefetch_worth()
    }

    /// A hint that a request about a partition will come, if this shard owns it; and what was hinted at before goes on.
    pub fn prefetch(&self, table: TableId, token: Token, purpose: Purpose) {
        if owner(token) == runtime::shard() {
            self.here.store().prefetch(table, token, purpose);
        } else {
            self.prefetch_on();
        }
    }

    /// What was hinted at before goes on.
    pub fn prefetch_on(&self) {
        self.here.store().prefetch_on();
    }

    /// As [`Local::read_now`] for a write.
    pub fn write_now(
        &self,
        mutations: &[Mutation],
        durability: Durability,
        on: Point,
    ) -> Option<(Result<(), Error>, Placed)> {
        let here = runtime::shard();
        let owned = mutations.iter().all(|mutation| owner(mutation.token()) == here);
        owned.then(|| self.here.write_now(mutations, durability, on))?
    }

    /// Reads from the shards that own the scope, one after the other in the order asked, within one set of limits.
    pub async fn read(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        let answer = match &command.scope {
            Scope::Keys(keys) if same_shard(keys) => {
                let owner = owner(keys.first().map_or(Token(0), |k| k.token));
                self.read_on(owner, command).await?
            }
            Scope::Keys(_) | Scope::Range(_) => Box::pin(self.read_parts(command)).await?,
        };
        let done = !command.digest_only || answer.digest.is_some();
        if done { Ok(answer) } else { Ok(self.here.store().digested(command, answer)?) }
    }

    async fn read_parts(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        let mut page = Page::new(command);
        for (owner, scope) in parts(command) {
            let mut part = page.next(scope);
            part.resume = part.resume.filter(|resume| resumes_in(resume, &part.scope));
            page.push(self.read_on(owner, &part).await?);
            if page.ends_before_more() {
                break;
            }
        }
        Ok(page.finish())
    }

    async fn read_on(&self, owner: ShardId, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        if owner == runtime::shard() {
            return self.here.read(command).await;
        }
        let command = command.clone();
        runtime::tracing::submit_to(owner, self.group, move || async move {
            runtime::local::<Shard>().read(&command).await
        })
        .await
    }

    /// Applies mutations on the shards that own them. Those of one shard are applied all or none.
    /// `on`: what was known of the cluster when they were planned.
    pub async fn write(
        &self,
        mut mutations: Vec<Mutation>,
        durability: Durability,
        on: Point,
    ) -> Result<(), Error> {
        let Some(first) = mutations.first().map(|m| owner(m.token())) else {
            return Ok(());
        };
        if mutations.iter().all(|m| owner(m.token()) == first) {
            return self.write_on(first, mutations, durability, on).await;
        }
        mutations.sort_by_key(|m| owner(m.token()).0);
        let mut outcome = Ok(());
        while let Some(shard) = mutations.last().map(|m| owner(m.token())) {
            let at = mutations.partition_point(|m| owner(m.token()).0 < shard.0);
            let part = mutations.split_off(at);
            outcome = outcome.and(self.write_on(shard, part, durability, on).await);
        }
        outcome
    }

    async fn write_on(
        &self,
        owner: ShardId,
        mutations: Vec<Mutation>,
        durability: Durability,
        on: Point,
    ) -> Result<(), Error> {
        if owner == runtime::shard() {
            return self.here.write(mutations, durability, on).await;
        }
        runtime::tracing::submit_to(owner, self.group, move || async move {
            runtime::local::<Shard>().write(mutations, durability, on).await
        })
        .await
    }

    /// Answers a message of a lightweight transaction, on the shard that owns the partition.
    pub async fn paxos(&self, ask: Ask, on: Point) -> Result<Reply, Error> {
        let owner = owner(ask.key().token);
        if owner == runtime::shard() {
            return self.here.paxos(ask, on).await;
        }
        runtime::tracing::submit_to(owner, self.group, move || async move {
            runtime::local::<Shard>().paxos(ask, on).await
        })
        .await
    }

    /// Counts increments of one partition on the shard that owns it, as [`Shard::count`] says.
    pub async fn count(
        &self,
        increments: Increments,
        on: Point,
        until: Instant,
    ) -> Result<Option<Mutation>, Error> {
        let owner = owner(increments.key().token);
        if owner == runtime::shard() {
            return self.here.count(increments, on, until).await;
        }
        runtime::tracing::submit_to(owner, self.group, move || async move {
            runtime::local::<Shard>().count(increments, on, until).await
        })
        .await
    }

    /// Forgets a table's data on every shard, after a snapshot of it where the operator wants one.
    /// `at`: the time of whoever asks; what is recorded is later than everything begun on this node before.
    /// Errors: the first; every shard was asked, unless there is no snapshot.
    pub async fn truncate(&self, table: TableId, at: i64) -> Result<(), Error> {
        let work = move || async move {
            let store = runtime::local::<Shard>().store().clone();
            // A snapshot between two shards' turns would have what one has deleted in a file that the other still holds.
            let snapshots = runtime::local::<Snapshots>();
            let _turn = snapshots.turn().lock().await;
            snapshots_before(&store, "truncated", &[table]).await?;
            let at = store.next_time(at);
            let truncate = move || async move { runtime::local::<Shard>().truncate(table, at).await };
            runtime::on_every_shard(Group::QUERY, truncate).await.into_iter().collect()
        };
        runtime::submit_to(ShardId(0), Group::QUERY, work).await
    }

    /// Microseconds since the Unix epoch: later than all that this gave before on this node, whatever happens to the machine's
    /// clock, and not before `at_least`.
    pub fn next_time(&self, at_least: i64) -> i64 {
        self.here().store().next_time(at_least)
    }

    /// Has every shard refuse writes of these tables that were planned before these points, and of no others. See
    /// [`storage::Store::set_floors`].
    pub async fn set_floors(&self, floors: Vec<(TableId, Point)>) {
        runtime::on_every_shard(Group::CONTROL, move || {
            let floors = floors.clone();
            async move { runtime::local::<Shard>().store().set_floors(floors.into_iter()) }
        })
        .await;
    }

    /// Whether a part of something that was kept for later is gone with a truncation of its table: see [`storage::Store::is_overtaken`].
    pub async fn is_overtaken(&self, table: TableId, planned: Planned) -> bool {
        self.here.store().is_overtaken(table, planned).await
    }
}

fn owner(token: Token) -> ShardId {
    ShardId(shard_of(token, runtime::shard_count()))
}

fn same_shard(keys: &[Key]) -> bool {
    keys.windows(2).all(|w| owner(w[0].token) == owner(w[1].token))
}

/// Divides a command's scope into pieces of one shard each, in the order of reading, from the resume point on.
fn parts(command: &ReadCommand) -> Vec<(ShardId, Scope)> {
    match &command.scope {
        Scope::Keys(keys) => {
            let from = match &command.resume {
                Some(resume) => keys.iter().position(|k| *k == resume.key).unwrap_or(0),
                None => 0,
            };
            let one = |key: &Key| (owner(key.token), Scope::Keys(vec![key.clone()].into()));
            keys[from..].iter().map(one).collect()
        }
        Scope::Range(range) => {
            let first = command.resume.as_ref().map_or(range.first, |r| r.key.token.max(range.first));
            let from_resume = TokenRange::new(first, range.last);
            let shards = runtime::shard_count();
            let piece = |shard| {
                let (first, last) = shard_interval(shard, shards);
                let both = TokenRange::new(first, last).intersect(from_resume)?;
                Some((ShardId(shard), Scope::Range(both)))
            };
            (0..shards).filter_map(piece).collect()
        }
    }
}

fn resumes_in(resume: &Resume, scope: &Scope) -> bool {
    match scope {
        Scope::Keys(keys) => keys.contains(&resume.key),
        Scope::Range(range) => range.contains(resume.key.token),
    }
}
