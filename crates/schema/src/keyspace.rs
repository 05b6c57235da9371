//! A keyspace: a name, a replication rule and its tables.

use crate::Table;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::UdtType;

/// How many replicas a token has, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replication {
    /// Only this node, for system tables.
    Local,
    /// `SimpleStrategy`: that many nodes clockwise.
    Simple {
        /// Replicas of each token.
        factor: u32,
    },
    /// `NetworkTopologyStrategy`: that many per datacenter.
    NetworkTopology {
        /// Datacenter name to replicas.
        factors: BTreeMap<String, u32>,
    },
}

impl Replication {
    /// The full class name and options, as in `system_schema.keyspaces.replication`.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let locator = |class: &str| format!("org.apache.cassandra.locator.{class}");
        let mut map = BTreeMap::new();
        match self {
            Replication::Local => {
                map.insert("class".to_string(), locator("LocalStrategy"));
            }
            Replication::Simple { factor } => {
                map.insert("class".to_string(), locator("SimpleStrategy"));
                map.insert("replication_factor".to_string(), factor.to_string());
            }
            Replication::NetworkTopology { factors } => {
                map.insert("class".to_string(), locator("NetworkTopologyStrategy"));
                map.extend(factors.iter().map(|(dc, n)| (dc.clone(), n.to_string())));
            }
        }
        map
    }
}

/// One keyspace definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyspace {
    /// Unquoted name.
    pub name: Arc<str>,
    /// Replication rule.
    pub replication: Replication,
    /// Whether writes go to the commitlog.
    pub durable_writes: bool,
    /// By name.
    pub tables: BTreeMap<Arc<str>, Arc<Table>>,
    /// User-defined types by name.
    pub types: BTreeMap<Arc<str>, Arc<UdtType>>,
}

impl Keyspace {
    /// An empty keyspace with durable writes.
    pub fn new(name: &str, replication: Replication) -> Keyspace {
        Keyspace {
            name: name.into(),
            replication,
            durable_writes: true,
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
        }
    }
}
