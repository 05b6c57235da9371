//! What the engine is told.

use crate::info::NodeInfo;
use core::time::Duration;
use std::collections::BTreeMap;
use types::Consistency;

/// How clients say who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authenticator {
    /// They do not.
    AllowAll,
    /// By name and password.
    Password,
}

impl Authenticator {
    /// The class drivers are told in AUTHENTICATE.
    pub fn class(self) -> &'static str {
        match self {
            Authenticator::AllowAll => "org.apache.cassandra.auth.AllowAllAuthenticator",
            Authenticator::Password => "org.apache.cassandra.auth.PasswordAuthenticator",
        }
    }
}

/// Who is let in, and for how long a login is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authentication {
    /// How clients say who they are.
    pub authenticator: Authenticator,
    /// How long a login is remembered; a role that another node has changed is known as it was for so long.
    pub validity: Duration,
    /// Logins that one shard remembers.
    pub remembered_max: usize,
    /// How many replicas are asked for a role; more than half for the default one.
    pub read_level: Consistency,
    /// How many replicas must have what is written of a role; more than half for the default one.
    pub write_level: Consistency,
}

/// What those who were let in may do. Both need to know who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authorization {
    /// What was granted to them: `CassandraAuthorizer`.
    pub by_permissions: bool,
    /// Only on nodes of the datacenters that their roles name: `CassandraNetworkAuthorizer`.
    pub by_datacenter: bool,
}

impl Authorization {
    /// Everybody may everything, everywhere.
    pub const NONE: Authorization = Authorization { by_permissions: false, by_datacenter: false };

    /// Whether anything is asked of anybody.
    pub fn is_on(self) -> bool {
        self.by_permissions || self.by_datacenter
    }
}

impl Authentication {
    /// Everybody is let in; Cassandra's numbers for who asks for passwords.
    pub const STANDARD: Authentication = Authentication {
        authenticator: Authenticator::AllowAll,
        validity: Duration::from_millis(2000),
        remembered_max: auth::limits::REMEMBERED_MAX,
        read_level: Consistency::LocalQuorum,
        write_level: Consistency::EachQuorum,
    };
}

/// Settings of the engine, the same on every shard.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This node and its peers.
    pub info: NodeInfo,
    /// Who is let in.
    pub authentication: Authentication,
    /// What they may do.
    pub authorization: Authorization,
    /// Requests that take longer are told in the log; zero tells none.
    pub slow_timeout: Duration,
    /// How long a read of named partitions may take.
    pub read_timeout: Duration,
    /// How long a read of a range may take, one page of it.
    pub range_timeout: Duration,
    /// How long a write may take.
    pub write_timeout: Duration,
    /// How long a write of counters may take.
    pub counter_write_timeout: Duration,
    /// How long a truncation may take.
    pub truncate_timeout: Duration,
    /// The bytes after which a page is cut.
    pub page_bytes: u32,
    /// The tombstones after which a page is cut.
    pub page_tombstones: u32,
    /// Batches of several partitions above this many bytes carry a warning.
    pub batch_warn_bytes: usize,
    /// Unlogged batches of more partitions carry a warning.
    pub batch_warn_partitions: usize,
    /// Batches of several partitions above this many bytes are refused.
    pub batch_fail_bytes: usize,
    /// `compaction` of tables that are made without a choice; `None`: Cassandra's own.
    pub default_compaction: Option<BTreeMap<String, String>>,
    /// Whether ALTER TABLE … DROP COMPACT STORAGE is allowed.
    pub drop_compact_storage: bool,
}
