//! What the node knows about itself and the cluster without asking other shards.

use super::{Answer, Failure, Rest, json::map};
use crate::http::Request;
use base::{HashMap, HostId, Token};
use query::RELEASE_VERSION;
use schema::Replication;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;
use topology::{Member, MemberState, Snapshot};

/// A ring of tokens as shares of the whole.
const WHOLE: f64 = 18_446_744_073_709_551_616.0;

/// The whole name of the class that the configuration names.
fn snitch(settings: &[(String, String)]) -> String {
    let given = settings.iter().find(|(key, _)| key == "endpoint_snitch");
    match given.map_or("SimpleSnitch", |(_, name)| name) {
        name if name.contains('.') => name.to_string(),
        name => format!("org.apache.cassandra.locator.{name}"),
    }
}

impl Rest {
    /// The answer to a GET that needs nobody else; `None`: ask [`Rest::look`].
    pub(super) fn fact(&self, path: &[&str], request: &Request) -> Option<Answer> {
        let info = self.settings.engine.info();
        let snapshot = self.coordinator().topology();
        let local = snapshot.local();
        let value = match path {
            ["storage_service", rest @ ..] => return self.storage_fact(rest, request),
            ["system", "uptime_ms"] => {
                json!((runtime::unix_micros() / 1000 - i64::from(info.started_at_s) * 1000).max(0))
            }
            ["snitch", "name"] => json!(snitch(&info.settings)),
            ["snitch", what @ ("datacenter" | "rack")] => return Some(self.place(what, request)),
            ["storage_proxy", "schema_versions"] => {
                map(self.schema_versions().into_iter().map(|(version, nodes)| (version, json!(nodes))))
            }
            ["failure_detector" | "gossiper", rest @ ..] => return self.states(rest).map(Ok),
            ["system", "logger", rest @ ..] => loggers(rest),
            ["column_family", ..] => return self.table_names(path).map(Ok),
            // There are no such caches.
            ["cache_service", "metrics", "key", "hits_moving_avrage" | "requests_moving_avrage"] => json!(0),
            ["cache_service", "metrics", "key", "entries" | "size" | "capacity" | "hit_rate"] => json!(0),
            ["cache_service", name] if name.ends_with("_cache_save_period") => json!(0),
            ["messina", "timeouts"] => {
                self.settings.timeouts.iter().map(|(kind, ms)| (*kind, json!(ms))).collect()
            }
            ["messina", "caches" | "dropped"] => json!([]),
            ["messina", "replication"] => self.replication(),
            ["messina", "node"] => json!({
                "storage_port": local.internode.port(), "native_port": local.native.port(),
                "data_center": local.dc, "rack": local.rack, "version": RELEASE_VERSION,
                "shards": runtime::shard_count(),
                "heap_total": runtime::memory::budget() * u64::from(runtime::shard_count()),
            }),
            _ => return None,
        };
        Some(Ok(value))
    }

    /// Which nodes live.
    fn states(&self, path: &[&str]) -> Option<Value> {
        let state = |up: bool| if up { "UP" } else { "DOWN" };
        let of = |up: bool| self.addresses(|alive| alive == up).into_iter().map(move |a| (a, state(up)));
        Some(match path {
            ["simple_states"] => map(of(true).chain(of(false))),
            ["count", "endpoint", what] => json!(self.addresses(|up| up == (*what == "up")).len()),
            ["endpoint", what] => json!(self.addresses(|up| up == (*what == "live"))),
            _ => return None,
        })
    }

    /// Every table, or every keyspace that has some.
    fn table_names(&self, path: &[&str]) -> Option<Value> {
        let names = || self.coordinator().local().table_names().into_iter();
        Some(match path {
            ["column_family"] => {
                names().map(|(ks, cf, _)| json!({ "ks": ks, "cf": cf, "type": "ColumnFamilies" })).collect()
            }
            ["column_family", "name"] => names().map(|(ks, cf, _)| json!(format!("{ks}:{cf}"))).collect(),
            ["column_family", "name", "keyspace"] => {
                json!(names().map(|(keyspace, ..)| keyspace).collect::<BTreeSet<String>>())
            }
            _ => return None,
        })
    }

    fn storage_fact(&self, path: &[&str], request: &Request) -> Option<Answer> {
        let info = self.settings.engine.info();
        let snapshot = self.coordinator().topology();
        let nodes = || snapshot.members().iter();
        let value = match path {
            ["release_version"] => json!(RELEASE_VERSION),
            ["cluster_name"] => json!(info.cluster_name),
            ["partitioner_name"] => json!("org.apache.cassandra.dht.Murmur3Partitioner"),
            ["schema_version"] => json!(self.schema_version()),
            ["hostid", "local"] => json!(snapshot.local_id().to_string()),
            ["host_id"] => map(nodes().map(|node| (node.broadcast().to_string(), node.host_id.to_string()))),
            ["tokens"] => json!(snapshot.local().tokens.iter().map(Token::to_string).collect::<Vec<_>>()),
            ["tokens", node] => {
                let found = nodes().find(|known| known.broadcast().to_string() == *node);
                let unknown = || Failure::new(404, format!("{node} is no member of the cluster"));
                let text =
                    |node: &Member| json!(node.tokens.iter().map(Token::to_string).collect::<Vec<_>>());
                return Some(found.map(text).ok_or_else(unknown));
            }
            ["tokens_endpoint"] => map(shown_ring(&snapshot)
                .into_iter()
                .map(|(token, node)| (token.to_string(), node.broadcast().to_string()))),
            ["operation_mode"] => json!(match self.mode.get() {
                super::Mode::Normal => super::members::state_name(snapshot.local().state),
                drained => drained.name(),
            }),
            ["gossiping"] => json!(self.settings.peers.is_talking()),
            ["rpc_server"] | ["is_starting"] => json!(false),
            ["removal_status"] => json!("No token removals in process."),
            ["incremental_backups"] => json!(self.coordinator().local().incremental_backups()),
            ["native_transport"] => json!(self.settings.native.is_running()),
            ["join_ring"] => json!(true),
            ["generation_number"] => json!(info.started_at_s),
            ["trace_probability"] => json!(0.0),
            ["compaction_throughput"] => {
                json!(self.coordinator().local().compaction_throughput() as f64 / f64::from(1u32 << 20))
            }
            ["nodes", what @ ("joining" | "leaving" | "moving")] => {
                let is_meant = |member: &&Member| match member.state {
                    MemberState::Joining | MemberState::Replacing(_) => *what == "joining",
                    MemberState::Leaving => *what == "leaving",
                    MemberState::Normal | MemberState::Left | MemberState::Banned => false,
                };
                nodes().filter(is_meant).map(|member| json!(member.broadcast().to_string())).collect()
            }
            ["keyspaces"] => return Some(self.keyspaces(request)),
            ["ownership"] => self.shares(&snapshot, |owner, _| vec![owner]),
            ["ownership", keyspace] => return Some(self.ownership(keyspace)),
            ["describe_ring", keyspace] => return Some(self.describe_ring(keyspace)),
            ["natural_endpoints", keyspace] => return Some(self.natural_endpoints(keyspace, request)),
            ["logging_level"] => {
                let rows = runtime::log::levels().rows();
                map(rows.into_iter().map(|(name, level)| (name, level.to_string())))
            }
            _ => return None,
        };
        Some(Ok(value))
    }

    fn schema_version(&self) -> String {
        uuid::Uuid::from_u128(self.settings.engine.schema().version).to_string()
    }

    fn addresses(&self, wanted: impl Fn(bool) -> bool) -> Vec<String> {
        let snapshot = self.coordinator().topology();
        let chosen = snapshot.members().iter().filter(|node| wanted(snapshot.is_alive(node.host_id)));
        chosen.map(|node| node.broadcast().to_string()).collect()
    }

    fn place(&self, what: &str, request: &Request) -> Answer {
        let snapshot = self.coordinator().topology();
        let node = match request.parameter("host").filter(|host| !host.is_empty()) {
            None => snapshot.local(),
            Some(host) => {
                let is_it = |node: &&Member| {
                    let address: Option<IpAddr> = host.parse().ok();
                    let own = node.broadcast();
                    address == Some(own) || (host == "localhost" && own.is_loopback())
                };
                let unknown = || Failure::new(404, format!("{host} is no member of the cluster"));
                snapshot.members().iter().find(is_it).ok_or_else(unknown)?
            }
        };
        Ok(json!(if what == "rack" { &node.rack } else { &node.dc }))
    }

    fn keyspaces(&self, request: &Request) -> Answer {
        let schema = self.settings.engine.schema();
        let kind = request.parameter("type").unwrap_or_else(|| "all".into());
        let mut names = Vec::new();
        for (name, keyspace) in &schema.keyspaces {
            let system = cql::is_system_keyspace(name);
            if request.parameter("replication").as_deref() == Some("tablets") {
                // Tokens belong to nodes here.
                continue;
            }
            let wanted = match kind.as_str() {
                "all" => !is_virtual(name),
                "user" => !system,
                "non_local_strategy" => keyspace.replication != Replication::Local,
                _ => return Err(Failure::new(400, format!("\"{kind}\" is no type of keyspaces"))),
            };
            if wanted {
                names.push(name.to_string());
            }
        }
        Ok(json!(names))
    }

    fn replication(&self) -> Value {
        let schema = self.settings.engine.schema();
        let stored = schema.keyspaces.iter().filter(|(name, _)| !is_virtual(name));
        map(stored.map(|(name, keyspace)| {
            let mut options = serde_json::Map::new();
            let mut put = |name: &str, value: String| drop(options.insert(name.to_string(), value.into()));
            match &keyspace.replication {
                Replication::Local => put("class", "org.apache.cassandra.locator.LocalStrategy".into()),
                Replication::Simple { factor } => {
                    put("class", "org.apache.cassandra.locator.SimpleStrategy".into());
                    put("replication_factor", factor.to_string());
                }
                Replication::NetworkTopology { factors } => {
                    put("class", "org.apache.cassandra.locator.NetworkTopologyStrategy".into());
                    factors.iter().for_each(|(dc, factor)| put(dc, factor.to_string()));
                }
            }
            (name.to_string(), Value::Object(options))
        }))
    }

    fn replication_of(&self, keyspace: &str) -> Result<Replication, Failure> {
        let schema = self.settings.engine.schema();
        let unknown = || Failure::new(404, format!("Keyspace [{keyspace}] does not exist."));
        Ok(schema.keyspaces.get(keyspace).ok_or_else(unknown)?.replication.clone())
    }

    /// The tokens of a keyspace that this node holds, from the first to the last of each range.
    pub(super) fn owned_ranges(&self, keyspace: &str) -> Result<Vec<(Token, Token)>, Failure> {
        let replication = self.replication_of(keyspace)?;
        let snapshot = self.coordinator().topology();
        let placements = snapshot.placements(&replication);
        let mut owned = Vec::new();
        for (start, end, _) in ranges(&snapshot) {
            if !placements.at(Token(end)).read.contains(&snapshot.local_id()) {
                continue;
            }
            if end <= start {
                // Around the end of the ring.
                owned.push((Token::MIN, Token(end)));
            }
            let last = if end <= start { i64::MAX } else { end };
            owned.extend(start.checked_add(1).map(|first| (Token(first), Token(last))));
        }
        Ok(owned)
    }

    /// Each node's share of the ring, where `holders` says who holds the range that ends at a token.
    fn shares(&self, snapshot: &Snapshot, holders: impl Fn(HostId, i64) -> Vec<HostId>) -> Value {
        let mut shares: HashMap<HostId, f64> = HashMap::default();
        for (start, end, owner) in ranges(snapshot) {
            let share = if start == end { 1.0 } else { end.wrapping_sub(start) as u64 as f64 / WHOLE };
            for node in holders(owner.host_id, end) {
                *shares.entry(node).or_default() += share;
            }
        }
        let share = |node: &Member| shares.get(&node.host_id).copied().unwrap_or(0.0);
        let owners = snapshot.members().iter().filter(|node| node.state.is_read());
        map(owners.map(|node| (node.broadcast().to_string(), share(node))))
    }

    fn ownership(&self, keyspace: &str) -> Answer {
        let replication = self.replication_of(keyspace)?;
        let snapshot = self.coordinator().topology();
        let placements = snapshot.placements(&replication);
        Ok(self.shares(&snapshot, |_, end| placements.at(Token(end)).read.to_vec()))
    }

    fn describe_ring(&self, keyspace: &str) -> Answer {
        let replication = self.replication_of(keyspace)?;
        let snapshot = self.coordinator().topology();
        let placements = snapshot.placements(&replication);
        let range = |(start, end, _): (i64, i64, &Member)| {
            let replicas = &placements.at(Token(end)).read;
            let nodes: Vec<&Member> = replicas.iter().filter_map(|host| snapshot.member(*host)).collect();
            let detail = |node: &&Member| json!({ "host": node.broadcast().to_string(), "datacenter": node.dc, "rack": node.rack });
            json!({
                "start_token": start.to_string(), "end_token": end.to_string(),
                "endpoints": nodes.iter().map(|node| node.broadcast().to_string()).collect::<Vec<_>>(),
                "rpc_endpoints": nodes.iter().map(|node| node.native.ip().to_string()).collect::<Vec<_>>(),
                "endpoint_details": nodes.iter().map(detail).collect::<Vec<_>>(),
            })
        };
        Ok(Value::Array(ranges(&snapshot).into_iter().map(range).collect()))
    }

    fn natural_endpoints(&self, keyspace: &str, request: &Request) -> Answer {
        let replication = self.replication_of(keyspace)?;
        let key = self.key_of(keyspace, &request.parameter("cf").unwrap_or_default(), request)?;
        let snapshot = self.coordinator().topology();
        let placements = snapshot.placements(&replication);
        let replicas = placements.at(Token::of_key(&key)).read.iter();
        let address = |member: &Member| member.broadcast().to_string();
        Ok(json!(replicas.filter_map(|host| snapshot.member(*host)).map(address).collect::<Vec<_>>()))
    }

    /// The partition key that a request's `key` writes: components with colons between, or hexadecimal.
    pub(super) fn key_of(&self, keyspace: &str, table: &str, request: &Request) -> Result<Vec<u8>, Failure> {
        let schema = self.settings.engine.schema();
        let definition = schema.keyspaces.get(keyspace).and_then(|keyspace| keyspace.tables.get(table));
        let unknown = || Failure::new(404, format!("Unknown keyspace/cf pair ({keyspace}.{table})"));
        let definition = definition.ok_or_else(unknown)?;
        let text = request.parameter("key").ok_or_else(|| Failure::new(400, "\"key\" is missing"))?;
        let bad = |why: String| Failure::new(400, format!("\"{text}\" is no partition key: {why}"));
        if request.parameter("format").as_deref() == Some("hex") {
            return types::literal::from_text(&types::CqlType::Blob, &format!("0x{text}"))
                .map_err(|error| bad(error.to_string()));
        }
        let columns = &definition.partition_key;
        let value = |ty: &types::CqlType, part: &str| match part {
            // Nothing is the empty value of every type.
            "" => Ok(Vec::new()),
            part => types::literal::from_text(ty, part).map_err(|error| bad(error.to_string())),
        };
        if let [only] = columns.as_slice() {
            return value(&only.ty, &text);
        }
        let parts = components(&text);
        if parts.len() > columns.len() {
            return Err(bad(format!("it has {} components, the key has {}", parts.len(), columns.len())));
        }
        // Fewer are no key of any row, but have a token all the same.
        let mut key = Vec::new();
        for (column, part) in columns.iter().zip(parts) {
            let value = value(&column.ty, &part)?;
            let len = u16::try_from(value.len()).map_err(|_| bad("a component is too long".into()))?;
            key.extend_from_slice(&len.to_be_bytes());
            key.extend_from_slice(&value);
            key.push(0);
        }
        Ok(key)
    }
}

/// The components of a key as Cassandra writes them: with colons between, one inside of a component behind a backslash;
/// what ends with a backslash or an exclamation mark has another of those behind it.
fn components(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for letter in text.chars() {
        let part = parts.last_mut().expect("one is always there");
        match (letter, before) {
            (':', '\\') => {
                part.pop();
                part.push(':');
            }
            (':', _) => parts.push(String::new()),
            (letter, _) => part.push(letter),
        }
        before = letter;
    }
    for part in &mut parts {
        if part.ends_with('!') {
            part.pop();
        }
    }
    parts
}

/// Modules that have a level, or the level of one, as ScyllaDB writes it.
fn loggers(path: &[&str]) -> Value {
    let levels = runtime::log::levels();
    match path {
        [module, ..] => {
            let root = module.eq_ignore_ascii_case("root");
            let level = if root { levels.root } else { levels.of(&module.replace('.', "::")) };
            json!(level.name().to_ascii_lowercase())
        }
        [] => levels.rows().into_iter().map(|(module, _)| Value::from(module)).collect(),
    }
}

/// Keyspaces whose tables are made up when they are read: nodetool does not show them.
fn is_virtual(keyspace: &str) -> bool {
    matches!(keyspace, "system_views" | "system_virtual_schema")
}

/// Every token and its node as operators see them, in ring order: those of a node that joins, too.
fn shown_ring(snapshot: &Snapshot) -> Vec<(i64, &Member)> {
    let mut ring = ring(snapshot);
    for node in snapshot.members().iter().filter(|node| node.state == MemberState::Joining) {
        ring.extend(node.tokens.iter().map(|token| (token.0, node)));
    }
    ring.sort_unstable_by_key(|(token, node)| (*token, node.host_id));
    ring
}

/// Every token and the node that holds it, in ring order.
fn ring(snapshot: &Snapshot) -> Vec<(i64, &Member)> {
    let mut ring = Vec::new();
    for node in snapshot.members().iter().filter(|node| node.state.is_read()) {
        ring.extend(node.tokens.iter().map(|token| (token.0, node)));
    }
    ring.sort_unstable_by_key(|(token, node)| (*token, node.host_id));
    ring
}

/// Ranges between neighbouring tokens: behind the first, up to and with the second, and who owns it.
fn ranges(snapshot: &Snapshot) -> Vec<(i64, i64, &Member)> {
    let ring = ring(snapshot);
    let Some((mut before, _)) = ring.last().copied() else { return Vec::new() };
    let mut ranges = Vec::with_capacity(ring.len());
    for (token, node) in ring {
        ranges.push((before, token, node));
        before = token;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_part_the_components_of_a_key() {
        for (text, parts) in [
            ("1", &["1"][..]),
            ("1:a", &["1", "a"]),
            ("1:", &["1", ""]),
            (r"1:a\:b", &["1", "a:b"]),
            (r"1:a\!", &["1", r"a\"]),
            ("1:a!!", &["1", "a!"]),
            ("a:b:c", &["a", "b", "c"]),
        ] {
            assert_eq!(components(text), parts, "{text}");
        }
    }
}
