//! A profile's table on the server: made if it is not there, and learned from there.

use crate::column::Column;
use crate::distribution::Distribution;
use crate::error::Error;
use crate::grammar::Ratio;
use crate::limits::{INSERT_ROWS_MAX, LEVEL_VALUES_MAX, PARTITIONS_MAX};
use crate::partition::Table;
use crate::profile::{ColumnSpec, Definition, Profile, batch_kind};
use crate::session::{Session, rest};
use crate::settings::Settings;
use client::contact::named;
use loadtools::java::fixed;
use loadtools::output::Output;
use protocol::failure::FailureKind;
use protocol::request::BatchKind;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;
use types::text::quote_name;
use types::{Consistency, CqlType, Value};

/// Rows of a partition above which a warning is worth its line.
const LARGE_PARTITION: f64 = 100e6;
/// Rows of a batch above which a warning is worth its line.
const LARGE_BATCH: f64 = 100e3;
/// Statements that a batch can have.
pub const BATCH_MAX: usize = 65_535;

/// How rows are written: what the command line says, else the profile.
#[derive(Clone, Debug)]
pub struct Inserting {
    /// Partitions of an operation.
    pub partitions: Distribution,
    /// Share of a partition's rows.
    pub select: Ratio,
    /// Share of columns that are not null.
    pub row_population: Ratio,
    /// What a batch promises.
    pub batch: BatchKind,
}

/// A profile with its table as the server knows it.
pub struct Spec {
    /// The profile.
    pub profile: Profile,
    /// Connections that use its keyspace.
    pub session: Rc<Session>,
    /// The keyspace's name.
    pub keyspace: String,
    /// The table's name.
    pub name: String,
    /// Makes its rows.
    pub table: Table,
    /// By clustering column, whether the server keeps its values in reversed order.
    pub reversed: Vec<bool>,
    /// How rows are written.
    pub inserting: Inserting,
}

impl Spec {
    /// Learns a profile's table; with connections that use no keyspace and an output, after it was made as the profile defines it.
    pub async fn open(
        profile: Profile,
        settings: &Settings,
        maker: Option<(&Session, &Output)>,
    ) -> Result<Spec, Error> {
        let keyspace = folded(&profile.keyspace);
        if let (Some((bare, _)), Some(definition)) = (maker, &profile.keyspace_definition) {
            run(&profile, bare, definition).await?;
        }
        let session = Rc::new(Session::connect(settings, Some(keyspace.clone())).await?);
        if let Some((_, output)) = maker {
            make(&profile, &session, settings, output).await?;
        }
        let (name, columns) = columns(&session, &keyspace, &profile.table).await?;
        check_columns(&profile, &format!("{keyspace}.{name}"), &columns)?;
        let (table, reversed) = table(&profile, settings, columns)?;
        let inserting = inserting(&profile, settings)?;
        let spec = Spec { profile, session, keyspace, name, table, reversed, inserting };
        spec.check(settings)?;
        if let Some((_, output)) = maker {
            spec.warn(settings, output)?;
        }
        Ok(spec)
    }

    /// Its name in statements.
    pub fn quoted_name(&self) -> String {
        format!("{}.{}", quote_name(&self.keyspace), quote_name(&self.name))
    }

    /// Rows of an operation, at least and at most.
    fn batch_rows(&self, settings: &Settings) -> (f64, f64) {
        let (least, most) = self.table.bounds();
        let (inserting, visits) = (&self.inserting, &settings.insert.visits);
        let share = |value: i64| (value as f64 / inserting.select.divisor).clamp(0.0, 1.0);
        let (select, partitions) = (&inserting.select.distribution, &inserting.partitions);
        (
            share(select.min()) * partitions.min() as f64 * least / visits.max().max(1) as f64,
            share(select.max()) * partitions.max() as f64 * most / visits.min().max(1) as f64,
        )
    }

    /// Errors: what would not fit in memory.
    fn check(&self, settings: &Settings) -> Result<(), Error> {
        let too_many = self.table.clustering.iter().find(|column| column.cluster().max() > LEVEL_VALUES_MAX);
        if let Some(column) = too_many {
            return Err(Error::run(format!(
                "{}: cluster of column {}: more than {LEVEL_VALUES_MAX} values",
                self.profile.file,
                column.name()
            )));
        }
        if self.inserting.partitions.max() > PARTITIONS_MAX {
            return Err(Error::run(format!(
                "{}: an insert of more than {PARTITIONS_MAX} partitions",
                self.profile.file
            )));
        }
        let rows = self.batch_rows(settings).1;
        if rows > INSERT_ROWS_MAX {
            return Err(Error::run(format!(
                "{}: an insert of up to {} rows, more than {}",
                self.profile.file,
                fixed(rows, 0, true),
                fixed(INSERT_ROWS_MAX, 0, true)
            )));
        }
        Ok(())
    }

    fn warn(&self, settings: &Settings, output: &Output) -> Result<(), Error> {
        let rows = self.table.bounds().1;
        let (_, most) = self.batch_rows(settings);
        let whole = |value: f64| fixed(value, 0, false);
        if rows > LARGE_PARTITION {
            output.complain(&format!(
                "WARNING: You have defined a schema that permits very large partitions ({} max rows (>100M))",
                whole(rows)
            ));
        }
        if self.inserting.batch == BatchKind::Logged && most > BATCH_MAX as f64 {
            return Err(Error::run(format!(
                "ERROR: You have defined a workload that generates batches with more than 65k rows ({}), but have required the use of LOGGED batches. There is a 65k row limit on a single batch.",
                whole(most)
            )));
        }
        if most > LARGE_BATCH {
            output.complain(&format!(
                "WARNING: You have defined a schema that permits very large batches ({} max rows (>100K)). This may OOM this stress client, or the server.",
                whole(most)
            ));
        }
        Ok(())
    }

    /// What is told of the profile before a run.
    pub fn described(&self, settings: &Settings) -> String {
        let mut text = String::new();
        let profile = &self.profile;
        let or_null = |definition: &Option<Definition>| {
            definition.as_ref().map_or_else(|| "null".to_owned(), |definition| definition.cql.clone())
        };
        writeln!(text, "  Keyspace Name: {}", profile.keyspace).ok();
        writeln!(text, "  Keyspace CQL: \n***\n{}***\n", or_null(&profile.keyspace_definition)).ok();
        writeln!(text, "  Table Name: {}", profile.table).ok();
        writeln!(text, "  Table CQL: \n***\n{}***\n", or_null(&profile.table_definition)).ok();
        let extra = match profile.extra_definitions.as_slice() {
            [] => "null".into(),
            extra => {
                let all: Vec<&str> = extra.iter().map(|definition| definition.cql.as_str()).collect();
                format!("[{}]", all.join(", "))
            }
        };
        writeln!(text, "  Extra Schema Definitions: {extra}").ok();
        writeln!(text, "  Generator Configs:").ok();
        for column in &profile.columns {
            let part = |label: &str, distribution: &Option<Distribution>| {
                distribution.as_ref().map(|distribution| format!("{label}: {};", distribution.described()))
            };
            let parts = [
                part("Clustering", &column.cluster),
                part("Size", &column.size),
                part("Identity", &column.population),
            ];
            writeln!(text, "    {}: {}", column.name, parts.into_iter().flatten().collect::<String>()).ok();
        }
        writeln!(text, "  Query Definitions:").ok();
        for query in &profile.queries {
            let fields = format!("{:?}", query.fields).to_ascii_lowercase();
            writeln!(text, "    {}: CQL:{};Fields:{fields};", query.name, query.cql).ok();
        }
        writeln!(text, "  Token Range Queries:").ok();
        for scan in &profile.scans {
            writeln!(text, "    {}: Columns:{};", scan.name, scan.columns).ok();
        }
        let (least, most) = self.table.bounds();
        let (batch_least, batch_most) = self.batch_rows(settings);
        let partitions = &self.inserting.partitions;
        let whole = |value: f64| fixed(value, 0, false);
        write!(
            text,
            "Generating batches with [{}..{}] partitions and [{}..{}] rows (of [{}..{}] total rows in the partitions)",
            partitions.min(),
            partitions.max(),
            whole(batch_least),
            whole(batch_most),
            whole(partitions.min() as f64 * least),
            whole(partitions.max() as f64 * most),
        )
        .ok();
        text
    }
}

/// A name as CQL reads it: in small letters unless it is quoted.
fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(exact) => exact.replace("\"\"", "\""),
        None => name.to_ascii_lowercase(),
    }
}

/// Makes the table and what comes after it.
async fn make(
    profile: &Profile,
    session: &Session,
    settings: &Settings,
    output: &Output,
) -> Result<(), Error> {
    let nodes = settings.node.nodes.len() as u64;
    if let Some(definition) = &profile.table_definition {
        run(profile, session, definition).await?;
        output.line(&format!("Created schema. Sleeping {nodes}s for propagation."));
        rest(Duration::from_secs(nodes)).await;
    }
    if !profile.extra_definitions.is_empty() {
        for definition in &profile.extra_definitions {
            run(profile, session, definition).await?;
        }
        output.line(&format!("Created extra schema. Sleeping {nodes}s for propagation."));
        rest(Duration::from_secs(nodes)).await;
    }
    Ok(())
}

/// Runs a definition; what is there already is well. Errors: with file, line and key.
async fn run(profile: &Profile, session: &Session, definition: &Definition) -> Result<(), Error> {
    match session.define(&definition.cql, Consistency::One).await {
        Ok(_) => Ok(()),
        Err(client::Error::Failure(failure)) if matches!(failure.kind, FailureKind::AlreadyExists { .. }) => {
            Ok(())
        }
        Err(error) => {
            let text = format!("Encountered exception creating schema: {}", named(&error));
            Err(profile.wrong(definition.line, definition.key, text))
        }
    }
}

/// A column as the server's tables describe it.
struct Known {
    name: String,
    ty: String,
    kind: String,
    position: i32,
    reversed: bool,
}

/// The table's name and columns: of the name as it is written, else of the one in small letters.
async fn columns(session: &Session, keyspace: &str, table: &str) -> Result<(String, Vec<Known>), Error> {
    let table = table.trim_matches('"');
    let mut names = vec![table.to_owned(), table.to_ascii_lowercase()];
    names.dedup();
    for name in names {
        let text = format!(
            "SELECT column_name, type, kind, position, clustering_order FROM system_schema.columns WHERE keyspace_name = {} AND table_name = {}",
            types::text::quote(keyspace),
            types::text::quote(&name)
        );
        let failed = |error: client::Error| Error::run(named(&error));
        let rows = session.query(&text, Consistency::One).await.map_err(failed)?.rows();
        let rows = rows.values().map_err(failed)?;
        let known: Vec<Known> = rows.into_iter().filter_map(|row| known(&row)).collect();
        if !known.is_empty() {
            return Ok((name, known));
        }
    }
    Err(Error::run(format!("Unable to find table {keyspace}.{table}")))
}

fn known(row: &[Value]) -> Option<Known> {
    let [Value::Text(name), Value::Text(ty), Value::Text(kind), Value::Int(position), Value::Text(order)] =
        row
    else {
        return None;
    };
    Some(Known {
        name: name.clone(),
        ty: ty.clone(),
        kind: kind.clone(),
        position: *position,
        reversed: order.eq_ignore_ascii_case("desc"),
    })
}

/// Errors: what a profile says of columns that its table does not have, and of clusters of columns that do not cluster.
fn check_columns(profile: &Profile, table: &str, known: &[Known]) -> Result<(), Error> {
    for spec in &profile.columns {
        let name = &spec.name;
        match known.iter().find(|column| column.name == *name) {
            None => {
                let text = format!("table \"{table}\" has no column \"{name}\"");
                return Err(profile.wrong(spec.line, "columnspec", text));
            }
            Some(column) if spec.cluster.is_some() && column.kind != "clustering" => {
                let text = format!("\"{name}\" is no clustering column of table \"{table}\"");
                return Err(profile.wrong(spec.cluster_line, "cluster", text));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The columns in their roles, and which of the clustering columns are in reversed order.
fn table(profile: &Profile, settings: &Settings, mut known: Vec<Known>) -> Result<(Table, Vec<bool>), Error> {
    known.sort_by(|a, b| (a.position, &a.name).cmp(&(b.position, &b.name)));
    let (mut key, mut clustering, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut reversed = Vec::new();
    for column in known {
        let default = ColumnSpec::default();
        let spec = profile.columns.iter().find(|spec| spec.name == column.name).unwrap_or(&default);
        let made = CqlType::parse(&column.ty).ok().and_then(|ty| Column::new(&column.name, &ty, spec));
        let is_key = matches!(column.kind.as_str(), "partition_key" | "clustering");
        let Some(made) = made else {
            if settings.errors.skip_unsupported && !is_key {
                continue;
            }
            return Err(Error::run(format!(
                "{}: no values of type {} of column {} can be made{}",
                profile.file,
                column.ty,
                column.name,
                if is_key { "" } else { "; -errors skip-unsupported-columns leaves it null" }
            )));
        };
        match column.kind.as_str() {
            "partition_key" => key.push(made),
            "clustering" => {
                clustering.push(made);
                reversed.push(column.reversed);
            }
            _ => values.push(made),
        }
    }
    values.sort_by(|a, b| a.name().cmp(b.name()));
    Ok((Table::new(key, clustering, values, settings.population.order), reversed))
}

fn inserting(profile: &Profile, settings: &Settings) -> Result<Inserting, Error> {
    let (said, spec) = (&settings.insert, &profile.insert);
    let batch = match &said.batch {
        None => spec.batch.unwrap_or(BatchKind::Logged),
        Some(name) => batch_kind(name)
            .ok_or_else(|| Error::run(format!("batchtype={name} is none of LOGGED, UNLOGGED, COUNTER")))?,
    };
    let all = || Ratio { distribution: Distribution::fixed(1), divisor: 1.0 };
    // The command line has it always; all columns is what it has where nothing was said.
    let row_population = &said.row_population;
    let is_all = row_population.distribution.only() == Some(1) && row_population.divisor == 1.0;
    Ok(Inserting {
        partitions: said
            .partitions
            .clone()
            .or_else(|| spec.partitions.clone())
            .unwrap_or_else(|| Distribution::fixed(1)),
        select: said.select.clone().or_else(|| spec.select.clone()).unwrap_or_else(all),
        row_population: match &spec.row_population {
            Some(ratio) if is_all => ratio.clone(),
            _ => row_population.clone(),
        },
        batch,
    })
}
