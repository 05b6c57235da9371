//! Members: founding, joining, replacing, updates, bans.
//!
//! A banned member that holds tokens goes on holding them: were they taken out of the ring, others would be read who miss what was
//! acknowledged. It is refused, nobody waits for it, and another takes its place by [`crate::Change::Replace`].

use super::{Refusal, refuse, schema::check_ids};
use crate::limits::{ABORTED_MAX, MEMBERS_EVER_MAX, NAME_BYTES_MAX, TOKENS_MAX, UPDATES_MAX};
use crate::{Applicant, Cluster, Founding, MemberUpdate, Operation, OperationKind, State};
use base::HostId;
use std::collections::BTreeSet;
use std::sync::Arc;
use topology::{Member, MemberState};

/// Why a member cannot be taken out of the ring yet: nothing moves what it holds to others. There is no command for it, because what a
/// kind of command means never changes; the text says what to do instead.
pub fn removal_refusal(state: &State, host: HostId) -> String {
    match state.members.get(host).map(|member| member.state) {
        None => format!("{host} is no member"),
        Some(MemberState::Left | MemberState::Banned) => format!("{host} has left already"),
        Some(MemberState::Joining | MemberState::Replacing(_)) => {
            format!("{host} is not a full member yet: abort its operation")
        }
        Some(MemberState::Normal | MemberState::Leaving) => format!(
            "{host} holds tokens, and moving what it holds to other nodes is not supported yet; it has to be replaced by a new node"
        ),
    }
}

impl State {
    pub(super) fn found(&mut self, founding: &Founding) -> Result<(), Refusal> {
        if let Some(cluster) = &self.cluster {
            return refuse(format!("the cluster \"{}\" is founded already", cluster.name));
        }
        if founding.name.is_empty() || founding.name.len() > NAME_BYTES_MAX {
            return refuse(format!("a cluster's name has 1 to {NAME_BYTES_MAX} bytes"));
        }
        check_sound(&founding.member)?;
        check_ids(&founding.schema)?;
        if founding.roles.roles.is_empty() {
            return refuse("a cluster is founded with a role that can log in");
        }
        self.cluster = Some(Arc::new(Cluster { id: founding.cluster, name: founding.name.clone() }));
        self.schema = Arc::new(schema::Schema::clone(&founding.schema).with_content_version());
        self.roles = Arc::new(founding.roles.clone());
        self.versions.schema = self.version;
        self.versions.roles = self.version;
        self.set(Member { state: MemberState::Normal, ..founding.member.clone() });
        Ok(())
    }

    pub(super) fn join(&mut self, applicant: &Applicant) -> Result<(), Refusal> {
        self.check_applicant(applicant)?;
        let member = Member { state: MemberState::Joining, ..applicant.member.clone() };
        check_sound(&member)?;
        self.check_tokens(&member)?;
        self.check_addresses(&[&member])?;
        self.begin(OperationKind::Join, applicant, member);
        Ok(())
    }

    pub(super) fn replace(&mut self, old: HostId, applicant: &Applicant) -> Result<(), Refusal> {
        self.check_applicant(applicant)?;
        let replaced = match self.members.get(old) {
            Some(member) if member.state == MemberState::Normal => member.clone(),
            Some(_) => return refuse(format!("{old} holds no tokens that could be taken over")),
            None => return refuse(format!("{old} is no member")),
        };
        let member = &applicant.member;
        if (&member.dc, &member.rack) != (&replaced.dc, &replaced.rack) {
            return refuse(format!(
                "{old} is in {}/{} and its replacement in {}/{}: its ranges would move",
                replaced.dc, replaced.rack, member.dc, member.rack
            ));
        }
        if !self.others_serve(old) {
            return refuse(format!("{old} is the only member: nobody else has its data"));
        }
        let state = MemberState::Replacing(old);
        let member = Member { state, tokens: replaced.tokens, ..member.clone() };
        check_sound(&member)?;
        self.begin(OperationKind::Replace(old), applicant, member.clone());
        self.check_addresses(&[&member])
    }

    fn begin(&mut self, kind: OperationKind, applicant: &Applicant, member: Member) {
        self.operation =
            Some(Operation { kind, host: member.host_id, since: self.version, fill: applicant.fill });
        self.set(member);
    }

    pub(super) fn finish_join(&mut self, host: HostId) -> Result<(), Refusal> {
        match self.operation {
            Some(Operation { kind: OperationKind::Join, host: joining, .. }) if joining == host => {}
            _ => return refuse(format!("{host} is not joining")),
        }
        self.operation = None;
        self.set_state(host, MemberState::Normal);
        Ok(())
    }

    pub(super) fn finish_replace(&mut self, host: HostId) -> Result<(), Refusal> {
        let old = match self.operation {
            Some(Operation { kind: OperationKind::Replace(old), host: new, .. }) if new == host => old,
            _ => return refuse(format!("{host} replaces nobody")),
        };
        self.operation = None;
        let gone = if self.banned.contains_key(&old) { MemberState::Banned } else { MemberState::Left };
        self.set_state(old, gone);
        self.set_state(host, MemberState::Normal);
        Ok(())
    }

    pub(super) fn abort(&mut self, host: HostId) -> Result<(), Refusal> {
        if self.operation.is_none_or(|operation| operation.host != host) {
            return refuse(format!("{host} is neither joining nor replacing another"));
        }
        self.operation = None;
        let aborted = Arc::make_mut(&mut self.aborted);
        aborted.insert(host, self.version);
        if aborted.len() > ABORTED_MAX
            && let Some((oldest, _)) =
                aborted.iter().map(|(host, since)| (*host, *since)).min_by_key(|(_, since)| *since)
        {
            aborted.remove(&oldest);
        }
        self.versions.members = self.version;
        self.set_members(
            self.members.ever().iter().filter(|member| member.host_id != host).cloned().collect(),
        );
        Ok(())
    }

    pub(super) fn update(&mut self, updates: &[MemberUpdate]) -> Result<(), Refusal> {
        let hosts: BTreeSet<HostId> = updates.iter().map(|update| update.host).collect();
        if updates.is_empty() || updates.len() > UPDATES_MAX || hosts.len() != updates.len() {
            return refuse(format!("an update is of 1 to {UPDATES_MAX} members, each once"));
        }
        let mut changed = Vec::new();
        for update in updates {
            changed.push(self.updated(update)?);
        }
        self.versions.members = self.version;
        // Of two with one host id the last one counts.
        self.set_members(self.members.ever().iter().chain(&changed).cloned().collect());
        self.check_addresses(&changed.iter().collect::<Vec<_>>())
    }

    fn updated(&self, update: &MemberUpdate) -> Result<Member, Refusal> {
        let host = update.host;
        let member = match self.members.get(host) {
            Some(member) if !self.is_refused(host) => member,
            Some(_) => return refuse(format!("{host} is not a member any more")),
            None => return refuse(format!("{host} is no member")),
        };
        for (what, before, now) in
            [("data center", &member.dc, &update.dc), ("rack", &member.rack, &update.rack)]
        {
            if before != now {
                return refuse(format!(
                    "Cannot start node if snitch's {what} ({now}) differs from previous {what} ({before}). Please fix the \
                     snitch configuration, or replace this node by a new one"
                ));
            }
        }
        let member = Member {
            internode: update.internode,
            native: update.native,
            shards: update.shards,
            ignore_msb: update.ignore_msb,
            features: update.features,
            release: update.release.clone(),
            ..member.clone()
        };
        check_sound(&member)?;
        self.check_features(&member)?;
        Ok(member)
    }

    /// ⚔ Allowed at any time, whatever runs.
    pub(super) fn ban(&mut self, host: HostId) -> Result<(), Refusal> {
        if self.serves(host) && !self.others_serve(host) {
            return refuse(format!("{host} is the only member: nobody else has its data"));
        }
        if self.banned.len() >= MEMBERS_EVER_MAX && !self.banned.contains_key(&host) {
            return refuse(format!("{MEMBERS_EVER_MAX} host ids are banned already"));
        }
        Arc::make_mut(&mut self.banned).entry(host).or_insert(self.version);
        self.versions.members = self.version;
        if self.operation.is_some_and(|operation| operation.host == host) {
            self.operation = None;
        }
        match self.members.get(host).map(|member| member.state) {
            Some(MemberState::Joining | MemberState::Replacing(_) | MemberState::Left) => {
                self.set_state(host, MemberState::Banned);
            }
            Some(MemberState::Normal | MemberState::Leaving | MemberState::Banned) | None => {}
        }
        Ok(())
    }

    fn check_applicant(&self, applicant: &Applicant) -> Result<(), Refusal> {
        let host = applicant.member.host_id;
        let cluster = match &self.cluster {
            Some(cluster) => cluster,
            None => return refuse("the cluster is not founded yet"),
        };
        if cluster.id != applicant.cluster {
            return refuse(format!("{host} means another cluster of the name \"{}\"", applicant.name));
        }
        if cluster.name != applicant.name {
            return refuse(format!(
                "this cluster is called \"{}\", not \"{}\"",
                cluster.name, applicant.name
            ));
        }
        if self.banned.contains_key(&host) {
            return refuse(format!("{host} was banned: a node joins again with an empty folder"));
        }
        if self.aborted.contains_key(&host) {
            return refuse(format!(
                "{host} tried to join before and gave up: a node tries again with an empty folder"
            ));
        }
        if let Some(member) = self.members.get(host) {
            let has_left = if member.state.is_in() { "is a member" } else { "has left" };
            return refuse(format!("{host} {has_left} already: a node joins again with an empty folder"));
        }
        if let Some(operation) = &self.operation {
            let host = operation.host;
            return refuse(format!("{host} is joining or replacing another: one at a time"));
        }
        if self.members.ever().len() >= MEMBERS_EVER_MAX {
            return refuse(format!("the cluster has had {MEMBERS_EVER_MAX} members"));
        }
        self.check_features(&applicant.member)
    }

    fn check_features(&self, member: &Member) -> Result<(), Refusal> {
        let missing = self.features & !member.features;
        if missing != 0 {
            let release = &member.release;
            return refuse(format!("release {release} lacks features the cluster uses: {missing:#x}"));
        }
        Ok(())
    }

    fn check_tokens(&self, member: &Member) -> Result<(), Refusal> {
        for other in self.in_ring() {
            if let Some(token) = member.tokens.iter().find(|token| other.tokens.binary_search(token).is_ok())
            {
                return refuse(format!(
                    "token {} belongs to {} ({}) already",
                    token.0,
                    other.broadcast(),
                    other.host_id
                ));
            }
        }
        Ok(())
    }

    /// Two that are called at one address cannot both be meant. Who is banned is not called. Who is being replaced is not called either,
    /// but comes back to its address if that is given up: only the one that takes its place may have it meanwhile.
    fn check_addresses(&self, members: &[&Member]) -> Result<(), Refusal> {
        for member in members {
            let others = self.members.iter().filter(|other| {
                other.host_id != member.host_id
                    && !self.banned.contains_key(&other.host_id)
                    && member.state != MemberState::Replacing(other.host_id)
            });
            for other in others {
                let both = [(member.internode, other.internode), (member.native, other.native)];
                if let Some((address, _)) = both.iter().find(|(one, other)| one == other) {
                    let other = other.host_id;
                    return refuse(format!(
                        "{address} is the address of {other} already. If that node lost its folder, or is gone for good, replace it by this one"
                    ));
                }
            }
        }
        Ok(())
    }

    fn others_serve(&self, host: HostId) -> bool {
        self.members.iter().any(|member| member.host_id != host && self.serves(member.host_id))
    }

    /// Adds or replaces a member.
    fn set(&mut self, member: Member) {
        self.versions.members = self.version;
        self.set_members(self.members.ever().iter().cloned().chain([member]).collect());
    }

    fn set_state(&mut self, host: HostId, state: MemberState) {
        if let Some(member) = self.members.get(host) {
            let tokens = if state.is_in() { member.tokens.clone() } else { Vec::new() };
            self.set(Member { state, tokens, ..member.clone() });
        }
    }
}

fn check_sound(member: &Member) -> Result<(), Refusal> {
    let host = member.host_id;
    if member.tokens.is_empty() || member.tokens.len() > TOKENS_MAX {
        return refuse(format!("{host} has {} tokens: 1 to {TOKENS_MAX} are possible", member.tokens.len()));
    }
    if !member.tokens.is_sorted_by(|one, next| one < next) {
        return refuse(format!("the tokens of {host} are not ascending"));
    }
    if member.shards == 0 || member.ignore_msb > 63 {
        return refuse(format!(
            "{host} has {} shards and leaves out {} bits",
            member.shards, member.ignore_msb
        ));
    }
    if [&member.dc, &member.rack].iter().any(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
        return refuse(format!("{host} names no datacenter or no rack"));
    }
    Ok(())
}
