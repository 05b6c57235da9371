//! The members of the cluster, as this node knows and hears them, and what an operator has done about one.

use super::{Answer, Failure, Heard, Messages, Mode, Rest};
use crate::http::Request;
use base::{HostId, Token};
use core::net::IpAddr;
use query::RELEASE_VERSION;
use serde_json::{Value, json};
use topology::{Member, MemberState, Snapshot};

/// What an operator does instead of what needs data to be moved between nodes.
const READ_AT_ALL: &str =
    "read every row at consistency level ALL, which brings it to each node that holds its token";

/// The state of a member in one word, as `nodetool netstats` has it.
pub(super) fn state_name(state: MemberState) -> &'static str {
    match state {
        MemberState::Joining => "JOINING",
        MemberState::Replacing(_) => "REPLACING",
        MemberState::Normal => "NORMAL",
        MemberState::Leaving => "LEAVING",
        MemberState::Left => "LEFT",
        MemberState::Banned => "BANNED",
    }
}

impl Rest {
    /// Every member that counts, by address.
    pub(super) async fn members(&self) -> Answer {
        let snapshot = self.coordinator().topology();
        let own_load = self.coordinator().local().live_bytes().await;
        let mut members: Vec<&Member> = snapshot.members().iter().collect();
        members.sort_by_key(|member| member.internode);
        let describe = |member: &Member| {
            let is_local = member.host_id == snapshot.local_id();
            let heard = if is_local {
                Some(self.own_facts(own_load))
            } else {
                self.settings.peers.heard(member.host_id)
            };
            self.describe(member, &snapshot, is_local, heard)
        };
        Ok(members.into_iter().map(describe).collect())
    }

    /// What others hear of this node.
    fn own_facts(&self, load: u64) -> Heard {
        Heard {
            load,
            schema_version: self.settings.engine.schema().version,
            native_open: self.settings.native.is_running(),
            started_at_s: u64::try_from(self.settings.engine.info().started_at_s).unwrap_or(0),
            has_left: !self.settings.peers.is_talking(),
            ..Heard::default()
        }
    }

    fn describe(&self, member: &Member, snapshot: &Snapshot, is_local: bool, heard: Option<Heard>) -> Value {
        let mut value = json!({
            "host_id": member.host_id.to_string(),
            "address": member.broadcast().to_string(),
            "port": member.internode.port(),
            "native_address": member.native.ip().to_string(),
            "native_port": member.native.port(),
            "dc": member.dc,
            "rack": member.rack,
            "state": state_name(member.state),
            "alive": snapshot.is_alive(member.host_id),
            "local": is_local,
            "put_out": self.settings.peers.is_put_out(member.host_id),
            "release": RELEASE_VERSION,
            "tokens": member.tokens.iter().map(Token::to_string).collect::<Vec<_>>(),
            "members_version": snapshot.members().version().index,
        });
        let Some(heard) = heard else { return value };
        let now_s = u64::try_from(runtime::unix_micros() / 1_000_000).unwrap_or(0);
        let lived_s = now_s.saturating_sub(heard.silent.as_secs()).saturating_sub(heard.started_at_s);
        let round_trip_us = heard.round_trip.map(|took| took.as_micros() as u64);
        value["heard"] = json!({
            "load": heard.load,
            "schema_version": uuid::Uuid::from_u128(heard.schema_version).to_string(),
            "native_open": heard.native_open,
            "generation": heard.started_at_s,
            "heartbeat": lived_s,
            "silent_ms": heard.silent.as_millis() as u64,
            "round_trip_us": round_trip_us,
            "has_left": heard.has_left,
        });
        value
    }

    /// Addresses by the version of the schema that nodes show to their clients: of this node first, then by version; those that are down last.
    pub(super) fn schema_versions(&self) -> Vec<(String, Vec<String>)> {
        let snapshot = self.coordinator().topology();
        let own = self.settings.engine.schema().version;
        let mut members: Vec<&Member> = snapshot.members().iter().collect();
        members.sort_by_key(|member| member.internode);
        let mut versions: Vec<(u128, Vec<String>)> = vec![(own, Vec::new())];
        let mut down = Vec::new();
        for member in members {
            let address = member.broadcast().to_string();
            if !snapshot.is_alive(member.host_id) {
                down.push(address);
                continue;
            }
            let said = snapshot.liveness().schema_version(member.host_id);
            let said = if member.host_id == snapshot.local_id() { own } else { said.unwrap_or(own) };
            match versions.iter_mut().find(|(version, _)| *version == said) {
                Some((_, addresses)) => addresses.push(address),
                None => versions.push((said, vec![address])),
            }
        }
        versions[1..].sort_unstable();
        let text = |version| uuid::Uuid::from_u128(version).to_string();
        let mut versions: Vec<(String, Vec<String>)> =
            versions.into_iter().map(|(version, addresses)| (text(version), addresses)).collect();
        if !down.is_empty() {
            versions.push(("UNREACHABLE".to_owned(), down));
        }
        versions
    }

    /// Messages with other nodes, and reads that found replicas to differ.
    pub(super) async fn internode(&self) -> Answer {
        let traffic = self.settings.peers.traffic().await;
        let row = |messages: &Messages| {
            let Messages { sent, pending, failed } = messages;
            json!({ "completed": sent, "pending": pending, "dropped": failed })
        };
        let mut mismatches = 0;
        for shard in 0..runtime::shard_count() {
            let ask = || async { runtime::local::<coordinator::Coordinator>().digest_mismatches() };
            mismatches += runtime::submit_to(runtime::ShardId(shard), runtime::Group::ADMIN, ask).await;
        }
        Ok(json!({
            "large": row(&traffic.large), "small": row(&traffic.small), "control": row(&traffic.control),
            "mismatches": mismatches,
        }))
    }

    /// Lets others know again that this node lives; or that it is gone.
    pub(super) async fn switch_gossip(&self, on: bool) -> Answer {
        if on && self.mode.get() != Mode::Normal {
            return Err(Failure::new(
                500,
                "the node is drained: only a restart lets it back among the others",
            ));
        }
        self.settings.peers.talk(on).await.map_err(|why| Failure::new(500, why))?;
        Ok(Value::Null)
    }

    fn member_at(&self, address: &str) -> Result<Member, Failure> {
        let bad = |_| Failure::new(400, format!("{address} is no address"));
        let address: IpAddr = address.parse().map_err(bad)?;
        let snapshot = self.coordinator().topology();
        let is_there = |member: &&Member| member.broadcast() == address;
        // Of two with one address the one that takes the place of the other is meant, which is not called any more.
        let new = snapshot.members().iter().find(|member| is_there(member) && !member.state.is_read());
        let found = new.or_else(|| snapshot.members().iter().find(is_there)).cloned();
        found.ok_or_else(|| Failure::new(404, format!("{address} is no member of the cluster")))
    }

    /// Puts out a member that is down: it is refused from now on, and nobody waits for it.
    pub(super) async fn assassinate(&self, address: &str) -> Answer {
        let member = self.member_at(address)?;
        let snapshot = self.coordinator().topology();
        let host = member.host_id;
        if host == snapshot.local_id() {
            return Err(Failure::new(409, "Cannot assassinate self"));
        }
        if snapshot.is_alive(host) {
            let text = format!(
                "{address} answers: only a node that is down can be assassinated, as it would go on answering beside its successor. Stop it first"
            );
            return Err(Failure::new(409, text));
        }
        self.settings.peers.put_out(host).await.map_err(|why| Failure::new(500, why))?;
        runtime::warn!("admin: {host} at {address} was removed from the cluster and is refused from now on");
        Ok(Value::Null)
    }

    /// Refused: who holds tokens can only be replaced.
    pub(super) fn remove_node(&self, request: &Request) -> Answer {
        let text = request.parameter("host_id").unwrap_or_default();
        let host = uuid::Uuid::parse_str(&text);
        let host = host.map_err(|_| Failure::new(400, format!("Invalid UUID string: {text}")))?;
        let host = HostId(host.as_u128());
        let snapshot = self.coordinator().topology();
        let Some(member) = snapshot.member(host) else {
            return Err(Failure::new(404, "Host ID not found."));
        };
        if host == snapshot.local_id() {
            return Err(Failure::new(409, "Cannot remove self"));
        }
        if snapshot.is_alive(host) {
            let at = member.internode;
            let text = format!(
                "Node /{at} is alive and owns this ID. Use decommission command to remove it from the ring"
            );
            return Err(Failure::new(409, text));
        }
        let why = self.settings.peers.removal_refusal(host);
        let address = member.broadcast();
        let instead = match member.state.is_read() {
            true => format!(": {}", replacing(address)),
            false => format!(": 'nodetool assassinate {address}' ends what it has begun"),
        };
        Err(Failure::new(501, format!("Cannot remove {address}: {why}{instead}")))
    }

    /// Refused: what this node holds cannot be moved to others.
    pub(super) fn decommission(&self) -> Answer {
        let snapshot = self.coordinator().topology();
        if !snapshot.others().any(|member| member.state.is_read()) {
            let text =
                "Unsupported operation: no other normal nodes in the ring; decommission would be pointless";
            return Err(Failure::new(400, text));
        }
        let address = snapshot.local().broadcast();
        let text = format!(
            "decommission is not supported yet: nothing moves what this node holds to others. To have another machine in its place, \
             stop it, then {}",
            replacing(address)
        );
        Err(Failure::new(501, text))
    }

    /// Refused, as data would have to move.
    pub(super) fn move_node(&self, request: &Request) -> Answer {
        let text = request.parameter("new_token").unwrap_or_default();
        let Ok(token) = text.trim().parse::<i64>() else {
            let text = format!(
                "Invalid token for Murmur3Partitioner. Got {text} but expected a long value (unsigned 8 bytes integer)."
            );
            return Err(Failure::new(400, text));
        };
        let snapshot = self.coordinator().topology();
        if snapshot.members().iter().any(|member| member.tokens.contains(&Token(token))) {
            return Err(Failure::new(500, format!("target token {token} is already owned by another node.")));
        }
        if snapshot.local().tokens.len() > 1 {
            return Err(Failure::new(500, "This node has more than one token and cannot be moved thusly."));
        }
        let text = "move is not supported yet: nothing moves what the nodes hold. A token is chosen with initial_token before the \
                    first start of a node";
        Err(Failure::new(501, text))
    }

    /// Refused: nothing brings data here.
    pub(super) fn rebuild(&self, request: &Request) -> Answer {
        let snapshot = self.coordinator().topology();
        let datacenters = snapshot.members().datacenters();
        let given = request.parameter("source_dc").filter(|dc| !dc.is_empty());
        if let Some(dc) = given.filter(|dc| !datacenters.contains(dc.as_str())) {
            let known: Vec<&str> = datacenters.into_iter().collect();
            let text = format!(
                "Provided datacenter '{dc}' is not a valid datacenter, available datacenters are: {}",
                known.join(",")
            );
            return Err(Failure::new(400, text));
        }
        Err(Failure::new(
            501,
            format!("rebuild is not supported yet: nothing streams data. Instead, {READ_AT_ALL}"),
        ))
    }
}

/// What to do for a node whose tokens another one is to hold.
fn replacing(address: IpAddr) -> String {
    format!("start a new node on an empty data folder with -Dcassandra.replace_address_first_boot={address}")
}
