//! Events a client can register for, and schema changes, which are also results.

use crate::envelope::Version;
use crate::error::Error;
use crate::wire::{Reader, put_inet, put_string, put_string_list};
use std::net::SocketAddr;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Nodes come and go.
    TopologyChange,
    /// Nodes go up and down.
    StatusChange,
    /// Keyspaces, tables, types, functions change.
    SchemaChange,
    /// A trace is complete (v4): may be asked for, is never sent, as in Cassandra.
    TraceComplete,
}

const EVENT_TYPES: [EventType; 4] =
    [EventType::TopologyChange, EventType::StatusChange, EventType::SchemaChange, EventType::TraceComplete];

impl EventType {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            EventType::TopologyChange => "TOPOLOGY_CHANGE",
            EventType::StatusChange => "STATUS_CHANGE",
            EventType::SchemaChange => "SCHEMA_CHANGE",
            EventType::TraceComplete => "TRACE_COMPLETE",
        }
    }

    /// The kind with this name, in any case.
    pub fn parse(name: &str) -> Option<EventType> {
        EVENT_TYPES.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// The first version that has it.
    pub fn since(self) -> Version {
        match self {
            EventType::TopologyChange | EventType::StatusChange | EventType::SchemaChange => Version::V3,
            EventType::TraceComplete => Version::V4,
        }
    }
}

/// What happened to a node of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// Joined.
    New,
    /// Left.
    Removed,
    /// Changed its tokens.
    Moved,
}

/// What happened to a schema object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Created,
    /// It differs.
    Updated,
    /// It is gone.
    Dropped,
}

/// What a schema change is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The keyspace itself.
    Keyspace,
    /// A table, or a view or index of it.
    Table(String),
    /// A user type.
    Type(String),
    /// A function with these argument types.
    Function(String, Vec<String>),
    /// An aggregate with these argument types.
    Aggregate(String, Vec<String>),
}

/// A change of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// What happened.
    pub change: Change,
    /// In which keyspace.
    pub keyspace: String,
    /// To what.
    pub target: Target,
}

/// Something that happened, pushed on stream -1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The ring changed; the address is the node's native address.
    Topology(NodeChange, SocketAddr),
    /// A node went up (`true`) or down.
    Status(bool, SocketAddr),
    /// The schema changed.
    Schema(SchemaChange),
}

impl SchemaChange {
    /// Appends change, target and names. Version 3 knows no functions: their keyspace was updated.
    pub fn encode(&self, out: &mut Vec<u8>, version: Version) {
        if let (Target::Function(..) | Target::Aggregate(..), Version::V3) = (&self.target, version) {
            let keyspace = self.keyspace.clone();
            let updated = SchemaChange { change: Change::Updated, keyspace, target: Target::Keyspace };
            return updated.encode(out, version);
        }
        let change = match self.change {
            Change::Created => "CREATED",
            Change::Updated => "UPDATED",
            Change::Dropped => "DROPPED",
        };
        put_string(out, change);
        let (target, name, arguments) = match &self.target {
            Target::Keyspace => ("KEYSPACE", None, None),
            Target::Table(name) => ("TABLE", Some(name), None),
            Target::Type(name) => ("TYPE", Some(name), None),
            Target::Function(name, arguments) => ("FUNCTION", Some(name), Some(arguments)),
            Target::Aggregate(name, arguments) => ("AGGREGATE", Some(name), Some(arguments)),
        };
        put_string(out, target);
        put_string(out, &self.keyspace);
        if let Some(name) = name {
            put_string(out, name);
        }
        if let Some(arguments) = arguments {
            put_string_list(out, arguments);
        }
    }

    /// Reads what [`encode`](SchemaChange::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<SchemaChange, Error> {
        let change = match reader.string()? {
            "CREATED" => Change::Created,
            "UPDATED" => Change::Updated,
            "DROPPED" => Change::Dropped,
            other => return Err(Error::Message(format!("Unknown schema change {other}"))),
        };
        let target = reader.string()?;
        let keyspace = reader.string()?.to_owned();
        let arguments = |reader: &mut Reader<'_>| -> Result<Vec<String>, Error> {
            Ok(reader.string_list()?.into_iter().map(String::from).collect())
        };
        let target = match target {
            "KEYSPACE" => Target::Keyspace,
            "TABLE" => Target::Table(reader.string()?.to_owned()),
            "TYPE" => Target::Type(reader.string()?.to_owned()),
            "FUNCTION" => Target::Function(reader.string()?.to_owned(), arguments(reader)?),
            "AGGREGATE" => Target::Aggregate(reader.string()?.to_owned(), arguments(reader)?),
            other => {
                return Err(Error::Message(format!("Unknown schema change target {other}")));
            }
        };
        Ok(SchemaChange { change, keyspace, target })
    }
}

impl Event {
    /// The kind a client registers for.
    pub fn kind(&self) -> EventType {
        match self {
            Event::Topology(..) => EventType::TopologyChange,
            Event::Status(..) => EventType::StatusChange,
            Event::Schema(_) => EventType::SchemaChange,
        }
    }

    /// Appends the body of an EVENT.
    pub fn encode(&self, out: &mut Vec<u8>, version: Version) {
        put_string(out, self.kind().name());
        match self {
            Event::Topology(change, address) => {
                let change = match change {
                    NodeChange::New => "NEW_NODE",
                    NodeChange::Removed => "REMOVED_NODE",
                    NodeChange::Moved => "MOVED_NODE",
                };
                put_string(out, change);
                put_inet(out, address);
            }
            Event::Status(up, address) => {
                put_string(out, if *up { "UP" } else { "DOWN" });
                put_inet(out, address);
            }
            Event::Schema(change) => change.encode(out, version),
        }
    }

    /// Reads the body of an EVENT.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Event, Error> {
        let name = reader.string()?;
        let unknown = |what: &str| Error::Message(format!("Unknown event {what}"));
        match EventType::parse(name).ok_or_else(|| unknown(name))? {
            EventType::TopologyChange => {
                let change = match reader.string()? {
                    "NEW_NODE" => NodeChange::New,
                    "REMOVED_NODE" => NodeChange::Removed,
                    "MOVED_NODE" => NodeChange::Moved,
                    other => return Err(unknown(other)),
                };
                Ok(Event::Topology(change, reader.inet()?))
            }
            EventType::StatusChange => {
                let up = match reader.string()? {
                    "UP" => true,
                    "DOWN" => false,
                    other => return Err(unknown(other)),
                };
                Ok(Event::Status(up, reader.inet()?))
            }
            EventType::SchemaChange => Ok(Event::Schema(SchemaChange::decode(reader)?)),
            EventType::TraceComplete => Err(unknown(name)),
        }
    }
}
