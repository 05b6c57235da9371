//! Group 0 on this node: the cluster's log, the connections to its members, and what follows from both on every shard.
//!
//! ```text
//! proposals ─▶ consensus ─▶ Machine: prepare ─▶ durable ─▶ publish ─▶ every shard: stores, then coordinators with one snapshot
//! links ─── who answers ──────────────────────────────────────▶ every shard: a snapshot
//! ```
//! Everything here is on shard 0.

use crate::applied::{Applied, Known};
use crate::builtin;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::event::{ChangeKind, SchemaEvent, Target as EventTarget};
use crate::fill::Fill;
use crate::gate::Gate;
use crate::lead::Stuck;
use crate::machine::Machine;
use crate::widen::VERB_HOLDS;
use crate::wire::{
    OverLinks, Slot, VERB_APPLIED, VERB_ASK, VERB_FILL, VERB_JOIN, VERB_RAFT, VERB_REPLACE, answer_raft,
};
use base::HostId;
use coordinator::Coordinator;
use core::cell::{Cell, OnceCell, RefCell};
use core::net::SocketAddr;
use core::time::Duration;
use group0::{Change, Command, Effects, Holdings, Joining, Outcome, Roles, State};
use rpc::{EventKind, Links, Registry, Target};
use runtime::sync::{Event, Lock};
use runtime::{Group, ShardId};
use schema::{Replication, Schema, TableId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use storage::Point;
use topology::{Liveness, Member, MemberState, Members, Snapshot, Version};

/// How often it is counted how much this node holds, for the others to show.
const LOAD_PAUSE: Duration = Duration::from_secs(10);
/// How long what others were seen to have may be in memory alone, where no hello said it.
const SEEN_PAUSE: Duration = Duration::from_secs(1);
/// How long what changes nothing waits for a majority to say so: longer than the next election takes, shorter than drivers wait.
const BARRIER_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait of a proposal for a leader and its majority: what a client waits for a change of the schema at most.
const PROPOSE_WITHIN: Duration = Duration::from_secs(10);
/// Pause before a command is proposed again whose outcome is not known.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// Pause before a store is asked again to do what follows from the cluster's log.
const STORE_AGAIN: Duration = Duration::from_millis(500);
/// Between two looks whether older requests have ended.
const OLDER_PAUSE: Duration = Duration::from_millis(5);
/// How long a schema change waits for members that answer to have it, too. One that is late has it a moment later, and says so to
/// drivers that ask.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// Gives the roles that a cluster is founded with.
pub type RolesSource = Box<dyn Fn() -> raft::BoxFuture<'static, Result<Roles, String>>>;

/// A member whose place a node is to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// Who is called at this address.
    Address(core::net::IpAddr),
    /// Who has this identity.
    Host(HostId),
}

impl std::fmt::Display for Replaced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Replaced::Address(address) => address.fmt(f),
            Replaced::Host(host) => host.fmt(f),
        }
    }
}

/// What this node is told of itself and of others.
pub struct Settings {
    /// The folder of the cluster's log.
    pub folder: PathBuf,
    /// This node, as it becomes a member.
    pub member: Member,
    /// The address that this node listens on for others, which may not be the one that they are told.
    pub listens: SocketAddr,
    /// The name that nodes compare.
    pub cluster_name: String,
    /// Where a node without a cluster asks for one: names or addresses, and ports.
    pub seeds: Vec<(String, u16)>,
    /// Whether a new member must be proven to miss nothing.
    pub auto_bootstrap: bool,
    /// Whose place it takes at its first start.
    pub replaces: Option<Replaced>,
    /// What a folder held that was alone so far: what is logged of its schema.
    pub schema: Arc<Schema>,
    /// What it held of roles; the default one if that is nothing.
    pub roles: RolesSource,
    /// When this process started, seconds since the epoch.
    pub started_at_s: u64,
    /// Whether connections to a place, datacenter and rack, are encrypted.
    pub encrypts: Box<dyn Fn(&Member) -> bool>,
    /// Whether clients can connect to this node.
    pub clients_open: Box<dyn Fn() -> bool>,
    /// Counts the hints that this node holds; called on shard 0.
    pub hints: Box<dyn Fn() -> Counted>,
    /// Ends serving clients, for a reason that is in the operator's hands.
    pub close_clients: Box<dyn Fn(String)>,
}

/// A number that takes a while.
pub type Counted = Pin<Box<dyn Future<Output = u64>>>;

/// What a folder knows of the cluster, read before its shards are opened.
pub struct Folder {
    applied: Applied,
    known: Known,
}

impl Folder {
    /// Reads it, and counts this start.
    pub async fn open(folder: &Path) -> Result<Folder, Error> {
        let made = async {
            runtime::file::create_dir_all(folder).await?;
            match folder.parent() {
                Some(parent) => runtime::file::sync_dir(parent).await,
                None => Ok(()),
            }
        };
        made.await.map_err(|source| Error::from(journal::Error::io(folder, "create", source)))?;
        let (applied, known) = Applied::open(&folder.join("group0.applied")).await?;
        let io = |source| Error::from(journal::Error::io(folder, "look into", source));
        match known.state.cluster() {
            // Without its state a node would take the tables on its disk for dropped ones.
            None if Folder::was_member(folder).await.map_err(io)? => {
                return Err(Error::Lost(folder.to_path_buf()));
            }
            None => {}
            Some(cluster) => mark(folder, cluster.id).await.map_err(io)?,
        }
        Ok(Folder { applied, known })
    }

    /// Whether a node with this folder of the cluster's log was a member of a cluster.
    pub async fn was_member(folder: &Path) -> std::io::Result<bool> {
        runtime::file::exists(&mark_of(folder)).await
    }

    /// The schema it has applied, with the built-in tables; `None`: it belongs to no cluster yet.
    pub fn schema(&self) -> Option<Arc<Schema>> {
        self.known.state.cluster()?;
        Some(Arc::new(builtin::with_builtin(Schema::clone(self.known.state.schema()))))
    }

    /// What it knows of the cluster, as `local` sees it.
    pub fn snapshot(&self, local: &Member, schema: &Schema) -> Snapshot {
        Snapshot::new(local.host_id, members_of(&self.known.state, local), &replications(schema))
    }
}

/// The file beside the folder that says that there must be one.
fn mark_of(folder: &Path) -> PathBuf {
    folder.with_added_extension("member")
}

/// Remembers that this node belongs to a cluster.
async fn mark(folder: &Path, cluster: u128) -> std::io::Result<()> {
    if Folder::was_member(folder).await? {
        return Ok(());
    }
    runtime::file::replace_atomic(&mark_of(folder), format!("{}\n", HostId(cluster)).as_bytes()).await
}

/// The members of a state at its version, this node among them: before it is a member it joins, and holds nothing.
fn members_of(state: &State, local: &Member) -> Members {
    let mut all = state.members().ever().to_vec();
    if !all.iter().any(|member| member.host_id == local.host_id) {
        all.push(Member { state: MemberState::Joining, tokens: Vec::new(), ..local.clone() });
    }
    Members::new(state.version(), all)
}

/// The replication rules in use.
fn replications(schema: &Schema) -> Vec<Replication> {
    schema.keyspaces.values().map(|keyspace| keyspace.replication.clone()).collect()
}

/// Group 0 on this node. Installed on shard 0.
pub struct Group0 {
    pub(crate) settings: Settings,
    pub(crate) machine: Rc<Machine>,
    pub(crate) slot: Slot,
    pub(crate) links: Rc<Links>,
    pub(crate) gate: Rc<Gate>,
    /// One snapshot after the other.
    showing: Lock<()>,
    /// Something has happened to a peer; remembered while earlier news are shown.
    moved: Event,
    stopped: Cell<bool>,
    /// What a leader knows of the join that runs.
    pub(crate) joining: Cell<Option<Joining>>,
    /// What keeps it from going on, as this node says if it leads.
    pub(crate) stuck: RefCell<Option<Stuck>>,
    /// What this node does to get what it must hold.
    pub(crate) filling: RefCell<Option<Rc<Fill>>>,
}

impl Group0 {
    /// Opens the log, on shard 0, when every shard has its pool of connections, its coordinator and its [`Cluster`]. The caller listens
    /// with [`Group0::links`], then calls [`Group0::enter`].
    pub async fn start(mut settings: Settings, folder: Folder) -> Result<Rc<Group0>, Error> {
        let starts = folder.applied.starts();
        let seen = folder.applied.seen().iter().map(|(host, seen)| (*host, *seen)).collect();
        let machine = Machine::new(folder.applied, folder.known);
        let slot = Slot::default();
        let gate = Rc::new(Gate {
            cluster_name: settings.cluster_name.clone(),
            member: settings.member.clone(),
            starts,
            machine: machine.clone(),
            group: slot.clone(),
            clients_open: core::mem::replace(&mut settings.clients_open, Box::new(|| false)),
            close_clients: core::mem::replace(&mut settings.close_clients, Box::new(drop)),
            known_to: Cell::new(None),
            load: Cell::new(0),
            started_at_s: settings.started_at_s,
            schema_version: Cell::new(runtime::local::<Coordinator>().schema().version),
            recorded: RefCell::new(seen),
        });
        let moved = Event::new();
        let told = moved.clone();
        let this = Late::default();
        let listening = gate.clone();
        let report = move |event: rpc::Event| {
            if let EventKind::Facts(facts) = &event.kind {
                listening.heard(event.host, facts);
            }
            told.notify();
        };
        let links = Links::start(gate.clone(), verbs(&slot, &this), Rc::new(report));
        let group0 = Rc::new(Group0 {
            settings,
            machine,
            slot,
            links,
            gate,
            showing: Lock::new(()),
            moved,
            stopped: Cell::new(false),
            joining: Cell::new(None),
            stuck: RefCell::new(None),
            filling: RefCell::new(None),
        });
        drop(this.set(Rc::downgrade(&group0)));
        group0.hook();
        // Some simulated nodes make them so often that others, who were away for seconds, are given one: several tries make it a good part of them.
        let (snapshot_every, keep_entries) = match (0..8).any(|_| runtime::rare("cluster_snapshots_often")) {
            true => (10, 2),
            false => (1_000, 500),
        };
        let settings = raft::Settings {
            id: group0.local_id(),
            folder: group0.settings.folder.clone(),
            snapshot_every,
            keep_entries,
            log_bytes: 32 << 20,
            rewrite_bytes: 8 << 20,
        };
        let transport = Rc::new(OverLinks(Rc::downgrade(&group0.links)));
        let state = group0.machine.state();
        set_floors(&state.floors()).await;
        if state.cluster().is_some() {
            show_roles(state.roles(), &[], runtime::shard_count()).await;
        }
        let group = raft::Group::open(settings, group0.machine.clone(), transport).await?;
        drop(group0.slot.set(group));
        // Only now: a hello says what this node has voted for, and less than before would look like a restored folder.
        group0.connect(&group0.machine.state()).await;
        group0.show(None).await;
        pull_when_behind().await;
        group0.begin_tasks();
        Ok(group0)
    }

    fn begin_tasks(self: &Rc<Self>) {
        let (shower, counter, leader) = (self.clone(), self.clone(), self.clone());
        drop(runtime::spawn(Group::CONTROL, async move { shower.show_moves().await }));
        drop(runtime::spawn(Group::ADMIN, async move { counter.count_load().await }));
        drop(runtime::spawn(Group::CONTROL, async move { leader.lead().await }));
        let keeper = self.clone();
        drop(runtime::spawn(Group::CONTROL, async move { keeper.keep_seen().await }));
    }

    /// Records from time to time what others were seen to have: nothing where nothing has happened.
    async fn keep_seen(&self) {
        while !self.is_stopped() {
            if let Err(error) = self.gate.save_seen().await {
                runtime::warn!("cluster: what other members have cannot be recorded: {error}");
            }
            runtime::sleep(SEEN_PAUSE).await;
        }
    }

    /// The connections to other nodes.
    pub fn links(&self) -> &Rc<Links> {
        &self.links
    }

    pub(crate) fn local_id(&self) -> HostId {
        self.settings.member.host_id
    }

    pub(crate) fn group(&self) -> &Rc<raft::Group> {
        self.slot.get().expect("it is set before anybody gets this")
    }

    /// Returns once this node can take no more part in the agreement, with the reason: its part of the cluster's log, or the state it has applied, could
    /// not be written. A vote or an entry that may not be on the disk must not be acted on, and only a start learns what the disk has: end the process.
    /// `None`: it was asked to stop.
    pub async fn ended(&self) -> Option<Error> {
        let text = self.group().ended().await;
        (!self.is_stopped()).then_some(Error::Consensus(text))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Tells the others that this node stops.
    pub async fn say_goodbye(&self) {
        self.links.say_goodbye().await;
    }

    /// Ends consensus and all connections.
    pub async fn stop(&self) {
        self.stopped.set(true);
        self.moved.notify();
        self.machine.changed().notify_all();
        self.group().stop().await;
        self.links.close();
    }

    /// Tells the others that this node is gone; or makes connections anew, so that they find it back.
    pub async fn talk(&self, on: bool) {
        match (on, self.links.is_draining()) {
            (false, false) => self.links.say_goodbye().await,
            (true, true) => self.links.return_to_peers(),
            (false, true) | (true, false) => {}
        }
    }

    // ---- what operators ask for ------------------------------------------------------------------------------------

    /// Whether a member was put out: it is refused, and holds its tokens until it is replaced.
    pub fn is_put_out(&self, host: HostId) -> bool {
        self.machine.state().is_refused(host)
    }

    /// Puts a member out, whatever else runs: it is refused from now on, and nobody waits for it.
    /// Errors: the cluster did not agree, or that is not known.
    pub async fn put_out(&self, host: HostId) -> Result<(), Error> {
        loop {
            let state = self.machine.state();
            if state.is_refused(host) {
                return Ok(());
            }
            match self.propose(&state, Change::Ban(host)).await? {
                Outcome::Done(_) => return Ok(()),
                Outcome::Moved => {}
                Outcome::Refused(text) => return Err(Error::Refused(text)),
            }
        }
    }

    /// Why a member cannot be taken out of the ring.
    pub fn removal_refusal(&self, host: HostId) -> String {
        group0::removal_refusal(&self.machine.state(), host)
    }

    // ---- from states to shards -------------------------------------------------------------------------------------

    fn hook(self: &Rc<Self>) {
        let (preparing, publishing) = (Rc::downgrade(self), Rc::downgrade(self));
        self.machine.on_change(
            move |before, after| {
                let this = preparing.upgrade();
                Box::pin(async move {
                    match this {
                        Some(this) => this.prepare(&before, &after).await,
                        None => Ok(()),
                    }
                })
            },
            move |before, after| {
                let this = publishing.upgrade();
                Box::pin(async move {
                    if let Some(this) = this {
                        this.publish(&before, &after).await;
                    }
                })
            },
        );
    }

    /// Before a state is durable that has tables anew, no shard may hold anything of earlier ones with their ids: a crash right behind it
    /// would bring old rows back. So it is with truncations: what is durable is not done again, and what is shown to coordinators must be
    /// done. A crash in between does them again, to no other effect, as nothing that comes behind them was written yet.
    /// Errors: this node stops.
    async fn prepare(&self, before: &State, after: &State) -> std::io::Result<()> {
        if !Arc::ptr_eq(before.schema(), after.schema()) {
            while let Err(error) = crate::cluster::await_forgotten(before.schema(), after.schema()).await {
                self.wait_for_store(format!("a table waits to be made: {error}")).await?;
            }
        }
        let floors = after.floors();
        if floors != before.floors() {
            set_floors(&floors).await;
        }
        for (table, at) in Effects::emptied(before, after) {
            let local = runtime::local::<Coordinator>().local().clone();
            loop {
                match local.truncate(table, at).await {
                    Ok(()) | Err(replica::Error::UnknownTable(_)) => break,
                    Err(error) => {
                        self.wait_for_store(format!("table {table} waits to be truncated: {error}")).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Says why this node does not follow the cluster, and waits a while.
    async fn wait_for_store(&self, why: String) -> std::io::Result<()> {
        if self.is_stopped() {
            return Err(std::io::Error::new(std::io::ErrorKind::Interrupted, "this node stops"));
        }
        runtime::warn!("cluster: {why}");
        runtime::sleep(STORE_AGAIN).await;
        Ok(())
    }

    async fn publish(&self, before: &State, after: &State) {
        if let (None, Some(cluster)) = (before.cluster(), after.cluster())
            && let Err(error) = mark(&self.settings.folder, cluster.id).await
        {
            // The next start tries again.
            runtime::error!("cluster: cannot mark this folder as that of a member: {error}");
        }
        let effects = Effects::between(before, after);
        // ⚔ What a start applies again comes before the log can say what this node has voted for: a hello would look like that of a restored folder.
        // Who starts it connects behind that.
        if self.slot.get().is_some() {
            self.connect(after).await;
        }
        for change in effects.members.iter().filter(|change| change.after.is_none()) {
            self.links.remove(change.host);
        }
        let schema = (!Arc::ptr_eq(before.schema(), after.schema()))
            .then(|| Arc::new(builtin::with_builtin(Schema::clone(after.schema()))));
        self.show(schema).await;
        if !Arc::ptr_eq(before.roles(), after.roles()) {
            // The mistake that the checker of a cluster must notice.
            let is_wrong = before.cluster().is_some() && runtime::planted(runtime::Bug::RolesOfOneShard);
            let shards = if is_wrong { 1 } else { runtime::shard_count() };
            show_roles(after.roles(), &effects.roles, shards).await;
        }
        let events: Vec<SchemaEvent> =
            effects.schema.into_iter().flat_map(|step| step.events).map(event_of).collect();
        if !events.is_empty() {
            crate::cluster::tell_everywhere(&events).await;
        }
    }

    /// Connections to exactly the members of a state.
    async fn connect(&self, state: &State) {
        let local = self.local_id();
        for member in state.members().ever() {
            if member.host_id == local {
                continue;
            }
            match member.state.is_in() && !state.is_refused(member.host_id) {
                true => self.links.add(member.host_id, self.target(member)).await,
                false => self.links.remove(member.host_id),
            }
        }
    }

    pub(crate) fn target(&self, member: &Member) -> Target {
        Target { address: member.internode, encrypt: (self.settings.encrypts)(member) }
    }

    /// Shows every shard the cluster as it is now, with a new schema if there is one: first to all stores, then to all coordinators.
    async fn show(&self, schema: Option<Arc<Schema>>) {
        let _turn = self.showing.lock().await;
        let state = self.machine.state();
        let coordinator = runtime::local::<Coordinator>();
        let known = schema.clone().unwrap_or_else(|| coordinator.schema());
        let serves = |host| self.links.facts(host).is_some_and(|facts| facts.native_open);
        let up = state.members().iter().map(|member| member.host_id).filter(|host| self.links.is_up(*host));
        let before = coordinator.topology();
        let liveness = Liveness::with_ports(up.map(|host| (host, serves(host))));
        let liveness = liveness.with_schemas(before.liveness(), self.schemas_said(&state));
        let members = members_of(&state, &self.settings.member);
        if schema.is_none() && members == *before.members() && liveness == *before.liveness() {
            return;
        }
        let next = before.with_members(members, &replications(&known)).with_liveness(liveness);
        let next = Arc::new(next);
        let is_late = runtime::planted(runtime::Bug::PlansBeforeStores);
        let stored = schema.clone();
        if let Some(schema) = stored.as_ref().filter(|_| !is_late) {
            crate::cluster::show_store(schema).await;
        }
        runtime::on_every_shard(Group::CONTROL, move || {
            let (schema, next) = (schema.clone(), next.clone());
            async move {
                if let Some(schema) = schema {
                    runtime::local::<Cluster>().take(schema);
                }
                runtime::local::<Coordinator>().set_topology(next);
            }
        })
        .await;
        if let Some(schema) = stored.as_ref().filter(|_| is_late) {
            crate::cluster::show_store(schema).await;
        }
        if self.gate.schema_version.replace(known.version) != known.version {
            // Drivers compare the versions of all nodes right behind a change, and would wait for the next ping.
            self.links.say_facts();
        }
    }

    /// The versions of the schema that members have said, as far as they answer.
    fn schemas_said(&self, state: &State) -> Vec<(HostId, u128)> {
        let said = |host| self.links.facts(host).map(|facts| (host, facts.schema_version));
        let members = state.members().iter().filter_map(|member| said(member.host_id));
        members.filter(|(_, version)| *version != 0).collect()
    }

    /// Shows every shard who answers, for as long as the node runs.
    async fn show_moves(&self) {
        while !self.is_stopped() {
            self.show(None).await;
            self.moved.wait().await;
        }
    }

    /// Counts from time to time what this node holds: others are told with every ping.
    async fn count_load(&self) {
        while !self.is_stopped() {
            let coordinator = runtime::local::<Coordinator>();
            self.gate.load.set(coordinator.local().live_bytes().await);
            runtime::sleep(LOAD_PAUSE).await;
        }
    }

    // ---- proposals -------------------------------------------------------------------------------------------------

    /// Returns once this node has applied and shown all that was agreed on before the call.
    /// Errors: no majority answered in time.
    pub(crate) async fn catch_up(&self) -> Result<(), Error> {
        Ok(self.group().read_barrier(BARRIER_WITHIN).await?)
    }

    /// Proposes a change decided on `state` and waits until it is applied here.
    /// Errors: it was not applied, or that is not known.
    pub(crate) async fn propose(&self, state: &State, change: Change) -> Result<Outcome, Error> {
        self.propose_within(state, change, PROPOSE_WITHIN).await
    }

    /// As [`Group0::propose`], with a longest wait.
    pub(crate) async fn propose_within(
        &self,
        state: &State,
        change: Change,
        within: Duration,
    ) -> Result<Outcome, Error> {
        let base = state.base(change.scope());
        let command = Command { id: runtime::random_uuid(), base, change };
        self.propose_encoded(command.encode(), within).await
    }

    /// Proposes an encoded command; the same one again while its outcome is not known, as states know commands by their ids.
    pub(crate) async fn propose_command(&self, command: Vec<u8>) -> Result<Outcome, Error> {
        self.propose_encoded(command, PROPOSE_WITHIN).await
    }

    async fn propose_encoded(&self, command: Vec<u8>, within: Duration) -> Result<Outcome, Error> {
        let deadline = runtime::now() + within;
        let mut is_unknown = false;
        loop {
            let left = deadline.saturating_duration_since(runtime::now());
            match self.group().propose(command.clone(), left).await {
                Ok((index, answer)) => {
                    let left = deadline.saturating_duration_since(runtime::now());
                    self.group().wait_applied(index, left).await?;
                    return Outcome::decode(&answer).map_err(|error| Error::Consensus(error.to_string()));
                }
                Err(raft::Error::Unknown(_)) if !left.is_zero() => {
                    is_unknown = true;
                    runtime::sleep(left.min(ASK_AGAIN)).await;
                }
                // ⚔ Of an earlier try nobody knows: it may be applied yet.
                Err(raft::Error::NotDone(text)) if is_unknown => {
                    return Err(raft::Error::Unknown(text).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until every member that answers has applied a version, a while at most.
    pub(crate) async fn wait_until_seen(&self, version: Version) {
        self.wait_until_seen_within(version, SEEN_WITHIN).await;
    }

    async fn wait_until_seen_within(&self, version: Version, within: Duration) {
        let asked = self.machine.state();
        let others = asked.members().iter().map(|member| member.host_id);
        let others: Vec<HostId> =
            others.filter(|host| *host != self.local_id() && self.links.is_up(*host)).collect();
        let mut asking = Vec::new();
        for host in others {
            let links = self.links.clone();
            asking.push(runtime::spawn(Group::CONTROL, async move {
                crate::wire::ask_applied(&links, host, version, within).await
            }));
        }
        for answer in asking {
            let _late_or_down = answer.await;
        }
        // Each has said its new version of the schema before it answered: clients of this node see it at once.
        self.show(None).await;
    }
}

impl Group0 {
    /// Has every member forget what a table holds: those that are down when they come back. Returns when this node and every member that answers
    /// have; who is late has it a moment later.
    /// `at`: microseconds since the Unix epoch. `within`: longest wait.
    pub(crate) async fn truncate(&self, table: TableId, at: i64, within: Duration) -> Result<(), Error> {
        let deadline = runtime::now() + within;
        loop {
            let state = self.machine.state();
            let left = deadline.saturating_duration_since(runtime::now());
            match self.propose_within(&state, Change::Truncate { table, at }, left).await? {
                Outcome::Done(version) => {
                    let left = deadline.saturating_duration_since(runtime::now());
                    self.wait_until_seen_within(version, left).await;
                    return Ok(());
                }
                Outcome::Moved => {}
                Outcome::Refused(text) => return Err(Error::Refused(text)),
            }
        }
    }

    /// Answers when a version is applied here; nothing when it is not in time.
    async fn answer_applied(&self, body: &[u8], until: base::Instant) -> Vec<u8> {
        let mut input = base::ByteReader::new(body);
        let (Ok(epoch), Ok(index)) = (input.u64(), input.u64()) else { return Vec::new() };
        let Some(held) = self.held(Version { epoch, index }, until).await else { return Vec::new() };
        // What follows from the version is shown, and the asker was told of the new schema.
        drop(self.showing.lock().await);
        [held.tables, held.hints, held.batches].iter().flat_map(|count| count.to_be_bytes()).collect()
    }

    /// What this node holds when it has applied a version and runs no request that was planned before; `None`: not in time.
    pub(crate) async fn held(&self, version: Version, until: base::Instant) -> Option<Holdings> {
        while self.machine.state().version() < version {
            runtime::timeout_at(until, self.machine.changed().wait()).await.ok()?;
        }
        while older_requests_run(version).await {
            if until <= runtime::now() {
                return None;
            }
            runtime::sleep(OLDER_PAUSE).await;
        }
        let coordinator = runtime::local::<Coordinator>();
        let is_user = |keyspace: &str| {
            !matches!(keyspace, "system" | "system_auth" | "system_schema" | "system_traces")
        };
        let tables = coordinator.local().count_with_data(is_user).await;
        // Batches first: one that is replayed meanwhile may leave hints.
        let batches = unfinished_batches(until).await;
        Some(Holdings { tables, hints: (self.settings.hints)().await, batches })
    }
}

/// Has every shard take from others what this node lacks, when it is sent what was planned on it.
async fn pull_when_behind() {
    let pull = |from: HostId, index: u64, timeout: Duration| async move {
        let ask = move || async move {
            if let Some(group) = runtime::try_local::<Group0>().and_then(|this| this.slot.get().cloned())
                && let Err(error) = group.pull(from, index, timeout).await
            {
                runtime::debug!("cluster: {error}");
            }
        };
        runtime::submit_to(ShardId(0), Group::CONTROL, ask).await;
    };
    let set = move || async move {
        let coordinator = runtime::local::<Coordinator>();
        coordinator.on_behind(move |from, index, timeout| Box::pin(pull(from, index, timeout)));
    };
    runtime::on_every_shard(Group::CONTROL, set).await;
}

/// Shows so many shards the roles of the cluster, and which have changed.
async fn show_roles(roles: &Arc<Roles>, changed: &[String], shards: u16) {
    for shard in (0..shards).map(ShardId) {
        let (roles, changed) = (roles.clone(), changed.to_vec());
        runtime::submit_to(shard, Group::CONTROL, move || async move {
            runtime::local::<Cluster>().take_roles(&roles, &changed);
        })
        .await;
    }
}

/// Has every shard refuse what was planned before the last truncations.
async fn set_floors(floors: &BTreeMap<TableId, Version>) {
    let point = |version: &Version| Point(version.epoch, version.index);
    let floors = floors.iter().map(|(table, version)| (*table, point(version))).collect();
    runtime::local::<Coordinator>().local().set_floors(floors).await;
}

async fn older_requests_run(version: Version) -> bool {
    let ask = move || async move { runtime::local::<Coordinator>().has_requests_before(version) };
    runtime::on_every_shard(Group::CONTROL, ask).await.contains(&true)
}

async fn unfinished_batches(until: base::Instant) -> u64 {
    let ask = move || async move { runtime::local::<Coordinator>().unfinished_batches(until).await as u64 };
    runtime::on_every_shard(Group::CONTROL, ask).await.into_iter().sum()
}

fn event_of(event: group0::SchemaEvent) -> SchemaEvent {
    SchemaEvent {
        kind: match event.kind {
            group0::EventKind::Created => ChangeKind::Created,
            group0::EventKind::Updated => ChangeKind::Updated,
            group0::EventKind::Dropped => ChangeKind::Dropped,
        },
        target: match event.target {
            group0::EventTarget::Keyspace => EventTarget::Keyspace,
            group0::EventTarget::Table => EventTarget::Table,
            group0::EventTarget::Type => EventTarget::Type,
        },
        keyspace: event.keyspace,
        name: event.name,
    }
}

/// Group 0, once it is there.
type Late = Rc<OnceCell<Weak<Group0>>>;

fn verbs(slot: &Slot, this: &Late) -> Registry {
    let raft = slot.clone();
    let registry = Registry::new().on_future(VERB_RAFT, Group::CONTROL, move |request| {
        answer_raft(raft.clone(), request.body.to_vec())
    });
    let registry = on(registry, VERB_ASK, this, async |this, body, _| this.answer_ask(&body).await);
    let registry = on(registry, VERB_JOIN, this, async |this, body, _| this.answer_join(body).await);
    let registry = on(registry, VERB_REPLACE, this, async |this, body, _| this.answer_replace(&body).await);
    let registry = on(registry, VERB_FILL, this, async |this, body, _| this.answer_fill(&body));
    let registry = on(registry, VERB_HOLDS, this, async |this, body, _| this.answer_holds(&body).await);
    on(registry, VERB_APPLIED, this, async |this, body, until| this.answer_applied(&body, until).await)
}

/// Answers a verb by group 0; with nothing as long as it is not there.
fn on(
    registry: Registry,
    verb: u8,
    this: &Late,
    answer: impl AsyncFn(Rc<Group0>, Vec<u8>, base::Instant) -> Vec<u8> + Clone + 'static,
) -> Registry {
    let this = this.clone();
    registry.on_future(verb, Group::CONTROL, move |request| {
        let (this, answer) = (this.get().and_then(Weak::upgrade), answer.clone());
        let (body, until) = (request.body.to_vec(), request.until);
        async move {
            match this {
                Some(this) => answer(this, body, until).await,
                None => Vec::new(),
            }
        }
    })
}
