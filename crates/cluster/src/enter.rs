//! How a node comes into a cluster: it founds one, joins one, or is a member already.

use crate::ask;
use crate::error::Error;
use crate::group::{Group0, Replaced};
use base::{HostId, Instant};
use core::net::SocketAddr;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use group0::{
    Answer, Applicant, Change, Command, Decision, Fill, Folder, Founding, MemberUpdate, Node, Outcome, Seed,
    SeedAnswer, State, decide, lost_its_folder,
};
use rpc::fields::{FieldReader, FieldWriter};
use rpc::{Contact, ContactError, Outgoing, RefusalKind, Target};
use std::collections::BTreeMap;
use std::future::poll_fn;
use topology::{Member, MemberState, Version};

/// Between two rounds of asking seeds.
const ASK_PAUSE: Duration = Duration::from_millis(300);
/// How often, and at which pauses, a member calls those of its seeds that are no members: within two minutes nodes that start together have met.
const STRANGE_SEEDS_CALLS: u32 = 24;
const STRANGE_SEEDS_PAUSE: Duration = Duration::from_secs(5);
/// Longest wait for one seed's answer.
const ASK_WITHIN: Duration = Duration::from_secs(3);
/// Longest wait for the answer to a node that asks to join, which comes when it is a member or was refused.
const JOIN_WITHIN: Duration = Duration::from_secs(60);
/// How long a start waits for a majority, to serve what was committed last. Without one it serves what it knows.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(5);
/// What a joining node is told when the members have data.
pub(crate) const HAS_DATA: &str = "the cluster holds data of users, and bringing it to a new node is not supported yet: set auto_bootstrap to \
    false to join without it, then run a repair";

impl Group0 {
    /// Returns when this node is a member that has caught up, as far as there is a majority to ask.
    /// Errors: it is refused, with what its operator can do about it; or its cluster's log cannot be written.
    pub async fn enter(&self) -> Result<(), Error> {
        let ended = async {
            match self.ended().await {
                Some(error) => error,
                None => std::future::pending().await,
            }
        };
        let (mut entering, mut ended) = (pin!(self.come_in()), pin!(ended));
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => entering.as_mut().poll(context),
        })
        .await
    }

    async fn come_in(&self) -> Result<(), Error> {
        let mut told = Told::default();
        let mut answers = BTreeMap::new();
        let replaces = self.replaces()?;
        while !self.machine.state().serves(self.local_id()) {
            if self.is_stopped() || runtime::shutdown_is_requested() {
                return Ok(());
            }
            let node = self.node().await;
            let mut refused = None;
            // Whether no other node answers, now or, as it stands, later.
            let mut is_hopeless = true;
            let mut reasons = BTreeMap::new();
            for address in node.others() {
                match self.ask(address).await {
                    Ok(answer) => {
                        is_hopeless = false;
                        answers.insert(address, answer);
                    }
                    Err(Unasked { reason, holds }) => {
                        runtime::debug!("cluster: {address}: {reason}");
                        is_hopeless &= holds != Holds::Temporarily;
                        if refused.as_ref().is_none_or(|(before, _)| *before < holds) {
                            refused = Some((holds, refused_by(address, &reason)));
                        }
                        reasons.insert(address, reason);
                    }
                }
            }
            let decision = decide(&node, self.folder(), &answers);
            if let Some((holds, text)) = refused
                && match decision {
                    Decision::Wait { .. } => holds == Holds::Everywhere || is_hopeless,
                    Decision::Serve => holds == Holds::Everywhere,
                    _ => false,
                }
            {
                // Asking again would not end.
                return Err(Error::Join(text));
            }
            let is_wrong = runtime::planted(runtime::Bug::FoundsUnasked);
            let decision = match decision {
                Decision::Wait { .. } if is_wrong && self.folder() == Folder::Empty => Decision::Found,
                decision => decision,
            };
            match decision {
                Decision::Found if let Some(replaced) = replaces => {
                    return Err(Error::Join(format!(
                        "this node is to replace {replaced}, and none of its seeds knows of a cluster"
                    )));
                }
                Decision::Found => match self.gate.known_to.get() {
                    Some(member) => return Err(Error::Join(lost_its_folder(&node, member))),
                    None => self.found().await?,
                },
                Decision::Join { at, cluster, fill } => {
                    self.join(at, cluster, fill, replaces, &mut told).await?;
                    // If it cannot be asked, another may do.
                    answers.remove(&at);
                }
                Decision::Wait { whom, why } => {
                    told.say(format!("waiting for {}: {why}{}", whom.join(", "), behind_all(&reasons)));
                }
                Decision::Serve => told.say(format!("{}{}", self.waits_to_serve(), behind_all(&reasons))),
                Decision::Refuse(text) | Decision::CloseNative(text) => return Err(Error::Join(text)),
            }
            if !self.machine.state().serves(self.local_id()) {
                let _changed_or_late = runtime::timeout(ASK_PAUSE, self.machine.changed().wait()).await;
            }
        }
        if let Err(error) = self.group().read_barrier(CATCH_UP_WITHIN).await {
            runtime::warn!("cluster: serving with the membership of the last stop: {error}");
        }
        self.update_member();
        self.greet_strange_seeds();
        Ok(())
    }

    /// What a node waits for that the cluster knows already.
    fn waits_to_serve(&self) -> String {
        let state = self.machine.state();
        match state.operation().filter(|operation| operation.host == self.local_id()) {
            Some(operation) => format!("waiting to join: {}", self.waits_for(&state, operation)),
            None => match self.group().status().leader {
                Some(leader) => format!("waiting for the cluster's log, which {leader} leads"),
                None => "waiting for the cluster's log: no leader has called this node yet".to_owned(),
            },
        }
    }

    /// Calls seeds that are no members, in the background and for a while. One of another cluster refuses, and both logs say so: nothing else
    /// tells an operator that these nodes will never hear of each other.
    fn greet_strange_seeds(&self) {
        let this = runtime::local::<Group0>();
        drop(runtime::spawn(runtime::Group::CONTROL, async move {
            for _ in 0..STRANGE_SEEDS_CALLS {
                let strange: Vec<SocketAddr> = {
                    let members = this.machine.state();
                    let is_member = |address: &SocketAddr| {
                        members.members().iter().any(|member| member.internode == *address)
                    };
                    this.node().await.others().into_iter().filter(|address| !is_member(address)).collect()
                };
                if strange.is_empty() || this.is_stopped() {
                    return;
                }
                for address in strange {
                    if let Err(Unasked { reason, .. }) = this.contact(address).await {
                        runtime::debug!("cluster: the seed {address} is no member: {reason}");
                    }
                }
                runtime::sleep(STRANGE_SEEDS_PAUSE).await;
            }
        }));
    }

    /// Whose place this node takes. Errors: it cannot, in words for its operator.
    fn replaces(&self) -> Result<Option<Replaced>, Error> {
        let Some(replaced) = self.settings.replaces else { return Ok(None) };
        match self.folder() {
            Folder::Member { .. } | Folder::Refused(_) => {
                runtime::info!(
                    "cluster: this folder is that of a member already: it does not replace {replaced} again"
                );
                Ok(None)
            }
            Folder::Lone => Err(Error::Join(format!(
                "this folder holds tables: a node that is to replace {replaced} begins with an empty folder"
            ))),
            Folder::Empty | Folder::Joining(_) if !self.settings.auto_bootstrap => Err(Error::Join(format!(
                "auto_bootstrap is false: this node would replace {replaced} and be read from without its data"
            ))),
            Folder::Empty | Folder::Joining(_) => Ok(Some(replaced)),
        }
    }

    /// What this node is told of itself, with the addresses that its seeds have now.
    async fn node(&self) -> Node {
        let member = &self.settings.member;
        let mut seeds = Vec::new();
        for (name, port) in &self.settings.seeds {
            let addresses = runtime::names::addresses_of(name, *port).await.unwrap_or_default();
            seeds.push(Seed { name: name.clone(), addresses });
        }
        Node {
            host_id: member.host_id,
            name: self.settings.cluster_name.clone(),
            broadcast: member.internode,
            own: [member.internode, self.settings.listens].into(),
            seeds,
            fill: if self.settings.auto_bootstrap { Fill::Proven } else { Fill::Skipped },
        }
    }

    fn folder(&self) -> Folder {
        let (state, host) = (self.machine.state(), self.local_id());
        let asked = self.machine.asked();
        match state.cluster().map(|cluster| cluster.id) {
            Some(cluster) if state.is_refused(host) => Folder::Refused(cluster),
            Some(cluster) if state.members().get(host).is_some() => {
                Folder::Member { cluster, alone: state.members().ever().len() == 1 }
            }
            Some(cluster) => Folder::Joining(cluster),
            None => match asked {
                Some(cluster) => Folder::Joining(cluster),
                None if self.is_lone() => Folder::Lone,
                None => Folder::Empty,
            },
        }
    }

    /// Whether this folder was that of a node that stood alone.
    fn is_lone(&self) -> bool {
        self.settings
            .schema
            .keyspaces
            .values()
            .any(|keyspace| !keyspace.tables.is_empty() || !keyspace.types.is_empty())
    }

    async fn contact(&self, address: SocketAddr) -> Result<Contact, Unasked> {
        // Whose place is not known yet is spoken to as this node's own neighbours are.
        let encrypt = (self.settings.encrypts)(&self.settings.member);
        let contacted = self.links.contact(Target { address, encrypt }).await;
        contacted.map_err(|error| Unasked { holds: holds(&error), reason: error.reason })
    }

    /// A member by its address and host id, for operators.
    pub(crate) fn shown(&self, host: HostId) -> Option<String> {
        let state = self.machine.state();
        let member = state.members().get(host)?;
        Some(format!("{} ({host})", member.broadcast()))
    }

    async fn ask(&self, address: SocketAddr) -> Result<Answer, Unasked> {
        let contact = self.contact(address).await?;
        let outgoing = Outgoing { verb: crate::wire::VERB_ASK, version: 0, timeout: ASK_WITHIN };
        let asked = contact
            .call(outgoing, |out| ask::encode_question(self.local_id(), self.settings.member.internode, out));
        let for_now = |reason: String| Unasked { reason, holds: Holds::Temporarily };
        let answer = asked.await.map_err(|error| for_now(error.to_string()))?;
        ask::decode_answer(&answer).map_err(|error| for_now(error.to_string()))
    }

    pub(crate) async fn answer_ask(&self, question: &[u8]) -> Vec<u8> {
        let Ok((host, address)) = ask::decode_question(question) else { return Vec::new() };
        let state = self.machine.state();
        let what = match (state.cluster(), self.machine.asked()) {
            (None, Some(cluster)) => SeedAnswer::Joining(cluster),
            _ => state.seed_answer(self.local_id(), self.is_lone(), host, &[address]),
        };
        let node = self.node().await;
        let answer = Answer { host_id: node.host_id, name: node.name.clone(), seeds: node.list(), what };
        let mut out = Vec::new();
        ask::encode_answer(&answer, &mut out);
        out
    }

    // ---- founding --------------------------------------------------------------------------------------------------

    async fn found(&self) -> Result<(), Error> {
        match self.group().found().await {
            Ok(()) => {}
            // An earlier start of this node has begun it.
            Err(raft::Error::NotDone(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let founding = Founding {
            cluster: runtime::random_uuid(),
            name: self.settings.cluster_name.clone(),
            member: Member { state: MemberState::Normal, ..self.settings.member.clone() },
            schema: self.settings.schema.clone(),
            roles: (self.settings.roles)()
                .await
                .map_err(|reason| Error::Join(format!("reading the roles: {reason}")))?,
        };
        match self.propose(&self.machine.state(), Change::Found(Box::new(founding))).await? {
            Outcome::Done(_) => {
                runtime::info!("cluster: founded \"{}\"", self.settings.cluster_name);
                Ok(())
            }
            Outcome::Moved => Ok(()),
            Outcome::Refused(text) => Err(Error::Join(text)),
        }
    }

    // ---- joining ---------------------------------------------------------------------------------------------------

    async fn join(
        &self,
        at: SocketAddr,
        cluster: u128,
        fill: Fill,
        replaces: Option<Replaced>,
        told: &mut Told,
    ) -> Result<(), Error> {
        match replaces {
            Some(replaced) => told.say(format!("joining the cluster of {at} in the place of {replaced}")),
            None => told.say(format!("joining the cluster of {at}")),
        }
        // Behind this no start of this folder founds a cluster of its own.
        self.machine.note_asked(cluster).await?;
        let contact = match self.contact(at).await {
            Ok(contact) => contact,
            Err(Unasked { reason, holds: Holds::Everywhere | Holds::AtThisSeed }) => {
                return Err(Error::Join(refused_by(at, &reason)));
            }
            Err(Unasked { reason, holds: Holds::Temporarily }) => {
                told.say(format!("waiting for {at}: {reason}"));
                return Ok(());
            }
        };
        // The leader will call; it must be known by then, and so must whoever passes its calls on.
        let member =
            Member { host_id: contact.hello.node.host, internode: at, ..self.settings.member.clone() };
        self.links.add(member.host_id, self.target(&member)).await;
        let applicant = Applicant {
            cluster,
            name: self.settings.cluster_name.clone(),
            member: Member { state: MemberState::Joining, ..self.settings.member.clone() },
            fill,
        };
        let change = Change::Join(Box::new(applicant));
        let command = Command { id: runtime::random_uuid(), base: Version::ZERO, change };
        let verb = if replaces.is_some() { crate::wire::VERB_REPLACE } else { crate::wire::VERB_JOIN };
        let outgoing = Outgoing { verb, version: 0, timeout: JOIN_WITHIN };
        let answer = contact.call(outgoing, |out| match replaces {
            Some(replaced) => encode_replace(&replaced.to_string(), &command, out),
            None => out.extend_from_slice(&command.encode()),
        });
        let answer = answer.await;
        let reason = match answer.map(|answer| Outcome::decode(&answer)) {
            Ok(Ok(Outcome::Done(_) | Outcome::Moved)) => return Ok(()),
            Ok(Ok(Outcome::Refused(text))) if is_for_now(&text) => text,
            Ok(Ok(Outcome::Refused(text))) => return Err(Error::Join(text)),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        told.say(format!("waiting to join: {reason}"));
        Ok(())
    }

    /// Has a node join, and answers when it is a member or was refused.
    pub(crate) async fn answer_join(&self, body: Vec<u8>) -> Vec<u8> {
        match self.take_in(&body).await {
            Ok(outcome) => outcome.encode(),
            // The asking node tries again.
            Err(error) => Outcome::Refused(format!("{FOR_NOW}{error}")).encode(),
        }
    }

    async fn take_in(&self, body: &[u8]) -> Result<Outcome, Error> {
        let asked = match Command::decode(body) {
            Ok(asked) => asked,
            Err(error) => return Ok(unreadable(&error)),
        };
        let Change::Join(applicant) = &asked.change else {
            return Ok(Outcome::Refused("only a join may be asked for".to_owned()));
        };
        let host = applicant.member.host_id;
        self.begin_and_wait(host, asked.id, |_| Ok(asked.change.clone()), HAS_DATA).await
    }

    /// Has a node take the place of another, and answers when it holds what that one held or was refused.
    pub(crate) async fn answer_replace(&self, body: &[u8]) -> Vec<u8> {
        match self.take_place(body).await {
            Ok(outcome) => outcome.encode(),
            // The asking node tries again.
            Err(error) => Outcome::Refused(format!("{FOR_NOW}{error}")).encode(),
        }
    }

    async fn take_place(&self, body: &[u8]) -> Result<Outcome, Error> {
        let Some((whom, asked)) = decode_replace(body) else {
            return Ok(unreadable(&"a request to replace"));
        };
        let Change::Join(applicant) = asked.change else {
            return Ok(Outcome::Refused("only a join may be asked for".to_owned()));
        };
        let host = applicant.member.host_id;
        // One that lost power a moment ago is not known to be down yet.
        let until = runtime::now() + DOWN_WITHIN;
        while self.replaced(&self.machine.state(), &whom).is_err_and(|text| text.starts_with(ALIVE))
            && runtime::now() < until
        {
            runtime::sleep(ASK_PAUSE).await;
        }
        let change = |state: &State| {
            let old = self.replaced(state, &whom)?;
            Ok(Change::Replace { old, new: applicant.clone() })
        };
        self.begin_and_wait(host, asked.id, change, GIVEN_UP).await
    }

    /// Who is meant by an address or a host id. Errors: nobody that can be replaced, in words for the operator of the new node.
    fn replaced(&self, state: &State, whom: &str) -> Result<HostId, String> {
        let is_down =
            |member: &Member| member.host_id != self.local_id() && !self.links.is_up(member.host_id);
        let shown = |member: &Member| format!("{} ({})", member.broadcast(), member.host_id);
        let is_meant =
            |member: &&Member| member.broadcast().to_string() == whom || member.host_id.to_string() == whom;
        let Some(old) = state.members().iter().find(is_meant) else {
            let down: Vec<String> =
                state.members().iter().filter(|member| is_down(member)).map(shown).collect();
            let down = if down.is_empty() { "none does not answer".to_owned() } else { down.join(", ") };
            return Err(format!(
                "Cannot replace {whom}: it is no member. Members that do not answer: {down}"
            ));
        };
        if !is_down(old) {
            return Err(format!("{ALIVE}: {} answers. Stop it first", shown(old)));
        }
        Ok(old.host_id)
    }

    /// Begins an operation for a node unless it runs, and waits for its end. `given_up`: what a node is told whose operation ended without it becoming a
    /// member.
    async fn begin_and_wait(
        &self,
        host: HostId,
        id: u128,
        change: impl Fn(&State) -> Result<Change, String>,
        given_up: &str,
    ) -> Result<Outcome, Error> {
        let state = self.machine.state();
        if state.serves(host) {
            return Ok(Outcome::Done(state.version()));
        }
        match state.operation() {
            Some(running) if running.host == host => {}
            Some(running) => return Ok(Outcome::Refused(busy(&state, running.host))),
            None => {
                let change = match change(&state) {
                    Ok(change) => change,
                    Err(text) => return Ok(Outcome::Refused(text)),
                };
                let command = Command { id, base: state.base(change.scope()), change };
                match self.propose_command(command.encode()).await? {
                    Outcome::Done(_) => {}
                    other => return Ok(other),
                }
            }
        }
        let deadline = runtime::now() + JOIN_WITHIN * 9 / 10;
        loop {
            let state = self.machine.state();
            if state.serves(host) {
                return Ok(Outcome::Done(state.version()));
            }
            let Some(running) = state.operation().filter(|operation| operation.host == host) else {
                let text = match state.is_banned(host) {
                    true => format!(
                        "an operator has put {host} out: a node joins again with an empty data folder"
                    ),
                    false => given_up.to_owned(),
                };
                return Ok(Outcome::Refused(text));
            };
            if runtime::timeout_at(deadline, self.machine.changed().wait()).await.is_err() {
                let why = self.waits_for(&state, running);
                return Ok(Outcome::Refused(format!("{FOR_NOW}the members have not agreed in time: {why}")));
            }
        }
    }

    // ---- after a restart -------------------------------------------------------------------------------------------

    /// Has the cluster know where this node is now and what it runs, in the background: it serves meanwhile.
    fn update_member(&self) {
        let Some(update) = self.update() else { return };
        let this = runtime::local::<Group0>();
        drop(runtime::spawn(runtime::Group::CONTROL, async move {
            let mut update = Some(update);
            while let (Some(wanted), false) = (update.take(), this.is_stopped()) {
                match this.propose(&this.machine.state(), Change::Update(vec![wanted])).await {
                    Ok(Outcome::Done(_)) => {}
                    Ok(Outcome::Refused(text)) => runtime::error!("cluster: {text}"),
                    Ok(Outcome::Moved) | Err(_) => {
                        runtime::sleep(ASK_PAUSE).await;
                        update = this.update();
                    }
                }
            }
        }));
    }

    /// What has changed of this node since the cluster heard of it last.
    fn update(&self) -> Option<MemberUpdate> {
        let own = &self.settings.member;
        let state: State = self.machine.state();
        let known = state.members().get(own.host_id)?;
        let same = Member { state: known.state, tokens: known.tokens.clone(), ..own.clone() } == *known;
        (!same).then(|| MemberUpdate {
            host: own.host_id,
            internode: own.internode,
            native: own.native,
            dc: own.dc.clone(),
            rack: own.rack.clone(),
            shards: own.shards,
            ignore_msb: own.ignore_msb,
            features: own.features,
            release: own.release.clone(),
        })
    }
}

/// What a node is told whose replacement was given up.
const GIVEN_UP: &str = "the replacement was given up, or another node has taken the place: start again with an empty data folder";

fn busy(state: &State, host: HostId) -> String {
    let address = state.members().get(host).map(|member| member.broadcast().to_string()).unwrap_or_default();
    format!(
        "{FOR_NOW}{address} ({host}) is joining or replacing another: wait for it; if it is down for good, give it up with nodetool assassinate"
    )
}

fn encode_replace(whom: &str, command: &Command, out: &mut Vec<u8>) {
    FieldWriter::new(out).text(whom).bytes(&command.encode());
}

fn decode_replace(bytes: &[u8]) -> Option<(String, Command)> {
    let mut fields = FieldReader::new("request to replace", bytes);
    let whom = fields.text(WHOM_BYTES_MAX).ok()?;
    let command = Command::decode(fields.bytes().ok()?).ok()?;
    Some((whom, command))
}

/// How a refusal to replace a node begins that answers.
const ALIVE: &str = "Cannot replace a live node";
/// How long a node that is to be replaced may seem to answer: above the silence by which the dead are known.
const DOWN_WITHIN: Duration = Duration::from_secs(5);

/// Longest text of an address or host id.
const WHOM_BYTES_MAX: usize = 64;

/// How a refusal begins that is none for good.
const FOR_NOW: &str = "not now: ";

fn is_for_now(text: &str) -> bool {
    text.starts_with(FOR_NOW)
}

/// Why a node was not asked.
struct Unasked {
    reason: String,
    holds: Holds,
}

/// How long, and of whom, a reason holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    /// It may end by itself, or by what an operator does elsewhere: clocks are set, processes end, clusters that are not founded change their names.
    Temporarily,
    /// As long as this seed and this node are what they are: releases, names of clusters.
    AtThisSeed,
    /// It is agreed on by all members, about this host id or its folder.
    Everywhere,
}

fn holds(error: &ContactError) -> Holds {
    let has_cluster = error.hello.as_ref().is_some_and(|hello| hello.node.cluster_id != 0);
    match error.refusal.as_ref().map(|refusal| refusal.kind) {
        Some(RefusalKind::Banned | RefusalKind::Copied | RefusalKind::OldEpoch) if error.refused_there => {
            Holds::Everywhere
        }
        Some(RefusalKind::Protocol) => Holds::AtThisSeed,
        Some(RefusalKind::ForeignCluster) if has_cluster => Holds::AtThisSeed,
        Some(
            RefusalKind::Banned
            | RefusalKind::Copied
            | RefusalKind::OldEpoch
            | RefusalKind::ForeignCluster
            | RefusalKind::Clock
            | RefusalKind::HostTwice
            | RefusalKind::Myself
            | RefusalKind::OtherHost
            | RefusalKind::Draining
            | RefusalKind::Other,
        )
        | None => Holds::Temporarily,
    }
}

fn refused_by(seed: SocketAddr, reason: &str) -> String {
    format!("this node cannot join: the seed {seed}: {reason}")
}

/// What was heard of nodes that could not be asked.
fn behind_all(reasons: &BTreeMap<SocketAddr, String>) -> String {
    let reasons: Vec<String> =
        reasons.iter().map(|(address, reason)| format!("{address}: {reason}")).collect();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

/// A request that this release does not understand, and never will.
fn unreadable(what: &impl std::fmt::Display) -> Outcome {
    Outcome::Refused(format!(
        "a member of release {} cannot read the request of this node: {what}",
        env!("CARGO_PKG_VERSION")
    ))
}

/// How long a line is not said again.
const SAID_AGAIN: Duration = Duration::from_secs(50);
/// Lines that are remembered; more are of addresses that change all the time.
const SAID_MAX: usize = 64;

/// What this node said of its start: each line when it is new, and about once a minute while it stays so.
#[derive(Default)]
struct Told(BTreeMap<String, Instant>);

impl Told {
    fn say(&mut self, text: String) {
        let now = runtime::now();
        self.0.retain(|_, at| now - *at < SAID_AGAIN);
        if !self.0.contains_key(&text) && self.0.len() < SAID_MAX {
            runtime::info!("cluster: {text}");
            self.0.insert(text, now);
        }
    }
}
