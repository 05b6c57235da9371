//! What every command works with: the node, what was given, and where the text goes.

use crate::error::Error;
use crate::options::Given;
use crate::rest::{Node, Pair};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a command makes of a table that does not exist, as Cassandra's of that name does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The node could not do it.
    Fails,
    /// It is a mistake on the command line.
    Misuse,
    /// Nothing is done, to no other table either, and nothing is said.
    Nothing,
}

/// One run of one command.
pub struct Context<'a> {
    /// The node.
    pub node: Node,
    /// Options and arguments behind the command's name.
    pub given: Given,
    /// Whether addresses are printed with the port between nodes.
    pub print_port: bool,
    /// What will be printed.
    pub out: &'a mut String,
    /// Prints what is there, and takes it away.
    pub show: &'a mut dyn FnMut(&mut String),
}

/// What no other endpoint says of the node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct About {
    /// Memory in use, in bytes.
    pub heap_used: u64,
    /// Memory it may use, in bytes.
    pub heap_total: u64,
    /// The port between nodes.
    pub storage_port: u16,
    /// The native transport port.
    pub native_port: u16,
}

impl Context<'_> {
    /// Adds one line.
    pub fn line(&mut self, text: impl std::fmt::Display) {
        let _ = writeln!(self.out, "{text}");
    }

    /// Prints what is there at once.
    pub fn show(&mut self) {
        (self.show)(self.out);
    }

    /// The arguments.
    pub fn arguments(&self) -> &[String] {
        &self.given.arguments
    }

    /// What no other endpoint says of the node.
    pub fn about(&self) -> Result<About, Error> {
        self.node.get_if("/messina/node")
    }

    /// The keyspace of the first argument, if there is one; a usage error if it does not exist.
    pub fn keyspace_if(&self) -> Result<Option<&str>, Error> {
        let Some(name) = self.given.arguments.first() else { return Ok(None) };
        if self.node.keyspaces()?.contains(name) {
            return Ok(Some(name));
        }
        Err(Error::usage(format!("Keyspace [{name}] does not exist.")))
    }

    /// The tables behind the keyspace, joined for a parameter; `None` when nothing is to be done.
    /// Errors: one that does not exist, in Cassandra's words.
    pub fn tables_of(&self, keyspace: &str, unknown: Unknown) -> Result<Option<String>, Error> {
        let wanted = self.given.arguments.get(1..).unwrap_or_default();
        if !wanted.is_empty() {
            let known = self.node.table_names()?;
            let is_known = |table: &String| known.iter().any(|name| name.ks == keyspace && name.cf == *table);
            if let Some(table) = wanted.iter().find(|table| !is_known(table)) {
                let why = format!("Unknown keyspace/cf pair ({keyspace}.{table})");
                return match unknown {
                    Unknown::Fails => Err(Error::Failed(why)),
                    Unknown::Misuse => Err(Error::Usage(why)),
                    Unknown::Nothing => Ok(None),
                };
            }
        }
        Ok(Some(wanted.join(",")))
    }

    /// An address as it is printed: resolved to a name, or with the port between nodes.
    pub fn shown(&self, address: &str, port: Option<u16>, resolve: bool) -> String {
        let name = if resolve { host_name(address) } else { None }.unwrap_or_else(|| address.to_owned());
        match port {
            Some(port) if name.contains(':') => format!("[{name}]:{port}"),
            Some(port) => format!("{name}:{port}"),
            None => name,
        }
    }

    /// The port between nodes, when addresses are printed with it.
    pub fn storage_port(&self) -> Result<Option<u16>, Error> {
        Ok(if self.print_port { Some(self.about()?.storage_port) } else { None })
    }
}

/// The first name that the machine's own list has for an address; there is no resolver behind it.
fn host_name(address: &str) -> Option<String> {
    let hosts = std::fs::read_to_string("/etc/hosts").ok()?;
    let names = |line: &str| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace().map(str::to_owned);
        (words.next(), words.next())
    };
    hosts.lines().map(names).find_map(|(ip, name)| if ip.as_deref() == Some(address) { name } else { None })
}

/// Keyspaces of the system whose replication says nothing of the users'.
const REPLICATED_SYSTEM: [&str; 3] = ["system_auth", "system_distributed", "system_traces"];

/// The keyspace whose ownership stands for all: they all replicate alike.
/// Errors: Cassandra's sentence for keyspaces that do not.
pub fn common_keyspace(replication: &[Pair<BTreeMap<String, String>>]) -> Result<&str, &'static str> {
    let is_local = |entry: &Pair<BTreeMap<String, String>>| {
        entry.value.get("class").is_none_or(|class| class.ends_with("LocalStrategy"))
    };
    let mut users = replication
        .iter()
        .filter(|entry| !is_local(entry) && !REPLICATED_SYSTEM.contains(&entry.key.as_str()));
    let Some(first) = users.next() else { return Ok("system_traces") };
    if users.all(|other| other.value == first.value) {
        return Ok(&first.key);
    }
    Err(
        "Non-system keyspaces don't have the same replication settings, effective ownership information is meaningless",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyspaces(text: &[(&str, &str, &str)]) -> Vec<Pair<BTreeMap<String, String>>> {
        let entry = |(key, class, factor): &(&str, &str, &str)| Pair {
            key: (*key).to_owned(),
            value: [("class", *class), ("replication_factor", *factor)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        };
        text.iter().map(entry).collect()
    }

    #[test]
    fn ownership_needs_keyspaces_that_replicate_alike() {
        let system = ("system", "LocalStrategy", "");
        let traces = ("system_traces", "SimpleStrategy", "2");
        assert_eq!(common_keyspace(&keyspaces(&[system, traces])), Ok("system_traces"));
        let alike = [system, ("a", "SimpleStrategy", "1"), traces, ("b", "SimpleStrategy", "1")];
        assert_eq!(common_keyspace(&keyspaces(&alike)), Ok("a"));
        let other = [("a", "SimpleStrategy", "1"), ("b", "SimpleStrategy", "3")];
        assert!(common_keyspace(&keyspaces(&other)).is_err());
    }
}
