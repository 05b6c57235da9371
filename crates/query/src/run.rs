//! Running bound work: reads page by page, writes, and everything that is neither.

use crate::bound::{Bound, Select, Work, Write, miscount_of_query};
use crate::engine::Engine;
use crate::error::Error;
use crate::limits;
use crate::outcome::{Announce, Answer, Outcome, Rows};
use crate::permission;
use crate::statement::Analysed;
use crate::system::definitions::VIRTUAL_KEYSPACES;
use crate::system::read;
use cluster::{ChangeKind, Changed, Cluster, Resource, SchemaEvent, Target, builtin};
use coordinator::WriteKind;
use core::time::Duration;
use cql::{
    ChangeContext, ClusterFacts, ModifyPlan, Page, Plan, SchemaChange, SelectPlan, is_system_keyspace,
};
use mutation::{ReadAnswer, ReadCommand, Scope};
use protocol::request::Parameters;
use protocol::wire::put_bytes;
use schema::{Replication, Table};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use topology::Member;
use types::Consistency;

/// Whose statement it is.
enum Who<'a> {
    /// A client's, and who is logged in there.
    Client(Option<&'a str>),
    /// The server's own.
    Server,
}

impl Engine {
    /// Runs the text of a QUERY for `user`, if somebody is logged in.
    pub async fn query(
        &self,
        keyspace: Option<&str>,
        user: Option<&str>,
        text: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Answer, Error> {
        runtime::tracing::note(|| {
            let shown = text.floor_char_boundary(limits::PARSED_SHOWN);
            format!("Parsing {}", &text[..shown])
        });
        let bound = self.bind_text(keyspace, Who::Client(user), text, parameters)?;
        runtime::tracing::note(|| "Preparing statement");
        self.seen.texts.inc();
        self.run(bound, user).await
    }

    /// Runs a statement of the server's own, which nobody has to be allowed.
    pub(crate) async fn query_unasked(
        &self,
        text: &'static str,
        parameters: &Parameters<'_>,
    ) -> Result<Answer, Error> {
        let bound = self.bind_text(None, Who::Server, text, parameters)?;
        self.seen.texts.inc();
        match bound.work {
            // Whoever changes roles shows them when all of it is written.
            Work::Write(write) => {
                self.metrics.writes.inc();
                self.run_write(write).await
            }
            work => self.run(Bound { work }, None).await,
        }
    }

    /// The whole of a SELECT of constant text from this node alone.
    pub(crate) async fn select_here(&self, text: &'static str) -> Result<Answer, Error> {
        let bound = self.bind_text(None, Who::Server, text, &Parameters::at(Consistency::One))?;
        let Work::Select(mut select) = bound.work else {
            return Err(Error::Server("a statement took the wrong way".into()));
        };
        while let Some(command) = select.run.next() {
            let answer = self.coordinator.local().read(command).await;
            let answer = answer.map_err(|error| Error::Server(error.to_string()))?;
            select.take(&answer)?;
        }
        select.answer()
    }

    fn bind_text(
        &self,
        keyspace: Option<&str>,
        who: Who<'_>,
        text: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Bound, Error> {
        let keyspace = parameters.keyspace.or(keyspace);
        let analysed = match (Analysed::of(&self.schema(), keyspace, text), who) {
            (Ok(analysed), Who::Client(user)) => {
                self.authorize(&analysed, user)?;
                Rc::new(analysed)
            }
            (Ok(analysed), Who::Server) => Rc::new(analysed),
            (Err(error), Who::Client(user)) => {
                self.authorize_refused(keyspace, text, user)?;
                return Err(error);
            }
            (Err(error), Who::Server) => return Err(error),
        };
        let announce = if parameters.skip_metadata { Announce::Skip } else { Announce::Columns };
        self.bind_analysed(&analysed, announce, parameters, miscount_of_query)
    }

    /// The whole of a SELECT, if this shard's memory alone gives it; `None`: [`Engine::run_select`] goes on from here.
    pub(crate) fn select_now(&self, select: &mut Select) -> Option<Result<Answer, Error>> {
        if self.is_made_up(select) || select.consistency.is_serial() {
            return None;
        }
        let mut reads = 0;
        while let Some(command) = select.run.next() {
            if reads > 0 && runtime::need_preempt() {
                return None;
            }
            reads += 1;
            let answer = self.coordinator.read_now(command, select.consistency)?;
            if let Err(error) = select.take(&answer) {
                return Some(Err(error));
            }
        }
        Some(select.answer().map(|answer| self.warned(answer, select)))
    }

    pub(crate) async fn run_select(&self, mut select: Select) -> Result<Answer, Error> {
        let table = select.run.plan().table().clone();
        let generated = if self.is_made_up(&select) {
            let timeout = select.timeout;
            Some(Box::pin(self.generate(&table, select.run.next(), timeout)).await?)
        } else {
            None
        };
        let (level, timeout) = (select.consistency, select.timeout);
        while let Some(command) = select.run.next() {
            let answer = match &generated {
                Some(partitions) => read::read(&table, partitions, command),
                None if level.is_serial() => self.read_serial(command, level, timeout).await?,
                None => self.coordinator.read(command, level, timeout).await?,
            };
            select.take(&answer)?;
            runtime::yield_if_needed().await;
        }
        select.answer().map(|answer| self.warned(answer, &select))
    }

    /// Reads at a serial level: one partition as conditional requests have left it. Of ranges the level is a quorum, as in
    /// Cassandra.
    async fn read_serial(
        &self,
        command: &ReadCommand,
        level: Consistency,
        timeout: Duration,
    ) -> Result<ReadAnswer, Error> {
        Ok(match &command.scope {
            Scope::Keys(_) => Box::pin(self.coordinator.read_serial(command, level, timeout)).await?,
            Scope::Range(_) => self.coordinator.read(command, level, timeout).await?,
        })
    }

    /// An answer with the warning that the tombstones met call for.
    fn warned(&self, mut answer: Answer, select: &Select) -> Answer {
        let (command, live_rows) = select.run.met();
        if command.tombstones > 0 {
            answer.warnings.extend(self.coordinator.tombstone_warning(
                command,
                live_rows,
                command.tombstones,
            ));
        }
        answer
    }

    /// The whole of a write, if nothing has to be waited for; `None`: nothing has happened, and
    /// [`Engine::run_write`] does it.
    pub(crate) fn write_now(&self, write: &mut Write) -> Option<Result<Answer, Error>> {
        if write.kind == WriteKind::Counter {
            return None;
        }
        if !write.mutations.is_empty() {
            let written = self.coordinator.write_now(&write.mutations, write.consistency, write.kind)?;
            if let Err(error) = written {
                return Some(Err(error.into()));
            }
        }
        Some(Ok(Answer { outcome: Outcome::Void, warnings: std::mem::take(&mut write.warnings) }))
    }

    pub(crate) async fn run_write(&self, write: Write) -> Result<Answer, Error> {
        if write.kind == WriteKind::Counter {
            // Boxed, so that other writes do not carry its room.
            let Write { mutations, consistency, timeout, .. } = write;
            Box::pin(self.coordinator.count(mutations, consistency, timeout)).await?;
        } else if !write.mutations.is_empty() {
            self.coordinator.write(write.mutations, write.consistency, write.kind, write.timeout).await?;
        }
        Ok(Answer { outcome: Outcome::Void, warnings: write.warnings })
    }

    /// Schema changes, USE, TRUNCATE and DESCRIBE.
    pub(crate) async fn run_other(
        &self,
        analysed: &Analysed,
        page: &Page,
        user: Option<&str>,
    ) -> Result<Answer, Error> {
        match &analysed.plan {
            Plan::SchemaChange(change) => self.change_schema(change.clone(), user).await,
            Plan::Use { keyspace } => Ok(Answer::plain(Outcome::SetKeyspace(keyspace.clone()))),
            Plan::Truncate { keyspace, table } => {
                let schema = self.schema();
                let table = cql::find_table(&schema, keyspace, table)?;
                refuse_virtual(table, "Truncation")?;
                refuse_system(&table.keyspace)?;
                self.refuse_roles(table)?;
                self.truncate(table).await?;
                if &*table.keyspace == builtin::AUTH {
                    self.show_own_roles().await?;
                }
                Ok(Answer::plain(Outcome::Void))
            }
            Plan::Role(plan) => self.run_role(plan, analysed, user).await,
            Plan::Describe(plan) => {
                let (described, next) = plan.page(&self.schema(), &self.cluster_facts(), page)?;
                let metadata = analysed.metadata.clone().ok_or_else(no_columns)?;
                let mut rows = Rows::new(metadata, Announce::Columns);
                rows.paging_state = next;
                for row in &described {
                    let values: Vec<Option<&[u8]>> = row.iter().map(Option::as_deref).collect();
                    push_row(&mut rows.count, &mut rows.content, &values);
                }
                Ok(Answer::plain(Outcome::Rows(rows)))
            }
            Plan::Select(_) | Plan::Modify(_) | Plan::Batch(_) => {
                Err(Error::Server("a statement took the wrong way".into()))
            }
        }
    }

    /// ⚔ In a cluster a truncation is part of its history: nodes that are down get it when they return, and what was written before it
    /// does not come back behind it.
    async fn truncate(&self, table: &Table) -> Result<(), Error> {
        let (at, within) = (runtime::unix_micros(), self.settings.truncate_timeout);
        let failed = |text: String| Error::Truncate(format!("Error during truncate: {text}"));
        // Tables that every node has are in no cluster's schema.
        if !builtin::is_builtin(table) {
            match Cluster::truncate(table.id, at, within).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        let truncated = self.coordinator.truncate(table.id, at, within).await;
        truncated.map_err(|error| match Error::from(error) {
            unavailable @ (Error::Unavailable { .. } | Error::Invalid(_)) => unavailable,
            other => failed(other.to_string()),
        })
    }

    /// Whether the rows of a table are made from live state when they are read; all others are stored.
    fn is_made_up(&self, select: &Select) -> bool {
        let table = select.run.plan().table();
        select.of_system && (!builtin::is_builtin(table) || self.shows_shared_roles(table))
    }

    /// Users do not write to tables made up when read; to others of the system as [`refuse_system`] says.
    pub(crate) fn refuse_modification(&self, plan: &ModifyPlan) -> Result<(), Error> {
        let table = plan.table();
        if plan.is_conditional() && VIRTUAL_KEYSPACES.contains(&&*table.keyspace) {
            return Err(Error::Invalid("Conditional updates are not supported by virtual tables".into()));
        }
        refuse_virtual(table, "Modification")?;
        refuse_system(&table.keyspace)?;
        self.refuse_roles(table)
    }

    /// Cassandra lets superusers write rows of roles. In a cluster they are not rows here.
    fn refuse_roles(&self, table: &Table) -> Result<(), Error> {
        if self.shows_shared_roles(table) {
            return Err(Error::Unauthorized(format!(
                "{} is not user-modifiable: roles are changed by CREATE, ALTER, DROP, GRANT and REVOKE",
                table.qualified_name()
            )));
        }
        Ok(())
    }

    async fn change_schema(&self, change: Arc<SchemaChange>, user: Option<&str>) -> Result<Answer, Error> {
        refuse_system(change.keyspace())?;
        let made = permission::of_maker(&change);
        let snapshot = self.coordinator.topology();
        let datacenters = snapshot.members().datacenters().into_iter().map(str::to_owned).collect();
        let context = ChangeContext {
            version: runtime::random_uuid(),
            table_id: runtime::random_uuid(),
            now_micros: self.next_timestamp(runtime::unix_micros()),
            datacenters,
            default_compaction: self.settings.default_compaction.clone(),
            drop_compact_storage: self.settings.drop_compact_storage,
        };
        self.snapshot_dropped(&self.coordinator.schema(), &change, &context).await?;
        let altered = change.is_of_keyspace().then(|| change.keyspace().to_owned());
        let replicas = self.replicas_of(altered.as_deref());
        let decided = Cluster::change(move |schema| match cql::apply(schema, &change, &context)? {
            Some(applied) => {
                let events = applied.events(schema).into_iter().map(event_of).collect();
                Ok(Some((applied.schema, events)))
            }
            None => Ok::<_, cql::Error>(None),
        });
        match decided.await {
            Ok(Ok(Changed::Nothing)) => {
                Ok(Answer { outcome: Outcome::Void, warnings: self.too_few_nodes(altered.as_deref()) })
            }
            // Of a dropped keyspace others are told of everything in it; it is the answer itself.
            Ok(Ok(Changed::Done(mut events))) => {
                Ok(match self.follow_schema(user, made, &mut events).await? {
                    Some(event) => {
                        let mut warnings = self.too_few_nodes(altered.as_deref());
                        if replicas.is_some_and(|before| Some(before) < self.replicas_of(altered.as_deref()))
                        {
                            warnings.push(MORE_REPLICAS.to_owned());
                        }
                        warnings.extend(self.unused_options(&event));
                        Answer { outcome: Outcome::SchemaChange(event), warnings }
                    }
                    None => Answer::plain(Outcome::Void),
                })
            }
            Ok(Err(error)) => Err(Error::from(error)),
            Err(cluster::Error::EmptyReaders(text)) => Err(Error::Invalid(text)),
            Err(cluster::Error::Unknown(text)) => {
                Err(Error::Server(format!("the schema may have been changed, or will be: {text}")))
            }
            Err(error) => Err(Error::Server(format!("the schema was not changed: {error}"))),
        }
    }

    /// Grants what was made to whoever made it, and takes what was granted on what is gone. The event that answers the client.
    async fn follow_schema(
        &self,
        user: Option<&str>,
        made: Vec<Resource>,
        events: &mut Vec<SchemaEvent>,
    ) -> Result<Option<SchemaEvent>, Error> {
        if self.settings.authorization.by_permissions {
            self.forget_dropped(events).await?;
            if let Some(user) = user.filter(|_| !made.is_empty()) {
                self.grant_to_maker(user, made).await?;
            }
        }
        Ok(answered(events))
    }

    /// How many replicas a keyspace has in all.
    fn replicas_of(&self, keyspace: Option<&str>) -> Option<u32> {
        match &self.schema().keyspace(keyspace?)?.replication {
            Replication::Local => None,
            Replication::Simple { factor } => Some(*factor),
            Replication::NetworkTopology { factors } => Some(factors.values().sum()),
        }
    }

    /// Warns of a keyspace that was just made or altered and asks for more replicas than there are nodes.
    fn too_few_nodes(&self, keyspace: Option<&str>) -> Vec<String> {
        let schema = self.schema();
        let Some(keyspace) = keyspace.and_then(|keyspace| schema.keyspace(keyspace)) else {
            return Vec::new();
        };
        let snapshot = self.coordinator.topology();
        let nodes: Vec<&Member> = snapshot.members().iter().collect();
        let warning = |factor: u32, count: usize| {
            let text = format!(
                "Your replication factor {factor} for keyspace {} is higher than the number of nodes {count}",
                keyspace.name
            );
            (count > 0 && factor as usize > count).then_some(text)
        };
        match &keyspace.replication {
            Replication::Local => Vec::new(),
            Replication::Simple { factor } => warning(*factor, nodes.len()).into_iter().collect(),
            Replication::NetworkTopology { factors } => {
                let of_dc = |(dc, factor): (&String, &u32)| {
                    let count = nodes.iter().filter(|node| node.dc == *dc).count();
                    Some(format!("{} for datacenter {dc}", warning(*factor, count)?))
                };
                factors.iter().filter_map(of_dc).collect()
            }
        }
    }

    /// Warns of a table that was just made or changed and has options that are not acted on.
    fn unused_options(&self, event: &SchemaEvent) -> Option<String> {
        let schema = self.schema();
        let keyspace = schema.keyspace(&event.keyspace).filter(|_| event.target == Target::Table)?;
        let table = keyspace.tables.get(event.name.as_str())?;
        cql::unused_compaction_options(&table.options.compaction)
    }

    fn cluster_facts(&self) -> ClusterFacts {
        let snapshot = self.coordinator.topology();
        let mut owners: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for member in snapshot.members().iter().filter(|member| member.state.is_read()) {
            for token in &member.tokens {
                owners.entry(token.0).or_default().push(format!("/{}", member.internode));
            }
        }
        ClusterFacts {
            name: self.info().cluster_name.clone(),
            partitioner: "Murmur3Partitioner".into(),
            snitch: "DynamicEndpointSnitch".into(),
            ranges: owners.into_iter().map(|(token, endpoints)| (token.to_string(), endpoints)).collect(),
        }
    }
}

fn refuse_virtual(table: &Table, what: &str) -> Result<(), Error> {
    if VIRTUAL_KEYSPACES.contains(&&*table.keyspace) {
        let table = table.qualified_name();
        return Err(Error::Invalid(format!("{what} is not supported by table {table}")));
    }
    Ok(())
}

/// Users neither write to system keyspaces nor change them, but for the roles and their permissions.
pub(crate) fn refuse_system(keyspace: &str) -> Result<(), Error> {
    if is_system_keyspace(keyspace) && keyspace != builtin::AUTH {
        return Err(Error::Unauthorized(format!("{keyspace} keyspace is not user-modifiable.")));
    }
    Ok(())
}

/// The event that answers the client: the keyspace's, if there is one, otherwise the first.
fn answered(events: &mut Vec<SchemaEvent>) -> Option<SchemaEvent> {
    let place = events.iter().position(|event| event.target == Target::Keyspace).unwrap_or(0);
    (place < events.len()).then(|| events.swap_remove(place))
}

fn event_of(event: cql::SchemaEvent) -> SchemaEvent {
    SchemaEvent {
        kind: match event.change {
            cql::ChangeKind::Created => ChangeKind::Created,
            cql::ChangeKind::Updated => ChangeKind::Updated,
            cql::ChangeKind::Dropped => ChangeKind::Dropped,
        },
        target: match event.target {
            cql::ChangeTarget::Keyspace => Target::Keyspace,
            cql::ChangeTarget::Table => Target::Table,
            cql::ChangeTarget::Type => Target::Type,
        },
        keyspace: event.keyspace,
        name: event.name,
    }
}

impl Select {
    /// Takes what was read.
    fn take(&mut self, answer: &ReadAnswer) -> Result<(), Error> {
        let (count, content) = (&mut self.rows.count, &mut self.rows.content);
        content.reserve(answer.partitions.iter().map(|p| p.as_bytes().len()).sum());
        self.run.feed(answer, &mut |values| push_row(count, content, values))?;
        if self.rows.content.len() > limits::RESULT_BYTES_MAX {
            return Err(Error::Invalid(format!(
                "the result is larger than {} bytes: ask for it in pages",
                limits::RESULT_BYTES_MAX
            )));
        }
        Ok(())
    }

    /// The page, once everything was read. The rows are taken out of it.
    fn answer(&mut self) -> Result<Answer, Error> {
        let fresh = Rows::new(self.rows.metadata.clone(), self.rows.announce);
        let mut rows = std::mem::replace(&mut self.rows, fresh);
        let (count, content) = (&mut rows.count, &mut rows.content);
        rows.paging_state = self.run.finish(&mut |values| push_row(count, content, values))?;
        let warnings = wide_aggregate(self.run.plan()).map(str::to_string).into_iter().collect();
        Ok(Answer { outcome: Outcome::Rows(rows), warnings })
    }
}

const MORE_REPLICAS: &str =
    "When increasing replication factor you need to run a full (-full) repair to distribute the data.";

/// The warning that an aggregate over more than one partition calls for.
fn wide_aggregate(plan: &SelectPlan) -> Option<&'static str> {
    match (plan.is_aggregate(), plan.restricts_partition(), plan.is_by_several_keys()) {
        (true, false, _) => Some("Aggregation query used without partition key"),
        (true, true, true) => Some("Aggregation query used on multiple partition keys (IN restriction)"),
        _ => None,
    }
}

fn no_columns() -> Error {
    Error::Server("a result without columns".into())
}

/// Appends a row in wire form.
pub(crate) fn push_row(count: &mut u32, content: &mut Vec<u8>, values: &[Option<&[u8]>]) {
    *count += 1;
    for value in values {
        put_bytes(content, *value);
    }
}
