//! The state and its bytes.
//!
//! ```text
//! state  struct: version, option (u128 cluster id, name), versions (3), members (version, list), banned, aborted (lists of id, version),
//!                schema, roles, truncations (id, version, i64 µs), dropped (id, version), option operation, outcomes, u64 features
//! ```
//! A checksum is the business of the file or message that holds it.

use crate::bytes::{Input, put_bytes, put_id, put_list, put_option, put_struct, put_text, put_version};
use crate::command::FEATURES;
use crate::outcome::Remembered;
use crate::{Error, Outcome, Roles, Scope};
use base::HostId;
use schema::{Schema, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;
use topology::{Member, MemberState, Members, Version};

/// What all nodes agree on at one version. Immutable; cheap to clone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    pub(crate) version: Version,
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) versions: Versions,
    pub(crate) members: Arc<Members>,
    /// Who is refused, and since when: members that hold tokens, members that left, and nodes that never were members.
    pub(crate) banned: Arc<BTreeMap<HostId, Version>>,
    /// Whose join was given up.
    pub(crate) aborted: Arc<BTreeMap<HostId, Version>>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) roles: Arc<Roles>,
    /// Only of tables that are there.
    pub(crate) truncations: Arc<BTreeMap<TableId, Truncation>>,
    /// The last drop of each id, also of those in use again.
    pub(crate) dropped: Arc<BTreeMap<TableId, Version>>,
    pub(crate) operation: Option<Operation>,
    pub(crate) remembered: Arc<Remembered>,
    /// What kinds that were ever applied need: who lacks one of these cannot read the log.
    pub(crate) features: u64,
}

/// What a cluster is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its identity for life.
    pub id: u128,
    /// Its name.
    pub name: String,
}

/// When each part changed last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Versions {
    /// The schema.
    pub schema: Version,
    /// Members, bans, the running operation.
    pub members: Version,
    /// Roles and permissions.
    pub roles: Version,
}

/// The last truncation of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// What was planned below this version is dropped.
    pub version: Version,
    /// Microseconds since the epoch: what is not newer is gone. Never less than that of the truncation before.
    pub at: i64,
}

/// Whether a new member must be proven to miss nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Nothing is there to be missed, or it was brought.
    Proven,
    /// Nobody asks: `auto_bootstrap: false`. Reads may miss rows until a repair.
    Skipped,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// A new member joins.
    Join,
    /// A new member takes the place of this one, which is refused from the beginning of the operation.
    Replace(HostId),
}

/// The one running change of who holds what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: OperationKind,
    /// Who comes.
    pub host: HostId,
    /// The version since which writes go to it, too: what every node must have applied.
    pub since: Version,
    /// What must be proven before it ends.
    pub fill: Fill,
}

impl State {
    /// Before the first entry.
    pub fn new() -> State {
        State::default()
    }

    /// The last entry applied.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The version of an entry at this index of the log, were it applied next. The epoch changes by [`State::recovered`] alone.
    pub fn version_at(&self, index: u64) -> Version {
        Version { epoch: self.version.epoch, index }
    }

    /// The cluster; none before it was founded.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_deref()
    }

    /// When each part changed last.
    pub fn versions(&self) -> Versions {
        self.versions
    }

    /// What a command decided on this state says as its base: when its scope changed last, or the beginning of the epoch if that is
    /// later. Any version up to that of the state will do as well.
    pub fn base(&self, scope: Scope) -> Version {
        let changed = match scope {
            Scope::Schema => self.versions.schema,
            Scope::Members => self.versions.members,
            Scope::Roles => self.versions.roles,
            Scope::Truncation(table) => {
                // A table that was made again under its id is another one.
                let truncated = self.truncation(table).map(|last| last.version);
                truncated.max(self.dropped(table)).unwrap_or_default()
            }
        };
        changed.max(self.version_at(0))
    }

    /// Everybody who is or was a member. Of a banned member that holds tokens this says what it holds: see [`State::is_banned`].
    pub fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// Whether a node must be refused: it was banned, is being replaced, has left for good, or its join was given up.
    pub fn is_refused(&self, host: HostId) -> bool {
        let has_left = self.members.get(host).is_some_and(|member| !member.state.is_in());
        has_left || self.is_banned(host) || self.aborted.contains_key(&host)
    }

    /// Whether a node was put out: by a ban, or because a running operation replaces it.
    pub fn is_banned(&self, host: HostId) -> bool {
        let replaced = self.operation.is_some_and(|operation| operation.kind == OperationKind::Replace(host));
        replaced || self.banned.contains_key(&host)
    }

    /// What is logged of the schema: the built-in tables lie over it.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Roles and permissions.
    pub fn roles(&self) -> &Arc<Roles> {
        &self.roles
    }

    /// The last truncation of a table that is there.
    pub fn truncation(&self, table: TableId) -> Option<Truncation> {
        self.truncations.get(&table).copied()
    }

    /// The least version that what is written to a table may be planned on, of tables for which there is one: behind its last truncation, and
    /// behind the drop of an earlier table of its id. O(truncations + drops), as rare as they are.
    pub fn floors(&self) -> BTreeMap<TableId, Version> {
        let truncated = self.truncations.iter().map(|(id, truncation)| (*id, truncation.version));
        let dropped = self.dropped.iter().map(|(id, version)| (*id, *version));
        let mut floors: BTreeMap<TableId, Version> = BTreeMap::new();
        for (id, version) in dropped.chain(truncated).filter(|(id, _)| self.schema.table_by_id(*id).is_some())
        {
            let floor = floors.entry(id).or_insert(version);
            *floor = version.max(*floor);
        }
        floors
    }

    /// The version that dropped the last table of this id. What a node holds of an older one is gone; the id may be in use again.
    pub fn dropped(&self, table: TableId) -> Option<Version> {
        self.dropped.get(&table).copied()
    }

    /// The running operation.
    pub fn operation(&self) -> Option<Operation> {
        self.operation
    }

    /// Features that no member may lack: see [`crate::Change::needs`].
    pub fn features_in_use(&self) -> u64 {
        self.features
    }

    /// How a command ended, if that is not too long ago.
    pub fn outcome(&self, command: u128) -> Option<&Outcome> {
        self.remembered.get(command)
    }

    /// The same state as the beginning of the next epoch, after the majority was lost. ⚔ No base of the old epoch is accepted any more:
    /// a command that was decided on entries that are lost with it must not be applied.
    #[must_use]
    pub fn recovered(&self) -> State {
        State { version: Version { epoch: self.version.epoch + 1, index: 0 }, ..self.clone() }
    }

    /// Members of the present version; the caller has set `versions.members`.
    pub(crate) fn set_members(&mut self, members: Vec<Member>) {
        self.members = Arc::new(Members::new(self.versions.members, members));
    }

    /// The state as bytes, for snapshots.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_struct(&mut out, |out| self.put(out));
        out
    }

    fn put(&self, out: &mut Vec<u8>) {
        let put_dated = |out: &mut Vec<u8>, (id, version): (u128, &Version)| {
            put_id(out, id);
            put_version(out, *version);
        };
        put_version(out, self.version);
        put_option(out, self.cluster.as_deref(), |out, cluster| {
            put_id(out, cluster.id);
            put_text(out, &cluster.name);
        });
        for version in
            [self.versions.schema, self.versions.members, self.versions.roles, self.members.version()]
        {
            put_version(out, version);
        }
        put_list(out, self.members.ever().iter(), |out, member| member.encode(out));
        put_list(out, self.banned.iter().map(|(host, version)| (host.0, version)), put_dated);
        put_list(out, self.aborted.iter().map(|(host, version)| (host.0, version)), put_dated);
        put_bytes(out, &self.schema.encode());
        self.roles.put(out);
        put_list(out, self.truncations.iter(), |out, (id, truncation)| {
            put_dated(out, (id.0, &truncation.version));
            out.extend_from_slice(&truncation.at.to_be_bytes());
        });
        put_list(out, self.dropped.iter().map(|(id, version)| (id.0, version)), put_dated);
        put_option(out, self.operation, |out, operation| operation.put(out));
        self.remembered.put(out);
        out.extend_from_slice(&self.features.to_be_bytes());
    }

    /// Reads what [`State::encode`] wrote, here or in a later release whose fields come behind ours.
    pub fn decode(bytes: &[u8]) -> Result<State, Error> {
        let mut outer = Input::new(bytes);
        let mut input = outer.structure("a state")?;
        outer.end()?;
        let input = &mut input;
        let version = input.version()?;
        let cluster = input.option("a cluster", |input| {
            Ok(Arc::new(Cluster { id: input.u128("a cluster id")?, name: input.text("a cluster name")? }))
        })?;
        let versions =
            Versions { schema: input.version()?, members: input.version()?, roles: input.version()? };
        let members = Members::new(input.version()?, input.list("members", Input::member)?);
        let host = |input: &mut Input<'_>| Ok((input.host("a host id")?, input.version()?));
        let banned = input.list("bans", host)?.into_iter().collect();
        let aborted = input.list("aborted joins", host)?.into_iter().collect();
        let schema = Schema::decode(input.blob("a schema")?)?;
        let roles = Roles::read(input)?;
        let truncations = input.list("truncations", |input| {
            let id = TableId(input.u128("a table id")?);
            Ok((id, Truncation { version: input.version()?, at: input.i64("a time")? }))
        })?;
        let dropped =
            input.list("drops", |input| Ok((TableId(input.u128("a table id")?), input.version()?)))?;
        let operation = input.option("an operation", Operation::read)?;
        let remembered = Remembered::read(input)?;
        let features = input.u64("features")?;
        if features & !FEATURES != 0 {
            return Err(Error::UnknownFeatures { features: features & !FEATURES });
        }
        Ok(State {
            version,
            cluster,
            versions,
            members: Arc::new(members),
            banned: Arc::new(banned),
            aborted: Arc::new(aborted),
            schema: Arc::new(schema),
            roles: Arc::new(roles),
            truncations: Arc::new(truncations.into_iter().collect()),
            dropped: Arc::new(dropped.into_iter().collect()),
            operation,
            remembered: Arc::new(remembered),
            features,
        })
    }

    /// Members whose tokens count or will, those that were banned among them.
    pub(crate) fn in_ring(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// Members that must apply, answer and report: not the banned ones, for whom nobody waits.
    pub fn counted(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !self.is_banned(member.host_id))
    }

    /// Whether a node is a member in full right: it holds its tokens and is not refused.
    pub fn serves(&self, host: HostId) -> bool {
        let holds = |member: &Member| matches!(member.state, MemberState::Normal | MemberState::Leaving);
        self.members.get(host).is_some_and(holds) && !self.is_banned(host)
    }
}

impl Fill {
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        out.push(match self {
            Fill::Proven => 0,
            Fill::Skipped => 1,
        });
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<Fill, Error> {
        Ok(if input.flag("whether data is brought")? { Fill::Skipped } else { Fill::Proven })
    }
}

impl Operation {
    fn put(self, out: &mut Vec<u8>) {
        put_struct(out, |out| {
            let (kind, old) = match self.kind {
                OperationKind::Join => (0, HostId(0)),
                OperationKind::Replace(old) => (1, old),
            };
            out.push(kind);
            put_id(out, old.0);
            put_id(out, self.host.0);
            put_version(out, self.since);
            self.fill.put(out);
        });
    }

    fn read(input: &mut Input<'_>) -> Result<Operation, Error> {
        let mut input = input.structure("an operation")?;
        let error = input.malformed("a known operation");
        let kind = input.u8("kind of operation")?;
        let old = input.host("who is replaced")?;
        let kind = match kind {
            0 => OperationKind::Join,
            1 => OperationKind::Replace(old),
            _ => return Err(error),
        };
        let host = input.host("who comes")?;
        Ok(Operation { kind, host, since: input.version()?, fill: Fill::read(&mut input)? })
    }
}
